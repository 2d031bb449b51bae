"""``psephos consensus``: a private consensus ranking of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.inputs import (
    CleanOption,
    DeltaOption,
    EpsilonOption,
    FileArgument,
    ItemsOption,
    LayoutOption,
    StrictOption,
    read_data,
)
from psephos.cli.output import claimed, count_of, note, progress, quiet_stdout, shown, write_csv, write_result

if TYPE_CHECKING:
    from psephos.central import Consensus
    from psephos.privacy import Release

__all__ = ["consensus"]


def consensus(
    file: FileArgument,
    epsilon: EpsilonOption,
    delta: DeltaOption = "0",
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            help="auto, laplace (pure), gaussian, exponential (draws a ranking); for ballots shaped, borda.",
        ),
    ] = "auto",
    unranked: Annotated[
        str | None,
        typer.Option(
            "--unranked",
            help="Unranked items of ballots come last (the default), or are missing: compared with nothing.",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        str, typer.Option("--unit", help="What is protected: a person with all their answers, or one comparison.")
    ] = "person",
    pairs: Annotated[
        int | None,
        typer.Option("--pairs", help="Comparisons by person: on how many pairs one person counts (items if absent)."),
    ] = None,
    post_processing: Annotated[
        str, typer.Option("--post-processing", help="adaptive (shrinks cyclic noise) or raw.")
    ] = "adaptive",
    output_format: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    output: Annotated[Path | None, typer.Option("--output", help="Write here instead of stdout.")] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Ledger file; debited before noise is drawn.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Name of the dataset in the ledger.")] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="EPS[,DELTA]: the dataset's total, given once and then stored.")
    ] = None,
    request_id: Annotated[
        str | None, typer.Option("--request-id", help="Asked again, this request gives its stored answer for free.")
    ] = None,
    items: ItemsOption = None,
    items_public_as_seen: Annotated[
        bool, typer.Option("--items-public-as-seen", help="Declare the items seen in the data a public list.")
    ] = False,
    clean: CleanOption = "reject",
    layout: LayoutOption = None,
    strict: StrictOption = False,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds for the solver.")] = 60.0,
) -> None:
    """Release a consensus (Kemeny) ranking of a file under differential privacy, best first."""
    from psephos._check import check_choice
    from psephos.central import private_consensus, release_to_json
    from psephos.errors import ParameterError
    from psephos.privacy import Ledger
    from psephos.profile import Comparisons

    check_choice(output_format, "format", ("table", "csv", "json"))
    if (ledger is None) != (dataset is None):
        raise ParameterError("--ledger and --dataset go together")
    if ledger is None and (budget is not None or request_id is not None):
        raise ParameterError("--budget and --request-id need --ledger and --dataset")
    for other in (file, ledger, items):
        if output is not None and other is not None and output.resolve() == other.resolve():
            raise ParameterError(f"--output must not be {str(other)!r}, which is read")
    with claimed(output), quiet_stdout():
        data = read_data(file, clean=clean, layout=layout, items=items, strict=strict)
        for line in data.notes:
            note(line)
        if isinstance(data, Comparisons) and unranked == "last":
            raise ParameterError("--unranked last is for ballots: pairs that were not compared are missing")
        if items_public_as_seen:
            data = data.with_items_public()
        with progress("computing the consensus"):
            release = private_consensus(
                data,
                epsilon=epsilon,
                delta=delta,
                mechanism=mechanism,  # type: ignore[arg-type]
                unranked=unranked or "last",  # type: ignore[arg-type]
                unit=unit,  # type: ignore[arg-type]
                pairs=pairs,
                post_processing=post_processing,  # type: ignore[arg-type]
                time_limit=time_limit,
                ledger=None if ledger is None else Ledger(ledger),
                dataset=dataset,
                request_id=request_id,
                budget=None if budget is None else _budget(budget),
            )
        if output_format == "json":
            text = release_to_json(release)
        elif output_format == "csv":
            rows = [(rank, name) for rank, names in release.value.ranking() for name in names]
            text = write_csv(("rank", "item"), rows)
            note(_sentence(release))
        else:
            text = _table(release)
    write_result(text, output)


def _budget(text: str) -> tuple[str, str]:
    epsilon, _, delta = text.partition(",")
    return epsilon, delta or "0"


def _table(release: Release[Consensus]) -> str:
    width = len(str(release.value.m))
    lines = [f"{rank:>{max(width, 4)}}  {shown(name)}" for rank, names in release.value.ranking() for name in names]
    return "\n".join(["rank  item", *lines, "", _sentence(release)])


def _sentence(release: Release[Consensus]) -> str:
    from psephos.privacy import decimal_text

    value = release.value
    unit = ("person", "people") if release.guarantee.unit == "person" else ("comparison",)
    units, items = count_of(value.units, *unit), count_of(value.m, "item")
    text = release.guarantee.sentence().rstrip(".")
    if value.estimate is None:
        text += f"; mechanism {value.mechanism}, one ranking drawn from the margins of {units}"
    else:
        sd = value.estimate.noise.sd
        text += f"; mechanism {value.mechanism}, noise of standard deviation {sd:.4g} votes on each margin of {units}"
    text += f" (their number and the list of {items} are public)"
    if value.pairs is not None:
        text += f"; each person counts on {count_of(value.pairs, 'pair')} at most"
    if value.gap:
        table = "released table" if value.post_processing == "raw" else "post-processed release"
        text += f"; time ran out, and the ranking is within {decimal_text(value.gap)} votes of the best of the {table}"
    if release.remaining is None:
        text += "; no ledger was kept"
    else:
        text += f"; epsilon {decimal_text(release.remaining[0])} and delta {decimal_text(release.remaining[1])} remain"
    if not release.secure:
        text += "; INSECURE: made with test bits"
    return text + "."

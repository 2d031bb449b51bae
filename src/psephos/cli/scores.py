"""``psephos scores``: scores of items from reports or comparisons, or, under a budget, private ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.inputs import check_output, holds_reports, read_data, read_items
from psephos.cli.options import (
    DeltaOption,
    ItemsOption,
    ItemsPublicOption,
    LedgerOptions,
    OutputOption,
    PairsOption,
    ScoreOptions,
    StrictOption,
)
from psephos.cli.output import (
    claimed,
    count_of,
    note,
    progress,
    quiet_stdout,
    release_sentence,
    units_of,
    write_csv,
    write_result,
)

if TYPE_CHECKING:
    from psephos.central import PrivateScores
    from psephos.privacy import Release

__all__ = ["scores"]


def scores(
    file: Annotated[
        Path,
        typer.Argument(
            help="Reports of devices (.jsonl), comparisons (CSV left,right,winner) or ballots.", show_default=False
        ),
    ],
    *,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            help="Release private scores of comparisons, at this loss in nats; without it they are NOT private.",
            show_default=False,
        ),
    ] = None,
    delta: DeltaOption = "0",
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph", help="Private scores: whether who was asked to compare what is private (default) or public."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Private scores: protect a person (default), or one comparison.")
    ] = None,
    pairs: PairsOption = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", help="Reports: adaptive (by what their epsilon lets through, default) or uniform."),
    ] = None,
    max_epsilon: Annotated[
        str | None,
        typer.Option(
            "--max-epsilon",
            help="Reports: what the poll allowed a person; a report that declares more is refused. Without it no "
            "answer weighs more than nine in ten reports allow.",
            show_default=False,
        ),
    ] = None,
    unranked: Annotated[
        str | None,
        typer.Option(
            "--unranked",
            help="Ballots: unranked items lose to ranked ones (last, the default), or are not compared (missing).",
            show_default=False,
        ),
    ] = None,
    shape: ScoreOptions,
    output: OutputOption = None,
    payment: LedgerOptions,
    items: ItemsOption = None,
    items_public_as_seen: ItemsPublicOption = False,
    strict: StrictOption = False,
) -> None:
    """Scores of items, with intervals of scores and ranks.

    From reports of devices: free, since each answer was randomised by who gave it. From comparisons with --epsilon: a
    release under differential privacy. From comparisons or ballots without it: a fit for the holder alone.
    """
    from psephos._check import check_choice
    from psephos.errors import ParameterError
    from psephos.local.budget import device_epsilon

    shape.check()
    payment.check()
    check_output(output, "--output", read=(file, payment.ledger, items))
    reports = holds_reports(file)
    if reports and epsilon is not None:
        raise ParameterError(
            "--epsilon is for comparisons: reports were randomised by who gave them, and say with what"
        )
    if reports and strict:
        raise ParameterError("--strict is for files with a header: reports have none")
    if max_epsilon is not None:
        device_epsilon(max_epsilon, "--max-epsilon")
        if not reports:
            raise ParameterError("--max-epsilon is for reports, which declare their epsilon")
    if unranked is not None:
        check_choice(unranked, "--unranked", ("last", "missing"))
        if reports or epsilon is not None:
            raise ParameterError("--unranked is for ballots without --epsilon")
    if epsilon is None:
        private = {
            "--delta": delta != "0",
            "--graph": graph is not None,
            "--unit": unit is not None,
            "--pairs": pairs is not None,
            "--ledger": payment.ledger is not None,
            "--items-public-as-seen": items_public_as_seen,
        }
        for option, given in private.items():
            if given:
                raise ParameterError(f"{option} is for private scores, which need --epsilon and comparisons")
    if weights is not None and not reports:
        raise ParameterError("--weights is for reports, whose epsilons may differ")
    with claimed(output), quiet_stdout():
        if reports:
            text = _from_reports(file, items, weights or "adaptive", max_epsilon, shape)
        elif epsilon is None:
            text = _not_private(file, items, strict, unranked, shape)
        else:
            from psephos.central import private_scores

            no_ballots = ": psephos consensus ranks them"
            data = read_data(
                file, items=items, strict=strict, items_public=items_public_as_seen, comparisons_only=no_ballots
            )
            with progress("computing the scores"):
                release = private_scores(
                    data,  # type: ignore[arg-type]  # comparisons
                    epsilon=epsilon,
                    delta=delta,
                    graph=graph or "private",  # type: ignore[arg-type]
                    unit=unit or "person",  # type: ignore[arg-type]
                    pairs=pairs,
                    link=shape.link,
                    level=shape.level,
                    account=payment.account(),
                )
            text = _release_text(release, shape)
    write_result(text, output)


def _from_reports(file: Path, items: Path | None, weights: str, max_epsilon: str | None, shape: ScoreOptions) -> str:
    from psephos.cli.fitted import fit_text, reports_guarantee, reports_sentence
    from psephos.local.columns import ReportColumns
    from psephos.local.debias import limited_reports
    from psephos.local.fit import fit_reports

    with progress("reading reports"):
        columns = ReportColumns.from_reports(file, items=read_items(items), max_epsilon=max_epsilon)
    with progress("computing the scores"):
        fit = fit_reports(
            columns,
            weights=weights,  # type: ignore[arg-type]
            max_epsilon=max_epsilon,
            link=shape.link,
            level=shape.level,
        )
        limited = None if max_epsilon is not None else limited_reports(columns, weights)
        about = reports_sentence(columns, limited)
        if shape.output_format == "csv":
            note(about)
        return fit_text(fit, shape, about=about, guarantee=reports_guarantee(columns, max_epsilon, limited))


def _not_private(file: Path, items: Path | None, strict: bool, unranked: str | None, shape: ScoreOptions) -> str:
    from psephos.cli.fitted import fit_text
    from psephos.errors import ParameterError
    from psephos.profile import Comparisons
    from psephos.scores import fit_scores

    data = read_data(file, items=items, strict=strict)
    if unranked == "last" and isinstance(data, Comparisons):
        raise ParameterError("--unranked last is for ballots: pairs that were not compared are missing")
    with progress("computing the scores"):
        fit = fit_scores(data, link=shape.link, level=shape.level, unranked=unranked or "last")  # type: ignore[arg-type]
        if isinstance(data, Comparisons):
            about = count_of(data.records, "comparison")
            if data.persons is not None:
                about += f" of {count_of(len(data.persons), 'person', 'people')}"
        else:
            about = count_of(data.people, "ballot")
        about = f"NOT PRIVATE, for the holder alone: {about}."
        if shape.output_format != "table":
            note(about)
        return fit_text(fit, shape, about=about, guarantee=None)


def _release_text(release: Release[PrivateScores], shape: ScoreOptions) -> str:
    from psephos.central import scores_to_json
    from psephos.cli.fitted import score_table

    rows = _rows(release.value, shape.top)
    if shape.output_format == "json":
        return scores_to_json(release)
    if shape.output_format == "csv":
        note(_sentence(release))
        return write_csv(("item", "score", "low", "high", "best_rank", "worst_rank"), rows)
    return "\n".join([score_table(rows, level=release.value.level, groups=[]), "", _sentence(release)])


def _rows(value: PrivateScores, top: int | None) -> list[tuple[str, float, float, float, int | None, int | None]]:
    columns = (value.items, value.scores, value.low, value.high, value.best_rank, value.worst_rank)
    return list(zip(*columns, strict=True))[:top]


def _sentence(release: Release[PrivateScores]) -> str:
    value = release.value
    noise = f"noise of standard deviation {value.rows_noise.sd / 2:.4g} wins on each item"
    if value.answers_noise is not None:
        noise += f" and {value.answers_noise.sd:.4g} answers on each pair"
    who = units_of(release, value.units)
    if value.graph == "public":
        who += f" with {count_of(sum(map(sum, value.answers)) // 2, 'answer')} that count"
    if value.pairs is not None:
        who += f", each counting on {count_of(value.pairs, 'pair')} at most"
    sure = f"all rank intervals hold at once with probability {100 * value.level:g}%, if comparisons are independent"
    return release_sentence(release, [noise, who, sure])

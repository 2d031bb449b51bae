"""``psephos scores``: private scores of items from a file of comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.inputs import (
    DatasetOption,
    DeltaOption,
    EpsilonOption,
    FileArgument,
    FormatOption,
    ItemsOption,
    ItemsPublicOption,
    LedgerOption,
    OutputOption,
    PairsOption,
    RequestOption,
    StrictOption,
    TotalOption,
    UnitOption,
    check_files,
    read_data,
    split_budget,
)
from psephos.cli.output import claimed, count_of, note, progress, quiet_stdout, shown, spending, write_csv, write_result

if TYPE_CHECKING:
    from psephos.central import PrivateScores
    from psephos.privacy import Release

__all__ = ["scores"]


def scores(
    file: FileArgument,
    epsilon: EpsilonOption,
    delta: DeltaOption = "0",
    graph: Annotated[
        str, typer.Option("--graph", help="Whether who was asked to compare what is public, or private.")
    ] = "private",
    unit: UnitOption = "person",
    pairs: PairsOption = None,
    link: Annotated[str, typer.Option("--link", help="logistic (Bradley-Terry) or normal (Thurstone).")] = "logistic",
    level: Annotated[float, typer.Option("--level", help="Of the intervals.")] = 0.95,
    top: Annotated[
        int | None, typer.Option("--top", help="Only so many items, best first.", show_default=False)
    ] = None,
    output_format: FormatOption = "table",
    output: OutputOption = None,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    budget: TotalOption = None,
    request_id: RequestOption = None,
    items: ItemsOption = None,
    items_public_as_seen: ItemsPublicOption = False,
    strict: StrictOption = False,
) -> None:
    """Release scores of items from comparisons under differential privacy, with intervals of scores and ranks."""
    from psephos._check import check_choice, check_integer
    from psephos.central import private_scores, scores_to_json
    from psephos.errors import ParameterError
    from psephos.privacy import Ledger
    from psephos.profile import Comparisons

    check_choice(output_format, "format", ("table", "csv", "json"))
    if top is not None:
        check_integer(top, "--top", low=1)
        if output_format == "json":
            raise ParameterError("--top is for tables and CSV: the JSON holds the whole release")
    check_files(output, file=file, ledger=ledger, items=items, dataset=dataset, budget=budget, request_id=request_id)
    with claimed(output), quiet_stdout():
        data = read_data(file, clean="reject", layout=None, items=items, strict=strict)
        if not isinstance(data, Comparisons):
            raise ParameterError(f"{file.name!r} holds ballots: psephos consensus ranks them")
        for line in data.notes:
            note(line)
        if items_public_as_seen:
            data = data.with_items_public()
        with progress("computing the scores"):
            release = private_scores(
                data,
                epsilon=epsilon,
                delta=delta,
                graph=graph,  # type: ignore[arg-type]
                unit=unit,  # type: ignore[arg-type]
                pairs=pairs,
                link=link,
                level=level,
                ledger=None if ledger is None else Ledger(ledger),
                dataset=dataset,
                request_id=request_id,
                budget=split_budget(budget),
            )
        if output_format == "json":
            text = scores_to_json(release)
        elif output_format == "csv":
            header = ("item", "score", "low", "high", "best_rank", "worst_rank")
            text = write_csv(header, _rows(release.value, top))
            note(_sentence(release))
        else:
            text = _table(release, top)
    write_result(text, output)


def _rows(value: PrivateScores, top: int | None) -> list[tuple[str, float, float, float, int, int]]:
    columns = (value.items, value.scores, value.low, value.high, value.best_rank, value.worst_rank)
    return list(zip(*columns, strict=True))[:top]


def _table(release: Release[PrivateScores], top: int | None) -> str:
    value = release.value
    lines = [f" score  {100 * value.level:g}% interval    ranks  item"]
    for item, score, low, high, best, worst in _rows(value, top):
        ranks = str(best) if best == worst else f"{best}-{worst}"
        lines.append(f"{round(score, 2) + 0.0:6.2f}  [{low:6.2f}, {high:6.2f}]  {ranks:>7}  {shown(item)}")
    return "\n".join([*lines, "", _sentence(release)])


def _sentence(release: Release[PrivateScores]) -> str:
    value = release.value
    unit = ("person", "people") if release.guarantee.unit == "person" else ("comparison",)
    text = release.guarantee.sentence().rstrip(".")
    text += f"; noise of standard deviation {value.rows_noise.sd / 2:.4g} wins on each item"
    if value.answers_noise is not None:
        text += f" and {value.answers_noise.sd:.4g} answers on each pair"
    text += f"; {count_of(value.units, *unit)}"
    if value.graph == "public":
        text += f" with {count_of(sum(map(sum, value.answers)) // 2, 'answer')} that count"
    if value.pairs is not None:
        text += f", each counting on {count_of(value.pairs, 'pair')} at most"
    text += f"; all rank intervals hold at once with probability {100 * value.level:g}%, if comparisons are independent"
    return text + spending(release)

"""``psephos randomise``: the reports that people's devices would send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from psephos.cli.inputs import check_output, read_data
from psephos.cli.options import (
    BallotOptions,
    FileArgument,
    ItemsOption,
    ItemsPublicOption,
    OutputOption,
    StrictOption,
    UnitOption,
)
from psephos.cli.output import claimed, count_of, note, progress

__all__ = ["randomise"]


def randomise(
    file: FileArgument,
    *,
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon", help="Nats for a person with all answers, or for each answer (--unit).", show_default=False
        ),
    ],
    unit: UnitOption = "person",
    pairs: Annotated[
        str | None,
        typer.Option("--pairs", help="How many pairs each person answers, or 'all'; by default the best number."),
    ] = None,
    pairs_public_as_seen: Annotated[
        bool,
        typer.Option(
            "--pairs-public-as-seen",
            help="Comparisons: declare which pairs each person judged a public assignment; they are asked, no others.",
        ),
    ] = False,
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="binary, or three-outcome (reports ties; see psephos plan local).")
    ] = "binary",
    output: OutputOption = None,
    ballots: BallotOptions,
    items: ItemsOption = None,
    items_public_as_seen: ItemsPublicOption = False,
    strict: StrictOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="--output may replace a file that exists.")] = False,
) -> None:
    """Randomise ballots or comparisons as each person's device would: one report a person, JSON Lines.

    Reports may be published. Running it again on the same people spends their epsilon again.
    """
    from psephos.errors import ParameterError
    from psephos.local import odds_sentence, report_line
    from psephos.local.population import population_reports
    from psephos.profile import Comparisons

    check_output(output, "--output", read=(file, items))
    if output is not None and output.is_file() and not overwrite:
        raise ParameterError(
            f"--output {str(output)!r} exists, and new reports would spend their epsilon again: --overwrite replaces it"
        )
    if pairs is not None and pairs != "all" and not (pairs.isascii() and pairs.isdigit() and len(pairs) < 10):
        raise ParameterError(f"--pairs must be a whole number >= 1, or 'all', got {pairs!r}")
    number = int(pairs) if pairs is not None and pairs != "all" else pairs
    with claimed(output):
        data = read_data(file, items=items, strict=strict, ballots=ballots)
        if items_public_as_seen:
            if not isinstance(data, Comparisons) and data.items_source == "declared":
                raise ParameterError(
                    "--items-public-as-seen is for comparisons, and for ballots by position without a list of items: "
                    "this file declares its items"
                )
            data = data.with_items_public()
        reports = population_reports(
            data,
            epsilon=epsilon,
            unit=unit,  # type: ignore[arg-type]
            pairs=number,  # type: ignore[arg-type]
            pairs_public=pairs_public_as_seen,
            mechanism=mechanism,  # type: ignore[arg-type]
        )
        records = most = 0
        least = 10**9
        with progress("randomising"), _lines(output) as write:
            for report in reports:
                write(report_line(report) + "\n")
                records += 1
                most, least = max(most, len(report.answers)), min(least, len(report.answers))
    assumptions = ["the list of items, as seen in the data, is public"] if items_public_as_seen else []
    if pairs_public_as_seen:
        assumptions.append("which pairs each person judged is public")
    if unit == "comparison":
        assumptions.append("one comparison, not one person, is what must be hidden")
    # Whoever answers least spends most on an answer; whoever answers most spends most in all, if each answer counts.
    each = least if unit == "person" else most
    note(odds_sentence(epsilon, answers=each, unit=unit, mechanism=mechanism))  # type: ignore[arg-type]
    spread = "" if least == most else f"{least} to "
    text = f"{count_of(records, 'report')}, {spread}{count_of(most, 'answer')} each"
    note(text + (f"; assumed: {'; '.join(assumptions)}" if assumptions else ""))


@contextmanager
def _lines(output: Path | None) -> Iterator[Callable[[str], int]]:
    """Writes lines to a file or to stdout, as they come."""
    import sys

    if output is None:
        yield sys.stdout.write
        sys.stdout.flush()
        return
    with output.open("w", encoding="utf-8", newline="\n") as stream:
        yield stream.write

"""Options that several commands share, and reading what they name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from psephos.profile import Comparisons, Profile

__all__ = [
    "AllowVoidOption",
    "CleanOption",
    "ColumnsOption",
    "CountColumnOption",
    "DatasetOption",
    "DeltaOption",
    "EpsilonOption",
    "FileArgument",
    "FormatOption",
    "IgnoreOption",
    "ItemsOption",
    "ItemsPublicOption",
    "LayoutOption",
    "LedgerOption",
    "OutputOption",
    "PairsOption",
    "PersonColumnOption",
    "RequestOption",
    "StrictOption",
    "TotalOption",
    "UnitOption",
    "check_files",
    "check_output",
    "holds_reports",
    "read_data",
    "read_items",
    "split_budget",
]

_REPORTS = "psephos.report/1"

FileArgument = Annotated[
    Path,
    typer.Argument(
        help="Ballots (PrefLib or CSV) or comparisons (CSV left,right,winner); the content decides.", show_default=False
    ),
]
EpsilonOption = Annotated[
    str, typer.Option("--epsilon", help="Privacy loss in nats: 0.1, 1/11, ...", show_default=False)
]
DeltaOption = Annotated[str, typer.Option("--delta", help="0 for pure privacy, else for example 1e-6.")]
CleanOption = Annotated[
    str,
    typer.Option(
        "--clean",
        help="What a ballot that breaks a rule becomes: reject (an error), keep-first (of repeated items), empty.",
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option("--layout", help="CSV ballots: positions or places; from the header if absent.", show_default=False),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        help="CSV ballots: the columns of ballots, between commas or one by one; a question stands for its columns.",
        show_default=False,
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="CSV ballots: columns that are left out, named likewise.", show_default=False),
]
CountColumnOption = Annotated[
    str | None,
    typer.Option(
        "--count-column", help="CSV ballots: the column that says how many people a row stands for.", show_default=False
    ),
]
PersonColumnOption = Annotated[
    str | None,
    typer.Option(
        "--person-column",
        help="CSV ballots: the column that says who answered; the last ballot of each person counts.",
        show_default=False,
    ),
]
AllowVoidOption = Annotated[
    bool, typer.Option("--allow-void", help="With --clean: even if more than half of the ballots become void.")
]
ItemsOption = Annotated[
    Path | None,
    typer.Option("--items", help="A text file with the public list of items, one a line.", show_default=False),
]
UnitOption = Annotated[
    str, typer.Option("--unit", help="What is protected: a person with all their answers, or one comparison.")
]
PairsOption = Annotated[
    int | None,
    typer.Option("--pairs", help="Comparisons by person: on how many pairs one person counts."),
]
ItemsPublicOption = Annotated[
    bool, typer.Option("--items-public-as-seen", help="Declare the items seen in the data a public list.")
]
FormatOption = Annotated[str, typer.Option("--format", help="table, csv or json.")]
OutputOption = Annotated[Path | None, typer.Option("--output", help="Write here instead of stdout.")]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="Ledger file; debited before noise is drawn.")]
DatasetOption = Annotated[str | None, typer.Option("--dataset", help="Name of the dataset in the ledger.")]
TotalOption = Annotated[
    str | None, typer.Option("--budget", help="EPS[,DELTA]: the dataset's total, given once and then stored.")
]
RequestOption = Annotated[
    str | None, typer.Option("--request-id", help="Asked again, this request gives its stored answer for free.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="A header that contradicts the body is an error.")]


def read_items(path: Path | None) -> list[str] | None:
    """The public list of items in a text file, one a line."""
    import warnings

    from psephos.errors import DataError
    from psephos.profile.encoding import open_text
    from psephos.profile.names import check_items

    if path is None:
        return None
    with open_text(path) as stream:
        names = [line.strip() for line in stream if line.strip()]
    if not names:
        raise DataError("the list of items is empty", source=path.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader warns; here a fault gets its file's name
        check_items(names, source=path.name)
    return names


def read_data(
    path: Path,
    *,
    items: Path | None,
    strict: bool,
    clean: str = "reject",
    layout: str | None = None,
    columns: list[str] | None = None,
    ignore: list[str] | None = None,
    count_column: str | None = None,
    person_column: str | None = None,
    allow_void: bool = False,
) -> Profile | Comparisons:
    """Read ballots or comparisons, told apart by what the file holds; a suffix that says otherwise is a warning.

    Raises
    ------
    DataError
        for faults, and for a file of another kind, with the command that reads it.
    """
    from psephos._check import check_choice
    from psephos.errors import DataError, ParameterError
    from psephos.profile import file_kind, read_ballots_csv, read_comparisons_csv, read_preflib
    from psephos.profile.repair import check_clean

    policy = check_clean(clean)
    form = None if layout is None else check_choice(layout, "--layout", ("positions", "places"))
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ParameterError(f"{str(path)!r} is a pipe or a device, which can be read only once: save it as a file")
    names = read_items(items)
    kind = file_kind(path)
    if kind == "json":
        raise DataError(_of_json(path), source=path.name)
    about = {
        "--layout": layout,
        "--columns": columns,
        "--ignore": ignore,
        "--count-column": count_column,
        "--person-column": person_column,
    }
    given = [option for option, value in about.items() if value]
    if kind == "records" and names is None and not given:
        raise DataError(
            "this looks like a table of records, numbers of which most are no places: psephos posterior reads those. "
            "If they are ballots, give --layout, --columns or --items",
            source=path.name,
        )
    expected = {".csv": "a table", ".tsv": "a table"} | dict.fromkeys((".soc", ".soi", ".toc", ".toi"), "PrefLib")
    found = "PrefLib" if kind == "preflib" else "a table"
    if expected.get(path.suffix.lower(), found) != found:
        _disagree(f"the suffix says {expected[path.suffix.lower()]}, and the file holds {found}", path, strict)
    if kind == "preflib":
        given += ["--items"] if names is not None else []
        if given:
            raise ParameterError(f"a PrefLib file declares its own items: {given[-1]} is for CSV")
        return read_preflib(path, clean=policy, strict=strict, allow_void=allow_void)
    if kind == "comparisons":
        given += ["--clean"] if policy != "reject" else []
        given += ["--allow-void"] if allow_void else []
        if given:
            raise ParameterError(f"{given[0]} is for ballots, and this file holds comparisons")
        return read_comparisons_csv(path, items=names)
    return read_ballots_csv(
        path,
        layout=form,  # type: ignore[arg-type]
        items=names,
        clean=policy,
        columns=columns,
        ignore=ignore,
        count_column=count_column,
        person_column=person_column,
        allow_void=allow_void,
    )


def holds_reports(path: Path) -> bool:
    """Whether a file holds reports of devices, by its suffix or by its first line."""
    from psephos.profile.file_kind import file_kind, report_schema

    if path.suffix.lower() in {".jsonl", ".ndjson"}:
        return True
    return path.is_file() and file_kind(path) == "json" and report_schema(path) == _REPORTS


def _of_json(path: Path) -> str:
    """What a file of JSON is, and what reads it."""
    from psephos.profile.file_kind import report_schema

    schema = report_schema(path)
    if schema == _REPORTS:
        return "this file holds reports of devices: psephos scores reads them"
    what = f"a document of {schema}" if re.fullmatch(r"psephos\.[a-z-]+/[0-9]+", schema or "") else "JSON"
    return f"this file holds {what}; wanted ballots (PrefLib or CSV) or comparisons (CSV)"


def _disagree(message: str, path: Path, strict: bool) -> None:
    import warnings

    from psephos.errors import DataError, DataWarning

    if strict:
        raise DataError(message, source=path.name)
    warnings.warn(DataWarning(f"{path.name}: {message}; the content decides"), stacklevel=3)


def check_files(
    output: Path | None,
    *,
    file: Path,
    ledger: Path | None,
    items: Path | None,
    dataset: str | None,
    budget: str | None,
    request_id: str | None,
) -> None:
    """Refuse options that do not go together, and an output that would overwrite an input."""
    from psephos.errors import ParameterError

    if (ledger is None) != (dataset is None):
        raise ParameterError("--ledger and --dataset go together")
    if ledger is None and (budget is not None or request_id is not None):
        raise ParameterError("--budget and --request-id need --ledger and --dataset")
    check_output(output, "--output", read=(file, ledger, items))


def check_output(output: Path | None, option: str, *, read: Iterable[Path | None]) -> None:
    """Refuse an output that would overwrite what is read."""
    from psephos.errors import ParameterError

    for other in read:
        if output is not None and other is not None and (output.resolve() == other.resolve() or _same(output, other)):
            raise ParameterError(f"{option} must not be {str(other)!r}, which is read")


def _same(output: Path, other: Path) -> bool:
    """Whether both names are of one file: hard links are."""
    return output.exists() and other.exists() and output.samefile(other)


def split_budget(text: str | None) -> tuple[str, str] | None:
    """EPS[,DELTA] in two.

    >>> split_budget("1,1e-6"), split_budget("1/3")
    (('1', '1e-6'), ('1/3', '0'))
    """
    if text is None:
        return None
    epsilon, _, delta = text.partition(",")
    return epsilon, delta or "0"

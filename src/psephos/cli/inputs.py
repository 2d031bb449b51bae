"""Reading the files that commands name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from psephos.cli.options import BallotOptions
from psephos.cli.output import note

if TYPE_CHECKING:
    from psephos.profile import Comparisons, Profile

__all__ = ["check_output", "holds_reports", "read_data", "read_items", "read_scores"]

_REPORTS = "psephos.report/1"


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
    ballots: BallotOptions | None = None,
    items_public: bool = False,
    comparisons_only: str | None = None,
) -> Profile | Comparisons:
    """Read ballots or comparisons, told apart by what the file holds, and say on stderr what a reader has to say.

    Parameters
    ----------
    path, items
        The file, and that of the public list of items.
    strict
        Whether a suffix or a header that the content contradicts is an error instead of a warning.
    ballots
        How ballots are read; by default as their readers do.
    items_public
        Whether the holder declares items as seen a public list.
    comparisons_only
        What is said of ballots, where comparisons are wanted.

    Raises
    ------
    DataError
        for faults, and for a file of another kind, with the command that reads it.
    """
    from psephos.errors import ParameterError
    from psephos.profile import Comparisons

    data = _read(path, items=items, strict=strict, ballots=ballots or BallotOptions())
    if comparisons_only is not None and not isinstance(data, Comparisons):
        raise ParameterError(f"{path.name!r} holds ballots{comparisons_only}")
    for line in data.notes:
        note(line)
    return data.with_items_public() if items_public else data


def _read(path: Path, *, items: Path | None, strict: bool, ballots: BallotOptions) -> Profile | Comparisons:
    from psephos._check import check_choice
    from psephos.errors import DataError, ParameterError
    from psephos.profile import file_kind, read_ballots_csv, read_comparisons_csv, read_preflib
    from psephos.profile.csv_header import Layout
    from psephos.profile.repair import check_clean

    policy, layout = check_clean(ballots.clean), ballots.layout
    layouts: tuple[Layout, ...] = ("positions", "places")
    form = None if layout is None else check_choice(layout, "--layout", layouts)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ParameterError(f"{str(path)!r} is a pipe or a device, which can be read only once: save it as a file")
    names = read_items(items)
    kind = file_kind(path)
    if kind == "json":
        raise DataError(_of_json(path), source=path.name)
    of_tables = ("layout", "columns", "ignore", "count_column", "person_column")
    given = [f"--{name.replace('_', '-')}" for name in of_tables if getattr(ballots, name)]
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
        return read_preflib(path, clean=policy, strict=strict, allow_void=ballots.allow_void)
    if kind == "comparisons":
        given += ["--clean"] if policy != "reject" else []
        given += ["--allow-void"] if ballots.allow_void else []
        if given:
            raise ParameterError(f"{given[0]} is for ballots, and this file holds comparisons")
        return read_comparisons_csv(path, items=names)
    return read_ballots_csv(
        path,
        layout=form,
        items=names,
        clean=policy,
        columns=ballots.columns,
        ignore=ballots.ignore,
        count_column=ballots.count_column,
        person_column=ballots.person_column,
        allow_void=ballots.allow_void,
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


def check_output(output: Path | None, option: str, *, read: Iterable[Path | None]) -> None:
    """Refuse an output that would overwrite what is read."""
    from psephos.errors import ParameterError

    for other in read:
        if output is not None and other is not None and (output.resolve() == other.resolve() or _same(output, other)):
            raise ParameterError(f"{option} must not be {str(other)!r}, which is read")


def _same(output: Path, other: Path) -> bool:
    """Whether both names are of one file: hard links are."""
    return output.exists() and other.exists() and output.samefile(other)


def read_scores(text: str) -> list[float]:
    """Numbers separated by commas, or the file of that name."""
    from psephos.errors import DataError, ParameterError
    from psephos.profile.csv_table import Table
    from psephos.profile.encoding import open_text

    numbers = [_float(part) for part in text.split(",")]
    if all(number is not None for number in numbers) and len(numbers) > 1:
        return [number for number in numbers if number is not None]
    path = Path(text)
    if not path.is_file():
        raise ParameterError(f"--scores-guess must be numbers with commas between, or a file, got {text!r}")
    with open_text(path, newline="") as stream:
        lines = [(i, line.strip()) for i, line in enumerate(stream, 1) if line.strip()]
    if lines and _float(lines[0][1]) is not None:
        cells = lines
    else:
        with open_text(path, newline="") as stream:
            table = Table(stream, path.name)
            if "score" not in table.columns:
                raise DataError("a guess of scores must have one number a line, or a column 'score'", source=path.name)
            column = table.columns.index("score")
            cells = [(table.line, row[column].strip()) for row in table]
    values = []
    for line, cell in cells:
        number = _float(cell)
        if number is None or not math.isfinite(number):
            raise DataError(f"a score must be a finite number, got {cell!r}", source=path.name, line=line)
        values.append(number)
    return values


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

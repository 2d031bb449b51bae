"""What a file holds, told by its content and not by its name."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Literal

from psephos.errors import DataError
from psephos.profile.csv_comparisons import is_comparisons
from psephos.profile.csv_table import Table
from psephos.profile.encoding import Source, open_text, source_name

__all__ = ["FileKind", "file_kind", "report_schema"]

FileKind = Literal["preflib", "comparisons", "records", "table", "json"]

_ROWS = 50  # how many rows are looked at
_SUFFIXES = (".soc", ".soi", ".toc", ".toi")
_MARKS = re.compile(r"[,;\t]")
_JSON = re.compile(r"\{\s*(\"|$)|\[\s*([\[{]|$)")
_COUNTED = re.compile(r"[0-9]+\s*:[0-9{},\s]*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)


def file_kind(path: Source) -> FileKind:
    """What the file ``path`` looks like, from its first lines.

    Returns
    -------
    FileKind

    ``preflib``: lines ``# KEY: value``, ``count: order``, or the header of the old format. ``json``: documents or
    reports. ``comparisons``: a table with two columns of items and a winner. ``records``: a table of numbers most of
    which are no places, with fractions. ``table``: any other, of ballots. Where a first line without a delimiter says
    nothing, the suffix of PrefLib's files does.

    Raises
    ------
    DataError
        for a file that is no text.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "votes.csv")
    >>> _ = file.write_text("3: 1,2\\n2: 2,1\\n")
    >>> file_kind(file)
    'preflib'
    """
    with open_text(path, newline="") as stream:
        lines = [line.strip() for line in itertools.islice(stream, _ROWS)]
    filled = [line for line in lines if line]
    first, second = [*filled, "", ""][:2]
    if _JSON.match(first):
        return "json"
    if _is_preflib(first, second) or (not _MARKS.search(first) and Path(path).suffix.lower() in _SUFFIXES):
        return "preflib"
    with open_text(path, newline="") as stream:
        table = Table(stream, source_name(path))
        if is_comparisons(table.columns):
            return "comparisons"
        try:
            rows = list(itertools.islice(table, _ROWS))
        except DataError:  # a reader tells it, with all other faults
            return "table"
    columns = len(table.columns)
    numbers = [_numbers([row[i].strip() for row in rows]) for i in range(columns)]
    measured = sum(2 * sum(x not in range(columns + 1) for x in column) > len(column) for column in numbers)
    # Whole numbers may be names: of years, or of films in a list.
    fractions = any(x != int(x) or x < 0 for column in numbers for x in column)
    return "records" if fractions and 2 * measured > columns else "table"


def _is_preflib(first: str, second: str) -> bool:
    """Whether these lines start a PrefLib file: of a table, a column may be called ``#``, and one ``10:30``."""
    if first.startswith("#"):
        if _MARKS.match(first[1:]):
            return False
        return not _MARKS.search(first) or ":" in first or second.startswith("#") or bool(_COUNTED.fullmatch(second))
    if first.isascii() and first.isdigit():
        return bool(re.match(r"[0-9]+\s*,", second))
    return bool(_COUNTED.fullmatch(first))


def report_schema(path: Source) -> str | None:
    """The schema that the first line of a file of JSON declares, or ``None``."""
    with open_text(path) as stream:
        text = next((line for line in stream if line.strip()), "")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    schema = document.get("schema") if isinstance(document, dict) else None
    return schema if isinstance(schema, str) else None


def _numbers(cells: list[str]) -> list[float]:
    """The numbers of a column of numbers and blanks; none of any other column."""
    filled = [cell for cell in cells if cell]
    return [float(cell) for cell in filled] if all(map(_NUMBER.fullmatch, filled)) else []

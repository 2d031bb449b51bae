"""CSV as a header and rows with line numbers; and writing rows that come back as they were."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from psephos.errors import DataError
from psephos.profile.encoding import Source
from psephos.profile.repair import Faults

__all__ = ["PERSON", "Table", "csv_row", "write_rows"]

#: What a column is called that says who answered.
PERSON = ("person", "voter", "worker")

_SEP_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)


def csv_row(cells: Sequence[object]) -> str:
    """One row as text, ending in a line feed; cells with any line break are quoted.

    >>> csv_row(["tea", 3, "a,b"])
    'tea,3,"a,b"\\n'
    """
    out = io.StringIO()
    # The writer quotes the characters of its line end, and so with this one also a lone carriage return.
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue()[:-2] + "\n"


def write_rows(path: Source, rows: Iterable[str]) -> None:
    """Write rows of :func:`csv_row` as UTF-8, with their own line ends."""
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        out.writelines(rows)


class Table:
    """The header and rows of one CSV stream (comma, semicolon or tab: the header decides).

    ``columns`` are the header's cells, stripped; every row has as many cells. Iterating gives rows of raw cells;
    ``line`` is the 1-based line on which the current row ends. Rows of another length are passed over and kept in
    ``faults``, where it is given.

    Raises
    ------
    DataError
        for an empty file, a column without a name or named twice, a row of another length, broken quotes.
    """

    def __init__(self, stream: IO[str], source: str, faults: Faults | None = None) -> None:
        self.source = source
        self._faults = faults
        self._before = 0
        lines = iter(stream)
        first = ""
        for first in lines:
            if first.strip():
                break
            self._before += 1
        declared = _SEP_LINE.fullmatch(first)
        if declared:
            self._before += 1
            first = next(lines, "")
        # A quoted name may hold line breaks: the header ends where the quotes are closed.
        header = [first]
        while "".join(header).count('"') % 2 and (more := next(lines, "")):
            header.append(more)
        delimiter = declared[1] if declared else _delimiter("".join(header))
        self.columns: list[str] = []
        self._reader = csv.reader(itertools.chain(header, lines), delimiter=delimiter, strict=True)
        cells = self._next()
        if cells is None:
            raise DataError("the file is empty: a header line is wanted", source=source)
        self.columns = [cell.strip() for cell in cells]
        for position, name in enumerate(self.columns, start=1):
            if not name:
                raise self.fail(f"column {position} of the header has no name")
        self.refuse_twice(self.columns)

    @property
    def line(self) -> int:
        """The line on which the current row ends."""
        return self._before + self._reader.line_num

    def found(self) -> str:
        """The columns, for messages."""
        return ", ".join(self.columns[:20]) + (", ..." if len(self.columns) > 20 else "")

    def fail(self, rule: str) -> DataError:
        """An error about the current row."""
        return DataError(rule, source=self.source, line=self.line)

    def refuse_twice(self, names: Sequence[str]) -> None:
        """Raise if two columns have the same name."""
        for name, times in Counter(names).items():
            if times > 1:
                raise self.fail(f"column {name!r} occurs twice; columns found: {self.found()}")

    def special(self, names: Sequence[str]) -> dict[str, int]:
        """Where the columns of these names stand, in any case; each may occur once."""
        found = [(name.lower(), i) for i, name in enumerate(self.columns) if name.lower() in names]
        self.refuse_twice([name for name, _ in found])
        return dict(found)

    def one_of(self, special: dict[str, int], names: Sequence[str], what: str) -> int | None:
        """The one column among synonyms, or ``None``."""
        present = [name for name in names if name in special]
        if len(present) > 1:
            raise self.fail(f"only one column may name the {what}, found {', '.join(present)}")
        return special[present[0]] if present else None

    def _next(self) -> list[str] | None:
        while True:
            try:
                row = next(self._reader)
            except StopIteration:
                return None
            except csv.Error as error:
                raise self.fail(f"not valid CSV: {error}") from None
            blank = not any(cell.strip() for cell in row)
            if not blank or len(row) > 1 or (len(self.columns) == 1 and row):
                return row
            if len(self.columns) == 1:
                # Skipping it would change the number of people, which is public, by what one of them answered.
                raise self.fail('in a table of one column an empty line may be a blank ballot: write it as ""')

    def __iter__(self) -> Iterator[list[str]]:
        while (row := self._next()) is not None:
            if len(row) == len(self.columns):
                yield row
                continue
            rule = f"a row must have {len(self.columns)} cells, got {len(row)}; columns: {self.found()}"
            if self._faults is None:
                raise self.fail(rule)
            self._faults.add(rule, self.line)


def _delimiter(header: str) -> str:
    """Comma if the header has one outside quotes, else semicolon, else tab."""
    bare = re.sub(r'"[^"]*"', "", header)
    return next((mark for mark in ",;\t" if mark in bare), ",")

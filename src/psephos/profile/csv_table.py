"""CSV as a header and rows with line numbers; and writing rows that come back as they were."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from psephos.errors import DataError
from psephos.profile.encoding import Source, encoding_notes
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
        self.notes = encoding_notes(stream, source)
        self._ahead: deque[tuple[int, list[str]]] = deque()
        self._line = 0
        self._numbered: int | None = None  # the last number of a first column that counts rows
        self._reader = csv.reader(itertools.chain(header, lines), delimiter=delimiter, strict=True)
        cells = self._next()
        if cells is None:
            raise DataError("the file is empty: a header line is wanted", source=source)
        self._line = self.line  # though rows may be looked at before they are read
        self.columns = self._named([cell.strip() for cell in cells])
        if len(self.columns) > 1 and (not self.columns[0] or self.columns[0] == "Unnamed: 0"):
            del self.columns[0]
            self._numbered = -1
            self.notes.append(f"{source}: the first column, without a name, counts rows and is left out")
        for position, name in enumerate(self.columns, start=1 + (self._numbered is not None)):
            if not name:
                raise self.fail(f"column {position} of the header has no name")
        self.refuse_twice(self.columns)

    def _named(self, names: list[str]) -> list[str]:
        """The names of columns where two or three lines of a header state them."""
        if {"startdate", "recordeddate", "responseid"} & {name.lower() for name in names}:
            texts, codes = self._peek(0), self._peek(1)
            if len(codes) == len(names) and all(cell.strip().startswith('{"ImportId"') for cell in codes):
                self._ahead.clear()
                self.notes.append(f"{self.source}: the second line names the columns, and the third is left out")
                texts = [" ".join(text.split()) for text in texts]
                return texts if len(set(texts)) == len(names) else names
        unnamed = [i for i, name in enumerate(names) if not name and i]
        if unnamed:
            below = [cell.strip() for cell in self._peek(0)]
            if len(below) == len(names) and _is_second_header(names, below):
                self._ahead.clear()
                self.notes.append(f"{self.source}: the first two lines name the columns")
                return _spanned(names, below)
        return names

    def _peek(self, k: int) -> list[str]:
        """The row that comes after ``k`` others, or nothing."""
        while len(self._ahead) <= k:
            row = self._read()
            if row is None:
                return []
            self._ahead.append((self._before + self._reader.line_num, row))
        return self._ahead[k][1]

    @property
    def line(self) -> int:
        """The line on which the current row ends."""
        return self._line or self._before + self._reader.line_num

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
        if self._ahead:
            self._line, row = self._ahead.popleft()
            return row
        self._line = 0
        return self._read()

    def _read(self) -> list[str] | None:
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
        extra = self._numbered is not None
        while (row := self._next()) is not None:
            if len(row) == len(self.columns) + extra:
                yield self._without_number(row) if extra else row
                continue
            wanted = len(self.columns) + extra
            rule = f"a row must have {wanted} cells, got {len(row)}; columns: {self.found()}"
            if self._faults is None:
                raise self.fail(rule)
            self._faults.add(rule, self.line)

    def _without_number(self, row: list[str]) -> list[str]:
        cell = row[0].strip()
        number = int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 19 else -1
        if self._numbered is None or number <= self._numbered:
            raise self.fail(f"the first column has no name, and does not count rows: it holds {cell[:40]!r}; name it")
        self._numbered = number
        return row[1:]


def _is_second_header(names: list[str], below: list[str]) -> bool:
    """Whether a row names the columns of questions that the header names once: no answers have that shape.

    The first column identifies the respondent. The row is blank where a column has a name of its own (or says what kind
    of answer stands there), and has words in all columns of a question that has several.
    """
    spans = [not name or following == "" for name, following in zip(names, [*names[1:], None], strict=True)]
    return (
        names[0].lower() == "respondent id"
        and not below[0]
        and all(
            bool(part) and not part.isdigit() if span else not part or "response" in part.lower()
            for span, part in zip(spans, below, strict=True)
        )
    )


def _spanned(names: list[str], below: list[str]) -> list[str]:
    """Names of columns from two lines, of which the first names a question above all of its columns."""
    question = ""
    result = []
    for i, (name, part) in enumerate(zip(names, below, strict=True)):
        question = name or question
        several = not name or (i + 1 < len(names) and not names[i + 1])
        result.append(f"{question} [{part}]" if several and part else question)
    return result


def _delimiter(header: str) -> str:
    """A tab if the header has one outside quotes, else what it has more of, commas or semicolons."""
    bare = re.sub(r'"[^"]*"', "", header)
    if "\t" in bare:
        return "\t"
    return ";" if bare.count(";") > bare.count(",") else ","

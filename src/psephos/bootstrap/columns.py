"""Columns of numbers, from arrays or from CSV: every cell a finite number, or an error that says where it is not.

These errors speak to the holder of the data, at ingest. What passed here cannot fail later: after ingest nothing that
a reader of a release sees may depend on a value.
"""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import numpy as np
from numpy.typing import NDArray

from psephos.errors import DataError, ParameterError
from psephos.profile.csv_table import Table
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.repair import Faults

__all__ = ["number_column", "read_columns_csv"]

_GZIP = b"\x1f\x8b"


def number_column(values: object, name: str) -> NDArray[np.float64]:
    """Return a column as doubles, shape ``(n,)``, n >= 1; booleans count as 0 and 1.

    Raises
    ------
    DataError
        naming the column and the 1-based row of the first value that is not a finite number.
    ParameterError
        if it is no one-dimensional column, or is empty.

    >>> number_column([1, 2.5, True], "educ")
    array([1. , 2.5, 1. ])
    """
    try:
        given = np.asarray(values)
    except ValueError:
        raise ParameterError(
            f"column {name!r} must be a one-dimensional column of numbers, got rows of lists"
        ) from None
    if given.ndim != 1 or not given.size:
        raise ParameterError(f"column {name!r} must be a one-dimensional column of numbers, got shape {given.shape}")
    if given.dtype.kind not in "fiub":
        cells = list(values) if isinstance(values, (list, tuple)) else given.tolist()
        given = np.array([_number(cell, name, row) for row, cell in enumerate(cells, start=1)])
    column = np.array(given, dtype=np.float64)
    bad = ~np.isfinite(column)
    if bad.any():
        row = int(np.argmax(bad)) + 1
        raise _refuse(column[row - 1].item(), name, "row", row)
    return column


def _number(cell: object, name: str, row: int) -> float:
    if isinstance(cell, (str, bytes, complex)) or cell is None:
        raise _refuse(cell, name, "row", row)
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise _refuse(cell, name, "row", row) from None


def read_columns_csv(path: Source, names: Sequence[str] | None = None) -> dict[str, NDArray[np.float64]]:
    """Read columns of numbers from a CSV file, plain or gzipped (told by its first bytes).

    Every row counts: there is no value for "missing", and no row is dropped. A decimal is read to the nearest double.

    Parameters
    ----------
    path
        Comma, semicolon or tab; the header decides.
    names
        The columns wanted, in this order; ``None`` for all. Others may hold anything.

    Returns
    -------
    name -> doubles of shape ``(rows,)``.

    Raises
    ------
    DataError
        naming file, line, column and value of every cell that is not a finite number; for a column that is absent,
        naming those found; for no rows, or a file that is not CSV, UTF-8 or whole.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "wages.csv")
    >>> _ = file.write_text("who,wage,educ\\nAna,5.5,12\\nBo,6.1,16\\n")
    >>> read_columns_csv(file, ["educ", "wage"])
    {'educ': array([12., 16.]), 'wage': array([5.5, 6.1])}
    """
    source = source_name(path)
    faults = Faults(source)
    with faults.told_at_once(), _open(path) as stream:
        table = Table(stream, source, faults)
        wanted = table.columns if names is None else _distinct(names)
        absent = [name for name in wanted if name not in table.columns]
        if absent:
            listed = ", ".join(map(repr, absent))
            raise table.fail(f"no column {listed}; columns found: {table.found()}; wanted: {', '.join(wanted)}")
        where = [table.columns.index(name) for name in wanted]
        columns = [array("d") for _ in wanted]
        for row in table:
            for position, name, column in zip(where, wanted, columns, strict=True):
                cell = row[position]
                try:
                    number = float(cell)
                except ValueError:
                    number = np.nan
                # float() also takes 1_000, nan and infinity
                if not -np.inf < number < np.inf or "_" in cell or not cell.isascii():
                    faults.add(_rule(cell, name), table.line)
                column.append(number)
        if not columns[0] and not faults.found:
            raise table.fail(f"no rows below the header; columns found: {table.found()}")
    return {name: np.array(column, dtype=np.float64) for name, column in zip(wanted, columns, strict=True)}


def _distinct(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not names or len(set(names)) != len(names):
        raise ParameterError(f"names must be a sequence of different column names, got {names!r}")
    return list(names)


def _refuse(value: object, name: str, source: str, line: int) -> DataError:
    return DataError(_rule(value, name), source=source, line=line)


def _rule(value: object, name: str) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"column {name!r} must be a finite number, got {shown}"


@contextmanager
def _open(path: Source) -> Iterator[IO[str]]:
    with open(path, "rb") as raw:  # noqa: PTH123 - takes text and path objects alike
        zipped = raw.read(2) == _GZIP
    if not zipped:
        with open_text(path, newline="") as stream:
            yield stream
        return
    name = source_name(path)
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(f"byte {byte:#04x} is not UTF-8; convert the unpacked file to UTF-8", source=name) from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError("the gzip file is damaged or cut short", source=name) from None

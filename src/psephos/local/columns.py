"""Many reports as columns: what a server computes with.

Reports are public once they have left their devices; nothing here spends a budget. A file of reports is read once, in
bounded memory: beyond four million answers the columns go to an unnamed temporary file that is mapped into memory and
vanishes with the last reference.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos._check import Exact, check_choice
from psephos.errors import DataError, ParameterError
from psephos.local.budget import device_epsilon
from psephos.local.randomized_response import attenuation_at
from psephos.local.report_lines import read_reports
from psephos.local.reports import MECHANISMS, UNITS, Mechanism, Report, Unit, check_most
from psephos.profile.names import ItemIndex, check_items, require_items

__all__ = ["Kind", "ReportColumns", "margin_moments"]

#: Answers held in memory while reports are read; beyond, columns are mapped from a temporary file.
IN_MEMORY = 1 << 22
#: Answers worked on at a time.
BLOCK = 1 << 20

_COLUMNS = {"left": "i", "right": "i", "reported": "b", "record": "q", "kind": "i"}
_REPORTED = {"left": 1, "right": -1, "tie": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How an answer was randomised: public facts, the same for all answers of a record.

    Attributes
    ----------
    unit
        What was declared: epsilon for a ``person`` or for each ``comparison``.
    mechanism
        ``binary`` or ``three-outcome``.
    epsilon_answer, epsilon_person
        What each answer, and all answers of the record, spent; in nats.
    """

    unit: Unit
    mechanism: Mechanism
    epsilon_answer: Fraction
    epsilon_person: Fraction

    def __post_init__(self) -> None:
        check_choice(self.unit, "unit", UNITS)
        check_choice(self.mechanism, "mechanism", MECHANISMS)
        if not 0 < self.epsilon_answer <= self.epsilon_person:
            raise ParameterError(
                f"epsilon_answer must be > 0 and at most epsilon_person, got {self.epsilon_answer} and "
                f"{self.epsilon_person}"
            )

    @property
    def attenuation(self) -> float:
        """The factor by which reports of this kind shrink a margin, in (0, 1]."""
        return attenuation_at(float(self.epsilon_answer), self.mechanism)

    def second_moment(self, ties: float = 0.0) -> float:
        """Mean square of a debiased answer (+1, -1 or 0, divided by the attenuation), given the true share of ties.

        >>> kind = Kind(unit="person", mechanism="binary", epsilon_answer=Fraction(1), epsilon_person=Fraction(1))
        >>> round(kind.second_moment(), 4)
        4.6827
        """
        moment, tied = margin_moments(float(self.epsilon_answer), self.mechanism)
        return float(moment - ties * tied)


def margin_moments(epsilon: ArrayLike, mechanism: Mechanism) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The second moment ``V = v - t v'`` of a debiased margin with a share t of ties, as v and v'.

    ``1/a^2`` for two outcomes, whatever the answers are; for three ``(e + 2)(e + 1 - t (e - 1)) / (e - 1)^2`` with
    e = exp(eps), computed from exp(-eps), which does not overflow.

    >>> [float(v.round(4)) for v in margin_moments(1.0, "binary")]
    [4.6827, 0.0]
    """
    x = np.asarray(epsilon, dtype=np.float64)
    small, rest = np.exp(-x), -np.expm1(-x)
    if mechanism == "binary":
        return ((1.0 + small) / rest) ** 2, np.zeros_like(x)
    each = (1.0 + 2.0 * small) / rest
    return each * (1.0 + small) / rest, each


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportColumns:
    """Randomised answers as columns, those of one record together.

    Attributes
    ----------
    items
        The m item names.
    left, right
        Shape ``(answers,)``: 0-based positions in ``items``.
    reported
        Shape ``(answers,)``, int8: +1 left was reported as preferred, -1 right, 0 a tie.
    record
        Shape ``(answers,)``, from 0 up without a gap: which record, that is which person, an answer belongs to.
    kind
        Shape ``(answers,)``: position in ``kinds``.
    kinds
        How answers were randomised.
    secure
        Whether all random bits of all reports came from operating systems, as the reports say.

    Raises
    ------
    ParameterError
        naming the column and its rule.

    >>> from psephos.local import plan_person, randomise_answers
    >>> asked = plan_person(["tea", "coffee"], epsilon=1)
    >>> columns = ReportColumns.from_reports([randomise_answers(asked, ["left"])], items=asked.items)
    >>> columns.answers, columns.records, columns.kinds[0].epsilon_answer
    (1, 1, Fraction(1, 1))
    """

    items: tuple[str, ...]
    left: NDArray[Any]
    right: NDArray[Any]
    reported: NDArray[Any]
    record: NDArray[Any]
    kind: NDArray[Any]
    kinds: tuple[Kind, ...]
    secure: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", require_items(self.items))
        size, m = len(self.left), len(self.items)
        for name in _COLUMNS:
            column = getattr(self, name)
            whole = isinstance(column, np.ndarray) and column.dtype.kind in "iu" and np.can_cast(column.dtype, np.int64)
            if not whole or column.shape != (size,):
                raise ParameterError(f"{name} must be whole numbers (an array, int64 or less), one an answer ({size})")
        three = np.array([kind.mechanism == "three-outcome" for kind in self.kinds], dtype=np.bool_)
        before = -1
        for block in self.blocks():
            left, right, reported, record, kind = (getattr(self, name)[block] for name in _COLUMNS)
            for name, column in (("left", left), ("right", right)):
                _require((column >= 0) & (column < m), f"{name} must be 0 to {m - 1}")
            _require(left != right, "left and right must be different items")
            _require((kind >= 0) & (kind < len(self.kinds)), f"kind must be 0 to {len(self.kinds) - 1}")
            _require((reported == 1) | (reported == -1) | ((reported == 0) & three[kind]), "reported must be 1 or -1")
            steps = np.diff(record, prepend=before)
            _require((steps == 0) | (steps == 1), "record must count up from 0 without a gap")
            before = int(record[-1])

    @classmethod
    def from_reports(
        cls,
        reports: Iterable[Report] | str | PathLike[str],
        *,
        items: Sequence[str] | None = None,
        max_epsilon: Exact | None = None,
    ) -> ReportColumns:
        """The columns of reports in memory, or in a file of JSON Lines.

        Parameters
        ----------
        reports
            An iterable of :class:`psephos.local.Report`, or the path of a file of them.
        items
            The public list of items. Without it, the names that occur in the reports, in alphabetical order; reports
            by position need it.
        max_epsilon
            What the poll allowed a person to spend, in nats; a report that declares more is refused.

        Raises
        ------
        DataError
            naming file, line, field, value and rule.
        """
        names = None if items is None else check_items(items)
        if max_epsilon is not None:
            device_epsilon(max_epsilon, "max_epsilon")
        if isinstance(reports, (str, PathLike)):
            return cls._collected(read_reports(reports, items=names, max_epsilon=max_epsilon), names)
        return cls._collected(reports, names, max_epsilon)

    @classmethod
    def _collected(
        cls, reports: Iterable[Report], names: tuple[str, ...] | None, max_epsilon: Exact | None = None
    ) -> ReportColumns:
        index = ItemIndex(names)
        kinds: dict[Kind, int] = {}
        spool = _Spool()
        secure = True
        records = 0
        for records, report in enumerate(reports, start=1):
            if not isinstance(report, Report):
                raise ParameterError(f"reports must be of psephos.local.Report, got {type(report).__name__}")
            check_most(report.epsilon_person, max_epsilon, source="record", line=records)
            kind = Kind(
                unit=report.unit,
                mechanism=report.mechanism,
                epsilon_answer=report.epsilon_answer,
                epsilon_person=report.epsilon_person,
            )
            number = kinds.setdefault(kind, len(kinds))
            secure = secure and report.secure
            for answer in report.answers:
                left = _position(answer.left, index, names, records)
                right = _position(answer.right, index, names, records)
                spool.add(left, right, _REPORTED[answer.reported], records - 1, number)
        if not records:
            raise DataError("nothing to rank: there are no reports")
        columns = spool.columns()
        if names is None:
            order = sorted(range(len(index.names)), key=index.names.__getitem__)
            place = np.empty(len(order), dtype=np.int32)
            place[order] = np.arange(len(order), dtype=np.int32)
            for name in ("left", "right"):
                for start in range(0, len(columns[name]), BLOCK):
                    columns[name][start : start + BLOCK] = place[columns[name][start : start + BLOCK]]
            names = check_items(index.names[i] for i in order)
        collected = object.__new__(cls)  # each answer was checked with its report
        for name, value in {"items": names, "kinds": tuple(kinds), "secure": secure, **columns}.items():
            object.__setattr__(collected, name, value)
        return collected

    @property
    def m(self) -> int:
        """The number of items."""
        return len(self.items)

    @property
    def answers(self) -> int:
        """The number of answers."""
        return len(self.left)

    @property
    def records(self) -> int:
        """The number of records: of people, unless somebody sent several."""
        return int(self.record[-1]) + 1 if self.answers else 0

    def blocks(self) -> Iterator[slice]:
        """Slices of about a million answers that never part a record (a larger record is a block of its own)."""
        start = 0
        while start < self.answers:
            stop = min(start + BLOCK, self.answers)
            if stop < self.answers:
                # The first answer of the record that the next block starts with; or the end of a very long record.
                number = self.record[stop]
                stop = int(np.searchsorted(self.record, number, side="left"))
                if stop <= start:
                    stop = int(np.searchsorted(self.record, number, side="right"))
            yield slice(start, stop)
            start = stop


def _require(holds: NDArray[np.bool_], rule: str) -> None:
    if not holds.all():
        raise ParameterError(f"{rule}; broken by answer {int(np.argmin(holds)) + 1} of its block")


def _position(item: int | str, index: ItemIndex, names: tuple[str, ...] | None, record: int) -> int:
    if isinstance(item, str):
        position = index.find(item)
    elif names is None:
        raise DataError("items must be given: the reports name them by position", source="record", line=record)
    else:
        position = item if item < len(names) else None
    if position is None:
        raise DataError(
            f"an item must be one of the {len(index.names)} listed, got {item!r}", source="record", line=record
        )
    return position


class _Spool:
    """Columns that grow in memory, and in temporary files from a size on."""

    def __init__(self) -> None:
        self._buffers = {name: array(code) for name, code in _COLUMNS.items()}
        self._files: dict[str, IO[bytes]] = {}

    def add(self, left: int, right: int, reported: int, record: int, kind: int) -> None:
        buffers = self._buffers
        buffers["left"].append(left)
        buffers["right"].append(right)
        buffers["reported"].append(reported)
        buffers["record"].append(record)
        buffers["kind"].append(kind)
        if len(buffers["left"]) >= IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        for name, buffer in self._buffers.items():
            if name not in self._files:
                self._files[name] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in columns()
            buffer.tofile(self._files[name])
            del buffer[:]

    def columns(self) -> dict[str, NDArray[Any]]:
        if not self._files:
            return {name: np.array(buffer) for name, buffer in self._buffers.items()}
        self._flush()
        columns: dict[str, NDArray[Any]] = {}
        for name, stream in self._files.items():
            stream.flush()
            columns[name] = np.memmap(stream, dtype=np.dtype(_COLUMNS[name]), mode="r+")
            stream.close()  # the map keeps a descriptor of its own
        return columns

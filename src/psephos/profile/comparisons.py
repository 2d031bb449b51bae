"""Pairwise comparisons: who was set against whom, and who won."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice
from psephos.errors import DataError, ParameterError
from psephos.profile.names import check_items, items_shown, require_items
from psephos.profile.profile import ItemsSource
from psephos.profile.repair import OrderFault
from psephos.profile.seen_items import require_public_looking

__all__ = ["OUTCOMES", "Comparisons", "parse_weight"]

#: The written outcome of a comparison -> what it adds to the margin of left over right.
OUTCOMES = {"left": 1, "right": -1, "tie": 0}


def parse_weight(text: str) -> Fraction:
    """A public weight: a decimal or a ratio >= 0, kept exactly.

    >>> parse_weight("0.25")
    Fraction(1, 4)
    """
    cell = text.strip()
    try:
        if len(cell) > 100 or not cell.isascii() or "_" in cell:
            raise ValueError
        mantissa, _, exponent = cell.lower().partition("e")
        if exponent and not abs(int(exponent)) <= 1000:
            raise ValueError
        weight = Fraction(cell)
        if not mantissa or not weight >= 0:
            raise ValueError
    except (ValueError, ZeroDivisionError):
        raise OrderFault(f"a weight must be a finite number >= 0, got {cell[:40]!r}") from None
    return weight


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Comparisons:
    """A table of comparisons. Build one with :meth:`from_columns` or a reader.

    Not private: what people said, for the holder alone.

    Attributes
    ----------
    items
        The m item names.
    left, right
        Shape ``(records,)``: 0-based item positions, different in each record.
    outcome
        Shape ``(records,)``, int8: +1 left won, -1 right won, 0 a tie.
    person
        Shape ``(records,)``: position in ``persons`` of who answered, or ``None``.
    persons
        The names of those who answered, or ``None``.
    weight
        A public weight >= 0 a record, exact, or ``None`` for 1 each.
    items_source
        Whether the list of items is a public fact (see :data:`psephos.profile.ItemsSource`).
    notes
        What a reader took for something else. For the holder's eyes only.
    """

    items: tuple[str, ...]
    left: NDArray[Any]
    right: NDArray[Any]
    outcome: NDArray[Any]
    person: NDArray[Any] | None = None
    persons: tuple[str, ...] | None = None
    weight: tuple[Fraction, ...] | None = None
    items_source: ItemsSource = "declared"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Whatever a caller hands over is copied and checked here, so that no table can break a sensitivity bound or
        # fail after a budget is debited.
        items = require_items(self.items)
        check_choice(self.items_source, "items_source", ("declared", "seen", "assumed"))
        left, right, outcome = (_integers(getattr(self, name), name) for name in ("left", "right", "outcome"))
        person = None if self.person is None else _integers(self.person, "person")
        for name in ("right", "outcome", "person", "weight"):
            given = getattr(self, name)
            if given is not None and len(given) != len(left):
                raise ParameterError(f"{name} must have one entry a record ({len(left)}), got {len(given)}")
        m = len(items)
        outside = ~((left >= 0) & (left < m) & (right >= 0) & (right < m))
        _reject(outside, f"an item must be 0 to {m - 1}", left, right)
        _reject(left == right, "an item is compared with itself", left)
        _reject((outcome < -1) | (outcome > 1), "an outcome must be 1 (left won), -1 (right won) or 0 (a tie)", outcome)
        persons = self.persons
        if person is not None:
            persons = persons if persons is not None else tuple(str(i) for i in range(int(person.max(initial=-1)) + 1))
            _reject(~((person >= 0) & (person < len(persons))), "a person must be a position in persons", person)
        outcome = outcome.astype(np.int8)
        for column in (left, right, outcome, person):
            if column is not None:
                column.setflags(write=False)
        checked: dict[str, object] = {"items": items, "persons": persons, "weight": _weights(self.weight)}
        checked |= {"left": left, "right": right, "outcome": outcome, "person": person}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_columns(
        cls,
        items: Iterable[str],
        left: Sequence[int] | NDArray[Any],
        right: Sequence[int] | NDArray[Any],
        outcome: Sequence[int] | NDArray[Any],
        *,
        person: Sequence[int] | NDArray[Any] | None = None,
        persons: tuple[str, ...] | None = None,
        weight: Sequence[Fraction | int] | None = None,
        items_source: ItemsSource = "declared",
        notes: tuple[str, ...] = (),
    ) -> Comparisons:
        """Check the columns and put them together.

        Raises
        ------
        DataError
            naming the record (1-based) and the rule it breaks.
        ParameterError
            for columns of different length or type.

        >>> Comparisons.from_columns(["tea", "coffee"], [0, 1], [1, 0], [1, 0]).records
        2
        """
        return cls(
            items=check_items(items),
            left=np.asarray(left),
            right=np.asarray(right),
            outcome=np.asarray(outcome),
            person=None if person is None else np.asarray(person),
            persons=persons,
            weight=_weights(weight),
            items_source=items_source,
            notes=notes,
        )

    @property
    def m(self) -> int:
        """The number of items."""
        return len(self.items)

    @property
    def records(self) -> int:
        """The number of comparisons: a public fact."""
        return len(self.left)

    def __repr__(self) -> str:
        records, people = self.records, len(self.persons or ())
        by = "" if self.persons is None else f" by {people:,} {'person' if people == 1 else 'people'}"
        shown = items_shown(self.items, self.items_source)
        return f"<Comparisons: {records:,} {'comparison' if records == 1 else 'comparisons'}{by} of {shown}>"

    def with_items_public(self) -> Comparisons:
        """The same table, its items as seen declared public by the holder; a release says so.

        Raises
        ------
        DataError
            for items as seen that look like addresses, dates or numbers, or that occur in the comparisons of one
            person alone (in one comparison, where nobody knows whose they are): see
            :meth:`psephos.profile.Profile.with_items_public`.
        """
        if self.items_source != "seen":
            return self
        require_public_looking(self.items, self.named_by())
        return replace(self, items_source="assumed")

    def named_by(self) -> list[int]:
        """How many people (comparisons, where nobody knows whose they are) named each item: not a public fact."""
        person = np.arange(self.records) if self.person is None else self.person
        named = np.unique(np.concatenate([np.stack([self.left, person]), np.stack([self.right, person])], 1), axis=1)
        return [int(n) for n in np.bincount(named[0], minlength=self.m)]


def _weights(weight: Sequence[Fraction | int] | None) -> tuple[Fraction, ...] | None:
    if weight is None:
        return None
    values = []
    for record, value in enumerate(weight, start=1):
        if isinstance(value, bool) or not isinstance(value, Rational) or value < 0:
            raise DataError(f"a weight must be an exact number >= 0, got {value!r}", source="weight", line=record)
        values.append(Fraction(int(value.numerator), int(value.denominator)))
    if values and not any(values):
        raise DataError("nothing to rank: every weight is 0")
    return tuple(values)


def _integers(column: object, name: str) -> NDArray[np.int64]:
    """A private copy of a column of whole numbers."""
    values = np.asarray(column)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise ParameterError(f"{name} must be a one-dimensional column of whole numbers, got {values.dtype}")
    if values.size and values.max() > np.iinfo(np.int64).max:
        raise ParameterError(f"{name} must be below 2**63, got {values.max()}")
    return values.astype(np.int64, copy=True)


def _reject(bad: NDArray[np.bool_], rule: str, *columns: NDArray[np.int64]) -> None:
    if bad.any():
        record = int(np.argmax(bad))
        got = ", ".join(str(column[record]) for column in columns)
        raise DataError(f"{rule}, got {got}", source="record", line=record + 1)

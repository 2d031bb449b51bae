"""Pairwise comparisons: who was set against whom, and who won."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.errors import DataError, ParameterError
from psephos.profile.names import check_items
from psephos.profile.profile import ItemsSource
from psephos.profile.repair import OrderFault

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparisons:
    """A table of comparisons. Build one with :meth:`from_columns` or a reader.

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
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    outcome: NDArray[np.int8]
    person: NDArray[np.int64] | None = None
    persons: tuple[str, ...] | None = None
    weight: tuple[Fraction, ...] | None = None
    items_source: ItemsSource = "declared"
    notes: tuple[str, ...] = ()

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
        return build(
            check_items(items),
            left,
            right,
            outcome,
            person=person,
            persons=persons,
            weight=weight,
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

    def with_items_public(self) -> Comparisons:
        """The same table, its items as seen declared public by the holder; a release says so."""
        return self if self.items_source == "declared" else replace(self, items_source="assumed")


def build(
    names: tuple[str, ...],
    left: Sequence[int] | NDArray[Any],
    right: Sequence[int] | NDArray[Any],
    outcome: Sequence[int] | NDArray[Any],
    *,
    person: Sequence[int] | NDArray[Any] | None,
    persons: tuple[str, ...] | None,
    weight: Sequence[Fraction | int] | None,
    items_source: ItemsSource,
    notes: tuple[str, ...],
) -> Comparisons:
    """:meth:`Comparisons.from_columns` once the names are checked."""
    a, b, y = (_integers(column, name) for column, name in ((left, "left"), (right, "right"), (outcome, "outcome")))
    who = None if person is None else _integers(person, "person")
    for column, name in ((b, "right"), (y, "outcome"), (who, "person"), (weight, "weight")):
        if column is not None and len(column) != len(a):
            raise ParameterError(f"{name} must have one entry a record ({len(a)}), got {len(column)}")
    _reject(
        ~((a >= 0) & (a < len(names)) & (b >= 0) & (b < len(names))),
        f"an item must be 0 to {len(names) - 1}",
        a,
        b,
    )
    _reject(a == b, "an item is compared with itself", a)
    _reject((y < -1) | (y > 1), "an outcome must be 1 (left won), -1 (right won) or 0 (a tie)", y)
    if who is not None:
        count = len(persons) if persons is not None else int(who.max(initial=-1)) + 1
        _reject(~((who >= 0) & (who < count)), "a person must be a position in persons", who)
        persons = persons if persons is not None else tuple(str(i) for i in range(count))
    exact: tuple[Fraction, ...] | None = None
    if weight is not None:
        values = []
        for record, value in enumerate(weight, start=1):
            if isinstance(value, bool) or not isinstance(value, Rational) or value < 0:
                raise DataError(f"a weight must be an exact number >= 0, got {value!r}", source="weight", line=record)
            values.append(Fraction(int(value.numerator), int(value.denominator)))
        exact = tuple(values)
        if exact and not any(exact):
            raise DataError("nothing to rank: every weight is 0")
    return Comparisons(
        items=names,
        left=a,
        right=b,
        outcome=y.astype(np.int8),
        person=who,
        persons=persons,
        weight=exact,
        items_source=items_source,
        notes=notes,
    )


def _integers(column: object, name: str) -> NDArray[np.int64]:
    values = np.asarray(column)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise ParameterError(f"{name} must be a one-dimensional column of whole numbers, got {values.dtype}")
    return values.astype(np.int64)


def _reject(bad: NDArray[np.bool_], rule: str, *columns: NDArray[np.int64]) -> None:
    if bad.any():
        record = int(np.argmax(bad))
        got = ", ".join(str(column[record]) for column in columns)
        raise DataError(f"{rule}, got {got}", source="record", line=record + 1)

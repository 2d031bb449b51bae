"""One person's ballot: a strict, tied or truncated order of items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psephos._check import check_integer
from psephos.errors import DataError

__all__ = ["Ballot"]


@dataclass(frozen=True, slots=True)
class Ballot:
    """A weak order of some items, best first.

    Parameters
    ----------
    groups
        Groups of 0-based item positions; the items of one group are tied. Items in no group are
        unranked, and a ballot without groups is the empty ballot.

    Raises
    ------
    DataError
        if a group is empty or an item occurs twice: the sensitivity of every release rests on one person
        adding at most one to each ordered pair.

    >>> Ballot(((2,), (1, 0)))
    Ballot(groups=((2,), (0, 1)))
    >>> Ballot(((0,), (0, 1)))
    Traceback (most recent call last):
        ...
    psephos.errors.DataError: item position 0 occurs twice in one ballot
    """

    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        seen: set[int] = set()
        groups = []
        for group in self.groups:
            members = tuple(sorted(check_integer(item, "item position", low=0) for item in group))
            if not members:
                raise DataError("a ballot has an empty group of tied items")
            for item in members:
                if item in seen:
                    raise DataError(f"item position {item} occurs twice in one ballot")
                seen.add(item)
            groups.append(members)
        object.__setattr__(self, "groups", tuple(groups))

    @classmethod
    def strict(cls, order: Iterable[int]) -> Ballot:
        """The ballot that ranks the item positions of ``order`` without ties, best first.

        >>> Ballot.strict([1, 0]).groups
        ((1,), (0,))
        """
        return cls(tuple((item,) for item in order))

    @classmethod
    def from_places(cls, places: Sequence[int]) -> Ballot:
        """The ballot in which item ``i`` has place ``places[i]`` (1 is best, 0 is unranked).

        >>> Ballot.from_places([2, 0, 1, 2]).groups
        ((2,), (0, 3))
        """
        by_place: dict[int, list[int]] = {}
        for item, place in enumerate(places):
            value = check_integer(place, f"place of item position {item}", low=0)
            if value:
                by_place.setdefault(value, []).append(item)
        return cls(tuple(tuple(by_place[place]) for place in sorted(by_place)))

    def places(self, m: int) -> list[int]:
        """The place of each of ``m`` items: 1 is best, tied items share a place, 0 is unranked.

        >>> Ballot(((2,), (0, 3))).places(4)
        [2, 0, 1, 2]
        """
        places = [0] * m
        for place, group in enumerate(self.groups, start=1):
            for item in group:
                if not item < m:
                    raise DataError(f"item position {item} is not below the number of items, {m}")
                places[item] = place
        return places

    @property
    def is_strict(self) -> bool:
        """Whether no two ranked items are tied."""
        return all(len(group) == 1 for group in self.groups)

    @property
    def ranked(self) -> int:
        """How many items the ballot ranks."""
        return sum(len(group) for group in self.groups)

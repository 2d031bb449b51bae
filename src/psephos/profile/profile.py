"""A profile: what a population said, as distinct ballots with multiplicities.

The support is stored item-major: row ``u`` of ``places`` holds the place of item ``u`` on every distinct
ballot, so that a pair of items is compared by two contiguous rows. Multiplicities are Python integers and
nothing ever expands them: 10**30 people cost what 10**3 do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos._check import check_choice, check_integer
from psephos.errors import DataError, ParameterError
from psephos.profile.ballot import Ballot
from psephos.profile.names import ItemIndex, check_items, items_shown, require_items
from psephos.profile.seen_items import require_public_looking

__all__ = ["MOST_PEOPLE", "BallotAccumulator", "ItemsSource", "Places", "Profile", "places_dtype"]

#: How the list of items is known: ``declared`` in a header or by the caller (a public fact), ``seen`` in
#: the records (data), or ``assumed``: seen, and declared public by the holder.
ItemsSource = Literal["declared", "seen", "assumed"]

Places = NDArray[np.unsignedinteger]

#: Python writes integers of up to 4,300 digits as text; margins and costs must stay below that.
MOST_PEOPLE = 10**4000


def places_dtype(m: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type that holds places 0..m and one more value for "after all others"."""
    for kind in (np.uint8, np.uint16, np.uint32):
        if m + 1 <= np.iinfo(kind).max:
            return np.dtype(kind)
    raise ParameterError(f"a profile holds fewer than 2**32 - 1 items, got {m}")


class BallotAccumulator:
    """Collects ballots one by one and merges equal ones; memory follows the number of distinct ballots."""

    def __init__(self, m: int) -> None:
        self.m = m
        self.dtype = places_dtype(m)
        self._counts: dict[bytes, int] = {}

    def add(self, places: Sequence[int] | bytes, count: int) -> bool:
        """Add ``count`` people whose dense places (0 is unranked) are ``places``; whether the ballot is new.

        Bytes are taken as places of ``dtype``.
        """
        if isinstance(places, bytes):
            key = places
        else:
            key = bytes(places) if self.dtype.itemsize == 1 else np.asarray(places, self.dtype).tobytes()
        before = self._counts.get(key)
        self._counts[key] = count if before is None else before + count
        return before is None

    def profile(self, items: tuple[str, ...], *, items_source: ItemsSource, notes: tuple[str, ...]) -> Profile:
        """The profile collected so far."""
        flat = np.frombuffer(b"".join(self._counts), dtype=self.dtype)
        rows = flat.reshape(len(self._counts), self.m)
        return Profile(
            items=items,
            places=rows.T,
            counts=tuple(self._counts.values()),
            items_source=items_source,
            notes=notes,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Profile:
    """Distinct ballots with multiplicities. Build one with a ``from_`` constructor or a reader.

    Not private: what people said, for the holder alone.

    Attributes
    ----------
    items
        The m item names, in the order that gives each item its position.
    places
        Shape ``(m, support)``, unsigned, read-only: place of each item on each distinct ballot, 1 is best,
        tied items share a place, 0 is unranked.
    counts
        How many people cast each ballot: Python integers >= 1 of any size.
    items_source
        Whether the list of items is a public fact (see :data:`ItemsSource`); releases ask.
    notes
        What a reader merged or repaired. For the holder's eyes only: no release carries it.
    """

    items: tuple[str, ...]
    places: Places
    counts: tuple[int, ...]
    items_source: ItemsSource = "declared"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Whatever a caller hands over is copied and checked here, so that no profile can break a sensitivity bound
        # or fail after a budget is debited.
        items = require_items(self.items)
        counts = tuple(_multiplicity(count) for count in self.counts)
        check_choice(self.items_source, "items_source", ("declared", "seen", "assumed"))
        given = np.asarray(self.places)
        if given.dtype.kind not in "iu" or given.shape != (len(items), len(counts)):
            raise ParameterError(
                f"places must be integers of shape (items, distinct ballots) = {(len(items), len(counts))}, "
                f"got {given.dtype} of shape {given.shape}"
            )
        if given.size and not 0 <= given.min() <= given.max() <= len(items):
            raise ParameterError(f"places must be 0 to {len(items)}, got {given.min()} to {given.max()}")
        if sum(counts) >= MOST_PEOPLE:
            raise DataError("a profile holds fewer than 10**4000 people")
        places = given.astype(places_dtype(len(items)), copy=True, order="C")
        places.setflags(write=False)
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "places", places)

    @classmethod
    def from_ballots(
        cls,
        items: Iterable[str],
        ballots: Mapping[Ballot, int] | Iterable[Ballot],
    ) -> Profile:
        """A profile from ballots over item positions, with multiplicities or one by one.

        Raises
        ------
        DataError
            for an item position outside ``items`` or a repeated item name.
        ParameterError
            for a multiplicity that is not a whole number >= 1.

        >>> Profile.from_ballots(["tea", "coffee"], {Ballot.strict([0, 1]): 10**30}).people == 10**30
        True
        """
        pairs = ballots.items() if isinstance(ballots, Mapping) else ((ballot, 1) for ballot in ballots)
        return cls._counted(check_items(items), pairs)

    @classmethod
    def _counted(cls, names: tuple[str, ...], pairs: Iterable[tuple[Ballot, int]]) -> Profile:
        support = BallotAccumulator(len(names))
        for ballot, count in pairs:
            if not isinstance(ballot, Ballot):
                raise ParameterError(f"ballots must be Ballot objects, got {ballot!r}")
            support.add(ballot.places(len(names)), check_integer(count, "multiplicity", low=1))
        return support.profile(names, items_source="declared", notes=())

    @classmethod
    def from_rankings(
        cls,
        rankings: Mapping[tuple[str | tuple[str, ...], ...], int] | Iterable[Sequence[str | tuple[str, ...]]],
        *,
        items: Iterable[str],
    ) -> Profile:
        """A profile from orders of item names, best first; a tuple inside an order is a tie.

        Raises
        ------
        DataError
            for an unknown or repeated item.

        >>> p = Profile.from_rankings({("tea", "coffee", "water"): 3, ("water", ("tea", "coffee")): 2},
        ...                           items=["tea", "coffee", "water"])
        >>> p.people, p.support
        (5, 2)
        """
        names = check_items(items)
        index = ItemIndex(names)

        def ballot(order: Sequence[str | tuple[str, ...]]) -> Ballot:
            if not isinstance(order, (tuple, list)):
                raise ParameterError(f"a ranking must be a tuple or list of item names, got {order!r}")
            groups = []
            seen: set[int] = set()
            for place in order:
                members = []
                if not isinstance(place, (str, tuple, list)):
                    raise ParameterError(f"a place in a ranking must be an item name or a tuple of them, got {place!r}")
                for name in (place,) if isinstance(place, str) else place:
                    position = index.find(name) if isinstance(name, str) else None
                    if position is None:
                        raise DataError(f"unknown item {name!r}; the items are {', '.join(names)}")
                    if position in seen:
                        raise DataError(f"item {name!r} occurs twice in one ballot")
                    seen.add(position)
                    members.append(position)
                groups.append(tuple(members))
            return Ballot(tuple(groups))

        pairs: Iterable[tuple[Sequence[str | tuple[str, ...]], int]]
        pairs = rankings.items() if isinstance(rankings, Mapping) else ((order, 1) for order in rankings)
        return cls._counted(names, ((ballot(order), count) for order, count in pairs))

    @classmethod
    def from_masses(cls, people: int, masses: Mapping[Ballot, Fraction], *, items: Iterable[str]) -> Profile:
        """A profile from the number of people and the exact share of each ballot.

        Parameters
        ----------
        people
            N >= 1, of any size.
        masses
            Ballot -> share, rationals >= 0 that sum to 1, each a whole number of people.

        Raises
        ------
        DataError
            if a share is negative, the shares do not sum to 1, or N times a share is not whole.

        >>> Profile.from_masses(4, {Ballot.strict([0]): Fraction(3, 4), Ballot(): Fraction(1, 4)},
        ...                     items=["tea"]).counts
        (3, 1)
        """
        total = check_integer(people, "people", low=1)
        ballots: dict[Ballot, int] = {}
        for ballot, mass in masses.items():
            if not isinstance(mass, (int, Fraction)):
                raise DataError(f"the mass of {ballot} must be an exact rational, got {mass!r}")
            if mass < 0:
                raise DataError(f"the mass of {ballot} must be >= 0, got {mass}")
            count = mass * total
            if count.denominator != 1:
                raise DataError(f"{total} people times the mass {mass} of {ballot} is not a whole number")
            if count:
                ballots[ballot] = int(count)
        if sum(masses.values()) != 1:
            raise DataError(f"the masses must sum to 1, got {sum(masses.values())}")
        return cls.from_ballots(items, ballots)

    @classmethod
    def from_places(
        cls,
        items: Iterable[str],
        places: ArrayLike,
        counts: Iterable[int] | None = None,
        *,
        base: Literal[0, 1] | None = None,
    ) -> Profile:
        """A profile from an item-major array of places.

        Parameters
        ----------
        places
            Integers, shape ``(m, ballots)``: 1 is best, equal numbers are ties, 0 is unranked. Numbers need
            not be consecutive: ``1, 1, 3`` and ``1, 1, 2`` are the same ballot.
        counts
            Multiplicity of each column; one person each if absent.
        base
            The best place: 1, or 0, and then unranked is -1. Absent it is 1, and ballots that all look as if they
            counted from 0 are refused.

        Raises
        ------
        DataError
            if ``base`` is absent and each ballot has one 0 and otherwise 1 to m - 1, each once.
        ParameterError
            for an array of another type, shape or range.

        >>> Profile.from_places(["tea", "coffee"], [[1, 1, 2], [2, 2, 1]]).counts
        (2, 1)
        >>> Profile.from_places(["tea", "coffee"], [[0, 0, 1], [1, 1, 0]], base=0).counts
        (2, 1)
        """
        names = check_items(items)
        array = np.asarray(places)
        if array.ndim != 2 or array.shape[0] != len(names) or array.dtype.kind not in "iu":
            raise ParameterError(
                f"places must be an integer array of shape ({len(names)}, ballots), "
                f"got {array.dtype} of shape {array.shape}"
            )
        if base is not None:
            check_integer(base, "base", low=0, high=1)
        least = -1 if base == 0 else 0
        if array.size and array.min() < least:
            hint = "" if base == 0 else " (0 is unranked; base=0 if places count from 0 and -1 is unranked)"
            raise ParameterError(f"places must be >= {least}, got {array.min()}{hint}")
        if base == 0:
            if array.size and array.max() > np.iinfo(np.int64).max:
                raise ParameterError(f"places must be below 2**63 where base=0, got {array.max()}")
            array = array.astype(np.uint64) + np.uint64(1)  # -1 comes round to 0
        elif base is None and len(names) > 1 and array.size and _counts_from_zero(array):
            raise DataError(
                f"each ballot has one 0 and otherwise the places 1 to {len(names) - 1}, each once: base=0 if 0 is the "
                "best place, base=1 if 0 is unranked"
            )
        if counts is None:
            numbers: Iterable[int] = itertools.repeat(1)
        else:
            numbers = [_multiplicity(count) for count in counts]
            if len(numbers) != array.shape[1]:
                raise ParameterError(f"counts must have one entry a ballot ({array.shape[1]}), got {len(numbers)}")
        support = BallotAccumulator(len(names))
        ballots = _dense(array.T, support.dtype)
        flat, width = ballots.tobytes(), len(names) * support.dtype.itemsize
        for i, count in zip(range(len(ballots)), numbers):  # noqa: B905 (repeat has no end)
            support.add(flat[i * width : (i + 1) * width], count)
        return support.profile(names, items_source="declared", notes=())

    @property
    def people(self) -> int:
        """N, the number of people: a public fact."""
        return sum(self.counts)

    @property
    def m(self) -> int:
        """The number of items: a public fact."""
        return len(self.items)

    @property
    def support(self) -> int:
        """The number of distinct ballots (data, not a public fact)."""
        return len(self.counts)

    def ballots(self) -> Iterator[tuple[Ballot, int]]:
        """The distinct ballots with their multiplicities."""
        for column, count in zip(self.places.T.tolist(), self.counts, strict=True):
            yield Ballot.from_places(column), count

    @property
    def data_type(self) -> Literal["soc", "soi", "toc", "toi"]:
        """PrefLib's name for the narrowest kind of ballot that holds all of these."""
        complete = bool((self.places > 0).all())
        # Places are dense, so a ballot is strict when its last place equals the number of items it ranks.
        ranked = np.count_nonzero(self.places, axis=0)
        last = self.places.max(axis=0, initial=0)
        strict = bool((ranked == last).all())
        if strict:
            return "soc" if complete else "soi"
        return "toc" if complete else "toi"

    def with_items_public(self) -> Profile:
        """The same profile, its items as seen declared public by the holder; a release says so.

        Raises
        ------
        DataError
            for items as seen that look like addresses, dates or numbers, or that one person alone named: they are
            hardly a public list, and a release would publish them. Call it when reading: it depends on the data.
        """
        if self.items_source != "seen":
            return self
        require_public_looking(self.items, self.named_by())
        return replace(self, items_source="assumed")

    def named_by(self) -> list[int]:
        """How many people ranked each item: data, not a public fact."""
        return [sum(itertools.compress(self.counts, row)) for row in (self.places > 0).tolist()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Profile):
            return NotImplemented
        return self.items == other.items and dict(self.ballots()) == dict(other.ballots())

    def __repr__(self) -> str:
        people = self.people
        many = f"{people:,}" if people < 10**15 else f"over 10**{len(str(people)) - 1}"
        shown = items_shown(self.items, self.items_source)
        return f"<Profile: {many} {'ballot' if people == 1 else 'ballots'} of {shown}>"

    __hash__ = None  # type: ignore[assignment]


def _counts_from_zero(places: NDArray[np.integer]) -> bool:
    """Whether each ballot is a permutation of 0 to m - 1."""
    m = places.shape[0]
    return bool(places.max() == m - 1 and (np.sort(places, axis=0) == np.arange(m)[:, None]).all())


def _dense(ballots: NDArray[np.integer], dtype: np.dtype[np.unsignedinteger]) -> Places:
    """Places, a row a ballot, renumbered 1, 2, ... without gaps on every ballot; 0 stays 0."""
    if ballots.size and ballots.max() <= np.iinfo(dtype).max:
        ballots = ballots.astype(dtype)  # sorts faster
    ballots = np.ascontiguousarray(ballots)
    order = np.argsort(ballots, axis=1, kind="stable")
    ranked = np.take_along_axis(ballots, order, axis=1)
    steps = np.zeros(ballots.shape, dtype=dtype)
    if ballots.shape[1]:
        steps[:, 0] = ranked[:, 0] > 0
        steps[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    dense = np.empty(ballots.shape, dtype=dtype)
    np.put_along_axis(dense, order, np.cumsum(steps, axis=1, dtype=dtype), axis=1)
    return dense


def _multiplicity(count: object) -> int:
    """``count`` as a Python integer >= 1; those that are one are not looked at twice, since there may be millions."""
    return count if type(count) is int and count > 0 else check_integer(count, "multiplicity", low=1)

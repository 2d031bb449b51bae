"""Parsing one written order, and what happens to one that breaks a rule.

``clean`` names the policy: ``reject`` (an error with the line), ``keep-first`` (a repeated item keeps its
best place; any other fault voids the order), ``empty`` (any fault voids the order). A void order becomes the
empty ballot: cleaning never drops a person, so the number of people stays the public fact that it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from psephos._check import check_choice
from psephos.errors import DataError

__all__ = [
    "Clean",
    "OrderFault",
    "Repairs",
    "check_clean",
    "parse_count",
    "parse_order",
    "places_of",
    "without_repeats",
]

Clean = Literal["reject", "keep-first", "empty"]

_MAX_DIGITS = 4000
_MOST_FAULTS = 20
_TOKEN = re.compile(r"\s*([0-9]+|[{},]|[^{},]+)\s*")


class OrderFault(ValueError):
    """What is wrong with one order, in words."""


def check_clean(clean: object) -> Clean:
    """Return ``clean`` if it names a policy."""
    return check_choice(clean, "clean", ("reject", "keep-first", "empty"))  # type: ignore[return-value]


def parse_count(text: str) -> int:
    """A multiplicity: ASCII digits only, >= 1, of any size up to 4,000 digits.

    >>> parse_count("9007199254740993")
    9007199254740993
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or not digits.strip("0"):
        raise OrderFault(f"count must be a whole number >= 1, got {digits!r}")
    if len(digits) > _MAX_DIGITS:
        raise OrderFault(f"count must have at most {_MAX_DIGITS} digits, got {len(digits)}")
    return int(digits)


def parse_order(text: str, m: int) -> list[list[int]]:
    """Groups of 0-based item positions written as ``2,{1,3}``: numbers 1..m, braces around ties.

    Repeated items are left in (see :func:`places_of`). A blank text is the empty ballot.

    >>> parse_order("2,{1,3}", 3)
    [[1], [0, 2]]
    """
    if not text.strip():
        return []
    if "{" not in text and "}" not in text:
        return [[_item(token, m)] for token in text.split(",")]
    try:
        return _parse_groups(text, m)
    except OrderFault as fault:
        raise OrderFault(f"{fault}, in {text.strip()[:80]!r}") from None


def _parse_groups(text: str, m: int) -> list[list[int]]:
    groups: list[list[int]] = []
    group: list[int] | None = None
    item_next = True  # an item or an opening brace must follow, else a comma or a closing brace
    for mark in _TOKEN.findall(text):
        if mark == "{":
            if group is not None or not item_next:
                raise OrderFault("a brace opens inside a group or without a comma before it")
            group = []
        elif mark == "}":
            if group is None:
                raise OrderFault("a brace closes that never opened")
            if item_next:
                raise OrderFault("a group of tied items is empty or ends in a comma")
            groups.append(group)
            group = None
        elif mark == ",":
            if item_next:
                raise OrderFault("a comma has no item before it")
            item_next = True
        else:
            if not item_next:
                raise OrderFault(f"no comma before {mark!r}")
            item = _item(mark, m)
            if group is None:
                groups.append([item])
            else:
                group.append(item)
            item_next = False
    if group is not None:
        raise OrderFault("a brace opens that never closes")
    if item_next:
        raise OrderFault("the order ends in a comma")
    return groups


def _item(token: str, m: int) -> int:
    digits = token.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or not 1 <= int(digits) <= m:
        raise OrderFault(f"an item must be a number from 1 to {m}, got {digits!r}")
    return int(digits) - 1


def places_of(groups: list[list[int]], m: int, names: Sequence[str] | None = None) -> list[int]:
    """Dense places (1 is best, 0 unranked) of groups of item positions; a repeated item is a fault.

    >>> places_of([[1], [0, 2]], 4)
    [2, 1, 2, 0]
    """
    places = [0] * m
    for place, group in enumerate(groups, start=1):
        for item in group:
            if places[item]:
                label = repr(names[item]) if names is not None else str(item + 1)
                raise OrderFault(f"item {label} occurs twice in one ballot")
            places[item] = place
    return places


def without_repeats(groups: list[list[int]]) -> list[list[int]]:
    """The groups with every item at its first place alone.

    >>> without_repeats([[0, 0], [0], [1]])
    [[0], [1]]
    """
    seen: set[int] = set()
    kept = []
    for group in groups:
        fresh = [item for item in dict.fromkeys(group) if item not in seen]
        seen.update(fresh)
        if fresh:
            kept.append(fresh)
    return kept


class Repairs:
    """Applies a cleaning policy, counts in people what it repaired, and remembers the first faults.

    ``names`` label items in messages (their numbers do if absent); ``check`` is a further rule for groups.
    """

    def __init__(self, clean: Clean, source: str, check: Callable[[list[list[int]]], None] | None = None) -> None:
        self.clean = check_clean(clean)
        self.source = source
        self.names: Sequence[str] | None = None
        self.faults: list[str] = []
        self.people: Counter[str] = Counter()
        self._check = check

    def places(self, groups: list[list[int]] | OrderFault, m: int, count: int, line: int) -> list[int]:
        """The places of one order of ``count`` people, repaired as the policy says.

        Raises
        ------
        DataError
            with file and line, under the policy ``reject``.
        """
        try:
            if isinstance(groups, OrderFault):
                raise groups
            kept = without_repeats(groups) if self.clean == "keep-first" else groups
            if self._check is not None:
                self._check(kept)
            places = places_of(kept, m, self.names)
        except OrderFault as fault:
            if self.clean == "reject":
                raise DataError(str(fault), source=self.source, line=line) from None
            if len(self.faults) < _MOST_FAULTS:
                self.faults.append(f"{self.source}:{line}: {fault}")
            self.people["voided the faulty ballots (now empty) of"] += count
            return [0] * m
        if kept is not groups and kept != groups:
            self.people["kept the first place of repeated items on the ballots of"] += count
        return places

    def notes(self) -> tuple[str, ...]:
        """What was repaired, in words, and the first faults with their lines."""
        return (*(f"{self.source}: {what} {_people(n)}" for what, n in sorted(self.people.items())), *self.faults)


def _people(n: int) -> str:
    return "1 person" if n == 1 else f"{n} people"

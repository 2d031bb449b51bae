"""Parsing one written order, and what happens to one that breaks a rule.

``clean`` names the policy: ``reject`` (an error that lists every fault with its line), ``keep-first`` (a repeated
item keeps its best place; any other fault voids the order), ``empty`` (any fault voids the order). A void order
becomes the empty ballot: cleaning never drops a person, so the number of people stays the public fact that it is.
Where more than half of the people would be left without a say, reading ends in an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Literal

from psephos._check import check_choice
from psephos.errors import DataError, fault_lines

__all__ = [
    "MOST_VOID",
    "Clean",
    "Faults",
    "OrderFault",
    "Repairs",
    "check_clean",
    "parse_count",
    "parse_order",
    "places_of",
    "without_repeats",
]

Clean = Literal["reject", "keep-first", "empty"]

#: The share of people whose ballots a cleaning policy voids without being told that it may.
MOST_VOID = Fraction(1, 2)
_MAX_DIGITS = 4000
_MOST_NAMED = 10
_TOKEN = re.compile(r"\s*([0-9]+|[{},]|[^{},]+)\s*")


class OrderFault(ValueError):
    """What is wrong with one order, in words."""


def check_clean(clean: object) -> Clean:
    """Return ``clean`` if it names a policy."""
    return check_choice(clean, "clean", ("reject", "keep-first", "empty"))


def parse_count(text: str) -> int:
    """A multiplicity: ASCII digits only, of any size up to 4,000 digits; 0 says that nobody gave this ballot.

    >>> parse_count("9007199254740993")
    9007199254740993
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise OrderFault(f"count must be a whole number >= 1, got {digits[:80]!r}")
    if len(digits) > _MAX_DIGITS:
        raise OrderFault(f"count must have at most {_MAX_DIGITS} digits, got {len(digits)}")
    return int(digits)


def parse_order(text: str, m: int, numbers: Mapping[int, int] | None = None) -> list[list[int]]:
    """Groups of 0-based item positions written as ``2,{1,3}``: numbers 1..m, braces around ties.

    ``numbers`` maps the number of an item to its position where they are not 1..m. Repeated items are left in (see
    :func:`places_of`). A blank text is the empty ballot. Every item that is none is named.

    >>> parse_order("2,{1,3}", 3)
    [[1], [0, 2]]
    """
    if not text.strip():
        return []
    wrong: list[str] = []

    def position(token: str) -> int:
        digits = token.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= 10:
            number = int(digits)
            found = numbers.get(number, -1) if numbers is not None else number - 1
            if 0 <= found < m:
                return found
        wrong.append(digits)
        return 0

    try:
        if "{" not in text and "}" not in text:
            groups = [[position(token)] for token in text.split(",")]
        else:
            groups = _parse_groups(text, position)
        if wrong:
            span = f"a number from 1 to {m}" if numbers is None else f"one of {_listed(map(str, numbers))}"
            raise OrderFault(f"an item must be {span}, got {_listed(repr(token[:80]) for token in wrong)}")
    except OrderFault as fault:
        raise OrderFault(f"{fault}, in {text.strip()[:80]!r}" if "{" in text or "}" in text else str(fault)) from None
    return groups


def _listed(names: Iterable[str]) -> str:
    """The first few of a list, for messages."""
    different = list(dict.fromkeys(names))
    more = len(different) - _MOST_NAMED
    return ", ".join(different[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _parse_groups(text: str, position: Callable[[str], int]) -> list[list[int]]:
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
            item = position(mark)
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


def places_of(groups: list[list[int]], m: int, names: Sequence[str] | None = None) -> list[int]:
    """Dense places (1 is best, 0 unranked) of groups of item positions; a repeated item is a fault.

    >>> places_of([[1], [0, 2]], 4)
    [2, 1, 2, 0]
    """
    places = [0] * m
    repeated = []
    for place, group in enumerate(groups, start=1):
        for item in group:
            if places[item]:
                repeated.append(item)
            places[item] = place
    if repeated:
        labels = _listed(repr(names[item]) if names is not None else str(item + 1) for item in repeated)
        one = len(set(repeated)) == 1
        raise OrderFault(f"item{'' if one else 's'} {labels} {'occurs' if one else 'occur'} twice in one ballot")
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


class Faults:
    """Every fault of one file, so that its holder learns of them at once."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[tuple[int | None, str]] = []
        self.people = 0

    def add(self, rule: str, line: int | None, people: int = 0) -> None:
        """Keep one fault, and how many people gave the faulty ballot."""
        self.found.append((line, rule))
        self.people += people

    def settle(self) -> None:
        """Raise if there is any.

        Raises
        ------
        DataError
            with all faults, in the order of the file.
        """
        if not self.found:
            return
        faults = sorted(self.found, key=lambda fault: (fault[0] is None, fault[0] or 0))
        self.found = []
        line, rule = faults[0]
        summary = f"{self.source}: faulty ballots of {_people(self.people)}" if self.people and len(faults) > 1 else ""
        raise DataError(rule, source=self.source, line=line, faults=faults, summary=summary)

    @contextmanager
    def told_at_once(self) -> Iterator[None]:
        """Add the fault that ends a reading, if one does, to those found before it, and raise them all."""
        try:
            yield
        except DataError as error:
            self.found.extend(error.faults)
        self.settle()


class Repairs:
    """Applies a cleaning policy, counts in people what it repaired, and keeps the faults.

    ``names`` label items in messages (their numbers do if absent).
    """

    def __init__(self, clean: Clean, source: str, *, allow_void: bool = False) -> None:
        self.clean = check_clean(clean)
        self.allow_void = allow_void
        self.all = 0  # people
        self.source = source
        self.names: Sequence[str] | None = None
        self.faults = Faults(source)  # what ends the reading
        self.voided = Faults(source)
        self.people: Counter[str] = Counter()
        self.zeros = 0

    def count(self, text: str, line: int) -> int:
        """A multiplicity; 0 where nobody gave this ballot or the count is faulty, which no policy repairs."""
        try:
            count = parse_count(text)
        except OrderFault as fault:
            self.faults.add(str(fault), line)
            return 0
        self.zeros += not count
        return count

    def places(self, parse: Callable[[], list[list[int]]], m: int, count: int, line: int, *further: int) -> list[int]:
        """The places of one order of ``count`` people, repaired as the policy says; none where it is void.

        ``parse`` gives its groups or raises :class:`OrderFault`; ``further`` are more lines on which it stands.
        """
        self.all += count
        try:
            groups = parse()
            kept = without_repeats(groups) if self.clean == "keep-first" else groups
            places = places_of(kept, m, self.names)
        except OrderFault as fault:
            found = self.faults if self.clean == "reject" else self.voided
            found.add(str(fault), line, count)
            for other in further:
                found.add(str(fault), other)
            return [0] * m
        if not kept:
            self.people["no item is ranked, an abstention, on the ballots of"] += count
        elif kept is not groups and kept != groups:
            self.people["kept the first place of repeated items on the ballots of"] += count
        return places

    @property
    def void(self) -> int:
        """How many lines were void so far."""
        return len(self.faults.found) + len(self.voided.found)

    def finish(self) -> tuple[str, ...]:
        """What was repaired or left out, in words, and the first faults with their lines.

        Raises
        ------
        DataError
            listing every fault, if the policy is ``reject`` or one is beyond repair; or if more than a share of
            :data:`MOST_VOID` of the people have void ballots, unless that is allowed.
        """
        self.faults.settle()
        if self.voided.people > MOST_VOID * self.all and not self.allow_void:
            rule = (
                f"{self.voided.people} of {self.all} ballots would be void, more than {MOST_VOID} of them: they may "
                "have been read by wrong rules; --allow-void insists"
            )
            raise DataError(rule, source=self.source, faults=[(None, rule), *sorted(self.voided.found)])
        said = [f"{what} {_people(n)}" for what, n in sorted(self.people.items())]
        if self.voided.found:
            said.append(f"voided the faulty ballots (now empty) of {_people(self.voided.people)}")
        if self.zeros:
            said.append(f"{self.zeros} line{'s' if self.zeros > 1 else ''} with count 0 left out")
        return (*(f"{self.source}: {what}" for what in said), *fault_lines(sorted(self.voided.found), self.source))


def _people(n: int) -> str:
    return "1 person" if n == 1 else f"{n} people"

"""Ballots and comparisons as CSV.

Ballots come in two layouts, told apart by the header alone (or by ``layout``):

* ``places``: a column an item, a cell is that item's place (1 is best, equal numbers tie, blank is unranked);
* ``positions``: columns ``rank1, rank2, ...``, a cell is the item in that position, blank if skipped.

A column ``count`` gives a row's multiplicity, a column ``person`` (or ``voter``, ``worker``) names who
answered; one person gives one ballot. Comparisons have the columns ``left, right, winner`` with winner
``left``, ``right`` or ``tie``, and may have ``person`` and ``weight``.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from psephos._check import check_choice, fold
from psephos.errors import DataError
from psephos.profile.comparisons import OUTCOMES, Comparisons, parse_weight
from psephos.profile.csv_table import Table, csv_row
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import ItemIndex, check_items, require_items
from psephos.profile.profile import ItemsSource, Profile, Support
from psephos.profile.repair import Clean, OrderFault, Repairs, parse_count

__all__ = [
    "Gaps",
    "Layout",
    "csv_kind",
    "read_ballots_csv",
    "read_comparisons_csv",
    "write_ballots_csv",
    "write_comparisons_csv",
]

Layout = Literal["positions", "places"]
Gaps = Literal["skip", "stop", "reject"]

# A header of bare numbers is more likely a file without a header, so by itself it is no list of positions.
_POSITION = re.compile(
    r"(?:rank|choice|position|preference|pos)[ _-]?([0-9]+)|([0-9]+)(?:st|nd|rd|th)(?:[ _-]?(?:choice|rank))?",
    re.IGNORECASE,
)
_PERSON = ("person", "voter", "worker")
_SPECIAL = (*_PERSON, "count")
#: Columns that survey exports carry and that are no items; they would otherwise become some in ``places``.
_NO_ITEM = ("id", "ballot", "ballot_id", "person_id", "voter_id", "worker_id", "timestamp", "weight")
#: Cells of the positions layout that are no item: nothing was marked there, or too much.
_MARKS = ("", "-", "n/a", "skipped", "undervote", "overvote")


def csv_kind(path: Source) -> Literal["ballots", "comparisons"]:
    """Whether a CSV file holds ballots or comparisons, from its header alone."""
    with open_text(path, newline="") as stream:
        columns = {name.lower() for name in Table(stream, source_name(path)).columns}
    return "comparisons" if {"left", "right", "winner"} <= columns else "ballots"


def _position(name: str, *, bare: bool = False) -> int | None:
    """The number of a column named like a position, or ``None``; with ``bare`` a plain number counts too."""
    match = _POSITION.fullmatch(name)
    digits = (match[1] or match[2]) if match else name if bare and name.isascii() and name.isdigit() else ""
    return int(digits) if 0 < len(digits) < 9 else None


def _layout(names: list[str], table: Table) -> Layout:
    numbers = [_position(name) for name in names]
    if not any(number is not None for number in numbers):
        return "places"
    if numbers != list(range(1, len(names) + 1)):
        raise table.fail(
            "some columns look like positions, but they are not rank1, rank2, ... in order; "
            f"columns found: {table.found()} (if they are items, say layout='places')"
        )
    return "positions"


def _in_position_order(body: list[int], table: Table) -> list[int]:
    """The columns of ``body`` sorted by the number in their names, where all have one."""
    numbers = {i: _position(table.columns[i], bare=True) for i in body}
    if any(number is None for number in numbers.values()):
        return body
    ordered = sorted(body, key=lambda i: numbers[i] or 0)
    if [numbers[i] for i in ordered] != list(range(1, len(body) + 1)):
        raise table.fail(f"the positions must be 1 to {len(body)}, each once; columns found: {table.found()}")
    return ordered


def read_ballots_csv(
    path: Source,
    *,
    layout: Layout | None = None,
    items: Iterable[str] | None = None,
    clean: Clean = "reject",
    gaps: Gaps = "skip",
) -> Profile:
    """Read ballots from CSV (comma, semicolon or tab; the header decides).

    Parameters
    ----------
    layout
        ``places`` or ``positions`` (see the module); recognised from the header if absent.
    items
        The list of items, a public fact. In the layout ``places`` the header gives it, and ``items`` must
        agree. In ``positions`` it is needed for a release; without it the items are those seen, sorted.
    clean
        As in :func:`psephos.read_preflib`.
    gaps
        For ``positions``: what a blank, ``-``, ``n/a``, ``skipped``, ``undervote`` or ``overvote`` cell before an
        item does. ``skip``: later items move up. ``stop``: the ballot ends there. ``reject``: it is a fault.

    Raises
    ------
    DataError
        naming file, line, value and rule.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> _ = file.write_text("tea,coffee,count\\n1,2,3\\n2,1,1\\n")
    >>> read_ballots_csv(file).people
    4
    """
    if layout is not None:
        check_choice(layout, "layout", ("positions", "places"))
    check_choice(gaps, "gaps", ("skip", "stop", "reject"))
    source = source_name(path)
    repairs = Repairs(clean, source)
    with open_text(path, newline="") as stream:
        table = Table(stream, source)
        special = table.special(_SPECIAL)
        person = table.one_of(special, _PERSON, "person")
        counts = special.get("count")
        if person is not None and counts is not None:
            raise table.fail("a row with a person is one ballot: 'count' and a person column exclude each other")
        if {"left", "right", "winner"} <= {name.lower() for name in table.columns}:
            raise table.fail("these are comparisons (left, right, winner): read_comparisons_csv reads them")
        body = [i for i in range(len(table.columns)) if i not in special.values()]
        if not body:
            raise table.fail(f"no column of ballots; columns found: {table.found()}")
        declared = None if items is None else check_items(items)
        notes: list[str] = []
        form = layout or _layout([table.columns[i] for i in body], table)
        collect: _Rows
        if form == "positions":
            body = _in_position_order(body, table)
            collect = _Positions(declared, gaps, source)
        else:
            if declared is not None:
                known = {fold(name) for name in declared}
                left_out = [table.columns[i] for i in body if fold(table.columns[i]) not in known]
                notes += [f"{source}: the column {name!r} is no item, and left out" for name in left_out]
                body = [i for i in body if fold(table.columns[i]) in known]
            collect = _Places([table.columns[i] for i in body], declared, table, bare=not special)
        collect.said = notes
        persons: set[str] = set()
        for row in table:
            count = 1
            if counts is not None:
                try:
                    count = parse_count(row[counts])
                except OrderFault as fault:
                    raise table.fail(str(fault)) from None
            if person is not None:
                who_answered = fold(row[person]).casefold()
                if not who_answered or who_answered in persons:
                    raise table.fail(f"one person gives one ballot; {who_answered!r} is blank or answered before")
                persons.add(who_answered)
            collect.add(tuple(row[i] for i in body), count, table.line)
    if not collect.rows:
        raise DataError(f"nothing to rank: no row follows the header; columns found: {table.found()}", source=source)
    return collect.profile(repairs)


class _Rows:
    """Rows of cells; equal rows are kept once, and parsed when all are there."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.said: list[str] = []
        # cells -> [count, first line]: in the layout positions the number of items is known only at the end
        self.rows: dict[tuple[str, ...], list[int]] = {}

    def add(self, cells: tuple[str, ...], count: int, line: int) -> None:
        entry = self.rows.setdefault(cells, [0, line])
        entry[0] += count

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        raise NotImplementedError

    def groups(self, cells: tuple[str, ...], count: int) -> list[list[int]]:
        raise NotImplementedError

    def notes(self) -> tuple[str, ...]:
        return ()

    def profile(self, repairs: Repairs) -> Profile:
        names, items_source = self.items()
        repairs.names = names
        support = Support(len(names))
        for cells, (count, line) in self.rows.items():
            groups: list[list[int]] | OrderFault
            try:
                groups = self.groups(cells, count)
            except OrderFault as fault:
                groups = fault
            support.add(repairs.places(groups, len(names), count, line), count)
        return support.profile(names, items_source=items_source, notes=(*self.said, *self.notes(), *repairs.notes()))


class _Places(_Rows):
    def __init__(self, names: list[str], items: Sequence[str] | None, table: Table, *, bare: bool) -> None:
        super().__init__(table.source)
        self.names = check_items(names, source=table.source) if items is None else require_items(names)
        if items is not None:
            missing = [name for name in items if fold(name) not in {fold(column) for column in names}]
            if missing:
                raise table.fail(f"no column for the item {missing[0]!r}; columns found: {table.found()}")
            return
        if bare and all(name.isascii() and name.isdigit() for name in names):
            raise table.fail(f"no header: the first line holds numbers alone; wanted item names, found {table.found()}")
        for name in names:
            if name.lower().replace(" ", "_") in _NO_ITEM:
                raise table.fail(
                    f"column {name!r} looks like no item: remove it, or give the list of items; "
                    f"columns found: {table.found()}"
                )

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        return self.names, "declared"

    def groups(self, cells: tuple[str, ...], _count: int) -> list[list[int]]:
        by_place: dict[int, list[int]] = {}
        for item, raw in enumerate(cells):
            cell = raw.strip()
            if not cell:
                continue
            if not (cell.isascii() and cell.isdigit()) or len(cell) > 9 or not 1 <= int(cell) <= len(self.names):
                raise OrderFault(
                    f"a place must be blank or a whole number from 1 to {len(self.names)}, the number of item columns; "
                    f"got {cell[:40]!r} for {self.names[item]!r} (if the column is no item, remove it or give the list "
                    "of items; if the cells are item names, the layout is 'positions')"
                )
            by_place.setdefault(int(cell), []).append(item)
        return [by_place[place] for place in sorted(by_place)]


class _Positions(_Rows):
    def __init__(self, items: Sequence[str] | None, gaps: Gaps, source: str) -> None:
        super().__init__(source)
        self.index = ItemIndex(items)
        self.gaps = gaps
        self.marks: Counter[str] = Counter()
        self.place_of: list[int] = []

    def _mark(self, cell: str) -> str | None:
        """What a cell that is no item says; ``None`` for an item. A declared item is never a mark."""
        mark = cell.strip().lower()
        if mark in _MARKS and (not mark or not self.index.closed or self.index.find(cell) is None):
            return mark if mark.isalpha() else "blank"
        return None

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        if self.index.closed:
            self.place_of = list(range(len(self.index.names)))
            return tuple(self.index.names), "declared"
        for cells in self.rows:
            for cell in cells:
                if self._mark(cell) is None:
                    self.index.find(cell)
        if not self.index.names:
            raise DataError("nothing to rank: no cell names an item", source=self.source)
        names, self.place_of = _sorted_items(self.index, self.source)
        return names, "seen"

    def groups(self, cells: tuple[str, ...], count: int) -> list[list[int]]:
        groups: list[list[int]] = []
        last = max((i for i, cell in enumerate(cells) if self._mark(cell) is None), default=-1)
        for i, cell in enumerate(cells):
            mark = self._mark(cell)
            if mark is None:
                position = self.index.find(cell)
                if position is None:
                    raise OrderFault(f"unknown item {cell.strip()[:80]!r}")
                groups.append([self.place_of[position]])
                continue
            if i < last and self.gaps == "reject":
                raise OrderFault(f"position {i + 1} is {mark}, and gaps are rejected")
            if i < last or mark != "blank":
                self.marks[mark] += count
            if i < last and self.gaps == "stop":
                break
        return groups

    def notes(self) -> tuple[str, ...]:
        what = "the ballot ends there" if self.gaps == "stop" else "later items moved up"
        marks = tuple(
            f"{self.source}: {n} {mark} cell{'s' if n > 1 else ''} ({what})" for mark, n in sorted(self.marks.items())
        )
        return marks + _respelled(self.index, self.source)


def _sorted_items(index: ItemIndex, source: str) -> tuple[tuple[str, ...], list[int]]:
    """The items seen, in an order that does not depend on the records, and where each of them went."""
    names = check_items(sorted(index.names), source=source)
    where = {name: i for i, name in enumerate(names)}
    return names, [where[name] for name in index.names]


def _respelled(index: ItemIndex, source: str) -> tuple[str, ...]:
    return tuple(
        f"{source}: {name!r} taken as {index.names[index.find(name) or 0]!r}" for name in sorted(index.respelled)
    )


def read_comparisons_csv(path: Source, *, items: Iterable[str] | None = None) -> Comparisons:
    """Read comparisons ``left,right,winner[,person][,weight]`` from CSV.

    Parameters
    ----------
    items
        The list of items, a public fact that a release needs. Without it the items are those seen, sorted.

    Raises
    ------
    DataError
        naming file, line, value and rule: an item against itself, an unknown item or winner, a weight that
        is negative or not a number, no comparison at all.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "duels.csv")
    >>> _ = file.write_text("left,right,winner\\ntea,coffee,left\\ncoffee,tea,tie\\n")
    >>> duels = read_comparisons_csv(file)
    >>> duels.items, duels.records
    (('coffee', 'tea'), 2)
    """
    source = source_name(path)
    index = ItemIndex(None if items is None else check_items(items))
    left, right, outcome = array("q"), array("q"), array("b")
    persons: dict[str, int] = {}  # folded name -> position
    spelled: list[str] = []
    person = array("q")
    weights: list[Fraction] = []
    with open_text(path, newline="") as stream:
        table = Table(stream, source)
        special = table.special(("left", "right", "winner", "weight", "count", *_PERSON))
        for name in ("left", "right", "winner"):
            if name not in special:
                raise table.fail(
                    f"column {name!r} is missing; wanted left, right, winner[, person][, weight], found {table.found()}"
                )
        if "count" in special:
            raise table.fail("comparisons have no 'count': give one row a judgement, or call it 'weight'")
        column_person = table.one_of(special, _PERSON, "person")
        column_weight = special.get("weight")
        for row in table:
            pair = []
            for cell in (row[special["left"]], row[special["right"]]):
                if not cell.strip():
                    raise table.fail("an item is blank")
                position = index.find(cell)
                if position is None:
                    raise table.fail(f"unknown item {cell.strip()[:80]!r}")
                pair.append(position)
            if pair[0] == pair[1]:
                raise table.fail(f"an item is compared with itself: {row[special['left']].strip()[:80]!r}")
            winner = row[special["winner"]].strip()
            if winner.lower() not in OUTCOMES:
                raise table.fail(f"winner must be left, right or tie, got {winner[:80]!r}")
            if column_person is not None:
                name = row[column_person].strip()
                if not name:
                    raise table.fail("the person is blank")
                key = fold(name).casefold()
                if persons.setdefault(key, len(spelled)) == len(spelled):
                    spelled.append(name)
                person.append(persons[key])
            if column_weight is not None:
                try:
                    weights.append(parse_weight(row[column_weight]))
                except OrderFault as fault:
                    raise table.fail(str(fault)) from None
            left.append(pair[0])
            right.append(pair[1])
            outcome.append(OUTCOMES[winner.lower()])
    if not left or (weights and not any(weights)):
        what = "every weight is 0" if left else f"no comparison follows the header; columns found: {table.found()}"
        raise DataError(f"nothing to rank: {what}", source=source)
    names, place_of = tuple(index.names), list(range(len(index.names)))
    if not index.closed:
        names, place_of = _sorted_items(index, source)
    where = np.array(place_of, dtype=np.int64)
    return Comparisons(
        items=names,
        left=where[np.frombuffer(left, dtype=np.int64)],
        right=where[np.frombuffer(right, dtype=np.int64)],
        outcome=np.frombuffer(outcome, dtype=np.int8),
        person=np.frombuffer(person, dtype=np.int64) if column_person is not None else None,
        persons=tuple(spelled) if column_person is not None else None,
        weight=tuple(weights) if column_weight is not None else None,
        items_source="declared" if index.closed else "seen",
        notes=_respelled(index, source),
    )


def write_ballots_csv(profile: Profile, path: Source, *, layout: Layout = "places") -> None:
    """Write ballots with a ``count`` column; :func:`read_ballots_csv` gives the profile back.

    In the layout ``positions`` the reader needs the same ``items``, which such a file does not hold.

    Raises
    ------
    DataError
        if an item's name would be read as something else, or, in the layout ``positions``, if a ballot has a tie.
        Nothing is written then.
    """
    check_choice(layout, "layout", ("positions", "places"))
    for name in profile.items:
        lower = name.lower()
        no_item = lower in _SPECIAL or lower.replace(" ", "_") in _NO_ITEM or _position(name) is not None
        if name != name.strip() or (layout == "places" and no_item):
            raise DataError(f"a CSV file of ballots in the layout {layout!r} cannot hold the name {name!r}")
    header = profile.items if layout == "places" else tuple(f"rank{k}" for k in range(1, profile.m + 1))
    rows = [csv_row([*header, "count"])]
    for ballot, count in profile.ballots():
        if layout == "places":
            cells = [str(place or "") for place in ballot.places(profile.m)]
        elif ballot.is_strict:
            cells = [profile.items[group[0]] for group in ballot.groups]
            cells += [""] * (profile.m - len(cells))
        else:
            raise DataError("the layout 'positions' cannot hold a tie; use 'places'")
        rows.append(csv_row([*cells, count]))
    _write(path, rows)


def write_comparisons_csv(comparisons: Comparisons, path: Source) -> None:
    """Write comparisons; :func:`read_comparisons_csv` with the same ``items`` gives them back.

    Raises
    ------
    DataError
        if a person's name has blank ends, which the reader would strip. Nothing is written then.
    """
    for name in comparisons.persons or ():
        if name != name.strip():
            raise DataError(f"a CSV file of comparisons cannot hold the name {name!r}: blank at an end")
    winners = {code: name for name, code in OUTCOMES.items()}
    person, weight = comparisons.person, comparisons.weight
    header = ["left", "right", "winner"]
    header += (["person"] if person is not None else []) + (["weight"] if weight is not None else [])
    rows = [csv_row(header)]
    for i in range(comparisons.records):
        row = [comparisons.items[comparisons.left[i]], comparisons.items[comparisons.right[i]]]
        row.append(winners[int(comparisons.outcome[i])])
        if person is not None and comparisons.persons is not None:
            row.append(comparisons.persons[person[i]])
        if weight is not None:
            row.append(str(weight[i]))
        rows.append(csv_row(row))
    _write(path, rows)


def _write(path: Source, rows: list[str]) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        out.writelines(rows)

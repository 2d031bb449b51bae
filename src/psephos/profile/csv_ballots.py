"""Ballots as CSV, in two layouts, told apart by the header alone (or by ``layout``):

* ``places``: a column an item, a cell is that item's place (1 is best, equal numbers tie, blank is unranked);
* ``positions``: columns ``rank1, rank2, ...``, a cell is the item in that position, blank if skipped.

A column ``count`` gives a row's multiplicity, a column ``person`` (or ``voter``, ``worker``) names who
answered; one person gives one ballot.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from psephos._check import check_choice, fold
from psephos.errors import DataError
from psephos.profile.csv_comparisons import is_comparisons
from psephos.profile.csv_table import PERSON, Table, csv_row, write_rows
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import ItemIndex, check_items, require_items
from psephos.profile.profile import ItemsSource, Profile, Support
from psephos.profile.repair import Clean, OrderFault, Repairs

__all__ = [
    "Gaps",
    "Layout",
    "read_ballots_csv",
    "write_ballots_csv",
]

Layout = Literal["positions", "places"]
Gaps = Literal["skip", "stop", "reject"]

# A header of bare numbers is more likely a file without a header, so by itself it is no list of positions.
_POSITION = re.compile(
    r"(?:rank|choice|position|preference|pos)[ _-]?([0-9]+)|([0-9]+)(?:st|nd|rd|th)(?:[ _-]?(?:choice|rank))?",
    re.IGNORECASE,
)
_SPECIAL = (*PERSON, "count")
#: Columns that survey exports carry and that are no items; they would otherwise become some in ``places``.
_NO_ITEM = ("id", "ballot", "ballot_id", "person_id", "voter_id", "worker_id", "timestamp", "weight")
#: Cells of the positions layout that are no item: nothing was marked there, or too much.
_MARKS = ("", "-", "n/a", "skipped", "undervote", "overvote")


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
    with repairs.faults.told_at_once(), open_text(path, newline="") as stream:
        table = Table(stream, source, repairs.faults)
        special = table.special(_SPECIAL)
        person = table.one_of(special, PERSON, "person")
        counts = special.get("count")
        if person is not None and counts is not None:
            raise table.fail("a row with a person is one ballot: 'count' and a person column exclude each other")
        if is_comparisons(table.columns):
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
                count = repairs.count(row[counts], table.line)
                if not count:
                    continue
            if person is not None:
                who_answered = fold(row[person]).casefold()
                if not who_answered or who_answered in persons:
                    raise table.fail(f"one person gives one ballot; {who_answered!r} is blank or answered before")
                persons.add(who_answered)
            collect.add(tuple(row[i] for i in body), count, table.line)
        if not collect.rows:
            repairs.faults.settle()
            why = "every count is 0" if repairs.zeros else "no row follows the header"
            raise DataError(f"nothing to rank: no ballots: {why}; columns found: {table.found()}", source=source)
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
        return support.profile(names, items_source=items_source, notes=(*self.said, *self.notes(), *repairs.finish()))


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
        names, self.place_of = self.index.in_order(self.source)
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
        return marks + self.index.notes(self.source)


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
    write_rows(path, rows)

"""Ballots and comparisons as CSV.

Ballots come in two layouts, told apart by the header alone (or by ``layout``):

* ``places``: a column an item, a cell is that item's place (1 is best, equal numbers tie, blank is unranked);
* ``positions``: columns ``rank1, rank2, ...``, a cell is the item in that position, blank if skipped.

A column ``count`` gives a row's multiplicity, a column ``person`` (or ``voter``, ``worker``) names who
answered; one person gives one ballot. Comparisons have the columns ``left, right, winner`` with winner
``left``, ``right`` or ``tie``, and may have ``person`` and ``weight``.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Literal

from psephos._check import check_choice
from psephos.errors import DataError
from psephos.profile.comparisons import OUTCOMES, Comparisons, parse_weight
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import ItemIndex, check_items, fold
from psephos.profile.profile import ItemsSource, Profile, Support
from psephos.profile.repair import Clean, OrderFault, Repairs, parse_count

__all__ = [
    "Layout",
    "csv_kind",
    "read_ballots_csv",
    "read_comparisons_csv",
    "write_ballots_csv",
    "write_comparisons_csv",
]

Layout = Literal["positions", "places"]
Gaps = Literal["skip", "stop", "reject"]

# A header of bare numbers is more likely a file without a header.
_POSITION = re.compile(
    r"(?:rank|choice|position|preference|pos)[ _-]?([0-9]+)|([0-9]+)(?:st|nd|rd|th)(?:[ _-]?(?:choice|rank))?",
    re.I,
)
_PERSON = ("person", "voter", "worker")
_SPECIAL = (*_PERSON, "count")
#: Cells of the positions layout that are no item: nothing was marked there, or too much.
_MARKS = ("", "skipped", "undervote", "overvote")


class _Table:
    """A CSV file's header and rows, with line numbers; every row has as many cells as the header."""

    def __init__(self, rows: Iterator[list[str]], reader: object, source: str) -> None:
        self._rows = rows
        self._reader = reader
        self.source = source
        header = self._next()
        if header is None:
            raise DataError("the file is empty: a header line is wanted", source=source)
        self.columns = [cell.strip() for cell in header]
        self.header_line = self.line
        blank = [i for i, name in enumerate(self.columns, start=1) if not name]
        if blank:
            raise DataError(f"column {blank[0]} of the header has no name", source=source, line=self.line)
        twice = [name for name, n in Counter(self.columns).items() if n > 1]
        if twice:
            raise DataError(
                f"column {twice[0]!r} occurs twice; columns found: {self.found()}",
                source=source,
                line=self.line,
            )

    @property
    def line(self) -> int:
        return int(self._reader.line_num)  # type: ignore[attr-defined]

    def found(self) -> str:
        return ", ".join(self.columns[:20]) + (", ..." if len(self.columns) > 20 else "")

    def _next(self) -> list[str] | None:
        while True:
            try:
                row = next(self._rows)
            except StopIteration:
                return None
            except csv.Error as error:
                raise DataError(f"not valid CSV: {error}", source=self.source, line=self.line) from None
            if any(cell.strip() for cell in row) or len(row) > 1:
                return row

    def __iter__(self) -> Iterator[list[str]]:
        while (row := self._next()) is not None:
            if len(row) != len(self.columns):
                raise DataError(
                    f"a row must have {len(self.columns)} cells, got {len(row)}; columns: {self.found()}",
                    source=self.source,
                    line=self.line,
                )
            yield row

    def fail(self, rule: str) -> DataError:
        return DataError(rule, source=self.source, line=self.line)


def _delimiter(first_line: str) -> str:
    """Comma if the header has one outside quotes, else semicolon, else tab."""
    bare = re.sub(r'"[^"]*"', "", first_line)
    return next((mark for mark in ",;\t" if mark in bare), ",")


def _open_table(stream: object, source: str) -> _Table:
    # Comments do not belong to CSV, so the first line that is not blank is the header.
    lines = iter(stream)  # type: ignore[call-overload]
    first = next((line for line in lines if line.strip()), "")

    def rows() -> Iterator[str]:
        yield first
        yield from lines

    reader = csv.reader(rows(), delimiter=_delimiter(first), strict=True)
    return _Table(reader, reader, source)


def csv_kind(path: Source) -> Literal["ballots", "comparisons"]:
    """Whether a CSV file holds ballots or comparisons, from its header alone."""
    with open_text(path, newline="") as stream:
        columns = {name.lower() for name in _open_table(stream, source_name(path)).columns}
    return "comparisons" if {"left", "right", "winner"} <= columns else "ballots"


def _layout(columns: list[str]) -> Layout:
    matches = [match for name in columns if (match := _POSITION.fullmatch(name))]
    numbers = [int((match[1] or match[2])[:9]) for match in matches]
    return "positions" if columns and numbers == list(range(1, len(columns) + 1)) else "places"


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
        For ``positions``: what a blank, ``skipped``, ``undervote`` or ``overvote`` cell does. ``skip``: later
        items move up. ``stop``: the ballot ends there. ``reject``: a fault, unless nothing follows it.

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
        table = _open_table(stream, source)
        special = {name.lower(): i for i, name in enumerate(table.columns) if name.lower() in _SPECIAL}
        who = [name for name in _PERSON if name in special]
        if len(who) > 1:
            raise table.fail(f"only one column may name the person, found {', '.join(who)}")
        person = special[who[0]] if who else None
        counts = special.get("count")
        if person is not None and counts is not None:
            raise table.fail("a row with a person is one ballot: 'count' and a person column exclude each other")
        body = [i for i in range(len(table.columns)) if i not in special.values()]
        names = [table.columns[i] for i in body]
        if not names:
            raise table.fail(f"no column of ballots; columns found: {table.found()}")
        form = layout or _layout(names)
        collect = _Positions(items, gaps, source) if form == "positions" else _Places(names, items, table)
        persons: set[str] = set()
        for row in table:
            count = 1
            if counts is not None:
                try:
                    count = parse_count(row[counts])
                except OrderFault as fault:
                    raise table.fail(str(fault)) from None
            if person is not None:
                who_answered = row[person].strip()
                if not who_answered or who_answered in persons:
                    raise table.fail(f"one person gives one ballot; {who_answered!r} is blank or answered before")
                persons.add(who_answered)
            collect.add([row[i].strip() for i in body], count, table.line)
        if not collect.rows:
            raise DataError(
                f"nothing to rank: no row follows the header; columns found: {table.found()}", source=source
            )
    return collect.profile(repairs)


class _Rows:
    """Rows parsed to groups; equal rows are kept once."""

    def __init__(self) -> None:
        # cells -> [count, first line]: the cleaning policy needs the final number of items
        self.rows: dict[tuple[str, ...], list[int]] = {}
        self.merged = 0

    def add(self, cells: list[str], count: int, line: int) -> None:
        key = tuple(cells)
        entry = self.rows.get(key)
        if entry is None:
            self.rows[key] = [count, line]
        else:
            entry[0] += count

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        raise NotImplementedError

    def groups(self, cells: tuple[str, ...], _count: int) -> list[list[int]]:
        raise NotImplementedError

    def notes(self) -> tuple[str, ...]:
        return ()

    def profile(self, repairs: Repairs) -> Profile:
        names, items_source = self.items()
        support = Support(len(names))
        for cells, (count, line) in self.rows.items():
            groups: list[list[int]] | OrderFault
            try:
                groups = self.groups(cells, count)
            except OrderFault as fault:
                groups = fault
            support.add(repairs.places(groups, len(names), count, line), count)
        return support.profile(names, items_source=items_source, notes=(*self.notes(), *repairs.notes()))


class _Places(_Rows):
    def __init__(self, names: list[str], items: Iterable[str] | None, table: _Table) -> None:
        super().__init__()
        self.names = check_items(names, source=table.source)
        if items is not None and {fold(name) for name in check_items(items)} != {fold(n) for n in names}:
            raise table.fail(f"the item columns differ from the items given; columns found: {table.found()}")
        if all(re.fullmatch(r"[0-9]+", name) for name in names) and items is None:
            raise table.fail(f"no header: the first line holds numbers alone; wanted item names, found {table.found()}")

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        return self.names, "declared"

    def groups(self, cells: tuple[str, ...], _count: int) -> list[list[int]]:
        by_place: dict[int, list[int]] = {}
        for item, cell in enumerate(cells):
            if not cell:
                continue
            if not (cell.isascii() and cell.isdigit()) or len(cell) > 9 or not int(cell):
                raise OrderFault(
                    f"a place must be a whole number >= 1 or blank, got {cell[:40]!r} for {self.names[item]!r} "
                    "(if the cells are item names, the layout is 'positions')"
                )
            by_place.setdefault(int(cell), []).append(item)
        return [by_place[place] for place in sorted(by_place)]


class _Positions(_Rows):
    def __init__(self, items: Iterable[str] | None, gaps: Gaps, source: str) -> None:
        super().__init__()
        declared = None if items is None else check_items(items)
        self.index = ItemIndex(declared)
        self.gaps = gaps
        self.source = source
        self.marks: Counter[str] = Counter()
        self.order: dict[int, int] = {}

    def _mark(self, cell: str) -> str | None:
        mark = cell.lower()
        if mark in _MARKS and (not mark or not self.index.closed or self.index.find(cell) is None):
            return mark or "blank"
        return None

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        if self.index.closed:
            self.order = {i: i for i in range(len(self.index.names))}
            return tuple(self.index.names), "declared"
        for cells in self.rows:
            for cell in cells:
                if self._mark(cell) is None:
                    self.index.find(cell)
        if not self.index.names:
            raise DataError("nothing to rank: no cell names an item", source=self.source)
        names = check_items(sorted(self.index.names), source=self.source)
        place = {name: i for i, name in enumerate(names)}
        self.order = {i: place[name] for i, name in enumerate(self.index.names)}
        return names, "seen"

    def groups(self, cells: tuple[str, ...], _count: int) -> list[list[int]]:
        groups: list[list[int]] = []
        last = max((i for i, cell in enumerate(cells) if self._mark(cell) is None), default=-1)
        for i, cell in enumerate(cells):
            mark = self._mark(cell)
            if mark is None:
                position = self.index.find(cell)
                if position is None:
                    raise OrderFault(f"unknown item {cell[:80]!r}")
                groups.append([self.order[position]])
                continue
            if mark != "blank" or i < last:
                if self.gaps == "reject":
                    raise OrderFault(f"position {i + 1} is {mark}, and gaps are rejected")
                self.marks[mark] += _count
            if self.gaps == "stop" and i < last:
                break
        return groups

    def notes(self) -> tuple[str, ...]:
        what = "later items moved up" if self.gaps == "skip" else "the ballot ends there"
        marks = tuple(f"{self.source}: {n} {mark} cells ({what})" for mark, n in sorted(self.marks.items()))
        return marks + _respelled(self.index, self.source)


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
    persons: dict[str, int] = {}
    person_of = array("q")
    weights: list[Fraction] = []
    with open_text(path, newline="") as stream:
        table = _open_table(stream, source)
        lower = {name.lower(): i for i, name in enumerate(table.columns)}
        missing = [name for name in ("left", "right", "winner") if name not in lower]
        if missing:
            raise table.fail(
                f"column {missing[0]!r} is missing; wanted left, right, winner[, person][, weight], "
                f"found {table.found()}"
            )
        who = [name for name in _PERSON if name in lower]
        if len(who) > 1:
            raise table.fail(f"only one column may name the person, found {', '.join(who)}")
        column_left, column_right, column_winner = lower["left"], lower["right"], lower["winner"]
        column_person = lower[who[0]] if who else None
        column_weight = lower.get("weight")
        for row in table:
            pair = []
            for cell in (row[column_left], row[column_right]):
                if not cell.strip():
                    raise table.fail("an item is blank")
                position = index.find(cell)
                if position is None:
                    raise table.fail(f"unknown item {cell.strip()[:80]!r}")
                pair.append(position)
            if pair[0] == pair[1]:
                raise table.fail(f"an item is compared with itself: {row[column_left].strip()[:80]!r}")
            winner = row[column_winner].strip().lower()
            if winner not in OUTCOMES:
                raise table.fail(f"winner must be left, right or tie, got {row[column_winner].strip()[:80]!r}")
            if column_person is not None:
                name = row[column_person].strip()
                if not name:
                    raise table.fail("the person is blank")
                person_of.append(persons.setdefault(name, len(persons)))
            if column_weight is not None:
                try:
                    weights.append(parse_weight(row[column_weight]))
                except OrderFault as fault:
                    raise table.fail(str(fault)) from None
            left.append(pair[0])
            right.append(pair[1])
            outcome.append(OUTCOMES[winner])
    if not left:
        raise DataError(
            f"nothing to rank: no comparison follows the header; columns found: {table.found()}",
            source=source,
        )
    names = tuple(index.names)
    rank: list[int] | None = None
    items_source: ItemsSource = "declared"
    if not index.closed:
        items_source = "seen"
        names = check_items(sorted(index.names), source=source)
        where = {name: i for i, name in enumerate(names)}
        rank = [where[name] for name in index.names]
    return Comparisons.from_columns(
        names,
        [rank[i] for i in left] if rank else left,
        [rank[i] for i in right] if rank else right,
        outcome,
        person=person_of if column_person is not None else None,
        persons=tuple(persons) if column_person is not None else None,
        weight=weights if column_weight is not None else None,
        items_source=items_source,
        notes=_respelled(index, source),
    )


def write_ballots_csv(profile: Profile, path: Source, *, layout: Layout = "places") -> None:
    """Write ballots with a ``count`` column; :func:`read_ballots_csv` gives the profile back.

    Raises
    ------
    DataError
        if an item is named like a special column, or, in the layout ``positions``, if a ballot has a tie.
    """
    check_choice(layout, "layout", ("positions", "places"))
    clash = [name for name in profile.items if name.lower() in _SPECIAL or name != name.strip()]
    if clash and layout == "places":
        raise DataError(f"a CSV column cannot be named {clash[0]!r}")
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        if layout == "places":
            writer.writerow([*profile.items, "count"])
        else:
            writer.writerow([*(f"rank{k}" for k in range(1, profile.m + 1)), "count"])
        for ballot, count in profile.ballots():
            if layout == "places":
                cells = [str(place or "") for place in ballot.places(profile.m)]
            elif ballot.is_strict:
                cells = [profile.items[group[0]] for group in ballot.groups]
                cells += [""] * (profile.m - len(cells))
            else:
                raise DataError("the layout 'positions' cannot hold a tie; use 'places'")
            writer.writerow([*cells, count])


def write_comparisons_csv(comparisons: Comparisons, path: Source) -> None:
    """Write comparisons; :func:`read_comparisons_csv` with the same ``items`` gives them back."""
    names = {code: name for name, code in OUTCOMES.items()}
    person, weight = comparisons.person, comparisons.weight
    with Path(path).open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            [
                "left",
                "right",
                "winner",
                *(["person"] if person is not None else []),
                *(["weight"] if weight else []),
            ]
        )
        for i in range(comparisons.records):
            row = [comparisons.items[comparisons.left[i]], comparisons.items[comparisons.right[i]]]
            row.append(names[int(comparisons.outcome[i])])
            if person is not None and comparisons.persons is not None:
                row.append(comparisons.persons[person[i]])
            if weight:
                row.append(str(weight[i]))
            writer.writerow(row)

"""Ballots as CSV, in two layouts, told apart by the header alone (or by ``layout``):

* ``places``: a column an item, a cell is that item's place (1 is best, equal numbers tie, blank is unranked);
* ``positions``: a column a position (``rank1``, ``First choice``), a cell is the item there, blank if skipped.

A column ``count`` gives a row's multiplicity, a column ``person`` (or ``voter``, ``worker``) names who
answered; one person gives one ballot. What else the header may say: :mod:`psephos.profile.csv_header`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from psephos._check import check_choice, fold
from psephos.errors import DataError
from psephos.profile.csv_comparisons import is_comparisons
from psephos.profile.csv_header import BallotColumns, Layout, ballot_columns, ordinal
from psephos.profile.csv_table import PERSON, Table, csv_row, write_rows
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import ItemIndex, check_items, require_items
from psephos.profile.profile import ItemsSource, Profile, Support
from psephos.profile.repair import MOST_VOID, Clean, OrderFault, Repairs

__all__ = ["Gaps", "Layout", "read_ballots_csv", "write_ballots_csv"]

Gaps = Literal["skip", "stop", "reject"]

#: Cells that stand for nothing, as programs write them.
_BLANK = ("", "-", "--", "n/a", "na", "nan", "null", "none", "<na>", "#n/a")
#: Cells of the positions layout that are no item: nothing was marked there, or too much.
_MARKS = (*_BLANK, "skipped", "undervote", "overvote")
#: What a column of persons holds where it names nobody.
_NOBODY = ("", "-", "n/a", "nan", "null", "<na>", "anonymous")
#: A whole number as spreadsheets and data frames write it. ``1,000`` may be a thousand, and is none.
_LINES = 100  # of equal rows, for messages
_NAMED = 10  # faulty cells of one row, for messages
_WHOLE = re.compile(r"([0-9]+)[.,]00?")


def read_ballots_csv(
    path: Source,
    *,
    layout: Layout | None = None,
    items: Iterable[str] | None = None,
    clean: Clean = "reject",
    gaps: Gaps = "skip",
    columns: str | Iterable[str] | None = None,
    ignore: str | Iterable[str] | None = None,
    count_column: str | None = None,
    person_column: str | None = None,
    allow_void: bool = False,
) -> Profile:
    """Read ballots from CSV (comma, semicolon or tab; the header decides).

    Columns that are no part of ballots are left out with a note; one that may say how many people a row stands for is
    not, unless ``ignore`` says so. Without ``items``, in the layout ``places``, a column that looks like no item is an
    error.

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
    columns
        The columns of ballots: names, a name of a question that several columns share (``Question`` for
        ``Question [x]``), or several of them between commas. Positions stand in this order, or that of their numbers.
    ignore
        Columns that are left out, named likewise.
    count_column
        The column that says how many people gave a row's ballot.
    person_column
        The column that says who answered: the last ballot of each person counts, in the order of the file. The number
        of people, a public fact, is then that of different persons. (Of a column found by its name ``person``, a
        second ballot is a fault.)
    allow_void
        Whether more than half of the ballots may be void after cleaning, or left out since their people answered again
        later; by default that is an error.

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
    repairs = Repairs(clean, source, allow_void=allow_void)
    with repairs.faults.told_at_once(), open_text(path, newline="") as stream:
        table = Table(stream, source, repairs.faults)
        if is_comparisons(table.columns):
            raise table.fail("these are comparisons (left, right, winner): read_comparisons_csv reads them")
        declared = None if items is None else check_items(items)
        header = ballot_columns(
            table,
            layout=layout,
            items=declared,
            columns=columns,
            ignore=ignore,
            count_column=count_column,
            person_column=person_column,
        )
        collect: _Rows
        if header.layout == "positions":
            collect = _Positions(declared, gaps, source)
        else:
            collect = _Places(header.names, declared, source)
            collect.sure = collect.listed or header.chosen
            collect.may_be_void = allow_void
            collect.counted = header.count is not None
        collect.said += [*table.notes, *header.notes]
        _read_rows(table, header, collect, repairs)
        if not collect.rows:
            repairs.faults.settle()
            why = "every count is 0" if repairs.zeros else "no row follows the header"
            raise DataError(f"nothing to rank: no ballots: {why}; columns found: {table.found()}", source=source)
        return collect.profile(repairs)


def _read_rows(table: Table, header: BallotColumns, collect: _Rows, repairs: Repairs) -> None:
    """Collect what each row, or the last row of each person, says."""
    last: dict[str, tuple[tuple[str, ...], int]] = {}
    cells: dict[tuple[str, ...], tuple[str, ...]] = {}  # people who say the same share their cells
    replaced = 0
    for row in table:
        body = tuple(row[i] for i in header.body)
        if header.person is None:
            count = 1 if header.count is None else repairs.count(_whole(row[header.count]), table.line)
            if count:
                collect.add(body, count, table.line)
            continue
        who = fold(row[header.person]).casefold()
        if who in _NOBODY or (who in last and not header.named):
            hint = "" if who in _NOBODY else f"; --person-column {table.columns[header.person]!r} keeps the last"
            rule = f"one person gives one ballot; {who!r} is blank or answered before{hint}"
            repairs.faults.add(rule, table.line)
            continue
        replaced += who in last
        last[who] = (cells.setdefault(body, body), table.line)
    for body, line in last.values():
        collect.add(body, 1, line)
    if replaced > MOST_VOID * (replaced + len(last)) and not repairs.allow_void:
        raise DataError(
            f"{replaced} of {replaced + len(last)} ballots would be left out, more than {MOST_VOID} of them, since "
            "their people answered again later: --person-column may name the wrong column; --allow-void insists",
            source=table.source,
        )
    if replaced:
        ballots = f"{replaced} ballot{'s' if replaced > 1 else ''}"
        collect.said.append(
            f"{table.source}: left out {ballots} of people who answered again later: the last one counts"
        )


def _whole(text: str) -> str:
    """A number as written, without a fraction of zeros."""
    match = _WHOLE.fullmatch(text.strip())
    return match[1] if match else text


class _Rows:
    """Rows of cells; equal rows are kept once, and parsed when all are there."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.said: list[str] = []
        self.guessed: dict[str, str] = {}  # what cells were taken for -> the first of them
        # cells -> [count, first line]: in the layout positions the number of items is known only at the end
        self.rows: dict[tuple[str, ...], list[int]] = {}
        self.again: dict[tuple[str, ...], list[int]] = {}  # further lines of equal rows, the first of them

    def add(self, cells: tuple[str, ...], count: int, line: int) -> None:
        entry = self.rows.setdefault(cells, [0, line])
        if entry[0] and len(further := self.again.setdefault(cells, [])) < _LINES:
            further.append(line)
        entry[0] += count

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        raise NotImplementedError

    def groups(self, cells: tuple[str, ...], count: int) -> list[list[int]]:
        raise NotImplementedError

    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{self.source}: cells such as {cell[:40]!r} taken as {what}" for what, cell in sorted(self.guessed.items())
        )

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
            support.add(repairs.places(groups, len(names), count, line, *self.again.get(cells, ())), count)
        return support.profile(names, items_source=items_source, notes=(*self.said, *self.notes(), *repairs.finish()))


class _Places(_Rows):
    def __init__(self, names: list[str], items: Sequence[str] | None, source: str) -> None:
        super().__init__(source)
        self.listed = items is not None
        self.sure = self.listed  # whether each column is said to be an item
        self.may_be_void = False
        self.counted = False
        self.names = require_items(names) if self.listed else check_items(names, source=source)
        self.known: dict[str, int] = {}
        self.gaps = 0  # people whose places leave one out

    def items(self) -> tuple[tuple[str, ...], ItemsSource]:
        if not self.sure:
            self._refuse_other_columns()
        return self.names, "declared"

    def _place(self, raw: str) -> int:
        """The place that a cell states; 0 for a blank, -1 for none."""
        if raw not in self.known:
            self.known[raw] = self._new_place(raw.strip())
        return self.known[raw]

    def _new_place(self, cell: str) -> int:
        if cell.isascii() and cell.isdigit():
            place = int(cell) if len(cell) < 10 else -1
            return place if 1 <= place <= len(self.names) else -1
        if cell.casefold() in _BLANK:
            if cell:
                self.guessed.setdefault("blanks", cell)
            return 0
        whole = _whole(cell)
        place = int(whole) if whole != cell and len(whole) < 10 else ordinal(cell, bare=True) or 0
        if not 1 <= place <= len(self.names):
            return -1
        self.guessed.setdefault("whole numbers" if whole != cell else "numbers", cell)
        return place

    def _fault(self, cells: Sequence[tuple[str, int]]) -> str:
        """What is wrong with cells that hold no place, given with their items."""
        got = ", ".join(f"{cell[:40]!r} for {self.names[item]!r}" for cell, item in cells[:_NAMED])
        rule = (
            f"a place must be blank or a whole number from 1 to {len(self.names)}, the number of item columns; "
            f"got {got}" + (f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else "")
        )
        if all(cell == "0" for cell, _ in cells):
            return f"{rule} (places count from 1: where they count from 0, add 1 to each)"
        if self.listed:
            return f"{rule} (if the cells are item names, --layout positions)"
        return (
            f"{rule} (if the column is no item, --ignore, --person-column or --count-column says what it is, or "
            "remove it or give the list of items; if the cells are item names, --layout positions)"
        )

    def groups(self, cells: tuple[str, ...], count: int) -> list[list[int]]:
        by_place: dict[int, list[int]] = {}
        wrong = []
        for item, raw in enumerate(cells):
            place = self._place(raw)
            if place < 0:
                wrong.append((raw.strip(), item))
            if place:
                by_place.setdefault(place, []).append(item)
        if wrong:
            raise OrderFault(self._fault(wrong))
        ranked = 0
        for place in sorted(by_place):
            if place > ranked + 1:  # 1, 1, 3 is the usual way to write a tie, and no gap
                self.gaps += count
                break
            ranked += len(by_place[place])
        return [by_place[place] for place in sorted(by_place)]

    def notes(self) -> tuple[str, ...]:
        people = f"{self.gaps} {'person' if self.gaps == 1 else 'people'}"
        closed = f"{self.source}: places with gaps, as 1, 2, 4, closed up on the ballots of {people}"
        return (*super().notes(), *([closed] if self.gaps else []))

    def _refuse_other_columns(self) -> None:
        """Refuse a column that can hardly be an item: whatever ``clean`` is, it would void or bend all ballots.

        One most of whose cells are no places; and one without which each row is an order of the other columns, and with
        which most rows are none, if it goes up from row to row (an identity) or the orders are all different (a count
        of each). A table with ``count`` has neither.
        """
        rows = [([self._place(raw) for raw in cells], count) for cells, (count, _) in self.rows.items()]
        for item, name in enumerate(self.names):
            wrong = filled = 0
            for cells, (count, _) in self.rows.items():
                place = self._place(cells[item])
                filled += count * (place != 0)
                wrong += count * (place < 0 and cells[item].strip() != "0")
            if filled > 1 and 2 * wrong > filled and not self.may_be_void:
                line, cell = next((n, c[item].strip()) for c, (_, n) in self.rows.items() if self._place(c[item]) < 0)
                rule = f"the column {name!r} holds no places in {wrong} of {filled} rows: {self._fault([(cell, item)])}"
                raise DataError(rule, source=self.source, line=line)
        people = sum(count for _, count in rows)
        bent = sum(count for places, count in rows if not _is_order(places))
        if self.counted or people < 3 or len(self.names) < 3 or 2 * bent <= people:
            return
        for item, name in enumerate(self.names):
            column = [places[item] for places, _ in rows]
            others = {tuple(places[:item] + places[item + 1 :]) for places, _ in rows}
            numbered = all(a < b for a, b in itertools.pairwise([0, *column]))
            if (numbered or (all(column) and len(others) == people)) and all(map(_is_order, others)):
                raise DataError(
                    f"the column {name!r} is hardly an item: without it each row ranks the other columns 1, 2, ..., "
                    f"and with it {bent} of {people} rows have ties or gaps: --ignore {name!r} leaves it out, "
                    "--person-column or --count-column says what it is, --columns or the list of items that it is one",
                    source=self.source,
                )


def _is_order(places: Sequence[int]) -> bool:
    """Whether the places that are given are 1, 2, ... each once."""
    given = sorted(place for place in places if place)
    return given == list(range(1, len(given) + 1))


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
            if mark not in _BLANK:
                return mark
            if mark.strip("-"):
                self.guessed.setdefault("blanks", cell.strip())
            return "blank"
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
        if len(cells) == 1 and (whole := self._whole_order(cells[0])):
            return whole
        groups: list[list[int]] = []
        unknown: list[str] = []
        last = max((i for i, cell in enumerate(cells) if self._mark(cell) is None), default=-1)
        for i, cell in enumerate(cells):
            mark = self._mark(cell)
            if mark is None:
                position = self.index.find(cell)
                if position is None:
                    unknown.append(cell.strip())
                    continue
                groups.append([self.place_of[position]])
                continue
            if i < last and self.gaps == "reject":
                raise OrderFault(f"position {i + 1} is {mark}, and gaps are rejected")
            if i < last or mark != "blank":
                self.marks[mark] += count
            if i < last and self.gaps == "stop":
                break
        if unknown:
            several = " (several items in one cell?)" if any(";" in cell for cell in unknown) else ""
            shown = ", ".join(repr(cell[:80]) for cell in unknown[:_NAMED])
            raise OrderFault(f"unknown item {shown}{several}")
        return groups

    def _whole_order(self, cell: str) -> list[list[int]]:
        """The order that the only cell of a ballot states as listed items between semicolons or commas, or nothing."""
        if not self.index.closed or self.index.find(cell) is not None:
            return []
        mark = ";" if ";" in cell else ","
        parts = [self.index.find(part) for part in cell.split(mark) if part.strip()]
        known = [position for position in parts if position is not None]
        if len(known) < 2 or len(known) < len(parts):
            return []
        self.guessed.setdefault(f"orders, best first, between marks {mark!r}", cell.strip())
        return [[position] for position in known]

    def notes(self) -> tuple[str, ...]:
        what = "the ballot ends there" if self.gaps == "stop" else "later items moved up"
        marks = tuple(
            f"{self.source}: {n} {mark} cell{'s' if n > 1 else ''} ({what})" for mark, n in sorted(self.marks.items())
        )
        return super().notes() + marks + self.index.notes(self.source)


def write_ballots_csv(profile: Profile, path: Source, *, layout: Layout = "places") -> None:
    """Write ballots with a ``count`` column; :func:`read_ballots_csv` gives the profile back.

    In the layout ``positions`` the reader needs the same ``items``, which such a file does not hold; in the layout
    ``places`` it does where an item is called like something else (``No``, ``Age``, ``n``), and refuses the file
    without.

    Raises
    ------
    DataError
        if an item's name would be read as something else, or, in the layout ``positions``, if a ballot has a tie.
        Nothing is written then.
    """
    check_choice(layout, "layout", ("positions", "places"))
    for name in profile.items:
        no_item = name.lower() in (*PERSON, "count") or ordinal(name, inside=True) is not None
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

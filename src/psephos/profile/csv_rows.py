"""Rows of cells of ballots, and the orders that they state: places of items, or items in positions."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Literal

from psephos.errors import DataError
from psephos.profile.csv_header import ordinal
from psephos.profile.names import ItemIndex, check_items, require_items
from psephos.profile.profile import BallotAccumulator, ItemsSource, Profile
from psephos.profile.repair import OrderFault, Repairs

__all__ = ["Gaps", "PlaceRows", "PositionRows", "Rows", "whole_number"]

Gaps = Literal["skip", "stop", "reject"]

#: Cells that stand for nothing, as programs write them.
_BLANK = ("", "-", "--", "n/a", "na", "nan", "null", "none", "<na>", "#n/a")
#: Cells of the positions layout that are no item: nothing was marked there, or too much.
_MARKS = (*_BLANK, "skipped", "undervote", "overvote")
_LINES = 100  # of equal rows, for messages
_NAMED = 10  # faulty cells of one row, for messages
#: A whole number as spreadsheets and data frames write it. ``1,000`` may be a thousand, and is none.
_WHOLE = re.compile(r"([0-9]+)[.,]00?")


def whole_number(text: str) -> str:
    """A number as written, without a fraction of zeros."""
    match = _WHOLE.fullmatch(text.strip())
    return match[1] if match else text


class Rows:
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
        support = BallotAccumulator(len(names))
        for cells, (count, line) in self.rows.items():
            further = self.again.get(cells, ())
            places = repairs.places(partial(self.groups, cells, count), len(names), count, line, *further)
            support.add(places, count)
        return support.profile(names, items_source=items_source, notes=(*self.said, *self.notes(), *repairs.finish()))


class PlaceRows(Rows):
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
        number = whole_number(cell)
        place = int(number) if number != cell and len(number) < 10 else ordinal(cell, bare=True) or 0
        if not 1 <= place <= len(self.names):
            return -1
        self.guessed.setdefault("whole numbers" if number != cell else "numbers", cell)
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
        doubtful = []
        for item, name in enumerate(self.names):
            column = [places[item] for places, _ in rows]
            others = {tuple(places[:item] + places[item + 1 :]) for places, _ in rows}
            numbered = all(a < b for a, b in itertools.pairwise([0, *column]))
            if not all(map(_is_order, others)):
                continue
            doubtful.append(
                f"without it each row ranks the other columns 1, 2, ..., and with it {bent} of {people} rows have ties "
                f"or gaps: --ignore {name!r} leaves it out, --person-column or --count-column says what it is, "
                "--columns or the list of items that it is one"
            )
            if numbered or (all(column) and len(others) == people):
                raise DataError(f"the column {name!r} is hardly an item: {doubtful[-1]}", source=self.source)
            suspect = name
        if len(doubtful) == 1:  # where two items always share a place, either could go
            self.said.append(f"{self.source}: the column {suspect!r} may be no item: {doubtful[0]}")


def _is_order(places: Sequence[int]) -> bool:
    """Whether the places that are given are 1, 2, ... each once."""
    given = sorted(place for place in places if place)
    return given == list(range(1, len(given) + 1))


class PositionRows(Rows):
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
        parts = Counter(frozenset(part.strip() for part in name.split(",")) for name in self.index.names)
        if any(len(same) > 1 and times > 1 for same, times in parts.items()):
            rule = "cells hold whole orders, such as 'a, b' and 'b, a', and no items: give the list of items (--items)"
            raise DataError(rule, source=self.source)
        names, self.place_of = self.index.in_order(self.source)
        return names, "seen"

    def groups(self, cells: tuple[str, ...], count: int) -> list[list[int]]:
        if len(cells) == 1 and (order := self._whole_order(cells[0])):
            return order
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

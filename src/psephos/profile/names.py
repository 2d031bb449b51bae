"""Item names: kept exactly as written, compared after folding.

Two names denote the same item when they agree after Unicode normalisation (NFC) and after runs of
white space are folded to one space. Names that differ only by case are different items, and a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from psephos._check import fold, is_unicode
from psephos.errors import DataError, DataWarning, ParameterError

__all__ = ["ItemIndex", "check_items", "items_shown", "require_items", "require_public_items"]


def require_items(items: Iterable[object], *, source: str | None = None) -> tuple[str, ...]:
    """Return the names as a tuple: text, not blank, all different; raise :class:`DataError` otherwise."""
    if isinstance(items, str):
        raise DataError(f"the items must be a list of names, got the text {items!r}", source=source)
    names: list[str] = []
    seen: dict[str, int] = {}
    for position, name in enumerate(items, start=1):
        if not isinstance(name, str) or not name.strip() or not is_unicode(name):
            raise DataError(f"the name of item {position} must be text that is not blank, got {name!r}", source=source)
        if name in seen:
            raise DataError(f"items {seen[name]} and {position} have the same name {name!r}", source=source)
        seen[name] = position
        names.append(name)
    return tuple(names)


def require_public_items(items_source: str) -> None:
    """Refuse items that were only seen in the data: a list that anyone may know is given, or declared public."""
    if items_source == "seen":
        raise ParameterError(
            "the items were seen in the data and are not a public list: give the list when reading (--items), or "
            "declare them public with with_items_public() (--items-public-as-seen)"
        )


def check_items(items: Iterable[object], *, source: str | None = None) -> tuple[str, ...]:
    """Return the names as a tuple: text, not blank, all different.

    Warns (:class:`DataWarning`) when two names differ only by white space, by Unicode composition or by
    case.

    Raises
    ------
    DataError
        for a name that is not text or blank, or that occurs twice.
    """
    names = require_items(items, source=source)
    near: dict[str, str] = {}
    for name in names:
        key = fold(name).casefold()
        if key in near:
            warnings.warn(
                DataWarning(f"items {near[key]!r} and {name!r} differ only by case, white space or composition"),
                stacklevel=3,
            )
        near[key] = name
    return names


def items_shown(items: Sequence[str], items_source: str) -> str:
    """How many items there are, and the first few of a public list; names seen in the data are not shown.

    >>> items_shown(["tea", "coffee", "water", "milk"], "declared"), items_shown(["Ann"], "seen")
    ("4 items 'tea', 'coffee', 'water', ...", '1 item as seen')
    """
    text = f"{len(items)} item{'' if len(items) == 1 else 's'}"
    if items_source == "seen":
        return f"{text} as seen"
    first = ", ".join(repr(name if len(name) <= 30 else name[:27] + "...") for name in items[:3])
    return f"{text} {first}" + (", ..." if len(items) > 3 else "")


class ItemIndex:
    """Look item names up: exactly first, folded where that is unambiguous.

    With ``items`` the list is closed, and an unknown name is ``None``. Without, every new name becomes an
    item; positions are then those of first appearance (callers sort at the end), and names are final at the end.
    """

    def __init__(self, items: Sequence[str] | None) -> None:
        self.closed = items is not None
        self.names: list[str] = list(items or ())
        self.respelled: set[str] = set()
        self._exact: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self._folded: dict[str, int | None] = {}
        for i, name in enumerate(self.names):
            key = fold(name)
            self._folded[key] = None if key in self._folded else i

    def find(self, name: str) -> int | None:
        """The 0-based position of ``name``, or ``None`` if the list of items is fixed and does not contain it."""
        position = self._exact.get(name)
        if position is not None:
            return position
        key = fold(name)
        if key in self._folded:
            position = self._folded[key]
            if position is not None and name.strip() != self.names[position]:
                self._respell(position, name)
            return position
        if self.closed:
            return None
        position = len(self.names)
        self.names.append(name.strip())
        self._exact[name.strip()] = self._folded[key] = position
        return position

    def _respell(self, position: int, name: str) -> None:
        """Take a name as another; of spellings seen in the data the shortest stays, whichever comes first."""
        old, new = self.names[position], name.strip()
        if self.closed or (len(old), old) < (len(new), new):
            self.respelled.add(name)
        else:
            self.names[position] = new
            self.respelled.add(old)
        self._exact[new] = position

    def in_order(self, source: str) -> tuple[tuple[str, ...], list[int]]:
        """The names in an order that does not depend on the records, and where each position went."""
        if self.closed:
            return tuple(self.names), list(range(len(self.names)))
        names = check_items(sorted(self.names), source=source)
        where = {name: i for i, name in enumerate(names)}
        return names, [where[name] for name in self.names]

    def notes(self, source: str) -> tuple[str, ...]:
        """Which names were taken as others."""
        return tuple(
            f"{source}: {name!r} taken as {self.names[self.find(name) or 0]!r}" for name in sorted(self.respelled)
        )

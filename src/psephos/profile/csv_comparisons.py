"""Comparisons as CSV: the columns ``left, right, winner``, and who judged, and a weight.

Column names are compared without case, blanks, hyphens and underscores. Known as the same:

* ``left, right``: ``model_a, model_b``; ``item_a, item_b``; ``option_a, option_b``; ``a, b``;
* ``person``: ``voter``, ``worker``, ``judge``, ``user``, ``annotator``, ``rater``, ``respondent``, ``participant``,
  each also with ``id`` or ``name`` behind it;
* ``weight``: ``weights``, ``wt``.

A winner is read in this order: the names of the two columns of items, ``left``, ``right``; ``tie``, ``tie (bothbad)``,
``bothbad``, ``draw``; the name of one of the two items of the row, exactly as there but for white space; any other name
above of a first or second column (``a``, ``model_a``).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from psephos._check import fold
from psephos.errors import DataError
from psephos.profile.comparisons import OUTCOMES, Comparisons, parse_weight
from psephos.profile.csv_table import PERSON, Table, csv_row, write_rows
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import ItemIndex, check_items
from psephos.profile.repair import Faults, OrderFault

__all__ = ["is_comparisons", "read_comparisons_csv", "write_comparisons_csv"]

#: Pairs of names of the columns that hold the two items.
_PAIRS = (("left", "right"), ("modela", "modelb"), ("itema", "itemb"), ("optiona", "optionb"), ("a", "b"))
_JUDGES = (*PERSON, "judge", "user", "annotator", "rater", "respondent", "participant")
_PERSON = tuple(name + end for name in _JUDGES for end in ("", "id", "name"))
_WEIGHT = ("weight", "weights", "wt")
#: Columns that say how often a row counts: to leave one out would change what people said.
_COUNT = ("count", "counts", "n", "freq", "frequency", "votes", "total", "times", "multiplicity")
_TIES = ("tie", "tie(bothbad)", "bothbad", "draw")
_SIDES = {name: sign for pair in _PAIRS for name, sign in zip(pair, (1, -1), strict=True)}
_WANTED = "wanted left, right, winner[, person][, weight]"


def _plain(name: str) -> str:
    """A column's name, or a winner, as it is compared."""
    return fold(name).casefold().replace(" ", "").replace("_", "").replace("-", "")


def is_comparisons(columns: Iterable[str]) -> bool:
    """Whether these are the columns of comparisons: two of items, and a winner."""
    names = {_plain(name) for name in columns}
    return "winner" in names and any(names.issuperset(pair) for pair in _PAIRS)


class _Columns:
    """Which columns of a table hold what."""

    def __init__(self, table: Table) -> None:
        plain = [_plain(name) for name in table.columns]
        self.used: set[int] = set()

        def find(names: Sequence[str], what: str) -> int | None:
            found = [i for i, name in enumerate(plain) if name in names]
            if len(found) > 1:
                listed = ", ".join(table.columns[i] for i in found)
                raise table.fail(f"only one column may name the {what}, found {listed}")
            self.used.update(found)
            return found[0] if found else None

        pairs = [pair for pair in _PAIRS if set(pair) <= set(plain)]
        names = pairs[0] if pairs else _PAIRS[0]
        columns = [find([name], what) for name, what in ((names[0], "left"), (names[1], "right"), ("winner", "winner"))]
        for column, what in zip(columns, ("left", "right", "winner"), strict=True):
            if column is None:
                raise table.fail(f"column {what!r} is missing; {_WANTED}, found {table.found()}")
        self.left, self.right, self.winner = (column or 0 for column in columns)
        count = find(_COUNT, "count")
        if count is not None:
            name = table.columns[count]
            raise table.fail(f"comparisons have no {name!r}: give one row a judgement, or call the column 'weight'")
        self.person = find(_PERSON, "person")
        self.weight = find(_WEIGHT, "weight")
        self.others = [name for i, name in enumerate(table.columns) if i not in self.used]
        self.words = {"left": 1, "right": -1, names[0]: 1, names[1]: -1} | dict.fromkeys(_TIES, 0)

    def outcome(self, winner: str, left: str, right: str) -> int | None:
        """What the written winner says: +1 left, -1 right, 0 a tie."""
        word = _plain(winner)
        if word in self.words:
            return self.words[word]
        name = fold(winner)
        if name and name in {fold(left), fold(right)}:
            return 1 if name == fold(left) else -1
        return _SIDES.get(word)

    def notes(self, source: str) -> tuple[str, ...]:
        """What is left out; it may say who judged, and then a comparison is not what must be hidden."""
        if not self.others:
            return ()
        several = len(self.others) > 1
        listed = ", ".join(repr(name) for name in self.others[:20]) + (", ..." if len(self.others) > 20 else "")
        text = f"{source}: the column{'s' if several else ''} {listed} {'are' if several else 'is'} left out"
        if self.person is None:
            text += "; if one says who judged, call it 'person': without it, people are not protected as such"
        return (text,)


def read_comparisons_csv(path: Source, *, items: Iterable[str] | None = None) -> Comparisons:
    """Read comparisons ``left,right,winner[,person][,weight]`` from CSV; synonyms are those of the module.

    Parameters
    ----------
    path
        The file, UTF-8 or UTF-16; any line ending.
    items
        The list of items, a public fact that a release needs. Without it the items are those seen, sorted.

    Returns
    -------
    Comparisons
        ``notes`` names the columns that were left out.

    Raises
    ------
    DataError
        naming file, line, value and rule of every fault: an item against itself, an unknown item or winner, a weight
        that is negative or not a number, no comparison at all.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "duels.csv")
    >>> _ = file.write_text("model_a,model_b,winner\\ntea,coffee,model_a\\ncoffee,tea,tie (bothbad)\\n")
    >>> duels = read_comparisons_csv(file)
    >>> duels.items, duels.records
    (('coffee', 'tea'), 2)
    """
    source = source_name(path)
    faults = Faults(source)
    index = ItemIndex(None if items is None else check_items(items))
    left, right, outcome = array("q"), array("q"), array("b")
    persons: dict[str, int] = {}  # folded name -> position
    spelled: list[str] = []
    person = array("q")
    weights: list[Fraction] = []
    with faults.told_at_once(), open_text(path, newline="") as stream:
        table = Table(stream, source, faults)
        columns = _Columns(table)
        for row in table:
            before = len(faults.found)
            pair = []
            for cell in (row[columns.left], row[columns.right]):
                position = index.find(cell) if cell.strip() else None
                if position is None:
                    rule = f"unknown item {cell.strip()[:80]!r}" if cell.strip() else "an item is blank"
                    faults.add(rule, table.line)
                else:
                    pair.append(position)
            if len(pair) == 2 and pair[0] == pair[1]:
                faults.add(f"an item is compared with itself: {row[columns.left].strip()[:80]!r}", table.line)
            sign = columns.outcome(row[columns.winner], row[columns.left], row[columns.right])
            if sign is None:
                winner = row[columns.winner].strip()[:80]
                faults.add(f"winner must be left, right or tie, or one of the two items, got {winner!r}", table.line)
            if columns.person is not None:
                name = row[columns.person].strip()
                if not name:
                    faults.add("the person is blank", table.line)
                key = fold(name).casefold()
                if persons.setdefault(key, len(spelled)) == len(spelled):
                    spelled.append(name)
                person.append(persons[key])
            if columns.weight is not None:
                try:
                    weights.append(parse_weight(row[columns.weight]))
                except OrderFault as fault:
                    faults.add(str(fault), table.line)
            if len(faults.found) == before and sign is not None:
                left.append(pair[0])
                right.append(pair[1])
                outcome.append(sign)
        faults.settle()
        if not left or (weights and not any(weights)):
            what = "every weight is 0" if left else f"no comparison follows the header; columns found: {table.found()}"
            raise DataError(f"nothing to rank: {what}", source=source)
    names, place_of = index.in_order(source)
    where = np.array(place_of, dtype=np.int64)
    return Comparisons(
        items=names,
        left=where[np.frombuffer(left, dtype=np.int64)],
        right=where[np.frombuffer(right, dtype=np.int64)],
        outcome=np.frombuffer(outcome, dtype=np.int8),
        person=np.frombuffer(person, dtype=np.int64) if columns.person is not None else None,
        persons=tuple(spelled) if columns.person is not None else None,
        weight=tuple(weights) if columns.weight is not None else None,
        items_source="declared" if index.closed else "seen",
        notes=(*table.notes, *columns.notes(source), *index.notes(source)),
    )


def write_comparisons_csv(comparisons: Comparisons, path: Source) -> None:
    """Write ``comparisons`` to ``path``; :func:`read_comparisons_csv` with the same ``items`` gives them back.

    Raises
    ------
    DataError
        if a person's name has blank ends, which the reader would strip. Nothing is written then.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "duels.csv")
    >>> write_comparisons_csv(Comparisons.from_columns(["tea", "coffee"], [0], [1], [-1]), file)
    >>> file.read_text().splitlines()
    ['left,right,winner', 'tea,coffee,right']
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
    write_rows(path, rows)

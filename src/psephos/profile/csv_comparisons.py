"""Comparisons as CSV: the columns ``left, right, winner`` with winner ``left``, ``right`` or ``tie``.

A column ``person`` (or ``voter``, ``worker``) names who judged, and ``weight`` weighs a judgement.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

import numpy as np

from psephos._check import fold
from psephos.errors import DataError
from psephos.profile.comparisons import OUTCOMES, Comparisons, parse_weight
from psephos.profile.csv_table import PERSON, Table, csv_row, write_rows
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import ItemIndex, check_items
from psephos.profile.repair import OrderFault

__all__ = ["csv_kind", "read_comparisons_csv", "write_comparisons_csv"]


def csv_kind(path: Source) -> Literal["ballots", "comparisons"]:
    """Whether a CSV file holds ballots or comparisons, from its header alone."""
    with open_text(path, newline="") as stream:
        columns = {name.lower() for name in Table(stream, source_name(path)).columns}
    return "comparisons" if {"left", "right", "winner"} <= columns else "ballots"


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
        special = table.special(("left", "right", "winner", "weight", "count", *PERSON))
        for name in ("left", "right", "winner"):
            if name not in special:
                raise table.fail(
                    f"column {name!r} is missing; wanted left, right, winner[, person][, weight], found {table.found()}"
                )
        if "count" in special:
            raise table.fail("comparisons have no 'count': give one row a judgement, or call it 'weight'")
        column_person = table.one_of(special, PERSON, "person")
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
    names, place_of = index.in_order(source)
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
        notes=index.notes(source),
    )


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
    write_rows(path, rows)

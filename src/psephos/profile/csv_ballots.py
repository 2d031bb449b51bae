"""Ballots as CSV, in two layouts, told apart by the header alone (or by ``layout``):

* ``places``: a column an item, a cell is that item's place (1 is best, equal numbers tie, blank is unranked);
* ``positions``: a column a position (``rank1``, ``First choice``), a cell is the item there, blank if skipped.

A column ``count`` gives a row's multiplicity, a column ``person`` (or ``voter``, ``worker``) names who
answered; one person gives one ballot. What else the header may say: :mod:`psephos.profile.csv_header`.
"""

from __future__ import annotations

from collections.abc import Iterable

from psephos._check import check_choice, fold
from psephos.errors import DataError
from psephos.profile.csv_comparisons import is_comparisons
from psephos.profile.csv_header import BallotColumns, Layout, ballot_columns, ordinal
from psephos.profile.csv_rows import Gaps, PlaceRows, PositionRows, Rows, whole_number
from psephos.profile.csv_table import PERSON, Table, csv_row, write_rows
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import check_items
from psephos.profile.profile import Profile
from psephos.profile.repair import MOST_VOID, Clean, Repairs

__all__ = ["read_ballots_csv", "write_ballots_csv"]

#: What a column of persons holds where it names nobody.
_NOBODY = ("", "-", "n/a", "nan", "null", "<na>", "anonymous")
#: What a row is called that spreadsheets and form tools put below the answers.
_SUMMARY = ("total", "totals", "grand total", "sum", "average", "mean", "median")


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
    path
        The file, UTF-8 or UTF-16; any line ending.
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

    Returns
    -------
    Profile
        Its ``notes`` say what was guessed, repaired or left out.

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
        collect: Rows
        if header.layout == "positions":
            collect = PositionRows(declared, gaps, source)
        else:
            collect = PlaceRows(header.names, declared, source)
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


def _read_rows(table: Table, header: BallotColumns, collect: Rows, repairs: Repairs) -> None:
    """Collect what each row, or the last row of each person, says."""
    last: dict[str, tuple[tuple[str, ...], int]] = {}
    cells: dict[tuple[str, ...], tuple[str, ...]] = {}  # people who say the same share their cells
    replaced = 0
    called = ""
    for row in table:
        first = next((i for i, cell in enumerate(row) if cell.strip()), -1)
        called = "" if first < 0 or first in header.body else row[first]
        body = tuple(row[i] for i in header.body)
        if header.person is None:
            count = 1 if header.count is None else repairs.count(whole_number(row[header.count]), table.line)
            if count:
                collect.add(body, count, table.line)
            continue
        who = fold(row[header.person]).casefold()
        if who in _NOBODY or (who in last and not header.named):
            named = table.columns[header.person]
            what = f"answered before; --person-column {named!r} keeps the last"
            if who in _NOBODY:
                what = f"in the column {named!r} names nobody: fill it in, or --ignore {named!r}"
            rule = f"one person gives one ballot, and {who!r} {what}"
            repairs.faults.add(rule, table.line)
            continue
        replaced += who in last
        last[who] = (cells.setdefault(body, body), table.line)
    if fold(called).casefold().strip(" :") in _SUMMARY:
        repairs.faults.add(f"the last row is called {called.strip()!r}, and is hardly a ballot: remove it", table.line)
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


def write_ballots_csv(profile: Profile, path: Source, *, layout: Layout = "places") -> None:
    """Write a ``profile`` to ``path``, with a column ``count``; :func:`read_ballots_csv` gives it back.

    In the layout ``positions`` the reader needs the same ``items``, which such a file does not hold; in the layout
    ``places`` it does where an item is called like something else (``No``, ``Age``, ``n``), and refuses the file
    without.

    Raises
    ------
    DataError
        if an item's name would be read as something else, or, in the ``layout`` ``positions``, if a ballot has a tie.
        Nothing is written then.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> write_ballots_csv(Profile.from_places(["tea", "coffee"], [[1, 1], [2, 0]]), file)
    >>> file.read_text().splitlines()
    ['tea,coffee,count', '1,2,1', '1,,1']
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

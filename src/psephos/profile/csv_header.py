"""Which columns of a table hold ballots, and which say something else of a row.

An export of a form holds more than ballots: time stamps, addresses, other questions. A column is read as part of a
ballot only where its name (or the caller) says so:

* positions are named ``rank1``, ``Choice 2``, ``1st``, ``First choice``, or hold such words (``Your first choice?``);
* a question over several columns is written ``Question [x]``, ``Question - x`` or ``Question: x``, and x is the item
  or the position;
* a name such as ``VoterID``, ``Email``, ``Timestamp``, ``row`` is no item. One such as ``votes`` or ``n`` may say how
  many people a row stands for: that is settled by the caller, and such a column is never left out unasked.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Literal

from psephos._check import fold
from psephos.profile.csv_table import PERSON, Table
from psephos.profile.names import ItemIndex
from psephos.profile.seen_items import names_somebody

__all__ = ["BallotColumns", "Layout", "ballot_columns", "ordinal"]

Layout = Literal["positions", "places"]

_WORDS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth"),
    *("sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth"),
)
_NOUN = r"(?:rank(?:ing)?|choice|position|preference|pref|pos|pick|priority)"
_NTH = rf"(?:(?P<nth>[0-9]+)(?:st|nd|rd|th)|(?P<word>{'|'.join(_WORDS)}))"
_ORDINAL = re.compile(
    rf"{_NOUN}(?: n[or])?[ _.#-]*(?P<digits>[0-9]+)|(?:{_NOUN} )?{_NTH}(?:[ _-]*(?:{_NOUN}|place))?", re.IGNORECASE
)
_OPTIONAL = re.compile(r"\W+(?:optional|required|if any)\W*$")
_INSIDE = re.compile(rf"(?:^|.*?\W){_NTH}[ _-]+(?:{_NOUN}|place)(?:\W.*|$)", re.IGNORECASE | re.DOTALL)

_WHO = re.compile(
    r"(?:\w+ )?(?:id|uuid|guid|no|nr|num|number)|(?:voter|person|respondent|response|participant|user|worker|ballot)id"
    r"|(?:access |invite |invitation )?(?:code|token|key|hash|serial)|(?:.* )?e ?mail(?: .*)?"
    r"|(?:.* )?(?:first|last|full|given|family|user|your|sur) ?name|name|(?:.* )?ip ?address|ip"
    r"|(?:.* )?(?:phone|telephone|mobile)(?: number)?|respondent|participant|voter|person|worker|user|login|response"
    r"|ballot|index|idx|rows?|row ?names?|line|unnamed \d+|#"
)
_ABOUT = re.compile(
    r"(?:time ?stamp|zeitstempel|horodateur|marca temporal)(?: .*)?"
    r"|(?:date|time)(?: (?:of|submitted|completed|started|taken).*)?"
    r"|(?:start|end|submit|submission|record|recorded|created|completed|completion|response|last modified)(?:ted)?"
    r" ?(?:date|time)(?: \w+)?|(?:submitted|started|completed|created|recorded|last action)(?: (?:at|on))?"
    r"|duration(?: .*)?|progress|finished|status|(?:user|start)? ?language|distribution ?channel"
    r"|location ?(?:latitude|longitude)|(?:external|external data) ?reference|last ?page|seed|custom data ?\d*|tags"
    r"|browser|user agent|referr?er|points|score|comments?|remarks?|feedback|age|gender|sex"
)
_MANY = re.compile(
    r"(?:.* )?(?:n?votes|voters|counts?|freqs?|frequency|frequencies|weights?|multiplicity|copies)|count of .*|n|wt|cnt"
    r"|(?:number of |no of |nr of |num |n |total |sum of )?(?:people|persons|ballots|times|respondents|responses)"
    r"|totals?|sum|(?:group )?size"
)


def ordinal(text: str, *, bare: bool = False, inside: bool = False) -> int | None:
    """The number that text states as a place in an order, or ``None``.

    ``bare``: a plain number counts too. ``inside``: so do "first choice" and the like within other words.

    >>> ordinal("First choice"), ordinal("rank_2"), ordinal("3rd"), ordinal("4", bare=True), ordinal("tea")
    (1, 2, 3, 4, None)
    >>> ordinal("What is your second choice?", inside=True), ordinal("First name", inside=True)
    (2, None)
    """
    plain = fold(text).strip(" *:?.")
    match = _ORDINAL.fullmatch(plain) or (_INSIDE.fullmatch(plain) if inside else None)
    if match is None:
        digits = plain.removeprefix("#") if bare else ""
    elif match["word"]:
        return _WORDS.index(match["word"].lower()) + 1
    else:
        digits = match.groupdict().get("digits") or match["nth"]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else None


def _framed(text: str) -> str:
    """What stands around the number in the name of a position: the same for all positions of one question.

    >>> _framed("Your third choice (optional)"), _framed("Reason for third choice"), _framed("rank_2"), _framed("2nd")
    ('your # choice', 'reason for # choice', 'rank', '')
    """
    plain = _OPTIONAL.sub("", fold(text).casefold()).strip(" *:?.")
    if not _ORDINAL.fullmatch(plain) and (inside := _INSIDE.fullmatch(plain)):
        start, end = inside.span(inside.lastgroup or 0)
        return f"{plain[:start].strip()} # {plain[end:].strip(' _-')}".strip()
    noun = re.search(rf"{_NOUN}|place", plain)
    return noun[0] if noun else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotColumns:
    """What the columns of a table of ballots are.

    ``body``: those of ballots, in the order of ``names`` or of positions; ``names``: items of the layout ``places``;
    ``chosen``, ``named``: whether the caller named them, and the column of persons.
    """

    layout: Layout
    body: list[int]
    names: list[str]
    person: int | None
    count: int | None
    chosen: bool
    named: bool
    notes: tuple[str, ...]


def ballot_columns(
    table: Table,
    *,
    layout: Layout | None,
    items: Sequence[str] | None,
    columns: str | Iterable[str] | None,
    ignore: str | Iterable[str] | None,
    count_column: str | None,
    person_column: str | None,
) -> BallotColumns:
    """Tell the columns apart, by the header and what the caller says.

    Raises
    ------
    DataError
        naming the columns, and the option that settles what they are.
    """
    header = _Header(table)
    ignored = header.find(ignore, "--ignore")
    person = header.find_one(person_column, "--person-column")
    count = header.find_one(count_column, "--count-column")
    chosen = header.find(columns, "--columns")
    taken = {*ignored, *chosen, *(i for i in (person, count) if i is not None)}
    special = {name: i for name, i in table.special((*PERSON, "count")).items() if i not in taken}
    if person is None:
        person = table.one_of(special, PERSON, "person")
    if count is None:
        count = special.get("count")
    if person is not None and count is not None:
        names = f"{table.columns[person]!r} and {table.columns[count]!r}"
        raise table.fail(f"a row with a person is one ballot: a person and a count column exclude each other: {names}")
    used = {i for i in (person, count) if i is not None}
    for option, where in (("--ignore", ignored), ("--person-column and --count-column", used)):
        if both := [table.columns[i] for i in chosen if i in where]:
            raise table.fail(f"--columns and {option} both name {both[0]!r}")
    free = [i for i in range(len(table.columns)) if i not in used and i not in ignored]
    if not free:
        raise table.fail(f"no column of ballots; columns found: {table.found()}")
    # A table of distinct ballots, with a column 'count', was not made by a form: its columns are called what they are.
    if count is None or chosen or items is not None or count_column is not None:
        header.label(chosen or free)
    form, body = header.ballots(free, chosen, layout, items)
    rest = [i for i in free if i not in body]
    many = [i for i in rest if header.looks(i, _MANY)]
    if many:
        raise table.fail(
            f"{header.quoted(many)} may say how many people a row stands for, which is not left out unasked: "
            f"--count-column {table.columns[many[0]]!r} if so, --ignore {table.columns[many[0]]!r} if not"
        )
    notes = []
    if rest:
        notes.append(f"{table.source}: no part of ballots, and not read: {header.quoted(rest)}")
    who = [i for i in rest if header.looks(i, _WHO)]
    if who and person is None:
        notes.append(
            f"{table.source}: whoever answered several times counts as several people: --person-column keeps the last "
            f"ballot of each person, and {header.quoted(who)} may say who that is"
        )
    return BallotColumns(
        layout=form,
        body=body,
        names=[header.labels[i] for i in body],
        person=person,
        count=count,
        chosen=bool(chosen),
        named=person_column is not None,
        notes=tuple(notes),
    )


class _Header:
    """The names of the columns, and what they look like."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.labels = list(table.columns)  # what stays of a name without the question that several columns share
        self.grids: dict[str, list[int]] = {}  # question -> its columns

    def looks(self, i: int, pattern: re.Pattern[str]) -> bool:
        plain = " ".join(re.sub(r"(?<=[a-z])(?=[A-Z][a-z]|ID\b)", " ", self.table.columns[i]).split())
        plain = re.sub(r"[\W_]+", " ", plain.casefold()).strip()
        return pattern.fullmatch(plain or self.table.columns[i]) is not None

    def quoted(self, columns: Iterable[int]) -> str:
        names = [repr(self.table.columns[i][:80]) for i in columns]
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return f"the column{'s' if len(names) > 1 else ''} {', '.join(names[:10])}{more}"

    def find(self, wanted: str | Iterable[str] | None, option: str) -> list[int]:
        """The columns of these names, each a name, a question, or several of them between commas."""
        texts = [wanted] if isinstance(wanted, str) else list(wanted or ())
        found: list[int] = []
        for text in texts:
            one = self._named(text)
            if one is None:
                one = []
                for name in next(csv.reader([fold(text)], skipinitialspace=True), []):
                    part = self._named(name)
                    if part is None:
                        raise self.table.fail(
                            f"{option}: no column is named {name!r}; columns found: {self.table.found()}"
                        )
                    one += part
            found += [i for i in one if i not in found]
        if texts and not found:
            raise self.table.fail(f"{option} names no column; columns found: {self.table.found()}")
        return found

    def find_one(self, name: str | None, option: str) -> int | None:
        if name is None:
            return None
        found = self._named(name) or []
        if len(found) != 1:
            raise self.table.fail(f"{option}: no column is named {name!r}; columns found: {self.table.found()}")
        return found[0]

    def _named(self, name: str) -> list[int] | None:
        for same in (fold, lambda text: fold(text).casefold()):
            found = [i for i, column in enumerate(self.table.columns) if same(column) == same(name)]
            if len(found) == 1:
                return found
        questions = {fold(question).casefold(): where for question, where in self._questions().items()}
        return questions.get(fold(name).casefold())

    def _questions(self, among: Sequence[int] | None = None) -> dict[str, list[int]]:
        """Questions of two and more columns, by what stands before a bracket, a dash or a colon."""
        groups: dict[str, list[int]] = {}
        for i in range(len(self.table.columns)) if among is None else among:
            name = self.table.columns[i]
            cut = name.find("[") if name.endswith("]") else -1
            if cut < 1:
                cut = next(
                    (at.start() for mark in (r"\s[-\u2013\u2014]\s", r":\s") if (at := re.search(mark, name))), -1
                )
            if cut > 0:
                groups.setdefault(name[:cut].strip(), []).append(i)
        return {question: where for question, where in groups.items() if len(where) > 1}

    def label(self, among: Sequence[int]) -> None:
        """Take what the columns of a question have in common from their names."""
        for question, where in self._questions(among).items():
            names = [self.table.columns[i] for i in where]
            bracket = all(name.endswith("]") for name in names)
            common = commonprefix(names)  # noqa: RUF071 (letter by letter)
            start = max(common.rfind(mark) + len(mark) if mark in common else 0 for mark in _MARKS[bracket])
            labels = [name[start : len(name) - bracket].strip() for name in names]
            if all(labels) and len(set(labels)) == len(labels):
                self.grids[question] = where
                for i, text in zip(where, labels, strict=True):
                    self.labels[i] = text

    def ballots(
        self, free: list[int], chosen: list[int], layout: Layout | None, items: Sequence[str] | None
    ) -> tuple[Layout, list[int]]:
        """The layout, and the columns of ballots in their order."""
        among = chosen or [i for i in free if not (self.looks(i, _WHO) or self.looks(i, _ABOUT))]
        as_items = self._as_items(chosen or free, items)
        if layout == "positions" or (layout is None and not as_items):
            # Of a question, [1] may be an item or a position, unless the list of items says that it is none.
            bare = layout == "positions" or (items is not None and not as_items and bool(self.grids))
            found = self._positions(among, bool(chosen), layout, items is not None, bare)
            if found:
                return "positions", found
            if layout == "positions":
                if chosen:
                    return "positions", chosen
                raise self.table.fail(
                    "no column is named like a position (rank1, First choice, ...): name them in their order with "
                    f"--columns; columns found: {self.table.found()}"
                )
        if items is not None and chosen and layout is None and not as_items:
            return "positions", chosen
        if items is not None:
            return "places", self._listed(as_items, items, chosen)
        if chosen:
            return "places", chosen
        return "places", self._items_of_the_header(free, among)

    def _as_items(self, free: list[int], items: Sequence[str] | None) -> list[tuple[int, int]]:
        """The columns named like an item of the list, with its position."""
        if items is None:
            return []
        index = ItemIndex(items)
        found = [(i, index.find(self.table.columns[i])) for i in free]
        found = [(i, index.find(self.labels[i]) if item is None else item) for i, item in found]
        return [(i, item) for i, item in found if item is not None]

    def _listed(self, found: list[tuple[int, int]], items: Sequence[str], chosen: list[int]) -> list[int]:
        """The columns of a list of items, each once."""
        seen = [item for _, item in found]
        if odd := [i for i in chosen if i not in dict(found)]:
            raise self.table.fail(f"--columns names {self.quoted(odd)}, and the list of items does not")
        for position, name in enumerate(items):
            if position not in seen:
                raise self.table.fail(
                    f"no column for the item {name!r}; columns found: {self.table.found()} "
                    "(if the columns are positions, name them in their order with --columns)"
                )
            if seen.count(position) > 1:
                same = [i for i, item in found if item == position]
                raise self.table.fail(f"{self.quoted(same)} all stand for the item {name!r}: choose with --columns")
        for i, item in found:
            self.labels[i] = items[item] if fold(self.table.columns[i]) != fold(items[item]) else self.table.columns[i]
        return [i for i, _ in found]

    def _positions(self, among: list[int], chosen: bool, layout: Layout | None, listed: bool, bare: bool) -> list[int]:
        """The columns of positions, in order; none if the names give none."""
        sure, found = (
            {i: n for i in among if (n := ordinal(self.labels[i], bare=bare, inside=inside)) is not None}
            for inside in (False, True)
        )
        if sorted(found.values()) != list(range(1, len(found) + 1)):
            found = sure or found  # words within a question may mean something else
        if not found or (chosen and len(found) < len(among)):
            return []
        ordered = sorted(found, key=lambda i: found[i])
        values = [found[i] for i in ordered]
        torn = not chosen and any(set(where) & set(found) and set(where) - set(found) for where in self.grids.values())
        frames = {_framed(self.labels[i]) for i in found} - {""}
        # "Reason for third choice" is none after "Your second choice": only a list of items would find that out.
        alike = chosen or listed or len(frames) < 2
        whole = values == list(range(1, len(values) + 1)) and not torn and alike
        if (whole or (chosen and len(set(values)) == len(values))) and (layout or chosen or list(found) == ordered):
            if len(found) > 1 or len(among) == 1 or layout or listed:
                return ordered
            raise self.table.fail(
                f"{self.quoted(found)} looks like a position, and others like items: say which with --layout, or name "
                f"the columns of ballots with --columns; columns found: {self.table.found()}"
            )
        if not sure and layout is None and alike:
            return []
        questions = [question for question, where in self.grids.items() if set(where) & set(found)]
        hint = f", such as --columns {questions[0]!r}" if questions else ""
        raise self.table.fail(
            "some columns look like positions, but they are not rank1, rank2, ... in order, each once and named alike: "
            f"name them with --columns{hint} (if they are items, --layout places); columns found: {self.table.found()}"
        )

    def _items_of_the_header(self, free: list[int], among: list[int]) -> list[int]:
        """The columns of items where the header alone says what they are."""
        bracketed = [question for question, where in self.grids.items() if self.table.columns[where[0]].endswith("]")]
        whole = [question for question, where in self.grids.items() if len(where) == len(among)]
        plain = [self.labels[i] for i in (among or free)]
        if all(name.isascii() and name.isdigit() for name in plain):
            if whole:
                raise self.table.fail(f"the columns of {whole[0]!r} may be items or positions: say which with --layout")
            if len(plain) == len(self.table.columns):
                raise self.table.fail(
                    f"no header: the first line holds numbers alone; wanted item names, found {self.table.found()}"
                )
        many = [i for i in free if self.looks(i, _MANY)]
        if whole and not many:
            return among
        if bracketed and not many:
            raise self.table.fail(
                f"which columns are the ballot? --columns {bracketed[0]!r} takes those of one question, --ignore "
                f"leaves others out; columns found: {self.table.found()}"
            )
        for question in self.grids:  # names that only look alike
            for i in self.grids[question]:
                self.labels[i] = self.table.columns[i]
        odd = [i for i in free if i not in among or i in many or names_somebody(self.table.columns[i])]
        if odd:
            raise self.table.fail(
                f"{self.quoted(odd)} look{'s' if len(odd) == 1 else ''} like no item: --columns names the columns of "
                "ballots, or --ignore those that are none, --person-column says who answered, --count-column how many "
                f"people a row stands for; or --items gives the list of items; columns found: {self.table.found()}"
            )
        return free


#: What ends a question: before columns that all end in a bracket, and before others.
_MARKS = {True: ("[",), False: (" - ", " \u2013 ", " \u2014 ", ": ")}

"""PrefLib's ordinal formats: soc, soi, toc, toi, with today's header and with the old one.

Today's: lines ``# KEY: value`` (``NUMBER ALTERNATIVES``, ``ALTERNATIVE NAME k``, ...) and then
``count: order``. The old one: the number of items, a line ``k,name`` an item, a line of three totals, and
then ``count,order``. An order is a list of item numbers 1..m, best first, ``{...}`` around ties.
Comments and blank lines may stand anywhere. Ballots are read as a stream and merged as they come.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from psephos._check import check_choice
from psephos.errors import DataError, DataWarning
from psephos.profile.encoding import Source, encoding_notes, open_text, source_name
from psephos.profile.names import check_items
from psephos.profile.profile import BallotAccumulator, Profile
from psephos.profile.repair import Clean, Faults, OrderFault, Repairs, parse_order

__all__ = ["read_preflib", "write_preflib"]

_TYPES = ("soc", "soi", "toc", "toi")
_KEY = re.compile(r"#\s*([A-Za-z][A-Za-z \t]*?)\s*([0-9]+)?\s*:(.*)", re.DOTALL)
_PLAIN_KEYS = ("NUMBER ALTERNATIVES", "NUMBER VOTERS", "NUMBER UNIQUE ORDERS", "DATA TYPE")
#: Kinds of PrefLib data that hold no orders of one person each: categories, graphs of pairwise counts, extra tables.
_NO_ORDERS = ("cat", "wmd", "wmg", "tog", "mjg", "pwg")
_MAX_ITEMS = 100_000
_MAX_DIGITS = 4000


@dataclass(slots=True)
class _Header:
    """What the lines before the first ballot declare."""

    faults: Faults
    strict: bool
    names: dict[int, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # the inverse of names
    totals: dict[str, int] = field(default_factory=dict)
    data_type: str | None = None

    @property
    def source(self) -> str:
        return self.faults.source

    def disagree(self, message: str) -> None:
        """A contradiction that does not change what is read: an error if strict, else a warning."""
        if self.strict:
            self.faults.add(message, None)
        else:
            warnings.warn(DataWarning(f"{self.source}: {message}"), stacklevel=4)

    def read_line(self, text: str, line: int) -> None:
        """Take in one ``# KEY: value`` line; other comments are ignored."""
        parts = _header_key(text)
        if parts is None:
            return
        key, digits, value = parts
        if key == "ALTERNATIVE NAME":
            self.add_name(digits, value, line)
        elif key == "DATA TYPE":
            if value.lower() in _TYPES:
                self.data_type = value.lower()
            else:
                self.faults.add(f"DATA TYPE must be one of {', '.join(_TYPES)}, got {value[:80]!r}", line)
        else:
            most = _MAX_ITEMS if key == "NUMBER ALTERNATIVES" else None
            if not _is_number(value) or (most is not None and int(value) > most):
                span = "" if most is None else f" up to {most}"
                self.faults.add(f"{key} must be a whole number{span}, got {value[:80]!r}", line)
                return
            if self.totals.get(key, int(value)) != int(value):
                self.disagree(f"{key} is given twice, as {self.totals[key]} and {value}; the last one counts")
            self.totals[key] = int(value)

    def add_name(self, digits: str, name: str, line: int) -> None:
        """Name one item."""
        number = int(digits) if len(digits) < 10 else 0
        fault = ""
        if not 1 <= number <= _MAX_ITEMS:
            fault = f"an alternative's number must be 1 to {_MAX_ITEMS}, got {digits}"
        elif number in self.names:
            fault = f"alternative {number} is named twice"
        elif not name:
            fault = f"the name of alternative {number} is blank"
        elif name in self.numbers:
            fault = f"alternatives {self.numbers[name]} and {number} have the same name {name!r}"
        if fault:
            self.faults.add(fault, line)
        else:
            self.names[number] = name
            self.numbers[name] = number

    def read_old(self, first: str, line: int, lines: Iterator[tuple[int, str]]) -> tuple[int, str]:
        """Take in the old header, of which ``first`` is the first line; return the first ballot line."""
        m = int(first) if len(first) < 10 else 0
        if not 1 <= m <= _MAX_ITEMS:
            raise self._fail(f"the number of items must be 1 to {_MAX_ITEMS}, got {first[:80]}", line)
        self.totals["NUMBER ALTERNATIVES"] = m
        body = ((number, raw.strip()) for number, raw in lines if raw.strip() and not raw.lstrip().startswith("#"))
        for k in range(1, m + 1):
            line, text = next(body, (line, ""))
            digits, comma, name = (part.strip() for part in text.partition(","))
            # A number out of turn is one, unless the line may be that of the totals.
            in_turn = digits == str(k) or (_is_number(digits) and not re.fullmatch(r"[\s0-9,]*", name))
            if not comma or not in_turn:
                raise self._fail(f"the old PrefLib header wants '{k},name' here, got {text[:80]!r}", line)
            self.add_name(digits, name, line)
        line, text = next(body, (line, ""))
        totals = [part.strip() for part in text.split(",")]
        if len(totals) != 3 or not all(_is_number(part) for part in totals):
            raise self._fail(f"the old PrefLib header wants 'voters,sum,unique orders' here, got {text[:80]!r}", line)
        self.totals["NUMBER VOTERS"], self.totals["NUMBER UNIQUE ORDERS"] = int(totals[0]), int(totals[2])
        return next(body, (line, ""))

    def _fail(self, rule: str, line: int) -> DataError:
        return DataError(rule, source=self.source, line=line)

    def items(self, line: int) -> dict[int, str]:
        """The number and name of all items, in order; one without a name is called by its number."""
        self.faults.settle()
        declared = self.totals.get("NUMBER ALTERNATIVES")
        named = sorted(self.names)
        if named and declared in {None, len(named)}:
            return {k: self.names[k] for k in named}
        largest = max(named, default=0)
        m = max(declared or 0, largest)
        if not m:
            raise self._fail("no alternatives declared before the first ballot", line)
        if named and declared != largest:
            self.disagree(f"NUMBER ALTERNATIVES says {declared}, and names go up to {largest}; {m} are taken")
        return {k: self.names.get(k, str(k)) for k in range(1, m + 1)}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _header_key(text: str) -> tuple[str, str, str] | None:
    """(key, number or blank, value) of a header line that matters; ``None`` for any other comment."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    key = " ".join(match[1].upper().split())
    if key != "ALTERNATIVE NAME" if match[2] else key not in _PLAIN_KEYS:
        return None
    return key, match[2] or "", match[3].strip()


def read_preflib(path: Source, *, clean: Clean = "reject", strict: bool = False, allow_void: bool = False) -> Profile:
    """Read a PrefLib file of orders (soc, soi, toc, toi), today's header or the old one.

    Parameters
    ----------
    path
        The file, of any suffix; its content decides. UTF-8; any line ending.
    clean
        What to do with an order that breaks a rule: ``reject``, ``keep-first`` or ``empty`` (see
        :mod:`psephos.profile.repair`). A faulty count is always an error: it hides a number of people. A line with
        count 0 is nobody's ballot, and left out.
    strict
        Whether a header or a suffix that contradicts the body is an error instead of a :class:`DataWarning`: a number
        of voters, or a kind (``soc`` with a tie, or with an order that lacks an item). The body always decides.
    allow_void
        Whether more than half of the ballots may be void after cleaning; by default that is an error.

    Returns
    -------
    Profile
        Its items come from the header (a public fact): where as many are named as there are, orders use the numbers
        of the names, which may have gaps. ``notes`` says what was merged, repaired or left out.

    Raises
    ------
    DataError
        naming file, line, value and rule of every fault.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "tiny.soc")
    >>> _ = file.write_text("# NUMBER ALTERNATIVES: 2\\n3: 1,2\\n2: 1,2\\n")
    >>> profile = read_preflib(file)
    >>> profile.people, profile.notes
    (5, ('tiny.soc: 1 repeated order merged',))
    """
    source = source_name(path)
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix in _NO_ORDERS:
        raise DataError(f"PrefLib's kind {suffix} holds no orders; wanted {', '.join(_TYPES)}", source=source)
    repairs = Repairs(clean, source, allow_void=allow_void)
    header = _Header(repairs.faults, strict)
    names: dict[int, str] = {}
    numbers: Mapping[int, int] | None = None
    support: BallotAccumulator | None = None
    separator = ":"
    seen = _Seen()
    ballot_lines = merged = 0
    with repairs.faults.told_at_once(), open_text(path) as stream:
        lines = enumerate(stream, start=1)
        for number, raw in lines:
            line = raw.strip()
            if not line:
                continue
            if line.startswith("#"):
                if support is None:
                    header.read_line(line, number)
                elif _header_key(line) is not None:
                    header.disagree(f"line {number} is a header line after the first ballot, and ignored")
                continue
            if support is None:
                if not header.totals and not header.names and line.isascii() and line.isdigit():
                    separator = ","
                    number, line = header.read_old(line, number, lines)
                    if not line:
                        break
                names = header.items(number)
                if max(names) > len(names):
                    numbers = {k: position for position, k in enumerate(names)}
                support = BallotAccumulator(len(names))
            written, found, order = line.partition(separator)
            if not found:
                rule = f"a ballot line is 'count{separator} order', and count must be a whole number >= 1"
                repairs.faults.add(f"{rule}; got {line[:80]!r}", number)
                continue
            count = repairs.count(written, number)
            if not count:
                continue
            void = repairs.void
            places = repairs.places(partial(parse_order, order, len(names), numbers), len(names), count, number)
            new = support.add(places, count)
            if repairs.void == void:
                seen.look(places, number)
                merged += not new and any(places)
            ballot_lines += 1
        if support is None or not ballot_lines:
            repairs.faults.settle()
            why = "every count is 0" if repairs.zeros else "no line follows the header"
            raise DataError(f"nothing to rank: the file holds no ballots: {why}", source=source)
        notes = (*encoding_notes(stream, source), *repairs.finish())
        if merged:
            notes = (f"{source}: {merged} repeated order{'s' if merged > 1 else ''} merged", *notes)
        items = check_items(names.values(), source=source)
        profile = support.profile(items, items_source="declared", notes=notes)
        # The number of orders may count lines: repaired and merged ones are fewer, those with count 0 more.
        orders = {profile.support, ballot_lines, ballot_lines + repairs.zeros}
        for key, body in (("NUMBER VOTERS", {profile.people}), ("NUMBER UNIQUE ORDERS", orders)):
            claim = header.totals.get(key)
            if claim is not None and claim not in body:
                header.disagree(f"{key} says {claim}, and the body has {min(body)}; the body decides")
        for message in seen.contradictions(header.data_type, suffix):
            header.disagree(message)
    return profile


@dataclass(slots=True)
class _Seen:
    """What kind of orders the body holds: where the first with a tie and the first without some item stand."""

    tie: int | None = None
    short: int | None = None

    def look(self, places: list[int], line: int) -> None:
        """Take in one order that stands."""
        ranked = len(places) - places.count(0)
        if self.tie is None and max(places) < ranked:
            self.tie = line
        if self.short is None and ranked < len(places):
            self.short = line

    def contradictions(self, declared: str | None, suffix: str) -> Iterator[str]:
        """In which points the DATA TYPE line, the suffix and the body disagree; a narrower kind is no contradiction."""
        for what, kind in (("DATA TYPE", declared), ("the suffix", suffix)):
            if kind not in _TYPES or (what == "the suffix" and kind == declared):
                continue
            found = []
            if kind in {"soc", "soi"} and self.tie is not None:
                found.append(f"the order on line {self.tie} has a tie")
            if kind in {"soc", "toc"} and self.short is not None:
                found.append(f"the order on line {self.short} lacks an item")
            if found:
                yield f"{what} says {kind}, and {' and '.join(found)}; the body decides"
            elif what == "the suffix" and declared is not None and not _holds(kind, declared):
                yield f"the suffix says {kind}, and DATA TYPE says {declared}; the body decides"


def _holds(kind: str, other: str) -> bool:
    """Whether every order of the kind ``other`` may stand in a file of this kind."""
    return (kind[0] == "t" or other[0] == "s") and (kind[2] == "i" or other[2] == "c")


def _check_kind(groups: list[list[int]], kind: str, m: int) -> None:
    """Whether the writer may put an order into a file of this kind."""
    if kind in {"soc", "soi"} and any(len(group) > 1 for group in groups):
        raise OrderFault(f"a {kind} file holds strict orders, and this one has a tie")
    if kind in {"soc", "toc"}:
        missing = set(range(m)).difference(*groups)
        if missing:
            raise OrderFault(f"a {kind} file holds complete orders, and this one lacks item {min(missing) + 1}")


def write_preflib(
    profile: Profile, path: Source, *, data_type: Literal["soc", "soi", "toc", "toi"] | None = None
) -> None:
    """Write ``profile`` with today's header; :func:`read_preflib` gives it back unchanged.

    Parameters
    ----------
    profile, path
        What is written, and where.
    data_type
        The narrowest kind that holds the ballots, if absent.

    Raises
    ------
    DataError
        if an item's name has a line break or blank ends, which the format cannot hold, or if the ballots do
        not fit ``data_type``. Nothing is written then.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "tiny.soc")
    >>> write_preflib(Profile.from_places(["tea", "coffee"], [[1, 1], [2, 2]]), file)
    >>> file.read_text().splitlines()[-1]
    '2: 1,2'
    """
    kind = data_type or profile.data_type
    check_choice(kind, "data_type", _TYPES)
    for name in profile.items:
        if name != name.strip() or any(c in name for c in "\r\n"):
            raise DataError(f"a PrefLib header cannot hold the name {name!r}: line break, or blank at an end")
    body = []
    for ballot, count in sorted(profile.ballots(), key=lambda pair: (-pair[1], pair[0].groups)):
        try:
            _check_kind([list(group) for group in ballot.groups], kind, profile.m)
        except OrderFault as fault:
            raise DataError(str(fault)) from None
        order = ",".join(
            str(group[0] + 1) if len(group) == 1 else "{" + ",".join(str(i + 1) for i in group) + "}"
            for group in ballot.groups
        )
        body.append(f"{count}: {order}\n")
    with Path(path).open("w", encoding="utf-8", newline="\n") as out:
        out.write(f"# FILE NAME: {' '.join(source_name(path).split())}\n# DATA TYPE: {kind}\n")
        out.write(f"# NUMBER ALTERNATIVES: {profile.m}\n# NUMBER VOTERS: {profile.people}\n")
        out.write(f"# NUMBER UNIQUE ORDERS: {profile.support}\n")
        for position, name in enumerate(profile.items, start=1):
            out.write(f"# ALTERNATIVE NAME {position}: {name}\n")
        out.writelines(body)

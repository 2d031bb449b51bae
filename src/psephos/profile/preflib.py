"""PrefLib's ordinal formats: soc, soi, toc, toi, with today's header and with the old one.

Today's: lines ``# KEY: value`` (``NUMBER ALTERNATIVES``, ``ALTERNATIVE NAME k``, ...) and then
``count: order``. The old one: the number of items, a line ``k,name`` an item, a line of three totals, and
then ``count,order``. An order is a list of item numbers 1..m, best first, ``{...}`` around ties.
Comments and blank lines may stand anywhere. Ballots are read as a stream and merged as they come.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from psephos._check import check_choice
from psephos.errors import DataError, DataWarning
from psephos.profile.encoding import Source, open_text, source_name
from psephos.profile.names import check_items
from psephos.profile.profile import Profile, Support
from psephos.profile.repair import Clean, OrderFault, Repairs, parse_count, parse_order

__all__ = ["PREFLIB_SUFFIXES", "read_preflib", "write_preflib"]

PREFLIB_SUFFIXES = (".soc", ".soi", ".toc", ".toi")

_TYPES = ("soc", "soi", "toc", "toi")
_KEY = re.compile(r"#\s*([A-Za-z][A-Za-z \t]*?)\s*([0-9]+)?\s*:(.*)", re.DOTALL)
_PLAIN_KEYS = ("NUMBER ALTERNATIVES", "NUMBER VOTERS", "NUMBER UNIQUE ORDERS", "DATA TYPE")
_MAX_ITEMS = 100_000
_MAX_DIGITS = 4000


@dataclass(slots=True)
class _Header:
    """What the lines before the first ballot declare."""

    source: str
    strict: bool
    names: dict[int, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)  # the inverse of names
    totals: dict[str, int] = field(default_factory=dict)
    data_type: str | None = None

    def fail(self, rule: str, line: int) -> DataError:
        return DataError(rule, source=self.source, line=line)

    def disagree(self, message: str) -> None:
        """A contradiction that does not change what is read: an error if strict, else a warning."""
        if self.strict:
            raise DataError(message, source=self.source)
        warnings.warn(DataWarning(f"{self.source}: {message}"), stacklevel=4)

    def read_line(self, text: str, line: int) -> None:
        """Take in one ``# KEY: value`` line; other comments are nothing to us."""
        parts = _header_key(text)
        if parts is None:
            return
        key, digits, value = parts
        if key == "ALTERNATIVE NAME":
            self.add_name(digits, value, line)
        elif key == "DATA TYPE":
            if value.lower() not in _TYPES:
                raise self.fail(f"DATA TYPE must be one of {', '.join(_TYPES)}, got {value[:80]!r}", line)
            self.data_type = value.lower()
        else:
            most = _MAX_ITEMS if key == "NUMBER ALTERNATIVES" else None
            if not _is_number(value) or (most is not None and int(value) > most):
                span = "" if most is None else f" up to {most}"
                raise self.fail(f"{key} must be a whole number{span}, got {value[:80]!r}", line)
            if self.totals.get(key, int(value)) != int(value):
                self.disagree(f"{key} is given twice, as {self.totals[key]} and {value}; the last one counts")
            self.totals[key] = int(value)

    def add_name(self, digits: str, name: str, line: int) -> None:
        """Name one item."""
        number = int(digits) if len(digits) < 10 else 0
        if not 1 <= number <= _MAX_ITEMS:
            raise self.fail(f"an alternative's number must be 1 to {_MAX_ITEMS}, got {digits}", line)
        if number in self.names:
            raise self.fail(f"alternative {number} is named twice", line)
        if not name:
            raise self.fail(f"the name of alternative {number} is blank", line)
        if name in self.numbers:
            raise self.fail(f"alternatives {self.numbers[name]} and {number} have the same name {name!r}", line)
        self.names[number] = name
        self.numbers[name] = number

    def read_old(self, first: str, line: int, lines: Iterator[tuple[int, str]]) -> tuple[int, str]:
        """Take in the old header, of which ``first`` is the first line; return the first ballot line."""
        m = int(first) if len(first) < 10 else 0
        if not 1 <= m <= _MAX_ITEMS:
            raise self.fail(f"the number of items must be 1 to {_MAX_ITEMS}, got {first[:80]}", line)
        self.totals["NUMBER ALTERNATIVES"] = m
        body = ((number, raw.strip()) for number, raw in lines if raw.strip() and not raw.lstrip().startswith("#"))
        for k in range(1, m + 1):
            line, text = next(body, (line, ""))
            digits, comma, name = text.partition(",")
            if not comma or digits.strip() != str(k):
                raise self.fail(f"the old PrefLib header wants '{k},name' here, got {text[:80]!r}", line)
            self.add_name(str(k), name.strip(), line)
        line, text = next(body, (line, ""))
        totals = [part.strip() for part in text.split(",")]
        if len(totals) != 3 or not all(_is_number(part) for part in totals):
            raise self.fail(f"the old PrefLib header wants 'voters,sum,unique orders' here, got {text[:80]!r}", line)
        self.totals["NUMBER VOTERS"], self.totals["NUMBER UNIQUE ORDERS"] = int(totals[0]), int(totals[2])
        return next(body, (line, ""))

    def items(self, line: int) -> tuple[str, ...]:
        """The names of all items; one without a name is called by its number."""
        declared = self.totals.get("NUMBER ALTERNATIVES")
        largest = max(self.names, default=0)
        m = max(declared or 0, largest)
        if not m:
            raise self.fail("no alternatives declared before the first ballot", line)
        if declared is not None and self.names and declared != largest:
            self.disagree(f"NUMBER ALTERNATIVES says {declared}, and names go up to {largest}; {m} are taken")
        return check_items((self.names.get(k, str(k)) for k in range(1, m + 1)), source=self.source)


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


def read_preflib(path: Source, *, clean: Clean = "reject", strict: bool = False) -> Profile:
    """Read a PrefLib file of orders (soc, soi, toc, toi), today's header or the old one.

    Parameters
    ----------
    path
        The file. Its kind comes from the ``DATA TYPE`` line, else from the suffix, else it is taken for
        the widest (toi). UTF-8; any line ending.
    clean
        What to do with an order that breaks a rule: ``reject``, ``keep-first`` or ``empty`` (see
        :mod:`psephos.profile.repair`). A faulty count is always an error: it hides a number of people.
    strict
        Whether a header that contradicts the body is an error instead of a :class:`DataWarning`. The
        body always decides.

    Returns
    -------
    Profile
        Its items come from the header (a public fact); ``notes`` says what was merged or repaired.

    Raises
    ------
    DataError
        naming file, line, value and rule.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "tiny.soc")
    >>> _ = file.write_text("# NUMBER ALTERNATIVES: 2\\n3: 1,2\\n2: 1,2\\n")
    >>> profile = read_preflib(file)
    >>> profile.people, profile.notes
    (5, ('tiny.soc: 1 repeated order merged',))
    """
    source = source_name(path)
    header = _Header(source, strict)
    items: tuple[str, ...] = ()
    support: Support | None = None
    kind, separator = "", ":"
    repairs = Repairs(clean, source, lambda groups: _check_kind(groups, kind, len(items)))
    ballot_lines = 0
    with open_text(path) as stream:
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
                items = header.items(number)
                kind = header.data_type or _suffix_type(path)
                support = Support(len(items))
            count, order = _split(line, separator, source, number)
            groups: list[list[int]] | OrderFault
            try:
                groups = parse_order(order, len(items))
            except OrderFault as fault:
                groups = fault
            support.add(repairs.places(groups, len(items), count, number), count)
            ballot_lines += 1
    if support is None:
        raise DataError("nothing to rank: the file holds no ballots", source=source)
    merged = support.merged
    notes = repairs.notes()
    if merged:
        notes = (f"{source}: {merged} repeated order{'s' if merged > 1 else ''} merged", *notes)
    profile = support.profile(items, items_source="declared", notes=notes)
    # The number of orders may count lines: repaired and merged ones are fewer.
    for key, body in (("NUMBER VOTERS", {profile.people}), ("NUMBER UNIQUE ORDERS", {profile.support, ballot_lines})):
        claim = header.totals.get(key)
        if claim is not None and claim not in body:
            header.disagree(f"{key} says {claim}, and the body has {min(body)}; the body decides")
    return profile


def _split(line: str, separator: str, source: str, number: int) -> tuple[int, str]:
    count, found, order = line.partition(separator)
    try:
        if not found:
            raise OrderFault(
                f"a ballot line is 'count{separator} order', and count must be a whole number >= 1; got {line[:80]!r}"
            )
        return parse_count(count), order
    except OrderFault as fault:
        raise DataError(str(fault), source=source, line=number) from None


def _check_kind(groups: list[list[int]], kind: str, m: int) -> None:
    if kind in {"soc", "soi"} and any(len(group) > 1 for group in groups):
        raise OrderFault(f"a {kind} file holds strict orders, and this one has a tie")
    if kind in {"soc", "toc"}:
        missing = set(range(m)).difference(*groups)
        if missing:
            raise OrderFault(f"a {kind} file holds complete orders, and this one lacks item {min(missing) + 1}")


def _suffix_type(path: Source) -> str:
    suffix = Path(path).suffix.lower()
    return suffix[1:] if suffix in PREFLIB_SUFFIXES else "toi"


def write_preflib(
    profile: Profile, path: Source, *, data_type: Literal["soc", "soi", "toc", "toi"] | None = None
) -> None:
    """Write ``profile`` with today's header; :func:`read_preflib` gives it back unchanged.

    Parameters
    ----------
    data_type
        The narrowest kind that holds the ballots, if absent.

    Raises
    ------
    DataError
        if an item's name has a line break or blank ends, which the format cannot hold, or if the ballots do
        not fit ``data_type``. Nothing is written then.
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

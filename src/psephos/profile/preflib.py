"""PrefLib's ordinal formats: soc, soi, toc, toi, with today's header and with the old one.

Today's: lines ``# KEY: value`` (``NUMBER ALTERNATIVES``, ``ALTERNATIVE NAME k``, ...) and then
``count: order``. The old one: the number of items, a line ``k,name`` an item, a line of three totals, and
then ``count,order``. An order is a list of item numbers 1..m, best first, ``{...}`` around ties.
Comments and blank lines may stand anywhere. Ballots are read as a stream and merged as they come.
"""

from __future__ import annotations

import re
import warnings
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
_KEY = re.compile(r"#\s*([A-Za-z][A-Za-z ]*?)\s*([0-9]+)?\s*:(.*)", re.DOTALL)
_MAX_ITEMS = 100_000
_OLD = "the old PrefLib header"


@dataclass(slots=True)
class _Header:
    names: dict[int, str] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)  # what the header claims, by its own key
    data_type: str | None = None

    def items(self, source: str, line: int, strict: bool) -> tuple[str, ...]:
        declared = self.totals.get("NUMBER ALTERNATIVES")
        largest = max(self.names, default=0)
        m = max(declared or 0, largest)
        if not m:
            raise DataError("no alternatives declared before the first ballot", source=source, line=line)
        if declared is not None and self.names and declared != largest:
            _disagree(source, strict, f"NUMBER ALTERNATIVES says {declared}, and names go up to {largest}")
        return check_items((self.names.get(k, str(k)) for k in range(1, m + 1)), source=source)


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
    header = _Header()
    repairs = Repairs(clean, source)
    items: tuple[str, ...] = ()
    support: Support | None = None
    kind = ""
    separator = ":"
    lines_read = 0
    with open_text(path) as stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.strip()
            if not line:
                continue
            if line.startswith("#"):
                if support is None:
                    _header_line(line, header, source, number)
                continue
            if support is None:
                if not header.totals and not header.names and line.isascii() and line.isdigit():
                    separator = ","
                    number, line = _old_header(line, number, stream, header, source)
                    if not line:
                        break
                items = header.items(source, number, strict)
                kind = header.data_type or _suffix_type(path)
                support = Support(len(items))
            count, order = _split(line, separator, source, number)
            groups: list[list[int]] | OrderFault
            try:
                groups = parse_order(order, len(items))
                _check_kind(groups, kind, len(items))
            except OrderFault as fault:
                groups = fault
            support.add(repairs.places(groups, len(items), count, number), count)
            lines_read += 1
    if support is None:
        raise DataError("nothing to rank: the file holds no ballots", source=source)
    merged = support.merged
    notes = repairs.notes()
    if merged:
        notes = (f"{source}: {merged} repeated order{'s' if merged > 1 else ''} merged", *notes)
    profile = support.profile(items, items_source="declared", notes=notes)
    for key, body in (("NUMBER VOTERS", profile.people), ("NUMBER UNIQUE ORDERS", profile.support)):
        claim = header.totals.get(key)
        # The old header counts lines; a repaired or merged file has fewer distinct orders than lines.
        if claim is not None and claim != body and not (key == "NUMBER UNIQUE ORDERS" and claim == lines_read):
            _disagree(source, strict, f"{key} says {claim}, and the body has {body}")
    return profile


def _header_line(line: str, header: _Header, source: str, number: int) -> None:
    match = _KEY.fullmatch(line)
    if not match:
        return  # a comment
    key = " ".join(match[1].upper().split())
    value = match[3].strip()
    if key == "ALTERNATIVE NAME" and match[2]:
        position = int(match[2]) if len(match[2]) < 10 else _MAX_ITEMS + 1
        if not 1 <= position <= _MAX_ITEMS:
            raise DataError(
                f"an alternative's number must be 1 to {_MAX_ITEMS}, got {match[2]}",
                source=source,
                line=number,
            )
        if position in header.names:
            raise DataError(f"alternative {position} is named twice", source=source, line=number)
        header.names[position] = value
    elif key in {"NUMBER ALTERNATIVES", "NUMBER VOTERS", "NUMBER UNIQUE ORDERS"} and not match[2]:
        limit = _MAX_ITEMS if key == "NUMBER ALTERNATIVES" else None
        if not (value.isascii() and value.isdigit()) or len(value) > 4000 or (limit and int(value) > limit):
            raise DataError(f"{key} must be a whole number, got {value!r}", source=source, line=number)
        header.totals[key] = int(value)
    elif key == "DATA TYPE" and not match[2]:
        if value.lower() not in _TYPES:
            raise DataError(f"DATA TYPE must be one of {', '.join(_TYPES)}, got {value!r}", source=source, line=number)
        header.data_type = value.lower()


def _old_header(first: str, number: int, stream: object, header: _Header, source: str) -> tuple[int, str]:
    """Read the old header after its first line; return the first ballot line and its number."""
    if len(first) > 9 or not 1 <= int(first) <= _MAX_ITEMS:
        raise DataError(f"the number of items must be 1 to {_MAX_ITEMS}, got {first}", source=source, line=number)
    m = int(first)
    header.totals["NUMBER ALTERNATIVES"] = m
    wanted = m + 1  # a line an item, and the totals
    for raw in stream:  # type: ignore[attr-defined]
        number += 1
        line: str = raw.strip()
        if not line or line.startswith("#"):
            continue
        if not wanted:
            return number, line
        wanted -= 1
        if wanted:
            key, comma, name = line.partition(",")
            if not comma or key.strip() != str(m - wanted + 1):
                raise DataError(f"{_OLD} wants '{m - wanted + 1},name' here, got {line!r}", source=source, line=number)
            header.names[m - wanted + 1] = name.strip()
            continue
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 4000 for part in parts):
            raise DataError(f"{_OLD} wants 'voters,sum,unique orders' here, got {line!r}", source=source, line=number)
        header.totals["NUMBER VOTERS"], header.totals["NUMBER UNIQUE ORDERS"] = int(parts[0]), int(parts[2])
    return number, ""


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


def _disagree(source: str, strict: bool, message: str) -> None:
    if strict:
        raise DataError(message, source=source)
    warnings.warn(DataWarning(f"{source}: {message}; the body decides"), stacklevel=4)


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
        not fit ``data_type``.
    """
    kind = data_type or profile.data_type
    check_choice(kind, "data_type", _TYPES)
    for name in profile.items:
        if name != name.strip() or any(c in name for c in "\r\n"):
            raise DataError(f"a PrefLib header cannot hold the name {name!r}: line break, or blank at an end")
    with Path(path).open("w", encoding="utf-8", newline="\n") as out:
        out.write(f"# FILE NAME: {source_name(path)}\n# DATA TYPE: {kind}\n")
        out.write(f"# NUMBER ALTERNATIVES: {profile.m}\n# NUMBER VOTERS: {profile.people}\n")
        out.write(f"# NUMBER UNIQUE ORDERS: {profile.support}\n")
        for position, name in enumerate(profile.items, start=1):
            out.write(f"# ALTERNATIVE NAME {position}: {name}\n")
        for ballot, count in sorted(profile.ballots(), key=lambda pair: (-pair[1], pair[0].groups)):
            groups = [list(group) for group in ballot.groups]
            try:
                _check_kind(groups, kind, profile.m)
            except OrderFault as fault:
                raise DataError(str(fault)) from None
            order = ",".join(
                str(group[0] + 1) if len(group) == 1 else "{" + ",".join(str(i + 1) for i in group) + "}"
                for group in groups
            )
            out.write(f"{count}: {order}\n")

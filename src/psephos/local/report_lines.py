"""Reports of devices: JSON Lines, one record a person, nothing in it that was not randomised or public.

A record has exactly these fields:

    schema          "psephos.report/1"
    unit            "person" or "comparison": what the declared epsilon protects
    epsilon_person  what all answers of the record spend together, exact text ("1", "0.1", "1/3")
    epsilon_answer  what each answer spends, exact text; times the number of answers it is epsilon_person
    mechanism       "binary" or "three-outcome"
    secure          whether every random bit came from the operating system
    answers         at least one, each {"left": item, "right": item, "reported": "left" | "right" | "tie"}

An item is its 0-based position in the public list, or its name; one kind in a record. No pair occurs twice. ``tie`` is
a report of the three-outcome mechanism alone. Numbers other than positions do not occur.

A reader trusts nothing: whatever else a line contains is refused, with line, field, value and rule. What it cannot see
is whether a device did what it says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from psephos._check import Exact, check_choice, exact, fold
from psephos._json import json_text
from psephos.errors import DataError, ParameterError
from psephos.local.budget import device_epsilon, epsilon_text
from psephos.local.reports import UNITS, Answer, Report, check_most, fault, item_key

__all__ = ["SCHEMA", "parse_report", "read_reports", "report_line", "write_reports"]

SCHEMA = "psephos.report/1"

#: The longest line, in bytes: what a reader holds in memory.
MAX_LINE = 1 << 22
_MAX_NUMBER = 200  # characters: more than any epsilon that a device accepts divides or multiplies to
_FIELDS = ("schema", "unit", "epsilon_person", "epsilon_answer", "mechanism", "secure", "answers")
_ANSWER_FIELDS = ("left", "right", "reported")


def report_line(report: Report) -> str:
    """The record of a ``report`` as one line of JSON, without its end.

    Raises :class:`psephos.errors.ParameterError` for one of more than 4 MiB.

    >>> answers = (Answer("tea", "coffee", "left"),)
    >>> report = Report(epsilon="1", unit="person", mechanism="binary", secure=True, answers=answers)
    >>> parse_report(report_line(report)) == report
    True
    """
    record = {
        "schema": SCHEMA,
        "unit": report.unit,
        "epsilon_person": epsilon_text(report.epsilon_person),
        "epsilon_answer": epsilon_text(report.epsilon_answer),
        "mechanism": report.mechanism,
        "secure": report.secure,
        "answers": [{"left": a.left, "right": a.right, "reported": a.reported} for a in report.answers],
    }
    line = json_text(record, indent=None, compact=True)
    if len(line.encode()) > MAX_LINE:
        raise ParameterError(f"answers must fit a line of {MAX_LINE} bytes, got {len(report.answers)} answers")
    return line


def parse_report(
    text: str | bytes, *, items: Sequence[str] | None = None, source: str | None = None, line: int | None = None
) -> Report:
    """One line as a report.

    Parameters
    ----------
    text
        The line, as text or UTF-8.
    items
        The public list of items; names then become positions, and whatever is not in the list is refused.
    source, line
        Where the line stands, for messages.

    Returns
    -------
    Report

    Raises
    ------
    DataError
        naming line, field, value and rule.

    >>> parse_report('{"schema": "psephos.report/2"}', line=3)
    Traceback (most recent call last):
    psephos.errors.DataError: 3: schema must be psephos.report/1, got 'psephos.report/2'
    """
    return _parsed(text, None if items is None else _positions(items), source, line)


def read_reports(
    path: str | PathLike[str], *, items: Sequence[str] | None = None, max_epsilon: Exact | None = None
) -> Iterator[Report]:
    """The reports in the file ``path`` of JSON Lines, one at a time, in bounded memory. Blank lines are passed over.

    The file may have a byte order mark; lines end with LF or CRLF. ``items`` as in :func:`parse_report`. A line with a
    larger ``epsilon_person`` than ``max_epsilon`` (nats) is refused.

    Yields
    ------
    Report

    Raises
    ------
    DataError
        at the first line that is no report, naming file, line, field, value and rule.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "poll.jsonl")
    >>> answers = (Answer("tea", "coffee", "left"),)
    >>> report = Report(epsilon="1", unit="person", mechanism="binary", secure=True, answers=answers)
    >>> write_reports(file, [report] * 2), list(read_reports(file, items=["tea", "coffee"]))[0].answers
    (2, (Answer(left=0, right=1, reported='left'),))
    """
    positions = None if items is None else _positions(items)
    name = Path(fspath(path)).name
    with Path(fspath(path)).open("rb") as stream:
        number = 0
        while raw := stream.readline(MAX_LINE + 3):  # a line and its end
            number += 1
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if raw.strip():
                report = _parsed(raw, positions, name, number)
                check_most(report.epsilon_person, max_epsilon, source=name, line=number)
                yield report


def write_reports(path: str | PathLike[str], reports: Iterable[Report]) -> int:
    """Write reports to ``path`` as JSON Lines, UTF-8, and return how many.

    >>> import tempfile
    >>> write_reports(Path(tempfile.mkdtemp(), "none.jsonl"), [])
    0
    """
    count = 0
    with Path(fspath(path)).open("w", encoding="utf-8", newline="\n") as stream:
        for report in reports:
            stream.write(report_line(report) + "\n")
            count += 1
    return count


def _positions(items: Sequence[str]) -> dict[str, int]:
    """Folded name -> position."""
    if isinstance(items, str):
        raise fault("items", items, "a list of names")
    positions: dict[str, int] = {}
    for i, item in enumerate(items):
        key = item_key(item, f"items[{i}]", str)
        if positions.setdefault(str(key), i) != i:
            raise fault(f"items[{i}]", item, "another name than all before, white space apart")
    return positions


def _parsed(text: str | bytes, positions: Mapping[str, int] | None, source: str | None, line: int | None) -> Report:
    try:
        return _report(_loaded(text), positions)
    except ParameterError as error:
        raise DataError(str(error), source=source, line=line) from None


def _loaded(text: str | bytes) -> object:
    """The JSON value of a line."""
    line = text.rstrip(b"\r\n") if isinstance(text, bytes) else text.rstrip("\r\n")
    if len(line) > MAX_LINE:
        raise ParameterError(f"a line must have at most {MAX_LINE} bytes, got more")
    if isinstance(line, bytes):
        try:
            line = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ParameterError(
                f"a line must be UTF-8, got byte 0x{error.object[error.start]:02x} at column {error.start + 1}"
            ) from None
    try:
        return json.loads(
            line,
            object_pairs_hook=_object,
            parse_float=_Refused,
            parse_constant=_Refused,
            parse_int=lambda digits: int(digits) if len(digits) <= 20 else _Refused(digits),
        )
    except json.JSONDecodeError as error:
        raise fault("a line", line, f"one JSON object ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise fault("a line", line, "one JSON object without deep nesting") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for field, value in pairs:
        if field in record:
            raise fault(field, value, "given once, not again")
        record[field] = value
    return record


def _closed(record: object, fields: tuple[str, ...], where: str) -> dict[str, Any]:
    """``record``, if it is an object with exactly these fields."""
    if not isinstance(record, dict):
        raise fault(where or "a line", record, "a JSON object")
    prefix = f"{where}." if where else ""
    for field in record:
        if field not in fields:
            value = repr(record[field])[:80]
            raise ParameterError(f"{prefix}{field[:80]!r} is no field ({', '.join(fields)} are), got {value}")
    for field in fields:
        if field not in record:
            raise ParameterError(f"{prefix}{field} must be present, got only {', '.join(record) or 'no field'}")
    return record


def _report(value: object, positions: Mapping[str, int] | None) -> Report:
    if isinstance(value, dict) and value.get("schema", SCHEMA) != SCHEMA:
        raise fault("schema", value["schema"], SCHEMA)
    record = _closed(value, _FIELDS, "")
    person = check_choice(record["unit"], "unit", UNITS) == "person"
    amounts = {}
    for field in ("epsilon_person", "epsilon_answer"):
        text, declared = record[field], field == ("epsilon_person" if person else "epsilon_answer")
        if not isinstance(text, str) or len(text) > _MAX_NUMBER:
            raise fault(field, text, f"a number as text of at most {_MAX_NUMBER} characters ('0.1', '1/3')")
        amounts[field] = device_epsilon(text, field) if declared else exact(text, field, "an exact number as text")
    if not isinstance(record["answers"], list):
        raise fault("answers", record["answers"], "a list of at least one answer")
    answers = []
    for i, entry in enumerate(record["answers"]):
        fields = _closed(entry, _ANSWER_FIELDS, f"answers[{i}]")
        answers.append(Answer(fields["left"], fields["right"], fields["reported"]))
    report = Report(
        epsilon=amounts["epsilon_person" if person else "epsilon_answer"],
        unit=record["unit"],
        mechanism=record["mechanism"],
        secure=record["secure"],
        answers=tuple(answers),
    )
    derived, owed = ("epsilon_answer", report.epsilon_answer) if person else ("epsilon_person", report.epsilon_person)
    if amounts[derived] != owed:
        how = f"{epsilon_text(owed)}, as epsilon_person = {len(answers)} answers x epsilon_answer"
        raise fault(derived, record[derived], how)
    if positions is None:
        return report
    placed = copy(report)  # it was checked with the names that it has
    object.__setattr__(placed, "answers", tuple(_placed(answer, i, positions) for i, answer in enumerate(answers)))
    return placed


def _placed(answer: Answer, i: int, positions: Mapping[str, int]) -> Answer:
    """The answer with positions in the public list."""
    found = []
    for side, item in (("left", answer.left), ("right", answer.right)):
        position = positions.get(fold(item)) if isinstance(item, str) else item
        if position is None or not position < len(positions):
            raise fault(f"answers[{i}].{side}", item, f"one of the {len(positions)} items")
        found.append(position)
    return Answer(found[0], found[1], answer.reported)


class _Refused:
    """A JSON number that no field may hold: a fraction, an infinity, NaN, or more digits than any position has."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

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
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, get_args

from psephos._check import Exact, check_choice, exact, excerpt, fold, is_unicode
from psephos._json import json_text
from psephos.errors import DataError, ParameterError
from psephos.local.budget import device_epsilon, epsilon_text

__all__ = [
    "MECHANISMS",
    "OUTCOMES",
    "SCHEMA",
    "UNITS",
    "Answer",
    "Mechanism",
    "Outcome",
    "Report",
    "Unit",
    "parse_report",
    "read_reports",
    "report_line",
    "write_reports",
]

SCHEMA = "psephos.report/1"

#: What may be answered, and what may be reported.
Outcome = Literal["left", "right", "tie"]
#: How answers are randomised.
Mechanism = Literal["binary", "three-outcome"]
#: What a declared epsilon protects.
Unit = Literal["person", "comparison"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
UNITS: tuple[Unit, ...] = get_args(Unit)

#: The longest line, in bytes: what a reader holds in memory.
MAX_LINE = 1 << 22
_MAX_POSITION = 2**31 - 1
_MAX_NUMBER = 200  # characters: more than any epsilon that a device accepts divides or multiplies to
_FIELDS = ("schema", "unit", "epsilon_person", "epsilon_answer", "mechanism", "secure", "answers")
_ANSWER_FIELDS = ("left", "right", "reported")


@dataclass(frozen=True, slots=True)
class Answer:
    """One randomised answer: two items, by 0-based position or by name, and which of them was reported as preferred."""

    left: int | str
    right: int | str
    reported: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that one person's device says.

    Attributes
    ----------
    epsilon
        The declared privacy loss in nats: of the person or of each answer, as ``unit`` says.
    unit
        What that epsilon protects: a ``person`` with all answers, or one ``comparison``.
    mechanism
        ``binary`` or ``three-outcome``.
    secure
        Whether every random bit came from the operating system.
    answers
        The randomised answers, on different pairs.

    Raises
    ------
    ParameterError
        naming the field, its value and the rule.

    >>> answers = (Answer(0, 2, "left"), Answer(1, 2, "left"))
    >>> report = Report(epsilon=Fraction(1), unit="person", mechanism="binary", secure=True, answers=answers)
    >>> report.epsilon_answer
    Fraction(1, 2)
    """

    epsilon: Fraction
    unit: Unit
    mechanism: Mechanism
    secure: bool
    answers: tuple[Answer, ...]

    def __post_init__(self) -> None:
        check_choice(self.unit, "unit", UNITS)
        name = "epsilon_person" if self.unit == "person" else "epsilon_answer"
        object.__setattr__(self, "epsilon", device_epsilon(self.epsilon, name))
        check_choice(self.mechanism, "mechanism", MECHANISMS)
        if not isinstance(self.secure, bool):
            raise _fault("secure", self.secure, "true or false")
        object.__setattr__(self, "answers", tuple(self.answers))
        _check_answers(self.answers, self.mechanism)

    @property
    def epsilon_answer(self) -> Fraction:
        """What each answer spends."""
        return self.epsilon / len(self.answers) if self.unit == "person" else self.epsilon

    @property
    def epsilon_person(self) -> Fraction:
        """What all answers of this record spend together."""
        return self.epsilon if self.unit == "person" else self.epsilon * len(self.answers)


class _Refused:
    """A JSON number that no field may hold: a fraction, an infinity, NaN, or more digits than any position has."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _fault(field: str, value: object, rule: str) -> ParameterError:
    return ParameterError(f"{field} must be {rule}, got {excerpt(value)}")


def _check_answers(answers: Sequence[Answer], mechanism: Mechanism) -> None:
    if not answers:
        raise _fault("answers", [], "a list of at least one answer")
    allowed = OUTCOMES[:2] if mechanism == "binary" else OUTCOMES
    kind = str if isinstance(getattr(answers[0], "left", None), str) else int
    seen: dict[tuple[int | str, int | str], int] = {}
    for i, answer in enumerate(answers):
        if not isinstance(answer, Answer):
            raise _fault(f"answers[{i}]", answer, "an Answer")
        left, right = (
            _key(item, f"answers[{i}].{side}", kind) for side, item in (("left", answer.left), ("right", answer.right))
        )
        if left == right:
            raise _fault(f"answers[{i}].right", answer.right, "another item than left")
        if not isinstance(answer.reported, str) or answer.reported not in allowed:
            raise _fault(f"answers[{i}].reported", answer.reported, f"one of {', '.join(allowed)} ({mechanism})")
        pair = (left, right) if str(left) < str(right) else (right, left)
        first = seen.setdefault(pair, i)
        if first != i:
            got = [answer.left, answer.right]
            raise _fault(f"answers[{i}]", got, f"a pair that the record does not have yet (answers[{first}] has it)")


def _key(item: object, field: str, kind: type) -> int | str:
    """The item as it is compared: a position, or a name after folding."""
    if isinstance(item, str):
        if kind is not str:
            raise _fault(field, item, "a position as in the first answer")
        key = fold(item)
        if not key or not is_unicode(item):
            raise _fault(field, item, "a name that is not blank")
        return key
    if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item <= _MAX_POSITION:
        raise _fault(field, item, f"a name, or a whole number from 0 to {_MAX_POSITION}")
    if kind is str:
        raise _fault(field, item, "a name as in the first answer")
    return item


def report_line(report: Report) -> str:
    """The record as one line of JSON, without its end.

    >>> answers = (Answer("tea", "coffee", "left"),)
    >>> report = Report(epsilon=Fraction(1), unit="person", mechanism="binary", secure=True, answers=answers)
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

    Raises
    ------
    DataError
        naming line, field, value and rule.

    >>> parse_report('{"schema": "psephos.report/2"}', line=3)
    Traceback (most recent call last):
    psephos.errors.DataError: 3: schema must be psephos.report/1, got 'psephos.report/2'
    """
    return _parsed(text, None if items is None else _positions(items), source, line)


def check_most(
    epsilon_person: Fraction, max_epsilon: Exact | None, *, source: str | None = None, line: int | None = None
) -> None:
    """Refuse, by :class:`psephos.errors.DataError`, a report that declares more than a poll allows a person."""
    if max_epsilon is None:
        return
    most = device_epsilon(max_epsilon, "max_epsilon")
    if epsilon_person > most:
        declared = epsilon_text(epsilon_person)
        rule = f"epsilon_person must be at most {epsilon_text(most)}, what the poll allowed, got {declared}"
        raise DataError(rule, source=source, line=line)


def read_reports(
    path: str | PathLike[str], *, items: Sequence[str] | None = None, max_epsilon: Exact | None = None
) -> Iterator[Report]:
    """The reports in a file of JSON Lines, one at a time, in bounded memory. Blank lines are passed over.

    The file may have a byte order mark; lines end with LF or CRLF. ``items`` as in :func:`parse_report`. A line with a
    larger ``epsilon_person`` than ``max_epsilon`` is refused.

    Raises
    ------
    DataError
        at the first line that is no report, naming file, line, field, value and rule.
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
    """Write reports as JSON Lines, UTF-8, and return how many."""
    count = 0
    with Path(fspath(path)).open("w", encoding="utf-8", newline="\n") as stream:
        for report in reports:
            stream.write(report_line(report) + "\n")
            count += 1
    return count


def _positions(items: Sequence[str]) -> dict[str, int]:
    """Folded name -> position."""
    if isinstance(items, str):
        raise _fault("items", items, "a list of names")
    positions: dict[str, int] = {}
    for i, item in enumerate(items):
        key = _key(item, f"items[{i}]", str)
        if positions.setdefault(str(key), i) != i:
            raise _fault(f"items[{i}]", item, "another name than all before, white space apart")
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
        raise _fault("a line", line, f"one JSON object ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise _fault("a line", line, "one JSON object without deep nesting") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for field, value in pairs:
        if field in record:
            raise _fault(field, value, "given once, not again")
        record[field] = value
    return record


def _closed(record: object, fields: tuple[str, ...], where: str) -> dict[str, Any]:
    """``record``, if it is an object with exactly these fields."""
    if not isinstance(record, dict):
        raise _fault(where or "a line", record, "a JSON object")
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
        raise _fault("schema", value["schema"], SCHEMA)
    record = _closed(value, _FIELDS, "")
    person = check_choice(record["unit"], "unit", UNITS) == "person"
    amounts = {}
    for field in ("epsilon_person", "epsilon_answer"):
        text, declared = record[field], field == ("epsilon_person" if person else "epsilon_answer")
        if not isinstance(text, str) or len(text) > _MAX_NUMBER:
            raise _fault(field, text, f"a number as text of at most {_MAX_NUMBER} characters ('0.1', '1/3')")
        amounts[field] = device_epsilon(text, field) if declared else exact(text, field, "an exact number as text")
    if not isinstance(record["answers"], list):
        raise _fault("answers", record["answers"], "a list of at least one answer")
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
        raise _fault(derived, record[derived], how)
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
            raise _fault(f"answers[{i}].{side}", item, f"one of the {len(positions)} items")
        found.append(position)
    return Answer(found[0], found[1], answer.reported)

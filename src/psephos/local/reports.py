"""What one person's device says: randomised answers, how they were randomised, and what that spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from psephos._check import Exact, check_choice, excerpt, fold, is_unicode
from psephos.errors import DataError, ParameterError
from psephos.local.budget import device_epsilon, epsilon_text

__all__ = [
    "MECHANISMS",
    "OUTCOMES",
    "UNITS",
    "Answer",
    "Mechanism",
    "Outcome",
    "Report",
    "Unit",
    "check_most",
    "fault",
    "item_key",
]

#: What may be answered, and what may be reported.
Outcome = Literal["left", "right", "tie"]
#: How answers are randomised.
Mechanism = Literal["binary", "three-outcome"]
#: What a declared epsilon protects.
Unit = Literal["person", "comparison"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
UNITS: tuple[Unit, ...] = get_args(Unit)

_MAX_POSITION = 2**31 - 1


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
            raise fault("secure", self.secure, "true or false")
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


def fault(field: str, value: object, rule: str) -> ParameterError:
    """The error of a field with another value than the rule allows."""
    return ParameterError(f"{field} must be {rule}, got {excerpt(value)}")


def _check_answers(answers: Sequence[Answer], mechanism: Mechanism) -> None:
    if not answers:
        raise fault("answers", [], "a list of at least one answer")
    allowed = OUTCOMES[:2] if mechanism == "binary" else OUTCOMES
    kind = str if isinstance(getattr(answers[0], "left", None), str) else int
    seen: dict[tuple[int | str, int | str], int] = {}
    for i, answer in enumerate(answers):
        if not isinstance(answer, Answer):
            raise fault(f"answers[{i}]", answer, "an Answer")
        left, right = (
            item_key(item, f"answers[{i}].{side}", kind)
            for side, item in (("left", answer.left), ("right", answer.right))
        )
        if left == right:
            raise fault(f"answers[{i}].right", answer.right, "another item than left")
        if not isinstance(answer.reported, str) or answer.reported not in allowed:
            raise fault(f"answers[{i}].reported", answer.reported, f"one of {', '.join(allowed)} ({mechanism})")
        pair = (left, right) if str(left) < str(right) else (right, left)
        first = seen.setdefault(pair, i)
        if first != i:
            got = [answer.left, answer.right]
            raise fault(f"answers[{i}]", got, f"a pair that the record does not have yet (answers[{first}] has it)")


def item_key(item: object, field: str, kind: type) -> int | str:
    """The item as it is compared: a position, or a name after folding."""
    if isinstance(item, str):
        if kind is not str:
            raise fault(field, item, "a position as in the first answer")
        key = fold(item)
        if not key or not is_unicode(item):
            raise fault(field, item, "a name that is not blank")
        return key
    if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item <= _MAX_POSITION:
        raise fault(field, item, f"a name, or a whole number from 0 to {_MAX_POSITION}")
    if kind is str:
        raise fault(field, item, "a name as in the first answer")
    return item


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

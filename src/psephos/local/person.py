"""What one person is asked, and what leaves their device.

The person is protected as a whole by default: a budget epsilon, a public number k of pairs, drawn from the public
list of items without a look at anything the person thinks (or taken from a public assignment), and epsilon/k for each
answer. Every pair is answered, with or without an opinion, so that the whole record is epsilon-differentially private
for the person, under replacement of all answers (docs/proofs/local.md, theorem 6).

With ``unit="comparison"`` epsilon protects one answer, and a person who gives k of them spends k times epsilon. How
many are asked, and which, must be public then too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from psephos._check import Exact, check_choice, check_integer, fold
from psephos.errors import ParameterError, PrivacyWarning
from psephos.local.bits import BitSource, DeviceBits, is_secure, pooled
from psephos.local.budget import best_pairs, device_epsilon, epsilon_text
from psephos.local.randomized_response import check_answer, odds_sentence, randomiser
from psephos.local.reports import MECHANISMS, UNITS, Answer, Mechanism, Outcome, Report, Unit
from psephos.local.samplers import uniform_below

__all__ = [
    "WEAK_EPSILON",
    "Questionnaire",
    "drawn_pairs",
    "drawn_subset",
    "plan_comparisons",
    "plan_person",
    "randomise_answers",
    "warn_if_weak",
]

_SYSTEM = DeviceBits()  # it has no state
#: Odds of half a billion to one: legal, and no protection.
WEAK_EPSILON = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Questionnaire:
    """The questions to one person and what their answers will spend: public facts and chance alone.

    Attributes
    ----------
    items
        The public list of names.
    epsilon
        Privacy loss in nats: of the person or of each answer, as ``unit`` says.
    unit
        What that epsilon protects: a ``person`` with all answers, or one ``comparison``.
    mechanism
        ``binary`` or ``three-outcome``.
    asked
        Pairs (left, right) of 0-based positions in ``items``, all different.
    secure
        Whether the pairs were fixed in advance or drawn with bits of the operating system.
    """

    items: tuple[str, ...]
    epsilon: Fraction
    unit: Unit
    mechanism: Mechanism
    asked: tuple[tuple[int, int], ...]
    secure: bool

    def __post_init__(self) -> None:
        items = _names(self.items)
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "epsilon", device_epsilon(self.epsilon))
        check_choice(self.unit, "unit", UNITS)
        check_choice(self.mechanism, "mechanism", MECHANISMS)
        object.__setattr__(self, "asked", _pairs(self.asked, items, "asked"))
        if not isinstance(self.secure, bool):
            raise ParameterError(f"secure must be True or False, got {self.secure!r}")

    @property
    def epsilon_answer(self) -> Fraction:
        """What each answer spends."""
        return self.epsilon / len(self.asked) if self.unit == "person" else self.epsilon

    @property
    def epsilon_person(self) -> Fraction:
        """What all answers spend together."""
        return self.epsilon if self.unit == "person" else self.epsilon * len(self.asked)

    def questions(self) -> tuple[tuple[str, str], ...]:
        """The pairs by name."""
        return tuple((self.items[left], self.items[right]) for left, right in self.asked)

    def sentence(self) -> str:
        """What a reader of the report may believe, for the person to read before answering."""
        return odds_sentence(self.epsilon, answers=len(self.asked), unit=self.unit, mechanism=self.mechanism)


def plan_person(
    items: Sequence[str],
    *,
    epsilon: Exact,
    pairs: int | None = None,
    assigned: Iterable[tuple[int | str, int | str]] | None = None,
    mechanism: Mechanism = "binary",
    bits: BitSource = _SYSTEM,
) -> Questionnaire:
    """Questions to a person who spends ``epsilon`` in all.

    Parameters
    ----------
    items
        The public list of names, at least two.
    epsilon
        Nats for all answers together, 1e-17 to 800.
    pairs
        How many different pairs to draw, a public number; each set of that many is equally likely, and so is each
        side of an item. By default :func:`psephos.local.best_pairs`, which holds for binary answers.
    assigned
        Instead of a draw: this person's pairs in a public table, by position or name. The table must have been made
        without knowledge of what anyone thinks.
    mechanism
        ``binary``, or ``three-outcome`` (see :func:`psephos.local.three_outcome_tie_share` for when that is better).
    bits
        Random bits; by default those of the operating system.

    Returns
    -------
    Questionnaire
        with ``unit="person"``.

    Raises
    ------
    ParameterError
        naming the parameter, its value and the allowed range.

    >>> questions = plan_person(["tea", "coffee", "milk"], epsilon=6)
    >>> len(questions.asked), questions.epsilon_answer
    (3, Fraction(2, 1))
    """
    names = _names(items)
    total = device_epsilon(epsilon)
    every = math.comb(len(names), 2)
    if assigned is not None:
        if pairs is not None:
            raise ParameterError(f"pairs and assigned must not both be given, got pairs {pairs!r}")
        asked, secure = _pairs(assigned, names, "assigned"), True
    else:
        k = best_pairs(total, most=every) if pairs is None else check_integer(pairs, "pairs", low=1, high=every)
        asked, secure = drawn_pairs(len(names), k, bits), is_secure(bits)
    return _questionnaire(names, total, "person", mechanism, asked, secure)


def plan_comparisons(
    items: Sequence[str],
    asked: Iterable[tuple[int | str, int | str]],
    *,
    epsilon: Exact,
    mechanism: Mechanism = "binary",
) -> Questionnaire:
    """Questions to a person who spends ``epsilon`` on each answer.

    Parameters
    ----------
    items
        The public list of names, at least two.
    asked
        Different pairs, by 0-based position or by name; which are asked is taken to be public.
    epsilon
        Nats for each answer, 1e-17 to 800; ``epsilon_person`` of the result states the total.
    mechanism
        ``binary`` or ``three-outcome``.

    Returns
    -------
    Questionnaire
        with ``unit="comparison"``.

    Raises
    ------
    ParameterError
        naming the parameter, its value and the allowed range.

    >>> plan_comparisons(["tea", "coffee", "milk"], [("tea", "milk"), ("coffee", "tea")], epsilon=1).epsilon_person
    Fraction(2, 1)
    """
    names = _names(items)
    return _questionnaire(names, device_epsilon(epsilon), "comparison", mechanism, _pairs(asked, names, "asked"), True)


def randomise_answers(
    questions: Questionnaire, answers: Sequence[Outcome | None], *, bits: BitSource = _SYSTEM
) -> Report:
    """The report on a person's ``answers`` to ``questions``, one for each pair asked, in that order.

    ``left``, ``right`` or ``tie``; ``None`` where there is no opinion, which a fair coin then answers. A
    questionnaire is for one report: a second one spends the budget again. ``bits`` are by default those of the
    operating system.

    Returns
    -------
    Report

    Raises
    ------
    ParameterError
        for answers that are none, or too few or too many. The message contains no answer.

    >>> drinks = ["tea", "coffee", "milk"]
    >>> questions = plan_person(drinks, epsilon=1, assigned=[("tea", "milk"), ("milk", "coffee")])
    >>> report = randomise_answers(questions, ["left", None])
    >>> len(report.answers), report.epsilon_answer, report.secure
    (2, Fraction(1, 2), True)
    """
    given = list(answers) if isinstance(answers, Sequence) else []
    if isinstance(answers, str) or len(given) != len(questions.asked):
        raise ParameterError(
            f"answers must be one for each of the {len(questions.asked)} pairs asked, got {len(given)}"
        )
    checked = [check_answer(answer, f"answers[{i}]") for i, answer in enumerate(given)]
    draw = randomiser(questions.epsilon_answer, questions.mechanism, pooled(bits))
    return Report(
        epsilon=questions.epsilon,
        unit=questions.unit,
        mechanism=questions.mechanism,
        secure=questions.secure and is_secure(bits),
        answers=tuple(
            Answer(left, right, draw(answer)) for (left, right), answer in zip(questions.asked, checked, strict=True)
        ),
    )


def _questionnaire(
    items: tuple[str, ...],
    epsilon: Fraction,
    unit: Unit,
    mechanism: Mechanism,
    asked: tuple[tuple[int, int], ...],
    secure: bool,
) -> Questionnaire:
    made = Questionnaire(items=items, epsilon=epsilon, unit=unit, mechanism=mechanism, asked=asked, secure=secure)
    warn_if_weak(made.epsilon_person)
    return made


def warn_if_weak(epsilon_person: Fraction) -> None:
    """A :class:`PrivacyWarning` where all answers of a person together spend more than 20."""
    if epsilon_person > WEAK_EPSILON:
        spent = epsilon_text(epsilon_person)
        text = f"epsilon {spent} for a person is so large that it gives practically no protection"
        warnings.warn(PrivacyWarning(text), stacklevel=4)


def _names(items: Sequence[str]) -> tuple[str, ...]:
    names = () if isinstance(items, str) else tuple(items)
    if len(names) < 2 or not all(isinstance(name, str) and name.strip() for name in names):
        raise ParameterError(f"items must be a list of at least two names, got {items!r}")
    if len({fold(name) for name in names}) != len(names):
        raise ParameterError("items must be all different, white space apart")
    return names


def _pairs(
    pairs: Iterable[tuple[int | str, int | str]], items: tuple[str, ...], name: str
) -> tuple[tuple[int, int], ...]:
    """The pairs by position: at least one, of different items, none twice."""
    positions = {item: i for i, item in enumerate(items)}
    found: dict[frozenset[int], tuple[int, int]] = {}
    for i, pair in enumerate(pairs):
        entries = () if isinstance(pair, str) else tuple(pair)
        if len(entries) != 2:
            raise ParameterError(f"{name}[{i}] must be two items, got {pair!r}")
        left, right = (
            positions.get(entry, -1) if isinstance(entry, str) else check_integer(entry, f"{name}[{i}]")
            for entry in entries
        )
        if not (0 <= left < len(items) and 0 <= right < len(items) and left != right):
            raise ParameterError(f"{name}[{i}] must be two different items of the list of {len(items)}, got {pair!r}")
        key = frozenset((left, right))
        if key in found:
            raise ParameterError(f"{name}[{i}] must be a pair that is not there yet, got {pair!r}")
        found[key] = (left, right)
    if not found:
        raise ParameterError(f"{name} must have at least one pair, got none")
    return tuple(found.values())


def drawn_subset(n: int, k: int, bits: BitSource) -> list[int]:
    """A uniform set of k of the numbers 0 to n - 1, in order.

    Floyd's algorithm: for j = n-k, ..., n-1 take a uniform number in [0, j], or j itself if that one is taken. By
    induction the numbers taken after step j are a uniform subset of [0, j].
    """
    taken: set[int] = set()
    source = pooled(bits)
    for j in range(n - k, n):
        number = uniform_below(j + 1, source)
        taken.add(j if number in taken else number)
    return sorted(taken)


def drawn_pairs(m: int, k: int, bits: BitSource) -> tuple[tuple[int, int], ...]:
    """A uniform set of k pairs out of all on m items, in the order of the list, each turned by a fair coin."""
    pairs = []
    for number in drawn_subset(m * (m - 1) // 2, k, bits):
        high = (1 + math.isqrt(8 * number + 1)) // 2  # the pairs (u, high), u < high, start at high (high - 1) / 2
        low = number - high * (high - 1) // 2
        pairs.append((low, high) if bits.bits(1) else (high, low))
    return tuple(pairs)

"""Randomised response: an answer leaves the device only after it may have been changed by chance.

Two mechanisms, each epsilon-differentially private for one answer (replace it by any other):

* ``binary``: the report is ``left`` or ``right``, the true answer with probability ``e^eps / (e^eps + 1)``. A tie is
  answered by a fair coin before that.
* ``three-outcome``: ``left``, ``right`` or ``tie``, the true one with probability ``e^eps / (e^eps + 2)``, each other
  with probability ``1 / (e^eps + 2)``. Better where ties are many: :func:`three_outcome_tie_share`.

**No opinion** is answered by a fair coin between left and right in both. Whoever skipped a question, or asked for
another one, would tell what they know.

Proofs, means and variances: docs/proofs/local.md, sections 2 and 3. Source: Warner (1965); for more outcomes, Kairouz,
Oh and Viswanath (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from psephos._check import Exact, check_choice, check_integer
from psephos.errors import ParameterError
from psephos.local.bits import BitSource, DeviceBits
from psephos.local.budget import device_epsilon, epsilon_text
from psephos.local.reports import MECHANISMS, OUTCOMES, UNITS, Mechanism, Outcome, Unit
from psephos.local.samplers import flip, shift

__all__ = [
    "attenuation",
    "attenuation_at",
    "odds_sentence",
    "randomise",
    "randomiser",
    "three_outcome_tie_share",
    "truth_probability",
]

_SYSTEM = DeviceBits()  # it has no state
_DIGITS = Context(prec=40, Emax=10**6, Emin=-(10**6))


def randomise(
    answer: Outcome | None, *, epsilon: Exact, mechanism: Mechanism = "binary", bits: BitSource = _SYSTEM
) -> Outcome:
    """One answer, randomised.

    Each call spends epsilon anew: several answers of one person add up. :func:`psephos.local.plan_person` and
    :func:`psephos.local.randomise_answers` keep that account.

    Parameters
    ----------
    answer
        ``left``, ``right`` or ``tie``: who is preferred; ``None`` for no opinion.
    epsilon
        Privacy loss in nats, 1e-17 to 800.
    mechanism
        ``binary`` reports left or right, ``three-outcome`` also a tie.
    bits
        Random bits; by default those of the operating system.

    Returns
    -------
    ``left``, ``right`` or ``tie``
        what may leave the device.

    Raises
    ------
    ParameterError
        for a parameter outside its range. The message never contains the answer.

    >>> randomise("left", epsilon=800)
    'left'
    """
    draw = randomiser(device_epsilon(epsilon), check_choice(mechanism, "mechanism", MECHANISMS), bits)
    return draw(check_answer(answer, "answer"))


def check_answer(answer: object, name: str) -> Outcome | None:
    """``answer``, if it is one. An answer is private: the message does not repeat it."""
    for outcome in (*OUTCOMES, None):
        if answer is outcome or (isinstance(answer, str) and answer == outcome):
            return outcome
    raise ParameterError(f"{name} must be one of {', '.join(OUTCOMES)}, or None for no opinion")


def randomiser(epsilon: Fraction, mechanism: Mechanism, bits: BitSource) -> Callable[[Outcome | None], Outcome]:
    """The function that randomises one answer at a rational ``epsilon`` > 0 of any size.

    The coin is drawn for every answer, so that which bits are drawn does not depend on what was answered.
    """
    code = {outcome: i for i, outcome in enumerate(OUTCOMES)}

    def binary(answer: Outcome | None) -> Outcome:
        coin = bits.bits(1)
        value = coin if answer is None or answer == "tie" else code[answer]
        return OUTCOMES[value ^ flip(epsilon, bits)]

    def three_outcome(answer: Outcome | None) -> Outcome:
        coin = bits.bits(1)
        value = coin if answer is None else code[answer]
        return OUTCOMES[(value + shift(epsilon, bits)) % 3]

    return binary if mechanism == "binary" else three_outcome


def truth_probability(epsilon: Exact, *, mechanism: Mechanism = "binary") -> float:
    """The probability that a report is the answer that was given, at ``epsilon`` for that answer.

    ``e^eps / (e^eps + 1)``, with three outcomes (``mechanism="three-outcome"``) ``e^eps / (e^eps + 2)``. Raises
    :class:`psephos.errors.ParameterError` for an epsilon below 1e-17 or above 800 nats, and an unknown mechanism.

    >>> round(truth_probability(1), 4), round(truth_probability(1, mechanism="three-outcome"), 4)
    (0.7311, 0.5761)
    """
    return 1 / (1 + _others(mechanism) * math.exp(-device_epsilon(epsilon)))


def attenuation(epsilon: Exact, *, mechanism: Mechanism = "binary") -> float:
    """The factor by which reports shrink the margin of left over right, at ``epsilon`` for one answer.

    ``(e^eps - 1)/(e^eps + 1) = tanh(eps/2)``, with ``mechanism="three-outcome"`` ``(e^eps - 1)/(e^eps + 2)``. It never
    is 0: about epsilon/2 (epsilon/3) for small epsilon. Raises :class:`psephos.errors.ParameterError` as
    :func:`truth_probability` does.

    >>> round(attenuation(1), 4), attenuation("1e-17")
    (0.4621, 5e-18)
    """
    return attenuation_at(float(device_epsilon(epsilon)), mechanism)


def attenuation_at(epsilon: float, mechanism: Mechanism) -> float:
    """The same for any epsilon > 0: an answer's part of a person's may lie below what a device takes as declared."""
    return -math.expm1(-epsilon) / (1 + _others(mechanism) * math.exp(-epsilon))


def three_outcome_tie_share(epsilon: Exact) -> float:
    """The share of ties above which three outcomes are better than two, at ``epsilon`` for one answer.

    A share above 1 means: never. Raises :class:`psephos.errors.ParameterError` for an epsilon outside 1e-17 to 800.

    >>> [round(three_outcome_tie_share(epsilon), 2) for epsilon in ("0.5", 1, 2)]
    [1.12, 0.46, 0.14]
    """
    x = float(device_epsilon(epsilon))
    small = math.exp(-x)
    return small * (1 + small) / ((1 + 2 * small) * -math.expm1(-x))


def odds_sentence(epsilon: Exact, *, answers: int = 1, unit: Unit = "person", mechanism: Mechanism = "binary") -> str:
    """What a reader of a person's reports may now believe, in words.

    Parameters
    ----------
    epsilon
        In nats: of the whole person (``unit="person"``) or of each answer (``unit="comparison"``).
    answers
        How many answers that person gives, >= 1.
    unit, mechanism
        ``person`` or ``comparison``; ``binary`` or ``three-outcome``.

    Factors are rounded up. Raises :class:`psephos.errors.ParameterError` for a parameter outside its range.

    >>> odds_sentence(1).partition(". ")[0]
    'At epsilon 1, an answer is reported as it was given with probability 73 %'
    """
    declared = device_epsilon(epsilon)
    k = check_integer(answers, "answers", low=1)
    whole = check_choice(unit, "unit", UNITS) == "person"
    each, total = (declared / k, declared) if whole else (declared, declared * k)
    if k == 1:
        start = f"At epsilon {epsilon_text(declared)}"
    elif whole:
        start = f"At epsilon {epsilon_text(total)} for a person, {epsilon_text(each)} for each of {k} answers"
    else:
        start = (
            f"At epsilon {epsilon_text(each)} for each answer, {epsilon_text(total)} for a person who gives {k} answers"
        )
    # exp(-eps) and the probability of a changed answer, by decimals that neither under- nor overflow
    lies = _others(mechanism) * _DIGITS.exp(-_decimal(each))
    changed = _DIGITS.divide(lies, 1 + lies)
    how_often = (
        f" with probability {100 * (1 - changed):.0f} %"
        if changed >= Decimal("0.01")
        else f", except with probability {_plain(f'{changed:.1e}')}"
    )
    coin = (
        "No opinion" if check_choice(mechanism, "mechanism", MECHANISMS) == "three-outcome" else "A tie, or no opinion,"
    )
    told = f"{start}, an answer is reported as it was given{how_often}. {coin} is answered by a coin first."
    believed = "Whatever anyone believed about this person before, and whatever else they know"
    if k == 1:
        return f"{told} {believed}, the report changes the odds by a factor of at most {_factor(total)}."
    return (
        f"{told} {believed}, one report by itself changes the odds by a factor of at most {_factor(each)}, "
        f"and all {k} reports together by a factor of at most {_factor(total)}."
    )


def _others(mechanism: object) -> int:
    """How many reports are not the true one."""
    return 1 if check_choice(mechanism, "mechanism", MECHANISMS) == "binary" else 2


def _decimal(x: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))


def _factor(epsilon: Fraction) -> str:
    """exp(epsilon) rounded up, to three digits, or as 1 + x."""
    if epsilon < Fraction(1, 100):  # e^x - 1 <= x + x^2 for x <= 1
        return f"1 + {_plain(str(_rounded_up(_decimal(epsilon + epsilon**2), 2)))}"
    text = _rounded_up(_DIGITS.exp(_decimal(epsilon)), 3)
    return f"{text:f}" if text < 10**6 else _plain(f"{text:e}")


def _rounded_up(x: Decimal, digits: int) -> Decimal:
    return Context(prec=digits, rounding=ROUND_CEILING, Emax=10**6, Emin=-(10**6)).plus(x)


def _plain(text: str) -> str:
    return text.replace("E", "e").replace("e+", "e")

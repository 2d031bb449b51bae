"""How much one person gives away, and how to divide it.

A person with budget eps who answers k pairs spends eps/k on each. Each answer then carries a share r = tanh(eps/2k) of
its signal, and the variance of a score is in proportion to ``1 / (k tanh^2(eps / 2k))``, which has one minimum in k
(docs/proofs/local.md, theorem 7).
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

from psephos._check import Exact, check_integer, exact, excerpt
from psephos.errors import ParameterError

__all__ = ["EPSILON_HIGH", "EPSILON_LOW", "best_pairs", "device_epsilon", "epsilon_text"]

#: The range of an epsilon that a device accepts.
EPSILON_LOW, EPSILON_HIGH = Fraction(1, 10**17), Fraction(800)

# A float of 17 digits at 1e-17 fits; longer ratios are refused: they would cost time (denial of service).
_MOST_DENOMINATOR = 10**40
_ALLOWED = "a number from 1e-17 to 800 (denominator at most 10**40), as text ('0.1', '1/11'), a rational or a float"
_BEST_HALF = 1.0886594  # the root of sinh(2x) = 4x: the best epsilon for one answer is about twice this


def device_epsilon(value: object, name: str = "epsilon") -> Fraction:
    """``value``, a declared privacy loss in nats, exactly, from 1e-17 to 800; messages call it ``name``.

    Raises
    ------
    ParameterError
        for anything else: zero, negative, NaN, infinite, a boolean, or a ratio of very long numbers.

    >>> device_epsilon("0.1"), device_epsilon("1/11")
    (Fraction(1, 10), Fraction(1, 11))
    """
    epsilon = exact(value, name, _ALLOWED)
    if not EPSILON_LOW <= epsilon <= EPSILON_HIGH or epsilon.denominator > _MOST_DENOMINATOR:
        raise ParameterError(f"{name} must be {_ALLOWED}, got {excerpt(value)}")
    return epsilon


def epsilon_text(epsilon: Fraction) -> str:
    """An ``epsilon`` that :func:`device_epsilon` takes as text that parses back exactly: a decimal, else a ratio.

    Nothing is checked here: :class:`psephos.errors.ParameterError` is raised where an epsilon comes in.

    >>> epsilon_text(Fraction(1, 10)), epsilon_text(Fraction(1, 3)), epsilon_text(Fraction(1, 10**17))
    ('0.1', '1/3', '1e-17')
    """
    if epsilon.denominator == 1:
        return str(epsilon.numerator)
    context = Context(prec=300)  # a decimal with a denominator up to 10**40 has at most 133 places
    decimal = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    return str(decimal).lower() if Fraction(decimal) == epsilon else str(epsilon)


def best_pairs(epsilon: Exact, *, most: int | None = None) -> int:
    """The number k of pairs that one person should answer, out of ``most``, given ``epsilon`` for all of them.

    It minimises ``1 / (k tanh^2(epsilon / 2k))``, the variance of a score up to a factor, between equal items for
    independent answers with two outcomes: 1 up to epsilon 3.06, then about half of epsilon. Between unequal items, with
    three outcomes or where a person's answers hang together, never more (docs/proofs/local.md, theorem 7). Raises
    :class:`psephos.errors.ParameterError` for an epsilon outside 1e-17 to 800 nats, or ``most`` below 1.

    >>> [best_pairs(epsilon) for epsilon in ("0.1", 3, 4, 6)]
    [1, 1, 2, 3]
    """
    total = float(device_epsilon(epsilon))
    limit = None if most is None else check_integer(most, "most", low=1)
    low = max(1, math.floor(total / (2 * _BEST_HALF)))
    best = max((low, low + 1), key=lambda k: k * math.tanh(total / (2 * k)) ** 2)
    return best if limit is None else min(best, limit)

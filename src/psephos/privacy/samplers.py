"""Exact noise: the only place that draws it.

Every sampler has exactly its stated law, given fair bits: integers and rationals throughout, or a uniform
variable refined bit by bit until a certified ball decides (:class:`psephos.privacy.balls.LazyUniform`). No law
passes through a double. The fast path for arrays uses doubles only to decide what they can decide beyond doubt,
and hands everything else to the certified path with the bits it has already drawn.

Sources: Canonne, Kamath and Steinke (2020), algorithms 1-3, for ``bernoulli_exp``, ``discrete_laplace`` and
``discrete_gaussian``.

What an observer of the running time learns is not covered: rejection loops take longer for some values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_integer
from psephos.errors import ParameterError
from psephos.privacy.balls import (
    BallAt,
    LazyUniform,
    discrete_laplace_tail,
    geometric_tail,
    rounded_gaussian_tail,
)
from psephos.privacy.bits import BitSource

__all__ = [
    "FAST_SCALE",
    "bernoulli",
    "bernoulli_exp",
    "bernoulli_logistic",
    "decided_magnitude",
    "discrete_gaussian",
    "discrete_laplace",
    "discrete_laplace_array",
    "exponential_choice",
    "geometric_array",
    "rounded_gaussian",
    "rounded_gaussian_array",
    "uniform_below",
]

#: Scales below this take the fast path of the array samplers.
FAST_SCALE = 2**40

# A double-precision quantile errs by a few units in the last place; the margin allows for 128 of them. The tests
# measure the error against certified balls.
_MARGIN = 2.0**-46


def uniform_below(n: int, bits: BitSource) -> int:
    """A uniform integer in ``[0, n)``. Law: rejection from the smallest power of two >= n.

    >>> from psephos.privacy import SystemBits
    >>> uniform_below(1, SystemBits())
    0
    """
    if n < 1:
        raise ParameterError(f"n must be >= 1, got {n}")
    width = (n - 1).bit_length()
    while True:
        value = bits.bits(width)
        if value < n:
            return value


def bernoulli(p: Fraction, bits: BitSource) -> bool:
    """True with probability ``p``, a rational in [0, 1]."""
    if not 0 <= p <= 1:
        raise ParameterError(f"p must be a rational with 0 <= p <= 1, got {p}")
    return uniform_below(p.denominator, bits) < p.numerator


def bernoulli_exp(x: Fraction, bits: BitSource) -> bool:
    """True with probability ``exp(-x)``, x a rational >= 0.

    For x <= 1: the first k >= 1 with a failure of Bernoulli(x/k) is odd with probability
    ``sum_{j >= 0} (-x)^j / j! = exp(-x)``. For larger x, one factor exp(-1) at a time, leaving at the first failure.
    """
    if not x >= 0:
        raise ParameterError(f"x must be a rational >= 0, got {x}")
    while x > 1:
        if not _bernoulli_exp1(Fraction(1), bits):
            return False
        x -= 1
    return _bernoulli_exp1(x, bits)


def _bernoulli_exp1(x: Fraction, bits: BitSource) -> bool:
    k = 1
    while bernoulli(x / k, bits):
        k += 1
    return k % 2 == 1


def bernoulli_logistic(x: Fraction, bits: BitSource) -> bool:
    """True with probability ``1 / (1 + exp(x))``, x a rational >= 0: the flip of a randomised answer.

    Each round says "keep" with probability 1/2 and else "flip" with probability exp(-x); the first word counts,
    so flip : keep = exp(-x) : 1.
    """
    while True:
        if bits.bits(1):
            return False
        if bernoulli_exp(x, bits):
            return True


def exponential_choice(
    losses: Sequence[Fraction | int], bits: BitSource, *, weights: Sequence[int] | None = None
) -> int:
    """The index i with probability proportional to ``weights[i] * exp(-losses[i])``.

    ``losses`` are rationals of either sign, ``weights`` whole numbers >= 0 that are not all zero (1 each if
    absent). A candidate is drawn by weight and kept with probability exp(-(loss - least loss)), which returns one
    of the best with the first draw that hits it: no overflow and no underflow at any loss.
    """
    masses = [1] * len(losses) if weights is None else [check_integer(w, "weight", low=0) for w in weights]
    if len(masses) != len(losses) or not sum(masses):
        raise ParameterError(
            f"weights must be one a loss and not all zero; got {len(losses)} losses, weights {weights}"
        )
    total = sum(masses)
    least = min(Fraction(x) for x, mass in zip(losses, masses, strict=True) if mass)
    while True:
        ticket = uniform_below(total, bits)
        index = 0
        while ticket >= masses[index]:
            ticket -= masses[index]
            index += 1
        if bernoulli_exp(Fraction(losses[index]) - least, bits):
            return index


def discrete_laplace(scale: Fraction, bits: BitSource) -> int:
    """An integer with ``P(k)`` proportional to ``exp(-|k| / scale)``, scale = t/s a rational > 0.

    A geometric variable X with P(X = x) ~ exp(-x/t) is built from its remainder and quotient by t; ``X // s`` is
    geometric with rate s/t; a sign is added, and (minus, 0) is rejected so that zero counts once.
    """
    _check_scale(scale)
    t, s = scale.numerator, scale.denominator
    while True:
        remainder = uniform_below(t, bits)
        if not _bernoulli_exp1(Fraction(remainder, t), bits):
            continue
        quotient = 0
        while _bernoulli_exp1(Fraction(1), bits):
            quotient += 1
        magnitude = (remainder + t * quotient) // s
        negative = bits.bits(1)
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def discrete_gaussian(sigma_squared: Fraction, bits: BitSource) -> int:
    """An integer with ``P(k)`` proportional to ``exp(-k^2 / (2 sigma_squared))``, a rational > 0.

    Rejection from discrete Laplace of scale t = floor(sigma) + 1 with acceptance
    ``exp(-(|k| - sigma_squared/t)^2 / (2 sigma_squared))``.
    """
    if not sigma_squared > 0:
        raise ParameterError(f"sigma_squared must be a rational > 0, got {sigma_squared}")
    t = math.isqrt(sigma_squared.numerator // sigma_squared.denominator) + 1
    while True:
        k = discrete_laplace(Fraction(t), bits)
        if bernoulli_exp((abs(k) - sigma_squared / t) ** 2 / (2 * sigma_squared), bits):
            return k


def rounded_gaussian(sigma: Fraction, bits: BitSource) -> int:
    """A normal variable of standard deviation ``sigma`` (a rational > 0) rounded to the nearest integer.

    Added to integers it is post-processing of the continuous Gaussian mechanism, whose privacy curve it keeps
    exactly.
    """
    _check_scale(sigma)
    sign = bits.bits(1)
    return _signed(sign, decided_magnitude(LazyUniform(bits), lambda j: rounded_gaussian_tail(sigma, j)))


def discrete_laplace_array(scale: Fraction, size: int, bits: BitSource) -> NDArray[Any]:
    """``size`` independent draws of :func:`discrete_laplace`; int64 for scales below 2**40, else Python integers."""
    _check_scale(scale)
    if scale >= FAST_SCALE:
        return _objects([discrete_laplace(scale, bits) for _ in range(size)])
    return _discrete_laplace_from_words(scale, bits.words(size), bits)


def rounded_gaussian_array(sigma: Fraction, size: int, bits: BitSource) -> NDArray[Any]:
    """``size`` independent draws of :func:`rounded_gaussian`; int64 for sigma below 2**40, else Python integers."""
    _check_scale(sigma)
    if sigma >= FAST_SCALE:
        return _objects([rounded_gaussian(sigma, bits) for _ in range(size)])
    return _rounded_gaussian_from_words(sigma, bits.words(size), bits)


def geometric_array(probability: Fraction, size: int, bits: BitSource) -> NDArray[Any]:
    """``size`` independent numbers of failures before the first success: ``P(X >= j) = (1 - probability)^j``.

    ``probability`` is a rational from 2**-40 to below 1. int64, but for a chance below 2^-2^20 of Python integers.

    >>> from psephos.privacy import SystemBits
    >>> bool(geometric_array(Fraction(1, 2), 100, SystemBits()).min() >= 0)
    True
    """
    if not isinstance(probability, Fraction) or not Fraction(1, FAST_SCALE) <= probability < 1:
        raise ParameterError(f"probability must be a rational (Fraction) >= 2**-40 and < 1, got {probability!r}")
    return _geometric_from_words(probability, bits.words(size), bits)


def _check_scale(scale: Fraction) -> None:
    if not isinstance(scale, Fraction) or not scale > 0:
        raise ParameterError(f"scale must be a rational (Fraction) > 0, got {scale!r}")


# A word of 64 fair bits is a sign (its last bit) and the first 63 bits of a uniform tail probability U:
# |X| is the number of j >= 1 with U < P(|X| >= j). Both laws are symmetric, so this is exact.


def _rounded_gaussian_from_words(sigma: Fraction, words: NDArray[np.uint64], bits: BitSource) -> NDArray[Any]:
    from scipy.special import ndtri

    s = float(sigma)

    def outer(tail: NDArray[np.float64]) -> NDArray[np.float64]:
        # |X| / sigma at tail probability `tail` of the two-sided law, plus 1/2 for the rounding
        return -np.asarray(ndtri(tail / 2), dtype=np.float64)

    return _from_words(words, bits, outer, s, 0.5, lambda j: rounded_gaussian_tail(sigma, j))


def _discrete_laplace_from_words(scale: Fraction, words: NDArray[np.uint64], bits: BitSource) -> NDArray[Any]:
    b = float(scale)
    # P(|X| >= j) = 2 exp(-j/b) / (1 + exp(-1/b)), so |X| = floor(b (c - ln U)) with c = ln(2 / (1 + exp(-1/b))).
    c = math.log(2.0) - math.log1p(math.exp(-1.0 / b)) if b > 1e-3 else math.log(2.0)

    def outer(tail: NDArray[np.float64]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = c - np.log(tail)
        return result

    return _from_words(words, bits, outer, b, 0.0, lambda j: discrete_laplace_tail(scale, j))


def _geometric_from_words(probability: Fraction, words: NDArray[np.uint64], bits: BitSource) -> NDArray[Any]:
    failure = 1 - probability
    # P(|X| >= j) = failure^j, so |X| = floor(ln U / ln failure).
    scale = -1 / math.log1p(-float(probability)) if probability < Fraction(1, 2) else -1 / math.log(float(failure))

    def outer(tail: NDArray[np.float64]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = -np.log(tail)
        return result

    # Minibatches draw millions. For u >= 2^30, U in [u, u + 1] / 2^63 leaves -ln U within 2^-30, and the doubles err by
    # less than the margin: away from integers by more than both, one logarithm decides what the bracket would.
    u = words >> np.uint64(1)
    quantile = outer(np.maximum(u, 1).astype(np.float64) * 2.0**-63) * scale
    values = np.floor(quantile)
    rest = quantile - values
    slack = scale * (2.0**-30 + 46 * _MARGIN)
    open_draws = np.flatnonzero((rest <= slack) | (rest >= 1 - slack) | (u < np.uint64(2**30)))
    values[open_draws] = 0
    whole: NDArray[Any] = values.astype(np.int64)
    if open_draws.size:
        # Its sign is of no interest: the law of |X| is geometric.
        decided = np.abs(_from_words(words[open_draws], bits, outer, scale, 0.0, lambda j: geometric_tail(failure, j)))
        if decided.dtype == object:
            whole = whole.astype(object)
        whole[open_draws] = decided
    return whole


def _from_words(
    words: NDArray[np.uint64],
    bits: BitSource,
    outer: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    scale: float,
    shift: float,
    tail: Callable[[int], BallAt],
) -> NDArray[Any]:
    """Draws from words: doubles where a bracket of the quantile lies between two integers, balls elsewhere."""
    u = words >> np.uint64(1)
    negative = (words & np.uint64(1)).astype(bool)
    with np.errstate(divide="ignore", over="ignore"):
        # U lies in [u, u + 1] / 2**63, and the quantile falls in U.
        high = outer(u.astype(np.float64) * 2.0**-63)
        low = outer((u + np.uint64(1)).astype(np.float64) * 2.0**-63)
        first = np.floor(scale * (low - (np.abs(low) + 1) * _MARGIN) + shift)
        last = np.floor(scale * (high + (np.abs(high) + 1) * _MARGIN) + shift)
    first = np.maximum(first, 0.0)
    magnitude = np.where(first == last, first, 0.0).astype(np.int64)
    values = np.where(negative, -magnitude, magnitude)
    open_draws = np.flatnonzero(first != last)
    if not open_draws.size:
        return values
    decided = [
        _signed(int(negative[i]), decided_magnitude(LazyUniform(bits, u=int(u[i]), b=63), tail, int(first[i])))
        for i in open_draws.tolist()
    ]
    if max(abs(value) for value in decided) >= 2**62:  # beyond any chance, and still no wrap-around
        values = values.astype(object)
    values[open_draws] = decided
    return values


def decided_magnitude(u: LazyUniform, tail: Callable[[int], BallAt], guess: int = 0) -> int:
    """The number of j >= 1 with U < tail(j), for a decreasing tail: steps doubling from ``guess``, then bisection."""
    low, high = guess, guess + 1  # invariant at the end: U < tail(low) or low = 0, and not U < tail(high)
    step = 1
    if low and not u.below(tail(low)):
        while low and not u.below(tail(low)):
            low, high, step = max(low - step, 0), low, 2 * step
    else:
        while u.below(tail(high)):
            low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if u.below(tail(middle)):
            low = middle
        else:
            high = middle
    return low


def _signed(negative: int, magnitude: int) -> int:
    return -magnitude if negative else magnitude


def _objects(values: list[int]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array

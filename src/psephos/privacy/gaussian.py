"""The exact privacy curve of the Gaussian mechanism.

A mechanism that adds ``N(0, sigma^2 I)`` to a query of l2 sensitivity ``Delta`` is exactly mu-Gaussian-DP with
``mu = Delta / sigma``: it satisfies (epsilon, delta) if and only if

    delta >= Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu).

Valid for every epsilon >= 0; the textbook formula sqrt(2 ln(1.25/delta))/epsilon is neither tight nor valid above
epsilon = 1 and is used nowhere. Composition is exact too: mechanisms with mu_1, ..., mu_k make one with
``mu^2 = sum mu_i^2``. Source: Dong, Roth and Su, "Gaussian differential privacy", Corollary 2.13 and 3.3; Balle and
Wang (2018), Theorem 8.

The curve is evaluated in certified balls, so the bounds below are bounds, not estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

from psephos._check import Exact, nonnegative, positive
from psephos.errors import ParameterError
from psephos.privacy.balls import MAX_PRECISION, gaussian_delta_at_most, gaussian_delta_ball, sqrt_upper

__all__ = ["compose_mu_upper", "delta_upper", "epsilon_upper", "gaussian_epsilon_upper", "mu_lower"]

_LARGE_MU = 10**6
_BITS = 48  # relative width of a bisection's final bracket: 2**-48
# mu is calibrated this much below its limit, so that re-accounting, itself rounded up, stays below the target.
_SLACK = 1 - Fraction(1, 2**40)


def _bisect(feasible: Callable[[Fraction], bool], start: Fraction) -> tuple[Fraction, Fraction]:
    """(last feasible, first infeasible) for a property that holds below a threshold on (0, inf).

    Brackets by powers of two, whose exponents are bisected too, so a threshold of 1e-300 is found as quickly as one of
    1; then bisects to a relative width of 2**-48. The bracket grows by itself.
    """
    sign = 1 if feasible(start) else -1

    def before(step: int) -> bool:
        """Whether the threshold lies further from the start than this many doublings, or halvings."""
        return feasible(start * Fraction(2) ** (sign * step)) == (sign == 1)

    near, far = 0, 1
    while before(far):
        near, far = far, far * 2
    while far - near > 1:
        step = (near + far) // 2
        near, far = (step, far) if before(step) else (near, step)
    low, high = sorted(start * Fraction(2) ** (sign * step) for step in (near, far))
    for _ in range(_BITS):
        middle = (low + high) / 2
        if feasible(middle):
            low = middle
        else:
            high = middle
    return low, high


def _delta(value: object) -> Fraction:
    """A delta of any size: it may be a part of the one that a user gave."""
    delta = nonnegative(value, "delta")
    if not delta < 1:
        raise ParameterError(f"delta must be a number >= 0 and < 1, got {value!r}")
    return delta


def mu_lower(epsilon: Exact, delta: Exact) -> Fraction:
    """The largest mu (within a relative 2**-39 of it, below) whose curve stays within (epsilon, delta).

    Parameters
    ----------
    epsilon
        Nats, > 0 or 0.
    delta
        0 < delta < 1: a Gaussian is never pure.

    >>> round(float(mu_lower(1, "1e-6")), 4)
    0.2367
    """
    eps, dlt = nonnegative(epsilon, "epsilon"), _delta(delta)
    if dlt == 0:
        raise ParameterError("delta must be > 0 for Gaussian noise, which is never pure, got 0")
    return _mu_lower(eps, dlt)


@lru_cache(maxsize=1024)
def _mu_lower(epsilon: Fraction, delta: Fraction) -> Fraction:
    low, _ = _bisect(lambda mu: gaussian_delta_at_most(epsilon, mu, delta), Fraction(1))
    return low * _SLACK


def epsilon_upper(mu: Exact, delta: Exact) -> Fraction:
    """The least epsilon >= 0 (within a relative 2**-48 of it, above) at which the curve of ``mu`` is within ``delta``.

    >>> round(float(epsilon_upper(1, "1e-5")), 6)
    4.377178
    """
    value, dlt = nonnegative(mu, "mu"), _delta(delta)
    if value == 0:
        return Fraction(0)
    if dlt == 0:
        raise ParameterError("delta must be > 0 for Gaussian noise, which is never pure, got 0")
    if gaussian_delta_at_most(Fraction(0), value, dlt):
        return Fraction(0)
    if value > _LARGE_MU:
        # The first term of the curve alone is an upper bound, and Phi(-z) <= exp(-z^2 / 2); here that costs at most
        # a relative 2 z / mu. ln(1/delta) <= ln 2 times the difference of bit lengths, plus one.
        bits = dlt.denominator.bit_length() - dlt.numerator.bit_length() + 1
        return value**2 / 2 + value * sqrt_upper(2 * bits * Fraction(7, 10))
    _, high = _bisect(lambda epsilon: not gaussian_delta_at_most(epsilon, value, dlt), Fraction(1))
    return high


def delta_upper(mu: Exact, epsilon: Exact) -> float:
    """The curve of ``mu`` at ``epsilon``, rounded up.

    >>> round(delta_upper(1, 0), 6)
    0.382925
    """
    value, eps = positive(mu, "mu"), nonnegative(epsilon, "epsilon")
    precision = 128
    while True:
        curve = gaussian_delta_ball(eps, value, precision)
        if curve.rel_accuracy_bits() > 60 or precision > MAX_PRECISION:
            return math.nextafter(float(curve.upper()), math.inf)
        precision *= 2


def compose_mu_upper(mus: Iterable[Exact]) -> Fraction:
    """The mu of several Gaussian mechanisms together: the square root of the sum of squares, rounded up.

    >>> float(compose_mu_upper([3, 4]))
    5.0
    """
    return sqrt_upper(sum((nonnegative(mu, "mu") ** 2 for mu in mus), Fraction(0)))


def gaussian_epsilon_upper(sigma: float | Exact, *, sensitivity: Exact, delta: Exact) -> Fraction | float:
    """epsilon at ``delta`` of Gaussian noise of standard deviation ``sigma`` on a query of l2 ``sensitivity``.

    ``sigma`` may be any number >= 0 but NaN: no noise gives ``inf`` (which no budget accepts), infinite noise 0.

    >>> round(float(gaussian_epsilon_upper(1, sensitivity=2, delta="1e-5")), 6)
    9.997256
    """
    distance = positive(sensitivity, "sensitivity")
    if isinstance(sigma, float) and sigma == math.inf:
        return Fraction(0)
    noise = nonnegative(sigma, "sigma")
    return math.inf if noise == 0 else epsilon_upper(distance / noise, delta)

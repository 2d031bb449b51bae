"""How much noise a guarantee needs: exact for Laplace, the exact Gaussian curve for Gaussian.

Rounding is always towards more noise, so re-accounting a calibrated scale never exceeds its target. Any epsilon > 0 and
any delta will do: those of a user have limits (:mod:`psephos._check`), and parts of them may be smaller.
"""

from __future__ import annotations

from fractions import Fraction

from psephos._check import Exact, positive
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.gaussian import mu_lower

__all__ = ["gaussian_sigma", "laplace_scale"]


def gaussian_sigma(epsilon: Exact, delta: Exact, *, sensitivity_squared: Exact) -> Fraction:
    """The least standard deviation (rounded up to 53 bits) of Gaussian noise that is (epsilon, delta)-DP.

    ``sensitivity_squared`` is the squared l2 sensitivity, a rational where the sensitivity itself is none.

    >>> round(float(gaussian_sigma(1, "1e-6", sensitivity_squared=4)), 3)
    8.449
    """
    mu = mu_lower(positive(epsilon, "epsilon"), delta)
    return sqrt_upper(positive(sensitivity_squared, "sensitivity_squared") / mu**2)


def laplace_scale(epsilon: Exact, *, sensitivity: Exact) -> Fraction:
    """The scale ``b = sensitivity / epsilon`` of (discrete) Laplace noise that is exactly epsilon-DP.

    ``sensitivity`` is in the l1 norm. For noise ``P(k) ~ exp(-|k|/b)`` on integers, the ratio of probabilities of
    one output under two tables at l1 distance s is at most ``exp(s/b)``.

    >>> laplace_scale("0.1", sensitivity=2)
    Fraction(20, 1)
    """
    return positive(sensitivity, "sensitivity") / positive(epsilon, "epsilon")

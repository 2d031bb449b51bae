"""Margins under the Gaussian mechanism: (epsilon, delta), delta > 0.

Releases ``W[u, v] + Z[u, v]`` for u < v, with Z independent normal noise of standard deviation

    sigma = Delta / mu,    Delta = l2 sensitivity of the margins (2 sqrt D for ballots),

rounded to integers, where mu is the exact Gaussian-DP parameter of (epsilon, delta).

**Proof.** By :mod:`psephos.central.margin_sensitivity` one unit moves the integer table by at most Delta in the l2
norm, so adding continuous noise is exactly mu-Gaussian-DP. As W is an integer table, ``W + round(Z) = round(W + Z)``:
rounding is post-processing and the curve is kept. The support is the grid of integers whatever the ballots are, so
a tie leaves no trace in it. Source: Dong, Roth and Su, "Gaussian differential privacy", Theorem 2.7.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.central.noisy_table import add_noise
from psephos.pairwise.estimate import NoiseLaw
from psephos.privacy.bits import BitSource
from psephos.privacy.calibrate import gaussian_sigma
from psephos.privacy.events import RoundedGaussianEvent
from psephos.privacy.samplers import rounded_gaussian_array

__all__ = ["gaussian_law", "gaussian_margins"]


def gaussian_law(sensitivity: MarginSensitivity, *, epsilon: Fraction, delta: Fraction) -> NoiseLaw:
    """The law of the noise on each margin; reads no data."""
    sigma = gaussian_sigma(epsilon, delta, sensitivity_squared=sensitivity.l2_squared)
    return NoiseLaw(family="rounded-gaussian", scale=sigma)


def gaussian_margins(
    margins: NDArray[Any], law: NoiseLaw, *, sensitivity: MarginSensitivity, bits: BitSource
) -> tuple[NDArray[Any], RoundedGaussianEvent]:
    """The noisy table, antisymmetric like ``margins``, and what ran."""
    noisy = add_noise(margins, lambda n: rounded_gaussian_array(law.scale, n, bits))
    return noisy, RoundedGaussianEvent(sigma=law.scale, sensitivity_squared=sensitivity.l2_squared)

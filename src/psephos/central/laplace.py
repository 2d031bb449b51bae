"""Margins under the discrete Laplace mechanism: pure epsilon.

Releases ``W[u, v] + Z[u, v]`` for u < v, with Z independent and ``P(Z = k) ~ exp(-|k| / b)``,

    b = Delta / epsilon,    Delta = l1 sensitivity of the margins (2 D for ballots),

a rational when epsilon is one, so the law is exact.

**Proof.** The probability of a table T is proportional to ``exp(-||T - W||_1 / b)``. By
:mod:`psephos.central.margin_sensitivity` one unit moves W by at most Delta in the l1 norm, so by the triangle
inequality every output's probability changes by a factor of at most ``exp(Delta / b) = exp(epsilon)``. The support
is all integer tables whatever the ballots are. Source: Ghosh,
Roughgarden and Sundararajan (2009), in several dimensions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.central.noisy_table import add_noise
from psephos.pairwise.estimate import NoiseLaw
from psephos.privacy.bits import BitSource
from psephos.privacy.calibrate import laplace_scale
from psephos.privacy.events import DiscreteLaplaceEvent
from psephos.privacy.samplers import discrete_laplace_array

__all__ = ["laplace_law", "laplace_margins"]


def laplace_law(sensitivity: MarginSensitivity, *, epsilon: Fraction) -> NoiseLaw:
    """The law of the noise on each margin; reads no data."""
    return NoiseLaw(family="discrete-laplace", scale=laplace_scale(epsilon, sensitivity=sensitivity.l1))


def laplace_margins(
    margins: NDArray[Any], law: NoiseLaw, *, sensitivity: MarginSensitivity, bits: BitSource
) -> tuple[NDArray[Any], DiscreteLaplaceEvent]:
    """The noisy table, antisymmetric like ``margins``, and what ran."""
    noisy = add_noise(margins, lambda n: discrete_laplace_array(law.scale, n, bits))
    return noisy, DiscreteLaplaceEvent(scale=law.scale, sensitivity=sensitivity.l1)

"""Borda scores: only the row sums of the margins are released. Ballots only; pure or (epsilon, delta).

With ``r_u = sum_v W[u, v]`` the row sums (Borda scores, centred), releases ``r_u + Z_u``, Z independent and integer:
rounded normal or discrete Laplace noise, whichever has less variance under the guarantee (Laplace if delta is 0).
The estimated margins are ``(r_u - r_v) / m``: the part of W that scores can express. A consensus of them is the order
of the noisy scores; what is lost are cycles and all else that no score expresses.

**Sensitivity.** A strict ballot gives the items the scores m-1, m-3, ..., 1-m in its own order. A weak or truncated one
averages two strict ballots with every tie broken in opposite ways (under ``missing``: one with the unranked items on
top, one with them at the bottom, in opposite orders). So a ballot's score vector lies in the convex hull P of the
permutations of (m-1, ..., 1-m), and replacing one person moves r by the difference of two points of P. Norms are
convex, so the maximum is at two permutations p, q, where by the triangle inequality

    |p - q|_1 <= |p|_1 + |q|_1 = 2 floor(m^2 / 2),        |p - q|_2^2 <= 4 |p|_2^2 = 4 m (m^2 - 1) / 3,

both attained by a ballot and its reverse. (The scores of any answers in [-1, 1], cyclic ones too, lie in P by Landau's
and Rado's theorems. Comparisons are refused because the bound does not use the cap on one person's pairs, and is far
too large for few of them.)
Post-processing of rounded normal noise keeps the Gaussian privacy curve, as in :mod:`psephos.central.gaussian`.
Source: Landau (1953) for score vectors; the tests enumerate all ballots for m = 3 and 4.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.central.noisy_table import noisy_row_sums
from psephos.pairwise.estimate import NoiseLaw, PartedNoise
from psephos.privacy.bits import BitSource
from psephos.privacy.calibrate import gaussian_sigma, laplace_scale
from psephos.privacy.events import DiscreteLaplaceEvent, RoundedGaussianEvent
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array

__all__ = ["borda_law", "borda_margins", "borda_noise", "row_sum_sensitivity", "score_margins"]


def row_sum_sensitivity(m: int) -> MarginSensitivity:
    """How far one ballot can move the row sums of the margins (see the module for the proof).

    >>> row_sum_sensitivity(4)
    MarginSensitivity(l1=Fraction(16, 1), l2_squared=Fraction(80, 1))
    """
    return MarginSensitivity(l1=Fraction(max(2 * (m * m // 2), 1)), l2_squared=Fraction(max(4 * m * (m * m - 1), 1), 3))


def score_margins(scores: NDArray[Any]) -> NDArray[Any]:
    """The margins ``(r_u - r_v) / m`` of row sums r, as fractions."""
    m = len(scores)
    table = np.empty((m, m), dtype=object)
    for u in range(m):
        for v in range(m):
            table[u, v] = Fraction(int(scores[u]) - int(scores[v]), m)
    return table


def borda_law(m: int, *, epsilon: Fraction, delta: Fraction) -> NoiseLaw:
    """The law of the noise on each row sum; reads no data."""
    sensitivity = row_sum_sensitivity(m)
    laws = [NoiseLaw(family="discrete-laplace", scale=laplace_scale(epsilon, sensitivity=sensitivity.l1))]
    if delta:
        sigma = gaussian_sigma(epsilon, delta, sensitivity_squared=sensitivity.l2_squared)
        laws.append(NoiseLaw(family="rounded-gaussian", scale=sigma))
    return min(laws, key=lambda law: law.sd)


def borda_noise(m: int, law: NoiseLaw) -> PartedNoise:
    """What ``law`` on the row sums means for margins: variance ``law.variance / m`` on the gradient part."""
    return PartedNoise(m=m, gradient=law.exact_variance / m, cyclic=None)


def borda_margins(
    margins: NDArray[Any], law: NoiseLaw, *, bits: BitSource
) -> tuple[NDArray[Any], RoundedGaussianEvent | DiscreteLaplaceEvent]:
    """The margins of the noisy row sums, and what ran."""
    m = margins.shape[0]
    sensitivity = row_sum_sensitivity(m)
    gaussian = law.family == "rounded-gaussian"
    sampler = rounded_gaussian_array if gaussian else discrete_laplace_array
    table = score_margins(noisy_row_sums(margins, lambda n: sampler(law.scale, n, bits)))
    if gaussian:
        return table, RoundedGaussianEvent(sigma=law.scale, sensitivity_squared=sensitivity.l2_squared)
    return table, DiscreteLaplaceEvent(scale=law.scale, sensitivity=sensitivity.l1)

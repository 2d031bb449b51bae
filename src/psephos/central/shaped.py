"""Margins with less noise on scores than on cycles: (epsilon, delta), delta > 0. Ballots only.

Split a table into its gradient part ``G[u, v] = (r_u - r_v) / m`` (r the row sums) and its cyclic rest ``C = W - G``.
Noise of variance a on the gradient part and b >= a on the cyclic part is what a release of the margins with rounded
N(0, b), together with one of the row sums with rounded N(0, m b'), 1/b' = 1/a - 1/b, gives after the two gradient
estimates are averaged by inverse variance: a/b of the first and 1 - a/b of the second.

**Privacy.** Both are Gaussian releases of integers, of squared l2 sensitivity 4D
(:mod:`psephos.central.margin_sensitivity`) and 4 m (m^2 - 1)/3 (:mod:`psephos.central.borda`), so together they are
mu-Gaussian-DP with

    mu^2 = 4 D / b + 4 (m^2 - 1) / (3 b') = Gam / a + Cyc / b,    Gam = 4 (m^2 - 1)/3,  Cyc = 4 (m - 1)(m - 2)/6,

and one reversed ballot attains both, so nothing is lost by composing. ``share`` of mu^2 is spent on the gradient part:
``a = Gam / (share mu^2)``, ``b = Cyc / ((1 - share) mu^2)``. a < b is required (share > Gam / (Gam + Cyc), the share
at which the noise would be that of ``gaussian``). Comparisons are
refused: this noise follows all pairs, and not the cap on those of one person.
Source: Dong, Roth and Su, Corollary 3.3 (composition).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.central.borda import row_sum_sensitivity
from psephos.central.margin_sensitivity import margin_sensitivity
from psephos.central.noisy_table import add_noise, noisy_row_sums, row_sums
from psephos.errors import ParameterError
from psephos.pairwise.estimate import PartedNoise
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.bits import BitSource
from psephos.privacy.events import ComposedGaussianEvent, RoundedGaussianEvent
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.samplers import rounded_gaussian_array

__all__ = ["SHARE", "ShapedScales", "shaped_margins", "shaped_noise", "shaped_scales"]

#: How much of mu^2 the gradient part gets. On real rankings of ten items it comes within a sixth of releasing scores
#: alone at small budgets and still shows cycles at large ones (benchmarks/accuracy.py).
SHARE = Fraction(9, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedScales:
    """Standard deviations before rounding: of the noise on each margin, and of that on each row sum."""

    margin: Fraction
    row_sum: Fraction


def shaped_scales(m: int, *, epsilon: Fraction, delta: Fraction, share: Fraction = SHARE) -> ShapedScales:
    """The two noise scales, rounded up; reads no data. Needs m >= 3 (two items have no cyclic part)."""
    if m < 3:
        raise ParameterError(f"mechanism shaped needs at least 3 items, got {m}")
    gradient, cyclic = Fraction(4 * (m * m - 1), 3), Fraction(4 * (m - 1) * (m - 2), 6)
    if not gradient / (gradient + cyclic) < share < 1:
        raise ParameterError(f"share must be > {float(gradient / (gradient + cyclic)):.3g} and < 1, got {share}")
    mu_squared = mu_lower(epsilon, delta) ** 2
    a, b = gradient / (share * mu_squared), cyclic / ((1 - share) * mu_squared)
    return ShapedScales(margin=sqrt_upper(b), row_sum=sqrt_upper(m / (1 / a - 1 / b)))


def shaped_noise(m: int, scales: ShapedScales) -> PartedNoise:
    """The variances a and b that the combined table has (rounding to integers adds 1/12 to each square)."""
    b = scales.margin**2 + Fraction(1, 12)
    extra = (scales.row_sum**2 + Fraction(1, 12)) / m
    return PartedNoise(m=m, gradient=1 / (1 / b + 1 / extra), cyclic=b)


def shaped_margins(
    margins: NDArray[Any], scales: ShapedScales, *, bits: BitSource
) -> tuple[NDArray[Any], ComposedGaussianEvent]:
    """The combined table, as fractions, and what ran."""
    m = margins.shape[0]
    noisy = add_noise(margins, lambda n: rounded_gaussian_array(scales.margin, n, bits))
    sums = noisy_row_sums(margins, lambda n: rounded_gaussian_array(scales.row_sum, n, bits))
    # From here on: the two released tables alone.
    law = shaped_noise(m, scales)
    own = row_sums(noisy)
    kept = law.gradient / law.cyclic_variance  # a / b, the weight of the margins' own row sums
    table = np.full((m, m), Fraction(0), dtype=object)
    for u in range(m):
        for v in range(u + 1, m):
            first, second = Fraction(own[u] - own[v], m), Fraction(sums[u] - sums[v], m)
            table[u, v] = int(noisy[u, v]) + (1 - kept) * (second - first)
            table[v, u] = -table[u, v]
    pairs = margin_sensitivity(m, "person")
    return table, ComposedGaussianEvent(
        parts=(
            RoundedGaussianEvent(sigma=scales.margin, sensitivity_squared=pairs.l2_squared),
            RoundedGaussianEvent(sigma=scales.row_sum, sensitivity_squared=row_sum_sensitivity(m).l2_squared),
        )
    )

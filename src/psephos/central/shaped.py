"""Margins with less noise on scores than on cycles: (epsilon, delta), delta > 0.

Split a table into its gradient part ``G[u, v] = (r_u - r_v) / m`` (r the row sums) and its cyclic rest ``C = W - G``.
Noise of variance a on the gradient part and b > a on the cyclic part is what a release of the margins with rounded
N(0, b), together with one of the row sums with rounded N(0, m b'), 1/b' = 1/a - 1/b, gives after the two gradient
estimates are averaged by inverse variance: a/b of the first and 1 - a/b of the second.

**Privacy.** Both are Gaussian releases of integers, of squared l2 sensitivity S
(:mod:`psephos.central.margin_sensitivity`) and R (:mod:`psephos.central.borda`), so together they are mu-Gaussian-DP
with

    mu^2 = S / b + R / (m b') = Gam / a + Cyc / b,    Gam = R / m,  Cyc = S - R / m.

For ballots S = 4 D, Gam = 4 (m^2 - 1)/3 and Cyc = 4 (m - 1)(m - 2)/6, and one reversed ballot attains S and R at once,
so nothing is lost by composing. ``share`` of mu^2 is spent on the gradient part: ``a = Gam / (share mu^2)``,
``b = Cyc / ((1 - share) mu^2)``. a < b is required (share > Gam / S, the share at which the noise would be that of
``gaussian``), and not for convenience: for a > b the bound is false for answers that are not transitive, since a
three-cycle reversed moves C by more than any ballot can. For comparisons on k pairs a person, with
m - 1 <= k <= (m^2 - 1)/3, Cyc is 0: scores alone cost what all margins do, and the mechanism has nothing to shape.
Source: Dong, Roth and Su, Corollary 3.3 (composition).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from psephos.central.borda import check_something_to_gain
from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.central.noisy_table import add_noise, averaged_variance, better_half, noisy_row_sums, with_row_sums
from psephos.errors import ParameterError
from psephos.pairwise.estimate import PartedNoise
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.bits import BitSource
from psephos.privacy.events import ComposedGaussianEvent, RoundedGaussianEvent
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.samplers import rounded_gaussian_array

__all__ = ["SHARE", "ShapedScales", "shaped_margins", "shaped_noise", "shaped_scales"]

#: How much of mu^2 the gradient part gets: within about a tenth of releasing scores alone at small budgets, and still
#: showing cycles at large ones (docs/accuracy.md).
SHARE = Fraction(9, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedScales:
    """Standard deviations before rounding: of the noise on each margin, and of that on each row sum."""

    margin: Fraction
    row_sum: Fraction


def shaped_scales(
    m: int,
    *,
    margins: MarginSensitivity,
    rows: MarginSensitivity,
    epsilon: Fraction,
    delta: Fraction,
    share: Fraction | None = None,
) -> ShapedScales:
    """The two noise scales, rounded up; reads no data.

    ``margins`` and ``rows`` are the sensitivities of the two releases. ``share`` is :data:`SHARE` if absent, or half
    way from the least possible one to 1 where that is more.

    Raises
    ------
    ParameterError
        if there is no cyclic part to shape, or for a share that would put less noise on it.
    """
    gradient = rows.l2_squared / m
    cyclic = margins.l2_squared - gradient
    check_something_to_gain("shaped", m, margins, rows)
    least = gradient / margins.l2_squared
    if share is None:
        share = SHARE if least < SHARE else (1 + least) / 2
    if not least < share < 1:
        raise ParameterError(
            f"mechanism shaped spends a share > {float(least):.3g} and < 1 of the budget on scores here, got {share}"
        )
    mu_squared = mu_lower(epsilon, delta) ** 2
    a, b = gradient / (share * mu_squared), cyclic / ((1 - share) * mu_squared)
    return ShapedScales(margin=sqrt_upper(b), row_sum=sqrt_upper(m / (1 / a - 1 / b)))


def shaped_noise(m: int, scales: ShapedScales) -> PartedNoise:
    """The variances a and b that the combined table has (rounding to integers adds 1/12 to each square)."""
    b, extra = _variances(m, scales)
    return PartedNoise(m=m, gradient=averaged_variance(b, extra, weight=better_half(b, extra)), cyclic=b)


def _variances(m: int, scales: ShapedScales) -> tuple[Fraction, Fraction]:
    """Of the margins, and of the gradient part that the row sums give."""
    return scales.margin**2 + Fraction(1, 12), (scales.row_sum**2 + Fraction(1, 12)) / m


def shaped_margins(
    table: NDArray[Any],
    scales: ShapedScales,
    *,
    margins: MarginSensitivity,
    rows: MarginSensitivity,
    bits: BitSource,
) -> tuple[NDArray[Any], ComposedGaussianEvent]:
    """The combined table, as fractions, and what ran."""
    noisy = add_noise(table, lambda n: rounded_gaussian_array(scales.margin, n, bits))
    sums = noisy_row_sums(table, lambda n: rounded_gaussian_array(scales.row_sum, n, bits))
    weight = better_half(*_variances(table.shape[0], scales))
    return with_row_sums(noisy, sums, weight=weight), ComposedGaussianEvent(
        parts=(
            RoundedGaussianEvent(sigma=scales.margin, sensitivity_squared=margins.l2_squared),
            RoundedGaussianEvent(sigma=scales.row_sum, sensitivity_squared=rows.l2_squared),
        )
    )

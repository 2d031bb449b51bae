"""Look with a tenth of the budget, then spend the rest where it helps: (epsilon, delta), delta > 0.

Scores alone (``borda``) are measured with less noise than the scores of noisy margins (``gaussian``) have, two thirds
of the variance for many items, and cannot express cycles; which of the two is better depends on the data. So:

1. **Look.** The margins are released with rounded normal noise under a tenth of mu^2.
2. **Decide**, on that release and public facts alone. Its part that is no Bradley-Terry table (for comparisons: its
   cyclic part, :func:`model_part <psephos.central.post_processing.model_part>`) has squared size q over the D pairs,
   about ``dof v`` if all of it is noise of variance v, dof = D - (m - 1). If

       (q / v - dof) / sqrt(2 dof) > 2,

   there is something that scores do not say.
3. **Measure.** The rest of mu^2 goes to the margins again if there is, else to the row sums.
4. The two releases are averaged by inverse variance. If both are margins, the outcome has exactly the noise of
   ``gaussian``; if not, the scores have ``.9 + (m + 1) / (15 m)`` of the precision of ``borda``'s, for ballots: 99 % at
   m = 3, 97 % for large m.

**Privacy.** The first release is mu_1-Gaussian-DP. Whatever it shows, the second is mu_2-Gaussian-DP: row sums and
margins are each calibrated to the same mu_2. By adaptive composition (Dong, Roth and Su, Theorem 3.2 and Corollary 3.3)
the pair is Gaussian-DP with ``mu^2 = mu_1^2 + mu_2^2``; the choice is a function of the first release.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from psephos.central.borda import check_something_to_gain
from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.central.noisy_table import add_noise, averaged_variance, better_half, noisy_row_sums, with_row_sums
from psephos.central.post_processing import surplus
from psephos.pairwise.estimate import NoiseLaw, PairwiseEstimate, PartedNoise
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.bits import BitSource
from psephos.privacy.events import ComposedGaussianEvent, RoundedGaussianEvent
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.samplers import rounded_gaussian_array

__all__ = ["LOOK", "ProbeScales", "probe_margins", "probe_scales"]

#: The share of mu^2 that the first release gets (docs/accuracy.md).
LOOK = Fraction(1, 10)
_SURPRISE = 2.0  # standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeScales:
    """Standard deviations before rounding: of the first look, and of the margins or the row sums measured after it."""

    look: Fraction
    margin: Fraction
    row_sum: Fraction


def probe_scales(
    m: int, *, margins: MarginSensitivity, rows: MarginSensitivity, epsilon: Fraction, delta: Fraction
) -> ProbeScales:
    """The noise scales, rounded up; reads no data.

    Raises
    ------
    ParameterError
        if scores alone would not be any cheaper, so that there is nothing to decide.
    """
    check_something_to_gain("probe", m, margins, rows)
    mu_squared = mu_lower(epsilon, delta) ** 2
    rest = (1 - LOOK) * mu_squared
    return ProbeScales(
        look=sqrt_upper(margins.l2_squared / (LOOK * mu_squared)),
        margin=sqrt_upper(margins.l2_squared / rest),
        row_sum=sqrt_upper(rows.l2_squared / rest),
    )


def probe_margins(
    table: NDArray[Any],
    scales: ProbeScales,
    *,
    margins: MarginSensitivity,
    rows: MarginSensitivity,
    people: int,
    bits: BitSource,
) -> tuple[NDArray[Any], PartedNoise, ComposedGaussianEvent]:
    """The combined table, as fractions, the law of its noise, and what ran.

    ``people`` is how many answers each pair has, where that is public, else 0.
    """
    m = table.shape[0]
    look = add_noise(table, lambda n: rounded_gaussian_array(scales.look, n, bits))
    parts = [RoundedGaussianEvent(sigma=scales.look, sensitivity_squared=margins.l2_squared)]
    # The decision: a function of what has just been released.
    first = NoiseLaw(family="rounded-gaussian", scale=scales.look)
    seen = PairwiseEstimate(items=tuple(map(str, range(m))), margins=look, noise=first)
    v = first.exact_variance
    if surplus(seen, people=people) > _SURPRISE:
        again = add_noise(table, lambda n: rounded_gaussian_array(scales.margin, n, bits))
        parts.append(RoundedGaussianEvent(sigma=scales.margin, sensitivity_squared=margins.l2_squared))
        w = NoiseLaw(family="rounded-gaussian", scale=scales.margin).exact_variance
        weight = better_half(v, w)
        mixed = look.astype(object) + (again.astype(object) - look.astype(object)) * weight
        variance = averaged_variance(v, w, weight=weight)
        law = PartedNoise(m=m, gradient=variance, cyclic=variance)
        return mixed, law, ComposedGaussianEvent(parts=tuple(parts))
    sums = noisy_row_sums(table, lambda n: rounded_gaussian_array(scales.row_sum, n, bits))
    parts.append(RoundedGaussianEvent(sigma=scales.row_sum, sensitivity_squared=rows.l2_squared))
    w = NoiseLaw(family="rounded-gaussian", scale=scales.row_sum).exact_variance / m
    weight = better_half(v, w)
    law = PartedNoise(m=m, gradient=averaged_variance(v, w, weight=weight), cyclic=v)
    return with_row_sums(look, sums, weight=weight), law, ComposedGaussianEvent(parts=tuple(parts))

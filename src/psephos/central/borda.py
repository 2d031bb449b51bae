"""Borda scores: only the row sums of the margins are released. Pure or (epsilon, delta).

With ``r_u = sum_v W[u, v]`` the row sums (Borda scores, centred), releases ``r_u + Z_u``, Z independent and integer:
rounded normal or discrete Laplace noise, whichever has less variance under the guarantee (Laplace if delta is 0).
The estimated margins are ``(r_u - r_v) / m``: the part of W that scores can express. A consensus of them is the order
of the noisy scores; what is lost are cycles and all else that no score expresses.

**Sensitivity, ballots.** A strict ballot gives the items the scores m-1, m-3, ..., 1-m in its own order. A weak or
truncated one averages two strict ballots with every tie broken in opposite ways (under ``missing``: one with the
unranked items on top, one with them at the bottom, in opposite orders). So a ballot's score vector lies in the convex
hull P of the permutations of (m-1, ..., 1-m), and replacing one person moves r by the difference of two points of P.
Norms are convex, so the maximum is at two permutations p, q, where by the triangle inequality

    |p - q|_1 <= |p|_1 + |q|_1 = 2 floor(m^2 / 2),        |p - q|_2^2 <= 4 |p|_2^2 = 4 m (m^2 - 1) / 3,

both attained by a ballot and its reverse.

**Sensitivity, comparisons.** A person with judgements x in [-1, 1] on k different pairs (:mod:`person_bound
<psephos.central.person_bound>`) adds r = B x, B the incidence matrix of the pairs. Then ``|B x|_1 <= 2 k``, and

    |B x|_2^2 <= min(k (k + 1), k m, m (m^2 - 1) / 3):

it is convex in x, so largest for x in {-1, 1}^k, where it is 2 k plus 2 or -2 for each two pairs that share an item, of
which there are at most k (k - 1)/2; it is at most k times the largest eigenvalue of a graph's Laplacian, which is at
most m; and r lies in P whatever the answers are, cyclic ones too (Landau's theorem), so the bounds of ballots hold. Two
persons differ by at most the sum of their norms, whatever the pairs of each: twice these bounds in l1, four times in
squared l2, attained (for k < m, or all pairs) by one person who reverses every answer.

Post-processing of rounded normal noise keeps the Gaussian privacy curve, as in :mod:`psephos.central.gaussian`.
Source: Landau (1953) for score vectors; the tests enumerate all ballots for m = 3 and 4, and all persons for m <= 5.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from psephos.central.least_noise import noise_event
from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.central.noisy_table import noisy_row_sums
from psephos.errors import ParameterError
from psephos.pairwise.estimate import NoiseLaw, PartedNoise
from psephos.privacy.bits import BitSource
from psephos.privacy.events import DiscreteLaplaceEvent, RoundedGaussianEvent
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array

__all__ = [
    "borda_margins",
    "borda_noise",
    "check_something_to_gain",
    "row_sum_sensitivity",
    "score_margins",
    "scores_are_cheaper",
]


def row_sum_sensitivity(m: int, *, pairs: int | None = None) -> MarginSensitivity:
    """How far one unit can move the row sums of the margins (see the module for the proof).

    ``pairs`` caps the pairs of one person's comparisons, 1 if the unit is one comparison; ``None`` means ballots.

    >>> row_sum_sensitivity(4)
    MarginSensitivity(l1=Fraction(16, 1), l2_squared=Fraction(80, 1))
    >>> row_sum_sensitivity(4, pairs=2)
    MarginSensitivity(l1=Fraction(8, 1), l2_squared=Fraction(24, 1))
    """
    k = m * (m - 1) // 2 if pairs is None else min(pairs, m * (m - 1) // 2)
    length = min(2 * k, m * m // 2)
    square = min(Fraction(k * (k + 1)), Fraction(k * m), Fraction(m * (m * m - 1), 3))
    return MarginSensitivity(l1=Fraction(2 * max(length, 1)), l2_squared=max(4 * square, Fraction(1)))


def score_margins(scores: NDArray[Any]) -> NDArray[Any]:
    """The margins ``(r_u - r_v) / m`` of row sums r, as fractions."""
    table: NDArray[Any] = (scores[:, None] - scores[None, :]) * Fraction(1, len(scores))
    return table


def scores_are_cheaper(m: int, margins: MarginSensitivity, rows: MarginSensitivity) -> bool:
    """Whether, under normal noise, row sums get less of it than those of noisy margins have.

    ``margins`` and ``rows`` are the sensitivities of the two releases; for ballots it always holds.
    """
    return rows.l2_squared < m * margins.l2_squared


def check_something_to_gain(mechanism: str, m: int, margins: MarginSensitivity, rows: MarginSensitivity) -> None:
    """Refuse a mechanism that treats scores and cycles apart, where nothing can be gained by it."""
    if m < 3:
        raise ParameterError(f"mechanism {mechanism} needs at least 3 items, got {m}")
    if not scores_are_cheaper(m, margins, rows):
        raise ParameterError(
            f"mechanism {mechanism} would gain nothing: with so many pairs of one person counted, scores alone cost as "
            "much as all margins; use gaussian, or count fewer pairs"
        )


def borda_noise(m: int, law: NoiseLaw) -> PartedNoise:
    """What ``law`` on the row sums means for margins: variance ``law.variance / m`` on the gradient part."""
    return PartedNoise(m=m, gradient=law.exact_variance / m, cyclic=None)


def borda_margins(
    margins: NDArray[Any], law: NoiseLaw, *, sensitivity: MarginSensitivity, bits: BitSource
) -> tuple[NDArray[Any], RoundedGaussianEvent | DiscreteLaplaceEvent]:
    """The margins of the noisy row sums, and what ran."""
    gaussian = law.family == "rounded-gaussian"
    sampler = rounded_gaussian_array if gaussian else discrete_laplace_array
    table = score_margins(noisy_row_sums(margins, lambda n: sampler(law.scale, n, bits)))
    return table, noise_event(law, sensitivity)

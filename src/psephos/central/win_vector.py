"""The win vector of comparisons, which is all that a fit of scores needs: pure or (epsilon, delta).

For every link with the matching loss, scores depend on comparisons through the wins y of each item and the table n of
how many answers each pair has (:mod:`psephos.scores.m_estimator`). Wins are released as the row sums of the margins,
``r = 2 y - d`` with ``d_u = sum_v n_uv``: integers for every kind of answer, ties included, where y itself may be in
halves, and a finer grid for some data only would tell that there are ties.

**Public graph.** If who was asked what is public (n and the pairs of each person are), only answers are protected: a
person with the graph H of k different pairs adds ``r = B x`` with x in [-1, 1]^k, B the incidence matrix, and replacing
the answers moves r by ``B (x - x')``, at most twice the largest ``|B x|``:

    l1   <= 2 min(2 k, floor(s^2 / 2)),    l2^2 <= 4 min(sum_u d_u^2,  k s,  s (s^2 - 1) / 3),

with d the degrees in H and s the number of its items. Norms are convex in x, so largest at x in {-1, 1}^k. There
``|(B x)_u| <= d_u``; ``|B x|^2`` is at most k times the largest eigenvalue of H's Laplacian, which is at most s; and
Landau's theorem holds for s items (:mod:`psephos.central.borda`). The first bound is attained where H is bipartite. One
comparison alone: l1 = 4, l2^2 = 8.

Which pairs count is drawn, and must not pick the noise: it would make what is debited a coin. So the bound is the
largest over all draws, a function of the public pairs G of each person and of the public cap. Let H have k of the
pairs of G, k the cap or all of G if it has fewer. H has at most ``min(s(G), 2 k)`` items, and the second and third
bound grow with s. Further ``sum_u d_u^2 = sum over uv in H of (d_u + d_v)``, where ``d_u + d_v`` is at most ``d_u(G) +
d_v(G)``, and at most k + 1, as uv alone is counted at both ends. So

    sum_u d_u^2  <=  the sum of the k largest of  min(k + 1, d_u(G) + d_v(G))  over uv in G,

which is ``sum_u d_u^2`` itself if H = G. The noise follows the person with the largest bound. Given the draws, which
look at no answer, neighbours are within it, so the release is a mixture, with equal weights on both sides, of releases
that satisfy the guarantee.

This is the edge privacy of Cai, Chakraborty and Wang (2025, "Optimal differentially private ranking from pairwise
comparisons") where k = 1; they perturb the likelihood, or count wins with noise, at pure epsilon.

**Private graph.** Nothing about a person is public but that there is one, and the cap of k pairs. Then r has the
sensitivity of :func:`row_sum_sensitivity <psephos.central.borda.row_sum_sensitivity>`, whatever pairs the replaced
person had, and n, which nobody knows, is a second release: a person adds 1 to at most k of its D entries and another
person adds 1 to at most k others, so

    l1 = l2^2 <= min(2 k, D),

attained by two persons with different pairs. The budget is split between the two releases, epsilon or mu^2, in the
proportion that makes the errors of the score equations least if F is off one half by about .18 (root mean square).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.central.borda import row_sum_sensitivity
from psephos.central.laplace import laplace_law
from psephos.central.least_noise import least_noise_law, noise_event
from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.central.noisy_table import noisy_row_sums
from psephos.errors import ParameterError
from psephos.pairwise.estimate import NoiseLaw
from psephos.pairwise.margins import pair_counts, pairwise_margins
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.bits import BitSource
from psephos.privacy.events import (
    ComposedGaussianEvent,
    ComposedLaplaceEvent,
    DiscreteLaplaceEvent,
    Event,
    RoundedGaussianEvent,
)
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array
from psephos.profile.comparisons import Comparisons

__all__ = [
    "WinLaws",
    "answers_sensitivity",
    "best_cap",
    "most_answers",
    "private_graph_laws",
    "public_graph_laws",
    "public_graph_sensitivity",
    "released_wins",
]

_TILT = Fraction(1, 8)  # mean of (2 F - 1)^2, a public guess: F is .5 +- .18


@dataclass(frozen=True, slots=True, kw_only=True)
class WinLaws:
    """What would be drawn: the law of the noise on each row sum, and on each pair's answers (``None``: public)."""

    rows: NoiseLaw
    rows_sensitivity: MarginSensitivity
    answers: NoiseLaw | None
    answers_sensitivity: MarginSensitivity | None

    @property
    def pure(self) -> bool:
        """Whether no delta is spent."""
        return self.rows.family == "discrete-laplace"


def answers_sensitivity(m: int, *, pairs: int) -> MarginSensitivity:
    """How far one unit with at most ``pairs`` different pairs moves the numbers of answers of all pairs.

    >>> answers_sensitivity(10, pairs=3)
    MarginSensitivity(l1=Fraction(6, 1), l2_squared=Fraction(6, 1))
    """
    moved = Fraction(max(min(2 * pairs, m * (m - 1) // 2), 1))
    return MarginSensitivity(l1=moved, l2_squared=moved)


def public_graph_sensitivity(comparisons: Comparisons, *, pairs: int | None = None) -> MarginSensitivity:
    """How far the answers of one unit move the row sums, where all pairs asked are public (see the module).

    Each person counts on at most ``pairs`` of their pairs (``None``: on all), whichever are drawn: the bound holds for
    all draws. Without persons one answer is the unit.
    """
    if comparisons.person is None:
        return row_sum_sensitivity(comparisons.m, pairs=1)
    persons, low, high = _pairs_asked(comparisons)
    l1, squared = 0, 0
    for rows in np.split(np.arange(len(persons)), np.flatnonzero(np.diff(persons)) + 1):
        left, right = low[rows], high[rows]
        degrees = np.bincount(np.concatenate([left, right]), minlength=comparisons.m)
        k = len(rows) if pairs is None else min(len(rows), pairs)
        s = min(int(np.count_nonzero(degrees)), 2 * k)
        ends = np.minimum(degrees[left] + degrees[right], k + 1)
        bounds = (int(np.sort(ends)[len(ends) - k :].sum()), k * s, s * (s * s - 1) // 3)
        l1, squared = max(l1, min(2 * k, s * s // 2)), max(squared, min(bounds))
    return MarginSensitivity(l1=Fraction(max(2 * l1, 1)), l2_squared=Fraction(max(4 * squared, 1)))


def most_answers(comparisons: Comparisons, *, pairs: int) -> int:
    """How many answers count if each person counts on at most ``pairs`` pairs: a public number where pairs are."""
    if comparisons.person is None:
        return comparisons.records
    numbers = np.unique(_pairs_asked(comparisons)[0], return_counts=True)[1]
    return int(np.minimum(numbers, pairs).sum())


def _pairs_asked(comparisons: Comparisons) -> NDArray[np.int64]:
    """Person, lower and higher item of all that was asked, each once, sorted by person: shape (3, n)."""
    low, high = np.minimum(comparisons.left, comparisons.right), np.maximum(comparisons.left, comparisons.right)
    asked: NDArray[np.int64] = np.unique(np.stack([np.asarray(comparisons.person), low, high]), axis=1)
    return asked


def best_cap(comparisons: Comparisons, *, epsilon: Fraction, delta: Fraction) -> int:
    """On how many pairs each person should count, where the graph is public: what makes the errors of scores least.

    If persons have k_i pairs, a cap k leaves T = sum min(k_i, k) answers, and an item's mean curvature is about
    ``l = T / (2 m)`` against noise of variance v(k) on its wins: the cap minimises ``(l + v) / l^2``.
    """
    if comparisons.person is None:
        raise ParameterError("comparisons without a column of persons cannot be bounded by person")
    m = comparisons.m
    numbers = np.unique(_pairs_asked(comparisons)[0], return_counts=True)[1]

    def errors(k: int) -> Fraction:
        curvature = Fraction(int(np.minimum(numbers, k).sum()), 2 * m)
        law = least_noise_law(row_sum_sensitivity(m, pairs=k), epsilon=epsilon, delta=delta)
        return (curvature + law.exact_variance / 4) / curvature**2

    largest = int(numbers.max(initial=1))
    candidates = sorted({min(largest, round(1.25**j)) for j in range(64)})
    return min(candidates, key=errors) if len(numbers) else 1


def public_graph_laws(sensitivity: MarginSensitivity, *, epsilon: Fraction, delta: Fraction) -> WinLaws:
    """The noise where the graph is public: that of fewer variance, Laplace if delta is 0."""
    law = least_noise_law(sensitivity, epsilon=epsilon, delta=delta)
    return WinLaws(rows=law, rows_sensitivity=sensitivity, answers=None, answers_sensitivity=None)


def private_graph_laws(m: int, *, pairs: int, epsilon: Fraction, delta: Fraction) -> WinLaws:
    """The noise of the two releases where the graph is private."""
    rows, answers = row_sum_sensitivity(m, pairs=pairs), answers_sensitivity(m, pairs=pairs)
    weight = float((m - 1) * _TILT)
    # least A / s^2 + B / (1 - s)^2 for the scales of Laplace noise, A / s + B / (1 - s) for mu^2
    share = _share(float(rows.l1) ** 2, weight * float(answers.l1) ** 2, power=1 / 3)
    laws = WinLaws(
        rows=laplace_law(rows, epsilon=share * epsilon),
        rows_sensitivity=rows,
        answers=laplace_law(answers, epsilon=(1 - share) * epsilon),
        answers_sensitivity=answers,
    )
    if not delta:
        return laws
    mu_squared = mu_lower(epsilon, delta) ** 2
    share = _share(float(rows.l2_squared), weight * float(answers.l2_squared), power=1 / 2)
    normal = WinLaws(
        rows=NoiseLaw(family="rounded-gaussian", scale=sqrt_upper(rows.l2_squared / (share * mu_squared))),
        rows_sensitivity=rows,
        answers=NoiseLaw(family="rounded-gaussian", scale=sqrt_upper(answers.l2_squared / ((1 - share) * mu_squared))),
        answers_sensitivity=answers,
    )
    return min(laws, normal, key=lambda each: each.rows.exact_variance)


def _share(first: float, second: float, *, power: float) -> Fraction:
    """The first's share of a budget, in percent."""
    a, b = first**power, second**power
    return Fraction(min(max(round(100 * a / (a + b)), 1), 99), 100)


def released_wins(
    comparisons: Comparisons, laws: WinLaws, *, bits: BitSource
) -> tuple[NDArray[Any], NDArray[Any] | None, Event]:
    """The noisy row sums, the noisy numbers of answers (shape (m, m); ``None`` if public), and what ran."""
    sums = noisy_row_sums(pairwise_margins(comparisons), lambda n: _draw(laws.rows, n, bits))
    first = noise_event(laws.rows, laws.rows_sensitivity)
    if laws.answers is None or laws.answers_sensitivity is None:
        return sums, None, first
    counts = pair_counts(comparisons)
    upper = np.triu_indices(comparisons.m, 1)
    noise = _draw(laws.answers, len(upper[0]), bits)
    if noise.shape != upper[0].shape:  # one value would be broadcast, and all entries share it
        raise RuntimeError(f"the sampler gave noise of shape {noise.shape} for {len(upper[0])} entries")
    noisy = np.zeros(counts.shape, dtype=object)
    noisy[upper] = counts[upper] + noise.astype(object)
    noisy.T[upper] = noisy[upper]
    second = noise_event(laws.answers, laws.answers_sensitivity)
    if isinstance(first, DiscreteLaplaceEvent) and isinstance(second, DiscreteLaplaceEvent):
        return sums, noisy, ComposedLaplaceEvent(parts=(first, second))
    if isinstance(first, RoundedGaussianEvent) and isinstance(second, RoundedGaussianEvent):
        return sums, noisy, ComposedGaussianEvent(parts=(first, second))
    raise RuntimeError("the two releases must have noise of one family")


def _draw(law: NoiseLaw, n: int, bits: BitSource) -> NDArray[Any]:
    return (rounded_gaussian_array if law.family == "rounded-gaussian" else discrete_laplace_array)(law.scale, n, bits)

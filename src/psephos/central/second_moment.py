"""The second moment of the ballots' scores, which rank intervals need: how much it costs, which is mostly nothing.

A ballot with margins w (entries in [-1, 1], in the space of antisymmetric tables) has the score vector
``s_u = sum_v w[u, v]``. The margins W and the row sums r of a release are sums of w and s over the people; here the
integer matrix ``S = sum s s^T`` is released as well, with which r/N gets a covariance. With m items,

    D = m(m - 1)/2,    R = m(m^2 - 1)/3,    Q = floor(m^2/2).

**What a ballot can be.** Every ballot, tied or truncated, averages two strict ones (:mod:`psephos.central.borda`), and
norms are convex. So every ballot has what the strict ones have with equality: ``|s|^2 <= R``, ``|s|_1 <= Q``,
``|s_u| <= m - 1``, and for the cyclic rest c of w, ``|c|^2 <= D - R/m`` (``|w|^2 = |s|^2/m + |c|^2`` over u < v).

**Alone.** For two ballots s, t with p = s.t, in the Frobenius norm (entries off the diagonal count twice),

    F = |s s^T - t t^T|^2 = |s|^4 + |t|^4 - 2 p^2 <= 2 R^2 - 2 p^2 <= 2 R^2.

Two orthogonal strict ballots attain it, such as (3, 1, -1, -3) and (-1, 3, -3, 1). For m = 2 and 3 the maxima are 4
and 100 (not 8 and 128), and for m = 6, 10, 14, ... scalar products of strict ballots are odd multiples of 2, which
leaves ``2 R^2 - 8``. Normal noise of variance ``sigma^2`` on the diagonal and ``sigma^2 / 2`` on each entry u < v has
the privacy loss ``mu^2 = F / sigma^2``: :func:`second_moment_scales`. For discrete Laplace noise on u <= v,

    sum_{u <= v} |s_u s_v - t_u t_v| <= 2 max_s (|s|_1^2 + |s|^2) / 2 <= Q^2 + R,

where the maxima are 19, 72, 153 for m = 3, 4, 5 and the bounds 24, 84, 184.

**Beside normal noise on margins or row sums: nothing.** Whoever moves the table most moves S not at all: a ballot and
its reverse have the same s s^T. In between there is enough room. As ``R - p <= 2 R`` and
``4 R - |s - t|^2 >= 2 R + 2 p``,

    F <= 2 (R - p)(R + p) <= 2 R (4 R - |s - t|^2).

Let the row sums be released with noise of variance tau^2 each (``borda``), and S with ``sigma^2 = 2 R tau^2``. The loss
is ``|s - t|^2 / tau^2 + F / (2 R tau^2) <= 4 R / tau^2``: that of the row sums alone. In general, let there be releases
of margins with noise of variances v_i and of row sums with tau_j^2, and ``1/tau^2 = sum 1/(m v_i) + sum 1/tau_j^2``.
Then

    sum |w - w'|^2 / v_i + sum |s - t|^2 / tau_j^2 + F / (2 R tau^2)
      <= |s - t|^2 / tau^2 + sum 4 (D - R/m) / v_i + F / (2 R tau^2) <= sum 4 D / v_i + sum 4 R / tau_j^2,

what the tables cost alone. So the event of the tables is the event of all together, and its mu bounds all. If a second
table is chosen by the first (``probe``): for two given ballots the first costs what it costs, and the second with the
moment at most the larger of what its two forms do, each of which the inequality bounds together with the first. It is
as much noise as S would have if a quarter (``borda``) or (m + 1)/(6 m) (``gaussian``) of mu^2 were spent on it.

**Beside Laplace noise on margins: nothing.** With a = s + t and b = s - t, ``s s^T - t t^T = (a b^T + b a^T)/2``, and

    sum_{u <= v} |a_u b_v + b_u a_v| / 2 <= (|a|_1 |b|_1 + max_u |b_u| |a|_1) / 2 <= (Q + m - 1) |a|_1,
    |a|_1 <= 2 sum_{u < v} |w + w'| <= 2 (2 D - |w - w'|_1),     as |x + y| + |x - y| <= 2 for x, y in [-1, 1].

If margins have the scale b, the scale ``2 (Q + m - 1) b`` for S makes the loss at most ``2 D / b``, that of the margins
alone. Row sums with Laplace noise (pure ``borda``) have no such room: any two ballots with opposite signs move them as
far as can be. There S takes a part of epsilon, :func:`second_moment_scales_pure`.

**The covariance.** x = r~/N has the covariance ``Sigma/N + tau^2 P / N^2``, with Sigma that of one person's scores,
``P = I - 1 1^T / m``, and tau^2 the variance of the noise. From the release,

    Sigma^ = N/(N - 1) [P S~ P / N - x x^T + tau^2 P / N^2],

which is unbiased, gets one standard deviation of the noise on top, ``sigma P / N`` since (e_u - e_v)^T S~ (e_u - e_v)
has the standard deviation 2 sigma, and then has its negative eigenvalues set to 0. Without the addition intervals are
too narrow where people agree and Sigma is small (in simulations differences are covered with .92 for .95). If it is
more than bounded scores allow, ``(s_u - s_v)^2 <= 4 (m - 1)^2``, or N = 1, S~ says nothing and ``2 (m - 1)^2 P`` is
used instead; whether this happens is a public fact. Beside normal noise ``sigma <= tau^2 mu / sqrt(2)``: the error in
the variance of a difference is at most mu / sqrt(2) times what the noise on the scores contributes to it anyway.

The people are taken as drawn at random from a large population; the ranks are those of its mean scores. The normal
approximation to a mean of N scores needs some dozens of people.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice
from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.errors import ParameterError
from psephos.pairwise.estimate import NoiseLaw, PairNoise, PairwiseEstimate, PartedNoise
from psephos.pairwise.kernel import Unranked
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.bits import BitSource
from psephos.privacy.calibrate import laplace_scale
from psephos.privacy.events import DiscreteLaplaceEvent, RoundedGaussianEvent
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array
from psephos.profile.profile import Profile

__all__ = [
    "PURE_SHARE",
    "MeanScoreCovariance",
    "MomentScales",
    "free_moment_scales",
    "free_moment_scales_pure",
    "mean_score_covariance",
    "mean_score_errors",
    "mean_scores",
    "moment_sensitivity",
    "noisy_moment",
    "row_sum_variance",
    "score_moment",
    "second_moment_event",
    "second_moment_scales",
    "second_moment_scales_pure",
]

#: How much of epsilon the second moment gets beside Laplace noise on row sums, a compromise. For 5 to 20 items, 500 to
#: 5000 people and epsilon .1 to 4 differences are at most a fifth wider than with the best share, which is .05 or less
#: where noise outweighs sampling and .3 or more where it does not.
PURE_SHARE = Fraction(1, 5)

_BLOCK_BITS = 12  # ballots held at once, as a power of two
_LARGEST_SCORE, _LARGEST_VARIANCE = Fraction(10**100), Fraction(10**200)  # what doubles can square and add
_CONTINUOUS = 2**30  # a scale from which simulated Laplace noise need not be whole


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentScales:
    """The noise on the second moment: scales on the diagonal and on each entry u < v, in votes."""

    family: Literal["discrete-laplace", "rounded-gaussian"]
    diagonal: Fraction
    off_diagonal: Fraction

    @property
    def sd(self) -> Fraction:
        """sigma of the module: half the standard deviation of the noise in ``S_uu + S_vv - 2 S_uv``."""
        entry, other = (
            NoiseLaw(family=self.family, scale=x).exact_variance for x in (self.diagonal, self.off_diagonal)
        )
        return sqrt_upper(entry / 2 + other)


def _norms(m: int) -> tuple[int, int]:
    """R and Q of the module; 1 for a single item, whose scores cannot move."""
    return max(m * (m * m - 1) // 3, 1), max(m * m // 2, 1)


def moment_sensitivity(m: int) -> MarginSensitivity:
    """How far one ballot can move the second moment: l1 over u <= v, and squared in the Frobenius norm.

    >>> moment_sensitivity(4)
    MarginSensitivity(l1=Fraction(84, 1), l2_squared=Fraction(800, 1))
    """
    r, q = _norms(m)
    return MarginSensitivity(l1=Fraction(q * q + r), l2_squared=Fraction(2 * r * r))


def _normal_scales(variance: Fraction) -> MomentScales:
    return MomentScales(family="rounded-gaussian", diagonal=sqrt_upper(variance), off_diagonal=sqrt_upper(variance / 2))


def second_moment_scales(m: int, *, mu_squared: Fraction) -> MomentScales:
    """Normal noise for a second moment released alone, at the cost ``mu_squared``; reads no data.

    >>> round(float(second_moment_scales(4, mu_squared=Fraction(2)).diagonal), 6)
    20.0
    """
    return _normal_scales(moment_sensitivity(m).l2_squared / mu_squared)


def second_moment_scales_pure(m: int, *, epsilon: Fraction) -> MomentScales:
    """Discrete Laplace noise for a second moment released alone, at the cost ``epsilon``; reads no data.

    >>> second_moment_scales_pure(4, epsilon=Fraction(1, 2)).diagonal
    Fraction(168, 1)
    """
    scale = laplace_scale(epsilon, sensitivity=moment_sensitivity(m).l1)
    return MomentScales(family="discrete-laplace", diagonal=scale, off_diagonal=scale)


def second_moment_event(m: int, scales: MomentScales) -> RoundedGaussianEvent | DiscreteLaplaceEvent:
    """What a second moment released alone costs: S in the Frobenius norm, or its entries u <= v."""
    sensitivity = moment_sensitivity(m)
    if scales.family == "rounded-gaussian":
        return RoundedGaussianEvent(sigma=scales.diagonal, sensitivity_squared=sensitivity.l2_squared)
    return DiscreteLaplaceEvent(scale=scales.diagonal, sensitivity=sensitivity.l1)


def free_moment_scales(m: int, *, margins: Sequence[Fraction] = (), row_sums: Sequence[Fraction] = ()) -> MomentScales:
    """The normal noise with which a second moment costs nothing beside tables of ballots; reads no data.

    ``margins`` and ``row_sums`` are the standard deviations, before rounding, of all normal noise under which margins
    and row sums are released: one for ``gaussian`` or ``borda``, one of each for ``shaped``, two for ``probe``.

    >>> float(free_moment_scales(3, row_sums=[Fraction(10)]).diagonal)  # sqrt(2 * 8) * 10
    40.0
    """
    precision = sum((1 / (m * sd**2) for sd in margins), Fraction(0)) + sum((1 / sd**2 for sd in row_sums), Fraction(0))
    if not precision:
        raise ParameterError("a second moment is free only beside a table: no noise of margins or row sums is given")
    return _normal_scales(2 * _norms(m)[0] / precision)


def free_moment_scales_pure(m: int, *, margin: Fraction) -> MomentScales:
    """The discrete Laplace noise with which a second moment costs nothing beside margins of scale ``margin``.

    >>> free_moment_scales_pure(4, margin=Fraction(12)).diagonal  # 2 * (8 + 3) * 12
    Fraction(264, 1)
    """
    scale = 2 * (_norms(m)[1] + m - 1) * margin
    return MomentScales(family="discrete-laplace", diagonal=scale, off_diagonal=scale)


def score_moment(profile: Profile, *, unranked: Unranked = "last") -> NDArray[Any]:
    """The exact second moment ``sum s s^T`` over the people; never released as it is.

    Returns
    -------
    array of shape (m, m)
        Symmetric, with zero row sums: int64 where ``N (m - 1)^2 <= 2**61``, else Python integers (dtype object).

    >>> profile = Profile.from_rankings({("tea", "coffee"): 7, ("coffee", "tea"): 3}, items=["tea", "coffee"])
    >>> score_moment(profile).tolist()
    [[10, -10], [-10, 10]]
    """
    check_choice(unranked, "unranked", ("last", "missing"))
    m = profile.m
    # A limb of `width` bits times two scores, summed over a block, stays below 2**53: doubles hold it exactly.
    width = 53 - _BLOCK_BITS - 2 * max(m - 1, 1).bit_length()
    if width < 1:
        raise ParameterError(f"second moments are for fewer than 2**20 items, got {m}")
    exact = profile.people * max(m - 1, 1) ** 2 <= 2**61
    total = np.zeros((m, m), dtype=np.int64 if exact else object)
    for start in range(0, profile.support, 1 << _BLOCK_BITS):
        stop = start + (1 << _BLOCK_BITS)
        scores = _scores(profile.places[:, start:stop], unranked)
        counts, shift = list(profile.counts[start:stop]), 0
        while any(counts):
            limb = np.array([count % (1 << width) for count in counts], dtype=np.float64)
            part = ((scores * limb) @ scores.T).astype(np.int64)
            total += (part if exact else part.astype(object)) * (1 << shift)
            counts, shift = [count >> width for count in counts], shift + width
    return total


def _scores(places: NDArray[np.unsignedinteger], unranked: Unranked) -> NDArray[np.float64]:
    """``s_u`` = number of items below u minus number above u, for each ballot (column)."""
    m, ballots = places.shape
    at = places.astype(np.int64)
    if unranked == "last":
        at[at == 0] = m + 1
    cells = at * ballots + np.arange(ballots)
    held = np.bincount(cells.ravel(), minlength=(m + 2) * ballots).reshape(m + 2, ballots)
    held[0] = 0  # what is compared with nothing
    reached = np.cumsum(held, axis=0)
    below = reached[-1] - np.take_along_axis(reached, at, axis=0)
    above = np.take_along_axis(reached - held, at, axis=0)
    return np.where(at == 0, 0, below - above).astype(np.float64)


def noisy_moment(moment: NDArray[Any], scales: MomentScales, *, bits: BitSource) -> NDArray[Any]:
    """``moment`` plus independent noise, on the diagonal and then on u < v in row order; symmetric integers.

    int64 entries are at most 2**61 and noise below 2**62, so the sum does not wrap.
    """
    m = moment.shape[0]
    upper = np.triu_indices(m, 1)
    sampler = rounded_gaussian_array if scales.family == "rounded-gaussian" else discrete_laplace_array
    diagonal, rest = sampler(scales.diagonal, m, bits), sampler(scales.off_diagonal, len(upper[0]), bits)
    if diagonal.shape != (m,) or rest.shape != upper[0].shape:
        raise RuntimeError(f"the sampler gave noise of shapes {diagonal.shape} and {rest.shape} for {m} items")
    noisy = np.zeros((m, m), dtype=np.result_type(moment.dtype, diagonal.dtype, rest.dtype))
    noisy[np.diag_indices(m)] = np.diag(moment) + diagonal
    noisy[upper] = moment[upper] + rest
    noisy.T[upper] = noisy[upper]
    return noisy


# ------------------------------------------------------------------ from here on: released numbers and public facts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanScoreCovariance:
    """The covariance of mean scores in its two parts, each of shape ``(m, m)`` and positive semidefinite.

    ``sampling`` comes from the choice of the people (an estimate, on the safe side), ``noise`` from privacy (known).
    """

    sampling: NDArray[np.float64]
    noise: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """Their sum."""
        return self.sampling + self.noise


def _double(x: Fraction, largest: Fraction) -> float:
    return float(min(max(x, -largest), largest))


def _row_sums(estimate: PairwiseEstimate) -> list[Fraction]:
    return [sum(row, Fraction(0)) for row in estimate.margins.tolist()]


def mean_scores(estimate: PairwiseEstimate, *, people: int) -> NDArray[np.float64]:
    """The mean score of each item, ``r_u / N``: how many items it beats less how many beat it, a person.

    Scores beyond 10**100, which noise alone can cause, are cut there; their variance is not below 10**200 then.

    >>> estimate = PairwiseEstimate(items=("tea", "coffee"), margins=np.array([[0, 4], [-4, 0]]))
    >>> mean_scores(estimate, people=10).tolist()
    [0.4, -0.4]
    """
    return np.array([_double(r / people, _LARGEST_SCORE) for r in _row_sums(estimate)], dtype=np.float64)


def row_sum_variance(noise: NoiseLaw | PartedNoise | PairNoise, m: int) -> Fraction:
    """tau^2 of the module: the noise in the row sums of a released table has covariance ``tau^2 (I - 1 1^T / m)``.

    Independent noise Z[u, v] of variance v: row sums have variance (m - 1) v and covariances -v. Parted noise: the
    gradient part (r_u - r_v)/m has variance ``gradient`` in each direction if r has m times as much.

    >>> row_sum_variance(PartedNoise(m=4, gradient=Fraction(10), cyclic=None), 4)
    Fraction(40, 1)
    """
    if isinstance(noise, PairNoise):
        raise ParameterError("noise must be that of a release, and this is of randomised reports")
    return m * (noise.gradient if isinstance(noise, PartedNoise) else noise.exact_variance)


def mean_score_covariance(
    estimate: PairwiseEstimate, moment: NDArray[Any], scales: MomentScales, *, people: int
) -> MeanScoreCovariance:
    """The covariance of :func:`mean_scores`, from the released table and the released second moment.

    Parameters
    ----------
    estimate
        The released table with the law of its noise.
    moment, scales
        The released second moment and the noise in it.
    people
        N, a public fact.
    """
    m = len(estimate.items)
    centre = np.eye(m) - 1 / m
    tau_squared = row_sum_variance(estimate.noise, m) / people**2
    noise = _double(tau_squared, _LARGEST_VARIANCE) * centre
    one_sd, bound = scales.sd / people, Fraction(2 * (m - 1) ** 2)
    if people == 1 or one_sd >= bound or tau_squared >= _LARGEST_VARIANCE:
        person = float(bound) * centre
    else:
        # In integers over a common denominator: S/N and x x^T cancel where people agree.
        sums = _row_sums(estimate)
        unit = math.lcm(*(r.denominator for r in sums))
        whole = np.array([int(r * unit) for r in sums], dtype=object)
        raw = (moment.astype(object) * people * unit**2 - np.multiply.outer(whole, whole)) / (people * unit) ** 2
        estimated = people / (people - 1) * (centre @ raw.astype(np.float64) @ centre + noise)
        values, vectors = np.linalg.eigh(estimated + float(one_sd) * centre)
        person = vectors * np.maximum(values, 0.0) @ vectors.T
    return MeanScoreCovariance(sampling=person * float(Fraction(1, people)), noise=noise)


def mean_score_errors(
    covariance: MeanScoreCovariance,
    mechanism: str,
    law: NoiseLaw,
    *,
    people: int,
    draws: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Simulated errors of :func:`mean_scores` for Laplace noise, which is not normal; shape ``(draws, m)``.

    ``law`` is that of each margin (``laplace``) or of each row sum (``borda``); the sampling part is normal. For
    intervals, never for a release: doubles and a generator.
    """
    check_choice(mechanism, "mechanism", ("borda", "laplace"))
    m = len(covariance.noise)
    unit = float(Fraction(1, people))

    def noise(*size: int) -> NDArray[np.float64]:
        if law.scale < _CONTINUOUS:
            return law.simulate(size, rng) * unit
        return rng.laplace(scale=_double(law.scale / people, _LARGEST_SCORE), size=size)

    if mechanism == "borda":
        errors = noise(draws, m)
        errors -= errors.mean(axis=1, keepdims=True)
    else:
        errors = np.zeros((draws, m))
        for u in range(m):
            for v in range(u + 1, m):
                entry = noise(draws)
                errors[:, u] += entry
                errors[:, v] -= entry
    values, vectors = np.linalg.eigh(covariance.sampling)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    errors += rng.standard_normal((draws, m)) @ root
    return errors

"""Rank intervals that hold for all items at once: max-difference sets.

Estimated scores ``x`` of m items have errors ``e = x - theta`` of a known joint law. With ``se_ij`` the standard
deviation of ``e_i - e_j``, let q be the quantile of order ``level`` of ``max_{i < j} |e_i - e_j| / se_ij``. Item i is
*surely better* than j if ``x_i - x_j > q se_ij``, and its rank lies in

    [1 + #{j surely better than i},   m - #{j that i is surely better than}].

With probability >= ``level`` all these intervals hold, and with them tiers and the top K for every K
(docs/proofs/central.md, theorems 26 to 28; percentiles of simulated ranks do not, theorem 29). q is the
``ceil((B + 1) level)``-th smallest maximum of B simulated draws, which keeps the level for every B.

Where variances were estimated from few people, the errors are drawn from a sphere instead, and each difference is held
against a Student quantile of its own freedom (docs/proofs/local.md, theorem 15b).

Source: M. Mogstad, J. Romano, A. Shaikh and D. Wilhelm (2024), "Inference for ranks with applications to mobility
across neighbourhoods and academic achievement across countries", without their stepwise refinement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from psephos._check import check_integer, check_real, percent_hint
from psephos.errors import ParameterError
from psephos.scores.intervals import student_quantile

__all__ = ["RankIntervals", "TopItems", "rank_intervals", "rank_intervals_from_errors"]

#: A variance of a difference below this part of the two variances is rounding error; it is taken to be this large.
_LEAST_VARIANCE = 1e-12

_GRID = 2000  # degrees of freedom whose quantiles are computed
_BLOCK = 1 << 18  # items times draws held at once: they stay in a cache


@dataclass(frozen=True, slots=True, kw_only=True)
class TopItems:
    """Who is among the best K: item positions (0-based), each in one of three groups."""

    inside: tuple[int, ...]
    outside: tuple[int, ...]
    undecided: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankIntervals:
    """Intervals that hold all m ranks at once with probability ``level``.

    Attributes
    ----------
    low, high
        For each item the best and the worst rank it may have, 1-based.
    tiers
        Item positions (0-based), best tier first: every item of a better tier is surely better than every item of a
        worse one, and no finer cut has that property. Within a tier in the order of the scores.
    level
        The simultaneous coverage.
    quantile
        q: how many standard deviations a difference must have to be sure.
    draws
        How many simulated errors q was taken from; 0 if no difference is uncertain.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    tiers: tuple[tuple[int, ...], ...]
    level: float
    quantile: float
    draws: int

    @property
    def level_error(self) -> float:
        """Standard deviation, from run to run, of the order of the quantile that was used."""
        return math.sqrt(self.level * (1 - self.level) / self.draws) if self.draws else 0.0

    def top(self, k: int) -> TopItems:
        """Which items are surely among the best ``k``, surely not, or undecided; for all k at once.

        An item is inside if fewer than k others can be at least as good, outside if k others are surely better.

        >>> scores, covariance = [3.0, 0.1, 0.0], np.eye(3) * 0.01
        >>> rank_intervals(scores, covariance, rng=np.random.default_rng(1)).top(2)
        TopItems(inside=(0,), outside=(), undecided=(1, 2))
        """
        check_integer(k, "k", low=0)
        items = range(len(self.low))
        return TopItems(
            inside=tuple(i for i in items if self.high[i] <= k),
            outside=tuple(i for i in items if self.low[i] > k),
            undecided=tuple(i for i in items if self.low[i] <= k < self.high[i]),
        )


def rank_intervals(
    scores: ArrayLike,
    covariance: ArrayLike,
    *,
    level: float = 0.95,
    rng: np.random.Generator,
    draws: int = 20_000,
    component_labels: NDArray[np.intp] | None = None,
    freedom: ArrayLike | None = None,
) -> RankIntervals:
    """Simultaneous rank intervals from scores with normal errors.

    Not private: it shows what its scores show. Of released scores it costs nothing more.

    Parameters
    ----------
    scores
        Shape ``(m,)``, finite; more is better.
    covariance
        Shape ``(m, m)``, of the errors of ``scores``: symmetric, positive semidefinite.
    level
        Simultaneous coverage, between 0 and 1.
    rng
        For the simulation of the errors.
    draws
        How many; at least ``level / (1 - level)``.
    component_labels
        Shape ``(m,)``: equal where two scores can be compared. A difference of two others is never sure, whatever the
        covariance says of it, and costs the rest nothing. All can be compared, if absent.
    freedom
        Degrees of freedom with which variances were estimated: of each score, shape ``(m,)``, of which a difference has
        the lesser, or of each difference, shape ``(m, m)``. Infinite where it is known, as all are if absent; a
        difference with freedom 0 is never sure.

    Returns
    -------
    RankIntervals
        Ranks are 1-based, best first.

    Raises
    ------
    ParameterError
        for other shapes, numbers that are not finite, a matrix that is no covariance, or too few draws.

    >>> sets = rank_intervals([2.0, 9.0, 2.1], np.eye(3) * 0.01, rng=np.random.default_rng(1))
    >>> sets.low, sets.high, sets.tiers
    ((2, 1, 2), (3, 1, 3), ((1,), (2, 0)))
    """
    x, sigma = _checked(scores, covariance)
    number = check_integer(draws, "draws", low=1)
    values, vectors = np.linalg.eigh(sigma)
    if values.size and values[0] < -1e-8 * np.abs(values).max():
        raise ParameterError(f"covariance must be positive semidefinite, its least eigenvalue is {values[0]:.3g}")
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    block = max(_BLOCK // max(len(x), 1), 1)
    sd = _difference_sd(sigma)
    if component_labels is not None:
        labels = np.asarray(component_labels)
        if labels.shape != x.shape:
            raise ParameterError(f"component_labels must have one entry an item ({len(x)}), got shape {labels.shape}")
        sd[labels[:, None] != labels[None, :]] = np.inf
    degrees = np.full(len(x), np.inf) if freedom is None else np.asarray(freedom, dtype=np.float64)
    if degrees.shape not in (x.shape, sd.shape) or not (degrees >= 0).all():
        raise ParameterError(f"freedom must be >= 0, one an item ({len(x)}) or a pair of items, got {freedom!r}")
    if degrees.ndim == 1:
        degrees = np.minimum(degrees[:, None], degrees[None, :])
    sd[degrees <= 0] = np.inf
    least = float(degrees[np.isfinite(sd) & ~np.eye(len(x), dtype=np.bool_)].min(initial=np.inf))
    live = vectors[:, values > 1e-10 * values.max(initial=0.0)]
    # Dimensions of the sphere: one for each contribution, and more than the errors span.
    sphere = max(least + 1.0, live.shape[1] + 1.0)
    maxima = []
    for start in range(0, number, block):
        normal = rng.standard_normal((min(block, number - start), len(x)))
        largest = _maxima(normal @ root, sd)
        if np.isfinite(least):
            length = ((normal @ live) ** 2).sum(axis=1) + rng.chisquare(sphere - live.shape[1], len(normal))
            largest = largest * np.sqrt(sphere / length)
        maxima.append(largest)
    found = np.concatenate(maxima)
    if not np.isfinite(least):
        return _intervals(x, sd, found, level)
    q = _quantile(found, level, sd)
    # The chance that a single difference exceeds q on the sphere, and what is exceeded with it by a Student t.
    tail = stdtr(sphere - 1.0, -q * math.sqrt((sphere - 1.0) / max(sphere - q * q, 1e-9 * sphere)))
    each = _student(float(tail), np.where(np.isfinite(sd), degrees, np.inf))
    return _intervals(x, sd * each / each.max(), found, level, quantile=float(each.max()))


def _student(tail: float, degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles of Student's law for a table of degrees of freedom; of many, on a grid, rounded up."""
    values = np.unique(degrees)
    if len(values) > _GRID:
        finite = values[np.isfinite(values)]
        steps = np.geomspace(finite[0], finite[-1] * (1.0 + 1e-12), _GRID)
        degrees = np.where(np.isfinite(degrees), steps[np.searchsorted(steps, degrees, side="right") - 1], degrees)
        values = np.unique(degrees)
    quantiles: NDArray[np.float64] = student_quantile(tail, values)[np.searchsorted(values, degrees)]
    return quantiles


def rank_intervals_from_errors(
    scores: ArrayLike, covariance: ArrayLike, errors: ArrayLike, *, level: float = 0.95
) -> RankIntervals:
    """Simultaneous rank intervals from scores whose errors are given as a simulated sample, of any law.

    Not private: it shows what its scores show. Of released scores it costs nothing more.

    Parameters
    ----------
    scores, covariance
        As for :func:`rank_intervals`; the covariance weighs the pairs against each other.
    errors
        Shape ``(draws, m)``: independent draws from the law of the errors.
    level
        Simultaneous coverage, between 0 and 1.

    Returns
    -------
    RankIntervals
        Ranks are 1-based, best first.

    Raises
    ------
    ParameterError
        for other shapes, numbers that are not finite, or too few draws.

    >>> errors = np.random.default_rng(1).laplace(size=(999, 2))
    >>> rank_intervals_from_errors([5.0, 0.0], np.eye(2) * 2, errors).low
    (1, 2)
    """
    x, sigma = _checked(scores, covariance)
    sample = np.asarray(errors, dtype=np.float64)
    if sample.ndim != 2 or sample.shape[1] != len(x) or not np.isfinite(sample).all():
        raise ParameterError(f"errors must be finite, of shape (draws, {len(x)}), got shape {sample.shape}")
    known = np.diag(sigma) == 0
    if known.any() and np.ptp(sample[:, known], axis=1).any():
        raise ParameterError("errors must not differ between items whose variance is 0 in covariance")
    sd = _difference_sd(sigma)
    block = max(_BLOCK // max(len(x), 1), 1)
    maxima = [_maxima(sample[start : start + block], sd) for start in range(0, len(sample), block)]
    return _intervals(x, sd, np.concatenate(maxima) if maxima else np.zeros(0), level)


def _checked(scores: ArrayLike, covariance: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, sigma = np.asarray(scores, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ParameterError(f"scores must be finite numbers, one an item, got {scores!r}")
    if sigma.shape != (len(x), len(x)) or not np.isfinite(sigma).all():
        raise ParameterError(f"covariance must be finite, of shape {(len(x), len(x))}, got shape {sigma.shape}")
    if not np.allclose(sigma, sigma.T, rtol=1e-9, atol=1e-9 * np.abs(sigma).max(initial=0.0)):
        raise ParameterError("covariance must be symmetric")
    if (np.diag(sigma) < 0).any():
        raise ParameterError("covariance must have no negative variances")
    return x, (sigma + sigma.T) / 2


def _difference_sd(sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """``se_ij``; 0 only where both variances are."""
    sums = np.add.outer(np.diag(sigma), np.diag(sigma))
    sd: NDArray[np.float64] = np.sqrt(np.maximum(sums - 2 * sigma, _LEAST_VARIANCE * sums))
    return sd


def _maxima(errors: NDArray[np.float64], sd: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest ``|e_i - e_j| / se_ij`` of each draw, over the pairs that are uncertain and can be compared."""
    largest = np.zeros(len(errors))
    columns = np.ascontiguousarray(errors.T)
    taken = (sd > 0) & (sd < np.inf)
    weights = np.divide(1.0, sd, out=np.zeros_like(sd), where=taken)
    room = np.empty_like(columns)
    for i in range(len(sd) - 1):
        if taken[i, i + 1 :].any():
            ratios = np.subtract(columns[i + 1 :], columns[i], out=room[i + 1 :])
            np.multiply(ratios, weights[i, i + 1 :, None], out=ratios)
            np.maximum(largest, ratios.max(axis=0), out=largest)
            np.maximum(largest, -ratios.min(axis=0), out=largest)
    return largest


def _quantile(maxima: NDArray[np.float64], level: float, sd: NDArray[np.float64]) -> float:
    """The ``ceil((draws + 1) level)``-th smallest maximum; 0 if no difference that can be taken is uncertain."""
    if not (np.triu(sd, 1)[np.isfinite(sd)] > 0).any():
        return 0.0
    rank = math.ceil((len(maxima) + 1) * level)
    if rank > len(maxima):
        least = math.ceil(level / (1 - level))
        raise ParameterError(f"level {level} needs at least {least} draws, got {len(maxima)}")
    return float(np.partition(maxima, rank - 1)[rank - 1])


def _intervals(
    x: NDArray[np.float64],
    sd: NDArray[np.float64],
    maxima: NDArray[np.float64],
    level: float,
    quantile: float | None = None,
) -> RankIntervals:
    target = check_real(level, "level", low=-1e300, high=1e300)
    if not 0 < target < 1:
        raise ParameterError(f"level must lie strictly between 0 and 1, got {level!r}{percent_hint(level)}")
    m, draws = len(x), len(maxima)
    comparable = np.isfinite(sd)
    if quantile is None:
        quantile = _quantile(maxima, target, sd)
    if quantile == 0:
        draws = 0  # every difference that can be taken is known
    resolution = 2 * np.spacing(np.abs(x).max(initial=0.0))  # of a difference of two scores as doubles
    better = comparable & (x[:, None] - x[None, :] > quantile * np.where(comparable, sd, 0.0) + resolution)
    order = np.argsort(-x, kind="stable")
    tiers, start = [], 0
    for cut in range(1, m + 1):
        if better[np.ix_(order[:cut], order[cut:])].all():
            tiers.append(tuple(int(i) for i in order[start:cut]))
            start = cut
    return RankIntervals(
        low=tuple(int(n) for n in 1 + better.sum(axis=0)),
        high=tuple(int(n) for n in m - better.sum(axis=1)),
        tiers=tuple(tiers),
        level=target,
        quantile=quantile,
        draws=draws,
    )

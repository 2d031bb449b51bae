"""Blocks of records: the calibrated concentration, random partitions, the bootstraps that training aims at, and theory.

With n records in S blocks and u ~ Dirichlet(gamma 1_S), record i of block s has the weight ``u_s / |I_s|``, so that one
person moves a weighted mean by at most ``1 / n_S`` of its range, n_S = floor(n / S). For a statistic that is linear in
the weights, with scores psi_i that sum to 0, given the data (Lemma S2.3)

    Var_w = Sigma / (n + 1)                            ordinary, w ~ Dirichlet(1_n),   Sigma = mean of psi psi'
    E_pi Var_u = (S - 1) / ((S gamma + 1)(n - 1)) Sigma    blocked, over equal random blocks

and ``gamma* = (S (n + 1) - 2 n) / (S (n - 1))`` makes them equal. Blocks of sizes m_s make the second larger by the
factor ``h = n / S^2 sum_s 1 / m_s`` (ours): 1 for equal blocks, and at most ``1 + 1 / (4 n_S (n_S + 1))`` for sizes
that differ by one, so gamma* serves those too. Source: "Private Generative Bootstrap via Blocking", sections 2.2.2 and
4, equations (7) and (8).

Nothing that is fitted here is private: these are the targets, for checks and for comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from psephos._check import check_choice, check_integer, check_real
from psephos.bootstrap.block_weights import dirichlet_weights
from psephos.errors import ParameterError
from rivals.m_estimate import (
    Problem,
    check_level_of,
    count_records,
    mean_weights,
    positive_inverse,
    solve,
)

if TYPE_CHECKING:
    from psephos.bootstrap.losses import Loss, Records

__all__ = [
    "Partition",
    "Remainder",
    "RidgeRegression",
    "WassersteinRate",
    "bayesian_bootstrap",
    "blocked_bootstrap",
    "blocked_covariance",
    "dispersion_ratio",
    "ordinary_covariance",
    "random_partition",
    "variance_gap",
    "wasserstein_rate",
]

Floats = NDArray[np.float64]
Remainder = Literal["spread", "drop"]

_CELLS = 2**22  # random weights at a time: 32 MiB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """Which block each record lies in: drawn without the data, and public.

    Attributes
    ----------
    block
        (n,), whole numbers from 0 to blocks - 1; -1 for a record that was dropped.
    blocks
        S >= 1, none of them empty.
    """

    block: NDArray[np.intp]
    blocks: int

    def __post_init__(self) -> None:
        check_integer(self.blocks, "blocks", low=1)
        given = self.block
        if given.ndim != 1 or given.dtype.kind != "i" or not ((given >= -1) & (given < self.blocks)).all():
            raise ParameterError(f"block must be whole numbers from -1 to {self.blocks - 1}, got {given!r}")
        if not self.sizes.all():
            raise ParameterError(f"block must leave none of the {self.blocks} blocks empty, got sizes {self.sizes}")

    @property
    def records(self) -> int:
        """n, dropped ones included."""
        return len(self.block)

    @property
    def sizes(self) -> NDArray[np.intp]:
        """(S,), how many records each block holds."""
        return np.bincount(self.block[self.block >= 0], minlength=self.blocks)

    @property
    def divisor(self) -> int:
        """The size of the smallest block: no record's weight exceeds ``u_s / divisor``. For accounting."""
        return int(self.sizes.min())

    def record_weights(self, block_weights: ArrayLike) -> Floats:
        """Weights of blocks, (..., S), as weights of records, (..., n): ``u_s / |I_s|``, and 0 where dropped.

        They sum to what the weights of the blocks sum to.

        >>> Partition(block=np.array([0, 1, 1, -1]), blocks=2).record_weights([0.5, 0.5]).tolist()
        [0.5, 0.25, 0.25, 0.0]
        """
        given = np.asarray(block_weights, dtype=np.float64)
        if given.shape[-1:] != (self.blocks,):
            raise ParameterError(f"block_weights must have a last axis of {self.blocks}, got shape {given.shape}")
        shares = given / self.sizes
        return np.where(self.block >= 0, shares[..., self.block], 0.0)

    def means(self, values: Floats) -> Floats:
        """Means of values, (n, k), over each block: (S, k)."""
        return _block_sums(self.block, self.blocks, values) / self.sizes[:, None]


def random_partition(
    records: int, blocks: int, rng: np.random.Generator, *, remainder: Remainder = "spread"
) -> Partition:
    """A uniformly random partition into blocks of equal size: it sees no data, and may be public.

    Parameters
    ----------
    records
        n >= blocks.
    blocks
        S >= 1.
    rng
        A public source of randomness.
    remainder
        What becomes of the n mod S records that are left over. ``"spread"``: one more record in each of that many
        blocks, sizes floor and ceil of n / S. ``"drop"``: records drawn at random are left out. Either way the divisor,
        for accounting, is floor(n / S).

    >>> partition = random_partition(10, 4, np.random.default_rng(1))
    >>> sorted(partition.sizes.tolist()), partition.divisor
    ([2, 2, 3, 3], 2)
    """
    check_integer(blocks, "blocks", low=1)
    check_integer(records, "records", low=blocks)
    check_choice(remainder, "remainder", ("spread", "drop"))
    block = np.arange(records) % blocks
    if remainder == "drop":
        block[records - records % blocks :] = -1
    return Partition(block=rng.permutation(block), blocks=blocks)


def _check_gamma(gamma: float) -> None:
    check_real(gamma, "gamma", low=1e-6, high=1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeRegression:
    """Weighted least squares in closed form, ``(X' diag(w) X + ridge I)^-1 X' diag(w) y`` with weights of sum 1.

    Records are ``(X (n, p), y (n,))``. A design of ones gives the weighted mean. ``ridge`` >= 0; at 0 the design must
    have full rank under every weighting.
    """

    ridge: float = 0.0

    def __post_init__(self) -> None:
        check_real(self.ridge, "ridge", low=0, high=1e12)


def bayesian_bootstrap(
    records: Records,
    target: Loss | RidgeRegression,
    *,
    draws: int,
    rng: np.random.Generator,
    level: float | None = None,
) -> Floats:
    """Draws of the ordinary Bayesian bootstrap: theta*(w), w ~ Dirichlet(1_n). Not private.

    Least squares take one pass over the records for all draws, with some tens of megabytes beyond the data; a general
    loss is fitted draw by draw (:func:`rivals.m_estimate.weighted_m_estimate`) from the unweighted fit.

    Parameters
    ----------
    records
        Arrays with one leading axis of n records each.
    target
        :class:`RidgeRegression`, or a loss of :mod:`psephos.bootstrap.losses`.
    draws
        How many, >= 1.
    rng
        Source of the weights.
    level
        Index of the family, for a loss with ``levels``.

    Returns
    -------
    NDArray
        (draws, d).

    >>> rng = np.random.default_rng(1)
    >>> records = (np.ones((100, 1)), rng.normal(size=100))
    >>> draws = bayesian_bootstrap(records, RidgeRegression(), draws=2000, rng=rng)
    >>> bool(abs(draws.var() / (records[1].var() / 101) - 1) < 0.1)
    True
    """
    check_integer(draws, "draws", low=1)
    count = count_records(records)
    if isinstance(target, RidgeRegression):
        if level is not None:
            raise ParameterError(f"level must be None for least squares, got {level!r}")
        design, answers = _regression(records)
        moments, mass = np.zeros((draws, _width(design.shape[1]))), np.zeros(draws)
        piece = max(1, min(_CELLS // draws, 4096))
        for begin in range(0, count, piece):
            part = slice(begin, begin + piece)
            weights = rng.standard_exponential((draws, len(answers[part])))
            moments += weights @ _products(design[part], answers[part])
            mass += weights.sum(axis=1)
        return _solutions(moments / mass[:, None], target.ridge)
    start, inverse = _unweighted(records, target, None, level)
    return np.array(
        [
            solve(
                Problem(records=records, loss=target, weights=mean_weights(weights, count), level=level),
                start,
                inverse=inverse,
            )
            for weights in (rng.standard_exponential(count) for _ in range(draws))
        ]
    )


def blocked_bootstrap(
    records: Records,
    target: Loss | RidgeRegression,
    *,
    partition: Partition,
    gamma: float,
    draws: int,
    rng: np.random.Generator,
    level: float | None = None,
) -> Floats:
    """Draws of the blocked bootstrap, theta*(w) with ``w_i = u_s / |I_s|``, u ~ Dirichlet(gamma 1_S). Not private.

    Least squares need each block's ``X'X`` and ``X'y`` alone.

    Parameters
    ----------
    records, target, draws, rng, level
        As of :func:`bayesian_bootstrap`.
    partition
        Of these records, by :func:`random_partition`; those that it dropped weigh nothing.
    gamma
        Concentration, > 0: :func:`gamma_star`, or 1.

    Returns
    -------
    NDArray
        (draws, d).

    >>> rng = np.random.default_rng(1)
    >>> records = (np.ones((60, 1)), rng.normal(size=60))
    >>> from psephos.bootstrap.block_weights import gamma_star
    >>> partition, gamma = random_partition(60, 10, rng), gamma_star(60, 10)
    >>> draws = blocked_bootstrap(records, RidgeRegression(), partition=partition, gamma=gamma, draws=4000, rng=rng)
    >>> bool(abs(draws.var() / blocked_covariance(records[1][:, None], partition, gamma).item() - 1) < 0.1)
    True
    """
    check_integer(draws, "draws", low=1)
    _check_gamma(gamma)
    count = count_records(records)
    if count != partition.records:
        raise ParameterError(f"partition must be one of {count} records, got one of {partition.records}")
    if isinstance(target, RidgeRegression):
        if level is not None:
            raise ParameterError(f"level must be None for least squares, got {level!r}")
        blocks = _block_products(*_regression(records), partition)
        size = max(1, _CELLS // partition.blocks)
        return np.concatenate(
            [
                _solutions(rng.dirichlet(np.full(partition.blocks, gamma), many) @ blocks, target.ridge)
                for many in (min(size, draws - begin) for begin in range(0, draws, size))
            ]
        )
    start, inverse = _unweighted(records, target, partition, level)
    return np.array(
        [
            solve(
                Problem(records=records, loss=target, weights=partition.record_weights(weights), level=level),
                start,
                inverse=inverse,
            )
            for weights in (dirichlet_weights(partition.blocks, gamma, 1, rng)[0] for _ in range(draws))
        ]
    )


def _unweighted(
    records: Records, loss: Loss, partition: Partition | None, level: float | None
) -> tuple[Floats, Floats]:
    """The fit about which the draws scatter, and its inverse Hessian."""
    check_level_of(loss, level)
    kept = None if partition is None else partition.block >= 0
    problem = Problem(records=records, loss=loss, weights=mean_weights(kept, count_records(records)), level=level)
    start = solve(problem, np.asarray(loss.start, dtype=np.float64))
    return start, positive_inverse(problem.curvature(start))


def _regression(records: Records) -> tuple[Floats, Floats]:
    if len(records) != 2 or np.ndim(records[0]) != 2 or np.ndim(records[1]) != 1:
        shapes = [np.shape(array) for array in records]
        raise ParameterError(f"records must be (X (n, p), y (n,)) for least squares, got shapes {shapes}")
    design, answers = (np.asarray(array, dtype=np.float64) for array in records)
    if not (np.isfinite(design).all() and np.isfinite(answers).all()):
        raise ParameterError("records must be finite, got NaN or an infinity")
    return design, answers


def _width(p: int) -> int:
    return p * (p + 1) // 2 + p


def _products(design: Floats, answers: Floats) -> Floats:
    """Upper triangles of x x' and then x y, one record a row: (n, p (p + 1) / 2 + p)."""
    left, right = np.triu_indices(design.shape[1])
    return np.concatenate([design[:, left] * design[:, right], design * answers[:, None]], axis=1)


def _block_products(design: Floats, answers: Floats, partition: Partition) -> Floats:
    """Means of :func:`_products` over each block, in pieces of records."""
    sums = np.zeros((partition.blocks, _width(design.shape[1])))
    for begin in range(0, len(answers), _CELLS // 64):
        part = slice(begin, begin + _CELLS // 64)
        sums += _block_sums(partition.block[part], partition.blocks, _products(design[part], answers[part]))
    return sums / partition.sizes[:, None]


def _block_sums(block: NDArray[np.intp], blocks: int, values: Floats) -> Floats:
    """Sums of the rows of values, (n, k), by block: (S, k)."""
    kept = np.flatnonzero(block >= 0)
    members = csr_array((np.ones(len(kept)), (block[kept], kept)), shape=(blocks, len(block)))
    return np.asarray(members @ values, dtype=np.float64)


def _solutions(moments: Floats, ridge: float) -> Floats:
    """Solutions of the normal equations that each row holds: (draws, p)."""
    p = round(((moments.shape[1] * 8 + 9) ** 0.5 - 3) / 2)
    left, right = np.triu_indices(p)
    gram = np.empty((len(moments), p, p))
    gram[:, left, right] = gram[:, right, left] = moments[:, : len(left)]
    gram[:, np.arange(p), np.arange(p)] += ridge
    try:
        return np.asarray(np.linalg.solve(gram, moments[:, len(left) :, None])[:, :, 0], dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ParameterError(f"ridge must be > 0 for a design that has not full rank, got {ridge!r}") from None


def ordinary_covariance(scores: ArrayLike) -> Floats:
    """Covariance of ``sum_i w_i scores_i`` over w ~ Dirichlet(1_n), exactly: ``Sigma / (n + 1)`` (Lemma S2.3).

    ``scores`` (n, d), of which the mean is taken off; (d, d) comes back. Not private.

    >>> ordinary_covariance([[1.0], [3.0]]).tolist()
    [[0.3333333333333333]]
    """
    centred = _scores(scores)
    covariance: Floats = centred.T @ centred / (len(centred) * (len(centred) + 1))
    return covariance


def blocked_covariance(scores: ArrayLike, partition: Partition, gamma: float) -> Floats:
    """Covariance of ``sum_i w_i scores_i`` over u ~ Dirichlet(gamma 1_S) in one partition, exactly (Lemma S2.3).

    ``sum_s (m_s - m)(m_s - m)' / (S (S gamma + 1))`` with the blocks' means m_s and their mean m: (d, d). Not private.

    >>> partition = Partition(block=np.array([0, 0, 1, 1]), blocks=2)
    >>> blocked_covariance([[1.0], [3.0], [2.0], [6.0]], partition, 1.0).tolist()
    [[0.3333333333333333]]
    """
    _check_gamma(gamma)
    means = partition.means(_scores(scores))
    means -= means.mean(axis=0)
    covariance: Floats = means.T @ means / (partition.blocks * (partition.blocks * gamma + 1))
    return covariance


def _scores(scores: ArrayLike) -> Floats:
    given = np.asarray(scores, dtype=np.float64)
    if given.ndim != 2 or not len(given):
        raise ParameterError(f"scores must be (n, d) with n >= 1, got shape {given.shape}")
    return np.asarray(given - given.mean(axis=0))


def dispersion_ratio(records: int, blocks: int, gamma: float) -> float:
    """Blocked over ordinary variance of a linear statistic, ``(S - 1)(n + 1) / ((S gamma + 1)(n - 1))``.

    It is the mean over partitions, and exact for equal blocks; 1 at :func:`gamma_star`, decreasing in gamma.

    Parameters
    ----------
    records
        n >= blocks.
    blocks
        S >= 2.
    gamma
        > 0.

    >>> round(dispersion_ratio(10_000, 5, 1.0), 4)
    0.6668
    """
    check_integer(blocks, "blocks", low=2)
    check_integer(records, "records", low=blocks)
    _check_gamma(gamma)
    return (blocks - 1) * (records + 1) / ((blocks * gamma + 1) * (records - 1))


def variance_gap(records: int, blocks: int, gamma: float) -> float:
    """``a_{S,n}(gamma)`` of Corollary 4.1, ``(S - 1) / ((S gamma + 1)(n - 1)) - 1 / (n + 1)``: 0 at gamma*.

    Times ``trace Sigma`` of a linear statistic it is the difference of the two variances.

    >>> variance_gap(10_000, 5, 1.0) < 0 < variance_gap(10_000, 5, 0.5)
    True
    """
    return (dispersion_ratio(records, blocks, gamma) - 1) / (records + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WassersteinRate:
    """The three terms of Theorem 4.1, equation (7), without their unknown constant.

    They bound the mean 1-Wasserstein distance between the blocked and the ordinary posterior of a contrast, scaled by
    sqrt(n).

    Attributes
    ----------
    blocking
        ``(S gamma + 1)^(-1/2)``: what few blocks cost.
    sampling
        ``n^(-1/2)``.
    dispersion
        ``|1 - sqrt(ratio)|`` with :func:`dispersion_ratio`: 0 at gamma*.
    """

    blocking: float
    sampling: float
    dispersion: float

    @property
    def total(self) -> float:
        """The sum of the three."""
        return self.blocking + self.sampling + self.dispersion


def wasserstein_rate(records: int, blocks: int, gamma: float) -> WassersteinRate:
    """The rate of Theorem 4.1, equation (7), for n records in S >= 3 blocks with ``S gamma >= 3``.

    >>> from psephos.bootstrap.block_weights import gamma_star
    >>> rate = wasserstein_rate(10_000, 20, gamma_star(10_000, 20))
    >>> round(rate.blocking, 3), rate.sampling, round(rate.dispersion, 9)
    (0.229, 0.01, 0.0)
    """
    check_integer(blocks, "blocks", low=3)
    ratio = dispersion_ratio(records, blocks, gamma)
    if not blocks * gamma >= 3 * (1 - 1e-12):
        raise ParameterError(f"gamma must be >= 3 / blocks = {3 / blocks:.6g} in Theorem 4.1, got {gamma!r}")
    return WassersteinRate(
        blocking=(blocks * gamma + 1) ** -0.5, sampling=records**-0.5, dispersion=abs(1 - ratio**0.5)
    )

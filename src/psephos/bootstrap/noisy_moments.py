"""Noisy means and Gram matrices of bounded vectors: integers, added exactly, with exact normal noise.

Records are those of n people under replace-one adjacency. Both sums are of integer vectors z_i, each of norm at most
``cap`` by an exact check of whole numbers, whatever the numbers they are made of.

* **Sum** of z_i: replacing one moves it by at most ``2 cap`` in norm. Noise of variance sigma^2 on each coordinate
  costs ``mu^2 = (2 cap / sigma)^2``.
* **Gram matrix** of k vectors a person, M = sum_i sum_k z_ik z_ik', with ``sum_k |z_ik|^2 <= cap^2``. A person's part A
  is positive semidefinite, so ``|A|_F <= tr A <= cap^2``; for two of them ``<A, B> = sum_kl (z_k . y_l)^2 >= 0``, and

      |A - B|_F^2 = |A|_F^2 + |B|_F^2 - 2 <A, B> <= 2 cap^4.

  Normal noise of variance sigma^2 on the diagonal and sigma^2 / 2 on each entry above it costs
  ``mu^2 = |A - B|_F^2 / sigma^2 <= 2 cap^4 / sigma^2``, as entries off the diagonal count twice in the norm.

Both bounds are attained, by opposite and by orthogonal vectors. Sums of integers do not depend on order; the matrix
product is one of whole numbers below 2^53 in doubles, hence exact. Noise is rounded, which commutes with adding
integers: the release is the Gaussian mechanism, rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.privacy.balls import sqrt_upper
from psephos.privacy.bits import BitSource
from psephos.privacy.events import RoundedGaussianEvent
from psephos.privacy.samplers import rounded_gaussian_array

__all__ = ["SUM_CAP", "GramSum", "VectorSum"]

Floats = NDArray[np.float64]

SUM_CAP = 2**24
_GRAM_CAP = 2**15
_ROWS = 2**20  # rows of one product: their entries, at most cap^2 = 2^30 each, add up to less than 2^53
_SHRINK = 1 - 2.0**-20


@dataclass(slots=True, eq=False)
class VectorSum:
    """The sum of the people's vectors in r coordinates.

    >>> from psephos.privacy import SystemBits
    >>> total = VectorSum(2, bound=5.0)
    >>> total.add(np.array([[3.0, 4.0], [30.0, 40.0], [np.nan, 0.0]]))
    >>> exact, sd, event = total.released(mu_squared=Fraction(10**30), bits=SystemBits())
    >>> exact.round(4).tolist(), event.sensitivity_squared == (2 * SUM_CAP) ** 2
    ([6.0, 8.0], True)
    """

    total: NDArray[np.int64]
    bound: float

    def __init__(self, coordinates: int, *, bound: float) -> None:
        self.total = np.zeros(coordinates, dtype=np.int64)
        self.bound = bound

    def add(self, vectors: Floats) -> None:
        """Add people's vectors, ``(people, r)``.

        Longer ones than ``bound`` are shrunk to it; one that is no vector of numbers, or 1e145 times as long, counts as
        zero.
        """
        self.total += _integers(vectors, SUM_CAP, self.bound).sum(axis=0).astype(np.int64)

    def released(self, *, mu_squared: Fraction, bits: BitSource) -> tuple[Floats, float, RoundedGaussianEvent]:
        """The sum with noise, the noise's standard deviation, and what it costs: mu^2 at most."""
        event = _event((2 * SUM_CAP) ** 2, mu_squared)
        noisy = _added(self.total, rounded_gaussian_array(event.sigma, len(self.total), bits))
        unit = self.bound / SUM_CAP
        return noisy * unit, float(event.sigma) * unit, event


@dataclass(slots=True, eq=False)
class GramSum:
    """The sum of the people's Gram matrices, ``(r, r)``.

    >>> from psephos.privacy import SystemBits
    >>> total = GramSum(2, bound=25.0)
    >>> total.add(np.array([[[3.0, 4.0]], [[30.0, 40.0]]]))
    >>> exact, sd, event = total.released(mu_squared=Fraction(10**30), bits=SystemBits())
    >>> exact.round(1).tolist()
    [[18.0, 24.0], [24.0, 32.0]]
    """

    total: NDArray[np.int64]
    bound: float

    def __init__(self, coordinates: int, *, bound: float) -> None:
        self.total = np.zeros((coordinates, coordinates), dtype=np.int64)
        self.bound = bound

    def add(self, vectors: Floats) -> None:
        """Add people's vectors, ``(people, k, r)``; larger ones than ``sum_k |v_k|^2 = bound`` are shrunk to it.

        What is not a number counts as zero, as in :meth:`VectorSum.add`.
        """
        people, k, r = vectors.shape
        rows = _integers(vectors.reshape(people, k * r), _GRAM_CAP, float(np.sqrt(self.bound))).reshape(people * k, r)
        for begin in range(0, len(rows), _ROWS):
            part = rows[begin : begin + _ROWS]
            self.total += (part.T @ part).astype(np.int64)

    def released(self, *, mu_squared: Fraction, bits: BitSource) -> tuple[Floats, float, RoundedGaussianEvent]:
        """The sum with noise, the standard deviation of that on the diagonal (above it 1/sqrt(2) of it), the cost."""
        event = _event(2 * _GRAM_CAP**4, mu_squared)
        r = len(self.total)
        above = np.triu_indices(r, 1)
        noisy = np.zeros((r, r))
        noisy[above] = _added(
            self.total[above], rounded_gaussian_array(sqrt_upper(event.sigma**2 / 2), len(above[0]), bits)
        )
        noisy += noisy.T
        noisy[np.diag_indices(r)] = _added(np.diag(self.total), rounded_gaussian_array(event.sigma, r, bits))
        unit = self.bound / _GRAM_CAP**2
        return noisy * unit, float(event.sigma) * unit, event


def _integers(vectors: Floats, cap: int, bound: float) -> Floats:
    """Whole numbers, as doubles: each row in units of ``bound / cap``, shrunk to norm ``cap`` if it is longer.

    The steps of :func:`psephos.bootstrap.statistic.integer_contributions` in double precision: scale, to a little less
    (2^-20) than the cap, truncate, and count a row as zero whose squared norm is still not at most ``cap^2``. Squares
    of whole numbers add up exactly below 2^53, and ``cap^2`` is 2^48 at most; a sum that had to be rounded is beyond
    it, and stays there.
    """
    with np.errstate(all="ignore"):
        scaled = vectors / bound * cap
        norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        whole = np.asarray(np.trunc(scaled * (cap * _SHRINK / np.maximum(norms, cap))[:, None]))
        whole[~(np.einsum("ij,ij->i", whole, whole) <= cap * cap)] = 0.0
    return whole


def _added(total: NDArray[np.int64], noise: NDArray[Any]) -> Floats:
    """Whole numbers, added before anything is rounded."""
    return np.asarray(total.astype(object) + noise.astype(object), dtype=np.float64)


def _event(sensitivity_squared: int, mu_squared: Fraction) -> RoundedGaussianEvent:
    sigma = sqrt_upper(sensitivity_squared / mu_squared)
    return RoundedGaussianEvent(sigma=sigma, sensitivity_squared=Fraction(sensitivity_squared))

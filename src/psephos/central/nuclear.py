"""Margins under noise that falls with the nuclear norm: pure epsilon, ballots only.

Releases ``W + round(X)``, X antisymmetric with a density proportional to ``exp(-rate * ||X||)``, where ``||X||`` is the
nuclear norm, the sum of the singular values, and

    rate = epsilon / Delta,    Delta = 2 N >= 2 N_m,

N a rational and N_m the nuclear norm of the margins of a strict ballot
(:func:`psephos.privacy.balls.order_nuclear_norm_upper`). The variance of an entry is .67 of that of independent Laplace
noise of the same epsilon for 3 items, .38 for 10 and .20 for 32.

**Proof.** *Sensitivity.* Two strict ballots have margins that differ by a relabelling of the items, ``P S P^T`` with a
permutation P, so all have the nuclear norm N_m. Every other ballot, tied or truncated, in either meaning of unranked
items, has the average of the margins of two strict ones: break each group of ties in some order and in the opposite
one; under ``last`` the unranked items are one more group, and under ``missing`` put them first in some order and last
in the opposite one. So its norm is at most N_m, and replacing one ballot moves W by at most 2 N_m, which a strict
ballot and its reverse attain.

*Mechanism.* The density of W + X at T is proportional to ``exp(-rate * ||T - W||)``, with a constant that does not
depend on W. By the triangle inequality a neighbour changes it by a factor of at most ``exp(rate * Delta) =
exp(epsilon)`` everywhere. As W is of integers, ``W + round(X) = round(W + X)``: post-processing. The support is all
antisymmetric integer tables whatever the ballots are, as X has a positive density everywhere.

*Draws.* round(X) is drawn with exactly its law (:mod:`psephos.privacy.spectral`, with proof), from X = Q B Q^T with Q
in the whole of O(m): with rotations alone, tables of an even m would betray the sign of their Pfaffian.

**Comparisons are refused.** The bound needs transitive answers. One person's answers that go round in circles may have
a larger norm than any ballot: with 4 items, those with ``W W^T = 3 I`` have 4 sqrt 3 = 6.928 > N_4 = 5.657.

**Noise.** The law of X is the same after any orthogonal change of items, so the covariance is a multiple of the
identity: each entry, and each dimension of either part of the table, has the variance
:func:`psephos.privacy.spectral.nuclear_entry_variance` / rate^2; rounding adds about 1/12.

Sources: Hardt and Talwar (2010), the K-norm mechanism; Hough, Krishnapur, Peres and Virag (2006), draws from a
determinantal process; Weyl, the law of the singular values.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.central.noisy_table import add_noise
from psephos.errors import ParameterError
from psephos.pairwise.estimate import PartedNoise
from psephos.privacy.balls import order_nuclear_norm_upper, sqrt_upper
from psephos.privacy.bits import BitSource
from psephos.privacy.events import NuclearEvent
from psephos.privacy.spectral import (
    expected_operator_norm_upper,
    nuclear_entry_variance,
    nuclear_noise,
    operator_norm_quantile_upper,
)

__all__ = [
    "check_nuclear_size",
    "nuclear_margins",
    "nuclear_noise_law",
    "nuclear_noise_norm",
    "nuclear_rate",
    "nuclear_sensitivity",
]

_MOST_ITEMS = 128  # half a minute


def check_nuclear_size(m: int) -> None:
    """Refuse more items than a draw can take: the time grows like the fourth power and more of their number."""
    if m > _MOST_ITEMS:
        raise ParameterError(f"mechanism nuclear takes at most {_MOST_ITEMS} items, got {m}")


def nuclear_sensitivity(m: int) -> Fraction:
    """A rational >= 2 N_m: how far one replaced ballot can move the margins in the nuclear norm, tight to 2**-52.

    With one item there are no pairs, and two items stand in for it.

    >>> [round(float(nuclear_sensitivity(m)), 3) for m in (1, 2, 3, 4)]
    [4.0, 4.0, 6.928, 11.314]
    """
    return 2 * order_nuclear_norm_upper(max(m, 2))


def nuclear_rate(m: int, *, epsilon: Fraction) -> Fraction:
    """How fast the density of the noise falls with its nuclear norm; reads no data.

    >>> round(float(nuclear_rate(3, epsilon=Fraction(1))), 3)
    0.144
    """
    return epsilon / nuclear_sensitivity(m)


def nuclear_noise_law(m: int, rate: Fraction) -> PartedNoise:
    """The law of the noise: the same variance, of X plus 1/12, on both parts of the table."""
    variance = nuclear_entry_variance(m) / rate**2 + Fraction(1, 12)
    return PartedNoise(m=m, gradient=variance, cyclic=variance)


def nuclear_margins(margins: NDArray[Any], rate: Fraction, *, bits: BitSource) -> tuple[NDArray[Any], NuclearEvent]:
    """The noisy table, antisymmetric like ``margins``, and what ran.

    ``margins`` must be those of ballots, shape (m, m): the sensitivity that the event states is false of comparisons.
    """
    m = margins.shape[0]
    noise = nuclear_noise(m, rate, bits)
    noisy = add_noise(margins, lambda _n: noise[np.triu_indices(m, 1)])
    return noisy, NuclearEvent(rate=rate, sensitivity=nuclear_sensitivity(m))


def nuclear_noise_norm(m: int, rate: Fraction, *, failure: Fraction | None = None) -> Fraction:
    """A rational >= the mean operator norm of the noise, in votes: that of X, plus what rounding can add at most.

    With ``failure``, between 0 and 1: one that the norm exceeds with at most this probability. A table R of roundings
    in [-1/2, 1/2] has singular values in equal pairs, so the square of its norm is at most ``sum over u < v of
    R[u, v]^2 <= D/4``.

    >>> rate = nuclear_rate(8, epsilon=Fraction(1))
    >>> [round(float(nuclear_noise_norm(8, rate, failure=failure)), 1) for failure in (None, Fraction(1, 20))]
    [236.8, 326.0]
    """
    norm = expected_operator_norm_upper(m) if failure is None else operator_norm_quantile_upper(m, failure)
    return norm / rate + sqrt_upper(Fraction(m * (m - 1), 8))

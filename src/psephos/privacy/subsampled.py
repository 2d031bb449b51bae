"""Gaussian noise on a Poisson-subsampled sum with public random weights: the worst pair of neighbours.

One step releases the public weight ``u`` of a record, 0 <= u <= 1, together with

    sum over the drawn records of (weight * contribution) + N(0, sigma^2 I),

where every record is drawn independently with probability ``q`` and contributes a vector of norm at most
``shift * sigma`` before weighting. One record is *replaced*. With ``a = shift * u``, in units of sigma:

    P_a = (1 - q) N(0, 1) + q N(a, 1),        Q_a = (1 - q) N(0, 1) + q N(-a, 1).

**The pair dominates.** Write ``H_c(P || Q) = sup over tests phi of E_P phi - c E_Q phi``, c >= 0. Given u and the
other records drawn, a step is ``(1-q) N_0 + q N_D`` against ``(1-q) N_0 + q N_D'`` up to a common translation, with
``|D|, |D'| <= a``. For a test with ``E_{N_0} phi = p = Phi(-z)``,

    E_P phi - c E_Q phi = (1-q)(1-c) p + q (E_{N_D} phi - c E_{N_D'} phi),

and the Neyman-Pearson lemma against N_0 gives ``E_{N_D} phi <= Phi(a - z)`` and ``E_{N_D'} phi >= Phi(-a - z)``. The
half line {x >= z} attains both for (D, D') = (a, -a), so no pair exceeds ``H_c(P_a || Q_a)``, for any c, any
dimension. Hence every f-divergence and every Renyi order is largest there, and:

* ``H_c(P_a || Q_a)`` does not decrease in a (a smaller ball of D lies in a larger one): rounding u or shift up is safe;
* nor in q: ``P_{q'}`` with q' < q mixes ``P_q`` with N_0, and so does Q; H_c is jointly convex and least for equal
  laws;
* reflection x -> -x exchanges P and Q, so both directions of the adjacency cost the same;
* averaging over which other records are drawn only helps (joint convexity).

**The weight is public.** The law of u is the same for both neighbours, so the released pair (u, sum) has ``H_c = E_u
H_c(P_{shift u} || Q_{shift u})``: divergences are averaged over u *after* they are taken. Mixing the Gaussians over u
first, as if u were hidden, claims 1 where 1.47 is spent. Steps compose adaptively because the pair dominates for
every c (Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via characteristic function"); a pair
that is worst for one step only would not do (Lebeda et al. 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from psephos._check import check_real

__all__ = ["BetaWeight", "FixedWeight", "SubsampledGaussian", "Weight", "WeightBins"]

Array = NDArray[np.float64]

#: The part of a weight's law, per step, that its bins leave to a certain loss.
LEFTOVER = 1e-22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightBins:
    """The law of a weight in bins, each given by its upper edge.

    Attributes
    ----------
    upper
        Upper edges, increasing, in (0, 1].
    mass
        Probabilities of the bins.
    square
        E[u^2; u in the bin], rounded up, at most ``mass * upper**2``.
    above
        Probability that u exceeds the last edge. All probabilities are rounded up, so that ``sum(mass) + above >= 1``.
    """

    upper: Array
    mass: Array
    square: Array
    above: float


@dataclass(frozen=True, slots=True)
class FixedWeight:
    """A weight that is always 1.

    >>> FixedWeight().second_moment
    1.0
    """

    @property
    def second_moment(self) -> float:
        """E u^2."""
        return 1.0

    def log_even_moments(self, count: int) -> Array:
        """log E u^(2j) for j = 0, ..., count - 1."""
        return np.zeros(count)

    def bins(self, *, tail: bool = False) -> WeightBins:  # noqa: ARG002
        """One bin."""
        one = np.ones(1)
        return WeightBins(upper=one, mass=one, square=one, above=0.0)


@dataclass(frozen=True, slots=True)
class BetaWeight:
    """A weight with the law Beta(first, second): one coordinate of a Dirichlet vector.

    Increasing ``first`` and decreasing ``second`` make the weight stochastically larger, so those are the safe
    directions in which to round them.

    >>> round(BetaWeight(1.0, 19.0).second_moment, 6)
    0.004762
    """

    first: float
    second: float

    def __post_init__(self) -> None:
        check_real(self.first, "first", low=1e-6, high=1e12)
        check_real(self.second, "second", low=1e-6, high=1e12)

    @property
    def second_moment(self) -> float:
        """E u^2."""
        total = self.first + self.second
        return self.first * (self.first + 1) / (total * (total + 1))

    def log_even_moments(self, count: int) -> Array:
        """log E u^(2j) for j = 0, ..., count - 1: a sum of log((first + i) / (first + second + i)) over i < 2j."""
        i = np.arange(2 * count - 2)
        steps = -np.log1p(self.second / (self.first + i))
        return np.concatenate([[0.0], np.cumsum(steps)[1::2]])

    def bins(self, *, tail: bool = False) -> WeightBins:
        """Bins whose upper edges raise E u^2 little for their number.

        A spacing ~ (p(u) u)^(-1/2) would raise it least; (p(u) u)^(-1/3) costs 5 % more of that and serves large
        losses, which come from the upper tail, better.

        ``tail`` adds bins far into the upper tail, down to a probability of 1e-300, for functions that grow fast. Any
        edges are sound; masses come from the incomplete beta function, from whichever end is small, so that each is
        accurate to its own size.
        """
        return _beta_bins(self.first, self.second, tail)


Weight = FixedWeight | BetaWeight

_BINS, _TAIL_BINS = 1500, 1000


@lru_cache(maxsize=64)
def _beta_bins(first: float, second: float, tail: bool) -> WeightBins:
    top = min(float(special.betainccinv(first, second, LEFTOVER)), 1.0)
    mean = first / (first + second)
    points = np.unique(np.concatenate([np.geomspace(1e-7 * mean, top, 8000), np.linspace(0, top, 8001)[1:]]))
    # A Beta law without mass within float reach of 1 - u = 0 would give -inf there; the density only shapes the bins.
    inside = np.minimum(points, 1 - 1e-12)
    log_density = special.xlogy(first - 1, inside) + special.xlog1py(second - 1, -inside)
    weight = np.exp((log_density - log_density.max() + np.log(inside)) / 3)
    share = np.concatenate([[0.0], np.cumsum(np.diff(points) * (weight[1:] + weight[:-1]) / 2)])
    edges = np.interp(np.linspace(0, share[-1], (_TAIL_BINS if tail else _BINS) + 1)[1:], share, points)
    edges[-1] = top
    if tail:
        further = special.betainccinv(first, second, np.geomspace(0.5, 1e-300, 400))
        edges = np.concatenate([edges, further[np.isfinite(further)], np.linspace(0, 1, 301)])
    edges = np.unique(np.clip(edges, 0, 1))
    edges = edges[edges > 0]
    lower = np.concatenate([[0.0], edges[:-1]])
    mass = _between_upper(first, second, lower, edges)
    above = float(special.betaincc(first, second, edges[-1])) * (1 + _ULPS) if edges[-1] < 1 else 0.0
    total = first + second
    moment = first * (first + 1) / (total * (total + 1)) * (1 + _ULPS)
    square = np.clip(moment * _between_upper(first + 2, second, lower, edges), mass * lower**2, mass * edges**2)
    return WeightBins(upper=edges, mass=mass, square=square, above=above)


_ULPS = 2.0**-49  # relative accuracy of the incomplete beta function, with a margin


def _between_upper(first: float, second: float, lower: Array, upper: Array) -> Array:
    """P(lower < u <= upper) as a difference of whichever tails are small, raised by what rounding may have taken."""
    below = special.betainc(first, second, np.stack([lower, upper]))
    above = special.betaincc(first, second, np.stack([lower, upper]))
    left = below[1] < 0.5
    difference = np.where(left, below[1] - below[0], above[0] - above[1])
    return np.asarray(np.maximum(difference, 0.0) + _ULPS * np.where(left, below[1], above[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampledGaussian:
    """One step: what the accountants of this package bound.

    Parameters
    ----------
    probability
        Chance of each record to be drawn, 0 < q <= 1.
    shift
        Largest norm of one record's contribution at weight 1, in standard deviations of the noise, >= 0. A replaced
        record moves the sum by up to *twice* as much.
    weight
        Law of the public weight.

    >>> SubsampledGaussian(probability=0.1, shift=0.2, weight=FixedWeight()).probability
    0.1
    """

    probability: float
    shift: float
    weight: Weight

    def __post_init__(self) -> None:
        check_real(self.probability, "probability", low=math.ulp(0.0), high=1)
        check_real(self.shift, "shift", low=0, high=1e150)

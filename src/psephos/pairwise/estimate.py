"""The pairwise estimate: the common currency of everything that costs no budget.

For each pair of items: the estimated margin, the share where the number of answers is known, and the law of
the noise that privacy added, with its variance and a way to simulate it. Solvers, scores and rank intervals
take one of these and never see a budget.

Variances. Discrete Laplace with ``P(k) ~ exp(-|k|/b)``: ``2 r / (1 - r)^2`` with ``r = exp(-1/b)``. A normal law
of standard deviation ``s`` rounded to integers: ``s^2 + 1/12`` up to terms of order ``exp(-2 pi^2 s^2)``, and for
small ``s`` the sum ``sum k^2 P(k)`` itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice
from psephos.errors import ParameterError
from psephos.pairwise.kernel import Unranked
from psephos.pairwise.margins import pair_counts, pairwise_margins
from psephos.profile.comparisons import Comparisons
from psephos.profile.profile import Profile

__all__ = ["NoiseLaw", "PairNoise", "PairwiseEstimate", "PartedNoise"]


def _root(square: Fraction) -> float:
    """The square root as a double, also of a square that no double holds."""
    half = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    try:
        return math.ldexp(math.sqrt(float(square / Fraction(4) ** half)), half)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLaw:
    """The law of one independent noise entry on a margin.

    ``family`` is ``none``, ``discrete-laplace`` (``scale`` b: P(k) ~ exp(-|k|/b)) or ``rounded-gaussian``
    (``scale`` is the standard deviation before rounding). ``scale`` is in votes.
    """

    family: Literal["none", "discrete-laplace", "rounded-gaussian"] = "none"
    scale: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        check_choice(self.family, "family", ("none", "discrete-laplace", "rounded-gaussian"))
        if (self.family == "none") != (self.scale == 0) or self.scale < 0:
            raise ParameterError(f"scale must be > 0 (0 for the family 'none'), got {self.scale}")

    @property
    def relative_variance(self) -> float:
        """Variance of one entry divided by ``scale**2``; finite at any scale, 0 without noise."""
        if self.family == "none":
            return 0.0
        if self.family == "discrete-laplace":
            # 2 r / (1 - r)^2 = 1 / (2 sinh(x)^2) with x = 1/(2b), which has no cancellation for large b.
            x = float(min(1 / (2 * self.scale), Fraction(700)))
            return 2.0 * (x / math.sinh(x)) ** 2 if x else 2.0
        if self.scale > 2:
            return 1.0 + float(1 / (12 * self.scale**2))
        if self.scale < Fraction(1, 1000):
            return 0.0  # a deviation of 500 standard deviations
        sd = float(self.scale)
        k = np.arange(1, 40)
        tails = np.array([math.erfc(x) for x in (k - 0.5) / (sd * math.sqrt(2))])  # P(|X| >= k)
        return float(((2 * k - 1) * tails).sum()) / sd**2

    @property
    def exact_variance(self) -> Fraction:
        """Variance of one entry, in votes squared, as a rational to double precision: at any scale."""
        return Fraction(self.relative_variance) * self.scale**2

    @property
    def cyclic_variance(self) -> Fraction:
        """Variance on each dimension of the cyclic part of a table: here the same everywhere."""
        return self.exact_variance

    @property
    def variance(self) -> float:
        """Variance of one entry, in votes squared (``inf`` where a double cannot hold it).

        >>> round(NoiseLaw(family="rounded-gaussian", scale=Fraction(10)).variance, 6)
        100.083333
        """
        return self.sd**2 if self.sd < 1e150 else math.inf

    @property
    def sd(self) -> float:
        """Standard deviation of one entry, in votes (``inf`` where a double cannot hold it)."""
        return _root(self.exact_variance)

    def simulate(self, size: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
        """Independent draws for what-if computations; never a release (doubles, a seeded generator).

        >>> NoiseLaw().simulate((2,), np.random.default_rng(1)).tolist()
        [0.0, 0.0]
        """
        scale = float(self.scale)
        if self.family == "none":
            return np.zeros(size)
        if self.family == "discrete-laplace":
            # The difference of two geometric variables is discrete Laplace.
            tail = -math.expm1(-1 / scale)
            return (rng.geometric(tail, size) - rng.geometric(tail, size)).astype(np.float64)
        return np.rint(rng.normal(0.0, scale, size))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedNoise:
    """The law of noise that differs between the two parts of a table of margins.

    The gradient part ``(r_u - r_v) / m`` (r the row sums) has m - 1 dimensions, the cyclic rest (m - 1)(m - 2)/2.
    ``gradient`` and ``cyclic`` are the variances on each dimension, in votes squared; ``cyclic`` is ``None`` where that
    part was not released and is 0 in the table. Normal up to rounding, or sums of many draws.
    """

    m: int
    gradient: Fraction
    cyclic: Fraction | None

    @property
    def cyclic_variance(self) -> Fraction:
        """Variance on each dimension of the cyclic part; 0 where it was not released."""
        return Fraction(0) if self.cyclic is None else self.cyclic

    @property
    def variance(self) -> float:
        """Variance of one entry, in votes squared: the gradient part has 2/m of each entry's dimensions.

        >>> PartedNoise(m=4, gradient=Fraction(10), cyclic=Fraction(30)).variance
        20.0
        """
        return float(self._variance) if self._variance < Fraction(10) ** 300 else math.inf

    @property
    def _variance(self) -> Fraction:
        share = Fraction(2, max(self.m, 2))
        return share * self.gradient + (1 - share) * self.cyclic_variance

    @property
    def sd(self) -> float:
        """Standard deviation of one entry, in votes (``inf`` where a double cannot hold it).

        >>> PartedNoise(m=4, gradient=Fraction(10) ** 400, cyclic=None).sd  # the variance is above all doubles
        7.071067811865475e+199
        """
        return _root(self._variance)

    def simulate(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """One antisymmetric table of such noise, for what-if computations; never a release."""
        m = self.m
        scores = rng.normal(0.0, math.sqrt(float(self.gradient) * m), m) / m
        table = scores[:, None] - scores[None, :]
        rest = np.triu(rng.normal(0.0, math.sqrt(float(self.cyclic_variance)), (m, m)), 1)
        rest = rest - rest.T
        means = rest.mean(axis=1)
        cyclic: NDArray[np.float64] = table + rest - (means[:, None] - means[None, :])
        return cyclic


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairNoise:
    """The law of noise whose variance differs from pair to pair: sums of many randomised answers, about normal.

    ``variances`` has shape ``(m, m)``, symmetric, in votes squared, 0 for pairs that nobody answered.
    """

    variances: NDArray[np.float64]

    def __post_init__(self) -> None:
        table = np.array(self.variances, dtype=np.float64)  # a copy of our own
        if table.ndim != 2 or not np.array_equal(table, table.T) or not ((table >= 0) & (table < np.inf)).all():
            raise ParameterError("variances must be a symmetric table of finite numbers >= 0")
        table.setflags(write=False)
        object.__setattr__(self, "variances", table)

    @property
    def variance(self) -> float:
        """The largest variance of an entry, in votes squared.

        >>> PairNoise(variances=np.array([[0.0, 9.0], [9.0, 0.0]])).sd
        3.0
        """
        return float(self.variances.max(initial=0.0))

    @property
    def cyclic_variance(self) -> Fraction:
        """The mean variance of an entry: what it adds to each dimension of the cyclic part, on average."""
        m = len(self.variances)
        return Fraction(float(self.variances.sum()) / (m * (m - 1))) if m > 1 else Fraction(0)

    @property
    def sd(self) -> float:
        """The largest standard deviation of an entry, in votes."""
        return math.sqrt(self.variance)

    def simulate(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """One antisymmetric table of such noise, normal, for what-if computations."""
        table = np.triu(rng.normal(0.0, 1.0, self.variances.shape) * np.sqrt(self.variances), 1)
        return table - table.T


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairwiseEstimate:
    """Estimated margins between items, with the known law of the noise in them.

    Attributes
    ----------
    items
        The m item names.
    margins
        Shape ``(m, m)``, antisymmetric, in votes: int64, Python integers, fractions, or doubles from devices' reports.
    answers
        Shape ``(m, m)``, symmetric: how many answered each pair, where that is known; else ``None``.
    noise
        The law of the noise: independent in each entry u < v with one law or a variance for each pair, or in parts.
    """

    items: tuple[str, ...]
    margins: NDArray[Any]
    answers: NDArray[Any] | None = None
    noise: NoiseLaw | PartedNoise | PairNoise = NoiseLaw()

    def __post_init__(self) -> None:
        shape = (len(self.items), len(self.items))
        for name, table in (("margins", self.margins), ("answers", self.answers)):
            if table is not None and table.shape != shape:
                raise ParameterError(f"{name} must have shape {shape}, got {table.shape}")
        if not np.array_equal(self.margins, -self.margins.T):
            raise ParameterError("margins must be antisymmetric")

    @classmethod
    def from_data(cls, data: Profile | Comparisons, *, unranked: Unranked = "last") -> PairwiseEstimate:
        """The exact estimate. Not private: for the holder alone, and so is what is computed from it.

        >>> from psephos import Profile
        >>> p = Profile.from_rankings({("tea", "coffee"): 7, ("coffee", "tea"): 3}, items=["tea", "coffee"])
        >>> PairwiseEstimate.from_data(p).shares().tolist()
        [[0.5, 0.7], [0.3, 0.5]]
        """
        return cls(
            items=data.items,
            margins=pairwise_margins(data, unranked=unranked),
            answers=pair_counts(data, unranked=unranked),
        )

    @property
    def variance(self) -> float:
        """Variance of the noise in each entry of ``margins`` (not of the sampling), in votes squared."""
        return self.noise.variance

    def shares(self) -> NDArray[np.float64]:
        """Estimated share of answers that prefer u to v, ``(1 + W/N)/2``; NaN where nobody answered.

        Noise can carry a share outside [0, 1]. The diagonal is 1/2.

        Raises
        ------
        ParameterError
            if the numbers of answers are not known: they were not released.
        """
        if self.answers is None:
            raise ParameterError("shares need the number of answers of each pair, and it was not released")
        m = len(self.items)
        margins, answers = self.margins.tolist(), self.answers.tolist()  # Python numbers: numpy's do not widen
        shares = np.full((m, m), 0.5)
        for u in range(m):
            for v in range(m):
                if u != v:
                    n = Fraction(answers[u][v])
                    shares[u, v] = float((1 + margins[u][v] / n) / 2) if n > 0 else math.nan
        return shares

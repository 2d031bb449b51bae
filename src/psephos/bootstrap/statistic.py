"""The released statistic: integers, added exactly, with exact noise.

One release of noisy training is the sum, over a Poisson minibatch, of each record's weighted gradient, plus normal
noise. Added as floating-point numbers, one record could move the sum by more than its norm, since rounding depends on
what is added before. Here a record's weighted gradient becomes a vector of **integers** in units of a grid g = 2^-e,
*before* anything is added:

1. shrink the gradient to norm C if it is longer, and multiply it by ``cap / C``, ``cap = floor(w C / g)``, a little
   less (2^-20) so that rounding cannot lift it over the cap;
2. truncate every coordinate toward zero (the norm cannot grow);
3. a vector whose integer norm still exceeds ``cap``, and any that is not a number, counts as zero.

Step 3 is exact integer arithmetic and holds for any gradient whatever, so the bound rests on neither the loss nor the
data. The integers are added in 64 bits (their sum is at most (1 + 1/n_S) C / g in norm, far below 2^62), so the sum
does not depend on order. The noise is ``round(Z / g)`` with Z normal, exactly (:mod:`psephos.privacy.samplers`);
rounding commutes with adding integers, so the release *is* the Gaussian mechanism followed by rounding, and its
accounting holds as it stands.

**Inclusion is secret.** Every record enters every minibatch independently with probability q = k / 2^32, exactly: over
all records of consecutive minibatches in one row, the gaps between those that enter are independent and geometric
(:func:`psephos.privacy.samplers.geometric_array`, exact, bits from the operating system), and nothing remembers them. A
minibatch that outgrows its room gets more room; none is cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos._check import Exact, positive
from psephos.bootstrap.loss_protocol import namespace
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource
from psephos.privacy.events import float_below
from psephos.privacy.samplers import geometric_array, rounded_gaussian_array

__all__ = ["Grid", "PoissonSampling", "Segment", "integer_contributions", "integer_noise"]

_FINEST = 24  # a contribution has at most 2^24 steps: what a single-precision product can resolve
_SHRINK = 1 - 2.0**-20


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The grid of a statistic.

    Attributes
    ----------
    exponent
        e: the spacing is g = 2^-e.
    gradient_bound
        C > 0, the bound that is accounted for.
    divisor
        n_S >= 1: a record in a block of weight u weighs ``u / n_S``. 1 for plain sums.

    >>> grid = Grid.for_bound(2.5, divisor=500)
    >>> grid.caps(np.array([0.0, 0.05, 1.0]))
    array([       0,   536870, 10737418], dtype=int32)
    >>> float(grid.spacing) == 2.0**-31
    True
    """

    exponent: int
    gradient_bound: float
    divisor: int = 1

    @classmethod
    def for_bound(cls, gradient_bound: float, *, divisor: int = 1) -> Grid:
        """The finest grid on which a contribution ``C / n_S`` has at most 2^24 steps."""
        exact_bound = positive(gradient_bound, "gradient_bound")
        if not Fraction(1, 10**30) <= exact_bound <= 10**30:
            raise ParameterError(f"gradient_bound must be >= 1e-30 and <= 1e30, got {gradient_bound!r}")
        largest = exact_bound / divisor
        exponent = _FINEST - math.ceil(math.log2(largest))
        while largest * Fraction(2) ** exponent > 2**_FINEST:
            exponent -= 1
        return cls(exponent=exponent, gradient_bound=float_below(exact_bound), divisor=divisor)

    @property
    def spacing(self) -> Fraction:
        """g."""
        return Fraction(2) ** -self.exponent

    def caps(self, weights: NDArray[np.float64]) -> NDArray[np.int32]:
        """``floor(w C / (n_S g))`` for block weights in [0, 1], or one less where rounding cannot tell."""
        largest = float(self.gradient_bound / self.divisor / self.spacing)
        known = np.nan_to_num(np.clip(weights, 0, 1), nan=0.0)
        return np.asarray(np.floor(known * largest * (1 - 2.0**-50)), dtype=np.int32)

    def noise_scale(self, sigma: float) -> Fraction:
        """sigma in steps of the grid.

        Raises
        ------
        ParameterError
            for noise of 2^40 steps or more, far above anything that a statistic on this grid could show.
        """
        scale = Fraction(sigma) / self.spacing
        if scale >= 2**40:
            raise ParameterError(
                "epsilon and delta must be such that noise is below 2**40 steps of the statistic's grid, and they ask "
                f"for {float(scale):.3g} steps"
            )
        return scale


def integer_contributions(gradients: Any, caps: Any, gradient_bound: float) -> Any:
    """Each record's contribution in integers, of norm at most its cap.

    Parameters
    ----------
    gradients
        ``(n, d)``, single precision, numpy or jax.
    caps
        ``(n,)`` int32, at most 2^24; 0 for a record that does not take part.
    gradient_bound
        C.

    Returns
    -------
    ``(n, d)`` int32.

    >>> integer_contributions(np.array([[3.0, 4.0], [np.nan, 1.0], [30.0, 40.0]], np.float32), np.full(3, 100), 10.0)
    array([[29, 39],
           [ 0,  0],
           [59, 79]], dtype=int32)
    """
    xp: Any = namespace(gradients)
    caps = xp.clip(xp.asarray(caps), 0, 2**_FINEST)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not a number counts as zero
        bound = np.float32(gradient_bound)
        largest = xp.max(xp.abs(gradients), axis=-1)
        # Scaled by its largest coordinate, no square overflows or vanishes.
        unit = gradients / xp.where(largest > 0, largest, 1)[:, None]
        norms = largest * xp.sqrt(xp.sum(unit * unit, axis=-1))
        factor = caps.astype(xp.float32) * np.float32(_SHRINK) / xp.maximum(norms, bound)
        scaled = gradients * factor[:, None]
        finite = xp.isfinite(norms) & xp.all(xp.isfinite(scaled), axis=-1)
        room = caps.astype(xp.float32)[:, None]
        steps = xp.trunc(xp.clip(xp.where(finite[:, None], scaled, 0), -room, room)).astype(xp.int32)
        wide = steps.astype(xp.int64)
        cap = caps.astype(xp.int64)
        within = xp.sum(wide * wide, axis=-1) <= cap * cap
    return xp.where(within[:, None], steps, 0).astype(xp.int32)


def integer_noise(grid: Grid, sigma: float, shape: tuple[int, ...], bits: BitSource) -> NDArray[np.int64]:
    """Normal noise of standard deviation ``sigma`` in steps of the grid, rounded, exactly."""
    return rounded_gaussian_array(grid.noise_scale(sigma), math.prod(shape), bits).astype(np.int64).reshape(shape)


@dataclass(frozen=True, slots=True)
class PoissonSampling:
    """Each record independently with probability ``threshold / 2^32``.

    >>> sampling = PoissonSampling.of("0.1")
    >>> sampling.threshold, float(sampling.probability)
    (429496729, 0.09999999986030161)
    """

    threshold: int

    @classmethod
    def of(cls, probability: Exact) -> PoissonSampling:
        """The largest k / 2^32 that is at most ``probability``, from 2^-32 to 1.

        Raises
        ------
        ParameterError
            out of that range.
        """
        value = positive(probability, "probability")
        if not Fraction(1, 2**32) <= value <= 1:
            raise ParameterError(f"probability must be >= 2**-32 and <= 1, got {probability!r}")
        return cls(math.floor(value * 2**32))

    @property
    def probability(self) -> Fraction:
        """q, exactly."""
        return Fraction(self.threshold, 2**32)

    def room(self, records: int) -> int:
        """Places for a minibatch: n q and twelve standard deviations."""
        q = float(self.probability)
        room = math.ceil(records * q + 12 * math.sqrt(records * q * (1 - q))) + 8
        return min(records, -(-room // 8) * 8)

    def successes(self, trials: int, bits: BitSource) -> NDArray[np.int64]:
        """Which of so many independent trials succeed: increasing positions.

        A gap that reaches beyond the last trial says no more than that no other succeeds: trials forget.
        """
        if self.threshold == 2**32:
            return np.arange(trials)
        q = float(self.probability)
        parts: list[NDArray[np.int64]] = []
        last = -1
        while last < trials:
            rest = (trials - last) * q
            size = min(math.ceil(rest + 6 * math.sqrt(rest)) + 8, _GAPS)
            gaps = geometric_array(self.probability, size, bits)
            parts.append(np.asarray(last + np.cumsum(gaps + 1), dtype=np.int64))
            last = int(parts[-1][-1])
        positions = np.concatenate(parts)
        return positions[: int(np.searchsorted(positions, trials))]

    def minibatches(self, records: int, count: int, bits: BitSource) -> NDArray[np.int32]:
        """``count`` minibatches, ``(count, room)``: positions, increasing, then ``records`` in the empty places."""
        positions = self.successes(records * count, bits)
        starts = np.searchsorted(positions, np.arange(count + 1) * records)
        sizes = np.diff(starts)
        table = np.full((count, max(self.room(records), int(sizes.max(initial=0)))), records, dtype=np.int32)
        filled = np.arange(table.shape[1]) < sizes[:, None]
        table[filled] = positions - np.repeat(np.arange(count) * records, sizes)
        return table


_GAPS = 2**20  # gaps that are drawn at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """What T' consecutive steps of K draws use.

    Attributes
    ----------
    positions, caps
        ``(T', K, room)``: records that take part (n in an empty place), and the caps of their contributions.
    inputs
        ``(T', K, inputs)``: what the generator reads: block weights, and the level if there is one.
    levels
        ``(T', K)``, zeros without levels.
    pseudo_weights
        ``(T', K, pseudo-samples)``: q times the weight of each pseudo-sample.
    noise
        ``(T', K, d)``: integers.
    """

    positions: NDArray[np.int32]
    caps: NDArray[np.int32]
    inputs: NDArray[np.float32]
    levels: NDArray[np.float32]
    pseudo_weights: NDArray[np.float32]
    noise: NDArray[np.int64]

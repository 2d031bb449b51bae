"""Privacy-loss distributions: the tightest composition of subsampled Gaussian steps.

The loss of an outcome is ``log dP/dQ``; its law under P, with whatever P does not share with Q as a loss of +inf,
determines ``delta(eps) = E (1 - e^(eps - loss))_+``, and independent steps add their losses. The pair of
:mod:`psephos.privacy.subsampled` dominates every step, so its TK-fold sum bounds TK adaptive steps.

**Loss of one step.** At outcome x, for displacement a,

    loss = log(1 - q + q e^(ax - a^2/2)) - log(1 - q + q e^(-ax - a^2/2)),

increasing in x, odd, with the inverse ``a x = loss/2 + asinh((1-q)/q e^(a^2/2) sinh(loss/2))``. The pair with its
public weight has ``H_c = sum over bins of weight of (mass of bin) H_c(P_a || Q_a)``, so losses are tabulated per bin
and averaged.

**Why each approximation is sound** (each one only raises every H_c, or is added to delta):

* weights go to the upper edge of their bin, because H_c does not decrease in a; the weight's last 1e-22 goes to +inf;
* *connect the dots*: losses go to a grid of step h. In a cell [e, e + h] the pair carries masses p under P and p'
  under Q; they are replaced by two atoms at e and e + h with the same p and p'. Splitting a mass over two points
  keeps p and p' and raises E g(loss) for every g(l) = (1 - e^(eps - l))_+, because in the variable v = e^-l that is
  (1 - e^eps v)_+, convex, and the atoms keep the mean of v. This is the least dominating law on the grid (Doroshenko
  et al. 2022);
* outcomes beyond 9.8 standard deviations, and ends of the table that carry 1e-22, go up: to +inf on the one side, to
  the end of the grid on the other;
* the sum is a circular convolution on a window; Chernoff's bound of what leaves it at either end is added to delta;
* the round-off of the transforms is bounded (:func:`_power`) and added to delta, that of the split to the split;
* where a grid would be too large, the step is no worse than its Gaussian without subsampling at the largest weight
  (joint convexity), which composes in closed form: a fallback that is always valid;
* so are Renyi moments (:mod:`psephos.privacy.rdp`), which say more of deltas near what is added here for round-off.

Transforms: a sum of n losses has the characteristic function ``phi^n``, which multiplies errors of phi by n. So the few
frequencies that survive the power are summed directly, ``1 - Re phi = 2 sum p_j sin^2(.)``, without cancellation; the
others are certified to vanish.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from psephos._check import check_integer, check_real
from psephos.errors import ParameterError
from psephos.privacy import gaussian, rdp
from psephos.privacy.subsampled import LEFTOVER, FixedWeight, SubsampledGaussian, WeightBins

__all__ = ["LossDistribution", "compose_losses_upper", "delta_upper", "epsilon_upper", "step_losses_upper"]

Array = NDArray[np.float64]

_REACH = 9.8  # standard deviations; the tail beyond is below 1e-22
_LOG_WINDOW = -46.0  # log of the mass that may leave the window at either end: 1e-20
_MOST_CELLS = 30_000_000  # pairs of (bin, cell) in one step
_MOST_POINTS = 1 << 22  # points of a window
_MOST_TERMS = 60_000_000  # terms of characteristic functions summed directly
_CHUNK = 1_500_000
_EPS = 2.0**-52
_FINE = 1e-9  # deltas near what round-off adds: Renyi moments may say more
_SUMS = 1e-10  # relative rounding of a sum of at most 2**22 positive numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossDistribution:
    """A dominating privacy-loss distribution on a grid.

    Attributes
    ----------
    spacing
        The grid's step h > 0, nats.
    first
        Index of the lowest loss: ``masses[j]`` sits at ``(first + j) * spacing``.
    masses
        Probabilities under P, >= 0.
    infinite
        Mass of the loss +inf.
    slack
        Bound on all numerical error so far, to be added to every delta.
    """

    spacing: float
    first: int
    masses: Array
    infinite: float
    slack: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.spacing < math.inf and self.infinite >= 0 and self.slack >= 0):
            raise ParameterError("spacing must be > 0, infinite and slack >= 0")
        if not (self.masses.size and bool(np.all(self.masses >= 0))):
            raise ParameterError("masses must be numbers >= 0, at least one")

    @property
    def losses(self) -> Array:
        """The grid of losses, in nats."""
        return (self.first + np.arange(self.masses.size, dtype=np.float64)) * self.spacing

    def delta_upper(self, epsilon: float) -> float:
        """delta at ``epsilon`` >= 0, at most 1."""
        eps = check_real(epsilon, "epsilon", low=0)
        gain = -np.expm1(np.minimum(eps - self.losses, 0))
        total = float(self.masses @ gain) + self.infinite + self.slack
        return min(1.0, total * (1 + _SUMS))

    def epsilon_upper(self, delta: float) -> float:
        """The least epsilon >= 0 with ``delta_upper(epsilon) <= delta``, rounded up; ``inf`` where there is none."""
        if not 0 < delta < 1:
            raise ParameterError(f"delta must be > 0 and < 1, got {delta!r}")
        if self.delta_upper(0.0) <= delta:
            return 0.0
        if self.infinite + self.slack >= delta:
            return math.inf
        losses = self.losses
        low, high = max(int(np.searchsorted(losses, 0)) - 1, 0), losses.size - 1
        while high - low > 1:  # first grid point at which delta is met
            middle = (low + high) // 2
            low, high = (low, middle) if self.delta_upper(float(losses[middle])) <= delta else (middle, high)
        # Between grid points delta is A - e^eps B; start at the exact root, go up until the bound itself agrees.
        above = slice(high, None)
        reach = float(self.masses[above].sum()) + self.infinite + self.slack - delta
        weight = float(self.masses[above] @ np.exp(losses[high] - losses[above]))
        root = losses[high] + math.log(reach / weight) if reach > 0 and weight > 0 else losses[high]
        epsilon = min(max(float(root), float(losses[low]), 0.0), float(losses[high]))
        for nudge in (0.0, 1e-12, 1e-10, 1e-8):
            candidate = epsilon + nudge * (self.spacing + epsilon)
            if self.delta_upper(candidate) <= delta:
                return candidate
        return float(losses[high]) if self.delta_upper(float(losses[high])) <= delta else math.inf


def step_losses_upper(step: SubsampledGaussian, *, spacing: float) -> LossDistribution:
    """The dominating loss distribution of one step on a grid.

    >>> from psephos.privacy.subsampled import FixedWeight
    >>> step = SubsampledGaussian(probability=0.1, shift=0.5, weight=FixedWeight())
    >>> losses = step_losses_upper(step, spacing=1e-3)
    >>> 0.0382 < losses.delta_upper(0) < 0.0384  # 0.1 * (2 Phi(0.5) - 1)
    True
    """
    h = check_real(spacing, "spacing", low=1e-300)
    if step.shift == 0:
        return LossDistribution(spacing=h, first=0, masses=np.ones(1), infinite=0.0)
    bins = step.weight.bins()
    a = step.shift * bins.upper
    cells = _cells(step, a, h)
    most = int(cells.max())
    if int(cells.sum()) > _MOST_CELLS or most > _MOST_POINTS:
        raise ParameterError(f"spacing {spacing!r} asks for too many cells")
    upper, lower = np.zeros(most), np.zeros(most)  # P and Q masses of the cells [i h, (i + 1) h], i >= 0
    at_top = np.zeros(most + 1)  # what the low end of a bin's outcomes puts at loss -i h
    infinite = bins.above
    for start, stop in _chunks(cells):
        columns = int(cells[stop - 1])
        x = _outcome(step.probability, a[start:stop, None], h * np.arange(columns + 1.0))
        # Beyond a bin's own reach there is nothing but its tail, which is counted below.
        x = np.minimum(x, np.take_along_axis(x, cells[start:stop, None], axis=1))
        p, p_tail = _masses(step.probability, x, a[start:stop, None], +1)
        q, q_tail = _masses(step.probability, x, a[start:stop, None], -1)
        mass = bins.mass[start:stop]
        upper[:columns] += mass @ p
        lower[:columns] += mass @ q
        infinite += float(mass @ p_tail)
        np.add.at(at_top, cells[start:stop], mass * q_tail)
    masses, first, lost = _pruned(_split(upper, lower, at_top, h), -most)
    return LossDistribution(spacing=h, first=first, masses=masses, infinite=(infinite + lost) * (1 + _SUMS))


def _pruned(masses: Array, first: int) -> tuple[Array, int, float]:
    """Without the ends that carry 1e-22: (masses, index of the first, what went to +inf); the low end goes up."""
    low = int(np.searchsorted(np.cumsum(masses), LEFTOVER))
    from_top = np.cumsum(masses[::-1])
    cut = int(np.searchsorted(from_top, LEFTOVER))
    kept = masses[low : masses.size - cut].copy()
    kept[0] += float(masses[:low].sum())
    return kept, first + low, float(from_top[cut - 1]) if cut else 0.0


def _cells(step: SubsampledGaussian, a: Array, h: float) -> NDArray[np.intp]:
    """How many cells of step h each bin's losses reach on either side; non-decreasing in a."""
    ax, half, q = a * (_REACH + a), a * a / 2, step.probability
    if q == 1:
        reach = 2 * ax
    else:
        log_rest = math.log1p(-q)
        reach = np.logaddexp(log_rest, math.log(q) + ax - half) - np.logaddexp(log_rest, math.log(q) - ax - half)
    return np.minimum(np.ceil(reach / h), 1e12).astype(np.intp) + 1


def _chunks(cells: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Runs of bins whose table of (bins, most cells) stays small; the bins are in increasing order of cells."""
    runs, start = [], 0
    while start < cells.size:
        stop = start + 1
        while (
            stop < cells.size
            and (stop + 1 - start) * int(cells[stop]) <= _CHUNK
            and (int(cells[stop]) <= 1.2 * int(cells[start]) + 8)
        ):
            stop += 1
        runs.append((start, stop))
        start = stop
    return runs


def _outcome(q: float, a: Array, loss: Array) -> Array:
    """The x at which a step of displacement a has the given losses >= 0."""
    if q == 1:
        return loss / (2 * a)
    # asinh(k sinh(l/2)), also where sinh overflows
    log_k = math.log1p(-q) - math.log(q) + a * a / 2
    half = loss / 2
    with np.errstate(divide="ignore"):
        log_sinh = half + np.log(-np.expm1(-loss)) - math.log(2)
    s = log_k + log_sinh
    grown = np.where(s > 30, s + math.log(2), np.arcsinh(np.exp(np.minimum(s, 30))))
    return (half + grown) / a


def _masses(q: float, x: Array, a: Array, sign: int) -> tuple[Array, Array]:
    """Probabilities of the cells between outcomes x >= 0, and beyond the last, for (1-q) N(0,1) + q N(sign a, 1)."""
    tail = q * special.ndtr(sign * a - x)
    if q < 1:
        tail += (1 - q) * special.ndtr(-x)
    return tail[:, :-1] - tail[:, 1:], tail[:, -1]


def _split(upper: Array, lower: Array, at_top: Array, h: float) -> Array:
    """Connect the dots: masses at -n h, ..., n h from those of the cells [i h, (i+1) h] and their mirror images.

    ``upper`` and ``lower`` are the masses of a cell under P and Q; its mirror image carries them exchanged.
    """
    n = upper.size
    width = -math.expm1(-h)
    upper, lower = np.maximum(upper, 0), np.maximum(lower, 0)
    edges = h * np.arange(n + 1.0)
    # Cells are differences of tails, each known to a few ulps: what that may hide goes to the upper end.
    lost = 64 * _EPS / width * np.cumsum(np.maximum(upper, lower)[::-1])[::-1]
    result = np.zeros(2 * n + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        q_scaled = np.where(lower > 0, lower * np.exp(np.minimum(edges[:-1], 700)), 0)  # less is safe
    high = np.clip((upper - q_scaled) / width + lost, 0, upper)
    result[n + 1 :] += high
    result[n:-1] += upper - high
    high = np.clip((lower - upper * np.exp(-edges[1:])) / width + lost, 0, lower)
    result[n:0:-1] += high
    result[n - 1 :: -1] += lower - high
    result[n::-1] += at_top
    return result * (1 + 16 * _EPS)


def compose_losses_upper(parts: Sequence[tuple[LossDistribution, int]]) -> LossDistribution:
    """The loss distribution of several mechanisms one after another: pairs of (losses of one, how many).

    All must share one grid step.

    Raises
    ------
    ParameterError
        for different grids, for a window of more than 2**22 points, or for too many terms (choose a wider spacing).

    >>> from psephos.privacy.subsampled import FixedWeight
    >>> step = SubsampledGaussian(probability=1.0, shift=0.05, weight=FixedWeight())
    >>> losses = compose_losses_upper([(step_losses_upper(step, spacing=0.004), 100)])
    >>> 4.377 < losses.epsilon_upper(1e-5) < 4.379  # a Gaussian of mu = 2 * 0.05 * 10
    True
    """
    counts = [check_integer(times, "times", low=1) for _, times in parts]
    if not parts or any(part.spacing != parts[0][0].spacing for part, _ in parts):
        raise ParameterError("parts must be at least one, on one grid")
    losses = [part for part, _ in parts]
    h = losses[0].spacing
    low, high = _window(losses, counts)
    if high - low >= _MOST_POINTS:
        raise ParameterError("the composed losses ask for too wide a window; choose a wider spacing")
    size = int(fft.next_fast_len(high - low + 1, real=True))
    masses, error = _power(losses, counts, low, size)
    infinite = -math.expm1(
        sum(n * math.log1p(-min(part.infinite, 1 - _EPS)) for part, n in zip(losses, counts, strict=True))
    )
    slack = sum(n * part.slack for part, n in zip(losses, counts, strict=True)) + error + 2 * math.exp(_LOG_WINDOW)
    return LossDistribution(spacing=h, first=low, masses=masses, infinite=infinite * (1 + 64 * _EPS), slack=slack)


def _window(losses: Sequence[LossDistribution], counts: Sequence[int]) -> tuple[int, int]:
    """Indices between which all but e^-46 of the sum lies, at either end (Chernoff's bound over a few rates)."""
    h = losses[0].spacing
    lowest = sum(n * part.first for part, n in zip(losses, counts, strict=True))
    highest = sum(n * (part.first + part.masses.size - 1) for part, n in zip(losses, counts, strict=True))
    ends = [highest, lowest]
    spread = math.sqrt(
        sum(n * float(part.masses @ np.square(part.losses)) for part, n in zip(losses, counts, strict=True))
    )
    for side, sign in enumerate((+1, -1)):
        best = math.inf
        for rate in math.sqrt(-2 * _LOG_WINDOW) / max(spread, h) * np.geomspace(0.05, 3, 25):
            growth = sum(n * _log_mean_exp(part, sign * rate) for part, n in zip(losses, counts, strict=True))
            best = min(best, (growth - _LOG_WINDOW) / rate)
        if math.isfinite(best):
            end = math.ceil(best / h) + 1
            ends[side] = min(highest, end) if sign > 0 else max(lowest, -end)
    return min(ends[1], ends[0]), max(ends[1], ends[0])


def _log_mean_exp(part: LossDistribution, rate: float) -> float:
    exponent = rate * part.losses
    top = float(exponent.max())
    if top < 600:
        return math.log1p(float(part.masses @ np.expm1(exponent)) + max(float(part.masses.sum()) - 1, 0.0))
    return top + math.log(float(part.masses @ np.exp(exponent - top)) + 1e-300)  # what underflowed is less


def _power(losses: Sequence[LossDistribution], counts: Sequence[int], low: int, size: int) -> tuple[Array, float]:
    """Masses of the sum at indices low, ..., low + size - 1 (circularly), and a bound on their total error.

    Errors d_k of the sum's transform at the frequencies k move its masses by at most ``sqrt(sum over k of |d_k|^2)``
    in total (Parseval and Cauchy-Schwarz); a relative error e in phi makes one of about n e in phi^n. Frequencies at
    which the product is below e^-55 are set to zero and counted as errors.
    """
    angles = 2 * math.pi / size * np.arange(size // 2 + 1.0)
    logs = np.zeros(angles.size, dtype=np.complex128)
    level = np.zeros(angles.size)  # an upper bound on log |product|
    coarse = 0.0
    for part, n in zip(losses, counts, strict=True):
        folded = np.bincount(np.mod(part.first + np.arange(part.masses.size), size), part.masses, minlength=size)
        values = fft.rfft(folded)
        error = _transform_error(size) * float(np.linalg.norm(part.masses))
        coarse += n * error
        level += n * np.log(np.abs(values) + error)
        logs += n * np.log(np.where(values == 0, 1e-300, values))
    kept = np.flatnonzero(level > -55)
    dropped = float(np.exp(level[level <= -55]).sum())
    relative = _EPS * (16 + np.abs(logs[kept]))
    # Many steps need more than the fast transform's accuracy.
    direct = coarse > 1e-13 and kept.size * max(part.masses.size for part in losses) <= _MOST_TERMS
    if coarse > 1e-9 and not direct:
        raise ParameterError("the composed losses ask for too many terms; choose a wider spacing")
    if direct:
        coarse = 0.0
        logs[kept], level[kept] = 0, 0
        for part, n in zip(losses, counts, strict=True):
            value, value_error = _characteristic_minus_one(part, angles[kept])
            size_of = np.abs(1 + value)
            logs[kept] += n * _log_one_plus(value)
            level[kept] += n * np.log(size_of + value_error)
            relative += n * value_error / np.maximum(size_of, value_error)
        relative += _EPS * np.abs(logs[kept])
    # Turn the phase to the window's start, so that the inverse transform begins there.
    product = np.zeros(angles.size, dtype=np.complex128)
    product[kept] = np.exp(logs[kept] + 2j * math.pi / size * np.mod(kept * (low % size), size))
    masses = fft.irfft(product, size)
    error = 2 * float(np.linalg.norm(np.exp(level[kept]) * np.expm1(np.minimum(relative, 50))))
    error += 2 * dropped + 2 * coarse + _transform_error(size) * float(np.linalg.norm(masses))
    return np.maximum(masses, 0), error


def _log_one_plus(value: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """log(1 + x + iy) with a real part that does not cancel near 0: numpy's own complex log1p loses it."""
    x, y = value.real, value.imag
    excess = x * (2 + x) + y * y  # |1 + value|^2 - 1
    near = excess > -0.5
    logs = np.where(near, np.log1p(np.where(near, excess, 0)) / 2, np.log(np.maximum(np.abs(1 + value), 1e-300)))
    return np.asarray(logs + 1j * np.arctan2(y, 1 + x))


def _transform_error(size: int) -> float:
    """What a fast transform of ``size`` points may lose of the l2 norm, times the square root of the size."""
    return 8 * _EPS * math.log2(size + 1) * math.sqrt(size)


def _characteristic_minus_one(part: LossDistribution, angles: Array) -> tuple[NDArray[np.complex128], Array]:
    """E e^(-i angle index) - 1 at a few angles, by direct summation without cancellation, and a bound on its error."""
    index = (part.first + np.arange(part.masses.size)).astype(np.float64)
    value = np.zeros(angles.size, dtype=np.complex128)
    error = np.zeros(angles.size)
    excess = math.fsum(part.masses) - 1  # negative where some mass is infinite
    for i, angle in enumerate(angles):
        half = angle / 2 * index
        sine = np.sin(half)
        # np.sum adds pairwise: a few ulps of the sum of absolute values, all of them below |half| times the masses
        real = -2 * float(np.sum(part.masses * sine * sine))
        imaginary = 2 * float(np.sum(part.masses * sine * np.cos(half)))
        value[i] = complex(excess + real, -imaginary)
        error[i] = 48 * _EPS * float(np.sum(part.masses * np.abs(half)))
    # and what the logarithm of 1 + value loses
    return value, error + 2 * _EPS * abs(excess) + 4 * _EPS * (np.abs(value.real) + np.abs(value.imag))


def epsilon_upper(step: SubsampledGaussian, *, compositions: int, delta: float) -> float:
    """epsilon at ``delta`` of ``compositions`` adaptive steps, with all weights and all intermediate sums released.

    Parameters
    ----------
    step
        The subsampled Gaussian and the law of its public weight.
    compositions
        How many steps, >= 1.
    delta
        0 < delta < 1.

    Returns
    -------
    float
        An upper bound in nats, some 0.05 % above the least where epsilon is of order 1 and steps are many.

    >>> from psephos.privacy.subsampled import BetaWeight
    >>> step = SubsampledGaussian(probability=0.1, shift=0.2217, weight=BetaWeight(0.9, 17.1))
    >>> 0.9 < epsilon_upper(step, compositions=10000, delta=1e-4) < 1.1
    True
    """
    times = check_integer(compositions, "compositions", low=1)
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be > 0 and < 1, got {delta!r}")
    plain = _rounded_up(gaussian.epsilon_upper(_gaussian_mu(step, times), delta))
    if plain == 0 or (step.probability == 1 and isinstance(step.weight, FixedWeight)):
        return plain
    composed = _composed(step, times)
    best = plain if composed is None else min(plain, composed.epsilon_upper(delta))
    return min(best, rdp.steps_epsilon_upper(step, compositions=times, delta=delta)[0]) if delta < _FINE else best


def delta_upper(step: SubsampledGaussian, *, compositions: int, epsilon: float) -> float:
    """delta at ``epsilon`` >= 0 of ``compositions`` adaptive steps: the other reading of :func:`epsilon_upper`.

    >>> from psephos.privacy.subsampled import FixedWeight
    >>> step = SubsampledGaussian(probability=1.0, shift=0.5, weight=FixedWeight())
    >>> round(delta_upper(step, compositions=1, epsilon=0.0), 6)
    0.382925
    """
    times = check_integer(compositions, "compositions", low=1)
    eps = check_real(epsilon, "epsilon", low=0, high=1e12)
    if step.shift == 0:
        return 0.0
    mu = _gaussian_mu(step, times)
    plain = min(1.0, gaussian.delta_upper(mu, eps))
    if step.probability == 1 and isinstance(step.weight, FixedWeight):
        return plain
    composed = _composed(step, times)
    best = plain if composed is None else min(plain, composed.delta_upper(eps))
    return min(best, rdp.steps_delta_upper(step, compositions=times, epsilon=eps)[0]) if best < _FINE else best


def _gaussian_mu(step: SubsampledGaussian, times: int) -> float:
    """Distance of the composed pair without subsampling and at the largest weight, rounded up: a valid bound."""
    return min(2 * step.shift * math.sqrt(times) * (1 + 8 * _EPS), 1e200)


def _rounded_up(value: object) -> float:
    try:
        return math.nextafter(float(value), math.inf) if value else 0.0  # type: ignore[arg-type]
    except OverflowError:
        return math.inf


def _composed(step: SubsampledGaussian, times: int) -> LossDistribution | None:
    """The composed losses on a grid fine enough, or ``None`` where every grid tried is too large."""
    bins: WeightBins = step.weight.bins()
    a = step.shift * bins.upper
    # The loss of one step has standard deviation about 2 q a; the grid resolves it, better for few steps.
    deviation = 2 * step.probability * step.shift * math.sqrt(step.weight.second_moment)
    spacing = deviation / (25 * max(1.0, (100 / times) ** 0.25))
    for _ in range(36):
        cells = _cells(step, a, spacing)
        if int(cells.max()) <= _MOST_POINTS // 4 and int(cells.sum()) <= _MOST_CELLS:
            try:
                return compose_losses_upper([(step_losses_upper(step, spacing=spacing), times)])
            except ParameterError:
                pass
        spacing *= 2
    return None

"""Weighted M-estimates: the theta that minimises ``sum_i w_i loss(theta, x_i)`` in the loss's box. Non-private.

theta*(w) of "Private Generative Bootstrap via Blocking", section 2.2, for the targets and the non-private baselines:

* Newton steps on the coordinates that no bound holds, with a Hessian of central differences of the gradient, made
  positive definite where it is not, and a backtracking search on the value (projected Newton, Bertsekas 1982).
* Where those stall, L-BFGS-B from the same place, and Newton steps again.

Weights are scaled to sum to 1, so the gradient is a mean of gradients of records, and the tolerance is one on its norm,
projected on the box: ``|theta - clip(theta - gradient)| <= 1e-8`` in the units of the gradient. Records are worked
through in pieces, so that no more than a few megabytes are needed beyond the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from psephos._check import check_real
from psephos.errors import ParameterError, PsephosError

if TYPE_CHECKING:
    from psephos.bootstrap.losses import Loss, Records

__all__ = ["ConvergenceError", "weighted_m_estimate"]

Floats = NDArray[np.float64]

_TOLERANCE = 1e-8
_PIECE = 16_384  # records at a time
_NEWTON_STEPS = 60
_QUASI_STEPS = 15
_ROUNDING = 1e-13  # a change of the value that is none


class ConvergenceError(PsephosError, ArithmeticError):
    """A fit did not reach its tolerance; the message gives the gradient's norm where it stopped."""


def weighted_m_estimate(
    records: Records,
    loss: Loss,
    weights: ArrayLike | None = None,
    *,
    level: float | None = None,
    start: ArrayLike | None = None,
    tolerance: float = _TOLERANCE,
) -> Floats:
    """The minimiser of the weighted loss in the loss's box. Not private.

    Parameters
    ----------
    records
        Arrays with one leading axis of n >= 1 records each.
    loss
        A loss of :mod:`psephos.bootstrap.losses`, whose ``value`` is a primitive of its ``gradient``. Losses convex in
        theta have one minimum; of others, the one downhill from the start is found.
    weights
        (n,), finite, >= 0, with a sum > 0, and of any scale; equal ones if ``None``.
    level
        Index of the family, for a loss that has ``levels``; else ``None``.
    start
        (d,); the loss's own start if ``None``. What lies outside the box is moved to it.
    tolerance
        Largest norm of the projected gradient of the mean loss, from 1e-13 to 1.

    Returns
    -------
    NDArray
        theta, (d,), within the box.

    Raises
    ------
    ParameterError
        for records of unequal lengths, weights that are none, a level too many or too few, a start of another length.
    ConvergenceError
        where the tolerance was not reached.

    >>> from rivals.m_estimate import weighted_m_estimate
    >>> class Square:
    ...     names, lower, upper, start, levels = ("mean",), (-9.0,), (9.0,), (0.0,), None
    ...     def value(self, theta, records, level=None):
    ...         return (records[0] - theta[0]) ** 2 / 2
    ...     def gradient(self, theta, records, level=None):
    ...         return (theta[0] - records[0])[:, None]
    >>> weighted_m_estimate((np.array([1.0, 2.0, 6.0]),), Square(), [1, 1, 2]).round(6).tolist()
    [3.75]
    """
    check_real(tolerance, "tolerance", low=1e-13, high=1)
    count = count_records(records)
    check_level_of(loss, level)
    share = mean_weights(weights, count)
    begin = np.asarray(loss.start if start is None else start, dtype=np.float64)
    if begin.shape != (len(loss.lower),) or not np.isfinite(begin).all():
        raise ParameterError(f"start must be {len(loss.lower)} finite numbers, got an array of shape {begin.shape}")
    return solve(Problem(records=records, loss=loss, weights=share, level=level), begin, tolerance=tolerance)


def count_records(records: Records) -> int:
    """n, the length of every array's leading axis."""
    if not isinstance(records, tuple) or not records:
        raise ParameterError(f"records must be a tuple of arrays, got {type(records).__name__}")
    lengths = {len(part) if np.ndim(part) else 0 for part in records}
    if len(lengths) != 1 or lengths == {0}:
        raise ParameterError(f"records must be arrays with the same leading axis >= 1, got lengths {sorted(lengths)}")
    return int(lengths.pop())


def check_level_of(loss: Loss, level: float | None) -> None:
    """A level is given exactly where the loss is a family."""
    if (loss.levels is None) != (level is None):
        allowed = "None for a loss without levels" if loss.levels is None else "a number, for a loss with levels"
        raise ParameterError(f"level must be {allowed}, got {level!r}")
    if level is not None:
        check_real(level, "level", low=-1e300, high=1e300)


def mean_weights(weights: ArrayLike | None, count: int) -> Floats:
    """Weights that sum to 1."""
    if weights is None:
        return np.full(count, 1.0 / count)
    given = np.asarray(weights, dtype=np.float64)
    total = float(given.sum()) if given.shape == (count,) else math.nan
    if not (0 < total < math.inf and (given >= 0).all()):
        raise ParameterError(
            f"weights must be {count} finite numbers >= 0 with a sum > 0, got an array of shape {given.shape}"
        )
    return given / total


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One weighted fit: weights (n,) with the sum 1."""

    records: Records
    loss: Loss
    weights: Floats
    level: float | None

    def _pieces(self) -> Iterator[tuple[Floats, Records]]:
        for begin in range(0, len(self.weights), _PIECE):
            part = slice(begin, begin + _PIECE)
            yield self.weights[part], tuple(array[part] for array in self.records)

    def value(self, theta: Floats) -> float:
        return sum(float(w @ self.loss.value(theta, piece, self.level)) for w, piece in self._pieces())

    def gradient(self, theta: Floats) -> Floats:
        total = np.zeros(len(theta))
        for w, piece in self._pieces():
            total += w @ np.asarray(self.loss.gradient(theta, piece, self.level))
        return total

    @property
    def lower(self) -> Floats:
        return np.asarray(self.loss.lower, dtype=np.float64)

    @property
    def upper(self) -> Floats:
        return np.asarray(self.loss.upper, dtype=np.float64)

    def projected(self, theta: Floats, gradient: Floats) -> float:
        """Norm of the projected gradient: 0 at a minimum."""
        return float(np.linalg.norm(theta - np.clip(theta - gradient, self.lower, self.upper)))

    def curvature(self, theta: Floats) -> Floats:
        """The Hessian by differences of the gradient, central where the box has room; (d, d), symmetric."""
        hessian = np.empty((len(theta), len(theta)))
        for j, at in enumerate(theta):
            step = 6e-6 * max(abs(float(at)), min(1.0, float(self.upper[j] - self.lower[j])))
            ahead, behind = theta.copy(), theta.copy()
            ahead[j], behind[j] = min(at + step, self.upper[j]), max(at - step, self.lower[j])
            gap = ahead[j] - behind[j]
            hessian[j] = (self.gradient(ahead) - self.gradient(behind)) / gap if gap > 0 else 0.0
        return (hessian + hessian.T) / 2


def solve(problem: Problem, start: Floats, *, tolerance: float = _TOLERANCE, inverse: Floats | None = None) -> Floats:
    """The minimum downhill from ``start``; ``inverse`` is the inverse Hessian of a like problem at ``start``."""
    theta = np.clip(start, problem.lower, problem.upper)
    if inverse is not None:
        near = _quasi_newton(problem, theta, inverse, tolerance)
        if near is not None:
            return near
    theta, size = _newton(problem, theta, tolerance)
    for _ in range(2):
        if size <= tolerance:
            return theta
        found = minimize(
            problem.value,
            theta,
            jac=problem.gradient,
            method="L-BFGS-B",
            bounds=list(zip(problem.lower, problem.upper, strict=True)),
            options={"maxiter": 1000, "ftol": 0.0, "gtol": tolerance / 10},
        )
        theta, size = _newton(problem, np.clip(found.x, problem.lower, problem.upper), tolerance)
    if size <= tolerance:
        return theta
    raise ConvergenceError(
        f"the fit stopped at theta = {theta.tolist()} with a gradient of norm {size:.3g}, and {tolerance:.3g} was asked"
    )


def _quasi_newton(problem: Problem, theta: Floats, inverse: Floats, tolerance: float) -> Floats | None:
    """Broyden's method from a good inverse Hessian: one gradient a step. ``None`` where it leaves the easy road."""
    gradient = problem.gradient(theta)
    for _ in range(_QUASI_STEPS):
        if float(np.linalg.norm(gradient)) <= tolerance:
            return theta
        step = -inverse @ gradient
        ahead = theta + step
        if not ((ahead > problem.lower) & (ahead < problem.upper)).all():
            return None
        new = problem.gradient(ahead)
        if not float(np.linalg.norm(new)) <= 0.7 * float(np.linalg.norm(gradient)):
            return None
        moved = inverse @ (new - gradient)
        scale = float(step @ moved)
        if scale > 0:
            inverse = inverse + np.outer(step - moved, step @ inverse) / scale
        theta, gradient = ahead, new
    return None


def _newton(problem: Problem, theta: Floats, tolerance: float) -> tuple[Floats, float]:
    """Projected Newton steps until the tolerance or until no step helps; theta and the projected gradient's norm."""
    lower, upper = problem.lower, problem.upper
    value, gradient = problem.value(theta), problem.gradient(theta)
    size = problem.projected(theta, gradient)
    for _ in range(_NEWTON_STEPS):
        if size <= tolerance or not np.isfinite(size):
            break
        free = ~(((theta <= lower) & (gradient > 0)) | ((theta >= upper) & (gradient < 0)))
        direction = np.zeros(len(theta))
        direction[free] = -positive_inverse(problem.curvature(theta)[np.ix_(free, free)]) @ gradient[free]
        length, moved = 1.0, False
        for _ in range(50):
            ahead = np.clip(theta + length * direction, lower, upper)
            new = problem.value(ahead)
            gain = float(gradient @ (ahead - theta))
            slack = _ROUNDING * (1 + abs(value))
            if new <= value + 1e-4 * min(gain, 0.0) + slack:
                slope = problem.gradient(ahead)
                smaller = problem.projected(ahead, slope)
                if new <= value + 1e-4 * min(gain, 0.0) - slack or smaller < 0.99 * size:
                    theta, value, gradient, size, moved = ahead, new, slope, smaller, True
                    break
            length /= 2
        if not moved:
            break
    return theta, size


def positive_inverse(hessian: Floats) -> Floats:
    """The inverse of a symmetric matrix whose eigenvalues are taken by size, and not below a share of the largest."""
    values, vectors = np.linalg.eigh(hessian)
    sizes = np.abs(values)
    floor = max(1e-10 * float(sizes.max(initial=0.0)), 1e-300)
    inverse: Floats = (vectors / np.maximum(sizes, floor)) @ vectors.T
    return inverse

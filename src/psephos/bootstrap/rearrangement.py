"""Quantile curves of a draw that do not cross, over the whole public box of covariates.

A draw has coefficients theta_1, ..., theta_L at increasing levels; covariates have ``low_j <= x_j <= high_j``, and one
of them, the intercept, is the same for all. Curves ``x'theta_l`` do not cross in the box if and only if each difference
``d = theta_{l+1} - theta_l`` has ``x'd >= 0`` at every corner (Bondell, Reich and Wang, "Noncrossing quantile
regression curve estimation", 2010). With m and h the middle and half the width of the box, ``a = m'd`` and
``s_j = h_j d_j``, that is

    a >= |s_1| + ... + |s_p|.

**What is done.** Of numbers, as with an intercept alone, the levels of a draw are sorted (Chernozhukov, Fernandez-Val
and Galichon, "Quantile and probability curves without crossing", 2010). Sorted curves are no longer linear in x, so a
draw of a regression is moved to the nearest coefficients that do not cross, in

    sum_l w_l (a_l^2 + sum_j s_lj^2 / 3),

a_l and s_l now of theta_l: the mean square of what curves move, x uniform in the box, each level weighted by one over
the variance of its curve over the draws, so that a level of which little is known moves rather than one that is known
well. Coefficients may leave the parameter's box.

**Why it is harmless.** Coefficients that do not cross are a closed convex cone, so the nearest point of it is no
farther from any of its points than the draw was: if the true curves do not cross in the box, no draw gets farther from
them in that norm. Means of such draws do not cross either. All is post-processing of a release, and free.

The nearest point is found by the alternating direction method of multipliers (Boyd et al. 2011) to a ten-thousandth
of a standard deviation, in 500 steps at most; what is then short of the condition is made up for by moving whole curves
apart, from the best known level outwards. So the condition holds exactly, whatever the steps reached.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["CovariateBox", "can_rearrange", "rearranged"]

Floats = NDArray[np.float64]

#: (low, high) of each covariate.
CovariateBox = tuple[tuple[float, float], ...]

_STEPS = 500
_LOOK = 20  # steps between looks at what has converged
_CLOSE = 1e-4  # standard deviations
_RELAXED = 1.6
_MARGIN = 2.0**-30  # of a draw's largest number: gaps outlast a change of units
_ENTRIES = 2**22  # numbers at a time


def can_rearrange(box: CovariateBox) -> bool:
    """Whether a column is the same for all and not 0: without one, curves meet where all columns are 0.

    >>> can_rearrange(((1.0, 1.0), (0.0, 2.0))), can_rearrange(((-1.0, 1.0),)), can_rearrange(((0.5, 1.0),))
    (True, False, False)
    """
    return any(low == high != 0 for low, high in box)


def rearranged(values: Floats, box: CovariateBox) -> Floats:
    """Draws of the same shape, ``(levels, draws, p)``, none of whose curves cross in the box.

    >>> crossed = np.array([[[0.0, 1.0]], [[0.5, 0.0]]])  # 0 + x and 0.5 + 0 x
    >>> low, high = rearranged(crossed, ((1, 1), (0, 1)))[:, 0]
    >>> [bool((high - low) @ x >= 0) for x in ([1, 0], [1, 1])]
    [True, True]
    """
    ends = np.array(box, dtype=np.float64)
    middle, half = ends.sum(axis=1) / 2, (ends[:, 1] - ends[:, 0]) / 2
    sloped = np.flatnonzero(half > 0)
    fixed = next(j for j, width in enumerate(half) if width == 0 and middle[j] != 0)
    curves = np.concatenate([(values @ middle)[..., None], values[..., sloped] * half[sloped]], axis=2)
    if not len(sloped):
        curves = np.sort(curves, axis=0)
    else:
        spread = curves.var(axis=1)
        variances = spread[:, 0] + spread[:, 1:].sum(axis=1) / 3
        variances = np.maximum(variances, 1e-12 * variances.max()) if variances.max() > 0 else np.ones(len(values))
        crossing = np.flatnonzero((_slack(curves) < 0).any(axis=0))
        size = max(1, _ENTRIES // (curves.shape[0] * curves.shape[2]))
        for begin in range(0, len(crossing), size):
            part = crossing[begin : begin + size]
            curves[:, part] = _apart(_nearest(curves[:, part], variances), first=int(np.argmin(variances)))
    found = values.copy()
    found[..., sloped] = curves[..., 1:] / half[sloped]
    others = np.delete(np.arange(len(box)), fixed)
    found[..., fixed] = (curves[..., 0] - found[..., others] @ middle[others]) / middle[fixed]
    return found


def _slack(curves: Floats) -> Floats:
    """By how much each difference of neighbours is within the condition, ``(L - 1, draws)``."""
    steps = np.diff(curves, axis=0)
    return np.asarray(steps[..., 0] - np.abs(steps[..., 1:]).sum(axis=-1))


def _nearest(curves: Floats, variances: Floats) -> Floats:
    """The nearest curves that do not cross, about: ``(L, draws, 1 + p)``."""
    units = np.array([1.0, *[3**-0.5] * (curves.shape[2] - 1)])
    start = curves * units
    levels = len(variances)
    differences = np.diff(np.eye(levels), axis=0)
    both = variances[:-1] + variances[1:]
    penalty = both / levels  # one over a difference's weight; what is smooth over L levels converges in some L steps
    spread = (differences * variances) @ differences.T
    gain = (variances[:, None] * differences.T) @ np.linalg.inv(spread + np.diag(penalty))
    steps_of = differences @ gain
    scale = np.sqrt(both)[:, None, None]
    apart = np.diff(start, axis=0)
    found, active = start.copy(), np.arange(curves.shape[1])
    goal = _onto_cone(apart)
    dual = np.zeros_like(goal)
    for step in range(1, _STEPS + 1):
        wanted = goal - dual - apart
        reached = apart + np.tensordot(steps_of, wanted, 1)
        mixed = _RELAXED * reached + (1 - _RELAXED) * goal
        before, goal = goal, _onto_cone(mixed + dual)
        dual = dual + mixed - goal
        if step % _LOOK == 0 or step == _STEPS:
            off = np.maximum(np.abs(reached - goal), np.abs(goal - before)) / scale
            done = (off.max(axis=(0, 2)) <= _CLOSE) | (step == _STEPS)
            moved = np.tensordot(gain, (goal - dual - apart)[:, done], 1)
            found[:, active[done]] = start[:, active[done]] + moved
            active = active[~done]
            if not len(active):
                break
            apart, goal, dual = apart[:, ~done], goal[:, ~done], dual[:, ~done]
    return np.asarray(found / units)


def _onto_cone(steps: Floats) -> Floats:
    """The nearest ``(a, s)`` with ``a >= sqrt(3) |s|_1``: s soft-thresholded by the multiplier, a raised by it.

    The multiplier solves ``a + t = sqrt(3) sum_j (|s_j| - sqrt(3) t)_+``: the largest of the roots of the pieces, since
    their maximum is convex.
    """
    root = 3**0.5
    sizes = np.abs(steps[..., 1:])
    added = np.cumsum(-np.sort(-sizes, axis=-1), axis=-1)
    counts = np.arange(1, sizes.shape[-1] + 1)
    level = steps[..., 0]
    pieces = (root * added - level[..., None]) / (1 + 3 * counts)
    multiplier = np.maximum(np.maximum(pieces.max(axis=-1), -level), 0.0)
    shrunk = np.sign(steps[..., 1:]) * np.maximum(sizes - root * multiplier[..., None], 0.0)
    return np.concatenate([(level + multiplier)[..., None], shrunk], axis=-1)


def _apart(curves: Floats, *, first: int) -> Floats:
    """Whole curves moved apart where they are still short of the condition, from the level ``first`` outwards."""
    margin = _MARGIN * np.abs(curves).sum(axis=2).max(axis=0)
    outwards: Sequence[tuple[int, int]] = [
        *((level, level - 1) for level in range(first + 1, len(curves))),
        *((level, level + 1) for level in range(first - 1, -1, -1)),
    ]
    for level, known in outwards:
        gap = np.abs(curves[level, :, 1:] - curves[known, :, 1:]).sum(axis=-1) + margin
        if level > known:
            curves[level, :, 0] = np.maximum(curves[level, :, 0], curves[known, :, 0] + gap)
        else:
            curves[level, :, 0] = np.minimum(curves[level, :, 0], curves[known, :, 0] - gap)
    return curves

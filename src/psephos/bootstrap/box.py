"""Ways within a box: how far they lead, and a place anywhere along directions that nothing tells.

Everything is in parts of the box: coordinate i runs from ``low_i`` to ``high_i = low_i + 1``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["anywhere", "chord", "sharing"]

Floats = NDArray[np.float64]

_BESIDE = 0.01  # of the coordinate that a direction moves most: what it moves less does not bound it
_NONE = 1e-9  # of the largest: a singular value that is none
_SHARES = 0.02  # of a projection: coordinates with less in common share no direction


def chord(steps: Floats, way: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """How far back and forth the way leads from steps within the box: <= 0 and >= 0, shape ``(...)``.

    A coordinate that the way moves by less than a hundredth as much as another does not end it.

    >>> chord(np.array([0.25, 0.5]), np.array([1.0, 0.001]), np.zeros(2), np.ones(2))
    (array(-0.25), array(0.75))
    """
    size = np.abs(way)
    bears = size > _BESIDE * size.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = np.sort([(low - steps) / way, (high - steps) / way], axis=0)
    begin = np.where(bears, ends[0], -np.inf).max(axis=-1)
    end = np.where(bears, ends[1], np.inf).min(axis=-1)
    some = bears.any(axis=-1)
    return np.where(some, np.minimum(begin, 0.0), 0.0), np.where(some, np.maximum(end, 0.0), 0.0)


def anywhere(steps: Floats, directions: Floats, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """From steps within the box along a random way among the directions: ``(..., d)`` and ``(..., d, u)``.

    Uniform over twice as far as the way leads to either side, and cut to that: a quarter of them is at either end. Half
    of the ways are toward corners of the box, so that ends of coordinates are reached.
    """
    sizes = np.abs(directions).max(axis=-2, keepdims=True)
    basis, values, _ = np.linalg.svd(directions / np.maximum(sizes, 1e-300), full_matrices=False)
    basis = basis * (values > _NONE)[..., None, :]
    aim = rng.uniform(size=steps.shape)
    aim = np.where(rng.random(aim.shape[:-1])[..., None] < 0.5, aim, np.round(aim))
    parts = np.einsum("...ij,...i->...j", basis, low + aim - steps)
    way = np.einsum("...ij,...j->...i", basis, parts)
    begin, end = chord(steps, way, low, high)
    step = np.clip(begin + (end - begin) * rng.uniform(-0.5, 1.5, begin.shape), begin, end)
    return np.asarray(steps + way * step[..., None])


def sharing(names: tuple[str, ...], directions: Floats) -> tuple[tuple[str, ...], ...]:
    """Groups of coordinates that directions, ``(d, u)``, move together.

    >>> sharing(("a", "b", "c", "d"), np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [0.0, 1.0]]))
    (('a', 'b'), ('d',))
    """
    sizes = np.abs(directions).max(axis=0, initial=0.0)
    basis, values, _ = np.linalg.svd(directions[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    basis = basis[:, values > _NONE]
    joined = np.abs(basis @ basis.T) > _SHARES
    left, groups = [i for i in range(len(names)) if joined[i, i]], []
    while left:
        group = {left[0]}
        while more := {j for i in group for j in left if joined[i, j]} - group:
            group |= more
        groups.append(tuple(names[i] for i in sorted(group)))
        left = [i for i in left if i not in group]
    return tuple(groups)

"""Adding independent integer noise to an antisymmetric integer table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["add_noise"]


def add_noise(margins: NDArray[Any], draw: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """``margins`` plus ``draw(D)`` on the entries u < v in row order, and their negatives below.

    Both are integers; int64 entries are at most 2**61 and noise below 2**62, so the sum does not wrap.
    """
    upper = np.triu_indices(margins.shape[0], 1)
    noise = draw(len(upper[0]))
    if noise.shape != upper[0].shape:  # one value would be broadcast, and all entries share it
        raise RuntimeError(f"the sampler gave noise of shape {noise.shape} for {len(upper[0])} entries")
    noisy = np.zeros(margins.shape, dtype=np.result_type(margins.dtype, noise.dtype))
    noisy[upper] = margins[upper] + noise
    noisy.T[upper] = -noisy[upper]
    return noisy

"""Adding independent integer noise to an antisymmetric integer table, or to its row sums."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["add_noise", "averaged_variance", "better_half", "noisy_row_sums", "row_sums", "with_row_sums"]

#: n independent integers.
Draw = Callable[[int], NDArray[Any]]


def _noise(draw: Draw, n: int) -> NDArray[Any]:
    noise = draw(n)
    if noise.shape != (n,):  # one value would be broadcast, and all entries share it
        raise RuntimeError(f"the sampler gave noise of shape {noise.shape} for {n} entries")
    return noise


def row_sums(margins: NDArray[Any]) -> NDArray[Any]:
    """The row sums as Python integers: m - 1 margins of 2**61 do not fit 64 bits."""
    sums = np.empty(margins.shape[0], dtype=object)
    sums[:] = [sum(int(x) for x in row) for row in margins]
    return sums


def noisy_row_sums(margins: NDArray[Any], draw: Draw) -> NDArray[Any]:
    """The row sums of ``margins`` plus ``draw(m)``, as Python integers."""
    noisy: NDArray[Any] = row_sums(margins) + _noise(draw, margins.shape[0]).astype(object)
    return noisy


def add_noise(margins: NDArray[Any], draw: Draw) -> NDArray[Any]:
    """``margins`` plus ``draw(D)`` on the entries u < v in row order, and their negatives below.

    Both are integers; int64 entries are at most 2**61 and noise below 2**62, so the sum does not wrap.
    """
    upper = np.triu_indices(margins.shape[0], 1)
    noise = _noise(draw, len(upper[0]))
    noisy = np.zeros(margins.shape, dtype=np.result_type(margins.dtype, noise.dtype))
    noisy[upper] = margins[upper] + noise
    noisy.T[upper] = -noisy[upper]
    return noisy


_WEIGHT_BITS = 20


def better_half(first: Fraction, second: Fraction) -> Fraction:
    """The weight of the second of two independent estimates of these variances in their best average.

    Rounded to 20 bits, which keeps the fractions of an averaged table short; 0 if the first has no variance.

    >>> better_half(Fraction(30), Fraction(10))
    Fraction(3, 4)
    """
    return Fraction(round(first / (first + second) * 2**_WEIGHT_BITS), 2**_WEIGHT_BITS) if first else Fraction(0)


def averaged_variance(first: Fraction, second: Fraction, *, weight: Fraction) -> Fraction:
    """The variance of the average of two independent estimates.

    >>> averaged_variance(Fraction(30), Fraction(10), weight=Fraction(3, 4))
    Fraction(15, 2)
    """
    return (1 - weight) ** 2 * first + weight**2 * second


def with_row_sums(released: NDArray[Any], sums: NDArray[Any], *, weight: Fraction) -> NDArray[Any]:
    """A released table whose row sums are moved by ``weight`` towards a second estimate of them, as fractions.

    Post-processing: the gradient part is averaged with weights 1 - weight and weight, the cyclic part kept.
    """
    shift = weight.numerator * (sums - row_sums(released))  # integers over weight.denominator * m
    scale = weight.denominator * released.shape[0]
    numerators = released.astype(object) * scale + (shift[:, None] - shift[None, :])
    table: NDArray[Any] = numerators * Fraction(1, scale)
    return table

"""Kemeny costs in exact arithmetic, and the integer form in which every solver works.

For margins W and an order psi, best first,

    cost(psi) = sum over u before v of A[v, u],         A[u, v] = (people + W[u, v]) / 2,
              = people m (m - 1) / 4 - (1/2) sum over u before v of W[u, v].

Write W = unit * V with integers V of greatest common divisor 1. With T the sum over pairs of |V| and the
*disagreement*

    D(psi) = sum over u before v of max(0, V[v, u]),

a whole number >= 0, the cost is  people m (m - 1) / 4 - unit T / 2 + unit D(psi).  So the solvers minimise a
sum of non-negative integers, and every lower bound on it may be rounded up to a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from psephos._check import exact
from psephos.errors import ParameterError

__all__ = [
    "ScaledMargins",
    "as_doubles",
    "check_people",
    "disagreement",
    "finite_ratio",
    "kemeny_cost",
    "scale_margins",
    "weighted_cost",
]

_ALLOWED = "an antisymmetric (m, m) array of finite real numbers, m >= 1"
_MAX_DENOMINATOR_BITS = 1 << 16  # beyond this, one table of margins would take gigabytes

Integers = npt.NDArray[Any]  # dtype object, Python integers


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledMargins:
    """Margins as ``unit * integers``: ``integers`` (m, m) of dtype object with gcd 1, ``unit`` > 0.

    All-zero margins have ``unit`` 1.
    """

    integers: Integers
    unit: Fraction

    @property
    def total(self) -> int:
        """The sum over pairs of |integers|."""
        return int(np.abs(self.integers).sum()) // 2

    def cost(self, disagreement: int, people: Fraction) -> Fraction:
        """The Kemeny cost, in votes, of an order with this disagreement."""
        m = len(self.integers)
        return people * m * (m - 1) / 4 + self.unit * (Fraction(disagreement) - Fraction(self.total, 2))


def scale_margins(margins: npt.ArrayLike) -> ScaledMargins:
    """Return the integer form of ``margins``, exactly.

    Parameters
    ----------
    margins
        (m, m), antisymmetric: integers of any size, fractions, decimals or floats. A float stands for the
        dyadic rational that it is.

    Raises
    ------
    ParameterError
        if the array is not square, not antisymmetric, empty, not finite, or has a common denominator of
        more than 65,536 bits.

    >>> scale_margins([[0, 0.75], [-0.75, 0]]).unit
    Fraction(3, 4)
    """
    try:
        table = np.array(margins)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"margins must be {_ALLOWED}: {error}") from None
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] == 0:
        raise ParameterError(f"margins must be {_ALLOWED}, got shape {table.shape}")
    if table.dtype.kind == "f" and table.dtype.itemsize <= 8:
        numerators, denominator = _from_floats(table.astype(np.float64))
    elif table.dtype.kind in "iu":
        numerators, denominator = table.astype(object), Fraction(1)
    elif table.dtype.kind in "fO":
        numerators, denominator = _from_numbers(table.astype(object))
    else:
        raise ParameterError(f"margins must be {_ALLOWED}, got dtype {table.dtype}")
    skew = numerators + numerators.T
    if skew.any():
        u, v = (int(i) for i in np.argwhere(skew != 0)[0])
        raise ParameterError(
            f"margins must be {_ALLOWED}: entry ({u}, {v}) is {table[u, v]!r} and ({v}, {u}) is {table[v, u]!r}"
        )
    divisor = math.gcd(*(int(x) for x in numerators[np.triu_indices(len(table), 1)]))
    if divisor == 0:
        return ScaledMargins(integers=numerators, unit=Fraction(1))
    return ScaledMargins(integers=numerators // divisor, unit=divisor * denominator)


def check_people(people: object) -> Fraction:
    """Return the number of people as an exact rational >= 0."""
    allowed = "a finite number >= 0"
    number = exact(people, "people", allowed)
    if not number >= 0:
        raise ParameterError(f"people must be {allowed}, got {people!r}")
    return number


def disagreement(integers: Integers, order: Sequence[int] | npt.NDArray[np.intp]) -> int:
    """The sum over u before v of max(0, integers[v, u])."""
    index = np.asarray(order, dtype=np.intp)
    against = -integers[np.ix_(index, index)][np.triu_indices(len(index), 1)]
    return int(against[against > 0].sum())


def weighted_cost(weights: Integers, order: Sequence[int] | npt.NDArray[np.intp]) -> int:
    """The sum over u before v of ``weights[v, u]``, what placing u before v costs."""
    index = np.asarray(order, dtype=np.intp)
    return int(np.tril(weights[np.ix_(index, index)], -1).sum())


def as_doubles(integers: Integers) -> npt.NDArray[np.float64]:
    """``integers`` divided by a power of two near the largest of them, rounded to doubles."""
    # 1,000 bits: conversion must not overflow, and what the shift drops is below a double's precision
    shift = max(0, int(np.abs(integers).max()).bit_length() - 1000)
    rough: npt.NDArray[np.float64] = (integers >> shift).astype(np.float64)
    _, exponent = np.frexp(np.abs(rough).max())
    return np.ldexp(rough, -int(exponent))


def kemeny_cost(margins: npt.ArrayLike, order: Sequence[int], *, people: int | Fraction = 0) -> Fraction:
    """Return the Kemeny cost of an order, in votes, exactly.

    Not private: under exact margins the cost is a number about the data, to the vote.

    Parameters
    ----------
    margins
        (m, m), antisymmetric; ``margins[u, v] > 0`` means that u is preferred to v.
    order
        the m item positions, best first.
    people
        how many people the margins count, >= 0: a pair placed as u before v costs
        ``(people + margins[v, u]) / 2``.

    Raises
    ------
    ParameterError
        if ``margins`` is not antisymmetric and finite, or ``order`` is not a permutation of its items.

    >>> kemeny_cost([[0, 3], [-3, 0]], [0, 1], people=5)
    Fraction(1, 1)
    """
    scaled = scale_margins(margins)
    positions = list(order)
    m = len(scaled.integers)
    whole = all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in positions)
    if not whole or sorted(positions) != list(range(m)):
        raise ParameterError(f"order must be a permutation of 0, ..., {m - 1}, got {order!r}")
    return scaled.cost(disagreement(scaled.integers, positions), check_people(people))


def _from_floats(table: npt.NDArray[np.float64]) -> tuple[Integers, Fraction]:
    """Integers and the power of two that multiplies them."""
    if not np.isfinite(table).all():
        raise ParameterError(f"margins must be {_ALLOWED}, got {table[~np.isfinite(table)][0]!r}")
    mantissa, exponent = np.frexp(table)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    nonzero = whole != 0
    if not nonzero.any():
        return whole.astype(object), Fraction(1)
    lowest = int(exponent[nonzero].min())
    shift = np.where(nonzero, exponent - lowest, 0).astype(object)
    power = lowest - 53
    scale = Fraction(2**power) if power >= 0 else Fraction(1, 2**-power)
    return whole.astype(object) << shift, scale


def _from_numbers(table: npt.NDArray[Any]) -> tuple[Integers, Fraction]:
    """Integers and the unit fraction that multiplies them, for any mixture of exact numbers."""
    ratios = []
    for value in table.ravel():
        ratio = finite_ratio(value)
        if ratio is None:
            raise ParameterError(f"margins must be {_ALLOWED}, got {value!r}")
        ratios.append(ratio)
    denominator = 1
    for ratio in ratios:
        denominator = math.lcm(denominator, ratio.denominator)
        if denominator.bit_length() > _MAX_DENOMINATOR_BITS:
            raise ParameterError(f"margins must have a common denominator of at most {_MAX_DENOMINATOR_BITS} bits")
    result = np.empty(len(ratios), dtype=object)
    result[:] = [ratio.numerator * (denominator // ratio.denominator) for ratio in ratios]
    return result.reshape(table.shape), Fraction(1, denominator)


def finite_ratio(value: object) -> Fraction | None:
    """The exact value of a finite real number; ``None`` for anything else.

    >>> finite_ratio(0.5), finite_ratio(float("inf")), finite_ratio(True)
    (Fraction(1, 2), None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, (float, np.floating, Decimal)) and math.isfinite(value):
        return Fraction(*value.as_integer_ratio())
    return None

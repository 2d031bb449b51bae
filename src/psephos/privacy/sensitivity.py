"""Sensitivity of sums of bounded answers, by adjacency.

Each unit (a person, a comparison) adds a number in ``[low, high]`` to a sum. If one unit is *replaced* by
another, the sum moves by at most ``high - low``, attained by a unit at one end replaced by one at the other. If
one is *added or removed* it moves by at most ``max(|low|, |high|)``. Releases of psephos use replace-one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from psephos._check import Exact, check_choice, exact
from psephos.errors import ParameterError

__all__ = ["Adjacency", "bounded_sum_sensitivity"]

Adjacency = Literal["replace-one", "add-remove"]


def bounded_sum_sensitivity(low: Exact, high: Exact, *, adjacency: Adjacency = "replace-one") -> Fraction:
    """How far one unit can move a sum of numbers in ``[low, high]``.

    Raises
    ------
    ParameterError
        unless low < high, both finite.

    >>> bounded_sum_sensitivity(-1, 10), bounded_sum_sensitivity(-1, 10, adjacency="add-remove")
    (Fraction(11, 1), Fraction(10, 1))
    """
    check_choice(adjacency, "adjacency", ("replace-one", "add-remove"))
    a, b = exact(low, "low", "a finite number"), exact(high, "high", "a finite number")
    if not a < b:
        raise ParameterError(f"bounds must satisfy low < high, got ({low!r}, {high!r})")
    return b - a if adjacency == "replace-one" else max(abs(a), abs(b))

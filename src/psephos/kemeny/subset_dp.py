"""Exact optimisation over all orders of at most 20 items, and all that can be said about the optima.

With C(S, v) = sum over u in S of max(0, V[v, u]), the disagreement added by placing v right after the set S,

    f(S) = min over v in S of f(S - v) + C(S - v, v),      f(empty) = 0   (cheapest way to order S first),
    b(S) = min over v not in S of C(S, v) + b(S + v),      b(all) = 0     (cheapest way to go on after S).

A set is the beginning of some optimal order exactly if f(S) + b(S) = OPT. Some optimal order places u before
v exactly if such a set contains u and not v (the beginning that ends with u; conversely, every order through
such a set does). So one forward and one backward pass settle uniqueness and all differing pairs.

Integers too large for 64 bits go through doubles first. All terms are non-negative and sum to at most T, so
doubles err by less than m^2 2^-52 T; only sets within twice that of the optimum can matter, and these (usually
m + 1 of 2^m) are evaluated again in exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from psephos.kemeny.effort import Effort

__all__ = ["MAX_ITEMS", "SubsetOptimum", "subset_dp"]

MAX_ITEMS = 20
_SET_ITEM = 25  # steps: of one item of one set

Values = npt.NDArray[Any]
Layers = list[npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetOptimum:
    """``order`` best first, its ``disagreement``, and ``before`` (m, m): may u stand before v in an optimum?"""

    order: tuple[int, ...]
    disagreement: int
    before: npt.NDArray[np.bool_]


def subset_dp(integers: Values, *, effort: Effort | None = None) -> SubsetOptimum | None:
    """Return the optimum for antisymmetric ``integers`` (m, m), m <= 20; ``None`` where ``effort`` does not reach.

    Among optimal orders the lexicographically smallest is returned.

    >>> subset_dp(np.array([[0, 2], [-2, 0]], dtype=object)).order
    (0, 1)
    """
    m = len(integers)
    if effort is not None:
        if effort.ended or (steps := _SET_ITEM * m << m) > effort.left:
            return None
        effort.spend(steps)
    against = np.where(integers > 0, integers, 0)  # [v, u]: what placing v after u costs
    total = int(against.sum())
    try:
        if total < 2**61:
            return _settle(_Tables(against.astype(np.int64), effort), _layers(np.arange(1 << m)))
        shift = max(0, total.bit_length() - 1000)  # so that doubles do not overflow
        rough = _Tables((against >> shift).astype(np.float64), effort)
        layers = _layers(np.arange(1 << m))
        through = rough.forward(layers) + rough.backward(layers)
        # the shift drops less than 1 a term, far below the rounding of numbers near 2**1000
        slack = float(total >> shift) * m * m * 2.0**-50
        near = np.flatnonzero(through <= through[0] + slack)
        return _settle(_Tables(against, effort), _layers(near))
    except TimeoutError:
        return None


class _Tables:
    """The two passes over the sets listed in ``layers``, in the arithmetic of ``against``."""

    def __init__(self, against: Values, effort: Effort | None) -> None:
        self.m = len(against)
        self.effort = effort
        self.infinity: Any = np.inf if against.dtype == np.float64 else int(against.sum()) + 1
        self.dtype = against.dtype
        self.split = self.m // 2
        # C(S, v) as the sum of two table entries, one for each half of the bits of S
        self.low = [_subset_sums(row[: self.split]) for row in against]
        self.high = [_subset_sums(row[self.split :]) for row in against]

    def added(self, sets: npt.NDArray[np.int64], v: int) -> Values:
        """C(S, v) for every listed S."""
        value: Values = self.low[v][sets & ((1 << self.split) - 1)] + self.high[v][sets >> self.split]
        return value

    def forward(self, layers: Layers) -> Values:
        f = np.full(1 << self.m, self.infinity, dtype=self.dtype)
        f[0] = 0
        for layer in layers[1:]:
            for v in range(self.m):
                self._check_guard()
                after = layer[(layer >> v) & 1 == 1]
                sets = after ^ (1 << v)
                f[after] = np.minimum(f[after], f[sets] + self.added(sets, v))
        return f

    def backward(self, layers: Layers) -> Values:
        b = np.full(1 << self.m, self.infinity, dtype=self.dtype)
        b[-1] = 0
        for layer in layers[-2::-1]:
            for v in range(self.m):
                self._check_guard()
                sets = layer[(layer >> v) & 1 == 0]
                b[sets] = np.minimum(b[sets], b[sets ^ (1 << v)] + self.added(sets, v))
        return b

    def _check_guard(self) -> None:
        if self.effort is not None and self.effort.guard_passed:
            raise TimeoutError


def _settle(tables: _Tables, layers: Layers) -> SubsetOptimum:
    """Both passes, then what the optimal sets say."""
    m = tables.m
    f, b = tables.forward(layers), tables.backward(layers)
    best = f[-1]
    listed = np.concatenate(layers)
    beginnings = listed[f[listed] + b[listed] == best]
    member = ((beginnings[:, None] >> np.arange(m)) & 1).astype(np.float32)
    before = (member.T @ (1 - member)) > 0  # counts below 2**24 are exact in single precision
    order: list[int] = []
    here = 0
    for _ in range(m):
        at = np.array([here])
        for v in range(m):
            if not here >> v & 1 and tables.added(at, v)[0] + b[here | 1 << v] == b[here]:
                order.append(v)
                here |= 1 << v
                break
    return SubsetOptimum(order=tuple(order), disagreement=int(best), before=before)


def _layers(sets: npt.NDArray[np.int64]) -> Layers:
    """The sets grouped by how many items they hold."""
    size = np.bitwise_count(sets)
    grouped = sets[np.argsort(size, kind="stable")]
    return np.split(grouped, np.cumsum(np.bincount(size))[:-1])


def _subset_sums(values: Values) -> Values:
    """Sums over all subsets of ``values``, indexed by bit mask."""
    sums = np.zeros(1, dtype=values.dtype)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums

"""Lower bounds from the linear-ordering relaxation, valid in exact arithmetic whatever the LP solver returns.

Items are labelled so that 0, 1, ..., m-1 is a known order; y_e = 1 says that pair e = (u, v), u < v, is flipped
against it. Flipping costs V[u, v] in disagreement, so the task is to minimise sum V_e y_e over orders, whose
value at the known order is 0. Every order satisfies, for u < v < w,

    0 <= y_uv + y_vw - y_uw <= 1.

For rows a_i y of this kind and *any* real numbers d_i, with r = V - sum_i d_i a_i,

    sum V_e y_e  >=  sum_i min(0, d_i)  +  sum_e min(r_e lower_e, r_e upper_e).

The d_i are the LP's duals rounded to multiples of a power of two, and the right-hand side is computed in
integers. Both sides of every row are finite, so no sign can spoil it. As the left-hand side is a whole number,
the bound may be rounded up.

Doubles fix the duals to some 1e-10 of the largest margin. Where that is too coarse, they are refined on the
optimal basis: the exact residuals r_e of the basic columns, which should vanish, are the right-hand side of
another solve with the same basis, which gains some 30 bits each time. Where margins come on several scales (a
population of 10**30 and noise of 10**3), that basis need not be optimal for the finer ones: the program is then
solved again on the optimal face of the coarse one, with what is left of the objective scaled up, as in the
iterative refinement of Gleixner, Steffy and Wolter (2016).
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from psephos.kemeny.cost import Integers, as_doubles
from psephos.kemeny.effort import Effort

__all__ = ["DualBound", "OrderingRelaxation", "dual_bound", "find_triangles"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Bounds = npt.NDArray[np.int8]

_DUAL_BITS = 40  # duals are rounded to 2**-40 of the largest margin, then refined
_FRACTION_BITS = 24  # at least so many bits below a whole number: room for a few thousand roundings
_TOLERANCE = 1e-9  # of the LP solver; its smallest is 1e-10
_SCALES = 4  # numbers of different size that one bound may have to tell apart
_SCALE_BITS = 20  # by which a scale is finer than the largest margin
_MOST_PIVOTS = 2**31 - 1  # that the LP solver can count
_STANDS = 1e-6  # within this, a value stands at its bound
_COEFFICIENTS = (1, 1, -1)
# Steps: a pivot, a solve and an exact bound, each for a row or column; a triangle looked at.
_PIVOT, _PIVOT_SIDE, _SOLVE_SIDE, _BOUND_SIDE, _TRIANGLE = 5_000, 22, 400, 300, 5

_highs_lock = threading.Lock()
_highs_greeted = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DualBound:
    """``value / 2**bits`` bounds the optimum from below; ``reduced`` (one a pair) carries the same scale.

    A pair that the bound holds at 0 costs ``reduced`` > 0 more if flipped; one held at 1 costs ``-reduced``
    more if not.
    """

    value: int
    reduced: Integers
    bits: int

    @property
    def rounded(self) -> int:
        """The bound as a whole number: no order has a smaller value."""
        return -(-self.value >> self.bits)


def dual_bound(costs: Integers, rows: Indices, duals: Integers, bits: int, lower: Bounds, upper: Bounds) -> DualBound:
    """Evaluate the formula at the top of this module in integers.

    Parameters
    ----------
    costs
        (pairs,) Python integers V_e.
    rows
        (k, 3) the pairs (uv, vw, uw) of each triangle inequality.
    duals
        (k,) Python integers, any: the d_i times ``2**bits``.
    lower, upper
        (pairs,) bounds on y, 0 or 1.
    """
    used = np.flatnonzero(duals != 0)
    weights: Integers = duals[used]
    if len(used) and int(np.abs(weights).max()).bit_length() + len(used).bit_length() < 62:
        weights = weights.astype(np.int64)  # a sum of so few of this size stays within 63 bits
    image = np.zeros(len(costs), dtype=weights.dtype)
    for column, coefficient in zip(rows[used].T, _COEFFICIENTS, strict=True):
        np.add.at(image, column, weights * coefficient)
    reduced = (costs << bits) - image.astype(object)
    on_rows = int(np.minimum(weights, 0).sum()) if len(used) else 0
    on_pairs = np.where(reduced > 0, lower, upper).astype(object) * reduced
    return DualBound(value=on_rows + int(on_pairs.sum()), reduced=reduced, bits=bits)


def find_triangles(y: Floats, *, most: int, least: float) -> Indices:
    """The most violated triangle inequalities at ``y`` (m, m; upper triangle used), as (k, 3) items."""
    m = len(y)
    found, amounts = [np.empty((0, 3), dtype=np.intp)], [np.empty(0)]
    for u in range(m - 2):
        row = y[u, u + 1 :]
        activity = row[:, None] + y[u + 1 :, u + 1 :] - row[None, :]
        violation = np.maximum(activity - 1, -activity)
        v, w = np.nonzero(np.triu(violation > least, 1))
        if len(v):
            found.append(np.stack([np.full(len(v), u), v + u + 1, w + u + 1], axis=1))
            amounts.append(violation[v, w])
    triangles, amount = np.concatenate(found), np.concatenate(amounts)
    if len(amount) > most:
        triangles = triangles[np.argsort(-amount, kind="stable")[:most]]  # the same ones on every machine
    return triangles.astype(np.int32)


class OrderingRelaxation:
    """The relaxation as a linear program that grows by violated triangle inequalities.

    ``integers`` (m, m) are labelled so that 0, ..., m-1 is a good order. ``y`` (pairs,) is the last solution,
    ``objective`` its value in units of ``2**scale``, ``pair`` (m, m) the position of each pair in ``y``. All work is
    counted in ``effort``.
    """

    def __init__(self, integers: Integers, effort: Effort) -> None:
        m = len(integers)
        self.m = m
        self.upper_triangle = np.triu_indices(m, 1)
        self.costs: Integers = integers[self.upper_triangle]
        self.pairs = len(self.costs)
        self.pair = np.zeros((m, m), dtype=np.int32)
        self.pair[self.upper_triangle] = np.arange(self.pairs)
        self.pair += self.pair.T
        self.scale = int(np.abs(self.costs).max()).bit_length()
        self.rows: Indices = np.empty((0, 3), dtype=np.int32)
        self.idle: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.cuts = 0
        self.effort = effort
        self.y: Floats = np.zeros(self.pairs)
        self.objective = 0.0
        self._duals: Floats = np.zeros(0)
        self._highs = _new_highs()
        self._columns = np.arange(self.pairs, dtype=np.int32)
        self._highs.addVars(self.pairs, np.zeros(self.pairs), np.ones(self.pairs))
        self._doubles = as_doubles(integers)[self.upper_triangle]
        self._highs.changeColsCost(self.pairs, self._columns, self._doubles)

    def set_bounds(self, lower: Bounds, upper: Bounds) -> None:
        """Fix pairs where ``lower`` and ``upper`` (pairs,) agree."""
        self._highs.changeColsBounds(self.pairs, self._columns, lower.astype(np.float64), upper.astype(np.float64))

    def solve(self) -> bool:
        """Solve the current program; whether it was solved to optimality."""
        optimal = self._run()
        solution = self._highs.getSolution()
        if len(solution.col_value) == self.pairs:
            self.y = np.clip(np.nan_to_num(np.asarray(solution.col_value, dtype=np.float64)), 0.0, 1.0)
        if len(solution.row_dual) == len(self.rows):
            self._duals = np.asarray(solution.row_dual, dtype=np.float64)
        self.objective = float(self._highs.getInfo().objective_function_value)
        self.idle = np.where(np.abs(self._duals) < _TOLERANCE, self.idle + 1, 0)
        return optimal

    def _run(self) -> bool:
        """The simplex method, for as many pivots as the effort has left; whether it found an optimum."""
        if self.effort.ended:
            return False
        sides = self.pairs + len(self.rows)
        pivot = _PIVOT + _PIVOT_SIDE * sides
        self._highs.setOptionValue("simplex_iteration_limit", min(max(self.effort.left // pivot, 1), _MOST_PIVOTS))
        # the solver's clock runs on from one call to the next
        self._highs.setOptionValue("time_limit", min(1e20, self._highs.getRunTime() + self.effort.seconds_left))
        self._highs.run()
        pivots = max(0, int(self._highs.getInfo().simplex_iteration_count))
        self.effort.spend(pivots * pivot + _SOLVE_SIDE * sides)
        return bool(self._highs.modelStatusToString(self._highs.getModelStatus()) == "Optimal")

    def matrix(self) -> Floats:
        """``y`` as an (m, m) matrix with the flips above the diagonal."""
        table = np.zeros((self.m, self.m))
        table[self.upper_triangle] = self.y
        return table

    def order(self) -> npt.NDArray[np.intp]:
        """The items by how many others ``y`` puts before them."""
        table = self.matrix()
        return np.argsort(np.arange(self.m) - table.sum(axis=0) + table.sum(axis=1), kind="stable")

    def separate(self, *, most: int, least: float) -> int:
        """Add up to ``most`` triangle inequalities violated by more than ``least``; return how many."""
        self.effort.spend(_TRIANGLE * self.m**3)
        triangles = find_triangles(self.matrix(), most=most, least=least)
        count = len(triangles)
        if count:
            u, v, w = triangles.T
            rows = np.stack([self.pair[u, v], self.pair[v, w], self.pair[u, w]], axis=1)
            starts = np.arange(count, dtype=np.int32) * 3
            values = np.tile(np.array(_COEFFICIENTS, dtype=np.float64), count)
            self._highs.addRows(count, np.zeros(count), np.ones(count), 3 * count, starts, rows.ravel(), values)
            self.rows = np.concatenate([self.rows, rows])
            self.idle = np.concatenate([self.idle, np.zeros(count, dtype=np.int64)])
            self._duals = np.concatenate([self._duals, np.zeros(count)])
            self.cuts += count
        return count

    def purge(self, idle: int) -> None:
        """Drop rows whose dual was 0 in the last ``idle`` solutions."""
        drop = np.flatnonzero(self.idle >= idle).astype(np.int32)
        if len(drop):
            keep = self.idle < idle
            basis = self._highs.getBasis()
            self._highs.deleteRows(len(drop), drop)
            basis.row_status = [s for s, kept in zip(basis.row_status, keep, strict=True) if kept]
            self._highs.setBasis(basis)
            self.rows, self.idle, self._duals = self.rows[keep], self.idle[keep], self._duals[keep]

    def bound(self, lower: Bounds, upper: Bounds, *, needed: int | None = None) -> DualBound:
        """The exact bound from the last duals. More work goes into it as long as it stays below ``needed``."""
        bits = max(_FRACTION_BITS, _DUAL_BITS - self.scale)
        self.effort.spend(_BOUND_SIDE * (self.pairs + len(self.rows)))
        duals = _shifted(self._duals, self.scale + bits)
        best = dual_bound(self.costs, self.rows, duals, bits, lower, upper)
        if needed is None or best.rounded >= needed:
            return best
        held = np.zeros(self.pairs, dtype=np.bool_)
        for _ in range(_SCALES):
            duals, current = self._refined(duals, bits, lower, upper, held)
            if current.value > best.value:
                best = current
            if best.rounded >= needed:
                break
            next_scale = self._next_scale(duals, current, lower, upper)
            if next_scale is None:
                break
            duals, held = next_scale
        return best

    def _refined(
        self, duals: Integers, bits: int, lower: Bounds, upper: Bounds, held: npt.NDArray[np.bool_]
    ) -> tuple[Integers, DualBound]:
        """Duals for which the reduced costs of basic columns, save those ``held``, all but vanish."""
        basic = np.asarray(self._highs.getBasicVariables()[1])
        columns = basic >= 0
        columns[columns] = ~held[basic[columns]]
        current = dual_bound(self.costs, self.rows, duals, bits, lower, upper)
        for _ in range(3 + (self.scale + bits) // 25):
            self.effort.spend(_BOUND_SIDE * (self.pairs + len(self.rows)))
            residual = np.zeros(len(basic), dtype=object)
            residual[columns] = current.reduced[basic[columns]]
            size = int(np.abs(residual).max(initial=0)).bit_length()
            if size <= 8:  # rounding to whole duals leaves about this much
                break
            shift = max(0, size - 50)
            step = self._highs.getBasisTransposeSolve((residual >> shift).astype(np.float64))[1]
            if not np.abs(step).max() < 2.0**62:
                break
            duals = duals + (np.rint(step).astype(np.int64).astype(object) << shift)
            current = dual_bound(self.costs, self.rows, duals, bits, lower, upper)
        return duals, current

    def _next_scale(
        self, duals: Integers, current: DualBound, lower: Bounds, upper: Bounds
    ) -> tuple[Integers, npt.NDArray[np.bool_]] | None:
        """Optimise what doubles could not see: the program on the optimal face, in finer units.

        Pairs and rows with clear reduced costs and duals are held where they stand; what remains of the
        objective is small, and can be scaled up. Returns duals, and the pairs held; ``None`` if exact and
        rounded optimality do not disagree, or not on a finer scale.
        """
        free = lower != upper
        activity = self.y[self.rows[:, 0]] + self.y[self.rows[:, 1]] - self.y[self.rows[:, 2]]
        wrong = [
            *np.where(free & (self.y > _STANDS), current.reduced, 0),
            *np.where(free & (self.y < 1 - _STANDS), -current.reduced, 0),
            *np.where(activity > _STANDS, duals, 0),
            *np.where(activity < 1 - _STANDS, -duals, 0),
        ]
        size = int(max(wrong)).bit_length()
        if size <= 9 or size > self.scale + current.bits - _SCALE_BITS:
            return None
        clear = 1 << (size + 6)
        fixed_row = np.abs(duals) > clear
        held = ~free | (np.abs(current.reduced) > clear)
        kept = np.where(fixed_row, duals, 0)
        costs = dual_bound(self.costs, self.rows, kept, current.bits, lower, upper).reduced
        costs = np.where(held, 0, costs)
        unit = max(1, int(np.abs(costs).max()).bit_length())
        highs, rows = self._highs, np.arange(len(self.rows), dtype=np.int32)
        stand, place = np.rint(self.y), np.rint(activity)
        highs.changeColsCost(self.pairs, self._columns, _as_fraction(costs, unit))
        highs.changeColsBounds(self.pairs, self._columns, np.where(held, stand, 0.0), np.where(held, stand, 1.0))
        highs.changeRowsBounds(len(rows), rows, np.where(fixed_row, place, 0.0), np.where(fixed_row, place, 1.0))
        result = None
        if self._run():
            solution = highs.getSolution()
            self.y = np.clip(np.asarray(solution.col_value, dtype=np.float64), 0.0, 1.0)
            result = kept + _shifted(np.asarray(solution.row_dual, dtype=np.float64), unit), held
        highs.changeColsCost(self.pairs, self._columns, self._doubles)
        if len(rows):
            highs.changeRowsBounds(len(rows), rows, np.zeros(len(rows)), np.ones(len(rows)))
        self.set_bounds(lower, upper)
        return result


def _shifted(duals: Floats, unit: int) -> Integers:
    """``duals * 2**unit`` as Python integers, to about 40 bits below the unit."""
    sane = np.clip(np.nan_to_num(duals), -(2.0**20), 2.0**20)  # an interrupted solver may leave anything
    whole = np.rint(np.ldexp(sane, _DUAL_BITS)).astype(np.int64).astype(object)
    result: Integers = whole << (unit - _DUAL_BITS) if unit >= _DUAL_BITS else whole >> (_DUAL_BITS - unit)
    return result


def _as_fraction(values: Integers, unit: int) -> Floats:
    """``values / 2**unit`` in doubles."""
    shift = max(0, unit - 60)
    return np.ldexp((values >> shift).astype(np.float64), shift - unit)


def _new_highs() -> Any:
    """A quiet solver: simplex on one thread, warm-started from call to call.

    The first one made in a process prints a banner on file descriptor 1 that no option switches off.
    """
    global _highs_greeted
    with _highs_lock:
        if _highs_greeted:
            return _configured()
        if sys.stdout is not None:
            sys.stdout.flush()
        try:
            saved = os.dup(1)
        except OSError:  # closed: nothing to protect
            return _configured()
        silence = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(silence, 1)
            highs = _configured()
            highs.run()
        finally:
            os.dup2(saved, 1)
            os.close(saved)
            os.close(silence)
        _highs_greeted = True
        return highs


def _configured() -> Any:
    highspy: Any = importlib.import_module("highspy")  # heavy, and needed for large problems alone
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("presolve", "off")
    highs.setOptionValue("solver", "simplex")
    highs.setOptionValue("parallel", "off")
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 0)
    highs.setOptionValue("primal_feasibility_tolerance", _TOLERANCE)
    highs.setOptionValue("dual_feasibility_tolerance", _TOLERANCE)
    return highs

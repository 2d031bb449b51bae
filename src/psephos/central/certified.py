"""The nearest table that people could have produced, and what it certifies about the true cost.

Released are margins ``T = W + Z``: the true ones, with ``|W[u, v]| <= N`` for the public number N of answers on each
pair, plus noise. Where noise carries entries of T beyond N, T has negative weights ``(N + T[u, v])/2``, and statements
about the cost that hold up to a factor say nothing. This module computes an antisymmetric M with ``|M[u, v]| <= N``
near T in operator norm ``||.||`` (largest singular value). It reads T and N alone, so it costs no privacy.

For a table A let ``cost_A(psi) = sum over u before v of (N + A[v, u])/2``; K is cost_W. N_m is the nuclear norm of the
margins S_psi of one strict ballot (:func:`psephos.privacy.balls.order_nuclear_norm_upper`).

**Lemma.** ``|cost_A(psi) - cost_B(psi)| <= (N_m / 4) ||A - B||`` for antisymmetric A, B and every order psi.
Proof. ``cost_A - cost_B = -(1/2) sum over u before v of (A - B)[u, v] = -(1/4) <A - B, S_psi>``, the inner product over
all ordered pairs, because both tables are antisymmetric. By trace duality it is at most ``||A - B||`` times the nuclear
norm of S_psi, and all S_psi are equal up to relabelling. ∎

**Theorem.** Let ``Gamma = max over psi of |cost_M(psi) - K(psi)|``. For every M

    Gamma  <=  (N_m / 4) (||M - T|| + ||Z||),                                                                     (1)

and ``Gamma <= (N_m / 2) ||Z||`` if M is nearest to T. If ``cost_M(psi) <= (1 + xi) min cost_M``, then

    K(psi)  <=  (1 + xi) min K + (2 + xi) Gamma.                                                                  (2)

Proof. (1) is the lemma for M and W with the triangle inequality. W itself is feasible, so the nearest M has ``||M - T||
<= ||W - T|| = ||Z||``. (2): ``K(psi) <= cost_M(psi) + Gamma <= (1 + xi) min cost_M + Gamma <= (1 + xi) (min K + Gamma)
+ Gamma``. ∎

M has weights ``(N + M[u, v])/2 >= 0`` that add up to N on each pair, which is what guarantees up to a factor need. (1)
uses the computed distance and trusts no solver; bounds on ``||Z||`` or its mean are in
:mod:`psephos.privacy.noise_norms`. Where a pair has only ``N_uv < N`` answers, each order pays ``(N - N_uv)/2`` more in
K than it has votes against it, so the factor 1 + xi also applies to the constant sum of these.

**The program.** With ``Y = M - T`` and the unit of length such that clipping T has distance 1,

    minimise  s + (1 / (128 m)) sum over u < v of Y[u, v]^2
    subject to  s I + i Y positive semidefinite,    -N <= T + Y <= N.

The eigenvalues of iY are plus and minus the singular values of Y, so the constraint says ``||Y|| <= s``. The second
term breaks ties: the solution has the least Frobenius norm among tables of no larger operator norm. As ``||Y||_F^2 <= m
||Y||^2``, that term is at most ``s^2 / 256`` for the nearest table, whose s is <= 1, so the ``||Y||`` of the solution
exceeds the least possible by at most 1/256 of it. Bounds on Y[u, v] beyond 1 are left out: ``|Y[u, v]| <= ||Y|| <= 1``.
For m <= 3, ``||Y||^2`` is the sum over u < v of ``Y[u, v]^2``, and entrywise clipping is the exact answer.

**Repair.** Whatever the solver returns, entries u < v are rounded to multiples of ``2**-k`` votes and clipped to
[-N, N], and ``M[v, u] = -M[u, v]``; the distance is then bounded from above by ball arithmetic, and clipping T is
returned instead if its bound is no larger. With ``2**-k <= 2**-20 / m^2`` rounding moves no cost by more than
``D 2**-k / 4 < 2**-22`` votes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from psephos._check import Exact, check_integer, nonnegative
from psephos._extras import load_extra
from psephos.kemeny.cost import scale_margins
from psephos.kemeny.effort import DEFAULT_EFFORT, DEFAULT_GUARD, Effort, check_effort
from psephos.kemeny.ptas import SchemeResult, near_optimal_within
from psephos.privacy.balls import operator_norm_upper, order_nuclear_norm_upper

__all__ = ["Rounded", "certified_order", "cost_bound", "round_to_tournament"]

_TIE_BREAK = 1 / 128
_TOLERANCE = 1e-4  # of the solver, in units of the distance of clipping
_MAX_STEPS = 100_000
_STEP, _STEP_CUBE = 20_000, 15  # of effort, in one of the solver's: and for each cubed item
_LONG = 1e9  # seconds; the solver takes no infinity
_GRID_BITS = 20
_CLIPPING_IS_EXACT = 3  # items

Floats = npt.NDArray[np.float64]
Table = npt.NDArray[Any]  # dtype object, fractions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """A table in range, near the released one.

    Attributes
    ----------
    margins
        (m, m), dtype object, fractions in votes: antisymmetric, no entry beyond ``people``.
    distance
        the operator norm of ``margins`` minus the released table is at most this, in votes; exact.
    solver
        ``"none"``: the table was in range already; ``"clip"``: entrywise clipping; ``"scs"``: the semidefinite program.
    """

    margins: Table
    distance: Fraction
    solver: str


def round_to_tournament(
    table: npt.ArrayLike, *, people: int, effort: float = DEFAULT_EFFORT, time_limit: float = DEFAULT_GUARD
) -> Rounded:
    """Return a table of margins in range that is near ``table`` in operator norm, by the program of the module.

    Parameters
    ----------
    table
        (m, m), antisymmetric, in votes: the released margins, integers of any size (or any finite numbers).
    people
        >= 0: the public number N of answers on each pair.
    effort, time_limit
        >= 0, of :func:`psephos.solve`; 0 means clipping. When one runs out, what the solver has is repaired.

    Returns
    -------
    Rounded
        Never further from ``table`` than entrywise clipping, as far as bounds tight to .1 % can tell.

    Raises
    ------
    ParameterError
        if ``table`` is not square, antisymmetric, finite and non-empty, or a parameter is out of range.
    MissingExtraError
        if more than three items need the solver and the extra ``certified`` is not installed.

    >>> round_to_tournament([[0, 5], [-5, 0]], people=3).margins.tolist()
    [[Fraction(0, 1), Fraction(3, 1)], [Fraction(-3, 1), Fraction(0, 1)]]
    """
    return _rounded(table, people=people, effort=check_effort(effort, time_limit))


def _rounded(table: npt.ArrayLike, *, people: int, effort: Effort) -> Rounded:
    scaled = scale_margins(table)
    n = check_integer(people, "people", low=0)
    m = len(scaled.integers)
    upper = np.triu_indices(m, 1)
    released = [scaled.unit * int(x) for x in scaled.integers[upper]]
    clipped = [min(max(t, Fraction(-n)), Fraction(n)) for t in released]
    if clipped == released:
        return Rounded(margins=_antisymmetric(released, m), distance=Fraction(0), solver="none")
    best = Rounded(margins=_antisymmetric(clipped, m), distance=_distance(clipped, released, m), solver="clip")
    if m <= _CLIPPING_IS_EXACT or effort.ended:
        return best
    unit = best.distance
    lower_bounds = np.array([float(max(Fraction(-1), (-n - t) / unit)) for t in released])
    upper_bounds = np.array([float(min(Fraction(1), (n - t) / unit)) for t in released])
    moves = _nearest(lower_bounds, upper_bounds, m, effort)
    if moves.shape != lower_bounds.shape or not np.isfinite(moves).all():
        return best
    grid = 1 << (_GRID_BITS + 2 * m.bit_length())
    near = []
    for t, move in zip(released, moves.tolist(), strict=True):
        exact_move = unit * Fraction(min(max(move, -1.0), 1.0))
        near.append(min(max(Fraction(round((t + exact_move) * grid), grid), Fraction(-n)), Fraction(n)))
    distance = _distance(near, released, m)
    if distance < best.distance:
        best = Rounded(margins=_antisymmetric(near, m), distance=distance, solver="scs")
    return best


def certified_order(table: npt.ArrayLike, *, people: int, xi: Exact, effort: Effort) -> tuple[Rounded, SchemeResult]:
    """The table in range near ``table``, and an order whose cost there is at most ``1 + xi`` times the least, in votes.

    The first may take half of ``effort``, the second the rest. Parameters and errors are those of
    :func:`round_to_tournament` and :func:`psephos.kemeny.ptas.near_optimal`; ``people`` >= 1.

    >>> rounded, result = certified_order([[0, 5], [-5, 0]], people=3, xi="0.1", effort=Effort(1))
    >>> result.order, result.cost
    ((0, 1), Fraction(0, 1))
    """
    rounded = _rounded(table, people=people, effort=effort.part(effort.left // 2))
    weights = (rounded.margins + people) * Fraction(1, 2)
    np.fill_diagonal(weights, Fraction(0))
    return rounded, near_optimal_within(weights, xi=xi, effort=effort)


def cost_bound(m: int, distance: Exact, noise_norm: Exact) -> Fraction:
    """(1) of the module: a rational >= Gamma, in votes.

    Parameters
    ----------
    m
        number of items.
    distance
        >= 0: at least the operator norm of M - T, such as :attr:`Rounded.distance`.
    noise_norm
        >= 0: at least the operator norm of the noise T - W, and Gamma is bounded where that holds; or at least its
        mean, and the mean of Gamma is bounded as far as ``distance`` is a bound on the mean distance.

    >>> round(float(cost_bound(2, 3, 4)), 3)  # one pair: N_2 = 2
    3.5
    """
    total = nonnegative(distance, "distance") + nonnegative(noise_norm, "noise_norm")
    return order_nuclear_norm_upper(check_integer(m, "m", low=1)) / 4 * total


def _antisymmetric(entries: list[Fraction], m: int) -> Table:
    """The table with these entries u < v, row by row."""
    table = np.full((m, m), Fraction(0), dtype=object)
    rows, columns = np.triu_indices(m, 1)
    table[rows, columns] = entries
    table[columns, rows] = [-x for x in entries]
    return table


def _distance(near: list[Fraction], released: list[Fraction], m: int) -> Fraction:
    differences = [x - t for x, t in zip(near, released, strict=True)]
    return operator_norm_upper(_antisymmetric(differences, m).tolist())


def _nearest(lower: Floats, upper: Floats, m: int, effort: Effort) -> Floats:
    """The entries u < v of Y, row by row, as the solver found them: not to be trusted.

    ``lower`` and ``upper`` (pairs,) bound them; a bound of -1 or 1 is left out. The variables are s and Y; the rows are
    the bounds, then the lower triangle of sI + iY by columns, with real and imaginary parts off the diagonal times
    sqrt 2. ``A x + slack = b``, the slack in the cone.
    """
    scs: Any = load_extra("scs", "certified")
    pairs = len(lower)
    rows, columns = np.triu_indices(m, 1)
    low, high = np.flatnonzero(lower > -1), np.flatnonzero(upper < 1)
    bounds = len(low) + len(high)
    starts = bounds + np.concatenate([[0], np.cumsum(2 * np.arange(m - 1, 0, -1) + 1)])  # of each column
    imaginary = starts[rows] + 2 * (columns - rows)  # the entry (v, u) of iY is -i Y[u, v]
    entries = np.concatenate([np.ones(len(high)), -np.ones(len(low)), -np.ones(m), np.full(pairs, np.sqrt(2))])
    at = np.concatenate([np.arange(bounds), starts, imaginary])
    variable = np.concatenate([1 + high, 1 + low, np.zeros(m, dtype=np.intp), 1 + np.arange(pairs)])
    matrix = sparse.csc_matrix((entries, (at, variable)), shape=(bounds + m * m, 1 + pairs))
    squares = sparse.csc_matrix(sparse.diags_array(np.concatenate([[0.0], np.full(pairs, 2 * _TIE_BREAK / m)])))
    step = _STEP + _STEP_CUBE * m**3
    most = min(_MAX_STEPS, max(1, effort.left // step))
    solution = scs.solve(
        {
            "P": squares,
            "A": matrix,
            "b": np.concatenate([upper[high], -lower[low], np.zeros(m * m)]),
            "c": np.concatenate([[1.0], np.zeros(pairs)]),
        },
        {"l": bounds, "cs": [m]},
        linear_solver="qdldl",  # one thread, and the same answer everywhere
        eps_abs=_TOLERANCE,
        eps_rel=_TOLERANCE,
        max_iters=most,
        time_limit_secs=min(effort.seconds_left, _LONG),
        verbose=False,
    )
    effort.spend(step * int(solution.get("info", {}).get("iter", most)))
    _ = effort.guard_passed  # if it cut the solver, the effort knows from here
    found: Floats = np.atleast_1d(np.asarray(solution["x"], dtype=np.float64))[1:]
    return found

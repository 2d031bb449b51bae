"""What the solver is given: a table computed from the released one and public facts, so it costs nothing.

``raw`` solves the released margins W~ as they are. ``adaptive`` first shrinks the part of W~ that no model by scores
explains:

    M = the model part,     R = W~ - M,     S = M + rho R,     rho = min(1, j / .9)^p,
    j = max(0, 1 - dof v / ||C||^2),        dof = D - (m - 1),  v = variance of the noise per entry,

where C is the cyclic part of R (what is left after differences of row means), norms run over u < v, and j estimates
the share of C that is not noise. If C is no larger than noise alone would make it, rho is 0 and the order is that of
Borda's scores; if it stands far out, rho is 1 and the table that is solved is W~.

The model part is the Bradley-Terry table with the row sums of W~, ``N tanh((theta_u - theta_v) / 2)``, where each pair
has N answers and N is public (ballots whose unranked items come last); else the gradient part, ``g_u - g_v`` with g the
row means. The order of M is that of the row sums either way.
S is rounded to a dyadic grid, antisymmetrically, so that costs and bounds stay exact.

``certified``, which bounds the excess in the worst case, is in :mod:`psephos.central.certified`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from psephos.pairwise.estimate import PairwiseEstimate
from psephos.scores.m_estimator import solve_scores

__all__ = ["POST_PROCESSINGS", "PostProcessing", "model_part", "post_process", "shrinkage", "surplus"]

PostProcessing = Literal["adaptive", "raw", "certified"]
POST_PROCESSINGS: tuple[PostProcessing, ...] = get_args(PostProcessing)

_RHO_BITS = 20
_GRID_BITS = 10
_GRID = 1 << _GRID_BITS
_FULL = 0.9  # this and the power: measured, docs/accuracy.md
_RIDGE = 1e-3
_MANY_TIMES = Fraction(10**6)


def _on_grid(margins: NDArray[Any]) -> NDArray[Any]:
    """Margins in units of 2**-10 votes, as Python integers, rounded antisymmetrically (half to even)."""
    m = len(margins)
    grid = np.empty((m, m), dtype=object)
    grid[...] = [[round(x * _GRID) for x in row] for row in margins.tolist()]  # Python numbers: numpy's do not widen
    return grid


def _differences(values: NDArray[Any]) -> NDArray[Any]:
    table: NDArray[Any] = values[:, None] - values[None, :]
    return table


def model_part(estimate: PairwiseEstimate, *, people: int) -> NDArray[Any]:
    """M of the module, antisymmetric, in units of 2**-10 votes (dtype object: Python integers).

    ``people``: answers of each pair where public, else 0. A ridge keeps the model finite where noise carries wins out
    of range; it vanishes with the noise.
    """
    m = len(estimate.items)
    rows = _on_grid(estimate.margins).sum(axis=1)
    if not people:
        return _antisymmetric(_differences(rows), lambda x: round(Fraction(x, m)))
    # Beyond a million times all answers there is nothing but noise.
    shares = [float(min(max(Fraction(row, people * _GRID), -_MANY_TIMES), _MANY_TIMES)) for row in rows]
    wins = [(m - 1 + share) / 2 for share in shares]
    ridge = float(min(Fraction(_RIDGE), estimate.noise.cyclic_variance / people**2)) * (m - 1)
    theta = solve_scores(wins, np.ones((m, m)) - np.eye(m), regularisation=ridge).scores
    theta = theta[[wins.index(share) for share in wins]]  # equal row sums, equal scores: to the last bit
    return _antisymmetric(np.tanh(_differences(theta) / 2), lambda x: round(Fraction(x) * people * _GRID))


def _antisymmetric(table: NDArray[Any], rounded: Callable[[Any], int]) -> NDArray[Any]:
    m = len(table)
    entries = table.tolist()
    result = np.zeros((m, m), dtype=object)
    for u in range(m):
        for v in range(u + 1, m):
            result[u, v] = rounded(entries[u][v])
            result[v, u] = -result[u, v]
    return result


def _relative_rest(estimate: PairwiseEstimate, model: NDArray[Any]) -> tuple[float, int]:
    """||C||^2 / v and dof."""
    m = len(model)
    rest = m * (_on_grid(estimate.margins) - model)
    rows = rest.sum(axis=1)
    cyclic = m * rest - _differences(rows)  # m^2 C in grid units: integers, exact at any size
    total = sum(int(x) ** 2 for x in cyclic[np.triu_indices(m, 1)])
    relative = Fraction(total, m**4 * _GRID**2) / estimate.noise.cyclic_variance
    return float(min(relative, Fraction(10**300))), m * (m - 1) // 2 - (m - 1)


def surplus(estimate: PairwiseEstimate, *, people: int) -> float:
    """By how many standard deviations ||C||^2 exceeds what noise alone would make it; needs noise on every entry.

    >>> from psephos.pairwise import NoiseLaw
    >>> cycle = np.array([[0, 9, -9], [-9, 0, 9], [9, -9, 0]])
    >>> noise = NoiseLaw(family="rounded-gaussian", scale=Fraction(4))
    >>> estimate = PairwiseEstimate(items=("a", "b", "c"), margins=cycle, noise=noise)
    >>> round(surplus(estimate, people=0), 2)  # (243 / (16 + 1/12) - 1) / sqrt 2
    9.98
    """
    if not estimate.noise.cyclic_variance:  # so little noise that rounding takes all of it
        return math.inf
    relative, dof = _relative_rest(estimate, model_part(estimate, people=people))
    return (relative - dof) / math.sqrt(2 * dof)


def shrinkage(estimate: PairwiseEstimate, model: NDArray[Any]) -> Fraction:
    """rho of the module for released margins and their model part, rounded to 20 bits; 1 without noise.

    >>> from psephos.pairwise import NoiseLaw
    >>> cycle = np.array([[0, 9, -9], [-9, 0, 9], [9, -9, 0]])
    >>> noise = NoiseLaw(family="rounded-gaussian", scale=Fraction(8))
    >>> estimate = PairwiseEstimate(items=("a", "b", "c"), margins=cycle, noise=noise)
    >>> round(float(shrinkage(estimate, model_part(estimate, people=0))), 4)  # ((1 - (64 + 1/12) / 243) / .9)^4
    0.4479
    """
    if not estimate.noise.sd:
        return Fraction(1)
    if not estimate.noise.cyclic_variance:  # the cyclic part was not released
        return Fraction(0)
    relative, dof = _relative_rest(estimate, model)
    if relative <= dof:
        return Fraction(0)
    standing_out = min(1.0, (1 - dof / relative) / _FULL)
    power = min(4.0, max(1.0, 24.0 / math.sqrt(dof)))
    return Fraction(round(standing_out**power * 2**_RHO_BITS), 2**_RHO_BITS)


def post_process(
    estimate: PairwiseEstimate, *, method: Literal["adaptive", "raw"], people: int = 0
) -> tuple[NDArray[Any], Fraction]:
    """The table that the solver is given, in votes, and rho (1 for ``raw``).

    ``people`` is how many answers each pair has, where that is public, else 0. ``adaptive`` gives fractions (dtype
    object), multiples of 2**-10 votes.
    """
    m = len(estimate.items)
    if method == "raw" or m < 3:
        return estimate.margins, Fraction(1)
    # Where only scores were released, their linear table is all there is.
    model = model_part(estimate, people=people if estimate.noise.cyclic_variance else 0)
    rho = shrinkage(estimate, model)
    if rho == 1:
        return estimate.margins, rho
    mixed = model + rho * (_on_grid(estimate.margins) - model)
    return _antisymmetric(mixed, round) * Fraction(1, _GRID), rho

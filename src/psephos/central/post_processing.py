"""What the solver is given: a table computed from the released one and public facts, so it costs nothing.

``raw`` solves the released margins W~ as they are. ``adaptive`` first shrinks the part of W~ that no ranking by
scores can express. With g the row means of W~,

    gradient part  G[u, v] = g_u - g_v,        cyclic part  R = W~ - G,        S = G + rho R,
    rho = max(0, 1 - dof v / ||R||^2)^4,       dof = D - (m - 1),  v = variance of the noise per entry,

where norms run over u < v. If the cyclic part is no larger than noise alone would make it, rho is 0 and the order is
that of Borda's scores; if it stands far out, rho is near 1.
S is rounded to a dyadic grid, antisymmetrically, so that costs and bounds stay exact.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos.pairwise.estimate import PairwiseEstimate

__all__ = ["POST_PROCESSINGS", "PostProcessing", "post_process", "shrinkage"]

PostProcessing = Literal["adaptive", "raw"]
POST_PROCESSINGS: tuple[PostProcessing, ...] = ("adaptive", "raw")

_RHO_BITS = 20
_GRID_BITS = 10


def shrinkage(estimate: PairwiseEstimate) -> Fraction:
    """rho of the module for released margins, rounded to 20 bits; 1 without noise.

    >>> from psephos.pairwise import NoiseLaw
    >>> cycle = np.array([[0, 9, -9], [-9, 0, 9], [9, -9, 0]])
    >>> noise = NoiseLaw(family="rounded-gaussian", scale=Fraction(4))
    >>> estimate = PairwiseEstimate(items=("a", "b", "c"), margins=cycle, noise=noise)
    >>> round(float(shrinkage(estimate)), 4)  # (1 - 1 * (16 + 1/12) / 243)^4
    0.7604
    """
    margins = estimate.margins.tolist()  # Python numbers: numpy's do not widen
    if not estimate.noise.sd:
        return Fraction(1)
    m = len(margins)
    dof = m * (m - 1) // 2 - (m - 1)
    rows = [sum(row, Fraction(0)) for row in margins]
    # ||R||^2 in rationals, because tables and noise can be far outside the range of doubles
    total = Fraction(0)
    for u in range(m):
        for v in range(u + 1, m):
            total += (margins[u][v] - (rows[u] - rows[v]) / m) ** 2
    if not total or not dof:
        return Fraction(0)
    explained = dof * estimate.noise.cyclic_variance / total
    if explained >= 1:
        return Fraction(0)
    return Fraction(round(float(1 - explained) ** 4 * 2**_RHO_BITS), 2**_RHO_BITS)


def post_process(estimate: PairwiseEstimate, *, method: PostProcessing) -> tuple[NDArray[Any], Fraction]:
    """The table that the solver is given, in votes, and rho (1 for ``raw``).

    ``adaptive`` gives fractions (dtype object), multiples of 2**-10 votes.
    """
    m = len(estimate.items)
    if method == "raw" or m < 3:
        return estimate.margins, Fraction(1)
    margins = estimate.margins.tolist()
    rho = shrinkage(estimate)
    rows = [sum(row, Fraction(0)) for row in margins]
    table = np.full((m, m), Fraction(0), dtype=object)
    for u in range(m):
        for v in range(u + 1, m):
            # S = rho W~ + (1 - rho) (r_u - r_v) / m, on the grid of 2**-10 votes
            exact = rho * margins[u][v] + (1 - rho) * (rows[u] - rows[v]) / m
            table[u, v] = Fraction(round(exact * 2**_GRID_BITS), 2**_GRID_BITS)
            table[v, u] = -table[u, v]
    return table, rho

"""The front door: split, choose a method for each part by its size, and put the certificate together."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from psephos._check import check_real, exact
from psephos.errors import ParameterError
from psephos.kemeny.blocks import Part, join_strict, join_weak, strict_blocks, weak_blocks
from psephos.kemeny.cost import (
    Integers,
    ScaledMargins,
    as_doubles,
    check_people,
    disagreement,
    scale_margins,
)
from psephos.kemeny.effort import DEFAULT_EFFORT, DEFAULT_GUARD, Effort, check_effort
from psephos.kemeny.ilp import branch_and_cut
from psephos.kemeny.local_search import local_search
from psephos.kemeny.result import KemenyResult, Limit, SolveStats, Status
from psephos.kemeny.subset_dp import MAX_ITEMS, subset_dp

__all__ = ["solve", "solve_within"]


def solve(
    margins: npt.ArrayLike,
    *,
    gap: int | float | str | Fraction = 0,
    gap_relative: float = 0.0,
    effort: float = DEFAULT_EFFORT,
    time_limit: float = DEFAULT_GUARD,
    people: int | Fraction = 0,
) -> KemenyResult:
    """Return an order of least Kemeny cost, with a certificate.

    Not private: it shows what its margins show. Of exact margins the answer is for the holder alone; of released ones
    it costs nothing more. :func:`psephos.private_consensus` does both steps.

    Parameters
    ----------
    margins
        (m, m), antisymmetric, any finite real numbers in votes: integers of any size, fractions or floats
        (a float stands for the dyadic rational that it is). ``margins[u, v] > 0`` means that u is preferred
        to v.
    gap
        >= 0, in votes: the search may stop once cost minus lower bound is at most this.
    gap_relative
        0 to 1: the search may also stop once the result's ``gap_relative`` is at most this.
    effort
        >= 0: how much work the solver may do (pivots, nodes, moves), in units that take about a second on an ordinary
        core. When it runs out, the best order so far is returned together with a valid lower bound. With equal effort
        equal margins give equal answers, on every machine with the same versions of numpy and HiGHS and under any load.
        Proving uniqueness may take as much of it as the optimum did, or a tenth of all.
    time_limit
        >= 0, seconds of wall-clock time, an outer guard: an answer that it cut says so in ``limit``.
    people
        >= 0: how many people the margins count. It shifts all costs by ``people * m * (m - 1) / 4``, and is
        needed only where costs should read as votes against.

    Returns
    -------
    KemenyResult
        ``status`` is ``"optimal"`` only where cost and lower bound agree in exact arithmetic.

    Raises
    ------
    ParameterError
        if ``margins`` is not square, antisymmetric, finite and non-empty, or a parameter is out of range.

    Notes
    -----
    Parts of at most 20 items are solved by dynamic programming over subsets; larger ones by local search
    and branch and bound on the linear-ordering relaxation.

    >>> result = solve([[0, 3, 1], [-3, 0, 5], [-1, -5, 0]], people=9)
    >>> result.order, result.cost, result.status, result.unique
    ((0, 1, 2), Fraction(9, 1), 'optimal', True)
    """
    return solve_within(
        margins, gap=gap, gap_relative=gap_relative, people=people, effort=check_effort(effort, time_limit)
    )


def solve_within(
    margins: npt.ArrayLike,
    *,
    effort: Effort,
    gap: int | float | str | Fraction = 0,
    gap_relative: float = 0.0,
    people: int | Fraction = 0,
) -> KemenyResult:
    """:func:`solve` with work that others count too."""
    start = time.monotonic()
    scaled = scale_margins(margins)
    allowed = "a finite number >= 0"
    absolute = exact(gap, "gap", allowed)
    if absolute < 0:
        raise ParameterError(f"gap must be {allowed}, got {gap!r}")
    relative = Fraction(check_real(gap_relative, "gap_relative", low=0.0, high=1.0))
    voters = check_people(people)
    # the cost of the majority on every pair is the least that the denominator of gap_relative can be
    reference = _gap_denominator(scaled, voters, scaled.cost(0, voters))
    allowance = math.floor(max(absolute, relative * reference) / scaled.unit)
    blocks = strict_blocks(np.sign(scaled.integers).astype(np.int8))
    parts: dict[int, Part] = {}
    spare = allowance
    for k in sorted(range(len(blocks)), key=lambda k: len(blocks[k])):  # the small ones must not starve
        inner = scaled.integers[np.ix_(blocks[k], blocks[k])]
        parts[k] = _solve_strict_block(inner, spare, effort)
        spare -= min(spare, parts[k].disagreement - parts[k].lower_bound)
    part = join_strict([parts[k] for k in range(len(blocks))], blocks)
    return _result(scaled, voters, part, allowance, effort, time.monotonic() - start)


def _solve_strict_block(integers: Integers, allowance: int, effort: Effort) -> Part:
    if len(integers) <= MAX_ITEMS:
        return _solve_small(integers, effort)
    signs = np.sign(integers).astype(np.int8)
    blocks = weak_blocks(signs)
    parts = []
    for block in blocks:
        inner = integers[np.ix_(block, block)]
        if len(block) <= MAX_ITEMS:
            part = _solve_small(inner, effort)
        else:
            part = branch_and_cut(inner, allowance=allowance, effort=effort)
        allowance -= min(allowance, part.disagreement - part.lower_bound)
        parts.append(part)
    return join_weak(parts, blocks, signs)


def _solve_small(integers: Integers, effort: Effort) -> Part:
    if len(integers) == 1:
        return Part(
            order=np.zeros(1, dtype=np.intp),
            disagreement=0,
            lower_bound=0,
            unique=True,
            differing=np.zeros((1, 1), dtype=np.bool_),
            method="majority",
        )
    found = subset_dp(integers, effort=effort)
    if found is None:  # not enough for it: zero is a lower bound on any sum of non-negative terms
        order = local_search(as_doubles(integers), kicks=0, effort=effort)
        return Part(
            order=order,
            disagreement=disagreement(integers, order),
            lower_bound=0,
            unique=None,
            differing=None,
            method="local_search",
        )
    differing = found.before & found.before.T
    return Part(
        order=np.array(found.order, dtype=np.intp),
        disagreement=found.disagreement,
        lower_bound=found.disagreement,
        unique=not differing.any(),
        differing=differing,
        method="subset_dp",
    )


def _gap_denominator(scaled: ScaledMargins, people: Fraction, cost: Fraction) -> Fraction:
    """What ``gap_relative`` is measured against."""
    largest = scaled.unit * int(np.abs(scaled.integers).max())
    return cost if people >= largest and cost > 0 else scaled.unit * scaled.total


def _result(
    scaled: ScaledMargins, people: Fraction, part: Part, allowance: int, effort: Effort, seconds: float
) -> KemenyResult:
    spent = disagreement(scaled.integers, part.order)
    cost = scaled.cost(spent, people)
    gap = scaled.unit * (spent - part.lower_bound)
    cut: Limit = "time_limit" if effort.guard_cut else "effort"
    status: Status = "optimal" if gap == 0 else "gap" if spent - part.lower_bound <= allowance else cut
    settled = status == "gap" or part.unique is not None
    differing = None
    if part.differing is not None:
        pairs = np.argwhere(np.triu(part.differing, 1)).tolist()
        differing = tuple((int(u), int(v)) for u, v in pairs)
    return KemenyResult(
        order=tuple(int(item) for item in part.order),
        cost=cost,
        lower_bound=cost - gap,
        gap=gap,
        gap_relative=float(gap / _gap_denominator(scaled, people, cost)) if gap else 0.0,
        method=part.method,
        status=status,
        unique=part.unique,
        limit=None if settled and not effort.guard_cut else cut,
        differing=differing,
        stats=SolveStats(nodes=part.nodes, cuts=part.cuts, seconds=seconds),
    )

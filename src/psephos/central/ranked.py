"""From what was released to a consensus: post-processing of noisy numbers, public facts and fresh bits."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.central.certified import certified_order, cost_bound
from psephos.central.nuclear import nuclear_noise_norm
from psephos.central.plan import Plan
from psephos.central.post_processing import PostProcessing, post_process
from psephos.central.result import Certificate, Consensus
from psephos.central.two_stage import Proved, proved_of
from psephos.errors import ParameterError
from psephos.kemeny import kemeny_cost
from psephos.kemeny.effort import Effort
from psephos.kemeny.result import Placed
from psephos.kemeny.solve import solve_within
from psephos.pairwise.estimate import NoiseLaw, PairwiseEstimate
from psephos.privacy.bits import BitSource
from psephos.privacy.bounded import shuffled
from psephos.privacy.noise_norms import gaussian_norm_quantile_upper, laplace_norm_quantile_upper

__all__ = ["consensus_of", "drawn_consensus"]


def consensus_of(
    estimate: PairwiseEstimate,
    plan: Plan,
    units: int,
    answers: int,
    post_processing: PostProcessing,
    xi: Fraction,
    effort: Effort,
    bits: BitSource,
) -> Consensus:
    """Everything after the release: sees the noisy table, public facts and fresh bits alone."""
    if post_processing == "certified":
        return _certified(estimate, plan, units, xi, effort, bits)
    table, rho = post_process(estimate, method=post_processing, people=answers)
    people = units if plan.pairs is None and plan.unit == "person" else 0  # what a ballot's answers sum to
    labels = _labels(table, bits)
    solved = solve_within(table[np.ix_(labels, labels)], people=people, effort=effort)
    result = solved.relabelled(labels)
    tiers, order, undecided = _places(estimate.items, result)
    return Consensus(
        tiers=tiers,
        order=order,
        undecided=undecided,
        cost_released=result.cost,
        lower_bound=result.lower_bound,
        gap=result.gap,
        cost_of_margins=kemeny_cost(estimate.margins, result.order, people=people),
        gap_relative=result.gap_relative,
        status=result.status,
        unique=result.unique,
        limit=result.limit,
        method=result.method,
        post_processing=post_processing,
        rho=float(rho),
        mechanism=plan.mechanism,
        reason=plan.reason,
        units=units,
        pairs=plan.pairs,
        estimate=estimate,
    )


def _labels(table: NDArray[Any], bits: BitSource) -> list[int]:
    """The items as the solver gets them: by their margins alone, and in random order where these do not part them.

    The fewest margins of 0 come first, so that items stand last that nothing is known of; then the largest sum, then
    the margins by size. The listed order decides nothing, and equal tables give equal rankings where all rows differ.
    """
    zeros, sums = (table == 0).sum(axis=1).tolist(), table.astype(object).sum(axis=1).tolist()
    first = [(zeros[u], -sums[u]) for u in range(len(table))]
    alike = Counter(first)
    rows = [tuple(sorted(table[u].tolist())) if alike[first[u]] > 1 else () for u in range(len(table))]
    place = shuffled(len(table), bits)
    return sorted(range(len(table)), key=lambda u: (first[u], rows[u], place[u]))


def _places(
    items: tuple[str, ...], result: Placed
) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...], tuple[tuple[str, int, int], ...] | None]:
    """``tiers``, ``order`` and ``undecided`` of a consensus."""
    tiers = tuple(tuple(sorted(items[i] for i in tier)) for tier in result.tiers)
    order = tuple(items[i] for i in result.order)
    if result.ranks is None:
        return tiers, order, None
    alone = [tier[0] for tier in result.tiers if len(tier) == 1]
    undecided = [(items[i], *result.ranks[i]) for i in alone if result.ranks[i][0] < result.ranks[i][1]]
    return tiers, order, tuple(undecided)


def _certified(
    estimate: PairwiseEstimate, plan: Plan, units: int, xi: Fraction, effort: Effort, bits: BitSource
) -> Consensus:
    """The nearest possible table, an order within 1 + xi of its optimum, and what both prove."""
    m = plan.items
    labels = _labels(estimate.margins, bits)
    renamed = estimate.margins[np.ix_(labels, labels)]
    rounded, solved = certified_order(renamed, people=units, xi=xi, effort=effort)
    result = solved.relabelled(labels)
    tiers, order, undecided = _places(estimate.items, result)
    failure = Fraction(1, 20)
    if isinstance(plan.scales, Fraction):
        noise = nuclear_noise_norm(m, plan.scales, failure=failure)
    elif isinstance(plan.scales, NoiseLaw):
        norm = gaussian_norm_quantile_upper if plan.mechanism == "gaussian" else laplace_norm_quantile_upper
        noise = norm(m, plan.scales.scale, failure)
    else:
        raise ParameterError(f"certified is not for mechanism {plan.mechanism}")
    proved = proved_of(result, xi)
    return Consensus(
        tiers=tiers,
        order=order,
        undecided=undecided,
        cost_released=result.cost,
        lower_bound=result.lower_bound,
        gap=result.gap,
        cost_of_margins=kemeny_cost(estimate.margins, result.order, people=units),
        gap_relative=float(result.gap / result.cost) if result.gap else 0.0,
        status="optimal"
        if proved.closed_by == "exact"
        else (result.limit or "effort")
        if proved.closed_by == "open"
        else "gap",
        unique=None if result.differing is None else not result.differing,
        limit=result.limit,
        method="certified",
        post_processing="certified",
        rho=1.0,
        mechanism=plan.mechanism,
        reason=plan.reason,
        units=units,
        pairs=plan.pairs,
        estimate=estimate,
        certificate=Certificate(
            xi=xi,
            factor=proved.factor,
            closed_by=proved.closed_by,
            nearest=rounded.solver,
            distance=_up(rounded.distance, 1000),
            noise_norm=_up(noise, 1000),
            cost_bound=_up(cost_bound(m, rounded.distance, noise), 1000),
            level=float(1 - failure),
        ),
    )


def _up(x: Fraction, parts: int) -> Fraction:
    """Rounded up to this many parts of 1, so that a bound is short to write down."""
    return Fraction(math.ceil(x * parts), parts)


def drawn_consensus(
    items: tuple[str, ...], order: tuple[int, ...], plan: Plan, units: int, proved: Proved | None, xi: Fraction
) -> Consensus:
    """A ranking whose table, if there is one, is not released."""
    return Consensus(
        tiers=tuple((items[i],) for i in order),
        order=tuple(items[i] for i in order),
        undecided=None,
        cost_released=None,
        lower_bound=None,
        gap=None,
        cost_of_margins=None,
        gap_relative=None,
        status="drawn",
        unique=None,
        method={"exponential": "gibbs"}.get(plan.mechanism, plan.mechanism),
        post_processing=None,
        rho=None,
        mechanism=plan.mechanism,
        reason=plan.reason,
        units=units,
        pairs=plan.pairs,
        estimate=None,
        certificate=None if proved is None else Certificate(xi=xi, factor=proved.factor, closed_by=proved.closed_by),
        limit=None if proved is None else proved.limit,
    )

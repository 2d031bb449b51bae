"""How sure the ranks of a consensus are: rank intervals from the release that gave the ranking.

The parameter is the vector of mean scores of the population that the people come from (a ballot gives an item the
number of items it ranks below it less the number above), and its ranks. The table of margins estimates it with known
noise; how people differ is told by the second moment of their scores, which is released beside the table
(:mod:`psephos.central.second_moment`): at no cost, but for scores with Laplace noise. The intervals hold for all items
at once (:mod:`psephos.scores.ranks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.central.plan import Plan
from psephos.central.probe import ProbeScales
from psephos.central.second_moment import (
    MomentScales,
    free_moment_scales,
    free_moment_scales_pure,
    mean_score_covariance,
    mean_score_errors,
    mean_scores,
    noisy_moment,
    score_moment,
    second_moment_event,
)
from psephos.central.shaped import ShapedScales
from psephos.errors import ParameterError
from psephos.pairwise.estimate import NoiseLaw, PairwiseEstimate, PartedNoise
from psephos.pairwise.kernel import Unranked
from psephos.privacy.bits import BitSource
from psephos.privacy.events import ComposedLaplaceEvent, DiscreteLaplaceEvent, Event
from psephos.profile.profile import Profile
from psephos.scores.ranks import RankIntervals, rank_intervals, rank_intervals_from_errors

__all__ = ["SecondMoment", "rank_sets", "second_moment"]

_SEED = 20_261  # of the simulation of errors, which is post-processing: equal releases, equal answers
_DRAWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondMoment:
    """A released second moment.

    Attributes
    ----------
    rows
        The noisy sum of s s^T over the people, by rows.
    scales
        The noise in it: its ``family``, and its scales on the ``diagonal`` and ``off_diagonal``.
    """

    rows: tuple[tuple[int, ...], ...]
    scales: MomentScales


def second_moment(
    profile: Profile, plan: Plan, noise: NoiseLaw | PartedNoise, event: Event, *, unranked: Unranked, bits: BitSource
) -> tuple[SecondMoment, Event]:
    """Release the second moment beside a table; what both cost together.

    ``noise`` and ``event`` are those of the table.
    """
    scales = plan.moment or _free_scales(profile.m, plan, noise)
    moment = noisy_moment(score_moment(profile, unranked=unranked), scales, bits=bits)
    if plan.moment is not None:
        own = second_moment_event(profile.m, scales)
        if not isinstance(own, DiscreteLaplaceEvent) or not isinstance(event, DiscreteLaplaceEvent):
            raise RuntimeError("only Laplace noise is charged for a second moment")
        event = ComposedLaplaceEvent(parts=(event, own))
    return SecondMoment(rows=tuple(tuple(int(x) for x in row) for row in moment), scales=scales), event


def _free_scales(m: int, plan: Plan, noise: NoiseLaw | PartedNoise) -> MomentScales:
    """The noise at which the second moment is free beside the table that was released."""
    scales = plan.scales
    if isinstance(scales, ProbeScales):
        if isinstance(noise, PartedNoise) and noise.gradient == noise.cyclic:
            return free_moment_scales(m, margins=[scales.look, scales.margin])
        return free_moment_scales(m, margins=[scales.look], row_sums=[scales.row_sum])
    if isinstance(scales, ShapedScales):
        return free_moment_scales(m, margins=[scales.margin], row_sums=[scales.row_sum])
    if not isinstance(scales, NoiseLaw):
        raise ParameterError(f"mechanism {plan.mechanism} has no rank intervals")
    if plan.mechanism == "borda":
        return free_moment_scales(m, row_sums=[scales.scale])
    if scales.family == "rounded-gaussian":
        return free_moment_scales(m, margins=[scales.scale])
    return free_moment_scales_pure(m, margin=scales.scale)


def rank_sets(
    estimate: PairwiseEstimate, moment: SecondMoment, plan: Plan, *, people: int, level: float
) -> RankIntervals:
    """Simultaneous rank intervals: sees what was released and public facts alone."""
    table: NDArray[Any] = np.array(moment.rows, dtype=object)
    means = mean_scores(estimate, people=people)
    covariance = mean_score_covariance(estimate, table, moment.scales, people=people)
    rng = np.random.default_rng(_SEED)
    law = plan.scales
    if isinstance(law, NoiseLaw) and law.family == "discrete-laplace":
        errors = mean_score_errors(covariance, plan.mechanism, law, people=people, draws=_DRAWS, rng=rng)
        return rank_intervals_from_errors(means, covariance.total, errors, level=level)
    return rank_intervals(means, covariance.total, level=level, rng=rng, draws=_DRAWS)

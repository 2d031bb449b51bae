"""What a release would cost and how noisy it would be: reads public facts only, never data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from psephos._check import Exact, check_choice, check_integer, parse_delta, parse_epsilon
from psephos.central.borda import borda_noise, row_sum_sensitivity, scores_are_cheaper
from psephos.central.exponential import check_size
from psephos.central.footrule import footrule_law
from psephos.central.gaussian import gaussian_law
from psephos.central.kwiksort import kwiksort_law
from psephos.central.laplace import laplace_law
from psephos.central.least_noise import least_noise_law
from psephos.central.margin_sensitivity import MarginSensitivity, margin_sensitivity
from psephos.central.nuclear import check_nuclear_size, nuclear_noise_law, nuclear_rate
from psephos.central.post_processing import POST_PROCESSINGS, PostProcessing
from psephos.central.probe import ProbeScales, probe_scales
from psephos.central.second_moment import PURE_SHARE, MomentScales, second_moment_scales_pure
from psephos.central.shaped import ShapedScales, shaped_noise, shaped_scales
from psephos.central.two_stage import TwoStage, TwoStagePlan, two_stage_plan
from psephos.errors import ParameterError
from psephos.pairwise.estimate import NoiseLaw, PartedNoise

__all__ = ["MECHANISMS", "Chosen", "Mechanism", "Plan", "plan_consensus"]

Chosen = Literal[
    "laplace", "gaussian", "nuclear", "shaped", "probe", "borda", "exponential", "footrule", "kwiksort", "two-stage"
]
Mechanism = Literal["auto"] | Chosen
MECHANISMS: tuple[Mechanism, ...] = ("auto", *get_args(Chosen))
#: Those that release one ranking and no table.
_DRAWN: tuple[Chosen, ...] = ("exponential", "footrule", "kwiksort", "two-stage")
#: Those with noise of one law on every margin, which `certified` needs.
_ON_MARGINS: tuple[Chosen, ...] = ("laplace", "gaussian", "nuclear")

# What `auto` goes by; measured: docs/accuracy.md.
_CYCLES_SMALL = 0.02  # root mean square of a margin's cyclic part, as a share of the answers, that still matters
_CYCLES_LARGE = 0.2  # and in a very divided population
_SAME = 0.95  # noise on scores, relative to that of scores of noisy margins, from which it is no gain
_MANY = Fraction(10**300)  # answers
_NUCLEAR_ITEMS = 64  # beyond, a draw takes seconds, and soon minutes
_NO_DEARER = 1.15  # normal noise on scores, relative to Laplace noise, from which a probe is not worth it


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A release that could be made.

    Attributes
    ----------
    items
        How many.
    mechanism
        The mechanism that would run, and ``reason`` why.
    epsilon, delta
        What the ledger would debit: pure mechanisms debit delta 0 even if more was offered.
    margins, rows
        How far one unit can move the margins, and their row sums.
    law
        The law of the noise on the margins; ``law.sd`` is its standard deviation in votes. ``None`` where no table is
        released (``exponential``, ``footrule``, ``kwiksort``, ``two-stage``). For ``probe`` it is that of ``gaussian``,
        which it has if it measures margins.
    scales
        What the mechanism draws from: the law of each entry (``laplace``, ``gaussian``), each row sum (``borda``), each
        count (``footrule``) or each answer (``kwiksort``), the rate of ``nuclear``, the scales of several, or what
        ``two-stage`` would run; ``None`` for ``exponential``.
    moment
        The noise on a second moment that is paid for, which is where rank intervals are asked for beside scores with
        Laplace noise; else ``None``: it is free or not released.
    """

    items: int
    mechanism: Chosen
    reason: str
    epsilon: Fraction
    delta: Fraction
    unit: Literal["person", "comparison"]
    pairs: int | None
    margins: MarginSensitivity
    rows: MarginSensitivity
    law: NoiseLaw | PartedNoise | None
    scales: NoiseLaw | ShapedScales | ProbeScales | Fraction | TwoStagePlan | None
    moment: MomentScales | None

    @property
    def score_sd(self) -> float | None:
        """Standard deviation of the noise on each row sum of the margins, in votes; ``None`` without noisy margins.

        For ``probe`` the smaller, which it has if it measures scores; for ``two-stage`` that of margins it ranks by.
        """
        if isinstance(self.scales, TwoStagePlan):
            return self.scales.margin_sd * math.sqrt(self.items - 1)
        if isinstance(self.scales, ProbeScales):
            return float(min(self.scales.row_sum, _MANY))
        if isinstance(self.law, PartedNoise):  # m - 1 of the m dimensions of row sums: their mean is 0
            return math.sqrt(float(min(self.law.gradient * self.law.m, _MANY)))
        return None if self.law is None else self.law.sd * math.sqrt(self.items - 1)


def plan_consensus(
    m: int,
    *,
    epsilon: Exact,
    delta: Exact = 0,
    mechanism: Mechanism = "auto",
    unit: Literal["person", "comparison"] = "person",
    pairs: int | None = None,
    people: int | None = None,
    intervals: bool = False,
    post_processing: PostProcessing = "adaptive",
    two_stage: TwoStage | None = None,
) -> Plan:
    """Choose and calibrate the mechanism of :func:`psephos.private_consensus` from public facts.

    Parameters
    ----------
    m
        Number of items, >= 1.
    epsilon, delta
        The guarantee: nats, and 0 <= delta < 1; delta 0 means pure.
    mechanism
        ``laplace`` or ``gaussian`` (delta > 0): noise on every margin. ``nuclear`` (pure, ballots): noise on all
        margins together, less of it from 3 items on. ``borda``: scores alone. ``shaped`` (delta > 0): less noise on
        scores than on cycles. ``probe`` (delta > 0): a look at the margins, then scores or margins, as it suggests.
        ``exponential`` (pure, at most 20 items), ``kwiksort`` and, for ballots, ``footrule`` and ``two-stage`` (which
        needs to know ``people``): one ranking and no table. ``auto`` chooses and says why.
    unit
        What is protected: a ``person`` with one ballot or several comparisons, or one ``comparison``.
    pairs
        For comparisons by ``person``: how many pairs of each person are used at most, >= 1. ``None`` for ballots.
    people
        How many people (or comparisons, if they are the unit) there are, >= 1, which ``auto`` goes by. ``None``: many.
    intervals
        Whether rank intervals are wanted, which need a second moment of the ballots (for mechanisms with a table).
    post_processing
        ``certified`` needs noise of one law on every margin (``laplace``, ``gaussian``, ``nuclear``).
    two_stage
        How ``two-stage`` runs, if not by default.

    >>> plan = plan_consensus(10, epsilon=1, delta="1e-6", mechanism="gaussian")
    >>> plan.mechanism, round(plan.law.sd, 1)
    ('gaussian', 56.7)
    >>> [plan_consensus(10, epsilon=1, people=n).mechanism for n in (100, 100_000)]
    ['borda', 'nuclear']
    """
    check_integer(m, "m", low=1)
    check_choice(mechanism, "mechanism", MECHANISMS)
    check_choice(unit, "unit", ("person", "comparison"))
    eps, dlt = parse_epsilon(epsilon), parse_delta(delta)
    if pairs is not None:
        check_integer(pairs, "pairs", low=1)
        if unit != "person":
            raise ParameterError(f"pairs bounds a person, and the unit is one comparison, got {pairs}")
    if people is not None:
        check_integer(people, "people", low=1)
    cap = 1 if unit == "comparison" else pairs  # on how many pairs one unit counts; None: all, as a ballot does
    margins, rows = margin_sensitivity(m, unit, pairs=pairs), row_sum_sensitivity(m, pairs=cap)
    if mechanism in ("gaussian", "shaped", "probe") and not dlt:
        raise ParameterError(f"mechanism {mechanism} needs delta > 0; with delta 0 (pure) use laplace or borda")
    if mechanism == "footrule" and cap is not None:
        raise ParameterError("mechanism footrule is for ballots: comparisons put no item in a place")
    if intervals and cap is not None:
        raise ParameterError(
            "rank intervals of a consensus are for ballots; private scores of comparisons have their own"
        )
    if mechanism == "nuclear" and cap is not None:
        raise ParameterError("mechanism nuclear is for ballots: answers in cycles, as comparisons are, break its bound")
    if mechanism == "two-stage" and (cap is not None or people is None):
        raise ParameterError(
            "mechanism two-stage needs to know how many people there are"
            if cap is None
            else "mechanism two-stage is for ballots, not for comparisons"
        )
    if not isinstance(two_stage, TwoStage | None):
        raise ParameterError(f"two_stage must be a TwoStage or None, got {two_stage!r}")
    if two_stage is not None and mechanism != "two-stage":
        raise ParameterError(f"two_stage is for mechanism two-stage, got mechanism {mechanism}")
    check_choice(post_processing, "post_processing", POST_PROCESSINGS)
    if mechanism == "nuclear":
        check_nuclear_size(m)
    if intervals and mechanism in (*_DRAWN, "nuclear"):
        why = "has no rank intervals" if mechanism == "nuclear" else "releases no table to give rank intervals of"
        raise ParameterError(f"mechanism {mechanism} {why}")
    certified = post_processing == "certified"
    if certified and mechanism not in ("auto", *_ON_MARGINS):
        raise ParameterError(
            f"post_processing certified is for noise on margins: {', '.join(_ON_MARGINS)}, got mechanism {mechanism}"
        )
    chosen: Chosen
    if mechanism != "auto":
        chosen, reason = mechanism, "asked for"
    elif certified:
        chosen, reason = _least_on_margins(m, eps, dlt, margins, ballots=cap is None and not intervals)
    else:
        chosen, reason = _choose(m, eps, dlt, margins, rows, cap=cap, people=people, intervals=intervals)
    law: NoiseLaw | PartedNoise | None = None
    scales: NoiseLaw | ShapedScales | ProbeScales | Fraction | TwoStagePlan | None = None
    moment: MomentScales | None = None
    if chosen == "laplace":
        law = scales = laplace_law(margins, epsilon=eps)
    elif chosen == "gaussian":
        law = scales = gaussian_law(margins, epsilon=eps, delta=dlt)
    elif chosen == "nuclear":
        scales = nuclear_rate(m, epsilon=eps)
        law = nuclear_noise_law(m, scales)
    elif chosen == "two-stage":
        scales = two_stage_plan(m, people=people or 1, epsilon=eps, delta=dlt, options=two_stage or TwoStage())
        reason = f"{reason}; {scales.reason}"
    elif chosen == "shaped":
        scales = shaped_scales(m, margins=margins, rows=rows, epsilon=eps, delta=dlt)
        law = shaped_noise(m, scales)
    elif chosen == "probe":
        scales = probe_scales(m, margins=margins, rows=rows, epsilon=eps, delta=dlt)
        law = gaussian_law(margins, epsilon=eps, delta=dlt)
    elif chosen == "borda":
        scales = least_noise_law(rows, epsilon=eps, delta=dlt)
        if intervals and scales.family == "discrete-laplace":
            scales = _scores_beside_a_moment(rows, epsilon=eps, delta=dlt)
            if scales.family == "discrete-laplace":
                moment = second_moment_scales_pure(m, epsilon=PURE_SHARE * eps)
        law = borda_noise(m, scales)
    elif chosen == "footrule":
        scales = footrule_law(m, epsilon=eps, delta=dlt)
    elif chosen == "kwiksort":
        scales = kwiksort_law(m, epsilon=eps, delta=dlt, pairs=cap)
    else:
        check_size(m)
    pure = chosen in ("exponential", "nuclear") or (
        isinstance(scales, NoiseLaw) and scales.family == "discrete-laplace"
    )
    return Plan(
        items=m,
        mechanism=chosen,
        reason=reason,
        epsilon=eps,
        delta=Fraction(0) if pure else dlt,
        unit=unit,
        pairs=pairs,
        margins=margins,
        rows=rows,
        law=law,
        scales=scales,
        moment=moment,
    )


def _scores_beside_a_moment(rows: MarginSensitivity, *, epsilon: Fraction, delta: Fraction) -> NoiseLaw:
    """Normal noise, beside which a second moment is free, or Laplace noise under what a moment leaves of epsilon."""
    laplace = laplace_law(rows, epsilon=(1 - PURE_SHARE) * epsilon)
    if not delta:
        return laplace
    return min(laplace, gaussian_law(rows, epsilon=epsilon, delta=delta), key=lambda law: law.sd)


def _noise_on_margins(
    m: int, epsilon: Fraction, delta: Fraction, margins: MarginSensitivity, *, ballots: bool
) -> dict[Chosen, float]:
    """The standard deviation of the noise on each margin, by mechanism."""
    noise: dict[Chosen, float] = {"laplace": laplace_law(margins, epsilon=epsilon).sd}
    if ballots and 2 < m <= _NUCLEAR_ITEMS:
        noise["nuclear"] = nuclear_noise_law(m, nuclear_rate(m, epsilon=epsilon)).sd
    if delta:
        noise["gaussian"] = gaussian_law(margins, epsilon=epsilon, delta=delta).sd
    return noise


def _against(noise: dict[Chosen, float]) -> str:
    return "standard deviation " + " against ".join(f"{sd:.4g} ({name})" for name, sd in noise.items())


def _least_on_margins(
    m: int, epsilon: Fraction, delta: Fraction, margins: MarginSensitivity, *, ballots: bool
) -> tuple[Chosen, str]:
    """The mechanism of ``auto`` for a table whose margins all have noise of one law."""
    noise = _noise_on_margins(m, epsilon, delta, margins, ballots=ballots)
    chosen = min(noise, key=lambda name: noise[name])
    return chosen, f"the least noise on margins: {_against(noise)}"


def _choose(
    m: int,
    epsilon: Fraction,
    delta: Fraction,
    margins: MarginSensitivity,
    rows: MarginSensitivity,
    *,
    cap: int | None,
    people: int | None,
    intervals: bool,
) -> tuple[Chosen, str]:
    """The mechanism of ``auto`` and the reason, from public facts alone."""
    noise = _noise_on_margins(m, epsilon, delta, margins, ballots=cap is None and not intervals)
    table = min(noise, key=lambda name: noise[name])
    scores = least_noise_law(rows, epsilon=epsilon, delta=delta).sd
    # Both about their mean, which says nothing: m - 1 of m parts of the one, and m - 1 margins of the other.
    if m < 3 or scores >= _SAME * noise[table] * math.sqrt(m):
        return table, f"the least noise on margins, and scores alone would have as much: {_against(noise)}"
    all_pairs = m * (m - 1) // 2
    # How many answers a pair has on average at most; so many that noise does not matter, if nothing is known.
    answers = _MANY if people is None else min(Fraction(people * min(cap or all_pairs, all_pairs), all_pairs), _MANY)
    normal = delta and table == "gaussian" and scores_are_cheaper(m, margins, rows)
    if normal and _normal_scores_are_no_dearer(epsilon, delta, rows):
        look = probe_scales(m, margins=margins, rows=rows, epsilon=epsilon, delta=delta).look
        seen = _least_seen(m, float(min(look, _MANY)), answers)
        if seen > _CYCLES_LARGE:
            return "borda", f"noise would hide cycles smaller than {_share(seen)} from a look, so all goes to scores"
        return "probe", "a look decides whether the rest goes to scores or to margins"
    seen = _least_seen(m, noise[table], answers)
    if seen > _CYCLES_SMALL:
        return "borda", f"noise would hide cycles smaller than {_share(seen)}, and scores alone have less of it"
    return table, f"noise hides only cycles smaller than {_share(seen)}"


def _share(seen: float) -> str:
    return f"{seen:.2g} of the answers of a pair" if seen < 1 else "all answers of a pair"


def _least_seen(m: int, sd: float, answers: Fraction) -> float:
    """The least cyclic part that stands two standard deviations out of such noise, as a share of a pair's answers.

    Root mean square over D pairs.
    """
    dof = m * (m - 1) // 2 - (m - 1)
    return math.sqrt(2) / math.sqrt(math.sqrt(dof / 2)) * sd / float(answers)


def _normal_scores_are_no_dearer(epsilon: Fraction, delta: Fraction, rows: MarginSensitivity) -> bool:
    normal = gaussian_law(rows, epsilon=epsilon, delta=delta).sd
    return normal <= _NO_DEARER * laplace_law(rows, epsilon=epsilon).sd

"""The front door: a private consensus ranking, from one released table of margins.

The order of events is part of the privacy claim. Everything that can be refused is refused on public facts alone
(parameters, the number of people, the list of items). Then the ledger debits. Only then are margins computed and
noise drawn, and nothing after that depends on the data except through the released table: the solver sees the noisy
table and never the profile, so its time, its status and its failures are post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from numpy.typing import NDArray

from psephos._check import Exact, check_choice, check_integer, check_level, exact
from psephos._extras import load_extra
from psephos._json import json_text
from psephos.central.borda import borda_margins
from psephos.central.exponential import exponential_order
from psephos.central.footrule import footrule_order
from psephos.central.gaussian import gaussian_margins
from psephos.central.kwiksort import kwiksort_order
from psephos.central.laplace import laplace_margins
from psephos.central.nuclear import nuclear_margins
from psephos.central.person_bound import bound_persons
from psephos.central.plan import Mechanism, Plan, plan_consensus
from psephos.central.post_processing import POST_PROCESSINGS, PostProcessing
from psephos.central.probe import ProbeScales, probe_margins
from psephos.central.rank_sets import rank_sets, second_moment
from psephos.central.ranked import consensus_of, drawn_consensus
from psephos.central.result import Consensus, complete_answers, release_from_json, release_to_json
from psephos.central.shaped import ShapedScales, shaped_margins
from psephos.central.two_stage import Proved, TwoStage, TwoStagePlan, two_stage_order
from psephos.errors import ParameterError
from psephos.kemeny.effort import DEFAULT_EFFORT, DEFAULT_GUARD, STEPS, Effort, check_effort
from psephos.pairwise.estimate import NoiseLaw, PairwiseEstimate, PartedNoise
from psephos.pairwise.kernel import Unranked
from psephos.pairwise.margins import pairwise_margins
from psephos.privacy.bits import BitSource, SystemBits
from psephos.privacy.events import Event
from psephos.privacy.guarantee import Guarantee
from psephos.privacy.release import Account, Codec, PlannedRelease, Release, noise_warning, release
from psephos.profile.comparisons import Comparisons
from psephos.profile.names import require_public_items
from psephos.profile.profile import Profile

__all__ = ["check_public_facts", "drawn_order", "exact_margins", "noisy_margins", "private_consensus"]


def private_consensus(
    data: Profile | Comparisons,
    *,
    epsilon: Exact,
    delta: Exact = 0,
    mechanism: Mechanism = "auto",
    unranked: Unranked = "last",
    unit: Literal["person", "comparison"] = "person",
    pairs: int | None = None,
    post_processing: PostProcessing = "adaptive",
    xi: Exact = "0.1",
    two_stage: TwoStage | None = None,
    level: float | None = None,
    effort: float = DEFAULT_EFFORT,
    time_limit: float = DEFAULT_GUARD,
    bits: BitSource = SystemBits(),  # noqa: B008 - it has no state
    account: Account | None = None,
) -> Release[Consensus]:
    """Release a consensus (Kemeny) ranking under differential privacy, with a certificate.

    The exact margins ``W[u, v] = #{prefer u} - #{prefer v}`` are released once under replace-one differential
    privacy; the ranking is computed from the released table, which costs nothing more.

    Parameters
    ----------
    data
        Ballots, one a person, or comparisons, any number a person.
    epsilon
        Nats, > 0: text (``"0.1"``, ``"1/11"``), a rational, or a float, which stands for the decimal it prints as.
    delta
        0 <= delta < 1; 0 means pure.
    mechanism
        ``auto`` reads public facts only and gives its reason. ``laplace`` (pure) and ``gaussian`` (delta > 0) put noise
        on every margin; ``borda`` releases scores alone; ``shaped`` (delta > 0) has less noise on scores than on
        cycles; ``probe`` (delta > 0) looks at the margins with a tenth of the budget, then measures scores or margins.
        ``nuclear`` (pure, ballots) puts noise on all margins together, less of it than ``laplace``. ``exponential``
        (pure, at most 20 items), ``kwiksort`` and, for ballots, ``footrule`` and ``two-stage`` release one ranking and
        no table.
    unranked
        For ballots: ``last`` puts unranked items below all ranked ones; ``missing`` compares them with nothing.
    unit
        What is protected: a ``person`` with their ballot or all their comparisons, or one ``comparison``, whoever gave
        it.
    pairs
        For comparisons by person: on how many pairs of items one person counts at most, a public number >= 1; the
        number of items if absent. One judgement a pair is drawn from the person's own.
    post_processing
        ``adaptive`` shrinks the cyclic part of the noisy table towards what noise explains; ``raw`` does not.
        ``certified`` (an extra) ranks the possible table that is nearest to the noisy one in operator norm, and bounds
        what the ranking costs in the worst case (:class:`psephos.central.Certificate`). It is for noise on margins:
        ``laplace``, ``gaussian`` or ``nuclear``, of which ``auto`` then takes the least.
    xi
        For ``certified`` and ``two-stage``: the ranking costs at most 1 + xi times the least on the table that is
        solved; a number > 0 and <= 1000. ``certified`` says what was proved, which may be less, and finds the optimum
        itself for up to 20 items.
    two_stage
        How ``two-stage`` runs, if not by default (:class:`psephos.central.TwoStage`).
    level
        For ballots: also give intervals of the ranks by mean score, which hold for all items at once with this
        probability, between 0 and 1 (:mod:`psephos.central.rank_sets`). A consensus that follows cycles may order items
        otherwise. They need a second release, which is free but for scores with Laplace
        noise, where it takes a fifth of epsilon. ``None``: no intervals.
    effort
        >= 0: how much work the solver may do, which sees only the released table, in units of about a second on an
        ordinary core. It is counted and not timed: with equal effort an equal table gives an equal ranking, on every
        machine and under any load. Where it ends first, ``status`` or ``limit`` of the answer says so.
    time_limit
        >= 0, seconds for the solver: an outer guard. An answer that it cut says so in ``limit``.
    bits
        Source of randomness; anything but :class:`SystemBits` itself stamps the release insecure.
    account
        Whose budget is debited first (:class:`psephos.Account`). A repeated request id gives the stored answer and
        costs nothing. ``None``: no record is kept.

    Returns
    -------
    Release[Consensus]
        The ranking with its certificate and the released estimate, what ran, and the guarantee.

    Raises
    ------
    ParameterError
        for a parameter out of range, no ballots, items that are not public, weighted comparisons, or a unit that
        the data cannot have.
    BudgetError
        if the ledger refuses; nothing was released.
    InsecureBitsError
        if test bits are offered together with an account.

    Notes
    -----
    Adjacency: replace-one. The number of people and the list of items are public facts. Sensitivity:
    :mod:`psephos.central.margin_sensitivity`. Kemeny's rule: J. Kemeny (1959), "Mathematics
    without numbers".

    >>> from psephos import Profile
    >>> profile = Profile.from_rankings({("tea", "coffee", "water"): 70_000, ("coffee", "water", "tea"): 30_000},
    ...                                 items=["coffee", "tea", "water"])
    >>> release = private_consensus(profile, epsilon=1)
    >>> release.value.tiers
    (('tea',), ('coffee',), ('water',))
    >>> release.guarantee.sentence()
    '1-differentially private (pure) for each person under replace-one adjacency.'
    """
    check_choice(unranked, "unranked", ("last", "missing"))
    check_choice(post_processing, "post_processing", POST_PROCESSINGS)
    steps = check_effort(effort, time_limit).total
    factor = check_xi(xi)
    if post_processing == "certified":
        load_extra("scs", "certified")  # before anything is paid
    if level is not None:
        level = check_level(level)
    units = check_public_facts(data, unit)
    if isinstance(data, Comparisons) and unit == "person":
        pairs = data.m if pairs is None else check_integer(pairs, "pairs", low=1)
    elif pairs is not None:
        raise ParameterError("pairs is for comparisons with unit='person'")
    plan = plan_consensus(
        data.m,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        unit=unit,
        pairs=pairs,
        people=units,
        intervals=level is not None,
        post_processing=post_processing,
        two_stage=two_stage,
    )
    guarantee = Guarantee(epsilon=plan.epsilon, delta=plan.delta, unit=unit, assumptions=_assumptions(data, unit))
    planned = _Planned(
        guarantee=guarantee,
        units=units,
        request=_request(data, plan, guarantee, unranked, post_processing, units, level, factor, steps),
        codec=Codec(release_to_json, release_from_json),
        plan=plan,
        unranked=unranked,
        answers=units if isinstance(data, Profile) and unranked == "last" else 0,
        counted=Fraction(data.m - 1) if isinstance(data, Profile) else Fraction(2 * (pairs or 1), data.m),
        post_processing=post_processing,
        xi=factor,
        level=level,
        effort=effort,
        time_limit=time_limit,
    )
    return release(planned, data, account=account, bits=bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned(PlannedRelease[Profile | Comparisons, Consensus]):
    """A release of a table or of a ranking, and all that follows it.

    ``answers`` is how many answers each pair has, where that is a public fact, else 0; ``counted`` on how many answers
    about one item a unit counts.
    """

    plan: Plan
    unranked: Unranked
    answers: int
    counted: Fraction
    post_processing: PostProcessing
    xi: Fraction
    level: float | None
    effort: float
    time_limit: float

    def warnings(self) -> Iterator[Warning]:
        """Also of noise that leaves next to nothing to see."""
        yield from PlannedRelease.warnings(self)
        if self.plan.score_sd is not None and self.plan.items > 1:
            yield from noise_warning(self.plan.score_sd, float(min(self.units * self.counted, Fraction(10**300))))

    def run(self, data: Profile | Comparisons, bits: BitSource) -> tuple[Consensus, Event]:
        """The consensus, and what ran."""
        plan, units, answers, unranked = self.plan, self.units, self.answers, self.unranked
        work = check_effort(self.effort, self.time_limit)  # its clock starts when the solver does, after the release
        if plan.law is None:
            order, proved, event = drawn_order(data, plan, unranked=unranked, xi=self.xi, effort=work, bits=bits)
            return drawn_consensus(data.items, order, plan, units, proved, self.xi), event
        counted = exact_margins(data, plan, unranked, bits)
        table, noise, event = noisy_margins(counted, plan, answers=answers, bits=bits)
        known = None if not answers else complete_answers(data.m, answers)
        estimate = PairwiseEstimate(items=data.items, margins=table, answers=known, noise=noise)
        moment = None
        if self.level is not None and isinstance(data, Profile):
            moment, event = second_moment(data, plan, noise, event, unranked=unranked, bits=bits)
        # From here on nothing reads the data.
        value = consensus_of(estimate, plan, units, answers, self.post_processing, self.xi, work, bits)
        if moment is not None and self.level is not None:
            ranks = rank_sets(estimate, moment, plan, people=units, level=self.level)
            value = replace(value, ranks=ranks, moment=moment)
        return value, event


def check_xi(value: object) -> Fraction:
    """The slack of a factor: a number > 0 and <= 1000."""
    allowed = "a number > 0 and <= 1000"
    xi = exact(value, "xi", allowed)
    if not 0 < xi <= 1000:
        raise ParameterError(f"xi must be {allowed}, got {value!r}")
    return xi


def check_public_facts(data: object, unit: object) -> int:
    """The number of units; raises on public facts alone."""
    check_choice(unit, "unit", ("person", "comparison"))
    if isinstance(data, Profile):
        if unit != "person":
            raise ParameterError(f"unit must be person for ballots, got {unit!r}")
        units = data.people
    elif isinstance(data, Comparisons):
        if unit == "person" and data.person is None:
            raise ParameterError(
                "these comparisons do not say who gave them, so no person can be protected; unit='comparison' "
                "(--unit comparison) protects one judgement"
            )
        if data.weight is not None:
            raise ParameterError("weighted comparisons are not released: give one record a judgement")
        units = data.records if unit == "comparison" else len(data.persons or ())
    else:
        raise ParameterError(f"data must be a Profile or Comparisons, got {type(data).__name__}")
    if not data.items or not units:
        raise ParameterError("nothing to rank: no items or nobody answered")
    require_public_items(data.items_source)
    return units


def _assumptions(data: Profile | Comparisons, unit: str) -> tuple[str, ...]:
    result = []
    if data.items_source == "assumed":
        result.append("the list of items, as seen in the data, is public")
    if unit == "comparison":
        result.append("one comparison, not one person, is what must be hidden")
    elif isinstance(data, Comparisons):
        result.append("how many people gave comparisons is public")
    return tuple(result)


def _request(
    data: Profile | Comparisons,
    plan: Plan,
    guarantee: Guarantee,
    unranked: Unranked,
    post_processing: PostProcessing,
    units: int,
    level: float | None,
    xi: Fraction,
    steps: int,
) -> str:
    """The public parameters of a request as text: equal for a repetition, different for anything else."""
    facts: dict[str, object] = {
        "release": "consensus",
        "mechanism": plan.mechanism,
        "unit": plan.unit,
        "pairs": plan.pairs,
        "units": str(units),
        "items": list(data.items),
        "unranked": unranked,
        "post_processing": post_processing,
        "level": level,
        "assumptions": list(guarantee.assumptions),
    }
    if post_processing == "certified" or plan.mechanism == "two-stage":
        facts["xi"] = str(xi)
    if isinstance(plan.scales, TwoStagePlan):
        facts["two_stage"] = plan.scales.options.facts()
    if steps != DEFAULT_EFFORT * STEPS and (plan.law is not None or plan.mechanism == "two-stage"):
        facts["effort"] = str(Fraction(steps, STEPS))
    return json_text(facts, indent=None)


def exact_margins(data: Profile | Comparisons, plan: Plan, unranked: Unranked, bits: BitSource) -> NDArray[Any]:
    """The margins of the data, of what counts of each person: the one step that reads them. Never released."""
    if isinstance(data, Comparisons) and plan.pairs is not None:
        data = bound_persons(data, pairs=plan.pairs, bits=bits)
    return pairwise_margins(data, unranked=unranked)


def noisy_margins(
    table: NDArray[Any], plan: Plan, *, answers: int, bits: BitSource
) -> tuple[NDArray[Any], NoiseLaw | PartedNoise, Event]:
    """What is released of exact margins, the law of the noise in it, and what ran.

    ``answers`` is how many answers each pair has, where that is public, else 0.
    """
    law, scales = plan.law, plan.scales
    if law is None or scales is None:
        raise ParameterError(f"mechanism {plan.mechanism} releases no table")
    event: Event
    if isinstance(scales, ProbeScales):
        return probe_margins(table, scales, margins=plan.margins, rows=plan.rows, people=answers, bits=bits)
    if isinstance(scales, Fraction):
        noisy, event = nuclear_margins(table, scales, bits=bits)
    elif isinstance(scales, TwoStagePlan):
        raise ParameterError("mechanism two-stage releases no table")
    elif isinstance(scales, ShapedScales):
        noisy, event = shaped_margins(table, scales, margins=plan.margins, rows=plan.rows, bits=bits)
    elif plan.mechanism == "borda":
        noisy, event = borda_margins(table, scales, sensitivity=plan.rows, bits=bits)
    elif plan.mechanism == "gaussian":
        noisy, event = gaussian_margins(table, scales, sensitivity=plan.margins, bits=bits)
    else:
        noisy, event = laplace_margins(table, scales, sensitivity=plan.margins, bits=bits)
    return noisy, law, event


def drawn_order(
    data: Profile | Comparisons,
    plan: Plan,
    *,
    unranked: Unranked,
    xi: Fraction,
    effort: Effort,
    bits: BitSource,
) -> tuple[tuple[int, ...], Proved | None, Event]:
    """The released order, best first, of a mechanism that releases no table, what is proved of it, and what ran."""
    if isinstance(plan.scales, TwoStagePlan) and isinstance(data, Profile):
        return two_stage_order(data, plan.scales, unranked=unranked, xi=xi, effort=effort, bits=bits)
    if plan.mechanism == "footrule" and isinstance(data, Profile) and isinstance(plan.scales, NoiseLaw):
        order, event = footrule_order(data, plan.scales, unranked=unranked, bits=bits)
        return order, None, event
    table = exact_margins(data, plan, unranked, bits)
    if plan.mechanism == "kwiksort" and isinstance(plan.scales, NoiseLaw):
        cap = 1 if plan.unit == "comparison" else plan.pairs
        order, event = kwiksort_order(table, plan.scales, pairs=cap, bits=bits)
        return order, None, event
    order, gibbs = exponential_order(table, epsilon=plan.epsilon, cost_range=plan.margins.l1, bits=bits)
    return order, None, gibbs

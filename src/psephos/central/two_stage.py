"""The two-stage mechanism: counts where the population is large, a sample of it where it is small. One ranking.

Ballots only; pure or (epsilon, delta). Which branch runs follows from public facts alone: m items, N people, epsilon,
delta (with t = epsilon N and D = m(m-1)/2 pairs; proofs and all constants: ``docs/proofs/central_worst_case.md``).

* ``fixed``: one item, or t < 1. The items in random order; nothing is read.
* ``counts``: t >= T. *Stage 1* releases ``H = W + Z`` on every margin and sorts the pairs by the noisy share
  ``h = 1/2 + H / (2 N)``: above 7/8 (or below 1/8) a pair is *strong*, else *balanced*. *Stage 2* measures again with
  fresh noise: a strong pair by ``A[u, v] = (W + Z') / N`` in its direction and ``A[v, u] = 0``, a balanced one by
  ``A[u, v] = 1/2 + (W + Z'') / (2 N)`` and ``A[v, u] = 1 - A[u, v]``. If all A are >= 0 with sums between 1/2 and 2,
  as they are with probability at least 1 - 1/N, the released order costs at most 1 + xi times the least under A
  (:mod:`psephos.kemeny.ptas`); else it is a random one.
* ``list``: 1 <= t < T. n = min(N, m^4 (T + 1)^2) people are drawn without replacement, and noise is put on the margins
  of the drawn; the released order has the least cost under these.

**Sensitivity of the counts.** Everything that gets noise is a margin, a whole number that one person moves by at most 2
(:mod:`psephos.central.margin_sensitivity`). Z and Z'' have twice the scale of Z', since these pairs read
``W / 2`` where strong ones read W. With Laplace noise of scale b on strong pairs stage 1 costs ``2 D / (2 b)``, and
stage 2 at most ``2 D / b`` whatever stage 1 said: ``3 D / b`` in all, and b = 3 D / epsilon. With normal noise of
standard deviation sigma, ``mu^2 = 4 D / (4 sigma^2) + 4 D / sigma^2 = 5 D / sigma^2``. These are the *exact* constants.
The *published* ones spend less than a quarter of epsilon: the ratio ``1 - epsilon / (32 D)`` (``1 - epsilon / (64 D)``
for Z and Z''), or ``sigma = 16 sqrt(D) sqrt(2 ln(20 / delta)) / epsilon``; they assume epsilon <= 1 and delta < 1/2.

**Equals.** The solver gets the noisy table with the items in random order, drawn without looking at the data
(:func:`psephos.privacy.bounded.shuffled`), so items that the table does not tell apart are equally likely to come
first.

**Amplification.** A mechanism for lists that is (epsilon0, delta0)-private makes, on n of N people, one that is
``(ln(1 + (n / N)(exp(epsilon0) - 1)), (n / N) delta0)``-private; exact constants solve this for epsilon0.

**Source.** The published proof for supports builds on lists: Hillebrand, Manurangsi, Suppakitpaisarn and Vajanopath
(2026, arXiv:2511.11319, theorem 5.1), and on the scheme of Kenyon-Mathieu and Schudy (2007). Its list branch calls
their mechanism; ours puts noise on the margins of the drawn people and solves that table.

**Certificate.** What the solver proved of its order (:class:`Proved`) follows from the noisy table that it was given,
and all proofs of privacy here are of that table: like the order it is post-processing, and is released with it.

**Bounded time.** By default noise has exactly its law and takes a random, almost surely finite time. With
``bounded_time`` every draw takes a fixed number of bits, the law is kept up to a total variation distance eta <= 1/N
(:mod:`psephos.privacy.bounded`), and privacy pays for it: with delta > 0 by a sixteenth of it; else the ranking is,
with probability ``lambda = 2^-ceil(log2 N)``, one drawn without looking at the data, which makes up for eta exactly.
This repair gives every *ranking* some probability, so nothing else is released with it then, and no certificate;
whoever times the run, or counts its bits, may see which of the two was drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice, shorter
from psephos.central.least_noise import least_noise_law
from psephos.central.margin_sensitivity import margin_sensitivity
from psephos.central.noisy_table import add_noise
from psephos.errors import ParameterError
from psephos.kemeny import KemenyResult
from psephos.kemeny.effort import Effort
from psephos.kemeny.ptas import SchemeResult, near_optimal_within
from psephos.kemeny.result import Limit
from psephos.kemeny.solve import solve_within
from psephos.pairwise.estimate import NoiseLaw
from psephos.pairwise.kernel import Unranked
from psephos.pairwise.margins import pairwise_margins
from psephos.privacy.balls import ball, dyadic_below, gaussian_quantile, log_mixed_exp, lower, sqrt_upper, upper
from psephos.privacy.bits import BitSource
from psephos.privacy.bounded import BoundedNoise, SymmetricNoise, bounded_below, shuffled, unrank
from psephos.privacy.events import (
    BoundedTimeEvent,
    ComposedGaussianEvent,
    ComposedLaplaceEvent,
    ConstantEvent,
    DiscreteLaplaceEvent,
    Event,
    RoundedGaussianEvent,
    SampledEvent,
)
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.samplers import uniform_below
from psephos.privacy.sampling import drawn_labels, drawn_numbers
from psephos.profile.profile import Profile

__all__ = ["Proved", "TwoStage", "TwoStagePlan", "proved_of", "two_stage_order", "two_stage_plan"]

_STRONG = Fraction(7, 8)
_MOST_RECORDS = 10**6
_MOST_BITS = 2048  # of accuracy in bounded time
_LEAST_DELTA = Fraction(16, 10**300)  # a sixteenth of it is the least delta that calibration takes


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoStage:
    """How to run the two-stage mechanism; all of it public.

    Attributes
    ----------
    constants
        ``exact``: noise that spends all of (epsilon, delta); ``published``: that of the published proof, for epsilon
        up to 1 and delta below 1/2.
    bounded_time
        Whether every random draw takes a fixed number of bits, at a distance from its law that the release's event
        states and the guarantee allows for.
    """

    constants: Literal["exact", "published"] = "exact"
    bounded_time: bool = False

    def __post_init__(self) -> None:
        check_choice(self.constants, "constants", ("exact", "published"))
        if not isinstance(self.bounded_time, bool):
            raise ParameterError(f"bounded_time must be True or False, got {self.bounded_time!r}")

    def facts(self) -> dict[str, object]:
        """The options as a ledger writes them down."""
        return {"constants": self.constants, "bounded_time": self.bounded_time}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """What is known of a released order under the noisy table that it was computed from.

    Attributes
    ----------
    factor
        The order costs at most this many times the least; ``None`` if nothing was proved.
    closed_by
        As of :class:`psephos.central.Certificate`.
    limit
        As of :class:`psephos.central.Consensus`.
    """

    factor: Fraction | None
    closed_by: Literal["exact", "bound", "scheme", "open", "none"]
    limit: Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoStagePlan:
    """What would run, from public facts alone.

    Attributes
    ----------
    branch
        ``fixed``, ``counts`` or ``list``, and ``reason`` why.
    threshold
        T: the least t = epsilon N that is served from counts, rounded up; ``None`` with 16 people or fewer, or with
        one item: there is none.
    sample
        How many people are drawn for the list; 0 in the other branches.
    list_epsilon, list_delta
        What noise on the margins of these people spends.
    strong, weak
        The noise on the margins of strong pairs, and on all others.
    distance
        eta, the total variation distance that bounded time costs, a power of two; 0 if draws are exact.
    mixture
        lambda of the module, 0 if there is no repair.
    bits_per_draw
        Of a strong pair's noise in bounded time, else ``None``.
    """

    items: int
    people: int
    epsilon: Fraction
    delta: Fraction
    branch: Literal["fixed", "counts", "list"]
    reason: str
    threshold: int | None
    sample: int
    list_epsilon: Fraction
    list_delta: Fraction
    strong: SymmetricNoise | None
    weak: SymmetricNoise | None
    distance: Fraction
    mixture: Fraction
    options: TwoStage

    @property
    def k(self) -> int:
        """Each single draw in bounded time is within ``2**-k`` of its law; together they are within ``distance``."""
        pairs = self.items * (self.items - 1) // 2
        draws = 2 * pairs if self.branch == "counts" else pairs + self.sample
        return self.distance.denominator.bit_length() - 1 + max(draws - 1, 0).bit_length()

    @property
    def bits_per_draw(self) -> int | None:
        """Fair bits that the noise of one strong pair takes, in bounded time."""
        if not self.distance or self.strong is None:
            return None
        return BoundedNoise(noise=self.strong, k=self.k).bits_per_draw

    @property
    def margin_sd(self) -> float:
        """Standard deviation of the noise on margins, as if all people had answered, in votes.

        Infinite in the branch ``fixed``.
        """
        if self.branch == "fixed":
            return math.inf
        if self.weak is not None:
            return self.weak.sd
        return _list_law(self).sd * float(min(Fraction(self.people, self.sample), Fraction(10**150)))

    def event(self) -> Event:
        """What runs, for the accountant."""
        ideal: Event = ConstantEvent()
        if self.branch == "list":
            ideal = SampledEvent(
                epsilon=self.list_epsilon,
                delta=self.list_delta,
                records=Fraction(self.sample),
                people=Fraction(self.people),
            )
        elif self.strong is not None and self.weak is not None:
            moved = margin_sensitivity(self.items, "person")
            noises = (self.weak, self.strong)  # of stage 1 and, at worst, of stage 2
            if self.strong.family == "gaussian":
                ideal = ComposedGaussianEvent(
                    parts=tuple(
                        RoundedGaussianEvent(sigma=law.scale, sensitivity_squared=moved.l2_squared) for law in noises
                    )
                )
            else:
                ideal = ComposedLaplaceEvent(
                    parts=tuple(DiscreteLaplaceEvent(scale=law.loss_scale(), sensitivity=moved.l1) for law in noises)
                )
        if not self.distance:
            return ideal
        least = Fraction(1, 2 * math.factorial(self.items))
        return BoundedTimeEvent(ideal=ideal, distance=self.distance, mixture=self.mixture, least=least)


def two_stage_plan(
    m: int,
    *,
    people: int,
    epsilon: Fraction,
    delta: Fraction,
    options: TwoStage = TwoStage(),
) -> TwoStagePlan:
    """Which branch would run, with which noise or sample; reads no data.

    Raises
    ------
    ParameterError
        in bounded time for a sample of more than a million people, who would be drawn one by one, and for more items,
        people or epsilon than 2048 bits are right for; for published constants with epsilon > 1 or delta >= 1/2.

    >>> plan = two_stage_plan(8, people=10**6, epsilon=Fraction(1), delta=Fraction(0))
    >>> plan.branch, plan.threshold
    ('counts', 47973)
    >>> two_stage_plan(3, people=1000, epsilon=Fraction(1), delta=Fraction(0)).sample
    1000
    """
    published = options.constants == "published"
    if published and not (epsilon <= 1 and delta < Fraction(1, 2)):
        raise ParameterError(
            f"the published constants assume epsilon <= 1 and delta < 1/2, got epsilon {epsilon} and delta {delta}; "
            "exact constants have no such limit"
        )
    t = epsilon * people
    # Bounded time keeps a sixteenth of delta for its distance; the published constants have it to spare.
    kept = shorter(delta * Fraction(15, 16)) if options.bounded_time and not published else delta
    if 0 < delta < _LEAST_DELTA:
        raise ParameterError(f"delta must be 0 or >= 1.6e-299 for mechanism two-stage, got {float(delta):.3g}")
    branch: Literal["fixed", "counts", "list"] = "fixed"
    threshold, sample, list_epsilon, list_delta = None, 0, epsilon, kept
    strong = weak = None
    if m == 1:
        reason = "one item has one ranking"
    elif t < 1:
        reason = f"epsilon times the number of people is {float(t):.3g}, below 1: too little to learn anything from"
    else:
        threshold = _threshold(m, people, epsilon, kept, published)
        if threshold is not None and t >= threshold:
            branch = "counts"
            strong, weak = _noises(m, epsilon, kept, published)
            reason = f"epsilon times the number of people is at least {threshold:,}: counts are measured twice"
        else:
            branch = "list"
            sample = people if threshold is None else min(people, m**4 * (threshold + 1) ** 2)
            list_epsilon, list_delta = _before_sampling(Fraction(people, sample), epsilon, kept, published)
            than = "with 16 people or fewer" if threshold is None else f"below {threshold:,}"
            whom = f"{sample:,} of {people:,} people" if sample < people else f"all {people:,} people"
            reason = f"epsilon times the number of people is {float(t):.6g}, {than}: a list of {whom} is ranked"
            if options.bounded_time and people > sample > _MOST_RECORDS:
                raise ParameterError(
                    f"mechanism two-stage in bounded time would draw {sample:,} of {people:,} people one by one; "
                    f"the most is {_MOST_RECORDS:,}, and exact time has no limit"
                )
    mixture = distance = Fraction(0)
    if options.bounded_time and branch != "fixed":
        distance, mixture = _distance(m, people, epsilon, delta, published)
    return TwoStagePlan(
        items=m,
        people=people,
        epsilon=epsilon,
        delta=delta,
        branch=branch,
        reason=reason,
        threshold=threshold,
        sample=sample,
        list_epsilon=list_epsilon,
        list_delta=list_delta,
        strong=strong,
        weak=weak,
        distance=distance,
        mixture=mixture,
        options=options,
    )


def _noises(m: int, epsilon: Fraction, delta: Fraction, published: bool) -> tuple[SymmetricNoise, SymmetricNoise]:
    """The noise on margins of strong pairs, and on all others (twice the scale)."""
    pairs = m * (m - 1) // 2
    if delta:
        sigma = _sigma(pairs, epsilon, delta, published)
        return SymmetricNoise(family="gaussian", scale=sigma), SymmetricNoise(family="gaussian", scale=2 * sigma)
    if published:
        a = epsilon / (32 * pairs)
        return SymmetricNoise(family="geometric", scale=1 - a), SymmetricNoise(family="geometric", scale=1 - a / 2)
    b = 3 * pairs / epsilon
    return SymmetricNoise(family="laplace", scale=b), SymmetricNoise(family="laplace", scale=2 * b)


def _sigma(pairs: int, epsilon: Fraction, delta: Fraction, published: bool) -> Fraction:
    if published:
        return upper(lambda: 16 * (2 * pairs * ball(20 / delta).log()).sqrt() / ball(epsilon))
    return sqrt_upper(5 * pairs / mu_lower(epsilon, delta) ** 2)


def _threshold(m: int, people: int, epsilon: Fraction, delta: Fraction, published: bool) -> int | None:
    """T of the module: from it on the second table fails its bounds with probability at most 1/N."""
    pairs = m * (m - 1) // 2
    if people <= 16:
        return None
    if delta:
        sigma = _sigma(pairs, epsilon, delta, published)
        tail = Fraction(1, 4 * pairs * people)
        shrunk = 1 - Fraction(16, people)
        return math.ceil(upper(lambda: 32 * gaussian_quantile(tail) * ball(sigma * epsilon / shrunk)))
    if published:
        share = 4 * pairs * people / (2 - Fraction(1, 32 * pairs))
        return math.ceil(upper(lambda: 1024 * pairs * ball(share).log()))
    ratio = epsilon / (3 * pairs)  # strong pairs have noise of ratio exp(-this)
    return math.ceil(upper(lambda: 96 * pairs * (ball(4 * pairs * people) / (1 + (-ball(ratio)).exp())).log()))


def _before_sampling(ratio: Fraction, epsilon: Fraction, delta: Fraction, published: bool) -> tuple[Fraction, Fraction]:
    """What noise may spend on a sample of one in ``ratio`` people; rounded down."""
    if published:
        return shorter(epsilon * ratio / 16), shorter(delta / 16)
    if ratio == 1:
        return epsilon, delta
    most = min(delta * ratio, Fraction(1, 2))
    # The slack is more than what accounting, rounded up, adds again: the loss before sampling is convex in that after.
    return lower(lambda: log_mixed_exp(epsilon, ratio)) * (1 - Fraction(1, 2**48)), shorter(most)


def _distance(m: int, people: int, epsilon: Fraction, delta: Fraction, published: bool) -> tuple[Fraction, Fraction]:
    """eta and lambda of the module."""
    distance, mixture = Fraction(0), Fraction(0)
    if m <= _MOST_BITS // 6 and people < 2**_MOST_BITS and epsilon < _MOST_BITS:  # else one of the factors is too small
        distance, mixture = _dyadics(m, people, epsilon, delta, published)
    if distance < Fraction(1, 2**_MOST_BITS):
        raise ParameterError(
            f"bounded_time would need draws that are right to more than {_MOST_BITS} bits, with {m} items, epsilon "
            f"{float(epsilon):.3g} and so many people"
        )
    return distance, mixture


def _dyadics(m: int, people: int, epsilon: Fraction, delta: Fraction, published: bool) -> tuple[Fraction, Fraction]:
    if delta:
        if published:
            return _power(max(100 / delta, Fraction(people))), Fraction(0)
        return min(
            dyadic_below(lambda: ball(delta / 16) / (1 + ball(epsilon).exp())), _power(Fraction(people))
        ), Fraction(0)
    orders = math.factorial(m)
    mixture = Fraction(1, 1 << (people - 1).bit_length())
    if published:
        return _power(100 * people * orders / epsilon), mixture
    slack = mixture / (2 * orders)
    return dyadic_below(lambda: ball(epsilon).expm1() / (1 + ball(epsilon).exp()) * ball(slack)), mixture


def _power(x: Fraction) -> Fraction:
    """``2**-ceil(log2 x)``, x > 0 a rational."""
    power = math.ceil(x) - 1
    return Fraction(1, 1 << power.bit_length())


def two_stage_order(
    profile: Profile,
    plan: TwoStagePlan,
    *,
    unranked: Unranked,
    xi: Fraction,
    effort: Effort,
    bits: BitSource,
) -> tuple[tuple[int, ...], Proved | None, Event]:
    """An order of the items, best first, what its solver proved, and what ran.

    Parameters
    ----------
    xi
        > 0: the order costs at most 1 + xi times the least under the second table, if the solver can prove it within
        ``effort``.

    Returns
    -------
    The proof is ``None`` where nothing was solved, and under the mixture of bounded time, which covers the order alone.
    """
    names = shuffled(profile.m, bits)  # no table below knows the listed order
    if plan.branch == "fixed":
        return names, None, plan.event()
    if plan.mixture and not bits.bits(plan.mixture.denominator.bit_length() - 1):
        orders = math.factorial(profile.m)
        return unrank(bits.bits(1 + (orders - 1).bit_length()) % orders, profile.m), None, plan.event()
    if plan.branch == "list":
        table = _noisy_margins(_drawn_profile(profile, plan, bits), plan, unranked=unranked, bits=bits)
        solved = solve_within(table[np.ix_(names, names)], people=plan.sample, effort=effort)
        order, proved = solved.order, proved_of(solved, xi)
    else:
        weights = second_table(pairwise_margins(profile, unranked=unranked), plan, bits)
        order, proved = tuple(range(profile.m)), Proved(factor=None, closed_by="none")
        if weights is not None:
            found = near_optimal_within(weights[np.ix_(names, names)], xi=xi, effort=effort)
            order, proved = found.order, proved_of(found, xi)
    return tuple(names[i] for i in order), None if plan.mixture else proved, plan.event()


def proved_of(result: SchemeResult | KemenyResult, xi: Fraction) -> Proved:
    """The factor that a solver proved, rounded up to six decimals, and how.

    >>> from psephos.kemeny.ptas import near_optimal
    >>> proved_of(near_optimal([[0, 3], [1, 0]], xi="0.1"), Fraction(1, 10))
    Proved(factor=Fraction(1, 1), closed_by='exact', limit=None)
    """
    if result.cost == result.lower_bound:
        return Proved(factor=Fraction(1), closed_by="exact", limit=result.limit)
    factor = None if result.lower_bound <= 0 else Fraction(math.ceil(result.cost / result.lower_bound * 10**6), 10**6)
    if isinstance(result, SchemeResult):
        return Proved(factor=factor, closed_by=result.certificate, limit=result.limit)
    within = result.cost <= (1 + xi) * result.lower_bound
    return Proved(factor=factor, closed_by="bound" if within else "open", limit=result.limit)


def _draw(noise: SymmetricNoise, size: int, plan: TwoStagePlan, bits: BitSource) -> list[int]:
    if plan.distance:
        return BoundedNoise(noise=noise, k=plan.k).draws(size, bits)
    return noise.draws(size, bits)


def second_table(margins: NDArray[Any], plan: TwoStagePlan, bits: BitSource) -> NDArray[Any] | None:
    """A of the module, fractions of shape (m, m), or ``None`` where it is no bounded tournament."""
    if plan.strong is None or plan.weak is None:
        raise ParameterError(f"branch {plan.branch} releases no counts")
    m, people = len(margins), plan.people
    pairs = [(u, v) for u in range(m) for v in range(u + 1, m)]
    first = _draw(plan.weak, len(pairs), plan, bits)
    shares = [Fraction(people + int(margins[pair]) + z, 2 * people) for pair, z in zip(pairs, first, strict=True)]
    strong = [share > _STRONG or share < 1 - _STRONG for share in shares]
    # From here on: what stage 1 released decides how stage 2 measures, with fresh noise.
    large = iter(_draw(plan.weak, strong.count(False), plan, bits))
    small = iter(_draw(plan.strong, strong.count(True), plan, bits))
    table = np.full((m, m), Fraction(0), dtype=object)
    for (u, v), share, is_strong in zip(pairs, shares, strong, strict=True):
        if is_strong:
            above, below = (u, v) if share > _STRONG else (v, u)
            table[above, below] = Fraction(int(margins[above, below]) + next(small), people)
        else:
            table[u, v] = Fraction(people + int(margins[u, v]) + next(large), 2 * people)
            table[v, u] = 1 - table[u, v]
    sums = [table[u, v] + table[v, u] for u, v in pairs]
    bounded = all(Fraction(1, 2) <= x <= 2 for x in sums) and all(x >= 0 for x in table.flat)
    return table if bounded else None


def _labels(profile: Profile, plan: TwoStagePlan, bits: BitSource) -> list[int]:
    """The kinds of ballot of the drawn people, in random order."""

    def below(n: int) -> int:
        return bounded_below(n, plan.k, bits) if plan.distance else uniform_below(n, bits)

    return drawn_labels(profile.counts, plan.sample, below)


def _drawn_profile(profile: Profile, plan: TwoStagePlan, bits: BitSource) -> Profile:
    """The ballots of the drawn people."""
    if plan.sample == plan.people:
        return profile
    numbers = [0] * profile.support
    if plan.distance:
        for label in _labels(profile, plan, bits):
            numbers[label] += 1
    else:
        numbers = list(drawn_numbers(profile.counts, plan.sample, bits))
    kept = [i for i, number in enumerate(numbers) if number]
    return Profile(
        items=profile.items,
        places=profile.places[:, kept],
        counts=tuple(numbers[i] for i in kept),
        items_source=profile.items_source,
    )


def _list_law(plan: TwoStagePlan) -> NoiseLaw:
    return least_noise_law(margin_sensitivity(plan.items, "person"), epsilon=plan.list_epsilon, delta=plan.list_delta)


def _noisy_margins(sample: Profile, plan: TwoStagePlan, *, unranked: Unranked, bits: BitSource) -> NDArray[Any]:
    """The margins of the sample with noise on all of them."""
    law = _list_law(plan)
    noise = SymmetricNoise(family="gaussian" if law.family == "rounded-gaussian" else "laplace", scale=law.scale)
    margins = pairwise_margins(sample, unranked=unranked)
    return add_noise(margins, lambda n: np.array(_draw(noise, n, plan, bits), dtype=object))

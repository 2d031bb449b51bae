"""How many people a local poll needs, or how sure it will be. No data is read.

The formulas stand in :mod:`psephos.local.predicted`. Everything here is a prediction at a public guess of the scores,
under assumptions that every plan lists: each person draws their pairs at random and answers as the guess says. It is
the first order of large samples: beside simulated polls it was within 7 % up to a standard error of 0.2 log-odds and
within 12 % at 0.3; above that, now and then a poll goes far astray and real errors are much larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from psephos._check import Exact, check_choice, check_integer, check_level, check_real, positive
from psephos.errors import ParameterError
from psephos.local.budget import device_epsilon, epsilon_text
from psephos.local.columns import margin_moments
from psephos.local.debias import Weights
from psephos.local.predicted import (
    Answering,
    ErrorShape,
    Population,
    best_answers,
    population,
    range_quantile,
)
from psephos.local.randomized_response import attenuation_at, check_mechanism
from psephos.local.reports import UNITS, Mechanism, Unit
from psephos.scores.answers import real_array
from psephos.scores.links import LOGISTIC, Link, as_link

__all__ = [
    "MOST_PEOPLE",
    "CurvePoint",
    "Epsilons",
    "LocalPlan",
    "PlanGroup",
    "epsilons_text",
    "plan_curve",
    "plan_local",
]

#: One epsilon for all, or several with the shares of the people who hold them (in any unit).
Epsilons = Exact | Mapping[Exact, Exact] | Iterable[tuple[Exact, Exact]]

#: How the answers of one person hang together.
AnswersOfOne = Literal["ranking", "independent"]

#: The most people that a plan knows.
MOST_PEOPLE = 10**30
_MOST_ITEMS = 10**6
_ROUGH = 0.3 * 0.25  # a standard error times f(0), from which the normal approximation was seen to err by 10 %


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGroup:
    """People of one epsilon.

    Attributes
    ----------
    epsilon
        what they declare, in nats: for the person or for each answer, as the plan's ``unit`` says.
    share
        their share of all people; shares sum to 1.
    pairs
        how many pairs each of them answers.
    epsilon_answer, epsilon_person
        what one answer, and all answers of a person, spend.
    attenuation
        the share of its signal that a report keeps, in (0, 1].
    weight
        of each answer in the fit; 1 on average over all answers.
    """

    epsilon: Fraction
    share: Fraction
    pairs: int
    epsilon_answer: Fraction
    epsilon_person: Fraction
    attenuation: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlan:
    """What a poll of so many people will reach.

    Attributes
    ----------
    items, people
        how many. With a target, ``people`` is the least number that reaches it.
    unit, mechanism, weights, link, level, ties, answers
        as given (``link`` by name).
    scores
        the guess, one an item, with mean 0.
    groups
        people by epsilon, in the order given.
    answers_per_pair
        expected number of answers that a pair gets.
    variance_factor
        G >= 1 in the absence of ties: by how much randomisation, weights included, multiplies the variance of an
        answer between equal items. ``uniform``: the mean of 1/a^2 over answers; ``adaptive``: 1 over the mean of a^2.
    score_errors
        predicted standard error of each score about the mean of all, in units of scores.
    score_error, difference_error
        root mean square of those, and of the standard errors of all differences of two scores.
    rank_width
        expected width (worst rank less best rank, so 0 is sure) of the simultaneous rank intervals, on average.
    rank_quantile
        how many standard errors a difference must have to be sure at ``level``, for all pairs at once.
    top, top_chance
        K, and the chance that the K best estimates are the K best items; ``None`` where that is undefined because the
        guessed scores do not tell these K apart from the rest.
    all_pairs_factor
        how many times as many people would be needed for the same errors if everyone answered all pairs at the same
        epsilon for the person; ``None`` for ``unit="comparison"``, where that would spend more.
    three_outcome_factor
        how many times as many people ``binary`` would need as ``three-outcome``, at the share of ties and (unless
        ``pairs`` is given) the best number of pairs of each: above 1, three outcomes are better.
    rough
        whether ``score_error`` is above 0.3 log-odds (0.19 for the normal link): too few people for the prediction to
        hold, real errors will be larger.
    """

    items: int
    people: int
    unit: Unit
    mechanism: Mechanism
    weights: Weights
    link: str
    level: float
    ties: float
    answers: AnswersOfOne
    scores: tuple[float, ...]
    groups: tuple[PlanGroup, ...]
    answers_per_pair: float
    variance_factor: float
    score_errors: tuple[float, ...]
    score_error: float
    difference_error: float
    rank_width: float
    rank_quantile: float
    top: int | None
    top_chance: float | None
    all_pairs_factor: float | None
    three_outcome_factor: float
    rough: bool

    @property
    def pairs(self) -> int:
        """How many pairs a person answers, if that is the same for all.

        Raises
        ------
        ParameterError
            if groups differ: see ``groups``.
        """
        numbers = {group.pairs for group in self.groups}
        if len(numbers) > 1:
            raise ParameterError(f"pairs must be read from the groups: they answer {sorted(numbers)} pairs")
        return numbers.pop()

    @property
    def equal(self) -> bool:
        """Whether all items are taken to be equal."""
        return len(set(self.scores)) == 1

    def assumptions(self) -> tuple[str, ...]:
        """What the prediction rests on, a sentence each."""
        told = "all items are equally good" if self.equal else "scores are as guessed"
        held = (
            "a person answers by one ranking of their own"
            if self.answers == "ranking"
            else "the answers of one person are independent of each other"
        )
        lines = [
            f"{told}, and the {self.link} link holds",
            held,
            "each person answers pairs drawn at random, whatever they think",
        ]
        if len(self.groups) > 1:
            lines.append("a person's epsilon says nothing about what they prefer")
        if self.ties:
            lines.append(f"a share {self.ties:g} of the answers are ties, as far as scores leave room for them")
        return tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One point of the trade-off between people, epsilon and errors.

    ``epsilon`` is text as the command line takes it (``"1"``, ``"1:0.6,4:0.4"``); ``pairs`` one number a group; the
    errors as in :class:`LocalPlan`.
    """

    epsilon: str
    people: int
    pairs: tuple[int, ...]
    score_error: float
    difference_error: float


def plan_local(
    items: int,
    *,
    epsilon: Epsilons,
    people: int | None = None,
    target_error: float | None = None,
    target_top: float | None = None,
    target_width: float | None = None,
    unit: Unit = "person",
    pairs: int | None = None,
    mechanism: Mechanism = "binary",
    weights: Weights = "adaptive",
    link: Link | str = LOGISTIC,
    scores: npt.ArrayLike | None = None,
    ties: float = 0.0,
    answers: AnswersOfOne = "ranking",
    level: float = 0.95,
    top: int | None = None,
) -> LocalPlan:
    """What randomised answers of ``people`` will tell, or how many people a target needs. Reads no data.

    Exactly one of ``people`` and the three targets is given.

    Parameters
    ----------
    items
        m, from 2 to 10**6.
    epsilon
        nats, 1e-17 to 800: one number for all, or a mix, ``{epsilon: share}`` or a sequence of ``(epsilon, share)``
        with shares > 0 in any unit.
    people
        L, from 1 to 10**30.
    target_error
        the standard error of a score to be reached, > 0, as ``score_error`` of the result.
    target_top
        the chance, in (0, 1), with which the best ``top`` items are to be found; needs ``scores`` that differ there.
    target_width
        the mean width of rank intervals to be reached, from 0 to m - 1, as ``rank_width`` of the result.
    unit
        what epsilon protects: a ``person``, who divides it among their answers, or each ``comparison``.
    pairs
        k, from 1 to m(m-1)/2: how many different pairs each person answers, drawn at random. By default, for each
        group, the number that makes errors least (pass it on to :func:`psephos.local.plan_person`); with
        ``unit="comparison"`` it must be given, for more answers then always cost more.
    mechanism
        ``binary`` or ``three-outcome``.
    weights
        ``adaptive`` (an answer counts by how much signal it keeps) or ``uniform``.
    link
        ``logistic``, ``normal`` or a :class:`psephos.scores.Link`.
    scores
        a public guess of the scores, m numbers (up to 2,000 items); by default all are equal, which is the hardest
        case for ranks. It must come from elsewhere than the people to be asked.
    ties
        a public guess of the share of ties, from 0 to 0.999.
    answers
        ``ranking``: a person answers by one ranking of all items, drawn with independent utilities for which the
        link holds. That is the default since it is what a person with an opinion does; with one pair each it changes
        nothing. ``independent``: each answer is drawn on its own, as if from different people.
    level
        simultaneous coverage of the rank intervals, in (0, 0.9999].
    top
        K, from 1 to m - 1.

    Returns
    -------
    LocalPlan

    Raises
    ------
    ParameterError
        naming the parameter, its value and the allowed range, also where a target cannot be reached.

    Source: the sandwich of :mod:`psephos.scores.intervals` at the expected table of answers.

    >>> plan = plan_local(10, epsilon=1, people=5000)
    >>> plan.pairs, round(plan.score_error, 3), round(plan.difference_error, 3)
    (1, 0.123, 0.184)
    >>> plan_local(10, epsilon=1, target_error=0.1).people
    7586
    """
    given = _Question(
        items=check_integer(items, "items", low=2, high=_MOST_ITEMS),
        unit=_unit(unit),
        mechanism=check_mechanism(mechanism),
        weights=_weights(weights),
        link=as_link(link),
        ties=check_real(ties, "ties", low=0.0, high=0.999),
        answers=_answers(answers),
        pairs=pairs,
    )
    mix = _mix(epsilon, "epsilon")
    interval_level = check_level(level)
    k = None if top is None else check_integer(top, "top", low=1, high=given.items - 1)
    goal = _one_goal(people=people, target_error=target_error, target_top=target_top, target_width=target_width)
    guess = None if scores is None else _guess(scores, given.items)
    crowd = given.population(guess)
    groups = given.groups(mix, crowd)
    kinds = given.kinds(groups)
    shape = crowd.errors(kinds)
    ranks = _Ranks(given.items, shape.ratios(), range_quantile(given.items, interval_level))
    apart = k is not None and _apart(crowd.scores, k)
    if goal == "people":
        number = check_integer(people, "people", low=1, high=MOST_PEOPLE)
    elif goal == "target_error":
        number = _people_for_error(check_real(target_error, goal, low=1e-12, high=1e12), shape)
    elif goal == "target_top":
        number = _people_for_top(target_top, shape, k if apart else None, k)
    else:
        number = _people_for_width(check_real(target_width, goal, low=0.0, high=given.items - 1), ranks)
    errors = shape.score_errors(number)
    all_pairs = None
    if given.unit == "person":
        every = given.kinds(given.groups(mix, crowd, pairs=crowd.pairs))
        all_pairs = crowd.variance(every) / crowd.variance(kinds)
    factor = _three_outcome_factor(given, mix, crowd)
    mean_answers = sum(kind.share * kind.pairs for kind in kinds)
    return LocalPlan(
        items=given.items,
        people=number,
        unit=given.unit,
        mechanism=given.mechanism,
        weights=given.weights,
        link=given.link.name,
        level=interval_level,
        ties=given.ties,
        answers=given.answers,
        scores=tuple(crowd.scores.tolist()),
        groups=groups,
        answers_per_pair=number * mean_answers / crowd.pairs,
        variance_factor=sum(kind.share * kind.pairs * kind.weight**2 * kind.moment for kind in kinds) / mean_answers,
        score_errors=tuple(errors.tolist()),
        score_error=math.sqrt(shape.variance / number),
        difference_error=shape.difference_error(number),
        rank_width=ranks.width(number),
        rank_quantile=ranks.quantile,
        top=k,
        top_chance=shape.top_chance(k)(number) if k is not None and apart else None,
        all_pairs_factor=all_pairs,
        three_outcome_factor=factor,
        rough=math.sqrt(shape.variance / number) * float(given.link.density(np.zeros(1))[0]) > _ROUGH,
    )


def plan_curve(
    items: int,
    *,
    epsilons: Sequence[Epsilons],
    people: Sequence[int],
    unit: Unit = "person",
    pairs: int | None = None,
    mechanism: Mechanism = "binary",
    weights: Weights = "adaptive",
    link: Link | str = LOGISTIC,
    scores: npt.ArrayLike | None = None,
    ties: float = 0.0,
    answers: AnswersOfOne = "ranking",
) -> tuple[CurvePoint, ...]:
    """Errors for each of several epsilons (or mixes) and numbers of people, epsilon by epsilon.

    The other parameters, and what is raised, are as for :func:`plan_local`.

    >>> for point in plan_curve(10, epsilons=[1, 4], people=[1000, 10_000]):
    ...     print(point.epsilon, point.people, point.pairs, round(point.score_error, 3))
    1 1000 (1,) 0.275
    1 10000 (1,) 0.087
    4 1000 (2,) 0.12
    4 10000 (2,) 0.038
    """
    given = _Question(
        items=check_integer(items, "items", low=2, high=_MOST_ITEMS),
        unit=_unit(unit),
        mechanism=check_mechanism(mechanism),
        weights=_weights(weights),
        link=as_link(link),
        ties=check_real(ties, "ties", low=0.0, high=0.999),
        answers=_answers(answers),
        pairs=pairs,
    )
    crowd = given.population(None if scores is None else _guess(scores, given.items))
    mixes = [_mix(epsilon, f"epsilons[{i}]") for i, epsilon in enumerate(epsilons)]
    numbers = [check_integer(number, f"people[{i}]", low=1, high=MOST_PEOPLE) for i, number in enumerate(people)]
    points = []
    for mix in mixes:
        groups = given.groups(mix, crowd)
        variance = crowd.variance(given.kinds(groups))
        shape = ErrorShape(scores=crowd.scores, variance=variance, covariance=None)
        for number in numbers:
            points.append(
                CurvePoint(
                    epsilon=_mix_text(mix),
                    people=number,
                    pairs=tuple(group.pairs for group in groups),
                    score_error=math.sqrt(variance / number),
                    difference_error=shape.difference_error(number),
                )
            )
    return tuple(points)


def epsilons_text(epsilon: Epsilons) -> str:
    """An epsilon or a mix as the command line takes it, with shares that sum to 1.

    >>> epsilons_text(0.5), epsilons_text([(1, 600), (4, 400)])
    ('0.5', '1:0.6,4:0.4')
    """
    return _mix_text(_mix(epsilon, "epsilon"))


Mix = tuple[tuple[Fraction, Fraction], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The parameters that a plan and a curve share, checked (``pairs`` is, once the items are known)."""

    items: int
    unit: Unit
    mechanism: Mechanism
    weights: Weights
    link: Link
    ties: float
    answers: AnswersOfOne
    pairs: int | None

    def population(self, guess: npt.NDArray[np.float64] | None) -> Population:
        if self.pairs is not None:
            check_integer(self.pairs, "pairs", low=1, high=self.items * (self.items - 1) // 2)
        elif self.unit == "comparison":
            raise ParameterError(
                "pairs must be given with unit 'comparison': every further answer spends epsilon once more, got None"
            )
        return population(self.items, guess, link=self.link, ties=self.ties, one_ranking=self.answers == "ranking")

    def groups(
        self, mix: Mix, crowd: Population, *, pairs: int | None = None, mechanism: Mechanism | None = None
    ) -> tuple[PlanGroup, ...]:
        """The people of each epsilon, who answer ``pairs`` or as many as were asked for, or as are best."""
        means = self.mechanism if mechanism is None else mechanism
        whole = self.unit == "person"
        groups = []
        for epsilon, share in mix:
            k = self.pairs if pairs is None else pairs
            if k is None:
                k = best_answers(crowd, float(epsilon), mechanism=means)
            each = epsilon / k if whole else epsilon
            groups.append((epsilon, share, k, each, float(margin_moments(float(each), means)[0])))
        raw = [1.0 if self.weights == "uniform" else 1.0 / moment for *_, moment in groups]
        # 1/moment may be near 1e-50: divide by the largest first
        raw = [weight / max(raw) for weight in raw]
        amounts = [float(share) * k for _, share, k, _, _ in groups]
        mean = sum(a * weight for a, weight in zip(amounts, raw, strict=True)) / sum(amounts)
        return tuple(
            PlanGroup(
                epsilon=epsilon,
                share=share,
                pairs=k,
                epsilon_answer=each,
                epsilon_person=epsilon if whole else epsilon * k,
                attenuation=attenuation_at(float(each), means),
                weight=weight / mean,
            )
            for (epsilon, share, k, each, _), weight in zip(groups, raw, strict=True)
        )

    def kinds(self, groups: tuple[PlanGroup, ...], mechanism: Mechanism | None = None) -> tuple[Answering, ...]:
        kinds = []
        for group in groups:
            moment, tied = margin_moments(float(group.epsilon_answer), mechanism or self.mechanism)
            kinds.append(
                Answering(
                    share=float(group.share),
                    pairs=group.pairs,
                    weight=group.weight,
                    moment=float(moment),
                    tied_moment=float(tied),
                )
            )
        return tuple(kinds)


def _three_outcome_factor(given: _Question, mix: Mix, crowd: Population) -> float:
    variances = []
    for mechanism in ("binary", "three-outcome"):
        means = check_mechanism(mechanism)
        variances.append(crowd.variance(given.kinds(given.groups(mix, crowd, mechanism=means), means)))
    return variances[0] / variances[1]


@dataclass(frozen=True, slots=True, eq=False)
class _Ranks:
    """Widths of rank intervals; ``ratios`` are the differences in standard errors of one person, or all 0."""

    items: int
    ratios: npt.NDArray[np.float64] | None
    quantile: float

    def width(self, people: int) -> float:
        """Mean over the items of how many others are expected to be neither surely better nor surely worse."""
        if self.ratios is None:
            return (self.items - 1) * self._unsure(np.zeros(1))
        z = self.ratios * math.sqrt(people)
        return 2.0 * len(z) / self.items * self._unsure(z)

    def limit(self) -> float:
        """The width that no number of people gets below."""
        if self.ratios is None:
            return self.width(1)
        return 2.0 * int(np.count_nonzero(self.ratios == 0)) / self.items * self._unsure(np.zeros(1))

    def _unsure(self, z: npt.NDArray[np.float64]) -> float:
        return float(np.mean(ndtr(self.quantile - z) - ndtr(-self.quantile - z)))


def _people_for_error(target: float, shape: ErrorShape) -> int:
    number = _least_people(lambda people: math.sqrt(shape.variance / people) <= target)
    if number is None:
        raise ParameterError(f"target_error must be within reach of 10**30 people, got {target!r}")
    return number


def _people_for_top(value: object, shape: ErrorShape, apart: int | None, top: int | None) -> int:
    target = check_real(value, "target_top", low=0.0, high=1.0)
    if not 0.0 < target < 1.0:
        raise ParameterError(f"target_top must be > 0 and < 1, got {value!r}")
    if top is None:
        raise ParameterError("top must be given with target_top: how many are the best, got None")
    if apart is None:
        raise ParameterError(
            f"scores must be a guess in which the best {top} stand apart from the rest, for target_top: "
            "which items are the best is undefined among equals"
        )
    chance = shape.top_chance(apart)
    number = _least_people(lambda people: chance(people) >= target)
    if number is None:
        raise ParameterError(f"target_top must be within reach of 10**30 people, got {value!r}")
    return number


def _people_for_width(target: float, ranks: _Ranks) -> int:
    number = None
    if ranks.width(1) <= target or ranks.limit() < target:
        number = _least_people(lambda people: ranks.width(people) <= target)
    if number is None:
        raise ParameterError(
            f"target_width must be > {ranks.limit():.4g} (what equal scores leave open, whoever is asked) and within "
            f"reach of 10**30 people, got {target!r}"
        )
    return number


def _least_people(reaches: Callable[[int], bool]) -> int | None:
    """The least number >= 1 that reaches what all greater ones reach too; ``None`` above 10**30."""
    high = 1
    while not reaches(high):
        high *= 2
        if high > MOST_PEOPLE:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle
    return high


def _apart(scores: npt.NDArray[np.float64], top: int) -> bool:
    """Whether the best ``top`` scores are greater than all others."""
    order = np.sort(scores)[::-1]
    return bool(order[top - 1] > order[top])


def _unit(unit: object) -> Unit:
    return "person" if check_choice(unit, "unit", UNITS) == "person" else "comparison"


def _weights(weights: object) -> Weights:
    return "uniform" if check_choice(weights, "weights", ("uniform", "adaptive")) == "uniform" else "adaptive"


def _answers(answers: object) -> AnswersOfOne:
    name = check_choice(answers, "answers", ("ranking", "independent"))
    return "ranking" if name == "ranking" else "independent"


def _one_goal(**goals: object) -> str:
    given = [name for name, value in goals.items() if value is not None]
    if len(given) != 1:
        raise ParameterError(f"exactly one of {', '.join(goals)} must be given, got {', '.join(given) or 'none'}")
    return given[0]


def _guess(scores: npt.ArrayLike, items: int) -> npt.NDArray[np.float64]:
    guess = real_array(scores, "scores", ndim=1)
    if len(guess) != items:
        raise ParameterError(f"scores must be {items} numbers, one an item, got {len(guess)}")
    return guess


def _mix(epsilon: object, name: str) -> Mix:
    """Epsilons with their shares, which sum to 1; an epsilon that occurs twice has the sum of its shares."""
    entries: list[tuple[object, object]]
    if isinstance(epsilon, Mapping):
        entries = list(epsilon.items())
    elif isinstance(epsilon, Iterable) and not isinstance(epsilon, (str, bytes)):
        entries = []
        for i, entry in enumerate(epsilon):
            pair = tuple(entry) if isinstance(entry, Sequence) and not isinstance(entry, str) else ()
            if len(pair) != 2:
                raise ParameterError(f"{name}[{i}] must be (epsilon, share), got {entry!r}")
            entries.append((pair[0], pair[1]))
    else:
        entries = [(epsilon, 1)]
    if not entries:
        raise ParameterError(f"{name} must have at least one entry, got {epsilon!r}")
    shares: dict[Fraction, Fraction] = {}
    for value, share in entries:
        key = device_epsilon(value, name)
        shares[key] = shares.get(key, Fraction(0)) + positive(share, f"{name} (share of {epsilon_text(key)})")
    total = sum(shares.values())
    return tuple((key, share / total) for key, share in shares.items())


def _mix_text(mix: Mix) -> str:
    if len(mix) == 1:
        return epsilon_text(mix[0][0])
    return ",".join(f"{epsilon_text(epsilon)}:{epsilon_text(share)}" for epsilon, share in mix)

"""How many people a local poll needs, or how sure it will be. No data is read.

The formulas stand in :mod:`psephos.local.predicted`. Everything here is a prediction at a public guess of the scores,
under assumptions that every design lists: each person draws their pairs at random and answers as the guess says. It is
the first order of large samples: beside simulated polls it was within 7 % up to a standard error of 0.2 log-odds and
within 12 % at 0.3; above that, now and then a poll goes far astray and real errors are much larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from psephos._check import check_integer, check_level
from psephos.errors import ParameterError
from psephos.local.debias import Weights
from psephos.local.mix import Epsilons, mix_of, mix_text
from psephos.local.poll import AnswersOfOne, PlanGroup, Poll
from psephos.local.predicted import range_quantile
from psephos.local.reports import Mechanism, Unit
from psephos.local.targets import MOST_PEOPLE, RankWidths, people_for_error, people_for_top, people_for_width
from psephos.scores.links import LOGISTIC, Link

__all__ = ["CurvePoint", "PollDesign", "plan_local"]

_ROUGH = 0.3 * 0.25  # a standard error times f(0), from which the normal approximation was seen to err by 10 %


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One point of the trade-off between people, epsilon and errors.

    ``epsilon`` is text as the command line takes it (``"1"``, ``"1:0.6,4:0.4"``); ``pairs`` one number a group; the
    errors as in :class:`PollDesign`.
    """

    epsilon: str
    people: int
    pairs: tuple[int, ...]
    score_error: float
    difference_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PollDesign:
    """A poll of so many people, and what it will reach.

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
    _poll: Poll = field(repr=False, compare=False)

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

    def curve(self, epsilons: Sequence[Epsilons], *, people: Sequence[int]) -> tuple[CurvePoint, ...]:
        """Errors of the same questions for other epsilons (or mixes) and numbers of people, epsilon by epsilon.

        Raises
        ------
        ParameterError
            for an epsilon or a number of people that is out of range.

        >>> for point in plan_local(10, epsilon=1, people=1000).curve([1, 4], people=[1000, 10_000]):
        ...     print(point.epsilon, point.people, point.pairs, round(point.score_error, 3))
        1 1000 (1,) 0.275
        1 10000 (1,) 0.087
        4 1000 (2,) 0.12
        4 10000 (2,) 0.038
        """
        mixes = [mix_of(epsilon, f"epsilons[{i}]") for i, epsilon in enumerate(epsilons)]
        numbers = [check_integer(number, f"people[{i}]", low=1, high=MOST_PEOPLE) for i, number in enumerate(people)]
        points = []
        for mix in mixes:
            groups = self._poll.groups(mix)
            shape = self._poll.people.mean_errors(self._poll.kinds(groups))
            points += [
                CurvePoint(
                    epsilon=mix_text(mix),
                    people=number,
                    pairs=tuple(group.pairs for group in groups),
                    score_error=math.sqrt(shape.variance / number),
                    difference_error=shape.difference_error(number),
                )
                for number in numbers
            ]
        return tuple(points)


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
) -> PollDesign:
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
    PollDesign

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
    poll = Poll.of(
        items,
        unit=unit,
        pairs=pairs,
        mechanism=mechanism,
        weights=weights,
        link=link,
        scores=scores,
        ties=ties,
        answers=answers,
    )
    crowd, mix, interval_level = poll.people, mix_of(epsilon, "epsilon"), check_level(level)
    k = None if top is None else check_integer(top, "top", low=1, high=crowd.items - 1)
    goals = {"people": people, "target_error": target_error, "target_top": target_top, "target_width": target_width}
    given = [name for name, value in goals.items() if value is not None]
    if len(given) != 1:
        raise ParameterError(f"exactly one of {', '.join(goals)} must be given, got {', '.join(given) or 'none'}")
    groups = poll.groups(mix)
    kinds = poll.kinds(groups)
    shape = crowd.errors(kinds)
    ranks = RankWidths(crowd.items, shape.ratios(), range_quantile(crowd.items, interval_level))
    best_first = np.sort(crowd.scores)[::-1]
    apart = k is not None and bool(best_first[k - 1] > best_first[k])
    if given == ["people"]:
        number = check_integer(people, "people", low=1, high=MOST_PEOPLE)
    elif given == ["target_error"]:
        number = people_for_error(target_error, shape)
    elif given == ["target_top"]:
        number = people_for_top(target_top, shape, k, apart=apart)
    else:
        number = people_for_width(target_width, ranks)
    score_error = math.sqrt(shape.variance / number)
    mean_answers = sum(kind.share * kind.pairs for kind in kinds)
    return PollDesign(
        items=crowd.items,
        people=number,
        unit=poll.unit,
        mechanism=poll.mechanism,
        weights=poll.weights,
        link=crowd.link.name,
        level=interval_level,
        ties=crowd.ties,
        answers=poll.answers,
        scores=tuple(crowd.scores.tolist()),
        groups=groups,
        answers_per_pair=number * mean_answers / crowd.pairs,
        variance_factor=sum(kind.share * kind.pairs * kind.weight**2 * kind.moment for kind in kinds) / mean_answers,
        score_errors=tuple(shape.score_errors(number).tolist()),
        score_error=score_error,
        difference_error=shape.difference_error(number),
        rank_width=ranks.width(number),
        rank_quantile=ranks.quantile,
        top=k,
        top_chance=shape.top_chance(k)(number) if k is not None and apart else None,
        all_pairs_factor=poll.all_pairs_factor(mix),
        three_outcome_factor=poll.three_outcome_factor(mix),
        rough=score_error * float(crowd.link.density(np.zeros(1))[0]) > _ROUGH,
        _poll=poll,
    )

"""A poll as its errors depend on it: how many pairs the people of each epsilon answer, and what an answer counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy.typing as npt

from psephos._check import check_choice, check_integer, check_real
from psephos.errors import ParameterError
from psephos.local.columns import margin_moments
from psephos.local.debias import Weights
from psephos.local.mix import Mix
from psephos.local.predicted import Answering, Population, best_answers, population
from psephos.local.randomized_response import attenuation_at
from psephos.local.reports import MECHANISMS, UNITS, Mechanism, Unit
from psephos.scores.answers import real_array
from psephos.scores.links import Link, as_link

__all__ = ["AnswersOfOne", "PlanGroup", "Poll"]

#: How the answers of one person hang together.
AnswersOfOne = Literal["ranking", "independent"]

_MOST_ITEMS = 10**6


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
class Poll:
    """What is asked, and what people are taken to think; ``pairs`` is ``None`` where each answers the best number."""

    unit: Unit
    mechanism: Mechanism
    weights: Weights
    answers: AnswersOfOne
    pairs: int | None
    people: Population

    @classmethod
    def of(
        cls,
        items: int,
        *,
        unit: Unit,
        pairs: int | None,
        mechanism: Mechanism,
        weights: Weights,
        link: Link | str,
        scores: npt.ArrayLike | None,
        ties: float,
        answers: AnswersOfOne,
    ) -> Poll:
        """The poll, its parameters checked; they are those of :func:`psephos.local.plan_local`."""
        m = check_integer(items, "items", low=2, high=_MOST_ITEMS)
        check_choice(unit, "unit", UNITS)
        check_choice(mechanism, "mechanism", MECHANISMS)
        check_choice(weights, "weights", ("uniform", "adaptive"))
        law, share = as_link(link), check_real(ties, "ties", low=0.0, high=0.999)
        check_choice(answers, "answers", ("ranking", "independent"))
        guess = None if scores is None else real_array(scores, "scores", ndim=1)
        if guess is not None and len(guess) != m:
            raise ParameterError(f"scores must be {m} numbers, one an item, got {len(guess)}")
        if pairs is not None:
            pairs = check_integer(pairs, "pairs", low=1, high=m * (m - 1) // 2)
        elif unit == "comparison":
            raise ParameterError(
                "pairs must be given with unit 'comparison': every further answer spends epsilon once more, got None"
            )
        people = population(m, guess, link=law, ties=share, one_ranking=answers == "ranking")
        return cls(unit=unit, mechanism=mechanism, weights=weights, answers=answers, pairs=pairs, people=people)

    def groups(self, mix: Mix) -> tuple[PlanGroup, ...]:
        """The people of each epsilon, who answer as many pairs as was asked for, or as are best."""
        whole = self.unit == "person"
        groups, raw, amounts = [], [], []
        for epsilon, share in mix:
            k = self.pairs or best_answers(self.people, float(epsilon), mechanism=self.mechanism)
            each = epsilon / k if whole else epsilon
            group = PlanGroup(
                epsilon=epsilon,
                share=share,
                pairs=k,
                epsilon_answer=each,
                epsilon_person=epsilon if whole else epsilon * k,
                attenuation=attenuation_at(float(each), self.mechanism),
                weight=1.0,
            )
            groups.append(group)
            moment = float(margin_moments(float(each), self.mechanism)[0])
            raw.append(1.0 if self.weights == "uniform" else 1.0 / moment)
            amounts.append(float(share) * k)
        # 1/moment may be near 1e-50: divide by the largest first
        raw = [weight / max(raw) for weight in raw]
        mean = sum(a * weight for a, weight in zip(amounts, raw, strict=True)) / sum(amounts)
        return tuple(replace(group, weight=weight / mean) for group, weight in zip(groups, raw, strict=True))

    def kinds(self, groups: tuple[PlanGroup, ...]) -> tuple[Answering, ...]:
        """How the people of each group answer, as predictions of errors take it."""
        kinds = []
        for group in groups:
            moment, tied = margin_moments(float(group.epsilon_answer), self.mechanism)
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

    def variance(self, mix: Mix) -> float:
        """Mean variance of a score about the mean, for one person: divide by their number."""
        return self.people.variance(self.kinds(self.groups(mix)))

    def all_pairs_factor(self, mix: Mix) -> float | None:
        """How many times as many people would do if everyone answered all pairs; ``None`` where that spends more."""
        if self.unit == "comparison":
            return None
        return replace(self, pairs=self.people.pairs).variance(mix) / self.variance(mix)

    def three_outcome_factor(self, mix: Mix) -> float:
        """How many times as many people ``binary`` needs as ``three-outcome``."""
        return replace(self, mechanism="binary").variance(mix) / replace(self, mechanism="three-outcome").variance(mix)

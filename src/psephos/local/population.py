"""What the devices of a known population would report: every answer exactly randomised, with system entropy.

For a holder of ballots or comparisons who wants to publish reports instead, or to see what a poll would bring. Each
person's pairs, budget and answers are treated as :func:`psephos.local.plan_person` and
:func:`psephos.local.randomise_answers` do on a device, and the guarantee is theirs: of reports, for each person.

**The order of the records** is uniform among all, drawn before anything is looked at: in the order of the data, one
person's ballot decides behind which records all others stand (docs/proofs/local.md, theorem 6a).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Literal

import numpy as np

from psephos._check import Exact, check_choice, check_integer
from psephos.errors import DataError, ParameterError
from psephos.local.bits import BitSource, DeviceBits, is_secure, pooled
from psephos.local.budget import best_pairs, device_epsilon
from psephos.local.person import WEAK_EPSILON, drawn_pairs, drawn_subset, warn_if_weak
from psephos.local.randomized_response import randomiser
from psephos.local.reports import MECHANISMS, UNITS, Answer, Mechanism, Outcome, Report, Unit
from psephos.local.samplers import uniform_below
from psephos.profile import Comparisons, Profile
from psephos.profile.names import require_public_items

__all__ = ["MOST_PEOPLE", "population_reports"]

#: More people than this are not written out one by one.
MOST_PEOPLE = 10**7

_SYSTEM = DeviceBits()  # it has no state
_OUTCOMES: dict[int, Outcome] = {1: "left", -1: "right", 0: "tie"}


def population_reports(
    data: Profile | Comparisons,
    *,
    epsilon: Exact,
    unit: Unit = "person",
    pairs: int | Literal["all"] | None = None,
    pairs_public: bool = False,
    mechanism: Mechanism = "binary",
    bits: BitSource = _SYSTEM,
) -> Iterator[Report]:
    """The reports of all people in ``data``, one a person, in random order.

    Parameters
    ----------
    data
        Ballots (unranked items come below all ranked ones), or comparisons. Items must be a public list. A device that
        drew a pair of two unranked items must answer, or it would tell that they are unranked: it says tie, which
        favours neither, and whoever fits the reports counts it as an answer (:func:`psephos.fit_scores` does not).
    epsilon
        In nats, 1e-17 to 800: of a person with all answers, or of each answer, as ``unit`` says.
    unit
        ``person`` or ``comparison``.
    pairs
        On how many pairs each person answers, ``"all"`` for all that may be asked; for ``person`` by default
        :func:`psephos.local.best_pairs`. Ballots with ``comparison`` need it, since a person spends epsilon for each.
    pairs_public
        For comparisons: which pairs each person judged is a public assignment, so that these are asked. Otherwise
        pairs are drawn from all of them, and where a person did not judge one a fair coin answers. Comparisons with
        ``unit="comparison"`` need it.
    mechanism
        ``binary`` or ``three-outcome``.

    Yields
    ------
    Report
        With items by name, in an order drawn with ``bits``. A person who judged a pair several times reports one of
        these judgements, drawn at random; sides are drawn at random too, so that what was written on which side says
        nothing.

    Raises
    ------
    ParameterError
        naming the parameter, its value and the allowed range; before anything is drawn.

    >>> from psephos.profile import Profile
    >>> profile = Profile.from_rankings({("tea", "coffee", "milk"): 7}, items=["tea", "coffee", "milk"])
    >>> reports = list(population_reports(profile, epsilon=1))
    >>> len(reports), len(reports[0].answers), reports[0].secure
    (7, 1, True)
    """
    check_choice(unit, "unit", UNITS)
    check_choice(mechanism, "mechanism", MECHANISMS)
    total = device_epsilon(epsilon)
    if not isinstance(data, (Profile, Comparisons)):
        raise ParameterError(f"data must be a Profile or Comparisons, got {type(data).__name__}")
    require_public_items(data.items_source)
    if data.m < 2:
        raise DataError("nothing to compare: there are fewer than two items")
    if pairs is not None and pairs != "all":
        check_integer(pairs, "pairs", low=1, high=data.m * (data.m - 1) // 2)
    if isinstance(data, Comparisons):
        people = _judgements(data, unit, pairs_public, bits)
    else:
        if pairs_public:
            raise ParameterError("pairs_public must be False for ballots: their pairs are drawn")
        if unit == "comparison" and pairs is None:
            raise ParameterError("pairs must be given with unit='comparison': a person spends epsilon on each of them")
        people = _ballots(data, bits)
    return _reports(people, data.items, total, unit, pairs, mechanism, bits)


#: What one person says on a pair of items (low, high): +1 if low is preferred, -1 if high, 0 for a tie, or nothing.
_Opinion = Callable[[int, int, BitSource], int | None]
#: The pairs that a person may be asked (``None``: all), and what they say.
_Person = tuple[list[tuple[int, int]] | None, _Opinion]


def _shuffled(n: int, bits: BitSource) -> array[int]:
    """The numbers 0 to n - 1 in an order that is uniform among all (Fisher and Yates)."""
    order = array("q", range(n))
    source = pooled(bits)
    for last in range(n - 1, 0, -1):
        other = uniform_below(last + 1, source)
        order[last], order[other] = order[other], order[last]
    return order


def _ranked(ballot: Sequence[int]) -> _Opinion:
    """The opinion of whoever cast a ballot, given by its places."""
    places = [place or len(ballot) + 1 for place in ballot]
    return lambda low, high, _: (places[low] < places[high]) - (places[low] > places[high])


def _judged(judgements: dict[tuple[int, int], list[int]]) -> _Opinion:
    """The opinion of whoever judged pairs, some of them several times."""

    def opinion(low: int, high: int, bits: BitSource) -> int | None:
        said = judgements.get((low, high))
        return None if said is None else said[uniform_below(len(said), bits)]

    return opinion


def _ballots(profile: Profile, bits: BitSource) -> Iterator[_Person]:
    if profile.people > MOST_PEOPLE:
        raise ParameterError(f"people must be at most {MOST_PEOPLE}: each gets a record of their own")

    def people() -> Iterator[_Person]:
        opinions = [_ranked(profile.places[:, ballot].tolist()) for ballot in range(profile.support)]
        ends = list(accumulate(profile.counts))
        for person in _shuffled(profile.people, bits):
            yield None, opinions[bisect_right(ends, person)]

    return people()


def _judgements(data: Comparisons, unit: Unit, public: bool, bits: BitSource) -> Iterator[_Person]:
    if data.weight is not None:
        raise ParameterError("weighted comparisons are not reported: give one record a judgement")
    if unit == "person" and data.person is None:
        raise ParameterError("unit must be 'comparison' where comparisons do not say who gave them")
    if unit == "comparison" and not public:
        raise ParameterError(
            "pairs_public must be True (--pairs-public-as-seen) with unit='comparison': only answers are randomised, "
            "so which pairs were compared must be public"
        )
    if not data.records:
        raise DataError("nothing to report: there are no comparisons")

    def people() -> Iterator[_Person]:
        person = np.arange(data.records) if data.person is None else np.asarray(data.person)
        order = np.argsort(person, kind="stable")
        many = data.records if data.person is None else len(data.persons or ())
        ends = np.searchsorted(person[order], np.arange(many), side="right").tolist()
        left, right, outcome = (column[order].tolist() for column in (data.left, data.right, data.outcome))
        for number in _shuffled(many, bits):
            judged: dict[tuple[int, int], list[int]] = {}
            for i in range(ends[number - 1] if number else 0, ends[number]):
                u, v, said = left[i], right[i], outcome[i]
                if u > v:
                    u, v, said = v, u, -said
                judged.setdefault((u, v), []).append(said)
            if judged or not public:
                yield (sorted(judged) if public else None), _judged(judged)

    return people()


def _reports(
    people: Iterator[_Person],
    items: tuple[str, ...],
    epsilon: Fraction,
    unit: Unit,
    pairs: int | Literal["all"] | None,
    mechanism: Mechanism,
    bits: BitSource,
) -> Iterator[Report]:
    m = len(items)
    every = m * (m - 1) // 2
    secure = is_secure(bits)
    warned = False
    for allowed, opinion in people:
        most = every if allowed is None else len(allowed)
        if pairs == "all" or (pairs is None and unit == "comparison"):
            k = most
        elif pairs is None:
            k = best_pairs(epsilon, most=most)
        else:
            k = min(pairs, most)
        if allowed is None:
            asked = drawn_pairs(m, k, bits)
        else:
            chosen = [allowed[i] for i in drawn_subset(len(allowed), k, bits)]
            asked = tuple((high, low) if bits.bits(1) else (low, high) for low, high in chosen)
        whole, each = (epsilon, epsilon / k) if unit == "person" else (epsilon * k, epsilon)
        if not warned and whole > WEAK_EPSILON:
            warned = True
            warn_if_weak(whole)
        draw = randomiser(each, mechanism, pooled(bits))
        answers = []
        for u, v in asked:
            said = opinion(min(u, v), max(u, v), bits)
            outcome = None if said is None else _OUTCOMES[said if u < v else -said]
            answers.append(Answer(items[u], items[v], draw(outcome)))
        yield Report(epsilon=epsilon, unit=unit, mechanism=mechanism, secure=secure, answers=tuple(answers))

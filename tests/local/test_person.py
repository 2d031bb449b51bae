"""The person as the unit: which pairs, how much each answer spends, and what all of them spend together."""

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from branches import exact_law
from psephos.errors import ParameterError, PrivacyWarning
from psephos.local import (
    DeviceBits,
    Questionnaire,
    best_pairs,
    is_secure,
    odds_sentence,
    plan_comparisons,
    plan_person,
    randomise_answers,
)
from psephos.local import person as person_module
from psephos.local import randomized_response as rr
from psephos.privacy import InsecureBits, SystemBits

NAMES = ["tea", "coffee", "milk", "water", "juice"]
ANSWERS = ["left", "right", "tie", None]


@pytest.mark.parametrize("mechanism", ["binary", "three-outcome"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_all_answers_together_lose_exactly_epsilon(monkeypatch, mechanism, k):
    """The law of the whole record by enumeration, q standing for exp(epsilon/k): the largest ratio is q^k."""
    q = 3
    noise = {0: Fraction(q, q + 1), 1: Fraction(1, q + 1)}
    if mechanism == "three-outcome":
        noise = {0: Fraction(q, q + 2), 1: Fraction(1, q + 2), 2: Fraction(1, q + 2)}
    pairs = list(itertools.combinations(range(4), 2))[:k]
    plan = plan_person(NAMES, epsilon=1, assigned=pairs, mechanism=mechanism)
    assert plan.epsilon_answer * k == plan.epsilon_person == 1
    asked = []

    def planned(epsilon, bits):
        asked.append(epsilon)
        return bits.noise()

    monkeypatch.setattr(rr, "flip", planned)
    monkeypatch.setattr(rr, "shift", planned)
    worst, fair = defaultdict(Fraction), {}
    for answers in itertools.product(ANSWERS, repeat=k):
        law = defaultdict(Fraction)
        for shifts in itertools.product(noise, repeat=k):
            mass = math.prod(noise[s] for s in shifts) / 2**k
            for coins in itertools.product((0, 1), repeat=k):
                report = randomise_answers(plan, answers, bits=Planned(coins, shifts))
                law[tuple(a.reported for a in report.answers)] += mass
        assert sum(law.values()) == 1
        fair[answers] = law
    for record in set().union(*fair.values()):
        masses = [law[record] for law in fair.values()]
        worst[record] = max(masses) / min(masses)
    assert max(worst.values()) == q**k
    assert set(asked) == {Fraction(1, k)}


class Planned:
    """Coins and noise in the order in which they are drawn."""

    def __init__(self, coins, shifts):
        self._coins, self._shifts = iter(coins), iter(shifts)

    def bits(self, n):
        assert n == 1
        return next(self._coins)

    def noise(self):
        return next(self._shifts)


@pytest.mark.parametrize(("m", "k"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (3, 3)])
def test_pairs_are_drawn_uniformly_by_enumeration(monkeypatch, m, k):
    monkeypatch.setattr(person_module, "uniform_below", lambda n, bits: bits.choose([Fraction(1, n)] * n))
    law, lost = exact_law(monkeypatch, lambda bits: person_module.drawn_pairs(m, k, bits))
    assert lost == 0
    sets = defaultdict(list)
    for pairs, mass in law.items():
        sets[frozenset(map(frozenset, pairs))].append(mass)
    assert len(sets) == math.comb(math.comb(m, 2), k)
    for masses in sets.values():  # and every way to turn the pairs is equally likely
        assert masses == [Fraction(1, len(sets) * 2**k)] * 2**k


def test_pairs_are_drawn_uniformly_by_draws():
    bits, n = InsecureBits(seed=51), 15_000
    seen = Counter(
        frozenset(map(frozenset, plan_person(NAMES[:4], epsilon=1, pairs=2, bits=bits).asked)) for _ in range(n)
    )
    assert len(seen) == 15
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6
    assert stats.chisquare([*list(seen.values())[:-1], 0]).pvalue < 1e-6


@given(m=st.integers(2, 300), data=st.data())
def test_drawn_pairs_are_different_pairs_of_the_list(m, data):
    k = data.draw(st.integers(1, min(40, math.comb(m, 2))))
    pairs = person_module.drawn_pairs(m, k, InsecureBits(seed=data.draw(st.integers(0, 99))))
    assert len({frozenset(pair) for pair in pairs}) == k
    assert all(0 <= u < m and 0 <= v < m and u != v for u, v in pairs)


def test_a_long_list_of_items_needs_no_list_of_pairs():
    plan = plan_person([f"i{u}" for u in range(20_000)], epsilon=4)
    assert len(plan.asked) == 2


def test_the_pairs_do_not_depend_on_what_the_person_thinks():
    """They are fixed before an answer exists; every one is answered, in their order, whatever the answers are."""
    plan = plan_person(NAMES, epsilon=1, pairs=3, bits=InsecureBits(seed=52))
    for answers in itertools.product(ANSWERS, repeat=3):
        bits = InsecureBits(seed=53)
        report = randomise_answers(plan, answers, bits=bits)
        assert tuple((a.left, a.right) for a in report.answers) == plan.asked
        assert (report.epsilon, report.unit, report.mechanism) == (Fraction(1), "person", "binary")
    assert bits.bits(64) != InsecureBits(seed=53).bits(64)


def test_a_public_assignment_is_taken_as_it_is():
    by_name = plan_person(NAMES, epsilon="0.3", assigned=[("milk", "tea"), ("tea", "coffee"), ("water", "milk")])
    by_position = plan_person(NAMES, epsilon="0.3", assigned=[(2, 0), (0, 1), (3, 2)])
    assert by_name == by_position
    assert by_name.secure
    assert by_name.epsilon_answer == Fraction(1, 10)
    assert by_name.questions()[0] == ("milk", "tea")
    assert by_name.sentence() == odds_sentence("0.3", answers=3)


def test_the_unit_comparison_states_the_total_of_the_person():
    plan = plan_comparisons(NAMES, [(0, 1), (0, 2), (3, 4)], epsilon="0.5", mechanism="three-outcome")
    assert (plan.epsilon_answer, plan.epsilon_person) == (Fraction(1, 2), Fraction(3, 2))
    report = randomise_answers(plan, ["tie", "left", None])
    assert (report.unit, report.epsilon_answer, report.epsilon_person) == ("comparison", Fraction(1, 2), Fraction(3, 2))
    assert "1.5 for a person who gives 3 answers" in plan.sentence()


def test_best_pairs():
    assert [best_pairs(e) for e in ("1e-17", "0.1", 3, "3.05", "3.06", 4, 6)] == [1, 1, 1, 1, 2, 2, 3]
    assert best_pairs(6, most=2) == 2
    assert best_pairs(800, most=1) == 1
    with pytest.raises(ParameterError, match="most"):
        best_pairs(1, most=0)


@given(st.floats(0.01, 800))
def test_best_pairs_minimise_the_variance(epsilon):
    variance = {k: 1 / (k * math.tanh(epsilon / (2 * k)) ** 2) for k in range(1, 500)}
    assert variance[best_pairs(epsilon)] <= min(variance.values()) * (1 + 1e-12)


def test_only_bits_of_the_system_are_secure():
    class Like(DeviceBits):
        pass

    assert is_secure(DeviceBits())
    assert is_secure(SystemBits())
    for bits in (InsecureBits(seed=1), Like()):
        assert not is_secure(bits)
        assert not plan_person(NAMES, epsilon=1, bits=bits).secure
        assert not randomise_answers(plan_person(NAMES, epsilon=1, pairs=1), ["left"], bits=bits).secure
        by_chance = plan_person(NAMES, epsilon=1, pairs=1, bits=bits)
        assert not randomise_answers(by_chance, ["left"]).secure
    assert randomise_answers(plan_person(NAMES, epsilon=1, pairs=1), ["left"]).secure
    assert repr(DeviceBits()) == "DeviceBits()"
    assert DeviceBits().bits(0) == 0


def test_n8_no_two_runs_are_alike():
    plan = plan_person([f"i{u}" for u in range(30)], epsilon="0.1", pairs=200)
    assert randomise_answers(plan, [None] * 200) != randomise_answers(plan, [None] * 200)
    assert plan != plan_person([f"i{u}" for u in range(30)], epsilon="0.1", pairs=200)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": 1, "pairs": 0}, "pairs must be a whole number >= 1 and <= 10, got 0"),
        ({"epsilon": 1, "pairs": 11}, "pairs must be a whole number >= 1 and <= 10, got 11"),
        ({"epsilon": 1, "pairs": 1, "assigned": [(0, 1)]}, "must not both be given"),
        ({"epsilon": 1, "assigned": []}, "assigned must have at least one pair"),
        ({"epsilon": 1, "assigned": [(0, 1), (1, 0)]}, r"assigned\[1\] must be a pair that is not there yet"),
        ({"epsilon": 1, "assigned": [(0, 0)]}, r"assigned\[0\] must be two different items"),
        ({"epsilon": 1, "assigned": [(0, 5)]}, r"assigned\[0\] must be two different items"),
        ({"epsilon": 1, "assigned": [(-1, 0)]}, r"assigned\[0\] must be two different items"),
        ({"epsilon": 1, "assigned": [("tea", "beer")]}, r"assigned\[0\] must be two different items"),
        ({"epsilon": 1, "assigned": [(0, True)]}, r"assigned\[0\] must be a whole number"),
        ({"epsilon": 1, "assigned": [(0, 1, 2)]}, r"assigned\[0\] must be two items"),
        ({"epsilon": 1, "assigned": ["ab"]}, r"assigned\[0\] must be two items"),
        ({"epsilon": 1, "mechanism": "none"}, "mechanism must be one of"),
    ],
)
def test_plans_that_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        plan_person(NAMES, **arguments)


@pytest.mark.parametrize("items", ["tea", [], ["tea"], ["tea", " "], ["tea", 3], ["a b", "a  b"], ["tea", "tea"]])
def test_lists_of_items_that_are_refused(items):
    with pytest.raises(ParameterError, match="items must be"):
        plan_person(items, epsilon=1)


def test_a_plan_by_hand_is_checked_too():
    fields = {"items": ("a", "b"), "epsilon": Fraction(1), "unit": "person", "mechanism": "binary"}
    with pytest.raises(ParameterError, match="secure"):
        Questionnaire(**fields, asked=((0, 1),), secure=1)
    with pytest.raises(ParameterError, match="unit"):
        Questionnaire(**(fields | {"unit": "row"}), asked=((0, 1),), secure=True)


@pytest.mark.parametrize("answers", [[], ["left"], ["left", "right", "left"], "ab"])
def test_every_pair_is_answered_once(answers):
    plan = plan_person(NAMES, epsilon=1, pairs=2)
    with pytest.raises(ParameterError, match="answers must be one for each of the 2 pairs asked"):
        randomise_answers(plan, answers)


def test_an_answer_that_is_none_is_named_but_not_shown():
    with pytest.raises(ParameterError, match=r"^answers\[1\] must be one of left, right, tie, or None for no opinion$"):
        randomise_answers(plan_person(NAMES, epsilon=1, pairs=2), ["left", "secret"])


def test_a_huge_epsilon_warns():
    with pytest.warns(PrivacyWarning, match="epsilon 800 for a person"):
        plan = plan_person(NAMES, epsilon=800, pairs=4)
    assert plan.epsilon_answer == 200
    with pytest.warns(PrivacyWarning, match="epsilon 24 for a person"):
        plan_comparisons(NAMES, [(0, 1), (1, 2), (2, 3)], epsilon=8)

"""Reports of a known population: pairs without a look at the answers, budgets per person, and nothing lost."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from branches import exact_law
from psephos.errors import DataError, ParameterError, PrivacyWarning
from psephos.local import population
from psephos.local.population import population_reports
from psephos.privacy import InsecureBits
from psephos.profile import Comparisons, Profile

FALSE_ALARM = 1e-6
ITEMS = ["tea", "coffee", "milk"]
BALLOTS = Profile.from_rankings({("tea", "coffee", "milk"): 3, ("milk",): 2}, items=ITEMS)


def judged(*rows, persons=None, items=ITEMS, source="declared"):
    """Comparisons from (person, left, right, outcome)."""
    person = [row[0] for row in rows]
    return Comparisons.from_columns(
        items,
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows],
        person=person,
        persons=persons or tuple(str(i) for i in range(max(person) + 1)),
        items_source=source,
    )


JUDGED = judged((0, 0, 1, 1), (0, 2, 0, -1), (1, 1, 2, 0), (0, 1, 0, -1), persons=("p", "q", "silent"))


def test_one_report_a_person_with_the_budget_divided():
    reports = list(population_reports(BALLOTS, epsilon=6))
    assert len(reports) == 5
    for report in reports:
        assert (report.unit, report.epsilon_person, report.epsilon_answer) == ("person", 6, 2)  # k = 3 is best at 6
        assert len({frozenset((a.left, a.right)) for a in report.answers}) == 3
        assert report.secure


@pytest.mark.parametrize("data", [BALLOTS, JUDGED])
def test_at_a_huge_epsilon_reports_say_what_people_said(data):
    with pytest.warns(PrivacyWarning, match="practically no protection"):
        reports = list(population_reports(data, epsilon=800, pairs="all", mechanism="three-outcome"))
    said = [{(a.left, a.right): a.reported for a in r.answers} for r in reports]

    def on(answers, left, right):
        turn = {"left": "right", "right": "left", "tie": "tie"}
        return answers.get((left, right)) or turn[answers[right, left]]

    assert all(len(answers) == 3 for answers in said)
    pairs = (("tea", "coffee"), ("tea", "milk"), ("coffee", "milk"))
    seen = Counter(tuple(on(answers, *pair) for pair in pairs) for answers in said)
    if data is BALLOTS:  # unranked items tie
        assert seen == {("left", "left", "left"): 3, ("tie", "right", "right"): 2}
    else:  # coins for what was not judged
        assert len(said) == 3  # who gave no comparison reports coins alone
        assert sum(answers[:2] == ("left", "left") for answers in seen) >= 1
        assert sum(answers[2] == "tie" for answers in seen) == 1


def test_pairs_are_drawn_without_a_look_at_what_was_judged():
    """A person who judged one pair of three is asked each equally often, and a coin answers the others."""
    data = judged(*[(p, 0, 1, 1) for p in range(3000)])
    asked, coins = Counter(), Counter()
    for report in population_reports(data, epsilon=3):  # k = 1 is best up to 3.06
        (answer,) = report.answers
        pair = frozenset((answer.left, answer.right))
        asked[pair] += 1
        if pair == {"tea", "milk"}:
            coins[answer.left if answer.reported == "left" else answer.right] += 1
    assert all(stats.binomtest(n, 3000, 1 / 3).pvalue > FALSE_ALARM for n in asked.values())
    assert len(asked) == 3
    assert stats.binomtest(coins["tea"], coins.total(), 0.5).pvalue > FALSE_ALARM


@pytest.mark.parametrize("first", ["tea", "coffee"])
@pytest.mark.parametrize("kind", ["ballots", "comparisons"])
@pytest.mark.filterwarnings("ignore::psephos.errors.PrivacyWarning")
def test_the_order_of_the_records_says_nothing(first, kind):
    """Two people prefer tea and two coffee. Whatever came first in the data, all six orders are equally likely.

    In the order of the data equal ballots stand together where the first of them came, so that one person's ballot
    decides behind which records all others stand.
    """
    other = {"tea": "coffee", "coffee": "tea"}[first]
    if kind == "ballots":
        data = Profile.from_rankings({(first, other): 2, (other, first): 2}, items=["tea", "coffee"])
    else:
        rows = [(0, 0, 1, 1), (1, 1, 0, 1), (2, 0, 1, 1), (3, 1, 0, 1)]
        data = judged(*(rows if first == "tea" else rows[::-1]), items=["tea", "coffee"])
    runs, orders = 3000, Counter()
    for _ in range(runs):
        reports = population_reports(data, epsilon=800)
        orders[tuple((a.left == "tea") == (a.reported == "left") for a in (r.answers[0] for r in reports))] += 1
    assert len(orders) == 6
    assert stats.chisquare(list(orders.values())).pvalue > FALSE_ALARM


def test_the_order_is_uniform_by_enumeration(monkeypatch):
    monkeypatch.setattr(population, "uniform_below", lambda n, bits: bits.choose([Fraction(1, n)] * n))
    law, lost = exact_law(monkeypatch, lambda bits: tuple(population._shuffled(4, bits)))
    assert lost == 0
    assert set(law.values()) == {Fraction(1, 24)}
    assert len(law) == 24


def test_a_public_assignment_asks_what_was_judged():
    reports = list(population_reports(JUDGED, epsilon=6, pairs_public=True))
    pairs = [{frozenset((a.left, a.right)) for a in r.answers} for r in reports]
    two, one = [frozenset(("tea", "coffee")), frozenset(("tea", "milk"))], [frozenset(("coffee", "milk"))]
    assert sorted(pairs, key=len) == [set(one), set(two)]
    assert sorted(r.epsilon_answer for r in reports) == [3, 6]
    few = list(population_reports(JUDGED, epsilon=6, pairs_public=True, pairs=1))
    assert [len(r.answers) for r in few] == [1, 1]
    each = population_reports(JUDGED, epsilon=1, pairs_public=True, unit="comparison")
    assert sorted(len(r.answers) for r in each) == [1, 2]


def test_which_side_an_item_was_written_on_says_nothing():
    """A file that always writes the winner on the left: sides are drawn anew."""
    data = judged(*[(p, p % 2, 1 - p % 2, 1) for p in range(2000)], items=["tea", "coffee"])
    for public in (True, False):
        lefts = Counter(r.answers[0].left for r in population_reports(data, epsilon=1, pairs_public=public))
        assert stats.binomtest(lefts["tea"], 2000, 0.5).pvalue > FALSE_ALARM
    always = judged(*[(p, 0, 1, 1) for p in range(2000)], items=["tea", "coffee"])
    with pytest.warns(PrivacyWarning):
        reports = list(population_reports(always, epsilon=800, pairs_public=True))
    winners = sum(r.answers[0].reported == "left" for r in reports)
    assert stats.binomtest(winners, 2000, 0.5).pvalue > FALSE_ALARM


def test_of_several_judgements_on_a_pair_one_is_drawn():
    data = judged(*[(p, *side) for p in range(2000) for side in ((0, 1, 1), (1, 0, 1), (1, 0, -1))])
    with pytest.warns(PrivacyWarning):
        reports = list(population_reports(data, epsilon=800, pairs_public=True))
    tea = sum((r.answers[0].left == "tea") == (r.answers[0].reported == "left") for r in reports)
    assert stats.binomtest(tea, 2000, 2 / 3).pvalue > FALSE_ALARM


def test_comparisons_without_a_person_are_a_report_each():
    data = Comparisons.from_columns(ITEMS, [0, 1], [1, 2], [1, 0])
    reports = list(population_reports(data, epsilon="1/3", unit="comparison", pairs_public=True))
    assert [r.epsilon_answer for r in reports] == [Fraction(1, 3)] * 2
    with pytest.raises(ParameterError, match="unit must be 'comparison' where comparisons do not say who"):
        population_reports(data, epsilon=1)


def test_the_guarantee_by_counting():
    """Replace all of a person's judgements: no report's frequency changes by more than exp(epsilon)."""
    n, epsilon = 10_000, 1.0

    def seen(answer):
        turned = {"left": "right", "right": "left"}[answer.reported]
        low, high = sorted((answer.left, answer.right))
        return low, high, answer.reported if answer.left == low else turned

    def frequencies(rows):
        data = judged(*[(p, *row) for p in range(n) for row in rows])
        reports = population_reports(data, epsilon=1, pairs=2)
        return Counter(tuple(sorted(map(seen, report.answers))) for report in reports)

    first, second = frequencies([(0, 1, 1), (1, 2, 1)]), frequencies([(1, 0, 1), (2, 0, 1), (2, 1, 1)])
    worst = 0.0
    for outcome in first.keys() | second.keys():
        a, b = first[outcome], second[outcome]
        slack = 6 * np.sqrt(1 / max(a, 1) + 1 / max(b, 1))
        worst = max(worst, abs(np.log(a / b)))
        assert abs(np.log(a / b)) <= epsilon + slack
    assert worst > 0.8  # the bound is nearly reached: both answers turned


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (BALLOTS, {"epsilon": 0}, "epsilon must be"),
        (BALLOTS, {"unit": "household"}, "unit must be one of"),
        (BALLOTS, {"pairs": 4}, "pairs must be a whole number >= 1 and <= 3"),
        (BALLOTS, {"pairs_public": True}, "pairs_public must be False for ballots"),
        (BALLOTS, {"unit": "comparison"}, "pairs must be given with unit='comparison'"),
        (BALLOTS, {"mechanism": "laplace"}, "mechanism must be one of"),
        (JUDGED, {"unit": "comparison"}, "pairs_public must be True"),
        (judged((0, 0, 1, 1), source="seen"), {}, "the items were seen in the data"),
        ("ballots", {}, "data must be a Profile or Comparisons"),
        (Profile.from_rankings({("tea",): 10**8, ("coffee",): 1}, items=ITEMS), {}, "people must be at most"),
    ],
)
def test_parameters_are_refused_before_anything_is_drawn(data, options, message):
    class NoBits:
        def bits(self, _):
            raise AssertionError("drawn")

    with pytest.raises(ParameterError, match=message):
        population_reports(data, **({"epsilon": 1} | options), bits=NoBits())


def test_weights_and_empty_data():
    weighted = Comparisons.from_columns(ITEMS, [0], [1], [1], person=[0], weight=[2])
    with pytest.raises(ParameterError, match="weighted comparisons are not reported"):
        population_reports(weighted, epsilon=1)
    with pytest.raises(DataError, match="nothing to report"):
        population_reports(Comparisons.from_columns(ITEMS, [], [], [], person=[]), epsilon=1)
    with pytest.raises(DataError, match="nothing to compare"):
        population_reports(Profile.from_rankings({("tea",): 1}, items=["tea"]), epsilon=1)


def test_reports_with_test_bits_say_so():
    reports = population_reports(BALLOTS, epsilon=1, bits=InsecureBits(seed=1))
    assert not any(r.secure for r in reports)


def test_n8_two_runs_differ():
    many = Profile.from_rankings({("tea", "coffee", "milk"): 200}, items=ITEMS)
    first, second = (list(population_reports(many, epsilon=1)) for _ in range(2))
    assert first != second

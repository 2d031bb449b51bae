"""Simulated populations follow the laws that devices follow, and never pass for reports of people."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from simulated_reports import randomise_columns, simulate_population

from psephos.errors import ParameterError
from psephos.local import truth_probability
from psephos.scores import NORMAL, symmetric_link

FALSE_ALARM = 1e-6


def agrees(count, n, probability):
    """A binomial count against its probability, at the false alarm rate."""
    return stats.binomtest(int(count), n, probability).pvalue > FALSE_ALARM


@pytest.mark.parametrize("mechanism", ["binary", "three-outcome"])
@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
@pytest.mark.parametrize("truth", [1, -1, 0])
def test_reports_follow_the_law_of_the_mechanism(mechanism, epsilon, truth):
    n = 40_000
    rng = np.random.default_rng(2)
    table = randomise_columns(["a", "b"], [0] * n, [1] * n, [truth] * n, epsilon=epsilon, rng=rng, mechanism=mechanism)
    right = truth_probability(epsilon, mechanism=mechanism)
    if mechanism == "binary":
        expected = {1: 0.5, -1: 0.5} if truth == 0 else {truth: right, -truth: 1 - right}
    else:
        expected = {side: right if side == truth else (1 - right) / 2 for side in (1, -1, 0)}
    for side, chance in expected.items():
        assert agrees((table.reported == side).sum(), n, chance)
        off = 10 * np.sqrt(chance * (1 - chance) / n)  # the test has power
        assert not agrees((table.reported == side).sum(), n, chance + off)
    assert not table.secure


def test_epsilon_of_a_person_is_divided_by_their_number_of_answers():
    record = np.array([0, 1, 1, 1, 2])
    table = randomise_columns(
        ["a", "b", "c"],
        [0, 0, 0, 1, 1],
        [1, 1, 2, 2, 2],
        [1] * 5,
        epsilon=[1, 6],
        choice=[0, 1, 1],
        record=record,
        unit="person",
        rng=np.random.default_rng(1),
    )
    each = [table.kinds[k].epsilon_answer for k in table.kind]
    assert each == [1, 2, 2, 2, 6]
    assert [table.kinds[k].epsilon_person for k in table.kind] == [1, 6, 6, 6, 6]
    comparison = randomise_columns(
        ["a", "b", "c"], [0, 0], [1, 2], [1, 1], epsilon="1/3", record=[0, 0], rng=np.random.default_rng(1)
    )
    assert comparison.kinds[0].epsilon_person == Fraction(2, 3)


@pytest.mark.parametrize("pairs", [1, 2, 5, None])
@pytest.mark.parametrize("opinions", ["independent", "ranking"])
def test_pairs_are_different_and_each_is_asked_equally_often(pairs, opinions):
    m, people = 4, 6_000
    table = simulate_population(
        [0.5, 0, 0, -0.5], people=people, epsilon=1, pairs=pairs, opinions=opinions, rng=np.random.default_rng(3)
    )
    k = pairs or 6
    assert (table.records, table.answers) == (people, k * people)
    low, high = np.minimum(table.left, table.right), np.maximum(table.left, table.right)
    code = (low * m + high).reshape(people, k)
    assert (np.diff(np.sort(code, axis=1), axis=1) > 0).all()
    counts = np.unique(code, return_counts=True)[1]
    assert len(counts) == 6
    if k < 6:
        assert all(agrees(c, people, k / 6) for c in counts)
    assert agrees((table.left < table.right).sum(), table.answers, 0.5)


@pytest.mark.parametrize("link", ["logistic", "normal"])
@pytest.mark.parametrize("opinions", ["independent", "ranking"])
def test_answers_follow_the_link(link, opinions):
    """Rankings too: differences of Gumbel utilities are logistic, of normal ones normal."""
    people = 40_000
    rng = np.random.default_rng(6)
    table = simulate_population([0.7, -0.2], people=people, epsilon=800, opinions=opinions, link=link, rng=rng)
    wins = ((table.reported == 1) == (table.left == 0)).sum()
    chance = 1 / (1 + np.exp(-0.9)) if link == "logistic" else stats.norm.cdf(0.9)
    assert agrees(wins, people, chance)
    assert not agrees(wins, people, 1 / (1 + np.exp(-1.1)))


def test_one_ranking_answers_all_of_a_person_s_pairs():
    table = simulate_population(
        [0, 0, 0], people=3_000, epsilon=800, pairs=None, opinions="ranking", rng=np.random.default_rng(1)
    )
    winner = np.where(table.reported == 1, table.left, table.right).reshape(-1, 3)
    assert all(len(set(row)) == 2 for row in winner.tolist())  # no cycle: somebody wins twice
    loose = simulate_population([0, 0, 0], people=3_000, epsilon=800, pairs=None, rng=np.random.default_rng(1))
    winner = np.where(loose.reported == 1, loose.left, loose.right).reshape(-1, 3)
    assert agrees(sum(len(set(row)) == 3 for row in winner.tolist()), 3_000, 0.25)


def test_each_epsilon_is_equally_likely():
    table = simulate_population([0, 0], people=10_000, epsilon=["0.5", 4], rng=np.random.default_rng(1))
    assert agrees((table.kind == 0).sum(), 10_000, 0.5)
    assert [kind.epsilon_answer for kind in table.kinds] == [Fraction(1, 2), 4]
    same = simulate_population([0, 0], people=10_000, epsilon=np.array([0.5, 4.0]), rng=np.random.default_rng(1))
    assert same.kinds == table.kinds


CAUCHY = symmetric_link(lambda x: 0.5 + np.arctan(x) / np.pi, lambda x: 1 / (np.pi * (1 + x * x)), name="cauchy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"people": 0}, "people must be"),
        ({"pairs": 4}, "pairs must be a whole number >= 1 and <= 3"),
        ({"opinions": "copied"}, "opinions must be one of"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"unit": "household"}, "unit must be one of"),
        ({"mechanism": "laplace"}, "mechanism must be one of"),
        ({"link": CAUCHY, "opinions": "ranking"}, "opinions must be 'independent' for the link 'cauchy'"),
        ({"scores": [0, float("nan"), 1]}, "scores must be finite"),
    ],
)
def test_parameters(change, message):
    good = {"scores": [0, 0, 0], "people": 3, "epsilon": 1, "rng": np.random.default_rng(1)}
    simulate_population(**(good | {"link": NORMAL}))
    with pytest.raises(ParameterError, match=message):
        simulate_population(**(good | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"right": [1]}, "must have one entry an answer"),
        ({"choice": [2, 0]}, "choice must be 0 to 0, one a record"),
        ({"choice": [0]}, "choice must be 0 to 0, one a record"),
        ({"record": [1, 0]}, "record must count up"),
        ({"record": [0, 2]}, "record must count up"),
        ({"record": [-1, 0]}, "record must count up"),
        ({"record": [1, 1]}, "record must count up"),
        ({"outcome": [2, -3]}, "outcome must be 1"),
        ({"outcome": [0.5, 1]}, "outcome must be a column of whole numbers"),
        ({"left": [0.7, 0]}, "left must be a column of whole numbers"),
        ({"left": [2**40, 0]}, "left must be -2147483648 to"),
        ({"epsilon": []}, "epsilon must be a number, or a sequence"),
    ],
)
def test_columns_to_randomise(change, message):
    good = {"items": ["a", "b"], "left": [0, 0], "right": [1, 1], "outcome": [1, 1], "epsilon": 1}
    with pytest.raises(ParameterError, match=message):
        randomise_columns(**(good | change), rng=np.random.default_rng(1))

"""One person's comparisons are bounded by us: one judgement a pair, at most k pairs, whatever they gave."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from psephos import Comparisons, pairwise_margins, private_consensus, read_comparisons_csv
from psephos.central import laplace as laplace_module
from psephos.central import margin_sensitivity, plan_consensus
from psephos.central.person_bound import bound_persons
from psephos.central.result import release_from_json, release_to_json
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits

ITEMS = ["a", "b", "c"]


def table(rows, items=ITEMS):
    """rows: (person, left, right, outcome)."""
    person, left, right, outcome = zip(*rows, strict=True)
    return Comparisons.from_columns(items, left, right, outcome, person=person)


def upper(comparisons):
    return pairwise_margins(comparisons)[np.triu_indices(comparisons.m, 1)]


def reachable(rows, pairs, items=ITEMS):
    """Every table that the draws can leave of one person's rows: one judgement a pair, at most ``pairs`` pairs."""
    by_pair = {}
    for left, right, outcome in rows:
        by_pair.setdefault((min(left, right), max(left, right)), []).append(outcome if left < right else -outcome)
    found = set()
    m = len(items)
    index = {pair: i for i, pair in enumerate(itertools.combinations(range(m), 2))}
    for kept in itertools.combinations(by_pair, min(pairs, len(by_pair))):
        for values in itertools.product(*(by_pair[pair] for pair in kept)):
            vector = [0] * len(index)
            for pair, value in zip(kept, values, strict=True):
                vector[index[pair]] = value
            found.add(tuple(vector))
    return found


@pytest.mark.parametrize("pairs", [1, 2, 3, 9])
def test_sensitivity_by_brute_force_over_all_persons(pairs):
    """All sets of up to three comparisons of three items, repeated pairs included, against all others."""
    answers = [(u, v, y) for u, v in itertools.combinations(range(3), 2) for y in (-1, 0, 1)]
    persons = [rows for n in (1, 2, 3) for rows in itertools.combinations_with_replacement(answers, n)]
    left = np.array(sorted(set().union(*(reachable(rows, pairs) for rows in persons))))
    difference = np.abs(left[:, None, :] - left[None, :, :])
    bound = margin_sensitivity(3, "person", pairs=pairs)
    assert difference.sum(-1).max() == bound.l1 == 2 * min(pairs, 3)
    assert (difference**2).sum(-1).max() == bound.l2_squared == 4 * min(pairs, 3)


@pytest.mark.parametrize("pairs", [1, 2, 5])
def test_the_draws_leave_what_enumeration_says_and_all_of_it(pairs):
    rows = [(0, 1, 1), (1, 0, 1), (0, 1, 0), (1, 2, -1), (0, 2, 1), (2, 0, 1)]
    bits = InsecureBits(seed=1)
    mine = table([(0, *row) for row in rows])
    seen = {tuple(upper(bound_persons(mine, pairs=pairs, bits=bits)).tolist()) for _ in range(400)}
    assert seen == reachable(rows, pairs)


@pytest.mark.slow
def test_the_draws_are_uniform():
    """Three judgements on one pair and one on each of two others; two of three pairs are kept."""
    rows = [(0, 0, 1, 1), (0, 0, 1, 0), (0, 1, 0, 1), (0, 1, 2, 1), (0, 0, 2, 1)]
    bits = InsecureBits(seed=2)
    draws = Counter(tuple(upper(bound_persons(table(rows), pairs=2, bits=bits)).tolist()) for _ in range(9000))
    # entries: a-b in {1, 0, -1} (each 1/3), a-c = 1, b-c = 1; the pair left out is uniform
    expected = {(y, 1, 0): 1000 for y in (1, 0, -1)} | {(y, 0, 1): 1000 for y in (1, 0, -1)} | {(0, 1, 1): 3000}
    # (0, 1, 0) and (0, 0, 1) come only from the drawn tie, as listed
    observed = [draws[key] for key in expected]
    assert sum(observed) == 9000
    assert stats.chisquare(observed, list(expected.values())).pvalue > 1e-6
    skewed = [1300, 1000, 700, 1300, 1000, 700, 3000]
    assert stats.chisquare(skewed, list(expected.values())).pvalue < 1e-6


def test_people_do_not_influence_each_other():
    rows = [(p, u, v, 1) for p in range(5) for u, v in ((0, 1), (0, 2), (1, 2))]
    bounded = bound_persons(table(rows), pairs=2, bits=InsecureBits(seed=3))
    assert Counter(bounded.person.tolist()) == dict.fromkeys(range(5), 2)
    assert bound_persons(table(rows), pairs=3, bits=InsecureBits(seed=3)).records == 15


def test_what_is_noised_is_the_bounded_table(monkeypatch):
    monkeypatch.setattr(laplace_module, "discrete_laplace_array", lambda _s, n, _b: np.zeros(n, dtype=np.int64))
    rows = [(0, 0, 1, 1)] * 1000 + [(1, 0, 1, 1), (2, 1, 0, 1), (2, 1, 2, 1)]
    value = private_consensus(table(rows), epsilon=1, mechanism="laplace", pairs=1, bits=InsecureBits(seed=4)).value
    margins = value.estimate.margins
    assert abs(int(margins[0, 1])) <= 3  # a thousand judgements of one person count once
    assert np.abs(margins).sum() // 2 <= 3


def test_noise_follows_the_cap():
    rows = [(0, 0, 1, 1), (1, 1, 2, 1)]
    one = private_consensus(table(rows), epsilon=1, mechanism="laplace", pairs=1)
    default = private_consensus(table(rows), epsilon=1, mechanism="laplace")
    assert (one.value.pairs, one.event.sensitivity) == (1, 2)
    assert (default.value.pairs, default.event.sensitivity) == (3, 6)
    assert one.value.units == 2
    assert "how many people gave comparisons is public" in one.guarantee.sentence()
    again = release_from_json(release_to_json(one))
    assert (again.value.pairs, again.value.units) == (1, 2)
    assert plan_consensus(59, epsilon=1, mechanism="laplace", pairs=10).law.scale == 20


@pytest.mark.parametrize("pairs", [0, -1, 1.5, True, "3"])
def test_the_cap_is_checked(pairs):
    with pytest.raises(ParameterError, match="pairs"):
        private_consensus(table([(0, 0, 1, 1)]), epsilon=1, pairs=pairs)


def test_refusals():
    anonymous = Comparisons.from_columns(ITEMS, [0], [1], [1])
    with pytest.raises(ParameterError, match="do not say who gave them"):
        private_consensus(anonymous, epsilon=1)
    with pytest.raises(ParameterError, match="without a column of persons"):
        bound_persons(anonymous, pairs=1, bits=InsecureBits(seed=1))
    with pytest.raises(ParameterError, match="pairs is for comparisons"):
        private_consensus(table([(0, 0, 1, 1)]), epsilon=1, unit="comparison", pairs=2)
    with pytest.raises(ParameterError, match="pairs bounds a person"):
        plan_consensus(3, epsilon=1, unit="comparison", pairs=2)


def test_real_judgements_of_language_models():
    """124 people, 59 items: at a generous budget the best and the worst of the counts stand apart."""
    data = read_comparisons_csv("tests/data/llmfao.csv").with_items_public()
    release = private_consensus(data, epsilon=20, delta="1e-6", pairs=100)
    place = {item: rank for rank, tier in release.value.ranking() for item in tier}
    wins = pairwise_margins(data).sum(axis=1)
    order = np.argsort(-wins)
    best, worst = (sum(place[data.items[i]] for i in part) / 10 for part in (order[:10], order[-10:]))
    assert best + 15 < worst
    assert release.value.units == 124


def test_persons_without_any_answer():
    """How many people there are is public; that nobody answered is data, and must not be an error."""
    nobody = Comparisons.from_columns(ITEMS, [], [], [], person=[], persons=("p", "q"))
    assert bound_persons(nobody, pairs=2, bits=InsecureBits(seed=1)).records == 0
    assert private_consensus(nobody, epsilon=1).value.units == 2


def test_who_is_listed_counts_whether_they_answered_or_not():
    """Neighbours have one number of people: a person may be replaced by one who gave nothing, within the bound."""
    answers = {"person": [0, 0, 0, 1], "persons": ("p", "q")}
    all_of_them = Comparisons.from_columns(ITEMS, [0, 0, 1, 0], [1, 2, 2, 1], [1, 1, 1, -1], **answers)
    without = Comparisons.from_columns(ITEMS, [0], [1], [-1], person=[1], persons=("p", "q"))
    for k in (1, 2, 3):
        here, there = (
            pairwise_margins(bound_persons(x, pairs=k, bits=InsecureBits(seed=1))) for x in (all_of_them, without)
        )
        moved = np.abs(here - there)[np.triu_indices(len(ITEMS), 1)]
        assert moved.sum() <= k  # half of what one who answered otherwise may move
        assert moved.max() <= 1
    for data in (all_of_them, without):
        value = private_consensus(data, epsilon=1).value
        assert value.units == 2
    assert "how many people gave comparisons is public" in private_consensus(without, epsilon=1).guarantee.sentence()

"""Items that the answers do not tell apart share a place, or come first equally often, whatever their list says.

All seeds are fixed. The chi-square test that each order, or each winner, is equally likely has a level of 1e-6; one
order or one winner in all of the 36 rankings would be rejected at 1e-15.
"""

import itertools
import math
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from psephos import Comparisons, Profile, private_consensus, private_scores
from psephos.central import MECHANISMS, POST_PROCESSINGS, TwoStage, ranked
from psephos.central.post_processing import model_part
from psephos.pairwise import NoiseLaw, PairwiseEstimate
from psephos.privacy import InsecureBits

TIED = {(("a", "b", "c"),): 10}
CYCLE = {("a", "b", "c"): 10, ("b", "c", "a"): 10, ("c", "a", "b"): 10}
LISTS = list(itertools.permutations("abc"))
PAIRS = (0, 0, 1) * 10, (1, 2, 2) * 10, (0, 0, 0) * 10
LEVEL = 1e-6


def rankings(data, runs=36, **options):
    """The tiers of releases with hardly any noise, for item lists in all orders: by name, and by place in the list."""
    found = Counter(), Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how little such a budget protects, or how much noise a tiny one has
        for run in range(runs):
            listed = LISTS[run % 6]
            bits = InsecureBits(seed=run)
            tiers = private_consensus(data(listed), **{"epsilon": 10**6, **options}, bits=bits).value.tiers
            found[0][tiers] += 1
            found[1][tuple(tuple(sorted(map(listed.index, tier))) for tier in tiers)] += 1
    return found


def even(counts, cells):
    """Whether counts of equally likely cells pass the chi-square test; an empty cell counts."""
    found = [*counts.values(), *[0] * (cells - len(counts))]
    return stats.chisquare(found).pvalue > LEVEL


def fair(found):
    """All items share a place each time, or all six orders are equally likely, by name and by place in the list."""
    shared = {sum(map(len, tiers[:1])) for tiers in found[0]} == {3}
    return shared or all(set(map(len, counts)) == {3} and even(counts, 6) for counts in found)


def ballots(answers):
    return lambda items: Profile.from_rankings(answers, items=items)


def comparisons(items):
    return Comparisons.from_columns(items, *PAIRS)


CASES = [
    *({"mechanism": mechanism, "delta": "1e-6"} for mechanism in MECHANISMS),
    *({"mechanism": "nuclear", "post_processing": name} for name in POST_PROCESSINGS),
    {"mechanism": "borda"},
    {"mechanism": "footrule", "unranked": "missing"},
    {"mechanism": "two-stage", "two_stage": TwoStage(bounded_time=True), "epsilon": 1000},
    {"mechanism": "two-stage", "two_stage": TwoStage(constants="published"), "epsilon": 1},
    {"mechanism": "two-stage", "epsilon": "0.01"},  # too little to read anything
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_ballots_that_tie_everything(options):
    assert fair(rankings(ballots(TIED), **options))


@pytest.mark.parametrize("options", CASES, ids=str)
def test_a_symmetric_cycle_has_no_winner_by_the_list(options):
    """Which of the three is first, where one is."""
    for counts in rankings(ballots(CYCLE), **options):
        first = Counter(tiers[0] for tiers in counts.elements())
        assert set(map(len, first)) == {3} or even(first, 3)


@pytest.mark.parametrize("options", [{}, {"bounded_time": True}])
def test_counts_of_large_populations_that_tie(options):
    data = ballots({(("a", "b", "c"),): 10**12})
    assert fair(rankings(data, mechanism="two-stage", epsilon=1000, two_stage=TwoStage(**options)))


@pytest.mark.parametrize("mechanism", ["auto", "laplace", "borda", "exponential", "kwiksort", "gaussian", "probe"])
def test_comparisons_that_tie_everything(mechanism):
    assert fair(rankings(comparisons, mechanism=mechanism, unit="comparison", delta="1e-6"))


def test_certified_places_of_many_items():
    items = [f"i{u}" for u in range(25)]
    profile = Profile.from_rankings({(tuple(items),): 10}, items=items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = private_consensus(
            profile, epsilon=10**6, mechanism="laplace", post_processing="certified", bits=InsecureBits(seed=1)
        ).value
    assert value.tiers == (tuple(sorted(items)),)
    assert value.unique is False


def test_equal_row_sums_have_equal_scores_in_any_order():
    """The Bradley-Terry table of 10**30 people: what doubles round differently must not part equal items."""
    rng = np.random.default_rng(0)
    people = 10**30
    for _ in range(60):
        m = int(rng.integers(3, 12))
        scores = rng.integers(-5, 6, m).astype(object) * (people // 100)
        u, v = rng.choice(m, 2, replace=False)
        scores[u] = scores[v]
        noise = NoiseLaw(family="rounded-gaussian", scale=4)
        estimate = PairwiseEstimate(items=tuple(map(str, range(m))), margins=scores[:, None] - scores, noise=noise)
        assert model_part(estimate, people=people)[u, v] == 0


@pytest.mark.parametrize("graph", ["public", "private"])
def test_private_scores_that_tie(graph):
    """The listed order of equal scores says nothing: it is drawn. All items may have every rank."""
    found = Counter(), Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in range(36):
            listed = LISTS[run % 6]
            value = private_scores(
                comparisons(listed), epsilon=10**6, graph=graph, unit="comparison", bits=InsecureBits(seed=run)
            ).value
            assert math.isclose(max(value.scores), min(value.scores), abs_tol=1e-9)
            assert (value.best_rank, value.worst_rank) == ((1, 1, 1), (3, 3, 3))
            found[0][value.items] += 1
            found[1][tuple(map(listed.index, value.items))] += 1
    assert all(even(counts, 6) for counts in found)


def test_one_noisy_table_has_one_ranking_in_any_list_and_with_any_bits():
    """Rows that differ put the items in one order before the solver sees them, whatever it leaves open."""
    rng = np.random.default_rng(3)
    for m in (5, 25):
        upper = np.triu(rng.integers(-9, 10, (m, m)), 1)
        table = (upper - upper.T).astype(object)
        rows = [tuple(sorted(row)) for row in table.tolist()]
        found = set()
        for seed in range(10):
            order = np.random.default_rng(seed).permutation(m)
            labels = ranked._labels(table[np.ix_(order, order)], InsecureBits(seed=seed))
            found.add(tuple(order[labels].tolist()))
        assert len(set(rows)) == m
        assert len(found) == 1

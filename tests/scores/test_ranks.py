"""Simultaneous rank intervals: coverage, the joint quantile, tiers and top K against brute force, degenerate inputs."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from psephos.errors import ParameterError
from psephos.scores.ranks import TopItems, rank_intervals, rank_intervals_from_errors

FALSE_ALARM = 1e-6


def rng(seed=1):
    return np.random.default_rng(seed)


def holds(sets, theta):
    """Whether every item's interval holds every rank that breaking ties of theta could give it."""
    low = 1 + (theta[None, :] > theta[:, None]).sum(axis=1)
    high = len(theta) - (theta[None, :] < theta[:, None]).sum(axis=1)
    return bool((np.array(sets.low) <= low).all() and (np.array(sets.high) >= high).all())


def surely_better(scores, covariance, quantile):
    """The relation by its definition, pair by pair."""
    m = len(scores)
    better = np.zeros((m, m), dtype=bool)
    for i, j in itertools.permutations(range(m), 2):
        variance = covariance[i][i] + covariance[j][j] - 2 * covariance[i][j]
        better[i, j] = scores[i] - scores[j] > quantile * math.sqrt(max(variance, 0.0))
    return better


# ------------------------------------------------------------------ the quantile


@pytest.mark.parametrize("m", [2, 5, 20])
def test_quantile_of_independent_errors_is_that_of_the_studentised_range(m):
    """Within 4.9 standard deviations of the simulated order; a level of .96 in its place would be seen."""
    draws = 40_000
    sets = rank_intervals(np.zeros(m), np.eye(m), rng=rng(), draws=draws)
    order = stats.studentized_range.cdf(sets.quantile * math.sqrt(2), m, np.inf)
    assert sets.level_error == pytest.approx(math.sqrt(0.95 * 0.05 / draws))
    assert abs(order - 0.95) < stats.norm.isf(FALSE_ALARM / 2) * sets.level_error < 0.01


def test_the_order_statistic_is_on_the_safe_side():
    """With 19 draws the quantile of .95 is their maximum; with 18 there is none."""
    errors = rng().normal(size=(19, 3))
    sets = rank_intervals_from_errors(np.zeros(3), np.eye(3), errors)
    ratios = [abs(e[i] - e[j]) / math.sqrt(2) for e in errors for i, j in itertools.combinations(range(3), 2)]
    assert sets.quantile == pytest.approx(max(ratios))
    with pytest.raises(ParameterError, match="at least 19 draws, got 18"):
        rank_intervals_from_errors(np.zeros(3), np.eye(3), errors[:18])


def test_coverage_does_not_depend_on_the_number_of_draws():
    """39 draws each: the true maximum is below the 38th of them with probability 38/40 exactly."""
    n, generator = 5000, rng(5)
    scores = generator.normal(size=(n, 4))
    held = sum(holds(rank_intervals(x, np.eye(4), rng=generator, draws=39), np.zeros(4)) for x in scores)
    assert abs(held / n - 0.95) < stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(0.95 * 0.05 / n) < 0.025


def test_simulated_errors_give_what_the_normal_law_gives():
    root = rng(2).normal(size=(6, 6))
    covariance = root @ root.T
    errors = rng(3).normal(size=(40_000, 6)) @ root.T
    scores = rng(4).normal(size=6) * 5
    first = rank_intervals(scores, covariance, rng=rng(), draws=40_000)
    second = rank_intervals_from_errors(scores, covariance, errors)
    assert first.quantile == pytest.approx(second.quantile, rel=0.02)
    assert (first.low, first.high, first.tiers) == (second.low, second.high, second.tiers)


# ------------------------------------------------------------------ coverage


def test_percentiles_of_simulated_ranks_are_no_rank_intervals():
    """Ten items, equal up to 1e-9: percentiles hold the true ranks in about a quarter of the cases."""
    m, n, generator = 10, 400, rng(7)
    theta = -1e-9 * np.arange(m)
    truth = np.arange(1, m + 1)
    sets_hold = percentiles_hold = 0
    for _ in range(n):
        x = theta + generator.normal(size=m)
        sets_hold += holds(rank_intervals(x, np.eye(m), rng=generator, draws=999), theta)
        drawn = x + generator.normal(size=(999, m))
        ranks = 1 + (drawn[:, None, :] > drawn[:, :, None]).sum(axis=2)
        low, high = np.percentile(ranks, [2.5, 97.5], axis=0)
        percentiles_hold += bool(((low <= truth) & (truth <= high)).all())
    assert sets_hold / n >= 0.95
    assert percentiles_hold / n < 0.35


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_coverage_at_exact_ties_is_the_level(correlation):
    """All equal: every separated pair is an error, so coverage is the level itself, and not more."""
    m, n, generator = 8, 2500, rng(8)
    covariance = np.diag(np.linspace(0.5, 3, m)) + correlation * np.ones((m, m))
    root = np.linalg.cholesky(covariance)
    held = sum(
        holds(rank_intervals(root @ generator.normal(size=m), covariance, rng=generator, draws=399), np.zeros(m))
        for _ in range(n)
    )
    assert abs(held / n - 0.95) < stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(0.95 * 0.05 / n) < 0.025


def test_too_small_a_covariance_is_caught():
    """The power of the test above: half the standard errors lose more than a third of the coverage."""
    generator = rng(9)
    held = sum(
        holds(rank_intervals(generator.normal(size=8), np.eye(8) / 4, rng=generator, draws=399), np.zeros(8))
        for _ in range(500)
    )
    assert held / 500 < 0.6


def test_heavy_tails_are_covered_if_their_law_is_given():
    m, n, generator = 5, 2000, rng(10)
    held = 0
    for _ in range(n):
        errors = generator.laplace(size=(399, m)) ** 3
        x = generator.laplace(size=m) ** 3
        held += holds(rank_intervals_from_errors(x, np.eye(m), errors), np.zeros(m))
    assert abs(held / n - 0.95) < stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(0.95 * 0.05 / n)


# ------------------------------------------------------------------ what is said about the items

TABLES = st.integers(1, 6).flatmap(
    lambda m: st.tuples(
        st.lists(st.integers(-9, 9), min_size=m, max_size=m),
        st.lists(st.lists(st.integers(-2, 2), min_size=m, max_size=m), min_size=m, max_size=m),
    )
)


def finest_cut(scores, better):
    """All ways to cut the order of the scores into groups, the valid one with the most groups."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    valid = []
    for cuts in itertools.product([False, True], repeat=len(order) - 1):
        ends = [k + 1 for k, cut in enumerate(cuts) if cut]
        groups = [order[a:b] for a, b in zip([0, *ends], [*ends, len(order)], strict=True)]
        pairs = itertools.combinations(groups, 2)
        if all(better[i, j] for first, second in pairs for i in first for j in second):
            valid.append(groups)
    best = max(valid, key=len)
    assert sum(len(groups) == len(best) for groups in valid) == 1
    return best


@given(TABLES)
@settings(max_examples=150, deadline=None)
def test_intervals_tiers_and_top_against_their_definitions(table):
    scores, root = table
    covariance = (np.array(root) @ np.array(root).T).astype(float) / 4
    sets = rank_intervals(scores, covariance, rng=rng(), draws=99)
    m = len(scores)
    better = surely_better(scores, covariance, sets.quantile)
    for i in range(m):
        assert sets.low[i] == 1 + sum(better[j, i] for j in range(m))
        assert sets.high[i] == m - sum(better[i, j] for j in range(m))
    for i, j, k in itertools.permutations(range(m), 3):
        assert not (better[i, j] and better[j, k]) or better[i, k]
    assert [set(tier) for tier in sets.tiers] == [set(tier) for tier in finest_cut(scores, better)]
    for k in range(m + 1):
        top = sets.top(k)
        assert sorted(top.inside + top.outside + top.undecided) == list(range(m))
        assert all(sum(better[j, i] for j in range(m)) >= k for i in top.outside)
        assert all(sum(not better[i, j] for j in range(m) if j != i) < k for i in top.inside)
        assert len(top.inside) <= k <= m - len(top.outside)


def test_top_of_none_and_of_all():
    sets = rank_intervals([3.0, 1.0, 2.0], np.eye(3), rng=rng())
    assert sets.top(0) == TopItems(inside=(), outside=(0, 1, 2), undecided=())
    assert sets.top(3) == TopItems(inside=(0, 1, 2), outside=(), undecided=())
    with pytest.raises(ParameterError, match="k must be"):
        sets.top(-1)


@pytest.mark.parametrize("factor", [1e-40, 1.0, 1e40])
def test_units_and_a_common_shift_do_not_matter(factor):
    scores, covariance = np.array([0.0, 0.5, 2.0, 2.1]), np.diag([0.1, 0.2, 0.1, 0.1])
    plain = rank_intervals(scores, covariance, rng=rng())
    other = rank_intervals((scores + 3) * factor, covariance * factor**2, rng=rng())
    assert (other.low, other.high, other.tiers) == (plain.low, plain.high, plain.tiers)
    assert other.quantile == pytest.approx(plain.quantile)


# ------------------------------------------------------------------ degenerate inputs


def test_one_item_and_none():
    one = rank_intervals([2.0], [[1.0]], rng=rng())
    assert (one.low, one.high, one.tiers, one.quantile, one.draws) == ((1,), (1,), ((0,),), 0.0, 0)
    assert one.level_error == 0.0
    none = rank_intervals(np.zeros(0), np.zeros((0, 0)), rng=rng())
    assert (none.low, none.tiers) == ((), ())


def test_without_uncertainty_the_order_is_known_up_to_equal_scores():
    sets = rank_intervals([5.0, 7.0, 5.0, 1.0], np.zeros((4, 4)), rng=rng())
    assert sets.low == (2, 1, 2, 4)
    assert sets.high == (3, 1, 3, 4)
    assert sets.tiers == ((1,), (0, 2), (3,))


def test_a_known_difference_between_uncertain_items():
    """Items 0 and 1 share their error: they differ for certain, while neither can be told from item 2."""
    covariance = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    sets = rank_intervals([0.3, 0.2, 0.25], covariance, rng=rng())
    assert (sets.low, sets.high) == ((1, 2, 1), (2, 3, 3))
    assert sets.tiers == ((0, 2, 1),)
    twins = rank_intervals([0.3, 0.3, 0.25], covariance, rng=rng())
    assert (twins.low, twins.high) == ((1, 1, 1), (3, 3, 3))


def test_a_rounding_error_is_no_standard_error():
    """Twins whose covariance was computed with an error of 1e-17 do not blow up the quantile."""
    root = np.array([[0.1, 0.7], [0.1, 0.7], [0.3, 0.2]])
    covariance = root @ root.T + np.array([[1e-17, 0, 0], [0, -1e-17, 0], [0, 0, 0]])
    sets = rank_intervals([1.0, 1.0, 1.1], covariance, rng=rng())
    assert sets.quantile == pytest.approx(1.96, abs=0.05)


def test_items_that_cannot_be_compared():
    scores, covariance = [9.0, 0.0, 8.0, 1.0], np.eye(4) * 0.01
    joined = rank_intervals(scores, covariance, rng=rng())
    apart = rank_intervals(scores, covariance, rng=rng(), component_labels=np.array([0, 0, 1, 1]))
    assert joined.tiers == ((0,), (2,), (3,), (1,))
    assert (apart.low, apart.high, apart.tiers) == ((1, 2, 1, 2), (3, 4, 3, 4), ((0, 2, 3, 1),))
    assert apart.quantile < joined.quantile
    exact = rank_intervals(scores, np.zeros((4, 4)), rng=rng(), component_labels=np.array([0, 0, 1, 1]))
    assert (exact.low, exact.high, exact.draws) == (apart.low, apart.high, 0)
    nothing = rank_intervals(scores, covariance, rng=rng(), component_labels=np.arange(4))
    assert (nothing.low, nothing.high, nothing.draws) == ((1,) * 4, (4,) * 4, 0)
    with pytest.raises(ParameterError, match="component_labels"):
        rank_intervals(scores, covariance, rng=rng(), component_labels=np.array([0, 0]))


def test_scores_closer_than_doubles_can_tell_are_not_told_apart():
    tiny = np.eye(2) * 1e-40
    sets = rank_intervals([10.0, np.nextafter(10.0, 11.0)], tiny, rng=rng())
    assert sets.tiers == ((1, 0),)
    assert rank_intervals([10.0, 10.0 + 1e-14], tiny, rng=rng()).tiers == ((1,), (0,))


@pytest.mark.parametrize(
    ("scores", "covariance", "options", "message"),
    [
        ([[1.0]], np.eye(1), {}, "scores must be finite"),
        ([1.0, math.nan], np.eye(2), {}, "scores must be finite"),
        ([1.0, 2.0], np.eye(3), {}, "shape"),
        ([1.0, 2.0], np.full((2, 2), math.inf), {}, "finite"),
        ([1.0, 2.0], [[1.0, 0.5], [0.0, 1.0]], {}, "symmetric"),
        ([1.0, 2.0], [[1.0, 2.0], [2.0, 1.0]], {}, "semidefinite"),
        ([1.0, 2.0], [[1.0, 0.0], [0.0, -1.0]], {}, "negative"),
        ([1.0, 2.0], np.eye(2), {"level": 1.0}, "strictly between"),
        ([1.0, 2.0], np.eye(2), {"level": 0.0}, "strictly between"),
        ([1.0, 2.0], np.eye(2), {"level": math.nan}, "level must be"),
        ([1.0, 2.0], np.eye(2), {"draws": 0}, "draws must be"),
        ([1.0, 2.0], np.eye(2), {"draws": 10}, "at least 19 draws"),
    ],
)
def test_refusals(scores, covariance, options, message):
    with pytest.raises(ParameterError, match=message):
        rank_intervals(scores, covariance, rng=rng(), **options)


def test_refusals_of_errors():
    for errors in (np.zeros((99, 3)), np.zeros(99), np.full((99, 2), math.nan)):
        with pytest.raises(ParameterError, match="errors must be finite"):
            rank_intervals_from_errors([1.0, 2.0], np.eye(2), errors)
    with pytest.raises(ParameterError, match="variance is 0"):
        rank_intervals_from_errors([1.0, 2.0], np.zeros((2, 2)), rng().normal(size=(99, 2)))
    with pytest.raises(ParameterError, match="draws"):
        rank_intervals_from_errors([1.0, 2.0], np.eye(2), np.zeros((0, 2)))

import dataclasses
import importlib
import itertools
import time
from fractions import Fraction

import numpy as np
import pytest

from psephos.errors import ParameterError
from psephos.kemeny import kemeny_cost, solve


def test_small_problems_equal_enumeration(enumerate_orders, antisymmetric):
    rng = np.random.default_rng(0)
    for trial in range(300):
        m, largest = int(rng.integers(1, 8)), int(rng.choice([1, 2, 10, 1000]))
        people = trial % 3
        margins = antisymmetric(rng.integers(-largest, largest + 1, (m, m)))
        expected = enumerate_orders(margins)
        for given, unit in (
            (margins, Fraction(1)),
            (margins / 8, Fraction(1, 8)),
            (margins.astype(object) * 10**30, Fraction(10**30)),
        ):
            result = solve(given, people=people)
            assert result.order in expected.optima
            assert (
                result.cost
                == result.lower_bound
                == Fraction(people * m * (m - 1), 4) - unit * Fraction(expected.score, 2)
            )
            assert result.cost == kemeny_cost(given, result.order, people=people)
            assert result.status == "optimal"
            assert (result.gap, result.gap_relative) == (0, 0.0)
            assert result.unique == (len(expected.optima) == 1)
            assert result.differing == expected.differing
            assert [item for tier in result.tiers for item in tier] == sorted(
                result.order, key=lambda i: [i in tier for tier in result.tiers].index(True) * 100 + i
            )
            surely = [[all(o.index(u) < o.index(v) for o in expected.optima) for v in range(m)] for u in range(m)]
            assert result.ranks == tuple(
                (1 + sum(surely[u][v] for u in range(m)), m - sum(surely[v])) for v in range(m)
            )


def test_the_path_of_large_problems_equals_enumeration(monkeypatch, enumerate_orders, antisymmetric):
    monkeypatch.setattr(importlib.import_module("psephos.kemeny.solve"), "MAX_ITEMS", 2)
    rng = np.random.default_rng(1)
    settled = 0
    for _ in range(200):
        m, largest = int(rng.integers(3, 8)), int(rng.choice([1, 2, 10]))
        # many zeros, so that weak blocks are finer than strict ones
        margins = antisymmetric(rng.integers(-largest, largest + 1, (m, m)) * rng.integers(0, 2, (m, m)))
        expected = enumerate_orders(margins)
        result = solve(margins)
        assert result.order in expected.optima
        assert result.cost == result.lower_bound == -Fraction(expected.score, 2)
        assert result.unique in (None, len(expected.optima) == 1)
        assert result.differing in (None, expected.differing)
        settled += result.differing is not None
    assert settled > 180


@pytest.mark.parametrize("m", [1, 2, 19, 25, 60])
def test_all_tied(m):
    result = solve(np.zeros((m, m)))
    assert result.tiers == (tuple(range(m)),)
    assert len(result.differing) == m * (m - 1) // 2
    assert result.unique is (m == 1)
    assert result.status == "optimal"
    assert result.cost == 0


@pytest.mark.parametrize("m", [4, 30])
def test_an_item_without_answers_leaves_the_others_in_order(m):
    """Items 0, 1, ..., m - 2 are unanimous, and the last one has a margin of 0 against each of them."""
    place = np.arange(m)
    margins = np.sign(place[None, :] - place[:, None]) * 90
    margins[-1] = margins[:, -1] = 0
    result = solve(margins)
    assert [i for i in result.order if i < m - 1] == list(range(m - 1))
    assert result.tiers == tuple((i,) for i in result.order)
    assert result.ranks == (*((i + 1, i + 2) for i in range(m - 1)), (1, m))
    assert (result.unique, result.status) == (False, "optimal")
    assert result.cost == kemeny_cost(margins, result.order)


def test_many_items_with_a_cycle_at_the_end_and_one_without_answers():
    """22 unanimous items, three in a cycle behind them, and one with margins of 0: parts of more than one optimum."""
    place = np.arange(26)
    margins = np.sign(place[None, :] - place[:, None]) * 90
    margins[22:25, 22:25] = [[0, 5, -5], [-5, 0, 5], [5, -5, 0]]
    margins[-1] = margins[:, -1] = 0
    result = solve(margins)
    assert result.ranks == (*((i + 1, i + 2) for i in range(22)), *[(23, 26)] * 3, (1, 26))
    assert (result.unique, result.status) == (False, "optimal")


def test_relabelling_does_not_matter(antisymmetric):
    rng = np.random.default_rng(5)
    margins = antisymmetric(rng.integers(-4, 5, (25, 25)))
    shuffle = rng.permutation(25)
    one, other = solve(margins), solve(margins[np.ix_(shuffle, shuffle)])
    assert one.cost == other.cost
    named = other.relabelled(shuffle.tolist())
    assert (one.differing, one.ranks) == (named.differing, named.ranks)
    shared = [{tier for tier in result.tiers if len(tier) > 1} for result in (one, named)]
    assert shared[0] == shared[1]


def test_a_condorcet_order_needs_no_search():
    strength = np.random.default_rng(1).permutation(300)
    result = solve(strength[:, None] - strength[None, :])
    assert result.method == "majority"
    assert result.unique
    assert (strength[list(result.order)] == np.arange(300)[::-1]).all()


def test_blocks_are_put_together(antisymmetric):
    rng = np.random.default_rng(2)
    margins = np.full((50, 50), 1)
    for size, start in ((22, 0), (3, 22), (25, 25)):
        inside = slice(start, start + size)
        margins[inside, inside] = antisymmetric(rng.integers(-9, 10, (size, size)))
    margins = np.triu(margins, 1) - np.triu(margins, 1).T
    shuffle = rng.permutation(50)
    result = solve(margins[np.ix_(shuffle, shuffle)])
    assert result.status == "optimal"
    places = [int(shuffle[i]) for i in result.order]
    assert sorted(places[:22]) == list(range(22))
    assert sorted(places[22:25]) == [22, 23, 24]
    parts = [solve(margins[a:b, a:b]).cost for a, b in ((0, 22), (22, 25), (25, 50))]
    between = Fraction(22 * 28 + 3 * 25, 2)
    assert result.cost == sum(parts) - between


def test_noisy_shares_of_two_hundred_items(antisymmetric):
    rng = np.random.default_rng(0)
    strength = rng.normal(size=200)
    share = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    result = solve(antisymmetric(share - share.T + rng.normal(0, 0.03, (200, 200))))
    assert result.status == "optimal"
    assert result.method == "branch_and_cut"


@pytest.mark.parametrize("people", [0, 10**30])
def test_huge_populations(people, antisymmetric):
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.3, (30, 30))
    margins = antisymmetric(np.vectorize(lambda x: int(x * 10**15) * 10**15 + 7, otypes=[object])(noise))
    result = solve(margins, people=people)
    assert result.status == "optimal"
    assert result.cost == result.lower_bound == kemeny_cost(margins, result.order, people=people)
    assert result.unique is True


def test_margins_beyond_the_range_of_doubles(antisymmetric):
    margins = antisymmetric(np.random.default_rng(6).integers(-50, 51, (25, 25))).astype(object)
    fine = antisymmetric(np.random.default_rng(7).integers(-50, 51, (25, 25))).astype(object)
    result = solve(margins * 10**400 + fine)
    assert result.status == "optimal"
    assert abs(result.cost / 10**400 - solve(margins).cost) < Fraction(1, 10**300)


@pytest.mark.parametrize("effort", [0.05, 0.2])
def test_the_answer_does_not_depend_on_the_clock(effort, antisymmetric, monkeypatch):
    """A machine a hundred times slower, and one whose clock jumps, stop at the same place with the same answer."""
    margins = antisymmetric(np.random.default_rng(45).normal(0, 0.3, (40, 40)))
    fast = solve(margins, effort=effort)
    assert (fast.status, fast.limit) == ("effort", "effort")
    ticks = itertools.count(0.0, 7.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    slow = solve(margins, effort=effort, time_limit=1e9)
    assert dataclasses.replace(slow, stats=fast.stats) == fast
    assert (slow.stats.nodes, slow.stats.cuts) == (fast.stats.nodes, fast.stats.cuts)


def test_more_effort_never_ends_worse(antisymmetric):
    margins = antisymmetric(np.random.default_rng(45).normal(0, 0.3, (40, 40)))
    less, more = (solve(margins, effort=effort) for effort in (0.05, 0.3))
    assert more.cost <= less.cost
    assert more.lower_bound >= less.lower_bound


def test_a_guard_that_cuts_is_named_even_if_the_answer_is_good(antisymmetric, monkeypatch):
    """The clock runs out after the first look, when the best order is already known."""
    margins = antisymmetric(np.random.default_rng(3).normal(0, 0.3, (30, 30)))
    clock = iter([0.0] * 30)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock, 10.0))
    cut = solve(margins, time_limit=5)
    assert cut.limit == "time_limit"
    assert cut.unique is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_pure_noise_of_thirty_items_is_proved(seed, antisymmetric):
    margins = antisymmetric(np.random.default_rng(seed).normal(0, 0.3, (30, 30)))
    assert solve(margins, effort=300).status == "optimal"


def test_gap_is_kept(antisymmetric):
    margins = antisymmetric(np.random.default_rng(40).integers(-60, 61, (30, 30)))
    total = int(np.abs(margins).sum()) // 2
    for options, most in (
        ({"gap": 150}, Fraction(150)),
        ({"gap_relative": 0.02}, Fraction(0.02) * total),
        ({"gap": "1e3", "people": 60}, Fraction(1000)),
    ):
        result = solve(margins, **options)
        assert result.gap == result.cost - result.lower_bound
        assert result.gap <= most
        assert result.status == ("optimal" if result.gap == 0 else "gap")
    with_people = solve(margins, people=60, gap=300)
    if with_people.gap:
        assert with_people.gap_relative == pytest.approx(float(with_people.gap / with_people.cost))


@pytest.mark.parametrize("limit", ["effort", "time_limit"])
@pytest.mark.parametrize("m", [18, 40, 120])
def test_out_of_effort_or_time(m, limit, antisymmetric):
    margins = antisymmetric(np.random.default_rng(m).normal(size=(m, m)))
    result = solve(margins, **{limit: 0})
    assert result.status == result.limit == limit
    assert sorted(result.order) == list(range(m))
    assert result.lower_bound < result.cost == kemeny_cost(margins, result.order)
    assert 0 < result.gap_relative < 1
    assert result.unique is None
    assert result.differing is None


@pytest.mark.parametrize(
    "options",
    [
        {"gap": -1},
        {"gap": float("nan")},
        {"gap_relative": -0.1},
        {"gap_relative": float("nan")},
        {"time_limit": -1},
        {"time_limit": float("nan")},
        {"time_limit": None},
        {"effort": -1},
        {"effort": float("nan")},
        {"people": -1},
    ],
)
def test_refused_options(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        solve([[0, 1], [-1, 0]], **options)

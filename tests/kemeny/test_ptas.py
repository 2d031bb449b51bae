"""The approximation scheme: its factor, its lower bounds, and the lemma behind them, against enumeration."""

from __future__ import annotations

import importlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from psephos.errors import ParameterError
from psephos.kemeny import solve
from psephos.kemeny.cost import weighted_cost
from psephos.kemeny.effort import Effort
from psephos.kemeny.ptas import _best_cut, _by_wins, _descend, near_optimal

ptas = importlib.import_module("psephos.kemeny.ptas")
FACTORS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10))


def tournament(shares: np.ndarray, sums: np.ndarray, unit: int = 60) -> np.ndarray:
    """Weights of dtype object in units of 1/``unit``: for u < v, A[v, u] is that share of the pair's sum."""
    m = len(shares)
    weights = np.zeros((m, m), dtype=object)
    for u, v in itertools.combinations(range(m), 2):
        paid = round(float(shares[u, v]) * int(sums[u, v]))
        weights[v, u], weights[u, v] = Fraction(paid, unit), Fraction(int(sums[u, v]) - paid, unit)
    return weights


def pair_sums(rng: np.random.Generator, m: int, equal: bool, unit: int = 60) -> np.ndarray:
    """All 1, or between 1/2 and 2, in units of 1/``unit``."""
    return np.full((m, m), unit) if equal else rng.integers(unit // 2, 2 * unit + 1, (m, m))


def flipped(rng: np.random.Generator, m: int, rate: float, equal: bool = True, reach: int = 1000) -> np.ndarray:
    """An order with random upsets of items at most ``reach`` apart, in shuffled labels."""
    near = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) <= reach
    weights = tournament(near & (rng.random((m, m)) < rate), pair_sums(rng, m, equal))
    shuffle = rng.permutation(m)
    return weights[np.ix_(shuffle, shuffle)]


def optimum(weights: np.ndarray) -> Fraction:
    result = solve(weights - weights.T)
    assert result.status == "optimal"
    return Fraction(weights.sum()) / 2 + result.cost


def cost_of(weights: np.ndarray, order: tuple[int, ...]) -> Fraction:
    return sum((weights[v, u] for u, v in itertools.combinations(order, 2)), Fraction(0))


def check(weights: np.ndarray, result, xi: Fraction, least: Fraction) -> None:
    assert sorted(result.order) == list(range(len(weights)))
    assert result.cost == cost_of(weights, result.order)
    assert result.lower_bound <= least <= result.cost
    assert result.cost <= (1 + xi) * result.lower_bound
    assert result.gap == result.cost - result.lower_bound
    assert (result.certificate == "exact") == (result.gap == 0)
    assert (result.certificate == "scheme") <= (result.cuts > 0)
    assert result.certificate != "open"


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("practical", [True, False])
def test_the_factor_is_kept_on_small_tournaments(practical, equal):
    rng = np.random.default_rng(0)
    for trial in range(30):
        m = int(rng.integers(1, 15))
        shares = rng.random((m, m)) if trial % 2 else rng.random((m, m)) < 0.3
        weights = tournament(shares, pair_sums(rng, m, equal))
        least = optimum(weights)
        for xi in FACTORS:
            result = near_optimal(weights, xi=xi, practical=practical)
            check(weights, result, xi, least)
            assert result.certificate == "exact" or not practical  # an optimum of few items


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize(("m", "trials"), [(14, 8), pytest.param(60, 3, marks=pytest.mark.slow)])
def test_the_factor_is_kept_by_cuts(m, trials, equal, monkeypatch):
    """Orders with few upsets, most of them between neighbours, cut down to parts of three items."""
    monkeypatch.setattr(ptas, "MAX_ITEMS", 3)
    rng = np.random.default_rng(m)
    cuts, lossy = 0, 0
    for trial in range(trials):
        reach = int(rng.integers(2, m // 5 + 2)) if trial % 4 else m
        weights = flipped(rng, m, 0.8 / reach if reach < m else 3 / m**1.5, equal, reach)
        least = optimum(weights)
        for xi in (*FACTORS, Fraction(2)):
            result = near_optimal(weights, xi=xi, practical=False)
            check(weights, result, xi, least)
            cuts += result.cuts
            lossy += result.certificate == "scheme"
    assert cuts >= 15
    assert lossy >= 4


def test_noisy_shares_are_cut(monkeypatch):
    """Here much of the cost is unavoidable, and upsets are between neighbours."""
    monkeypatch.setattr(ptas, "MAX_ITEMS", 5)
    rng = np.random.default_rng(3)
    strength = np.sort(rng.normal(size=40))[::-1]
    shares = 1 / (1 + np.exp(strength[:, None] - strength[None, :])) + rng.normal(0, 0.2, (40, 40))
    weights = tournament(np.clip(shares, 0, 1), pair_sums(rng, 40, True))
    result = near_optimal(weights, xi="0.1", practical=False)
    check(weights, result, Fraction(1, 10), optimum(weights))
    assert result.cuts >= 1


def test_displacement_lemma():
    """Each statement of the module, for local optima and all optimal orders of up to 7 items."""
    rng = np.random.default_rng(1)
    checked = 0
    for trial in range(150):
        n = int(rng.integers(3, 7 if trial % 8 else 8))
        shares = rng.beta(0.3, [0.6, 3, 30][trial % 3], (n, n))
        a = (tournament(shares, pair_sums(rng, n, trial % 2 == 0)) * 60).astype(int)
        sums = (a + a.T)[np.triu_indices(n, 1)]
        b, most = int(sums.min()), int(sums.max())
        orders = list(itertools.permutations(range(n)))
        costs = _all_costs(a, np.array(orders))
        cost_at = dict(zip(orders, costs.tolist(), strict=True))
        least = int(costs.min())
        optima = [order for order in orders if cost_at[order] == least]
        for start in rng.permuted(np.tile(np.arange(n), (4, 1)), axis=1):
            order = tuple(_descend(a.astype(object), start, Effort(60)).tolist())
            place = np.argsort(order) + 1
            r = math.isqrt(2 * cost_at[order] // b)
            pays = [(_pays(a, place, v, later=True), _pays(a, place, v, later=False)) for v in range(n)]
            for star in optima[:4]:
                there = np.argsort(star) + 1
                for k in range(1, n):
                    assert sum((place <= k) & (there > k)) == sum((there <= k) & (place > k)) <= r
                for v in range(n):
                    p, q = int(place[v]), int(there[v])
                    assert 2 * pays[v][p > q] >= b * abs(p - q) - 4 * r * most
                    rest = [x for x in star if x != v]
                    alone = (*rest[: p - 1], v, *rest[p - 1 :])
                    assert cost_at[alone] - least <= 4 * r * most
                bad = rng.random(n) < 0.4  # any set will do for the cost and the places of pi''
                keys = [(place[v], np.sign(place[v] - there[v])) if bad[v] else (there[v], 0) for v in range(n)]
                mixed = tuple(sorted(range(n), key=keys.__getitem__))
                x = int(bad.sum())
                assert 2 * (cost_at[mixed] - least) <= most * x * (8 * r + 3 * max(x - 1, 0))
                assert all(abs(mixed.index(v) + 1 - keys[v][0]) <= x for v in range(n))
                checked += 1
            if n > 3:
                cut = _best_cut(a[np.ix_(order, order)].astype(object), b, most)
                _check_cut(a, order, cut, least)
    assert checked > 600


def _all_costs(a: np.ndarray, orders: np.ndarray) -> np.ndarray:
    place = np.argsort(orders, axis=1)
    pairs = itertools.permutations(range(len(a)), 2)
    return sum(np.where(place[:, u] < place[:, v], a[v, u], 0) for u, v in pairs)


def _pays(a: np.ndarray, place: np.ndarray, v: int, *, later: bool) -> int:
    return int(a[place > place[v], v].sum() if later else a[v, place < place[v]].sum())


def _check_cut(a: np.ndarray, order: tuple[int, ...], cut, least: int) -> None:
    sides = order[: cut.place], order[cut.place :]
    assert len(order) / 3 <= cut.place <= 2 * len(order) / 3
    parts = 0
    for side in sides:
        inner = a[np.ix_(side, side)].astype(object)
        parts += int(inner.sum() / 2 + solve(inner - inner.T).cost)
    cross = int(a[np.ix_(sides[1], sides[0])].sum())
    assert least >= parts + cross - cut.loss


@pytest.mark.slow
def test_cuts_over_a_limited_distance():
    """Windows shorter than the order, and the bound they give, for 60 to 90 items."""
    rng = np.random.default_rng(2)
    limited = 0
    for trial in range(8):
        n = int(rng.integers(60, 91))
        weights = (flipped(rng, n, 2 / n**1.6, trial % 4 > 0) * 60).astype(int).astype(object)
        order = _descend(weights, _by_wins(weights), Effort(60))
        sums = (weights + weights.T)[np.triu_indices(n, 1)]
        cut = _best_cut(weights[np.ix_(order, order)], int(sums.min()), int(sums.max()))
        limited += cut.window < n
        _check_cut(weights, tuple(order.tolist()), cut, int(optimum(weights)))
    assert limited >= 3


def test_single_moves_are_exact():
    """Differences that doubles cannot see."""
    rng = np.random.default_rng(5)
    large = rng.integers(-3, 4, (9, 9)).astype(object) * 10**40 + rng.integers(-9, 10, (9, 9)).astype(object)
    weights = np.triu(large, 1) - np.triu(large, 1).T + 10**42
    np.fill_diagonal(weights, 0)
    order = _descend(weights, np.arange(9), Effort(60)).tolist()
    cost = weighted_cost(weights, np.array(order))
    for i, j in itertools.product(range(9), range(9)):
        rest = order[:i] + order[i + 1 :]
        assert weighted_cost(weights, np.array([*rest[:j], order[i], *rest[j:]])) >= cost


def test_wins_are_shares_of_each_pair():
    """Item 0 wins 9 : 1 twice, item 1 has the larger weights: 50 : 51 and 1 : 9."""
    weights = np.array([[0, 9, 9], [1, 0, 50], [1, 51, 0]], dtype=object)
    assert _by_wins(weights).tolist() == [0, 2, 1]


def test_few_items_and_scales():
    assert near_optimal([[0]], xi=1).order == (0,)
    assert near_optimal([[0, 1], [2, 0]], xi=1).order == (1, 0)
    rng = np.random.default_rng(6)
    weights = tournament(rng.random((12, 12)), pair_sums(rng, 12, False))
    one = near_optimal(weights, xi="0.1")
    for scale in (10**30, Fraction(1, 10**30)):
        other = near_optimal(weights * scale, xi="0.1")
        assert (other.order, other.cost, other.lower_bound) == (one.order, one.cost * scale, one.lower_bound * scale)
    doubles = near_optimal(weights.astype(float), xi="0.1")
    assert doubles.cost == cost_of(np.vectorize(Fraction, otypes=[object])(weights.astype(float)), doubles.order)


def test_an_order_without_upsets_costs_nothing():
    strength = np.random.default_rng(7).permutation(80)
    result = near_optimal((strength[:, None] > strength[None, :]).astype(int), xi="1e-9")
    assert (result.cost, result.lower_bound, result.certificate) == (0, 0, "exact")
    assert (strength[list(result.order)] == np.arange(80)[::-1]).all()


@pytest.mark.parametrize("practical", [True, False])
def test_out_of_time(practical):
    weights = flipped(np.random.default_rng(8), 24, 0.3)
    result = near_optimal(weights, xi="0.01", time_limit=0, practical=practical)
    assert result.certificate == "open"
    assert sorted(result.order) == list(range(24))
    assert result.lower_bound <= optimum(weights) <= result.cost == cost_of(weights, result.order)


def test_a_first_gap_that_was_too_wide_is_narrowed():
    """A solver that uses up all of its gap: the second run must still end within the factor."""
    asked = []

    def wasteful(weights, order, gap, deadline):  # noqa: ARG001
        asked.append(gap)
        cost = 100 if len(asked) == 1 else 90
        return ptas._Part(order=order, cost=cost, lower=cost - gap)

    start = ptas._Part(order=np.arange(2), cost=200, lower=10)
    found = ptas._close(start, Fraction(1, 2), lambda gap: wasteful(None, np.arange(2), gap, 0.0))
    assert asked == [66, 17]
    assert found.cost == 90 <= Fraction(3, 2) * found.lower


@pytest.mark.parametrize(
    "weights",
    [
        [],
        [1],
        [[0, 1]],
        [[0, 1], [1]],
        [[1, 1], [1, 0]],
        [[0, 0], [0, 0]],
        [[0, -1], [3, 0]],
        [[0, math.nan], [1, 0]],
        [[0, math.inf], [1, 0]],
        [[0, True], [1, 0]],
        [[0, "a"], [1, 0]],
    ],
)
def test_refused_weights(weights):
    with pytest.raises(ParameterError, match="weights"):
        near_optimal(weights, xi=1)


@pytest.mark.parametrize("options", [{"xi": 0}, {"xi": -1}, {"xi": None}, {"xi": "nan"}, {"xi": 1, "time_limit": -1}])
def test_refused_options(options):
    with pytest.raises(ParameterError, match="time_limit" if "time_limit" in options else "xi"):
        near_optimal([[0, 1], [1, 0]], **options)

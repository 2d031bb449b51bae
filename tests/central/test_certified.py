"""Rounding a noisy table into range: nearest in operator norm, valid whatever the solver says; what it certifies."""

from __future__ import annotations

import importlib
import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

from psephos.central.certified import cost_bound, round_to_tournament
from psephos.errors import MissingExtraError, ParameterError
from psephos.privacy.balls import operator_norm_upper, order_nuclear_norm_upper
from psephos.privacy.noise_norms import (
    gaussian_norm_quantile_upper,
    gaussian_norm_upper,
    laplace_norm_quantile_upper,
    laplace_norm_upper,
)

certified = importlib.import_module("psephos.central.certified")


def antisymmetric(table: np.ndarray) -> np.ndarray:
    upper = np.triu(table, 1)
    return upper - upper.T


def draw(rng: np.random.Generator, family: str, scale: float, m: int) -> np.ndarray:
    """Integer noise, as the mechanisms add it."""
    if family == "normal":
        return antisymmetric(np.rint(rng.normal(0, scale, (m, m))).astype(np.int64))
    tail = -np.expm1(-1 / scale)
    return antisymmetric(rng.geometric(tail, (m, m)) - rng.geometric(tail, (m, m)))


def released(rng: np.random.Generator, m: int, n: int, scale: float, family: str = "normal") -> np.ndarray:
    return antisymmetric(rng.integers(-n, n + 1, (m, m))) + draw(rng, family, scale, m)


def check(result, table: np.ndarray, n: int) -> None:
    """A valid table, whose distance is what the result says, to what the bound can tell."""
    margins = result.margins
    assert all(isinstance(x, Fraction) for x in margins.ravel())
    assert (margins == -margins.T).all()
    assert abs(margins).max() <= n
    apart = np.linalg.norm((margins - table.astype(object)).astype(float), 2)
    assert apart * (1 - 1e-12) <= float(result.distance) <= apart * 1.002 + 1e-12
    assert result.distance <= operator_norm_upper((np.clip(table, -n, n) - table).tolist())


def least_distance(table: np.ndarray, n: int, rounds: int = 200) -> float:
    """A lower bound on the distance of any table in range, by cutting planes: independent of the solver.

    ``||Y|| >= <Y, X>`` for the antisymmetric X of nuclear norm 1 at the singular pairs of a previous Y.
    """
    m = len(table)
    rows, columns = np.triu_indices(m, 1)
    released = table[rows, columns].astype(float)
    unit = np.linalg.norm(np.clip(table, -n, n) - table, 2)
    bounds = [(None, None)] + [(max(-1, (-n - t) / unit), min(1, (n - t) / unit)) for t in released]
    planes, bound = [], 0.0
    y = np.clip(released, -n, n) - released
    for _ in range(rounds):
        left, _, right = np.linalg.svd(antisymmetric_of(y, m))
        for k in range(0, m - 1, 2):  # one of each pair of equal singular values
            x = np.outer(left[:, k], right[k])
            planes.append(np.concatenate([[-1.0], (x - x.T)[rows, columns]]))
        found = linprog(np.eye(1, 1 + len(rows))[0], A_ub=np.array(planes), b_ub=np.zeros(len(planes)), bounds=bounds)
        assert found.status == 0
        bound, y = found.fun, found.x[1:]
        if np.linalg.norm(antisymmetric_of(y, m), 2) <= bound * (1 + 1e-4):
            break
    return bound * unit


def antisymmetric_of(entries: np.ndarray, m: int) -> np.ndarray:
    table = np.zeros((m, m))
    table[np.triu_indices(m, 1)] = entries
    return table - table.T


def test_three_items_are_clipped():
    rng = np.random.default_rng(0)
    for m in (1, 2, 3):
        for _ in range(30):
            table = released(rng, m, 10, 20)
            result = round_to_tournament(table, people=10)
            check(result, table, 10)
            assert (result.margins == np.clip(table, -10, 10)).all()
            assert result.solver == ("none" if (abs(table) <= 10).all() else "clip")
            if result.distance:
                assert float(result.distance) <= least_distance(table, 10) * 1.001


def test_a_table_in_range_is_left_alone():
    table = released(np.random.default_rng(1), 12, 50, 0.1).clip(-50, 50)
    result = round_to_tournament(table, people=50)
    assert (result.margins == table).all()
    assert (result.distance, result.solver) == (0, "none")


@pytest.mark.slow
def test_nearest_in_operator_norm():
    """Within 1/256 and the tolerances of an independent lower bound; and often nearer than clipping."""
    rng = np.random.default_rng(2)
    nearer = 0
    for trial in range(18):
        m = 4 + trial % 3
        table = released(rng, m, 100, float(rng.choice([30, 100, 400])))
        result = round_to_tournament(table, people=100)
        check(result, table, 100)
        if result.distance:
            least = least_distance(table, 100)
            clipped = np.linalg.norm(np.clip(table, -100, 100) - table, 2)
            assert least * (1 - 1e-6) <= float(result.distance) <= least * (1 + 1 / 256) + clipped * 1e-3
            nearer += float(result.distance) < 0.98 * clipped
    assert nearer >= 2


def test_nearer_than_clipping():
    """16 items, noise as large as the margins: some 12 % nearer."""
    table = released(np.random.default_rng(16), 16, 1000, 1000)
    result = round_to_tournament(table, people=1000)
    check(result, table, 1000)
    assert result.solver == "scs"
    assert float(result.distance) < 0.93 * np.linalg.norm(np.clip(table, -1000, 1000) - table, 2)


def test_ties_are_broken_towards_small_entries():
    """One pair out of range, far beyond another: the second must be clipped by no more than it takes."""
    table = np.zeros((4, 4), dtype=np.int64)
    table[0, 1], table[2, 3] = 110, 15
    result = round_to_tournament(antisymmetric(table), people=10)
    assert float(result.margins[0, 1]) == pytest.approx(10, abs=0.1)
    assert float(result.margins[2, 3]) == pytest.approx(10, abs=0.1)
    assert all(abs(result.margins[u, v]) < Fraction(1, 10) for u in (0, 1) for v in (2, 3))


def test_costs_are_within_the_bound():
    """1,000 cases, both laws: no order's cost moves further than the bound for the noise that was drawn."""
    rng = np.random.default_rng(3)
    solved, tightest = 0, 0.0
    signs = {m: _signs(m) for m in (3, 4, 5, 6)}
    for trial in range(1000):
        m, n = 3 + trial % 4, int(rng.choice([1, 10, 1000]))
        truth = antisymmetric(rng.integers(-n, n + 1, (m, m)))
        noise = draw(rng, ("normal", "laplace")[trial // 4 % 2], n * float(rng.choice([0.1, 1, 4])), m)
        result = round_to_tournament(truth + noise, people=n)
        solved += result.solver == "scs"
        moved = (result.margins - truth.astype(object))[np.triu_indices(m, 1)] * 2**40
        gamma = Fraction(int(np.abs(signs[m] @ moved.astype(np.int64)).max()), 2**41)
        bound = cost_bound(m, result.distance, operator_norm_upper(noise.tolist()))
        assert gamma <= bound
        tightest = max(tightest, float(gamma / bound) if bound else 0.0)
    assert solved > 200
    assert tightest > 0.7  # half the bound would be refuted


def _signs(m: int) -> np.ndarray:
    """(orders, pairs): 1 where u stands before v, else -1."""
    place = np.argsort(list(itertools.permutations(range(m))), axis=1)
    rows, columns = np.triu_indices(m, 1)
    return np.where(place[:, rows] < place[:, columns], 1, -1)


def test_the_bound_on_costs_is_attained():
    """A - B proportional to the conjugate of the singular vectors of an order's margins: equality in the lemma."""
    m = 6
    order = np.triu(np.ones((m, m)), 1) - np.tril(np.ones((m, m)), -1)
    left, _, right = np.linalg.svd(order)
    move = left @ right  # orthogonal, antisymmetric
    assert np.allclose(move, -move.T)
    assert np.sum(move * order) / 4 == pytest.approx(float(cost_bound(m, 1, 0)))
    assert cost_bound(m, 1, 0) == order_nuclear_norm_upper(m) / 4
    assert cost_bound(m, "0.5", "1.5") == cost_bound(m, 2, 0)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        np.array(0.0),
        np.zeros(3),
        np.zeros((16, 2)),
        np.full(16, np.nan),
        np.full(16, np.inf),
        np.full(16, 1e300),
        np.random.default_rng(4).normal(size=16),
        np.zeros(16),
    ],
)
def test_whatever_the_solver_returns(answer, monkeypatch):
    stub = SimpleNamespace(solve=lambda *_, **__: {"x": answer})
    monkeypatch.setattr(certified, "load_extra", lambda *_: stub)
    table = released(np.random.default_rng(5), 6, 10, 20)
    result = round_to_tournament(table, people=10)
    check(result, table, 10)


def test_a_bad_answer_is_worse_than_clipping(monkeypatch):
    stub = SimpleNamespace(solve=lambda *_, **__: {"x": np.full(16, 1.0)})
    monkeypatch.setattr(certified, "load_extra", lambda *_: stub)
    table = released(np.random.default_rng(5), 6, 10, 20)
    result = round_to_tournament(table, people=10)
    assert result.solver == "clip"
    assert (result.margins == np.clip(table, -10, 10)).all()


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8])
def test_huge_populations(m):
    """The same table in units of 10**30 people, and one whose noise is far below them."""
    rng = np.random.default_rng(m)
    small = released(rng, m, 20, 30)
    table, n = small.astype(object) * 10**29 + antisymmetric(rng.integers(-9, 10, (m, m))).astype(object), 2 * 10**30
    result = round_to_tournament(table, people=n)
    assert abs(result.margins).max() <= n
    assert float(result.distance / 10**29) == pytest.approx(
        float(round_to_tournament(small, people=20).distance), rel=2e-3, abs=1e-20
    )
    edge = antisymmetric(np.full((m, m), 1)).astype(object) * 10**30 + draw(rng, "normal", 50, m).astype(object)
    result = round_to_tournament(edge, people=10**30)
    assert abs(result.margins).max(initial=0) <= 10**30
    assert result.distance <= operator_norm_upper((np.clip(edge, -(10**30), 10**30) - edge).tolist()) < 1000
    assert (result.margins == -result.margins.T).all()


def test_nobody_answered():
    table = released(np.random.default_rng(6), 5, 0, 10)
    result = round_to_tournament(table, people=0)
    assert not result.margins.any()


def test_out_of_time():
    table = released(np.random.default_rng(7), 20, 100, 300)
    for seconds in (0, 1e-9):
        check(round_to_tournament(table, people=100, time_limit=seconds), table, 100)


def test_the_extra_is_asked_for_only_where_it_is_needed(monkeypatch):
    def missing(module: str, extra: str) -> None:
        raise MissingExtraError(f"{module} {extra}")

    monkeypatch.setattr(certified, "load_extra", missing)
    round_to_tournament(released(np.random.default_rng(8), 3, 5, 20), people=5)
    table = released(np.random.default_rng(8), 5, 5, 20)
    round_to_tournament(table, people=1000)
    with pytest.raises(MissingExtraError, match="scs certified"):
        round_to_tournament(table, people=5)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ([[0, 1], [1, 0]], {"people": 1}, "margins"),
        ([[0, np.nan], [np.nan, 0]], {"people": 1}, "margins"),
        ([], {"people": 1}, "margins"),
        ([[0, 1], [-1, 0]], {"people": -1}, "people"),
        ([[0, 1], [-1, 0]], {"people": 0.5}, "people"),
        ([[0, 1], [-1, 0]], {"people": 1, "time_limit": -1}, "time_limit"),
        ([[0, 1], [-1, 0]], {"people": 1, "time_limit": float("nan")}, "time_limit"),
    ],
)
def test_refused(table, options, message):
    with pytest.raises(ParameterError, match=message):
        round_to_tournament(table, **options)


@pytest.mark.parametrize(
    ("arguments", "message"), [((0, 1, 1), "m "), ((3, -1, 1), "distance"), ((3, 1, None), "noise_norm")]
)
def test_refused_bounds(arguments, message):
    with pytest.raises(ParameterError, match=message):
        cost_bound(*arguments)


@pytest.mark.parametrize("family", ["normal", "laplace"])
@pytest.mark.parametrize("scale", [0.7, 30.0])
@pytest.mark.parametrize("m", [2, 3, 8, 30])
def test_norms_of_noise(m, scale, family):
    """Means of 400 draws lie below the bound and, but for rounding, above half of it.

    A mean of 400 has a standard error of at most 8 % (Laplace, m = 2), and the bounds are loose by 20 % or more, so a
    false alarm has a probability below 1 in 100; the seed is fixed.
    """
    rng = np.random.default_rng(m)
    norms = np.array([np.linalg.norm(draw(rng, family, scale, m), 2) for _ in range(400)])
    above = {"normal": gaussian_norm_upper, "laplace": laplace_norm_upper}[family](m, scale)
    assert norms.mean() <= float(above)
    assert norms.mean() > 0.5 * float(above) or scale < 1
    tail = {"normal": gaussian_norm_quantile_upper, "laplace": laplace_norm_quantile_upper}[family]
    assert (norms >= float(tail(m, scale, "0.1"))).mean() <= 0.1
    assert tail(m, scale, "0.001") > tail(m, scale, "0.1") > above * Fraction(1, 2)


def test_bounds_of_noise_scale_and_grow():
    for m in (2, 5, 64):
        assert laplace_norm_upper(m, 10**30) == 10**30 * laplace_norm_upper(m, 1)
        assert gaussian_norm_upper(m, 7, rounded=False) == 7 * gaussian_norm_upper(m, 1, rounded=False)
        assert gaussian_norm_upper(m, 7, rounded=False) < gaussian_norm_upper(m, 7)
        assert gaussian_norm_quantile_upper(m, 7, "0.1", rounded=False) < gaussian_norm_quantile_upper(m, 7, "0.1")
    for bound in (laplace_norm_upper, gaussian_norm_upper):
        assert bound(1, 5) == 0
        assert all(bound(m, 5) < bound(m + 1, 5) for m in range(1, 70))
    for tail in (laplace_norm_quantile_upper, gaussian_norm_quantile_upper):
        assert tail(1, 5, "0.1") == 0


@pytest.mark.parametrize("failure", [0, 1, -1, "nan", None])
def test_refused_failure(failure):
    for tail in (laplace_norm_quantile_upper, gaussian_norm_quantile_upper):
        with pytest.raises(ParameterError, match="failure"):
            tail(3, 1, failure)


@pytest.mark.parametrize("bound", [laplace_norm_upper, gaussian_norm_upper])
def test_refused_noise(bound):
    with pytest.raises(ParameterError, match="m "):
        bound(0, 1)
    with pytest.raises(ParameterError, match=r"scale|sigma"):
        bound(3, 0)

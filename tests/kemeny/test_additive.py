"""The additive approximation: each inequality of its proof against enumeration, its bound against the optimum."""

from __future__ import annotations

import importlib
import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from psephos.errors import ParameterError
from psephos.kemeny.additive import additive_approximation, additive_by_boxes
from psephos.kemeny.ptas import near_optimal
from psephos.kemeny.subset_dp import subset_dp

additive = importlib.import_module("psephos.kemeny.additive")
ptas = importlib.import_module("psephos.kemeny.ptas")


def tournament(rng: np.random.Generator, n: int, kind: str = "shares", unit: int = 600) -> np.ndarray:
    """Pair sums ``unit``: random winners, random shares, or margins ``unit (x_u y_v - y_u x_v)`` of rank 2."""
    if kind == "rank":
        x, y = rng.normal(size=(2, n)) / 2
        won = np.outer(x, y) - np.outer(y, x) + 0.5
    else:
        won = rng.random((n, n)) if kind == "shares" else rng.random((n, n)) < 0.5
    upper = np.triu(np.rint(unit * won).astype(int), 1)
    return np.triu(upper, 1).astype(object) + np.tril(unit - upper.T, -1).astype(object)


def nonnegative(weights: np.ndarray) -> np.ndarray:
    return weights - min(0, weights.min()) * (1 - np.eye(len(weights), dtype=int).astype(object))


def optimum(weights: np.ndarray) -> int:
    return cost_of(weights, subset_dp(weights - weights.T).order)


def cost_of(weights: np.ndarray, order) -> int:
    return sum(weights[v, u] for u, v in itertools.combinations(order, 2))


def assignments(n: int, buckets: int):
    """All (n, K) tables of whole assignments with the given bucket sizes."""
    sizes = additive._sizes(n, buckets)
    for places in set(itertools.permutations(np.repeat(range(buckets), sizes).tolist())):
        yield np.eye(buckets, dtype=int)[list(places)].astype(object)


def between(margins: np.ndarray, x: np.ndarray):
    """V_K of whole or fractional x, as a sum over pairs of buckets."""
    return sum(x[:, k] @ margins @ x[:, i] for k, i in itertools.combinations(range(x.shape[1]), 2))


def errors_of(form, buckets: int, pairs: int, cells: int) -> list[Fraction]:
    r = min(pairs, len(form.tails) - 1) if buckets > 2 else 0
    half = -(-additive._widest(form, buckets, r) // (2 * cells)) + 1
    return [
        additive._within(form, buckets) / 2,
        additive._neglected(form, buckets, r),
        additive._slack(form, buckets, r, half),
    ]


@pytest.mark.parametrize(("n", "buckets"), [(6, 2), (6, 3), (7, 3), (6, 6)])
def test_pairs_within_buckets(n, buckets):
    """|V - V_K| <= kappa, attained where one item beats the next; the form in terms of the first K - 1 buckets."""
    rng = np.random.default_rng(n)
    chain = np.triu(np.full((n, n), 60), 1).astype(object)
    places = np.repeat(range(buckets), additive._sizes(n, buckets))
    for weights in (chain, tournament(rng, n), tournament(rng, n, "winners")):
        margins = weights - weights.T
        kappa = additive._within(additive._factored(margins), buckets)
        gaps = []
        for order in itertools.islice(itertools.permutations(range(n)), None, None, 7):
            x = np.eye(buckets, dtype=int)[places[np.argsort(order)]].astype(object)
            first = x[:, :-1]
            second = Fraction(int((additive._signs(buckets - 1) * (first.T @ margins @ first)).sum()), 2)
            assert between(margins, x) == margins.sum(axis=1) @ first.sum(axis=1) + second
            gaps.append(weights.sum() - 2 * cost_of(weights, order) - between(margins, x))
        assert max(abs(gap) for gap in gaps) <= kappa
        assert weights is not chain or max(gaps) == kappa


def test_fractions_are_rounded_without_loss():
    rng = np.random.default_rng(0)
    for trial in range(200):
        n, buckets = int(rng.integers(2, 9)), int(rng.integers(2, 6))
        weights = tournament(rng, n, ["shares", "winners"][trial % 2])
        margins = weights - weights.T
        x = rng.dirichlet(np.full(buckets, 0.5), n)
        order = additive._order(additive._factored(margins), x)
        assert sorted(order) == list(range(n))
        assert weights.sum() - 2 * cost_of(weights, order) >= between(margins.astype(float), x) - 1e-6


@pytest.mark.parametrize("scale", [1, 10**40])
def test_norms(scale):
    """The bounds on norms hold, and are as small as the theorem needs."""
    for m in range(1, 40):
        exact = np.linalg.norm(additive._signs(m).astype(float), "nuc")
        assert exact <= additive._nuclear(m) <= 1.02 * exact + 1e-9
        assert additive._nuclear(m) <= 2 * m / math.pi * (2 + math.log(m))
    rng = np.random.default_rng(1)
    for trial in range(30):
        n = int(rng.integers(1, 10))
        weights = tournament(rng, n, ["shares", "winners", "rank"][trial % 3]) * scale
        margins = weights - weights.T
        form = additive._factored(margins)
        values = np.append(np.linalg.svd((margins / scale).astype(float))[1], [0.0, 0.0])
        for r, tail in enumerate(form.tails):
            rest = margins - additive._rank(form.factors[:, : 2 * r]) * form.unit
            norm = np.linalg.norm((rest / scale).astype(float), 2)
            assert norm - 1e-9 <= tail / scale <= values[2 * r] + 1e-6
            assert tail / scale <= form.most / scale * n / math.sqrt(2 * r + 2) + 1e-6


@pytest.mark.parametrize(("n", "buckets", "share"), [(3, 3, 0.5), (6, 3, 0.2), (6, 6, 0.2), (8, 3, 0.2)])
def test_neglected_pairs(n, buckets, share):
    """In doubles, for whole assignments and for mixtures of three; with half of nu the first case fails."""
    rng = np.random.default_rng(n + buckets)
    signs = additive._signs(buckets - 1).astype(float)
    whole = np.array(list(assignments(n, buckets)), dtype=float)[:, :, :-1]
    mixed = np.einsum("ti,tivk->tvk", rng.dirichlet(np.ones(3), 200), whole[rng.integers(len(whole), size=(200, 3))])
    tables = np.concatenate([whole, mixed])
    largest = 0.0
    for kind in ("shares", "winners"):
        form = additive._factored((lambda a: a - a.T)(tournament(rng, n, kind)))
        for r in range(len(form.tails)):
            rest = (form.margins - additive._rank(form.factors[:, : 2 * r]) * form.unit).astype(float)
            changed = np.abs(np.einsum("tuk,uv,tvl,kl->t", tables, rest, tables, signs, optimize=True)) / 2
            largest = max(largest, changed.max() / float(additive._neglected(form, buckets, r)))
    assert share < largest <= 1


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_box_slack_is_the_largest_value_at_corners(m):
    """So half of it would be too little."""
    corners = np.array(list(itertools.product([-1, 1], repeat=m)))
    values = corners @ additive._signs(m).astype(int) @ corners.T
    form = additive._factored((lambda a: a - a.T)(tournament(np.random.default_rng(0), 6)))
    assert values.max() == m * m // 2
    assert additive._slack(form, m + 1, 3, 5) == 3 * 25 * form.unit * int(values.max())


@pytest.mark.parametrize(("n", "buckets", "pairs", "cells"), [(6, 3, 1, 3), (5, 4, 1, 2), (6, 3, 2, 2), (6, 2, 1, 1)])
def test_boxes_cover_all_assignments_and_bound_them(n, buckets, pairs, cells, monkeypatch):
    """In its box no assignment exceeds U + slack; and the assignment that a program finds reaches U - slack - nu."""
    weights = tournament(np.random.default_rng(n), n, "winners")
    form = additive._factored(weights - weights.T)
    seen = []
    solve = additive._Program.solve
    monkeypatch.setattr(
        additive._Program, "solve", lambda self, c: seen.append((c, self, *solve(self, c))) or seen[-1][2:]
    )
    result = additive_by_boxes(weights, buckets=buckets, pairs=pairs, cells=cells)
    errors = errors_of(form, buckets, pairs, cells)
    _, nu, slack = errors
    assert len(seen) == result.programs
    wins, signs = form.margins.sum(axis=1), additive._signs(buckets - 1)
    for x in assignments(n, buckets):
        first = x[:, :-1]
        inside = 0
        for centre, program, value, _ in seen:
            z = first.T @ program.factors
            if (abs(z - centre) <= program.half).all():
                quadratic = (z[:, ::2] * (signs @ z[:, 1::2])).sum() * form.unit
                assert wins @ first.sum(axis=1) + quadratic <= value + slack
                inside += 1
        assert inside >= 1
    for _, _, value, x in seen:
        assert between(form.margins.astype(float), x) >= value - slack - nu - Fraction(1, 1000)
        assert np.allclose(x.sum(axis=0), additive._sizes(n, buckets))


CASES = [(6, 2, 0, 1), (7, 3, 0, 1), (6, 3, 1, 2), (8, 3, 1, 3), (8, 4, 1, 2), (8, 3, 2, 1), (6, 6, 0, 1), (9, 2, 1, 1)]


@pytest.mark.parametrize("kind", ["shares", "winners", "rank"])
@pytest.mark.parametrize(("n", "buckets", "pairs", "cells"), CASES)
def test_bound_and_error(n, buckets, pairs, cells, kind):
    weights = nonnegative(tournament(np.random.default_rng(n * buckets), n, kind))
    result = additive_by_boxes(weights, buckets=buckets, pairs=pairs, cells=cells)
    assert result.cost == cost_of(weights, result.order)
    assert result.lower_bound <= optimum(weights) <= result.cost
    allowed = sum(errors_of(additive._factored(weights - weights.T), buckets, pairs, cells))
    assert result.cost - result.lower_bound <= allowed * (1 + Fraction(1, 10**6))


def test_refinement():
    """More pairs, finer cells and more buckets."""
    weights = nonnegative(tournament(np.random.default_rng(4), 8, "rank"))
    grids = [(3, 0, 1), (3, 1, 1), (3, 1, 2), (3, 1, 3), (4, 1, 2)]
    gaps = {}
    for buckets, pairs, cells in grids:
        result = additive_by_boxes(weights, buckets=buckets, pairs=pairs, cells=cells)
        assert result.lower_bound <= optimum(weights)
        gaps[buckets, pairs, cells] = optimum(weights) - result.lower_bound
    assert gaps[3, 0, 1] > gaps[3, 1, 1] > gaps[3, 1, 2] > max(gaps[3, 1, 3], gaps[4, 1, 2])
    assert gaps[3, 1, 3] < 0.65 * gaps[3, 0, 1]


def test_half_the_slack_is_caught(monkeypatch):
    """A tournament whose lower bound would exceed the optimum."""
    x, y = np.random.default_rng(1).normal(size=(2, 4))
    weights = np.maximum(np.rint(300 * (np.outer(x, y) - np.outer(y, x))).astype(int), 0).astype(object)
    assert additive_by_boxes(weights, buckets=4, pairs=1, cells=2).lower_bound <= optimum(weights)
    slack = additive._slack
    monkeypatch.setattr(additive, "_slack", lambda *args: slack(*args) / 2)
    assert additive_by_boxes(weights, buckets=4, pairs=1, cells=2).lower_bound > optimum(weights)


@pytest.mark.parametrize("outcome", ["fails", "wrong duals", "not a number"])
def test_the_bound_does_not_trust_the_solver(outcome, monkeypatch):
    rng = np.random.default_rng(5)

    def broken(costs, *, A_ub, b_ub, A_eq, b_eq, method):  # noqa: ARG001
        bad = [float("nan")] if outcome == "not a number" else rng.normal(size=1000) * 300
        return SimpleNamespace(
            status=4 if outcome == "fails" else 0,
            x=rng.random(len(costs)),
            ineqlin=SimpleNamespace(marginals=np.resize(bad, len(b_ub))),
            eqlin=SimpleNamespace(marginals=np.resize(bad, len(b_eq))),
        )

    monkeypatch.setattr("scipy.optimize.linprog", broken)
    for _ in range(10):
        weights = tournament(rng, 6)
        result = additive_by_boxes(weights, buckets=3, pairs=1, cells=2)
        assert result.lower_bound <= optimum(weights) <= result.cost == cost_of(weights, result.order)


@pytest.mark.parametrize("scale", [1, 10**40])
@pytest.mark.parametrize("n", [2, 5, 8, 10])
def test_the_error_is_kept(n, scale, monkeypatch):
    monkeypatch.setattr(additive, "MAX_ITEMS", 1)
    rng = np.random.default_rng(n)
    programs = 0
    for kind in ("winners", "rank"):
        weights = nonnegative(tournament(rng, n, kind, unit=6)) * scale
        pair = int((weights + weights.T).max())
        for share in (Fraction(1, 4), Fraction(1, 10)):
            error = share * n * n * pair
            try:
                result = additive_approximation(weights, error=error, most_programs=200)
            except ParameterError:
                continue
            assert result.lower_bound <= optimum(weights) <= result.cost == cost_of(weights, result.order)
            assert result.cost - result.lower_bound <= error
            programs = max(programs, result.programs)
    assert programs >= 1


def test_small_errors_take_boxes(monkeypatch):
    """An error that only several buckets and boxes can promise."""
    monkeypatch.setattr(additive, "MAX_ITEMS", 1)
    weights = nonnegative(tournament(np.random.default_rng(4), 5, "rank"))
    margin = abs(weights - weights.T).max()
    result = additive_approximation(weights, error=Fraction(int(margin)) * 7 / 5)
    assert result.programs > 1
    assert result.lower_bound <= optimum(weights) <= result.cost <= result.lower_bound + margin * 7 / 5


def test_few_items_are_solved_exactly():
    weights = tournament(np.random.default_rng(6), 9)
    result = additive_approximation(weights, error=Fraction(1, 100))
    assert (result.cost, result.lower_bound, result.programs) == (optimum(weights), optimum(weights), 0)


def test_a_table_without_margins():
    weights = (1 - np.eye(24, dtype=int)).astype(object)
    result = additive_approximation(weights, error=Fraction(1))
    assert result.cost == result.lower_bound == 276


def test_refusals():
    weights = tournament(np.random.default_rng(7), 24, "winners")
    with pytest.raises(ParameterError, match=r"error must be .* at most 10000 linear programs, .* 10\^\d+\.\d of them"):
        additive_approximation(weights, error=Fraction(600))
    with pytest.raises(ParameterError, match="error must be a finite number > 0"):
        additive_approximation(weights, error=Fraction(0))
    with pytest.raises(ParameterError, match="what rounding to 40 bits leaves"):
        additive_approximation(weights, error=Fraction(1, 10**30))


def test_the_scheme_without_the_solver(monkeypatch):
    """Parts of more than 3 items go to the additive step; the solver sees none of them."""
    monkeypatch.setattr(ptas, "MAX_ITEMS", 3)
    monkeypatch.setattr(additive, "MAX_ITEMS", 3)
    solver, step = ptas.solve_within, ptas.additive_approximation
    sizes = []
    monkeypatch.setattr(ptas, "solve_within", lambda m, **options: sizes.append(len(m)) or solver(m, **options))
    asked = []
    monkeypatch.setattr(ptas, "additive_approximation", lambda w, error: asked.append(error) or step(w, error=error))
    rng = np.random.default_rng(8)
    for n, xi in ((4, "1/2"), (5, 2), (7, 3), (12, 3)):
        weights = tournament(rng, n, "shares")
        result = near_optimal(weights, xi=xi, polynomial=True)
        assert result.lower_bound <= optimum(weights) <= result.cost <= (1 + Fraction(xi)) * result.lower_bound
    assert max(sizes, default=0) <= 3
    assert all(error.denominator == 2 for error in asked)


def test_out_of_time_and_refused_in_the_scheme():
    weights = tournament(np.random.default_rng(9), 24, "winners")
    result = near_optimal(weights, xi="1/2", polynomial=True, time_limit=0)
    assert result.certificate == "open"
    with pytest.raises(ParameterError, match="linear programs"):
        near_optimal(weights, xi="1/2", polynomial=True)

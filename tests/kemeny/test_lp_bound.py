import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.kemeny.cost import disagreement
from psephos.kemeny.effort import Effort
from psephos.kemeny.lp_bound import OrderingRelaxation, dual_bound, find_triangles
from psephos.kemeny.subset_dp import subset_dp


def whole(relaxation):
    lower = np.zeros(relaxation.pairs, dtype=np.int8)
    return lower, lower + np.int8(1)


def solved(integers):
    """The relaxation with all the triangles it wants."""
    relaxation = OrderingRelaxation(integers, Effort(60))
    while relaxation.solve() and relaxation.separate(most=1000, least=1e-6):
        pass
    return relaxation


def optimum(integers):
    """The optimum against the order 0, 1, ..., m-1."""
    return subset_dp(integers).disagreement - disagreement(integers, range(len(integers)))


@settings(deadline=None)
@given(st.data(), st.integers(3, 7), st.sampled_from([3, 10**6, 10**40]))
def test_any_duals_give_a_valid_bound(data, m, size):
    number = st.integers(-size, size)
    count = m * (m - 1) // 2
    integers = np.zeros((m, m), dtype=object)
    integers[np.triu_indices(m, 1)] = data.draw(st.lists(number, min_size=count, max_size=count))
    integers = integers - integers.T
    pair = np.zeros((m, m), dtype=np.int32)
    pair[np.triu_indices(m, 1)] = np.arange(count)
    triangle = st.lists(st.integers(0, m - 1), min_size=3, max_size=3, unique=True).map(sorted)
    triangles = data.draw(st.lists(triangle, max_size=12))
    rows = np.array([(pair[u, v], pair[v, w], pair[u, w]) for u, v, w in triangles], dtype=np.int32)
    bits = data.draw(st.integers(0, 30))
    duals = np.array([data.draw(st.integers(-(size << 31), size << 31)) for _ in triangles], dtype=object)
    lower = np.zeros(count, dtype=np.int8)
    costs = integers[np.triu_indices(m, 1)]
    bound = dual_bound(costs, rows.reshape(-1, 3), duals, bits, lower, lower + np.int8(1))
    best = optimum(integers)
    assert bound.rounded <= best
    # what the reduced costs promise about a flipped pair holds for every order
    order = data.draw(st.permutations(range(m)))
    place = np.argsort(order)
    value = disagreement(integers, order) - disagreement(integers, range(m))
    for e, (u, v) in enumerate(zip(*np.triu_indices(m, 1), strict=True)):
        flipped = place[u] > place[v]
        rise = bound.reduced[e] if flipped else -bound.reduced[e]
        if rise > 0:
            assert value << bits >= bound.value + rise


def test_find_triangles_is_complete():
    y = np.triu(np.random.default_rng(0).random((9, 9)), 1)
    expected = {
        (u, v, w)
        for u in range(9)
        for v in range(u + 1, 9)
        for w in range(v + 1, 9)
        if not -0.1 <= y[u, v] + y[v, w] - y[u, w] <= 1.1
    }
    assert {tuple(t) for t in find_triangles(y, most=10_000, least=0.1).tolist()} == expected
    assert len(find_triangles(y, most=3, least=0.1)) == 3


@pytest.mark.parametrize("factor", [1, 10**8, 10**30])
def test_bound_is_valid_and_usually_tight(factor, antisymmetric):
    tight = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        noise = antisymmetric(rng.integers(0, 10**6, (12, 12))).astype(object)
        integers = antisymmetric(rng.integers(-9, 10, (12, 12))).astype(object) * factor + noise * (factor > 1)
        relaxation = solved(integers)
        bound = relaxation.bound(*whole(relaxation), needed=optimum(integers)).rounded
        coarse = relaxation.bound(*whole(relaxation)).rounded
        best = optimum(integers)
        assert coarse <= bound <= best
        tight += bound == best
    assert tight >= 7


def test_purge_keeps_the_program(antisymmetric):
    integers = antisymmetric(np.random.default_rng(4).integers(-9, 10, (15, 15))).astype(object)
    relaxation = solved(integers)
    before = relaxation.objective
    relaxation.purge(1)
    assert relaxation.solve()
    assert relaxation.objective == pytest.approx(before, abs=1e-9)
    assert len(relaxation.rows) == len(relaxation.idle) < relaxation.cuts


def test_nothing_reaches_stdout():
    program = (
        "import numpy as np, psephos.kemeny as k\n"
        "w = np.triu(np.random.default_rng(0).integers(-9, 10, (25, 25)), 1)\n"
        "print('before'); a = k.solve(w - w.T); b = k.solve(w - w.T); print(a.status, a.method)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "before\noptimal branch_and_cut\n"
    assert run.stderr == ""


def test_heavy_imports_are_late():
    program = "import sys, psephos.kemeny as k; k.solve([[0, 1], [-1, 0]]); print('highspy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"

"""Statements of docs/proofs/central_worst_case.md: by enumeration, in exact rationals, in balls, or by drawing.

Mechanisms are restated here, not imported, so that these are checks of the page. Drawn numbers are the same in every
run, and the tolerance is at least five standard errors. Noise of ratio 1/2 or 1/4 makes losses rational, as in
``test_proofs.py``. Tables of numbers are read from the page and computed again.
"""

import functools
import itertools
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import pytest
from scipy import integrate, stats

from enumeration import all_ballots
from psephos import Ballot
from psephos.pairwise import margins_plain
from psephos.privacy.balls import ball, operator_norm_upper, order_nuclear_norm_upper
from psephos.privacy.gaussian import mu_lower

BOTH = pytest.mark.parametrize("unranked", ["last", "missing"])
ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "proofs" / "central_worst_case.md").read_text(encoding="utf-8")


def numbers(label, *, after=""):
    """The numbers of the first row of a table on the page that begins with ``label``."""
    part = PAGE[PAGE.index(after) :] if after else PAGE
    for line in part.splitlines():
        if line.startswith("    " + label + "  "):
            return [float(x) for x in re.findall(r"(?<![\w.])\d*\.?\d+(?:e\d+)?(?![\w.])", line[4 + len(label) :])]
    raise AssertionError(label)


def pairs_of(m):
    return m * (m - 1) // 2


def margins_of(ballot, m, unranked="last"):
    return margins_plain(np.array(ballot.places(m), dtype=np.uint8)[:, None], unranked=unranked).astype(np.int64)


@functools.cache
def ballot_tables(m, unranked):
    return np.unique([margins_of(ballot, m, unranked) for ballot in all_ballots(m)], axis=0)


@functools.cache
def order_tables(m):
    """S_psi of all orders, in the order of itertools.permutations."""
    return np.array([margins_of(Ballot.strict(order), m) for order in itertools.permutations(range(m))])


def antisymmetric(entries, m):
    """Tables from rows of entries u < v."""
    entries = np.atleast_2d(entries)
    tables = np.zeros((len(entries), m, m), dtype=entries.dtype)
    tables[:, *np.triu_indices(m, 1)] = entries
    return tables - tables.transpose(0, 2, 1)


def nuclear(tables):
    return np.linalg.svd(tables, compute_uv=False).sum(axis=-1)


def operator(tables):
    return np.linalg.svd(tables, compute_uv=False).max(axis=-1)


def cotangents(m):
    return [1 / math.tan((2 * k - 1) * math.pi / (2 * m)) for k in range(1, m + 1)]


def order_norm(m):
    """N_m."""
    return math.fsum(abs(c) for c in cotangents(m))


def costs(tables, m):
    """cost_A of all orders in votes, directly from the definition; shape (tables, orders)."""
    tables = np.atleast_3d(tables) if np.ndim(tables) == 3 else np.asarray(tables)[None]
    found = []
    for order in itertools.permutations(range(m)):
        first, second = zip(*itertools.combinations(order, 2), strict=True)
        found.append(tables[:, list(second), list(first)].sum(axis=1) / 2)
    return np.array(found).T


def geometric_mass(ratio, k):
    """(1 - q)/(1 + q) q^|k|."""
    return (1 - ratio) / (1 + ratio) * ratio ** abs(k)


def distance(p, q):
    """Total variation of two laws given as dictionaries."""
    return sum(abs(p.get(k, 0) - q.get(k, 0)) for k in {*p, *q}) / 2


# ------------------------------------------------------------------ the page


def test_every_test_that_the_page_names_is_there_and_each_one_here_is_named():
    """A test is named as `file::name`, later ones of the same list as `::name`; `worst_case` is this file."""
    named, path = set(), ""
    for prefix, name in re.findall(r"`([\w/.]*)::(test_\w+)`", PAGE):
        path = prefix or path
        named.add((path, name))
    here = {name for name in globals() if name.startswith("test_")}
    own = {name for path, name in named if path == "worst_case"}
    assert own == here - {"test_every_test_that_the_page_names_is_there_and_each_one_here_is_named"}
    for path, name in named:
        if path != "worst_case":
            assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), (path, name)
    theorems = [int(n) for n in re.findall(r"^\*\*Theorem (\d+)(?![\da])", PAGE, re.MULTILINE)]
    assert theorems == list(range(30, 30 + len(theorems)))  # part 1 ends with 29
    first = (ROOT / "docs" / "proofs" / "central.md").read_text(encoding="utf-8")
    assert max(int(n) for n in re.findall(r"^\*\*Theorem (\d+)", first, re.MULTILINE)) == 29


# ------------------------------------------------------------------ the nuclear norm of an order


@pytest.mark.parametrize("m", [2, 3, 4, 5, 8, 13])
def test_the_sign_matrix_is_a_sum_of_powers_of_a_signed_shift(m):
    shift = np.eye(m, k=1, dtype=int)
    shift[m - 1, 0] = -1
    powers = [np.linalg.matrix_power(shift, j) for j in range(1, m)]
    assert (np.linalg.matrix_power(shift, m) == -np.eye(m, dtype=int)).all()
    assert (shift @ shift.T == np.eye(m, dtype=int)).all()
    sign = np.triu(np.ones((m, m), dtype=int), 1)
    sign -= sign.T
    assert (sum(powers) == sign).all()
    assert (sign == margins_of(Ballot.strict(range(m)), m)).all()
    eigenvalues = np.sort(np.linalg.eigvals(sign).imag)
    assert eigenvalues == pytest.approx(np.sort(cotangents(m)), abs=1e-9)


def test_nuclear_norm_of_an_order_and_its_rational_bound():
    columns = [int(x) for x in numbers("m", after="## 2.")]
    assert numbers("N_m", after="## 2.") == pytest.approx([order_norm(m) for m in columns], abs=6e-4)
    for m in [*range(2, 60), 100, 300, 1000]:
        norm = order_norm(m)
        assert norm <= 2 / math.pi * m * (math.log(m) + 2)
        with flint.ctx.workprec(200):
            cots = [flint.arb.cot_pi(ball(Fraction(2 * k - 1, 2 * m))) for k in range(1, m + 1)]
            exact = sum((abs(x) for x in cots), flint.arb(0))
            upper = ball(order_nuclear_norm_upper(m))
            assert upper >= exact or (m == 2 and order_nuclear_norm_upper(2) >= 2)
            assert upper <= exact * (1 + flint.arb(2) ** -50)
        if m <= 60:
            sign = np.triu(np.ones((m, m)), 1)
            assert nuclear(sign - sign.T) == pytest.approx(norm, rel=1e-10)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@BOTH
def test_no_ballot_exceeds_the_nuclear_norm_of_an_order(m, unranked):
    tables = ballot_tables(m, unranked)
    norm = order_norm(m)
    assert nuclear(tables).max() == pytest.approx(norm, rel=1e-12)
    assert nuclear(2 * order_tables(m)[0]) == pytest.approx(2 * norm)
    if m < 5:
        assert nuclear(tables[:, None] - tables[None, :]).max() == pytest.approx(2 * norm, rel=1e-12)


def test_cyclic_answers_break_the_bound():
    """Tournaments up to changing the sign of an item, which leaves the norm: the first item wins all."""
    columns = [int(x) for x in numbers("m", after="**Theorem 31")]
    assert columns == [3, 4, 5, 6]
    found, bounds = [], []
    for m in columns:
        signs = np.array(list(itertools.product((-1, 1), repeat=pairs_of(m - 1))))
        answers = np.concatenate([np.ones((len(signs), m - 1), dtype=int), signs], axis=1)
        norms = nuclear(antisymmetric(answers, m))
        found.append(norms.max())
        bounds.append(m * math.sqrt(m - 1) if m % 2 == 0 else (m - 1) * math.sqrt(m))
        assert (norms <= bounds[-1] + 1e-9).all()
    assert numbers("any answers", after="**Theorem 31") == pytest.approx(found, abs=6e-4)
    assert numbers("ballots, N_m", after="**Theorem 31") == pytest.approx([order_norm(m) for m in columns], abs=6e-4)
    assert numbers("bound of the theorem", after="**Theorem 31") == pytest.approx(bounds, abs=6e-4)
    assert found[0] == pytest.approx(order_norm(3))
    assert all(x > order_norm(m) + 1 for x, m in zip(found[1:], columns[1:], strict=True))
    rng = np.random.default_rng(1)
    for m in range(7, 65):
        assert nuclear(antisymmetric(rng.choice([-1, 1], (20, pairs_of(m))), m)).max() > order_norm(m) + 0.1
    for m in (300, 1000, 10**6):
        assert m * math.sqrt((m - 1) / (2 * math.log(m))) > 2 / math.pi * m * (math.log(m) + 2)


# ------------------------------------------------------------------ the operator norm of noise


def test_the_determinant_behind_the_comparison_of_normal_processes():
    rng = np.random.default_rng(2)
    for m in (2, 3, 5):
        for _ in range(500):
            x, y = np.linalg.qr(rng.normal(size=(m, 2)))[0].T
            turn = np.linalg.qr(np.eye(m) + rng.exponential() * rng.normal(size=(m, m)))[0]
            x2, y2 = (turn @ np.array([x, y]).T).T
            a, b, c, d = x @ x2, y @ y2, x @ y2, y @ x2
            first, second = np.outer(x, y), np.outer(x2, y2)
            first, second = (first - first.T)[np.triu_indices(m, 1)], (second - second.T)[np.triu_indices(m, 1)]
            assert first @ first == pytest.approx(1)
            assert ((first - second) ** 2).sum() == pytest.approx(2 * (1 - a * b + c * d), abs=1e-12)
            gap = (4 - 2 * a - 2 * b) - 2 * (1 - a * b + c * d)
            assert gap == pytest.approx(2 * np.linalg.det(np.eye(2) - [[a, c], [d, b]]), abs=1e-12)
            assert gap > -1e-12


def test_mean_norm_of_normal_tables():
    """Five standard errors; m = 2 and 3 in closed form; the tail; rounding at sigma = 1/2, where it is coarse."""
    rng = np.random.default_rng(3)
    assert math.sqrt(2 / math.pi) == pytest.approx(0.80, abs=0.005)
    assert 2 * math.sqrt(2 / math.pi) == pytest.approx(1.60, abs=0.005)
    for m in (2, 3, 4, 8, 16, 32):
        entries = rng.normal(size=(2000, pairs_of(m)))
        norms = operator(antisymmetric(entries, m))
        error = norms.std() / math.sqrt(2000)
        assert norms.mean() + 5 * error < 2 * math.sqrt(m)
        assert (norms <= np.linalg.norm(entries, axis=1) * (1 + 1e-12)).all()
        assert (math.sqrt(pairs_of(m)) < 2 * math.sqrt(m)) is (m <= 8)
        if m <= 3:
            assert norms.mean() == pytest.approx((m - 1) * math.sqrt(2 / math.pi), abs=5 * error)
        for s in (0.0, 0.5, 1.0):
            tail = math.exp(-(s**2) / 2)
            assert (norms >= norms.mean() + 5 * error + s).mean() <= tail + 5 * math.sqrt(tail / 2000)
        rounded = operator(antisymmetric(np.rint(entries / 2), m))
        assert rounded.mean() + 5 * rounded.std() / 45 < math.sqrt(m) + math.sqrt((m - 1) * math.log(m) / 2)
        left = operator(antisymmetric(np.rint(entries / 2) - entries / 2, m))
        assert left.mean() + 5 * left.std() / 45 < math.sqrt((m - 1) * math.log(m) / 2)
        assert left.max() <= math.sqrt(pairs_of(m)) / 2
        for q in (0.5, 0.1, 0.01):
            assert (left >= math.sqrt((m - 1) * math.log(m / q) / 2)).mean() <= q


def laplace_bound(m, *, grid=4000):
    """The least value of (3) for continuous Laplace noise of scale 1."""
    theta = np.linspace(0, 1, grid + 1)[1:-1]
    return float(((math.log(m) - (m - 1) * np.log1p(-(theta**2))) / theta).min())


@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_bound_by_matrix_moments_for_signs_and_for_laplace_noise(m):
    signs = operator(antisymmetric(np.array(list(itertools.product((-1, 1), repeat=pairs_of(m)))), m))
    for theta in (0.1, 0.5, 1.0, 2.0, 5.0):
        kappa = math.log(math.cosh(theta))
        assert signs.mean() <= (math.log(m) + (m - 1) * kappa) / theta
        assert np.exp(theta * signs).mean() <= m * math.exp((m - 1) * kappa)
    # ln E exp(theta k) of P(k) ~ exp(-|k|/b), against the closed form and its bound
    k = np.arange(-4000, 4001)
    for b in (0.3, 1.0, 7.0):
        for share in (0.1, 0.5, 0.9):
            theta = share / b
            kappa = -math.log(1 - (math.sinh(theta / 2) / math.sinh(1 / (2 * b))) ** 2)
            total = np.exp(theta * k - np.abs(k) / b).sum() * math.tanh(1 / (2 * b))  # (1 - r)/(1 + r)
            assert math.log(total) == pytest.approx(kappa, rel=1e-9)
            assert kappa <= -math.log(1 - (b * theta) ** 2)
        second = (k.astype(float) ** 2 * np.exp(-np.abs(k) / b)).sum() * math.tanh(1 / (2 * b))
        assert second == pytest.approx(1 / (2 * math.sinh(1 / (2 * b)) ** 2))
        assert second <= 2 * b**2
    rng = np.random.default_rng(4)
    norms = operator(antisymmetric(rng.laplace(size=(4000, pairs_of(m))), m))
    assert norms.mean() + 5 * norms.std() / 63 < laplace_bound(m)
    stated = {2: 0.81, 3: 0.91, 4: 0.95, 8: 0.998, 16: 1.008, 32: 1.010, 128: 1.005}
    for n, ratio in stated.items():
        assert laplace_bound(n) / (2 * math.sqrt(n * math.log(n))) == pytest.approx(ratio, abs=0.006)
        assert str(ratio).lstrip("0") in PAGE


# ------------------------------------------------------------------ the nearest table


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_costs_move_by_at_most_a_quarter_of_the_two_norms(m):
    rng = np.random.default_rng(m)
    tables = antisymmetric(rng.standard_t(2, size=(200, pairs_of(m))), m)
    direct = costs(tables, m)
    assert np.allclose(direct, -np.einsum("tuv,ouv->to", tables, order_tables(m)) / 4)
    assert (np.abs(direct).max(axis=1) <= order_norm(m) / 4 * operator(tables) * (1 + 1e-12)).all()
    u, s, v = np.linalg.svd(order_tables(m)[0].astype(float))
    rank = m - m % 2
    polar = u[:, :rank] @ v[:rank]
    assert s[rank - 1] > 1e-9
    assert np.allclose(polar, -polar.T)
    assert operator(polar) == pytest.approx(1)
    assert np.abs(costs(polar, m)).max() == pytest.approx(order_norm(m) / 4)


def nearest(table, limit, start, steps=150):
    """A table with entries in [-limit, limit] whose operator norm distance is small: subgradient steps from start."""
    m = len(table)
    here, best, least = start.copy(), start.copy(), operator(start - table)
    for step in range(1, steps + 1):
        u, s, v = np.linalg.svd(here - table)
        slope = np.outer(u[:, 0], v[0])
        slope = slope - slope.T
        here = np.clip(here - s[0] / math.sqrt(step) * slope / 4, -limit, limit)
        if operator(here - table) < least:
            best, least = here.copy(), operator(here - table)
    assert best.shape == (m, m)
    return best


def random_profile(rng, m, people, unranked="last"):
    tables = ballot_tables(m, unranked)
    return tables[rng.integers(len(tables), size=people)].sum(axis=0)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_a_table_no_farther_than_the_truth_has_the_bound(m):
    """(4), for clipped tables, tables found by descent from several starts, and the truth itself."""
    rng = np.random.default_rng(10 + m)
    checked = 0
    for sigma in (0.5, 3.0, 10.0):
        for _ in range(8):
            people = 6
            margins = random_profile(rng, m, people)
            noise = antisymmetric(np.rint(sigma * rng.normal(size=pairs_of(m))), m)[0]
            table = margins + noise
            starts = [np.clip(table, -people, people), margins.astype(float)]
            for guess in [*starts, *(nearest(table, people, start, 40) for start in starts)]:
                gamma = np.abs(costs(guess - margins, m)).max()
                away, size = operator(guess - table), operator(noise)
                assert gamma <= order_norm(m) / 4 * (away + size) + 1e-9
                if away <= size:
                    checked += 1
                    assert gamma <= order_norm(m) / 2 * size + 1e-9
    assert checked > 70


@pytest.mark.parametrize("m", [3, 4])
@BOTH
def test_costs_with_missing_items_differ_by_a_constant(m, unranked):
    """(2): the weights handed to a scheme cost K(psi) + c; K counted pair by pair from the ballots."""
    rng = np.random.default_rng(20 + m)
    ballots = all_ballots(m)
    for _ in range(20):
        people = [ballots[i] for i in rng.integers(len(ballots), size=5)]
        margins = sum(margins_of(ballot, m, unranked) for ballot in people)
        constant = Fraction(0)
        direct = [Fraction(0)] * math.factorial(m)
        for ballot in people:
            place = {u: i for i, group in enumerate(ballot.groups) for u in group}
            for u, v in itertools.combinations(range(m), 2):
                if unranked == "missing" and not (u in place and v in place):
                    constant += Fraction(1, 2)
                    continue
                a, b = place.get(u, m), place.get(v, m)
                for number, order in enumerate(itertools.permutations(range(m))):
                    before = order.index(u) < order.index(v)
                    direct[number] += Fraction(1, 2) if a == b else int((a < b) is not before)
        total = costs(margins, m)[0] + len(people) * pairs_of(m) / 2
        assert [Fraction(x) for x in total] == [x + constant for x in direct]
        assert constant == 0 or unranked == "missing"


@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_an_order_good_for_the_rounded_table_is_good_for_the_truth(unranked):
    """(5) before means, for every order that a scheme could return, whatever xi it was within."""
    m, people = 4, 5
    rng = np.random.default_rng(30)
    for _ in range(60):
        margins = random_profile(rng, m, people, unranked)
        noise = antisymmetric(np.rint(rng.exponential(3) * rng.normal(size=pairs_of(m))), m)[0]
        guess = np.clip(margins + noise, -people, people)
        gamma = np.abs(costs(guess - margins, m)).max()
        shift = people * pairs_of(m) / 2
        given, true = costs(guess, m)[0] + shift, costs(margins, m)[0] + shift  # true is K + c
        assert given.min() >= 0
        for c in (0.0, true.min() / 2):  # any part of the constant may be the c of missing items
            for order in range(len(given)):
                xi = max(given[order] / given.min() - 1, 0) if given.min() > 0 else 0
                if given.min() == 0 and given[order] > 0:
                    continue
                optimum = true.min() - c
                assert true[order] - c <= (1 + xi) * optimum + xi * c + (2 + xi) * gamma + 1e-9


def test_three_items_are_clipped():
    """The norm is Euclidean, so nothing in the cube is nearer; and a grid search finds nothing nearer either."""
    rng = np.random.default_rng(31)
    for _ in range(50):
        entries = 4 * rng.normal(size=3)
        assert operator(antisymmetric(entries, 3)[0]) == pytest.approx(np.linalg.norm(entries))
        clipped = np.clip(entries, -2, 2)
        least = np.linalg.norm(clipped - entries)
        grid = np.array(list(itertools.product(np.linspace(-2, 2, 9), repeat=3)))
        away = operator(antisymmetric(grid - entries, 3))
        assert away.min() >= least - 1e-9
        assert (away[np.abs(grid - clipped).max(axis=1) > 1e-9] > least).all()


def test_moving_entries_and_leaving_a_gap():
    """Theorem 35: (b) against the least distance found, (a) with a certified norm, which lies above the true one."""
    m, people = 4, 5
    rng = np.random.default_rng(32)
    for _ in range(20):
        margins = random_profile(rng, m, people)
        noise = antisymmetric(np.rint(4 * rng.normal(size=pairs_of(m))), m)[0]
        table, size = margins + noise, operator(noise)
        best = nearest(table, people, margins.astype(float))
        v = 0.25
        moved = np.clip(np.rint(best / v) * v, -people, people)
        assert np.abs(moved - best).max() <= v
        gamma = np.abs(costs(moved - margins, m)).max()
        eta = 0.0  # best is no farther than the truth, which is all that the least distance is used for
        assert gamma <= order_norm(m) / 2 * size + order_norm(m) * eta / 4 + pairs_of(m) * v / 2
        certified = operator_norm_upper([[Fraction(float(x)) for x in row] for row in moved - table])
        assert operator(moved - table) <= float(certified) * (1 + 1e-12)
        assert float(certified) <= operator(moved - table) * 1.001 + 1e-12
        assert gamma <= float(order_nuclear_norm_upper(m)) / 4 * (float(certified) + size) + 1e-9
        skew = best + rng.normal(size=(m, m))
        assert operator((skew - skew.T) / 2 - table) <= operator(skew - table) + 1e-12


# ------------------------------------------------------------------ noise shaped by the nuclear norm


def test_loss_of_rounded_nuclear_noise_for_two_and_three_items():
    """Two items: Laplace noise of scale 2/epsilon. Three: density ~ exp(-2 lambda |x|) in R^3, by quadrature."""
    epsilon = 1.0

    def cell(z):  # P(round(X) = z), X Laplace of scale 2
        return stats.laplace.cdf(z + 0.5, scale=2 / epsilon) - stats.laplace.cdf(z - 0.5, scale=2 / epsilon)

    ratios = [cell(z) / cell(z + 2) for z in range(-20, 20)]
    assert max(ratios) == pytest.approx(math.exp(epsilon))
    assert min(ratios) == pytest.approx(math.exp(-epsilon))
    rate = 2 * epsilon / (2 * order_norm(3))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    nodes, weights = nodes / 2, weights / 2
    cube = np.array(list(itertools.product(nodes, repeat=3)))
    mass = np.prod(list(itertools.product(weights, repeat=3)), axis=1)

    def cube_mass(z):
        return mass @ np.exp(-rate * np.linalg.norm(cube + z, axis=1))

    strict = order_tables(3)[:, *np.triu_indices(3, 1)]
    tables = ballot_tables(3, "missing")[:, *np.triu_indices(3, 1)]
    largest = 0.0
    for z in [(0, 0, 0), (1, -2, 0), (3, 3, 3), (30, 30, 30), (40, -40, 40)]:
        values = [cube_mass(np.array(z) - w) for w in tables]
        largest = max(largest, max(values) / min(values))
    assert len(strict) == 6
    assert 0.99 * math.exp(epsilon) < largest <= math.exp(epsilon) * (1 + 1e-6)


@functools.cache
def gram(m, power=0):
    """Integrals of v v^T x^(a + power) exp(-x), whole numbers."""
    k, a = m // 2, 2 * (m % 2)
    entries = [flint.fmpz(math.factorial(2 * i + 2 * j + a + power)) for i in range(k) for j in range(k)]
    return flint.fmpq_mat(flint.fmpz_mat(k, k, entries))


def moment(m, power):
    """E sum x_i^power under (6): the trace of G^-1 G_power."""
    ratio = gram(m).solve(gram(m, power))
    total = sum((ratio[i, i] for i in range(m // 2)), flint.fmpq(0))
    return Fraction(int(total.p), int(total.q))


@functools.cache
def mean_operator_norm(m):
    """E ||X|| at lambda = 1: half the integral of 1 - P(max x_i <= z), a quotient of determinants, in balls."""
    k, a = m // 2, 2 * (m % 2)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    total = 0.0
    with flint.ctx.workprec(64 + 24 * m):
        whole = flint.arb_mat(gram(m)).det()
        for low in range(0, 5 * m + 45, 25):
            for x, w in zip(low + 12.5 * (nodes + 1), 12.5 * weights, strict=True):
                z = flint.arb(float(x))
                upto = {n: math.factorial(n) - z.gamma_upper(flint.arb(n + 1)) for n in range(a, 4 * k - 3 + a, 2)}
                part = flint.arb_mat(k, k, [upto[2 * i + 2 * j + a] for i in range(k) for j in range(k)])
                value = 1 - part.det() / whole
                assert value.rad() < 1e-9
                total += w * float(value.mid())
    return total / 2


def test_laws_of_three_and_four_items_from_vectors():
    """so(3) is R^3 with s = |x|; so(4) is R^3 x R^3 with s = |p| +- |q|: the law (6) without Weyl's formula."""
    weight, top = (integrate.quad(lambda s, n=n: s**n * math.exp(-2 * s), 0, 60)[0] for n in (2, 3))
    assert top / weight == pytest.approx(1.5) == pytest.approx(mean_operator_norm(3))

    # s_1 + s_2 = 2 max(|p|, |q|), so for |q| < |p| the density of (|p|, |q|) is ~ p^2 q^2 exp(-4 p)
    top = Fraction(7, 12) * Fraction(math.factorial(6), 4**7)  # integral of (p + q) p^2 q^2 exp(-4 p)
    assert top / (Fraction(1, 3) * Fraction(math.factorial(5), 4**6)) == Fraction(21, 8)
    assert mean_operator_norm(4) == pytest.approx(21 / 8)
    rng = np.random.default_rng(40)
    for _ in range(20):  # the claim about so(4)
        p, q = rng.normal(size=(2, 3))
        plus, minus = p + q, p - q
        table = antisymmetric(np.array([*plus, minus[2], -minus[1], minus[0]]), 4)
        values = np.linalg.svd(table[0], compute_uv=False)
        a, b = np.linalg.norm(p), np.linalg.norm(q)
        assert values == pytest.approx([a + b, a + b, abs(a - b), abs(a - b)])


@pytest.mark.parametrize("m", [4, 5, 6])
def test_singular_values_against_weighted_random_tables(m):
    """A direction has a density ~ ||.||_*^-D on the sphere: normal tables g with the weights (|g|/||g||_*)^D."""
    rng = np.random.default_rng(50 + m)
    pairs = pairs_of(m)
    entries = rng.normal(size=(60_000, pairs))
    tables = antisymmetric(entries, m)
    values = np.linalg.svd(tables, compute_uv=False)
    norms = values.sum(axis=1)
    weights = (np.linalg.norm(entries, axis=1) / norms) ** pairs
    weights /= weights.sum()
    effective = 1 / (weights**2).sum()
    assert effective > 10_000
    for statistic, exact in (
        (pairs * values[:, 0] / norms, mean_operator_norm(m)),
        (pairs * (pairs + 1) * (values[:, ::2] ** 2).sum(axis=1) / norms**2, float(moment(m, 2)) / 4),
        (pairs * (pairs + 1) * entries[:, 0] ** 2 / norms**2, float(moment(m, 2)) / (4 * pairs)),
        (pairs * (pairs + 1) * entries[:, 0] * entries[:, 1] / norms**2, 0.0),
        (pairs * (pairs + 1) * entries[:, 0] * entries[:, -1] / norms**2, 0.0),
    ):
        mean = weights @ statistic
        error = math.sqrt((weights**2) @ (statistic - mean) ** 2)
        assert abs(mean - exact) < 5 * error + 1e-9


def test_the_group_with_both_determinants_is_needed():
    block = np.array([[0.0, 1.0], [-1.0, 0.0]])
    rng = np.random.default_rng(60)
    for m in (2, 4):
        blocks = np.kron(np.diag(np.arange(1.0, m // 2 + 1)), block)
        signs, householder = {1: set(), -1: set()}, set()
        for _ in range(60):
            turn, triangle = np.linalg.qr(rng.normal(size=(m, m)))
            householder.add(round(np.linalg.det(turn)))
            turn = turn * np.sign(np.diag(triangle))  # what Gram-Schmidt would have given
            x = turn @ blocks @ turn.T
            pfaffian = x[0, 1] if m == 2 else x[0, 1] * x[2, 3] - x[0, 2] * x[1, 3] + x[0, 3] * x[1, 2]
            signs[round(np.linalg.det(turn))].add(float(np.sign(pfaffian)))
        assert signs == {1: {1.0}, -1: {-1.0}}
        assert householder == {-1}  # m - 1 reflections: without the signs the trap of theorem 38


@pytest.mark.parametrize(("m", "points"), [(2, [3]), (4, [1, 5]), (5, [2, 7]), (6, [1, 4, 9]), (7, [3, 5, 11])])
def test_sequential_densities_multiply_to_the_joint_density(m, points):
    """In rationals, without the factors x^a exp(-x): traces k, k - 1, ..., and det(v)^2/det G as the product."""
    k = m // 2
    start = gram(m)
    left = start.inv()
    product = flint.fmpq(1)
    vectors = [flint.fmpq_mat(flint.fmpz_mat(k, 1, [x ** (2 * i) for i in range(k)])) for x in points]
    for j, v in enumerate(vectors):
        trace = left * start
        assert sum((trace[i, i] for i in range(k)), flint.fmpq(0)) == k - j
        assert left * start * left == left
        moved = left * v
        q = (v.transpose() * moved)[0, 0]
        assert q > 0
        product *= q
        left = left - moved * moved.transpose() * (1 / q)
    assert left == flint.fmpq_mat(k, k)
    vandermonde = math.prod(y**2 - x**2 for x, y in itertools.combinations(points, 2))
    assert product == flint.fmpq(vandermonde**2) / start.det()
    flat = flint.fmpq_mat(k, k, [vectors[j][i, 0] for i in range(k) for j in range(k)])
    assert flat.det() == vandermonde


def test_gram_schmidt_turns_with_its_columns():
    """Of U g it is U times that of g, so its law is invariant; both determinants occur."""

    def gram_schmidt(columns):
        found = []
        for x in columns.T:
            x = x - sum((x @ y) * y for y in found)
            found.append(x / np.linalg.norm(x))
        return np.array(found).T

    rng = np.random.default_rng(61)
    signs = Counter()
    for _ in range(200):
        g, turn = rng.normal(size=(4, 4)), gram_schmidt(rng.normal(size=(4, 4)))
        assert np.allclose(gram_schmidt(turn @ g), turn @ gram_schmidt(g))
        signs[round(np.linalg.det(turn))] += 1
    assert min(signs[1], signs[-1]) > 60  # of 200, fair: 5.6 standard deviations


def test_reflections_make_a_haar_matrix():
    """H(q)(1 + O') and the algebra behind it, and means of traces of the product, which are those of Haar matrices."""
    rng = np.random.default_rng(63)

    def reflection(q):
        w = q - np.eye(len(q))[0]
        return np.eye(len(q)) - 2 * np.outer(w, w) / (w @ w)

    def product(m):
        whole = np.eye(m)
        whole[m - 1, m - 1] = rng.choice([-1, 1])
        for n in range(2, m + 1):
            q = rng.normal(size=n)
            step = np.eye(m)
            step[m - n :, m - n :] = reflection(q / np.linalg.norm(q))
            whole = step @ whole
        return whole

    for m in (2, 4, 5):
        blocks = np.kron(np.diag([*range(1, m // 2 + 1)]), [[0.0, 1.0], [-1.0, 0.0]])
        blocks = np.pad(blocks, (0, m % 2))
        flip = np.eye(m)
        flip[m - 1, m - 1] = -1
        signed = blocks.copy()
        if m % 2 == 0:
            signed[m - 2 :, m - 2 :] *= -1
        assert (flip @ blocks @ flip == signed).all()
        q = rng.normal(size=m)
        q /= np.linalg.norm(q)
        h, x = reflection(q), antisymmetric(rng.normal(size=pairs_of(m)), m)[0]
        assert np.allclose(h[:, 0], q)
        assert np.allclose(h @ h, np.eye(m))
        w = q - np.eye(m)[0]
        z = x @ w
        assert np.allclose(h @ x @ h, x + 2 / (w @ w) * (np.outer(w, z) - np.outer(z, w)))
    draws = np.array([product(4) for _ in range(8000)])
    traces, squares = np.trace(draws, axis1=1, axis2=2), np.einsum("nij,nji->n", draws, draws)
    for values, mean in ((traces, 0), (traces**2, 1), (traces**4, 3), (squares, 1), (np.linalg.det(draws), 0)):
        assert abs(values.mean() - mean) < 5 * values.std() / math.sqrt(8000)


def points_beyond(m, t):
    """The mean number of x_i beyond t, and the mean of their excess over t, from incomplete gamma functions."""
    k, a = m // 2, 2 * (m % 2)
    with flint.ctx.workprec(64 + 24 * m):
        inverse = flint.arb_mat(gram(m).inv())
        t = flint.arb(t)
        number = excess_sum = flint.arb(0)
        for i, j in itertools.product(range(k), repeat=2):
            upper = [t.gamma_upper(flint.arb(2 * i + 2 * j + a + 1 + more)) for more in (0, 1)]
            number += inverse[i, j] * upper[0]
            excess_sum += inverse[i, j] * (upper[1] - t * upper[0])
        return float(number.mid()), float(excess_sum.mid())


def point_bound(m):
    """Bound 4 of theorem 40 at its best t, by halving."""
    low, high = 0.0, 8.0 * m
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if points_beyond(m, middle)[0] > 1 else (low, middle)
    return (low + points_beyond(m, low)[1]) / 2


def size_bound(m):
    n = 2 * (m // 2) - 1
    p = n + 2 * (m % 2)
    return (math.sqrt(n) + math.sqrt(p)) ** 2 / 2 + math.sqrt((n + p) * math.log(n))


def test_moments_of_nuclear_noise_and_the_table():
    """E ||X||_* = D exactly, from (6); variances of entries against the exact rationals; the last rows of the table."""
    for m in range(2, 20):
        assert moment(m, 1) == pairs_of(m)
    columns = [int(x) for x in numbers("m", after="**Theorem 40")]
    nuclear_sd = [2 * order_norm(m) * math.sqrt(moment(m, 2) / (4 * pairs_of(m))) for m in columns]
    laplace_sd = [2 * math.sqrt(2) * pairs_of(m) for m in columns]
    assert numbers("sd of an entry, nuclear") == pytest.approx(nuclear_sd, rel=6e-4)
    assert numbers("the same, Laplace") == pytest.approx(laplace_sd, rel=6e-4)
    assert moment(2, 2) / 4 == Fraction(1, 2)  # Laplace noise of scale 1/2 has the variance 1/2
    assert all(a <= b * (1 + 1e-12) for a, b in zip(nuclear_sd, laplace_sd, strict=True))
    assert numbers("bound 3, first form") == pytest.approx([size_bound(m) for m in columns], abs=6e-3)
    for m in range(2, 400):
        assert size_bound(m) <= 2 * m - 2 + math.sqrt((2 * m - 2) * math.log(m)) + 1e-9
        n = 2 * (m // 2) - 1
        assert math.sqrt(math.log(n) / (2 * m - 2)) <= 0.5
        assert n + n + 2 * (m % 2) == 2 * m - 2


@pytest.mark.slow
def test_mean_operator_norm_of_nuclear_noise():
    columns = [int(x) for x in numbers("m", after="**Theorem 40")]
    found = [mean_operator_norm(m) for m in columns]
    assert numbers("E ||X||", after="**Theorem 40") == pytest.approx(found, abs=6e-4)
    assert mean_operator_norm(2) == pytest.approx(0.5)
    assert mean_operator_norm(5) == pytest.approx(495 / 128)
    assert all(x <= size_bound(m) for x, m in zip(found, columns, strict=True))
    second = [point_bound(m) for m in columns]
    assert numbers("bound 4") == pytest.approx(second, abs=6e-4)
    assert all(x <= y * (1 + 1e-9) <= 1.02 * x for x, y in zip(found, second, strict=True))
    for t in (0.0, 3.0, 15.0, 40.0):
        assert (t + points_beyond(6, t)[1]) / 2 >= point_bound(6) - 1e-12
    rng = np.random.default_rng(62)  # the rounding term of theorem 41: entries at most 1/2, dependent or not
    for m in (2, 3, 6, 11):
        shape = (500, pairs_of(m))
        errors = np.concatenate([rng.uniform(-0.5, 0.5, shape), rng.choice([-0.5, 0.5], shape)])
        assert operator(antisymmetric(errors, m)).max() <= math.sqrt(pairs_of(m)) / 2 + 1e-12


@pytest.mark.parametrize("m", [2, 3, 4, 5, 8, 9])
def test_the_density_of_points_is_below_the_laguerre_one(m):
    """v^T G^-1 v against the kernel of all polynomials of degree below n, in rationals at whole x."""
    k, a = m // 2, 2 * (m % 2)
    n = 2 * k - 1
    entries = [flint.fmpz(math.factorial(i + j + a)) for i in range(n) for j in range(n)]
    laguerre = flint.fmpq_mat(flint.fmpz_mat(n, n, entries)).inv()
    ours = gram(m).inv()
    for x in [*range(0, 12), 15, 20, 40]:
        v = flint.fmpq_mat(flint.fmpz_mat(k, 1, [x ** (2 * i) for i in range(k)]))
        w = flint.fmpq_mat(flint.fmpz_mat(n, 1, [x**i for i in range(n)]))
        assert (v.transpose() * ours * v)[0, 0] <= (w.transpose() * laguerre * w)[0, 0]


@pytest.mark.parametrize("a", [0, 2])
def test_exponential_moments_of_the_laguerre_ensemble(a):
    """E tr exp(theta G G*), a rational for rational theta, against the cited bound, n up to 20."""
    for n in range(1, 21):
        p = n + a
        entries = [flint.fmpz(math.factorial(i + j + a)) for i in range(n) for j in range(n)]
        base = flint.fmpq_mat(flint.fmpz_mat(n, n, entries))
        for theta in (Fraction(1, 100), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)):
            scale = flint.fmpq(theta.denominator, theta.denominator - theta.numerator)  # 1/(1 - theta)
            moved = flint.fmpq_mat(n, n, [base[i, j] * scale ** (i + j + a + 1) for i in range(n) for j in range(n)])
            ratio = base.solve(moved)
            total = sum((ratio[i, i] for i in range(n)), flint.fmpq(0))
            exponent = float(theta) * (math.sqrt(n) + math.sqrt(p)) ** 2 + float(theta) ** 2 * (n + p)
            assert math.log(int(total.p)) - math.log(int(total.q)) <= math.log(n) + exponent + 1e-12


def test_appending_bits_is_exact_and_starting_again_is_not():
    """Y = -2 ln(1 - U), all strings of up to 14 bits: who stops early is right, and the masses close in on the law.

    Beginning anew after five open bits would give the law of the strings that are easy, another one.
    """

    def value(u):
        return -2 * ball(1 - u).log()

    def decide(number, n):
        low, high = Fraction(number, 2**n), Fraction(number + 1, 2**n)
        if high == 1:
            return None
        with flint.ctx.workprec(80):
            k = round(float(value((low + high) / 2).mid()))
            fits = value(low) > ball(Fraction(2 * k - 1, 2)) and value(high) < ball(Fraction(2 * k + 1, 2))
        return k if fits else None

    decided, open_strings, early = Counter(), [(0, 1), (1, 1)], None
    for n in range(1, 15):
        still = []
        for number, _ in open_strings:
            k = decide(number, n)
            if k is None:
                still.append((number, n))
                continue
            decided[k] += Fraction(1, 2**n)
            for end in (number * 2, number * 2 + 1):  # what longer strings would have said
                assert decide(end, n + 1) == k
        if n == 5:
            early = dict(decided)
        open_strings = [(2 * number + bit, n + 1) for number, _ in still for bit in (0, 1)]
    left = 1 - sum(decided.values())
    assert left < Fraction(1, 100)
    exact = {k: math.exp(-max(2 * k - 1, 0) / 4) - math.exp(-(2 * k + 1) / 4) for k in range(12)}
    for k, mass in exact.items():
        assert float(decided[k]) <= mass + 1e-12
        assert mass <= float(decided[k] + left) + 1e-12
    total = sum(early.values())
    again = {k: float(mass / total) for k, mass in early.items()}
    assert distance(again, exact) > 0.05


# ------------------------------------------------------------------ the raw table, solved exactly


@pytest.mark.parametrize("m", [3, 4])
def test_exact_solving_loses_no_more_than_the_largest_noise(m):
    """All signs of the noise, times 1, 2 or 3: exact means; and the means of the other quantities on the page."""
    signs = np.array(list(itertools.product((-1, 1), repeat=pairs_of(m))))
    rng = np.random.default_rng(70)
    for size in (1, 2, 3):
        noise = antisymmetric(size * signs, m)
        largest = costs(noise, m).max(axis=1).mean()
        assert largest <= order_norm(m) / 4 * operator(noise).mean() + 1e-12
        for _ in range(10):
            margins = random_profile(rng, m, 4)
            true = costs(margins, m)[0]
            seen = true + costs(noise, m)
            worst = np.where(seen == seen.min(axis=1, keepdims=True), true, -np.inf).max(axis=1)
            assert worst.mean() - true.min() <= largest + 1e-12


def test_bounds_on_the_largest_noise_of_an_order():
    """Drawn means, five standard errors below the bounds; rounding in the normal case at sigma = 1/2 and 3."""
    rng = np.random.default_rng(71)
    for m in (3, 4, 5):
        pairs, log = pairs_of(m), math.log(math.factorial(m))
        for sigma in (0.5, 3.0):
            noise = antisymmetric(np.rint(sigma * rng.normal(size=(4000, pairs))), m)
            largest = costs(noise, m).max(axis=1)
            bound = sigma / 2 * math.sqrt(2 * pairs * log) + math.sqrt(pairs * log / 8)
            assert largest.mean() + 5 * largest.std() / 63 < bound
        b = 2.0
        steps = rng.geometric(1 - math.exp(-1 / b), size=(2, 4000, pairs))
        largest = costs(antisymmetric(steps[0] - steps[1], m), m).max(axis=1)
        theta = np.linspace(0, 1 / b, 2001)[1:-1]
        bound = ((log - pairs * np.log1p(-((b * theta) ** 2))) / (2 * theta)).min()
        assert largest.mean() + 5 * largest.std() / 63 < bound


# ------------------------------------------------------------------ the lower bound


@functools.cache
def inversions(m):
    """How many orders of m items have 0, 1, ..., D inversions."""
    row = [1]
    for i in range(2, m + 1):
        sums = list(itertools.accumulate(row))
        length = len(row) + i - 1
        row = [
            (sums[min(k, len(sums) - 1)] if k >= 0 else 0) - (sums[min(k - i, len(sums) - 1)] if k >= i else 0)
            for k in range(length)
        ]
    return row


def test_orders_within_a_distance():
    for m in (2, 3, 4, 5, 6):
        counted = Counter(sum(a > b for a, b in itertools.combinations(o, 2)) for o in itertools.permutations(range(m)))
        assert inversions(m) == [counted[k] for k in range(pairs_of(m) + 1)]
    for m in (2, 3, 5, 10, 30):
        for r, within in enumerate(itertools.accumulate(inversions(m))):
            assert within <= math.comb(m - 1 + r, r)


def test_size_of_the_packing():
    """ln(|A|/2) > 4 (m - 1)/5 from the binomial numbers, and from the form used in the proof."""
    assert 30 / (math.e**2 * (1 + 30 / 40)) > math.exp(0.84)
    assert 0.84 * 29 + math.log(30 / math.e) > math.log(2) + 0.8 * 29
    for m in [*range(30, 200), 1000]:
        r = pairs_of(m) // 40
        orders = Fraction(math.factorial(m), math.comb(m - 1 + 2 * r, 2 * r))
        log = math.log(orders.numerator) - math.log(orders.denominator)
        form = math.log(m / math.e) + (m - 1) * math.log(m / (math.e**2 * (1 + m / 40)))
        assert log >= form > math.log(2) + 0.8 * (m - 1)
        assert math.comb(m - 1 + 2 * r, m - 1) <= (math.e * (m - 1 + 2 * r) / (m - 1)) ** (m - 1) if m < 100 else True
    m = 5  # balls of radius r around orders at distance > 2 r are disjoint; greedy choice reaches the count
    orders = list(itertools.permutations(range(m)))

    def apart(p, q):
        place = {u: i for i, u in enumerate(q)}
        return sum(place[u] > place[v] for u, v in itertools.combinations(p, 2))

    for r in (1, 2):
        chosen = []
        for order in orders:
            if all(apart(order, other) > 2 * r for other in chosen):
                chosen.append(order)
        assert len(chosen) >= math.factorial(m) / math.comb(m - 1 + 2 * r, 2 * r)
        assert all(sum(apart(o, c) <= r for c in chosen) <= 1 for o in orders)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_error_of_the_exponential_mechanism(m):
    rng = np.random.default_rng(72)
    for beta in (0.01, 0.1, 1.0, 5.0):
        for _ in range(10):
            cost = costs(random_profile(rng, m, 5), m)[0]
            weights = np.exp(-beta * (cost - cost.min()))
            assert (weights @ cost) / weights.sum() <= cost.min() + math.log(math.factorial(m)) / beta + 1e-12


# ------------------------------------------------------------------ two stages: counts


def two_stage_losses(m, classes_limits, ratio):
    """The largest loss of each class pattern for two items, as an exact ratio of masses, over outcomes and neighbours.

    Noise of ratio ``ratio`` stands for the scale 2 b and ratio^2 for b. N = 3 people, margins -3, ..., 3.
    """
    assert m == 2
    low, high = classes_limits
    largest = Fraction(0)
    margins = range(-3, 4)
    for w, other in itertools.product(margins, repeat=2):
        if abs(w - other) > 2:
            continue
        for first, second in itertools.product(range(-9, 10), repeat=2):
            strong = first > high or first < low
            fine = ratio**2 if strong else ratio
            # the strong direction is v over u for first < low; V = -W + noise there
            sign = -1 if first < low else 1
            loss = (
                geometric_mass(ratio, first - w) * geometric_mass(fine, second - sign * w)
                / (geometric_mass(ratio, first - other) * geometric_mass(fine, second - sign * other))
            )  # fmt: skip
            largest = max(largest, loss)
    return largest


def test_loss_of_the_two_stages_in_rationals():
    """exp(-1/(2 b)) = 1/2: stage 1 loses 2 D/(2 b), stage 2 2 D/b, so exp(3 D/b) = 2^(6 D); attained by strong pairs.

    Pairs are independent given the margins, and a reversed strict ballot moves each by 2, so D pairs have the product.
    """
    ratio = Fraction(1, 2)
    assert two_stage_losses(2, (-2, 2), ratio) == 2**6
    assert two_stage_losses(2, (-99, 99), ratio) == 2**4  # all balanced
    for pairs in (1, 3, 6):  # normal noise: mu^2 of two stages, with any number of strong pairs
        sigma = Fraction(7, 3)
        parts = [(pairs + 4 * strong + (pairs - strong)) / sigma**2 for strong in range(pairs + 1)]
        assert max(parts) == parts[-1] == 5 * pairs / sigma**2


def published_sigma(pairs, epsilon, delta):
    return 16 * math.sqrt(pairs) / epsilon * math.sqrt(2 * math.log(20 / delta))


def gaussian_delta(mu, epsilon):
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


def test_published_constants_are_within_their_shares():
    for pairs, epsilon in itertools.product((1, 3, 28, 4950), (1.0, 0.3, 0.001)):
        a = epsilon / (32 * pairs)
        first, second = -2 * pairs * math.log1p(-a / 2), -2 * pairs * math.log1p(-a)
        assert first <= epsilon / 16
        assert second <= epsilon / 8
        assert first + second == pytest.approx(3 * epsilon / 32, rel=0.03)
        assert -1 / math.log1p(-a) <= 1 / a  # scales for theorem 49
        assert -1 / math.log1p(-a / 2) <= 2 / a
        for delta in (0.4999, 0.1, 1e-3, 1e-9):
            sigma = published_sigma(pairs, epsilon, delta)
            assert 2 * math.sqrt(pairs) * math.sqrt(2 * math.log(1.25 / (delta / 16))) / (epsilon / 8) == pytest.approx(
                sigma
            )
            for mu in (2 * math.sqrt(pairs) / sigma, math.sqrt(pairs) / sigma):  # stage 2, stage 1
                assert gaussian_delta(mu, epsilon / 8) <= delta / 16
            assert gaussian_delta(math.sqrt(5 * pairs) / sigma, epsilon / 4) <= delta / 8
    x = np.linspace(0, 0.5, 101)
    assert (-np.log1p(-x) <= 2 * x).all()


def test_exact_constants_save_what_the_table_says():
    requests = [(1, "1e-2"), (1, "1e-6"), (1, "1e-9"), ("0.1", "1e-6"), ("0.1", "1e-9")]
    mu = [float(mu_lower(Fraction(e), Fraction(d))) for e, d in requests]
    published = [published_sigma(1, float(e), float(d)) for e, d in requests]
    exact = [math.sqrt(5) / x for x in mu]
    assert numbers("mu(epsilon, delta)") == pytest.approx(mu, abs=6e-5)
    assert numbers("published sigma/sqrt(D)") == pytest.approx(published, rel=1e-3)
    assert numbers("exact sigma/sqrt(D)") == pytest.approx(exact, rel=1e-3)
    savings = [a / b for a, b in zip(published, exact, strict=True)]
    assert numbers("saving", after="published sigma/sqrt(D)") == pytest.approx(savings, abs=0.06)
    assert math.sqrt(5) / published[1] == pytest.approx(0.0241, abs=6e-5)
    assert mu[1] == pytest.approx(0.2367, abs=6e-5)
    for pairs in (28, 120):  # Laplace scales: 1/ln(1/(1 - a)) against 3 D/epsilon
        assert -1 / math.log1p(-1 / (32 * pairs)) / (3 * pairs) == pytest.approx(32 / 3, rel=1e-3)


def test_intervals_on_the_quiet_event():
    """N = 64: all margins, all noises that the event allows, in rationals."""
    people = 64
    w = np.arange(-people, people + 1)[:, None]
    stage1 = np.arange(-(2 * people // 32), 2 * people // 32 + 1)[None, :]
    units = 32 * 2 * people  # everything over this: w is (N + W)/(2 N)
    share, noisy = 32 * (people + w) + 0 * stage1, 32 * (people + w + stage1)
    strong, balanced = noisy > 7 * units // 8, (noisy <= 7 * units // 8) & (noisy >= units // 8)
    assert (share[strong] > 27 * units // 32).all()
    assert share[strong].min() - 27 * units // 32 <= 32  # the next margin would do
    assert share[balanced].min() == 3 * units // 32
    assert share[balanced].max() == 29 * units // 32
    margins = (w + 0 * stage1)[strong]
    for z in (-(people // 32), people // 32):  # V/N in units of 1/(32 N)
        assert (32 * (margins + z) > 21 * people).all()
        assert (32 * (margins + z) <= 33 * people).all()
    for z in (-(2 * people // 32), 2 * people // 32):
        sides = share[balanced] + 32 * z
        assert sides.min() >= units // 16
        assert sides.max() <= 15 * units // 16


LAPLACE_EXACT, LAPLACE_PUBLISHED, NORMAL = range(3)


def thresholds(m, people, epsilon, delta):
    """The T of theorem 48, as in the rows of its table."""
    pairs = pairs_of(m)
    mu = float(mu_lower(Fraction(epsilon), Fraction(delta)))
    eps, dlt = float(Fraction(epsilon)), float(Fraction(delta))
    x = stats.norm.isf(1 / (4 * pairs * people))
    sigmas = math.sqrt(5 * pairs) / mu, published_sigma(pairs, eps, dlt)
    values = [
        96 * pairs * math.log(4 * pairs * people / (1 + math.exp(-eps / (3 * pairs)))),
        96 * pairs * math.log(4 * pairs * people),
        1024 * pairs * math.log(4 * pairs * people / (2 - 1 / (32 * pairs))),
        *(32 * x * sigma * eps / (1 - 16 / people) for sigma in sigmas),
    ]
    return [math.ceil(v) for v in values]


def excess(kind, m, people, t, sigma_epsilon=None):
    """P(not E) at this t with epsilon = t/N, by the union over the 2 D integer laws, worst classes."""
    pairs, epsilon = pairs_of(m), t / people
    k0, k1 = people // 32 + 1, people // 16 + 1
    if kind == LAPLACE_EXACT:
        fine, coarse = (math.exp(-epsilon / (3 * pairs * f)) for f in (1, 2))
    elif kind == LAPLACE_PUBLISHED:
        fine, coarse = 1 - epsilon / (32 * pairs), 1 - epsilon / (64 * pairs)
    else:
        sigma = sigma_epsilon / epsilon
        fine, coarse = (2 * stats.norm.sf((k - 0.5) / s) for k, s in ((k0, sigma), (k1, 2 * sigma)))
        return pairs * coarse + pairs * max(fine, coarse)
    tails = [2 * q**k / (1 + q) for q, k in ((fine, k0), (coarse, k1))]
    return pairs * tails[1] + pairs * max(tails)


def test_table_of_thresholds_and_the_probability_behind_them():
    for m, people in ((8, 10**6), (12, 10**6), (16, 10**6), (16, 10**9), (50, 10**9)):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"    {m}, 1e{len(str(people)) - 1} "))
        assert [int(x) for x in re.findall(r"\b\d{4,}\b", row)] == thresholds(m, people, 1, "1e-6")
    assert 1.6e9 < 81 * (288 * math.log(6e6) + 1) ** 2 < 81 * (thresholds(3, 10**6, 1, "1e-6")[0] + 1) ** 2
    for m, people in ((2, 40), (2, 10**4), (3, 10**5), (8, 10**6), (16, 10**7), (50, 10**9)):
        pairs = pairs_of(m)
        x = stats.norm.isf(1 / (4 * pairs * people))
        assert x <= math.sqrt(2 * math.log(2 * pairs * people))
        for product in (0.5, math.sqrt(5 * pairs) / 0.2367, published_sigma(pairs, 1, 1e-6)):  # sigma epsilon
            t = 32 * x * product / (1 - 16 / people)
            assert excess(NORMAL, m, people, t, product) <= 1 / people * (1 + 1e-9)
        t = 96 * pairs * math.log(4 * pairs * people)
        assert excess(LAPLACE_EXACT, m, people, t) <= 1 / people
        for _ in range(50):  # the first form, at the epsilon for which t is its own threshold
            t = 96 * pairs * math.log(4 * pairs * people / (1 + math.exp(-t / people / (3 * pairs))))
        assert excess(LAPLACE_EXACT, m, people, t) <= 1 / people * (1 + 1e-9)
        t = 1024 * pairs * math.log(4 * pairs * people / (2 - 1 / (32 * pairs)))
        if t <= people:  # epsilon <= 1
            assert excess(LAPLACE_PUBLISHED, m, people, t) <= 1 / people
    # half of the threshold would not do: the constants are not slack
    assert excess(LAPLACE_EXACT, 8, 10**6, 0.99 * 47_950) > 10**-6
    assert excess(NORMAL, 8, 10**6, 0.99 * 9009, math.sqrt(140) / 0.2367) > 10**-6


def share_costs(shares, m):
    """cost_A for matrices of shares: what stands before pays A of the other way round."""
    return np.array(
        [sum(shares[v, u] for u, v in itertools.combinations(order, 2)) for order in itertools.permutations(range(m))]
    )


def stage_two(margins, people, classes, noise):
    """A and W0 from the classes (1: u over v, -1: v over u, 0: balanced) and stage-2 noise per pair."""
    m = len(margins)
    a, w0, constant = np.zeros((m, m)), np.zeros((m, m)), 0.0
    for (u, v), kind, z in zip(itertools.combinations(range(m), 2), classes, noise, strict=True):
        if kind:
            s, r = (u, v) if kind > 0 else (v, u)
            a[s, r] = (margins[s, r] + z) / people
            w0[s, r] = margins[s, r] / people
            constant += 0.5 + margins[r, s] / (2 * people)
        else:
            a[u, v] = 0.5 + (margins[u, v] + z) / (2 * people)
            a[v, u] = 1 - a[u, v]
            w0[u, v], w0[v, u] = (0.5 + margins[x, y] / (2 * people) for x, y in ((u, v), (v, u)))
    return a, w0, constant


@pytest.mark.parametrize("m", [3, 4])
@BOTH
def test_costs_split_off_what_strong_pairs_cannot_avoid(m, unranked):
    """K = B + cost_W0 for any classes whatever."""
    rng = np.random.default_rng(80)
    for _ in range(30):
        people = 7
        margins = random_profile(rng, m, people, unranked)
        classes = rng.integers(-1, 2, size=pairs_of(m))
        _, w0, constant = stage_two(margins, people, classes, np.zeros(pairs_of(m)))
        assert constant >= 0
        assert np.allclose(share_costs(0.5 + margins / (2 * people), m), constant + share_costs(w0, m))


@pytest.mark.parametrize("m", [3, 4])
def test_error_of_counts_on_small_tables(m):
    """On the quiet event, for every order a scheme could return and the xi it is within."""
    rng = np.random.default_rng(81)
    kinds = Counter()
    for number in range(60):
        people = 640
        draws = rng.integers(len(order_tables(m)), size=3)
        weights = rng.multinomial(people, [0.9, 0.07, 0.03] if number % 2 else [0.5, 0.3, 0.2])
        margins = np.tensordot(weights, order_tables(m)[draws], axes=1)
        pairs = list(itertools.combinations(range(m), 2))
        h = [0.5 + (margins[u, v] + rng.integers(-40, 41)) / (2 * people) for u, v in pairs]
        classes = [1 if x > 7 / 8 else -1 if x < 1 / 8 else 0 for x in h]
        kinds.update(classes)
        noise = [rng.integers(-20, 21) if kind else rng.integers(-40, 41) for kind in classes]
        a, w0, constant = stage_two(margins, people, classes, noise)
        sums = (a + a.T)[np.triu_indices(m, 1)]
        assert (a >= 0).all()
        assert ((sums >= 0.5) & (sums <= 2)).all()
        given, true = share_costs(a, m), share_costs(0.5 + margins / (2 * people), m)
        gamma = np.abs(given - share_costs(w0, m)).max()
        for order in range(len(given)):
            if given.min() > 0 or given[order] == 0:
                xi = given[order] / given.min() - 1 if given.min() > 0 else 0.0
                assert true[order] <= (1 + xi) * true.min() - xi * constant + (2 + xi) * gamma + 1e-9
    assert min(kinds.values()) > 10


def test_bounds_on_the_error_of_the_second_stage():
    """Drawn E Gamma for classes all strong, all balanced and mixed, five standard errors below the bounds."""
    rng = np.random.default_rng(82)
    m, people, draws = 4, 100, 3000
    pairs, log = pairs_of(m), math.log(2 * math.factorial(m))
    signs = np.array([[1 if o.index(u) > o.index(v) else 0 for u, v in itertools.combinations(range(m), 2)]
                      for o in itertools.permutations(range(m))])  # fmt: skip
    for classes in ((1,) * 6, (0,) * 6, (1, 0, -1, 0, 1, -1)):
        strong = np.array(classes) != 0
        # what an order pays per unit of noise: strong u over v, if v stands first; balanced, plus or minus
        pays = np.where(strong, np.where(np.array(classes) > 0, signs, 1 - signs), 2 * signs - 1)
        scale = np.where(strong, 1, 2)

        def gamma(noise, pays=pays, scale=scale):
            return np.abs((noise / (people * scale)) @ pays.T).max(axis=1)

        sigma, b = 3.0, 4.0
        normal = gamma(np.rint(sigma * scale * rng.normal(size=(draws, pairs))))
        bound = sigma / people * math.sqrt(2 * pairs * log) + pairs / (2 * people)
        assert normal.mean() + 5 * normal.std() / math.sqrt(draws) < bound
        steps = [rng.geometric(1 - np.exp(-1 / (b * scale)), size=(draws, pairs)) for _ in range(2)]
        laplace = gamma(steps[0] - steps[1])
        y = np.linspace(0, 1, 1001)[1:-1]
        bound = (b / people * (log - pairs * np.log1p(-(y**2))) / y).min()
        assert laplace.mean() + 5 * laplace.std() / math.sqrt(draws) < bound
    y = np.linspace(0.01, 0.5, 50)
    assert (-np.log1p(-(y**2)) <= 4 / 3 * y**2).all()


# ------------------------------------------------------------------ two stages: list


def sampled_law(people, n, mechanism):
    """The law of a list mechanism on n of the people, in all orders, exactly."""
    law = Counter()
    lists = list(itertools.permutations(people, n))
    for sample in lists:
        for outcome, mass in mechanism(sample).items():
            law[outcome] += mass / len(lists)
    return law


def hockey_stick(p, q, alpha):
    return sum(max(p.get(k, 0) - alpha * q.get(k, 0), Fraction(0)) for k in {*p, *q})


@pytest.mark.parametrize(("total", "n"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (3, 3)])
def test_amplification_by_enumeration(total, n):
    """Sums with noise of ratio 1/2, also with the sample told with probability delta_0, and one that looks at order."""
    leak = Fraction(1, 10)

    def counts(sample, reach=12):
        law = {k: Fraction(1, 3) * Fraction(1, 2) ** abs(k - sum(sample)) for k in range(-reach, reach + n + 1)}
        law["left"] = 1 - sum(law.values())  # both tails, told apart in truth; ratios there are 2 as well
        return law

    def tells(sample):
        law = {k: (1 - leak) * mass for k, mass in counts(sample).items()}
        law[("told", sample)] = leak
        return law

    def ordered(sample):  # answers of each place flipped with probability 1/3
        laws = {(): Fraction(1)}
        for x in sample:
            laws = {(*k, y): p * Fraction(2 if x == y else 1, 3) for k, p in laws.items() for y in (0, 1)}
        return laws

    share = Fraction(n, total)
    for mechanism, delta in ((counts, 0), (tells, leak), (ordered, 0)):
        largest = Fraction(0)
        for rest in itertools.combinations_with_replacement((0, 1), total - 1):
            laws = [sampled_law((x, *rest), n, mechanism) for x in (0, 1)]
            for p, q in (laws, laws[::-1]):
                assert hockey_stick(p, q, 1 + share * (2 - 1)) <= share * delta
                largest = max(largest, max(p[k] / q[k] for k in q if p[k] and q[k]))
        assert largest <= 1 + share or mechanism is tells
        if mechanism is ordered:
            assert largest > 1 + share / 4  # not void


def test_constants_of_the_list_branch():
    sizes = itertools.product((10, 1000, 10**6), (5, 10, 997))
    for (people, n), epsilon, delta in itertools.product(sizes, (0.01, 0.5, 1.0, 3.0), (0.4, 1e-6)):
        if n > people:
            continue
        inner = math.log1p(people / n * math.expm1(epsilon))
        assert math.log1p(n / people * math.expm1(inner)) == pytest.approx(epsilon)
        assert n / people * min(delta * people / n, 0.5) <= delta * (1 + 1e-12)
        t = epsilon * people
        published = t / (16 * n)
        if epsilon <= 1 and published <= 1:
            assert n / people * math.expm1(published) <= epsilon / 8
    assert all(math.expm1(x) <= 2 * x for x in np.linspace(0, 1, 101))
    for m, t in itertools.product((2, 3, 10), (1, 7, 1000)):
        s = m**4 * (t + 1) ** 2
        assert pairs_of(m) / (2 * math.sqrt(s)) <= 1 / (4 * (t + 1))
        assert t < s


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_costs_on_a_sample(n):
    """All samples of n of four people: E Delta, the least cost of a sample, and the bound for any order of it."""
    m, total = 3, 4
    rng = np.random.default_rng(83)
    tables = ballot_tables(m, "last")
    for _ in range(20):
        people = tables[rng.integers(len(tables), size=total)]

        def cost(some):
            return share_costs(0.5 + some.sum(axis=0) / (2 * len(some)), m)

        true = cost(people)
        samples = [cost(people[list(chosen)]) for chosen in itertools.combinations(range(total), n)]
        gaps = [np.abs(c - true).max() for c in samples]
        assert np.mean(gaps) <= (pairs_of(m) / (2 * math.sqrt(n)) if n < total else 0) + 1e-12
        assert np.mean([c.min() for c in samples]) <= true.min() + 1e-12
        assert all((true <= c + gap + 1e-12).all() for c, gap in zip(samples, gaps, strict=True))


# ------------------------------------------------------------------ drawing


@pytest.mark.parametrize(("blocks", "n"), [((3, 1, 2), 3), ((2, 2), 4), ((5, 1, 1, 1), 2)])
def test_blocks_have_the_law_of_the_whole_population(blocks, n):
    """In order from labels and from the written-out population; counts from hypergeometric laws, one after another."""
    population = [i for i, size in enumerate(blocks) for _ in range(size)]
    whole = Counter()
    for chosen in itertools.permutations(range(len(population)), n):
        whole[tuple(population[i] for i in chosen)] += Fraction(1, math.perm(len(population), n))
    located = Counter()

    def draw(left, taken, mass):
        if len(taken) == n:
            located[taken] += mass
            return
        for label in range(sum(left)):
            block = next(i for i, upto in enumerate(itertools.accumulate(left)) if label < upto)
            rest = [size - (i == block) for i, size in enumerate(left)]
            draw(rest, (*taken, block), mass / sum(left))

    draw(blocks, (), Fraction(1))
    assert located == whole
    counted = Counter()
    for sample, mass in whole.items():
        counted[tuple(sample.count(i) for i in range(len(blocks)))] += mass
    for counts in itertools.product(*(range(size + 1) for size in blocks)):
        if sum(counts) != n:
            continue
        mass, people, left = Fraction(1), sum(blocks), n
        for size, count in zip(blocks, counts, strict=True):
            mass *= Fraction(math.comb(size, count) * math.comb(people - size, left - count), math.comb(people, left))
            people, left = people - size, left - count
        assert mass == counted[counts]


def hypergeometric(total, marked, n):
    return {
        k: Fraction(math.comb(marked, k) * math.comb(total - marked, n - k), math.comb(total, n))
        for k in range(max(0, n - total + marked), min(n, marked) + 1)
    }


def power_below(p):
    """The largest power of two that is at most p, inverted: a whole number c."""
    c = 1
    while Fraction(1, c) > p:
        c *= 2
    return c


def log_concave_laws():
    yield from (hypergeometric(*x) for x in ((10, 4, 3), (50, 20, 25), (1000, 30, 500), (400, 200, 200), (60, 1, 7)))
    rng = np.random.default_rng(90)
    for _ in range(20):  # steps whose ratios fall
        ratios = sorted((Fraction(int(x), 64) for x in rng.integers(1, 200, size=rng.integers(2, 60))), reverse=True)
        masses = list(itertools.accumulate(ratios, lambda a, b: a * b, initial=Fraction(1)))
        yield {k: mass / sum(masses) for k, mass in enumerate(masses)}
    yield {k: Fraction(1, 17) for k in range(17)}  # flat
    geometric = {k: Fraction(9, 10) ** k for k in range(300)}
    yield {k: mass / sum(geometric.values()) for k, mass in geometric.items()}


def test_tails_of_log_concave_laws():
    """For c the power of two and for the least whole c allowed; the exponential from below, in balls."""
    for law in log_concave_laws():
        mode = max(law, key=law.get)
        for c in {power_below(law[mode]), math.ceil(1 / law[mode])}:
            for k, mass in law.items():
                j = abs(k - mode)
                ratio = mass / law[mode]
                assert ratio <= 1
                if j > c:
                    assert ball(ratio) < ball(1 - Fraction(j, c)).exp()
                    i = -(-j // c) - 2
                    assert c * (1 + i) < j <= c * (2 + i)
                    assert ratio <= Fraction(1, 2**i)
    for total, marked, n in ((10, 4, 3), (50, 20, 25), (400, 200, 200), (60, 1, 7), (9, 9, 4), (9, 0, 4), (5, 2, 3)):
        law = hypergeometric(total, marked, n)
        assert law[(n + 1) * (marked + 1) // (total + 2)] == max(law.values())
        for k in range(min(law), max(law)):
            step = Fraction((marked - k) * (n - k), (k + 1) * (total - marked - n + k + 1))
            assert law[k + 1] / law[k] == step
    assert all(math.exp(1 - y) <= 1 / y for y in np.linspace(1, 50, 500))


def test_rejection_from_blocks_has_the_law_exactly():
    """One round in rationals: each outcome is proposed and accepted with its mass times one constant > 1/13 in all."""
    for law in log_concave_laws():
        mode = max(law, key=law.get)
        c = power_below(law[mode])
        assert Fraction(1, c) <= law[mode] < Fraction(2, c)
        accepted = Counter()
        for k, mass in law.items():
            j, ratio = k - mode, mass / law[mode]
            if abs(j) <= c:
                proposed, accept = Fraction(2 * c + 1, 6 * c + 1) / (2 * c + 1), ratio
            else:
                i = -(-abs(j) // c) - 2
                proposed, accept = Fraction(2 * c, 6 * c + 1) * Fraction(1, 2 ** (i + 1)) / c, 2**i * ratio
            assert 0 <= accept <= 1
            accepted[k] = proposed * accept
        total = sum(accepted.values())
        assert total == 1 / (law[mode] * (6 * c + 1)) > Fraction(1, 13)
        assert 1 / (law[mode] * (6 * 2 * c + 1)) >= Fraction(1, 25)
        assert {k: mass / total for k, mass in accepted.items()} == law


# ------------------------------------------------------------------ bounded time


def largest_power(bound):
    """The largest 2^-k at most a rational bound, as (k, value)."""
    k = 0
    while Fraction(1, 2**k) > bound:
        k += 1
    return k, Fraction(1, 2**k)


def moved_laws(p, eta, *, support):
    """Laws within eta of p that a program might have instead: mass moved between any two outcomes."""
    for x, y in itertools.permutations(support, 2):
        shift = min(eta, p[x])
        yield {**p, x: p[x] - shift, y: p[y] + shift}


E_EPSILON = Fraction(2)  # exp(epsilon), rational: epsilon = ln 2


def neighbours_with(delta):
    """Two laws on four outcomes with loss ln 2 and exactly delta beyond it, both ways."""
    rest = (1 - delta) / 3
    return (
        {0: 2 * rest, 1: rest, 2: delta, 3: Fraction(0)},
        {0: rest, 1: 2 * rest, 2: Fraction(0), 3: delta},
    )


def test_distance_paid_from_delta():
    for delta in (Fraction(1, 3), Fraction(1, 1000)):
        k, eta = largest_power(delta / 16 / (1 + E_EPSILON))
        assert (1 + E_EPSILON) * eta <= delta / 16 < 2 * (1 + E_EPSILON) * eta
        assert k <= 5 + math.log2((1 + E_EPSILON) / delta)
        p, q = neighbours_with(15 * delta / 16)
        assert hockey_stick(p, q, E_EPSILON) == 15 * delta / 16
        worst = max(
            hockey_stick(a, b, E_EPSILON)
            for a in moved_laws(p, eta, support=range(4))
            for b in moved_laws(q, eta, support=range(4))
        )
        assert 15 * delta / 16 < worst <= delta
    assert Fraction(1, 8) + (1 + Fraction(1285, 1000)) / 100 < 1  # exp(1/4) < 1.285
    assert math.exp(0.25) < 1.285


def test_distance_paid_by_mixing():
    """Four outcomes in place of m! orders, U >= 1/8 on each: no loss beyond ln 2; and without mixing all is lost."""
    size, people = 4, 5
    share = Fraction(1, 8)  # lambda for N = 5
    _, eta = largest_power((E_EPSILON - 1) * share / (2 * size) / (1 + E_EPSILON))
    uniform = {0: Fraction(1, 8), 1: Fraction(1, 8), 2: Fraction(1, 2), 3: Fraction(1, 4)}
    assert Fraction(1, 2 * people) <= share <= Fraction(1, people)
    p = {0: Fraction(2, 3), 1: Fraction(1, 3) - eta, 2: eta, 3: Fraction(0)}
    q = {0: Fraction(1, 3), 1: Fraction(2, 3) - eta, 2: eta, 3: Fraction(0)}
    assert hockey_stick(p, q, E_EPSILON) == 0
    seen_without = False
    for a in moved_laws(p, eta, support=range(4)):
        for b in moved_laws(q, eta, support=range(4)):
            seen_without |= hockey_stick(a, b, E_EPSILON) > 0
            mixed = [{k: (1 - share) * x[k] + share * uniform[k] for k in x} for x in (a, b)]
            assert hockey_stick(*mixed, E_EPSILON) == 0
            assert hockey_stick(*mixed[::-1], E_EPSILON) == 0
    assert seen_without
    for epsilon in (1e-3, 0.1, 1.0):  # published constants, N m! = 1
        assert (1 + math.exp(epsilon / 4)) * epsilon / 100 < epsilon / 4 <= math.expm1(epsilon) / 4
    for n in (1, 2, 3, 4, 1000, 1024, 1025):
        mixing = Fraction(1, 2 ** (n - 1).bit_length())
        assert Fraction(1, 2 * n) <= mixing <= Fraction(1, n)


def test_numbers_modulo_m_factorial():
    for m in range(1, 25):
        orders = math.factorial(m)
        bits = 1 + (orders - 1).bit_length()
        assert (2**bits // orders) / Fraction(2**bits) >= Fraction(1, 2 * orders)
    for m in (3, 4):
        orders = math.factorial(m)
        bits = 1 + (orders - 1).bit_length()
        hits = Counter(x % orders for x in range(2**bits))
        assert min(hits[r] for r in range(orders)) == 2**bits // orders


@pytest.mark.parametrize("law", ["laplace", "normal"])
@pytest.mark.parametrize("k", [2, 4])
def test_a_draw_on_a_grid_with_wrong_ends(law, k):
    """All U of the grid, with a distribution function that errs by 2^-b up or down, so that it is not even monotone."""
    eta = Fraction(1, 2**k)
    if law == "laplace":
        ratio = 0.5
        cut = math.ceil(math.log(8 / eta) / math.log(1 / ratio)) + 6  # more than needed: flat ends

        def distribution(x):
            return 1 - ratio ** (x + 1) / (1 + ratio) if x >= 0 else ratio**-x / (1 + ratio)

    else:
        cut = math.ceil(1.5 * math.sqrt(2 * math.log(8 / eta))) + 4

        def distribution(x):
            return stats.norm.cdf((x + 0.5) / 1.5)

    b = (2 * cut).bit_length() + k + 3
    assert 2 * cut + 1 <= 2 ** (2 * cut).bit_length()
    ideal = {x: distribution(x) - distribution(x - 1) for x in range(-60, 61)}
    rng = np.random.default_rng(91)
    for pattern in ("up", "down", "random", "apart"):
        off = {"up": 1, "down": -1, "random": 0, "apart": 0}[pattern]
        ends = []
        for x in range(-cut, cut):
            sign = off or (rng.choice([-1, 1]) if pattern == "random" else (-1) ** (x + cut))
            ends.append(distribution(x) + 0.999 * sign / 2**b)
        law_found = Counter()
        for u in range(2**b):
            low, high = -cut, cut
            while low < high:
                middle = (low + high) // 2
                if u / 2**b < ends[middle + cut]:
                    high = middle
                else:
                    low = middle + 1
            law_found[low] += 1 / 2**b
        assert 0 < distance(law_found, ideal) <= eta
    assert any(x > y for x, y in itertools.pairwise(ends))  # the last pattern was not monotone


def test_where_noise_is_cut_off():
    for k in (3, 20, 79):
        eta = 2.0**-k
        for scale in (0.3, 2.0, 3840.0):
            cut = math.ceil(math.log(8 / eta) * scale)
            ratio = math.exp(-1 / scale)
            assert math.log(2) + (cut + 1) * math.log(ratio) - math.log1p(ratio) <= math.log(eta / 4)
            cut = math.ceil(scale * math.sqrt(2 * math.log(8 / eta))) + 1
            assert math.log(2) + stats.norm.logsf((cut + 0.5) / scale) <= math.log(eta / 4)


def test_numbers_modulo_any_m():
    for m, k in itertools.product(range(1, 40), range(0, 5)):
        bits = m.bit_length() + k
        hits = Counter(x % m for x in range(2**bits))
        law = {r: Fraction(n, 2**bits) for r, n in hits.items()}
        assert distance(law, dict.fromkeys(range(m), Fraction(1, m))) <= Fraction(1, 2 ** (k + 1))


def test_bits_of_the_example():
    people, m = 10**6, 16
    k = (100 * people * math.factorial(m) - 1).bit_length()
    per_draw = k + (2 * pairs_of(m) - 1).bit_length()
    a = Fraction(1, 32 * pairs_of(m))
    found = []
    for step in (a, a / 2):
        cut = math.ceil(math.log(8 * 2**per_draw) / -math.log1p(-step))
        found.append((2 * cut).bit_length() + per_draw + 3)
    assert (k, 2 * pairs_of(m), per_draw, *found) == (71, 240, 79, 101, 102)
    assert "k = 71, 240 draws, k' = 79, and 101 bits" in PAGE


def test_precision_is_bounded():
    """The bounds on log2 1/eta of theorem 58."""
    for epsilon, delta, people, m in itertools.product((0.01, 1.0, 5.0), (0.4, 1e-9), (2, 10**6), (2, 5, 20)):
        k, _ = largest_power(min(Fraction(delta / 16 / (1 + math.exp(epsilon))), Fraction(1, people)))
        assert k <= 5 + math.log2((1 + math.exp(epsilon)) / delta) + math.log2(people)
        orders = math.factorial(m)
        mixing = Fraction(1, 2 ** (people - 1).bit_length())
        k, _ = largest_power(Fraction(math.expm1(epsilon) / (1 + math.exp(epsilon))) * mixing / (2 * orders))
        assert k <= 3 + math.log2(people * orders * (1 + 2 / epsilon))
        if epsilon <= 1:
            assert math.ceil(math.log2(max(100 / delta, people))) <= 1 + math.log2(100 / delta) + math.log2(people)
            k = math.ceil(math.log2(100 * people * orders / epsilon))
            assert k <= 8 + math.log2(people) + math.log2(1 / epsilon) + m * math.log2(m)

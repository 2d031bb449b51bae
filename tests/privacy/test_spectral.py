"""Noise of the nuclear norm: golden norms, the law against other forms of it, laziness; false alarm 1e-6 a test."""

import itertools
import math
from fractions import Fraction
from functools import cache

import flint
import numpy as np
import pytest
from scipy import stats

from laws import accepts
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits, spectral
from psephos.privacy.spectral import expected_operator_norm_upper, nuclear_entry_variance, nuclear_noise

Z = 4.9  # two-sided false alarm 1e-6
FINE = Fraction(1, 2**30)  # at this rate rounding does not matter

# E of the operator norm at rate 1, to three digits after the point
OPERATOR = {2: 0.5, 3: 1.5, 4: 2.625, 5: 3.867, 6: 5.144, 8: 7.817, 10: 10.573, 12: 13.385}
LARGE = {16: 19.116, 24: 30.825, 32: 42.719}


@cache
def draws(m, n, seed=1):
    """n draws of X at rate 1, as doubles."""
    bits = InsecureBits(seed=seed)
    return np.array([nuclear_noise(m, FINE, bits).astype(float) for _ in range(n)]) * float(FINE)


def singular(tables):
    """The k different singular values, falling."""
    return np.linalg.svd(tables, compute_uv=False)[:, : tables.shape[1] // 2 * 2 : 2]


def agrees(sample, mean, known=1e-9):
    """Whether the mean of a sample is what it should be, itself ``known`` to so much; false alarm 1e-6."""
    return abs(np.mean(sample) - mean) < Z * np.std(sample) / math.sqrt(len(sample)) + known


# ------------------------------------------------------------------ norms


def norms_agree(m, n, operator):
    s = singular(draws(m, n))
    # by homogeneity the nuclear norm is Gamma(D), and independent of the shape
    pairs = m * (m - 1) // 2

    def check(x):
        nuclear = 2 * x.sum(axis=1)
        return (
            agrees(x[:, 0], operator, 5e-4)
            and agrees(x[:, 0] / nuclear * pairs, operator, 5e-4)
            and stats.kstest(nuclear, stats.gamma(pairs).cdf).pvalue > 1e-6
        )

    assert check(s)
    spread = 30 / math.sqrt(n * pairs)  # a nuclear norm is known to 1 / sqrt(n D) of itself
    assert not check(s * (1 + spread))
    # the shape alone: one singular value a little too large, at the expense of all
    twisted = s.copy()
    if m > 3:
        twisted[:, 0] *= 1.4
        assert not check(twisted * (s.sum(axis=1) / twisted.sum(axis=1))[:, None])


@pytest.mark.parametrize("m", [*OPERATOR, *LARGE])
def test_golden_norms(m):
    """The largest x_i is at most t with chance det(1 - M G(t)), G(t) the moments from t on: no draws, no sequence."""
    k, a = m // 2, 2 * (m % 2)
    step = Fraction(m, 64)
    with flint.ctx.workprec(80 + 16 * m):
        inverse = flint.arb_mat(spectral._moments(m, 0).inv())
        total, t = 0.0, Fraction(0)
        while t < 8 * m + 40:
            at = flint.arb(flint.fmpq(t.numerator, t.denominator))
            tails = [(-at).exp()]  # of z^n exp(-z), by parts
            for n in range(1, 4 * k + a):
                tails.append(n * tails[-1] + at**n * tails[0])
            rest = flint.arb_mat(k, k, [tails[2 * i + 2 * j + a] for i in range(k) for j in range(k)])
            law = (flint.arb_mat(k, k, [int(i == j) for i in range(k) for j in range(k)]) - inverse * rest).det()
            total += float(1 - law) * (0.5 if t == 0 else 1.0)
            t += step
    # the trapezoid rule errs by step^2 / 12 times the density of the largest at 0, which is 0 for m > 2
    assert total * float(step) / 2 == pytest.approx({**OPERATOR, **LARGE}[m], abs=7e-4)


@pytest.mark.parametrize("m", [m if m <= 6 else pytest.param(m, marks=pytest.mark.slow) for m in OPERATOR])
def test_norms(m):
    norms_agree(m, 500, OPERATOR[m])


@pytest.mark.slow
@pytest.mark.parametrize("m", LARGE)
def test_norms_of_many_items(m):
    norms_agree(m, 300, LARGE[m])


def test_bound_on_the_operator_norm():
    """Above the golden value by at most 2 %, and below the bound that any norm of independent normals would give."""
    for m, operator in {**OPERATOR, **LARGE}.items():
        assert operator - 5e-4 <= float(expected_operator_norm_upper(m)) <= 1.02 * operator
    for m in range(4, 33):
        n, p = (m - 1, m - 1) if m % 2 == 0 else (m - 2, m)
        closed = (math.sqrt(n) + math.sqrt(p)) ** 2 / 2 + math.sqrt((n + p) * math.log(n))
        assert float(expected_operator_norm_upper(m)) < closed
    assert expected_operator_norm_upper(0) == expected_operator_norm_upper(1) == 0
    for m, exact in ((2, Fraction(1, 2)), (3, Fraction(3, 2))):
        assert exact <= expected_operator_norm_upper(m) < exact * (1 + Fraction(1, 2**50))


# ------------------------------------------------------------------ two items: the rounded law itself


def two_sided_exponential(scale, k):
    """P(k) of a variable of density ~ exp(-|x| / scale), rounded."""
    k = np.abs(np.asarray(k, dtype=float))
    return np.where(k == 0, -np.expm1(-0.5 / scale), np.exp(-k / scale) * np.sinh(0.5 / scale))


def two_item_law(rate, n, wrong):
    bits = InsecureBits(seed=2)
    scale = float(1 / (2 * rate))
    assert accepts([nuclear_noise(2, rate, bits)[0, 1] for _ in range(n)], two_sided_exponential, scale)
    for factor in (wrong, 1 / wrong):
        planted = [nuclear_noise(2, rate * factor, bits)[0, 1] for _ in range(n)]
        assert not accepts(planted, two_sided_exponential, scale)


@pytest.mark.parametrize("rate", [pytest.param(rate, marks=pytest.mark.slow) for rate in (Fraction(1, 9), Fraction(1))])
def test_two_items(rate):
    two_item_law(rate, 4000, Fraction(115, 100))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [Fraction(1, 40), Fraction(2, 5)])
def test_two_items_and_power(rate):
    two_item_law(rate, 30_000, Fraction(106, 100))


# ------------------------------------------------------------------ three and four items: other forms of the law


def uniform_directions(vectors):
    """Whether vectors in three dimensions have uniform directions: each coordinate then is uniform (Archimedes)."""
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    axes = [*np.eye(3), np.ones(3) / math.sqrt(3), np.array([1, -1, 0]) / math.sqrt(2)]
    return all(stats.kstest(unit @ axis, stats.uniform(-1, 2).cdf).pvalue > 1e-7 for axis in axes)


def axial_law(tables):
    """Three items: ||X|| = 2 |x| for the axial vector x, so |x| is Gamma(3) / 2 and the direction uniform."""
    x = np.stack([tables[:, 1, 2], -tables[:, 0, 2], tables[:, 0, 1]], axis=1)
    radial = stats.kstest(2 * np.linalg.norm(x, axis=1), stats.gamma(3).cdf).pvalue > 1e-7
    return radial and uniform_directions(x)


def two_axial_law(tables):
    """Four items: so(4) is so(3) + so(3). With the parts p, q the singular values are |p| + |q| and ||p| - |q||, so the
    density is ``exp(-4 max(|p|, |q|))``: the maximum is Gamma(6) / 4; the smaller by the larger has the density 3 u^2;
    either is the larger with chance 1/2 (the sign of the Pfaffian |p|^2 - |q|^2); all of it independent."""
    a, b, c, d, e, f = (tables[:, u, v] for u, v in ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)))
    p = np.stack([a + b, c - d, e + f], axis=1) / 2
    q = np.stack([a - b, c + d, e - f], axis=1) / 2
    lengths = np.stack([np.linalg.norm(p, axis=1), np.linalg.norm(q, axis=1)])
    high, low = lengths.max(axis=0), lengths.min(axis=0)
    first = int((lengths[0] > lengths[1]).sum())
    cross = np.corrcoef(high, low / high)[0, 1] * math.sqrt(len(high))
    dot = (p * q).sum(axis=1) / (high * low)
    return bool(
        stats.kstest(4 * high, stats.gamma(6).cdf).pvalue > 1e-7
        and stats.kstest((low / high) ** 3, "uniform").pvalue > 1e-7
        and stats.binomtest(first, len(high)).pvalue > 1e-7
        and abs(cross) < 5.4
        and stats.kstest(dot, stats.uniform(-1, 2).cdf).pvalue > 1e-7
        and uniform_directions(p)
        and uniform_directions(q)
    )


def unrotated(m, xs, sign, _normals):
    """A wrong X: the blocks as they are."""
    table = flint.arb_mat(m, m)
    for i, x in enumerate(xs):
        s = -x / 2 if sign else x / 2
        table[2 * i, 2 * i + 1], table[2 * i + 1, 2 * i] = s, -s
    return table


def independent_spectrum(m, uniforms, precision):
    """Wrong x_i: without M's step each has the one-point density, and they do not repel."""
    found = []
    for u in uniforms:
        density = spectral._one_point_density(m, spectral._identity(m // 2), precision)
        tail = spectral._tail_polynomial(density)
        found.append(spectral._tail_inverse(tail, density, u * (m // 2), start=4 * m))
    return found


class NoSign(InsecureBits):
    """Bits whose fair sign always is 0: Q is then always on one side of O(m)."""

    def bits(self, n):
        return 0 if n == 1 else super().bits(n)


def test_three_items():
    assert axial_law(draws(3, 2000))
    assert not axial_law(draws(3, 2000) * 1.2)
    assert not axial_law(draws(3, 2000) * np.array([1.0, 1.2, 1.0])[:, None] * np.array([1.0, 1.2, 1.0]))


@pytest.mark.slow
def test_three_items_and_power():
    assert axial_law(draws(3, 50_000))
    assert not axial_law(draws(3, 50_000) * 1.04)


def test_four_items():
    assert two_axial_law(draws(4, 2000))
    assert not two_axial_law(draws(4, 2000) * 1.1)


@pytest.mark.slow
def test_four_items_and_power():
    assert two_axial_law(draws(4, 30_000))
    assert not two_axial_law(draws(4, 30_000) * 1.03)


@pytest.mark.parametrize("plant", ["rotations alone", "no repulsion", "no rotation"])
def test_four_items_reject_wrong_laws(plant, monkeypatch):
    bits = InsecureBits(seed=3)
    if plant == "rotations alone":
        bits = NoSign(seed=3)
    elif plant == "no repulsion":
        monkeypatch.setattr(spectral, "_spectrum", independent_spectrum)
    else:
        monkeypatch.setattr(spectral, "_conjugated", unrotated)
    tables = np.array([nuclear_noise(4, FINE, bits).astype(float) for _ in range(1000)]) * float(FINE)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert not two_axial_law(tables)


# ------------------------------------------------------------------ Pfaffians


def pfaffian(table):
    """By its first row, in whole numbers."""
    if not table:
        return 1
    rest = range(1, len(table))
    return sum(
        (-1) ** (v - 1) * table[0][v] * pfaffian([[table[i][j] for j in rest if j != v] for i in rest if i != v])
        for v in rest
    )


@pytest.mark.parametrize("m", [2, 4, 6])
def test_pfaffians_have_both_signs(m):
    """Half of the tables each; with Q from the rotations alone, or from the reflections alone, all have one sign."""
    n = 500

    def positive(bits):
        return sum(pfaffian(nuclear_noise(m, FINE, bits).tolist()) > 0 for _ in range(n))

    assert stats.binomtest(positive(InsecureBits(seed=4)), n).pvalue > 1e-6
    assert positive(NoSign(seed=4)) in (0, n)


# ------------------------------------------------------------------ any number of items


def spectral_moments(m):
    """E of sum x_i, sum x_i^2, sum x_i^2 x_j^2 over pairs, sum x_i^3: by Gauss-Laguerre quadrature, which is exact."""
    k, a = m // 2, 2 * (m % 2)
    nodes, weights = np.polynomial.laguerre.laggauss(12)
    x = np.array(list(itertools.product(nodes, repeat=k)))
    mass = np.prod(np.array(list(itertools.product(weights, repeat=k))), axis=1) * np.prod(x**a, axis=1)
    for i, j in itertools.combinations(range(k), 2):
        mass = mass * (x[:, i] ** 2 - x[:, j] ** 2) ** 2
    return [(mass * f).sum() / mass.sum() for f in moments_of(x)]


def moments_of(x):
    pairs = sum(((x[:, i] * x[:, j]) ** 2 for i, j in itertools.combinations(range(x.shape[1]), 2)), np.zeros(len(x)))
    return x.sum(axis=1), (x**2).sum(axis=1), pairs, (x**3).sum(axis=1)


@pytest.mark.parametrize("m", [4, 5, *(pytest.param(m, marks=pytest.mark.slow) for m in (6, 7))])
def test_spectra_have_the_moments_of_their_density(m):
    def check(x):
        return all(agrees(f, mean) for f, mean in zip(moments_of(x), spectral_moments(m), strict=True))

    x = 2 * singular(draws(m, 1500))
    assert check(x)
    # the same one-point density without repulsion: each place from another draw, in random order
    shuffled = np.random.default_rng(1).permuted(x, axis=1)
    assert not check(np.stack([np.roll(shuffled[:, i], i) for i in range(m // 2)], axis=1))


def test_entry_variances():
    """Known values: Laplace for two items; E |x|^2 / 3 for three; E (max^2 + min^2) / 3 for four."""
    assert [nuclear_entry_variance(m) for m in range(5)] == [0, 0, Fraction(1, 2), 1, Fraction(7, 5)]
    for m in (4, 5, 6, 7):
        assert float(nuclear_entry_variance(m)) == pytest.approx(spectral_moments(m)[1] / (2 * m * (m - 1)))


def covariance_agrees(tables):
    """All entries of the covariance against variance times identity; one false alarm in 1e6 over all of them."""
    m = tables.shape[1]
    upper = np.triu_indices(m, 1)
    entries = tables[:, upper[0], upper[1]]
    size = entries.shape[1]
    z = stats.norm.isf(1e-6 / (size * (size + 1)))
    for i in range(size):
        for j in range(i, size):
            product = entries[:, i] * entries[:, j]
            expected = float(nuclear_entry_variance(m)) if i == j else 0.0
            if abs(product.mean() - expected) > z * product.std() / math.sqrt(len(product)):
                return False
    return agrees((entries**2).mean(axis=1), float(nuclear_entry_variance(m)))


@pytest.mark.parametrize("m", [3, 4, 5, 8])
def test_covariance(m):
    tables = draws(m, 1000)
    assert covariance_agrees(tables)
    assert not covariance_agrees(tables * 1.15)
    mixed = tables.copy()
    mixed[:, 0, 1] = (tables[:, 0, 1] + tables[:, 0, 2]) / math.sqrt(2)
    assert not covariance_agrees(mixed)


@pytest.mark.slow
@pytest.mark.parametrize("m", [11, 20])
def test_covariance_of_many_items(m):
    tables = draws(m, 600)
    assert covariance_agrees(tables)
    assert not covariance_agrees(tables * 1.1)


# ------------------------------------------------------------------ laziness and soundness


@pytest.mark.parametrize("m", [2, 3, 4, 7])
def test_more_bits_are_appended_and_the_answer_is_that_of_all_bits(m, monkeypatch):
    """From one bit a variable onwards: attempts stay open, keep what was drawn, and end where 2,000 bits would."""
    monkeypatch.setattr(spectral, "_FIRST_BITS", 1)
    monkeypatch.setattr(spectral, "_BITS_PER_ITEM", 0)
    real, attempts = spectral._decided_entries, []

    def spy(m, rate, sign, uniforms):
        answer = real(m, rate, sign, uniforms)
        attempts.append((answer, uniforms.b, list(uniforms.u), sign, uniforms))
        return answer

    monkeypatch.setattr(spectral, "_decided_entries", spy)
    rate = Fraction(1, 50)
    most = 0
    for seed in range(10):
        attempts.clear()
        table = nuclear_noise(m, rate, InsecureBits(seed=seed))
        answers = [attempt[0] for attempt in attempts]
        assert answers[:-1] == [None] * (len(answers) - 1)
        assert table[np.triu_indices(m, 1)].tolist() == answers[-1]
        for (_, b, u, *_), (_, later, v, *_) in itertools.pairwise(attempts):
            assert later == 2 * b
            assert [x >> (later - b) for x in v] == u
        most = max(most, len(attempts))
        _, _, _, sign, uniforms = attempts[-1]
        uniforms.refine(2000)
        assert real(m, rate, sign, uniforms) == answers[-1]
    assert most > 1


class Script:
    """A fair sign of 0, then the given first words, then InsecureBits."""

    def __init__(self, words):
        self.words = words
        self.rest = InsecureBits(seed=1)
        self.calls = []

    def bits(self, n):
        self.calls.append(n)
        if n == 1:
            return 0
        return self.words.pop(0) if self.words else self.rest.bits(n)


@pytest.mark.parametrize(("beyond", "magnitude"), [(-1, 3), (1, 2)])
def test_an_entry_next_to_a_half_waits_for_the_bits_that_decide(beyond, magnitude):
    """Two items: |X| = -ln(U) / (2 rate). Here U shares its first attempt's bits with the value that gives 5/2."""
    rate = Fraction(1, 8)
    first = spectral._FIRST_BITS + 2 * spectral._BITS_PER_ITEM + 4
    with flint.ctx.workprec(1000):
        edge = (flint.arb(-5) / 8).exp()
        bits = int((edge * flint.arb(2) ** (2 * first)).floor().unique_fmpz())
    head, tail = bits >> first, bits % 2**first
    # three variables, one word each at either attempt; the second attempt's word of U lies beside the edge
    script = Script([head, 12345 << 60, 54321 << 60, tail + beyond * 2 ** (first // 2)])
    table = nuclear_noise(2, rate, script)
    assert script.calls == [1] + [first] * 6
    assert abs(table[0, 1]) == magnitude


@pytest.mark.parametrize("m", [2, 3, 6, 9, 12])
def test_balls_hold_what_later_balls_find(m):
    """The x_i and X from b bits contain those from 4 b bits; with radii of 2**-60 of their own they would not."""
    uniforms = spectral._Uniforms(spectral._variables(m), InsecureBits(seed=5))
    uniforms.refine(100 + 10 * m)

    def compute():
        precision = uniforms.b + spectral._GUARD_PER_ITEM * m
        with flint.ctx.workprec(precision):
            variables = uniforms.balls()
            xs = spectral._spectrum(m, variables[: m // 2], precision)
            table = spectral._conjugated(m, xs, 1, spectral._normals(variables[m // 2 :]))
            return xs + [table[u, v] for u in range(m) for v in range(u + 1, m)]

    early = compute()
    uniforms.refine(3 * uniforms.b)
    late = compute()
    with flint.ctx.workprec(4000):
        assert all(a.contains(b) for a, b in zip(early, late, strict=True))
        shrunk = [flint.arb(a.mid(), a.rad() * flint.arb(2) ** -60) for a in early]
        assert not any(a.contains(b) for a, b in zip(shrunk, late, strict=True))
        assert all(b.rad() < 1e-100 for b in late)


@pytest.mark.parametrize("m", [4, 7, 10])
def test_a_place_is_found_for_every_matrix_in_the_balls(m):
    """Matrices at corners of a wide ball of matrices, exact: their places lie in the ball of places."""
    k, rng = m // 2, np.random.default_rng(m)
    precision = 400
    with flint.ctx.workprec(precision):
        radius = flint.arb(2) ** -30
        wide = flint.arb_mat(k, k, [flint.arb(int(i == j), radius) for i in range(k) for j in range(k)])
        spread = []
        for level in (0.1, 0.5, 0.8 * k):
            around = spectral._place(m, wide, flint.arb(level), precision)
            assert around.rad() < 1e-5
            for _ in range(10):
                signs = rng.choice([-1, 1], (k, k))
                corner = flint.arb_mat(
                    k, k, [int(i == j) + int(signs[i, j]) * radius for i in range(k) for j in range(k)]
                )
                place = spectral._place(m, corner, flint.arb(level), precision)
                assert around.contains(place)
                spread.append(float(abs(place - around.mid())))
            # the balls of an exact matrix are far too narrow to hold them
            assert spectral._place(m, wide.mid(), flint.arb(level), precision).rad() < 1e-60
        assert max(spread) > 1e-10


@pytest.mark.parametrize("m", [4, 7, 10])
def test_the_basis_at_a_ball_holds_it_at_both_ends(m):
    precision = 400
    with flint.ctx.workprec(precision):
        for middle in (0.5, 3.0, 20.0):
            radius = flint.arb(2) ** -40
            around = spectral._basis_at(m, flint.arb(middle, radius), precision).entries()
            for end in (flint.arb(middle) - radius, flint.arb(middle), flint.arb(middle) + radius):
                at_end = spectral._basis_at(m, end, precision).entries()
                assert all(wide.contains(narrow) for wide, narrow in zip(around, at_end, strict=True))
            assert all(entry.rad() < 1e-6 * (1 + abs(float(entry))) for entry in around)


@pytest.mark.parametrize("m", [4, 5, 8])
def test_the_basis_is_orthonormal(m):
    """By quadrature in doubles: nodes and weights of Gauss and Laguerre, exact for such polynomials."""
    nodes, weights = np.polynomial.laguerre.laggauss(2 * m)
    with flint.ctx.workprec(300):
        phi = np.array([[float(v) for v in spectral._basis_at(m, flint.arb(x), 300).entries()] for x in nodes])
    gram = phi.T @ (phi * (weights * nodes ** (2 * (m % 2)))[:, None])
    assert np.allclose(gram, np.eye(m // 2), atol=1e-9)


def test_doubt_about_a_tail_is_said():
    """Levels that may be 0, and places where the density may be 0, are not decided."""
    with flint.ctx.workprec(64):
        one = [flint.arb(1)]
        assert spectral._tail_inverse(one, one, flint.arb(0, 1), start=8) is None
        found = spectral._tail_inverse(one, one, flint.arb(1) / 2, start=8)
        assert found.overlaps(flint.arb(2).log())
        assert found.rad() < 1e-15
        assert spectral._tail_inverse(one, [flint.arb(0, 1)], flint.arb(1) / 2, start=8) is None
        wide = spectral._tail_inverse([flint.arb(1, 0.01)], one, flint.arb(0.5, 0.01), start=8)
        assert wide.contains(flint.arb(2).log())
        assert spectral._tail_inverse(one, one, flint.arb(0.75, 0.5), start=8) is None  # x may be 0
        # a density a hundred times too large makes the first guess of the width too small: it is checked, and widened
        held = spectral._tail_inverse(one, [flint.arb(100)], flint.arb(0.5, 0.01), start=8)
        assert all(held.contains(-flint.arb(level).log()) for level in (0.49, 0.51))
    tail = [flint.arb("inf")]
    assert spectral._tail_inverse(tail, one, flint.arb(1), start=8) is None


@pytest.mark.slow
def test_first_attempts_nearly_always_decide(monkeypatch):
    real, count = spectral._decided_entries, []
    monkeypatch.setattr(spectral, "_decided_entries", lambda *a: count.append(1) or real(*a))
    asked = 0
    for m, n in ((2, 2000), (3, 1000), (8, 500), (20, 50), (32, 10), (50, 4)):
        for rate in (FINE, Fraction(1, 10)):
            bits = InsecureBits(seed=6)
            for _ in range(n):
                nuclear_noise(m, rate, bits)
                asked += 1
    assert len(count) == asked


# ------------------------------------------------------------------ edges


def test_shapes_and_types():
    bits = InsecureBits(seed=7)
    assert nuclear_noise(0, FINE, bits).shape == (0, 0)
    assert nuclear_noise(1, FINE, bits).tolist() == [[0]]
    small = nuclear_noise(5, Fraction(1, 10), bits)
    assert small.dtype == np.int64
    assert (small == -small.T).all()
    large = nuclear_noise(5, Fraction(1, 2**200), bits)
    assert large.dtype == object
    assert (large == -large.T).all()
    assert all(type(x) is int for x in large.flat)
    assert max(abs(x) for x in large.flat) > 2**190
    assert not nuclear_noise(5, Fraction(10**9), bits).any()


@pytest.mark.parametrize("rate", [0, 1, 0.5, Fraction(0), Fraction(-1, 2)])
def test_refusals(rate):
    with pytest.raises(ParameterError, match="rate must be a rational"):
        nuclear_noise(3, rate, InsecureBits(seed=1))


@pytest.mark.parametrize("level", [1e-300, 1e-3, 0.3, 0.999, 1 - 1e-15])
def test_the_search_for_a_value_ends_and_finds_it(level):
    """Of the tail exp(-x): wider balls where the level is known less well, and a root far beyond 2^64."""
    one, widths = [flint.arb(1)], []
    for bits in (80, 160, 320, 1200):
        with flint.ctx.workprec(bits):
            known = flint.arb(level, level * (1 - level) * 2.0**-30 if bits == 80 else 0)
            found = spectral._tail_inverse(one, one, known, start=8)
            assert found.overlaps(-flint.arb(level).log())
            widths.append(found.rad())
    assert all(wide > narrow for wide, narrow in itertools.pairwise(widths))
    with flint.ctx.workprec(2000):
        far = flint.arb(2) ** 70
        assert spectral._tail_inverse(one, one, (-far).exp(), start=8).overlaps(far)

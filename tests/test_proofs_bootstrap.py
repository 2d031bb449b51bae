"""Statements of docs/proofs/bootstrap.md that no other test pins: by brute force, in exact arithmetic, or in balls."""

import csv
import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import pytest
from rivals.accountants import PaperBound, PlainTraining, calibrate_sigma
from rivals.m_estimate import weighted_m_estimate
from rivals.series import series_log_moments_upper
from scipy import optimize, special, stats

from psephos.bootstrap import BlockedTraining
from psephos.bootstrap.block_weights import gamma_star
from psephos.bootstrap.losses import (
    BradleyTerryLoss,
    CustomLoss,
    HuberLoss,
    LogisticLoss,
    MeanLoss,
    QuantileLoss,
)
from psephos.bootstrap.noisy_moments import _GRAM_CAP, _ROWS, SUM_CAP
from psephos.bootstrap.normal_posterior import _FLAT, _HIDDEN, WORLDS, NormalPosterior, symmetric_noise
from psephos.bootstrap.statistic import Grid, PoissonSampling, integer_contributions, integer_noise
from psephos.bootstrap.train import TrainingPlan, _Draw
from psephos.privacy import Guarantee, InsecureBits
from psephos.privacy.gaussian import epsilon_upper, mu_lower
from psephos.privacy.pld import _split
from psephos.privacy.rdp import log_moment_upper
from psephos.privacy.samplers import rounded_gaussian_array
from psephos.privacy.subsampled import BetaWeight, FixedWeight, SubsampledGaussian

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "proofs" / "bootstrap.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------ the page


def test_every_test_and_module_that_the_page_names_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 120
    for path, name in named:
        assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), (path, name)
    here = {name for name in globals() if name.startswith("test_")}
    own = {name for path, name in named if path == "tests/test_proofs_bootstrap.py"}
    assert own | {"test_every_test_and_module_that_the_page_names_is_there"} == here
    modules = re.findall(r"`(src/psephos/[\w/]+\.py)`", PAGE)
    assert all((ROOT / path).exists() for path in modules)
    table = PAGE[PAGE.index("## 18.") :]
    for path in re.findall(r"`((?:privacy|bootstrap|audit)/\w+\.py)`", table):
        assert (ROOT / "src" / "psephos" / path).exists() or (ROOT / "tests" / path).exists(), path


# ------------------------------------------------------------------ one release, and all


def worst_divergence(q, a, c):
    """H_c(P_a || Q_a), from the test {x >= z}, z where the densities' ratio is c."""
    if a == 0 or c == 0:
        return max(1 - c, 0.0)
    loss = math.log(c)
    z = (loss / 2 + math.asinh((1 - q) / q * math.exp(a * a / 2) * math.sinh(loss / 2))) / a
    return float((1 - q) * (1 - c) * special.ndtr(-z) + q * (special.ndtr(a - z) - c * special.ndtr(-a - z)))


def test_no_pair_in_the_plane_beats_the_worst_pair():
    """Lemma 1: the whole divergence of random pairs in the plane, over all tests, by a grid of 2 10^5 points."""
    rng = np.random.default_rng(1)
    axis = np.linspace(-7.5, 7.5, 451)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    cell = (axis[1] - axis[0]) ** 2

    def normal(centre):
        return np.exp(-((points - centre) ** 2).sum(axis=-1) / 2) / (2 * math.pi)

    origin, closest = normal(np.zeros(2)), math.inf
    for trial in range(24):
        q, a = rng.uniform(0.02, 1), rng.uniform(0.05, 1.5)
        angles, lengths = rng.uniform(0, 2 * math.pi, 2), a * rng.random(2) ** 0.3
        if trial % 4 == 0:  # opposite, at full length: the worst pair itself, turned
            angles[1], lengths = angles[0] + math.pi, np.array([a, a])
        p, s = (
            (1 - q) * origin + q * normal(length * np.array([math.cos(angle), math.sin(angle)]))
            for length, angle in zip(lengths, angles, strict=True)
        )
        for c in (0.0, 0.3, 0.8, 1.0, 1.3, 3.0):
            divergence = float(np.maximum(p - c * s, 0).sum()) * cell
            worst = worst_divergence(q, a, c)
            assert divergence <= worst + 3e-5
            if trial % 4 == 0:
                closest = min(closest, divergence - worst)
    assert closest > -1e-4  # attained


def finite_divergence(p, s, c):
    return sum(max(x - c * y, Fraction(0)) for x, y in zip(p, s, strict=True))


def test_domination_at_every_ratio_composes():
    """Theorems 2, 5 in exact arithmetic: post-processed pairs, the second chosen by the first's outcome.

    A pair that is worse at one ratio alone need not be so after two releases.
    """
    rng = np.random.default_rng(2)
    ratios = [Fraction(k, 7) for k in range(30)]

    def law(size):
        weights = [Fraction(int(w)) for w in rng.integers(1, 20, size)]
        return [w / sum(weights) for w in weights]

    for _ in range(20):
        star = law(4), law(4)

        def processed(star=star):
            channel = [law(3) for _ in range(4)]
            return tuple([sum(part[i] * channel[i][j] for i in range(4)) for j in range(3)] for part in star)

        first, seconds = processed(), [processed() for _ in range(3)]
        joint = [
            [first[side][y] * seconds[y][side][z] for y, z in itertools.product(range(3), repeat=2)] for side in (0, 1)
        ]
        product = [[x * y for x, y in itertools.product(part, repeat=2)] for part in star]
        for c in ratios:
            assert finite_divergence(*joint, c) <= finite_divergence(*product, c)

    def coins(p, s):
        return [Fraction(p), 1 - Fraction(p)], [Fraction(s), 1 - Fraction(s)]

    even, rare = coins("3/4", "1/2"), coins("1/4", "0")  # equal at c = 1
    assert finite_divergence(*even, 1) == finite_divergence(*rare, 1)
    twice = [
        finite_divergence(*([x * y for x, y in itertools.product(part, repeat=2)] for part in pair), 1)
        for pair in (even, rare)
    ]
    assert twice == [Fraction(5, 16), Fraction(7, 16)]


def test_a_hidden_weight_understates_the_loss():
    """Theorem 4: E u^2 = 2 (E u)^2 at gamma = (S - 2)/S alone, and the numbers by the Gaussian reading."""
    for blocks in (3, 5, 20, 1000):
        for gamma, excess in ((Fraction(blocks - 2, blocks), 0), (Fraction(1), -1), (Fraction(1, 10), 1)):
            second = (gamma + 1) / (blocks * (blocks * gamma + 1))
            difference = second - 2 * Fraction(1, blocks**2)
            assert (difference > 0) - (difference < 0) == excess
    for claimed, spent, in_the_limit in ((1, 1.473, 1.482), (4, 6.037, 6.078)):
        mu = mu_lower(claimed, "1e-4")
        assert round(float(epsilon_upper(mu / Fraction("0.711"), "1e-4")), 3) == spent
        assert round(float(epsilon_upper(mu * Fraction("1.41421356237"), "1e-4")), 3) == in_the_limit


def test_the_first_layer_shows_the_weights():
    """Theorem 4: the weights of a draw from the gradient of one step, with a level in the input too."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(3)
    inputs = np.append(rng.dirichlet(np.full(6, 0.7)), 0.3)
    first, second = rng.normal(size=(8, 7)), rng.normal(size=(2, 15))

    def moved(first):
        hidden = jax.numpy.concatenate([jax.nn.relu(first @ inputs), inputs])
        return (second @ hidden) @ np.array([0.7, -1.1])  # the noisy statistic times theta

    with jax.enable_x64():
        gradient = np.asarray(jax.grad(moved)(jax.numpy.asarray(first)))
    row = gradient[np.abs(gradient).sum(axis=1).argmax()][:6]
    np.testing.assert_allclose(row / row.sum(), inputs[:6], rtol=1e-9)


# ------------------------------------------------------------------ pld


def test_two_ends_of_a_cell_dominate_it():
    """Theorem 6 (3): masses of a cell go to its ends; P and Q masses stay, and no H_c falls."""
    rng = np.random.default_rng(4)
    h, n = 0.05, 6
    for _ in range(50):
        inside = [rng.random(4) * h + i * h for i in range(n)]
        weights = [rng.random(4) / (8 * n) for _ in range(n)]
        upper = np.array([w.sum() for w in weights])
        lower = np.array([(w * np.exp(-losses)).sum() for w, losses in zip(weights, inside, strict=True)])
        table = _split(upper, lower, np.zeros(n + 1), h)
        grid = h * np.arange(-n, n + 1)
        losses, masses = np.concatenate(inside), np.concatenate(weights)
        losses = np.concatenate([losses, -losses])
        masses = np.concatenate([masses, masses * np.exp(-losses[: masses.size])])
        assert table.sum() == pytest.approx(masses.sum(), rel=1e-12)
        assert table @ np.exp(-grid) == pytest.approx(masses @ np.exp(-losses), rel=1e-12)
        for c in np.exp(np.linspace(-0.4, 0.4, 33)):
            own = masses @ np.maximum(1 - c * np.exp(-losses), 0)
            assert table @ np.maximum(1 - c * np.exp(-grid), 0) >= own * (1 - 1e-12)


@pytest.mark.parametrize(("first", "rest"), [(0.9001900190019002, 17.1036), (0.6, 2.4), (1.0, 9999.0), (0.05, 1.0)])
def test_bins_of_weights_cover_the_law_in_balls(first, rest):
    """The masses above each edge, against the incomplete beta function in 200 bits: never below."""
    bins = BetaWeight(first, rest).bins()
    above = np.cumsum(bins.mass[::-1])[::-1]
    with flint.ctx.workprec(200):
        for i in range(1, bins.mass.size, 60):
            below = flint.arb(float(bins.upper[i - 1])).beta_lower(flint.arb(first), flint.arb(rest), regularized=True)
            assert flint.arb(float(above[i])) + flint.arb(bins.above) >= 1 - below


# ------------------------------------------------------------------ rdp


def log_trapezoid_error(order, a):
    """log of the factor of F in lemma 4, the best over s."""
    h = min(0.35, 0.25 / a)
    s = np.linspace(0.01, min(math.pi / a * 0.999, 40), 4000)
    return math.log(8) + float(np.min(s * s / 2 - 2 * math.pi * s / h - (order - 1) * np.log(np.cos(a * s / 2))))


def test_error_of_the_trapezoid_sum():
    for a in np.geomspace(1e-4, 3, 200):
        for most, bound in ((10, -40), (6, -47)):
            if most / a > 1:
                assert log_trapezoid_error(most / a, a) <= bound
    # and the bound is one: a coarse rule for the integrand of a Gaussian pair, whose value is known
    a, order, h = 1.0, 3.0, 1.2
    x = h * np.arange(-30, 40)
    value = math.exp(2 * order * (order - 1) * a * a)
    error = abs(
        float(np.exp((2 * order - 1) * a * x - a * a / 2 - x * x / 2).sum()) * h / math.sqrt(2 * math.pi) / value - 1
    )
    s = np.linspace(0.01, 3, 500)
    assert 0 < error <= float(np.min(4 * np.exp(s * s / 2 - 2 * math.pi * s / h) / np.cos(a * s / 2) ** (order - 1)))


@pytest.mark.parametrize(("q", "order", "a"), [(1e-4, 28, 0.7), (1e-6, 56, 0.714), (1e-8, 57, 0.7), (0.5, 20, 0.5)])
def test_quadrature_at_large_orders_against_certified_integration(q, order, a):
    """Where lemma 4 alone does not say it: order times a from 10 to 40."""
    with flint.ctx.workprec(250):
        chance, power, shift = flint.arb(q), flint.arb(order), flint.arb(a)

        def integrand(x, analytic):
            def mixed(sign):
                return 1 - chance + chance * (sign * shift * x - shift * shift / 2).exp()

            return (power * mixed(1).log(analytic) + (1 - power) * mixed(-1).log(analytic) - x * x / 2).exp()

        value = flint.acb.integral(integrand, -14, 2 * order * a + 14).real / (2 * flint.arb.pi()).sqrt()
        truth = float(value.log().mid())
    bound = log_moment_upper(SubsampledGaussian(probability=q, shift=a, weight=FixedWeight()), order)
    assert truth <= bound <= truth * (1 + 1e-6) + 1e-13


# ------------------------------------------------------------------ paper


def mixed_moment(i, j, a):
    """E X^i Y^j in balls, from E (1+X)^k (1+Y)^l = exp(((k-l)^2 - k - l) a^2/2)."""
    total = flint.arb(0)
    for k, m in itertools.product(range(i + 1), range(j + 1)):
        sign = (-1) ** (i - k + j - m)
        total += sign * math.comb(i, k) * math.comb(j, m) * (flint.arb((k - m) ** 2 - k - m) * a * a / 2).exp()
    return total


def coefficient_factors(k, order):
    """The f_j of theorem 10, j = 0, ..., k."""
    factors = []
    for j in range(k + 1):
        value = Fraction(order, order - 1)
        for i in range(j):
            value *= 1 - Fraction(i, order)
        for i in range(k - j):
            value *= 1 + Fraction(i - 1, order)
        factors.append(value)
    return factors


def ball(x):
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


def exact_and_printed(k, order, a, constant):
    """k-th coefficient of the worst pair, and its bound with a constant; both over (order - 1) order^(k-1)."""
    a = flint.arb(a)
    factors = coefficient_factors(k, order)
    exact = sum(
        (math.comb(k, j) * (-1) ** (k - j) * ball(factors[j]) * mixed_moment(j, k - j, a) for j in range(k + 1)),
        flint.arb(0),
    )
    deviation = sum((math.comb(k, j) * abs(factor - 1) for j, factor in enumerate(factors)), Fraction(0))
    moment = mixed_moment(k, 0, a)
    if k % 2:
        moment = (mixed_moment(k - 1, 0, a) * mixed_moment(k + 1, 0, a)).sqrt()
    return exact, moment * (constant + ball(deviation))


def test_even_terms_need_two_to_the_k_and_odd_ones_nothing():
    with flint.ctx.workprec(600):
        exact, printed = exact_and_printed(4, 100, "0.05", 4)
        assert round(float(exact / printed), 1) == 3.6
        exact, printed = exact_and_printed(6, 100, "0.05", 4)
        assert float(exact / printed) > 8
        for k, order, a in itertools.product(range(2, 9), (2, 3, 14, 100), ("0.01", "0.3", "1.5")):
            exact, bound = exact_and_printed(k, order, a, 0 if k % 2 else 2**k)
            assert exact <= bound
            if k == 2:
                assert exact <= exact_and_printed(2, order, a, 4)[1]
        # at the limit the factor is 2^k / 4
        for k in (4, 6):
            exact, printed = exact_and_printed(k, 10**6, "0.0001", 4)
            assert float(exact / printed) == pytest.approx(2**k / 4, rel=1e-3)


def golden(name):
    with (ROOT / "tests" / "golden" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_printed_total_holds_at_the_orders_that_are_used():
    """Theorem 11, (5): with B_3 = sqrt(M_2 M_4) from exact moments of u, far inside at every row of the document."""
    rows = golden("pgbb_sigma.csv")
    assert len(rows) == 42
    for row in rows:
        gamma, blocks, alpha = float(row["gamma"]), int(row["S"]), float(row["alpha"])
        weight = BetaWeight(gamma, (blocks - 1) * gamma + alpha)
        r = float(row["C"]) / (float(row["sigma_paper"]) * (int(row["n"]) // blocks))
        moments = np.exp(weight.log_even_moments(40))
        j = np.arange(40)
        powers = moments * (r * r / 2) ** j / special.factorial(j)

        def average(k, powers=powers):
            base = np.array([falling_coefficient(i, k) for i in range(40)], dtype=float)
            return math.factorial(k) * float(base @ powers)

        assert float(row["q"]) * float(row["lam_paper"]) * math.sqrt(average(4) / average(2)) < 0.9


def falling_coefficient(j, k):
    """G(j, k): [x(x-1)]^j in falling factorials, by k-th differences at 0."""
    return sum((-1) ** (k - x) * math.comb(k, x) * (x * (x - 1)) ** j for x in range(k + 1)) // math.factorial(k)


@pytest.mark.parametrize(
    ("q", "order", "a", "m"),
    [(0.1, 14, 0.2, 5), (0.2, 4, 1.0, 5), (0.01, 17, 0.35, 5), (0.3, 2, 0.5, 3), (0.05, 8, 0.3, 9), (0.5, 3, 0.1, 4)],
)
def test_the_series_lies_above_the_moment(q, order, a, m):
    """Theorem 10, at a fixed weight; the printed constants too, where (5) holds."""
    step = SubsampledGaussian(probability=q, shift=a, weight=FixedWeight())
    moment = log_moment_upper(step, order) * (1 - 1e-6)
    fixed, printed = (
        series_log_moments_upper(step, highest_order=order, even_constant=constant, moments=64, expansion=m)[-1]
        for constant in ("fixed", "printed")
    )
    assert moment <= fixed
    with flint.ctx.workprec(200):
        ratio = float((mixed_moment(4, 0, flint.arb(a)) / mixed_moment(2, 0, flint.arb(a))).sqrt())
    if m == 5 and q * order * ratio <= 1:
        assert moment <= printed


# ------------------------------------------------------------------ calibration and monotonicity


def test_the_step_covers_both_readings_of_a_float():
    """C and sigma as doubles, or as the decimals that they print as: r is at least all four quotients."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        bound, sigma = (float(x) for x in np.exp(rng.normal(0, 2, 2)))
        if rng.random() < 0.3:
            bound = math.nextafter(2.0 ** int(rng.integers(-8, 8)), 0)
        training = PlainTraining(probability="0.1", steps=1, gradient_bound=bound)
        step = training.event(sigma).step()
        for c, s in itertools.product((Fraction(bound), Fraction(str(bound))), (Fraction(sigma), Fraction(str(sigma)))):
            assert step is not None
            assert Fraction(step.shift) >= c / s


def test_the_weight_is_rounded_to_larger_weights():
    """Beta's parameters against those of the Dirichlet law that is drawn from, all in doubles."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        blocks, pseudo = int(rng.integers(1, 400)), int(rng.integers(1, 400))
        gamma, alpha = float(np.exp(rng.normal(0, 2))), float(np.exp(rng.normal(0, 3)))
        weight = BlockedTraining(
            records=400, blocks=blocks, gamma=gamma, alpha=alpha, probability="0.1", steps=1, gradient_bound=1
        ).weight
        drawn_rest = (blocks - 1) * Fraction(gamma) + pseudo * Fraction(alpha / pseudo)
        assert Fraction(weight.first) >= Fraction(gamma)
        assert Fraction(weight.second) <= drawn_rest


def test_even_moments_fall_in_gamma_and_alpha():
    def moments(gamma, alpha, blocks=7):
        total, value, result = blocks * gamma + alpha, Fraction(1), []
        for i in range(12):
            value *= (gamma + i) / (total + i)
            result.append(value)
        return result[1::2]

    grid = [Fraction(k, 5) for k in range(1, 12)]
    for one, two in itertools.pairwise(grid):
        assert all(x > y for x, y in zip(moments(one, Fraction(0)), moments(two, Fraction(0)), strict=True))
        assert all(x > y for x, y in zip(moments(Fraction(1), one), moments(Fraction(1), two), strict=True))
    # with pseudo-samples the mean of u grows with gamma, and so may its moments
    assert moments(Fraction(1, 10), Fraction(50))[0] < moments(Fraction(1), Fraction(50))[0]


def test_a_longer_expansion_can_ask_for_more_noise():
    training = BlockedTraining(
        records=10000, blocks=20, gamma=gamma_star(10000, 20), probability="0.1", steps=10000, gradient_bound=2.648291
    )
    short, long = (
        calibrate_sigma(
            training, epsilon=4, delta="1e-4", method="paper", paper=PaperBound(even_constant="printed", expansion=m)
        ).sigma
        for m in (5, 14)
    )
    assert 1.3 < long / short < 1.5


# ------------------------------------------------------------------ gradients

R = math.sqrt(3)
BOX = {"covariates": ("a", "b", "c"), "covariate_bound": R, "coefficient_box": (-5.0, 5.0)}
LOSSES = {
    "huber": HuberLoss(**BOX, scale_box=(0.01, 10.0)),
    "wide huber": HuberLoss(**{**BOX, "covariate_bound": 0.1}, scale_box=(0.01, 10.0), kappa=9.0),
    "quantile": QuantileLoss(**BOX),
    "logistic": LogisticLoss(**BOX),
    "gaussian": MeanLoss(data_bounds=(-5.0, 5.0), sd=0.5, clip=8.0),
    "exponential": MeanLoss(data_bounds=(0.0, 12.0), clip=8.0, family="exponential"),
    "scores": BradleyTerryLoss(items=("p", "q", "r", "s"), score_box=(-4.0, 4.0)),
    "custom": CustomLoss(
        value=lambda theta, records, _=None: (records[0] - theta[0]) ** 2 / 2,
        gradient=lambda theta, records, _=None: (theta[0] - records[0])[:, None] * 1000,
        bound=3.0, names=("m",), lower=(-5.0,), upper=(5.0,), start=(0.0,),
    ),
}  # fmt: skip


def records_of(name, rng, n):
    """Records of a loss's domain, extreme ones among them."""
    if name == "scores":
        left = rng.integers(0, 4, (n, 5))
        right = (left + rng.integers(1, 4, (n, 5))) % 4
        return left, right, rng.choice([0.0, 0.5, 1.0], (n, 5)), rng.integers(0, 6, n)
    y = rng.standard_t(3, n) * rng.choice([0.1, 1.0, 100.0], n)
    if name in ("gaussian", "exponential", "custom"):
        return (np.abs(y) if name == "exponential" else y,)
    x = np.where(rng.random((n, 3)) < 0.3, rng.choice([-1.0, 1.0], (n, 3)), rng.uniform(-1, 1, (n, 3)))
    if name == "wide huber":
        x /= 10 * R
    return x, (y > 0) * 1.0 if name == "logistic" else y


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "custom"])
def test_norms_of_gradients_stay_below_their_bounds_and_reach_them(name):
    rng = np.random.default_rng(7)
    loss = LOSSES[name]
    largest = 0.0
    for _ in range(60):
        records = records_of(name, rng, 300)
        theta = rng.uniform(loss.lower, loss.upper)
        if name == "scores":
            theta *= 50
        level = None if loss.levels is None else float(rng.choice(loss.levels))
        norms = np.linalg.norm(loss.gradient(theta, records, level), axis=-1)
        assert norms.max() <= loss.bound_at(level) <= loss.bound
        largest = max(largest, float(norms.max()))
    assert largest > 0.97 * loss.bound
    if name.endswith("huber"):  # the form with max, over all t
        t = np.linspace(0, loss.c**2, 2001)
        form = np.sqrt(np.max(t * loss.covariate_bound**2 + (loss.kappa - t) ** 2 / 4))
        assert form == pytest.approx(loss.bound, rel=1e-12)
        assert (form == pytest.approx(loss.kappa / 2)) == (name == "wide huber")


# ------------------------------------------------------------------ the statistic

HOSTILE = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-45, 1e20, 0.0)


def hostile(records, rng):
    """Every entry something that no record should hold."""
    return tuple(
        rng.choice(HOSTILE, column.shape)
        if column.dtype.kind == "f"
        else rng.choice([-7, 99, 2**31 - 1, -(2**31)], column.shape)
        for column in records
    )


def compiled_integers(loss, grid):
    """All integers of all rows: the rows of a minibatch gathered, vectorised over draws, scanned over steps."""
    import jax
    import jax.numpy as jnp

    def run(records, thetas, positions, caps, levels):
        def of_draw(theta, places, cap, level):
            batch = tuple(column[places] for column in records)
            return integer_contributions(loss.gradient(theta, batch, level), cap, grid.gradient_bound)

        return jax.lax.scan(lambda _, drawn: (0, jax.vmap(of_draw)(*drawn)), 0, (thetas, positions, caps, levels))[1]

    program = jax.jit(run)

    def integers(records, *drawn):
        with np.errstate(all="ignore"):
            single = tuple(jnp.asarray(c, jnp.float32 if c.dtype.kind == "f" else jnp.int32) for c in records)
        return np.asarray(program(single, *drawn))

    return integers


@pytest.mark.parametrize("name", list(LOSSES))
def test_integers_of_a_record_depend_on_nothing_else(name):
    """(C3), bit for bit in one compiled program: other rows hostile or without a cap, and all places exchanged."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(8)
    loss, n = LOSSES[name], 150
    grid = Grid.for_bound(loss.bound, divisor=30)
    records = tuple(np.concatenate([c, np.zeros_like(c[:1])]) for c in records_of(name, rng, n))
    cap_of = np.append(rng.integers(2**20, 2**24, n), 0).astype(np.int32)
    with jax.enable_x64():
        integers = compiled_integers(loss, grid)
        for room in (56,) if name != "huber" else (56, 152):
            steps, draws = 6, 2
            thetas = rng.uniform(loss.lower, loss.upper, (steps, draws, len(loss.names))).astype(np.float32)
            levels = rng.choice(loss.levels or (0.0,), (steps, draws)).astype(np.float32)
            positions = np.full((steps, draws, room), n, np.int32)
            for row in positions.reshape(-1, room):
                row[: room - 3] = np.sort(rng.choice(n, room - 3, replace=False))
            found = integers(records, thetas, positions, cap_of[positions], levels)
            assert np.abs(found).max() > 2**18
            # one record joins at the front: everybody else moves by one place
            moved = np.roll(positions, 1, axis=-1)
            np.testing.assert_array_equal(
                integers(records, thetas, moved, cap_of[moved], levels), np.roll(found, 1, axis=2)
            )
            order = rng.permutation(room)
            np.testing.assert_array_equal(
                integers(records, thetas, positions[..., order], cap_of[positions[..., order]], levels),
                found[:, :, order],
            )
            # all others are replaced by hostile records, with their caps and without
            kept = rng.random(n + 1) < 0.2
            strange = tuple(
                np.where(kept.reshape(-1, *[1] * (c.ndim - 1)), c, h)
                for c, h in zip(records, hostile(records, rng), strict=True)
            )
            same = kept[positions]
            for caps in (cap_of, np.where(kept, cap_of, 0).astype(np.int32)):
                other = integers(strange, thetas, positions, caps[positions], levels)
                np.testing.assert_array_equal(other[same], found[same])
                wide = other.astype(np.int64)
                assert np.all((wide * wide).sum(axis=-1) <= caps[positions].astype(np.int64) ** 2)


def test_integers_of_a_gradient_that_mixes_records_are_caught():
    """The power of the test above: a gradient less its mean over the batch depends on who else is there."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(12)
    mixing = CustomLoss(
        value=lambda theta, records, _=None: (records[0] - theta[0]) ** 2 / 2,
        gradient=lambda theta, records, _=None: (theta[0] - records[0] + 1e-3 * records[0].mean())[:, None],
        bound=3.0, names=("m",), lower=(-5.0,), upper=(5.0,), start=(0.0,),
    )  # fmt: skip
    records, other = (rng.normal(size=40),), (rng.normal(size=40),)
    other[0][:20] = records[0][:20]
    positions, caps = np.arange(40, dtype=np.int32)[None, None], np.full((1, 1, 40), 2**22, np.int32)
    with jax.enable_x64():
        integers = compiled_integers(mixing, Grid.for_bound(3.0, divisor=8))
        drawn = np.zeros((1, 1, 1), np.float32), positions, caps, np.zeros((1, 1), np.float32)
        assert (integers(records, *drawn)[0, 0, :20] != integers(other, *drawn)[0, 0, :20]).any()


def test_rounding_a_float_sum_moves_it_by_more_than_a_record_weighs():
    """A contribution of .3 steps moves a rounded sum by 1, and single-precision sums do as much by themselves."""
    assert round(0.4 + 0.3) - round(0.4) == 1
    one = np.float32(2**24)
    assert (one + np.float32(1.01)) - (one + np.float32(0.99)) == 2
    rng = np.random.default_rng(9)
    moved = 0.0
    for _ in range(200):
        others, small = rng.random(400, dtype=np.float32), np.float32(1e-6)
        one, two = (
            float(np.add.accumulate(np.concatenate([[x], others]), dtype=np.float32)[-1]) for x in (small, -small)
        )
        moved = max(moved, abs(one - two) / (2 * float(small)))
    assert moved > 3  # so many times farther than the two contributions lie apart


def test_sums_of_integers_fit():
    """Theorem 17: the largest sum of caps, and the comparison of squared norms."""
    for records, blocks in ((2**31 - 1, 3), (2**31 - 1, 2**15), (1000, 999), (7, 7)):
        divisor = records // blocks
        grid = Grid.for_bound(3.7, divisor=divisor)
        top = int(grid.caps(np.ones(1))[0])
        assert top <= 2**24
        assert (divisor + 1) * top <= 2**25 * divisor < 2**56  # all weight on one block of the larger size
        assert Fraction(top) * grid.spacing <= Fraction(3.7) / divisor
    assert (2**15 - 1) * (2**24) ** 2 < 2**63 <= 2**15 * (2**24) ** 2
    wide = integer_contributions(np.full((1, 2**15 - 1), np.float32(3e38)), np.full(1, 2**24, np.int32), 1.0)
    assert (wide.astype(object) ** 2).sum() <= 2**48


def test_rounding_commutes_with_integers():
    """Theorem 18, and that the noise added is the sampler's own on sigma / g, a rational."""
    rng = np.random.default_rng(10)
    for total, numerator in zip(rng.integers(-(10**9), 10**9, 300).tolist(), rng.integers(-999, 999, 300), strict=True):
        z = Fraction(int(numerator), 7) + Fraction(1, 1000)
        assert round(total + z) == total + round(z)
    grid = Grid.for_bound(2.0, divisor=10)
    scale = grid.noise_scale(0.013)
    assert scale == Fraction(0.013) / grid.spacing
    noise = integer_noise(grid, 0.013, (40, 2), InsecureBits(seed=3))
    assert noise.ravel().tolist() == rounded_gaussian_array(scale, 80, InsecureBits(seed=3)).tolist()


# ------------------------------------------------------------------ inclusion, weights, gamma*


def test_the_room_of_a_minibatch_is_hardly_ever_outgrown():
    for records, q in itertools.product((5, 40, 1000, 10**5, 10**7), ("1e-7", "1e-4", "0.01", "0.1", "0.5", "0.99")):
        sampling = PoissonSampling.of(q)
        assert stats.binom.sf(sampling.room(records), records, float(sampling.probability)) < 1e-20


def test_what_is_drawn_does_not_look_at_records():
    """Coins, caps, weights, levels and noise know how many records there are, and no more of them."""
    assert set(_Draw.__slots__) == {"people", "pseudo", "plan", "loss", "grid", "sigma", "bits", "public"}
    plan = TrainingPlan(blocks=4, steps=3, draws=2, probability="0.3")
    draw = _Draw(
        people=50,
        pseudo=0,
        plan=plan,
        loss=LOSSES["quantile"],
        grid=Grid.for_bound(1.0, divisor=12),
        sigma=0.1,
        bits=InsecureBits(seed=1),
        public=np.random.default_rng(1),
    )
    segment = next(draw.segments())
    assert segment.positions.shape[-1] == PoissonSampling.of("0.3").room(50)
    assert segment.positions.max() <= 50


def test_a_block_s_weight_has_the_beta_law_whatever_the_pseudo_blocks():
    """Theorem 20 (a): moments of one Dirichlet coordinate depend on its own mass and the total alone, exactly."""

    def moment(masses, power):
        value = Fraction(1)
        for i in range(power):
            value *= (masses[0] + i) / (sum(masses) + i)
        return value

    gamma, alpha = Fraction(9, 10), Fraction(7, 3)
    for pseudo, power in itertools.product((1, 2, 9), range(1, 7)):
        masses = [gamma] * 5 + [alpha / pseudo] * pseudo
        beta = Fraction(1)
        for i in range(power):
            beta *= (gamma + i) / (5 * gamma + alpha + i)
        assert moment(masses, power) == beta
    # and the law that is drawn is that one: a Kolmogorov-Smirnov distance, with the power to tell alpha from 0
    from psephos.bootstrap.block_weights import dirichlet_weights

    u = dirichlet_weights(5, 0.9, 40_000, np.random.default_rng(11), alpha=2.0, pseudo_blocks=3)[:, 2]
    assert stats.kstest(u, stats.beta(0.9, 5.6).cdf).pvalue > 1e-6
    assert stats.kstest(u, stats.beta(0.9, 3.6).cdf).pvalue < 1e-6


def test_noise_at_gamma_star_does_not_depend_on_blocks():
    """Theorem 22, in exact arithmetic."""
    for n, blocks in itertools.product((40, 1000, 65_020), (3, 5, 20)):
        gamma = Fraction(blocks * (n + 1) - 2 * n, blocks * (n - 1))
        assert gamma_star(n, blocks) == pytest.approx(float(gamma), rel=1e-14)
        assert blocks**2 * (gamma + 1) / (blocks * (blocks * gamma + 1)) == Fraction(2 * n, n + 1)


# ------------------------------------------------------------------ noisy sums and the normal posterior


def test_squares_lie_closer_than_other_matrices():
    """Theorem 23, (7): random integer matrices of trace cap^2 at most; symmetric ones of that norm can lie farther."""
    rng = np.random.default_rng(13)
    cap = 1000
    widest = 0
    for _ in range(400):
        k, r = rng.integers(1, 4), rng.integers(1, 4)
        parts = []
        for _ in range(2):
            z = rng.normal(size=(k, r)) * (rng.random((k, r)) < 0.6)
            z = np.trunc(z * cap / max(np.linalg.norm(z), 1e-9)).astype(int)
            assert (z * z).sum() <= cap**2
            parts.append(z.T @ z)
        assert (parts[0] * parts[1]).sum() >= 0
        widest = max(widest, int(((parts[0] - parts[1]) ** 2).sum()))
    assert 0.99 * 2 * cap**4 < widest <= 2 * cap**4
    one, other = np.diag([cap**2, 0]), np.diag([0, cap**2])
    assert ((one - other) ** 2).sum() == 2 * cap**4
    assert ((one + one) ** 2).sum() == 4 * cap**4  # cap^2 e_1 e_1^T against its opposite, which is no square


def test_noise_on_symmetric_matrices_prefers_no_direction():
    """Theorem 24: |A|_F^2/sigma^2 is a squared distance in units of each entry's noise, and rotations keep the law."""
    rng = np.random.default_rng(14)
    for _ in range(50):
        a = rng.integers(-9, 9, (4, 4))
        a = a + a.T
        above = a[np.triu_indices(4, 1)]
        assert Fraction(int((a * a).sum()), 7) == sum(
            [Fraction(int(x) ** 2, 7) for x in np.diag(a)] + [int(x) ** 2 / (Fraction(7) / 2) for x in above]
        )
    eye = np.eye(4)
    law = (np.einsum("ac,bd->abcd", eye, eye) + np.einsum("ad,bc->abcd", eye, eye)) / 2  # E E_ab E_cd
    assert law[0, 0, 0, 0] == 1
    assert law[0, 1, 0, 1] == law[0, 1, 1, 0] == 0.5
    q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    np.testing.assert_allclose(np.einsum("ia,jb,kc,ld,abcd->ijkl", q, q, q, q, law), law, atol=1e-14)
    full = law + np.diag(np.full(16, 0.5)).reshape(4, 4, 4, 4) * (1 - np.einsum("ab,cd->abcd", eye, eye))
    assert np.abs(np.einsum("ia,jb,kc,ld,abcd->ijkl", q, q, q, q, full) - full).max() > 0.05  # equal variances do
    # what draws put back has this law too
    noise = symmetric_noise((40_000, 4), rng).reshape(-1, 16)
    deviation = np.cov(noise.T) - law.reshape(16, 16)
    assert np.abs(deviation).max() < 6 * math.sqrt(2 / 40_000)


def test_a_unit_that_earlier_releases_choose_costs_nothing():
    """Theorem 25: y_1 chooses the shift of y_2, up to mu_2, and the unit it comes in; H_c by a grid, at many c."""
    first, second = np.linspace(-8, 9, 801)[:, None], np.linspace(-14, 14, 1601)[None, :]
    cell = (first[1, 0] - first[0, 0]) * (second[0, 1] - second[0, 0])
    mu_1, mu_2 = 0.7, 1.1
    mu, unit = math.hypot(mu_1, mu_2), np.exp(np.sin(3 * first) / 2)

    def density(x, shift):
        exponent = (first - x * mu_1) ** 2 + (second / unit - x * shift) ** 2
        return np.exp(-exponent / 2) / unit / (2 * math.pi)

    for shift, attained in ((np.where(first > 0.2, mu_2, -mu_2), True), (mu_2 * np.tanh(first), False)):
        p, q = density(1, shift), density(0, shift)
        for c in (0.2, 0.7, 1.0, 1.5, 4.0):
            worst = float(special.ndtr(mu / 2 - math.log(c) / mu) - c * special.ndtr(-mu / 2 - math.log(c) / mu))
            found = float(np.maximum(p - c * q, 0).sum()) * cell
            assert found <= worst + 1e-5
            assert (found > worst - 1e-5) == attained


def test_products_of_integers_fit():
    """Section 13: sums and products of fewer than 2^31 people."""
    people = 2**31 - 1
    assert SUM_CAP == 2**24
    assert _GRAM_CAP == 2**15
    assert people * SUM_CAP < 2**55
    assert people * _GRAM_CAP**2 < 2**61 < 2**63
    assert _ROWS == 2**20
    assert _ROWS * _GRAM_CAP**2 == 2**50
    assert SUM_CAP**2 == 2**48 < 2**53


@pytest.mark.parametrize(("rows", "d", "r"), [(1, 4, 3), (7, 4, 3), (1000, 4, 3), (16_384, 9, 8), (500, 33, 32)])
def test_rows_of_a_product_with_a_public_matrix_do_not_touch(rows, d, r):
    """Section 13, bit for bit: all other rows are replaced by numbers that no record should give."""
    rng = np.random.default_rng(15)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0][:, :r]
    gradients = rng.normal(size=(rows, d)) * 10.0 ** rng.integers(-8, 8, (rows, 1))
    kept = rng.random(rows) < 0.5
    strange = np.where(kept[:, None], gradients, rng.choice([np.nan, np.inf, -1e308, 5e-324, 0.0], (rows, d)))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((strange @ basis)[kept], (gradients @ basis)[kept])
        roots = np.stack([strange, strange], axis=1), np.stack([gradients, gradients], axis=1)
        np.testing.assert_array_equal((roots[0] @ basis)[kept], (roots[1] @ basis)[kept])


def test_a_newton_step_errs_by_second_order():
    """Theorem 27, (9), for logistic regression: |p (1 - p)'| <= 1/(6 sqrt(3)), so L = R^3/(6 sqrt(3))."""
    rng = np.random.default_rng(16)
    loss = LOSSES["logistic"]
    x = rng.uniform(-1, 1, (2000, 3))
    records = x, (rng.random(2000) < special.expit(x @ [1.0, -0.5, 2.0])) * 1.0
    best = np.asarray(weighted_m_estimate(records, loss, tolerance=1e-12))

    def hessian(theta):
        roots = loss.curvature_root(theta, records)[:, 0]
        return roots.T @ roots / 2000

    lipschitz, ahead, aside = R**3 / (6 * math.sqrt(3)), rng.normal(size=3), rng.normal(size=3)
    errors = []
    for size in (0.4, 0.2, 0.1, 0.05):
        place, other = best + size * ahead, best + size * aside
        inverse = np.linalg.inv(hessian(other))
        error = place - inverse @ loss.gradient(place, records).mean(axis=0) - best
        reach = np.linalg.norm(place - best)
        limit = np.linalg.norm(inverse, 2) * lipschitz * (reach / 2 + np.linalg.norm(other - place)) * reach
        errors.append(float(np.linalg.norm(error)))
        assert errors[-1] <= limit
    for one, half in itertools.pairwise(errors):
        assert 3 < one / half < 5


def posterior(**changed):
    """Two coordinates, many people, and no noise on curvature and scores."""
    settings = {
        "names": ("a", "b"), "lower": (-50.0, -50.0), "upper": (50.0, 50.0), "levels": None, "people": 10**6,
        "logs": (), "frame": np.eye(2), "place": np.array([[1.0, 2.0]]),
        "gradient": np.array([0.3, -0.2]), "gradient_sd": 0.02,
        "curvature": np.array([[[2.0, 0.5], [0.5, 1.0]]]), "curvature_sd": np.zeros(1),
        "scores": np.array([[900.0, 300.0], [300.0, 500.0]]), "scores_sd": 0.0, "scores_bound": 5000.0,
        "guarantee": Guarantee(epsilon=Fraction(1), delta=Fraction(1, 10**6)), "secure": False,
    }  # fmt: skip
    return NormalPosterior(**{**settings, **changed})


def test_draws_have_the_covariance_of_the_sandwich():
    """Theorem 28, (10): to five standard errors of a covariance from 200,000 draws; without the noise they have not."""
    given = posterior()
    inverse = np.linalg.inv(given.curvature[0])
    expected = inverse @ (given.scores / given.people + given.gradient_sd**2 * np.eye(2)) @ inverse
    np.testing.assert_allclose(given.estimate(), given.place[0] - inverse @ given.gradient, rtol=1e-12)
    draws = given.sample(200_000, rng=np.random.default_rng(17)).values
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / len(draws))
    assert (np.abs(draws.mean(axis=0) - given.estimate()) < 5 * np.sqrt(np.diag(expected) / len(draws))).all()
    found = np.cov(draws.T)
    assert (np.abs(found - expected) < 5 * error).all()
    assert (np.abs(found - inverse @ (given.scores / given.people) @ inverse) > 5 * error).any()
    # few people: the sum of squares over a chi^2 of n - r degrees of freedom, of mean 1/(n - r - 2)
    few = posterior(people=60, gradient_sd=0.0, scores=np.eye(2) * 0.5).sample(200_000, rng=np.random.default_rng(18))
    ratio = np.trace(np.cov(few.values.T)) / np.trace(inverse @ inverse) / 0.5 * 56
    assert abs(ratio - 1) < 5 * math.sqrt(2 / 56) / math.sqrt(WORLDS)


def test_noise_put_back_on_curvature_widens_draws_up_to_the_box():
    assert _FLAT == 1e-9
    assert _HIDDEN == 2
    assert WORLDS == 256
    assert stats.norm.sf(2.6) < 0.005  # of releases, where H is flat and H~ is above 2.6 standard deviations
    assert stats.norm.cdf(1 - 2.6) > 0.05  # of draws from one at 2.6
    assert stats.norm.sf(2) < 0.023  # above the bar for one direction that is hidden; below, half of draws at least
    widths = []
    for sd in (0.0, 0.01, 0.3, 30.0):
        draws = posterior(curvature_sd=np.array([sd])).sample(20_000, rng=np.random.default_rng(19)).values
        assert (np.abs(draws) <= 50).all()
        assert (sd > 0.1) == (np.abs(draws) > 10).any()
        widths.append(float(np.diff(np.quantile(draws[:, 1], [0.05, 0.95]))[0]))
    assert widths[1] == pytest.approx(widths[0], rel=0.05)
    assert widths[0] < widths[2] < widths[3]
    assert widths[3] > 50  # of 100: the box


def test_what_does_not_bend_may_be_anywhere_along_its_direction_alone():
    """One direction of three is flat, another bends downward: uniform along these, a Newton step along the third."""
    q = np.linalg.qr(np.random.default_rng(20).normal(size=(3, 3)))[0]
    for eigenvalues in ([2.0, 0.0, -0.5], [2.0, 1e-10, -3e-9]):
        given = posterior(
            names=("a", "b", "c"), lower=(-50.0,) * 3, upper=(50.0,) * 3, frame=np.eye(3),
            place=np.array([[1.0, 2.0, 3.0]]), gradient=np.array([0.3, -0.2, 0.1]),
            curvature=(q * eigenvalues @ q.T)[None], scores=np.eye(3),
        )  # fmt: skip
        np.testing.assert_allclose(given.estimate() - given.place[0], -q[:, 0] * (q[:, 0] @ given.gradient) / 2)
        draws = given.sample(20_000, rng=np.random.default_rng(21)).values
        assert (np.abs(draws) <= 50).all()
        inside = (np.abs(draws) < 50).all(axis=1)  # where nothing was cut
        along = (draws[inside] - given.place[0]) @ q
        assert abs(along[:, 0].mean() - (given.estimate() - given.place[0]) @ q[:, 0]) < 1e-3
        assert along[:, 0].std() < 0.02
        assert along[:, 1:].std(axis=0).min() > 10
        ends = np.quantile(draws, [0.025, 0.975], axis=0)
        allowed = [  # by the box, with the part along q_1 that the step gives
            [optimize.linprog(s * e, A_eq=[q[:, 0]], b_eq=[q[:, 0] @ given.estimate()], bounds=[(-50, 50)] * 3).fun * s
             for e in np.eye(3)] for s in (1, -1)
        ]  # fmt: skip
        np.testing.assert_allclose(ends, allowed, rtol=0.05)
        assert given.hardly_known() == ("a", "b", "c")
    noisy = posterior(curvature_sd=np.array([0.5]))  # H~ has the eigenvalues .79 and 2.21
    values, vectors = np.linalg.eigh(noisy.curvature[0])
    step = vectors[:, 1] * (vectors[:, 1] @ noisy.gradient) / values[1]
    np.testing.assert_allclose(noisy.estimate(), noisy.place[0] - step)


def test_draws_do_not_depend_on_the_frame():
    """The same posterior in other coordinates z: theta_0 + F z has the same mean and covariance."""
    given, frame = posterior(), np.array([[2.0, 0.3], [-0.4, 0.5]])
    other = posterior(
        frame=frame, gradient=frame.T @ given.gradient, curvature=(frame.T @ given.curvature[0] @ frame)[None],
        scores=frame.T @ given.scores @ frame, gradient_sd=0.0,
    )  # fmt: skip
    plain = posterior(gradient_sd=0.0)
    np.testing.assert_allclose(other.estimate(), given.estimate(), rtol=1e-12)
    found = [np.cov(one.sample(100_000, rng=np.random.default_rng(22)).values.T) for one in (plain, other)]
    np.testing.assert_allclose(found[1], found[0], rtol=0.04)

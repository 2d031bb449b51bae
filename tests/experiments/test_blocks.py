"""Blocks: exact identities by enumeration, draws against explicit solutions, laws of the random parts, sizes."""

import tracemalloc
from collections import Counter
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rivals.blocks import (
    Partition,
    RidgeRegression,
    bayesian_bootstrap,
    blocked_bootstrap,
    blocked_covariance,
    dispersion_ratio,
    ordinary_covariance,
    random_partition,
    variance_gap,
    wasserstein_rate,
)
from rivals.m_estimate import Problem, weighted_m_estimate
from scipy.stats import chi2

from psephos.bootstrap.block_weights import dirichlet_weights, gamma_star
from psephos.bootstrap.losses import HuberLoss, LogisticLoss, QuantileLoss
from psephos.errors import ParameterError

ALARM = 1e-6
SIZES = st.integers(3, 10**7).flatmap(lambda n: st.tuples(st.just(n), st.integers(3, n)))


@pytest.mark.parametrize(
    ("records", "blocks", "gamma"), [(10_000, 20, 0.9002), (10_000, 5, 0.6002), (65_020, 5, 0.6), (500, 20, 0.9038)]
)
def test_gamma_star_of_the_documents_settings(records, blocks, gamma):
    assert round(gamma_star(records, blocks), 4) == gamma


@given(SIZES)
def test_gamma_star_matches_the_dispersion(sizes):
    records, blocks = sizes
    gamma = gamma_star(records, blocks)
    assert 1 - 2 / blocks <= gamma <= 1
    assert dispersion_ratio(records, blocks, gamma) == pytest.approx(1, abs=1e-12)
    assert variance_gap(records, blocks, gamma) == pytest.approx(0, abs=1e-12 / records)
    assert dispersion_ratio(records, blocks, gamma * 1.01) < 1 < dispersion_ratio(records, blocks, gamma * 0.99)
    if blocks >= 5:
        assert blocks * gamma >= 3 * (1 - 1e-15)
        assert wasserstein_rate(records, blocks, gamma).dispersion < 1e-7


@given(SIZES, st.floats(0.05, 20))
def test_variance_gap_is_corollary_4_1(sizes, gamma):
    n, s = sizes
    printed = (s - 1) / ((s * gamma + 1) * (n - 1)) - 1 / (n + 1)
    assert variance_gap(n, s, gamma) == pytest.approx(printed, rel=1e-6, abs=1e-13 / n)


def test_slope_of_the_gap_at_gamma_star_is_that_of_remark_4_1():
    n, s = 1000, 8
    gamma, step = gamma_star(n, s), 1e-5
    slope = (variance_gap(n, s, gamma + step) - variance_gap(n, s, gamma - step)) / (2 * step)
    assert slope == pytest.approx(-s * (n - 1) / ((s - 1) * (n + 1) ** 2), rel=1e-8)


def all_partitions(sizes):
    """Every assignment of records to labelled blocks of these sizes."""
    block = np.repeat(np.arange(len(sizes)), sizes)
    for order in set(permutations(block.tolist())):
        yield Partition(block=np.array(order), blocks=len(sizes))


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 3), (1, 1, 1, 1), (3, 2, 2), (2, 2, 1, 1)])
@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
def test_mean_variance_over_all_partitions_is_the_closed_form(sizes, gamma):
    """Lemma S2.3 for equal blocks; for others the factor h of the module's text."""
    n, s = sum(sizes), len(sizes)
    scores = np.random.default_rng(4).normal(size=(n, 2)) + 7.0
    mean = np.mean([blocked_covariance(scores, p, gamma) for p in all_partitions(sizes)], axis=0)
    uneven = n / s**2 * sum(1 / m for m in sizes)
    assert 1 - 1e-12 <= uneven <= 1 + 1 / (4 * (n // s) * (n // s + 1)) + 1e-12
    expected = dispersion_ratio(n, s, gamma) * uneven * ordinary_covariance(scores)
    np.testing.assert_allclose(mean, expected, rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.4, 1.0])
def test_covariances_are_those_of_dirichlet_weights(gamma):
    """Against the covariance matrix of the weights themselves, Cov(u_k, u_l) = (K [k = l] - 1) / (K^2 (K a + 1))."""
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(11, 3))

    def matrix(count, mass):
        return (count * np.eye(count) - 1) / (count**2 * (count * mass + 1))

    np.testing.assert_allclose(ordinary_covariance(scores), scores.T @ matrix(11, 1.0) @ scores, rtol=1e-12)
    partition = random_partition(11, 4, rng)
    share = partition.record_weights(np.eye(4))
    np.testing.assert_allclose(
        blocked_covariance(scores, partition, gamma), scores.T @ share.T @ matrix(4, gamma) @ share @ scores, rtol=1e-12
    )


@given(st.integers(1, 40), st.data())
def test_partitions_are_balanced(records, data):
    blocks = data.draw(st.integers(1, records))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for remainder in ("spread", "drop"):
        partition = random_partition(records, blocks, rng, remainder=remainder)
        sizes = partition.sizes
        assert partition.records == records
        assert partition.divisor == records // blocks == sizes.min()
        assert sizes.sum() == (records if remainder == "spread" else records - records % blocks)
        assert sizes.max() <= (-(-records // blocks) if remainder == "spread" else records // blocks)
        u = rng.dirichlet(np.ones(blocks), 3)
        weights = partition.record_weights(u)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
        assert (weights.max(axis=1) <= u.max(axis=1) / partition.divisor).all()
        assert (weights[:, partition.block < 0] == 0).all()


@pytest.mark.parametrize(("records", "remainder", "outcomes"), [(4, "drop", 6), (5, "spread", 10), (5, "drop", 30)])
def test_every_partition_is_equally_likely(records, remainder, outcomes):
    rng = np.random.default_rng(12)
    seen = Counter(tuple(random_partition(records, 2, rng, remainder=remainder).block.tolist()) for _ in range(6000))
    assert len(seen) == outcomes
    expected = 6000 / outcomes
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < chi2.isf(ALARM, outcomes - 1)


def test_weights_have_the_dirichlet_moments():
    rng = np.random.default_rng(2)
    u = dirichlet_weights(4, 0.6, 40_000, rng, alpha=1.2, pseudo_blocks=3)
    assert u.shape == (40_000, 7)
    np.testing.assert_allclose(u.sum(axis=1), 1.0, atol=1e-12)
    mass = np.array([0.6] * 4 + [0.4] * 3)
    share, total = mass / mass.sum(), mass.sum()
    se = np.sqrt(share * (1 - share) / (total + 1) / len(u))
    assert (abs(u.mean(axis=0) - share) < 5.5 * se).all()  # 7 two-sided tests at 4e-8 each
    covariance = (np.diag(share) - np.outer(share, share)) / (total + 1)
    np.testing.assert_allclose(np.cov(u.T), covariance, atol=0.002)
    # A concentration a tenth off would show.
    assert abs(np.cov(u.T) - covariance * (total + 1) / (0.9 * total + 1)).max() > 0.002


def test_tiny_concentrations_give_proper_weights():
    u = dirichlet_weights(5, 1e-3, 200, np.random.default_rng(3))
    np.testing.assert_allclose(u.sum(axis=1), 1.0, atol=1e-12)


def explicit(x, y, weights, ridge):
    return np.array([np.linalg.solve((x.T * w) @ x + ridge * np.eye(x.shape[1]), (x.T * w) @ y) for w in weights])


@pytest.mark.parametrize("count", [40, 5000])
def test_ordinary_least_squares_draws_solve_each_weighting(count):
    x, y = np.random.default_rng(1).normal(size=(count, 3)), np.random.default_rng(2).normal(size=count)
    found = bayesian_bootstrap((x, y), RidgeRegression(ridge=0.3), draws=9, rng=np.random.default_rng(7))
    rng = np.random.default_rng(7)
    pieces = [rng.standard_exponential((9, len(part))) for part in np.split(y, range(4096, count, 4096))]
    weights = np.concatenate(pieces, axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, explicit(x, y, weights, 0.3), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("remainder", ["spread", "drop"])
def test_blocked_least_squares_draws_solve_each_weighting(remainder):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(43, 3)), rng.normal(size=43)
    partition = random_partition(43, 8, rng, remainder=remainder)
    found = blocked_bootstrap(
        (x, y), RidgeRegression(ridge=1e-4), partition=partition, gamma=0.8, draws=9, rng=np.random.default_rng(7)
    )
    weights = partition.record_weights(np.random.default_rng(7).dirichlet(np.full(8, 0.8), 9))
    np.testing.assert_allclose(found, explicit(x, y, weights, 1e-4), rtol=1e-9, atol=1e-12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """(y - x'theta)^2 / 2, as a general loss."""

    lower: tuple[float, ...] = (-50.0, -50.0)
    upper: tuple[float, ...] = (50.0, 50.0)
    start: tuple[float, ...] = (0.0, 0.0)
    levels: None = None

    def value(self, theta, records, level=None):  # noqa: ARG002
        return (records[1] - records[0] @ theta) ** 2 / 2

    def gradient(self, theta, records, level=None):  # noqa: ARG002
        return -(records[1] - records[0] @ theta)[:, None] * records[0]


def test_both_roads_give_the_same_draws():
    """Least squares in closed form and as a loss, from the same weights."""
    rng = np.random.default_rng(1)
    records = (rng.normal(size=(60, 2)), rng.normal(size=60))
    partition = random_partition(60, 7, rng, remainder="drop")
    for target in (RidgeRegression(), Square()):
        ordinary = bayesian_bootstrap(records, target, draws=20, rng=np.random.default_rng(3))
        blocked = blocked_bootstrap(
            records, target, partition=partition, gamma=0.7, draws=20, rng=np.random.default_rng(3)
        )
        if target == RidgeRegression():
            expected = ordinary, blocked
    np.testing.assert_allclose(ordinary, expected[0], atol=1e-6)
    np.testing.assert_allclose(blocked, expected[1], atol=1e-6)


def robust_records(n=500):
    rng = np.random.default_rng(11)
    x = rng.uniform(-1, 1, (n, 2))
    return x, x @ [1.0, -0.5] + 0.5 * rng.standard_t(4, n)


LOSSES = {
    "huber": (
        HuberLoss(covariates=("a", "b"), covariate_bound=2**0.5, coefficient_box=(-5, 5), scale_box=(0.01, 10)),
        None,
    ),
    "quantile": (
        QuantileLoss(covariates=("a", "b"), covariate_bound=2**0.5, coefficient_box=(-5, 5), levels=(0.25, 0.5)),
        0.25,
    ),
    "logistic": (LogisticLoss(covariates=("a", "b"), covariate_bound=2**0.5, coefficient_box=(-5, 5)), None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_draws_of_a_general_loss_scatter_as_linearised(name):
    """Traces of the draws' covariance within 25 % of H^-1 Cov(scores) H^-1: 4 standard errors of 300 draws and more."""
    loss, level = LOSSES[name]
    x, y = robust_records()
    records = (x, (y > 0).astype(float) if name == "logistic" else y)
    rng = np.random.default_rng(5)
    partition = random_partition(len(y), 50, rng)
    gamma = gamma_star(len(y), 50)
    theta = weighted_m_estimate(records, loss, level=level)
    problem = Problem(records=records, loss=loss, weights=np.full(len(y), 1 / len(y)), level=level)
    inverse = np.linalg.inv(problem.curvature(theta))
    scores = loss.gradient(theta, records, level) @ inverse
    for draws, expected in (
        (bayesian_bootstrap(records, loss, draws=300, rng=rng, level=level), ordinary_covariance(scores)),
        (
            blocked_bootstrap(records, loss, partition=partition, gamma=gamma, draws=300, rng=rng, level=level),
            blocked_covariance(scores, partition, gamma),
        ),
    ):
        assert draws.shape == (300, len(theta))
        assert np.trace(np.cov(draws.T)) == pytest.approx(np.trace(expected), rel=0.25)
        assert np.linalg.norm(draws.mean(axis=0) - theta) < 0.5 * np.sqrt(np.trace(expected))


def peak_megabytes(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_draws_are_streamed():
    """100 draws of 300000 weights would be 229 MiB."""
    rng = np.random.default_rng(1)
    records = (rng.normal(size=(300_000, 2)), rng.normal(size=300_000))
    assert peak_megabytes(lambda: bayesian_bootstrap(records, RidgeRegression(), draws=100, rng=rng)) < 60


@pytest.mark.slow
def test_a_million_records_and_a_thousand_draws_stay_below_a_gigabyte():
    """Beyond the data: least squares both ways, and a general loss draw by draw (a few of them)."""
    n = 10**6
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (n, 4))
    records = (x, x @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=n))
    partition = random_partition(n, 1000, rng)
    huber = HuberLoss(
        covariates=("a", "b", "c", "d"), covariate_bound=2.0, coefficient_box=(-5, 5), scale_box=(0.01, 10)
    )
    work = {
        "ordinary": lambda: bayesian_bootstrap(records, RidgeRegression(), draws=1000, rng=rng),
        "blocked": lambda: blocked_bootstrap(
            records, RidgeRegression(), partition=partition, gamma=1.0, draws=1000, rng=rng
        ),
        "huber": lambda: bayesian_bootstrap(records, huber, draws=3, rng=rng),
        "huber blocked": lambda: blocked_bootstrap(records, huber, partition=partition, gamma=1.0, draws=3, rng=rng),
    }
    for name, job in work.items():
        assert peak_megabytes(job) < 200, name


@pytest.mark.slow
def test_variances_agree_as_proposition_4_1_says():
    """|E Var_blocked - E Var_ordinary| = O(n^-3/2) at gamma*, and not at gamma = 1, where it falls as 1/n.

    Least squares in 6 blocks. Both variances are estimated without bias from a few draws each, over many data sets.
    Times n^(3/2), the difference at gamma* was 2.8, 2.8, .6 and 3.5 at n = 60, 120, 240 and 480 with standard errors of
    .3, .5, .7 and 1.0 in a longer run; at gamma = 1 it was -9.6, -16, -25 and -36.
    """
    rng = np.random.default_rng(20)
    target, blocks, count = RidgeRegression(ridge=1e-4), 6, 3000
    scaled = {}
    for n in (60, 240, 480):
        differences = np.empty((count, 2))
        for i in range(count):
            x = rng.uniform(-1, 1, (n, 2))
            records = (x, x @ [1.0, -1.0] + rng.normal(size=n))
            partition = random_partition(n, blocks, rng)
            ordinary = bayesian_bootstrap(records, target, draws=24, rng=rng).var(axis=0, ddof=1)
            for j, gamma in enumerate((gamma_star(n, blocks), 1.0)):
                draws = blocked_bootstrap(records, target, partition=partition, gamma=gamma, draws=24, rng=rng)
                differences[i, j] = (draws.var(axis=0, ddof=1) - ordinary).sum()
        scaled[n] = n**1.5 * differences.mean(axis=0)
    star, plain = (np.array([scaled[n][j] for n in scaled]) for j in (0, 1))
    assert (abs(star) < 10).all(), scaled
    assert plain[-1] < -20, scaled
    assert np.polyfit(np.log(list(scaled)), np.log(-plain), 1)[0] > 0.4, scaled


REGRESSION = (np.ones((6, 1)), np.arange(6.0))
HALVES = Partition(block=np.array([0, 0, 0, 1, 1, 1]), blocks=2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: gamma_star(100, 2), "blocks"),
        (lambda: gamma_star(4, 5), "records"),
        (lambda: gamma_star(100, 5.0), "blocks"),
        (lambda: dispersion_ratio(100, 1, 1.0), "blocks"),
        (lambda: dispersion_ratio(100, 5, float("nan")), "gamma"),
        (lambda: wasserstein_rate(100, 5, 0.59), "gamma must be >= 3 / blocks"),
        (lambda: wasserstein_rate(100, 2, 5.0), "blocks"),
        (lambda: random_partition(3, 4, np.random.default_rng(0)), "records"),
        (lambda: random_partition(8, 4, np.random.default_rng(0), remainder="ceil"), "remainder"),
        (lambda: Partition(block=np.array([0, 2]), blocks=2), "block must be"),
        (lambda: Partition(block=np.array([0.0, 1.0]), blocks=2), "block must be"),
        (lambda: Partition(block=np.array([0, 0]), blocks=2), "empty"),
        (lambda: HALVES.record_weights([0.2, 0.3, 0.5]), "block_weights"),
        (lambda: dirichlet_weights(3, 0.0, 1, np.random.default_rng(0)), "gamma"),
        (lambda: dirichlet_weights(3, 1.0, 1, np.random.default_rng(0), alpha=1.0), "pseudo_blocks"),
        (lambda: dirichlet_weights(3, 1.0, 1, np.random.default_rng(0), pseudo_blocks=2), "alpha"),
        (lambda: RidgeRegression(ridge=float("nan")), "ridge"),
        (lambda: ordinary_covariance([1.0, 2.0]), "scores"),
        (lambda: draw_from(draws=0), "draws"),
        (lambda: draw_from(level=0.5), "level"),
        (lambda: draw_from(records=(np.ones((6, 1)), np.full(6, np.nan))), "finite"),
        (lambda: draw_from(records=(np.ones(6), np.ones(6))), "X \\(n, p\\)"),
        (lambda: draw_from(records=(np.ones((6, 2)), np.ones(6))), "ridge"),
        (lambda: draw_from(records=(np.ones((7, 1)), np.ones(7))), "partition"),
        (lambda: draw_from(gamma=0.0), "gamma"),
    ],
)
def test_what_is_refused(call, match):
    with pytest.raises(ParameterError, match=match):
        call()


def draw_from(*, records=REGRESSION, gamma=1.0, draws=3, level=None):
    rng = np.random.default_rng(0)
    return blocked_bootstrap(
        records, RidgeRegression(), partition=HALVES, gamma=gamma, draws=draws, rng=rng, level=level
    )

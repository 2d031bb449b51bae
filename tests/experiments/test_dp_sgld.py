"""Private Langevin dynamics: the chain against a plain twin, its accounting, and the law that it samples."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from rivals import dp_sgld
from rivals.accountants import calibrate_sigma, epsilon_upper
from rivals.dp_sgld import SgldPlan, sample_dp_sgld, simulate_dp_sgld

from psephos.bootstrap.losses import HuberLoss, MeanLoss, QuantileLoss
from psephos.bootstrap.statistic import Grid
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits, epsilon_of

BUDGET = {"epsilon": 4, "delta": "1e-3"}
SHORT = SgldPlan(steps=60, probability="0.3", step=2.0)


@dataclass(frozen=True)
class Square:
    """(theta - x)^2 / 2 in two coordinates, with gradients far above the bound."""

    names = ("a", "b")
    lower, upper, start = (-3.0, -3.0), (3.0, 3.0), (0.5, -0.5)
    levels = level_weights = None
    whole_columns = ()
    bound = 0.7

    def value(self, theta, records, level=None):  # noqa: ARG002
        return ((theta - records[0]) ** 2).sum(axis=-1) / 2

    def gradient(self, theta, records, level=None):  # noqa: ARG002
        return theta - records[0]

    def bound_at(self, level):  # noqa: ARG002
        return self.bound


def twin(records, loss, plan, multiplier, key):
    """The chain in plain numpy and double precision, from the same bits."""
    levels = [None] if loss.levels is None else list(loss.levels)
    count = len(records[0])
    draw = dp_sgld._Draw(
        people=count,
        chains=len(levels),
        coordinates=len(loss.names),
        plan=plan,
        grid=Grid.for_bound(1.0),
        multiplier=multiplier,
        bits=InsecureBits(seed=key),
        public=np.random.default_rng([key, 1]),
    )
    q = math.floor(Fraction(plan.probability) * 2**32) / 2**32
    theta = np.tile(np.asarray(loss.start), (len(levels), 1))
    path = []
    for sizes, positions, noise, normals in draw.segments():
        for t, eta in enumerate(sizes):
            for m, level in enumerate(levels):
                places = positions[t, m][positions[t, m] < count]
                bound = loss.bound_at(level)
                gradients = loss.gradient(theta[m], tuple(column[places] for column in records), level)
                norms = np.linalg.norm(gradients, axis=1, keepdims=True)
                clipped = gradients * np.minimum(1, bound / np.maximum(norms, 1e-300))
                total = clipped.sum(axis=0) + bound * float(draw.grid.spacing) * noise[t, m]
                moved = theta[m] - eta / 2 * plan.tempering / q * total + math.sqrt(eta) * normals[t, m]
                theta[m] = np.clip(moved, loss.lower, loss.upper)
            path.append(theta.copy())
    return np.moveaxis(np.array(path), 1, 0)


def two_columns(n=80):
    return (np.random.default_rng(0).normal(1, 2, (n, 2)),)


def quantile_problem(n=120):
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, n)])
    loss = QuantileLoss(
        covariates=("one", "x"), covariate_bound=2**0.5, coefficient_box=(-4, 4), levels=(0.2, 0.5, 0.9)
    )
    return (x, x @ [0.5, 1.0] + rng.normal(0, 0.5, n)), loss


def test_the_chain_is_the_plain_one_with_clipped_gradients():
    plan = replace(SHORT, burn_in=0, tempering=0.5)
    values = simulate_dp_sgld(two_columns(), Square(), key=3, multiplier=0.5, plan=plan, **BUDGET).value.values
    expected = twin(two_columns(), Square(), plan, 0.5, key=3)[0]
    np.testing.assert_allclose(values, expected, atol=2e-5)
    assert np.abs(values).max() > 1


@pytest.mark.slow
def test_every_level_has_its_own_chain_bound_minibatches_and_noise():
    records, loss = quantile_problem()
    plan = replace(SHORT, burn_in=0)
    draws = simulate_dp_sgld(records, loss, key=4, multiplier=0.8, plan=plan, **BUDGET).value
    assert draws.values.shape == (3, 60, 2)
    assert draws.levels == loss.levels
    np.testing.assert_allclose(draws.values, twin(records, loss, plan, 0.8, key=4), atol=5e-5)
    assert np.abs(np.corrcoef(np.diff(draws.values[..., 0]))[0, 1]) < 0.5


@pytest.mark.slow
def test_burn_in_and_thinning_keep_the_right_iterates():
    whole = simulate_dp_sgld(two_columns(), Square(), key=5, plan=replace(SHORT, burn_in=0), **BUDGET).value.values
    plan = replace(SHORT, burn_in=0.35, thin=4)
    part = simulate_dp_sgld(two_columns(), Square(), key=5, plan=plan, **BUDGET).value.values
    assert plan.dropped == 21
    assert len(part) == plan.kept == 9
    np.testing.assert_array_equal(part, whole[24::4][:9])


@pytest.mark.slow
def test_the_same_key_gives_the_same_draws_and_another_key_others():
    first, again, other = (
        simulate_dp_sgld(two_columns(), Square(), key=key, plan=SHORT, **BUDGET) for key in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.value.values, again.value.values)
    assert (first.value.values != other.value.values).any()
    assert not first.secure


def test_a_release_is_secure_and_what_ran_costs_what_was_promised():
    records, loss = quantile_problem()
    release = sample_dp_sgld(records, loss, plan=SHORT, **BUDGET)
    again = sample_dp_sgld(records, loss, plan=SHORT, **BUDGET)
    assert release.secure
    assert (release.value.values != again.value.values).any()
    event = release.event
    assert (event.compositions, event.contribution) == (3 * SHORT.steps, 1)
    assert event.probability == Fraction(math.floor(Fraction("0.3") * 2**32), 2**32)
    assert (event.weight_first, event.weight_rest) == (1, 0)
    assert 3.99 < epsilon_of(event, "1e-3") <= 4
    assert (release.guarantee.epsilon, release.guarantee.delta) == (4, Fraction(1, 1000))
    assert release.guarantee.assumptions


@pytest.mark.slow
def test_a_simulation_with_given_noise_states_what_that_noise_gives():
    calibrated = calibrate_sigma(SHORT.facts(), **BUDGET).sigma
    more = simulate_dp_sgld(two_columns(), Square(), key=1, multiplier=2 * calibrated, plan=SHORT, **BUDGET)
    assert 0 < more.guarantee.delta < Fraction(1, 10**4)
    none = simulate_dp_sgld(two_columns(), Square(), key=1, multiplier=0, plan=SHORT, **BUDGET)
    assert none.guarantee.delta == 1


@pytest.mark.parametrize(
    ("plan", "delta", "epsilon", "paper"),
    [
        (SgldPlan(), "1e-4", 1, 99.57920535752364),
        (SgldPlan(), "2.5e-5", 4, 31.654133347235646),
        (SgldPlan(steps=40_000, probability="0.2"), "2e-3", 2, 121.9778),
    ],
)
def test_golden_noise_multipliers_of_the_source_document(plan, delta, epsilon, paper):
    """Recomputed in high precision from the document's series (S22, S1); its S3.2 and S3.3 give the settings."""
    got = calibrate_sigma(plan.facts(), epsilon=epsilon, delta=delta, method="paper").sigma
    assert got == pytest.approx(paper, rel=2e-3)
    assert epsilon_upper(plan.facts(), sigma=Fraction(paper), delta=delta) < 0.95 * epsilon


def test_records_beyond_any_bound_move_no_step_further_than_the_clip():
    wild = (np.array([[1e30, -1e30], [np.nan, 0.0], [np.inf, 1.0], [0.0, 0.0]]),)
    plan = SgldPlan(steps=20, probability=1, step=0.01, burn_in=0)
    values = simulate_dp_sgld(wild, Square(), key=7, multiplier=0, plan=plan, **BUDGET).value.values
    assert np.isfinite(values).all()
    still = (np.zeros((4, 2)),)
    calm = simulate_dp_sgld(still, Square(), key=7, multiplier=0, plan=plan, **BUDGET).value.values
    reach = plan.step_sizes(4).sum() / 2 * 4 * 2 * Square.bound
    assert np.abs(values - calm).max() <= reach


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("probability", 0),
        ("probability", "1.1"),
        ("tempering", 0.0),
        ("tempering", math.nan),
        ("step", -1.0),
        ("decay", 1.5),
        ("burn_in", 1.0),
        ("burn_in", math.nan),
        ("thin", 0),
        ("thin", 60),
    ],
)
def test_plans_out_of_range_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        replace(SHORT, **{name: value})


def test_records_of_unequal_length_are_refused():
    records, loss = quantile_problem()
    with pytest.raises(ParameterError, match="records"):
        simulate_dp_sgld((records[0], records[1][:-1]), loss, key=1, plan=SHORT, **BUDGET)


def _lag_one(series):
    centred = series - series.mean()
    return float(centred[1:] @ centred[:-1] / (centred @ centred))


@pytest.mark.slow
@pytest.mark.parametrize("tempering", [1.0, 0.25])
def test_without_privacy_noise_the_chain_samples_the_gibbs_posterior(tempering):
    """Normal mean, H = 1 / sd^2: an AR(1) chain of known variance. False alarms below 1e-6 (5 standard errors)."""
    count, sd = 400, 0.5
    loss = MeanLoss(data_bounds=(-5, 5), sd=sd, clip=100)
    records = loss.records(np.random.default_rng(2).normal(1.5, sd, count))
    plan = SgldPlan(steps=60_000, probability=1, tempering=tempering, step=0.05, decay=0, burn_in=0.1)
    values = simulate_dp_sgld(records, loss, key=11, multiplier=0, plan=plan, **BUDGET).value.values[:, 0]
    pull = plan.step / sd**2 / 2
    variance = sd**2 / (tempering * count) / (1 - pull / 2)
    effective = len(values) * pull / 2
    assert _lag_one(values) == pytest.approx(1 - pull, abs=5 * math.sqrt(2 * pull / len(values)))
    assert values.mean() == pytest.approx(records[0].mean(), abs=5 * math.sqrt(variance / effective))
    assert values.var() == pytest.approx(variance, rel=5 * math.sqrt(2 / effective))
    assert abs(values.var() / (1.3 * variance) - 1) > 5 * math.sqrt(2 / effective)


@pytest.mark.slow
def test_privacy_noise_heats_the_chain_as_the_formula_says():
    count, sd, q, multiplier = 400, 0.5, 0.25, 3.0
    loss = MeanLoss(data_bounds=(-5, 5), sd=sd, clip=100)
    records = loss.records(np.random.default_rng(3).normal(1.5, sd, count))
    plan = SgldPlan(steps=60_000, probability=q, step=0.05, decay=0, burn_in=0.1)
    values = simulate_dp_sgld(records, loss, key=12, multiplier=multiplier, plan=plan, **BUDGET).value.values[:, 0]
    eta, pull = plan.step / count, plan.step / sd**2 / 2
    sampled = count * q * (1 - q) * float(np.mean((values.mean() - records[0]) ** 2)) / sd**4
    heat = eta / (4 * q * q) * ((multiplier * loss.bound) ** 2 + sampled)
    variance = (1 + heat) / (count / sd**2) / (1 - pull / 2)
    assert heat > 10
    assert values.var() == pytest.approx(variance, rel=5 * math.sqrt(4 / (len(values) * pull)))


@pytest.mark.slow
def test_a_cell_of_the_source_document_regressions():
    """n = 10 000, epsilon 4, contaminated normal: width .225, coverage 1, effective sample size 1018 of 10 000."""
    rng = np.random.default_rng(5)
    count, beta = 10_000, np.array([1.5, -1.5, 1.0])
    x = rng.uniform(-1, 1, (count, 3))
    y = x @ beta + rng.normal(0, 0.5, count) * np.where(rng.random(count) < 0.1, 8, 1)
    loss = HuberLoss(
        covariates=("a", "b", "c"),
        covariate_bound=3**0.5,
        coefficient_box=(-5, 5),
        scale_box=(0.01, 10),
        bound_rule="printed",
    )
    draws = simulate_dp_sgld((x, y), loss, key=1, epsilon=4, delta="1e-4", accountant="paper", plan=SgldPlan()).value
    bounds = draws.intervals()[:3]
    assert (bounds[:, 1] - bounds[:, 0]).mean() == pytest.approx(0.225, abs=0.012)
    assert ((bounds[:, 0] < beta) & (beta < bounds[:, 1])).all()
    assert np.abs(draws.mean()[:3] - beta).mean() < 0.03
    correlations = [_lag_one(draws.values[:, j]) for j in range(3)]
    effective = draws.count * np.mean([(1 - r) / (1 + r) for r in correlations])
    assert effective == pytest.approx(1018, rel=0.15)

"""One contract for all rivals: draws, and a guarantee."""

from fractions import Fraction

import numpy as np
import pytest
from rivals import resampled
from rivals.blocks import bayesian_bootstrap
from rivals.dp_bootstrap import ErmPlan
from rivals.dp_sgld import SgldPlan
from rivals.sample import GibbsPlan, sample_rival

from psephos.bootstrap import HuberLoss, MeanLoss, QuantileLoss, TrainingPlan
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits
from psephos.privacy.events import epsilon_of

pytest.importorskip("jax")

MEAN = MeanLoss(data_bounds=(-2.0, 4.0), sd=0.5, clip=8.0)
HUBER = HuberLoss(
    covariates=("a", "b"), covariate_bound=2**0.5, coefficient_box=(-3.0, 3.0), scale_box=(0.05, 5.0), start=(0, 0, 1)
)
SETTINGS = {
    "dp-sgld": SgldPlan(steps=400, probability="0.2", step=1.0),
    "dp-bootstrap": None,
    "noisy-gibbs": None,
}


def numbers(n=3000):
    return MEAN.records(np.random.default_rng(1).normal(1.5, 0.5, n))


def regression(n=3000):
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (n, 2))
    return x, x @ [1.0, -0.5] + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("method", SETTINGS)
def test_every_rival_estimates_a_mean_and_keeps_its_promise(method):
    release = sample_rival(
        numbers(), MEAN, epsilon=4, delta="1e-4", method=method, settings=SETTINGS[method], draws=300
    )
    assert release.secure
    assert (release.guarantee.epsilon, release.guarantee.delta) == (4, Fraction(1, 10**4))
    loss_of = resampled.epsilon_of if method == "dp-bootstrap" else epsilon_of
    assert loss_of(release.event, "1e-4") <= 4
    assert release.value.names == ("mean",)
    assert release.value.levels is None
    assert abs(release.value.mean()[0] - 1.5) < 0.25
    assert release.value.count == (200 if method == "dp-sgld" else 300)


@pytest.mark.parametrize(
    ("method", "settings", "names"),
    [
        ("dp-bootstrap", ErmPlan(resamples=10), ("a", "b", "scale")),
        pytest.param(
            "noisy-gibbs",
            GibbsPlan(response_bound=2.0, thin=1),
            ("a", "b", "residual_variance"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rivals_estimate_a_regression(method, settings, names):
    release = sample_rival(regression(), HUBER, epsilon=8, delta="1e-4", method=method, settings=settings, draws=200)
    assert release.value.names == names
    assert np.abs(release.value.mean()[:2] - [1.0, -0.5]).max() < 0.4
    loss_of = resampled.epsilon_of if method == "dp-bootstrap" else epsilon_of
    assert loss_of(release.event, "1e-4") <= 8


def test_wrong_settings_and_losses_are_refused():
    quantile = QuantileLoss(covariates=("a", "b"), covariate_bound=2**0.5, coefficient_box=(-3.0, 3.0))
    budget = {"epsilon": 1, "delta": "1e-4"}
    for records, loss, method, settings, message in [
        (numbers(), MEAN, "gibbs", None, "method must be one of"),
        (numbers(), MEAN, "sandwich", SgldPlan(), "method must be one of dp-sgld"),
        (numbers(), MEAN, "dp-sgld", TrainingPlan(), "must be an SgldPlan"),
        (numbers(), MEAN, "dp-bootstrap", GibbsPlan(), "must be an ErmPlan"),
        (regression(), quantile, "dp-bootstrap", None, "known to be convex"),
        (numbers(), MEAN, "noisy-gibbs", ErmPlan(), "must be a GibbsPlan"),
        (regression(), HUBER, "noisy-gibbs", None, "with a response_bound"),
        (regression(), quantile, "noisy-gibbs", None, "takes a MeanLoss or a HuberLoss, got QuantileLoss"),
    ]:
        with pytest.raises(ParameterError, match=message):
            sample_rival(records, loss, method=method, settings=settings, **budget)
    with pytest.raises(ParameterError, match="never pure"):
        sample_rival(numbers(), MEAN, method="noisy-gibbs", **(budget | {"delta": 0}))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("dp-sgld", SgldPlan(steps=2, probability=1)),
        ("dp-bootstrap", ErmPlan(resamples=10)),
        ("noisy-gibbs", GibbsPlan(response_bound=2.0, thin=1)),
    ],
)
def test_a_record_that_is_no_number_makes_no_error_that_tells_of_it(method, settings):
    for value in (np.nan, np.inf, -np.inf):
        for records, loss in ((numbers(50), MEAN), (regression(50), HUBER)):
            broken = tuple(column.copy() for column in records)
            for column in broken:
                column.flat[7] = value
            one, two = (
                sample_rival(
                    these, loss, epsilon=1, delta="1e-4", method=method, settings=settings, draws=3,
                    bits=InsecureBits(seed=1), rng=np.random.default_rng(1),
                )
                for these in (records, broken)
            )  # fmt: skip
            assert one.event == two.event
            assert np.isfinite(two.value.values).all()


@pytest.mark.slow
def test_q6_a_known_normal_mean():
    """Faults Q6: n = 100, sd 1: half-width .196 without privacy; with it, the sum of both variances; and coverage."""
    rng = np.random.default_rng(6)
    loss = MeanLoss(data_bounds=(-5.0, 5.0), sd=1.0, clip=10.0)
    plain = bayesian_bootstrap(loss.records(rng.normal(0, 1, 100)), loss, draws=2000, rng=rng)
    low, high = np.quantile(plain[:, 0], [0.025, 0.975])
    assert abs((high - low) / 2 - 0.196) < 0.05
    held, widths = [], []
    for seed in range(300):
        values = loss.records(np.random.default_rng(seed).normal(0.5, 1, 100))
        release = sample_rival(
            values, loss, epsilon=4, delta="1e-3", method="noisy-gibbs", settings=GibbsPlan(thin=2), draws=200,
            bits=InsecureBits(seed=seed), rng=np.random.default_rng(seed),
        )  # fmt: skip
        (low, high) = release.value.intervals()[0]
        held.append(low <= 0.5 <= high)
        widths.append((high - low) / 2)
    noise = float(release.event.sigma) / 2**20 * 10 / 100  # of the mean, in its units
    assert abs(np.mean(widths) - 1.96 * np.hypot(0.1, noise)) < 0.1 * np.mean(widths)
    assert 0.90 < np.mean(held) < 0.985

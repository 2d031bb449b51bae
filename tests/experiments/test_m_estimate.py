"""Weighted fits against closed forms, general optimisers and each other; losses here are stand-ins of a few lines."""

# ruff: noqa: ARG002 - a loss without levels has the argument all the same

from dataclasses import dataclass

import numpy as np
import pytest
from rivals.m_estimate import ConvergenceError, Problem, _quasi_newton, solve, weighted_m_estimate
from scipy.optimize import minimize
from scipy.special import expit, ndtr

from psephos.errors import ParameterError

GRADIENT = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the losses below share: a box, a start, no levels."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[float, ...] | None = None

    @property
    def start(self):
        return tuple(np.clip(0.5, a, b) for a, b in zip(self.lower, self.upper, strict=True))


class Logistic(Family):
    def value(self, theta, records, level=None):
        x, y = records
        return np.logaddexp(0, x @ theta) - y * (x @ theta)

    def gradient(self, theta, records, level=None):
        x, y = records
        return (expit(x @ theta) - y)[:, None] * x


class Huber(Family):
    """Huber regression with scale: sigma rho_c(r / sigma) + kappa sigma / 2."""

    def value(self, theta, records, level=None):
        x, y = records
        z = (y - x @ theta[:-1]) / theta[-1]
        psi = np.clip(z, -1.345, 1.345)
        return theta[-1] * (psi * z - psi**2 / 2) + 0.71 * theta[-1] / 2

    def gradient(self, theta, records, level=None):
        x, y = records
        psi = np.clip((y - x @ theta[:-1]) / theta[-1], -1.345, 1.345)
        return np.column_stack([-psi[:, None] * x, (0.71 - psi**2) / 2])


class Quantile(Family):
    """The check loss smoothed by a normal kernel with bandwidth .1."""

    def value(self, theta, records, level=None):
        x, y = records
        r = y - x @ theta
        z = r / 0.1
        return r * (ndtr(z) - (1 - level)) + 0.1 * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)

    def gradient(self, theta, records, level=None):
        x, y = records
        return -(ndtr((y - x @ theta) / 0.1) - (1 - level))[:, None] * x


class ExponentialMean(Family):
    """x / theta + log theta: not convex beyond 2 x."""

    def value(self, theta, records, level=None):
        return records[0] / theta[0] + np.log(theta[0])

    def gradient(self, theta, records, level=None):
        return ((theta[0] - records[0]) / theta[0] ** 2)[:, None]


BOX = {"lower": (-10.0,) * 3, "upper": (10.0,) * 3}


def regression(rng, n, *, heavy=False):
    x = rng.uniform(-1, 1, (n, 3))
    noise = rng.standard_t(1.5, n) if heavy else rng.normal(size=n)
    return x, x @ [1.5, -1.5, 1.0] + 0.5 * noise


def families():
    return {
        "logistic": (Logistic(**BOX), None),
        "huber": (Huber(lower=(-10.0, -10.0, -10.0, 1e-3), upper=(10.0,) * 4), None),
        "quantile": (Quantile(**BOX, levels=(0.1, 0.9)), 0.1),
    }


@pytest.mark.parametrize("name", families())
@pytest.mark.parametrize("heavy", [False, True])
def test_gradient_vanishes_and_no_optimiser_does_better(name, heavy):
    loss, level = families()[name]
    rng = np.random.default_rng(3)
    for n in (60, 400):
        x, y = regression(rng, n, heavy=heavy)
        records = (x, (y > 0).astype(float) if name == "logistic" else y)
        weights = rng.exponential(size=n)
        theta = weighted_m_estimate(records, loss, weights, level=level)
        share = weights / weights.sum()
        assert np.linalg.norm(share @ loss.gradient(theta, records, level)) <= GRADIENT
        other = minimize(
            lambda t, share=share, records=records: share @ loss.value(t, records, level),
            loss.start,
            method="L-BFGS-B",
            bounds=list(zip(loss.lower, loss.upper, strict=True)),
        )
        assert share @ loss.value(theta, records, level) <= other.fun + 1e-12
        # Pieces of the records, a start far away and the Broyden road lead to the same place.
        again = weighted_m_estimate(records, loss, 7 * weights, level=level, start=[9.0] * len(loss.lower))
        np.testing.assert_allclose(again, theta, atol=1e-6)


def test_equal_weights_are_no_weights_and_whole_ones_are_copies():
    rng = np.random.default_rng(5)
    loss, _ = families()["huber"]
    x, y = regression(rng, 50)
    np.testing.assert_allclose(
        weighted_m_estimate((x, y), loss), weighted_m_estimate((x, y), loss, np.full(50, 3.0)), atol=1e-8
    )
    copies = rng.integers(0, 4, 50)
    np.testing.assert_allclose(
        weighted_m_estimate((np.repeat(x, copies, 0), np.repeat(y, copies)), loss),
        weighted_m_estimate((x, y), loss, copies),
        atol=1e-6,
    )


def test_quasi_newton_road_meets_the_same_minimum():
    rng = np.random.default_rng(8)
    for loss, level in families().values():
        x, y = regression(rng, 3000)
        records = (x, (y > 0).astype(float) if isinstance(loss, Logistic) else y)
        start = weighted_m_estimate(records, loss, level=level)
        share = rng.dirichlet(np.ones(3000))
        problem = Problem(records=records, loss=loss, weights=share, level=level)
        inverse = np.linalg.inv(Problem(records=records, loss=loss, weights=np.full(3000, 1 / 3000), level=level)
                                .curvature(start))  # fmt: skip
        assert _quasi_newton(problem, start, inverse, GRADIENT) is not None
        theta = solve(problem, start, inverse=inverse)
        assert np.linalg.norm(problem.gradient(theta)) <= GRADIENT
        np.testing.assert_allclose(theta, weighted_m_estimate(records, loss, share, level=level), atol=1e-6)


def test_records_in_pieces_make_one_sum():
    rng = np.random.default_rng(9)
    x, y = regression(rng, 40_000)
    loss = Logistic(**BOX)
    records = (x, (y > 0).astype(float))
    share = rng.dirichlet(np.ones(40_000))
    problem = Problem(records=records, loss=loss, weights=share, level=None)
    theta = np.array([1.0, 0.5, -0.5])
    np.testing.assert_allclose(problem.gradient(theta), share @ loss.gradient(theta, records), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(problem.value(theta), share @ loss.value(theta, records), rtol=1e-12)
    np.testing.assert_allclose(
        problem.curvature(theta),
        (records[0] * (share * expit(x @ theta) * expit(-x @ theta))[:, None]).T @ x,
        rtol=1e-7,
        atol=1e-9,
    )


@pytest.mark.parametrize("start", [0.2, 1.0, 11.9])
def test_loss_that_is_not_convex_everywhere(start):
    x = np.random.default_rng(1).exponential(2.0, 500)
    loss = ExponentialMean(lower=(0.1,), upper=(12.0,))
    np.testing.assert_allclose(weighted_m_estimate((x,), loss, start=[start]), [x.mean()], rtol=1e-7)


def test_minimum_at_a_bound_of_the_box():
    x, y = regression(np.random.default_rng(2), 200)
    loss = Logistic(lower=(-10.0, 0.3, -10.0), upper=(10.0, 10.0, 10.0))
    records = (x, (y > 0).astype(float))
    theta = weighted_m_estimate(records, loss)
    gradient = loss.gradient(theta, records).mean(0)
    assert theta[1] == 0.3
    assert gradient[1] > 0
    assert np.linalg.norm(gradient[[0, 2]]) <= GRADIENT


def test_separated_answers_end_at_the_box():
    x = np.array([[1.0], [2.0], [-1.0]])
    theta = weighted_m_estimate((x, np.array([1.0, 1.0, 0.0])), Logistic(lower=(-5.0,), upper=(5.0,)))
    np.testing.assert_allclose(theta, [5.0])


def test_what_cannot_converge_says_so():
    class Kink(Family):
        def value(self, theta, records, level=None):
            return np.abs(theta[0] - records[0])

        def gradient(self, theta, records, level=None):
            return np.where(theta[0] >= records[0], 1.0, -1.0)[:, None]

    with pytest.raises(ConvergenceError, match="norm 1"):
        weighted_m_estimate((np.array([1.25]),), Kink(lower=(-9.0,), upper=(9.0,)))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"weights": [1.0, 2.0]}, "weights"),
        ({"weights": [1.0, -1.0, 3.0]}, "weights"),
        ({"weights": [1.0, np.nan, 3.0]}, "weights"),
        ({"weights": [0.0, 0.0, 0.0]}, "weights"),
        ({"weights": [np.inf, 0.0, 0.0]}, "weights"),
        ({"level": 0.5}, "level"),
        ({"start": [0.0, 1.0]}, "start"),
        ({"start": [np.nan]}, "start"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": np.nan}, "tolerance"),
        ({"records": ()}, "records"),
        ({"records": (np.ones((3, 1)), np.ones(2))}, "lengths"),
        ({"records": [np.ones((3, 1)), np.ones(3)]}, "tuple"),
    ],
)
def test_what_is_refused(change, match):
    loss = Logistic(lower=(-5.0,), upper=(5.0,))
    arguments = {"records": (np.ones((3, 1)), np.array([1.0, 0.0, 1.0]))} | change
    records, weights = arguments.pop("records"), arguments.pop("weights", None)
    with pytest.raises(ParameterError, match=match):
        weighted_m_estimate(records, loss, weights, **arguments)


def test_a_family_needs_its_level():
    loss, _ = families()["quantile"]
    with pytest.raises(ParameterError, match="level"):
        weighted_m_estimate(regression(np.random.default_rng(0), 10), loss)

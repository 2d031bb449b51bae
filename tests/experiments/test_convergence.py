"""Theorem 3.1: its formulas, and its noise floor against the noisy recursion on a toy whose constants are known."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rivals.accountants import leading_scale
from rivals.blocks import blocked_covariance, random_partition
from rivals.convergence import (
    NoiseFloor,
    distance_factor,
    excess_bound,
    noise_floor,
    smoothness_bound,
)

from psephos.bootstrap import BlockedTraining
from psephos.bootstrap.block_weights import gamma_star
from psephos.errors import ParameterError


def training(**changes):
    settings = {"records": 10_000, "blocks": 20, "gamma": 0.9, "probability": "0.1", "steps": 10_000}
    return BlockedTraining(**(settings | {"gradient_bound": "2.5"} | changes))


@given(
    st.integers(2, 60),
    st.integers(1, 200),
    st.floats(0.2, 4),
    st.integers(1, 30),
    st.floats(0.01, 1),
    st.floats(0, 10),
    st.floats(0.1, 3),
)
def test_floor_is_the_printed_one(blocks, size, gamma, draws, q, sigma, beta):
    n, d, c = blocks * size, 3, 2.5
    floor = noise_floor(
        training(records=n, blocks=blocks, gamma=gamma, probability=q, draws=draws),
        sigma=sigma,
        dimension=d,
        jacobian_bound=beta,
    )
    s = blocks
    poisson = beta**2 * c**2 * q * (1 - q) * (gamma + 1) * s / (draws * n * (s * gamma + 1))
    assert floor.poisson == pytest.approx(poisson, rel=1e-9, abs=1e-15)
    assert floor.monte_carlo == pytest.approx(q**2 * beta**2 * c**2 / draws, rel=1e-9)
    assert floor.privacy == pytest.approx(beta**2 * d * sigma**2 / draws, rel=1e-9)
    assert floor.total == floor.poisson + floor.monte_carlo + floor.privacy


def test_parts_scale_in_the_draws_and_the_noise():
    one, four = (noise_floor(training(draws=k), sigma=0.1, dimension=3) for k in (1, 4))
    for name in ("poisson", "monte_carlo", "privacy"):
        assert getattr(one, name) == pytest.approx(4 * getattr(four, name), rel=1e-12)
    loud = noise_floor(training(), sigma=0.2, dimension=3)
    assert loud.privacy == pytest.approx(4 * one.privacy, rel=1e-12)
    assert (loud.poisson, loud.monte_carlo) == (one.poisson, one.monte_carlo)
    assert noise_floor(training(), sigma=0, dimension=3).privacy == 0


def test_privacy_part_does_not_depend_on_the_draws_at_the_leading_scale():
    """And is that of section 3: d C^2 q^2 T log(1/delta) kappa / (n_S epsilon)^2, of order n^-2."""
    parts = []
    for draws in (1, 4, 16):
        case = training(draws=draws)
        sigma = leading_scale(case, epsilon=2, delta="1e-4").rate
        parts.append(noise_floor(case, sigma=sigma, dimension=3).privacy)
    kappa = 1.9 / (20 * (20 * 0.9 + 1))
    expected = 3 * 2.5**2 * 0.1**2 * 10_000 * np.log(1e4) * kappa / (500 * 2) ** 2
    np.testing.assert_allclose(parts, expected, rtol=1e-9)


def test_blocks_of_unequal_size_count_as_of_the_smaller():
    whole, rest = (noise_floor(training(records=n), sigma=0.1, dimension=1) for n in (10_000, 10_019))
    assert rest == whole


def test_pseudo_blocks_lighten_the_weights():
    assert (
        noise_floor(training(alpha=5.0), sigma=0, dimension=1).poisson
        < noise_floor(training(), sigma=0, dimension=1).poisson
    )


def test_excess_bound_unrolls_the_recursion():
    """u_{t+1} = (1 - eta q mu) u_t + M eta^2 Pi / 2, (S57), stays below its closed form and ends at it."""
    case = training(probability=0.25, steps=40)
    floor = NoiseFloor(poisson=0.01, monte_carlo=0.02, privacy=0.03)
    eta, smooth, curved, gap = 0.8, 2.0, 0.5, 3.0
    excess = gap
    for _ in range(40):
        excess = (1 - eta * 0.25 * curved) * excess + smooth * eta**2 * floor.total / 2
    bound = excess_bound(
        case, floor, learning_rate=eta, smoothness=smooth, curvature=curved, initial_gap=gap, approximation_gap=0.125
    )
    share = 1 - (1 - eta * 0.25 * curved) ** 40
    assert excess == pytest.approx(bound.transient + share * bound.floor, rel=1e-12)
    assert bound.total == bound.transient + bound.floor + 0.125
    one_step = excess_bound(case, floor, learning_rate=4.0, smoothness=1, curvature=1, initial_gap=1)
    assert one_step.transient == 0


def test_constants():
    assert smoothness_bound(jacobian_bound=2, hessian_bound=3, curvature_bound=5, gradient_bound=7) == 41
    assert distance_factor(curvature=2, diameter=3, radius=0.5) == 52


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: noise_floor(training(), sigma=float("nan"), dimension=1), "sigma"),
        (lambda: noise_floor(training(), sigma=-1, dimension=1), "sigma"),
        (lambda: noise_floor(training(), sigma=1, dimension=0), "dimension"),
        (lambda: noise_floor(training(), sigma=1, dimension=1, jacobian_bound=0), "jacobian_bound"),
        (lambda: bound(learning_rate=10.1), "learning_rate must be a number > 0 and <= 10"),
        (lambda: bound(learning_rate=0), "learning_rate"),
        (lambda: bound(curvature=1.1), "curvature"),
        (lambda: bound(smoothness=float("nan")), "smoothness"),
        (lambda: bound(initial_gap=-1), "initial_gap"),
        (lambda: bound(approximation_gap=float("nan")), "approximation_gap"),
        (lambda: distance_factor(curvature=1, diameter=0, radius=1), "diameter"),
        (lambda: smoothness_bound(jacobian_bound=1, hessian_bound=-1, curvature_bound=1, gradient_bound=1), "hessian"),
    ],
)
def test_what_is_refused(call, match):
    with pytest.raises(ParameterError, match=match):
        call()


def bound(**changes):
    floor = NoiseFloor(poisson=0.0, monte_carlo=0.0, privacy=1.0)
    arguments = {"learning_rate": 1.0, "smoothness": 1.0, "curvature": 1.0, "initial_gap": 1.0} | changes
    return excess_bound(training(), floor, **arguments)


# The toy. Quadratic loss |theta - x|^2 / 2 with theta in the unit ball and records on the sphere, so C = 2 and K_2 = 1.
# A constant generator G(u) = phi has Jacobian I; the linear one G(u) = Phi u has |J| = |u| <= 1, solves every weighting
# (Phi the blocks' means), and its objective's Hessian is E u u'.


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Mean squares at the steady state, and the mean excess of the objective."""

    poisson: float
    monte_carlo: float
    privacy: float
    total: float
    excess: float


N, S, D, Q, CHAINS = 200, 20, 3, 0.1, 200
GAMMA = gamma_star(N, S)


def second_moment():
    """E u u'."""
    return (S * np.eye(S) - 1) / (S**2 * (S * GAMMA + 1)) + 1 / S**2


def sphere(rng):
    x = rng.normal(size=(N, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def recursion(*, x, partition, linear, draws, sigma, learning_rate, rng, burn=150, keep=100):
    """Equation (4) in many chains; phi stays in the unit ball, so that every theta does."""
    means, gram = partition.means(x), second_moment()
    phi = np.zeros((CHAINS, D, S) if linear else (CHAINS, D))
    sums = np.zeros(5)
    for t in range(burn + keep):
        u = rng.dirichlet(np.full(S, GAMMA), (CHAINS, draws))
        weights = partition.record_weights(u)
        sampled = weights * (rng.random(weights.shape) < Q)
        noise = sigma * rng.normal(size=(CHAINS, draws, D))
        theta = np.einsum("cds,cks->ckd", phi, u) if linear else phi[:, None, :]

        def through(statistic, u=u):
            return np.einsum("ckd,cks->cds", statistic, u) / draws if linear else statistic.mean(axis=1)

        batch, full = sampled.sum(-1, keepdims=True) * theta - sampled @ x, theta - u @ means
        off = phi - (means.T if linear else x.mean(axis=0))
        gradient = off @ gram if linear else off
        estimate = through(batch + noise)
        if t >= burn:
            errors = (
                through(batch - Q * full),
                Q * (through(full) - gradient),
                through(noise),
                estimate - Q * gradient,
            )
            sums[:4] += [np.mean(np.sum(e.reshape(CHAINS, -1) ** 2, axis=1)) for e in errors]
            sums[4] += np.mean(np.sum((gradient * off).reshape(CHAINS, -1), axis=1)) / 2
        phi = phi - learning_rate * estimate
        phi = phi / np.maximum(1, np.linalg.norm(phi, axis=1, keepdims=True))
    return Measured(**dict(zip(("poisson", "monte_carlo", "privacy", "total", "excess"), sums / keep, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("linear", [False, True])
def test_measured_noise_stays_below_the_floor_and_scales_as_it_says(linear):
    rng = np.random.default_rng(30)
    x, partition = sphere(rng), random_partition(N, S, rng)
    case = {"records": N, "blocks": S, "gamma": GAMMA, "probability": "0.1", "steps": 250, "gradient_bound": 2}
    smooth, curved = (1 / S, 1 / (S * (S * GAMMA + 1))) if linear else (1.0, 1.0)
    learning_rate = 0.5 / smooth
    squares = (GAMMA + 1) / (S * GAMMA + 1)  # E |u|^2
    found = {}
    for draws in (1, 4, 16):
        setting = BlockedTraining(**case, draws=draws)
        leading = leading_scale(setting, epsilon=4, delta="1e-3").rate
        for noise, sigma in (("none", 0.0), ("fixed", 0.05), ("leading", leading)):
            got = recursion(
                x=x, partition=partition, linear=linear, draws=draws, sigma=sigma, learning_rate=learning_rate, rng=rng
            )
            floor = noise_floor(setting, sigma=sigma, dimension=D)
            found[draws, noise] = got, floor
            # The theorem: each part below its bound (the privacy part of a constant generator attains it), parts that
            # add up, and the objective below (S62) without its transient, at the start an excess of at most 1/2.
            assert got.poisson < floor.poisson
            assert got.monte_carlo < floor.monte_carlo
            assert got.privacy <= floor.privacy * 1.05
            assert got.total < floor.total
            assert got.total == pytest.approx(got.poisson + got.monte_carlo + got.privacy, rel=0.05)
            limit = excess_bound(
                setting, floor, learning_rate=learning_rate, smoothness=smooth, curvature=curved, initial_gap=0.5
            )
            assert got.excess < limit.total
            # Its slack, as the module tells it.
            assert got.poisson / floor.poisson == pytest.approx(0.25 * (squares if linear else 1), rel=0.1)
            assert got.monte_carlo / floor.monte_carlo < 0.002
            if sigma:
                assert got.privacy / floor.privacy == pytest.approx(squares if linear else 1, rel=0.05)
            if not linear:
                exact = Q**2 * np.trace(blocked_covariance(x, partition, GAMMA)) / draws
                assert got.monte_carlo == pytest.approx(exact, rel=0.1)
    for draws in (4, 16):
        for name in ("poisson", "privacy") if linear else ("poisson", "monte_carlo", "privacy"):
            first, other = (getattr(found[k, "fixed"][0], name) for k in (1, draws))
            assert other * draws == pytest.approx(first, rel=0.1), name
        first, other = (found[k, "leading"][0].privacy for k in (1, draws))
        assert other == pytest.approx(first, rel=0.05)  # K-invariant
        assert found[draws, "leading"][1].privacy == pytest.approx(found[1, "leading"][1].privacy, rel=1e-12)


@pytest.mark.slow
def test_excess_of_the_quadratic_toy_is_its_known_share_of_the_bound():
    """Of the floor in (S62) with the *measured* noise in place of its bound: 1 / (2 - eta q), exactly."""
    rng = np.random.default_rng(31)
    x, partition = sphere(rng), random_partition(N, S, rng)
    case = training(records=N, blocks=S, gamma=GAMMA, gradient_bound=2)
    for learning_rate in (0.5, 3.0):
        got = recursion(
            x=x,
            partition=partition,
            linear=False,
            draws=2,
            sigma=0.05,
            learning_rate=learning_rate,
            rng=rng,
            keep=200,
        )
        measured = NoiseFloor(poisson=got.poisson, monte_carlo=got.monte_carlo, privacy=got.privacy)
        limit = excess_bound(
            case, measured, learning_rate=learning_rate, smoothness=1, curvature=1, initial_gap=0
        ).floor
        assert got.excess / limit == pytest.approx(1 / (2 - learning_rate * Q), rel=0.06)

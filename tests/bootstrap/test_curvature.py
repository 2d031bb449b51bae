"""Curvature of the shipped losses: it is the Hessian, bounded as claimed; the majorising one lies above the loss."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.bootstrap.loss_protocol import Curved, logistic_curvature
from psephos.bootstrap.losses import (
    SHIPPED,
    BradleyTerryLoss,
    HuberLoss,
    LogisticLoss,
    MeanLoss,
    QuantileLoss,
)
from psephos.bootstrap.regression_losses import _WINDOW

some = settings(max_examples=40, deadline=None, derandomize=True)
many = settings(max_examples=100, deadline=None, derandomize=True)

P = 3
R = math.sqrt(P)
BOX = {"covariates": ("a", "b", "c"), "covariate_bound": R, "coefficient_box": (-5, 5)}
LOSSES = {
    "huber": HuberLoss(**BOX, scale_box=(0.01, 10)),
    "quantile": QuantileLoss(**BOX),
    "logistic": LogisticLoss(**BOX),
    "gaussian": MeanLoss(data_bounds=(-5, 5), sd=0.5, clip=8),
    "exponential": MeanLoss(data_bounds=(0, 12), clip=8, family="exponential"),
    "bradley-terry": BradleyTerryLoss(items=("p", "q", "r", "s"), score_box=(-4, 4)),
}
NAMES = tuple(LOSSES)
CONVEX = tuple(name for name in NAMES if name != "exponential")


def records_of(name, rng, n=40):
    """Records of the loss's domain; some at its ends."""
    if name == "bradley-terry":
        left = rng.integers(0, 4, (n, 5))
        right = np.where(rng.random((n, 5)) < 0.1, left, rng.integers(0, 4, (n, 5)))
        return left, right, rng.choice([0.0, 0.5, 1.0], (n, 5)), rng.integers(0, 6, n)
    if name == "gaussian":
        return (np.append(rng.uniform(-7, 7, n - 2), [-5.0, 5.0]),)
    if name == "exponential":
        return (np.append(rng.exponential(2, n - 3), [0.0, 1e-3, 12.0]),)
    x = np.where(rng.random((n, P)) < 0.3, rng.choice([-1.0, 1.0], (n, P)), rng.uniform(-1, 1, (n, P)))
    y = x @ [1.5, -1.5, 1.0] + rng.standard_t(3, n)
    return x, (y > 0) * 1.0 if name == "logistic" else y


def theta_of(loss, rng, margin=0.02):
    low, high = np.array(loss.lower), np.array(loss.upper)
    return rng.uniform(low + margin * (high - low), high - margin * (high - low))


def level_of(loss, rng):
    return None if loss.levels is None else float(rng.choice(loss.levels))


def hessians(loss, theta, records, **options):
    root = loss.curvature_root(theta, records, **options)
    shift = loss.curvature_shift(theta) * np.eye(len(theta))
    return np.einsum("nka,nkb->nab", root, root) - shift


def smoothed(loss):
    """The loss whose Hessian the curvature is: a quantile's with a wider window."""
    return dataclasses.replace(loss, bandwidth=_WINDOW * loss.bandwidth) if isinstance(loss, QuantileLoss) else loss


def kinks(name, loss, theta, records):
    """How far a record is from where its gradient has a kink, relative to the clip."""
    if name == "huber":
        z = (records[1] - records[0] @ theta[:-1]) / theta[-1]
        return np.abs(np.abs(z) / loss.c - 1)
    if name in ("gaussian", "exponential"):
        x = np.clip(records[0], *loss.data_bounds)
        slope = (theta[0] - x) / (loss.sd**2 if name == "gaussian" else theta[0] ** 2)
        return np.abs(np.abs(slope) / loss.clip - 1)
    return np.full(len(records[0]), np.inf)


# --- one contract for all ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_loss_knows_its_curvature(name):
    rng = np.random.default_rng(1)
    loss, records = LOSSES[name], records_of(name, rng)
    assert isinstance(loss, Curved)
    assert {type(one) for one in LOSSES.values()} == set(SHIPPED)
    theta, d = theta_of(loss, rng), len(loss.names)
    for majorising in (False, True):
        root = loss.curvature_root(theta, records, majorising=majorising)
        assert root.shape == (40, 5 if name == "bradley-terry" else 1, d)
        assert root.dtype == np.float64
        assert loss.curvature_bound(theta, majorising=majorising) > 0
    assert (loss.curvature_shift(theta) > 0) == (name == "exponential")
    assert all(len(direction) == d for direction in loss.flat_directions)


@pytest.mark.parametrize("name", NAMES)
@some
@given(seed=st.integers(0, 2**32 - 1))
def test_the_curvature_is_the_derivative_of_the_gradient(name, seed):
    rng = np.random.default_rng(seed)
    loss, records = LOSSES[name], records_of(name, rng)
    level, theta = level_of(loss, rng), theta_of(loss, rng)
    got, of = hessians(loss, theta, records), smoothed(loss)
    smooth = kinks(name, loss, theta, records) > 1e-3
    assert smooth.mean() > 0.8
    for j in range(len(theta)):
        step = 1e-5 * min(max(abs(theta[j]), 1e-2), 1.0)
        shift = np.eye(len(theta))[j] * step
        ahead, behind = (of.gradient(theta + sign * shift, records, level) for sign in (1, -1))
        difference = (ahead - behind) / (2 * step)
        np.testing.assert_allclose(
            difference[smooth], got[smooth][:, :, j], rtol=1e-5, atol=1e-6 * loss.curvature_bound(theta)
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_curvature_would_be_caught(name):
    """The power of the test above: half a per cent off, in the largest record, is far beyond its tolerance."""
    rng = np.random.default_rng(2)
    loss, records = LOSSES[name], records_of(name, rng)
    theta = np.array([0.1, -0.1, 0.2, 1.0][: len(loss.names)]) + (name == "exponential")
    largest = np.abs(hessians(loss, theta, records)).max()
    assert 0.005 * largest > 10 * (1e-5 * largest + 1e-6 * loss.curvature_bound(theta))


def test_a_quantile_s_curvature_has_a_window_of_three_bandwidths():
    """One record bends the mean by a third as much; a mean over a wide density hardly moves, over a narrow one it does.

    With normal residuals of standard deviation s it is phi(0) / sqrt(s^2 + 9 h^2) in place of phi(0) / sqrt(s^2 + h^2).
    """
    loss, rng, theta = LOSSES["quantile"], np.random.default_rng(8), np.zeros(P)
    assert _WINDOW == 3
    assert loss.curvature_bound(theta) == pytest.approx(loss.curvature_bound(theta, majorising=True) / 3, rel=1e-12)
    narrow = dataclasses.replace(loss, bandwidth=loss.bandwidth / _WINDOW)  # its window is the loss's bandwidth
    for sd, ratio in ((0.5, (0.26 / 0.34) ** 0.5), (3.0, (9.01 / 9.09) ** 0.5)):
        records = np.ones((400_000, P)), rng.normal(0, sd, 400_000)
        found, hessian = (one.curvature_root(theta, records)[:, 0, 0] ** 2 for one in (loss, narrow))
        assert found.mean() / hessian.mean() == pytest.approx(ratio, abs=0.02)
        assert found.var() < 0.45 * hessian.var()


@pytest.mark.parametrize("name", NAMES)
def test_a_record_s_curvature_does_not_depend_on_the_batch(name):
    rng = np.random.default_rng(3)
    loss, records = LOSSES[name], records_of(name, rng)
    theta = theta_of(loss, rng)
    strange = tuple(
        rng.choice([np.nan, np.inf, -np.inf, 1e300, 0.0], c.shape) if c.dtype.kind == "f" else np.zeros_like(c)
        for c in records
    )
    kept = rng.random(40) < 0.3
    mixed = tuple(np.where(kept.reshape(-1, *[1] * (c.ndim - 1)), c, h) for c, h in zip(records, strange, strict=True))
    for majorising in (False, True):
        together = loss.curvature_root(theta, records, majorising=majorising)
        few = rng.permutation(40)[:7]
        np.testing.assert_array_equal(
            loss.curvature_root(theta, tuple(c[few] for c in records), majorising=majorising), together[few]
        )
        with np.errstate(invalid="ignore"):
            other = loss.curvature_root(theta, mixed, majorising=majorising)
        np.testing.assert_array_equal(other[kept], together[kept])


# --- bounds -----------------------------------------------------------------------------------------------------------


def assert_bounded(loss, theta, records):
    """Exactly, in rationals: at the Hessian and at what majorises."""
    for majorising in (False, True):
        limit = Fraction(loss.curvature_bound(theta, majorising=majorising))
        roots = loss.curvature_root(theta, records, majorising=majorising)
        assert np.isfinite(roots).all()
        for root in roots.reshape(len(roots), -1):
            assert sum(Fraction(float(v)) ** 2 for v in root) <= limit


coordinates = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1e-300, -1e-300, 5e-324, 1e300, -1e300, 1e16, -1e-9, 1e-4, 1.0, -1.0])
)
vectors = st.lists(coordinates, min_size=P, max_size=P).map(np.array)
covariates = st.lists(st.one_of(st.floats(-1, 1), st.sampled_from([1.0, -1.0, 0.0])), min_size=P, max_size=P).map(
    np.array
)
responses = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, 1e300, -1e300, 1e-300, 5e-324]))
scales = st.one_of(st.floats(0.01, 10), st.sampled_from([1e300, 0.0, -1.0, 1e-30]))


@many
@given(theta=vectors, scale=scales, x=covariates, y=responses, c=st.sampled_from([1e-100, 0.01, 3.0, 1e100]),
       low=st.sampled_from([1e-30, 0.01]))  # fmt: skip
def test_huber_curvature_bound(theta, scale, x, y, c, low):
    records = x[None], np.array([y])
    for loss in (LOSSES["huber"], dataclasses.replace(LOSSES["huber"], c=c, scale_box=(low, 10), start=())):
        assert_bounded(loss, np.append(theta, scale), records)


@many
@given(theta=vectors, x=covariates, y=responses, h=st.sampled_from([0.1, 1e-100, 1e-3, 1e3, 1e100]))
def test_quantile_curvature_bound(theta, x, y, h):
    assert_bounded(dataclasses.replace(LOSSES["quantile"], bandwidth=h), theta, (x[None], np.array([y])))


@many
@given(theta=vectors, x=covariates, y=st.sampled_from([0.0, 1.0]))
def test_logistic_curvature_bound(theta, x, y):
    assert_bounded(LOSSES["logistic"], theta, (x[None], np.array([y])))


@many
@given(theta=coordinates, x=responses, clip=st.one_of(st.floats(1e-3, 1e3), st.sampled_from([1e-100, 1e100])),
       sd=st.sampled_from([1e-100, 0.5, 1e100]))  # fmt: skip
def test_mean_curvature_bound(theta, x, clip, sd):
    for loss in (
        MeanLoss(data_bounds=(-5, 5), sd=sd, clip=clip),
        MeanLoss(data_bounds=(0, 12), clip=clip, family="exponential"),
        MeanLoss(data_bounds=(0, 12), clip=clip, family="exponential", box=(1e-30, 12)),
    ):
        at = np.array([theta])
        assert_bounded(loss, at, (np.array([x]),))
        assert 0 <= loss.curvature_shift(at) < math.inf


@many
@given(
    theta=st.lists(coordinates, min_size=4, max_size=4).map(np.array),
    said=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0])), max_size=40),
    padding=st.integers(0, 3),
)
def test_bradley_terry_curvature_bound(theta, said, padding):
    width = max(len(said) + padding, 1)
    left, right, outcome = np.full((1, width), 2), np.full((1, width), 3), np.full((1, width), 1.0)
    for k, (one, other, result) in enumerate(said):
        left[0, k], right[0, k], outcome[0, k] = one, other, result
    records = left, right, outcome, np.array([len(said)])
    loss = LOSSES["bradley-terry"]
    assert_bounded(loss, theta, records)
    if not said:
        assert not loss.curvature_root(theta, records).any()


@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_curvature_are_reached(name):
    loss = LOSSES[name]
    ones = np.ones((1, P))
    theta, records = {
        "huber": (np.array([0.0, 0, 0, 0.2]), (ones, np.array([0.2 * 1.345 * (1 - 1e-12)]))),
        "quantile": (np.zeros(P), (ones, np.zeros(1))),
        "logistic": (np.zeros(P), (ones, np.ones(1))),
        "gaussian": (np.zeros(1), (np.zeros(1),)),
        "exponential": (np.array([0.5]), (np.array([2.5 - 1e-9]),)),
        "bradley-terry": (np.zeros(4), (np.array([[0, 2]]), np.array([[1, 1]]), np.ones((1, 2)), np.array([2]))),
    }[name]
    for majorising in (False, True):
        reached = float((loss.curvature_root(theta, records, majorising=majorising) ** 2).sum())
        assert reached == pytest.approx(loss.curvature_bound(theta, majorising=majorising), rel=1e-8)


def test_curvature_of_a_clipped_exponential_is_flat():
    """m = 1/2, C = 8: x beyond m + C m^2 = 2.5 has the gradient -C, and the sums of squares hold the shift alone."""
    loss, theta = LOSSES["exponential"], np.array([0.5])
    records = (np.array([0.0, 2.4, 2.6, 12.0]),)
    expected = [-4.0, 2 * 2.4 / 0.125 - 4, 0.0, 0.0]
    np.testing.assert_allclose(hessians(loss, theta, records)[:, 0, 0], expected, atol=1e-12)


# --- majorising -------------------------------------------------------------------------------------------------------


def excess(loss, theta, other, records, level=None, majorising=True):
    """By how much the quadratic at theta lies above the loss at the other place, relative to the numbers in it."""
    step = other - theta
    at, there = (loss.value(place, records, level) for place in (theta, other))
    along = loss.gradient(theta, records, level) @ step
    bend = np.einsum("nka,a->nk", loss.curvature_root(theta, records, majorising=majorising), step)
    square = (bend**2).sum(axis=1) / 2
    return (at + along + square - there) / (1 + np.abs(at) + np.abs(there) + np.abs(along) + square)


@pytest.mark.parametrize("name", CONVEX)
@some
@given(seed=st.integers(0, 2**32 - 1), reach=st.sampled_from([1e-4, 1e-2, 1.0, 30.0, 1e4]))
def test_what_majorises_lies_above_the_loss(name, seed, reach):
    """Anywhere, in and beyond the box; for Huber at the same scale."""
    rng = np.random.default_rng(seed)
    loss, records = LOSSES[name], records_of(name, rng)
    level, theta = level_of(loss, rng), theta_of(loss, rng)
    for _ in range(5):
        other = theta + reach * rng.standard_normal(len(theta))
        if name == "huber":
            other[-1] = theta[-1]
        assert excess(loss, theta, other, records, level).min() >= -1e-13


@pytest.mark.parametrize("name", CONVEX)
def test_the_hessian_itself_does_not_lie_above_the_loss(name):
    """The power of the test above."""
    rng = np.random.default_rng(7)
    loss, records = LOSSES[name], records_of(name, rng)
    level, lowest = level_of(loss, rng), 0.0
    for _ in range(20):
        theta = theta_of(loss, rng)
        other = theta + rng.standard_normal(len(theta))
        if name == "huber":
            other[-1] = theta[-1]
        lowest = min(lowest, excess(loss, theta, other, records, level, majorising=False).min())
    assert lowest < -1e-3


@pytest.mark.parametrize("name", ["quantile", "logistic", "bradley-terry"])
def test_what_majorises_touches_the_loss_near_its_middle_too(name):
    """Linear predictors of 1e-9 to 1: where a difference quotient becomes a derivative, nothing jumps below."""
    z = np.geomspace(1e-9, 1, 2000)
    loss = LOSSES[name]
    if name == "bradley-terry":
        records = np.zeros((1, 1), int), np.ones((1, 1), int), np.ones((1, 1)), np.ones(1, int)
        roots = [loss.curvature_root(np.array([at, 0, 0, 0]), records, majorising=True)[0, 0, 0] ** 2 for at in z]
        middle = 0.25
    else:
        x = np.zeros((len(z), P))
        x[:, 0] = z if name == "logistic" else 1
        records = (x, z) if name == "quantile" else (x, np.zeros(len(z)))
        theta = np.eye(P)[0] * (name == "logistic")
        roots = loss.curvature_root(theta, records, majorising=True)[:, 0, 0] ** 2 / x[:, 0] ** 2
        middle = 1 / (loss.bandwidth * math.sqrt(2 * math.pi)) if name == "quantile" else 0.25
    roots = np.array(roots) / middle
    ratio = (z / loss.bandwidth) ** 2 / 6 if name == "quantile" else z**2 / 12
    assert roots.max() <= 1 + 1e-15
    assert np.diff(roots).max() <= 1e-15  # falls
    near = ratio < 1e-4
    np.testing.assert_allclose(roots[near], 1 - ratio[near], rtol=2e-8)  # two terms of the series
    tiny = ratio < 1e-9
    np.testing.assert_allclose(roots[tiny], 1 - ratio[tiny], rtol=2e-15)


def test_logistic_curvature_at_extremes():
    z = np.array([0.0, 5e-324, 1e-300, 1e-9, 1e-8, 800.0, 1e300, -1e300, -2.0])
    half = logistic_curvature(z, majorising=True)
    np.testing.assert_allclose(half[:5], 0.25, rtol=1e-15)
    np.testing.assert_allclose(half[5:], [1 / 1600, 5e-301, 5e-301, (0.5 - 1 / (1 + math.e**2)) / 2], rtol=1e-14)
    plain = logistic_curvature(z, majorising=False)
    np.testing.assert_allclose(plain, [0.25] * 5 + [0, 0, 0, 1 / (2 + math.e**2 + math.e**-2)], rtol=1e-14, atol=1e-300)
    assert (plain <= half * (1 + 1e-15)).all()


def test_huber_is_majorised_in_its_coefficients_and_not_in_its_scale():
    """r^2 / (2 s) grows without end as s falls, and a quadratic does not: the docstring says beta alone."""
    loss, records = LOSSES["huber"], (np.ones((1, P)), np.array([1.0]))
    theta = np.array([0.0, 0, 0, 2.0])
    assert excess(loss, theta, np.array([0, 0, 0, 0.9]), records) < -0.01
    assert excess(loss, theta, np.array([3.0, 1.0, 2.0, 2.0]), records) > 0.05
    beyond = (np.ones((1, P)), np.array([9.0]))
    np.testing.assert_allclose(
        loss.curvature_root(theta, beyond, majorising=True)[0, 0], [(1.345 / 9) ** 0.5] * 3 + [0]
    )


def test_the_exponential_family_gives_its_hessian_for_what_majorises():
    rng = np.random.default_rng(4)
    loss, records = LOSSES["exponential"], records_of("exponential", rng)
    theta = np.array([2.0])
    plain, half = (loss.curvature_root(theta, records, majorising=flag) for flag in (False, True))
    np.testing.assert_array_equal(plain, half)


@pytest.mark.parametrize("name", CONVEX)
def test_newton_steps_with_what_majorises_never_raise_the_mean_loss(name):
    """From the corners of the box, where plain Newton steps may run away; Huber's at a fixed scale."""
    rng = np.random.default_rng(5)
    loss, records = LOSSES[name], records_of(name, rng, 200)
    level = level_of(loss, rng)
    free = slice(0, P) if name == "huber" else slice(None)
    for corner in range(4):
        theta = np.where(np.arange(len(loss.names)) % 2 == corner % 2, loss.lower, loss.upper).astype(float)
        if name == "huber":
            theta[-1] = (0.05, 0.3, 1.0, 4.0)[corner]
        before = loss.value(theta, records, level).mean()
        for _ in range(30):
            gradient = loss.gradient(theta, records, level).mean(axis=0)[free]
            matrix = hessians(loss, theta, records, majorising=True).mean(axis=0)[free, free]
            theta = theta.copy()
            theta[free] -= np.linalg.pinv(matrix, rcond=1e-12) @ gradient
            after = loss.value(theta, records, level).mean()
            assert after <= before + 1e-12 * abs(before)
            before = after


# --- flat directions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@some
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_changes_along_flat_directions_and_all_else_does(name, seed):
    rng = np.random.default_rng(seed)
    loss, records = LOSSES[name], records_of(name, rng, 200)
    level, theta = level_of(loss, rng), theta_of(loss, rng)
    flat = np.array(loss.flat_directions).reshape(-1, len(theta))
    np.testing.assert_allclose(flat @ flat.T, np.eye(len(flat)), atol=1e-15)
    roots = loss.curvature_root(theta, records, majorising=True)
    value = loss.value(theta, records, level)
    for direction in flat:
        assert np.abs(loss.gradient(theta, records, level) @ direction).max() <= 1e-15
        assert np.abs(roots @ direction).max() <= 1e-15
        for step in (-3.0, 0.01, 100.0):
            np.testing.assert_allclose(loss.value(theta + step * direction, records, level), value, rtol=1e-12)
    if name != "huber":  # whose scale is not majorised: no curvature in s where all residuals are clipped
        curvature = (roots.reshape(-1, len(theta)).T @ roots.reshape(-1, len(theta))) / len(roots)
        eigenvalues = np.linalg.eigvalsh(curvature)
        assert (eigenvalues > 1e-6 * loss.curvature_bound(theta, majorising=True)).sum() == len(theta) - len(flat)


def test_items_that_do_not_exist_are_those_nearest_in_curvature_too():
    loss, theta = LOSSES["bradley-terry"], np.array([0.5, -1.0, 0.0, 2.0])
    outcome, count = np.ones((1, 2)), np.array([2])
    strange = np.array([[-7, 99]]), np.array([[2, 1]]), outcome, count
    nearest = np.array([[0, 3]]), np.array([[2, 1]]), outcome, count
    np.testing.assert_array_equal(loss.gradient(theta, strange), loss.gradient(theta, nearest))
    np.testing.assert_array_equal(loss.curvature_root(theta, strange), loss.curvature_root(theta, nearest))


@pytest.mark.parametrize("items", [2, 3, 7, 60])
def test_scores_are_flat_in_one_direction(items):
    loss = BradleyTerryLoss(items=tuple(f"item {i}" for i in range(items)))
    (direction,) = loss.flat_directions
    assert math.isclose(math.fsum(v * v for v in direction), 1, rel_tol=1e-14)
    assert len(set(direction)) == 1


# --- extreme numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_extreme_numbers_are_finite_and_silent(name):
    """Warnings are errors in this suite. Theta and data up to 1e300, and as near to zero as doubles go."""
    extremes = [0.0, 5e-324, -1e-300, 1e-160, 1e160, 1e300, -1e300]
    loss, d = LOSSES[name], len(LOSSES[name].names)
    rng = np.random.default_rng(6)
    for at in extremes:
        theta = np.full(d, at) * rng.choice([-1, 1], d)
        if name == "bradley-terry":
            records = records_of(name, rng)
        elif name in ("gaussian", "exponential"):
            records = (np.array(extremes),)
        else:
            y = np.array(extremes) if name != "logistic" else (np.array(extremes) > 0) * 1.0
            records = rng.choice([-1.0, 0.0, 1.0, 5e-324], (len(extremes), P)), y
        for majorising in (False, True):
            assert np.isfinite(loss.curvature_root(theta, records, majorising=majorising)).all()
            assert 0 < loss.curvature_bound(theta, majorising=majorising) < math.inf
        assert 0 <= loss.curvature_shift(theta) < math.inf
        assert_bounded(loss, theta, records)

"""Losses: proved bounds hold exactly, gradients are derivatives, numpy and JAX agree, nothing is NaN at extremes."""

import dataclasses
import math
import pickle
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.bootstrap.design import Design
from psephos.bootstrap.losses import (
    BradleyTerryLoss,
    CustomLoss,
    HuberLoss,
    LogisticLoss,
    Loss,
    MeanLoss,
    QuantileLoss,
    comparison_records,
    namespace,
)
from psephos.errors import DataError, ParameterError
from psephos.profile import Comparisons

many = settings(max_examples=100, deadline=None, derandomize=True)
few = settings(max_examples=30, deadline=None, derandomize=True)

P = 3
R = math.sqrt(P)
COVARIATES = ("a", "b", "c")
BOX = {"covariates": COVARIATES, "covariate_bound": R, "coefficient_box": (-5, 5)}
HUBER = HuberLoss(**BOX, scale_box=(0.01, 10))
QUANTILE = QuantileLoss(**BOX)
LOGISTIC = LogisticLoss(**BOX)
GAUSSIAN = MeanLoss(data_bounds=(-5, 5), sd=0.5, clip=8)
EXPONENTIAL = MeanLoss(data_bounds=(0, 12), clip=8, family="exponential")
ITEMS = BradleyTerryLoss(items=("p", "q", "r", "s"), score_box=(-4, 4))


def regression_records(rng, n=40, *, binary=False):
    x = rng.uniform(-1, 1, (n, P))
    y = (rng.random(n) < 0.5) * 1.0 if binary else x @ [1.5, -1.5, 1.0] + rng.standard_t(3, n)
    return x, y


def answers(rng, n=12, width=5, m=4):
    left = rng.integers(0, m, (n, width))
    right = (left + rng.integers(1, m, (n, width))) % m
    outcome = rng.choice([0.0, 0.5, 1.0], (n, width))
    return left, right, outcome, rng.integers(0, width + 1, n)


def made(name, rng):
    """A loss and records of its domain."""
    return {
        "huber": lambda: (HUBER, regression_records(rng)),
        "quantile": lambda: (QUANTILE, regression_records(rng)),
        "logistic": lambda: (LOGISTIC, regression_records(rng, binary=True)),
        "gaussian": lambda: (GAUSSIAN, (rng.uniform(-7, 7, 40),)),
        "exponential": lambda: (EXPONENTIAL, (np.concatenate([rng.exponential(2, 38), [0.0, 1e-3]]),)),
        "bradley-terry": lambda: (ITEMS, answers(rng)),
    }[name]()


NAMES = ("huber", "quantile", "logistic", "gaussian", "exponential", "bradley-terry")


def level_of(loss, rng):
    return None if loss.levels is None else float(rng.choice(loss.levels))


def exact_norm_squared(gradient):
    return sum(Fraction(float(g)) ** 2 for g in gradient)


def assert_within(loss, gradients, level=None):
    """Exactly, in rationals."""
    limit = Fraction(loss.bound if level is None else loss.bound_at(level)) ** 2
    gradients = np.asarray(gradients)
    assert np.isfinite(gradients).all()
    for row in gradients:
        assert exact_norm_squared(row) <= limit


# --- one contract for all ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_offers_what_the_protocol_says(name):
    rng = np.random.default_rng(5)
    loss, records = made(name, rng)
    level = level_of(loss, rng)
    assert isinstance(loss, Loss)
    d, n = len(loss.names), len(records[0])
    assert len(loss.lower) == len(loss.upper) == len(loss.start) == d
    assert all(low <= at <= high for low, at, high in zip(loss.lower, loss.start, loss.upper, strict=True))
    theta = np.array(loss.start)
    assert loss.value(theta, records, level).shape == (n,)
    assert loss.gradient(theta, records, level).shape == (n, d)
    assert loss.gradient(theta, records, level).dtype == np.float64
    assert (loss.levels is None) == (loss.level_weights is None)
    assert loss.bound_at(level) <= loss.bound
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert hash(loss) == hash(dataclasses.replace(loss))
    with pytest.raises(dataclasses.FrozenInstanceError):
        loss.bound = 0.0


@pytest.mark.parametrize("name", NAMES)
@few
@given(seed=st.integers(0, 2**32 - 1))
def test_the_gradient_is_the_derivative_of_the_value(name, seed):
    rng = np.random.default_rng(seed)
    loss, records = made(name, rng)
    level = level_of(loss, rng)
    low, high = np.array(loss.lower), np.array(loss.upper)
    theta = rng.uniform(low + 0.02 * (high - low), high - 0.02 * (high - low))
    got = loss.gradient(theta, records, level)
    for j in range(len(theta)):
        # The finest step costs half the digits; the coarse one catches a kink of Huber's or of a clip within it.
        step = 1e-6 * max(1.0, abs(theta[j]))
        shift = np.eye(len(theta))[j] * step
        difference = (loss.value(theta + shift, records, level) - loss.value(theta - shift, records, level)) / (
            2 * step
        )
        curvature = abs(loss.gradient(theta + shift, records, level) - loss.gradient(theta - shift, records, level))
        assert np.all(np.abs(difference - got[:, j]) <= 2e-7 * loss.bound + curvature[:, j])


@pytest.mark.parametrize("name", NAMES)
def test_numpy_and_jax_agree(name):
    rng = np.random.default_rng(14)
    loss, _ = made(name, rng)
    with jax.enable_x64():
        value, gradient = jax.jit(loss.value), jax.jit(loss.gradient)
        for _ in range(40):
            _, records = made(name, rng)
            level = level_of(loss, rng)
            theta = rng.uniform(loss.lower, loss.upper)
            for got, wanted in (
                (value(theta, records, level), loss.value(theta, records, level)),
                (gradient(theta, records, level), loss.gradient(theta, records, level)),
            ):
                assert got.dtype == jnp.float64
                np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-12, atol=1e-12 * loss.bound)


@pytest.mark.parametrize("name", NAMES)
def test_under_vmap_and_jit_with_a_traced_level(name):
    rng = np.random.default_rng(11)
    loss, records = made(name, rng)
    thetas = rng.uniform(loss.lower, loss.upper, (3, len(loss.names)))
    levels = np.array([0.1, 0.5, 0.9])
    with jax.enable_x64():
        batched = jax.jit(jax.vmap(lambda t, level: loss.gradient(t, records, level)))(thetas, levels)
        for theta, level, got in zip(thetas, levels, batched, strict=True):
            wanted = loss.gradient(theta, records, level if loss.levels else None)
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-12, atol=1e-12 * loss.bound)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_stays_single(name):
    """Training runs in single precision; a stray double would change the program, not fail."""
    rng = np.random.default_rng(12)
    loss, records = made(name, rng)
    level = None if loss.levels is None else jnp.float32(0.3)
    theta = np.asarray(rng.uniform(loss.lower, loss.upper), np.float32)
    single = tuple(np.asarray(c, np.float32 if c.dtype.kind == "f" else np.int32) for c in records)
    with jax.enable_x64():
        on_jax = tuple(jnp.asarray(c) for c in single)
        got = jax.jit(loss.gradient)(jnp.asarray(theta), on_jax, level)
    assert got.dtype == jnp.float32
    wanted = loss.gradient(
        theta.astype(float),
        tuple(c.astype(float) if c.dtype.kind == "f" else c for c in single),
        None if level is None else float(level),
    )
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=2e-3, atol=2e-5 * loss.bound)


@pytest.mark.parametrize("name", NAMES)
def test_a_record_s_gradient_does_not_depend_on_the_batch(name):
    rng = np.random.default_rng(13)
    loss, records = made(name, rng)
    level = level_of(loss, rng)
    theta = rng.uniform(loss.lower, loss.upper)
    together = loss.gradient(theta, records, level)
    some = rng.permutation(len(together))[:7]
    np.testing.assert_array_equal(loss.gradient(theta, tuple(c[some] for c in records), level), together[some])
    alone = [loss.gradient(theta, tuple(c[i : i + 1] for c in records), level)[0] for i in some]
    np.testing.assert_array_equal(alone, together[some])


@pytest.mark.parametrize("name", ["huber", "quantile", "logistic", "gaussian", "bradley-terry"])
@few
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 1))
def test_convex(name, seed, share):
    rng = np.random.default_rng(seed)
    loss, records = made(name, rng)
    level = level_of(loss, rng)
    one, two = rng.uniform(loss.lower, loss.upper, (2, len(loss.names)))
    ends = [loss.value(theta, records, level) for theta in (one, two)]
    between = loss.value(share * one + (1 - share) * two, records, level)
    chord = share * ends[0] + (1 - share) * ends[1]
    assert np.all(between <= chord + 1e-12 * (1 + np.abs(ends[0]) + np.abs(ends[1])))


def test_namespace_tells_traced_arrays():
    seen = []
    jax.jit(jax.vmap(lambda t: seen.append(namespace(t)) or t))(jnp.zeros(2))
    assert seen == [jnp]
    assert namespace(np.zeros(2), jnp.zeros(2)) is jnp
    assert namespace(np.zeros(2), 0.5, None) is np


# --- bounds -----------------------------------------------------------------------------------------------------------

coordinates = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1e-300, -1e-300, 1e300, -1e300, 1e16, -1e16, 1.0, -1.0])
)
vectors = st.lists(coordinates, min_size=P, max_size=P).map(np.array)
covariates = st.lists(st.one_of(st.floats(-1, 1), st.sampled_from([1.0, -1.0, 0.0])), min_size=P, max_size=P).map(
    np.array
)
responses = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, 1e300, -1e300, 1e-300]))


def huber_of(theta, scale, x, y, **changed):
    loss = dataclasses.replace(HUBER, **changed)
    return loss, loss.gradient(np.append(theta, scale), (x[None], np.array([y])))


@many
@given(theta=vectors, scale=st.one_of(st.floats(0.01, 10), st.sampled_from([1e300, 0.0, -1.0, -1e300])), x=covariates,
       y=responses, c=st.floats(0.01, 10), kappa=st.floats(0.01, 10))  # fmt: skip
def test_huber_bound(theta, scale, x, y, c, kappa):
    assert_within(*huber_of(theta, scale, x, y))
    assert_within(*huber_of(theta, scale, x, y, c=c, kappa=kappa))


def test_huber_bound_is_sharp_and_the_documents_is_not():
    assert math.isclose(HUBER.bound, 2.393541, abs_tol=5e-7)
    assert HUBER.bound >= math.sqrt(1.345**2 * 3 + ((1.345**2 - 0.71) / 2) ** 2)
    loss, gradient = huber_of(np.zeros(P), 1.0, np.ones(P), 100.0)
    assert math.isclose(np.linalg.norm(gradient), loss.bound, rel_tol=1e-13)
    # the scale's part decides where kappa is large: attained at r = 0
    loss, gradient = huber_of(np.zeros(P), 1.0, np.ones(P) / 100, 0.0, kappa=9.0, covariate_bound=0.02)
    assert math.isclose(np.linalg.norm(gradient), loss.bound, rel_tol=1e-13)
    assert loss.bound < math.hypot(1.345 * 0.02, 9.0 - 0.71)


def test_huber_printed_bound_of_the_source_document():
    printed = dataclasses.replace(HUBER, bound_rule="printed")
    assert printed.bound == HUBER.printed_bound > HUBER.bound
    assert round(printed.bound, 6) == 2.648291
    with pytest.raises(ParameterError, match="bound_rule must be one of tight, printed"):
        dataclasses.replace(HUBER, bound_rule="loose")


@many
@given(
    theta=vectors,
    x=covariates,
    y=responses,
    level=st.sampled_from(QUANTILE.levels),
    h=st.sampled_from([0.1, 1e-100, 1e3]),
)
def test_quantile_bound(theta, x, y, level, h):
    loss = dataclasses.replace(QUANTILE, bandwidth=h)
    gradient = loss.gradient(theta, (x[None], np.array([y])), level)
    assert_within(loss, gradient, level)
    assert_within(loss, gradient)


def test_quantile_bound_is_approached_at_each_level():
    assert math.isclose(QUANTILE.bound, 0.9 * R, rel_tol=1e-13)
    for level in QUANTILE.levels:
        x = np.ones((2, P))
        norms = np.linalg.norm(QUANTILE.gradient(np.zeros(P), (x, np.array([9.0, -9.0])), level), axis=-1)
        assert math.isclose(norms.max(), QUANTILE.bound_at(level), rel_tol=1e-12)
        assert QUANTILE.bound_at(level) >= max(level, 1 - level) * R


@many
@given(theta=vectors, x=covariates, y=st.sampled_from([0.0, 1.0]))
def test_logistic_bound(theta, x, y):
    assert_within(LOGISTIC, LOGISTIC.gradient(theta, (x[None], np.array([y]))))
    assert LOGISTIC.bound >= R
    assert np.isfinite(LOGISTIC.value(theta, (x[None], np.array([y])))).all()


@many
@given(theta=coordinates, x=responses, clip=st.floats(1e-3, 1e3), sd=st.sampled_from([1e-100, 0.5, 1e100]))
def test_mean_bound(theta, x, clip, sd):
    records = (np.array([x]),)
    for loss in (
        MeanLoss(data_bounds=(-5, 5), sd=sd, clip=clip),
        MeanLoss(data_bounds=(0, 12), clip=clip, family="exponential"),
        MeanLoss(data_bounds=(0, 12), clip=clip, family="exponential", box=(1e-30, 12)),
    ):
        assert loss.bound == clip
        assert_within(loss, loss.gradient(np.array([theta]), records))
        assert not np.isnan(loss.value(np.array([theta]), records)).any()


@many
@given(
    theta=st.lists(coordinates, min_size=4, max_size=4).map(np.array),
    said=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from([0.0, 0.5, 1.0])), max_size=40),
    padding=st.integers(0, 3),
)
def test_bradley_terry_bound(theta, said, padding):
    width = max(len(said) + padding, 1)
    left, right, outcome = np.full((1, width), 2), np.full((1, width), 3), np.full((1, width), 1.0)
    for k, (item, step, result) in enumerate(said):
        left[0, k], right[0, k], outcome[0, k] = item, (item + step) % 4, result
    records = left, right, outcome, np.array([len(said)])
    gradient = ITEMS.gradient(theta, records)
    assert_within(ITEMS, gradient)
    assert abs(gradient.sum()) <= 1e-15
    if not said:
        assert not gradient.any()
        assert ITEMS.value(theta, records) == 0


def test_bradley_terry_bound_is_attained_by_any_number_of_equal_answers():
    assert math.sqrt(2) < ITEMS.bound < math.sqrt(2) * (1 + 1e-11)
    for times in (1, 2, 8000):
        records = np.zeros((1, times), int), np.ones((1, times), int), np.ones((1, times)), np.array([times])
        gradient = ITEMS.gradient(np.array([-500.0, 500, 0, 0]), records)
        assert_within(ITEMS, gradient)
        assert math.isclose(np.linalg.norm(gradient), math.sqrt(2), rel_tol=1e-15)


# --- values against independent computations --------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("r", [-1.0, -0.05, 0.0, 0.1, 2.0])
def test_quantile_value_is_the_convolution_with_the_check_loss(level, r):
    h = 0.3
    loss = QuantileLoss(covariates=("a",), covariate_bound=1, coefficient_box=(-1, 1), bandwidth=h)

    def integrand(v):
        kernel = math.exp(-(((r - v) / h) ** 2) / 2) / (h * math.sqrt(2 * math.pi))
        return v * (level - (v < 0)) * kernel

    pieces = [scipy.integrate.quad(integrand, a, b, epsabs=1e-13)[0] for a, b in ((r - 12 * h, 0), (0, r + 12 * h))]
    got = loss.value(np.zeros(1), (np.ones((1, 1)), np.array([r])), level)
    assert math.isclose(got[0], sum(pieces), rel_tol=1e-9, abs_tol=1e-11)


def test_huber_value_is_the_definition():
    rng = np.random.default_rng(3)
    x, y = regression_records(rng, 200)
    theta = np.array([1.0, -1.0, 0.5, 0.4])
    z = (y - x @ theta[:3]) / 0.4
    rho = np.where(np.abs(z) <= 1.345, z**2 / 2, 1.345 * np.abs(z) - 1.345**2 / 2)
    np.testing.assert_allclose(HUBER.value(theta, (x, y)), 0.4 * rho + 0.71 * 0.4 / 2, rtol=1e-12)


def test_huber_scale_is_consistent_for_normal_errors():
    y = np.random.default_rng(4).normal(0, 0.5, 200_000)
    x = np.ones((len(y), 1))
    loss = HuberLoss(covariates=("one",), covariate_bound=1, coefficient_box=(-2, 2), scale_box=(0.01, 10))
    root = scipy.optimize.brentq(lambda s: loss.gradient(np.array([0.0, s]), (x, y))[:, 1].mean(), 0.1, 2)
    assert abs(root - 0.5) < 0.005


def test_exponential_value_with_both_clips_is_the_integral_of_its_gradient():
    loss = MeanLoss(data_bounds=(0, 12), clip=0.5, family="exponential", box=(1e-3, 12))
    for x in (0.0, 1e-6, 0.1, 0.49, 0.5, 0.51, 3.0):  # 4 C x = 1 at one half
        records = (np.array([x]),)

        def slope(m, records=records):
            return loss.gradient(np.array([m]), records)[0, 0]

        seen = [slope(m) for m in np.geomspace(0.01, 11.9, 200)]
        assert max(map(abs, seen)) <= 0.5
        assert (0.5 in seen) == (x < 0.5)
        for low, high in ((0.01, 0.3), (0.3, 1.0), (1.0, 11.9)):
            area = scipy.integrate.quad(slope, low, high, limit=400, epsabs=1e-10)[0]
            rise = loss.value(np.array([high]), records) - loss.value(np.array([low]), records)
            assert math.isclose(area, rise[0], abs_tol=1e-8)


def test_mean_values_are_likelihoods_where_no_clip_binds():
    x = np.array([1.0, 2.0, 3.0])
    theta = np.array([1.7])
    np.testing.assert_allclose(GAUSSIAN.value(theta, (x,)), (1.7 - x) ** 2 / (2 * 0.25), rtol=1e-14)
    np.testing.assert_allclose(EXPONENTIAL.value(theta, (x,)), math.log(1.7) + x / 1.7, rtol=1e-14)


def test_logistic_is_minus_log_likelihood():
    rng = np.random.default_rng(6)
    x, y = regression_records(rng, binary=True)
    theta = np.array([0.3, -1.0, 2.0])
    p = 1 / (1 + np.exp(-(x @ theta)))
    np.testing.assert_allclose(LOGISTIC.value(theta, (x, y)), -np.log(np.where(y == 1, p, 1 - p)), rtol=1e-12)


def test_bradley_terry_by_hand_and_padding_is_ignored():
    theta = np.array([0.4, -0.2, 1.0, 0.0])
    records = np.array([[0, 2, 3]]), np.array([[1, 0, 3]]), np.array([[1.0, 0.5, 7.0]]), np.array([2])
    first, second = 0.6, 0.6
    cost = math.log1p(math.exp(-first)) + (math.log1p(math.exp(-second)) + math.log1p(math.exp(second))) / 2
    assert math.isclose(ITEMS.value(theta, records)[0], cost / 2, rel_tol=1e-14)
    other = (*(c.copy() for c in records[:3]), records[3])
    other[0][0, 2], other[1][0, 2], other[2][0, 2] = 1, 2, 0.0
    np.testing.assert_array_equal(ITEMS.gradient(theta, records), ITEMS.gradient(theta, other))


def test_bradley_terry_two_items_seven_to_three():
    table = Comparisons.from_columns(["a", "b"], [0] * 10, [1] * 10, [1] * 7 + [-1] * 3, person=range_of(10))
    loss, records = BradleyTerryLoss.from_comparisons(table), comparison_records(table, max_comparisons=9)
    gap = scipy.optimize.brentq(lambda z: loss.gradient(np.array([z, 0.0]), records)[:, 0].mean(), -5, 5)
    assert math.isclose(gap, math.log(7 / 3), rel_tol=1e-10)


def range_of(n):
    return np.arange(n)


# --- comparisons to records -------------------------------------------------------------------------------------------


@few
@given(seed=st.integers(0, 2**32 - 1), limit=st.sampled_from([1, 2, 5, 40]))
def test_comparisons_are_grouped_by_person(seed, limit):
    rng = np.random.default_rng(seed)
    count, people, m = int(rng.integers(0, 30)), 6, 4
    left = rng.integers(0, m, count)
    right = (left + rng.integers(1, m, count)) % m
    outcome, person = rng.integers(-1, 2, count), rng.integers(0, people, count)
    table = Comparisons.from_columns(list("pqrs"), left, right, outcome, person=person, persons=tuple("uvwxyz"))
    got = comparison_records(table, max_comparisons=limit)
    assert got[0].shape == got[1].shape == got[2].shape == (people, limit)
    assert got[3].shape == (people,)
    for i in range(people):
        rows = np.flatnonzero(person == i)[:limit]
        assert got[3][i] == len(rows)
        assert got[0][i, : len(rows)].tolist() == left[rows].tolist()
        assert got[1][i, : len(rows)].tolist() == right[rows].tolist()
        assert got[2][i, : len(rows)].tolist() == ((1 + outcome[rows]) / 2).tolist()


@pytest.mark.parametrize("limit", [1, 2, 30])
def test_q8_any_number_of_answers_a_person(limit):
    rng = np.random.default_rng(8)
    left = rng.integers(0, 4, 60)
    table = Comparisons.from_columns(
        list("pqrs"), left, (left + 1) % 4, rng.integers(-1, 2, 60), person=rng.integers(0, 7, 60)
    )
    gradient = ITEMS.gradient(np.array([0.1, 2.0, -3.0, 0.0]), comparison_records(table, max_comparisons=limit))
    assert_within(ITEMS, gradient)
    assert ITEMS.bound == BradleyTerryLoss(items=("p", "q")).bound


def test_comparisons_that_cannot_be_records():
    table = Comparisons.from_columns(list("ab"), [0, 1], [1, 0], [1, 0])
    with pytest.raises(ParameterError, match="do not say who gave them"):
        comparison_records(table, max_comparisons=9)
    named = dataclasses.replace(table, person=np.array([0, 0]), persons=("p",))
    with pytest.raises(ParameterError, match="max_comparisons must be a whole number >= 1 and <= 1000000, got 0"):
        comparison_records(named, max_comparisons=0)
    with pytest.raises(ParameterError, match="weights are not used here"):
        comparison_records(dataclasses.replace(named, weight=(1, 2)), max_comparisons=9)
    seen = dataclasses.replace(table, items_source="seen")
    with pytest.raises(ParameterError, match="not a public list"):
        BradleyTerryLoss.from_comparisons(seen)
    assert BradleyTerryLoss.from_comparisons(seen.with_items_public()).names == ("a", "b")


# --- rows of the list of faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.1, math.nan, 1e-13, "0.5", None, True])
def test_q1_levels_out_of_range(level):
    with pytest.raises(ValueError, match=r"levels\[0\] must be a number strictly between 0 and 1"):
        QuantileLoss(**BOX, levels=(level,))
    if level is not None:
        with pytest.raises(ParameterError, match="level must be a number strictly between 0 and 1"):
            QUANTILE.bound_at(level)


def test_q1_extreme_levels_that_are_allowed():
    loss = QuantileLoss(**BOX, levels=(1e-12, 0.5, 1 - 1e-9))
    assert math.isclose(sum(loss.level_weights), 1, rel_tol=1e-15)
    assert math.isclose(loss.bound, R, rel_tol=1e-9)


@pytest.mark.parametrize("y", ["exact", "equal", "at a bound"])
@pytest.mark.parametrize("loss", [HUBER, QUANTILE, LOGISTIC], ids=lambda loss: type(loss).__name__)
def test_q2_perfect_fits_and_constant_responses_are_finite(loss, y):
    x = np.random.default_rng(9).uniform(-1, 1, (5, P))
    beta = np.array([1.0, -2.0, 0.5])
    jitted = jax.jit(loss.gradient)
    response = {"exact": x @ beta, "equal": np.full(5, 0.25), "at a bound": np.ones(5)}[y]
    for theta in (beta, np.zeros(P), np.array([5.0, 5, 5]), np.array([-1e300, 1e300, 0])):
        full = np.append(theta, loss.lower[-1]) if loss is HUBER else theta
        for level in loss.levels or (None,):
            gradient = loss.gradient(full, (x, response), level)
            assert np.isfinite(gradient).all()
            assert np.isfinite(loss.value(full, (x, response), level)).all()
            with jax.enable_x64():
                on_jax = jitted(full, (x, response), level)
            np.testing.assert_allclose(np.asarray(on_jax), gradient, atol=1e-12)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_q4_tied_discrete_responses_have_a_minimum(level):
    """Smoothing makes the minimum unique and reachable where the check loss has flats and kinks."""
    rng = np.random.default_rng(10)
    x = np.column_stack([np.ones(400), rng.integers(0, 3, 400) / 2])
    y = rng.integers(0, 4, 400) * 1.0
    loss = QuantileLoss(covariates=("intercept", "a"), covariate_bound=math.sqrt(2), coefficient_box=(-9, 9))
    for start in ([0.0, 0.0], [5.0, -5.0]):
        found = scipy.optimize.minimize(
            lambda t: loss.value(t, (x, y), level).mean(), start, method="BFGS", options={"gtol": 1e-7},
            jac=lambda t: loss.gradient(t, (x, y), level).mean(axis=0),
        )  # fmt: skip
        assert found.success, found.message
        below = np.mean(y <= x @ found.x + 1e-9)
        assert abs(below - level) < 0.3  # ties: within one step of the response


@many
@given(
    pair=st.sampled_from([(10, -1), (5, 5), (math.nan, 1), (1, math.nan), (0, math.inf), "01", (1,), 3, None, (0, "1")])
)
def test_p18_intervals_inverted_equal_or_nan(pair):
    with pytest.raises(ParameterError, match="data_bounds must be a pair"):
        MeanLoss(data_bounds=pair, sd=1, clip=1)
    with pytest.raises(ParameterError, match=r"coefficient_box( of 'a')? must be"):
        QuantileLoss(**BOX | {"coefficient_box": pair})
    with pytest.raises(ParameterError, match="scale_box must be a pair"):
        HuberLoss(**BOX, scale_box=pair)
    with pytest.raises(ParameterError, match="score_box must be a pair"):
        BradleyTerryLoss(items=("a", "b"), score_box=pair)


# --- construction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HuberLoss(**BOX, scale_box=(0, 1)), "scale_box must be a pair"),
        (lambda: HuberLoss(**BOX, scale_box=(0.1, 1), c=0), "c must be a number >= 1e-100 and <= 1e.100, got 0"),
        (lambda: HuberLoss(**BOX, scale_box=(0.1, 1), kappa=math.nan), "kappa must be .* got nan"),
        (lambda: HuberLoss(**BOX | {"covariates": ("scale",)}, scale_box=(0.1, 1)), "'scale' twice"),
        (lambda: HuberLoss(**BOX, scale_box=(0.1, 1), start=(0, 0, 0)), "start must be 4 numbers, got 3"),
        (lambda: LogisticLoss(**BOX | {"covariates": ()}), "covariates must be a sequence of different names"),
        (lambda: LogisticLoss(**BOX | {"covariates": "abc"}), "covariates must be .* got 'abc'"),
        (lambda: LogisticLoss(**BOX | {"covariates": ("a", "a")}), "got 'a' twice"),
        (lambda: LogisticLoss(**BOX | {"covariates": ("a", " ")}), "got ' '"),
        (lambda: LogisticLoss(**BOX | {"covariate_bound": math.inf}), "covariate_bound must be .* got inf"),
        (lambda: LogisticLoss(**BOX | {"covariate_bound": -1}), "covariate_bound must be .* got -1"),
        (lambda: LogisticLoss(**BOX | {"coefficient_box": ((0, 1), (0, 1))}), "one for each of a, b, c; got 2"),
        (lambda: LogisticLoss(**BOX | {"coefficient_box": ((0, 1), (1, 0), (0, 1))}), "coefficient_box of 'b' must be"),
        (lambda: LogisticLoss(**BOX, start=(0, 6, 0)), r"start\[1\] must be a number >= -5 and <= 5, got 6"),
        (lambda: LogisticLoss(**BOX, start="abc"), "start must be 3 numbers, got 'abc'"),
        (lambda: QuantileLoss(**BOX, bandwidth=0), "bandwidth must be"),
        (lambda: QuantileLoss(**BOX, levels=()), "levels must be a sequence"),
        (lambda: QuantileLoss(**BOX, levels=0.5), "levels must be a sequence"),
        (lambda: QuantileLoss(**BOX, levels=(0.5, 0.5)), "levels must increase"),
        (lambda: QuantileLoss(**BOX, level_weights=(1, 2)), r"one number > 0 a level \(5\), got 2"),
        (lambda: QuantileLoss(**BOX, level_weights=7), r"one number > 0 a level \(5\), got 7"),
        (lambda: QuantileLoss(**BOX, level_weights=(1, 1, 0, 1, 1)), r"level_weights\[2\] must be"),
        (lambda: MeanLoss(data_bounds=(0, 1), clip=1), "sd must be a number > 0 for the gaussian family, got None"),
        (lambda: MeanLoss(data_bounds=(0, 1), clip=1, sd=0), "sd must be"),
        (lambda: MeanLoss(data_bounds=(0, 1), clip=1, sd=1, family="exponential"), "sd must be None"),
        (lambda: MeanLoss(data_bounds=(-1, 1), clip=1, family="exponential"), "0 <= a < b"),
        (lambda: MeanLoss(data_bounds=(0, 1), clip=1, family="exponential", box=(0, 1)), "box must be a pair"),
        (lambda: MeanLoss(data_bounds=(0, 1), clip=1, family="poisson"), "family must be one of gaussian, exponential"),
        (lambda: MeanLoss(data_bounds=(0, 1), clip=math.nan, sd=1), "clip must be .* got nan"),
        (lambda: BradleyTerryLoss(items=("a",)), "items must be at least 2 names"),
    ],
)  # fmt: skip
def test_what_construction_refuses(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_defaults_of_boxes_and_starts():
    assert HUBER.start == (0, 0, 0, math.sqrt(0.01) * math.sqrt(10))
    assert HUBER.lower == (-5, -5, -5, 0.01)
    wide = QuantileLoss(**BOX | {"coefficient_box": [(0, 2), (-1, 1), (4, 6)]})
    assert wide.start == (1, 0, 5)
    assert GAUSSIAN.lower == (-5,)
    assert EXPONENTIAL.lower == (0.012,)
    assert EXPONENTIAL.start == (6.006,)
    assert MeanLoss(data_bounds=(0, 1), clip=1, sd=1, start=[0.25]).start == (0.25,)


def test_level_weights_of_the_source_document_and_given_ones():
    odds = [1 / (t * (1 - t)) for t in (0.1, 0.3, 0.5, 0.7, 0.9)]
    np.testing.assert_allclose(QUANTILE.level_weights, np.array(odds) / sum(odds), rtol=1e-15)
    assert QuantileLoss(**BOX, levels=(0.25, 0.75), level_weights=[1, 3]).level_weights == (0.25, 0.75)


def test_one_level_may_be_left_out_and_several_may_not():
    records = regression_records(np.random.default_rng(2))
    median = QuantileLoss(**BOX, levels=(0.5,))
    np.testing.assert_array_equal(median.gradient(np.zeros(P), records), QUANTILE.gradient(np.zeros(P), records, 0.5))
    np.testing.assert_array_equal(median.value(np.zeros(P), records), QUANTILE.value(np.zeros(P), records, 0.5))
    assert median.bound_at(None) == median.bound
    for call in (QUANTILE.gradient, QUANTILE.value):
        with pytest.raises(ParameterError, match=r"level must be one of 0.1, 0.3, 0.5, 0.7, 0.9, got None"):
            call(np.zeros(P), records)


def test_mean_records_are_clipped_and_checked():
    assert GAUSSIAN.records([1, -9, 9])[0].tolist() == [1, -5, 5]
    with pytest.raises(DataError, match="row:2: column 'x' must be a finite number, got nan"):
        GAUSSIAN.records([1.0, math.nan])


def test_a_design_s_records_obey_the_bound():
    design = Design.from_formula("y ~ a + b", bounds={"a": (-3, 7), "b": (0, 1)}, scaling="symmetric")
    rng = np.random.default_rng(1)
    records = design.records({"y": rng.normal(size=50), "a": rng.normal(0, 9, 50), "b": rng.normal(size=50)})
    loss = QuantileLoss(covariates=design.names, covariate_bound=design.covariate_bound, coefficient_box=(-9, 9))
    for level in loss.levels:
        assert_within(loss, loss.gradient(rng.normal(size=3), records, level), level)


# --- a user's own loss ------------------------------------------------------------------------------------------------


def custom(**changed):
    given = {
        "value": lambda theta, records, level=None: (records[0] - theta[0]) ** 2 / 2,  # noqa: ARG005
        "gradient": lambda theta, records, level=None: (theta[0] - records[0])[:, None],  # noqa: ARG005
        "bound": 3.0,
        "names": ("mean",),
        "lower": (-1.0,),
        "upper": (1.0,),
        "start": (0.0,),
    }
    return CustomLoss(**given | changed)


def test_custom_loss():
    loss = custom()
    assert isinstance(loss, Loss)
    assert loss.gradient(np.array([0.5]), (np.array([0.0, 1.0]),)).tolist() == [[0.5], [-0.5]]
    assert loss.bound_at(None) == 3.0
    assert loss.levels is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"value": 3}, "value must be a function of"),
        ({"gradient": None}, "gradient must be a function of"),
        ({"bound": 0}, "bound must be"),
        ({"bound": math.nan}, "bound must be"),
        ({"bound": math.inf}, "bound must be"),
        ({"names": ()}, "names must be"),
        ({"lower": (0.0, 1.0)}, "lower must be 1 numbers"),
        ({"upper": (-1.0,)}, "lower and upper of 'mean' must be a pair"),
        ({"start": (2.0,)}, r"start\[0\] must be a number >= -1 and <= 1, got 2.0"),
        ({"start": ()}, "start must be 1 numbers"),
    ],
)
def test_custom_loss_refuses(changed, message):
    with pytest.raises(ParameterError, match=message):
        custom(**changed)

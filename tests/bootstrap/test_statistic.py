"""The released statistic: integers of bounded norm, exact inclusion, exact noise."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from laws import accepts, rounded_gaussian_pmf
from psephos.bootstrap.statistic import Grid, PoissonSampling, integer_contributions, integer_noise
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits, SystemBits

HOSTILE = [0.0, -0.0, 1.0, -3.0, 1e-45, 1e30, -3.4e38, np.inf, -np.inf, np.nan]


def norms_squared(steps):
    return (steps.astype(object) ** 2).sum(axis=-1)


@pytest.mark.parametrize("cap", [0, 1, 2, 7, 50])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_gradient_moves_the_sum_beyond_its_cap(cap, d):
    """Brute force: every direction of a fine lattice, and every hostile vector; in two replacements at most 2 caps."""
    axis = np.linspace(-1.5, 1.5, 25 if d < 3 else 13)
    lattice = np.array([*itertools.product(axis, repeat=d), *itertools.product(HOSTILE, repeat=d)], np.float32)
    steps = integer_contributions(lattice, np.full(len(lattice), cap, np.int32), 1.0)
    assert norms_squared(steps).max() <= cap**2
    ends = steps[norms_squared(steps) >= max(0, cap - 2) ** 2]
    widest = max(norms_squared(ends - one).max() for one in ends[:: max(1, len(ends) // 200)])
    assert widest <= (2 * cap) ** 2
    if d == 1 and cap > 2:
        assert widest > (2 * cap - 3) ** 2  # the cap is reached, not merely respected


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=6),
    st.integers(0, 2**24),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=400)
def test_norm_in_integers_holds_for_any_floats(gradient, cap, bound):
    steps = integer_contributions(np.array([gradient], np.float32), np.array([cap], np.int32), bound)
    assert norms_squared(steps)[0] <= cap**2


def test_compiled_twin_is_bounded_too_and_agrees():
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(5)
    gradients = np.concatenate(
        [
            rng.normal(size=(4000, 3)).astype(np.float32),
            np.array(list(itertools.product(HOSTILE, repeat=3)), np.float32),
        ]
    )
    caps = rng.integers(0, 2**24, len(gradients)).astype(np.int32)
    plain = integer_contributions(gradients, caps, 1.25)
    with jax.enable_x64():
        compiled = jax.jit(lambda g, c: integer_contributions(g, c, 1.25))(gradients, caps)
        compiled = np.asarray(compiled)
    assert np.all(norms_squared(compiled) <= caps.astype(object) ** 2)
    assert np.abs(plain[:4000].astype(int) - compiled[:4000]).max() <= 4  # a few single-precision roundings
    assert np.mean(plain[:4000] == compiled[:4000]) > 0.5


def test_truncation_loses_little():
    rng = np.random.default_rng(6)
    grid = Grid.for_bound(2.5, divisor=500)
    gradients = rng.normal(size=(5000, 3)).astype(np.float32)
    gradients *= 2.5 * rng.random((5000, 1), dtype=np.float32) / np.linalg.norm(gradients, axis=1, keepdims=True)
    weights = rng.dirichlet(np.ones(20))[rng.integers(0, 20, 5000)]
    steps = integer_contributions(gradients, grid.caps(weights), 2.5)
    exact = gradients * (weights / 500)[:, None]
    assert np.abs(steps * float(grid.spacing) - exact).max() <= 3e-6 * np.abs(exact).max()


def test_sum_does_not_depend_on_order():
    """Sensitivity to the order of summation is zero, compiled or not."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(7)
    gradients = (rng.normal(size=(999, 4)) * 10.0 ** rng.integers(-6, 3, (999, 1))).astype(np.float32)
    caps = rng.integers(0, 2**24, 999).astype(np.int32)

    def total(order):
        return integer_contributions(gradients[order], caps[order], 1.0).sum(axis=0, dtype=np.int64)

    def compiled_total(order):
        steps = integer_contributions(jax.numpy.asarray(gradients[order]), jax.numpy.asarray(caps[order]), 1.0)
        return np.asarray(steps.sum(axis=0, dtype=jax.numpy.int64))

    orders = [np.arange(999), np.arange(999)[::-1], rng.permutation(999)]
    assert all((total(order) == total(orders[0])).all() for order in orders)
    with jax.enable_x64():
        first = compiled_total(orders[0])
        assert all((compiled_total(order) == first).all() for order in orders)


@given(st.floats(1e-9, 1e9), st.integers(1, 10**7), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_caps_never_exceed_what_is_accounted(bound, divisor, weights):
    grid = Grid.for_bound(bound, divisor=divisor)
    caps = grid.caps(np.array(weights))
    for cap, weight in zip(caps.tolist(), weights, strict=True):
        limit = Fraction(weight) * Fraction(bound) / divisor / grid.spacing
        assert cap <= limit
        assert cap >= limit - 2
    top = int(grid.caps(np.ones(1))[0])
    assert 2**22 < top <= 2**24


@pytest.mark.parametrize("probability", ["0.1", "0.01", "0.5", "1e-6", "0.999"])
def test_inclusion_frequency(probability):
    sampling, trials = PoissonSampling.of(probability), 2_000_000
    count = sampling.successes(trials, SystemBits()).size
    assert Fraction(probability) - Fraction(1, 2**32) < sampling.probability <= Fraction(probability)
    law = stats.binom(trials, float(sampling.probability))
    assert min(law.cdf(count), law.sf(count - 1)) > 5e-7
    wrong = stats.binom(trials, 1.1 * min(float(sampling.probability), 0.9))
    if float(sampling.probability) > 1e-3:
        assert min(wrong.cdf(count), wrong.sf(count - 1)) < 5e-7


@pytest.mark.parametrize("probability", ["0.3", "0.05"])
def test_inclusion_is_independent_between_records_and_minibatches(probability):
    """All patterns of three records over two minibatches have their product probabilities, by chi-square."""
    sampling, runs = PoissonSampling.of(probability), 20_000
    table = sampling.minibatches(3, 2 * runs, InsecureBits(seed=4))
    present = np.zeros((2 * runs, 4), dtype=int)
    np.put_along_axis(present, table, 1, axis=1)
    patterns = (present[:, :3].reshape(runs, 6) << np.arange(6)).sum(axis=1)
    q = float(sampling.probability)
    ones = np.array([bin(pattern).count("1") for pattern in range(64)])
    expected = runs * q**ones * (1 - q) ** (6 - ones)
    observed = np.bincount(patterns, minlength=64)
    large = expected > 10
    cells = np.append(observed[large], observed[~large].sum()), np.append(expected[large], expected[~large].sum())
    keep = cells[1] > 0
    statistic = ((cells[0] - cells[1])[keep] ** 2 / cells[1][keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-6


def test_everyone_at_probability_one():
    assert PoissonSampling.of(1).minibatches(5, 2, SystemBits()).tolist() == [[0, 1, 2, 3, 4]] * 2
    assert PoissonSampling.of(1).room(5) == 5


def test_a_minibatch_that_outgrows_its_room_is_not_cut():
    class Everyone:  # all uniform variables near 1: every gap is 0
        def words(self, n):
            return np.full(n, 2**64 - 2, dtype=np.uint64)

        def bits(self, n):
            return 2**n - 1

    sampling = PoissonSampling.of("0.001")
    assert sampling.room(10_000) < 200
    table = sampling.minibatches(10_000, 2, Everyone())
    assert table.shape[1] >= 10_000
    assert all(sorted(row[row < 10_000].tolist()) == list(range(10_000)) for row in table)


def test_empty_places_hold_no_record():
    sampling = PoissonSampling.of("0.1")
    table = sampling.minibatches(1000, 50, InsecureBits(seed=3))
    for row in table:
        present = row[row < 1000]
        assert np.all(np.diff(present) > 0)
        assert np.all(row[len(present) :] == 1000)


@pytest.mark.parametrize("bad", [0, -0.1, 1.1, float("nan"), 1e-12, "x", None, True])
def test_probability_q1(bad):
    """Faults Q1: out of range, refused with the allowed range."""
    with pytest.raises(ParameterError, match="probability must be"):
        PoissonSampling.of(bad)


def test_noise_has_its_law_and_another_scale_is_caught():
    grid = Grid(exponent=3, gradient_bound=1.0)
    draws = integer_noise(grid, 0.75, (200, 100), InsecureBits(seed=11)).ravel()
    assert grid.noise_scale(0.75) == 6
    assert accepts(draws, rounded_gaussian_pmf, 6.0)
    assert not accepts(draws, rounded_gaussian_pmf, 6.15)


def test_noise_too_large_for_the_grid_is_refused():
    with pytest.raises(ParameterError, match=r"below 2\*\*40 steps"):
        integer_noise(Grid.for_bound(1.0), 1e9, (2,), SystemBits())

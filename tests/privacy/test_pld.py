"""Privacy-loss distributions: brute-force divergences, independent implementations, edges, and a wrong way."""

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft, special, stats

from psephos.errors import ParameterError
from psephos.privacy import gaussian, pld
from psephos.privacy.pld import LossDistribution, compose_losses_upper, delta_upper, epsilon_upper, step_losses_upper
from psephos.privacy.rdp import log_moment_upper
from psephos.privacy.subsampled import BetaWeight, FixedWeight, SubsampledGaussian

WEIGHTS = [FixedWeight(), BetaWeight(0.9, 17.1), BetaWeight(0.6, 2.4)]


def fixed(q, a):
    return SubsampledGaussian(probability=q, shift=a, weight=FixedWeight())


def divergence(q, a, c, *, swap=False):
    """H_c(P_a || Q_a) from its half line, or of the exchanged pair."""
    if a == 0:
        return max(1 - c, 0.0)
    epsilon, rest = math.log(c), (1 - q) / q * math.exp(a * a / 2)
    x = (epsilon / 2 + math.asinh(rest * math.sinh(epsilon / 2))) / a

    def above(sign):
        return (1 - q) * special.ndtr(-x) + q * special.ndtr(sign * a - x)

    def below(sign):
        return (1 - q) * special.ndtr(-x) + q * special.ndtr(-x - sign * a)

    return below(-1) - c * below(1) if swap else above(1) - c * above(-1)


def joint_divergence(q, shift, weight, c):
    """E_u H_c, by a Gauss-Jacobi rule over the weight."""
    if isinstance(weight, FixedWeight):
        return divergence(q, shift, c)
    nodes, masses = special.roots_jacobi(150, weight.second - 1, weight.first - 1)
    values = [divergence(q, shift * u, c) for u in (nodes + 1) / 2]
    return float(masses @ values) / float(masses.sum())


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(("q", "shift"), [(0.1, 0.5), (0.01, 1.1), (0.5, 2.0)])
def test_p16_one_step_against_brute_force(weight, q, shift):
    """The analytic divergence of the worst pair of neighbours, at several epsilon: never above the bound, and close."""
    step = SubsampledGaussian(probability=q, shift=shift, weight=weight)
    deviation = 2 * q * shift * math.sqrt(weight.second_moment)
    losses = step_losses_upper(step, spacing=deviation / 40)
    for epsilon in (0.0, deviation, 4 * deviation):
        truth = joint_divergence(q, shift, weight, math.exp(epsilon))
        assert truth * (1 - 1e-7) - 1e-13 <= losses.delta_upper(epsilon) <= truth * 1.005 + 1e-12


@pytest.mark.parametrize(("q", "a", "epsilon"), [(0.1, 0.8, 0.05), (0.3, 1.5, 0.5), (0.9, 1.0, 2.0), (1.0, 0.5, 1.0)])
def test_p16_two_steps_against_brute_force(q, a, epsilon):
    """Cells of outcomes are post-processing: their exact divergence is below the truth, hence below the bound."""
    x = np.concatenate([[-np.inf], np.linspace(-8, 8 + a, 1500), [np.inf]])

    def masses(sign):
        return np.diff((1 - q) * special.ndtr(x) + q * special.ndtr(x - sign * a))

    p, s = masses(1), masses(-1)
    lower = float(np.maximum(np.outer(p, p) - math.exp(epsilon) * np.outer(s, s), 0).sum())
    losses = step_losses_upper(fixed(q, a), spacing=q * a / 200)
    bound = compose_losses_upper([(losses, 2)]).delta_upper(epsilon)
    assert lower <= bound <= lower * 1.002


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("c", [0.2, 0.9, 1.0, 1.5, 4.0])
def test_both_directions_of_the_adjacency_cost_the_same(weight, c):
    for a in (0.1, 0.7, 2.0):
        assert divergence(0.1, a, c) == pytest.approx(divergence(0.1, a, c, swap=True), rel=1e-9, abs=1e-13)
    step = SubsampledGaussian(probability=0.2, shift=0.7, weight=weight)
    losses = step_losses_upper(step, spacing=1e-3)
    # The table's own exchanged law: masses e^-loss at -loss.
    swapped = LossDistribution(
        spacing=1e-3,
        first=-(losses.first + losses.masses.size - 1),
        masses=(losses.masses * np.exp(-losses.losses))[::-1],
        infinite=max(0.0, 1 - float(losses.masses @ np.exp(-losses.losses))),
    )
    for epsilon in (0.0, 0.1, 0.4):
        assert swapped.delta_upper(epsilon) == pytest.approx(losses.delta_upper(epsilon), rel=1e-6, abs=1e-10)


@settings(max_examples=200, deadline=None)
@given(
    q=st.floats(0.01, 1),
    a=st.floats(0.01, 3),
    c=st.floats(0.05, 20),
    angle=st.floats(0, math.pi),
    lengths=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    direction=st.floats(0, math.pi),
    threshold=st.floats(-4, 4),
)
def test_no_pair_of_displacements_beats_the_worst(q, a, c, angle, lengths, direction, threshold):
    """Any D, D' of length <= a in the plane, any half plane as a test: never above H_c(P_a || Q_a)."""
    first = a * lengths[0] * math.cos(direction)
    second = a * lengths[1] * math.cos(direction - angle)
    p = (1 - q) * stats.norm.sf(threshold) + q * stats.norm.sf(threshold - first)
    s = (1 - q) * stats.norm.sf(threshold) + q * stats.norm.sf(threshold - second)
    worst = max(divergence(q, a, c), 1 - c, 0)
    assert p - c * s <= worst + 1e-12


@settings(max_examples=40, deadline=None)
@given(q=st.floats(0.01, 0.99), a=st.floats(0.01, 2), more=st.floats(1, 2), c=st.floats(0.1, 10))
def test_divergences_grow_with_displacement_and_probability(q, a, more, c):
    here = divergence(q, a, c)
    assert divergence(q, a * more, c) >= here - 1e-13
    assert divergence(min(q * more, 1), a, c) >= here - 1e-13


@pytest.mark.parametrize(("times", "shift"), [(1, 0.5), (7, 0.3), (400, 0.05), (10**6, 0.0005)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_the_grid_path_reproduces_the_gaussian(times, shift, delta):
    """q = 1 through tables and transforms, a million steps too: just above the closed form, never below."""
    losses = step_losses_upper(fixed(1.0, shift), spacing=2 * shift / 25 / max(1.0, (100 / times) ** 0.25))
    exact = float(gaussian.epsilon_upper(2 * shift * math.sqrt(times) * (1 - 1e-15), delta))
    allowed = (
        1.005 if (times, delta) == (10**6, 1e-10) else 1.0005
    )  # there the allowance for round-off is a tenth of delta
    assert exact <= compose_losses_upper([(losses, times)]).epsilon_upper(delta) <= exact * allowed


def test_plain_gaussians_go_in_closed_form():
    assert epsilon_upper(fixed(1.0, 0.5), compositions=1, delta=1e-5) == pytest.approx(4.377178, rel=1e-6)
    assert epsilon_upper(fixed(1.0, 1.0), compositions=1, delta=1e-5) == pytest.approx(9.997256, rel=1e-6)


def test_powers_against_plain_convolution():
    rng = np.random.default_rng(5)
    masses = rng.dirichlet(np.ones(40)) * (1 - 1e-4)
    one = LossDistribution(spacing=0.01, first=-13, masses=masses, infinite=1e-4)
    plain = masses
    for _ in range(11):
        plain = np.convolve(plain, masses)
    whole = LossDistribution(spacing=0.01, first=-156, masses=plain, infinite=1 - (1 - 1e-4) ** 12)
    composed = compose_losses_upper([(one, 12)])
    assert composed.slack < 1e-12
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        assert 0 <= composed.delta_upper(epsilon) - whole.delta_upper(epsilon) <= 2 * composed.slack + 1e-13
    other = LossDistribution(spacing=0.01, first=-3, masses=np.array([0.5, 0.2, 0.3]), infinite=0.0)
    mixed = compose_losses_upper([(one, 2), (other, 3)])
    plain = np.convolve(np.convolve(masses, masses), np.convolve(other.masses, np.convolve(other.masses, other.masses)))
    whole = LossDistribution(spacing=0.01, first=-35, masses=plain, infinite=1 - (1 - 1e-4) ** 2)
    assert mixed.delta_upper(0.05) == pytest.approx(whole.delta_upper(0.05), rel=1e-10)


def test_round_off_of_a_million_steps_is_bounded_far_below_delta():
    step = SubsampledGaussian(probability=0.01, shift=1 / 87.0, weight=FixedWeight())
    losses = step_losses_upper(step, spacing=2 * 0.01 / 87.0 / 25)
    assert compose_losses_upper([(losses, 10**6)]).slack < 1e-10


def test_epsilon_and_delta_are_inverse():
    composed = compose_losses_upper([(step_losses_upper(fixed(0.2, 0.4), spacing=2e-3), 50)])
    for delta in (1e-2, 1e-4, 1e-7):
        epsilon = composed.epsilon_upper(delta)
        assert composed.delta_upper(epsilon) <= delta
        assert composed.delta_upper(epsilon * (1 - 1e-6)) > delta
    assert composed.epsilon_upper(0.9) == 0
    assert composed.epsilon_upper(1e-250) == math.inf


def test_against_an_independent_library():
    """The table equals connect-the-dots on analytic divergences, and so does its ten-thousand-fold sum."""
    from dp_accounting.pld import pld_pmf as pmf

    step = SubsampledGaussian(probability=0.1, shift=0.2217, weight=BetaWeight(0.90019, 17.10361))
    h = 2 * 0.1 * 0.2217 * math.sqrt(step.weight.second_moment) / 25
    ours = step_losses_upper(step, spacing=h)
    bins, n = step.weight.bins(), -ours.first
    grid = np.arange(-n, n + 1) * h
    deltas = np.zeros(grid.size)
    for u, mass in zip(bins.upper, bins.mass, strict=True):
        a = 0.2217 * u
        x = (grid / 2 + np.arcsinh(9 * math.exp(a * a / 2) * np.sinh(grid / 2))) / a
        p = 0.9 * special.ndtr(-x) + 0.1 * special.ndtr(a - x)
        s = 0.9 * special.ndtr(-x) + 0.1 * special.ndtr(-a - x)
        deltas += mass * np.maximum(p - np.exp(grid) * s, 0)
    theirs = pmf.create_pmf_pessimistic_connect_dots_fixed_gap(h, -n, n, np.clip(deltas, 0, 1))
    theirs = theirs.self_compose(10000)
    expected = theirs.get_epsilon_for_delta(1e-4)
    assert compose_losses_upper([(ours, 10000)]).epsilon_upper(1e-4) == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("order", [2.0, 6.5, 14.0])
def test_the_table_has_the_renyi_moments_of_the_pair(weight, order):
    """Two independent routes: the dominating table's own moment lies just above the quadrature's."""
    step = SubsampledGaussian(probability=0.1, shift=0.22, weight=weight)
    losses = step_losses_upper(step, spacing=2e-4)
    own = math.log1p(float(losses.masses @ np.expm1((order - 1) * losses.losses)) + float(losses.masses.sum()) - 1)
    assert log_moment_upper(step, order) * (1 - 1e-3) <= own <= log_moment_upper(step, order) * 1.01


def hidden_weight_epsilon(q, shift, weight, times, delta):
    """What would be claimed were the weight mixed over before divergences are taken: WRONG, for a regression test."""
    bins = weight.bins()
    x = np.linspace(-9.5, 9.5 + shift, 20001)
    density = stats.norm.pdf(x)

    def mixed(sign):
        total = np.zeros_like(x)
        for u, mass in zip(bins.upper[4::5], bins.mass.reshape(-1, 5).sum(axis=1), strict=True):
            a = sign * shift * u
            total += mass * np.exp(a * x - a * a / 2)
        return 1 - q + q * total

    p = mixed(1) * density
    p /= p.sum()
    loss = np.log(mixed(1) / mixed(-1))
    h = float(np.sqrt(p @ loss**2)) / 50
    index = np.ceil(loss / h).astype(int)
    # Rounding up alone would add half a cell a step: keep the mean by splitting over the two neighbours.
    share = index - loss / h
    first = int(index.min()) - 1
    masses = np.bincount(index - first, p * (1 - share)) + 0.0
    masses[: int(index.max()) - first] += np.bincount(index - 1 - first, p * share, minlength=masses.size)[:-1]
    table = LossDistribution(spacing=h, first=first, masses=masses, infinite=0.0)
    return compose_losses_upper([(table, times)]).epsilon_upper(delta)


def test_a_marginal_distribution_over_the_weight_is_unsound():
    """u is public. Mixed over u first, the same noise claims 1; in truth 1.47 is spent.

    Source of both numbers: an independent computation (S = 20, n = 10000, T = 10000, q = 0.1, delta = 1e-4).
    """
    weight = BetaWeight(0.9001900190019002, 19 * 0.9001900190019002)
    shift = 2.648291286406435 / (0.711 * 0.023889213 * 500)
    claimed = hidden_weight_epsilon(0.1, shift, weight, 10000, 1e-4)
    step = SubsampledGaussian(probability=0.1, shift=shift, weight=weight)
    spent = epsilon_upper(step, compositions=10000, delta=1e-4)
    assert claimed == pytest.approx(1.0, abs=0.01)
    assert spent == pytest.approx(1.47, abs=0.01)


@settings(max_examples=12, deadline=None)
@given(
    q=st.floats(0.01, 0.9),
    shift=st.floats(0.02, 1.2),
    times=st.integers(1, 3000),
    more=st.floats(1.02, 2),
    delta=st.floats(1e-8, 1e-2),
)
def test_monotone_in_shift_compositions_and_probability(q, shift, times, more, delta):
    def bound(probability, s, n):
        step = SubsampledGaussian(probability=probability, shift=s, weight=FixedWeight())
        return epsilon_upper(step, compositions=n, delta=delta)

    here = bound(q, shift, times)
    slack = 1 - 2e-4  # discretisation differs from grid to grid
    assert bound(q, shift * more, times) >= here * slack
    assert bound(min(q * more, 1), shift, times) >= here * slack
    assert bound(q, shift, math.ceil(times * more)) >= here * slack


@settings(max_examples=10, deadline=None)
@given(q=st.floats(0.01, 0.9), shift=st.floats(0.05, 2), times=st.integers(1, 500), delta=st.floats(1e-8, 1e-2))
def test_never_worse_than_no_subsampling_nor_a_finer_grid_by_much(q, shift, times, delta):
    step = fixed(q, shift)
    bound = epsilon_upper(step, compositions=times, delta=delta)
    assert bound <= float(gaussian.epsilon_upper(2 * shift * math.sqrt(times), delta)) * (1 + 1e-3)
    spacing = 2 * q * shift / 100
    finer = compose_losses_upper([(step_losses_upper(step, spacing=spacing), times)]).epsilon_upper(delta)
    assert finer <= bound * (1 + 1e-3) + 1e-9


def test_too_large_a_grid_falls_back_to_the_plain_gaussian(monkeypatch):
    """A coarse grid is tried first; it is sound too."""
    best = epsilon_upper(fixed(0.1, 0.5), compositions=100, delta=1e-5)
    monkeypatch.setattr(pld, "_MOST_POINTS", 64)
    assert best < epsilon_upper(fixed(0.1, 0.5), compositions=100, delta=1e-5) < 60
    monkeypatch.setattr(pld, "_MOST_CELLS", 0)
    bound = epsilon_upper(fixed(0.1, 0.5), compositions=100, delta=1e-5)
    assert bound == pytest.approx(float(gaussian.epsilon_upper(Fraction(10), "1e-5")), rel=1e-9)
    assert delta_upper(fixed(0.1, 0.05), compositions=100, epsilon=1) == pytest.approx(
        gaussian.delta_upper(1, 1), rel=1e-9
    )


def test_delta_and_epsilon_at_the_edges():
    assert epsilon_upper(fixed(0.1, 0.0), compositions=5, delta=1e-5) == 0
    assert delta_upper(fixed(0.1, 0.0), compositions=5, epsilon=0) == 0
    assert epsilon_upper(fixed(0.1, 1e-200), compositions=5, delta=1e-5) == 0
    assert delta_upper(fixed(0.1, 1e150), compositions=5, epsilon=1) == 1
    for bad in (0, 1, math.nan, -0.1):
        with pytest.raises(ParameterError, match="delta must be"):
            epsilon_upper(fixed(0.1, 0.1), compositions=5, delta=bad)
    with pytest.raises(ParameterError, match="epsilon must be"):
        delta_upper(fixed(0.1, 0.1), compositions=5, epsilon=math.nan)


@pytest.mark.parametrize(
    "wrong",
    [
        {"masses": np.array([0.5, -1e-9])},
        {"masses": np.array([0.5, math.nan])},
        {"masses": np.zeros(0)},
        {"infinite": -1e-9},
        {"infinite": math.nan},
        {"slack": math.nan},
        {"spacing": 0.0},
        {"spacing": math.nan},
    ],
)
def test_nan_and_negative_masses_raise(wrong):
    with pytest.raises(ParameterError):
        LossDistribution(**{"spacing": 0.1, "first": 0, "masses": np.array([0.5, 0.5]), "infinite": 0.0, **wrong})


def test_grids_must_agree():
    one = LossDistribution(spacing=0.1, first=0, masses=np.ones(1), infinite=0.0)
    two = LossDistribution(spacing=0.2, first=0, masses=np.ones(1), infinite=0.0)
    for parts in ([], [(one, 1), (two, 1)], [(one, 0)]):
        with pytest.raises(ParameterError):
            compose_losses_upper(parts)


@pytest.mark.parametrize("size", [2, 60, 243, 625, 1024, 1080])
def test_transforms_err_less_than_is_allowed_for(size):
    """Against the transform in balls; docs/proofs/bootstrap.md, lemma 2b."""
    values = np.random.default_rng(size).exponential(size=size)
    with flint.ctx.workprec(200):
        exact = flint.acb.dft([flint.acb(x) for x in values.tolist()])
        found = fft.fft(values)
        half = fft.rfft(values)
        error = sum(abs(flint.acb(z) - w) ** 2 for z, w in zip(found.tolist(), exact, strict=True))
        error_half = sum(abs(flint.acb(z) - w) ** 2 for z, w in zip(half.tolist(), exact, strict=False))
        allowed = flint.arb(pld._transform_error(size) * float(np.linalg.norm(values))) ** 2
        assert error < allowed
        assert error_half < allowed


@pytest.mark.parametrize("times", [1, 2, 7, 60, 500])
def test_sums_are_within_their_allowance_of_exact_convolution(times):
    """Masses are dyadic, so their n-fold convolution is exact in rationals; delta's upper end lies above the truth."""
    masses = np.array([3, 10, 200, 1024 - 330, 90, 20, 6, 1]) / 1024
    part = pld.LossDistribution(spacing=0.05, first=-3, masses=masses, infinite=0.0)
    found = pld.compose_losses_upper([(part, times)])
    exact = flint.fmpq_poly([flint.fmpq(int(x * 1024), 1024) for x in masses]) ** times
    law = {i - 3 * times: Fraction(int(c.p), int(c.q)) for i, c in enumerate(exact.coeffs())}
    away = sum(abs(Fraction(float(x)) - law.get(found.first + j, 0)) for j, x in enumerate(found.masses))
    outside = sum(x for i, x in law.items() if not 0 <= i - found.first < found.masses.size)
    assert away <= found.slack
    assert outside <= found.slack
    with flint.ctx.workprec(200):
        for epsilon in (0.0, 0.3, 1.0, 4.0):
            truth = sum(
                (flint.arb(x.numerator) / x.denominator * (1 - (flint.arb(epsilon) - i * flint.arb(0.05)).exp()))
                for i, x in law.items()
                if i * 0.05 > epsilon
            )
            assert flint.arb(found.delta_upper(epsilon)) >= truth
            assert flint.arb(found.delta_upper(epsilon)) <= truth + 3 * found.slack + truth * 1e-9

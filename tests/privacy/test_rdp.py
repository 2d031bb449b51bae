"""Renyi accounting: certified quadrature, the steps of the proof, conversions against exact curves, edges."""

import math

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from psephos.errors import ParameterError
from psephos.privacy import gaussian
from psephos.privacy.rdp import (
    compose_log_moments_upper,
    delta_from_log_moment_upper,
    epsilon_from_log_moment_upper,
    least_epsilon_upper,
    log_moment_upper,
)
from psephos.privacy.subsampled import BetaWeight, FixedWeight, SubsampledGaussian


def certified_moment(q, order, a, bits=160):
    """E P^order Q^(1-order), as a ball: Arb's rigorous integration, with the tails bounded as in the docstring."""
    with flint.ctx.workprec(bits):
        q, order, a = flint.arb(q), flint.arb(order), flint.arb(a)
        half = a * a / 2

        def integrand(x, analytic):
            def mixed(sign):
                return 1 - q + q * (sign * a * x - half).exp()

            return ((order * mixed(1).log(analytic)) + (1 - order) * mixed(-1).log(analytic) - x * x / 2).exp()

        reach = float(abs(2 * order * a).upper()) + 14
        value = flint.acb.integral(integrand, -14, reach).real / (2 * flint.arb.pi()).sqrt()
        return value


@pytest.mark.parametrize("q", [0.01, 0.1, 0.5])
@pytest.mark.parametrize(
    ("order", "a"), [(1.5, 0.3), (2, 0.05), (3.75, 1.0), (14, 0.2), (23, 0.31), (64, 0.02), (5, 2.5)]
)
def test_quadrature_against_certified_integration(q, order, a):
    truth = certified_moment(q, order, a)
    bound = log_moment_upper(SubsampledGaussian(probability=q, shift=a, weight=FixedWeight()), order)
    exact = float(truth.log().mid())
    assert exact <= bound <= exact * (1 + 1e-6) + 1e-13


@pytest.mark.parametrize("order", [1.3, 2, 7.5, 40])
def test_without_subsampling_it_is_the_gaussian(order):
    bound = log_moment_upper(SubsampledGaussian(probability=1, shift=0.3, weight=FixedWeight()), order)
    assert bound == pytest.approx(order * (order - 1) * 0.6**2 / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "shift"), [(0.9, 17.1, 0.22), (0.6, 2.4, 0.35), (1.0, 19.0, 1.04), (3.0, 9.0, 0.5)]
)
@pytest.mark.parametrize("order", [2.0, 4.5, 14.0])
def test_the_average_over_the_weight(first, second, shift, order):
    """A Gauss-Jacobi rule of 60 nodes is the twin: spectral, but below the truth. The bound lies just above it."""
    nodes, weights = special.roots_jacobi(60, second - 1, first - 1)
    q, u = 0.1, (nodes + 1) / 2
    values = [
        log_moment_upper(SubsampledGaussian(probability=q, shift=shift * v, weight=FixedWeight()), order) for v in u
    ]
    twin = math.log1p(float(weights @ np.expm1(values)) / float(weights.sum()))
    bound = log_moment_upper(SubsampledGaussian(probability=q, shift=shift, weight=BetaWeight(first, second)), order)
    assert twin * (1 - 1e-9) <= bound
    assert bound <= twin * (1 + 6e-4) or twin > 0.1  # orders at which one step alone costs too much are loose


@settings(deadline=None, max_examples=60)
@given(
    q=st.floats(1e-3, 0.9),
    order=st.floats(1.05, 30),
    a=st.floats(1e-3, 1.2),
    step=st.floats(1e-3, 0.5),
)
def test_the_slope_in_t_is_at_least_what_is_given_back(q, order, a, step):
    """f(t + s) - f(t) >= s m(t + s): the lower bound on the slope that refunds the rounding of weights."""

    def f(t):
        return math.expm1(
            log_moment_upper(SubsampledGaussian(probability=q, shift=math.sqrt(t), weight=FixedWeight()), order)
        )

    t, s = a * a, a * a * step
    least = 2 * order * (order - 1) * q * q * math.exp(-2 * (t + s) - max(order - 2, 0) * q * (t + s) / 2)
    assert f(t + s) - f(t) >= s * least * (1 - 1e-6) - 1e-13 * f(t + s)


@settings(deadline=None, max_examples=40)
@given(q=st.floats(1e-3, 1), order=st.floats(1.05, 40), shift=st.floats(1e-4, 2), more=st.floats(1.001, 1.5))
def test_monotone_in_shift_and_probability(q, order, shift, more):
    def bound(probability, s):
        return log_moment_upper(
            SubsampledGaussian(probability=probability, shift=s, weight=BetaWeight(0.9, 17.1)), order
        )

    here = bound(q, shift)
    assert bound(q, shift * more) >= here * (1 - 1e-5)
    assert bound(min(q * more, 1), shift) >= here * (1 - 1e-5)


@given(mu=st.floats(0.05, 3), order=st.floats(1.1, 60), delta=st.floats(1e-9, 0.5))
def test_conversions_hold_for_gaussians(mu, order, delta):
    """The Gaussian's own curve never exceeds what its Renyi moments prove."""
    moment = order * (order - 1) * mu * mu / 2
    exact = float(gaussian.epsilon_upper(mu, delta))
    tight = epsilon_from_log_moment_upper(moment, order=order, delta=delta)
    loose = epsilon_from_log_moment_upper(moment, order=order, delta=delta, conversion="mironov")
    assert exact * (1 - 1e-9) <= tight <= loose
    if tight > 0:
        assert delta_from_log_moment_upper(moment, order=order, epsilon=tight) <= delta * (1 + 1e-6)


@given(p=st.floats(1e-6, 1 - 1e-6), s=st.floats(1e-6, 1 - 1e-6), order=st.floats(1.1, 40), epsilon=st.floats(0, 3))
def test_conversions_hold_for_two_outcomes(p, s, order, epsilon):
    """Every pair of coins: the exact delta never exceeds what the exact moment proves."""
    logs = np.array(
        [
            order * math.log(p) + (1 - order) * math.log(s),
            order * math.log1p(-p) + (1 - order) * math.log1p(-s),
        ]
    )
    moment = max(float(special.logsumexp(logs)), 0.0) * (1 + 1e-12) + 1e-15
    exact = max(p - math.exp(epsilon) * s, 0) + max((1 - p) - math.exp(epsilon) * (1 - s), 0)
    for conversion in ("asoodeh", "mironov"):
        bound = delta_from_log_moment_upper(moment, order=order, epsilon=epsilon, conversion=conversion)
        assert exact <= bound * (1 + 1e-9) + 1e-12
        if 0 < exact < 1:
            reached = epsilon_from_log_moment_upper(moment, order=order, delta=exact, conversion=conversion)
            assert reached >= epsilon * (1 - 1e-6) - 1e-9


def test_the_branch_of_large_delta():
    """lambda delta >= 1: epsilon is the divergence plus log(1 - delta), attained by an event of probability 1."""
    assert epsilon_from_log_moment_upper(2.0, order=3, delta=0.5) == pytest.approx(1 + math.log(0.5), rel=1e-9)
    assert epsilon_from_log_moment_upper(0.2, order=3, delta=0.5) == 0


@pytest.mark.parametrize("bad", [math.nan, -1e-300, -1.0, -math.inf])
def test_nan_and_negative_divergences_raise(bad):
    for call in (
        lambda: epsilon_from_log_moment_upper(bad, order=2, delta=1e-5),
        lambda: delta_from_log_moment_upper(bad, order=2, epsilon=1),
        lambda: compose_log_moments_upper([(bad, 3)]),
    ):
        with pytest.raises(ParameterError, match="log_moment must be"):
            call()


@pytest.mark.parametrize("order", [1, 0.5, math.nan, -2, math.inf])
def test_orders_out_of_range(order):
    with pytest.raises(ParameterError, match="order must be"):
        epsilon_from_log_moment_upper(1.0, order=order, delta=1e-5)


def test_infinity_is_never_feasible():
    assert epsilon_from_log_moment_upper(math.inf, order=2, delta=1e-5) == math.inf
    assert delta_from_log_moment_upper(math.inf, order=2, epsilon=1) == 1
    assert compose_log_moments_upper([(math.inf, 2)]) == math.inf
    assert compose_log_moments_upper([(math.inf, 0)]) == 0
    huge = SubsampledGaussian(probability=0.1, shift=100, weight=FixedWeight())
    assert log_moment_upper(huge, 50) == math.inf
    assert least_epsilon_upper(lambda _: math.inf, delta=1e-5, start=3)[0] == math.inf


def test_no_shift_no_loss():
    nothing = SubsampledGaussian(probability=0.1, shift=0, weight=FixedWeight())
    assert log_moment_upper(nothing, 2) == 0
    assert epsilon_from_log_moment_upper(0.0, order=2, delta=1e-5) == 0
    assert delta_from_log_moment_upper(0.0, order=2, epsilon=0) == 0


def test_the_best_order_of_a_gaussian():
    """Against a fine scan: the walk over orders loses nothing that matters."""
    mu, delta = 0.5, 1e-6

    def moment(order):
        return order * (order - 1) * mu * mu / 2

    scan = min(epsilon_from_log_moment_upper(moment(x), order=x, delta=delta) for x in np.geomspace(1.5, 60, 3000))
    for start in (1.5, 10, 50, 1000):
        assert least_epsilon_upper(moment, delta=delta, start=start)[0] == pytest.approx(scan, rel=2e-5)


@pytest.mark.parametrize(("first", "second"), [(0.9, 17.1), (0.6, 2.4), (1.0, 9999.0), (0.05, 1.0), (50.0, 3.0)])
@pytest.mark.parametrize("tail", [False, True])
def test_bins_cover_the_weight_from_above(first, second, tail):
    weight = BetaWeight(first, second)
    bins = weight.bins(tail=tail)
    assert bool(np.all(np.diff(bins.upper) > 0))
    assert 1 <= float(bins.mass.sum()) + bins.above + 1e-15 <= 1 + 1e-10
    assert bins.above <= 2e-22
    assert float(bins.square.sum()) == pytest.approx(weight.second_moment, rel=1e-9)
    assert 1 <= float(bins.mass @ bins.upper**2) / weight.second_moment <= 1.004
    # From above in the usual stochastic order: mass up to an edge never exceeds the law's.
    assert bool(np.all(np.cumsum(bins.mass[::-1])[::-1] >= special.betaincc(first, second, bins.upper) - 1e-15))


def test_even_moments():
    logs = BetaWeight(0.9, 17.1).log_even_moments(4)
    expected = [special.beta(0.9 + 2 * j, 17.1) / special.beta(0.9, 17.1) for j in range(4)]
    assert np.exp(logs) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "kwargs", [{"probability": 0}, {"probability": 1.1}, {"probability": math.nan}, {"shift": -1}, {"shift": math.nan}]
)
def test_a_step_out_of_range(kwargs):
    with pytest.raises(ParameterError):
        SubsampledGaussian(**{"probability": 0.1, "shift": 0.1, "weight": FixedWeight(), **kwargs})
    with pytest.raises(ParameterError):
        BetaWeight(math.nan, 1.0)


def test_what_underflows_is_rounded_up_and_large_orders_do_not_cancel():
    step = SubsampledGaussian(probability=0.1, shift=1e-170, weight=FixedWeight())  # its square is below all doubles
    assert log_moment_upper(step, 2) > 0
    assert delta_from_log_moment_upper(1e-290, order=1e6, epsilon=5) > 0
    assert delta_from_log_moment_upper(0.0, order=1e6, epsilon=5) == 0
    for order in (2.0, 1e3, 1e9, 1e12):
        with flint.ctx.workprec(300):
            below, lam = flint.arb(order) - 1, flint.arb(order)
            exact = (flint.arb(1) - flint.arb(1e-6).log() + below * below.log() - lam * lam.log()) / below
        found = epsilon_from_log_moment_upper(1.0, order=order, delta=1e-6)
        assert found >= exact.lower() or float(exact) < 0
        assert found <= max(float(exact), 0) * (1 + 1e-9)

"""The Gaussian privacy curve and calibration: golden numbers, round trips, edges."""

import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from psephos import Profile, private_consensus
from psephos._check import exact, parse_delta, parse_epsilon
from psephos.errors import AccuracyWarning, ParameterError, PrivacyWarning
from psephos.privacy import (
    ComposedGaussianEvent,
    DiscreteLaplaceEvent,
    RoundedGaussianEvent,
    bounded_sum_sensitivity,
    decimal_text,
    epsilon_of,
    gaussian_sigma,
    laplace_scale,
)
from psephos.privacy.events import event_from_json, event_to_json
from psephos.privacy.gaussian import compose_mu_upper, delta_upper, epsilon_upper, gaussian_epsilon_upper, mu_lower

PROFILE = Profile.from_rankings({("a", "b"): 3}, items=["a", "b"])


@pytest.mark.parametrize(("mu", "epsilon"), [("0.5", 1.993091), (1, 4.377178), (2, 9.997256), (10, 91.81729)])
def test_golden_epsilon_at_delta_1e5(mu, epsilon):
    """Source: an independent high-precision computation (exact Gaussian curve, delta = 1e-5)."""
    assert float(epsilon_upper(mu, "1e-5")) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(("mu", "delta"), [("0.5", 0.197413), (1, 0.382925), (2, 0.682689), (10, 0.999999)])
def test_golden_delta_at_epsilon_0(mu, delta):
    assert delta_upper(mu, 0) == pytest.approx(delta, abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [(1, "1e-2", 0.5325), (1, "1e-6", 0.2367), (1, "1e-9", 0.1820), ("0.1", "1e-6", 0.0275), ("0.1", "1e-9", 0.0199)],
)
def test_golden_mu(epsilon, delta, mu):
    """Source: an independent computation of the exact curve, to four digits."""
    assert float(mu_lower(epsilon, delta)) == pytest.approx(mu, abs=6e-5)


def plain_delta(epsilon, mu):
    """The curve in doubles, with a stable tail: a twin for moderate arguments."""
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 4.0])
def test_curve_equals_the_formula(mu, epsilon):
    assert delta_upper(mu, epsilon) == pytest.approx(plain_delta(epsilon, mu), rel=1e-9)


@pytest.mark.parametrize("epsilon", ["1e-4", "0.01", "1", "3", "10", "100"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-9", "0.1"])
def test_p10_calibration_round_trip(epsilon, delta):
    """Calibrate, re-account: never above the target, and within 0.1 % of it (P5, P8, P10)."""
    sigma = gaussian_sigma(epsilon, delta, sensitivity_squared=Fraction(180))
    again = epsilon_of(RoundedGaussianEvent(sigma=sigma, sensitivity_squared=Fraction(180)), delta)
    assert Fraction(epsilon) * Fraction(999, 1000) <= again <= Fraction(epsilon)
    mu = mu_lower(epsilon, delta)
    assert delta_upper(mu, epsilon) <= float(Fraction(delta)) * (1 + 1e-15)
    assert delta_upper(mu * Fraction(10001, 10000), epsilon) > float(Fraction(delta))


def test_p8_the_textbook_formula_is_not_used():
    """At epsilon 3, delta 1e-5 the textbook sigma is 1.6150; the exact one is 1.39 (it is valid, and smaller)."""
    sigma = float(gaussian_sigma(3, "1e-5", sensitivity_squared=1))
    assert sigma < 0.95 * math.sqrt(2 * math.log(1.25e5)) / 3
    assert plain_delta(3, 1 / sigma) == pytest.approx(1e-5, rel=1e-6)


def test_laplace_calibration_is_exact():
    scale = laplace_scale("1/11", sensitivity=90)
    assert scale == 990
    assert epsilon_of(DiscreteLaplaceEvent(scale=scale, sensitivity=Fraction(90)), 0) == Fraction(1, 11)


@pytest.mark.parametrize(
    "value",
    [
        0,
        -0.0,
        0.0,
        -1,
        math.nan,
        math.inf,
        -math.inf,
        True,
        False,
        None,
        "",
        "nan",
        "inf",
        "1,5",
        "1_0",
        "１",
        "0x1",
        [],
        "1e99999",
        "9" * 500,
        10**400,
        "1e-301",
    ],
)
def test_p1_epsilon_rejected_at_construction(value):
    with pytest.raises(ParameterError, match="epsilon must be a number > 0"):
        private_consensus(PROFILE, epsilon=value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", 1),
        (1, 1),
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        ("1/11", Fraction(1, 11)),
        (" 2 ", 2),
        (Decimal("0.25"), Fraction(1, 4)),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(2), 2),
        ("1e-6", Fraction(1, 10**6)),
        (".5", Fraction(1, 2)),
        ("1e-300", Fraction(1, 10**300)),
    ],
)
def test_p1_epsilon_parses_exactly(value, expected):
    assert parse_epsilon(value) == expected
    assert exact(decimal_text(parse_epsilon(value)), "epsilon", "a number") == expected


@pytest.mark.parametrize("epsilon", ["1e-300", "1e-17", "800", "1e9"])
@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_p1_tiny_and_huge_epsilon_work(epsilon, delta):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = private_consensus(PROFILE, epsilon=epsilon, delta=delta)
    huge = Fraction(epsilon) > 20
    assert [w.category for w in caught] == [PrivacyWarning if huge else AccuracyWarning]
    assert (release.value.tiers == (("a",), ("b",))) or not huge
    assert math.isfinite(release.value.estimate.noise.sd)


@pytest.mark.parametrize("value", [-0.1, 1, 1.5, 2, math.nan, "1", -1, None, True, "1e-301", f"1/{10**31 + 1}"])
def test_p2_delta_out_of_range(value):
    with pytest.raises(ParameterError, match="delta must be"):
        private_consensus(PROFILE, epsilon=1, delta=value)


def test_p2_gaussian_needs_delta_and_large_delta_is_fine():
    with pytest.raises(ParameterError, match="needs delta > 0"):
        private_consensus(PROFILE, epsilon=1, delta=0, mechanism="gaussian")
    assert parse_delta("0.9") == Fraction(9, 10)
    assert epsilon_upper(1, "0.9") == 0  # never below 0
    with pytest.warns(PrivacyWarning, match="one of 3 people outright"):
        release = private_consensus(PROFILE, epsilon="0.01", delta="0.9", mechanism="gaussian")
    assert release.guarantee.delta == Fraction(9, 10)


def test_p3_sigma_at_the_edges():
    for bad in (math.nan, -1, "-1", None, -math.inf, True):
        with pytest.raises(ParameterError, match="sigma must be"):
            gaussian_epsilon_upper(bad, sensitivity=1, delta="1e-5")
    assert gaussian_epsilon_upper(0, sensitivity=1, delta="1e-5") == math.inf
    assert gaussian_epsilon_upper(math.inf, sensitivity=1, delta="1e-5") == 0
    assert gaussian_epsilon_upper("1e200", sensitivity=1, delta="1e-5") == 0
    with pytest.raises(ParameterError, match="sensitivity"):
        gaussian_epsilon_upper(1, sensitivity=0, delta="1e-5")
    with pytest.raises(ParameterError, match="never pure"):
        gaussian_epsilon_upper(1, sensitivity=1, delta=0)


def test_p3_infinite_epsilon_is_refused_downstream():
    with pytest.raises(ParameterError):
        parse_epsilon(gaussian_epsilon_upper(0, sensitivity=1, delta="1e-5"))


def test_p3_tiny_sigma_does_not_overflow():
    assert gaussian_epsilon_upper("1e-200", sensitivity=1, delta="1e-5") > 10**399


@pytest.mark.parametrize("sigma", ["0.1", "0.01", "0.003"])
def test_p4_a_thousand_compositions_in_closed_form(sigma):
    mu = compose_mu_upper([1 / Fraction(sigma)] * 1000)
    assert float(mu) == pytest.approx(math.sqrt(1000) / float(sigma), rel=1e-15)
    assert mu**2 >= 1000 / Fraction(sigma) ** 2
    epsilon = epsilon_upper(mu, "1e-5")
    # for large mu the curve sits at mu^2/2 + 4.26 mu, the normal quantile of 1 - delta
    assert float(epsilon) == pytest.approx(float(mu) ** 2 / 2 + stats.norm.isf(1e-5) * float(mu), rel=2e-3)


def test_p9_adjacency_doubles_the_sensitivity():
    one = bounded_sum_sensitivity(-1, 1, adjacency="add-remove")
    two = bounded_sum_sensitivity(-1, 1)
    assert float(gaussian_epsilon_upper(1, sensitivity=one, delta="1e-5")) == pytest.approx(4.377178, rel=1e-6)
    assert float(gaussian_epsilon_upper(1, sensitivity=two, delta="1e-5")) == pytest.approx(9.997256, rel=1e-6)


def test_p18_sensitivity_of_bounded_sums():
    assert bounded_sum_sensitivity(-1, 10) == 11
    assert bounded_sum_sensitivity(90, 100) == 10
    assert bounded_sum_sensitivity(-1, 10, adjacency="add-remove") == 10
    assert bounded_sum_sensitivity(90, 100, adjacency="add-remove") == 100
    for bounds in ((10, -1), (5, 5), (math.nan, 1), (0, math.inf), (None, 1)):
        with pytest.raises(ParameterError):
            bounded_sum_sensitivity(*bounds)
    with pytest.raises(ParameterError, match="adjacency"):
        bounded_sum_sensitivity(0, 1, adjacency="swap")


def test_p18_bounds_by_brute_force():
    ends = np.linspace(-1, 10, 12)
    assert max(abs(a - b) for a in ends for b in ends) == bounded_sum_sensitivity(-1, 10)
    assert max(abs(a) for a in ends) == bounded_sum_sensitivity(-1, 10, adjacency="add-remove")


def test_p20_noise_of_a_released_mean():
    """A mean of n = 100 records in [-C, C], multiplier z: noise sd z 2C on the sum, so z 2C / n on the mean."""
    from psephos.privacy import InsecureBits
    from psephos.privacy.samplers import rounded_gaussian_array

    n, clip, multiplier, unit = 100, 3, 2, 1000  # the sum is kept in thousandths
    sigma = multiplier * bounded_sum_sensitivity(-clip * unit, clip * unit)
    draws = rounded_gaussian_array(sigma, 40_000, InsecureBits(seed=1)) / unit / n
    assert abs(draws.std() / (multiplier * 2 * clip / n) - 1) < 4.9 / math.sqrt(2 * 40_000)
    assert abs(draws.std() / (multiplier * clip / n) - 1) > 0.5  # half the noise would be seen


def divergence(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_p16_gaussian_bound_against_brute_force_divergence():
    """Two integers at distance 20, rounded noise: the hockey-stick sum is at most the curve, and near it."""
    from laws import rounded_gaussian_pmf

    sigma, k = 40.0, np.arange(-600, 601)
    p, q = rounded_gaussian_pmf(sigma, k), rounded_gaussian_pmf(sigma, k - 20)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        bound = delta_upper(Fraction(20, 40), epsilon)
        assert 0.99 * bound <= divergence(p, q, epsilon) <= bound * (1 + 1e-9)


def test_p16_laplace_bound_against_brute_force_divergence():
    from laws import discrete_laplace_pmf

    k = np.arange(-300, 301)
    p, q = discrete_laplace_pmf(4.0, k), discrete_laplace_pmf(4.0, k - 2)
    epsilon = float(epsilon_of(DiscreteLaplaceEvent(scale=Fraction(4), sensitivity=Fraction(2)), 0))
    assert float(np.abs(np.log(p / q)).max()) == pytest.approx(epsilon, rel=1e-9)
    assert divergence(p, q, 0.99 * epsilon) > 0


def test_events_round_trip_through_a_closed_table():
    for event in (
        DiscreteLaplaceEvent(scale=Fraction(22, 7), sensitivity=Fraction(2)),
        RoundedGaussianEvent(sigma=Fraction(10, 3), sensitivity_squared=Fraction(180)),
    ):
        assert event_from_json(event_to_json(event)) == event
    with pytest.raises(ParameterError, match="unknown event tag"):
        event_from_json({"event": "os.system"})
    with pytest.raises(ParameterError, match="scale"):
        event_from_json({"event": "discrete-laplace", "scale": "nan", "sensitivity": "1"})
    composed = ComposedGaussianEvent(
        parts=(RoundedGaussianEvent(sigma=Fraction(3), sensitivity_squared=Fraction(4)),) * 2
    )
    assert event_from_json(event_to_json(composed)) == composed
    laplace = event_to_json(DiscreteLaplaceEvent(scale=Fraction(1), sensitivity=Fraction(1)))
    with pytest.raises(ParameterError, match="cannot hold a DiscreteLaplaceEvent"):
        event_from_json({"event": "composed-gaussian", "parts": [laplace]})
    with pytest.raises(ParameterError, match="no bound is known for the event str"):
        epsilon_of("laplace", 0)

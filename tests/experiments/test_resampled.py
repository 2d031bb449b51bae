"""What B noisy bootstrap resamples cost."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from rivals import resampled
from rivals.resampled import ResampledGaussianEvent, epsilon_of
from scipy.stats import binom, norm

from psephos.errors import ParameterError
from psephos.privacy import events, gaussian


@pytest.mark.parametrize(("records", "resamples"), [(1, 1), (1, 3), (2, 1), (2, 4), (3, 2), (4, 2)])
def test_the_law_of_squared_multiplicities_is_that_of_all_resamples(records, resamples):
    """Oracle: every table of draws with replacement, and how often record 0 is in each."""
    counts = Counter(
        sum(row.count(0) ** 2 for row in table)
        for table in itertools.product(itertools.product(range(records), repeat=records), repeat=resamples)
    )
    total = records ** (records * resamples)
    law, above = resampled._squares(records, resamples)
    assert above < 1e-29
    expected = np.array([counts[m] / total for m in range(len(law))])
    assert sum(counts.values()) == total
    assert max(counts) < len(law)
    np.testing.assert_allclose(law, expected, rtol=2e-9, atol=0)
    assert (law >= expected).all()


@pytest.mark.parametrize(("records", "resamples"), [(50, 1), (10_000, 20), (500, 1000), (10**9, 7)])
def test_the_law_has_the_mean_of_the_bootstrap(records, resamples):
    law, _ = resampled._squares(records, resamples)
    assert law.sum() == pytest.approx(1, abs=3e-9)
    assert law.sum() >= 1
    assert law @ np.arange(len(law)) == pytest.approx(resamples * (2 - 1 / records), rel=1e-8)


def test_one_record_in_one_resample_is_the_gaussian_mechanism():
    for shift, epsilon in [(0.3, 0.5), (1.0, 2.0), (2.0, 0.0)]:
        exact = gaussian.delta_upper(Fraction(shift), Fraction(epsilon))
        got = resampled.delta_upper(shift=shift, records=1, resamples=1, epsilon=epsilon)
        assert exact <= got <= exact * (1 + 1e-7)


def test_the_mean_over_multiplicities_is_a_mean_of_certified_curves():
    law, above = resampled._squares(30, 2)
    exact = math.fsum(
        mass * gaussian.delta_upper(Fraction(0.4 * math.sqrt(m)), 1) for m, mass in enumerate(law.tolist()) if m
    )
    got = resampled.delta_upper(shift=0.4, records=30, resamples=2, epsilon=1.0)
    assert exact / (1 + 1e-8) <= got <= exact * (1 + 1e-7) + above


@pytest.mark.parametrize("centre", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_no_pair_with_hidden_multiplicities_exceeds_the_bound(centre, epsilon):
    """One resample of a statistic at k Delta (1 - centre) against -k Delta centre, by quadrature."""
    shift, records = 0.7, 100
    times = np.arange(30)
    x = np.linspace(-40, 40, 80_001)
    weights = binom.pmf(times, records, 1 / records)[:, None]
    ahead = (weights * norm.pdf(x - shift * times[:, None] * (1 - centre))).sum(axis=0)
    behind = (weights * norm.pdf(x + shift * times[:, None] * centre)).sum(axis=0)
    bound = resampled.delta_upper(shift=shift, records=records, resamples=1, epsilon=epsilon)
    for p, q in [(ahead, behind), (behind, ahead)]:
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0]) <= bound


def test_calibration_returns_the_feasible_side():
    for epsilon, delta, records, resamples in [(1, "1e-4", 10_000, 20), ("0.1", "1e-9", 300, 2), (8, "0.1", 5, 50)]:
        shift = resampled.shift_lower(epsilon, delta, records=records, resamples=resamples)
        facts = {"records": records, "resamples": resamples, "epsilon": float(epsilon)}
        assert resampled.delta_upper(shift=shift, **facts) <= float(delta)
        assert resampled.delta_upper(shift=shift * (1 + 1e-7), **facts) > float(delta)
        event = ResampledGaussianEvent(
            sigma=1 / Fraction(shift), sensitivity=Fraction(1), records=Fraction(records), resamples=Fraction(resamples)
        )
        assert epsilon_of(event, delta) <= Fraction(epsilon)


@pytest.mark.parametrize(("resamples", "ratio"), [(20, 1.1288), (100, 1.0298), (1000, 1.0031)])
def test_many_resamples_cost_the_square_root_of_twice_their_number(resamples, ratio):
    limit = float(gaussian.mu_lower(1, "1e-4")) / math.sqrt(2 * resamples)
    shift = resampled.shift_lower(1, "1e-4", records=10_000, resamples=resamples)
    assert limit / shift == pytest.approx(ratio, abs=2e-4)


def test_the_published_scale_costs_more_than_it_says_by_what_is_proved():
    shift = float(gaussian.mu_lower(1, "1e-4")) / math.sqrt((2 - 2 / math.e) * 20)
    spent = resampled.epsilon_upper(shift=shift, records=10_000, resamples=20, delta=1e-4)
    assert spent == pytest.approx(1.5075, abs=1e-3)


def test_more_shift_or_resamples_cost_more():
    base = {"shift": 0.1, "records": 1000, "resamples": 10, "epsilon": 1.0}
    least = resampled.delta_upper(**base)
    assert resampled.delta_upper(**{**base, "shift": 0.11}) > least
    assert resampled.delta_upper(**{**base, "resamples": 11}) > least
    assert resampled.delta_upper(**{**base, "epsilon": 1.1}) < least
    assert resampled.delta_upper(**{**base, "shift": 0.0}) == 0
    assert resampled.epsilon_upper(shift=1e9, records=10, resamples=2, delta=1e-6) == math.inf


def test_the_package_knows_nothing_of_the_event_and_says_so():
    event = ResampledGaussianEvent(
        sigma=Fraction(7, 3), sensitivity=Fraction(1, 9), records=Fraction(100), resamples=Fraction(20)
    )
    with pytest.raises(ParameterError, match="no bound is known for the event ResampledGaussianEvent"):
        events.epsilon_of(event, "1e-6")
    with pytest.raises(ParameterError, match="no tag is known for the event ResampledGaussianEvent"):
        events.event_to_json(event)
    with pytest.raises(ParameterError, match="unknown event tag 'resampled-gaussian'"):
        events.event_from_json({"event": "resampled-gaussian", "sigma": "1"})


def test_no_noise_has_no_finite_epsilon():
    silent = ResampledGaussianEvent(
        sigma=Fraction(0), sensitivity=Fraction(1), records=Fraction(5), resamples=Fraction(2)
    )
    with pytest.raises(ParameterError, match="no finite epsilon"):
        epsilon_of(silent, "1e-6")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shift", -0.1),
        ("shift", math.nan),
        ("records", 0),
        ("records", 2.5),
        ("resamples", 0),
        ("resamples", 10_001),
        ("epsilon", math.nan),
    ],
)
def test_parameters_out_of_range_are_refused(name, value):
    facts = {"shift": 0.1, "records": 10, "resamples": 2, "epsilon": 1.0}
    with pytest.raises(ParameterError, match=name):
        resampled.delta_upper(**{**facts, name: value})


def test_a_delta_below_the_table_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        resampled.shift_lower(1, "1e-35", records=10, resamples=2)


def test_delta_is_never_zero_where_noise_is_finite():
    for shift, epsilon in ((1e-300, 1.0), (1e-3, 1e5), (5e-324, 0.0)):
        assert resampled.delta_upper(shift=shift, records=100, resamples=3, epsilon=epsilon) > 0
    law = resampled._curve_upper(np.array([1e-3]), 1.0)
    assert law[0] > 0

"""The audit's own arithmetic: limits are exact, bounds are below the truth, nonsense is refused."""

import math

import pytest
from scipy import stats

from psephos.errors import ParameterError
from psephos.privacy.audit import epsilon_lower_bound, mu_lower_bound


def test_limits_are_clopper_pearson():
    """The upper limit p of 3 in 20 leaves P(X <= 3) = 1.25 % under p, and so on."""
    bound = epsilon_lower_bound(false_alarms=3, hits=17, trials=20)
    intervals = [stats.binomtest(k, 20).proportion_ci(0.95, "exact") for k in (3, 17)]
    assert bound == pytest.approx(math.log(intervals[1].low / intervals[0].high), rel=1e-9)


def test_no_evidence_gives_zero():
    assert mu_lower_bound(false_alarms=0, hits=0, trials=10) == 0
    assert epsilon_lower_bound(false_alarms=10, hits=10, trials=10) == 0
    assert epsilon_lower_bound(false_alarms=0, hits=0, trials=10) == 0


def test_bounds_approach_the_truth_from_below():
    n = 10**6
    mu = mu_lower_bound(false_alarms=int(n * stats.norm.cdf(-0.5)), hits=int(n * stats.norm.cdf(0.5)), trials=n)
    assert 0.98 < mu < 1
    epsilon = epsilon_lower_bound(false_alarms=n // 10, hits=int(n / 10 * math.e), trials=n)
    assert 0.98 < epsilon < 1


@pytest.mark.parametrize(
    "kwargs",
    [
        {"false_alarms": -1, "hits": 1, "trials": 2},
        {"false_alarms": 3, "hits": 1, "trials": 2},
        {"false_alarms": 1, "hits": 1, "trials": 0},
        {"false_alarms": 1, "hits": 1, "trials": 2, "confidence": 1.0},
    ],
)
def test_nonsense_is_refused(kwargs):
    with pytest.raises(ParameterError):
        mu_lower_bound(**kwargs)

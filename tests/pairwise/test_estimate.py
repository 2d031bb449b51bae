"""The pairwise estimate: shares, and the variance of each noise law against its definition."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from psephos import Comparisons, PairwiseEstimate, Profile
from psephos.errors import ParameterError
from psephos.pairwise import NoiseLaw


def series_variance(law):
    scale = float(law.scale)
    k = np.arange(1, int(60 * scale) + 60)
    if law.family == "discrete-laplace":
        r = math.exp(-1 / scale)
        p = (1 - r) / (1 + r) * r**k
    else:
        p = stats.norm.sf((k - 0.5) / scale) - stats.norm.sf((k + 0.5) / scale)
    return float(2 * (k.astype(float) ** 2 * p).sum())


@pytest.mark.parametrize("family", ["discrete-laplace", "rounded-gaussian"])
@pytest.mark.parametrize("scale", ["1/20", "1/3", "1", "19/10", "2", "21/10", "7", "1000"])
def test_variance_equals_the_series(family, scale):
    law = NoiseLaw(family=family, scale=Fraction(scale))
    assert law.variance == pytest.approx(series_variance(law), rel=1e-9, abs=1e-15)
    assert law.sd == pytest.approx(math.sqrt(law.variance), rel=1e-12)


@pytest.mark.parametrize("family", ["discrete-laplace", "rounded-gaussian"])
@pytest.mark.parametrize("scale", ["1e-200", "1e200", "1e300"])
def test_extreme_scales_have_a_standard_deviation(family, scale):
    law = NoiseLaw(family=family, scale=Fraction(scale))
    assert (law.sd == 0) if Fraction(scale) < 1 else (0.9 < law.sd / float(scale) < 1.5)
    assert law.variance == (0 if Fraction(scale) < 1 else math.inf)


@pytest.mark.parametrize("family", ["discrete-laplace", "rounded-gaussian"])
def test_simulation_has_the_variance(family):
    law = NoiseLaw(family=family, scale=Fraction(3))
    draws = law.simulate((200_000,), np.random.default_rng(1))
    assert draws.var() == pytest.approx(law.variance, rel=0.03)
    assert (draws == np.rint(draws)).all()
    assert not NoiseLaw().simulate((3,), np.random.default_rng(1)).any()
    assert NoiseLaw().variance == 0


def test_m4_two_items_seven_to_three():
    """The share is .7, whose log-odds are ln(7/3) = 0.8473."""
    share = PairwiseEstimate.from_data(
        Comparisons.from_columns(list("ab"), [0] * 10, [1] * 10, [1] * 7 + [-1] * 3)
    ).shares()
    assert math.log(share[0, 1] / share[1, 0]) == pytest.approx(0.8473, abs=5e-5)


def test_shares_of_pairs_nobody_answered_are_nan_and_unreleased_ones_refused():
    profile = Profile.from_rankings({("a", "b"): 2}, items=list("abc"))
    estimate = PairwiseEstimate.from_data(profile, unranked="missing")
    assert np.isnan(estimate.shares()[0, 2])
    assert estimate.shares()[0, 1] == 1
    released = PairwiseEstimate(items=("a", "b"), margins=np.array([[0, 1], [-1, 0]]))
    with pytest.raises(ParameterError, match="not released"):
        released.shares()


def test_shares_at_10_to_the_30():
    n = 10**30
    profile = Profile.from_rankings({("a", "b"): 3 * n, ("b", "a"): n}, items=list("ab"))
    assert PairwiseEstimate.from_data(profile).shares()[0, 1] == 0.75


@pytest.mark.parametrize(
    "kwargs",
    [
        {"family": "gumbel", "scale": Fraction(1)},
        {"family": "none", "scale": Fraction(1)},
        {"family": "discrete-laplace"},
        {"family": "rounded-gaussian", "scale": Fraction(-1)},
    ],
)
def test_laws_are_checked(kwargs):
    with pytest.raises(ParameterError):
        NoiseLaw(**kwargs)


def test_estimates_are_checked():
    with pytest.raises(ParameterError, match="shape"):
        PairwiseEstimate(items=("a",), margins=np.zeros((2, 2), dtype=int))
    with pytest.raises(ParameterError, match="antisymmetric"):
        PairwiseEstimate(items=("a", "b"), margins=np.ones((2, 2), dtype=int))

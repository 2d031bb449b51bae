"""Exact samplers: law at false-alarm rate 1e-6, power against a scale off by 2 %, edges, peers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from laws import accepts, discrete_gaussian_pmf, discrete_laplace_pmf, rounded_gaussian_pmf
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits, SystemBits, samplers

Z = 4.9  # two-sided false alarm 1e-6

# name, scalar sampler of (scale, bits), array sampler, pmf(scale, k)
LAPLACE = (samplers.discrete_laplace, samplers.discrete_laplace_array, discrete_laplace_pmf)
ROUNDED = (samplers.rounded_gaussian, samplers.rounded_gaussian_array, rounded_gaussian_pmf)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)])
@pytest.mark.parametrize("family", [LAPLACE, ROUNDED], ids=["laplace", "rounded gaussian"])
def test_array_law_and_power(family, scale):
    _, array, pmf = family
    n = 1_500_000 if scale < 1 else 600_000
    bits = InsecureBits(seed=11)
    assert accepts(array(scale, n, bits), pmf, float(scale))
    for wrong in (Fraction(102, 100), Fraction(98, 100)):
        assert not accepts(array(scale * wrong, n, bits), pmf, float(scale))


@pytest.mark.parametrize("family", [LAPLACE, ROUNDED], ids=["laplace", "rounded gaussian"])
def test_scalar_law(family):
    scalar, _, pmf = family
    bits = InsecureBits(seed=12)
    assert accepts([scalar(Fraction(5, 2), bits) for _ in range(20_000)], pmf, 2.5)


@pytest.mark.slow
@pytest.mark.parametrize("family", [LAPLACE, ROUNDED], ids=["laplace", "rounded gaussian"])
def test_scalar_law_and_power(family):
    scalar, _, pmf = family
    bits = InsecureBits(seed=13)
    scale, n = Fraction(5, 2), 400_000
    assert accepts([scalar(scale, bits) for _ in range(n)], pmf, float(scale))
    assert not accepts([scalar(scale * Fraction(102, 100), bits) for _ in range(n)], pmf, float(scale))


def test_discrete_gaussian_law():
    bits = InsecureBits(seed=14)
    draws = [samplers.discrete_gaussian(Fraction(25, 4), bits) for _ in range(20_000)]
    assert accepts(draws, discrete_gaussian_pmf, 2.5)


@pytest.mark.slow
def test_discrete_gaussian_law_and_power():
    bits = InsecureBits(seed=15)
    n = 300_000
    assert accepts([samplers.discrete_gaussian(Fraction(25, 4), bits) for _ in range(n)], discrete_gaussian_pmf, 2.5)
    wrong = Fraction(25, 4) * Fraction(102, 100) ** 2
    assert not accepts([samplers.discrete_gaussian(wrong, bits) for _ in range(n)], discrete_gaussian_pmf, 2.5)


@pytest.mark.parametrize("scale", [10**10, 10**40])
def test_laplace_at_large_scale_is_exponential_in_size(scale):
    """At a large scale |k| / scale is exponential; compare its mean and its median."""
    bits = InsecureBits(seed=16)
    n = 4000
    draws = [samplers.discrete_laplace(Fraction(scale), bits) for _ in range(n)]
    assert all(isinstance(k, int) for k in draws)
    sizes = np.array([float(Fraction(abs(k), scale)) for k in draws])
    assert stats.kstest(sizes, "expon").pvalue > 1e-6
    assert stats.kstest(sizes * 1.15, "expon").pvalue < 1e-6
    assert len({k % 1000 for k in draws}) > 900  # the low digits are random too


@pytest.mark.slow
def test_rounded_gaussian_at_scale_1e40():
    bits = InsecureBits(seed=17)
    sizes = np.array([float(Fraction(samplers.rounded_gaussian(Fraction(10**40), bits), 10**40)) for _ in range(700)])
    assert stats.kstest(sizes, "norm").pvalue > 1e-6
    assert stats.kstest(sizes * 1.8, "norm").pvalue < 1e-6


def test_arrays_beyond_the_fast_path_are_python_integers():
    for array in (samplers.discrete_laplace_array, samplers.rounded_gaussian_array):
        draws = array(Fraction(10**40), 5, SystemBits())
        assert draws.dtype == object
        assert all(type(x) is int for x in draws)
        assert array(Fraction(3), 0, SystemBits()).shape == (0,)


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(5, 2), Fraction(9)])
def test_bernoulli_exp(x):
    bits = InsecureBits(seed=18)
    n = 40_000
    p = math.exp(-x)
    ones = sum(samplers.bernoulli_exp(x, bits) for _ in range(n))
    assert abs(ones - n * p) <= Z * math.sqrt(n * p * (1 - p))


def test_bernoulli_exp_of_huge_and_tiny_arguments():
    bits = SystemBits()
    assert not any(samplers.bernoulli_exp(Fraction(10**30), bits) for _ in range(50))
    assert all(samplers.bernoulli_exp(Fraction(1, 10**30), bits) for _ in range(50))


def test_bernoulli_is_exact_at_the_ends():
    bits = SystemBits()
    assert not any(samplers.bernoulli(Fraction(0), bits) for _ in range(200))
    assert all(samplers.bernoulli(Fraction(1), bits) for _ in range(200))


@pytest.mark.slow
def test_n5_randomised_answers_are_true_with_odds_e_to_the_epsilon():
    """epsilon = ln 3: truth rate 3/4 +- 0.002 over 10^6 draws; four answers: e^eps / (e^eps + 3)."""
    bits = InsecureBits(seed=19)
    epsilon = Fraction(math.log(3))
    n = 1_000_000
    lies = sum(samplers.bernoulli_logistic(epsilon, bits) for _ in range(n))
    assert abs((n - lies) / n - 0.75) < 0.002
    n, k = 100_000, 4
    truths = sum(samplers.exponential_choice([0] + [epsilon] * (k - 1), bits) == 0 for _ in range(n))
    p = 3 / (3 + k - 1)
    assert abs(truths - n * p) < Z * math.sqrt(n * p * (1 - p))


def test_n5_randomised_answers_in_short():
    bits = InsecureBits(seed=20)
    n = 60_000
    lies = sum(samplers.bernoulli_logistic(Fraction(math.log(3)), bits) for _ in range(n))
    assert abs(lies - n / 4) < Z * math.sqrt(n * 3 / 16)
    assert not abs(lies - n / 4) < Z * math.sqrt(n * 3 / 16) - 0.02 * n  # a rate off by .02 would be seen


@pytest.mark.parametrize(("epsilon", "rate"), [("40", 0.0), ("800", 0.0), ("1e-17", 0.5)])
def test_n6_bernoulli_is_exact_at_any_epsilon(epsilon, rate):
    bits = InsecureBits(seed=21)
    n = 2000
    lies = sum(samplers.bernoulli_logistic(Fraction(epsilon), bits) for _ in range(n))
    assert abs(lies - n * rate) <= Z * math.sqrt(n * rate * (1 - rate))


def test_n3_exponential_choice_with_extreme_losses():
    bits = InsecureBits(seed=22)
    assert {samplers.exponential_choice([0, 10**6, 2 * 10**6], bits) for _ in range(50)} == {0}
    assert {samplers.exponential_choice([10**9, 10**9 + 10**6], bits) for _ in range(50)} == {0}
    picks = {samplers.exponential_choice([0, 0, 0], bits, weights=[0, 1, 1]) for _ in range(100)}
    assert picks == {1, 2}
    many = [0] * 1492 + [1]
    assert all(0 <= samplers.exponential_choice(many, bits) < 1493 for _ in range(50))
    with pytest.raises(ParameterError, match="weights"):
        samplers.exponential_choice([0, 0], bits, weights=[0, 0])
    with pytest.raises(ParameterError, match="weight"):
        samplers.exponential_choice([0, 0], bits, weights=[1, -1])


def test_exponential_choice_law():
    bits = InsecureBits(seed=23)
    losses, weights = [Fraction(0), Fraction(1, 2), Fraction(2), Fraction(-1)], [3, 2, 5, 1]
    n = 15_000
    counts = np.bincount([samplers.exponential_choice(losses, bits, weights=weights) for _ in range(n)], minlength=4)
    p = np.array(weights) * np.exp([-float(x) for x in losses])
    assert stats.chisquare(counts, n * p / p.sum()).pvalue > 1e-6
    p[2] *= 1.3
    assert stats.chisquare(counts, n * p / p.sum()).pvalue < 1e-6


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1), 2.0, math.nan, None, "3"])
def test_p3_scales_that_are_none(bad):
    bits = SystemBits()
    for sampler in (samplers.discrete_laplace, samplers.rounded_gaussian):
        with pytest.raises(ParameterError, match="scale must be"):
            sampler(bad, bits)
    for array in (samplers.discrete_laplace_array, samplers.rounded_gaussian_array):
        with pytest.raises(ParameterError, match="scale must be"):
            array(bad, 3, bits)


@pytest.mark.parametrize("scale", [Fraction(1, 10**200), Fraction(10**200)])
def test_p3_extreme_scales_do_not_overflow(scale):
    bits = InsecureBits(seed=24)
    for array in (samplers.discrete_laplace_array, samplers.rounded_gaussian_array):
        draws = array(scale, 20, bits).tolist()
        assert (set(draws) == {0}) is (scale < 1)


def _opendp_draws(kind, scale, n):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T="i64")),
        (dp.l1_distance if kind == "laplace" else dp.l2_distance)(T="i64"),
    )
    make = dp.m.make_laplace if kind == "laplace" else dp.m.make_gaussian
    return np.array(make(*space, scale=scale)([0] * n))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_law_agrees_with_opendp(kind):
    """The discrete laws of an independent implementation pass the same test, and ours agrees with its draws."""
    scale, n = 2.5, 20_000
    bits = InsecureBits(seed=25)
    theirs = _opendp_draws(kind, scale, n)
    if kind == "laplace":
        ours = samplers.discrete_laplace_array(Fraction(5, 2), n, bits)
        assert accepts(theirs, discrete_laplace_pmf, scale)
    else:
        ours = np.array([samplers.discrete_gaussian(Fraction(25, 4), bits) for _ in range(n)])
        assert accepts(theirs, discrete_gaussian_pmf, scale)
    table = [np.bincount(np.clip(x, -8, 8) + 8, minlength=17) for x in (ours, theirs)]
    assert stats.chi2_contingency(table).pvalue > 1e-6


@pytest.mark.parametrize("probability", [Fraction(1, 10), Fraction(9, 10), Fraction(3, 2**20)])
def test_geometric_law_and_a_wrong_probability_is_caught(probability):
    """Number of failures: shape by chi-square over deciles of the law, false alarms 1e-6."""

    draws = samplers.geometric_array(probability, 40_000, InsecureBits(seed=21)).astype(np.int64)

    def agrees(p):
        law = stats.geom(p, loc=-1)
        edges = np.unique(law.ppf(np.linspace(0.1, 0.9, 9)))
        cells = np.searchsorted(edges, draws)
        mass = np.diff(np.concatenate([[0], law.cdf(edges), [1]]))
        observed = np.bincount(cells, minlength=mass.size)
        statistic = ((observed - len(draws) * mass) ** 2 / (len(draws) * mass)).sum()
        return stats.chi2.sf(statistic, mass.size - 1) > 1e-6

    assert agrees(float(probability))
    assert not agrees(float(probability) * 1.07)


@pytest.mark.parametrize("probability", [Fraction(1, 10), Fraction(429496729, 2**32), Fraction(2**32 - 1, 2**32)])
def test_geometric_words_fall_where_exact_powers_say(probability):
    """Against rational arithmetic: X >= j exactly where U < (1 - p)^j, at words around every threshold."""
    failure = 1 - probability
    for j in (1, 2, 3, 5):
        threshold = failure**j * 2**63
        for u in range(max(int(threshold) - 3, 0), min(int(threshold) + 3, 2**63 - 1)):
            word = np.array([2 * u], dtype=np.uint64)
            (draw,) = samplers._geometric_from_words(probability, word, InsecureBits(seed=1))
            if u + 1 <= threshold:
                assert abs(int(draw)) >= j
            if u >= threshold:
                assert abs(int(draw)) < j


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1), Fraction(-1, 2), 0.5, Fraction(1, 2**41)])
def test_geometric_probability_out_of_range(probability):
    with pytest.raises(ParameterError, match="probability must be"):
        samplers.geometric_array(probability, 1, SystemBits())


@pytest.mark.parametrize("probability", [Fraction(1, 10), Fraction(42949672, 2**32), Fraction(1, 2**31)])
def test_geometric_fast_path_agrees_with_the_bracketed_one(probability):
    """Word by word, on random words, on words next to thresholds and on the smallest and largest."""
    from psephos.privacy.balls import geometric_tail

    failure = 1 - probability
    scale = -1 / math.log1p(-float(probability))
    near = [int(float(failure) ** j * 2**63) + d for j in (1, 2, 7, 40) for d in (-1000, -1, 0, 1, 1000)]
    edge = [0, 1, 2**29, 2**30 - 1, 2**30, 2**63 - 1]
    random = np.random.default_rng(3).integers(0, 2**63, 20_000, dtype=np.uint64)
    words = np.concatenate([random, np.array(near + edge, dtype=np.uint64)]) << np.uint64(1)
    fast = samplers._geometric_from_words(probability, words, InsecureBits(seed=1))
    plain = samplers._from_words(
        words, InsecureBits(seed=1), lambda tail: -np.log(tail), scale, 0.0, lambda j: geometric_tail(failure, j)
    )
    assert (np.abs(plain) == fast).mean() > 1 - 1e-3  # words that more bits must decide meet other bits
    assert (np.abs(np.abs(plain) - fast)[:20_000] <= 1).all()
    assert fast.min() >= 0

"""Draws on the device: their exact law by enumeration, bit by bit where finite, and draw for draw as the other ones."""

import math
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction

import pytest
from scipy import stats

from branches import enclosed_exp, odds
from psephos.local import DeviceBits, samplers
from psephos.privacy import InsecureBits
from psephos.privacy import samplers as reference

FALSE_ALARM = 1e-6
EPSILONS = ["1e-17", "0.1", "2/3", "1", "3/2", "5", "40"]


class OneValue:
    """Bits that have one value to give."""

    def __init__(self, value):
        self.value = value

    def bits(self, n):
        value, self.value = self.value, None
        if value is None:
            raise EOFError
        assert 0 <= value < 2**n
        return value


def test_bernoulli_bit_by_bit():
    """Of the equally likely words that are accepted, exactly ``numerator`` of ``denominator`` say yes."""
    for denominator in range(1, 41):
        width = (denominator - 1).bit_length()
        for numerator in range(denominator + 1):
            seen = Counter()
            for word in range(2**width):
                try:
                    seen[samplers._bernoulli(numerator, denominator, OneValue(word))] += 1
                except EOFError:
                    seen["again"] += 1
            assert seen[True] == numerator
            assert seen[False] == denominator - numerator


def exp_exactly(x):
    """exp(-x) to 40 digits."""
    context = Context(prec=40)
    return Fraction(context.exp(-context.divide(Decimal(x.numerator), Decimal(x.denominator))))


@pytest.mark.parametrize("x", ["0", *EPSILONS])
def test_bernoulli_exp_has_its_law_by_enumeration(monkeypatch, x):
    low, high = enclosed_exp(monkeypatch, Fraction(x))
    truth = exp_exactly(Fraction(x))
    assert low <= truth * (1 + Fraction(1, 10**35))
    assert truth * (1 - Fraction(1, 10**35)) <= high
    assert high - low <= truth / 10**16


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_flip_and_shift_have_their_laws_by_enumeration(monkeypatch, epsilon):
    """A round says its words with odds 1 : E (: E) exactly, and E is exp(-epsilon) in the enclosure above."""
    eps = Fraction(epsilon)
    bounds = enclosed_exp(monkeypatch, eps)
    rates = []
    for e in bounds:
        flips, shifts = odds(monkeypatch, samplers.flip, eps, e), odds(monkeypatch, samplers.shift, eps, e)
        assert flips == {False: Fraction(1, 2), True: e / 2}
        assert shifts == {0: Fraction(1, 3), 1: e / 3, 2: e / 3}
        rates.append(flips[True] / sum(flips.values()))
    truth = exp_exactly(eps) / (1 + exp_exactly(eps))
    slack = truth / 10**35
    assert rates[0] - slack <= truth <= rates[1] + slack
    for wrong in (Fraction(98, 100), Fraction(102, 100)):
        assert not rates[0] <= wrong * truth <= rates[1]


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_flip_law_by_draws(epsilon):
    """Chi-square at false alarm 1e-6; a probability that is off by 2 % of itself is rejected."""
    bits, eps, n = InsecureBits(seed=31), Fraction(epsilon), 600_000
    flips = sum(samplers.flip(eps, bits) for _ in range(n))

    def accepted(p):
        return stats.chisquare([flips, n - flips], [n * p, n * (1 - p)]).pvalue > FALSE_ALARM

    p = 1 / (1 + math.exp(eps))
    assert accepted(p)
    assert not accepted(1.02 * p)
    assert not accepted(0.98 * p)


def test_n5_shift_law_by_draws():
    """Three answers: e^eps / (e^eps + 2)."""
    bits, n = InsecureBits(seed=32), 300_000
    counts = Counter(samplers.shift(Fraction(1), bits) for _ in range(n))
    observed = [counts[i] for i in range(3)]

    def accepted(keep):
        return stats.chisquare(observed, [n * keep, n * (1 - keep) / 2, n * (1 - keep) / 2]).pvalue > FALSE_ALARM

    keep = math.e / (math.e + 2)
    assert accepted(keep)
    assert not accepted(1.02 * keep)
    assert not accepted(0.98 * keep)


@pytest.mark.parametrize("epsilon", ["1e-17", "1/7", "1", "3/2", "5", "800"])
def test_draw_for_draw_as_the_samplers_of_releases(epsilon):
    """The same bits give the same draws where both reduce their fractions alike."""
    eps, ours, theirs = Fraction(epsilon), InsecureBits(seed=33), InsecureBits(seed=33)
    for _ in range(1500):
        assert samplers.flip(eps, ours) == reference.bernoulli_logistic(eps, theirs)
        assert samplers.shift(eps, ours) == reference.exponential_choice([0, eps, eps], theirs)
        assert samplers.bernoulli_exp(eps, ours) == reference.bernoulli_exp(eps, theirs)
        assert samplers.uniform_below(11, ours) == reference.uniform_below(11, theirs)


def test_law_as_the_samplers_of_releases():
    eps, ours, theirs, n = Fraction("2/3"), InsecureBits(seed=34), InsecureBits(seed=35), 20_000
    first = sum(samplers.flip(eps, ours) for _ in range(n))
    second = sum(reference.bernoulli_logistic(eps, theirs) for _ in range(n))
    assert stats.chi2_contingency([[first, n - first], [second, n - second]]).pvalue > FALSE_ALARM


def test_n6_extremes_with_bits_of_the_system():
    bits, n = DeviceBits(), 4000
    assert not any(samplers.flip(Fraction(800), bits) for _ in range(n))
    assert not any(samplers.shift(Fraction(800), bits) for _ in range(n))
    tiny = Fraction(1, 10**17)
    flips = sum(samplers.flip(tiny, bits) for _ in range(n))
    assert abs(flips - n / 2) < 4.9 * math.sqrt(n / 4)
    shifts = Counter(samplers.shift(tiny, bits) for _ in range(n))
    assert stats.chisquare([shifts[i] for i in range(3)]).pvalue > FALSE_ALARM

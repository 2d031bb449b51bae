"""Noise in bounded time: the distance from the ideal law, computed exactly, and what the proof of it needs."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import flint
import numpy as np
import pytest
from scipy import stats

from psephos.errors import ParameterError
from psephos.privacy import InsecureBits
from psephos.privacy.balls import ball
from psephos.privacy.bounded import BoundedNoise, SymmetricNoise, bounded_below, shuffled, unrank

SMALL = [
    SymmetricNoise(family="laplace", scale=Fraction(2)),
    SymmetricNoise(family="laplace", scale=Fraction(1, 3)),
    SymmetricNoise(family="geometric", scale=Fraction(1, 2)),
    SymmetricNoise(family="geometric", scale=Fraction(4, 5)),
    SymmetricNoise(family="gaussian", scale=Fraction(3, 2)),
    SymmetricNoise(family="gaussian", scale=Fraction(1, 4)),
]


class Given:
    """A source that answers one question with one number, and notes how many bits it was asked for."""

    def __init__(self, value=0):
        self.value, self.asked = value, []

    def bits(self, n):
        self.asked.append(n)
        return self.value


def ideal(noise, reach):
    """The exact probabilities of 0, 1, ..., reach and the mass beyond, as rationals good to 2**-200."""

    def tail(j):
        with flint.ctx.workprec(300):
            value = noise.tail(j)(300)
            return Fraction(int(value.mid().man_exp()[0])) * Fraction(2) ** int(value.mid().man_exp()[1])

    tails = [tail(j) for j in range(1, reach + 2)]
    law = {0: 1 - tails[0]}
    for j in range(1, reach + 1):
        law[j] = law[-j] = (tails[j - 1] - tails[j]) / 2
    return law, tails[reach]


def law_of_draws(bounded):
    """The law of one draw, from all its bit strings."""
    width = bounded.bits_per_draw
    counts = Counter(bounded.draws(1, Given(u))[0] for u in range(1 << width))
    return {j: Fraction(count, 1 << width) for j, count in counts.items()}


def distance(law, other, beyond):
    keys = set(law) | set(other)
    return (sum(abs(law.get(j, Fraction(0)) - other.get(j, Fraction(0))) for j in keys) + beyond) / 2


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("noise", SMALL, ids=lambda noise: f"{noise.family} {noise.scale}")
def test_total_variation_to_the_ideal_law_exactly(noise, k):
    bounded = BoundedNoise(noise=noise, k=k)
    law = law_of_draws(bounded)
    assert sum(law.values()) == 1
    assert 0 < distance(law, *ideal(noise, bounded.reach)) <= Fraction(1, 2**k)


@pytest.mark.parametrize("noise", SMALL[:1] + SMALL[4:5], ids=lambda noise: f"{noise.family} {noise.scale}")
def test_another_scale_would_be_found_out(noise):
    """The same comparison against the law of a scale larger by a quarter."""
    bounded = BoundedNoise(noise=noise, k=4)
    other = SymmetricNoise(
        family=noise.family, scale=noise.scale * (Fraction(9, 8) if noise.scale < 1 else Fraction(5, 4))
    )
    assert distance(law_of_draws(bounded), *ideal(other, bounded.reach)) > Fraction(1, 2**4)


@pytest.mark.parametrize(
    "noise", SMALL[:1] + SMALL[2:3] + SMALL[4:5], ids=lambda noise: f"{noise.family} {noise.scale}"
)
def test_any_distribution_function_within_the_last_bit_will_do(noise, monkeypatch):
    """The proof asks of G only that it lies within 2**-b of F: it may fail to grow."""
    exact = BoundedNoise._distribution
    for seed in range(2):
        rng = np.random.default_rng(seed)
        shifts = {}

        def rough(self, i, width, shifts=shifts, rng=rng):
            return exact(self, i, width) + shifts.setdefault(i, int(rng.integers(-2, 3)))

        monkeypatch.setattr(BoundedNoise, "_distribution", rough)
        bounded = BoundedNoise(noise=noise, k=3)
        assert distance(law_of_draws(bounded), *ideal(noise, bounded.reach)) <= Fraction(1, 2**3)


def test_the_grid_is_not_finer_than_it_must_be(monkeypatch):
    """With as many bits fewer as the proof leaves over, and two more, the distance is exceeded."""
    noise = SymmetricNoise(family="gaussian", scale=Fraction(3, 2))
    width = BoundedNoise(noise=noise, k=5).bits_per_draw
    monkeypatch.setattr(BoundedNoise, "bits_per_draw", property(lambda _: width - 8))
    bounded = BoundedNoise(noise=noise, k=5)
    assert distance(law_of_draws(bounded), *ideal(noise, bounded.reach)) > Fraction(1, 2**5)


@pytest.mark.parametrize("family", ["laplace", "geometric", "gaussian"])
@pytest.mark.parametrize("k", [1, 20, 400])
def test_the_mass_beyond_the_reach(family, k):
    scales = {
        "laplace": ["1/10", "1", "12345/7", "1e40"],
        "geometric": ["1/100", "1/2", "999999/1000000"],
        "gaussian": ["1/10", "1", "12345/7", "1e40"],
    }
    for scale in scales[family]:
        noise = SymmetricNoise(family=family, scale=Fraction(scale))
        bounded = BoundedNoise(noise=noise, k=k)
        with flint.ctx.workprec(1000):
            assert noise.tail(bounded.reach + 1)(1000) <= ball(Fraction(1, 4 * 2**k))


def test_bits_of_the_worked_example():
    """16 items, a million people, epsilon 1, published constants: ratio 1 - 1 / 3840, 79 bits of accuracy a draw."""
    law = BoundedNoise(noise=SymmetricNoise(family="geometric", scale=1 - Fraction(1, 3840)), k=79)
    assert (law.reach, law.bits_per_draw) == (218_230, 101)


@pytest.mark.parametrize("noise", SMALL, ids=lambda noise: f"{noise.family} {noise.scale}")
def test_every_draw_takes_the_same_number_of_bits(noise):
    bounded = BoundedNoise(noise=noise, k=30)
    for value in (0, 1, 2**bounded.bits_per_draw - 1, 2 ** (bounded.bits_per_draw - 1)):
        source = Given(value)
        drawn = bounded.draws(4, source)
        assert source.asked == [bounded.bits_per_draw] * 4
        assert all(abs(z) <= bounded.reach for z in drawn)
    ends = [bounded.draws(1, Given(u))[0] for u in (0, 2**bounded.bits_per_draw - 1)]
    assert ends[0] < 0 < ends[1]


def test_astronomical_scales():
    large = Fraction(10**40)
    for family, scale in (("laplace", large), ("gaussian", large), ("geometric", 1 - 1 / large)):
        drawn = BoundedNoise(noise=SymmetricNoise(family=family, scale=scale), k=200).draws(50, InsecureBits(seed=3))
        assert 10**38 < np.median([abs(z) for z in drawn]) < 10**41


def test_geometric_draws_have_exactly_their_law():
    noise = SymmetricNoise(family="geometric", scale=Fraction(4, 5))
    drawn = np.array(noise.draws(20_000, InsecureBits(seed=5)))
    law, beyond = ideal(noise, 15)
    for factor, rejected in ((Fraction(1), False), (Fraction(26, 25), True)):  # a ratio off by 4 % is rejected
        other, rest = (
            (law, beyond) if factor == 1 else ideal(SymmetricNoise(family="geometric", scale=noise.scale / factor), 15)
        )
        expected = np.array([float(other[j]) for j in range(-15, 16)] + [float(rest)]) * len(drawn)
        observed = np.array([(drawn == j).sum() for j in range(-15, 16)] + [(np.abs(drawn) > 15).sum()])
        p = stats.chisquare(observed, expected * len(drawn) / expected.sum()).pvalue
        assert bool(p < 1e-6) is rejected


@pytest.mark.parametrize("ratio", ["1/100", "1/2", "99/100", "999999/1000000"])
def test_the_loss_of_a_ratio_is_never_understated(ratio):
    r = Fraction(ratio)
    scale = SymmetricNoise(family="geometric", scale=r).loss_scale()
    with flint.ctx.workprec(200):
        exact = 1 / -ball(r).log()
        assert ball(scale) <= exact
        assert ball(scale) * (1 + flint.arb(2) ** -50) >= exact


@pytest.mark.parametrize("k", [0, 1, 4])
def test_uniform_numbers_in_bounded_time(k):
    for n in range(1, 20):
        width = n.bit_length() + k
        counts = Counter(bounded_below(n, k, Given(u)) for u in range(1 << width))
        law = {j: Fraction(counts[j], 1 << width) for j in range(n)}
        assert sum(abs(p - Fraction(1, n)) for p in law.values()) / 2 <= Fraction(1, 2**k)
    source = Given(0)
    bounded_below(1000, 7, source)
    assert source.asked == [17]
    with pytest.raises(ParameterError, match="n must be >= 1"):
        bounded_below(0, 3, source)


def test_orders_by_their_index():
    for m in range(1, 6):
        assert [unrank(i, m) for i in range(math.factorial(m))] == sorted(itertools.permutations(range(m)))


def test_orders_from_random_bits_are_at_least_half_as_likely_as_uniform():
    for m in range(1, 6):
        orders = math.factorial(m)
        width = 1 + (orders - 1).bit_length()
        counts = Counter(u % orders for u in range(1 << width))
        assert min(counts[i] for i in range(orders)) * 2 * orders >= 1 << width


def test_all_orders_are_equally_likely_from_a_fixed_number_of_bits():
    """From every residue: numbers of 64 + bitlength(m!) bits modulo m! are even but for one part in 2^64."""
    for m in range(1, 6):
        orders, taken = math.factorial(m), []

        class Bits:
            def __init__(self, value):
                self.value = value

            def bits(self, n, taken=taken):
                taken.append(n)
                return self.value

        assert [shuffled(m, Bits(i + orders * 7)) for i in range(orders)] == list(itertools.permutations(range(m)))
        assert set(taken) == {64 + orders.bit_length()}
        assert 2**64 * orders <= 2 ** taken[0]

"""The double-precision path of the array samplers equals the certified path, above all where it must hand over."""

from fractions import Fraction

import flint
import numpy as np
import pytest

from psephos.privacy import InsecureBits, samplers
from psephos.privacy.balls import LazyUniform, discrete_laplace_tail, rounded_gaussian_tail

FAMILIES = {
    "rounded gaussian": (samplers._rounded_gaussian_from_words, rounded_gaussian_tail),
    "laplace": (samplers._discrete_laplace_from_words, discrete_laplace_tail),
}
SCALES = [Fraction(1, 10), Fraction(1), Fraction(31, 7), Fraction(10**4), Fraction(2**39 + 1), Fraction(2**40 - 1)]


def certified(scale, words, tail, bits):
    """The plain twin: every word through the certified search from zero."""
    return [
        samplers._signed(
            int(word) & 1,
            samplers.decided_magnitude(LazyUniform(bits, u=int(word) >> 1, b=63), lambda j: tail(scale, j)),
        )
        for word in words
    ]


def threshold_words(scale, tail, indices):
    """Words whose uniform interval holds, or lies next to, the threshold P(|X| >= j): doubles cannot decide these."""
    words = []
    for j in indices:
        with flint.ctx.workprec(256):
            u = int(((tail(scale, j)(256)) * flint.arb(2) ** 63).mid().floor().unique_fmpz())
        words += [2 * x + sign for x in (u - 1, u, u + 1) if 0 <= x < 2**63 for sign in (0, 1)]
    return np.array(words, dtype=np.uint64)


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_forced_borderline_draws(family, scale):
    fast, tail = FAMILIES[family]
    indices = sorted({1, 2, 3, *(max(1, int(scale * z)) for z in (0.3, 0.7, 1, 2, 3.3, 5, 7, 8.5))})
    words = threshold_words(scale, tail, indices)
    # Both twins draw their further bits, in the same order, from equal sources.
    assert fast(scale, words, InsecureBits(seed=1)).tolist() == certified(scale, words, tail, InsecureBits(seed=1))


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_ends_of_the_range(family, scale):
    fast, tail = FAMILIES[family]
    ends = [0, 1, 2, 3, 2**20, 2**62, 2**64 - 4, 2**64 - 3, 2**64 - 2, 2**64 - 1]
    words = np.array(ends, dtype=np.uint64)
    assert fast(scale, words, InsecureBits(seed=2)).tolist() == certified(scale, words, tail, InsecureBits(seed=2))


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_random_draws(family, scale):
    fast, tail = FAMILIES[family]
    words = InsecureBits(seed=3).words(300)
    words[100:200] >>= np.uint64(40)  # deep in the tail
    assert fast(scale, words, InsecureBits(seed=4)).tolist() == certified(scale, words, tail, InsecureBits(seed=4))


@pytest.mark.parametrize("family", FAMILIES)
def test_error_of_the_double_quantile_is_far_inside_the_margin(family):
    """The margin is 128 units in the last place of |z| + 1; the quantile errs by less than 4."""
    from scipy.special import ndtri

    rng = np.random.default_rng(5)
    u = np.concatenate([rng.integers(1, 2**63, 400), 2 ** rng.integers(1, 63, 200)]).astype(np.uint64)
    tails = u.astype(float) * 2.0**-63
    worst = 0.0
    for value, word in zip(tails, u.tolist(), strict=True):
        with flint.ctx.workprec(200):
            p = flint.arb(flint.fmpq(int(word), 2**63))
            if family == "laplace":
                z = -np.log(value)
                error = abs(float(-p.log() - flint.arb(z)))
            else:
                z = -ndtri(value / 2)
                # the error of z is the error of its tail over the density: f(z) = erfc(z / sqrt 2) - p
                x = flint.arb(float(z))
                slope = 2 * (-x * x / 2).exp() / (2 * flint.arb.pi()).sqrt()
                error = abs(float(((x / flint.arb(2).sqrt()).erfc() - p) / slope))
        worst = max(worst, error / (abs(z) + 1))
    assert worst < samplers._MARGIN / 32


def test_impossibly_large_draws_do_not_wrap():
    """A word of zeros keeps asking for bits; a source that answers zeros goes past int64 and stays an integer."""

    class Zeros:
        secure = False
        calls = 0

        def bits(self, _n):
            self.calls += 1
            return 0 if self.calls < 2 else 1

        def words(self, n):
            return np.zeros(n, dtype=np.uint64)

    draws = samplers._discrete_laplace_from_words(Fraction(2**40 - 1), np.zeros(2, dtype=np.uint64), Zeros())
    assert all(isinstance(int(x), int) and int(x) > 2**40 * 80 for x in draws)

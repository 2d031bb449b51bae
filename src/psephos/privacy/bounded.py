"""Integer noise in bounded time: a fixed number of fair bits a draw, and a stated distance from the ideal law.

The samplers of :mod:`psephos.privacy.samplers` have exactly their law and end with probability 1, but no bound on their
time holds for certain. Here it is the other way round: every draw takes the same number of bits and the same number of
steps, and its law differs from the ideal one by at most ``2**-k`` in total variation. Whoever uses it must allow for
that distance (:class:`psephos.privacy.events.BoundedTimeEvent`).

**Noise.** Let X have one of the symmetric laws below, and let ``eta = 2**-k``. With R such that
``P(|X| > R) <= eta / 4``, b = ceil(log2(2 R + 1)) + k + 3 and U uniform on the multiples of ``2**-b`` in [0, 1), the
draw is the j in [-R, R] at which a bisection ends that asks "is U < G(i)?", where G(i) is a fixed number within
``2**-b`` of F(i) = P(X <= i), and G(R) = 1.

**Proof of the distance.** Moving the mass beyond R to -R and R costs at most ``eta / 4``. For the law on [-R, R] with
distribution function F (and F(R) = 1), couple both draws by a real V uniform on [0, 1), U its first b bits. Unless V
lies within ``2**(1-b)`` of some F(i), i < R, every question "U < G(i)?" has the answer of "V < F(i)?", as U and V
differ by less than ``2**-b`` and so do G and F; then the bisection, whatever the order of its questions, ends at the
j with F(j - 1) <= V < F(j). There are 2 R such i, and each spoils V with probability at most ``2**(2-b)``: in all at
most ``(2 R + 1) 2**(2-b) <= eta / 2``.

**Tails.** Geometric with ratio r: ``P(|X| > R) = 2 r^(R+1) / (1 + r) <= 2 r^R``, so R = ceil(ln(8 / eta) / ln(1 / r))
will do; rounded normal: ``P(|X| > R) <= 2 Q(R / sigma) <= exp(-R^2 / (2 sigma^2))``, so R = ceil(sigma sqrt(2 ln(8 /
eta))) + 1 will.

F is evaluated in balls at a precision that grows with b and log R alone: a power r^j is never expanded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from psephos.errors import ParameterError
from psephos.privacy.balls import (
    BallAt,
    LazyUniform,
    ball,
    discrete_laplace_tail,
    power_tail,
    rounded_gaussian_tail,
    scaled_floor,
    upper,
)
from psephos.privacy.bits import BitSource
from psephos.privacy.samplers import decided_magnitude, discrete_laplace_array, rounded_gaussian_array

__all__ = ["BoundedNoise", "SymmetricNoise", "bounded_below", "shuffled", "unrank"]


_MANY = Fraction(10**150)


@dataclass(frozen=True, slots=True, kw_only=True)
class SymmetricNoise:
    """A law on the integers, symmetric about 0.

    Attributes
    ----------
    family
        ``laplace``: ``P(k) ~ exp(-|k| / scale)``. ``geometric``: ``P(k) ~ scale^|k|``, scale the ratio, below 1.
        ``gaussian``: a normal law of standard deviation ``scale``, rounded.
    scale
        A rational > 0.
    """

    family: Literal["laplace", "geometric", "gaussian"]
    scale: Fraction

    def tail(self, j: int) -> BallAt:
        """P(|X| >= j), j >= 1, as balls."""
        if self.family == "gaussian":
            return rounded_gaussian_tail(self.scale, j)
        return (discrete_laplace_tail if self.family == "laplace" else power_tail)(self.scale, j)

    @property
    def sd(self) -> float:
        """Standard deviation, roughly: that of the continuous law of this scale."""
        if self.family == "gaussian":
            return float(min(self.scale, _MANY))
        return math.sqrt(2) * float(min(self.loss_scale(), _MANY))

    def loss_scale(self) -> Fraction:
        """A rational b such that a shift by s changes no probability by more than exp(s / b); not for normal noise."""
        if self.family == "geometric":
            return 1 / upper(lambda: -ball(self.scale).log())
        return self.scale

    def draws(self, size: int, bits: BitSource) -> list[int]:
        """Independent draws of exactly this law.

        >>> from psephos.privacy import SystemBits
        >>> len(SymmetricNoise(family="geometric", scale=Fraction(1, 2)).draws(3, SystemBits()))
        3
        """
        if self.family == "gaussian":
            return [int(z) for z in rounded_gaussian_array(self.scale, size, bits)]
        if self.family == "laplace":
            return [int(z) for z in discrete_laplace_array(self.scale, size, bits)]
        signs = [bits.bits(1) for _ in range(size)]
        sizes = [decided_magnitude(LazyUniform(bits), self.tail) for _ in range(size)]
        return [-z if sign else z for sign, z in zip(signs, sizes, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedNoise:
    """Draws of ``noise`` in bounded time, each within ``2**-k`` of its law in total variation.

    >>> law = BoundedNoise(noise=SymmetricNoise(family="laplace", scale=Fraction(20)), k=79)
    >>> law.reach, law.bits_per_draw
    (1137, 94)
    """

    noise: SymmetricNoise
    k: int

    @property
    def reach(self) -> int:
        """R of the module: no draw is larger."""
        if self.noise.family == "gaussian":
            size = upper(lambda: ball(self.noise.scale) * (2 * ball(8 * 2**self.k).log()).sqrt())
            return math.ceil(size) + 1
        if self.noise.family == "geometric":
            return math.ceil(upper(lambda: ball(8 * 2**self.k).log() / -ball(self.noise.scale).log()))
        return math.ceil(upper(lambda: ball(8 * 2**self.k).log() * ball(self.noise.scale)))

    @property
    def bits_per_draw(self) -> int:
        """b of the module."""
        return (2 * self.reach).bit_length() + self.k + 3

    def draws(self, size: int, bits: BitSource) -> list[int]:
        """Independent draws."""
        reach, width = self.reach, self.bits_per_draw
        return [self._inverse(bits.bits(width), reach, width) for _ in range(size)]

    def _inverse(self, u: int, reach: int, width: int) -> int:
        low, high = -reach, reach
        while low < high:
            middle = (low + high) // 2
            if 4 * u < self._distribution(middle, width):
                high = middle
            else:
                low = middle + 1
        return low

    def _distribution(self, i: int, width: int) -> int:
        """G(i) of the module times ``2**(width + 2)``, a whole number; within 5/4 of F(i) times that."""
        one = 1 << (width + 2)
        if i >= 0:
            return one - scaled_floor(self.noise.tail(i + 1), width + 1)
        return scaled_floor(self.noise.tail(-i), width + 1)


def bounded_below(n: int, k: int, bits: BitSource) -> int:
    """An integer in [0, n), within ``2**-k`` of uniform in total variation, from a fixed number of bits.

    ``n.bit_length() + k`` bits modulo n: every value has one of two neighbouring numbers of preimages, so the distance
    is at most n over the number of values.

    >>> from psephos.privacy import SystemBits
    >>> 0 <= bounded_below(6, 20, SystemBits()) < 6
    True
    """
    if n < 1:
        raise ParameterError(f"n must be >= 1, got {n}")
    return bits.bits(n.bit_length() + k) % n


def unrank(index: int, m: int) -> tuple[int, ...]:
    """The order of m items with this index, 0 to m! - 1, in lexicographic order.

    >>> [unrank(i, 3) for i in (0, 1, 5)]
    [(0, 1, 2), (0, 2, 1), (2, 1, 0)]
    """
    digits = []
    for base in range(1, m + 1):
        index, digit = divmod(index, base)
        digits.append(digit)
    items = list(range(m))
    return tuple(items.pop(digit) for digit in reversed(digits))


def shuffled(m: int, bits: BitSource) -> tuple[int, ...]:
    """The numbers below m in random order, from a fixed number of bits: each order within 1 + 2^-64 of its share.

    Naming the items of data anew by it before a mechanism runs, and back in its answer, keeps any guarantee: it is
    drawn without looking at the data, and given it the mechanism is private for the data as renamed. It makes equals
    equally likely to come first: an answer that depended on names now does not.

    >>> from psephos.privacy.bits import InsecureBits
    >>> sorted(shuffled(4, InsecureBits(seed=1)))
    [0, 1, 2, 3]
    """
    orders = math.factorial(m)
    return unrank(bits.bits(64 + orders.bit_length()) % orders, m)

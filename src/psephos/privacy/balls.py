"""Interval arithmetic: the only file that computes with Arb balls.

A ball is a midpoint and a radius that certainly contain the value, so a comparison that comes out true *is*
true; an undecided one is false both ways. The working precision is only a matter of speed: a ball that is too
wide leaves a question open and its caller asks again with more bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import flint

from psephos.privacy.bits import BitSource

__all__ = [
    "MAX_PRECISION",
    "GibbsSums",
    "LazyUniform",
    "ball",
    "discrete_laplace_tail",
    "gaussian_delta_at_most",
    "gaussian_delta_ball",
    "geometric_tail",
    "rounded_gaussian_tail",
    "sqrt_upper",
]

#: Bits; a question still open at this precision is answered on the safe side.
MAX_PRECISION = 1 << 16

#: A ball, or a function of the working precision that gives one.
Ball = Any
BallAt = Callable[[int], Ball]


def ball(x: Fraction | int) -> Ball:
    """The smallest ball of the working precision around a rational."""
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


class LazyUniform:
    """A uniform variable on (0, 1), known to as many bits as anyone has asked for.

    It lies in ``[u, u + 1] / 2**b``; more bits are drawn only while a comparison needs them, so every decision
    has exactly its probability.
    """

    __slots__ = ("_bits", "b", "u")

    def __init__(self, bits: BitSource, *, u: int = 0, b: int = 0) -> None:
        self._bits = bits
        self.u = u
        self.b = b

    def below(self, threshold: BallAt) -> bool:
        """Whether the variable lies below ``threshold``, a real number given by balls.

        Equality has probability zero; each round leaves the question open with probability O(2**-b).
        """
        if not self.b:
            self._refine(64)
        while True:
            precision = self.b + 64
            with flint.ctx.workprec(precision):
                scaled = threshold(precision) * flint.arb(2) ** self.b
                if flint.arb(self.u + 1) <= scaled:
                    return True
                if flint.arb(self.u) >= scaled:
                    return False
            self._refine(64)

    def _refine(self, n: int) -> None:
        self.u = (self.u << n) | self._bits.bits(n)
        self.b += n


def rounded_gaussian_tail(sigma: Fraction, j: int) -> BallAt:
    """P(|X| >= j) for X a normal law of standard deviation ``sigma`` rounded to integers, j >= 1.

    Equals ``erfc((j - 1/2) / (sigma sqrt 2))``.
    """

    def tail(_precision: int) -> Ball:
        return (ball(Fraction(2 * j - 1, 2) / sigma) / flint.arb(2).sqrt()).erfc()

    return tail


def discrete_laplace_tail(scale: Fraction, j: int) -> BallAt:
    """P(|X| >= j) for X with ``P(k) ~ exp(-|k|/scale)``, j >= 1.

    Equals ``2 r^j / (1 + r)`` with ``r = exp(-1/scale)``; the power is an exponential, never expanded.
    """

    def tail(_precision: int) -> Ball:
        return 2 * ball(-j / scale).exp() / (1 + ball(-1 / scale).exp())

    return tail


def geometric_tail(failure: Fraction, j: int) -> BallAt:
    """P(X >= j) = ``failure ** j`` for the number X of failures before the first success, j >= 1."""

    def tail(_precision: int) -> Ball:
        return ball(failure) ** j

    return tail


def gaussian_delta_ball(epsilon: Fraction, mu: Fraction, precision: int) -> Ball:
    """delta at ``epsilon`` of the mu-Gaussian-DP curve, at a working precision in bits.

    ``Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)``, with ``Phi(-x) = erfc(x / sqrt 2) / 2``.
    """
    with flint.ctx.workprec(precision):
        root = flint.arb(2).sqrt()
        first = (ball(epsilon / mu - mu / 2) / root).erfc()
        second = (ball(epsilon / mu + mu / 2) / root).erfc()
        return (first - ball(epsilon).exp() * second) / 2


def gaussian_delta_at_most(epsilon: Fraction, mu: Fraction, delta: Fraction) -> bool:
    """Whether the curve of ``mu`` at ``epsilon`` certainly lies at or below ``delta``; doubt says no."""
    precision = 128
    while precision <= MAX_PRECISION:
        value = gaussian_delta_ball(epsilon, mu, precision)
        with flint.ctx.workprec(precision):
            bound = ball(delta)
        if value <= bound:
            return True
        if value > bound:
            return False
        precision *= 2
    return False


def sqrt_upper(x: Fraction, significant: int = 53) -> Fraction:
    """A rational >= sqrt(x) with at most ``significant`` significant bits, tight to one unit in the last.

    >>> sqrt_upper(Fraction(4)), float(sqrt_upper(Fraction(2)))
    (Fraction(2, 1), 1.4142135623730951)
    """
    if x == 0:
        return Fraction(0)
    # Scale so that the integer square root has `significant` bits, take its floor, go up if inexact.
    shift = 2 * significant - (x.numerator.bit_length() - x.denominator.bit_length()) + 2
    shift += shift % 2
    scaled = x * Fraction(2) ** shift
    floor = scaled.numerator // scaled.denominator
    root = math.isqrt(floor)
    if Fraction(root) ** 2 < scaled:
        root += 1
    extra = max(root.bit_length() - significant, 0)
    root = -(-root >> extra)
    return Fraction(root) * Fraction(2) ** (extra - shift // 2)


class GibbsSums:
    """Sums of Gibbs weights over the orders of every subset of items, as balls.

    Parameters
    ----------
    payments
        For each item v an array over bit masks R: the whole number h(R, v) that v pays for standing right after R.
    rate
        A rational; an order weighs ``exp(-rate * (sum of what its items pay))``.
    """

    def __init__(self, payments: list[Any], rate: Fraction) -> None:
        self._payments = payments
        self._rate = rate
        largest = max((max(abs(int(p.min())), abs(int(p.max()))) for p in payments), default=0)
        self._extra = int(largest * rate).bit_length() + 64  # bits that a large exponent costs
        self._build(192)

    def _build(self, precision: int) -> None:
        self._precision = precision
        m = len(self._payments)
        with flint.ctx.workprec(precision + self._extra):
            self._sums = [flint.arb(1)]
            for subset in range(1, 1 << m):
                total = flint.arb(0)
                for v in range(m):
                    if subset >> v & 1:
                        total += self._term(subset, v)
                self._sums.append(total)

    def _term(self, subset: int, v: int) -> Ball:
        rest = subset & ~(1 << v)
        return self._sums[rest] * (ball(-self._rate * int(self._payments[v][rest]))).exp()

    def cumulated_share(self, subset: int, last: list[int]) -> BallAt:
        """The probability that the last item of ``subset`` is one of ``last``."""

        def share(precision: int) -> Ball:
            if precision > self._precision:  # a comparison stayed open: with probability about 2**-128
                self._build(2 * precision)
            with flint.ctx.workprec(self._precision + self._extra):
                total = flint.arb(0)
                for v in last:
                    total += self._term(subset, v)
                return total / self._sums[subset]

        return share

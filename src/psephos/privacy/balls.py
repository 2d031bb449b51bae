"""Interval arithmetic in Arb balls: all but random matrices and norms of noise, which have files of their own.

A ball is a midpoint and a radius that certainly contain the value, so a comparison that comes out true *is*
true; an undecided one is false both ways. The working precision is only a matter of speed: a ball that is too
wide leaves a question open and its caller asks again with more bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    "dyadic_below",
    "gaussian_delta_at_most",
    "gaussian_delta_ball",
    "gaussian_quantile",
    "geometric_tail",
    "hypergeometric_mass",
    "hypergeometric_ratio",
    "log_mixed_exp",
    "lower",
    "operator_norm_upper",
    "order_nuclear_norm_upper",
    "power_tail",
    "rational_above",
    "rounded_gaussian_tail",
    "scaled_floor",
    "sqrt_upper",
    "upper",
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


def power_tail(ratio: Fraction, j: int) -> BallAt:
    """P(|X| >= j) for X with ``P(k) ~ ratio^|k|``, ratio a rational below 1, j >= 1."""

    def tail(_precision: int) -> Ball:
        return 2 * ball(ratio) ** j / (1 + ball(ratio))

    return tail


def scaled_floor(value: BallAt, width: int) -> int:
    """A whole number within 5/4 of ``2**width`` times a number in [0, 1], a fixed function of the two.

    >>> scaled_floor(lambda _precision: ball(Fraction(1, 3)), 4)
    5
    """
    precision = width + 64
    while True:
        with flint.ctx.workprec(precision):
            scaled = value(precision) * flint.arb(2) ** width
            if scaled.rad() < 0.25:
                mantissa, exponent = scaled.mid().man_exp()
                power = int(exponent)
                return int(mantissa) << power if power >= 0 else int(mantissa) >> -power
        precision *= 2


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


def rational_above(value: Ball, significant: int = 53) -> Fraction:
    """A rational >= every number in a finite ball, with at most ``significant`` significant bits of its end.

    >>> float(rational_above(flint.arb(1) / 3) - Fraction(1, 3)) < 1e-14
    True
    """
    with flint.ctx.workprec(significant + 16):  # whatever the caller's is
        mantissa, exponent = value.upper().man_exp()
    top, power = int(mantissa), int(exponent)
    extra = max(top.bit_length() - significant, 0)
    return Fraction(-(-top >> extra)) * Fraction(2) ** (power + extra)


def upper(value: Callable[[], Ball]) -> Fraction:
    """A rational >= a number that balls can be made of, and within a relative 2**-51 of it.

    ``value`` computes the ball at the working precision. A number that is 0 gives up at the highest precision.

    >>> float(upper(lambda: ball(2).log()))
    0.6931471805599454
    """
    return rational_above(_accurate(value))


def lower(value: Callable[[], Ball]) -> Fraction:
    """A rational <= a number that balls can be made of, and within a relative 2**-51 of it.

    >>> float(lower(lambda: ball(2).log()))
    0.6931471805599453
    """
    found = _accurate(value)
    with flint.ctx.workprec(128):
        below = -found
    return -rational_above(below)


def _accurate(value: Callable[[], Ball]) -> Ball:
    precision = 128
    while True:
        with flint.ctx.workprec(precision):
            found = value()
        if found.is_finite() and found.rel_accuracy_bits() > 60:
            return found
        if precision > MAX_PRECISION:
            raise ArithmeticError("this number is not known to any precision")
        precision *= 2


def dyadic_below(value: Callable[[], Ball]) -> Fraction:
    """A power of two that is <= a number > 0 that balls can be made of, and more than a quarter of it.

    It is the largest one unless the number is, or nearly is, a power of two itself.

    >>> dyadic_below(lambda: ball(Fraction(3, 10)))
    Fraction(1, 4)
    """
    bound = lower(value)
    power = bound.numerator.bit_length() - bound.denominator.bit_length()
    return Fraction(2) ** (power if Fraction(2) ** power <= bound else power - 1)


def log_mixed_exp(epsilon: Fraction, share: Fraction) -> Ball:
    """``ln(1 + share (e^epsilon - 1))``: a loss after, or (share > 1) before, sampling."""
    return (ball(share) * ball(epsilon).expm1()).log1p()


def gaussian_quantile(tail: Fraction) -> Ball:
    """The x that a standard normal variable exceeds with probability ``tail`` < 1/2."""
    return flint.arb(2).sqrt() * ball(2 * tail).erfcinv()


def order_nuclear_norm_upper(m: int) -> Fraction:
    """A rational >= N_m, the nuclear norm of the margins of one strict ballot of m items, tight to about 2**-52.

    The margins ``S[u, v] = 1`` for u before v, else -1, have the eigenvalues ``i cot((2 k - 1) pi / (2 m))``,
    k = 1, ..., m: S is C + C^2 + ... + C^(m-1) for the cyclic shift C with C^m = -1, whose eigenvalues are the
    m-th roots w of -1, and a sum of powers of w is (1 + w) / (1 - w).

    >>> [round(float(order_nuclear_norm_upper(m)), 3) for m in (1, 2, 3, 4)]
    [0.0, 2.0, 3.464, 5.657]
    """
    with flint.ctx.workprec(128):
        total = flint.arb(0)
        for k in range(1, m // 2 + 1):  # the middle one of an odd m is cot(pi / 2) = 0
            total += 2 * flint.arb.cot_pi(ball(Fraction(2 * k - 1, 2 * m)))
        return rational_above(total)


def operator_norm_upper(table: Sequence[Sequence[Fraction | int]], *, squarings: int = 12) -> Fraction:
    """A rational >= the operator norm (largest singular value) of a real matrix, whatever doubles would say of it.

    For B = A^T A and ``k = 2**squarings`` the trace of B^k is the sum of the singular values to the power 2 k, so its
    root of that order bounds the largest from above, within a factor of ``rank ** (1 / (2 k))``: .1 % for 1,000 rows.

    >>> round(float(operator_norm_upper([[0, 3], [-3, 0]])), 3)
    3.0
    """
    rows = [[Fraction(x) for x in row] for row in table]
    largest = max((abs(x) for row in rows for x in row), default=Fraction(0))
    if not largest:
        return Fraction(0)
    n = len(rows)
    with flint.ctx.workprec(128):
        a = flint.arb_mat(n, len(rows[0]), [ball(x / largest) for row in rows for x in row])
        power = a.transpose() * a
        log_scale = flint.arb(0)  # ln of what the powers were divided by
        for _ in range(squarings):
            size = power.trace()
            power = power * (1 / size)
            log_scale = 2 * (log_scale + size.log())
            power = power * power
        log_trace = power.trace().log() + log_scale
        return rational_above((log_trace / 2 ** (squarings + 1)).exp() * ball(largest))


def _log_choose(n: int, k: int) -> Ball:
    return (flint.arb(n + 1)).lgamma() - (flint.arb(k + 1)).lgamma() - (flint.arb(n - k + 1)).lgamma()


def _log_hypergeometric(x: int, kind: int, people: int, drawn: int) -> Ball:
    """ln of ``C(kind, x) C(people - kind, drawn - x)``."""
    return _log_choose(kind, x) + _log_choose(people - kind, drawn - x)


def hypergeometric_mass(x: int, kind: int, people: int, drawn: int) -> Ball:
    """The probability that x of ``drawn`` people, drawn without replacement, are among ``kind`` of ``people``.

    Logarithms of factorials are large numbers that cancel, which costs precision.
    """
    with flint.ctx.workprec(flint.ctx.prec + 2 * people.bit_length()):
        return (_log_hypergeometric(x, kind, people, drawn) - _log_choose(people, drawn)).exp()


def hypergeometric_ratio(x: int, mode: int, kind: int, people: int, drawn: int, *, factor: int) -> BallAt:
    """``factor`` times the ratio of the probabilities of x and of the mode."""

    def ratio(precision: int) -> Ball:
        with flint.ctx.workprec(precision + 2 * people.bit_length()):
            first = _log_hypergeometric(x, kind, people, drawn)
            return factor * (first - _log_hypergeometric(mode, kind, people, drawn)).exp()

    return ratio


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

"""Exact draws on the standard library: what a randomised answer needs, and no more.

All probabilities are ratios of integers of any size; no double is used (Canonne, Kamath and Steinke 2020, algorithm 1;
laws: docs/proofs/local.md, theorem 1). Neither :func:`flip` nor :func:`shift` sees the answer, so which bits are drawn
says nothing about it. Whoever measures how long a draw took *and* sees the report learns about the flip, hence about
the answer: the guarantee is for reports, not for an observer with a stopwatch (theorem 3).
"""

from __future__ import annotations

from fractions import Fraction

from psephos.local.bits import BitSource

__all__ = ["bernoulli_exp", "flip", "shift", "uniform_below"]


def uniform_below(n: int, bits: BitSource) -> int:
    """A uniform integer in ``[0, n)``, n >= 1."""
    width = (n - 1).bit_length()
    while True:
        value = bits.bits(width)
        if value < n:
            return value


def _bernoulli(numerator: int, denominator: int, bits: BitSource) -> bool:
    """True with probability ``numerator / denominator``, in [0, 1]."""
    return uniform_below(denominator, bits) < numerator


def _exp_of_fraction(numerator: int, denominator: int, bits: BitSource) -> bool:
    """True with probability ``exp(-numerator / denominator)``, the ratio in [0, 1]."""
    k = 2 if numerator == denominator else 1  # Bernoulli(1) needs no bits
    while _bernoulli(numerator, denominator * k, bits):
        k += 1
    return k % 2 == 1


def bernoulli_exp(x: Fraction, bits: BitSource) -> bool:
    """True with probability ``exp(-x)``, x a rational >= 0."""
    numerator, denominator = x.numerator, x.denominator
    while numerator > denominator:
        if not _exp_of_fraction(1, 1, bits):
            return False
        numerator -= denominator
    return _exp_of_fraction(numerator, denominator, bits)


def flip(epsilon: Fraction, bits: BitSource) -> bool:
    """True with probability ``1 / (1 + exp(epsilon))``, epsilon a rational >= 0."""
    while True:
        if bits.bits(1):
            return False
        if bernoulli_exp(epsilon, bits):
            return True


def shift(epsilon: Fraction, bits: BitSource) -> int:
    """0 with probability ``exp(epsilon) / (exp(epsilon) + 2)``, else 1 or 2 alike; epsilon a rational >= 0."""
    while True:
        candidate = uniform_below(3, bits)
        if not candidate or bernoulli_exp(epsilon, bits):
            return candidate

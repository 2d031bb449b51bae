"""docs/proofs/ledger.md: budgets chosen after answers, by exact enumeration of all choices."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import integrate, stats

# exp(epsilon) is a whole number here, so that all is exact: (exp(epsilon), delta) of each mechanism on the menu.
MENU = ((Fraction(2), Fraction(0)), (Fraction(3), Fraction(1, 10)), (Fraction(2), Fraction(1, 5)))


def worst(ratio, delta):
    """The worst (epsilon, delta) mechanism: probabilities of its four answers under x and under x'."""
    p = (delta, (1 - delta) * ratio / (1 + ratio), (1 - delta) / (1 + ratio), Fraction(0))
    return tuple(zip(p, reversed(p), strict=True))


def divergence(total, budget_left, steps):
    """The largest P - exp(E) Q over all ways to choose requests after answers, and all events: by dynamic programming.

    ``budget_left(ratio, delta, history)`` is the filter: what it returns is the history after the debit, or ``None``.
    """

    @cache
    def value(p, q, history, left):
        """What the best event gains from here, if (p, q) is the probability of all answers so far."""
        best = max(p - total * q, Fraction(0))
        if left:
            for ratio, delta in MENU:
                after = budget_left(ratio, delta, history)
                if after is not None:
                    gain = sum(value(p * a, q * b, after, left - 1) for a, b in worst(ratio, delta))
                    best = max(best, gain)
        return best

    return value(Fraction(1), Fraction(1), (Fraction(1), Fraction(0)), steps)


def filtered(total, most):
    def budget_left(ratio, delta, history):
        after = (history[0] * ratio, history[1] + delta)
        return after if after[0] <= total and after[1] <= most else None

    return budget_left


@pytest.mark.parametrize(
    ("total", "most"),
    [
        (Fraction(4), Fraction(0)),
        (Fraction(6), Fraction(1, 10)),
        (Fraction(12), Fraction(3, 10)),
        (Fraction(8), Fraction(2, 5)),
    ],
)
def test_all_answers_of_a_filter_are_within_its_total_however_requests_are_chosen(total, most):
    assert divergence(total, filtered(total, most), steps=4) <= most


def test_without_the_filter_the_total_is_exceeded():
    assert divergence(Fraction(6), lambda *_: (Fraction(1), Fraction(0)), steps=3) > Fraction(1, 10)


def normal(s, c):
    """G_s(c) of the proof."""
    if s == 0:
        return max(0.0, 1 - c)
    at = -s / 2 + np.log(c) / s
    return float(stats.norm.cdf(-at) - c * stats.norm.cdf(-at - s))


@pytest.mark.parametrize("c", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("turn", [-0.7, 0.0, 1.1])
def test_squares_of_mu_that_follow_an_answer_add_up(c, turn):
    """After a first answer above ``turn`` all the rest is spent, below it a part: no more than all of it at once."""
    mu, first = 1.3, 0.8
    rest = np.sqrt(mu**2 - first**2)

    def gain(a):
        p, q = stats.norm.pdf(a - first), stats.norm.pdf(a)
        return p * normal(rest if a > turn else 0.4 * rest, c * q / p)

    found, _ = integrate.quad(gain, -12, 12, points=[turn], limit=400)
    assert found <= normal(mu, c) + 1e-9
    both, _ = integrate.quad(
        lambda a: stats.norm.pdf(a - first) * normal(rest, c * np.exp(first**2 / 2 - a * first)), -12, 12
    )
    assert both == pytest.approx(normal(mu, c), abs=1e-8)


def test_the_worst_mechanism_is_as_private_as_it_says_and_no_more():
    for ratio, delta in MENU:
        table = worst(ratio, delta)
        assert sum(p for p, _ in table) == sum(q for _, q in table) == 1
        for events in itertools.product((0, 1), repeat=4):
            assert sum(e * (p - ratio * q) for e, (p, q) in zip(events, table, strict=True)) <= delta
        assert sum(max(p - ratio * q, 0) for p, q in table) == delta

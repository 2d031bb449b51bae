"""Drawing people without replacement from multiplicities: exact laws."""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from psephos.errors import ParameterError
from psephos.privacy import InsecureBits, sampling
from psephos.privacy.balls import dyadic_below, hypergeometric_mass
from psephos.privacy.samplers import uniform_below
from psephos.privacy.sampling import drawn_labels, drawn_numbers, hypergeometric


def masses(kind, people, drawn):
    return {
        x: Fraction(comb(kind, x) * comb(people - kind, drawn - x), comb(people, drawn))
        for x in range(max(0, drawn - people + kind), min(kind, drawn) + 1)
    }


CASES = [(k, n, r) for n in range(1, 13) for k in range(n + 1) for r in range(n + 1)] + [(40, 300, 70), (500, 1000, 40)]


def test_the_envelope_of_the_rejection():
    """For the c that is used: P(mode) is the largest, c P(mode) >= 1, and the blocks bound all other probabilities."""
    for kind, people, drawn in CASES:
        law = masses(kind, people, drawn)
        if len(law) == 1:
            continue
        mode = (drawn + 1) * (kind + 1) // (people + 2)
        assert law[mode] == max(law.values())
        c = int(1 / dyadic_below(lambda n=(mode, kind, people, drawn): hypergeometric_mass(*n)))
        assert 1 <= c * law[mode] < 4
        for x, mass in law.items():
            block = max(0, -(-abs(x - mode) // c) - 1)  # |j| <= c is the centre, then c (1 + i) < |j| <= c (2 + i)
            assert mass <= law[mode] * Fraction(1, 2 ** max(block - 1, 0) if block else 1)
            assert float(mass) <= float(law[mode]) * np.exp(1 - abs(x - mode) / c) * (1 + 1e-12)


def test_the_law_of_one_number_from_all_its_proposals(monkeypatch):
    """Proposals by their exact probabilities, each kept with the ratio it is compared with."""
    kind, people, drawn = 4, 11, 5
    law = masses(kind, people, drawn)
    mode = (drawn + 1) * (kind + 1) // (people + 2)
    c = int(1 / dyadic_below(lambda: hypergeometric_mass(mode, kind, people, drawn)))
    seen = {}

    class Chance:
        def __init__(self, _bits):
            pass

        def below(self, threshold):
            self.last = float(threshold(100))
            seen["kept"] = self.last
            return True

    monkeypatch.setattr(sampling, "LazyUniform", Chance)
    weight = Counter()
    for place in range(6 * c + 1):
        sides = [(0, None)] if place <= 2 * c else [(i, w) for i in range(12) for w in range(2 * c)]
        for i, within in sides:
            answers = iter([place] if within is None else [place, within])
            coins = iter([1] * i + [0])
            monkeypatch.setattr(sampling, "uniform_below", lambda _n, _bits, answers=answers: next(answers))

            class Coins:
                def bits(self, _n, coins=coins):
                    return next(coins)

            try:
                x = hypergeometric(kind, people, drawn, Coins())
            except StopIteration:
                continue  # outside the support: rejected, and the next proposal would be drawn
            share = 1.0 if within is None else 2.0 ** -(i + 1) / (2 * c)
            weight[x] += share * seen["kept"]
    total = sum(weight.values())
    for x, mass in law.items():
        assert weight[x] / total == pytest.approx(float(mass), rel=1e-9)


@pytest.mark.parametrize(("kind", "people", "drawn"), [(30, 100, 25), (3, 7, 4), (990, 1000, 500)])
def test_hypergeometric_draws(kind, people, drawn):
    bits = InsecureBits(seed=8)
    values = [hypergeometric(kind, people, drawn, bits) for _ in range(4000)]
    for wrong, rejected in ((0, False), (1, True)):
        law = masses(kind - wrong, people, drawn)
        expected = np.array([float(law.get(x, 0)) for x in range(max(values) + 1)]) * len(values)
        observed = np.bincount(values, minlength=len(expected))
        keep = expected >= 5
        table = [np.r_[t[keep], t[~keep].sum() + small] for t, small in ((observed, 0), (expected, 1e-9))]
        table[1] *= table[0].sum() / table[1].sum()
        if kind == 3 and wrong:
            assert max(values) == 3  # what two of a kind could not give
            continue
        assert bool(stats.chisquare(*table).pvalue < 1e-6) is rejected


def test_hypergeometric_at_any_size():
    bits = InsecureBits(seed=9)
    n, k, r = 10**30, 10**29, 10**20
    sd = (r * 0.1 * 0.9) ** 0.5
    z = np.array([float(hypergeometric(k, n, r, bits) - r // 10) / sd for _ in range(400)])
    assert stats.kstest(z, "norm").pvalue > 1e-6
    assert stats.kstest(z * 2, "norm").pvalue < 1e-6
    assert hypergeometric(0, n, r, bits) == 0
    assert hypergeometric(n, n, r, bits) == r
    assert hypergeometric(k, n, n, bits) == k
    with pytest.raises(ParameterError, match="drawn"):
        hypergeometric(1, 2, 3, bits)


def test_labels_are_those_of_a_shuffled_population():
    """Every sequence of uniform numbers, against every order of the people written out."""
    counts, n = [2, 0, 3, 1], 4
    people = [kind for kind, count in enumerate(counts) for _ in range(count)]
    by_hand = Counter(tuple(order[:n]) for order in itertools.permutations(people))
    found = Counter()
    for choices in itertools.product(*(range(len(people) - i) for i in range(n))):
        answers = iter(choices)
        found[tuple(drawn_labels(counts, n, lambda _left, answers=answers: next(answers)))] += 1
    scale = sum(by_hand.values()) // sum(found.values())
    assert {key: value * scale for key, value in found.items()} == dict(by_hand)


def test_labels_ask_for_numbers_below_those_left():
    asked = []

    def below(n):
        asked.append(n)
        return n - 1

    assert drawn_labels([10**30, 2], 4, below) == [1, 1, 0, 0]
    assert asked == [10**30 + 2, 10**30 + 1, 10**30, 10**30 - 1]
    assert drawn_labels([], 0, below) == []


def test_numbers_of_each_kind():
    bits = InsecureBits(seed=10)
    counts, n = [5, 3, 1, 4], 6
    rows = Counter(drawn_numbers(counts, n, bits) for _ in range(2000))
    exact = {
        row: np.prod([comb(c, x) for c, x in zip(counts, row, strict=True)]) / comb(13, n)
        for row in itertools.product(*(range(c + 1) for c in counts))
        if sum(row) == n
    }
    assert set(rows) <= set(exact)
    expected = np.array(list(exact.values())) * 2000
    observed = np.array([rows[row] for row in exact])
    keep = expected >= 5
    assert (
        stats.chisquare(
            np.r_[observed[keep], observed[~keep].sum()], np.r_[expected[keep], expected[~keep].sum()]
        ).pvalue
        > 1e-6
    )


def test_labels_and_numbers_agree():
    """Two ways to the same law: mean and variance of the number of a kind."""
    bits = InsecureBits(seed=11)
    counts, n = [600, 300, 100], 50
    one = [drawn_labels(counts, n, lambda k: uniform_below(k, bits)).count(1) for _ in range(1000)]
    other = [drawn_numbers(counts, n, bits)[1] for _ in range(1000)]
    assert abs(np.mean(one) - np.mean(other)) < 5 * np.sqrt(2 * 50 * 0.21 / 1000)
    assert stats.ks_2samp(one, other).pvalue > 1e-6

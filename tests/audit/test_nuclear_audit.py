"""Audit of the nuclear mechanism: what its outputs prove stays below the claim, and half the noise is caught.

Worst-case neighbours: one person votes an order or its reverse, so the margins move by 2 N_m in the nuclear norm. The
event, fixed in advance, is that a table lies nearer to the second input by at least three quarters of what is possible,
which is where the likelihood ratio is largest. The bound is a 95 % confidence bound, the seeds are fixed.
"""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from psephos import Profile, pairwise_margins
from psephos.central.nuclear import nuclear_margins, nuclear_rate
from psephos.privacy import InsecureBits
from psephos.privacy.audit import epsilon_lower_bound
from psephos.privacy.spectral import nuclear_noise

FEW = (3, 4000)  # items, tables under each input
MANY = (4, 10_000)


def neighbours(m, kind):
    """The exact margins of the two inputs."""
    items = "abcd"[:m]
    first, second = {
        "strict": (tuple(items), tuple(reversed(items))),
        "tied": (tuple(items), (tuple(items),)),
        "truncated": (tuple(items), ()),
    }[kind]
    others = {tuple(items): 20, ("b", "c", "a"): 15}
    tables = []
    for ballot in (first, second):
        people = dict(others)
        people[ballot] = people.get(ballot, 0) + 1
        tables.append(pairwise_margins(Profile.from_rankings(people, items=list(items))))
    return tables


@cache
def noise(m, trials, rate):
    """Noise for both inputs, at the level of the sampler."""
    bits = InsecureBits(seed=43)
    drawn = [nuclear_noise(m, rate, bits) for _ in range(2 * trials)]
    return np.array(drawn).reshape(2, trials, m, m)


def nuclear_norm(tables):
    return np.linalg.svd(tables.astype(float), compute_uv=False).sum(axis=-1)


def measured_epsilon(m, trials, rate, kind):
    first, second = neighbours(m, kind)
    threshold = 0.75 * nuclear_norm(second - first)
    counts = []
    for table, drawn in zip((first, second), noise(m, trials, rate), strict=True):
        output = table + drawn
        nearer = nuclear_norm(output - first) - nuclear_norm(output - second)
        counts.append(int((nearer >= threshold).sum()))
    return epsilon_lower_bound(false_alarms=counts[0], hits=counts[1], trials=trials)


def test_the_mechanism_releases_the_table_plus_the_sampler():
    """What the audits below draw is what the mechanism releases, bit for bit."""
    table = neighbours(4, "strict")[0]
    rate = nuclear_rate(4, epsilon=Fraction(1))
    noisy = nuclear_margins(table, rate, bits=InsecureBits(seed=9))[0]
    assert (noisy == table + nuclear_noise(4, rate, InsecureBits(seed=9))).all()


def stays_below(size, epsilon, kind):
    rate = nuclear_rate(size[0], epsilon=Fraction(epsilon))
    assert measured_epsilon(*size, rate, kind) <= float(Fraction(epsilon))


def half_is_caught(size, epsilon):
    rate = nuclear_rate(size[0], epsilon=Fraction(epsilon))
    assert measured_epsilon(*size, 2 * rate, "strict") > float(Fraction(epsilon))


@pytest.mark.parametrize("kind", ["strict", "tied", "truncated"])
@pytest.mark.parametrize("epsilon", ["1", pytest.param("0.5", marks=pytest.mark.slow)])
def test_stays_below_its_claim(epsilon, kind):
    stays_below(FEW, epsilon, kind)


@pytest.mark.parametrize("epsilon", ["1", pytest.param("0.5", marks=pytest.mark.slow)])
def test_half_of_the_noise_is_caught(epsilon):
    half_is_caught(FEW, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["strict", "tied", "truncated"])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_four_items_stay_below_their_claim(epsilon, kind):
    stays_below(MANY, epsilon, kind)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_half_of_the_noise_of_four_items_is_caught(epsilon):
    half_is_caught(MANY, epsilon)

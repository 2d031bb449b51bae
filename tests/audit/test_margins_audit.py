"""Audits of the margin mechanisms: what their outputs prove stays below the claim, and half the noise is caught.

Worst-case neighbours: one person votes an order or its reverse, so every margin moves by 2. Outputs are projected on
that direction, the threshold is fixed in advance at the middle, and 10^4 outputs under each input are counted.
The bound is a 95 % confidence bound, the seeds are fixed.
"""

from fractions import Fraction

import numpy as np
import pytest

from psephos import Profile, pairwise_margins
from psephos.central import gaussian, laplace, margin_sensitivity
from psephos.pairwise import NoiseLaw
from psephos.privacy import InsecureBits
from psephos.privacy.audit import epsilon_lower_bound, mu_lower_bound
from psephos.privacy.gaussian import epsilon_upper
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array

DELTA = Fraction(1, 10**6)
TRIALS = 10_000
M = 4
ORDER = ("a", "b", "c", "d")
OTHERS = {ORDER: 20, ("b", "d", "a", "c"): 15}
NEIGHBOURS = {
    "strict": (("a", "b", "c", "d"), ("d", "c", "b", "a")),
    "tied": (("a", "b", "c", "d"), (("a", "b", "c", "d"),)),
    "truncated": (("a", "b", "c", "d"), ()),
}


def tables(kind):
    """The exact margins of the two neighbours, as vectors over u < v."""
    rows = []
    for ballot in NEIGHBOURS[kind]:
        people = dict(OTHERS)
        people[ballot] = people.get(ballot, 0) + 1
        rows.append(pairwise_margins(Profile.from_rankings(people, items=list("abcd")))[np.triu_indices(M, 1)])
    return rows


def outputs(law, vector, bits):
    """TRIALS noisy copies of one table, at the level of the sampler."""
    sampler = rounded_gaussian_array if law.family == "rounded-gaussian" else discrete_laplace_array
    return vector + sampler(law.scale, TRIALS * len(vector), bits).reshape(TRIALS, -1)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_mechanisms_release_the_table_plus_the_sampler(name):
    """What the audits below draw is what a mechanism releases, bit for bit."""
    sensitivity = margin_sensitivity(M, "person")
    upper = np.triu_indices(M, 1)
    vector = tables("strict")[0]
    table = np.zeros((M, M), dtype=np.int64)
    table[upper] = vector
    table -= table.T
    if name == "gaussian":
        law = gaussian.gaussian_law(sensitivity, epsilon=Fraction(1), delta=DELTA)
        release, sampler = gaussian.gaussian_margins, rounded_gaussian_array
    else:
        law = laplace.laplace_law(sensitivity, epsilon=Fraction(1))
        release, sampler = laplace.laplace_margins, discrete_laplace_array
    noisy = release(table, law, sensitivity=sensitivity, bits=InsecureBits(seed=9))[0]
    assert (noisy[upper] == vector + sampler(law.scale, 6, InsecureBits(seed=9))).all()
    assert (noisy == -noisy.T).all()


def measured_mu(law, kind):
    first, second = tables(kind)
    bits = InsecureBits(seed=41)
    direction = (second - first).astype(float)
    middle = direction @ (first + second) / 2
    says_second = [outputs(law, table, bits) @ direction > middle for table in (first, second)]
    return mu_lower_bound(false_alarms=int(says_second[0].sum()), hits=int(says_second[1].sum()), trials=TRIALS)


def measured_epsilon(law, kind):
    first, second = tables(kind)
    bits = InsecureBits(seed=42)

    def all_beyond(draws):
        # the event of largest likelihood ratio: every margin lies at or beyond the second table's side
        sign = np.sign(second - first)
        return ((draws - second) * sign >= 0)[:, sign != 0].all(axis=1)

    counts = [int(all_beyond(outputs(law, table, bits)).sum()) for table in (first, second)]
    return epsilon_lower_bound(false_alarms=counts[0], hits=counts[1], trials=TRIALS)


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_gaussian_stays_below_its_claim(epsilon, kind):
    law = gaussian.gaussian_law(margin_sensitivity(M, "person"), epsilon=Fraction(epsilon), delta=DELTA)
    measured = float(epsilon_upper(measured_mu(law, kind), DELTA))
    assert measured <= float(Fraction(epsilon))


# What half the noise is expected to show: .83, 1.88, 4.04, within the spread of two counts of 10^4.
@pytest.mark.parametrize(("epsilon", "expected"), [("0.5", 0.83), ("1", 1.88), ("2", 4.04)])
def test_half_of_the_gaussian_noise_is_caught(epsilon, expected):
    law = gaussian.gaussian_law(margin_sensitivity(M, "person"), epsilon=Fraction(epsilon), delta=DELTA)
    planted = NoiseLaw(family=law.family, scale=law.scale / 2)
    measured = float(epsilon_upper(measured_mu(planted, "strict"), DELTA))
    assert measured > float(Fraction(epsilon))
    assert measured == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_laplace_stays_below_its_claim(epsilon, kind):
    law = laplace.laplace_law(margin_sensitivity(M, "person"), epsilon=Fraction(epsilon))
    assert measured_epsilon(law, kind) <= float(Fraction(epsilon))


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_half_of_the_laplace_noise_is_caught(epsilon):
    law = laplace.laplace_law(margin_sensitivity(M, "person"), epsilon=Fraction(epsilon))
    planted = NoiseLaw(family=law.family, scale=law.scale / 2)
    assert measured_epsilon(planted, "strict") > float(Fraction(epsilon))

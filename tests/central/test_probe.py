"""``probe``: a look, a decision on what it showed, and a second release."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from psephos import Profile, pairwise_margins, private_consensus
from psephos.central import plan_consensus, release_from_json, release_to_json
from psephos.central import probe as probe_module
from psephos.central.probe import ProbeScales, probe_margins
from psephos.errors import ParameterError
from psephos.pairwise import NoiseLaw
from psephos.privacy import InsecureBits, epsilon_of
from psephos.privacy.audit import mu_lower_bound
from psephos.privacy.gaussian import epsilon_upper

DELTA = Fraction(1, 10**6)
CYCLE = Profile.from_rankings(
    {tuple("abcd"): 20_000, tuple("bcda"): 20_000, tuple("cdab"): 20_000, tuple("dabc"): 20_000}, items=list("abcd")
)
ORDER = Profile.from_rankings({("a", tuple("bcd")): 50_000, (tuple("bcd"), "a"): 30_000}, items=list("abcd"))


def released(table, plan, bits, people=0):
    return probe_margins(table, plan.scales, margins=plan.margins, rows=plan.rows, people=people, bits=bits)


def plan_for(m, epsilon="1"):
    return plan_consensus(m, epsilon=epsilon, delta=DELTA, mechanism="probe")


def measured_margins(event, plan):
    return event.parts[1].sensitivity_squared == plan.margins.l2_squared


@pytest.mark.parametrize(("profile", "margins"), [(CYCLE, True), (ORDER, False)])
def test_it_measures_margins_where_there_are_cycles_and_scores_where_there_are_none(profile, margins):
    table, plan = pairwise_margins(profile), plan_for(4)
    right = 0
    for seed in range(20):
        _, law, event = released(table, plan, InsecureBits(seed=seed), people=profile.people)
        right += measured_margins(event, plan) is margins
        assert (law.gradient < law.cyclic) is not measured_margins(event, plan)
    assert right == 20 if margins else right >= 17  # noise alone looks like cycles once in twenty looks or less


def test_what_a_model_of_scores_explains_is_no_cycle():
    """A Bradley-Terry table is far from linear in the row sums: with N known it is no reason to measure margins."""
    theta = np.array([2.0, 0.5, 0.0, -0.5, -2.0])
    table = np.rint(20_000 * np.tanh((theta[:, None] - theta[None, :]) / 2)).astype(np.int64)
    plan = plan_for(5)
    chosen = {
        people: sum(measured_margins(released(table, plan, InsecureBits(seed=s), people)[2], plan) for s in range(20))
        for people in (0, 20_000)
    }
    assert chosen[0] == 20
    assert chosen[20_000] <= 3


def test_the_decision_sees_the_look_alone(monkeypatch):
    """Two tables that give the same look get the same kind of second release, from the same seed."""
    plan = plan_for(4)
    look = np.array([[0, 900, -900, 5], [-900, 0, 900, 5], [900, -900, 0, 5], [-5, -5, -5, 0]])
    monkeypatch.setattr(probe_module, "add_noise", lambda _table, draw: draw(6) is not None and look)
    kinds = set()
    for profile in (CYCLE, ORDER):
        _, _, event = released(pairwise_margins(profile), plan, InsecureBits(seed=1), profile.people)
        kinds.add(measured_margins(event, plan))
    assert len(kinds) == 1


@pytest.mark.parametrize("m", [3, 4, 10, 59])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_both_branches_account_for_the_target(m, epsilon):
    """Within 0.1 % of the target, never above."""
    plan = plan_for(m, epsilon)
    cyclic = np.zeros((m, m), dtype=np.int64)
    cyclic[0, 1] = cyclic[1, 2] = cyclic[2, 0] = 10**9
    kinds = []
    for table in (np.zeros((m, m), dtype=np.int64), cyclic - cyclic.T):
        event = released(table, plan, InsecureBits(seed=1))[2]
        assert Fraction(epsilon) * Fraction(999, 1000) <= epsilon_of(event, DELTA) <= Fraction(epsilon)
        kinds.append(measured_margins(event, plan))
    assert kinds == [False, True]


def test_without_noise_the_table_is_what_it_should_be(monkeypatch):
    monkeypatch.setattr(probe_module, "rounded_gaussian_array", lambda _s, n, _b: np.zeros(n, dtype=np.int64))
    for profile in (CYCLE, ORDER):
        table = pairwise_margins(profile)
        assert released(table, plan_for(4), InsecureBits(seed=1))[0].tolist() == table.tolist()


def test_golden_probe():
    """Look and row sums recomputed from the words of the bits by the textbook quantile."""
    plan = plan_for(3)
    table = pairwise_margins(Profile.from_rankings({("a", "b", "c"): 40}, items=list("abc")))
    noisy, law, event = released(table, plan, InsecureBits(seed=5), people=40)
    assert not measured_margins(event, plan)
    words = InsecureBits(seed=5)
    draws = []
    for count, scale in ((3, plan.scales.look), (3, plan.scales.row_sum)):
        raw = words.words(count).tolist()
        sizes = [math.floor(float(scale) * stats.norm.isf((w >> 1) / 2**64) + 0.5) for w in raw]
        draws.append([-x if w & 1 else x for w, x in zip(raw, sizes, strict=True)])
    look = np.array(table, dtype=object)
    for (u, v), z in zip(((0, 1), (0, 2), (1, 2)), draws[0], strict=True):
        look[u, v] += z
        look[v, u] -= z
    sums = [int(r) + z for r, z in zip(table.sum(axis=1), draws[1], strict=True)]
    v = NoiseLaw(family="rounded-gaussian", scale=plan.scales.look).exact_variance
    w = NoiseLaw(family="rounded-gaussian", scale=plan.scales.row_sum).exact_variance / 3
    own = look.sum(axis=1)
    for i in range(3):
        for j in range(3):
            if i != j:
                mixed = (w * (own[i] - own[j]) + v * (sums[i] - sums[j])) / (v + w) / 3
                assert float(noisy[i, j]) == pytest.approx(
                    float(look[i, j] - Fraction(own[i] - own[j], 3) + mixed), abs=1e-3
                )
    assert law.cyclic == v
    assert float(law.gradient) == pytest.approx(float(v * w / (v + w)), rel=1e-6)


def by_part(tables):
    m = tables.shape[1]
    upper = np.triu_indices(m, 1)
    means = tables.mean(axis=2)
    gradient = (means[:, :, None] - means[:, None, :])[:, upper[0], upper[1]]
    return (gradient**2).sum(1).mean() / (m - 1), ((tables[:, upper[0], upper[1]] - gradient) ** 2).sum(1).mean() / (
        (m - 1) * (m - 2) / 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("profile", [CYCLE, ORDER])
def test_noise_has_the_stated_variances(profile):
    """2,000 tables, each part within 4.9 standard errors of its law; 20 % off would be seen."""
    n, plan, exact = 2000, plan_for(4), pairwise_margins(profile)
    bits = InsecureBits(seed=3)
    draws = [released(exact, plan, bits, profile.people) for _ in range(n)]
    law = draws[-1][1]
    tables = np.array([table - exact for table, other, _ in draws if other == law]).astype(float)
    assert len(tables) > 0.9 * n
    gradient, cyclic = by_part(tables)
    error = 4.9 * math.sqrt(2 / (len(tables) * 3))
    assert abs(gradient / float(law.gradient) - 1) < error < 0.1
    # A look that noise did not make suspicious has less noise in its cycles than the law says.
    assert abs(cyclic / float(law.cyclic) - 1) < error or (profile is ORDER and 0.8 * law.cyclic < cyclic < law.cyclic)
    if profile is CYCLE:  # nothing is lost by having looked
        gaussian = plan_consensus(4, epsilon=1, delta=DELTA, mechanism="gaussian").law
        assert law.variance == pytest.approx(gaussian.variance, rel=1e-3)


TRIALS = 5000


@pytest.mark.slow
@pytest.mark.parametrize("profile", [CYCLE, ORDER])
def test_audit(profile):
    """Likelihood-ratio test of two neighbours on the released table, its direction from the law that came with it."""
    first = pairwise_margins(profile)
    one, other = (
        pairwise_margins(Profile.from_rankings({tuple(order): 1}, items=list("abcd"))) for order in ("abcd", "dcba")
    )
    second = first - one + other
    change = (second - first).astype(float)
    means = change.mean(axis=1)
    gradient = means[:, None] - means[None, :]

    def measured(scales):
        bits = InsecureBits(seed=11)
        counts = []
        for exact in (first, second):
            above = 0
            for _ in range(TRIALS):
                table, law, _ = probe_margins(
                    exact, scales, margins=plan.margins, rows=plan.rows, people=profile.people, bits=bits
                )
                direction = gradient / float(law.gradient) + (change - gradient) / float(law.cyclic)
                above += (direction * (2 * table - first - second).astype(float)).sum() > 0
            counts.append(int(above))
        return float(epsilon_upper(mu_lower_bound(false_alarms=counts[0], hits=counts[1], trials=TRIALS), DELTA))

    plan = plan_for(4, "2")
    assert 1 < measured(plan.scales) <= 2
    half = ProbeScales(look=plan.scales.look / 2, margin=plan.scales.margin / 2, row_sum=plan.scales.row_sum / 2)
    assert measured(half) > 2


def test_a_release_round_trips_and_says_what_it_did():
    for profile in (CYCLE, ORDER):
        release = private_consensus(profile, epsilon=1, delta=DELTA, mechanism="probe")
        text = release_to_json(release)
        again = release_from_json(text)
        assert release_to_json(again) == text
        assert again.value.estimate.noise == release.value.estimate.noise
        assert again.event == release.event
    assert private_consensus(ORDER, epsilon=1, delta=DELTA, mechanism="probe").value.tiers[0] == ("a",)


@pytest.mark.parametrize("epsilon", ["1e5", "1e6", "1e9"])
@pytest.mark.parametrize("level", [None, 0.9])
@pytest.mark.filterwarnings("ignore:epsilon")
def test_noise_that_rounding_takes_away(epsilon, level):
    """Within the legal range of epsilon the noise can be 0 after rounding: no division by its variance."""
    for profile in (CYCLE, ORDER):
        value = private_consensus(profile, epsilon=epsilon, delta=DELTA, mechanism="probe", level=level).value
        assert value.estimate.margins.shape == (4, 4)


def test_refusals():
    with pytest.raises(ParameterError, match="delta > 0"):
        plan_consensus(4, epsilon=1, mechanism="probe")
    with pytest.raises(ParameterError, match="3 items"):
        plan_consensus(2, epsilon=1, delta=DELTA, mechanism="probe")


def test_astronomical_profiles():
    profile = Profile.from_rankings({tuple("cab"): 10**30}, items=list("abc"))
    value = private_consensus(profile, epsilon=1, delta="1e-40", mechanism="probe").value
    assert value.tiers == (("c",), ("a",), ("b",))

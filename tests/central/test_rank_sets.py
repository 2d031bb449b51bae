"""Rank intervals of a consensus: one charged release, honest coverage, and refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from psephos import Account, Ballot, Comparisons, Ledger, Profile, private_consensus, read_preflib
from psephos.central import plan_consensus, release_from_json, release_to_json
from psephos.central.second_moment import PURE_SHARE, free_moment_scales, free_moment_scales_pure, score_moment
from psephos.errors import BudgetError, ParameterError
from psephos.privacy import ComposedLaplaceEvent, InsecureBits, epsilon_of

DELTA = Fraction(1, 10**6)
WITH_TABLE = [("laplace", 0), ("gaussian", DELTA), ("shaped", DELTA), ("probe", DELTA), ("borda", 0), ("borda", DELTA)]
PROFILE = Profile.from_rankings(
    {("a", "b", "c", "d"): 4000, ("b", "c", "a"): 2500, ("c", ("a", "b")): 1000, ("d",): 500}, items=list("abcd")
)
MIXED = Profile.from_rankings({tuple("abcd"): 5000, tuple("bcda"): 5000, tuple("cdab"): 5000}, items=list("abcd"))


@pytest.mark.parametrize("unranked", ["last", "missing"])
@pytest.mark.parametrize(("mechanism", "delta"), WITH_TABLE)
@pytest.mark.parametrize("profile", [PROFILE, MIXED])
def test_one_charged_release(profile, mechanism, delta, unranked):
    """What ran, the second moment with it, accounts for the target within 0.1 % and never above."""
    release = private_consensus(
        profile, epsilon=1, delta=delta, mechanism=mechanism, unranked=unranked, level=0.9, bits=InsecureBits(seed=1)
    )
    assert Fraction(999, 1000) <= epsilon_of(release.event, release.guarantee.delta) <= 1
    text = release_to_json(release)
    again = release_from_json(text)
    assert release_to_json(again) == text
    assert (again.value.ranks, again.value.moment, again.event) == (
        release.value.ranks, release.value.moment, release.event
    )  # fmt: skip
    assert release.value.ranks.level == 0.9
    paid = mechanism == "borda"  # four items: Laplace noise on scores is the least at delta > 0 too
    assert isinstance(release.event, ComposedLaplaceEvent) is paid


def test_the_moment_has_the_noise_at_which_it_is_free():
    gaussian = plan_consensus(4, epsilon=1, delta=DELTA, mechanism="gaussian").scales
    value = private_consensus(PROFILE, epsilon=1, delta=DELTA, mechanism="gaussian", level=0.9).value
    assert value.moment.scales == free_moment_scales(4, margins=[gaussian.scale])
    laplace = plan_consensus(4, epsilon=1, mechanism="laplace").scales
    value = private_consensus(PROFILE, epsilon=1, mechanism="laplace", level=0.9).value
    assert value.moment.scales == free_moment_scales_pure(4, margin=laplace.scale)
    probe = plan_consensus(4, epsilon=1, delta=DELTA, mechanism="probe").scales
    kinds = set()
    for profile in (PROFILE, MIXED):
        release = private_consensus(profile, epsilon=1, delta=DELTA, mechanism="probe", level=0.9)
        margins = release.event.parts[1].sensitivity_squared == 24
        kinds.add(margins)
        assert release.value.moment.scales == (
            free_moment_scales(4, margins=[probe.look, probe.margin])
            if margins
            else free_moment_scales(4, margins=[probe.look], row_sums=[probe.row_sum])
        )
    assert kinds == {True, False} or kinds == {True}


def test_scores_with_laplace_noise_pay_for_the_moment():
    plain = plan_consensus(4, epsilon=1, mechanism="borda")
    plan = plan_consensus(4, epsilon=1, mechanism="borda", intervals=True)
    assert plan.scales.scale == plain.scales.scale / (1 - PURE_SHARE)
    assert plan.moment is not None
    # Where normal noise has less than that, it is used, and the moment is free.
    normal = plan_consensus(10, epsilon=1, delta=DELTA, mechanism="borda", intervals=True)
    assert (normal.scales.family, normal.moment, normal.delta) == ("rounded-gaussian", None, DELTA)


def test_what_is_released_is_the_noisy_moment(monkeypatch):
    from psephos.central import second_moment

    monkeypatch.setattr(second_moment, "rounded_gaussian_array", lambda _s, n, _b: np.zeros(n, dtype=np.int64))
    value = private_consensus(PROFILE, epsilon=1, delta=DELTA, mechanism="gaussian", level=0.9).value
    assert np.array(value.moment.rows).tolist() == score_moment(PROFILE).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "delta"), [("auto", 0), ("auto", DELTA), ("borda", 0)])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_coverage_of_the_front_door(mechanism, delta, epsilon):
    """300 populations of Plackett-Luce ballots on five items, two of them equal."""
    rng = np.random.default_rng(6)
    utilities = np.array([1.0, 0.4, 0.4, 0.0, -1.0])
    orders = np.argsort(-(utilities + rng.gumbel(size=(400_000, 5))), axis=1)
    places = np.argsort(orders, axis=1)
    means = (4 - 2 * places).mean(axis=0)
    means[1] = means[2] = (means[1] + means[2]) / 2
    best = 1 + (means[None, :] > means[:, None]).sum(axis=1)
    worst = 5 - (means[None, :] < means[:, None]).sum(axis=1)
    held = 0
    for k in range(300):
        sample = orders[rng.integers(0, len(orders), 500)]
        profile = Profile.from_ballots(list("abcde"), [Ballot.strict(order) for order in sample.tolist()])
        ranks = private_consensus(
            profile, epsilon=epsilon, delta=delta, mechanism=mechanism, level=0.95, bits=InsecureBits(seed=k)
        ).value.ranks
        held += bool((np.array(ranks.low) <= best).all() and (worst <= np.array(ranks.high)).all())
    assert held / 300 >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / 300)


def test_clear_ranks_are_sure_and_equal_items_are_not():
    sushi = read_preflib("tests/data/sushi.soc")
    ranks = private_consensus(sushi, epsilon=4, delta=DELTA, level=0.95).value.ranks
    assert ranks.low[sushi.items.index("fatty tuna")] == ranks.high[sushi.items.index("fatty tuna")] == 1
    equal = Profile.from_rankings({(("a", "b", "c"),): 10_000}, items=list("abc"))
    ranks = private_consensus(equal, epsilon=1, mechanism="laplace", level=0.95, bits=InsecureBits(seed=2)).value.ranks
    assert (ranks.low, ranks.high) == ((1, 1, 1), (3, 3, 3))


@pytest.mark.parametrize(("mechanism", "delta"), WITH_TABLE)
def test_extremes(mechanism, delta):
    if mechanism not in ("shaped", "probe"):
        one = Profile.from_ballots(["a"], {Ballot.strict([0]): 5})
        value = private_consensus(one, epsilon=1, delta=delta, mechanism=mechanism, level=0.95).value
        assert (value.ranks.low, value.ranks.high) == ((1,), (1,))
    alone = Profile.from_rankings({tuple("cab"): 1}, items=list("abc"))
    value = private_consensus(alone, epsilon="0.001", delta=delta, mechanism=mechanism, level=0.95).value
    assert set(value.ranks.low) | set(value.ranks.high) <= {1, 2, 3}
    many = Profile.from_rankings({tuple("cab"): 10**30}, items=list("abc"))
    small = "1e-40" if delta else 0
    value = private_consensus(many, epsilon=1, delta=small, mechanism=mechanism, level=0.95).value
    assert (value.ranks.low, value.ranks.high) == ((2, 3, 1), (2, 3, 1))


@pytest.mark.parametrize("level", [0, 1, -1, 2, float("nan"), "0.9"])
def test_a_level_out_of_range_is_refused(level):
    with pytest.raises(ParameterError, match="level"):
        private_consensus(PROFILE, epsilon=1, level=level)


@pytest.mark.parametrize("mechanism", ["exponential", "footrule", "kwiksort"])
def test_mechanisms_without_a_table_are_refused(mechanism):
    with pytest.raises(ParameterError, match="releases no table"):
        private_consensus(PROFILE, epsilon=1, mechanism=mechanism, level=0.9)


def test_comparisons_are_refused():
    duels = Comparisons.from_columns(["a", "b"], [0], [1], [1], person=[0])
    for unit in ("person", "comparison"):
        with pytest.raises(ParameterError, match="scores of comparisons have their own"):
            private_consensus(duels, epsilon=1, unit=unit, level=0.9)


def test_the_ledger_tells_a_request_with_intervals_from_one_without(tmp_path):
    paid = {"account": Account(Ledger(tmp_path / "l.db"), "poll", budget=("1", 0), request_id="a")}
    first = private_consensus(PROFILE, epsilon="0.5", level=0.9, **paid)
    assert private_consensus(PROFILE, epsilon="0.5", level=0.9, **paid).value.ranks == first.value.ranks
    for level in (None, 0.95):
        with pytest.raises(BudgetError, match="used for another request"):
            private_consensus(PROFILE, epsilon="0.5", level=level, **paid)


def test_intervals_without_a_release_of_the_moment_do_not_exist():
    value = private_consensus(PROFILE, epsilon=1).value
    assert value.ranks is None
    assert value.moment is None

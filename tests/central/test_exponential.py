"""The exponential mechanism: its law is the enumerated Gibbs law, its loss over all neighbours is at most epsilon."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from enumeration import all_ballots
from psephos import Ballot, Comparisons, Profile, pairwise_margins, private_consensus
from psephos.central import plan_consensus, release_from_json, release_to_json
from psephos.central.exponential import exponential_order
from psephos.errors import ParameterError
from psephos.privacy import InsecureBits, epsilon_of


def gibbs(margins, beta):
    """Enumerated: probability of every order, from its cost sum over u before v of W[v, u] / 2."""
    m = len(margins)
    orders = list(itertools.permutations(range(m)))
    costs = np.array([sum(int(margins[v][u]) / 2 for u, v in itertools.combinations(o, 2)) for o in orders])
    weights = np.exp(-beta * (costs - costs.min()))
    return orders, weights / weights.sum()


def margins_of(m, seed, size):
    upper = np.triu(np.random.default_rng(seed).integers(-size, size + 1, (m, m)), 1)
    return upper - upper.T


def accepts(margins, epsilon, cost_range, draws, beta):
    """Drawn orders against the enumerated law of ``beta``: chi-square, and the mean cost; false alarm 1e-6 in all."""
    bits = InsecureBits(seed=5)
    counts = Counter(
        exponential_order(margins, epsilon=epsilon, cost_range=cost_range, bits=bits)[0] for _ in range(draws)
    )
    orders, law = gibbs(margins, beta)
    expected = law * draws
    keep = expected >= 5
    observed = np.array([counts[o] for o in orders])
    cells = np.append(observed[keep], observed[~keep].sum()), np.append(expected[keep], expected[~keep].sum())
    if not cells[1][-1]:
        cells = cells[0][:-1], cells[1][:-1]
    statistic = ((cells[0] - cells[1]) ** 2 / cells[1]).sum()
    cost = np.array([sum(int(margins[v][u]) / 2 for u, v in itertools.combinations(o, 2)) for o in orders])
    mean = (law * cost).sum()
    z = ((observed * cost).sum() / draws - mean) / math.sqrt((law * (cost - mean) ** 2).sum() / draws)
    return stats.chi2.sf(statistic, len(cells[0]) - 1) > 5e-7 and abs(z) < stats.norm.isf(2.5e-7)


@pytest.mark.slow
def test_law_of_four_items():
    margins = margins_of(4, 1, 9)
    epsilon, cost_range = Fraction(3), Fraction(12)
    assert accepts(margins, epsilon, cost_range, 4000, 3 / 12)
    assert not accepts(margins, epsilon * Fraction(13, 10), cost_range, 4000, 3 / 12)


@pytest.mark.slow
@pytest.mark.parametrize("m", [4, 5])
def test_law_rejects_a_rate_off_by_three_percent(m):
    margins = margins_of(m, 2, 9)
    cost_range = Fraction(m * (m - 1))
    beta = Fraction(7, 20)  # some ten orders carry most of the mass
    assert accepts(margins, beta * cost_range, cost_range, 40_000, 0.35)
    assert not accepts(margins, beta * cost_range * Fraction(103, 100), cost_range, 40_000, 0.35)


def test_costs_in_the_law_are_kemeny_costs():
    """With a sure preference the consensus is drawn; with none all orders are alike."""
    sure = margins_of(5, 3, 10**6)
    from psephos import solve

    drawn = {
        exponential_order(sure, epsilon=Fraction(1), cost_range=Fraction(20), bits=InsecureBits(seed=k))[0]
        for k in range(20)
    }
    assert drawn == {solve(sure).order}
    flat = np.zeros((3, 3), dtype=np.int64)
    bits = InsecureBits(seed=1)
    counts = Counter(
        exponential_order(flat, epsilon=Fraction(1), cost_range=Fraction(6), bits=bits)[0] for _ in range(1200)
    )
    assert stats.chisquare([counts[o] for o in itertools.permutations(range(3))]).pvalue > 1e-6


@pytest.mark.parametrize("m", [3, 4])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_loss_over_all_neighbours(m, unranked):
    """Exact probabilities: no replacement of one ballot changes any order's by more than e^epsilon, and with 60 others
    at the reverse it nearly does; at twice the rate it would."""
    epsilon = 1.0
    beta = epsilon / (m * (m - 1))
    ballots = all_ballots(m)
    reverse = Ballot.strict(range(m - 1, -1, -1))
    names = list("abcd"[:m])

    def loss(rate):
        laws = []
        for ballot in ballots:
            people = {reverse: 60}
            people[ballot] = people.get(ballot, 0) + 1
            table = pairwise_margins(Profile.from_ballots(names, people), unranked=unranked)
            laws.append(np.log(gibbs(table, rate)[1]))
        stacked = np.array(laws)
        return (stacked.max(axis=0) - stacked.min(axis=0)).max()

    assert 0.9 * epsilon < loss(beta) <= epsilon * (1 + 1e-12)
    assert loss(2 * beta) > epsilon


def test_huge_margins_and_rates_stay_exact():
    margins = margins_of(4, 4, 3).astype(object) * 10**40
    order, event = exponential_order(
        margins, epsilon=Fraction(1, 10**40), cost_range=Fraction(12), bits=InsecureBits(seed=2)
    )
    assert sorted(order) == [0, 1, 2, 3]
    assert epsilon_of(event, 0) == Fraction(1, 10**40)
    assert exponential_order(margins, epsilon=Fraction(10**9), cost_range=Fraction(12), bits=InsecureBits(seed=2))[0]


def test_open_comparisons_get_more_precision():
    """A comparison that stays open asks for finer balls, and all sums are made again."""
    from psephos.privacy import balls

    sums = balls.GibbsSums([np.zeros(4, dtype=np.int64)] * 2, Fraction(1))
    share = sums.cumulated_share(3, [0])
    assert share(1000).contains(0.5)
    assert sums._precision == 2000
    assert share(100).contains(0.5)


@pytest.mark.parametrize("kind", ["ballots", "comparisons", "persons"])
def test_release(kind):
    if kind == "ballots":
        data, unit = (
            Profile.from_rankings({("a", "b", "c"): 50_000, ("b", ("a", "c")): 9}, items=["c", "b", "a"]),
            "person",
        )
    else:
        data = Comparisons.from_columns(
            ["c", "b", "a"], [2, 1] * 5000, [1, 0] * 5000, [1, 1] * 5000, person=np.arange(10_000)
        )
        unit = "person" if kind == "persons" else "comparison"
    release = private_consensus(data, epsilon=2, delta="1e-6", mechanism="exponential", unit=unit)
    value = release.value
    assert value.tiers == (("a",), ("b",), ("c",))
    assert (value.status, value.estimate, value.cost_released, value.unique) == ("drawn", None, None, None)
    assert (release.guarantee.epsilon, release.guarantee.delta) == (2, 0)
    assert epsilon_of(release.event, 0) == 2
    text = release_to_json(release)
    assert release_to_json(release_from_json(text)) == text


def test_golden_ranking():
    """Fixed bits, drawn again by enumeration: the last place first, each by the cumulated shares of the items left."""
    profile = Profile.from_rankings({("a", "b", "c"): 3, ("c", "b"): 2}, items=["a", "b", "c"])
    drawn = private_consensus(profile, epsilon=1, mechanism="exponential", bits=InsecureBits(seed=9)).value.tiers
    orders, law = gibbs(pairwise_margins(profile), 1 / 6)
    bits = InsecureBits(seed=9)
    left, tail = [0, 1, 2], ()
    while left:
        shares = [sum(p for o, p in zip(orders, law, strict=True) if o[len(left) - 1 :] == (v, *tail)) for v in left]
        u = bits.bits(64) / 2**64 * sum(shares) if len(left) > 1 else 0.0
        chosen = left[int(np.searchsorted(np.cumsum(shares), u))]
        tail = (chosen, *tail)
        left.remove(chosen)
    assert drawn == tuple((profile.items[i],) for i in tail)


def test_refusals_and_plan():
    names = [f"i{k}" for k in range(21)]
    with pytest.raises(ParameterError, match="at most 20 items"):
        private_consensus(Profile.from_ballots(names, [Ballot()]), epsilon=1, mechanism="exponential")
    with pytest.raises(ParameterError, match="at most 20 items"):
        exponential_order(np.zeros((21, 21)), epsilon=Fraction(1), cost_range=Fraction(1), bits=InsecureBits(seed=1))
    plan = plan_consensus(5, epsilon=1, mechanism="exponential")
    assert (plan.law, plan.scales, plan.delta) == (None, None, 0)
    one = private_consensus(Profile.from_ballots(["a"], [Ballot()]), epsilon=1, mechanism="exponential")
    assert one.value.ranking() == ((1, ("a",)),)


@pytest.mark.slow
def test_sixteen_items():
    margins = margins_of(16, 6, 10_000)
    order, event = exponential_order(margins, epsilon=Fraction(1), cost_range=Fraction(240), bits=InsecureBits(seed=3))
    assert sorted(order) == list(range(16))
    assert math.isclose(float(event.rate), 1 / 240)

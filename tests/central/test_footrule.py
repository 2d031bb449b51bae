"""``footrule``: place counts, their sensitivity, the layout of what is released, the assignment, accounting, audits."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enumeration import all_ballots
from psephos import Ballot, Profile, pairwise_margins, read_preflib, solve
from psephos.central import footrule as module
from psephos.central.footrule import footrule_law, footrule_order, footrule_sensitivity, place_counts
from psephos.errors import ParameterError
from psephos.kemeny import kemeny_cost
from psephos.pairwise import NoiseLaw
from psephos.privacy import InsecureBits, epsilon_of
from psephos.privacy.audit import epsilon_lower_bound, mu_lower_bound
from psephos.privacy.gaussian import epsilon_upper, mu_lower
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array

DELTA = Fraction(1, 10**6)
LAPLACE, NORMAL = "discrete-laplace", "rounded-gaussian"
PROFILE = Profile.from_rankings(
    {("a", "b", "c", "d"): 40, ("b", "c", "a"): 25, ("c", ("a", "b")): 10, ("d",): 5}, items=["a", "b", "c", "d"]
)


def names(m):
    return [f"i{k}" for k in range(m)]


def scores(ballot, m, unranked):
    """The definition: the row sums of one person's margins."""
    return pairwise_margins(Profile.from_ballots(names(m), [ballot]), unranked=unranked).sum(axis=1).tolist()


def cost(profile, order, unranked):
    """The definition: half the distances between scores and the scores of ranks, over people."""
    m = profile.m
    total = Fraction(0)
    for ballot, count in profile.ballots():
        s = scores(ballot, m, unranked)
        total += count * Fraction(sum(abs(s[u] - (m - 1 - 2 * q)) for q, u in enumerate(order)), 2)
    return total


def place_counts_plain(profile, unranked):
    m = profile.m
    counts = [[0] * m for _ in range(m)]
    for ballot, count in profile.ballots():
        for u, s in enumerate(scores(ballot, m, unranked)):
            nearest = min(abs(s - (m - 1 - 2 * q)) for q in range(m))
            ranks = [q for q in range(m) if abs(s - (m - 1 - 2 * q)) == nearest]
            for q in ranks:
                counts[u][q] += count * 2 // len(ranks)
    return counts


@st.composite
def profiles(draw, most_items=5, counts=(1, 2, 3, 10**9, 10**30)):
    m = draw(st.integers(1, most_items))
    ballot = st.permutations(range(m)).flatmap(
        lambda p: st.integers(0, m).flatmap(lambda k: st.sampled_from(list(cuts(tuple(p[:k])))))
    )
    people = draw(st.dictionaries(ballot.map(Ballot), st.sampled_from(counts), min_size=1, max_size=6))
    return Profile.from_ballots(names(m), people)


def cuts(order):
    """All ways to tie neighbours of an order."""
    for ends in itertools.product([False, True], repeat=max(len(order) - 1, 0)):
        bounds = [0, *(i + 1 for i, end in enumerate(ends) if end), len(order)]
        yield tuple(order[a:b] for a, b in itertools.pairwise(bounds) if a < b)


@pytest.fixture
def small_trees(monkeypatch):
    """Trees of two levels from three items on, so that they can be enumerated."""
    monkeypatch.setattr(module, "_TREE", 3)


@pytest.fixture
def noiseless(monkeypatch):
    for name in ("rounded_gaussian_array", "discrete_laplace_array"):
        monkeypatch.setattr(module, name, lambda _scale, n, _bits: np.zeros(n, dtype=np.int64))


# ------------------------------------------------------------------ counts


@settings(max_examples=60, deadline=None)
@given(profiles(), st.sampled_from(["last", "missing"]))
def test_place_counts_equal_their_definition(profile, unranked):
    counts = place_counts(profile.places, profile.counts, unranked=unranked)
    assert counts.tolist() == place_counts_plain(profile, unranked)
    assert all(sum(row) == 2 * profile.people for row in counts.tolist())
    distances = np.abs(np.subtract.outer(range(profile.m), range(profile.m))).astype(object)
    order = list(range(profile.m))
    costs = counts.astype(object) @ distances
    assert Fraction(int(sum(costs[u, q] for q, u in enumerate(order))), 2) == cost(profile, order, unranked)


def test_blocks_of_ballots_join(monkeypatch):
    places = np.array([np.random.default_rng(k).permutation(5) + 1 for k in range(50)], dtype=np.uint8).T
    whole = place_counts(places, [1] * 50, unranked="last")
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert place_counts(places, [1] * 50, unranked="last").tolist() == whole.tolist()
    assert whole.sum() == 500
    assert [[int((places[u] == q + 1).sum()) * 2 for q in range(5)] for u in range(5)] == whole.tolist()


# ------------------------------------------------------------------ sensitivity


def moves(m, family, unranked, kind="truncated"):
    """By how much each pair of ballots moves the released numbers: (l1, squared l2, largest)."""
    tree = module._tree(m, family)
    rows = []
    for ballot in all_ballots(m, kind):
        profile = Profile.from_ballots(names(m), {ballot: 1})
        rows.append(module._sums(place_counts(profile.places, profile.counts, unranked=unranked), tree).ravel())
    difference = np.abs(np.array(rows)[:, None, :] - np.array(rows)[None, :, :])
    return difference.sum(-1).max(), (difference**2).sum(-1).max(), difference.max()


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("kind", ["strict", "tied", "truncated"])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_sensitivity_of_prefix_counts_by_brute_force(m, kind, unranked):
    bound = footrule_sensitivity(m, NORMAL)
    assert bound == footrule_sensitivity(m, LAPLACE)
    largest = moves(m, NORMAL, unranked, kind)
    assert largest == (bound.l1, bound.l2_squared, 2) == (2 * (m * m // 2), 4 * (m * m // 2), 2)


@pytest.mark.usefixtures("small_trees")
@pytest.mark.parametrize("m", [3, 4])
@pytest.mark.parametrize("kind", ["strict", "tied", "truncated"])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_sensitivity_of_trees_by_brute_force(m, kind, unranked):
    bound = footrule_sensitivity(m, LAPLACE)
    assert moves(m, LAPLACE, unranked, kind) == (bound.l1, bound.l2_squared, 2) == (8 * m, 16 * m, 2)


@pytest.mark.parametrize("m", [21, 50, 191, 192, 500])
def test_the_ballot_moved_in_a_circle_attains_the_sensitivity_of_a_tree(m):
    tree = module._tree(m, LAPLACE)
    places = np.stack([np.arange(m), (np.arange(m) + m // 2) % m]) + 1
    first, second = (module._sums(place_counts(p[:, None], [1], unranked="last"), tree) for p in places)
    bound = footrule_sensitivity(m, LAPLACE)
    levels = 2 if m < 192 else 3
    assert len(tree) == levels
    assert np.abs(second - first).sum() == bound.l1 == 4 * levels * m
    assert ((second - first) ** 2).sum() == bound.l2_squared == 8 * levels * m


@pytest.mark.parametrize("m", [21, 37, 192, 400, 1000])
def test_levels_of_a_tree_are_nested_blocks(m):
    tree = module._tree(m, LAPLACE)
    for coarse, fine in itertools.pairwise(tree):
        assert set(coarse.tolist()) <= set(fine.tolist())
    for starts in tree:
        widths = np.diff([*starts, m])
        assert starts[0] == 0
        assert 1 <= widths.min() <= widths.max() <= widths.min() + 1
    assert np.diff([*tree[0], m]).max() <= m // 2


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["last", "missing"]), st.sampled_from([LAPLACE, NORMAL]))
def test_no_two_ballots_move_the_numbers_further(seed, unranked, family):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 40))
    tree = module._tree(m, family)
    places = Profile.from_places(names(m), rng.integers(0, rng.integers(1, m + 1) + 1, (m, 2)), base=1).places
    if places.shape[1] < 2:
        return
    first, second = (
        module._sums(place_counts(places[:, [k]], [1], unranked=unranked), tree).astype(np.int64) for k in range(2)
    )
    bound = footrule_sensitivity(m, family)
    assert np.abs(second - first).sum() <= bound.l1
    assert ((second - first) ** 2).sum() <= bound.l2_squared


# ------------------------------------------------------------------ what is released, and what is made of it


def split(m, levels, b):
    """A tree of any shape; no levels mean prefix counts."""
    return [np.arange(b**j) * m // b**j for j in range(1, levels)] + [np.arange(m)] if levels else []


def test_the_layout_has_the_least_noise_or_nearly_so():
    """Mean variance of the costs for one epsilon or one mu, against prefix counts and trees of many shapes."""
    for m in (2, 3, 10, 20, 21, 40, 191, 192):
        shapes = [(0, 1), (1, m), *((k, b) for k in (2, 3, 4) for b in range(3, 9) if m / 4 < b**k < m)]
        laplace, normal = {}, {}
        for levels, b in shapes:
            spread = module._spread(split(m, levels, b), m)
            l1 = 4 * levels * m if levels else 2 * (m * m // 2)
            laplace[levels, b], normal[levels, b] = 2 * spread * l1**2, spread * 2 * l1
        chosen = module._spread(module._tree(m, LAPLACE), m) * 2 * float(footrule_sensitivity(m, LAPLACE).l1) ** 2
        assert chosen <= 1.08 * min(laplace.values())
        assert min(normal, key=lambda shape: normal[shape] * (1 - 1e-9 * (shape == (0, 1)))) == (0, 1)
        assert module._tree(m, NORMAL) == []


def test_spread_is_the_variance_of_the_costs():
    """4,000 draws of normal noise on 25 items: within 5 standard errors; prefix counts have (m^2 - 1)/(6m)."""
    rng = np.random.default_rng(1)
    m, n = 25, 4000
    tree = module._tree(m, LAPLACE)
    noise = rng.normal(size=(n, module._sums(np.eye(m), tree).shape[1]))
    costs = noise @ module._estimator(tree, m) @ module._distances(m) / 2
    costs -= costs.mean(axis=1, keepdims=True)
    means = (costs**2).mean(axis=1)
    assert abs(means.mean() - module._spread(tree, m)) < 5 * means.std() / math.sqrt(n)
    for m in (2, 3, 10):
        assert module._spread([], m) == pytest.approx((m * m - 1) / (6 * m))


@pytest.mark.parametrize(("m", "family"), [*itertools.product([2, 3, 10, 30], [LAPLACE, NORMAL]), (192, LAPLACE)])
def test_estimates_are_least_squares_under_the_known_total(m, family):
    """Against a generic solver with the total as a measurement of enormous weight; exact on exact sums."""
    tree = module._tree(m, family)
    rng = np.random.default_rng(m)
    counts = rng.integers(0, 50, m).astype(float)
    counts -= counts.mean()
    exact = module._sums(counts[None, :], tree)[0]
    assert exact @ module._estimator(tree, m) == pytest.approx(counts, abs=1e-8)
    noisy = exact + rng.normal(size=exact.shape) * 10
    design = np.vstack([module._sums(np.eye(m), tree).T, np.full((1, m), 1e6)])
    expected = np.linalg.lstsq(design, np.append(noisy, 0.0), rcond=None)[0]
    assert noisy @ module._estimator(tree, m) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("unranked", ["last", "missing"])
@pytest.mark.parametrize(("family", "sampler"), [(LAPLACE, discrete_laplace_array), (NORMAL, rounded_gaussian_array)])
def test_what_is_released_is_the_sums_and_the_sampler(family, sampler, unranked, monkeypatch):
    """What the assignment sees, bit for bit: all that the audits below draw."""
    seen = []
    real = module._assignment
    monkeypatch.setattr(module, "_assignment", lambda noisy, *rest: seen.append(noisy) or real(noisy, *rest))
    law = NoiseLaw(family=family, scale=Fraction(9))
    footrule_order(PROFILE, law, unranked=unranked, bits=InsecureBits(seed=9))
    exact = module._sums(place_counts(PROFILE.places, PROFILE.counts, unranked=unranked), [])
    noise = sampler(Fraction(9), 12, InsecureBits(seed=9)).reshape(4, 3)
    assert seen[0].tolist() == (exact + noise).tolist()


def test_noise_that_is_shared_is_refused(monkeypatch):
    monkeypatch.setattr(module, "discrete_laplace_array", lambda _scale, _n, _bits: np.zeros(1, dtype=np.int64))
    with pytest.raises(RuntimeError, match="shape"):
        footrule_order(PROFILE, NoiseLaw(family=LAPLACE, scale=Fraction(9)), unranked="last", bits=InsecureBits(seed=1))


def check_optimal(profile, unranked):
    law = footrule_law(profile.m, epsilon=Fraction(1), delta=Fraction(0))
    order, _ = footrule_order(profile, law, unranked=unranked, bits=InsecureBits(seed=1))
    best = min(cost(profile, o, unranked) for o in itertools.permutations(range(profile.m)))
    assert cost(profile, order, unranked) == best


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("layout", ["prefix", "tree"])
def test_without_noise_the_ranking_is_the_nearest_by_enumeration(layout, monkeypatch):
    if layout == "tree":
        monkeypatch.setattr(module, "_TREE", 3)

    @settings(max_examples=20, deadline=None)
    @given(profiles(counts=(1, 2, 3, 10**9)), st.sampled_from(["last", "missing"]))
    def check(profile, unranked):
        check_optimal(profile, unranked)

    check()


@pytest.mark.usefixtures("noiseless")
@settings(max_examples=25, deadline=None)
@given(profiles(counts=(1, 2, 7)))
def test_without_noise_it_costs_at_most_twice_the_kemeny_optimum(profile):
    law = footrule_law(profile.m, epsilon=Fraction(1), delta=Fraction(0))
    order, _ = footrule_order(profile, law, unranked="last", bits=InsecureBits(seed=1))
    margins, people = pairwise_margins(profile), profile.people
    assert kemeny_cost(margins, order, people=people) <= 2 * solve(margins, people=people).cost


@pytest.mark.parametrize(
    ("m", "delta"), [*itertools.product([1, 2, 3, 21, 40], [Fraction(0), DELTA]), (192, Fraction(0))]
)
def test_an_opinion_of_many_is_found(m, delta):
    """Any number of items, and any number of people."""
    order = np.random.default_rng(m).permutation(m).tolist()
    for people in (10**9, 10**30, 10**3999):
        profile = Profile.from_ballots(names(m), {Ballot.strict(order): people, Ballot(): 5})
        law = footrule_law(m, epsilon=Fraction(1), delta=delta)
        assert footrule_order(profile, law, unranked="last", bits=InsecureBits(seed=2))[0] == tuple(order)


def test_golden_order():
    """The noisy prefix counts recomputed from the words by the textbook quantile, and all orders tried."""
    law = footrule_law(4, epsilon=Fraction(1, 8), delta=Fraction(0))
    assert law.scale == 128
    order, _ = footrule_order(PROFILE, law, unranked="last", bits=InsecureBits(seed=7))
    words = InsecureBits(seed=7).words(12).tolist()
    sizes = [math.floor(128 * (math.log(2 / (1 + math.exp(-1 / 128))) - math.log((w >> 1) / 2**63))) for w in words]
    noise = np.array([-x if w & 1 else x for w, x in zip(words, sizes, strict=True)]).reshape(4, 3)
    prefix = np.cumsum(place_counts_plain(PROFILE, "last"), axis=1)[:, :3] + noise
    # at rank q an item pays one place for each half-vote above k < q, and for each below k >= q
    costs = [[sum(g if k < q else 160 - g for k, g in enumerate(row)) for q in range(4)] for row in prefix.tolist()]
    best = min(itertools.permutations(range(4)), key=lambda o: sum(costs[u][q] for q, u in enumerate(o)))
    assert order == best == (0, 2, 1, 3)


# ------------------------------------------------------------------ the law, and what it accounts for


@pytest.mark.parametrize("m", [1, 2, 3, 10, 21, 40])
@pytest.mark.parametrize("delta", [Fraction(0), DELTA])
def test_what_ran_accounts_for_its_target(m, delta):
    profile = Profile.from_ballots(names(m), [Ballot()])
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        law = footrule_law(m, epsilon=epsilon, delta=delta)
        _, event = footrule_order(profile, law, unranked="last", bits=InsecureBits(seed=1))
        again = epsilon_of(event, 0 if law.family == LAPLACE else delta)
        assert epsilon * Fraction(999, 1000) <= again <= epsilon
        assert law.family == LAPLACE or delta


def test_the_family_of_less_noise_in_the_costs_is_taken():
    assert footrule_law(10, epsilon=Fraction(1), delta=DELTA).family == NORMAL
    assert footrule_law(2, epsilon=Fraction(1), delta=DELTA).family == LAPLACE
    # where delta is minute, Laplace noise beats normal noise only if each has its own layout
    m, delta = 40, Fraction(1, 10**300)
    prefix = footrule_sensitivity(m, NORMAL)
    assert 2 * prefix.l1**2 > prefix.l2_squared / mu_lower(1, delta) ** 2
    law = footrule_law(m, epsilon=Fraction(1), delta=delta)
    assert (law.family, law.scale) == (LAPLACE, 8 * m)


def test_unknown_meaning_of_unranked_is_refused():
    with pytest.raises(ParameterError, match="unranked"):
        footrule_order(PROFILE, NoiseLaw(family=LAPLACE, scale=Fraction(9)), unranked="no", bits=InsecureBits(seed=1))


# ------------------------------------------------------------------ audits

TRIALS = 10_000


def neighbours(m):
    """The prefix counts of 35 people, one of whom votes an order or its reverse."""
    order = list(range(m))
    rows = []
    for ballot in (order, order[::-1]):
        places = np.array([np.argsort(o) for o in (order, order[1::2] + order[::2], ballot)]).T + 1
        rows.append(module._sums(place_counts(places.astype(np.uint8), (20, 14, 1), unranked="last"), []).ravel())
    return rows


def mu_measured(scale, m):
    """Likelihood-ratio test on the released numbers, threshold fixed in the middle."""
    first, second = neighbours(m)
    direction = (second - first).astype(float)
    bits = InsecureBits(seed=21)
    counts = []
    for exact in (first, second):
        draws = exact + rounded_gaussian_array(scale, TRIALS * len(exact), bits).reshape(TRIALS, -1)
        counts.append(int((draws @ direction > direction @ (first + second) / 2).sum()))
    return mu_lower_bound(false_alarms=counts[0], hits=counts[1], trials=TRIALS)


def epsilon_measured(scale, m):
    """The event of largest likelihood ratio: every number that moves lies at or beyond the second profile's side."""
    first, second = neighbours(m)
    moved = np.flatnonzero(first != second)
    bits = InsecureBits(seed=22)
    counts = []
    for exact in (first, second):
        draws = (exact - second)[moved] + discrete_laplace_array(scale, TRIALS * len(moved), bits).reshape(TRIALS, -1)
        counts.append(int((draws * np.sign(second - first)[moved] >= 0).all(axis=1).sum()))
    return epsilon_lower_bound(false_alarms=counts[0], hits=counts[1], trials=TRIALS)


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_audit_of_normal_noise(epsilon):
    law = footrule_law(5, epsilon=Fraction(epsilon), delta=DELTA)
    assert law.family == NORMAL
    measured = float(epsilon_upper(mu_measured(law.scale, 5), DELTA))
    assert 0.7 * float(epsilon) < measured <= float(epsilon)
    assert float(epsilon_upper(mu_measured(law.scale / 2, 5), DELTA)) > 1.5 * float(epsilon)


def test_audit_of_laplace_noise():
    law = footrule_law(3, epsilon=Fraction(2), delta=Fraction(0))
    assert 1.4 < epsilon_measured(law.scale, 3) <= 2
    assert epsilon_measured(law.scale / 2, 3) > 2.4


def test_the_sushi_ranking():
    """5,000 people, ten items: with little noise the order that is nearest in places."""
    profile = read_preflib(Path(__file__).parents[1] / "data" / "sushi.soc")
    law = footrule_law(10, epsilon=Fraction(100), delta=DELTA)
    order, _ = footrule_order(profile, law, unranked="last", bits=InsecureBits(seed=3))
    margins = pairwise_margins(profile)
    excess = kemeny_cost(margins, order, people=5000) - solve(margins, people=5000).cost
    assert 0 < float(excess) / 5000 < 0.25

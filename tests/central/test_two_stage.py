"""The two-stage mechanism: branches, intervals, privacy by brute force and re-accounting, amplification, repair."""

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enumeration import all_ballots
from psephos import Account, Ballot, Ledger, Profile, pairwise_margins, private_consensus
from psephos.central import TwoStage, plan_consensus, release_from_json, release_to_json, two_stage
from psephos.central.two_stage import second_table, two_stage_order, two_stage_plan
from psephos.errors import AccuracyWarning, BudgetError, ParameterError
from psephos.kemeny.effort import Effort
from psephos.pairwise import margins_plain
from psephos.privacy import InsecureBits, epsilon_of
from psephos.privacy.audit import epsilon_lower_bound, mu_lower_bound
from psephos.privacy.balls import ball
from psephos.privacy.bounded import BoundedNoise, SymmetricNoise, shuffled
from psephos.privacy.events import BoundedTimeEvent, ConstantEvent, SampledEvent, event_from_json, event_to_json
from psephos.privacy.gaussian import epsilon_upper

DELTA = Fraction(1, 10**6)
TINY = Fraction(1, 10**40)  # of no help to a tiny epsilon
ALL_OPTIONS = [TwoStage(constants=c, bounded_time=b) for c in ("exact", "published") for b in (False, True)]
OPTIONS = pytest.mark.parametrize("options", ALL_OPTIONS, ids=lambda o: f"{o.constants}-{o.bounded_time}")
DELTAS = pytest.mark.parametrize("delta", [Fraction(0), DELTA], ids=["pure", "approximate"])


def plan_of(m, people, epsilon=1, delta=Fraction(0), **options):
    return two_stage_plan(m, people=people, epsilon=Fraction(epsilon), delta=delta, options=TwoStage(**options))


def strict_profile(m, counts, seed=1):
    rng = np.random.default_rng(seed)
    ballots = Counter()
    for count in counts:
        ballots[Ballot.strict(rng.permutation(m).tolist())] += count
    return Profile.from_ballots([f"i{u}" for u in range(m)], ballots)


# --- branches, from public facts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "people", "published", "exact", "published_normal", "normal"),
    [
        (8, 10**6, 5.12e5, 4.80e4, 8.85e4, 9.01e3),
        (12, 10**6, 1.26e6, 1.19e5, 1.39e5, 1.42e4),
        (16, 10**6, 2.37e6, 2.22e5, 1.91e5, 1.95e4),
        (16, 10**9, 3.22e6, 3.02e5, 2.25e5, 2.30e4),
        (50, 10**9, 3.58e7, 3.36e6, 7.54e5, 7.67e4),
        (100, 10**9, 1.52e8, 1.42e7, 1.55e6, 1.58e5),
    ],
)
def test_thresholds(m, people, published, exact, published_normal, normal):
    for (constants, delta), expected in {
        ("published", Fraction(0)): published,
        ("exact", Fraction(0)): exact,
        ("published", DELTA): published_normal,
        ("exact", DELTA): normal,
    }.items():
        plan = plan_of(m, people, delta=delta, constants=constants)
        assert plan.threshold == pytest.approx(expected, rel=5e-3)
        assert plan.branch == ("counts" if people >= plan.threshold else "list")


@OPTIONS
@DELTAS
@pytest.mark.parametrize("m", [2, 3, 8, 50])
def test_at_the_threshold_the_table_fails_with_probability_at_most_one_in_n(m, delta, options):
    """The tails of the integer laws themselves, in balls, at the first t that is served from counts."""
    people = 10**9
    for epsilon in (Fraction(1), Fraction(1, 3)):
        plan = two_stage_plan(m, people=people, epsilon=epsilon, delta=delta, options=TwoStage(constants="exact"))
        least = math.ceil(plan.threshold / epsilon)
        for _ in range(40):  # T depends on N a little
            plan = two_stage_plan(m, people=least, epsilon=epsilon, delta=delta, options=options)
            if plan.branch == "counts":
                break
            least = max(math.ceil(plan.threshold / epsilon), least + 1)
        assert plan.branch == "counts"
        n, pairs = plan.people, m * (m - 1) // 2
        with flint.ctx.workprec(200):
            first = plan.weak.tail(n // 16 + 1)(200)  # |Z| / (2 N) > 1/32
            strong = plan.strong.tail(n // 32 + 1)(200)  # |Z'| / N > 1/32
            worst = first if first > strong else strong
            failure = pairs * (first + worst)
            assert failure <= ball(Fraction(1, n))
            assert failure * n > flint.arb("1e-6")  # and the threshold is not far too large


def test_small_populations_and_small_budgets():
    assert plan_of(1, 10**9).branch == "fixed"
    assert plan_of(5, 10, epsilon=Fraction(1, 11)).branch == "fixed"  # t < 1
    assert plan_of(5, 10, epsilon=Fraction(1, 10)).branch == "list"  # t = 1
    few = plan_of(3, 16, epsilon=10**6)
    assert (few.branch, few.threshold, few.sample) == ("list", None, 16)
    assert plan_of(3, 17, epsilon=10**6).branch == "counts"
    for plan in (plan_of(1, 10**9), plan_of(5, 10, epsilon=Fraction(1, 11))):
        assert plan.event() == ConstantEvent()
        profile = strict_profile(plan.items, [plan.people])
        source = InsecureBits(seed=1)
        order, proved, _ = two_stage_order(
            profile, plan, unranked="last", xi=Fraction(1, 10), effort=Effort(1), bits=source
        )
        assert proved is None
        assert order == shuffled(plan.items, InsecureBits(seed=1))  # and nothing else decides it


@pytest.mark.parametrize("delta", [Fraction(0), TINY])
def test_the_sample_and_the_public_cap(delta):
    """Small epsilon and a large population: n = m^4 (T + 1)^2 of N people, refused where they are drawn one by one."""
    people, epsilon = 10**18, Fraction(1, 10**16)
    plan = plan_of(3, people, epsilon=epsilon, delta=delta)
    assert plan.branch == "list"
    assert plan.sample == 3**4 * (plan.threshold + 1) ** 2 < people
    assert f"{plan.sample:,} of {people:,} people" in plan.reason

    with pytest.raises(ParameterError, match="one by one; the most is 1,000,000, and exact time has no limit"):
        plan_of(3, people, epsilon=epsilon, delta=delta, bounded_time=True)


@pytest.mark.parametrize("wrong", [{"epsilon": Fraction(11, 10)}, {"epsilon": Fraction(1), "delta": Fraction(1, 2)}])
def test_published_constants_have_their_limits(wrong):
    with pytest.raises(ParameterError, match="the published constants assume epsilon <= 1 and delta < 1/2"):
        plan_of(4, 10**9, constants="published", **wrong)
    assert plan_of(4, 10**9, **wrong).branch == "counts"


# --- the intervals ----------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_intervals_of_the_second_table(data):
    """Noise of at most 1/32: strong pairs have w > 27/32 and A in (21/32, 33/32], balanced ones lie in between."""
    m = data.draw(st.integers(2, 4))
    people = data.draw(st.sampled_from([32, 33, 100, 10**30]))
    pairs = m * (m - 1) // 2
    plan = two_stage.TwoStagePlan(
        items=m,
        people=people,
        epsilon=Fraction(1),
        delta=Fraction(0),
        branch="counts",
        reason="",
        threshold=1,
        sample=0,
        list_epsilon=Fraction(1),
        list_delta=Fraction(0),
        strong=SymmetricNoise(family="laplace", scale=Fraction(1)),
        weak=SymmetricNoise(family="laplace", scale=Fraction(2)),
        distance=Fraction(0),
        mixture=Fraction(0),
        options=TwoStage(),
    )
    ends = [-people, people, people * 3 // 4, -people * 3 // 4]  # shares 0, 1, 7/8, 1/8
    margin = st.one_of(st.integers(-people, people), st.sampled_from(ends))
    margins = np.zeros((m, m), dtype=object)
    for u in range(m):
        for v in range(u + 1, m):
            margins[u, v] = data.draw(margin)
            margins[v, u] = -margins[u, v]
    weak = st.one_of(st.integers(-people // 16, people // 16), st.sampled_from([-(people // 16), people // 16]))
    strong = st.integers(-(people // 32), people // 32)
    asked = []

    def draw(noise, size, _plan, _bits):
        law = weak if noise == plan.weak else strong
        values = [max(-(people // 16), min(people // 16, data.draw(law))) for _ in range(size)]
        asked.append((noise.scale, size))
        return values

    original = two_stage._draw
    two_stage._draw = draw
    try:
        table = second_table(margins, plan, None)
    finally:
        two_stage._draw = original
    assert table is not None
    assert asked[0] == (2, pairs)
    assert sum(size for _, size in asked[1:]) == pairs
    strong_pairs = 0
    for u, v in itertools.combinations(range(m), 2):
        share = Fraction(people + int(margins[u, v]), 2 * people)
        if table[u, v] + table[v, u] == 1 and 0 not in (table[u, v], table[v, u]):
            assert Fraction(3, 32) <= share <= Fraction(29, 32)
            assert Fraction(1, 16) <= table[u, v] <= Fraction(15, 16)
            assert Fraction(1, 16) <= table[v, u] <= Fraction(15, 16)
        else:
            strong_pairs += 1
            above, below, won = (u, v, share) if table[u, v] else (v, u, 1 - share)
            assert won > Fraction(27, 32)
            assert table[below, above] == 0
            assert Fraction(21, 32) < table[above, below] <= Fraction(33, 32)
    assert asked[2] == (1, strong_pairs)


def test_what_is_no_bounded_tournament_is_not_ranked():
    plan = plan_of(2, 10**4)
    margins = np.array([[0, 9900], [-9900, 0]])
    for first, second, kept in ((0, 0, True), (0, -3 * 10**3, True), (0, -6 * 10**3, False), (-5000, 12000, False)):
        draws = iter([[first], [], [second]] if first == 0 else [[first], [second], []])
        original = two_stage._draw
        two_stage._draw = lambda *_rest, draws=draws: next(draws)
        try:
            assert (second_table(margins, plan, None) is not None) is kept
        finally:
            two_stage._draw = original


def test_the_cost_is_that_of_the_second_table_up_to_a_constant():
    """K = B + cost under W0 for every order: a third of all classifications of the pairs of four items."""
    rng = np.random.default_rng(3)
    people = 1000
    for pattern in list(itertools.product((-1, 0, 1), repeat=6))[::3]:
        shares = np.full((4, 4), Fraction(0), dtype=object)
        table = np.full((4, 4), Fraction(0), dtype=object)
        constant = Fraction(0)
        for (u, v), kind in zip(itertools.combinations(range(4), 2), pattern, strict=True):
            shares[u, v] = Fraction(int(rng.integers(people + 1)), people)
            shares[v, u] = 1 - shares[u, v]
            above, below = (u, v) if kind >= 0 else (v, u)
            if kind:
                table[above, below] = shares[above, below] - shares[below, above]
                constant += shares[below, above]
            else:
                table[u, v], table[v, u] = shares[u, v], shares[v, u]
        for order in itertools.permutations(range(4)):
            before = list(itertools.combinations(order, 2))
            assert sum(shares[v, u] for u, v in before) == constant + sum(table[v, u] for u, v in before)


# --- privacy of the counts --------------------------------------------------------------------------------------------


def test_sensitivity_by_brute_force():
    """All pairs of ballots of three items, all classifications: both stages lose at most epsilon, attained."""
    plan = plan_of(3, 10**9)
    tables = [
        margins_plain(np.array(ballot.places(3), dtype=np.uint8)[:, None])[np.triu_indices(3, 1)]
        for ballot in all_ballots(3)
    ]
    worst = Fraction(0)
    for one, other in itertools.product(tables, repeat=2):
        moved = [abs(int(x)) for x in one - other]
        first = sum(moved) / plan.weak.scale
        for strong in itertools.product((False, True), repeat=3):
            scales = [plan.strong.scale if s else plan.weak.scale for s in strong]
            worst = max(worst, first + sum(Fraction(x) / b for x, b in zip(moved, scales, strict=True)))
    assert worst == plan.epsilon == 1
    normal = plan_of(3, 10**9, delta=DELTA)
    squares = []
    for one, other in itertools.product(tables, repeat=2):
        moved = sum(int(x) ** 2 for x in one - other)
        squares.append(moved / normal.weak.scale**2 + moved / normal.strong.scale**2)
    mu = float(max(squares)) ** 0.5
    assert float(epsilon_upper(Fraction(mu), DELTA)) == pytest.approx(1, rel=1e-6)


def test_both_releases_of_two_items_exactly():
    """m = 2: the joint law of the two released numbers for neighbouring margins, ratio by ratio."""
    people, r = 40, Fraction(1, 2)  # weak noise P(k) ~ r^|k|, strong noise P(k) ~ (r^2)^|k|: epsilon = 2 ln 2 + 4 ln 2
    weak = {k: r ** abs(k) * (1 - r) / (1 + r) for k in range(-400, 401)}
    strong = {k: r ** (2 * abs(k)) * (1 - r**2) / (1 + r**2) for k in range(-400, 401)}

    def law(margin):
        result = {}
        for h in range(-60, 61):
            share = Fraction(people + h, 2 * people)
            noise = strong if share > Fraction(7, 8) or share < Fraction(1, 8) else weak
            for v in range(-60, 61):
                result[h, v] = weak[h - margin] * noise[v - margin]
        return result

    worst = Fraction(0)
    for margin in (-40, -31, 0, 29, 38):
        one, other = law(margin), law(margin + 2)
        worst = max(worst, *(max(one[key] / other[key], other[key] / one[key]) for key in one))
    assert worst == 2**2 * 2**4  # e^(3 D / b) with b = 1 / (2 ln 2)


@OPTIONS
@DELTAS
@pytest.mark.parametrize(
    ("m", "people", "epsilon"),
    [(4, 10**9, "1"), (4, 10**9, "1/3"), (3, 1000, "1"), (3, 1000, "1/10"), (5, 12, "1"), (3, 10**18, "1e-16")],
)
def test_reaccounting(monkeypatch, m, people, epsilon, delta, options):
    """What the event says of itself stays within the budget, and exact constants spend nearly all of it."""
    if people == 10**18:
        monkeypatch.setattr(two_stage, "_MOST_RECORDS", people)  # reckoned with, not drawn
        delta = delta and TINY
    plan = two_stage_plan(m, people=people, epsilon=Fraction(epsilon), delta=delta, options=options)
    event = plan.event()
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
    spent = epsilon_of(event, delta)
    assert spent <= Fraction(epsilon)
    if options.constants == "exact":
        assert spent > Fraction(epsilon) * Fraction(999, 1000)
    else:
        assert spent < Fraction(epsilon) * Fraction(26, 100)
    assert isinstance(event, BoundedTimeEvent) is options.bounded_time


def test_an_event_with_too_coarse_a_law_is_refused():
    fine = plan_of(4, 10**6, delta=DELTA, bounded_time=True).event()
    coarse = BoundedTimeEvent(ideal=fine.ideal, distance=fine.distance * 8, mixture=fine.mixture, least=fine.least)
    with pytest.raises(ParameterError, match="not kept well enough"):
        epsilon_of(coarse, DELTA)
    pure = plan_of(4, 10**9, bounded_time=True).event()
    coarse = BoundedTimeEvent(ideal=pure.ideal, distance=pure.distance * 8, mixture=pure.mixture, least=pure.least)
    assert epsilon_of(coarse, 0) > 1


@DELTAS
def test_audit_of_both_stages(delta):
    """One voter reverses their ballot: a likelihood test on both released tables, and on twins with half the noise."""
    people = 60_000
    plan = plan_of(3, people, delta=delta)
    assert plan.branch == "counts"
    trials = 10_000
    strong = [True, False, True]
    for factor, within in ((1, True), (Fraction(1, 2), False)):
        laws = {
            s: SymmetricNoise(family=law.family, scale=law.scale * factor)
            for s, law in ((True, plan.strong), (False, plan.weak))
        }
        counts = []
        for moved in (0, 2):
            bits = InsecureBits(seed=17)
            first = np.array(laws[False].draws(3 * trials, bits)).reshape(trials, 3) + moved
            second = np.stack([np.array(laws[s].draws(trials, bits)) + moved for s in strong], axis=1)
            if delta:
                variance = np.array([float(laws[s].scale) ** 2 for s in strong])
                score = first.sum(axis=1) / float(laws[False].scale) ** 2 + (second / variance).sum(axis=1)
                says = score > 3 / float(laws[False].scale) ** 2 + (1 / variance).sum()
            else:
                says = (first >= 2).all(axis=1) & (second >= 2).all(axis=1)
            counts.append(int(says.sum()))
        if delta:
            mu = mu_lower_bound(false_alarms=counts[0], hits=counts[1], trials=trials)
            measured = float(epsilon_upper(Fraction(mu), delta))
        else:
            measured = epsilon_lower_bound(false_alarms=counts[0], hits=counts[1], trials=trials)
        assert (measured <= 1) is within


@DELTAS
def test_the_tables_are_margins_plus_draws(delta):
    """What the audit draws is what the mechanism releases, bit for bit."""
    profile = Profile.from_ballots(
        ["a", "b", "c"],
        {Ballot.strict([0, 1, 2]): 40_000, Ballot.strict([0, 2, 1]): 30_000, Ballot.strict([1, 0, 2]): 9},
    )
    plan = plan_of(3, profile.people, delta=delta)
    margins = pairwise_margins(profile)
    table = second_table(margins, plan, InsecureBits(seed=23))
    bits = InsecureBits(seed=23)
    first = plan.weak.draws(3, bits)
    pairs = list(itertools.combinations(range(3), 2))
    shares = [Fraction(plan.people + int(margins[p]) + z, 2 * plan.people) for p, z in zip(pairs, first, strict=True)]
    strong = [not Fraction(1, 8) <= s <= Fraction(7, 8) for s in shares]
    weak, close = iter(plan.weak.draws(strong.count(False), bits)), iter(plan.strong.draws(strong.count(True), bits))
    assert 0 < sum(strong) < 3
    for (u, v), s, share in zip(pairs, strong, shares, strict=True):
        if s and share > Fraction(1, 2):
            assert table[u, v] == Fraction(int(margins[u, v]) + next(close), plan.people)
        elif s:
            assert table[v, u] == Fraction(int(margins[v, u]) + next(close), plan.people)
        else:
            assert table[u, v] == Fraction(plan.people + int(margins[u, v]) + next(weak), 2 * plan.people)


# --- amplification ----------------------------------------------------------------------------------------------------


def amplified(law, population, n):
    """The exact law of the output of ``law`` on n of the people, in random order."""
    result = Counter()
    orders = list(itertools.permutations(population, n))
    for order in orders:
        for output, mass in law(order).items():
            result[output] += mass / len(orders)
    return result


def first_record(order):
    """Randomised response on the first record alone: e^epsilon0 = 4."""
    return {kind: Fraction(4 if kind == order[0] else 1, 6) for kind in "abc"}


def counts_of_a(order):
    """A number of a's plus noise P(k) ~ 2^-|k|, folded at the ends: e^epsilon0 = 2."""
    n, result = len(order), Counter()
    for k in range(-40, 41):
        result[min(max(order.count("a") + k, 0), n)] += Fraction(1, 3) * Fraction(1, 2) ** abs(k)
    return result


@pytest.mark.parametrize(("law", "loss"), [(first_record, 4), (counts_of_a, 2)])
@pytest.mark.parametrize(("people", "n"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (3, 3)])
def test_amplification_by_exact_enumeration(law, loss, people, n):
    """All neighbouring populations of up to four people and three kinds of ballot."""
    worst = Fraction(0)
    for others in itertools.combinations_with_replacement("abc", people - 1):
        laws = [amplified(law, (*others, kind), n) for kind in "abc"]
        for one, other in itertools.permutations(laws, 2):
            worst = max(worst, *(one[output] / other[output] for output in one))
    bound = 1 + Fraction(n, people) * (loss - 1)
    slack = Fraction(1, 2**35)  # of the noise cut off at 40
    assert worst <= bound + slack
    if law is first_record and n == 1:
        assert worst == bound
    assert float(
        epsilon_of(
            SampledEvent(
                epsilon=Fraction(math.log(loss)), delta=Fraction(0), records=Fraction(n), people=Fraction(people)
            ),
            0,
        )
    ) == pytest.approx(math.log(bound))


def test_the_exact_constants_solve_for_the_budget_of_the_list():
    plan = plan_of(3, 10**18, epsilon=Fraction(1, 10**16), delta=TINY)
    assert plan.list_epsilon > 0
    back = math.log1p(plan.sample / plan.people * math.expm1(float(plan.list_epsilon)))
    assert back == pytest.approx(1e-16, rel=1e-9)
    most = min(TINY * plan.people / plan.sample, Fraction(1, 2))
    assert most * (1 - Fraction(1, 2**78)) <= plan.list_delta <= most
    published = plan_of(3, 10**18, epsilon=Fraction(1, 10**16), delta=TINY, constants="published")
    exact = Fraction(100, 16) / published.sample  # t / (16 n)
    assert exact * (1 - Fraction(1, 2**78)) <= published.list_epsilon <= exact
    assert TINY / 16 * (1 - Fraction(1, 2**78)) <= published.list_delta <= TINY / 16
    assert published.list_epsilon <= 1


# --- the list branch, run ---------------------------------------------------------------------------------------------


SMALL = Profile.from_ballots(
    ["a", "b", "c"],
    {Ballot.strict([0, 1, 2]): 600, Ballot.strict([1, 0, 2]): 300, Ballot.strict([2, 0, 1]): 100},
)


@DELTAS
@pytest.mark.parametrize("bounded", [False, True])
def test_a_sample_of_a_larger_population(monkeypatch, delta, bounded):
    """With a tiny threshold, n < N: the margins that get noise are those of n of the people that there are."""
    monkeypatch.setattr(two_stage, "_threshold", lambda *_: 2)
    people = 10**30
    profile = Profile.from_ballots(
        ["a", "b"], {Ballot.strict([0, 1]): people // 5 * 4, Ballot.strict([1, 0]): people // 5}
    )
    seen = []
    real = two_stage._noisy_margins
    monkeypatch.setattr(
        two_stage, "_noisy_margins", lambda sample, *a, **k: seen.append(sample) or real(sample, *a, **k)
    )
    plan = plan_of(2, people, epsilon=Fraction(1, people), delta=delta, bounded_time=bounded)
    assert (plan.branch, plan.sample) == ("list", 16 * 9)
    bits = InsecureBits(seed=3)
    while len(seen) < 20:  # the mixture of bounded time is all but never drawn
        two_stage_order(profile, plan, unranked="last", xi=Fraction(1), effort=Effort(5), bits=bits)
    sizes = []
    for sample in seen:
        numbers = dict(sample.ballots())
        assert sum(numbers.values()) == 144
        sizes.append(numbers[Ballot.strict([0, 1])])
    assert abs(np.mean(sizes) - 115.2) < 5 * (144 * 0.16 / len(sizes)) ** 0.5


ODD = Fraction(1, 999_999_999_999_999_999_999_999_999_989)  # no decimal, and as long as a budget may be


@pytest.mark.parametrize(
    ("m", "people", "epsilon", "delta", "options"),
    [
        (3, 10**11 + 3, "1e-10", Fraction(1, 10**25), {}),
        (2, 10**12 + 39, "5e-12", Fraction(1, 10**25), {}),
        (2, 10**14 + 3, "1.23456789012e-12", Fraction(0), {"constants": "published"}),
        (3, 10**30 + 57, "1e-27", Fraction(0), {"constants": "published"}),
        (3, 16, "1", ODD, {"bounded_time": True}),
        (3, 16, "1", ODD, {"bounded_time": True, "constants": "published"}),
    ],
)
def test_odd_budgets_of_the_list_are_paid_once_and_run(m, people, epsilon, delta, options):
    """Parts of a budget are ratios that no one would type; our own list mechanism takes them."""
    items = [f"i{u}" for u in range(m)]
    profile = Profile.from_ballots(items, {Ballot.strict(range(m)): people - 1, Ballot.strict([1, 0, *range(2, m)]): 1})
    plan = two_stage_plan(m, people=people, epsilon=Fraction(epsilon), delta=delta, options=TwoStage(**options))
    assert plan.branch == "list"
    release = private_consensus(
        profile, epsilon=epsilon, delta=delta, mechanism="two-stage", two_stage=TwoStage(**options)
    )
    assert epsilon_of(release.event, delta) <= Fraction(epsilon)
    assert release_to_json(release_from_json(release_to_json(release))) == release_to_json(release)


def test_the_loss_of_a_sample_is_within_the_budget_at_any_working_precision():
    for precision in (53, 128, 300):
        with flint.ctx.workprec(precision):
            for people in range(10**15, 10**15 + 40):
                plan = plan_of(2, people, epsilon=Fraction(1, 10**14), delta=TINY)
                assert plan.sample < people
                assert epsilon_of(plan.event(), TINY) <= plan.epsilon


@pytest.mark.parametrize(
    ("m", "people", "epsilon", "delta"),
    [
        (3, 10**4, "1e5", DELTA),
        (3, 10**4, "1e9", DELTA),
        (2, 10**3998, "1", Fraction(0)),
        (400, 10, "1", Fraction(0)),
    ],
)
def test_bounded_time_refuses_what_would_take_forever(m, people, epsilon, delta):
    with pytest.raises(ParameterError, match="right to more than 2048 bits"):
        plan_of(m, people, epsilon=Fraction(epsilon), delta=delta, bounded_time=True)


def test_long_numbers_of_an_event_survive_json():
    profile = Profile.from_ballots(["a", "b", "c"], {Ballot.strict([0, 1, 2]): 10**500, Ballot.strict([2, 1, 0]): 7})
    release = private_consensus(profile, epsilon=1, mechanism="two-stage", two_stage=TwoStage(bounded_time=True))
    assert len(str(release.event.distance)) > 400
    assert release_to_json(release_from_json(release_to_json(release))) == release_to_json(release)
    odd = "0." + "1234567891" * 20
    for mechanism in ("nuclear", "laplace"):
        release = private_consensus(profile, epsilon=odd, mechanism=mechanism)
        assert release_from_json(release_to_json(release)).event == release.event
    for text in (None, 3, "x", "1/0", "-1", "1" * 5000):
        with pytest.raises(ParameterError, match="rate must be an exact number"):
            event_from_json({"event": "nuclear", "rate": text, "sensitivity": "1"})


def test_a_delta_too_small_to_share_is_refused():
    for options in ALL_OPTIONS:
        with pytest.raises(ParameterError, match=r"delta must be 0 or >= 1\.6e-299"):
            two_stage_plan(3, people=1000, epsilon=Fraction(1), delta=Fraction(1, 10**299), options=options)


def test_a_ranking_that_used_nothing_says_so():
    for epsilon, text in (("1e-4", "nothing of the data is used"), ("0.01", "mostly noise")):
        with pytest.warns(AccuracyWarning, match=text):
            private_consensus(SMALL, epsilon=epsilon, mechanism="two-stage")
    assert plan_consensus(3, epsilon=1, people=10**6, mechanism="two-stage").score_sd == pytest.approx(
        2**0.5 * 2**0.5 * 18, rel=1e-6
    )  # two margins, noise of scale 2 * 3 D / epsilon


def test_our_own_list_mechanism_is_noise_on_margins_of_the_sample():
    plan = plan_of(3, 1000, epsilon=2)
    orders = Counter()
    for seed in range(50):
        order, proved, event = two_stage_order(
            SMALL, plan, unranked="last", xi=Fraction(1, 10), effort=Effort(5), bits=InsecureBits(seed=seed)
        )
        assert proved == two_stage.Proved(factor=Fraction(1), closed_by="exact")
        orders[order] += 1
    assert orders == {(0, 1, 2): 50}
    assert epsilon_of(event, 0) == 2


# --- bounded time and its repair --------------------------------------------------------------------------------------


@pytest.mark.parametrize("constants", ["exact", "published"])
@pytest.mark.parametrize(("m", "people", "epsilon"), [(16, 10**6, "1"), (3, 10**9, "1/7"), (8, 1000, "1/100")])
def test_distances_are_powers_of_two_within_a_factor_of_their_bounds(constants, m, people, epsilon):
    eps, orders = Fraction(epsilon), math.factorial(m)
    pure = plan_of(m, people, epsilon=eps, constants=constants, bounded_time=True)
    normal = plan_of(m, people, epsilon=eps, delta=DELTA, constants=constants, bounded_time=True)
    for plan in (pure, normal):
        assert plan.distance.numerator == 1
        assert plan.distance.denominator.bit_count() == 1
    assert pure.mixture == Fraction(1, 2 ** math.ceil(math.log2(people)))
    assert normal.mixture == 0
    if constants == "published":
        bounds = eps / (100 * people * orders), min(DELTA / 100, Fraction(1, people))
    else:
        bounds = (
            Fraction(math.tanh(float(eps) / 2)) * pure.mixture / (2 * orders),
            min(DELTA / 16 / (1 + Fraction(math.exp(float(eps)))), Fraction(1, people)),
        )
    assert max(pure.distance, normal.distance) <= Fraction(1, people)  # so that it costs D / N in the mean at most
    for plan, bound in zip((pure, normal), bounds, strict=True):
        assert bound / 2 * Fraction(99, 100) < plan.distance <= bound * Fraction(101, 100)
    if (m, constants) == (16, "published"):
        assert pure.distance == Fraction(1, 2**71)


@pytest.mark.parametrize("epsilon", ["1/100", "1", "5"])
def test_the_repair_makes_up_for_any_law_within_the_distance(epsilon):
    """Random laws on six orders and a neighbour at the full epsilon, moved apart by eta, then mixed: all events."""
    eps = Fraction(epsilon)
    plan = plan_of(3, 500, epsilon=eps, bounded_time=True)
    eta, mixture, least = plan.distance, plan.mixture, Fraction(1, 12)  # the least that the mixture gives an order
    growth = Fraction(math.exp(float(eps))) * (1 - Fraction(1, 10**12))  # below e^epsilon
    rng = np.random.default_rng(5)
    bare = False
    for _ in range(60):
        law = [Fraction(int(x) ** 6 + 1) for x in rng.integers(0, 1000, 6)]  # some orders are all but impossible
        law = [x / sum(law) for x in law]
        rare = sorted(range(6), key=lambda i: law[i])[: int(rng.integers(1, 4))]
        mass = sum(law[i] for i in rare)
        up = min(growth, (1 - (1 - mass) / growth) / mass)
        neighbour = [x * up if i in rare else x * (1 - up * mass) / (1 - mass) for i, x in enumerate(law)]
        i, j = rare[0], max(range(6), key=lambda i: law[i])
        shift, back = min(eta, law[i]), min(eta, neighbour[j])
        law[i], law[j] = law[i] - shift, law[j] + shift
        neighbour[i], neighbour[j] = neighbour[i] + back, neighbour[j] - back
        for size in range(1, 6):
            for event in itertools.combinations(range(6), size):
                p, q = (sum(row[i] for i in event) for row in (law, neighbour))
                bare |= q > growth * p
                repaired = [(1 - mixture) * x + mixture * least * size for x in (p, q)]
                assert repaired[1] <= growth * (1 + Fraction(2, 10**12)) * repaired[0]
    assert bare  # what is repaired was broken


def test_without_the_repair_a_moved_law_breaks_the_promise():
    """An outcome of tiny probability that the moved law never gives: no finite epsilon without the mixture."""
    plan = plan_of(3, 50, bounded_time=True)
    assert epsilon_of(plan.event(), 0) <= 1
    bare = BoundedTimeEvent(
        ideal=plan.event().ideal, distance=plan.distance, mixture=plan.mixture / 2**40, least=plan.event().least
    )
    assert epsilon_of(bare, 0) > 20


def test_the_mixture_is_drawn_as_often_as_it_says(monkeypatch):
    """N = 2, epsilon 1: lambda = 1/2; and among these the orders are spread as 4 bits modulo 3! say."""
    profile = Profile.from_ballots(["a", "b", "c"], {Ballot.strict([0, 1, 2]): 2})
    monkeypatch.setattr(two_stage, "_noisy_margins", lambda *_, **__: np.array([[0, -1, -1], [1, 0, -1], [1, 1, 0]]))
    plan = plan_of(3, 2, bounded_time=True)
    assert plan.mixture == Fraction(1, 2)
    bits = InsecureBits(seed=31)
    orders = Counter(
        two_stage_order(profile, plan, unranked="last", xi=Fraction(1), effort=Effort(1), bits=bits)[0]
        for _ in range(4000)
    )
    law = {order: Fraction(3 if i < 4 else 2, 16) / 2 for i, order in enumerate(itertools.permutations(range(3)))}
    law[2, 1, 0] += Fraction(1, 2)
    for order, mass in law.items():
        assert abs(orders[order] - 4000 * mass) < 5 * float(4000 * mass * (1 - mass)) ** 0.5


class Counting:
    def __init__(self, seed):
        self.source, self.taken = InsecureBits(seed=seed), []

    def bits(self, n):
        self.taken.append(n)
        return self.source.bits(n)

    def words(self, _n):
        raise AssertionError("bounded time draws no words for rejection")


@DELTAS
def test_bounded_time_takes_bits_that_the_public_facts_tell(delta):
    """As many draws of known widths as there are pairs, twice; the width of a pair depends on what stage 1 released."""
    profile = strict_profile(4, [40_000, 30_000, 20_000], seed=2)
    plan = plan_of(4, profile.people, delta=delta, bounded_time=True)
    assert plan.branch == "counts"
    widths = {BoundedNoise(noise=law, k=plan.k).bits_per_draw for law in (plan.strong, plan.weak)}
    assert plan.bits_per_draw in widths
    for seed in range(5):
        source = Counting(seed)
        two_stage_order(profile, plan, unranked="last", xi=Fraction(1, 10), effort=Effort(5), bits=source)
        start = 1 if delta else 2  # the random order of equals, and the coin of the mixture
        assert len(source.taken) == 2 * 6 + start
        assert set(source.taken[start:]) <= widths


# --- what the solver proved -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", ["counts", "list"])
def test_the_certificate_is_what_holds_on_the_noisy_table(monkeypatch, branch):
    """By enumeration on the table that the solver saw, at a budget that leaves much noise in it."""
    profile = strict_profile(4, [400, 300, 200] if branch == "list" else [40_000, 30_000, 20_000], seed=2)
    plan = plan_of(4, profile.people)
    assert plan.branch == branch
    name = "second_table" if branch == "counts" else "_noisy_margins"
    tables, real = [], getattr(two_stage, name)

    def seen(*args, **options):
        tables.append(real(*args, **options))
        return tables[-1]

    monkeypatch.setattr(two_stage, name, seen)
    for seed in range(10):
        order, proved, _ = two_stage_order(
            profile, plan, unranked="last", xi=Fraction(1, 2), effort=Effort(5), bits=InsecureBits(seed=seed)
        )
        table = tables[-1]
        costs = {
            o: sum(Fraction(table[v, u]) for u, v in itertools.combinations(o, 2))
            for o in itertools.permutations(range(4))
        }
        assert proved.closed_by == "exact"
        assert proved.factor == 1
        assert costs[order] == min(costs.values())


def test_order_and_certificate_are_functions_of_the_second_table(monkeypatch):
    """Neighbours and strangers alike: with one second table and the same bits, all that is released is the same."""
    plan = plan_of(4, 90_000)
    table = second_table(pairwise_margins(strict_profile(4, [50_000, 40_000])), plan, InsecureBits(seed=4))
    monkeypatch.setattr(two_stage, "second_table", lambda *_: table)
    found = {
        two_stage_order(
            strict_profile(4, counts, seed=seed),
            plan,
            unranked="last",
            xi=Fraction(1, 2),
            effort=Effort(5),
            bits=InsecureBits(seed=9),
        )
        for counts in ([90_000], [89_999, 1], [30_000, 30_000, 30_000])
        for seed in range(3)
    }
    assert len(found) == 1


def test_a_second_table_out_of_bounds_says_that_the_ranking_is_random(monkeypatch):
    monkeypatch.setattr(two_stage, "second_table", lambda *_: None)
    profile = strict_profile(4, [90_000])
    release = private_consensus(profile, epsilon=1, mechanism="two-stage")
    assert (release.value.certificate.closed_by, release.value.certificate.factor) == ("none", None)
    assert release_from_json(release_to_json(release)).value.certificate == release.value.certificate


@DELTAS
@pytest.mark.parametrize("counts", [[900], [90_000]])
def test_pure_bounded_time_releases_no_certificate(delta, counts):
    """Its repair gives every ranking some probability, and nothing that stands beside one."""
    bounded = TwoStage(bounded_time=True)
    options = {"epsilon": 1, "delta": delta, "mechanism": "two-stage", "two_stage": bounded}
    value = private_consensus(strict_profile(4, counts), **options).value
    assert (value.certificate is None) == (delta == 0)
    exact = private_consensus(strict_profile(4, counts), epsilon=1, delta=delta, mechanism="two-stage").value
    assert (exact.certificate.factor, exact.certificate.closed_by, exact.certificate.excess) == (1, "exact", None)


# --- the front door ---------------------------------------------------------------------------------------------------


@OPTIONS
@DELTAS
def test_release_and_json(delta, options):
    profile = strict_profile(4, [40_000, 30_000, 20_000], seed=2)
    release = private_consensus(profile, epsilon="1/2", delta=delta, mechanism="two-stage", two_stage=options)
    assert release_to_json(release_from_json(release_to_json(release))) == release_to_json(release)
    assert release.value.mechanism == "two-stage"
    assert release.guarantee.delta == delta
    assert epsilon_of(release.event, delta) <= Fraction(1, 2)
    assert [item for tier in release.value.tiers for item in tier] != []


def test_astronomical_population():
    """N = 10**30, 1,000 distinct ballots of 20 items: the large branch; the winner is clear."""
    rng = np.random.default_rng(8)
    ballots = {Ballot.strict([0, 1, *(2 + rng.permutation(18)).tolist()]): 10**27 for _ in range(1000)}
    profile = Profile.from_ballots([f"i{u}" for u in range(20)], ballots)
    for bounded in (False, True):
        release = private_consensus(profile, epsilon=1, mechanism="two-stage", two_stage=TwoStage(bounded_time=bounded))
        assert release.value.tiers[:2] == (("i0",), ("i1",))
        assert "counts are measured twice" in release.value.reason


@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_ties_and_truncated_ballots(unranked):
    profile = Profile.from_rankings(
        {("a", ("b", "c")): 40_000, ("b",): 9_000, (("a", "b", "c"),): 5_000}, items=["c", "b", "a"]
    )
    release = private_consensus(profile, epsilon=1, mechanism="two-stage", unranked=unranked, bits=InsecureBits(seed=2))
    assert release.value.tiers[0] == ("a",)


def test_refusals_and_the_ledger(tmp_path):
    with pytest.raises(ParameterError, match="needs to know how many people"):
        plan_consensus(4, epsilon=1, mechanism="two-stage")
    with pytest.raises(ParameterError, match="is for ballots, not for comparisons"):
        plan_consensus(4, epsilon=1, mechanism="two-stage", people=10, pairs=2)
    with pytest.raises(ParameterError, match="two_stage is for mechanism two-stage"):
        private_consensus(SMALL, epsilon=1, mechanism="laplace", two_stage=TwoStage())
    with pytest.raises(ParameterError, match="post_processing must be one of"):
        plan_consensus(4, epsilon=1, post_processing="junk")
    for wrong in ({"constants": "tight"}, {"bounded_time": "yes"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            TwoStage(**wrong)
    ledger = Ledger(tmp_path / "ledger.db")
    account = Account(ledger, "d", budget=("3", "0"), request_id="r")
    first = private_consensus(SMALL, epsilon=1, mechanism="two-stage", account=account)
    again = private_consensus(SMALL, epsilon=1, mechanism="two-stage", account=account)
    assert release_to_json(first) == release_to_json(again)
    for changed in ({"xi": "0.2"}, {"two_stage": TwoStage(bounded_time=True)}):
        with pytest.raises(BudgetError, match="used for another request"):
            private_consensus(SMALL, epsilon=1, mechanism="two-stage", account=account, **changed)
    many = Profile.from_ballots(["a", "b", "c"], {Ballot.strict([0, 1, 2]): 10**18})
    bounded, other = TwoStage(bounded_time=True), replace(account, request_id=None)
    with pytest.raises(ParameterError, match="one by one"):
        private_consensus(many, epsilon="1e-16", delta=TINY, mechanism="two-stage", two_stage=bounded, account=other)
    # the refusal cost nothing: two of three are left
    private_consensus(SMALL, epsilon=2, mechanism="two-stage", account=other)

"""The front door: golden values, public refusals, certificates, and what a release may depend on (R2)."""

import itertools
import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from psephos import (
    Account,
    Ballot,
    Comparisons,
    Ledger,
    Profile,
    fit_scores,
    pairwise_margins,
    private_consensus,
    read_preflib,
)  # fmt: skip
from psephos.central import consensus as consensus_module
from psephos.central import plan_consensus, release_from_json, release_to_json
from psephos.errors import AccuracyWarning, MissingExtraError, ParameterError, PrivacyWarning
from psephos.kemeny import kemeny_cost
from psephos.privacy import DiscreteLaplaceEvent, InsecureBits, epsilon_of

PROFILE = Profile.from_rankings(
    {("a", "b", "c"): 40, ("b", "c", "a"): 25, ("c", ("a", "b")): 10, ("b",): 5}, items=["a", "b", "c"]
)
DUELS = Comparisons.from_columns(["a", "b", "c"], [0, 1, 0] * 30, [1, 2, 2] * 30, [1, 1, 0] * 30)


@pytest.mark.parametrize(
    ("mechanism", "table"),
    [("laplace", [[0, 10, -1], [-10, 0, 78], [1, -78, 0]]), ("gaussian", [[0, 11, -7], [-11, 0, 89], [7, -89, 0]])],
)
def test_golden_release(mechanism, table):
    """One release from fixed bits, recomputed from the words by the textbook quantile: exact margins plus noise."""
    release = private_consensus(PROFILE, epsilon=1, delta="1e-6", mechanism=mechanism, bits=InsecureBits(seed=7))
    margins = [40 - 25 - 5, 40 - 25 - 10, 40 + 25 + 5 - 10]  # a over b, a over c, b over c
    words = InsecureBits(seed=7).words(3).tolist()
    tails = [(word >> 1) / 2**63 for word in words]
    if mechanism == "laplace":  # b = 2 D / epsilon = 6, P(|X| >= j) = 2 e^(-j/b) / (1 + e^(-1/b))
        sizes = [math.floor(6 * (math.log(2 / (1 + math.exp(-1 / 6))) - math.log(u))) for u in tails]
    else:  # sigma = 2 sqrt(3) / mu(1, 1e-6)
        sizes = [math.floor(2 * math.sqrt(3) / 0.236695 * stats.norm.isf(u / 2) + 0.5) for u in tails]
    noisy = [w + (-x if word & 1 else x) for w, x, word in zip(margins, sizes, words, strict=True)]
    assert release.value.estimate.margins.tolist() == table
    assert [table[0][1], table[0][2], table[1][2]] == noisy


def model_by_hand(table, people, variance):
    """Bradley-Terry margins of the same row sums, by a general root finder; differences of row means for no people."""
    rows = np.array(table, dtype=float).sum(axis=1)
    m = len(rows)
    if not people:
        return [[Fraction(int(sum(table[u])) - int(sum(table[v])), m) for v in range(m)] for u in range(m)]
    ridge = 2 * min(1e-3, variance / people**2) * (m - 1)

    def gaps(theta):
        expected = np.tanh((theta[:, None] - theta[None, :]) / 2).sum(axis=1) / 2
        return expected + ridge * theta - rows / (2 * people)

    theta = optimize.root(gaps, np.zeros(m), tol=1e-13).x
    return [[Fraction(people * math.tanh((theta[u] - theta[v]) / 2)) for v in range(m)] for u in range(m)]


@pytest.mark.parametrize("unranked", ["last", "missing"])
@pytest.mark.parametrize("post_processing", ["raw", "adaptive"])
def test_certificate_against_all_orders(unranked, post_processing):
    """Cost, bound and tiers of the released table against every order of four items."""
    profile = Profile.from_rankings(
        {("a", "b", "c", "d"): 9, ("d", ("a", "b")): 8, ("c", "d", "a"): 8, ("b",): 3}, items=list("abcd")
    )
    for seed in range(8):
        release = private_consensus(
            profile,
            epsilon=1,
            mechanism="laplace",
            unranked=unranked,
            post_processing=post_processing,
            bits=InsecureBits(seed=seed),
        )
        value = release.value
        table = np.array(value.estimate.margins, dtype=object)
        if post_processing == "adaptive":
            rho, model = (
                Fraction(value.rho),
                model_by_hand(table, 28 if unranked == "last" else 0, value.estimate.variance),
            )
            exact = [[rho * int(table[u, v]) + (1 - rho) * model[u][v] for v in range(4)] for u in range(4)]
            table = np.array([[Fraction(round(x * 1024), 1024) for x in row] for row in exact], dtype=object)
        costs = {
            order: sum(Fraction(28 + table[v, u], 2) for u, v in itertools.combinations(order, 2))
            for order in itertools.permutations(range(4))
        }
        best = min(costs.values())
        optima = [order for order, cost in costs.items() if cost == best]
        assert value.status == "optimal"
        assert float(abs(value.cost_released - best)) <= 6 / 1024
        assert value.gap == 0
        released = np.array(value.estimate.margins, dtype=object)
        order = ["abcd".index(item) for tier in value.tiers for item in tier]
        if value.unique:
            by_hand = sum(Fraction(28 + int(released[v, u]), 2) for u, v in itertools.combinations(order, 2))
            assert value.cost_of_margins == by_hand
        if post_processing == "raw":
            assert value.cost_of_margins == value.cost_released
        assert value.cost_released == value.lower_bound
        assert value.unique is (len(optima) == 1)
        if value.unique:
            assert [t for tier in value.tiers for t in tier] == ["abcd"[i] for i in optima[0]]


@pytest.mark.parametrize("unranked", ["last", "missing"])
@pytest.mark.parametrize("seed", range(5))
def test_rho_by_hand(unranked, seed):
    """m = 3: C the cyclic part of W - M, rho = min(1, (1 - v / ||C||^2) / .9)^4 with one degree of freedom."""
    release = private_consensus(
        PROFILE, epsilon=3, mechanism="laplace", unranked=unranked, bits=InsecureBits(seed=seed)
    )
    w = release.value.estimate.margins.astype(float)
    model = np.array(
        model_by_hand(w, PROFILE.people if unranked == "last" else 0, release.value.estimate.variance), dtype=float
    )
    rest = w - model
    cyclic = rest - rest.mean(axis=1)[:, None] + rest.mean(axis=1)[None, :]
    norm = (cyclic[np.triu_indices(3, 1)] ** 2).sum()
    expected = min(1.0, max(0.0, 1 - release.value.estimate.variance / norm) / 0.9) ** 4
    assert release.value.rho == pytest.approx(expected, abs=1e-5)


def test_raw_is_the_released_table():
    release = private_consensus(PROFILE, epsilon=1, post_processing="raw", bits=InsecureBits(seed=3))
    assert release.value.rho == 1


@pytest.mark.parametrize("data", [PROFILE, DUELS], ids=["ballots", "comparisons"])
def test_json_round_trip(data):
    unit = "person" if isinstance(data, Profile) else "comparison"
    release = private_consensus(data, epsilon="1/3", delta="1e-6", mechanism="gaussian", unit=unit)
    text = release_to_json(release)
    again = release_from_json(text)
    assert release_to_json(again) == text
    assert again.value.estimate.margins.tolist() == release.value.estimate.margins.tolist()
    assert (again.guarantee, again.event, again.secure) == (release.guarantee, release.event, True)
    document = json.loads(text)
    assert document["guarantee"]["epsilon"] == "1/3"
    assert document["guarantee"]["delta"] == "1e-6"
    assert ("people" in document["guarantee"]) is (unit == "person")
    with pytest.raises(ParameterError, match="schema"):
        release_from_json(json.dumps({**document, "schema": "psephos.release/2"}))


def test_astronomical_numbers_survive_json():
    n = 10**30
    profile = Profile.from_ballots(list("ab"), {Ballot.strict([0, 1]): 2 * n, Ballot.strict([1, 0]): n + 1})
    release = private_consensus(profile, epsilon="0.1")
    again = release_from_json(release_to_json(release))
    assert int(again.value.estimate.margins[0, 1]) == int(release.value.estimate.margins[0, 1])
    assert abs(int(again.value.estimate.margins[0, 1]) - (n - 1)) < 10**4
    assert again.value.cost_released == release.value.cost_released
    assert again.value.units == 3 * n + 1


def test_n2_noise_beyond_int64_neither_wraps_nor_raises():
    for count in (2**31 - 1, 2**61, 2**63 - 1, 10**30):
        profile = Profile.from_ballots(list("ab"), {Ballot.strict([0, 1]): count})
        for epsilon in ("1", "1e-12", "1e-300"):
            release = private_consensus(profile, epsilon=epsilon)
            noise = int(release.value.estimate.margins[0, 1]) - count
            assert abs(noise) < 100 * 2 / Fraction(epsilon)  # misses with probability exp(-100)


def test_m4_nothing_to_rank():
    for data, unit in (
        (Profile.from_ballots(list("ab"), []), "person"),
        (Comparisons.from_columns(list("ab"), [], [], []), "comparison"),
        (Profile.from_ballots([], []), "person"),
    ):
        with pytest.raises(ParameterError, match="nothing to rank"):
            private_consensus(data, epsilon=1, unit=unit)


def test_m4_one_item_has_rank_1():
    profile = Profile.from_ballots(["a"], {Ballot.strict([0]): 5})
    for delta in (0, "1e-6"):
        assert private_consensus(profile, epsilon=1, delta=delta).value.ranking() == ((1, ("a",)),)


def test_m4_two_items_seven_to_three():
    profile = Profile.from_rankings({("a", "b"): 70_000, ("b", "a"): 30_000}, items=list("ab"))
    release = private_consensus(profile, epsilon=1)
    assert release.value.ranking() == ((1, ("a",)), (2, ("b",)))
    assert release.value.cost_released == Fraction(100_000 - int(release.value.estimate.margins[0, 1]), 2)


def test_m8_all_ties_share_one_rank(monkeypatch):
    """Without noise a table of zeros makes all orders optimal: one shared rank, whatever the order of the items."""
    from psephos.central import laplace as laplace_module

    monkeypatch.setattr(laplace_module, "discrete_laplace_array", lambda _s, n, _b: np.zeros(n, dtype=np.int64))
    for data, unit in (
        (Profile.from_rankings({(("a", "b", "c"),): 5}, items=list("cab")), "person"),
        (Profile.from_rankings({("a", "b", "c"): 1, ("c", "b", "a"): 1}, items=list("bca")), "person"),
        (Comparisons.from_columns(list("acb"), [0, 1, 2], [1, 2, 0], [0, 0, 0]), "comparison"),
    ):
        value = private_consensus(data, epsilon=1, mechanism="laplace", unit=unit, bits=InsecureBits(seed=1)).value
        assert value.ranking() == ((1, ("a", "b", "c")),)
        assert value.unique is False


def test_shared_ranks_are_competition_ranks(monkeypatch):
    from psephos.central import laplace as laplace_module

    monkeypatch.setattr(laplace_module, "discrete_laplace_array", lambda _s, n, _b: np.zeros(n, dtype=np.int64))
    profile = Profile.from_rankings({("d", ("a", "b"), "c"): 9}, items=list("abcd"))
    value = private_consensus(profile, epsilon=1, mechanism="laplace", bits=InsecureBits(seed=1)).value
    assert value.ranking() == ((1, ("d",)), (2, ("a", "b")), (4, ("c",)))


UNANIMOUS = Comparisons.from_columns(["a", "b", "c", "d"], [0, 1, 0] * 90, [1, 2, 2] * 90, [1] * 270)
TRUNCATED = Profile.from_rankings({("a", "b"): 500}, items=["c", "a", "b"])


@pytest.mark.parametrize("data", [UNANIMOUS, TRUNCATED])
@pytest.mark.parametrize("post_processing", ["raw", "adaptive"])
def test_an_item_without_answers_does_not_erase_the_others(data, post_processing):
    """Nobody compared the last item with any other; noise at epsilon 900 is 0 but for a chance below e^-100."""
    unit = {"unit": "comparison"} if isinstance(data, Comparisons) else {"unranked": "missing"}
    with pytest.warns(PrivacyWarning, match="no protection"):
        release = private_consensus(data, epsilon=900, mechanism="laplace", post_processing=post_processing, **unit)
    value = release.value
    known, free = sorted(data.items)[:-1], max(data.items)
    if data is TRUNCATED:
        known, free = ["a", "b"], "c"
    m = data.m
    assert value.order == (*known, free)
    assert value.tiers == tuple((item,) for item in value.order)
    assert value.undecided == (*((item, i + 1, i + 2) for i, item in enumerate(known)), (free, 1, m))
    assert value.unique is False
    position = [value.estimate.items.index(item) for item in value.order]
    people = 0 if "unit" in unit else data.people
    assert value.cost_released == value.cost_of_margins == kemeny_cost(value.estimate.margins, position, people=people)
    again = release_from_json(release_to_json(release))
    assert (again.value.order, again.value.undecided) == (value.order, value.undecided)


def test_answers_stored_before_orders_and_undecided_items_can_be_read():
    document = json.loads(release_to_json(private_consensus(PROFILE, epsilon=1)))
    del document["order"], document["undecided"]
    value = release_from_json(json.dumps(document)).value
    assert value.order == tuple(item for entry in document["ranking"] for item in entry["items"])
    assert value.undecided is None


def test_f24_an_item_on_no_ballot_is_ranked():
    profile = Profile.from_rankings({("a", "b", "c"): 100_000, ("b", "a", "c"): 40_000}, items=list("abcd"))
    assert private_consensus(profile, epsilon=1).value.ranking()[-1] == (4, ("d",))
    assert len(private_consensus(profile, epsilon=1, unranked="missing").value.estimate.items) == 4


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mechanism": "median"}, "mechanism must be one of"),
        ({"unranked": "first"}, "unranked must be"),
        ({"post_processing": "none"}, "post_processing must be"),
        ({"time_limit": float("nan")}, "time_limit must be"),
        ({"time_limit": -1}, "time_limit must be"),
        ({"effort": float("nan")}, "effort must be"),
        ({"effort": -1}, "effort must be"),
        ({"unit": "comparison"}, "unit must be person for ballots"),
        ({"unit": "household"}, "unit must be"),
        ({"xi": 0}, "xi must be a number > 0 and <= 1000, got 0"),
        ({"xi": "1e400"}, "xi must be"),
        ({"two_stage": {}}, "two_stage must be a TwoStage"),
        ({"mechanism": "nuclear", "post_processing": "none"}, "post_processing must be"),
        ({"post_processing": "certified", "mechanism": "borda"}, "certified is for noise on margins"),
        ({"mechanism": "nuclear", "level": 0.9}, "has no rank intervals"),
        ({"account": "x"}, "account must be an Account"),
    ],
)
def test_refusals_of_parameters(kwargs, message):
    with pytest.raises(ParameterError, match=message):
        private_consensus(PROFILE, epsilon=1, **kwargs)


def test_refusals_of_comparisons():
    with pytest.raises(ParameterError, match="unit='comparison'"):
        private_consensus(DUELS, epsilon=1)
    weighted = Comparisons.from_columns(list("ab"), [0], [1], [1], weight=[2])
    with pytest.raises(ParameterError, match="weighted"):
        private_consensus(weighted, epsilon=1, unit="comparison")
    with pytest.raises(ParameterError, match="Profile or Comparisons"):
        private_consensus([("a", "b")], epsilon=1)
    with pytest.raises(ParameterError, match="answers in cycles, as comparisons are, break its bound"):
        private_consensus(DUELS, epsilon=1, unit="comparison", mechanism="nuclear")


@pytest.mark.parametrize("data", [PROFILE, DUELS], ids=["ballots", "comparisons"])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", 0), ("0.01", "1e-3")])
def test_certified(data, epsilon, delta):
    """The certificate against all orders: the factor on a possible table, and the bound for this very noise."""
    unit = "person" if isinstance(data, Profile) else "comparison"
    exact = pairwise_margins(data)
    n = data.people if isinstance(data, Profile) else data.records
    beyond = 0
    for seed in range(40):
        release = private_consensus(
            data, epsilon=epsilon, delta=delta, unit=unit, post_processing="certified", xi="0.2",
            bits=InsecureBits(seed=seed),
        )  # fmt: skip
        value = release.value
        certificate = value.certificate
        if not delta:
            assert value.mechanism == ("nuclear" if unit == "person" else "laplace")
        assert value.lower_bound == value.cost_released  # few items: an optimum
        assert (certificate.closed_by, certificate.factor, certificate.level) == ("exact", 1, 0.95)
        assert certificate.excess == 2 * certificate.cost_bound
        assert (certificate.nearest == "none") is bool(np.abs(value.estimate.margins).max() <= n)

        def cost(order, table=exact):
            return sum(Fraction(n + int(table[v, u]), 2) for u, v in itertools.combinations(order, 2))

        order = ["abc".index(item) for tier in value.tiers for item in tier]
        noise = np.linalg.norm((value.estimate.margins - exact).astype(float), 2)
        error = 2 * np.sqrt(3) / 2 * (float(certificate.distance) + noise)  # N_3 / 4 = sqrt(3) / 2
        least = min(cost(other) for other in itertools.permutations(range(3)))
        assert float(cost(order)) <= float(least) + error + 1e-9
        beyond += noise > float(certificate.noise_norm)
        bound = 3**0.5 / 2 * float(certificate.distance + certificate.noise_norm)
        assert float(certificate.cost_bound) == pytest.approx(bound, rel=1e-4)
        assert release_from_json(release_to_json(release)).value.certificate == certificate
    assert beyond <= 7  # of 40 at 5 % each: more with probability 1e-3, were the bound tight


def test_certified_many_items_within_a_factor():
    rng = np.random.default_rng(5)
    profile = Profile.from_ballots(
        [f"i{u}" for u in range(24)], {Ballot.strict(rng.permutation(24).tolist()): 100 for _ in range(30)}
    )
    value = private_consensus(profile, epsilon=5, post_processing="certified", xi="0.05").value
    certificate = value.certificate
    assert certificate.closed_by != "open"
    assert value.cost_released <= certificate.factor * value.lower_bound <= Fraction("1.05001") * value.lower_bound
    assert (certificate.factor == 1) is (value.status == "optimal")
    assert certificate.excess == (1 + certificate.factor) * certificate.cost_bound


def test_certified_with_rank_intervals():
    """``auto`` then takes noise that has them."""
    profile = Profile.from_rankings({("a", "b", "c", "d"): 60_000, ("d", "b", "a", "c"): 40_000}, items=list("abcd"))
    for delta in (0, "1e-6"):
        value = private_consensus(profile, epsilon=1, delta=delta, post_processing="certified", level=0.9).value
        assert value.mechanism in ("laplace", "gaussian")
        assert value.ranks is not None
    for effort in (60, 0):
        assert private_consensus(
            profile, epsilon="1e-7", post_processing="certified", mechanism="nuclear", effort=effort
        ).value.certificate.nearest in ("scs", "clip")


@pytest.mark.parametrize("limit", ["effort", "time_limit"])
def test_certified_says_when_effort_or_time_ran_out(limit):
    rng = np.random.default_rng(4)
    profile = Profile.from_ballots(
        [f"i{u}" for u in range(30)], {Ballot.strict(rng.permutation(30).tolist()): 1 for _ in range(40)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        value = private_consensus(
            profile, epsilon="0.1", post_processing="certified", mechanism="laplace", xi="1e-9", **{limit: 0}
        ).value
    assert (value.certificate.closed_by, value.status, value.limit) == ("open", limit, limit)
    assert value.gap > 0


def test_certified_without_its_extra_costs_nothing(monkeypatch, tmp_path):
    def missing(name, *_rest):
        raise MissingExtraError(f"{name} is not installed")

    monkeypatch.setattr(consensus_module, "load_extra", missing)
    paid = {"account": Account(Ledger(tmp_path / "ledger.db"), "d", budget=("1", "0"))}
    with pytest.raises(MissingExtraError):
        private_consensus(PROFILE, epsilon=1, post_processing="certified", **paid)
    monkeypatch.undo()
    assert private_consensus(PROFILE, epsilon=1, post_processing="certified", **paid).value.certificate is not None


def test_nuclear_from_the_front_door():
    release = private_consensus(PROFILE, epsilon=2, mechanism="nuclear", bits=InsecureBits(seed=4))
    assert epsilon_of(release.event, 0) == 2
    assert release_to_json(release_from_json(release_to_json(release))) == release_to_json(release)
    noise = release.value.estimate.noise
    assert noise.gradient == noise.cyclic
    # three items: X has the axial vector x with density exp(-2 rate |x|), so each entry has variance 4 / (2 rate)^2
    assert noise.sd == pytest.approx((4 / (2 * 2 / (4 * 3**0.5)) ** 2 + 1 / 12) ** 0.5)


def test_items_seen_in_the_data_need_a_declaration():
    seen = Comparisons.from_columns(list("ab"), [0, 0], [1, 1], [1, 1], items_source="seen")
    with pytest.raises(ParameterError, match="not a public list"):
        private_consensus(seen, epsilon=1, unit="comparison")
    release = private_consensus(seen.with_items_public(), epsilon=1, unit="comparison")
    assert "as seen in the data, is public" in release.guarantee.sentence()
    assert "one comparison, not one person" in release.guarantee.sentence()


def test_r2_neighbours_meet_the_same_refusals():
    """Whether anything is refused may depend on public facts alone: all profiles of one size behave alike."""
    ballots = [Ballot(), Ballot.strict([0]), Ballot.strict([2, 1, 0]), Ballot(((0, 1, 2),)), Ballot(((1,), (0, 2)))]
    for a, b in itertools.product(ballots, repeat=2):
        profile = Profile.from_ballots(list("abc"), {a: 1} if a == b else {a: 1, b: 1})
        for unranked in ("last", "missing"):
            release = private_consensus(profile, epsilon="0.5", delta="1e-6", unranked=unranked)
            assert sorted(x for tier in release.value.tiers for x in tier) == ["a", "b", "c"]


def test_a_release_shows_nothing_of_the_data_but_the_noisy_table(monkeypatch):
    """Two different profiles that give the same noisy table give the same release, to the last character."""
    table = np.array([[0, 5, 9], [-5, 0, -3], [-9, 3, 0]])

    def same_table(_margins, law, **_):
        return table, DiscreteLaplaceEvent(scale=law.scale, sensitivity=Fraction(6))

    monkeypatch.setattr(consensus_module, "laplace_margins", same_table)
    texts = set()
    for rankings in ({("a", "b", "c"): 7}, {("c", ("a", "b")): 6, (): 1}, {("b",): 7}):
        profile = Profile.from_rankings(rankings, items=list("abc"))
        texts.add(
            release_to_json(private_consensus(profile, epsilon=1, mechanism="laplace", bits=InsecureBits(seed=1)))
        )
    assert len(texts) == 1


def test_repair_notes_do_not_reach_the_release(tmp_path):
    path = tmp_path / "x.soi"
    path.write_text("# NUMBER ALTERNATIVES: 2\n3: 1,2\n2: 1,1\n1: 9\n")
    profile = read_preflib(path, clean="empty")
    assert profile.people == 6
    assert profile.notes
    text = release_to_json(private_consensus(profile, epsilon=1))
    assert "void" not in text
    assert "empty" not in text


def test_auto_reads_public_facts_and_gives_its_reason():
    names = {
        (people, delta): plan_consensus(10, epsilon=1, delta=delta, people=people).mechanism
        for people in (100, 5000, 10**6)
        for delta in (0, "1e-6")
    }
    assert [names[people, 0] for people in (100, 5000, 10**6)] == ["borda", "nuclear", "nuclear"]
    assert [names[people, "1e-6"] for people in (100, 5000, 10**6)] == ["borda", "probe", "probe"]
    assert plan_consensus(10, epsilon=1).mechanism == "nuclear"
    assert plan_consensus(10, epsilon=1, intervals=True).mechanism == "laplace"  # nuclear has no rank intervals
    assert plan_consensus(10, epsilon=1, pairs=3, people=10**6).mechanism == "laplace"  # and is for ballots
    assert plan_consensus(64, epsilon=1).mechanism == "nuclear"
    assert plan_consensus(65, epsilon=1).mechanism == "laplace"  # beyond 64 items a draw takes long
    assert "hides only cycles smaller than" in plan_consensus(10, epsilon=1).reason
    assert plan_consensus(10, epsilon=1, people=10**4000).mechanism == "nuclear"
    assert plan_consensus(10, epsilon="1e-300", delta="1e-300", people=1).mechanism == "borda"
    assert "scores alone have less of it" in plan_consensus(10, epsilon=1, people=100).reason
    assert "so all goes to scores" in plan_consensus(10, epsilon=1, delta="1e-6", people=100).reason
    # Few items: Laplace noise on scores is so much less than normal noise that no look pays.
    assert plan_consensus(5, epsilon=1, delta="1e-6", people=300).mechanism == "borda"
    assert plan_consensus(5, epsilon=1, delta="1e-6", people=10**5).mechanism == "nuclear"
    # Of ballots, scores always have less noise than those of noisy margins, if only a little for three items.
    for m in range(3, 12):
        for epsilon in ("1e-5", "0.01", "1", "20"):
            for delta in (0, "1e-6", "0.1"):
                assert "as much" not in plan_consensus(m, epsilon=epsilon, delta=delta, people=10**4).reason
    small = plan_consensus(2, epsilon=1, delta="1e-6")  # one pair: Laplace has less noise even at delta > 0
    assert (small.mechanism, small.delta) == ("laplace", 0)
    # One comparison moves two scores as it moves one margin, so scores are cheap there too.
    assert plan_consensus(10, epsilon=1, unit="comparison", people=100).mechanism == "borda"
    # Where each counts on m pairs, scores have less Laplace noise than those of margins, and as much normal noise.
    assert plan_consensus(10, epsilon=1, pairs=10, people=100).mechanism == "borda"
    few = plan_consensus(6, epsilon="0.01", delta="1e-3", pairs=6, people=100)
    assert (few.mechanism, "as much" in few.reason) == ("gaussian", True)
    with pytest.raises(ParameterError, match="m must be"):
        plan_consensus(0, epsilon=1)


@pytest.mark.parametrize(
    ("people", "mechanism", "noisy"),
    [
        (5, "laplace", True),
        (5, "borda", True),
        (50_000, "laplace", False),
        (50_000, "borda", False),
        (50_000, "probe", False),
        (3, "probe", True),
    ],
)
def test_a_release_of_mostly_noise_says_so(people, mechanism, noisy):
    """From public facts alone: the same warning whatever the ballots are."""
    for ranking in (("a", "b", "c"), (("a", "b", "c"),)):
        profile = Profile.from_rankings({ranking: people}, items=list("abc"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            private_consensus(profile, epsilon="0.5", delta="1e-6", mechanism=mechanism)
        assert [w.category is AccuracyWarning for w in caught] == [True] * noisy


def test_the_estimate_of_complete_ballots_can_be_fitted():
    """Everything computed from a release is free, scores too."""
    profile = Profile.from_rankings({tuple("abc"): 70_000, tuple("bca"): 30_000}, items=list("abc"))
    release = private_consensus(profile, epsilon=1, mechanism="laplace")
    again = release_from_json(release_to_json(release))
    for estimate in (release.value.estimate, again.value.estimate):
        assert fit_scores(estimate).scores == pytest.approx(fit_scores(profile).scores, abs=0.01)
        assert estimate.answers[0, 1] == 100_000
    assert private_consensus(profile, epsilon=1, unranked="missing").value.estimate.answers is None


@pytest.mark.parametrize("epsilon", ["1e-300", pytest.param("1e-120", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "shaped", "probe", "borda", "kwiksort", "footrule"])
def test_tiny_budgets_give_an_answer_once_they_are_paid(epsilon, mechanism):
    for people in (1, 10**30):
        profile = Profile.from_rankings({tuple("abcd"): people}, items=list("abcd"))
        level = None if mechanism in ("kwiksort", "footrule") else 0.9
        value = private_consensus(profile, epsilon=epsilon, delta="1e-300", mechanism=mechanism, level=level).value
        assert sum(len(names) for _, names in value.ranking()) == 4


def test_burlington_winner():
    """The Condorcet winner of the real election leads by 772 of 9,788 votes, 18 standard deviations of the noise."""
    profile = read_preflib("examples/burlington2006.toi")
    for delta in (0, "1e-6"):
        value = private_consensus(profile, epsilon=1, delta=delta).value
        assert [tier[0] for tier in value.tiers[:3]] == ["Bob Kiss", "Hinda Miller", "Kevin J. Curley"]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "borda", "shaped", "probe"])
def test_all_reading_of_the_data_is_over_before_anything_is_solved(monkeypatch, mechanism):
    steps = []
    for name in ("exact_margins", "noisy_margins", "second_moment", "consensus_of", "rank_sets"):
        real = getattr(consensus_module, name)
        monkeypatch.setattr(
            consensus_module, name, lambda *a, name=name, real=real, **k: steps.append(name) or real(*a, **k)
        )
    private_consensus(PROFILE, epsilon=1, delta="1e-6", mechanism=mechanism, level=0.9)
    assert steps == ["exact_margins", "noisy_margins", "second_moment", "consensus_of", "rank_sets"]

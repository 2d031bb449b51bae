"""Private scores: what the front door promises, refuses, stores and prints; intervals cover."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from psephos import Comparisons, Profile, read_comparisons_csv
from psephos.central import private_scores, scores_from_json, scores_to_json
from psephos.errors import BudgetError, InsecureBitsError, ParameterError
from psephos.privacy import Account, InsecureBits, Ledger
from psephos.scores import fit_scores

NAMES = list("abcde")


def population(rng, m, each, spread=1.0, persons=None):
    """Bradley-Terry comparisons, ``each`` on every pair, and the true centred scores."""
    theta = rng.normal(0, spread, m)
    theta -= theta.mean()
    left, right = np.triu_indices(m, 1)
    left, right = np.repeat(left, each), np.repeat(right, each)
    won = rng.random(len(left)) < 1 / (1 + np.exp(theta[right] - theta[left]))
    who = None if persons is None else rng.integers(0, persons, len(left))
    names = [f"item {u}" for u in range(m)]
    return theta, Comparisons.from_columns(names, left, right, np.where(won, 1, -1), person=who)


def by_item(value, names):
    """Scores, intervals and rank intervals in the order of ``names``."""
    place = [value.items.index(name) for name in names]
    rows = np.array([value.scores, value.low, value.high, value.best_rank, value.worst_rank])
    return rows[:, place]


def test_with_much_data_private_scores_are_the_fit():
    _, table = population(np.random.default_rng(1), 5, 100_000)
    exact = fit_scores(table).scores
    for graph in ("public", "private"):
        release = private_scores(table, epsilon=1, graph=graph, unit="comparison")
        assert by_item(release.value, table.items)[0] == pytest.approx(exact, abs=0.01)


def test_more_noise_pulls_scores_together_and_widens_intervals():
    _, table = population(np.random.default_rng(2), 5, 200)
    spreads, widths = [], []
    for epsilon in ("10", "0.1", "0.01"):
        value = private_scores(
            table, epsilon=epsilon, graph="public", unit="comparison", bits=InsecureBits(seed=3)
        ).value
        spreads.append(max(value.scores) - min(value.scores))
        widths.append(np.subtract(value.high, value.low).mean())
        assert all(low <= x <= high for low, x, high in zip(value.low, value.scores, value.high, strict=True))
    assert spreads[0] > spreads[2]
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["public", "private"])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_coverage(graph, epsilon):
    """600 populations of eight items: scores at .95 within .02 (or above), all ranks at once at .95 within .02."""
    rng = np.random.default_rng(5)
    covered, ranks = [], []
    for _ in range(600):
        theta, table = population(rng, 8, 400)
        bits = InsecureBits(seed=int(rng.integers(2**60)))
        value = private_scores(table, epsilon=epsilon, graph=graph, unit="comparison", bits=bits).value
        _, low, high, best, worst = by_item(value, table.items)
        covered.append(((low <= theta) & (theta <= high)).mean())
        rank = 1 + (theta[None, :] > theta[:, None]).sum(axis=1)
        ranks.append(((best <= rank) & (rank <= worst)).all())
    assert 0.93 < np.mean(covered) < 0.985
    assert np.mean(ranks) > 0.95 - 2 * math.sqrt(0.95 * 0.05 / 600)


def test_best_first_in_every_output():
    """m14: scores in a known direction."""
    table = Comparisons.from_columns(
        list("xyz"), [0] * 4000 + [1] * 4000, [1] * 4000 + [2] * 4000, ([1] * 3000 + [-1] * 1000) * 2
    )
    release = private_scores(table, epsilon=5, graph="public", unit="comparison")
    assert release.value.items == ("x", "y", "z")
    assert release.value.scores[0] > release.value.scores[1] > release.value.scores[2]
    assert release.value.top(1) == ("x",)
    assert (release.value.best_rank, release.value.worst_rank) == ((1, 2, 3), (1, 2, 3))


def test_only_answers_are_ties():
    """m8: equal scores, no order decided by input order alone."""
    table = Comparisons.from_columns(list("ab"), [0] * 9, [1] * 9, [0] * 9)
    value = private_scores(table, epsilon=1, graph="public", unit="comparison", bits=InsecureBits(seed=1)).value
    assert (value.best_rank, value.worst_rank) == ((1, 1), (2, 2))


def test_m2_items_that_nothing_joins_have_any_order():
    table = Comparisons.from_columns(
        list("abcde"), [0] * 50_000 + [2] * 50_000, [1] * 50_000 + [3] * 50_000, ([1] * 4 + [-1]) * 20_000
    )
    value = private_scores(table, epsilon=1, graph="public", unit="comparison").value
    place = {name: i for i, name in enumerate(value.items)}
    assert (value.low[place["e"]], value.high[place["e"]]) == (-math.inf, math.inf)
    assert {(value.best_rank[place[x]], value.worst_rank[place[x]]) for x in "ac"} == {(1, 4)}
    assert {(value.best_rank[place[x]], value.worst_rank[place[x]]) for x in "bd"} == {(2, 5)}
    assert (value.best_rank[place["e"]], value.worst_rank[place["e"]]) == (1, 5)
    assert "null" in scores_to_json(private_scores(table, epsilon=1, graph="public", unit="comparison"))


def test_m4_one_item_and_two():
    one = Comparisons.from_columns(["a"], [], [], [], person=[], persons=("p",))
    value = private_scores(one, epsilon=1, graph="private").value
    assert (value.items, value.scores, value.best_rank) == (("a",), (0.0,), (1,))
    two = Comparisons.from_columns(["a", "b"], [0] * 10**6, [1] * 10**6, [1] * 700_000 + [-1] * 300_000)
    value = private_scores(two, epsilon=1, graph="public", unit="comparison").value
    assert value.scores[0] - value.scores[1] == pytest.approx(math.log(7 / 3), rel=0.01)


def test_noise_far_beyond_the_data_stays_finite():
    """m19: wins out of range, negative numbers of answers."""
    table = Comparisons.from_columns(NAMES, [0, 1, 2], [1, 2, 3], [1, 1, 1], person=[0, 1, 2])
    for graph in ("public", "private"):
        for delta in (0, "1e-6"):
            for seed in range(5):
                bits = InsecureBits(seed=seed)
                value = private_scores(table, epsilon="0.001", delta=delta, graph=graph, bits=bits).value
                assert np.isfinite(value.scores).all()
                assert not np.isnan([value.low, value.high]).any()


@pytest.mark.parametrize("link", ["logistic", "normal"])
@pytest.mark.parametrize("graph", ["public", "private"])
def test_json_round_trip(graph, link):
    _, table = population(np.random.default_rng(1), 5, 100, persons=50)
    release = private_scores(table, epsilon="1/3", delta="1e-6", graph=graph, pairs=3, link=link)
    text = scores_to_json(release)
    again = scores_from_json(text)
    assert scores_to_json(again) == text
    assert again.value == release.value
    assert (again.guarantee, again.event, again.secure) == (release.guarantee, release.event, True)
    with pytest.raises(ParameterError, match=r"schema must be psephos\.scores/1"):
        scores_from_json(text.replace("psephos.scores/1", "psephos.release/1"))


def test_guarantee_says_what_is_not_protected():
    _, table = population(np.random.default_rng(1), 3, 10, persons=5)
    public = private_scores(table, epsilon=1, graph="public").guarantee.sentence()
    assert "which pairs each person compared is public" in public
    private = private_scores(table, epsilon=1).guarantee.sentence()
    assert "how many people gave comparisons is public" in private
    assert "which pairs" not in private
    single = private_scores(table, epsilon=1, unit="comparison", graph="public").guarantee.sentence()
    assert "one comparison, not one person" in single


def test_pure_and_normal_noise():
    _, table = population(np.random.default_rng(1), 30, 2, persons=20)
    assert private_scores(table, epsilon=1, pairs=30).guarantee.delta == 0
    normal = private_scores(table, epsilon=1, delta="1e-6", pairs=30)
    assert (normal.guarantee.delta, normal.value.rows_noise.family) == (Fraction(1, 10**6), "rounded-gaussian")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"graph": "secret"}, "graph must be"),
        ({"link": "probit"}, "link must be"),
        ({"level": 1}, "level must be > 0"),
        ({"level": float("nan")}, "level must"),
        ({"unit": "answer"}, "unit must be"),
        ({"pairs": 0}, "pairs must be"),
        ({"unit": "comparison", "pairs": 2}, "pairs bounds a person"),
        ({"epsilon": 0}, "epsilon must"),
        ({"account": "x"}, "account must be an Account"),
        ({"bits": 7}, "bits must be"),
    ],
)
def test_refusals(kwargs, message):
    _, table = population(np.random.default_rng(1), 3, 10, persons=5)
    with pytest.raises(ParameterError, match=message):
        private_scores(table, **{"epsilon": 1, **kwargs})


def test_refusals_of_data():
    anonymous = Comparisons.from_columns(NAMES, [0], [1], [1])
    with pytest.raises(ParameterError, match="do not say who gave them"):
        private_scores(anonymous, epsilon=1)
    with pytest.raises(ParameterError, match="weighted"):
        private_scores(Comparisons.from_columns(NAMES, [0], [1], [1], weight=[2]), epsilon=1, unit="comparison")
    with pytest.raises(ParameterError, match="ballots: private_consensus"):
        private_scores(Profile.from_rankings({("a",): 1}, items=["a"]), epsilon=1)
    with pytest.raises(ParameterError, match="nothing to rank"):
        private_scores(Comparisons.from_columns(NAMES, [], [], [], person=[]), epsilon=1)


def test_unanimous_answers_are_sure():
    """Odds have no upper end there, and still nobody doubts the order."""
    table = Comparisons.from_columns(list("xyz"), [0] * 3000 + [1] * 3000, [1] * 3000 + [2] * 3000, [1] * 6000)
    value = private_scores(table, epsilon=5, graph="public", unit="comparison").value
    assert (value.items, value.worst_rank) == (("x", "y", "z"), (1, 2, 3))
    assert np.isinf([value.low, value.high]).all()  # how far apart they are is another matter


@pytest.mark.slow
def test_coverage_where_odds_are_long():
    """Two items at odds of 1,100 to 1: no statement of how far apart they are, unless it holds."""
    rng = np.random.default_rng(8)
    held = []
    for k in range(200):
        won = rng.random(5000) < 1 / (1 + np.exp(-7.0))
        table = Comparisons.from_columns(["a", "b"], [0] * 5000, [1] * 5000, np.where(won, 1, -1))
        bits = InsecureBits(seed=k)
        value = private_scores(table, epsilon=4, graph="public", unit="comparison", bits=bits).value
        _, low, high, _, _ = by_item(value, ["a", "b"])
        held.append(low[0] <= 3.5 <= high[0] and low[1] <= -3.5 <= high[1])
    assert np.mean(held) > 0.93


def leagues(rng, people):
    """Two leagues of ten items, far apart in strength, of which one answer in fifty compares both."""
    theta = np.concatenate([np.linspace(5, 1, 10), np.linspace(-1, -5, 10)])
    within = [p for league in (range(10), range(10, 20)) for p in itertools.combinations(league, 2)]
    across = [(a, b) for a in range(10) for b in range(10, 20)]
    pairs = np.array(within * 50 + across)
    chosen = pairs[rng.integers(0, len(pairs), (people, 2))].reshape(-1, 2)
    won = rng.random(len(chosen)) < 1 / (1 + np.exp(theta[chosen[:, 1]] - theta[chosen[:, 0]]))
    names = [f"item {u}" for u in range(20)]
    who = np.repeat(np.arange(people), 2)
    return theta, Comparisons.from_columns(names, *chosen.T, np.where(won, 1, -1), person=who)


@pytest.mark.slow
@pytest.mark.parametrize("people", [2000, 20_000])
def test_a_private_graph_of_two_leagues_is_not_taken_for_one(people):
    """Numbers of answers drowned in noise must not bridge the leagues: ranks hold at once, scores item by item."""
    rng = np.random.default_rng(9)
    ranks, scores = [], []
    for k in range(60):
        theta, table = leagues(rng, people)
        bits = InsecureBits(seed=k)
        value = private_scores(table, epsilon=1, delta="1e-6", graph="private", pairs=2, bits=bits).value
        _, low, high, best, worst = by_item(value, table.items)
        rank = 1 + (theta[None, :] > theta[:, None]).sum(axis=1)
        ranks.append(((best <= rank) & (rank <= worst)).all())
        scores.append(((low <= theta) & (theta <= high)).mean())
    assert np.mean(ranks) >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / 60)
    assert np.mean(scores) > 0.93


def test_a_weak_component_leaves_the_others_as_they_are():
    left, right, won = [], [], []
    for u, v in itertools.combinations(range(4), 2):
        left += [u] * 10_000
        right += [v] * 10_000
        won += [1] * 7000 + [-1] * 3000
    alone = Comparisons.from_columns(["i0", "i1", "i2", "i3"], left, right, won)
    both = Comparisons.from_columns([f"i{k}" for k in range(6)], [*left, 4], [*right, 5], [*won, 1])
    few, many = (private_scores(t, epsilon=1, graph="public", unit="comparison").value for t in (alone, both))
    assert (few.best_rank, few.worst_rank) == ((1, 2, 3, 4), (1, 2, 3, 4))
    _, _, _, best, worst = by_item(many, ["i0", "i1", "i2", "i3"])
    assert (best.tolist(), worst.tolist()) == ([1, 2, 3, 4], [3, 4, 5, 6])
    assert len(set(by_item(many, ["i0", "i1", "i2", "i3"])[0])) == 4
    component = dict(zip(many.items, many.components, strict=True))
    assert component["i0"] == component["i3"] != component["i4"] == component["i5"]


@pytest.mark.parametrize("epsilon", ["1e-290", "1e-120", "1e-50", "1e9"])
@pytest.mark.parametrize("graph", ["public", "private"])
@pytest.mark.filterwarnings("ignore:epsilon")
def test_every_legal_epsilon_gives_an_answer_once_it_is_paid(tmp_path, epsilon, graph):
    _, table = population(np.random.default_rng(1), 4, 10, persons=5)
    for k, delta in enumerate((0, "1e-6")):
        account = Account(Ledger(tmp_path / f"{k}.db"), "d", budget=(epsilon, "1e-6"))
        value = private_scores(table, epsilon=epsilon, delta=delta, graph=graph, account=account).value
        assert np.isfinite(value.scores).all()


def test_numbers_of_other_types_are_taken(tmp_path):
    _, table = population(np.random.default_rng(1), 3, 10, persons=5)
    account = Account(Ledger(tmp_path / "l.db"), "d", budget=("1", 0))
    value = private_scores(table, epsilon="0.5", pairs=np.int64(2), level=Fraction(9, 10), account=account).value
    assert (value.pairs, value.level) == (2, 0.9)


def test_a_public_graph_has_a_budget_of_its_own(tmp_path):
    """Answers alone are protected there: the sum with debits that protect whole persons would mean nothing."""
    _, table = population(np.random.default_rng(1), 3, 10, persons=5)
    account = Account(Ledger(tmp_path / "l.db"), "duels", budget=("1", 0))
    private_scores(table, epsilon="0.25", account=account)
    with pytest.raises(BudgetError, match="each person's answers"):
        private_scores(table, epsilon="0.25", graph="public", account=account)


def test_too_many_items_are_refused_before_they_are_paid_for():
    many = Comparisons.from_columns([f"i{k}" for k in range(5001)], [0], [1], [1], person=[0])
    with pytest.raises(ParameterError, match="at most 5000 items"):
        private_scores(many, epsilon=1)


def test_ledger(tmp_path):
    _, table = population(np.random.default_rng(1), 3, 10, persons=5)
    account = Account(Ledger(tmp_path / "l.db"), "duels", budget=("1", 0), request_id="a")
    first = private_scores(table, epsilon="0.5", account=account)
    again = private_scores(table, epsilon="0.5", account=account)
    assert again.value == first.value
    assert again.remaining == (Fraction(1, 2), 0)
    with pytest.raises(BudgetError, match="used for another request"):
        private_scores(table, epsilon="0.5", link="normal", account=account)
    with pytest.raises(BudgetError, match="left"):
        private_scores(table, epsilon="0.6", account=replace(account, request_id=None))
    with pytest.raises(InsecureBitsError):
        private_scores(table, epsilon="0.1", bits=InsecureBits(seed=1), account=account)


def test_judgements_of_workers():
    table = read_comparisons_csv("tests/data/llmfao.csv").with_items_public()
    value = private_scores(table, epsilon=5, delta="1e-6", graph="public").value
    assert len(value.items) == 59
    assert value.units == 124
    assert np.isfinite(value.scores).all()
    noisy = private_scores(table, epsilon=1, delta="1e-6").value
    assert (noisy.pairs, noisy.graph) == (59, "private")


def star_or_path():
    """One person, three of whose pairs are drawn: Laplace noise is least for a star, Gaussian noise for a path."""
    left, right = zip(*((0, 1), (0, 2), (0, 3), (1, 2), (4, 5), (5, 6)), strict=True)
    return Comparisons.from_columns(list("abcdefg"), left, right, [1, -1] * 3, person=[0] * 6)


COIN = {"epsilon": 3, "delta": "1e-2", "graph": "public", "pairs": 3}


def test_identical_requests_under_a_public_graph_give_the_stored_answer(tmp_path):
    """200 of 200, and one debit."""
    ledger = Ledger(tmp_path / "ledger.db")
    same = {**COIN, "account": Account(ledger, "poll", budget=(3, "1e-2"), request_id="once")}
    texts = {scores_to_json(private_scores(star_or_path(), **same)) for _ in range(200)}
    assert len(texts) == 1
    assert len(ledger.debits("poll")) == 1


def test_the_debit_under_a_public_graph_does_not_depend_on_what_is_drawn():
    releases = [private_scores(star_or_path(), **COIN, bits=InsecureBits(seed=seed)) for seed in range(20)]
    assert len({(release.guarantee.delta, release.value.rows_noise, release.event) for release in releases}) == 1
    assert len({release.value.answers for release in releases}) > 1  # though the draws differ

"""Scores from reports: the limit of no noise, the score equations, clustering, flags, and rows of bad luck."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulated_reports import randomise_columns, simulate_population

from psephos import fit_reports, fit_scores
from psephos.errors import DataError, ParameterError
from psephos.local import Answer, Report, ReportColumns, columns, write_reports
from psephos.local import fit as module
from psephos.local.columns import Kind
from psephos.local.debias import kind_weights, pair_sums
from psephos.profile import Comparisons
from psephos.scores import LOGISTIC, NORMAL, symmetric_link

CAUCHY = symmetric_link(lambda x: 0.5 + np.arctan(x) / np.pi, lambda x: 1 / (np.pi * (1 + x * x)), name="cauchy")


def said(*sides, epsilon="800", items=("a", "b", "c"), record=None):
    """Reports (left, right, +1 or -1) at an epsilon: at 800 they are the truth."""
    eps = Fraction(epsilon)
    n = len(sides)
    return ReportColumns(
        items=tuple(items),
        left=np.array([side[0] for side in sides]),
        right=np.array([side[1] for side in sides]),
        reported=np.array([side[2] for side in sides]),
        record=np.arange(n) if record is None else np.array(record),
        kind=np.zeros(n, dtype=int),
        kinds=(Kind(unit="comparison", mechanism="binary", epsilon_answer=eps, epsilon_person=eps),),
        secure=True,
    )


@pytest.mark.parametrize("link", [LOGISTIC, NORMAL, CAUCHY])
@pytest.mark.parametrize("sampling", ["clustered", "independent"])
def test_without_noise_it_is_the_fit_to_the_comparisons(link, sampling):
    """At epsilon 800 nothing is changed: scores, covariance and regularisation are those of the non-private fit."""
    table = simulate_population(
        [1, 0.5, 0, -0.5, -1], people=400, pairs=4, epsilon=800, opinions="independent", rng=np.random.default_rng(7)
    )
    data = Comparisons.from_columns(table.items, table.left, table.right, table.reported, person=table.record)
    private, plain = (
        fit_reports(table, link=link, sampling=sampling),
        fit_scores(data, link=link, sampling=sampling),
    )
    np.testing.assert_allclose(private.scores, plain.scores, atol=1e-9)
    if sampling == "independent":
        np.testing.assert_allclose(private.covariance, plain.covariance, rtol=1e-9, atol=1e-12)
    else:  # made up for the fit to 400 people, by a little
        ratio = private.errors / plain.errors
        assert (ratio >= 1).all()
        assert (ratio < 1.003).all()
    assert private.regularisation == pytest.approx(plain.regularisation, rel=1e-12)
    assert private.separated == plain.separated == ()


@pytest.mark.parametrize("weights", ["uniform", "adaptive"])
@pytest.mark.parametrize("link", [LOGISTIC, NORMAL])
def test_the_score_equations_hold(weights, link):
    table = simulate_population(
        np.linspace(1, -1, 8), people=3_000, pairs=3, epsilon=["0.5", 2], link=link, rng=np.random.default_rng(8)
    )
    fit = fit_reports(table, weights=weights, link=link)
    sums = pair_sums(table, weights=weights)
    n = sums.table(sums.answers)
    x = fit.scores[:, None] - fit.scores[None, :]
    expected = (n * link.cdf(x)).sum(axis=1)
    wins = sums.wins() - 2 * fit.regularisation * fit.scores
    surplus = (wins - expected) - (wins - expected).mean()
    assert np.abs(surplus).max() <= 1e-8
    assert fit.status == "converged"
    assert fit.scores.sum() == pytest.approx(0, abs=1e-9)


def plain_covariance_of_wins(table, theta, weights, link):
    """J by a loop over people and answers."""
    w = kind_weights(table, weights)
    total = np.zeros((table.m, table.m))
    independent = np.zeros_like(total)
    for p in range(table.records):
        r = np.zeros(table.m)
        for i in np.flatnonzero(table.record == p):
            u, v, k = table.left[i], table.right[i], table.kind[i]
            a = table.kinds[k].attenuation
            expected = float(link.cdf(np.array(theta[u] - theta[v])))
            surprise = w[k] * (0.5 + table.reported[i] / (2 * a) - expected)
            r[u] += surprise
            r[v] -= surprise
            e = np.zeros(table.m)
            e[u], e[v] = 1, -1
            independent += w[k] ** 2 * (1 / (4 * a**2) - (expected - 0.5) ** 2) * np.outer(e, e)
        total += np.outer(r, r)
    of = [len({int(p) for p, *sides in zip(table.record, table.left, table.right, strict=True) if u in sides}) for u in
          range(table.m)]  # fmt: skip
    few = 1 / np.sqrt(of)
    return total + few[:, None] * independent * few, independent


@pytest.mark.parametrize("pairs", [1, 3, None])
@pytest.mark.parametrize("weights", ["uniform", "adaptive"])
@pytest.mark.parametrize("small", [False, True])
def test_the_covariance_of_the_wins_is_that_of_a_plain_loop(monkeypatch, pairs, weights, small):
    """Each way of adding up: an answer a person, dense rows, sparse rows; one block and many."""
    table = simulate_population(
        np.linspace(1, -1, 6),
        people=60,
        pairs=pairs,
        epsilon=["0.5", 2],
        opinions="ranking",
        rng=np.random.default_rng(9),
    )
    theta = np.linspace(0.8, -0.8, 6)
    clustered, independent = plain_covariance_of_wins(table, theta, weights, LOGISTIC)
    if small:
        monkeypatch.setattr(columns, "BLOCK", 7)
        monkeypatch.setattr(module, "_DENSE_RESIDUALS", 1)
    sums, w = pair_sums(table, weights=weights), kind_weights(table, weights)
    model = module._independent(sums, theta, LOGISTIC)
    np.testing.assert_allclose(model, independent, rtol=1e-9, atol=1e-9)
    few = 1 / np.sqrt(module._people_of_items(table))
    model = few[:, None] * model * few
    found = module._clustered(table, w, theta, LOGISTIC) + model
    np.testing.assert_allclose(found, clustered, rtol=1e-9, atol=1e-9)
    singles, rows = module._clustered_sparse(table, w, theta, LOGISTIC)
    products = singles.toarray() + (0 if rows is None else (rows.T @ rows).toarray())
    np.testing.assert_allclose(products + model, clustered, rtol=1e-9, atol=1e-9)


def test_m1_separated_reports():
    fit = fit_reports(said((0, 1, 1), (1, 2, 1), (0, 2, 1)))
    assert fit.order == (0, 1, 2)
    assert fit.separated == ((0,), (2,))
    assert np.isfinite(fit.scores).all()
    assert fit.regularisation > 0


def test_m2_components_of_reports():
    fit = fit_reports(said((0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1), items=("a", "b", "c", "d")))
    assert fit.components == ((0, 1), (2, 3))
    errors = fit.difference_errors()
    assert np.isinf(errors[:2, 2:]).all()
    assert np.isfinite(errors[0, 1])
    assert fit.separated == ()


def test_m4_nothing_and_one_item():
    with pytest.raises(DataError, match="nothing to rank"):
        fit_reports([])
    two = fit_reports(said(*[(0, 1, 1)] * 7, *[(0, 1, -1)] * 3, items=("a", "b")))
    assert two.scores[0] - two.scores[1] == pytest.approx(np.log(7 / 3), rel=0.01)
    exact = fit_reports(said(*[(0, 1, 1)] * 7, *[(0, 1, -1)] * 3, items=("a", "b")), regularisation=0)
    assert exact.scores[0] - exact.scores[1] == pytest.approx(np.log(7 / 3), abs=1e-9)


def test_m8_coins_alone_give_equal_scores():
    fit = fit_reports(said(*[(i, j, s) for i, j in combinations(range(3), 2) for s in (1, -1)], epsilon="1"))
    np.testing.assert_allclose(fit.scores, 0, atol=1e-12)
    assert fit.separated == ()


@pytest.mark.parametrize("link", [LOGISTIC, NORMAL])
def test_m19_debiased_wins_may_be_negative(link):
    """Three reports at epsilon .1: wins of -9 out of 2 answers. Finite, with huge intervals."""
    table = said((0, 1, 1), (1, 2, 1), (0, 2, 1), epsilon="0.1")
    assert pair_sums(table).wins().min() < 0
    fit = fit_reports(table, link=link)
    assert np.isfinite(fit.scores).all()
    assert np.isfinite(fit.intervals).all()
    assert (np.diff(fit.intervals, axis=1) > 10).all()
    assert fit.separated == ((0,), (2,))


def test_m18_many_items_and_three_people():
    m = 200
    every = list(combinations(range(m), 2))
    table = randomise_columns(
        [str(i) for i in range(m)],
        [a for _ in range(3) for a, _ in every],
        [b for _ in range(3) for _, b in every],
        [1] * (3 * len(every)),
        epsilon=2,
        record=np.repeat(np.arange(3), len(every)),
        rng=np.random.default_rng(1),
    )
    fit = fit_reports(table)
    assert np.isfinite(fit.scores).all()
    assert np.isfinite(fit.errors).all()
    assert stats.spearmanr(fit.scores, -np.arange(m)).statistic > 0.9


def violating(sums):
    """All sets of items whose margin against the rest is at least the number of answers between them."""
    found = []
    for size in range(1, sums.m):
        for chosen in combinations(range(sums.m), size):
            inside = np.isin(np.arange(sums.m), chosen)
            across = inside[sums.first] != inside[sums.second]
            sign = np.where(inside[sums.first], 1.0, -1.0)
            answers = sums.answers[across].sum()
            if across.any() and (sign * sums.margin)[across].sum() >= answers * (1 - 1e-12):
                found.append(set(chosen))
    return found


@settings(max_examples=60)
@given(st.integers(2, 5), st.integers(3, 40), st.integers(0, 10**6), st.sampled_from(["1", "2", "800"]))
def test_separation_is_found_where_any_set_of_items_has_it(m, n, seed, epsilon):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, m, n)
    right = (left + rng.integers(1, m, n)) % m
    table = randomise_columns([str(i) for i in range(m)], left, right, rng.choice([-1, 1], n), epsilon=epsilon, rng=rng)
    fit = fit_reports(table, regularisation=1e-4)
    sets = violating(pair_sums(table))
    named = {frozenset(group) for group in fit.separated}
    for component in map(set, fit.components):
        own = [chosen for chosen in sets if chosen < component]
        groups = [set(group) for group in named if group <= component]
        assert bool(groups) == bool(own)
        assert all(group in own or component - group in own for group in groups)  # each has what it is named for


@pytest.mark.parametrize("opinions", ["independent", "ranking"])
def test_a_table_too_large_to_be_dense(monkeypatch, opinions):
    from psephos.local import debias
    from psephos.scores import answers

    table = simulate_population(
        np.linspace(1, -1, 40), people=4_000, pairs=6, epsilon=3, opinions=opinions, rng=np.random.default_rng(10)
    )
    dense = fit_reports(table)
    for place in (debias, module, answers):
        monkeypatch.setattr(place, "DENSE_ITEMS", 10)
    sparse = fit_reports(table)
    assert sparse.covariance is None
    np.testing.assert_allclose(sparse.scores, dense.scores, atol=1e-7)
    np.testing.assert_allclose(sparse.errors, dense.errors, rtol=0.05)


def test_a_file_gives_what_reports_in_memory_give(tmp_path):
    rng = np.random.default_rng(11)
    many = [
        Report(
            epsilon=Fraction(int(rng.integers(1, 4))),
            unit="person",
            mechanism="binary",
            secure=True,
            answers=tuple(
                Answer(a, b, "left" if rng.random() < 0.6 else "right") for a, b in (("x", "y"), ("y", "z"), ("x", "z"))
            ),
        )
        for _ in range(50)
    ]
    write_reports(tmp_path / "r.jsonl", many)
    in_memory, from_file = fit_reports(many), fit_reports(tmp_path / "r.jsonl")
    np.testing.assert_array_equal(in_memory.scores, from_file.scores)
    np.testing.assert_array_equal(in_memory.covariance, from_file.covariance)
    assert in_memory.items == ("x", "y", "z")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"link": "cauchy"}, "link must be"),
        ({"sampling": "some"}, "sampling must be"),
        ({"level": 1.0}, "level must be"),
        ({"weights": "epsilon"}, "weights must be"),
        ({"regularisation": -1}, "regularisation must be"),
    ],
)
def test_parameters(change, message):
    with pytest.raises(ParameterError, match=message):
        fit_reports(said((0, 1, 1)), **change)


def coverage(*, populations, seed, pairs, opinions, people, epsilon, sampling, level=0.95):
    theta = np.linspace(1, -1, 5)
    rng = np.random.default_rng(seed)
    inside = np.zeros(5)
    for _ in range(populations):
        table = simulate_population(
            theta, people=people, pairs=pairs, epsilon=epsilon, opinions=opinions, unit="comparison", rng=rng
        )
        ends = fit_reports(table, sampling=sampling, level=level).intervals
        inside += (ends[:, 0] <= theta) & (theta <= ends[:, 1])
    return inside / populations


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "opinions", "people"), [(1, "independent", 3_000), (None, "ranking", 300)])
def test_intervals_cover(pairs, opinions, people):
    found = coverage(
        populations=600,
        seed=12,
        pairs=pairs,
        opinions=opinions,
        people=people,
        epsilon=["0.5", 2],
        sampling="clustered",
    )
    assert 0.93 <= found.mean() <= 0.97
    assert found.min() >= 0.91
    assert found.max() <= 0.985


@pytest.mark.slow
def test_answers_of_one_person_taken_as_independent_cover_too_little():
    found = coverage(
        populations=300, seed=13, pairs=None, opinions="ranking", people=300, epsilon=4, sampling="independent"
    )
    assert found.mean() < 0.88


def test_a_report_that_says_nothing_joins_nothing():
    """Two polls that nothing compares stay apart, whoever sends one report of next to no weight between them."""
    rng = np.random.default_rng(14)
    n = 600
    left, right = np.repeat([0, 2], n), np.repeat([1, 3], n)
    outcome = np.where(rng.random(2 * n) < 0.7, 1, -1)
    for epsilon in ("1e-17", "0.001"):
        table = randomise_columns(
            ["a1", "a2", "b1", "b2"],
            np.append(left, 0),
            np.append(right, 2),
            np.append(outcome, 1),
            epsilon=[2, epsilon],
            choice=np.append(np.zeros(2 * n, dtype=int), 1),
            rng=rng,
        )
        fit = fit_reports(table)
        assert (fit.difference_errors()[:2, 2:] > 100).all()
        sets = fit.rank_intervals(rng=np.random.default_rng(1), draws=999)
        assert sets.high[0] >= 3


def test_weakly_joined_groups_are_covered():
    """Two pairs with 10,000 answers each, joined by 10: regularisation must not pass for knowledge."""
    rng = np.random.default_rng(15)
    theta = np.array([1.25, 0.75, -0.75, -1.25])
    left, right = np.repeat([0, 2, 0], [10_000, 10_000, 10]), np.repeat([1, 3, 2], [10_000, 10_000, 10])
    inside = 0
    for _ in range(300):
        outcome = np.where(rng.random(len(left)) < 1 / (1 + np.exp(theta[right] - theta[left])), 1, -1)
        fit = fit_reports(randomise_columns(list("abcd"), left, right, outcome, epsilon=2, rng=rng))
        low, high = fit.difference_intervals()[0, 2]
        inside += low <= 2 <= high
    assert inside >= 0.87 * 300


def test_freedom_counts_people():
    """Like people: one less than there are. An answer each: the variance is known. Some of each: of those who count."""
    rng = np.random.default_rng(16)
    options = {"epsilon": 4, "opinions": "ranking", "unit": "comparison", "rng": rng}
    ballots = simulate_population(np.linspace(1, -1, 6), people=22, pairs=None, **options)
    np.testing.assert_allclose(fit_reports(ballots).freedom, 21)
    single = simulate_population(np.linspace(1, -1, 6), people=500, pairs=1, **options)
    assert np.isinf(fit_reports(single).freedom).all()
    assert fit_reports(single, sampling="independent").freedom is None
    m = 6
    every = list(combinations(range(m), 2))
    crowd = [every[i] for i in rng.integers(0, len(every), 2000)]
    record = np.concatenate([np.repeat(np.arange(8), len(every)), 8 + np.arange(len(crowd))])
    pairs = every * 8 + crowd
    mixed = randomise_columns(
        [str(i) for i in range(m)],
        [a for a, _ in pairs],
        [b for _, b in pairs],
        rng.choice([-1, 1], len(pairs)),
        epsilon=4,
        record=record,
        rng=rng,
    )
    freedom = fit_reports(mixed).freedom
    assert (freedom > 100).all()  # the crowd's answers are independent and outweigh eight people
    assert np.isfinite(freedom).all()


def test_one_person_alone_gives_wide_intervals():
    table = simulate_population(
        np.linspace(1, -1, 5), people=1, pairs=None, epsilon=4, opinions="ranking", rng=np.random.default_rng(2)
    )
    fit = fit_reports(table)
    np.testing.assert_allclose(fit.freedom, 1)
    widths = np.diff(fit.intervals, axis=1)[:, 0]
    assert (widths > 20 * fit.errors).all()  # Student's quantile with one degree of freedom is 12.7


@pytest.mark.slow
def test_few_people_are_covered_and_normal_quantiles_would_not_do():
    """22 people who answer all pairs by one ranking: rank sets of equal items and intervals."""
    m, populations = 10, 400
    rng = np.random.default_rng(17)
    inside, ranked, normal = np.zeros(m), 0, 0
    for _ in range(populations):
        table = simulate_population(
            np.zeros(m), people=22, pairs=None, epsilon=4, opinions="ranking", unit="comparison", rng=rng
        )
        fit = fit_reports(table)
        inside += (fit.intervals[:, 0] <= 0) & (fit.intervals[:, 1] >= 0)
        sets = fit.rank_intervals(rng=rng, draws=999)
        ranked += all(low == 1 and high == m for low, high in zip(sets.low, sets.high, strict=True))
        plain = replace(fit, freedom=None).rank_intervals(rng=rng, draws=999)
        normal += all(low == 1 and high == m for low, high in zip(plain.low, plain.high, strict=True))
    assert 0.93 <= inside.mean() / populations <= 0.98
    assert ranked >= 0.93 * populations
    assert normal < 0.93 * populations


@pytest.mark.parametrize("knowing", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 4))])
def test_an_item_that_few_people_know_is_not_certain(knowing):
    """All answers about the last item come from a few people, whom its score follows; a crowd answers on the rest."""
    m, crowd, runs = 6, 1500, 120
    rng = np.random.default_rng(18)
    inside = 0
    for _ in range(runs):
        others = np.array([rng.choice(m - 1, 2, replace=False) for _ in range(crowd)])
        left = np.concatenate([others[:, 0], np.full(knowing * (m - 1), m - 1)])
        right = np.concatenate([others[:, 1], np.tile(np.arange(m - 1), knowing)])
        person = np.concatenate([np.arange(crowd), crowd + np.repeat(np.arange(knowing), m - 1)])
        utility = rng.gumbel(size=(crowd + knowing, m))  # a person answers by one ranking of equal items
        outcome = np.where(utility[person, left] > utility[person, right], 1, -1)
        table = randomise_columns([str(i) for i in range(m)], left, right, outcome, epsilon=3, record=person, rng=rng)
        low, high = fit_reports(table).intervals[-1]
        inside += low <= 0 <= high
    assert inside >= 0.88 * runs


def poll_with_liars(declared, liars, lie, *, people=5_000):
    """People at one epsilon, of whom some answer that the best of five items lost, and declare another epsilon."""
    rng = np.random.default_rng(1)
    theta = np.linspace(1, -1, 5)
    left = rng.integers(0, 5, people)
    right = (left + rng.integers(1, 5, people)) % 5
    reported = np.where(rng.random(people) < 1 / (1 + np.exp(theta[right] - theta[left])), 1, -1)
    reported = np.where(rng.random(people) < 1 / (1 + np.exp(declared)), -reported, reported)
    kind = np.zeros(people, dtype=int)
    bad = rng.choice(people, liars, replace=False)
    left[bad], right[bad], reported[bad], kind[bad] = 0, rng.integers(1, 5, liars), -1, 1
    kinds = tuple(
        Kind(unit="person", mechanism="binary", epsilon_answer=Fraction(eps), epsilon_person=Fraction(eps))
        for eps in (str(declared), lie)
    )
    return ReportColumns(
        items=tuple("abcde"),
        left=left,
        right=right,
        reported=reported,
        record=np.arange(people),
        kind=kind,
        kinds=kinds,
        secure=True,
    )


@pytest.mark.parametrize(("weights", "lie"), [("adaptive", "800"), ("uniform", "1e-9")])
def test_a_few_who_declare_another_epsilon_weigh_no_more_than_the_others(weights, lie):
    """100 of 5,000 at epsilon .25 who declare 800: the best item was last. Now they do what they could at .25."""
    table = poll_with_liars(0.25, 100, lie)
    full = fit_reports(table, weights=weights, max_epsilon=800)
    assert full.order[-1] == 0  # whoever allows 800 gives it its weight
    limited = fit_reports(table, weights=weights)
    honest = fit_reports(poll_with_liars(0.25, 100, "0.25"), weights=weights)
    assert limited.order[-1] != 0
    np.testing.assert_allclose(limited.scores, honest.scores, atol=0.1)
    np.testing.assert_array_equal(honest.scores, fit_reports(poll_with_liars(0.25, 100, "0.25"), max_epsilon=1).scores)


def test_reports_above_what_the_poll_allowed_are_refused(tmp_path):
    reports = [
        Report(epsilon=Fraction(eps), unit=unit, mechanism="binary", secure=True, answers=answers)
        for eps, unit, answers in [
            (1, "person", (Answer("x", "y", "left"),)),
            (1, "comparison", (Answer("x", "y", "left"), Answer("y", "z", "left"))),
        ]
    ]
    write_reports(tmp_path / "r.jsonl", reports)
    message = "epsilon_person must be at most 1.5, what the poll allowed, got 2"
    for source in (reports, tmp_path / "r.jsonl", ReportColumns.from_reports(reports)):
        with pytest.raises(DataError, match=message) as caught:
            fit_reports(source, max_epsilon="1.5")
        assert caught.value.line == (None if isinstance(source, ReportColumns) else 2)
        assert fit_reports(source, max_epsilon=2).order[0] == 0
    with pytest.raises(ParameterError, match="max_epsilon must be"):
        fit_reports(reports, max_epsilon=0)

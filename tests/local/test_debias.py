"""Debiased estimates: unbiased, with the variance that is stated, for every weighting."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_reports import randomise_columns, simulate_population

from psephos import debias, fit_scores, solve
from psephos.errors import ParameterError
from psephos.local import Answer, Report, ReportColumns
from psephos.local.columns import Kind
from psephos.local.debias import kind_weights, limited_reports, pair_sums


def columns(sides, epsilons, mechanism="binary", items=("a", "b")):
    """One answer a record on (a, b): reported sides +1, -1, 0, each at its own epsilon."""
    menu = sorted(set(epsilons))
    kinds = tuple(
        Kind(unit="comparison", mechanism=mechanism, epsilon_answer=Fraction(e), epsilon_person=Fraction(e))
        for e in menu
    )
    n = len(sides)
    return ReportColumns(
        items=items,
        left=np.zeros(n, dtype=int),
        right=np.ones(n, dtype=int),
        reported=np.array(sides),
        record=np.arange(n),
        kind=np.array([menu.index(e) for e in epsilons]),
        kinds=kinds,
        secure=True,
    )


def probabilities(side, epsilon, mechanism):
    """The law of a report, written out."""
    e = np.exp(float(Fraction(epsilon)))
    outcomes = (1, -1) if mechanism == "binary" else (1, -1, 0)
    return {o: (e if o == side else 1.0) / (e + len(outcomes) - 1) for o in outcomes}


@pytest.mark.parametrize("weights", ["uniform", "adaptive", (0.3, 2.0)])
@pytest.mark.parametrize(("mechanism", "truth"), [("binary", (1, 1, -1)), ("three-outcome", (1, 0, -1))])
def test_unbiased_with_the_stated_variance_by_enumeration(weights, mechanism, truth):
    """Three answers at two epsilons: all reports there can be, with their probabilities."""
    epsilons = ("1/2", "2", "2")
    laws = [probabilities(s, e, mechanism) for s, e in zip(truth, epsilons, strict=True)]
    mean = square = 0.0
    for sides in product(*laws):
        chance = np.prod([law[s] for law, s in zip(laws, sides, strict=True)])
        sums = pair_sums(columns(sides, epsilons, mechanism), weights=weights)
        mean += chance * sums.margin[0]
        square += chance * sums.margin[0] ** 2
    w = kind_weights(columns(truth, epsilons, mechanism), weights)[[0, 1, 1]]
    assert mean == pytest.approx(w @ np.array(truth), abs=1e-12)
    kinds = columns(truth, epsilons, mechanism).kinds
    each = [kinds[i].second_moment(float(s == 0)) - s**2 for i, s in zip((0, 1, 1), truth, strict=True)]
    assert square - mean**2 == pytest.approx((w**2) @ np.array(each), rel=1e-12)


def test_the_document_s_equation_one():
    """z = ((e^eps + 1) y - 1) / (e^eps - 1) for y = 0 and 1."""
    e = np.exp(0.7)
    for side, y in ((1, 1), (-1, 0)):
        sums = pair_sums(columns([side], ["0.7"]))
        assert (1 + sums.margin[0]) / 2 == pytest.approx(((e + 1) * y - 1) / (e - 1), rel=1e-12)


def test_weights_have_mean_one_and_follow_the_squared_attenuation():
    table = columns([1, 1, -1, 1], ["0.5", "4", "4", "4"])
    adaptive = kind_weights(table, "adaptive")
    assert adaptive @ np.array([1, 3]) == pytest.approx(4)
    assert adaptive[1] / adaptive[0] == pytest.approx((np.tanh(2) / np.tanh(0.25)) ** 2)
    assert kind_weights(table, "uniform").tolist() == [1, 1]
    assert kind_weights(table, [3.0, 1.0]).tolist() == [2.0, 2 / 3]


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0], "epsilon"])
def test_m7_weights_that_are_none(weights):
    with pytest.raises(ParameterError, match="weights must be"):
        pair_sums(columns([1, 1], ["1", "2"]), weights=weights)


def test_weights_are_finite_at_the_smallest_epsilon():
    table = columns([1, -1, 1], ["1e-17", "800", "800"])
    for weights in ("uniform", "adaptive"):
        assert np.isfinite(kind_weights(table, weights)).all()
        assert np.isfinite(pair_sums(table, weights=weights).second_moment).all()


@pytest.mark.parametrize("shares", [(0.0, 0.95), (0.5, 0.5)])
def test_the_variance_of_a_pair_follows_its_own_ties(shares):
    """Three outcomes, pairs with and without ties: the stated variance is the simulated one of each pair."""
    rng = np.random.default_rng(4)
    n, runs = 200, 1500
    margins, stated = np.zeros((runs, 2)), np.zeros((runs, 2))
    for run in range(runs):
        ties = np.repeat(np.asarray(shares), n)
        outcome = np.where(rng.random(2 * n) < ties, 0, rng.choice([-1, 1], 2 * n))
        left, right = np.repeat([0, 1], n), np.repeat([1, 2], n)
        table = randomise_columns(["a", "b", "c"], left, right, outcome, epsilon=3, rng=rng, mechanism="three-outcome")
        sums = pair_sums(table)
        margins[run], stated[run] = sums.margin, sums.second_moment
    np.testing.assert_allclose(stated.mean(axis=0), margins.var(axis=0), rtol=5 / np.sqrt(runs / 2))


def test_a_pair_whose_reports_are_all_ties_has_some_variance():
    sums = pair_sums(columns([0, 0], ["1", "1"], "three-outcome"))
    assert sums.second_moment[0] > 0
    assert pair_sums(columns([1, -1], ["1", "1"])).second_moment[0] == pytest.approx(2 / np.tanh(0.5) ** 2, rel=1e-12)


@settings(max_examples=30)
@given(st.integers(2, 7), st.integers(1, 60), st.integers(0, 10**6))
def test_sparse_sums_equal_dense_ones_and_a_plain_loop(m, n, seed):
    from psephos.local import debias as module

    rng = np.random.default_rng(seed)
    left = rng.integers(0, m, n)
    right = (left + rng.integers(1, m, n)) % m
    outcome, choice = rng.choice([-1, 0, 1], n), rng.integers(0, 2, n)
    table = randomise_columns([str(i) for i in range(m)], left, right, outcome, epsilon=[1, 2], rng=rng, choice=choice)
    plain = {}
    weight = kind_weights(table, "adaptive")
    for a, b, s, k in zip(table.left, table.right, table.reported, table.kind, strict=True):
        pair, side = ((a, b), s) if a < b else ((b, a), -s)
        entry = plain.setdefault(tuple(int(x) for x in pair), np.zeros(4))
        r = table.kinds[k].attenuation
        entry += [weight[k], weight[k] * side / r, weight[k] ** 2, weight[k] ** 2 / r**2]
    dense = pair_sums(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DENSE_ITEMS", 1)
        sparse = pair_sums(table)
        wide = sparse.table(sparse.answers).toarray()
    for sums in (dense, sparse):
        assert list(zip(sums.first.tolist(), sums.second.tolist(), strict=True)) == sorted(plain)
        found = np.stack([sums.answers, sums.margin, sums.squares, sums.second_moment], axis=1)
        np.testing.assert_allclose(found, [plain[p] for p in sorted(plain)], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(wide, dense.table(dense.answers))
    np.testing.assert_allclose(dense.wins().sum(), dense.answers.sum())


def test_the_estimate_is_the_common_currency():
    """Kemeny's solver and the score fit take it as they take any other."""
    table = simulate_population(
        [2.0, 0.0, -2.0], people=20_000, epsilon=2, rng=np.random.default_rng(5), items=["a", "b", "c"]
    )
    estimate = debias(table)
    assert solve(estimate.margins).order == (0, 1, 2)
    assert estimate.noise.variances.shape == (3, 3)
    shares = estimate.shares()
    assert shares[0, 2] == pytest.approx(1 / (1 + np.exp(-4)), abs=0.03)
    fit = fit_scores(estimate)
    np.testing.assert_allclose(fit.scores, [2, 0, -2], atol=0.25)
    assert fit.sampling == "independent"


def test_reports_may_be_given_as_they_are():
    one = Report(epsilon="1", unit="person", mechanism="binary", secure=True, answers=(Answer("a", "b", "left"),))
    assert debias([one]).margins[0, 1] == pytest.approx(1 / np.tanh(0.5))
    with pytest.raises(ParameterError, match="items must be those of the columns"):
        debias(ReportColumns.from_reports([one]), items=["a", "c"])


def test_too_many_items_for_a_table():
    table = columns([1], ["1"], items=tuple(str(i) for i in range(2001)))
    with pytest.raises(ParameterError, match="items must be at most 2000"):
        debias(table)


# -- weights by what an epsilon lets through ----------------------------------------------------------------------

RATIO = 0.22782  # adaptive over uniform, half and half at epsilon .5 and 4: 1/mean(r^2) over mean(1/r^2)
BY_EPSILON = 0.23802  # with weights epsilon itself


def squared_error_ratio(weights, *, repetitions, rng):
    """Mean squared error of a pair's mean between equal items, over that with uniform weights; and its error.

    Half of the answers at epsilon .5, half at 4, 200 of each: sums of reports are binomial.
    """
    r = np.tanh(np.array([0.25, 2.0]))
    sums = 2.0 * rng.binomial(200, 0.5, (repetitions, 2)) - 200
    w = np.asarray(weights)
    square = ((sums / r) @ w / (400 * w.mean())) ** 2
    plain = ((sums / r).sum(axis=1) / 400) ** 2
    ratio = square.mean() / plain.mean()
    error = np.std(square - ratio * plain) / plain.mean() / np.sqrt(repetitions)
    return ratio, error


def accepted(weights, rng):
    """Whether the ratio is .228 within .01 and within three standard errors, these being below .003."""
    ratio, error = squared_error_ratio(weights, repetitions=400_000, rng=rng)
    assert error < 0.003
    return abs(ratio - RATIO) <= min(0.01, 3 * error)


def test_adaptive_weights_gain_what_is_claimed_and_weights_of_epsilon_are_rejected():
    rng = np.random.default_rng(20)
    table = columns([1, 1], ["1/2", "4"])
    assert accepted(kind_weights(table, "adaptive"), rng)
    assert not accepted((0.5, 4.0), rng)
    assert not accepted(kind_weights(table, "uniform"), rng)


def test_the_ratios_themselves():
    r2 = np.tanh(np.array([0.25, 2.0])) ** 2

    def variance(w):
        return (w**2 / r2).mean() / w.mean() ** 2

    uniform = variance(np.ones(2))
    assert variance(r2) / uniform == pytest.approx(RATIO, abs=5e-5)
    assert variance(np.array([0.5, 4.0])) / uniform == pytest.approx(BY_EPSILON, abs=5e-5)


@pytest.mark.parametrize(("weights", "other"), [("adaptive", "6"), ("uniform", "1e-9")])
def test_no_answer_weighs_more_than_nine_in_ten_reports_allow(weights, other):
    """The influence w / a of 1 report in 10 is held to the others', that of more is not; equal epsilons stay equal."""
    for number, held in ((0, 0), (2, 2), (3, 0)):
        table = columns([1] * 20, ["1"] * (20 - number) + [other] * number)
        scale = np.array([kind.attenuation for kind in table.kinds])
        influence, full = (kind_weights(table, weights, max_epsilon=most) / scale for most in (None, 6))
        assert limited_reports(table, weights) == held
        if held:
            assert influence.max() == pytest.approx(influence.min())
            assert full.max() > 1.5 * full.min()
        else:
            np.testing.assert_array_equal(influence, full)

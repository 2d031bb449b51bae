import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from psephos import Comparisons, PairwiseEstimate, Profile, read_preflib
from psephos.errors import DataError, ParameterError
from psephos.pairwise import NoiseLaw, PairNoise, PartedNoise, pair_counts, pairwise_margins, said_counts
from psephos.scores import ScoreFit, default_regularisation, fit_scores, rank_intervals, solve_scores

ABC = ["a", "b", "c"]
ABCD = ["a", "b", "c", "d"]


def comparisons(items, text, **columns):
    """Records such as ``ab ba a=b``: the first won; or a tie."""
    left, right, outcome = [], [], []
    for record in text.split():
        left.append(items.index(record[0]))
        right.append(items.index(record[-1]))
        outcome.append(0 if "=" in record else 1)
    return Comparisons.from_columns(items, left, right, outcome, **columns)


def two_items(won=7, lost=3):
    return comparisons(["a", "b"], "ab " * won + "ba " * lost)


def all_finite(fit):
    return all(np.isfinite(x).all() for x in (fit.scores, fit.covariance, fit.residual, fit.loss))


def test_profile_comparisons_and_estimate_agree():
    profile = Profile.from_rankings({("a", "b", "c"): 4, ("b", ("a", "c")): 3, ("c", "a"): 2}, items=ABC)
    for unranked in ("last", "missing"):
        answers = said_counts(profile, unranked=unranked)
        margins = pairwise_margins(profile, unranked=unranked)
        estimate = PairwiseEstimate(items=profile.items, margins=margins, answers=answers)
        one = fit_scores(profile, unranked=unranked, sampling="independent")
        other = fit_scores(estimate)
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.covariance, other.covariance)
        wins = (estimate.answers + estimate.margins).sum(axis=1) / 2
        direct = solve_scores(wins, estimate.answers, regularisation=one.regularisation)
        np.testing.assert_allclose(one.scores, direct.scores, atol=1e-9)
        assert one.regularisation == default_regularisation(3, estimate.answers.sum() / 2)


def as_comparisons(profile, unranked):
    """Every person's answers, pair by pair, tied pairs included."""
    left, right, outcome, person = [], [], [], []
    people = 0
    for ballot, count in profile.ballots():
        places = ballot.places(profile.m)
        for _ in range(count):
            for u in range(profile.m):
                for v in range(u):
                    a, b = places[u], places[v]
                    if not (a or b) or (unranked == "missing" and not (a and b)):
                        continue
                    a, b = a or 99, b or 99
                    left.append(u)
                    right.append(v)
                    outcome.append((a < b) - (a > b))
                    person.append(people)
            people += 1
    persons = tuple(str(p) for p in range(people))
    return Comparisons.from_columns(profile.items, left, right, outcome, person=person, persons=persons)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 5), st.sampled_from(["last", "missing"]), st.sampled_from(["logistic", "normal"]))
def test_ballots_are_the_answers_of_their_people(data, m, unranked, link):
    items = ABCD[:m] if m < 5 else [*ABCD, "e"]
    columns = data.draw(st.lists(st.lists(st.integers(0, m), min_size=m, max_size=m), min_size=1, max_size=6))
    counts = data.draw(st.lists(st.integers(1, 4), min_size=len(columns), max_size=len(columns)))
    profile = Profile.from_places(items, np.array(columns).T, counts, base=1)
    table = as_comparisons(profile, unranked)
    if not table.records:
        with pytest.raises(DataError, match="nothing to rank"):
            fit_scores(profile, unranked=unranked)
        return
    one, other = fit_scores(profile, unranked=unranked, link=link), fit_scores(table, link=link)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-8)
    assert one.sampling == other.sampling == "clustered"
    assert one.component_labels.tolist() == other.component_labels.tolist()
    assert one.separated == other.separated
    # people whose ballots say nothing count as people, and only as such
    if len(np.unique(table.person)) == profile.people:
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-5, atol=1e-9)


def test_two_unranked_items_were_not_compared():
    """A ballot that ranks neither of two items is no tie of theirs: only who ranks one of them says something."""
    few = Profile.from_rankings({("a", "b", "c"): 6, ("a", "c", "b"): 2}, items=ABC)
    many = Profile.from_rankings({("a", "b", "c"): 6, ("a", "c", "b"): 2, ("a",): 1000}, items=ABC)
    one, other = fit_scores(few, regularisation=0.001), fit_scores(many, regularisation=0.001)
    assert one.scores[1] - one.scores[2] == pytest.approx(math.log(3), rel=0.01)
    assert other.scores[1] - other.scores[2] == pytest.approx(math.log(3), rel=0.01)
    assert other.difference_errors()[1, 2] > 0.9 * one.difference_errors()[1, 2]
    # three of three: b lost to a on every ballot, and c was never set against b
    top = fit_scores(Profile.from_rankings({("a",): 5}, items=ABC))
    assert top.scores[1] == pytest.approx(top.scores[2])
    huge = Profile.from_rankings({("a", "b", "c"): 6, ("a",): 10**30}, items=ABC)
    assert said_counts(huge).tolist()[1] == [10**30 + 6, 0, 6]


def test_more_ballots_than_a_block_holds(monkeypatch):
    monkeypatch.setattr("psephos.scores.by_person._BLOCK", 3)
    rng = np.random.default_rng(5)
    places = rng.permuted(np.tile(np.arange(1, 6), (40, 1)), axis=1).T
    profile = Profile.from_places([*ABCD, "e"], places, rng.integers(1, 9, 40))
    assert profile.support > 9
    other = fit_scores(as_comparisons(profile, "last"))
    np.testing.assert_allclose(fit_scores(profile).covariance, other.covariance, rtol=1e-6, atol=1e-12)


def test_ties_are_half_wins():
    tied = fit_scores(comparisons(ABC, "ab ab ba bc bc cb ac ac ca a=b b=c a=c"))
    halves = comparisons(ABC, "ab ab ba bc bc cb ac ac ca ab ba bc cb ac ca", weight=[1] * 9 + [Fraction(1, 2)] * 6)
    np.testing.assert_allclose(tied.scores, fit_scores(halves).scores, atol=1e-9)


def test_weights():
    records = "ab ab ba bc cb cb ac ca"
    repeated = fit_scores(comparisons(ABC, "ab ab ab ab ba bc cb cb ac ca"), regularisation=0)
    weighted = fit_scores(comparisons(ABC, records, weight=[1, 3] + [1] * 6), regularisation=0)
    np.testing.assert_allclose(weighted.scores, repeated.scores, atol=1e-8)
    # one answer of weight 3 is not three answers: the variance of the wins is 9, not 3, times as large
    assert weighted.difference_errors()[0, 1] > 1.1 * repeated.difference_errors()[0, 1]
    # a common factor changes nothing
    for person in (None, [0, 0, 1, 1, 2, 2, 3, 3]):
        plain = fit_scores(comparisons(ABC, records, person=person), regularisation=0)
        scaled = fit_scores(comparisons(ABC, records, person=person, weight=[Fraction(1, 7)] * 8), regularisation=0)
        np.testing.assert_allclose(scaled.scores, plain.scores, atol=1e-7)
        np.testing.assert_allclose(scaled.covariance, plain.covariance, rtol=1e-6, atol=1e-12)
    # a comparison of weight 0 was not made
    ignored = fit_scores(comparisons(ABCD, records + " ad", weight=[1] * 8 + [0]))
    assert ignored.components == ((0, 1, 2), (3,))


def test_sampling_model_is_stated():
    table = comparisons(ABC, "ab bc ca ab", person=[0, 0, 1, 1])
    assert fit_scores(table).sampling == "clustered"
    assert fit_scores(table, sampling="independent").sampling == "independent"
    assert fit_scores(comparisons(ABC, "ab bc ca ab")).sampling == "independent"
    assert fit_scores(PairwiseEstimate.from_data(table)).sampling == "independent"
    for data in (comparisons(ABC, "ab bc ca"), PairwiseEstimate.from_data(table)):
        with pytest.raises(ParameterError, match="do not say who answered"):
            fit_scores(data, sampling="clustered")
    with pytest.raises(ParameterError, match="sampling must be one of"):
        fit_scores(table, sampling="jackknife")


def test_sushi():
    # 5000 complete rankings of ten kinds. Fatty tuna leads and cucumber roll trails (Kamishima, 2003). The answers of
    # one person about ten kinds depend on each other: intervals are up to twice as wide as independence says.
    profile = read_preflib(Path(__file__).parents[1] / "data" / "sushi.soc")
    fit = fit_scores(profile)
    assert [profile.items[u] for u in (fit.order[0], fit.order[-1])] == [profile.items[7], profile.items[9]]
    ratio = fit.errors / fit_scores(profile, sampling="independent").errors
    assert 1.4 < ratio.min() < ratio.max() < 2.4
    assert fit.status == "converged"
    assert fit.separated == ()
    expected = expit(fit.scores[:, None] - fit.scores[None, :]).sum(axis=1) - 0.5
    wins = (pairwise_margins(profile) + pair_counts(profile)).sum(axis=1) / 2
    assert np.abs(5000 * expected + 2 * fit.regularisation * fit.scores - wins).max() < 1e-7


def test_result_reads_as_it_says():
    fit = fit_scores(comparisons(ABC, "ab ab ba bc bc cb ac ac ca"), level=0.9)
    assert isinstance(fit, ScoreFit)
    assert fit.items == ("a", "b", "c")
    assert fit.order == (0, 1, 2)
    assert fit.intervals.shape == (3, 2)
    assert fit.difference_intervals().shape == (3, 3, 2)
    assert (fit.intervals[:, 0] < fit.scores).all()
    assert (fit.scores < fit.intervals[:, 1]).all()
    differences = fit.difference_intervals()
    np.testing.assert_allclose(differences[0, 1], -differences[1, 0, ::-1], atol=1e-12)
    np.testing.assert_allclose(fit.errors**2, np.diagonal(fit.covariance))
    wider = fit_scores(comparisons(ABC, "ab ab ba bc bc cb ac ac ca"), level=0.99)
    assert (wider.intervals[:, 1] > fit.intervals[:, 1]).all()
    assert fit.components == ((0, 1, 2),)
    assert (fit.level, fit.link) == (0.9, "logistic")


def test_loss_is_minus_the_log_likelihood():
    fit = fit_scores(two_items(), regularisation=0)
    assert fit.loss == pytest.approx(-7 * math.log(0.7) - 3 * math.log(0.3) - 10 * math.log(2))


@pytest.mark.parametrize("people", [10**6, 10**30, 10**90])
def test_people_in_any_number(people):
    few = Profile.from_rankings({("a", "b", "c"): 5, ("b", "c", "a"): 3, ("c", "a", "b"): 4}, items=ABC)
    many = Profile.from_rankings(
        {("a", "b", "c"): 5 * people, ("b", "c", "a"): 3 * people, ("c", "a", "b"): 4 * people}, items=ABC
    )
    one, other = fit_scores(few, regularisation=0), fit_scores(many, regularisation=0)
    np.testing.assert_allclose(other.scores, one.scores, atol=1e-8)
    assert other.status == "converged"
    independent = [fit_scores(p, regularisation=0, sampling="independent").covariance for p in (few, many)]
    np.testing.assert_allclose(independent[1] * people, independent[0], rtol=1e-6, atol=1e-12)


def test_one_dissenter_among_many_is_seen():
    profile = Profile.from_rankings({("a", "b"): 10**30, ("b", "a"): 1}, items=["a", "b"])
    fit = fit_scores(profile)
    assert fit.separated == ()  # exact counts, where doubles would round the one away
    assert all_finite(fit)


def test_one_side_always_wins_among_very_many():
    # the curvature of the first difference is 10^-15 of the others': doubles can just hold both
    profile = Profile.from_rankings({("a", "b", "c"): 10**30, ("a", "c", "b"): 10**30}, items=ABC)
    fit = fit_scores(profile)
    assert all_finite(fit)
    assert fit.order[0] == 0
    assert fit.separated == ((0,), (1, 2))


def test_more_people_than_doubles_hold_are_refused():
    profile = Profile.from_rankings({("a", "b"): 10**400, ("b", "a"): 1}, items=["a", "b"])
    with pytest.raises(ParameterError, match="1e100"):
        fit_scores(profile)


def test_noise_widens_intervals_by_its_law():
    table = two_items(700, 300)
    exact = PairwiseEstimate.from_data(table)
    law = NoiseLaw(family="discrete-laplace", scale=Fraction(40))
    noisy = PairwiseEstimate(items=exact.items, margins=exact.margins, answers=exact.answers, noise=law)
    one, other = fit_scores(exact, regularisation=0), fit_scores(noisy, regularisation=0)
    np.testing.assert_allclose(one.scores, other.scores)
    # the margin's noise moves the difference by s / (2 n p (1 - p)): the derivative of the logit
    added = other.difference_errors()[0, 1] ** 2 - one.difference_errors()[0, 1] ** 2
    assert added == pytest.approx(law.variance / (2 * 1000 * 0.21) ** 2, rel=1e-6)


def test_noise_raises_the_default_regularisation():
    exact = PairwiseEstimate.from_data(two_items(700, 300))
    law = NoiseLaw(family="rounded-gaussian", scale=Fraction(100))
    noisy = PairwiseEstimate(items=exact.items, margins=exact.margins, answers=exact.answers, noise=law)
    expected = default_regularisation(2, 1000, variance_factor=1 + law.variance / 1000)
    assert fit_scores(noisy).regularisation == pytest.approx(expected)
    assert fit_scores(exact).regularisation == pytest.approx(default_regularisation(2, 1000))


def test_noise_in_parts_matters_by_its_gradient():
    profile = Profile.from_rankings({("a", "b", "c"): 50, ("b", "c", "a"): 30, ("c", "a", "b"): 40}, items=ABC)
    exact = PairwiseEstimate.from_data(profile)

    def errors(noise):
        return fit_scores(
            PairwiseEstimate(items=exact.items, margins=exact.margins, answers=exact.answers, noise=noise)
        ).errors

    law = NoiseLaw(family="rounded-gaussian", scale=Fraction(20))
    both = errors(PartedNoise(m=3, gradient=law.exact_variance, cyclic=Fraction(7)))
    np.testing.assert_allclose(both, errors(law), rtol=1e-12)
    np.testing.assert_allclose(errors(PartedNoise(m=3, gradient=law.exact_variance, cyclic=None)), both, rtol=1e-12)
    # the wins of simulated tables have the covariance that is used
    rng = np.random.default_rng(1)
    noise = PartedNoise(m=3, gradient=Fraction(9), cyclic=Fraction(100))
    wins = np.array([noise.simulate(rng).sum(axis=1) / 2 for _ in range(4000)])
    np.testing.assert_allclose(np.cov(wins.T), 9 / 4 * (3 * np.eye(3) - 1), atol=0.6)  # standard error .1
    partial = np.array([[0, 5, 0], [5, 0, 5], [0, 5, 0]])
    with pytest.raises(ParameterError, match="every pair"):
        fit_scores(PairwiseEstimate(items=exact.items, margins=exact.margins, answers=partial, noise=noise))


def test_noise_that_differs_from_pair_to_pair():
    profile = Profile.from_rankings({("a", "b", "c"): 50, ("b", "c", "a"): 30, ("c", "a", "b"): 40}, items=ABC)
    exact = PairwiseEstimate.from_data(profile)

    def fit(noise):
        return fit_scores(
            PairwiseEstimate(items=exact.items, margins=exact.margins, answers=exact.answers, noise=noise)
        )

    law = NoiseLaw(family="rounded-gaussian", scale=Fraction(20))
    one, other = fit(law), fit(PairNoise(variances=law.variance * (1 - np.eye(3))))
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-12)
    assert one.regularisation == pytest.approx(other.regularisation, rel=1e-12)
    # noise on the pair of a and b leaves c alone, but for what a and b share
    pair = np.zeros((3, 3))
    pair[0, 1] = pair[1, 0] = 10_000
    added = fit(PairNoise(variances=pair)).errors / fit(NoiseLaw()).errors
    assert added[0] > 2
    assert added[2] < 1.2
    with pytest.raises(ParameterError, match="shape"):
        fit(PairNoise(variances=np.zeros((2, 2))))


def test_estimates_with_unknown_or_odd_answers():
    margins = np.array([[0, 4, 9], [-4, 0, 1], [-9, -1, 0]])
    with pytest.raises(ParameterError, match="not released"):
        fit_scores(PairwiseEstimate(items=("a", "b", "c"), margins=margins))
    # noisy answers may fall to 0 or below, and margins exceed them
    answers = np.array([[0, 10, -3], [10, 0, 0], [-3, 0, 0]])
    fit = fit_scores(PairwiseEstimate(items=("a", "b", "c"), margins=margins, answers=answers))
    assert fit.components == ((0, 1), (2,))
    answers = np.array([[0, 3, 3], [3, 0, 3], [3, 3, 0]])
    estimate = PairwiseEstimate(items=("a", "b", "c"), margins=margins, answers=answers)
    assert all_finite(fit_scores(estimate))
    assert fit_scores(estimate).separated == ((0,), (1, 2))
    with pytest.raises(ParameterError, match="regularisation must be > 0"):
        fit_scores(estimate, regularisation=0)


def test_noise_beyond_any_fit_is_refused_without_regularisation():
    # every item won something, and still a's wins exceed what it could win
    margins = np.array([[0, 90, -4], [-90, 0, 4], [4, -4, 0]])
    answers = 5 * (1 - np.eye(3, dtype=int))
    estimate = PairwiseEstimate(items=("a", "b", "c"), margins=margins, answers=answers)
    assert fit_scores(estimate).separated == ()
    with pytest.raises(ParameterError, match="noisy wins exceed"):
        fit_scores(estimate, regularisation=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"link": "probit"}, "link must be one of"),
        ({"regularisation": -1}, "regularisation"),
        ({"regularisation": np.nan}, "regularisation"),
        ({"level": 1}, "level"),
        ({"level": 95}, "level"),
        ({"unranked": "first"}, "unranked"),
    ],
)
def test_refused_parameters(arguments, message):
    profile = Profile.from_rankings({("a", "b"): 2, ("b", "a"): 1}, items=["a", "b"])
    with pytest.raises(ParameterError, match=message):
        fit_scores(profile, **arguments)


def test_refused_data():
    with pytest.raises(ParameterError, match="data must be a Profile"):
        fit_scores(np.zeros((2, 2)))


def test_rank_intervals_of_a_fit():
    fit = fit_scores(comparisons(ABC, "ab " * 80 + "ba " * 20 + "bc " * 55 + "cb " * 45 + "ac " * 80 + "ca " * 20))
    sets = fit.rank_intervals(rng=np.random.default_rng(1))
    assert (sets.low, sets.high, sets.tiers, sets.level) == ((1, 2, 2), (1, 3, 3), ((0,), (1, 2)), 0.95)
    assert sets.top(1).inside == (0,)
    assert sets == rank_intervals(fit.scores, fit.covariance, rng=np.random.default_rng(1))
    assert fit.rank_intervals(rng=np.random.default_rng(1), draws=99).draws == 99
    with pytest.raises(ParameterError, match="at least 19 draws"):
        fit.rank_intervals(rng=np.random.default_rng(1), draws=18)


def test_ranks_across_components_are_never_sure():
    # a beats b and c beats d for certain; nothing joins the two pairs, and e met nobody
    abcde = [*ABCD, "e"]
    fit = fit_scores(comparisons(abcde, "ab " * 900 + "ba " * 100 + "cd " * 999 + "dc"))
    sets = fit.rank_intervals(rng=np.random.default_rng(1))
    assert (sets.low, sets.high) == ((1, 2, 1, 2, 1), (4, 5, 4, 5, 5))
    assert sets.tiers == (fit.order,)
    assert sets.top(1).inside == ()
    assert sets.top(1).outside == (1, 3)
    assert sets.top(4).inside == (0, 2)
    # what cannot be compared costs the rest nothing: q is that of two differences, not of ten
    assert 2.1 < sets.quantile < 2.35
    apart = fit_scores(comparisons(ABC, "ab ba")).rank_intervals(rng=np.random.default_rng(1))
    assert (apart.low, apart.high) == ((1, 1, 1), (3, 3, 3))


# Cases by the name of their row in the table of inputs that break such software.


def test_m1_separated():
    fit = fit_scores(comparisons(ABC, "ab bc ac"))
    assert all_finite(fit)
    assert fit.order == (0, 1, 2)
    assert fit.separated == ((0,), (2,))
    assert fit.regularisation > 0
    assert (fit.errors > 1).all()  # the regulariser decides how far they lie apart, and intervals are wide
    with pytest.raises(ParameterError, match=r"\(a\) won, or lost, all comparisons"):
        fit_scores(comparisons(ABC, "ab bc ac"), regularisation=0)
    sets = fit_scores(comparisons(ABCD, "ab ba cd dc ac ad bc bd"))
    assert sets.separated == ((0, 1), (2, 3))


def test_m2_two_components():
    fit = fit_scores(comparisons(ABCD, "ab ba cd dc"))
    assert fit.components == ((0, 1), (2, 3))
    assert fit.separated == ()
    assert fit.scores.tolist() == [0, 0, 0, 0]
    intervals = fit.difference_intervals()
    assert (np.isinf(intervals[:2, 2:])).all()
    assert (np.isinf(intervals[2:, :2])).all()
    assert np.isfinite(intervals[0, 1]).all()
    assert np.isfinite(intervals[2, 3]).all()
    assert not np.isnan(intervals).any()
    with pytest.raises(ParameterError, match="2 groups that were never compared"):
        fit_scores(comparisons(ABCD, "ab ba cd dc"), regularisation=0)
    alone = fit_scores(comparisons(ABC, "ab ba"))
    assert alone.intervals[2].tolist() == [-np.inf, np.inf]


def test_m3_sides_do_not_matter():
    rng = np.random.default_rng(3)
    left = rng.integers(0, 4, 200)
    right = (left + rng.integers(1, 4, 200)) % 4
    one = Comparisons.from_columns(ABCD, left, right, np.ones(200, dtype=int))
    swap = rng.random(200) < 0.5
    other = Comparisons.from_columns(
        ABCD, np.where(swap, right, left), np.where(swap, left, right), np.where(swap, -1, 1)
    )
    np.testing.assert_array_equal(fit_scores(one).scores, fit_scores(other).scores)
    np.testing.assert_array_equal(fit_scores(one).covariance, fit_scores(other).covariance)
    # a winner column that is all left is no evidence: the item named first wins as often as its answers say
    assert fit_scores(one).separated == ()
    expected = solve_scores(
        np.bincount(left, minlength=4), pair_counts(one), regularisation=fit_scores(one).regularisation
    ).scores
    np.testing.assert_allclose(fit_scores(one).scores, expected, atol=1e-8)


def test_m4_nothing_one_and_two():
    with pytest.raises(DataError, match="nothing to rank"):
        fit_scores(Comparisons.from_columns(["a", "b"], [], [], []))
    with pytest.raises(DataError, match="nothing to rank"):
        fit_scores(Profile.from_ballots([], []))
    for person in (None, []):
        single = fit_scores(Comparisons.from_columns(["a"], [], [], [], person=person))
        assert (single.scores.tolist(), single.order, single.intervals.tolist()) == ([0], (0,), [[0, 0]])
    for regularisation in (None, 0):
        assert fit_scores(Profile.from_ballots(["a"], []), regularisation=regularisation).scores.tolist() == [0]
    exact, default = fit_scores(two_items(), regularisation=0), fit_scores(two_items())
    assert exact.scores[0] - exact.scores[1] == pytest.approx(math.log(7 / 3), abs=1e-8)
    assert 0.99 < (default.scores[0] - default.scores[1]) / math.log(7 / 3) < 1


def test_m6_items_outside():
    for item in (-1, 2):
        with pytest.raises(DataError, match="an item must be 0 to 1"):
            Comparisons.from_columns(["a", "b"], [0, item], [1, 0], [1, 1])


def test_m7_bad_weights():
    for weight in ([1, -1, 1], [1, float("nan"), 1], [1, float("inf"), 1]):
        with pytest.raises(DataError, match="weight:2"):
            comparisons(ABC, "ab bc ca", weight=weight)
    with pytest.raises(DataError, match="nothing to rank"):
        comparisons(ABC, "ab bc ca", weight=[0, 0, 0])
    with pytest.raises(ParameterError, match="one entry a record"):
        comparisons(ABC, "ab bc ca", weight=[1, 1])


@pytest.mark.parametrize(
    "data",
    [
        comparisons(ABC, "a=b b=c a=c"),
        Profile.from_rankings({("a", "b", "c"): 1, ("c", "b", "a"): 1}, items=ABC),
        Profile.from_rankings({(("a", "b", "c"),): 5}, items=ABC),
    ],
)
def test_m8_all_tied(data):
    fit = fit_scores(data)
    assert fit.scores.tolist() == [0, 0, 0]
    assert fit.separated == ()
    assert (fit.errors > 0).all()
    assert fit_scores(data, regularisation=0).scores.tolist() == [0, 0, 0]


def test_m11_an_item_in_one_comparison():
    fit = fit_scores(comparisons(ABC, "ab " * 6 + "ba " * 4 + "bc"))
    assert fit.separated == ((0, 1), (2,))
    assert all_finite(fit)
    assert np.isfinite(fit.difference_intervals()).all()
    assert (fit.intervals[:, 0] < fit.scores).all()
    assert (fit.intervals[:, 1] > fit.scores).all()
    assert fit.errors[2] > 1.5 * fit.errors[0]


@pytest.mark.parametrize(
    "data",
    [
        comparisons(["a", "b"], "ab " * 5),
        comparisons(["a", "b"], "ab " * 5, person=list(range(5))),
        Profile.from_rankings({("a", "b"): 5}, items=["a", "b"]),
    ],
)
def test_m12_no_interval_of_width_zero(data):
    fit = fit_scores(data)
    low, high = fit.difference_intervals()[0, 1]
    assert math.isfinite(low)
    assert high - low > 2


@pytest.mark.parametrize("people", [10, 1000, 10**6])
def test_m12_unanimity_is_no_evidence_of_certainty(people):
    # a comes first on every ballot: people agree, and how far a lies ahead is as uncertain as the model makes it
    profile = Profile.from_rankings({("a", "b", "c"): people, ("a", "c", "b"): people}, items=ABC)
    one, other = fit_scores(profile), fit_scores(profile, sampling="independent")
    assert one.separated == ((0,), (1, 2))
    assert (one.errors >= other.errors * (1 - 1e-9)).all()


def test_m12_one_person_is_no_evidence_of_certainty():
    table = comparisons(ABC, "ab ab ba bc bc cb ac ac ca", person=[0] * 9)
    fit = fit_scores(table)
    assert np.isinf(fit.intervals).all()
    assert fit.held_items == (0, 1, 2)
    assert fit.rank_intervals(rng=np.random.default_rng(1)).high == (3, 3, 3)


def test_m14_best_first():
    truth = np.array([0.0, 1.0, 2.0, 100.0])
    answers = np.full((4, 4), 10**6, dtype=object) * (1 - np.eye(4, dtype=int))
    margins = np.zeros((4, 4), dtype=object)
    for u in range(4):
        for v in range(u):
            margins[u, v] = int(10**6 * math.tanh((truth[u] - truth[v]) / 2))
            margins[v, u] = -margins[u, v]
    fit = fit_scores(PairwiseEstimate(items=tuple("wxyz"), margins=margins, answers=answers))
    assert fit.order == (3, 2, 1, 0)
    assert fit.separated == ((0, 1, 2), (3,))


def test_m18_many_items_and_three_ballots():
    rng = np.random.default_rng(18)
    places = np.array([rng.permutation(200) + 1 for _ in range(3)]).T
    names = [f"item {u}" for u in range(200)]
    for link in ("logistic", "normal"):
        fit = fit_scores(Profile.from_places(names, places), link=link)
        assert all_finite(fit)
        assert fit.status == "converged"
        assert np.isfinite(fit.difference_intervals()).all()
    same = fit_scores(Profile.from_places(names, places[:, [0, 0, 0]]))
    assert all_finite(same)
    assert same.order == tuple(np.argsort(places[:, 0]))
    assert (same.errors > 0).all()

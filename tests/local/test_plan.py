"""Plans against hand computation, enumeration of rankings, a plain simulation, and what must hold of any plan.

The simulations compare standard deviations over 400 polls. Their own relative error is about ``1 / sqrt(800 (m - 1))``,
1.8 % for five items, so that a deviation of 10 % has a false-alarm rate below 1e-6.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, studentized_range
from simulated_reports import randomise_columns

from psephos.errors import ParameterError
from psephos.local import attenuation, best_pairs, three_outcome_tie_share
from psephos.local.columns import margin_moments
from psephos.local.fit import fit_reports
from psephos.local.mix import epsilons_text
from psephos.local.plan import plan_local
from psephos.local.predicted import Answering, population, range_quantile, ranking_covariance
from psephos.scores import (
    LOGISTIC,
    NORMAL,
    default_regularisation,
    independent_sampling,
    rank_intervals,
    score_covariance,
    solve_scores,
    symmetric_link,
)
from psephos.scores.links import as_link

GUESS = [1.0, 0.4, 0.1, -0.5, -1.0]
CAUCHY = symmetric_link(lambda x: 0.5 + np.arctan(x) / np.pi, lambda x: 1 / (np.pi * (1 + x * x)), name="cauchy")


# ------------------------------------------------------------------ golden values


def test_two_items_by_hand():
    """One pair: the difference is the logit of a debiased share, Var = V/(4L) / f(0)^2, and each has half of it."""
    plan = plan_local(2, epsilon=1, people=400)
    variance = 1 / math.tanh(0.5) ** 2 / 4 / 400 / 0.25**2
    assert plan.difference_error == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert plan.score_error == pytest.approx(math.sqrt(variance) / 2, rel=1e-12)
    assert plan.rank_quantile == pytest.approx(1.959963984540054, rel=1e-9)
    assert plan.rank_width == pytest.approx(0.95, rel=1e-9)
    assert plan.answers_per_pair == 400
    assert plan.variance_factor == pytest.approx(1 / math.tanh(0.5) ** 2, rel=1e-12)
    assert (plan.pairs, plan.all_pairs_factor, plan.top_chance) == (1, 1.0, None)


def test_two_items_apart_by_hand():
    """theta = +-d/2: the better one is found with probability Phi(d / se)."""
    plan = plan_local(2, epsilon=2, people=100, scores=[0.6, 0.0], top=1)
    f = math.exp(0.6) / (1 + math.exp(0.6)) ** 2
    share = 1 / (1 + math.exp(-0.6))
    se = math.sqrt((1 / math.tanh(1) ** 2 / 4 - (share - 0.5) ** 2) / 100) / f
    assert plan.difference_error == pytest.approx(se, rel=1e-9)
    assert plan.top_chance == pytest.approx(0.5 * math.erfc(-0.6 / se / math.sqrt(2)), abs=1e-9)
    upper, lower = (0.5 * math.erfc(-(x - 0.6 / se) / math.sqrt(2)) for x in (1.959963984540054, -1.959963984540054))
    assert plan.rank_width == pytest.approx(upper - lower, rel=1e-6)


def test_equal_items_by_hand():
    """(m-1)/(2 L f^2) (V/(4k) + (1 - 1/k)/(6(m+1))), times 1 - 1/m about the mean."""
    m, k, people = 7, 3, 1000
    for link, f in (("logistic", 0.25), ("normal", 1 / math.sqrt(2 * math.pi))):
        for answers, shared in (("ranking", (1 - 1 / k) / (6 * (m + 1))), ("independent", 0.0)):
            plan = plan_local(m, epsilon=6, pairs=k, people=people, link=link, answers=answers)
            value = (m - 1) / (2 * people * f**2) * (1 / math.tanh(1) ** 2 / (4 * k) + shared)
            assert plan.score_error == pytest.approx(math.sqrt(value * (1 - 1 / m)), rel=1e-12)
            assert plan.difference_error == pytest.approx(math.sqrt(2 * value), rel=1e-12)


def test_whole_rankings_without_noise_have_the_variance_of_borda_scores():
    """Everyone's whole ranking, nearly without noise: Var(wins)/L = (m^2-1)/12, theta = wins / (m f)."""
    m, people = 6, 500
    plan = plan_local(m, epsilon=40, unit="comparison", pairs=15, people=people)
    borda = (m * m - 1) / 12 / people
    assert plan.score_error == pytest.approx(math.sqrt(borda) / (m * 0.25), rel=1e-9)


def test_mix_and_weights_by_hand():
    """One pair each: uniform has G = mean of 1/a^2, adaptive G = 1 / mean of a^2; three in five hold 1, the rest 4."""
    squares = {1: math.tanh(0.5) ** 2, 4: math.tanh(2) ** 2}
    mix = {1: 0.6, "4": 0.4}
    uniform = plan_local(5, epsilon=mix, people=100, pairs=1, weights="uniform")
    adaptive = plan_local(5, epsilon=mix, people=100, pairs=1)
    assert uniform.variance_factor == pytest.approx(0.6 / squares[1] + 0.4 / squares[4], rel=1e-12)
    assert adaptive.variance_factor == pytest.approx(1 / (0.6 * squares[1] + 0.4 * squares[4]), rel=1e-12)
    ratio = (uniform.score_error / adaptive.score_error) ** 2
    assert ratio == pytest.approx(uniform.variance_factor / adaptive.variance_factor, rel=1e-9)
    assert [group.share for group in adaptive.groups] == [Fraction(3, 5), Fraction(2, 5)]
    assert sum(float(g.share) * g.weight for g in adaptive.groups) == pytest.approx(1)
    assert adaptive.groups[1].weight / adaptive.groups[0].weight == pytest.approx(squares[4] / squares[1])
    assert plan_local(5, epsilon=[(1, 600), (4, 300), ("4.0", 100)], people=100, pairs=1) == adaptive
    free = plan_local(5, epsilon=mix, people=100)
    assert [group.pairs for group in free.groups] == [1, 2]
    with pytest.raises(ParameterError, match="groups"):
        _ = free.pairs


def test_independent_answers_match_the_sandwich_of_the_fit():
    theta = np.array(GUESS)
    plan = plan_local(5, epsilon=3, pairs=4, people=2000, scores=GUESS, answers="independent")
    n = 2000 * 4 / 10 * (1 - np.eye(5))
    noise = (1 / attenuation(Fraction(3, 4)) ** 2 - 1) / 4
    wins = independent_sampling(theta, n)
    wins += noise * (np.diag(n.sum(axis=1)) - n)
    covariance = score_covariance(theta, n, wins_covariance=wins, regularisation=0)
    np.testing.assert_allclose(plan.score_errors, np.sqrt(np.diagonal(covariance)), rtol=1e-8)
    assert plan.score_error == pytest.approx(math.sqrt(np.trace(covariance) / 5), rel=1e-8)


def test_errors_are_those_that_a_fit_to_such_reports_states():
    """One simulated poll of 4,000 people: what a fit says of its own errors varies by a per cent or so."""
    m, people, rng = 8, 4000, np.random.default_rng(4)
    theta = np.linspace(-1, 1, m)
    plan = plan_local(m, epsilon=4, pairs=3, people=people, scores=theta, unit="comparison")
    first, second = np.triu_indices(m, 1)
    asked = drawn(rng, people, 3, len(first))
    u = utilities(rng, theta, people, "logistic")
    rows = np.arange(people)[:, None]
    reports = randomise_columns(
        [f"item {i}" for i in range(m)],
        first[asked].ravel(),
        second[asked].ravel(),
        np.where(u[rows, first[asked]] > u[rows, second[asked]], 1, -1).ravel(),
        epsilon=4,
        record=np.repeat(np.arange(people), 3),
        rng=rng,
    )
    np.testing.assert_allclose(fit_reports(reports).errors, plan.score_errors, rtol=0.05)


@pytest.mark.parametrize("m", [3, 12])
@pytest.mark.parametrize("link", [LOGISTIC, NORMAL])
def test_closed_form_is_the_limit_of_nearly_equal_scores(m, link):
    nudge = np.zeros(m)
    nudge[0] = 1e-7
    for answers in ("ranking", "independent"):
        common = {"epsilon": 4, "people": 900, "link": link, "ties": 0.3, "mechanism": "three-outcome"}
        closed = plan_local(m, answers=answers, **common)
        dense = plan_local(m, answers=answers, scores=nudge, **common)
        for name in ("score_error", "difference_error", "rank_width", "all_pairs_factor", "three_outcome_factor"):
            assert getattr(dense, name) == pytest.approx(getattr(closed, name), rel=1e-6), name


# ------------------------------------------------------------------ oracles


def covariance_beyond_pairs(chances, m):
    """C from the law of a ranking: the covariance of the wins less what the pairs have by themselves."""
    mean, second, share = np.zeros(m), np.zeros((m, m)), np.zeros((m, m))
    for order, chance in chances.items():
        wins = np.zeros(m)
        wins[list(order)] = np.arange(m - 1, -1, -1)
        mean += chance * wins
        second += chance * np.outer(wins, wins)
        for better, worse in itertools.combinations(order, 2):
            share[better, worse] += chance
    alone = share * share.T
    return second - np.outer(mean, mean) - np.diag(alone.sum(axis=1)) + alone


def luce(theta):
    worth = np.exp(theta)
    chances = {}
    for order in itertools.permutations(range(len(theta))):
        left = [worth[list(order[place:])].sum() for place in range(len(order))]
        chances[order] = float(np.prod(worth[list(order)] / left))
    return chances


def thurstone(theta):
    """Three items: a before b before c is a normal orthant."""
    law = multivariate_normal([0, 0], [[1, -0.5], [-0.5, 1]])
    return {
        (a, b, c): law.cdf([theta[a] - theta[b], theta[b] - theta[c]]) for a, b, c in itertools.permutations((0, 1, 2))
    }


@pytest.mark.parametrize("theta", [[0, 0, 0], [1.0, -0.5, 0.3], [0, 0, 0, 0], [2, 0, 0, -1.5], [9, 0, -9]])
def test_ranking_covariance_against_all_rankings(theta):
    theta = np.array(theta, dtype=float)
    chances = luce(theta)
    assert sum(chances.values()) == pytest.approx(1)
    wanted = covariance_beyond_pairs(chances, len(theta))
    np.testing.assert_allclose(ranking_covariance(theta, LOGISTIC), wanted, atol=1e-10)


@pytest.mark.parametrize("theta", [[0, 0, 0], [1.0, -0.5, 0.3], [2, 0.1, 0]])
def test_normal_ranking_covariance_against_orthants(theta):
    theta = np.array(theta, dtype=float)
    wanted = covariance_beyond_pairs(thurstone(theta), 3)
    np.testing.assert_allclose(ranking_covariance(theta, NORMAL), wanted, atol=1e-7)


def test_equal_items_have_the_covariance_of_a_uniform_ranking():
    for m in (2, 5, 40):
        wanted = (m - 2) / 12 * (m * np.eye(m) - 1)
        for link in (LOGISTIC, NORMAL):
            np.testing.assert_allclose(ranking_covariance(np.zeros(m), link), wanted, atol=1e-10)


def test_range_quantile_against_studentized_range():
    for m, level in [(2, 0.5), (3, 0.9), (10, 0.95), (60, 0.99)]:
        assert range_quantile(m, level) == pytest.approx(
            studentized_range.ppf(level, m, np.inf) / math.sqrt(2), rel=1e-4
        )


@pytest.mark.parametrize(("theta", "top"), [(GUESS, 2), ([2, 0.3, 0, -2], 1), (np.linspace(-2, 2, 10), 3)])
def test_top_chance_and_quantile_against_simulated_errors(theta, top):
    """Simulated with 100,000 draws: standard error below .001 for the chance."""
    theta = np.array(theta, dtype=float)
    m = len(theta)
    plan = plan_local(m, epsilon=4, pairs=2, scores=theta, target_top=0.95, top=top)
    crowd = population(m, theta, link=LOGISTIC, ties=0.0, one_ranking=True)
    group = plan.groups[0]
    moment = float(margin_moments(float(group.epsilon_answer), "binary")[0])
    kinds = (Answering(share=1.0, pairs=2, weight=1.0, moment=moment, tied_moment=0.0),)
    covariance = crowd.errors(kinds).covariance / plan.people
    np.testing.assert_allclose(np.sqrt(np.diagonal(covariance)), plan.score_errors, rtol=1e-12)
    rng = np.random.default_rng(5)
    estimates = rng.multivariate_normal(theta, covariance, 100_000, method="eigh")
    best = np.argsort(-theta)
    right = (estimates[:, best[:top]].min(axis=1) > estimates[:, best[top:]].max(axis=1)).mean()
    assert plan.top_chance == pytest.approx(right, abs=0.01)
    ranks = rank_intervals(theta, covariance, rng=rng)
    assert ranks.quantile * 0.99 < plan.rank_quantile < ranks.quantile * 1.03


def test_moments_are_those_of_the_device():
    for epsilon in ("1e-6", "0.3", 1, 5, 40):
        for mechanism in ("binary", "three-outcome"):
            a = attenuation(epsilon, mechanism=mechanism)
            plan = plan_local(3, epsilon=epsilon, pairs=1, people=10, mechanism=mechanism)
            assert plan.groups[0].attenuation == pytest.approx(a, rel=1e-12)
            moment = float(margin_moments(float(epsilon), mechanism)[0])
            if mechanism == "binary":
                assert moment == pytest.approx(1 / a**2, rel=1e-12)
            else:  # a report is not a tie with probability (e + 1)/(e + 2)
                e = math.exp(float(epsilon))
                assert moment == pytest.approx((e + 1) / (e + 2) / a**2, rel=1e-9)


def test_three_outcomes_are_better_above_the_share_of_the_device():
    for epsilon in (1, 2, 5):
        limit = three_outcome_tie_share(epsilon)
        for ties, better in ((0.9 * limit, False), (min(1.1 * limit, 0.999), True)):
            for mechanism in ("binary", "three-outcome"):
                plan = plan_local(6, epsilon=epsilon, pairs=1, people=10, ties=ties, mechanism=mechanism)
                assert (plan.three_outcome_factor > 1) is better
    two, three = (
        plan_local(6, epsilon=3, people=10, ties=0.4, mechanism=mechanism) for mechanism in ("binary", "three-outcome")
    )
    assert (two.score_error / three.score_error) ** 2 == pytest.approx(two.three_outcome_factor, rel=1e-12)
    assert two.three_outcome_factor == pytest.approx(three.three_outcome_factor, rel=1e-12)


# ------------------------------------------------------------------ properties

EPSILONS = st.floats(0.01, 30).map(lambda x: round(x, 3)).filter(lambda x: x > 0)
GUESSES = st.none() | st.lists(st.floats(-1.5, 1.5), min_size=4, max_size=4)
LINKS = st.sampled_from(["logistic", "normal"])


@settings(max_examples=60, deadline=None)
@given(EPSILONS, GUESSES, LINKS, st.sampled_from(["ranking", "independent"]))
def test_best_pairs_are_best(epsilon, guess, link, answers):
    common = {"epsilon": epsilon, "scores": guess, "link": link, "answers": answers, "people": 1000}
    errors = [plan_local(4, pairs=k, **common).score_error for k in range(1, 7)]
    plan = plan_local(4, **common)
    assert plan.score_error <= min(errors) * (1 + 1e-12)
    assert plan.all_pairs_factor == pytest.approx((errors[-1] / plan.score_error) ** 2, rel=1e-9)
    assert plan.all_pairs_factor >= 1
    if guess is None and answers == "independent":
        assert plan.pairs == best_pairs(epsilon, most=6)


@settings(max_examples=60, deadline=None)
@given(EPSILONS, st.integers(1, 10**7), GUESSES, LINKS, st.sampled_from([None, 1, 3]))
def test_more_people_and_more_epsilon_never_hurt(epsilon, people, guess, link, pairs):
    common = {"scores": guess, "link": link, "pairs": pairs, "top": 2}
    plan = plan_local(4, epsilon=epsilon, people=people, **common)
    for more in (
        plan_local(4, epsilon=epsilon, people=2 * people, **common),
        plan_local(4, epsilon=1.5 * epsilon, people=people, **common),
    ):
        assert more.score_error < plan.score_error * (1 + 1e-12)
        assert more.difference_error < plan.difference_error * (1 + 1e-12)
        assert more.answers_per_pair >= plan.answers_per_pair
    twice = plan_local(4, epsilon=epsilon, people=2 * people, **common)
    assert twice.rank_width <= plan.rank_width + 1e-12
    assert plan.top_chance is None or twice.top_chance >= plan.top_chance - 1e-9
    assert 0 <= plan.rank_width <= 3


@settings(max_examples=60, deadline=None)
@given(EPSILONS, st.integers(1, 10**6), GUESSES)
def test_targets_give_back_the_people(epsilon, people, guess):
    plan = plan_local(4, epsilon=epsilon, people=people, scores=guess)
    again = plan_local(4, epsilon=epsilon, target_error=plan.score_error, scores=guess)
    assert again == plan


@pytest.mark.parametrize("goal", ["target_error", "target_top", "target_width"])
@pytest.mark.parametrize("value", [0.8, 0.5, 0.05])
def test_targets_are_reached_by_no_fewer(goal, value):
    common = {"epsilon": 1.5, "scores": GUESS, "top": 2, "pairs": 2}
    plan = plan_local(5, **{goal: value}, **common)
    less = plan_local(5, people=max(plan.people - 1, 1), **common)
    reached = {"target_error": "score_error", "target_top": "top_chance", "target_width": "rank_width"}[goal]
    sign = -1 if goal == "target_top" else 1
    assert sign * getattr(plan, reached) <= sign * value
    if plan.people > 1:
        assert sign * getattr(less, reached) > sign * value


def test_epsilon_of_a_comparison_and_of_a_person_agree():
    person = plan_local(6, epsilon=3, pairs=3, people=100, scores=[0, 1, 0, 0, 1, 0])
    comparison = plan_local(6, epsilon=1, unit="comparison", pairs=3, people=100, scores=[0, 1, 0, 0, 1, 0])
    assert person.score_errors == comparison.score_errors
    assert comparison.all_pairs_factor is None
    assert comparison.groups[0].epsilon_person == person.groups[0].epsilon_person == 3
    assert comparison.groups[0].epsilon_answer == 1


def test_order_of_items_and_level_of_scores_do_not_matter():
    plan = plan_local(5, epsilon=1, people=100, scores=GUESS, top=2)
    moved = plan_local(5, epsilon=1, people=100, scores=[x + 7 for x in GUESS[::-1]], top=2)
    np.testing.assert_allclose(moved.score_errors[::-1], plan.score_errors, rtol=1e-9)
    assert moved.top_chance == pytest.approx(plan.top_chance, rel=1e-9)
    assert moved.rank_width == pytest.approx(plan.rank_width, rel=1e-9)


def test_ties_at_the_cut_leave_the_top_undefined():
    assert plan_local(4, epsilon=1, people=100, top=2).top_chance is None
    assert plan_local(4, epsilon=1, people=100, top=2, scores=[2, 1, 1, 0]).top_chance is None
    assert plan_local(4, epsilon=1, people=100, top=1, scores=[2, 1, 1, 0]).top_chance > 0
    assert plan_local(3, epsilon=1, people=10**9, scores=[1, 0, 0]).rank_width > 0.6


@pytest.mark.parametrize("epsilon", ["1e-17", "1/3", 800])
@pytest.mark.parametrize("scores", [None, [1e-310, 0, 1, 2], [6, 0, -6, 3]])
def test_the_ends_of_all_ranges_give_finite_numbers(epsilon, scores):
    for mechanism, ties, people in itertools.product(("binary", "three-outcome"), (0, 0.999), (1, 10**30)):
        plan = plan_local(4, epsilon=epsilon, mechanism=mechanism, ties=ties, scores=scores, people=people, top=2)
        values = [plan.score_error, plan.difference_error, plan.variance_factor, plan.three_outcome_factor]
        assert all(0 < value < math.inf for value in [*values, plan.all_pairs_factor, *plan.score_errors])
        assert 0 <= plan.rank_width <= 3
        assert plan.top_chance is None or 0 <= plan.top_chance <= 1


def test_many_items_have_closed_forms():
    plan = plan_local(10**6, epsilon=1, people=10**9)
    assert plan.pairs == 1
    assert plan.rank_width == pytest.approx(10**6 - 1)
    large = plan_local(300, epsilon=1, target_error=0.1, scores=np.linspace(-1, 1, 300))
    assert large.score_error <= 0.1


def test_few_people_make_it_rough():
    f = 1 / math.sqrt(2 * math.pi)
    for link, limit in (("logistic", 0.3), ("normal", 0.3 * 0.25 / f)):
        assert not plan_local(5, epsilon=2, target_error=limit, link=link).rough
        assert plan_local(5, epsilon=2, target_error=1.1 * limit, link=link).rough


def test_another_link():
    plan = plan_local(4, epsilon=1, people=100, link=CAUCHY)
    assert plan.link == "cauchy"
    guessed = {"epsilon": 1, "people": 100, "link": CAUCHY, "scores": [1, 0, 0, 0]}
    assert plan_local(4, answers="independent", **guessed).score_error > plan.score_error
    with pytest.raises(ParameterError, match=r"answers must be 'independent'.*'cauchy', got 'ranking'"):
        plan_local(4, **guessed)


def test_assumptions_are_told():
    plain = plan_local(3, epsilon=1, people=10)
    assert "all items are equally good, and the logistic link holds" in plain.assumptions()
    assert "a person answers by one ranking of their own" in plain.assumptions()
    rich = plan_local(3, epsilon={1: 1, 2: 1}, people=10, ties=0.2, scores=[1, 0, 0], answers="independent")
    text = "; ".join(rich.assumptions())
    for words in ("scores are as guessed", "independent of each other", "says nothing", "0.2"):
        assert words in text


def test_curve_is_the_plan_point_by_point():
    common = {"scores": GUESS, "ties": 0.1, "mechanism": "three-outcome"}
    mixes = [0.5, {1: 0.25, 4: 0.75}]
    points = plan_local(5, epsilon=2, people=1, **common).curve(mixes, people=[10, 1000])
    assert [(p.epsilon, p.people) for p in points] == [
        ("0.5", 10), ("0.5", 1000), ("1:0.25,4:0.75", 10), ("1:0.25,4:0.75", 1000),
    ]  # fmt: skip
    for point, (mix, people) in zip(points, itertools.product(mixes, (10, 1000)), strict=True):
        plan = plan_local(5, epsilon=mix, people=people, **common)
        assert point.score_error == pytest.approx(plan.score_error, rel=1e-12)
        assert point.difference_error == pytest.approx(plan.difference_error, rel=1e-12)
        assert point.pairs == tuple(group.pairs for group in plan.groups)
    assert epsilons_text({"1/3": 1, 2: 2}) == "1/3:1/3,2:2/3"


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"items": 1}, "items must be a whole number >= 2 and <= 1000000, got 1"),
        ({"items": 2.0}, "items must be a whole number"),
        ({"epsilon": 0}, "epsilon must be a number from 1e-17 to 800"),
        ({"epsilon": float("nan")}, "epsilon must be .*, got nan"),
        ({"epsilon": [1, 2]}, r"epsilon\[0\] must be \(epsilon, share\), got 1"),
        ({"epsilon": []}, r"epsilon must have at least one entry, got \[\]"),
        ({"epsilon": {1: 0}}, r"epsilon \(share of 1\) must be a finite number > 0, got 0"),
        ({"epsilon": {1: -0.5, 2: 1.5}}, r"epsilon \(share of 1\) must be a finite number > 0, got -0.5"),
        ({"people": 0}, "people must be a whole number >= 1 and <= 10+, got 0"),
        ({"people": 1.5}, "people must be a whole number"),
        ({"people": True}, "people must be a whole number"),
        ({"people": None}, "exactly one of people, target_error, target_top, target_width must be given, got none"),
        ({"target_error": 0.1}, "exactly one of .*, got people, target_error"),
        ({"people": None, "target_error": 0.0}, "target_error must be a number >= 1e-12 and <= 1e.12, got 0"),
        ({"people": None, "target_error": math.nan}, "target_error must be .*, got nan"),
        ({"people": None, "target_error": 1e-12, "epsilon": "1e-17"}, r"target_error must be within reach of 10\*\*30"),
        ({"people": None, "target_top": 1.0, "top": 2, "scores": GUESS}, "target_top must be > 0 and < 1, got 1"),
        ({"people": None, "target_top": 0.9, "scores": GUESS}, "top must be given with target_top.*, got None"),
        ({"people": None, "target_top": 0.9, "top": 2}, "scores must be a guess in which the best 2 stand apart"),
        ({"people": None, "target_width": 5.0}, "target_width must be a number >= 0 and <= 4, got 5"),
        ({"people": None, "target_width": 2.0}, r"target_width must be > 3\.97.*, got 2"),
        ({"people": None, "target_width": 0.0, "scores": GUESS}, "target_width must be > 0 .*, got 0"),
        ({"unit": "household"}, "unit must be one of person, comparison, got 'household'"),
        ({"unit": "comparison"}, "pairs must be given with unit 'comparison'.*got None"),
        ({"pairs": 0}, "pairs must be a whole number >= 1 and <= 10, got 0"),
        ({"pairs": 11}, "pairs must be a whole number >= 1 and <= 10, got 11"),
        ({"mechanism": "laplace"}, "mechanism must be one of binary, three-outcome, got 'laplace'"),
        ({"weights": "best"}, "weights must be one of uniform, adaptive, got 'best'"),
        ({"link": "cloglog"}, "link must be one of logistic, normal, got 'cloglog'"),
        ({"scores": [1, 2]}, "scores must be 5 numbers, one an item, got 2"),
        ({"scores": [1, 2, 3, 4, math.inf]}, "scores must be finite"),
        ({"scores": "abcde"}, "scores must be real numbers"),
        ({"scores": [40, 0, 0, 0, 0]}, "scores must be so near each other.*range of 40"),
        ({"ties": -0.1}, "ties must be a number >= 0 and <= 0.999, got -0.1"),
        ({"ties": 1.1}, "ties must be a number >= 0 and <= 0.999, got 1.1"),
        ({"answers": "clustered"}, "answers must be one of ranking, independent, got 'clustered'"),
        ({"level": 1.0}, "level must be > 0 and <= 0.9999, got 1"),
        ({"top": 0}, "top must be a whole number >= 1 and <= 4, got 0"),
        ({"top": 5}, "top must be a whole number >= 1 and <= 4, got 5"),
    ],
)
def test_refusals_name_parameter_value_and_range(change, words):
    arguments = {"items": 5, "epsilon": 1, "people": 100} | change
    with pytest.raises(ParameterError, match=words):
        plan_local(arguments.pop("items"), **arguments)


def test_refusals_of_curves_and_large_guesses():
    plan = plan_local(5, epsilon=1, people=10)
    with pytest.raises(ParameterError, match=r"epsilons\[1\] must be"):
        plan.curve([1, 0], people=[10])
    with pytest.raises(ParameterError, match=r"people\[0\] must be"):
        plan.curve([1], people=[0])
    with pytest.raises(ParameterError, match=r"scores must be absent .* more than 2000 items, got 2001"):
        plan_local(2001, epsilon=1, people=10, scores=np.arange(2001) / 2001)


# ------------------------------------------------------------------ simulation


def utilities(rng, theta, people, link):
    if link == "logistic":
        return theta + rng.gumbel(size=(people, len(theta)))
    return theta + rng.normal(0.0, math.sqrt(0.5), (people, len(theta)))


def drawn(rng, people, k, every):
    """Shape (people, k): different pairs for each person."""
    if k == 1:
        return rng.integers(0, every, (people, 1))
    if every <= 50:
        return np.argsort(rng.random((people, every)), axis=1)[:, :k]
    picks = rng.integers(0, every, (people, k))
    while True:
        ordered = np.sort(picks, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if not len(again):
            return picks
        picks[again] = rng.integers(0, every, (len(again), k))


def debiased(rng, outcome, epsilon, mechanism):
    """Outcomes +1, -1 and 0 as randomised and debiased margins."""
    e = math.exp(epsilon)
    if mechanism == "binary":
        decided = np.where(outcome == 0, rng.choice([-1, 1], outcome.shape), outcome)
        return np.where(rng.random(outcome.shape) < 1 / (1 + e), -decided, decided) * (e + 1) / (e - 1)
    moved = rng.choice(3, outcome.shape, p=[e / (e + 2), 1 / (e + 2), 1 / (e + 2)])
    return ((outcome + 1 + moved) % 3 - 1) * (e + 2) / (e - 1)


def poll(rng, plan, theta):
    """Wins and answers of one simulated poll."""
    m = len(theta)
    first, second = np.triu_indices(m, 1)
    every = len(first)
    shares = as_link(plan.link).cdf(theta[first] - theta[second])
    margin, answers = np.zeros(every), np.zeros(every)
    for group, people in zip(
        plan.groups, rng.multinomial(plan.people, [float(g.share) for g in plan.groups]), strict=True
    ):
        asked = drawn(rng, people, group.pairs, every)
        if plan.answers == "ranking":
            u = utilities(rng, theta, people, plan.link)
            rows = np.arange(people)[:, None]
            outcome = np.where(u[rows, first[asked]] > u[rows, second[asked]], 1, -1)
        else:
            outcome = np.where(rng.random(asked.shape) < shares[asked], 1, -1)
        outcome[rng.random(asked.shape) < plan.ties] = 0
        x = debiased(rng, outcome, float(group.epsilon_answer), plan.mechanism)
        margin += group.weight * np.bincount(asked.ravel(), weights=x.ravel(), minlength=every)
        answers += group.weight * np.bincount(asked.ravel(), minlength=every)
    return fitted(plan, m, margin, answers)


def reported(rng, true, asked, epsilon):
    """Debiased margins of reports that are counted and not drawn one by one: ``true`` of ``asked`` prefer the first."""
    keep = 1 / (1 + math.exp(-epsilon))
    first = rng.binomial(true, keep) + rng.binomial(asked - true, 1 - keep)
    return (2 * first - asked) / (2 * keep - 1)


def poll_of_one_pair(rng, plan, theta):
    """Equal items, one pair a person."""
    every = len(theta) * (len(theta) - 1) // 2
    asked = rng.multinomial(plan.people, np.full(every, 1 / every))
    margin = reported(rng, rng.binomial(asked, 0.5), asked, float(plan.groups[0].epsilon_answer))
    return fitted(plan, len(theta), margin, asked.astype(float))


def poll_of_all_pairs(rng, plan, theta):
    """Equal items, whole rankings: how many people hold each one is multinomial."""
    prefers = preferences(len(theta))
    held = rng.multinomial(plan.people, np.full(len(prefers), 1 / len(prefers)))
    asked = np.full(prefers.shape[1], plan.people)
    margin = reported(rng, held @ prefers, asked, float(plan.groups[0].epsilon_answer))
    return fitted(plan, len(theta), margin, asked.astype(float))


@functools.cache
def preferences(m):
    """Shape (m!, pairs): whether a ranking puts the first item of a pair before the second."""
    places = np.array(list(itertools.permutations(range(m))))
    first, second = np.triu_indices(m, 1)
    return (places[:, first] < places[:, second]).astype(np.int64)


def fitted(plan, m, margin, answers):
    table = np.zeros((m, m))
    upper = np.triu_indices(m, 1)
    table[upper] = answers
    table += table.T
    signed = np.zeros((m, m))
    signed[upper] = margin
    wins = (table + signed - signed.T).sum(axis=1) / 2
    ridge = default_regularisation(m, answers.sum(), variance_factor=max(plan.variance_factor, 1.0))
    return solve_scores(wins, table, regularisation=ridge, link=plan.link).scores


def spread(rng, plan, polls=400, one=poll):
    """The root mean square, over items, of the standard deviation of scores over polls."""
    theta = np.array(plan.scores)
    return math.sqrt(np.var([one(rng, plan, theta) for _ in range(polls)], axis=0, ddof=1).mean())


CASES = [
    # m, epsilon, unit, pairs, further parameters
    (5, 0.5, "person", None, {}),
    (5, 4, "person", 1, {}),
    (5, 4, "person", None, {}),
    (5, 4, "person", 6, {}),
    (5, 4, "person", 6, {"answers": "independent"}),
    (5, 2, "person", 4, {"link": "normal"}),
    (5, 4, "comparison", 8, {}),
    (5, 4, "comparison", 8, {"link": "normal"}),
    (10, 1, "person", None, {}),
    (10, 4, "person", 5, {}),
    (10, 0.5, "comparison", 5, {}),
    (10, 4, "comparison", 20, {}),
    (10, 2, "comparison", 3, {"answers": "independent"}),
    (30, 2, "person", None, {}),
    (30, 4, "person", 4, {}),
    (30, 2, "comparison", 30, {}),
    (5, {1: 0.6, 4: 0.4}, "person", None, {}),
    (5, {1: 0.6, 4: 0.4}, "person", 2, {"weights": "uniform"}),
    (5, 4, "comparison", 4, {"mechanism": "three-outcome", "ties": 0.3, "equal": True}),
    (5, 4, "comparison", 4, {"mechanism": "binary", "ties": 0.3, "equal": True}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("m", "epsilon", "unit", "pairs", "further"), CASES)
def test_predicted_errors_are_those_of_simulated_polls(m, epsilon, unit, pairs, further):
    further = dict(further)
    theta = None if further.pop("equal", False) else np.linspace(-1, 1, m)
    plan = plan_local(m, epsilon=epsilon, unit=unit, pairs=pairs, target_error=0.13, scores=theta, **further)
    assert spread(np.random.default_rng(7), plan) == pytest.approx(plan.score_error, rel=0.1)


@pytest.mark.slow
def test_simulated_polls_tell_rankings_from_independent_answers():
    """Power: the error that ignores what answers of one person share is refused, and it is the smaller one."""
    common = {"epsilon": 4, "unit": "comparison", "pairs": 8, "scores": GUESS}
    plan = plan_local(5, people=300, **common)
    ignorant = plan_local(5, people=300, answers="independent", **common)
    simulated = spread(np.random.default_rng(8), plan)
    assert simulated == pytest.approx(plan.score_error, rel=0.1)
    assert simulated > 1.1 * ignorant.score_error


@pytest.mark.slow
@pytest.mark.parametrize(("m", "epsilon"), [(5, 0.5), (5, 1), (5, 2), (7, 2)])
def test_factor_by_which_few_pairs_beat_all_pairs(m, epsilon):
    """The ratio of variances at equal numbers of people; power: that of the noise alone is refused.

    Its relative error over 3,000 polls is ``sqrt(4 / (3000 (m - 1)))``, 1.8 %: false alarms below 1e-6.
    """
    every = m * (m - 1) // 2
    few = plan_local(m, epsilon=epsilon, target_error=0.03)
    all_pairs = plan_local(m, epsilon=epsilon, pairs=every, people=few.people)
    assert few.pairs == 1
    rng = np.random.default_rng(9)
    measured = (
        spread(rng, all_pairs, polls=3000, one=poll_of_all_pairs) / spread(rng, few, polls=3000, one=poll_of_one_pair)
    ) ** 2
    assert measured == pytest.approx(few.all_pairs_factor, rel=0.1)
    noise_alone = (1 / math.tanh(epsilon / 2 / every) ** 2 - 1) / (1 / math.tanh(epsilon / 2) ** 2 - 1) / every
    if epsilon >= 1:
        assert measured != pytest.approx(noise_alone, rel=0.1)

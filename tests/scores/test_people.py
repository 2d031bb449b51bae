"""Single people who hold much of a fit: no interval, or one that covers."""

import numpy as np
import pytest
from scipy.special import expit

from psephos import Comparisons, Profile, fit_scores
from psephos.scores import people


def duels(*voters, items=("g", "c")):
    """A table of two items; a voter is a list of outcomes, +1 for the first."""
    outcome = np.concatenate([np.asarray(said) for said in voters])
    person = np.repeat(np.arange(len(voters)), [len(said) for said in voters])
    n = len(outcome)
    return Comparisons.from_columns(items, [0] * n, [1] * n, outcome, person=person)


def test_a_voter_of_500_answers_against_40_people_decides_nothing():
    fit = fit_scores(duels([1] * 500, *[[-1]] * 40))
    assert np.isinf(fit.intervals).all()
    assert np.isinf(fit.errors).all()
    assert fit.held_items == (0, 1)
    sets = fit.rank_intervals(rng=np.random.default_rng(1))
    assert (sets.low, sets.high) == ((1, 1), (2, 2))
    assert sets.top(1).inside == ()


def test_a_voter_of_few_answers_changes_little():
    """100 of 20,100 answers by one voter, all alike: no explosion."""
    rng = np.random.default_rng(2)
    singles = rng.choice([-1, 1], (20_000, 1))
    plain = fit_scores(duels(*singles), sampling="independent")
    one = fit_scores(duels([1] * 100, *singles))
    assert 1 < one.errors[0] / plain.errors[0] < 1.25  # its 50 votes too many, beside a standard deviation of 71
    assert one.freedom[0] > 50


@pytest.mark.parametrize("people", [3, 10, 50])
def test_like_people_have_their_number_less_one(people):
    rng = np.random.default_rng(3)
    left, right = np.triu_indices(4, 1)
    k = len(left)
    table = Comparisons.from_columns(
        list("abcd"),
        np.tile(left, people),
        np.tile(right, people),
        rng.choice([-1, 1], k * people),
        person=np.repeat(np.arange(people), k),
    )
    fit = fit_scores(table)
    # those of 50 are not looked at one by one
    near = 0.01 if people < 50 else 0.2
    np.testing.assert_allclose(fit.freedom, people - 1, rtol=near)
    np.testing.assert_allclose(fit.difference_freedom[np.triu_indices(4, 1)], people - 1, rtol=near)


def test_people_with_one_answer_bring_no_uncertainty():
    fit = fit_scores(duels(*[[1]] * 7, *[[-1]] * 3))
    assert np.isinf(fit.freedom).all()
    assert np.isfinite(fit.intervals).all()


def test_one_person_between_two_groups_holds_every_difference_across():
    """40 people compare a with b and c with d; one compares b with c, 60 times, and two people once."""
    rng = np.random.default_rng(4)
    left, right, person = [0, 2] * 400, [1, 3] * 400, np.repeat(np.arange(40), 20).tolist()
    left, right, person = left + [1] * 62, right + [2] * 62, person + [40] * 60 + [41, 42]
    table = Comparisons.from_columns(list("abcd"), left, right, rng.choice([-1, 1], len(left)), person=person)
    fit = fit_scores(table)
    ends = fit.difference_intervals()
    assert np.isinf(ends[:2, 2:]).all()
    assert np.isfinite(ends[0, 1]).all()
    assert np.isfinite(ends[2, 3]).all()
    sets = fit.rank_intervals(rng=np.random.default_rng(1))
    assert max(sets.low) <= 2
    assert min(sets.high) >= 3
    assert not any(set(tier) < {0, 1, 2, 3} and len(sets.tiers) > 1 for tier in sets.tiers)


def test_a_pair_of_items_that_one_person_holds_among_others():
    """One person gives 3,000 answers on a pair of six: how the two differ rests on them, and nothing else does."""
    rng = np.random.default_rng(5)
    left, right = np.triu_indices(6, 1)
    k = len(left)
    table = Comparisons.from_columns(
        list("abcdef"),
        np.concatenate([np.tile(left, 60), [0] * 3000]),
        np.concatenate([np.tile(right, 60), [1] * 3000]),
        np.concatenate([rng.choice([-1, 1], 60 * k), [1] * 2000 + [-1] * 1000]),
        person=np.concatenate([np.repeat(np.arange(60), k), [60] * 3000]),
    )
    fit = fit_scores(table)
    assert (0, 1) in fit.held_pairs or set(fit.held_items) == {0, 1}
    assert np.isinf(fit.difference_intervals()[0, 1]).all()
    assert np.isfinite(fit.difference_intervals()[2, 3]).all()


def test_ballots_of_few_people_on_an_item():
    """One ballot alone ranks d: with unranked items missing its place rests on one person."""
    ballots = {("a", "b", "c"): 30, ("c", "a", "b"): 25, ("b", "c", "a"): 28, ("d", "a", "b", "c"): 1}
    profile = Profile.from_rankings(ballots, items=list("abcd"))
    fit = fit_scores(profile, unranked="missing")
    assert 3 in fit.held_items
    ends = fit.difference_intervals()
    assert np.isinf(ends[3, :3]).all()
    assert np.isfinite(ends[:3, :3]).all()
    assert fit_scores(profile).held_items == ()


def test_beyond_the_limit_of_work_each_item_stands_for_itself(monkeypatch):
    rng = np.random.default_rng(6)
    left, right = np.triu_indices(5, 1)
    k, number = len(left), 20
    table = Comparisons.from_columns(
        list("abcde"),
        np.tile(left, number),
        np.tile(right, number),
        rng.choice([-1, 1], k * number),
        person=np.repeat(np.arange(number), k),
    )
    exact = fit_scores(table)
    monkeypatch.setattr(people, "_WORK", 0.0)
    bounded = fit_scores(table)
    assert (bounded.freedom > 5).all()
    assert (bounded.freedom < exact.freedom).all()
    np.testing.assert_allclose(bounded.errors, exact.errors, rtol=0.05)


def coverage(heavy, singles, truth, alike, *, populations, seed):
    """How often the interval of the difference holds the truth; ``heavy``: numbers of answers of some voters."""
    rng = np.random.default_rng(seed)
    chance = expit(truth)
    inside = 0
    for _ in range(populations):
        share = [float(rng.random() < chance) if alike else rng.beta(2 * chance, 2 - 2 * chance) for _ in heavy]
        voters = [np.where(rng.random(n) < p, 1, -1) for n, p in zip(heavy, share, strict=True)]
        others = np.where(rng.random((singles, 1)) < chance, 1, -1)
        low, high = fit_scores(duels(*voters, *others)).difference_intervals()[0, 1]
        inside += low <= truth <= high
    return inside / populations


@pytest.mark.slow
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("truth", [0.0, 1.0])
@pytest.mark.parametrize("singles", [40, 100, 1000])
@pytest.mark.parametrize("heavy", [[500], [100], [50] * 3])
def test_intervals_cover_with_heavy_voters(heavy, singles, truth, alike):
    """Within two standard errors of .95, by 400 populations of a fixed seed; .9475 is the least of the 36 cases."""
    assert coverage(heavy, singles, truth, alike, populations=400, seed=7) >= 0.928

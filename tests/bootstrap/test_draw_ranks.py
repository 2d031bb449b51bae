"""Ranks from posterior draws: ``PosteriorDraws.rank_intervals``."""

import numpy as np
import pytest

from psephos.bootstrap import PosteriorDraws
from psephos.errors import ParameterError
from psephos.scores import rank_intervals

NAMES = tuple("abcdef")


def draws_about(centre, covariance, count, seed):
    values = np.random.default_rng(seed).multivariate_normal(centre, covariance, count, method="cholesky")
    return PosteriorDraws(values=values, names=NAMES)


def test_normal_draws_give_the_ranks_of_normal_errors():
    centre, covariance = [3.0, 2.9, 1.0, 0.5, 0.4, -2.0], np.diag([0.01, 0.04, 0.01, 0.02, 0.01, 0.01])
    ours = draws_about(centre, covariance, 20_000, 1).rank_intervals(level=0.9)
    plain = rank_intervals(centre, covariance, level=0.9, rng=np.random.default_rng(2))
    assert (ours.low, ours.high, ours.tiers) == (plain.low, plain.high, plain.tiers)
    assert abs(ours.quantile - plain.quantile) < 0.05


def test_a_number_added_to_all_scores_of_a_draw_changes_nothing():
    draws = draws_about([3.0, 2.0, 1.0, 0.5, 0.4, -2.0], 0.2 * np.eye(6), 2000, 3)
    shifted = draws.replaced(draws.values + np.random.default_rng(4).normal(size=(2000, 1)))
    one, other = draws.rank_intervals(), shifted.rank_intervals()
    assert (one.low, one.high, one.tiers) == (other.low, other.high, other.tiers)


def test_ranks_of_equal_items_are_covered_as_often_as_stated():
    """Six equal items, 400 populations: all ranks possible in 95 % of them, and percentiles of ranks far less often."""
    rng = np.random.default_rng(5)
    covered = naive = 0
    for seed in range(400):
        centre = rng.normal(size=6)
        draws = draws_about(centre, np.eye(6), 500, seed)
        found = draws.rank_intervals()
        covered += set(found.low) == {1} and set(found.high) == {6}
        ranks = 1 + (draws.values[:, None, :] > draws.values[:, :, None]).sum(axis=2)
        ends = np.quantile(ranks, [0.025, 0.975], axis=0)
        naive += bool((ends[0] <= 1).all() and (ends[1] >= 6).all())
    assert covered >= 0.915 * 400  # 3.2 standard deviations below .95
    assert naive < 0.6 * 400


@pytest.mark.parametrize(
    ("draws", "level", "words"),
    [
        (PosteriorDraws(values=np.zeros((19, 2)), names=("a", "b")), 0.95, "need two coordinates and 20 draws"),
        (PosteriorDraws(values=np.zeros((99, 1)), names=("a",)), 0.95, "got 1 and 99"),
        (PosteriorDraws(values=np.zeros((1, 99, 2)), names=("a", "b"), levels=(0.5,)), 0.95, "of a single rule"),
        (PosteriorDraws(values=np.zeros((99, 2)), names=("a", "b")), 1, "level"),
    ],
)
def test_what_gives_no_ranks_is_refused(draws, level, words):
    with pytest.raises(ParameterError, match=words):
        draws.rank_intervals(level=level)

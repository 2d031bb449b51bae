"""Scores of items from comparisons: Bradley-Terry and kindred models, with intervals."""

from psephos.scores.fit import fit_scores
from psephos.scores.intervals import (
    clustered_sampling,
    difference_errors,
    independent_sampling,
    normal_intervals,
    score_covariance,
    score_errors,
)
from psephos.scores.links import LOGISTIC, NORMAL, Link, symmetric_link
from psephos.scores.m_estimator import (
    ScoreSolution,
    default_regularisation,
    matching_loss,
    solve_scores,
)
from psephos.scores.noisy_wins import NoisyFit, fit_noisy_wins
from psephos.scores.ranks import RankIntervals, TopItems, rank_intervals, rank_intervals_from_errors
from psephos.scores.score_fit import Sampling, ScoreFit, fit_wins
from psephos.scores.sparse_errors import SparseErrors
from psephos.scores.wins_covariance import WinsCovariance

__all__ = [
    "LOGISTIC",
    "NORMAL",
    "Link",
    "NoisyFit",
    "RankIntervals",
    "Sampling",
    "ScoreFit",
    "ScoreSolution",
    "SparseErrors",
    "TopItems",
    "WinsCovariance",
    "clustered_sampling",
    "default_regularisation",
    "difference_errors",
    "fit_noisy_wins",
    "fit_scores",
    "fit_wins",
    "independent_sampling",
    "matching_loss",
    "normal_intervals",
    "rank_intervals",
    "rank_intervals_from_errors",
    "score_covariance",
    "score_errors",
    "solve_scores",
    "symmetric_link",
]

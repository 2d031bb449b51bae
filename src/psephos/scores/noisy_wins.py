"""Scores from wins to which noise of known variance was added: a regulariser from that noise, and honest intervals.

With y the wins, n the table of answers, ``L = sum n F(1 - F)`` (the Laplacian of the answers' variances) and v the
variance of the noise on each win, ``y = expected wins + errors`` with errors of covariance

    J = L + v P + v_n T / 4 + diag(b^2),       P = I - 1 1^T / m,       T = Laplacian of (2 F - 1)^2,

independent answers assumed; the third term is there where n itself was released with noise of variance v_n, since an
answer too many shifts u's expected wins by ``F - 1/2``; b bounds what else may shift them.

**Estimate.** The penalised fit of :func:`psephos.scores.solve_scores` with

    2 lambda = (1 + v / l) / s^2,      s^2 = (|theta_1|^2 - tr C) / (m - 1),      l = tr L / (m - 1):

the best linear shrinkage if scores have variance s^2 and L is near l P, with s^2 estimated from the unshrunk scores
theta_1 (below) whose errors have covariance C, and kept in [.01, 4]. Noise makes s^2 / (1 + v/l) small and pulls all
scores together.

**Intervals.** Shrinkage is a bias, so they are centred on theta_1: one Newton step without penalty from the fit,

    theta_1 = theta + H^+ (y - expected wins),       C = H^+ J H^+,      H = Laplacian of n f,

linear in the errors, so that it is unbiased to first order. Where shrinkage has carried a score out of its interval,
the interval is widened until the score is its middle: an end at the score itself would look like certainty. In H and J
odds beyond 200 to 1 count as 200 to 1: beyond, what a linear step says is far too much. Where that is a tenth or more
of an item's curvature, no statement is made of its score (of its rank, there is): the interval is infinite.
Source: Efron and Morris (1973), Stein's rule as an empirical Bayes estimator; one-step estimators: Le Cam (1956).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from psephos._check import check_real
from psephos.errors import ParameterError
from psephos.scores.answers import as_answers, laplacian, real_array
from psephos.scores.intervals import normal_intervals, score_errors
from psephos.scores.links import LOGISTIC, Link, as_link
from psephos.scores.m_estimator import solve_scores

__all__ = ["NoisyFit", "fit_noisy_wins", "widened"]

Floats = npt.NDArray[np.float64]

_ROUNDS = 2  # of estimating s^2
_ROUGH = 1e-3  # answers: how well the score equations hold meanwhile
_LEAST_CURVATURE = 1e-9
_TENTH = 0.1
_FLOOR = 0.02  # of the density and of the variance of an answer, relative to even odds: as if odds ended at 200 to 1
_SPREADS = (0.01, 4.0)  # s^2, where noise leaves it open: standard deviations of .1 to 2 of log-odds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyFit:
    """Scores, and what can be said of them.

    Attributes
    ----------
    scores
        theta, shape (m,), shrunk; higher is better, sums to 0 on every component.
    unshrunk, covariance
        theta_1 and C of the module: shapes (m,) and (m, m).
    errors, intervals
        standard errors of ``unshrunk``, shape (m,), infinite for an item alone; intervals of the scores, shape (m, 2),
        with infinite ends where nothing is known.
    regularisation
        lambda, in answers.
    component_labels
        shape (m,): scores with different labels cannot be compared.
    """

    scores: Floats
    unshrunk: Floats
    covariance: Floats
    errors: Floats
    intervals: Floats
    regularisation: float
    component_labels: npt.NDArray[np.intp]


def fit_noisy_wins(
    wins: npt.ArrayLike,
    answers: npt.ArrayLike,
    *,
    noise_variance: float,
    answers_noise_variance: float = 0.0,
    wins_bias: npt.ArrayLike | None = None,
    link: Link | str = LOGISTIC,
    level: float = 0.95,
) -> NoisyFit:
    """Fit scores to noisy wins.

    Parameters
    ----------
    wins
        y, shape (m,), any finite numbers, in answers.
    answers
        n, shape (m, m), symmetric, >= 0, zero diagonal.
    noise_variance
        v >= 0, of each win, in answers squared.
    answers_noise_variance
        v_n >= 0, of each pair's number of answers; 0 if that number is known.
    wins_bias
        b >= 0, shape (m,), in answers: by how much wins may be off beside all noise; 0 if absent.
    link
        as in :func:`psephos.scores.solve_scores`.
    level
        of the intervals, in (0, 1).

    Returns
    -------
    NoisyFit

    Raises
    ------
    ParameterError
        if a table or a parameter is out of range.

    >>> wins, answers = [30.0, 21.0, 9.0], 20 * (np.ones((3, 3)) - np.eye(3))
    >>> [fit_noisy_wins(wins, answers, noise_variance=v).scores.round(2).tolist() for v in (0.0, 100.0)]
    [[0.66, 0.07, -0.72], [0.01, 0.0, -0.01]]
    """
    link = as_link(link)
    v = check_real(noise_variance, "noise_variance", low=0.0, high=1e300)
    v_n = check_real(answers_noise_variance, "answers_noise_variance", low=0.0, high=1e300)
    y, n = real_array(wins, "wins", ndim=1), real_array(answers, "answers", ndim=2)
    m = len(y)
    b = np.zeros(m) if wins_bias is None else real_array(wins_bias, "wins_bias", ndim=1)
    if n.shape != (m, m):
        raise ParameterError(f"answers must have shape {(m, m)}, got {n.shape}")
    labels = as_answers(n).labels
    free = m - len(np.unique(labels))
    mean = np.where(labels[:, None] == labels[None, :], 1.0 / np.bincount(labels)[labels], 0.0)

    centring = np.eye(m) - mean
    if not free:
        zeros = np.zeros(m)
        unshrunk, covariance, penalty = zeros, np.zeros((m, m)), 0.0
    else:
        curvature = float(np.trace(_variances(np.zeros(m), n, link))) / free  # l, at equal scores
        penalty = 0.5 * (1.0 + v / curvature)  # s^2 = 1 to begin with
        for _ in range(_ROUNDS):
            theta = solve_scores(y, n, link=link, regularisation=penalty, tolerance=_ROUGH).scores
            x = theta[:, None] - theta[None, :]
            density = laplacian(n * _floored_density(x, link))
            size = float(np.trace(density)) / m or 1.0
            # Constants are taken out on both sides, so what stands there does not matter; the rest keeps H regular
            # where an item has next to no answers.
            inverse = centring @ np.linalg.inv(density + size * (mean + _LEAST_CURVATURE * np.eye(m))) @ centring
            left = y - (n * link.cdf(x)).sum(axis=1)
            unshrunk = theta + inverse @ (left - mean @ left)
            tilt = laplacian((n > 0) * (2.0 * link.cdf(x) - 1.0) ** 2) / 4.0 if v_n else 0.0
            variances = _variances(theta, n, link)
            covariance = inverse @ (variances + v * centring + v_n * tilt + np.diag(b**2)) @ inverse
            spread = (float(unshrunk @ unshrunk) - float(np.trace(covariance))) / free
            spread = min(max(spread, _SPREADS[0]), _SPREADS[1])
            penalty = 0.5 * (1.0 + v * free / float(np.trace(variances))) / spread
    scores = solve_scores(y, n, link=link, regularisation=penalty).scores
    covariance = (covariance + covariance.T) / 2.0
    errors = score_errors(covariance, labels)
    ends = normal_intervals(unshrunk, errors, level=level)
    intervals = widened(ends, scores)
    x = scores[:, None] - scores[None, :]
    floored = n * _floored_density(x, link)
    added = (floored - n * link.density(x)).sum(axis=1)
    intervals[added > _TENTH * floored.sum(axis=1)] = [-np.inf, np.inf]
    return NoisyFit(
        scores=scores,
        unshrunk=unshrunk,
        covariance=covariance,
        errors=errors,
        intervals=intervals,
        regularisation=penalty,
        component_labels=labels,
    )


def widened(intervals: Floats, scores: Floats) -> Floats:
    """Intervals, shape (m, 2), those that do not hold their score made symmetric about it.

    >>> widened(np.array([[0.0, 2.0], [1.0, 2.0]]), np.array([0.5, 0.0])).tolist()
    [[0.0, 2.0], [-2.0, 2.0]]
    """
    low, high = intervals.T
    reach = np.maximum(high - scores, scores - low)
    outside = (scores < low) | (scores > high)
    return np.where(outside[:, None], scores[:, None] + np.outer(reach, [-1.0, 1.0]), intervals)


def _floored_density(x: Floats, link: Link) -> Floats:
    floored: Floats = np.maximum(link.density(x), _FLOOR * link.density(np.zeros(1)))
    return floored


def _variances(theta: Floats, answers: Floats, link: Link) -> Floats:
    """L: the covariance of the wins if answers are independent."""
    p = link.cdf(theta[:, None] - theta[None, :])
    return laplacian(answers * np.maximum(p * (1.0 - p), _FLOOR / 4.0))

"""Scores from wins: the regularised M-estimator of Bradley-Terry and kindred models.

Minimise over theta, for shares z_uv of n_uv answers and a symmetric link F with its matching loss
(:mod:`psephos.scores.links`),

    sum_{u<v} n_uv l(theta_u - theta_v; z_uv) + lambda sum_u theta_u^2.

F(-x) = 1 - F(x) turns the stationarity conditions into the score equations

    sum_v n_uv F(theta_u - theta_v) + 2 lambda theta_u = y_u,      y_u = sum_v n_uv z_uv,

so that the wins y and the table n are all that matters: shares may lie outside [0, 1] and wins may be negative, as
they do after noise was added, and the problem stays convex. Zermelo (1929), Bradley and Terry (1952); Hunter (2004).

Newton's method, damped by gradients alone: phi' increases along a step, so
``phi(a) - phi(0) <= (a / 2) (phi'(a / 2) + phi'(a))``. A full step that brings the largest gradient to a tenth of the
least one so far is taken without asking for a decrease.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from psephos._check import check_integer, check_real
from psephos.errors import ParameterError
from psephos.scores.answers import as_answers, centre, real_array
from psephos.scores.links import LOGISTIC, Link, as_link

__all__ = ["ScoreSolution", "SolveStatus", "default_regularisation", "matching_loss", "solve_scores"]

Floats = npt.NDArray[np.float64]

#: ``converged``: the score equations hold. ``rounding``: doubles cannot come closer. ``iterations``: the limit ran
#: out. ``separated``: without regularisation some items drift apart for ever, there is no solution.
SolveStatus = Literal["converged", "rounding", "iterations", "separated"]

_ARMIJO = 0.1  # a full step on a quadratic reaches 0.25 of what the slope promises by the bound above
_FAST = 0.1  # of the least gradient so far: a step that needs no other reason
_DRIFT = 0.05  # a Newton step that is this long where the equations hold goes towards infinity
_FAR = 1e9  # so do scores this large without regularisation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreSolution:
    """Scores with the evidence that they solve the score equations.

    Attributes
    ----------
    scores
        theta, shape (m,), higher is better; sums to 0 on every component.
    status
        see :data:`SolveStatus`.
    residual
        the largest ``|y_u - 2 lambda theta_u - expected wins of u|``, in answers.
    iterations
        Newton steps taken.
    component_labels
        shape (m,): the same label, from 0 up, for items that a chain of compared pairs joins. Scores of different
        components cannot be compared.
    """

    scores: Floats
    status: SolveStatus
    residual: float
    iterations: int
    component_labels: npt.NDArray[np.intp]


def solve_scores(
    wins: npt.ArrayLike,
    answers: Any,
    *,
    link: Link | str = LOGISTIC,
    regularisation: float,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
) -> ScoreSolution:
    """Solve the score equations.

    Parameters
    ----------
    wins
        y, shape (m,), any finite real numbers, in answers: the sum over opponents of how many answers preferred
        the item, a tie counted half. On each component of the table of answers the wins should sum to the answers;
        what noise adds to that sum carries no information, and its mean is taken off.
    answers
        n, shape (m, m), symmetric, >= 0, zero diagonal: how many answers compared u with v. An array, or a
        scipy.sparse array. Sparse tables, and arrays of more than 2000 items, are solved by conjugate gradients.
    link
        a :class:`Link`, or ``"logistic"`` or ``"normal"``.
    regularisation
        lambda >= 0, in answers (see :func:`default_regularisation`). At 0 a solution need not exist.
    tolerance
        > 0, in answers: the equations hold once every ``|wins - expected wins|`` is at most this. Where an item
        has more than 10^6 answers or wins, ``10^-6`` of the largest such number multiplies it, since doubles resolve no
        more.
    max_iterations
        >= 1, Newton steps.

    Returns
    -------
    ScoreSolution
        finite scores, whatever the status.

    Raises
    ------
    ParameterError
        if a table or a parameter is out of range.

    >>> solution = solve_scores([7, 3], [[0, 10], [10, 0]], regularisation=0)
    >>> solution.status, solution.scores.round(6).tolist(), round(math.log(7 / 3) / 2, 6)
    ('converged', [0.423649, -0.423649], 0.423649)
    """
    link = as_link(link)
    table = as_answers(answers)
    totals = table.totals()
    given = real_array(wins, "wins", ndim=1)
    if given.shape != totals.shape:
        raise ParameterError(f"wins must have one entry an item ({len(totals)}), got {len(given)}")
    ridge = 2.0 * check_real(regularisation, "regularisation", low=0.0, high=1e100)
    scale = max(float(np.abs(given).max()), float(totals.max()))
    limit = check_real(tolerance, "tolerance", low=1e-300) * max(1.0, 1e-6 * scale)
    steps = check_integer(max_iterations, "max_iterations", low=1)
    labels = table.labels
    half_margins = centre(given - totals / 2.0, labels)

    def gradient(scores: Floats) -> Floats:
        return centre(table.excess(scores, link) + ridge * scores - half_margins, labels)

    scores = np.zeros(len(totals))
    slope = gradient(scores)
    least = float(np.abs(slope).max())
    status: SolveStatus = "converged"
    iterations = 0
    while float(np.abs(slope).max()) > limit:
        if iterations == steps:
            status = "iterations"
            break
        step = table.newton_step(scores, slope, link, ridge, labels)
        moves = np.abs(step).max() > 4.0 * np.finfo(np.float64).eps * np.abs(scores).max()
        enough = max(limit, _FAST * least)
        found = _line_search(gradient, scores, slope, step, enough) if moves else None
        if found is None:
            status = "rounding"
            break
        scores, slope = found
        least = min(least, float(np.abs(slope).max()))
        iterations += 1
        if ridge == 0 and np.abs(scores).max() > _FAR:
            break
    if ridge == 0 and status != "iterations":
        drift = table.newton_step(scores, slope, link, ridge, labels)
        if max(float(np.abs(drift).max()) / _DRIFT, float(np.abs(scores).max()) / _FAR) > 1.0:
            status = "separated"
    return ScoreSolution(
        scores=scores,
        status=status,
        residual=float(np.abs(slope).max()),
        iterations=iterations,
        component_labels=labels,
    )


def _line_search(
    gradient: Callable[[Floats], Floats], scores: Floats, slope: Floats, step: Floats, enough: float
) -> tuple[Floats, Floats] | None:
    """The first of the steps 1, 1/2, 1/4, ... that is sure to decrease the objective, with its gradient.

    Or whose gradient is at most ``enough``.
    """
    promised = float(step @ slope)
    size = 1.0
    for _ in range(60):
        there = scores + size * step
        after = gradient(there)
        if float(np.abs(after).max()) <= enough:
            return there, after
        middle = gradient(scores + 0.5 * size * step)
        if float(step @ middle + step @ after) <= 2.0 * _ARMIJO * promised < 0:
            return there, after
        size /= 2.0
    return None


def default_regularisation(m: int, answers: float, *, variance_factor: float = 1.0, constant: float = 0.01) -> float:
    """A lambda that depends on public sizes alone, in answers, for :func:`solve_scores`.

    With L the mean number of answers of a pair, ``lambda = (L / 2) * constant * sqrt(G log(mL) / (mL))``: half the
    root for losses divided by L, times L because the solver sums losses over answers. Where mL < e, the root is taken
    at e.

    It acts as if an item that lies theta above the mean had lost ``2 lambda theta`` more answers: of little weight
    beside the losses of most items, but not beside the few of one that wins nearly all. There choose it smaller.

    Parameters
    ----------
    m
        >= 1, the number of items.
    answers
        >= 0, the total of the table over pairs u < v, in answers.
    variance_factor
        G >= 1, by how much noise multiplies the variance of an answer at even odds.
    constant
        >= 0. At 0.01 two items at 7 to 3 stay within 1% of ln(7/3), and the bias of a score that lies 1 from the
        mean is about 0.06 / m of its standard error; near 1, for studies of rates, the bias spoils intervals.

    Raises
    ------
    ParameterError
        if a number is out of range.

    >>> round(default_regularisation(2, 10), 6)
    0.019351
    """
    items = check_integer(m, "m", low=1)
    total = check_real(answers, "answers", low=0.0, high=1e100)
    factor = check_real(variance_factor, "variance_factor", low=1.0, high=1e100)
    each = total / max(items * (items - 1) / 2.0, 1.0)
    size = max(items * each, math.e)  # log(x) / x falls from e on, and is largest there
    return check_real(constant, "constant", low=0.0) * math.sqrt(factor * math.log(size) / size) * each / 2.0


def matching_loss(scores: npt.ArrayLike, wins: npt.ArrayLike, answers: Any, *, link: Link | str = LOGISTIC) -> float:
    """The loss ``sum_{u<v} n_uv l(theta_u - theta_v; z_uv)``, in nats for the logistic link.

    There it is minus the log-likelihood less what it is with equal scores: ``n log 2`` for n answers.

    Parameters
    ----------
    scores, wins
        theta and y, shape (m,).
    answers, link
        as for :func:`solve_scores`.

    Raises
    ------
    ParameterError
        if a table is out of range, or shapes differ.

    >>> round(matching_loss([1.0, 0.0], [7, 3], [[0, 10], [10, 0]]) + 10 * math.log(2), 6)
    6.132617
    """
    link = as_link(link)
    table = as_answers(answers)
    theta, given = real_array(scores, "scores", ndim=1), real_array(wins, "wins", ndim=1)
    totals = table.totals()
    if not theta.shape == given.shape == totals.shape:
        raise ParameterError(f"scores and wins must have one entry an item ({len(totals)})")
    return table.total_loss(theta, link) - float(centre(given - totals / 2.0, table.labels) @ theta)

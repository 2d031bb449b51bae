"""The front door: from ballots, comparisons or a pairwise estimate to scores with intervals.

Exact and non-private for a profile or comparisons; post-processing of what was released for a pairwise estimate.
A tie counts as half a win each way. A fit without regularisation exists where the graph of wins, with an arc from u to
v if u won anything against v, is strongly connected: no set of items won, or lost, all it ever met outside (Ford 1957;
Hunter 2004, assumption 1). Regularisation makes every fit finite, and then it sets how far such sets lie apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from psephos._check import check_choice, check_real
from psephos.errors import DataError, ParameterError
from psephos.pairwise import NoiseLaw, PairwiseEstimate, Unranked, pair_counts
from psephos.profile import Comparisons, Profile
from psephos.scores.answers import as_answers, laplacian
from psephos.scores.intervals import (
    clustered_sampling,
    difference_errors,
    independent_sampling,
    normal_intervals,
    score_covariance,
    score_errors,
)
from psephos.scores.links import LOGISTIC, Link, as_link
from psephos.scores.m_estimator import SolveStatus, default_regularisation, matching_loss, solve_scores

__all__ = ["Sampling", "ScoreFit", "fit_scores"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

#: How answers depend on each other: not at all, or only those of one person.
Sampling = Literal["independent", "clustered"]

_BLOCK = 1 << 14  # ballots at a time: 20 items of eight bytes are 2.6 MB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreFit:
    """Scores of items, how sure they are, and what the data cannot tell.

    Attributes
    ----------
    items
        the m item names.
    scores
        theta, shape (m,), higher is better; sums to 0 on every component.
    covariance
        shape (m, m), of the scores within their component (:func:`score_covariance`). It says nothing between
        components: take :meth:`difference_errors`, which does.
    sampling
        ``clustered``: people are independent. ``independent``: all answers are assumed to be.
    level
        of the intervals, in (0, 1).
    link
        name of the link.
    regularisation
        lambda, in answers.
    loss
        the matching loss, without lambda: for the logistic link minus the log-likelihood less that of equal scores.
    status, residual, iterations
        how well the score equations hold (:class:`psephos.scores.ScoreSolution`).
    component_labels
        shape (m,): the same number, from 0 up, for items that a chain of compared pairs joins.
    separated
        sets of items, as positions, that won, or lost, all comparisons with items outside the set. Where there are any,
        the data do not bound how far they lie from the rest, and ``regularisation`` decides.
    """

    items: tuple[str, ...]
    scores: Floats
    covariance: Floats
    sampling: Sampling
    level: float
    link: str
    regularisation: float
    loss: float
    status: SolveStatus
    residual: float
    iterations: int
    component_labels: Labels
    separated: tuple[tuple[int, ...], ...]

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Sets of item positions that comparisons join; scores of different sets cannot be compared."""
        groups = [np.flatnonzero(self.component_labels == k) for k in range(int(self.component_labels.max()) + 1)]
        return tuple(tuple(group.tolist()) for group in groups)

    @property
    def order(self) -> tuple[int, ...]:
        """Item positions by score, best first; equal scores in item order."""
        return tuple(np.argsort(-self.scores, kind="stable").tolist())

    @property
    def errors(self) -> Floats:
        """Standard errors of the scores about the mean of their component, shape (m,); infinite for an item alone."""
        return score_errors(self.covariance, self.component_labels)

    @property
    def intervals(self) -> Floats:
        """Lower and upper ends of an interval for each score, shape (m, 2)."""
        return normal_intervals(self.scores, self.errors, level=self.level)

    def difference_errors(self) -> Floats:
        """Standard errors of ``theta_u - theta_v``, shape (m, m), infinite across components."""
        return difference_errors(self.covariance, self.component_labels)

    def difference_intervals(self) -> Floats:
        """Lower and upper ends of an interval for each ``theta_u - theta_v``, shape (m, m, 2)."""
        differences = self.scores[:, None] - self.scores[None, :]
        return normal_intervals(differences, self.difference_errors(), level=self.level)


def fit_scores(
    data: Profile | Comparisons | PairwiseEstimate,
    *,
    link: Link | str = LOGISTIC,
    regularisation: float | None = None,
    unranked: Unranked = "last",
    sampling: Sampling | None = None,
    level: float = 0.95,
) -> ScoreFit:
    """Fit scores to what people said: Bradley-Terry with the logistic link, Thurstone-Mosteller with the normal one.

    Parameters
    ----------
    data
        ballots, comparisons (public weights count), or an estimate whose number of answers is known. Pairs of
        an estimate with at most 0 answers count as not compared.
    link
        ``"logistic"``, ``"normal"`` or a :class:`Link`.
    regularisation
        lambda >= 0, in answers: the penalty is ``lambda * sum(theta**2)`` on a loss summed over answers.
        :func:`default_regularisation` of the items, the total of answers and the noise if absent. At 0 the graph of
        wins must be strongly connected.
    unranked
        for ballots: ``last`` (unranked items tie below all ranked ones) or ``missing`` (not compared).
    sampling
        ``clustered`` or ``independent``; clustered by person where the data say who answered, if absent. An
        estimate does not say. Intervals from few people cover less than their level: .92 instead of .95 with 10.
    level
        of the intervals, in (0, 1).

    Returns
    -------
    ScoreFit
        finite, whatever the data; infinite standard errors where nothing joins two items.

    Raises
    ------
    DataError
        if there is nothing to rank: no items, or at least two and no answers.
    ParameterError
        if a parameter is out of range, the answers of an estimate are not known, or regularisation is 0 and
        there is no fit; the message says why.

    Notes
    -----
    Zermelo (1929), Bradley and Terry (1952); Hunter (2004).

    >>> from psephos.profile import Comparisons
    >>> fit = fit_scores(Comparisons.from_columns(["tea", "coffee"], [0] * 10, [1] * 10, [1] * 7 + [-1] * 3))
    >>> fit.scores.round(3).tolist(), fit.sampling
    ([0.42, -0.42], 'independent')
    >>> fit.difference_intervals()[0, 1].round(2).tolist()
    [-0.5, 2.18]
    """
    link = as_link(link)
    if isinstance(data, PairwiseEstimate):
        estimate = data
    elif isinstance(data, (Profile, Comparisons)):
        estimate = PairwiseEstimate.from_data(data, unranked=unranked)
    else:
        raise ParameterError(f"data must be a Profile, Comparisons or PairwiseEstimate, got {type(data).__name__}")
    sampling = _sampling_model(data, sampling)
    normal_intervals(0.0, 0.0, level=level)  # a level out of range is refused before the work
    n, half_margins, won = _tables(estimate)
    m = len(n)
    wins = n.sum(axis=1) / 2.0 + half_margins
    total = float(n.sum()) / 2.0
    if m > 1 and not total > 0:
        raise DataError("nothing to rank: no pair of items was compared")
    noise = _noise_variance(estimate, n)
    if regularisation is None:
        # An answer at even odds has variance 1 in the margin; noise adds its own to every pair.
        factor = 1.0 + noise * (np.count_nonzero(n) / 2) / total if total > 0 else 1.0
        penalty = default_regularisation(m, total, variance_factor=factor)
    else:
        penalty = check_real(regularisation, "regularisation", low=0.0, high=1e100)
    strong = _strong_components(won)
    separated = _separated(n, won, strong)
    if penalty == 0:
        _require_fit(estimate.items, as_answers(n).components(), separated)
    solution = solve_scores(wins, n, link=link, regularisation=penalty)
    if solution.status == "separated":
        raise ParameterError("regularisation must be > 0: the noisy wins exceed what finite scores can explain")
    theta = solution.scores
    squares = n
    if isinstance(data, Comparisons) and data.weight is not None:
        squares = _doubles(pair_counts(replace(data, weight=tuple(w * w for w in data.weight))))
    spread = independent_sampling(theta, squares, link=link)
    if sampling == "clustered" and total > 0 and not isinstance(data, PairwiseEstimate):
        # All answers of a pair across strong components agree: what they vary by is known from the model alone.
        agreed = independent_sampling(theta, squares * (strong[:, None] != strong[None, :]), link=link)
        spread = _clustered(data, theta, link, unranked, spread) + agreed
    # Wins are sum_v (n_uv + W_uv) / 2: independent noise in the margins W gives a Laplacian.
    spread = spread + laplacian(np.where(n > 0, noise / 4.0, 0.0))
    covariance = score_covariance(theta, n, wins_covariance=spread, regularisation=penalty, link=link)
    return ScoreFit(
        items=estimate.items,
        scores=theta,
        covariance=covariance,
        sampling=sampling,
        level=float(level),
        link=link.name,
        regularisation=penalty,
        loss=matching_loss(theta, wins, n, link=link),
        status=solution.status,
        residual=solution.residual,
        iterations=solution.iterations,
        component_labels=solution.component_labels,
        separated=separated,
    )


def _sampling_model(data: Profile | Comparisons | PairwiseEstimate, sampling: Sampling | None) -> Sampling:
    known = isinstance(data, Profile) or (isinstance(data, Comparisons) and data.person is not None)
    if sampling is None:
        return "clustered" if known else "independent"
    check_choice(sampling, "sampling", ("independent", "clustered"))
    if sampling == "clustered" and not known:
        raise ParameterError("sampling must be 'independent' where the data do not say who answered, got 'clustered'")
    return sampling


def _doubles(table: npt.NDArray[Any]) -> Floats:
    try:
        return table.astype(np.float64)
    except OverflowError:
        raise ParameterError("scores can be fitted to fewer than 1e100 answers a pair") from None


def _tables(estimate: PairwiseEstimate) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Answers as doubles, half the sum of each item's margins, and who won anything against whom (exactly)."""
    if not estimate.items:
        raise DataError("nothing to rank: no items")
    if estimate.answers is None:
        raise ParameterError("scores need the number of answers of each pair, and it was not released")
    compared: npt.NDArray[np.bool_] = estimate.answers > 0
    np.fill_diagonal(compared, False)
    margins = np.where(compared, estimate.margins, 0)
    won = compared & (estimate.answers + margins > 0)  # int64 tables have room for the sum
    half_margins = _doubles(margins.sum(axis=1, dtype=object)) / 2.0
    return _doubles(np.where(compared, estimate.answers, 0)), half_margins, won


def _strong_components(won: npt.NDArray[np.bool_]) -> Labels:
    """Shape (m,): the same label for items that chains of wins join in both directions."""
    graph: Any = sparse.csr_array(won)
    labels: Labels = csgraph.connected_components(graph, directed=True, connection="strong")[1].astype(np.intp)
    return labels


def _separated(n: Floats, won: npt.NDArray[np.bool_], strong: Labels) -> tuple[tuple[int, ...], ...]:
    """The strong components of the graph of wins that no arc enters, or none leaves, though they met others."""
    across = strong[:, None] != strong[None, :]
    won_out, lost_out, met = (np.zeros(int(strong.max()) + 1, dtype=np.bool_) for _ in range(3))
    won_out[strong[(won & across).any(axis=1)]] = True
    lost_out[strong[(won & across).any(axis=0)]] = True
    met[strong[((n > 0) & across).any(axis=1)]] = True
    chosen = np.flatnonzero(met & ~(won_out & lost_out))
    return tuple(sorted(tuple(np.flatnonzero(strong == k).tolist()) for k in chosen))


def _require_fit(items: tuple[str, ...], labels: Labels, separated: tuple[tuple[int, ...], ...]) -> None:
    groups = int(labels.max()) + 1
    if groups > 1:
        raise ParameterError(
            f"regularisation must be > 0: the items fall into {groups} groups that were never compared with each other"
        )
    if separated:
        names = ", ".join(items[u] for u in separated[0][:5]) + (", ..." if len(separated[0]) > 5 else "")
        raise ParameterError(f"regularisation must be > 0: ({names}) won, or lost, all comparisons with other items")


def _noise_variance(estimate: PairwiseEstimate, n: Floats) -> float:
    """Variance of independent noise in the margins of compared pairs that has the same effect on the wins.

    Noise in parts adds up to row sums by its gradient part alone, and over a full table these have the covariance that
    independent entries of the gradient's variance give: ``m s^2`` times the centring projection.
    """
    if isinstance(estimate.noise, NoiseLaw):
        return estimate.noise.variance
    if not ((n > 0) | np.eye(len(n), dtype=np.bool_)).all():
        raise ParameterError("answers must be > 0 for every pair where noise differs between parts of the table")
    return float(estimate.noise.gradient)


def _clustered(
    data: Profile | Comparisons, theta: Floats, link: Link, unranked: Unranked, independent: Floats
) -> Floats:
    expected = link.cdf(theta[:, None] - theta[None, :])
    np.fill_diagonal(expected, 0.0)
    if isinstance(data, Comparisons):
        return clustered_sampling(_comparison_residuals(data, expected), independent=independent)
    counts = _doubles(np.array(data.counts, dtype=object))
    total: Floats = independent / counts.sum()
    for block, residuals in enumerate(_ballot_residuals(data, expected, unranked)):
        each = counts[block * _BLOCK :][: len(residuals), None]
        total += residuals.T @ (each * residuals)
    return total


def _comparison_residuals(data: Comparisons, expected: Floats) -> Any:
    """Shape (persons, m), sparse: wins less expected wins of each person who answered, weighted."""
    surprise = (1.0 + data.outcome.astype(np.float64)) / 2.0 - expected[data.left, data.right]
    if data.weight is not None:
        surprise = surprise * np.array([float(w) for w in data.weight])
    answered, person = np.unique(np.asarray(data.person), return_inverse=True)
    rows, columns = np.concatenate([person, person]), np.concatenate([data.left, data.right])
    entries = np.concatenate([surprise, -surprise])
    return sparse.csr_array((entries, (rows, columns)), shape=(len(answered), data.m))


def _ballot_residuals(data: Profile, expected: Floats, unranked: Unranked) -> Iterator[Floats]:
    """Blocks of shape (distinct ballots, m): wins less expected wins on each ballot."""
    m = data.m
    for start in range(0, data.support, _BLOCK):
        places = data.places[:, start : start + _BLOCK].T.astype(np.intp)
        ranked = places > 0
        places[~ranked] = m + 1
        # How many items each ballot has at each place: an item beats those at later places, and half those at its own.
        cells = places + (m + 2) * np.arange(len(places))[:, None]
        tally = np.bincount(cells.ravel(), minlength=len(places) * (m + 2)).reshape(-1, m + 2)
        if unranked == "missing":
            tally[:, m + 1] = 0
        later = tally.sum(axis=1, keepdims=True) - tally.cumsum(axis=1)
        wins = np.take_along_axis(later + tally / 2.0, places, axis=1) - 0.5
        if unranked == "missing":
            yield ranked * (wins - ranked @ expected.T)
        else:
            yield wins - expected.sum(axis=1)

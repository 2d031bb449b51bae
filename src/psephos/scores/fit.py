"""Entry point: from ballots, comparisons or a pairwise estimate to scores with intervals.

Exact and non-private for a profile or comparisons; post-processing of what was released for a pairwise estimate.
A tie counts as half a win each way. A fit without regularisation exists where the graph of wins, with an arc from u to
v if u won anything against v, is strongly connected: no set of items won, or lost, all it ever met outside (Ford 1957;
Hunter 2004, assumption 1). Where noise carries shares of an estimate outside [0, 1] that is necessary and not enough,
and ``separated`` may miss sets (docs/proofs/local.md, theorem 12). Regularisation makes every fit finite, and then it
sets how far such sets lie apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from psephos._check import check_choice
from psephos.errors import DataError, ParameterError
from psephos.pairwise import (
    NoiseLaw,
    PairNoise,
    PairwiseEstimate,
    Unranked,
    counted_pairs,
    pair_counts,
    pairwise_margins,
    said_counts,
)
from psephos.profile import Comparisons, Profile
from psephos.scores.answers import DenseAnswers, SparseAnswers, is_large, laplacian
from psephos.scores.by_person import clustered_rows, clustered_wins, doubles
from psephos.scores.intervals import independent_sampling, normal_intervals
from psephos.scores.links import LOGISTIC, Link, as_link
from psephos.scores.m_estimator import default_regularisation
from psephos.scores.score_fit import Sampling, ScoreFit, fit_wins, groups_of
from psephos.scores.wins_covariance import WinsCovariance

__all__ = ["fit_scores"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]


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

    Not private, if the data are what people said: scores and intervals are then for the holder alone
    (:func:`psephos.private_scores` releases scores). Of a released estimate they cost nothing more.

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
        for ballots: ``last`` (unranked items lose to all ranked ones) or ``missing`` (they are not compared). Two
        unranked items are not compared under either: a ballot does not say that they are equal. (Released margins
        have 0 there, and an estimate made of them counts a tie.)
    sampling
        ``clustered`` or ``independent``; clustered by person where the data say who answered, if absent. An
        estimate does not say. Clustered intervals are Student's, with degrees of freedom that count how much single
        people hold; where one person holds more than half of what is known of a score or a difference, its interval is
        infinite (:attr:`ScoreFit.held_items`, :attr:`ScoreFit.held_pairs`; :mod:`psephos.scores.people`).
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
    [-0.51, 2.19]
    """
    link = as_link(link)
    if isinstance(data, Comparisons) and is_large(data.m):
        check_choice(unranked, "unranked", ("last", "missing"))
        return _fit_many_items(data, link, regularisation, _sampling_model(data, sampling), level)
    if isinstance(data, PairwiseEstimate):
        estimate = data
    elif isinstance(data, Profile):
        margins, said = pairwise_margins(data, unranked=unranked), said_counts(data, unranked=unranked)
        estimate = PairwiseEstimate(items=data.items, margins=margins, answers=said)
    elif isinstance(data, Comparisons):
        estimate = PairwiseEstimate.from_data(data)
    else:
        raise ParameterError(f"data must be a Profile, Comparisons or PairwiseEstimate, got {type(data).__name__}")
    sampling = _sampling_model(data, sampling)
    normal_intervals(0.0, 0.0, level=level)  # a level out of range is refused before the work
    n, half_margins, won = _tables(estimate)
    m = len(n)
    total = float(n.sum()) / 2.0
    noise = _noise_variance(estimate, n)
    arcs = np.nonzero(won)
    strong = _strong_components(m, *arcs)
    table: Any = n if is_large(m) else DenseAnswers(n)
    squares: Any = table
    if isinstance(data, Comparisons) and data.weight is not None:
        squares = doubles(pair_counts(replace(data, weight=tuple(w * w for w in data.weight))))

    penalty = regularisation
    if penalty is None and m:
        # An answer at even odds has variance 1 in the margin; noise adds its own to every pair.
        factor = 1.0 + float(noise.sum()) / 2.0 / total if total > 0 else 1.0
        penalty = default_regularisation(m, total, variance_factor=factor)

    def wins_covariance(theta: Floats) -> Any:
        spread = independent_sampling(theta, squares, link=link)
        if sampling == "clustered" and total > 0 and not isinstance(data, PairwiseEstimate):
            wins, freedom = clustered_wins(
                data,
                theta,
                table,
                independent=spread,
                regularisation=float(penalty or 0.0),
                link=link,
                unranked=unranked,
            )
            # All answers of a pair across strong components agree: what they vary by is known from the model alone.
            across = strong[:, None] != strong[None, :]
            return wins + laplacian(np.where(across, -spread, 0.0)), freedom
        # Wins are sum_v (n_uv + W_uv) / 2: independent noise in the margins W gives a Laplacian.
        return spread + laplacian(noise / 4.0) if noise.any() else spread

    return fit_wins(
        estimate.items,
        n.sum(axis=1) / 2.0 + half_margins,
        table,
        wins_covariance=wins_covariance,
        separated=_separated(strong, arcs, np.nonzero(n)) if strong.any() else (),
        link=link,
        regularisation=penalty,
        sampling=sampling,
        level=level,
    )


def _fit_many_items(
    data: Comparisons, link: Link, regularisation: float | None, sampling: Sampling, level: float
) -> ScoreFit:
    """The same fit where a table of all pairs of items would be too large."""
    pairs = counted_pairs(data)
    m = data.m
    first, second = pairs.first.astype(np.int32), pairs.second.astype(np.int32)
    table = SparseAnswers(m, first, second, doubles(pairs.answers))
    if data.weight is None:
        margins = np.bincount(first, weights=pairs.margins, minlength=m).astype(np.float64)
        margins -= np.bincount(second, weights=pairs.margins, minlength=m)
    else:
        sums = np.zeros(m, dtype=object)
        np.add.at(sums, first, pairs.margins)
        np.subtract.at(sums, second, pairs.margins)
        margins = doubles(sums)
    up, down = pairs.answers + pairs.margins > 0, pairs.answers - pairs.margins > 0
    winners, losers = np.concatenate([first[up], second[down]]), np.concatenate([second[up], first[down]])
    del pairs, up, down
    strong = _strong_components(m, winners, losers)
    separated = _separated(strong, (winners, losers), (first, second))
    del winners, losers
    squares = table.count
    if data.weight is not None:
        squares = doubles(counted_pairs(replace(data, weight=tuple(w * w for w in data.weight))).answers)

    def wins_covariance(theta: Floats) -> Any:
        x = table.differences(theta)
        spread = squares * link.cdf(x) * link.cdf(-x)
        if sampling == "independent":
            return WinsCovariance.of_pairs(table.upper(spread))
        rows, freedom = clustered_rows(data, theta, link)
        # As for few items: one more person who answers by the model, and agreement across strong components.
        spread *= 1.0 / rows.shape[0] + (strong[first] != strong[second])
        return WinsCovariance.of_pairs(table.upper(spread), rows=rows), freedom

    return fit_wins(
        data.items,
        (table.totals() + margins) / 2.0,
        table,
        wins_covariance=wins_covariance,
        separated=separated,
        link=link,
        regularisation=regularisation,
        sampling=sampling,
        level=level,
    )


def _sampling_model(data: Profile | Comparisons | PairwiseEstimate, sampling: Sampling | None) -> Sampling:
    known = isinstance(data, Profile) or (isinstance(data, Comparisons) and data.person is not None)
    if sampling is None:
        return "clustered" if known else "independent"
    check_choice(sampling, "sampling", ("independent", "clustered"))
    if sampling == "clustered" and not known:
        raise ParameterError("sampling must be 'independent' where the data do not say who answered, got 'clustered'")
    return sampling


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
    if margins.dtype.kind in "iu" and len(margins) * int(np.abs(margins).max(initial=0)) < 2**63:
        sums = margins.sum(axis=1)
    else:
        sums = margins.sum(axis=1, dtype=object)
    return doubles(np.where(compared, estimate.answers, 0)), doubles(sums) / 2.0, won


def _strong_components(m: int, winners: npt.NDArray[Any], losers: npt.NDArray[Any]) -> Labels:
    """Shape (m,): the same label for items that chains of wins join in both directions."""
    arcs = np.ones(len(winners), dtype=np.int8)
    graph: Any = sparse.csr_array((arcs, (winners, losers)), shape=(m, m))
    labels: Labels = csgraph.connected_components(graph, directed=True, connection="strong")[1].astype(np.intp)
    return labels


def _separated(
    strong: Labels, won: tuple[npt.NDArray[Any], ...], met: tuple[npt.NDArray[Any], ...]
) -> tuple[tuple[int, ...], ...]:
    """The strong components of the graph of wins that no arc enters, or none leaves, though they met others.

    ``won``: winners and losers, ``met``: the two sides of pairs.
    """
    won_out, lost_out, met_out = (np.zeros(int(strong.max()) + 1, dtype=np.bool_) for _ in range(3))
    winner, loser = strong[won[0]], strong[won[1]]
    across = winner != loser
    won_out[winner[across]] = True
    lost_out[loser[across]] = True
    one, other = strong[met[0]], strong[met[1]]
    across = one != other
    met_out[one[across]] = True
    met_out[other[across]] = True
    chosen = met_out & ~(won_out & lost_out)
    return tuple(sorted(tuple(group.tolist()) for k, group in enumerate(groups_of(strong)) if chosen[k]))


def _noise_variance(estimate: PairwiseEstimate, n: Floats) -> Floats:
    """Variances of independent noise in the margins that has the same effect on the wins, shape (m, m).

    Noise in parts adds up to row sums by its gradient part alone, and over a full table these have the covariance that
    independent entries of the gradient's variance give: ``m s^2`` times the centring projection.
    """
    noise = estimate.noise
    if isinstance(noise, PairNoise):
        if noise.variances.shape != n.shape:
            raise ParameterError(f"the variances of noise must have shape {n.shape}, got {noise.variances.shape}")
        return np.where(n > 0, noise.variances, 0.0)
    if isinstance(noise, NoiseLaw):
        return np.where(n > 0, noise.variance, 0.0)
    if not ((n > 0) | np.eye(len(n), dtype=np.bool_)).all():
        raise ParameterError("answers must be > 0 for every pair where noise differs between parts of the table")
    return np.where(n > 0, float(noise.gradient), 0.0)

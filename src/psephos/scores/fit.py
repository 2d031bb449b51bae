"""The front door: from ballots, comparisons or a pairwise estimate to scores with intervals.

Exact and non-private for a profile or comparisons; post-processing of what was released for a pairwise estimate.
A tie counts as half a win each way. A fit without regularisation exists where the graph of wins, with an arc from u to
v if u won anything against v, is strongly connected: no set of items won, or lost, all it ever met outside (Ford 1957;
Hunter 2004, assumption 1). Where noise carries shares of an estimate outside [0, 1] that is necessary and not enough,
and ``separated`` may miss sets (docs/proofs/local.md, theorem 12). Regularisation makes every fit finite, and then it
sets how far such sets lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from psephos._check import check_choice, check_real
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
from psephos.scores.answers import DenseAnswers, SparseAnswers, as_answers, is_large, laplacian
from psephos.scores.intervals import (
    clustered_sampling,
    difference_errors,
    independent_sampling,
    normal_intervals,
    score_covariance,
    score_errors,
    student_intervals,
)
from psephos.scores.links import LOGISTIC, Link, as_link
from psephos.scores.m_estimator import SolveStatus, default_regularisation, matching_loss, solve_scores
from psephos.scores.ranks import RankIntervals, rank_intervals
from psephos.scores.sparse_errors import SparseErrors
from psephos.scores.wins_covariance import WinsCovariance

__all__ = ["Sampling", "ScoreFit", "fit_scores", "fit_wins"]

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
        components: take :meth:`difference_errors`, which does. ``None`` where there are more than 2000 items, unless
        the covariance of the wins was a full table: see :attr:`errors` and :meth:`covariance_of`.
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
    measured_errors
        what stands for ``covariance`` where that is ``None``.
    freedom
        shape (m,), >= 1: degrees of freedom with which the variance of each score was estimated, from people; infinite
        where it is known. ``None``: all are taken as known. Intervals are Student's with that freedom.
    """

    items: tuple[str, ...]
    scores: Floats
    covariance: Floats | None
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
    measured_errors: SparseErrors | None = None
    freedom: Floats | None = None

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Sets of item positions that comparisons join; scores of different sets cannot be compared."""
        return tuple(tuple(group.tolist()) for group in _groups(self.component_labels))

    @property
    def order(self) -> tuple[int, ...]:
        """Item positions by score, best first; equal scores in item order."""
        return tuple(np.argsort(-self.scores, kind="stable").tolist())

    @property
    def errors(self) -> Floats:
        """Standard errors of the scores about the mean of their component, shape (m,); infinite for an item alone.

        Exact up to 2000 items. Beyond, ``sqrt(diag(H^+ J H^+))`` is measured with random signs
        (:mod:`psephos.scores.sparse_errors`), with the relative error that :attr:`errors_precision` states;
        :meth:`covariance_of` is exact for chosen items.
        """
        if self.measured_errors is not None:
            return self.measured_errors.errors
        return score_errors(self._full_covariance(), self.component_labels)

    @property
    def errors_precision(self) -> float:
        """Relative standard error of :attr:`errors`, root mean square over items, from measuring them; 0 if exact.

        At most .02, unless 512 draws do not reach that: single items may be off by four times as much.
        """
        return 0.0 if self.measured_errors is None else self.measured_errors.precision

    @property
    def intervals(self) -> Floats:
        """Lower and upper ends of an interval for each score, shape (m, 2)."""
        if self.freedom is None:
            return normal_intervals(self.scores, self.errors, level=self.level)
        return student_intervals(self.scores, self.errors, freedom=self.freedom, level=self.level)

    def covariance_of(self, items: Sequence[int]) -> Floats:
        """The exact covariance of the scores of k items, about the means of their components, at any number of items.

        Parameters
        ----------
        items
            0-based positions. Beyond 2000 items each costs a solution of linear equations.

        Returns
        -------
        array of shape (k, k)
            in squared units of the scores; 0 between components, where nothing is known.

        Raises
        ------
        ParameterError
            for something that is no position.

        >>> n = np.array([[0.0, 10.0], [10.0, 0.0]])
        >>> fit = fit_wins(
        ...     ["tea", "coffee"], [5, 5], n, wins_covariance=lambda theta: independent_sampling(theta, n),
        ...     sampling="independent", regularisation=0,
        ... )
        >>> fit.covariance_of([1]).round(6).tolist()
        [[0.1]]
        """
        chosen = self._positions(items)
        if self.covariance is None and self.measured_errors is not None:
            return self.measured_errors.covariance_of(chosen.tolist())
        labels = self.component_labels[chosen]
        return np.where(labels[:, None] == labels[None, :], self._full_covariance()[np.ix_(chosen, chosen)], 0.0)

    def errors_of(self, items: Sequence[int]) -> Floats:
        """The exact standard errors of the scores of k items, shape (k,), also where :attr:`errors` are measured.

        Parameters and errors as for :meth:`covariance_of`.
        """
        chosen = self._positions(items)
        alone = (np.bincount(self.component_labels) == 1)[self.component_labels[chosen]] & (len(self.items) > 1)
        variances = np.diagonal(self.covariance_of(chosen.tolist()))
        return np.where(alone, np.inf, np.sqrt(np.maximum(variances, 0.0)))

    def difference_errors(self, items: Sequence[int] | None = None) -> Floats:
        """Exact standard errors of ``theta_u - theta_v``, shape (k, k), infinite across components.

        Of k chosen items (0-based positions), or of all; then :class:`ParameterError` where there is no ``covariance``.
        """
        if items is None:
            return difference_errors(self._full_covariance(), self.component_labels)
        chosen = self._positions(items)
        return difference_errors(self.covariance_of(chosen.tolist()), self.component_labels[chosen])

    def difference_intervals(self, items: Sequence[int] | None = None) -> Floats:
        """Lower and upper ends of an interval for each ``theta_u - theta_v``, shape (k, k, 2), of k items or of all."""
        scores = self.scores if items is None else self.scores[self._positions(items)]
        differences = scores[:, None] - scores[None, :]
        errors = self.difference_errors(items)
        if self.freedom is None:
            return normal_intervals(differences, errors, level=self.level)
        chosen = self.freedom if items is None else self.freedom[self._positions(items)]
        least = np.minimum(chosen[:, None], chosen[None, :])
        return student_intervals(differences, errors, freedom=least, level=self.level)

    def rank_intervals(self, *, rng: np.random.Generator, draws: int = 20_000) -> RankIntervals:
        """Intervals that hold the ranks of all items at once with probability ``level``, tiers, and the top K.

        Items of different components are never sure to differ (:func:`psephos.scores.rank_intervals`).

        Parameters
        ----------
        rng
            for the simulation of the errors.
        draws
            how many; at least ``level / (1 - level)``.

        Raises
        ------
        ParameterError
            where there are too many items for a ``covariance``, or too few draws.

        >>> from psephos.profile import Comparisons
        >>> fit = fit_scores(Comparisons.from_columns(["tea", "coffee"], [0] * 90, [1] * 90, [1] * 70 + [-1] * 20))
        >>> fit.rank_intervals(rng=np.random.default_rng(1)).top(1).inside
        (0,)
        """
        return rank_intervals(
            self.scores,
            self._full_covariance(),
            level=self.level,
            rng=rng,
            draws=draws,
            component_labels=self.component_labels,
            freedom=self.freedom,
        )

    def _full_covariance(self) -> Floats:
        if self.covariance is None:
            raise ParameterError(
                f"items must be chosen: the covariance of all {len(self.items)} scores is not computed; "
                "covariance_of, errors_of and difference_errors give that of some"
            )
        return self.covariance

    def _positions(self, items: Sequence[int]) -> Labels:
        chosen = np.asarray(items)
        m = len(self.items)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise ParameterError(f"items must be 0-based positions, got {items!r}")
        if not ((chosen >= 0) & (chosen < m)).all():
            raise ParameterError(f"items must be positions from 0 to {m - 1}, got {items!r}")
        return chosen.astype(np.intp)


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
        squares = _doubles(pair_counts(replace(data, weight=tuple(w * w for w in data.weight))))

    def wins_covariance(theta: Floats) -> Floats:
        spread = independent_sampling(theta, squares, link=link)
        if sampling == "clustered" and total > 0 and not isinstance(data, PairwiseEstimate):
            # All answers of a pair across strong components agree: what they vary by is known from the model alone.
            across = strong[:, None] != strong[None, :]
            spread = _clustered(data, theta, link, unranked, spread) + laplacian(np.where(across, -spread, 0.0))
        # Wins are sum_v (n_uv + W_uv) / 2: independent noise in the margins W gives a Laplacian.
        return spread + laplacian(noise / 4.0) if noise.any() else spread

    return fit_wins(
        estimate.items,
        n.sum(axis=1) / 2.0 + half_margins,
        table,
        wins_covariance=wins_covariance,
        separated=_separated(strong, arcs, np.nonzero(n)) if strong.any() else (),
        # An answer at even odds has variance 1 in the margin; noise adds its own to every pair.
        variance_factor=1.0 + float(noise.sum()) / 2.0 / total if total > 0 else 1.0,
        link=link,
        regularisation=regularisation,
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
    table = SparseAnswers(m, first, second, _doubles(pairs.answers))
    if data.weight is None:
        margins = np.bincount(first, weights=pairs.margins, minlength=m).astype(np.float64)
        margins -= np.bincount(second, weights=pairs.margins, minlength=m)
    else:
        sums = np.zeros(m, dtype=object)
        np.add.at(sums, first, pairs.margins)
        np.subtract.at(sums, second, pairs.margins)
        margins = _doubles(sums)
    up, down = pairs.answers + pairs.margins > 0, pairs.answers - pairs.margins > 0
    winners, losers = np.concatenate([first[up], second[down]]), np.concatenate([second[up], first[down]])
    del pairs, up, down
    strong = _strong_components(m, winners, losers)
    separated = _separated(strong, (winners, losers), (first, second))
    del winners, losers
    squares = table.count
    if data.weight is not None:
        squares = _doubles(counted_pairs(replace(data, weight=tuple(w * w for w in data.weight))).answers)

    def wins_covariance(theta: Floats) -> WinsCovariance:
        x = table.differences(theta)
        spread = squares * link.cdf(x) * link.cdf(-x)
        rows = None
        if sampling == "clustered":
            rows = _comparison_residuals(data, theta, link)
            # As for few items: one more person who answers by the model, and agreement across strong components.
            spread *= 1.0 / rows.shape[0] + (strong[first] != strong[second])
        return WinsCovariance.of_pairs(table.upper(spread), rows=rows)

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


def fit_wins(
    items: Sequence[str],
    wins: npt.ArrayLike,
    answers: Any,
    *,
    wins_covariance: Callable[[Floats], Any],
    separated: Sequence[Sequence[int]] = (),
    variance_factor: float = 1.0,
    link: Link | str = LOGISTIC,
    regularisation: float | None = None,
    sampling: Sampling,
    level: float = 0.95,
) -> ScoreFit:
    """Fit scores to wins and a table of answers, where the covariance of the wins is known.

    Not private: it shows what its wins show. Of released wins, or of randomised reports, it costs nothing more.

    Parameters
    ----------
    items
        the m item names.
    wins
        y, shape (m,), in answers: how many answers preferred the item, a tie counted half. Any real numbers.
    answers
        n, shape (m, m), symmetric, >= 0, zero diagonal: an array, or a scipy.sparse array.
    wins_covariance
        from scores, shape (m,), to J, shape (m, m), in answers squared: the covariance of the wins, of sampling and
        noise together, as an array, a scipy.sparse array or a :class:`WinsCovariance`. Beyond 2000 items the last two
        give measured errors (:attr:`ScoreFit.errors`); the last is for people of many answers each, whose J is a
        product of few numbers that would fill a table.
    separated
        sets of item positions that won, or lost, all comparisons with items outside the set.
    variance_factor
        G >= 1, by how much noise multiplies the variance of an answer at even odds
        (:func:`default_regularisation`).
    link, regularisation, level
        as for :func:`fit_scores`.
    sampling
        what ``wins_covariance`` assumes.

    Raises
    ------
    DataError
        if there is nothing to rank: no items, or at least two and no answers.
    ParameterError
        if a table or a parameter is out of range, or regularisation is 0 and there is no fit.

    >>> n = np.array([[0.0, 10.0], [10.0, 0.0]])
    >>> fit = fit_wins(
    ...     ["tea", "coffee"], [7, 3], n, wins_covariance=lambda theta: independent_sampling(theta, n),
    ...     sampling="independent",
    ... )
    >>> fit.scores.round(3).tolist()
    [0.42, -0.42]
    """
    link = as_link(link)
    names = tuple(items)
    check_choice(sampling, "sampling", ("independent", "clustered"))
    normal_intervals(0.0, 0.0, level=level)  # a level out of range is refused before the work
    if not names:
        raise DataError("nothing to rank: no items")
    table = as_answers(answers)
    totals = table.totals()
    m = len(totals)
    if isinstance(table, SparseAnswers) and not is_large(m):
        table = DenseAnswers(table.to_dense())
    if len(names) != m:
        raise ParameterError(f"items must have one entry an item ({m}), got {len(names)}")
    total = float(totals.sum()) / 2.0
    if m > 1 and not total > 0:
        raise DataError("nothing to rank: no pair of items was compared")
    if regularisation is None:
        penalty = default_regularisation(m, total, variance_factor=variance_factor)
    else:
        penalty = check_real(regularisation, "regularisation", low=0.0, high=1e100)
    groups = tuple(tuple(int(u) for u in group) for group in separated)
    if penalty == 0:
        _require_fit(names, table.components(), groups)
    solution = solve_scores(wins, table, link=link, regularisation=penalty)
    if solution.status == "separated":
        raise ParameterError("regularisation must be > 0: the noisy wins exceed what finite scores can explain")
    theta = solution.scores
    spread = wins_covariance(theta)
    covariance: Floats | None = None
    measured: SparseErrors | None = None
    if sparse.issparse(spread) and is_large(m):
        spread = WinsCovariance(spread)
    if isinstance(spread, WinsCovariance) and isinstance(table, SparseAnswers):
        if spread.m != m:
            raise ParameterError(f"wins_covariance must have shape {(m, m)}, got {(spread.m, spread.m)}")
        measured = SparseErrors.measure(
            theta,
            table,
            wins_covariance=spread,
            regularisation=penalty,
            link=link,
            component_labels=solution.component_labels,
        )
    else:
        full: Any = spread.toarray() if hasattr(spread, "toarray") else spread
        covariance = score_covariance(theta, table, wins_covariance=full, regularisation=penalty, link=link)
    return ScoreFit(
        items=names,
        scores=theta,
        covariance=covariance,
        sampling=sampling,
        level=float(level),
        link=link.name,
        regularisation=penalty,
        loss=matching_loss(theta, wins, table, link=link),
        status=solution.status,
        residual=solution.residual,
        iterations=solution.iterations,
        component_labels=solution.component_labels,
        separated=groups,
        measured_errors=measured,
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
    if margins.dtype.kind in "iu" and len(margins) * int(np.abs(margins).max(initial=0)) < 2**63:
        sums = margins.sum(axis=1)
    else:
        sums = margins.sum(axis=1, dtype=object)
    return _doubles(np.where(compared, estimate.answers, 0)), _doubles(sums) / 2.0, won


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
    return tuple(sorted(tuple(group.tolist()) for k, group in enumerate(_groups(strong)) if chosen[k]))


def _groups(labels: Labels) -> list[Labels]:
    """The positions of each label from 0 up, in increasing order."""
    order = np.argsort(labels, kind="stable").astype(np.intp)
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def _require_fit(items: tuple[str, ...], labels: Labels, separated: tuple[tuple[int, ...], ...]) -> None:
    groups = int(labels.max()) + 1
    if groups > 1:
        raise ParameterError(
            f"regularisation must be > 0: the items fall into {groups} groups that were never compared with each other"
        )
    if separated:
        names = ", ".join(items[u] for u in separated[0][:5]) + (", ..." if len(separated[0]) > 5 else "")
        raise ParameterError(f"regularisation must be > 0: ({names}) won, or lost, all comparisons with other items")


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


def _clustered(
    data: Profile | Comparisons, theta: Floats, link: Link, unranked: Unranked, independent: Floats
) -> Floats:
    if isinstance(data, Comparisons):
        return clustered_sampling(_comparison_residuals(data, theta, link), independent=independent)
    expected = link.cdf(theta[:, None] - theta[None, :])
    np.fill_diagonal(expected, 0.0)
    counts = _doubles(np.array(data.counts, dtype=object))
    total: Floats = independent / counts.sum()
    for block, residuals in enumerate(_ballot_residuals(data, expected, unranked)):
        each = counts[block * _BLOCK :][: len(residuals), None]
        total += residuals.T @ (each * residuals)
    return total


def _comparison_residuals(data: Comparisons, theta: Floats, link: Link) -> Any:
    """Shape (persons, m), sparse: wins less expected wins of each person who answered, weighted."""
    surprise = (1.0 + data.outcome) / 2.0 - link.cdf(theta[data.left] - theta[data.right])
    if data.weight is not None:
        surprise = surprise * np.array([float(w) for w in data.weight])
    person: Any = data.person
    answered = np.bincount(person) > 0
    row = (np.cumsum(answered) - 1)[person].astype(np.int32)
    rows, columns = np.concatenate([row, row]), np.concatenate([data.left, data.right], dtype=np.int32)
    entries = np.concatenate([surprise, -surprise])
    return sparse.csr_array((entries, (rows, columns)), shape=(int(answered.sum()), data.m))


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
        # An unranked item is compared with ranked ones at most, and beats none.
        met = ranked @ expected.T
        if unranked == "missing":
            yield ranked * (wins - met)
        else:
            yield np.where(ranked, wins - expected.sum(axis=1), -met)

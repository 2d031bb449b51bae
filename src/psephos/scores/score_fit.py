"""A fit of scores to wins, how sure it is, and what the data cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from psephos._check import check_choice, check_real
from psephos.errors import DataError, ParameterError
from psephos.scores.answers import DenseAnswers, SparseAnswers, as_answers, is_large
from psephos.scores.intervals import (
    difference_errors,
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

__all__ = ["Sampling", "ScoreFit", "fit_wins", "groups_of"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

#: How answers depend on each other: not at all, or only those of one person.
Sampling = Literal["independent", "clustered"]


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
        shape (m,), >= 0: degrees of freedom with which the variance of each score was estimated, from people; infinite
        where it is known, 0 where most of what is known of the score comes from one person
        (:mod:`psephos.scores.people`). ``None``: all are taken as known. Intervals are Student's with that freedom.
    difference_freedom
        the same for differences of scores, shape (m, m). ``None``: the lesser of the two.
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
    difference_freedom: Floats | None = None

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Sets of item positions that comparisons join; scores of different sets cannot be compared."""
        return tuple(tuple(group.tolist()) for group in groups_of(self.component_labels))

    @property
    def order(self) -> tuple[int, ...]:
        """Item positions by score, best first; equal scores in item order."""
        return tuple(np.argsort(-self.scores, kind="stable").tolist())

    @property
    def errors(self) -> Floats:
        """Standard errors of the scores about the mean of their component, shape (m,).

        Infinite for an item alone, and where :attr:`freedom` is 0. Beyond 2000 items they are measured with random
        signs, with the relative error :attr:`errors_precision`; :meth:`errors_of` is exact for chosen items.
        """
        if self.measured_errors is not None:
            errors = self.measured_errors.errors
        else:
            errors = score_errors(self._full_covariance(), self.component_labels)
        return errors if self.freedom is None else np.where(self.freedom > 0, errors, np.inf)

    @property
    def held_items(self) -> tuple[int, ...]:
        """Positions of items most of whose score rests on one person: their intervals are whole lines."""
        return () if self.freedom is None else tuple(np.flatnonzero(self.freedom <= 0).tolist())

    @property
    def held_pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of other joined items whose difference rests mostly on one person; empty beyond 2000 items."""
        if self.freedom is None or self.difference_freedom is None:
            return ()
        labels, free = self.component_labels, self.freedom > 0
        held = (self.difference_freedom <= 0) & (labels[:, None] == labels[None, :])
        held &= free[:, None] & free[None, :]
        return tuple((u, v) for u, v in np.argwhere(np.triu(held, 1)).tolist())

    @property
    def errors_precision(self) -> float:
        """Relative standard error of :attr:`errors`, root mean square over items, from measuring them; 0 if exact."""
        return 0.0 if self.measured_errors is None else self.measured_errors.precision

    @property
    def intervals(self) -> Floats:
        """Lower and upper ends of an interval for each score, shape (m, 2)."""
        if self.freedom is None:
            return normal_intervals(self.scores, self.errors, level=self.level)
        return student_intervals(self.scores, self.errors, freedom=self.freedom, level=self.level)

    def covariance_of(self, items: Sequence[int]) -> Floats:
        """The exact covariance of the scores of k items, about the means of their components; shape (k, k).

        ``items`` are 0-based positions; beyond 2000 items each costs a solution of linear equations. Entries are in
        squared units of the scores, and 0 between components, where nothing is known.

        Raises
        ------
        ParameterError
            for something that is no position.

        >>> from psephos.scores import independent_sampling
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
        """The exact standard errors of the scores of k items, shape (k,), also where :attr:`errors` are measured."""
        chosen = self._positions(items)
        alone = (np.bincount(self.component_labels) == 1)[self.component_labels[chosen]] & (len(self.items) > 1)
        if self.freedom is not None:
            alone |= self.freedom[chosen] <= 0
        variances = np.diagonal(self.covariance_of(chosen.tolist()))
        return np.where(alone, np.inf, np.sqrt(np.maximum(variances, 0.0)))

    def difference_errors(self, items: Sequence[int] | None = None) -> Floats:
        """Exact standard errors of ``theta_u - theta_v``, shape (k, k), of k items (0-based positions) or of all.

        Infinite across components, and where one person holds most of what is known.
        """
        if items is None:
            errors = difference_errors(self._full_covariance(), self.component_labels)
        else:
            chosen = self._positions(items)
            errors = difference_errors(self.covariance_of(chosen.tolist()), self.component_labels[chosen])
        freedom = self._freedom_of_differences(items)
        return errors if freedom is None else np.where(freedom > 0, errors, np.inf)

    def difference_intervals(self, items: Sequence[int] | None = None) -> Floats:
        """Lower and upper ends of an interval for each ``theta_u - theta_v``, shape (k, k, 2), of k items or of all."""
        scores = self.scores if items is None else self.scores[self._positions(items)]
        differences = scores[:, None] - scores[None, :]
        errors, freedom = self.difference_errors(items), self._freedom_of_differences(items)
        if freedom is None:
            return normal_intervals(differences, errors, level=self.level)
        return student_intervals(differences, errors, freedom=freedom, level=self.level)

    def _freedom_of_differences(self, items: Sequence[int] | None) -> Floats | None:
        """Shape (k, k), infinite on the diagonal: an item differs by 0 from itself."""
        if self.freedom is None:
            return None
        chosen = slice(None) if items is None else self._positions(items)
        if self.difference_freedom is not None:
            freedom = self.difference_freedom[chosen][:, chosen]
        else:
            own = self.freedom[chosen]
            freedom = np.minimum(own[:, None], own[None, :])
        every = np.arange(len(self.items))[chosen]
        return np.where(every[:, None] == every[None, :], np.inf, freedom)

    def rank_intervals(self, *, rng: np.random.Generator, draws: int = 20_000) -> RankIntervals:
        """Intervals that hold the ranks of all items at once with probability ``level``, tiers, and the top K.

        From ``draws`` simulated errors, at least ``level / (1 - level)``. Items of different components are never sure
        to differ (:func:`psephos.scores.rank_intervals`).
        Raises :class:`psephos.errors.ParameterError` for too many items for a ``covariance``, or too few draws.

        >>> from psephos.profile import Comparisons
        >>> from psephos.scores import fit_scores
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
            freedom=self._freedom_of_differences(None),
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
        product of few numbers that would fill a table. Or a pair of that and the :class:`psephos.scores.people.Freedom`
        with which it was estimated, where that is not known.
    separated
        sets of item positions that won, or lost, all comparisons with items outside the set.
    variance_factor
        G >= 1, by how much noise multiplies the variance of an answer at even odds
        (:func:`default_regularisation`).
    link, regularisation, level
        as for :func:`fit_scores`.
    sampling
        what ``wins_covariance`` assumes.

    Returns
    -------
    ScoreFit

    Raises
    ------
    DataError
        if there is nothing to rank: no items, or at least two and no answers.
    ParameterError
        if a table or a parameter is out of range, or regularisation is 0 and there is no fit.

    >>> from psephos.scores import independent_sampling
    >>> n = np.array([[0.0, 10.0], [10.0, 0.0]])
    >>> fit = fit_wins(
    ...     ["tea", "coffee"], [7, 3], n, wins_covariance=lambda theta: independent_sampling(theta, n),
    ...     sampling="independent",
    ... )
    >>> fit.scores.round(3).tolist()
    [0.42, -0.42]
    """
    link, names = as_link(link), tuple(items)
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
        _require_fit(names, table.labels, groups)
    solution = solve_scores(wins, table, link=link, regularisation=penalty)
    if solution.status == "separated":
        raise ParameterError("regularisation must be > 0: the noisy wins exceed what finite scores can explain")
    theta = solution.scores
    found = wins_covariance(theta)
    spread, freedom = found if isinstance(found, tuple) else (found, None)
    covariance, measured = None, None
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
        freedom=None if freedom is None else freedom.scores,
        difference_freedom=None if freedom is None else freedom.differences,
    )


def groups_of(labels: Labels) -> list[Labels]:
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

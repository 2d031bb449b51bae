"""Scores from randomised reports: the regularised M-estimator on debiased answers, with intervals.

An answer of person p on items u and v, debiased to z (:mod:`psephos.local.debias`) and weighted by w, adds ``w z`` to
the wins of u, ``w (1 - z)`` to those of v, and w to the answers of the pair. Scores solve the score equations of
:mod:`psephos.scores.m_estimator`; their covariance is the sandwich ``H^+ J H^+`` with J the covariance of the wins:

* ``clustered``: ``J = T (sum_p r_p r_p^T) T + S J_independent S``, with ``r_p = sum_a w_a (z_a - F(theta_u - theta_v))
  (e_u - e_v)`` over the answers of one record; it holds however the answers of a person hang together. S stands for one
  more person about each item, T >= 1 makes up for the fit to the same people, and intervals are Student's.
* ``independent``: every answer is one of its own, ``J = L(sum w^2 (E[X^2] / 4 - (F - 1/2)^2))``.

S, T and the degrees of freedom: docs/proofs/local.md, section 7, (J).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psephos._check import Exact, check_choice
from psephos.errors import DataError
from psephos.local.columns import ReportColumns
from psephos.local.debias import PairSums, ReportSource, Weights, as_columns, pair_sums
from psephos.scores import LOGISTIC, Link, Sampling, ScoreFit, WinsCovariance, fit_wins
from psephos.scores.answers import DENSE_ITEMS
from psephos.scores.links import as_link
from psephos.scores.people import Freedom

__all__ = ["fit_reports"]

Floats = NDArray[np.float64]

_DENSE_RESIDUALS = 1 << 23  # entries of a block of residuals, people times items


def fit_reports(
    reports: ReportSource,
    *,
    items: Sequence[str] | None = None,
    weights: Weights | Sequence[float] = "adaptive",
    max_epsilon: Exact | None = None,
    link: Link | str = LOGISTIC,
    regularisation: float | None = None,
    sampling: Sampling = "clustered",
    level: float = 0.95,
) -> ScoreFit:
    """Fit scores to the randomised reports of devices. Free: the reports are public already.

    Parameters
    ----------
    reports
        :class:`psephos.local.Report` objects, the path of a file of them (JSON Lines; it may be larger than memory), or
        their columns.
    items
        The public list of items; by default the names in the reports, in alphabetical order.
    weights
        ``adaptive``: an answer counts by how much its epsilon lets through. ``uniform``: all count alike. In both no
        answer moves a margin by more than one that at most a tenth of the reports exceed (:mod:`psephos.local.debias`),
        unless there is ``max_epsilon``: people declare their epsilon, and nobody can check it.
    max_epsilon
        In nats: what the poll allowed a person to spend with all answers. A report that declares more is refused, and
        the others count in full.
    link
        ``"logistic"`` (Bradley-Terry), ``"normal"`` (Thurstone-Mosteller) or a :class:`psephos.scores.Link`.
    regularisation
        lambda >= 0, in answers; by default :func:`psephos.scores.default_regularisation` of public sizes: items,
        answers and the factor by which randomising multiplied their variance.
    sampling
        ``clustered``: people are independent, the answers of one record need not be. ``independent``: all answers are.
    level
        Of the intervals, in (0, 1).

    Returns
    -------
    ScoreFit
        Finite, whatever the reports say. ``separated`` names sets of items whose debiased wins against the rest
        exceed what finite scores explain; ``components`` the sets of items that reports join. Both are computed from
        the reports alone.

    Raises
    ------
    DataError
        naming file, line, field, value and rule; or if there is nothing to rank.
    ParameterError
        if a parameter is out of range.

    >>> from psephos.local import Answer, Report
    >>> def report(said):
    ...     answers = (Answer("tea", "coffee", said),)
    ...     return Report(epsilon="20", unit="person", mechanism="binary", secure=True, answers=answers)
    >>> fit = fit_reports([report("left")] * 7 + [report("right")] * 3, items=["tea", "coffee"])
    >>> fit.scores.round(2).tolist()
    [0.42, -0.42]
    """
    link = as_link(link)
    check_choice(sampling, "sampling", ("independent", "clustered"))
    columns = as_columns(reports, items=items, max_epsilon=max_epsilon)
    sums = pair_sums(columns, weights=weights, max_epsilon=max_epsilon)
    if columns.m > 1 and not sums.answers.sum() > 0:
        raise DataError("nothing to rank: there are no reports")
    weight = sums.weights

    def wins_covariance(theta: Floats) -> Any:
        independent = _independent(sums, theta, link)
        if sampling == "independent" or not columns.records:
            return independent
        few, known = 1.0 / np.sqrt(np.maximum(_people_of_items(columns), 1.0)), independent.diagonal()
        if columns.m <= DENSE_ITEMS:
            moment = _clustered(columns, weight, theta, link)
            freedom, lift = _freedom(columns, weight, sums, clustered=moment.diagonal(), independent=known)
            return lift[:, None] * moment * lift + few[:, None] * independent * few, freedom
        pairs, rows = _clustered_sparse(columns, weight, theta, link)
        scale = sparse.diags_array(few)
        rest = pairs + scale @ independent @ scale
        if rows is None:
            return WinsCovariance(rest)
        own = pairs.diagonal() + np.asarray(rows.multiply(rows).sum(axis=0)).ravel()
        freedom, lift = _freedom(columns, weight, sums, clustered=own, independent=known)
        return WinsCovariance(rest, rows=rows @ sparse.diags_array(lift)), freedom

    fit = fit_wins(
        columns.items,
        sums.wins(),
        sums.table(sums.answers),
        wins_covariance=wins_covariance,
        variance_factor=max(float(sums.second_moment.sum() / max(sums.answers.sum(), 1e-300)), 1.0),
        link=link,
        regularisation=regularisation,
        sampling=sampling,
        level=level,
    )
    return replace(fit, separated=_separated(sums, fit))


def _people_of_items(columns: ReportColumns) -> Floats:
    """How many records have an answer about each item, shape (m,)."""
    m = columns.m
    people = np.zeros(m)
    for block in columns.blocks():
        record = (columns.record[block] - columns.record[block.start]).astype(np.int64)
        code = np.concatenate([record * m + columns.left[block], record * m + columns.right[block]])
        if int(record[-1]) + 1 < len(record):  # an item may be in several answers of a person
            code = np.unique(code)
        people += np.bincount(code % m, minlength=m)
    return people


def _freedom(
    columns: ReportColumns, weight: Floats, sums: PairSums, *, clustered: Floats, independent: Floats
) -> tuple[Freedom, Floats]:
    """Degrees of freedom of the clustered variance of each item's wins, shape (m,), >= 1.

    Satterthwaite: ``(sum_p v_p)^2 / sum_p v_p^2 - 1``, v_p the variance of what person p adds to the wins of the item,
    where the second sum is over people with several answers about it: what one answer varies by is known. v_p is that
    of independent answers, which is public, and a covariance for each two of the answers, the same for all people and
    items, in [0, 1/4]: what the sum of the variances ``clustered``, shape (m,), has beyond that of the variances
    ``independent`` of independent answers. Infinite where nobody has several answers.

    Also returned: by how much to multiply residuals, >= 1. Those of f + 1 like people are too small by 1 / (f + 1) of
    their variance, as the scores were fitted to them; what the model of independent answers adds is not added twice.
    """
    m = columns.m
    known = weight**2 * np.array([kind.second_moment() for kind in columns.kinds]) / 4.0
    together = np.zeros(m)
    fourth = np.zeros((3, m))
    for block in columns.blocks():
        record = (columns.record[block] - columns.record[block.start]).astype(np.int64)
        people = int(record[-1]) + 1
        if people == len(record):
            continue
        code = np.concatenate([record * m + columns.left[block], record * m + columns.right[block]])
        kind = np.concatenate([columns.kind[block], columns.kind[block]])
        if people * m <= 8 * len(record):
            item, place = np.tile(np.arange(m), people), code
        else:
            found, place = np.unique(code, return_inverse=True)
            item = found % m
        answers, weights, squares, own = (
            np.bincount(place, weights=values, minlength=len(item))
            for values in (None, weight[kind], weight[kind] ** 2, known[kind])
        )
        several = answers > 1
        item, own, both = item[several], own[several], weights[several] ** 2 - squares[several]
        together += np.bincount(item, weights=both, minlength=m)
        for row, values in enumerate((own**2, 2.0 * own * both, both**2)):
            fourth[row] += np.bincount(item, weights=values, minlength=m)
    pairs = float(together.sum())
    excess = float(clustered.sum() - independent.sum())
    covariance = min(max(excess / pairs, 0.0), 0.25) if pairs > 0 else 0.0
    variance = np.bincount(sums.first, weights=sums.second_moment, minlength=m) / 4.0
    variance += np.bincount(sums.second, weights=sums.second_moment, minlength=m) / 4.0
    total = variance + covariance * together
    uncertain = fourth[0] + covariance * fourth[1] + covariance**2 * fourth[2]
    ratio = total**2 / np.where(uncertain > 0, uncertain, 1.0)
    freedom = np.where(uncertain > 0, np.maximum(ratio - 1.0, 1.0), np.inf)
    share = np.minimum(independent / np.maximum(clustered, 1e-300), 1.0)
    return Freedom(scores=freedom, differences=None), np.sqrt(1.0 + (1.0 - share) / freedom)


def _independent(sums: PairSums, theta: Floats, link: Link) -> Any:
    """``L(sum w^2 (E[X^2] / 4 - (F - 1/2)^2))``."""
    edge = link.cdf(theta[sums.first] - theta[sums.second]) - 0.5
    return _laplacian(sums, np.maximum(sums.second_moment / 4.0 - sums.squares * edge**2, 0.0))


def _laplacian(sums: PairSums, values: Floats) -> Any:
    table = sums.table(-values)
    diagonal = -np.asarray(table.sum(axis=1)).ravel()
    return table + (np.diag(diagonal) if isinstance(table, np.ndarray) else sparse.diags_array(diagonal))


def _surprises(columns: ReportColumns, weight: Floats, theta: Floats, link: Link) -> Iterator[tuple[Any, ...]]:
    """Blocks of: left, right, record (from 0 in the block) and ``w (z - F)`` of each answer."""
    scale = weight / np.array([kind.attenuation for kind in columns.kinds])
    for block in columns.blocks():
        left, right, kind = columns.left[block], columns.right[block], columns.kind[block]
        surprise = scale[kind] * columns.reported[block] / 2.0
        surprise -= weight[kind] * (link.cdf(theta[left] - theta[right]) - 0.5)
        yield left, right, columns.record[block] - columns.record[block.start], surprise


def _clustered(columns: ReportColumns, weight: Floats, theta: Floats, link: Link) -> Floats:
    """``sum_p r_p r_p^T``, block by block; shape (m, m)."""
    m = columns.m
    total = np.zeros((m, m))
    for left, right, record, surprise in _surprises(columns, weight, theta, link):
        people = int(record[-1]) + 1
        if people == len(record):  # an answer each: a Laplacian of squares
            squares = np.bincount(left.astype(np.int64) * m + right, weights=surprise**2, minlength=m * m).reshape(m, m)
            squares += squares.T
            total += np.diag(squares.sum(axis=1)) - squares
        elif people * m <= min(_DENSE_RESIDUALS, 8 * len(record)):
            place = record * m
            rows = np.bincount(place + left, weights=surprise, minlength=people * m)
            rows -= np.bincount(place + right, weights=surprise, minlength=people * m)
            rows = rows.reshape(people, m)
            total += rows.T @ rows
        else:
            rows = _residuals(left, right, record, surprise, m)
            total += (rows.T @ rows).toarray()
    return total


def _clustered_sparse(columns: ReportColumns, weight: Floats, theta: Floats, link: Link) -> tuple[Any, Any]:
    """The same in two parts: of people with one answer a sparse table, of the others their rows r_p.

    The rows hold about 32 bytes an answer in memory; products of a person's answers would fill far more.
    """
    m = columns.m
    pairs: Any = sparse.csr_array((m, m))
    rows: list[Any] = []
    for left, right, record, surprise in _surprises(columns, weight, theta, link):
        several = np.bincount(record)[record] > 1
        single = ~several
        if single.any():
            where = (np.concatenate([left[single], right[single]]), np.concatenate([right[single], left[single]]))
            squares = sparse.csr_array((np.tile(surprise[single] ** 2, 2), where), shape=(m, m))
            pairs = pairs + sparse.diags_array(squares @ np.ones(m)) - squares
        if several.any():
            people = np.unique(record[several], return_inverse=True)[1]
            rows.append(_residuals(left[several], right[several], people, surprise[several], m))
    return sparse.csr_array(pairs), sparse.vstack(rows, format="csr") if rows else None


def _residuals(left: Any, right: Any, record: Any, surprise: Floats, m: int) -> Any:
    """Wins less expected wins of each person, shape (people, m), sparse."""
    where = (np.concatenate([record, record]), np.concatenate([left, right]))
    return sparse.csr_array((np.concatenate([surprise, -surprise]), where), shape=(int(record[-1]) + 1, m))


def _separated(sums: PairSums, fit: ScoreFit) -> tuple[tuple[int, ...], ...]:
    """The best and the worst group of each component that won, or lost, at least all it could against the rest.

    Without regularisation a set of items with such wins has no finite distance from the rest; and if there are such
    sets, one of them is at the end of the order for all small enough regularisation (docs/proofs/local.md, theorem 13).
    So the sets to look at are those of the k best, for every k: their wins against the rest of their component beside
    the number of answers between the two. Whatever is named is so; at a regularisation that is not small, a set that
    lies at neither end is not seen.
    """
    labels = fit.component_labels
    order = np.lexsort((-fit.scores, labels))  # component by component, in each the best first
    place = np.empty(sums.m, dtype=np.intp)
    place[order] = np.arange(sums.m)
    first, second = place[sums.first], place[sums.second]
    low, high = np.minimum(first, second), np.maximum(first, second)
    better = np.where(first < second, 1.0, -1.0) * sums.margin
    # A pair lies across the cut behind a place for low <= place < high, within its component.
    margin, answers = (
        np.cumsum(np.bincount(low, weights=w, minlength=sums.m) - np.bincount(high, weights=w, minlength=sums.m))
        for w in (better, sums.answers)
    )
    inside = np.append(labels[order][1:] == labels[order][:-1], False)
    groups: list[tuple[int, ...]] = []
    cuts = np.flatnonzero(inside & (margin >= answers * (1 - 1e-12)))
    starts = np.searchsorted(labels[order], labels[order][cuts], side="left")
    ends = np.searchsorted(labels[order], labels[order][cuts], side="right")
    for start in np.unique(starts).tolist():
        own = starts == start
        groups.append(tuple(sorted(order[start : cuts[own][0] + 1].tolist())))
        groups.append(tuple(sorted(order[cuts[own][-1] + 1 : ends[own][0]].tolist())))
    return tuple(sorted(groups))

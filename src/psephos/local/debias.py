"""From randomised answers to unbiased estimates of pairs.

Code an answer on items u and v as x = +1 (u preferred), -1 or 0, and its report likewise as s. Reports shrink margins
by a known factor a, the :func:`psephos.local.attenuation` of the answer's epsilon, so ``X = s / a`` has the mean x.

**Weights** w depend on epsilon and mechanism alone, which are public; then ``sum w X / sum w`` stays unbiased, as long
as how careful people are says nothing about what they prefer. ``uniform`` gives each the weight 1; ``adaptive`` gives w
in proportion to ``1 / E[X^2]`` without ties, ``a^2`` for two outcomes: the inverse variance between equal items.
Weights are scaled to mean 1.

**Whoever declares an epsilon decides how much the report counts**: w X moves a margin by w / a. So that influence is
held to one that at most a tenth of all reports exceed, ``w = min(w, limit * a)``, by epsilon alone. Nothing changes
where all declare the same, or where more than a tenth declares what gives most influence. Where a poll bounds epsilon
beforehand, ``max_epsilon`` refuses reports above it, and there is no other limit.

**What comes out** for each pair: the estimated margin ``W = sum w X``, the number of answers ``n = sum w``, and the
variance that W has beyond that of n plain answers between equal items, ``sum w^2 E[X^2] - n``, or 0 where that is
negative. Proofs: docs/proofs/local.md, sections 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psephos._check import Exact, check_choice
from psephos.errors import ParameterError
from psephos.local.columns import ReportColumns
from psephos.local.reports import Report, check_most
from psephos.pairwise import PairNoise, PairwiseEstimate
from psephos.scores.answers import DENSE_ITEMS

__all__ = ["PairSums", "ReportSource", "Weights", "as_columns", "debias", "limited_reports", "pair_sums"]

Floats = NDArray[np.float64]

#: What a report counts: the same for all, or by how much its epsilon lets through.
Weights = Literal["uniform", "adaptive"]

#: Reports in memory, in a file of JSON Lines, or as columns.
ReportSource = ReportColumns | Iterable[Report] | str | PathLike[str]

#: A pair whose reports weigh less than this part of those of the pair with most has next to none: it joins no items.
_NOTHING = 1e-9
#: The part of all reports that may declare more than what a report counts for.
_FEW = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairSums:
    """Sums over the answers of each pair that was asked, ``first < second``; all arrays of shape ``(pairs,)``.

    Attributes
    ----------
    m
        The number of items.
    first, second
        0-based positions.
    answers
        ``sum w``.
    margin
        ``sum w X``, of first over second.
    squares
        ``sum w^2``.
    second_moment
        ``sum w^2 E[X^2]``: the variance of ``margin`` between equal items. Known for two outcomes; for three, whose
        reports say how many ties there are, ``sum w^2 X^2`` of the pair's own reports, and one more that is no tie.
    weights
        w of each kind of answer, shape ``(kinds,)``.
    """

    m: int
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    answers: Floats
    margin: Floats
    squares: Floats
    second_moment: Floats
    weights: Floats

    def table(self, values: Floats) -> Any:
        """A symmetric table of the values, shape (m, m): dense up to 2,000 items, else scipy.sparse."""
        if self.m <= DENSE_ITEMS:
            table = np.zeros((self.m, self.m))
            table[self.first, self.second] = table[self.second, self.first] = values
            return table
        rows, columns = np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])
        return sparse.csr_array((np.concatenate([values, values]), (rows, columns)), shape=(self.m, self.m))

    def wins(self) -> Floats:
        """``sum_v (n_uv + W_uv) / 2`` of each item u, shape (m,): any real number."""
        won: Any = np.bincount(self.first, weights=(self.answers + self.margin) / 2.0, minlength=self.m)
        wins: Floats = won + np.bincount(self.second, weights=(self.answers - self.margin) / 2.0, minlength=self.m)
        return wins


def as_columns(
    reports: ReportSource, *, items: Sequence[str] | None, max_epsilon: Exact | None = None
) -> ReportColumns:
    """``reports`` as columns, none above ``max_epsilon``; ``items`` only where they are not columns already."""
    if isinstance(reports, ReportColumns):
        for kind in reports.kinds:
            check_most(kind.epsilon_person, max_epsilon)
        if items is not None and tuple(items) != reports.items:
            raise ParameterError("items must be those of the columns, or absent")
        return reports
    return ReportColumns.from_reports(reports, items=items, max_epsilon=max_epsilon)


def kind_weights(
    columns: ReportColumns, weights: Weights | Sequence[float], *, max_epsilon: Exact | None = None
) -> Floats:
    """The weight of each kind of answer, shape ``(kinds,)``: mean 1 over the answers.

    A sequence gives other public weights, one a kind, >= 0; they are scaled like the named ones, and not limited. With
    ``max_epsilon`` no weight is.
    """
    if isinstance(weights, str):
        each = _declared_weights(columns, weights)
        if max_epsilon is None:
            scale = np.array([kind.attenuation for kind in columns.kinds])
            each = np.minimum(each, _influence_limit(columns, weights) * scale)
    else:
        each = np.array([float(weight) for weight in weights])
        if len(each) != len(columns.kinds) or not ((each >= 0) & (each < 1e100)).all():
            raise ParameterError(f"weights must be 'uniform', 'adaptive' or one number >= 0 a kind, got {weights!r}")
    counts = _counts_of_kinds(columns)
    values = each / max(float(each.max(initial=0.0)) or 1.0, 1e-300)  # at epsilon 1e-17 squares are near 1e-34
    total = float(values @ counts)
    if counts.sum() and not total > 0:
        raise ParameterError("weights must be > 0 for some answer")
    scaled: Floats = values * (counts.sum() / total) if counts.sum() else values
    return scaled


def _declared_weights(columns: ReportColumns, weights: str) -> Floats:
    check_choice(weights, "weights", ("uniform", "adaptive"))
    each = [1.0 if weights == "uniform" else 1.0 / kind.second_moment() for kind in columns.kinds]
    return np.array(each, dtype=np.float64)


def _influences(columns: ReportColumns, weights: str) -> Floats:
    """``w / a`` of each kind, unlimited."""
    influences: Floats = _declared_weights(columns, weights) / np.array([kind.attenuation for kind in columns.kinds])
    return influences


def _influence_limit(columns: ReportColumns, weights: str) -> float:
    """The least influence that at most a tenth of the reports exceed; infinite without reports."""
    influence, records = _influences(columns, weights), _counts_of_kinds(columns, records=True)
    if not records.sum():
        return math.inf
    order = np.argsort(influence, kind="stable")
    above = records.sum() - np.cumsum(records[order])
    return float(influence[order][np.argmax(above <= _FEW * records.sum())])


def limited_reports(columns: ReportColumns, weights: str) -> int:
    """How many reports count less than what they declare gives them, as :func:`kind_weights` limits them."""
    above = _influences(columns, weights) > _influence_limit(columns, weights)
    return int(_counts_of_kinds(columns, records=True)[above].sum())


def _counts_of_kinds(columns: ReportColumns, *, records: bool = False) -> Floats:
    """How many answers, or records, there are of each kind."""
    counts = np.zeros(len(columns.kinds))
    for block in columns.blocks():
        kind = columns.kind[block]
        if records:
            kind = kind[np.diff(columns.record[block], prepend=-1) > 0]
        counts += np.bincount(kind, minlength=len(counts))
    return counts


def pair_sums(
    columns: ReportColumns, *, weights: Weights | Sequence[float] = "adaptive", max_epsilon: Exact | None = None
) -> PairSums:
    """Add the reports of each pair up, block by block.

    Of ``sum w^2 E[X^2]``, the observed sum is unbiased whatever the shares of ties are, and for two outcomes it is the
    bound ``sum w^2 / a^2`` itself. The mean of the bound is added as one more answer, and the sum scaled back, so that
    a few reports that are all ties do not give a variance of 0.
    """
    m = columns.m
    weight = kind_weights(columns, weights, max_epsilon=max_epsilon)
    scale = weight / np.array([kind.attenuation for kind in columns.kinds]) if columns.kinds else weight
    bound = weight**2 * np.array([kind.second_moment() for kind in columns.kinds])
    dense = m <= DENSE_ITEMS
    totals = np.zeros((m * m if dense else 0, 6))
    parts: list[tuple[Any, Any]] = []
    for block in columns.blocks():
        left, right = columns.left[block].astype(np.int64), columns.right[block].astype(np.int64)
        kind = columns.kind[block]
        turned = left > right
        code = np.where(turned, right * m + left, left * m + right)
        signed = columns.reported[block] * np.where(turned, -1.0, 1.0) * scale[kind]
        found: Any = None
        place = code
        if not dense:
            found, place = np.unique(code, return_inverse=True)
        size = m * m if found is None else len(found)
        values = (weight[kind], signed, weight[kind] ** 2, signed**2, bound[kind], np.ones(len(kind)))
        sums = np.stack([np.bincount(place, weights=each, minlength=size) for each in values], axis=1)
        if found is None:
            totals += sums
        else:
            parts.append((found, sums))
    if dense:
        codes = np.flatnonzero(totals[:, 5])
        totals = totals[codes]
    elif parts:
        codes, place = np.unique(np.concatenate([codes for codes, _ in parts]), return_inverse=True)
        stacked = np.concatenate([sums for _, sums in parts])
        columns_of = [np.bincount(place, weights=stacked[:, i], minlength=len(codes)) for i in range(6)]
        totals = np.stack(columns_of, axis=1)
    else:
        codes = np.zeros(0, dtype=np.int64)
    said = totals[:, 0] > _NOTHING * totals[:, 0].max(initial=0.0)
    codes, totals = codes[said], totals[said]
    observed, most, number = totals[:, 3], totals[:, 4], totals[:, 5]
    return PairSums(
        m=m,
        first=(codes // m).astype(np.intp),
        second=(codes % m).astype(np.intp),
        answers=totals[:, 0],
        margin=totals[:, 1],
        squares=totals[:, 2],
        second_moment=(observed + most / number) * (number / (number + 1.0)),
        weights=weight,
    )


def debias(
    reports: ReportSource,
    *,
    items: Sequence[str] | None = None,
    weights: Weights | Sequence[float] = "adaptive",
    max_epsilon: Exact | None = None,
) -> PairwiseEstimate:
    """Unbiased margins of all pairs from randomised reports: free, since the reports are public already.

    Parameters
    ----------
    reports
        :class:`psephos.local.Report` objects, the path of a file of them (JSON Lines), or their columns.
    items
        The public list of items; by default the names in the reports, in alphabetical order.
    weights
        ``adaptive``, ``uniform``, or one number >= 0 for each of the columns' kinds.
    max_epsilon
        As for :func:`psephos.fit_reports`.

    Returns
    -------
    PairwiseEstimate
        Margins in answers, any real numbers; numbers of answers (weighted); and what privacy added to the variance.
        It holds for independent answers; :func:`psephos.fit_reports` also knows which answers are of one person.

    Raises
    ------
    DataError
        naming file, line, field, value and rule.
    ParameterError
        for more than 2,000 items, whose table would not fit: :func:`psephos.fit_reports` has no such limit.

    >>> from psephos.local import Answer, Report
    >>> answers = (Answer("tea", "coffee", "left"),)
    >>> report = Report(epsilon="1", unit="person", mechanism="binary", secure=True, answers=answers)
    >>> debias([report], items=["tea", "coffee"]).margins.round(3).tolist()
    [[0.0, 2.164], [-2.164, 0.0]]
    """
    columns = as_columns(reports, items=items, max_epsilon=max_epsilon)
    if columns.m > DENSE_ITEMS:
        raise ParameterError(f"items must be at most {DENSE_ITEMS} for a table of all pairs, got {columns.m}")
    sums = pair_sums(columns, weights=weights, max_epsilon=max_epsilon)
    margins = np.zeros((columns.m, columns.m))
    margins[sums.first, sums.second] = sums.margin
    return PairwiseEstimate(
        items=columns.items,
        margins=margins - margins.T,
        answers=sums.table(sums.answers),
        noise=PairNoise(variances=sums.table(np.maximum(sums.second_moment - sums.answers, 0.0))),
    )

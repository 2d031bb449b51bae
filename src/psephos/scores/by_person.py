"""What each person adds to the wins: residuals, their covariance, and the tables of who answered how much.

The answers of one person need not be independent of each other (:mod:`psephos.scores.intervals`), and single people
may hold much of a fit (:mod:`psephos.scores.people`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from psephos.errors import ParameterError
from psephos.pairwise import Unranked
from psephos.profile import Comparisons, Profile
from psephos.scores.answers import LEAST_DENSITY
from psephos.scores.intervals import clustered_sampling, score_inverse
from psephos.scores.links import Link
from psephos.scores.people import Freedom, Person, freedom_of_items, freedom_of_pairs

__all__ = ["clustered_rows", "clustered_wins", "doubles"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

_BLOCK = 1 << 14  # ballots at a time: 20 items of eight bytes are 2.6 MB


def doubles(table: npt.NDArray[Any]) -> Floats:
    """Counts of any size as doubles; :class:`ParameterError` from 1e100 on."""
    try:
        return table.astype(np.float64)
    except OverflowError:
        raise ParameterError("scores can be fitted to fewer than 1e100 answers a pair") from None


def clustered_wins(
    data: Profile | Comparisons,
    theta: Floats,
    answers: Any,
    *,
    independent: Floats,
    regularisation: float,
    link: Link,
    unranked: Unranked,
) -> tuple[Floats, Freedom]:
    """The covariance of the wins where people are independent, shape (m, m), and with what freedom it is known.

    ``answers``: the table that was fitted; ``independent``: the covariance if all answers were independent.
    """
    expected = link.cdf(theta[:, None] - theta[None, :])
    np.fill_diagonal(expected, 0.0)
    table: _Records | _Ballots
    if isinstance(data, Comparisons):
        table = _Records(data, theta, link)
        wins = clustered_sampling(table.rows(), independent=independent)
    else:
        table = _Ballots(data, expected, unranked)
        wins = independent / float(table.counts.sum())
        for start, residuals in table.residuals():
            wins = wins + residuals.T @ (table.counts[start : start + len(residuals), None] * residuals)
    inverse, density = score_inverse(theta, answers, regularisation=regularisation, link=link)
    freedom, added = freedom_of_pairs(table, density, inverse)
    return wins + added, freedom


def clustered_rows(data: Comparisons, theta: Floats, link: Link) -> tuple[Any, Freedom]:
    """For many items: residuals of people, sparse, shape (persons, m), and the freedom of each score."""
    table = _Records(data, theta, link)
    # One entry for each person and item, in the same order in all three.
    rows = table.by_item(table.surprise, -1.0)
    number = table.by_item((table.weight > 0).astype(np.float64), 1.0)
    size = number if data.weight is None else table.by_item(table.weight, 1.0)
    density = link.density(theta[data.left] - theta[data.right])
    np.maximum(density, LEAST_DENSITY * float(link.density(np.zeros(1))[0]), out=density)
    share = table.by_item(table.weight * density, 1.0).data
    item = rows.indices
    total = np.bincount(item, weights=share, minlength=data.m)
    share /= np.maximum(total[item], 1e-300)
    freedom = freedom_of_items(share, number.data > 1, size.data, item, data.m)
    rows.data /= np.sqrt(1.0 - np.where(number.data > 1, np.minimum(share, 0.999), 0.0))
    return rows, freedom


class _Records:
    """Comparisons by the people who gave any."""

    def __init__(self, data: Comparisons, theta: Floats, link: Link) -> None:
        person: Any = data.person
        answered = np.bincount(person) > 0
        self.m, self.left, self.right = data.m, data.left, data.right
        self.row: npt.NDArray[np.int32] = (np.cumsum(answered, dtype=np.int32) - 1)[person]
        people = int(answered.sum())
        self.weight = np.ones(data.records) if data.weight is None else np.array([float(w) for w in data.weight])
        self.surprise = self.weight * ((1.0 + data.outcome) / 2.0 - link.cdf(theta[data.left] - theta[data.right]))
        self.answers = np.bincount(self.row[self.weight > 0], minlength=people)

    def rows(self) -> Any:
        """Shape (people, m), sparse: wins less expected wins of each person, weighted."""
        return self.by_item(self.surprise, -1.0)

    def by_item(self, values: Floats, sign: float) -> Any:
        """Sums over the answers of a person about an item, sparse: of values for the left, signed for the right."""
        rows, columns = np.tile(self.row, 2), np.concatenate([self.left, self.right], dtype=np.int32)
        entries = np.concatenate([values, sign * values])
        table: Any = sparse.csr_array((entries, (rows, columns)), shape=(len(self.answers), self.m))
        table.sum_duplicates()
        return table

    def traces(self, table: Floats) -> Floats:
        sums = np.bincount(self.row, weights=self.weight * table[self.left, self.right], minlength=len(self.answers))
        traces: Floats = np.where(self.answers > 1, sums, 0.0)
        return traces

    def totals(self, each: Floats) -> Floats:
        m = self.m
        flat = np.bincount(self.left * m + self.right, weights=self.weight * each[self.row], minlength=m * m)
        half = flat.reshape(m, m).astype(np.float64)
        return half + half.T

    def sizes(self) -> Floats:
        return np.bincount(self.row, weights=self.weight, minlength=len(self.answers)).astype(np.float64)

    def numbers(self) -> Floats:
        return np.ones(len(self.answers))

    def people(self, chosen: Labels) -> Iterator[Person]:
        mine = np.flatnonzero(np.isin(self.row, chosen)).astype(np.intp)
        mine = mine[np.argsort(self.row[mine], kind="stable")]
        starts = np.searchsorted(self.row[mine], chosen, side="left")
        ends = np.searchsorted(self.row[mine], chosen, side="right")
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            own = mine[start:end]
            items, place = np.unique(np.concatenate([self.left[own], self.right[own]]), return_inverse=True)
            first, second = np.split(place, 2)
            weights, residual = np.zeros((len(items), len(items))), np.zeros(len(items))
            np.add.at(weights, (first, second), self.weight[own])
            np.add.at(residual, first, self.surprise[own])
            np.subtract.at(residual, second, self.surprise[own])
            yield Person(items=items.astype(np.intp), weights=weights + weights.T, residual=residual)


class _Ballots:
    """Ballots, each of as many people as cast it."""

    def __init__(self, data: Profile, expected: Floats, unranked: Unranked) -> None:
        self.data, self.expected, self.last = data, expected, unranked == "last"
        self.counts = doubles(np.array(data.counts, dtype=object))
        # Whose pairs are missing: of two items that are unranked, or one of which is.
        self.chosen = data.places == 0 if self.last else data.places > 0

    def residuals(self) -> Iterator[tuple[int, Floats]]:
        """Blocks of shape (distinct ballots, m), where each starts: wins less expected wins on each ballot."""
        for start in range(0, self.data.support, _BLOCK):
            yield start, self._residuals(self.data.places[:, start : start + _BLOCK])

    def _residuals(self, columns: npt.NDArray[Any]) -> Floats:
        m = self.data.m
        places = columns.T.astype(np.intp)
        ranked = places > 0
        places[~ranked] = m + 1
        # How many items each ballot has at each place: an item beats those at later places, and half those at its own.
        cells = places + (m + 2) * np.arange(len(places))[:, None]
        tally = np.bincount(cells.ravel(), minlength=len(places) * (m + 2)).reshape(-1, m + 2)
        if not self.last:
            tally[:, m + 1] = 0
        later = tally.sum(axis=1, keepdims=True) - tally.cumsum(axis=1)
        wins = np.take_along_axis(later + tally / 2.0, places, axis=1) - 0.5
        # An unranked item is compared with ranked ones at most, and beats none.
        met = ranked @ self.expected.T
        if self.last:
            return np.where(ranked, wins - self.expected.sum(axis=1), -met)
        residuals: Floats = ranked * (wins - met)
        return residuals

    def traces(self, table: Floats) -> Floats:
        values = table - np.diag(np.diagonal(table))
        inner = np.empty(self.data.support)
        for start in range(0, self.data.support, _BLOCK):
            block = self.chosen[:, start : start + _BLOCK].T.astype(np.float64)
            inner[start : start + _BLOCK] = ((block @ values) * block).sum(axis=1)
        sums = (float(values.sum()) - inner if self.last else inner) / 2.0
        return np.where(self.sizes() > 1, np.maximum(sums, 0.0), 0.0)

    def totals(self, each: Floats) -> Floats:
        weight = self.counts * each
        block = self.chosen.astype(np.float64)
        inner: Floats = (block * weight) @ block.T
        table = float(weight.sum()) - inner if self.last else inner
        np.fill_diagonal(table, 0.0)
        return np.maximum(table, 0.0)

    def sizes(self) -> Floats:
        m, inner = self.data.m, self.chosen.sum(axis=0).astype(np.float64)
        pairs: Floats = inner * (inner - 1.0) / 2.0
        return m * (m - 1.0) / 2.0 - pairs if self.last else pairs

    def numbers(self) -> Floats:
        return self.counts

    def people(self, chosen: Labels) -> Iterator[Person]:
        every = np.arange(self.data.m)
        for b in chosen.tolist():
            one, residual = self.chosen[:, b], self._residuals(self.data.places[:, b : b + 1])[0]
            items = every if self.last else np.flatnonzero(one)
            weights = 1.0 - np.outer(one, one) if self.last else np.ones((len(items), len(items)))
            np.fill_diagonal(weights, 0.0)
            yield Person(items=items, weights=weights, residual=residual[items], count=float(self.counts[b]))

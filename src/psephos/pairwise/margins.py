"""From what people said to exact margins, the one object that central mechanisms release.

How far one person can move them: :mod:`psephos.central.margin_sensitivity`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.errors import ParameterError
from psephos.pairwise.kernel import MAX_INT64_PEOPLE, Unranked, margins_from_places
from psephos.profile.comparisons import Comparisons
from psephos.profile.profile import Profile

__all__ = ["pair_counts", "pairwise_margins"]


def pairwise_margins(data: Profile | Comparisons, *, unranked: Unranked = "last") -> NDArray[Any]:
    """Exact margins ``W[u, v] = c[u, v] - c[v, u]``: how many more prefer u to v than v to u.

    Parameters
    ----------
    data
        A profile, or comparisons (whose pairs are those that were compared; ``unranked`` does not apply).
    unranked
        ``last``: unranked items tie below all ranked ones. ``missing``: they are compared with nothing.

    Returns
    -------
    array of shape (m, m)
        Antisymmetric; int64 where N <= 2**61, else dtype object with Python integers. Comparisons with
        fractional weights give exact fractions (dtype object).

    >>> from psephos import Profile
    >>> p = Profile.from_rankings({("tea", "coffee"): 7, ("coffee", "tea"): 3}, items=["tea", "coffee"])
    >>> pairwise_margins(p).tolist()
    [[0, 4], [-4, 0]]
    """
    if isinstance(data, Comparisons):
        return _table(data, data.outcome.astype(np.int64), antisymmetric=True)
    if not isinstance(data, Profile):
        raise ParameterError(f"data must be a Profile or Comparisons, got {type(data).__name__}")
    return margins_from_places(data.places, data.counts, unranked=unranked)


def pair_counts(data: Profile | Comparisons, *, unranked: Unranked = "last") -> NDArray[Any]:
    """How often each pair was compared, ``N[u, v] = c[u, v] + c[v, u]`` with a tie counted half each way.

    For ballots under ``last`` this is N for every pair, a public fact; otherwise it is data.

    >>> from psephos import Profile
    >>> p = Profile.from_rankings({("tea",): 7, ("coffee", "tea"): 3}, items=["tea", "coffee"])
    >>> pair_counts(p, unranked="missing").tolist()
    [[0, 3], [3, 0]]
    """
    if isinstance(data, Comparisons):
        return _table(data, np.ones(data.records, dtype=np.int64), antisymmetric=False)
    m, people = data.m, data.people
    exact = people <= MAX_INT64_PEOPLE
    counts = np.full((m, m), people, dtype=np.int64 if exact else object)
    if unranked == "missing":
        # Count each pair by a margin: on "ballots" where both of the pair's items are ranked, put u before v.
        numbers = np.array(data.counts, dtype=np.int64 if exact else object)
        ranked = data.places > 0
        for u in range(m):
            for v in range(u + 1, m):
                counts[u, v] = counts[v, u] = numbers[ranked[u] & ranked[v]].sum()
    np.fill_diagonal(counts, 0)
    return counts


def _table(data: Comparisons, values: NDArray[np.int64], *, antisymmetric: bool) -> NDArray[Any]:
    m = data.m
    cells = data.left * m + data.right
    if data.weight is None:
        # Sums of +-1 over the records of one array fit int64, and bincount adds them as exact doubles.
        flat = np.bincount(cells, weights=values.astype(np.float64), minlength=m * m)
        table: NDArray[Any] = flat.astype(np.int64).reshape(m, m)
    else:
        exact = [Fraction(0)] * (m * m)
        for cell, value, weight in zip(cells.tolist(), values.tolist(), data.weight, strict=True):
            exact[cell] += value * weight
        whole = all(x.denominator == 1 for x in exact)
        table = np.empty(m * m, dtype=object)
        table[:] = [int(x) if whole else x for x in exact]
        table = table.reshape(m, m)
    total: NDArray[Any] = table - table.T if antisymmetric else table + table.T
    return total

"""From what people said to exact margins, the one object that central mechanisms release.

How far one person can move them: :mod:`psephos.central.margin_sensitivity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.errors import ParameterError
from psephos.pairwise.kernel import MAX_INT64_PEOPLE, Unranked, margins_from_places
from psephos.profile.comparisons import Comparisons
from psephos.profile.profile import Profile

__all__ = ["CountedPairs", "counted_pairs", "pair_counts", "pairwise_margins", "said_counts"]

_EXACT_DOUBLES = 1 << 53


def pairwise_margins(data: Profile | Comparisons, *, unranked: Unranked = "last") -> NDArray[Any]:
    """Exact margins ``W[u, v] = c[u, v] - c[v, u]``: how many more prefer u to v than v to u.

    Not private: these are the exact counts, for the holder alone, and so is what is computed from them.
    :func:`psephos.private_consensus` releases them with noise.

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

    Raises
    ------
    ParameterError
        for other data, or another ``unranked``.

    >>> from psephos import Profile
    >>> p = Profile.from_rankings({("tea", "coffee"): 7, ("coffee", "tea"): 3}, items=["tea", "coffee"])
    >>> pairwise_margins(p).tolist()
    [[0, 4], [-4, 0]]
    """
    if isinstance(data, Comparisons):
        return _table(data, data.outcome, antisymmetric=True)
    if not isinstance(data, Profile):
        raise ParameterError(f"data must be a Profile or Comparisons, got {type(data).__name__}")
    return margins_from_places(data.places, data.counts, unranked=unranked)


def pair_counts(data: Profile | Comparisons, *, unranked: Unranked = "last") -> NDArray[Any]:
    """How often each pair was compared, ``N[u, v] = c[u, v] + c[v, u]`` with a tie counted half each way.

    Not private, but for ballots under ``last``, where it is N for every pair, a public fact. ``data`` and ``unranked``
    as for :func:`pairwise_margins`.

    Returns
    -------
    array of shape (m, m)
        symmetric, with the types of :func:`pairwise_margins`.

    >>> from psephos import Profile
    >>> p = Profile.from_rankings({("tea",): 7, ("coffee", "tea"): 3}, items=["tea", "coffee"])
    >>> pair_counts(p, unranked="missing").tolist()
    [[0, 3], [3, 0]]
    """
    if isinstance(data, Comparisons):
        return _table(data, np.ones(data.records, dtype=np.int8), antisymmetric=False)
    counts = _both(data, data.places > 0) if unranked == "missing" else _all(data)
    np.fill_diagonal(counts, 0)
    return counts


def said_counts(profile: Profile, *, unranked: Unranked = "last") -> NDArray[Any]:
    """On how many ballots of a ``profile`` each pair was compared, for a fit: a pair of two unranked items never was.

    With ``unranked="last"`` an unranked item is below all ranked ones, and two unranked ones are not said to be equal:
    their pair is no answer, where :func:`pair_counts` counts a tie.

    Returns
    -------
    array of shape (m, m)
        symmetric, with the types of :func:`pairwise_margins`.

    >>> from psephos import Profile
    >>> p = Profile.from_rankings({("tea",): 7, ("coffee", "tea"): 3}, items=["tea", "coffee", "milk"])
    >>> said_counts(p).tolist()
    [[0, 10, 10], [10, 0, 3], [10, 3, 0]]
    """
    if unranked == "missing":
        return pair_counts(profile, unranked=unranked)
    counts: NDArray[Any] = _all(profile) - _both(profile, profile.places == 0)
    np.fill_diagonal(counts, 0)
    return counts


def _all(profile: Profile) -> NDArray[Any]:
    exact = profile.people <= MAX_INT64_PEOPLE
    return np.full((profile.m, profile.m), profile.people, dtype=np.int64 if exact else object)


def _both(profile: Profile, chosen: NDArray[np.bool_]) -> NDArray[Any]:
    """Shape (m, m): on how many ballots both items are chosen; ``chosen`` has shape (m, distinct ballots)."""
    m = profile.m
    if profile.people < _EXACT_DOUBLES:
        product = (chosen * np.array(profile.counts, dtype=np.float64)) @ chosen.T.astype(np.float64)
        return product.astype(np.int64)
    counts = _all(profile)
    numbers = np.array(profile.counts, dtype=counts.dtype)
    for u in range(m):
        for v in range(u, m):
            counts[u, v] = counts[v, u] = numbers[chosen[u] & chosen[v]].sum()
    return counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedPairs:
    """The pairs of a table of comparisons, without the pairs that nobody compared.

    Attributes
    ----------
    first, second
        shape (pairs,), 0-based item positions, ``first < second``, in increasing order.
    answers
        shape (pairs,), > 0: how often each was compared, as in :func:`pair_counts`; int64, or Python integers and
        fractions where there are weights.
    margins
        shape (pairs,): by how much first beats second, as in :func:`pairwise_margins`.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    answers: NDArray[Any]
    margins: NDArray[Any]


def counted_pairs(data: Comparisons) -> CountedPairs:
    """What :func:`pair_counts` and :func:`pairwise_margins` hold, for any number of items: only pairs are stored.

    Not private: exact counts, for the holder alone. A comparison in ``data`` of weight 0 was not made.

    Returns
    -------
    CountedPairs

    >>> pairs = counted_pairs(Comparisons.from_columns(["a", "b", "c"], [2, 0, 1], [0, 2, 2], [1, 1, 0]))
    >>> pairs.first.tolist(), pairs.second.tolist(), pairs.answers.tolist(), pairs.margins.tolist()
    ([0, 1], [2, 2], [2, 1], [0, 0])
    """
    m = data.m
    swapped = data.left > data.right
    code = np.where(swapped, data.right, data.left)
    code *= m
    code += np.where(swapped, data.left, data.right)
    signs = np.where(swapped, -data.outcome, data.outcome)
    answers: NDArray[Any]
    margins: NDArray[Any]
    if data.weight is None:
        # One sort of pairs with their outcomes in the last two bits: codes stay below 2**62 for 2**30 items.
        code *= 4
        code += signs + 1
        code.sort()
        signs = (code & 3).astype(np.int64) - 1
        code >>= 2
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        answers = np.diff(starts, append=len(code))
        margins = np.add.reduceat(signs, starts) if len(starts) else np.zeros(0, dtype=np.int64)
        code = code[starts]
    else:
        weights = np.empty(data.records, dtype=object)
        weights[:] = [w.numerator if w.denominator == 1 else w for w in data.weight]
        order = np.argsort(code, kind="stable")
        order = order[weights[order] > 0]
        code, weights, signs = code[order], weights[order], signs[order]
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        answers = np.add.reduceat(weights, starts) if len(starts) else np.zeros(0, dtype=object)
        margins = np.add.reduceat(weights * signs.astype(object), starts) if len(starts) else np.zeros(0, dtype=object)
        code = code[starts]
    first, second = np.divmod(code, m)
    return CountedPairs(first=first, second=second, answers=answers, margins=margins)


def _table(data: Comparisons, values: NDArray[np.integer[Any]], *, antisymmetric: bool) -> NDArray[Any]:
    m = data.m
    cells = data.left * m
    cells += data.right
    table: NDArray[Any]
    if data.weight is None:
        if antisymmetric:
            # Sums of +-1 over the records of one array fit int64, and bincount adds them as exact doubles.
            flat = np.bincount(cells, weights=values, minlength=m * m).astype(np.int64)
        else:
            flat = np.bincount(cells, minlength=m * m)
        table = flat.reshape(m, m)
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

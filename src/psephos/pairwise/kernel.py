"""Exact pairwise margins from item-major places.

``W[u, v] = #{ballots that prefer u} - #{ballots that prefer v}``, an integer for every kind of ballot:
each person adds +1, 0 or -1, and 0 for a tied or (under ``missing``) half-ranked pair.

Three paths, one value:

* one person a ballot: compare two rows and count, block by block so that a block stays in cache;
* multiplicities: the m x support signs of one item against all others times the counts cut into limbs small
  enough that a float64 product is exact, recombined in Python integers (so N has no limit);
* :func:`margins_plain`: the definition, in Python integers, for tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice

__all__ = ["MAX_INT64_PEOPLE", "Unranked", "margins_from_places", "margins_plain"]

#: What an item without a place means: after all ranked items, or compared with nothing.
Unranked = Literal["last", "missing"]

#: Up to this N a margin, and twice a margin, fits int64.
MAX_INT64_PEOPLE = 2**61

_BLOCK = 1 << 15  # ballots; 20 items of one byte are 640 kB, which stays in a second-level cache


def margins_from_places(
    places: NDArray[np.unsignedinteger], counts: Sequence[int] | None = None, *, unranked: Unranked = "last"
) -> NDArray[Any]:
    """Exact margins of an item-major array of places.

    Parameters
    ----------
    places
        Shape ``(m, ballots)``, unsigned: 1 is best, equal numbers tie, 0 is unranked. The largest value of
        the type is reserved.
    counts
        Multiplicity of each ballot, Python integers >= 1 of any size; one person each if absent.
    unranked
        ``last``: unranked items tie below all ranked ones. ``missing``: pairs with an unranked item add 0.

    Returns
    -------
    array of shape (m, m)
        int64 where N <= 2**61, else Python integers (dtype object). Antisymmetric.

    Raises
    ------
    ParameterError
        for another ``unranked``.

    >>> margins_from_places(np.array([[1, 1, 2], [2, 2, 1]], dtype=np.uint8)).tolist()
    [[0, 1], [-1, 0]]
    """
    check_choice(unranked, "unranked", ("last", "missing"))
    if counts is None:
        return _unit_margins(places, unranked)
    # Ballots of one person go the fast way also when others are shared: one person who copies another's ballot
    # must not change how long everything takes.
    single = np.array([count == 1 for count in counts], dtype=np.bool_)
    margins: NDArray[Any] = _unit_margins(places[:, single], unranked)
    if not single.all():
        shared = [count for count in counts if count != 1]
        margins = margins + _weighted_margins(places[:, ~single], shared, unranked)
    return margins if sum(counts) <= MAX_INT64_PEOPLE else margins.astype(object)


def _unit_margins(places: NDArray[np.unsignedinteger], unranked: Unranked) -> NDArray[np.int64]:
    m, ballots = places.shape
    margins = np.zeros((m, m), dtype=np.int64)
    top = np.iinfo(places.dtype).max
    for start in range(0, ballots, _BLOCK):
        block = np.ascontiguousarray(places[:, start : start + _BLOCK])
        size = block.shape[1]
        if not block.all():
            if unranked == "missing":
                margins += _signed_count(block)
                continue
            block = np.where(block == 0, top, block)
        # Strict complete ballots need one comparison a pair: whoever does not prefer u prefers v.
        strict = _all_strict(block)
        for u in range(m):
            for v in range(u + 1, m):
                won = np.count_nonzero(block[u] < block[v])
                lost = size - won if strict else np.count_nonzero(block[u] > block[v])
                margins[u, v] += won - lost
    lower = np.tril_indices(m, -1)
    margins[lower] = -margins.T[lower]
    return margins


def _all_strict(block: NDArray[np.unsignedinteger]) -> bool:
    """Whether every column is a permutation of 1..m (m <= 64: each item sets its own bit of a word)."""
    m = block.shape[0]
    if m > 64 or not m or int(block.max()) > m:
        return False
    bits = np.array([0, *(1 << i for i in range(m))], dtype=np.uint64)
    seen = np.zeros(block.shape[1], dtype=np.uint64)
    for row in block:
        seen |= bits[row]
    return bool((seen == np.uint64(2**m - 1)).all())


def _signed_count(block: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Upper triangle of margins with unranked items compared with nothing."""
    m = block.shape[0]
    ranked = block > 0
    total = np.zeros((m, m), dtype=np.int64)
    for u in range(m):
        for v in range(u + 1, m):
            both = ranked[u] & ranked[v]
            won = np.count_nonzero((block[u] < block[v]) & both)
            lost = np.count_nonzero((block[u] > block[v]) & both)
            total[u, v] = won - lost
    return total


def _weighted_margins(places: NDArray[np.unsignedinteger], counts: Sequence[int], unranked: Unranked) -> NDArray[Any]:
    m, ballots = places.shape
    # A sum of `ballots` signed limbs below 2**width stays below 2**53, where float64 holds every integer.
    width = 52 - max(ballots - 1, 1).bit_length()
    people = sum(counts)
    limbs = -(-max(max(counts).bit_length(), 1) // width)
    parts = np.empty((ballots, limbs), dtype=np.float64)
    mask = (1 << width) - 1
    for limb in range(limbs):
        parts[:, limb] = [(count >> (width * limb)) & mask for count in counts]
    exact = people <= MAX_INT64_PEOPLE
    margins = np.zeros((m, m), dtype=np.int64 if exact else object)
    values = places
    if unranked == "last":
        values = np.where(places == 0, np.iinfo(places.dtype).max, places)
    for start in range(0, ballots, _BLOCK):
        block = values[:, start : start + _BLOCK]
        part = parts[start : start + _BLOCK]
        ranked = places[:, start : start + _BLOCK] > 0
        for u in range(m - 1):
            sign = (block[u] < block[u + 1 :]).astype(np.float64)
            sign -= block[u] > block[u + 1 :]
            if unranked == "missing":
                sign *= ranked[u] & ranked[u + 1 :]
            sums = sign @ part
            for limb in range(limbs):
                column = sums[:, limb].astype(np.int64)
                if exact:
                    margins[u, u + 1 :] += column << (width * limb)
                else:
                    shift = width * limb
                    margins[u, u + 1 :] += np.array([int(x) << shift for x in column], dtype=object)
    lower = np.tril_indices(m, -1)
    margins[lower] = -margins.T[lower]
    return margins


def margins_plain(
    places: NDArray[np.unsignedinteger], counts: Sequence[int] | None = None, *, unranked: Unranked = "last"
) -> NDArray[Any]:
    """The definition of :func:`margins_from_places` in Python integers, one ballot and pair at a time.

    ``places``, ``counts`` and ``unranked`` as there.

    Returns
    -------
    array of shape (m, m)
        of Python integers (dtype object).

    >>> margins_plain(np.array([[1, 1, 2], [2, 2, 1]], dtype=np.uint8)).tolist()
    [[0, 1], [-1, 0]]
    """
    m = places.shape[0]
    margins = np.zeros((m, m), dtype=object)
    for ballot, column in enumerate(places.T.tolist()):
        count = 1 if counts is None else counts[ballot]
        for u in range(m):
            for v in range(m):
                a, b = column[u], column[v]
                if unranked == "missing" and not (a and b):
                    continue
                # Unranked items stand one place below the last possible one.
                a, b = a or m + 1, b or m + 1
                margins[u, v] += count * ((a < b) - (a > b))
    return margins

"""Bounding what one person can do with many comparisons.

A person may give any number of comparisons, and is bounded by us, never trusted. For each person, independently and
with the release's own bits:

1. on every pair of items that the person judged, one of their judgements is drawn uniformly. It lies in {-1, 0, +1}
   and is unbiased for the person's average on that pair, which as a fraction would leave the integer grid;
2. if more than k pairs remain, k of them are drawn uniformly without replacement. The cap k is public.

**Sensitivity.** What remains of a person adds -1, 0 or +1 to at most k entries of the margins, and nothing elsewhere.
Let another person, with other pairs or none, take their place. On the s entries that both touch, the table moves by at
most 2, and on at most 2 (k - s) further ones by at most 1. The l1 distance is at most ``2 s + 2 (k - s) = 2 k`` and the
squared l2 distance at most ``4 s + 2 (k - s) <= 4 k``, both attained by the same k pairs with the other winner. On m
items there are D = m(m-1)/2 pairs, so k may be replaced by min(k, D). Without step 1 a person could give one pair k
times and move one entry by 2k, which is far more in the l2 norm.

**Who is a person.** N, the public number of people, is the length of ``persons``, which may hold people without any
comparison: they count, and whoever takes their place moves at most k entries by 1. Of a file it is those who gave at
least one, as the file has no other list; then that a person answered at all is public, and what they said is not.

**Why drawing is harmless.** The draws of different persons are independent, and those of one person look at that
person's comparisons alone. Given the draws of everyone else, the tables of two neighbours are within the distances
above whatever the replaced person's draws are; so each noisy release is a mixture, with equal weights on both sides, of
releases that satisfy the guarantee, and the guarantee is closed under such mixtures.
"""

from __future__ import annotations

import numpy as np

from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource
from psephos.privacy.samplers import uniform_below
from psephos.profile.comparisons import Comparisons

__all__ = ["bound_persons"]


def bound_persons(comparisons: Comparisons, *, pairs: int, bits: BitSource) -> Comparisons:
    """Comparisons with at most one judgement a person and pair, and at most ``pairs`` pairs a person.

    Parameters
    ----------
    comparisons
        With a column of persons, without weights.
    pairs
        The public cap k >= 1.

    >>> from psephos.privacy import SystemBits
    >>> table = Comparisons.from_columns(["a", "b", "c"], [0, 0, 1], [1, 1, 2], [1, 1, 0], person=[0, 0, 0])
    >>> bound_persons(table, pairs=1, bits=SystemBits()).records
    1
    """
    if comparisons.person is None:
        raise ParameterError("comparisons without a column of persons cannot be bounded by person")
    low = np.minimum(comparisons.left, comparisons.right)
    high = np.maximum(comparisons.left, comparisons.right)
    # All records of one person and pair stand together, and all of one person.
    order = np.lexsort((high, low, comparisons.person))
    keys = np.stack([comparisons.person[order], low[order], high[order]])
    new_pair = np.ones(len(order), dtype=np.bool_)
    new_pair[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    starts = np.flatnonzero(new_pair)
    ends = np.append(starts[1:], len(order))[: len(starts)]  # nobody need have answered
    chosen = [
        start + uniform_below(end - start, bits) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    kept: list[int] = []
    mine: list[int] = []
    owner = comparisons.person[order]
    for position in chosen:
        if mine and owner[mine[0]] != owner[position]:
            kept += _draw(mine, pairs, bits)
            mine = []
        mine.append(position)
    kept += _draw(mine, pairs, bits)
    rows = order[np.array(kept, dtype=np.int64)]
    return Comparisons(
        items=comparisons.items,
        left=comparisons.left[rows],
        right=comparisons.right[rows],
        outcome=comparisons.outcome[rows],
        person=comparisons.person[rows],
        persons=comparisons.persons,
        items_source=comparisons.items_source,
    )


def _draw(population: list[int], size: int, bits: BitSource) -> list[int]:
    """A uniform subset of at most ``size``, by the first steps of a shuffle; all of them if there are no more."""
    rest = list(population)
    for i in range(min(size, len(rest) - 1)):
        j = i + uniform_below(len(rest) - i, bits)
        rest[i], rest[j] = rest[j], rest[i]
    return rest[:size]

"""Good orders, quickly: best insertion from several starts, with random kicks.

Moving the item at place i to place j changes the disagreement by

    sum_{k = i+1..j} V[i, k]   (j > i),        - sum_{k = j..i-1} V[i, k]   (j < i),

so one cumulative sum along a row prices every place for an item. The search works on doubles and is
deterministic; whoever uses its order recomputes the cost exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from psephos.kemeny.effort import Effort

__all__ = ["improve", "insertion_prices", "local_search"]

Floats = npt.NDArray[np.float64]
Order = npt.NDArray[np.intp]

_SEED = 20_231  # any constant: equal margins must give equal answers
_TOLERANCE = 1e-12  # of the largest margin, times m: moves that gain less are noise in doubles
_LOOK, _LOOK_ITEM, _MOVE, _MOVE_ITEM = 8_000, 8, 9_000, 20  # steps: of looking at an item, and of moving it by a place


def local_search(margins: Floats, *, kicks: int, effort: Effort) -> Order:
    """Return a good order of m items, best first.

    Parameters
    ----------
    margins
        (m, m) doubles, antisymmetric; only their ratios matter.
    kicks
        how many perturbations of the best order to try.
    effort
        once it has ended no new descent starts.
    """
    m = len(margins)
    rng = np.random.default_rng(_SEED)
    starts = [
        np.argsort(-margins.sum(axis=1), kind="stable"),
        np.argsort(-np.sign(margins).sum(axis=1), kind="stable"),
        *(rng.permutation(m) for _ in range(3)),
    ]
    best, best_score = starts[0], -np.inf
    for start in starts:
        order = improve(margins, start, effort)
        if (score := _score(margins, order)) > best_score:
            best, best_score = order, score
        if effort.ended:
            return best
    current, current_score = best, best_score
    for _ in range(kicks):
        if effort.ended:
            break
        order = improve(margins, _kick(current, rng), effort)
        score = _score(margins, order)
        if score >= current_score - _TOLERANCE * m * np.abs(margins).max():
            current, current_score = order, score
        if score > best_score:
            best, best_score = order, score
    return best


def improve(margins: Floats, order: npt.NDArray[Any], effort: Effort | None = None) -> Order:
    """Reinsert one item at a time at its best place until no item gains; ``effort`` counts the work."""
    order = np.array(order, dtype=np.intp)
    m = len(order)
    least = _TOLERANCE * m * float(np.abs(margins).max(initial=0.0))
    table = margins[np.ix_(order, order)]
    settled, i = 0, 0
    looks = moves = passed = 0
    price = np.empty(m)
    while settled < m:
        looks += 1
        total = table[i].cumsum()
        price[i:] = total[i:] - total[i]
        price[:i] = -total[i]
        price[1:i] += total[: i - 1] if i else 0.0
        j = int(price.argmin())
        if price[j] < -least:
            settled = 0
            moves += 1
            passed += abs(i - j)
            where = np.arange(min(i, j), max(i, j) + 1)
            moved = np.roll(where, -1) if j > i else np.roll(where, 1)
            order[where] = order[moved]
            table[where] = table[moved]
            table[:, where] = table[:, moved]
            # the item now standing at place i has not been looked at if it came from the right
            i = i if j > i else (i + 1) % m
        else:
            settled += 1
            i = (i + 1) % m
    if effort is not None:
        effort.spend(looks * (_LOOK + _LOOK_ITEM * m) + moves * _MOVE + passed * _MOVE_ITEM * m)
    return order


def insertion_prices(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What moving the item at place i to place j adds, as [i, j], for margins in the current order.

    Exact for integers of dtype object.
    """
    total = table.cumsum(axis=1)
    here = np.diagonal(total)[:, None]
    price: npt.NDArray[Any] = total - here
    m = len(table)
    i, j = np.tril_indices(m, -1)
    price[i, j] = -here[i, 0]
    later = j > 0
    price[i[later], j[later]] += total[i[later], j[later] - 1]
    return price


def _score(margins: Floats, order: Order) -> float:
    return float(np.triu(margins[np.ix_(order, order)], 1).sum())


def _kick(order: Order, rng: np.random.Generator) -> Order:
    """Move a few items to random places, or shuffle a short stretch."""
    m = len(order)
    kicked = list(order)
    if rng.random() < 0.5:
        for _ in range(max(2, m // 12)):
            item = kicked.pop(int(rng.integers(m)))
            kicked.insert(int(rng.integers(m)), item)
    else:
        width = min(m, max(4, m // 5))
        start = int(rng.integers(m - width + 1))
        kicked[start : start + width] = rng.permutation(kicked[start : start + width])
    return np.array(kicked, dtype=np.intp)

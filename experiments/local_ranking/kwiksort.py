"""Quicksort over items by privatised votes: LDP-KwikSort, from its general description.

Quicksort needs few comparisons and each is decided by people of its own: a fresh group answers it by randomised
response and the majority decides. How many comparisons will still be needed is known on average (quicksort with a
random pivot needs ``2 (n + 1) H_n - 4 n`` on n items), so each split gives every comparison its equal share of the
answers that are left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def expected_comparisons(n: int) -> float:
    return 2.0 * (n + 1) * float((1.0 / np.arange(1, n + 1)).sum()) - 4.0 * n


def private_kwiksort(
    m: int, answers: int, votes: Callable[[int, NDArray[np.int64], int], NDArray[np.float64]], rng: np.random.Generator
) -> list[int]:
    """An order of m items, best first.

    ``votes(pivot, others, group)`` gives, for each of the others, the sum over a fresh group of +1 for a report that
    the pivot is better and -1 for one that it is worse. Where no answers are left, or a vote is tied, a coin decides.
    """
    waiting = [np.arange(m)]
    done: dict[int, int] = {}  # item -> place
    start = [0]
    left = answers
    while waiting:
        items, place = waiting.pop(), start.pop()
        if len(items) == 0:
            continue
        if len(items) == 1:
            done[int(items[0])] = place
            continue
        still = expected_comparisons(len(items)) + sum(expected_comparisons(len(w)) for w in waiting if len(w))
        pivot = int(rng.choice(items))
        others = items[items != pivot]
        group = min(max(int(left / still), 1), left // len(others))
        verdict = votes(pivot, others, group) if group else np.zeros(len(others))
        left -= group * len(others)
        verdict = np.where(verdict == 0, rng.random(len(others)) - 0.5, verdict)
        better, worse = others[verdict < 0], others[verdict > 0]
        done[pivot] = place + len(better)
        waiting += [worse, better]
        start += [place + len(better) + 1, place]
    return sorted(done, key=done.__getitem__)

"""A plain enumeration of all orders, and random margins, for the tests of the consensus solvers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Enumeration:
    optima: set[tuple[int, ...]]
    score: int  # the largest sum over u before v of W[u, v]
    differing: tuple[tuple[int, int], ...]


def _enumerate(margins: np.ndarray) -> Enumeration:
    """All optimal orders of integer margins, m <= 8, by trying every order."""
    m = len(margins)
    orders = np.array(list(itertools.permutations(range(m))))
    place = np.argsort(orders, axis=1)
    first = {(u, v): place[:, u] < place[:, v] for u in range(m) for v in range(u + 1, m)}
    score = np.zeros(len(orders), dtype=np.int64)
    for (u, v), holds in first.items():
        score += np.where(holds, margins[u, v], margins[v, u])
    best = score == score.max()
    differing = tuple(pair for pair, holds in first.items() if 0 < holds[best].sum() < best.sum())
    return Enumeration({tuple(o) for o in orders[best].tolist()}, int(score.max()), differing)


@pytest.fixture(scope="session")
def enumerate_orders() -> Callable[[np.ndarray], Enumeration]:
    return _enumerate


def _antisymmetric(table: np.ndarray) -> np.ndarray:
    upper = np.triu(table, 1)
    return upper - upper.T


@pytest.fixture(scope="session")
def antisymmetric() -> Callable[[np.ndarray], np.ndarray]:
    """The antisymmetric matrix with the upper triangle of its argument."""
    return _antisymmetric

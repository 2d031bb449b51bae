"""Splitting a consensus problem where the majority already decides.

If W[u, v] >= 0 for all u in A and v in B, moving A in front of B, inner orders kept, never costs more: some
optimal order puts A before B, and the optimum is the sum of the two. If all of these margins are > 0, every
optimal order does so. Two decompositions follow, both in order, best first:

* strict: the strong components of the arcs W >= 0. Every optimal order runs through them one by one.
* weak: the strong components of the arcs W > 0, finer. Concatenating optimal orders of the parts is optimal;
  other optimal orders may mix parts along pairs of margin 0.

An order of the whole is optimal exactly if its restriction to every weak part is, and the arcs W > 0 between parts
hold. So for any choice of one optimal order a part, all linear extensions of these together with the arcs are
optimal: pairs that their transitive closure leaves incomparable differ, and so do the differing pairs of each part.
Pairs do not differ that the closure of the arcs and of what holds in all optimal orders of each part decides. Where
the two tell of every pair, as they do if every part has only one optimal order, the differing pairs are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Part",
    "differing_by_extension",
    "join_strict",
    "join_weak",
    "strict_blocks",
    "transitive_closure",
    "weak_blocks",
]

Signs = npt.NDArray[Any]
Relation = npt.NDArray[np.bool_]
Blocks = Sequence[npt.NDArray[np.intp]]

_METHODS = ("majority", "subset_dp", "branch_and_cut", "local_search")  # the later, the harder


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An order of some items with its certificate.

    ``order`` holds positions within the part, best first; ``disagreement`` and ``lower_bound`` are whole
    numbers in the units of the integer margins; ``differing`` is a symmetric relation, ``None`` if not known.
    """

    order: npt.NDArray[np.intp]
    disagreement: int
    lower_bound: int
    unique: bool | None
    differing: Relation | None
    method: str
    nodes: int = 0
    cuts: int = 0


def strict_blocks(signs: Signs) -> list[npt.NDArray[np.intp]]:
    """Item positions of the strict blocks, best first, items of a block in ascending order.

    >>> [block.tolist() for block in strict_blocks(np.array([[0, -1, -1], [1, 0, 0], [1, 0, 0]]))]
    [[1, 2], [0]]
    """
    # between blocks, wins minus losses are larger in the better one, so blocks are runs of this order
    order = np.argsort(-signs.sum(axis=1), kind="stable")
    wins = signs[np.ix_(order, order)] > 0
    m = len(order)
    # the first k items all beat the rest if each row's run of wins from the right reaches back to k
    losses = ~wins
    last_loss = np.where(losses.any(axis=1), m - 1 - losses[:, ::-1].argmax(axis=1), -1)
    border = np.maximum.accumulate(last_loss)
    cuts = [k + 1 for k in range(m - 1) if border[k] <= k]
    return [np.sort(block) for block in np.split(order, cuts)]


def weak_blocks(signs: Signs) -> list[npt.NDArray[np.intp]]:
    """Item positions of the weak blocks, best first, items of a block in ascending order.

    >>> [block.tolist() for block in weak_blocks(np.zeros((2, 2)))]
    [[0], [1]]
    """
    reach = transitive_closure(signs > 0)
    same = (reach & reach.T) | np.eye(len(signs), dtype=np.bool_)
    leader = same.argmax(axis=1)
    leaders = np.unique(leader)
    # with its own items, what a block reaches strictly contains what any later block reaches
    reached = (reach | same)[leaders].sum(axis=1)
    ranked = leaders[np.argsort(-reached, kind="stable")]
    return [np.flatnonzero(leader == chosen) for chosen in ranked]


def transitive_closure(relation: Relation) -> Relation:
    """The smallest transitive relation that contains ``relation``."""
    reach = relation.copy()
    for k in range(len(reach)):
        reach |= reach[:, k, None] & reach[k]
    return reach


def join_strict(parts: Sequence[Part], blocks: Blocks) -> Part:
    """The parts of strict blocks, in order, as one part."""
    joined = _join(parts, blocks)
    differing = np.zeros((len(joined.order), len(joined.order)), dtype=np.bool_)
    for part, block in zip(parts, blocks, strict=True):
        if part.differing is None:
            return joined
        differing[np.ix_(block, block)] = part.differing
    return replace(joined, differing=differing, unique=not differing.any())


def join_weak(parts: Sequence[Part], blocks: Blocks, signs: Signs) -> Part:
    """The parts of weak blocks, in order, as one part."""
    if len(parts) == 1:
        return parts[0]
    joined = _join(parts, blocks)
    differing = [part.differing for part in parts if part.differing is not None]
    if len(differing) == len(parts):
        orders = [block[part.order] for part, block in zip(parts, blocks, strict=True)]
        surely = differing_by_extension(signs, orders)
        perhaps = differing_by_extension(signs, orders, but=differing)
        for block, relation in zip(blocks, differing, strict=True):
            surely[np.ix_(block, block)] |= relation
        if (surely == perhaps).all():
            return replace(joined, differing=surely, unique=not surely.any())
    tied_neighbours = (signs[joined.order[:-1], joined.order[1:]] == 0).any()
    if tied_neighbours and joined.disagreement == joined.lower_bound:
        return replace(joined, unique=False)
    return replace(joined, unique=None) if joined.unique else joined


def _join(parts: Sequence[Part], blocks: Blocks) -> Part:
    known = [part.unique for part in parts]
    return Part(
        order=np.concatenate([block[part.order] for part, block in zip(parts, blocks, strict=True)]),
        disagreement=sum(part.disagreement for part in parts),
        lower_bound=sum(part.lower_bound for part in parts),
        unique=False if False in known else None if None in known else True,
        differing=None,
        method=max((part.method for part in parts), key=_METHODS.index),
        nodes=sum(part.nodes for part in parts),
        cuts=sum(part.cuts for part in parts),
    )


def differing_by_extension(signs: Signs, orders: Blocks, *, but: Sequence[Relation] | None = None) -> Relation:
    """The symmetric relation of pairs that the orders of the weak blocks and the arcs between them leave open.

    ``but`` takes pairs out of each order: a relation on the positions of its block in ascending order.
    """
    m = len(signs)
    block = np.empty(m, dtype=np.intp)
    forced = np.zeros((m, m), dtype=np.bool_)
    for number, order in enumerate(orders):
        block[order] = number
        forced[np.ix_(order, order)] = np.triu(np.ones((len(order), len(order)), dtype=np.bool_), 1)
        if but is not None:
            items = np.sort(order)
            forced[np.ix_(items, items)] &= ~but[number]
    forced |= (signs > 0) & (block[:, None] != block[None, :])
    before = transitive_closure(forced)
    differing: Relation = ~(before | before.T | np.eye(m, dtype=np.bool_))
    return differing

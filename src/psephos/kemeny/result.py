"""What a consensus solver returns: an order, a certificate, and how far the order is determined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Self

__all__ = ["KemenyResult", "Limit", "Placed", "SolveStats", "Status"]

Limit = Literal["effort", "time_limit"]
Status = Literal["optimal", "gap", "effort", "time_limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveStats:
    """Work done: branch-and-bound ``nodes``, inequalities (``cuts``) added, wall-clock ``seconds``."""

    nodes: int = 0
    cuts: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An order, and what others of the same least cost leave open.

    Attributes
    ----------
    order
        item positions (0-based), best first. Among equals it says nothing.
    differing
        the pairs (u, v), u < v, that two optimal orders place differently; ``None`` where they are
        not all known.
    """

    order: tuple[int, ...]
    differing: tuple[tuple[int, int], ...] | None

    @property
    def tiers(self) -> tuple[tuple[int, ...], ...]:
        """Items that share a place, best first, each group sorted: sets any two of whose items differ.

        The connected components of the differing pairs are contiguous in every optimal order: if b lay between two
        items of a component, some differing pair (x, y) on the path that joins them would have x always before b and b
        always before y. A component whose pairs all differ is one tier. In any other component some pairs are decided,
        so its items do not share a place: each stands alone, in the order of ``order``, and :attr:`ranks` says how far
        it is free. Where ``differing`` is ``None``, every item stands alone.
        """
        place = {item: position for position, item in enumerate(self.order)}
        pairs = [sorted((place[u], place[v])) for u, v in self.differing or ()]
        reach = list(range(len(self.order)))  # the last place that shares a component with this one
        degree = [0] * len(self.order)
        for first, last in pairs:
            reach[first] = max(reach[first], last)
            degree[first] += 1
            degree[last] += 1
        groups: list[tuple[int, ...]] = []
        start = end = 0
        for position in range(len(self.order)):
            end = max(end, reach[position])
            if position == end:
                group = self.order[start : end + 1]
                shared = all(d == len(group) - 1 for d in degree[start : end + 1])
                groups += [tuple(sorted(group))] if shared else [(item,) for item in group]
                start = end = position + 1
        return tuple(groups)

    @property
    def ranks(self) -> tuple[tuple[int, int], ...] | None:
        """The best and the worst rank, 1-based, that each item position may have; ``None`` with ``differing``.

        Of two items that do not differ, one stands before the other in every optimal order. The best rank is 1 plus
        how many items stand before this one in all of them, the worst m less how many stand behind it in all: every
        optimal order lies within, and not every ranking within is optimal.
        """
        if self.differing is None:
            return None
        m = len(self.order)
        place = {item: position for position, item in enumerate(self.order)}
        ranks = [[place[item] + 1, place[item] + 1] for item in range(m)]
        for pair in self.differing:
            first, last = sorted(pair, key=place.__getitem__)
            ranks[first][1] += 1
            ranks[last][0] -= 1
        return tuple((best, worst) for best, worst in ranks)

    def relabelled(self, labels: Sequence[int]) -> Self:
        """The same with ``labels[i]`` in place of item i."""
        order, pairs = tuple(labels[i] for i in self.order), None
        if self.differing is not None:
            named = [(labels[u], labels[v]) for u, v in self.differing]
            pairs = tuple(sorted((min(pair), max(pair)) for pair in named))
        return replace(self, order=order, differing=pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class KemenyResult(Placed):
    """A consensus order with its certificate.

    Attributes
    ----------
    order, differing, tiers, ranks
        of :class:`Placed`: item positions are rows of the margins.
    cost
        Kemeny cost of ``order``, in votes, exact.
    lower_bound
        no order costs less; exact.
    gap
        ``cost - lower_bound``, in votes.
    gap_relative
        the gap divided by the cost where every pair weight is >= 0, else by the sum over pairs of
        |margins|; 0 where the gap is 0.
    method
        how the largest undecided part was solved: ``"majority"`` (every pair follows its margin),
        ``"subset_dp"``, ``"branch_and_cut"`` or ``"local_search"`` (no bound beyond the trivial one).
    status
        ``"optimal"``: cost and lower bound are equal; ``"gap"``: within the gap asked for;
        ``"effort"``: the work allowed ended first; ``"time_limit"``: the clock cut it first.
    unique
        whether ``order`` is the only optimal order; ``None`` where that was not settled.
    limit
        what left cost, bound or ``unique`` open: ``"effort"``, and another run says the same; ``"time_limit"``: the
        clock had a say, and another run may say otherwise. ``None``: nothing did.
    stats
        work done.
    """

    cost: Fraction
    lower_bound: Fraction
    gap: Fraction
    gap_relative: float
    method: str
    status: Status
    unique: bool | None
    limit: Limit | None
    stats: SolveStats

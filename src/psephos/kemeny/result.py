"""What a consensus solver returns: an order, a certificate, and how far the order is determined."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

__all__ = ["KemenyResult", "SolveStats", "Status"]

Status = Literal["optimal", "gap", "time_limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveStats:
    """Work done: branch-and-bound ``nodes``, inequalities (``cuts``) added, wall-clock ``seconds``."""

    nodes: int = 0
    cuts: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KemenyResult:
    """A consensus order with its certificate.

    Attributes
    ----------
    order
        item positions (0-based, rows of the margins), best first.
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
        ``"time_limit"``: time ran out first.
    unique
        whether ``order`` is the only optimal order; ``None`` where that was not settled.
    differing
        the pairs (u, v), u < v, that two optimal orders place differently; ``None`` where they are
        not all known.
    stats
        work done.
    """

    order: tuple[int, ...]
    cost: Fraction
    lower_bound: Fraction
    gap: Fraction
    gap_relative: float
    method: str
    status: Status
    unique: bool | None
    differing: tuple[tuple[int, int], ...] | None
    stats: SolveStats

    @property
    def tiers(self) -> tuple[tuple[int, ...], ...]:
        """Items that share a place, best first, each group sorted.

        Groups are the connected components of the differing pairs. They are contiguous in every optimal
        order: if b lay between two items of a component, some differing pair (x, y) on the path that joins
        them would have x always before b and b always before y. Where ``differing`` is ``None``, every item
        stands alone.
        """
        place = {item: position for position, item in enumerate(self.order)}
        reach = list(range(len(self.order)))  # the last place that shares a group with this one
        for u, v in self.differing or ():
            first, last = sorted((place[u], place[v]))
            reach[first] = max(reach[first], last)
        groups: list[tuple[int, ...]] = []
        start = end = 0
        for position in range(len(self.order)):
            end = max(end, reach[position])
            if position == end:
                groups.append(tuple(sorted(self.order[start : end + 1])))
                start = end = position + 1
        return tuple(groups)

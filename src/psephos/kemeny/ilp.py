"""Branch and cut: an optimal order of more items than dynamic programming can take, with an exact proof.

A node fixes the order of some pairs. Its bound is that of the linear-ordering relaxation under these fixings
(:mod:`psephos.kemeny.lp_bound`), in whole numbers. A node is dropped once its bound reaches the value of the
best order known, so when no node is left, that order is optimal, and no floating-point number has had a say
in it. Pairs whose exact reduced cost would lift the bound to that value are fixed as well, and all fixings are
closed under transitivity; a cycle among them drops the node.

Uniqueness and the differing pairs need more: a second search looks, for one pair after the other, for an
equally good order with that pair the other way round.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from psephos.kemeny.blocks import Part, Relation, transitive_closure
from psephos.kemeny.cost import Integers, as_doubles, disagreement
from psephos.kemeny.effort import STEPS, Effort
from psephos.kemeny.local_search import improve, insertion_prices, local_search
from psephos.kemeny.lp_bound import DualBound, OrderingRelaxation

__all__ = ["branch_and_cut"]

_LEAST_VIOLATION = 1e-5
_FRACTIONAL = 1e-6
_ROOT_ROUNDS, _NODE_ROUNDS = 200, 20  # of cuts, at most
_SEARCH = 5 * STEPS  # of local search, at most
_UNIQUE = 10  # the proof of uniqueness may take this part of all effort, or as much as that of optimality
_NODE_SIDE = 100  # steps: of bookkeeping of a node, for a pair
_WALK = 60  # steps: of a look at moving one item past another, exact


def branch_and_cut(integers: Integers, *, allowance: int, effort: Effort) -> Part:
    """Return a best order of the items of ``integers`` (m, m), m >= 3, with its certificate.

    Parameters
    ----------
    allowance
        stop once the disagreement is within this of the lower bound.
    effort
        once it has ended the search stops.
    """
    start = effort.spent
    m = len(integers)
    doubles = as_doubles(integers)
    labels = local_search(doubles, kicks=max(20, min(100, 6000 // m)), effort=effort.part(_SEARCH))
    base = disagreement(integers, labels)
    if effort.ended:  # zero is a lower bound on any sum of non-negative terms
        return Part(
            order=labels,
            disagreement=base,
            lower_bound=0,
            unique=None,
            differing=None,
            method="local_search",
        )
    tree = _Tree(integers[np.ix_(labels, labels)], doubles[np.ix_(labels, labels)], effort)
    lower = tree.minimise(allowance)
    order = labels[tree.order]
    unique: bool | None = None
    differing: Relation | None = None
    if lower == tree.value:
        # the proof of uniqueness may take as much again as that of optimality
        tree.limit(effort.part(max(effort.total // _UNIQUE, effort.spent - start)))
        unique, among_labels = tree.other_optima()
        if among_labels is not None:
            differing = np.zeros((m, m), dtype=np.bool_)
            differing[np.ix_(labels, labels)] = among_labels
    return Part(
        order=order,
        disagreement=base + tree.value,
        lower_bound=max(0, base + lower),
        unique=unique,
        differing=differing,
        method="branch_and_cut",
        nodes=tree.nodes,
        cuts=tree.relaxation.cuts,
    )


class _OutOfEffort(Exception):
    """The effort ended within a node."""


@dataclass(slots=True)
class _Node:
    """``bound`` on all orders that contain the transitive relation ``before``.

    ``pair`` was branched on, to the value ``side``, where the relaxation stood at ``objective`` and ``y``.
    """

    bound: int
    before: Relation
    pair: int = -1
    side: int = 0
    objective: float = 0.0
    y: float = 0.0


class _Tree:
    """Best-first search; orders are of the labels 0, ..., m-1, whose own order has value 0."""

    def __init__(self, integers: Integers, doubles: npt.NDArray[np.float64], effort: Effort) -> None:
        self.doubles = doubles
        self.effort = effort
        self.integers = integers
        self.m = len(integers)
        self.relaxation = OrderingRelaxation(integers, effort)
        self.order: npt.NDArray[np.intp] = np.arange(self.m)
        self.value = 0
        self.cutoff = 0  # only orders of smaller value are looked for
        self.target: tuple[int, int] | None = None  # and only those with this pair in this order
        self.found: npt.NDArray[np.intp] | None = None
        self.base = disagreement(integers, self.order)
        self.nodes = 0
        self.gains = _PseudoCosts(self.relaxation)

    def limit(self, effort: Effort) -> None:
        """Count all further work in ``effort``."""
        self.effort = self.relaxation.effort = effort

    def minimise(self, allowance: int) -> int:
        """Search for an order of least value; return a lower bound on all values."""
        everything = np.zeros((self.m, self.m), dtype=np.bool_)
        return self._search(_Node(bound=-self.base, before=everything), allowance, rounds=_ROOT_ROUNDS)

    def other_optima(self) -> tuple[bool | None, Relation | None]:
        """Once the best order is proved optimal: is it the only one, and which pairs differ between optima?"""
        self.cutoff = self.value + 1
        seen = np.zeros((self.m, self.m), dtype=np.bool_)  # [u, v]: some known optimum puts u before v
        self._walk_ties(self.order, seen)
        always = self._always()
        while True:
            open_pairs = np.argwhere(np.triu(~(always | always.T | (seen & seen.T)), 1))
            if not len(open_pairs):
                differing = seen & seen.T
                return not differing.any(), differing
            place = np.argsort(self.order)[open_pairs]
            u, v = open_pairs[np.abs(place[:, 0] - place[:, 1]).argmin()]  # neighbours decide the others
            u, v = (u, v) if seen[u, v] else (v, u)
            other, bound = self._tie_with((int(v), int(u)), _with_pair(always, v, u))
            if other is not None:
                self._walk_ties(other, seen)
            elif bound >= self.cutoff:
                always = _with_pair(always, u, v)
            else:
                return (False if (seen & seen.T).any() else None), None

    def _tie_with(self, pair: tuple[int, int], before: Relation) -> tuple[npt.NDArray[np.intp] | None, int]:
        """An order as good as the best with this pair in this order, if one is found, and a bound on such."""
        self.target, self.found = pair, None
        bound = self._search(_Node(bound=-self.base, before=before), 0, rounds=_NODE_ROUNDS)
        return self.found, bound

    def _always(self) -> Relation:
        """Pairs that the relaxation shows to stand in one order in all optima."""
        relaxation = self.relaxation
        nothing = np.zeros((self.m, self.m), dtype=np.bool_)
        lower, upper = self._bounds(nothing)
        relaxation.set_bounds(lower, upper)
        for _ in range(20):
            if not relaxation.solve():
                break
            if not relaxation.separate(most=max(500, 20 * self.m), least=_LEAST_VIOLATION):
                break
        return _fix(relaxation, nothing, relaxation.bound(lower, upper, needed=self.value), self.cutoff)

    def _walk_ties(self, order: npt.NDArray[np.intp], seen: Relation) -> None:
        """Record in ``seen`` this order and those that moves of one item without loss reach from it."""
        queue = [order]
        _record(order, seen)
        while queue and not self.effort.ended:
            self.effort.spend(_WALK * self.m**2)
            order = queue.pop()
            price = insertion_prices(self.integers[np.ix_(order, order)])
            for i, j in np.argwhere(price == 0):
                passed = order[i + 1 : j + 1] if j > i else order[j:i]
                seen_now = seen[passed, order[i]] if j > i else seen[order[i], passed]
                if not seen_now.all():
                    moved = np.insert(np.delete(order, i), j, order[i])
                    _record(moved, seen)
                    queue.append(moved)

    def _search(self, root: _Node, allowance: int, *, rounds: int) -> int:
        """Explore orders below the cutoff; return a bound on all values in ``root``, at most the cutoff."""
        heap: list[tuple[int, int, _Node]] = [(root.bound, 0, root)]
        serial = 0
        dive: _Node | None = None  # a child of the node just expanded needs the fewest pivots
        while heap or dive is not None:
            lowest = min(n.bound for n in (dive, *(entry[2] for entry in heap[:1])) if n is not None)
            if lowest >= self.cutoff - allowance or self.effort.ended:
                break
            node = dive if dive is not None else heapq.heappop(heap)[2]
            try:
                children = self._expand(node, allowance, rounds=_NODE_ROUNDS if serial else rounds)
            except _OutOfEffort:
                children = [node]
            if self.found is not None:
                break
            dive = children.pop() if len(children) > 1 else None
            for child in children:
                serial += 1
                heapq.heappush(heap, (child.bound, -serial, child))
        if dive is not None:
            heapq.heappush(heap, (dive.bound, 1, dive))
        return min(self.cutoff, heap[0][0]) if heap else self.cutoff

    def _expand(self, node: _Node, allowance: int, *, rounds: int) -> list[_Node]:
        """Bound a node; return its children, none if it holds nothing below the cutoff."""
        relaxation = self.relaxation
        self.nodes += 1
        last = -np.inf
        for number in range(rounds):
            self.effort.spend(_NODE_SIDE * relaxation.pairs)
            lower, upper = self._bounds(node.before)
            relaxation.set_bounds(lower, upper)
            solved = relaxation.solve()
            promising = relaxation.objective > self._double(self.cutoff) - 1e-6
            bound = relaxation.bound(lower, upper, needed=self.cutoff if solved and promising else None)
            node.bound = max(node.bound, bound.rounded)
            if not solved:
                raise _OutOfEffort
            if number == 0:
                self.gains.learn(node, relaxation.objective)
            if node.bound >= self.cutoff:
                return []
            self._offer(relaxation.order())
            if self.found is not None or node.bound >= self.cutoff:
                return []
            if node.bound >= self.cutoff - allowance:
                return [node]
            node.before = _fix(relaxation, node.before, bound, self.cutoff)
            if node.before.diagonal().any():
                return []
            gained, last = relaxation.objective - last, relaxation.objective
            missing = self._double(self.cutoff) - last
            if not promising and gained < (1e-3 if rounds > _NODE_ROUNDS else 2e-2) * missing:
                break
            relaxation.purge(10 if rounds > _NODE_ROUNDS else 40)
            if not relaxation.separate(most=max(500, 20 * self.m), least=_LEAST_VIOLATION):
                break
        relaxation.purge(1 if rounds > _NODE_ROUNDS else 40)
        return self._branch(node, bound)

    def _double(self, value: int) -> float:
        return value / (1 << self.relaxation.scale)  # of integers: cannot overflow

    def _bounds(self, before: Relation) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        above = self.relaxation.upper_triangle
        return before.T[above].astype(np.int8), (~before[above]).astype(np.int8)

    def _offer(self, order: npt.NDArray[np.intp]) -> None:
        """Keep the order if it is better than the best or, in the search for ties, what is looked for."""
        for candidate in (improve(self.doubles, order, self.effort), order):
            value = disagreement(self.integers, candidate) - self.base
            if value < self.value:
                self.value = self.cutoff = value
                self.order = candidate
            elif self.target is not None and value == self.value:
                place = np.argsort(candidate)
                if place[self.target[0]] < place[self.target[1]]:
                    self.found = candidate

    def _branch(self, node: _Node, bound: DualBound) -> list[_Node]:
        relaxation = self.relaxation
        lower, upper = self._bounds(node.before)
        free = np.flatnonzero(lower != upper)
        if not len(free):
            order = np.argsort(node.before.sum(axis=0), kind="stable")
            self._offer(order)
            return []
        pair = self.gains.choose(free, bound)
        u, v = (int(index[pair]) for index in relaxation.upper_triangle)
        y, objective = float(relaxation.y[pair]), relaxation.objective
        children = [
            _Node(node.bound, _with_pair(node.before, first, second), pair, side, objective, y)
            for side, first, second in ((0, u, v), (1, v, u))
        ]
        return children if y > 0.5 else children[::-1]


class _PseudoCosts:
    """What flipping a pair, or holding it, has been seen to add to the objective."""

    def __init__(self, relaxation: OrderingRelaxation) -> None:
        self.relaxation = relaxation
        self.sums = np.zeros((2, relaxation.pairs))
        self.counts = np.zeros((2, relaxation.pairs))

    def learn(self, node: _Node, objective: float) -> None:
        if node.pair >= 0:
            distance = node.y if node.side == 0 else 1 - node.y
            if distance > _FRACTIONAL:
                self.sums[node.side, node.pair] += max(0.0, objective - node.objective) / distance
                self.counts[node.side, node.pair] += 1

    def choose(self, free: npt.NDArray[np.intp], bound: DualBound) -> int:
        y = self.relaxation.y[free]
        fractional = np.minimum(y, 1 - y)
        if fractional.max() <= _FRACTIONAL:
            # an order stands here and rounding left its bound short: part the pair that is least decided
            return int(free[np.abs(bound.reduced[free]).argmin()])
        mean = self.sums.sum() / max(1.0, self.counts.sum())
        rates = (self.sums[:, free] + 2 * mean) / (self.counts[:, free] + 2) + 1e-9
        return int(free[(rates[0] * y * rates[1] * (1 - y)).argmax()])


def _record(order: npt.NDArray[np.intp], seen: Relation) -> None:
    place = np.argsort(order)
    seen |= place[:, None] < place[None, :]


def _with_pair(before: Relation, u: int, v: int) -> Relation:
    """The transitive closure once u stands before v."""
    above, below = before[:, u].copy(), before[v].copy()
    above[u] = below[v] = True
    wider: Relation = before | (above[:, None] & below[None, :])
    return wider


def _fix(relaxation: OrderingRelaxation, before: Relation, bound: DualBound, cutoff: int) -> Relation:
    """Fix every pair that cannot move without lifting the bound to the cutoff."""
    room = ((cutoff - 1) << bound.bits) - bound.value  # more than this lifts it there, in whole numbers
    u, v = relaxation.upper_triangle
    free = ~(before | before.T)[u, v]  # the formula says nothing about moving what is already fixed
    stays, flips = free & (bound.reduced > room), free & (bound.reduced < -room)
    fixed = before.copy()
    fixed[u[stays], v[stays]] = True
    fixed[v[flips], u[flips]] = True
    return fixed if (fixed == before).all() else transitive_closure(fixed)

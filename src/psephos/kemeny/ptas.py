"""Orders within a factor 1 + xi of the least cost of a weighted tournament, each with its certificate.

Given weights A >= 0 with ``0 < b <= A[u, v] + A[v, u] <= B`` on every pair, minimise over orders

    cost(psi) = sum over u before v of A[v, u].

This follows the approximation scheme of Kenyon-Mathieu and Schudy (2007): local search by single moves, cutting a good
order in two, and additive approximation of dense parts. Two things differ. The scheme is deterministic, and what each
cut may lose is computed from the instance, so the result carries a lower bound that is proved in exact arithmetic.

**Displacement lemma.** Let pi be an order of n items with cost C that no move of one item improves, and pi* an optimal
one; pi(v) is the place of v, 1 to n. Let ``r = isqrt(floor(2 C / b))``.

(a) *For every k, at most r items have pi <= k < pi*, and as many have pi* <= k < pi.* The two numbers are equal because
k items have pi <= k, and k have pi* <= k. Each of the former disagrees with each of the latter, and a pair that stands
differently in pi and pi* adds A[u, v] + A[v, u] >= b to cost(pi) + cost(pi*) <= 2 C. So the square of the number is at
most 2 C / b.

(b) Let v have p = pi(v) < q = pi*(v), ``S = {x: p < pi(x) <= q}``, ``S* = {x: p <= pi*(x) < q}`` and ``f(x) = A[v, x] -
A[x, v]``. S and S* have q - p items each. An item of S* outside S has ``pi < p <= pi*`` or ``pi* <= q < pi``, so by (a)
there are at most 2 r of them, and as many of S outside S*; as ``|f| <= B``, ``|f(S) - f(S*)| <= 4 r B``. Moving v in pi
behind S adds f(S), so f(S) >= 0; moving v in pi* in front of S* adds -f(S*), so f(S*) <= 0. Hence *moving v alone in
pi* to its place in pi adds at most 4 r B*, and ``f(S) <= 4 r B``. As ``f(x) >= b - 2 A[x, v]``, *in pi v pays at least
``(b |p - q| - 4 r B) / 2`` against items on one side of it*. The case p > q is the mirror image.

(c) For y >= 0 let ``Delta = floor((4 r B + y) / b)`` and X the items with ``|pi - pi*| > Delta``. By (b) each of them
pays more than y/2 on one side: *X has at most as many items as pay that much*, a number x that pi alone tells. Let pi''
order items by the key pi*(v), but pi(v) for v in X, ties so that v in X stands where a move of v alone puts it.
*``cost(pi'') <= cost(pi*) + B x (8 r + 3 (x - 1)) / 2``*: pairs outside X stand as in pi*; moving v in X alone adds at
most 4 r B, of which at least -B (x - 1) comes from the other items of X, so the pairs of X with the rest add at most
``x (4 r B + B (x - 1))``, and the pairs within X at most ``B x (x - 1) / 2``. *Every place in pi'' is within ``Delta' =
Delta + x`` of that in pi*: places in pi'' are within x of the keys. So pairs that pi and pi'' order differently are at
most 2 Delta' - 1 places apart in pi.

**Cut.** Let pi be cut behind its place k into parts S1 and S2; ``cross`` is what their pairs cost in pi. Then

    min cost  >=  min cost on S1  +  min cost on S2  +  cross  -  loss,                                           (1)
    loss  =  sum of max(0, A[v, u] - A[u, v]) over u at a place <= k, v at a place > k, less than 2 Delta' behind u,
             plus B x (8 r + 3 (x - 1)) / 2,

because pi'' pays on S1 and on S2 at least the minima, on pairs far apart what pi pays, and on the others at least
``min(A[u, v], A[v, u])``. Without a limit on the distance, (1) holds with x = 0 whatever pi is. The k in [n/3, 2n/3]
and the y with the least loss are taken (y with x <= 0, 1, 2, 4, ...). (1) adds up through the recursion, which gives
the lower bound of the whole.

**What is proved in general.** Let ``rho = B/b``, n >= 21 and ``C <= beta n^2`` with ``beta <= b/10^8``. For ``y =
C^(1/4) n^(1/2) b^(3/4)`` at most ``4 C / y`` items pay more than y/2 on one side, as all items together pay 2 C; so one
of the y that are tried is no larger and has ``x <= 8 C / y``. At least (n - 1)/3 cuts compete, and a pair d places
apart is cut by at most d of them, so the sum in (1) is on average at most ``6 Delta' C / (n - 1)``. Together the least
loss is at most ``54 rho Q`` with ``Q = b (C/b)^(5/4) / n^(1/2)``. Suppose now that a part is cut whenever ``C <= beta
n^2``; each part starts from the better of the old order and a new one, so the parts together cost at most what they
cost before. Then the losses within a part are at most ``54 rho (lambda (beta/b)^(1/4) C - mu Q)`` with ``g =
(9/5)^(1/4)``, ``mu = 1/(g - 1)`` and ``lambda = 3^(1/2) mu < 11``, by induction: sizes are in [n/3, 2n/3], so by
Hoelder ``Q1 + Q2 >= g b (X/b)^(5/4) / n^(1/2)`` for X = C1 + C2; with z = X/C, and as ``Q <= (beta/b)^(1/4) C``, the
claim follows from ``3^(1/2) (1 - z) + g z^(5/4) >= g = (1 + mu)/mu`` on [0, 1]. A part that is not cut loses nothing,
and the claim holds for it as ``Q_i <= (9 beta/b)^(1/4) C_i``. Sorting by weighted wins starts within a factor 5 rho of
the optimum (Coppersmith, Fleischer and Rudra 2010; here up to the 60 bits of the shares). So for xi <= 1 and ``beta = b
(xi / (6000 rho^2))^4`` all cuts lose at most xi/2 of the optimum, and if parts that are not cut are solved within ``(xi
/ (10 rho)) beta n^2``, so do these.

That beta is tiny: of tournaments with weights 0 and 1 and upsets, only those of more than ``3.6 10^7 / xi^2`` items are
ever cut by this rule. The code cuts whenever the *computed* loss is at most half of what the part may still lose. The
lower bound holds whatever was cut; the rule only decides how much is asked of the parts.

**Limits.** A part that is not cut is solved by :func:`psephos.kemeny.solve.solve` with the rest of the allowance as its
gap: dynamic programming up to 20 items, branch and cut above, whose time has no polynomial bound. With ``polynomial``
the parts above 20 items go to :mod:`psephos.kemeny.additive`: for an error of ``delta n^2`` it solves a number of
linear programs of polynomial size that depends on delta/B alone. With it, and the rule C <= beta n^2 for cuts, the
scheme is polynomial for fixed xi and rho if the common denominator is polynomial too, as local search makes at most as
many moves as the starting cost has units of it. That is a statement about large n. With delta = xi beta/(10 rho), rho =
1 and xi = 1/2 the number of programs is bounded by 10^(2 10^58); and for a tournament of 50 items with xi = 1/2, where
the code chooses them by the instance, it takes 10^204 to 10^216 of them (3 tournaments with random weights 0 and 1) or
10^129 to 10^133 (3 with uniform random shares), and is refused. Other additive schemes, with delta in the exponent of n
(Arora, Frieze and Karpinski 2002) or by sampling (Frieze and Kannan 1999), cannot be run with such a delta either. How
dense may a tournament be to be cut at all? With sums 1, an order of 50 items with random upsets was cut (xi = .1) in
most of 5 cases for ``C/n^2`` up to .002 and in none from .007; 200 items up to .0006 and in none from .002. A loss over
a limited distance needs C/n^2 below some 1/128. Shares from a logistic model with normal strengths were cut at C/n^2 =
.14 with errors of .2 in each share and, for xi = .1, not with .4: there most of the cost is unavoidable and upsets are
between neighbours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from psephos._check import Exact, positive
from psephos.errors import ParameterError
from psephos.kemeny.additive import additive_approximation
from psephos.kemeny.cost import Integers, as_doubles, finite_ratio, weighted_cost
from psephos.kemeny.effort import DEFAULT_EFFORT, DEFAULT_GUARD, Effort, check_effort
from psephos.kemeny.local_search import improve, insertion_prices
from psephos.kemeny.result import Limit, Placed
from psephos.kemeny.solve import solve_within
from psephos.kemeny.subset_dp import MAX_ITEMS

__all__ = ["SchemeResult", "near_optimal", "near_optimal_within"]

_ALLOWED = "an (m, m) array of finite numbers >= 0, m >= 1, with zeros on the diagonal and sums A[u, v] + A[v, u] > 0"
_SHARE_BITS = 60  # of the shares by which items are sorted
_LOOK = 60  # steps: of a look at moving one item past another, exact

Order = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeResult(Placed):
    """An order with its certificate.

    Attributes
    ----------
    order, differing, tiers, ranks
        of :class:`~psephos.kemeny.result.Placed`; ``differing`` is known only where ``certificate`` is ``"exact"``.
    cost
        its cost, exact.
    lower_bound
        no order costs less; exact.
    certificate
        ``"exact"``: cost and lower bound are equal; ``"bound"``: within the factor, by the solver on the whole;
        ``"scheme"``: within the factor, by cutting; ``"open"``: effort or time ended before the factor was proved.
    limit
        of :class:`~psephos.kemeny.result.KemenyResult`: what ended the work, if something did.
    cuts
        how many cuts the lower bound rests on.
    seconds
        wall-clock time.
    """

    cost: Fraction
    lower_bound: Fraction
    certificate: Literal["exact", "bound", "scheme", "open"]
    limit: Limit | None
    cuts: int
    seconds: float

    @property
    def gap(self) -> Fraction:
        """``cost - lower_bound``, in the units of the weights."""
        return self.cost - self.lower_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """``order`` (of a part's own items), its ``cost``, a ``lower`` bound on every cost, and ``cuts`` made.

    ``differing`` is that of :class:`~psephos.kemeny.result.Placed` where the order is an optimum, else ``None``.
    """

    order: Order
    cost: int
    lower: int
    cuts: int = 0
    differing: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Behind how many places to cut, what (1) loses, and how far apart pairs do not count any more (n: none)."""

    place: int
    loss: int
    window: int


def near_optimal(
    weights: npt.ArrayLike,
    *,
    xi: Exact,
    effort: float = DEFAULT_EFFORT,
    time_limit: float = DEFAULT_GUARD,
    practical: bool = True,
    polynomial: bool = False,
) -> SchemeResult:
    """Return an order whose cost is at most ``(1 + xi)`` times the least, with a proof.

    Parameters
    ----------
    weights
        (m, m), ``weights[v, u] >= 0`` is what placing u before v costs: integers of any size, fractions, or floats (a
        float stands for the dyadic rational that it is). Zeros on the diagonal; ``weights[u, v] + weights[v, u] > 0``.
    xi
        > 0.
    effort, time_limit
        >= 0, of :func:`psephos.solve`. When one runs out, the best order so far is returned with a valid lower bound.
    practical
        whether to try the solver on the whole first, for half the effort if the order at hand can be cut; else the
        scheme starts at once.
    polynomial
        whether parts of more than 20 items go to :func:`psephos.kemeny.additive.additive_approximation` instead of the
        solver. The scheme then starts at once, and neither limit interrupts that step.

    Raises
    ------
    ParameterError
        if ``weights`` or a parameter is out of range, or with ``polynomial`` if a part takes more than 10,000 linear
        programs.

    >>> result = near_optimal([[0, 3, 2], [0, 0, 2], [1, 1, 0]], xi="0.1")
    >>> result.order, result.cost, result.lower_bound, result.certificate
    ((0, 1, 2), Fraction(2, 1), Fraction(2, 1), 'exact')
    """
    return near_optimal_within(
        weights, xi=xi, effort=check_effort(effort, time_limit), practical=practical, polynomial=polynomial
    )


def near_optimal_within(
    weights: npt.ArrayLike, *, xi: Exact, effort: Effort, practical: bool = True, polynomial: bool = False
) -> SchemeResult:
    """:func:`near_optimal` with work that others count too."""
    start = time.monotonic()
    whole, denominator = _integers(weights)
    factor = positive(xi, "xi")
    first = _descend(whole, _by_wins(whole), effort)
    best = _Part(order=first, cost=weighted_cost(whole, first), lower=_least_sum(whole))
    if practical and not polynomial and (len(whole) <= MAX_ITEMS or best.cost == best.lower):  # it costs little
        best = _additive(whole, first, 0, effort)
    elif practical and not polynomial:
        share = 2 if _affordable_cut(whole, first, _hopeful_gap(best, factor)) else 1
        part = effort.part(effort.left // share)
        best = _close(best, factor, lambda gap: _additive(whole, first, gap, part))
    best = _close(best, factor, lambda gap: _scheme(whole, best.order, gap, effort, polynomial))
    proved: Literal["bound", "scheme"] = "scheme" if best.cuts else "bound"
    certificate = "exact" if best.cost == best.lower else proved if _within(best, factor) else "open"
    return SchemeResult(
        order=tuple(int(item) for item in best.order),
        differing=best.differing if best.cost == best.lower else None,
        cost=Fraction(best.cost, denominator),
        lower_bound=Fraction(best.lower, denominator),
        certificate=certificate,
        limit="time_limit" if effort.guard_cut else "effort" if certificate == "open" else None,
        cuts=best.cuts,
        seconds=time.monotonic() - start,
    )


def _within(part: _Part, xi: Fraction) -> bool:
    return part.cost <= (1 + xi) * part.lower


def _hopeful_gap(known: _Part, xi: Fraction) -> int:
    """The gap that is within the factor for an order of the known cost."""
    return math.floor(max(xi * known.lower, xi / (1 + xi) * known.cost))


def _close(known: _Part, xi: Fraction, run: Callable[[int], _Part]) -> _Part:
    """Run with a gap that closes unless much better orders turn up; then once more with one that is sure to.

    A gap <= xi L for a lower bound L is within the factor: the larger of L and cost - gap is a lower bound too.
    """
    best = known
    for attempt in range(2):
        if _within(best, xi):
            break
        found = run(math.floor(xi * best.lower) if attempt else _hopeful_gap(best, xi))
        better, bound = min(best, found, key=lambda p: p.cost), max(best, found, key=lambda p: p.lower)
        best = replace(bound, order=better.order, cost=better.cost)
    return best


def _scheme(weights: Integers, known: Order, allowance: int, effort: Effort, polynomial: bool) -> _Part:
    """Cut where that loses at most half of ``allowance``; cost minus lower bound stays within it if time allows."""
    starts = [_descend(weights, start, effort) for start in (known, _by_wins(weights))]
    order = min(starts, key=lambda o: weighted_cost(weights, o))
    cost = weighted_cost(weights, order)
    if cost == _least_sum(weights):
        return _Part(order=order, cost=cost, lower=cost)
    cut = None if effort.ended else _affordable_cut(weights, order, allowance)  # the order is settled
    if cut is None:
        dense = _polynomial if polynomial and len(weights) > MAX_ITEMS else _additive
        return dense(weights, order, allowance, effort)
    sides = [order[: cut.place], order[cut.place :]]
    inner = [weights[np.ix_(side, side)] for side in sides]
    costs = [weighted_cost(table, np.arange(len(table))) for table in inner]
    spare = allowance - cut.loss
    share = spare * costs[0] // max(1, sum(costs))
    left = _scheme(inner[0], np.arange(len(sides[0])), share, effort, polynomial)
    spare -= min(spare, left.cost - left.lower)
    right = _scheme(inner[1], np.arange(len(sides[1])), spare, effort, polynomial)
    cross = cost - sum(costs)
    joined = _descend(weights, np.concatenate([sides[0][left.order], sides[1][right.order]]), effort)
    lower = max(left.lower + right.lower + cross - cut.loss, _least_sum(weights))
    return _Part(order=joined, cost=weighted_cost(weights, joined), lower=lower, cuts=left.cuts + right.cuts + 1)


def _additive(weights: Integers, order: Order, gap: int, effort: Effort) -> _Part:
    """The better of ``order`` and what the solver finds, with its bound.

    Costs are Kemeny costs of the margins A[u, v] - A[v, u] plus half of the sum of all weights.
    """
    result = solve_within(weights - weights.T, gap=gap, effort=effort)
    half = Fraction(int(weights.sum()), 2)
    found = np.array(result.order, dtype=np.intp)
    best = min([found, order], key=lambda o: weighted_cost(weights, o))
    return _Part(
        order=best,
        cost=weighted_cost(weights, best),
        lower=max(math.ceil(half + result.lower_bound), _least_sum(weights)),
        differing=result.differing if result.status == "optimal" else None,
    )


def _polynomial(weights: Integers, order: Order, gap: int, effort: Effort) -> _Part:
    """The same without the solver. Costs are whole, so an error of at most gap + 1/2 is one of at most gap."""
    lower = _least_sum(weights)
    if effort.ended:
        return _Part(order=order, cost=weighted_cost(weights, order), lower=lower)
    result = additive_approximation(weights, error=gap + Fraction(1, 2))
    best = min([np.array(result.order, dtype=np.intp), order], key=lambda o: weighted_cost(weights, o))
    return _Part(order=best, cost=weighted_cost(weights, best), lower=max(result.lower_bound, lower))


def _affordable_cut(weights: Integers, order: Order, allowance: int) -> _Cut | None:
    """The best cut of a locally optimal order of more than 20 items, if it loses at most half of ``allowance``."""
    n = len(weights)
    if n <= max(MAX_ITEMS, 3):
        return None
    sums = (weights + weights.T)[np.triu_indices(n, 1)]
    cut = _best_cut(weights[np.ix_(order, order)], int(sums.min()), int(sums.max()))
    return cut if 2 * cut.loss <= allowance else None


def _best_cut(table: Integers, least: int, most: int) -> _Cut:
    """The cut of least loss; ``table`` are the weights in a locally optimal order, sums in [``least``, ``most``].

    Sums over pairs cut behind place k are running sums: of the rows up to k, minus the columns up to k.
    """
    n = len(table)
    places = np.arange(n)
    apart = places[None, :] - places[:, None]
    backward = np.where(apart > 0, np.maximum(table.T - table, 0), 0)
    first, last = -(-n // 3), 2 * n // 3
    pays = np.where(apart > 0, table.T, 0)  # [i, j]: the pair of places i < j
    cost = int(pays.sum())
    side = sorted((int(x) for x in np.maximum(pays.sum(axis=0), pays.sum(axis=1))), reverse=True)
    r = math.isqrt(2 * cost // least)
    options = [(n, 0)]
    bad = 0
    while bad < n:
        window = 2 * ((4 * r * most + 2 * side[bad]) // least + bad)
        if window < n:
            options.append((window, most * bad * (8 * r + 3 * (bad - 1)) // 2 if bad else 0))
        bad = 2 * bad or 1
    cuts = []
    for window, moved in options:
        near = np.where(apart < window, backward, 0)
        lost = (near.sum(axis=1) - near.sum(axis=0)).cumsum()[first - 1 : last] + moved
        k = int(lost.argmin())
        cuts.append(_Cut(place=first + k, loss=int(lost[k]), window=window))
    return min(cuts, key=lambda cut: cut.loss)


def _descend(weights: Integers, order: Order, effort: Effort) -> Order:
    """Single moves, until in exact arithmetic none lowers the cost or the effort has ended."""
    margins = weights - weights.T
    order = improve(as_doubles(margins), order, effort) if margins.any() else np.array(order, dtype=np.intp)
    while not effort.ended:
        effort.spend(_LOOK * len(order) ** 2)
        price = insertion_prices(margins[np.ix_(order, order)])
        i, j = divmod(int(price.argmin()), len(order))
        if price[i, j] >= 0:
            break
        order = np.insert(np.delete(order, i), j, order[i])
    return order


def _by_wins(weights: Integers) -> Order:
    """Items by the sums of their shares ``A[u, v] / (A[u, v] + A[v, u])``, largest first; shares to 60 bits."""
    rows, columns = np.triu_indices(len(weights), 1)
    shares = np.zeros(weights.shape, dtype=object)
    won = (weights[rows, columns] << _SHARE_BITS) // (weights[rows, columns] + weights[columns, rows])
    shares[rows, columns] = won
    shares[columns, rows] = (1 << _SHARE_BITS) - won
    return np.array(sorted(range(len(weights)), key=lambda u: -shares[u].sum()), dtype=np.intp)


def _least_sum(weights: Integers) -> int:
    """What every order pays: the sum over pairs of the smaller weight."""
    return int(np.minimum(weights, weights.T).sum()) // 2


def _integers(weights: npt.ArrayLike) -> tuple[Integers, int]:
    """The weights as Python integers over a common denominator."""
    try:
        table = np.array(weights, dtype=object)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"weights must be {_ALLOWED}: {error}") from None
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] == 0:
        raise ParameterError(f"weights must be {_ALLOWED}, got shape {table.shape}")
    ratios = []
    for value in table.ravel():
        ratio = finite_ratio(value)
        if ratio is None or ratio < 0:
            raise ParameterError(f"weights must be {_ALLOWED}, got {value!r}")
        ratios.append(ratio)
    denominator = math.lcm(*(ratio.denominator for ratio in ratios))
    numerators = np.empty(len(ratios), dtype=object)
    numerators[:] = [ratio.numerator * (denominator // ratio.denominator) for ratio in ratios]
    whole: Integers = numerators.reshape(table.shape)
    if (np.diagonal(whole) != 0).any():
        raise ParameterError(f"weights must be {_ALLOWED}, got a diagonal of {np.diagonal(table).tolist()}")
    empty = np.argwhere(np.triu(whole + whole.T == 0, 1))
    if len(empty):
        raise ParameterError(f"weights must be {_ALLOWED}, got the sum 0 for the pair {tuple(empty[0].tolist())}")
    return whole, denominator

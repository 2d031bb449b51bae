"""Orders within a given error of the least cost of a weighted tournament, in time polynomial in the number of items.

Given A >= 0 and ``F = A - A^T`` with ``|F[u, v]| <= B``, minimise over orders of n items

    cost(psi) = sum over u before v of A[v, u] = (sum of A)/2 - V(psi)/2,     V(psi) = sum over u before v of F[u, v].

**Buckets.** Cut every order into K buckets of given sizes s_1, ..., s_K (n/K rounded up or down), and let x[v, k] = 1
if v is in bucket k, else 0. V_K(x) is the sum of F[u, v] over u in an earlier bucket than v. It differs from V by what
pairs within buckets add, at most ``kappa = B sum of s_k (s_k - 1)/2``. Conversely *every x >= 0 with row sums 1,
whatever its column sums, gives an order with V >= V_K(x)*: V_K is linear in each row of x, as F vanishes on the
diagonal, so the rows are made whole one by one without loss; and an order of a bucket or its reverse adds at least 0.

**Form.** Let ``m = K - 1``, X the first m columns of x, S the m x m matrix of ``sign(l - k)``, and w the row sums of F.
The last column of x is 1 minus the others, and F is antisymmetric, so

    V_K(x) = sum of w[v] X[v, k] + <X^T F X, S>/2.

**Rank.** Put ``F_r = sum over j <= r of a_j b_j^T - b_j a_j^T`` for F in the second term. For X >= 0 with row sums at
most 1 and column sums at most s, ``||X||^2 <= s``, so this changes V_K by at most ``nu = ||F - F_r|| s N/2``, N the sum
of the singular values of S. The vectors ``(omega, ..., omega^m)`` with ``omega^m = -1`` are orthogonal eigenvectors of
S with eigenvalues ``(1 + omega)/(1 - omega)``, so N is the sum of ``|cot((2 i - 1) pi/(2 m))|``, i = 1, ..., m. The a_j
and b_j are dyadic, and their columns W = (a_1, b_1, a_2, ...) have ``W^T W`` near ``diag(sigma_1, sigma_1, sigma_2,
...)``, the singular values of F. If p pairs are known, ``||F - F_r||`` is at most the Frobenius norm of F - F_p plus
the squared norm of the columns after 2 r, and that is at most the largest row sum of their ``|W^T W|``. Both are
computed exactly: nothing rests on how well doubles have found W.

**Boxes.** With ``z = (X^T a_j, X^T b_j)``, 2 r m numbers, the second term for F_r is

    Q(z) = sum over j of (X^T a_j)^T S (X^T b_j).

Coordinate k of X^T a_j lies between the sums of the s_k least and the s_k largest entries of a_j. These ranges are cut
into cells of half-width at most h. In the box with centre c, ``Q(z) = Q(c) + <g, z - c> + Q(z - c)`` with g the
gradient at c, and *``|Q(z - c)| <= slack = r floor(m^2/2) h^2``*: for each j it is largest at corners d, e of [-h,
h]^m; of ``d_k e_l - d_l e_k``, k < l, only those differ from 0, by 2 h^2, for which d and e agree in one of the
coordinates k, l and not in the other; these are at most floor(m^2/4) pairs. So ``V_K(x) <= U + slack + nu`` for x in
the box, with

    U = Q(c) + max (sum of w[v] X[v, k] + <g, z - c>)   over X >= 0 with row sums <= 1, column sums s_k, z in the box,

a linear program. For any numbers y (one a coordinate) and q (one a bucket), with p = g - y, and p_k W[v] the sum over
the coordinates of bucket k,

    U <= Q(c) - <p, c> + h |y|_1 + sum of s_k q_k + sum over v of max(0, max over k of w[v] + p_k W[v] - q_k).

y and q are the program's duals, rounded, and this is evaluated in integers: *the lower bound holds whatever the solver
returns*.

**No box is infeasible.** To drop a box that no x meets, one would need a proof. Instead z may leave the box at a price:
the objective loses ``M t_i`` if coordinate i is t_i outside, with ``M = (m - 1) D`` and D the widest range. Then U is
defined for every box, and still a bound. Let x be a solution, d = z - c and d' the nearest point with coordinates in
[-h, h]. As ``Q(d) - Q(d')`` is the gradient at (d + d')/2 times d - d', and ``|d|, |d'| <= D`` everywhere, ``Q(d) >=
-slack - M sum of t_i``. So x gives an order with ``V >= V_K(x) >= U - slack - nu``, whatever the box, and the best
order over all boxes

    costs at most  lower bound + kappa/2 + nu + slack,     lower bound = (sum of A - kappa - nu - slack - max U)/2.

For K = 2, where S = 0, and for r = 0 there is one program.

**Theorem.** *Let ``eps = delta/B <= 1/4``, ``K = ceil(1/(2 eps))`` or n if that is less, ``r = ceil(4 (2 + ln
K)^2/eps^2)`` or floor(n/2) if that is less, and ``h = n (delta/(2 r))^(1/2)/K``. Then cost minus lower bound is at most
``delta n^2``, after at most ``(1 + 2 (r K/eps)^(1/2))^(2 r (K - 1))`` programs if ``n >= 1/(2 eps)``, else ``(1 +
n/eps^(1/2))^(n^2)``: numbers that delta/B bounds. A program has ``(n + 2 r) (K - 1)`` unknowns.* For ``sum of s_k^2 <=
n^2/K + K/4``, so ``kappa/2 <= B n^2/(4 K) <= delta n^2/2``; it is 0 if K = n. The squares of the sigma_j add up to at
most B^2 n^2/2, so ``sigma_j <= B n/(2 j)^(1/2)``; with ``s <= 2 n/K`` and, as cot x <= 1/x, ``N <= (2 m/pi) (2 + ln
m)``, ``nu <= (2/pi) B n^2 (2 + ln K)/(2 r + 2)^(1/2) <= delta n^2/4``; it is 0 if r = floor(n/2). The slack is at most
``r K^2 h^2/2 = delta n^2/4``. A range is at most ``2 (s sigma_j)^(1/2)`` wide, with s = 1 if K = n.

Here the programs are solved, and singular vectors found, in exact arithmetic. What doubles spoil shows in the bound.
The code takes the K, r and h with the fewest programs, from the computed norms and ranges and the K with different s,
among which is one no worse than K of the theorem. The exponent, some ``eps^-3``, makes this a proof more than a method.
The idea of a few dense pieces that say all about a table is due to Frieze and Kannan (1999).
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from psephos._check import positive
from psephos.errors import ParameterError
from psephos.kemeny.cost import Integers, weighted_cost
from psephos.kemeny.subset_dp import MAX_ITEMS, SubsetOptimum, subset_dp

__all__ = ["Additive", "additive_approximation", "additive_by_boxes"]

_BITS = 40  # factors are rounded to 2**-40 of the root of a power of two near B
_KEPT = 2.0**-30  # smaller singular values, relative to the largest, stay in the residual
_PI = Fraction(333, 106)  # a little less than pi
_RESERVE = Fraction(1, 1000)  # of the error, for programs that are solved in doubles

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Additive:
    """``order``, best first, its exact ``cost``, a ``lower_bound`` on every cost, and how many ``programs`` it took."""

    order: tuple[int, ...]
    cost: int
    lower_bound: int
    programs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """F and its factors; numbers of the form are integers in units of ``2**(exponent - 2 * _BITS)``.

    ``factors`` (n, 2 p) is W, in units of the root of that. ``low[s]`` and ``high[s]`` (2 p,) are the sums of the s
    least and the s largest entries of each column. ``tails[r]`` bounds ``||F - F_r||``, r = 0, ..., p.
    """

    margins: Integers
    most: int
    exponent: int
    factors: Integers
    low: Integers
    high: Integers
    tails: list[Fraction]

    @property
    def unit(self) -> Fraction:
        return Fraction(1 << self.exponent, 1 << 2 * _BITS)


def additive_approximation(weights: Integers, *, error: Fraction, most_programs: int = 10_000) -> Additive:
    """Return an order whose cost is at most ``error`` above the least, with a lower bound that proves it.

    The lower bound is exact and valid in any case; that it is within ``error`` of the cost assumes that the solver's
    doubles spoil no more than a thousandth of ``error``. At most 20 items are solved exactly, without programs.

    Parameters
    ----------
    weights
        (n, n), Python integers >= 0 with zeros on the diagonal; ``weights[v, u]`` is what placing u before v costs.
    error
        > 0, in the units of the weights.
    most_programs
        how many linear programs may be solved.

    Raises
    ------
    ParameterError
        if ``error`` is not positive, or needs more than ``most_programs``.

    >>> additive_approximation(np.array([[0, 3, 2], [0, 0, 2], [1, 1, 0]], dtype=object), error=Fraction(1)).order
    (0, 1, 2)
    """
    allowed = positive(error, "error")
    margins = weights - weights.T
    if len(weights) <= MAX_ITEMS:
        found = cast(SubsetOptimum, subset_dp(margins))  # no limit was given
        cost = weighted_cost(weights, np.array(found.order))
        return Additive(order=found.order, cost=cost, lower_bound=cost, programs=0)
    form = _factored(margins)
    digits, buckets, pairs, half = min(_plans(form, allowed * (1 - _RESERVE)))
    if digits > 15 or math.prod(_cells(form, buckets, pairs, half).ravel().tolist()) > most_programs:
        raise ParameterError(
            f"error must be large enough for at most {most_programs} linear programs, got {error}: it takes about "
            f"10^{digits:.1f} of them for {len(weights)} items ({buckets} buckets, {pairs} pairs of singular values)"
        )
    return _by_boxes(weights, form, buckets, pairs, half)


def additive_by_boxes(weights: Integers, *, buckets: int, pairs: int, cells: int) -> Additive:
    """The same with K = ``buckets``, 2 to n, r = ``pairs`` and the widest range cut into ``cells``."""
    form = _factored(weights - weights.T)
    r = min(pairs, len(form.tails) - 1)
    return _by_boxes(weights, form, buckets, r, -(-_widest(form, buckets, r) // (2 * cells)))


def _factored(margins: Integers) -> _Form:
    """Factors from doubles, and the exact norms of what they leave."""
    n = len(margins)
    most = int(np.abs(margins).max())
    exponent = most.bit_length() + most.bit_length() % 2
    values, vectors = np.linalg.eigh(1j * _doubles(margins << 2 * _BITS, exponent + 2 * _BITS))
    kept = np.flatnonzero(values > _KEPT * max(float(values[-1]), 0.0))[::-1]  # i F (p + i q) = sigma (p + i q)
    scaled = np.sqrt(2 * values[kept]) * vectors[:, kept]
    factors = _whole(np.stack([scaled.imag, scaled.real], axis=2).reshape(n, -1), _BITS)
    rest = (margins << 2 * _BITS) - (_rank(factors) << exponent)
    residual = Fraction(math.isqrt(int((rest * rest).sum())) + 1, 1 << 2 * _BITS)
    tails = np.abs(factors.T @ factors)[:, ::-1].cumsum(axis=1)[:, ::-1]  # [i, j]: the row sum from column j on
    unit = Fraction(1 << exponent, 1 << 2 * _BITS)
    ranked = np.sort(factors, axis=0)
    nothing = np.zeros((1, factors.shape[1]), dtype=object)
    return _Form(
        margins=margins,
        most=most,
        exponent=exponent,
        factors=factors,
        low=np.concatenate([nothing, ranked.cumsum(axis=0)]),
        high=np.concatenate([nothing, ranked[::-1].cumsum(axis=0)]),
        tails=[residual + unit * int(tails[j:, j].max()) for j in range(0, len(tails), 2)] + [residual],
    )


def _rank(factors: Integers) -> Integers:
    """``sum of a_j b_j^T - b_j a_j^T``."""
    half: Integers = factors[:, ::2] @ factors[:, 1::2].T
    return half - half.T


def _sizes(n: int, buckets: int) -> list[int]:
    return [n // buckets + (k < n % buckets) for k in range(buckets)]


def _signs(m: int) -> Integers:
    return np.sign(np.subtract.outer(-np.arange(m), -np.arange(m))).astype(object)


def _within(form: _Form, buckets: int) -> Fraction:
    """kappa."""
    return Fraction(form.most * sum(s * (s - 1) for s in _sizes(len(form.margins), buckets)), 2)


def _neglected(form: _Form, buckets: int, pairs: int) -> Fraction:
    """nu."""
    return form.tails[pairs] * _sizes(len(form.margins), buckets)[0] * _nuclear(buckets - 1) / 2


@functools.cache
def _nuclear(m: int) -> Fraction:
    """N rounded up: ``cot x <= 1/x - x/3``, which falls with x, at angles that are slightly too small."""
    angles = [(2 * i - 1) * _PI / (2 * m) for i in range(1, m // 2 + 1)]
    return Fraction(2 * sum(math.ceil((1 / x - x / 3) * 2**_BITS) for x in angles), 2**_BITS)


def _slack(form: _Form, buckets: int, pairs: int, half: int) -> Fraction:
    """slack for h = ``half`` in the units of the factors."""
    return form.unit * (pairs * ((buckets - 1) ** 2 // 2) * half**2)


def _ranges(form: _Form, buckets: int, pairs: int) -> tuple[Integers, Integers]:
    """(m, 2 r): the ends of the ranges of z."""
    sizes = _sizes(len(form.margins), buckets)[:-1]
    return form.low[sizes, : 2 * pairs], form.high[sizes, : 2 * pairs]


def _widest(form: _Form, buckets: int, pairs: int) -> int:
    low, high = _ranges(form, buckets, pairs)
    return int((high - low).max(initial=1))


def _cells(form: _Form, buckets: int, pairs: int, half: int) -> Integers:
    """(m, 2 r): how many cells of half-width at most ``half`` each range has."""
    low, high = _ranges(form, buckets, pairs)
    cells: Integers = np.maximum(-((low - high) // (2 * half)), 1)
    return cells


def _plans(form: _Form, error: Fraction) -> list[tuple[float, int, int, int]]:
    """What stays within ``error``: the logarithm of the number of programs, buckets, pairs and half-width."""
    n = len(form.margins)
    plans = []
    for buckets in sorted({-(-n // size) for size in range(1, n)}):
        for pairs in range(len(form.tails)):
            spare = error - _within(form, buckets) / 2 - _neglected(form, buckets, pairs)
            per_square = _slack(form, buckets, pairs, 1)
            half = math.isqrt(math.floor(spare / per_square)) - 1 if spare > 0 and per_square else 1
            if spare > 0 and half > 0:
                digits = np.log10(_cells(form, buckets, pairs, half).astype(np.float64)).sum()
                plans.append((float(digits), buckets, pairs, half))
    if not plans:
        raise ParameterError(f"error must be larger than what rounding to {_BITS} bits leaves, got {error}")
    return plans


def _by_boxes(weights: Integers, form: _Form, buckets: int, pairs: int, half: int) -> Additive:
    """All boxes of half-width at most ``half``, in the units of the factors."""
    pairs = pairs if buckets > 2 else 0  # else the form is linear
    low, high = _ranges(form, buckets, pairs)
    cells = _cells(form, buckets, pairs, half)
    program = _Program(form, buckets, pairs, half)
    best = np.arange(len(weights))
    upper: list[Fraction] = []
    for box in itertools.product(*(range(count) for count in cells.ravel())):
        steps = np.array(box, dtype=object).reshape(cells.shape)
        value, x = program.solve((low * (2 * cells - 2 * steps - 1) + high * (2 * steps + 1)) // (2 * cells))
        upper.append(value)
        best = min(best, _order(form, x), key=lambda order: weighted_cost(weights, order))
    errors = _within(form, buckets) + _neglected(form, buckets, pairs) + _slack(form, buckets, pairs, program.half)
    return Additive(
        order=tuple(best.tolist()),
        cost=weighted_cost(weights, best),
        lower_bound=math.ceil((int(weights.sum()) - errors - max(upper)) / 2),
        programs=len(upper),
    )


class _Program:
    """The program of a box: unknowns are the m columns of X, then the t_i, one a bucket and factor."""

    def __init__(self, form: _Form, buckets: int, pairs: int, half: int) -> None:
        n, m = len(form.margins), buckets - 1
        self.form, self.half, self.signs = form, half + 1, _signs(m)  # + 1: centres are rounded
        self.sizes = _sizes(n, buckets)[:-1]
        self.factors = form.factors[:, : 2 * pairs]
        self.wins = form.margins.sum(axis=1)
        self.price = np.full(m * 2 * pairs, (m - 1) * _widest(form, buckets, pairs) / 2**_BITS)
        image = np.kron(np.eye(m), _doubles(self.factors, _BITS).T)
        outside = np.eye(len(image))
        items = np.hstack([np.tile(np.eye(n), (1, m)), np.zeros((n, len(image)))])
        self.upper_rows = np.vstack([items, np.hstack([image, -outside]), np.hstack([-image, -outside])])
        self.equal_rows = np.hstack([np.kron(np.eye(m), np.ones((1, n))), np.zeros((m, len(image)))])

    def solve(self, centre: Integers) -> tuple[Fraction, Floats]:
        """An upper bound on U for this box, and (n, K) the assignment found; ``centre`` (m, 2 r)."""
        from scipy.optimize import linprog

        n, (m, _) = len(self.wins), centre.shape
        gradient = np.empty_like(centre)
        gradient[:, ::2], gradient[:, 1::2] = self.signs @ centre[:, 1::2], -(self.signs @ centre[:, ::2])
        gain = (self.wins << 2 * _BITS)[:, None] + ((self.factors @ gradient.T) << self.form.exponent)
        ends = [_doubles(sign * centre + self.half, _BITS).ravel() for sign in (1, -1)]
        found: Any = linprog(
            np.concatenate([-_doubles(gain, self.form.exponent + 2 * _BITS).T.ravel(), self.price]),
            A_ub=self.upper_rows,
            b_ub=np.concatenate([np.ones(n), *ends]),
            A_eq=self.equal_rows,
            b_eq=np.array(self.sizes, dtype=np.float64),
            method="highs-ds",
        )
        x = np.full((n, m + 1), 1 / (m + 1))
        prices, potentials = np.zeros(centre.size), np.zeros(m)
        if found.status == 0:
            x[:, :m] = found.x[: n * m].reshape(m, n).T
            x[:, m] = 1 - x[:, :m].sum(axis=1)
            above, below = np.split(found.ineqlin.marginals[n:], 2)
            prices, potentials = below - above, -found.eqlin.marginals
        y, q = _whole(prices, _BITS).reshape(centre.shape), _whole(potentials, 2 * _BITS)
        p = gradient - y
        fixed = int((gradient * centre).sum()) - 2 * int((p * centre).sum())  # 2 Q(c) = <g, c>
        fixed += 2 * self.half * int(np.abs(y).sum()) + 2 * int((np.array(self.sizes, dtype=object) * q).sum())
        reduced = (self.wins << 2 * _BITS)[:, None] + ((self.factors @ p.T - q) << self.form.exponent)
        value = (fixed << self.form.exponent) + 2 * int(np.maximum(reduced.max(axis=1), 0).sum())
        return Fraction(value, 1 << (2 * _BITS + 1)), x


def _order(form: _Form, x: Floats) -> npt.NDArray[np.intp]:
    """Rows of ``x`` (n, K) made whole one by one, each for the largest V_K; within buckets by wins, or the reverse."""
    n, buckets = x.shape
    x = x.copy()
    margins = _doubles(form.margins << 2 * _BITS, form.exponent + 2 * _BITS)
    signs = _signs(buckets).astype(np.float64)
    for v in range(n):
        x[v] = np.eye(buckets)[int((signs @ (margins[v] @ x)).argmax())]
    by_wins = sorted(range(n), key=lambda v: -form.margins[v].sum())
    order: list[int] = []
    for k in range(buckets):
        bucket = [v for v in by_wins if x[v, k]]
        inner = np.triu(form.margins[np.ix_(bucket, bucket)]).sum()
        order += bucket if inner >= 0 else bucket[::-1]
    return np.array(order, dtype=np.intp)


def _doubles(integers: Integers, bits: int) -> Floats:
    """``integers / 2**bits``."""
    result: Floats = (integers / 2**bits).astype(np.float64)
    return result


def _whole(values: Floats, bits: int) -> Integers:
    """``values * 2**bits`` as Python integers."""
    scaled = np.rint(np.ldexp(np.nan_to_num(values), bits))
    return np.array([int(value) for value in scaled.ravel()], dtype=object).reshape(values.shape)

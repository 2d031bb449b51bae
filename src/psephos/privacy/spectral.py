"""Random antisymmetric matrices whose density falls with the nuclear norm, drawn exactly.

X has on the antisymmetric m x m matrices a density proportional to ``exp(-||X||)``, where ``||X||`` is the nuclear
norm, the sum of the singular values. :func:`nuclear_noise` draws ``X / rate`` rounded to integers.

**Form.** Let k = floor(m/2), a = 0 for even m and 2 for odd m, and let B(s) have the blocks ``s_i [[0, 1], [-1, 0]]``
on its diagonal, and a zero at the end of an odd m. Then ``X = Q B(s) Q^T``, with Q from the Haar measure of O(m),
independent of s, and ``x_i = 2 s_i > 0`` of joint density proportional to

    prod over i < j of (x_i^2 - x_j^2)^2  *  prod over i of x_i^a  *  exp(-sum of x_i).

For, every antisymmetric matrix has such a form; the density depends on s alone, by ``||X|| = 2 sum s_i``; and Weyl's
Jacobian of ``(Q, s) -> X`` is the product of the squares of the roots, ``s_i - s_j``, ``s_i + s_j`` and, for odd m,
``s_i``. Q must come from all of O(m). On rotations alone, an even m and s_i > 0 would give the Pfaffian, prod s_i times
the determinant of Q, one sign, and a table whose Pfaffian has the other one could not come out.

**The x_i.** With ``v(x) = (1, x^2, ..., x^(2 k - 2))`` the density above is a Vandermonde determinant squared: the x_i
are the determinantal process of the projection on the span of v in L2 of ``x^a exp(-x) dx`` on (0, inf). Let phi be an
orthonormal basis of it and M the identity. Given the x_1, ..., x_j already drawn, the next one has the density

    x^a exp(-x) phi(x)^T M phi(x) / (k - j),    after each:  M <- M - M phi phi^T M / (phi^T M phi)  at phi(x_j)

(Hough, Krishnapur, Peres and Virag 2006). As ``int_x^inf z^n exp(-z) dz = exp(-x) (x^n + n x^(n-1) + n
(n - 1) x^(n-2) + ...)``, its tail is ``exp(-x) q(x) / (k - j)`` with a polynomial q, and the next x is where the tail
equals a uniform variable.

**Q.** Let H(q) = I - 2 w w^T / |w|^2, ``w = q - e_1``, be the reflection that takes e_1 to the unit vector q. If q is
uniform on the sphere and Q' Haar on O(m - 1), independent, then ``H(q) (1 + Q')`` (blocks) is Haar on O(m): a Haar
matrix has a uniform first column q, and given it, H(q) takes the others to a Haar frame orthogonal to e_1. Down to
O(1) this leaves a fair sign: it turns the last s_i of an even m, and nothing of an odd m. So X is B(s) with that sign,
conjugated by reflections of the last 2, 3, ..., m coordinates; q is a vector of normal variables (Box and Muller 1958)
divided by its length, and with ``z = X w``, ``H X H = X + (2 / |w|^2) (w z^T - z w^T)`` as ``w^T X w = 0``.

**Exactness.** So X / rate is a function of finitely many independent uniform variables and one fair bit. Each uniform
variable is a sequence of fair bits, of which the first b are drawn: it lies in ``[u, u + 1] / 2^b``. All of the above
is computed in Arb balls, which contain what they stand for: each entry of X / rate lies in its ball, and if no ball
holds a number half way between integers, the rounded balls are the rounded X / rate. Otherwise more bits of the *same*
variables are drawn and everything is computed again. Bits are never drawn anew and no draw is rejected, so the table
returned is the rounded X / rate of the variables' full sequences, which has the law stated: no distance in total
variation is left over. It ends with probability 1: outside a set of probability 0 each step is continuous (no x_i
where the density vanishes, no q = e_1, no entry half way), so the balls shrink to points.

**The error of a tail.** M is known to a ball for each entry. The polynomial q is computed from the midpoints alone, and
the error that this makes in ``exp(-x) q(x)`` is at most the sum of the radii: it is a sum of radii times integrals of
``z^a exp(-z) phi_i phi_j`` from x on, each at most 1 by the inequality of Cauchy and Schwarz. Without this the
radii would grow with every x_i by the condition number of the powers.

Sources: Hardt and Talwar (2010) for the use of such noise; Weyl for the Jacobian; Stewart (1980) for Q from
reflections.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from psephos.errors import ParameterError
from psephos.privacy.balls import Ball, ball, rational_above
from psephos.privacy.bits import BitSource

__all__ = ["expected_operator_norm_upper", "nuclear_entry_variance", "nuclear_noise", "operator_norm_quantile_upper"]

#: Bits of each uniform variable at the first attempt, beyond those of 1 / rate, and how many an item adds. Up to
#: m = 80, 10 + 6.5 m bits are lost on the way from the variables to the entries.
_FIRST_BITS = 64
_BITS_PER_ITEM = 8

#: Bits of precision beyond those of the variables, for each item: the powers of x cancel.
_GUARD_PER_ITEM = 12


def nuclear_noise(m: int, rate: Fraction, bits: BitSource) -> NDArray[Any]:
    """An antisymmetric table of integers: X rounded, X of density proportional to ``exp(-rate * nuclear norm)``.

    Parameters
    ----------
    m
        The number of items.
    rate
        A rational > 0.

    Returns
    -------
    Shape (m, m); int64, or Python integers if an entry reaches 2**62.

    >>> from psephos.privacy import SystemBits
    >>> table = nuclear_noise(4, Fraction(1, 10), SystemBits())
    >>> bool((table == -table.T).all())
    True
    """
    if not isinstance(rate, Fraction) or not rate > 0:
        raise ParameterError(f"rate must be a rational (Fraction) > 0, got {rate!r}")
    noise = np.zeros((m, m), dtype=object)
    if m > 1:
        upper = np.triu_indices(m, 1)
        noise[upper] = _rounded_entries(m, rate, bits)
        noise.T[upper] = -noise[upper]
    return noise if any(abs(x) >= 2**62 for x in noise.flat) else noise.astype(np.int64)


@cache
def nuclear_entry_variance(m: int) -> Fraction:
    """The variance of each entry u < v of X at rate 1; entries are uncorrelated.

    The law is invariant under O(m), so the covariance is a multiple of the identity, and ``2 sum s_i^2 =
    sum x_i^2 / 2`` is shared by m (m - 1) entries. The x_i have one-point density ``x^a exp(-x) v(x)^T M v(x)``, with
    the inverse M of the moments ``(2 i + 2 j + a)!``, so E sum x_i^2 is the trace of M times the moments two further.

    >>> nuclear_entry_variance(2), nuclear_entry_variance(3)
    (Fraction(1, 2), Fraction(1, 1))
    """
    if m < 2:
        return Fraction(0)
    inverse = _moments(m, 0).inv()
    product = inverse * _moments(m, 2)
    total = sum((_fraction(product[i, i]) for i in range(m // 2)), Fraction(0))
    return total / (2 * m * (m - 1))


@cache
def expected_operator_norm_upper(m: int) -> Fraction:
    """A rational >= the expected operator norm of X at rate 1; within 2 % of it up to m = 32, equal for m = 2 and 3.

    The norm is half of the largest x_i, and for every t >= 0 the largest is at most ``t + sum of (x_i - t)_+``. With
    the one-point density rho and its tail ``R(x) = exp(-x) q(x)``, the number of x_i expected beyond x,

        E of the sum = int_t^inf (x - t) rho(x) dx = int_t^inf R(x) dx,

    again ``exp(-t)`` times a polynomial. The bound is least where R(t) = 1, and holds at any t near it.

    >>> [round(float(expected_operator_norm_upper(m)), 3) for m in (1, 2, 3, 8)]
    [0.0, 0.5, 1.5, 7.922]
    """
    if m < 2:
        return Fraction(0)
    precision = 64 + _GUARD_PER_ITEM * m
    with flint.ctx.workprec(precision):
        tail = _expected_tail(m, precision)
        beyond = flint.arb_poly(_tail_polynomial(tail))
        expected = flint.arb_poly(tail)
        low, high = Fraction(0), Fraction(4 * m)
        for _ in range(24):
            middle = (low + high) / 2
            if (-ball(middle)).exp() * expected(ball(middle)) > 1:
                low = middle
            else:
                high = middle
        t = ball(low)
        return rational_above((t + (-t).exp() * beyond(t)) / 2)


def operator_norm_quantile_upper(m: int, failure: Fraction) -> Fraction:
    """A rational that the operator norm of X at rate 1 exceeds with probability at most ``failure``, 0 < failure < 1.

    The norm exceeds t / 2 where some x_i exceeds t, which has at most the probability R(t) that
    :func:`expected_operator_norm_upper` speaks of: the number of x_i expected beyond t.

    >>> [round(float(operator_norm_quantile_upper(m, Fraction(1, 20))), 3) for m in (1, 2, 3, 8)]
    [0.0, 1.498, 3.148, 10.936]
    """
    if m < 2:
        return Fraction(0)
    precision = 64 + _GUARD_PER_ITEM * m
    with flint.ctx.workprec(precision):
        beyond = flint.arb_poly(_expected_tail(m, precision))
        low, high = Fraction(0), Fraction(4 * m)
        while not (-ball(high)).exp() * beyond(ball(high)) <= ball(failure):
            low, high = high, 2 * high
        for _ in range(24):
            middle = (low + high) / 2
            if (-ball(middle)).exp() * beyond(ball(middle)) <= ball(failure):
                high = middle
            else:
                low = middle
    return high / 2


class _Uniforms:
    """n uniform variables on (0, 1), each known to its first ``b`` bits: it lies in ``[u, u + 1] / 2**b``."""

    __slots__ = ("_bits", "b", "u")

    def __init__(self, n: int, bits: BitSource) -> None:
        self._bits = bits
        self.u = [0] * n
        self.b = 0

    def refine(self, more: int) -> None:
        """Append bits to what is known of each variable."""
        self.u = [u << more | self._bits.bits(more) for u in self.u]
        self.b += more

    def balls(self) -> list[Ball]:
        unit = flint.arb(2) ** -(self.b + 1)
        return [flint.arb(2 * u + 1, 1) * unit for u in self.u]


def _rounded_entries(m: int, rate: Fraction, bits: BitSource) -> list[int]:
    """The entries u < v in row order, by as many attempts as it takes."""
    sign = bits.bits(1)
    uniforms = _Uniforms(_variables(m), bits)
    uniforms.refine(_FIRST_BITS + _BITS_PER_ITEM * m + math.ceil(1 / rate).bit_length())
    while True:
        entries = _decided_entries(m, rate, sign, uniforms)
        if entries is not None:
            return entries
        uniforms.refine(uniforms.b)


def _variables(m: int) -> int:
    """Uniform variables that a draw takes: k for the x_i, and one a normal variable, of which there are 2 + ... + m."""
    normals = m * (m + 1) // 2 - 1
    return m // 2 + normals + normals % 2


def _decided_entries(m: int, rate: Fraction, sign: int, uniforms: _Uniforms) -> list[int] | None:
    """The rounded entries of X / rate if what is known of the variables decides them all."""
    precision = uniforms.b + _GUARD_PER_ITEM * m
    with flint.ctx.workprec(precision):
        variables = uniforms.balls()
        xs = _spectrum(m, variables[: m // 2], precision)
        if xs is None:
            return None
        table = _conjugated(m, xs, sign, _normals(variables[m // 2 :])) * ball(1 / rate)
        half = flint.arb(1) / 2
        entries = []
        for u in range(m):
            for v in range(u + 1, m):
                nearest = (table[u, v] + half).floor().unique_fmpz()
                if nearest is None:
                    return None
                entries.append(int(nearest))
    return entries


def _moments(m: int, shift: int) -> Any:
    """The exact integrals of ``x^(2 i + 2 j + a + shift) exp(-x)``, i and j below k, which are factorials."""
    k, a = m // 2, 2 * (m % 2)
    return flint.fmpq_mat(k, k, [math.factorial(2 * i + 2 * j + a + shift) for i in range(k) for j in range(k)])


def _fraction(x: Any) -> Fraction:
    return Fraction(int(x.p), int(x.q))


def _identity(k: int) -> Ball:
    return flint.arb_mat(k, k, [int(i == j) for i in range(k) for j in range(k)])


@cache
def _orthogonal(m: int) -> tuple[list[list[Any]], list[Any]]:
    """Rational coefficients of the monic orthogonal polynomials in x^2, lowest first, and their squared norms.

    The last row of the inverse of the first i + 1 moments is the i-th of them divided by its squared norm.
    """
    k = m // 2
    moments = _moments(m, 0)
    rows, norms = [], []
    for i in range(k):
        part = flint.fmpq_mat(i + 1, i + 1, [moments[r, c] for r in range(i + 1) for c in range(i + 1)])
        last = flint.fmpq_mat(i + 1, 1, [int(r == i) for r in range(i + 1)])
        solution = part.solve(last).entries()
        norms.append(1 / solution[i])
        rows.append([c / solution[i] for c in solution] + [flint.fmpq(0)] * (k - 1 - i))
    return rows, norms


@lru_cache(maxsize=16)
def _orthonormal(m: int, precision: int) -> Ball:
    """The coefficients of phi in v, as balls of this precision: ``phi(x) = C v(x)``."""
    k = m // 2
    rows, norms = _orthogonal(m)
    with flint.ctx.workprec(precision):
        entries = [flint.arb(c) / flint.arb(h).sqrt() for row, h in zip(rows, norms, strict=True) for c in row]
        return flint.arb_mat(k, k, entries)


def _one_point_density(m: int, matrix: Ball, precision: int) -> list[Ball]:
    """The coefficients of ``x^a phi(x)^T M phi(x)``, lowest first."""
    k, a = m // 2, 2 * (m % 2)
    c = _orthonormal(m, precision)
    rows = (c.transpose() * matrix * c).tolist()
    coefficients = [flint.arb(0)] * (4 * k - 3 + a)
    for n in range(2 * k - 1):
        total = flint.arb(0)
        for i in range(max(0, n - k + 1), min(n, k - 1) + 1):
            total += rows[i][n - i]
        coefficients[2 * n + a] = total
    return coefficients


def _tail_polynomial(coefficients: list[Ball]) -> list[Ball]:
    """q with ``int_x^inf p(z) exp(-z) dz = exp(-x) q(x)``: p + p' + p'' + ..., so ``q_i = p_i + (i + 1) q_(i+1)``."""
    q = list(coefficients)
    for i in range(len(q) - 2, -1, -1):
        q[i] += (i + 1) * q[i + 1]
    return q


def _expected_tail(m: int, precision: int) -> list[Ball]:
    """The q of R(t) = exp(-t) q(t), the number of x_i expected beyond t."""
    return _tail_polynomial(_one_point_density(m, _identity(m // 2), precision))


def _spectrum(m: int, uniforms: list[Ball], precision: int) -> list[Ball] | None:
    """The x_i, in no order, as balls; ``None`` if the precision does not do."""
    k = m // 2
    matrix = _identity(k)
    xs: list[Ball] = []
    for j in range(k):
        x = _place(m, matrix, (k - j) * uniforms[j], precision)
        if x is None:
            return None
        xs.append(x)
        if j < k - 1:
            phi = _basis_at(m, x, precision)
            w = matrix * phi
            size = (phi.transpose() * w)[0, 0]
            if not size > 0:
                return None
            matrix = matrix - w * (w.transpose() * (1 / size))
    return xs


def _place(m: int, matrix: Ball, level: Ball, precision: int) -> Ball | None:
    """A ball around the x beyond which ``x^a exp(-x) phi^T M phi`` has the mass ``level``, for every M in the balls."""
    density = _one_point_density(m, matrix.mid(), precision)
    error = sum((entry.rad() for entry in matrix.entries()), flint.arb(0)).upper()
    return _tail_inverse(_tail_polynomial(density), density, level + (-error).union(error), start=4 * m)


def _basis_at(m: int, x: Ball, precision: int) -> Ball:
    """phi(x) for every x in a ball, by the mean value theorem: the powers of a ball would not cancel."""
    c, k = _orthonormal(m, precision), m // 2
    return c * _even_powers(x.mid(), k) + c * _even_power_slopes(x, k) * (x - x.mid())


def _even_powers(x: Ball, k: int) -> Ball:
    powers = [flint.arb(1)]
    square = x * x
    for _ in range(k - 1):
        powers.append(powers[-1] * square)
    return flint.arb_mat(k, 1, powers)


def _even_power_slopes(x: Ball, k: int) -> Ball:
    slopes = [flint.arb(0)]
    power, square = x, x * x
    for i in range(1, k):
        slopes.append(2 * i * power)
        power = power * square
    return flint.arb_mat(k, 1, slopes)


def _tail_inverse(tail: list[Ball], density: list[Ball], level: Ball, *, start: int) -> Ball | None:
    """A ball that certainly contains the x > 0 with ``exp(-x) q(x)`` in ``level``; ``None`` if precision lacks.

    The tail falls, so x lies between a place where it is certainly above the level and one where it is below.
    Newton's steps, halvings where they leave the bracket or gain little and at every eighth step, find where the two
    cannot be told apart; then a ball about that place grows until its ends can. Each loop is bounded by the precision,
    and for almost every level some precision does (``docs/proofs/central_worst_case.md``, lemma 6b).
    """
    precision = flint.ctx.prec
    if not level > 0:
        return None
    q, p = flint.arb_poly(tail), flint.arb_poly(density)

    def excess(x: Ball) -> Ball:
        return (-x).exp() * q(x) - level

    low, high = flint.arb(0), flint.arb(start)
    while not excess(high) < 0:
        low, high = high, 2 * high
        if not high < flint.arb(2) ** precision:
            return None
    x = (low + high).mid() / 2
    last_step = high
    for turn in range(2 * precision):
        gap = excess(x)
        if gap > 0:
            low = x
        elif gap < 0:
            high = x
        else:
            break
        target = (x + gap / ((-x).exp() * p(x))).mid()
        if turn % 8 == 7 or not (low < target < high and 2 * abs(target - x) < last_step):
            target = (low + high).mid() / 2
        last_step = abs(target - x)
        x = target.mid()
    slope = (-x).exp() * p(x)
    if not slope > 0:
        return None
    width = (2 * (gap.abs_upper() / slope).abs_upper() + x * flint.arb(2) ** -precision).mid()
    while (low := (x - width).mid()) > 0:
        high = (x + width).mid()
        if excess(low) > 0 and excess(high) < 0:
            return low.union(high)
        width *= 4
    return None


def _normals(uniforms: list[Ball]) -> list[Ball]:
    """Independent standard normal variables from as many uniform ones, by Box and Muller."""
    normals = []
    for first, second in zip(uniforms[::2], uniforms[1::2], strict=True):
        radius = (-2 * first.log()).sqrt()
        sine, cosine = (2 * second).sin_cos_pi()
        normals += [radius * cosine, radius * sine]
    return normals


def _conjugated(m: int, xs: list[Ball], sign: int, normals: list[Ball]) -> Ball:
    """X: the blocks, the last one turned by the sign, conjugated by reflections of the last 2, ..., m coordinates."""
    table = flint.arb_mat(m, m)
    for i, x in enumerate(xs):
        s = -x / 2 if sign and 2 * i + 2 == m else x / 2
        table[2 * i, 2 * i + 1], table[2 * i + 1, 2 * i] = s, -s
    used = 0
    for n in range(2, m + 1):
        vector = normals[used : used + n]
        used += n
        length = sum((g * g for g in vector), flint.arb(0)).sqrt()
        scale = 1 / (length * (length - vector[0]))  # 2 / |w|^2 for w = vector - length e_1
        w = flint.arb_mat(m, 1, [flint.arb(0)] * (m - n) + [vector[0] - length, *vector[1:]])
        outer = w * ((table * w).transpose() * scale)
        table = table + outer - outer.transpose()
    return table

"""How large noise tables are in operator norm: proved upper bounds, rounded upwards.

Z is antisymmetric, (m, m), with independent entries Z[u, v], u < v, of one symmetric law, and ``D = m (m - 1)/2``.
``||Z||`` is the operator norm (largest singular value), in votes. Its singular values come in equal pairs, as the
eigenvalues of the Hermitian table iZ come as +s and -s. So ``||Z||`` is the largest eigenvalue of iZ, and

    ||Z||^2  <=  sum over u < v of Z[u, v]^2,        E||Z||  <=  sqrt(D E Z[u, v]^2).                              (1)

**Matrix Laplace transform.** With ``A_uv = i (e_u e_v^T - e_v e_u^T)`` the table iZ is the sum over u < v of
``Z[u, v] A_uv``. A_uv has the eigenvalues 1 and -1 on the coordinates u and v and vanishes elsewhere; its square is the
projection on these coordinates. As the law is symmetric, with ``kappa(theta) = ln E exp(theta Z[u, v])``,

    E exp(theta Z[u, v] A_uv)  =  exp(kappa(theta) A_uv^2),        sum over u < v of A_uv^2  =  (m - 1) I.

Tropp (2012), lemma 3.4: ``E tr exp(theta iZ) <= tr exp(sum of ln E exp(theta Z[u, v] A_uv)) = m exp((m - 1)
kappa(theta))``. Jensen's and Markov's inequalities then give for every theta > 0 for which kappa is finite

    E||Z||  <=  (ln m + (m - 1) kappa(theta)) / theta,                                                            (2)
    P(||Z|| >= s)  <=  m exp((m - 1) kappa(theta) - theta s).                                                     (3)

**Laplace**, ``P(k) ~ exp(-|k|/b)`` on integers: ``E exp(theta Z) = 1 / (1 - (sinh(theta/2) / sinh(1/(2b)))^2)``, and
``sinh(theta/2) / sinh(1/(2b)) <= b theta`` for theta <= 1/b because sinh(x)/x grows. Hence ``kappa <= -ln(1 - b^2
theta^2)``, which is the value for the continuous law, and ``E Z^2 = 1 / (2 sinh(1/(2b))^2) <= 2 b^2``.

**Normal** of standard deviation s: ``E||Z|| <= 2 s sqrt(m)``. Proof. ||Z|| is the largest of ``X(x, y) = x^T Z y`` over
orthonormal pairs x, y (a table in normal form has a pair of coordinates with the entries ||Z|| and -||Z||). Compare X
with ``Y(x, y) = s (<g, x> + <h, y>)`` for independent standard normal vectors g and h. Let K be the 2 by 2 matrix of
inner products of x, y with x', y'. Then ``E (X - X')^2 = s^2 (2 - 2 det K)``, ``E (Y - Y')^2 = s^2 (4 - 2 tr K)``, and
the second minus the first is ``2 s^2 (1 - tr K + det K) = 2 s^2 det(I - K) >= 0``: K is a contraction, and each of its
real eigenvalues is <= 1, while complex ones come in conjugate pairs. By Sudakov and Fernique (Vershynin 2018, theorem
7.2.11) ``E max X <= E max Y <= s (E|g| + E|h|) <= 2 s sqrt(m)``. By (1), ||Z|| is a function of D independent normal
variables with Lipschitz constant 1, so ``P(||Z|| >= E||Z|| + x) <= exp(-x^2 / (2 s^2))`` (Tsirelson, Ibragimov and
Sudakov 1976).

**Rounding** normal entries to integers adds a table R of independent entries of a symmetric law on [-1/2, 1/2], with
``kappa(theta) <= ln cosh(theta/2) <= theta^2/8``. By (1) ``||R|| <= sqrt(D)/2`` always, and the best theta in (2) and
(3) gives ``E||R|| <= sqrt((m - 1) ln(m) / 2)`` and ``P(||R|| >= sqrt((m - 1) ln(m/q) / 2)) <= q``.
"""

from __future__ import annotations

from fractions import Fraction

import flint

from psephos._check import Exact, check_integer, exact, positive
from psephos.errors import ParameterError
from psephos.privacy.balls import ball, rational_above, sqrt_upper

__all__ = [
    "gaussian_norm_quantile_upper",
    "gaussian_norm_upper",
    "laplace_norm_quantile_upper",
    "laplace_norm_upper",
]

_PRECISION = 128
_STEPS = 256  # the theta tried in (2) and (3): multiples of 1/(256 b)


def laplace_norm_upper(m: int, scale: Exact) -> Fraction:
    """A rational >= E||Z|| for (discrete) Laplace entries of this ``scale`` b: the least of (1) and (2), in votes.

    >>> [round(float(laplace_norm_upper(m, 1)), 2) for m in (1, 2, 8, 64)]
    [0.0, 1.41, 7.48, 32.89]
    """
    m, b = check_integer(m, "m", low=1), positive(scale, "scale")
    return b * min(sqrt_upper(Fraction(m * (m - 1))), _laplace(m, Fraction(1)))


def laplace_norm_quantile_upper(m: int, scale: Exact, failure: Exact) -> Fraction:
    """A rational s with P(||Z|| >= s) <= ``failure`` for (discrete) Laplace entries, by (3); 0 < failure < 1.

    >>> round(float(laplace_norm_quantile_upper(64, 1, "1e-6")), 2)
    71.62
    """
    m, b = check_integer(m, "m", low=1), positive(scale, "scale")
    return b * _laplace(m, _failure(failure)) if m > 1 else Fraction(0)


def gaussian_norm_upper(m: int, sigma: Exact, *, rounded: bool = True) -> Fraction:
    """A rational >= E||Z|| for normal entries of standard deviation ``sigma``, ``rounded`` to integers or not.

    >>> [round(float(gaussian_norm_upper(m, 10)), 1) for m in (1, 2, 8, 64)]
    [0.0, 10.5, 55.6, 171.4]
    """
    m, s = check_integer(m, "m", low=1), positive(sigma, "sigma")
    return s * _normal(m) + (min(_root_of_pairs(m) / 2, _rounding(m, Fraction(1))) if rounded else 0)


def gaussian_norm_quantile_upper(m: int, sigma: Exact, failure: Exact, *, rounded: bool = True) -> Fraction:
    """A rational s with P(||Z|| >= s) <= ``failure`` for normal entries, ``rounded`` or not; 0 < failure < 1.

    >>> round(float(gaussian_norm_quantile_upper(64, 10, "1e-6")), 1)
    235.0
    """
    m, s, q = check_integer(m, "m", low=1), positive(sigma, "sigma"), _failure(failure)
    if m == 1:
        return Fraction(0)
    certain = s * _normal(m, q) + (_root_of_pairs(m) / 2 if rounded else 0)
    return min(certain, s * _normal(m, q / 2) + _rounding(m, q / 2)) if rounded else certain


def _failure(value: Exact) -> Fraction:
    q = exact(value, "failure", "a number > 0 and < 1")
    if not 0 < q < 1:
        raise ParameterError(f"failure must be a number > 0 and < 1, got {value!r}")
    return q


def _root_of_pairs(m: int) -> Fraction:
    return sqrt_upper(Fraction(m * (m - 1), 2))


def _laplace(m: int, failure: Fraction) -> Fraction:
    """The least of ``(ln(m/failure) - (m - 1) ln(1 - x^2)) / x`` over the grid of ``x = b theta``."""
    with flint.ctx.workprec(_PRECISION):
        start = ball(m / failure).log()
        values = []
        for k in range(1, _STEPS):
            x = Fraction(k, _STEPS)
            values.append(rational_above((start - (m - 1) * ball(1 - x * x).log()) / ball(x)))
    return min(values)


def _normal(m: int, failure: Fraction = Fraction(1)) -> Fraction:
    """``min(sqrt(D), 2 sqrt(m)) + sqrt(2 ln(1/failure))``."""
    return min(_root_of_pairs(m), 2 * sqrt_upper(Fraction(m))) + _root_of_log(Fraction(2), 1 / failure)


def _rounding(m: int, failure: Fraction) -> Fraction:
    """``sqrt((m - 1) ln(m/failure) / 2)``."""
    return _root_of_log(Fraction(m - 1, 2), m / failure)


def _root_of_log(factor: Fraction, x: Fraction) -> Fraction:
    """A rational >= sqrt(factor ln x), x >= 1."""
    if x == 1:
        return Fraction(0)
    with flint.ctx.workprec(_PRECISION):
        return sqrt_upper(factor * rational_above(ball(x).log()))

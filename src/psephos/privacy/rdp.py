"""Renyi accounting: moments of one step, composition by addition, conversion to (epsilon, delta).

The *log-moment* of order lambda > 1 is ``log E_Q (P/Q)^lambda = (lambda - 1) D_lambda(P || Q)``. Log-moments of steps
that follow each other add. Everything here rounds towards more loss; a log-moment that is NaN or negative raises.

**Conversion.** Let ``M`` be the moment (the exponential of the log-moment) and ``L = P/Q``. For each epsilon >= 0,
``delta = E_Q (L - e^epsilon)_+`` at the worst event, and three bounds hold:

* tangent at a power: ``(L - e^eps)_+ <= zeta e^(-(lambda-1) eps) L^lambda``, where zeta is ``(lambda-1)^(lambda-1) /
  lambda^lambda``;
* tangent at a convex function: ``f(L) = L^lambda - 1 - lambda (L - 1) >= f'(e^eps) (L - e^eps)_+`` and ``E_Q f(L) = M
  - 1``, so ``delta <= (M - 1) / (lambda (e^((lambda-1) eps) - 1))``;
* an event of probability p under P has one of at least ``p^(lambda/(lambda-1)) M^(-1/(lambda-1))`` under Q, so
  ``delta`` is at most the maximum of ``p - e^eps p^(lambda/(lambda-1)) M^(-1/(lambda-1))`` over p; where that lies at
  p = 1, ``delta <= 1 - e^eps M^(-1/(lambda-1))``.

The first two are the branches of (S1) in "Private generative bootstrap via blocking" for lambda delta <= 1, the third
is the one for lambda delta >= 1 (Asoodeh et al. 2021, Lemma 1). Mironov (2017) is the first with zeta = 1.

**The moment of a step** (:mod:`psephos.privacy.subsampled`). With ``t = a^2`` and a standard normal X,

    f(t) = E P^lambda Q^(1-lambda),   P = 1 - q + q e^(aX - t/2),   Q = 1 - q + q e^(-aX - t/2).

The exponentials x = e^(B_t - t/2) and y = e^(-B_t - t/2) are martingales of one Brownian motion, so by Ito's formula

    f'(t) = (1/2) lambda (lambda-1) q^2 E[ P^(lambda-2) Q^(-lambda-1) ((1-q)(x + y) + 2 q x y)^2 ] >= 0,

and from ``x + y >= 2 e^(-t/2)``, ``xy = e^(-t)``, Jensen's inequality, ``E log Q <= 0`` and ``E log P >= -q t/2``,

    f'(t) >= m(t) := 2 lambda (lambda-1) q^2 exp(-2t - (lambda-2)_+ q t/2),   decreasing in t.

On a bin of weights with upper edge T (of t) and probability w, therefore, ``E[f(t); bin] <= w f(T) - m(T) (w T - E[t;
bin])``: u is rounded up and what that costs to first order is given back. The integral over x is a trapezoid sum. Its
integrand is analytic while ``|Im a x| <= pi/2``, where ``|Q| >= 1 - q``, so the sum errs by O(exp(-pi^2 / (a h))) and
O(exp(-2 pi^2 / h^2)), far below the round-off that is added; what lies outside the range is bounded by ``P <=
e^(aX)`` with ``log Q >= -q (aX + t/2)`` or ``Q >= 1 - q``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from psephos._check import check_choice, check_integer, check_real
from psephos.errors import ParameterError
from psephos.privacy.subsampled import SubsampledGaussian

__all__ = [
    "CONVERSIONS",
    "Conversion",
    "compose_log_moments_upper",
    "delta_from_log_moment_upper",
    "epsilon_from_log_moment_upper",
    "least_delta_upper",
    "least_epsilon_upper",
    "log_moment_upper",
    "order_at_edge",
    "steps_delta_upper",
    "steps_epsilon_upper",
]

Array = NDArray[np.float64]
Conversion = Literal["asoodeh", "mironov"]
CONVERSIONS = ("asoodeh", "mironov")

#: Relative slack for the rounding of a few thousand operations on positive doubles.
ROUNDING = 1e-11
_LEAST_DELTA = 2e-323  # above the error of an exponential at the bottom of the doubles

_LARGEST_SHIFT = 3.0  # beyond it a step is bounded in closed form
_LARGEST_TILT = 40.0  # order times shift; orders beyond it are never the best
_ROWS = 128  # bins of weights integrated together
_LEAST = 1e-290  # a moment's excess below it may have underflowed: rounded up to it
_FARTHEST = 27.0  # logs of order - 1 that are tried lie between -20 and this


def compose_log_moments_upper(parts: Iterable[tuple[float, int]]) -> float:
    """The log-moment of several mechanisms one after another: pairs of (log-moment of one, how many), rounded up.

    >>> compose_log_moments_upper([(0.5, 4), (0.25, 2)]) >= 2.5
    True
    """
    total = 0.0
    for log_moment, times in parts:
        _check_log_moment(log_moment)
        check_integer(times, "times", low=0)
        total += log_moment * times if times else 0.0
    return total * (1 + ROUNDING)


def _check_log_moment(value: float) -> None:
    if not value >= 0:
        raise ParameterError(f"log_moment must be a number >= 0 (inf where nothing is known), got {value!r}")


def _check_order(order: float) -> float:
    value = check_real(order, "order", low=1, high=1e12)
    if not value > 1:
        raise ParameterError(f"order must be > 1, got {order!r}")
    return value


def epsilon_from_log_moment_upper(
    log_moment: float, *, order: float, delta: float, conversion: Conversion = "asoodeh"
) -> float:
    """The least epsilon >= 0 that a log-moment of one order proves at ``delta``; ``inf`` from ``inf``.

    Parameters
    ----------
    log_moment
        ``(order - 1) * D_order``, >= 0, nats.
    order
        lambda > 1, any real number.
    delta
        0 < delta < 1.
    conversion
        ``"asoodeh"``, equation (S1), or the weaker ``"mironov"``.

    Raises
    ------
    ParameterError
        for a log-moment that is NaN or negative.

    >>> round(epsilon_from_log_moment_upper(6.0, order=14, delta=1e-4), 4)
    0.8929
    >>> round(epsilon_from_log_moment_upper(6.0, order=14, delta=1e-4, conversion="mironov"), 4)
    1.17
    """
    _check_log_moment(log_moment)
    lam = _check_order(order)
    _check_delta(delta)
    check_choice(conversion, "conversion", CONVERSIONS)
    return float(_epsilons(np.array([log_moment]), np.array([lam]), delta, conversion)[0])


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ParameterError(f"delta must be > 0 and < 1, got {delta!r}")


def _epsilons(log_moments: Array, orders: Array, delta: float, conversion: Conversion) -> Array:
    """:func:`epsilon_from_log_moment_upper` over arrays; the log-moments have been checked."""
    below = orders - 1
    if conversion == "mironov":
        return np.maximum((log_moments - math.log(delta)) / below, 0) * (1 + ROUNDING)
    power = np.maximum(log_moments - math.log(delta) + _log_zeta(orders), 0)
    # log(1 + (M - 1)/(lambda delta)), with log(M - 1) = log_moment + log(1 - e^-log_moment)
    with np.errstate(divide="ignore"):
        convex = np.logaddexp(0, log_moments + np.log(-np.expm1(-log_moments)) - np.log(orders * delta))
    small = np.minimum(power, convex) / below
    large = np.maximum(log_moments / below + math.log1p(-delta), 0)
    return np.where(orders * delta >= 1, np.minimum(small, large), small) * (1 + ROUNDING)


def delta_from_log_moment_upper(
    log_moment: float, *, order: float, epsilon: float, conversion: Conversion = "asoodeh"
) -> float:
    """The least delta <= 1 that a log-moment of one order proves at ``epsilon`` >= 0: the inverse conversion.

    >>> delta = delta_from_log_moment_upper(6.0, order=14, epsilon=0.8929)
    >>> round(delta * 1e4, 2)
    1.0
    """
    _check_log_moment(log_moment)
    lam = _check_order(order)
    eps = check_real(epsilon, "epsilon", low=0, high=1e12)
    check_choice(conversion, "conversion", CONVERSIONS)
    return float(_deltas(np.array([log_moment]), np.array([lam]), eps, conversion)[0])


def _deltas(log_moments: Array, orders: Array, epsilon: float, conversion: Conversion) -> Array:
    below = orders - 1
    logs = log_moments - below * epsilon + (0 if conversion == "mironov" else _log_zeta(orders))
    if conversion == "asoodeh":
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = log_moments + np.log(-np.expm1(-log_moments))
            growth = below * epsilon + np.log(-np.expm1(-below * epsilon))
            convex = np.where(
                growth > -np.inf, excess - np.log(orders) - growth, np.where(excess > -np.inf, 0, -np.inf)
            )
        logs = np.minimum(logs, convex)
        whole = -np.expm1(np.minimum(epsilon - log_moments / below, 0))
        with np.errstate(divide="ignore"):
            logs = np.where(whole * orders >= 1, np.minimum(logs, np.log(whole)), logs)
    # With no divergence at all nothing is lost; else an exponential that underflows is above 0.
    deltas = np.minimum(np.exp(np.minimum(logs, 0)) * (1 + ROUNDING) + _LEAST_DELTA, 1)
    return np.where(log_moments == 0, 0.0, deltas)


def _log_zeta(orders: Array) -> Array:
    """(lambda - 1) log(lambda - 1) - lambda log(lambda), without cancellation."""
    below = orders - 1
    return np.asarray(-special.xlog1py(below, 1 / below) - np.log(orders))


def log_moment_upper(step: SubsampledGaussian, order: float) -> float:
    """An upper bound on the log-moment of one step, tight to a few 1e-4 at useful orders; ``inf`` where it is hopeless.

    Parameters
    ----------
    step
        The subsampled Gaussian and the law of its public weight.
    order
        lambda > 1, any real number.

    >>> from psephos.privacy.subsampled import BetaWeight, FixedWeight
    >>> step = SubsampledGaussian(probability=1.0, shift=0.5, weight=FixedWeight())
    >>> round(log_moment_upper(step, 3), 6)  # a plain Gaussian of distance 1: 3 * 2 / 2
    3.0
    >>> step = SubsampledGaussian(probability=0.1, shift=0.2, weight=BetaWeight(0.9, 17.1))
    >>> 0 < log_moment_upper(step, 14) < 1e-3
    True
    """
    lam = _check_order(order)
    q, shift = step.probability, step.shift
    if shift == 0:
        return 0.0
    bins = step.weight.bins(tail=True)
    a = shift * bins.upper
    t = a * a
    excess = np.empty_like(t)
    near = (a <= _LARGEST_SHIFT) & (lam * a <= _LARGEST_TILT) & (q < 1)
    with np.errstate(over="ignore"):
        # P and Q mix equal laws with a Gaussian pair of distance 2a: joint convexity, and equality at q = 1. What
        # overflows to inf is hopeless.
        excess[~near] = q * np.expm1(2 * lam * (lam - 1) * t[~near])
    if near.any():
        excess[near] = _excess_by_quadrature(q, lam, a[near])
    if bins.mass[-1] > 0 and math.isinf(excess[-1]):
        return math.inf
    reached = bins.mass > 0
    total = float(bins.mass[reached] @ excess[reached]) + (bins.above * float(excess[-1]) if bins.above else 0.0)
    slope = 2 * lam * (lam - 1) * q * q * np.exp(-2 * t - max(lam - 2, 0) * q * t / 2)
    given_back = float(np.maximum(bins.mass * t - shift * shift * bins.square, 0) @ slope)
    return max(_checked(math.log1p((total - given_back * (1 - ROUNDING)) * (1 + ROUNDING))), _LEAST)


def _checked(value: float) -> float:
    if not value >= 0:  # impossible unless the quadrature broke: never taken for no loss
        raise ArithmeticError(f"a log-moment came out as {value!r}")
    return value


def _excess_by_quadrature(q: float, order: float, a: Array) -> Array:
    """E[P^order Q^(1-order)] - 1 for each a, in increasing order, rounded up."""
    result = np.empty_like(a)
    for first in range(0, a.size, _ROWS):
        rows = slice(first, first + _ROWS)
        most = float(a[rows][-1])
        spacing = min(0.35, 0.25 / most)
        # The integrand falls like a Gaussian about `cut`; what is cut off is below e^-60, or e^-75 of the peak's bound.
        cut = most * order * (1 + q)
        beyond = min(math.sqrt(cut * cut + 120), math.sqrt(150 - 2 * order * math.log(q)))
        nodes = np.arange(-12, cut + beyond + spacing, spacing)
        log_density = -nodes * nodes / 2 + math.log(spacing / math.sqrt(2 * math.pi))
        with np.errstate(over="ignore"):  # to inf: hopeless orders
            result[rows] = _excess_of_rows(q, order, a[rows], nodes, log_density)
    return result


def _excess_of_rows(q: float, order: float, a: Array, nodes: Array, log_density: Array) -> Array:
    moved, half = a[:, None] * nodes, (a * a / 2)[:, None]
    exponent = order * np.log1p(q * np.expm1(moved - half)) - (order - 1) * np.log1p(q * np.expm1(-moved - half))
    terms = np.expm1(np.minimum(exponent, 50)) * np.exp(log_density)
    if exponent.max() > 50:  # a huge ratio times a tiny density
        terms = np.where(exponent > 50, np.exp(exponent + log_density), terms)
    # Round-off, and the part of the range that was left out, both upwards.
    slack = np.abs(terms).sum(axis=1) * (4e-15 * (8 + order))
    steep, flat = a * (order + q * (order - 1)), a * order
    outside = np.minimum(
        special.log_ndtr(steep - nodes[-1]) + steep * steep / 2 + q * (order - 1) * half[:, 0],
        special.log_ndtr(flat - nodes[-1]) + flat * flat / 2 - (order - 1) * math.log1p(-q),
    )
    return np.asarray(terms.sum(axis=1) + slack + np.exp(outside))


def least_epsilon_upper(
    log_moment_at: Callable[[float], float], *, delta: float, start: float, conversion: Conversion = "asoodeh"
) -> tuple[float, float]:
    """(epsilon, order): the best conversion found over real orders, walking from ``start``. Each order is a proof.

    The conversion has had one valley in the order for every mechanism met so far; where it had more, the result would
    only be larger.
    """

    def at(order: float) -> float:
        return epsilon_from_log_moment_upper(log_moment_at(order), order=order, delta=delta, conversion=conversion)

    return _least_over_orders(at, start)


def least_delta_upper(
    log_moment_at: Callable[[float], float], *, epsilon: float, start: float, conversion: Conversion = "asoodeh"
) -> tuple[float, float]:
    """(delta, order): the same for delta at ``epsilon``."""

    def at(order: float) -> float:
        return delta_from_log_moment_upper(log_moment_at(order), order=order, epsilon=epsilon, conversion=conversion)

    return _least_over_orders(at, start)


def _least_over_orders(at: Callable[[float], float], start: float) -> tuple[float, float]:
    seen: dict[float, float] = {}

    def value(position: float) -> float:
        if position not in seen:
            seen[position] = at(1 + math.exp(position))
        return seen[position]

    middle, width = math.log(min(max(start, 1.01), 1e11) - 1), 0.4
    while width > 0.01 and -20 < middle < _FARTHEST:
        # Hopeless values lie at large orders: on a plain, go left.
        if value(middle - width) <= value(middle):
            middle -= width
        elif value(middle + width) < value(middle):
            middle += width
        else:
            width /= 3
    best = min(seen, key=lambda position: seen[position])
    return seen[best], 1 + math.exp(best)


def order_at_edge(order: float) -> bool:
    """Whether a best order is as near 1, or as large, as any that is tried: better ones may lie beyond.

    >>> order_at_edge(14.0), order_at_edge(6e11)
    (False, True)
    """
    return not -20 < math.log(order - 1) < _FARTHEST


def steps_epsilon_upper(step: SubsampledGaussian, *, compositions: int, delta: float) -> tuple[float, float]:
    """(epsilon, order) at ``delta`` of ``compositions`` adaptive steps.

    >>> from psephos.privacy.subsampled import FixedWeight
    >>> step = SubsampledGaussian(probability=0.1, shift=0.05, weight=FixedWeight())
    >>> [round(x, 3) for x in steps_epsilon_upper(step, compositions=100, delta=1e-50)]
    [1.483, 148.313]
    """
    rho = _leading(step, compositions)  # to leading order the best order is 1 + sqrt(log(1/delta) / (2 rho))
    start = 1 + max(math.sqrt(-math.log(delta) / (2 * rho)), 0.02)
    return least_epsilon_upper(_moments_of(step, compositions), delta=delta, start=start)


def steps_delta_upper(step: SubsampledGaussian, *, compositions: int, epsilon: float) -> tuple[float, float]:
    """(delta, order) at ``epsilon`` >= 0: the other reading of :func:`steps_epsilon_upper`.

    >>> from psephos.privacy.subsampled import FixedWeight
    >>> step = SubsampledGaussian(probability=0.1, shift=0.05, weight=FixedWeight())
    >>> steps_delta_upper(step, compositions=100, epsilon=1.484)[0] <= 1e-50
    True
    """
    start = (1 + epsilon / (2 * _leading(step, compositions))) / 2
    return least_delta_upper(_moments_of(step, compositions), epsilon=epsilon, start=start)


def _leading(step: SubsampledGaussian, compositions: int) -> float:
    """The rate of log-moments in order (order - 1), to leading order: 2 rho is what a Gaussian's would be."""
    return max(compositions * (step.probability * step.shift) ** 2 * step.weight.second_moment, 1e-300)


def _moments_of(step: SubsampledGaussian, compositions: int) -> Callable[[float], float]:
    return lambda order: compose_log_moments_upper([(log_moment_upper(step, order), compositions)])

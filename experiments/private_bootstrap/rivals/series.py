"""The series bound on the Renyi moments of a blocked step, as the source document prints it.

Source: "Private Generative Bootstrap via Blocking", equations (S22)-(S33): a Taylor expansion in q of the moment of a
replace-one Poisson-subsampled Gaussian (Birrell et al. 2024, Theorem C.9), averaged over the public weight u by its
even moments, which are summed up to a truncation order J and bounded by u <= 1 beyond.

With ``r = C / (sigma n_S)``, ``mu_j = E u^(2j)`` and ``b_l = l (l-1) r^2 / 2``:

    M_k = sum_l (-1)^(k-l) C(k,l) sum_{j<=J} b_l^j mu_j / j! + (-1)^(k-1) (k-1) + sum_{l = k mod 2} C(k,l) R_l   (S30)
    R_l = sum_{j>J} b_l^j / j!
    B_k = M_k for even k, sqrt(M_{k-1} M_{k+1}) for odd k                                                       (S31)
    F_k = (lambda-1) lambda^(k-1) B_k (c_k + Lambda_k(lambda)),   c_k = 3 for odd k, 4 or 2^k for even k          (S24)
    A   = log(1 + q^2 lead + sum_{k=3}^{m-1} q^k F_k / k! + E)                                                  (S33)

**Nothing cancels here.** ``[x(x-1)]^j = sum_k G(j,k) x(x-1)...(x-k+1)`` with whole numbers ``G(0,0) = 1``, ``G(j+1,k)
= G(j,k-2) + 2(k-1) G(j,k-1) + k(k-1) G(j,k)``, and an alternating binomial sum takes the k-th falling factorial to
k!, so

    sum_l (-1)^(k-l) C(k,l) b_l^j + ... = (r^2/2)^j k! G(j,k) >= 0,

and every quantity above is a sum of products of positive numbers: doubles give it to about 1e-13 of itself, and the
result is raised by more. In alternating form, doubles lose every digit of M_6 at r = .02 and understate epsilon
(.09986 for .1). All coefficients in r are positive, so the bound grows with r; each further J replaces a tail term by
a smaller one.

**The even constant.** (S24) prints c_k = 4 for even k. The term it bounds is ``(X - Y)^k`` with E X^k, E Y^k <= M_k,
hence 2^k M_k, and 4 is enough for k = 2 alone: exact coefficients exceed the printed bound by up to 3.6 at k = 4.
``"fixed"`` uses 2^k; ``"printed"`` reproduces the document's numbers (the total (S22) was never seen to fail, and was
not proved).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from psephos.privacy.rdp import ROUNDING
from psephos.privacy.subsampled import SubsampledGaussian, Weight

__all__ = ["series_log_moments_upper"]

Array = NDArray[np.float64]

_LEAST = 1e-307  # what underflows is more than nothing


def series_log_moments_upper(
    step: SubsampledGaussian, *, highest_order: int, even_constant: str, moments: int, expansion: int
) -> Array:
    """A_{J,lambda,m}(q) for the orders lambda = 2, ..., ``highest_order``, rounded up; ``inf`` where it overflows.

    Parameters
    ----------
    step
        The step, with probability q < 1.
    highest_order
        Whole number >= 2.
    even_constant
        ``"fixed"`` or ``"printed"``.
    moments
        J >= 1, the truncation order of the moment series.
    expansion
        m >= 3, the order of the Taylor expansion in q.

    >>> from psephos.privacy.subsampled import BetaWeight
    >>> step = SubsampledGaussian(probability=0.1, shift=0.2, weight=BetaWeight(0.9, 17.1))
    >>> series_log_moments_upper(step, highest_order=4, even_constant="fixed", moments=32, expansion=5).shape
    (3,)
    """
    q, r, m = step.probability, step.shift, expansion
    if r == 0:
        return np.zeros(highest_order - 1)
    orders = np.arange(2, highest_order + 1, dtype=np.float64)
    log_q = math.log(q)
    log_mean = _log_means(r, step.weight, moments, highest_order + m + 1)
    k = np.arange(log_mean.size)
    log_bound = log_mean.copy()  # B_k
    odd = k[3:-1:2]
    log_bound[odd] = (log_mean[odd - 1] + log_mean[odd + 1]) / 2
    parts = [2 * log_q + _log_lead(r, step.weight, moments) + np.log(2 * orders * (orders - 1))]
    for degree in range(3, m):
        constant = 3.0 if degree % 2 else 4.0 if even_constant == "printed" else 2.0**degree
        parts.append(
            degree * log_q
            - special.gammaln(degree + 1)
            + np.log(orders - 1)
            + (degree - 1) * np.log(orders)
            + log_bound[degree]
            + np.log(constant + _deviations(degree, orders))
        )
    parts.extend(_log_remainder(q, m, orders, log_bound))
    # Doubles carry logs of a few thousand to about 1e-12; ten times that is given away.
    return np.maximum(np.logaddexp(0, special.logsumexp(np.stack(parts), axis=0) + ROUNDING), _LEAST)


def _log_lead(r: float, weight: Weight, moments: int) -> float:
    """log of E sinh(r^2 u^2), bounded by (S29): mu_(2j+1) up to J, 1 beyond."""
    j = np.arange(moments + 1 + 60 + int(2 * min(r, 40.0) ** 2))
    terms = (4 * j + 2) * math.log(r) - special.gammaln(2 * j + 2)
    terms[: moments + 1] += weight.log_even_moments(2 * moments + 2)[1::2]
    if r > 40:
        return math.inf
    return float(special.logsumexp(terms))


def _log_means(r: float, weight: Weight, moments: int, highest: int) -> Array:
    """log of the bound (S30) on E M_k for k = 0, ..., highest (-inf below 2)."""
    j = np.arange(moments + 1)
    powers = 2 * j * math.log(r) - j * math.log(2) + weight.log_even_moments(moments + 1)
    table = _log_coefficients(moments)
    partial = np.full(highest + 1, -np.inf)
    reach = min(highest, table.shape[1] - 1)
    with np.errstate(divide="ignore"):
        partial[2 : reach + 1] = special.logsumexp(table[:, 2 : reach + 1] + powers[:, None], axis=0)
    orders = np.arange(highest + 1)
    tails = _log_exponential_tails(np.maximum(orders * (orders - 1), 0) * (r * r / 2), moments)
    with np.errstate(invalid="ignore"):
        tail = special.logsumexp(_log_same_parity_binomials(highest) + tails[None, :], axis=1)
    return np.asarray(np.logaddexp(partial, tail))


@lru_cache(maxsize=8)
def _log_coefficients(moments: int) -> Array:
    """log(k! G(j, k) / j!) for j = 0..J, k = 0..2J, from whole numbers; -inf where G is 0."""
    width = 2 * moments + 1
    table = np.full((moments + 1, width), -np.inf)
    row = [1] + [0] * (width - 1)
    for j in range(moments + 1):
        for k, value in enumerate(row):
            if value:
                table[j, k] = math.log(value) + math.lgamma(k + 1) - math.lgamma(j + 1)
        row = [
            (row[k - 2] if k > 1 else 0) + 2 * (k - 1) * (row[k - 1] if k else 0) + k * (k - 1) * row[k]
            for k in range(width)
        ]
    table.setflags(write=False)
    return table


@lru_cache(maxsize=4)
def _log_same_parity_binomials(highest: int) -> Array:
    """log C(k, l) for l = k, k-2, ... >= 2; -inf elsewhere."""
    k = np.arange(highest + 1.0)
    with np.errstate(invalid="ignore"):
        logs = (
            special.gammaln(k + 1)[:, None]
            - special.gammaln(k + 1)[None, :]
            - special.gammaln(k[:, None] - k[None, :] + 1)
        )
    wanted = (k[None, :] >= 2) & (k[None, :] <= k[:, None]) & ((k[:, None] - k[None, :]) % 2 == 0)
    return np.where(wanted, logs, -np.inf)


def _log_exponential_tails(b: Array, moments: int) -> Array:
    """log of the sum of b^j/j! over j > J, summed as it stands; e^b, a little more, where b is far above J."""
    count = 3 * moments + 200
    j = np.arange(moments + 1, moments + 1 + count)
    far = b > 2 * moments + 60
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(far, 1.0, b))
    with np.errstate(invalid="ignore"):
        terms = np.where(b[:, None] > 0, j[None, :] * logs[:, None] - special.gammaln(j + 1)[None, :], -np.inf)
    return np.asarray(np.where(far, b, special.logsumexp(terms, axis=1)))


def _deviations(degree: int, orders: Array) -> Array:
    """Lambda_k(lambda) of (S24)."""
    total = np.zeros_like(orders)
    for j in range(degree + 1):
        product = orders / (orders - 1)
        for i in range(j):
            product = product * (1 - i / orders)
        for i in range(degree - j):
            product = product * (1 + (i - 1) / orders)
        total += math.comb(degree, j) * np.abs(product - 1)
    return total


def _log_remainder(q: float, m: int, orders: Array, log_bound: Array) -> list[Array]:
    """The parts of E of (S25)-(S26), as logs: one for each j, at the integer orders 2, 3, ..."""
    highest = int(orders[-1])
    log_q, log_rest = math.log(q), math.log1p(-q)
    # S(N) = sum_{l<=N} q^l N! m! / ((N-l)! (m+l)!) B_{m+l}, for N = lambda - j
    n = np.arange(highest + 1.0)
    order, index = n[:, None], n[None, :]
    with np.errstate(invalid="ignore"):
        logs = (
            index * log_q
            + special.gammaln(order + 1)
            + special.gammaln(m + 1)
            - special.gammaln(np.maximum(order - index, 0) + 1)
            - special.gammaln(m + index + 1)
            + log_bound[m : m + highest + 1][None, :]
        )
    sums = special.logsumexp(np.where(index <= order, logs, -np.inf), axis=1)
    parts = []
    for j in range(m + 1):
        # prod_{l<j} |lambda - l| vanishes for j > lambda
        first = special.gammaln(orders + 1) - special.gammaln(np.maximum(orders - j, 0) + 1)
        second = special.gammaln(orders + m - j - 1) - special.gammaln(orders - 1)
        theta = np.where(
            orders > j,
            np.logaddexp(log_bound[m], sums[np.maximum(orders - j, 0).astype(np.intp)]),
            log_bound[m],
        )
        part = (
            m * log_q
            - special.gammaln(m + 1)
            + math.log(math.comb(m, j))
            - (orders + m - j - 1) * log_rest
            + first
            + second
            + theta
        )
        parts.append(np.where(orders >= j, part, -np.inf))
    return parts

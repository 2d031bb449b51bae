"""Noise-aware Gibbs sampling for linear regression: noisy sums are released, and the true sums are latent variables.

**Release.** A record is (x, y) with x clipped to the box [-1, 1]^p and y to [-B, B]. Three blocks are released, each a
sum of products of a record's coordinates plus normal noise:

===============  ========================================  ==============================================  =========
block            sums of                                   replace-one l2 sensitivity                      share
===============  ========================================  ==============================================  =========
statistics       x_i x_j (i <= j), x_i y, y^2              ``2 sqrt(p (p + 1) / 2 + p B^2 + B^4)``         1/2
second moments   x_i x_j (i <= j), divided by n            ``2 sqrt(p (p + 1) / 2) / n``                   1/4
fourth moments   x_i x_j x_k x_l (i <= ... <= l), by n     ``2 sqrt(binom(p + 3, 4)) / n``                 1/4
===============  ========================================  ==============================================  =========

Every coordinate is rounded to a multiple of 2^-10 within its bound (B is rounded down to one), products are integers
in units of 2^-20 and 2^-40, their sums are exact, and the noise is a rounded normal integer. A product of whole numbers
within [-K, K] lies within [-K^2, K^2], so the sensitivities hold for the integers as they stand.

**Model.** y | x ~ N(x'theta, s2). With u the vector of x_i x_j (i <= j) and v = (x y, y^2), define G(theta) with p + 1
rows by ``G u = (x x'theta, (x'theta)^2)``. Then, with m2 = E[u], C = Cov[u], M = E[x x'],

    E[v | x] = G u + (0, s2),    E[Cov[v | x]] = s2 E(theta),
    E(theta) = [[M, 2 M theta], [2 theta'M, 4 theta'M theta + 2 s2]],
    Cov[(u, v)] = [[C, C G'], [G C, G C G' + s2 E]].

The latent sums t = (U, V) of n records get the normal law with n times this mean and covariance: equations (2) and (3)
of Bernstein and Sheldon (2019) in factored form, positive semidefinite wherever C and M are. The noisy m2 and fourth
moments need not be a moment matrix, so M is projected to eigenvalues of at least 1/n, and C to nonnegative ones, once
and before the chain.

**Sampler.** One step draws

1. t given the noisy statistics z = t + N(0, sigma^2) and (theta, s2). A draw (t0, z0) of the joint law is corrected by
   the regression of t on z: ``t = t0 + n Sigma (n Sigma + sigma^2)^-1 (z - z0)``. Elimination of U, whose covariance
   n C never changes, leaves one system of size p + 1 a step;
2. (theta, s2) given t: the conjugate posterior with prior ``theta | s2 ~ N(0, s2 / precision)`` and
   ``s2 ~ InverseGamma(shape, scale)``.

True statistics have a positive definite Gram matrix (X'X with the prior's precision added, X'y, y'y), and the normal
approximation does not know that: a draw without it is refused, and the last one with it stays. That is an
independence Metropolis step for the approximation restricted to such statistics.

Sources: Bernstein and Sheldon (2019), "Differentially private Bayesian linear regression"; as a rival in "Private
Generative Bootstrap via Blocking", sections 5.1, S3.1 and S3.2. That document states neither B nor the priors. B = 5
gives the widths of its table S2 within about 1% (4 and 6 miss them by 17 to 39%). The prior of s2 was chosen by the
width at n = 10,000 and epsilon = 1, where y'y hardly tells s2 from the coefficients' length. There the document's
errors are smaller and its coverage is higher than those of this sampler, which takes the noisy moments as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from numpy.typing import ArrayLike, NDArray

from psephos._check import Exact, check_integer, check_real, positive
from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.loss_protocol import finite_numbers
from psephos.errors import ParameterError
from psephos.privacy import (
    BitSource,
    ComposedGaussianEvent,
    Release,
    RoundedGaussianEvent,
    SystemBits,
    is_secure,
)
from psephos.privacy.samplers import rounded_gaussian_array
from rivals.noisy_gibbs_expfam import Noise, guarantee_of, noise_scales

__all__ = [
    "IntegerStatistics",
    "NoisyStatistics",
    "RegressionPrior",
    "gibbs_regression",
    "integer_statistics",
    "release_noisy_statistics",
    "sample_noisy_gibbs_regression",
    "squared_sensitivities",
    "statistic_moments",
]

Floats = NDArray[np.float64]

_UNIT = 2**10  # steps of the grid in 1
_MOST = 2**20  # of the response bound: squares of 2^30 steps, whose sums are taken in two halves
_SHARES = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionPrior:
    """The normal-inverse-gamma prior of the coefficients and the residual variance s2.

    Attributes
    ----------
    precision
        ``theta | s2 ~ N(0, s2 / precision)``, > 0.
    shape, scale
        ``s2 ~ InverseGamma(shape, scale)``, both > 0.
    """

    precision: float = 0.01
    shape: float = 2.0
    scale: float = 2.0

    def __post_init__(self) -> None:
        for name in ("precision", "shape", "scale"):
            value = getattr(self, name)
            if not check_real(value, name, low=0, high=1e300) > 0:
                raise ParameterError(f"{name} must be > 0, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerStatistics:
    """Exact sums over records, as Python integers. Not private.

    Attributes
    ----------
    statistics
        x_i x_j (i <= j), x_i y, y^2 in units of 2^-20.
    second, fourth
        x_i x_j (i <= j) in units of 2^-20, x_i x_j x_k x_l (i <= ... <= l) in units of 2^-40.
    """

    statistics: tuple[int, ...]
    second: tuple[int, ...]
    fourth: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyStatistics:
    """Released statistics of a regression, as numbers.

    Attributes
    ----------
    statistics
        ``(p (p + 1) / 2 + p + 1,)``: noisy sums of x_i x_j (i <= j, by rows), x_i y, y^2.
    second, fourth
        Noisy means of x_i x_j (i <= j) and x_i x_j x_k x_l (i <= j <= k <= l), by rows.
    sigma
        Standard deviation of the noise of ``statistics``; that of the moments enters nowhere, they are taken as they
        are.
    count, covariates
        n and p, public.
    """

    statistics: Floats
    second: Floats
    fourth: Floats
    sigma: float
    count: int
    covariates: int


def integer_statistics(records: tuple[ArrayLike, ArrayLike], *, response_bound: Exact) -> IntegerStatistics:
    """The exact sums that the release adds noise to. Not private.

    Parameters
    ----------
    records
        x ``(n, p)``, clipped to [-1, 1], and y ``(n,)``, clipped to [-B, B].
    response_bound
        B, from 2^-10 to 2^20.

    >>> exact = integer_statistics(([[0.5], [-2.0]], [1.0, 3.0]), response_bound=2)
    >>> [number / 2**20 for number in exact.statistics], [number / 2**40 for number in exact.fourth]
    ([1.25, -1.5, 5.0], [1.0625])
    """
    x, y = _checked(records)
    limit = _response_steps(response_bound)
    columns = [_steps(x[:, i], _UNIT) for i in range(x.shape[1])]
    response = _steps(y, limit)
    pairs = {pair: columns[pair[0]] * columns[pair[1]] for pair in _combinations(len(columns), 2)}
    second = tuple(_exact_sum(product) for product in pairs.values())
    cross = tuple(_exact_sum(column * response) for column in columns)
    fourth = tuple(_exact_sum(pairs[i, j] * pairs[k, m]) for i, j, k, m in _combinations(len(columns), 4))
    return IntegerStatistics(
        statistics=(*second, *cross, _exact_sum(response * response)), second=second, fourth=fourth
    )


def squared_sensitivities(covariates: int, *, response_bound: Exact) -> tuple[Fraction, Fraction, Fraction]:
    """Squared replace-one l2 sensitivities of the three blocks of :class:`IntegerStatistics`, in their units.

    A block of products within [-c_i, c_i] lies in a ball of radius ``sqrt(sum c_i^2)`` for each record, and two points
    of it are at most twice that apart.

    >>> first, second, fourth = squared_sensitivities(3, response_bound=5)
    >>> float(first) / 2**40, float(second) / 2**40, float(fourth) / 2**80
    (2824.0, 24.0, 60.0)
    """
    p, unit, limit = check_integer(covariates, "covariates", low=1), _UNIT, _response_steps(response_bound)
    pairs, quadruples = p * (p + 1) // 2, math.comb(p + 3, 4)
    first = pairs * unit**4 + p * unit**2 * limit**2 + limit**4
    return Fraction(4 * first), Fraction(4 * pairs * unit**4), Fraction(4 * quadruples * unit**8)


def release_noisy_statistics(
    records: tuple[ArrayLike, ArrayLike],
    *,
    response_bound: Exact,
    epsilon: Exact,
    delta: Exact,
    noise: Noise = "analytic",
    bits: BitSource | None = None,
) -> Release[NoisyStatistics]:
    """The three blocks under Gaussian mechanisms that share the budget 1/2, 1/4, 1/4; replace-one adjacency.

    Parameters
    ----------
    records
        x ``(n, p)`` and y ``(n,)``, one row a person. Records outside of the bounds are clipped to them.
    response_bound
        B, public, from 2^-10 to 2^20.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    noise
        ``analytic``: the three together have exactly the Gaussian curve that touches (epsilon, delta). ``classical``:
        the source document's, whose guarantee is computed from the noise.
    bits
        Of the noise; those of the operating system if absent.

    Raises
    ------
    ParameterError
        for a parameter out of its range, or arrays whose shapes do not fit.

    >>> x = np.zeros((100, 1))
    >>> release = release_noisy_statistics((x, x[:, 0]), response_bound=1, epsilon=1, delta="1e-5", noise="classical")
    >>> round(release.value.sigma, 2), float(release.guarantee.epsilon)
    (34.54, 0.422072926)
    """
    source = SystemBits() if bits is None else bits
    x, y = _checked(records)
    count, p = x.shape
    squares = squared_sensitivities(p, response_bound=response_bound)
    scales = noise_scales(squares, shares=_SHARES, epsilon=epsilon, delta=delta, noise=noise)
    exact = integer_statistics((x, y), response_bound=response_bound)
    noisy = [
        np.array([number + int(z) for number, z in zip(sums, noises, strict=True)], dtype=np.float64)
        for sums, noises in (
            (block, rounded_gaussian_array(scale, len(block), source))
            for block, scale in zip((exact.statistics, exact.second, exact.fourth), scales, strict=True)
        )
    ]
    value = NoisyStatistics(
        statistics=noisy[0] / _UNIT**2,
        second=noisy[1] / _UNIT**2 / count,
        fourth=noisy[2] / _UNIT**4 / count,
        sigma=float(scales[0] / _UNIT**2),
        count=count,
        covariates=p,
    )
    event = ComposedGaussianEvent(
        parts=tuple(
            RoundedGaussianEvent(sigma=scale, sensitivity_squared=square)
            for scale, square in zip(scales, squares, strict=True)
        )
    )
    guarantee = guarantee_of(event, epsilon=epsilon, delta=delta, noise=noise)
    return Release(value=value, event=event, guarantee=guarantee, secure=is_secure(source))


def statistic_moments(theta: ArrayLike, variance: float, second: ArrayLike, fourth: ArrayLike) -> tuple[Floats, Floats]:
    """Mean and covariance of one record's (x_i x_j, x_i y, y^2) in the model, given the moments of x.

    Parameters
    ----------
    theta
        ``(p,)``.
    variance
        s2 >= 0.
    second, fourth
        E[x_i x_j] for i <= j and E[x_i x_j x_k x_l] for i <= ... <= l, by rows; used as they are.

    Returns
    -------
    mean ``(D,)`` and covariance ``(D, D)``, D = p (p + 1) / 2 + p + 1.

    >>> mean, covariance = statistic_moments([2.0], 1.0, [1.0], [3.0])
    >>> mean.tolist(), covariance.tolist()
    ([1.0, 2.0, 5.0], [[2.0, 4.0, 8.0], [4.0, 9.0, 20.0], [8.0, 20.0, 50.0]])
    """
    coefficients = np.asarray(theta, dtype=np.float64)
    p = coefficients.size
    m2 = np.asarray(second, dtype=np.float64)
    spread = _pair_covariance(p, m2, np.asarray(fourth, dtype=np.float64))
    moments = _symmetric(p, m2)
    rows = np.tensordot(_products(p), coefficients, axes=1)
    lift = np.vstack([np.eye(m2.size), rows, coefficients @ rows])
    mean = lift @ m2
    mean[-1] += variance
    covariance = lift @ spread @ lift.T
    pull = moments @ coefficients
    covariance[m2.size : -1, m2.size : -1] += variance * moments
    covariance[m2.size : -1, -1] += 2 * variance * pull
    covariance[-1, m2.size : -1] += 2 * variance * pull
    covariance[-1, -1] += variance * (4 * coefficients @ pull + 2 * variance)
    return mean, covariance


def gibbs_regression(
    statistics: NoisyStatistics | Sequence[NoisyStatistics],
    *,
    prior: RegressionPrior | None = None,
    draws: int,
    thin: int = 10,
    rng: np.random.Generator,
) -> Floats:
    """Draws of (theta, s2) given noisy statistics: post-processing of a release.

    The chain runs ``2 draws thin`` steps, forgets the first half and keeps every ``thin``-th of the rest.

    Parameters
    ----------
    statistics
        Of one release, or of several with the same p, whose chains run side by side in one compiled program.
    prior
        The weak one of :class:`RegressionPrior` if absent.
    draws, thin
        >= 1.
    rng
        Gives the chain its key.

    Returns
    -------
    ``(draws, p + 1)``, or ``(len(statistics), draws, p + 1)``: the p coefficients, then s2.

    Raises
    ------
    ParameterError
        for statistics of different widths, or a count below 1.

    >>> exact = NoisyStatistics(  # x on the corners of the box, y = x1 - x2 + N(0, 1)
    ...     statistics=np.array([400.0, 0, 400, 400, -400, 1200]),
    ...     second=np.array([1.0, 0, 1]),
    ...     fourth=np.array([1.0, 0, 1, 0, 1]),
    ...     sigma=0.0,
    ...     count=400,
    ...     covariates=2,
    ... )
    >>> values = gibbs_regression(exact, draws=500, rng=np.random.default_rng(1))
    >>> values.mean(axis=0).round(1).tolist(), values.std(axis=0).round(2).tolist()
    ([1.0, -1.0, 1.0], [0.05, 0.05, 0.07])
    """
    check_integer(draws, "draws", low=1)
    check_integer(thin, "thin", low=1)
    several = [statistics] if isinstance(statistics, NoisyStatistics) else list(statistics)
    if len({one.covariates for one in several}) != 1:
        raise ParameterError("statistics must be one or more with the same number of covariates")
    belief = RegressionPrior() if prior is None else prior
    with jax.enable_x64():
        chains = [_constants(one, belief) for one in several]
        batch = jax.tree.map(lambda *parts: jnp.stack(parts), *chains)
        keys = jax.random.split(jax.random.key(int(rng.integers(2**63))), len(several))
        values = np.asarray(_chains(batch, keys, several[0].covariates, draws, thin))
    return values[0] if isinstance(statistics, NoisyStatistics) else values


def sample_noisy_gibbs_regression(
    records: tuple[ArrayLike, ArrayLike],
    *,
    response_bound: Exact,
    epsilon: Exact,
    delta: Exact,
    noise: Noise = "analytic",
    prior: RegressionPrior | None = None,
    draws: int = 20_000,
    thin: int = 10,
    names: Sequence[str] | None = None,
    bits: BitSource | None = None,
    rng: np.random.Generator,
) -> Release[PosteriorDraws]:
    """Private posterior draws of a linear regression: :func:`release_noisy_statistics`, then :func:`gibbs_regression`.

    The defaults of ``draws`` and ``thin`` are the source document's 400,000 steps (S3.2), and ``noise="classical"`` is
    its noise.

    Parameters
    ----------
    records
        x ``(n, p)``, clipped to [-1, 1], and y ``(n,)``, clipped to the response bound; no intercept is added.
    response_bound, epsilon, delta, noise, bits
        As for :func:`release_noisy_statistics`.
    prior, draws, thin, rng
        As for :func:`gibbs_regression`.
    names
        Of the p coefficients; ``beta1`` to ``betap`` if absent.

    Returns
    -------
    Draws ``(draws, p + 1)`` of the coefficients and of ``residual_variance``.

    Raises
    ------
    ParameterError
        as the two functions do.

    >>> public = np.random.default_rng(1)
    >>> x = public.uniform(-1, 1, (5000, 2))
    >>> y = x @ [1.0, -1.0] + 0.5 * public.standard_normal(5000)
    >>> release = sample_noisy_gibbs_regression(
    ...     (x, y), response_bound=3, epsilon=4, delta="1e-4", draws=500, rng=np.random.default_rng(2)
    ... )
    >>> release.value.names, release.value.values.shape, release.secure
    (('beta1', 'beta2', 'residual_variance'), (500, 3), True)
    """
    check_integer(draws, "draws", low=1)
    check_integer(thin, "thin", low=1)
    x, y = _checked(records)
    labels = tuple(f"beta{i + 1}" for i in range(x.shape[1])) if names is None else tuple(names)
    if len(labels) != x.shape[1]:
        raise ParameterError(f"names must be one a covariate ({x.shape[1]}), got {len(labels)}")
    release = release_noisy_statistics(
        (x, y), response_bound=response_bound, epsilon=epsilon, delta=delta, noise=noise, bits=bits
    )
    values = gibbs_regression(release.value, prior=prior, draws=draws, thin=thin, rng=rng)
    return Release(
        value=PosteriorDraws(values=values, names=(*labels, "residual_variance")),
        event=release.event,
        guarantee=release.guarantee,
        secure=release.secure,
    )


def _constants(noisy: NoisyStatistics, prior: RegressionPrior) -> dict[str, Any]:
    """What the chain of one release needs and never changes, and where it starts."""
    p, n, noise = noisy.covariates, noisy.count, noisy.sigma**2
    pairs = p * (p + 1) // 2
    moments = _projected(_symmetric(p, noisy.second), 1 / n)
    m2 = moments[np.triu_indices(p)]
    roots, vectors = np.linalg.eigh(_pair_covariance(p, m2, noisy.fourth))
    spread = n * np.maximum(roots, 0)  # eigenvalues of n C
    gain = np.where(spread + noise > 0, spread / np.where(spread + noise > 0, spread + noise, 1), 1)
    # Any start inside will do: X'X as the moments have it, with the noisy X'y and y'y, made a Gram matrix.
    gram = np.zeros((p + 1, p + 1))
    gram[:p, :p] = n * moments
    gram[p] = gram[:, p] = noisy.statistics[pairs:]
    gram = _projected(gram, n * 1e-6)
    theta = np.linalg.solve(gram[:p, :p], gram[:p, p])
    return {
        "count": np.float64(n),
        "sigma": np.float64(noisy.sigma),
        "noisy_u": noisy.statistics[:pairs],
        "noisy_v": noisy.statistics[pairs:],
        "mean_u": n * m2,
        "moments": moments,
        "moments_root": np.linalg.cholesky(moments),
        "u_root": vectors * np.sqrt(spread),
        "gain": (vectors * gain) @ vectors.T,
        "rest": (vectors * (spread * (1 - gain))) @ vectors.T,
        "precision": np.float64(prior.precision),
        "shape": np.float64(prior.shape + n / 2),
        "scale": np.float64(prior.scale),
        "start": (
            gram[:p, :p][np.triu_indices(p)],
            gram[p],
            theta,
            max(gram[p, p] - gram[p, :p] @ theta, n * 1e-6) / n,
        ),
    }


@partial(jax.jit, static_argnums=(2, 3, 4))
def _chains(batch: Any, keys: Any, p: int, draws: int, thin: int) -> Any:
    return jax.vmap(lambda constants, key: _chain(constants, key, p, draws, thin))(batch, keys)


def _chain(constants: Any, key: Any, p: int, draws: int, thin: int) -> Any:
    """``(draws, p + 1)`` of one chain. Random numbers are drawn ``thin`` steps at a time."""
    pairs = p * (p + 1) // 2
    ends = np.cumsum([pairs, p + 1, pairs, p + 1])

    def step(state: Any, randomness: Any) -> tuple[Any, None]:
        parts, theta, variance = state
        normals, gamma = randomness
        *latent, theta_normals = jnp.split(normals, ends)
        new = _gram_parts(*_latent_draw(constants, theta, variance, latent), constants["precision"])
        good = new[-1] > 0  # False for the NaN of a failed factorisation too
        root, half, excess = (jnp.where(good, a, b) for a, b in zip(new, parts, strict=True))
        variance = (constants["scale"] + excess / 2) / gamma
        theta = solve_triangular(root, half + jnp.sqrt(variance) * theta_normals, lower=True, trans=1)
        return ((root, half, excess), theta, variance), None

    def block(state: Any, key: Any) -> tuple[Any, Any]:
        normal_key, gamma_key = jax.random.split(key)
        normals = jax.random.normal(normal_key, (thin, int(ends[-1]) + p), dtype=jnp.float64)
        gammas = jax.random.gamma(gamma_key, constants["shape"], (thin,), dtype=jnp.float64)
        state, _ = jax.lax.scan(step, state, (normals, gammas))
        return state, jnp.append(state[1], state[2])

    u, v, theta, variance = constants["start"]
    start = (_gram_parts(u, v, constants["precision"]), theta, variance)
    return jax.lax.scan(block, start, jax.random.split(key, 2 * draws))[1][draws:]


def _latent_draw(constants: Any, theta: Any, variance: Any, normals: Any) -> tuple[Any, Any]:
    """The sums U (as a vector) and V given the noisy ones, theta and s2."""
    u_normals, v_normals, u_noise, v_noise = normals
    n, sigma, moments, root = constants["count"], constants["sigma"], constants["moments"], constants["moments_root"]
    p = theta.size
    rows = jnp.asarray(_products(p)) @ theta
    lift = jnp.vstack([rows, theta @ rows])
    # The part of V that U does not determine: its mean (0, n s2), and a square root of its covariance n s2 E.
    mean_v = jnp.append(jnp.zeros(p), n * variance)
    deviation = jnp.sqrt(variance) * root @ v_normals[:p]
    above = 2 * theta @ deviation + jnp.sqrt(2.0) * variance * v_normals[p]
    own_v = mean_v + jnp.sqrt(n) * jnp.append(deviation, above)
    pull = moments @ theta
    corner = 4 * theta @ pull + 2 * variance
    own_covariance = n * variance * jnp.block([[moments, 2 * pull[:, None]], [2 * pull[None], corner[None, None]]])
    # (t0, z0) of the joint law, then the correction; K and the covariance of U given its noisy value are constant.
    u = constants["mean_u"] + constants["u_root"] @ u_normals
    v = lift @ u + own_v
    u_gap = constants["gain"] @ (constants["noisy_u"] - u - sigma * u_noise)
    v_gap = constants["noisy_v"] - v - sigma * v_noise - lift @ u_gap
    system = lift @ constants["rest"] @ lift.T + own_covariance + sigma**2 * jnp.eye(p + 1)
    weights = cho_solve((jnp.linalg.cholesky(system), True), v_gap)
    u_change = u_gap + constants["rest"] @ (lift.T @ weights)
    return u + u_change, v + lift @ u_change + own_covariance @ weights


def _gram_parts(u: Any, v: Any, precision: Any) -> tuple[Any, Any, Any]:
    """L of X'X + precision = L L', L^-1 X'y, and y'y - |L^-1 X'y|^2."""
    p = v.size - 1
    gram = jnp.zeros((p, p)).at[np.triu_indices(p)].set(u)
    gram = gram + jnp.triu(gram, 1).T + precision * jnp.eye(p)
    root = jnp.linalg.cholesky(gram)
    half = solve_triangular(root, v[:p], lower=True)
    return root, half, v[p] - half @ half


@cache
def _combinations(p: int, size: int) -> tuple[tuple[int, ...], ...]:
    """Indices i <= j <= ... of products of ``size`` covariates, by rows."""
    return tuple(combinations_with_replacement(range(p), size))


@cache
def _products(p: int) -> Floats:
    """``(p, p (p + 1) / 2, p)``: times theta, the matrix that takes the x_i x_j (i <= j) to x x'theta."""
    table = np.zeros((p, p * (p + 1) // 2, p))
    for place, (i, j) in enumerate(_combinations(p, 2)):
        table[i, place, j] = table[j, place, i] = 1
    return table


def _pair_covariance(p: int, second: Floats, fourth: Floats) -> Floats:
    """Covariance of the x_i x_j (i <= j), from moments."""
    place = {quadruple: k for k, quadruple in enumerate(_combinations(p, 4))}
    pairs = _combinations(p, 2)
    products = [[fourth[place[tuple(sorted((*a, *b)))]] for b in pairs] for a in pairs]
    return np.asarray(np.array(products) - np.outer(second, second))


def _symmetric(p: int, upper: Floats) -> Floats:
    """The symmetric matrix with this upper triangle, by rows."""
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p)] = upper
    return matrix + np.triu(matrix, 1).T


def _projected(matrix: Floats, floor: float) -> Floats:
    """The nearest symmetric matrix with eigenvalues of at least ``floor``."""
    roots, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(roots, floor)) @ vectors.T)


def _checked(records: tuple[ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    x, y = (finite_numbers(np.asarray(part, dtype=np.float64)) for part in records)
    if x.ndim != 2 or not x.size or y.shape != x.shape[:1]:
        raise ParameterError(f"records must be x (n, p) and y (n,), not empty, got shapes {x.shape} and {y.shape}")
    return x, y


def _response_steps(response_bound: Exact) -> int:
    bound = positive(response_bound, "response_bound")
    if not Fraction(1, _UNIT) <= bound <= _MOST:
        raise ParameterError(f"response_bound must be >= 2**-10 and <= 2**20, got {response_bound!r}")
    return math.floor(bound * _UNIT)


def _steps(values: Floats, limit: int) -> NDArray[np.int64]:
    """Values as whole steps of 2^-10, clipped to [-limit, limit]."""
    return np.rint(np.clip(values, -limit / _UNIT, limit / _UNIT) * _UNIT).astype(np.int64)


def _exact_sum(values: NDArray[np.int64]) -> int:
    """The sum of numbers below 2^62, in two halves, so that it cannot wrap."""
    return (int((values >> 31).sum()) << 31) + int((values & (2**31 - 1)).sum())

"""Noise-aware Gibbs sampling for a mean: a noisy sum is released, and the true sum is a latent variable.

**Release.** Records are clipped to a public interval [a, b] and rounded to ``a + k (b - a) / 2^20`` with k a whole
number from 0 to 2^20. The k are added as integers and get one rounded normal variable. Replacing a record moves the
sum of the k by at most 2^20, so the release is the Gaussian mechanism of sensitivity ``Delta = b - a``, and everything
below is post-processing.

**Sampler.** The observed sum is z = s + N(0, sigma^2) with the true sum s unknown. One step draws

1. s given z and theta: by the central limit theorem s ~ N(n m(theta), n v(theta)) with m and v the model's mean and
   variance, so s given z is normal with mean ``n m + K (z - n m)`` and variance ``K sigma^2``,
   ``K = n v / (n v + sigma^2)``, restricted to [n a, n b], where every sum lies;
2. theta given s: the conjugate posterior, which sees the data through s alone.

m and v are those of the unclipped model; clipping that cuts off more than a sliver of it biases the draws.

**Noise.** ``analytic`` is the least normal noise that is (epsilon, delta)-private. ``classical`` is
``Delta sqrt(2 ln(1.25/delta)) / epsilon``, which proves what it claims only for epsilon <= 1. It is kept because
published comparisons use it, and its guarantee is not the one it was asked for, but the one that the noise gives
(:func:`psephos.privacy.epsilon_of`), less or more than ``epsilon``.

Sources: Bernstein and Sheldon (2018), "Differentially private Bayesian inference for exponential families", section 3;
as a rival in "Private Generative Bootstrap via Blocking", sections 5.2, S3.1 and S3.2. That document states no priors;
these are weak: N(0, 100^2) for a normal mean, Gamma(1, 1) for an exponential rate. Its table of effective sample sizes
(S7) agrees with the lag-one correlation ``sigma^2 / (n v + sigma^2)`` of this chain under a flat prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from psephos._check import Exact, check_choice, check_integer, check_real, exact, parse_delta, parse_epsilon
from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.loss_protocol import finite_numbers
from psephos.bootstrap.train import ONE_RECORD, PUBLIC_SETTINGS
from psephos.errors import ParameterError
from psephos.privacy import (
    BitSource,
    ComposedGaussianEvent,
    Guarantee,
    Release,
    RoundedGaussianEvent,
    SystemBits,
    epsilon_of,
    is_secure,
)
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.samplers import rounded_gaussian_array

__all__ = [
    "ExponentialMean",
    "GaussianMean",
    "Noise",
    "NoisySum",
    "gibbs_mean",
    "integer_sum",
    "release_noisy_sum",
    "sample_noisy_gibbs_mean",
]

Floats = NDArray[np.float64]

#: How noise is scaled: the least that gives the guarantee, or the textbook formula.
Noise = Literal["analytic", "classical"]

_STEPS = 2**20  # of the grid between the data bounds
_DECIMALS = 10**9  # a re-accounted epsilon is rounded up to nine decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMean:
    """Normal records of known standard deviation; the mean has a normal prior.

    Attributes
    ----------
    sd
        Of one record, > 0.
    prior_mean, prior_sd
        Of the mean.
    """

    sd: float
    prior_mean: float = 0.0
    prior_sd: float = 100.0

    def __post_init__(self) -> None:
        _check_positive(self.sd, "sd")
        check_real(self.prior_mean, "prior_mean", low=-1e300, high=1e300)
        _check_positive(self.prior_sd, "prior_sd")

    def start(self, average: Floats) -> Floats:
        """The parameter at which the model's mean is ``average``."""
        return average

    def mean(self, theta: Floats) -> Floats:
        """E[X] at the parameter."""
        return theta

    def variance(self, theta: Floats) -> Floats:
        """Var[X] at the parameter."""
        return np.full_like(theta, self.sd**2)

    def posterior_draw(self, total: Floats, count: int, rng: np.random.Generator) -> Floats:
        """A draw of the parameter given the exact sum of ``count`` records, for each sum of an array."""
        precision = count / self.sd**2 + self.prior_sd**-2
        center = (total / self.sd**2 + self.prior_mean * self.prior_sd**-2) / precision
        return np.asarray(center + rng.standard_normal(total.shape) / math.sqrt(precision))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialMean:
    """Exponential records; the rate has a gamma prior, and the mean is its inverse.

    Attributes
    ----------
    prior_shape, prior_rate
        Both > 0; the prior counts as ``prior_shape`` records that add up to ``prior_rate``.
    """

    prior_shape: float = 1.0
    prior_rate: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.prior_shape, "prior_shape")
        _check_positive(self.prior_rate, "prior_rate")

    def start(self, average: Floats) -> Floats:
        """The parameter at which the model's mean is ``average``."""
        return np.asarray(1 / average)

    def mean(self, theta: Floats) -> Floats:
        """E[X] at the parameter."""
        return np.asarray(1 / theta)

    def variance(self, theta: Floats) -> Floats:
        """Var[X] at the parameter."""
        return np.asarray(theta**-2.0)

    def posterior_draw(self, total: Floats, count: int, rng: np.random.Generator) -> Floats:
        """A draw of the parameter given the exact sum of ``count`` records, for each sum of an array."""
        return np.asarray(rng.gamma(self.prior_shape + count, size=total.shape) / (self.prior_rate + total))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySum:
    """A released sum.

    Attributes
    ----------
    total
        Sum of the clipped records plus noise, in their units.
    sigma
        Standard deviation of the noise, in the same units.
    count
        n, public under replace-one adjacency.
    bounds
        (a, b), public.
    """

    total: float
    sigma: float
    count: int
    bounds: tuple[float, float]


def integer_sum(records: ArrayLike, *, data_bounds: tuple[Exact, Exact]) -> int:
    """The exact sum of the records' places on the grid of 2^20 steps between the bounds. Not private.

    Replacing one record by any other moves it by at most 2^20.

    >>> integer_sum([-7.0, 0.0, 5.0], data_bounds=(-5, 5)) / 2**20
    1.5
    """
    low, high = _bounds(data_bounds)
    a, b = float(low), float(high)
    places = np.rint((np.clip(_finite(records, "records", 1), a, b) - a) / (b - a) * _STEPS)
    return int(np.clip(places, 0, _STEPS).astype(np.int64).sum())


def release_noisy_sum(
    records: ArrayLike,
    *,
    data_bounds: tuple[Exact, Exact],
    epsilon: Exact,
    delta: Exact,
    noise: Noise = "analytic",
    bits: BitSource | None = None,
) -> Release[NoisySum]:
    """The sum of clipped records under the Gaussian mechanism, replace-one adjacency.

    Parameters
    ----------
    records
        ``(n,)``, one a person. Records outside the bounds are clipped to them.
    data_bounds
        (a, b), public, a < b.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    noise
        ``analytic``, or ``classical``, whose guarantee is computed from the noise.
    bits
        Of the noise; those of the operating system if absent.

    Raises
    ------
    ParameterError
        for a parameter out of its range.

    >>> release = release_noisy_sum([1.0, 2.0], data_bounds=(0, 4), epsilon=1, delta="1e-5")
    >>> round(release.value.sigma, 3), release.guarantee.epsilon
    (14.923, Fraction(1, 1))
    """
    source = SystemBits() if bits is None else bits
    low, high = _bounds(data_bounds)
    squares = (Fraction(_STEPS) ** 2,)
    (scale,) = noise_scales(squares, shares=(Fraction(1),), epsilon=epsilon, delta=delta, noise=noise)
    values = _finite(records, "records", 1)
    total = integer_sum(values, data_bounds=(low, high)) + int(rounded_gaussian_array(scale, 1, source)[0])
    step = (high - low) / _STEPS
    event = RoundedGaussianEvent(sigma=scale, sensitivity_squared=squares[0])
    value = NoisySum(
        total=float(low * values.size + step * total),
        sigma=float(scale * step),
        count=values.size,
        bounds=(float(low), float(high)),
    )
    guarantee = guarantee_of(event, epsilon=epsilon, delta=delta, noise=noise)
    return Release(value=value, event=event, guarantee=guarantee, secure=is_secure(source))


def gibbs_mean(
    sums: NoisySum | Sequence[NoisySum],
    *,
    family: GaussianMean | ExponentialMean,
    draws: int,
    thin: int = 2,
    rng: np.random.Generator,
) -> Floats:
    """Draws of E[X] given noisy sums: post-processing of a release.

    The chain runs ``2 draws thin`` steps, forgets the first half and keeps every ``thin``-th of the rest.

    Parameters
    ----------
    sums
        One noisy sum, or several of the same count, noise and bounds, whose chains run side by side.
    family
        The model with its prior.
    draws, thin
        >= 1.
    rng
        Of the chain.

    Returns
    -------
    ``(draws,)``, or ``(len(sums), draws)``.

    >>> noisy = NoisySum(total=30.0, sigma=0.0, count=20, bounds=(-5.0, 5.0))
    >>> family = GaussianMean(sd=0.5)
    >>> values = gibbs_mean(noisy, family=family, draws=1000, rng=np.random.default_rng(1))
    >>> round(float(values.mean()), 2), round(float(values.std()), 2)
    (1.49, 0.11)
    """
    check_integer(draws, "draws", low=1)
    check_integer(thin, "thin", low=1)
    several = [sums] if isinstance(sums, NoisySum) else list(sums)
    if len({(one.count, one.sigma, one.bounds) for one in several}) != 1:
        raise ParameterError("sums must be one or more of the same count, sigma and bounds")
    count, sigma, (low, high) = several[0].count, several[0].sigma, several[0].bounds
    if isinstance(family, ExponentialMean) and low < 0:
        raise ParameterError(f"bounds of exponential records must be >= 0, got {(low, high)}")
    observed = np.array([one.total for one in several])
    # A sum of next to nothing is no start for a rate.
    theta = family.start(np.clip(observed / count, low + (high - low) / 1000, high))
    kept = np.empty((len(several), draws))
    for step in range(2 * draws * thin):
        center, spread = count * family.mean(theta), count * family.variance(theta)
        gain = spread / (spread + sigma**2)
        middle, sd = center + gain * (observed - center), np.sqrt(gain) * sigma
        total = _between(middle, sd, count * low, count * high, rng)
        theta = family.posterior_draw(total, count, rng)
        place, rest = divmod(step + 1 - draws * thin, thin)
        if place > 0 and rest == 0:
            kept[:, place - 1] = family.mean(theta)
    return kept[0] if isinstance(sums, NoisySum) else kept


def sample_noisy_gibbs_mean(
    records: ArrayLike,
    *,
    family: GaussianMean | ExponentialMean,
    data_bounds: tuple[Exact, Exact],
    epsilon: Exact,
    delta: Exact,
    noise: Noise = "analytic",
    draws: int = 1000,
    thin: int = 2,
    bits: BitSource | None = None,
    rng: np.random.Generator,
) -> Release[PosteriorDraws]:
    """Private posterior draws of E[X]: :func:`release_noisy_sum`, then :func:`gibbs_mean`.

    The defaults of ``draws`` and ``thin`` are the source document's 4,000 steps (S3.2), and ``noise="classical"`` is
    its noise.

    Parameters
    ----------
    records
        ``(n,)``, one a person, clipped to ``data_bounds``.
    family
        The model with its prior.
    data_bounds, epsilon, delta, noise, bits
        As for :func:`release_noisy_sum`.
    draws, thin, rng
        As for :func:`gibbs_mean`.

    Returns
    -------
    Draws ``(draws, 1)`` of the coordinate ``mean``.

    Raises
    ------
    ParameterError
        as the two functions do.

    >>> records = np.random.default_rng(1).normal(1.5, 0.5, 5000)
    >>> release = sample_noisy_gibbs_mean(
    ...     records,
    ...     family=GaussianMean(sd=0.5),
    ...     data_bounds=(-5, 5),
    ...     epsilon=4,
    ...     delta="2e-4",
    ...     rng=np.random.default_rng(2),
    ... )
    >>> bool(abs(release.value.mean()[0] - 1.5) < 0.1)
    True
    """
    check_integer(draws, "draws", low=1)
    check_integer(thin, "thin", low=1)
    if isinstance(family, ExponentialMean) and _bounds(data_bounds)[0] < 0:
        raise ParameterError(f"data_bounds of exponential records must be >= 0, got {data_bounds}")
    release = release_noisy_sum(records, data_bounds=data_bounds, epsilon=epsilon, delta=delta, noise=noise, bits=bits)
    values = gibbs_mean(release.value, family=family, draws=draws, thin=thin, rng=rng)
    return Release(
        value=PosteriorDraws(values=values[:, None], names=("mean",)),
        event=release.event,
        guarantee=release.guarantee,
        secure=release.secure,
    )


def noise_scales(
    squares: Sequence[Fraction], *, shares: Sequence[Fraction], epsilon: Exact, delta: Exact, noise: Noise
) -> tuple[Fraction, ...]:
    """Standard deviations of the noise of several releases of the same data that share one budget.

    ``squares`` are their squared l2 sensitivities and ``shares`` their parts of the budget, which add up to 1. The
    classical formula gives each its part of both epsilon and delta. The analytic noise divides mu in the same ratio:
    ``mu_j = mu share_j / |shares|``.

    >>> shares = (Fraction(1, 2), Fraction(1, 2))
    >>> one, two = noise_scales((Fraction(1), Fraction(4)), shares=shares, epsilon=1, delta="1e-5", noise="classical")
    >>> round(float(one), 3), round(float(two), 3)
    (9.972, 19.943)
    """
    check_choice(noise, "noise", ("analytic", "classical"))
    eps, dlt = parse_epsilon(epsilon), parse_delta(delta)
    if dlt == 0:
        raise ParameterError("delta must be > 0 for Gaussian noise, which is never pure, got 0")
    if noise == "analytic":
        total = sum((share**2 for share in shares), Fraction(0))
        mu_squared = mu_lower(eps, dlt) ** 2 / total
        return tuple(
            sqrt_upper(square / (mu_squared * share**2)) for square, share in zip(squares, shares, strict=True)
        )
    factors = [Fraction(2 * math.log(1.25 / float(dlt * share))) / (eps * share) ** 2 for share in shares]
    return tuple(sqrt_upper(square * factor) for square, factor in zip(squares, factors, strict=True))


def guarantee_of(
    event: RoundedGaussianEvent | ComposedGaussianEvent, *, epsilon: Exact, delta: Exact, noise: Noise
) -> Guarantee:
    """What is promised: the budget asked for, or, for classical noise, what the noise gives at delta, rounded up.

    >>> event = RoundedGaussianEvent(sigma=Fraction(1), sensitivity_squared=Fraction(1))
    >>> guarantee_of(event, epsilon=1, delta="1e-5", noise="classical").epsilon
    Fraction(273573631, 62500000)
    """
    loss = parse_epsilon(epsilon)
    if noise == "classical":
        loss = Fraction(math.ceil(epsilon_of(event, delta) * _DECIMALS), _DECIMALS)
    return Guarantee(epsilon=loss, delta=parse_delta(delta), assumptions=(PUBLIC_SETTINGS, ONE_RECORD))


def _between(middle: Floats, sd: Floats, low: float, high: float, rng: np.random.Generator) -> Floats:
    """Normal draws restricted to [low, high], by the inverse of the distribution function."""
    scale = np.where(sd > 0, sd, 1.0)
    left, right = (low - middle) / scale, (high - middle) / scale
    # In the upper tail the distribution function is 1 to double precision, in the lower one it is not 0.
    flip = left > 0
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    start, stop = ndtr(left), ndtr(right)
    quantile = ndtri(start + (stop - start) * rng.random(middle.shape))
    quantile = np.clip(np.where(np.isnan(quantile), left, quantile), left, right)
    return np.clip(middle + np.where(sd > 0, scale * np.where(flip, -quantile, quantile), 0.0), low, high)


def _bounds(data_bounds: tuple[Exact, Exact]) -> tuple[Fraction, Fraction]:
    low, high = (exact(bound, "data_bounds", "two finite numbers") for bound in data_bounds)
    if not low < high:
        raise ParameterError(f"data_bounds must satisfy low < high, got {data_bounds}")
    check_spread(low, high)
    return low, high


def check_spread(low: Fraction, high: Fraction) -> None:
    """Refuse bounds between which doubles cannot count: sums of clipped numbers would then not be bounded."""
    largest = max(abs(low), abs(high))
    if not (largest <= 10**100 and high - low >= Fraction(1, 10**100) and high - low >= largest / 2**30):
        raise ParameterError(
            "data_bounds must lie within 1e100, at least 1e-100 and a billionth of their size apart, got "
            f"{float(min(max(low, Fraction(-(10**300))), Fraction(10**300))):g} and "
            f"{float(min(max(high, Fraction(-(10**300))), Fraction(10**300))):g}"
        )


def _finite(values: ArrayLike, name: str, dimensions: int) -> Floats:
    array = finite_numbers(np.asarray(values, dtype=np.float64))
    if array.ndim != dimensions or not array.size:
        raise ParameterError(f"{name} must be {dimensions}-dimensional and not empty, got shape {array.shape}")
    return array


def _check_positive(value: float, name: str) -> None:
    if not check_real(value, name, low=0, high=1e300) > 0:
        raise ParameterError(f"{name} must be > 0, got {value!r}")

"""DP-Bootstrap: B bootstrap estimates, each released with Gaussian noise.

Two statistics, after Wang, Cheng and Awan ("Differentially private bootstrap: new privacy analysis and inference
strategies"):

===================================  ============================================  ====================================
                                     statistic of a resample                       replacing one place moves it by
===================================  ============================================  ====================================
:func:`sample_dp_bootstrap`          ``argmin mean l(theta, x) + ridge/2 |theta|^2``  ``Delta = 2 C / (n ridge)``
                                     over the loss's box
:func:`sample_dp_bootstrap_mean`     mean of records cut to [a, b]                 ``Delta = (b - a) / n``
===================================  ============================================  ====================================

The first line needs a loss that is *convex* with gradients of norm at most C: two objectives, ``ridge``-strongly convex
on the box, whose gradients differ by at most G have minimisers at most ``G / ridge`` apart. Losses are taken only if
their convexity is known here.

**Exactness.** A fit is not the minimiser. Let g be the gradient of the objective at the fit, without the coordinates
that sit on a face of the box and would leave it; the fit is within ``|g| / ridge`` of the minimiser, and is refined
until ``|g|`` as computed is at most a public tolerance. Tolerance and a bound on the rounding of g enter Delta. A fit
starts from the loss's public start, so a resample without the record in question gives the same fit to the last bit.
Fits are rounded to a grid (which moves the difference of two by at most sqrt(d) steps), and the noise is added in
integers, exactly.

**How much noise.** ``proved``: the least that :mod:`rivals.resampled` shows to be (epsilon, delta)-private for
this B. ``published``: ``sigma_e = sqrt((2 - 2/e) B) Delta / mu`` with mu the largest whose curve stays within (epsilon,
delta), a limit for B to infinity. It can only be simulated, and the guarantee of a simulation says what is proved for
the noise that ran, which is more than epsilon.

**Inference** (post-processing). The B estimates have the variance V + sigma_e^2, with V the sampling variance, and
their mean errs with variance about V + (V + sigma_e^2) / B. See :meth:`BootstrapEstimates.intervals` for the asymptotic
intervals and :func:`deconvolve` for the law of the estimates without their noise.

Settings that "Private Generative Bootstrap via Blocking" (S3.1, S3.2) leaves out, found by matching its tables: a
``ridge`` of .02 (a penalty of .01 |theta|^2, scale included) gives the floor of its error, which is the ridge's bias,
and, with the printed C, its error at every budget; the ``split`` intervals give its widths and how these scatter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from scipy.stats import chi2, norm

from psephos._check import (
    Exact,
    check_choice,
    check_integer,
    check_level,
    check_real,
    exact,
    parse_delta,
    parse_epsilon,
)
from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.loss_protocol import finite_numbers
from psephos.bootstrap.losses import HuberLoss, LogisticLoss, Loss, MeanLoss, QuantileLoss, Records
from psephos.bootstrap.train import ONE_RECORD, PUBLIC_SETTINGS
from psephos.errors import ParameterError
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.bits import BitSource, InsecureBits, SystemBits, is_secure
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.guarantee import Guarantee
from psephos.privacy.release import Release
from psephos.privacy.samplers import rounded_gaussian_array
from rivals.m_estimate import ConvergenceError, Problem, count_records, solve
from rivals.noisy_gibbs_expfam import check_spread
from rivals.resampled import ResampledGaussianEvent, epsilon_of, shift_lower

__all__ = [
    "BootstrapEstimates",
    "Deconvolution",
    "ErmPlan",
    "Scale",
    "check_convex",
    "deconvolve",
    "sample_dp_bootstrap",
    "sample_dp_bootstrap_mean",
    "simulate_dp_bootstrap",
    "simulate_dp_bootstrap_mean",
]

Floats = NDArray[np.float64]

#: How the noise of a simulation is set.
Scale = Literal["proved", "published"]
#: How an interval guards against the scatter of the variance of B estimates.
Rule = Literal["split", "plain"]

ASSUMPTIONS = (PUBLIC_SETTINGS, ONE_RECORD)

_STEPS = 2**20  # of the grid, in a sensitivity
_ULP = 2.0**-52


@dataclass(frozen=True, slots=True, kw_only=True)
class ErmPlan:
    """Public settings of bootstrap fits.

    Parameters
    ----------
    resamples
        B from 2 to 10 000. More of them cost noise: the standard deviation grows as sqrt(B).
    ridge
        > 0: weight of ``|theta|^2 / 2`` beside the mean loss. It pulls every coordinate towards 0, and is a bias.
    """

    resamples: int = 20
    ridge: float = 0.02

    def __post_init__(self) -> None:
        check_integer(self.resamples, "resamples", low=2, high=10_000)
        check_real(self.ridge, "ridge", low=1e-9, high=1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapEstimates:
    """Noisy bootstrap estimates, and what can be said from them.

    Attributes
    ----------
    draws
        The B estimates as released, noise included.
    noise_sd
        sigma_e, the standard deviation of the noise on each coordinate.
    """

    draws: PosteriorDraws
    noise_sd: float

    @property
    def count(self) -> int:
        """B."""
        return self.draws.count

    def mean(self) -> Floats:
        """Mean of the estimates, ``(d,)``."""
        return self.draws.mean()

    def sampling_sd(self) -> Floats:
        """Standard deviation of the estimates less their noise, ``(d,)``; 0 where the noise explains all."""
        return np.sqrt(np.maximum(self.draws.sd() ** 2 - self.noise_sd**2, 0.0))

    def intervals(self, *, level: float = 0.95, rule: Rule = "split") -> Floats:
        """Asymptotic confidence intervals around the mean, ``(d, 2)``.

        With s^2 the variance of the estimates, ``mean +- z sqrt(max(0, v - sigma_e^2) + v / B)``, where

        * ``plain``: v = max(s^2, sigma_e^2) and z the normal quantile at (1 + level) / 2. For data whose sampling
          variance s^2 can show. Where sigma_e^2 sqrt(2 / B) is as large, the sampling part is often 0, and the interval
          covers too rarely;
        * ``split``: half of 1 - level goes to an upper bound ``v = (B - 1) s^2 / chi2_(B-1)((1 - level) / 2)`` of the
          variance, the other half to z, at (3 + level) / 4. This is wide: for B = 20 and mostly noise, 4.8 sigma_e,
          where the mean has a standard error of .22 sigma_e. It gives the widths that "Private Generative Bootstrap
          via Blocking" prints.

        Parameters
        ----------
        level
            Confidence, 0 < level <= 0.9999.
        """
        check_choice(rule, "rule", ("split", "plain"))
        miss = 1 - check_level(level)
        noise, variance = self.noise_sd**2, self.draws.sd() ** 2
        if rule == "split":
            variance = variance * (self.count - 1) / chi2.ppf(miss / 2, self.count - 1)
            reach = norm.isf(miss / 4)
        else:
            variance = np.maximum(variance, noise)
            reach = norm.isf(miss / 2)
        half = reach * np.sqrt(np.maximum(variance - noise, 0.0) + variance / self.count)
        return np.stack([self.mean() - half, self.mean() + half], axis=-1)

    def deconvolved(self, draws: int, *, rng: np.random.Generator, penalty: float = 0.1) -> PosteriorDraws:
        """Draws from the law of the estimates without noise, each coordinate by itself (:func:`deconvolve`).

        Their spread is that of a bootstrap distribution around a centre that is off by the noise of the mean,
        sigma_e / sqrt(B).
        """
        count = check_integer(draws, "draws", low=1)
        columns = [
            deconvolve(column, noise_sd=self.noise_sd, penalty=penalty).sample(count, rng=rng)
            for column in self.draws.values.T
        ]
        return PosteriorDraws(values=np.stack(columns, axis=-1), names=self.draws.names)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deconvolution:
    """A law on a grid.

    Attributes
    ----------
    points, weights
        The grid, increasing and even, and the probabilities.
    """

    points: Floats
    weights: Floats

    def mean(self) -> float:
        """Its mean."""
        return float(self.weights @ self.points)

    def sd(self) -> float:
        """Its standard deviation."""
        return math.sqrt(float(self.weights @ (self.points - self.mean()) ** 2))

    def quantile(self, probability: Floats) -> Floats:
        """Quantiles; a point's probability is spread evenly over its cell."""
        half = (self.points[1] - self.points[0]) / 2
        edges = np.append(self.points - half, self.points[-1] + half)
        return np.asarray(np.interp(probability, np.append(0.0, np.cumsum(self.weights)), edges))

    def interval(self, *, level: float = 0.95) -> Floats:
        """Equal-tailed interval, ``(2,)``."""
        tail = (1 - check_level(level)) / 2
        return self.quantile(np.array([tail, 1 - tail]))

    def sample(self, draws: int, *, rng: np.random.Generator) -> Floats:
        """Independent draws."""
        return self.quantile(rng.random(draws))


def deconvolve(
    values: ArrayLike, *, noise_sd: float, freedom: int = 5, penalty: float = 0.1, points: int = 400
) -> Deconvolution:
    """The law of X from draws of X + N(0, noise_sd^2), by a penalised exponential family on a grid.

    The law is ``g_alpha ~ exp(Q alpha)`` on an even grid over the quartiles and three interquartile ranges beyond, Q an
    orthonormal basis of natural cubic splines; alpha maximises ``sum_i log sum_j phi(values_i - point_j) g_j - penalty
    |alpha|``, everything in units of ``noise_sd``. Where X has a spread well below the noise, little can be known of
    it, and the answer keeps a spread of about 2 noise_sd / B^(1/4). More freedom sees finer shape and scatters more.

    Parameters
    ----------
    values
        ``(B,)``, at least 10 finite numbers.
    noise_sd
        > 0.
    freedom
        Dimension of alpha, from 1 to 20.
    penalty
        >= 0.
    points
        Of the grid, from 50 to 10 000.

    Source: Efron (2016), "Empirical Bayes deconvolution estimates", with the settings that Wang, Cheng and Awan use.

    >>> rng = np.random.default_rng(1)
    >>> noisy = rng.normal(3, 1, 2000) + rng.normal(0, 1, 2000)
    >>> law = deconvolve(noisy, noise_sd=1.0)
    >>> abs(law.mean() - 3) < 0.2, abs(law.sd() - 1) < 0.2
    (True, True)
    """
    scale = check_real(noise_sd, "noise_sd", low=1e-290, high=1e290)
    check_integer(freedom, "freedom", low=1, high=20)
    check_real(penalty, "penalty", low=0, high=1e6)
    check_integer(points, "points", low=50, high=10_000)
    given = np.asarray(values, dtype=np.float64)
    if given.ndim != 1 or given.size < 10 or not np.isfinite(given).all():
        raise ParameterError(f"values must be at least 10 finite numbers, got an array of shape {given.shape}")
    centre = float(np.median(given))
    scaled = (given - centre) / scale
    first, third = np.quantile(scaled, [0.25, 0.75])
    range_ = max(float(third - first), 1e-6)
    grid = np.linspace(first - 3 * range_, third + 3 * range_, points)
    basis = _natural_splines(grid, freedom)
    log_kernel = -((scaled[:, None] - grid) ** 2) / 2

    def objective(alpha: Floats) -> tuple[float, Floats]:
        log_law = log_softmax(basis @ alpha)
        joint = log_kernel + log_law
        log_density = logsumexp(joint, axis=1)
        posterior = np.exp(joint - log_density[:, None]).sum(axis=0)
        size = math.sqrt(float(alpha @ alpha) + 1e-12)
        slope = basis.T @ (posterior - len(scaled) * np.exp(log_law)) - penalty * alpha / size
        return penalty * size - float(log_density.sum()), -slope

    found = minimize(objective, np.ones(freedom), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    weights = np.exp(log_softmax(basis @ found.x))
    return Deconvolution(points=centre + scale * grid, weights=weights / weights.sum())


def _natural_splines(grid: Floats, freedom: int) -> Floats:
    """Natural cubic splines with even knots on the grid, without the constant: orthonormal columns."""
    x = np.linspace(-1, 1, len(grid))
    knots = np.linspace(-1, 1, freedom + 1)
    columns = [x]
    cubes = np.maximum(x[:, None] - knots, 0) ** 3
    ends = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
    columns += [ends[:, j] - ends[:, -1] for j in range(freedom - 1)]
    centred = np.stack(columns, axis=1)
    return np.asarray(np.linalg.qr(centred - centred.mean(axis=0))[0])


def sample_dp_bootstrap(
    records: Records,
    loss: Loss,
    *,
    epsilon: Exact,
    delta: Exact,
    plan: ErmPlan = ErmPlan(),
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
) -> Release[BootstrapEstimates]:
    """Bootstrap M-estimates with output perturbation.

    (epsilon, delta)-differentially private for each record under replace-one adjacency, for this very B and n; the
    number of records, the loss with its bounds and the plan are public. So are, in the analysis, the resamples.

    Parameters
    ----------
    records
        Arrays of n rows, as ``loss`` takes them. Covariates beyond the loss's bound are shrunk to it, and a record that
        is not finite counts as zeros.
    loss
        :class:`HuberLoss`, :class:`LogisticLoss`, :class:`QuantileLoss` of one level, or a gaussian
        :class:`MeanLoss`: losses whose convexity the sensitivity may rest on.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    plan
        Public settings.
    bits
        Operating-system entropy; anything else stamps the release insecure.

    Raises
    ------
    ParameterError
        for parameters out of range, records whose shapes do not agree, and other losses.

    Source: Wang, Cheng and Awan, algorithm 2; as a rival in "Private Generative Bootstrap via Blocking", S3.1, S3.2.

    >>> from psephos.bootstrap.losses import MeanLoss
    >>> loss = MeanLoss(data_bounds=(-5, 5), sd=1.0, clip=8)
    >>> release = sample_dp_bootstrap(loss.records(np.linspace(0, 2, 500)), loss, epsilon=2, delta="1e-4")
    >>> release.value.draws.values.shape, release.guarantee.epsilon, release.secure
    ((20, 1), Fraction(2, 1), True)
    """
    return _release_fits(
        records,
        loss,
        plan=plan,
        budget=(parse_epsilon(epsilon), parse_delta(delta)),
        scale="proved",
        bits=bits,
        public=np.random.default_rng(),
    )


def simulate_dp_bootstrap(
    records: Records,
    loss: Loss,
    *,
    key: int,
    epsilon: Exact,
    delta: Exact,
    plan: ErmPlan = ErmPlan(),
    scale: Scale = "proved",
) -> Release[BootstrapEstimates]:
    """:func:`sample_dp_bootstrap` for experiments on data that nobody needs to protect: all randomness from ``key``.

    Parameters
    ----------
    key
        A whole number >= 0.
    scale
        With ``published``, the guarantee has the epsilon that is proved for that noise at ``delta``.
    """
    seed = check_integer(key, "key", low=0)
    return _release_fits(
        records,
        loss,
        plan=plan,
        budget=(parse_epsilon(epsilon), parse_delta(delta)),
        scale=scale,
        bits=InsecureBits(seed=seed),
        public=np.random.default_rng([seed, 1]),
    )


def sample_dp_bootstrap_mean(
    values: ArrayLike,
    *,
    data_bounds: tuple[Exact, Exact],
    epsilon: Exact,
    delta: Exact,
    resamples: int = 1000,
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
) -> Release[BootstrapEstimates]:
    """Bootstrap means of clipped numbers with Gaussian noise.

    (epsilon, delta)-differentially private for each record under replace-one adjacency, for this very B and n.

    Parameters
    ----------
    values
        ``(n,)``, one a person. They are clipped to the bounds and rounded to one of 2^20 + 1 values between.
    data_bounds
        (a, b), public, a < b.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    resamples
        B from 2 to 10 000.
    bits
        Operating-system entropy; anything else stamps the release insecure.

    Raises
    ------
    ParameterError
        for a parameter out of its range.

    Source: Wang, Cheng and Awan, algorithm 3 with :meth:`BootstrapEstimates.deconvolved`.

    >>> release = sample_dp_bootstrap_mean(np.linspace(0, 2, 500), data_bounds=(-5, 5), epsilon=2, delta="1e-4")
    >>> release.value.draws.values.shape, round(release.value.noise_sd, 2)
    ((1000, 1), 1.56)
    """
    return _release_means(
        values,
        data_bounds=data_bounds,
        budget=(parse_epsilon(epsilon), parse_delta(delta)),
        resamples=resamples,
        scale="proved",
        bits=bits,
        public=np.random.default_rng(),
    )


def simulate_dp_bootstrap_mean(
    values: ArrayLike,
    *,
    key: int,
    data_bounds: tuple[Exact, Exact],
    epsilon: Exact,
    delta: Exact,
    resamples: int = 1000,
    scale: Scale = "proved",
) -> Release[BootstrapEstimates]:
    """:func:`sample_dp_bootstrap_mean` with all randomness from ``key``, as :func:`simulate_dp_bootstrap` has it."""
    seed = check_integer(key, "key", low=0)
    return _release_means(
        values,
        data_bounds=data_bounds,
        budget=(parse_epsilon(epsilon), parse_delta(delta)),
        resamples=resamples,
        scale=scale,
        bits=InsecureBits(seed=seed),
        public=np.random.default_rng([seed, 1]),
    )


def _release_means(
    values: ArrayLike,
    *,
    data_bounds: tuple[Exact, Exact],
    budget: tuple[Fraction, Fraction],
    resamples: int,
    scale: Scale,
    bits: BitSource,
    public: np.random.Generator,
) -> Release[BootstrapEstimates]:
    check_integer(resamples, "resamples", low=2, high=10_000)
    low, high = (exact(end, "data_bounds", "two finite numbers, the lower one first") for end in data_bounds)
    if not low < high:
        raise ParameterError(f"data_bounds must be two finite numbers, the lower one first, got {data_bounds!r}")
    check_spread(low, high)
    given = finite_numbers(np.asarray(values, dtype=np.float64))
    if given.ndim != 1 or not given.size:
        raise ParameterError(f"values must be numbers, one a person, got an array of shape {given.shape}")
    a, b = float(low), float(high)
    places = np.clip(np.rint((np.clip(given, a, b) - a) / (b - a) * _STEPS), 0, _STEPS).astype(np.int64)
    sums = np.array([places[_resample(len(places), public)].sum() for _ in range(resamples)])
    step = (high - low) / (_STEPS * len(places))
    return _noisy(
        sums[:, None],
        names=("mean",),
        step=step,
        origin=a,
        sensitivity=_STEPS,
        records=len(places),
        budget=budget,
        scale=scale,
        bits=bits,
    )


def _resample(records: int, public: np.random.Generator) -> NDArray[np.int64]:
    """n places, each any of n records."""
    return public.integers(0, records, size=records)


def _noisy(
    integers: NDArray[np.int64],
    *,
    names: tuple[str, ...],
    step: Fraction,
    origin: float,
    sensitivity: int,
    records: int,
    budget: tuple[Fraction, Fraction],
    scale: Scale,
    bits: BitSource,
) -> Release[BootstrapEstimates]:
    """B rows of integers, released; replacing one place of a resample moves its row by at most ``sensitivity``."""
    epsilon, delta = budget
    resamples = len(integers)
    check_choice(scale, "scale", ("proved", "published"))
    proved = scale == "proved"
    if proved:
        sigma = sensitivity / Fraction(shift_lower(epsilon, delta, records=records, resamples=resamples))
    else:
        spent = Fraction(math.sqrt((2 - 2 / math.e) * resamples))
        sigma = sensitivity * spent / mu_lower(epsilon, delta)
    noise = rounded_gaussian_array(sigma, integers.size, bits).reshape(integers.shape)
    event = ResampledGaussianEvent(
        sigma=sigma,
        sensitivity=Fraction(sensitivity),
        records=Fraction(records),
        resamples=Fraction(resamples),
    )
    released = origin + (integers + noise).astype(np.float64) * float(step)
    return Release(
        value=BootstrapEstimates(draws=PosteriorDraws(values=released, names=names), noise_sd=float(sigma * step)),
        event=event,
        guarantee=Guarantee(
            epsilon=epsilon if proved else epsilon_of(event, delta), delta=delta, assumptions=ASSUMPTIONS
        ),
        secure=is_secure(bits),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convexity:
    """What the sensitivity of a fit needs of a loss, beside its bound.

    ``smoothness``: the largest curvature of a record's loss in the box; ``slope``: how fast a record's gradient changes
    with its residual; ``reach``: no residual is larger; ``within``: the records, moved into the loss's domain.
    """

    level: float | None
    smoothness: float
    slope: float
    reach: float
    within: Callable[[Records], Records]


def check_convex(loss: Loss) -> None:
    """Refuse a loss whose convexity the sensitivity of a fit cannot rest on."""
    _convexity(loss)


def _convexity(loss: Loss) -> _Convexity:
    corner = np.maximum(np.abs(loss.lower), np.abs(loss.upper))
    if isinstance(loss, HuberLoss):
        radius, (low, high) = loss.covariate_bound, loss.scale_box
        far = radius * float(np.linalg.norm(corner[:-1]))
        # A response this far off has psi = +-c wherever theta is in the box, so moving it there changes no gradient.
        edge = far + 2 * loss.c * float(high)
        return _Convexity(
            level=None,
            smoothness=(radius**2 + loss.c**2) / float(low),
            slope=(radius + loss.c) / float(low),
            reach=edge + far,
            within=lambda records: _regression(records, radius, -edge, edge),
        )
    if isinstance(loss, QuantileLoss) and len(loss.levels) == 1:
        radius = loss.covariate_bound
        far = radius * float(np.linalg.norm(corner))
        edge = far + 40 * loss.bandwidth
        density = norm.pdf(0) / loss.bandwidth
        return _Convexity(
            level=loss.levels[0],
            smoothness=radius**2 * density,
            slope=radius * density,
            reach=edge + far,
            within=lambda records: _regression(records, radius, -edge, edge),
        )
    if isinstance(loss, LogisticLoss):
        radius = loss.covariate_bound
        return _Convexity(
            level=None,
            smoothness=radius**2 / 4,
            slope=radius / 4,
            reach=radius * float(np.linalg.norm(corner)),
            within=lambda records: _regression(records, radius, 0.0, 1.0),
        )
    if isinstance(loss, MeanLoss) and loss.sd is not None:
        return _Convexity(
            level=None,
            smoothness=loss.sd**-2,
            slope=loss.sd**-2,
            reach=float(corner[0]) + max(map(abs, loss.data_bounds)),
            within=lambda records: (finite_numbers(records[0]),),
        )
    raise ParameterError(
        "loss must be a HuberLoss, a LogisticLoss, a QuantileLoss of one level or a gaussian MeanLoss, "
        f"got {type(loss).__name__}: the sensitivity of a fit needs a loss that is known to be convex"
    )


def _regression(records: Records, radius: float, low: float, high: float) -> Records:
    """Records (x, y) with ``|x| <= radius`` and y in [low, high]; all zeros for a record that is not finite."""
    x, y = (np.asarray(column, dtype=np.float64) for column in records)
    finite = np.isfinite(x).all(axis=1) & np.isfinite(y)
    x, y = np.where(finite[:, None], x, 0.0), np.where(finite, y, 0.0)
    largest = np.abs(x).max(axis=1, initial=0.0)
    unit = x / np.where(largest > 0, largest, 1.0)[:, None]
    norms = largest * np.sqrt((unit * unit).sum(axis=1))
    shrink = np.where(norms > radius, radius * (1 - 1e-12) / np.where(norms > 0, norms, 1.0), 1.0)
    return x * shrink[:, None], np.clip(y, low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RidgeProblem(Problem):
    """A weighted fit with ``ridge / 2 |theta|^2`` added."""

    ridge: float

    def value(self, theta: Floats) -> float:
        return Problem.value(self, theta) + self.ridge / 2 * float(theta @ theta)

    def gradient(self, theta: Floats) -> Floats:
        return np.asarray(Problem.gradient(self, theta) + self.ridge * theta)

    def inner_gradient(self, theta: Floats) -> Floats:
        """The gradient without the coordinates that sit on a face of the box and would leave it."""
        slope = self.gradient(theta)
        held = ((theta == self.lower) & (slope > 0)) | ((theta == self.upper) & (slope < 0))
        return np.where(held, 0.0, slope)


def _fit(problem: _RidgeProblem, start: Floats, *, tolerance: float, smoothness: float) -> Floats:
    """A point of the box where the inner gradient is at most ``tolerance``: Newton steps, else accelerated descent."""
    try:
        theta = solve(problem, start, tolerance=tolerance)
    except ConvergenceError:
        theta = start
    slope = problem.gradient(theta)
    theta = np.where((slope > 0) & (theta - problem.lower <= tolerance), problem.lower, theta)
    theta = np.where((slope < 0) & (problem.upper - theta <= tolerance), problem.upper, theta)
    if np.linalg.norm(problem.inner_gradient(theta)) <= tolerance:
        return theta
    # Nesterov's method: the gap falls by a factor of 1 - 1 / root a step, whatever the data.
    curvature = smoothness + problem.ridge
    root = math.sqrt(curvature / problem.ridge)
    momentum = (root - 1) / (root + 1)
    ahead = theta
    for _ in range(math.ceil(200 * root) + 200):
        new = np.clip(ahead - problem.gradient(ahead) / curvature, problem.lower, problem.upper)
        if np.linalg.norm(problem.inner_gradient(new)) <= tolerance:
            return new
        ahead, theta = new + momentum * (new - theta), new
    raise ConvergenceError(f"no fit within the tolerance {tolerance:.3g} in the number of steps that proves it")


def _release_fits(
    records: Records,
    loss: Loss,
    *,
    plan: ErmPlan,
    budget: tuple[Fraction, Fraction],
    scale: Scale,
    bits: BitSource,
    public: np.random.Generator,
) -> Release[BootstrapEstimates]:
    check_choice(scale, "scale", ("proved", "published"))
    fits = _integer_fits(records, loss, plan, public)
    return _noisy(
        fits.integers,
        names=loss.names,
        step=fits.step,
        origin=0.0,
        sensitivity=fits.sensitivity,
        records=count_records(records),
        budget=budget,
        scale=scale,
        bits=bits,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _IntegerFits:
    """Fits ``(B, d)`` in units of ``step``; replacing one place of a resample moves its row by ``sensitivity``."""

    integers: NDArray[np.int64]
    step: Fraction
    sensitivity: int


def _integer_fits(records: Records, loss: Loss, plan: ErmPlan, public: np.random.Generator) -> _IntegerFits:
    count = count_records(records)
    convexity = _convexity(loss)
    bound, coordinates = loss.bound_at(convexity.level), len(loss.names)
    corner = np.maximum(np.abs(loss.lower), np.abs(loss.upper))
    rounding = _ULP * (
        (count + 8) * bound
        + (coordinates + 8) * convexity.slope * convexity.reach
        + 8 * plan.ridge * float(np.linalg.norm(corner))
    )
    tolerance = max(1e-4 * bound / count, 64 * rounding)
    # For one place. k places move the minimiser by k times as much, and two errors of a fit are within k times two.
    sensitivity = (2 * Fraction(bound) / count + 2 * Fraction(tolerance + rounding)) / Fraction(plan.ridge)
    exponent = _grid_exponent(sensitivity, float(corner.max()))
    step = Fraction(2) ** -exponent
    within = convexity.within(records)
    integers = np.empty((plan.resamples, coordinates), dtype=np.int64)
    for row in integers:
        times = np.bincount(_resample(count, public), minlength=count)
        drawn = np.flatnonzero(times)  # what is not drawn is not touched: a zero weight would let a NaN through
        problem = _RidgeProblem(
            records=tuple(column[drawn] for column in within),
            loss=loss,
            weights=times[drawn] / count,
            level=convexity.level,
            ridge=plan.ridge,
        )
        start = np.asarray(loss.start, dtype=np.float64)
        theta = _fit(problem, start, tolerance=tolerance, smoothness=convexity.smoothness)
        row[:] = np.rint(np.ldexp(theta, exponent)).astype(np.int64)
    steps = math.ceil(sensitivity / step + sqrt_upper(Fraction(coordinates)))
    return _IntegerFits(integers=integers, step=step, sensitivity=steps)


def _grid_exponent(sensitivity: Fraction, largest: float) -> int:
    """e of the grid 2^-e: about 2^20 steps to a sensitivity, and no value of more than 2^52 steps."""
    fine = math.floor(math.log2(_STEPS) - math.log2(sensitivity))
    return min(fine, 52 - math.ceil(math.log2(max(largest, 1e-290))))

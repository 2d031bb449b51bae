"""Regression losses with bounded gradients: Huber with scale, smoothed quantiles, logistic.

A record is (x, y): x a vector of p covariates with ``||x||_2 <= R``, y the response; the linear predictor is x'beta and
r = y - x'beta. :class:`psephos.bootstrap.design.Design` turns columns with public bounds into such records, and knows
R. With Phi and phi the normal distribution function and density:

=========  ========================================================  ============================================
loss       value                                                     gradient in beta
=========  ========================================================  ============================================
Huber      s rho_c(r / s) + kappa s / 2                              -psi_c(r / s) x;  in s (kappa - psi_c^2) / 2
quantile   r (tau - Phi(-r / h)) + h phi(r / h)                      -(Phi(r / h) - (1 - tau)) x
logistic   y log(1 + e^(-x'beta)) + (1 - y) log(1 + e^(x'beta))      (1 / (1 + e^(-x'beta)) - y) x
=========  ========================================================  ============================================

All three are convex in theta. Source: "Private Generative Bootstrap via Blocking", sections 5 and 6, S3.2, S3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.special
from numpy.typing import NDArray

from psephos._check import check_choice, check_real, percent_hint
from psephos.bootstrap.loss_protocol import (
    Array,
    Box,
    Curved,
    OneRule,
    Records,
    check_box,
    check_interval,
    check_names,
    check_start,
    logistic_curvature,
    middle,
    namespace,
    round_up,
    special_functions,
)
from psephos.bootstrap.rearrangement import CovariateBox
from psephos.errors import ParameterError

__all__ = ["SCALE_STRETCH", "HuberLoss", "LogisticLoss", "QuantileLoss"]

#: Unit of Huber's scale where covariates have the unit that makes their second moment 1: it bends a third as much.
SCALE_STRETCH = math.sqrt(3)

_ROOT_2PI = math.sqrt(2 * math.pi)
_FIRST_SCALE = 32  # part of the largest scale to start from: with one too small residuals tell little
_LEAST_LEVEL = 1e-12
_WINDOW = 3  # bandwidths that a density is read off with
_SMALL = 1e-8  # below which a quotient of differences is a derivative, to a rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class HuberLoss(Curved, OneRule):
    """Huber's regression with its scale: theta = (beta, s), d = p + 1.

    rho_c(z) is z^2 / 2 up to c and c |z| - c^2 / 2 beyond, psi_c(z) = min(max(z, -c), c) its derivative. The loss is
    jointly convex in (beta, s): s rho_c(r / s) is the perspective of a convex function.

    **Bound.** With t = psi_c^2 in [0, c^2] the squared norm of the gradient is t ||x||^2 + (kappa - t)^2 / 4, convex
    in t, hence largest at an end of [0, c^2]:

        C^2 = max(kappa^2 / 4,  c^2 R^2 + (c^2 - kappa)^2 / 4).

    It is attained. The source document prints C_H^2 = c^2 R^2 + (c^2 + kappa)^2 / 4, which is larger
    (2.6483 against 2.3935 for three covariates in the unit box) and is kept as ``bound_rule="printed"`` to reproduce
    its tables.

    Parameters
    ----------
    covariates
        Names of the p coordinates of x, the intercept's among them.
    covariate_bound
        R > 0: the largest l2 norm of x.
    coefficient_box
        (low, high) of every coefficient, or one pair each; public.
    scale_box
        (low, high) of s, 0 < low; public, in units of y. A smaller s is read as ``low``.
    c, kappa
        Huber's constant and the constant that makes s consistent for the standard deviation of normal errors.
    start
        p + 1 numbers in the box; default the middle of it (for s the geometric mean, or a 32nd of the largest if that
        is more).
    bound_rule
        ``"tight"`` as proved above, or ``"printed"``.

    Raises
    ------
    ParameterError
        naming the parameter, the value and its range.

    >>> names, radius = ("a", "b", "c"), 3**0.5
    >>> loss = HuberLoss(covariates=names, covariate_bound=radius, coefficient_box=(-5, 5), scale_box=(0.01, 10))
    >>> loss.names, round(loss.bound, 4), round(loss.printed_bound, 6)
    (('a', 'b', 'c', 'scale'), 2.3935, 2.648291)
    """

    covariates: tuple[str, ...]
    covariate_bound: float
    coefficient_box: Box
    scale_box: tuple[float, float]
    c: float = 1.345
    kappa: float = 0.71
    start: tuple[float, ...] = ()
    bound_rule: Literal["tight", "printed"] = "tight"
    names: tuple[str, ...] = field(init=False)
    lower: tuple[float, ...] = field(init=False)
    upper: tuple[float, ...] = field(init=False)
    bound: float = field(init=False)

    def __post_init__(self) -> None:
        covariates = check_names(self.covariates, "covariates")
        names = check_names((*covariates, "scale"), "covariates and scale")
        check_choice(self.bound_rule, "bound_rule", ("tight", "printed"))
        for name in ("covariate_bound", "c", "kappa"):
            object.__setattr__(self, name, check_real(getattr(self, name), name, low=1e-100, high=1e100))
        pairs = check_box(self.coefficient_box, covariates, "coefficient_box")
        scale = check_interval(self.scale_box, "scale_box", low=1e-30)
        place = max(math.sqrt(scale[0]) * math.sqrt(scale[1]), scale[1] / _FIRST_SCALE)
        _set_box(self, (*pairs, scale), (*(middle(*pair) for pair in pairs), place))
        tight = max(self.kappa / 2, math.hypot(self.c * self.covariate_bound, (self.c**2 - self.kappa) / 2))
        bound = round_up(tight) if self.bound_rule == "tight" else self.printed_bound
        checked = {
            "covariates": covariates,
            "names": names,
            "coefficient_box": pairs,
            "scale_box": scale,
            "bound": bound,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def joint_bound(self, leverage: float) -> float:
        """The bound for covariates of squared norm ``leverage`` at most, the scale's derivative times SCALE_STRETCH."""
        part = SCALE_STRETCH / 2
        beyond = math.sqrt(self.c**2 * leverage + (part * (self.c**2 - self.kappa)) ** 2)
        return round_up(max(part * self.kappa, beyond))

    @property
    def printed_bound(self) -> float:
        """C_H of S3.2, rounded up."""
        return round_up(math.hypot(self.c * self.covariate_bound, (self.c**2 + self.kappa) / 2))

    def value(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """s rho_c(r / s) + kappa s / 2, written as psi (r - s psi / 2) + kappa s / 2: shape ``(n,)``."""
        _, r, scale, psi = self._terms(theta, records)
        with np.errstate(over="ignore"):
            return psi * (r - scale * psi / 2) + self.kappa * scale / 2

    def gradient(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """Shape ``(n, p + 1)``."""
        xp, _, _, psi = self._terms(theta, records)
        parts = (-psi[:, None] * records[0], ((self.kappa - psi * psi) / 2)[:, None])
        return xp.concatenate(parts, axis=-1)

    @property
    def log_coordinates(self) -> tuple[int, ...]:
        """The scale."""
        return (len(self.covariates),)

    def natural_length(self, theta: Array, curvature: float, level: float | None = None) -> float:  # noqa: ARG002
        """c s, from where on residuals no longer bend the loss."""
        return self.c * max(float(theta[-1]), self.lower[-1])

    def curvature_root(self, theta: Array, records: Records, *, majorising: bool = False) -> NDArray[np.float64]:
        """(x, r / s) / sqrt(s) where |r| < c s, else 0: shape ``(n, 1, p + 1)``.

        Majorising, what lies beyond has c |r| below c (r^2 / |r0| + |r0|) / 2, as a function of beta.
        """
        _, r, scale, psi = self._terms(theta, records)
        inside = np.abs(psi) < self.c
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            beyond = np.sqrt(self.c / np.abs(r)) if majorising else 0.0
            factor = np.where(inside, 1 / math.sqrt(scale), beyond)
            rows = np.concatenate((records[0], np.where(inside, psi, 0.0)[:, None]), axis=-1)
            return np.asarray((factor[:, None] * rows)[:, None, :])

    def curvature_bound(
        self,
        theta: Array,
        *,
        majorising: bool = False,  # noqa: ARG002
        leverage: float | None = None,
    ) -> float:
        """(R^2 + c^2) / s, rounded up; with ``leverage``, 3 c^2 for the stretched scale."""
        scale = max(float(theta[-1]), self.lower[-1])
        return round_up((_square(self, leverage) + (1 if leverage is None else SCALE_STRETCH**2) * self.c**2) / scale)

    def _terms(self, theta: Array, records: Records) -> tuple[Any, Array, Array, Array]:
        xp = namespace(theta, *records)
        theta = xp.asarray(theta)
        r = _residual(xp, theta[:-1], records)
        scale = xp.maximum(theta[-1], self.lower[-1])
        with np.errstate(over="ignore"):
            return xp, r, scale, xp.clip(r / scale, -self.c, self.c)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileLoss(Curved):
    """Quantile regression at levels tau, by the check loss smoothed with a Gaussian kernel of bandwidth h.

    With rho_tau(u) = u (tau - [u < 0]) and Z standard normal the value is

        E rho_tau(r + h Z) = tau r - E min(r + h Z, 0) = r (tau - Phi(-r / h)) + h phi(r / h),

    convex in r, with derivative Phi(r / h) - (1 - tau) in r (the terms in phi cancel).

    **Bound.** Phi lies in [0, 1], so the derivative lies in [tau - 1, tau] and a gradient at level tau has a norm of at
    most max(tau, 1 - tau) R. One bound for the family is the largest over the levels.

    Parameters
    ----------
    covariates
        Names of the p coordinates of x, the intercept's among them.
    covariate_bound
        R > 0: the largest l2 norm of x.
    coefficient_box
        (low, high) of every coefficient, or one pair each; public.
    levels
        tau, increasing, each strictly between 0 and 1.
    level_weights
        The probability of each level in training; scaled to sum to 1. Default proportional to 1 / (tau (1 - tau)).
    bandwidth
        h > 0, in units of the (scaled) response.
    covariate_box
        (low, high) of each covariate, low <= high, public: ``Design.covariate_box()``. Draws at several levels are
        rearranged so that their curves do not cross in it, if one covariate is the same for all
        (:mod:`psephos.bootstrap.rearrangement`). Known without being given for an ``intercept`` alone.
    start
        p numbers in the box; default the middle of it.

    Raises
    ------
    ParameterError
        naming the parameter, the value and its range.

    >>> loss = QuantileLoss(covariates=("intercept", "educ"), covariate_bound=2**0.5, coefficient_box=(-10, 10))
    >>> round(loss.bound, 6), round(loss.bound_at(0.5), 6), [round(w, 3) for w in loss.level_weights]
    (1.272792, 0.707107, [0.311, 0.133, 0.112, 0.133, 0.311])
    """

    covariates: tuple[str, ...]
    covariate_bound: float
    coefficient_box: Box
    levels: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    level_weights: tuple[float, ...] = ()
    bandwidth: float = 0.1
    covariate_box: CovariateBox = ()
    start: tuple[float, ...] = ()
    names: tuple[str, ...] = field(init=False)
    lower: tuple[float, ...] = field(init=False)
    upper: tuple[float, ...] = field(init=False)
    bound: float = field(init=False)

    def __post_init__(self) -> None:
        covariates = check_names(self.covariates, "covariates")
        for name in ("covariate_bound", "bandwidth"):
            object.__setattr__(self, name, check_real(getattr(self, name), name, low=1e-100, high=1e100))
        levels = _check_levels(self.levels)
        weights = _check_weights(self.level_weights, levels)
        pairs = check_box(self.coefficient_box, covariates, "coefficient_box")
        _set_box(self, pairs, tuple(middle(*pair) for pair in pairs))
        checked: dict[str, object] = {"covariates": covariates, "names": covariates, "coefficient_box": pairs}
        checked |= {
            "levels": levels,
            "level_weights": weights,
            "covariate_box": _check_ranges(self.covariate_box, covariates),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "bound", max(self.bound_at(level) for level in levels))

    @property
    def whole_columns(self) -> tuple[int, ...]:
        """None: all arrays hold numbers."""
        return ()

    def bound_at(self, level: float | None) -> float:
        """max(tau, 1 - tau) R, rounded up."""
        tau = _check_level(self._only_level() if level is None else level, "level")
        return round_up(max(tau, 1 - tau) * self.covariate_bound)

    def value(self, theta: Array, records: Records, level: Any = None) -> Array:
        """The smoothed check loss at ``level``, which may be left out where there is one only: shape ``(n,)``."""
        tau = self._only_level() if level is None else level
        xp = namespace(theta, tau, *records)
        r = _residual(xp, xp.asarray(theta), records)
        with np.errstate(over="ignore"):
            z = r / self.bandwidth
            density = xp.exp(-z * z / 2) / _ROOT_2PI
            return r * (tau - special_functions(xp).ndtr(-z)) + self.bandwidth * density

    def gradient(self, theta: Array, records: Records, level: Any = None) -> Array:
        """Shape ``(n, p)``; ``level`` as in :meth:`value`."""
        tau = self._only_level() if level is None else level
        xp = namespace(theta, tau, *records)
        r = _residual(xp, xp.asarray(theta), records)
        with np.errstate(over="ignore"):
            slope = special_functions(xp).ndtr(r / self.bandwidth) - (1 - tau)
        return -slope[:, None] * records[0]

    def below(self, theta: Array, records: Records) -> NDArray[np.float64]:
        """Whether a response lies below the line, smoothed: Phi(-r / h), shape ``(n,)``; the gradient has the slope
        ``below - tau``.
        """
        with np.errstate(over="ignore"):
            return np.asarray(scipy.special.ndtr(-_residual(np, np.asarray(theta), records) / self.bandwidth))

    def natural_length(self, theta: Array, curvature: float, level: float | None = None) -> float:  # noqa: ARG002
        """The part of people on the nearer side over their density at the quantile: 1 of exponential tails."""
        tau = self._only_level() if level is None else level
        return max(min(tau, 1 - tau) / curvature, self.bandwidth)

    def joint_bound(self, leverage: float) -> float:
        """The bound of the gradients at all levels together, covariates of squared norm ``leverage`` at most.

        A response lies above the lines of the first k levels and below the others, for some k, unless lines cross at
        its covariates: slopes are then between tau for the first and tau - 1 for the others. The squared norm is convex
        in slopes, so its largest value is ``leverage`` times that of ``sum_{l <= k} tau_l^2 + sum_{l > k} (1 -
        tau_l)^2`` over k. Where lines do cross, a person's part is shrunk to the bound.
        """
        tau = np.array(self.levels)
        squares = [float(np.sum(tau[:k] ** 2) + np.sum((1 - tau[k:]) ** 2)) for k in range(len(tau) + 1)]
        return round_up(math.sqrt(max(squares) * leverage))

    def curvature_root(self, theta: Array, records: Records, *, majorising: bool = False) -> NDArray[np.float64]:
        """sqrt(phi(r / w) / w) x, at every level: shape ``(n, 1, p)``.

        The Hessian has w = h. Its mean is a density of responses, which is read off with a wider window, w = 3 h: that
        lets one record bend the mean by a third as much, and hardly moves a mean over many. Majorising, w = h, and
        (Phi(r / h) - 1/2) / r, of the slope's part that is odd in r, takes the place of the derivative.
        """
        r = _residual(np, np.asarray(theta), records)
        window = self.bandwidth * (1 if majorising else _WINDOW)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            z = r / window
            slope = np.exp(-z * z / 2) / (_ROOT_2PI * window)
            if majorising:
                slope = np.where(np.abs(z) < _SMALL, slope, scipy.special.erf(z / math.sqrt(2)) / r / 2)
            return np.asarray((np.sqrt(slope)[:, None] * records[0])[:, None, :])

    def curvature_bound(
        self,
        theta: Array,  # noqa: ARG002
        *,
        majorising: bool = False,
        leverage: float | None = None,
    ) -> float:
        """R^2 phi(0) / w, rounded up."""
        return round_up(_square(self, leverage) / (_ROOT_2PI * self.bandwidth * (1 if majorising else _WINDOW)))

    def _only_level(self) -> float:
        if len(self.levels) != 1:
            raise ParameterError(f"level must be one of {', '.join(map(str, self.levels))}, got None")
        return self.levels[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticLoss(Curved, OneRule):
    """Logistic regression: the negative log-likelihood of y in {0, 1} with log-odds x'beta.

    **Bound.** The gradient is (p - y) x with p in [0, 1] and y in [0, 1], so its norm is at most ||x|| <= R = C.

    Parameters
    ----------
    covariates
        Names of the p coordinates of x, the intercept's among them.
    covariate_bound
        R > 0: the largest l2 norm of x.
    coefficient_box
        (low, high) of every coefficient, or one pair each; public, in units of log-odds.
    start
        p numbers in the box; default the middle of it.

    Raises
    ------
    ParameterError
        naming the parameter, the value and its range.

    >>> loss = LogisticLoss(covariates=("intercept", "x"), covariate_bound=2**0.5, coefficient_box=(-10, 10))
    >>> records = (np.array([[1.0, 0.5]]), np.array([1.0]))
    >>> loss.gradient(np.zeros(2), records).tolist()
    [[-0.5, -0.25]]
    """

    covariates: tuple[str, ...]
    covariate_bound: float
    coefficient_box: Box
    start: tuple[float, ...] = ()
    names: tuple[str, ...] = field(init=False)
    lower: tuple[float, ...] = field(init=False)
    upper: tuple[float, ...] = field(init=False)
    bound: float = field(init=False)

    def __post_init__(self) -> None:
        covariates = check_names(self.covariates, "covariates")
        radius = check_real(self.covariate_bound, "covariate_bound", low=1e-100, high=1e100)
        pairs = check_box(self.coefficient_box, covariates, "coefficient_box")
        _set_box(self, pairs, tuple(middle(*pair) for pair in pairs))
        checked: dict[str, object] = {"covariates": covariates, "names": covariates, "coefficient_box": pairs}
        checked |= {"covariate_bound": radius, "bound": round_up(radius)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def value(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """Shape ``(n,)``."""
        xp = namespace(theta, *records)
        x, y = records
        logit = xp.sum(x * xp.asarray(theta), axis=-1)
        return y * xp.logaddexp(0.0, -logit) + (1 - y) * xp.logaddexp(0.0, logit)

    def gradient(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """Shape ``(n, p)``."""
        xp = namespace(theta, *records)
        x, y = records
        logit = xp.sum(x * xp.asarray(theta), axis=-1)
        return (special_functions(xp).expit(logit) - y)[:, None] * x

    def joint_bound(self, leverage: float) -> float:
        """The bound for covariates of squared norm ``leverage`` at most."""
        return round_up(math.sqrt(leverage))

    def curvature_root(self, theta: Array, records: Records, *, majorising: bool = False) -> NDArray[np.float64]:
        """sqrt(p (1 - p)) x: shape ``(n, 1, p)``; majorising, sqrt((p - 1/2) / z) x with z the log-odds."""
        x = records[0]
        logit = np.sum(x * np.asarray(theta), axis=-1)
        return np.asarray((np.sqrt(logistic_curvature(logit, majorising=majorising))[:, None] * x)[:, None, :])

    def curvature_bound(
        self,
        theta: Array,  # noqa: ARG002
        *,
        majorising: bool = False,  # noqa: ARG002
        leverage: float | None = None,
    ) -> float:
        """R^2 / 4, rounded up."""
        return round_up(_square(self, leverage) / 4)


def _square(loss: Any, leverage: float | None) -> float:
    """R^2, or what takes its place where covariates are stretched."""
    return float(loss.covariate_bound**2 if leverage is None else leverage)


def _residual(xp: Any, beta: Array, records: Records) -> Array:
    x, y = records
    return y - xp.sum(x * beta, axis=-1)


def _set_box(loss: Any, pairs: tuple[tuple[float, float], ...], default: tuple[float, ...]) -> None:
    lower, upper = (tuple(pair[end] for pair in pairs) for end in (0, 1))
    object.__setattr__(loss, "start", check_start(loss.start, lower, upper, default))
    object.__setattr__(loss, "lower", lower)
    object.__setattr__(loss, "upper", upper)


def _check_level(value: object, name: str) -> float:
    allowed = f"a number strictly between 0 and 1 ({_LEAST_LEVEL:g} away from both at least)"
    try:
        return check_real(value, name, low=_LEAST_LEVEL, high=1 - _LEAST_LEVEL)
    except ParameterError:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}{percent_hint(value)}") from None


def _check_levels(levels: object) -> tuple[float, ...]:
    if isinstance(levels, str) or not hasattr(levels, "__len__") or not len(levels):
        raise ParameterError(f"levels must be a sequence of at least one number between 0 and 1, got {levels!r}")
    checked = tuple(_check_level(level, f"levels[{i}]") for i, level in enumerate(levels))  # type: ignore[var-annotated,arg-type]
    if any(not a < b for a, b in pairwise(checked)):
        raise ParameterError(f"levels must increase, got {levels!r}")
    return checked


def _check_ranges(box: object, covariates: tuple[str, ...]) -> CovariateBox:
    """Ranges of covariates, (1, 1) for an intercept alone; nothing where none are known."""
    if isinstance(box, Sequence) and not isinstance(box, str) and not box:
        return ((1.0, 1.0),) if covariates == ("intercept",) else ()
    pairs = np.asarray(box, dtype=object)
    if pairs.shape != (len(covariates), 2):
        raise ParameterError(f"covariate_box must be one pair (low, high) for each of {covariates}, got {box!r}")
    ends = [tuple(check_real(end, "covariate_box", low=-1e100, high=1e100) for end in pair) for pair in pairs]
    if not all(low <= high for low, high in ends):
        raise ParameterError(f"covariate_box must be pairs with low <= high, got {box!r}")
    return tuple((low, high) for low, high in ends)


def _check_weights(weights: object, levels: tuple[float, ...]) -> tuple[float, ...]:
    if isinstance(weights, str) or not hasattr(weights, "__len__"):
        raise ParameterError(f"level_weights must be one number > 0 a level ({len(levels)}), got {weights!r}")
    given: Any = weights if len(weights) else tuple(1 / (tau * (1 - tau)) for tau in levels)
    if len(given) != len(levels):
        raise ParameterError(f"level_weights must be one number > 0 a level ({len(levels)}), got {len(given)}")
    checked = [check_real(w, f"level_weights[{i}]", low=1e-100, high=1e100) for i, w in enumerate(given)]
    total = math.fsum(checked)
    return tuple(w / total for w in checked)

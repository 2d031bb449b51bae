"""Links: the chance that u is preferred to v as a function of the difference of their scores.

A link is a symmetric distribution function F, ``F(-x) = 1 - F(x)``. A share z of answers that prefer u, at a
difference ``x = theta_u - theta_v``, costs the matching loss

    l(x; z) = integral_0^x (F(t) - z) dt,      l' = F(x) - z,      l'' = f(x) >= 0.

It is convex in x for every real z, also outside [0, 1], because z enters linearly. For the logistic link it is the
negative log-likelihood of Bradley and Terry, up to a constant; for the normal link it is *not* that of Thurstone and
Mosteller, which is not convex for z outside [0, 1], but it has the same minimiser where the shares fit exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr

from psephos._check import check_choice
from psephos.errors import ParameterError

__all__ = ["LOGISTIC", "NORMAL", "Link", "as_link", "symmetric_link"]

Floats = npt.NDArray[np.float64]
Function = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A symmetric distribution function with its density and its integral, all elementwise on float64 arrays.

    Attributes
    ----------
    name
        what results call it.
    cdf
        F, with values in [0, 1] and ``F(-x) = 1 - F(x)``.
    density
        f = F', >= 0.
    integral
        ``integral_0^x F(t) dt``.
    """

    name: str
    cdf: Function
    density: Function
    integral: Function

    def loss(self, difference: npt.ArrayLike, share: npt.ArrayLike) -> Floats:
        """The matching loss ``integral_0^x (F(t) - z) dt`` at a difference x of scores and a share z, any real.

        >>> LOGISTIC.loss([0.0, 1.0], [0.7, 2.0]).round(6).tolist()
        [0.0, -1.379885]
        """
        x = np.asarray(difference, dtype=np.float64)
        loss: Floats = self.integral(x) - np.asarray(share, dtype=np.float64) * x
        return loss


def _logistic_density(x: Floats) -> Floats:
    tail = expit(-np.abs(x))
    density: Floats = tail * (1.0 - tail)
    return density


def _logistic_integral(x: Floats) -> Floats:
    integral: Floats = np.logaddexp(0.0, x) - math.log(2.0)
    return integral


def _normal_density(x: Floats) -> Floats:
    density: Floats = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return density


def _normal_integral(x: Floats) -> Floats:
    return x * ndtr(x) + (_normal_density(x) - 1.0 / math.sqrt(2.0 * math.pi))


#: Bradley and Terry (1952), Zermelo (1929): a difference of scores is a log-odds.
LOGISTIC = Link(name="logistic", cdf=expit, density=_logistic_density, integral=_logistic_integral)

#: Thurstone (1927, case V) and Mosteller (1951): a difference of scores is a normal quantile.
NORMAL = Link(name="normal", cdf=ndtr, density=_normal_density, integral=_normal_integral)

_NAMED = {"logistic": LOGISTIC, "normal": NORMAL}


def as_link(link: Link | str) -> Link:
    """The link itself, or the one of that name: ``logistic`` or ``normal``."""
    return link if isinstance(link, Link) else _NAMED[check_choice(link, "link", tuple(_NAMED))]


def symmetric_link(
    cdf: Function, density: Function, *, name: str = "symmetric", integral: Function | None = None
) -> Link:
    """A link from a distribution function and its density, checked on a grid from -1000 to 1000.

    Parameters
    ----------
    cdf, density
        elementwise functions of a float64 array. F must be non-decreasing within [0, 1] with
        ``F(-x) = 1 - F(x)``; f must be its derivative, with f(0) > 0.
    name
        what results call the link.
    integral
        ``integral_0^x F(t) dt`` in closed form; without it the integral is taken numerically. Only the value of the
        loss needs it: a fit does not.

    Returns
    -------
    Link

    Raises
    ------
    ParameterError
        naming the rule that is broken. A grid proves nothing between its points: the rules are the caller's word.

    >>> cauchy = symmetric_link(lambda x: 0.5 + np.arctan(x) / np.pi, lambda x: 1 / (np.pi * (1 + x * x)))
    >>> cauchy.cdf(np.array([0.0, 1.0])).round(6).tolist()
    [0.5, 0.75]
    """
    near = np.linspace(0.0, 8.0, 801)
    half = np.concatenate([near, np.geomspace(8.0, 1000.0, 200)[1:]])
    grid = np.concatenate([-half[:0:-1], half])
    values = _evaluated(cdf, grid, "cdf")
    slopes = _evaluated(density, grid, "density")
    if not ((values >= 0) & (values <= 1)).all():
        raise ParameterError(f"cdf must lie in [0, 1], got {values.min()} to {values.max()}")
    _require_on(grid, np.abs(values + values[::-1] - 1.0) <= 1e-9, "cdf must satisfy F(-x) = 1 - F(x)")
    _require_on(grid[1:], np.diff(values) >= -1e-12, "cdf must not decrease")
    _require_on(grid, slopes >= 0, "density must be >= 0")
    _require_on(grid, np.abs(slopes - slopes[::-1]) <= 1e-9 * slopes.max(), "density must satisfy f(-x) = f(x)")
    if not slopes[len(half) - 1] > 0:
        raise ParameterError("density must be > 0 at 0: equal items could not be told from unequal ones")
    # On a cell where f is monotone, F grows by between step * min f and step * max f.
    step, slack = near[1], 1e-4 * near[1]
    growth, ends = np.diff(values[len(half) - 1 :])[:800], slopes[len(half) - 1 :][:801]
    low, high = np.minimum(ends[1:], ends[:-1]), np.maximum(ends[1:], ends[:-1])
    fits = (growth >= step * low - slack) & (growth <= step * high + slack)
    _require_on(near[1:], fits, "density must be the derivative of cdf")
    return Link(name=name, cdf=cdf, density=density, integral=integral or _numerical_integral(cdf))


def _evaluated(function: Function, grid: Floats, name: str) -> Floats:
    values = np.asarray(function(grid), dtype=np.float64)
    if values.shape != grid.shape:
        raise ParameterError(f"{name} must work elementwise: {grid.shape} became {values.shape}")
    if not np.isfinite(values).all():
        raise ParameterError(f"{name} must be finite from -1000 to 1000, got {values[~np.isfinite(values)][0]}")
    return values


def _require_on(grid: Floats, holds: npt.NDArray[np.bool_], rule: str) -> None:
    if not holds.all():
        raise ParameterError(f"{rule}; broken at x = {grid[int(np.argmin(holds))]:g}")


def _numerical_integral(cdf: Function) -> Function:
    """``integral_0^x F`` by Gauss-Legendre nodes on panels that halve towards 0, so that any scale is resolved.

    ``F(t) - 1/2`` is odd, so the integral is ``x/2`` plus an even function of x.
    """
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.concatenate([[0.0], 2.0 ** np.arange(-16.0, 1.0)])
    widths = np.diff(edges)
    at = (edges[:-1, None] + widths[:, None] * (nodes + 1.0) / 2.0).ravel()
    each = (widths[:, None] * weights / 2.0).ravel()

    def integral(x: Floats) -> Floats:
        x = np.asarray(x, dtype=np.float64)
        size = np.abs(x)
        inner: Floats = (cdf(size[..., None] * at) - 0.5) @ each
        return x / 2.0 + size * inner

    return integral

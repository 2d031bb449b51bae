"""The mean of one bounded number, by a clipped negative log-likelihood.

=============  ===================================  ====================  ========================
family         negative log-likelihood in the mean  its derivative g      clipped g is monotone in m
=============  ===================================  ====================  ========================
gaussian       (m - x)^2 / (2 sd^2)                 (m - x) / sd^2        yes: the loss is convex
exponential    log m + x / m                        (m - x) / m^2         no (nor is the likelihood)
=============  ===================================  ====================  ========================

The gradient is ``clip(g, -C, C)``, and the value is the integral of *that*, so that minimising the value and following
the gradient are the same thing wherever the clip binds. For the Gaussian family it is Huber's function of m - x.

Source: "Private Generative Bootstrap via Blocking", 5.2 and S3.2 (data cut to [-5, 5] and [0, 12], C = 8).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice, check_real
from psephos.bootstrap.columns import number_column
from psephos.bootstrap.loss_protocol import (
    Array,
    Curved,
    OneRule,
    Records,
    check_interval,
    check_start,
    middle,
    namespace,
    round_up,
)
from psephos.errors import ParameterError

__all__ = ["MeanLoss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanLoss(Curved, OneRule):
    """The loss of a mean: theta = (mean,), a record is one number x.

    Whatever theta and x are, the gradient is the result of ``min(max(g, -C), C)``: its absolute value is at most C,
    exactly, also in doubles. So ``bound`` is ``clip`` itself.

    Parameters
    ----------
    data_bounds
        (a, b), public: numbers outside are moved to the nearer end. For the exponential family a >= 0.
    clip
        C > 0, in units of the gradient.
    family
        ``"gaussian"`` (with known ``sd``) or ``"exponential"`` (in its mean).
    sd
        The known standard deviation of the Gaussian family, in the units of the data; ``None`` for the other.
    box
        Where the mean lies, public. Default: the data bounds; for the exponential family from b / 1000 at least, since
        a mean must be > 0. Below the box the exponential loss goes on as at its lower end.
    start
        (mean,) inside the box; default its middle.

    Raises
    ------
    ParameterError
        naming the parameter, the value and its range.

    >>> loss = MeanLoss(data_bounds=(-5, 5), sd=0.5, clip=8)
    >>> records = loss.records([1.0, 1.5, 900.0])
    >>> [float(g) for g in loss.gradient(np.array([1.5]), records)[:, 0]]
    [2.0, 0.0, -8.0]
    """

    data_bounds: tuple[float, float]
    clip: float
    family: Literal["gaussian", "exponential"] = "gaussian"
    sd: float | None = None
    box: tuple[float, float] | None = None
    start: tuple[float, ...] = ()
    names: tuple[str, ...] = field(init=False, default=("mean",))
    lower: tuple[float, ...] = field(init=False)
    upper: tuple[float, ...] = field(init=False)
    bound: float = field(init=False)

    def __post_init__(self) -> None:
        check_choice(self.family, "family", ("gaussian", "exponential"))
        gaussian = self.family == "gaussian"
        a, b = check_interval(self.data_bounds, "data_bounds", low=-1e100 if gaussian else 0.0, high=1e100)
        if gaussian and self.sd is None:
            raise ParameterError("sd must be a number > 0 for the gaussian family, got None")
        if not gaussian and self.sd is not None:
            raise ParameterError(f"sd must be None for the exponential family, got {self.sd!r}")
        sd = None if self.sd is None else check_real(self.sd, "sd", low=1e-100, high=1e100)
        box = (a if gaussian else max(a, b / 1000), b) if self.box is None else self.box
        low, high = check_interval(box, "box", low=-1e100 if gaussian else 1e-30, high=1e100)
        clip = check_real(self.clip, "clip", low=1e-100, high=1e100)
        start = check_start(self.start, (low,), (high,), (middle(low, high),))
        checked: dict[str, object] = {"data_bounds": (a, b), "sd": sd, "box": (low, high), "clip": clip, "bound": clip}
        checked |= {"lower": (low,), "upper": (high,), "start": start}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def records(self, values: object) -> Records:
        """One number a person, shape ``(n,)``, cut to the data bounds.

        Raises
        ------
        DataError
            naming the row of a value that is not a finite number.
        """
        return (np.clip(number_column(values, "x"), *self.data_bounds),)

    def value(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """The integral of the clipped derivative: shape ``(n,)``; minus log-likelihood plus a constant in between."""
        xp = namespace(theta, *records)
        mean, x = self._read(xp, theta, records)
        with np.errstate(over="ignore"):
            if self.sd is not None:
                slope = xp.clip((mean - x) / self.sd / self.sd, -self.clip, self.clip)
                return slope * ((mean - x) - self.sd * self.sd * slope / 2)
            return _clipped_exponential(xp, mean, x, self.clip)

    def gradient(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """The clipped derivative: shape ``(n, 1)``."""
        xp = namespace(theta, *records)
        mean, x = self._read(xp, theta, records)
        with np.errstate(over="ignore"):
            slope = (mean - x) / self.sd / self.sd if self.sd is not None else (1 - x / mean) / mean
        return xp.clip(slope, -self.clip, self.clip)[:, None]

    @property
    def log_coordinates(self) -> tuple[int, ...]:
        """Exponential: the mean."""
        return () if self.sd is not None else (0,)

    def natural_length(self, theta: Array, curvature: float, level: float | None = None) -> float:  # noqa: ARG002
        """Gaussian: from where on a number is clipped, C sd^2."""
        return self.clip * (self.sd or 1.0) ** 2

    def curvature_root(self, theta: Array, records: Records, *, majorising: bool = False) -> NDArray[np.float64]:
        """Gaussian: 1 / sd where the gradient is not clipped, else 0, or, majorising, sqrt(C / |m - x|).

        Exponential: the Hessian 2 x / m^3 - 1 / m^2 where the gradient is not clipped, and the shift 1 / m^2.
        The loss is not convex, and ``majorising`` gives no more than its Hessian. Shape ``(n, 1, 1)``.
        """
        mean, x = self._read(np, np.asarray(theta), records)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            slope = self.gradient(np.asarray(theta), records)[:, 0]
            inside = np.abs(slope) < self.clip
            if self.sd is None:
                return np.asarray(np.where(inside, np.sqrt(2 * x / mean) / mean, 1 / mean)[:, None, None])
            beyond = np.sqrt(self.clip / np.abs(mean - x)) if majorising else 0.0
            return np.where(inside, 1 / self.sd, beyond)[:, None, None]

    def curvature_bound(
        self,
        theta: Array,
        *,
        majorising: bool = False,  # noqa: ARG002
        leverage: float | None = None,  # noqa: ARG002
    ) -> float:
        """Gaussian: 1 / sd^2. Exponential: 1 / m^2, or the largest 2 x / m^3 of an unclipped x. Rounded up."""
        if self.sd is not None:
            return round_up(1 / self.sd / self.sd)
        mean = max(float(np.asarray(theta)[0]), self.lower[0])
        largest = min(self.data_bounds[1], mean + self.clip * mean * mean)
        return round_up(max(1.0, 2 * largest / mean) / mean / mean)

    def curvature_shift(self, theta: Array) -> float:
        """Exponential: 1 / m^2."""
        mean = max(float(np.asarray(theta)[0]), self.lower[0])
        return 0.0 if self.sd is not None else 1 / mean / mean  # a square could overflow

    def _read(self, xp: Any, theta: Array, records: Records) -> tuple[Array, Array]:
        mean = xp.asarray(theta)[0]
        return (mean if self.sd is not None else xp.maximum(mean, self.lower[0])), xp.clip(
            records[0], *self.data_bounds
        )


def _clipped_exponential(xp: Any, mean: Array, x: Array, clip: float) -> Array:
    """V with V' = clip((m - x) / m^2, -C, C) in m > 0, and V = log m + x / m for large m.

    The derivative is below -C for m < m0 = 2x / (1 + sqrt(1 + 4Cx)), the root of C m^2 + m = x; it is above C only
    if 4Cx < 1, between the roots m1 = 2x / (1 + s) and m2 = (1 + s) / (2C) of C m^2 + x = m, s = sqrt(1 - 4Cx). V is
    linear there, and what it gains on [m1, m2] less than log m + x / m does is the difference of constants below m1.
    """
    steep = 2 * x / (1 + xp.sqrt(1 + 4 * clip * x))
    root = xp.sqrt(xp.maximum(1 - 4 * clip * x, 0.0))
    low, high = 2 * x / (1 + root), (1 + root) / (2 * clip)
    flat = low < high

    def plain(m: Array) -> Array:
        return xp.log(m) + x / m

    from_low = xp.maximum(low, xp.where(low > 0, 0.0, mean))  # x = 0: no mean is below m1 = 0
    lost = xp.where(flat, plain(high) - clip * (high - low) - plain(from_low), 0.0)
    inner = plain(xp.maximum(mean, steep)) + clip * xp.maximum(steep - mean, 0.0)
    below = flat & (mean <= low)
    return xp.where(flat & (mean > low) & (mean < high), plain(high) - clip * (high - mean), inner + lost * below)

"""What a loss is to the private posterior, and what all losses share.

A loss ``l(theta, x)`` has a parameter ``theta`` of d named coordinates in a public box, and a *proved* bound C on the
l2 norm of the gradient of one record. Noise is scaled to C, so C is the one number on which privacy rests; nothing is
clipped where a loss is bounded by itself.

The same source serves numpy and JAX: functions look at the type of theta (:func:`namespace`). Results are per record,
by elementwise products summed over the last axis and never by a matrix product, so that the numbers of one record
depend on that record and theta alone, and not on who shares its batch.

Bounds are rounded up (:func:`round_up`): they hold for the gradient as computed in doubles, not just on paper. Training
runs in single precision and cuts each record's gradient to the bound once more.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.special
from numpy.typing import NDArray

from psephos._check import check_real
from psephos.errors import ParameterError

__all__ = [
    "Array",
    "Box",
    "Curved",
    "Loss",
    "OneRule",
    "Records",
    "check_box",
    "check_interval",
    "check_names",
    "check_start",
    "finite_numbers",
    "logistic_curvature",
    "middle",
    "namespace",
    "round_up",
    "special_functions",
]

#: A numpy or JAX array.
Array = Any
#: Arrays with one leading axis of n records; doubles (or whole numbers where a loss says so).
Records = tuple[Array, ...]
#: One interval for all coordinates, or one a coordinate.
Box = tuple[float, float] | tuple[tuple[float, float], ...]

_LARGEST = 1e300  # theta and data beyond would overflow in a sum of products


@runtime_checkable
class Loss(Protocol):
    """A loss whose gradient is bounded, record by record.

    A loss of your own may be any hashable object with these members, or a :class:`CustomLoss`. Training gives its
    gradient one record at a time and cuts what exceeds the bound.

    Attributes
    ----------
    names
        The d coordinates of theta.
    bound
        C > 0: at every theta with entries up to 1e300, and every record of the loss's domain, the gradient's l2 norm is
        at most C.
    lower, upper
        The parameter box, public; d numbers each, ``lower < upper``.
    start
        A public start value inside the box.
    levels
        The indices tau of a family of decision rules (quantile levels), or ``None`` for a single rule.
    level_weights
        The probability of each level when one is drawn; sums to 1.
    whole_columns
        Positions of the records' arrays that hold whole numbers; all others are numbers. The loss decides, not the
        data: a program that depended on them would tell.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def bound(self) -> float: ...
    @property
    def lower(self) -> tuple[float, ...]: ...
    @property
    def upper(self) -> tuple[float, ...]: ...
    @property
    def start(self) -> tuple[float, ...]: ...
    @property
    def levels(self) -> tuple[float, ...] | None: ...
    @property
    def level_weights(self) -> tuple[float, ...] | None: ...
    @property
    def whole_columns(self) -> tuple[int, ...]: ...

    def value(self, theta: Array, records: Records, level: Any = None) -> Array:
        """The records' losses at ``theta`` (shape ``(d,)``): shape ``(n,)``. ``level``: a number, traced or not."""

    def gradient(self, theta: Array, records: Records, level: Any = None) -> Array:
        """The gradients in theta: shape ``(n, d)``. Without levels, ``level`` is ignored."""

    def bound_at(self, level: float | None) -> float:
        """The bound of the gradient at one level; :attr:`bound` for a single rule."""


class Curved:
    """What a loss of this package knows of its second derivatives: sums of squares, record by record, in numpy.

    Beside what is here such a loss has

    * ``curvature_root(theta, records, majorising=False)``: rows v of shape ``(n, k, d)``; the Hessian of a record is
      ``sum_k v_k v_k' - shift I``, at any level (of a quantile, with a wider window). ``majorising`` asks for a
      quadratic above the loss that touches it at theta, in place of the Hessian: steps with it do not overshoot,
      however far away the minimum is. Of Huber's scale and an exponential mean it gives no more than the Hessian;
    * ``curvature_bound(theta, majorising=False, leverage=None)``: the largest ``sum_k |v_k|^2`` of a record at one
      theta, above 0; ``leverage`` is the largest squared norm of covariates, where it is not that of the loss.
    """

    __slots__ = ()

    @property
    def flat_directions(self) -> tuple[tuple[float, ...], ...]:
        """Orthonormal directions of theta, d numbers each, in which no record's loss ever changes: none."""
        return ()

    @property
    def log_coordinates(self) -> tuple[int, ...]:
        """Positions of coordinates, all above 0, that are nearer to normal on a logarithmic scale: none."""
        return ()

    def natural_length(self, theta: Array, curvature: float, level: float | None = None) -> float:  # noqa: ARG002
        """How far theta goes, about, until the mean loss bends otherwise; ``curvature`` is the mean one at theta.

        Covariates have a second moment of 1 here. A guess sets a prior, and no more.
        """
        return 1.0  # of log-odds

    def curvature_shift(self, theta: Array) -> float:  # noqa: ARG002 - a loss with a shift looks at it
        """What the sums of squares hold beyond the Hessian, the same for all records: 0."""
        return 0.0


class OneRule:
    """The part of a loss that has no family of levels."""

    __slots__ = ()

    bound: float

    @property
    def levels(self) -> tuple[float, ...] | None:
        """``None``: the loss gives a single rule."""
        return None

    @property
    def level_weights(self) -> tuple[float, ...] | None:
        """``None``: the loss gives a single rule."""
        return None

    @property
    def whole_columns(self) -> tuple[int, ...]:
        """None: all arrays hold numbers."""
        return ()

    def bound_at(self, level: float | None) -> float:  # noqa: ARG002 - the protocol's signature
        """The bound, whatever the level."""
        return self.bound


def namespace(*arrays: Any) -> ModuleType:
    """``jax.numpy`` if one of the arrays is JAX's (traced or not), else ``numpy``.

    >>> namespace(np.zeros(2)).__name__
    'numpy'
    """
    if any(type(array).__module__.startswith("jax") for array in arrays):
        return importlib.import_module("jax.numpy")
    return np


def special_functions(xp: ModuleType) -> ModuleType:
    """The special functions (``ndtr``, ``expit``) that go with a :func:`namespace`."""
    return scipy.special if xp is np else importlib.import_module("jax.scipy.special")


def logistic_curvature(logit: NDArray[np.float64], *, majorising: bool) -> NDArray[np.float64]:
    """p (1 - p) of log-odds; majorising, (p - 1/2) / log-odds: never above 1/4.

    >>> logistic_curvature(np.array([0.0, 2.0]), majorising=True).round(4).tolist()
    [0.25, 0.1904]
    """
    if not majorising:
        return np.asarray(scipy.special.expit(logit) * scipy.special.expit(-logit))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(logit) < 1e-8, 0.25, np.tanh(logit / 2) / logit / 2)


def round_up(bound: float, *, slack: float = 2.0**-48) -> float:
    """An upper bound of the number that a few operations in doubles gave as ``bound``.

    The default slack is 32 units of 2**-53: enough for the rounding in the formula of a bound and, beside it, in a
    gradient of few operations.

    >>> 2.0 < round_up(2.0) < 2.0 + 1e-13
    True
    """
    return math.nextafter(bound * (1 + slack), math.inf)


def finite_numbers(column: NDArray[Any]) -> NDArray[Any]:
    """A column of records within +-1e300, NaN counted as 0; whole numbers stay as they are.

    After ingest no error may depend on a value, so one that is no number becomes a public one. Each record is mapped by
    itself: replacing a record replaces one record of what is counted, and every bound on its part holds as it stands.

    >>> finite_numbers(np.array([0.5, np.nan, -np.inf])).tolist()
    [0.5, 0.0, -1e+300]
    """
    if column.dtype.kind != "f":
        return column
    largest = min(_LARGEST, float(np.finfo(column.dtype).max))
    return np.asarray(np.clip(np.nan_to_num(column, nan=0.0), -largest, largest))


def middle(low: float, high: float) -> float:
    """The midpoint, without overflow."""
    return low / 2 + high / 2


def check_names(names: object, name: str) -> tuple[str, ...]:
    """Return distinct texts that are not blank, at least one."""
    allowed = "a sequence of different names, at least one, none blank"
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ParameterError(f"{name} must be {allowed}, got {names!r}")
    for entry in names:
        if not isinstance(entry, str) or not entry.strip():
            raise ParameterError(f"{name} must be {allowed}, got {entry!r}")
        if list(names).count(entry) > 1:
            raise ParameterError(f"{name} must be {allowed}, got {entry!r} twice")
    return tuple(names)


def check_interval(value: object, name: str, *, low: float = -_LARGEST, high: float = _LARGEST) -> tuple[float, float]:
    """Return a pair with ``low <= first < second <= high``; inverted, equal and NaN are refused."""
    allowed = f"a pair (a, b) with {low:g} <= a < b <= {high:g}"
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)) or len(value) != 2:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    try:
        first, second = (check_real(entry, name, low=low, high=high) for entry in value)
    except ParameterError:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}") from None
    if not first < second:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    return first, second


def check_box(box: object, names: Sequence[str], name: str) -> tuple[tuple[float, float], ...]:
    """Return one interval a coordinate, from one for all or one each."""
    pairs: Any = box if isinstance(box, (Sequence, np.ndarray)) and not isinstance(box, (str, bytes)) else ()
    if len(pairs) and isinstance(pairs[0], (Sequence, np.ndarray)):
        if len(pairs) != len(names):
            raise ParameterError(f"{name} must be one pair, or one for each of {', '.join(names)}; got {len(pairs)}")
        return tuple(check_interval(pair, f"{name} of {key!r}") for pair, key in zip(pairs, names, strict=True))
    return (check_interval(box, name),) * len(names)


def check_start(
    start: object, lower: Sequence[float], upper: Sequence[float], default: Sequence[float]
) -> tuple[float, ...]:
    """Return a start inside the box; an empty one becomes ``default``."""
    if isinstance(start, (str, bytes)) or not isinstance(start, (Sequence, np.ndarray)):
        raise ParameterError(f"start must be {len(lower)} numbers, got {start!r}")
    if not len(start):
        return tuple(float(entry) for entry in default)
    if len(start) != len(lower):
        raise ParameterError(f"start must be {len(lower)} numbers, got {len(start)}")
    return tuple(check_real(entry, f"start[{i}]", low=lower[i], high=upper[i]) for i, entry in enumerate(start))

"""A user's own loss: value, gradient and a claimed bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from psephos._check import check_real
from psephos.bootstrap.loss_protocol import Array, OneRule, Records, check_interval, check_names, check_start
from psephos.errors import ParameterError

__all__ = ["CustomLoss", "LossFunction"]


class LossFunction(Protocol):
    """A function of theta (shape ``(d,)``), the records and a level (``None`` for a single rule)."""

    def __call__(self, theta: Array, records: Records, level: Any = None) -> Array: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomLoss(OneRule):
    """A loss of your own.

    **Bound.** Nothing here proves it. Training enforces it instead: a record whose gradient exceeds ``bound`` counts
    with a gradient cut to that length. So privacy does not rest on the claim; accuracy does, since too small a bound
    biases what is learnt and too large a one adds noise.

    Parameters
    ----------
    value
        ``value(theta, records, level=None) -> (n,)``, in operations that numpy and JAX share.
    gradient
        ``gradient(theta, records, level=None) -> (n, d)``. Row i may depend on record i and theta alone; training gives
        it one record at a time, so that a gradient that mixes records (a batch mean, a normalisation by the batch)
        cannot.
    bound
        C > 0: the largest l2 norm of a row.
    names
        The d coordinates of theta.
    lower, upper
        The parameter box, public; d numbers each.
    start
        d numbers in the box.

    Raises
    ------
    ParameterError
        naming the parameter, the value and its range.

    >>> import numpy as np
    >>> absolute = CustomLoss(
    ...     value=lambda theta, records, level=None: abs(records[0] - theta[0]),
    ...     gradient=lambda theta, records, level=None: ((theta[0] > records[0]) * 2.0 - 1)[:, None],
    ...     bound=1, names=("median",), lower=(-9.0,), upper=(9.0,), start=(0.0,),
    ... )
    >>> absolute.gradient(np.array([0.5]), (np.array([0.0, 1.0]),)).tolist()
    [[1.0], [-1.0]]
    """

    value: LossFunction
    gradient: LossFunction
    bound: float
    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    start: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("value", "gradient"):
            if not callable(getattr(self, name)):
                raise ParameterError(
                    f"{name} must be a function of (theta, records, level), got {getattr(self, name)!r}"
                )
        names = check_names(self.names, "names")
        for name in ("lower", "upper", "start"):
            given: object = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(names):
                raise ParameterError(f"{name} must be {len(names)} numbers, got {given!r}")
        ends = zip(names, self.lower, self.upper, strict=True)
        box = [check_interval((low, high), f"lower and upper of {name!r}") for name, low, high in ends]
        lower, upper = (tuple(pair[end] for pair in box) for end in (0, 1))
        checked: dict[str, object] = {"names": names, "lower": lower, "upper": upper}
        checked |= {"start": check_start(self.start, lower, upper, ())}
        checked |= {"bound": check_real(self.bound, "bound", low=1e-100, high=1e100)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

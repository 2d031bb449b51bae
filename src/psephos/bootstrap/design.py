"""From named columns with public bounds to the records of a regression, and back to the units of the data.

Each covariate has bounds that anybody may know; values outside are moved to the nearer end, and how many were is
private and kept nowhere. The bounds, never the data, scale a column:

    z = (x - o) / w      ``unit``: o = low, w = high - low, so z in [0, 1];   ``symmetric``: o = middle, w = half the
                         range, so z in [-1, 1];   ``none``: o = 0, w = 1;
    ``auto``: ``unit`` where low = 0 and high = 1, so that 0 and 1 stay what they are, else ``symmetric``

and without an intercept o = 0 and w = max(|low|, |high|), since a shift would need one. The largest norm R of a scaled
vector (the intercept's 1 included) follows from the bounds alone; it is sqrt(p) in the unit box. With y / s for the
response, coefficients b on the scaled design mean, in the units of the data,

    slope_j = s b_j / w_j,      intercept = s b_0 - sum_j slope_j o_j,

an affine map of public numbers, hence free of privacy cost. Source: "Private Generative Bootstrap via Blocking", S3.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos._check import check_choice, check_real
from psephos.bootstrap.columns import number_column, read_columns_csv
from psephos.bootstrap.formula import Formula, parse_formula
from psephos.bootstrap.loss_protocol import check_interval, check_names, round_up
from psephos.errors import DataError, ParameterError

__all__ = ["Columns", "Design", "Formula", "Scaling", "parse_formula", "read_columns_csv"]

Scaling = Literal["unit", "symmetric", "auto", "none"]
SCALINGS: tuple[Scaling, ...] = ("unit", "symmetric", "auto", "none")
INTERCEPT = "intercept"

_WIDEST, _NARROWEST = 1e100, 1e-100


class Columns(Protocol):
    """Columns by name: a mapping of arrays, or a data frame."""

    def __contains__(self, name: object, /) -> bool: ...
    def __getitem__(self, name: str, /) -> ArrayLike: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A linear regression's columns, with public bounds.

    Parameters
    ----------
    response
        The column to explain.
    covariates
        The columns that explain it; may be empty if there is an intercept.
    bounds
        name -> (low, high), low < high, public, in the units of the data: required for every covariate. For the
        response where given; methods that need bounded responses and default boxes ask for it.
    intercept
        Whether a coordinate ``intercept``, always 1, comes first.
    scaling
        ``"unit"``, ``"symmetric"``, ``"auto"`` or ``"none"``, see the module.
    response_scale
        A public divisor > 0 of the response: 500 turns grams of birthweight into numbers of size 1 to 10, for which
        a bandwidth of 0.1 is small.
    response_kind
        ``"real"``, or ``"binary"`` for 0 and 1 (anything else is then refused at ingest).

    Attributes
    ----------
    names
        The p coordinates of a covariate vector.
    covariate_bound
        R: the largest l2 norm of a covariate vector, rounded up.

    Raises
    ------
    ParameterError
        naming the column or parameter, the value and its range.

    >>> design = Design.from_formula("wage ~ educ", bounds={"educ": (5, 20)})
    >>> x, y = design.records({"wage": [5.5, 6.1], "educ": [5, 99]})
    >>> x.tolist(), y.tolist(), round(design.covariate_bound, 6)
    ([[1.0, 0.0], [1.0, 1.0]], [5.5, 6.1], 1.414214)
    >>> design.original_units([5.0, 1.5]).tolist()
    [4.5, 0.1]
    """

    response: str
    covariates: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    intercept: bool = True
    scaling: Scaling = "unit"
    response_scale: float = 1.0
    response_kind: Literal["real", "binary"] = "real"
    names: tuple[str, ...] = field(init=False)
    covariate_bound: float = field(init=False)

    def __post_init__(self) -> None:
        check_choice(self.scaling, "scaling", SCALINGS)
        check_choice(self.response_kind, "response_kind", ("real", "binary"))
        if not isinstance(self.intercept, bool):
            raise ParameterError(f"intercept must be True or False, got {self.intercept!r}")
        check_names((self.response,), "response")
        covariates = check_names(self.covariates, "covariates") if len(self.covariates) else ()
        if self.response in covariates:
            raise ParameterError(f"covariates must not hold the response, got {self.response!r}")
        names = check_names(((INTERCEPT,) if self.intercept else ()) + covariates, "intercept and covariates")
        scale = check_real(self.response_scale, "response_scale", low=_NARROWEST, high=_WIDEST)
        if self.response_kind == "binary" and scale != 1:
            raise ParameterError(f"response_scale must be 1 for a binary response, got {self.response_scale!r}")
        bounds = self._checked_bounds(covariates)
        checked: dict[str, object] = {"covariates": covariates, "names": names, "bounds": bounds}
        for name, value in (checked | {"response_scale": scale}).items():
            object.__setattr__(self, name, value)
        low, high = self._scaled_ends()
        norm = math.sqrt(self.intercept + math.fsum(np.maximum(np.abs(low), np.abs(high)) ** 2))
        object.__setattr__(self, "covariate_bound", round_up(norm))

    def _checked_bounds(self, covariates: tuple[str, ...]) -> dict[str, tuple[float, float]]:
        if not isinstance(self.bounds, Mapping):
            raise ParameterError(f"bounds must map each column to (low, high), got {self.bounds!r}")
        for name in covariates:
            if name not in self.bounds:
                raise ParameterError(
                    f"bounds are required for {name!r}: a public (low, high), known without looking at the data"
                )
        checked = {}
        for name, pair in self.bounds.items():
            if name != self.response and name not in covariates:
                known = ", ".join((self.response, *covariates))
                raise ParameterError(f"bounds must be of columns of this design ({known}), got {name!r}")
            low, high = check_interval(pair, f"bounds of {name!r}", low=-_WIDEST, high=_WIDEST)
            if not high - low >= _NARROWEST:
                raise ParameterError(f"bounds of {name!r} must be {_NARROWEST:g} apart at least, got {pair!r}")
            checked[name] = (low, high)
        if self.response_kind == "binary" and checked.get(self.response, (0, 1)) != (0, 1):
            raise ParameterError(f"bounds of a binary response must be (0, 1), got {checked[self.response]!r}")
        return checked

    @classmethod
    def from_formula(
        cls,
        formula: str,
        *,
        bounds: Mapping[str, tuple[float, float]],
        scaling: Scaling = "unit",
        response_scale: float = 1.0,
        response_kind: Literal["real", "binary"] = "real",
    ) -> Design:
        """The design that a formula names (:func:`parse_formula`)."""
        parsed = parse_formula(formula)
        return cls(
            response=parsed.response,
            covariates=parsed.covariates,
            intercept=parsed.intercept,
            bounds=bounds,
            scaling=scaling,
            response_scale=response_scale,
            response_kind=response_kind,
        )

    @property
    def response_bounds(self) -> tuple[float, float] | None:
        """Public bounds of the scaled response, or ``None``."""
        given = (0.0, 1.0) if self.response_kind == "binary" else self.bounds.get(self.response)
        return given and (given[0] / self.response_scale, given[1] / self.response_scale)

    def _origin_and_width(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """o and w of each covariate."""
        ends = np.array([self.bounds[name] for name in self.covariates], dtype=np.float64).reshape(-1, 2)
        low, high = ends[:, 0], ends[:, 1]
        if self.scaling == "none":
            return np.zeros(len(ends)), np.ones(len(ends))
        if not self.intercept:
            return np.zeros(len(ends)), np.abs(ends).max(axis=1)
        unit = np.array(self.scaling == "unit") | ((self.scaling == "auto") & (low == 0) & (high == 1))
        return np.where(unit, low, low / 2 + high / 2), np.where(unit, high - low, (high - low) / 2)

    def _scaled_ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest scaled value of each covariate, by the very operations that scale a value.

        Subtraction and division round monotonically, so no value within its bounds leaves this interval.
        """
        origin, width = self._origin_and_width()
        ends = np.array([self.bounds[name] for name in self.covariates], dtype=np.float64).reshape(-1, 2)
        return (ends[:, 0] - origin) / width, (ends[:, 1] - origin) / width

    def records(self, columns: Columns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The records of a regression loss: x of shape ``(n, p)``, each row of norm <= R, and y of shape ``(n,)``.

        Values outside the bounds are moved to the nearer end, without a word.

        Raises
        ------
        DataError
            naming column and row of a value that is not a finite number (or, for a binary response, not 0 or 1).
        ParameterError
            for a column that is absent, or columns of different length.
        """
        response = self._column(columns, self.response)
        if self.response_kind == "binary":
            bad = (response != 0) & (response != 1)
            if bad.any():
                row = int(np.argmax(bad))
                rule = f"column {self.response!r} must be 0 or 1, got {response[row].item()!r}"
                raise DataError(rule, source="row", line=row + 1)
        elif self.response in self.bounds:
            response = np.clip(response, *self.bounds[self.response])
        origin, width = self._origin_and_width()
        x = np.ones((len(response), len(self.names)))
        for i, name in enumerate(self.covariates):
            values = self._column(columns, name)
            if len(values) != len(response):
                raise ParameterError(
                    f"columns must have one length: {self.response!r} has {len(response)}, {name!r} {len(values)}"
                )
            x[:, self.intercept + i] = (np.clip(values, *self.bounds[name]) - origin[i]) / width[i]
        with np.errstate(over="ignore"):
            return x, np.clip(response / self.response_scale, -np.finfo(np.float64).max, np.finfo(np.float64).max)

    def _column(self, columns: Columns, name: str) -> NDArray[np.float64]:
        if name not in columns:
            raise ParameterError(
                f"columns must hold {', '.join((self.response, *self.covariates))}; {name!r} is absent"
            )
        return number_column(columns[name], name)

    def original_units(self, values: ArrayLike, *, with_scale: bool = False) -> NDArray[np.float64]:
        """Coefficients on the scaled design as coefficients on the columns as they are.

        Parameters
        ----------
        values
            Shape ``(..., p)``, in the order of :attr:`names`; or ``(..., p + 1)`` if ``with_scale``, the last a scale
            of errors in units of the scaled response.

        Returns
        -------
        The same shape: response units per unit of each column; the intercept is the prediction where all columns are 0.
        """
        given = np.asarray(values, dtype=np.float64)
        p = len(self.names)
        if given.ndim == 0 or given.shape[-1] != p + with_scale:
            raise ParameterError(
                f"values must have {p + with_scale} numbers along the last axis, got shape {given.shape}"
            )
        origin, width = self._origin_and_width()
        result = given * self.response_scale
        slopes = slice(int(self.intercept), p)
        result[..., slopes] /= width
        if self.intercept:
            result[..., 0] -= (result[..., slopes] * origin).sum(axis=-1)
        return result

    def coefficient_box(self, *, reach: float = 1.0) -> tuple[tuple[float, float], ...]:
        """A public parameter box for coefficients on the scaled design, from the response's bounds.

        A slope may move the prediction by ``reach`` times the range of the response as its covariate goes from one
        bound to the other, either way; the intercept may lie ``reach`` such ranges outside the response's bounds.

        Raises
        ------
        ParameterError
            if the response has no bounds.

        >>> design = Design(response="y", covariates=("x",), bounds={"x": (0, 10), "y": (-1, 3)})
        >>> design.coefficient_box()
        ((-5.0, 7.0), (-4.0, 4.0))
        """
        check_real(reach, "reach", low=1e-6, high=1e6)
        low, high = self._needed_response_bounds("a coefficient box")
        room = reach * (high - low)
        least, largest = self._scaled_ends()
        slopes = [(-limit, limit) for limit in (room / (largest - least)).tolist()]
        return tuple(([(low - room, high + room)] if self.intercept else []) + slopes)

    def covariate_box(self) -> tuple[tuple[float, float], ...]:
        """The range of each scaled covariate, (1, 1) of the intercept.

        >>> Design(response="y", covariates=("x",), bounds={"x": (0, 10)}, scaling="symmetric").covariate_box()
        ((1.0, 1.0), (-1.0, 1.0))
        """
        least, largest = self._scaled_ends()
        ranges = zip(least.tolist(), largest.tolist(), strict=True)
        return (*(((1.0, 1.0),) if self.intercept else ()), *ranges)

    def scale_box(self) -> tuple[float, float]:
        """A public box for the scale of errors: from a millionth of the (scaled) response's range to all of it.

        A response's bounds may be far too wide, and a scale that was held at the end of its box would not be that of
        the errors.

        >>> Design(response="y", covariates=(), bounds={"y": (0, 10)}, response_scale=2).scale_box()
        (5e-06, 5.0)
        """
        low, high = self._needed_response_bounds("a scale box")
        return (high - low) / 1e6, high - low

    def _needed_response_bounds(self, purpose: str) -> tuple[float, float]:
        if self.response_bounds is None:
            raise ParameterError(
                f"bounds are required for {self.response!r}: {purpose} is made from the response's range"
            )
        return self.response_bounds

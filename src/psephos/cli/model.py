"""What ``psephos posterior`` estimates, from options alone: a wrong one is refused before a file is opened.

All numbers that shape a model are public: bounds, and what follows from them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psephos._check import check_choice, check_integer, check_real, exact
from psephos.bootstrap import Design, HuberLoss, LogisticLoss, MeanLoss, QuantileLoss, ShippedLoss
from psephos.bootstrap.design import parse_formula
from psephos.cli.posterior_options import ModelOptions
from psephos.errors import ParameterError

__all__ = ["LOG_ODDS", "MODELS", "MOST_COMPARISONS", "Model", "design_facts", "model_of"]

MODELS = ("huber", "quantile", "mean", "logistic", "bradley-terry")
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
MOST_COMPARISONS = 100
LOG_ODDS = (-10.0, 10.0)

_REGRESSIONS = ("huber", "quantile", "mean", "logistic")
_SCALED_RANGE = 10.0  # of a response divided by its default scale
_MOST_OFFSET = 1000.0  # times its range that a response may lie from zero: training is in single precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is to be estimated, from options alone.

    Attributes
    ----------
    name
        One of :data:`MODELS`.
    design
        The columns with their bounds; ``None`` for comparisons.
    loss
        ``None`` for comparisons, whose items may be in the file.
    box
        The box of every parameter as it was given, or ``None``.
    max_comparisons
        How many answers of a person count; ``None`` for columns.
    """

    name: str
    design: Design | None
    loss: ShippedLoss | None
    box: tuple[float, float] | None
    max_comparisons: int | None


def design_facts(design: Design) -> dict[str, Any]:
    """A design as JSON takes it."""
    return {
        "response": design.response,
        "covariates": list(design.covariates),
        "intercept": design.intercept,
        "bounds": {name: list(design.bounds[name]) for name in sorted(design.bounds)},
        "scaling": design.scaling,
        "response_scale": design.response_scale,
    }


def model_of(name: str, options: ModelOptions, *, max_comparisons: int | None, others: dict[str, bool]) -> Model:
    """The model that the options name; ``others`` says which options of some models alone were given beside them.

    Raises
    ------
    ParameterError
        for options that are absent, out of range or of another model.
    """
    check_choice(name, "model", MODELS)
    box = None if options.coefficient_box is None else split_interval(options.coefficient_box, "--coefficient-box")
    of_models = {
        "--formula": (options.formula is not None, _REGRESSIONS),
        "--bounds": (bool(options.bounds), _REGRESSIONS),
        "--levels": (options.levels is not None, ("quantile",)),
        "--raw-draws": (others.pop("--raw-draws"), ("quantile",)),
        "--clip": (options.clip is not None, ("mean",)),
        "--scaling": (options.scaling is not None, ("huber", "quantile", "logistic")),
        "--response-scale": (options.response_scale is not None, ("huber", "quantile", "mean")),
        **{option: (given, ("bradley-terry",)) for option, given in others.items()},
    }
    for option, (given, models) in of_models.items():
        if given and name not in models:
            raise ParameterError(f"{option} is for --model {', '.join(models)}, got --model {name}")
    if name == "bradley-terry":
        most = MOST_COMPARISONS if max_comparisons is None else max_comparisons
        check_integer(most, "--max-comparisons", low=1, high=10**6)
        return Model(name=name, design=None, loss=None, box=box, max_comparisons=most)
    if options.formula is None:
        example = "y ~ 1" if name == "mean" else "y ~ a + b"
        raise ParameterError(f"--formula is required for --model {name}, such as --formula '{example}'")
    design = _design(name, options.formula, options.bounds or (), options.scaling or "auto", options.response_scale)
    levels = LEVELS if options.levels is None else _numbers(options.levels)
    loss = _loss(name, design, box, levels, options.clip)
    return Model(name=name, design=design, loss=loss, box=box, max_comparisons=None)


# Symmetric is the default but for columns from 0 to 1: a covariate that is centred in its bounds shares less with the
# intercept, and the slope of a column stretched to twice the length has, in the column's units, half of the same noise.
# 0 and 1 mark a group, which may be small: centred, the intercept would be that of people half in it.
def _design(name: str, formula: str, bounds: Sequence[str], scaling: str, response_scale: float | None) -> Design:
    check_choice(scaling, "scaling", ("auto", "symmetric", "unit"))
    parsed = parse_formula(formula)
    if name == "mean" and (parsed.covariates or not parsed.intercept):
        raise ParameterError(f"--model mean takes no covariates: --formula 'y ~ 1', got {formula!r}")
    intervals: dict[str, tuple[float, float]] = {}
    for text in bounds:
        column, _, ends = text.rpartition("=")
        column = column.strip()
        if not column:
            raise ParameterError(f"--bounds must be NAME=LOW:HIGH, got {text!r}")
        if column in intervals:
            raise ParameterError(f"--bounds are given twice for {column!r}")
        intervals[column] = split_interval(ends, f"bounds of {column!r}")
    binary = name == "logistic"
    needed = (*parsed.covariates, *(() if binary else (parsed.response,)))
    missing = [column for column in needed if column not in intervals]
    if missing:
        options = " ".join(f"--bounds {shlex.quote(column)}=LOW:HIGH" for column in missing)
        raise ParameterError(f"bounds are required for {', '.join(map(repr, missing))}: {options}")
    scale = 1.0 if response_scale is None else response_scale
    if not binary:
        low, high = intervals[parsed.response]
        if not max(abs(low), abs(high)) <= _MOST_OFFSET * (high - low):
            raise ParameterError(
                f"bounds of {parsed.response!r} must not lie more than {_MOST_OFFSET:g} times their distance from 0, "
                f"got {low:g}:{high:g}; subtract a public number from the column first"
            )
        if response_scale is None:
            if not 1e-90 <= high - low <= 1e90:
                raise ParameterError(
                    f"bounds of {parsed.response!r} must be from 1e-90 to 1e90 apart, got {low:g}:{high:g}; or give "
                    "--response-scale"
                )
            scale = (high - low) / _SCALED_RANGE
    return Design.from_formula(
        formula,
        bounds=intervals,
        scaling=scaling,  # type: ignore[arg-type]
        response_scale=scale,
        response_kind="binary" if binary else "real",
    )


def _loss(
    name: str,
    design: Design,
    box: tuple[float, float] | None,
    levels: tuple[float, ...],
    clip: float | None,
) -> ShippedLoss:
    names, radius = design.names, design.covariate_bound
    if name == "logistic":
        return LogisticLoss(covariates=names, covariate_bound=radius, coefficient_box=box or LOG_ODDS)
    if name == "mean":
        low, high = design.response_bounds or (0.0, 0.0)
        most = high - low
        if clip is not None:
            most = check_real(clip, "--clip", low=1e-90, high=1e90) / design.response_scale
        return MeanLoss(data_bounds=(low, high), sd=1.0, clip=most, box=box)
    pairs = box or design.coefficient_box()
    if name == "quantile":
        return QuantileLoss(
            covariates=names,
            covariate_bound=radius,
            coefficient_box=pairs,
            levels=levels,
            covariate_box=design.covariate_box(),
        )
    return HuberLoss(covariates=names, covariate_bound=radius, coefficient_box=pairs, scale_box=design.scale_box())


def split_interval(text: str, name: str) -> tuple[float, float]:
    """LOW:HIGH as two numbers, the first below the second.

    >>> split_interval("-1:10", "bounds")
    (-1.0, 10.0)
    """
    allowed = "LOW:HIGH, two numbers with LOW < HIGH"
    low, colon, high = text.partition(":")
    try:
        ends = tuple(float(exact(end, name, allowed)) for end in (low, high))
    except (ParameterError, OverflowError):
        ends = ()
    if not colon or len(ends) != 2 or not ends[0] < ends[1]:
        raise ParameterError(f"{name} must be {allowed}, got {text!r}")
    return ends[0], ends[1]


def _numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    return tuple(float(exact(part, "--levels", "numbers between 0 and 1, as 0.1,0.5,0.9")) for part in text.split(","))

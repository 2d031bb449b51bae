"""What ``psephos posterior`` estimates: options and a file as records, a loss, and the way back to the data's units.

A :class:`Model` is made from options alone, so that a wrong one is refused before a file is opened. All numbers that
shape it are public: bounds, and what follows from them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psephos._check import check_choice, check_integer, check_real, exact
from psephos._json import json_text
from psephos.bootstrap import (
    BradleyTerryLoss,
    Design,
    FieldPosterior,
    GeneratorPosterior,
    HuberLoss,
    LogisticLoss,
    MeanLoss,
    NormalPosterior,
    PosteriorDraws,
    QuantileLoss,
    Records,
    ShippedLoss,
    TrainingPlan,
    comparison_records,
    private_generator,
    private_posterior,
    read_columns_csv,
)
from psephos.bootstrap.box import sharing
from psephos.bootstrap.design import parse_formula
from psephos.cli.inputs import read_data
from psephos.cli.output import note
from psephos.errors import DataError, ParameterError
from psephos.privacy import Ledger, Release
from psephos.profile import Comparisons

__all__ = [
    "MODELS",
    "Estimand",
    "Model",
    "check_training",
    "default_plan",
    "design_facts",
    "model_of",
    "planned",
]

MODELS = ("huber", "quantile", "mean", "logistic", "bradley-terry")
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
MOST_COMPARISONS = 100

_REGRESSIONS = ("huber", "quantile", "mean", "logistic")
_LOG_ODDS = (-10.0, 10.0)
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

    def read(self, file: Path, *, items: Path | None, items_public_as_seen: bool) -> Estimand:
        """Read the records.

        Raises
        ------
        DataError
            for what the file holds.
        ParameterError
            for a file of another kind.
        """
        if self.design is not None and self.loss is not None:
            return self._columns(file, self.design, self.loss)
        data = read_data(file, clean="reject", layout=None, items=items, strict=False)
        if not isinstance(data, Comparisons):
            raise ParameterError(f"{file.name!r} holds ballots, and --model bradley-terry is for comparisons")
        for line in data.notes:
            note(line)
        if data.person is None:
            raise ParameterError(
                f"{file.name!r} must say who answered, in a column person (or voter, judge, user, ...)"
            )
        if items_public_as_seen:
            data = data.with_items_public()
        seen = data.items_source == "assumed"
        return Estimand(
            model=self,
            loss=BradleyTerryLoss.from_comparisons(data, score_box=self.box or _LOG_ODDS),
            records=comparison_records(data, max_comparisons=self.max_comparisons or MOST_COMPARISONS),
            assumptions=("the list of items, as seen in the data, is public",) if seen else (),
        )

    def _columns(self, file: Path, design: Design, loss: ShippedLoss) -> Estimand:
        columns = read_columns_csv(file, [design.response, *design.covariates])
        try:
            records = design.records(columns)
        except DataError as error:
            raise DataError(f"row {error.line} below the header: {error.rule}", source=file.name) from None
        if isinstance(loss, MeanLoss):
            return Estimand(model=self, loss=loss, records=loss.records(records[1]))
        return Estimand(model=self, loss=loss, records=records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimand:
    """A model with the records of a file, and what the holder declared about them."""

    model: Model
    loss: ShippedLoss
    records: Records
    assumptions: tuple[str, ...] = ()

    @property
    def people(self) -> int:
        """How many records there are."""
        return len(self.records[0])

    def about(self) -> str:
        """The public settings that neither the loss nor the plan names."""
        design = self.model.design
        facts = {
            "model": self.model.name,
            "design": None if design is None else design_facts(design),
            "max_comparisons": self.model.max_comparisons,
        }
        return json_text(facts, indent=None)

    def released(
        self,
        method: str,
        *,
        epsilon: str,
        delta: str,
        plan: TrainingPlan,
        accountant: str,
        progress: Callable[[int, int], None] | None,
        ledger: Ledger | None,
        dataset: str | None,
        request_id: str | None,
        budget: tuple[str, str] | None,
    ) -> Release[NormalPosterior | FieldPosterior | GeneratorPosterior]:
        """The posterior by the method, its budget debited; ``plan`` and ``accountant`` are for training."""
        paid: Any = {
            "epsilon": epsilon,
            "delta": delta,
            "assumptions": self.assumptions,
            "about": self.about(),
            "ledger": ledger,
            "dataset": dataset,
            "request_id": request_id,
            "budget": budget,
        }
        if method == GeneratorPosterior.method:
            of_training: Any = {"plan": plan, "accountant": accountant, "progress": progress}
            return private_generator(self.records, self.loss, **of_training, **paid)
        return private_posterior(self.records, self.loss, method=method, **paid)  # type: ignore[arg-type] # checked there

    def sharing(self, sampler: NormalPosterior | FieldPosterior | GeneratorPosterior) -> tuple[tuple[str, ...], ...]:
        """Groups of coefficients that the data do not tell apart at this budget, by what was released alone."""
        design = self.model.design
        if design is None or isinstance(sampler, GeneratorPosterior):
            return ()
        directions, width = sampler.hidden_directions(), np.array(sampler.upper) - np.array(sampler.lower)
        parts = directions / width[:, None]  # of the box; the intercept is another one in the units of the data
        if design.intercept:
            coefficients = np.concatenate([np.zeros((len(design.names), 1)), directions[: len(design.names)]], axis=1)
            moved = design.original_units(coefficients.T)[:, 0]
            parts[0] = (moved[1:] - moved[0]) / (width[0] * design.response_scale)
        return tuple(group for group in sharing(sampler.names, parts) if len(group) > 1)

    def in_units_of_data(self, draws: PosteriorDraws) -> PosteriorDraws:
        """Coefficients on the columns as they are; of comparisons, scores with mean 0."""
        design = self.model.design
        if design is None:
            return draws.replaced(draws.values - draws.values.mean(axis=-1, keepdims=True))
        values = design.original_units(draws.values, with_scale=self.model.name == "huber")
        bounds = [design.bounds[name] for name in design.covariates]
        ranges = (*(((1.0, 1.0),) if design.intercept else ()), *bounds)
        return draws.replaced(values, noncrossing=None if draws.noncrossing is None else ranges)


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


def model_of(
    name: str,
    *,
    formula: str | None,
    bounds: Sequence[str],
    levels: str | None,
    clip: float | None,
    box: str | None,
    scaling: str | None,
    response_scale: float | None,
    max_comparisons: int | None,
    of_comparisons: dict[str, bool],
    raw_draws: bool = False,
) -> Model:
    """The model that the options name; ``of_comparisons`` says which options for comparisons were given.

    Raises
    ------
    ParameterError
        for options that are absent, out of range or of another model.
    """
    check_choice(name, "model", MODELS)
    interval = None if box is None else split_interval(box, "--coefficient-box")
    _refuse_others(
        name,
        {
            "--formula": (formula is not None, _REGRESSIONS),
            "--bounds": (bool(bounds), _REGRESSIONS),
            "--levels": (levels is not None, ("quantile",)),
            "--raw-draws": (raw_draws, ("quantile",)),
            "--clip": (clip is not None, ("mean",)),
            "--scaling": (scaling is not None, ("huber", "quantile", "logistic")),
            "--response-scale": (response_scale is not None, ("huber", "quantile", "mean")),
            **{option: (given, ("bradley-terry",)) for option, given in of_comparisons.items()},
        },
    )
    if name == "bradley-terry":
        most = MOST_COMPARISONS if max_comparisons is None else max_comparisons
        check_integer(most, "--max-comparisons", low=1, high=10**6)
        return Model(name=name, design=None, loss=None, box=interval, max_comparisons=most)
    if formula is None:
        example = "y ~ 1" if name == "mean" else "y ~ a + b"
        raise ParameterError(f"--formula is required for --model {name}, such as --formula '{example}'")
    design = _design(name, formula, bounds, scaling or "auto", response_scale)
    loss = _loss(name, design, interval, LEVELS if levels is None else _numbers(levels), clip)
    return Model(name=name, design=design, loss=loss, box=interval, max_comparisons=None)


def _refuse_others(name: str, options: dict[str, tuple[bool, tuple[str, ...]]]) -> None:
    for option, (given, models) in options.items():
        if given and name not in models:
            raise ParameterError(f"{option} is for --model {', '.join(models)}, got --model {name}")


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
        return LogisticLoss(covariates=names, covariate_bound=radius, coefficient_box=box or _LOG_ODDS)
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


def check_training(method: str, options: Mapping[str, object]) -> None:
    """Refuse options of a training, ``None`` where not given, with a method that trains nothing.

    Raises
    ------
    ParameterError
        naming the first of them.
    """
    given = [option for option, value in options.items() if value is not None]
    if given and method != GeneratorPosterior.method:
        raise ParameterError(f"{given[0]} is for --method {GeneratorPosterior.method}, got --method {method}")


def default_plan(model: str) -> TrainingPlan:
    """The source document's settings: S3.3 for quantiles, S3.2 for all else.

    >>> default_plan("quantile").draws, default_plan("mean").draws
    (5, 1)
    """
    if model == "quantile":
        return TrainingPlan(blocks=5, steps=5000, draws=5, probability="0.01", learning_rate=1e-3)
    return TrainingPlan()


def planned(
    model: str,
    *,
    steps: int | None,
    blocks: int | None,
    probability: str | None,
    monte_carlo: int | None,
    learning_rate: float | None,
) -> TrainingPlan:
    """The plan of a model, with what was given in place of its own."""
    if blocks is not None:
        check_integer(blocks, "--blocks", low=3, high=2**15)
    if monte_carlo is not None:
        check_integer(monte_carlo, "--monte-carlo", low=1)
    given = {
        "steps": steps,
        "blocks": blocks,
        "probability": probability,
        "draws": monte_carlo,
        "learning_rate": learning_rate,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(default_plan(model), **changes)

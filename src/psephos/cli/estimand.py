"""A model with the records of a file: what ``psephos posterior`` releases, and the way back to the data's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psephos._json import json_text
from psephos.bootstrap import (
    BradleyTerryLoss,
    FieldPosterior,
    GeneratorPosterior,
    MeanLoss,
    NormalPosterior,
    PosteriorDraws,
    Records,
    ShippedLoss,
    TrainingPlan,
    comparison_records,
    private_generator,
    private_posterior,
    read_columns_csv,
)
from psephos.bootstrap.box import sharing
from psephos.cli.inputs import read_data
from psephos.cli.model import LOG_ODDS, MOST_COMPARISONS, Model, design_facts
from psephos.cli.posterior_options import TrainingOptions
from psephos.errors import DataError, ParameterError
from psephos.privacy import Account, Release
from psephos.profile import Comparisons

__all__ = ["Estimand", "planned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimand:
    """A model with the records of a file, and what the holder declared about them."""

    model: Model
    loss: ShippedLoss
    records: Records
    assumptions: tuple[str, ...] = ()

    @classmethod
    def read(cls, model: Model, file: Path, *, items: Path | None, items_public: bool) -> Estimand:
        """The model with the records of a file.

        Raises
        ------
        DataError
            for what the file holds.
        ParameterError
            for a file of another kind.
        """
        if model.design is not None and model.loss is not None:
            columns = read_columns_csv(file, [model.design.response, *model.design.covariates])
            try:
                records = model.design.records(columns)
            except DataError as error:
                raise DataError(f"row {error.line} below the header: {error.rule}", source=file.name) from None
            if isinstance(model.loss, MeanLoss):
                records = model.loss.records(records[1])
            return cls(model=model, loss=model.loss, records=records)
        kind = ", and --model bradley-terry is for comparisons"
        data = read_data(file, items=items, strict=False, items_public=items_public, comparisons_only=kind)
        if not isinstance(data, Comparisons) or data.person is None:
            raise ParameterError(
                f"{file.name!r} must say who answered, in a column person (or voter, judge, user, ...)"
            )
        seen = data.items_source == "assumed"
        return cls(
            model=model,
            loss=BradleyTerryLoss.from_comparisons(data, score_box=model.box or LOG_ODDS),
            records=comparison_records(data, max_comparisons=model.max_comparisons or MOST_COMPARISONS),
            assumptions=("the list of items, as seen in the data, is public",) if seen else (),
        )

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
        progress: Callable[[int, int], None] | None,
        account: Account | None,
    ) -> Release[NormalPosterior | FieldPosterior | GeneratorPosterior]:
        """The posterior by the method, its budget debited; ``plan`` is for training."""
        paid: Any = {
            "epsilon": epsilon,
            "delta": delta,
            "assumptions": self.assumptions,
            "about": self.about(),
            "account": account,
        }
        if method == GeneratorPosterior.method:
            of_training: Any = {"plan": plan, "progress": progress}
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


def planned(model: str, training: TrainingOptions) -> TrainingPlan:
    """The training of a model: the settings of the published experiments (S3.3 for quantiles, else S3.2), or as given.

    >>> planned("quantile", TrainingOptions()).draws, planned("mean", TrainingOptions(monte_carlo=3)).draws
    (5, 3)
    """
    plan = TrainingPlan()
    if model == "quantile":
        plan = TrainingPlan(blocks=5, steps=5000, draws=5, probability="0.01", learning_rate=1e-3)
    changes = training.given()
    if "monte_carlo" in changes:
        changes["draws"] = changes.pop("monte_carlo")
    return replace(plan, **changes)

"""Groups of options of ``psephos posterior``: what is estimated, and how a generator is trained."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

__all__ = ["ModelOptions", "TrainingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What is known of the columns, and of the parameters."""

    formula: Annotated[
        str | None,
        typer.Option("--formula", help="Columns: 'y ~ a + b', with '- 1' for no intercept; 'y ~ 1' for a mean."),
    ] = None
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            "--bounds",
            help="NAME=LOW:HIGH, for every column: public, known without a look at the data. Values outside are moved "
            "to the nearer end.",
        ),
    ] = None
    levels: Annotated[
        str | None,
        typer.Option("--levels", "--taus", help="Quantiles: 0.1,0.3,0.5,0.7,0.9 or others; one budget for all."),
    ] = None
    clip: Annotated[
        float | None,
        typer.Option(
            "--clip", help="Mean: larger deviations count as this; less noise, and a bias where the data are skewed."
        ),
    ] = None
    coefficient_box: Annotated[
        str | None,
        typer.Option(
            "--coefficient-box",
            help="LOW:HIGH, the public range of every coefficient on the scaled columns, or of every score; by default "
            "from the bounds.",
        ),
    ] = None
    scaling: Annotated[
        str | None,
        typer.Option(
            "--scaling",
            help="How covariates are scaled: auto (the default: unit where bounds are 0:1, else symmetric), symmetric "
            "(-1 to 1: less noise in slopes) or unit (0 to 1).",
        ),
    ] = None
    response_scale: Annotated[
        float | None,
        typer.Option("--response-scale", help="A public divisor of the response; default a tenth of its range."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How the generator is trained; ``None`` where nothing was said."""

    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Generator: steps; default 10000, or 5000 for quantiles."),
    ] = None
    blocks: Annotated[
        int | None, typer.Option("--blocks", help="Generator: blocks of people; default 20, or 5 for quantiles.")
    ] = None
    probability: Annotated[
        str | None,
        typer.Option(
            "--probability",
            help="Generator: that a person is in a minibatch; default 0.1, or 0.01 for quantiles.",
        ),
    ] = None
    monte_carlo: Annotated[
        int | None,
        typer.Option("--monte-carlo", help="Generator: minibatches in a step; default 1, or 5 for quantiles."),
    ] = None
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Generator: default 5e-4, or 1e-3 for quantiles.")
    ] = None

    def given(self) -> dict[str, Any]:
        """What was said, by the names of the fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def check(self, method: str) -> None:
        """Refuse options of a training with a method that trains nothing, and numbers out of range."""
        from psephos._check import check_integer
        from psephos.errors import ParameterError

        for name in self.given():
            if method != "generator":
                raise ParameterError(f"--{name.replace('_', '-')} is for --method generator, got --method {method}")
        if self.blocks is not None:
            check_integer(self.blocks, "--blocks", low=3, high=2**15)
        if self.monte_carlo is not None:
            check_integer(self.monte_carlo, "--monte-carlo", low=1)

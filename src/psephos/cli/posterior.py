"""``psephos posterior``: private posterior draws of a regression, a mean or scores of comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.inputs import check_output
from psephos.cli.options import EpsilonOption, ItemsOption, ItemsPublicOption, LedgerOptions
from psephos.cli.output import (
    claimed,
    note,
    progress,
    progress_steps,
    quiet_stdout,
    write_result,
)
from psephos.cli.posterior_options import ModelOptions, TrainingOptions
from psephos.cli.posterior_output import draw_process, draws_of, encoded, json_text, notes_of, table_text, unknown_of

if TYPE_CHECKING:
    from psephos.bootstrap import Loss

__all__ = ["posterior"]

_MOST_DRAWS = 100_000
_SUFFIXES = (".nc", ".csv", ".npz")


def posterior(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV of numbers, one row a person (.csv or .csv.gz), or comparisons that say who answered.",
            show_default=False,
        ),
    ],
    *,
    model: Annotated[
        str,
        typer.Option("--model", help="huber, quantile, mean, logistic or bradley-terry.", show_default=False),
    ],
    epsilon: EpsilonOption,
    delta: Annotated[str, typer.Option("--delta", help="> 0, such as 1e-6.", show_default=False)],
    shape: ModelOptions,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="sandwich: noisy Newton steps, for posteriors that are near normal; field: a bootstrap of any shape, "
            "from gradients at many places; auto: the one of these that public facts favour; generator: a sampler "
            "trained by the private generative bootstrap via blocking, whose intervals do not hold the error that "
            "noise adds.",
        ),
    ] = "auto",
    draws: Annotated[int, typer.Option("--draws", help="How many posterior draws; any number costs the same.")] = 2000,
    raw_draws: Annotated[
        bool,
        typer.Option(
            "--raw-draws", help="Quantiles: leave draws as they are, whose lines may cross at some covariates."
        ),
    ] = False,
    output_format: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Write the draws: .nc (netCDF, for ArviZ), .csv (a row a draw) or .npz."),
    ] = None,
    sampler: Annotated[
        Path | None,
        typer.Option(
            "--sampler",
            help="Save the posterior that draws are of (NormalPosterior.load, FieldPosterior.load or "
            "GeneratorPosterior.load in Python), on the scaled columns.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", help="Quantiles: draw coefficients over the levels: .png, .svg or .pdf.", show_default=False
        ),
    ] = None,
    training: TrainingOptions,
    payment: LedgerOptions,
    items: ItemsOption = None,
    items_public_as_seen: ItemsPublicOption = False,
    max_comparisons: Annotated[
        int | None, typer.Option("--max-comparisons", help="Comparisons: the first so many of each person count; 100.")
    ] = None,
) -> None:
    """Release posterior draws of coefficients, a mean or scores under differential privacy.

    Noisy sums over the people give a posterior, of which draws are free. Coefficients are in the columns' own units.
    """
    from psephos._check import check_choice, check_integer, parse_delta, parse_epsilon
    from psephos.cli.estimand import Estimand, planned
    from psephos.cli.model import model_of
    from psephos.errors import ParameterError

    check_choice(output_format, "format", ("table", "json"))
    check_choice(method, "method", ("auto", "sandwich", "field", "generator"))
    check_integer(draws, "--draws", low=2, high=_MOST_DRAWS)
    parse_epsilon(epsilon)
    if not parse_delta(delta):
        raise ParameterError(f"delta must be > 0 for posterior draws, got {delta!r}")
    payment.check()
    for path, option in ((output, "--output"), (sampler, "--sampler")):
        check_output(path, option, read=(file, payment.ledger, items))
    _check_names_of_files(output, sampler)
    if picture is not None:
        _check_picture(picture, model, others=(file, payment.ledger, items, output, sampler))
    wanted = model_of(
        model,
        shape,
        max_comparisons=max_comparisons,
        others={
            "--raw-draws": raw_draws,
            "--items": items is not None,
            "--items-public-as-seen": items_public_as_seen,
            "--max-comparisons": max_comparisons is not None,
        },
    )
    training.check(method)
    plan, trains = planned(model, training), method == "generator"
    with claimed(output), claimed(sampler), claimed(picture), quiet_stdout():
        with progress("reading"):
            estimand = Estimand.read(wanted, file, items=items, items_public=items_public_as_seen)
            if trains and estimand.people < plan.blocks:
                raise ParameterError(
                    f"--blocks must be at most the number of people, got {plan.blocks} for {estimand.people}"
                )
            _try_format(output, estimand.loss)
        with progress_steps("training" if trains else "fitting") as report:
            release = estimand.released(
                method,
                epsilon=epsilon,
                delta=delta,
                plan=plan,
                progress=report,
                account=payment.account(),
            )
        drawn = estimand.in_units_of_data(draws_of(release.value, draws, raw=raw_draws))
        unknown = unknown_of(release.value)
        for line in notes_of(release.value, unknown, drawn, estimand.sharing(release.value), raw=raw_draws):
            note(line)
        if output_format == "json":
            text = json_text(release, estimand, drawn, unknown)
        else:
            text = table_text(release, estimand, drawn)
        content = None if output is None else encoded(drawn, output.suffix.lower())
        if picture is not None:
            draw_process(drawn, picture, release)
    if sampler is not None:
        release.value.save(sampler)
    if output is not None and content is not None:
        output.write_bytes(content)
    write_result(text, None)


def _check_picture(picture: Path, model: str, *, others: tuple[Path | None, ...]) -> None:
    from psephos.errors import ParameterError
    from psephos.report import check_picture

    check_picture(picture)
    if model != "quantile":
        raise ParameterError(f"--picture is for --model quantile, got --model {model}")
    for other in others:
        if other is not None and other.resolve() == picture.resolve():
            raise ParameterError(f"--picture must be a file of its own, got {picture.name!r}")


def _check_names_of_files(output: Path | None, sampler: Path | None) -> None:
    from psephos.errors import ParameterError

    if output is not None and output.suffix.lower() not in _SUFFIXES:
        raise ParameterError(f"--output must end in {', '.join(_SUFFIXES)}, got {output.name!r}")
    if output is not None and sampler is not None and output.resolve() == sampler.resolve():
        raise ParameterError(f"--output and --sampler must be two files, got {output.name!r} for both")


def _try_format(output: Path | None, loss: Loss) -> None:
    """Write two draws of nothing in memory: names that the format cannot hold are refused before anything is paid."""
    import numpy as np

    from psephos.bootstrap import PosteriorDraws
    from psephos.errors import ParameterError, PsephosError

    if output is None:
        return
    columns = [*([] if loss.levels is None else ["level"]), *loss.names]
    if len(set(columns)) < len(columns):
        raise ParameterError("--output has a column 'level' for the quantiles: rename the covariate of that name")
    shape = (2, len(loss.names)) if loss.levels is None else (len(loss.levels), 2, len(loss.names))
    trial = PosteriorDraws(values=np.zeros(shape), names=loss.names, levels=loss.levels)
    try:
        encoded(trial, output.suffix.lower())
    except PsephosError:
        raise
    except Exception as error:  # whatever the libraries of the format raise
        raise ParameterError(
            f"--output: {output.suffix} cannot hold these names ({error}); .csv and .npz can"
        ) from None

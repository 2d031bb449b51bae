"""``psephos posterior``: private posterior draws of a regression, a mean or scores of comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psephos.cli.inputs import (
    DatasetOption,
    EpsilonOption,
    ItemsOption,
    ItemsPublicOption,
    LedgerOption,
    RequestOption,
    TotalOption,
    check_files,
    check_output,
    split_budget,
)
from psephos.cli.output import (
    claimed,
    count_of,
    note,
    progress,
    progress_steps,
    quiet_stdout,
    shown,
    spending,
    write_csv,
    write_result,
)

if TYPE_CHECKING:
    from psephos.bootstrap import Loss, Posterior, PosteriorDraws
    from psephos.cli.estimand import Estimand
    from psephos.privacy import Release

__all__ = ["posterior"]

_LEVEL = 0.95  # of the intervals
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
    model: Annotated[
        str,
        typer.Option("--model", help="huber, quantile, mean, logistic or bradley-terry.", show_default=False),
    ],
    epsilon: EpsilonOption,
    delta: Annotated[str, typer.Option("--delta", help="> 0, such as 1e-6.", show_default=False)],
    formula: Annotated[
        str | None,
        typer.Option("--formula", help="Columns: 'y ~ a + b', with '- 1' for no intercept; 'y ~ 1' for a mean."),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            "--bounds",
            help="NAME=LOW:HIGH, for every column: public, known without a look at the data. Values outside are moved "
            "to the nearer end.",
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option("--levels", "--taus", help="Quantiles: 0.1,0.3,0.5,0.7,0.9 or others; one budget for all."),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            "--clip", help="Mean: larger deviations count as this; less noise, and a bias where the data are skewed."
        ),
    ] = None,
    coefficient_box: Annotated[
        str | None,
        typer.Option(
            "--coefficient-box",
            help="LOW:HIGH, the public range of every coefficient on the scaled columns, or of every score; by default "
            "from the bounds.",
        ),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            "--scaling",
            help="How covariates are scaled: symmetric (-1 to 1, the default: less noise in slopes) or unit (0 to 1).",
        ),
    ] = None,
    response_scale: Annotated[
        float | None,
        typer.Option("--response-scale", help="A public divisor of the response; default a tenth of its range."),
    ] = None,
    method: Annotated[str, typer.Option("--method", help="pgbb: private generative bootstrap via blocking.")] = "pgbb",
    draws: Annotated[int, typer.Option("--draws", help="How many posterior draws; any number costs the same.")] = 2000,
    output_format: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Write the draws: .nc (netCDF, for ArviZ), .csv (a row a draw) or .npz."),
    ] = None,
    sampler: Annotated[
        Path | None,
        typer.Option(
            "--sampler",
            help="Save the sampler (psephos.bootstrap.Posterior.load), whose draws are on the scaled columns.",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", help="Quantiles: draw coefficients over the levels: .png, .svg or .pdf.", show_default=False
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="Training steps; default 10000, or 5000 for quantiles.")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option("--blocks", help="Blocks of people; default 20, or 5 for quantiles.")
    ] = None,
    probability: Annotated[
        str | None,
        typer.Option("--probability", help="That a person is in a minibatch; default 0.1, or 0.01 for quantiles."),
    ] = None,
    monte_carlo: Annotated[
        int | None, typer.Option("--monte-carlo", help="Minibatches in a step; default 1, or 5 for quantiles.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Default 5e-4, or 1e-3 for quantiles.")
    ] = None,
    accountant: Annotated[
        str, typer.Option("--accountant", help="What sets the noise: pld (the least noise), rdp or paper.")
    ] = "pld",
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    budget: TotalOption = None,
    request_id: RequestOption = None,
    items: ItemsOption = None,
    items_public_as_seen: ItemsPublicOption = False,
    max_comparisons: Annotated[
        int | None, typer.Option("--max-comparisons", help="Comparisons: the first so many of each person count; 100.")
    ] = None,
) -> None:
    """Release posterior draws of coefficients, a mean or scores under differential privacy.

    A sampler is trained on noisy sums over the people; its draws are free. Coefficients are in the columns' own units.
    """
    from psephos._check import check_choice, check_integer, parse_delta, parse_epsilon
    from psephos.bootstrap import METHODS, private_posterior
    from psephos.cli.estimand import model_of, planned
    from psephos.errors import ParameterError
    from psephos.privacy import Ledger

    check_choice(output_format, "format", ("table", "json"))
    check_choice(method, "method", ("pgbb",))
    check_choice(accountant, "accountant", METHODS)
    check_integer(draws, "--draws", low=2, high=_MOST_DRAWS)
    parse_epsilon(epsilon)
    if not parse_delta(delta):
        raise ParameterError(f"delta must be > 0 for posterior draws, got {delta!r}")
    check_files(output, file=file, ledger=ledger, items=items, dataset=dataset, budget=budget, request_id=request_id)
    check_output(sampler, "--sampler", read=(file, ledger, items))
    _check_names_of_files(output, sampler)
    if picture is not None:
        _check_picture(picture, model, others=(file, ledger, items, output, sampler))
    wanted = model_of(
        model,
        formula=formula,
        bounds=bounds or (),
        levels=levels,
        clip=clip,
        box=coefficient_box,
        scaling=scaling,
        response_scale=response_scale,
        max_comparisons=max_comparisons,
        of_comparisons={
            "--items": items is not None,
            "--items-public-as-seen": items_public_as_seen,
            "--max-comparisons": max_comparisons is not None,
        },
    )
    plan = planned(
        model,
        steps=steps,
        blocks=blocks,
        probability=probability,
        monte_carlo=monte_carlo,
        learning_rate=learning_rate,
    )
    with claimed(output), claimed(sampler), claimed(picture), quiet_stdout():
        with progress("reading"):
            estimand = wanted.read(file, items=items, items_public_as_seen=items_public_as_seen)
            if estimand.people < plan.blocks:
                raise ParameterError(
                    f"--blocks must be at most the number of people, got {plan.blocks} for {estimand.people}"
                )
            _try_format(output, estimand.loss)
        with progress_steps("training") as report:
            release = private_posterior(
                estimand.records,
                estimand.loss,
                epsilon=epsilon,
                delta=delta,
                plan=plan,
                accountant=accountant,  # type: ignore[arg-type]
                progress=report,
                assumptions=estimand.assumptions,
                about=estimand.about(),
                ledger=None if ledger is None else Ledger(ledger),
                dataset=dataset,
                request_id=request_id,
                budget=split_budget(budget),
            )
        drawn = estimand.in_units_of_data(_draws(release.value, draws))
        note(
            "the spread of the draws is that of the blocked bootstrap, as learnt through noise: it does not hold the "
            "error that the noise itself adds, so an interval need not cover the truth as often as its level says"
        )
        text = _json(release, estimand, drawn) if output_format == "json" else _table(release, estimand, drawn)
        content = None if output is None else _encoded(drawn, output.suffix.lower())
        if picture is not None:
            _draw(drawn, picture, release)
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


def _draw(draws: PosteriorDraws, picture: Path, release: Release[Posterior]) -> None:
    from psephos.privacy import decimal_text
    from psephos.report import plot_process

    ends = draws.intervals(level=_LEVEL)
    plot_process(
        list(draws.levels or ()),
        [shown(name) for name in draws.names],
        draws.mean().tolist(),
        ends[..., 0].tolist(),
        ends[..., 1].tolist(),
        picture,
        title=f"coefficients over quantiles, {100 * _LEVEL:g}% intervals, epsilon "
        f"{decimal_text(release.guarantee.epsilon)}",
    )


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
        _encoded(trial, output.suffix.lower())
    except PsephosError:
        raise
    except Exception as error:  # whatever the libraries of the format raise
        raise ParameterError(
            f"--output: {output.suffix} cannot hold these names ({error}); .csv and .npz can"
        ) from None


def _draws(sampler: Posterior, count: int) -> PosteriorDraws:
    """Draws that follow from the sampler: a repeated request prints the same numbers."""
    import hashlib

    import numpy as np

    digest = hashlib.sha256(b"".join(array.tobytes() for layer in sampler.layers for array in layer)).digest()
    return sampler.sample(count, rng=np.random.default_rng(int.from_bytes(digest)))


def _encoded(draws: PosteriorDraws, suffix: str) -> bytes:
    """Draws as the bytes of a file."""
    import io
    import tempfile

    import numpy as np

    if suffix == ".csv":
        blocks = draws.values.tolist()
        if draws.levels is None:
            return write_csv(draws.names, blocks).encode()
        rows = [[level, *row] for level, block in zip(draws.levels, blocks, strict=True) for row in block]
        return write_csv(("level", *draws.names), rows).encode()
    if suffix == ".npz":
        buffer = io.BytesIO()
        levels = {} if draws.levels is None else {"levels": np.array(draws.levels)}
        np.savez(buffer, values=draws.values, names=np.array(draws.names), **levels)  # type: ignore[arg-type]
        return buffer.getvalue()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "draws.nc")
        draws.to_arviz().to_netcdf(str(path))
        return path.read_bytes()


def _table(release: Release[Posterior], estimand: Estimand, draws: PosteriorDraws) -> str:
    from dataclasses import replace

    named = replace(draws, names=tuple(shown(name) for name in draws.names))
    return "\n".join([named.table(level=_LEVEL), "", _sentence(release, estimand)])


def _sentence(release: Release[Posterior], estimand: Estimand) -> str:
    facts, noise = release.value.training, release.value.noise
    text = release.guarantee.sentence().rstrip(".")
    text += f"; method pgbb, noise of standard deviation {noise.sigma:.4g} on each coordinate of each of "
    text += f"{count_of(facts.compositions, 'weighted sum')} of gradients (accountant {noise.method}); "
    text += f"{count_of(estimand.people, 'person', 'people')} (their number: public)"
    if estimand.model.max_comparisons is not None:
        text += f", each with {count_of(estimand.model.max_comparisons, 'comparison')} at most"
    return text + spending(release)


def _json(release: Release[Posterior], estimand: Estimand, draws: PosteriorDraws) -> str:
    import json

    from psephos._check import exact
    from psephos.central.json_parts import budget_to_json, guarantee_to_json
    from psephos.cli.estimand import design_facts
    from psephos.privacy import decimal_text
    from psephos.privacy.events import event_to_json

    facts, noise, design = release.value.training, release.value.noise, estimand.model.design
    document = {
        "schema": "psephos.posterior-draws/1",
        "model": estimand.model.name,
        "coefficients": _coefficients(draws),
        "level": _LEVEL,
        "draws": draws.count,
        "design": None if design is None else design_facts(design),
        "plan": {
            "blocks": facts.blocks,
            "gamma": facts.gamma,
            "steps": facts.steps,
            "monte_carlo": facts.draws,
            "probability": decimal_text(exact(facts.probability, "probability", "a number")),
        },
        "guarantee": guarantee_to_json(
            release.guarantee,
            estimand.people,
            mechanism="pgbb",
            accountant=noise.method,
            noise_sd=noise.sigma,
            gradient_bound=facts.gradient_bound,
            comparisons_per_person=estimand.model.max_comparisons,
        ),
        "event": event_to_json(release.event),
        "secure": release.secure,
        "budget": budget_to_json(release.remaining),
    }
    return json.dumps(document, ensure_ascii=False, indent=2)


def _coefficients(draws: PosteriorDraws) -> list[dict[str, Any]]:
    """Mean, standard deviation and interval of every coefficient, at every level."""
    import numpy as np

    mean, sd, ends = draws.mean(), draws.sd(), draws.intervals(level=_LEVEL)
    return [
        {
            "name": draws.names[index[-1]],
            "level": None if draws.levels is None else draws.levels[index[0]],
            "mean": float(mean[index]),
            "sd": float(sd[index]),
            "low": float(ends[index][0]),
            "high": float(ends[index][1]),
        }
        for index in np.ndindex(mean.shape)
    ]

"""What ``psephos posterior`` shows and writes: draws as files, a table, JSON and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from psephos.cli.output import count_of, release_sentence, shown, write_csv

if TYPE_CHECKING:
    from psephos.bootstrap import FieldPosterior, GeneratorPosterior, NormalPosterior, PosteriorDraws
    from psephos.cli.estimand import Estimand
    from psephos.privacy import Release

__all__ = ["LEVEL", "draw_process", "draws_of", "encoded", "json_text", "notes_of", "table_text", "unknown_of"]

LEVEL = 0.95  # of the intervals
_LEAST_DRAWS = 20  # that ranks at that level take


def draw_process(draws: PosteriorDraws, picture: Path, release: Release[Any]) -> None:
    """Draw coefficients over the quantiles."""
    from psephos.privacy import decimal_text
    from psephos.report import plot_process

    ends = draws.intervals(level=LEVEL)
    plot_process(
        list(draws.levels or ()),
        [shown(name) for name in draws.names],
        draws.mean().tolist(),
        ends[..., 0].tolist(),
        ends[..., 1].tolist(),
        picture,
        title=f"coefficients over quantiles, {100 * LEVEL:g}% intervals, epsilon "
        f"{decimal_text(release.guarantee.epsilon)}",
    )


def draws_of(
    sampler: NormalPosterior | FieldPosterior | GeneratorPosterior, count: int, *, raw: bool
) -> PosteriorDraws:
    """Draws that follow from the sampler: a repeated request prints the same numbers."""
    import hashlib

    import numpy as np

    from psephos.bootstrap import FieldPosterior, GeneratorPosterior

    if isinstance(sampler, GeneratorPosterior):
        released = [array.tobytes() for layer in sampler.layers for array in layer]
    elif isinstance(sampler, FieldPosterior):
        released = [sampler.measured.slopes.tobytes(), sampler.scores.tobytes()]
    else:
        released = [x.tobytes() for x in (sampler.place, sampler.gradient, sampler.curvature, sampler.scores)]
    digest = hashlib.sha256(b"".join(released)).digest()
    return sampler.sample(count, rng=np.random.default_rng(int.from_bytes(digest)), rearranged=not raw)


def unknown_of(sampler: NormalPosterior | FieldPosterior | GeneratorPosterior) -> tuple[str, ...]:
    """Coordinates of which the data say little; a trained network does not tell."""
    from psephos.bootstrap import GeneratorPosterior

    return () if isinstance(sampler, GeneratorPosterior) else sampler.hardly_known()


def notes_of(
    sampler: NormalPosterior | FieldPosterior | GeneratorPosterior,
    unknown: tuple[str, ...],
    draws: PosteriorDraws,
    groups: tuple[tuple[str, ...], ...],
    *,
    raw: bool,
) -> list[str]:
    """What is said of the draws beside them; ``groups`` of coefficients are those that are not told apart."""
    from psephos.bootstrap import GeneratorPosterior

    said = []
    if isinstance(sampler, GeneratorPosterior):
        said.append(
            "the spread of the draws is that of the blocked bootstrap, as learnt through noise: it does not hold the "
            "error that the noise itself adds, so an interval need not cover the truth as often as its level says"
        )
    if sampler.reason is not None:
        said.append(f"method {sampler.method}: {sampler.reason}")
    if unknown:
        before = "" if draws.noncrossing is None else "before lines are kept from crossing, "
        said.append(
            f"the data say little at this budget of {', '.join(map(shown, unknown))}: {before}intervals take half of "
            "the parameter's public range, or end where it ends"
        )
    said += [
        f"the data do not tell {' and '.join(map(shown, group))} apart at this budget: one may be anything that the "
        "others make up for, and what they make together is known"
        for group in groups
    ]
    if draws.levels is not None and len(draws.levels) > 1 and draws.noncrossing is None and not raw:
        said.append("lines of the quantiles cross: without an intercept they meet where all columns are 0")
    return said


def encoded(draws: PosteriorDraws, suffix: str) -> bytes:
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


def table_text(release: Release[Any], estimand: Estimand, draws: PosteriorDraws) -> str:
    """A line a coefficient, and what is guaranteed."""
    from dataclasses import replace

    named = replace(draws, names=tuple(shown(name) for name in draws.names))
    lines = [named.table(level=LEVEL), ""]
    if draws.noncrossing is not None:
        lines += ["in no draw do lines of two quantiles cross within the bounds of the columns", ""]
    if (ranks := _ranks(estimand, named)) is not None:
        tiers = " > ".join(", ".join(tier) for tier in ranks["tiers"])
        lines += [f"tiers at level {LEVEL:g}, all at once: {tiers}", ""]
    return "\n".join([*lines, _sentence(release, estimand)])


def _ranks(estimand: Estimand, draws: PosteriorDraws) -> dict[str, Any] | None:
    """Ranks of items by scores from comparisons, or ``None``: also where there are too few draws for the level."""
    if estimand.model.name != "bradley-terry" or draws.count < _LEAST_DRAWS:
        return None
    found = draws.rank_intervals(level=LEVEL)
    names = draws.names
    items = [
        {"item": name, "best_rank": low, "worst_rank": high}
        for name, low, high in zip(names, found.low, found.high, strict=True)
    ]
    return {
        "level": LEVEL,
        "items": sorted(items, key=lambda item: (item["best_rank"], item["worst_rank"])),
        "tiers": [[names[i] for i in tier] for tier in found.tiers],
        "quantile": found.quantile,
        "draws": found.draws,
    }


def _sentence(release: Release[Any], estimand: Estimand) -> str:
    who = f"{count_of(estimand.people, 'person', 'people')} (their number: public)"
    if estimand.model.max_comparisons is not None:
        who += f", each with {count_of(estimand.model.max_comparisons, 'comparison')} at most"
    return release_sentence(release, [f"method {release.value.method}, {_noise(release)}", who])


def _noise(release: Release[Any]) -> str:
    from psephos.bootstrap import FieldPosterior, GeneratorPosterior

    value = release.value
    if isinstance(value, GeneratorPosterior):
        return (
            f"noise of standard deviation {value.noise.sigma:.4g} on each coordinate of each of "
            f"{count_of(value.training.compositions, 'weighted sum')} of gradients (accountant {value.noise.method})"
        )
    means = count_of(_means(release), "noisy mean")
    if isinstance(value, FieldPosterior):
        return f"{means}, {len(value.measured.points)} of them gradients at places of their own"
    return f"{means}, the last gradient with noise of standard deviation {value.gradient_sd:.4g} on each coordinate"


def _means(release: Release[Any]) -> int:
    """How many noisy means were released."""
    from psephos.privacy import ComposedGaussianEvent

    return len(release.event.parts) if isinstance(release.event, ComposedGaussianEvent) else 1


def json_text(release: Release[Any], estimand: Estimand, draws: PosteriorDraws, unknown: tuple[str, ...]) -> str:
    """All of it as JSON (``docs/json.md``)."""
    from psephos._json import json_text as to_json
    from psephos.central.json_parts import budget_to_json, guarantee_to_json
    from psephos.cli.model import design_facts
    from psephos.privacy.events import event_to_json

    plan, facts = _facts(release, unknown)
    design = estimand.model.design
    document = {
        "schema": "psephos.posterior-draws/1",
        "model": estimand.model.name,
        "method": release.value.method,
        "reason": release.value.reason,
        "coefficients": _coefficients(draws),
        "level": LEVEL,
        "draws": draws.count,
        "noncrossing": draws.noncrossing is not None,
        "rank_intervals": _ranks(estimand, draws),
        "design": None if design is None else design_facts(design),
        "plan": plan,
        "guarantee": guarantee_to_json(
            release.guarantee,
            estimand.people,
            mechanism=release.value.method,
            **facts,
            gradient_bound=estimand.loss.bound,
            comparisons_per_person=estimand.model.max_comparisons,
        ),
        "event": event_to_json(release.event),
        "secure": release.secure,
        "budget": budget_to_json(release.remaining),
    }
    return to_json(document)


def _facts(release: Release[Any], unknown: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Public settings, and what set the noise."""
    from psephos._check import exact
    from psephos.bootstrap import FieldPosterior, GeneratorPosterior
    from psephos.privacy import decimal_text

    value = release.value
    if not isinstance(value, GeneratorPosterior):
        plan = {"means": _means(release), "hardly_known": list(unknown)}
        noise = value.unit * value.measured.slope_sds[-1] if isinstance(value, FieldPosterior) else value.gradient_sd
        return plan, {"accountant": "gaussian", "noise_sd": float(noise)}
    training = value.training
    plan = {
        "blocks": training.blocks,
        "gamma": training.gamma,
        "steps": training.steps,
        "monte_carlo": training.draws,
        "probability": decimal_text(exact(training.probability, "probability", "a number")),
    }
    return plan, {"accountant": value.noise.method, "noise_sd": value.noise.sigma}


def _coefficients(draws: PosteriorDraws) -> list[dict[str, Any]]:
    """Mean, standard deviation and interval of every coefficient, at every level."""
    import numpy as np

    mean, sd, ends = draws.mean(), draws.sd(), draws.intervals(level=LEVEL)
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

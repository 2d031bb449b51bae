"""Means of well-specified models: Figure 4 of the document, which prints no numbers.

Gaussian with mean 1.5 and known sd .5 on [-5, 5], exponential with mean 2 on [0, 12]; n = 500, 5000; epsilon = 1, 2, 4
at delta = 1/n. Per-record derivatives are cut at 8 (S3.2). A row is one replicate: posterior mean and 95 % interval.

Not stated in the document: the exponential model is taken in its rate, from a start at 1, and draws of the rate become
draws of the mean (in the mean, derivatives are too small for 2,000 steps); DP-SGLD has step 1, which Table S7's
effective sample sizes imply, and the sampler's sampling probability, .2; NoisyGibbs has classical noise; DP-Bootstrap
releases 1,000 estimates with the published noise, deconvolved. Noisy Newton steps ("sandwich") and, for the Gaussian
mean, the score bootstrap, which are not the document's, stand beside.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regression import generator, key_of, multiplier_of, sigma_of
from rivals.dp_bootstrap import simulate_dp_bootstrap_mean
from rivals.dp_sgld import SgldPlan, simulate_dp_sgld
from rivals.noisy_gibbs_expfam import ExponentialMean, GaussianMean, sample_noisy_gibbs_mean
from summaries import NAMES, Rows, error_bars, measures, pick, stated

from psephos.bootstrap import (
    CustomLoss,
    Loss,
    MeanLoss,
    PosteriorDraws,
    TrainingPlan,
    private_posterior,
    simulate,
)
from psephos.bootstrap.losses import namespace
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

Floats = NDArray[np.float64]
Cell = dict[str, Any]

CELL = ("family", "n", "epsilon", "method", "replicate")
FAMILIES = ("gaussian", "exponential")
SIZES = (500, 5000)
EPSILONS = (1, 2, 4)
REPLICATES = {"PGBB": 20, "NoisyGibbs": 20, "DP-Bootstrap": 20, "sandwich": 100, "DP-SGLD": 3, "score bootstrap": 100}
OURS = {
    "sandwich": partial(private_posterior, method="sandwich"),
    "score bootstrap": partial(private_posterior, method="field"),
}
TRUTH = {"gaussian": 1.5, "exponential": 2.0}
BOUNDS = {"gaussian": (-5, 5), "exponential": (0, 12)}


def rate_value(theta: Any, records: Any, level: Any = None) -> Any:  # noqa: ARG001
    return theta[0] * records[0] - namespace(theta).log(theta[0])


def rate_gradient(theta: Any, records: Any, level: Any = None) -> Any:  # noqa: ARG001
    return (records[0] - 1 / theta[0])[:, None]


LOSSES: dict[str, Loss] = {
    "gaussian": MeanLoss(data_bounds=(-5.0, 5.0), sd=0.5, clip=8.0),
    "exponential": CustomLoss(
        value=rate_value,
        gradient=rate_gradient,
        bound=8.0,
        names=("rate",),
        lower=(1 / 12,),
        upper=(10.0,),
        start=(1.0,),
    ),
}
EXPONENTIAL = MeanLoss(data_bounds=(0.0, 12.0), family="exponential", clip=8.0)
PLAN = TrainingPlan(steps=2000, probability="0.2", gamma=1.0)
CHAIN = SgldPlan(steps=40_000, probability="0.2", step=1.0)


def data(family: str, n: int, replicate: int) -> Floats:
    rng = generator("data", family, n, replicate)
    return rng.normal(1.5, 0.5, n) if family == "gaussian" else rng.exponential(2.0, n)


def sampled(wanted: Cell, *, steps_kept: int = 0) -> PosteriorDraws:
    """Draws of one method; with ``steps_kept`` that many successive steps of NoisyGibbs, in place of its default."""
    family, n, epsilon, replicate = (wanted[name] for name in ("family", "n", "epsilon", "replicate"))
    values, loss, delta = data(family, n, replicate), LOSSES[family], f"1/{n}"
    records = (np.clip(values, *BOUNDS[family]),)
    key = key_of(*(wanted[name] for name in CELL))
    if wanted["method"] == "PGBB":
        sigma = sigma_of(PLAN, n, loss.bound, epsilon)
        release = simulate(records, loss, key=key, epsilon=epsilon, delta=delta, plan=PLAN, sigma=sigma)
        return release.value.sample(2000, rng=generator("draws", replicate))
    if wanted["method"] in OURS:
        in_the_mean = loss if isinstance(loss, MeanLoss) else EXPONENTIAL
        fit: Any = OURS[wanted["method"]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # of a delta of 1/n
            posterior = fit(records, in_the_mean, epsilon=epsilon, delta=delta, bits=InsecureBits(seed=key))
        return posterior.value.sample(2000, rng=generator("draws", replicate))
    if wanted["method"] == "DP-SGLD":
        plan = CHAIN
        multiplier = multiplier_of(plan, n, epsilon)
        return simulate_dp_sgld(
            records,
            loss,
            key=key,
            epsilon=epsilon,
            delta=delta,
            plan=plan,
            accountant="rdp",
            multiplier=multiplier,
        ).value
    if wanted["method"] == "NoisyGibbs":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            return sample_noisy_gibbs_mean(
                values,
                family=GaussianMean(sd=0.5) if family == "gaussian" else ExponentialMean(),
                data_bounds=BOUNDS[family],
                epsilon=epsilon,
                delta=delta,
                noise="classical",
                bits=InsecureBits(seed=key),
                rng=np.random.default_rng(key),
                **({"draws": steps_kept, "thin": 1} if steps_kept else {}),
            ).value
    estimates = simulate_dp_bootstrap_mean(
        values, data_bounds=BOUNDS[family], key=key, epsilon=epsilon, delta=delta, resamples=1000, scale="published"
    )
    return estimates.value.deconvolved(2000, rng=np.random.default_rng(key))


def measure(wanted: Cell) -> Cell:
    draws = sampled(wanted)
    if draws.names == ("rate",):
        draws = draws.replaced(1 / draws.values)
    (low, high), mean = draws.intervals()[0], draws.mean()[0]
    return {name: wanted[name] for name in CELL} | {
        "mean1": f"{mean:.6g}",
        "low1": f"{low:.6g}",
        "high1": f"{high:.6g}",
    }


def replicates_of(method: str, family: str, n: int) -> int:
    """More where the sampler's coverage is least."""
    return 100 if (method, family, n) == ("PGBB", "exponential", 500) else REPLICATES[method]


def families(method: str) -> tuple[str, ...]:
    """Those that a method takes: the score bootstrap's losses are convex."""
    return FAMILIES[:1] if method == "score bootstrap" else FAMILIES


def cells(*, quick: bool) -> list[Cell]:
    return [
        {"family": family, "n": n, "epsilon": epsilon, "method": method, "replicate": replicate}
        for method in REPLICATES
        for replicate in range(1 if quick else 100)
        for family in families(method)
        for n in (SIZES[:1] if quick else SIZES)
        for epsilon in EPSILONS
        if replicate < replicates_of(method, family, n)
    ]


def verdict(rows: Rows) -> dict[str, Any]:
    return {
        f"{family}, n = {n}, epsilon = {epsilon}, {method}": stated(
            measures(pick(rows, family=family, n=n, epsilon=epsilon, method=method), np.array([TRUTH[family]]), (0,))
        )
        for family in FAMILIES
        for n in SIZES
        for epsilon in EPSILONS
        for method in REPLICATES
        if family in families(method)
    }


def draw(rows: Rows, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    places = [(family, n, e) for family in FAMILIES for n in SIZES for e in EPSILONS if pick(rows, family=family, n=n)]
    for index, method in enumerate(REPLICATES):
        found = [
            stated(measures(chosen, np.array([TRUTH[family]]), (0,))) if chosen else None
            for family, n, e in places
            for chosen in [pick(rows, family=family, n=n, epsilon=e, method=method)]
        ]
        at = [i + 0.13 * (index - 2) for i, one in enumerate(found) if one]
        for axis, name in zip(axes, NAMES, strict=True):
            shown = [one for one in found if one]
            centre, bars = [one[name] for one in shown], error_bars(shown, name)
            axis.errorbar(at, centre, yerr=bars, fmt="o", markersize=4, label=method, color=f"C{index}")
    for axis, title in zip(axes, ("mean absolute error", "coverage", "width"), strict=True):
        axis.set_title(title)
        axis.set_xticks(range(len(places)), [f"{f[:5]} {n} {e}" for f, n, e in places], rotation=90, fontsize=8)
        if title != "coverage":
            axis.set_yscale("log")
    axes[1].axhline(0.95, color="#888888", linewidth=0.8)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

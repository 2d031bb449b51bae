"""What makes the sampler efficient: each change alone, and all together, in one cell of Table S2.

Contaminated normal errors, n = 10000, epsilon = 1, delta = 1/n, the document's sampler (``regression``) and, of it,

* ``accountant``: the exact joint privacy loss in place of the printed bound;
* ``bound``: the tight bound of a gradient;
* ``affine``: no hidden layers, a learning rate ten times as large;
* ``pilot``: three tenths of epsilon for noisy Newton steps (at delta / 2), whose estimate is the start;
* ``averaged``: the mean of the layers after each of the last half of the steps;
* ``full batch``: everyone in every step, 1,000 steps;
* ``blocks``: S = 100, which costs nothing at gamma*;
* ``together``: accountant, bound, affine, averaged and full batch;
* ``score bootstrap``: what takes the network's place, gradients at many places and draws that count the noise.

A row is one replicate: each coefficient's mean and 95 % interval.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import regression
from summaries import Rows, error_bars, measures, pick, stated

from psephos.bootstrap import (
    NetworkShape,
    PosteriorDraws,
    TrainingPlan,
    private_posterior,
    simulate,
)
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

CELL = ("lever", "replicate")
LEVERS = (
    "document",
    "accountant",
    "bound",
    "affine",
    "pilot",
    "averaged",
    "full batch",
    "blocks",
    "together",
    "score bootstrap",
)
REPLICATES = 10
NOISE, N = "contaminated_normal", 10_000

Cell = dict[str, Any]


def cells(*, quick: bool) -> list[Cell]:
    chosen = ("affine", "score bootstrap") if quick else LEVERS
    return [
        {"lever": lever, "replicate": replicate} for replicate in range(1 if quick else REPLICATES) for lever in chosen
    ]


def plan_of(lever: str) -> TrainingPlan:
    plan = TrainingPlan(gamma=None)
    if lever in ("affine", "together"):
        plan = replace(plan, network=NetworkShape(depth=0), learning_rate=5e-3)
    if lever in ("averaged", "together"):
        plan = replace(plan, averaged=0.5)
    if lever in ("full batch", "together"):
        plan = replace(plan, probability="1", steps=1000, learning_rate=10 * plan.learning_rate)
    if lever == "blocks":
        plan = replace(plan, blocks=100)
    return plan


def sampled(lever: str, replicate: int) -> PosteriorDraws:
    records = regression.records(NOISE, N, replicate)
    key = regression.key_of("levers", lever, replicate)
    bits, draws = InsecureBits(seed=key), regression.generator("draws", replicate)
    tight = replace(regression.LOSS, bound_rule="tight")
    if lever == "score bootstrap":
        fit = private_posterior(records, tight, method="field", epsilon=1, delta=f"1/{N}", bits=bits)
        return fit.value.sample(regression.DRAWS, rng=draws)
    loss = tight if lever in ("bound", "together") else regression.LOSS
    plan, epsilon, delta = plan_of(lever), "1", f"1/{N}"
    if lever == "pilot":
        epsilon, delta = "0.7", f"1/{2 * N}"
        pilot = private_posterior(records, loss, method="sandwich", epsilon="0.3", delta=delta, bits=bits).value
        found = pilot.estimate()
        loss = replace(loss, start=tuple(float(number) for number in found))
    exact = lever in ("accountant", "together", "full batch", "pilot", "blocks")
    release = simulate(
        records,
        loss,
        key=key,
        epsilon=epsilon,
        delta=delta,
        plan=plan,
        sigma=None if exact else regression.sigma_of(plan, N, loss.bound, 1),
    )
    return release.value.sample(regression.DRAWS, rng=draws)


def measure(wanted: Cell) -> Cell:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of a delta of 1/n
        draws = sampled(wanted["lever"], wanted["replicate"])
    centre, ends = draws.mean(), draws.intervals()
    row: Cell = {name: wanted[name] for name in CELL}
    for j in range(3):
        for name, value in (("mean", centre[j]), ("low", ends[j, 0]), ("high", ends[j, 1])):
            row[f"{name}{j + 1}"] = f"{value:.6g}"
    return row


def verdict(rows: Rows) -> dict[str, Any]:
    return {
        lever: stated(measures(pick(rows, lever=lever), regression.BETA, (0, 1, 2)))
        for lever in LEVERS
        if pick(rows, lever=lever)
    }


def draw(rows: Rows, path: Path) -> None:
    """Error and width of every lever."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = verdict(rows)
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for axis, name in zip(axes, ("mae", "width"), strict=True):
        values = [one[name] for one in found.values()]
        errors = error_bars(found.values(), name)
        axis.errorbar(values, np.arange(len(found)), xerr=errors, fmt="o", markersize=4)
        axis.set_yticks(np.arange(len(found)), list(found), fontsize=8)
        axis.invert_yaxis()
        axis.set_title({"mae": "mean absolute error"}.get(name, name))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

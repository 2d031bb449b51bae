"""Noisy Newton steps in the cells of Table S2: what a posterior that counts its noise reaches there.

Data and loss are those of ``regression``, but for the gradient bound, which is the tight one; delta = 1/n. A row is a
block of 50 replicates of one cell, 20 blocks a cell: means over replicates and coefficients, and the same of the fit
without privacy (epsilon = 10,000), whose interval has the width that sampling alone allows.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import regression
from numpy.typing import NDArray
from summaries import NAMES, Rows, error_bars, pick, published

from psephos.bootstrap import PosteriorMethod, private_posterior
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

CELL = ("noise", "n", "epsilon", "block")
BLOCKS, EACH = 20, 50
LOSS = replace(regression.LOSS, bound_rule="tight")
NO_PRIVACY = 10_000

Cell = dict[str, Any]


def cells(*, quick: bool) -> list[Cell]:
    """Blocks outermost, so that a run that is stopped has some of every cell."""
    return [
        {"noise": noise, "n": n, "epsilon": epsilon, "block": block}
        for block in range(1 if quick else BLOCKS)
        for noise in regression.NOISES
        for n in regression.SIZES[: 1 if quick else 2]
        for epsilon in regression.EPSILONS
    ]


def fitted(
    noise: str, n: int, epsilon: int, replicate: int, *, method: PosteriorMethod = "sandwich"
) -> NDArray[np.float64]:
    """Absolute error, inclusion of the truth and width, means over the coefficients."""
    key = regression.key_of("sandwich", noise, n, epsilon, replicate)
    records = regression.records(noise, n, replicate)
    bits = InsecureBits(seed=key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of a delta of 1/n, and of the fit without privacy
        posterior = private_posterior(records, LOSS, epsilon=epsilon, delta=f"1/{n}", method=method, bits=bits).value
    draws = posterior.sample(regression.DRAWS, rng=np.random.default_rng(key))
    centre, ends, truth = draws.mean()[:3], draws.intervals()[:3], regression.BETA
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return np.array([np.abs(centre - truth).mean(), inside.mean(), (ends[:, 1] - ends[:, 0]).mean()])


def measure(wanted: Cell) -> Cell:
    noise, n, block = wanted["noise"], wanted["n"], wanted["block"]
    replicates = range(block * EACH, (block + 1) * EACH)
    found = np.mean([fitted(noise, n, wanted["epsilon"], replicate) for replicate in replicates], axis=0)
    alone = fitted(noise, n, NO_PRIVACY, replicates[0])
    row = {name: wanted[name] for name in CELL} | {
        name: f"{value:.6g}" for name, value in zip(NAMES, found, strict=True)
    }
    return row | {"width_without_privacy": f"{alone[2]:.6g}"}


def summary(rows: Rows) -> dict[str, float]:
    """Means over the blocks, with standard errors."""
    found = np.array([[float(row[name]) for name in NAMES] for row in rows])
    alone = float(np.mean([float(row["width_without_privacy"]) for row in rows]))
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.zeros(3)
    result: dict[str, float] = {}
    for name, value, se in zip(NAMES, found.mean(axis=0), error, strict=True):
        result |= {name: float(f"{value:.4g}"), f"{name}_se": float(f"{se:.2g}")}
    return result | {
        "width over sampling": round(float(found[:, 2].mean()) / alone, 3),
        "replicates": EACH * len(rows),
    }


def verdict(rows: Rows) -> dict[str, Any]:
    """Each cell that has rows, and the document's sampler beside it."""
    result = {}
    for noise, n, epsilon in itertools.product(regression.NOISES, regression.SIZES, regression.EPSILONS):
        facts = {"noise": noise, "n": n, "epsilon": epsilon}
        if mine := pick(rows, **facts):
            theirs = published("regression", coefficient="mean", method="PGBB", **facts)
            result[regression.name_of(noise, n, epsilon)] = {
                "ours": summary(mine),
                "document": {name: float(theirs[name]) for name in NAMES},
            }
    return result


def draw(rows: Rows, path: Path) -> None:
    """Error, coverage and width of every cell; the document's sampler as hollow marks."""
    draw_cells(verdict(rows), path, label="sandwich")


def draw_cells(found: dict[str, Any], path: Path, *, label: str) -> None:
    """The picture of a verdict."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    for axis, name in zip(axes, NAMES, strict=True):
        ours = [cell["ours"] for cell in found.values()]
        errors = error_bars(ours, name)
        axis.errorbar(range(len(ours)), [one[name] for one in ours], yerr=errors, fmt="o", markersize=4, label=label)
        theirs = [cell["document"][name] for cell in found.values()]
        axis.plot(range(len(theirs)), theirs, "o", markersize=8, fillstyle="none", color="C1", label="document, PGBB")
        axis.set_title({"mae": "mean absolute error"}.get(name, name))
        axis.set_xticks(range(len(found)), [text.replace("epsilon", "eps") for text in found], rotation=90, fontsize=7)
        if name != "coverage":
            axis.set_yscale("log")
    axes[1].axhline(0.95, color="#888888", linewidth=0.8)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

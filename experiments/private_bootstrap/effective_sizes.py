"""Effective sample sizes of the two rivals that run chains: Table S7 of the document.

Chains are those of ``exponential_family`` and ``regression``, the first half dropped; NoisyGibbs keeps every step of a
mean's chain, and in the regression every tenth of a quarter of the document's steps. A row is one replicate: the mean
over the coefficients of ArviZ's effective size, for 1,000 steps after the burn-in, the unit in which chains of any
length compare.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import exponential_family
import numpy as np
import regression
from summaries import Rows, pick, published

from psephos.bootstrap import PosteriorDraws
from psephos.errors import PrivacyWarning

Cell = dict[str, Any]

CELL = ("example", "n", "epsilon", "method", "replicate")
EXAMPLES = (("exponential", 500), ("exponential", 5000), ("gaussian", 500), ("gaussian", 5000))
EXAMPLES += (("regression", 10_000), ("regression", 40_000))
METHODS = ("NoisyGibbs", "DP-SGLD")
EPSILONS = (1, 2, 4)
REPLICATES = 6


def cells(*, quick: bool) -> list[Cell]:
    return [
        {"example": example, "n": n, "epsilon": epsilon, "method": method, "replicate": replicate}
        for replicate in range(1 if quick else REPLICATES)
        for method in METHODS
        for example, n in (EXAMPLES[:1] if quick else EXAMPLES)
        for epsilon in EPSILONS
    ]


def chain(wanted: Cell) -> tuple[PosteriorDraws, int]:
    """Draws of one chain, and how many steps after the burn-in they stand for."""
    example, n, epsilon, method, replicate = (wanted[name] for name in CELL)
    if example != "regression":
        one = {"family": example, "n": n, "epsilon": epsilon, "method": method, "replicate": replicate}
        draws = exponential_family.sampled(one, steps_kept=2000)
        return draws, draws.count
    noise = regression.NOISES[replicate % 2]
    draws = regression.OF[method](regression.cell(noise, n, epsilon, method, replicate))
    return draws, draws.count * (10 if method == "NoisyGibbs" else 1)


def measure(wanted: Cell) -> Cell:
    import arviz

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        draws, steps = chain(wanted)
    kept = draws.values[:, :3]
    sizes = [float(arviz.ess(np.ascontiguousarray(column)[None, :])) for column in kept.T]
    return {name: wanted[name] for name in CELL} | {"per_thousand": f"{1000 * np.mean(sizes) / steps:.4g}"}


def verdict(rows: Rows) -> dict[str, Any]:
    """Each cell that has rows, beside the document's, and the largest ratio of the two either way."""
    result: dict[str, Any] = {}
    for method in METHODS:
        found: dict[str, Any] = {}
        for example, n in EXAMPLES:
            for epsilon in EPSILONS:
                facts = {"example": example, "n": n, "epsilon": epsilon, "method": method}
                if mine := [float(row["per_thousand"]) for row in pick(rows, **facts)]:
                    theirs = float(published("effective_sizes", **facts)["per_thousand"])
                    found[f"{example}, n = {n}, epsilon = {epsilon}"] = {
                        "ours": float(f"{np.mean(mine):.4g}"),
                        "ours_se": float(f"{np.std(mine, ddof=1) / math.sqrt(len(mine)):.2g}") if mine[1:] else 0.0,
                        "document": theirs,
                        "ratio": round(float(np.mean(mine)) / theirs, 3),
                    }
        ratios = [cell["ratio"] for cell in found.values()]
        result[method] = found | {"least ratio": min(ratios), "largest ratio": max(ratios)}
    return result


def draw(rows: Rows, path: Path) -> None:
    """Ours against the document's, one mark a cell."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(5, 4.6), layout="constrained")
    for index, (method, found) in enumerate(verdict(rows).items()):
        both = [cell for cell in found.values() if isinstance(cell, dict)]
        theirs, ours = ([cell[name] for cell in both] for name in ("document", "ours"))
        axis.plot(theirs, ours, "o", color=f"C{index}", label=method)
    axis.axline((1, 1), slope=1, color="#888888", linewidth=0.8)
    axis.set(xscale="log", yscale="log", xlabel="document", ylabel="here", title="effective draws of 1,000 steps")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

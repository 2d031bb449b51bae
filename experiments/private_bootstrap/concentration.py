"""gamma = 1 against gamma*: Figure 3(b) of the document, at S = 5 and 20, n = 10000, epsilon = 4, where it shows most.

The figure has no table; its text says that coverage at S = 5 with gamma = 1 falls to 0.87-0.88 here, that gamma*
restores it, and that gamma = 1 is a serviceable default at moderate S.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import regression
from summaries import NAMES, Rows, error_bars, pick

CELL = regression.CELL
REPLICATES = 100
SETTINGS = ((5, "1"), (5, "star"), (20, "1"), (20, "star"))
N, EPSILON = 10_000, 4


def cells(*, quick: bool) -> list[regression.Cell]:
    return [
        regression.cell(noise, 2000 if quick else N, EPSILON, "PGBB", replicate, blocks=blocks, gamma=gamma)
        for replicate in range(1 if quick else REPLICATES)
        for blocks, gamma in SETTINGS
        for noise in regression.NOISES
    ]


def measure(cell: regression.Cell) -> regression.Cell:
    return regression.measure(cell)


def verdict(rows: Rows) -> dict[str, Any]:
    return {
        f"{noise}, S = {blocks}, gamma {'= 1' if gamma == '1' else '*'}": regression.summary(
            rows, noise=noise, blocks=blocks, gamma=gamma
        )
        for noise in regression.NOISES
        for blocks, gamma in SETTINGS
    }


def draw(rows: Rows, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for index, noise in enumerate(regression.NOISES):
        found = [regression.summary(pick(rows, noise=noise), blocks=blocks, gamma=gamma) for blocks, gamma in SETTINGS]
        for axis, name in zip(axes, NAMES, strict=True):
            errors = error_bars(found, name)
            place = np.arange(len(found)) + 0.1 * index
            axis.errorbar(place, [one[name] for one in found], yerr=errors, fmt="o", label=noise)
            axis.set_title(name)
            axis.set_xticks(range(len(found)), [f"S={s}, gamma {'1' if g == '1' else '*'}" for s, g in SETTINGS])
    axes[1].axhline(0.95, color="#888888", linewidth=0.8)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

"""The score bootstrap, the efficient way to the sampler's posterior, in the cells of Table S2.

Data, loss and delta are those of ``sandwich``, replicate by replicate. A row is a block of 10 replicates of one cell,
40 blocks a cell of 10,000 people, whose coverage is nearest to its bar, and 10 of 40,000: means over replicates and
coefficients.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import regression
import sandwich
from summaries import HERE, NAMES, Rows, pick, published, read, stated

CELL = ("noise", "n", "epsilon", "block")
BLOCKS, EACH = {10_000: 40, 40_000: 10}, 10

Cell = dict[str, Any]


def cells(*, quick: bool) -> list[Cell]:
    kinds = [cell for cell in sandwich.cells(quick=quick) if cell["block"] == 0]
    most = dict.fromkeys(BLOCKS, 1) if quick else BLOCKS
    return [cell | {"block": block} for block in range(max(most.values())) for cell in kinds if block < most[cell["n"]]]


def measure(wanted: Cell) -> Cell:
    noise, n, epsilon, block = (wanted[name] for name in CELL)
    found = np.mean(
        [
            sandwich.fitted(noise, n, epsilon, replicate, method="field")
            for replicate in range(block * EACH, (block + 1) * EACH)
        ],
        axis=0,
    )
    return {name: wanted[name] for name in CELL} | {
        name: f"{value:.6g}" for name, value in zip(NAMES, found, strict=True)
    }


def verdict(rows: Rows) -> dict[str, Any]:
    """Each cell that has rows, beside the document's sampler and noisy Newton steps."""
    result: dict[str, Any] = {}
    steps = read(HERE / "sandwich.csv")
    for noise, n, epsilon in itertools.product(regression.NOISES, regression.SIZES, regression.EPSILONS):
        facts = {"noise": noise, "n": n, "epsilon": epsilon}
        if mine := pick(rows, **facts):
            ours = stated(np.array([[float(row[name]) for name in NAMES] for row in mine]))
            theirs = published("regression", coefficient="mean", method="PGBB", **facts)
            width = np.mean([float(row["width"]) for row in pick(steps, **facts)])
            result[regression.name_of(noise, n, epsilon)] = {
                "ours": ours | {"replicates": EACH * len(mine), "width over sandwich": round(ours["width"] / width, 3)},
                "document": {name: float(theirs[name]) for name in NAMES},
            }
    return result


def draw(rows: Rows, path: Path) -> None:
    """Error, coverage and width of every cell; the document's sampler as hollow marks."""
    sandwich.draw_cells(verdict(rows), path, label="score bootstrap")

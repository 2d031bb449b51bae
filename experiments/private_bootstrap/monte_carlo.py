"""The number K of Monte Carlo draws: Table S6 of the document, K = 10 beside regression.py's K = 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import regression
from summaries import HERE, Rows, beside, pick, published, read

CELL = regression.CELL
REPLICATES = 10


def cells(*, quick: bool) -> list[regression.Cell]:
    return [one | {"draws": 10} for one in regression.cells_of("PGBB", replicates=REPLICATES, quick=quick)]


def measure(cell: regression.Cell) -> regression.Cell:
    return regression.measure(cell)


def verdict(rows: Rows) -> dict[str, Any]:
    """Each cell beside the document's."""
    found = {
        regression.name_of(noise, n, epsilon): beside(
            regression.summary(rows, noise=noise, n=n, epsilon=epsilon),
            published("monte_carlo", noise=noise, n=n, epsilon=epsilon, K=10),
        )
        for noise in regression.NOISES
        for n in regression.SIZES
        for epsilon in regression.EPSILONS
    }
    return found | {
        f"most {name} apart": max(one[f"{name} apart"] for one in found.values()) for name in ("mae", "width")
    }


def draw(rows: Rows, path: Path) -> None:
    one = pick(read(HERE / "regression.csv"), method="PGBB")
    regression.draw_cells({"K = 1": one, "K = 10": rows} if one else {"K = 10": rows}, path)

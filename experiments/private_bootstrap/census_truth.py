"""People who are like the census of 1980 and whose truth is known: coverage of the truth, and 99 levels at one budget.

Covariates are drawn from the census with replacement, 65,023 people; a person's wage is the linear quantile at a
uniform level, of coefficients that run through the fits without privacy (``census``), straight in normal quantiles. The
truth at a level is the minimiser of the smoothed loss over ten such samples. Levels are the five of ``census``, or .01,
.02 ... .99, all at the one budget of epsilon = 1, delta = 1/n.

A row is one replicate by one method: coverage and mean width of 95 % intervals for each coefficient, over levels.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import census
import numpy as np
import scipy.special
from numpy.typing import NDArray
from regression import generator, key_of
from summaries import Rows, pick

from psephos.bootstrap import QuantileLoss
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

CELL = ("method", "levels", "replicate")
LEVELS = {5: census.LEVELS, 99: tuple(round(0.01 * k, 2) for k in range(1, 100))}
REPLICATES = {("sandwich", 5): 40, ("score bootstrap", 5): 40, ("score bootstrap", 99): 8}

Floats = NDArray[np.float64]
Cell = dict[str, Any]


def people(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Records of simulated people: covariates scaled to [0, 1], and log wages."""
    x, _ = census.DESIGN.records(census.columns())
    x = x[rng.integers(len(x), size=len(x))]
    coefficients = census.reference() / census.UNITS
    scaled = coefficients.copy()  # on columns scaled to [0, 1]
    for j, name in enumerate(census.VARIABLES, start=1):
        low, high = census.BOUNDS[name]
        scaled[:, 0] += coefficients[:, j] * low
        scaled[:, j] = coefficients[:, j] * (high - low)
    # Beyond the outer levels coefficients go on as they run there, in normal quantiles.
    level = scipy.special.ndtri(rng.random(len(x)))
    knots = scipy.special.ndtri(np.array(census.LEVELS))
    right = np.clip(np.searchsorted(knots, level), 1, len(knots) - 1)
    part = (level - knots[right - 1]) / (knots[right] - knots[right - 1])
    beta = scaled[right - 1] * (1 - part)[:, None] + scaled[right] * part[:, None]
    return x, np.sum(x * beta, axis=1)


@lru_cache
def truth(count: int) -> Floats:
    """(levels, 4), on the scaled columns."""
    parts = [people(generator("census truth population", k)) for k in range(10)]
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    found, beta = [], np.array([5.5, 1.0, 0.0, 0.0])
    for level in LEVELS[count]:
        for _ in range(60):
            z = (y - x @ beta) / census.LOSS.bandwidth
            slope = x.T @ (scipy.special.ndtr(-z) - level) / len(x)
            weight = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) / census.LOSS.bandwidth
            step = np.linalg.solve((x * weight[:, None]).T @ x / len(x), slope)
            beta = beta - step * min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-12))
            if np.abs(step).max() < 1e-6:
                break
        found.append(beta)
    return np.array(found)


def measure(wanted: Cell) -> Cell:
    method, count, replicate = (wanted[name] for name in CELL)
    records = people(generator("census truth", replicate))
    loss: QuantileLoss = replace(census.LOSS, levels=LEVELS[count], level_weights=())
    key = key_of("census truth", method, count, replicate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of a delta of 1/n
        release = census.OURS[method](
            records, loss, epsilon=1, delta=f"1/{len(records[0])}", bits=InsecureBits(seed=key)
        )
    draws = release.value.sample(2000 if count == 5 else 1000, rng=np.random.default_rng(key))
    ends, exact = draws.intervals(), truth(count)
    inside = (ends[..., 0] <= exact) & (exact <= ends[..., 1])
    row: Cell = {name: wanted[name] for name in CELL}
    for j, name in enumerate(("intercept", *census.VARIABLES)):
        row[f"{name}_coverage"] = f"{inside[:, j].mean():.5g}"
        row[f"{name}_width"] = f"{(ends[:, j, 1] - ends[:, j, 0]).mean():.5g}"
    return row


def cells(*, quick: bool) -> list[Cell]:
    return [
        {"method": method, "levels": levels, "replicate": replicate}
        for (method, levels), count in REPLICATES.items()
        if not quick or levels == 5
        for replicate in range(1 if quick else count)
    ]


def verdict(rows: Rows) -> dict[str, Any]:
    result = {}
    for method, levels in REPLICATES:
        if mine := pick(rows, method=method, levels=levels):
            figures: dict[str, float] = {"replicates": len(mine)}
            for name in ("intercept", *census.VARIABLES):
                inside = np.array([float(row[f"{name}_coverage"]) for row in mine])
                figures[f"{name} coverage"] = round(float(inside.mean()), 4)
                figures[f"{name} coverage_se"] = round(float(inside.std(ddof=1) / np.sqrt(len(mine))), 4)
                figures[f"{name} width"] = round(float(np.mean([float(row[f"{name}_width"]) for row in mine])), 4)
            result[f"{method}, {levels} levels"] = figures
    return result


def draw(rows: Rows, path: Path) -> None:
    """Coverage of each coefficient, with two standard errors."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    names = ("intercept", *census.VARIABLES)
    for index, (label, figures) in enumerate(verdict(rows).items()):
        values = [figures[f"{name} coverage"] for name in names]
        errors = [2 * figures[f"{name} coverage_se"] for name in names]
        axis.errorbar(np.arange(4) + 0.1 * index, values, yerr=errors, fmt="o", markersize=4, label=label)
    axis.axhline(0.95, color="#888888", linewidth=0.8)
    axis.set_xticks(range(4), names)
    axis.set_title("coverage of the truth")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

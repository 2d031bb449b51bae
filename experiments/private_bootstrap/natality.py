"""A stand-in of the natality application's size: our numbers, not the document's.

1,940,000 simulated records with an intercept and 13 covariates (ten indicators, age, cigarettes and weight gain
scaled to [0, 1]) and a birth weight in kilograms whose spread depends on them, so that coefficients differ between
the levels. Settings of the document (S3.3): S = 5, K = 5, q = .01, T = 10000, learning rate .001, five levels at
once. A row is one run: seconds and peak memory, and each coefficient's mean and interval at three levels, in grams,
beside the smoothed fit without privacy.
"""

from __future__ import annotations

import resource
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regression import generator, key_of, sigma_of
from rivals.m_estimate import weighted_m_estimate
from summaries import Rows

from psephos.bootstrap import QuantileLoss, TrainingPlan, simulate

Floats = NDArray[np.float64]
Cell = dict[str, Any]

CELL = ("n", "epsilon", "replicate")
N = 1_940_000
INDICATORS = ("black", "nosmoke", "married", "boy", "hsgrad", "somecoll", "collgrad", "natal2", "natal3", "novisit")
NAMES = ("intercept", *INDICATORS, "age", "cigarettes", "gain")
SHARES = (0.16, 0.93, 0.6, 0.51, 0.25, 0.27, 0.37, 0.16, 0.04, 0.02)
LOCATION = np.array([2.65, -0.20, 0.18, 0.05, 0.11, 0.02, 0.03, 0.05, -0.02, -0.06, -0.15, 0.10, -0.30, 0.70])
SPREAD = np.array([0.55, 0.04, -0.05, -0.02, 0.01, -0.01, -0.01, -0.02, 0.01, 0.03, 0.08, 0.02, 0.05, -0.10])
LEVELS = (0.1, 0.5, 0.9)
LOSS = QuantileLoss(covariates=NAMES, covariate_bound=14**0.5, coefficient_box=(-10.0, 10.0), start=(0.0,) * 14)
PLAN = TrainingPlan(blocks=5, steps=10_000, draws=5, probability="0.01", learning_rate=1e-3)


@lru_cache(maxsize=1)
def records(n: int) -> tuple[Floats, Floats]:
    rng = generator("natality", n)
    x = np.ones((n, 14))
    for j, share in enumerate(SHARES, start=1):
        x[:, j] = rng.random(n) < share
    x[:, 11] = rng.beta(4, 4, n)
    x[:, 12] = np.where(x[:, 2] == 1, 0.0, rng.beta(1.2, 6, n))
    x[:, 13] = rng.beta(3, 5, n)
    return x, x @ LOCATION + (x @ SPREAD) * rng.normal(size=n)


@lru_cache(maxsize=1)
def reference(n: int) -> Floats:
    return np.array([weighted_m_estimate(records(n), LOSS, level=level) for level in LEVELS])


def measure(wanted: Cell) -> Cell:
    n, epsilon = wanted["n"], wanted["epsilon"]
    plan = PLAN if n == N else TrainingPlan(blocks=5, steps=200, draws=5, probability="0.01", learning_rate=1e-3)
    data, sigma = records(n), sigma_of(plan, n, LOSS.bound, epsilon)
    begin = time.perf_counter()
    release = simulate(
        data,
        LOSS,
        key=key_of("natality", *(wanted[name] for name in CELL)),
        epsilon=epsilon,
        delta=f"1/{n}",
        plan=plan,
        sigma=sigma,
    )
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    draws = release.value.sample(2000, levels=LEVELS, rng=generator("draws", wanted["replicate"]))
    row = {name: wanted[name] for name in CELL} | {"seconds": f"{seconds:.0f}", "peak_mib": f"{peak:.0f}"}
    centre, intervals = 1000 * draws.mean(), 1000 * draws.intervals()
    for t, level in enumerate(LEVELS):
        for j, name in enumerate(NAMES):
            row |= {
                f"{name}_{level}_mean": f"{centre[t, j]:.5g}",
                f"{name}_{level}_low": f"{intervals[t, j, 0]:.5g}",
                f"{name}_{level}_high": f"{intervals[t, j, 1]:.5g}",
                f"{name}_{level}_reference": f"{1000 * reference(n)[t, j]:.5g}",
            }
    return row


def cells(*, quick: bool) -> list[Cell]:
    return [
        {"n": 20_000 if quick else N, "epsilon": epsilon, "replicate": 0} for epsilon in ((1,) if quick else (1, 4))
    ]


def verdict(rows: Rows) -> dict[str, Any]:
    """Time, memory, and error, inclusion and width in grams, means over coefficients and levels."""
    result: dict[str, Any] = {}
    for row in rows:
        parts = [f"{name}_{level}" for level in LEVELS for name in NAMES]
        mean, low, high, exact = (
            np.array([float(row[f"{part}_{label}"]) for part in parts])
            for label in ("mean", "low", "high", "reference")
        )
        result[f"epsilon = {row['epsilon']}"] = {
            "records": int(row["n"]),
            "seconds": int(row["seconds"]),
            "peak MiB": int(row["peak_mib"]),
            "mae": round(float(np.abs(mean - exact).mean()), 1),
            "coverage": round(float(((low <= exact) & (exact <= high)).mean()), 2),
            "width": round(float((high - low).mean()), 1),
        }
    return result


def draw(rows: Rows, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(LEVELS), figsize=(14, 4.4), layout="constrained")
    for axis, level in zip(axes, LEVELS, strict=True):
        for index, row in enumerate(rows):
            mean, low, high, exact = (
                np.array([float(row[f"{name}_{level}_{label}"]) for name in NAMES[1:]])
                for label in ("mean", "low", "high", "reference")
            )
            at = np.arange(len(mean)) + 0.2 * index
            axis.errorbar(
                at,
                mean - exact,
                yerr=[mean - low, high - mean],
                fmt="o",
                markersize=3,
                label=f"epsilon {row['epsilon']}",
            )
        axis.axhline(0, color="#888888", linewidth=0.8)
        axis.set_title(f"level {level}: grams from the fit without privacy")
        axis.set_xticks(range(13), NAMES[1:], rotation=90, fontsize=8)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

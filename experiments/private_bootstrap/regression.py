"""Robust regression with heavy-tailed errors: Figure 3, Tables S2-S6 of the document.

``y = x'beta + error``, x uniform on [-1, 1]^3, beta = (1.5, -1.5, 1), errors .5 t_3 ("student_t3") or .9 N(0, .25) +
.1 N(0, 16) ("contaminated_normal"); n = 10000 or 40000; epsilon = 1, 2, 4 at delta = 1/n. A row is one replicate of
one cell: each coefficient's posterior mean and 95 % interval, which all figures follow from.

The sampler's settings are the document's (S3.2), with its accountant (as printed) and its gradient bound. Three it
does not state: weights of the network start after Glorot and Bengio, biases at 0; the scale sigma_H is a fourth,
noisy coordinate, linear, with start value 1; the parameter box is [-5, 5] for coefficients and [.05, 10] for the
scale. The README says how the table moves with them.

Rivals, with what the document leaves out as found by matching its tables: DP-SGLD with ``eta_t = 20 / n t^(-1/3)``;
NoisyGibbs with responses cut to [-5, 5], classical noise, 100,000 steps in place of 400,000; DP-Bootstrap with the
published noise, a ridge of .02 and intervals that split their error between the variance and the mean.
"""

from __future__ import annotations

import itertools
import math
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rivals.accountants import PaperBound, calibrate_sigma
from rivals.dp_bootstrap import ErmPlan, simulate_dp_bootstrap
from rivals.dp_sgld import SgldPlan, simulate_dp_sgld
from rivals.noisy_gibbs_regression import sample_noisy_gibbs_regression
from summaries import NAMES, Rows, beside, error_bars, measures, pick, published, stated

from psephos.bootstrap import HuberLoss, NetworkShape, PosteriorDraws, TrainingPlan, simulate
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

Floats = NDArray[np.float64]
Cell = dict[str, Any]

BETA = np.array([1.5, -1.5, 1.0])
NOISES = ("contaminated_normal", "student_t3")
SIZES = (10_000, 40_000)
EPSILONS = (1, 2, 4)
CELL = ("noise", "n", "epsilon", "method", "blocks", "gamma", "draws", "replicate")
METHODS = ("PGBB", "DP-SGLD", "NoisyGibbs", "DP-Bootstrap")
REPLICATES = {"PGBB": 30, "NoisyGibbs": 10, "DP-SGLD": 10, "DP-Bootstrap": 30}
DRAWS = 2000
LOSS = HuberLoss(
    covariates=("beta1", "beta2", "beta3"),
    covariate_bound=math.sqrt(3),
    coefficient_box=(-5.0, 5.0),
    scale_box=(0.05, 10.0),
    start=(0.0, 0.0, 0.0, 1.0),
    bound_rule="printed",
)


def cell(noise: str, n: int, epsilon: int, method: str, replicate: int, **changed: object) -> Cell:
    known = {"noise": noise, "n": n, "epsilon": epsilon, "method": method, "replicate": replicate}
    return {"blocks": 20, "gamma": "star", "draws": 1} | known | changed


def records(noise: str, n: int, replicate: int) -> tuple[Floats, Floats]:
    """The same data for every method and epsilon."""
    rng = generator("data", noise, n, replicate)
    x = rng.uniform(-1, 1, (n, 3))
    if noise == "student_t3":
        errors = 0.5 * rng.standard_t(3, n)
    else:
        errors = rng.normal(0, 0.5, n) * np.where(rng.random(n) < 0.1, 8, 1)
    return x, x @ BETA + errors


def generator(*parts: object) -> np.random.Generator:
    return np.random.default_rng(key_of(*parts))


def key_of(*parts: object) -> int:
    """A key for one replicate: the same for the same parts, whatever ran before."""
    return zlib.crc32(repr(parts).encode())


@lru_cache
def sigma_of(plan: TrainingPlan, n: int, bound: float, epsilon: int) -> float:
    """The document's noise: its accountant as printed."""
    facts = plan.facts(records=n, gradient_bound=bound)
    paper = PaperBound(even_constant="printed")
    return calibrate_sigma(facts, epsilon=epsilon, delta=f"1/{n}", method="paper", paper=paper).sigma


def pgbb(wanted: Cell, *, network: NetworkShape = NetworkShape()) -> PosteriorDraws:  # noqa: B008 - frozen
    n, epsilon, replicate = wanted["n"], wanted["epsilon"], wanted["replicate"]
    plan = TrainingPlan(
        blocks=wanted["blocks"],
        draws=wanted["draws"],
        gamma=None if wanted["gamma"] == "star" else float(wanted["gamma"]),
        network=network,
    )
    release = simulate(
        records(wanted["noise"], n, replicate),
        LOSS,
        key=key_of("pgbb", *(wanted[name] for name in CELL)),
        epsilon=epsilon,
        delta=f"1/{n}",
        plan=plan,
        sigma=sigma_of(plan, n, LOSS.bound, epsilon),
    )
    return release.value.sample(DRAWS, rng=generator("draws", replicate))


def dp_sgld(wanted: Cell, *, step: float = 20.0) -> PosteriorDraws:
    n, epsilon = wanted["n"], wanted["epsilon"]
    plan = SgldPlan(step=step)
    return simulate_dp_sgld(
        records(wanted["noise"], n, wanted["replicate"]),
        LOSS,
        key=key_of("dp-sgld", *(wanted[name] for name in CELL)),
        epsilon=epsilon,
        delta=f"1/{n}",
        plan=plan,
        accountant="rdp",
        multiplier=multiplier_of(plan, n, epsilon),
    ).value


@lru_cache
def multiplier_of(plan: SgldPlan, n: int, epsilon: int, chains: int = 1) -> float:
    paper = PaperBound(even_constant="printed")
    facts = plan.facts(chains=chains)
    return calibrate_sigma(facts, epsilon=epsilon, delta=f"1/{n}", method="paper", paper=paper).sigma


def noisy_gibbs(wanted: Cell, *, response_bound: float = 5.0) -> PosteriorDraws:
    n = wanted["n"]
    key = key_of("noisy-gibbs", *(wanted[name] for name in CELL))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return sample_noisy_gibbs_regression(
            records(wanted["noise"], n, wanted["replicate"]),
            response_bound=response_bound,
            epsilon=wanted["epsilon"],
            delta=f"1/{n}",
            noise="classical",
            draws=5000,
            bits=InsecureBits(seed=key),
            rng=np.random.default_rng(key),
        ).value


def dp_bootstrap(wanted: Cell, *, ridge: float = 0.02) -> tuple[Floats, Floats]:
    """Mean and intervals: there is no posterior to draw from."""
    n = wanted["n"]
    release = simulate_dp_bootstrap(
        records(wanted["noise"], n, wanted["replicate"]),
        LOSS,
        key=key_of("dp-bootstrap", *(wanted[name] for name in CELL)),
        epsilon=wanted["epsilon"],
        delta=f"1/{n}",
        plan=ErmPlan(ridge=ridge),
        scale="published",
    )
    return release.value.mean(), release.value.intervals()


def row_of(wanted: Cell, centre: Floats, intervals: Floats) -> Cell:
    row = {name: wanted[name] for name in CELL}
    for j in range(3):
        row |= {
            f"mean{j + 1}": f"{centre[j]:.7g}",
            f"low{j + 1}": f"{intervals[j, 0]:.7g}",
            f"high{j + 1}": f"{intervals[j, 1]:.7g}",
        }
    return row


OF: dict[str, Callable[[Cell], PosteriorDraws]] = {"PGBB": pgbb, "DP-SGLD": dp_sgld, "NoisyGibbs": noisy_gibbs}


def measure(wanted: Cell) -> Cell:
    if wanted["method"] == "DP-Bootstrap":
        centre, intervals = dp_bootstrap(wanted)
    else:
        draws = OF[wanted["method"]](wanted)
        centre, intervals = draws.mean(), draws.intervals()
    return row_of(wanted, centre[:3], intervals[:3])


def cells_of(method: str, *, replicates: int, quick: bool = False) -> list[Cell]:
    """Replicates outermost, so that a run that is stopped has some of every cell."""
    sizes, epsilons = ((2000,), (4,)) if quick else (SIZES, EPSILONS)
    return [
        cell(noise, n, epsilon, method, replicate)
        for replicate in range(2 if quick else replicates)
        for noise in NOISES
        for n in sizes
        for epsilon in epsilons
    ]


def cells(*, quick: bool) -> list[Cell]:
    """The sampler, then its rivals."""
    return [one for method, count in REPLICATES.items() for one in cells_of(method, replicates=count, quick=quick)]


def summary(rows: Rows, coordinates: Sequence[int] = (0, 1, 2), **wanted: object) -> dict[str, Any]:
    return stated(measures(pick(rows, **wanted), BETA, coordinates))


def name_of(noise: str, n: int, epsilon: int) -> str:
    return f"{noise}, n = {n}, epsilon = {epsilon}"


def verdict(rows: Rows) -> dict[str, Any]:
    """Tables S2 to S5: each cell beside the document's, how far apart they are at most, and the same by coefficient."""
    result: dict[str, Any] = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        found = {}
        for noise, n, epsilon in itertools.product(NOISES, SIZES, EPSILONS):
            facts = {"noise": noise, "n": n, "epsilon": epsilon, "method": method}
            if pick(rows, **facts):
                theirs = published("regression", coefficient="mean", **facts)
                found[name_of(noise, n, epsilon)] = beside(summary(rows, **facts), theirs)
        result[method] = found | {
            f"most {name} apart": max(one[f"{name} apart"] for one in found.values()) for name in ("mae", "width")
        }
        result[method]["by coefficient"] = {
            f"beta{j + 1}": by_coefficient(pick(rows, method=method), method, j) for j in range(3)
        }
    return result


def by_coefficient(rows: Rows, method: str, j: int) -> dict[str, Any]:
    """One of Tables S3 to S5: in how many cells ours and the document's agree, and how far apart they are at most."""
    found = []
    for noise, n, epsilon in itertools.product(NOISES, SIZES, EPSILONS):
        facts = {"noise": noise, "n": n, "epsilon": epsilon}
        if mine := pick(rows, **facts):
            theirs = published("regression", coefficient=f"beta{j + 1}", method=method, **facts)
            found.append(beside(stated(measures(mine, BETA, (j,))), theirs))
    result: dict[str, Any] = {"cells": len(found)}
    for name in ("mae", "width"):
        apart = [one[f"{name} apart"] for one in found]
        result |= {f"{name} within 3 standard errors": sum(a <= 3 for a in apart), f"most {name} apart": max(apart)}
    return result


def draw(rows: Rows, path: Path) -> None:
    draw_cells({method: pick(rows, method=method) for method in METHODS if pick(rows, method=method)}, path)


def draw_cells(series: Mapping[str, Rows], path: Path) -> None:
    """Error, coverage and width of every cell, one mark a series; the document's as hollow marks where it has them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    places = [
        (noise, n, epsilon)
        for noise in NOISES
        for n in SIZES
        for epsilon in EPSILONS
        if any(pick(rows, noise=noise, n=n, epsilon=epsilon) for rows in series.values())
    ]
    for index, (label, rows) in enumerate(series.items()):
        at = np.arange(len(places)) + 0.15 * (index - (len(series) - 1) / 2)
        cells = [stated(measures(pick(rows, noise=w, n=n, epsilon=e), BETA, (0, 1, 2))) for w, n, e in places]
        for axis, name in zip(axes, NAMES, strict=True):
            centre = [cell[name] for cell in cells]
            errors = error_bars(cells, name)
            axis.errorbar(at, centre, yerr=errors, fmt="o", markersize=4, label=label, color=f"C{index}")
            if label in METHODS:
                theirs = [
                    float(published("regression", coefficient="mean", noise=w, n=n, epsilon=e, method=label)[name])
                    for w, n, e in places
                    if n in SIZES
                ]
                if len(theirs) == len(at):
                    axis.plot(at, theirs, "o", markersize=8, fillstyle="none", color=f"C{index}")
    for axis, name in zip(axes, ("mean absolute error", "coverage", "width"), strict=True):
        axis.set_title(name)
        labels = [f"{'t' if w == 'student_t3' else 'cn'} {n // 1000}k {e}" for w, n, e in places]
        axis.set_xticks(range(len(places)), labels, rotation=90, fontsize=8)
        if name != "coverage":
            axis.set_yscale("log")
    axes[1].axhline(0.95, color="#888888", linewidth=0.8)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

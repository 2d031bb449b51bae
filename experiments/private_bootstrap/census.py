"""Returns to schooling at five quantiles, 1980: Table 1, Table S8, Figures 5 and 6 of the document.

Quantile regression of the log weekly wage on schooling, potential experience and black, 65,023 men; one joint sampler
for all five levels (PGBB), and DP-SGLD chains at omega = 1 and .1; noisy Newton steps ("sandwich") and the score
bootstrap, both at all five levels, which are not the document's, stand beside. A row is one run at one epsilon: each
coefficient at each level, in the document's units (educ in percent a year). MAE and coverage are against the fit
without privacy, which is statsmodels' unsmoothed one, computed here.

Settings are the document's (S3.3). Not stated there: the bounds of the columns (here the range of schooling in the
sample, 5 to 20 years, of experience, 14 to 38, and 0 to 1), scaled to [0, 1]; the parameter box, [-20, 20]; the start,
at an intercept of 6, the middle of log wages of 2 to 10, and no slopes (from 0 the sampler has not arrived after 5,000
steps). DP-SGLD's step, ``eta_t = 10 / (n omega) t^(-1/3)``, follows from the printed widths at two omegas.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regression import generator, key_of, multiplier_of, sigma_of
from rivals.dp_sgld import SgldPlan, simulate_dp_sgld
from summaries import Rows, beside, pick, published, stated

from psephos.bootstrap import (
    Design,
    PosteriorDraws,
    QuantileLoss,
    TrainingPlan,
    private_posterior,
    read_columns_csv,
    simulate,
)
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

HERE = Path(__file__).parent
Floats = NDArray[np.float64]
Cell = dict[str, Any]

CELL = ("method", "epsilon", "replicate")
METHODS = {"PGBB": None, "DP-SGLD(omega=1)": 1.0, "DP-SGLD(omega=0.1)": 0.1, "sandwich": None, "score bootstrap": None}
REPLICATES = {"PGBB": 10, "DP-SGLD(omega=1)": 2, "DP-SGLD(omega=0.1)": 1, "sandwich": 20, "score bootstrap": 20}
OURS = {
    "sandwich": partial(private_posterior, method="sandwich"),
    "score bootstrap": partial(private_posterior, method="field"),
}
EPSILONS = (1, 4)
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
VARIABLES = ("educ", "exper", "black")
UNITS = np.array([1.0, 100.0, 1.0, 1.0])
BOUNDS = {"educ": (5, 20), "exper": (14, 38), "black": (0, 1)}
DESIGN = Design.from_formula("logwk ~ educ + exper + black", bounds=BOUNDS, scaling="unit")
LOSS = QuantileLoss(
    covariates=DESIGN.names,
    covariate_bound=DESIGN.covariate_bound,
    coefficient_box=(-20.0, 20.0),
    start=(6.0, 0.0, 0.0, 0.0),
)
PLAN = TrainingPlan(blocks=5, steps=5000, draws=5, probability="0.01", learning_rate=1e-3)
CHAIN = SgldPlan(steps=200_000, probability="0.01", step=10.0, thin=10)


@lru_cache
def columns() -> dict[str, Floats]:
    return read_columns_csv(HERE / "census80.csv.gz")


@lru_cache
def without_privacy() -> tuple[Floats, Floats]:
    """(levels, 4) each: the fit without privacy and its standard errors, in the document's units."""
    from statsmodels.regression.quantile_regression import QuantReg

    data = columns()
    x = np.column_stack([np.ones(len(data["educ"])), data["educ"], data["exper"], data["black"]])
    fits = [QuantReg(data["logwk"], x).fit(q=tau, max_iter=5000) for tau in LEVELS]
    return np.array([fit.params for fit in fits]) * UNITS, np.array([fit.bse for fit in fits]) * UNITS


def reference() -> Floats:
    return without_privacy()[0]


def sampled(wanted: Cell) -> PosteriorDraws:
    records = DESIGN.records(columns())
    n, epsilon = len(records[0]), wanted["epsilon"]
    key = key_of("census", *(wanted[name] for name in CELL))
    omega = METHODS[wanted["method"]]
    if omega is not None:
        plan = replace(CHAIN, tempering=omega)
        multiplier = multiplier_of(CHAIN, n, epsilon, len(LEVELS))
        return simulate_dp_sgld(
            records, LOSS, key=key, epsilon=epsilon, delta=f"1/{n}", plan=plan, accountant="rdp", multiplier=multiplier
        ).value
    if wanted["method"] in OURS:
        fit: Any = OURS[wanted["method"]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # of a delta of 1/n
            posterior = fit(records, LOSS, epsilon=epsilon, delta=f"1/{n}", bits=InsecureBits(seed=key)).value
        return posterior.sample(2000, rng=generator("draws", wanted["replicate"]))
    sigma = sigma_of(PLAN, n, LOSS.bound, epsilon)
    release = simulate(records, LOSS, key=key, epsilon=epsilon, delta=f"1/{n}", plan=PLAN, sigma=sigma)
    return release.value.sample(2000, rng=generator("draws", wanted["replicate"]))


def measure(wanted: Cell) -> Cell:
    draws = sampled(wanted)
    values = DESIGN.original_units(draws.values) * UNITS
    centre, spread = values.mean(axis=1), values.std(axis=1, ddof=1)
    low, high = np.quantile(values, [0.025, 0.975], axis=1)
    row: Cell = {name: wanted[name] for name in CELL}
    for t, level in enumerate(LEVELS):
        for j, name in enumerate(VARIABLES, start=1):
            for label, table in (("mean", centre), ("sd", spread), ("low", low), ("high", high), ("reference", None)):
                value = reference()[t, j] if table is None else table[t, j]
                row[f"{name}_{level}_{label}"] = f"{value:.6g}"
    return row


def cells(*, quick: bool) -> list[Cell]:
    return [
        {"method": method, "epsilon": epsilon, "replicate": replicate}
        for method, count in REPLICATES.items()
        if method == "PGBB" or not quick
        for replicate in range(1 if quick else count)
        for epsilon in (EPSILONS[:1] if quick else EPSILONS)
    ]


def table(rows: Rows, name: str) -> Floats:
    """(runs, 3): error, inclusion and width, means over the levels."""
    found = np.zeros((len(rows), 3))
    for level in LEVELS:
        mean, low, high, exact = (
            np.array([float(row[f"{name}_{level}_{label}"]) for row in rows])
            for label in ("mean", "low", "high", "reference")
        )
        found += np.stack([np.abs(mean - exact), (low <= exact) & (exact <= high), high - low], axis=1) / len(LEVELS)
    return found


def verdict(rows: Rows) -> dict[str, Any]:
    """Table 1's rows of 1980 beside the document's."""
    return {
        f"{name}, {method}, epsilon = {epsilon}": stated(table(pick(rows, method=method, epsilon=epsilon), name))
        if method in OURS
        else beside(
            stated(table(pick(rows, method=method, epsilon=epsilon), name)),
            published("census", year=1980, variable=name, method=method, epsilon=epsilon),
        )
        for method in METHODS
        for name in VARIABLES
        for epsilon in EPSILONS
        if pick(rows, method=method, epsilon=epsilon)
    }


def draw(rows: Rows, path: Path) -> None:
    """Above, coefficients over the levels (Figure 5); below, spread against the standard error of a fit without
    privacy (Figure 6)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(13, 8), layout="constrained")
    shown = [method for method in METHODS if pick(rows, method=method, epsilon=1)]
    for axis, name in zip(axes[0], VARIABLES, strict=True):
        for index, method in enumerate(shown):
            for run in pick(rows, method=method, epsilon=1)[:3]:
                at = np.array(LEVELS) + 0.02 * (index - 1)
                mean, low, high = (
                    np.array([float(run[f"{name}_{level}_{label}"]) for level in LEVELS])
                    for label in ("mean", "low", "high")
                )
                axis.errorbar(
                    at, mean, yerr=[mean - low, high - mean], fmt="o", markersize=3, color=f"C{index}", alpha=0.6
                )
        exact = [float(rows[0][f"{name}_{level}_reference"]) for level in LEVELS]
        axis.plot(LEVELS, exact, "k--", linewidth=1, label="without privacy")
        axis.set_title(f"{name}, epsilon = 1")
    axes[0, 0].legend(fontsize=8)
    errors = without_privacy()[1][:, 1:].T.ravel()
    for index, method in enumerate(shown):
        runs = pick(rows, method=method, epsilon=1)
        within, between = [], []
        for name in VARIABLES:
            for level in LEVELS:
                sd, mean = (
                    np.array([float(run[f"{name}_{level}_{label}"]) for run in runs]) for label in ("sd", "mean")
                )
                within.append(np.sqrt((sd**2).mean()))
                between.append(mean.std(ddof=1) if len(mean) > 1 else np.nan)
        for axis, values in zip(axes[1], (within, between, np.hypot(within, between)), strict=True):
            axis.plot(errors, values, "o", color=f"C{index}", label=method, markersize=4)
    for axis, title in zip(axes[1], ("within a run", "between runs", "total"), strict=True):
        axis.axline((0.01, 0.01), slope=1, color="#888888", linewidth=0.8)
        axis.set(xscale="log", yscale="log", xlabel="standard error without privacy")
        axis.set_title(f"standard deviation {title}")
    axes[1, 0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    print(json.dumps(reference().tolist()))

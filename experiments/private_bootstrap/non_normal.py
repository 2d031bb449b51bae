"""Where a normal posterior is wrong: quantiles with narrow residuals and in tails, slopes that separate, rare events.

A row is a block of 50 replicates of one case at one epsilon (delta = 1/n), by noisy Newton steps and by the score
bootstrap: coverage of the truth by 95 % intervals, and their mean and median width. The truth is the minimiser of the
loss in the population (a quantile's loss is smoothed).

* ``narrow``: the quantile .98 of N(0, .1^2), the bandwidth .1 as large as the spread: the density around it, read off
  with a window of three bandwidths, is not what it is;
* ``median``: the same at 1/2, where it is half of what it is;
* ``far``: at .9, with a start 3.4 away in a box of 17: the search for the minimum has not arrived;
* ``tail``: the quantile .99 of exponential responses, 20 or 100 people beyond it;
* ``first``: the quantile .02 of exponential responses, beside the end of their range;
* ``slopes``: logistic regression with slopes 6 and -6, which separates most people;
* ``rare``: a logistic regression of 20,000 people at a base rate of about 2 %.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import NDArray
from regression import generator, key_of
from summaries import Rows, pick

from psephos.bootstrap import (
    LogisticLoss,
    PosteriorDraws,
    QuantileLoss,
    private_posterior,
)
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

CELL = ("case", "epsilon", "method", "block")
METHODS = {
    "sandwich": partial(private_posterior, method="sandwich"),
    "score bootstrap": partial(private_posterior, method="field"),
}
EPSILONS = (1, 4)
BLOCKS, EACH = 2, 50

Floats = NDArray[np.float64]
Cell = dict[str, Any]


@dataclass(frozen=True)
class Case:
    n: int
    level: float  # of the quantile; NaN for another loss
    responses: Callable[[np.random.Generator, int], Floats]
    box: tuple[float, float] = (-5.0, 12.0)


def narrow(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(0, 0.1, n)


def exponential(rng: np.random.Generator, n: int) -> Floats:
    return rng.exponential(1, n)


COEFFICIENTS = {"slopes": np.array([0.5, 6.0, -6.0]), "rare": np.array([-4.5, 1.0, 1.0])}
CASES = {
    "narrow": Case(10_000, 0.98, narrow, (-5.0, 5.0)),
    "median": Case(2_000, 0.5, narrow, (-5.0, 5.0)),
    "far": Case(10_000, 0.9, narrow),
    "tail, 2000": Case(2_000, 0.99, exponential),
    "tail, 10000": Case(10_000, 0.99, exponential),
    "first": Case(2_000, 0.02, exponential),
    "slopes": Case(10_000, np.nan, exponential),
    "rare": Case(20_000, np.nan, exponential),
}


def loss_of(name: str) -> Any:
    if name in COEFFICIENTS:
        return LogisticLoss(covariates=("one", "a", "b"), covariate_bound=3**0.5, coefficient_box=(-15.0, 15.0))
    case = CASES[name]
    return QuantileLoss(covariates=("one",), covariate_bound=1.0, coefficient_box=case.box, levels=(case.level,))


def records_of(name: str, replicate: int) -> tuple[Floats, ...]:
    case, rng = CASES[name], generator("non-normal", name, replicate)
    if name in COEFFICIENTS:
        x = np.column_stack([np.ones(case.n), rng.uniform(-1, 1, (case.n, 2))])
        return x, (rng.random(case.n) < scipy.special.expit(x @ COEFFICIENTS[name])).astype(float)
    return np.ones((case.n, 1)), case.responses(rng, case.n)


@lru_cache
def truth_of(name: str) -> Floats:
    if name in COEFFICIENTS:
        return COEFFICIENTS[name]
    y = CASES[name].responses(np.random.default_rng(0), 2_000_000)
    level = CASES[name].level

    def excess(place: float) -> float:
        return float(scipy.special.ndtr((place - y) / 0.1).mean()) - level

    return np.array([scipy.optimize.brentq(excess, -2, 10, xtol=1e-5)])


def sampled(name: str, epsilon: int, method: str, replicate: int) -> PosteriorDraws:
    key = key_of("non-normal", name, epsilon, method, replicate)
    release: Any = METHODS[method](
        records_of(name, replicate),
        loss_of(name),
        epsilon=epsilon,
        delta=f"1/{CASES[name].n}",
        bits=InsecureBits(seed=key),
    )
    draws: PosteriorDraws = release.value.sample(2000, rng=np.random.default_rng(key))
    return draws


def measure(wanted: Cell) -> Cell:
    name, epsilon, method, block = (wanted[key] for key in CELL)
    truth, inside, widths = truth_of(name), [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of a delta of 1/n
        for replicate in range(block * EACH, (block + 1) * EACH):
            ends = sampled(name, epsilon, method, replicate).intervals().reshape(-1, 2)
            inside.append(float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))))
            widths.append(float(np.mean(ends[:, 1] - ends[:, 0])))
    found = {"coverage": np.mean(inside), "width": np.mean(widths), "median_width": np.median(widths)}
    return {key: wanted[key] for key in CELL} | {key: f"{value:.5g}" for key, value in found.items()}


def cells(*, quick: bool) -> list[Cell]:
    return [
        {"case": name, "epsilon": epsilon, "method": method, "block": block}
        for block in range(1 if quick else BLOCKS)
        for name in (("median",) if quick else CASES)
        for epsilon in EPSILONS
        for method in METHODS
    ]


def verdict(rows: Rows) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in CASES:
        for epsilon in EPSILONS:
            for method in METHODS:
                if mine := pick(rows, case=name, epsilon=epsilon, method=method):
                    result.setdefault(f"{name}, epsilon = {epsilon}", {})[method] = {
                        key: round(float(np.mean([float(row[key]) for row in mine])), 4)
                        for key in ("coverage", "width", "median_width")
                    } | {"replicates": EACH * len(mine)}
    return result


def draw(rows: Rows, path: Path) -> None:
    """Coverage and median width of every case."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = verdict(rows)
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for axis, name in zip(axes, ("coverage", "median_width"), strict=True):
        for index, method in enumerate(METHODS):
            values = [case[method][name] for case in found.values() if method in case]
            axis.plot(values, np.arange(len(values)) + 0.15 * index, "o", markersize=5, label=method)
        axis.set_yticks(np.arange(len(found)), list(found), fontsize=7)
        axis.invert_yaxis()
        axis.set_title(name.replace("_", " "))
    axes[0].axvline(0.95, color="#888888", linewidth=0.8)
    axes[1].set_xscale("log")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

"""Which method suits a regression, by public facts: columns that are hard to tell apart, many, or few people.

A row is a block of 4 populations of one case at one epsilon (delta = 1e-6), by noisy Newton steps (``sandwich``) and by
the score bootstrap (``field``): coverage of the truth by 95 % intervals, the mean over coefficients that are identified
and the least of them, and the mean of their median widths, without those that a case makes hard (``hard``: theirs).
Responses are in [-10, 10], with normal errors of .5 about a line; 5,000 people.

* ``plain 2``, ``plain 5``, ``plain 10``: as many coefficients, of independent uniform columns and an intercept;
* ``constant``: a constant column beside the intercept;
* ``rare``: a column that is 1 for 2 % of people, else 0;
* ``correlated``: two columns with the correlation .99, and a third;
* ``wide``: ``plain 2`` with the bounds [-1000, 1000] of the response.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regression import generator, key_of
from summaries import Rows, pick

from psephos.bootstrap import Design, HuberLoss, private_posterior
from psephos.errors import PrivacyWarning
from psephos.privacy import InsecureBits

CELL = ("case", "epsilon", "method", "block")
CASES = ("plain 2", "plain 5", "plain 10", "constant", "rare", "correlated", "wide")
EPSILONS = (0.5, 1, 4)
METHODS = ("sandwich", "field")
PEOPLE, EACH = 5000, 4
BLOCKS = {"sandwich": 100, "field": 100}

Floats = NDArray[np.float64]
Cell = dict[str, Any]


def population(case: str, replicate: int) -> tuple[dict[str, Floats], Floats, dict[str, float], tuple[str, ...]]:
    """Columns, the response, the truth of what is identified, and which of that is hard."""
    rng, n = generator("choice", case, replicate), PEOPLE
    error = rng.normal(0, 0.5, n)
    kind, _, count = case.partition(" ")
    if kind == "plain":
        slopes = dict(zip("abcdefghi", np.linspace(2, -1, int(count) - 1).tolist(), strict=False))
        columns = {name: rng.uniform(-1, 1, n) for name in slopes}
        y = 1 + sum(slope * columns[name] for name, slope in slopes.items()) + error
        return columns, y, {"intercept": 1.0} | slopes, ()
    a = rng.uniform(-1, 1, n)
    y = 1 + 2 * a + error
    if kind == "constant":
        return {"a": a, "k": np.full(n, 0.3)}, y, {"a": 2.0}, ()
    if kind == "rare":
        g = 1.0 * (rng.random(n) < 0.02)
        return {"a": a, "few": g}, y + 0.5 * g, {"intercept": 1.0, "a": 2.0, "few": 0.5}, ("few",)
    if kind == "correlated":
        one, other = rng.normal(size=(2, n))
        b, c = (np.clip(x / 3, -1, 1) for x in (one, 0.99 * one + np.sqrt(1 - 0.99**2) * other))
        return {"a": a, "b": b, "c": c}, y + b - c, {"intercept": 1.0, "a": 2.0, "b": 1.0, "c": -1.0}, ("b", "c")
    return {"a": a}, y, {"intercept": 1.0, "a": 2.0}, ()


def intervals(case: str, epsilon: float, method: str, replicate: int) -> tuple[dict[str, Floats], Cell]:
    """The ends of each coefficient that is identified, and the truth."""
    columns, y, truth, hard = population(case, replicate)
    most = 1000 if case == "wide" else 10
    bounds = {name: (0, 1) if name == "few" else (-1, 1) for name in columns} | {"y": (-most, most)}
    design = Design(
        response="y", covariates=tuple(columns), bounds=bounds, scaling="auto", response_scale=2 * most / 10
    )
    loss = HuberLoss(
        covariates=design.names,
        covariate_bound=design.covariate_bound,
        coefficient_box=design.coefficient_box(),
        scale_box=design.scale_box(),
    )
    key = key_of("choice", case, str(epsilon), method, replicate)
    records, bits = design.records({**columns, "y": y}), InsecureBits(seed=key)
    chosen: Any = method
    release = private_posterior(records, loss, epsilon=str(epsilon), delta="1e-6", method=chosen, bits=bits)
    draws = design.original_units(release.value.sample(1000, rng=np.random.default_rng(key)).values, with_scale=True)
    ends = np.quantile(draws, [0.025, 0.975], axis=0)
    return {name: ends[:, design.names.index(name)] for name in truth}, {"truth": truth, "hard": hard}


def measure(wanted: Cell) -> Cell:
    case, epsilon, method, block = (wanted[key] for key in CELL)
    inside, widths, hard = [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        for replicate in range(block * EACH, (block + 1) * EACH):
            ends, facts = intervals(case, epsilon, method, replicate)
            inside.append([bool(ends[name][0] <= value <= ends[name][1]) for name, value in facts["truth"].items()])
            for found, these in ((widths, set(ends) - set(facts["hard"])), (hard, set(facts["hard"]))):
                found.append([float(ends[name][1] - ends[name][0]) for name in sorted(these)])
    row: Cell = {key: wanted[key] for key in CELL}
    row |= {"coverage": f"{np.mean(inside):.5g}", "least": f"{np.min(np.mean(inside, axis=0)):.5g}"}
    row["inside"] = " ".join(f"{share:.4g}" for share in np.mean(inside, axis=0))
    row["width"] = f"{np.median(widths, axis=0).mean():.5g}"
    return row | {"hard": f"{np.median(hard, axis=0).mean():.5g}" if hard[0] else ""}


def cells(*, quick: bool) -> list[Cell]:
    """Blocks outermost, so that a run that is stopped has some of every cell; the quick method first."""
    blocks = 1 if quick else max(BLOCKS.values())
    return [
        {"case": case, "epsilon": epsilon, "method": method, "block": block}
        for block, method, case, epsilon in itertools.product(range(blocks), METHODS, CASES, EPSILONS)
        if block < BLOCKS[method]
    ]


def verdict(rows: Rows) -> dict[str, Any]:
    """Coverage over coefficients, the least of one coefficient, and widths."""
    result: dict[str, Any] = {}
    for case, epsilon, method in itertools.product(CASES, EPSILONS, METHODS):
        if mine := pick(rows, case=case, epsilon=epsilon, method=method):
            inside = np.mean([[float(part) for part in row["inside"].split()] for row in mine], axis=0)
            found: Cell = {"coverage": round(float(inside.mean()), 4), "least": round(float(inside.min()), 4)}
            for name in ("width", "hard"):
                if mine[0][name]:
                    found[name] = float(f"{np.median([float(row[name]) for row in mine]):.4g}")
            result.setdefault(f"{case}, epsilon = {epsilon}", {})[method] = found | {"populations": EACH * len(mine)}
    return result


def draw(rows: Rows, path: Path) -> None:
    """Widths of what is not hard, and coverage."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = verdict(rows)
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 5.6), layout="constrained")
    for axis, name in zip(axes, ("coverage", "width"), strict=True):
        for index, method in enumerate(METHODS):
            values = [case.get(method, {}).get(name, np.nan) for case in found.values()]
            axis.plot(values, np.arange(len(values)) + 0.15 * index, "o", markersize=5, label=method)
        axis.set_yticks(np.arange(len(found)), list(found), fontsize=7)
        axis.invert_yaxis()
        axis.set_title(name)
    axes[0].axvline(0.95, color="#888888", linewidth=0.8)
    axes[1].set_xscale("log")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

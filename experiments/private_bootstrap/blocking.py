"""What blocking does to a posterior: Figure 2 of "Private Generative Bootstrap via Blocking" (the document).

    python experiments/private_bootstrap/run.py blocking

No privacy here. Linear regression in closed form: five normal covariates, normal errors, theta_j = (-1)^j / (1 + j),
ridge 1e-4. Blocked posteriors with 20 blocks, or with blocks of 10 records, at gamma = 1 and gamma*, against the
ordinary one of the same data: (a) the 1-Wasserstein distance between the two, a mean over the coefficients; (b) the
ratio of their total variances; (c) how often 95 % intervals hold the true coefficient, by quantiles and by mean +- 1.96
standard deviations.

As in the document, 300 replicates of 20000 draws; it names no n, and here n is 100 to 1600. Some eight minutes on one
core. Draws set a floor under the distance, which the rows have too.

One row of ``blocking.csv`` is a replicate; a run goes on where it stopped. Columns: ``s20`` and ``m10`` are the two
designs, ``one`` and ``star`` the gammas, ``w1`` the distance, ``ratio`` that of variances, ``quantile`` and ``normal``
how many of the five intervals hold the truth; ``floor`` is the distance between two sets of ordinary draws of as many.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rivals.blocks import RidgeRegression, bayesian_bootstrap, blocked_bootstrap, random_partition, wasserstein_rate
from summaries import Rows

from psephos.bootstrap.block_weights import gamma_star

CELL = ("records", "replicate")
SIZES = (100, 200, 400, 800, 1600)
REPLICATES, DRAWS = 300, 20_000
DESIGNS = {"s20": "20 blocks", "m10": "blocks of 10"}
GAMMAS = {"one": "gamma = 1", "star": "gamma*"}
MEASURES = ("w1", "ratio", "quantile", "normal")
TRUTH = np.array([(-1.0) ** j / (1 + j) for j in range(5)])
LEVEL = 0.95
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
TARGET = RidgeRegression(ridge=1e-4)

Floats = NDArray[np.float64]


def cells(*, quick: bool) -> list[dict[str, object]]:
    sizes, count = ((100, 200), 3) if quick else (SIZES, REPLICATES)
    return [{"records": n, "replicate": r} for r in range(count) for n in sizes]


def blocks_of(design: str, records: int) -> int:
    return 20 if design == "s20" else records // 10


def gamma_of(name: str, records: int, blocks: int) -> float:
    return 1.0 if name == "one" else gamma_star(records, blocks)


def distance(first: Floats, second: Floats) -> float:
    """1-Wasserstein distance of two sets of as many draws, a mean over the coefficients; the draws are sorted."""
    return float(np.abs(first - second).mean())


def held(draws: Floats) -> dict[str, int]:
    """How many coefficients the intervals hold."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    off, reach = np.abs(draws.mean(axis=0) - TRUTH), Z * draws.std(axis=0, ddof=1)
    return {"quantile": int(((low <= TRUTH) & (high >= TRUTH)).sum()), "normal": int((off <= reach).sum())}


def measure(cell: dict[str, object]) -> dict[str, object]:
    """The replicate that a cell is."""
    n, replicate = int(str(cell["records"])), int(str(cell["replicate"]))
    rng = np.random.default_rng([1, zlib.crc32(repr(("blocking", n, replicate)).encode())])
    x = rng.normal(size=(n, len(TRUTH)))
    records = (x, x @ TRUTH + rng.normal(size=n))
    ordinary = bayesian_bootstrap(records, TARGET, draws=DRAWS, rng=rng)
    half = len(ordinary) // 2
    halves = (np.sort(part, axis=0) for part in (ordinary[:half], ordinary[half : 2 * half]))
    row: dict[str, object] = {"records": n, "replicate": replicate, "draws": DRAWS}
    row |= {"floor": f"{distance(*halves) / 2**0.5:.4g}"}
    row |= {f"ordinary_{name}": value for name, value in held(ordinary).items()}
    total, ordinary = ordinary.var(axis=0).sum(), np.sort(ordinary, axis=0)
    for design in DESIGNS:
        blocks = blocks_of(design, n)
        partition = random_partition(n, blocks, rng)
        for name in GAMMAS:
            gamma = gamma_of(name, n, blocks)
            blocked = blocked_bootstrap(records, TARGET, partition=partition, gamma=gamma, draws=DRAWS, rng=rng)
            found: dict[str, object] = {
                "w1": f"{distance(np.sort(blocked, axis=0), ordinary):.4g}",
                "ratio": f"{blocked.var(axis=0).sum() / total:.4g}",
            }
            row |= {f"{design}_{name}_{key}": value for key, value in (found | held(blocked)).items()}
    return row


def column(rows: Rows, records: int, name: str) -> Floats:
    return np.array([float(row[name]) for row in rows if row["records"] == str(records)])


def mean(values: Floats) -> tuple[float, float]:
    """The mean, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def sizes_of(rows: Rows) -> list[int]:
    return sorted({int(row["records"]) for row in rows})


def slope(rows: Rows, name: str) -> tuple[float, float]:
    """Least-squares slope of the log of a column's mean against log n, and its standard error."""
    sizes = sizes_of(rows)
    place = np.log(sizes) - np.log(sizes).mean()
    pull = place / (place @ place)
    means, errors = np.array([mean(column(rows, n, name)) for n in sizes]).T
    return round(float(pull @ np.log(means)), 3), round(float(np.sqrt(pull**2 @ (errors / means) ** 2)), 3)


def verdict(rows: Rows) -> dict[str, Any]:
    """What the rows say of the document's claims."""
    stated: dict[str, Any] = {
        "replicates": len(rows) // len(sizes_of(rows)),
        "draws": int(rows[0]["draws"]),
        "slope of the distance in n": {
            f"{DESIGNS[design]}, {GAMMAS[gamma]}": slope(rows, f"{design}_{gamma}_w1")
            for design in DESIGNS
            for gamma in GAMMAS
        },
    }
    for n in sizes_of(rows):
        of_size: dict[str, Any] = {
            "floor of the distance": round(mean(column(rows, n, "floor"))[0], 5),
            "ordinary": {
                f"{kind} coverage": round(mean(column(rows, n, f"ordinary_{kind}") / len(TRUTH))[0], 3)
                for kind in ("quantile", "normal")
            },
        }
        for design, said in DESIGNS.items():
            blocks = blocks_of(design, n)
            for name, gamma in GAMMAS.items():
                w1, ratio = (mean(column(rows, n, f"{design}_{name}_{key}")) for key in ("w1", "ratio"))
                rate = wasserstein_rate(n, blocks, gamma_of(name, n, blocks)).total
                of_size[f"{said}, {gamma}"] = {
                    "distance": round(w1[0], 5),
                    "sqrt(n) distance over the rate": round(w1[0] * n**0.5 / rate, 3),
                    "variance ratio": round(ratio[0], 3),
                    "se": round(ratio[1], 4),
                    **{
                        f"{kind} coverage": round(mean(column(rows, n, f"{design}_{name}_{kind}") / len(TRUTH))[0], 3)
                        for kind in ("quantile", "normal")
                    },
                }
        stated[f"n = {n}"] = of_size
    return stated


def draw(rows: Rows, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sizes_of(rows)
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    for design, colour in zip(DESIGNS, ("#1b6ca8", "#d1495b"), strict=True):
        for name, mark in zip(GAMMAS, ("x", "o"), strict=True):
            label = f"{DESIGNS[design]}, {GAMMAS[name]}"
            style = {"color": colour, "marker": mark, "markersize": 5, "linewidth": 1.3}
            fade = {"alpha": 1.0 if name == "star" else 0.5}
            for axes, key in ((left, "w1"), (middle, "ratio")):
                centre, error = np.array([mean(column(rows, n, f"{design}_{name}_{key}")) for n in sizes]).T
                axes.errorbar(sizes, centre, yerr=2 * error, label=label, **style, **fade)
            for kind, dash in (("quantile", "-"), ("normal", "--")):
                share = [mean(column(rows, n, f"{design}_{name}_{kind}"))[0] / len(TRUTH) for n in sizes]
                right.plot(sizes, share, ls=dash, label=label if kind == "quantile" else None, **style, **fade)
    grid = np.array(sizes, dtype=float)
    first = mean(column(rows, sizes[0], "s20_star_w1"))[0]
    for power in (-0.5, -1.0):
        left.plot(grid, first * (grid / grid[0]) ** power, color="#999999", lw=0.8, ls=":")
    floors = [mean(column(rows, n, "floor"))[0] for n in sizes]
    left.plot(grid, floors, color="#444444", lw=0.8, label="two sets of ordinary draws")
    for kind, dash in (("quantile", "-"), ("normal", "--")):
        share = [mean(column(rows, n, f"ordinary_{kind}"))[0] / len(TRUTH) for n in sizes]
        right.plot(sizes, share, ls=dash, color="#444444", lw=1.0, label="ordinary" if kind == "quantile" else None)
    left.set(yscale="log", ylabel="1-Wasserstein distance (dotted: slopes -1/2 and -1)", title="(a) distance")
    middle.set(ylabel="variance, blocked over ordinary", title="(b) total variance")
    middle.axhline(1.0, color="#999999", lw=0.8)
    right.set(ylabel="coverage (solid: quantiles, dashed: normal)", title="(c) 95 % intervals")
    right.axhline(LEVEL, color="#999999", lw=0.8)
    for axes in (left, middle, right):
        axes.set(xscale="log", xlabel="records n")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

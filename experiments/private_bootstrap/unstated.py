"""How the regression table moves with settings that the document does not state.

Contaminated normal errors, n = 10000. Of the sampler, the size of initial weights, as multiples of Glorot and Bengio's:
.57 is about what drawing within ``1 / sqrt(inputs)`` gives, 1.39 what He's rule gives. Of the rivals, DP-SGLD's step,
the bound to which NoisyGibbs cuts responses, and DP-Bootstrap's ridge; the value that regression.py uses stands in the
middle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import regression
from summaries import NAMES, Rows, pick, published

from psephos.bootstrap import NetworkShape

CELL = ("noise", "n", "epsilon", "method", "setting", "replicate")
SETTINGS = {
    "PGBB": (0.57, 1.0, 1.39),
    "DP-SGLD": (10.0, 20.0, 40.0),
    "NoisyGibbs": (4.0, 5.0, 6.0),
    "DP-Bootstrap": (0.01, 0.02, 0.03),
}
REPLICATES = {"PGBB": 10, "DP-SGLD": 3, "NoisyGibbs": 5, "DP-Bootstrap": 15}
EPSILONS = (1, 4)


def cells(*, quick: bool) -> list[regression.Cell]:
    return [
        regression.cell("contaminated_normal", 2000 if quick else 10_000, epsilon, method, replicate, setting=setting)
        for method, settings in SETTINGS.items()
        for replicate in range(1 if quick else REPLICATES[method])
        for epsilon in (EPSILONS[:1] if quick else EPSILONS)
        for setting in settings
    ]


def measure(wanted: regression.Cell) -> regression.Cell:
    setting = wanted["setting"]
    if wanted["method"] == "DP-Bootstrap":
        centre, intervals = regression.dp_bootstrap(wanted, ridge=setting)
    else:
        if wanted["method"] == "PGBB":
            draws = regression.pgbb(wanted, network=NetworkShape(spread=setting))
        elif wanted["method"] == "DP-SGLD":
            draws = regression.dp_sgld(wanted, step=setting)
        else:
            draws = regression.noisy_gibbs(wanted, response_bound=setting)
        centre, intervals = draws.mean(), draws.intervals()
    row = regression.row_of(wanted, centre[:3], intervals[:3])
    return {name: wanted[name] for name in CELL} | {name: value for name, value in row.items() if name[-1] in "123"}


def verdict(rows: Rows) -> dict[str, Any]:
    """Each setting beside the document's cell."""
    result: dict[str, Any] = {}
    for method, settings in SETTINGS.items():
        for epsilon in EPSILONS:
            facts = {"noise": "contaminated_normal", "n": 10_000, "epsilon": epsilon, "method": method}
            theirs = published("regression", coefficient="mean", **facts)
            result[f"{method}, epsilon = {epsilon}"] = {
                "document": {name: float(theirs[name]) for name in NAMES},
                **{f"{setting:g}": regression.summary(rows, setting=setting, **facts) for setting in settings},
            }
    return result


def draw(rows: Rows, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [method for method in SETTINGS if pick(rows, method=method)]
    figure, axes = pyplot.subplots(1, len(shown), figsize=(3.6 * len(shown), 3.6), layout="constrained", squeeze=False)
    for axis, method in zip(axes[0], shown, strict=True):
        for index, epsilon in enumerate(EPSILONS):
            settings = [s for s in SETTINGS[method] if pick(rows, method=method, setting=s, epsilon=epsilon)]
            found = [regression.summary(rows, method=method, setting=s, epsilon=epsilon) for s in settings]
            axis.plot(settings, [one["width"] for one in found], "o-", color=f"C{index}", label=f"epsilon {epsilon}")
            theirs = published(
                "regression", coefficient="mean", noise="contaminated_normal", n=10_000, epsilon=epsilon, method=method
            )
            axis.axhline(float(theirs["width"]), color=f"C{index}", linestyle=":", linewidth=1)
        axis.set_title(f"{method}: width")
        axis.set_yscale("log")
    axes[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

"""Privacy curves: Figure 1 of "Private Generative Bootstrap via Blocking" (the document), and two panels more.

    python experiments/private_bootstrap/run.py curves

delta_*(epsilon) of Proposition 2.2 (its own conversion, its constants as printed), varying (a) n, (b) S at gamma = 1,
(c) sigma and (d) the truncation order J of the moments. The document names no values; these start from its regression:
n = 10000, S = 20, gamma*, sigma = .0266 (its own at epsilon 1), q = .1, T = 10000, K = 1, C = 2.6483, J = 32, m = 5.

All four are monotone as the document says; at S = 100 its bound is vacuous, for what it adds for moments beyond 32 is
larger than all the rest. Its "smaller S brings stronger protection" is true at a fixed gamma. At gamma*, where S^2 E
u^2 is 2 (1 + O(1/n)) for every S, nothing is left of it: panels (e) and (f) have both gammas, by the document's bound
and by the joint privacy-loss distribution, which is tight and needs no moments. It is drawn down to 1e-11: the tails
that it leaves out are added to delta, and amount to 1e-12.

Nothing is random. One row of ``curves.csv`` is a point, curves are added one at a time, and a run goes on where it
stopped: a minute or two on one core.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rivals.accountants import Method, PaperBound, delta_upper
from summaries import Rows

from psephos.bootstrap import BlockedTraining
from psephos.bootstrap.block_weights import gamma_star

CELL = ("panel", "curve", "method")
EPSILONS = tuple(f"{quarter / 4:g}" for quarter in range(1, 17))
TITLES = {
    "n": "(a) sample size n",
    "S": "(b) block count S, gamma = 1",
    "sigma": "(c) noise scale sigma",
    "J": "(d) truncation order J",
    "S, gamma = 1": "(e) gamma = 1, two accountants",
    "S, gamma*": "(f) gamma*, two accountants",
}
LEAST = -11.0  # log10 delta of the joint privacy loss that its truncation does not touch


def curve(panel: str, name: object, method: Method = "paper", **changes: object) -> dict[str, object]:
    """A curve: what differs from the document's regression."""
    setting: dict[str, object] = {"records": 10_000, "blocks": 20, "gamma": "star", "sigma": "0.0266", "moments": 32}
    return {"panel": panel, "curve": str(name), "method": method} | setting | changes


def cells(*, quick: bool) -> list[dict[str, object]]:
    curves = [
        *(curve("n", n, records=n) for n in (5_000, 10_000, 20_000, 40_000)),
        *(curve("S", s, blocks=s, gamma="one") for s in (2, 5, 20, 50, 100)),
        *(curve("sigma", s, sigma=s) for s in ("0.02", "0.025", "0.03", "0.04")),
        *(curve("J", j, moments=j) for j in (1, 2, 4, 8, 32)),
    ]
    blocks = (5, 20) if quick else (5, 20, 100)
    methods: tuple[Method, ...] = ("paper",) if quick else ("paper", "pld")
    for gamma, said in (("one", "gamma = 1"), ("star", "gamma*")):
        curves += [
            curve(f"S, {said}", s, method, blocks=s, gamma=gamma, moments=32) for method in methods for s in blocks
        ]
    return curves


def replicates(_: dict[str, object], *, quick: bool) -> int:  # noqa: ARG001 - nothing is random
    return 1


def measure(cell: dict[str, object]) -> list[dict[str, object]]:
    """The points of a curve."""
    records, blocks = int(str(cell["records"])), int(str(cell["blocks"]))
    training = BlockedTraining(
        records=records,
        blocks=blocks,
        gamma=1.0 if cell["gamma"] == "one" else gamma_star(records, blocks),
        probability="0.1",
        steps=10_000,
        gradient_bound="2.6483",
    )
    bound = PaperBound(conversion="mironov", even_constant="printed", moments=int(str(cell["moments"])))
    method: Method = "pld" if cell["method"] == "pld" else "paper"
    rows: list[dict[str, object]] = []
    for epsilon in EPSILONS:
        delta = delta_upper(training, sigma=str(cell["sigma"]), epsilon=epsilon, method=method, paper=bound)
        rows.append(cell | {"epsilon": epsilon, "delta": f"{delta:.6g}"})
    return rows


def logs(rows: Rows, panel: str, name: object, method: str = "paper") -> list[float]:
    """log10 delta along epsilon; -inf below the doubles."""
    points = [
        float(row["delta"]) for row in rows if (row["panel"], row["curve"], row["method"]) == (panel, str(name), method)
    ]
    return [math.log10(delta) if delta > 0 else -math.inf for delta in points]


def names_of(rows: Rows, panel: str) -> list[str]:
    return list(dict.fromkeys(row["curve"] for row in rows if row["panel"] == panel))


def ordered(first: list[float], then: list[float]) -> bool:
    """Whether the second curve nowhere lies below the first."""
    return all(a <= b for a, b in zip(first, then, strict=True))


def verdict(rows: Rows) -> dict[str, Any]:
    """log10 delta at some epsilons, and which claims of monotony hold at every epsilon."""
    at = {epsilon: EPSILONS.index(epsilon) for epsilon in ("0.5", "1", "2")}
    stated: dict[str, Any] = {}
    for panel, method in dict.fromkeys((row["panel"], row["method"]) for row in rows):
        said = f"{panel}, joint privacy loss" if method == "pld" else panel
        stated[f"log10 delta by {said}"] = {
            name: {
                f"epsilon {epsilon}": round(points[i], 3)
                for epsilon, i in at.items()
                if method == "paper" or points[i] > LEAST
            }
            for name in names_of(rows, panel)
            for points in [logs(rows, panel, name, method)]
        }

    def falls(panel: str, names: list[str], method: str = "paper") -> bool:
        pairs = zip(names[1:], names, strict=False)
        return all(ordered(logs(rows, panel, a, method), logs(rows, panel, b, method)) for a, b in pairs)

    stated["stronger for a larger n"] = falls("n", names_of(rows, "n"))
    stated["stronger for a larger sigma"] = falls("sigma", names_of(rows, "sigma"))
    stated["no weaker for a larger J"] = falls("J", names_of(rows, "J"))
    stated["stronger for a smaller S at gamma = 1"] = falls("S", names_of(rows, "S")[::-1])
    for panel in ("S, gamma = 1", "S, gamma*"):
        few, many = (logs(rows, panel, s, "pld")[at["1"]] for s in (5, 100))
        stated[f"delta of S = 100 over delta of S = 5, {panel[3:]}, epsilon 1, joint privacy loss"] = round(
            10 ** (many - few), 3
        )
    return stated


def draw(rows: Rows, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = ("#1b6ca8", "#d1495b", "#3c8d53", "#e0a030", "#6d4c9f")
    epsilons = [float(epsilon) for epsilon in EPSILONS]
    figure, grid = pyplot.subplots(2, 3, figsize=(14, 8), layout="constrained", sharey=True)
    for (panel, title), axes in zip(TITLES.items(), grid.flat, strict=True):
        for colour, name in zip(colours, names_of(rows, panel), strict=False):
            label = f"{panel.partition(',')[0]} = {name}"
            axes.plot(epsilons, logs(rows, panel, name), color=colour, lw=1.3, label=label)
            tight = [point if point > LEAST else math.nan for point in logs(rows, panel, name, "pld")]
            if tight:
                axes.plot(epsilons, tight, color=colour, lw=1.3, ls="--")
        if "," in panel:
            for style, said in (("-", "Proposition 2.2"), ("--", "joint privacy loss")):
                axes.plot([], [], color="#444444", lw=1.3, ls=style, label=said)
        axes.set(xlabel="epsilon", title=title, ylim=(-15, 0.5))
        axes.legend(fontsize=8, frameon=False)
    for axes in grid[:, 0]:
        axes.set_ylabel("log10 delta")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)

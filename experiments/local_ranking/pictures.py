"""One picture a part, from its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from bias import TRUTH, limit
from heterogeneous import exact_ratio
from rates import privacy_factor

Rows = list[dict[str, str]]
COLOURS = ("#1b6ca8", "#d1495b", "#3c8d53", "#e0a030", "#6d4c9f", "#444444", "#b07aa1")
CLEAR = {"fontsize": 8, "frameon": False}


def values(rows: Rows, name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def distinct(rows: Rows, name: str) -> list[str]:
    return list(dict.fromkeys(row[name] for row in rows))


def pick(rows: Rows, **wanted: str) -> Rows:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def line(axes: Any, x: Iterable[float], y: np.ndarray, error: np.ndarray | None, **style: Any) -> None:
    """A line with bars of two standard errors."""
    axes.errorbar(x, y, yerr=None if error is None else 2 * error, markersize=4, linewidth=1.3, **style)


def epsilon_axis(axes: Any, rows: Rows) -> None:
    """Logarithmic, with the epsilons of the rows as ticks."""
    axes.set_xscale("log")
    ticks = distinct(rows, "epsilon")
    axes.set_xticks([float(tick) for tick in ticks], [f"{float(tick):g}" for tick in ticks])
    axes.minorticks_off()


def draw_bias(rows: Rows, figure: Any) -> None:
    for axes, m in zip(figure.subplots(1, 2), distinct(rows, "items"), strict=True):
        for colour, epsilon in zip(COLOURS, distinct(rows, "epsilon"), strict=False):
            some = pick(rows, items=m, epsilon=epsilon)
            people = values(some, "people")
            line(axes, people, values(some, "debiased_mean_square") ** 0.5, None, color=colour, marker="o",
                 label=f"debiased, epsilon {epsilon}")  # fmt: skip
            line(axes, people, values(some, "undebiased_mean_square") ** 0.5, None, color=colour, marker="x", ls="--",
                 label=f"as they are, epsilon {epsilon}")  # fmt: skip
            wrong = limit(TRUTH[int(m)], float(epsilon)) - TRUTH[int(m)]
            axes.axhline(math.sqrt((wrong**2).mean()), color=colour, lw=0.8, ls=":")
        axes.set(xscale="log", yscale="log", title=f"{m} items (dotted: the limit)", xlabel="people")
        axes.set_ylabel("root mean squared error of a score")
        axes.legend(**CLEAR)


def draw_rates(rows: Rows, figure: Any) -> None:
    grid = figure.subplots(2, 3)
    for column, (against, label) in enumerate({"L": "people L", "m": "items m", "G": "privacy factor G"}.items()):
        for colour, constant in zip(COLOURS, distinct(rows, "constant"), strict=False):
            some = pick(rows, against=against, constant=constant)
            x = {
                "L": values(some, "people"),
                "m": values(some, "items"),
                "G": np.array([privacy_factor(float(row["epsilon"])) for row in some]),
            }[against]
            line(grid[0, column], x, values(some, "mean_square"), values(some, "mean_square_se"), color=colour,
                 marker="o", label=f"c = {constant}")  # fmt: skip
            for name, style in (("max_norm", "-"), ("excess_risk", "--")):
                line(grid[1, column], x, values(some, name), values(some, name + "_se"), color=colour, marker=".",
                     ls=style, label=f"{name.replace('_', ' ')}, c = {constant}")  # fmt: skip
        middle = len(x) // 2
        guide = values(some, "mean_square")[middle] * (x / x[middle]) ** (1 if against == "G" else -1)
        grid[0, column].plot(
            x, guide, color="#999999", lw=0.8, ls=":", label="slope " + ("1" if against == "G" else "-1")
        )
        for axes in grid[:, column]:
            axes.set(xscale="log", yscale="log", xlabel=label)
            axes.legend(**CLEAR)
    grid[0, 0].set_ylabel("mean squared error of a score")
    grid[1, 0].set_ylabel("max-norm error, excess risk")


def draw_recovery(rows: Rows, figure: Any) -> None:
    for axes, name, title in zip(
        figure.subplots(1, 2, sharey=True),
        ("top_failure", "order_failure"),
        ("the best 3 of 8 not found", "the order of 8 not found"),
        strict=True,
    ):
        for i, gap in enumerate(distinct(rows, "gap")):
            for colour, epsilon in zip(COLOURS, distinct(rows, "epsilon"), strict=False):
                some = [row for row in pick(rows, gap=gap, epsilon=epsilon) if float(row[name]) > 0]
                y, error = values(some, name), values(some, name + "_se")
                down = np.minimum(2 * error, 0.9 * y)
                axes.errorbar(values(some, "x") + i, y, yerr=(down, 2 * error), color=colour, marker="ox"[i % 2],
                              ls=("-", "--")[i % 2], lw=1.2, ms=4, label=f"gap {gap}, epsilon {epsilon}")  # fmt: skip
        axes.set(yscale="log", xlabel="m L Delta^2 / G  (second gap moved by 1 to be seen)", title=title)
        axes.legend(**CLEAR)
    figure.axes[0].set_ylabel("probability of failure")


def draw_heterogeneous(rows: Rows, figure: Any) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    for place, row in enumerate(pick(rows, experiment="one pair")):
        exact = exact_ratio(tuple(row["mix"].split()), row["weights"])
        left.errorbar([place], [float(row["ratio"])], yerr=3 * float(row["ratio_se"]), color=COLOURS[place], marker="o",
                      capsize=4, label=f"weights {row['weights']}")  # fmt: skip
        left.axhline(exact, color=COLOURS[place], lw=0.8, ls=":")
    left.set(title="one pair (dotted: exact; bars: 3 s.e.)", ylabel="squared error over that of uniform weights")
    left.set(xticks=[], xlim=(-1, 2))
    left.legend(**CLEAR)
    whole = pick(rows, experiment="whole fit")
    whole.sort(key=lambda row: float(row["ratio_of_medians"]))
    for colour, mix in zip(COLOURS, sorted(distinct(whole, "mix")), strict=False):
        places = [i for i, row in enumerate(whole) if row["mix"] == mix]
        some = [whole[i] for i in places]
        right.plot(places, values(some, "ratio_of_medians"), color=colour, marker="o", ms=4, ls="",
                   label="epsilons " + ", ".join(mix.split()))  # fmt: skip
    right.axhline(1, color="#999999", lw=0.8)
    right.set(title="the whole fit: ratio of median squared errors", xlabel="settings, sorted", ylim=(0, 1.1))
    right.legend(**CLEAR)


def draw_real(rows: Rows, figure: Any) -> None:
    sushi, llmfao = figure.subplots(1, 2)
    for axes, data in ((sushi, "sushi"), (llmfao, "llmfao")):
        some = [row for row in pick(rows, data=data, mechanism="binary") if row["unit"] != "none"]
        for colour, unit in zip(COLOURS, distinct(some, "unit"), strict=False):
            for marker, answers in zip("ox", distinct(some, "answers"), strict=False):
                for style, asked in zip(("-", "--"), distinct(some, "asked"), strict=False):
                    own = pick(some, unit=unit, answers=answers, asked=asked)
                    if own:
                        label = f"{unit}, {answers}" + (f", {asked}" if data == "llmfao" else "")
                        line(axes, values(own, "epsilon"), values(own, "kendall"), values(own, "kendall_se"),
                             color=colour, marker=marker, ls=style, label=label)  # fmt: skip
        epsilon_axis(axes, some)
        axes.set(xlabel="epsilon", title=data, ylabel="Kendall error against the non-private fit")
    for style, row in zip(("-", "--"), pick(rows, data="llmfao", unit="none"), strict=False):
        llmfao.axhline(float(row["kendall"]), color="#999999", lw=0.9, ls=style,
                       label=f"not randomised, {row['asked']}")  # fmt: skip
    llmfao.axhline(0.5, color="black", lw=0.9, ls=":", label="chance")
    sushi.set(ylim=(0, None))
    llmfao.set(ylim=(0, 0.78))
    for axes in (sushi, llmfao):
        axes.legend(**CLEAR, ncols=1 if axes is sushi else 2, loc="upper right" if axes is sushi else "upper left")


def draw_peers(rows: Rows, figure: Any) -> None:
    panels = [
        ("simulated", "10", "1000"),
        ("simulated", "20", "10000"),
        ("sushi", "10", "5000"),
        ("llmfao", "59", "124"),
    ]
    present = [p for p in panels if pick(rows, data=p[0], items=p[1], people=p[2])]
    grid = figure.subplots(2, len(present) or 1, squeeze=False)
    for column, (data, m, people) in enumerate(present):
        some = pick(rows, data=data, items=m, people=people)
        for colour, method in zip(COLOURS, distinct(some, "method"), strict=False):
            own = pick(some, method=method)
            line(grid[0, column], values(own, "epsilon"), values(own, "kendall"), values(own, "kendall_se"),
                 color=colour, marker="o", label=method)  # fmt: skip
            if all(row["two_norm_median"] for row in own):
                line(grid[1, column], values(own, "epsilon"), values(own, "two_norm_median"), None, color=colour,
                     marker="o", label=method)  # fmt: skip
        grid[1, column].set(yscale="log", ylim=(0.02, None), xlabel="epsilon, for a person")
        grid[0, column].set(title=f"{data}: {m} items, {people} people")
        for axes in grid[:, column]:
            epsilon_axis(axes, some)
    grid[0, 0].set_ylabel("Kendall error")
    grid[1, 0].set_ylabel("2-norm error, median")
    grid[0, 0].legend(**CLEAR)


DRAW: dict[str, tuple[Callable[[Rows, Any], None], tuple[float, float]]] = {
    "bias": (draw_bias, (11, 4.5)),
    "rates": (draw_rates, (13, 8)),
    "recovery": (draw_recovery, (11, 4.8)),
    "heterogeneous": (draw_heterogeneous, (12, 4.5)),
    "real": (draw_real, (13, 5.5)),
    "peers": (draw_peers, (15, 7.5)),
}


def draw(part: str, rows: Rows, path: Path) -> None:
    """Draw a part; without matplotlib say how to get it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print(f"no {path.name}: pip install 'psephos[report]'")
        return
    paint, size = DRAW[part]
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    paint(rows, figure)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=90, metadata={"Software": None})

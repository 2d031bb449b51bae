"""Pictures and a summary of what ``accuracy.py`` measured; needs the extra ``report``.

    python benchmarks/accuracy_pictures.py docs/accuracy

reads ``accuracy.csv`` in that folder and writes one picture for each population and guarantee beside it: mean excess
against t = epsilon N, a panel for each number of items, averaged over the numbers of people. Then it prints the cells
in which ``auto`` is not within 5 % or two standard errors of the best, as a table for the documentation.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

DEFAULT = ("adaptive", "")  # post-processing, and none
STYLE = {
    "laplace": ("tab:orange", "-"),
    "gaussian": ("tab:blue", "-"),
    "nuclear": ("tab:cyan", "-"),
    "shaped": ("tab:green", "--"),
    "probe": ("tab:red", "-"),
    "borda": ("black", "-"),
    "exponential": ("tab:purple", ":"),
    "footrule": ("tab:gray", ":"),
    "kwiksort": ("tab:brown", ":"),
    "two-stage": ("tab:pink", ":"),
}


def pictures(rows: list[dict[str, str]], folder: Path) -> None:
    """One picture for each population and guarantee."""
    kinds = sorted({(row["population"], row["delta"]) for row in rows})
    for population, delta in kinds:
        some = [row for row in rows if (row["population"], row["delta"]) == (population, delta)]
        sizes = sorted({int(row["items"]) for row in some})
        single = len(sizes) == 1
        figure, panels = plt.subplots(1, len(sizes), figsize=(3.4 * len(sizes), 4.0 if single else 3.2), squeeze=False)
        for panel, m in zip(panels[0], sizes, strict=True):
            for mechanism, (colour, line) in STYLE.items():
                at = defaultdict(list)
                for row in some:
                    if (int(row["items"]), row["mechanism"]) == (m, mechanism) and row["post_processing"] in DEFAULT:
                        at[float(row["t"])].append(float(row["excess"]))
                points = sorted((t, sum(values) / len(values)) for t, values in at.items())
                if points:
                    panel.plot(*zip(*points, strict=True), color=colour, linestyle=line, marker=".", label=mechanism)
            panel.set(xscale="log", xlabel="t = epsilon N", title=f"{m} items")
            panel.set_yscale("symlog", linthresh=1e-3)
            panel.set_ylim(bottom=0)
            panel.grid(alpha=0.3)
        panels[0][0].set_ylabel("mean excess Kendall cost")
        figure.legend(
            *panels[0][0].get_legend_handles_labels(), loc="lower center", ncols=3 if single else 10, fontsize="small"
        )
        guarantee = "pure" if delta == "0" else f"delta = {delta}"
        figure.suptitle(f"{population}, {guarantee}")
        figure.tight_layout(rect=(0, 0.25 if single else 0.08, 1, 1))
        figure.savefig(folder / f"{population}-{'pure' if delta == '0' else 'approximate'}.png", dpi=70)
        plt.close(figure)


def summary(rows: list[dict[str, str]]) -> str:
    """How many cells ``auto`` is right in, and a table of the others."""
    cells = defaultdict(list)
    for row in rows:
        cells[tuple(row[key] for key in ("population", "items", "people", "t", "delta"))].append(row)
    lines, right = [], 0
    for key, cell in cells.items():
        auto = next(row for row in cell if row["mechanism"] == "auto")
        if auto["verdict"] == "ok":
            right += 1
            continue
        best = min((row for row in cell if row["mechanism"] != "auto"), key=lambda row: float(row["excess"]))
        name = " ".join(x for x in (best["mechanism"], best["post_processing"]) if x)
        lines.append(
            f"| {' | '.join(key)} | {auto['chosen']} {float(auto['excess']):.3g} | {name} {float(best['excess']):.3g} |"
        )
    head = ["| population | m | N | t | delta | auto | best |", "|---|---|---|---|---|---|---|"]
    return "\n".join([f"{right} of {len(cells)} cells", "", *head, *lines])


def within(rows: list[dict[str, str]]) -> set[tuple[str, str]]:
    """The mechanisms and post-processings of one cell within 5 % or two standard errors of the best."""
    measured = [row for row in rows if row["mechanism"] != "auto"]
    best = min(measured, key=lambda row: float(row["excess"]))

    def allowed(row: dict[str, str]) -> float:
        errors = math.hypot(float(row["standard_error"]), float(best["standard_error"]))
        return float(best["excess"]) + max(0.05 * float(best["excess"]), 2 * errors, 1e-9)

    return {(row["mechanism"], row["post_processing"]) for row in measured if float(row["excess"]) <= allowed(row)}


def out_of_reach(rows: list[dict[str, str]]) -> str:
    """In how many groups of cells with the same public facts no choice is right for all populations."""
    groups: dict[tuple[str, ...], dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["population"] in ("mallows", "plackett-luce", "camps"):
            groups[tuple(row[key] for key in ("items", "people", "t", "delta"))][row["population"]].append(row)
    empty = sum(not set.intersection(*map(within, cells.values())) for cells in groups.values())
    return f"in {empty} of {len(groups)} groups of cells with equal public facts no choice is right for all populations"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with (folder / "accuracy.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    pictures(rows, folder)
    print(summary(rows))
    print(out_of_reach(rows))


if __name__ == "__main__":
    main()

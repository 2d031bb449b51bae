"""Answers a second: a device's exact randomiser, the simulator of populations, reading and debiasing reports.

    python benchmarks/local_speed.py

Each against a plain baseline in the same run: a device against one comparison of a floating-point number from the
operating system with the probability, which is not exact; arrays against a loop over answers.
"""

from __future__ import annotations

import json
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from simulated import randomise_columns, simulate_population
from timing import median_seconds, report

from psephos import fit_reports
from psephos.local import (
    ReportColumns,
    plan_comparisons,
    population_reports,
    randomise_answers,
    truth_probability,
    write_reports,
)
from psephos.local.debias import pair_sums
from psephos.profile import Profile

warnings.simplefilter("ignore")
ITEMS = [f"item {i}" for i in range(60)]
EVERY = [(a, b) for a in range(60) for b in range(a)]

Row = list[object]


def row(what: str, count: int, ours: Callable[[], object], baseline: str, other: Callable[[], object], n: int) -> Row:
    """Answers a second of both, where ``other`` treats ``n`` answers."""
    fast, slow = count / median_seconds(ours), n / median_seconds(other)
    return [what, f"{fast:.3g}", baseline, f"{slow:.3g}", f"{fast / slow:.2f}"]


def devices() -> list[Row]:
    system = random.SystemRandom()
    rows = []
    for mechanism in ("binary", "three-outcome"):
        for epsilon in ("0.1", "1", "5"):
            plan = plan_comparisons(ITEMS, EVERY, epsilon=epsilon, mechanism=mechanism)
            answers = ["left"] * len(EVERY)
            truth = truth_probability(epsilon, mechanism=mechanism)

            def plain(truth: float = truth) -> list[bool]:
                return [system.random() < truth for _ in EVERY]

            def ours(plan=plan, answers=answers) -> object:  # type: ignore[no-untyped-def]
                return randomise_answers(plan, answers)

            rows.append(row(f"device, {mechanism}, epsilon {epsilon}", len(EVERY), ours, "floats", plain, len(EVERY)))
    return rows


def simulator() -> list[Row]:
    rng = np.random.default_rng(1)
    count = 5_000_000
    left = rng.integers(0, 30, count, dtype=np.int32)
    right, outcome = left + np.int32(30), np.ones(count, dtype=np.int8)
    plain_rng = random.Random(1)

    def plain() -> list[int]:
        return [1 if plain_rng.random() < 0.73 else -1 for _ in range(10**5)]

    theta = np.linspace(1, -1, 60)
    return [
        row(
            "randomising given answers in arrays",
            count,
            lambda: randomise_columns(ITEMS, left, right, outcome, epsilon=1, rng=rng),
            "Python loop",
            plain,
            10**5,
        ),
        row(
            "a whole population: pairs, opinions, reports",
            count,
            lambda: simulate_population(theta, people=count, epsilon=1, rng=rng),
            "Python loop",
            plain,
            10**5,
        ),
    ]


def server() -> list[Row]:
    rng = np.random.default_rng(2)
    columns = simulate_population(np.linspace(1, -1, 60), people=5_000_000, epsilon=["0.5", 2], rng=rng)
    profile = Profile.from_rankings({tuple(ITEMS): 2_000}, items=ITEMS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.jsonl"
        write_reports(path, population_reports(profile, epsilon=20, pairs=20))

        def parse() -> list[object]:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

        def loop() -> dict[tuple[int, int], float]:
            sums: dict[tuple[int, int], float] = {}
            for u, v, s in zip(*plain, strict=True):
                pair, side = ((u, v), s) if u < v else ((v, u), -s)
                sums[pair] = sums.get(pair, 0.0) + side / 0.46
            return sums

        plain = [column[: 10**5].tolist() for column in (columns.left, columns.right, columns.reported)]
        count = columns.answers
        return [
            row("reading checked reports", 40_000, lambda: ReportColumns.from_reports(path), "json", parse, 40_000),
            row("debiasing", count, lambda: pair_sums(columns), "Python loop", loop, 10**5),
            row("scores with intervals", count, lambda: fit_reports(columns), "Python loop", loop, 10**5),
        ]


if __name__ == "__main__":
    report(
        "local_speed",
        ["what", "answers a second", "baseline", "its answers a second", "ratio"],
        [*devices(), *simulator(), *server()],
    )

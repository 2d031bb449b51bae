"""Rounding a noisy table of margins into range, nearest in operator norm, against entrywise clipping.

    python benchmarks/nearest_tournament.py

Margins of 1,000 people, uniform in [-1000, 1000], with normal noise; seconds and the certified distances.
"""

from __future__ import annotations

import numpy as np
from timing import median_seconds, report

from psephos.central.certified import Rounded, round_to_tournament

PEOPLE = 1000


def released(m: int, sigma: float) -> np.ndarray:
    rng = np.random.default_rng(m)
    table = rng.integers(-PEOPLE, PEOPLE + 1, (m, m)) + np.rint(rng.normal(0, sigma, (m, m))).astype(np.int64)
    upper = np.triu(table, 1)
    return upper - upper.T


def main() -> None:
    rows = []
    for m in (16, 32, 64):
        for sigma in (300, 1000, 3000):
            table = released(m, sigma)
            found: list[Rounded] = []

            def rounded(table: np.ndarray = table, found: list[Rounded] = found) -> None:
                found.append(round_to_tournament(table, people=PEOPLE))

            seconds = median_seconds(rounded, repetitions=1)
            clipped = round_to_tournament(table, people=PEOPLE, effort=0)
            plain, ratio = float(clipped.distance), float(found[-1].distance / clipped.distance)
            rows.append((m, sigma, found[-1].solver, f"{seconds:.2f}", f"{plain:.0f}", f"{ratio:.4f}"))
    report("nearest_tournament", ("items", "noise", "solver", "seconds", "clipping", "distance / clipping"), rows)


if __name__ == "__main__":
    main()

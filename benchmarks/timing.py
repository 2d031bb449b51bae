"""Medians of repeated runs, and a CSV beside the printed table."""

from __future__ import annotations

import csv
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

OUT = Path(__file__).parent / "out"


def median_seconds(run: Callable[[], object], repetitions: int = 5) -> float:
    """Median wall-clock seconds of ``run`` after one warm-up."""
    run()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def report(name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print the table and write ``out/name.csv``."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    OUT.mkdir(exist_ok=True)
    with (OUT / f"{name}.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, lineterminator="\n").writerows([header, *rows])

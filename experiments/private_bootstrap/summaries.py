"""From rows of intervals to mean absolute error, coverage and width, and these beside the document's."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
Rows = Sequence[Mapping[str, str]]
Floats = NDArray[np.float64]
NAMES = ("mae", "coverage", "width")


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open() as stream:
        return list(csv.DictReader(stream))


def pick(rows: Rows, **wanted: object) -> list[Mapping[str, str]]:
    return [row for row in rows if all(row[name] == str(value) for name, value in wanted.items())]


def published(table: str, **wanted: object) -> Mapping[str, str]:
    """One row of a table of the document, as printed."""
    (row,) = pick(read(HERE / f"published_{table}.csv"), **wanted)
    return row


def measures(rows: Rows, truth: Floats, coordinates: Sequence[int]) -> Floats:
    """(replicates, 3): absolute error of the posterior mean, inclusion of the truth and width, over coordinates."""
    found = np.zeros((len(rows), 3))
    for j in coordinates:
        mean, low, high = (np.array([float(row[f"{name}{j + 1}"]) for row in rows]) for name in ("mean", "low", "high"))
        found[:, 0] += np.abs(mean - truth[j])
        found[:, 1] += (low <= truth[j]) & (truth[j] <= high)
        found[:, 2] += high - low
    return found / len(coordinates)


def stated(found: Floats) -> dict[str, Any]:
    """Means over the replicates, with standard errors; those of a single replicate are not known."""
    count = len(found)
    error = found.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else (None,) * 3
    result: dict[str, Any] = {}
    for name, value, se in zip(NAMES, found.mean(axis=0), error, strict=True):
        result |= {name: float(f"{value:.4g}"), f"{name}_se": None if se is None else float(f"{se:.2g}")}
    return result | {"replicates": count}


def error_bars(found: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """Two standard errors each; nothing where none is known."""
    return [2 * (one[f"{name}_se"] or 0.0) for one in found]


def beside(ours: Mapping[str, Any], theirs: Mapping[str, str]) -> dict[str, Any]:
    """Our figures, the document's, and how many combined standard errors lie between.

    The document rounds: half a unit of its last digit is no difference, and a standard error printed as 0 is taken for
    0. Of a single replicate of ours nothing is said.
    """
    result: dict[str, Any] = {"ours": dict(ours), "document": {}}
    for name in NAMES:
        result["document"][name] = float(theirs[name])
        if name == "coverage":
            continue
        result["document"][name + "_se"] = float(theirs[name + "_se"])
        if ours[name + "_se"] is None:
            result[f"{name} apart"] = None
            continue
        half = 0.5 * 10.0 ** -len(theirs[name].partition(".")[2])
        gap = max(abs(ours[name] - float(theirs[name])) - half, 0.0)
        combined = math.hypot(ours[name + "_se"], float(theirs[name + "_se"]))
        result[f"{name} apart"] = round(gap / combined, 2) if combined else 0.0
    return result

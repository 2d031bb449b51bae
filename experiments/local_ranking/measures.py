"""Errors of scores and rankings under the document's names, and slopes with their standard errors.

* max-norm and 2-norm error: of the score vector, both centred.
* excess risk: equation (4) of the document with theta^ held fixed, ``m^-2 sum_{i<j} KL(F(theta_i - theta_j) ||
  F(theta^_i - theta^_j))``, in nats.
* Kendall error: the share of pairs of items in the other order; a tie counts half.
* top-K Hamming error: the share of the true best K that the estimated best K miss.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from psephos.scores import LOGISTIC

Floats = NDArray[np.float64]


def generator(seed: int, *parts: object) -> np.random.Generator:
    """A generator for one cell: the same for the same seed and parts, whatever ran before."""
    return np.random.default_rng([seed, zlib.crc32(repr(parts).encode())])


def spread_scores(m: int, half: float = 1.0) -> Floats:
    """Scores at the midpoints of m equal parts of (-half, half), best first."""
    return half * (m - 1 - 2.0 * np.arange(m)) / m


def kendall_error(estimate: Floats, truth: Floats) -> float:
    left, right = np.triu_indices(len(truth), 1)
    agreement = np.sign(estimate[left] - estimate[right]) * np.sign(truth[left] - truth[right])
    return float((1.0 - agreement).mean() / 2.0)


def top_error(estimate: Floats, truth: Floats, k: int) -> float:
    best = np.argsort(-truth, kind="stable")[:k]
    found = np.argsort(-estimate, kind="stable")[:k]
    return 1.0 - len(np.intersect1d(best, found)) / k


def excess_risk(estimate: Floats, truth: Floats) -> float:
    left, right = np.triu_indices(len(truth), 1)
    p = LOGISTIC.cdf(truth[left] - truth[right])
    x = estimate[left] - estimate[right]
    loss = np.logaddexp(0.0, x) - p * x + p * np.log(p) + (1.0 - p) * np.log1p(-p)
    return float(loss.sum()) / len(truth) ** 2


def score_errors(estimate: Floats, truth: Floats) -> dict[str, float]:
    """Mean squared error of a score, max-norm and 2-norm error."""
    off = (estimate - estimate.mean()) - (truth - truth.mean())
    return {
        "mean_square": float((off**2).mean()),
        "max_norm": float(np.abs(off).max()),
        "two_norm": float(np.linalg.norm(off)),
    }


def averages(samples: Sequence[Mapping[str, float]], *, medians: Sequence[str] = ()) -> dict[str, object]:
    """Mean and standard error of each measure over the replicates, and medians of some."""
    row: dict[str, object] = {}
    for name in samples[0]:
        values = np.array([sample[name] for sample in samples])
        row[name] = f"{values.mean():.6g}"
        row[name + "_se"] = f"{values.std(ddof=1) / math.sqrt(len(values)):.3g}" if np.isfinite(values).all() else ""
        if name in medians:
            row[name + "_median"] = f"{np.median(values):.6g}"
    return row | {"replicates": len(samples)}


def ratio_of_means(above: Floats, below: Floats) -> tuple[float, float]:
    """mean(above) / mean(below) of paired replicates, and its standard error (delta method)."""
    ratio = float(above.mean() / below.mean())
    error = np.std(above - ratio * below, ddof=1) / math.sqrt(len(above)) / below.mean()
    return ratio, float(error)


def log_slope(x: Sequence[float], mean: Sequence[float], error: Sequence[float]) -> tuple[float, float]:
    """Least-squares slope of log(mean) against log(x), and its standard error from those of the means."""
    position = np.log(np.asarray(x, dtype=float))
    position -= position.mean()
    pull = position / (position @ position)
    means, errors = np.asarray(mean, dtype=float), np.asarray(error, dtype=float)
    return float(pull @ np.log(means)), float(np.sqrt((pull**2) @ (errors / means) ** 2))

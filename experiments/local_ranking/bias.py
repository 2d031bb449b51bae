"""Part 1 (the document's Example 1): reports taken for answers give the wrong scores, however many people report.

With r = tanh(eps/2), a report says u with probability ``q = 1/2 + r (F(theta_u - theta_v) - 1/2)``. Bradley-Terry
fitted to reports as they are tends to the scores that solve the score equations for q; two items to
``logit(q)`` apart. The fit to debiased reports tends to theta.
"""

from __future__ import annotations

import math

import numpy as np
from measures import Floats, averages, generator
from simulated_reports import simulate_population

from psephos import Comparisons, fit_scores
from psephos.local import fit_reports
from psephos.scores import LOGISTIC, solve_scores

CELL = ("items", "epsilon", "people")
TRUTH = {2: np.array([math.log(3) / 2, -math.log(3) / 2]), 3: np.array([1.0, 0.0, -1.0])}


def cells(*, quick: bool) -> list[dict[str, object]]:
    sizes = (100, 1000) if quick else (100, 1000, 10_000, 100_000, 1_000_000)
    return [
        {"items": m, "epsilon": epsilon, "people": people}
        for m in TRUTH
        for epsilon in ((1.0,) if quick else (0.5, 1.0, 2.0))
        for people in sizes
    ]


def replicates(cell: dict[str, object], *, quick: bool) -> int:
    return 5 if quick else 20 if int(cell["people"]) > 100_000 else 100


def reported_probability(theta: Floats, epsilon: float) -> Floats:
    """q, shape (m, m): how often a report on u and v says u."""
    return 0.5 + math.tanh(epsilon / 2) * (LOGISTIC.cdf(theta[:, None] - theta[None, :]) - 0.5)


def limit(theta: Floats, epsilon: float) -> Floats:
    """What the fit to reports as they are tends to, every pair asked equally often."""
    q = reported_probability(theta, epsilon)
    np.fill_diagonal(q, 0.0)
    answers = 1.0 - np.eye(len(theta))
    return solve_scores(q.sum(axis=1), answers, regularisation=0.0).scores


def measure(cell: dict[str, object], *, count: int, seed: int) -> list[dict[str, object]]:
    m, epsilon, people = int(cell["items"]), float(cell["epsilon"]), int(cell["people"])
    theta = TRUTH[m]
    wrong = limit(theta, epsilon)
    rng = generator(seed, "bias", m, epsilon, people)
    samples = []
    for _ in range(count):
        columns = simulate_population(theta, people=people, epsilon=epsilon, rng=rng, pairs=None, unit="comparison")
        table = Comparisons.from_columns(list(columns.items), columns.left, columns.right, columns.reported)
        plain = fit_scores(table, sampling="independent").scores
        debiased = fit_reports(columns, sampling="independent").scores
        samples.append({
            "debiased_mean_square": float(((debiased - theta) ** 2).mean()),
            "undebiased_mean_square": float(((plain - theta) ** 2).mean()),
            "undebiased_from_limit_mean_square": float(((plain - wrong) ** 2).mean()),
        })  # fmt: skip
    return [cell | averages(samples)]

"""Part 3: how often the best K and the whole order come out right, against x = m L Delta^2 / G.

Eight items, neighbours Delta apart; every person answers every pair at epsilon each. The number of people is chosen
for each Delta and epsilon so that x takes the same values: one curve, if x is all that counts.
"""

from __future__ import annotations

import numpy as np
from measures import averages, generator
from rates import privacy_factor
from simulated_reports import simulate_population

from psephos.local import fit_reports

CELL = ("gap", "epsilon", "x", "people")
ITEMS, TOP = 8, 3


def cells(*, quick: bool) -> list[dict[str, object]]:
    gaps, epsilons = ((0.3,), (1.0,)) if quick else ((0.2, 0.3), (0.5, 1.0, 2.0))
    steps = (8, 24) if quick else (8, 16, 24, 32, 40, 52, 64, 80)
    return [
        {"gap": gap, "epsilon": epsilon, "x": x, "people": round(x * privacy_factor(epsilon) / (ITEMS * gap**2))}
        for gap in gaps
        for epsilon in epsilons
        for x in steps
    ]


def replicates(_: dict[str, object], *, quick: bool) -> int:
    return 10 if quick else 1500


def measure(cell: dict[str, object], *, count: int, seed: int) -> list[dict[str, object]]:
    gap, epsilon, people = float(cell["gap"]), float(cell["epsilon"]), int(cell["people"])
    theta = gap * ((ITEMS - 1) / 2 - np.arange(ITEMS))
    rng = generator(seed, "recovery", gap, epsilon, people)
    samples = []
    for _ in range(count):
        columns = simulate_population(theta, people=people, epsilon=epsilon, rng=rng, pairs=None, unit="comparison")
        scores = fit_reports(columns, sampling="independent").scores
        samples.append({
            "top_failure": float(scores[:TOP].min() <= scores[TOP:].max()),
            "order_failure": float((np.diff(scores) >= 0).any()),
        })  # fmt: skip
    return [cell | averages(samples)]

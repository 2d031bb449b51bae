"""Part 2: how fast errors fall in the number of people L, the number of items m and the privacy factor G.

Every person answers every pair, each at the same epsilon (the unit is a comparison), so that every pair has L reports.
Scores lie at the midpoints of m equal parts of (-1, 1): the condition number hardly moves with m. G = 1/tanh^2(eps/2).
``constant`` is c in lambda = c sqrt(G log(mL)/(mL)), in the units of psephos.scores.default_regularisation: .01 is the
default, 1 is of the size that the document's rates point to.
"""

from __future__ import annotations

import math

from measures import averages, excess_risk, generator, score_errors, spread_scores
from simulated_reports import simulate_population

from psephos.local import fit_reports
from psephos.scores import default_regularisation

CELL = ("against", "items", "people", "epsilon")
CONSTANTS = (0.01, 1.0)


def cells(*, quick: bool) -> list[dict[str, object]]:
    people = (100, 400) if quick else (100, 200, 400, 800, 1600, 3200, 6400, 12_800)
    items = (10, 20) if quick else (10, 14, 20, 28, 40, 56, 80)
    epsilons = (0.5, 1.0) if quick else (0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0)
    return [
        *({"against": "L", "items": 10, "people": n, "epsilon": 1.0} for n in people),
        *({"against": "m", "items": m, "people": 200, "epsilon": 1.0} for m in items),
        *({"against": "G", "items": 10, "people": 500 if quick else 5000, "epsilon": e} for e in epsilons),
    ]


def replicates(_: dict[str, object], *, quick: bool) -> int:
    return 4 if quick else 200


def privacy_factor(epsilon: float) -> float:
    return 1.0 / math.tanh(epsilon / 2) ** 2


def measure(cell: dict[str, object], *, count: int, seed: int) -> list[dict[str, object]]:
    m, people, epsilon = int(cell["items"]), int(cell["people"]), float(cell["epsilon"])
    theta = spread_scores(m)
    rng = generator(seed, "rates", *cell.values())
    samples: dict[float, list[dict[str, float]]] = {constant: [] for constant in CONSTANTS}
    for _ in range(count):
        columns = simulate_population(theta, people=people, epsilon=epsilon, rng=rng, pairs=None, unit="comparison")
        for constant, sample in samples.items():
            penalty = default_regularisation(
                m, columns.answers, variance_factor=privacy_factor(epsilon), constant=constant
            )
            scores = fit_reports(columns, regularisation=penalty, sampling="independent").scores
            sample.append(score_errors(scores, theta) | {"excess_risk": excess_risk(scores, theta)})
    return [cell | {"constant": constant} | averages(sample) for constant, sample in samples.items()]

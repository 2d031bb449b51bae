"""Part 4: people of unlike epsilon, weighted alike, adaptively (by tanh^2(eps/2)), or wrongly (by epsilon itself).

*One pair.* Two equal items, half of the answers at epsilon .5 and half at 4: with r = tanh(eps/2) and weights w the
variance of the pair's mean is ``mean(w^2 / r^2) / mean(w)^2 / 4`` for one answer, so the ratio of squared errors
against weights 1 is known exactly; for w = r^2 it is ``1 / (mean(r^2) mean(1/r^2))``. Replicates are disjoint pairs in
larger tables.

*The whole fit.* The ratio of mean squared errors of the scores, of adaptive against uniform weights on the same
reports, and that of their medians: with few or very noisy reports some replicates put scores far off, and means say
little. Each person has one of the epsilons, all equally likely, and answers ten pairs at that epsilon each.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from measures import generator, ratio_of_means, spread_scores
from simulated_reports import randomise_columns, simulate_population

from psephos import debias
from psephos.local import attenuation, fit_reports

CELL = ("experiment", "items", "people", "mix", "half_range")
PAIR_MIX = ("0.5", "4")
BLOCK = 150  # pairs of items in one table


def cells(*, quick: bool) -> list[dict[str, object]]:
    mixes = ("0.5 4",) if quick else ("0.5 4", "1 2", "0.25 1", "2 8", "0.5 1 4")
    return [
        {"experiment": "one pair", "items": 2, "people": 20, "mix": " ".join(PAIR_MIX), "half_range": 0.0},
        *(
            {"experiment": "whole fit", "items": m, "people": people, "mix": mix, "half_range": half}
            for m in ((5,) if quick else (5, 20))
            for people in ((200,) if quick else (200, 2000))
            for mix in mixes
            for half in ((1.0,) if quick else (1.0, 3.0))
        ),
    ]


def replicates(cell: dict[str, object], *, quick: bool) -> int:
    if cell["experiment"] == "one pair":
        return 2000 if quick else 400_000
    return 10 if quick else 200


def exact_ratio(mix: tuple[str, ...], weights: str) -> float:
    """Squared error of the mean of a pair of equal items, against that with weights 1; equal shares of the mix."""
    r = np.array([attenuation(e) for e in mix])
    w = {"uniform": np.ones(len(r)), "adaptive": r**2, "epsilon": np.array([float(e) for e in mix])}[weights]
    return float((w**2 / r**2).mean() / w.mean() ** 2 / (1 / r**2).mean())


def one_pair(people: int, count: int, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Ratios of squared errors, and their standard errors, over ``count`` pairs."""
    squares: dict[str, list[np.ndarray]] = {"uniform": [], "adaptive": [], "epsilon": []}
    for start, stop in pairwise([*range(0, count, BLOCK), count]):
        pairs = stop - start
        left = np.repeat(2 * np.arange(pairs), people)
        columns = randomise_columns(
            [str(i) for i in range(2 * pairs)],
            left,
            left + 1,
            2 * rng.integers(0, 2, len(left)) - 1,
            epsilon=list(PAIR_MIX),
            choice=np.arange(len(left)) % 2,
            rng=rng,
        )
        own = [float(kind.epsilon_answer) for kind in columns.kinds]
        for name, weights in (("uniform", "uniform"), ("adaptive", "adaptive"), ("epsilon", own)):
            table = debias(columns, weights=weights)
            first = 2 * np.arange(pairs)
            mean = table.margins[first, first + 1] / table.answers[first, first + 1]
            squares[name].append(mean**2 / 4)
    total = {name: np.concatenate(parts) for name, parts in squares.items()}
    return {name: ratio_of_means(total[name], total["uniform"]) for name in ("adaptive", "epsilon")}


def measure(cell: dict[str, object], *, count: int, seed: int) -> list[dict[str, object]]:
    m, people, mix = int(cell["items"]), int(cell["people"]), str(cell["mix"]).split()
    rng = generator(seed, "heterogeneous", *cell.values())
    if cell["experiment"] == "one pair":
        found = one_pair(people, count, rng)
        medians: dict[str, str] = {}
    else:
        theta = spread_scores(m, float(cell["half_range"]))
        squares = np.zeros((count, 2))
        for i in range(count):
            columns = simulate_population(theta, people=people, epsilon=mix, rng=rng, pairs=10, unit="comparison")
            for j, weights in enumerate(("adaptive", "uniform")):
                scores = fit_reports(columns, weights=weights, sampling="independent").scores
                squares[i, j] = ((scores - theta) ** 2).mean()
        found = {"adaptive": ratio_of_means(squares[:, 0], squares[:, 1])}
        middle = np.median(squares, axis=0)
        medians = {"adaptive": f"{middle[0] / middle[1]:.6g}"}
    return [
        cell
        | {"weights": name, "ratio": f"{ratio:.6g}", "ratio_se": f"{error:.3g}"}
        | {"ratio_of_medians": medians.get(name, ""), "replicates": count}
        for name, (ratio, error) in found.items()
    ]

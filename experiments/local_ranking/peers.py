"""Part 6: other ways to rank under local privacy, on the same people and the same privacy.

The unit is a person: whatever somebody sends is epsilon-locally private as a whole, without a delta, and each person
takes part once. People of the simulated grid hold Plackett-Luce rankings.

* ``debiased``: psephos.local, k pairs by plan at epsilon / k each.
* ``debiased, c = 1``: the same reports with a lambda a hundred times larger.
* ``not debiased``: the same reports, taken for answers.
* ``Laplace``: indicators of k pairs, each with Laplace noise of scale k / epsilon; k the best for it, which minimises
  ``(1/4 + 2 k^2 / epsilon^2) / k``; the same fit.
* ``LDP-KwikSort``: a quicksort by privatised votes of fresh groups; k answers a person by the same plan. Ranks only.
* ``same answers``: choix on the answers of ``debiased`` before they are randomised.
* ``all answers``: choix on all that people know: the ceiling.
"""

from __future__ import annotations

import math

import choix
import numpy as np
from kwiksort import private_kwiksort
from measures import Floats, averages, generator, kendall_error, score_errors, spread_scores, top_error
from people import Judgements, Llmfao, Questions, Rankings, ask_assigned, ask_random, pairs_by_plan, plackett_luce
from real import population
from simulated_reports import randomise_columns

from psephos import Comparisons, fit_scores
from psephos.local import fit_reports
from psephos.scores import default_regularisation, solve_scores

CELL = ("data", "items", "people", "epsilon")
RANKS_ONLY = "LDP-KwikSort"
TOP = {5: 1, 10: 3, 20: 5, 59: 10}


def cells(*, quick: bool) -> list[dict[str, object]]:
    if quick:
        return [row("simulated", 10, 500, 2.0), row("llmfao", 59, 124, 8.0)]
    grid = (0.5, 1.0, 2.0, 4.0, 8.0)
    return [
        *(row("simulated", m, people, e) for m in (5, 10, 20) for people in (1000, 10_000) for e in grid),
        *(row("sushi", 10, 5000, e) for e in grid),
        *(row("llmfao", 59, 124, e) for e in (1.0, 4.0, 16.0)),
    ]


def row(data: str, items: int, people: int, epsilon: float) -> dict[str, object]:
    return {"data": data, "items": items, "people": people, "epsilon": epsilon}


def replicates(_: dict[str, object], *, quick: bool) -> int:
    return 3 if quick else 50


def best_for_laplace(epsilon: float, most: int) -> int:
    low = max(1, math.floor(epsilon / math.sqrt(8)))
    return min(most, min((low, low + 1), key=lambda k: (0.25 + 2 * k**2 / epsilon**2) / k))


def ask(people: Rankings | Judgements, k: int, rng: np.random.Generator) -> Questions:
    return ask_assigned(people, k, rng) if isinstance(people, Judgements) else ask_random(people, k, rng)


def table_of(asked: Questions, m: int, won: Floats) -> Floats:
    """Wins, shape (m, m): ``won`` is how much of each answer went to left."""
    wins = np.bincount(asked.left * m + asked.right, weights=won, minlength=m * m)
    wins += np.bincount(asked.right * m + asked.left, weights=1.0 - won, minlength=m * m)
    return wins.reshape(m, m)


def fit_laplace(people: Rankings | Judgements, epsilon: float, rng: np.random.Generator) -> Floats:
    m = people.m
    k = best_for_laplace(epsilon, m * (m - 1) // 2)
    asked = ask(people, k, rng)
    wins = table_of(asked, m, (1.0 + asked.said) / 2.0 + rng.laplace(scale=k / epsilon, size=len(asked)))
    answers = wins + wins.T
    penalty = default_regularisation(m, len(asked), variance_factor=1.0 + 8.0 * k**2 / epsilon**2)
    return solve_scores(wins.sum(axis=1), answers, regularisation=penalty).scores


def kwiksort_order(people: Rankings | Judgements, epsilon: float, rng: np.random.Generator) -> list[int]:
    m, k = people.m, pairs_by_plan(epsilon, people.m * (people.m - 1) // 2)
    truth = 1.0 / (1.0 + math.exp(-epsilon / k))
    queue = np.concatenate([rng.permutation(people.people) for _ in range(k)])  # everybody once, k times over
    used = 0

    def votes(pivot: int, others: np.ndarray, group: int) -> Floats:
        nonlocal used
        size = group * len(others)
        person, used = queue[used : used + size], used + size
        right = np.repeat(others, group)
        said = people.said(person, np.full(size, pivot), right).astype(float)
        said[said == 0] = 2.0 * rng.integers(0, 2, int((said == 0).sum())) - 1.0
        said[rng.random(size) >= truth] *= -1.0
        return said.reshape(len(others), group).sum(axis=1)

    return private_kwiksort(m, people.people * k, votes, rng)


def estimates(people: Rankings | Judgements, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Scores by each method; for the one that only ranks, minus the places."""
    m = people.m
    names = [str(i) for i in range(m)]
    asked = ask(people, pairs_by_plan(epsilon, m * (m - 1) // 2), rng)
    columns = randomise_columns(
        names, asked.left, asked.right, asked.said, epsilon=epsilon, record=asked.record, unit="person", rng=rng
    )
    factor = 1.0 / columns.kinds[0].attenuation ** 2
    larger = default_regularisation(m, columns.answers, variance_factor=factor, constant=1.0)
    taken = Comparisons.from_columns(names, columns.left, columns.right, columns.reported)
    places = np.empty(m)
    places[kwiksort_order(people, epsilon, rng)] = np.arange(m)
    same = table_of(asked, m, (1.0 + asked.said) / 2.0)
    return {
        "debiased": fit_reports(columns, sampling="independent").scores,
        "debiased, c = 1": fit_reports(columns, regularisation=larger, sampling="independent").scores,
        "not debiased": fit_scores(taken, sampling="independent").scores,
        "Laplace": fit_laplace(people, epsilon, rng),
        RANKS_ONLY: -places,
        "same answers": choix.ilsr_pairwise_dense(same, alpha=0.01),
        "all answers": choix.ilsr_pairwise_dense(people.wins(), alpha=0.01),
    }


def measure(cell: dict[str, object], *, count: int, seed: int) -> list[dict[str, object]]:
    data, m, size, epsilon = str(cell["data"]), int(cell["items"]), int(cell["people"]), float(cell["epsilon"])
    rng = generator(seed, "peers", data, m, size, epsilon)
    source, truth = (None, spread_scores(m, 1.5)) if data == "simulated" else population(data)
    samples: dict[str, list[dict[str, float]]] = {}
    for _ in range(count):
        if source is None:
            people: Rankings | Judgements = plackett_luce(truth, size, rng)
        else:
            people = source.one_judgement_a_pair(rng) if isinstance(source, Llmfao) else source
        for method, scores in estimates(people, epsilon, rng).items():
            errors = {"kendall": kendall_error(scores, truth), "top_hamming": top_error(scores, truth, TOP[m])}
            if method != RANKS_ONLY:
                errors |= score_errors(scores, truth)
            samples.setdefault(method, []).append(errors)
    medians = ("max_norm", "two_norm")
    return [cell | {"method": method} | averages(sample, medians=medians) for method, sample in samples.items()]

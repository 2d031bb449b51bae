"""Part 5: two real data sets, against the non-private fit of the same data.

*sushi*: 5,000 rankings of ten kinds of sushi. *llmfao*: 124 workers' judgements of 59 language models, 39% of them
ties; a tie, and a pair on which a person has no opinion, is answered by a coin. Of several judgements of one pair by
one worker, each replicate draws one.

``unit``: epsilon is for the whole ``person``, divided over the k answers, or for each ``comparison``.
``asked``: pairs drawn from all, or from those the worker judged, taken as a public table of assignments.
``answers``: k by plan (psephos.local.best_pairs), or all.
``separated``: the share of replicates in which some items won, or lost, more than finite scores explain; there lambda
decides how far they lie off, and norms say little. Rows without privacy are what is left of the error when answers are
not randomised.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from measures import Floats, averages, generator, kendall_error, score_errors, top_error
from people import Judgements, Llmfao, Questions, Rankings, ask_assigned, ask_random, pairs_by_plan, sushi
from simulated_reports import randomise_columns

from psephos import Comparisons, fit_scores
from psephos.local import fit_reports

CELL = ("data", "asked", "unit", "answers", "mechanism", "epsilon")
TOP = {"sushi": 3, "llmfao": 10}


@cache
def population(data: str) -> tuple[Rankings | Llmfao, Floats]:
    """The people, and the scores of the non-private fit."""
    if data == "sushi":
        people, profile = sushi()
        return people, fit_scores(profile).scores
    table = Llmfao.read()
    return table, fit_scores(table.comparisons()).scores


def cells(*, quick: bool) -> list[dict[str, object]]:
    if quick:
        return [
            cell("sushi", "all pairs", "person", "plan", 1.0),
            cell("llmfao", "own pairs", "person", "plan", 4.0),
            cell("llmfao", "own pairs", "none", "all", math.inf),
        ]
    return [
        *(
            cell("sushi", "all pairs", unit, k, e)
            for unit in ("person", "comparison")
            for k in ("plan", "all")
            for e in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
        ),
        *(
            cell("llmfao", asked, unit, k, e)
            for asked in ("all pairs", "own pairs")
            for unit, k in (("person", "plan"), ("person", "all"), ("comparison", "all"))
            for e in (1.0, 2.0, 4.0, 8.0, 16.0)
        ),
        *(cell("llmfao", "own pairs", "comparison", "all", e, "three-outcome") for e in (1.0, 2.0, 4.0, 8.0)),
        *(cell("llmfao", asked, "none", "all", math.inf) for asked in ("all pairs", "own pairs")),
    ]  # fmt: skip


def cell(
    data: str, asked: str, unit: str, answers: str, epsilon: float, mechanism: str = "binary"
) -> dict[str, object]:
    return {
        "data": data,
        "asked": asked,
        "unit": unit,
        "answers": answers,
        "mechanism": mechanism,
        "epsilon": epsilon,
    }


def replicates(_: dict[str, object], *, quick: bool) -> int:
    return 3 if quick else 50


def questions(
    people: Rankings | Judgements, asked: str, answers: str, epsilon: float, rng: np.random.Generator
) -> Questions:
    every = people.m * (people.m - 1) // 2
    k = pairs_by_plan(epsilon, every) if answers == "plan" else None
    if asked == "own pairs" and isinstance(people, Judgements):
        return ask_assigned(people, k, rng)
    return ask_random(people, every if k is None else k, rng)


def measure(cell: dict[str, object], *, count: int, seed: int) -> list[dict[str, object]]:
    data, unit, epsilon = str(cell["data"]), str(cell["unit"]), float(cell["epsilon"])
    source, truth = population(data)
    rng = generator(seed, "real", *cell.values())
    names = [str(i) for i in range(len(truth))]
    samples = []
    for _ in range(count):
        people = source.one_judgement_a_pair(rng) if isinstance(source, Llmfao) else source
        asked = questions(people, str(cell["asked"]), str(cell["answers"]), epsilon, rng)
        if unit == "none":
            said = np.where(asked.said == 0, 2 * rng.integers(0, 2, len(asked)) - 1, asked.said)
            table = Comparisons.from_columns(names, asked.left, asked.right, said.astype(np.int8))
            fit = fit_scores(table, sampling="independent")
        else:
            columns = randomise_columns(
                names,
                asked.left,
                asked.right,
                asked.said,
                epsilon=epsilon,
                record=asked.record,
                unit=unit,
                mechanism=str(cell["mechanism"]),
                rng=rng,
            )
            fit = fit_reports(columns, sampling="independent")
        samples.append(
            score_errors(fit.scores, truth)
            | {
                "kendall": kendall_error(fit.scores, truth),
                "top_hamming": top_error(fit.scores, truth, TOP[data]),
                "separated": float(bool(fit.separated)),
                "answers_asked": float(len(asked)),
                "answers_known": float(np.count_nonzero(asked.said)),
                "epsilon_spent": epsilon if unit == "person" else epsilon * len(asked) / people.people,
            }
        )
    return [cell | averages(samples, medians=("max_norm", "two_norm"))]

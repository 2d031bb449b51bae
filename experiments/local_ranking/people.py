"""Who is asked what, and what they would say: rankings, or judgements of some pairs."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos import Comparisons, Profile, read_preflib
from psephos.local import best_pairs

DATA = Path(__file__).parent.parent.parent / "tests" / "data"

Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """Pairs that people are asked, those of one person together; all arrays of shape (answers,)."""

    record: Whole
    left: Whole
    right: Whole
    said: NDArray[np.int8]  # +1 left, -1 right, 0 a tie or no opinion

    def __len__(self) -> int:
        return len(self.left)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rankings:
    """People with full rankings: ``utility`` of shape (people, m), higher is better, no two alike."""

    utility: NDArray[Any]

    @property
    def m(self) -> int:
        return self.utility.shape[1]

    @property
    def people(self) -> int:
        return len(self.utility)

    def said(self, person: Whole, left: Whole, right: Whole) -> NDArray[np.int8]:
        return np.sign(self.utility[person, left] - self.utility[person, right]).astype(np.int8)

    def wins(self) -> NDArray[np.float64]:
        """How many people prefer u to v, shape (m, m)."""
        return np.array([(self.utility[:, [u]] > self.utility).sum(axis=0) for u in range(self.m)], dtype=float)


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgements:
    """People who judged some pairs: ``table`` of shape (people, m, m), 0 for a tie, ``judged`` likewise."""

    table: NDArray[np.int8]
    judged: NDArray[np.bool_]

    @property
    def m(self) -> int:
        return self.table.shape[1]

    @property
    def people(self) -> int:
        return len(self.table)

    def said(self, person: Whole, left: Whole, right: Whole) -> NDArray[np.int8]:
        return self.table[person, left, right]

    def own_pairs(self) -> tuple[Whole, Whole, Whole]:
        """Person, left and right of all pairs that a person judged, in the order of people."""
        person, left, right = np.nonzero(np.triu(self.judged))
        return person, left, right

    def wins(self) -> NDArray[np.float64]:
        return ((self.table + 1) * self.judged).sum(axis=0) / 2.0


def ask_random(people: Rankings | Judgements, k: int, rng: np.random.Generator) -> Questions:
    """Each person answers k different pairs drawn from all."""
    every = people.m * (people.m - 1) // 2
    if k < every:
        number = np.argpartition(rng.random((people.people, every)), k, axis=1)[:, :k].ravel()
    else:
        number = np.tile(np.arange(every), people.people)
    first, second = np.triu_indices(people.m, 1)
    record = np.repeat(np.arange(people.people), min(k, every))
    left, right = first[number], second[number]
    return Questions(record=record, left=left, right=right, said=people.said(record, left, right))


def ask_assigned(people: Judgements, k: int | None, rng: np.random.Generator) -> Questions:
    """Each person answers k different pairs drawn from those the public table gives them; all for ``None``."""
    person, left, right = people.own_pairs()
    if k is not None:
        order = np.lexsort((rng.random(len(person)), person))
        starts = np.searchsorted(person, person, side="left")
        chosen = order[np.arange(len(person)) - starts < k]  # lexsort keeps people where they are
        person, left, right = person[chosen], left[chosen], right[chosen]
    return Questions(record=person, left=left, right=right, said=people.said(person, left, right))


def plackett_luce(scores: NDArray[np.float64], people: int, rng: np.random.Generator) -> Rankings:
    """People whose pairs follow Bradley-Terry with these scores: utilities with Gumbel noise."""
    return Rankings(utility=scores + rng.gumbel(size=(people, len(scores))))


def sushi() -> tuple[Rankings, Profile]:
    profile = read_preflib(DATA / "sushi.soc")
    places = np.repeat(profile.places.T.astype(np.int16), [int(n) for n in profile.counts], axis=0)
    return Rankings(utility=-places), profile


@dataclass(frozen=True, kw_only=True, eq=False)
class Llmfao:
    """124 workers' judgements of 59 language models, one row a judgement."""

    models: tuple[str, ...]
    worker: Whole
    left: Whole
    right: Whole
    outcome: NDArray[np.int8]

    @classmethod
    def read(cls) -> Llmfao:
        with (DATA / "llmfao.csv").open() as stream:
            rows = list(csv.DictReader(stream))
        models = sorted({row["left"] for row in rows} | {row["right"] for row in rows})
        place = {model: i for i, model in enumerate(models)}
        workers = {worker: i for i, worker in enumerate(sorted({row["worker"] for row in rows}))}
        return cls(
            models=tuple(models),
            worker=np.array([workers[row["worker"]] for row in rows]),
            left=np.array([place[row["left"]] for row in rows]),
            right=np.array([place[row["right"]] for row in rows]),
            outcome=np.array([{"left": 1, "right": -1, "tie": 0}[row["winner"]] for row in rows], dtype=np.int8),
        )

    def comparisons(self) -> Comparisons:
        return Comparisons.from_columns(list(self.models), self.left, self.right, self.outcome)

    def one_judgement_a_pair(self, rng: np.random.Generator) -> Judgements:
        """Of several judgements of one pair by one worker, one drawn at random."""
        m, people = len(self.models), int(self.worker.max()) + 1
        table = np.zeros((people, m, m), dtype=np.int8)
        judged = np.zeros((people, m, m), dtype=np.bool_)
        order = rng.permutation(len(self.worker))
        low, high = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        said = np.where(self.left < self.right, self.outcome, -self.outcome)
        # The first of each person and pair in a random order.
        _, first = np.unique(((self.worker * m + low) * m + high)[order], return_index=True)
        keep = order[first]
        worker, low, high, said = self.worker[keep], low[keep], high[keep], said[keep]
        table[worker, low, high], table[worker, high, low] = said, -said
        judged[worker, low, high] = judged[worker, high, low] = True
        return Judgements(table=table, judged=judged)


def pairs_by_plan(epsilon: float, most: int) -> int:
    return best_pairs(epsilon, most=most)

"""Coverage of intervals and of simultaneous rank sets from randomised reports, at the fewest reports that may do.

A cell is an epsilon per answer (or several, an equal part of the people each), a number of items, a link, and how the
answers of a person hang together: ``independent``, every answer is a person of its own and each pair has the same
number of them; ``ballots``, every person answers all pairs by one ranking (Plackett-Luce for the logistic link,
normal utilities for the normal one). Each pair has the smallest number n of reports with ``n r^2 >= --reports``,
``r = tanh(epsilon / 2)`` (r^2 averaged over several epsilons): at epsilon 4 whole ballots are those of 22 people.

``item mean``, ``least``, ``most``: in how many populations the interval of an item's score, 95%, holds its score, over
items; theta runs from 1 to -1 in equal steps. ``ranks``: in how many all rank intervals hold at once. ``tied ranks``:
the same, half of the populations with items tied in pairs, half with all items equal; there an interval has to hold
every rank that breaking ties could give. ``width``: mean of high - low, and ``ratio`` that to the same construction
with the true covariance, the sandwich ``H^+ J H^+`` at the true scores with the J of the cell. (Not that of the fitted
scores themselves: where an item wins nearly all, a few populations give it a score far out and would set it alone.)
The last column names what misses the bar: item mean in [.93, .97], every item in [.92, .98], ranks at least .95 within
two standard errors, ratios at most 1.25.

Each cell is appended to a file when done, and a later run with the same options goes on from there.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from simulated import randomise_columns
from timing import OUT, report

from psephos.local.columns import ReportColumns
from psephos.local.fit import fit_reports
from psephos.scores import rank_intervals, score_covariance
from psephos.scores.answers import laplacian
from psephos.scores.links import as_link

LEVEL = 0.95
SPREAD = 2.0
RATIO = 1.25
BALLOTS_TRUE = 100_000
DRAWS_TRUE = 100_000  # for the quantile of the construction with the true covariance, once a cell

Floats = NDArray[np.float64]
Ranks = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    epsilons: tuple[str, ...]
    m: int
    link: str
    opinions: str
    reports: float  # n r^2 of a pair
    populations: int
    draws: int
    seed: int

    @property
    def people(self) -> int:
        """Reports of a pair, n: as many of each epsilon."""
        kinds = len(self.epsilons)
        mean = sum(math.tanh(float(eps) / 2) ** 2 for eps in self.epsilons) / kinds
        return kinds * math.ceil(self.reports / mean / kinds)

    def key(self) -> tuple[str, ...]:
        """What tells the cell from others, as the columns ``KEY`` have it."""
        numbers = [self.m, self.link, self.opinions, ",".join(self.epsilons), self.people]
        return tuple(map(str, [*numbers, self.populations, self.draws, self.seed]))

    def draw(self, theta: Floats, rng: np.random.Generator) -> ReportColumns:
        """Reports of one population with these scores."""
        left, right = np.triu_indices(self.m, 1)
        size = (self.people, len(left))
        choice = np.arange(self.people) % len(self.epsilons)
        if self.opinions == "independent":
            prefers = rng.random(size) < as_link(self.link).cdf(theta[left] - theta[right])
            choice, record = np.repeat(choice, len(left)), np.arange(prefers.size)
        else:
            utilities = self.utilities(theta, self.people, rng)
            prefers = utilities[:, left] > utilities[:, right]
            record = np.repeat(np.arange(self.people), len(left))
        return randomise_columns(
            [str(i) for i in range(self.m)],
            np.tile(left, self.people),
            np.tile(right, self.people),
            np.where(prefers, 1, -1).ravel(),
            epsilon=list(self.epsilons),
            choice=choice,
            record=record,
            unit="comparison",
            rng=rng,
        )

    def true_covariance(self, theta: Floats, rng: np.random.Generator) -> Floats:
        """``H^+ J H^+`` at the true scores; what wins on one ballot vary by is that of 100,000 others."""
        squares = np.array([math.tanh(float(eps) / 2) ** 2 for eps in self.epsilons])
        weights = squares / squares.mean()
        each = self.people / len(squares)
        difference = theta[:, None] - theta[None, :]
        link = as_link(self.link)
        if self.opinions == "independent":
            spread = laplacian(link.cdf(difference) * link.cdf(-difference))
        else:
            spread = np.cov(np.argsort(np.argsort(self.utilities(theta, BALLOTS_TRUE, rng), axis=1), axis=1).T)
        noise = laplacian(np.ones((self.m, self.m))) * (weights**2 * (1 / squares - 1) / 4).sum()
        return score_covariance(
            theta,
            self.people * (1.0 - np.eye(self.m)),
            wins_covariance=each * ((weights**2).sum() * spread + noise),
            regularisation=0,
            link=link,
        )

    def utilities(self, theta: Floats, people: int, rng: np.random.Generator) -> Floats:
        """Shape (people, m): whose differences follow the link."""
        size = (people, self.m)
        return theta + (rng.gumbel(size=size) if self.link == "logistic" else rng.normal(0.0, math.sqrt(0.5), size))

    def truths(self) -> Iterator[tuple[str, Floats, int, int]]:
        """Kind, scores, populations, and in how many of them ranks are looked at."""
        half = self.populations // 2
        spread = np.linspace(SPREAD / 2, -SPREAD / 2, self.m)
        pairs = spread[2 * (np.arange(self.m) // 2)]
        yield "spread", spread, self.populations, half
        yield "pairs", pairs - pairs.mean(), half // 2, half // 2
        yield "equal", np.zeros(self.m), half // 2, half // 2

    def measure(self) -> list[float]:
        """The numbers of the table."""
        rng = np.random.default_rng([self.seed, self.m, self.people, len(self.opinions), len(self.link)])
        coverage = np.zeros(self.m)
        found: dict[str, Sets] = {}
        for kind, theta, populations, ranked in self.truths():
            scores, low, high = [], [], []
            inside = np.zeros((populations, self.m), dtype=np.bool_)
            for number in range(populations):
                fit = fit_reports(self.draw(theta, rng), link=self.link, level=LEVEL)
                ends = fit.intervals
                inside[number] = (ends[:, 0] <= theta) & (theta <= ends[:, 1])
                scores.append(fit.scores)
                if number < ranked:
                    sets = fit.rank_intervals(rng=rng, draws=self.draws)
                    low.append(sets.low)
                    high.append(sets.high)
            if kind == "spread":
                coverage = inside.mean(axis=0)
            covariance = self.true_covariance(theta, rng)
            quantile = rank_intervals(theta, covariance, level=LEVEL, rng=rng, draws=DRAWS_TRUE).quantile
            variances = np.diag(covariance)
            reach = quantile * np.sqrt(variances[:, None] + variances[None, :] - 2 * covariance)
            found[kind] = Sets.judged(np.array(low), np.array(high), np.array(scores[:ranked]), reach, theta)
        spread, tied = found["spread"], found["pairs"] + found["equal"]
        sizes = [coverage.mean(), coverage.min(), coverage.max(), spread.held.mean(), tied.held.mean()]
        return [float(x) for x in [*sizes, spread.width.mean(), spread.ratio, tied.width.mean(), tied.ratio]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """Of each population: whether all rank intervals held, their mean high - low, and that by the true covariance."""

    held: NDArray[np.bool_]
    width: Floats
    true_width: Floats

    @classmethod
    def judged(
        cls, low: NDArray[np.intp], high: NDArray[np.intp], scores: Floats, reach: Floats, theta: Floats
    ) -> Sets:
        least = 1 + (theta[None, :] > theta[:, None]).sum(axis=1)
        most = len(theta) - (theta[None, :] < theta[:, None]).sum(axis=1)
        better = scores[:, :, None] - scores[:, None, :] > reach
        return cls(
            held=((low <= least) & (high >= most)).all(axis=1),
            width=(high - low).mean(axis=1),
            true_width=len(theta) - 1 - 2 * better.sum(axis=(1, 2)) / len(theta),
        )

    def __add__(self, other: Sets) -> Sets:
        return Sets(
            held=np.concatenate([self.held, other.held]),
            width=np.concatenate([self.width, other.width]),
            true_width=np.concatenate([self.true_width, other.true_width]),
        )

    @property
    def ratio(self) -> float:
        own, true = float(self.width.mean()), float(self.true_width.mean())
        return own / true if true else math.inf if own else 1.0


KEY = ["items", "link", "opinions", "epsilon", "people", "populations", "draws", "seed"]
NUMBERS = ["item mean", "least", "most", "ranks", "tied ranks", "width", "ratio", "tied width", "tied ratio"]


def verdict(cell: Cell, numbers: list[float]) -> str:
    """What misses the bar, by the names of the columns; ``ok`` if nothing."""
    mean, least, most, ranks, tied, _, ratio, _, tied_ratio = numbers
    fewest = LEVEL - 2 * math.sqrt(LEVEL * (1 - LEVEL) / (cell.populations // 2))
    missed = {
        "item mean": not 0.93 <= mean <= 0.97,
        "least": least < 0.92,
        "most": most > 0.98,
        "ranks": ranks < fewest,
        "tied ranks": tied < fewest,
        "ratio": ratio > RATIO,
        "tied ratio": tied_ratio > RATIO,
    }
    return ", ".join(name for name, miss in missed.items() if miss) or "ok"


def timed(cell: Cell) -> tuple[Cell, list[float], float]:
    start = time.perf_counter()
    return cell, cell.measure(), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="5,10,30")
    parser.add_argument("--links", default="logistic,normal")
    parser.add_argument("--opinions", default="ballots,independent")
    parser.add_argument("--epsilons", nargs="+", default=["0.5", "1", "2", "4", "0.5,1,2,4"], help="commas: a mix")
    parser.add_argument("--reports", type=float, default=20.0, help="least n r^2 of a pair")
    parser.add_argument("--populations", type=int, default=2000, help="for scores; ranks: half of them, half tied")
    parser.add_argument("--draws", type=int, default=1999, help="simulated errors for each set of rank intervals")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="200 populations, few items, two epsilons")
    parser.add_argument("--fresh", action="store_true", help="measure again what an earlier run has measured")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.items, arguments.epsilons, arguments.populations = "5,10", ["4", "0.5,1,2,4"], 200
    cells = [
        Cell(
            epsilons=tuple(epsilon.split(",")),
            m=m,
            link=link,
            opinions=opinions,
            reports=arguments.reports,
            populations=arguments.populations,
            draws=arguments.draws,
            seed=arguments.seed,
        )
        for m, opinions, link, epsilon in itertools.product(
            map(int, arguments.items.split(",")),
            arguments.opinions.split(","),
            arguments.links.split(","),
            arguments.epsilons,
        )
    ]
    kept = OUT / "local-coverage-cells.csv"
    OUT.mkdir(exist_ok=True)
    if arguments.fresh:
        kept.unlink(missing_ok=True)
    done: dict[tuple[str, ...], list[float]] = {}
    if kept.exists():
        with kept.open(newline="", encoding="utf-8") as stream:
            done = {tuple(row[: len(KEY)]): [float(x) for x in row[len(KEY) :]] for row in csv.reader(stream)}
    left = [cell for cell in cells if cell.key() not in done]
    with multiprocessing.Pool(arguments.processes) as pool, kept.open("a", newline="", encoding="utf-8") as stream:
        for cell, numbers, seconds in pool.imap_unordered(timed, left):
            done[cell.key()] = numbers
            csv.writer(stream, lineterminator="\n").writerow([*cell.key(), *numbers])
            stream.flush()
            print(*cell.key()[:5], verdict(cell, numbers), f"{seconds:.0f} s", flush=True)
    rows = [[*cell.key(), *(f"{x:.3f}" for x in done[cell.key()]), verdict(cell, done[cell.key()])] for cell in cells]
    report("local-coverage", [*KEY, *NUMBERS, "missed"], rows)


if __name__ == "__main__":
    main()

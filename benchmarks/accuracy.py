"""Mean excess Kendall cost of private consensus rankings, with standard errors: which mechanism is right where.

Excess is the mean, over people, of the Kendall distance to the released ranking, minus that of the best ranking. A cell
is a population (two real ones, at several epsilon; three simulated kinds, at m items, N people and t = epsilon N) under
a guarantee (pure, or delta = 1e-6). In each, every mechanism runs with every post-processing: those that release a
table are drawn once a repetition and every post-processing gets that same table, so that differences are paired. The
row ``auto`` repeats that of the mechanism which the package would choose, with its default post-processing.
Noise comes from repeatable test bits: nothing here is a release. Tables of 20 and more items that dynamic programming
cannot take are solved by local search alone, ``exponential`` runs up to 12 items, and ``certified`` up to 10. With
``--mechanisms`` only these are drawn, and the rows of the others are those of the file that is written to.

A cell's verdict is ``ok`` if the excess of ``auto`` is at most 5 % or two standard errors of the difference above that
of the best row, ``ABOVE`` if not.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from populations import REAL, SIMULATED, real, simulated

from psephos import Profile, pairwise_margins, solve
from psephos.central import MECHANISMS, plan_consensus, post_process
from psephos.central.certified import certified_order
from psephos.central.consensus import drawn_order, noisy_margins
from psephos.errors import ParameterError
from psephos.kemeny.effort import Effort
from psephos.pairwise import PairwiseEstimate
from psephos.privacy import InsecureBits

OUT = Path(__file__).parent / "out"
XI = Fraction(1, 10)
FIELDS = (
    "population", "items", "people", "t", "epsilon", "delta", "mechanism", "post_processing", "chosen",
    "excess", "standard_error", "repetitions", "verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    population: str
    items: int
    people: int
    t: float
    epsilon: str
    delta: str


def cells(
    names: list[str], items: list[int], people: list[int], ts: list[float], epsilons: list[str], deltas: list[str]
) -> Iterator[Cell]:
    """All cells of the grid."""
    for delta in deltas:
        for name in names:
            if name in REAL:
                profile = real(name)
                for epsilon in epsilons:
                    t = float(Fraction(epsilon) * profile.people)
                    yield Cell(
                        population=name, items=profile.m, people=profile.people, t=t, epsilon=epsilon, delta=delta
                    )
                continue
            for m in items:
                for n in people:
                    for t in ts:
                        yield Cell(population=name, items=m, people=n, t=t, epsilon=f"{t / n:.6g}", delta=delta)


class Costs:
    """What orders cost under the exact margins, above the best."""

    def __init__(self, profile: Profile) -> None:
        self.margins = pairwise_margins(profile)
        self.people = profile.people
        self._doubles = self.margins.astype(np.float64)
        best = solve(self.margins, people=profile.people)
        self._best = self._score(best.order)

    def _score(self, order: tuple[int, ...]) -> float:
        return float(np.triu(self._doubles[np.ix_(order, order)], 1).sum())

    def excess(self, order: tuple[int, ...]) -> float:
        return (self._best - self._score(order)) / 2 / self.people


def repetitions(draw: Callable[[], dict[str, float]], *, most: int, seconds: float) -> dict[str, np.ndarray]:
    """``draw`` over and over, at least 10 times, until ``most`` times or out of time."""
    values: dict[str, list[float]] = {}
    start = time.monotonic()
    for k in range(most):
        if k >= 10 and time.monotonic() - start > seconds:
            break
        for name, value in draw().items():
            values.setdefault(name, []).append(value)
    return {name: np.array(column) for name, column in values.items()}


def measure(
    cell: Cell, mechanisms: list[str], known: list[dict[str, object]], *, most: int, seconds: float, seed: int
) -> list[dict[str, object]]:
    """The rows of one cell: of these mechanisms, of those in ``known``, and of ``auto``."""
    profile = real(cell.population) if cell.population in REAL else simulated(
        cell.population, cell.items, cell.people, seed=seed
    )  # fmt: skip
    costs = Costs(profile)
    bits = InsecureBits(seed=seed)
    limit = 5.0 if profile.m < 20 else 0.0
    rows: list[dict[str, object]] = []
    for mechanism in mechanisms:
        if mechanism == "exponential" and profile.m > 12:
            continue  # a minute a draw at 20 items
        try:
            plan = plan_consensus(
                profile.m, epsilon=cell.epsilon, delta=cell.delta, mechanism=mechanism, people=profile.people
            )
        except ParameterError:
            continue

        def draw(plan=plan, mechanism=mechanism) -> dict[str, float]:
            if plan.law is None:
                order, *_ = drawn_order(
                    profile, plan, unranked="last", xi=XI, effort=Effort(max(limit, 1.0)), bits=bits
                )
                return {"": costs.excess(order)}
            table, noise, _ = noisy_margins(costs.margins, plan, answers=profile.people, bits=bits)
            estimate = PairwiseEstimate(items=profile.items, margins=table, noise=noise)
            methods = ("adaptive",) if mechanism == "borda" else ("adaptive", "raw")
            result = {}
            if mechanism in ("laplace", "gaussian", "nuclear") and profile.m <= 10:
                _, found = certified_order(table, people=profile.people, xi=XI, effort=Effort(2 * limit))
                result["certified"] = costs.excess(found.order)
            for method in methods:
                given, _ = post_process(estimate, method=method, people=profile.people)
                result[method] = costs.excess(solve(given, effort=limit).order)
            return result

        for method, values in repetitions(draw, most=most, seconds=seconds).items():
            rows.append(
                {
                    "population": cell.population,
                    "items": profile.m,
                    "people": profile.people,
                    "t": f"{cell.t:.6g}",
                    "epsilon": cell.epsilon,
                    "delta": cell.delta,
                    "mechanism": mechanism,
                    "post_processing": method,
                    "chosen": mechanism,
                    "excess": float(values.mean()),
                    "standard_error": float(values.std(ddof=1) / math.sqrt(len(values))),
                    "repetitions": len(values),
                }
            )
    rows += known
    chosen = plan_consensus(profile.m, epsilon=cell.epsilon, delta=cell.delta, people=profile.people).mechanism
    best = min(rows, key=lambda row: row["excess"])
    auto = next(row for row in rows if row["mechanism"] == chosen and row["post_processing"] in ("adaptive", ""))
    allowed = max(0.05 * best["excess"], 2 * math.hypot(auto["standard_error"], best["standard_error"]), 1e-9)
    verdict = "ok" if auto["excess"] <= best["excess"] + allowed else "ABOVE"
    return [*rows, {**auto, "mechanism": "auto", "verdict": verdict}]


def key_of(cell: Cell) -> tuple[str, ...]:
    """What tells a cell apart in the file."""
    return (cell.population, str(cell.items), str(cell.people), f"{cell.t:.6g}", cell.delta)


def rows_of_others(path: Path, mechanisms: list[str]) -> dict[tuple[str, ...], list[dict[str, object]]]:
    """The measured rows of all mechanisms but these, by cell."""
    found: dict[tuple[str, ...], list[dict[str, object]]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["mechanism"] in (*mechanisms, "auto"):
                continue
            key = tuple(row[name] for name in ("population", "items", "people", "t", "delta"))
            numbers = {name: float(row[name]) for name in ("excess", "standard_error")}
            found.setdefault(key, []).append({**row, **numbers, "repetitions": int(row["repetitions"])})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--populations", default=",".join((*REAL, *SIMULATED)))
    parser.add_argument("--items", default="5,10,20,50")
    parser.add_argument("--people", default="1000,10000,1000000")
    parser.add_argument("--t", default="10,100,1000,10000,100000")
    parser.add_argument("--epsilons", default="0.01,0.03,0.1,0.3,1,3", help="of the real populations")
    parser.add_argument("--deltas", default="0,1e-6")
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0, help="for one mechanism in one cell")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mechanisms", default=",".join(MECHANISMS[1:]), help="the others as in the output file")
    parser.add_argument("--output", type=Path, default=OUT / "accuracy.csv")
    arguments = parser.parse_args()
    mechanisms = arguments.mechanisms.split(",")
    grid = list(
        cells(
            arguments.populations.split(","),
            [int(x) for x in arguments.items.split(",")],
            [int(x) for x in arguments.people.split(",")],
            [float(x) for x in arguments.t.split(",")],
            arguments.epsilons.split(","),
            arguments.deltas.split(","),
        )
    )
    arguments.output.parent.mkdir(exist_ok=True)
    before = rows_of_others(arguments.output, mechanisms) if len(mechanisms) < len(MECHANISMS) - 1 else {}
    above = 0
    with ProcessPoolExecutor(arguments.workers) as pool, arguments.output.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS)
        writer.writeheader()
        jobs = [
            pool.submit(
                measure, cell, mechanisms, before.get(key_of(cell), []),
                most=arguments.repetitions, seconds=arguments.seconds, seed=arguments.seed,
            )
            for cell in grid
        ]  # fmt: skip
        for cell, job in zip(grid, jobs, strict=True):
            rows = job.result()
            writer.writerows(rows)
            stream.flush()
            auto = next(row for row in rows if row["mechanism"] == "auto")
            best = min((row for row in rows if row["mechanism"] != "auto"), key=lambda row: row["excess"])
            above += auto["verdict"] != "ok"
            where = f"{cell.population} m={cell.items} N={cell.people} t={cell.t:g} delta={cell.delta}"
            auto_text = f"auto = {auto['chosen']} {auto['excess']:.4g} ({auto['standard_error']:.2g})"
            best_text = f"best {best['mechanism']} {best['post_processing']} {best['excess']:.4g}"
            print(f"{where}: {auto_text}, {best_text} {auto['verdict']}", flush=True)
    print(f"{len(grid) - above} of {len(grid)} cells ok; all rows in {arguments.output.name}")


if __name__ == "__main__":
    main()

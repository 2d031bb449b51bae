"""How sure a private ranking is: rank intervals of a private posterior against those of released scores.

    python experiments/ranking_confidence/run.py [--state]

measures one replicate after another into ``results.csv`` and goes on where it stopped; then draws ``results.png`` and
prints what ``expected.json`` states (``--state`` writes it). ``--quick`` measures one replicate of some cells into a
folder of its own. Real people are the population; a replicate draws n of them with replacement and releases at
(epsilon, 1e-6), the unit of privacy being the person. Everything is simulated: nothing here is a release.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos import Comparisons, Profile, private_consensus, private_scores, read_comparisons_csv, read_preflib
from psephos.bootstrap import BradleyTerryLoss, Records, comparison_records, private_posterior
from psephos.errors import AccuracyWarning, PrivacyWarning
from psephos.privacy import InsecureBits

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "private_bootstrap"))  # where rivals.m_estimate is
DATA = HERE.parent.parent / "tests" / "data"
CELL = ("data", "n", "epsilon", "method", "replicate")
MEASURES = ("covered", "width", "tiers", "top3", "seconds")
DELTA, LEVEL, DRAWS = "1e-6", 0.95, 20_000
NO_PRIVACY = 10_000.0
EPSILONS = (0.5, 1.0, 4.0)
SIZES = {"sushi": (500, 2000, 5000), "equal": (2000,), "llmfao": (124, 1240, 9920)}
METHODS = {
    "sushi": ("sandwich", "sandwich, tight", "borda", "gaussian", "auto", "wins"),
    "equal": ("sandwich", "sandwich, tight", "borda", "gaussian", "wins"),
    "llmfao": ("sandwich", "wins, public graph", "wins, private graph", "ballots"),
}
MOST_ANSWERS = 100  # of one worker of llmfao, drawn once: records are arrays as wide as the longest

Row = dict[str, Any]
Rows = Sequence[Mapping[str, str]]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class CompleteBallotLoss(BradleyTerryLoss):
    """Bradley-Terry scores of people who answer all pairs as one ranking does, with the bound that this allows.

    The gradient is (expected wins less wins) / D, D = m(m - 1)/2. At every theta both vectors lie in the hull of the
    rankings' (0, ..., m - 1), whose diameter is that of a ranking and its reverse, ``sqrt(m (m^2 - 1) / 3)``.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        m = len(self.items)
        bound = math.sqrt(m * (m * m - 1) / 3) / (m * (m - 1) / 2)
        object.__setattr__(self, "bound", bound * (1 + 2.0**-40))


# ------------------------------------------------------------------------------------------------------ populations


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Real people: their ballots, the comparisons they make, and the records of both as the posterior takes them.

    ``places`` has shape (people, m), 0 where an item is not ranked; ``rows`` are the rows of ``comparisons`` of each.
    """

    places: Whole
    comparisons: Comparisons
    rows: tuple[Whole, ...]
    records: Records

    @property
    def items(self) -> tuple[str, ...]:
        return self.comparisons.items

    @property
    def people(self) -> int:
        return len(self.places)

    def drawn_ballots(self, who: Whole) -> Profile:
        counts = np.bincount(who, minlength=self.people)
        held = np.flatnonzero(counts)
        return Profile.from_places(self.items, self.places[held].T, counts[held].tolist())

    def drawn_comparisons(self, who: Whole) -> Comparisons:
        table = self.comparisons
        rows = np.concatenate([self.rows[i] for i in who])
        person = np.repeat(np.arange(len(who)), [len(self.rows[i]) for i in who])
        names = tuple(str(i) for i in range(len(who)))
        columns = (column[rows] for column in (table.left, table.right, table.outcome))
        return Comparisons.from_columns(self.items, *columns, person=person, persons=names)

    def drawn_records(self, who: Whole) -> Records:
        return tuple(column[who] for column in self.records)


def _population(table: Comparisons, places: Whole) -> Population:
    person = np.asarray(table.person)
    order = np.argsort(person, kind="stable")
    rows = np.split(order, np.searchsorted(person[order], np.arange(1, len(places))))
    return Population(
        places=places,
        comparisons=table,
        rows=tuple(rows),
        records=comparison_records(table, max_comparisons=max(len(mine) for mine in rows)),
    )


@cache
def population(data: str) -> Population:
    return _llmfao() if data == "llmfao" else _sushi(equal=data == "equal")


def _sushi(*, equal: bool) -> Population:
    """5,000 rankings of ten kinds of sushi; as comparisons, all 45 pairs of each.

    ``equal``: the first 500 with the kinds renamed in a circle, ten times each, which makes all kinds exactly equal.
    """
    profile = read_preflib(DATA / "sushi.soc")
    places = np.repeat(profile.places.T.astype(np.int64), [int(n) for n in profile.counts], axis=0)
    if equal:
        places = np.concatenate([np.roll(places[:500], k, axis=1) for k in range(profile.m)])
    first, second = np.triu_indices(profile.m, 1)
    outcome = np.sign(places[:, second] - places[:, first])
    person = np.repeat(np.arange(len(places)), len(first))
    left, right = (np.tile(one, len(places)) for one in (first, second))
    return _population(Comparisons.from_columns(profile.items, left, right, outcome.ravel(), person=person), places)


def _llmfao() -> Population:
    """124 workers' judgements of 59 language models, at most ``MOST_ANSWERS`` of each.

    A worker's ballot ranks the models they judged by wins less losses over judgements, and compares others with
    nothing.
    """
    table = read_comparisons_csv(DATA / "llmfao.csv").with_items_public()
    person = np.asarray(table.person)
    order = np.random.default_rng(1).permutation(len(person))
    order = order[np.argsort(person[order], kind="stable")]
    starts = np.searchsorted(person[order], person[order])
    kept = np.sort(order[np.arange(len(order)) - starts < MOST_ANSWERS])
    left, right, outcome, person = (c[kept] for c in (table.left, table.right, table.outcome, person))
    table = Comparisons.from_columns(table.items, left, right, outcome, person=person, persons=table.persons)
    places = np.zeros((int(person.max()) + 1, table.m), dtype=np.int64)
    for i in range(len(places)):
        mine = person == i
        sides = np.concatenate([left[mine], right[mine]])
        net = np.bincount(sides, np.concatenate([outcome[mine], -outcome[mine]]).astype(float), minlength=table.m)
        judged = np.bincount(sides, minlength=table.m)
        held = np.flatnonzero(judged)
        share = np.round(net[held] / judged[held], 12)
        places[i, held] = 1 + (share[:, None] < share[None, :]).sum(axis=1)
    return _population(table, places)


# ---------------------------------------------------------------------------------------------------------- targets


def bradley_terry(data: str, *, pairs: int | None) -> Floats:
    """Scores of the population: of the mean loss of a person, or of all answers with ``pairs`` pairs a person at most.

    In the second a person's answers to one pair count as their mean, and each pair with the chance that it is drawn.
    """
    people = population(data)
    table, m = people.comparisons, len(people.items)
    wins = np.zeros((m, m))
    for rows in people.rows:
        left, right, won = table.left[rows], table.right[rows], (1 + table.outcome[rows]) / 2
        weight = np.ones(len(rows))
        if pairs is None:
            weight /= len(rows)
        else:
            key = np.minimum(left, right) * m + np.maximum(left, right)
            _, where, times = np.unique(key, return_inverse=True, return_counts=True)
            weight = min(1.0, pairs / len(times)) / times[where]
        np.add.at(wins, (left, right), weight * won)
        np.add.at(wins, (right, left), weight * (1 - won))
    first, second = np.nonzero(np.triu(wins + wins.T))
    weights = (wins + wins.T)[first, second]
    outcome = wins[first, second] / weights
    records = (first[:, None], second[:, None], outcome[:, None], np.ones(len(first), dtype=np.int64))
    from rivals.m_estimate import weighted_m_estimate

    return weighted_m_estimate(records, BradleyTerryLoss(items=people.items), weights)


@cache
def target(data: str, method: str, pairs: int | None) -> Floats:
    """What a method's ranks are ranks of, in the whole population."""
    if method.startswith(("sandwich", "wins")):
        fitted = bradley_terry(data, pairs=pairs)
        return np.round(fitted, 9)  # equal items are no more equal than that
    places = population(data).places
    ranked = (places[:, :, None] > 0) & (places[:, None, :] > 0)
    scores: Floats = (np.sign(places[:, None, :] - places[:, :, None]) * ranked).sum(axis=2).mean(axis=0)
    return scores


def apart(data: str, first: Floats, second: Floats) -> dict[str, float]:
    """How far two targets lie apart: the share of pairs that they order otherwise, and the most places of an item."""
    m = len(population(data).items)
    u, v = np.triu_indices(m, 1)
    otherwise = (first[u] - first[v]) * (second[u] - second[v]) < 0
    ranks = [np.argsort(np.argsort(-one, kind="stable"), kind="stable") for one in (first, second)]
    return {
        "pairs ordered otherwise": round(float(otherwise.mean()), 4),
        "places of an item": int(np.abs(ranks[0] - ranks[1]).max()),
    }


# --------------------------------------------------------------------------------------------------------- releases


def ranks_of(data: str, method: str, epsilon: float, who: Whole, seed: int) -> tuple[ArrayLike, ArrayLike, int | None]:
    """Best and worst rank of each item of a release on the people ``who``, and the pairs of each that counted."""
    people, bits = population(data), InsecureBits(seed=seed)
    if method.startswith("sandwich"):
        kind = CompleteBallotLoss if method == "sandwich, tight" else BradleyTerryLoss
        loss = kind(items=people.items)
        release = private_posterior(
            people.drawn_records(who), loss, epsilon=epsilon, delta=DELTA, method="sandwich", bits=bits
        )
        sets = release.value.sample(DRAWS, rng=np.random.default_rng(seed)).rank_intervals(level=LEVEL)
        return sets.low, sets.high, None
    if method.startswith("wins"):
        graph: Literal["public", "private"] = "private" if method == "wins, private graph" else "public"
        pairs = None if data == "llmfao" else 45
        scores = private_scores(
            people.drawn_comparisons(who),
            epsilon=epsilon,
            delta=DELTA,
            graph=graph,
            pairs=pairs,
            level=LEVEL,
            bits=bits,
        ).value
        place = [scores.items.index(name) for name in people.items]
        return np.array(scores.best_rank)[place], np.array(scores.worst_rank)[place], scores.pairs
    consensus = private_consensus(
        people.drawn_ballots(who),
        epsilon=epsilon,
        delta=DELTA,
        mechanism={"gaussian": "gaussian", "auto": "auto"}.get(method, "borda"),  # type: ignore[arg-type]
        unranked="missing" if data == "llmfao" else "last",
        level=LEVEL,
        effort=0.0 if data == "llmfao" else 60.0,  # of a consensus, which is not looked at
        bits=bits,
    ).value
    if consensus.ranks is None:
        raise RuntimeError("no rank intervals")
    return consensus.ranks.low, consensus.ranks.high, None


def measure(cell: Row) -> Row:
    """A row of results of one replicate."""
    data, n, epsilon, method = cell["data"], cell["n"], cell["epsilon"], cell["method"]
    # The same people for all methods and epsilons, and noise of its own for each.
    rng = np.random.default_rng([zlib.crc32(data.encode()), n, cell["replicate"]])
    who: Whole = rng.integers(0, population(data).people, size=(n,))
    seed = zlib.crc32(repr([cell[name] for name in CELL]).encode())
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", AccuracyWarning)
        best, worst, pairs = ranks_of(data, method, epsilon, who, seed)
    seconds = time.perf_counter() - start
    low, high, truth = np.asarray(best), np.asarray(worst), target(data, method, pairs)
    above = 1 + (truth[None, :] > truth[:, None]).sum(axis=1)
    below = len(truth) - (truth[None, :] < truth[:, None]).sum(axis=1)
    return cell | {
        "covered": int(((low <= above) & (below <= high)).all()),
        "width": round(float((high - low + 1).mean()), 4),
        "tiers": tiers(low, high),
        "top3": int((low <= 3).sum()),
        "seconds": round(seconds, 3),
    }


def tiers(low: Whole, high: Whole) -> int:
    """One more than the cuts with the same items surely before them as are surely not behind."""
    m = len(low)
    return 1 + sum(int((high <= k).sum()) == k and int((low > k).sum()) == m - k for k in range(1, m))


# ------------------------------------------------------------------------------------------------------------- cells


def replicates(data: str, n: int, epsilon: float, method: str) -> int:
    if data != "llmfao":
        return 100
    if method == "sandwich" and n > 124:  # seconds a fit, and it says nothing
        return 10 if n == 1240 else {4.0: 8, 1.0: 3}.get(epsilon, 2)
    return 20


def cells(*, quick: bool) -> Iterator[Row]:
    """Replicates outermost, so that a run that is stopped has some of every cell."""
    for data, sizes in SIZES.items():
        for replicate in range(1 if quick else 100):
            for n in sizes[: 1 if quick else None]:
                for epsilon in (4.0,) if quick else (*EPSILONS, NO_PRIVACY):
                    for method in METHODS[data]:
                        if data != "llmfao" and epsilon == NO_PRIVACY and method != "borda":
                            continue
                        if replicate < replicates(data, n, epsilon, method):
                            values = (data, n, epsilon, method, replicate)
                            yield dict(zip(CELL, values, strict=True))


def key_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in CELL)


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open() as stream:
        return list(csv.DictReader(stream))


def run(path: Path, *, quick: bool) -> None:
    """Measure the cells that the table lacks; a half-written last line is cut off."""
    if path.exists():
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])
    known = {key_of(row) for row in read(path)}
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, (*CELL, *MEASURES), lineterminator="\n")
        if not known and not path.stat().st_size:
            writer.writeheader()
        for cell in cells(quick=quick):
            if key_of(cell) not in known:
                writer.writerow(measure(cell))
                stream.flush()


# ---------------------------------------------------------------------------------------------------------- verdicts


def name_of(data: str, n: int, epsilon: float) -> str:
    return f"{data}, n = {n}, " + ("no privacy" if epsilon == NO_PRIVACY else f"epsilon = {epsilon:g}")


def summary(rows: Rows) -> dict[str, float]:
    """Means over replicates, with the standard error of the width; the median of the seconds."""
    found = {name: np.array([float(row[name]) for row in rows]) for name in MEASURES}
    width = found["width"]
    return {
        "coverage": round(float(found["covered"].mean()), 3),
        "width": round(float(width.mean()), 2),
        "width_se": round(float(width.std(ddof=1)) / math.sqrt(len(rows)), 3) if len(rows) > 1 else 0.0,
        "tiers": round(float(found["tiers"].mean()), 2),
        "top3": round(float(found["top3"].mean()), 2),
        "seconds": round(float(np.median(found["seconds"])), 2),
        "replicates": len(rows),
    }


def targets() -> dict[str, Any]:
    """How far the methods' targets lie from that of the posterior."""
    mine = {data: target(data, "sandwich", None) for data in ("sushi", "llmfao")}
    named = {
        "sushi": {"mean scores": target("sushi", "borda", None), "wins": target("sushi", "wins", 45)},
        "llmfao": {
            "mean scores of ballots": target("llmfao", "ballots", None),
            **{f"wins, {k} pairs a person": target("llmfao", "wins", k) for k in (7, 59)},
        },
    }
    return {
        data: {name: apart(data, mine[data], theirs) for name, theirs in others.items()}
        for data, others in named.items()
    }


def verdict(rows: Rows) -> dict[str, Any]:
    """Each cell that has rows: every method, and the one of least width among those that cover."""
    result: dict[str, Any] = {"targets": targets()}
    for data, sizes in SIZES.items():
        for n in sizes:
            for epsilon in (*EPSILONS, NO_PRIVACY):
                wanted = (data, str(n), str(epsilon))
                mine = [row for row in rows if (row["data"], row["n"], row["epsilon"]) == wanted]
                cell = {
                    method: summary(found)
                    for method in METHODS[data]
                    if (found := [row for row in mine if row["method"] == method])
                }
                if cell:
                    result[name_of(data, n, epsilon)] = cell
    return result


def draw(rows: Rows, path: Path) -> None:
    """Mean widths of rank intervals; a cross where fewer than .9 of the replicates were covered."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = verdict(rows)
    figure, axes = pyplot.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for line, data in zip(axes, ("sushi", "llmfao"), strict=True):
        for axis, n in zip(line, SIZES[data], strict=True):
            held = [found.get(name_of(data, n, epsilon), {}) for epsilon in (*EPSILONS, NO_PRIVACY)]
            for i, method in enumerate(METHODS[data]):
                at = [x for x, cell in enumerate(held) if method in cell]
                width = [held[x][method]["width"] for x in at]
                axis.plot(at, width, color=f"C{i}", linewidth=1, label=method)
                for x, y in zip(at, width, strict=True):
                    kept = held[x][method]["coverage"] >= 0.9
                    axis.plot(x, y, "o" if kept else "x", color=f"C{i}", markersize=4 if kept else 8)
            axis.set_title(f"{data}, {n:,} people", fontsize=9)
            axis.set_xticks(range(4), [*(f"{epsilon:g}" for epsilon in EPSILONS), "no privacy"])
            axis.set_ylim(0, (10 if data == "sushi" else 59) * 1.05)
        line[0].set_ylabel("mean width of rank intervals")
        line[2 if data == "sushi" else 0].legend(fontsize=7)
    for axis in axes[1]:
        axis.set_xlabel("epsilon")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--state", action="store_true", help="write what the rows say into expected.json")
    parser.add_argument("--output", type=Path, help="a folder; this one by default, a new one with --quick")
    arguments = parser.parse_args()
    folder = arguments.output or (Path(tempfile.mkdtemp(prefix="ranking_confidence_")) if arguments.quick else HERE)
    folder.mkdir(parents=True, exist_ok=True)
    run(folder / "results.csv", quick=arguments.quick)
    rows = read(folder / "results.csv")
    draw(rows, folder / "results.png")
    said = json.dumps(verdict(rows), indent=2)
    print(said)
    if arguments.state:
        (folder / "expected.json").write_text(said + "\n")


if __name__ == "__main__":
    main()

"""Scores and rankings from randomised answers: bias, rates, recovery, unlike epsilons, real data, peers.

    python experiments/local_ranking/run.py [PART ...]

measures each part (bias, rates, recovery, heterogeneous, real, peers; all by default), a cell at a time, into
``PART.csv``, and goes on where it stopped; then draws ``PART.png`` and prints what ``expected.json`` states. Each part
is described in the file of its name. ``--quick`` runs a few replicates of a few cells into a folder of its own. Answers
are randomised with a seeded generator: nothing here is a release.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType

import bias
import heterogeneous
import peers
import pictures
import rates
import real
import recovery
import verdicts

HERE = Path(__file__).parent
PARTS: dict[str, ModuleType] = {
    "bias": bias,
    "rates": rates,
    "recovery": recovery,
    "heterogeneous": heterogeneous,
    "real": real,
    "peers": peers,
}

Row = dict[str, object]


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open() as stream:
        return list(csv.DictReader(stream))


def write(path: Path, rows: list[Row]) -> None:
    """All rows at once: a run that is stopped leaves a whole file."""
    new = path.with_suffix(".new")
    with new.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)


def run(part: str, folder: Path, *, quick: bool, seed: int, workers: int) -> None:
    """Measure the cells that ``PART.csv`` lacks; rows in the order of the cells."""
    module, path = PARTS[part], folder / f"{part}.csv"
    cells = module.cells(quick=quick)
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in read(path):
        found.setdefault(tuple(row[key] for key in module.CELL), []).append(dict(row))

    def key(cell: Row) -> tuple[str, ...]:
        return tuple(str(cell[name]) for name in module.CELL)

    wanted = {key(cell): module.replicates(cell, quick=quick) for cell in cells}
    found = {k: rows for k, rows in found.items() if k in wanted and int(str(rows[0]["replicates"])) >= wanted[k]}
    todo = [cell for cell in cells if key(cell) not in found]
    with ExitStack() as stack:
        work = partial(_measure, part, seed=seed)
        counts = [wanted[key(cell)] for cell in todo]
        results: Iterable[list[Row]] = map(work, todo, counts)
        if workers > 1:
            results = stack.enter_context(ProcessPoolExecutor(workers)).map(work, todo, counts)
        for rows in results:
            found[key(rows[0])] = rows
            write(path, [row for k in wanted if k in found for row in found[k]])


def _measure(part: str, cell: Row, count: int, *, seed: int) -> list[Row]:
    return PARTS[part].measure(cell, count=count, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a folder; this one by default, a new one with --quick")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        parser.error(f"PART must be one of {', '.join(PARTS)}, got {unknown[0]}")
    folder = arguments.output or (Path(tempfile.mkdtemp(prefix="local_ranking_")) if arguments.quick else HERE)
    folder.mkdir(parents=True, exist_ok=True)
    stated = {}
    for part in arguments.parts or PARTS:
        run(part, folder, quick=arguments.quick, seed=arguments.seed, workers=arguments.workers)
        rows = read(folder / f"{part}.csv")
        pictures.draw(part, rows, folder / f"{part}.png")
        if not arguments.quick:
            stated[part] = verdicts.OF[part](rows)
            print(json.dumps({part: stated[part]}, indent=2))
    print(f"written to {folder}")


if __name__ == "__main__":
    main()

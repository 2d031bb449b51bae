"""The source document's figures and tables beside ours: "Private Generative Bootstrap via Blocking" (the document).

    python experiments/private_bootstrap/run.py [PART ...] [--workers 2]

measures each part, one replicate at a time, into ``PART.csv`` and goes on where it stopped; then draws ``PART.png``
and prints what ``expected.json`` states. The last column of a row, ``code``, says which code made it. A part is
described in the file of its name. ``--quick`` runs a few replicates of a few cells into a folder of its own.
Everything is simulated from keys: nothing here is a release.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from summaries import read

HERE = Path(__file__).parent
PARTS = (
    "curves",
    "blocking",
    "regression",
    "sandwich",
    "efficient",
    "levers",
    "non_normal",
    "choice",
    "census_truth",
    "unstated",
    "monte_carlo",
    "concentration",
    "exponential_family",
    "effective_sizes",
    "census",
    "natality",
)

Row = dict[str, Any]


def key_of(row: Row, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in names)


class Table:
    """Rows on disk, one more at a time; a half-written last line is cut off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            text = path.read_text()
            path.write_text(text[: text.rfind("\n") + 1])

    def drop(self, code: str) -> None:
        """Forget what a version of the code made."""
        rows = read(self.path)
        if kept := [row for row in rows if row["code"] != code]:
            with self.path.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(kept[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(kept)
        elif rows:
            self.path.unlink()

    def add(self, row: Row) -> None:
        fresh = not self.path.exists() or not self.path.stat().st_size
        with self.path.open("a", newline="") as stream:
            writer = csv.DictWriter(stream, list(row), lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(row)


def version_of_the_code() -> str:
    """Which package and which rivals made a row: README.md says how to find the commit; ``+`` where files differ."""

    def git(*words: str, given: str = "") -> str:
        done = subprocess.run(["git", *words], cwd=HERE, input=given, capture_output=True, text=True, check=True)  # noqa: S603, S607
        return done.stdout

    folders = ("src", "experiments/private_bootstrap/rivals")
    names = git("rev-parse", *(f"HEAD:{folder}" for folder in folders))
    changed = git("status", "--porcelain", "--", *(f":/{folder}" for folder in folders))
    return git("hash-object", "--stdin", given=names)[:12] + ("+" if changed else "")


def run(part: str, path: Path, *, quick: bool, workers: int) -> None:
    """Measure the cells that the table lacks."""
    module = import_module(part)
    table = Table(path)
    known = {key_of(row, module.CELL) for row in read(path)}
    code = {"code": version_of_the_code()}
    todo = [cell for cell in module.cells(quick=quick) if key_of(cell, module.CELL) not in known]
    if workers == 1:
        for cell in todo:
            for row in measured(part, cell):
                table.add(row | code)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(measured, part, cell) for cell in todo]):
            for row in done.result():
                table.add(row | code)


def measured(part: str, cell: Row) -> list[Row]:
    """A cell's rows, all with the same columns: those of its key first."""
    measure: Callable[[Row], Row | list[Row]] = import_module(part).measure
    rows = measure(cell)
    return rows if isinstance(rows, list) else [rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--again", metavar="CODE", help="measure again what this version of the code made")
    parser.add_argument("--state", action="store_true", help="write what the rows say into expected.json")
    parser.add_argument("--output", type=Path, help="a folder; this one by default, a new one with --quick")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        parser.error(f"PART must be one of {', '.join(PARTS)}, got {unknown[0]}")
    folder = arguments.output or (Path(tempfile.mkdtemp(prefix="private_bootstrap_")) if arguments.quick else HERE)
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.workers > 1:  # one thread each; before JAX is loaded
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    for part in arguments.parts or PARTS:
        path = folder / f"{part}.csv"
        if arguments.again:
            Table(path).drop(arguments.again)
        run(part, path, quick=arguments.quick, workers=arguments.workers)
        module, rows = import_module(part), read(path)
        module.draw(rows, folder / f"{part}.png")
        if not arguments.quick:
            said = {part: module.verdict(rows)}
            print(json.dumps(said, indent=2))
            if arguments.state:
                expected = folder / "expected.json"
                known = json.loads(expected.read_text()) if expected.exists() else {}
                expected.write_text(json.dumps(known | said, indent=2) + "\n")
    print(f"written to {folder}")


if __name__ == "__main__":
    main()

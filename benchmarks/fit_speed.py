"""Scores with standard errors against peers, and of 10^5 items from 10^7 comparisons.

Every contender runs in an interpreter of its own, with as many threads as the environment allows it, and is timed from
numpy arrays to scores: what it needs to make of them is part of its time. Peers are optional:
`pip install evalica arena-rank`, or ARENA_RANK_PYTHON=/path/to/python of another environment that has arena-rank (it
needs versions of numpy and jax of its own). A peer's tolerance is tightened until its score equations hold to 1e-6 per
comparison, and then it is timed.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

RESIDUAL = 1e-6  # largest |wins - expected wins| of an item, divided by its number of comparisons
TOLERANCES = [10.0**-k for k in range(6, 17)]


def simulated(items: int, comparisons: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=items)
    left = rng.integers(0, items, comparisons)
    right = (left + rng.integers(1, items, comparisons)) % items
    outcome = np.where(rng.random(comparisons) < 1 / (1 + np.exp(theta[right] - theta[left])), 1, -1)
    return {"left": left, "right": right, "outcome": outcome.astype(np.int8), "items": np.array(items)}


def residual_per_comparison(data: dict[str, np.ndarray], scores: np.ndarray) -> float:
    """The largest ``|wins - expected wins|`` of an item, divided by its number of comparisons."""
    left, right, m = data["left"], data["right"], int(data["items"])
    surprise = (1.0 + data["outcome"]) / 2.0 - 1.0 / (1.0 + np.exp(scores[right] - scores[left]))
    excess = np.bincount(left, weights=surprise, minlength=m) - np.bincount(right, weights=surprise, minlength=m)
    answers = np.bincount(left, minlength=m) + np.bincount(right, minlength=m)
    return float((np.abs(excess) / np.maximum(answers, 1)).max())


def psephos_scores(data: dict[str, np.ndarray]) -> Callable[[float], tuple[np.ndarray, dict[str, object]]]:
    from psephos import Comparisons
    from psephos.scores import fit_scores

    names = [f"item {u}" for u in range(int(data["items"]))]

    def run(_: float) -> tuple[np.ndarray, dict[str, object]]:
        table = Comparisons.from_columns(names, data["left"], data["right"], data["outcome"])
        fit = fit_scores(table)
        more: dict[str, object] = {"intervals": fit.intervals is not None, "precision": fit.errors_precision}
        # The penalty is part of the equations that were solved.
        return fit.scores, {**more, "own_residual": fit.residual, "fit": fit}

    return run


def evalica_scores(
    data: dict[str, np.ndarray], *, indexed: bool = False
) -> Callable[[float], tuple[np.ndarray, dict[str, object]]]:
    import evalica
    import pandas as pd

    index = pd.Index(range(int(data["items"])))
    names = (evalica.Winner.X, evalica.Winner.Y)

    def run(tolerance: float) -> tuple[np.ndarray, dict[str, object]]:
        winners = [names[lost] for lost in (data["outcome"] < 0).tolist()]
        # Its fastest way, or that of its documentation: the elements, and no index.
        sides = [data[side] if indexed else data[side].tolist() for side in ("left", "right")]
        result = evalica.bradley_terry(
            *sides, winners, index=index if indexed else None, tolerance=tolerance, limit=10_000
        )
        return np.log(result.scores.sort_index().to_numpy()), {"iterations": result.iterations, "intervals": False}

    return run


def arena_rank_scores(data: dict[str, np.ndarray]) -> Callable[[float], tuple[np.ndarray, dict[str, object]]]:
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    def run(tolerance: float) -> tuple[np.ndarray, dict[str, object]]:
        winner = np.where(data["outcome"] > 0, "model_a", "model_b")
        frame = pd.DataFrame({"model_a": data["left"], "model_b": data["right"], "winner": winner})
        pairs = PairDataset.from_pandas(frame)
        model = BradleyTerry(int(data["items"]), ftol=tolerance, gtol=tolerance)
        result = model.compute_ratings_and_cis(pairs)
        np.asarray(result["rating_lower"])
        return np.asarray(model.params["ratings"]), {"intervals": True}

    return run


CONTENDERS = {
    "psephos": psephos_scores,
    "evalica": evalica_scores,
    "evalica, index given": functools.partial(evalica_scores, indexed=True),
    "arena-rank": arena_rank_scores,
}


def contend(name: str, path: str, repetitions: int, exact: int) -> dict[str, object]:
    """What one contender does with one set of data, in this interpreter."""
    data = dict(np.load(path))
    run = CONTENDERS[name](data)
    found: dict[str, object] = {}
    tolerances = [1e-8] if name == "psephos" else TOLERANCES
    for tolerance in tolerances:
        scores, more = run(tolerance)
        residual = residual_per_comparison(data, scores)
        if residual <= RESIDUAL:
            break
    fit = more.pop("fit", None)
    if fit is not None:
        # The fit minimises a loss with its default penalty; the equations that hold are those with it.
        answers = np.bincount(data["left"], minlength=fit.scores.size) + np.bincount(
            data["right"], minlength=fit.scores.size
        )
        found["without_penalty"] = residual
        residual = fit.residual / answers.min()
        if exact:
            chosen = np.random.default_rng(2).choice(fit.scores.size, exact, replace=False)
            ratio = fit.errors[chosen] / fit.errors_of(chosen) - 1.0
            found["exact_rms"], found["exact_max"] = float(np.sqrt((ratio**2).mean())), float(np.abs(ratio).max())
            found["exact_items"] = exact
    del fit
    more.pop("own_residual", None)
    times, work = [], []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(repetitions):
        gc.collect()
        start, work_start = time.perf_counter(), time.process_time()
        run(tolerance)
        times.append(time.perf_counter() - start)
        work.append(time.process_time() - work_start)
    return {
        **found,
        **more,
        "times": times,
        "work": work,
        "residual": residual,
        "tolerance": tolerance,
        "peak_kb": peak,
    }


def other_interpreter(
    name: str, python: str, path: str, repetitions: int, exact: int = 0
) -> tuple[dict[str, object] | None, str]:
    command = [python, __file__, "--contender", name, "--data", path, "--repetitions", str(repetitions)]
    done = subprocess.run([*command, "--exact", str(exact)], capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines() or ["no message"]
    return (json.loads(done.stdout.splitlines()[-1]), "") if done.returncode == 0 else (None, lines[-1])


def number(value: object, digits: str) -> str:
    return format(value, digits) if isinstance(value, float) else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--exact", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--skip-large", action="store_true", help="leave out 10^7 comparisons among 10^5 items")
    arguments = parser.parse_args()
    if arguments.contender:
        found = contend(arguments.contender, arguments.data, arguments.repetitions, arguments.exact)
        print(json.dumps(found))
        return

    from timing import report

    pythons = {"arena-rank": os.environ.get("ARENA_RANK_PYTHON", sys.executable)}
    header = [
        "what",
        "who",
        "fastest s",
        "median s",
        "cpu s",
        "ratio",
        "cpu ratio",
        "residual",
        "tolerance",
        "intervals",
        "peak GB",
        "note",
    ]
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:

        def measure(what: str, data: dict[str, np.ndarray], names: list[str], repetitions: int, exact: int) -> None:
            path = str(Path(folder) / "data.npz")
            np.savez(path, **data)
            ours, our_work = 0.0, 0.0
            for name in names:
                found, message = other_interpreter(
                    name, pythons.get(name, sys.executable), path, repetitions, exact if name == "psephos" else 0
                )
                if found is None:
                    rows.append([what, name, *[""] * (len(header) - 3), f"did not run: {message}"])
                    continue
                times = [float(t) for t in found["times"]]
                fastest = min(times)
                work = min(float(t) for t in found["work"])
                ours, our_work = ours or fastest, our_work or work
                note = f"tolerance reached after {found['iterations']} rounds" if "iterations" in found else ""
                if "exact_rms" in found:
                    note = (
                        f"errors stated to {found['precision']:.4f}; against {found['exact_items']} exact ones "
                        f"rms {found['exact_rms']:.4f}, max {found['exact_max']:.4f}"
                    )
                rows.append(
                    [
                        what,
                        name,
                        f"{fastest:.3f}",
                        f"{statistics.median(times):.3f}",
                        f"{work:.3f}",
                        f"{fastest / ours:.1f}",
                        f"{work / our_work:.1f}",
                        number(found["residual"], ".1e"),
                        number(found["tolerance"], ".0e"),
                        "yes" if found["intervals"] else "no",
                        f"{float(found['peak_kb']) / 1e6:.2f}",
                        note,
                    ]
                )

        small = simulated(500, 10**6, 1)
        measure("10^6 comparisons, 500 items", small, list(CONTENDERS), arguments.repetitions, 0)
        if not arguments.skip_large:
            measure("10^7 comparisons, 10^5 items", simulated(10**5, 10**7, 2), ["psephos"], 1, 32)
    report("fit-speed", header, rows)
    load = os.getloadavg()[0]
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    print(f"{os.cpu_count()} cores, OMP_NUM_THREADS {threads}, load average at the end {load:.1f}")


if __name__ == "__main__":
    main()

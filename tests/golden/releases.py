"""What every kind of release gives for fixed bits, as SHA-256 of its JSON: to compare versions of the code.

    OMP_NUM_THREADS=1 python tests/golden/releases.py --write before.json     # at one commit
    OMP_NUM_THREADS=1 python tests/golden/releases.py --compare before.json   # at another

Every mechanism, for ballots and comparisons by each unit, at pure and approximate budgets, on four data sets; private
scores; reports and their fits; posteriors, saved and drawn from. A combination that is refused is kept as the kind of
its error with the text. Last bits of floats may differ between processors: compare files of one machine only.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from noisy_fits import LOSSES, people  # noqa: E402
from psephos import (  # noqa: E402
    Account,
    Comparisons,
    Ledger,
    Profile,
    fit_reports,
    fit_scores,
    private_consensus,
    private_posterior,
    private_scores,
    read_preflib,
)
from psephos.bootstrap import NetworkShape, TrainingPlan, private_generator  # noqa: E402
from psephos.central import release_to_json, scores_to_json  # noqa: E402
from psephos.errors import PsephosError  # noqa: E402
from psephos.local import plan_person, randomise_answers, report_line  # noqa: E402
from psephos.privacy import InsecureBits  # noqa: E402

MECHANISMS = (
    "auto", "laplace", "gaussian", "nuclear", "shaped", "probe", "borda", "exponential", "footrule", "kwiksort",
    "two-stage",
)  # fmt: skip
SMALL = TrainingPlan(blocks=5, steps=20, network=NetworkShape(width=8, depth=1))
BUDGETS = (("0.5", "0"), ("1", "1e-6"), ("4", "1e-9"))


def data_sets() -> dict[str, Any]:
    """A real election, ballots with ties and gaps, and comparisons with and without persons."""
    small = Profile.from_rankings(
        {("a", "b", "c", "d", "e"): 50, (("e", "b"), "a"): 30, ("c",): 7, ("d", ("a", "c")): 12}, items=list("abcde")
    )
    rng = np.random.default_rng(5)
    left = rng.integers(0, 5, 300)
    right = (left + rng.integers(1, 5, 300)) % 5
    won = np.where(rng.random(300) < 0.8, np.sign(right - left), rng.integers(-1, 2, 300))
    columns = (list("abcde"), left.tolist(), right.tolist(), won.tolist())
    return {
        "burlington": read_preflib(HERE.parent.parent / "examples" / "burlington2006.toi"),
        "small": small,
        "comparisons": Comparisons.from_columns(*columns, person=[k // 6 for k in range(300)]),
        "nobody": Comparisons.from_columns(*columns),
    }


def cases() -> Iterator[tuple[str, Callable[[], str | bytes]]]:
    """Names, and what gives the text or the bytes of each."""
    for (name, data), mechanism, (epsilon, delta) in itertools.product(data_sets().items(), MECHANISMS, BUDGETS):
        ballots = isinstance(data, Profile)
        units = ("person",) if ballots else ("person", "comparison")
        extras: list[dict[str, Any]] = [{}]
        if ballots:
            extras += [{"unranked": "missing"}, {"level": 0.9}, {"post_processing": "raw"}]
            if name == "small":
                extras += [{"post_processing": "certified"}]
        else:
            extras += [{"pairs": 2}]
        for unit, more in itertools.product(units, extras):
            options = {"epsilon": epsilon, "delta": delta, "mechanism": mechanism, "unit": unit, **more}

            def consensus(data: Any = data, options: dict[str, Any] = options) -> str:
                return release_to_json(private_consensus(data, bits=InsecureBits(seed=1), **options))

            yield f"consensus {name} {mechanism} {epsilon},{delta} {unit} {more or ''}".strip(), consensus
    for graph, unit, (epsilon, delta) in itertools.product(("public", "private"), ("person", "comparison"), BUDGETS):

        def scores(graph: Any = graph, unit: Any = unit, epsilon: str = epsilon, delta: str = delta) -> str:
            data, bits = data_sets()["comparisons"], InsecureBits(seed=2)
            return scores_to_json(private_scores(data, epsilon=epsilon, delta=delta, graph=graph, unit=unit, bits=bits))

        yield f"scores {graph} {unit} {epsilon},{delta}", scores
    yield "scores without privacy", lambda: repr(fit_scores(data_sets()["comparisons"]))
    for epsilon in ("0.5", "2"):

        def local(epsilon: str = epsilon) -> str:
            bits, items, reports = InsecureBits(seed=3), list("abcd"), []
            for k in range(60):
                pairs = [(items[k % 4], items[(k + 1 + k % 3) % 4]), (items[(k + 2) % 4], items[(k + 3) % 4])]
                questions = plan_person(items, epsilon=epsilon, assigned=pairs[: 1 + k % 2])
                given: list[Any] = [("left", "tie", "right")[k % 3], None]
                reports.append(randomise_answers(questions, given[: 1 + k % 2], bits=bits))
            return "".join(report_line(report) for report in reports) + repr(fit_reports(reports, items=items))

        yield f"local {epsilon}", local
    for (name, loss), (method, epsilon) in itertools.product(
        LOSSES.items(), (("auto", "1"), ("sandwich", "1"), ("sandwich", "4"), ("field", "1"), ("field", "4"))
    ):

        def posterior(name: str = name, loss: Any = loss, method: Any = method, epsilon: str = epsilon) -> bytes:
            records = people(name, 2000, np.random.default_rng(7))
            value = private_posterior(
                records, loss, epsilon=epsilon, delta="1e-6", method=method, bits=InsecureBits(seed=4)
            ).value
            draws = value.sample(50, rng=np.random.default_rng(8)).values
            return value.to_bytes() + np.ascontiguousarray(draws).tobytes()

        yield f"posterior {name} {method} {epsilon}", posterior
    for name in ("gaussian", "huber"):

        def generator(name: str = name) -> bytes:
            records = people(name, 500, np.random.default_rng(7))
            fixed = np.random.default_rng(9)
            with patch("numpy.random.default_rng", return_value=fixed):  # of the public initial weights
                value = private_generator(
                    records, LOSSES[name], epsilon="2", delta="1e-6", plan=SMALL, bits=InsecureBits(seed=4)
                ).value
            return (
                value.to_bytes() + np.ascontiguousarray(value.sample(20, rng=np.random.default_rng(3)).values).tobytes()
            )

        yield f"generator {name}", generator


def requests() -> dict[str, Callable[..., Any]]:
    """Requests of every kind that stores an answer: to be repeated from a ledger that older code kept."""
    sets = data_sets()
    found: dict[str, Callable[..., Any]] = {
        f"consensus {mechanism}": lambda mechanism=mechanism, **paid: private_consensus(
            sets["small"], mechanism=mechanism, **paid
        )
        for mechanism in MECHANISMS
    }
    found["consensus with ranks"] = lambda **paid: private_consensus(
        sets["small"], mechanism="laplace", level=0.9, **paid
    )
    found["consensus of comparisons"] = lambda **paid: private_consensus(sets["comparisons"], pairs=2, **paid)
    for graph in ("public", "private"):
        found[f"scores {graph}"] = lambda graph=graph, **paid: private_scores(sets["comparisons"], graph=graph, **paid)
    for name, method in (("gaussian", "sandwich"), ("gaussian", "field"), ("huber", "auto"), ("quantile", "auto")):
        found[f"posterior {name} {method}"] = lambda name=name, method=method, **paid: private_posterior(
            people(name, 500, np.random.default_rng(7)), LOSSES[name], method=method, **paid
        )
    found["generator"] = lambda **paid: private_generator(
        people("gaussian", 500, np.random.default_rng(7)), LOSSES["gaussian"], plan=SMALL, **paid
    )
    return found


def pay(request: str, ledger: Path) -> Any:
    """The release of a request, paid for from a ledger whose budget is for it once."""
    account = Account(Ledger(ledger), request, budget=("1", "1e-6"), request_id="one")
    return requests()[request](epsilon="1", delta="1e-6", account=account)


def answers(only: str = "") -> dict[str, str]:
    """The hash of each case whose name has ``only`` in it."""
    found = {}
    for name, run in cases():
        if only not in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                text = run()
            except PsephosError as error:
                found[name] = f"refused: {type(error).__name__}: {error}"
                continue
        found[name] = hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--write", type=Path)
    either.add_argument("--compare", type=Path)
    either.add_argument("--ledger", type=Path, help="keep the answers of every kind of request in a new ledger")
    arguments = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    if arguments.ledger:
        for request in requests():
            pay(request, arguments.ledger)
        return 0
    found = answers(arguments.only)
    if arguments.write:
        arguments.write.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} cases, {sum(text.startswith('refused') for text in found.values())} of them refused")
        return 0
    known = {name: text for name, text in json.loads(arguments.compare.read_text()).items() if arguments.only in name}
    different = [name for name in known.keys() | found.keys() if known.get(name) != found.get(name)]
    for name in sorted(different):
        print(f"{name}: {known.get(name, 'absent')[:20]} before, {found.get(name, 'absent')[:20]} now")
    print(f"{len(known)} cases, {len(different)} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

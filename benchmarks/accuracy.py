"""Mean excess Kendall cost of private consensus rankings, with standard errors.

Excess is the mean, over people, of the Kendall distance to the released ranking, minus that of the best ranking.
For every epsilon and mechanism one noisy table is drawn a repetition, and every post-processing gets that same table,
so that differences are paired. ``borda of the release`` sorts by the row sums of the released table; it is a
yardstick, not a post-processing of the package. Noise comes from repeatable test bits: nothing here is a release.
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
from timing import report

from psephos import Profile, pairwise_margins, read_preflib, solve
from psephos.central import plan_consensus, post_process
from psephos.central.consensus import noisy_margins
from psephos.pairwise import PairwiseEstimate
from psephos.privacy import InsecureBits

ROOT = Path(__file__).parent.parent
FILES = {"sushi": ROOT / "tests" / "data" / "sushi.soc", "burlington": ROOT / "examples" / "burlington2006.toi"}


def excess_costs(
    profile: Profile, *, epsilon: str, delta: str, mechanism: str, repetitions: int, seed: int
) -> dict[str, np.ndarray]:
    """Excess cost of each post-processing, one number a repetition."""
    margins = pairwise_margins(profile)
    people = profile.people
    best = solve(margins, people=people).cost
    plan = plan_consensus(profile.m, epsilon=epsilon, delta=delta, mechanism=mechanism)
    bits = InsecureBits(seed=seed)
    excess: dict[str, list[float]] = {"raw": [], "adaptive": [], "borda of the release": []}

    def cost(order: tuple[int, ...]) -> float:
        place = np.argsort(order)
        above = place[:, None] < place[None, :]
        value = Fraction(people * profile.m * (profile.m - 1), 4) - Fraction(int(margins[above].sum()), 2)
        return float((value - best) / people)

    for _ in range(repetitions):
        noisy, _event = noisy_margins(profile, plan, "last", bits)
        estimate = PairwiseEstimate(items=profile.items, margins=noisy, noise=plan.law)
        for method in ("raw", "adaptive"):
            table, _rho = post_process(estimate, method=method)
            excess[method].append(cost(solve(table).order))
        excess["borda of the release"].append(cost(tuple(np.argsort(-noisy.sum(axis=1), kind="stable").tolist())))
    return {name: np.array(values) for name, values in excess.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=FILES, default="sushi")
    parser.add_argument("--epsilons", default="0.01,0.03,0.1,1")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    profile = read_preflib(FILES[arguments.data])
    rows: list[list[object]] = []
    for epsilon in arguments.epsilons.split(","):
        for mechanism in ("gaussian", "shaped", "laplace", "borda"):
            if mechanism in ("gaussian", "shaped") and Fraction(arguments.delta) == 0:
                continue
            excess = excess_costs(
                profile,
                epsilon=epsilon,
                delta="0" if mechanism == "laplace" else arguments.delta,
                mechanism=mechanism,
                repetitions=arguments.repetitions,
                seed=arguments.seed,
            )
            floor = min(excess["raw"].mean(), excess["borda of the release"].mean())
            allowed = floor + max(0.05 * floor, 0.002)
            for name, values in excess.items():
                error = values.std(ddof=1) / math.sqrt(len(values))
                verdict = ""
                if name == "adaptive" and mechanism in ("gaussian", "laplace"):
                    verdict = "ok" if values.mean() <= allowed else "ABOVE"
                rows.append([epsilon, mechanism, name, f"{values.mean():.4f}", f"{error:.4f}", verdict])
    header = [
        "epsilon",
        "mechanism",
        "post-processing",
        "mean excess",
        "standard error",
        "adaptive <= min + max(5%, .002)",
    ]
    report(f"accuracy-{arguments.data}", header, rows)


if __name__ == "__main__":
    main()

"""Time of the two-stage mechanism on supports of any size: against log N, the number of distinct ballots, and items.

The large branch (counts) runs from a profile in memory to the ranking, in exact and in bounded time. Each sweep prints
seconds and the exponent of a power law fitted to them (least squares of logarithms); the last line is the case of
N = 10^30 people, 1,000 distinct ballots and 50 items, beside margins alone in the same run.
"""

from __future__ import annotations

import argparse
import math
import warnings
from fractions import Fraction

import numpy as np
from timing import median_seconds, report

from psephos import Profile, pairwise_margins, private_consensus
from psephos.central import TwoStage
from psephos.errors import AccuracyWarning

OPTIONS = {"exact": TwoStage(), "bounded": TwoStage(bounded_time=True), "published": TwoStage(constants="published")}


def population(m: int, people: int, distinct: int, seed: int = 1) -> Profile:
    """People of unequal numbers on distinct rankings that lean towards one order."""
    rng = np.random.default_rng(seed)
    rough = np.arange(m) + rng.normal(0, m / 2, (2 * distinct + 100, m))
    places = np.unique(rough.argsort(axis=1).argsort(axis=1) + 1, axis=0)
    kept = places[rng.permutation(len(places))[:distinct]]
    weights = [int(x) for x in rng.integers(1, 1000, len(kept))]
    counts = [people * weight // sum(weights) for weight in weights]
    counts[0] += people - sum(counts)
    some = [i for i, count in enumerate(counts) if count]
    return Profile.from_places([str(i) for i in range(m)], kept[some].T, [counts[i] for i in some])


def seconds(profile: Profile, options: TwoStage, repetitions: int) -> float:
    epsilon = Fraction(1)
    return median_seconds(
        lambda: private_consensus(profile, epsilon=epsilon, mechanism="two-stage", two_stage=options), repetitions
    )


def exponent(xs: list[float], ys: list[float]) -> float:
    """Of the power law through the points."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore", AccuracyWarning)
    sweeps = {
        "log N": [(20, 10**k, 500) for k in (10, 30, 100, 300, 1000)],
        "distinct ballots": [(20, 10**30, d) for d in (100, 1000, 10_000, 100_000)],
        "items": [(m, 10**30, 500) for m in (5, 10, 20, 40, 80)],
    }
    rows: list[list[object]] = []
    for name, cases in sweeps.items():
        for kind, options in OPTIONS.items():
            xs, ys = [], []
            for m, people, distinct in cases:
                profile = population(m, people, distinct)
                ys.append(seconds(profile, options, repetitions))
                xs.append({"log N": math.log(people), "distinct ballots": distinct, "items": m}[name])
            rows.append([name, kind, " ".join(f"{y:.3f}" for y in ys), f"{exponent(xs, ys):.2f}"])
    report("two_stage_sweeps", ["sweep", "draws", "seconds", "exponent"], rows)
    profile = population(50, 10**30, 1000)
    margins = median_seconds(lambda: pairwise_margins(profile), repetitions)
    last: list[list[object]] = []
    for kind, options in OPTIONS.items():
        took = seconds(profile, options, repetitions)
        last.append([kind, f"{took:.2f}", f"{margins:.3f}", f"{took / margins:.1f}"])
    report("two_stage", ["N = 10^30, 1,000 ballots, 50 items", "seconds", "margins alone", "ratio"], last)


if __name__ == "__main__":
    main()

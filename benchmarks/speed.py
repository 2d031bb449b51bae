"""Speed of the parts, as ratios against a baseline in the same run."""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

import numpy as np
from timing import median_seconds, report

from psephos import Ballot, Profile, pairwise_margins, solve
from psephos.pairwise import margins_from_places, margins_plain
from psephos.privacy import SystemBits
from psephos.privacy.samplers import discrete_laplace, rounded_gaussian_array


def double_loop(rows: np.ndarray) -> np.ndarray:
    """The straightforward way: a row a ballot, two nested loops over items, one comparison of columns a pair."""
    m = rows.shape[1]
    margins = np.zeros((m, m), dtype=np.int64)
    for u in range(m):
        for v in range(m):
            if u != v:
                margins[u, v] = (rows[:, u] < rows[:, v]).sum() - (rows[:, u] > rows[:, v]).sum()
    return margins


def margins_speed() -> list[list[object]]:
    rng = np.random.default_rng(1)
    rows = np.argsort(rng.random((10**6, 20)), axis=1).astype(np.uint8) + np.uint8(1)
    places = np.ascontiguousarray(rows.T)
    assert (double_loop(rows) == margins_from_places(places)).all()
    ours = median_seconds(lambda: margins_from_places(places))
    loop = median_seconds(lambda: double_loop(rows), 3)
    return [
        [
            "margins, 10^6 strict ballots of 20 items",
            f"{ours:.3f}",
            "numpy double loop",
            f"{loop:.3f}",
            f"{loop / ours:.1f}",
        ]
    ]


def astronomical_margins() -> list[list[object]]:
    rng = np.random.default_rng(2)
    counts = [int(x) for x in rng.integers(1, 2**62, 1000)]
    counts = [count * 10**8 for count in counts]
    counts[0] += 10**30 - sum(counts)
    ballots = {Ballot.strict(rng.permutation(50).tolist()): count for count in counts}
    profile = Profile.from_ballots([str(i) for i in range(50)], ballots)
    ours = median_seconds(lambda: pairwise_margins(profile))
    start = time.perf_counter()
    plain = margins_plain(profile.places, profile.counts)
    loop = time.perf_counter() - start
    assert plain.tolist() == pairwise_margins(profile).tolist()
    name = f"margins, N = {profile.people:.1e}, 1,000 distinct ballots of 50 items"
    return [[name, f"{ours:.3f}", "Python integers", f"{loop:.2f}", f"{loop / ours:.0f}"]]


def sampler_speed() -> list[list[object]]:
    bits = SystemBits()
    rows: list[list[object]] = []
    ours = median_seconds(lambda: rounded_gaussian_array(Fraction(10**4), 10**6, bits), 3)
    try:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        peer = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64"), scale=1e4)
        zeros = [0] * 20_000
        theirs = median_seconds(lambda: peer(zeros), 3) * 50
        rows.append(
            [
                "10^6 rounded Gaussians, scale 10^4",
                f"{ours:.3f}",
                "opendp (from 20,000)",
                f"{theirs:.1f}",
                f"{theirs / ours:.0f}",
            ]
        )
    except ImportError:
        rows.append(["10^6 rounded Gaussians, scale 10^4", f"{ours:.3f}", "opendp not installed", "", ""])
    big = median_seconds(lambda: [discrete_laplace(Fraction(10**40), bits) for _ in range(1000)], 3)
    small = median_seconds(lambda: [discrete_laplace(Fraction(10), bits) for _ in range(1000)], 3)
    rows.append(
        [
            "1,000 discrete Laplace, scale 10^40",
            f"{big:.3f}",
            "the same at scale 10",
            f"{small:.3f}",
            f"{small / big:.2f}",
        ]
    )
    return rows


def solver_speed() -> list[list[object]]:
    rows: list[list[object]] = []

    def line(name: str, margins: np.ndarray, limit: float) -> None:
        start = time.perf_counter()
        result = solve(margins, effort=limit)
        seconds = time.perf_counter() - start
        rows.append(
            [
                name,
                f"{seconds:.2f}",
                f"{result.status}, {result.method}",
                f"gap {result.gap_relative:.2e}",
                str(result.unique),
            ]
        )

    def shares(m: int, noise: float, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=m)
        margins = np.tanh((theta[:, None] - theta[None, :]) / 2)
        upper = np.triu(rng.normal(0, noise, (m, m)), 1)
        return margins + upper - upper.T

    for seed in range(3):
        upper = np.triu(np.random.default_rng(seed).normal(0, 0.3, (20, 20)), 1)
        line(f"20 items, pure noise .3, seed {seed}", upper - upper.T, 60)
    line("200 items, shares + noise .03", shares(200, 0.03, 1), 60)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        upper = np.triu(rng.normal(0, 0.3, (30, 30)), 1)
        line(f"30 items, pure noise .3, seed {seed}", upper - upper.T, 60)
    line("100 items, shares + noise .3", shares(100, 0.3, 1), 60)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-solver", action="store_true")
    arguments = parser.parse_args()
    header = ["what", "seconds", "baseline", "its seconds", "ratio"]
    report("speed", header, margins_speed() + astronomical_margins() + sampler_speed())
    if not arguments.skip_solver:
        report("solver", ["problem", "seconds", "status", "gap", "unique"], solver_speed())


if __name__ == "__main__":
    main()

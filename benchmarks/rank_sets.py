"""Simultaneous coverage and width of private rank intervals, with normal noise or (``--delta 0``) Laplace noise.

Each population is a law of ballots drawn anew: Plackett-Luce and Mallows with random parameters, the sushi rankings of
random items, and laws with exact ties (all items equal, blocks of equal items, equal items on truncated ballots).
People are drawn from it, the release is made by the mechanisms themselves (from repeatable test bits: nothing here is
private), and the intervals are computed twice from the same noisy scores: with the covariance estimated from the
released second moment, and with the true one. The true ranks are those of the mean scores of the law. The true
covariances of Plackett-Luce and Mallows laws are those of 5,000 other ballots.

``coverage``: in how many populations all rank intervals hold (under ties: every rank that breaking them could give).
``differences``: in how many all differences of scores lie within q standard errors, which is stricter. ``width``: mean
of high - low, and ``ratio`` that to the width with the true covariance; ``margin ratio`` compares the mean half-widths
of the intervals of differences, and the last column is the bar.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from timing import report

from psephos import Profile, pairwise_margins, read_preflib
from psephos.central.borda import borda_margins, borda_noise, row_sum_sensitivity
from psephos.central.gaussian import gaussian_law, gaussian_margins
from psephos.central.laplace import laplace_law, laplace_margins
from psephos.central.margin_sensitivity import margin_sensitivity
from psephos.central.second_moment import (
    PURE_SHARE,
    MeanScoreCovariance,
    MomentScales,
    free_moment_scales,
    free_moment_scales_pure,
    mean_score_covariance,
    mean_score_errors,
    mean_scores,
    noisy_moment,
    score_moment,
    second_moment_scales_pure,
)
from psephos.pairwise import NoiseLaw, PairwiseEstimate
from psephos.privacy import InsecureBits
from psephos.scores.ranks import RankIntervals, rank_intervals, rank_intervals_from_errors

ROOT = Path(__file__).parent.parent
LEVEL = 0.95
DRAWN = 5000  # ballots from which the true covariance of a parametric law is computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A law of ballots: a sampler of places (ballots by items, 0 is unranked), its mean scores and their covariance."""

    sample: Callable[[int], NDArray[np.int64]]
    theta: NDArray[np.float64]
    sigma: NDArray[np.float64]


def places(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places 1 to m of each row, the smallest key first."""
    ranked: NDArray[np.int64] = np.argsort(np.argsort(keys, axis=1), axis=1) + 1
    return ranked


def with_covariance(sample: Callable[[int], NDArray[np.int64]], theta: NDArray[np.float64]) -> Law:
    away = len(theta) + 1 - 2 * sample(DRAWN) - theta
    return Law(sample=sample, theta=theta, sigma=away.T @ away / DRAWN)


def plackett_luce(m: int, rng: np.random.Generator) -> Law:
    weight = np.exp(rng.normal(size=m) * rng.uniform(0, 2))
    share = weight[:, None] / (weight[:, None] + weight[None, :])
    return with_covariance(lambda n: places(rng.exponential(size=(n, m)) / weight), (2 * share - 1).sum(axis=1))


def mallows(m: int, rng: np.random.Generator) -> Law:
    """Repeated insertion: item j jumps over k of the j earlier ones with probability ~ phi^k."""
    phi = rng.uniform(0.3, 1)

    def sample(n: int) -> NDArray[np.int64]:
        place = np.zeros((n, m), dtype=np.int64)
        for j in range(m):
            jumps = np.cumsum(phi ** np.arange(j + 1))
            at = j - np.minimum(np.searchsorted(jumps / jumps[-1], rng.random(n)), j)
            place[:, :j] += place[:, :j] >= at[:, None]
            place[:, j] = at
        return place + 1

    size = np.arange(1, m + 1)
    h = size / (1 - phi**size)
    ahead = np.concatenate([[0.0], 2 * (h[1:] - h[:-1]) - 1])  # by the distance of two items in the central order
    item = np.arange(m)
    apart = item[None, :] - item[:, None]
    return with_covariance(sample, (np.sign(apart) * ahead[abs(apart)]).sum(axis=1))


def exact_ties(m: int, rng: np.random.Generator) -> Law:
    kind = rng.choice(["equal", "blocks", "truncated"])
    if kind == "truncated":
        kept = int(rng.integers(1, m))
        rest = m - kept
        square = (m * (m * m - 1) - rest * (rest * rest - 1)) / 3  # |s|^2 of every ballot
        return Law(
            sample=lambda n: (p := places(rng.random((n, m)))) * (p <= kept),
            theta=np.zeros(m),
            sigma=square / (m - 1) * (np.eye(m) - 1 / m),
        )
    ends = [m] if kind == "equal" else [*np.flatnonzero(rng.random(m - 1) < 0.3) + 1, m]
    starts = [0, *ends[:-1]]
    theta, sigma = np.zeros(m), np.zeros((m, m))
    for a, b in zip(starts, ends, strict=True):
        theta[a:b] = m - a - b
        sigma[a:b, a:b] = (b - a + 1) / 3 * ((b - a) * np.eye(b - a) - 1)

    def sample(n: int) -> NDArray[np.int64]:
        return np.concatenate([places(rng.random((n, b - a))) + a for a, b in zip(starts, ends, strict=True)], axis=1)

    return Law(sample=sample, theta=theta, sigma=sigma)


def sushi(m: int, rng: np.random.Generator, rankings: NDArray[np.int64]) -> Law:
    rows = places(rankings[:, rng.permutation(rankings.shape[1])[:m]].astype(np.float64))
    scores = m + 1 - 2 * rows
    theta = scores.sum(axis=0) / len(scores)
    away = scores - theta
    return Law(sample=lambda n: rows[rng.integers(0, len(rows), n)], theta=theta, sigma=away.T @ away / len(scores))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A table's noise, and that of the second moment beside it."""

    name: str
    m: int
    law: NoiseLaw
    moment: MomentScales

    @classmethod
    def calibrated(cls, name: str, m: int, *, epsilon: Fraction, delta: Fraction) -> Mechanism:
        rows, pairs = row_sum_sensitivity(m), margin_sensitivity(m, "person")
        if delta:
            law = gaussian_law(rows if name == "borda" else pairs, epsilon=epsilon, delta=delta)
            released = {"row_sums" if name == "borda" else "margins": [law.scale]}
            return cls(name=name, m=m, law=law, moment=free_moment_scales(m, **released))
        if name == "borda":
            law = laplace_law(rows, epsilon=(1 - PURE_SHARE) * epsilon)
            return cls(name=name, m=m, law=law, moment=second_moment_scales_pure(m, epsilon=PURE_SHARE * epsilon))
        law = laplace_law(pairs, epsilon=epsilon)
        return cls(name=name, m=m, law=law, moment=free_moment_scales_pure(m, margin=law.scale))

    def release(self, margins: NDArray[np.int64], bits: InsecureBits) -> PairwiseEstimate:
        items = tuple(map(str, range(self.m)))
        if self.name == "borda":
            table, _event = borda_margins(margins, self.law, sensitivity=row_sum_sensitivity(self.m), bits=bits)
            return PairwiseEstimate(items=items, margins=table, noise=borda_noise(self.m, self.law))
        run = gaussian_margins if self.name == "gaussian" else laplace_margins
        table, _event = run(margins, self.law, sensitivity=margin_sensitivity(self.m, "person"), bits=bits)
        return PairwiseEstimate(items=items, margins=table, noise=self.law)

    def intervals(
        self,
        scores: NDArray[np.float64],
        covariance: MeanScoreCovariance,
        *,
        people: int,
        draws: int,
        rng: np.random.Generator,
    ) -> RankIntervals:
        if self.law.family == "rounded-gaussian":
            return rank_intervals(scores, covariance.total, level=LEVEL, rng=rng, draws=draws)
        errors = mean_score_errors(covariance, self.name, self.law, people=people, draws=draws, rng=rng)
        return rank_intervals_from_errors(scores, covariance.total, errors, level=LEVEL)


def judge(
    sets: RankIntervals, scores: NDArray[np.float64], covariance: NDArray[np.float64], theta: NDArray[np.float64]
) -> tuple[bool, bool, float, float]:
    """All ranks held, all differences held, mean of high - low, mean half-width of a difference."""
    low = 1 + (theta[None, :] > theta[:, None]).sum(axis=1)
    high = len(theta) - (theta[None, :] < theta[:, None]).sum(axis=1)
    i, j = np.triu_indices(len(theta), 1)
    variances = np.diag(covariance)
    reach = sets.quantile * np.sqrt(variances[i] + variances[j] - 2 * covariance[i, j])
    error = scores - theta
    return (
        bool((np.array(sets.low) <= low).all() and (np.array(sets.high) >= high).all()),
        bool((abs(error[i] - error[j]) <= reach).all()),
        float(np.mean(np.array(sets.high) - np.array(sets.low))),
        float(reach.mean()),
    )


def measure(
    draw_law: Callable[[np.random.Generator], Law],
    mechanisms: Sequence[Mechanism],
    *,
    people: int,
    populations: int,
    draws: int,
    seed: int,
) -> NDArray[np.float64]:
    """Means over populations: mechanism, (estimated, true covariance), the four numbers of :func:`judge`."""
    rng, bits = np.random.default_rng(seed), InsecureBits(seed=seed)
    total = np.zeros((len(mechanisms), 2, 4))
    for _ in range(populations):
        law = draw_law(rng)
        m = len(law.theta)
        ballots = law.sample(people).T.astype(np.uint8)
        profile = Profile(items=tuple(map(str, range(m))), places=ballots, counts=(1,) * people)
        margins, moment = pairwise_margins(profile), score_moment(profile)
        for number, mechanism in enumerate(mechanisms):
            estimate = mechanism.release(margins, bits)
            noisy = noisy_moment(moment, mechanism.moment, bits=bits)
            scores = mean_scores(estimate, people=people)
            found = mean_score_covariance(estimate, noisy, mechanism.moment, people=people)
            true = MeanScoreCovariance(sampling=law.sigma / people, noise=found.noise)
            for which, covariance in enumerate((found, true)):
                sets = mechanism.intervals(scores, covariance, people=people, draws=draws, rng=rng)
                total[number, which] += judge(sets, scores, covariance.total, law.theta)
    return total / populations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="5,10,20")
    parser.add_argument("--people", default="500,5000")
    parser.add_argument("--epsilons", default="0.1,0.5,1,4")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--populations", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=999, help="simulated errors for each set of intervals")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    delta = Fraction(arguments.delta)
    profile = read_preflib(ROOT / "tests" / "data" / "sushi.soc")
    rankings = np.repeat(profile.places.T, profile.counts, axis=0).astype(np.int64)
    families: dict[str, Callable[[int, np.random.Generator], Law]] = {
        "exact ties": exact_ties,
        "plackett-luce": plackett_luce,
        "mallows": mallows,
        "sushi": lambda m, rng: sushi(m, rng, rankings),
    }
    epsilons = arguments.epsilons.split(",")
    names = ("gaussian", "borda") if delta else ("laplace", "borda")
    least = LEVEL - 2 * math.sqrt(LEVEL * (1 - LEVEL) / arguments.populations)
    rows: list[list[object]] = []
    for m in map(int, arguments.items.split(",")):
        cells = [(epsilon, name) for epsilon in epsilons for name in names]
        mechanisms = [Mechanism.calibrated(name, m, epsilon=Fraction(eps), delta=delta) for eps, name in cells]
        for people in map(int, arguments.people.split(",")):
            for family, law in families.items():
                if family == "sushi" and m > rankings.shape[1]:
                    continue
                means = measure(
                    lambda rng, law=law, m=m: law(m, rng),
                    mechanisms,
                    people=people,
                    populations=arguments.populations,
                    draws=arguments.draws,
                    seed=arguments.seed,
                )
                for (epsilon, name), (found, true) in zip(cells, means, strict=True):
                    ratio = found[2] / true[2] if true[2] else math.inf if found[2] else 1.0
                    met = found[0] >= least and ratio <= 1.25
                    numbers = [*found[:2], true[0], true[1], found[2], ratio, found[3] / true[3]]
                    rows.append(
                        [m, people, family, epsilon, name, *(f"{x:.3f}" for x in numbers), "ok" if met else "MISSED"]
                    )
    header = ["items", "people", "population", "epsilon", "mechanism", "coverage", "differences"]
    header += ["coverage, true cov", "differences, true cov", "width", "ratio", "margin ratio"]
    header += [f"coverage >= {least:.3f}, ratio <= 1.25"]
    report("rank-sets" if delta else "rank-sets-pure", header, rows)


if __name__ == "__main__":
    main()

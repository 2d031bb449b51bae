"""Scores under edge privacy against a published perturbed likelihood and noisy counts, on the same set-up.

Items have log-scores theta: k = n/4 of them log 1 = 0, the others log U with U uniform on (.2, .7), then centred. Each
pair is compared once with probability p, and u beats v with probability 1 / (1 + exp(theta_v - theta_u)). One
comparison is what is protected, and who was compared with whom is public; pure epsilon.

Metrics: log10 of the relative errors ``max |theta^ - theta| / max |theta|`` and the same in the 2-norm, and the share
of the true best k that the estimated best k miss. ``published.csv`` holds the figures of T. Cai, A. Chakraborty and
Y. Wang (2025), "Optimal differentially private ranking from pairwise comparisons" (arXiv:2507.09388; theirs: a
perturbed likelihood, ``mle``, and noisy counts, ``count``; 120 replicates). It does not say to which base its
logarithms are. They are compared both ways: natural, and to the base 10, to which their change with n and p points.
Its rows seem to be for one theta each: two rows of one setting (300 items, p = 1, epsilon = 2.5) differ by ten of its
standard errors. Noise comes from repeatable test bits: nothing here is a release.

    python experiments/edge_dp_ranking/run.py --replicates 100

writes ``ours.csv``, a row at a time, and goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np

from psephos import Comparisons
from psephos.central.win_vector import public_graph_laws, public_graph_sensitivity, released_wins
from psephos.pairwise import pair_counts
from psephos.privacy import InsecureBits
from psephos.scores import fit_noisy_wins

HERE = Path(__file__).parent
KEYS = ("experiment", "items", "pair_probability", "epsilon")
METRICS = ("log_rel_linf_error", "log_rel_l2_error", "topk_error", "topk_error_of_noisy_counts")
FIELDS = (*KEYS, *(name + end for name in METRICS for end in ("", "_se")), "replicates")


def replicate(n: int, p: float, epsilon: Fraction, seed: list[int]) -> tuple[float, ...]:
    """The metrics of one population and one release."""
    rng = np.random.default_rng(seed)
    k = n // 4
    theta = np.log(np.concatenate([np.ones(k), rng.uniform(0.2, 0.7, n - k)]))
    theta -= theta.mean()
    left, right = np.triu_indices(n, 1)
    asked = rng.random(len(left)) < p
    left, right = left[asked], right[asked]
    won = rng.random(len(left)) < 1 / (1 + np.exp(theta[right] - theta[left]))
    table = Comparisons.from_columns([str(u) for u in range(n)], left, right, np.where(won, 1, -1))
    laws = public_graph_laws(public_graph_sensitivity(table), epsilon=epsilon, delta=Fraction(0))
    sums, _, _ = released_wins(table, laws, bits=InsecureBits(seed=int(rng.integers(2**62))))
    answers = pair_counts(table)
    wins = (sums.astype(float) + answers.sum(axis=1)) / 2
    scores = fit_noisy_wins(wins, answers, noise_variance=laws.rows.variance / 4).scores
    errors = scores - theta

    def missed(ranking: np.ndarray) -> float:
        return 1 - np.count_nonzero(np.argsort(-ranking, kind="stable")[:k] < k) / k

    return (
        math.log10(np.abs(errors).max() / np.abs(theta).max()),
        math.log10(float(np.linalg.norm(errors) / np.linalg.norm(theta))),
        missed(scores),
        missed(wins),
    )


def row(published: dict[str, str], *, replicates: int, seed: int) -> dict[str, object]:
    """Means and standard errors of one row of the published table."""
    n, p = int(published["items"]), float(published["pair_probability"])
    epsilon = Fraction(published["epsilon"]).limit_denominator(1000)
    digits = [seed, n, round(1000 * p), epsilon.numerator, epsilon.denominator, len(published["experiment"])]
    values = np.array([replicate(n, p, epsilon, [*digits, i]) for i in range(replicates)])
    result: dict[str, object] = {key: published[key] for key in KEYS}
    for name, column in zip(METRICS, values.T, strict=True):
        result[name] = round(float(column.mean()), 5)
        result[name + "_se"] = round(float(column.std(ddof=1)) / math.sqrt(replicates), 5)
    return {**result, "replicates": replicates}


def verdicts(ours: list[dict[str, str]], published: list[dict[str, str]]) -> dict[str, object]:
    """How the rows compare with the published ones."""
    theirs = {tuple(r[key] for key in KEYS): r for r in published}
    below = {(norm, base): 0 for base in ("natural", "base 10") for norm in ("linf", "l2")}
    within, strictly, differences, errors = 0, [0, 0], [], []
    for mine in ours:
        other = theirs[tuple(mine[key] for key in KEYS)]
        for norm, base in below:
            value = float(mine[f"log_rel_{norm}_error"]) * (math.log(10) if base == "natural" else 1)
            below[norm, base] += value < float(other[f"log_rel_{norm}_error_mle"])
        difference = float(mine["topk_error"]) - float(other["topk_error_count"])
        error = math.hypot(float(mine["topk_error_se"]), float(other["topk_error_count_se"]))
        within += difference <= 3 * error
        differences.append(difference)
        errors.append(error)
        if mine["pair_probability"] == "0.25" and float(mine["epsilon"]) >= 1:
            strictly[1] += 1
            strictly[0] += difference < 0
    return {
        "rows": len(ours),
        **{f"{norm} below the published perturbed likelihood, {base}": n for (norm, base), n in below.items()},
        "top-k at most three standard errors above the published noisy counts": within,
        "mean difference of top-k": round(sum(differences) / len(ours), 5),
        "its standard error": round(math.sqrt(sum(e * e for e in errors)) / len(ours), 5),
        "top-k strictly below at p = .25, epsilon >= 1": f"{strictly[0]} of {strictly[1]}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, default=HERE / "ours.csv")
    arguments = parser.parse_args()
    with (HERE / "published.csv").open() as stream:
        published = [r for r in csv.DictReader(stream) if float(r["epsilon"]) < 100]
    done: list[dict[str, str]] = []
    if arguments.output.exists():
        with arguments.output.open() as stream:
            done = [r for r in csv.DictReader(stream) if int(r["replicates"]) >= arguments.replicates]
    seen = {tuple(r[key] for key in KEYS) for r in done}
    todo = [r for r in published if tuple(r[key] for key in KEYS) not in seen]
    with arguments.output.open("w", newline="") as stream, ProcessPoolExecutor(arguments.workers) as pool:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(done)
        stream.flush()
        jobs = [pool.submit(row, r, replicates=arguments.replicates, seed=arguments.seed) for r in todo]
        for job in jobs:
            writer.writerow(job.result())
            stream.flush()
    with arguments.output.open() as stream:
        print(json.dumps(verdicts(list(csv.DictReader(stream)), published), indent=2))


if __name__ == "__main__":
    main()

"""One faithful training (n = 10000, T = 10000, S = 20, K = 1) after compilation, in its parts.

    python benchmarks/posterior_speed.py

The whole fit against as many gradients of a tenth of the records in plain numpy; minibatches by exact geometric gaps
against one comparison of a random byte with a threshold per record; sampling 2,000 draws against one step of training.
"""

from __future__ import annotations

import math
import time

import numpy as np
from timing import median_seconds, report

from psephos.bootstrap import HuberLoss, TrainingPlan, private_generator
from psephos.bootstrap.statistic import PoissonSampling
from psephos.privacy import SystemBits

N, STEPS = 10_000, 10_000
LOSS = HuberLoss(
    covariates=("beta1", "beta2", "beta3"),
    covariate_bound=math.sqrt(3),
    coefficient_box=(-5.0, 5.0),
    scale_box=(0.05, 10.0),
    start=(0.0, 0.0, 0.0, 1.0),
)


def records() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (N, 3))
    return x, x @ [1.5, -1.5, 1.0] + 0.5 * rng.standard_t(3, N)


def main() -> None:
    data, plan = records(), TrainingPlan(steps=STEPS)

    def fit() -> object:
        return private_generator(data, LOSS, epsilon=1, delta="1e-4", plan=plan)

    begin = time.perf_counter()
    posterior = private_generator(data, LOSS, epsilon=1, delta="1e-4", plan=plan).value
    first = time.perf_counter() - begin
    ours = median_seconds(fit, repetitions=3)
    batch, theta = tuple(column[: N // 10] for column in data), np.array(LOSS.start)

    def gradients() -> object:
        return [LOSS.gradient(theta, batch).sum(axis=0) for _ in range(STEPS // 10)]

    plain_gradients = 10 * median_seconds(gradients)
    sampling = PoissonSampling.of("0.1")
    gaps = median_seconds(lambda: sampling.minibatches(N, 500, SystemBits())) / 500

    def bytewise() -> object:
        return [np.flatnonzero(SystemBits().words(N // 8).view(np.uint8) < 26) for _ in range(500)]

    plain = median_seconds(bytewise) / 500
    draws = median_seconds(lambda: posterior.sample(2000))
    report(
        "posterior_speed",
        ("what", "seconds", "baseline", "its seconds", "baseline / ours"),
        [
            ("first training, with compilation and accounting", f"{first:.2f}", "", "", ""),
            ("training", f"{ours:.2f}", "plain gradients", f"{plain_gradients:.2f}", f"{plain_gradients / ours:.2f}"),
            ("a minibatch, exact", f"{gaps:.2e}", "a byte a record, not exact", f"{plain:.2e}", f"{plain / gaps:.2f}"),
            ("2000 draws", f"{draws:.2e}", "a training step", f"{ours / STEPS:.2e}", f"{ours / STEPS / draws:.3f}"),
        ],
    )


if __name__ == "__main__":
    main()

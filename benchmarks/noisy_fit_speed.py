"""A regression of 100,000 people on 10 covariates by noisy sums, against the fit without privacy.

    python benchmarks/noisy_fit_speed.py

Huber's regression with its scale: noisy Newton steps and the score bootstrap, with 2,000 draws each, against
``weighted_m_estimate`` with weights 1 in the same run.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from timing import median_seconds, report

from psephos.bootstrap import HuberLoss, PosteriorMethod, private_posterior

N, P = 100_000, 10
NAMES = tuple(f"x{j}" for j in range(P))
LOSS = HuberLoss(covariates=NAMES, covariate_bound=math.sqrt(P), coefficient_box=(-5.0, 5.0), scale_box=(0.05, 10.0))


def records() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (N, P))
    return x, x @ np.linspace(-1, 1, P) + 0.5 * rng.standard_t(3, N)


def main() -> None:
    sys.path.append(str(Path(__file__).parent.parent / "experiments" / "private_bootstrap"))
    from rivals.m_estimate import weighted_m_estimate

    data = records()
    plain = median_seconds(lambda: weighted_m_estimate(data, LOSS), repetitions=3)
    rows = []
    for name, method in (("noisy Newton steps", "sandwich"), ("score bootstrap", "field")):

        def drawn(method: PosteriorMethod = method) -> object:
            return private_posterior(data, LOSS, epsilon=1, delta="1e-6", method=method).value.sample(2000)

        ours = median_seconds(drawn, repetitions=3)
        rows.append((name, f"{ours:.2f}", "fit without privacy", f"{plain:.2f}", f"{plain / ours:.2f}"))
    report("noisy_fit_speed", ("what", "seconds", "baseline", "its seconds", "baseline / ours"), rows)


if __name__ == "__main__":
    main()

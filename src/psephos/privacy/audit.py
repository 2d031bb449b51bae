"""Auditing: how much privacy loss do the outputs of a mechanism prove?

Run a mechanism many times on two neighbouring inputs, decide by a test fixed in advance which input an output came
from, and count: FPR is how often the test says "second" under the first input, TPR under the second. Exact
(Clopper-Pearson) limits at ``confidence`` turn the counts into a lower bound on the loss:

* a mu-Gaussian-DP mechanism has ``Phi^-1(TPR) - Phi^-1(FPR) <= mu``;
* an (epsilon, delta)-DP mechanism has ``TPR <= exp(epsilon) FPR + delta``.

A bound above the claim refutes the claim (up to 1 - confidence); a bound below it proves nothing. Each of the two
limits gets half of 1 - confidence. Source: Nasr et al. (2023), "Tight auditing", section 3; exact limits: Clopper
and Pearson (1934).
"""

from __future__ import annotations

import math

from psephos._check import check_integer, check_real
from psephos.errors import ParameterError

__all__ = ["epsilon_lower_bound", "mu_lower_bound"]


def _limits(false_alarms: int, hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """(upper limit of FPR, lower limit of TPR)."""
    from scipy.stats import beta

    n = check_integer(trials, "trials", low=1)
    fp = check_integer(false_alarms, "false_alarms", low=0, high=n)
    tp = check_integer(hits, "hits", low=0, high=n)
    tail = (1 - check_real(confidence, "confidence", low=0.0, high=1.0)) / 2
    if not 0 < tail < 0.5:
        raise ParameterError(f"confidence must lie strictly between 0 and 1, got {confidence!r}")
    upper = 1.0 if fp == n else float(beta.ppf(1 - tail, fp + 1, n - fp))
    lower = 0.0 if tp == 0 else float(beta.ppf(tail, tp, n - tp + 1))
    return upper, lower


def mu_lower_bound(*, false_alarms: int, hits: int, trials: int, confidence: float = 0.95) -> float:
    """A lower confidence bound on mu of a Gaussian-DP mechanism; ``trials`` outputs under each input.

    >>> round(mu_lower_bound(false_alarms=1587, hits=8413, trials=10_000), 2)  # Phi(-1), Phi(1): mu = 2
    1.94
    """
    from scipy.special import ndtri

    upper, lower = _limits(false_alarms, hits, trials, confidence)
    return max(0.0, float(ndtri(lower) - ndtri(upper)))


def epsilon_lower_bound(
    *, false_alarms: int, hits: int, trials: int, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """A lower confidence bound on epsilon of a mechanism at ``delta``; ``trials`` outputs under each input.

    >>> round(epsilon_lower_bound(false_alarms=1000, hits=2718, trials=10_000), 2)
    0.91
    """
    upper, lower = _limits(false_alarms, hits, trials, confidence)
    rest = lower - check_real(delta, "delta", low=0.0, high=1.0)
    return max(0.0, math.log(rest / upper)) if rest > 0 else 0.0

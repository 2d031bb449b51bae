"""Records, losses and a tape for fits by noisy sums: honest people, hostile ones, and data that break things."""

import math
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from scipy import special

from psephos import private_posterior
from psephos.bootstrap.losses import BradleyTerryLoss, HuberLoss, LogisticLoss, MeanLoss, QuantileLoss
from psephos.bootstrap.noisy_moments import GramSum, VectorSum

REGRESSION = {"covariates": ("a", "b"), "covariate_bound": 2**0.5, "coefficient_box": (-5.0, 5.0)}
LOSSES = {
    "huber": HuberLoss(**REGRESSION, scale_box=(0.05, 10.0), start=(0.0, 0.0, 1.0)),
    "quantile": QuantileLoss(**REGRESSION, levels=(0.3, 0.5, 0.7)),
    "logistic": LogisticLoss(**REGRESSION),
    "gaussian": MeanLoss(data_bounds=(-5.0, 5.0), sd=1.0, clip=4.0),
    "exponential": MeanLoss(data_bounds=(0.0, 12.0), clip=8.0, family="exponential"),
    "bradley-terry": BradleyTerryLoss(items=("p", "q", "r", "s"), score_box=(-4.0, 4.0)),
}
NAMES = tuple(LOSSES)
REGRESSIONS = ("huber", "quantile", "logistic")

by_newton_steps = partial(private_posterior, method="sandwich")
by_field = partial(private_posterior, method="field")


def people(name, n, rng):
    """Records of a model that the loss is made for."""
    if name == "gaussian":
        return (rng.normal(1, 1, n),)
    if name == "exponential":
        return (np.minimum(rng.exponential(2, n), 12.0),)
    if name == "bradley-terry":
        return comparisons(n, 3, np.array([0.9, 0.3, -0.3, -0.9]), rng)
    x = rng.uniform(-1, 1, (n, 2))
    if name == "logistic":
        return x, (rng.random(n) < special.expit(x @ [1.0, -0.5])) * 1.0
    return x, x @ [1.0, -0.5] + 0.5 * rng.standard_t(3, n)


def comparisons(n, each, scores, rng):
    """n people compare as many random pairs each."""
    items = len(scores)
    left = rng.integers(0, items, (n, each))
    right = (left + rng.integers(1, items, (n, each))) % items
    won = rng.random((n, each)) < special.expit(scores[left] - scores[right])
    return left, right, won * 1.0, np.full(n, each)


def centred(values):
    """Scores less their mean over the items, which is what can be known of them."""
    return values - values.mean(axis=-1, keepdims=True)


@contextmanager
def tape(show=None):
    """Keeps what each release summed, exactly, and what it showed: (integers, numbers, standard deviation, event).

    ``show(j, total, answer)`` gives the numbers that release j shows in place of its own.
    """
    kept = []

    def watched(real):
        def released(self, *, mu_squared, bits):
            numbers, sd, event = real(self, mu_squared=mu_squared, bits=bits)
            shown = numbers if show is None else show(len(kept), self, (numbers, sd, event))
            kept.append((self.total.copy(), shown, sd, event))
            return shown, sd, event

        return released

    with pytest.MonkeyPatch.context() as patch:
        for kind in (VectorSum, GramSum):
            patch.setattr(kind, "released", watched(kind.released))
        yield kept


def hostile(name):
    """Records that no honest person has, and the worst of those that one may have."""
    if name in ("gaussian", "exponential"):
        return [
            (np.array([v]),) for v in (0.0, 5.0, -5.0, 1e300, -1e300, 5e-324, 1e-3, 2.0, 12.0, 13.0, math.nan, math.inf)
        ]
    if name == "bradley-terry":
        one, none = [1.0] * 3, [0.0] * 3
        rows = [
            ([0] * 3, [1] * 3, one, 3), ([0] * 3, [1] * 3, none, 3), ([2] * 3, [3] * 3, none, 3),
            ([2] * 3, [3] * 3, one, 1), ([0, 1, 2], [3] * 3, [1, 0, 1], 3), ([0] * 3, [1] * 3, one, 0),
            ([-7, 99, 2**40], [2, 1, 0], [1, 1, 0], 3), ([1] * 3, [1] * 3, one, 3),
            ([0] * 3, [1] * 3, [1e300, -1e300, 1], 3), ([0] * 3, [1] * 3, [50, 60, 70], 1),
            ([0] * 3, [1] * 3, [-50, -60, -70], 1), ([0, 2, 0], [1, 3, 2], [1, 1, 0], 10**12),
            ([0, 2, 0], [1, 3, 2], [1, 1, 0], -5), ([0] * 3, [1] * 3, [math.nan, math.inf, 1], 3),
        ]  # fmt: skip
        return [
            (np.array([a]), np.array([b]), np.array([o], dtype=float), np.array([c], dtype=np.int64))
            for a, b, o, c in rows
        ]
    corners = [(1, 1), (-1, -1), (1, -1), (1, 0), (0, 1), (0, 0), (7, 0), (0, 9), (1e300, 1), (1e-300, -1e300)]
    corners += [(math.nan, 1), (math.inf, -math.inf)]
    ends = (0.0, 1.0) if name == "logistic" else (0.0, 9.0, -9.0)
    return [(np.array([x], dtype=float), np.array([y])) for x in corners for y in (*ends, 1e300, -1e300)]


def scripted(seed, n):
    """Public outcomes: the same whatever was summed, so that all that follows is at the same places."""

    def show(j, total, _):
        rng = np.random.default_rng([seed, j])
        r = len(total.total)
        if isinstance(total, VectorSum):
            return n * total.bound * rng.uniform(0, 1) * rng.choice([-1, 1], r) / math.sqrt(r)
        rows = rng.normal(size=(r + 1, r))
        return n * total.bound * (rows.T @ rows) / np.trace(rows.T @ rows) * 10.0 ** rng.uniform(-2, 0)

    return show


def degenerate(name, n=30):
    """Data sets that make estimates run away, matrices singular, or numbers overflow."""
    rng, ones = np.random.default_rng(6), np.ones(n)
    if name in ("gaussian", "exponential"):
        alternating = np.where(np.arange(n) % 2, 1e300, -1e300)
        return [(np.full(n, v),) for v in (0.0, 5.0, -5.0, 1e300, -1e300, 5e-324, 12.0)] + [(alternating,)]
    if name == "bradley-terry":
        left, right, outcome, count = people(name, n, rng)
        return [
            (left, right, outcome, np.zeros(n, int)),  # nobody answered
            (left * 0, left * 0, outcome, count),  # an item meets itself
            (left * 0, left * 0 + 1, outcome * 0 + 1, count),  # one pair, one winner
            (left - 99, right + 99, outcome, count),
            (left, right, outcome * 1e300, count),
            (left, right, outcome, count - 9),
            (left, right, outcome, np.full(n, 2**62)),
        ]
    x, y = people(name, n, rng)
    line = np.stack([x[:, 0], x[:, 0]], axis=1)
    ends = np.where(np.arange(n) % 2, 1e300, -1e300)
    settings = [(x * 0, y), (x * 1e300, y), (x * 5e-324, y), (line, y), (x * 0, y * 0), (x, ones), (x, y * 0)]
    settings += [(x, x @ [1.0, -1.0]), (line, line @ [1.0, 0.0]), (np.ones((n, 2)), ones)]
    return settings + [(x, y) for y in (ends, ones * 1e300, ones * -1e300, np.where(ends > 0, 1.0, 0.0))]


def classical(loss, records, theta, level):
    """H^-1 V H^-1 / n by central differences of the mean gradient; the pseudo-inverse for what is flat."""
    steps = 1e-4 * np.eye(len(theta))
    hessian = np.array(
        [
            (loss.gradient(theta + h, records, level) - loss.gradient(theta - h, records, level)).mean(axis=0) / 2e-4
            for h in steps
        ]
    )
    gradients = loss.gradient(theta, records, level)
    inverse = np.linalg.pinv((hessian + hessian.T) / 2, rcond=1e-9)
    return inverse @ (gradients.T @ gradients) @ inverse / len(gradients) ** 2

"""Audit of noisy training: every iterate's statistic and all weights shown, the worst gradients, T = 1 to 4.

One record's gradient is +C in one data set and -C in its neighbour; all other gradients are zero, so each step shows
the noisy contribution of that record alone, as nothing in a real training could be plainer. The test is the likelihood
ratio of all T steps given the weights, the best there is, with its threshold at the claimed epsilon, fixed in advance.
"""

import dataclasses

import numpy as np
import pytest

from psephos.bootstrap.accountant import calibrate_sigma
from psephos.bootstrap.losses import MeanLoss
from psephos.bootstrap.statistic import Grid, integer_contributions
from psephos.bootstrap.train import TrainingPlan, _Draw
from psephos.privacy import InsecureBits
from psephos.privacy.audit import epsilon_lower_bound

TRIALS = 40_000
PEOPLE, BLOCKS, BOUND = 20, 5, 2.0
EPSILON, DELTA = 1.0, 0.01
LOSS = MeanLoss(data_bounds=(-1.0, 1.0), sd=1.0, clip=BOUND)


def statistics(plan, sigma, sign, *, seed):
    """(TRIALS * T,) statistics and weights of the record's block, by the very code that trains."""
    draw = _Draw(
        people=PEOPLE,
        pseudo=0,
        plan=plan,
        loss=LOSS,
        grid=Grid.for_bound(BOUND, divisor=PEOPLE // BLOCKS),
        sigma=sigma,
        bits=InsecureBits(seed=seed),
        public=np.random.default_rng(seed),
    )
    block = (np.random.default_rng(seed).permutation(PEOPLE) % BLOCKS)[0]  # the partition is public
    seen, weights = [], []
    for segment in draw.segments():
        gradients = np.where(segment.positions == 0, np.float32(sign * BOUND), np.float32(0))
        steps = integer_contributions(gradients.reshape(-1, 1), segment.caps.ravel(), BOUND)
        total = steps.reshape(segment.positions.shape).sum(axis=-1, dtype=np.int64) + segment.noise[..., 0]
        seen.append(total.ravel() * float(draw.grid.spacing))
        weights.append(segment.inputs[..., block].ravel())
    return np.concatenate(seen), np.concatenate(weights).astype(float)


def log_ratios(seen, weights, sigma, q, steps):
    """Of +C against -C, for each trial."""
    shift = weights * BOUND / (PEOPLE // BLOCKS)
    drawn = (2 * shift * seen - shift**2) / (2 * sigma**2)
    other = (-2 * shift * seen - shift**2) / (2 * sigma**2)
    ratio = np.logaddexp(np.log1p(-q), np.log(q) + drawn) - np.logaddexp(np.log1p(-q), np.log(q) + other)
    return ratio.reshape(-1, steps).sum(axis=1)


def measured(steps, sigma, *, shown=None):
    """The epsilon that the outputs prove at DELTA, 99.9 % confidence."""
    plan = TrainingPlan(blocks=BLOCKS, steps=TRIALS * steps, probability="0.5")
    counts = []
    for sign, seed in ((1, 100 + steps), (-1, 200 + steps)):
        seen, weights = statistics(plan, sigma, sign, seed=seed)
        ratios = log_ratios(seen, weights, sigma, 0.5, steps)
        counts.append(int((ratios > (shown or EPSILON)).sum()))
    return epsilon_lower_bound(hits=counts[0], false_alarms=counts[1], trials=TRIALS, delta=DELTA, confidence=0.999)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_measured_epsilon_is_below_the_claim_and_half_the_noise_is_caught(steps):
    plan = TrainingPlan(blocks=BLOCKS, steps=steps, probability="0.5")
    facts = dataclasses.replace(plan.facts(records=PEOPLE, gradient_bound=BOUND))
    sigma = calibrate_sigma(facts, epsilon=EPSILON, delta=DELTA).sigma
    assert measured(steps, sigma) <= EPSILON
    assert measured(steps, sigma) > 0.6 * EPSILON  # the audit has power
    assert measured(steps, sigma / 2) > EPSILON


@pytest.mark.slow
def test_a_minibatch_shared_by_the_draws_of_a_step_would_be_caught():
    """Not how training works: were one minibatch used for K draws, noise calibrated for fresh ones would not do."""
    draws, sigma_of = 8, {}
    plan = TrainingPlan(blocks=BLOCKS, steps=1, draws=draws, probability="0.1")
    sigma = calibrate_sigma(plan.facts(records=PEOPLE, gradient_bound=BOUND), epsilon=EPSILON, delta=DELTA).sigma
    rng = np.random.default_rng(5)
    counts = []
    for sign in (1, -1):
        weights = rng.dirichlet(np.full(BLOCKS, plan.concentration(PEOPLE)), (TRIALS, draws))[..., 0]
        shift = weights * BOUND / (PEOPLE // BLOCKS)
        drawn = rng.random((TRIALS, 1)) < 0.1
        seen = sign * shift * drawn + sigma * rng.normal(size=(TRIALS, draws))
        plus = ((2 * shift * seen - shift**2) / (2 * sigma**2)).sum(axis=1)
        minus = ((-2 * shift * seen - shift**2) / (2 * sigma**2)).sum(axis=1)
        ratio = np.logaddexp(np.log(0.9), np.log(0.1) + plus) - np.logaddexp(np.log(0.9), np.log(0.1) + minus)
        counts.append(int((ratio > EPSILON).sum()))
    sigma_of["shared"] = epsilon_lower_bound(
        hits=counts[0], false_alarms=counts[1], trials=TRIALS, delta=DELTA, confidence=0.999
    )
    assert sigma_of["shared"] > EPSILON

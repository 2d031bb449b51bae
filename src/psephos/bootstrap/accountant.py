"""The accountant of noisy training with public random weights: how much noise a guarantee needs, and what noise gives.

Every intermediate iterate and every weight is public, records are replaced one at a time, and each of ``steps * draws``
releases has its own Poisson minibatch and its own weight. The joint privacy-loss distribution of all releases
(:mod:`psephos.privacy.pld`) bounds them. It sees a training only through ``r = C / (sigma n_S)``, the sampling
probability q, the law Beta(gamma, (S-1) gamma + alpha) of a block's weight and the number of releases. The bound grows
with r, so the feasible sigma are a half line; a calibration returns its feasible end together with epsilon accounted
again at the very sigma that is returned (docs/proofs/bootstrap.md, sections 2 to 6).

Source: "Private Generative Bootstrap via Blocking", Theorem 2.1, with one repair: the release is the pair (weight,
statistic), since the weight enters the update beside the statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from psephos._check import (
    Exact,
    check_integer,
    check_real,
    nonnegative,
    parse_delta,
    parse_epsilon,
    positive,
)
from psephos.errors import ParameterError
from psephos.privacy import pld
from psephos.privacy.events import SubsampledGaussianEvent, float_below
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.guarantee import decimal_text
from psephos.privacy.subsampled import BetaWeight, FixedWeight, SubsampledGaussian, Weight

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "BlockedTraining",
    "NoiseScale",
    "Training",
    "calibrate_sigma",
    "central_limit",
    "check_schedule",
    "delta_upper",
    "epsilon_upper",
    "least_noise",
    "noise_or_none",
    "proper_delta",
    "step_at",
    "training_event",
]

#: ``pld`` accounts here; files that were saved by older versions may name the other two.
Accountant = Literal["pld", "rdp", "paper"]
ACCOUNTANTS: tuple[Accountant, ...] = ("pld", "rdp", "paper")

_TIGHT = 2e-5  # how far below its target a calibrated epsilon may lie, relative


class Training(Protocol):
    """Public facts of a training, as an accountant sees them."""

    @property
    def probability(self) -> Exact:
        """q, chance of a record to be in a minibatch."""

    @property
    def compositions(self) -> int:
        """How many releases there are."""

    @property
    def weight(self) -> Weight:
        """Law of a record's public weight, in the unit of its largest contribution."""

    @property
    def largest_contribution(self) -> Fraction:
        """The largest norm of one record's part of a release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedTraining:
    """Public facts of a training with blocked Dirichlet weights.

    Parameters
    ----------
    records
        n, whole number >= blocks. Where blocks does not divide it, blocks hold at least ``floor(n / S)`` records, and
        that is what is accounted (never the ceiling).
    blocks
        S >= 1.
    gamma
        Concentration of the Dirichlet weights of the S blocks, > 0. It is taken a rounding up.
    alpha
        Mass of the pseudo blocks, >= 0.
    probability
        q, chance of a record to be in a minibatch, 0 < q <= 1, as an exact number or a float.
    steps
        T >= 1.
    draws
        K >= 1 weights per step, **each with a fresh minibatch**: with one minibatch for all K the guarantee fails.
    gradient_bound
        C > 0: every record's gradient has norm at most C, so that replacing a record moves the statistic by at most 2
        w C.

    >>> training = BlockedTraining(
    ...     records=10000, blocks=20, gamma=0.9, probability="0.1", steps=10000, gradient_bound=2.6483
    ... )
    >>> training.compositions, training.largest_contribution == Fraction(26483, 5000000)
    (10000, True)
    """

    records: int
    blocks: int
    gamma: float
    probability: Exact
    steps: int
    gradient_bound: Exact
    draws: int = 1
    alpha: float = 0.0

    def __post_init__(self) -> None:
        blocks = check_integer(self.blocks, "blocks", low=1)
        checked: dict[str, object] = {
            "blocks": blocks,
            "records": check_integer(self.records, "records", low=blocks),
            "gamma": check_real(self.gamma, "gamma", low=1e-6, high=1e9),
            "alpha": check_real(self.alpha, "alpha", low=0, high=1e9),
            "steps": check_integer(self.steps, "steps", low=1),
            "draws": check_integer(self.draws, "draws", low=1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        check_schedule(self.probability, self.gradient_bound, self.steps, self.draws)

    @property
    def compositions(self) -> int:
        """How many releases there are: T K."""
        return self.steps * self.draws

    @property
    def weight(self) -> Weight:
        """Law of n_S times a record's weight: Beta(gamma, (S-1) gamma + alpha), rounded to the larger weights."""
        rest = (self.blocks - 1) * self.gamma + self.alpha
        if rest == 0:
            return FixedWeight()
        return BetaWeight(math.nextafter(self.gamma, math.inf), rest * (1 - 2.0**-51))

    @property
    def largest_contribution(self) -> Fraction:
        """C / n_S: the largest norm of one record's part of the statistic."""
        return positive(self.gradient_bound, "gradient_bound") / (self.records // self.blocks)

    def event(self, sigma: Exact) -> SubsampledGaussianEvent:
        """What runs when this training runs with noise ``sigma``."""
        return training_event(self, sigma)


def training_event(training: Training, sigma: Exact) -> SubsampledGaussianEvent:
    """What runs when a training runs with noise ``sigma``."""
    weight = training.weight
    first, rest = (weight.first, weight.second) if isinstance(weight, BetaWeight) else (1.0, 0.0)
    return SubsampledGaussianEvent(
        sigma=nonnegative(sigma, "sigma"),
        contribution=training.largest_contribution,
        probability=positive(training.probability, "probability"),
        weight_first=Fraction(first),
        weight_rest=Fraction(rest),
        compositions=Fraction(training.compositions),
    )


def check_schedule(probability: Exact, gradient_bound: Exact, steps: int, draws: int) -> None:
    """Refuse a schedule out of range."""
    if not positive(probability, "probability") <= 1:
        raise ParameterError(f"probability must be > 0 and <= 1, got {probability!r}")
    positive(gradient_bound, "gradient_bound")
    check_integer(steps, "steps", low=1)
    check_integer(draws, "draws", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScale:
    """A calibrated standard deviation of the noise, with what it certainly gives.

    Attributes
    ----------
    sigma
        Standard deviation of the noise on each coordinate of the statistic, in its units.
    epsilon_upper
        Privacy loss at ``delta``, accounted again at exactly this sigma: at most the target.
    delta
        As asked.
    method
        The accountant.
    order
        The Renyi order that proves it, where the accountant goes by one; else ``None``.
    """

    sigma: float
    epsilon_upper: float
    delta: Fraction
    method: Accountant
    order: float | None


def proper_delta(delta: Exact) -> Fraction:
    """delta, which must be > 0."""
    value = parse_delta(delta)
    if value == 0:
        raise ParameterError("delta must be > 0 for Gaussian noise, which is never pure, got 0")
    return value


def noise_or_none(sigma: Exact) -> Fraction | float:
    """sigma as an exact number, or 0.0 or inf."""
    if isinstance(sigma, float) and sigma == math.inf:
        return math.inf
    return nonnegative(sigma, "sigma") or 0.0


def step_at(training: Training, sigma: Fraction | float) -> SubsampledGaussian | None:
    """One release with finite noise ``sigma``; ``None`` where the noise is as good as absent."""
    return training_event(training, Fraction(sigma)).step() if sigma else None


def epsilon_upper(training: Training, *, sigma: Exact, delta: Exact) -> float:
    """An upper bound on the privacy loss, in nats, of a training with noise ``sigma``, at ``delta``.

    Parameters
    ----------
    training
        Its public facts.
    sigma
        Standard deviation of the noise, any number >= 0 but NaN: no noise gives ``inf``, infinite noise 0.
    delta
        0 < delta < 1.

    Raises
    ------
    ParameterError
        for a parameter out of range.

    >>> training = BlockedTraining(records=1, blocks=1, gamma=1, probability=1, steps=1, gradient_bound=1)
    >>> round(epsilon_upper(training, sigma=1, delta="1e-5"), 6)  # a sensitivity of 2: one record is replaced
    9.997256
    """
    noise, exact_delta = noise_or_none(sigma), proper_delta(delta)
    if noise == math.inf:
        return 0.0
    step = step_at(training, noise)
    if step is None:
        return math.inf
    return pld.epsilon_upper(step, compositions=training.compositions, delta=float_below(exact_delta))


def delta_upper(training: Training, *, sigma: Exact, epsilon: Exact) -> float:
    """An upper bound on delta at ``epsilon`` > 0 of a training with noise ``sigma``, as :func:`epsilon_upper` at delta.

    0 for infinite noise alone: what underflows is rounded up.

    >>> training = BlockedTraining(records=1, blocks=1, gamma=1, probability=1, steps=1, gradient_bound=1)
    >>> delta_upper(training, sigma=1, epsilon="9.9972562") <= 1e-5
    True
    """
    noise, eps = noise_or_none(sigma), float_below(parse_epsilon(epsilon))
    if noise == math.inf:
        return 0.0
    step = step_at(training, noise)
    return 1.0 if step is None else pld.delta_upper(step, compositions=training.compositions, epsilon=eps)


def central_limit(training: Training, *, epsilon: Exact, delta: Exact) -> float:
    """sigma by the central limit, ``2 C q sqrt(T K kappa) / (n_S mu)``: where a search starts, never a guarantee.

    kappa is E u^2, and mu the Gaussian parameter of (epsilon, delta). The least noise lies up to 1.6 % above it.
    """
    spread = math.sqrt(training.compositions * training.weight.second_moment)
    unit = float(training.largest_contribution) * float(positive(training.probability, "probability")) * spread
    return 2 * unit / float(mu_lower(parse_epsilon(epsilon), proper_delta(delta)))


def calibrate_sigma(training: Training, *, epsilon: Exact, delta: Exact) -> NoiseScale:
    """The least noise (within a relative 2e-5 of the accountant's own least, above) for a guarantee (epsilon, delta).

    The answer is the feasible end of a bracket, and its epsilon is accounted at that very sigma; a value that
    overflows counts as infeasible.

    Parameters
    ----------
    training
        Its public facts.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.

    Raises
    ------
    ParameterError
        for a parameter out of range, and where no noise within the doubles will do.

    >>> training = BlockedTraining(
    ...     records=10000, blocks=20, gamma=0.90019, probability="0.1", steps=10000, gradient_bound=2.64829
    ... )
    >>> scale = calibrate_sigma(training, epsilon=1, delta="1e-4")
    >>> round(scale.sigma, 4), scale.epsilon_upper <= 1
    (0.0239, True)
    """
    target, exact_delta = parse_epsilon(epsilon), proper_delta(delta)
    start = max(
        central_limit(training, epsilon=target, delta=exact_delta) * 1.002, 1e-3 * float(training.largest_contribution)
    )

    def at(sigma: float) -> tuple[float, None]:
        return epsilon_upper(training, sigma=sigma, delta=exact_delta), None

    found = least_noise(at, float_below(target), start, _TIGHT)
    if found is None:
        raise ParameterError(
            "epsilon and delta must be such that noise of standard deviation 1e-290 to 1e290 meets them, "
            f"got epsilon {decimal_text(target)} and delta {decimal_text(exact_delta)}"
        )
    sigma, (reached, _) = found
    return NoiseScale(sigma=sigma, epsilon_upper=reached, delta=exact_delta, method="pld", order=None)


def least_noise(
    at: Callable[[float], tuple[float, float | None]], goal: float, start: float, tolerance: float
) -> tuple[float, tuple[float, float | None]] | None:
    """(sigma, its account): feasible, with an infeasible point or the goal itself within ``tolerance`` below.

    ``None`` where no noise within the doubles will do.

    The Illinois variant of false position on log(epsilon / goal) over log sigma, nudged to the feasible side, in a
    bracket that grows by itself; the middle of the bracket every fifth turn.
    """
    low: tuple[float, float] | None = None  # log sigma and log(epsilon / goal), infeasible
    high: tuple[float, float] | None = None
    best: tuple[float, tuple[float, float | None]] | None = None
    sigma, last = start, 0
    for turn in range(400):
        account = at(sigma)
        epsilon = account[0]
        if not epsilon >= 0:
            raise ArithmeticError(f"epsilon came out as {epsilon!r}")
        excess = min(max(math.log(epsilon / goal), -20), 20) if 0 < epsilon < math.inf else 20 if epsilon else -20
        if epsilon <= goal:
            best, high = (sigma, account), (math.log(sigma), min(excess, -1e-300))
            if epsilon >= goal * (1 - tolerance):
                return best
            if last < 0 and low:
                low = (low[0], low[1] / 2)
            last = -1
        else:
            low = (math.log(sigma), max(excess, 1e-300))
            if last > 0 and high:
                high = (high[0], high[1] / 2)
            last = 1
        if best and low and high:
            width = high[0] - low[0]
            if width <= tolerance:
                return best
            share = 0.5 if turn % 5 == 4 else low[1] / (low[1] - high[1])
            sigma = math.exp(low[0] + min(width * share + tolerance / 3, width * 0.999))
        elif 0 < epsilon < math.inf:
            # epsilon falls about as fast as sigma grows.
            sigma *= min(max(epsilon / goal, 1 / 8), 8) * (1 + tolerance / 3 if epsilon > goal else 1 - tolerance / 3)
        else:
            sigma *= 4 if epsilon > goal else 1 / 4
        if not 1e-290 < sigma < 1e290:
            break
    return None

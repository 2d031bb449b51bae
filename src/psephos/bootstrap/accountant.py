"""The accountants of noisy training with public random weights: how much noise a guarantee needs, and what noise gives.

Three methods bound the same threat model: every intermediate iterate and every weight is public, records are replaced
one at a time, each of ``steps * draws`` releases has its own Poisson minibatch and its own weight.

===========  =========================================================================================================
``pld``      joint privacy-loss distribution (:mod:`psephos.privacy.pld`): the tightest, and the default
``rdp``      Renyi moments by quadrature (:mod:`psephos.privacy.rdp`), all real orders
``paper``    the source document's series (:mod:`psephos.bootstrap.series`), for its published numbers
===========  =========================================================================================================

All see a training only through ``r = C / (sigma n_S)``, the sampling probability q, the law Beta(gamma, (S-1) gamma +
alpha) of a block's weight and the number of releases. Each bound grows with r (moments and H_c do, and every
coefficient of the series in r is positive), so the feasible sigma are a half line; a calibration returns its feasible
end together with epsilon accounted again at the very sigma that is returned.

Sources: "Private Generative Bootstrap via Blocking", Theorem 2.1, Proposition 2.2, (S1), (S18)-(S38); the conversion
(S1) is Lemma 1 of Asoodeh et al. (2021). Two repairs to the document: the release is the pair (weight, statistic),
since the weight enters the update beside the statistic; and the constant of even terms
(:mod:`psephos.bootstrap.series`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from psephos._check import (
    Exact,
    check_choice,
    check_integer,
    check_real,
    nonnegative,
    parse_delta,
    parse_epsilon,
    positive,
)
from psephos.bootstrap.series import series_log_moments_upper
from psephos.errors import AccuracyWarning, ParameterError
from psephos.privacy import pld, rdp
from psephos.privacy.events import SubsampledGaussianEvent, float_below
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.guarantee import decimal_text
from psephos.privacy.subsampled import BetaWeight, FixedWeight, SubsampledGaussian, Weight

__all__ = [
    "METHODS",
    "BlockedTraining",
    "LeadingScale",
    "Method",
    "NoiseScale",
    "PaperBound",
    "PlainTraining",
    "Training",
    "calibrate_sigma",
    "delta_upper",
    "epsilon_upper",
    "leading_scale",
]

Method = Literal["pld", "rdp", "paper"]
METHODS: tuple[Method, ...] = ("pld", "rdp", "paper")

_TIGHT = {"pld": 2e-5, "rdp": 2e-5, "paper": 1e-6}  # how far below its target a calibrated epsilon may lie, relative
_FIRST_ORDERS, _MOST_ORDERS = 128, 1024


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
        _check_schedule(self.probability, self.gradient_bound, self.steps, self.draws)

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
        return _event(self, sigma)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTraining:
    """Public facts of a training whose records all weigh 1, such as DP-SGLD.

    ``gradient_bound`` is the bound on the norm of one record's part of the noisy sum; the other parameters are those of
    :class:`BlockedTraining`.

    >>> PlainTraining(probability="0.1", steps=20000, gradient_bound=1).compositions
    20000
    """

    probability: Exact
    steps: int
    gradient_bound: Exact

    def __post_init__(self) -> None:
        _check_schedule(self.probability, self.gradient_bound, self.steps, 1)

    @property
    def compositions(self) -> int:
        """How many releases there are: T."""
        return self.steps

    @property
    def weight(self) -> Weight:
        """Always 1."""
        return FixedWeight()

    @property
    def largest_contribution(self) -> Fraction:
        """C."""
        return positive(self.gradient_bound, "gradient_bound")

    def event(self, sigma: Exact) -> SubsampledGaussianEvent:
        """What runs when this training runs with noise ``sigma``."""
        return _event(self, sigma)


Training = BlockedTraining | PlainTraining


def _event(training: Training, sigma: Exact) -> SubsampledGaussianEvent:
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


def _check_schedule(probability: Exact, gradient_bound: Exact, steps: int, draws: int) -> None:
    if not positive(probability, "probability") <= 1:
        raise ParameterError(f"probability must be > 0 and <= 1, got {probability!r}")
    positive(gradient_bound, "gradient_bound")
    check_integer(steps, "steps", low=1)
    check_integer(draws, "draws", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBound:
    """Settings of the method ``paper``.

    Parameters
    ----------
    even_constant
        ``"fixed"`` (2^k in place of 4 for even k) or ``"printed"``.
    conversion
        ``"asoodeh"`` (S1) or the weaker ``"mironov"`` of Proposition 2.2.
    moments
        J >= 1, at most 512: truncation of the moment series. A larger J never asks for more noise.
    expansion
        m from 3 to 40: order of the expansion in q. A larger m *can* ask for more noise.

    >>> PaperBound().moments, PaperBound().expansion
    (32, 5)
    """

    even_constant: Literal["fixed", "printed"] = "fixed"
    conversion: rdp.Conversion = "asoodeh"
    moments: int = 32
    expansion: int = 5

    def __post_init__(self) -> None:
        check_choice(self.even_constant, "even_constant", ("fixed", "printed"))
        check_choice(self.conversion, "conversion", rdp.CONVERSIONS)
        check_integer(self.moments, "moments", low=1, high=512)
        check_integer(self.expansion, "expansion", low=3, high=40)


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
        The Renyi order that proves it; ``None`` for ``pld``.
    """

    sigma: float
    epsilon_upper: float
    delta: Fraction
    method: Method
    order: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingScale:
    """Leading-order noise scales: for plans and start values, never a guarantee.

    Attributes
    ----------
    rate
        Theorem 2.1's scale without its constant, ``C q sqrt(T K kappa log(1/delta)) / (n_S epsilon)``.
    renyi
        The leading order with its constant: the least sigma whose Gaussian moments of variance
        ``4 T K kappa q^2 C^2 / (sigma n_S)^2`` meet epsilon at delta by Mironov's conversion.
    limit
        The central limit, ``2 C q sqrt(T K kappa) / (n_S mu)``, with mu the Gaussian parameter of (epsilon, delta).
    regime
        ``sqrt(log(1/delta) / (2 T K kappa))``, which the theorem takes for small. From about .3 on it is not.
    """

    rate: float
    renyi: float
    limit: float
    regime: float


def leading_scale(training: Training, *, epsilon: Exact, delta: Exact) -> LeadingScale:
    """Theorem 2.1's leading scales for a training: a planner's check, not a certificate.

    kappa is E u^2, which at alpha = 0 is ``(gamma + 1) / (S (S gamma + 1))``.

    >>> training = PlainTraining(probability="0.1", steps=20000, gradient_bound=1)
    >>> scale = leading_scale(training, epsilon=1, delta="1e-4")
    >>> 85 < scale.limit < 95 < scale.renyi < 130
    True
    """
    target, exact_delta = parse_epsilon(epsilon), _proper_delta(delta)
    log_inverse = -math.log(exact_delta)
    spread = math.sqrt(training.compositions * training.weight.second_moment)
    unit = float(training.largest_contribution) * float(positive(training.probability, "probability")) * spread
    eps = float(target)
    # 2 rho + 2 sqrt(2 rho L) = epsilon, solved for sqrt(2 rho) without cancellation; rho = (unit / sigma)^2.
    root = eps / (math.sqrt(log_inverse) + math.sqrt(log_inverse + eps))
    return LeadingScale(
        rate=unit * math.sqrt(log_inverse) / eps,
        renyi=unit * math.sqrt(2) / root,
        limit=2 * unit / float(mu_lower(target, exact_delta)),
        regime=math.sqrt(log_inverse / 2) / spread,
    )


def _proper_delta(delta: Exact) -> Fraction:
    value = parse_delta(delta)
    if value == 0:
        raise ParameterError("delta must be > 0 for Gaussian noise, which is never pure, got 0")
    return value


def _noise(sigma: Exact) -> Fraction | float:
    """sigma as an exact number, or 0.0 or inf."""
    if isinstance(sigma, float) and sigma == math.inf:
        return math.inf
    return nonnegative(sigma, "sigma") or 0.0


def epsilon_upper(
    training: Training, *, sigma: Exact, delta: Exact, method: Method = "pld", paper: PaperBound | None = None
) -> float:
    """An upper bound on the privacy loss, in nats, of a training with noise ``sigma``, at ``delta``.

    Parameters
    ----------
    training
        Its public facts.
    sigma
        Standard deviation of the noise, any number >= 0 but NaN: no noise gives ``inf``, infinite noise 0.
    delta
        0 < delta < 1.
    method
        ``"pld"``, ``"rdp"`` or ``"paper"``.
    paper
        Settings of the method ``paper``.

    Raises
    ------
    ParameterError
        for a parameter out of range, and for ``paper`` at probability 1, where its series has no meaning.

    >>> training = PlainTraining(probability=1, steps=1, gradient_bound=1)
    >>> round(epsilon_upper(training, sigma=1, delta="1e-5"), 6)  # a sensitivity of 2: one record is replaced
    9.997256
    """
    value, order = _account(training, _noise(sigma), _proper_delta(delta), _checked_method(training, method), paper)
    _warn_of_edge(method, order, value)
    return value


def _checked_method(training: Training, method: Method) -> Method:
    check_choice(method, "method", METHODS)
    if method == "paper" and not positive(training.probability, "probability") < 1:
        raise ParameterError(f"probability must be < 1 for the method paper, got {training.probability!r}")
    return method


def _account(
    training: Training, sigma: Fraction | float, delta: Fraction, method: Method, paper: PaperBound | None
) -> tuple[float, float | None]:
    """(epsilon, order) at one sigma."""
    if sigma == math.inf:
        return 0.0, None
    step = None if sigma == 0 else training.event(Fraction(sigma)).step()
    if step is None:
        return math.inf, None
    below = float_below(delta)
    if method == "pld":
        return pld.epsilon_upper(step, compositions=training.compositions, delta=below), None
    if method == "rdp":
        return rdp.steps_epsilon_upper(step, compositions=training.compositions, delta=below)
    settings = paper or PaperBound()

    def reading(total: float, order: int) -> float:
        return rdp.epsilon_from_log_moment_upper(total, order=order, delta=below, conversion=settings.conversion)

    return _least_of_series(step, training.compositions, settings, reading)


def _least_of_series(
    step: SubsampledGaussian, compositions: int, paper: PaperBound, reading: Callable[[float, int], float]
) -> tuple[float, float | None]:
    """(least reading, its order) of the series; more orders only while the best is at the end of the list."""
    highest = _FIRST_ORDERS
    while True:
        values = [reading(total, order) for order, total in _paper_totals(step, compositions, paper, highest)]
        best = int(np.argmin(values))
        if best + 8 < len(values) or highest >= _MOST_ORDERS or values[best] == 0:
            return values[best], None if math.isinf(values[best]) else float(best + 2)
        highest *= 2


def _warn_of_edge(method: Method, order: float | None, value: float) -> None:
    """Warn where the order that proves a bound is the least or the largest that was tried: others might prove more."""
    if order is None or not value or method == "pld":
        return
    if rdp.order_at_edge(order) if method == "rdp" else order == 2 or order >= _MOST_ORDERS - 8:
        end = "lowest" if order <= 2 else "highest"
        warnings.warn(
            AccuracyWarning(
                f"the best Renyi order of method {method!r} is the {end} that it has, {order:g}: its bound holds, and "
                f"may be far from the least; method {'rdp' if method == 'paper' else 'pld'!r} is not so bound"
            ),
            stacklevel=3,
        )


def _paper_totals(
    step: SubsampledGaussian, compositions: int, paper: PaperBound, highest: int
) -> list[tuple[int, float]]:
    log_moments = series_log_moments_upper(
        step,
        highest_order=highest,
        even_constant=paper.even_constant,
        moments=paper.moments,
        expansion=paper.expansion,
    )
    return [
        (order, rdp.compose_log_moments_upper([(float(value), compositions)]))
        for order, value in enumerate(log_moments, start=2)
    ]


def delta_upper(
    training: Training, *, sigma: Exact, epsilon: Exact, method: Method = "pld", paper: PaperBound | None = None
) -> float:
    """An upper bound on delta at ``epsilon`` > 0 of a training with noise ``sigma``, as :func:`epsilon_upper` at delta.

    0 for infinite noise alone: what underflows is rounded up.

    >>> training = PlainTraining(probability=1, steps=1, gradient_bound=1)
    >>> delta_upper(training, sigma=1, epsilon="9.9972562") <= 1e-5
    True
    """
    noise, eps = _noise(sigma), float_below(parse_epsilon(epsilon))
    _checked_method(training, method)
    if noise == math.inf:
        return 0.0
    step = None if noise == 0 else training.event(Fraction(noise)).step()
    if step is None:
        return 1.0
    if method == "pld":
        return pld.delta_upper(step, compositions=training.compositions, epsilon=eps)
    order: float | None
    if method == "rdp":
        value, order = rdp.steps_delta_upper(step, compositions=training.compositions, epsilon=eps)
    else:
        settings = paper or PaperBound()

        def reading(total: float, order: int) -> float:
            return rdp.delta_from_log_moment_upper(total, order=order, epsilon=eps, conversion=settings.conversion)

        value, order = _least_of_series(step, training.compositions, settings, reading)
    _warn_of_edge(method, order, value)
    return value


def calibrate_sigma(
    training: Training, *, epsilon: Exact, delta: Exact, method: Method = "pld", paper: PaperBound | None = None
) -> NoiseScale:
    """The least noise (within a relative 2e-5 of the method's own least, above) for a guarantee (epsilon, delta).

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
    method, paper
        As in :func:`epsilon_upper`.

    Warns
    -----
    AccuracyWarning
        where the order that proves the guarantee is the lowest or the highest that the method has: the noise may be far
        more than it need be.

    >>> training = BlockedTraining(
    ...     records=10000, blocks=20, gamma=0.90019, probability="0.1", steps=10000, gradient_bound=2.64829
    ... )
    >>> scale = calibrate_sigma(training, epsilon=1, delta="1e-4", method="paper")
    >>> round(scale.sigma, 4), scale.order, scale.epsilon_upper <= 1
    (0.0266, 14.0, True)
    """
    target, exact_delta = parse_epsilon(epsilon), _proper_delta(delta)
    _checked_method(training, method)
    goal = float_below(target)
    guess = leading_scale(training, epsilon=target, delta=exact_delta)
    start = guess.limit * 1.002 if method == "pld" else guess.renyi if _is_mironov(method, paper) else guess.limit * 1.1
    start = max(start, 1e-3 * float(training.largest_contribution))

    def at(sigma: float) -> tuple[float, float | None]:
        return _account(training, _noise(sigma), exact_delta, method, paper)

    try:
        sigma, (reached, order) = _least_feasible(at, goal, start, _TIGHT[method])
    except _NoSigmaError:
        raise ParameterError(
            f"epsilon and delta must be such that noise of standard deviation 1e-290 to 1e290 meets them by the method "
            f"{method!r}, got epsilon {decimal_text(target)} and delta {decimal_text(exact_delta)}"
        ) from None
    _warn_of_edge(method, order, reached)
    return NoiseScale(sigma=sigma, epsilon_upper=reached, delta=exact_delta, method=method, order=order)


def _is_mironov(method: Method, paper: PaperBound | None) -> bool:
    return method == "paper" and paper is not None and paper.conversion == "mironov"


class _NoSigmaError(Exception):
    """No noise within the doubles will do."""


def _least_feasible(
    at: Callable[[float], tuple[float, float | None]], goal: float, start: float, tolerance: float
) -> tuple[float, tuple[float, float | None]]:
    """(sigma, its account): feasible, with an infeasible point or the goal itself within ``tolerance`` below.

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
    raise _NoSigmaError

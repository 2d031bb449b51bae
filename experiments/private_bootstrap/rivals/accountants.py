"""Three accountants of noisy training under one name: the package's own, and two that published noise comes from.

===========  =========================================================================================================
``pld``      joint privacy-loss distribution (:mod:`psephos.bootstrap.accountant`): the tightest, and the package's own
``rdp``      Renyi moments by quadrature (:mod:`psephos.privacy.rdp`), all real orders
``paper``    the series of "Private Generative Bootstrap via Blocking" (:mod:`rivals.series`), for its published numbers
===========  =========================================================================================================

All bound the same threat model and grow with the noise's inverse. Sources: the paper's Theorem 2.1, Proposition 2.2,
(S1), (S18)-(S38); the conversion (S1) is Lemma 1 of Asoodeh et al. (2021). One repair beside the package's: the
constant of even terms (:mod:`rivals.series`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from psephos._check import Exact, check_choice, check_integer, parse_epsilon, positive
from psephos.bootstrap import accountant
from psephos.bootstrap.accountant import (
    Accountant,
    NoiseScale,
    Training,
    central_limit,
    check_schedule,
    least_noise,
    noise_or_none,
    proper_delta,
    step_at,
    training_event,
)
from psephos.errors import AccuracyWarning, ParameterError
from psephos.privacy import rdp
from psephos.privacy.events import SubsampledGaussianEvent, float_below
from psephos.privacy.guarantee import decimal_text
from psephos.privacy.subsampled import FixedWeight, SubsampledGaussian, Weight
from rivals.series import series_log_moments_upper

Method = Accountant
METHODS: tuple[Method, ...] = ("pld", "rdp", "paper")

_TIGHT = {"rdp": 2e-5, "paper": 1e-6}  # how far below its target a calibrated epsilon may lie, relative
_FIRST_ORDERS, _MOST_ORDERS = 128, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTraining:
    """Public facts of a training whose records all weigh 1, such as DP-SGLD.

    ``gradient_bound`` is the bound on the norm of one record's part of the noisy sum; the other parameters are those of
    :class:`psephos.bootstrap.BlockedTraining`.

    >>> PlainTraining(probability="0.1", steps=20000, gradient_bound=1).compositions
    20000
    """

    probability: Exact
    steps: int
    gradient_bound: Exact

    def __post_init__(self) -> None:
        check_schedule(self.probability, self.gradient_bound, self.steps, 1)

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
        return training_event(self, sigma)


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
    target, exact_delta = parse_epsilon(epsilon), proper_delta(delta)
    log_inverse = -math.log(exact_delta)
    spread = math.sqrt(training.compositions * training.weight.second_moment)
    unit = float(training.largest_contribution) * float(positive(training.probability, "probability")) * spread
    eps = float(target)
    # 2 rho + 2 sqrt(2 rho L) = epsilon, solved for sqrt(2 rho) without cancellation; rho = (unit / sigma)^2.
    root = eps / (math.sqrt(log_inverse) + math.sqrt(log_inverse + eps))
    return LeadingScale(
        rate=unit * math.sqrt(log_inverse) / eps,
        renyi=unit * math.sqrt(2) / root,
        limit=central_limit(training, epsilon=target, delta=exact_delta),
        regime=math.sqrt(log_inverse / 2) / spread,
    )


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
    if _checked_method(training, method) == "pld":
        return accountant.epsilon_upper(training, sigma=sigma, delta=delta)
    value, order = _account(training, noise_or_none(sigma), proper_delta(delta), method, paper)
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
    step = step_at(training, sigma)
    if step is None:
        return math.inf, None
    below = float_below(delta)
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
    if order is None or not value:
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
    if _checked_method(training, method) == "pld":
        return accountant.delta_upper(training, sigma=sigma, epsilon=epsilon)
    noise, eps = noise_or_none(sigma), float_below(parse_epsilon(epsilon))
    if noise == math.inf:
        return 0.0
    step = step_at(training, noise)
    if step is None:
        return 1.0
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

    >>> training = accountant.BlockedTraining(
    ...     records=10000, blocks=20, gamma=0.90019, probability="0.1", steps=10000, gradient_bound=2.64829
    ... )
    >>> scale = calibrate_sigma(training, epsilon=1, delta="1e-4", method="paper")
    >>> round(scale.sigma, 4), scale.order, scale.epsilon_upper <= 1
    (0.0266, 14.0, True)
    """
    if _checked_method(training, method) == "pld":
        return accountant.calibrate_sigma(training, epsilon=epsilon, delta=delta)
    target, exact_delta = parse_epsilon(epsilon), proper_delta(delta)
    guess = leading_scale(training, epsilon=target, delta=exact_delta)
    start = guess.renyi if _is_mironov(method, paper) else guess.limit * 1.1

    def at(sigma: float) -> tuple[float, float | None]:
        return _account(training, noise_or_none(sigma), exact_delta, method, paper)

    smallest = 1e-3 * float(training.largest_contribution)
    found = least_noise(at, float_below(target), max(start, smallest), _TIGHT[method])
    if found is None:
        raise ParameterError(
            f"epsilon and delta must be such that noise of standard deviation 1e-290 to 1e290 meets them by the method "
            f"{method!r}, got epsilon {decimal_text(target)} and delta {decimal_text(exact_delta)}"
        )
    sigma, (reached, order) = found
    _warn_of_edge(method, order, reached)
    return NoiseScale(sigma=sigma, epsilon_upper=reached, delta=exact_delta, method=method, order=order)


def _is_mironov(method: Method, paper: PaperBound | None) -> bool:
    return method == "paper" and paper is not None and paper.conversion == "mironov"

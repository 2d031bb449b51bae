"""How far noisy training ends from its target: the noise floor of Theorem 3.1 in its parts, and what follows from it.

One step of equation (4) sees ``g = (1/K) sum_k (sum_i I_i w_i grad l_i + Z) J``, an unbiased estimate of q times the
gradient of the objective. Its error has three uncorrelated parts (Lemma S2.12), with mean squares of at most

    Poisson subsampling   beta_1^2 C^2 q (1 - q) E sum_i w_i^2 / K,    E sum_i w_i^2 = (gamma + 1) / ((S gamma + 1) n_S)
    Monte Carlo           beta_1^2 C^2 q^2 / K
    privacy noise         beta_1^2 d sigma^2 / K

With sigma of the leading order of Theorem 2.1, which grows as sqrt(K), the third does not depend on K.

**The bound holds, and it orders the parts wrongly.** Measured against it (quadratic loss, records on the unit sphere of
R^3, n = 200, S = 20, gamma*, q = .1, at the steady state, the same for K = 1, 4 and 16 and with or without noise):

===================  ===========================  ======================================
part over its bound  generator G(u) = phi         generator G(u) = Phi u
===================  ===========================  ======================================
Poisson              .25 = (gradient norm / C)^2  .026 = .25 E |u|^2
Monte Carlo          .0012                        .0001 to .0007, less for a larger K
privacy noise        1.00                         .0995 = E |u|^2
===================  ===========================  ======================================

The Monte Carlo part is loose by a factor of order n: its proof bounds a variance over u by a second moment, C^2. For a
generator that ignores u the variance is exactly ``trace Sigma_blocks / (S gamma + 1)``, at gamma* in the mean over
partitions ``trace Sigma / (n + 1)``; for one that solves each weighting it is 0 at the optimum. So "the privacy term is
of smaller order", in the document's reading of the theorem, is a property of the bound. At its regression settings (n =
10000, S = 20, q = .1, K = 1, C = 2.6483, d = 4, sigma = .0266) the bound has .0701 for Monte Carlo, .00283 for privacy
and .00013 for Poisson, while the Monte Carlo part of a constant generator is at most .000007: 400 times *below* that of
privacy, which then dominates.

Source: "Private Generative Bootstrap via Blocking", section 3, Theorem 3.1, Lemmas S2.12 to S2.14, (S52) to (S66). It
is about plain gradient steps; Adam is not covered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from psephos._check import check_integer, check_real, positive
from psephos.bootstrap.accountant import BlockedTraining
from psephos.errors import ParameterError

__all__ = ["ExcessBound", "NoiseFloor", "distance_factor", "excess_bound", "noise_floor", "smoothness_bound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Pi_total of Theorem 3.1: bounds of the mean squared error of a step's gradient, by source.

    Attributes
    ----------
    poisson
        Of records drawn into minibatches.
    monte_carlo
        Of K draws of the weights in place of all.
    privacy
        Of the noise.
    """

    poisson: float
    monte_carlo: float
    privacy: float

    @property
    def total(self) -> float:
        """Pi_total: the parts are uncorrelated."""
        return self.poisson + self.monte_carlo + self.privacy


def noise_floor(training: BlockedTraining, *, sigma: float, dimension: int, jacobian_bound: float = 1.0) -> NoiseFloor:
    """The three parts of the noise floor.

    Parameters
    ----------
    training
        Its q, gamma, S, n, K and C. With pseudo blocks the law of the weights is theirs, and C must bound the
        gradients of pseudo records too. Blocks count as of ``floor(n / S)`` records.
    sigma
        Standard deviation of the noise on a coordinate of the statistic, >= 0; 0 gives the non-private floor.
    dimension
        d, coordinates of theta.
    jacobian_bound
        beta_1 > 0: the largest operator norm of the generator's Jacobian in its parameters. A constant generator has 1.

    >>> training = BlockedTraining(
    ...     records=10_000, blocks=20, gamma=0.9002, probability="0.1", steps=10_000, gradient_bound="2.6483"
    ... )
    >>> floor = noise_floor(training, sigma=0.0266, dimension=4)
    >>> round(floor.poisson, 6), round(floor.monte_carlo, 4), round(floor.privacy, 5)
    (0.000126, 0.0701, 0.00283)
    """
    check_real(sigma, "sigma", low=0, high=1e150)
    check_integer(dimension, "dimension", low=1)
    _check_above_zero(jacobian_bound, "jacobian_bound")
    q = float(positive(training.probability, "probability"))
    reach = (jacobian_bound * float(positive(training.gradient_bound, "gradient_bound"))) ** 2
    squares = training.blocks * training.weight.second_moment / (training.records // training.blocks)
    return NoiseFloor(
        poisson=reach * q * (1 - q) * squares / training.draws,
        monte_carlo=reach * q**2 / training.draws,
        privacy=jacobian_bound**2 * dimension * sigma**2 / training.draws,
    )


def smoothness_bound(
    *, jacobian_bound: float, hessian_bound: float, curvature_bound: float, gradient_bound: float
) -> float:
    """M of section 3, the largest curvature of the objective in the generator's parameters.

    ``beta_1^2 K_2 + beta_2 C`` with beta_1 and beta_2 bounds of the generator's Jacobian and of its second derivative
    (0 for one that is linear in its parameters), K_2 of the loss's Hessian, C of its gradient.

    >>> smoothness_bound(jacobian_bound=1, hessian_bound=0, curvature_bound=2, gradient_bound=5)
    2.0
    """
    check_real(jacobian_bound, "jacobian_bound", low=0, high=1e150)
    check_real(hessian_bound, "hessian_bound", low=0, high=1e150)
    check_real(curvature_bound, "curvature_bound", low=0, high=1e150)
    check_real(gradient_bound, "gradient_bound", low=0, high=1e150)
    return float(jacobian_bound**2 * curvature_bound + hessian_bound * gradient_bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcessBound:
    """(S64): how far the mean weighted loss of the trained map may lie above that of the exact weighted fits.

    Attributes
    ----------
    transient
        ``(1 - eta q mu)^T`` times the gap at the start.
    floor
        ``M eta Pi_total / (2 q mu)``: what noise leaves, however long training runs.
    approximation
        What the best map of the class leaves.
    """

    transient: float
    floor: float
    approximation: float

    @property
    def total(self) -> float:
        """The sum."""
        return self.transient + self.floor + self.approximation


def excess_bound(
    training: BlockedTraining,
    floor: NoiseFloor,
    *,
    learning_rate: float,
    smoothness: float,
    curvature: float,
    initial_gap: float,
    approximation_gap: float = 0.0,
) -> ExcessBound:
    """Theorem 3.1's bound of the objective after T plain steps, with its constants (S62), (S64).

    For a quadratic objective with noise of exactly this floor the true excess is ``1 / (2 - eta q M)`` of the bound's
    floor: half of it for small steps.

    Parameters
    ----------
    training
        Its q and T.
    floor
        By :func:`noise_floor`.
    learning_rate
        eta, ``0 < eta <= 1 / (q M)``. The statistic is not divided by q.
    smoothness
        M, by :func:`smoothness_bound`.
    curvature
        mu, ``0 < mu <= M``: the gradient's squared norm is everywhere at least ``2 mu`` times the excess
        (Polyak-Lojasiewicz), which is assumed and hardly ever known of a network.
    initial_gap
        Excess of the objective at the start over the best of the class, >= 0.
    approximation_gap
        Excess of the best of the class over the exact weighted fits, >= 0.

    >>> training = BlockedTraining(
    ...     records=1000, blocks=10, gamma=1, probability="0.5", steps=100, gradient_bound=1
    ... )
    >>> floor = NoiseFloor(poisson=0.0, monte_carlo=0.0, privacy=0.01)
    >>> bound = excess_bound(training, floor, learning_rate=0.2, smoothness=1, curvature=1, initial_gap=1)
    >>> round(bound.transient, 6), round(bound.floor, 6)
    (2.7e-05, 0.002)
    """
    _check_above_zero(smoothness, "smoothness")
    _check_above_zero(curvature, "curvature", high=smoothness)
    q = float(positive(training.probability, "probability"))
    _check_above_zero(learning_rate, "learning_rate", high=(1 + 1e-12) / (q * smoothness))
    check_real(initial_gap, "initial_gap", low=0)
    check_real(approximation_gap, "approximation_gap", low=0)
    rate = min(learning_rate * q * curvature, 1.0)
    return ExcessBound(
        transient=initial_gap * (math.exp(training.steps * math.log1p(-rate)) if rate < 1 else 0.0),
        floor=smoothness * learning_rate * floor.total / (2 * q * curvature),
        approximation=float(approximation_gap),
    )


def distance_factor(*, curvature: float, diameter: float, radius: float) -> float:
    """What turns an excess into a mean squared distance to the exact weighted fits, ``(8 / mu)(1 + 2 D / r)``: (S65).

    It holds but for an event of probability O(n^-2), on which the squared distance is at most D^2; the constant of that
    probability is not known, so this ends the computable part of the theorem.

    Parameters
    ----------
    curvature
        mu > 0, least eigenvalue of the expected Hessian of the loss at the population's minimum.
    diameter
        D > 0, of the parameter box.
    radius
        r > 0, within which the Hessian does not change by more than ``mu / 8``, and at most a quarter of the way from
        the minimum to the box's boundary.

    >>> distance_factor(curvature=1, diameter=2, radius=0.5)
    72.0
    """
    _check_above_zero(curvature, "curvature")
    _check_above_zero(diameter, "diameter")
    _check_above_zero(radius, "radius")
    return 8 / curvature * (1 + 2 * diameter / radius)


def _check_above_zero(value: float, name: str, *, high: float = 1e150) -> None:
    if not 0 < check_real(value, name, low=-1e150, high=1e150) <= high:
        raise ParameterError(f"{name} must be a number > 0 and <= {high:.6g}, got {value!r}")

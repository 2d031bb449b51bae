"""Independent noise of either family on integers: the law with less variance, and the record of what ran."""

from __future__ import annotations

from fractions import Fraction

from psephos.central.gaussian import gaussian_law
from psephos.central.laplace import laplace_law
from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.pairwise.estimate import NoiseLaw
from psephos.privacy.events import DiscreteLaplaceEvent, RoundedGaussianEvent

__all__ = ["least_noise_law", "noise_event"]


def least_noise_law(sensitivity: MarginSensitivity, *, epsilon: Fraction, delta: Fraction) -> NoiseLaw:
    """Laplace or normal noise for integers of this sensitivity, whichever is less; reads no data.

    Laplace if delta is 0.
    """
    laws = [laplace_law(sensitivity, epsilon=epsilon)]
    if delta:
        laws.append(gaussian_law(sensitivity, epsilon=epsilon, delta=delta))
    return min(laws, key=lambda law: law.sd)


def noise_event(law: NoiseLaw, sensitivity: MarginSensitivity) -> RoundedGaussianEvent | DiscreteLaplaceEvent:
    """What ran where integers of this sensitivity got independent noise of this law."""
    if law.family == "rounded-gaussian":
        return RoundedGaussianEvent(sigma=law.scale, sensitivity_squared=sensitivity.l2_squared)
    return DiscreteLaplaceEvent(scale=law.scale, sensitivity=sensitivity.l1)

"""Which private posterior suits a loss, by public facts alone."""

from __future__ import annotations

from typing import Literal

from psephos._check import Exact, check_integer, parse_delta, parse_epsilon
from psephos.bootstrap.losses import ShippedLoss
from psephos.bootstrap.people import REGRESSIONS
from psephos.bootstrap.score_bootstrap import takes_field
from psephos.privacy.gaussian import mu_lower

__all__ = ["POSTERIOR_METHODS", "PosteriorMethod", "best_method"]

PosteriorMethod = Literal["sandwich", "field"]
_CLEAR = 400.0  # n mu / r^(3/2) of a regression from which on noise on its curvature is small

POSTERIOR_METHODS: tuple[PosteriorMethod, ...] = ("sandwich", "field")


def best_method(loss: ShippedLoss, *, people: int, epsilon: Exact, delta: Exact) -> tuple[PosteriorMethod, str]:
    """The method that ``method="auto"`` of :func:`psephos.private_posterior` takes, and why.

    Noisy Newton steps need a curvature that noise does not hide. That of a regression's r coordinates has noise that
    grows like r / (n mu), mu the budget as that of Gaussian noise, and its largest eigenvalue like sqrt(r) of that: for
    ``n mu < 400 r^(3/2)`` gradients at many places tell more (``experiments/private_bootstrap/choice.py``, where
    intervals are up to a hundred times narrower below that, and alike above).

    Parameters
    ----------
    loss
        With its coordinates, levels and bounds.
    people
        How many records there are, >= 1.
    epsilon, delta
        The budget: nats, > 0; 0 < delta < 1.

    >>> from psephos.bootstrap import MeanLoss, QuantileLoss
    >>> mean = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> lines = QuantileLoss(covariates=("intercept",), covariate_bound=1, coefficient_box=(0, 9))
    >>> [best_method(loss, people=1000, epsilon=1, delta="1e-6")[0] for loss in (mean, lines)]
    ['sandwich', 'field']
    """
    check_integer(people, "people", low=1)
    parse_epsilon(epsilon)
    if loss.levels is not None and takes_field(loss):
        return "field", "quantiles at all levels are one field of gradients, whatever the density of responses is"
    r = len(loss.names)
    clear = people * float(mu_lower(epsilon, delta)) >= _CLEAR * r**1.5 if parse_delta(delta) else True
    if not clear and isinstance(loss, REGRESSIONS) and takes_field(loss):
        return "field", (
            f"at this budget noise would hide the curvature of {r} coordinates from {people} people's Newton steps; "
            "gradients at many places tell more"
        )
    return "sandwich", "noisy Newton steps are the fastest where a posterior is near normal, and count their noise"

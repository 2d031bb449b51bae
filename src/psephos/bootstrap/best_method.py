"""Which private posterior suits a loss, by public facts alone."""

from __future__ import annotations

from typing import Literal

from psephos._check import Exact, check_integer, parse_delta, parse_epsilon
from psephos.bootstrap.losses import ShippedLoss
from psephos.bootstrap.score_bootstrap import takes_field

__all__ = ["POSTERIOR_METHODS", "PosteriorMethod", "best_method"]

PosteriorMethod = Literal["sandwich", "field"]
POSTERIOR_METHODS: tuple[PosteriorMethod, ...] = ("sandwich", "field")


def best_method(loss: ShippedLoss, *, people: int, epsilon: Exact, delta: Exact) -> tuple[PosteriorMethod, str]:
    """The method that ``method="auto"`` of :func:`psephos.private_posterior` takes, and why.

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
    parse_delta(delta)
    if loss.levels is not None and takes_field(loss):
        return "field", "quantiles at all levels are one field of gradients, whatever the density of responses is"
    return "sandwich", "noisy Newton steps are the fastest where a posterior is near normal, and count their noise"

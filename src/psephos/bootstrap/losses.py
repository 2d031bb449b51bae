"""Losses for the private posterior, each with a proved bound on one record's gradient. How to choose:

=========================  ==================================  =======================================================
what is wanted             loss                                bound C of a record's gradient
=========================  ==================================  =======================================================
a mean                     :class:`MeanLoss`                   the clip that was asked for
regression, errors with    :class:`HuberLoss`                  ``sqrt(c^2 R^2 + (c^2 - kappa)^2 / 4)``
heavy tails
several quantiles at once  :class:`QuantileLoss`               ``max(tau, 1 - tau) R``
a probability              :class:`LogisticLoss`               ``R``
scores from comparisons    :class:`BradleyTerryLoss`           ``sqrt(2)``, a person with any number of answers
anything else              :class:`CustomLoss`                 what is claimed; training cuts what exceeds it
=========================  ==================================  =======================================================

R is the largest l2 norm of a covariate vector, ``Design.covariate_bound``. What a loss must offer is :class:`Loss`.
"""

from psephos.bootstrap.custom_loss import CustomLoss, LossFunction
from psephos.bootstrap.loss_protocol import Array, Loss, Records, namespace
from psephos.bootstrap.mean_loss import MeanLoss
from psephos.bootstrap.preference_loss import BradleyTerryLoss, comparison_records
from psephos.bootstrap.regression_losses import HuberLoss, LogisticLoss, QuantileLoss

__all__ = [
    "SHIPPED",
    "Array",
    "BradleyTerryLoss",
    "CustomLoss",
    "HuberLoss",
    "LogisticLoss",
    "Loss",
    "LossFunction",
    "MeanLoss",
    "QuantileLoss",
    "Records",
    "ShippedLoss",
    "comparison_records",
    "namespace",
]

#: Losses of this package: bounds are proved, rows of gradients are tested not to mix, curvature is known.
ShippedLoss = BradleyTerryLoss | HuberLoss | LogisticLoss | MeanLoss | QuantileLoss
SHIPPED = (BradleyTerryLoss, HuberLoss, LogisticLoss, MeanLoss, QuantileLoss)

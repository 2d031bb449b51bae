"""Private posterior draws: the generative bootstrap with noisy training, and its accountant.

How to choose: :func:`private_posterior`, whose draws count the noise. Its method ``sandwich``, noisy Newton steps, is
for posteriors that are near normal: one place says all; ``field``, gradients at many places, for any shape, quantiles
above all, and many levels at one budget; ``auto`` chooses. :func:`private_generator` trains a sampler, the source
document's way: its intervals do not hold the error that noise adds, and it takes a loss of your own. :func:`simulate`
is the same for experiments on data that nobody needs to protect.
"""

from psephos.bootstrap.accountant import (
    BlockedTraining,
    NoiseScale,
    calibrate_sigma,
    delta_upper,
    epsilon_upper,
)
from psephos.bootstrap.best_method import POSTERIOR_METHODS, PosteriorMethod, best_method
from psephos.bootstrap.block_weights import gamma_star
from psephos.bootstrap.design import Design, read_columns_csv
from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.field_posterior import FieldPosterior
from psephos.bootstrap.generator import NetworkShape
from psephos.bootstrap.generator_posterior import GeneratorPosterior
from psephos.bootstrap.losses import (
    SHIPPED,
    BradleyTerryLoss,
    CustomLoss,
    HuberLoss,
    LogisticLoss,
    Loss,
    MeanLoss,
    QuantileLoss,
    Records,
    ShippedLoss,
    comparison_records,
)
from psephos.bootstrap.normal_posterior import NormalPosterior
from psephos.bootstrap.private_generator import private_generator
from psephos.bootstrap.private_posterior import (
    private_posterior,
    release_from_json,
    release_to_json,
)
from psephos.bootstrap.sandwich import SandwichPlan
from psephos.bootstrap.score_bootstrap import FieldPlan
from psephos.bootstrap.train import TrainingPlan, simulate

__all__ = [
    "POSTERIOR_METHODS",
    "SHIPPED",
    "BlockedTraining",
    "BradleyTerryLoss",
    "CustomLoss",
    "Design",
    "FieldPlan",
    "FieldPosterior",
    "GeneratorPosterior",
    "HuberLoss",
    "LogisticLoss",
    "Loss",
    "MeanLoss",
    "NetworkShape",
    "NoiseScale",
    "NormalPosterior",
    "PosteriorDraws",
    "PosteriorMethod",
    "QuantileLoss",
    "Records",
    "SandwichPlan",
    "ShippedLoss",
    "TrainingPlan",
    "best_method",
    "calibrate_sigma",
    "comparison_records",
    "delta_upper",
    "epsilon_upper",
    "gamma_star",
    "private_generator",
    "private_posterior",
    "read_columns_csv",
    "release_from_json",
    "release_to_json",
    "simulate",
]

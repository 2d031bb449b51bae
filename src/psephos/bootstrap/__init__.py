"""Private posterior draws: the generative bootstrap with noisy training, its accountants and its rivals.

How to choose: :func:`private_posterior`, whose draws count the noise. Its method ``sandwich``, noisy Newton steps, is
for posteriors that are near normal: one place says all; ``field``, gradients at many places, for any shape, quantiles
above all, and many levels at one budget; ``auto`` chooses. :func:`private_generator` trains a sampler, the source
document's way: its intervals do not hold the error that noise adds, and it takes a loss of your own. :func:`simulate`
is the same for experiments on data that nobody needs to protect. Rivals are in :mod:`psephos.bootstrap.sampling`.
"""

from psephos.bootstrap.accountant import (
    METHODS,
    BlockedTraining,
    LeadingScale,
    Method,
    NoiseScale,
    PaperBound,
    PlainTraining,
    Training,
    calibrate_sigma,
    delta_upper,
    epsilon_upper,
    leading_scale,
)
from psephos.bootstrap.best_method import POSTERIOR_METHODS, PosteriorMethod, best_method
from psephos.bootstrap.blocks import (
    RidgeRegression,
    bayesian_bootstrap,
    blocked_bootstrap,
    dispersion_ratio,
    gamma_star,
    random_partition,
)
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
from psephos.bootstrap.m_estimate import weighted_m_estimate
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
    "METHODS",
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
    "LeadingScale",
    "LogisticLoss",
    "Loss",
    "MeanLoss",
    "Method",
    "NetworkShape",
    "NoiseScale",
    "NormalPosterior",
    "PaperBound",
    "PlainTraining",
    "PosteriorDraws",
    "PosteriorMethod",
    "QuantileLoss",
    "Records",
    "RidgeRegression",
    "SandwichPlan",
    "ShippedLoss",
    "Training",
    "TrainingPlan",
    "bayesian_bootstrap",
    "best_method",
    "blocked_bootstrap",
    "calibrate_sigma",
    "comparison_records",
    "delta_upper",
    "dispersion_ratio",
    "epsilon_upper",
    "gamma_star",
    "leading_scale",
    "private_generator",
    "private_posterior",
    "random_partition",
    "read_columns_csv",
    "release_from_json",
    "release_to_json",
    "simulate",
    "weighted_m_estimate",
]

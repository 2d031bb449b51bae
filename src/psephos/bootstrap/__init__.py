"""Private posterior draws: the generative bootstrap with noisy training, its accountants and its rivals.

How to choose: :func:`private_sandwich`, noisy Newton steps, where the posterior is near normal: one place says all.
:func:`private_score_bootstrap` for any shape of posterior, quantiles above all, and many levels at one budget:
gradients at many places. Both count their own noise. :func:`private_posterior` trains a sampler, the source document's
way: it takes a loss of your own. :func:`train` is the same without a ledger, :func:`simulate` is for experiments on
data that nobody needs to protect. :func:`sample_posterior` gives draws by these or by a rival method, under one
contract.
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
from psephos.bootstrap.posterior import Posterior
from psephos.bootstrap.private_posterior import (
    private_posterior,
    private_sandwich,
    private_score_bootstrap,
    release_from_json,
    release_to_json,
)
from psephos.bootstrap.sampling import SAMPLING_METHODS, GibbsPlan, SamplingMethod, best_method, sample_posterior
from psephos.bootstrap.sandwich import SandwichPlan
from psephos.bootstrap.score_bootstrap import FieldPlan
from psephos.bootstrap.train import TrainingPlan, simulate, train

__all__ = [
    "METHODS",
    "SAMPLING_METHODS",
    "SHIPPED",
    "BlockedTraining",
    "BradleyTerryLoss",
    "CustomLoss",
    "Design",
    "FieldPlan",
    "FieldPosterior",
    "GibbsPlan",
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
    "Posterior",
    "PosteriorDraws",
    "QuantileLoss",
    "Records",
    "RidgeRegression",
    "SamplingMethod",
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
    "private_posterior",
    "private_sandwich",
    "private_score_bootstrap",
    "random_partition",
    "read_columns_csv",
    "release_from_json",
    "release_to_json",
    "sample_posterior",
    "simulate",
    "train",
    "weighted_m_estimate",
]

"""Private posterior draws: the generative bootstrap with noisy training. First, its accountants."""

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

"""The line: bits, exact noise, guarantees, budgets. It has never heard of ballots."""

from psephos.privacy.bits import BitSource, InsecureBits, SystemBits, is_secure
from psephos.privacy.calibrate import gaussian_sigma, laplace_scale
from psephos.privacy.events import (
    ComposedGaussianEvent,
    ComposedLaplaceEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    RoundedGaussianEvent,
    epsilon_of,
)
from psephos.privacy.guarantee import Guarantee, decimal_text
from psephos.privacy.ledger import Debit, Ledger
from psephos.privacy.release import Account, Release
from psephos.privacy.sensitivity import bounded_sum_sensitivity

__all__ = [
    "Account",
    "BitSource",
    "ComposedGaussianEvent",
    "ComposedLaplaceEvent",
    "Debit",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialEvent",
    "Guarantee",
    "InsecureBits",
    "Ledger",
    "Release",
    "RoundedGaussianEvent",
    "SystemBits",
    "bounded_sum_sensitivity",
    "decimal_text",
    "epsilon_of",
    "gaussian_sigma",
    "is_secure",
    "laplace_scale",
]

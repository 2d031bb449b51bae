"""psephos: what a population prefers, without learning what anyone prefers.

Measure once, under a stated privacy budget; then post-process as much as you like, for free. The names
below load on first use, so that importing psephos costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOME = {
    "Account": "psephos.privacy",
    "Ballot": "psephos.profile",
    "Comparisons": "psephos.profile",
    "Ledger": "psephos.privacy",
    "PairwiseEstimate": "psephos.pairwise",
    "Profile": "psephos.profile",
    "Release": "psephos.privacy",
    "debias": "psephos.local.debias",
    "fit_reports": "psephos.local.fit",
    "fit_scores": "psephos.scores",
    "pairwise_margins": "psephos.pairwise",
    "plan_local": "psephos.local.plan",
    "private_consensus": "psephos.central",
    "private_posterior": "psephos.bootstrap",
    "private_scores": "psephos.central",
    "randomise": "psephos.local",
    "rank_intervals": "psephos.scores",
    "read_ballots_csv": "psephos.profile",
    "read_comparisons_csv": "psephos.profile",
    "read_preflib": "psephos.profile",
    "solve": "psephos.kemeny",
}

__all__ = [
    "Account",
    "Ballot",
    "Comparisons",
    "Ledger",
    "PairwiseEstimate",
    "Profile",
    "Release",
    "__version__",
    "debias",
    "fit_reports",
    "fit_scores",
    "pairwise_margins",
    "plan_local",
    "private_consensus",
    "private_posterior",
    "private_scores",
    "randomise",
    "rank_intervals",
    "read_ballots_csv",
    "read_comparisons_csv",
    "read_preflib",
    "solve",
]

if TYPE_CHECKING:
    from psephos.bootstrap import private_posterior
    from psephos.central import private_consensus, private_scores
    from psephos.kemeny import solve
    from psephos.local import randomise
    from psephos.local.debias import debias
    from psephos.local.fit import fit_reports
    from psephos.local.plan import plan_local
    from psephos.pairwise import PairwiseEstimate, pairwise_margins
    from psephos.privacy import Account, Ledger, Release
    from psephos.profile import (
        Ballot,
        Comparisons,
        Profile,
        read_ballots_csv,
        read_comparisons_csv,
        read_preflib,
    )
    from psephos.scores import fit_scores, rank_intervals


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'psephos' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""How often each item beats each other: exact margins, and the pairwise estimate."""

from psephos.pairwise.estimate import NoiseLaw, PairwiseEstimate, PartedNoise
from psephos.pairwise.kernel import MAX_INT64_PEOPLE, Unranked, margins_from_places, margins_plain
from psephos.pairwise.margins import pair_counts, pairwise_margins

__all__ = [
    "MAX_INT64_PEOPLE",
    "NoiseLaw",
    "PairwiseEstimate",
    "PartedNoise",
    "Unranked",
    "margins_from_places",
    "margins_plain",
    "pair_counts",
    "pairwise_margins",
]

"""How often each item beats each other: exact margins, and the pairwise estimate."""

from psephos.pairwise.estimate import NoiseLaw, PairNoise, PairwiseEstimate, PartedNoise
from psephos.pairwise.kernel import MAX_INT64_PEOPLE, Unranked, margins_from_places, margins_plain
from psephos.pairwise.margins import CountedPairs, counted_pairs, pair_counts, pairwise_margins, said_counts

__all__ = [
    "MAX_INT64_PEOPLE",
    "CountedPairs",
    "NoiseLaw",
    "PairNoise",
    "PairwiseEstimate",
    "PartedNoise",
    "Unranked",
    "counted_pairs",
    "margins_from_places",
    "margins_plain",
    "pair_counts",
    "pairwise_margins",
    "said_counts",
]

"""What a docstring must say first: whether a result is private."""

from __future__ import annotations

import inspect

import pytest

import psephos
from psephos import bootstrap, kemeny, pairwise, scores

EXACT = [
    psephos.solve,
    psephos.pairwise_margins,
    psephos.fit_scores,
    psephos.rank_intervals,
    psephos.Profile,
    psephos.Comparisons,
    psephos.PairwiseEstimate.from_data,
    pairwise.pair_counts,
    pairwise.counted_pairs,
    kemeny.kemeny_cost,
    scores.fit_wins,
    scores.rank_intervals_from_errors,
    bootstrap.weighted_m_estimate,
    bootstrap.bayesian_bootstrap,
    bootstrap.blocked_bootstrap,
    bootstrap.simulate,
]


@pytest.mark.parametrize("public", EXACT, ids=lambda public: public.__qualname__)
def test_results_without_noise_say_in_the_first_lines_that_they_are_not_private(public):
    first = "\n".join((inspect.getdoc(public) or "").splitlines()[:4])
    assert "Not private" in first, first

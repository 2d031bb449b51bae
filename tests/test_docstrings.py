"""What a docstring must say first: whether a result is private."""

from __future__ import annotations

import inspect
from pathlib import Path

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


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("docs/proofs/central_worst_case.md", ("Alabi", "Hillebrand")),
        ("src/psephos/central/footrule.py", ("Hillebrand",)),
        ("src/psephos/central/two_stage.py", ("Hillebrand",)),
        ("src/psephos/central/kwiksort.py", ("Alabi",)),
        ("src/psephos/central/win_vector.py", ("Cai",)),
        ("experiments/edge_dp_ranking/run.py", ("Cai",)),
    ],
)
def test_results_of_others_bear_their_names(file, names):
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    assert all(name in text for name in names)

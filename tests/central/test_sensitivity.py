"""Sensitivity of the integers that are noised, by brute force over all neighbours (m = 3, 4)."""

from fractions import Fraction

import numpy as np
import pytest

from enumeration import all_ballots
from psephos import Ballot, Comparisons, Profile, pairwise_margins, private_consensus
from psephos.central import laplace as laplace_module
from psephos.central import margin_sensitivity
from psephos.privacy import InsecureBits


def upper(profile, unranked):
    margins = pairwise_margins(profile, unranked=unranked)
    return margins[np.triu_indices(profile.m, 1)]


@pytest.mark.parametrize("m", [3, 4])
@pytest.mark.parametrize("kind", ["strict", "tied", "truncated"])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_ballots_move_the_margins_by_at_most_the_sensitivity(m, kind, unranked):
    names = list("abcd"[:m])
    others = {Ballot.strict(range(m)): 3, Ballot(): 2}
    rows = []
    for ballot in all_ballots(m, kind):
        people = dict(others)
        people[ballot] = people.get(ballot, 0) + 1
        rows.append(upper(Profile.from_ballots(names, people), unranked))
    table = np.array(rows)
    assert (
        len(table)
        == {
            ("strict", 3): 6,
            ("strict", 4): 24,
            ("tied", 3): 13,
            ("tied", 4): 75,
            ("truncated", 3): 26,
            ("truncated", 4): 150,
        }[kind, m]
    )
    difference = np.abs(table[:, None, :] - table[None, :, :])
    bound = margin_sensitivity(m, "person")
    pairs = m * (m - 1) // 2
    assert difference.sum(-1).max() == bound.l1 == 2 * pairs  # attained: no smaller bound holds
    assert (difference**2).sum(-1).max() == bound.l2_squared == 4 * pairs
    assert difference.max() == 2


def test_comparisons_move_the_margins_by_at_most_the_sensitivity():
    m = 3
    answers = [(u, v, y) for u in range(m) for v in range(m) if u != v for y in (-1, 0, 1)]
    rows = []
    for u, v, y in answers:
        table = pairwise_margins(Comparisons.from_columns(list("abc"), [0, 1, u], [1, 2, v], [1, 1, y]))
        rows.append(table[np.triu_indices(m, 1)])
    difference = np.abs(np.array(rows)[:, None, :] - np.array(rows)[None, :, :])
    bound = margin_sensitivity(m, "comparison")
    assert difference.sum(-1).max() == bound.l1 == 2
    assert (difference**2).sum(-1).max() == bound.l2_squared == 4


@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_what_is_noised_is_the_margins(monkeypatch, unranked):
    """With the noise replaced by zeros the released table is the table whose sensitivity is bounded above."""
    monkeypatch.setattr(laplace_module, "discrete_laplace_array", lambda _s, n, _b: np.zeros(n, dtype=np.int64))
    profile = Profile.from_rankings({("a", ("b", "c")): 3, ("d",): 2, ("b", "a"): 1}, items=list("abcd"))
    release = private_consensus(profile, epsilon=1, mechanism="laplace", unranked=unranked, bits=InsecureBits(seed=1))
    assert release.value.estimate.margins.tolist() == pairwise_margins(profile, unranked=unranked).tolist()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_event_states_the_sensitivity_and_the_scale_that_was_used(mechanism, monkeypatch):
    from psephos.central import gaussian as gaussian_module

    scales = []

    def spy(real):
        return lambda scale, n, bits: scales.append(scale) or real(scale, n, bits)

    monkeypatch.setattr(laplace_module, "discrete_laplace_array", spy(laplace_module.discrete_laplace_array))
    monkeypatch.setattr(gaussian_module, "rounded_gaussian_array", spy(gaussian_module.rounded_gaussian_array))
    profile = Profile.from_rankings({("a", "b", "c"): 3}, items=list("abc"))
    release = private_consensus(profile, epsilon="0.5", delta="1e-6", mechanism=mechanism, bits=InsecureBits(seed=1))
    event = release.event
    if mechanism == "laplace":
        assert (event.sensitivity, event.scale) == (6, Fraction(12))
        assert scales == [Fraction(12)]
    else:
        assert event.sensitivity_squared == 12
        assert scales == [event.sigma]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_n1_a_tie_leaves_no_trace_in_the_grid(mechanism):
    """All-strict people, and the same with one tie: both releases live on all integers, odd and even alike."""
    strict = Profile.from_rankings({("a", "b", "c"): 4}, items=list("abc"))
    tied = Profile.from_rankings({("a", "b", "c"): 3, ("a", ("b", "c")): 1}, items=list("abc"))
    assert {int(x) % 2 for x in upper(strict, "last")} == {0}  # before noise the parity tells them apart
    assert {int(x) % 2 for x in upper(tied, "last")} == {0, 1}
    grids = []
    bits = InsecureBits(seed=5)
    for profile in (strict, tied):
        residues = [set() for _ in range(3)]
        for _ in range(60):
            release = private_consensus(profile, epsilon=2, delta="1e-3", mechanism=mechanism, bits=bits)
            table = release.value.estimate.margins
            assert table.dtype == np.int64
            for seen, x in zip(residues, table[np.triu_indices(3, 1)].tolist(), strict=True):
                seen.add(x % 4)
        grids.append(residues)
    assert grids[0] == grids[1] == [{0, 1, 2, 3}] * 3

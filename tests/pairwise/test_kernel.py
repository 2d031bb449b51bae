"""Exact margins: the fast paths equal the definition, past 2**63 and far beyond."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos import Ballot, Comparisons, Profile, pairwise_margins
from psephos.errors import ParameterError
from psephos.pairwise import margins_from_places, margins_plain, pair_counts


@st.composite
def tables(draw):
    """(places, counts): any weak orders with gaps, ties and unranked items, multiplicities of any size."""
    m = draw(st.integers(1, 6))
    ballots = draw(st.integers(1, 12))
    kind = draw(st.sampled_from(["strict", "weak"]))
    if kind == "strict":
        columns = [draw(st.permutations(range(1, m + 1))) for _ in range(ballots)]
    else:
        columns = [draw(st.lists(st.integers(0, m), min_size=m, max_size=m)) for _ in range(ballots)]
    big = st.integers(1, 10**40)
    counts = draw(
        st.none()
        | st.lists(st.just(1), min_size=ballots, max_size=ballots)
        | st.lists(st.integers(1, 50) | big | st.integers(2**61 - 2, 2**64), min_size=ballots, max_size=ballots)
    )
    return np.array(columns, dtype=np.uint8).T.copy(), counts


@settings(max_examples=400, deadline=None)
@given(tables(), st.sampled_from(["last", "missing"]))
def test_fast_paths_equal_the_definition(table, unranked):
    places, counts = table
    fast = margins_from_places(places, counts, unranked=unranked)
    assert fast.tolist() == margins_plain(places, counts, unranked=unranked).tolist()
    assert (fast == -fast.T).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_more_ballots_than_one_block(weighted, unranked):
    """Blocks join without a seam: 70,001 columns against a sum over parts of 1,000."""
    rng = np.random.default_rng(1)
    places = rng.integers(0, 6, size=(5, 70_001)).astype(np.uint8)
    counts = [int(x) for x in rng.integers(1, 2**40, size=70_001)] if weighted else None
    whole = margins_from_places(places, counts, unranked=unranked)
    parts = sum(
        margins_from_places(
            places[:, i : i + 1000], None if counts is None else counts[i : i + 1000], unranked=unranked
        ).astype(object)
        for i in range(0, 70_001, 1000)
    )
    assert whole.tolist() == parts.tolist()
    assert margins_from_places(places[:, :50], None, unranked=unranked).tolist() == (
        margins_plain(places[:, :50], None, unranked=unranked).tolist()
    )


@pytest.mark.parametrize("m", [64, 65, 254, 255, 300])
def test_many_items(m):
    rng = np.random.default_rng(2)
    orders = [rng.permutation(m) for _ in range(3)]
    profile = Profile.from_ballots([f"i{k}" for k in range(m)], [Ballot.strict(order.tolist()) for order in orders])
    margins = pairwise_margins(profile)
    place = [np.argsort(order) for order in orders]
    for u, v in ((0, 1), (3, m - 1), (m - 2, m - 1)):
        assert margins[u, v] == sum(1 if p[u] < p[v] else -1 for p in place)


def test_one_astronomical_profile():
    n = 10**30
    profile = Profile.from_ballots(["a", "b", "c"], {Ballot.strict([0, 1, 2]): n + 1, Ballot.strict([2, 1, 0]): n})
    margins = pairwise_margins(profile)
    assert margins.dtype == object
    assert margins.tolist() == [[0, 1, 1], [-1, 0, 1], [-1, -1, 0]]


@pytest.mark.parametrize("count", [2**53 + 1, 2**61, 2**61 + 1, 2**63 - 1, 2**63, 10**20, 10**100])
def test_f5_n2_counts_are_exact_at_every_limit(count):
    profile = Profile.from_ballots(["a", "b"], {Ballot.strict([0, 1]): count})
    assert pairwise_margins(profile).tolist() == [[0, count], [-count, 0]]
    assert pairwise_margins(profile).dtype == (np.int64 if count <= 2**61 else object)


def test_ties_and_unranked_items():
    profile = Profile.from_rankings({("a", ("b", "c")): 3, ("d",): 2, (): 4}, items=list("abcd"))
    last = pairwise_margins(profile)
    missing = pairwise_margins(profile, unranked="missing")
    assert last[0].tolist() == [0, 3, 3, 1]  # a over d: 3 by the first, 2 against by the second
    assert last[1].tolist() == [-3, 0, 0, 1]
    assert missing[0].tolist() == [0, 3, 3, 0]
    assert pair_counts(profile)[0].tolist() == [0, 9, 9, 9]
    assert pair_counts(profile, unranked="missing")[0].tolist() == [0, 3, 3, 0]
    with pytest.raises(ParameterError, match="unranked"):
        pairwise_margins(profile, unranked="first")


def test_comparisons():
    table = Comparisons.from_columns(list("abc"), [0, 1, 0, 2], [1, 0, 1, 0], [1, -1, 0, 1])
    assert pairwise_margins(table).tolist() == [[0, 2, -1], [-2, 0, 0], [1, 0, 0]]
    assert pair_counts(table).tolist() == [[0, 3, 1], [3, 0, 0], [1, 0, 0]]


def test_weighted_comparisons_are_exact():
    from fractions import Fraction

    table = Comparisons.from_columns(list("ab"), [0, 0], [1, 1], [1, -1], weight=[Fraction(1, 3), 10**30])
    assert pairwise_margins(table)[0, 1] == Fraction(1, 3) - 10**30
    whole = Comparisons.from_columns(list("ab"), [0, 0], [1, 1], [1, -1], weight=[5, 2])
    assert pairwise_margins(whole).tolist() == [[0, 3], [-3, 0]]


def test_margins_of_something_else():
    with pytest.raises(ParameterError, match="Profile or Comparisons"):
        pairwise_margins([[1, 2]])

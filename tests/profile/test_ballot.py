"""One ballot: R1 says that nothing malformed may get this far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError, ParameterError
from psephos.profile import Ballot


@pytest.mark.parametrize("groups", [((0,), (0,)), ((0, 0),), ((0, 1), (1,)), ((0,), (1,), (2, 0))])
def test_r1_an_item_occurs_once(groups):
    with pytest.raises(DataError, match="occurs twice"):
        Ballot(groups)


@pytest.mark.parametrize("groups", [((),), ((0,), ()), ((), (1,))])
def test_a_group_is_not_empty(groups):
    with pytest.raises(DataError, match="empty group"):
        Ballot(groups)


@pytest.mark.parametrize("item", [-1, True, 1.0, "1", None, np.float64(1)])
def test_an_item_is_a_whole_number_from_zero(item):
    with pytest.raises(ParameterError, match="item position must be a whole number >= 0"):
        Ballot(((item,),))


def test_groups_are_plain_sorted_and_hashable():
    ballot = Ballot([[np.int64(2), 1], {0}])
    assert ballot == Ballot(((1, 2), (0,)))
    assert hash(ballot) == hash(Ballot(((2, 1), (0,))))
    assert type(ballot.groups[0][0]) is int
    assert (ballot.is_strict, ballot.ranked) == (False, 3)
    assert (Ballot().is_strict, Ballot().ranked) == (True, 0)
    assert Ballot.strict(iter([3, 0])) == Ballot(((3,), (0,)))


@pytest.mark.parametrize(
    ("places", "groups"),
    [([], ()), ([0, 0], ()), ([7, 7, 9], ((0, 1), (2,))), ([2, 0, 1, 2], ((2,), (0, 3))), ([2**70, 1], ((1,), (0,)))],
)
def test_places_need_not_be_dense(places, groups):
    assert Ballot.from_places(places) == Ballot(groups)


@pytest.mark.parametrize("place", [-1, 1.0, float("nan"), None, True, "1"])
def test_a_place_is_a_whole_number_and_the_item_is_named(place):
    with pytest.raises(ParameterError, match="place of item position 1 must be a whole number >= 0"):
        Ballot.from_places([1, place])


def test_places_of_more_items_than_there_are():
    assert Ballot.strict([1]).places(2) == [0, 1]
    with pytest.raises(DataError, match="item position 1 is not below the number of items, 1"):
        Ballot.strict([1]).places(1)


@given(st.lists(st.integers(0, 5), max_size=8))
@settings(deadline=None, derandomize=True)
def test_places_and_back(places):
    ballot = Ballot.from_places(places)
    dense = ballot.places(len(places))
    assert Ballot.from_places(dense) == ballot
    assert sorted(set(dense) - {0}) == list(range(1, len(ballot.groups) + 1))
    for u, a in enumerate(places):
        assert (dense[u] == 0) == (a == 0)
        for v, b in enumerate(places):
            if a and b:
                assert (a < b) == (dense[u] < dense[v])

"""Names: kept as written, compared after folding."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError, DataWarning
from psephos.profile.names import ItemIndex, check_items, fold


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Ana B", "Ana   B"),
        ("Ana B", " Ana\tB\n"),
        ("Ana B", "Ana\u00a0B"),
        ("caf\u00e9", "cafe\u0301"),
        ("\u1e9b\u0323", "\u017f\u0323\u0307"),
        ("\ud55c", "\u1112\u1161\u11ab"),
        ("\u212b", "\u00c5"),
    ],
)
def test_f19_spellings_of_one_name_fold_together(one, two):
    assert fold(one) == fold(two)
    assert one != two


@pytest.mark.parametrize(
    ("one", "two"), [("A", "a"), ("AnaB", "Ana B"), ("e", "\u00e9"), ("\uff11", "1"), ("\ufb01", "fi")]
)
def test_f19_other_names_stay_apart(one, two):
    assert fold(one) != fold(two)


@given(st.text(max_size=12))
@settings(deadline=None, derandomize=True)
def test_folding_twice_changes_nothing(name):
    assert fold(fold(name)) == fold(name)


@pytest.mark.parametrize("name", ["", " ", "\t\n", "\u00a0", None, 3, b"a", True])
def test_a_name_is_text_that_is_not_blank(name):
    with pytest.raises(DataError, match="the name of item 2 must be text that is not blank") as caught:
        check_items(["a", name], source="f.soc")
    assert repr(name) in str(caught.value)
    assert caught.value.source == "f.soc"


def test_f20_equal_names_name_both_positions():
    with pytest.raises(DataError, match="items 2 and 4 have the same name 'b'"):
        check_items(iter(["a", "b", "c", "b"]))


@pytest.mark.parametrize(
    ("one", "two"), [("A", "a"), ("Ana  B", "Ana B"), ("caf\u00e9", "cafe\u0301"), ("\u00df", "SS")]
)
def test_f19_f20_near_duplicates_warn_and_stay_two_items(one, two):
    with pytest.warns(DataWarning, match="differ only by case, white space or composition") as caught:
        assert check_items([one, "other", two]) == (one, "other", two)
    assert repr(one) in str(caught[0].message)
    assert repr(two) in str(caught[0].message)


def test_names_are_kept_as_written():
    names = (" padded ", "x" * 10_000, "=1+1", "\u202eabc", "\U0001f363")
    assert check_items(names) == names


def test_a_closed_index_finds_exactly_first_and_folded_next():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        index = ItemIndex(check_items(["caf\u00e9", "Ana  B", "Ana B", "tea"]))
    assert [index.find(name) for name in ("Ana  B", "Ana B", "caf\u00e9", "tea")] == [1, 2, 0, 3]
    assert index.respelled == set()
    assert index.find("cafe\u0301") == 0
    assert index.respelled == {"cafe\u0301"}
    assert index.find("Ana   B") is None  # two items fold to it: no guess
    assert index.find("Tea") is None
    assert index.find("") is None
    assert index.find(" tea ") == 3
    assert index.respelled == {"cafe\u0301"}


def test_an_open_index_takes_names_in_order_and_joins_spellings():
    index = ItemIndex(None)
    assert [index.find(name) for name in ("tea", " coffee ", "tea", "caf\u00e9", "cafe\u0301", "Tea")] == [
        0,
        1,
        0,
        2,
        2,
        3,
    ]
    assert index.names == ["tea", "coffee", "caf\u00e9", "Tea"]
    assert index.respelled == {"cafe\u0301"}
    assert (index.closed, ItemIndex([]).closed) == (False, True)

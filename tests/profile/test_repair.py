"""Parsing one order, and the cleaning policies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError, ParameterError
from psephos.profile.repair import (
    OrderFault,
    Repairs,
    check_clean,
    parse_count,
    parse_order,
    places_of,
    without_repeats,
)


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("000", 0), ("1", 1), (" 12\t", 12), ("0012", 12), ("9007199254740993", 2**53 + 1)]
)
def test_counts(text, count):
    assert parse_count(text) == count


def test_f5_the_longest_count():
    assert parse_count("9" * 4000) == 10**4000 - 1
    with pytest.raises(OrderFault, match="at most 4000 digits, got 4001"):
        parse_count("1" + "0" * 4000)


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "-0", "+1", "1.0", "1e2", "1,0", "1 0", "\uff11", "\u0661", "\u00b2", "\0", "1\0"],
)
def test_f3_f7_what_is_no_count(text):
    with pytest.raises(OrderFault, match="count must be a whole number >= 1"):
        parse_count(text)


@given(st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=3), max_size=6), st.sampled_from(["", " ", "\t "]))
@settings(deadline=None, derandomize=True)
def test_an_order_written_is_an_order_read(groups, blank):
    def item(i):
        return f"{blank}{i + 1}{blank}"

    text = ",".join(
        item(group[0]) if len(group) == 1 else blank + "{" + ",".join(map(item, group)) + "}" + blank
        for group in groups
    )
    assert parse_order(text, 9) == groups


@pytest.mark.parametrize(
    "text",
    ["{1,2", "1}", "{{1}}", "{}", "{1}2", "1{2}", "{1 2}", "{1,}", "{,1}", "1,,2", ",", "1,", "{1},", "0", "4", "x"],
)
def test_f14_what_is_no_order(text):
    with pytest.raises(OrderFault):
        parse_order(text, 3)


@given(st.text("123{}, \tx\u00e9", max_size=20))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_an_order_is_read_or_is_a_fault(text):
    try:
        groups = parse_order(text, 3)
    except OrderFault:
        return
    assert all(group and all(0 <= item < 3 for item in group) for group in groups)
    assert text.count("{") == text.count("}")


def test_dense_places():
    assert places_of([[2], [0, 1]], 4) == [2, 2, 1, 0]
    assert places_of([], 2) == [0, 0]
    assert without_repeats([[0, 0], [0], [1]]) == [[0], [1]]
    assert places_of(without_repeats([[0, 0], [0], [1]]), 2) == [1, 2]
    with pytest.raises(OrderFault, match="item 2 occurs twice"):
        places_of([[1], [1]], 2)


@pytest.mark.parametrize("clean", ["drop", "", "REJECT", None, 1])
def test_a_policy_has_a_name(clean):
    with pytest.raises(ParameterError, match="clean must be one of reject, keep-first, empty"):
        check_clean(clean)
    with pytest.raises(ParameterError, match="clean"):
        Repairs(clean, "f")


def broken():
    raise OrderFault("why")


def test_reject_names_file_line_and_rule():
    for parse, rule in ((lambda: [[0], [0]], "item 1 occurs twice in one ballot"), (broken, "why")):
        repairs = Repairs("reject", "f.soc")
        assert repairs.places(parse, 2, 5, 7) == [0, 0]
        with pytest.raises(DataError, match=rf"^f\.soc:7: {rule}$") as caught:
            repairs.finish()
        assert (caught.value.source, caught.value.line, caught.value.rule) == ("f.soc", 7, rule)


def test_a_reading_that_ends_in_an_error_tells_what_was_found_before():
    def read():
        repairs = Repairs("reject", "f.soc")
        with repairs.faults.told_at_once():
            repairs.count("x", 3)
            repairs.places(lambda: [[0], [0]], 2, 5, 2)
            raise DataError("broken", source="f.soc", line=9)

    with pytest.raises(DataError) as caught:
        read()
    assert [line for line, _ in caught.value.faults] == [2, 3, 9]
    assert str(caught.value).endswith("f.soc: faulty ballots of 5 people")


def test_repairs_are_counted_in_people():
    repairs = Repairs("keep-first", "f.soc")
    assert repairs.places(lambda: [[1], [1], [0]], 2, 10**20, 1) == [2, 1]
    assert repairs.places(broken, 2, 1, 2) == [0, 0]
    assert repairs.places(lambda: [[1]], 2, 50, 3) == [0, 1]
    assert repairs.finish() == (
        "f.soc: kept the first place of repeated items on the ballots of 100000000000000000000 people",
        "f.soc: voided the faulty ballots (now empty) of 1 person",
        "f.soc:2: why",
    )
    empty = Repairs("empty", "f.soc", allow_void=True)
    assert empty.places(lambda: [[1], [1], [0]], 2, 3, 1) == [0, 0]
    assert empty.finish() == (
        "f.soc: voided the faulty ballots (now empty) of 3 people",
        "f.soc:1: item 2 occurs twice in one ballot",
    )
    assert Repairs("empty", "f.soc").finish() == ()


@pytest.mark.parametrize("clean", ["keep-first", "empty"])
def test_more_than_half_void_is_an_error_unless_allowed(clean):
    """Read by wrong rules, a file may come out as nobody's opinion, at the price of a budget."""
    for void, well, allowed in ((3, 3, True), (4, 3, False), (1, 0, False), (10**20, 10**20 - 1, False)):
        for insists in (False, True):
            repairs = Repairs(clean, "f.soc", allow_void=insists)
            repairs.places(broken, 2, void, 1)
            if well:
                repairs.places(lambda: [[0]], 2, well, 2)
            if allowed or insists:
                repairs.finish()
                continue
            with pytest.raises(DataError, match="--allow-void insists") as caught:
                repairs.finish()
            assert f"{void} of {void + well} ballots would be void, more than 1/2" in str(caught.value)
            assert "f.soc:1: why" in str(caught.value)

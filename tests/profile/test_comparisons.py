"""Tables of comparisons: every column is checked, and the record is named."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from psephos.errors import DataError, ParameterError
from psephos.pairwise import pairwise_margins
from psephos.profile import Comparisons, read_comparisons_csv
from psephos.profile.comparisons import parse_weight
from psephos.profile.repair import OrderFault

NAN, INF = float("nan"), float("inf")


def table(left=(0, 1, 0), right=(1, 2, 2), outcome=(1, -1, 0), **columns):
    return Comparisons.from_columns(["a", "b", "c"], left, right, outcome, **columns)


def test_a_right_table():
    duels = table(weight=[1, Fraction(1, 3), 2], person=[1, 0, 1], persons=("p", "q"))
    assert (duels.m, duels.records, duels.items_source) == (3, 3, "declared")
    assert duels.weight == (1, Fraction(1, 3), 2)
    assert pairwise_margins(duels)[0].tolist() == [0, 1, 0]
    assert pairwise_margins(duels)[2].tolist() == [0, Fraction(1, 3), 0]
    assert duels.with_items_public() is duels


def test_weights_may_be_an_array_of_integers():
    assert table(weight=np.array([1, 2, 3])).weight == (1, 2, 3)


def test_columns_may_be_arrays_of_any_integer_type():
    duels = table(np.array([0, 1, 0], np.uint8), np.array([1, 2, 2], np.int16), np.array([1, -1, 0], np.int8))
    assert pairwise_margins(duels).tolist() == [[0, 1, 0], [-1, 0, -1], [0, 1, 0]]


@pytest.mark.parametrize("item", [-1, 3, 2**62, -(2**62)])
@pytest.mark.parametrize("column", ["left", "right"])
@pytest.mark.parametrize("record", [1, 3])
def test_m6_an_item_out_of_range_is_named_by_record(item, column, record):
    values = [2, 2, 2] if column == "left" else [0, 0, 0]
    values[record - 1] = item
    other = {"left": "right", "right": "left"}[column]
    with pytest.raises(DataError, match=rf"^record:{record}: an item must be 0 to 2.*{item}"):
        table(**{column: values, other: [1, 1, 1]})


def test_m6_an_item_beyond_int64_does_not_wrap():
    with pytest.raises(ParameterError, match="below 2"):
        table(left=np.array([2**64 - 1, 0, 0], np.uint64))
    with pytest.raises((DataError, ParameterError)):
        table(left=[2**64, 0, 0])


def test_an_item_against_itself_is_named_by_record():
    with pytest.raises(DataError, match=r"^record:2: an item is compared with itself"):
        table(right=(1, 1, 2))


@pytest.mark.parametrize("outcome", [2, -2, 10**9, 257, 255])
def test_an_outcome_out_of_range_is_named_by_record(outcome):
    with pytest.raises(DataError, match=r"^record:3: an outcome must be 1"):
        table(outcome=(1, -1, outcome))


@pytest.mark.parametrize("weight", [-1, Fraction(-1, 10**30), NAN, INF, -INF, 0.5, "1", None, True, Decimal("NaN")])
def test_m7_a_faulty_weight_is_named_by_record(weight):
    with pytest.raises(DataError, match=r"^weight:2: a weight must be an exact number >= 0, got") as caught:
        table(weight=[1, weight, 1])
    assert repr(weight) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("weight", [[1, 1], [1, 1, 1, 1], []])
def test_m7_one_weight_a_record(weight):
    with pytest.raises(ParameterError, match=rf"weight must have one entry a record \(3\), got {len(weight)}"):
        table(weight=weight)


@pytest.mark.parametrize("column", ["right", "outcome", "person"])
def test_one_entry_a_record(column):
    with pytest.raises(ParameterError, match=rf"{column} must have one entry a record \(3\), got 2"):
        table(**{column: (0, 1)})


def test_m7_all_weights_zero_is_nothing_to_rank():
    with pytest.raises(DataError, match="nothing to rank"):
        table(weight=[0, 0, 0])


@pytest.mark.parametrize("column", ["left", "right", "outcome", "person"])
@pytest.mark.parametrize(
    "values", [[0.0, 1.0, 0.0], [NAN, 1, 1], ["0", "1", "0"], [True, False, True], [[0, 1, 0]], [None] * 3]
)
def test_a_column_holds_whole_numbers(column, values):
    with pytest.raises(ParameterError, match=f"{column} must be a one-dimensional column of whole numbers"):
        table(**{column: values})


@pytest.mark.parametrize("person", [-1, 2])
def test_a_person_out_of_range_is_named_by_record(person):
    with pytest.raises(DataError, match=r"^record:2: a person must be a position in persons"):
        table(person=[0, person, 1], persons=("p", "q"))


def test_persons_without_names_are_numbered():
    assert table(person=[0, 2, 0]).persons == ("0", "1", "2")
    with pytest.raises(DataError, match="record:1"):
        table(person=[-1, 0, 0])


def test_f20_items_are_different():
    with pytest.raises(DataError, match="same name 'a'"):
        Comparisons.from_columns(["a", "a"], [0], [1], [1])


def test_no_records_are_a_table_without_opinion():
    duels = Comparisons.from_columns(["a", "b"], [], [], [])
    assert duels.records == 0
    assert pairwise_margins(duels).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("0", 0),
        ("-0", 0),
        (" 2.50 ", Fraction(5, 2)),
        ("1/3", Fraction(1, 3)),
        ("1e-3", Fraction(1, 1000)),
        ("+2", 2),
    ],
)
def test_weights_are_read_exactly(text, value):
    assert parse_weight(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "nan",
        "inf",
        "-inf",
        "1/0",
        "1e5000",
        "0x1",
        "1,5",
        "1_0",
        "\uff11",
        "one",
        "1" * 101,
        "1/-3",
        "e5",
    ],
)
def test_what_is_no_weight(text):
    with pytest.raises(OrderFault, match="a weight must be a finite number >= 0"):
        parse_weight(text)


# ------------------------------------------------------------------ R1: no object can break the bound


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": np.array([1000])},
        {"outcome": np.array([100], dtype=np.int8)},
        {"outcome": np.array([np.nan])},
        {"outcome": np.array([2**64 - 1], dtype=np.uint64)},
        {"left": np.array([-1])},
        {"left": np.array([5])},
        {"left": np.array([1])},
        {"left": np.array([0, 0])},
        {"person": np.array([0, 1])},
        {"person": np.array([3]), "persons": ("p",)},
        {"weight": (-1,)},
        {"items": ("a", "a")},
        {"items_source": "public"},
    ],
    ids=repr,
)
def test_r1_a_table_that_breaks_a_rule_cannot_be_made(changes):
    given = {"items": ("a", "b"), "left": np.array([0]), "right": np.array([1]), "outcome": np.array([1])}
    assert Comparisons(**given).records == 1
    with pytest.raises((DataError, ParameterError)):
        Comparisons(**{**given, **changes})


def test_r1_a_table_shares_nothing_with_its_caller():
    left, right, outcome = np.array([0, 0]), np.array([1, 1]), np.array([1, -1], dtype=np.int8)
    duels = Comparisons.from_columns(["a", "b"], left, right, outcome)
    outcome[:] = 127
    left[:] = 9
    assert duels.outcome.tolist() == [1, -1]
    for column in (duels.left, duels.right, duels.outcome):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "NaN", "-1", "1e9999"])
def test_n10_no_weight_that_is_no_finite_number_passes_ingest(tmp_path, value):
    path = tmp_path / "x.csv"
    path.write_text(f"left,right,winner,weight\na,b,left,1\nb,a,left,{value}\n")
    with pytest.raises(DataError, match=r"x.csv:3: a weight must be a finite number >= 0"):
        read_comparisons_csv(path)
    with pytest.raises(DataError, match="weight:1"):
        Comparisons.from_columns(["a", "b"], [0], [1], [1], weight=[float(value)])

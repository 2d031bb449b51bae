"""PrefLib files: what is read, what is refused and with which words. Test names carry the rows of the fault list."""

from __future__ import annotations

import re
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError, DataWarning, ParameterError
from psephos.kemeny import solve
from psephos.pairwise import pairwise_margins
from psephos.profile import Ballot, Profile, read_preflib, write_preflib

ROOT = Path(__file__).parents[2]
TWO = "# NUMBER ALTERNATIVES: 2\n"
THREE = "# NUMBER ALTERNATIVES: 3\n"
AB = Ballot.strict([0, 1])
BA = Ballot.strict([1, 0])


def ballots(profile):
    return dict(profile.ballots())


def texts(values):
    return pytest.mark.parametrize("text", values)


# ------------------------------------------------------------------ files that are right


def test_burlington_has_the_people_and_orders_that_its_header_claims():
    profile = read_preflib(ROOT / "examples" / "burlington2006.toi", strict=True)
    assert (profile.people, profile.support, profile.m) == (9788, 483, 6)
    assert profile.items[:2] == ("Louie The Cowman Beaudin", "Kevin J. Curley")
    assert ballots(profile)[Ballot.strict([2, 3])] == 1095
    assert (profile.data_type, profile.items_source, profile.notes) == ("toi", "declared", ())


def test_sushi_has_the_people_and_orders_that_its_header_claims():
    profile = read_preflib(ROOT / "tests" / "data" / "sushi.soc", strict=True)
    assert (profile.people, profile.support, profile.m, profile.data_type) == (5000, 4926, 10, "soc")
    assert ballots(profile)[Ballot.strict([1, 4, 5, 7, 2, 0, 8, 6, 9, 3])] == 3


@pytest.mark.parametrize(
    ("order", "groups"),
    [
        ("1,2,3", ((0,), (1,), (2,))),
        (" 3 , 1 ", ((2,), (0,))),
        ("2,{1,3}", ((1,), (0, 2))),
        ("{ 1 , 3 } , 2", ((0, 2), (1,))),
        ("{3},{1},{2}", ((2,), (0,), (1,))),
        ("{1,2,3}", ((0, 1, 2),)),
        ("03", ((2,),)),
        ("", ()),
        ("   ", ()),
    ],
)
def test_orders_are_read_best_first(put, order, groups):
    profile = read_preflib(put("x.toi", f"{THREE}4:{order}\n"))
    assert ballots(profile) == {Ballot(groups): 4}


@pytest.mark.parametrize("count", ["7", "007", " 7 ", "7\t"])
def test_a_count_may_have_blanks_and_leading_zeros(put, count):
    assert read_preflib(put("x.soc", f"{TWO}{count}:1,2\n")).people == 7


def test_names_come_from_the_header_and_items_without_a_name_are_numbered(put):
    text = "# NUMBER ALTERNATIVES: 3\n# ALTERNATIVE NAME 3: c\n# ALTERNATIVE NAME 1: a\n1: 2\n"
    profile = read_preflib(put("x.soi", text))
    assert profile.items == ("a", "2", "c")


@pytest.mark.parametrize(
    ("name", "declared", "order", "words"),
    [
        ("x.soc", "", "{1,2}", ["the suffix says soc, and the order on line 2 has a tie"]),
        ("x.SOC", "", "1", ["the suffix says soc, and the order on line 2 lacks an item"]),
        ("x.soi", "toc", "{1,2}", ["the suffix says soi, and the order on line 3 has a tie"]),
        ("x.soi", "toc", "1,2", ["the suffix says soi, and DATA TYPE says toc"]),
        ("x.toi", "soc", "{1,2}", ["DATA TYPE says soc, and the order on line 3 has a tie"]),
        ("x.soc", "soc", "", ["DATA TYPE says soc, and the order on line 3 lacks an item"]),
        ("x", "toc", "2", ["DATA TYPE says toc, and the order on line 3 lacks an item"]),
        ("x.dat", "soi", "{1,2}", ["DATA TYPE says soi, and the order on line 3 has a tie"]),
        ("x.toi", "soc", "1,2", []),
        ("x", "", "{1,2}", []),
        ("x.txt", "TOI", "{1,2}", []),
    ],
)
def test_the_content_decides_over_the_data_type_and_the_suffix(put, name, declared, order, words):
    path = put(name, (f"# DATA TYPE: {declared}\n" if declared else "") + f"{TWO}1: {order}\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        profile = read_preflib(path)
    assert profile.people == 1
    assert profile.data_type == {"{1,2}": "toc", "1,2": "soc"}.get(order, "soi")
    assert [str(w.message) for w in caught] == [f"{name}: {word}; the body decides" for word in words]
    for word in words:
        with pytest.raises(DataError, match=re.escape(word)):
            read_preflib(path, strict=True)
    if not words:
        assert read_preflib(path, strict=True) == profile


@pytest.mark.parametrize("suffix", ["cat", "wmd", "wmg", "pwg"])
def test_kinds_without_orders_are_named(put, refusal, suffix):
    error = refusal(read_preflib, put(f"x.{suffix}", f"{TWO}1: 1,2\n"))
    assert f"kind {suffix} holds no orders; wanted soc, soi, toc, toi" in str(error)


@pytest.mark.parametrize("kind", ["dat", "cat", "soc, soi", ""])
def test_another_data_type_is_refused_by_name(put, refusal, kind):
    error = refusal(read_preflib, put("x.soc", f"# DATA TYPE: {kind}\n{TWO}1: 1,2\n"), line=1)
    assert "soc, soi, toc, toi" in str(error)
    assert repr(kind) in str(error)


def test_more_items_than_a_byte_can_number(put):
    order = ",".join(map(str, range(300, 0, -1)))
    profile = read_preflib(put("x.soc", f"# NUMBER ALTERNATIVES: 300\n2: {order}\n"))
    assert ballots(profile) == {Ballot.strict(range(299, -1, -1)): 2}


def test_a_line_of_a_hundred_thousand_characters_is_read(put):
    m = 20_000
    order = "{" + ",".join(map(str, range(1, m + 1))) + "}"
    profile = read_preflib(put("x.toc", f"# NUMBER ALTERNATIVES: {m}\n3: {order}\n"))
    assert (profile.people, profile.m, int(profile.places.min()), int(profile.places.max())) == (3, m, 1, 1)


# ------------------------------------------------------------------ F1 .. F7: counts and orders


def test_f1_repeated_orders_are_merged_and_noted(put):
    profile = read_preflib(put("x.soc", f"{TWO}3: 1,2\n2: 1,2\n"))
    assert (profile.people, profile.support) == (5, 1)
    assert profile.notes == ("x.soc: 1 repeated order merged",)
    many = read_preflib(put("y.toi", f"{TWO}3: 1,2\n1: {{2,1}}\n2: 1,2\n1: {{1,2}}\n1:{{1}},2\n"))
    assert ballots(many) == {AB: 6, Ballot(((0, 1),)): 2}
    assert many.notes == ("y.toi: 3 repeated orders merged",)
    assert read_preflib(put("z.soc", f"{TWO}3: 1,2\n2: 2,1\n")).notes == ()


REPEATED = ["1,1,2", "1,2,1,2", "{1,1},2", "1,2,2", "1,1,1,1,2"]


@pytest.mark.parametrize("suffix", ["soc", "soi", "toc", "toi"])
@texts(REPEATED)
def test_f2_repeated_items_are_rejected_with_their_line(put, refusal, text, suffix):
    error = refusal(read_preflib, put(f"x.{suffix}", f"{TWO}5: 1,2\n1: {text}\n"), line=3)
    assert "twice" in str(error) or "tie" in str(error)


@pytest.mark.parametrize("suffix", ["soc", "soi", "toc", "toi"])
@texts(REPEATED)
def test_f2_keep_first_keeps_the_best_place(put, text, suffix):
    profile = read_preflib(put(f"x.{suffix}", f"{TWO}4: {text}\n"), clean="keep-first")
    assert ballots(profile) == {AB: 4}
    assert profile.notes == (f"x.{suffix}: kept the first place of repeated items on the ballots of 4 people",)


@pytest.mark.parametrize(
    ("order", "groups"),
    [
        ("{1,2},1,3", ((0, 1), (2,))),
        ("1,{1,2},3", ((0,), (1,), (2,))),
        ("3,{3,3},1", ((2,), (0,))),
        ("2,{1,2},{1,2},3,1", ((1,), (0,), (2,))),
    ],
)
def test_f2_keep_first_inside_ties(put, order, groups):
    assert ballots(read_preflib(put("x.toi", f"{THREE}1: {order}\n"), clean="keep-first")) == {Ballot(groups): 1}


def test_f2_keep_first_in_a_complete_file_keeps_what_stays_incomplete(put):
    with pytest.warns(DataWarning, match="the suffix says soc, and the order on line 2 lacks an item"):
        profile = read_preflib(put("x.soc", f"{THREE}2: 1,1,2\n3: 1,2,3\n"), clean="keep-first")
    assert ballots(profile) == {Ballot.strict([0, 1]): 2, Ballot.strict([0, 1, 2]): 3}


@pytest.mark.filterwarnings("ignore:.*the suffix says:psephos.errors.DataWarning")
@given(
    order=st.one_of(
        st.text(alphabet="123{},  ", max_size=14),
        st.lists(st.sampled_from(["1", "2", "3", "{1,2}", "{2,3}", "{1,1}", "4", "{"]), max_size=5).map(",".join),
    ),
    count=st.integers(1, 10**30),
    suffix=st.sampled_from(["soc", "soi", "toc", "toi"]),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_r1_whatever_is_written_a_person_moves_a_margin_by_at_most_one(tmp_path_factory, order, count, suffix):
    path = tmp_path_factory.getbasetemp() / f"r1.{suffix}"
    path.write_text(f"{THREE}{count}: {order}\n")
    for clean in ("keep-first", "empty"):
        profile = read_preflib(path, clean=clean, allow_void=True)
        assert profile.people == count  # cleaning never drops a person
        assert max(abs(int(w)) for w in pairwise_margins(profile).flat) in {0, count}
    try:
        result = read_preflib(path)
    except DataError as error:
        result = error
    if isinstance(result, DataError):
        assert str(result).startswith(f"r1.{suffix}:2: ")
        assert ballots(read_preflib(path, clean="empty", allow_void=True)) == {Ballot(): count}
    else:
        assert result == read_preflib(path, clean="empty") == read_preflib(path, clean="keep-first")


BAD_COUNTS = [
    "-1", "-0", "+3", "1.5", "1.0", "1e3", "1,000", "1_000", "1 000", "0x3", "nan", "inf", "",
    "\uff13", "\u00b2", "\u0663", "3\u200b", "\0", "'3'", "three",
]  # fmt: skip


@pytest.mark.parametrize("clean", ["reject", "keep-first", "empty"])
@texts(BAD_COUNTS)
def test_f3_f7_a_faulty_count_is_an_error_under_every_policy(put, refusal, text, clean):
    error = refusal(read_preflib, put("x.soc", f"{TWO}4: 2,1\n{text}: 1,2\n"), line=3, clean=clean)
    assert "count must be a whole number" in str(error)
    assert repr(text.strip()) in str(error)


@texts(["3 1,2", "3; 1,2", "3", "1,2", "3\t1,2", "x", "3\uff1a1,2"])
def test_f7_a_line_without_a_colon(put, refusal, text):
    error = refusal(read_preflib, put("x.soc", f"{TWO}4: 2,1\n{text}\n"), line=3)
    assert "count must be a whole number" in str(error)
    assert repr(text) in str(error)


def test_f5_counts_beyond_int64(put):
    profile = read_preflib(put("x.soc", f"{TWO}9223372036854775807: 1,2\n1: 1,2\n"))
    assert profile.counts == (9223372036854775808,)
    profile = read_preflib(put("x.soc", f"{TWO}100000000000000000000: 1,2\n"))
    assert profile.people == 100000000000000000000
    profile = read_preflib(put("x.soc", f"{TWO}9007199254740993: 1,2\n"))
    assert profile.people == 9007199254740993
    assert type(profile.people) is int
    assert pairwise_margins(profile).tolist() == [[0, 9007199254740993], [-9007199254740993, 0]]


@given(st.lists(st.integers(1, 10**60) | st.sampled_from([2**53 + 1, 2**63 - 1, 2**64 + 1]), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_f5_counts_of_any_size_add_exactly(tmp_path_factory, counts):
    path = tmp_path_factory.getbasetemp() / "f5.soc"
    path.write_text(TWO + "".join(f"{n}: {'1,2' if i % 2 else '2,1'}\n" for i, n in enumerate(counts)))
    profile = read_preflib(path)
    assert profile.people == sum(counts)
    assert int(pairwise_margins(profile)[1, 0]) == sum(counts[::2]) - sum(counts[1::2])


def test_f5_the_limit_on_digits_is_named(put, refusal):
    digits = "9" * 4000
    profile = read_preflib(put("x.soc", f"# NUMBER VOTERS: {digits}\n{TWO}{digits}: 1,2\n"))
    assert profile.people == 10**4000 - 1
    assert "4000 digits" in str(refusal(read_preflib, put("x.soc", f"{TWO}9{digits}: 1,2\n"), line=2))


@pytest.mark.parametrize("people", [10**12, 10**30])
def test_f6_a_huge_count_needs_no_memory(put, people):
    path = put("x.soc", f"{TWO}{people}: 1,2\n")
    tracemalloc.start()
    try:
        margins = pairwise_margins(read_preflib(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert int(margins[0, 1]) == people
    assert peak < 1_000_000


def test_a_long_file_is_read_as_a_stream(put):
    lines = [f"1: {order}{' ' * 200}\n" for order in ("1,2", "2,1", "{1,2}", "2")]
    path = put("x.toi", TWO + "".join(lines) * 10_000)
    assert path.stat().st_size > 8_000_000
    tracemalloc.start()
    try:
        profile = read_preflib(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (profile.people, profile.support) == (40_000, 4)
    assert peak < 500_000  # 12 bytes a line would be too much


# ------------------------------------------------------------------ lines of nobody, faults told at once


NETFLIX = """# FILE NAME: 00004-00000145.soc
# TITLE: Netflix Prize Data
# DATA TYPE: soc
# NUMBER ALTERNATIVES: 3
# NUMBER VOTERS: 1256
# NUMBER UNIQUE ORDERS: 6
# ALTERNATIVE NAME 1: Ghost
# ALTERNATIVE NAME 2: The Wedding Planner
# ALTERNATIVE NAME 3: Entrapment
602: 1,2,3
411: 1,3,2
152: 3,1,2
91: 2,1,3
0: 2,3,1
0: 3,2,1
"""
OLD_NETFLIX = """3
1,Ghost
2,The Wedding Planner
3,Entrapment
1256,1256,4
602,1,2,3
411,1,3,2
152,3,1,2
91,2,1,3
00,2,3,1
0,x
"""


@texts([NETFLIX, OLD_NETFLIX])
@pytest.mark.parametrize("name", ["x.soc", "x", "x.txt", "x.dat"])
def test_lines_with_count_0_are_left_out_with_a_note(put, text, name):
    profile = read_preflib(put(name, text), strict=True)
    assert (profile.people, profile.support) == (1256, 4)
    assert profile.items == ("Ghost", "The Wedding Planner", "Entrapment")
    assert int(pairwise_margins(profile)[1, 2]) == 602 + 91 - 411 - 152
    assert profile.notes == (f"{name}: 2 lines with count 0 left out",)


@texts([f"{TWO}0: 1,2\n00: 2,1\n", "2\n1,A\n2,B\n0,0,2\n0,1,2\n0,2,1\n"])
@pytest.mark.parametrize("clean", ["reject", "empty"])
def test_a_file_of_lines_with_count_0_alone_holds_no_ballots(put, refusal, text, clean):
    error = refusal(read_preflib, put("x.soc", text), clean=clean)
    assert "no ballots: every count is 0" in str(error)


@texts(
    [
        f"{THREE}# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n# ALTERNATIVE NAME 6: f\n4: 6,1\n1: {{2,6}}\n",
        "# ALTERNATIVE NAME 6: f\n# ALTERNATIVE NAME 2: b\n# ALTERNATIVE NAME 1: a\n4: 6,1\n1: {2,6}\n",
        "3\n1,a\n2,b\n6,f\n5,5,2\n4,6,1\n1,{2,6}\n",
    ]
)
def test_as_many_names_as_alternatives_are_the_items_whatever_their_numbers(put, refusal, text):
    profile = read_preflib(put("x", text), strict=True)
    assert profile.items == ("a", "b", "f")
    assert ballots(profile) == {Ballot.strict([2, 0]): 4, Ballot(((1, 2),)): 1}
    colon = ": " if text.startswith("#") else ","
    error = refusal(read_preflib, put("y.toi", f"{text}1{colon}3,6,5\n"))
    assert "an item must be one of 1, 2, 6, got '3', '5'" in str(error)


def test_every_fault_of_a_file_is_told_at_once(put, refusal):
    body = "x: 1,2\n2: 9,1,0\n3: 1,1,2,2\n4: 1,2,3\n-1: 1\nhello\n1: {9,1},0\n"
    error = refusal(read_preflib, put("x.toi", f"{THREE}{body}"), line=2)
    assert [line for line, _ in error.faults] == [2, 3, 4, 6, 7, 8]
    for words in (
        "x.toi:3: an item must be a number from 1 to 3, got '9', '0'",
        "x.toi:4: items 1, 2 occur twice in one ballot",
        "x.toi:6: count must be a whole number >= 1, got '-1'",
        "x.toi:7: a ballot line is 'count: order'",
        "x.toi:8: an item must be a number from 1 to 3, got '9', '0', in '{9,1},0'",
        "x.toi: faulty ballots of 6 people",
    ):
        assert words in str(error).splitlines() or words in str(error)
    only_counts = refusal(read_preflib, put("y.toi", f"{THREE}{body}"), clean="empty")
    assert [line for line, _ in only_counts.faults] == [2, 6, 7]  # what no policy repairs


def test_every_fault_of_a_header_is_told_at_once(put, refusal):
    header = "# NUMBER VOTERS: many\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 1: b\n# ALTERNATIVE NAME 3: a\n"
    error = refusal(read_preflib, put("x.toi", f"{header}1: 1,2\n"), line=1)
    assert [line for line, _ in error.faults] == [1, 3, 4]


@pytest.mark.parametrize("clean", ["reject", "empty"])
def test_many_faults_of_one_kind_are_one_message(put, clean):
    path = put("x.toi", THREE + "2: 1,2\n" + "1: 7\n" * 303)
    if clean == "reject":
        with pytest.raises(DataError) as caught:
            read_preflib(path)
        assert len(caught.value.faults) == 303
        lines = str(caught.value).splitlines()
    else:
        lines = list(read_preflib(path, clean=clean, allow_void=True).notes)
    more = "x.toi: and 300 more like it, on lines 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ..."
    assert lines.count(more) == 1
    assert len(lines) == 5


def test_no_note_speaks_of_merging_where_ballots_were_voided(put):
    profile = read_preflib(put("x.toi", f"{THREE}1: 7\n1: 8\n1: 1,1\n3: 1\n"), clean="empty")
    assert not any("merged" in note for note in profile.notes)
    assert "voided the faulty ballots (now empty) of 3 people" in profile.notes[0]


def test_empty_ballots_are_stated_as_abstentions(put):
    profile = read_preflib(put("x.toi", f"{THREE}1:\n1: \n2:\n3: 1\n"))
    assert profile.notes == ("x.toi: no item is ranked, an abstention, on the ballots of 4 people",)


# ------------------------------------------------------------------ F9 .. F13: headers, encodings, line ends


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("# NUMBER VOTERS: 7", "NUMBER VOTERS says 7, and the body has 3"),
        ("# NUMBER VOTERS: 0", "NUMBER VOTERS says 0, and the body has 3"),
        ("# NUMBER UNIQUE ORDERS: 5", "NUMBER UNIQUE ORDERS says 5, and the body has 2"),
        ("# NUMBER ALTERNATIVES: 4", "NUMBER ALTERNATIVES says 4, and names go up to 2"),
        ("# NUMBER ALTERNATIVES: 1", "NUMBER ALTERNATIVES says 1, and names go up to 2"),
    ],
)
def test_f9_the_body_wins_over_the_header(put, claim, message):
    text = f"{claim}\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n2: 1,2\n1: 2,1\n"
    path = put("x.soi", text)
    with pytest.warns(DataWarning, match=re.escape(f"x.soi: {message}")):
        profile = read_preflib(path)
    assert ballots(profile) == {AB: 2, BA: 1}
    assert profile.items[:2] == ("a", "b")
    with pytest.raises(DataError, match=re.escape(f"x.soi: {message}")):
        read_preflib(path, strict=True)


def test_f9_an_item_above_the_declared_number_is_refused(put, refusal):
    error = refusal(read_preflib, put("x.soi", f"{TWO}1: 1,2\n1: 3,1\n"), line=3)
    assert "from 1 to 2, got '3'" in str(error)


def test_f9_two_claims_about_the_same_total_are_a_contradiction(put):
    path = put("x.soi", "# NUMBER ALTERNATIVES: 2\n# NUMBER ALTERNATIVES: 3\n1: 1,2\n")
    with pytest.raises(DataError, match="NUMBER ALTERNATIVES"):
        read_preflib(path, strict=True)


@pytest.mark.parametrize("key", ["NUMBER ALTERNATIVES", "NUMBER VOTERS", "NUMBER UNIQUE ORDERS"])
@texts(["", "two", "-2", "2.0", "2,000", "\uff12", "1e2"])
def test_f9_a_total_that_is_no_number_is_refused(put, refusal, key, text):
    error = refusal(read_preflib, put("x.soi", f"# TITLE: t\n# {key}: {text}\n{TWO}1: 1\n"), line=2)
    assert key in str(error)
    assert repr(text) in str(error)


def test_f10_a_byte_order_mark_is_stripped(put):
    text = "# ALTERNATIVE NAME 1: caf\u00e9\n2: 1\n"
    profile = read_preflib(put("x.soi", b"\xef\xbb\xbf" + text.encode()))
    assert (profile.items, profile.people) == (("caf\u00e9",), 2)
    body_first = read_preflib(put("y.soi", b"\xef\xbb\xbf1\n1,A\n2,2,1\n2,1\n"))
    assert (body_first.items, body_first.people) == (("A",), 2)


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_f10_utf16_that_says_so_is_read_with_a_note(put, refusal, mark):
    codec = "utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"
    wide = mark + f"{TWO}1: 1,2\n".encode(codec)
    profile = read_preflib(put("x.soc", wide))
    assert profile == read_preflib(put("y.soc", f"{TWO}1: 1,2\n"))
    assert profile.notes == ("x.soc: read as UTF-16, which its first bytes say it is",)
    error = refusal(read_preflib, put("x.soc", wide + b"1"))
    assert f"at offset {len(wide)} is not UTF-16" in str(error)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_f10_utf16_without_its_mark_is_an_encoding_error_too(put, refusal, codec):
    error = refusal(read_preflib, put("x.soc", f"{TWO}1: 1,2\n".encode(codec)))
    assert "UTF-8" in str(error)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("bad", [b"\x96", b"\xc3(", b"\xed\xa0\x80", b"\xf0\x9f\x8d"])
@pytest.mark.parametrize("before", [0, 100, 70_000, 200_001])
def test_f10_a_bad_byte_is_found_at_its_offset(put, refusal, bom, bad, before):
    head = bom + b"# TITLE: " + b"x" * before + "\u00e9\n# ALTERNATIVE NAME 1: a".encode()
    error = refusal(read_preflib, put("x.soc", head + bad + b"b\n3: 1\n"))
    assert f"byte {bad[0]:#04x} at offset {len(head)}" in str(error)
    assert "UTF-8" in str(error)


def test_f10_a_character_cut_off_at_the_end_of_the_file(put, refusal):
    data = f"{TWO}1: 1,2\n".encode()
    error = refusal(read_preflib, put("x.soc", data + b"\xe2\x82"))
    assert f"byte 0xe2 at offset {len(data)}" in str(error)


BODY = ["# NUMBER ALTERNATIVES: 3", "# ALTERNATIVE NAME 2: b b", "# ALTERNATIVE NAME 3: c", "3: 1,{2,3}", "2: 3", "1:"]
OLD_BODY = ["3", "1,1", "2,b b", "3,c", "6,6,3", "3,1,{2,3}", "2,3", "1,"]


@pytest.mark.parametrize("lines", [BODY, OLD_BODY])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "arrange",
    [
        lambda lines, end: end.join(lines) + end,
        lambda lines, end: end.join(lines),
        lambda lines, end: end.join(lines) + end * 4,
        lambda lines, end: (end * 3).join(lines) + end,
        lambda lines, end: end * 3 + end.join(lines),
        lambda lines, end: end.join(f"\t {line} \t" for line in lines) + end,
        lambda lines, end: end.join([*lines, " ", "\t", "\u00a0"]) + end,
    ],
    ids=["as-is", "no-final-end", "blank-at-end", "blank-between", "blank-at-start", "blanks-around", "blank-text"],
)
def test_f11_line_ends_and_blanks_change_nothing(put, lines, end, arrange):
    profile = read_preflib(put("x.toi", arrange(lines, end)))
    assert profile.items == ("1", "b b", "c")
    assert ballots(profile) == {Ballot(((0,), (1, 2))): 3, Ballot(((2,),)): 2, Ballot(): 1}


@texts(
    [
        "#NUMBER ALTERNATIVES: 2",
        "# Number Alternatives : 2",
        "#\tNUMBER ALTERNATIVES: 2",
        "#  NUMBER   ALTERNATIVES :2",
        "# number alternatives:\t2 ",
        "# NUMBER\tALTERNATIVES: 2",
        "# NUMBER ALTERNATIVES: 02",
    ]
)
def test_f12_variants_of_the_header_are_accepted(put, text):
    assert read_preflib(put("x.soc", f"{text}\n1: 1,2\n")).items == ("1", "2")


@texts(["# ALTERNATIVE NAME 1:a", "#ALTERNATIVE NAME 1 : a ", "# Alternative Name 1: a", "# ALTERNATIVE\tNAME 1: a"])
def test_f12_variants_of_a_name_are_accepted(put, text):
    assert read_preflib(put("x.soc", f"{text}\n# NUMBER ALTERNATIVES: 1\n1: 1\n")).items == ("a",)


@texts(["", "# NUMBER ALTERNATIVES 2\n", "NUMBER ALTERNATIVES: 2\n", "% NUMBER ALTERNATIVES: 2\n", "# TITLE: 2\n"])
def test_f12_without_a_declaration_nothing_is_read(put, text):
    with pytest.raises(DataError, match=r"x\.soc:\d: (no alternatives declared|a ballot line|count must be)"):
        read_preflib(put("x.soc", f"{text}1: 1,2\n"))


def test_f12_zero_alternatives_are_none_declared(put, refusal):
    error = refusal(read_preflib, put("x.soc", "# NUMBER ALTERNATIVES: 0\n1: 1\n"), line=2)
    assert "no alternatives declared" in str(error)


@texts(["0", "00", "100001", "12345678901234567890", "999999999999"])
def test_f12_the_number_of_an_alternative_has_a_range(put, refusal, text):
    error = refusal(read_preflib, put("x.soi", f"{TWO}# ALTERNATIVE NAME {text}: x\n1: 1,2\n"), line=2)
    assert "1 to 100000" in str(error)
    assert text in str(error)


def test_f12_too_many_alternatives_name_the_limit(put, refusal):
    error = refusal(read_preflib, put("x.soi", "# NUMBER ALTERNATIVES: 100001\n1: 1,2\n"), line=1)
    assert "100000" in str(error)


def test_f12_an_alternative_named_twice_is_refused(put, refusal):
    text = f"{TWO}# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 1: b\n1: 1,2\n"
    assert "named twice" in str(refusal(read_preflib, put("x.soi", text), line=3))


def test_f12_a_blank_name_is_refused(put, refusal):
    error = refusal(read_preflib, put("x.soi", "# ALTERNATIVE NAME 1:\n# ALTERNATIVE NAME 2: b\n1: 1,2\n"))
    assert "alternative 1 is blank" in str(error)


OLD = "3\n1,Ana\n2,Bob, the second\n3,C: D\n9,9,3\n4,1,2,3\n3,{2,3},1\n2,3\n"


def test_f13_the_old_header_is_read(put):
    profile = read_preflib(put("x.toi", OLD), strict=True)
    assert profile.items == ("Ana", "Bob, the second", "C: D")
    assert ballots(profile) == {Ballot.strict([0, 1, 2]): 4, Ballot(((1, 2), (0,))): 3, Ballot.strict([2]): 2}


def test_f13_the_smallest_old_file(put):
    profile = read_preflib(put("x.soc", "2\n1,A\n2,B\n5,5,1\n5,1,2\n"), strict=True)
    assert (profile.items, ballots(profile)) == (("A", "B"), {AB: 5})


def test_f13_comments_and_blanks_inside_the_old_header(put):
    text = OLD.replace("1,Ana\n", "\n# a comment\n1,Ana\n").replace("9,9,3\n", "9,9,3\n\n#\n")
    assert read_preflib(put("x.toi", text)) == read_preflib(put("y.toi", OLD))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("2\n1,A\n3,B\n5,5,1\n5,1,2\n", 5, "one of 1, 3, got '2'"),
        ("3\n1,A\n2,B\n5,5,1\n5,1,2\n", 4, "'3,name'"),
        ("2\n1,A\nB\n5,5,1\n5,1,2\n", 3, "'2,name'"),
        ("2\n1,A\n2,B\n5,1,2\n5,x\n", 5, "from 1 to 2, got 'x'"),
        ("2\n1,A\n2,B\n5,5\n5,1,2\n", 4, "'voters,sum,unique orders'"),
        ("2\n1,A\n2,B\n5,5,-1\n5,1,2\n", 4, "'voters,sum,unique orders'"),
        ("0\n5,5,1\n5,1,2\n", 1, "1 to 100000"),
        ("1234567890\n1,A\n", 1, "1 to 100000"),
    ],
)
def test_f13_a_broken_old_header_is_refused_with_its_line(put, refusal, text, line, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        error = refusal(read_preflib, put("x.soi", text), line=line)
    assert words in str(error)


@pytest.mark.parametrize("fault", ["1,1", "1.5,1", "1,4", "x"])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_f13_faults_after_the_old_header_are_at_their_own_line(put, refusal, fault, before):
    text = "2\n1,A\n2,B\n9,9,9\n" + "1,2,1\n" * before + (f"{fault},1\n" if fault == "1,1" else f"{fault}\n")
    refusal(read_preflib, put("x.soi", text), line=5 + before)


def test_f13_the_totals_of_the_old_header_are_checked_too(put):
    with pytest.warns(DataWarning, match="NUMBER VOTERS says 8, and the body has 9"):
        read_preflib(put("x.toi", OLD.replace("9,9,3", "8,8,3")))


# ------------------------------------------------------------------ F14 .. F17: orders that are none


BAD_ORDERS = [
    "{1,2,3", "1,2},3", "{{1,2}},3", "a,b", "{},1,2", "1,,2", "1,2,", ",1", "{1,2}3", "1{2,3}", "{1 2}", "{1},{",
    "}", "{", "1 2", "1;2;3", "1>2>3", "1 > 2", "1.0,2", "-1,2", "0,1", "4,1", "1,\uff12", "1,\u00b2", "1,2:3",
    "1,2 # why", "1,2\0", "{1,{2,3}}", "{,1}", "{1,}", "1,{}", "12345678901", "nan", "[1,2]", "(1,2),3",
]  # fmt: skip


@texts(BAD_ORDERS)
def test_f14_f17_what_is_no_order_is_rejected_with_its_line(put, refusal, text):
    refusal(read_preflib, put("x.toi", f"{THREE}# c\n9: 3,2,1\n2: {text}\n"), line=4)


@pytest.mark.parametrize("clean", ["keep-first", "empty"])
@texts(BAD_ORDERS)
def test_f14_a_void_order_becomes_the_empty_ballot_of_as_many_people(put, text, clean):
    profile = read_preflib(put("x.toi", f"{THREE}9: 3,2,1\n2: {text}\n"), clean=clean)
    assert ballots(profile) == {Ballot.strict([2, 1, 0]): 9, Ballot(): 2}
    assert profile.notes[0] == "x.toi: voided the faulty ballots (now empty) of 2 people"
    assert [note.split(": ")[0] for note in profile.notes[1:]] == ["x.toi:3"]


@pytest.mark.parametrize(("text", "value"), [("1>2>3", "'1>2>3'"), ("a,b", "'a'"), ("1,7", "'7'"), ("1;2", "'1;2'")])
def test_f14_the_message_names_the_value_and_the_rule(put, refusal, text, value):
    error = refusal(read_preflib, put("x.soc", f"{THREE}3: {text}\n"), line=2)
    assert f"an item must be a number from 1 to 3, got {value}" in str(error)


def test_f16_comments_and_blank_lines_may_stand_anywhere(put):
    text = f"# a note\n\n{TWO}# \n#\n3: 1,2\n# note: after the first ballot\n\n2: 2,1\n# end"
    profile = read_preflib(put("x.soc", text))
    assert (profile.items, ballots(profile)) == (("1", "2"), {AB: 3, BA: 2})


def test_f16_a_header_line_after_the_first_ballot_is_ignored_aloud(put):
    path = put("x.soc", f"{TWO}3: 1,2\n#NUMBER ALTERNATIVES: 9\n2: 2,1\n")
    with pytest.warns(DataWarning, match="header line after the first ballot"):
        assert read_preflib(path).items == ("1", "2")
    with pytest.raises(DataError, match="header line after the first ballot"):
        read_preflib(path, strict=True)


def test_f13_an_old_header_that_stops_short_says_what_it_wants(put, refusal):
    assert "wants '1,name' here" in str(refusal(read_preflib, put("x.soc", "2\n")))


def test_f16_lines_are_counted_with_comments_and_blanks(put, refusal):
    refusal(read_preflib, put("x.soc", f"# a\n\n{TWO}3: 1,2\n# b\n\n\n2: x\n"), line=8)


@texts(["", "\n\n", "# NUMBER ALTERNATIVES: 2\n", "2\n1,A\n2,B\n5,5,1\n", "# a comment alone"])
def test_f17_a_file_without_ballots_has_nothing_to_rank(put, refusal, text):
    assert "nothing to rank" in str(refusal(read_preflib, put("x.soc", text)))


def test_a_file_of_only_empty_ballots_counts_its_people(put):
    profile = read_preflib(put("x.toi", f"{TWO}3:\n4: \n"))
    assert ballots(profile) == {Ballot(): 7}


def test_a_directory_or_a_missing_file_is_an_ordinary_error(tmp_path):
    (tmp_path / "d.soc").mkdir()
    with pytest.raises(IsADirectoryError):
        read_preflib(tmp_path / "d.soc")
    with pytest.raises(FileNotFoundError):
        read_preflib(tmp_path / "none.soc")


def test_an_unknown_policy_is_refused_with_the_choices(put):
    with pytest.raises(ParameterError, match="reject, keep-first, empty"):
        read_preflib(put("x.soc", f"{TWO}1: 1,2\n"), clean="drop")


# ------------------------------------------------------------------ F19, F20, F24: items


NAMES = [
    "A: B, C", "O'Neil", '"x, y"', "Ana  B", "caf\u00e9", "cafe\u0301", "\u05d3\u05d5\u05d3 \u05dc\u05d5\u05d9",
    "\u202eabc", "\U0001f363\U0001f1ee\U0001f1f8", "=1+1", "<b>x</b>", "#hash", "1", "{1,2}", "a\0b", "a\u2028b",
    "x" * 10_000, "\u0416" * 5_000, "12: 3", "%s", "\\n", "a\tb",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:12]))
def test_f19_names_round_trip_exactly(put, tmp_path, name):
    text = f"# NUMBER ALTERNATIVES: 2\n# ALTERNATIVE NAME 1: {name}\n# ALTERNATIVE NAME 2: other\n2: 2,1\n"
    profile = read_preflib(put("x.soc", text))
    assert profile.items == (name, "other")
    write_preflib(profile, tmp_path / "y.soc")
    again = read_preflib(tmp_path / "y.soc", strict=True)
    assert (again.items, ballots(again)) == (profile.items, {BA: 2})


@pytest.mark.parametrize("name", ["a\nb", "a\rb", " a", "a ", "a\u00a0", "\ta"])
def test_f19_a_name_that_the_format_cannot_hold_is_refused_by_the_writer(tmp_path, name):
    profile = Profile.from_ballots([name, "other"], [AB])
    with pytest.raises(DataError, match="cannot hold the name"):
        write_preflib(profile, tmp_path / "x.soc")
    assert not (tmp_path / "x.soc").exists()


@pytest.mark.parametrize(("one", "two"), [("Ana  B", "Ana B"), ("caf\u00e9", "cafe\u0301"), ("a\u00a0b", "a b")])
def test_f19_near_duplicates_are_two_items_and_a_warning(put, one, two):
    text = f"# ALTERNATIVE NAME 1: {one}\n# ALTERNATIVE NAME 2: {two}\n2: 2,1\n"
    with pytest.warns(DataWarning, match=f"{re.escape(repr(one))} and {re.escape(repr(two))} differ only"):
        profile = read_preflib(put("x.soc", text))
    assert profile.items == (one, two)


def test_f20_equal_names_are_an_error_and_case_alone_is_a_warning(put, refusal):
    text = "# ALTERNATIVE NAME 1: {}\n# ALTERNATIVE NAME 2: {}\n2: 2,1\n"
    error = refusal(read_preflib, put("x.soc", text.format("A", "A")))
    assert "alternatives 1 and 2 have the same name 'A'" in str(error)
    with pytest.warns(DataWarning, match="'A' and 'a' differ only by case"):
        assert read_preflib(put("x.soc", text.format("A", "a"))).items == ("A", "a")


def test_f20_a_name_that_is_another_items_number_is_an_error(put):
    with pytest.raises(DataError, match="same name '2'"):
        read_preflib(put("x.soi", f"{THREE}# ALTERNATIVE NAME 1: 2\n# ALTERNATIVE NAME 3: c\n1: 1,2\n"), clean="empty")


def test_f24_a_declared_item_on_no_ballot_is_ranked_last(put):
    profile = read_preflib(put("x.soi", "# NUMBER ALTERNATIVES: 5\n9: 1,2\n4: 3\n1: 2\n"))
    assert profile.items == ("1", "2", "3", "4", "5")
    margins = pairwise_margins(profile)
    assert margins[3].tolist() == [-9, -10, -4, 0, 0]
    tiers = solve(margins, people=profile.people).tiers
    assert tiers[-1] == (3, 4)
    assert pairwise_margins(profile, unranked="missing")[3].tolist() == [0] * 5


# ------------------------------------------------------------------ the writer


@pytest.mark.parametrize(
    ("ballot", "kind", "words"),
    [
        (Ballot(((0, 1),)), "soc", "tie"),
        (Ballot(((0, 1),)), "soi", "tie"),
        (Ballot.strict([0]), "soc", "lacks item 2"),
        (Ballot(), "toc", "lacks item 1"),
    ],
)
def test_ballots_that_do_not_fit_the_kind_are_refused_by_the_writer(tmp_path, ballot, kind, words):
    with pytest.raises(DataError, match=words):
        write_preflib(Profile.from_ballots(list("ab"), [ballot]), tmp_path / "x.soc", data_type=kind)


def test_a_refused_write_leaves_the_old_file_alone(put):
    path = put("x.soc", "precious")
    with pytest.raises(DataError):
        write_preflib(Profile.from_ballots(list("ab"), [AB, Ballot()]), path, data_type="soc")
    assert path.read_text() == "precious"


def test_the_written_text(tmp_path):
    profile = Profile.from_ballots(
        ["a", "b", "c"], {Ballot(((2,), (0, 1))): 2, Ballot.strict([1]): 10**20, Ballot(): 1}
    )
    write_preflib(profile, tmp_path / "x.toi")
    assert (tmp_path / "x.toi").read_bytes().decode() == (
        "# FILE NAME: x.toi\n# DATA TYPE: toi\n# NUMBER ALTERNATIVES: 3\n# NUMBER VOTERS: 100000000000000000003\n"
        "# NUMBER UNIQUE ORDERS: 3\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n# ALTERNATIVE NAME 3: c\n"
        "100000000000000000000: 2\n2: 3,{1,2}\n1: \n"
    )


def test_a_file_name_with_a_line_break_writes_no_ballots(tmp_path):
    path = tmp_path / "x\n9: 1,2\n.soc"
    write_preflib(Profile.from_ballots(list("ab"), [BA]), path)
    assert ballots(read_preflib(path)) == {BA: 1}


def test_places_are_read_only(put):
    profile = read_preflib(put("x.soc", f"{TWO}3: 1,2\n"))
    with pytest.raises(ValueError, match="read-only"):
        profile.places[0, 0] = 9
    assert profile.places.dtype == np.uint8

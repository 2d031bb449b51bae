"""Ballots and comparisons in CSV. Test names carry the rows of the fault list."""

from __future__ import annotations

import csv
import tracemalloc
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError, DataWarning, ParameterError
from psephos.kemeny import solve
from psephos.pairwise import pairwise_margins
from psephos.profile import (
    Ballot,
    Comparisons,
    Profile,
    file_kind,
    read_ballots_csv,
    read_comparisons_csv,
    write_ballots_csv,
    write_comparisons_csv,
)

ROOT = Path(__file__).parents[2]
AB = Ballot.strict([0, 1])
BA = Ballot.strict([1, 0])


def ballots(profile):
    return dict(profile.ballots())


def read_or_refuse(reader, path, **options):
    """What was read, or the error."""
    try:
        return reader(path, **options)
    except DataError as error:
        return error


# ------------------------------------------------------------------ layouts and delimiters


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_f17_the_delimiter_comes_from_the_header(put, mark):
    places = put("x.csv", "tea,coffee,count\n1,2,3\n2,,1\n".replace(",", mark))
    assert ballots(read_ballots_csv(places)) == {AB: 3, Ballot.strict([0]): 1}
    positions = put("y.csv", "rank1,rank2\ntea,coffee\n".replace(",", mark))
    assert ballots(read_ballots_csv(positions, items=["tea", "coffee"])) == {AB: 1}
    duels = put("z.csv", "left,right,winner\ntea,coffee,tie\n".replace(",", mark))
    assert read_comparisons_csv(duels).items == ("coffee", "tea")


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ('"x, y";b', ("x, y", "b")),
        ('"x; y",b', ("x; y", "b")),
        ('"x ""q"", y";b', ('x "q", y', "b")),
        ('"a,b","c;d"', ("a,b", "c;d")),
        ('"a\tb";c', ("a\tb", "c")),
        ('"a\nb";c', ("a\nb", "c")),
    ],
)
def test_f17_a_delimiter_inside_quotes_is_part_of_the_name(put, header, names):
    mark = ";" if header.endswith((";b", ";c")) else ","
    assert read_ballots_csv(put("x.csv", f"{header}\n1{mark}2\n")).items == names


@pytest.mark.parametrize("text", ["tea,coffee\n1;2\n", "tea;coffee\n1,2\n", "tea\tcoffee\n1 2\n", "tea,coffee\n1\t2\n"])
def test_f17_another_separator_in_the_rows_is_refused(put, refusal, text):
    error = refusal(read_ballots_csv, put("x.csv", text), line=2)
    assert "2 cells, got 1" in str(error)
    assert "tea, coffee" in str(error)


@pytest.mark.parametrize("text", ["tea coffee\n1 2\n", "tea|coffee\n1|2\n", "tea\n1>2\n"])
def test_f17_a_separator_that_is_none_gives_no_ranking(put, refusal, text):
    refusal(read_ballots_csv, put("x.csv", text), line=2)


POSITION_HEADERS = [
    "rank1,rank2", "RANK_1,Rank-2", "choice 1,choice 2", "Preference1,preference2", "1st,2nd", "1st choice,2nd choice",
    "pos1,pos2", "position 1,position 2", "rank1,rank2,count", "voter,rank1,rank2", "rank1,person,rank2",
]  # fmt: skip


@pytest.mark.parametrize("header", POSITION_HEADERS)
def test_positions_are_recognised_from_the_header(put, header):
    cells = {"count": "1", "voter": "v", "person": "p"}
    numbers = iter(["b", "a"])
    row = ",".join(cells.get(name) or next(numbers) for name in header.split(","))
    profile = read_ballots_csv(put("x.csv", f"{header}\n{row}\n"))
    assert (profile.items, ballots(profile), profile.items_source) == (("a", "b"), {BA: 1}, "seen")


def test_the_layout_comes_from_the_header_and_never_from_the_cells(put, refusal):
    looks_like_places = read_ballots_csv(put("x.csv", "rank1,rank2\n2,1\n"))
    assert (looks_like_places.items, ballots(looks_like_places)) == (("1", "2"), {BA: 1})
    looks_like_positions = put("y.csv", "tea,coffee\ntea,coffee\n")
    assert "--layout positions" in str(refusal(read_ballots_csv, looks_like_positions, line=2))


def test_the_layout_can_be_given(put):
    assert read_ballots_csv(put("x.csv", "rank1,rank2\n2,1\n"), layout="places").items == ("rank1", "rank2")
    path = put("y.csv", "x,y\nb,a\n")
    assert ballots(read_ballots_csv(path, layout="positions", columns="x,y")) == {BA: 1}
    with pytest.raises(DataError, match=r"no column is named like a position.*--columns; columns found: x, y"):
        read_ballots_csv(path, layout="positions")
    with pytest.raises(ParameterError, match="positions, places"):
        read_ballots_csv(put("z.csv", "x,y\nb,a\n"), layout="rows")


@pytest.mark.parametrize("header", ["rank2,rank1", "rank1,rank3", "rank0,rank1", "rank1,rank 1", "choice2,choice3"])
@pytest.mark.parametrize("clean", ["reject", "empty"])
def test_position_columns_that_are_not_1_2_and_so_on_are_no_items(put, header, clean):
    path = put("x.csv", f"{header}\n{','.join('abc'[: header.count(',') + 1])}\n")
    with pytest.raises(DataError, match=r"x\.csv:1: ") as caught:
        read_ballots_csv(path, clean=clean)
    assert header.split(",")[0] in str(caught.value)


def test_positions_are_those_of_the_header_even_where_the_layout_is_given(put):
    path = put("x.csv", "rank2,rank1\na,b\n")
    result = read_or_refuse(read_ballots_csv, path, layout="positions")
    assert "rank2" in str(result) if isinstance(result, DataError) else ballots(result) == {BA: 1}


def test_ballots_and_comparisons_are_told_apart_by_the_header(put):
    assert file_kind(put("a.csv", "left,right,winner\n")) == "comparisons"
    assert file_kind(put("b.csv", "Winner;person;LEFT;right\n")) == "comparisons"
    assert file_kind(put("c.csv", "left,right\n1,2\n")) == "table"


# ------------------------------------------------------------------ places


@pytest.mark.parametrize(
    ("row", "groups"),
    [
        ("1,2,3", ((0,), (1,), (2,))),
        ("1,1,2", ((0, 1), (2,))),
        ("1,1,3", ((0, 1), (2,))),
        ("3,2,2", ((1, 2), (0,))),
        ("3,1,", ((1,), (0,))),
        (" 2 ,,01", ((2,), (0,))),
        (",,", ()),
        ('"2","1",""', ((1,), (0,))),
    ],
)
def test_places_are_renumbered_and_blank_is_unranked(put, row, groups):
    profile = read_ballots_csv(put("x.csv", f"a,b,c\n{row}\n"))
    assert (profile.items, ballots(profile), profile.items_source) == (("a", "b", "c"), {Ballot(groups): 1}, "declared")


@pytest.mark.parametrize(
    "cell", ["0", "-1", "-0", "1.000", "1,000", "1.5", "inf", "true", "\uff11", "\u00b2", "1e0", "x", "3", "1000000000"]
)
def test_a_place_that_is_no_whole_number_is_refused_and_names_cell_and_item(put, refusal, cell):
    error = refusal(read_ballots_csv, put("x.csv", f'a,tea\n1,2\n\n1,"{cell}"\n'), line=4)
    assert f"got {cell!r} for 'tea'" in str(error)
    assert "whole number from 1 to 2" in str(error)
    voided = read_ballots_csv(put("y.csv", f'a,tea,count\n1,2,5\n1,"{cell}",3\n'), clean="keep-first")
    assert ballots(voided) == {AB: 5, Ballot(): 3}
    assert voided.notes[0] == "y.csv: voided the faulty ballots (now empty) of 3 people"
    assert voided.notes[1:] == (f"y.csv:3: {str(error).split(': ', 1)[1]}",)


@pytest.mark.parametrize("clean", ["reject", "keep-first", "empty"])
@pytest.mark.parametrize("count", ["-0", "-1", "1.5", "1.000", "1e3", '"1,000"', "", "\uff13", "+1", "nan", "1_0"])
def test_f3_f7_a_faulty_count_is_an_error_under_every_policy(put, refusal, count, clean):
    error = refusal(read_ballots_csv, put("x.csv", f"a,b,Count\n1,2,4\n2,1,{count}\n"), line=3, clean=clean)
    assert f"count must be a whole number >= 1, got {count.strip(chr(34))!r}" in str(error)


@pytest.mark.parametrize("header", ["a,b,count", "rank1,rank2,count"])
def test_rows_with_count_0_are_left_out_with_a_note(put, refusal, header):
    row = "1,2" if header[0] == "a" else "a,b"
    path = put("x.csv", f"{header}\n{row},3\nz,z,0\n{row},00\n")
    profile = read_ballots_csv(path)
    assert (ballots(profile), profile.items) == ({AB: 3}, ("a", "b"))
    assert profile.notes == ("x.csv: 2 lines with count 0 left out",)
    error = refusal(read_ballots_csv, put("y.csv", f"{header}\n{row},0\n"))
    assert "nothing to rank: no ballots: every count is 0" in str(error)


def test_advice_is_given_once_where_many_faults_are_alike(put, refusal):
    error = refusal(read_ballots_csv, put("x.csv", "a,b\n1,9\n1,7\n2,8\n6,1\n" + "1,2\n" * 9), line=2)
    assert str(error).count("if the column is no item") == 1
    assert str(error).count("got '") == 3
    assert "and 1 more like it, on line 5" in str(error)


def test_the_lines_of_equal_faulty_rows_and_all_their_faulty_cells_are_told(put, refusal):
    error = refusal(read_ballots_csv, put("x.csv", "a,b,c\n" + "9,1,0\n1,2,3\n3,2,1\n" * 3), layout="places", line=2)
    assert [line for line, _ in error.faults] == [2, 5, 8]
    assert "got '9' for 'a', '0' for 'c'" in str(error)
    mixed = refusal(
        read_ballots_csv, put("z.csv", "a,b\n9,8\n1,x\n5,2\n1,7\n"), layout="places", line=2, allow_void=True
    )
    assert str(mixed).splitlines()[-2:] == ["z.csv: and 1 more like it, on line 5", "z.csv: faulty ballots of 4 people"]
    listed = put("y.csv", "rank1,rank2,rank3\na,z,y\na,b,c\na,z,y\n")
    error = refusal(read_ballots_csv, listed, items=["a", "b", "c"], line=2)
    assert [line for line, _ in error.faults] == [2, 4]
    assert "unknown item 'z', 'y'" in str(error)
    assert "faulty ballots of 2 people" in str(error)


@pytest.mark.parametrize(
    ("rows", "people"),
    [
        (["1,2,4"], 1),
        (["2,3,4"], 1),
        (["2,,", ",1,"], 1),
        (["1,1,4", "1,2,3"], 1),
        (["1,1,3", "1,1,2", "1,1,1", "1,,", ",,", "2,1,2", "1,2,2"], 0),
        (["1,4,2", "1,4,2", "4,2,1"], 3),
    ],
)
def test_places_with_gaps_close_up_with_a_note(put, rows, people):
    profile = read_ballots_csv(put("x.csv", "a,b,c,d\n" + "".join(f"{row},\n" for row in rows)), layout="places")
    assert max(profile.places.max(axis=0)) <= 3
    notes = [note for note in profile.notes if "gaps" in note]
    who = "1 person" if people == 1 else f"{people} people"
    told = [f"x.csv: places with gaps, as 1, 2, 4, closed up on the ballots of {who}"]
    assert notes == (told if people else [])


def test_every_fault_of_a_table_is_told_at_once(put, refusal):
    error = refusal(read_ballots_csv, put("x.csv", "a,b,count\n7,1,2\n1,2,x\n1,2,3\n1,8,1\n1\n"), line=2)
    assert [line for line, _ in error.faults] == [2, 3, 5, 6]


@pytest.mark.parametrize("count", [2**53 + 1, 2**63 - 1, 10**20, 10**3999])
def test_f5_counts_of_any_size(put, count):
    profile = read_ballots_csv(put("x.csv", f"a,b,count\n1,2,{count}\n1,2,{count}\n"))
    assert profile.counts == (2 * count,)
    positions = read_ballots_csv(put("y.csv", f"rank1,rank2,count\nb,a,{count}\nb,a,1\n"))
    assert ballots(positions) == {BA: count + 1}


def test_f24_an_item_column_without_places_is_ranked_last(put):
    profile = read_ballots_csv(put("x.csv", "a,b,c,count\n1,2,,5\n2,1,,2\n"))
    assert profile.items == ("a", "b", "c")
    assert solve(pairwise_margins(profile), people=7).tiers == ((0,), (1,), (2,))


def test_items_given_for_places_must_be_the_columns(put, refusal):
    path = put("x.csv", "tea, coffee \n1,2\n")
    assert read_ballots_csv(path, items=["coffee", "tea"]).items == ("tea", "coffee")
    error = refusal(read_ballots_csv, path, items=["tea", "water"], line=1)
    assert "tea, coffee" in str(error)


# ------------------------------------------------------------------ positions


def test_positions_without_items_are_those_seen_sorted(put):
    profile = read_ballots_csv(put("x.csv", "rank1,rank2\ntea,coffee\nwater,\n"))
    assert (profile.items, profile.items_source) == (("coffee", "tea", "water"), "seen")
    assert ballots(profile) == {BA: 1, Ballot.strict([2]): 1}
    twice = read_ballots_csv(put("y.csv", "rank1,rank2\ntea,coffee\nwater,\nwater,coffee\ntea,\n"))
    assert twice.with_items_public().items_source == "assumed"


def test_positions_with_items_keep_their_order_and_refuse_others(put, refusal):
    path = put("x.csv", "rank1,rank2\ntea,coffee\nmilk,tea\n")
    profile = read_ballots_csv(path, items=["water", "tea", "coffee", "milk"])
    assert (profile.items, profile.items_source) == (("water", "tea", "coffee", "milk"), "declared")
    assert "unknown item 'milk'" in str(refusal(read_ballots_csv, path, line=3, items=["tea", "coffee"]))
    voided = read_ballots_csv(path, items=["tea", "coffee"], clean="keep-first")
    assert ballots(voided) == {AB: 1, Ballot(): 1}


@pytest.mark.parametrize("row", ["tea,tea,coffee", "tea,coffee,tea", "tea, tea ,coffee", "tea,coffee,coffee"])
def test_f2_a_repeated_item_is_refused_by_name_or_keeps_its_first_place(put, refusal, row):
    path = put("x.csv", f"rank1,rank2,rank3\n{row}\n")
    error = refusal(read_ballots_csv, path, line=2)
    assert "twice" in str(error)
    assert ("'coffee'" if row.endswith("coffee,coffee") else "'tea'") in str(error)
    assert ballots(read_ballots_csv(path, clean="keep-first")) == {BA: 1}
    assert ballots(read_ballots_csv(path, clean="empty", allow_void=True)) == {Ballot(): 1}


@pytest.mark.parametrize("mark", ["overvote", "Undervote", "SKIPPED", ""])
def test_f22_marks_are_no_candidates_and_are_counted(put, mark):
    path = put("x.csv", f"rank1,rank2,rank3,count\nA,{mark},B,5\nB,A,,2\n")
    profile = read_ballots_csv(path)
    assert (profile.items, ballots(profile)) == (("A", "B"), {AB: 5, BA: 2})
    assert profile.notes == (f"x.csv: 5 {mark.lower() or 'blank'} cells (later items moved up)",)
    stopped = read_ballots_csv(path, gaps="stop")
    assert ballots(stopped) == {Ballot.strict([0]): 5, BA: 2}
    assert stopped.notes == (f"x.csv: 5 {mark.lower() or 'blank'} cells (the ballot ends there)",)


@pytest.mark.parametrize("mark", ["overvote", "undervote", "skipped", ""])
def test_f22_gaps_can_be_rejected_unless_nothing_follows(put, refusal, mark):
    error = refusal(read_ballots_csv, put("x.csv", f"rank1,rank2,rank3\nA,B,\nA,{mark},B\n"), line=3, gaps="reject")
    assert f"position 2 is {mark or 'blank'}" in str(error)
    at_the_end = put("y.csv", f"rank1,rank2,rank3\nA,B,{mark}\nA,{mark},{mark}\n")
    assert ballots(read_ballots_csv(at_the_end, gaps="reject")) == {AB: 1, Ballot.strict([0]): 1}
    voided = read_ballots_csv(
        put("z.csv", f"rank1,rank2,rank3\nA,{mark},B\n"), gaps="reject", clean="empty", allow_void=True
    )
    assert ballots(voided) == {Ballot(): 1}


def test_f22_only_marks_are_an_empty_ballot(put, refusal):
    path = put("x.csv", "rank1,rank2\novervote,\n,skipped\n,\n")
    assert ballots(read_ballots_csv(path, items=["A"])) == {Ballot(): 3}
    assert "nothing to rank" in str(refusal(read_ballots_csv, path))


def test_f22_a_declared_candidate_may_be_called_like_a_mark(put):
    profile = read_ballots_csv(put("x.csv", "rank1,rank2\nSkipped,A\nskipped,\n"), items=["A", "Skipped"])
    assert profile.items == ("A", "Skipped")
    assert ballots(profile)[BA] == 1


def test_gaps_must_be_a_policy(put):
    with pytest.raises(ParameterError, match="skip, stop, reject"):
        read_ballots_csv(put("x.csv", "rank1\nA\n"), gaps="close")


# ------------------------------------------------------------------ F10, F11, F18: the table itself


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("final", [True, False])
def test_f11_line_ends_change_nothing(put, end, final):
    lines = ["", "a,b", "1,2", "", "", "2,1 ", "\t"]
    profile = read_ballots_csv(put("x.csv", end.join(lines) + (end if final else "")))
    assert ballots(profile) == {AB: 1, BA: 1}


@pytest.mark.parametrize("reader", [read_ballots_csv, read_comparisons_csv])
def test_f10_encodings(put, refusal, reader):
    table = "left,right,winner,caf\u00e9\n1,2,tie,3\n" if reader is read_comparisons_csv else "caf\u00e9,b\n1,2\n"
    plain, marked = reader(put("a.csv", table)), reader(put("b.csv", b"\xef\xbb\xbf" + table.encode()))
    assert plain.items == marked.items
    for wide in (table.encode("utf-16"), b"\xfe\xff" + table.encode("utf-16-be")):
        read = reader(put("c.csv", wide))
        assert read.items == plain.items
        assert "c.csv: read as UTF-16, which its first bytes say it is" in read.notes
    assert "UTF-16 or UTF-32" in str(refusal(reader, put("c.csv", table.encode("utf-16-le"))))
    assert "UTF-32" in str(refusal(reader, put("c.csv", table.encode("utf-32"))))
    for wide, where in ((table.encode("utf-16") + b"x", 2 + 2 * len(table)), (b"\xff\xfea\0\0\xdcb\0", 4)):
        assert f"at offset {where} is not UTF-16" in str(refusal(reader, put("c.csv", wide)))
    latin = table.encode("latin-1")
    error = refusal(reader, put("d.csv", latin))
    assert f"byte 0xe9 at offset {latin.index(0xE9)}" in str(error)


@pytest.mark.parametrize("before", ["\n", "\n\n\n", " \n\t\n", "\r\n\r\n"])
@pytest.mark.parametrize("row", ["1,x", "1"])
def test_f11_blank_lines_before_the_header_count_as_lines(put, refusal, before, row):
    lines = before.count("\n")
    refusal(read_ballots_csv, put("x.csv", f"{before}a,b\n1,2\n{row}\n"), line=lines + 3)
    refusal(read_comparisons_csv, put("y.csv", f"{before}left,right,winner\na,b,tie\na,b,{row}\n"), line=lines + 3)


def test_line_numbers_count_line_breaks_inside_quotes(put, refusal):
    refusal(read_ballots_csv, put("x.csv", '"a\nb",c\n1,2\n1,x\n'), line=4)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("tea,tea\n1,2\n", 1, ["'tea' occurs twice", "tea, tea"]),
        ("tea, tea \n1,2\n", 1, ["'tea' occurs twice"]),
        ("tea,count,count\n1,2,3\n", 1, ["'count' occurs twice"]),
        ("tea,\n1,\n", 1, ["column 2", "no name"]),
        ("1,2,3\n2,1,3\n", 1, ["no header", "1, 2, 3"]),
        ("a,b\n1,2,3\n", 2, ["2 cells, got 3", "a, b"]),
        ("a,b\n1,2\n1\n", 3, ["2 cells, got 1", "a, b"]),
        ("a,b\n1,2,\n", 2, ["2 cells, got 3"]),
        ("count\n3\n", 1, ["no column of ballots", "count"]),
        ("person,count,a\np,1,1\n", 1, ["person", "count"]),
        ("person,Voter,a\np,q,1\n", 1, ["only one column", "person, voter"]),
        ('"a,b\n1,2\n', None, ["not valid CSV"]),
        ('"a"x,b\n1,2\n', 1, ["not valid CSV"]),
        ('a,b\n"1"x,2\n', 2, ["not valid CSV"]),
        ("a,b\n1," + "2" * 140_000 + "\n", 2, ["not valid CSV", "131072"]),
    ],
)
def test_f18_a_broken_table_is_refused_with_its_columns(put, refusal, text, line, words):
    error = refusal(read_ballots_csv, put("x.csv", text), line=line)
    for word in words:
        assert word in str(error)


@pytest.mark.parametrize("text", ["", "\n\n", " \n"])
@pytest.mark.parametrize("reader", [read_ballots_csv, read_comparisons_csv])
def test_f18_an_empty_file_wants_a_header(put, refusal, reader, text):
    assert "header" in str(refusal(reader, put("x.csv", text)))


@pytest.mark.parametrize("header", ["a,b", "rank1,rank2", "a,b,count", "person,a,b"])
def test_f17_f18_a_header_alone_has_nothing_to_rank(put, refusal, header):
    error = refusal(read_ballots_csv, put("x.csv", f"{header}\n\n"))
    assert "nothing to rank" in str(error)
    assert ", ".join(header.split(",")) in str(error)


@pytest.mark.parametrize("header", ["Count,count,tea", "count,COUNT,tea", "Person,person,tea", "voter,VOTER,tea"])
def test_f18_a_special_column_twice_in_different_case_is_no_item(put, refusal, header):
    refusal(read_ballots_csv, put("x.csv", f"{header}\n1,1,1\n"), line=1)


def test_f18_numbers_as_item_names_need_more_than_numbers_in_the_header(put):
    path = put("x.csv", "1,2\n2,1\n")
    assert ballots(read_ballots_csv(path, items=["1", "2"])) == {BA: 1}


# ------------------------------------------------------------------ F19, F20: names


@pytest.mark.parametrize(
    "name", ["A: B, C", "O'Neil", "=1+1", "<b>x</b>", "\U0001f363", "\u05d3\u05d5\u05d3", "x" * 10_000]
)
def test_f19_names_are_read_exactly(put, tmp_path, name):
    quoted = '"' + name + '"'
    profile = read_ballots_csv(put("x.csv", f"{quoted},other\n2,1\n"))
    assert profile.items == (name, "other")
    listed = read_ballots_csv(put("y.csv", f"rank1,rank2\nother,{quoted}\n"), items=[name, "other"])
    assert ballots(listed) == ballots(profile) == {BA: 1}
    write_ballots_csv(profile, tmp_path / "z.csv")
    assert read_ballots_csv(tmp_path / "z.csv") == profile


def test_f19_names_are_compared_folded_and_respellings_are_noted(put):
    path = put("x.csv", "rank1,rank2\ncafe\u0301,Ana  B\nAna B,\n")
    profile = read_ballots_csv(path, items=["caf\u00e9", "Ana B"])
    assert ballots(profile) == {AB: 1, Ballot.strict([1]): 1}
    assert profile.notes == ("x.csv: 'Ana  B' taken as 'Ana B'", "x.csv: 'cafe\u0301' taken as 'caf\u00e9'")
    duels = read_comparisons_csv(put("y.csv", "left,right,winner\ncafe\u0301,tea,left\n"), items=["tea", "caf\u00e9"])
    assert (duels.left.tolist(), duels.right.tolist()) == ([1], [0])
    assert duels.notes == ("y.csv: 'cafe\u0301' taken as 'caf\u00e9'",)


def test_f19_one_item_spelled_two_ways_is_not_two_items(put):
    seen = read_ballots_csv(put("x.csv", "rank1,rank2\ncafe\u0301,tea\ntea,caf\u00e9\n"))
    assert (seen.m, seen.support) == (2, 2)
    duels = read_comparisons_csv(put("y.csv", "left,right,winner\ncafe\u0301,tea,left\ncaf\u00e9,tea,left\n"))
    assert duels.m == 2
    assert len(set(duels.left.tolist())) == 1


def test_f20_names_that_differ_by_case_warn_once(put):
    with pytest.warns(DataWarning, match="'Tea' and 'tea' differ only by case") as caught:
        profile = read_ballots_csv(put("x.csv", "Tea,tea\n1,2\n"))
    assert (profile.items, len(caught)) == (("Tea", "tea"), 1)
    with pytest.warns(DataWarning, match="'Tea' and 'tea' differ only by case") as caught:
        duels = read_comparisons_csv(put("y.csv", "left,right,winner\nTea,tea,left\n"))
    assert (duels.items, len(caught)) == (("Tea", "tea"), 1)


@pytest.mark.parametrize("reader", [read_ballots_csv, read_comparisons_csv])
def test_f20_equal_names_in_the_list_of_items(put, reader):
    path = put("x.csv", "left,right,winner\na,b,tie\n" if reader is read_comparisons_csv else "rank1\na\n")
    with pytest.raises(DataError, match="items 1 and 3 have the same name 'a'"):
        reader(path, items=["a", "b", "a"])


# ------------------------------------------------------------------ R1: one person, one ballot


@pytest.mark.parametrize("column", ["person", "voter", "Worker"])
@pytest.mark.parametrize("second", ["v1", " v1 ", "", "  "])
@pytest.mark.parametrize("clean", ["reject", "keep-first", "empty"])
def test_r1_a_person_with_two_ballots_or_without_a_name_is_refused(put, refusal, column, second, clean):
    path = put("x.csv", f"a,{column},b\n1,v1,2\n1,v2,2\n2,{second},1\n")
    error = refusal(read_ballots_csv, path, line=4, clean=clean)
    assert "one person gives one ballot" in str(error)
    assert repr(second.strip()) in str(error)


def test_r1_a_person_spelled_two_ways_is_one_person(put, refusal):
    path = put("x.csv", "person,a,b\nRen\u00e9 B,1,2\nRene\u0301  B,1,2\n")
    refusal(read_ballots_csv, path, line=3)


def test_persons_are_counted_and_not_kept(put):
    profile = read_ballots_csv(put("x.csv", "voter,a,b\nv1,1,2\nv2,1,2\nv3,,\n"))
    assert ballots(profile) == {AB: 2, Ballot(): 1}
    assert not any("v1" in note for note in profile.notes)


cells = st.one_of(st.sampled_from(["", "a", "b", "c", "overvote", "d", "1", " "]), st.text("ab1 ,;", max_size=3))


@given(
    rows=st.lists(st.tuples(st.lists(cells, min_size=3, max_size=3), st.integers(1, 10**20)), min_size=1, max_size=5),
    header=st.sampled_from([["rank1", "rank2", "rank3"], ["a", "b", "c"]]),
    gaps=st.sampled_from(["skip", "stop", "reject"]),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_r1_cleaning_never_changes_the_number_of_people(tmp_path_factory, rows, header, gaps):
    path = tmp_path_factory.getbasetemp() / "r1.csv"
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([[*header, "count"], *([*row, count] for row, count in rows)])
    items = None if header[0] == "a" else ["a", "b", "c"]
    people = sum(count for _, count in rows)
    for clean in ("keep-first", "empty"):
        profile = read_ballots_csv(path, items=items, clean=clean, gaps=gaps, allow_void=True)
        assert profile.people == people
        assert profile.items == ("a", "b", "c")
        assert max(abs(int(w)) for w in pairwise_margins(profile).flat) <= people
    result = read_or_refuse(read_ballots_csv, path, items=items, gaps=gaps)
    assert str(result).startswith("r1.csv:") if isinstance(result, DataError) else result == profile


def test_a_long_table_of_few_ballots_is_read_as_a_stream(put):
    rows = [f"{row}{' ' * 200}\n" for row in ("1,2", "2,1", "1,1", "1,")]
    path = put("x.csv", "a,b\n" + "".join(rows) * 10_000)
    assert path.stat().st_size > 8_000_000
    tracemalloc.start()
    try:
        profile = read_ballots_csv(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (profile.people, profile.support) == (40_000, 4)
    assert peak < 500_000


# ------------------------------------------------------------------ comparisons


def test_llmfao_is_read():
    duels = read_comparisons_csv(ROOT / "tests" / "data" / "llmfao.csv")
    assert (duels.records, duels.m, duels.items_source) == (8931, 59, "seen")
    assert duels.persons is not None
    assert len(duels.persons) == 124
    assert duels.items[int(duels.left[0])] == "Airoboros L2 70B"
    assert int(duels.outcome[0]) == 0
    assert duels.weight is None


def test_the_columns_of_comparisons_may_stand_anywhere_and_others_are_left_out(put):
    path = put("x.csv", "Winner,model,RIGHT,Left,Worker\nLEFT,m,b,a,w1\n right ,m,a,b,w2\nTie,m,a,b,w1\n")
    duels = read_comparisons_csv(path)
    assert (duels.left.tolist(), duels.right.tolist(), duels.outcome.tolist()) == ([0, 1, 1], [1, 0, 0], [1, -1, 0])
    assert duels.persons == ("w1", "w2")
    assert duels.person is not None
    assert duels.person.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("left,right,winner", "a,a,left", "compared with itself: 'a'"),
        ("left,right,winner", "a, a ,left", "compared with itself: 'a'"),
        ("left,right,winner", "cafe\u0301,caf\u00e9,left", "compared with itself"),
        ("left,right,winner", "a,b,c", "left, right or tie, or one of the two items, got 'c'"),
        ("left,right,winner", "a,b,", "got ''"),
        ("left,right,winner", "a,b,1", "got '1'"),
        ("left,right,winner", ",b,left", "blank"),
        ("left,right,winner", "a, ,left", "blank"),
        ("left,right,winner", "a,b", "3 cells, got 2"),
        ("left,right,winner", "a,b,left,", "3 cells, got 4"),
        ("left,right,winner,person", "a,b,left,", "person is blank"),
        ("left,right,winner,weight", "a,b,left,", "weight must be a finite number >= 0, got ''"),
        ("left,right,winner,weight", "a,b,left,-1", "got '-1'"),
        ("left,right,winner,weight", "a,b,left,nan", "got 'nan'"),
        ("left,right,winner,weight", "a,b,left,inf", "got 'inf'"),
        ("left,right,winner,weight", "a,b,left,1/0", "got '1/0'"),
        ("left,right,winner,weight", "a,b,left,1e999999", "got '1e999999'"),
        ("left,right,winner,weight", "a,b,left,\uff11", "weight"),
        ("left,right,winner,weight", "a,b,left,1_0", "got '1_0'"),
    ],
)
def test_m7_a_faulty_comparison_is_refused_with_its_line(put, refusal, header, row, words):
    good = {3: "a,b,left", 4: "a,b,left,1"}[header.count(",") + 1]
    error = refusal(read_comparisons_csv, put("x.csv", f"{header}\n{good}\n{row}\n"), line=3)
    assert words in str(error)


@pytest.mark.parametrize(
    ("header", "missing"),
    [("left,right", "winner"), ("x,y,left", "right"), ("left,winner", "right"), ("right,winner", "left")],
)
def test_f18_a_missing_column_is_named_with_those_found_and_wanted(put, refusal, header, missing):
    error = refusal(read_comparisons_csv, put("x.csv", f"{header}\na,b\n"), line=1)
    assert f"column {missing!r} is missing" in str(error)
    assert "wanted left, right, winner" in str(error)
    assert ", ".join(header.split(",")) in str(error)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("left,right,winner", ("left", "right", "tie")),
        ("model_a,model_b,winner", ("model_a", "model_b", "tie (bothbad)")),
        ("Model A,Model B,Winner", ("MODEL_A", "Model-B", "Tie (both bad)")),
        ("model_a,model_b,winner", ("a", "b", "both_bad")),
        ("model_a,model_b,winner", ("left", "right", "draw")),
        ("item_a,item_b,winner", ("gpt", "claude", "tie")),
        ("left,right,winner", ("gpt", " claude ", "Tie")),
        ("a,b,winner", ("A", "B", "tie")),
    ],
)
@pytest.mark.parametrize("person", ["judge", "user", "annotator", "rater", "Worker ID", "user_id", "person"])
def test_the_words_of_other_tools_for_comparisons_are_known(put, header, words, person):
    rows = "".join(f"gpt,claude,{word},p{i % 2},{i}/2\n" for i, word in enumerate(words))
    path = put("x.csv", f"{header},{person},wt\n{rows}")
    assert file_kind(path) == "comparisons"
    duels = read_comparisons_csv(path, items=["gpt", "claude"])
    assert duels.outcome.tolist() == [1, -1, 0]
    assert duels.persons == ("p0", "p1")
    assert duels.weight == (0, Fraction(1, 2), 1)
    assert duels.notes == ()


def test_a_side_that_the_header_names_comes_before_an_item_of_that_name(put):
    rows = "right,left,left\nleft,tie,tie\nb,a,a\nmodel_b,model_a,model_a\n"
    duels = read_comparisons_csv(put("x.csv", f"left,right,winner\n{rows}"))
    assert duels.outcome.tolist() == [1, 0, -1, -1]  # a and model_a are names there, and no sides of this header
    sides = read_comparisons_csv(put("y.csv", "model_a,model_b,winner\nmodel_b,model_a,model_a\n"))
    assert sides.outcome.tolist() == [1]


def test_columns_of_comparisons_that_are_left_out_are_named_and_people_are_asked_for(put):
    path = put("x.csv", "left,right,winner,who,turn\na,b,left,ann,1\n")
    assert read_comparisons_csv(path).notes == (
        "x.csv: the columns 'who', 'turn' are left out; if one says who judged, call it 'person': without it, people "
        "are not protected as such",
    )
    named = read_comparisons_csv(put("y.csv", "left,right,winner,judge,turn\na,b,left,ann,1\n"))
    assert named.notes == ("y.csv: the column 'turn' is left out",)


@pytest.mark.parametrize("name", ["n", "freq", "Votes", "total"])
def test_a_number_of_times_is_not_left_out(put, refusal, name):
    error = refusal(read_comparisons_csv, put("x.csv", f"left,right,winner,{name}\na,b,left,40\n"), line=1)
    assert f"comparisons have no {name!r}" in str(error)


def test_two_columns_of_persons_are_refused(put, refusal):
    error = refusal(read_comparisons_csv, put("x.csv", "left,right,winner,judge,user\na,b,left,x,y\n"), line=1)
    assert "only one column may name the person, found judge, user" in str(error)


def test_every_fault_of_comparisons_is_told_at_once(put, refusal):
    rows = "a,a,left\na,b,c\na,b\n,b,left\na,b,left\nz,b,q\n"
    error = refusal(read_comparisons_csv, put("x.csv", f"left,right,winner\n{rows}"), items=["a", "b"], line=2)
    assert [line for line, _ in error.faults] == [2, 3, 4, 5, 7, 7]
    for words in ("compared with itself: 'a'", "got 'c'", "3 cells, got 2", "an item is blank", "item 'z'", "got 'q'"):
        assert words in str(error)


def test_m4_no_comparison_is_nothing_to_rank(put, refusal):
    assert "nothing to rank" in str(refusal(read_comparisons_csv, put("x.csv", "left,right,winner\n\n")))


def test_m7_all_weights_zero_is_nothing_to_rank(put):
    with pytest.raises(DataError, match="nothing to rank"):
        read_comparisons_csv(put("x.csv", "left,right,winner,weight\na,b,left,0\nb,c,tie,0.0\nc,a,left,0\n"))


def test_m7_weights_are_exact(put):
    path = put("x.csv", "left,right,winner,weight\na,b,left,0.1\na,b,left,1/3\na,b,tie,2e1\nb,a,left,0\n")
    duels = read_comparisons_csv(path)
    assert duels.weight == (Fraction(1, 10), Fraction(1, 3), Fraction(20), Fraction(0))
    assert pairwise_margins(duels).tolist() == [[0, Fraction(13, 30)], [Fraction(-13, 30), 0]]


@pytest.mark.parametrize("value", ["3", "1000000"])
def test_m7_a_count_of_comparisons_is_not_ignored(put, value):
    path = put("x.csv", f"left,right,winner,count\na,b,left,{value}\n")
    result = read_or_refuse(read_comparisons_csv, path)
    if isinstance(result, DataError):
        assert "count" in str(result)
    else:
        assert int(pairwise_margins(result)[0, 1]) == int(value)


def test_f18_a_column_of_comparisons_twice_in_different_case_is_refused(put, refusal):
    refusal(read_comparisons_csv, put("x.csv", "left,Left,right,winner\na,c,b,left\n"), line=1)


def test_comparisons_with_a_public_list_of_items(put, refusal):
    path = put("x.csv", "left,right,winner\na,b,left\n")
    duels = read_comparisons_csv(path, items=["c", "b", "a"])
    assert (duels.items, duels.items_source) == (("c", "b", "a"), "declared")
    assert (duels.left.tolist(), duels.right.tolist()) == ([2], [1])
    assert "unknown item 'b'" in str(refusal(read_comparisons_csv, path, line=2, items=["a", "c"]))


# ------------------------------------------------------------------ the writers


def test_the_written_tables(tmp_path):
    profile = Profile.from_ballots(["x, y", 'a "b"'], {AB: 10**20, BA: 1, Ballot.strict([1]): 2, Ballot(): 3})
    write_ballots_csv(profile, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == (
        b'"x, y","a ""b""",count\n1,2,100000000000000000000\n2,1,1\n,1,2\n,,3\n'
    )
    write_ballots_csv(profile, tmp_path / "b.csv", layout="positions")
    assert (tmp_path / "b.csv").read_bytes() == (
        b'rank1,rank2,count\n"x, y","a ""b""",100000000000000000000\n"a ""b""","x, y",1\n"a ""b""",,2\n,,3\n'
    )


@pytest.mark.parametrize("name", ["count", "Person", "VOTER", "worker", " a"])
def test_an_item_named_like_a_special_column_is_refused_by_the_writer(tmp_path, name):
    with pytest.raises(DataError, match=f"cannot hold the name {name!r}"):
        write_ballots_csv(Profile.from_ballots([name, "b"], [AB]), tmp_path / "x.csv")


def test_a_tie_is_refused_by_the_writer_of_positions(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("precious")
    profile = Profile.from_ballots(list("ab"), [AB, Ballot(((0, 1),))])
    with pytest.raises(DataError, match="cannot hold a tie"):
        write_ballots_csv(profile, path, layout="positions")
    assert path.read_text() == "precious"


@pytest.mark.parametrize("items", [("1", "2"), ("rank1", "rank2"), ("left", "right"), ("1st", "2nd")])
def test_places_of_items_with_strange_names_come_back_or_are_refused(tmp_path, items):
    profile = Profile.from_ballots(items, {BA: 3})
    path = tmp_path / "x.csv"
    try:
        write_ballots_csv(profile, path)
    except DataError:
        return
    assert read_ballots_csv(path) == profile


def test_comparisons_are_written_with_their_persons_and_weights(tmp_path):
    duels = Comparisons.from_columns(
        ["=a", "b, c"], [0, 1], [1, 0], [0, -1], person=[0, 0], persons=("p",), weight=[Fraction(1, 3), 2]
    )
    write_comparisons_csv(duels, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == (
        'left,right,winner,person,weight\n=a,"b, c",tie,p,1/3\n"b, c",=a,right,p,2\n'
    )


# ------------------------------------------------------------------ N is public, so no answer may change it


def test_r2_a_blank_ballot_of_one_column_counts(put, refusal):
    """Neighbours: the second of three people abstains, or does not. The number of people is 3 either way."""
    for text in ('rank1\na\n""\nb\n', 'rank1\na\n" "\nb\n', "rank1\na\na\nb\n"):
        assert read_ballots_csv(put("one.csv", text), items=["a", "b"]).people == 3
    assert read_ballots_csv(put("p.csv", 'tea\n1\n""\n1\n')).people == 3
    for text in ("rank1\na\n\nb\n", "rank1\na\nb\n\n"):
        error = refusal(read_ballots_csv, put("two.csv", text), items=["a", "b"])
        assert "may be a blank ballot" in str(error)


def test_a_column_that_is_no_item_is_refused_by_its_numbers(put, refusal):
    error = refusal(read_ballots_csv, put("x.csv", "guest,tea,coffee\n17,1,2\n900,2,1\n"), line=2)
    assert "the column 'guest' holds no places in 2 of 2 rows" in str(error)
    assert "got '17' for 'guest'" in str(error)
    assert "remove it or give the list of items" in str(error)


def test_columns_beyond_the_list_of_items_are_left_out_aloud(put):
    path = put("x.csv", "ID;Tee;Kaffee\n17;1;2\n900;2;1\n")
    profile = read_ballots_csv(path, items=["Tee", "Kaffee"])
    assert (profile.items, profile.people) == (("Tee", "Kaffee"), 2)
    assert profile.notes[0] == "x.csv: no part of ballots, and not read: the column 'ID'"
    assert "--person-column keeps the last ballot of each person, and the column 'ID' may say who" in profile.notes[1]


def test_comparisons_read_as_ballots_say_so(put, refusal):
    error = refusal(read_ballots_csv, put("x.csv", "left,right,winner\na,b,left\n"), line=1)
    assert "read_comparisons_csv" in str(error)


def test_r1_a_person_in_another_case_is_the_same_person(put, refusal):
    refusal(read_ballots_csv, put("x.csv", "person,a,b\nAna,1,2\nANA,2,1\n"), line=3)

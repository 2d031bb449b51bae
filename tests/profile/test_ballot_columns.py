"""Which columns of a table are ballots: others never become items or positions, and numbers of people are not lost."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError
from psephos.profile import Ballot, read_ballots_csv
from psephos.profile.csv_header import ordinal

ABC = Ballot.strict([0, 1, 2])
AB, BA = Ballot.strict([0, 1]), Ballot.strict([1, 0])


def ballots(profile):
    return dict(profile.ballots())


# ------------------------------------------------------------------ columns that are no items


@pytest.mark.parametrize(
    "name",
    ["VoterID", "Respondent", "voter_id", "ID", "index", "row", "No", "Nr.", "#", "Email", "E-mail address",
     "Your name", "Timestamp", "Start Date (UTC)", "IP Address", "Response ID", "Comments", "Unnamed: 3"],
)  # fmt: skip
@pytest.mark.parametrize("clean", ["reject", "empty"])
def test_a_name_that_means_an_identity_is_no_item_unless_said_so(put, refusal, name, clean):
    path = put("x.csv", f"{name},A,B\n1,1,2\n2,2,1\n")
    error = str(refusal(read_ballots_csv, path, line=1, clean=clean))
    assert f"the column {name!r} looks like no item" in error
    for option in ("--columns", "--ignore", "--person-column", "--count-column", "--items"):
        assert option in error
    for said in ({"ignore": name}, {"person_column": name}, {"items": ["A", "B"]}, {"columns": "A,B"}):
        assert ballots(read_ballots_csv(path, clean=clean, **said)) == {AB: 1, BA: 1}
    assert read_ballots_csv(path, columns=[name, "A", "B"]).items == (name, "A", "B")


@pytest.mark.parametrize(
    "name", ["votes", "n", "freq", "Frequency", "weights", "total", "Number of voters", "vote_count"]
)
@pytest.mark.parametrize("header", ["A,B", "rank1,rank2"])
@pytest.mark.parametrize("items", [None, ["A", "B"]])
def test_a_number_of_people_is_never_left_out_unasked(put, refusal, name, header, items):
    rows = "1,2,1.0\n2,1,2.0\n" if header == "A,B" else "A,B,1.0\nB,A,2.0\n"
    path = put("x.csv", f"{header},{name}\n{rows}")
    error = str(refusal(read_ballots_csv, path, line=1, items=items))
    assert repr(name) in error
    assert "--count-column" in error
    assert "--ignore" in error
    assert ballots(read_ballots_csv(path, items=items, count_column=name)) == {AB: 1, BA: 2}
    assert ballots(read_ballots_csv(path, items=items, ignore=name)) == {AB: 1, BA: 1}


def test_all_such_columns_are_told_at_once(put, refusal):
    path = put("x.csv", "Respondent,tea,milk,freq\n17,1,2,30\n18,2,1,4\n")
    assert "the columns 'Respondent', 'freq' look like no item" in str(refusal(read_ballots_csv, path))
    profile = read_ballots_csv(path, ignore="Respondent", count_column="freq")
    assert (profile.items, ballots(profile)) == (("tea", "milk"), {AB: 30, BA: 4})


@pytest.mark.parametrize("clean", ["reject", "keep-first", "empty"])
def test_a_column_of_other_numbers_is_refused_whatever_its_name(put, refusal, clean):
    """Such a column would void all ballots under a cleaning policy."""
    large = put("x.csv", "guest,A,B\n" + "".join(f"{k},1,2\n" for k in range(1, 50)))
    assert "the column 'guest' holds no places in 46 of 49 rows" in str(refusal(read_ballots_csv, large, clean=clean))
    small = put("y.csv", "guest,A,B,C\n1,1,2,3\n2,2,1,3\n3,1,3,2\n4,1,2,3\n")
    error = str(refusal(read_ballots_csv, small, clean=clean))
    assert "the column 'guest' is hardly an item" in error
    assert "--ignore 'guest'" in error
    assert read_ballots_csv(small, columns="guest,A,B,C", clean=clean).m == 4
    counts = put("z.csv", "A,B,C,mult\n1,2,3,2\n2,1,3,3\n1,3,2,1\n")
    assert "the column 'mult' is hardly an item" in str(refusal(read_ballots_csv, counts, clean=clean))


def test_ties_alone_do_not_make_a_column_suspicious(put):
    rows = "1,1,2\n2,2,1\n1,2,1\n3,2,1\n"
    assert read_ballots_csv(put("x.csv", f"A,B,C\n{rows}")).people == 4
    assert read_ballots_csv(put("y.csv", "A,B,C,count\n1,2,1,5\n2,1,1,5\n1,2,2,5\n")).people == 15


def test_with_a_list_of_items_other_columns_are_left_out_with_a_note(put):
    for text in ("When,A,B,Mood\nnow,1,2,blue\n", "When,rank1,rank2,Mood\nnow,A,B,blue\n"):
        profile = read_ballots_csv(put("x.csv", text), items=["A", "B"])
        assert ballots(profile) == {AB: 1}
        assert profile.notes == ("x.csv: no part of ballots, and not read: the columns 'When', 'Mood'",)


def test_an_address_is_no_item_even_in_a_header(put, refusal):
    """A file without its header has somebody's answers in the first line."""
    path = put("x.csv", "ana@example.org,A,B\n,1,2\n,2,1\n")
    assert "'ana@example.org' looks like no item" in str(refusal(read_ballots_csv, path, line=1))
    assert read_ballots_csv(put("y.csv", "2024-05-01,2024-05-08\n1,2\n")).m == 2


def test_answers_are_not_taken_for_a_second_line_of_the_header(put, refusal):
    """Nobody's ballot may be read as names, or the number of people would depend on it."""
    for row in ("Tea,,Water", ",Tea,Water", "Tea,Milk,Water", ",,"):
        error = refusal(read_ballots_csv, put("x.csv", f"rank1,rank2,\n{row}\nMilk,Tea,\n"), line=1)
        assert "column 3 of the header has no name" in str(error)


# ------------------------------------------------------------------ positions


@pytest.mark.parametrize(
    "header",
    ["First,Second,Third", "First choice,Second choice,Third choice", "1st Choice,2nd Choice,3rd Choice",
     "Choice #1,Choice #2,Choice #3", "Your first choice?,Your second choice?,Your third choice?",
     "Drinks [First],Drinks [Second],Drinks [Third]", "Drinks - Rank 1,Drinks - Rank 2,Drinks - Rank 3",
     "Drinks: 1st,Drinks: 2nd,Drinks: 3rd", "First choice *,Second choice *,Third choice *"],
)  # fmt: skip
def test_positions_in_words_are_understood_and_other_columns_are_no_cells_of_ballots(put, header):
    plain = put("x.csv", f"{header}\na,b,c\n")
    assert ballots(read_ballots_csv(plain, items=list("abc"))) == {ABC: 1}
    wide = put("y.csv", f"Timestamp,Email,{header},Anything else?\nnow,ana@x.org,a,b,c,nothing\n")
    for options in ({}, {"layout": "positions"}, {"clean": "keep-first"}):
        profile = read_ballots_csv(wide, **options)
        assert (profile.items, ballots(profile)) == (("a", "b", "c"), {ABC: 1})


def test_layout_positions_reads_no_column_that_is_not_one(put, refusal):
    """Read as positions, time stamps and addresses were unknown items, and every ballot was void."""
    path = put("x.csv", "Timestamp,Email,Best drink,Next best\nnow,ana@x.org,a,b\nnow,bo@x.org,b,a\n")
    for clean in ("reject", "keep-first", "empty"):
        error = str(refusal(read_ballots_csv, path, line=1, layout="positions", clean=clean, items=["a", "b"]))
        assert "--columns; columns found: Timestamp, Email, Best drink, Next best" in error
    named = read_ballots_csv(path, layout="positions", columns="Best drink,Next best", items=["a", "b"])
    assert ballots(named) == {AB: 1, BA: 1}
    assert read_ballots_csv(path, columns=["Best drink", "Next best"], items=["a", "b"]) == named


def test_a_question_is_read_whole_or_not_at_all(put, refusal):
    path = put("x.csv", "Drinks [First],Drinks [Second],Drinks [Last],Mood\na,b,c,blue\n")
    for options in ({}, {"layout": "positions"}, {"items": list("abc")}):
        assert "--columns 'Drinks'" in str(refusal(read_ballots_csv, path, line=1, **options))
    assert ballots(read_ballots_csv(path, columns="Drinks", layout="positions")) == {ABC: 1}


def test_a_list_of_which_one_item_has_no_column_is_an_error_beside_positions(put, refusal):
    path = put("x.csv", "Choice 1,tea,milk\ntea,1,2\n")
    assert "no column for the item 'mate'" in str(refusal(read_ballots_csv, path, items=["tea", "milk", "mate"]))


def test_bare_numbers_are_positions_where_that_was_said(put, refusal):
    path = put("x.csv", "Timestamp,2,1\nnow,b,a\n")
    assert ballots(read_ballots_csv(path, layout="positions")) == {AB: 1}
    grid = put("y.csv", "Timestamp,drinks[1],drinks[2]\nnow,a,b\n")
    assert "--layout" in str(refusal(read_ballots_csv, grid))
    assert ballots(read_ballots_csv(grid, layout="positions")) == {AB: 1}
    assert ballots(read_ballots_csv(grid, items=["a", "b"])) == {AB: 1}


def test_an_item_that_is_called_like_a_position_is_not_taken_for_one(put, refusal):
    path = put("x.csv", "First Choice Foods,Best Foods\n1,2\n2,1\n")
    assert "--layout" in str(refusal(read_ballots_csv, path))
    assert read_ballots_csv(path, layout="places").items == ("First Choice Foods", "Best Foods")
    assert read_ballots_csv(path, items=["First Choice Foods", "Best Foods"]).people == 2


@pytest.mark.parametrize(
    ("text", "number"),
    [("first", 1), ("Twentieth choice", 20), ("RANK_3", 3), ("12th preference", 12), ("Choice No. 4", 4), ("#2", None),
     ("first name", None), ("rank", None), ("Rank 2nd", 2), ("second\n choice", 2),
     ("0th", 0), ("Tea", None), ("1", None), ("\u00b2nd", None),
     ("Option 1", None)],
)  # fmt: skip
def test_ordinals(text, number):
    assert ordinal(text) == number


# ------------------------------------------------------------------ naming columns


def test_columns_may_be_named_one_by_one_between_commas_or_by_their_question(put, refusal):
    path = put("x.csv", '"Which, first?",Drinks [a],Drinks [b],Snacks [c],Snacks [d]\nz,1,2,2,1\n')
    for columns in (
        "Drinks",
        "drinks",
        "Drinks [a],Drinks [b]",
        ["Drinks [a]", "Drinks [b]"],
        "Drinks [a], Drinks [b]",
    ):
        assert read_ballots_csv(path, columns=columns).items == ("a", "b")
    assert "--columns 'Drinks'" in str(refusal(read_ballots_csv, path))
    both = read_ballots_csv(path, ignore="Which, first?", columns=["Drinks", "Snacks"])
    assert both.items == ("a", "b", "c", "d")
    quoted = read_ballots_csv(path, columns='"Which, first?"', layout="positions")
    assert quoted.items == ("z",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "A,X"}, "--columns: no column is named 'X'; columns found: A, B, who"),
        ({"ignore": "X"}, "--ignore: no column is named 'X'"),
        ({"count_column": "X"}, "--count-column: no column is named 'X'"),
        ({"person_column": ""}, "--person-column: no column is named ''"),
        ({"columns": ""}, "--columns names no column"),
        ({"columns": "A,B", "ignore": "A"}, "--columns and --ignore both name 'A'"),
        ({"columns": "A,who", "person_column": "who"}, "both name 'who'"),
        ({"person_column": "who", "count_column": "A"}, "exclude each other"),
        ({"columns": "A,who", "items": ["A"]}, "--columns names the column 'who', and the list of items does not"),
    ],
)
def test_columns_that_are_not_there_or_named_twice(put, refusal, options, words):
    assert words in str(refusal(read_ballots_csv, put("x.csv", "A,B,who\n1,2,x\n"), line=1, **options))


# ------------------------------------------------------------------ persons


def test_a_person_who_answers_twice_has_one_ballot_the_last(put):
    text = "Email,A,B\nana@x.org,9,9\nbo@x.org,1,2\n ANA@x.org ,2,1\n"
    profile = read_ballots_csv(put("x.csv", text), person_column="Email")
    assert ballots(profile) == {AB: 1, BA: 1}  # what a later ballot replaces is not even read
    assert profile.notes == ("x.csv: left out 1 ballot of people who answered again later: the last one counts",)
    assert not any("ana" in note for note in profile.notes)


def test_without_a_named_column_of_persons_a_note_says_that_nobody_is_merged(put):
    text = "Email,rank1\nana@x.org,tea\nana@x.org,tea\n"
    profile = read_ballots_csv(put("x.csv", text))
    assert profile.people == 2
    assert (
        "--person-column keeps the last ballot of each person, and the column 'Email' may say who" in profile.notes[1]
    )


@pytest.mark.parametrize("nobody", ["", "anonymous", "NaN", "N/A"])
def test_a_person_without_a_name_is_a_fault(put, refusal, nobody):
    path = put("x.csv", f"Email,A,B\nana@x.org,1,2\n{nobody},1,2\n")
    assert repr(nobody.lower()) in str(refusal(read_ballots_csv, path, line=3, person_column="Email"))


def test_a_column_of_persons_that_would_leave_most_ballots_out_is_refused(put, refusal):
    path = put("x.csv", "Club,A,B\n" + "north,1,2\n" * 3 + "south,2,1\n")
    assert "2 of 4" not in str(read_ballots_csv(path, person_column="Club").notes)
    worse = put("y.csv", "Club,A,B\n" + "north,1,2\n" * 9 + "south,2,1\n")
    assert "8 of 10 ballots would be left out" in str(refusal(read_ballots_csv, worse, person_column="Club"))
    assert read_ballots_csv(worse, person_column="Club", allow_void=True).people == 2


# ------------------------------------------------------------------ cells


def test_cells_as_programs_write_them(put):
    text = ",A,B,count\n0,1.0,2.00,3.0\n1,First,#2,1\n2,nan,1,1\n3,NULL,N/A,1\n"
    profile = read_ballots_csv(put("x.csv", text))
    assert ballots(profile) == {AB: 4, Ballot.strict([1]): 1, Ballot(): 1}
    assert profile.notes[:4] == (
        "x.csv: the first column, without a name, counts rows and is left out",
        "x.csv: cells such as 'nan' taken as blanks",
        "x.csv: cells such as 'First' taken as numbers",
        "x.csv: cells such as '1.0' taken as whole numbers",
    )
    positions = read_ballots_csv(put("y.csv", "rank1,rank2\nA,NaN\nNone,B\n"), items=["A", "B", "None"])
    assert ballots(positions) == {Ballot.strict([0]): 1, Ballot.strict([2, 1]): 1}  # a listed item is never a blank


@pytest.mark.parametrize("count", ["1,000", "1.000", "3.5", "3,5", "three", "1e3"])
def test_counts_that_may_be_thousands_or_fractions_are_none(put, refusal, count):
    assert "count must be" in str(refusal(read_ballots_csv, put("x.csv", f"A;B;count\n1;2;{count}\n"), line=2))


def test_a_first_column_without_a_name_that_counts_no_rows_is_a_fault(put, refusal):
    for rows, line in (("1,1,2\n1,2,1\n", 3), ("Ana,1,2\n", 2), ("2,1,2\n1,2,1\n", 3), (",1,2\n", 2)):
        error = refusal(read_ballots_csv, put("x.csv", f",A,B\n{rows}"), line=line)
        assert "the first column has no name, and does not count rows" in str(error)


def test_the_delimiter_is_a_tab_or_what_there_is_more_of(put):
    assert read_ballots_csv(put("x.csv", "tea, green;milk;mate\n1;2;3\n")).items == ("tea, green", "milk", "mate")
    assert read_ballots_csv(put("y.csv", "tea, green\tmilk; oat\n1\t2\n")).items == ("tea, green", "milk; oat")


def test_places_that_count_from_0_are_refused_with_the_reason(put, refusal):
    error = str(refusal(read_ballots_csv, put("x.csv", "A,B\n0,1\n0,1\n1,0\n"), line=2))
    assert "got '0' for 'A' (places count from 1: where they count from 0, add 1 to each)" in error


def test_one_cell_may_hold_a_whole_order_of_listed_items(put, refusal):
    path = put("x.csv", 'Order\na;b;\n"b, a"\na\na;z;\n')
    options = {"columns": "Order", "layout": "positions"}
    error = str(refusal(read_ballots_csv, path, line=5, items=["a", "b"], **options))
    assert "unknown item 'a;z;' (several items in one cell?)" in error
    read = read_ballots_csv(path, items=["a", "b", "z"], **options)
    assert ballots(read) == {AB: 1, BA: 1, Ballot.strict([0]): 1, Ballot.strict([0, 2]): 1}
    with pytest.raises(DataError, match="looks like several items at once"):
        read_ballots_csv(path, **options).with_items_public()


WORDS = [
    "Tea", "Milk", "Email", "Timestamp", "votes", "count", "person", "First", "2nd choice", "rank1", "rank2", "Q [Tea]",
    "Q [Milk]", "Q [1]", "Q [2]", "Q - Tea", "Q: Milk", "1", "2", "", "#", "a, b", "No", "Your first choice?", "[x]",
    ": ",
]  # fmt: skip
CELLS = ["", "1", "2", "1.0", "1st", "Tea", "Milk", "nan", "ana@example.org", "Tea;Milk", "0", "9", "x"]


@given(
    header=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    rows=st.lists(st.lists(st.sampled_from(CELLS), min_size=5, max_size=5), min_size=1, max_size=4),
    options=st.fixed_dictionaries(
        {},
        optional={
            "layout": st.sampled_from(["places", "positions"]),
            "items": st.sampled_from([["Tea", "Milk"], ["1", "2"]]),
            "clean": st.sampled_from(["keep-first", "empty"]),
            "columns": st.sampled_from(["Q", "Tea,Milk", "First,2nd choice", "Email"]),
            "ignore": st.sampled_from(["Email", "votes", ["a, b"], "Timestamp,No"]),
            "count_column": st.just("votes"),
            "person_column": st.just("Email"),
            "allow_void": st.booleans(),
        },
    ),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_whatever_the_header_a_file_is_read_for_all_its_people_or_refused(tmp_path_factory, header, rows, options):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    rows = [row[: len(header)] for row in rows]
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])
    try:
        profile = read_ballots_csv(path, **options)
    except DataError:
        return
    columns = options.get("columns")
    if "count" not in header and "count_column" not in options:
        emails = {row[header.index("Email")] for row in rows} if options.get("person_column") else None
        assert profile.people == (len(rows) if emails is None else len(emails))
    if "Email" in header and columns != "Email":
        others = {cell for row in rows for name, cell in zip(header, row, strict=True) if name != "Email"}
        private = {row[header.index("Email")] for row in rows} - others
        assert profile.items_source == "declared" or not private & set(profile.items)

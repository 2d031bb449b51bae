"""Ballots as tools for forms and data export them: right, or one clear message; and no other cell is ever published.

Every file holds the same four answers of different people, and in other columns what must never come out of a
release: each of those cells has the word SECRET in it, or is a time, an address or a number that no item is.
"""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from psephos.cli.inputs import read_data
from psephos.cli.main import app
from psephos.cli.options import BallotOptions
from psephos.errors import DataError
from psephos.pairwise import pairwise_margins
from psephos.profile import Profile, read_ballots_csv

ITEMS = ["Tea", "Coffee", "Water"]
WANTED = Profile.from_rankings(
    [("Tea", "Coffee", "Water"), ("Tea", "Water"), ("Coffee", "Tea", "Water"), ("Tea", "Coffee", "Water")], items=ITEMS
)
PLACES = [("1", "2", "3"), ("1", "", "2"), ("2", "1", "3"), ("1", "2", "3")]
ORDERS = [("Tea", "Coffee", "Water"), ("Tea", "Water", ""), ("Coffee", "Tea", "Water"), ("Tea", "Coffee", "Water")]
NTH = {"1": "1st choice", "2": "2nd choice", "3": "3rd choice", "": ""}
PEOPLE = [f"secret{k}@example.org" for k in range(4)]
STAMPS = [f"2024/05/0{k + 1} 10:11:1{k} AM GMT+2" for k in range(4)]
IDS = [str(17170000 + k) for k in range(4)]


def table(header, rows, mark=","):
    """A table as text; cells that hold the mark are quoted."""
    lines = [header, *rows]
    return "".join(mark.join(f'"{c}"' if {mark, '"', "\n"} & set(c) else c for c in line) + "\n" for line in lines)


def columns(*parts):
    """Rows from columns: lists of cells, or lists of tuples of cells."""
    return [sum((cell if isinstance(cell, tuple) else (cell,) for cell in row), ()) for row in zip(*parts, strict=True)]


GOOGLE = table(
    ["Timestamp", "Email Address", "Rank the drinks [Tea]", "Rank the drinks [Coffee]", "Rank the drinks [Water]"],
    columns(STAMPS, PEOPLE, [tuple(NTH[place] for place in row) for row in PLACES]),
)
GOOGLE_POSITIONS = table(
    ["Timestamp", "Username", "Your drinks [First choice]", "Your drinks [Second choice]", "Your drinks [Third choice]",
     "Any comments?"],
    columns(STAMPS, PEOPLE, ORDERS, ["SECRET", "", "SECRET, too", "-"]),
)  # fmt: skip
MICROSOFT = table(
    ["ID", "Start time", "Completion time", "Email", "Name", "Rank the drinks"],
    columns(IDS, STAMPS, STAMPS, ["anonymous"] * 4, PEOPLE, [";".join(filter(None, row)) + ";" for row in ORDERS]),
)
QUALTRICS = table(
    ["StartDate", "EndDate", "IPAddress", "ResponseId", "RecipientEmail", "Q1_1", "Q1_2", "Q1_3"],
    [
        ("Start Date", "End Date", "IP Address", "Response ID", "Recipient Email", "Rank the\ndrinks - Tea",
         "Rank the drinks - Coffee", "Rank the drinks - Water"),
        tuple(f'{{""ImportId"":""{k}""}}' for k in range(8)),
        *columns(STAMPS, STAMPS, ["192.0.2.7"] * 4, [f"R_SECRET{k}" for k in range(4)], PEOPLE, PLACES),
    ],
)  # fmt: skip
SURVEYMONKEY = table(
    ["Respondent ID", "Collector ID", "Start Date", "End Date", "IP Address", "Email Address", "Custom Data 1",
     "Rank the drinks", "", "", "Anything else?"],
    [
        ("", "", "", "", "", "", "", "Tea", "Coffee", "Water", "Open-Ended Response"),
        *columns(IDS, ["77"] * 4, STAMPS, STAMPS, ["192.0.2.7"] * 4, PEOPLE, [""] * 4, PLACES, ["SECRET"] * 4),
    ],
)  # fmt: skip
LIMESURVEY = table(
    ["Response ID", "Date submitted", "Last page", "Start language", "Seed", "Drinks [Rank 1]", "Drinks [Rank 2]",
     "Drinks [Rank 3]"],
    columns(["1", "2", "3", "4"], STAMPS, ["3"] * 4, ["SECRET"] * 4, IDS, ORDERS),
)  # fmt: skip
LIMESURVEY_CODES = table(
    ["id", "submitdate", "lastpage", "startlanguage", "seed", "drinks[1]", "drinks[2]", "drinks[3]"],
    columns(["1", "2", "3", "4"], STAMPS, ["3"] * 4, ["SECRET"] * 4, IDS, ORDERS),
)
TYPEFORM = table(
    ["#", "What is your first choice?", "And your second choice?", "Lastly, your third choice?", "Start Date (UTC)",
     "Submit Date (UTC)", "Network ID", "Tags"],
    columns([f"SECRET{k}" for k in range(4)], ORDERS, STAMPS, STAMPS, ["SECRET"] * 4, [""] * 4),
)  # fmt: skip
EXCEL = table(["VoterID", "Tea", "Coffee", "Water"], columns(IDS, PLACES), "\t").replace("\n", "\r\n")
PANDAS = table(
    ["", "Email", *ITEMS],
    columns(["0", "1", "2", "3"], PEOPLE, [tuple(f"{p}.0" if p else "" for p in r) for r in PLACES]),
)
PANDAS_COUNTS = ",Tea,Coffee,Water,count\n0,1.0,2.0,3.0,2.0\n1,1.0,NaN,2.0,1.0\n2,2.0,1.0,3.0,1.0\n"
LIBREOFFICE = "\ufeff" + table(
    ["Zeitstempel", *ITEMS], columns(STAMPS, [tuple(f"{p},0" if p else "" for p in r) for r in PLACES]), ";"
)
TWICE = table(
    ["Timestamp", "E-mail", "First", "Second", "Third"],
    columns(
        ["2024-05-01"] * 6,
        [PEOPLE[0], PEOPLE[1], PEOPLE[0].upper(), *PEOPLE[2:], f" {PEOPLE[1]} "],
        [("Water", "Tea", ""), ("Water", "Coffee", "Tea"), ORDERS[0], *ORDERS[2:], ORDERS[1]],
    ),
)
NUMBERED = table(["Age", "1", "2", "3"], columns(["33", "44", "55", "66"], ORDERS))
BLANKS = table(
    [" Email ", " Rank 1", "Rank 2 ", "Rank 3"],
    [(PEOPLE[0], " Tea", "Coffee ", "Water"), (PEOPLE[1], "Tea", "N/A", "Water"), (PEOPLE[2], *ORDERS[2]),
     (PEOPLE[3], "Tea", " Coffee", "  Water ")],
)  # fmt: skip

#: name: (file, options with which it is right without more)
SHAPES: dict[str, tuple[str | bytes, dict[str, str]]] = {
    "google grid": (GOOGLE, {}),
    "google positions": (GOOGLE_POSITIONS, {}),
    "microsoft": (MICROSOFT, {"columns": "Rank the drinks"}),
    "qualtrics": (QUALTRICS, {}),
    "surveymonkey": (SURVEYMONKEY, {}),
    "limesurvey": (LIMESURVEY, {}),
    "limesurvey codes": (LIMESURVEY_CODES, {}),
    "typeform": (TYPEFORM, {}),
    "excel": (EXCEL, {}),
    "pandas": (PANDAS, {}),
    "pandas counts": (PANDAS_COUNTS, {}),
    "libreoffice": (LIBREOFFICE, {}),
    "utf-16": (GOOGLE.replace(",", "\t").encode("utf-16"), {}),
    "persons twice": (TWICE, {"person_column": "E-mail"}),
    "bare numbers": (NUMBERED, {"layout": "positions"}),
    "blanks": (BLANKS, {}),
}


def secrets(text):
    """The cells that no release may show."""
    found = {cell.strip() for cell in text.replace("\t", ",").replace(";", ",").replace("\n", ",").split(",")}
    return [
        cell for cell in found if len(cell) > 3 and any(word in cell for word in ("SECRET", "secret", "2024", "1717"))
    ]


def attempt(action, option):
    """What comes of it, or nothing where an error names an option that settles it."""
    try:
        return action()
    except DataError as error:
        if option not in str(error):
            raise
        return None


@pytest.mark.parametrize("name", SHAPES)
def test_an_export_is_read_right_by_the_command_the_path_and_python(put, name):
    content, options = SHAPES[name]
    file, listed = put("export.csv", content), put("items.txt", "\n".join(ITEMS))
    profile = read_ballots_csv(file, items=ITEMS, **options)
    assert profile.people == 4
    order = [profile.items.index(item) for item in ITEMS]
    assert (pairwise_margins(profile)[order][:, order] == pairwise_margins(WANTED)).all()
    ballots = BallotOptions(**{k: [v] if k == "columns" else v for k, v in options.items()})
    by_path = read_data(file, items=listed, strict=False, ballots=ballots)
    assert by_path == profile
    flags = [part for option, value in options.items() for part in (f"--{option.replace('_', '-')}", value)]
    command = ["consensus", str(file), "--epsilon", "9", "--format", "json", "--items", str(listed), *flags]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    ranked = [item for entry in json.loads(done.stdout)["ranking"] for item in entry["items"]]
    assert sorted(ranked) == sorted(ITEMS)
    text = content.decode("utf-16") if isinstance(content, bytes) else content
    hidden = secrets(text)
    assert hidden or name in {"pandas counts", "bare numbers"}
    assert not [cell for cell in hidden if cell in done.stdout]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("clean", ["reject", "keep-first", "empty"])
@pytest.mark.parametrize("layout", [None, "positions", "places"])
def test_without_a_list_no_cell_of_another_column_becomes_an_item(put, name, clean, layout):
    """Whatever is asked, items are those of the question, or the holder is told which option settles it."""
    content, options = SHAPES[name]
    file = put("export.csv", content)
    profile = attempt(lambda: read_ballots_csv(file, clean=clean, **({"layout": layout} | options)), "--")
    if profile is not None:
        profile = attempt(profile.with_items_public, "--items")
    if profile is None:
        return
    assert set(profile.items) <= {*ITEMS, *(f"Rank {k}" for k in "123"), "First", "Second", "Third"}
    if set(profile.items) == set(ITEMS):
        order = [profile.items.index(item) for item in ITEMS]
        assert (pairwise_margins(profile)[order][:, order] == pairwise_margins(WANTED)).all()


@pytest.mark.parametrize(
    "names",
    ["Your first choice,Your second choice,Reason for third choice", "First choice,Second choice,Third place of work",
     "Choice 1,Choice 2,Position 3"],
)  # fmt: skip
def test_a_column_that_is_named_otherwise_is_no_further_position(put, names):
    path = put("x.csv", names + "\n" + "Tea,Coffee,SECRET\nCoffee,Tea,SECRET\n" * 2)
    with pytest.raises(DataError, match="named alike: name them with --columns"):
        read_ballots_csv(path)
    two = read_ballots_csv(path, columns=",".join(names.split(",")[:2]))
    assert two.items == ("Coffee", "Tea")


def test_an_optional_last_choice_is_one(put):
    path = put("x.csv", "Your first choice,Your second choice (optional)\nTea,Coffee\nTea,\n")
    assert read_ballots_csv(path, items=ITEMS).people == 2


@pytest.mark.parametrize("name", ["Total", "Average:", " grand total"])
def test_a_row_of_totals_is_nobody(put, name):
    path = put("x.csv", f"Name,Tea,Coffee,Water\nAna,1,2,3\nBo,1,2,3\n{name},1,2,3\n")
    for options in ({"items": ITEMS}, {"person_column": "Name"}):
        with pytest.raises(DataError, match=r"x.csv:4: the last row is called .* hardly a ballot"):
            read_ballots_csv(path, **options)


def test_a_rating_beside_places_is_noted(put):
    rows = [f"{order},{k % 3 + 1}" for k, order in enumerate(["1,2,3", "2,1,3"] * 10)]
    profile = read_ballots_csv(put("x.csv", "\n".join(["Tea,Coffee,Water,Satisfaction", *rows])))
    assert any("'Satisfaction' may be no item" in note for note in profile.notes)
    tied = read_ballots_csv(put("x.csv", "Tea,Coffee,Water,Milk\n" + "1,2,3,3\n2,1,3,3\n" * 3))
    assert tied.notes == ()


def test_a_blank_person_is_told_as_such(put):
    path = put("x.csv", "Email,Tea,Coffee,Water\na@example.org,1,2,3\n,1,2,3\n")
    with pytest.raises(DataError, match=r"x.csv:3: .* '' in the column 'Email' names nobody: fill it in"):
        read_ballots_csv(path, items=ITEMS, person_column="Email")


def test_whole_orders_in_a_cell_are_no_items_as_seen(put):
    path = put("x.csv", 'rank1\n"Tea, Coffee"\n"Coffee, Tea"\n"Coffee,Tea"\n')
    with pytest.raises(DataError, match=r"whole orders, .* give the list of items"):
        read_ballots_csv(path)
    assert read_ballots_csv(path, items=["Tea", "Coffee"]).named_by() == [3, 3]
    assert read_ballots_csv(put("y.csv", 'rank1,rank2\n"Tea, black",Milk\nMilk,"Tea, black"\n')).m == 2

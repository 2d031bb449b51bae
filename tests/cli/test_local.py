"""``psephos randomise`` and ``psephos scores`` on reports and, not private, on what people said."""

import csv
import io
import json

import pytest

from psephos.local import read_reports

DUELS = "person,left,right,winner\n" + "".join(
    f"p{k},a,b,left\np{k},b,c,left\np{k},a,c,{'left' if k % 4 else 'right'}\n" for k in range(400)
)
BALLOTS = "a,b,c,count\n1,2,3,300\n2,1,3,100\n1,2,,20\n"


@pytest.fixture(autouse=True)
def files(put):
    put("duels.csv", DUELS)
    put("ballots.csv", BALLOTS)
    put("items.txt", "c\nb\na\n")


@pytest.fixture
def reports(psephos):
    psephos("randomise", "ballots.csv", "--epsilon", "2", "--output", "r.jsonl")
    return "r.jsonl"


def test_randomise_ballots(psephos, tmp_path):
    done = psephos("randomise", "ballots.csv", "--epsilon", "2", "--output", "r.jsonl")
    assert done.stdout == ""
    assert "At epsilon 2, an answer is reported as it was given with probability 88 %." in done.stderr
    assert "420 reports, 1 answer each" in done.stderr
    reports = list(read_reports(tmp_path / "r.jsonl", items=["a", "b", "c"]))
    assert len(reports) == 420
    assert {r.epsilon_person for r in reports} == {2}
    assert all(r.secure for r in reports)


def test_reports_go_to_stdout_alone(psephos):
    lines = psephos("randomise", "ballots.csv", "--epsilon", "1", "--pairs", "2").stdout.splitlines()
    assert len(lines) == 420
    assert all(json.loads(line)["epsilon_answer"] == "0.5" for line in lines)


def test_randomise_comparisons(psephos):
    drawn = psephos("randomise", "duels.csv", "--items", "items.txt", "--epsilon", "1")
    assert "400 reports, 1 answer each" in drawn.stderr
    seen = ["--items-public-as-seen", "--pairs-public-as-seen", "--unit", "comparison"]
    assigned = psephos("randomise", "duels.csv", *seen, "--epsilon", "1")
    assert "400 reports, 3 answers each; assumed: the list of items, as seen in the data, is public" in assigned.stderr
    assert "which pairs each person judged is public" in assigned.stderr
    assert "one comparison, not one person" in assigned.stderr


def test_the_sentence_holds_for_whoever_spends_most_on_an_answer(psephos, put):
    put("unlike.csv", "person,left,right,winner\nann,a,b,left\nbob,a,b,left\nbob,b,c,left\nbob,a,c,left\n")
    put("abc.txt", "a\nb\nc\n")  # only bob named c: as seen the list would give that away
    seen = ["--pairs-public-as-seen", "--items", "abc.txt", "--pairs", "all"]
    person = psephos("randomise", "unlike.csv", "--epsilon", "3", *seen)
    assert "At epsilon 3, an answer is reported as it was given with probability 95 %." in person.stderr
    assert "2 reports, 1 to 3 answers each" in person.stderr
    each = psephos("randomise", "unlike.csv", "--epsilon", "3", *seen, "--unit", "comparison")
    assert "At epsilon 3 for each answer, 9 for a person who gives 3 answers" in each.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ballots.csv", "--epsilon", "0"], "epsilon must be"),
        (["ballots.csv", "--epsilon", "1", "--pairs", "4"], "pairs must be a whole number >= 1 and <= 3"),
        (["ballots.csv", "--epsilon", "1", "--pairs", "-1"], "--pairs must be a whole number >= 1, or 'all'"),
        (["ballots.csv", "--epsilon", "1", "--pairs", "²"], "--pairs must be"),
        (["ballots.csv", "--epsilon", "1", "--unit", "comparison"], "pairs must be given"),
        (["ballots.csv", "--epsilon", "1", "--items-public-as-seen"], "is for comparisons"),
        (["duels.csv", "--epsilon", "1"], "the items were seen in the data"),
        (["duels.csv", "--epsilon", "1", "--items", "items.txt", "--unit", "comparison"], "--pairs-public-as-seen"),
        (["duels.csv", "--epsilon", "1", "--output", "duels.csv"], "--output must not be"),
        (["ballots.csv", "--epsilon", "1", "--mechanism", "laplace"], "mechanism must be"),
    ],
)
def test_randomise_refuses(psephos, tmp_path, arguments, message):
    done = psephos("randomise", *arguments, code=2)
    assert message in done.stderr
    assert (tmp_path / "duels.csv").read_text() == DUELS


def test_scores_of_reports(psephos, reports):
    lines = psephos("scores", reports).stdout.splitlines()
    assert lines[0] == " score  95% interval    ranks  item"
    assert {line.split()[-1] for line in lines[1:4]} == {"a", "b", "c"}
    assert "420 reports with 420 answers, randomised by who gave them: epsilon 2 for each person" in lines[-1]
    assert lines[-1].endswith("; all rank intervals hold at once with that probability.")


def test_scores_of_reports_as_json_and_csv(psephos, reports):
    document = json.loads(psephos("scores", reports, "--format", "json", "--link", "normal", "--level", "0.9").stdout)
    assert document["schema"] == "psephos.scores/1"
    assert (document["link"], document["level"], document["sampling"]) == ("normal", 0.9, "people independent")
    guarantee = document["guarantee"]
    assert (guarantee["model"], guarantee["unit"], guarantee["epsilon_person_most"]) == ("local", "person", "2")
    assert (guarantee["reports"], guarantee["answers"], guarantee["secure"]) == (420, 420, True)
    for row in document["scores"]:
        assert row["low"] <= row["score"] <= row["high"]
        assert 1 <= row["ranks"][0] <= row["ranks"][1] <= 3
    again = json.loads(psephos("scores", reports, "--format", "json", "--link", "normal", "--level", "0.9").stdout)
    assert again == document  # nothing is drawn that shows
    done = psephos("scores", reports, "--format", "csv", "--top", "2")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 2
    assert float(rows[0]["score"]) >= float(rows[1]["score"])  # M14: best first
    assert "randomised by who gave them" in done.stderr


def test_reports_of_unlike_epsilon_and_unit(psephos, tmp_path):
    text = psephos("randomise", "ballots.csv", "--epsilon", "1").stdout
    text += psephos("randomise", "ballots.csv", "--epsilon", "4", "--unit", "comparison", "--pairs", "all").stdout
    (tmp_path / "mixed.jsonl").write_text(text)
    for weights in ("adaptive", "uniform"):
        done = psephos("scores", "mixed.jsonl", "--weights", weights)
        assert "epsilon 1 to 4 for each answer, as they declare, 12 for whoever gave most" in done.stdout
    assert json.loads(psephos("scores", "mixed.jsonl", "--format", "json").stdout)["guarantee"]["unit"] == "mixed"


def test_declared_epsilons_are_bounded(psephos, tmp_path, put):
    """By what nine in ten reports declare, which the output says, or by --max-epsilon, which refuses a line."""
    put("many.csv", "a,b,c,count\n1,2,3,95\n")
    text = psephos("randomise", "many.csv", "--epsilon", "1").stdout
    put("few.csv", "a,b,c,count\n3,2,1,5\n")
    (tmp_path / "all.jsonl").write_text(text + psephos("randomise", "few.csv", "--epsilon", "7", "--pairs", "1").stdout)
    (tmp_path / "one.jsonl").write_text(text)
    said = "5 reports of other epsilon would weigh more than nine in ten do"
    assert said in psephos("scores", "all.jsonl").stdout
    assert said not in psephos("scores", "one.jsonl").stdout
    guarantee = json.loads(psephos("scores", "all.jsonl", "--format", "json").stdout)["guarantee"]
    assert (guarantee["max_epsilon"], guarantee["reports_limited"]) == (None, 5)
    done = psephos("scores", "all.jsonl", "--max-epsilon", "2", code=1)
    assert "all.jsonl:96: epsilon_person must be at most 2, what the poll allowed, got 7" in done.stderr
    table = psephos("scores", "all.jsonl", "--max-epsilon", "7", "--format", "json").stdout
    guarantee = json.loads(table)["guarantee"]
    assert (guarantee["max_epsilon"], guarantee["reports_limited"]) == ("7", None)
    assert "--max-epsilon must be" in psephos("scores", "all.jsonl", "--max-epsilon", "0", code=2).stderr
    assert "--max-epsilon is for reports" in psephos("scores", "duels.csv", "--max-epsilon", "1", code=2).stderr


def test_scores_that_are_not_private_say_so(psephos):
    table = psephos("scores", "duels.csv", "--items", "items.txt")
    assert [line.split()[-1] for line in table.stdout.splitlines()[1:4]] == ["a", "b", "c"]
    assert "NOT PRIVATE, for the holder alone: 1200 comparisons of 400 people." in table.stdout
    for form in ("json", "csv"):
        done = psephos("scores", "ballots.csv", "--format", form)
        assert "NOT PRIVATE, for the holder alone: 420 ballots." in done.stderr
    assert json.loads(psephos("scores", "ballots.csv", "--format", "json").stdout)["guarantee"] is None


def test_tiers_and_the_best(psephos):
    document = json.loads(psephos("scores", "duels.csv", "--items", "items.txt", "--format", "json").stdout)
    assert document["tiers"] == [["a"], ["b"], ["c"]]
    table = psephos("scores", "duels.csv", "--items", "items.txt", "--top", "2").stdout
    assert "Among the best 2: surely a, b; no other." in table
    weak = psephos("randomise", "ballots.csv", "--epsilon", "0.01", "--output", "weak.jsonl")
    assert weak.stdout == ""
    said = psephos("scores", "weak.jsonl", "--top", "1").stdout
    assert "Among the best 1: " in said


def test_m1_m2_flags_are_printed(psephos, put):
    put("m1.csv", "left,right,winner\na,b,left\nb,c,left\na,c,left\n")
    done = psephos("scores", "m1.csv")
    assert "Separated: [a], [c] won, or lost, all there was against the rest" in done.stdout
    assert "regularisation" in done.stdout
    assert json.loads(psephos("scores", "m1.csv", "--format", "json").stdout)["separated"] == [["a"], ["c"]]
    put("m2.csv", "left,right,winner\na,b,left\nb,a,left\nc,d,left\nd,c,left\n")
    done = psephos("scores", "m2.csv")
    assert "2 components {a, b}, {c, d}" in done.stdout
    rows = json.loads(psephos("scores", "m2.csv", "--format", "json").stdout)["scores"]
    assert all(row["ranks"] == [1, 4] for row in rows)  # nothing is said across


def test_m4_nothing_to_rank(psephos, put, tmp_path):
    put("none.csv", "left,right,winner\n")
    assert "nothing to rank" in psephos("scores", "none.csv", code=1).stderr
    (tmp_path / "none.jsonl").write_text("\n\n")
    assert "nothing to rank" in psephos("scores", "none.jsonl", code=1).stderr


def test_m8_ties_alone_share_a_rank_interval(psephos, put):
    put("ties.csv", "left,right,winner\na,b,tie\nb,c,tie\nc,a,tie\n")
    rows = json.loads(psephos("scores", "ties.csv", "--format", "json").stdout)["scores"]
    assert all(abs(row["score"]) < 1e-12 and row["ranks"] == [1, 3] for row in rows)


def test_a_faulty_report_names_file_line_and_rule(psephos, reports, tmp_path):
    with (tmp_path / reports).open("a") as stream:
        stream.write('{"schema":"psephos.report/1","unit":"person"}\n')
    done = psephos("scores", reports, code=1)
    assert "error: r.jsonl:421: epsilon_person must be present" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.jsonl", "--epsilon", "1"], "--epsilon is for comparisons"),
        (["r.jsonl", "--graph", "public"], "--graph is for private scores"),
        (["duels.csv", "--delta", "1e-6"], "--delta is for private scores"),
        (["duels.csv", "--unit", "person"], "--unit is for private scores"),
        (["duels.csv", "--weights", "uniform"], "--weights is for reports"),
        (["r.jsonl", "--weights", "epsilon"], "weights must be"),
        (["r.jsonl", "--strict"], "--strict is for files with a header"),
        (["r.jsonl", "--link", "cauchy"], "link must be"),
        (["r.jsonl", "--level", "2"], "level must be"),
        (["ballots.csv", "--epsilon", "1"], "psephos consensus ranks them"),
    ],
)
@pytest.mark.usefixtures("reports")
def test_scores_refuses(psephos, arguments, message):
    assert message in psephos("scores", *arguments, code=2).stderr

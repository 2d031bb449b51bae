"""``psephos scores`` and ``psephos consensus --level``: formats, refusals, exit codes, the ledger."""

import csv
import io
import json

import pytest

ROWS = "".join(f"p{k},a,b,left\np{k},b,c,left\np{k},a,c,{'left' if k % 4 else 'right'}\n" for k in range(3000))


@pytest.fixture
def duels(put):
    put("x.csv", f"person,left,right,winner\n{ROWS}")
    put("items.txt", "c\nb\na\n")
    return ["scores", "x.csv", "--epsilon", "2", "--items", "items.txt"]


def test_table(psephos, duels):
    done = psephos(*duels, "--graph", "public")
    lines = done.stdout.splitlines()
    assert lines[0] == " score  95% interval    ranks  item"
    assert [line.split()[-1] for line in lines[1:4]] == ["a", "b", "c"]
    assert "which pairs each person compared is public" in lines[-1]
    assert "all rank intervals hold at once with probability 95%" in lines[-1]
    assert lines[-1].endswith("no ledger was kept.")


def test_private_graph_says_how_noisy_the_numbers_of_answers_are(psephos, duels):
    assert "answers on each pair; 3000 people, each counting on 3 pairs at most" in psephos(*duels).stdout


def test_csv_and_top(psephos, duels):
    rows = list(csv.DictReader(io.StringIO(psephos(*duels, "--format", "csv", "--top", "2").stdout)))
    assert [row["item"] for row in rows] == ["a", "b"]
    assert float(rows[0]["low"]) <= float(rows[0]["score"]) <= float(rows[0]["high"])
    assert (rows[0]["best_rank"], rows[0]["worst_rank"]) == ("1", "1")


def test_json(psephos, duels):
    document = json.loads(psephos(*duels, "--format", "json", "--delta", "1e-6", "--pairs", "2").stdout)
    assert document["schema"] == "psephos.scores/1"
    assert [row["item"] for row in document["scores"]] == ["a", "b", "c"]
    assert document["guarantee"]["pairs_per_person"] == 2
    assert document["sampling"] == "independent comparisons assumed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top", "0"], "--top"),
        (["--top", "2", "--format", "json"], "--top is for tables"),
        (["--graph", "hidden"], "graph must be"),
        (["--link", "cauchy"], "link must be"),
        (["--level", "1"], "level must be > 0 and <= 0.9999"),
        (["--format", "yaml"], "format must be"),
        (["--ledger", "l.db"], "--ledger and --dataset go together"),
        (["--budget", "1"], "need --ledger and --dataset"),
        (["--output", "x.csv"], "--output must not be"),
    ],
)
def test_usage(psephos, duels, arguments, message):
    assert message in psephos(*duels, *arguments, code=2).stderr


def test_ballots_are_for_consensus(psephos, put):
    put("x.soi", "# NUMBER ALTERNATIVES: 2\n3: 1\n")
    assert "psephos consensus ranks them" in psephos("scores", "x.soi", "--epsilon", "1", code=2).stderr


def test_a_heavy_voter_gets_no_interval_and_a_note(psephos, put):
    people = "".join(f"g,c,right,u{k}\n" for k in range(40))
    put("x.csv", f"left,right,winner,person\n{people}" + "g,c,left,bot\n" * 500)
    table = psephos("scores", "x.csv").stdout
    assert "On one person: c, g." in table
    assert "bot" not in table
    document = json.loads(psephos("scores", "x.csv", "--format", "json").stdout)
    assert document["one_person"] == {"items": ["c", "g"], "pairs": []}
    assert [(row["low"], row["high"], row["ranks"]) for row in document["scores"]] == [(None, None, [1, 2])] * 2


def test_unranked_items_of_ballots(psephos, put):
    """1000 ballots of one choice say nothing on the other two items, and with "missing" nothing at all."""
    put("x.soi", "# NUMBER ALTERNATIVES: 3\n30: 1,2,3\n10: 1,3,2\n1000: 1\n")

    def scores(*options):
        rows = json.loads(psephos("scores", "x.soi", "--format", "json", *options).stdout)["scores"]
        return {row["item"]: row["score"] for row in rows}

    last, missing = scores(), scores("--unranked", "missing")
    assert last == scores("--unranked", "last")
    assert last["2"] - last["3"] > 0.9
    assert missing["1"] < last["1"]
    for options in (["--unranked", "first"], ["--unranked", "last", "--epsilon", "1"]):
        assert "--unranked" in psephos("scores", "x.soi", *options, code=2).stderr
    put("y.csv", "left,right,winner\na,b,left\n")
    assert "--unranked last is for ballots" in psephos("scores", "y.csv", "--unranked", "last", code=2).stderr


def test_ledger_and_output(psephos, duels, tmp_path):
    paid = ["--ledger", "l.db", "--dataset", "d", "--budget", "3", "--request-id", "one", "--format", "json"]
    psephos(*duels, *paid, "--output", "first.json")
    first = json.loads((tmp_path / "first.json").read_text())
    assert first["budget"] == {"remaining_epsilon": "1", "remaining_delta": "0"}
    again = json.loads(psephos(*duels, *paid).stdout)
    assert again == first
    assert psephos(*duels, "--ledger", "l.db", "--dataset", "d", code=3).stderr


def test_rank_intervals_of_a_consensus(psephos, put):
    put("x.soi", "# NUMBER ALTERNATIVES: 3\n90000: 3,1\n40000: 1,2\n")
    args = ["consensus", "x.soi", "--epsilon", "1", "--level", "0.9"]
    table = psephos(*args).stdout.splitlines()
    assert table[0].split() == ["rank", "by", "score", "item"]
    assert [line.split() for line in table[1:4]] == [["1", "1", "3"], ["2", "2", "1"], ["3", "3", "2"]]
    assert "all ranks by mean score lie in their intervals with probability 90%" in table[-1]
    rows = list(csv.DictReader(io.StringIO(psephos(*args, "--format", "csv").stdout)))
    assert rows[0] == {"rank": "1", "item": "3", "best_rank": "1", "worst_rank": "1"}
    document = json.loads(psephos(*args, "--format", "json").stdout)
    assert document["rank_intervals"]["level"] == 0.9
    assert {row["item"]: row["best_rank"] for row in document["rank_intervals"]["items"]} == {"1": 2, "2": 3, "3": 1}
    assert "level must" in psephos(*args[:-1], "2", code=2).stderr
    assert "releases no table" in psephos(*args, "--mechanism", "kwiksort", code=2).stderr

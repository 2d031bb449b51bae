"""The command line: streams, exit codes, the ledger, and hard inputs; a few cases in a process of its own.

Multiplicities are large enough that no noise in these tests can turn a ranking (false alarms far below 1e-9).
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from psephos import Ledger, pairwise_margins, read_preflib, solve
from psephos.cli.output import csv_cell, write_csv

ROOT = Path(__file__).parents[2]
BURLINGTON = ROOT / "examples" / "burlington2006.toi"

FOUR = (
    "# NUMBER ALTERNATIVES: 4\n# ALTERNATIVE NAME 1: =1+1\n# ALTERNATIVE NAME 2: \U0001f363, raw\n"
    "# ALTERNATIVE NAME 3: tea\n# ALTERNATIVE NAME 4: nobody's\n"
)
BODY = "900000: 2,1,3\n100000: 3\n"
WANTED = ["\U0001f363, raw", "=1+1", "tea", "nobody's"]
DUELS = "left,right,winner\n" + "a,b,left\n" * 400 + "b,c,left\n" * 400 + "a,c,left\n" * 400


def order(document):
    """The names of a consensus document, best first; every item stands on its own place."""
    ranks = [entry["rank"] for entry in document["ranking"]]
    assert ranks == list(range(1, len(ranks) + 1))
    return [name for entry in document["ranking"] for name in entry["items"]]


def spent(path, name="poll"):
    return [(d.request_id, d.epsilon, d.delta, d.answer is not None) for d in Ledger(path).debits(name)]


# ------------------------------------------------------------------ the program


def test_help_and_version_of_a_process(psephos, psephos_process):
    usage = psephos_process("--help").stdout
    assert usage.splitlines()[1:] == psephos("--help").stdout.splitlines()[1:]  # the first names the program
    for command in ("check", "cost", "consensus", "ledger"):
        assert command in usage
    assert re.fullmatch(r"psephos \d+\.\d+\.\d+\n", psephos_process("--version").stdout)


def test_a_process_ends_with_the_exit_code_and_the_words_of_a_run_in_this_process(psephos, psephos_process, put):
    put("good.soi", FOUR + BODY)
    put("bad.soi", f"{FOUR}7: 1,2,1,2\n")
    ledger = ["consensus", "good.soi", "--epsilon", "1", "--ledger", "l.db", "--dataset", "d"]
    for args, code in ((["check", "good.soi"], 0), (["check", "bad.soi"], 1), (["check", "none.soi"], 2), (ledger, 3)):
        whole, here = psephos_process(*args, code=code), psephos(*args, code=code)
        assert (whole.stdout, whole.stderr) == (here.stdout, here.stderr)


def test_usage_errors_exit_with_2(psephos, put):
    path = put("x.soi", FOUR + BODY)
    for args, words in [
        (["consensus", path], "--epsilon"),
        (["consensus", path, "--epsilon", "0"], "epsilon must be a number > 0"),
        (["consensus", path, "--epsilon", "1", "--format", "xml"], "table, csv, json"),
        (["consensus", path, "--epsilon", "1", "--budget", "1"], "--ledger and --dataset"),
        (["consensus", path, "--epsilon", "1", "--items", path], "--items"),
        (["consensus", "none.soc", "--epsilon", "1"], "none.soc"),
        (["check", "none.xyz"], "none.xyz"),
        (["cost", "--epsilon", "1", "--items", "0"], ">= 1, got 0"),
    ]:
        done = psephos(*args, code=2)
        assert words in done.stderr, args


# ------------------------------------------------------------------ check


def test_check_says_what_a_file_holds(psephos, put):
    text = f"# NUMBER VOTERS: 7\n{FOUR}{BODY}1: 2,1,3\n"
    done = psephos("check", put("x.soi", text))
    assert done.stdout.splitlines() == [
        "x.soi: ok",
        "1000001 people, 2 distinct ballots (strict, some truncated)",
        "4 items (declared): =1+1, \U0001f363, raw, tea, nobody's",
    ]
    assert "warning: x.soi: NUMBER VOTERS says 7, and the body has 1000001" in done.stderr
    assert "1 repeated order merged" in done.stderr
    assert "NUMBER VOTERS says 7" in psephos("check", "x.soi", "--strict", code=1).stderr


def test_check_of_tables(psephos, put):
    put("duels.csv", "left,right,winner,worker\na,b,left,p\nb,a,tie,p\n")
    assert "2 comparisons by 1 person" in psephos("check", "duels.csv").stdout
    put("votes.tsv", "rank1\trank2\nb\ta\n")
    assert "as seen in the data" in psephos("check", "votes.tsv").stdout
    put("items.txt", "\ufeffc\r\nb\r\n\r\n a \r\n")
    assert "3 items (declared): c, b, a" in psephos("check", "votes.tsv", "--items", "items.txt").stdout
    put("places.csv", "a;b\n1;1\n;1\n")
    assert "2 people, 2 distinct ballots (some truncated, some with ties)" in psephos("check", "places.csv").stdout
    args = ["check", "places.csv", "--layout", "positions", "--items", "items.txt"]
    assert "name them in their order with --columns; columns found: a, b" in psephos(*args, code=1).stderr
    assert "places.csv:2: unknown item '1'" in psephos(*args, "--columns", "a,b", code=1).stderr


def test_check_of_a_faulty_file_exits_with_1_and_names_file_line_and_rule(psephos, put):
    put("x.soi", f"{FOUR}5: 1,2\n7: 1,2,1,2\n2: 1,9\n")
    done = psephos("check", "x.soi", code=1)
    assert "error: x.soi:7: items 1, 2 occur twice in one ballot" in done.stderr
    assert "9 people" in done.stderr  # how much else is wrong
    assert "now empty" not in done.stderr  # nothing was repaired
    kept = psephos("check", "x.soi", "--clean", "keep-first")
    assert "14 people, 2 distinct" in kept.stdout
    assert "kept the first place of repeated items on the ballots of 7 people" in kept.stderr
    assert "voided the faulty ballots (now empty) of 2 people" in kept.stderr


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.soc", "# NUMBER ALTERNATIVES: 2\n1: 1,2\n".encode("utf-16-le"), "UTF-16"),
        ("x.soc", b"# ALTERNATIVE NAME 1: a\x96b\n3: 1\n", "offset 23"),
        ("x.csv", "a,b\n1\n", "x.csv:2: a row must have 2 cells, got 1"),
    ],
)
def test_data_faults_exit_with_1(psephos, put, name, content, words):
    put(name, content)
    assert words in psephos("check", name, code=1).stderr


# ------------------------------------------------------------------ cost


def test_cost_reads_no_data_and_states_the_noise(psephos):
    table = psephos("cost", "--items", "10", "--epsilon", "1", "--delta", "1e-6", "--people", "500").stdout
    assert "* borda: debits epsilon 1, delta 0" in table  # 10 items: Laplace noise on scores is the least
    assert "laplace: debits epsilon 1, delta 0;" in table
    assert "so all goes to scores" in table
    charged = psephos(
        "cost", "--items", "10", "--epsilon", "1", "--delta", "1e-6", "--level", "0.95", "--format", "json"
    )
    rows = {row["mechanism"]: row for row in json.loads(charged.stdout)["mechanisms"]}
    assert rows["borda"]["delta"] == "1e-6"  # normal noise, beside which a second moment is free
    assert "kwiksort" not in rows
    done = psephos("cost", "--items", "10", "--epsilon", "1", "--delta", "1e-6", "--people", "500", "--format", "json")
    document = json.loads(done.stdout)
    assert (document["items"], document["people"], document["unit"]) == (10, 500, "person")
    by_name = {row["mechanism"]: row for row in document["mechanisms"]}
    assert list(by_name) == [
        "laplace", "gaussian", "nuclear", "shaped", "probe", "borda", "exponential", "footrule", "kwiksort",
        "two-stage",
    ]  # fmt: skip
    for name in ("exponential", "footrule", "kwiksort", "two-stage"):
        assert by_name[name]["noise_sd"] is None
    assert table.count("one ranking is released") == 4
    assert "a list of all 500 people is ranked" in by_name["two-stage"]["runs"]
    assert by_name["two-stage"]["runs"] in table
    assert [name for name, row in by_name.items() if row["auto"]] == ["borda"]
    # Borda under pure privacy: scale 2 floor(m^2/2) = 100 on scores, and (r_u - r_v)/m on a margin
    assert by_name["borda"]["noise_sd"] == pytest.approx(100 * 2**0.5 * 2**0.5 / 10, rel=1e-3)
    laplace, gaussian = by_name["laplace"], by_name["gaussian"]
    assert (laplace["delta"], gaussian["delta"]) == ("0", "1e-6")
    # Laplace of scale 2 D / epsilon = 90 votes: sd 90 sqrt 2 but for the grid. A share moves by W / (2 N).
    assert laplace["noise_sd"] == pytest.approx(90 * 2**0.5, rel=1e-4)
    assert laplace["noise_sd_share"] == pytest.approx(laplace["noise_sd"] / 1000)
    assert gaussian["noise_sd"] < laplace["noise_sd"]


def test_cost_as_csv_for_comparisons_under_a_pure_budget(psephos):
    done = psephos("cost", "--items", "10", "--epsilon", "1/11", "--unit", "comparison", "--format", "csv")
    row = next(csv.DictReader(io.StringIO(done.stdout)))
    assert (row["mechanism"], row["auto"], row["epsilon"], row["noise_sd_share"]) == ("laplace", "True", "1/11", "")
    assert float(row["noise_sd"]) == pytest.approx(22 * 2**0.5, rel=1e-3)  # replacing one moves the table by 2


# ------------------------------------------------------------------ consensus: formats and streams


def test_consensus_json_has_its_schema_while_notes_go_to_stderr(psephos, put):
    text = f"# NUMBER VOTERS: 7\n{FOUR}{BODY}1: 2,1,3\n3: 1,1\n"
    put("x.soi", text)
    done = psephos("consensus", "x.soi", "--epsilon", "25", "--clean", "keep-first", "--format", "json")
    document = json.loads(done.stdout)
    assert document["schema"] == "psephos.release/1"
    assert order(document) == WANTED  # F24: with the item that no ballot ranks
    assert {"cost_released", "lower_bound", "gap", "status", "unique", "guarantee", "secure", "budget"} <= set(document)
    assert (document["status"], document["gap"], document["unique"]) == ("optimal", "0", True)
    assert document["cost_released"] == document["lower_bound"]
    assert (document["secure"], document["budget"]) == (True, None)
    guarantee = document["guarantee"]
    assert {
        "epsilon": "25",
        "delta": "0",
        "adjacency": "replace-one",
        "unit": "person",
        "mechanism": "laplace",
        "people": 1_000_004,
        "items": 4,
        "assumptions": [],
    }.items() <= guarantee.items()
    assert guarantee["noise_sd"] > 0
    for words in ("warning: x.soi: NUMBER VOTERS", "warning: epsilon 25", "1 repeated order merged", "of 3 people"):
        assert words in done.stderr
    # What was repaired or merged is the holder's business alone.
    for words in ("repeated", "merged", "kept", "of 3 people", "NUMBER VOTERS", "support", "distinct"):
        assert words not in done.stdout


@pytest.mark.parametrize("form", ["table", "csv"])
def test_repairs_never_reach_stdout(psephos, put, form):
    put("x.soi", f"{FOUR}{BODY}777: 1,1\n555: x\n")
    done = psephos("consensus", "x.soi", "--epsilon", "1", "--clean", "keep-first", "--format", form)
    assert "of 777 people" in done.stderr
    assert "of 555 people" in done.stderr
    assert "1001332 people" in done.stdout + done.stderr  # N, a public fact, counts them all
    for words in ("777", "555", "first place", "voided", "empty"):
        assert words not in done.stdout


def test_the_table_is_in_rank_order_and_states_the_guarantee(psephos, put):
    put("x.soi", FOUR + BODY)
    lines = psephos("consensus", "x.soi", "--epsilon", "1").stdout.splitlines()
    assert lines[0].split() == ["rank", "item"]
    assert lines[1:5] == [f"   {rank}  {name}" for rank, name in enumerate(WANTED, start=1)]
    assert lines[6].startswith("1-differentially private (pure) for each person under replace-one adjacency")
    assert "no ledger was kept" in lines[6]


def test_csv_is_safe_in_a_spreadsheet(psephos, put):
    put("x.soi", FOUR + BODY)
    done = psephos("consensus", "x.soi", "--epsilon", "1", "--format", "csv")
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows == [["rank", "item"], ["1", "\U0001f363, raw"], ["2", "'=1+1"], ["3", "tea"], ["4", "nobody's"]]
    assert "differentially private" in done.stderr


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_f19_no_cell_starts_a_formula(name):
    assert csv_cell(name) == "'" + name
    assert csv_cell("a" + name) == "a" + name


@pytest.mark.parametrize("name", ["a\r=1+1", "a\n=1+1", "a\r\n=1+1", 'a",=1+1', "\r=1"])
def test_f19_no_name_breaks_out_of_its_cell(name):
    text = write_csv(("rank", "item"), [(1, name), (2, "b")])
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[0] for row in rows] == ["rank", "1", "2"]
    assert rows[1][1].removeprefix("'") == name
    # Outside quotes there is nothing but the two columns.
    assert re.sub(r'"(?:[^"]|"")*"', "", text).count("=") == 0


def test_output_goes_to_the_file_and_stdout_stays_empty(psephos, put, tmp_path):
    put("x.soi", FOUR + BODY)
    for form in ("json", "csv"):
        done = psephos("consensus", "x.soi", "--epsilon", "1", "--format", form, "--output", f"out.{form}")
        assert done.stdout == ""
    assert order(json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))) == WANTED
    assert "'=1+1" in (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_a_refused_run_leaves_no_output_behind(psephos, put, tmp_path):
    put("x.soi", FOUR + "3: 1,1\n")
    psephos("consensus", "x.soi", "--epsilon", "1", "--output", "new.json", code=1)
    assert not (tmp_path / "new.json").exists()
    put("old.json", "precious")
    psephos("consensus", "x.soi", "--epsilon", "1", "--output", "old.json", code=1)
    assert (tmp_path / "old.json").read_text() == "precious"


def test_a_solver_that_may_do_little_says_how_good_its_order_is(psephos, put):
    names = [f"i{k}" for k in range(24)]
    put("x.csv", ",".join([*names, "count"]) + "\n" + ",".join(["1"] * 24) + ",1\n")
    done = psephos(
        "consensus",
        "x.csv",
        "--epsilon",
        "0.01",
        "--mechanism",
        "laplace",
        "--post-processing",
        "raw",
        "--effort",
        "1",
        "--format",
        "json",
    )
    document = json.loads(done.stdout)
    assert sorted(name for entry in document["ranking"] for name in entry["items"]) == sorted(names)
    assert document["method"] == "branch_and_cut"
    assert document["status"] in {"optimal", "effort"}
    assert Fraction(document["lower_bound"]) <= Fraction(document["cost_released"])


@pytest.mark.parametrize(("form", "encoding"), [("json", "cp1252"), ("json", "ascii"), ("table", "cp1252")])
def test_a_paid_answer_is_printed_whatever_the_encoding_of_the_terminal(psephos_process, put, tmp_path, form, encoding):
    put("x.soi", FOUR + BODY)
    args = ["consensus", "x.soi", "--epsilon", "1", "--ledger", "l.db", "--dataset", "poll", "--budget", "1"]
    variables = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = psephos_process(*args, "--format", form, env=variables)
    assert "tea" in done.stdout
    if form == "json":
        assert order(json.loads(done.stdout)) == WANTED
    assert len(spent(tmp_path / "l.db")) == 1


# ------------------------------------------------------------------ consensus: data of every kind


def test_csv_ballots_need_a_public_list_of_items(psephos, put):
    put("x.csv", "rank1,rank2,count\nb,a,100000\n")
    done = psephos("consensus", "x.csv", "--epsilon", "1", code=2)
    assert "--items" in done.stderr  # the way out, in the words of the command line
    put("items.txt", "a\nb\nc\n")
    args = ["consensus", "x.csv", "--epsilon", "1", "--format", "json"]
    declared = json.loads(psephos(*args, "--items", "items.txt").stdout)
    assert order(declared) == ["b", "a", "c"]
    assert declared["guarantee"]["assumptions"] == []
    assumed = json.loads(psephos(*args, "--items-public-as-seen").stdout)
    assert order(assumed) == ["b", "a"]
    assert assumed["guarantee"]["assumptions"] == ["the list of items, as seen in the data, is public"]


def test_an_item_outside_the_list_is_a_fault_of_the_data(psephos, put):
    put("x.csv", "rank1,rank2,count\nb,a,100000\n")
    put("items.txt", "a\nc\n")
    error = psephos("consensus", "x.csv", "--epsilon", "1", "--items", "items.txt", code=1).stderr
    assert "x.csv:2: unknown item 'b'" in error


@pytest.mark.parametrize(("text", "words"), [("a\nb\na\n", "same name 'a'"), ("\n \n", "empty")])
def test_a_faulty_list_of_items_is_named(psephos, put, text, words):
    put("x.csv", "rank1\na\n")
    put("items.txt", text)
    error = psephos("consensus", "x.csv", "--epsilon", "1", "--items", "items.txt", code=1).stderr
    assert words in error
    assert "items.txt" in error


def test_the_layout_can_be_given(psephos, put):
    put("x.csv", "first,second\n" + "b,a\n" * 2000)
    put("items.txt", "a\nb\n")
    args = ["consensus", "x.csv", "--epsilon", "1", "--items", "items.txt", "--format", "json"]
    assert order(json.loads(psephos(*args, "--layout", "positions").stdout)) == ["b", "a"]
    assert "no column for the item 'a'" in psephos(*args, "--layout", "places", code=1).stderr
    psephos(*args, "--layout", "rows", code=2)


def test_unranked_items_are_last_or_missing(psephos, put):
    # Most rank item 1 alone; whoever ranks both prefers item 2.
    put("x.soi", "# NUMBER ALTERNATIVES: 2\n900000: 1\n400000: 2,1\n")
    args = ["consensus", "x.soi", "--epsilon", "1", "--format", "json"]
    assert order(json.loads(psephos(*args).stdout)) == ["1", "2"]
    assert order(json.loads(psephos(*args, "--unranked", "missing").stdout)) == ["2", "1"]
    assert "last, missing" in psephos(*args, "--unranked", "never", code=2).stderr


def test_comparisons_are_protected_one_by_one_and_say_so(psephos, put):
    put("x.csv", DUELS)
    args = ["consensus", "x.csv", "--epsilon", "1", "--format", "json"]
    assert "comparison" in psephos(*args, "--items-public-as-seen", code=2).stderr
    document = json.loads(psephos(*args, "--items-public-as-seen", "--unit", "comparison").stdout)
    assert order(document) == ["a", "b", "c"]
    guarantee = document["guarantee"]
    assert (guarantee["unit"], guarantee["comparisons"], guarantee["items"]) == ("comparison", 1200, 3)
    assert "people" not in guarantee
    assert guarantee["assumptions"] == [
        "the list of items, as seen in the data, is public",
        "one comparison, not one person, is what must be hidden",
    ]


def test_options_that_say_nothing_about_comparisons_are_refused(psephos, put):
    put("x.csv", DUELS)
    args = ["consensus", "x.csv", "--epsilon", "1", "--unit", "comparison", "--items-public-as-seen"]
    for option in (["--clean", "empty"], ["--layout", "places"], ["--unranked", "last"]):
        assert option[0] in psephos(*args, *option, code=2).stderr


def test_the_public_examples_are_ranked(psephos):
    path = BURLINGTON
    done = psephos("consensus", path, "--epsilon", "1", "--delta", "1e-6", "--format", "json")
    assert order(json.loads(done.stdout))[:3] == ["Bob Kiss", "Hinda Miller", "Kevin J. Curley"]


# ------------------------------------------------------------------ the ledger


def test_a_budget_is_given_once_spent_and_shown(psephos, put, tmp_path):
    put("x.soi", FOUR + BODY)
    args = ["consensus", "x.soi", "--epsilon", "0.4", "--ledger", "l.db", "--dataset", "poll", "--format", "json"]
    assert "has no budget" in psephos(*args, code=3).stderr
    first = json.loads(psephos(*args, "--budget", "1,1e-6").stdout)
    assert first["budget"] == {"remaining_epsilon": "0.6", "remaining_delta": "1e-6"}
    assert json.loads(psephos(*args, "--budget", "1.0,0.000001").stdout)["budget"]["remaining_epsilon"] == "0.2"
    assert "cannot change" in psephos(*args, "--budget", "2,1e-6", code=2).stderr
    assert "0.2" in psephos(*args, code=3).stderr  # refused, with what is left
    assert [entry[1:] for entry in spent(tmp_path / "l.db")] == [(Fraction(2, 5), Fraction(0), True)] * 2

    shown = json.loads(psephos("ledger", "show", "l.db", "--format", "json").stdout)
    assert shown["schema"] == "psephos.ledger/1"
    (dataset,) = shown["datasets"]
    assert {
        "dataset": "poll",
        "budget_epsilon": "1",
        "budget_delta": "1e-6",
        "remaining_epsilon": "0.2",
        "remaining_delta": "1e-6",
    }.items() <= dataset.items()
    assert [(d["epsilon"], d["delta"], d["answered"]) for d in dataset["debits"]] == [("0.4", "0", True)] * 2
    rows = list(csv.DictReader(io.StringIO(psephos("ledger", "show", "l.db", "--format", "csv").stdout)))
    assert [(row["dataset"], row["epsilon"]) for row in rows] == [("poll", "0.4")] * 2
    table = psephos("ledger", "show", "l.db").stdout
    assert table.startswith("poll: epsilon 0.2 of 1 and delta 1e-6 of 1e-6 remain\n")
    assert table.count("answered") == 2


def test_a_replayed_request_gives_the_same_answer_and_costs_nothing(psephos, put, tmp_path):
    put("x.soi", "# NUMBER ALTERNATIVES: 4\n3: 1,2,3\n")  # so few people that a second draw would differ
    args = ["consensus", "x.soi", "--ledger", "l.db", "--dataset", "poll", "--format", "json", "--request-id", "monday"]
    first = psephos(*args, "--epsilon", "0.3", "--budget", "1")
    assert psephos(*args, "--epsilon", "0.30").stdout == first.stdout
    assert spent(tmp_path / "l.db") == [("monday", Fraction(3, 10), Fraction(0), True)]
    for options in (["--epsilon", "0.2"], ["--epsilon", "0.3", "--unranked", "missing"]):
        assert "monday" in psephos(*args, *options, code=3).stderr
    assert len(spent(tmp_path / "l.db")) == 1
    other = psephos(*args[:-1], "tuesday", "--epsilon", "0.3")
    assert json.loads(other.stdout)["released"] != json.loads(first.stdout)["released"]
    assert len(spent(tmp_path / "l.db")) == 2


@pytest.mark.parametrize("output", [".", "missing/out.json", "x.soi/out.json"])
def test_an_unwritable_output_is_refused_before_the_debit(psephos, put, tmp_path, output):
    put("x.soi", FOUR + BODY)
    Ledger(tmp_path / "l.db").set_budget("poll", epsilon=1)
    args = ["consensus", "x.soi", "--epsilon", "1", "--ledger", "l.db", "--dataset", "poll", "--output", output]
    psephos(*args, code=2)
    assert spent(tmp_path / "l.db") == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_answer_lost_on_a_full_disk_is_given_again_for_free(psephos, put, tmp_path):
    put("x.soi", FOUR + BODY)
    args = ["consensus", "x.soi", "--epsilon", "1", "--ledger", "l.db", "--dataset", "poll", "--request-id", "r"]
    psephos(*args, "--budget", "1", "--output", "/dev/full", code=2)
    assert spent(tmp_path / "l.db") == [("r", Fraction(1), Fraction(0), True)]
    assert order(json.loads(psephos(*args, "--format", "json").stdout)) == WANTED


def test_faults_and_refusals_cost_nothing(psephos, put, tmp_path):
    put("bad.soi", FOUR + "3: 1,1\n")
    put("seen.csv", "rank1\na\n")
    Ledger(tmp_path / "l.db").set_budget("poll", epsilon=1)
    ledger = ["--epsilon", "1", "--ledger", "l.db", "--dataset", "poll"]
    psephos("consensus", "bad.soi", *ledger, code=1)
    psephos("consensus", "seen.csv", *ledger, code=2)
    put("good.soi", FOUR + BODY)
    psephos("consensus", "good.soi", *ledger, "--time-limit", "nan", code=2)
    psephos("consensus", "good.soi", *ledger[:-1], "other", code=3)
    assert spent(tmp_path / "l.db") == []


def test_a_ledger_that_cannot_be_used_refuses(psephos, put):
    put("x.soi", FOUR + BODY)
    args = ["consensus", "x.soi", "--epsilon", "1", "--dataset", "poll", "--budget", "1", "--ledger"]
    assert "cannot be used" in psephos(*args, "x.soi", code=3).stderr
    assert (put("y.soi", "").parent / "x.soi").read_text(encoding="utf-8") == FOUR + BODY
    assert "cannot be used" in psephos(*args, "missing/l.db", code=3).stderr


def test_showing_a_ledger_changes_no_file(psephos, put, tmp_path):
    put("empty.db", "")
    psephos("ledger", "show", "empty.db", code=None)
    assert (tmp_path / "empty.db").stat().st_size == 0
    psephos("ledger", "show", "none.db", code=2)
    assert not (tmp_path / "none.db").exists()


@pytest.mark.skipif(os.name != "posix", reason="arguments are bytes on POSIX alone")
def test_an_argument_that_is_no_text_is_a_usage_error(psephos_process, put):
    put("x.soi", FOUR + BODY)
    args = ["consensus", "x.soi", "--epsilon", "1", "--ledger", "l.db", "--budget", "1", "--dataset", b"\xff"]
    psephos_process(*args, code=2)


# ------------------------------------------------------------------ M4, M8, M15: what a ranking is


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.soc", "# NUMBER ALTERNATIVES: 2\n"),
        ("x.csv", "left,right,winner\n"),
    ],
)
def test_m4_no_ballots_are_nothing_to_rank(psephos, put, name, text):
    put(name, text)
    done = psephos("consensus", name, "--epsilon", "1", "--items-public-as-seen", code=1)
    assert "nothing to rank" in done.stderr


def test_m4_one_item_has_rank_1(psephos, put):
    put("x.soc", "# NUMBER ALTERNATIVES: 1\n# ALTERNATIVE NAME 1: solo\n5: 1\n")
    for options in ([], ["--delta", "1e-6"]):
        document = json.loads(psephos("consensus", "x.soc", "--epsilon", "1", *options, "--format", "json").stdout)
        assert document["ranking"] == [{"rank": 1, "items": ["solo"]}]
        assert (document["cost_released"], document["gap"], document["unique"]) == ("0", "0", True)


def test_m4_two_items_7_to_3(psephos, put):
    put("x.soc", "# NUMBER ALTERNATIVES: 2\n7: 2,1\n3: 1,2\n")
    document = json.loads(psephos("consensus", "x.soc", "--epsilon", "30", "--format", "json").stdout)
    assert order(document) == ["2", "1"]
    assert document["released"]["margins"] == [["0", "-4"], ["4", "0"]]  # noise of sd 0.0008
    assert (document["cost_released"], document["guarantee"]["people"]) == ("3", 10)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 25])
def test_m8_without_margins_all_share_one_place(m):
    result = solve(np.zeros((m, m), dtype=int))
    assert result.tiers == (tuple(range(m)),)
    assert (result.cost, result.status, result.unique) == (0, "optimal", m == 1)


@pytest.mark.parametrize(
    ("suffix", "m", "body", "cost"),
    [
        ("soc", 2, "1: 1,2\n1: 2,1\n", 1),
        ("soc", 2, "1: 2,1\n1: 1,2\n", 1),
        ("toc", 3, "5: {1,2,3}\n", Fraction(15, 2)),
        ("soc", 3, "1: 1,2,3\n1: 2,3,1\n1: 3,1,2\n", 4),
        ("toi", 3, "2:\n", 3),
    ],
)
def test_m8_no_order_is_decided_by_the_order_of_the_input(put, suffix, m, body, cost):
    profile = read_preflib(put(f"x.{suffix}", f"# NUMBER ALTERNATIVES: {m}\n{body}"))
    result = solve(pairwise_margins(profile), people=profile.people)
    assert result.tiers == (tuple(range(m)),)
    assert (result.unique, result.cost, result.status) == (False, cost, "optimal")


def test_a_range_of_ranks_marks_an_item_without_answers(psephos, put):
    put("x.csv", DUELS)
    put("items.txt", "a\nb\nc\nd\n")
    run = ("consensus", "x.csv", "--items", "items.txt", "--unit", "comparison", "--epsilon", "900")
    table = psephos(*run).stdout
    assert table.splitlines()[:5] == ["rank  item", " 1-2  a", " 2-3  b", " 3-4  c", " 1-4  d"]
    assert "where a range of ranks stands, rankings that cost as little put the item elsewhere" in table
    document = json.loads(psephos(*run, "--format", "json").stdout)
    assert order(document) == document["order"] == ["a", "b", "c", "d"]
    assert document["undecided"][-1] == {"item": "d", "ranks": [1, 4]}
    assert document["unique"] is False
    rows = list(csv.reader(io.StringIO(psephos(*run, "--format", "csv").stdout)))
    assert rows[0] == ["rank", "item", "from_rank", "to_rank"]
    assert rows[4] == ["4", "d", "1", "4"]


def test_m8_a_tie_below_a_winner_is_kept(put):
    profile = read_preflib(put("x.toc", "# NUMBER ALTERNATIVES: 4\n4: 3,{1,2},4\n1: {1,2,3},4\n"))
    assert solve(pairwise_margins(profile), people=5).tiers == ((2,), (0, 1), (3,))


@pytest.mark.parametrize("m", [12, 20, 60])
def test_m15_many_items_within_time_and_memory(m):
    rng = np.random.default_rng(m)
    upper = np.triu(rng.integers(-60, 100, (m, m)), 1)  # a hidden order 0, 1, ... and many cycles
    margins = upper - upper.T
    tracemalloc.start()
    try:
        result = solve(margins, people=200, effort=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sorted(result.order) == list(range(m))
    assert result.lower_bound <= result.cost
    assert (result.status == "optimal") == (result.gap == 0)
    assert m == 60 or result.status == "optimal"
    assert result.cost <= sum((200 - margins[u, v]) / 2 for u in range(m) for v in range(u + 1, m))
    assert peak < 300_000_000


def test_check_of_faulty_comparisons_names_the_fault_once(psephos, put):
    put("x.csv", "left,right,winner\na,b,c\n")
    result = psephos("check", "x.csv", code=1)
    assert result.stderr == "error: x.csv:2: winner must be left, right or tie, or one of the two items, got 'c'\n"


def test_check_lists_every_faulty_ballot_once(psephos, put):
    put("x.toi", "# NUMBER ALTERNATIVES: 2\n3: 1,1\n2: 1,2\n1: 7\n")
    result = psephos("check", "x.toi", code=1)
    assert result.stderr.count("x.toi:2:") == 1
    assert result.stderr.count("x.toi:4:") == 1
    assert "faulty ballots of 4 people" in result.stderr
    assert psephos("consensus", "x.toi", "--epsilon", "1", code=1).stderr == result.stderr


def test_the_output_must_not_be_what_is_read(psephos, put):
    put("x.soi", "# NUMBER ALTERNATIVES: 2\n3: 1\n")
    base = ["consensus", "x.soi", "--epsilon", "0.1"]
    psephos(*base, "--ledger", "l.db", "--dataset", "d", "--budget", "1")
    for output in ("x.soi", "l.db", "./l.db"):
        psephos(*base, "--ledger", "l.db", "--dataset", "d", "--output", output, code=2)
    assert "0.9 of 1" in psephos("ledger", "show", "l.db").stdout


def test_a_refused_consensus_fixes_no_budget(psephos, put):
    put("x.soi", "# NUMBER ALTERNATIVES: 2\n3: 1\n")
    base = ["consensus", "x.soi", "--ledger", "l.db", "--dataset", "d", "--budget", "1"]
    psephos(*base, "--epsilon", "1", "--post-processing", "bogus", code=2)
    psephos(*base, "--epsilon", "2", code=3)
    psephos("consensus", "x.soi", "--ledger", "l.db", "--dataset", "d", "--budget", "3", "--epsilon", "1")
    assert "epsilon 2 of 3" in psephos("ledger", "show", "l.db").stdout


def test_comparisons_are_protected_by_person_where_there_are_persons(psephos, put):
    rows = "".join(f"p{k},a,b,left\n" for k in range(4000)) + "p0,a,b,right\n" * 5000
    put("x.csv", f"person,left,right,winner\n{rows}")
    args = ["consensus", "x.csv", "--epsilon", "1", "--items-public-as-seen", "--format", "json"]
    document = json.loads(psephos(*args).stdout)
    assert order(document) == ["a", "b"]  # the 5,001 judgements of one person count once
    assert document["guarantee"]["unit"] == "person"
    assert (document["guarantee"]["people"], document["guarantee"]["pairs_per_person"]) == (4000, 2)
    assert order(json.loads(psephos(*args, "--unit", "comparison").stdout)) == ["b", "a"]
    table = psephos(*args[:-2], "--pairs", "1").stdout
    assert "each person counts on 1 pair at most" in table
    assert "pairs is for comparisons" in psephos(*args, "--unit", "comparison", "--pairs", "1", code=2).stderr


def test_every_mechanism_releases_a_ranking_in_every_format(psephos, put):
    put("x.soi", "# NUMBER ALTERNATIVES: 3\n90000: 3,1\n40000: 1,2\n")
    for mechanism in ("laplace", "gaussian", "shaped", "probe", "borda", "footrule", "kwiksort", "exponential"):
        args = ["consensus", "x.soi", "--epsilon", "1", "--delta", "1e-6", "--mechanism", mechanism]
        assert order(json.loads(psephos(*args, "--format", "json").stdout)) == ["3", "1", "2"]
    assert "one ranking of 130000 people" in psephos(*args).stdout


# ------------------------------------------------------------------ certified, two-stage


@pytest.mark.parametrize("epsilon", ["1", pytest.param("1e-300", marks=pytest.mark.slow)])
def test_a_certified_consensus_says_what_it_proves(psephos, epsilon):
    command = ["consensus", BURLINGTON, "--epsilon", epsilon, "--post-processing", "certified"]
    text = psephos(*command).stdout
    document = json.loads(psephos(*command, "--format", "json").stdout)
    certificate = document["certificate"]
    assert (certificate["closed_by"], certificate["factor"], certificate["level"]) == ("exact", "1", 0.95)
    assert "with probability 95% over the noise it costs at most" in text
    if epsilon == "1":
        assert float(Fraction(certificate["excess"])) == pytest.approx(791.7, rel=0.01)
        assert "votes (0.0809 of the 15 pairs of each person) more than the best ranking" in text
    else:
        assert "no bound: there are no more" in text


def test_xi_and_combinations_that_make_no_sense(psephos):
    for options, message in (
        (["--xi", "0"], "xi must be a number > 0 and <= 1000, got '0'"),
        (["--xi", "1e400"], "xi must be"),
        (
            ["--post-processing", "certified", "--mechanism", "borda"],
            "--post-processing certified is for noise on margins",
        ),
    ):
        done = psephos("consensus", BURLINGTON, "--epsilon", "1", *options, code=2)
        assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "event", "closed_by"),
    [
        ((), "sampled", "exact"),
        (("--constants", "published"), "sampled", "exact"),
        (("--bounded-time",), "bounded-time", None),
        (("--bounded-time", "--delta", "1e-6"), "bounded-time", "exact"),
    ],
)
def test_options_of_two_stage(psephos, options, event, closed_by):
    run = ("consensus", BURLINGTON, "--epsilon", "1", "--mechanism", "two-stage", "--format", "json")
    document = json.loads(psephos(*run, *options).stdout)
    assert document["event"]["event"] == event
    assert (document["certificate"] or {}).get("closed_by") == closed_by


def test_two_stage_from_the_command(psephos):
    done = psephos("consensus", BURLINGTON, "--epsilon", "1", "--mechanism", "two-stage")
    assert "mechanism two-stage, one ranking of 9788 people" in done.stdout
    assert "no ranking costs less on the noisy table" in done.stdout
    for options in (("--constants", "published"), ("--bounded-time",)):
        wrong = psephos("consensus", BURLINGTON, "--epsilon", "1", *options, code=2)
        assert "--constants and --bounded-time are for --mechanism two-stage, got auto" in wrong.stderr
    two_stage = ("consensus", BURLINGTON, "--epsilon", "1", "--mechanism", "two-stage")
    wrong = psephos(*two_stage, "--constants", "tight", code=2)
    assert "--constants must be one of exact, published, got 'tight'" in wrong.stderr
    table = psephos("cost", "--items", "6", "--epsilon", "1", "--people", "1000000").stdout
    assert "two-stage: debits epsilon 1, delta 0; one ranking is released, and no table (epsilon times" in table

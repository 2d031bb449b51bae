"""A form's export, given to the commands as a new user would: it cannot hurt its owner."""

from __future__ import annotations

import json

from psephos import Ledger

LEDGER = ("--ledger", "l.db", "--dataset", "poll", "--budget", "2")
ROWS = [("Tea", "Coffee"), ("Tea", "Water"), ("Coffee", "Tea")] * 100


def export(header, extra=""):
    """302 people; two of them answered twice."""
    lines = [f"5/{k % 28 + 1}/2024 10:11:12,p{k}@example.org,{a},{b}{extra}" for k, (a, b) in enumerate(ROWS)]
    again = [f"5/30/2024 10:11:12,P{k}@example.org,Water,Coffee{extra}" for k in (1, 2)]
    return "\n".join([header, *lines, *again]) + "\n"


def test_layout_positions_does_not_void_every_ballot_of_an_export(psephos, put):
    put("items.txt", "Tea\nCoffee\nWater\n")
    args = ["consensus", "x.csv", "--epsilon", "1", "--layout", "positions", "--clean", "keep-first"]
    put("x.csv", export("Timestamp,Email Address,Favourite drink,Next best"))
    done = psephos(*args, "--items", "items.txt", *LEDGER, code=1)
    assert "--columns; columns found: Timestamp, Email Address, Favourite drink, Next best" in done.stderr
    every = psephos(*args, "--items", "items.txt", "--columns", "Timestamp,Favourite drink,Next best", *LEDGER, code=1)
    assert "302 of 302 ballots would be void, more than 1/2 of them" in every.stderr
    assert "more like it" in every.stderr
    assert len(every.stderr.splitlines()) < 12
    names = ["--columns", "Favourite drink", "--columns", "Next best", "--person-column", "email address"]
    done = psephos(*args, "--items", "items.txt", *names, *LEDGER, "--format", "json")
    assert json.loads(done.stdout)["guarantee"]["people"] == 300
    assert "left out 2 ballots of people who answered again later" in done.stderr
    assert [debit.epsilon for debit in Ledger(put("l.txt", "").parent / "l.db").debits("poll")] == [1]


def test_more_than_half_void_is_paid_for_only_where_it_is_insisted_on(psephos, put):
    put("items.txt", "Tea\nMilk\nMate\n")
    put("x.csv", export("Timestamp,Email Address,First choice,Second choice"))
    args = ["consensus", "x.csv", "--epsilon", "1", "--clean", "empty", "--items", "items.txt", *LEDGER]
    assert "--allow-void insists" in psephos(*args, code=1).stderr
    assert not (put("l.txt", "").parent / "l.db").exists()
    assert "voided the faulty ballots" in psephos(*args, "--allow-void").stderr
    put("y.toi", "# NUMBER ALTERNATIVES: 2\n1: 1,2\n2: 1,9\n")
    args = ["consensus", "y.toi", "--epsilon", "1", "--clean", "empty"]
    assert "2 of 3 ballots would be void" in psephos(*args, code=1).stderr
    assert psephos(*args, "--allow-void").stdout


def test_addresses_are_not_published_as_items(psephos, put):
    rows = "".join(f"p{k}@example.org,{a},{b}\n" for k, (a, b) in enumerate(ROWS))
    put("x.csv", "Email,First,Second\n" + rows)
    seen = ["consensus", "x.csv", "--epsilon", "1", "--items-public-as-seen", "--format", "json", *LEDGER]
    done = psephos(*seen)
    assert "example.org" not in done.stdout
    assert sorted(item for entry in json.loads(done.stdout)["ranking"] for item in entry["items"]) == [
        "Coffee", "Tea", "Water",
    ]  # fmt: skip
    forced = psephos(*seen, "--columns", "Email,First,Second", "--layout", "positions", code=1)
    assert "'p0@example.org' looks like an e-mail address (and 299 more like it)" in forced.stderr
    assert "--items" in forced.stderr
    put("duels.csv", "left,right,winner\n" + "a@x.org,b,left\n" * 9)
    duels = ["--epsilon", "1", "--unit", "comparison", "--items-public-as-seen"]
    assert "looks like an e-mail address" in psephos("consensus", "duels.csv", *duels, code=1).stderr
    checked = psephos("check", "duels.csv")
    assert "warning: duels.csv: hardly a public list of items" in checked.stderr
    assert "'a@x.org' looks like an e-mail address" in checked.stderr


def test_check_and_randomise_take_the_same_options(psephos, put):
    put("x.csv", "Respondent,tea,milk,freq\n17,1,2,30\n18,2,1,4\n")
    error = psephos("check", "x.csv", code=1).stderr
    assert "the columns 'Respondent', 'freq' look like no item" in error
    options = ["--ignore", "Respondent", "--count-column", "freq"]
    assert "34 people, 2 distinct ballots" in psephos("check", "x.csv", *options).stdout
    assert "34 reports" in psephos("randomise", "x.csv", *options, "--epsilon", "1").stderr
    put("p.csv", "rank1,rank2\ntea,milk\nmilk,tea\n")
    assert "--items-public-as-seen" in psephos("randomise", "p.csv", "--epsilon", "1", code=2).stderr
    assert "2 reports" in psephos("randomise", "p.csv", "--epsilon", "1", "--items-public-as-seen").stderr
    put("y.soc", "# NUMBER ALTERNATIVES: 2\n3: 1,2\n")
    assert "--columns is for CSV" in psephos("check", "y.soc", "--columns", "tea", code=2).stderr
    put("z.csv", "left,right,winner\na,b,left\n")
    assert "--person-column is for ballots" in psephos("check", "z.csv", "--person-column", "left", code=2).stderr

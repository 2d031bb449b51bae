"""An error names the option that was given and its value, never a number that the command made of it."""

from __future__ import annotations

import warnings

import pytest
from typer.testing import CliRunner

from psephos.cli.main import app
from psephos.errors import PsephosError

NAMES = "".join(f"# ALTERNATIVE NAME {i}: i{i}\n" for i in range(1, 6))
FILES = {
    "five.soi": f"# NUMBER ALTERNATIVES: 5\n{NAMES}30: 1,2,3,4,5\n40: 2\n",
    "duels.csv": "person,left,right,winner\n" + "p,a,b,left\nq,a,b,left\n" * 3 + "r,b,c,left\n",
    "items.txt": "a\nb\nc\nd\n",
    "x.csv": "y,x\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(60)),
}
COST = "cost --items 5"
CONSENSUS = "consensus five.soi --epsilon 1"
SCORES = "scores duels.csv --items items.txt"
BOUNDS = "--bounds y=0:10 --bounds x=0:2"
FIT = "posterior x.csv --model huber --formula y~x --delta 1e-300"
MEAN = "posterior x.csv --model mean --formula y~1 --bounds y=0:10 --epsilon 1 --delta 1e-6"
QUANTILE = f"posterior x.csv --model quantile --formula y~x {BOUNDS} --epsilon 1 --delta 1e-6"
DUELS = "posterior duels.csv --model bradley-terry --items items.txt --epsilon 1 --delta 1e-3"
PLAN = "plan local --items 5"


@pytest.mark.parametrize(
    ("command", "named", "value"),
    [
        (f"{COST} --epsilon 1e149", "epsilon", "'1e149'"),
        (f"{COST} --epsilon 1e-301", "epsilon", "'1e-301'"),
        (f"{COST} --epsilon 1 --delta 1e-301", "delta", "'1e-301'"),
        (f"{COST} --epsilon 1 --people 0", "people", "0"),
        (f"{COST} --epsilon 1 --pairs 3 --unit comparison", "pairs", "3"),
        (f"{CONSENSUS} --delta 1e-300 --mechanism two-stage", "delta", "1e-300"),
        (f"{CONSENSUS} --unit comparison", "unit", "'comparison'"),
        (f"{CONSENSUS} --time-limit nan", "time", "nan"),
        (f"{CONSENSUS} --xi 0", "xi", "'0'"),
        (f"{CONSENSUS} --ledger l.db --dataset nothing", "dataset", "'nothing'"),
        (f"{CONSENSUS} --ledger l.db --dataset x --budget 1e-301", "budget", "'1e-301'"),
        (f"{SCORES} --epsilon 1e149", "epsilon", "'1e149'"),
        (f"{SCORES} --epsilon 1 --pairs 0", "pairs", "0"),
        (f"{SCORES} --epsilon 1 --level 0.99999", "level", "0.99999"),
        (f"{FIT} {BOUNDS} --epsilon 1e-300", "epsilon", "1e-300"),
        (f"{FIT} {BOUNDS} --epsilon 1e-20 --method generator --steps 2", "epsilon", "1e-20"),
        (f"{FIT} --bounds y=0:1e-300 --bounds x=0:2 --epsilon 1", "bounds", "0:1e-300"),
        (f"{FIT} --bounds y=0:1e300 --bounds x=0:2 --epsilon 1", "bounds", "0:1e+300"),
        (f"{FIT} {BOUNDS} --epsilon 1 --response-scale 1e-300", "response", "1e-300"),
        (f"{FIT} {BOUNDS} --epsilon 1 --coefficient-box 1:0", "coefficient", "'1:0'"),
        (f"{MEAN} --clip 1e-95", "--clip", "1e-95"),
        (f"{MEAN} --clip 1e300", "--clip", "1e+300"),
        (f"{QUANTILE} --levels 1e-300", "levels", "1e-300"),
        (f"{DUELS} --max-comparisons {10**30}", "--max-comparisons", f"{10**30}"),
        (f"{PLAN} --epsilon 1e-18 --people 10", "epsilon", "'1e-18'"),
        (f"{PLAN} --epsilon 1 --target-error 1e-300", "target", "1e-300"),
        (f"{PLAN} --epsilon 1 --people 10 --compare 1e-30", "compare", "'1e-30'"),
        ("randomise duels.csv --items items.txt --epsilon 801", "epsilon", "'801'"),
    ],
)
def test_an_error_names_the_option_and_the_value_that_were_given(tmp_path, monkeypatch, command, named, value):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, command.split())
    assert isinstance(done.exception, PsephosError), done.exception
    message = str(done.exception)
    assert named in message
    assert value in message


@pytest.mark.parametrize("delta", ["0", "1e-300"])
@pytest.mark.parametrize("graph", ["private", "public"])
def test_budgets_at_their_lower_end_are_divided_without_an_error_about_a_part(tmp_path, monkeypatch, delta, graph):
    """The least epsilon, split between two tables, is below the least epsilon; so are rank intervals beside scores."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    for command in (
        f"{SCORES} --epsilon 1e-300 --delta {delta} --graph {graph}",
        f"consensus five.soi --epsilon 1e-300 --delta {delta} --level 0.9",
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(app, command.split())
        assert done.exception is None, done.exception

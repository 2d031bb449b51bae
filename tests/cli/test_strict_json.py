"""Every command's JSON is strict JSON, whatever the parameters: a number that is not finite is null, and says why.

Run in this process, which is quicker; how the program starts and ends is tested elsewhere.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from psephos._json import json_text
from psephos.central import MECHANISMS
from psephos.cli.main import app
from psephos.errors import PsephosError
from psephos.local import plan_person, randomise_answers, write_reports

SRC = Path(__file__).parents[2] / "src" / "psephos"
EXTREMES = ("1e-300", "1e-149", "1e9")


def strict(text):
    """The document, if it is JSON by its standard."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def nulls_say_why(value):
    """Whether every number that is absent for not being finite has its reason beside it: none is there for nothing."""
    if isinstance(value, dict):
        reasons = value.get("null_because", {})
        return all(value[name] is None or None in value[name] for name in reasons) and all(
            map(nulls_say_why, value.values())
        )
    return not isinstance(value, list) or all(map(nulls_say_why, value))


def run(*args):
    """What the command says on stdout, or the error of ours by which it refuses: there is no other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, [str(a) for a in args])
    if done.exception is not None:
        assert isinstance(done.exception, PsephosError), done.exception
        return done.exception
    return done.stdout


def document(*args):
    text = run(*args, "--format", "json")
    assert isinstance(text, str), text
    found = strict(text)
    assert nulls_say_why(found)
    return found


def test_json_has_no_infinity_and_says_why_a_number_is_absent():
    text = json_text({"a": [1.0, math.inf], "b": {"c": -math.inf, "d": None}, "e": math.nan, "f": "Infinity"})
    assert strict(text) == {
        "a": [1.0, None],
        "b": {"c": None, "d": None, "null_because": {"c": "minus infinity, or below -1.8e308"}},
        "e": None,
        "f": "Infinity",
        "null_because": {"a": "infinite, or above 1.8e308", "e": "not defined"},
    }
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([math.inf])


def test_all_json_is_written_by_the_one_strict_function():
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in {"dumps", "dump"}:
                assert path.name == "_json.py", path


@pytest.mark.parametrize("epsilon", EXTREMES)
def test_cost_at_extreme_parameters(epsilon):
    for (items, people), delta in itertools.product(((1, 1), (5, 10**400), (5000, None)), ("0", "1e-300")):
        given = ("--items", items, "--epsilon", epsilon, "--delta", delta)
        given += () if people is None else ("--people", people)
        found = document("cost", *given)
        for row in found["mechanisms"]:
            drawn = row["mechanism"] in {"exponential", "footrule", "kwiksort", "two-stage"}
            assert drawn or row["noise_sd"] is not None or "noise_sd" in row["null_because"]
    for rest in (("--unit", "comparison"), ("--pairs", 3), ("--format", "csv"), ("--format", "table")):
        assert isinstance(run("cost", "--items", 3, "--epsilon", epsilon, "--people", 7, *rest), str)


def test_noise_that_a_double_can_hold_is_a_number():
    """The variance of the noise is above all doubles here, and its root is not."""
    found = document("cost", "--items", 5, "--epsilon", "1e-149")
    rows = {row["mechanism"]: row["noise_sd"] for row in found["mechanisms"]}
    assert rows["nuclear"] == pytest.approx(2.06e150, rel=0.01)
    assert "null_because" not in str(found)


@pytest.mark.parametrize("epsilon", EXTREMES)
def test_consensus_at_extreme_parameters(tmp_path, epsilon):
    one, five = tmp_path / "one.soc", tmp_path / "five.soi"
    one.write_text("# NUMBER ALTERNATIVES: 1\n# ALTERNATIVE NAME 1: a\n3: 1\n")
    names = "".join(f"# ALTERNATIVE NAME {i}: i{i}\n" for i in range(1, 6))
    five.write_text(f"# NUMBER ALTERNATIVES: 5\n{names}3: 1,2,3,4,5\n{10**30}: 2\n")
    for path, mechanism, delta in itertools.product((one, five), MECHANISMS, ("0", "1e-12")):
        given = ("consensus", path, "--epsilon", epsilon, "--delta", delta, "--mechanism", mechanism)
        text = run(*given, "--format", "json")
        if isinstance(text, str):
            assert nulls_say_why(strict(text))
    document("consensus", five, "--epsilon", epsilon, "--level", "0.9")
    document("consensus", five, "--epsilon", epsilon, "--unranked", "missing", "--post-processing", "raw")


def test_scores_of_items_without_answers_or_separated(tmp_path):
    path, items = tmp_path / "duels.csv", tmp_path / "items.txt"
    items.write_text("a\nb\nc\nd\n")
    path.write_text("person,left,right,winner\n" + "p,a,b,left\nq,a,b,left\n" * 3 + "r,b,c,left\n")
    found = document("scores", path, "--items", items)
    alone = next(row for row in found["scores"] if row["item"] == "d")
    assert (alone["low"], alone["high"]) == (None, None)
    assert alone["null_because"] == {
        "low": "minus infinity, or below -1.8e308",
        "high": "infinite, or above 1.8e308",
    }
    for epsilon in EXTREMES:
        for rest in ((), ("--graph", "public"), ("--unit", "comparison"), ("--delta", "1e-9")):
            document("scores", path, "--items", items, "--epsilon", epsilon, *rest)


def test_scores_of_reports(tmp_path):
    path, items = tmp_path / "reports.jsonl", tmp_path / "items.txt"
    items.write_text("a\nb\nc\nd\n")
    for epsilon in ("1e-17", "0.01", "8"):
        plan = plan_person(["a", "b", "c", "d"], epsilon=epsilon, assigned=[("a", "b"), ("b", "c")])
        write_reports(path, [randomise_answers(plan, ["left", "left"])] * 3)
        document("scores", path, "--items", items)


@pytest.mark.parametrize("items", [2, 5])
def test_plans_at_extreme_parameters(items):
    for epsilon in ("1e-17", "0.001", "800"):
        for goal in (
            ("--people", 1),
            ("--people", 10**12),
            ("--target-error", 1e-3),
            ("--target-top", 0.9, "--top", 1),
        ):
            text = run("plan", "local", "--items", items, "--epsilon", epsilon, *goal, "--format", "json")
            if isinstance(text, str):
                assert nulls_say_why(strict(text))


def test_posterior_and_ledger(tmp_path):
    path, db = tmp_path / "x.csv", tmp_path / "ledger.db"
    path.write_text("y,x\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(60)))
    bounds = ("--bounds", "y=0:10", "--bounds", "x=0:2")
    for epsilon, (model, *formula) in itertools.product(
        ("1e-300", "1e-6", "1e9"), (("mean", "--formula", "y ~ 1"), ("huber", "--formula", "y ~ x"))
    ):
        for delta in ("1e-300", "0.5"):
            given = ("posterior", path, "--model", model, *formula, *bounds[: 2 if model == "mean" else 4])
            text = run(*given, "--epsilon", epsilon, "--delta", delta, "--draws", 40, "--format", "json")
            if isinstance(text, str):
                assert nulls_say_why(strict(text))
    ballots = tmp_path / "x.soi"
    ballots.write_text("# NUMBER ALTERNATIVES: 2\n3: 1,2\n")
    spend = ("--ledger", db, "--dataset", "x", "--budget", "1e9,0.5")
    assert run("consensus", ballots, "--epsilon", "1e-300", "--delta", "1e-300", *spend)
    found = document("ledger", "show", db)
    assert [entry["dataset"] for entry in found["datasets"]] == ["x"]

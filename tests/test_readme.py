"""Every block of the README runs, and prints what it says; its limits say what is not covered.

Blocks and commands run in this process; the main job, in a process of its own.
"""

import io
import json
import re
import shutil
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from commands import checked, run_here, run_process

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


def following(kind, index):
    """The block after a block, if it is of this kind."""
    return BLOCKS[index + 1][1] if BLOCKS[index + 1][0] == kind else None


PYTHON = [(code, following("text", i)) for i, (kind, code) in enumerate(BLOCKS) if kind == "python"]
SHELL = [line for kind, code in BLOCKS if kind == "sh" for line in code.splitlines() if line.startswith("psephos ")]


def test_the_readme_has_blocks():
    assert len(PYTHON) == 5
    assert len(SHELL) == 13


@pytest.mark.parametrize(("code", "output"), PYTHON)
def test_python_blocks_print_what_the_readme_says(code, output, monkeypatch, tmp_path):
    """The three best are 15 standard deviations of the noise apart, so the output is certain."""
    assert len(code.strip().splitlines()) <= 12
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)  # one keeps a ledger
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err, warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert out.getvalue() == output
    assert err.getvalue() == ""


def test_shell_blocks_of_the_commands_run(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for line in SHELL:
        result = checked(run_here(*line.split()[1:], cwd=tmp_path), 0)
    assert "epsilon 0.5 of 1" in result.stdout  # the last line shows the ledger


def test_the_csv_samples_are_the_example_files():
    sample = next(code for kind, code in BLOCKS if kind == "text" and "rank1" in code)
    columns = [[line[a:b].strip() for line in sample.splitlines()] for a, b in ((0, 32), (32, 60), (60, None))]
    assert "\n".join(columns[0]) + "\n" == (ROOT / "examples" / "drinks.csv").read_text()
    positions = (ROOT / "examples" / "drinks_positions.csv").read_text().splitlines()
    assert list(dict.fromkeys(positions)) == columns[1]
    assert columns[2] == ["items.txt", *(ROOT / "examples" / "drinks.txt").read_text().splitlines()]


def test_the_documented_json_fields_are_those_printed():
    described = (ROOT / "docs" / "json.md").read_text().partition("## `psephos.cost/1`")[0]
    command = ["consensus", "examples/drinks.csv", "--epsilon", "1", "--format", "json"]
    document = json.loads(checked(run_here(*command, cwd=ROOT), 0).stdout)
    for field in [*document, *document["guarantee"], *document["released"], *document["post_processing"]]:
        assert f"`{field}`" in described or field in {"schema", "name"}


def test_the_documented_fields_of_scores_and_plans_are_those_printed(tmp_path):
    text = (ROOT / "docs" / "json.md").read_text()
    reports = tmp_path / "r.jsonl"

    def printed(*command):
        return checked(run_here(*command, cwd=ROOT), 0).stdout

    printed("randomise", "examples/drinks.csv", "--epsilon", "1", "--output", str(reports))
    scores = text.partition("## `psephos.scores/1`")[2].partition("## `psephos.report/1`")[0]
    document = json.loads(printed("scores", str(reports), "--format", "json"))
    for field in [*document, *document["guarantee"], *document["scores"][0]]:
        assert f"`{field}`" in scores or field == "schema"
    described = text.partition("## `psephos.report/1`")[2].partition("## `psephos.cost/1`")[0]
    record = json.loads(reports.read_text().splitlines()[0])
    for field in [*record, *record["answers"][0]]:
        assert f"`{field}`" in described or field == "schema"
    plans = text.partition("## `psephos.plan/1`")[2].partition("## `psephos.ledger/1`")[0]
    document = json.loads(
        printed("plan", "local", "--items", "4", "--epsilon", "1", "--people", "9", "--format", "json")
    )
    for field in [*document, *document["groups"][0], *document["curve"][0]]:
        assert f"`{field}`" in plans or field == "schema"


def test_an_answer_at_epsilon_one_carries_a_fifth():
    from psephos.local import attenuation

    assert "at epsilon 1 an answer carries a fifth of the information" in " ".join(TEXT.split())
    assert round(attenuation(1) ** 2, 1) == 0.2


def test_the_plan_of_the_readme():
    from psephos import plan_local

    plan = plan_local(10, epsilon=1, target_error=0.1)
    assert f"{plan.people:,} people with one pair each, and {int(plan.all_pairs_factor)} times as many" in " ".join(
        TEXT.split()
    )
    assert plan.pairs == 1 if isinstance(plan.pairs, int) else set(plan.pairs) == {1}


def test_the_main_job_prints_what_the_readme_says():
    """Same layout and same sentence; the three best are certain."""
    said = next(code for kind, code in BLOCKS if kind == "text")
    command = next(code for kind, code in BLOCKS if kind == "sh").split("psephos ")[1].split()
    printed = checked(run_process(*command, cwd=ROOT), 0).stdout.splitlines()
    assert printed[:4] == said.splitlines()[:4]
    assert printed[-1] == said.splitlines()[-1]
    assert {line[6:] for line in printed[1:7]} == {line[6:] for line in said.splitlines()[1:7]}


def test_the_marked_commands_are_there_for_ci():
    for mark, needle in (("run", "psephos consensus examples/burlington2006.toi"), ("test", "bin/pytest")):
        assert re.search(rf"<!-- {mark} -->\n```sh\n[^`]*{re.escape(needle)}", TEXT)


@pytest.mark.parametrize("limit", ["How long a run takes", "one machine", "not private", "does not protect a person"])
def test_limits_are_stated(limit):
    assert limit in " ".join(TEXT.partition("## Limits")[2].partition("## More")[0].split())

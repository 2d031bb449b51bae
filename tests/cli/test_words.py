"""What an error says on the command line: options, and no names of Python or numbers of errors."""

from __future__ import annotations

import ast
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from psephos.cli.main import _fail, app
from psephos.cli.words import in_options, plain
from psephos.errors import PsephosError

SRC = Path(__file__).parents[2] / "src" / "psephos"


def options_of(command, found):
    for parameter in getattr(command, "params", ()):
        found.update(option for option in parameter.opts if option.startswith("--"))
    for inner in getattr(command, "commands", {}).values():
        options_of(inner, found)
    return found


OPTIONS = sorted(options_of(typer.main.get_command(app), set()))
#: Names that only a call from Python can get wrong: no command passes them on.
PYTHON_ALONE = re.compile(
    r"psephos\.bootstrap\.private_generator|settings of one method|private_consensus|covariance_of|base=0"
    r"|read_comparisons_csv reads them"
)
PYTHON_WORDS = re.compile(r"\w+\(\)|\b[a-z]\w*=['\w]|\b(?:read|write|private|fit|with|from)_[a-z]\w*")


def text_of(node):
    """The text of a message, its values as VALUE."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "'VALUE'" if node.conversion == ord("r") else "VALUE"
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "VALUE"


def messages():
    for folder in ("profile", "central", "local", "scores", "bootstrap", "kemeny", "privacy", "cli"):
        for path in sorted((SRC / folder).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Call) and node.args):
                    continue
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in {"ParameterError", "DataError", "OrderFault", "fail", "add", "BudgetError", "note"}:
                    for argument in node.args[:1]:
                        text = text_of(argument)
                        if " " in text:
                            yield f"{path.parent.name}/{path.name}:{node.lineno}", text, name == "ParameterError"


def test_no_error_that_a_command_can_show_speaks_python():
    seen = 0
    wrong = []
    for where, text, parameters in messages():
        seen += 1
        said = in_options(text, OPTIONS, parameters=parameters)
        if PYTHON_WORDS.search(said) and not PYTHON_ALONE.search(said):
            wrong.append(f"{where}: {said}")
    assert seen > 300
    assert wrong == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("post_processing certified is for noise", "--post-processing certified is for noise"),
        ("pairs is for comparisons with unit='person'", "--pairs is for comparisons with --unit person"),
        ("top must be given with target_top", "--top must be given with --target-top"),
        ("pairs must be given with unit 'comparison'", "--pairs must be given with --unit comparison"),
        ("epsilon[1] must be > 0, got 'target_top'", "--epsilon[1] must be > 0, got 'target_top'"),
        ("pairs_public must be False for ballots", "--pairs-public-as-seen is not for ballots"),
        ("scores must be 3 numbers", "--scores-guess must be 3 numbers"),
        ("declare them with with_x() (--items-public-as-seen)", "declare them with --items-public-as-seen"),
        ("unit='comparison' (--unit comparison) does", "--unit comparison does"),
        ("the list (items=, --items)", "the list (--items)"),
        ("items 1 and 3 agree", "--items 1 and 3 agree"),
        ("--formula 'y ~ 1' and --output 'x'", "--formula 'y ~ 1' and --output 'x'"),
        ("there is a dataset 'pairs', got 'unit'", "there is a dataset 'pairs', got 'unit'"),
    ],
)
def test_parameters_become_options(message, said):
    assert in_options(message, OPTIONS, parameters=True) == said


def test_what_is_said_of_data_keeps_its_words():
    for message in ("x.jsonl:3: unit must be one of person, got 'pairs'", "items 1 and 3 have the same name 'a'"):
        assert in_options(message, OPTIONS, parameters=False) == message
    assert in_options("if they are items, say layout='places'", OPTIONS, parameters=False).endswith(
        "say --layout places"
    )


def test_no_error_of_a_file_shows_its_number(tmp_path):
    (tmp_path / "x.csv").write_text("")
    for name in errno.errorcode:
        for path in (None, str(tmp_path / "x.csv"), str(tmp_path / "none" / "x"), os.fsencode(tmp_path)):
            said = plain(OSError(name, os.strerror(name), path))
            assert "Errno" not in said
            assert str(name) not in said.replace(str(tmp_path), "")
            assert len(said) > 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "none.csv"], "there is no file 'none.csv'"),
        (["check", "none/x.csv"], "there is no folder 'none'"),
        (["check", "."], "'.' is a folder, not a file"),
        (["check", "x.csv/y"], "'x.csv/y' is no path"),
        (["check", "x" * 300], "is too long for the name of a file"),
        (["check", "x.csv", "--items", "none.txt"], "there is no file 'none.txt'"),
        (["consensus", "x.csv", "--epsilon", "1", "--output", "none/y"], "there is no folder 'none'"),
        (["consensus", "x.csv", "--epsilon", "1", "--output", "."], "'.' is a folder, not a file"),
        (["scores", "none.jsonl"], "there is no file 'none.jsonl'"),
        (["posterior", "none.csv", "--model", "mean", "--formula", "y~1", "--bounds", "y=0:1", "--epsilon", "1",
          "--delta", "1e-6"], "there is no file 'none.csv'"),
        (["randomise", "x.csv", "--epsilon", "1", "--output", "x.jsonl"], "--output 'x.jsonl' exists"),
        (["consensus", "x.csv", "--epsilon", "1", "--level", "95"], "--level must be"),
        (["consensus", "x.csv", "--epsilon", "1", "--level", "95"], "; 95 percent is 0.95"),
        (["cost", "--items", "3", "--epsilon", "1", "--level", "90"], "; 90 percent is 0.9"),
        (["scores", "x.csv", "--level", "95"], "; 95 percent is 0.95"),
        (["plan", "local", "--items", "3", "--epsilon", "1", "--people", "9", "--level", "99"], "; 99 percent is 0.99"),
        (["consensus", "x.csv", "--epsilon", "1", "--time-limit", "-1"], "--time-limit must be"),
        (["consensus", "x.csv", "--epsilon", "1", "--post-processing", "x"], "--post-processing must be one of"),
        (["consensus", "x.csv", "--epsilon", "1", "--pairs", "1"], "--pairs is for comparisons with --unit person"),
    ],
)  # fmt: skip
def test_errors_of_commands(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("a,b\n1,2\n2,1\n")
    Path("x.jsonl").write_text("precious")
    with pytest.raises(PsephosError) as caught:
        app(arguments, standalone_mode=False)
    assert said in str(caught.value)
    assert "Errno" not in str(caught.value)
    assert Path("x.jsonl").read_text() == "precious"


def test_reports_are_written_over_where_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("a,b\n1,2\n2,1\n")
    Path("x.jsonl").write_text("old")
    app(["randomise", "x.csv", "--epsilon", "1", "--output", "x.jsonl", "--overwrite"], standalone_mode=False)
    assert Path("x.jsonl").read_text().count("psephos.report/1") == 2
    app(["randomise", "x.csv", "--epsilon", "1", "--output", os.devnull], standalone_mode=False)


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe")
def test_an_output_that_nobody_reads_is_said_in_words(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n2,1\n")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "psephos", "consensus", str(path), "--epsilon", "1"]
    environment = {**os.environ, "PYTHONPATH": str(SRC.parent)}
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment, text=True, check=False)
    os.close(writer)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: the output was closed before all of it was written: what was not read is lost; a request with "
        "--request-id can be asked for again, for free"
    )
    assert "Errno" not in done.stderr
    assert "Exception" not in done.stderr


def test_an_error_shows_no_control_characters(capsys):
    with pytest.raises(SystemExit):
        _fail(ValueError("x.csv:1: columns found: \x1b[31ma\u202e, b\nand 2 more"), 1)
    assert capsys.readouterr().err == "error: x.csv:1: columns found: \\x1b[31ma\\u202e, b\nand 2 more\n"

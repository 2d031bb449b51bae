"""stdout carries the result alone; progress shows after a second; nothing in a name reaches a terminal or a formula."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from psephos import Ballot, Profile
from psephos.cli.output import claimed, count_of, progress, shown, write_csv
from psephos.profile import write_preflib

NOISY = """
import os, sys
from psephos.cli.output import quiet_stdout, write_result
print("before")
with quiet_stdout():
    print("a Python library")
    os.write(1, b"a compiled library\\n")
write_result("the result", None)
"""


def test_whatever_libraries_print_goes_to_stderr():
    result = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, check=True)
    assert result.stdout == "before\nthe result\n"
    assert "a Python library" in result.stderr
    assert "a compiled library" in result.stderr


def test_json_parses_when_the_compiled_solver_runs(psephos_process, tmp_path):
    """25 items of random orders need the linear-programming path, whose library prints a banner."""
    rng = np.random.default_rng(1)
    ballots = [Ballot.strict(rng.permutation(25).tolist()) for _ in range(40)]
    path = tmp_path / "random.soc"
    write_preflib(Profile.from_ballots([f"i{k}" for k in range(25)], ballots), path)
    command = ["consensus", path, "--epsilon", "5", "--format", "json", "--post-processing", "raw"]
    document = json.loads(psephos_process(*command, "--mechanism", "laplace").stdout)
    assert document["method"] == "branch_and_cut"
    assert sum(len(entry["items"]) for entry in document["ranking"]) == 25


def test_progress_is_silent_at_first_and_speaks_after_a_second(capfd):
    with progress("counting"):
        pass
    assert capfd.readouterr().err == ""
    with progress("counting"):
        said = ""
        while not said:  # a busy machine takes longer
            time.sleep(0.05)
            said = capfd.readouterr().err
    assert said == "counting ...\n"


def test_a_claimed_file_is_left_as_it_was_after_a_failure(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("precious")
    for path in (new, old):
        with pytest.raises(ZeroDivisionError), claimed(path):  # noqa: PT012
            assert path.exists()
            _ = 1 / 0
    assert not new.exists()
    assert old.read_text() == "precious"
    with claimed(None):
        pass


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\rc", "a\\nb\\rc"),
        ("tab\there", "tab\\there"),
        ("שלום 👩\u200d🚀", "שלום 👩\u200d🚀"),
    ],
)
def test_control_characters_do_not_reach_the_terminal(name, safe):
    assert shown(name) == safe


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\tx", "\r=1", "a\r=1+1", 'x"\r\n=1'])
def test_f19_cells_are_no_formulas_and_stay_in_their_row(name):
    text = write_csv(("rank", "item"), [(1, name), (2, "tea")])
    import csv
    import io

    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["rank", "item"]
    assert rows[2] == ["2", "tea"]
    assert rows[1][1] in {name, "'" + name}
    assert rows[1][1][0] not in "=+-@\t\r"


def test_numbers_have_nouns():
    assert count_of(0, "item") == "0 items"


def test_names_cannot_turn_a_line_around():
    assert shown("tea\u202eeffoc") == "tea\\u202eeffoc"
    assert shown("caf\u00e9 \U0001f469\u200d\U0001f52c") == "caf\u00e9 \U0001f469\u200d\U0001f52c"

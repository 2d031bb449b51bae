"""``psephos plan local``: formats, targets, guesses from files, pictures and what is refused."""

import csv
import io
import json
import sys
from types import SimpleNamespace

import pytest

from psephos.cli.main import app
from psephos.errors import DataError, PsephosError
from psephos.local.plan import plan_local

GUESS = "1,0.5,0.2,-0.7,-1"


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """Call ``psephos plan local`` for five items at epsilon 1 in this process, in the test's own folder.

    Returns what stands on stdout and stderr; with ``code`` 1 or 2 the error in place of stderr.
    """
    monkeypatch.chdir(tmp_path)

    def plan(*args, code=0, epsilon="1"):
        arguments = ["plan", "local", "--items", "5", "--epsilon", epsilon, *map(str, args)]
        error = None
        try:
            app(arguments, standalone_mode=False)
        except (PsephosError, OSError) as raised:
            error = raised
        out, err = capsys.readouterr()
        assert code == (0 if error is None else 1 if isinstance(error, DataError) else 2), error
        assert not (code and out)
        return SimpleNamespace(stdout=out, stderr=err if error is None else str(error))

    return plan


def test_help(psephos):
    assert "local" in psephos("plan", "--help").stdout
    usage = psephos("plan", "local", "--help").stdout
    for option in ("--people", "--target-error", "--target-top", "--target-width", "--scores-guess", "--picture"):
        assert option in usage
    assert "plan" in psephos("--help").stdout


def test_table_says_what_is_reached_and_what_is_assumed(psephos):
    text = psephos("plan", "local", "--items", "5", "--epsilon", "1", "--people", "2000").stdout
    wanted = plan_local(5, epsilon=1, people=2000)
    lines = text.splitlines()
    assert lines[0] == "2000 people, 5 items, epsilon 1 for each person."
    for words in (
        "1 pair of 10, drawn at random; epsilon 1 for each, 1 in all",
        f"{wanted.score_error:.3g} (log-odds, about the mean of all)",
        f"would take {wanted.all_pairs_factor:.3g} times as many people",
        "binary is better at 0% ties",
        "all items are equally good",
        "one ranking of their own",
        "No data was read.",
        "epsilon 0.5  epsilon 1  epsilon 2",
    ):
        assert words in text, words
    assert [line.split()[-2] for line in lines if line.startswith("  2000 ")] == [f"{wanted.score_error:.3g}"]


def test_targets(plan):
    for target, words, wanted in [
        (["--target-error", "0.1"], "a standard error of a score of at most 0.1.", {"target_error": 0.1}),
        (["--target-top", "0.9", "--top", "2"], "the best 2 to be found with probability 0.9.", {"target_top": 0.9}),
        (["--target-width", "1"], "rank intervals at most 1 wide on average.", {"target_width": 1.0}),
    ]:
        people = plan_local(5, epsilon=1, scores=[float(x) for x in GUESS.split(",")], top=2, **wanted).people
        lines = plan(*target, "--scores-guess", GUESS).stdout.splitlines()
        assert lines[0] == f"{people} people, 5 items, epsilon 1 for each person: the fewest for {words}"


def test_json(plan):
    done = plan("--target-top", ".9", "--top", "2", "--scores-guess", GUESS, "--format", "json", epsilon="1:600,4:400")
    document = json.loads(done.stdout)
    scores = [float(x) for x in GUESS.split(",")]
    wanted = plan_local(5, epsilon={1: 3, 4: 2}, target_top=0.9, top=2, scores=scores)
    assert document["schema"] == "psephos.plan/1"
    assert document["kind"] == "local"
    assert document["target"] == {"top": 0.9}
    assert document["scores_guess"] == list(wanted.scores)
    for name, value in document.items():
        if name in {"schema", "kind", "target", "scores_guess", "score_errors", "groups", "assumptions", "curve"}:
            continue
        assert value == getattr(wanted, name), name
    assert document["score_errors"] == list(wanted.score_errors)
    assert [(g["epsilon"], g["share"], g["pairs"]) for g in document["groups"]] == [("1", "0.6", 1), ("4", "0.4", 2)]
    assert document["groups"][1]["epsilon_answer"] == "2"
    assert document["assumptions"] == list(wanted.assumptions())
    at = [p for p in document["curve"] if p["people"] == wanted.people and p["epsilon"] == "1:0.6,4:0.4"]
    assert at[0]["score_error"] == pytest.approx(wanted.score_error, rel=1e-9)
    assert at[0]["pairs"] == [1, 2]
    equal = json.loads(plan("--people", "9", "--format", "json").stdout)
    assert equal["target"] is equal["scores_guess"] is equal["score_errors"] is equal["top_chance"] is None


def test_csv_is_the_curve(plan):
    done = plan("--people", "700", "--compare", "4,1", "--format", "csv", "--output", "curve.csv")
    assert done.stdout == ""
    assert "700 people, 5 items, epsilon 1 for each person." in done.stderr
    text = plan("--people", "700", "--compare", "4", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    people = [50, 100, 200, 500, 700, 1000, 2000, 5000, 10000]
    wanted = plan_local(5, epsilon=1, people=700).curve([1, 4], people=people)
    assert [
        (r["epsilon"], int(r["people"]), r["pairs"], float(r["score_error"]), float(r["difference_error"]))
        for r in rows
    ] == [(p.epsilon, p.people, str(p.pairs[0]), p.score_error, p.difference_error) for p in wanted]


def test_output_goes_to_its_file(plan, tmp_path):
    plan("--people", "700", "--compare", "4", "--format", "csv", "--output", "curve.csv")
    assert (tmp_path / "curve.csv").read_text(encoding="utf-8").startswith("epsilon,people,pairs,score_error")


def test_guesses_from_files(plan, put):
    numbers = GUESS.split(",")
    plain = put("plain.txt", "\ufeff" + "\r\n".join(numbers) + "\n\n")
    table = put("table.csv", "item,score,low\n" + "".join(f"x{i},{x},0\n" for i, x in enumerate(numbers)))
    wanted = plan("--people", "100", "--scores-guess", GUESS).stdout
    assert "scores are as guessed" in wanted
    for path in (plain, table):
        assert plan("--people", "100", "--scores-guess", path).stdout == wanted
    for name, text, words in [
        ("a.txt", "1\n2\nx\n4\n5\n", "a.txt:3: a score must be a finite number, got 'x'"),
        ("b.txt", "1\n2\nnan\n4\n5\n", "b.txt:3: a score must be a finite number, got 'nan'"),
        ("c.csv", "item,worth\na,1\n", "c.csv: a guess of scores must have one number a line, or a column 'score'"),
        ("d.csv", "item,score\na,1\nb,\n", "d.csv:3: a score must be a finite number, got ''"),
    ]:
        assert words in plan("--people", "100", "--scores-guess", put(name, text), code=1).stderr
    assert (
        "--scores-guess must be 5 numbers, one an item, got 2"
        in plan("--people", "1", "--scores-guess", "1,2", code=2).stderr
    )
    assert "got 'none.csv'" in plan("--people", "100", "--scores-guess", "none.csv", code=2).stderr


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_picture(plan, tmp_path, suffix):
    plan("--people", "1000", "--picture", f"plan{suffix}")
    data = (tmp_path / f"plan{suffix}").read_bytes()
    assert len(data) > 1000
    if suffix == ".svg":
        text = data.decode()
        for words in ("epsilon 0.5; 1 pair each", "standard error of a score (log-odds)", "1,000 people: "):
            assert words in text


def test_pictures_without_matplotlib_name_the_install_line(psephos, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import of it fails as that of a missing module
    args = ["plan", "local", "--items", "5", "--epsilon", "1", "--people", "10"]
    done = psephos(*args, "--picture", "plan.png", code=2)
    assert done.stderr == "error: matplotlib is not installed: pip install 'psephos[report]'\n"
    assert not (tmp_path / "plan.png").exists()
    assert psephos(*args).stdout


def test_unit_of_comparisons_and_ties(plan):
    text = plan("--people", "100", "--unit", "comparison", "--pairs", "3", "--ties", ".6", epsilon="2").stdout
    assert "3 pairs of 10, drawn at random; epsilon 2 for each, which is 6 a person" in text
    assert "three-outcome is better at 60% ties: binary would take" in text
    assert "a share 0.6 of the answers are ties" in text
    assert "as many people" not in text.split("three outcomes")[0]


def test_a_mix_names_its_groups(plan):
    text = plan("--people", "100", epsilon="1:0.6,4:0.4").stdout
    assert "60% of people answer" in text
    assert "40% of people answer" in text
    assert "epsilon 1 (60%), 4 (40%) for each person" in text
    assert "epsilon 2 (60%), 8 (40%)" in text


def test_rough_predictions_are_called_rough(plan):
    assert "rough" in plan("--people", "3").stdout
    assert "rough" not in plan("--people", "3000").stdout


def test_undefined_tops_are_called_undefined(plan):
    assert "undefined: the scores guessed do not tell them apart" in plan("--people", "100", "--top", "2").stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "give one of --people, --target-error, --target-top, --target-width, got none"),
        (["--people", "5", "--target-error", ".1"], "got --people and --target-error"),
        (["--people", "0"], "people must be a whole number >= 1"),
        (["--target-error", "nan"], "--target-error must be"),
        (["--target-top", ".9"], "--top must be given with --target-top"),
        (["--target-top", ".9", "--top", "2"], "--scores-guess must be a guess in which the best 2 stand apart"),
        (["--target-width", "1"], "--target-width must be > "),
        (["--people", "5", "--unit", "comparison"], "pairs must be given"),
        (["--people", "5", "--pairs", "11"], "pairs must be a whole number >= 1 and <= 10, got 11"),
        (["--people", "5", "--link", "probit"], "link must be one of logistic, normal"),
        (["--people", "5", "--format", "xml"], "format must be one of table, csv, json"),
        (["--people", "5", "--compare", "1,,2"], "--compare must be epsilons"),
        (["--people", "5", "--compare", "0"], "--compare must be a number from 1e-17"),
        (["--people", "5", "--picture", "plan.gif"], "picture must be a .png, .svg or .pdf file"),
        (["--people", "5", "--picture", "a.png", "--output", "a.png"], "must be different files"),
        (["--people", "5", "--picture", "no/where/a.png"], "no folder 'no/where'"),
    ],
)
def test_usage_errors(plan, args, words):
    assert words in plan(*args, code=2).stderr


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        ("", "--epsilon must be E or E:SHARE"),
        ("1,2", "--epsilon must give each epsilon of a mix its share"),
        ("1:", "--epsilon must be E or E:SHARE"),
        ("1:.5,:.5", "--epsilon must be E or E:SHARE"),
        ("1:0,2:1", "epsilon (share of 1) must be a finite number > 0"),
        ("801", "epsilon must be a number from 1e-17 to 800"),
    ],
)
def test_epsilons_that_are_none(plan, epsilon, words):
    assert words in plan("--people", "5", epsilon=epsilon, code=2).stderr


def test_failures_leave_no_files(plan, psephos, tmp_path):
    psephos("plan", "local", "--items", "5", "--epsilon", "1", "--target-width", "1", "--picture", "a.png", code=2)
    plan("--people", "5", "--pairs", "11", "--picture", "a.png", "--output", "b.txt", code=2)
    assert not list(tmp_path.iterdir())

"""``psephos posterior``: formats, refusals, exit codes, the ledger, and rows of the fault list.

Trainings of a few steps say nothing about data: what is tested is what is asked for, refused, paid, written and shown.
"""

import csv
import gzip
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from commands import SRC, checked, run_here
from psephos import Ledger
from psephos.bootstrap import (
    FieldPosterior,
    GeneratorPosterior,
    NormalPosterior,
    QuantileLoss,
    TrainingPlan,
    calibrate_sigma,
)
from psephos.cli.output import progress_steps
from psephos.errors import ParameterError

TINY = ["--method", "generator", "--steps", "20", "--blocks", "5"]
PAID = ["--ledger", "l.db", "--dataset", "d", "--request-id", "r"]
BUDGET = ["--epsilon", "1", "--delta", "1e-3"]
BOUNDS = ["--bounds", "educ=5:20", "--bounds", "wage=0:10"]
FORMULA = ["--formula", "wage ~ educ"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """``psephos posterior ARGS``: stdout and stderr; the exit code must be ``code``."""

    def here(*args, code=0):
        done = checked(run_here("posterior", *args, cwd=tmp_path), code)
        return done.stdout, done.stderr

    monkeypatch.chdir(tmp_path)
    return here


@pytest.fixture
def wages(put):
    """100 people, of whom some lie outside all bounds."""
    rng = np.random.default_rng(1)
    educ = rng.integers(3, 25, 100)
    wage = 2 + 0.3 * educ + rng.normal(size=100)
    rows = "".join(f"{w:.3f},{e},p{i}\n" for i, (w, e) in enumerate(zip(wage, educ, strict=True)))
    put("wages.csv", "wage,educ,who\n" + rows)
    return ["wages.csv", "--model", "quantile", *FORMULA, *BOUNDS, *BUDGET, *TINY]


@pytest.fixture
def duels(put):
    rows = "".join(f"p{k},=1+1,b,left\np{k},b,c/d,tie\n" for k in range(30))
    put("duels.csv", f"person,left,right,winner\n{rows}")
    put("items.txt", "=1+1\nb\nc/d\n")
    return ["duels.csv", "--model", "bradley-terry", "--items", "items.txt", *BUDGET, *TINY]


def spent(path="l.db"):
    return [(d.request_id, d.epsilon, d.delta, d.answer is not None) for d in Ledger(path).debits("d")]


# ------------------------------------------------------------------ what comes out


def test_the_table_and_the_guarantee(here, wages):
    wages[wages.index("quantile")] = "huber"
    out, notes = here(*wages)
    lines = out.splitlines()
    assert lines[0].split() == ["coordinate", "mean", "sd", "2.5%", "97.5%"]
    assert [line.split()[0] for line in lines[1:4]] == ["intercept", "educ", "scale"]
    assert lines[5].startswith(
        "(1, 0.001)-differentially private for each person under replace-one adjacency, assuming"
    )
    assert "method generator, noise of standard deviation" in lines[5]
    assert "each of 20 weighted sums of gradients (accountant pld); 100 people (their number: public)" in lines[5]
    assert lines[5].endswith("no ledger was kept.")
    assert "blocked bootstrap, as learnt through noise" in notes


def test_every_format_holds_the_draws_of_one_paid_sampler(here, wages, tmp_path):
    paid = [*wages, *PAID, "--budget", "1,1e-2", "--draws", "50", "--taus", "0.25,0.5", "--format", "json"]
    first, notes = here(*paid, "--output", "d.csv", "--sampler", "s.npz")
    document = json.loads(first)
    assert document["schema"] == "psephos.posterior-draws/1"
    assert (document["model"], document["draws"], document["secure"]) == ("quantile", 50, True)
    assert document["budget"] == {"remaining_epsilon": "0", "remaining_delta": "0.009"}
    promised = {"epsilon": "1", "delta": "0.001", "people": 100, "mechanism": "generator"}
    assert document["guarantee"].items() >= promised.items()
    assert [(row["name"], row["level"]) for row in document["coefficients"]] == [
        ("intercept", 0.25), ("educ", 0.25), ("intercept", 0.5), ("educ", 0.5),
    ]  # fmt: skip
    assert document["design"]["bounds"] == {"educ": [5, 20], "wage": [0, 10]}
    # Q7: who lay outside the bounds is nobody's business.
    assert not any(word in (first + notes).lower() for word in ("clip", "outside", "moved"))

    rows = list(csv.DictReader(io.StringIO((tmp_path / "d.csv").read_text())))
    assert (list(rows[0]), len(rows)) == (["level", "intercept", "educ"], 100)
    educ = np.array([float(row["educ"]) for row in rows]).reshape(2, 50)
    assert educ.mean(axis=1) == pytest.approx(
        [row["mean"] for row in document["coefficients"] if row["name"] == "educ"]
    )
    assert np.quantile(educ[1], 0.975) == pytest.approx(document["coefficients"][3]["high"])

    # The sampler has the scaled columns: education from 5 to 20 as -1 to 1, wages from 0 to 10 as they are.
    sampler = GeneratorPosterior.load(tmp_path / "s.npz")
    assert (sampler.names, sampler.levels) == (("intercept", "educ"), (0.25, 0.5))
    assert 7.5 * abs(educ).max() <= max(sampler.upper)
    wide = sampler.sample(20_000, rng=np.random.default_rng(1)).mean()[:, 1] / 7.5
    assert wide == pytest.approx(educ.mean(axis=1), abs=6 * educ.std() / 50**0.5 + 1e-12)

    # P15: the same request gives the same draws for free, in any format; anything else is refused.
    again, _ = here(*paid, "--output", "d.npz")
    assert again == first
    with np.load(tmp_path / "d.npz") as archive:
        assert archive["names"].tolist() == ["intercept", "educ"]
        assert archive["levels"].tolist() == [0.25, 0.5]
        assert archive["values"][:, :, 1] == pytest.approx(educ)
    here(*paid, "--bounds", "black=0:1", "--formula", "wage ~ educ + black", code=1)
    for other in (
        ["--taus", "0.5"],
        ["--steps", "21"],
        ["--delta", "2e-3"],
        ["--response-scale", "2"],
        ["--scaling", "unit"],
    ):
        assert "was used for another request" in here(*paid, *other, code=3)[1]
    narrower = [text.replace("educ=5:20", "educ=5:21") for text in paid]  # the same loss, other columns
    assert "was used for another request" in here(*narrower, code=3)[1]
    assert spent() == [("r", Fraction(1), Fraction(1, 1000), True)]
    table, _ = here(*paid[:-1], "table")
    assert [line.split()[:3] for line in table.splitlines()[1:3]] == [
        ["intercept", "at", "0.25"],
        ["educ", "at", "0.25"],
    ]
    assert "epsilon 0 and delta 0.009 remain." in table
    assert "needs epsilon 1" in here(*paid[: paid.index("--request-id")], code=3)[1]


@pytest.mark.filterwarnings("ignore")  # of ArviZ and what it loads
def test_netcdf_is_what_arviz_reads(here, wages, tmp_path):
    arviz = pytest.importorskip("arviz")
    here(*wages, "--draws", "7", "--taus", "0.25,0.5", "--output", "d.nc")
    data = arviz.from_netcdf(tmp_path / "d.nc").posterior
    assert data["educ"].shape == (1, 7, 2)
    assert data["level"].values.tolist() == [0.25, 0.5]


@pytest.mark.usefixtures("wages")
@pytest.mark.slow
def test_a_mean_has_the_units_of_its_column(here):
    args = ["wages.csv", "--model", "mean", "--formula", "wage ~ 1", "--bounds", "wage=100:110", *BUDGET, *TINY]
    document = json.loads(here(*args, "--clip", "2", "--format", "json")[0])
    (row,) = document["coefficients"]
    assert row["name"] == "mean"
    assert 100 <= row["low"] <= row["mean"] <= row["high"] <= 110
    assert document["guarantee"]["gradient_bound"] == 2  # a tenth of the range is 1


@pytest.mark.slow
def test_a_probability_needs_no_bounds_of_its_response(here, put):
    put("x.csv", "won;age\n" + "1;20\n0;70\n" * 20)
    args = ["x.csv", "--model", "logistic", "--formula", "won ~ age", "--bounds", "age=18:99", *BUDGET, *TINY]
    out, _ = here(*args, "--format", "json")
    assert [row["name"] for row in json.loads(out)["coefficients"]] == ["intercept", "age"]
    put("x.csv", "won,age\n1,20\n2,30\n")
    assert "row 2 below the header: column 'won' must be 0 or 1, got 2.0" in here(*args, code=1)[1]


# ------------------------------------------------------------------ comparisons


def test_q8_scores_of_comparisons(here, duels, tmp_path):
    for most in ("1", "2"):
        args = [*duels, "--max-comparisons", most, "--draws", "9"]
        document = json.loads(here(*args, "--format", "json", "--output", "d.csv")[0])
        assert [row["name"] for row in document["coefficients"]] == ["=1+1", "b", "c/d"]
        assert sum(row["mean"] for row in document["coefficients"]) == pytest.approx(0, abs=1e-9)
        guarantee = document["guarantee"]
        assert (guarantee["people"], guarantee["comparisons_per_person"]) == (30, int(most))
        assert guarantee["gradient_bound"] == pytest.approx(2**0.5)
    rows = list(csv.reader(io.StringIO((tmp_path / "d.csv").read_text())))
    assert (rows[0], len(rows)) == (["'=1+1", "b", "c/d"], 10)  # F19: no cell starts a formula


@pytest.mark.slow
def test_comparisons_need_persons_and_a_public_list(here, duels, put):
    seen = [arg for arg in duels if arg not in {"--items", "items.txt"}]
    assert "--items-public-as-seen" in here(*seen, code=2)[1]
    assumed = json.loads(here(*seen, "--items-public-as-seen", "--format", "json")[0])
    assert assumed["guarantee"]["assumptions"][-1] == "the list of items, as seen in the data, is public"
    put("duels.csv", "left,right,winner\nb,=1+1,left\n")
    assert "must say who answered" in here(*duels, code=2)[1]
    put("duels.csv", "person,left,right,winner,weight\np,b,=1+1,left,2\n")
    assert "weights are not used" in here(*duels, "--items-public-as-seen", code=2)[1]
    put("duels.csv", "rank1,rank2\nb,=1+1\n")
    assert "holds ballots" in here(*duels, code=2)[1]


@pytest.mark.filterwarnings("ignore")  # of ArviZ and what it loads
def test_names_that_a_format_cannot_hold_are_refused_before_the_debit(here, duels, wages, put, tmp_path):
    pytest.importorskip("arviz")
    Ledger("l.db").set_budget("d", epsilon=1, delta="1e-3")
    assert "cannot hold these names" in here(*duels, *PAID, "--output", "d.nc", code=2)[1]
    put("wages.csv", "wage,level\n1,2\n" * 10)
    named = [text.replace("educ", "level") for text in wages]
    put("wages.csv", "wage,level\n" + "1,2\n" * 10)
    assert "rename the covariate" in here(*named, *PAID, "--output", "d.csv", code=2)[1]
    assert spent() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["duels.csv", "items.txt", "l.db", "wages.csv"]


# ------------------------------------------------------------------ refusals, all before the debit


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        # P1, P2
        (["--epsilon", "0"], "epsilon must be a number > 0"),
        (["--epsilon", "-1"], "epsilon must be a number > 0"),
        (["--epsilon", "nan"], "epsilon must be a number > 0"),
        (["--epsilon", "inf"], "epsilon must be a number > 0"),
        (["--epsilon", "True"], "epsilon must be a number > 0"),
        (["--delta", "0"], "delta must be > 0"),
        (["--delta", "-0.1"], "delta must be 0, or a number"),
        (["--delta", "1"], "delta must be 0, or a number"),
        (["--delta", "nan"], "delta must be 0, or a number"),
        # P18
        (["--bounds", "educ=1:2"], "given twice for 'educ'"),
        (["--bounds", "who=10:-1"], "bounds of 'who' must be LOW:HIGH, two numbers with LOW < HIGH, got '10:-1'"),
        (["--bounds", "who=5:5"], "LOW < HIGH, got '5:5'"),
        (["--bounds", "who=nan:1"], "LOW < HIGH, got 'nan:1'"),
        (["--bounds", "who=0:inf"], "LOW < HIGH, got '0:inf'"),
        (["--bounds", "who=0:1e999"], "LOW < HIGH, got '0:1e999'"),
        (["--bounds", "who=3"], "LOW < HIGH, got '3'"),
        (["--bounds", "3:4"], "--bounds must be NAME=LOW:HIGH"),
        (["--bounds", "who=0:1"], "bounds must be of columns of this design (wage, educ), got 'who'"),
        (["--coefficient-box", "1:1"], "--coefficient-box must be LOW:HIGH"),
        # Q1
        (["--levels", "0"], "strictly between 0 and 1"),
        (["--levels", "0.5,1"], "strictly between 0 and 1"),
        (["--levels", "-0.1"], "strictly between 0 and 1"),
        (["--levels", "1.1"], "strictly between 0 and 1"),
        (["--levels", "nan"], "--levels must be numbers between 0 and 1"),
        (["--levels", ""], "--levels must be numbers between 0 and 1"),
        (["--levels", "0.5,0.5"], "levels must increase"),
        # Q7
        (["--formula", "wage ~ educ + black"], "bounds are required for 'black': --bounds black=LOW:HIGH"),
        (
            ["--formula", "y ~ `years of it`"],
            "required for 'years of it', 'y': --bounds 'years of it'=LOW:HIGH --bounds y=",
        ),
        (["--formula", "wage ~ log(educ)"], "formula, position 11"),
        (["--formula", "wage ~ educ:who"], "formula, position 12"),
        # the rest
        (["--model", "cubic"], "model must be one of huber, quantile, mean, logistic, bradley-terry"),
        (["--model", "huber", "--levels", "0.5"], "--levels is for --model quantile"),
        (["--model", "bradley-terry"], "--formula is for --model huber, quantile, mean, logistic"),
        (["--model", "mean"], "--model mean takes no covariates"),
        (["--scaling", "none"], "scaling must be one of auto, symmetric, unit"),
        (["--clip", "1"], "--clip is for --model mean"),
        (["--items", "wages.csv"], "--items is for --model bradley-terry"),
        (["--max-comparisons", "1"], "--max-comparisons is for --model bradley-terry"),
        (["--method", "sgld"], "method must be one of auto, sandwich, field, generator"),
        (["--method", "pgbb"], "method must be one of auto, sandwich, field, generator"),
        (["--method", "sandwich"], "--steps is for --method generator, got --method sandwich"),
        (["--method", "field"], "--steps is for --method generator, got --method field"),
        (["--method", "auto"], "--steps is for --method generator, got --method auto"),
        (["--format", "csv"], "format must be one of table, json"),
        (["--draws", "1"], "--draws must be a whole number >= 2 and <= 100000"),
        (["--steps", "0"], "steps must be a whole number >= 1"),
        (["--blocks", "2"], "--blocks must be a whole number >= 3"),
        (["--blocks", "101"], "--blocks must be at most the number of people, got 101 for 100"),
        (["--monte-carlo", "0"], "--monte-carlo must be a whole number >= 1"),
        (["--probability", "1.5"], "probability"),
        (["--learning-rate", "nan"], "--learning-rate must be a number"),
        (["--response-scale", "0"], "--response-scale must be a number"),
        (["--output", "d.txt"], "--output must end in .nc, .csv, .npz"),
        (["--output", "wages.csv"], "--output must not be 'wages.csv', which is read"),
        (["--sampler", "./l.db"], "--sampler must not be 'l.db', which is read"),
        (["--output", "x.npz", "--sampler", "./x.npz"], "must be two files"),
        (["--output", "missing/d.csv"], "there is no folder 'missing'"),
        (["--sampler", "."], "'.' is a folder"),
        (["--sampler", "wages.csv/s.npz"], "wages.csv/s.npz"),
    ],
)
def test_refused_and_nothing_paid(here, wages, tmp_path, arguments, words):
    Ledger("l.db").set_budget("d", epsilon=1, delta="1e-3")
    assert words in here(*wages, *PAID, *arguments, code=2)[1]
    assert spent() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["l.db", "wages.csv"]


def test_what_must_be_given(here, wages):
    for option in ("--epsilon", "--delta", "--model"):
        at = wages.index(option)
        assert option in here(*wages[:at], *wages[at + 2 :], code=2)[1]
    at = wages.index("--formula")
    assert "--formula is required for --model quantile" in here(*wages[:at], *wages[at + 2 :], code=2)[1]
    bare = [arg for arg in wages if arg not in BOUNDS]
    assert (
        "bounds are required for 'educ', 'wage': --bounds educ=LOW:HIGH --bounds wage=LOW:HIGH"
        in here(*bare, code=2)[1]
    )
    far = [text.replace("wage=0:10", "wage=1000000:1000001") for text in wages]
    assert "subtract a public number" in here(*far, code=2)[1]
    assert "--ledger and --dataset go together" in here(*wages, "--ledger", "l.db", code=2)[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("wage,educ\n1,2\n3,nan\n", "wages.csv:3: column 'educ' must be a finite number, got 'nan'"),  # N10
        ("wage,educ\n1,inf\n", "wages.csv:2: column 'educ'"),
        ("wage,educ\n1,\n", "wages.csv:2: column 'educ'"),
        ('wage,educ\n1,"1,000"\n', "got '1,000'"),  # F7
        ("wage,educ\n1,1_000\n", "got '1_000'"),
        (b"\xff\xfew\x00", "columns found: w; wanted"),  # F10: UTF-16 is read
        (b"wage,educ\n1,2\x96\n", "byte 0x96 at offset 13"),
        ("wage,educ,educ\n1,2,3\n", "column 'educ' occurs twice; columns found: wage, educ, educ"),  # F18
        ("1,2\n3,4\n", "no column 'wage', 'educ'; columns found: 1, 2; wanted: wage, educ"),
        ("wage,educ\n1,2,3\n", "wages.csv:2: a row must have 2 cells, got 3"),
        ("wage,educ\n1\n", "wages.csv:2: a row must have 2 cells, got 1"),
        ("wage,educ\n", "no rows below the header"),
        ("", "the file is empty"),
        ("wage|educ\n1|2\n", "no column 'wage', 'educ'; columns found: wage|educ"),  # F17
        ("1: 1,2\n2: 2,1\n", "no column 'wage'"),
        (gzip.compress(b"wage,educ\n1,2\n", mtime=0)[:-9], "damaged or cut short"),
    ],
)
def test_faulty_files_exit_with_1_and_nothing_is_paid(here, wages, put, content, words):
    Ledger("l.db").set_budget("d", epsilon=1, delta="1e-3")
    put("wages.csv", content)
    assert words in here(*wages, *PAID, "--output", "d.csv", code=1)[1]
    assert spent() == []
    assert not Path("d.csv").exists()


def test_a_file_that_is_no_file(here, wages):
    assert "none.csv" in here("none.csv", *wages[1:], code=2)[1]
    here(".", *wages[1:], code=2)


# ------------------------------------------------------------------ data that are hard


@pytest.mark.filterwarnings("ignore::psephos.errors.PrivacyWarning")
@pytest.mark.parametrize(
    "rows",
    ["3,5\n5,10\n4,7.5\n6,12.5\n9,20\n", "4,5\n4,9\n4,9\n4,11\n4,20\n", "99,5\n99,9\n99,9\n99,9\n99,1e300\n"],
)
def test_q2_exact_fits_and_equal_responses_give_finite_draws(here, wages, put, rows):
    put(
        "wages.csv", b"\xef\xbb\xbf" + ("wage;educ\n" + rows).replace(",", ";").replace("\n", "\r\n").encode()
    )  # F10, F11
    rows = json.loads(here(*wages, "--taus", "0.5", "--format", "json")[0])["coefficients"]
    assert all(np.isfinite([row["mean"], row["sd"], row["low"], row["high"]]).all() for row in rows)


@pytest.mark.slow
def test_q4_a_response_of_few_values_and_a_zipped_file(here, wages, put):
    put("wages.csv", gzip.compress(b"educ,wage\n" + b"6,1\n7,1\n8,2\n9,3\n" * 25))
    document = json.loads(here(*wages, "--taus", "0.25,0.5", "--format", "json")[0])
    assert all(np.isfinite(row["mean"]) for row in document["coefficients"])
    # P20: the noise that is stated is the accountant's for these public facts.
    plan = TrainingPlan(blocks=5, steps=20, draws=5, probability="0.01", learning_rate=1e-3)
    radius = QuantileLoss(covariates=("a", "b"), covariate_bound=2**0.5, coefficient_box=(-1, 1), levels=(0.25,)).bound
    facts = plan.facts(records=100, gradient_bound=radius)
    guarantee = document["guarantee"]
    assert guarantee["gradient_bound"] == pytest.approx(0.75 * 2**0.5)
    wanted = calibrate_sigma(facts, epsilon=1, delta="1e-3").sigma
    assert guarantee["noise_sd"] == pytest.approx(wanted, rel=1e-9)


# ------------------------------------------------------------------ noisy Newton steps


@pytest.fixture
def plain(put):
    """4,000 people and the options of a model, with none of a training."""
    rng = np.random.default_rng(2)
    educ = rng.integers(5, 20, 4000)
    wage = 2 + 0.3 * educ + rng.normal(scale=0.5, size=4000)
    put("many.csv", "wage,educ\n" + "".join(f"{w:.3f},{e}\n" for w, e in zip(wage, educ, strict=True)))
    return ["many.csv", "--model", "huber", *FORMULA, *BOUNDS, "--epsilon", "1", "--delta", "1e-5"]


def test_auto_takes_newton_steps_and_says_why_and_the_truth_is_in_the_interval(here, plain):
    out, notes = here(*plain, "--epsilon", "4", "--format", "json")
    document = json.loads(out)
    assert document["method"] == document["guarantee"]["mechanism"] == "sandwich"
    assert document["reason"] in notes
    assert document["guarantee"]["accountant"] == "gaussian"
    assert document["plan"] == {"means": len(document["event"]["parts"]), "hardly_known": []}
    educ = next(c for c in document["coefficients"] if c["name"] == "educ")
    assert educ["low"] < 0.3 < educ["high"] < educ["low"] + 0.05
    assert "learnt through noise" not in notes


@pytest.mark.parametrize(
    "option",
    [
        ["--steps", "9"], ["--blocks", "5"], ["--probability", "0.1"], ["--monte-carlo", "2"],
        ["--learning-rate", "0.1"],
    ],
)  # fmt: skip
def test_an_option_of_training_does_not_change_the_algorithm(here, plain, option):
    Ledger("l.db").set_budget("d", epsilon=1, delta="1e-3")
    for method in ([], ["--method", "auto"], ["--method", "sandwich"], ["--method", "field"]):
        name = method[1] if method else "auto"
        _, err = here(*plain, *PAID, *method, *option, code=2)
        assert f"{option[0]} is for --method generator, got --method {name}" in err
    assert spent() == []


def test_quantiles_are_drawn_from_a_field_of_gradients_without_any_training(here, plain, tmp_path):
    quantiles = ["quantile" if word == "huber" else word for word in plain]
    asked = [*quantiles, "--levels", "0.25,0.5,0.75", *PAID, "--budget", "1,1e-4"]
    out, notes = here(*asked, "--format", "json", "--sampler", "s.npz")
    document = json.loads(out)
    assert document["method"] == document["guarantee"]["mechanism"] == "field"
    assert document["reason"] in notes
    assert document["plan"]["means"] == len(document["event"]["parts"])
    assert set(document["plan"]) == {"means", "hardly_known"}
    posterior = FieldPosterior.load(tmp_path / "s.npz")
    noise = posterior.unit * posterior.measured.slope_sds[-1]
    assert (document["guarantee"]["accountant"], document["guarantee"]["noise_sd"]) == ("gaussian", noise)
    educ = [c for c in document["coefficients"] if c["name"] == "educ"]
    assert all(abs(c["mean"] - 0.3) < 0.2 for c in educ)  # the noise's standard deviation is some .02
    assert "learnt through noise" not in notes
    again, _ = here(*asked)
    assert f"method field, {document['plan']['means']} noisy means, {len(posterior.measured.points)} of them" in again
    assert [f"{c['mean']:.4g}" for c in document["coefficients"]] == [
        line.split()[-4] for line in again.splitlines()[1:7]
    ]


@pytest.mark.parametrize("method", ["sandwich", "field"])
def test_columns_that_cannot_be_told_apart_are_named(here, tmp_path, method):
    """A constant column beside the intercept; the slope of another has its narrow interval."""
    rng = np.random.default_rng(5)
    a = rng.uniform(-1, 1, 30_000)
    rows = np.column_stack([a, np.full(30_000, 3), 1 + 2 * a + rng.normal(0, 0.5, 30_000)])
    np.savetxt(tmp_path / "constant.csv", rows, fmt="%.5f", delimiter=",", header="a,k,y", comments="")
    out, notes = here(
        "constant.csv", "--model", "huber", "--formula", "y ~ a + k", "--bounds", "a=-1:1", "--bounds", "k=0:6",
        "--bounds", "y=-10:10", "--epsilon", "4", "--delta", "1e-6", "--method", method, "--format", "json",
    )  # fmt: skip
    assert "the data do not tell intercept and k apart at this budget" in notes
    slope = next(c for c in json.loads(out)["coefficients"] if c["name"] == "a")
    assert slope["low"] < 2 < slope["high"]
    assert slope["high"] - slope["low"] < 0.05


def lowest_gap(path, bounds):
    """The least distance of lines of neighbouring quantiles at a corner of the bounds, and how many draws there are."""
    with np.load(path) as archive:
        values = archive["values"]
    corners = np.array(list(itertools.product((1.0,), *bounds)))
    gaps = np.diff(values @ corners.T, axis=0)
    return gaps.min(), values.shape[1]


def test_lines_of_quantiles_do_not_cross_unless_draws_are_asked_for_as_they_are(here, wages, tmp_path):
    bare = [word for word in wages if word not in TINY]
    args = [*bare, "--method", "sandwich", "--format", "json", "--draws", "3000"]
    for raw in ([], ["--raw-draws"]):
        document = json.loads(here(*args, *raw, "--output", "d.npz")[0])
        gap, draws = lowest_gap(tmp_path / "d.npz", [(5, 20)])
        assert draws == 3000
        assert document["noncrossing"] is (not raw)
        assert bool(gap >= 0) is (not raw)
    table, notes = here(*bare, "--method", "sandwich")
    assert "in no draw do lines of two quantiles cross within the bounds of the columns" in table
    assert "lines of" not in here(*bare, "--method", "sandwich", "--raw-draws")[0]
    assert "lines of the quantiles cross" not in notes
    through = ["wage ~ educ - 1" if word == "wage ~ educ" else word for word in args]
    out, notes = here(*through)
    assert json.loads(out)["noncrossing"] is False
    assert "lines of the quantiles cross: without an intercept they meet where all columns are 0" in notes
    assert "cross" not in here(*through, "--taus", "0.5")[1]
    _, err = here("wages.csv", "--model", "huber", *FORMULA, *BOUNDS, *BUDGET, "--raw-draws", code=2)
    assert "--raw-draws is for --model quantile" in err


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1"])
def test_no_lines_cross_in_ten_thousand_draws_of_the_example(here, epsilon, tmp_path):
    example = Path(__file__).parents[2] / "examples" / "wages.csv"
    bounds = {"logwk": "2:10", "educ": "5:20", "exper": "14:38", "black": "0:1"}
    given = [word for name, ends in bounds.items() for word in ("--bounds", f"{name}={ends}")]
    args = [example, "--model", "quantile", "--formula", "logwk~educ+exper+black", *given]
    args += ["--epsilon", epsilon, "--delta", "1e-6", "--draws", "10000", "--format", "json"]
    document = json.loads(here(*args, "--output", "d.npz")[0])
    assert document["noncrossing"] is True
    gap, draws = lowest_gap(tmp_path / "d.npz", [(5, 20), (14, 38), (0, 1)])
    assert (gap >= 0, draws) == (True, 10_000)
    means = np.array([row["mean"] for row in document["coefficients"]]).reshape(5, 4)
    corners = np.array(list(itertools.product((1,), (5, 20), (14, 38), (0, 1))))
    assert (np.diff(means @ corners.T, axis=0) >= 0).all()


def test_one_label_one_algorithm(here, duels, tmp_path):
    """In the option, the table, the JSON, the guarantee and the saved file."""
    bare = [word for word in duels if word not in TINY]
    for method, kind in (("sandwich", NormalPosterior), ("field", FieldPosterior), ("generator", GeneratorPosterior)):
        options = TINY[2:] if method == "generator" else []
        args = [*bare, "--method", method, *options, "--sampler", f"{method}.npz"]
        document = json.loads(here(*args, "--format", "json")[0])
        assert document["method"] == document["guarantee"]["mechanism"] == method
        assert document["reason"] is None
        assert f"method {method}, " in here(*args)[0]
        assert kind.load(tmp_path / f"{method}.npz").names == ("=1+1", "b", "c/d")
        for other in {NormalPosterior, FieldPosterior, GeneratorPosterior} - {kind}:
            with pytest.raises(ParameterError, match=f"{method}.npz.*schema must be"):
                other.load(tmp_path / f"{method}.npz")
    assert "learnt through noise" in here(*args)[1]


def test_a_field_of_too_many_coordinates_is_refused_and_trains_nothing(here, duels):
    Path("items.txt").write_text("".join(f"item{i}\n" for i in range(40)) + Path("items.txt").read_text())
    bare = [word for word in duels if word not in TINY]
    Ledger("l.db").set_budget("d", epsilon=1, delta="1e-3")
    _, err = here(*bare, *PAID, "--method", "field", code=2)
    assert "method 'field' takes convex losses of at most 32 coordinates" in err
    assert "method 'sandwich' takes it" in err
    assert spent() == []


def test_intervals_that_tell_little_say_so(here, plain):
    _, notes = here(*plain, "--epsilon", "0.001")
    assert "the data say little at this budget of intercept, educ, scale" in notes


def test_a_paid_posterior_is_given_again_and_saved_without_the_extra(here, plain, monkeypatch):
    for name in ("jax", "optax", "arviz"):
        monkeypatch.setitem(sys.modules, name, None)
    paid = [*plain, *PAID, "--budget", "1,1e-2", "--format", "json", "--method", "sandwich"]
    first, _ = here(*paid, "--output", "d.csv", "--sampler", "s.npz")
    again, _ = here(*paid, "--output", "e.csv")
    assert first == again
    assert Path("d.csv").read_bytes() == Path("e.csv").read_bytes()
    assert len(spent()) == 1
    posterior = NormalPosterior.load("s.npz")
    assert posterior.guarantee.epsilon == 1
    assert "left, and the request needs epsilon 1" in here(*paid, "--request-id", "s", code=3)[1]
    assert len(spent()) == 1


def test_scores_of_comparisons_by_newton_steps(here, duels):
    bare = [word for word in duels if word not in TINY]
    out, _ = here(*bare, "--format", "json")
    document = json.loads(out)
    found = document["coefficients"]
    assert abs(sum(c["mean"] for c in found)) < 1e-9
    assert {c["name"] for c in found} == {"=1+1", "b", "c/d"}
    ranks = document["rank_intervals"]
    assert {item["item"] for item in ranks["items"]} == {c["name"] for c in found}
    assert sorted(name for tier in ranks["tiers"] for name in tier) == ["=1+1", "b", "c/d"]
    table, _ = here(*bare)
    assert "tiers at level 0.95, all at once: " in table
    assert json.loads(here(*bare, "--draws", "19", "--format", "json")[0])["rank_intervals"] is None


# ------------------------------------------------------------------ the ledger


@pytest.mark.slow
def test_p11_a_budget_is_spent_to_the_last_part_and_no_further(here, wages):
    ledger = Ledger("l.db")
    ledger.set_budget("d", epsilon=1, delta="1e-3")
    for part in range(10):
        ledger.debit("d", epsilon="1/11", request_id=str(part), what="another release")
    paid = [*wages, "--taus", "0.25,0.5", "--epsilon", "1/11", *PAID[:-2]]
    out, _ = here(*paid, "--format", "json")
    assert json.loads(out)["budget"] == {"remaining_epsilon": "0", "remaining_delta": "0"}
    assert "left, and the request needs epsilon 1e-30" in here(*paid, "--epsilon", "1e-30", code=3)[1]
    assert len(spent()) == 11
    assert "has no budget" in here(*paid, "--dataset", "other", code=3)[1]
    assert "cannot change" in here(*paid, "--budget", "2,1e-3", code=2)[1]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_p13_a_release_that_was_killed_stays_spent(here, wages, tmp_path):
    Ledger("l.db").set_budget("d", epsilon=2, delta="1e-2")
    long = [*wages, "--steps", "100000000", *PAID]
    command = [sys.executable, "-m", "psephos", "posterior", *long]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + 1000
        while not spent() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
    assert spent() == [("r", Fraction(1), Fraction(1, 1000), False)], err
    assert out == b""
    assert "its answer is missing; its budget stays spent" in here(*long, code=3)[1]
    assert Ledger("l.db").remaining("d") == (Fraction(1), Fraction(9, 1000))


def test_an_extra_that_is_missing_is_named_before_the_debit(here, wages, monkeypatch):
    Ledger("l.db").set_budget("d", epsilon=1, delta="1e-3")
    monkeypatch.setitem(sys.modules, "psephos.bootstrap.training_loop", None)
    assert "pip install 'psephos[bootstrap]'" in here(*wages, *PAID, code=2)[1]
    monkeypatch.setitem(sys.modules, "arviz", None)
    assert (
        "arviz is not installed: pip install 'psephos[bootstrap]'" in here(*wages, *PAID, "--output", "d.nc", code=2)[1]
    )
    assert spent() == []


# ------------------------------------------------------------------ progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_steps_and_anything_else_does_not(monkeypatch, capsys):
    with progress_steps("training") as report:
        assert report is None
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress_steps("training") as report:
        report(30, 120)
    assert "training" in sys.stderr.getvalue()
    assert "25%" in sys.stderr.getvalue()


@pytest.mark.slow
def test_a_picture_of_the_quantile_process(here, wages, tmp_path):
    here(*wages, "--picture", "p.svg")
    text = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert all(words in text for words in ("intercept", "educ", "level", "95% intervals", "epsilon 1"))
    for arguments, words in (
        (["--picture", "p.gif"], "picture must be"),
        (["--picture", "d.svg", "--sampler", "d.svg"], "a file of its own"),
        (["--picture", "p.svg", "--model", "huber"], "for --model quantile"),
    ):
        _, err = here(*wages, *arguments, code=2)
        assert words in err

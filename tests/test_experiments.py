"""What the experiments state: our stored figures against the published ones, and one row made anew."""

import csv
import importlib.util
import json
import math
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "experiments" / "edge_dp_ranking"


def table(name):
    with (FOLDER / name).open() as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def experiment():
    spec = importlib.util.spec_from_file_location("edge_dp_ranking_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stored_figures_give_the_stated_verdicts(experiment):
    ours = table("ours.csv")
    published = [row for row in table("published.csv") if float(row["epsilon"]) < 100]
    assert [tuple(row[key] for key in experiment.KEYS) for row in ours] == [
        tuple(row[key] for key in experiment.KEYS) for row in published
    ]
    assert experiment.verdicts(ours, published) == json.loads((FOLDER / "expected.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("index", [3, 40])
def test_rows_come_out_again(experiment, index):
    """Twenty replicates of a row within five standard errors of the stored hundred."""
    stored = table("ours.csv")[index]
    again = experiment.row(stored, replicates=20, seed=2)
    for name in experiment.METRICS:
        error = math.hypot(float(stored[name + "_se"]), again[name + "_se"])
        assert abs(float(stored[name]) - again[name]) <= 5 * error

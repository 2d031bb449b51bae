"""What experiments/ranking_confidence states: stored rows against expected.json, its conclusions, and one cell anew."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from experiment_rows import close, modules_of, rows_of

FOLDER = Path(__file__).parent.parent / "experiments" / "ranking_confidence"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
CELLS = {name: cell for name, cell in EXPECTED.items() if name != "targets"}


@pytest.fixture(scope="module")
def run():
    """The module of the folder, which is no package; forgotten afterwards."""
    with modules_of(FOLDER) as importer:
        yield importer("run")


@pytest.fixture(scope="module")
def rows():
    return rows_of(FOLDER / "results.csv")


def test_every_cell_is_measured_once(run, rows):
    wanted = Counter(run.key_of(cell) for cell in run.cells(quick=False))
    assert Counter(run.key_of(row) for row in rows) == wanted
    assert max(wanted.values()) == 1


def test_stored_rows_give_the_stated_figures(run, rows):
    assert close(json.loads(json.dumps(run.verdict(rows))), EXPECTED)


def test_the_targets_of_ballots_are_the_same():
    """Bradley-Terry scores of complete ballots order items as mean scores do: both follow the wins."""
    for others in EXPECTED["targets"]["sushi"].values():
        assert others == {"pairs ordered otherwise": 0.0, "places of an item": 0}


@pytest.mark.parametrize("cell", [name for name in CELLS if name.startswith("sushi") and "no privacy" not in name])
def test_released_scores_of_ballots_are_surer_than_the_posterior(cell):
    """By far; with the bound that complete ballots allow the posterior comes near them, and never before them."""
    scores, posterior, tight = (CELLS[cell][name] for name in ("borda", "sandwich", "sandwich, tight"))
    assert all(one["replicates"] == 100 and one["coverage"] >= 0.95 for one in (scores, posterior, tight))
    assert scores["width"] + 3 * scores["width_se"] < posterior["width"] - 3 * posterior["width_se"]
    assert scores["width"] - 3 * scores["width_se"] < tight["width"]


@pytest.mark.parametrize("cell", [name for name in CELLS if name.startswith("equal")])
def test_equal_items_are_told_apart_by_wins_alone(cell):
    """What comes from one person is dependent: intervals that take it for independent are too narrow."""
    for method, found in CELLS[cell].items():
        if method == "wins":
            assert found["coverage"] < 0.85
        else:
            assert found["coverage"] >= 0.95 - 3 * 0.0218  # its standard error


@pytest.mark.parametrize("cell", [name for name in CELLS if name.startswith("llmfao") and "no privacy" not in name])
def test_the_posterior_of_many_comparisons_says_nothing(cell):
    found = CELLS[cell]
    assert found["sandwich"]["width"] == 59
    if "n = 124," not in cell:
        assert found["ballots"]["coverage"] == 1
        assert found["ballots"]["width"] < found["wins, public graph"]["width"] < 59


@pytest.mark.parametrize(
    ("cell", "same"),
    [
        ({"data": "sushi", "n": 500, "epsilon": 4.0, "method": "borda", "replicate": 0}, True),
        ({"data": "llmfao", "n": 1240, "epsilon": 4.0, "method": "ballots", "replicate": 3}, True),
        ({"data": "sushi", "n": 500, "epsilon": 4.0, "method": "sandwich", "replicate": 0}, False),
    ],
    ids=["borda", "ballots", "sandwich"],
)
def test_a_stored_row_comes_out_again(run, rows, cell, same):
    """All but the seconds; of the posterior nearly so, as decompositions are not the same everywhere."""
    (stored,) = (row for row in rows if run.key_of(row) == run.key_of(cell))
    again = run.measure(cell)
    assert int(stored["covered"]) == again["covered"]
    assert float(stored["width"]) == pytest.approx(again["width"], abs=1e-9 if same else 0.5)


def test_the_bound_of_complete_ballots_holds_and_is_reached(run):
    """Gradients of random ballots at random scores, and of a ballot against scores that all but say its reverse."""
    rng = np.random.default_rng(1)
    for m in (2, 3, 6):
        loss = run.CompleteBallotLoss(items=tuple("abcdef"[:m]), score_box=(-200.0, 200.0))
        first, second = np.triu_indices(m, 1)
        places = np.argsort(rng.random((200, m)), axis=1)
        places[0] = np.arange(m)
        count = len(first)
        records = (
            np.tile(first, (200, 1)),
            np.tile(second, (200, 1)),
            (places[:, first] < places[:, second]) * 1.0,
            np.full(200, count),
        )
        largest = [
            np.linalg.norm(loss.gradient(theta, records), axis=1).max()
            for theta in (*rng.normal(size=(20, m)) * rng.exponential(5, (20, 1)), 40.0 * np.arange(m))
        ]
        assert max(largest) <= loss.bound
        assert largest[-1] == pytest.approx(loss.bound, rel=1e-9)


def test_a_run_that_was_stopped_goes_on(run, tmp_path, monkeypatch):
    """A row that was half written is measured again; whole rows are kept, and none twice."""
    cells = [dict(zip(run.CELL, ("toy", 1, 1.0, "none", k), strict=True)) for k in range(4)]
    monkeypatch.setattr(run, "cells", lambda *, quick: cells)  # noqa: ARG005
    monkeypatch.setattr(run, "measure", lambda cell: cell | dict.fromkeys(run.MEASURES, 1))
    path = tmp_path / "results.csv"
    run.run(path, quick=False)
    whole = path.read_text()
    assert len(whole.splitlines()) == 5
    path.write_text(whole[: -len(whole.splitlines()[-1]) + 1])
    run.run(path, quick=False)
    assert path.read_text() == whole


def test_a_picture_is_drawn(run, rows, tmp_path):
    pytest.importorskip("matplotlib")
    run.draw(rows, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 1000

"""What experiments/local_ranking states: stored rows against expected.json, the README's figures, and a tiny run."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from experiment_rows import close, modules_of, rows_of

FOLDER = Path(__file__).parent.parent / "experiments" / "local_ranking"
PARTS = ("bias", "rates", "recovery", "heterogeneous", "real", "peers")
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.fixture(scope="module")
def load():
    """Modules of the folder, which is no package; forgotten afterwards."""
    pytest.importorskip("choix")
    with modules_of(FOLDER) as importer:
        yield importer


def rows(part):
    return rows_of(FOLDER / f"{part}.csv")


def test_expected_covers_all_parts():
    assert tuple(EXPECTED) == PARTS


@pytest.mark.parametrize("part", PARTS)
def test_stored_rows_give_the_stated_figures(load, part):
    stored, module = rows(part), load(part)
    cells = {tuple(str(cell[key]) for key in module.CELL) for cell in module.cells(quick=False)}
    assert {tuple(row[key] for key in module.CELL) for row in stored} == cells
    assert close(load("verdicts").OF[part](stored), EXPECTED[part])


@pytest.mark.parametrize("against", ["L", "m", "G"])
def test_slopes_reach_their_bars(against):
    assert EXPECTED["rates"][f"c = 0.01, against {against}"]["within .1 of the bar"]


def test_weights_reach_their_bars_and_the_test_has_power():
    right, wrong = (EXPECTED["heterogeneous"][f"one pair, weights {name}"] for name in ("adaptive", "epsilon"))
    assert abs(right["ratio"] - 0.228) <= 0.01
    assert right["se"] <= 0.003
    assert right["within three standard errors of it"]
    assert not wrong["within three standard errors of it"]
    assert EXPECTED["heterogeneous"]["whole fit"]["settings where adaptive loses by more than two standard errors"] == 0


def numbers(stated):
    if isinstance(stated, dict):
        for key, value in stated.items():
            yield from re.findall(r"\d+(?:\.\d+)?", key)
            yield from numbers(value)
    elif isinstance(stated, list):
        for value in stated:
            yield from numbers(value)
    elif isinstance(stated, (int, float)) and not isinstance(stated, bool):
        yield repr(abs(stated))


def test_the_readme_tells_stated_figures_only():
    """Every number with a point in the README is one of expected.json; and so is every whole one in its tables."""
    stated = {float(number) for number in numbers(EXPECTED)}
    settings = {0.01, 0.1, 0.5, 0.05}  # lambda's constant, the bars, chance
    text = re.sub(r"`[^`]*`|\([^)]*\.png\)", "", (FOLDER / "README.md").read_text())
    told = {float(number) for number in re.findall(r"(?<![\w.])\d*\.\d+", text)}
    told |= {float(n) for line in text.splitlines() if line.startswith("|") for n in re.findall(r"\d*\.?\d+", line)}
    assert told
    assert told <= stated | settings


def test_limit_of_undebiased_fits(load):
    """The limit against roots found another way: two items in closed form, three by bisection."""
    bias = load("bias")

    def cdf(x):
        return 1 / (1 + math.exp(-x))

    for epsilon in (0.5, 1.0, 2.0):
        r = math.tanh(epsilon / 2)
        q = 0.5 + r * (cdf(math.log(3)) - 0.5)
        two = bias.limit(bias.TRUTH[2], epsilon)
        assert two[0] - two[1] == pytest.approx(math.log(q / (1 - q)))
        wins = 1 + r * (cdf(1) - 0.5) + r * (cdf(2) - 0.5)
        end = brentq(lambda c, wins=wins: cdf(c) + cdf(2 * c) - wins, 0, 5)
        assert bias.limit(bias.TRUTH[3], epsilon) == pytest.approx([end, 0, -end], abs=1e-9)


def test_private_kwiksort_sorts_and_stays_within_its_answers(load):
    kwiksort = load("kwiksort")
    rng = np.random.default_rng(1)
    order = rng.permutation(30)
    place = np.argsort(order)
    used = 0

    def votes(pivot, others, group):
        nonlocal used
        used += group * len(others)
        return np.where(place[pivot] < place[others], group, -group).astype(float)

    for answers in (1000, 100_000):
        used = 0
        assert kwiksort.private_kwiksort(30, answers, votes, rng) == order.tolist()
        assert used <= answers
    assert sorted(kwiksort.private_kwiksort(30, 10, votes, rng)) == list(range(30))
    assert [kwiksort.expected_comparisons(n) for n in (1, 2, 3)] == pytest.approx([0, 1, 8 / 3])


@pytest.mark.parametrize("part", PARTS)
def test_a_tiny_run_resumes(load, tmp_path, monkeypatch, part):
    run, module = load("run"), load(part)
    path = tmp_path / f"{part}.csv"

    def go():
        run.run(part, tmp_path, quick=True, seed=1, workers=1)
        return path.read_text()

    text = go()
    table = run.read(path)
    last = [row for row in table if all(row[key] == table[-1][key] for key in module.CELL)]
    if len(last) < len(table):
        run.write(path, table[: -len(last)])
        assert path.read_text() != text
        assert go() == text
    monkeypatch.setattr(module, "measure", None)
    assert go() == text  # nothing left to do


@pytest.mark.slow
def test_pictures_are_drawn(load, tmp_path):
    pytest.importorskip("matplotlib")
    for part in PARTS:
        load("pictures").draw(part, rows(part), tmp_path / f"{part}.png")
        assert (tmp_path / f"{part}.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "index", "measure"),
    [("bias", 1, "debiased_mean_square"), ("rates", 2, "max_norm"), ("real", 2, "kendall"), ("peers", 56, "kendall")],
)
def test_rows_come_out_again(load, part, index, measure):
    """Twenty replicates of a cell, other seeds, within five standard errors of the stored ones."""
    stored, module = rows(part)[index], load(part)
    cell = {key: stored[key] for key in module.CELL}
    again = next(row for row in module.measure(cell, count=20, seed=2) if row.items() >= cell.items())
    error = math.hypot(float(stored[measure + "_se"]), float(again[measure + "_se"]))
    assert abs(float(stored[measure]) - float(again[measure])) <= 5 * error

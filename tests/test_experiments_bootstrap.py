"""What experiments/private_bootstrap states: stored rows against expected.json, its bars, and resuming."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiment_rows import close, modules_of, rows_of

FOLDER = Path(__file__).parent.parent / "experiments" / "private_bootstrap"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
PARTS = tuple(EXPECTED)


@pytest.fixture(scope="module")
def load():
    """Modules of the folder, which is no package; forgotten afterwards."""
    pytest.importorskip("jax")
    with modules_of(FOLDER) as importer:
        yield importer


def rows(part):
    return rows_of(FOLDER / f"{part}.csv")


def test_every_part_with_rows_is_stated(load):
    stored = {path.stem for path in FOLDER.glob("*.csv") if not path.stem.startswith("published")}
    assert stored == set(PARTS) <= set(load("run").PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_stored_rows_give_the_stated_figures(load, part):
    stored, module = rows(part), load(part)
    names = module.CELL
    cells = {tuple(str(cell[key]) for key in names) for cell in module.cells(quick=False)}
    found = [tuple(row[key] for key in names) for row in stored]
    assert set(found) <= cells
    if part not in {"curves"}:
        assert len(set(found)) == len(found)
    again = json.loads(json.dumps(module.verdict(stored)))
    assert close(again, EXPECTED[part])


@pytest.mark.parametrize("part", PARTS)
def test_every_row_says_which_code_made_it(part):
    assert all(re.fullmatch(r"[0-9a-f]{12}", row["code"]) for row in rows(part))


#: One row of each method, the document's and ours: a few seconds each.
AGAIN = [
    *(("regression", {"method": method}) for method in ("PGBB", "DP-SGLD", "NoisyGibbs", "DP-Bootstrap")),
    *(("exponential_family", {"method": method}) for method in ("PGBB", "DP-SGLD", "NoisyGibbs", "DP-Bootstrap")),
    *(("unstated", {"method": method}) for method in ("PGBB", "DP-SGLD", "NoisyGibbs", "DP-Bootstrap")),
    *(("concentration", {"blocks": blocks}) for blocks in (5, 20)),
    *(("effective_sizes", {"method": method}) for method in ("DP-SGLD", "NoisyGibbs")),
    ("monte_carlo", {}),
    *(("levers", {"lever": lever}) for lever in ("pilot", "score bootstrap")),
    *(("choice", {"method": method}) for method in ("sandwich", "field")),
    *(
        (part, {"method": method})
        for part in ("non_normal", "census_truth", "census", "exponential_family")
        for method in ("sandwich", "score bootstrap")
    ),
    ("efficient", {}),
    ("sandwich", {}),
    ("blocking", {}),
    ("curves", {"method": "paper"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "kind"), AGAIN)
def test_stored_rows_come_out_of_the_code_as_it_is(load, part, kind):
    """To a ten-thousandth: another optimiser, or another order of random numbers, moves ends of intervals by more."""
    module = load(part)
    cell = next(cell for cell in module.cells(quick=False) if kind.items() <= cell.items())
    again = load("run").measured(part, cell)
    names = [name for name in rows(part)[0] if name != "code"]
    stored = [row for row in rows(part) if all(row[key] == str(cell[key]) for key in module.CELL)]
    assert len(stored) == len(again) > 0
    for old, new in zip(stored, again, strict=True):
        for name in names:
            try:
                assert float(new[name]) == pytest.approx(float(old[name]), rel=1e-4, abs=1e-9), name
            except ValueError:
                assert str(new[name]) == old[name]


def test_a_row_from_other_code_would_be_found():
    """The same row by another optimiser, as it was once stored: the comparison above sees the difference."""
    stored = next(row for row in rows("concentration") if row["blocks"] == "5" and row["noise"] == "student_t3")
    assert float(stored["low1"]) != pytest.approx(1.496472, rel=1e-4)


def test_regression_agrees_with_the_document():
    """Table S2, the sampler: error and width within three combined standard errors in every cell."""
    ours = EXPECTED["regression"]["PGBB"]
    cells = [cell for cell in ours.values() if isinstance(cell, dict) and "ours" in cell]
    assert len(cells) == 12
    assert all(cell["ours"]["replicates"] >= 30 for cell in cells)
    assert ours["most mae apart"] <= 3
    assert ours["most width apart"] <= 3


def test_tables_by_coefficient_agree_but_for_the_widths_of_chains():
    """Tables S3 to S5: within three standard errors in all cells but one width of the sampler's; chains in most."""
    for method in ("PGBB", "DP-Bootstrap", "NoisyGibbs", "DP-SGLD"):
        for table in EXPECTED["regression"][method]["by coefficient"].values():
            least = {"PGBB": 11, "DP-Bootstrap": 12}.get(method, 9)
            assert table["cells"] == 12
            assert min(table["mae within 3 standard errors"], table["width within 3 standard errors"]) >= least


def test_effective_sizes_are_the_document_s_but_for_few_exponential_numbers():
    """Table S7: NoisyGibbs within 10 % in all cells, DP-SGLD within 11 % in all but three."""
    for method, most in (("NoisyGibbs", 0.10), ("DP-SGLD", 0.11)):
        cells = {name: cell for name, cell in EXPECTED["effective_sizes"][method].items() if isinstance(cell, dict)}
        off = {name for name, cell in cells.items() if abs(cell["ratio"] - 1) > most}
        assert len(cells) == 18
        few = {f"exponential, n = 500, epsilon = {epsilon}" for epsilon in (1, 2, 4)}
        assert off == (set() if method == "NoisyGibbs" else few)


def test_a_single_replicate_has_no_standard_error():
    one = EXPECTED["census"]["educ, DP-SGLD(omega=0.1), epsilon = 1"]
    assert one["ours"]["replicates"] == 1
    assert one["ours"]["mae_se"] is None
    assert one["mae apart"] is None


def test_many_minibatches_agree_with_the_document():
    """Table S6, K = 10: error and width within three combined standard errors in every cell."""
    ours = EXPECTED["monte_carlo"]
    assert all(cell["ours"]["replicates"] == 10 for cell in ours.values() if isinstance(cell, dict))
    assert max(ours["most mae apart"], ours["most width apart"]) <= 3


def test_newton_steps_cover_the_truth_and_are_near_what_sampling_allows():
    """1,000 replicates of each cell of Table S2: coverage, and width over that of sampling alone."""
    cells = {name: cell["ours"] for name, cell in EXPECTED["sandwich"].items()}
    assert len(cells) == 12
    assert all(cell["replicates"] == 1000 for cell in cells.values())
    assert all(0.93 <= cell["coverage"] <= 0.975 for cell in cells.values())
    for name, cell in cells.items():
        if "epsilon = 1" in name:
            assert cell["width over sampling"] <= (1.15 if "n = 10000" in name else 1.05)
    assert cells["contaminated_normal, n = 10000, epsilon = 1"]["mae"] <= 0.0098


def test_the_score_bootstrap_beats_the_document_s_sampler_in_every_cell():
    """Table S2: error and width below its PGBB's, width within 15 % of noisy Newton steps', and the truth covered."""
    cells = EXPECTED["efficient"].values()
    assert len(cells) == 12
    for cell in cells:
        assert cell["ours"]["mae"] < cell["document"]["mae"]
        assert cell["ours"]["width"] < cell["document"]["width"]
        assert cell["ours"]["width over sandwich"] <= 1.15
        assert cell["ours"]["coverage"] >= 0.93


def test_levers_alone_and_together():
    """A pilot helps the network most; no lever of its makes up for draws that count the noise."""
    width = {lever: cell["width"] for lever, cell in EXPECTED["levers"].items()}
    assert min(width, key=width.get) == "score bootstrap"
    assert width["pilot"] == min(value for lever, value in width.items() if lever != "score bootstrap")
    assert all(width["score bootstrap"] < 0.7 * value for lever, value in width.items() if lever != "score bootstrap")


def test_the_score_bootstrap_covers_where_a_normal_posterior_does_not():
    """Of 100 replicates, within two standard errors: narrow residuals, a far start, a tail of a hundred people."""
    cases = EXPECTED["non_normal"]
    for name in ("narrow, epsilon = 1", "narrow, epsilon = 4", "far, epsilon = 1", "tail, 10000, epsilon = 1"):
        assert cases[name]["sandwich"]["coverage"] < 0.9
        assert abs(cases[name]["score bootstrap"]["coverage"] - 0.95) <= 2 * 0.022
    assert all(case["score bootstrap"]["coverage"] > 0.95 - 3 * 0.022 for case in cases.values())


def test_people_like_the_census_whose_truth_is_known():
    for method in ("sandwich", "score bootstrap"):
        figures = EXPECTED["census_truth"][f"{method}, 5 levels"]
        for name in ("educ", "exper", "black"):
            assert figures[f"{name} coverage"] >= 0.93


@pytest.mark.parametrize("method", ["sandwich", "score bootstrap"])
def test_our_posteriors_in_the_census(method):
    """At epsilon 1: a quarter of the width that the document prints for DP-SGLD, and the fit without privacy inside."""
    census = EXPECTED["census"]
    for name in ("educ", "exper", "black"):
        printed = census[f"{name}, DP-SGLD(omega=1), epsilon = 1"]["document"]["width"]
        assert census[f"{name}, {method}, epsilon = 1"]["width"] <= printed / 4
        assert census[f"{name}, {method}, epsilon = 1"]["coverage"] >= 0.9


def test_concentration_matters_at_five_blocks():
    """Figure 3(b): coverage over both laws of errors is below .90 at gamma = 1, and above it at gamma*."""
    noises = ("contaminated_normal", "student_t3")
    one, star = (
        sum(EXPECTED["concentration"][f"{noise}, S = 5, gamma {g}"]["coverage"] for noise in noises) / 2
        for g in ("= 1", "*")
    )
    assert one < 0.90 < star


def test_initial_weights_decide_the_width_and_not_the_error():
    """At 1, as the sampler has them, the width is the document's; at .57 and 1.39 it is off by a tenth to a fifth."""
    for epsilon in (1, 4):
        found = EXPECTED["unstated"][f"PGBB, epsilon = {epsilon}"]
        small, one, large = (found[setting] for setting in ("0.57", "1", "1.39"))
        printed = found["document"]["width"]
        assert abs(one["width"] - printed) < 3 * one["width_se"]
        assert 0.09 < 1 - small["width"] / printed < 0.21
        assert 0.09 < large["width"] / printed - 1 < 0.21
        assert max(small["mae"], one["mae"], large["mae"]) < 1.05 * min(small["mae"], one["mae"], large["mae"])


def test_natality_s_size_is_within_two_hours_and_six_gigabytes():
    for run in EXPECTED["natality"].values():
        assert run["records"] == 1_940_000
        assert run["seconds"] < 7200
        assert run["peak MiB"] < 6 * 1024


def test_a_killed_run_goes_on_where_it_stopped(load, tmp_path):
    """A row that was half written is cut off and measured again; whole rows are kept, and none twice."""
    run = load("run")
    (tmp_path / "toy.py").write_text(
        "CELL = ('n', 'replicate')\n"
        "def cells(*, quick): return [{'n': n, 'replicate': r} for r in range(3) for n in (1, 2)]\n"
        "def measure(cell): return cell | {'value': 10 * cell['n'] + cell['replicate']}\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        path = tmp_path / "toy.csv"
        run.run("toy", path, quick=False, workers=1)
        whole = path.read_text()
        assert len(whole.splitlines()) == 7
        lines = whole.splitlines(keepends=True)
        path.write_text("".join(lines[:4]) + lines[4][:3])  # killed while it wrote
        run.run("toy", path, quick=False, workers=1)
        assert sorted(path.read_text().splitlines()) == sorted(whole.splitlines())
        path.write_text(path.read_text().replace(run.version_of_the_code(), "0" * 12, 2))
        run.Table(path).drop("0" * 12)
        assert len(path.read_text().splitlines()) == 5
        run.run("toy", path, quick=False, workers=1)
        assert sorted(path.read_text().splitlines()) == sorted(whole.splitlines())
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("toy", None)


@pytest.mark.slow
def test_a_quick_run_of_the_sampler_s_parts(tmp_path):
    subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "concentration", "census", "--quick", "--output", str(tmp_path)],
        check=True,
        capture_output=True,
    )
    assert {path.name for path in tmp_path.iterdir()} == {
        "concentration.csv", "concentration.png", "census.csv", "census.png",
    }  # fmt: skip

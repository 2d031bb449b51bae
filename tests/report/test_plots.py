"""Pictures exist, hold what they should, and say how to get what draws them."""

import itertools
import math
import subprocess
import sys

import pytest

from psephos.errors import MissingExtraError, ParameterError
from psephos.report import PICTURE_SUFFIXES, TradeOffLine, check_picture, plot_process, plot_tradeoff
from psephos.report.plots import _lifts

LINES = [
    TradeOffLine(
        label=f"epsilon {epsilon}", people=(100, 1000, 10_000), errors=(1 / epsilon, 0.3 / epsilon, 0.1 / epsilon)
    )
    for epsilon in (0.5, 1, 2)
]
HEADS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", PICTURE_SUFFIXES)
def test_a_picture_is_written_and_equal_the_second_time(tmp_path, suffix):
    first, second = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    for path in (first, second):
        plot_tradeoff(LINES, path, error="standard error of a score (log-odds)", title="10 items", mark=(1000, 0.3))
    assert first.read_bytes().startswith(HEADS[suffix])
    assert first.read_bytes() == second.read_bytes()


def test_a_picture_says_what_it_shows(tmp_path):
    path = tmp_path / "plan.SVG"
    plot_tradeoff(LINES, path, error="standard error of a score (log-odds)", title="10 items", mark=(1000, 0.3))
    text = path.read_text(encoding="utf-8")
    for words in (
        "epsilon 0.5",
        "epsilon 2",
        "people",
        "standard error of a score (log-odds)",
        "10 items",
        "1,000",
        "0.3",
    ):
        assert words in text, words


def test_one_point_is_a_picture_too(tmp_path):
    path = tmp_path / "one.png"
    plot_tradeoff([TradeOffLine(label="here", people=(7,), errors=(0.1,))], path)
    assert path.stat().st_size > 1000


def test_labels_of_close_lines_do_not_cover_each_other():
    close = [TradeOffLine(label="x", people=(1, 10), errors=(1.0, error)) for error in (0.5, 0.099, 0.1, 0.101)]
    span = (0.05, 1.0)
    lifts = _lifts(close, span)
    height = [260 * math.log(line.errors[-1] / span[0]) / math.log(span[1] / span[0]) for line in close]
    places = sorted(h + lift for h, lift in zip(height, lifts, strict=True))
    assert min(b - a for a, b in itertools.pairwise(places)) >= 13 - 1e-9
    assert lifts[0] == 0
    assert min(lifts) >= 0


def test_refusals(tmp_path):
    with pytest.raises(ParameterError, match=r"picture must be a \.png, \.svg or \.pdf file, got 'plan\.gif'"):
        check_picture("plan.gif")
    with pytest.raises(ParameterError, match="lines must have at least one line"):
        plot_tradeoff([], tmp_path / "x.png")
    with pytest.raises(ParameterError, match="people and errors must have one length >= 1, got 2 and 1"):
        TradeOffLine(label="x", people=(1, 2), errors=(0.1,))
    for errors in ((0.0,), (math.inf,), (math.nan,)):
        with pytest.raises(ParameterError, match="errors must be finite numbers > 0"):
            TradeOffLine(label="x", people=(1,), errors=errors)
    with pytest.raises(ParameterError, match=r"people must be finite numbers > 0, got \[0\]"):
        TradeOffLine(label="x", people=(0,), errors=(1.0,))


def test_a_missing_extra_names_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is not installed: pip install 'psephos\[report\]'"):
        check_picture("plan.png")


def test_importing_the_package_loads_no_plotting():
    code = "import psephos.report, sys; print(sorted({'matplotlib', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_process_has_a_panel_a_coefficient(tmp_path, count):
    levels, names = [0.1, 0.5, 0.9], [f"coefficient {j}" for j in range(count)]
    middle = [[level + j for j in range(count)] for level in levels]
    low, high = ([[x + d for x in row] for row in middle] for d in (-0.2, 0.3))
    for path in (tmp_path / "one.svg", tmp_path / "two.svg"):
        plot_process(levels, names, middle, low, high, path, title="over levels")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert all(name in text for name in [*names, "over levels", "level"])
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")


def test_a_process_of_other_shapes_is_refused(tmp_path):
    path = tmp_path / "p.png"
    for levels, names, table in (([], ["a"], []), ([0.5], [], [[]]), ([0.5], ["a"], [[1, 2]]), ([0.5], ["a"], [])):
        with pytest.raises(ParameterError, match="one row a level"):
            plot_process(levels, names, table, table, table, path)

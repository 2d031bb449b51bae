"""Pictures, drawn from plain numbers: this package knows no mechanism and no poll.

Lines are named where they end, in place of a legend. Files carry no date, so that equal input gives equal pictures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from psephos._extras import load_extra
from psephos.errors import ParameterError

__all__ = ["PICTURE_SUFFIXES", "TradeOffLine", "check_picture", "plot_process", "plot_tradeoff"]

#: The files that a picture can be written to.
PICTURE_SUFFIXES = (".png", ".svg", ".pdf")

# Dark to light in one hue, so that an ordered family of lines reads as one; also in print and for colour-blind eyes.
_FROM, _TO = (0.05, 0.20, 0.42), (0.45, 0.68, 0.86)
_INK = "0.25"

_HEIGHT, _LINE = 260.0, 13.0  # of the axes and of a line of text, in points


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffLine:
    """One line: ``errors`` reached with ``people``, both > 0 and of one length; ``label`` is shown where it ends."""

    label: str
    people: tuple[int, ...]
    errors: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.people or len(self.people) != len(self.errors):
            raise ParameterError(
                f"people and errors must have one length >= 1, got {len(self.people)} and {len(self.errors)}"
            )
        for name, values in (("people", self.people), ("errors", self.errors)):
            if not all(0 < value < math.inf for value in values):
                raise ParameterError(f"{name} must be finite numbers > 0, got {list(values)}")


# Text stays text in vector files; a fixed salt keeps SVG identifiers the same from run to run.
_VECTOR = {"svg.fonttype": "none", "svg.hashsalt": "psephos", "pdf.fonttype": 42}


def check_picture(path: str | PathLike[str]) -> None:
    """Make sure, before any work is done, that a picture ``path`` can be drawn.

    Raises
    ------
    ParameterError
        for another suffix than those of :data:`PICTURE_SUFFIXES`.
    MissingExtraError
        if matplotlib is not installed, naming the line that installs it.

    >>> check_picture("plan.gif")
    Traceback (most recent call last):
    psephos.errors.ParameterError: picture must be a .png, .svg or .pdf file, got 'plan.gif'
    """
    if Path(fspath(path)).suffix.lower() not in PICTURE_SUFFIXES:
        raise ParameterError(f"picture must be a .png, .svg or .pdf file, got {fspath(path)!r}")
    load_extra("matplotlib", "report")


def plot_tradeoff(
    lines: Sequence[TradeOffLine],
    path: str | PathLike[str],
    *,
    error: str = "standard error",
    title: str | None = None,
    mark: tuple[int, float] | None = None,
) -> None:
    """Draw errors against numbers of people, both on logarithmic axes, and write the picture.

    Parameters
    ----------
    lines
        At least one; drawn from dark to light in the order given.
    path
        A .png, .svg or .pdf file, overwritten.
    error
        What the vertical axis shows, with its unit.
    title
        A line above the picture.
    mark
        People and error of the point that was planned, shown as a dot; its numbers stand in the upper right corner.

    Raises
    ------
    ParameterError
        without lines, or for another suffix.
    MissingExtraError
        if matplotlib is not installed.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "plan.svg")
    >>> plot_tradeoff([TradeOffLine(label="epsilon 1", people=(100, 1000), errors=(0.3, 0.1))], file)
    >>> file.exists()
    True
    """
    check_picture(path)
    if not lines:
        raise ParameterError("lines must have at least one line, got none")
    figure_module = load_extra("matplotlib.figure", "report")
    matplotlib: Any = load_extra("matplotlib", "report")
    with matplotlib.rc_context(_VECTOR):
        figure: Any = figure_module.Figure(figsize=(7.5, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        shades = [_shade(i / max(len(lines) - 1, 1)) for i in range(len(lines))]
        for line, colour in zip(lines, shades, strict=True):
            axes.plot(line.people, line.errors, color=colour, linewidth=1.8, solid_capstyle="round")
        for line, colour, lift in zip(lines, shades, _lifts(lines, axes.get_ylim()), strict=True):
            axes.annotate(
                line.label,
                (line.people[-1], line.errors[-1]),
                xytext=(6, lift),
                textcoords="offset points",
                verticalalignment="center",
                color=colour,
                annotation_clip=False,
            )
        if mark is not None:
            told = f"{_number(mark[0])} {'person' if mark[0] == 1 else 'people'}: {mark[1]:.3g}"
            axes.plot(*mark, marker="o", markersize=6, color=_INK, linestyle="none", zorder=3, label=told)
            axes.legend(loc="upper right", frameon=False, labelcolor=_INK)  # lines fall: that corner is free
        _dress(axes, error=error, title=title)
        _save(figure, path)


def plot_process(
    levels: Sequence[float],
    names: Sequence[str],
    middle: Sequence[Sequence[float]],
    low: Sequence[Sequence[float]],
    high: Sequence[Sequence[float]],
    path: str | PathLike[str],
    *,
    title: str | None = None,
) -> None:
    """Draw a quantile process, one panel a coefficient: a line over the levels, and its intervals as a band.

    Parameters
    ----------
    levels
        Increasing, at least one.
    names
        Of the d coefficients.
    middle, low, high
        ``(levels, d)``: what is drawn as a line, and the ends of the intervals.
    path
        A .png, .svg or .pdf file, overwritten.
    title
        A line above the picture.

    Raises
    ------
    ParameterError
        for shapes that do not agree, or for another suffix.
    MissingExtraError
        if matplotlib is not installed.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "slopes.svg")
    >>> plot_process([0.1, 0.9], ["age"], [[1.0], [2.0]], [[0.5], [1.0]], [[1.5], [3.0]], file)
    >>> file.exists()
    True
    """
    check_picture(path)
    for name, table in (("middle", middle), ("low", low), ("high", high)):
        if len(table) != len(levels) or not levels or any(len(row) != len(names) or not names for row in table):
            raise ParameterError(f"{name} must have one row a level and one column a name")
    figure_module = load_extra("matplotlib.figure", "report")
    matplotlib: Any = load_extra("matplotlib", "report")
    with matplotlib.rc_context(_VECTOR):
        columns = min(len(names), 4)
        rows = -(-len(names) // columns)
        figure: Any = figure_module.Figure(figsize=(3.2 * columns, 2.6 * rows + 0.3), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False)
        for j, panel in enumerate(panels.flat):
            if j >= len(names):
                panel.set_axis_off()
                continue
            line, below, above = ([row[j] for row in table] for table in (middle, low, high))
            panel.fill_between(levels, below, above, color=_shade(1.0), alpha=0.35, linewidth=0)
            panel.plot(levels, line, color=_shade(0.0), linewidth=1.6, marker="o", markersize=3)
            panel.set_title(names[j], loc="left", fontsize=10, color=_INK)
            panel.set_xlabel("level", color=_INK)
            panel.grid(color="0.9", linewidth=0.8)
            panel.set_axisbelow(True)
            panel.tick_params(colors=_INK, length=3)
            for side, spine in panel.spines.items():
                spine.set_visible(side in {"left", "bottom"})
                spine.set_color("0.6")
        if title is not None:
            figure.suptitle(title, fontsize=11, color=_INK)
        _save(figure, path)


def _save(figure: Any, path: str | PathLike[str]) -> None:
    """Without dates: the same picture has the same bytes."""
    suffix = Path(fspath(path)).suffix.lower()
    undated = {".png": None, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    figure.savefig(fspath(path), format=suffix[1:], dpi=160, metadata=undated)


def _shade(share: float) -> tuple[float, ...]:
    return tuple(a + share * (b - a) for a, b in zip(_FROM, _TO, strict=True))


def _lifts(lines: Sequence[TradeOffLine], span: tuple[float, float]) -> list[float]:
    """By how many points each label is moved up, so that labels of lines that end close together can be read."""
    low, high = (math.log(end) for end in span)
    ends = [_HEIGHT * (math.log(line.errors[-1]) - low) / (high - low) for line in lines]
    places = dict.fromkeys(range(len(lines)), 0.0)
    below = -math.inf
    for i in sorted(places, key=lambda i: ends[i]):
        below = places[i] = max(ends[i], below + _LINE)
    return [places[i] - end for i, end in enumerate(ends)]


def _dress(axes: Any, *, error: str, title: str | None) -> None:
    """Plain numbers on the axes, faint lines at each, and nothing else."""
    ticker: Any = load_extra("matplotlib.ticker", "report")
    for axis, form in ((axes.xaxis, _number), (axes.yaxis, lambda value: f"{value:.3g}")):
        low, high = axis.get_view_interval()
        decades = math.log10(high / low)
        steps = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
        axis.set_major_locator(ticker.LogLocator(subs=steps, numticks=12))
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _, form=form: form(value)))
        axis.set_minor_locator(ticker.NullLocator())
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("0.6")
    axes.tick_params(colors=_INK, length=3)
    axes.set_xlabel("people", color=_INK)
    axes.set_ylabel(error, color=_INK)
    if title is not None:
        axes.set_title(title, loc="left", fontsize=11, color=_INK)


def _number(value: float) -> str:
    """A count with separators; from a billion on, in powers of ten.

    >>> _number(20_000), _number(3e12)
    ('20,000', '3e12')
    """
    return f"{value:,.0f}" if value < 1e9 else f"{value:.3g}".replace("e+", "e")

"""Scores that cost no budget as text: of randomised reports, or of a holder's own data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from psephos._json import json_text
from psephos.cli.output import count_of, shown, write_csv

if TYPE_CHECKING:
    from psephos.cli.options import ScoreOptions
    from psephos.local.columns import ReportColumns
    from psephos.scores import RankIntervals, ScoreFit

__all__ = ["fit_text", "reports_guarantee", "reports_sentence", "score_table"]

#: Differences simulated for the quantile of rank intervals, over draws and pairs of items.
_WORK = 2 * 10**9
HEADER = ("item", "score", "low", "high", "best_rank", "worst_rank", "component")

Row = tuple[str, float, float, float, int | None, int | None, int]


def fit_text(fit: ScoreFit, shape: ScoreOptions, *, about: str, guarantee: dict[str, Any] | None) -> str:
    """A fit in the format asked for; ``about`` ends a table, ``guarantee`` goes into JSON."""
    sets, top = _rank_intervals(fit), shape.top
    rows = _rows(fit, sets)
    if shape.output_format == "csv":
        return write_csv(HEADER, rows[:top])
    if shape.output_format == "json":
        return _json(fit, rows, sets, guarantee)
    several = len(fit.components) > 1
    table = score_table(
        [row[:6] for row in rows[:top]], level=fit.level, groups=[r[6] for r in rows] if several else []
    )
    return "\n".join([table, "", *_best(fit, sets, top), *_flags(fit), _sentence(fit, about)])


def score_table(
    rows: list[tuple[str, float, float, float, int | None, int | None]], *, level: float, groups: list[int]
) -> str:
    """Scores, intervals and ranks as lines for people to read; ``groups`` are shown where there are several."""
    lines = [f" score  {100 * level:g}% interval    ranks  {'component  ' if groups else ''}item"]
    for i, (item, score, low, high, best, worst) in enumerate(rows):
        ranks = "" if best is None else str(best) if best == worst else f"{best}-{worst}"
        group = f"{groups[i]:>9}  " if groups else ""
        lines.append(f"{round(score, 2) + 0.0:6.2f}  [{low:6.2f}, {high:6.2f}]  {ranks:>7}  {group}{shown(item)}")
    return "\n".join(lines)


def _rank_intervals(fit: ScoreFit) -> RankIntervals | None:
    """Rank intervals and tiers; none where there are too many items to simulate them."""
    import numpy as np

    if fit.covariance is None:
        return None
    # The quantile is an integral: a fixed stream makes a run repeatable, and nothing here is secret.
    enough = math.ceil(2 / (1 - fit.level))  # below, no draw lies beyond the quantile of so high a level
    draws = max(1_999, enough, min(19_999, _WORK // max(len(fit.items) ** 2, 1)))
    return fit.rank_intervals(rng=np.random.default_rng(1), draws=draws)


def _rows(fit: ScoreFit, sets: RankIntervals | None) -> list[Row]:
    """The items by score, best first."""
    none: Sequence[int | None] = (None,) * len(fit.items)
    low, high = (none, none) if sets is None else (sets.low, sets.high)
    ends, labels = fit.intervals.tolist(), fit.component_labels.tolist()
    return [
        (fit.items[u], float(fit.scores[u]), ends[u][0], ends[u][1], low[u], high[u], labels[u] + 1) for u in fit.order
    ]


def _best(fit: ScoreFit, sets: RankIntervals | None, top: int | None) -> list[str]:
    """Who is among the best ``top`` for sure."""
    if sets is None or top is None or not top < len(fit.items):
        return []
    best = sets.top(top)
    parts = [("surely", best.inside), ("perhaps", best.undecided)]
    place = {u: i for i, u in enumerate(fit.order)}
    said = "; ".join(
        f"{word} {_names(fit, tuple(sorted(group, key=place.__getitem__)))}" for word, group in parts if group
    )
    return [f"Among the best {top}: {said}; no other."]


def _flags(fit: ScoreFit) -> list[str]:
    lines = []
    if len(fit.components) > 1:
        groups = ", ".join("{" + _names(fit, group) + "}" for group in fit.components[:5])
        more = "" if len(fit.components) <= 5 else ", ..."
        lines.append(
            f"{len(fit.components)} components {groups}{more}: nothing joins them, so their scores cannot be compared."
        )
    if fit.held_items or fit.held_pairs:
        held = [_names(fit, fit.held_items)] if fit.held_items else []
        held += [f"how {_names(fit, pair)} differ" for pair in fit.held_pairs[:5]]
        more = "" if len(fit.held_pairs) <= 5 else ", ..."
        lines.append(
            f"On one person: {'; '.join(held)}{more}. Most of what is known there comes from one person, whose answers "
            "need not be independent of each other: no interval is given."
        )
    if fit.separated:
        groups = ", ".join("[" + _names(fit, group) + "]" for group in fit.separated[:5])
        lines.append(
            f"Separated: {groups} won, or lost, all there was against the rest; how far they lie from it is decided by "
            f"the regularisation, {fit.regularisation:.3g} answers."
        )
    return lines


def _names(fit: ScoreFit, group: tuple[int, ...]) -> str:
    return ", ".join(shown(fit.items[u]) for u in group[:5]) + (", ..." if len(group) > 5 else "")


def _sentence(fit: ScoreFit, about: str) -> str:
    depend = (
        "people answer independently of each other"
        if fit.sampling == "clustered"
        else "all answers are independent of each other"
    )
    ranks = "" if fit.covariance is None else "; all rank intervals hold at once with that probability"
    return (
        f"{about} Link {fit.link}, regularisation {fit.regularisation:.3g} answers. Each interval holds with "
        f"probability {100 * fit.level:g}% if {depend}{ranks}."
    )


def _json(fit: ScoreFit, rows: list[Row], sets: RankIntervals | None, guarantee: dict[str, Any] | None) -> str:
    document = {
        "schema": "psephos.scores/1",
        "scores": [
            {
                "item": item,
                "score": score,
                "low": low,
                "high": high,
                "ranks": None if best is None else [best, worst],
                "component": group,
            }
            for item, score, low, high, best, worst, group in rows
        ],
        "level": fit.level,
        "link": fit.link,
        "regularisation": fit.regularisation,
        "sampling": "people independent" if fit.sampling == "clustered" else "independent comparisons assumed",
        "tiers": None if sets is None else [[fit.items[u] for u in tier] for tier in sets.tiers],
        "one_person": {
            "items": [fit.items[u] for u in fit.held_items],
            "pairs": [[fit.items[u] for u in pair] for pair in fit.held_pairs],
        },
        "separated": [[fit.items[u] for u in group] for group in fit.separated],
        "status": fit.status,
        "residual": fit.residual,
        "guarantee": guarantee,
    }
    return json_text(document)


def reports_guarantee(columns: ReportColumns, max_epsilon: str | None, limited: int | None) -> dict[str, Any]:
    """What reports say of themselves, what each person spent at most and how; and how many count less than they say."""
    from psephos.local import epsilon_text

    units = sorted({kind.unit for kind in columns.kinds})
    return {
        "model": "local",
        "unit": units[0] if len(units) == 1 else "mixed",
        "mechanism": sorted({kind.mechanism for kind in columns.kinds}),
        "epsilon_person_most": epsilon_text(max(kind.epsilon_person for kind in columns.kinds)),
        "epsilon_answer_least": epsilon_text(min(kind.epsilon_answer for kind in columns.kinds)),
        "epsilon_answer_most": epsilon_text(max(kind.epsilon_answer for kind in columns.kinds)),
        "reports": columns.records,
        "answers": columns.answers,
        "items": columns.m,
        "max_epsilon": max_epsilon,
        "reports_limited": limited,
        "secure": columns.secure,
    }


def reports_sentence(columns: ReportColumns, limited: int | None) -> str:
    """The same in words."""
    from psephos.local import epsilon_text

    units = {kind.unit for kind in columns.kinds}
    person = epsilon_text(max(kind.epsilon_person for kind in columns.kinds))
    low, high = (epsilon_text(end(kind.epsilon_answer for kind in columns.kinds)) for end in (min, max))
    each = low if low == high else f"{low} to {high}"
    if units == {"person"}:
        most = "" if low == high else "at most "
        spent = f"{most}epsilon {person} for each person with all answers, as they declare"
    else:
        spent = f"epsilon {each} for each answer, as they declare, {person} for whoever gave most"
    text = (
        f"{count_of(columns.records, 'report')} with {count_of(columns.answers, 'answer')}, randomised by who gave "
        f"them: {spent}; what is computed from them costs nothing more."
    )
    if limited:
        text += (
            f" {count_of(limited, 'report')} of other epsilon would weigh more than nine in ten do, and are held to "
            "what these weigh (--max-epsilon says what was allowed)."
        )
    return text if columns.secure else text + " INSECURE: some were made with test bits."

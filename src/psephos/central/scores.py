"""Private scores of items from comparisons, with intervals: one release of wins, then post-processing.

What is released, and how much noise it needs: :mod:`psephos.central.win_vector`. How scores come of it:
:mod:`psephos.scores.noisy_wins`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._check import Exact, check_choice, check_integer, check_level, parse_delta, parse_epsilon
from psephos._json import json_text
from psephos.central.consensus import check_public_facts
from psephos.central.json_parts import (
    budget_from_json,
    budget_to_json,
    guarantee_from_json,
    guarantee_to_json,
    law_from_json,
    law_to_json,
    rows_from_json,
    rows_to_json,
)
from psephos.central.person_bound import bound_persons
from psephos.central.win_vector import (
    WinLaws,
    best_cap,
    most_answers,
    private_graph_laws,
    public_graph_laws,
    public_graph_sensitivity,
    released_wins,
)
from psephos.errors import ParameterError
from psephos.pairwise.estimate import NoiseLaw
from psephos.pairwise.margins import pair_counts
from psephos.privacy.bits import BitSource, SystemBits
from psephos.privacy.bounded import shuffled
from psephos.privacy.events import Event, event_from_json, event_to_json
from psephos.privacy.guarantee import Guarantee
from psephos.privacy.release import Account, Codec, PlannedRelease, Release, noise_warning, release
from psephos.profile.comparisons import Comparisons
from psephos.scores.noisy_wins import NoisyFit, fit_noisy_wins, widened
from psephos.scores.ranks import rank_intervals

__all__ = ["SCORES_SCHEMA", "PrivateScores", "private_scores", "scores_from_json", "scores_to_json"]

SCORES_SCHEMA = "psephos.scores/1"

_SEED = 20_260  # of the simulation behind rank intervals, which is post-processing: equal releases, equal answers
_MOST_ITEMS = 5000  # tables of all pairs are dense
_CERTAIN = 3.0  # standard deviations of the noise in a number of answers, from which the pair certainly was compared
_LARGEST, _LARGEST_VARIANCE = 10**45, 1e80  # noise beyond these leaves nothing, and doubles can square and add them
_UNKNOWN_LEAST = 1.0  # answers an item, where noise has drowned how many there were


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateScores:
    """Scores, best first, and how sure they are.

    Attributes
    ----------
    items, scores
        The items by score, and their scores theta: higher is better, the mean is 0. Under the logistic link the odds
        that u is preferred to v are ``exp(theta_u - theta_v)``. Equal scores stand in random order.
    low, high
        An interval for each score, at ``level``, if answers are independent; for several answers a person they may be
        too narrow. Infinite where nothing joins the item to others, or it won or lost nearly everything.
    best_rank, worst_rank
        An interval for each item's rank, 1-based; all of them hold at once at ``level``.
    components
        The same number for items that comparisons join, for a private graph those that certainly were made. Scores of
        different components cannot be compared, and their order in ``items`` says nothing.
    level, link
        As asked for.
    regularisation
        Of the fit, in answers: follows from the noise.
    graph
        ``public``: who was asked what is public, and only answers are protected. ``private``: so are the questions.
    units, pairs
        How many units there are (a public fact), and on how many pairs a person counts at most.
    released_items, row_sums, answers
        What the scores were computed from, in the order of ``released_items``: noisy row sums (twice the wins less the
        answers), and how many answers each pair has (rows of a symmetric table), public or with noise.
    rows_noise, answers_noise
        The laws of that noise; ``None``: the numbers of answers are public.
    """

    items: tuple[str, ...]
    scores: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    best_rank: tuple[int, ...]
    worst_rank: tuple[int, ...]
    components: tuple[int, ...]
    level: float
    link: str
    regularisation: float
    graph: Literal["public", "private"]
    units: int
    pairs: int | None
    released_items: tuple[str, ...]
    row_sums: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]
    rows_noise: NoiseLaw
    answers_noise: NoiseLaw | None

    def top(self, k: int) -> tuple[str, ...]:
        """The ``k`` items of highest score.

        Which of them are sure, all at once at ``level``: those whose ``worst_rank`` is at most k.
        """
        return self.items[: check_integer(k, "k", low=0, high=len(self.items))]


def private_scores(
    data: Comparisons,
    *,
    epsilon: Exact,
    delta: Exact = 0,
    graph: Literal["public", "private"] = "private",
    unit: Literal["person", "comparison"] = "person",
    pairs: int | None = None,
    link: str = "logistic",
    level: float = 0.95,
    bits: BitSource = SystemBits(),  # noqa: B008 - it has no state
    account: Account | None = None,
) -> Release[PrivateScores]:
    """Release scores (Bradley-Terry and kindred) of items from comparisons under differential privacy.

    Parameters
    ----------
    data
        Comparisons, without weights; ties count half a win each way.
    epsilon, delta
        The guarantee: nats, text, a rational or a float that stands for its decimal; 0 <= delta < 1, 0 means pure.
    graph
        ``public``: who was asked to compare what is known (an assignment by the organiser, say), and the answers alone
        are protected; less noise. ``private``: the pairs of each unit are protected too, and their numbers are released
        with noise of their own.
    unit
        What is protected: a ``person`` with all their comparisons, or one ``comparison``.
    pairs
        For ``person``: on how many pairs of items one person counts at most, a public number >= 1. If absent: the
        number of items for a private graph, and what is best for a public one
        (:func:`psephos.central.win_vector.best_cap`). One judgement a pair is drawn from the person's own.
    link
        ``logistic`` (Bradley-Terry) or ``normal`` (Thurstone-Mosteller).
    level
        Of the intervals, between 0 and 1.
    bits, account
        As for :func:`psephos.private_consensus`.

    Returns
    -------
    Release[PrivateScores]

    Raises
    ------
    ParameterError
        for a parameter out of range, ballots, no comparisons, items that are not public, weighted comparisons, or a
        unit that the data cannot have.
    BudgetError, InsecureBitsError
        as for :func:`psephos.private_consensus`.

    Notes
    -----
    Adjacency: replace-one; under a public graph the replaced unit keeps its pairs and changes its answers. Intervals
    assume independent comparisons: what several answers of one person share widens the truth and not them. With a
    private graph they rest on the pairs whose noisy number of answers stands three standard deviations above 0.

    >>> from psephos import Comparisons
    >>> table = Comparisons.from_columns(["tea", "coffee"], [0] * 9000, [1] * 9000, [1] * 6000 + [-1] * 3000)
    >>> release = private_scores(table, epsilon=1, graph="public", unit="comparison")
    >>> release.value.items, round(release.value.scores[0] - release.value.scores[1], 1)  # log 2 = .69
    (('tea', 'coffee'), 0.7)
    """
    check_choice(graph, "graph", ("public", "private"))
    check_choice(link, "link", ("logistic", "normal"))
    level = check_level(level)
    if not isinstance(data, Comparisons):
        raise ParameterError(f"data must be Comparisons, got {type(data).__name__}; ballots: private_consensus")
    units = check_public_facts(data, unit)
    if data.m > _MOST_ITEMS:
        raise ParameterError(f"private scores are for at most {_MOST_ITEMS} items, got {data.m}")
    eps, dlt = parse_epsilon(epsilon), parse_delta(delta)
    if pairs is not None:
        pairs = check_integer(pairs, "pairs", low=1)
        if unit != "person":
            raise ParameterError(f"pairs bounds a person, and the unit is one comparison, got {pairs}")
    cap = pairs
    if unit == "person" and pairs is None:  # a public number either way
        cap = best_cap(data, epsilon=eps, delta=dlt) if graph == "public" else data.m
    counted = cap or 1  # pairs of one unit
    table = data if unit == "person" else replace(data, person=None, persons=None)
    if graph == "public":  # what is drawn of each person is drawn after the debit, and does not pick the noise
        laws = public_graph_laws(public_graph_sensitivity(table, pairs=counted), epsilon=eps, delta=dlt)
    else:
        laws = private_graph_laws(data.m, pairs=counted, epsilon=eps, delta=dlt)
    assumptions = ["the list of items, as seen in the data, is public"] if data.items_source == "assumed" else []
    if graph == "public":
        asked = "which pairs each person compared" if unit == "person" else "who was compared with whom"
        assumptions.append(f"{asked} is public")
    elif unit == "person":
        assumptions.append("how many people gave comparisons is public")
    else:
        assumptions.append("how many comparisons there are is public")
    if unit == "comparison":
        assumptions.append("one comparison, not one person, is what must be hidden")
    guarantee = Guarantee(
        epsilon=eps, delta=Fraction(0) if laws.pure else dlt, unit=unit, assumptions=tuple(assumptions)
    )
    what = {
        "release": "scores",
        "graph": graph,
        "unit": unit,
        "pairs": cap,
        "units": str(units),
        "items": list(data.items),
        "link": link,
        "level": level,
        "assumptions": assumptions,
    }
    planned = _Planned(
        guarantee=guarantee,
        units=units,
        request=json_text(what, indent=None),
        codec=Codec(scores_to_json, scores_from_json),
        protects=unit if graph == "private" else f"{unit}'s answers",
        laws=laws,
        graph=graph,
        pairs=cap,
        link=link,
        level=level,
        # answers that count at most: public either way
        most=most_answers(table, pairs=counted) if graph == "public" else units * counted,
        items=data.items,
    )
    return release(planned, table, account=account, bits=bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned(PlannedRelease[Comparisons, PrivateScores]):
    """A release of wins, and the fit that follows it."""

    items: tuple[str, ...]
    laws: WinLaws
    graph: Literal["public", "private"]
    pairs: int | None
    most: int
    link: str
    level: float

    def warnings(self) -> Iterator[Warning]:
        """Also of noise that leaves next to nothing to see."""
        yield from PlannedRelease.warnings(self)
        if len(self.items) > 1:
            yield from noise_warning(self.laws.rows.sd, 2 * self.most / len(self.items))

    def run(self, data: Comparisons, bits: BitSource) -> tuple[PrivateScores, Event]:
        """Noisy wins, what they say, and what ran."""
        used = data if self.pairs is None else bound_persons(data, pairs=self.pairs, bits=bits)
        sums, answers, event = released_wins(used, self.laws, bits=bits)
        if answers is None:
            answers = pair_counts(used)  # public
        return _scores(self, sums, answers, bits), event


def _scores(planned: _Planned, sums: NDArray[Any], answers: NDArray[Any], bits: BitSource) -> PrivateScores:
    """Everything after the release: sees noisy wins, noisy or public numbers of answers, public facts and fresh bits.

    Scores are fitted and sorted with the items in random order, so that rounding and the list part no equals.
    """
    items, laws, level = planned.items, planned.laws, planned.level
    names = list(shuffled(len(items), bits))
    counts = _doubles(answers[np.ix_(names, names)], _LARGEST)
    variance = min(laws.rows.variance / 4.0, _LARGEST_VARIANCE)
    rows = _doubles(sums[names], _LARGEST)

    def fitted(table: NDArray[np.float64], spread: float, bias: NDArray[np.float64] | None) -> NoisyFit:
        return fit_noisy_wins(
            (rows + table.sum(axis=1)) / 2.0,
            table,
            noise_variance=variance,
            answers_noise_variance=spread,
            wins_bias=bias,
            link=planned.link,
            level=level,
        )

    if laws.answers is None:
        fit = sure = fitted(counts, 0.0, None)
    else:
        m, spread = len(items), min(laws.answers.variance, _LARGEST_VARIANCE)
        most = planned.units * min(planned.pairs or 1, m * (m - 1) // 2)
        fit = fitted(_smoothed(counts, spread, most=most), spread, None)
        # Intervals rest on pairs that certainly were compared, and allow for what the others may hold.
        seen = counts * (counts >= _CERTAIN * math.sqrt(spread))
        bias = ((seen == 0).sum(axis=1) - 1) * _CERTAIN * math.sqrt(spread) / 2.0
        sure = fitted(seen, spread, bias)
    low_rank, high_rank = _ranks(sure, level)
    ends = widened(sure.intervals, fit.scores)
    order = np.argsort(-fit.scores, kind="stable").tolist()
    return PrivateScores(
        items=tuple(items[names[u]] for u in order),
        scores=tuple(float(fit.scores[u]) for u in order),
        low=tuple(float(ends[u, 0]) for u in order),
        high=tuple(float(ends[u, 1]) for u in order),
        best_rank=tuple(int(low_rank[u]) for u in order),
        worst_rank=tuple(int(high_rank[u]) for u in order),
        components=tuple(int(sure.component_labels[u]) for u in order),
        level=float(level),
        link=planned.link,
        regularisation=fit.regularisation,
        graph=planned.graph,
        units=planned.units,
        pairs=planned.pairs,
        released_items=items,
        row_sums=tuple(int(x) for x in sums),
        answers=tuple(tuple(int(x) for x in row) for row in answers),
        rows_noise=laws.rows,
        answers_noise=laws.answers,
    )


def _doubles(values: NDArray[Any], largest: int) -> NDArray[np.float64]:
    """Integers of any size as doubles, cut off where all is noise anyway."""
    cut: NDArray[Any] = np.clip(values.astype(object), -largest, largest)
    return cut.astype(np.float64)


def _smoothed(noisy: NDArray[np.float64], variance: float, *, most: int) -> NDArray[np.float64]:
    """A table of numbers of answers from a noisy one: shrunk towards d_u d_v / sum d by what noise explains, >= 0.

    ``most`` is the public limit of their total. It serves a guess at scores, and says nothing of how sure they are.
    """
    m = len(noisy)
    off = 1.0 - np.eye(m)
    degrees = np.maximum(noisy.sum(axis=1), _UNKNOWN_LEAST)
    degrees *= min(1.0, float(2 * most / Fraction(degrees.sum())))
    plain = np.outer(degrees, degrees) * off
    plain *= degrees.sum() / plain.sum() if m > 1 else 0.0
    upper = np.triu_indices(m, 1)
    rest = float(((noisy - plain)[upper] ** 2).sum())
    kept = max(0.0, 1.0 - len(upper[0]) * variance / rest) if rest else 0.0
    table: NDArray[np.float64] = np.maximum(plain + kept * (noisy - plain), 0.0) * off
    return table


def _ranks(fit: NoisyFit, level: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Simultaneous rank intervals; items of other components may have any place among those of one.

    Components share 1 - level equally.
    """
    labels = fit.component_labels
    m = len(labels)
    low, high = np.ones(m, dtype=np.int64), np.full(m, m, dtype=np.int64)
    groups = [group for group in (np.flatnonzero(labels == k) for k in np.unique(labels)) if len(group) > 1]
    rng = np.random.default_rng(_SEED)
    for group in groups:
        each = 1.0 - (1.0 - level) / len(groups)
        draws = max(math.ceil(2 * each / (1.0 - each)), min(20_000, 10**9 // len(group) ** 2))
        among = np.ix_(group, group)
        sets = rank_intervals(fit.unshrunk[group], fit.covariance[among], level=each, rng=rng, draws=draws)
        low[group], high[group] = sets.low, np.array(sets.high) + m - len(group)
    return low, high


def scores_to_json(release: Release[PrivateScores]) -> str:
    """The release as JSON (schema ``psephos.scores/1``). Infinite ends of intervals are ``null``, with why."""
    value, guarantee = release.value, release.guarantee
    columns = (value.items, value.scores, value.low, value.high, value.best_rank, value.worst_rank, value.components)
    rows = zip(*columns, strict=True)
    document = {
        "schema": SCORES_SCHEMA,
        "scores": [
            {
                "item": item,
                "score": score,
                "low": low,
                "high": high,
                "ranks": [best, worst],
                "component": component,
            }
            for item, score, low, high, best, worst, component in rows
        ],
        "level": value.level,
        "link": value.link,
        "regularisation": value.regularisation,
        "sampling": "independent comparisons assumed",
        "guarantee": guarantee_to_json(
            guarantee, value.units, graph=value.graph, pairs_per_person=value.pairs, items=len(value.items)
        ),
        "released": {
            "items": list(value.released_items),
            "row_sums": [str(x) for x in value.row_sums],
            "row_sums_noise": law_to_json(value.rows_noise),
            "answers": rows_to_json(value.answers),
            "answers_noise": None if value.answers_noise is None else law_to_json(value.answers_noise),
        },
        "event": event_to_json(release.event),
        "secure": release.secure,
        "budget": budget_to_json(release.remaining),
    }
    return json_text(document)


def scores_from_json(text: str) -> Release[PrivateScores]:
    """The inverse of :func:`scores_to_json`.

    Raises
    ------
    ParameterError
        for another schema.
    """
    document: dict[str, Any] = json.loads(text)
    if document.get("schema") != SCORES_SCHEMA:
        raise ParameterError(f"the schema must be {SCORES_SCHEMA}, got {document.get('schema')!r}")
    rows, given, released = (document[name] for name in ("scores", "guarantee", "released"))
    guarantee, units = guarantee_from_json(given)
    answers_noise = released["answers_noise"]
    value = PrivateScores(
        items=tuple(row["item"] for row in rows),
        scores=tuple(row["score"] for row in rows),
        low=tuple(-np.inf if row["low"] is None else row["low"] for row in rows),
        high=tuple(np.inf if row["high"] is None else row["high"] for row in rows),
        best_rank=tuple(row["ranks"][0] for row in rows),
        worst_rank=tuple(row["ranks"][1] for row in rows),
        components=tuple(row["component"] for row in rows),
        level=document["level"],
        link=document["link"],
        regularisation=document["regularisation"],
        graph=given["graph"],
        units=units,
        pairs=given["pairs_per_person"],
        released_items=tuple(released["items"]),
        row_sums=tuple(int(x) for x in released["row_sums"]),
        answers=rows_from_json(released["answers"]),
        rows_noise=law_from_json(released["row_sums_noise"]),
        answers_noise=None if answers_noise is None else law_from_json(answers_noise),
    )
    return Release(
        value=value,
        event=event_from_json(document["event"]),
        guarantee=guarantee,
        secure=document["secure"],
        remaining=budget_from_json(document["budget"]),
    )

"""What a private consensus says, and its JSON form (schema ``psephos.release/1``)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._json import json_text
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
from psephos.central.plan import Chosen
from psephos.central.post_processing import PostProcessing
from psephos.central.rank_sets import SecondMoment
from psephos.central.second_moment import MomentScales
from psephos.errors import ParameterError
from psephos.kemeny.result import Limit
from psephos.pairwise.estimate import NoiseLaw, PairNoise, PairwiseEstimate, PartedNoise
from psephos.privacy.events import event_from_json, event_to_json
from psephos.privacy.guarantee import decimal_text
from psephos.privacy.release import Release
from psephos.scores.ranks import RankIntervals

__all__ = ["SCHEMA", "Certificate", "Consensus", "release_from_json", "release_to_json"]

SCHEMA = "psephos.release/1"
_BOUNDS = ("xi", "factor", "distance", "noise_norm", "cost_bound")  # the exact numbers of a certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What is proved of a ranking under the table that was solved, and by ``certified`` whatever the people said.

    The ranking costs at most :attr:`factor` times the least on the solved table. For ``two-stage`` this is its second
    table, or that of the list, which has noise and is not released; all that follows here is ``None`` then. For
    ``certified``, with probability at least :attr:`level` over the noise, the ranking costs at most :attr:`factor`
    times what the best ranking costs, plus :attr:`excess` votes: one vote is one person who disagrees on one pair.
    Where unranked items are missing, and for comparisons, costs count half a vote for each answer that was not given; a
    factor of 1 does not care. N_m is the nuclear norm of the margins of one strict ballot
    (``docs/proofs/central_worst_case.md``).

    Attributes
    ----------
    xi
        What was asked for: a factor of at most 1 + xi.
    factor
        What was proved: the cost on the solved table divided by the lower bound there, rounded up; ``None`` if the
        lower bound is 0 and the cost is not.
    closed_by
        What proves it: ``exact`` (an optimum), ``bound`` (a lower bound by linear programming), ``scheme`` (one by
        cutting the table in parts, :mod:`psephos.kemeny.ptas`), ``none`` (noise drove the second table of ``two-stage``
        out of its bounds, and the ranking is a random one), or ``open``: effort or time ended before 1 + xi.
    nearest
        How the solved table was found: ``none`` (the release itself was possible), ``clip``, or ``scs``.
    distance
        Its operator norm distance to the release is at most this, in votes.
    noise_norm
        What the operator norm of the noise exceeds with probability at most 1 - level, in votes.
    cost_bound
        ``(N_m / 4) (distance + noise_norm)``: the solved table errs in the cost of any ranking by no more, in votes.
    level
        A probability.
    """

    xi: Fraction
    factor: Fraction | None
    closed_by: Literal["exact", "bound", "scheme", "open", "none"]
    nearest: str | None = None
    distance: Fraction | None = None
    noise_norm: Fraction | None = None
    cost_bound: Fraction | None = None
    level: float | None = None

    @property
    def excess(self) -> Fraction | None:
        """``(1 + factor) cost_bound``, in votes; ``None`` without one of them."""
        return None if self.factor is None or self.cost_bound is None else (1 + self.factor) * self.cost_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Consensus:
    """A consensus ranking computed from a released table, with its certificate.

    Attributes
    ----------
    tiers
        Item names, best first. Items share a tier where every two of them stand in both orders among the optimal orders
        of the solved table.
    order
        Item names, best first: the one order that all costs are about. It keeps the sequence of ``tiers``.
    undecided
        ``(item, best, worst)`` for the items that have no place of their own and share none: some orders of least cost
        put them before others, some behind, though not before and behind each of the same items. Every order of least
        cost has them within these ranks, and their place in ``tiers`` is the one of ``order``. ``()``: there are none.
        ``None``: not settled, or a ranking without a table.
    cost_released, lower_bound, gap
        In votes, exact, all about the *solved* table, which is the released one after ``post_processing``: what
        ``order`` costs, what no ranking can undercut, and the difference. For ``raw`` the solved table is the released
        one itself.
    cost_of_margins
        In votes, exact: what ``order`` costs under the released margins as they are.
    status
        ``optimal`` (cost equals bound), ``gap`` (close enough, for the solver), ``effort`` or ``time_limit`` (it ended
        first) or ``drawn``; like ``unique``, about the solved table.
    unique
        Whether no other order is as good on the solved table; ``None`` if that was not settled.
    limit
        What left something of the solution open: ``effort``, as on every machine, or ``time_limit``, so that another
        run of the solver on the same table may say otherwise; ``None``: nothing did.
    method
        How the solver found it; ``gibbs``, ``kwiksort``, ``footrule`` or ``two-stage`` for a ranking without a table.
    post_processing, rho
        What the released table went through, and the share kept of its cyclic part.
    mechanism
        The mechanism that released the table, and ``reason`` why it was chosen.
    units
        The number of people (or comparisons), a public fact.
    pairs
        For comparisons by person: on how many pairs one person counted at most; else ``None``.
    estimate
        The released margins with the law of their noise, and for complete ballots how many answered: measure once, then
        use it for anything (:func:`psephos.fit_scores`, :func:`psephos.solve`).
    ranks, moment
        Intervals of the ranks by mean score, by position in ``estimate.items``, and the released second moment they
        use; ``None`` if they were not asked for.
    certificate
        What is proved of the ranking of ``certified`` post-processing, and of ``two-stage`` unless it is pure and in
        bounded time; else ``None``.

    The mechanisms ``exponential``, ``kwiksort``, ``footrule`` and ``two-stage`` release a ranking and no table: all
    that speaks about a table is ``None``, and ``status`` is ``drawn``.
    """

    tiers: tuple[tuple[str, ...], ...]
    order: tuple[str, ...]
    undecided: tuple[tuple[str, int, int], ...] | None
    cost_released: Fraction | None
    lower_bound: Fraction | None
    gap: Fraction | None
    cost_of_margins: Fraction | None
    gap_relative: float | None
    status: Literal["optimal", "gap", "effort", "time_limit", "drawn"]
    unique: bool | None
    method: str
    post_processing: PostProcessing | None
    rho: float | None
    mechanism: Chosen
    reason: str
    units: int
    pairs: int | None
    estimate: PairwiseEstimate | None
    ranks: RankIntervals | None = None
    moment: SecondMoment | None = None
    certificate: Certificate | None = None
    limit: Limit | None = None

    @property
    def m(self) -> int:
        """The number of items, a public fact."""
        return sum(len(tier) for tier in self.tiers)

    def ranking(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """(rank, items) best first; ranks are 1-based, and a shared place counts all its items.

        The rank of an item in :attr:`undecided` is its place in :attr:`order`, one of those it may have.
        """
        result = []
        rank = 1
        for tier in self.tiers:
            result.append((rank, tier))
            rank += len(tier)
        return tuple(result)


def release_to_json(release: Release[Consensus]) -> str:
    """The release as JSON. Exact numbers (epsilon, delta, costs, margins) are text; ``noise_sd`` is a double."""
    value, guarantee = release.value, release.guarantee
    document = {
        "schema": SCHEMA,
        "ranking": [{"rank": rank, "items": list(items)} for rank, items in value.ranking()],
        "order": list(value.order),
        "undecided": None
        if value.undecided is None
        else [{"item": item, "ranks": [best, worst]} for item, best, worst in value.undecided],
        "cost_released": _text(value.cost_released),
        "lower_bound": _text(value.lower_bound),
        "gap": _text(value.gap),
        "gap_relative": value.gap_relative,
        "cost_of_margins": _text(value.cost_of_margins),
        "status": value.status,
        "unique": value.unique,
        "limit": value.limit,
        "method": value.method,
        "rank_intervals": None if value.ranks is None or value.estimate is None else _ranks_to_json(value),
        "post_processing": None if value.post_processing is None else {"name": value.post_processing, "rho": value.rho},
        "certificate": None if value.certificate is None else _certificate_to_json(value.certificate),
        "guarantee": guarantee_to_json(
            guarantee,
            value.units,
            mechanism=value.mechanism,
            reason=value.reason,
            noise_sd=None if value.estimate is None else value.estimate.noise.sd,
            pairs_per_person=value.pairs,
            items=value.m,
        ),
        "released": None
        if value.estimate is None
        else {
            "items": list(value.estimate.items),
            "margins": [f"row {u}" for u in range(value.m)],
            "answers": _answers_to_json(value.estimate),
            "noise": _noise_to_json(value.estimate.noise),
            "second_moment": None if value.moment is None else _moment_to_json(value.moment),
        },
        "event": event_to_json(release.event),
        "secure": release.secure,
        "budget": budget_to_json(release.remaining),
    }
    text = json_text(document)
    if value.estimate is None:
        return text
    start = text.index('"margins": [')  # a row a line, not an entry a line
    for u, row in enumerate(value.estimate.margins.tolist()):
        old = f'"row {u}"'
        where = text.index(old, start)
        cells = json_text([decimal_text(Fraction(x)) for x in row], indent=None)
        text = text[:where] + cells + text[where + len(old) :]
    return text


def release_from_json(text: str) -> Release[Consensus]:
    """The inverse of :func:`release_to_json`.

    Raises
    ------
    ParameterError
        for another schema.
    """
    document: dict[str, Any] = json.loads(text)
    if document.get("schema") != SCHEMA:
        raise ParameterError(f"the schema must be {SCHEMA}, got {document.get('schema')!r}")
    given, released = document["guarantee"], document["released"]
    guarantee, units = guarantee_from_json(given)
    steps = document["post_processing"] or {"name": None, "rho": None}
    tiers = tuple(tuple(entry["items"]) for entry in document["ranking"])
    undecided = document.get("undecided")  # this and the order are not in answers stored by earlier versions
    value = Consensus(
        tiers=tiers,
        order=tuple(document.get("order") or (item for tier in tiers for item in tier)),
        undecided=None if undecided is None else tuple((row["item"], *row["ranks"]) for row in undecided),
        cost_released=_number(document["cost_released"]),
        lower_bound=_number(document["lower_bound"]),
        gap=_number(document["gap"]),
        cost_of_margins=_number(document["cost_of_margins"]),
        gap_relative=document["gap_relative"],
        status=document["status"],
        unique=document["unique"],
        limit=document.get("limit"),  # answers of earlier versions do not say
        method=document["method"],
        post_processing=steps["name"],
        rho=steps["rho"],
        mechanism=given["mechanism"],
        reason=given["reason"],
        units=units,
        pairs=given["pairs_per_person"],
        estimate=None if released is None else _estimate_from_json(released),
        ranks=None if document["rank_intervals"] is None else _ranks_from_json(document["rank_intervals"], released),
        moment=None if released is None or released["second_moment"] is None else _moment_from_json(released),
        certificate=_certificate_from_json(document.get("certificate")),
    )
    return Release(
        value=value,
        event=event_from_json(document["event"]),
        guarantee=guarantee,
        secure=document["secure"],
        remaining=budget_from_json(document["budget"]),
    )


def _certificate_to_json(certificate: Certificate) -> dict[str, Any]:
    numbers = {name: _text(getattr(certificate, name)) for name in (*_BOUNDS, "excess")}
    return {"closed_by": certificate.closed_by, "nearest": certificate.nearest, "level": certificate.level, **numbers}


def _certificate_from_json(data: dict[str, Any] | None) -> Certificate | None:
    if data is None:  # answers stored by earlier versions have no such entry
        return None
    numbers = {name: _number(data[name]) for name in _BOUNDS if name != "xi"}
    return Certificate(
        xi=Fraction(data["xi"]),
        closed_by=data["closed_by"],
        nearest=data["nearest"],
        level=data["level"],
        **numbers,
    )


def _ranks_to_json(value: Consensus) -> dict[str, Any]:
    ranks, estimate = value.ranks, value.estimate
    if ranks is None or estimate is None:
        raise ParameterError("there are no rank intervals")
    rows = zip(estimate.items, ranks.low, ranks.high, strict=True)
    return {
        "level": ranks.level,
        "items": [{"item": item, "best_rank": low, "worst_rank": high} for item, low, high in rows],
        "tiers": [[estimate.items[i] for i in tier] for tier in ranks.tiers],
        "quantile": ranks.quantile,
        "draws": ranks.draws,
    }


def _ranks_from_json(data: dict[str, Any], released: dict[str, Any]) -> RankIntervals:
    place = {item: i for i, item in enumerate(released["items"])}
    return RankIntervals(
        low=tuple(row["best_rank"] for row in data["items"]),
        high=tuple(row["worst_rank"] for row in data["items"]),
        tiers=tuple(tuple(place[item] for item in tier) for tier in data["tiers"]),
        level=data["level"],
        quantile=data["quantile"],
        draws=data["draws"],
    )


def _moment_to_json(moment: SecondMoment) -> dict[str, Any]:
    scales = moment.scales
    return {
        "rows": rows_to_json(moment.rows),
        "noise": {"family": scales.family, "diagonal": str(scales.diagonal), "off_diagonal": str(scales.off_diagonal)},
    }


def _moment_from_json(released: dict[str, Any]) -> SecondMoment:
    data = released["second_moment"]
    noise = data["noise"]
    return SecondMoment(
        rows=rows_from_json(data["rows"]),
        scales=MomentScales(
            family=noise["family"], diagonal=Fraction(noise["diagonal"]), off_diagonal=Fraction(noise["off_diagonal"])
        ),
    )


def complete_answers(m: int, people: int) -> NDArray[Any]:
    """The numbers of answers where all people answer every pair: ballots whose unranked items come last."""
    answers = np.full((m, m), people, dtype=np.int64 if people < 2**62 else object)
    np.fill_diagonal(answers, 0)
    return answers


def _answers_to_json(estimate: PairwiseEstimate) -> str | None:
    return None if estimate.answers is None else str(max((int(x) for x in estimate.answers.flat), default=0))


def _noise_to_json(noise: NoiseLaw | PartedNoise | PairNoise) -> dict[str, str | None]:
    if isinstance(noise, NoiseLaw):
        return {**law_to_json(noise)}
    if isinstance(noise, PairNoise):
        raise ParameterError("noise must be that of a release, and this is of randomised reports")
    cyclic = None if noise.cyclic is None else str(noise.cyclic)
    return {"family": "parted", "gradient": str(noise.gradient), "cyclic": cyclic}


def _noise_from_json(data: dict[str, Any], m: int) -> NoiseLaw | PartedNoise:
    if data["family"] != "parted":
        return law_from_json(data)
    cyclic = None if data["cyclic"] is None else Fraction(data["cyclic"])
    return PartedNoise(m=m, gradient=Fraction(data["gradient"]), cyclic=cyclic)


def _estimate_from_json(released: dict[str, Any]) -> PairwiseEstimate:
    m = len(released["items"])
    entries = [Fraction(x) for row in released["margins"] for x in row]
    whole = all(x.denominator == 1 for x in entries)
    margins: NDArray[Any] = np.empty(m * m, dtype=object)
    margins[:] = [int(x) for x in entries] if whole else entries
    margins = margins.reshape(m, m)
    if whole and max((abs(x) for x in entries), default=0) < 2**62:
        margins = margins.astype(np.int64)
    noise = _noise_from_json(released["noise"], m)
    answers = None if released["answers"] is None else complete_answers(m, int(released["answers"]))
    return PairwiseEstimate(items=tuple(released["items"]), margins=margins, answers=answers, noise=noise)


def _text(x: Fraction | None) -> str | None:
    return None if x is None else decimal_text(x)


def _number(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)  # our own text, of any length

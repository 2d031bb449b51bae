"""Populations of devices in arrays: what reports would look like, a hundred million at a time.

For studies and plans, never for people: bits come from a seeded generator, probabilities are doubles, and columns made
here say ``secure = False`` for good. A device uses :func:`psephos.local.randomise_answers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos._check import Exact, check_choice, check_integer
from psephos.errors import ParameterError
from psephos.local.budget import device_epsilon
from psephos.local.columns import Kind, ReportColumns
from psephos.local.reports import MECHANISMS, UNITS, Mechanism, Unit
from psephos.scores.answers import real_array
from psephos.scores.links import LOGISTIC, Link, as_link

__all__ = ["Opinions", "randomise_columns", "simulate_population"]

Floats = NDArray[np.float64]

#: How the answers of one person hang together: not at all, or all come from one ranking.
Opinions = Literal["independent", "ranking"]


def randomise_columns(
    items: Sequence[str],
    left: ArrayLike,
    right: ArrayLike,
    outcome: ArrayLike,
    *,
    epsilon: Exact | Sequence[Exact],
    rng: np.random.Generator,
    choice: ArrayLike | None = None,
    record: ArrayLike | None = None,
    unit: Unit = "comparison",
    mechanism: Mechanism = "binary",
) -> ReportColumns:
    """Randomise many answers at once, as devices would.

    Parameters
    ----------
    items
        The m names.
    left, right
        Shape ``(answers,)``, positions.
    outcome
        Shape ``(answers,)``: +1 left is preferred, -1 right, 0 a tie (with two outcomes a coin answers it).
    epsilon
        In nats: of each record with ``unit="person"``, of each answer with ``unit="comparison"``. A sequence gives
        several, and ``choice`` says which one each record has.
    rng
        For the simulation.
    choice
        Shape ``(records,)``: position in ``epsilon``; all 0 if absent.
    record
        Shape ``(answers,)``, counting up from 0: which answers are of one person; one answer each if absent.
    unit, mechanism
        ``person`` or ``comparison``; ``binary`` or ``three-outcome``.

    Returns
    -------
    ReportColumns
        with ``secure`` false.

    Raises
    ------
    ParameterError
        naming the parameter, its value and the allowed range.

    >>> rng = np.random.default_rng(1)
    >>> columns = randomise_columns(["a", "b"], [0] * 1000, [1] * 1000, [1] * 1000, epsilon=1, rng=rng)
    >>> columns.secure, abs(float(columns.reported.mean()) - math.tanh(0.5)) < 0.1
    (False, True)
    """
    check_choice(unit, "unit", UNITS)
    check_choice(mechanism, "mechanism", MECHANISMS)
    single = isinstance(epsilon, str) or not isinstance(epsilon, (Sequence, np.ndarray))
    menu = [device_epsilon(e) for e in ([epsilon] if single else epsilon)]  # type: ignore[union-attr]
    if not menu:
        raise ParameterError("epsilon must be a number, or a sequence of at least one")
    lefts, rights = _integers(left, "left", np.int32), _integers(right, "right", np.int32)
    said = _integers(outcome, "outcome", np.int8)
    if not ((said >= -1) & (said <= 1)).all():
        raise ParameterError("outcome must be 1 (left), -1 (right) or 0 (a tie)")
    records = np.arange(len(lefts)) if record is None else _integers(record, "record", np.int64)
    if not lefts.shape == rights.shape == said.shape == records.shape:
        raise ParameterError("left, right, outcome and record must have one entry an answer")
    steps = np.diff(records, prepend=-1)
    if not ((steps == 0) | (steps == 1)).all() or records[:1].any():
        raise ParameterError("record must count up from 0 without a gap")
    people = int(records[-1]) + 1 if len(records) else 0
    chosen = np.zeros(people, dtype=np.int32) if choice is None else _integers(choice, "choice", np.int32)
    if chosen.shape != (people,) or not ((chosen >= 0) & (chosen < len(menu))).all():
        raise ParameterError(f"choice must be 0 to {len(menu) - 1}, one a record ({people})")
    kinds, kind = _kinds(menu, chosen, records, people, unit, mechanism)
    flips = np.array([_truth(k) for k in kinds])
    uniform = rng.random(len(said))
    ties = said == 0
    if mechanism == "binary":
        if ties.any():
            said = np.where(ties, 2 * rng.integers(0, 2, len(said), dtype=np.int8) - 1, said).astype(np.int8)
        reported = np.where(uniform < flips[kind], said, -said)
    else:
        truth = flips[kind]
        second = uniform >= truth + (1.0 - truth) / 2.0  # of the two other answers, the next or the one after
        turn = (uniform >= truth).astype(np.int8) + second
        reported = (said + 1 + turn) % 3 - 1
    return ReportColumns(
        items=tuple(items),
        left=lefts,
        right=rights,
        reported=reported.astype(np.int8),
        record=records,
        kind=kind,
        kinds=kinds,
        secure=False,
    )


def _integers(values: ArrayLike, name: str, kind: type) -> NDArray[Any]:
    """A column of whole numbers that the type holds."""
    column = np.asarray(values)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise ParameterError(
            f"{name} must be a column of whole numbers, got {column.dtype} in {column.ndim} dimensions"
        )
    limits = np.iinfo(kind)
    if column.size and not limits.min <= column.min() <= column.max() <= limits.max:
        raise ParameterError(f"{name} must be {limits.min} to {limits.max}, got {column.min()} to {column.max()}")
    return column.astype(kind)


def _truth(kind: Kind) -> float:
    others = 1 if kind.mechanism == "binary" else 2
    return 1.0 / (1.0 + others * math.exp(-float(kind.epsilon_answer)))


def _kinds(
    menu: list[Fraction], chosen: NDArray[Any], record: NDArray[Any], people: int, unit: Unit, mechanism: Mechanism
) -> tuple[tuple[Kind, ...], NDArray[Any]]:
    """The kinds of answers, and which kind each answer has."""
    sizes = np.bincount(record, minlength=people)
    most = int(sizes.max(initial=0)) + 1
    codes = chosen * np.int64(most) + sizes
    present = np.flatnonzero(np.bincount(codes, minlength=1))
    kinds = []
    for code in present.tolist():
        declared, size = menu[code // most], code % most
        each, whole = (declared / size, declared) if unit == "person" else (declared, declared * size)
        kinds.append(Kind(unit=unit, mechanism=mechanism, epsilon_answer=each, epsilon_person=whole))
    if len(kinds) == 1:
        return tuple(kinds), np.zeros(len(record), dtype=np.int32)
    place = np.zeros(most * len(menu), dtype=np.int32)
    place[present] = np.arange(len(present))
    return tuple(kinds), place[codes][record]


def simulate_population(
    scores: ArrayLike,
    *,
    people: int,
    epsilon: Exact | Sequence[Exact],
    rng: np.random.Generator,
    pairs: int | None = 1,
    opinions: Opinions = "independent",
    unit: Unit = "person",
    mechanism: Mechanism = "binary",
    link: Link | str = LOGISTIC,
    items: Sequence[str] | None = None,
) -> ReportColumns:
    """Reports of a population with known scores, for studies.

    Parameters
    ----------
    scores
        theta, shape (m,): an item beats another with probability ``F(theta_u - theta_v)``.
    people
        How many; each has one of the epsilons, all equally likely if there are several.
    epsilon, unit, mechanism, rng
        as for :func:`randomise_columns`.
    pairs
        How many different pairs each answers, drawn at random; all of them for ``None``.
    opinions
        ``independent``: every answer is drawn by itself. ``ranking``: each person draws one utility an item, with
        the law whose differences follow the link, and answers by it: a Plackett-Luce ranking for ``logistic``, a
        normal one for ``normal``.
    link
        ``logistic``, ``normal`` or a :class:`psephos.scores.Link`.
    items
        Names; numbers if absent.

    Returns
    -------
    ReportColumns
        with ``secure`` false.

    Raises
    ------
    ParameterError
        naming the parameter, its value and the allowed range.

    >>> columns = simulate_population([1, 0, -1], people=100, epsilon=1, rng=np.random.default_rng(1), pairs=2)
    >>> columns.answers, columns.records
    (200, 100)
    """
    theta = real_array(np.asarray(scores), "scores", ndim=1)
    link = as_link(link)
    m, count = len(theta), check_integer(people, "people", low=1)
    every = m * (m - 1) // 2
    k = every if pairs is None else check_integer(pairs, "pairs", low=1, high=every)
    check_choice(opinions, "opinions", ("independent", "ranking"))
    single = isinstance(epsilon, str) or not isinstance(epsilon, (Sequence, np.ndarray))
    menu: list[Any] = [epsilon] if single else list(epsilon)  # type: ignore[arg-type]
    choice = rng.integers(0, len(menu), count) if len(menu) > 1 else None
    number = _drawn_pairs(every, count, k, rng)
    first, second = (side.astype(np.int32) for side in np.triu_indices(m, 1))
    left, right = np.concatenate([first, second])[number], np.concatenate([second, first])[number]
    if opinions == "independent":
        chance = link.cdf(theta[first] - theta[second])
        prefers = rng.random(number.shape) < np.concatenate([chance, 1.0 - chance])[number]
    else:
        if link.name == "logistic":
            utilities = theta + rng.gumbel(size=(count, m))
        elif link.name == "normal":
            utilities = theta + rng.normal(0.0, math.sqrt(0.5), size=(count, m))
        else:
            raise ParameterError(f"opinions must be 'independent' for the link {link.name!r}")
        rows = np.arange(count)[:, None]
        prefers = utilities[rows, left] > utilities[rows, right]
    return randomise_columns(
        [str(i) for i in range(m)] if items is None else items,
        left.ravel(),
        right.ravel(),
        np.where(prefers, np.int8(1), np.int8(-1)).ravel(),
        epsilon=menu,
        rng=rng,
        choice=choice,
        record=np.repeat(np.arange(count), k),
        unit=unit,
        mechanism=mechanism,
    )


def _drawn_pairs(every: int, people: int, k: int, rng: np.random.Generator) -> NDArray[Any]:
    """For each person a uniform set of k different numbers below ``every``, plus ``every`` with probability 1/2 each.

    The number of a pair, and whether its sides are turned; shape (people, k).
    """
    if k == 1:
        return rng.integers(0, 2 * every, (people, 1), dtype=np.int32)
    if k == every:
        number = np.broadcast_to(np.arange(every), (people, every))
    elif k * (k - 1) < every:
        number = rng.integers(0, every, (people, k))
        while (again := (np.diff(np.sort(number, axis=1), axis=1) == 0).any(axis=1)).any():
            number[again] = rng.integers(0, every, (int(again.sum()), k))
    else:
        blocks = (min(4096, people - start) for start in range(0, people, 4096))
        number = np.concatenate([np.argpartition(rng.random((size, every)), k, axis=1)[:, :k] for size in blocks])
    return number + every * rng.integers(0, 2, number.shape, dtype=np.int64)

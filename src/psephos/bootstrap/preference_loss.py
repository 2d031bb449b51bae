"""Bradley-Terry scores from comparisons, one record a person.

The unit of privacy is the person, who may have answered any number of comparisons. A person's loss is the *mean* over
their comparisons, so that nobody weighs more by answering more, and the gradient is bounded without any clipping.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_integer
from psephos.bootstrap.loss_protocol import (
    Array,
    Box,
    Curved,
    OneRule,
    Records,
    check_box,
    check_names,
    check_start,
    logistic_curvature,
    middle,
    namespace,
    round_up,
    special_functions,
)
from psephos.errors import ParameterError
from psephos.profile import Comparisons
from psephos.profile.names import require_public_items

__all__ = ["BradleyTerryLoss", "comparison_records"]

#: A sum of k terms in doubles is off by k 2**-53 of their absolute sum at most: room for k = 8000 answers a person.
_ROOM = 2.0**-40


@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerryLoss(Curved, OneRule):
    """Scores of m items; a record is a person with any number (0 or more) of comparisons.

    A record is (left, right, outcome, count): item positions of shape ``(n, L)``, what came out (1 left won, 0 right
    won, 1/2 a tie, shape ``(n, L)``) and how many of the L places are used (shape ``(n,)``); the rest is padding.
    A comparison costs, with z = theta_left - theta_right,

        outcome log(1 + e^-z) + (1 - outcome) log(1 + e^z),

    a tie half of each; a person's loss is the mean over their comparisons, and 0 for who answered none. It is convex.

    **Bound.** The gradient of one comparison is (1 / (1 + e^-z) - outcome)(e_left - e_right). The first factor lies in
    [-1, 1] and the second has norm sqrt(2) (or 0, should an item meet itself), so each has norm at most sqrt(2). A mean
    of vectors in a ball lies in the ball: C = sqrt(2), for any number of comparisons, at every theta.

    **What is identified.** A number added to all scores changes nothing: gradients sum to zero over the items. Only
    differences mean something; centre the draws (subtract their mean over the items) before reading them. Items no
    answer connects stay where they started, or anywhere in the box.

    Parameters
    ----------
    items
        The m >= 2 names, a public list.
    score_box
        (low, high) of every score, or one pair each; public, in log-odds.
    start
        m numbers in the box; default the middle of it.

    Raises
    ------
    ParameterError
        naming the parameter, the value and its range.

    >>> loss = BradleyTerryLoss(items=("tea", "coffee", "milk"))
    >>> records = (np.array([[0, 2]]), np.array([[1, 1]]), np.array([[1.0, 0.5]]), np.array([2]))
    >>> loss.gradient(np.zeros(3), records).tolist(), round(loss.bound, 6)
    ([[-0.25, 0.25, 0.0]], 1.414214)
    """

    items: tuple[str, ...]
    score_box: Box = (-10.0, 10.0)
    start: tuple[float, ...] = ()
    names: tuple[str, ...] = field(init=False)
    lower: tuple[float, ...] = field(init=False)
    upper: tuple[float, ...] = field(init=False)
    bound: float = field(init=False)

    def __post_init__(self) -> None:
        items = check_names(self.items, "items")
        if len(items) < 2:
            raise ParameterError(f"items must be at least 2 names, got {items!r}")
        pairs = check_box(self.score_box, items, "score_box")
        lower, upper = (tuple(pair[end] for pair in pairs) for end in (0, 1))
        start = check_start(self.start, lower, upper, [middle(*pair) for pair in pairs])
        checked: dict[str, object] = {"items": items, "names": items, "score_box": pairs, "start": start}
        checked |= {"lower": lower, "upper": upper, "bound": round_up(math.sqrt(2), slack=_ROOM)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def whole_columns(self) -> tuple[int, ...]:
        """left, right and count."""
        return (0, 1, 3)

    @classmethod
    def from_comparisons(cls, comparisons: Comparisons, *, score_box: Box = (-10.0, 10.0)) -> BradleyTerryLoss:
        """The loss for a table's items, which must be a public list; :func:`comparison_records` gives the records.

        Raises
        ------
        ParameterError
            for items that were only seen in the data.

        >>> table = Comparisons.from_columns(["tea", "coffee"], [0, 0], [1, 1], [1, 0], person=[0, 0])
        >>> loss = BradleyTerryLoss.from_comparisons(table)
        >>> loss.value(np.zeros(2), comparison_records(table, max_comparisons=2)).round(6).tolist()
        [0.693147]
        """
        require_public_items(comparisons.items_source)
        return cls(items=comparisons.items, score_box=score_box)

    def value(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """Shape ``(n,)``."""
        xp, gap, used = self._gaps(theta, records)
        outcome, count = records[2], records[3]
        cost = outcome * xp.logaddexp(0.0, -gap) + (1 - outcome) * xp.logaddexp(0.0, gap)
        return xp.sum(xp.where(used, cost, 0.0), axis=-1) / xp.maximum(count, 1)

    def gradient(self, theta: Array, records: Records, level: Any = None) -> Array:  # noqa: ARG002
        """Shape ``(n, m)``."""
        xp, gap, used = self._gaps(theta, records)
        left, right, outcome, count = self._within(xp, records)
        slope = xp.where(used, special_functions(xp).expit(gap) - outcome, 0.0)
        n, m = left.shape[0], len(self.items)
        if xp is np:
            first = np.arange(n)[:, None] * m
            where = np.concatenate((first + left, first + right), axis=-1).ravel()
            weight = np.concatenate((slope, -slope), axis=-1).ravel()
            total: Array = np.bincount(where, weights=weight, minlength=n * m).reshape(n, m)
        else:
            person = xp.arange(n)[:, None]
            total = xp.zeros((n, m), slope.dtype).at[person, left].add(slope).at[person, right].add(-slope)
        # Divided after the sum: terms of at most 1 add up to at most their number, exactly, whatever the order.
        return total / xp.maximum(count, 1)[:, None]

    @property
    def flat_directions(self) -> tuple[tuple[float, ...], ...]:
        """One: all scores together."""
        return ((1 / math.sqrt(len(self.items)),) * len(self.items),)

    def curvature_root(self, theta: Array, records: Records, *, majorising: bool = False) -> NDArray[np.float64]:
        """sqrt(p (1 - p) / count) (e_left - e_right), a row a comparison: shape ``(n, L, m)``."""
        _, gap, used = self._gaps(theta, records)
        left, right, _, count = self._within(np, records)
        weight = logistic_curvature(gap, majorising=majorising) / np.maximum(count, 1)[:, None]
        root = np.sqrt(np.where(used, weight, 0.0))[:, :, None]
        items = np.arange(len(self.items))
        return np.asarray(root * ((left[:, :, None] == items) * 1.0 - (right[:, :, None] == items)))

    def curvature_bound(
        self,
        theta: Array,  # noqa: ARG002
        *,
        majorising: bool = False,  # noqa: ARG002
        leverage: float | None = None,  # noqa: ARG002
    ) -> float:
        """1/2, rounded up: p (1 - p) is 1/4 at most, and the squared norm of e_left - e_right 2."""
        return round_up(0.5, slack=_ROOM)

    def _within(self, xp: Any, records: Records) -> Records:
        """The records with positions that are none moved to the nearest: no error may tell of a record."""
        left, right, outcome, count = records
        last = len(self.items) - 1
        return xp.clip(left, 0, last), xp.clip(right, 0, last), outcome, count

    def _gaps(self, theta: Array, records: Records) -> tuple[Any, Array, Array]:
        xp = namespace(theta, *records)
        left, right, _, count = self._within(xp, records)
        theta = xp.asarray(theta)
        return xp, theta[left] - theta[right], xp.arange(left.shape[1]) < xp.asarray(count)[:, None]


def comparison_records(
    comparisons: Comparisons,
    *,
    max_comparisons: int,
) -> Records:
    """The records of :class:`BradleyTerryLoss`: one a person, in the order of ``comparisons.persons``.

    Parameters
    ----------
    max_comparisons
        Keep the first so many of a person, in the order of the table, >= 1. The bound of the gradient needs no such
        limit; but the width of the arrays, with it the compiled program, and the running time have to be public.

    Returns
    -------
    left, right, outcome (shape ``(n, L)``) and count (shape ``(n,)``). Persons named without an answer have count 0.

    Raises
    ------
    ParameterError
        if the table names no persons, or has weights: a person's loss is the plain mean of their answers.

    >>> table = Comparisons.from_columns(["a", "b"], [0, 1, 0], [1, 0, 1], [1, 0, -1], person=[0, 2, 0])
    >>> left, right, outcome, count = comparison_records(table, max_comparisons=2)
    >>> left.tolist(), outcome.tolist(), count.tolist()
    ([[0, 0], [0, 0], [1, 0]], [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]], [2, 0, 1])
    """
    width = check_integer(max_comparisons, "max_comparisons", low=1, high=10**6)
    if comparisons.weight is not None:
        raise ParameterError("weights are not used here: a person's loss is the plain mean of their comparisons")
    if comparisons.person is None or comparisons.persons is None:
        raise ParameterError("these comparisons do not say who gave them, so no person can be protected")
    person, people = comparisons.person, len(comparisons.persons)
    count = np.bincount(person, minlength=people).astype(np.int64)
    order = np.argsort(person, kind="stable")
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    order, place = order[place < width], place[place < width]
    shape = (people, width)
    left, right, outcome = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, 0.5)
    left[person[order], place] = comparisons.left[order]
    right[person[order], place] = comparisons.right[order]
    outcome[person[order], place] = (1 + comparisons.outcome[order]) / 2
    return left, right, outcome, np.minimum(count, width)

"""The fewest people with whom a poll reaches a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from psephos._check import check_real
from psephos.errors import ParameterError
from psephos.local.predicted import ErrorShape

__all__ = ["MOST_PEOPLE", "RankWidths", "people_for_error", "people_for_top", "people_for_width"]

#: The most people that a plan knows.
MOST_PEOPLE = 10**30


@dataclass(frozen=True, slots=True, eq=False)
class RankWidths:
    """Widths of rank intervals; ``ratios`` are the differences in standard errors of one person, or all 0."""

    items: int
    ratios: npt.NDArray[np.float64] | None
    quantile: float

    def width(self, people: int) -> float:
        """Mean over the items of how many others are expected to be neither surely better nor surely worse."""
        if self.ratios is None:
            return (self.items - 1) * self._unsure(np.zeros(1))
        z = self.ratios * math.sqrt(people)
        return 2.0 * len(z) / self.items * self._unsure(z)

    def limit(self) -> float:
        """The width that no number of people gets below."""
        if self.ratios is None:
            return self.width(1)
        return 2.0 * int(np.count_nonzero(self.ratios == 0)) / self.items * self._unsure(np.zeros(1))

    def _unsure(self, z: npt.NDArray[np.float64]) -> float:
        return float(np.mean(ndtr(self.quantile - z) - ndtr(-self.quantile - z)))


def people_for_error(value: object, shape: ErrorShape) -> int:
    """The fewest people for a standard error of a score of at most ``value``."""
    target = check_real(value, "target_error", low=1e-12, high=1e12)
    number = _least_people(lambda people: math.sqrt(shape.variance / people) <= target)
    if number is None:
        raise ParameterError(f"target_error must be within reach of 10**30 people, got {target!r}")
    return number


def people_for_top(value: object, shape: ErrorShape, top: int | None, *, apart: bool) -> int:
    """The fewest people who find the best ``top`` items with chance ``value``; ``apart``: the guess tells them."""
    target = check_real(value, "target_top", low=0.0, high=1.0)
    if not 0.0 < target < 1.0:
        raise ParameterError(f"target_top must be > 0 and < 1, got {value!r}")
    if top is None:
        raise ParameterError("top must be given with target_top: how many are the best, got None")
    if not apart:
        raise ParameterError(
            f"scores must be a guess in which the best {top} stand apart from the rest, for target_top: "
            "which items are the best is undefined among equals"
        )
    chance = shape.top_chance(top)
    number = _least_people(lambda people: chance(people) >= target)
    if number is None:
        raise ParameterError(f"target_top must be within reach of 10**30 people, got {value!r}")
    return number


def people_for_width(value: object, ranks: RankWidths) -> int:
    """The fewest people for rank intervals that are at most ``value`` wide on average."""
    target = check_real(value, "target_width", low=0.0, high=ranks.items - 1)
    number = None
    if ranks.width(1) <= target or ranks.limit() < target:
        number = _least_people(lambda people: ranks.width(people) <= target)
    if number is None:
        raise ParameterError(
            f"target_width must be > {ranks.limit():.4g} (what equal scores leave open, whoever is asked) and within "
            f"reach of 10**30 people, got {target!r}"
        )
    return number


def _least_people(reaches: Callable[[int], bool]) -> int | None:
    """The least number >= 1 that reaches what all greater ones reach too; ``None`` above 10**30."""
    high = 1
    while not reaches(high):
        high *= 2
        if high > MOST_PEOPLE:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle
    return high

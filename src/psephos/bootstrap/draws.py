"""Posterior draws: what every sampler of this package returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos._check import check_level
from psephos._extras import load_extra
from psephos.bootstrap.rearrangement import CovariateBox, can_rearrange, rearranged
from psephos.errors import ParameterError
from psephos.scores.ranks import RankIntervals, rank_intervals_from_errors

__all__ = ["PosteriorDraws", "chosen_levels"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PosteriorDraws:
    """Draws of a parameter, or of one parameter at each of several levels.

    Attributes
    ----------
    values
        ``(draws, d)``, or ``(levels, draws, d)`` where the target is a family. A draw has the same number at every
        level: ``values[:, b]`` is one draw of the whole process.
    names
        Of the d coordinates.
    levels
        The indices of the family (quantile levels), increasing, or ``None``.
    noncrossing
        Ranges of the d covariates in which the lines of a draw do not cross: at no covariates there is that of a lower
        level above that of a higher one, nor is it so of their means. ``None`` where draws were not rearranged.

    >>> draws = PosteriorDraws(values=np.array([[0.0], [1.0], [2.0]]), names=("mean",))
    >>> draws.mean(), draws.intervals(level=0.5)
    (array([1.]), array([[0.5, 1.5]]))
    """

    values: Array
    names: tuple[str, ...]
    levels: tuple[float, ...] | None = None
    noncrossing: CovariateBox | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.values)
        expected = 2 if self.levels is None else 3
        if len(shape) != expected or shape[-1] != len(self.names) or not shape[-2]:
            raise ParameterError(f"values must be {expected}-dimensional with one column a name, got shape {shape}")
        if self.levels is not None and (len(self.levels) != shape[0] or not np.all(np.diff(self.levels) > 0)):
            raise ParameterError(f"levels must be increasing and one a block of values, got {self.levels}")

    @property
    def count(self) -> int:
        """How many draws there are."""
        return int(self.values.shape[-2])

    def mean(self) -> Array:
        """Mean over the draws: ``(d,)`` or ``(levels, d)``."""
        return np.asarray(self.values.mean(axis=-2))

    def sd(self) -> Array:
        """Standard deviation over the draws, ``(d,)`` or ``(levels, d)``."""
        return np.asarray(self.values.std(axis=-2, ddof=1 if self.count > 1 else 0))

    def intervals(self, *, level: float = 0.95) -> Array:
        """Equal-tailed credible intervals, ``(d, 2)`` or ``(levels, d, 2)``.

        Parameters
        ----------
        level
            Credibility, 0 < level <= 0.9999.
        """
        tail = (1 - check_level(level)) / 2
        return np.moveaxis(np.quantile(self.values, [tail, 1 - tail], axis=-2), 0, -1)

    def rank_intervals(self, *, level: float = 0.95) -> RankIntervals:
        """Ranks of the coordinates, largest first, by intervals that hold for all at once, with tiers and top K.

        For scores of items, such as those of a :class:`BradleyTerryLoss`: only differences of coordinates are looked
        at. Errors about the mean are taken to have the law of the draws, so intervals are no better than the draws:
        those of :func:`psephos.private_posterior` count sampling error and noise.

        Parameters
        ----------
        level
            Simultaneous credibility, 0 < level <= 0.9999; needs 1 / (1 - level) draws at least.

        Raises
        ------
        ParameterError
            for a family of levels, for one coordinate, or too few draws.

        >>> rng = np.random.default_rng(1)
        >>> values = np.array([2.0, 0.1, 0.0]) + 0.1 * rng.standard_normal((1000, 3))
        >>> PosteriorDraws(values=values, names=("a", "b", "c")).rank_intervals().tiers
        ((0,), (1, 2))
        """
        if self.levels is not None:
            raise ParameterError("levels: ranks are of a single rule")
        least = math.ceil(1 / (1 - check_level(level)))
        if self.count < least or len(self.names) < 2:
            raise ParameterError(
                f"ranks at level {level} need two coordinates and {least} draws, got {len(self.names)} and {self.count}"
            )
        centre = self.mean()
        errors = self.values - centre
        return rank_intervals_from_errors(centre, errors.T @ errors / (self.count - 1), errors, level=level)

    def rearranged(self, box: CovariateBox) -> PosteriorDraws:
        """Draws whose lines at increasing levels do not cross in the box (:mod:`psephos.bootstrap.rearrangement`).

        The same draws where there is one level, or none, or no box with a covariate that is the same for all.
        """
        if self.levels is None or len(self.levels) < 2 or not can_rearrange(box):
            return self
        return replace(self, values=rearranged(self.values, box), noncrossing=box)

    def replaced(self, values: ArrayLike, *, noncrossing: CovariateBox | None = None) -> PosteriorDraws:
        """The same names and levels with other values, such as those in another unit, and ranges in that unit."""
        return replace(self, values=np.asarray(values, dtype=np.float64), noncrossing=noncrossing)

    def table(self, *, level: float = 0.95) -> str:
        """Mean, standard deviation and interval of every coordinate, as text.

        >>> print(PosteriorDraws(values=np.array([[0.0], [1.0], [2.0]]), names=("mean",)).table())
        coordinate  mean  sd  2.5%  97.5%
        mean           1   1  0.05   1.95
        """
        tail = 100 * (1 - check_level(level)) / 2
        head = ["coordinate", "mean", "sd", f"{tail:g}%", f"{100 - tail:g}%"]
        bounds = self.intervals(level=level)
        numbers = np.concatenate([self.mean()[..., None], self.sd()[..., None], bounds], axis=-1)
        rows = [head]
        for index in np.ndindex(numbers.shape[:-1]):
            label = self.names[index[-1]]
            if self.levels is not None:
                label = f"{label} at {self.levels[index[0]]:g}"
            rows.append([label, *(f"{number:.4g}" for number in numbers[index])])
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column and row is not head else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def to_arviz(self) -> Any:
        """The draws as an ``arviz.InferenceData`` of one chain, one variable a coordinate.

        Draws keep their order, which matters to those of a chain. Levels become a dimension ``level``.

        Raises
        ------
        ParameterError
            for a coordinate named ``chain``, ``draw`` or, in a family, ``level``.
        MissingExtraError
            without the extra ``bootstrap``.
        """
        reserved = {"chain", "draw"} if self.levels is None else {"chain", "draw", "level"}
        if taken := reserved & set(self.names):
            raise ParameterError(f"names must not be those of ArviZ's own dimensions, got {sorted(taken)}")
        arviz = load_extra("arviz", "bootstrap")
        by_draw = self.values if self.levels is None else np.moveaxis(self.values, 0, 1)
        posterior = {name: by_draw[None, ..., i] for i, name in enumerate(self.names)}
        if self.levels is None:
            return arviz.from_dict(posterior=posterior)
        return arviz.from_dict(
            posterior=posterior, coords={"level": list(self.levels)}, dims={name: ["level"] for name in self.names}
        )


def chosen_levels(
    levels: Sequence[float] | None, known: tuple[float, ...] | None, *, within: tuple[float, ...] = ()
) -> tuple[float, ...] | None:
    """Levels to draw at: those that are known if none are asked for, ``None`` of a single rule.

    Raises
    ------
    ParameterError
        for levels of a single rule, that do not increase, or beyond those of ``within`` (default: that are known).
    """
    if known is None:
        if levels is not None:
            raise ParameterError("levels: this posterior is not indexed by levels")
        return None
    try:
        chosen = known if levels is None else tuple(float(level) for level in levels)
    except (TypeError, ValueError):
        chosen = ()
    low, high = min(within or known), max(within or known)
    if not chosen or not all(low <= level <= high for level in chosen) or not np.all(np.diff(chosen) > 0):
        raise ParameterError(f"levels must be increasing and within [{low}, {high}], got {levels!r}")
    return chosen

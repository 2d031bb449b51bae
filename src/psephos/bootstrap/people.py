"""The people behind noisy sums: what a fit by Newton steps releases of their records, one bounded part each.

Every sum is of all n people, each of whom has a bounded part in it whatever their record is
(:mod:`psephos.bootstrap.noisy_moments`), in units that are public or depend on earlier releases alone. So each release
is a Gaussian mechanism of a known mu, chosen by those before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from psephos.bootstrap.loss_protocol import finite_numbers, round_up
from psephos.bootstrap.losses import (
    SHIPPED,
    BradleyTerryLoss,
    HuberLoss,
    LogisticLoss,
    Loss,
    QuantileLoss,
    Records,
    ShippedLoss,
)
from psephos.bootstrap.noisy_moments import GramSum, VectorSum
from psephos.bootstrap.regression_losses import SCALE_STRETCH
from psephos.bootstrap.train import count_records
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource
from psephos.privacy.events import RoundedGaussianEvent

__all__ = ["REGRESSIONS", "People", "check_records", "find_pilot", "stepped"]

Floats = NDArray[np.float64]

#: Losses of covariates x, the first array of their records.
REGRESSIONS = (HuberLoss, LogisticLoss, QuantileLoss)

_LEVERAGE = 6.0  # times its mean: what a record's leverage counts at most
_FLOOR = 1.5  # standard deviations of its noise that an eigenvalue of a second moment is taken for at least
_WEAK = 0.4  # of the mean eigenvalue: one below this, and below what noise explains, is known to be small
_FRESH = 0.5  # part of the newest curvature in that of a pilot step, unless it is clear of noise by itself
_RAISE = 3.0  # standard deviations of its noise by which a curvature is raised for a step; what noise explains
_PIECE = 16_384  # people at a time, at most
_ENTRIES = 2**22  # of the rows of their curvature, at most
_MOST_COORDINATES = 2**10  # their squares are released, and whole matrices factored
_LEAST_BOUND, _LARGEST_BOUND = 1e-50, 1e50  # squares and quotients of what is released must be doubles


def check_records(records: Records, loss: Loss) -> ShippedLoss:
    """The loss; what noisy sums cannot be made of is refused, before anything is released.

    Raises
    ------
    ParameterError
        for a loss that is not of this package, records of other shapes, and units beyond doubles.
    """
    if not isinstance(loss, SHIPPED):
        raise ParameterError(f"the loss must be one of this package that knows its curvature, got {loss!r}")
    count_records(records, "records")
    _check_shapes(records, loss)
    _check_bounds(loss)
    return loss


@dataclass(slots=True, kw_only=True, eq=False)
class People:
    """The records behind noisy sums, and what has been released of them.

    A number that is none counts as a public one (:func:`psephos.bootstrap.loss_protocol.finite_numbers`).
    Rows of a product may be rounded by their place in the array; replacing a record moves no other.
    """

    records: Records
    loss: ShippedLoss
    bits: BitSource
    events: list[RoundedGaussianEvent] = field(default_factory=list)
    frame: Floats = field(init=False)  # (d, r): columns are the directions in which all is measured
    weights: Floats = field(init=False)  # (n,): what each record counts
    weak: NDArray[np.bool_] = field(init=False)  # (r,): directions in which covariates are known to vary hardly
    growth: float = 1.0  # by how much a column of the frame has grown since bounds were sized for it
    leverage: float | None = None  # the largest that covariates have in the frame, once it is found

    def __post_init__(self) -> None:
        self.records = tuple(finite_numbers(column) for column in self.records)
        self.weights = np.ones(self.count)
        d = len(self.loss.names)
        self.weak = np.zeros(d - len(self.loss.flat_directions), dtype=bool)
        flat = np.array(self.loss.flat_directions).reshape(-1, d)
        self.frame = np.linalg.qr(np.concatenate([flat, np.eye(d)]).T)[0][:, len(flat) :] if len(flat) else np.eye(d)

    @property
    def count(self) -> int:
        return len(self.records[0])

    @property
    def levels(self) -> tuple[float | None, ...]:
        return (None,) if self.loss.levels is None else self.loss.levels

    @property
    def gradient_bound(self) -> float:
        """Of a person's gradients at all levels together."""
        if isinstance(self.loss, REGRESSIONS) and self.leverage is not None:
            return round_up(self.loss.joint_bound(self.leverage) * self.growth)
        return round_up(self.loss.bound * self.growth)

    def find_frame(self, shares: list[Fraction]) -> None:
        """Coordinates in which the covariates' second moment is about the identity, if there are covariates."""
        loss = self.loss
        if not isinstance(loss, REGRESSIONS):
            return
        p = len(loss.covariates)
        stretch, bound, weak = np.eye(p), loss.covariate_bound**2, np.zeros(p, dtype=bool)
        for share in shares:
            total = GramSum(p, bound=bound)
            for piece, _ in self._pieces():
                total.add((piece[0] @ stretch)[:, None, :])
            mean, sd = self._mean(total, share)
            values, vectors = np.linalg.eigh(mean)
            middle = max(float(values.mean()), _FLOOR * sd)
            spread = float(np.sum((values - middle) ** 2))
            seen = max(0.0, 1 - sd**2 * p * (p + 1) / 2 / max(spread, 1e-300))  # of the spread: the rest is noise
            values = middle + seen * (values - middle)
            weak = (values <= _RAISE * sd) & (_RAISE * sd <= _WEAK * middle)
            values = np.maximum(values, _FLOOR * sd)
            stretch = stretch @ (vectors / np.sqrt(values))
            bound = min(loss.covariate_bound**2 * float(np.linalg.norm(stretch, 2)) ** 2, _LEVERAGE * p)
        self.frame[:p, :p] = stretch
        self.frame[p:, p:] *= SCALE_STRETCH
        self.weak[:p] = weak
        self.leverage = round_up(bound)
        for piece, weights in self._pieces():
            leverages = np.sum((piece[0] @ stretch) ** 2, axis=-1)
            weights[:] = np.minimum(1.0, self.leverage / np.maximum(leverages, 1e-300))

    def told(self, curvature: Floats, sds: Floats) -> tuple[Floats, int]:
        """Turn the frame, once a curvature is released in it, so that directions to leave out come last.

        Weak directions in which the loss bends by three standard deviations of the noise or more, whatever the others
        do, are no longer weak. A turn of weak directions among themselves changes no bound, and no law of noise.

        Returns
        -------
        The curvature in the new frame, ``(L, r, r)``, and how many directions are not left out.
        """
        known, weak = np.flatnonzero(~self.weak), np.flatnonzero(self.weak)
        mean, sd = curvature.mean(axis=0), float(np.mean(sds)) / math.sqrt(len(sds))
        beside = mean[np.ix_(known, weak)]
        values, vectors = np.linalg.eigh(mean[np.ix_(known, known)])
        values = np.maximum(values, max(_RAISE * sd, 1e-300))
        rest = mean[np.ix_(weak, weak)] - beside.T @ (vectors / values) @ vectors.T @ beside
        bends, turn = np.linalg.eigh(rest)
        order = np.arange(len(weak))[::-1]
        whole = np.eye(len(mean))[:, np.concatenate([known, weak])]
        whole[:, len(known) :] = whole[:, len(known) :] @ turn[:, order]
        self.frame = self.frame @ whole
        self.weak = np.concatenate([np.zeros(len(known), dtype=bool), (bends <= _RAISE * sd)[order]])
        return whole.T @ curvature @ whole, int(np.sum(~self.weak))

    @property
    def log_columns(self) -> NDArray[np.bool_]:
        """Which directions of the frame are those of logarithmic scales: ``(r,)``."""
        return np.asarray(self.frame[list(self.loss.log_coordinates)].any(axis=0))

    def move_frame(self, before: Floats, after: Floats) -> None:
        """Take logarithmic scales along to another place: what was theta_j in the frame becomes theta_j after."""
        if logs := list(self.loss.log_coordinates):
            ratio = after[0, logs] / before[0, logs]
            self.frame[logs] *= ratio[:, None]
            self.growth = max(1.0, float(ratio.max()))

    def on_log_scales(self, place: Floats, gradient: Floats, curvature: Floats) -> Floats:
        """The curvature where theta_j = exp(t): from h and g in theta_j it is ``theta_j^2 h + theta_j g`` in t."""
        if not (logs := list(self.loss.log_coordinates)):
            return curvature
        slopes = np.linalg.solve(self.frame.T, gradient)[logs]
        return curvature + (self.frame[logs].T * (slopes / place[0, logs])) @ self.frame[logs]

    def gradient(self, place: Floats, mu_squared: Fraction) -> tuple[Floats, float]:
        """The mean gradient, ``(L r,)``, and the noise's standard deviation."""
        total = VectorSum(len(place) * self.frame.shape[1], bound=self.gradient_bound)
        for piece, weights in self._pieces():
            total.add(self._gradients(place, piece) * weights[:, None])
        return self._mean(total, mu_squared)

    def scores(self, place: Floats, mu_squared: Fraction) -> tuple[Floats, float]:
        """The mean of the squared gradients, ``(L r, L r)``, and the noise's standard deviation on its diagonal."""
        total = GramSum(len(place) * self.frame.shape[1], bound=self.gradient_bound**2)
        for piece, weights in self._pieces():
            total.add((self._gradients(place, piece) * weights[:, None])[:, None, :])
        return self._mean(total, mu_squared)

    def curvature(self, place: Floats, mu_squared: Fraction, *, majorising: bool) -> tuple[Floats, Floats]:
        """The mean curvature, ``(L, r, r)``, and the noise's standard deviations on its diagonals, ``(L,)``."""
        loss, frame = self.loss, self.frame
        found = []
        for theta in place:
            bound = loss.curvature_bound(theta, majorising=majorising, leverage=self.leverage)
            total = GramSum(frame.shape[1], bound=round_up(bound * self.growth**2))
            for piece, weights in self._pieces():
                roots = loss.curvature_root(theta, piece, majorising=majorising)
                rows = (roots.reshape(-1, len(theta)) @ frame).reshape(*roots.shape[:2], -1)  # one product, not n
                total.add(rows * np.sqrt(weights)[:, None, None])
            mean, sd = self._mean(total, mu_squared / len(place))
            found.append((mean - loss.curvature_shift(theta) * frame.T @ frame, sd))
        return np.array([mean for mean, _ in found]), np.array([sd for _, sd in found])

    def below(self, theta: Floats, mu_squared: Fraction) -> tuple[Floats, float]:
        """Quantiles: the mean of (below - 1/2) times the covariates, ``(r,)``, and the noise's standard deviation.

        A person's part has the norm ``w |x| / 2`` at most, and ``w |x|^2`` is the leverage at most, w at most 1.
        """
        total = VectorSum(self.frame.shape[1], bound=round_up(self._longest / 2))
        for piece, weights in self._pieces():
            total.add(((self._quantiles.below(theta, piece) - 0.5) * weights)[:, None] * (piece[0] @ self.frame))
        return self._mean(total, mu_squared)

    def covariates(self, mu_squared: Fraction) -> tuple[Floats, float]:
        """The mean of the covariates, ``(r,)``, and the noise's standard deviation."""
        total = VectorSum(self.frame.shape[1], bound=self._longest)
        for piece, weights in self._pieces():
            total.add((piece[0] @ self.frame) * weights[:, None])
        return self._mean(total, mu_squared)

    def slopes(self, place: Floats, mu_squared: Fraction) -> tuple[Floats, float]:
        """Quantiles: the mean product of slopes at any two levels, ``(L, L)``, and the noise on its diagonal.

        The squares of a person's slopes add up to ``joint_bound(1)^2`` at most; where lines cross, they are cut to it.
        """
        loss = self._quantiles
        total = GramSum(len(place), bound=self.slopes_bound)
        for piece, _ in self._pieces():
            slopes = [loss.below(theta, piece) - level for theta, level in zip(place, loss.levels, strict=True)]
            total.add(np.stack(slopes, axis=1)[:, None, :])
        return self._mean(total, mu_squared)

    @property
    def slopes_bound(self) -> float:
        """Of the squares of a person's slopes at all levels, added up."""
        return round_up(self._quantiles.joint_bound(1.0) ** 2)

    @property
    def _quantiles(self) -> QuantileLoss:
        """The loss, which is one of quantiles."""
        return cast("QuantileLoss", self.loss)

    @property
    def _longest(self) -> float:
        """Norm of covariates in the frame, counted, at most: the frame is found first."""
        return round_up(math.sqrt(cast("float", self.leverage)))

    def _pieces(self) -> Iterator[tuple[Records, Floats]]:
        """The records, some at a time, and what each counts: a view, which may be written to."""
        rows = self.records[0].shape[1] if isinstance(self.loss, BradleyTerryLoss) else 1  # of a person's curvature
        size = max(1, min(_PIECE, _ENTRIES // (rows * len(self.loss.names))))
        for begin in range(0, self.count, size):
            part = slice(begin, begin + size)
            yield tuple(column[part] for column in self.records), self.weights[part]

    def _gradients(self, place: Floats, piece: Records) -> Floats:
        each = zip(place, self.levels, strict=True)
        return np.concatenate([self.loss.gradient(theta, piece, level) @ self.frame for theta, level in each], axis=1)

    def _mean(self, total: VectorSum | GramSum, mu_squared: Fraction) -> tuple[Floats, float]:
        found, sd, event = total.released(mu_squared=mu_squared, bits=self.bits)
        self.events.append(event)
        return found / self.count, sd / self.count


def find_pilot(people: People, shares: list[Fraction]) -> tuple[Floats, float]:
    """Steps from the loss's start, with a gradient and a majorising curvature each.

    Returns the place, ``(L, d)``, and the standard deviation of the last gradient's noise.
    """
    place = np.tile(np.asarray(people.loss.start, dtype=np.float64), (len(people.levels), 1))
    pooled, spread, noise = None, np.zeros(len(place)), math.inf
    for of_gradient, of_curvature in zip(shares[::2], shares[1::2], strict=True):
        gradient, noise = people.gradient(place, of_gradient)
        curvature, sds = people.curvature(place, of_curvature, majorising=True)
        clear = np.linalg.eigvalsh(curvature)[:, 0] >= _RAISE * sds
        part = np.where(clear | (pooled is None), 1.0, _FRESH)
        pooled = curvature if pooled is None else pooled + part[:, None, None] * (curvature - pooled)
        spread = np.hypot((1 - part) * spread, part * sds)
        place = stepped(place, gradient, pooled, spread, noise=noise, people=people)
    return place, noise


def stepped(place: Floats, gradient: Floats, curvature: Floats, sds: Floats, *, noise: float, people: People) -> Floats:
    """One damped Newton step at each level, ``(L, d)``: post-processing of what was released.

    The curvature H is raised by three standard deviations of its noise, which shortens steps in directions that the
    noise hides. The step z is where ``|g + H z|^2 / noise^2 + |(theta + frame z - start) / half of the box|^2`` is
    least: what moves the loss by less than the noise stays near the start, in place of straying to a corner of the box.

    On a logarithmic scale t of theta_j the gradient is ``theta_j g_j``, and the curvature is raised by its size: so no
    step in t is much longer than 1. Where t is cut, by 1 or by the box, the others take the step that goes with that.
    """
    loss = people.loss
    lower, upper, start = (np.asarray(end, dtype=np.float64) for end in (loss.lower, loss.upper, loss.start))
    logs = np.isin(np.arange(place.shape[1]), loss.log_coordinates)
    columns = people.log_columns
    after = np.empty_like(place)
    for i, (theta, slope) in enumerate(zip(place, gradient.reshape(len(place), -1), strict=True)):
        scale = np.where(logs, theta, 1.0)
        frame = people.frame / scale[:, None]
        low, high, middle = (_on_logs(end, logs) - _on_logs(theta, logs) for end in (lower, upper, start))
        raised = curvature[i] + _RAISE * sds[i] * np.eye(len(slope))
        if columns.any():
            of_logs = np.abs(np.linalg.solve(frame[logs][:, columns].T, slope[columns]))
            raised = raised + (frame[logs].T * of_logs) @ frame[logs]
        step = _regular_step(slope, raised, frame, low, high, middle, noise=noise, least=sds[i])
        if columns.any():
            cut = np.clip(frame[logs] @ step, np.maximum(low[logs], -1), np.minimum(high[logs], 1))
            step[columns] = np.linalg.solve(frame[logs][:, columns], cut)
            if not columns.all():
                rest = np.ix_(~columns, ~columns)
                pushed = slope[~columns] + raised[np.ix_(~columns, columns)] @ step[columns]
                step[~columns] = _regular_step(
                    pushed, raised[rest], frame[:, ~columns], low, high, middle, noise=noise, least=sds[i]
                )
        moved = frame @ step
        after[i] = np.where(logs, theta * np.exp(np.where(logs, moved, 0.0)), theta + moved)
    return np.clip(after, lower, upper)


def _regular_step(
    slope: Floats,
    curvature: Floats,
    frame: Floats,
    low: Floats,
    high: Floats,
    middle: Floats,
    *,
    noise: float,
    least: float,
) -> Floats:
    """Of :func:`stepped`; ends and start are seen from the place."""
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, least)
    narrow = 2 / np.clip(high - low, 1e-100, None)
    prior = noise * narrow[:, None] * frame @ vectors
    rows = np.concatenate([np.diag(values), prior])
    wanted = np.concatenate([-(vectors.T @ slope), noise * narrow * middle])
    return np.asarray(vectors @ np.linalg.lstsq(rows, wanted, rcond=None)[0])


def _on_logs(theta: Floats, logs: NDArray[np.bool_]) -> Floats:
    """Of coordinates that move on a logarithmic scale, the logarithm."""
    return np.where(logs, np.log(np.where(logs, theta, 1.0)), theta)


def _check_shapes(records: Records, loss: ShippedLoss) -> None:
    """Refuse records of shapes that the loss does not take, on a few rows of zeros."""
    d = len(loss.names)
    coordinates = d * len(loss.levels or (1,))
    if coordinates > _MOST_COORDINATES:
        raise ParameterError(
            f"the loss must have at most {_MOST_COORDINATES} coordinates at all levels, got {coordinates}"
        )
    for rows in (2, 3):  # what fits by chance, as p numbers for p records, does not fit twice
        try:
            zeros = tuple(np.zeros((rows, *column.shape[1:]), dtype=column.dtype) for column in records)
            shape = np.shape(loss.gradient(np.asarray(loss.start), zeros, loss.levels[0] if loss.levels else None))
        except Exception as error:
            raise ParameterError(
                f"the loss does not take records of shapes {[column.shape for column in records]}: {error}"
            ) from error
        if shape != (rows, d):
            raise ParameterError(f"records must give gradients of {d} coordinates, got shape {shape[1:]}")


def _check_bounds(loss: ShippedLoss) -> None:
    """Refuse units in which doubles would not hold what follows; curvature is least and largest at ends of the box."""
    bounds = [loss.bound_at(level) for level in loss.levels or (None,)]
    for end in (np.asarray(loss.lower), np.asarray(loss.upper)):
        bounds += [loss.curvature_bound(end, majorising=majorising) for majorising in (False, True)]
    if not all(_LEAST_BOUND <= bound <= _LARGEST_BOUND for bound in bounds):
        raise ParameterError(
            f"bounds of gradients and curvature must be >= {_LEAST_BOUND:g} and <= {_LARGEST_BOUND:g} in all of the "
            f"loss's box, got {min(bounds):.3g} to {max(bounds):.3g}: choose other units"
        )

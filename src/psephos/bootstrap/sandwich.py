"""Private M-estimation whose posterior knows its noise: a few noisy Newton steps, and one more that all rests on.

The other way to a private posterior, next to training a sampler (:mod:`psephos.bootstrap.train`): where the posterior
is near normal, a place near the minimiser and three noisy sums there say all
(:class:`psephos.bootstrap.NormalPosterior`). It needs numpy alone.

1. **Frame**: of a regression, the second moment of the covariates, twice, the second time in coordinates in which the
   first is about the identity. All that follows is measured in such coordinates z, ``theta = theta0 + frame z``, so
   that noise of one size in all directions suits all. A record's leverage, ``h = x' M^-1 x``, is p on average; one with
   ``h > 6 p`` counts ``6 p / h`` from here on, so that no record moves a mean by more than noise was sized for.
2. **Pilot**: steps from the loss's public start, each with a noisy mean gradient and a noisy mean of curvatures that
   lie above the loss (:class:`psephos.bootstrap.loss_protocol.Curved`), so that steps do not overshoot. A scale
   or an exponential mean, of which that does not hold, moves on a logarithmic scale, by a factor e at most.
3. **Newton**: at the pilot's place the curvature itself, and a gradient; one step.
4. **Last**: where that leads, the curvature again, the sum of squared scores, and a gradient with most of the budget.

Every sum is of all n people, each of whom has a bounded part in it whatever their record is
(:mod:`psephos.bootstrap.noisy_moments`), in units that are public or depend on earlier releases alone. So each release
is a Gaussian mechanism of a known mu, chosen by those before it, and together they are one with ``mu^2 = sum mu_j^2``
(Dong, Roth and Su, "Gaussian differential privacy", Corollary 3.3; ``docs/proofs/bootstrap.md``). The shares of mu^2
are those of the plan.

Source: M-estimation with noisy Newton steps under Gaussian differential privacy, after Avella-Medina, Bradshaw and
Loh, "Differentially private inference via noisy optimization" (2023); steps, shares and posterior are our own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from psephos._check import Exact, check_integer, positive
from psephos.bootstrap.loss_protocol import round_up
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
from psephos.bootstrap.normal_posterior import NormalPosterior
from psephos.bootstrap.regression_losses import SCALE_STRETCH
from psephos.bootstrap.train import count_records
from psephos.errors import DataError, ParameterError
from psephos.privacy.bits import BitSource, is_secure
from psephos.privacy.events import ComposedGaussianEvent, RoundedGaussianEvent
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.guarantee import Guarantee
from psephos.privacy.release import Release

__all__ = ["SandwichPlan", "prepared_sandwich"]

Floats = NDArray[np.float64]

_SHARES = ("frame", "pilot", "curvature", "middle", "scores")
_MOST_SHARES = Fraction(9, 10)
_LEVERAGE = 6.0  # times its mean: what a record's leverage counts at most
_FLOOR = 1.5  # standard deviations of its noise that an eigenvalue of a second moment is taken for at least
_FIRST = Fraction(1, 3)  # of the curvature's share, for the Newton step; the posterior has the rest
_FRESH = 0.5  # part of the newest curvature in that of a pilot step, unless it is clear of noise by itself
_RAISE = 3.0  # standard deviations of its noise by which a curvature is raised for a step
_REGRESSIONS = (HuberLoss, LogisticLoss, QuantileLoss)  # of covariates x, the first array of their records
_PIECE = 16_384  # people at a time, at most
_ENTRIES = 2**22  # of the rows of their curvature, at most
_LEAST_SHARE = Fraction(1, 2**60)  # of mu^2 in one release: with less, noise is above all that a sum can hold
_MOST_COORDINATES = 2**10  # their squares are released, and whole matrices factored
_LEAST_BOUND, _LARGEST_BOUND = 1e-50, 1e50  # squares and quotients of what is released must be doubles


@dataclass(frozen=True, slots=True, kw_only=True)
class SandwichPlan:
    """Public settings. Shares of mu^2 are exact numbers; those not given follow from public facts (:meth:`shares`).

    Parameters
    ----------
    steps
        Of the pilot, >= 1.
    growth
        The budget of a pilot step over that of the step before, >= 1: far from the minimum noise matters least.
    frame
        Share of the frame; it goes to the last gradient where there are no covariates.
    pilot
        Share of all pilot steps together, half of it for their gradients.
    curvature, middle, scores
        Shares of the curvature (a third for the Newton step), of the gradient beside it, and of the squared scores. The
        last gradient has the rest.
    """

    steps: int = 12
    growth: Exact = "1.3"
    frame: Exact | None = None
    pilot: Exact | None = None
    curvature: Exact | None = None
    middle: Exact | None = None
    scores: Exact | None = None

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps", low=1, high=1000)
        if not 1 <= positive(self.growth, "growth") <= 100:
            raise ParameterError(f"growth must be >= 1 and <= 100, got {self.growth!r}")
        given = self._given()
        total = sum(given.values(), Fraction(0))
        if total > _MOST_SHARES or (total == _MOST_SHARES and len(given) < len(_SHARES)):
            raise ParameterError(
                f"{', '.join(_SHARES)} must leave a tenth for the last gradient, and something for those not given, "
                f"got {total} for {', '.join(given)}"
            )

    def shares(self, *, people: int, mu: float, coordinates: int) -> tuple[Fraction, ...]:
        """Of each release, in order: frame twice, gradient and curvature of each pilot step, then the rest.

        With ``x = people * mu`` (the number of people over the noise in a sum to which each adds 1 at most), the pilot
        has ``6 / sqrt(x)``, within [.1, .3], the frame a fifth and the middle a half of that, the curvature
        ``60 coordinates / x``, within [.15, .25], and the scores ``150 / x``, within [.02, .05]: where noise is small
        beside all that is measured, the last gradient has most, and where it is not, a place and a curvature must be
        found first.

        >>> shares = SandwichPlan(steps=1).shares(people=10_000, mu=0.3, coordinates=4)
        >>> [round(float(share), 3) for share in shares]
        [0.011, 0.011, 0.055, 0.055, 0.15, 0.055, 0.05, 0.613]
        """
        x = max(people * mu, 1e-9)
        pilot = min(max(6 / math.sqrt(x), 0.1), 0.3)
        found = {
            "frame": pilot / 5,
            "pilot": pilot,
            "curvature": min(max(60 * coordinates / x, 0.15), 0.25),
            "middle": pilot / 2,
            "scores": min(max(150 / x, 0.02), 0.05),
        }
        given = self._given()
        known = {name: Fraction(round(1000 * share), 1000) for name, share in found.items() if name not in given}
        left = _MOST_SHARES - sum(given.values(), Fraction(0))
        if (wanted := sum(known.values(), Fraction(0))) > left:
            known = {name: share * left / wanted for name, share in known.items()}
        known |= given
        growth = positive(self.growth, "growth")
        weights = [growth**step for step in range(self.steps)]
        whole = 2 * sum(weights, Fraction(0))
        steps = [known["pilot"] * weight / whole for weight in weights for _ in range(2)]
        last = 1 - sum(known.values(), Fraction(0))
        halves = (known["frame"] / 2,) * 2
        return (*halves, *steps, known["curvature"], known["middle"], known["scores"], last)

    def _given(self) -> dict[str, Fraction]:
        return {name: positive(x, name) for name in _SHARES if (x := getattr(self, name)) is not None}


def prepared_sandwich(
    records: Records, loss: Loss, *, guarantee: Guarantee, plan: SandwichPlan, bits: BitSource
) -> Callable[[], Release[NormalPosterior]]:
    """A fit that is ready to run: all that can be refused has been, and no noise has been drawn."""
    if not isinstance(loss, SHIPPED):
        raise ParameterError(f"the loss must be one of this package that knows its curvature, got {loss!r}")
    if not isinstance(plan, SandwichPlan):
        raise ParameterError(f"settings of sandwich must be a SandwichPlan, got {type(plan).__name__}")
    count_records(records, "records")
    _check_shapes(records, loss)
    _check_bounds(loss)
    if not all(np.isfinite(column).all() for column in records):
        raise DataError("every number of the records must be finite")
    mu = mu_lower(guarantee.epsilon, guarantee.delta)
    levels = len(loss.levels or (1,))
    planned = plan.shares(people=len(records[0]), mu=float(mu), coordinates=len(loss.names) * levels)
    shares = [mu**2 * share for share in planned]
    if not isinstance(loss, _REGRESSIONS):  # nothing to find a frame of
        shares[-1] += shares[0] + shares[1]
    if min(shares) < _LEAST_SHARE * levels:
        raise ParameterError(
            f"epsilon and delta are too small: noise would be above {float(_LEAST_SHARE) ** -0.5:.0e} times what a "
            "person can add to a sum"
        )

    def run() -> Release[NormalPosterior]:
        people = _People(records=records, loss=loss, bits=bits)
        with np.errstate(all="ignore"):
            posterior = _fitted(people, shares, guarantee)
        event = ComposedGaussianEvent(parts=tuple(people.events))
        return Release(value=posterior, event=event, guarantee=guarantee, secure=posterior.secure)

    return run


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


@dataclass(slots=True, kw_only=True, eq=False)
class _People:
    """The records behind noisy sums, and what has been released of them.

    Rows of a product may be rounded by their place in the array; replacing a record moves no other.
    """

    records: Records
    loss: ShippedLoss
    bits: BitSource
    events: list[RoundedGaussianEvent] = field(default_factory=list)
    frame: Floats = field(init=False)  # (d, r): columns are the directions in which all is measured
    weights: Floats = field(init=False)  # (n,): what each record counts
    growth: float = 1.0  # by how much a column of the frame has grown since bounds were sized for it
    leverage: float | None = None  # the largest that covariates have in the frame, once it is found

    def __post_init__(self) -> None:
        self.weights = np.ones(self.count)
        d = len(self.loss.names)
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
        if isinstance(self.loss, _REGRESSIONS) and self.leverage is not None:
            return round_up(self.loss.joint_bound(self.leverage) * self.growth)
        return round_up(self.loss.bound * self.growth)

    def find_frame(self, shares: list[Fraction]) -> None:
        """Coordinates in which the covariates' second moment is about the identity, if there are covariates."""
        loss = self.loss
        if not isinstance(loss, _REGRESSIONS):
            return
        p = len(loss.covariates)
        stretch, bound = np.eye(p), loss.covariate_bound**2
        for share in shares:
            total = GramSum(p, bound=bound)
            for piece, _ in self._pieces():
                total.add((piece[0] @ stretch)[:, None, :])
            mean, sd = self._mean(total, share)
            values, vectors = np.linalg.eigh(mean)
            middle = max(float(values.mean()), _FLOOR * sd)
            spread = float(np.sum((values - middle) ** 2))
            seen = max(0.0, 1 - sd**2 * p * (p + 1) / 2 / max(spread, 1e-300))  # of the spread: the rest is noise
            values = np.maximum(middle + seen * (values - middle), _FLOOR * sd)
            stretch = stretch @ (vectors / np.sqrt(values))
            bound = min(loss.covariate_bound**2 * float(np.linalg.norm(stretch, 2)) ** 2, _LEVERAGE * p)
        self.frame[:p, :p] = stretch
        self.frame[p:, p:] *= SCALE_STRETCH
        self.leverage = round_up(bound)
        for piece, weights in self._pieces():
            leverages = np.sum((piece[0] @ stretch) ** 2, axis=-1)
            weights[:] = np.minimum(1.0, self.leverage / np.maximum(leverages, 1e-300))

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
                roots = loss.curvature_root(theta, piece, majorising=majorising) @ frame
                total.add(roots * np.sqrt(weights)[:, None, None])
            mean, sd = self._mean(total, mu_squared / len(place))
            found.append((mean - loss.curvature_shift(theta) * frame.T @ frame, sd))
        return np.array([mean for mean, _ in found]), np.array([sd for _, sd in found])

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


def _fitted(people: _People, shares: list[Fraction], guarantee: Guarantee) -> NormalPosterior:
    loss = people.loss
    people.find_frame(shares[:2])
    place = np.tile(np.asarray(loss.start, dtype=np.float64), (len(people.levels), 1))
    pooled, spread = None, np.zeros(len(place))
    for of_gradient, of_curvature in zip(shares[2:-4:2], shares[3:-4:2], strict=True):
        gradient, _ = people.gradient(place, of_gradient)
        curvature, sds = people.curvature(place, of_curvature, majorising=True)
        clear = np.linalg.eigvalsh(curvature)[:, 0] >= _RAISE * sds
        part = np.where(clear | (pooled is None), 1.0, _FRESH)
        pooled = curvature if pooled is None else pooled + part[:, None, None] * (curvature - pooled)
        spread = np.hypot((1 - part) * spread, part * sds)
        place = _stepped(place, gradient, pooled, spread, people=people)
    of_curvature, of_middle, of_scores, of_last = shares[-4:]
    curvature, sds = people.curvature(place, of_curvature * _FIRST, majorising=False)
    gradient, _ = people.gradient(place, of_middle)
    before, place = place, _stepped(place, gradient, curvature, sds, people=people)
    people.move_frame(before, place)
    curvature, sds = people.curvature(place, of_curvature * (1 - _FIRST), majorising=False)
    scores, scores_sd = people.scores(place, of_scores)
    gradient, gradient_sd = people.gradient(place, of_last)
    curvature = people.on_log_scales(place, gradient, curvature)
    return NormalPosterior(
        names=loss.names,
        lower=loss.lower,
        upper=loss.upper,
        levels=loss.levels,
        logs=loss.log_coordinates,
        people=people.count,
        frame=people.frame,
        place=place,
        gradient=gradient,
        gradient_sd=gradient_sd,
        curvature=curvature,
        curvature_sd=sds,
        scores=scores,
        scores_sd=scores_sd,
        scores_bound=people.gradient_bound**2,
        guarantee=guarantee,
        secure=is_secure(people.bits),
    )


def _stepped(place: Floats, gradient: Floats, curvature: Floats, sds: Floats, *, people: _People) -> Floats:
    """One damped Newton step at each level, ``(L, d)``: post-processing of what was released.

    The curvature is raised by three standard deviations of its noise, which shortens steps in directions that the noise
    hides. On a logarithmic scale t of theta_j the gradient is ``theta_j g_j``, and the curvature is raised by its size:
    so no step in t is much longer than 1.
    """
    logs = np.isin(np.arange(place.shape[1]), people.loss.log_coordinates)
    after = np.empty_like(place)
    for i, (theta, slope) in enumerate(zip(place, gradient.reshape(len(place), -1), strict=True)):
        scale = np.where(logs, theta, 1.0)
        frame = people.frame / scale[:, None]
        raised = curvature[i] + _RAISE * sds[i] * np.eye(len(slope))
        if logs.any():
            raised = raised + (frame.T * np.where(logs, np.abs(np.linalg.solve(frame.T, slope)), 0.0)) @ frame
        values, vectors = np.linalg.eigh(raised)
        step = -frame @ (vectors @ ((vectors.T @ slope) / np.maximum(values, sds[i])))
        after[i] = np.where(logs, theta * np.exp(np.where(logs, np.clip(step, -1, 1), 0.0)), theta + step)
    return np.clip(after, people.loss.lower, people.loss.upper)

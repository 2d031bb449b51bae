"""A private posterior of any shape from one round of noisy gradients after another: method ``field``.

The generative bootstrap (:mod:`psephos.bootstrap.train`) learns a map from random weights to minimisers through noise,
step by step, and pays three times: a random weighting costs twice the noise of a plain mean, a map of S blocks is S
times as noisy as its centre, and its spread knows nothing of the noise. Here all that is paid for is *where the mean
gradient is what*; draws are minimisers under random tilts of what was released, found afterwards and for free
(:class:`psephos.bootstrap.FieldPosterior`).

1. **Frame, pilot, Newton**: as in :mod:`psephos.bootstrap.sandwich`, with the same shares.
2. **Rounds**: mean gradients at places of two kinds of spread: at first around the Newton step, as far as it may be
   off, and then where the posterior of all rounds before has its draws, a third wider. Curvature and scores are
   released before the last.

For quantiles the gradients are those of one field for all levels, ``E x (B - 1/2)`` (:meth:`People.below`), which
weighs half as much as a gradient, and the mean covariates. Every release is a Gaussian mechanism of a known mu, chosen
by those before it; together they are one (Dong, Roth and Su, "Gaussian differential privacy", Corollary 3.3;
``docs/proofs/bootstrap.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from psephos._check import Exact, positive
from psephos.bootstrap.field_posterior import FieldPosterior
from psephos.bootstrap.gradient_field import LEAST_BEND, Measurements, at_least
from psephos.bootstrap.losses import SHIPPED, Loss, MeanLoss, QuantileLoss, Records, ShippedLoss
from psephos.bootstrap.people import People, check_records, find_pilot, stepped
from psephos.bootstrap.sandwich import FIRST, SandwichPlan, shares_paid
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource, is_secure
from psephos.privacy.events import ComposedGaussianEvent, Event
from psephos.privacy.guarantee import Guarantee

__all__ = ["FieldFit", "FieldPlan", "takes_field"]

Floats = NDArray[np.float64]

_MOST_COORDINATES = 32  # of a field, whose squares are r (r + 1) / 2 functions
_KNOTS = 11  # levels at which scores are measured, at most
_POINTS = 4  # a coordinate, in a round; half as many at each of several levels
_LEAST_POINTS = 16  # of a round; half as many at each of several levels
_WIDE = 2.0  # standard deviations of the first round's places
_WIDER = 1.3  # than the posterior: later rounds
_EDGE = 0.2  # of draws at the edge of what was measured: the next round is as wide as the last
_REGION = 1.3  # times the farthest place: where draws may be
_ROUGH = 0.02  # of sampling errors: what the mean of so many kinked losses is off a smooth one
_LOOKED_AT = 128  # draws, to place the next round
_SPREAD, _SPREAD_OF_QUANTILES = 3.0, 0.7  # of Q; a quantile's curvature is known by a wide window alone
_BLUR = 4.0  # (3^2 - 1) / 2: of that window, in squared bandwidths


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """Public settings.

    Parameters
    ----------
    newton
        Shares of mu^2, of which what is left for the last gradient goes to the rounds.
    rounds
        Shares of that, > 0, one a round; they sum to 1.
    """

    newton: SandwichPlan = field(default_factory=SandwichPlan)
    rounds: tuple[Exact, ...] = ("0.06", "0.12", "0.25", "0.57")

    def __post_init__(self) -> None:
        if not isinstance(self.newton, SandwichPlan):
            raise ParameterError(f"newton must be a SandwichPlan, got {type(self.newton).__name__}")
        if not isinstance(self.rounds, tuple) or not 1 <= len(self.rounds) <= 100 or sum(self.parts) != 1:
            raise ParameterError(f"rounds must be a tuple of 1 to 100 shares that sum to 1, got {self.rounds!r}")

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """The shares, exactly."""
        return tuple(positive(share, "rounds") for share in self.rounds)


def takes_field(loss: Loss) -> bool:
    """Whether it is a convex loss of this package, of not too many coordinates: an exponential mean's is not convex."""
    if not isinstance(loss, SHIPPED) or (isinstance(loss, MeanLoss) and loss.sd is None):
        return False
    return len(loss.names) - len(loss.flat_directions) <= _MOST_COORDINATES


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFit:
    """A fit that is ready to run, in public facts alone: all that can be refused has been.

    ``loss`` is at the levels that are measured, and ``wanted`` are those asked for.
    """

    loss: ShippedLoss
    wanted: tuple[float, ...] | None
    shares: list[Fraction]
    rounds: tuple[Fraction, ...]
    guarantee: Guarantee

    @classmethod
    def planned(cls, records: Records, loss: Loss, *, guarantee: Guarantee, settings: FieldPlan) -> Self:
        """Refuse, by shapes and public facts, what cannot be fitted."""
        measured_at = check_records(records, _at_knots(loss))
        if not takes_field(measured_at):
            raise ParameterError(
                f"method 'field' takes convex losses of at most {_MOST_COORDINATES} coordinates, and no exponential "
                f"mean, got a {type(loss).__name__} of {len(loss.names)}: method 'sandwich' takes it"
            )
        shares = shares_paid(settings.newton, records, measured_at, guarantee)
        return cls(loss=measured_at, wanted=loss.levels, shares=shares, rounds=settings.parts, guarantee=guarantee)

    def run(self, records: Records, bits: BitSource) -> tuple[FieldPosterior, Event]:
        """The posterior, and what ran."""
        people = People(records=records, loss=self.loss, bits=bits)
        with np.errstate(all="ignore"):
            fit = _Fit(people=people, wanted=self.wanted, guarantee=self.guarantee)
            posterior = fit.posterior(self.shares, self.rounds)
        return posterior, ComposedGaussianEvent(parts=tuple(people.events))


def _at_knots(loss: Loss) -> Loss:
    """The loss at few of its levels, evenly over normal quantiles, the first and the last among them."""
    if not isinstance(loss, QuantileLoss) or len(loss.levels) <= _KNOTS:
        return loss
    normal = ndtri(loss.levels)
    wanted = np.linspace(normal[0], normal[-1], _KNOTS)
    chosen = np.unique(np.abs(normal - wanted[:, None]).argmin(axis=1))
    return replace(loss, levels=tuple(loss.levels[i] for i in chosen), level_weights=())


@dataclass(slots=True, kw_only=True, eq=False)
class _Fit:
    """The releases of one fit, in units of the field as soon as these are known."""

    people: People
    wanted: tuple[float, ...] | None
    guarantee: Guarantee
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))  # public places, always the same
    centre: Floats = field(init=False)
    length: float = field(init=False)  # of the field: v = 1 is so much in the frame
    unit: float = field(init=False)  # of gradients in the frame
    near: list[Floats] = field(default_factory=list)  # places where gradients were measured, of each knot

    def posterior(self, shares: list[Fraction], rounds: tuple[Fraction, ...]) -> FieldPosterior:
        people = self.people
        loss = people.loss
        quantiles = loss if isinstance(loss, QuantileLoss) else None
        people.find_frame(shares[:2])
        whole = people.frame
        # Budgets must not look at outcomes: as many places whatever is left out.
        half = math.ceil(max(_LEAST_POINTS, _POINTS * (whole.shape[1] + 1)) / (2 if len(people.levels) == 1 else 4))
        people.frame = whole[:, ~people.weak]
        before, _ = find_pilot(people, shares[2:-4])
        of_curvature, of_middle, of_scores, of_rounds = shares[-4:]
        first = of_curvature * (1 if quantiles else FIRST)
        people.frame = whole
        bends, bend_sds = people.curvature(before, first, majorising=False)
        bends, told = people.told(bends, bend_sds)
        cross, bends = bends[:, :told, told:], bends[:, :told, :told]
        hidden, people.frame = people.frame[:, told:], people.frame[:, :told]
        gradient, noise = people.gradient(before, of_middle)
        place = stepped(before, gradient, bends, bend_sds, noise=noise, people=people)
        shapes = at_least(bends, LEAST_BEND * bend_sds)
        r = people.frame.shape[1]
        curvature = [float(np.trace(shape)) / r for shape in shapes]
        lengths = [
            loss.natural_length(theta, bend, level)
            for theta, bend, level in zip(before, curvature, people.levels, strict=True)
        ]
        length, bend = float(np.median(lengths)), float(np.mean(curvature))
        self.centre, self.length, self.unit = place.mean(axis=0), length, bend * length
        tilt, tilt_sd = np.zeros(r), 0.0
        if quantiles:
            share = _share_of_tilt(quantiles.levels)
            tilt, tilt_sd = people.covariates(of_rounds * share)
            of_rounds *= 1 - share
        places = self.coordinates(place)
        posterior = FieldPosterior(
            names=loss.names,
            lower=loss.lower,
            upper=loss.upper,
            levels=self.wanted,
            knots=loss.levels or (0.0,),
            people=people.count,
            unit=self.unit,
            frame=people.frame * length,
            hidden=hidden * length,
            cross=cross / bend,
            centre=self.centre,
            measured=Measurements(
                points=np.zeros((0, r)),
                slopes=np.zeros((0, r)),
                slope_sds=np.zeros(0),
                bend_points=self.coordinates(before),
                bends=bends / bend,
                bend_sds=bend_sds / bend,
                blur=_BLUR * (quantiles.bandwidth / length) ** 2 if quantiles else 0.0,
                middle=shapes.mean(axis=0) / bend,
                spread=_SPREAD_OF_QUANTILES if quantiles else _SPREAD,
            ),
            places=places,
            radii=np.ones(len(places)),
            scores=np.diag(self._score_variances() * (1 if quantiles else r)) / self.unit**2,
            scores_sd=0.0,
            scores_bound=math.inf,
            tilt=tilt / self.unit,
            tilt_sd=tilt_sd / self.unit,
            guarantee=self.guarantee,
            secure=is_secure(people.bits),
        )
        offsets = self._first_offsets(shapes, place - before, noise, half)
        for index, part in enumerate(rounds):
            points = places[:, None] + np.concatenate([offsets, -offsets], axis=1)
            posterior = self._measured(posterior, points, of_rounds * part)
            if index and index + 1 == len(rounds):
                break  # scores and curvature were released before the last round, or after the only one
            draws = posterior.found(_LOOKED_AT, posterior.knots, self.rng)
            found, beyond = draws.places, draws.beyond
            places = np.median(found, axis=1)
            chosen = self.rng.choice(_LOOKED_AT, offsets.shape[1], replace=offsets.shape[1] > _LOOKED_AT)
            far = beyond.mean(axis=1) > _EDGE
            offsets = np.where(far[:, None, None], offsets, _WIDER * (found - places[:, None])[:, chosen])
            if index + 2 >= len(rounds):
                posterior = self._scored(posterior, places, of_scores, of_curvature * (1 - FIRST))
        return posterior

    def coordinates(self, place: Floats) -> Floats:
        """Of the field, of a parameter, ``(..., d)`` to ``(..., r)``."""
        return np.asarray((place - self.centre) @ np.linalg.pinv(self.people.frame).T / self.length)

    def parameter(self, points: Floats) -> Floats:
        """The inverse, within the box."""
        loss = self.people.loss
        return np.clip(self.centre + self.length * points @ self.people.frame.T, loss.lower, loss.upper)

    def _first_offsets(self, shapes: Floats, step: Floats, noise: float, count: int) -> Floats:
        """As far as the Newton step may be off, about, by its noise or by half of its length: ``(K, count, r)``."""
        r = shapes.shape[-1]
        steps = step @ np.linalg.pinv(self.people.frame).T / self.length
        found = []
        for shape, moved, variance in zip(shapes, steps, self._score_variances(), strict=True):
            inverse = np.linalg.inv(shape)
            spread = inverse * math.sqrt(variance / self.people.count + noise**2) / self.length
            factor = np.asarray(
                np.linalg.qr(np.concatenate([spread, moved[None] / 2]), mode="r")
            ).T  # of their squares, added up
            ways = self.rng.standard_normal((count, r))
            ways *= math.sqrt(r) / np.linalg.norm(ways, axis=1, keepdims=True)
            found.append(_WIDE * ways @ factor.T)
        return np.array(found)

    def _score_variances(self) -> list[float]:
        """A guess of that of each coordinate of a score, at each knot, before it is measured."""
        if isinstance(self.people.loss, QuantileLoss):
            return [level * (1 - level) for level in self.people.loss.levels]
        return [self.people.gradient_bound**2 / 4 / self.people.frame.shape[1]]

    def _measured(self, posterior: FieldPosterior, points: Floats, mu_squared: Fraction) -> FieldPosterior:
        """Gradients at places, ``(K, m, r)``, each with the same share."""
        knots, each, r = points.shape
        share = mu_squared / (knots * each)
        thetas = self.parameter(points.reshape(-1, r))
        family = posterior.levels is not None
        of_theta = [self.people.below(t, share) if family else self.people.gradient(t[None], share) for t in thetas]
        slopes = np.array([slope for slope, _ in of_theta]) / self.unit
        rough = _ROUGH * math.sqrt(max(self._score_variances()) / self.people.count)
        sds = np.array([math.hypot(sd, rough) for _, sd in of_theta]) / self.unit
        places = self.coordinates(thetas)
        self.near = [
            np.concatenate([before, now])
            for before, now in zip(self.near or [np.zeros((0, r))] * knots, places.reshape(points.shape), strict=True)
        ]
        centres = points.mean(axis=1)
        radii = [np.linalg.norm(near - centre, axis=1).max() for near, centre in zip(self.near, centres, strict=True)]
        return replace(
            posterior,
            measured=posterior.measured.joined(places, slopes, sds),
            places=centres,
            radii=_REGION * np.maximum(radii, 1e-12),
        )

    def _scored(
        self, posterior: FieldPosterior, places: Floats, of_scores: Fraction, of_curvature: Fraction
    ) -> FieldPosterior:
        """The scores' second moment at the places; of a single rule, curvature too."""
        people, measured = self.people, posterior.measured
        thetas = self.parameter(places)
        if posterior.levels is not None:
            scores, sd = people.slopes(thetas, of_scores)
            bound = people.slopes_bound
        else:
            scores, sd = people.scores(thetas, of_scores)
            bound = people.gradient_bound**2
            bends, bend_sds = people.curvature(thetas, of_curvature, majorising=False)
            bend = self.unit / self.length
            measured = replace(
                measured,
                bend_points=np.concatenate([measured.bend_points, self.coordinates(thetas)]),
                bends=np.concatenate([measured.bends, bends / bend]),
                bend_sds=np.concatenate([measured.bend_sds, bend_sds / bend]),
            )
        squared = self.unit**2
        return replace(
            posterior, measured=measured, scores=scores / squared, scores_sd=sd / squared, scores_bound=bound / squared
        )


def _share_of_tilt(levels: tuple[float, ...]) -> Fraction:
    """Of the rounds, for the mean covariates: what makes the noise of both least, were the levels apart.

    With a part p for K levels together a gradient's noise is ``sqrt(K / p) / 2``, that of the tilt of level tau
    ``|tau - 1/2| / sqrt(1 - p)``, in units of the largest covariates.
    """
    off = math.sqrt(sum((level - 0.5) ** 2 for level in levels) / len(levels))
    return Fraction(max(round(1000 * off / (off + math.sqrt(len(levels)) / 2)), 2), 1000)

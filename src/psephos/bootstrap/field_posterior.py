"""A private posterior of any shape: the score bootstrap over a released gradient field.

Where the mean loss L is, draws of the Bayesian bootstrap solve ``grad L(theta) + xi = 0``, xi the mean of the scores
under random weights: normal, with covariance V / n (the score bootstrap; Kline and Santos 2012). What was released is
noisy values of grad L at many places (:mod:`psephos.bootstrap.gradient_field`) and of V. A draw takes

* a field from the normal law that the noisy values leave of it, given that a convex loss does not bend down,
* V_b = V with fresh noise, and xi from N(0, V_b / chi^2_n) (:mod:`psephos.bootstrap.normal_posterior`),

and is where ``psi(theta) + xi'theta`` is lowest. So the privacy noise is counted where it matters, and the shape is
that of the loss. Where the field was not measured a draw is anywhere up to the end of the parameter's box, and so is
every draw if no field of the prior is like what was released, as where the search for the minimum went astray, or if
draws spread over more lengths than such a field is good for.

**Levels.** The gradient of a quantile's loss at level tau is ``E x (B - 1/2) - (tau - 1/2) E x``, with B the (smoothed)
indicator that a response lies below the line: one field for all levels, each a known tilt of it. xi at the levels where
scores were measured has their covariance; between two of them it is what a Brownian bridge is, and so are exact
quantile scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from psephos._check import check_integer, check_real
from psephos.bootstrap.archive import (
    Saved,
    archive_bytes,
    box_from_header,
    guarantee_from_header,
    guarantee_to_header,
    read_archive,
    reason_from_header,
)
from psephos.bootstrap.box import anywhere, chord
from psephos.bootstrap.draws import PosteriorDraws, chosen_levels
from psephos.bootstrap.gradient_field import (
    LEAST_BEND,
    FieldFit,
    Measurements,
    at_least,
    fitted_fields,
    lowest_places,
)
from psephos.bootstrap.loss_protocol import check_names
from psephos.bootstrap.normal_posterior import WORLDS, hardly_known_of, score_errors
from psephos.bootstrap.rearrangement import CovariateBox
from psephos.errors import ParameterError
from psephos.privacy.guarantee import Guarantee

__all__ = ["FieldPosterior"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_SCHEMA = "psephos.field-posterior/1"
_FEW = 0.25  # of the draws at a level
_FAR = 2.0  # natural lengths that draws of a coordinate may spread over, one standard deviation
_CLEAR = 3.0  # standard deviations of what is known of a field's curvature that it is above where it bends
_LEAST_PART = 0.1  # of the least curvature that is told: that of a draw at least
_MEASURED = ("points", "slopes", "slope_sds", "bend_points", "bends", "bend_sds", "middle")
_ARRAYS = ("frame", "hidden", "cross", "centre", "places", "radii", "scores", "tilt")
_NUMBERS = ("unit", "scores_sd", "scores_bound", "tilt_sd")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldPosterior(Saved):
    """What was released, and draws of the parameter that follow from it.

    Everything is in coordinates v of the field, ``theta = centre + frame v``, and in its units.

    Attributes
    ----------
    names, lower, upper
        Of the d coordinates: names and the box of the parameter.
    levels
        Of a family: the levels that were asked for, or ``None``.
    knots
        Levels at which scores were measured, increasing, (0,) for a single rule: K of them.
    people
        n.
    frame, centre
        ``(d, r)``, ``(d,)``.
    hidden, cross
        ``(d, u)``: directions in which covariates are known to vary hardly, beside those of the frame; ``(K, r, u)``:
        the curvature between these and those, released at the first of ``measured``'s places with the noise of that.
    unit
        What a gradient was divided by.
    measured
        Noisy gradients and Hessians.
    places, radii
        ``(K, r)``, ``(K,)``: balls in which gradients were measured.
    scores, scores_sd, scores_bound
        V, ``(r, r)``; with levels ``(K, K)``, the mean of products of the scores' slopes, each coordinate having the
        same. The noise's standard deviation on its diagonal, and the largest trace of one person's part.
    tilt, tilt_sd
        ``(r,)``: the mean covariates, of which a level tau has ``1/2 - tau`` as its tilt, and their noise.
    guarantee, secure
        What is promised, and whether every secret bit came from the operating system.
    reason
        Why this method was taken, where it was not asked for.
    covariate_box
        Ranges of covariates in which draws at several levels do not cross.
    """

    method: ClassVar[str] = "field"

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[float, ...] | None
    knots: tuple[float, ...]
    people: int
    unit: float
    frame: Floats
    hidden: Floats
    cross: Floats
    centre: Floats
    measured: Measurements
    places: Floats
    radii: Floats
    scores: Floats
    scores_sd: float
    scores_bound: float
    tilt: Floats
    tilt_sd: float
    guarantee: Guarantee
    secure: bool
    reason: str | None = None
    covariate_box: CovariateBox = ()

    def sample(
        self,
        draws: int,
        *,
        levels: Sequence[float] | None = None,
        rng: np.random.Generator | None = None,
        rearranged: bool = True,
    ) -> PosteriorDraws:
        """Draws. Free of privacy cost.

        Parameters
        ----------
        draws
            How many, >= 1.
        levels
            Of a family: increasing, within those that were asked for; these if absent. A draw is one field and one
            process of scores at all levels.
        rng
            A fresh one if absent. Draws are public, so this needs no secret.
        rearranged
            Whether lines at several levels are kept from crossing in ``covariate_box``: ``False`` gives raw draws.
        """
        count = check_integer(draws, "draws", low=1)
        generator = np.random.default_rng() if rng is None else rng
        asked = chosen_levels(levels, self.levels, within=self.knots)
        chosen = asked or self.knots
        values = self.parameter(self.found(count, chosen, generator), chosen, generator)
        drawn = PosteriorDraws(values=values[0] if asked is None else values, names=self.names, levels=asked)
        return drawn.rearranged(self.covariate_box) if rearranged else drawn

    def parameter(self, found: Found, levels: tuple[float, ...], rng: np.random.Generator) -> Floats:
        """Draws of :meth:`found` as parameters in the box: ``(L, count, d)``.

        Where nothing was measured, anywhere from the ball to the end of the box; of a level that is lost, anywhere in
        the box; and along hidden directions anywhere that the box allows.
        """
        width = np.maximum(np.array(self.upper) - np.array(self.lower), 1e-300)
        below, above = (np.array(self.lower) - self.centre) / width, (np.array(self.upper) - self.centre) / width
        steps = np.clip(found.places @ self.frame.T / width, below, above)
        away = np.einsum("lij,lnj->lni", found.told, found.places - self.balls(levels)[0][:, None])
        beyond = found.beyond & (np.linalg.norm(away, axis=2) > self.balls(levels)[1][:, None] / 2)
        if beyond.any():
            ways = away[beyond] @ self.frame.T / width
            ways /= np.maximum(np.abs(ways).max(axis=1, keepdims=True), 1e-300)
            end = chord(steps[beyond], ways, below, above)[1]
            steps[beyond] += ways * (end * np.minimum(rng.uniform(0, 1.5, len(end)), 1))[:, None]
        for level in np.flatnonzero(found.lost).tolist():
            steps[level] = anywhere(steps[level], self.frame / width[:, None], below, above, rng)
        hidden = self._hidden_ways(steps.shape[1], levels, rng)
        for level, ways in enumerate(found.ways):
            if ways.any() or hidden.shape[-1]:
                worlds = np.arange(steps.shape[1]) % len(ways)
                directions = np.concatenate([(self.frame @ ways)[worlds], hidden[level]], axis=-1)
                steps[level] = anywhere(steps[level], directions / width[:, None], below, above, rng)
        return np.asarray(np.clip(self.centre + width * steps, self.lower, self.upper))

    def _hidden_ways(self, size: int, levels: tuple[float, ...], rng: np.random.Generator) -> Floats:
        """Where the lowest places go along a hidden direction: ``(L, size, d, u)``.

        A step t along it pushes the others by the curvature beside it, cross t, whose noise is put back.
        """
        knots = len(self.cross)
        bends, sds = self.measured.bends[:knots], self.measured.bend_sds[:knots]
        worlds = min(size, WORLDS)
        noise = rng.standard_normal((worlds, *self.cross.shape)) * (sds * math.sqrt(0.5))[:, None, None]
        pushed = np.linalg.solve(at_least(bends, LEAST_BEND * sds), self.cross + noise)
        ways = np.moveaxis(self.hidden - self.frame @ pushed, 0, 1)  # (knots, worlds, d, u)
        found = _between(ways, self.knots, levels) if self.levels is not None else ways
        return np.asarray(np.tile(found, (1, -(-size // worlds), 1, 1))[:, :size])

    def hidden_directions(self) -> Floats:
        """As in :meth:`psephos.bootstrap.NormalPosterior.hidden_directions`: ``(d, u)``."""
        told = self.found(4, self.knots, np.random.default_rng(0)).told
        values, vectors = np.linalg.eigh(told.mean(axis=0))
        rest = vectors[:, values < 1 - 1e-6] if (values > 1e-6).any() else vectors[:, :0]
        return np.concatenate([self.hidden, self.frame @ rest], axis=1)

    def hardly_known(self) -> tuple[str, ...]:
        """Coordinates of which the data say little, as in :meth:`psephos.bootstrap.NormalPosterior.hardly_known`."""
        levels = None if self.levels is None else self.knots
        draws = self.sample(4 * WORLDS, levels=levels, rng=np.random.default_rng(0), rearranged=False)
        return hardly_known_of(draws, self.lower, self.upper)

    def found(self, count: int, levels: tuple[float, ...], rng: np.random.Generator) -> Found:
        """Draws in coordinates of the field."""
        fits, weights = fitted_fields(self.measured)
        parts = [
            self._of_fit(fit, size, levels, rng)
            for fit, size in zip(fits, rng.multinomial(count, weights), strict=True)
            if size
        ]
        places, beyond, hollow = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        order, possible = rng.permutation(count), np.flatnonzero(~hollow.any(axis=0))
        bends = fits[int(np.argmax(weights))].bends(self.balls(levels)[0], WORLDS, rng)
        flats = [_flat(bend) for bend in bends]
        told, ways = (np.array(part) for part in zip(*flats, strict=True))
        # Some tens of cosines are as good as a field over a few lengths, and only if they are like what was released.
        spread = np.linalg.norm(np.einsum("lij,lnj->lni", told, places - places.mean(axis=1, keepdims=True)), axis=2)
        lost = (spread.std(axis=1) > _FAR) | (not any(fit.fits for fit in fits))
        if len(possible) and (beyond[~lost].mean(axis=1) <= _FEW).all():
            # Given that losses are convex: others take the place of the few fields that cannot be. Where many draws
            # leave what was measured, it bends too little to tell.
            instead = np.where(hollow.any(axis=0), rng.choice(possible, count), np.arange(count))
            order = instead[order]
        return Found(places=places[:, order], beyond=beyond[:, order], lost=lost, told=told, ways=ways)

    def _of_fit(
        self, fit: FieldFit, size: int, levels: tuple[float, ...], rng: np.random.Generator
    ) -> tuple[Floats, Flags, Flags]:
        coefficients = fit.coefficients(size, rng)
        tilts = self._tilts(size, levels, rng)
        centres, radii = self.balls(levels)
        places: list[Floats] = []
        beyond: list[Flags] = []
        hollow: list[Flags] = []
        for level in range(len(levels)):
            starts = np.tile(centres[level], (size, 1))
            if places:
                starts = places[-1] + (centres[level] - centres[level - 1])
            found, edge, down = lowest_places(
                fit, coefficients, tilts[level], starts, centre=centres[level], radius=float(radii[level])
            )
            places.append(found)
            beyond.append(edge)
            hollow.append(down)
        return np.array(places), np.array(beyond), np.array(hollow)

    def _tilts(self, size: int, levels: tuple[float, ...], rng: np.random.Generator) -> Floats:
        """xi, and the known tilt of each level: ``(L, size, r)``."""
        r, knots = self.measured.points.shape[1], len(self.knots)
        family = self.levels is not None
        worlds = min(size, WORLDS)
        each = -(-size // worlds)
        errors = score_errors(
            self.scores,
            noise_sd=self.scores_sd,
            bound=self.scores_bound,
            freedom=max(self.people - r, 1),
            more_sd=0.0,
            shape=(worlds, each * (r if family else 1)),
            rng=rng,
        )
        if not family:
            return errors.reshape(1, worlds * each, r)[:, :size]
        at_knots = np.moveaxis(errors.reshape(worlds * each, r, knots)[:size], 2, 0)
        xi = _between(at_knots, self.knots, levels)
        xi = xi + self._bridges(size, levels, rng) / (self.unit * math.sqrt(self.people))
        mean = self.tilt + self.tilt_sd * rng.standard_normal((size, r))
        return np.asarray(xi + (0.5 - np.array(levels))[:, None, None] * mean)

    def _bridges(self, size: int, levels: tuple[float, ...], rng: np.random.Generator) -> Floats:
        """Brownian bridges that are 0 at the knots, ``(L, size, r)``."""
        times = np.unique(np.concatenate([self.knots, levels]))
        gaps = np.diff(times, prepend=times[0])
        steps = rng.standard_normal((len(times), size, self.measured.points.shape[1]))
        paths = np.cumsum(steps * np.sqrt(gaps)[:, None, None], axis=0)
        at_knots = paths[np.searchsorted(times, self.knots)]
        return np.asarray(paths[np.searchsorted(times, levels)] - _between(at_knots, self.knots, levels))

    def balls(self, levels: tuple[float, ...]) -> tuple[Floats, Floats]:
        """Centres, ``(L, r)``, and radii, ``(L,)``, where gradients were measured: straight in normal quantiles."""
        knots, at = (self.knots, levels) if self.levels is None else (ndtri(self.knots), ndtri(levels))
        return _between(self.places, knots, at), _between(self.radii, knots, at)

    def to_bytes(self) -> bytes:
        """The posterior as the bytes of an ``.npz`` archive (:mod:`psephos.bootstrap.archive`)."""
        header = {
            "schema": _SCHEMA,
            "names": self.names,
            "lower": self.lower,
            "upper": self.upper,
            "levels": self.levels,
            "knots": self.knots,
            "people": self.people,
            "blur": self.measured.blur,
            "spread": self.measured.spread,
            **{name: getattr(self, name) for name in _NUMBERS},
            "guarantee": guarantee_to_header(self.guarantee),
            "secure": self.secure,
            "reason": self.reason,
            "covariate_box": self.covariate_box,
        }
        arrays = {name: getattr(self.measured, name) for name in _MEASURED}
        return archive_bytes(header, arrays | {name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def _read(cls, data: bytes) -> FieldPosterior:
        header, arrays = read_archive(data, _SCHEMA)
        numbers: Any = {name: check_real(header[name], name, low=0, high=1e300) for name in _NUMBERS}
        parts: Any = {name: arrays[name] for name in _ARRAYS}
        return cls(
            names=check_names(header["names"], "names"),
            lower=tuple(header["lower"]),
            upper=tuple(header["upper"]),
            levels=None if header["levels"] is None else tuple(header["levels"]),
            knots=tuple(header["knots"]),
            people=check_integer(header["people"], "people", low=1),
            measured=Measurements(
                blur=check_real(header["blur"], "blur", low=0, high=1e300),
                spread=check_real(header["spread"], "spread", low=0, high=1e3),
                **{name: arrays[name] for name in _MEASURED},
            ),
            guarantee=guarantee_from_header(header["guarantee"]),
            secure=header["secure"],
            reason=reason_from_header(header["reason"]),
            covariate_box=box_from_header(header["covariate_box"]),
            **numbers,
            **parts,
        )

    def _check(self) -> None:
        """Refuse parts that do not belong together."""
        d, r, u, knots = len(self.names), self.frame.shape[-1], self.hidden.shape[-1], len(self.knots)
        if self.levels is None and knots != 1:
            raise ParameterError(f"not a saved posterior: a single rule has one knot, got {self.knots!r}")
        first, last = self.knots[0], self.knots[-1]
        for levels in (self.knots, self.knots if self.levels is None else self.levels):
            if not levels or not np.all(np.diff(levels) > 0) or not first <= levels[0] <= levels[-1] <= last:
                raise ParameterError(f"not a saved posterior: levels must increase within the knots, got {levels!r}")
        count, bends = len(self.measured.points), len(self.measured.bends)
        size = r if self.levels is None else knots
        shapes: dict[str, tuple[int, ...]] = {
            "points": (count, r),
            "slopes": (count, r),
            "slope_sds": (count,),
            "bend_points": (bends, r),
            "bends": (bends, r, r),
            "bend_sds": (bends,),
            "middle": (r, r),
            "frame": (d, r),
            "hidden": (d, u),
            "cross": (knots, r, u),
            "centre": (d,),
            "places": (knots, r),
            "radii": (knots,),
            "scores": (size, size),
            "tilt": (r,),
        }
        for name, shape in shapes.items():
            array = getattr(self.measured if name in _MEASURED else self, name)
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ParameterError(f"not a saved posterior: {name} must be finite doubles of shape {shape}")
        if not all((sds > 0).all() for sds in (self.measured.slope_sds, self.measured.bend_sds, self.radii)):
            raise ParameterError("not a saved posterior: slope_sds, bend_sds and radii must be > 0")
        if u and 1 < bends < knots:
            raise ParameterError("not a saved posterior: bends must be one a knot, or one for all")
        if not self.unit:
            raise ParameterError("not a saved posterior: unit must be > 0")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Draws in coordinates v of the field, at L levels.

    Attributes
    ----------
    places, beyond
        ``(L, count, r)``, and which ended at the edge of what was measured, ``(L, count)``.
    lost
        ``(L,)``: levels of which nothing is known.
    told
        ``(L, r, r)``: projections on the directions in which the field is known to bend.
    ways
        ``(L, worlds, r, r)``: where the lowest place goes along the others, in some draws of the field; 0 for those
        that are told.
    """

    places: Floats
    beyond: Flags
    lost: Flags
    told: Floats
    ways: Floats


def _flat(bends: Floats) -> tuple[Floats, Floats]:
    """``told`` and ``ways`` of :class:`Found`, from draws of a Hessian, ``(worlds, r, r)``."""
    values, vectors = np.linalg.eigh(bends.mean(axis=0))
    turned = vectors.T @ bends @ vectors
    flat = values <= _CLEAR * np.diagonal(turned, axis1=1, axis2=2).std(axis=0)
    told = vectors[:, ~flat]
    ways = np.zeros(turned.shape)
    if flat.any():
        ways[:, :, flat] = vectors[:, flat]
        if not flat.all():
            rest = turned[:, ~flat][..., ~flat]
            least = np.full(len(rest), _LEAST_PART * values[~flat].min())
            pushed = np.linalg.solve(at_least(rest, least), turned[:, ~flat][..., flat])
            ways[:, :, flat] -= told @ pushed
    return told @ told.T, ways


def _between(values: Floats, knots: ArrayLike, at: ArrayLike) -> Floats:
    """Values at the knots, interpolated along their first axis."""
    known, wanted = np.asarray(knots), np.asarray(at)
    if len(known) == 1:
        return np.repeat(values, len(wanted), axis=0)
    right = np.clip(np.searchsorted(known, wanted), 1, len(known) - 1)
    part = (wanted - known[right - 1]) / (known[right] - known[right - 1])
    part = part.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(values[right - 1] * (1 - part) + values[right] * part)

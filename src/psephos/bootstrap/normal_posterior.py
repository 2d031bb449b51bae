"""The posterior of an M-estimate from three noisy sums: a gradient, curvature and squared scores at one place.

Near the minimiser an M-estimate is a Newton step, ``theta = theta0 - H^-1 g``, from a place theta0 nearby. Here

    g~ = mean gradient at theta0 + N(0, s^2 I),   H~ = mean curvature + noise,   V~ = mean of g_i g_i' + noise

were released, and the law of each noise is public. A draw puts all that is not known back in:

    theta_b = theta0 - H_b^-1 (g~ + e_b),   e_b ~ N(0, V_b / chi^2_nu + s^2 I),   H_b = H~ + fresh noise,
    V_b = V~ + fresh noise, made positive semidefinite,   nu = n - r,  r the coordinates.

That is the posterior under flat priors on the three. Where noise on the curvature is small beside it, draws are normal
with the covariance ``H^-1 (V / n + s^2 I) H^-1``: that of the sandwich estimator (Huber 1967; White 1982), and the
known noise. Where it is not, a direction of theta is hardly known: in some H_b it bends by less than the noise, and
there a draw may be anywhere that the parameter's box allows, along that direction alone. So intervals widen rather than
lie, and those of what the data do tell do not pay for the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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
from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.loss_protocol import check_names
from psephos.bootstrap.rearrangement import CovariateBox
from psephos.errors import ParameterError
from psephos.privacy.guarantee import Guarantee

__all__ = ["WORLDS", "NormalPosterior", "hardly_known_of", "score_errors", "symmetric_noise"]

Floats = NDArray[np.float64]

_SCHEMA = "psephos.normal-posterior/1"
_ARRAYS = ("frame", "place", "gradient", "curvature", "curvature_sd", "scores")
#: Draws of (curvature, scores' covariance); draws of theta go through them in turn.
WORLDS = 256
_FLAT = 1e-9  # of a matrix's largest eigenvalue: what bends less does not bend
_LONG = 0.5  # of the box, in one coordinate: a step that ends where the box does
_HIDDEN = 2.0  # standard deviations of the noise of a curvature in one direction: nor does what bends less


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalPosterior(Saved):
    """What was released, and draws of the parameter that follow from it.

    Attributes
    ----------
    names, lower, upper
        Of the d coordinates: names and the box of the parameter.
    levels
        L levels, or ``None`` for a single rule (L = 1 below).
    people
        n.
    logs
        Positions of coordinates, above 0, that move on a logarithmic scale: the step y in theta_j makes it
        ``theta0_j exp(y / theta0_j)``.
    frame
        ``(d, r)``: the coordinates z of all that follows, ``theta = theta0 + frame z``; the loss changes in no others.
    place
        ``(L, d)``: theta0.
    gradient, gradient_sd
        ``(L r,)``: g~, level by level; s.
    curvature, curvature_sd
        ``(L, r, r)``: H~; ``(L,)``: standard deviations of the noise on its diagonal (beside it 1/sqrt(2) of that).
    scores, scores_sd
        The same of V~, ``(L r, L r)``.
    scores_bound
        The largest trace that one person's part of V~ can have.
    guarantee, secure
        What is promised, and whether every secret bit came from the operating system.
    reason
        Why this method was taken, where it was not asked for.
    covariate_box
        Ranges of covariates in which draws at several levels do not cross.
    """

    method: ClassVar[str] = "sandwich"

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[float, ...] | None
    logs: tuple[int, ...]
    people: int
    frame: Floats
    place: Floats
    gradient: Floats
    gradient_sd: float
    curvature: Floats
    curvature_sd: Floats
    scores: Floats
    scores_sd: float
    scores_bound: float
    guarantee: Guarantee
    secure: bool
    reason: str | None = None
    covariate_box: CovariateBox = ()

    def estimate(self) -> Floats:
        """The Newton step from the place, within the box: ``(d,)``, or ``(L, d)`` with levels.

        Directions in which the released curvature bends by less than its noise stay where the place is.
        """
        found = self._placed(self.curvature[None], self.gradient.reshape(1, 1, len(self.place), -1), None)[:, 0]
        return found if self.levels is not None else found[0]

    def sample(self, draws: int, *, rng: np.random.Generator | None = None, rearranged: bool = True) -> PosteriorDraws:
        """Draws. Free of privacy cost; independent but for 256 curvatures and covariances that they go through.

        Parameters
        ----------
        draws
            How many, >= 1.
        rng
            A fresh one if absent. Draws are public, so this needs no secret.
        rearranged
            Whether lines at several levels are kept from crossing in ``covariate_box``: ``False`` gives raw draws.
        """
        count = check_integer(draws, "draws", low=1)
        generator = np.random.default_rng() if rng is None else rng
        worlds = min(count, WORLDS)
        places, r, _ = self.curvature.shape
        errors = score_errors(
            self.scores,
            noise_sd=self.scores_sd,
            bound=self.scores_bound,
            freedom=max(self.people - r, 1),
            more_sd=self.gradient_sd,
            shape=(worlds, -(-count // worlds)),
            rng=generator,
        )
        noise = self.curvature_sd[:, None, None] * symmetric_noise((worlds, places, r), generator)
        gradients = (self.gradient + errors).reshape(worlds, -1, places, r)
        values = self._placed(self.curvature + noise, gradients, generator)[:, :count]
        found = PosteriorDraws(
            values=values if self.levels is not None else values[0], names=self.names, levels=self.levels
        )
        return found.rearranged(self.covariate_box) if rearranged else found

    def hardly_known(self) -> tuple[str, ...]:
        """Coordinates of which the data say little: a 95 % interval takes half of their box, or ends where it ends.

        An interval at an end of the box may also tell that the truth lies beyond it. With levels, at any of them.

        >>> from psephos.bootstrap import MeanLoss, private_posterior
        >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
        >>> for people in (20, 20_000):
        ...     records = loss.records(np.full(people, 0.5))
        ...     print(private_posterior(records, loss, epsilon=1, delta="1e-5").value.hardly_known())
        ('mean',)
        ()
        """
        draws = self.sample(4 * WORLDS, rng=np.random.default_rng(0), rearranged=False)
        return hardly_known_of(draws, self.lower, self.upper)

    def hidden_directions(self) -> Floats:
        """Directions of the parameter that noise hides beside others that it does not, at some level: ``(d, u)``.

        Along them draws are anywhere that the box allows; a combination c'theta with ``c'n = 0`` for all of them, n, is
        known as well as if there were none.
        """
        found = [np.zeros((len(self.names), 0))]
        for curvature, least in zip(self.curvature, self._hidden(), strict=True):
            values, vectors = np.linalg.eigh(curvature)
            if (values > least).any():
                found.append(self.frame @ vectors[:, values <= least])
        return np.concatenate(found, axis=1)

    def _placed(self, curvature: Floats, gradients: Floats, rng: np.random.Generator | None) -> Floats:
        """Newton steps from the place, within the box; anywhere in it, or not at all, where noise hides the curvature.

        ``(worlds, L, r, r)`` and ``(worlds, each, L, r)`` to ``(L, worlds * each, d)``.
        """
        logs, place = list(self.logs), self.place
        low, high = (np.array(end) - place for end in (self.lower, self.upper))
        for ends, bounds in ((low, self.lower), (high, self.upper)):  # of the steps y
            ends[:, logs] = place[:, logs] * np.log(np.array(bounds)[logs] / place[:, logs])
        steps = self._steps(curvature, gradients, self.frame, low, high, rng)
        columns = self.frame[logs].any(axis=0)
        if columns.any() and not columns.all():  # beside a scale that is held at the end of its box
            cut = np.clip(steps[..., logs], low[:, logs], high[:, logs])
            held = (cut != steps[..., logs]).any(axis=-1)
            if held.any():
                rest, scales = np.flatnonzero(~columns), np.flatnonzero(columns)
                moved = cut @ np.linalg.inv(self.frame[logs][:, scales]).T
                beside = curvature[..., rest[:, None], scales]
                pushed = gradients[..., rest] - np.einsum("wlij,wklj->wkli", beside, moved)
                alone = self._steps(curvature[..., rest[:, None], rest], pushed, self.frame[:, rest], low, high, rng)
                steps = np.where(held[..., None], alone, steps)
                steps[..., logs] = cut
        found = place + steps
        with np.errstate(over="ignore"):
            found[..., logs] = place[:, logs] * np.exp(steps[..., logs] / place[:, logs])
        found = np.clip(found, self.lower, self.upper)
        return np.moveaxis(found.reshape(-1, *place.shape), 0, 1)

    def _steps(
        self,
        curvature: Floats,
        gradients: Floats,
        frame: Floats,
        low: Floats,
        high: Floats,
        rng: np.random.Generator | None,
    ) -> Floats:
        """Newton steps y, ``(worlds, each, L, d)``, that keep to ``low <= y <= high`` where they are long.

        A step along an eigenvector that would take half of the box ends where the box does, and moves no coordinate
        beside its direction; those that bend most come first. Where nothing bends the last step is along a random way
        among such directions, uniform over twice what the box allows and cut to that: a quarter of them is at either
        end.
        """
        values, vectors = np.linalg.eigh(curvature)
        least = np.maximum(_FLAT * np.abs(values).max(axis=-1, keepdims=True), self._hidden()[:, None])
        flat = values <= least
        width = np.maximum(high - low, 1e-300)
        ways = frame @ vectors  # (worlds, L, d, r)
        parts = ways / width[..., None]  # of the box, by a step of 1
        most = np.maximum(np.abs(parts).max(axis=-2), 1e-300)
        along = -np.einsum("wlji,wklj->wkli", vectors, gradients) / np.where(flat, 1.0, values)[:, None]
        along = np.where(flat[:, None], 0.0, along)
        with np.errstate(over="ignore"):
            far = np.abs(along) * most[:, None] > _LONG
        near: Floats = np.einsum("wlij,wklj->wkli", ways, np.where(far, 0.0, along))
        loose = flat.any(axis=-1)[:, None]
        if not far.any() and (rng is None or not loose.any()):
            return near
        below, above = low / width, high / width  # from here on in parts of the box
        steps = np.clip(near / width, below, above)
        for j in np.flatnonzero(far.any(axis=(0, 1, 2)))[::-1]:
            way = (parts[..., j] / most[..., j, None])[:, None]
            with np.errstate(over="ignore"):
                step = np.clip(along[..., j] * most[:, None, :, j], *chord(steps, way, below, above))
            steps = steps + way * np.where(far[..., j], step, 0.0)[..., None]
        if rng is not None and loose.any():
            hidden = np.where(flat[..., None, :], parts / most[..., None, :], 0.0)[:, None]
            steps = np.where(loose[..., None], anywhere(steps, hidden, below, above, rng), steps)
        changed = loose | far.any(axis=-1)
        return np.asarray(np.where(changed[..., None], width * steps, near))

    def _hidden(self) -> Floats:
        """What an eigenvalue of a drawn curvature is above, where noise does not hide it: ``(L,)``.

        The largest eigenvalue of noise in m directions, of standard deviation s on the diagonal, is about s sqrt(2 m),
        and what is drawn holds twice the noise: so 2 s sqrt(m), for the largest m such that m eigenvalues that were
        released are below that. If there is none such, s.
        """
        found = []
        for values, sd in zip(np.linalg.eigvalsh(self.curvature), self.curvature_sd, strict=True):
            many = np.arange(1, len(values) + 1)
            hidden = np.flatnonzero(values <= _HIDDEN * np.sqrt(many) * sd)  # values increase
            found.append(sd * (_HIDDEN * math.sqrt(hidden[-1] + 1) if len(hidden) else 1.0))
        return np.array(found)

    def to_bytes(self) -> bytes:
        """The posterior as the bytes of an ``.npz`` archive (:mod:`psephos.bootstrap.archive`)."""
        header = {
            "schema": _SCHEMA,
            "names": self.names,
            "lower": self.lower,
            "upper": self.upper,
            "levels": self.levels,
            "logs": self.logs,
            "people": self.people,
            "gradient_sd": self.gradient_sd,
            "scores_sd": self.scores_sd,
            "scores_bound": self.scores_bound,
            "guarantee": guarantee_to_header(self.guarantee),
            "secure": self.secure,
            "reason": self.reason,
            "covariate_box": self.covariate_box,
        }
        return archive_bytes(header, {name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def _read(cls, data: bytes) -> NormalPosterior:
        header, arrays = read_archive(data, _SCHEMA)
        return cls(
            names=check_names(header["names"], "names"),
            lower=tuple(header["lower"]),
            upper=tuple(header["upper"]),
            levels=None if header["levels"] is None else tuple(header["levels"]),
            logs=tuple(check_integer(j, "logs", low=0, high=len(header["names"]) - 1) for j in header["logs"]),
            people=check_integer(header["people"], "people", low=1),
            guarantee=guarantee_from_header(header["guarantee"]),
            secure=header["secure"],
            reason=reason_from_header(header["reason"]),
            covariate_box=box_from_header(header["covariate_box"]),
            gradient_sd=check_real(header["gradient_sd"], "gradient_sd", low=0, high=1e300),
            scores_sd=check_real(header["scores_sd"], "scores_sd", low=0, high=1e300),
            scores_bound=check_real(header["scores_bound"], "scores_bound", low=0, high=1e300),
            **{name: arrays[name] for name in _ARRAYS},
        )

    def _check(self) -> None:
        """Refuse parts that do not belong together."""
        levels, d, r = len(self.levels or (1,)), len(self.names), self.frame.shape[-1]
        shapes = ((d, r), (levels, d), (levels * r,), (levels, r, r), (levels,), (levels * r, levels * r))
        for name, shape in zip(_ARRAYS, shapes, strict=True):
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ParameterError(f"not a saved posterior: {name} must be finite doubles of shape {shape}")
        if not (self.curvature_sd >= 0).all():
            raise ParameterError("not a saved posterior: curvature_sd must be >= 0")


def hardly_known_of(draws: PosteriorDraws, lower: tuple[float, ...], upper: tuple[float, ...]) -> tuple[str, ...]:
    """Coordinates whose 95 % interval takes half of their box, or ends where it ends, at any level."""
    ends = draws.intervals()
    low, high = np.array(lower), np.array(upper)
    wide = (ends[..., 1] - ends[..., 0] >= (high - low) / 2) | (ends[..., 0] <= low) | (ends[..., 1] >= high)
    return tuple(name for name, w in zip(draws.names, wide.reshape(-1, len(low)).any(axis=0), strict=True) if w)


def score_errors(
    scores: Floats,
    *,
    noise_sd: float,
    bound: float,
    freedom: int,
    more_sd: float,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> Floats:
    """Normal vectors with the covariance ``V_b / chi^2 + more_sd^2 I``, several for each V_b: ``(*shape, size)``.

    V_b is the released ``(size, size)`` mean of squared scores with fresh noise, its eigenvalues within [0, bound].
    """
    worlds, each = shape
    values, vectors = np.linalg.eigh(scores + noise_sd * symmetric_noise((worlds, len(scores)), rng))
    values = np.clip(values, 0, bound) / rng.chisquare(freedom, (worlds, 1))
    scaled = rng.standard_normal((worlds, each, len(scores))) * np.sqrt(values + more_sd**2)[:, None, :]
    return np.asarray(scaled @ np.swapaxes(vectors, -1, -2))


def symmetric_noise(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Symmetric matrices of normal noise, ``(*shape, shape[-1])``: variance 1 on the diagonal, 1/2 beside it."""
    noise = rng.standard_normal((*shape, shape[-1]))
    return np.asarray((noise + np.swapaxes(noise, -1, -2)) / 2)

"""A loss's gradient as a field over the parameter: what noisy gradients at many places say of it, and where it is zero.

The mean loss near its minimum is taken for

    psi(v) = b'v + v'Q v / 2 + sum_k w_k cos(omega_k'v + phase_k),

in r coordinates v of a unit in which the loss's shape changes (its *natural length*). b is free, Q near a curvature
that was released, and the cosines, of normal frequencies of scale 1 / length and normal weights, let the curvature
change by about half of itself over one length (Rahimi and Recht, "Random features for large-scale kernel machines",
2007). Gradients ``grad psi`` and Hessians with normal noise of known size are linear in (b, Q, w): what is known of
them is a normal law, and how likely a length makes all that was released weighs the lengths.

Nothing here reads a record: it is all post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_BEND", "FieldFit", "Measurements", "at_least", "fitted_fields", "lowest_places"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: Standard deviations of its noise that a released curvature is taken for at least.
LEAST_BEND = 2.0
_LENGTHS = (0.35, 0.7, 1.5, 3.0)  # of the field, in natural lengths
_BEND = 0.5  # how much curvature changes over a length, in units of itself
_FREE = 1e3  # standard deviation of b: in these units it is some 1 at most
_FEATURES = 60, 150, 300  # cosines: in one dimension, in a few, in more than six
_MANY = 6
_ODD = 10.0  # standard deviations of a squared distance
_STEPS = 40
_CLOSE = 1e-5  # of a region: shorter steps are none
_ON_THE_WAY = (0.25, 0.5, 0.75, 1.0)  # from the middle of a region to a place
_FLAT = 0.02  # a curvature that a step takes for the least


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurements:
    """What was released of a field, in its own units.

    Attributes
    ----------
    points, slopes, slope_sds
        ``(N, r)``, ``(N, r)``, ``(N,)``: noisy gradients, and the standard deviation of their noise.
    bend_points, bends, bend_sds
        ``(H, r)``, ``(H, r, r)``, ``(H,)``: noisy Hessians, and that of the noise on their diagonals.
    blur
        A Hessian that is read off with a wide window is another than the field's by ``blur / length^2`` of itself.
    middle, spread
        ``(r, r)`` and a number: Q is about ``middle``, with this standard deviation an entry.
    """

    points: Floats
    slopes: Floats
    slope_sds: Floats
    bend_points: Floats
    bends: Floats
    bend_sds: Floats
    blur: float
    middle: Floats
    spread: float

    def joined(self, points: Floats, slopes: Floats, slope_sds: Floats) -> Measurements:
        """These and more gradients."""
        return replace(
            self,
            points=np.concatenate([self.points, points]),
            slopes=np.concatenate([self.slopes, slopes]),
            slope_sds=np.concatenate([self.slope_sds, slope_sds]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Basis:
    """Functions of v that are added up to psi: r linear ones, r (r + 1) / 2 squares, and cosines."""

    length: float
    frequencies: Floats  # (m, r)
    phases: Floats  # (m,)

    @classmethod
    def of(cls, r: int, length: float) -> _Basis:
        few, some, many = _FEATURES
        m = few if r == 1 else some if r <= _MANY else many
        rng = np.random.default_rng(3)  # public, and the same whenever the posterior is read again
        return cls(length, rng.standard_normal((m, r)) / length, rng.uniform(0, 2 * math.pi, m))

    @property
    def r(self) -> int:
        return int(self.frequencies.shape[1])

    @property
    def amplitude(self) -> float:
        """Of a cosine of weight 1, so that all together bend by about 1."""
        return math.sqrt(2 / len(self.phases)) * self.length**2

    def gradients(self, points: Floats) -> Floats:
        """Of each function at each point: ``(N, r, functions)``."""
        r, (first, second) = self.r, np.triu_indices(self.r)
        linear = np.broadcast_to(np.eye(r), (len(points), r, r))
        squares = np.zeros((len(points), r, len(first)))
        each = np.arange(len(first))
        squares[:, first, each] = points[:, second]
        squares[:, second, each] = points[:, first]
        waves = -self.amplitude * np.sin(points @ self.frequencies.T + self.phases)
        return np.concatenate([linear, squares, waves[:, None, :] * self.frequencies.T], axis=2)

    def hessians(self, points: Floats) -> Floats:
        """On and above the diagonal: ``(N, r (r + 1) / 2, functions)``."""
        (first, second), count = np.triu_indices(self.r), len(points)
        linear = np.zeros((count, len(first), self.r))
        squares = np.broadcast_to(np.eye(len(first)), (count, len(first), len(first)))
        waves = -self.amplitude * np.cos(points @ self.frequencies.T + self.phases)
        products = (self.frequencies[:, first] * self.frequencies[:, second]).T
        return np.concatenate([linear, squares, waves[:, None, :] * products], axis=2)


@dataclass(frozen=True, slots=True, eq=False)
class FieldFit:
    """The normal law of (b, Q, w) given what was released, at one length.

    Attributes
    ----------
    mean
        ``(functions,)``.
    evidence
        Logarithm of how likely this length makes the measurements, but for a constant.
    fits
        Whether they are as the prior and the noise allow: their squared distance, in standard deviations, is that of so
        many normal numbers at most, but for ten of its standard deviations.
    """

    mean: Floats
    evidence: float
    fits: bool
    basis: _Basis
    scales: Floats
    factor: Floats

    def coefficients(self, count: int, rng: np.random.Generator) -> Floats:
        """Draws: ``(count, functions)``."""
        noise = rng.standard_normal((len(self.mean), count))
        return np.asarray(self.mean + (self.scales[:, None] * np.linalg.solve(self.factor.T, noise)).T)

    def bends(self, points: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Draws of the Hessian at each point: ``(N, count, r, r)``."""
        first, second = np.triu_indices(self.basis.r)
        found = np.zeros((len(points), count, self.basis.r, self.basis.r))
        values = self.basis.hessians(points) @ self.coefficients(count, rng).T
        found[..., first, second] = found[..., second, first] = np.swapaxes(values, 1, 2)
        return found


def fitted_fields(measured: Measurements) -> tuple[list[FieldFit], Floats]:
    """A fit for each length, and their weights, which sum to 1."""
    fits = [_fitted(measured, _Basis.of(measured.points.shape[1], length)) for length in _LENGTHS]
    evidence = np.array([fit.evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    return fits, weights / weights.sum()


def _fitted(measured: Measurements, basis: _Basis) -> FieldFit:
    r, waves = basis.r, len(basis.phases)
    above = np.triu_indices(r)
    squares = len(above[0])
    rows = [
        (basis.gradients(measured.points) / measured.slope_sds[:, None, None]).reshape(len(measured.points) * r, -1)
    ]
    values = [(measured.slopes / measured.slope_sds[:, None]).ravel()]
    logs = 0.0  # of the noise's scales, where they depend on the length
    on = np.where(above[0] == above[1], 1.0, math.sqrt(0.5))  # noise beside the diagonal has half the variance
    for design, bend, sd in zip(basis.hessians(measured.bend_points), measured.bends, measured.bend_sds, strict=True):
        blurred = measured.blur / basis.length**2 * float(np.trace(bend)) / r
        scale = on * math.hypot(sd, blurred)
        rows.append(design / scale[:, None])
        logs += float(np.log(scale).sum())
        values.append(bend[above] / scale)
    scales = np.concatenate([np.full(r, _FREE), np.full(squares, measured.spread), np.full(waves, _BEND)])
    centre = np.concatenate([np.zeros(r), measured.middle[above], np.zeros(waves)])
    design = np.concatenate(rows)
    rest = np.concatenate(values) - design @ centre
    scaled = design * scales
    # By orthogonal steps alone: the product of the design with itself would lose half of the digits.
    stacked = np.concatenate([np.column_stack([scaled, rest]), np.eye(len(scales), len(scales) + 1)])
    triangle: Floats = np.asarray(np.linalg.qr(stacked, mode="r"))
    factor, found = triangle[:-1, :-1].T.copy(), triangle[:-1, -1]
    sizes = np.maximum(np.abs(np.diag(factor)), 1.0)  # as they are, but for rounding
    np.fill_diagonal(factor, np.copysign(sizes, np.diag(factor)))
    evidence = -(triangle[-1, -1] ** 2) / 2 - float(np.log(sizes).sum()) - logs
    mean = centre + scales * np.linalg.solve(factor.T, found)
    fits = bool(triangle[-1, -1] ** 2 <= len(rest) + _ODD * math.sqrt(2 * len(rest)))
    return FieldFit(mean=mean, evidence=float(evidence), fits=fits, basis=basis, scales=scales, factor=factor)


def lowest_places(
    fit: FieldFit, coefficients: Floats, tilts: Floats, starts: Floats, *, centre: Floats, radius: float
) -> tuple[Floats, Flags, Flags]:
    """Where ``psi(v) + tilt'v`` is lowest, by Newton steps downhill that stay in a ball.

    Parameters
    ----------
    coefficients, tilts, starts
        ``(n, functions)``, ``(n, r)``, ``(n, r)``: one problem a row.
    centre, radius
        The ball: the field was measured there.

    Returns
    -------
    Places, ``(n, r)``; which of them ended at the edge of the ball, so that the lowest place may lie beyond; and on
    the way to which of those psi bends down, as no convex function does.
    """
    basis, r = fit.basis, fit.basis.r
    first, second = np.triu_indices(r)
    squares = np.zeros((len(starts), r, r))
    squares[:, first, second] = squares[:, second, first] = coefficients[:, r : r + len(first)]
    waves = coefficients[:, r + len(first) :] * basis.amplitude
    products = (basis.frequencies[:, :, None] * basis.frequencies[:, None, :]).reshape(-1, r * r)
    places, active = starts.copy(), np.arange(len(starts))

    def bend_of(here: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
        angles = here @ basis.frequencies.T + basis.phases
        slope = coefficients[rows, :r] + tilts[rows] + np.einsum("nij,nj->ni", squares[rows], here)
        slope -= (np.sin(angles) * waves[rows]) @ basis.frequencies
        return slope, squares[rows] - ((np.cos(angles) * waves[rows]) @ products).reshape(-1, r, r)

    for _ in range(_STEPS):
        here = places[active]
        slope, bend = bend_of(here, active)
        values, vectors = np.linalg.eigh(bend)
        along = np.einsum("nji,nj->ni", vectors, slope) / np.maximum(np.abs(values), _FLAT)
        step = -np.einsum("nij,nj->ni", vectors, along)
        step *= _shortened(step, radius / 2)
        off = here + step - centre
        after = centre + off * _shortened(off, radius)
        places[active] = after
        active = active[np.linalg.norm(after - here, axis=1) > _CLOSE * radius]
        if not len(active):
            break
    beyond = np.linalg.norm(places - centre, axis=1) >= radius * (1 - 1e-6)
    hollow = np.zeros(len(places), dtype=bool)
    edge = np.flatnonzero(beyond)
    for part in _ON_THE_WAY:
        bend = bend_of(centre + part * (places[edge] - centre), edge)[1]
        hollow[edge] |= np.linalg.eigvalsh(bend)[:, 0] < 0
    return places, beyond, hollow


def at_least(bends: Floats, least: Floats) -> Floats:
    """Curvatures with eigenvalues raised to ``least``, one a matrix."""
    values, vectors = np.linalg.eigh(bends)
    raised = np.maximum(values, least[:, None])
    return np.asarray((vectors * raised[:, None, :]) @ np.swapaxes(vectors, -1, -2))


def _shortened(vectors: Floats, most: float) -> Floats:
    """Factors that make rows no longer than ``most``: ``(n, 1)``."""
    return np.asarray(np.minimum(1, most / np.maximum(np.linalg.norm(vectors, axis=1), 1e-300))[:, None])

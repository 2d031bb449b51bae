"""Standard errors of scores among so many items that their covariance fills no memory.

With ``H = D - A`` (D its diagonal) and J the covariance of the wins, the scores have covariance ``C = H^+ J H^+``, and
what regularisation pulls them together by is added (:mod:`psephos.scores.intervals`). A solution of ``H x = b`` costs a
few products with A by conjugate gradients, so that rows of C are cheap and its whole diagonal is not. Two ways:

**Exact, for chosen items.** ``C_uv = (H^+ e_u)^T J (H^+ e_v)``, one solution an item.

**Measured, for all.** Draw wins w of covariance J and solve ``H x = w``. Since ``D x = w + k`` with ``k = A x``,

    D_u^2 C_uu = J_uu + 2 E w_u k_u + E k_u^2,
    E w_u k_u  = (A D^-1 J)_uu + E w_u (A D^-1 k)_u.

What w alone decides is known, ``J_uu + 2 (A D^-1 J)_uu``, and only what the other items' errors add is averaged over
draws: a part of about 1/d where an item was compared with d others, against all of it if ``x_u^2`` were averaged.
Where people gave so many answers that ``rows^T rows`` is costly, its part of the overlap is averaged too.

Where items hang together by a few comparisons (chains, clusters with a bridge) their errors are mostly common, and that
part is large. Then the slowest modes are taken out first: with columns Q that hold them (a power step of ``H^+ D`` on
solutions), ``B = Q (Q^T H Q)^-1 Q^T`` and ``M = H^+ - B``,

    C = B J B + M J B + B J M + M J M,

of which all but the last term are exact (``M J Q`` costs one solution a column), and the last is measured as above,
with ``k = D (M w) - w``.

**Accuracy.** The draws also say how far their average can be off: with s_u the standard deviation of the averaged
quantity over K draws, the standard error of ``sqrt(C_uu)`` relative to itself is ``s_u / (2 sqrt(K) D_u^2 C_uu)``.
Draws are added, up to 512, until its root mean square over items is at most :data:`TOLERANCE`; 32 columns are taken out
where that would need more than 64; and what was reached is :attr:`SparseErrors.precision`. Items whose own value stays
above four times the tolerance are solved exactly, the worst 64 of them; components of at most 64 items always are, all
at once. Draws are sums of fixed signs +-1 (a generator with a seed of its own), so that the same data give the same
errors.

Sources: P. Siden, F. Lindgren, D. Bolin, M. Villani (2018), "Efficient covariance approximations for large sparse
precision matrices", for measuring the part of neighbours only; R. Meyer, C. Musco, C. Musco, D. Woodruff (2021),
"Hutch++", for taking out what a few columns explain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from psephos.errors import ParameterError
from psephos.scores.answers import LEAST_DENSITY, Band, SparseAnswers, conjugate_gradients
from psephos.scores.links import Link
from psephos.scores.wins_covariance import WinsCovariance

__all__ = ["TOLERANCE", "SparseErrors"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

#: Relative standard error of measured standard errors, root mean square over items, that is aimed at.
TOLERANCE = 0.02

_BATCH = 16  # draws solved at once
_FEW = 64  # draws: if more are needed, slow modes are taken out
_MODES = 32
_MOST = 512  # draws
_SMALL = 64  # items of a component that is solved exactly, and the most items that are for another reason
_OFF = 4.0  # times the tolerance: an item that is solved exactly
_SOLVED = 1e-6  # of the residual: solutions for draws
_EXACT = 1e-11  # and for what is called exact
_SEED = 20_240_607


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseErrors:
    """Standard errors of all scores, measured, and exact ones on demand.

    Attributes
    ----------
    errors
        of the scores about the mean of their component, shape (m,); infinite for an item alone.
    precision
        the estimated relative standard error of ``errors``, root mean square over items.
    draws
        how many draws they were measured with.
    modes
        how many slow modes were taken out.
    """

    errors: Floats
    precision: float
    draws: int
    modes: int
    _system: _System
    _shift: Floats

    @classmethod
    def measure(
        cls,
        scores: Floats,
        answers: SparseAnswers,
        *,
        wins_covariance: WinsCovariance,
        regularisation: float,
        link: Link,
        component_labels: Labels,
        tolerance: float = TOLERANCE,
    ) -> SparseErrors:
        """Measure the errors of fitted scores.

        Raises
        ------
        ParameterError
            if regularisation is 0 and doubles hold no information on some item.
        """
        least = LEAST_DENSITY if regularisation > 0 else 0.0
        weights, diagonal = answers.curvature(scores, link, 0.0, least=least)
        sizes = np.bincount(component_labels)
        alone = sizes[component_labels] == 1
        diagonal = np.where(alone, 1.0, diagonal)
        if not diagonal.min() > 1e-13 * diagonal.max() and regularisation == 0:
            raise ParameterError("regularisation must be > 0 here: some difference of scores carries no information")
        system = _System(
            weights=weights,
            diagonal=diagonal,
            noise=wins_covariance.within(component_labels),
            labels=component_labels,
            sizes=sizes,
            band=Band.of(weights, diagonal),
        )
        variances, relative, draws, modes = _measure(system, tolerance)
        if len(component_labels) == 1:
            alone = np.zeros(1, dtype=np.bool_)
        precision = _root_mean_square(relative[~alone])
        pull = 2.0 * regularisation * scores[:, None]
        shift = system.solve(system.centred(pull), _SOLVED)[:, 0] if pull.any() else np.zeros(len(scores))
        errors = np.where(alone, np.inf, np.sqrt(variances + shift**2))
        return cls(errors=errors, precision=precision, draws=draws, modes=modes, _system=system, _shift=shift)

    def covariance_of(self, positions: Sequence[int]) -> Floats:
        """The exact covariance of the scores at some positions, about the means of their components, shape (k, k)."""
        system = self._system
        units = np.zeros((len(system.diagonal), len(positions)))
        units[list(positions), np.arange(len(positions))] = 1.0
        columns = system.solve(system.centred(units), _EXACT)
        covariance = columns.T @ (system.noise @ columns)
        shift, labels = self._shift[list(positions)], system.labels[list(positions)]
        shared = np.where(labels[:, None] == labels, np.outer(shift, shift), 0.0)
        return (covariance + covariance.T) / 2.0 + shared


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _System:
    """H as weights of pairs (an upper triangle) and a diagonal, J without entries between components, and these."""

    weights: Any
    diagonal: Floats
    noise: WinsCovariance
    labels: Labels
    sizes: npt.NDArray[np.intp]
    band: Band | None

    def neighbours(self, columns: Floats) -> Floats:
        """``A X``."""
        product: Floats = self.weights @ columns
        product += self.weights.T @ columns
        return product

    def product(self, columns: Floats) -> Floats:
        """``H X``."""
        return self.diagonal[:, None] * columns - self.neighbours(columns)

    def means(self, columns: Floats) -> Floats:
        """The mean of each component in each column, at the place of each of its items."""
        if len(self.sizes) == 1:
            mean: Floats = columns.mean(axis=0, keepdims=True)
            return mean
        sums = np.stack([np.bincount(self.labels, weights=column) for column in columns.T], axis=1)
        spread: Floats = (sums / self.sizes[:, None])[self.labels]
        return spread

    def centred(self, columns: Floats) -> Floats:
        """Columns less the means of components."""
        return columns - self.means(columns)

    def solve(self, right: Floats, relative: float) -> Floats:
        """``H^+`` times centred columns, a few at a time."""
        if self.band is not None:
            return self.centred(self.band.solve(right))
        blocks = [
            self.centred(
                conjugate_gradients(self.product, self.diagonal, right[:, k : k + _BATCH].copy(), relative=relative)
            )
            for k in range(0, right.shape[1], _BATCH)
        ]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros_like(right)

    def exact_variances(self, units: Floats) -> Floats:
        """``C_uu`` where ``units`` has a 1: at most one a column and component; elsewhere nothing of meaning."""
        columns = self.solve(self.centred(units), _EXACT)
        sums = self.means(columns * (self.noise @ columns)) * self.sizes[self.labels][:, None]
        variances: Floats = (sums * units).sum(axis=1)
        return variances


def _measure(system: _System, tolerance: float) -> tuple[Floats, Floats, int, int]:
    """Variances of the scores, their relative errors as standard errors, draws used, and modes taken out."""
    rng = np.random.default_rng(_SEED)
    m = len(system.diagonal)
    variances, relative = np.zeros(m), np.zeros(m)
    own = system.sizes[system.labels]
    small = own <= _SMALL
    if small.any() and own.max() > 1:  # the k-th items of all small components at once, for every k
        order = np.argsort(system.labels, kind="stable")
        place = np.empty(m, dtype=np.intp)
        place[order] = np.arange(m) - np.repeat(np.cumsum(system.sizes) - system.sizes, system.sizes)
        units = np.zeros((m, int(own[small].max())))
        units[small, place[small]] = 1.0
        variances = system.exact_variances(units)
    if small.all():
        return variances, relative, 0, 0
    found = _Average(system, np.zeros((m, 0)))
    first = found.add(rng)
    if _root_mean_square(found.relative()[~small]) > tolerance * math.sqrt(_FEW / _BATCH):
        found = _Average(system, _slow_modes(system, rng, first))
        found.add(rng)
    while found.draws < _MOST and _root_mean_square(found.relative()[~small]) > tolerance:
        found.add(rng)
    variances, relative = np.where(small, variances, found.variances()), np.where(small, 0.0, found.relative())
    off = np.flatnonzero(relative > _OFF * tolerance)
    off = off[np.argsort(-relative[off], kind="stable")][:_SMALL]
    if len(off):
        units = np.zeros((m, len(off)))
        units[off, np.arange(len(off))] = 1.0
        variances[off], relative[off] = system.exact_variances(units)[off], 0.0
    return variances, relative, found.draws, found.modes


def _slow_modes(system: _System, rng: np.random.Generator, solutions: Floats) -> Floats:
    """Columns that hold the largest part of common errors, orthonormal for H; at most half as many as items."""
    count = min(_MODES, len(system.diagonal) // 2)
    while solutions.shape[1] < count:
        pairs, people = system.noise.draw(rng, _BATCH)
        solutions = np.concatenate([solutions, system.solve(system.centred(pairs + people), _SOLVED)], axis=1)
    columns = system.solve(system.centred(system.diagonal[:, None] * solutions[:, :count]), _SOLVED)
    columns /= np.sqrt(np.maximum((columns**2).sum(axis=0), 1e-300))
    values, vectors = linalg.eigh(columns.T @ system.product(columns))
    kept = values > 1e-10 * values.max(initial=0.0)
    modes: Floats = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
    return modes


class _Average:
    """The average over draws of what ``w`` does not decide, for modes Q with ``Q^T H Q = I``."""

    def __init__(self, system: _System, modes: Floats) -> None:
        self.system, self.q = system, modes
        self.modes, self.draws = modes.shape[1], 0
        d, noise = system.diagonal, system.noise
        overlap, self.whole = noise.overlap(system.weights, 1.0 / d)
        # J with the means of components taken out on both sides: its diagonal, and its overlap with A D^-1.
        pairs, people = (part / system.sizes[system.labels] for part in noise.sums())
        sums = pairs + people if self.whole else pairs
        total, flat = system.means(sums[:, None])[:, 0], system.neighbours(1.0 / d[:, None])[:, 0]
        overlap += (total - sums) * flat - system.neighbours((sums / d)[:, None])[:, 0]
        sums = pairs + people
        fixed = noise.diagonal() - 2.0 * sums + system.means(sums[:, None])[:, 0] + 2.0 * overlap
        self.outside = np.zeros(len(d))
        if self.modes:
            self.hq = system.product(self.q)
            t = system.centred(noise @ self.q)
            rest = system.solve(t, _EXACT)
            rest -= self.q @ (self.q.T @ t)
            self.outside = np.einsum("uk,kl,ul->u", self.q, self.q.T @ t, self.q)
            self.outside += 2.0 * np.einsum("uk,uk->u", rest, self.q)
            fixed -= 2.0 * np.einsum("uk,uk->u", t, self.hq)
        self.fixed = fixed
        self.sum, self.squares, self.plain = np.zeros(len(d)), np.zeros(len(d)), np.zeros(len(d))

    def add(self, rng: np.random.Generator) -> Floats:
        """Add a batch of draws; what H^+ made of them, shape (m, batch)."""
        system = self.system
        d = system.diagonal[:, None]
        known, other = (system.centred(part) for part in system.noise.draw(rng, _BATCH))
        if self.whole:
            known, other = known + other, np.zeros((len(d), 1))
        w = known + other
        x = system.solve(w, _SOLVED)
        inner = x - self.q @ (self.q.T @ w) if self.modes else x
        k = d * inner - w
        term = k**2 + 2.0 * known * system.neighbours((other + k) / d)
        if not self.whole:
            term += 2.0 * other * (k + self.hq @ (self.q.T @ w) if self.modes else k)
        self.sum += term.sum(axis=1)
        self.squares += (term**2).sum(axis=1)
        self.plain += (x**2).sum(axis=1)
        self.draws += _BATCH
        return x

    def variances(self) -> Floats:
        """``C_uu``; where draws are too few to keep it positive, a tenth of the plain average of ``x_u^2``."""
        inner = (self.fixed + self.sum / self.draws) / self.system.diagonal**2
        return np.maximum(self.outside + inner, 0.1 * self.plain / self.draws)

    def relative(self) -> Floats:
        """The standard error of each ``sqrt(C_uu)`` relative to itself."""
        spread = np.maximum(self.squares / self.draws - (self.sum / self.draws) ** 2, 0.0) / (self.draws - 1)
        variances = self.variances()
        size = 2.0 * variances * self.system.diagonal**2
        return np.divide(np.sqrt(spread), size, out=np.zeros_like(size), where=size > 0)


def _root_mean_square(values: Floats) -> float:
    return math.sqrt(float((values**2).mean())) if values.size else 0.0

"""The table of answers: which items were set against each other, and how often, dense or sparse.

For items u and v, ``n_uv = n_vu >= 0`` is how many answers compared them, each counted with its weight. The two
classes hold the same table and answer the same questions; the sparse one never builds an m x m array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.sparse import csgraph

from psephos.errors import ParameterError
from psephos.scores.links import LOGISTIC, Link

__all__ = [
    "DENSE_ITEMS",
    "Band",
    "DenseAnswers",
    "SparseAnswers",
    "as_answers",
    "centre",
    "conjugate_gradients",
    "is_large",
    "laplacian",
    "real_array",
]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

#: A curvature, relative to that at even odds, below which standard errors count as if it were this much.
LEAST_DENSITY = 1e-6
#: A dense table of more items than this is solved by conjugate gradients all the same.
DENSE_ITEMS = 2000

_ROWS = 64
_BAND = 64  # items: a band that is factored
_LEAST_PIVOT = 1e-14


def is_large(m: int) -> bool:
    """Whether m items are too many for a table of all pairs."""
    return m > DENSE_ITEMS


@dataclass(frozen=True, slots=True)
class DenseAnswers:
    """Answers as a symmetric table of shape (m, m) with a zero diagonal.

    ``labels``, shape (m,): the same number, from 0 up, for items that a chain of compared pairs joins.
    """

    table: Floats
    labels: Labels = field(init=False)
    #: The last two (scores, link, F at their differences): a step starts where the equations were last looked at.
    recent: list[tuple[Floats, Link, Floats]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _labels(sparse.csr_array(self.table > 0)))
        object.__setattr__(self, "recent", [])

    def to_dense(self) -> Floats:
        """The table, shape (m, m)."""
        return self.table

    def totals(self) -> Floats:
        """``n_u = sum_v n_uv``, shape (m,)."""
        totals: Floats = self.table.sum(axis=1)
        return totals

    def excess(self, scores: Floats, link: Link) -> Floats:
        """``sum_v n_uv (F(theta_u - theta_v) - 1/2)``, the expected wins less half the answers, shape (m,)."""
        shares = link.cdf(scores[:, None] - scores[None, :])
        self.recent[:] = [*self.recent[-1:], (scores, link, shares)]
        excess: Floats = np.einsum("uv,uv->u", self.table, shares - 0.5)
        return excess

    def _density(self, scores: Floats, link: Link) -> Floats:
        """The density at all differences: for the logistic link F (1 - F), where F is at hand.

        At large differences that loses digits, which cost a Newton step and no more.
        """
        for place, of, shares in self.recent:
            if place is scores and of is link is LOGISTIC:
                return shares * (1.0 - shares)
        return link.density(scores[:, None] - scores[None, :])

    def total_loss(self, scores: Floats, link: Link) -> float:
        """``sum_{u<v} n_uv l(theta_u - theta_v; 1/2)``."""
        total = 0.0
        for a in range(0, len(scores), _ROWS):  # l(x; 1/2) is even: each pair once, the square on the diagonal twice
            b = a + _ROWS
            square = self.table[a:b, a:b] * link.loss(scores[a:b, None] - scores[None, a:b], 0.5)
            rest = self.table[a:b, b:] * link.loss(scores[a:b, None] - scores[None, b:], 0.5)
            total += float(square.sum()) / 2.0 + float(rest.sum())
        return total

    def newton_step(self, scores: Floats, gradient: Floats, link: Link, ridge: float, labels: Labels) -> Floats:
        """``-H^-1 gradient`` with ``H`` the weighted Laplacian plus ``ridge`` on the diagonal, centred."""
        hessian = laplacian(self.table * self._density(scores, link))
        lift = max(ridge, _least_curvature(self.table))
        size = max(float(np.trace(hessian)) / len(scores), lift)
        # A constant on the whole of a component is in the null space without the ridge; fill it, steps are centred.
        if labels.any():
            hessian += np.where(labels[:, None] == labels[None, :], size / np.bincount(labels)[labels], 0.0)
        else:
            hessian += size / len(labels)
        while True:
            np.fill_diagonal(hessian, np.diagonal(hessian) + lift)
            try:
                factor = linalg.cho_factor(hessian, lower=True)
            except linalg.LinAlgError:  # densities that underflow: any lifted matrix still gives a descent direction
                lift *= 100.0
                continue
            return centre(-linalg.cho_solve(factor, gradient), labels)


@dataclass(frozen=True, slots=True)
class SparseAnswers:
    """Answers as pairs ``first < second`` with ``count`` > 0, among ``m`` items, in order of both positions.

    ``labels`` as for :class:`DenseAnswers`.
    """

    m: int
    first: npt.NDArray[np.int32]
    second: npt.NDArray[np.int32]
    count: Floats
    starts: npt.NDArray[np.int32] = field(init=False)
    labels: Labels = field(init=False)

    def __post_init__(self) -> None:
        starts = np.zeros(self.m + 1, dtype=np.int32)
        np.cumsum(np.bincount(self.first, minlength=self.m), out=starts[1:])
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "labels", _labels(self.upper(self.count)))

    def to_dense(self) -> Floats:
        """The table, shape (m, m)."""
        table = np.zeros((self.m, self.m))
        table[self.first, self.second] = table[self.second, self.first] = self.count
        return table

    def upper(self, values: Floats) -> Any:
        """A value a pair as the strict upper triangle of an (m, m) csr array; nothing is copied."""
        return sparse.csr_array((values, self.second, self.starts), shape=(self.m, self.m))

    def differences(self, scores: Floats) -> Floats:
        """``theta_first - theta_second``, one a pair."""
        differences: Floats = np.repeat(scores, np.diff(self.starts))
        differences -= scores[self.second]
        return differences

    def _spread(self, values: Floats, sign: float) -> Floats:
        """Sum over the pairs of an item: a value for the first item, ``sign`` times it for the second."""
        upper, ones = self.upper(values), np.ones(self.m)
        spread: Floats = upper @ ones + sign * (upper.T @ ones)
        return spread

    def totals(self) -> Floats:
        """``n_u = sum_v n_uv``, shape (m,)."""
        return self._spread(self.count, 1.0)

    def excess(self, scores: Floats, link: Link) -> Floats:
        """``sum_v n_uv (F(theta_u - theta_v) - 1/2)``, the expected wins less half the answers, shape (m,)."""
        return self._spread(self.count * (link.cdf(self.differences(scores)) - 0.5), -1.0)

    def total_loss(self, scores: Floats, link: Link) -> float:
        """``sum_{u<v} n_uv l(theta_u - theta_v; 1/2)``."""
        return float(self.count @ link.loss(self.differences(scores), 0.5))

    def curvature(self, scores: Floats, link: Link, ridge: float, *, least: float = 0.0) -> tuple[Any, Floats]:
        """The Hessian as the weights ``n_uv f`` of its pairs, an upper triangle, and its diagonal, shape (m,).

        Densities below ``least`` of that at 0 count as that much.
        """
        density = link.density(self.differences(scores))
        if least:
            np.maximum(density, least * float(link.density(np.zeros(1))[0]), out=density)
        weights = self.count * density
        return self.upper(weights), self._spread(weights, 1.0) + max(ridge, _least_curvature(self.count))

    def newton_step(self, scores: Floats, gradient: Floats, link: Link, ridge: float, labels: Labels) -> Floats:
        """``-H^-1 gradient`` by conjugate gradients, to a precision that grows as the gradient falls, centred."""
        weights, diagonal = self.curvature(scores, link, ridge)
        relative = float(np.abs(gradient).max() / max(self.count.max(initial=0.0), 1.0))
        band = Band.of(weights, diagonal)
        if band is not None:
            return centre(band.solve(-gradient[:, None])[:, 0], labels)
        # A truncated solution is a descent direction too: running out of iterations only costs a Newton step.
        step = conjugate_gradients(
            lambda x: diagonal[:, None] * x - weights @ x - weights.T @ x,
            diagonal,
            -gradient[:, None],
            relative=max(min(0.01, relative), 1e-8),
        )
        return centre(step[:, 0], labels)


@dataclass(frozen=True, slots=True)
class Band:
    """A factor of H = diagonal - weights where its entries lie in a narrow band, for some order of the items.

    Chains and rings of comparisons are where conjugate gradients need as many iterations as there are items.
    """

    order: Labels
    factor: Floats

    @classmethod
    def of(cls, weights: Any, diagonal: Floats) -> Band | None:
        """The factor for an upper triangle of weights; ``None`` where the band is wide, or H singular to rounding."""
        m = len(diagonal)
        if weights.nnz > _BAND * m:
            return None
        graph = sparse.csr_array(weights + weights.T)
        order: Labels = csgraph.reverse_cuthill_mckee(graph, symmetric_mode=True).astype(np.intp)
        place = np.empty(m, dtype=np.intp)
        place[order] = np.arange(m)
        pairs = weights.tocoo()
        row, column = place[pairs.row], place[pairs.col]
        width = np.abs(row - column)
        if not 0 < int(width.max(initial=0)) <= _BAND:
            return None
        band = np.zeros((int(width.max()) + 1, m))
        band[0] = diagonal[order]
        band[width, np.minimum(row, column)] = -pairs.data
        try:
            factor = linalg.cholesky_banded(band, lower=True)
        except linalg.LinAlgError:
            return None
        return cls(order, factor) if (factor[0] ** 2 > _LEAST_PIVOT * band[0]).all() else None

    def solve(self, right: Floats) -> Floats:
        """``H^-1 right``, shape (m, k)."""
        solution = np.empty_like(right)
        solution[self.order] = linalg.cho_solve_banded((self.factor, True), right[self.order])
        return solution


def conjugate_gradients(
    product: Callable[[Floats], Floats], diagonal: Floats, right: Floats, *, relative: float
) -> Floats:
    """Solve ``H X = right`` for the columns of ``right``, shape (m, k), by conjugate gradients with diagonal scaling.

    A column is done when its residual, measured with ``diagonal^-1``, is ``relative`` times what it was; after
    ``10 m`` iterations all are. H must be positive semidefinite, and ``right`` in its range.

    >>> H = np.array([[2.0, -1.0], [-1.0, 2.0]])
    >>> conjugate_gradients(lambda x: H @ x, np.diag(H), np.array([[3.0], [0.0]]), relative=1e-12).round(6).tolist()
    [[2.0], [1.0]]
    """
    inverse = 1.0 / diagonal[:, None]
    solution = np.zeros_like(right)
    residual = right.copy()
    scaled = inverse * residual
    direction = scaled.copy()
    size = np.einsum("uk,uk->k", residual, scaled)
    target = relative**2 * size
    for _ in range(10 * len(right)):
        image = product(direction)
        bend = np.einsum("uk,uk->k", direction, image)
        active = (size > target) & (bend > 0)
        if not active.any():
            break
        step = np.divide(size, bend, out=np.zeros_like(size), where=active)
        solution += step * direction
        residual -= step * image
        np.multiply(inverse, residual, out=scaled)
        before, size = size, np.where(active, np.einsum("uk,uk->k", residual, scaled), size)
        direction *= np.divide(size, before, out=np.zeros_like(size), where=active)
        direction += scaled
    return solution


def as_answers(answers: Any) -> DenseAnswers | SparseAnswers:
    """Check a symmetric table of finite numbers >= 0 with a zero diagonal, dense or scipy.sparse.

    What this function returned is taken as it is.

    Raises
    ------
    ParameterError
        naming what is wrong. Tables symmetric up to rounding (1e-9) are taken as their symmetric part.
    """
    if isinstance(answers, (DenseAnswers, SparseAnswers)):
        return answers
    table: Any
    is_sparse: bool = sparse.issparse(answers)
    if is_sparse:
        table = sparse.csr_array(answers)
        values = real_array(table.data, "answers", ndim=1)
        table = sparse.csr_array((values, table.indices, table.indptr), shape=table.shape)
    else:
        table = values = real_array(answers, "answers", ndim=2)
    m = table.shape[0]
    if table.shape != (m, m) or not m:
        raise ParameterError(f"answers must be a square table of at least one item, got shape {table.shape}")
    if not (values >= 0).all():
        raise ParameterError(f"answers must be >= 0, got {values.min()}")
    if not abs(table - table.T).max() <= 1e-9 * values.max(initial=0.0):
        raise ParameterError("answers must be symmetric: n_uv answers compare u with v and v with u")
    if table.diagonal().any():
        raise ParameterError("answers must have a zero diagonal: an item is not compared with itself")
    table = (table + table.T) / 2.0
    if not is_sparse and not is_large(m):
        return DenseAnswers(table)
    upper = sparse.csr_array(sparse.triu(table, 1))
    upper.sort_indices()
    pairs = upper.tocoo()
    kept = pairs.data > 0
    return SparseAnswers(m, pairs.row[kept].astype(np.int32), pairs.col[kept].astype(np.int32), pairs.data[kept])


def _labels(graph: Any) -> Labels:
    labels: Labels = csgraph.connected_components(graph, directed=False)[1].astype(np.intp)
    return labels


def _least_curvature(counts: Floats) -> float:
    """What keeps a Hessian positive where densities underflow: far below what doubles resolve elsewhere."""
    return 1e-14 * (float(counts.max(initial=0.0)) or 1.0)


def real_array(values: object, name: str, *, ndim: int) -> Floats:
    """A float64 array of finite real numbers; integers and fractions of any size below 1e100 become doubles."""
    array = np.asarray(values)
    if array.dtype.kind not in "iufO" or array.ndim != ndim:
        raise ParameterError(f"{name} must be real numbers in {ndim} dimension(s), got {array.dtype} in {array.ndim}")
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be real numbers below 1e100") from None
    if not (np.abs(floats) < 1e100).all():
        raise ParameterError(f"{name} must be finite numbers below 1e100, got {floats[~(np.abs(floats) < 1e100)][0]}")
    return floats


def centre(values: Floats, labels: Labels) -> Floats:
    """Take the mean of each component off, shape (m,)."""
    means = np.bincount(labels, weights=values) / np.bincount(labels)
    centred: Floats = values - means[labels]
    return centred


def laplacian(weights: Floats) -> Floats:
    """The graph Laplacian of symmetric weights, shape (m, m): off-diagonal -w_uv, rows sum to 0.

    >>> laplacian(np.array([[0.0, 2.0], [2.0, 0.0]])).tolist()
    [[2.0, -2.0], [-2.0, 2.0]]
    """
    result: Floats = -weights
    np.fill_diagonal(result, 0.0)
    np.fill_diagonal(result, -result.sum(axis=1))
    return result

"""The table of answers: which items were set against each other, and how often, dense or sparse.

For items u and v, ``n_uv = n_vu >= 0`` is how many answers compared them, each counted with its weight. The two
classes hold the same table and answer the same questions; the sparse one never builds an m x m array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import cg

from psephos.errors import ParameterError
from psephos.scores.links import Link

__all__ = ["DENSE_ITEMS", "DenseAnswers", "SparseAnswers", "as_answers", "centre", "laplacian", "real_array"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

#: A dense table of more items than this is solved by conjugate gradients all the same.
DENSE_ITEMS = 2000


@dataclass(frozen=True, slots=True)
class DenseAnswers:
    """Answers as a symmetric table of shape (m, m) with a zero diagonal."""

    table: Floats

    def to_dense(self) -> Floats:
        """The table, shape (m, m)."""
        return self.table

    def totals(self) -> Floats:
        """``n_u = sum_v n_uv``, shape (m,)."""
        totals: Floats = self.table.sum(axis=1)
        return totals

    def components(self) -> Labels:
        """Shape (m,): the same label, from 0 up, for items that a chain of compared pairs joins."""
        return _labels(sparse.csr_array(self.table > 0))

    def excess(self, scores: Floats, link: Link) -> Floats:
        """``sum_v n_uv (F(theta_u - theta_v) - 1/2)``, the expected wins less half the answers, shape (m,)."""
        excess: Floats = (self.table * (link.cdf(scores[:, None] - scores[None, :]) - 0.5)).sum(axis=1)
        return excess

    def total_loss(self, scores: Floats, link: Link) -> float:
        """``sum_{u<v} n_uv l(theta_u - theta_v; 1/2)``."""
        return float((self.table * link.loss(scores[:, None] - scores[None, :], 0.5)).sum()) / 2.0

    def newton_step(self, scores: Floats, gradient: Floats, link: Link, ridge: float, labels: Labels) -> Floats:
        """``-H^-1 gradient`` with ``H`` the weighted Laplacian plus ``ridge`` on the diagonal, centred."""
        hessian = laplacian(self.table * link.density(scores[:, None] - scores[None, :]))
        lift = max(ridge, _least_curvature(self.table))
        size = max(float(np.trace(hessian)) / len(scores), lift)
        # A constant on the whole of a component is in the null space without the ridge; fill it, steps are centred.
        hessian += np.where(labels[:, None] == labels[None, :], size / np.bincount(labels)[labels], 0.0)
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
    """Answers as pairs ``first < second`` with ``count`` > 0, among ``m`` items."""

    m: int
    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    count: Floats

    def to_dense(self) -> Floats:
        """The table, shape (m, m)."""
        table = np.zeros((self.m, self.m))
        table[self.first, self.second] = table[self.second, self.first] = self.count
        return table

    def _spread(self, values: Floats, sign: float) -> Floats:
        """Sum over the pairs of an item: a value for the first item, ``sign`` times it for the second."""
        first = np.bincount(self.first, weights=values, minlength=self.m)
        spread: Floats = first + sign * np.bincount(self.second, weights=values, minlength=self.m)
        return spread

    def totals(self) -> Floats:
        """``n_u = sum_v n_uv``, shape (m,)."""
        return self._spread(self.count, 1.0)

    def components(self) -> Labels:
        """Shape (m,): the same label, from 0 up, for items that a chain of compared pairs joins."""
        return _labels(sparse.csr_array((self.count, (self.first, self.second)), shape=(self.m, self.m)))

    def excess(self, scores: Floats, link: Link) -> Floats:
        """``sum_v n_uv (F(theta_u - theta_v) - 1/2)``, the expected wins less half the answers, shape (m,)."""
        return self._spread(self.count * (link.cdf(scores[self.first] - scores[self.second]) - 0.5), -1.0)

    def total_loss(self, scores: Floats, link: Link) -> float:
        """``sum_{u<v} n_uv l(theta_u - theta_v; 1/2)``."""
        return float(self.count @ link.loss(scores[self.first] - scores[self.second], 0.5))

    def newton_step(self, scores: Floats, gradient: Floats, link: Link, ridge: float, labels: Labels) -> Floats:
        """``-H^-1 gradient`` by conjugate gradients, to a precision that grows as the gradient falls, centred."""
        weights = self.count * link.density(scores[self.first] - scores[self.second])
        diagonal = self._spread(weights, 1.0) + max(ridge, _least_curvature(self.count))
        every = np.arange(self.m)
        rows = np.concatenate([self.first, self.second, every])
        columns = np.concatenate([self.second, self.first, every])
        entries = np.concatenate([-weights, -weights, diagonal])
        hessian = sparse.csr_array((entries, (rows, columns)), shape=(self.m, self.m))
        relative = float(np.abs(gradient).max() / max(self.count.max(initial=0.0), 1.0))
        # A truncated solution is a descent direction too: running out of iterations only costs a Newton step.
        step, _ = cg(
            hessian,
            -gradient,
            rtol=max(min(0.01, relative), 1e-8),
            atol=0.0,
            maxiter=10 * self.m,
            M=sparse.diags_array(1.0 / diagonal),
        )
        return centre(step, labels)


def as_answers(answers: Any) -> DenseAnswers | SparseAnswers:
    """Check a symmetric table of finite numbers >= 0 with a zero diagonal, dense or scipy.sparse.

    Raises
    ------
    ParameterError
        naming what is wrong. Tables symmetric up to rounding (1e-9) are taken as their symmetric part.
    """
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
    if not is_sparse and m <= DENSE_ITEMS:
        return DenseAnswers(table)
    upper = sparse.coo_array(sparse.triu(table, 1))
    kept = upper.data > 0
    return SparseAnswers(m, upper.row[kept].astype(np.intp), upper.col[kept].astype(np.intp), upper.data[kept])


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
    off = weights - np.diag(np.diagonal(weights))
    result: Floats = np.diag(off.sum(axis=1)) - off
    return result

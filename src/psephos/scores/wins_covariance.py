"""The covariance of the wins of so many items that a table of all pairs would fill memory.

``J = rows^T rows + matrix``: people who are independent of each other, each with the answers of a few items, and a
sparse rest. To measure standard errors (:mod:`psephos.scores.sparse_errors`), what is needed of J are products, its
diagonal, and draws of covariance J: signs for people, and for the pairs ``a (e_u + s e_v)(e_u + s e_v)^T`` of which the
rest is a sum wherever its diagonal outweighs its other entries, as in the Laplacian of independent answers. Any other
rest is drawn by a root that Lanczos steps approximate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from psephos.errors import ParameterError
from psephos.scores.answers import real_array

__all__ = ["WinsCovariance"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

_CHEAP = 2e7  # products of two answers of one person
_ROOT_STEPS = 100  # of Lanczos
_ROOT = 1e-3  # what five more of them change


class WinsCovariance:
    """J for many items: people's residuals, pairs of items, or both, never as a full table.

    ``J = rows^T rows + matrix``.

    Parameters
    ----------
    matrix
        a symmetric, positive semidefinite scipy.sparse array of shape (m, m), in answers squared.
    rows
        scipy.sparse, shape (people, m): wins less expected wins of people who are independent of each other.

    Raises
    ------
    ParameterError
        if shapes differ or entries are not finite.

    >>> J = WinsCovariance(sparse.csr_array([[1.0, -1.0], [-1.0, 1.0]]), rows=sparse.csr_array([[0.5, -0.5]]))
    >>> J.toarray().tolist(), J.diagonal().tolist()
    ([[1.25, -1.25], [-1.25, 1.25]], [1.25, 1.25])
    """

    __slots__ = ("_excess", "_general", "_others", "_rows", "_upper", "m")

    def __init__(self, matrix: Any, *, rows: Any = None) -> None:
        table: Any = sparse.csr_array(matrix)
        real_array(table.data, "wins_covariance", ndim=1)
        if table.shape[0] != table.shape[1]:
            raise ParameterError(f"wins_covariance must be square, got shape {table.shape}")
        upper: Any = sparse.csr_array(sparse.triu(table, 1))
        self._set(upper, table.diagonal() - _both(abs(upper)), rows)

    @classmethod
    def of_pairs(cls, upper: Any, *, rows: Any = None) -> WinsCovariance:
        """J of independent answers: the Laplacian of weights >= 0, given as a strict upper triangle of shape (m, m)."""
        self = cls.__new__(cls)
        self._set(-upper, np.zeros(upper.shape[0]), rows)
        return self

    def _set(self, upper: Any, excess: Floats, rows: Any) -> None:
        self.m: int = upper.shape[0]
        self._upper = upper
        self._others = _both(abs(upper))
        diagonal = excess + self._others
        self._excess = excess
        # Where the diagonal outweighs the rest, J is a sum of squares of pairs; else its root is taken by iteration.
        self._general = bool((excess < -1e-9 * np.abs(diagonal)).any())
        if not self._general:
            self._excess = np.maximum(excess, 0.0)
        self._rows: Any = None
        if rows is not None:
            self._rows = sparse.csr_array(rows)
            real_array(self._rows.data, "rows", ndim=1)
            if self._rows.shape[1] != self.m:
                raise ParameterError(f"rows must have one column an item ({self.m}), got shape {self._rows.shape}")

    def diagonal(self) -> Floats:
        """Variances of the wins, shape (m,)."""
        diagonal = self._excess + self._others
        if self._rows is not None:
            squares = sparse.csr_array(
                (self._rows.data**2, self._rows.indices, self._rows.indptr), shape=self._rows.shape
            )
            diagonal = diagonal + squares.T @ np.ones(squares.shape[0])
        return diagonal

    def toarray(self) -> Floats:
        """The full table, shape (m, m)."""
        table: Floats = self @ np.eye(self.m)
        return table

    def __matmul__(self, columns: Floats) -> Floats:
        """J times an array of shape (m,) or (m, k)."""
        product: Floats = self._pairs(columns)
        if self._rows is not None:
            product += self._rows.T @ (self._rows @ columns)
        return product

    def _pairs(self, columns: Floats) -> Floats:
        diagonal = (self._excess + self._others)[(...,) + (None,) * (columns.ndim - 1)]
        product: Floats = self._upper @ columns + self._upper.T @ columns + diagonal * columns
        return product

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """Two independent arrays of shape (m, count), columns of covariance ``matrix`` and of ``rows^T rows``."""
        pairs = np.empty((self.m, count))
        for column in range(count):
            pairs[:, column] = self._draw_pairs(rng)
        people = np.zeros((self.m, count))
        if self._rows is not None:
            people += self._rows.T @ _signs(rng, (self._rows.shape[0], count))
        return pairs, people

    def _draw_pairs(self, rng: np.random.Generator) -> Floats:
        if self._general:
            return _root(self._pairs, self._excess + self._others, _signs(rng, (self.m,)))
        upper = self._upper
        each = np.sqrt(np.abs(upper.data))
        each *= _signs(rng, (len(each),))
        ones = np.ones(self.m)
        first = sparse.csr_array((each, upper.indices, upper.indptr), shape=upper.shape) @ ones
        each *= np.sign(upper.data)
        second = sparse.csr_array((each, upper.indices, upper.indptr), shape=upper.shape).T @ ones
        draw: Floats = first + second + np.sqrt(self._excess) * _signs(rng, (self.m,))
        return draw

    def within(self, labels: Labels) -> WinsCovariance:
        """The same without its entries between components, which say nothing about scores."""
        if not labels.any():
            return self
        pairs, rows = self._upper.tocoo(), None
        own = labels[pairs.row] == labels[pairs.col]
        upper = sparse.csr_array((pairs.data[own], (pairs.row[own], pairs.col[own])), shape=pairs.shape)
        if self._rows is not None:  # a person who answered in two components becomes two
            each = self._rows.tocoo()
            split = each.row.astype(np.int64) * (int(labels.max()) + 1) + labels[each.col]
            parts, place = np.unique(split, return_inverse=True)
            rows = sparse.csr_array((each.data, (place, each.col)), shape=(len(parts), self.m))
        blocks = type(self).__new__(type(self))
        blocks._set(upper, self._excess + self._others - _both(abs(upper)), rows)
        return blocks

    def sums(self) -> tuple[Floats, Floats]:
        """Sums of the rows of ``matrix`` and of ``rows^T rows``, shape (m,) each."""
        ones = np.ones(self.m)
        people = np.zeros(self.m)
        if self._rows is not None:
            people += self._rows.T @ (self._rows @ ones)
        return self._pairs(ones), people

    def overlap(self, weights: Any, scale: Floats) -> tuple[Floats, bool]:
        """``(A S J)_uu`` for A of an upper triangle of weights and S = diag(scale), and whether ``rows`` are in it."""
        known = self._upper
        whole = self._rows is None
        if not whole and float((np.diff(self._rows.indptr).astype(np.float64) ** 2).sum()) <= _CHEAP:
            known = known + sparse.csr_array(sparse.triu(self._rows.T @ self._rows, 1))
            whole = True
        common = weights.multiply(known).tocsr()
        overlap: Floats = common @ scale + common.T @ scale
        return overlap, whole


def _both(upper: Any) -> Floats:
    """Sums of rows of the symmetric array that has this strict upper triangle."""
    ones = np.ones(upper.shape[0])
    sums: Floats = upper @ ones + upper.T @ ones
    return sums


def _root(product: Callable[[Floats], Floats], diagonal: Floats, start: Floats) -> Floats:
    """``S J'^(1/2) start`` with ``J = S J' S`` scaled to a diagonal of 1: a draw of covariance J, by Lanczos steps.

    Precise where J' is well conditioned; its slowest modes come last, and they are taken out before draws are used.
    """
    scale = np.sqrt(np.maximum(diagonal, 0.0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    size = float(np.linalg.norm(start))
    basis = [start / size]
    alphas: list[float] = []
    betas: list[float] = []
    found = np.zeros(0)
    for step in range(1, min(_ROOT_STEPS, len(start)) + 1):
        image = inverse * product(inverse * basis[-1])
        alphas.append(float(image @ basis[-1]))
        vectors = np.stack(basis)
        for _ in range(2):
            image = image - vectors.T @ (vectors @ image)
        beta = float(np.linalg.norm(image))
        last = beta <= 1e-10 or step == min(_ROOT_STEPS, len(start))
        if step % 5 == 0 or last:
            values, rotation = linalg.eigh_tridiagonal(np.array(alphas), np.array(betas))
            before, found = found, rotation @ (np.sqrt(np.maximum(values, 0.0)) * rotation[0])
            if last or np.linalg.norm(found - np.pad(before, (0, len(found) - len(before)))) <= _ROOT:
                break
        betas.append(beta)
        basis.append(image / beta)
    draw: Floats = scale * (size * found @ np.stack(basis))
    return draw


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Fair signs +-1."""
    size = math.prod(shape)
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-size // 8)), dtype=np.uint8), count=size)
    signs: Floats = bits.reshape(shape).astype(np.float64)
    signs *= 2.0
    signs -= 1.0
    return signs

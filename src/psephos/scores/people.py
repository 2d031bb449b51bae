"""How much of a fit hangs on single people, and what that does to its intervals.

With H the Hessian of a fit and A its inverse on differences, the error of a contrast l is about ``sum_p c_p``, with
``c_p = a.r_p`` what person p adds, ``a = A l``. Of the information on l, the person's own answers hold the share

    h_p = a.H_p a / a.H a,      sum_p h_p = 1,      H_p the person's part of H.

A fit follows those who hold much. Three things answer that (docs/proofs/local.md, section 7):

* **Residuals** of a person who holds more than 2 % of some contrast become ``(I - H_p A)^(-1/2) r_p``, shares above .9
  counted as .9; and for a share x, ``min(1, (4 x)^3) / 4`` of what alike answers to one pair would add is added.
* **Degrees of freedom** are those of the Student law whose quantile at level .95 is q,

      q^2 = (1 - beta) T^2 / (1 - kappa T^2),      beta = sum_p h_p v_p / sum_p v_p,      kappa = 2 beta - sum_p h_p^2,

  with ``v_p = n_p h_p`` as if the n_p answers of a person were wholly alike, and T^2 the quantile for
  ``K = (sum_p v_p)^2 / sum_p v_p^2`` like people: P - 1 for P like people, infinite where each holds little.
* **Nobody alone.** Where one person holds more than half of the information on l, its freedom is 0: the interval is the
  whole line.

Sources: R. Bell and D. McCaffrey (2002), "Bias reduction in standard errors for linear regression with multi-stage
samples"; G. Imbens and M. Kolesar (2016), "Robust standard errors in small samples".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg

from psephos.scores.answers import laplacian
from psephos.scores.intervals import student_quantile

__all__ = ["Freedom", "Person", "PersonTable", "freedom_of_items", "freedom_of_pairs"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

_LIGHT = 0.02  # of the information on any contrast: whoever holds less is not looked at alone
_WORK = 2e9  # of m^2 times the items of a person, summed over people looked at one by one
_HALF = 0.5 + 1e-9  # two like people hold a half each, up to rounding
_MOST = 0.9  # a share beyond which residuals say nothing and grow no more
_TAIL = 0.025
_GRID = np.concatenate([np.geomspace(0.01, 1.0, 60), np.geomspace(1.02, 1e5, 400)])
_QUANTILES = student_quantile(_TAIL, _GRID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The answers of one person, or of ``count`` people with the same: k items, weights of pairs, residuals.

    ``weights``: shape (k, k), symmetric, how much the person answered on each pair. ``residual``: shape (k,), wins less
    expected wins.
    """

    items: Labels
    weights: Floats
    residual: Floats
    count: float = 1.0


class PersonTable(Protocol):
    """Answers by person, for people with several of them."""

    def traces(self, table: Floats) -> Floats:
        """Sums of a symmetric table, shape (m, m), over the answers of each person; 0 for whoever gave one."""
        ...

    def totals(self, each: Floats) -> Floats:
        """``sum_p each_p W_p``, shape (m, m), over all people, W_p the weights of p's answers."""
        ...

    def sizes(self) -> Floats:
        """The weight of all answers of each person."""
        ...

    def numbers(self) -> Floats:
        """How many people each stands for."""
        ...

    def people(self, chosen: Labels) -> Iterator[Person]:
        """Some of them, one by one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Freedom:
    """Degrees of freedom of scores, shape (m,), and of differences, shape (m, m), or None: the lesser of the two."""

    scores: Floats
    differences: Floats | None


def freedom_of_pairs(table: PersonTable, density: Floats, inverse: Floats) -> tuple[Freedom, Floats]:
    """Degrees of freedom of all scores and differences; and what corrected residuals add to the covariance of the wins.

    Parameters
    ----------
    table
        who answered what.
    density
        f of each pair at the fit, shape (m, m).
    inverse
        A, shape (m, m), rows of sum 0 on each component.
    """
    m = len(inverse)
    reach = _spread(inverse)
    trace = table.traces(density * reach)
    heavy: Labels = np.flatnonzero(trace > _LIGHT).astype(np.intp)
    heavy = heavy[np.argsort(-trace[heavy], kind="stable")]
    size = table.sizes()
    alike = np.maximum(_forms(table.totals(size) * density, inverse), 1e-300)  # sum_p n_p a.H_p a
    shares, squares, products, uneven = (np.zeros((m, m)) for _ in range(4))  # sums of h, h^2, n h^2 and (n h)^2
    held = np.zeros((m, m), dtype=np.bool_)
    added = np.zeros((m, m))
    whole = _forms_of(inverse)
    whole[whole <= 1e-12 * whole.max(initial=0.0)] = np.inf
    bound = np.where(trace > 0, np.minimum(trace, 1.0), 0.0)
    work = 0.0
    answered = table.totals(np.ones(len(size)))
    own_total = (answered * density).sum(axis=1)
    for p, person in zip(heavy.tolist(), table.people(heavy), strict=True):
        s = np.ix_(person.items, person.items)
        most = float((person.weights / np.maximum(answered[s], 1e-300)).max(initial=0.0))
        bound[p] = min(bound[p], most)
        work += len(person.items) * (float(m) ** 2 + 10.0 * len(person.items) ** 2)
        if most <= _LIGHT:
            continue
        information = person.weights * density[s]
        if work > _WORK:  # as if each item hung on its own answers
            share = information.sum(axis=1) / np.maximum(own_total[person.items], 1e-300)
            bound[p] = min(bound[p], float(share.max()))
            continue
        bound[p] = 0.0
        values, vectors = linalg.eigh(laplacian(information))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        part, turn = linalg.eigh(root.T @ inverse[s] @ root)
        part = np.clip(part, 0.0, _MOST)
        root = root @ turn
        image = inverse[:, person.items] @ root
        own = _forms_of(image @ image.T)
        h = np.minimum(own / whole, 1.0)
        held |= h > _HALF
        shares += person.count * h
        squares += person.count * h**2
        products += person.count * size[p] * h * own
        uneven += person.count * (size[p] * own) ** 2
        # (I - H_p A)^(-1/2) r, with H_p A = root root^T A.
        grown = np.where(part > 1e-9, ((1.0 - part) ** -0.5 - 1.0) / np.maximum(part, 1e-9), 0.5)
        before = person.residual
        after = before + root @ (grown * (image[person.items].T @ before))
        x = float(part.max(initial=0.0))
        some = 0.25 * min(1.0, (4.0 * x) ** 3)
        added[s] += person.count * (np.outer(after, after) - np.outer(before, before))
        added[s] += person.count * some * laplacian(person.weights**2 * density[s])
    beta = products / alike
    if bound.any():
        beta = beta + _forms(table.totals(size * bound) * density, inverse) / alike
        # The sum of their h^2 is at least that of as many like people.
        light = _forms(table.totals((bound > 0).astype(np.float64)) * density, inverse) / whole
        squares += light**2 / float(table.numbers()[bound > 0].sum())
    freedom = _equivalent(beta, 2.0 * beta - squares, alike**2 / np.maximum(uneven, 1e-300), 1.0 - shares)
    freedom[held] = 0.0
    return Freedom(scores=np.diagonal(freedom).copy(), differences=freedom), added


def freedom_of_items(share: Floats, several: npt.NDArray[np.bool_], size: Floats, item: Labels, m: int) -> Freedom:
    """The same item by item, where a table of all pairs would be too large: as if each score hung on its own answers.

    Parameters
    ----------
    share, several, size, item
        one entry for each person and item: the person's share of the information of the item's answers, whether the
        person gave several of them, their weight, and which item.
    m
        the number of items.
    """

    def total(values: Floats) -> Floats:
        return np.bincount(item, weights=values, minlength=m).astype(np.float64)

    alike = np.maximum(total(size * share), 1e-300)
    h = np.where(several, share, 0.0)
    beta, uneven = total(size * h**2) / alike, np.maximum(total((size * h) ** 2), 1e-300)
    freedom = _equivalent(beta, 2.0 * beta - total(h**2), alike**2 / uneven, 1.0 - total(h))
    freedom[item[h > _HALF]] = 0.0
    return Freedom(scores=freedom, differences=None)


def _equivalent(beta: Floats, kappa: Floats, like: Floats, light: Floats) -> Floats:
    """Degrees of freedom of the Student law with the quantile q of the module at level .95; 0 where there is none."""
    t = student_quantile(_TAIL, np.maximum(like - 1.0, 0.01))
    square = like * t**2 / (like - 1.0 + t**2)
    square = square + np.clip(light, 0.0, 1.0) * (_QUANTILES[-1] ** 2 - square)
    rest = 1.0 - kappa * np.minimum(square, like)
    q = np.sqrt(np.maximum(1.0 - beta, 0.0) * square / np.where(rest > 1e-9, rest, 1.0))
    found: Floats = np.interp(q, _QUANTILES[::-1], _GRID[::-1])
    found = np.where(q <= _QUANTILES[-1], np.inf, found)
    return np.where((rest <= 1e-9) | (q > _QUANTILES[0]), 0.0, found)


def _spread(table: Floats) -> Floats:
    """``x_uu + x_vv - 2 x_uv``."""
    own = np.diagonal(table)
    spread: Floats = own[:, None] + own[None, :] - 2.0 * table
    return np.maximum(spread, 0.0)


def _forms_of(product: Floats) -> Floats:
    """Values of a quadratic form at differences, shape (m, m), and at scores, on the diagonal, from that at units."""
    forms = _spread(product)
    np.fill_diagonal(forms, np.diagonal(product))
    return forms


def _forms(weights: Floats, inverse: Floats) -> Floats:
    """The same for the Laplacian of weights between two inverses."""
    return _forms_of(inverse @ laplacian(weights) @ inverse)

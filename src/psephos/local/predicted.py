"""How sure scores will be, before anything was asked: the sandwich of a fit to reports that do not exist yet.

m items, D = m(m-1)/2 pairs, L people; a person of kind g (a share p_g of all) answers k_g different pairs, drawn
uniformly, each with weight w_g. A pair has ``n = (L/D) sum_g p_g k_g w_g`` answers in expectation, F and f are the link
and its density at the differences of the guessed scores, and ``Lap(c)`` is the Laplacian of a table c. Then

    H = n Lap(f),      J = (L/D) sum_g p_g w_g^2 [ k_g Lap(V_g/4 - (F - 1/2)^2) + k_g (k_g - 1)/(D - 1) C ],

and the scores have covariance ``H^+ J H^+``, as in :mod:`psephos.scores.intervals`. ``V_g`` is the second moment of a
debiased margin; with three outcomes it falls as the share of ties grows, ``min(t, 2 min(F, 1 - F))`` of a pair.

**Answers of one person** by one ranking, drawn from independent utilities U_u (Gumbel for the logistic link, normal
of variance 1/2 for the normal one), agree with each other: C sums ``Cov(1[u > v], 1[u > w])`` over couples of pairs
that share an item, ``int G_v G_w dG_u - F_uv F_uw`` with G_v the distribution function of U_v. The integrals are sums
over equally spaced nodes, which err by less than 1e-12, and sums over items are taken first: m^2 times the number of
nodes, and no m^3. If answers are independent, C = 0. With ties C shrinks by ``(1 - t)^2``. With equal scores all is a
multiple of the centring projection (docs/proofs/local.md, section 9).

**What follows from a covariance.** Ranks: q standard errors, the quantile of the largest of all differences, is taken
as that of the range of m independent normal variables over sqrt(2); exact for equal scores, and on the safe side, by
little, else (Tukey and Kramer; Hayter 1984). The top K are right if the least of the K best estimates is above the
greatest of the rest; with independent errors of variances d_u, fitted so that ``d_u + d_v`` is about the variance of
each difference that matters, that is one integral; beside simulations it errs by .01 at most where the chance is above
.9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from psephos.errors import ParameterError
from psephos.local.columns import margin_moments
from psephos.local.reports import Mechanism
from psephos.scores.answers import DENSE_ITEMS, laplacian
from psephos.scores.links import Link

__all__ = [
    "Answering",
    "ErrorShape",
    "Population",
    "best_answers",
    "population",
    "range_quantile",
    "ranking_covariance",
]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_LEAST_DENSITY = 1e-5  # of the widest difference of guessed scores, relative to f(0): squared, what doubles resolve

#: What holds the variances of :meth:`ErrorShape.top_chance` where the diagonal puts them, against the closest pair.
_STAY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """How one kind of person answers: ``share`` of all people, ``pairs`` answers, each of ``weight`` and moments."""

    share: float
    pairs: int
    weight: float
    moment: float
    tied_moment: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Population:
    """What people are taken to think, reduced to what errors depend on.

    Attributes
    ----------
    items
        m.
    scores
        the guess, shape (m,), with mean 0.
    link, ties
        as given; ``ties`` before it is cut where scores leave less room.
    parts
        mean variances of a score for ``D H^-1 Lap(c) H^-1`` with c = 1, the tie share and ``(F - 1/2)^2``, and for
        C in place of ``Lap(c)``.
    matrices
        ``Lap(f)^+``, ``Lap(1)``, ``Lap(ties)``, ``Lap((F - 1/2)^2)`` and C; ``None`` with equal scores.
    """

    items: int
    scores: Floats
    link: Link
    ties: float
    parts: tuple[float, float, float, float]
    matrices: tuple[Floats, ...] | None

    @property
    def pairs(self) -> int:
        """D."""
        return self.items * (self.items - 1) // 2

    def variance(self, kinds: tuple[Answering, ...]) -> float:
        """Mean variance of a score about the mean, for one person: divide by their number."""
        return sum(c * part for c, part in zip(self._coefficients(kinds), self.parts, strict=True))

    def mean_errors(self, kinds: tuple[Answering, ...]) -> ErrorShape:
        """What is known of the errors without a covariance: means over the items."""
        return ErrorShape(scores=self.scores, variance=self.variance(kinds), covariance=None)

    def errors(self, kinds: tuple[Answering, ...]) -> ErrorShape:
        """The covariance of the scores, for one person."""
        if self.matrices is None:
            return self.mean_errors(kinds)
        bread, *meats = self.matrices
        middle = np.zeros_like(bread)
        for c, meat in zip(self._coefficients(kinds), meats, strict=True):
            middle += c * meat
        covariance = self.pairs * (bread @ middle @ bread)
        covariance = (covariance + covariance.T) / 2.0
        return ErrorShape(scores=self.scores, variance=float(np.trace(covariance)) / self.items, covariance=covariance)

    def _coefficients(self, kinds: tuple[Answering, ...]) -> tuple[float, float, float, float]:
        answers = sum(kind.share * kind.pairs * kind.weight for kind in kinds)
        noise = tied = signal = shared = 0.0
        for kind in kinds:
            amount = kind.share * kind.pairs * (kind.weight / answers) ** 2
            noise += amount * kind.moment / 4.0
            tied -= amount * kind.tied_moment / 4.0
            signal -= amount
            shared += amount * (kind.pairs - 1) / max(self.pairs - 1, 1)
        return noise, tied, signal, shared


def population(items: int, scores: Floats | None, *, link: Link, ties: float, one_ranking: bool) -> Population:
    """The errors that a guess of the scores leads to (``None``: all equal, in closed form).

    Raises
    ------
    ParameterError
        if the guess is too wide for any number of answers, or there are too many items for one, or answers by one
        ranking were asked for under a link that belongs to no law of utilities that is known here.
    """
    if scores is None or not np.ptp(scores):
        each = 1.0 / float(link.density(np.zeros(1))[0]) ** 2 * (items - 1) ** 2 / (2.0 * items)
        shared = (1.0 - ties) ** 2 * (items - 2) / 12.0 if one_ranking else 0.0
        parts = (each, each * ties, 0.0, each * shared)
        return Population(items=items, scores=np.zeros(items), link=link, ties=ties, parts=parts, matrices=None)
    if items > DENSE_ITEMS:
        raise ParameterError(f"scores must be absent (all equal) for more than {DENSE_ITEMS} items, got {items} items")
    theta = scores - scores.mean()
    x = theta[:, None] - theta[None, :]
    density = link.density(x)
    if not float(density.min()) > _LEAST_DENSITY * float(link.density(np.zeros(1))[0]):
        raise ParameterError(
            "scores must be so near each other that answers between the best and the worst are in doubt (density at "
            "least 1e-5 of that between equal items: a range of about 12 for the logistic link, 4.7 for the normal "
            f"one), got a range of {np.ptp(theta):g}"
        )
    cdf = link.cdf(x)
    tied = np.minimum(ties, 2.0 * np.minimum(cdf, 1.0 - cdf))
    free = (1.0 - float(tied.sum() - np.trace(tied)) / (items * (items - 1))) ** 2
    shared_table = free * ranking_covariance(theta, link) if one_ranking else np.zeros((items, items))
    bread = _projected_inverse(laplacian(density))
    meats = (laplacian(np.ones((items, items))), laplacian(tied), laplacian((cdf - 0.5) ** 2), shared_table)
    square = bread @ bread
    pairs = items * (items - 1) / 2.0
    noise, tie, signal, shared = (pairs * float((square * meat).sum()) / items for meat in meats)
    return Population(
        items=items,
        scores=theta,
        link=link,
        ties=ties,
        parts=(noise, tie, signal, shared),
        matrices=(bread, *meats),
    )


def _projected_inverse(hessian: Floats) -> Floats:
    """The pseudo-inverse of the Laplacian of a connected graph."""
    m = len(hessian)
    size = float(np.trace(hessian)) / m
    inverse: Floats = linalg.inv(hessian + size / m, assume_a="pos") - 1.0 / (size * m)
    return inverse


def ranking_covariance(scores: Floats, link: Link) -> Floats:
    """C, shape (m, m): what answers by one ranking add to the covariance of the wins of all D answers.

    Raises
    ------
    ParameterError
        for a link other than the logistic and the normal one.

    >>> from psephos.scores import LOGISTIC
    >>> ranking_covariance(np.zeros(3), LOGISTIC).round(6).tolist()[0]
    [0.166667, -0.083333, -0.083333]
    """
    m = len(scores)
    x, step = _nodes(scores, link)
    t = x[None, :] - scores[:, None]
    if link.name == "logistic":
        below = np.exp(-np.exp(-t))
        mass = step * np.exp(-t - np.exp(-t))
    else:
        below = ndtr(t * math.sqrt(2.0))
        mass = step * np.exp(-t * t) / math.sqrt(math.pi)
    wins = (mass @ below.T) * (1.0 - np.eye(m))  # F_uv, 0 on the diagonal
    # sum over u of int G_v G_w dG_u - F_uv F_uw, u other than v and w
    crossed = (below * mass) @ below.T
    table: Floats = (below * mass.sum(axis=0)) @ below.T - crossed - crossed.T - wins.T @ wins
    np.fill_diagonal(table, 0.0)
    # row[u, v] = sum over w other than u, v of c_u(v, w)
    everything = below.sum(axis=0)
    row = (mass * (everything - below)) @ below.T - mass @ (below**2).T
    row -= wins * (wins.sum(axis=1, keepdims=True) - wins)
    np.fill_diagonal(row, 0.0)
    table -= row + row.T
    np.fill_diagonal(table, row.sum(axis=1))
    return table


def _nodes(scores: Floats, link: Link) -> tuple[Floats, float]:
    """Equally spaced nodes that hold all utilities up to 1e-14, and their distance."""
    if link.name == "logistic":
        low, high, step = float(scores.min()) - 4.0, float(scores.max()) + 34.0, 0.25
    elif link.name == "normal":
        low, high, step = float(scores.min()) - 6.0, float(scores.max()) + 6.0, 0.125
    else:
        raise ParameterError(
            f"answers must be 'independent' for a guess of scores under the link {link.name!r}, got 'ranking'"
        )
    count = math.ceil((high - low) / step) + 1
    nodes: Floats = np.linspace(low, low + step * (count - 1), count)
    return nodes, step


def best_answers(people: Population, epsilon: float, *, mechanism: Mechanism) -> int:
    """The number k of pairs that makes the variance of a score least, ``epsilon`` being spent on all of them.

    One person's variance is ``((A V(eps/k) - B)/4 + (k - 1) C)/k``. V - 1 falls to 0 as exp(-eps/k), so that k never is
    worth more than epsilon; where V is steep, small epsilon, k = 1.
    """
    most = min(people.pairs, math.ceil(epsilon) + 1)
    k = np.arange(1, most + 1)
    moment, tied_moment = margin_moments(epsilon / k, mechanism)
    noise, tied, signal, shared = people.parts
    variance = moment * noise / 4.0 - tied_moment * tied / 4.0 - signal + (k - 1) * shared / max(people.pairs - 1, 1)
    return int(k[np.argmin(variance / k)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ErrorShape:
    """The covariance of scores for one person; that of L people is an L-th of it.

    Attributes
    ----------
    scores
        the guess, shape (m,).
    variance
        the mean over the items.
    covariance
        shape (m, m), or ``None`` for ``variance m/(m-1) (I - 11^T/m)``.
    """

    scores: Floats
    variance: float
    covariance: Floats | None

    def score_errors(self, people: int) -> Floats:
        """Standard error of each score about the mean, shape (m,)."""
        if self.covariance is None:
            return np.full(len(self.scores), math.sqrt(self.variance / people))
        errors: Floats = np.sqrt(np.diagonal(self.covariance) / people)
        return errors

    def difference_error(self, people: int) -> float:
        """Root mean square of the standard errors of all differences; covariances sum to 0 in each row."""
        m = len(self.scores)
        return math.sqrt(2.0 * self.variance * m / (m - 1) / people)

    def ratios(self) -> Floats | None:
        """``|theta_u - theta_v|`` in standard errors of one person, of all pairs; ``None`` if all are 0."""
        if self.covariance is None:
            return None
        first, second = np.triu_indices(len(self.scores), 1)
        variances = np.diagonal(self.covariance)
        errors = variances[first] + variances[second] - 2.0 * self.covariance[first, second]
        ratios: Floats = np.abs(self.scores[first] - self.scores[second]) / np.sqrt(errors)
        return ratios

    def top_chance(self, top: int) -> Callable[[int], float]:
        """The chance, for so many people, that the ``top`` items of largest score get the largest estimates.

        ``1 <= top < m``, and the scores must tell these items apart from the rest.
        """
        order = np.argsort(-self.scores, kind="stable")
        best, rest = order[:top], order[top:]
        variances = self._independent(best, rest)
        nodes, weights = np.polynomial.legendre.leggauss(400)

        def chance(people: int) -> float:
            sd = np.sqrt(variances / people)
            low = float((self.scores[rest] - 9.0 * sd[rest]).max())
            high = float(min((self.scores[best] + 9.0 * sd[best]).min(), (self.scores[rest] + 9.0 * sd[rest]).max()))
            x = low + (high - low) * (nodes + 1.0) / 2.0
            t = (x[None, :] - self.scores[:, None]) / sd[:, None]
            below = log_ndtr(t[rest])
            # the density of the greatest of the rest, times the chance that all of the best lie above
            log_density = -0.5 * t[rest] ** 2 - np.log(sd[rest, None] * math.sqrt(2.0 * math.pi)) - below
            right = below.sum(axis=0) + log_ndtr(-t[best]).sum(axis=0)
            total = float(weights @ np.exp(log_density + right).sum(axis=0)) * (high - low) / 2.0
            return min(max(total, 0.0), 1.0)

        return chance

    def _independent(self, best: Indices, rest: Indices) -> Floats:
        """d, shape (m,), with ``d_u + d_v`` about the variance of each difference between the best and the rest.

        The covariance is about ``P diag(d) P`` for the d that its diagonal gives; from there one weighted fit, in
        which pairs count by how close they are, against the closest.
        """
        m = len(self.scores)
        total = self.variance * m * m / (m - 1)
        if self.covariance is None or m == 2:
            return np.full(m, total / m)
        variances = np.diagonal(self.covariance)
        start = np.maximum((variances - total / m**2) / (1.0 - 2.0 / m), 1e-3 * total / m)
        wanted = variances[best, None] + variances[rest] - 2.0 * self.covariance[np.ix_(best, rest)]
        z = (self.scores[best, None] - self.scores[rest]) / np.sqrt(wanted)
        with np.errstate(over="ignore"):  # a closest pair that is hardly apart, beside others
            weights = np.exp(-0.5 * (z / z.min()) ** 2)
        d = start.copy()
        ridge = _STAY * weights.max()
        for _ in range(50):
            d[best] = (ridge * start[best] + (weights * (wanted - d[rest])).sum(axis=1)) / (ridge + weights.sum(axis=1))
            pulled = (weights * (wanted - d[best, None])).sum(axis=0)
            d[rest] = (ridge * start[rest] + pulled) / (ridge + weights.sum(axis=0))
        return np.maximum(d, 1e-3 * total / m)


def range_quantile(m: int, level: float) -> float:
    """q: the largest ``|e_i - e_j| / sqrt(2)`` of m independent standard normal variables is below it at ``level``.

    ``P(range <= r) = m int phi(x) (Phi(x + r) - Phi(x))^(m-1) dx``.

    >>> round(range_quantile(2, 0.95), 6), round(range_quantile(10, 0.95), 4)
    (1.959964, 3.1637)
    """
    x = np.linspace(-9.0, 9.0, 1801)
    density = 0.01 * m * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    start = ndtr(x)

    def excess(r: float) -> float:
        return float(density @ (ndtr(x + r) - start) ** (m - 1)) - level

    return float(brentq(excess, 0.0, 20.0, xtol=1e-12)) / math.sqrt(2.0)

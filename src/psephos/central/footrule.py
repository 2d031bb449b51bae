"""Footrule: the ranking nearest to the ballots in places, from noisy counts. Ballots only; pure or (epsilon, delta).

Rank q has the score ``t_q = m + 1 - 2 q``. A ballot gives item u the score ``s_u``: how many items u beats minus how
many beat u, its row sum in the person's own margins. A strict ballot gives rank q the score t_q; ties and unranked
items give other integers, each either the score of a rank or midway between those of two neighbouring ranks. So each
person gives item u two half-votes: both to the rank whose score is s_u, or one to each of the two nearest. Let
``H[u, k]`` count the half-votes of u at rank k. They are integers whatever the ballots are, and every row sums to 2N,
which is public. The cost of putting u at rank q is, as ``|s - t_q|`` is linear between neighbouring ranks,

    C[u, q] = sum over people of |s_u - t_q| / 2 = sum over k of H[u, k] |k - q| / 2,

and the ranking that minimises the sum of its costs is an assignment of items to ranks. It costs at most twice the
Kemeny optimum: Spearman's footrule lies between Kendall's distance and its double (Diaconis and Graham 1977; with ties
scored like this: Fagin, Kumar, Mahdian, Sivakumar and Vee 2006; aggregation by assignment: Dwork, Kumar, Naor and
Sivakumar 2001). Under ``missing`` an unranked item counts at the middle, and the factor is not proved.

Footrule rankings under differential privacy, by noisy trees of counts, are due to Hillebrand, Manurangsi,
Suppakitpaisarn and Vajanopath (2026, arXiv:2511.11319), who prove the factor 2 with an additive error; the numbers
released here, and their constants, are our own.

**Release.** For every item, with independent integer noise on each number, either

* the *prefix counts* ``G[u, k] = H[u, 1] + ... + H[u, k]`` for k < m, or
* the *tree*: on each of L levels, the sum of every block of neighbouring ranks. Level j < L has ``b^j`` nested blocks,
  as equal as they can be, level L the single ranks; the root 2N is public. b is the largest with ``L b^L <= m``
  (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011).

Everything else sees only these numbers and N: H is estimated by least squares under the known row sum, which is what
makes a tree consistent (Hay, Rastogi, Miklau and Suciu 2010), then the assignment is solved, in doubles: costs that
differ by less than about 1e-12 of the largest count as equal, and equals stand in an order drawn anew each time. A cost
is a sum over many prefixes, and a node of the tree adds the same noise to all of them that it is part of. So prefix
counts give less noise in the costs under normal noise for every m, and under Laplace noise below 21 items; from there
on a tree of two levels does, and from 192 items one of three. The tests compare the variances.

**Sensitivity of prefix counts.** A person adds ``g_k(s) = min(max(s - t_{k+1}, 0), 2)`` to G[u, k], and
``g_1(s) + ... + g_{m-1}(s) = s + m - 1``. All g_k grow with s, so replacing s by s' moves the numbers of one item by
``|s - s'|`` in the l1 norm, those of all items by the l1 distance of the score vectors, which is at most
``2 floor(m^2 / 2)`` (:mod:`psephos.central.borda`). No number moves by more than 2, and a square is then at most twice
the absolute value:

    l1 <= 2 floor(m^2 / 2),        l2^2 <= 4 floor(m^2 / 2),

both attained by a strict ballot and its reverse, which move every number by 0 or 2.

**Sensitivity of the tree.** On one level a person gives an item 2 half-votes, so a replacement moves the item's numbers
there by a - b with vectors a, b >= 0 of sum 2: at most 4 in the l1 norm and ``|a|^2 + |b|^2 <= 8`` squared in the l2
norm. Over m items and L levels

    l1 <= 4 L m,        l2^2 <= 8 L m,

both attained by a strict ballot and the one that moves every item floor(m/2) ranks down, in a circle: then all change
their block of the first level, which has at most ``ceil(m / b) <= floor(m / 2)`` ranks (b >= 3), hence on every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice
from psephos.central.borda import row_sum_sensitivity
from psephos.central.gaussian import gaussian_law
from psephos.central.laplace import laplace_law
from psephos.central.least_noise import noise_event
from psephos.central.margin_sensitivity import MarginSensitivity
from psephos.errors import ParameterError
from psephos.kemeny.cost import as_doubles
from psephos.pairwise.estimate import NoiseLaw
from psephos.pairwise.kernel import MAX_INT64_PEOPLE, Unranked
from psephos.privacy.bits import BitSource
from psephos.privacy.bounded import shuffled
from psephos.privacy.events import DiscreteLaplaceEvent, RoundedGaussianEvent
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array
from psephos.profile.profile import Places, Profile

__all__ = ["footrule_law", "footrule_order", "footrule_sensitivity", "place_counts"]

Family = Literal["none", "discrete-laplace", "rounded-gaussian"]

_TREE, _THIRD_LEVEL = 21, 192  # from so many items on, under Laplace noise
_BLOCK = 1 << 14  # ballots at a time
_MOST_ITEMS = 4096  # tables of items by ranks in doubles


def footrule_sensitivity(m: int, family: Family) -> MarginSensitivity:
    """How far one ballot can move the numbers released under noise of this family (see the module for the proof).

    >>> footrule_sensitivity(4, "rounded-gaussian")
    MarginSensitivity(l1=Fraction(16, 1), l2_squared=Fraction(32, 1))
    """
    levels = len(_tree(m, family))
    l1 = Fraction(4 * levels * m) if levels else row_sum_sensitivity(m).l1
    return MarginSensitivity(l1=l1, l2_squared=2 * l1)


def footrule_law(m: int, *, epsilon: Fraction, delta: Fraction) -> NoiseLaw:
    """The law of the noise on each number: of the two families the one with less noise in the costs; reads no data.

    Raises
    ------
    ParameterError
        for more than 4096 items.
    """
    if m > _MOST_ITEMS:
        raise ParameterError(f"mechanism footrule takes at most {_MOST_ITEMS} items, got {m}")
    laplace = laplace_law(footrule_sensitivity(m, "discrete-laplace"), epsilon=epsilon)
    if not delta:
        return laplace
    gaussian = gaussian_law(footrule_sensitivity(m, "rounded-gaussian"), epsilon=epsilon, delta=delta)
    return min(laplace, gaussian, key=lambda law: Fraction(_spread(_tree(m, law.family), m)) * law.exact_variance)


def footrule_order(
    profile: Profile, law: NoiseLaw, *, unranked: Unranked, bits: BitSource
) -> tuple[tuple[int, ...], RoundedGaussianEvent | DiscreteLaplaceEvent]:
    """An order of the items, best first, and what ran."""
    gaussian = law.family == "rounded-gaussian"
    tree = _tree(profile.m, law.family)
    exact = _sums(place_counts(profile.places, profile.counts, unranked=unranked), tree)
    noise = (rounded_gaussian_array if gaussian else discrete_laplace_array)(law.scale, exact.size, bits)
    if noise.shape != (exact.size,):  # one value would be broadcast, and all numbers share it
        raise RuntimeError(f"the sampler gave noise of shape {noise.shape} for {exact.size} numbers")
    noisy = exact.astype(object) + noise.astype(object).reshape(exact.shape)
    # From here on: the released numbers, public facts and fresh bits alone.
    order = _assignment(noisy, tree, profile.people, shuffled(profile.m, bits))
    return order, noise_event(law, footrule_sensitivity(profile.m, law.family))


def place_counts(places: Places, counts: Sequence[int], *, unranked: Unranked) -> NDArray[Any]:
    """The half-votes ``H[u, k]`` of every item at every rank: shape (m, m), each row sums to twice the people.

    Parameters
    ----------
    places
        Shape ``(m, ballots)``, unsigned: 1 is best, equal numbers tie, 0 is unranked.
    counts
        Multiplicity of each ballot, Python integers >= 1 of any size.

    Returns
    -------
    array of shape (m, m)
        int64 where N <= 2**61, else Python integers (dtype object).

    >>> place_counts(np.array([[1, 1], [2, 1]], dtype=np.uint8), (5, 10), unranked="last").tolist()
    [[20, 10], [10, 20]]
    """
    check_choice(unranked, "unranked", ("last", "missing"))
    m, ballots = places.shape
    kind = np.int64 if sum(counts) <= MAX_INT64_PEOPLE else object
    weights = np.array(counts, dtype=kind)
    result = np.zeros((m, m), dtype=kind)
    for start in range(0, ballots, _BLOCK):
        block, people = places[:, start : start + _BLOCK], weights[start : start + _BLOCK]
        compared = np.ones_like(block, dtype=np.bool_) if unranked == "last" else block > 0
        if unranked == "last":
            block = np.where(block == 0, np.iinfo(block.dtype).max, block)
        for u in range(m):
            won = np.count_nonzero(block[u] < block, axis=0)
            lost = np.count_nonzero((block < block[u]) & compared, axis=0)
            below = m - 1 - (won - lost) * compared[u]  # how far the score is below that of the first rank
            np.add.at(result[u], below // 2, people)
            np.add.at(result[u], (below + 1) // 2, people)
    return result


def _tree(m: int, family: Family) -> list[NDArray[np.intp]]:
    """The first ranks (from 0) of the blocks of each level of the tree; no level means prefix counts."""
    if family != "discrete-laplace" or m < _TREE:
        return []
    levels = 2 if m < _THIRD_LEVEL else 3
    b = 3
    while levels * (b + 1) ** levels <= m:
        b += 1
    return [np.arange(b**j) * m // b**j for j in range(1, levels)] + [np.arange(m)]


def _sums(counts: NDArray[Any], tree: list[NDArray[np.intp]]) -> NDArray[Any]:
    """What is released, without noise: the block sums of each row, or its prefix sums."""
    if tree:
        return np.concatenate([np.add.reduceat(counts, starts, axis=1) for starts in tree], axis=1)
    return np.cumsum(counts, axis=1)[:, :-1]


def _estimator(tree: list[NDArray[np.intp]], m: int) -> NDArray[np.float64]:
    """Least squares from sums to counts of known total, less the equal counts 2N/m: shape (sums, m)."""
    sums = _sums(np.eye(m), tree)
    system = np.ones((m + 1, m + 1))  # minimise |sums.T x - y|^2 subject to sum(x) = 0, with one multiplier
    system[m, m] = 0
    system[:m, :m] = sums @ sums.T
    return np.linalg.solve(system, np.eye(m + 1, m) @ sums)[:m].T


def _distances(m: int) -> NDArray[np.float64]:
    ranks = np.arange(m, dtype=np.float64)
    return np.abs(ranks[:, None] - ranks)


def _spread(tree: list[NDArray[np.intp]], m: int) -> float:
    """The mean variance of an item's costs about their mean, where each released number has noise of variance 1."""
    costs = _estimator(tree, m) @ _distances(m) / 2
    return float(((costs - costs.mean(axis=1, keepdims=True)) ** 2).sum()) / m


def _assignment(
    noisy: NDArray[Any], tree: list[NDArray[np.intp]], people: int, names: tuple[int, ...]
) -> tuple[int, ...]:
    """The order of least estimated cost; of several the one that takes the items as they stand in ``names``."""
    from scipy.optimize import linear_sum_assignment

    m = noisy.shape[0]
    if m == 1:
        return (0,)
    # m times (the numbers less what 2N/m half-votes at every rank would give), which does not matter for the order
    equal = _sums(np.full((1, m), 2 * people, dtype=object), tree)
    counts = as_doubles(m * noisy[list(names)] - equal) @ _estimator(tree, m)
    _, ranks = linear_sum_assignment(counts @ _distances(m))
    return tuple(names[i] for i in np.argsort(ranks).tolist())

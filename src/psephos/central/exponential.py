"""The exponential mechanism: one ranking, drawn; no table is released. Pure epsilon, at most 20 items.

A ranking psi is drawn with probability proportional to ``exp(-beta K(psi))``, where K is its Kemeny cost in votes,
``K(psi) = sum over u before v of W[v, u] / 2`` up to a constant that cancels, and

    beta = epsilon / l1,    l1 = the l1 sensitivity of the margins (2 D for ballots).

**Proof.** One unit moves each ``W[u, v]`` by some w with sum |w| <= l1 over pairs, so it moves K(psi) by d(psi) with
|d| <= l1 / 2, of range at most l1. The ratio of the probabilities of psi under two neighbours is
``exp(-beta d(psi))`` times the Gibbs mean of ``exp(+-beta d)``, hence at most ``exp(beta * range) = exp(epsilon)``.
Source: McSherry and Talwar (2007).

**Sampling.** For a set S of items to be placed first, let Z(S) be the sum of the weights of its orders. With
``h(R, v) = sum over u in R of W[v, u]``, what v pays for standing right after R,

    Z(S) = sum over v in S of Z(S - v) exp(-beta h(S - v, v) / 2),

and the last item of S is v with the probability of its term. All Z are certified balls, and a uniform variable is
refined bit by bit until it certainly lies in one term: the law is the Gibbs law itself, without total-variation error.
Time and memory grow like 2^m.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.errors import ParameterError
from psephos.privacy.balls import GibbsSums, LazyUniform
from psephos.privacy.bits import BitSource
from psephos.privacy.events import ExponentialEvent

__all__ = ["MOST_ITEMS", "check_size", "exponential_order"]

MOST_ITEMS = 20


def check_size(m: int) -> None:
    """Refuse more items than the sums over subsets can hold."""
    if m > MOST_ITEMS:
        raise ParameterError(f"mechanism exponential takes at most {MOST_ITEMS} items, got {m}")


def exponential_order(
    margins: NDArray[Any], *, epsilon: Fraction, cost_range: Fraction, bits: BitSource
) -> tuple[tuple[int, ...], ExponentialEvent]:
    """An order of the items, best first, and what ran.

    Parameters
    ----------
    margins
        Shape (m, m), antisymmetric integers, m <= 20.
    cost_range
        By how much one unit can move the cost of one ranking more than that of another, in votes: the l1
        sensitivity of the margins.
    """
    m = margins.shape[0]
    check_size(m)
    beta = epsilon / cost_range
    sums = GibbsSums(_payments(margins), beta / 2)
    rest = (1 << m) - 1
    backwards: list[int] = []
    while rest:
        members = [v for v in range(m) if rest >> v & 1]
        uniform = LazyUniform(bits)
        # the first item whose cumulated share the uniform variable lies below
        chosen = members[-1]
        for k, v in enumerate(members[:-1]):
            if uniform.below(sums.cumulated_share(rest, members[: k + 1])):
                chosen = v
                break
        backwards.append(chosen)
        rest &= ~(1 << chosen)
    return tuple(reversed(backwards)), ExponentialEvent(rate=beta, cost_range=cost_range)


def _payments(margins: NDArray[Any]) -> list[NDArray[Any]]:
    """For each v the h(R, v) of all sets R, as an array over bit masks; int64 where that is proved enough."""
    m = margins.shape[0]
    largest = max((abs(int(x)) for x in margins.flat), default=0)
    kind = np.int64 if largest * m < 2**62 else object
    payments = []
    for v in range(m):
        sums = np.zeros(1, dtype=kind)
        for u in range(m):
            sums = np.concatenate([sums, sums + (int(margins[v, u]) if kind is object else np.int64(margins[v, u]))])
        payments.append(sums)
    return payments

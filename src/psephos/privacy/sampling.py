"""Some of many people, drawn without replacement from multiplicities of any size, which are never expanded.

``counts[i]`` people are of kind i. Two forms of the same draw: the *labels* of n people one after the other, in random
order, and the *numbers* of people of each kind among n, whose law is the multivariate hypergeometric one.

**Labels.** Number the people by kind. A uniform number below those that are left picks a person, and the kind is the
block of counts in which it falls; one is taken off that block. So each ordered choice of n different people has the
same probability, as if the population had been written out, shuffled and cut.

**Numbers.** Kind by kind: among ``r`` people still to be drawn of ``N`` still there, K of them of this kind, the number
of this kind is hypergeometric, ``P(x) = C(K, x) C(N - K, r - x) / C(N, r)``.

**One hypergeometric number**, exactly and in a bounded mean number of steps, by rejection. P is log-concave: the ratio
P(x + 1) / P(x) falls. Let x0 be its mode and c >= 1 / P(x0). Then for every j

    P(x0 + j) <= P(x0) exp(1 - |j| / c).

Proof. Let j > 0; the other side is the same. By log-concavity and P(x0 + j) <= P(x0), each of P(x0), ..., P(x0 + j) is
at least the geometric interpolation ``P(x0) q^(i / j)``, q = P(x0 + j) / P(x0). They sum to at most 1, so
``P(x0) j (1 - q) / ln(1 / q) <= P(x0) (q^(0/j) + ... + q^((j-1)/j)) <= 1``: with y = ln(1 / q),
``(1 - e^-y) / y <= c / j``. As ``1 - e^-y >= y / (1 + y)``, ``1 + y >= j / c``. ∎

So in the block c (1 + i) < |j| <= c (2 + i), i >= 0, P(x0 + j) / P(x0) is at most ``e^-i <= 2^-i``, and it is at most
1 for |j| <= c. Proposals: the centre with weight 2 c + 1, each side with weight 2 c, on a side i with probability
``2^-(i+1)``, and j uniform within its block. The proposal is kept with probability ``2^i P(x0 + j) / P(x0)``, decided
by a uniform variable refined until a certified ball decides. With c at most 4 / P(x0) at least one in 25 is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psephos._check import check_integer
from psephos.privacy.balls import LazyUniform, dyadic_below, hypergeometric_mass, hypergeometric_ratio
from psephos.privacy.bits import BitSource
from psephos.privacy.samplers import uniform_below

__all__ = ["drawn_labels", "drawn_numbers", "hypergeometric"]


def hypergeometric(kind: int, people: int, drawn: int, bits: BitSource) -> int:
    """How many of ``drawn`` people, drawn without replacement from ``people``, are among ``kind`` given ones.

    Exact for numbers of any size (see the module).

    >>> from psephos.privacy import SystemBits
    >>> hypergeometric(5, 5, 3, SystemBits())
    3
    """
    check_integer(people, "people", low=0)
    check_integer(kind, "kind", low=0, high=people)
    check_integer(drawn, "drawn", low=0, high=people)
    least, most = max(0, drawn - (people - kind)), min(kind, drawn)
    if least == most:
        return least
    mode = (drawn + 1) * (kind + 1) // (people + 2)
    c = int(1 / dyadic_below(lambda: hypergeometric_mass(mode, kind, people, drawn)))
    while True:
        place = uniform_below(6 * c + 1, bits)
        if place <= 2 * c:
            i, j = 0, place - c
        else:
            i = 0
            while bits.bits(1):
                i += 1
            side, within = divmod(uniform_below(2 * c, bits), c)
            j = (c * (1 + i) + 1 + within) * (1 if side else -1)
        if least <= mode + j <= most and LazyUniform(bits).below(
            hypergeometric_ratio(mode + j, mode, kind, people, drawn, factor=2**i)
        ):
            return mode + j


def drawn_numbers(counts: Sequence[int], n: int, bits: BitSource) -> tuple[int, ...]:
    """How many of each kind are among n people drawn without replacement.

    >>> from psephos.privacy import SystemBits
    >>> sum(drawn_numbers([10**30, 1, 7], 12, SystemBits()))
    12
    """
    people, result = sum(counts), []
    check_integer(n, "n", low=0, high=people)
    for kind in counts:
        taken = hypergeometric(kind, people, n, bits)
        result.append(taken)
        people, n = people - kind, n - taken
    return tuple(result)


def drawn_labels(counts: Sequence[int], n: int, below: Callable[[int], int]) -> list[int]:
    """The kinds of n people drawn without replacement, in the order in which they are drawn.

    ``below(k)`` gives a number in [0, k); if it is uniform, the draw is exact, and its distances from uniform add up.

    >>> drawn_labels([2, 1], 3, lambda k: k - 1)
    [1, 0, 0]
    """
    left = sum(counts)
    check_integer(n, "n", low=0, high=left)
    # tree[i] holds the sum of a block of counts that ends at i (Fenwick 1994), so that a person is found in log steps
    tree = [0, *counts]
    for i in range(1, len(tree)):
        parent = i + (i & -i)
        if parent < len(tree):
            tree[parent] += tree[i]
    top = 1 << (len(counts).bit_length() - 1) if counts else 0
    labels = []
    for _ in range(n):
        person, position, step = below(left), 0, top
        while step:
            if position + step < len(tree) and tree[position + step] <= person:
                position += step
                person -= tree[position]
            step >>= 1
        labels.append(position)
        left -= 1
        i = position + 1
        while i < len(tree):
            tree[i] -= 1
            i += i & -i
    return labels

"""KwikSort: quicksort on noisy comparisons. Ballots and comparisons; pure or (epsilon, delta).

The items are sorted level by level: in every part a pivot v is drawn uniformly, each other item u of the part goes
above it if ``W[u, v] + Z`` is positive and below it if negative, and a fair coin decides if it is 0. Z is independent
integer noise, drawn for this comparison alone. Only these signs leave it, and the sort reads nothing else of W. A pair
meets at most once, since a pivot is in no later part. Without noise, and for ballots whose unranked items are last, the
mean cost is at most twice the optimum (Ailon, Charikar and Newman 2008).

A private KwikSort with a counter of comparisons is due to Hay, Elagina and Miklau (2017, "Differentially private rank
aggregation") and, with a bound for all data, Alabi, Ghazi, Kumar and Manurangsi (2022, "Private rank aggregation in
central and local models"), who go over to another algorithm where the counter runs out.

**The cap.** At most ``M = min(D, ceil(2 m ln m))`` comparisons read W, a public number (D = m(m-1)/2 pairs); past it
each answer is a fair coin. How many are made depends on the data and sets nothing. To sort n items by one order takes
``2 (n + 1) H_n - 4 n`` comparisons in the mean, about ``2 n ln n - 2.85 n``, with a standard deviation of about .65 n
(Hoare 1962; Knuth, The Art of Computer Programming, 6.2.2), so this M has four standard deviations to spare and any
slack on top would only add noise: it is never hit up to 10 items, and with a chance below .001 up to 100. Noisy answers
may contradict one another, which makes no more comparisons in the mean: fix all answers in advance; then a pivot's
numbers of items above and below are, over all pivots, as unequal as those of an order or less (Landau 1953), and the
mean number of comparisons is convex in n.

**Sensitivity.** One unit adds -1, 0 or +1 to at most k pairs (:mod:`psephos.central.margin_sensitivity`): k = D for a
ballot, the cap on pairs for a person's comparisons, and 1 for a single comparison. Replacing it moves no entry by more
than 2, and the table by at most 2 k in the l1 norm and 4 k in the squared l2 norm. With ``n = min(M, k)`` the noise is
that for integers of sensitivity

    l1 = 2 n,        l2^2 = 4 n.

**Proof for k <= M.** Draw the noise of all D pairs in advance. W + Z is a table released once, of sensitivity 2 k and
4 k, and has the guarantee. The sort looks at the sign of an entry at most once, so noise drawn in advance is as good as
fresh noise, and the order is a randomised function of the released table.

**Proof for M < k.** The sort asks at most M questions, each for the sign of one entry of W with fresh noise, chosen by
coins and the answers so far. Given these, the entry moves by at most 2. With Laplace noise of scale 2 M / epsilon the
conditional probability of every answer changes by a factor of at most exp(epsilon / M); the probability of all answers
is the product of at most M of them and of coins, so it changes by at most exp(epsilon). With rounded normal noise of
standard deviation 2 sqrt(M) / mu every answer is mu / sqrt(M)-Gaussian private given the ones before, so M answers are
mu-Gaussian private together (Dong, Roth and Su, Theorem 3.2 and Corollary 3.3); a sort that is done earlier asks the
rest of its questions for nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from psephos.central.least_noise import least_noise_law, noise_event
from psephos.central.margin_sensitivity import MarginSensitivity, margin_sensitivity
from psephos.pairwise.estimate import NoiseLaw
from psephos.privacy.bits import BitSource
from psephos.privacy.events import DiscreteLaplaceEvent, RoundedGaussianEvent
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array, uniform_below

__all__ = ["comparison_cap", "kwiksort_law", "kwiksort_order", "kwiksort_sensitivity"]


def comparison_cap(m: int) -> int:
    """How many comparisons read the data at most, M; 1 stands in for the 0 of a single item.

    >>> comparison_cap(10), comparison_cap(50)
    (45, 392)
    """
    return max(min(m * (m - 1) // 2, math.ceil(2 * m * math.log(m))), 1)


def kwiksort_sensitivity(m: int, *, pairs: int | None) -> MarginSensitivity:
    """How far one unit that touches at most ``pairs`` pairs can move the entries that are asked for.

    ``None`` stands for all pairs (ballots); for single comparisons give 1.

    >>> kwiksort_sensitivity(50, pairs=None)
    MarginSensitivity(l1=Fraction(784, 1), l2_squared=Fraction(1568, 1))
    """
    cap = comparison_cap(m)
    return margin_sensitivity(m, "person", pairs=cap if pairs is None else min(pairs, cap))


def kwiksort_law(m: int, *, epsilon: Fraction, delta: Fraction, pairs: int | None) -> NoiseLaw:
    """The law of the noise in each comparison, the one with less variance; reads no data."""
    return least_noise_law(kwiksort_sensitivity(m, pairs=pairs), epsilon=epsilon, delta=delta)


def kwiksort_order(
    margins: NDArray[Any], law: NoiseLaw, *, pairs: int | None, bits: BitSource
) -> tuple[tuple[int, ...], RoundedGaussianEvent | DiscreteLaplaceEvent]:
    """An order of the items, best first, and what ran.

    Parameters
    ----------
    margins
        Shape (m, m), antisymmetric integers.
    law
        From :func:`kwiksort_law` with the same ``pairs``.
    """
    m = margins.shape[0]
    gaussian = law.family == "rounded-gaussian"
    sampler = rounded_gaussian_array if gaussian else discrete_laplace_array
    cap = comparison_cap(m)
    noise = sampler(law.scale, cap, bits)
    if noise.shape != (cap,):  # one value would be broadcast, and all answers share it
        raise RuntimeError(f"the sampler gave noise of shape {noise.shape} for {cap} comparisons")
    fresh = iter(noise.tolist())

    def beats(u: int, v: int) -> bool:
        z = next(fresh, None)
        noisy = 0 if z is None else int(margins[u, v]) + z
        return noisy > 0 or (noisy == 0 and bits.bits(1) == 1)

    parts = [list(range(m))]
    while len(parts) < m:
        finer: list[list[int]] = []
        for part in parts:
            pivot = part.pop(uniform_below(len(part), bits))
            above: list[int] = []
            below: list[int] = []
            for u in part:
                (above if beats(u, pivot) else below).append(u)
            finer += [above, [pivot], below]
        parts = [part for part in finer if part]
    order = tuple(part[0] for part in parts)
    return order, noise_event(law, kwiksort_sensitivity(m, pairs=pairs))

"""How far one unit can move the table of margins, whatever the data.

**Ballots, unit person.** A ballot is a weak order of some of the m items, and adds s(u, v) in {-1, 0, +1} to
``W[u, v]``: +1 if it ranks u above v, -1 if below, 0 if they are tied or if (under ``missing``) one is unranked;
under ``last`` an unranked item is below every ranked one and tied with the other unranked ones. Replacing one
person's ballot changes each of the D = m(m-1)/2 entries u < v by |s - s'| <= 2. Hence

    l1 <= 2 D,        l2^2 <= 4 D,

both attained by a strict ballot and its reverse. The bound holds for every pair of ballots, tied, truncated or
empty, under either meaning of unranked items, and does not depend on the other people. Readers reject (or void)
whatever is not a weak order, so no file can break it.

**Comparisons, unit comparison.** A comparison adds -1, 0 or +1 to one entry. Replacing it by another one, on the
same pair or not, moves the table by at most 1 + 1 in the l1 norm, and in the l2 norm by at most 2 (the same pair,
the other winner; on two pairs it is sqrt 2). Hence ``l1 <= 2`` and ``l2^2 <= 4``.

**Comparisons, unit person.** With at most one judgement a pair and at most k pairs a person
(:mod:`psephos.central.person_bound`, with the proof): ``l1 <= 2 min(k, D)`` and ``l2^2 <= 4 min(k, D)``.

The tests enumerate all neighbours for m = 3 and 4. Margins, and not counts in halves, are what is released because
they are integers for every kind of ballot: on a finer grid for some profiles a reader would see that a tie exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from psephos.privacy.sensitivity import bounded_sum_sensitivity

__all__ = ["MarginSensitivity", "margin_sensitivity"]

_ENTRY = bounded_sum_sensitivity(-1, 1)  # one replaced answer moves one entry by at most 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginSensitivity:
    """Replace-one sensitivity of the margins u < v: in the l1 norm, and squared in the l2 norm; in votes."""

    l1: Fraction
    l2_squared: Fraction


def margin_sensitivity(m: int, unit: Literal["person", "comparison"], *, pairs: int | None = None) -> MarginSensitivity:
    """The sensitivity of the margins of ``m`` items to one ``unit`` (see the module for the proof).

    ``person`` means one ballot a person, or comparisons on at most ``pairs`` pairs a person. With one item there are no
    pairs of items, and one stands in for their number.

    >>> margin_sensitivity(10, "person")
    MarginSensitivity(l1=Fraction(90, 1), l2_squared=Fraction(180, 1))
    """
    all_pairs = max(m * (m - 1) // 2, 1)
    entries = 1 if unit == "comparison" else all_pairs if pairs is None else min(pairs, all_pairs)
    return MarginSensitivity(l1=entries * _ENTRY, l2_squared=entries * _ENTRY**2)

"""What is promised, to whom, and under which assumptions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

__all__ = ["Guarantee", "decimal_text"]


def decimal_text(x: Fraction) -> str:
    """A rational as text that parses back exactly: a decimal where one exists, else a ratio.

    A ratio of more than a thousand digits, which only sums of very many odd amounts have, is cut to 50 digits towards
    zero.

    >>> decimal_text(Fraction(1, 10)), decimal_text(Fraction(1, 11)), decimal_text(Fraction(1, 10**6))
    ('0.1', '1/11', '1e-6')
    """
    twos = fives = 0
    rest = x.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    digits = max(twos, fives)
    if rest != 1 and x.denominator > 10**1000:
        x = Fraction(int(x * 10**50), 10**50)
        return decimal_text(x)
    if rest != 1 or digits > 4000:
        return str(x)
    scaled = str(abs(x.numerator) * 10**digits // x.denominator)
    sign = "-" if x < 0 else ""
    if digits > 4 and len(scaled) <= 3:
        mantissa = scaled if len(scaled) == 1 else f"{scaled[0]}.{scaled[1:]}"
        return f"{sign}{mantissa}e-{digits - len(scaled) + 1}"
    if not digits:
        return sign + scaled
    scaled = scaled.zfill(digits + 1)
    return f"{sign}{scaled[:-digits]}.{scaled[-digits:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """A differential privacy guarantee.

    Attributes
    ----------
    epsilon, delta
        Exact rationals; delta 0 is pure differential privacy.
    unit
        What is protected: a ``person`` with all they answered, or one ``comparison``.
    adjacency
        Always ``replace-one``: the outcome is as likely, up to exp(epsilon) and delta, had one unit been any other.
    assumptions
        What the holder declared, in words; the guarantee holds only under them.
    """

    epsilon: Fraction
    delta: Fraction
    unit: Literal["person", "comparison"] = "person"
    adjacency: Literal["replace-one"] = "replace-one"
    assumptions: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The guarantee in one sentence.

        >>> print(Guarantee(epsilon=Fraction(1), delta=Fraction(0)).sentence())
        1-differentially private (pure) for each person under replace-one adjacency.
        """
        if self.delta:
            what = f"({decimal_text(self.epsilon)}, {decimal_text(self.delta)})-differentially private"
        else:
            what = f"{decimal_text(self.epsilon)}-differentially private (pure)"
        given = f", assuming that {'; and that '.join(self.assumptions)}" if self.assumptions else ""
        return f"{what} for each {self.unit} under {self.adjacency} adjacency{given}."

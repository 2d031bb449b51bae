"""What the JSON of all releases shares: guarantees, budgets, laws of noise, integer tables. Exact numbers are text."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from psephos.pairwise.estimate import NoiseLaw
from psephos.privacy.guarantee import Guarantee, decimal_text

__all__ = [
    "budget_from_json",
    "budget_to_json",
    "guarantee_from_json",
    "guarantee_to_json",
    "law_from_json",
    "law_to_json",
    "rows_from_json",
    "rows_to_json",
]


def guarantee_to_json(guarantee: Guarantee, units: int, **facts: object) -> dict[str, Any]:
    """The guarantee, how many units there are under their name, and further public facts."""
    return {
        "epsilon": decimal_text(guarantee.epsilon),
        "delta": decimal_text(guarantee.delta),
        "adjacency": guarantee.adjacency,
        "unit": guarantee.unit,
        **facts,
        "people" if guarantee.unit == "person" else "comparisons": units,
        "assumptions": list(guarantee.assumptions),
    }


def guarantee_from_json(data: dict[str, Any]) -> tuple[Guarantee, int]:
    """The guarantee, and how many units there are."""
    guarantee = Guarantee(
        epsilon=Fraction(data["epsilon"]),
        delta=Fraction(data["delta"]),
        unit=data["unit"],
        assumptions=tuple(data["assumptions"]),
    )
    return guarantee, data["people" if data["unit"] == "person" else "comparisons"]


def budget_to_json(remaining: tuple[Fraction, Fraction] | None) -> dict[str, str] | None:
    """What is left of a budget; ``None`` without a ledger."""
    if remaining is None:
        return None
    return {"remaining_epsilon": decimal_text(remaining[0]), "remaining_delta": decimal_text(remaining[1])}


def budget_from_json(data: dict[str, str] | None) -> tuple[Fraction, Fraction] | None:
    """The inverse of :func:`budget_to_json`."""
    return None if data is None else (Fraction(data["remaining_epsilon"]), Fraction(data["remaining_delta"]))


def law_to_json(law: NoiseLaw) -> dict[str, str]:
    """The law of independent noise."""
    return {"family": law.family, "scale": str(law.scale)}


def law_from_json(data: dict[str, Any]) -> NoiseLaw:
    """The inverse of :func:`law_to_json`."""
    return NoiseLaw(family=data["family"], scale=Fraction(data["scale"]))


def rows_to_json(rows: Sequence[Sequence[int]]) -> list[str]:
    """A table of integers of any size, a row a line of text."""
    return [" ".join(map(str, row)) for row in rows]


def rows_from_json(lines: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The inverse of :func:`rows_to_json`."""
    return tuple(tuple(int(x) for x in line.split()) for line in lines)

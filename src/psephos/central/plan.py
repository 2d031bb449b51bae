"""What a release would cost and how noisy it would be: reads public facts only, never data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from psephos._check import Exact, check_choice, check_integer, parse_delta, parse_epsilon
from psephos.central.borda import borda_law, borda_noise
from psephos.central.exponential import check_size
from psephos.central.gaussian import gaussian_law
from psephos.central.laplace import laplace_law
from psephos.central.margin_sensitivity import MarginSensitivity, margin_sensitivity
from psephos.central.shaped import ShapedScales, shaped_noise, shaped_scales
from psephos.errors import ParameterError
from psephos.pairwise.estimate import NoiseLaw, PartedNoise

__all__ = ["MECHANISMS", "Mechanism", "Plan", "plan_consensus"]

Mechanism = Literal["auto", "laplace", "gaussian", "shaped", "borda", "exponential"]
Chosen = Literal["laplace", "gaussian", "shaped", "borda", "exponential"]
MECHANISMS: tuple[Mechanism, ...] = ("auto", "laplace", "gaussian", "shaped", "borda", "exponential")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A release that could be made.

    Attributes
    ----------
    mechanism
        The mechanism that would run, and ``reason`` why.
    epsilon, delta
        What the ledger would debit: pure mechanisms debit delta 0 even if more was offered.
    law
        The law of the noise on the margins; ``law.sd`` is its standard deviation in votes. ``None`` where no table is
        released (``exponential``).
    scales
        What the mechanism draws from: the law of each entry (``laplace``, ``gaussian``), of each row sum (``borda``),
        or both (``shaped``); ``None`` for ``exponential``.
    """

    mechanism: Chosen
    reason: str
    epsilon: Fraction
    delta: Fraction
    unit: Literal["person", "comparison"]
    pairs: int | None
    sensitivity: MarginSensitivity
    law: NoiseLaw | PartedNoise | None
    scales: NoiseLaw | ShapedScales | None


def plan_consensus(
    m: int,
    *,
    epsilon: Exact,
    delta: Exact = 0,
    mechanism: Mechanism = "auto",
    unit: Literal["person", "comparison"] = "person",
    pairs: int | None = None,
) -> Plan:
    """Choose and calibrate the mechanism of :func:`psephos.private_consensus` from public facts.

    Parameters
    ----------
    m
        Number of items, >= 1.
    epsilon, delta
        The guarantee: nats, and 0 <= delta < 1; delta 0 means pure.
    mechanism
        ``laplace``, ``gaussian`` (needs delta > 0), or ``auto``: ``laplace`` if delta is 0, else the one with less
        noise. For ballots also ``shaped`` (less noise on scores than on cycles; needs delta > 0) and ``borda`` (scores
        alone). ``exponential`` (pure, at most 20 items) draws one ranking and releases no table.
    unit
        What is protected: a ``person`` with one ballot or several comparisons, or one ``comparison``.
    pairs
        For comparisons by ``person``: how many pairs of each person are used at most, >= 1. ``None`` for ballots.

    >>> plan = plan_consensus(10, epsilon=1, delta="1e-6")
    >>> plan.mechanism, round(plan.law.sd, 1)
    ('gaussian', 56.7)
    """
    check_integer(m, "m", low=1)
    check_choice(mechanism, "mechanism", MECHANISMS)
    check_choice(unit, "unit", ("person", "comparison"))
    eps, dlt = parse_epsilon(epsilon), parse_delta(delta)
    if pairs is not None:
        check_integer(pairs, "pairs", low=1)
        if unit != "person":
            raise ParameterError("pairs bounds a person, and the unit is one comparison")
    sensitivity = margin_sensitivity(m, unit, pairs=pairs)
    if mechanism == "gaussian" and not dlt:
        raise ParameterError("mechanism gaussian needs delta > 0; with delta 0 (pure) use laplace")
    if mechanism == "shaped" and not dlt:
        raise ParameterError("mechanism shaped needs delta > 0; with delta 0 (pure) use laplace or borda")
    if mechanism in ("shaped", "borda") and (unit != "person" or pairs is not None):
        raise ParameterError(
            f"mechanism {mechanism} is for ballots: its noise follows all pairs of items, and for comparisons "
            "it should follow the cap on the pairs of one person"
        )
    chosen: Chosen
    law: NoiseLaw | PartedNoise | None = None
    scales: NoiseLaw | ShapedScales | None = None
    pure = not dlt
    reason = "asked for"
    if mechanism == "shaped":
        chosen = "shaped"
        scales = shaped_scales(m, epsilon=eps, delta=dlt)
        law = shaped_noise(m, scales)
    elif mechanism == "exponential":
        check_size(m)
        chosen, pure = "exponential", True
    elif mechanism == "borda":
        chosen = "borda"
        scales = borda_law(m, epsilon=eps, delta=dlt)
        law = borda_noise(m, scales)
        pure = scales.family == "discrete-laplace"
    else:
        laws: dict[Chosen, NoiseLaw] = {}
        if mechanism in ("laplace", "auto"):
            laws["laplace"] = laplace_law(sensitivity, epsilon=eps)
        if mechanism == "gaussian" or (mechanism == "auto" and dlt):
            laws["gaussian"] = gaussian_law(sensitivity, epsilon=eps, delta=dlt)
        chosen = min(laws, key=lambda name: laws[name].sd)
        law = scales = laws[chosen]
        pure = chosen == "laplace"
        if mechanism == "auto" and len(laws) == 1:
            reason = "delta is 0, so the guarantee must be pure"
        elif mechanism == "auto":
            sds = " against ".join(f"{each.sd:.4g} ({name})" for name, each in laws.items())
            reason = f"{chosen} has less noise here: standard deviation {sds}"
    return Plan(
        mechanism=chosen,
        reason=reason,
        epsilon=eps,
        delta=Fraction(0) if pure else dlt,
        unit=unit,
        pairs=pairs,
        sensitivity=sensitivity,
        law=law,
        scales=scales,
    )

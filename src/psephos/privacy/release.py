"""A release: the one thing that leaves the line, with all that is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from psephos.privacy.events import Event
from psephos.privacy.guarantee import Guarantee

__all__ = ["Release"]

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Generic[T_co]):
    """A value computed from private data, and nothing else computed from them.

    Attributes
    ----------
    value
        What is released. Everything in it was computed from noisy numbers and public facts.
    event
        What ran: the noise and the sensitivity.
    guarantee
        What is promised.
    secure
        Whether every random bit came from the operating system. False is for tests only, and for good.
    remaining
        (epsilon, delta) left in the ledger's budget after this release, or ``None`` without a ledger.
    """

    value: T_co
    event: Event
    guarantee: Guarantee
    secure: bool
    remaining: tuple[Fraction, Fraction] | None = None

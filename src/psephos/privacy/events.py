"""What ran, separately from how it is bounded.

An event is a record of one mechanism's noise and sensitivity; :func:`epsilon_of` bounds it, and refuses by name
what it does not know. Serialised events go through a closed table of tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from psephos._check import Exact, exact
from psephos.errors import ParameterError
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.gaussian import epsilon_upper

__all__ = [
    "ComposedGaussianEvent",
    "ComposedLaplaceEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialEvent",
    "RoundedGaussianEvent",
    "epsilon_of",
    "event_from_json",
    "event_to_json",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedGaussianEvent:
    """Independent normal noise of standard deviation ``sigma``, rounded, on integers.

    ``sensitivity_squared`` is the squared l2 sensitivity of the integers.
    """

    sigma: Fraction
    sensitivity_squared: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplaceEvent:
    """Independent noise ``P(k) ~ exp(-|k|/scale)`` on integers of l1 sensitivity ``sensitivity``."""

    scale: Fraction
    sensitivity: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedGaussianEvent:
    """Several Gaussian releases of the same data, independent of each other."""

    parts: tuple[RoundedGaussianEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedLaplaceEvent:
    """Several discrete Laplace releases of the same data, independent of each other."""

    parts: tuple[DiscreteLaplaceEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialEvent:
    """One outcome drawn with weight ``exp(-rate * cost)``.

    ``cost_range`` is by how much one unit can move the cost of one outcome more than that of another.
    """

    rate: Fraction
    cost_range: Fraction


_Flat = RoundedGaussianEvent | DiscreteLaplaceEvent | ExponentialEvent
_Composed = ComposedGaussianEvent | ComposedLaplaceEvent
Event = _Flat | _Composed

_Part = TypeVar("_Part", RoundedGaussianEvent, DiscreteLaplaceEvent)

_TAGS: dict[str, type[_Flat]] = {
    "rounded-gaussian": RoundedGaussianEvent,
    "discrete-laplace": DiscreteLaplaceEvent,
    "exponential": ExponentialEvent,
}
_COMPOSED: dict[str, type[_Composed]] = {
    "composed-gaussian": ComposedGaussianEvent,
    "composed-laplace": ComposedLaplaceEvent,
}


def epsilon_of(event: Event, delta: Exact) -> Fraction:
    """An upper bound on the privacy loss of ``event`` at ``delta``, in nats.

    >>> epsilon_of(DiscreteLaplaceEvent(scale=Fraction(20), sensitivity=Fraction(2)), 0)
    Fraction(1, 10)
    """
    if isinstance(event, RoundedGaussianEvent):
        event = ComposedGaussianEvent(parts=(event,))
    if isinstance(event, ComposedGaussianEvent):
        mu_squared = sum((part.sensitivity_squared / part.sigma**2 for part in event.parts), Fraction(0))
        return epsilon_upper(sqrt_upper(mu_squared, significant=80), delta)
    if isinstance(event, DiscreteLaplaceEvent):
        event = ComposedLaplaceEvent(parts=(event,))
    if isinstance(event, ComposedLaplaceEvent):
        return sum((part.sensitivity / part.scale for part in event.parts), Fraction(0))
    if isinstance(event, ExponentialEvent):
        return event.rate * event.cost_range
    raise ParameterError(f"no bound is known for the event {type(event).__name__}")


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as a dictionary of text, with exact rationals."""
    if isinstance(event, _Composed):
        tag = next(name for name, kind in _COMPOSED.items() if type(event) is kind)
        return {"event": tag, "parts": [event_to_json(part) for part in event.parts]}
    flat = next((name for name, kind in _TAGS.items() if type(event) is kind), None)
    if flat is None:
        raise ParameterError(f"no tag is known for the event {type(event).__name__}")
    return {"event": flat, **{name: str(getattr(event, name)) for name in type(event).__dataclass_fields__}}


def event_from_json(data: dict[str, Any]) -> Event:
    """The inverse of :func:`event_to_json`; an unknown tag is refused."""
    name = data.get("event", "")
    if name in _COMPOSED:
        parts = [event_from_json(part) for part in data.get("parts", ())]
        if name == "composed-gaussian":
            return ComposedGaussianEvent(parts=tuple(_all_of(RoundedGaussianEvent, parts, name)))
        return ComposedLaplaceEvent(parts=tuple(_all_of(DiscreteLaplaceEvent, parts, name)))
    kind = _TAGS.get(name)
    if kind is None:
        raise ParameterError(f"unknown event tag {name!r}; known are {', '.join((*_TAGS, *_COMPOSED))}")
    return kind(**{field: exact(data.get(field), field, "an exact number") for field in kind.__dataclass_fields__})


def _all_of(kind: type[_Part], parts: list[Event], name: str) -> list[_Part]:
    for part in parts:
        if not isinstance(part, kind):
            raise ParameterError(f"a {name} event cannot hold a {type(part).__name__}")
    return [part for part in parts if isinstance(part, kind)]

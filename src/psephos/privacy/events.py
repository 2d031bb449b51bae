"""What ran, separately from how it is bounded.

An event is a record of one mechanism's noise and sensitivity; :func:`epsilon_of` bounds it, and refuses by name
what it does not know. Serialised events go through a closed table of tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from psephos._check import Exact, exact
from psephos.errors import ParameterError
from psephos.privacy.balls import sqrt_upper
from psephos.privacy.gaussian import epsilon_upper

__all__ = ["DiscreteLaplaceEvent", "Event", "RoundedGaussianEvent", "epsilon_of", "event_from_json", "event_to_json"]


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


Event = RoundedGaussianEvent | DiscreteLaplaceEvent

_TAGS: dict[str, type[RoundedGaussianEvent] | type[DiscreteLaplaceEvent]] = {
    "rounded-gaussian": RoundedGaussianEvent,
    "discrete-laplace": DiscreteLaplaceEvent,
}


def epsilon_of(event: Event, delta: Exact) -> Fraction:
    """An upper bound on the privacy loss of ``event`` at ``delta``, in nats.

    >>> epsilon_of(DiscreteLaplaceEvent(scale=Fraction(20), sensitivity=Fraction(2)), 0)
    Fraction(1, 10)
    """
    if isinstance(event, RoundedGaussianEvent):
        return epsilon_upper(sqrt_upper(event.sensitivity_squared / event.sigma**2, significant=80), delta)
    if isinstance(event, DiscreteLaplaceEvent):
        return event.sensitivity / event.scale
    raise ParameterError(f"no bound is known for the event {type(event).__name__}")


def event_to_json(event: Event) -> dict[str, str]:
    """The event as a flat dictionary of text, with exact rationals."""
    tag = next((name for name, kind in _TAGS.items() if type(event) is kind), None)
    if tag is None:
        raise ParameterError(f"no tag is known for the event {type(event).__name__}")
    return {"event": tag, **{name: str(getattr(event, name)) for name in type(event).__dataclass_fields__}}


def event_from_json(data: dict[str, str]) -> Event:
    """The inverse of :func:`event_to_json`; an unknown tag is refused."""
    kind = _TAGS.get(data.get("event", ""))
    if kind is None:
        raise ParameterError(f"unknown event tag {data.get('event')!r}; known are {', '.join(_TAGS)}")
    return kind(**{name: exact(data.get(name), name, "an exact number") for name in kind.__dataclass_fields__})

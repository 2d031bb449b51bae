"""What ran, separately from how it is bounded.

An event is a record of one mechanism's noise and sensitivity; :func:`epsilon_of` bounds it, and refuses by name
what it does not know. Serialised events go through a closed table of tags.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from psephos._check import Exact, parse_delta, shorter
from psephos.errors import ParameterError
from psephos.privacy.balls import ball, dyadic_below, log_mixed_exp, sqrt_upper, upper
from psephos.privacy.gaussian import epsilon_upper

if TYPE_CHECKING:
    from psephos.privacy.subsampled import SubsampledGaussian

__all__ = [
    "BoundedTimeEvent",
    "ComposedGaussianEvent",
    "ComposedLaplaceEvent",
    "ConstantEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "ExponentialEvent",
    "NuclearEvent",
    "RoundedGaussianEvent",
    "SampledEvent",
    "SubsampledGaussianEvent",
    "epsilon_of",
    "event_from_json",
    "event_to_json",
    "float_above",
    "float_below",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NuclearEvent:
    """An antisymmetric table released with noise of density ``exp(-rate * nuclear norm)``, rounded.

    ``sensitivity`` is by how much one unit can move the table in the nuclear norm, or more.
    """

    rate: Fraction
    sensitivity: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantEvent:
    """Nothing of the data was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledEvent:
    """A mechanism that is (epsilon, delta)-private for lists, run on ``records`` of ``people`` people.

    They are drawn without replacement, in random order.
    """

    epsilon: Fraction
    delta: Fraction
    records: Fraction
    people: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampledGaussianEvent:
    """``compositions`` Gaussian releases of Poisson-subsampled sums, each with a fresh subsample and a public weight.

    Attributes
    ----------
    sigma
        Standard deviation of the noise.
    contribution
        Largest norm of one record's part of a sum at weight 1, in the unit of sigma.
    probability
        Of a record to be in a subsample.
    weight_first, weight_rest
        The public weight of a record has the law Beta(first, rest), or is 1 where rest is 0.
    compositions
        How many releases.
    """

    sigma: Fraction
    contribution: Fraction
    probability: Fraction
    weight_first: Fraction
    weight_rest: Fraction
    compositions: Fraction

    def step(self) -> SubsampledGaussian | None:
        """One release as the accountants see it, rounded to more loss; ``None`` where noise is as good as absent."""
        from psephos.privacy.subsampled import BetaWeight, FixedWeight, SubsampledGaussian

        if not self.sigma:
            return None
        shift = float_above(self.contribution / self.sigma)
        # A float may stand for the decimal that it prints as or for itself: two ulps cover both.
        shift = math.nextafter(math.nextafter(shift, math.inf), math.inf)
        if not shift <= _LARGEST_SHIFT:
            return None
        weight = BetaWeight(float(self.weight_first), float(self.weight_rest)) if self.weight_rest else FixedWeight()
        return SubsampledGaussian(probability=min(float_above(self.probability), 1.0), shift=shift, weight=weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedTimeEvent:
    """An ``ideal`` mechanism whose law is kept up to ``distance`` in total variation.

    Where ``mixture`` is not 0, the outcome is, with that probability, drawn from a law that does not look at the data
    and gives every outcome at least ``least``.
    """

    ideal: Event
    distance: Fraction
    mixture: Fraction
    least: Fraction


_LARGEST_SHIFT = 1e6
_RATIO = re.compile(r"\d{1,4300}(/[1-9]\d{0,4299})?", re.ASCII)  # as long as Python converts


def float_above(value: Fraction) -> float:
    """The least double >= a rational > 0; ``inf`` above the doubles."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def float_below(value: Fraction) -> float:
    """The largest double <= a rational > 0."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, 0.0)


_Flat = (
    RoundedGaussianEvent
    | DiscreteLaplaceEvent
    | ExponentialEvent
    | NuclearEvent
    | ConstantEvent
    | SampledEvent
    | SubsampledGaussianEvent
)
_Composed = ComposedGaussianEvent | ComposedLaplaceEvent
Event = _Flat | _Composed | BoundedTimeEvent

_Part = TypeVar("_Part", RoundedGaussianEvent, DiscreteLaplaceEvent)

_TAGS: dict[str, type[_Flat]] = {
    "rounded-gaussian": RoundedGaussianEvent,
    "discrete-laplace": DiscreteLaplaceEvent,
    "exponential": ExponentialEvent,
    "nuclear": NuclearEvent,
    "constant": ConstantEvent,
    "sampled": SampledEvent,
    "subsampled-gaussian": SubsampledGaussianEvent,
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
    if isinstance(event, NuclearEvent):
        return event.rate * event.sensitivity
    if isinstance(event, ConstantEvent):
        return Fraction(0)
    if isinstance(event, SampledEvent):
        share = event.records / event.people
        if share * event.delta > parse_delta(delta):
            raise ParameterError(f"delta must be at least {share * event.delta} for this event, got {delta}")
        return event.epsilon if share == 1 else upper(lambda: log_mixed_exp(event.epsilon, share))
    if isinstance(event, BoundedTimeEvent):
        return _epsilon_of_bounded(event, parse_delta(delta))
    if isinstance(event, SubsampledGaussianEvent):
        from psephos.privacy import pld

        step = event.step()
        if step is None:
            raise ParameterError("no finite epsilon: the noise is as good as none")
        return Fraction(
            pld.epsilon_upper(step, compositions=int(event.compositions), delta=float_below(parse_delta(delta)))
        )
    raise ParameterError(f"no bound is known for the event {type(event).__name__}")


def _epsilon_of_bounded(event: BoundedTimeEvent, delta: Fraction) -> Fraction:
    if event.mixture:
        # (1 + e^epsilon) distance <= (e^total - 1) mixture least makes up for the distance.
        ideal = epsilon_of(event.ideal, 0)
        needed = event.distance / (event.mixture * event.least)
        return max(ideal, upper(lambda: ((1 + ball(ideal).exp()) * ball(needed)).log1p()))
    ideal = epsilon_of(event.ideal, shorter(delta * Fraction(15, 16)))
    if event.distance > dyadic_below(lambda: ball(delta / 16) / (1 + ball(ideal).exp())):
        raise ParameterError(f"no finite epsilon is known at delta {delta}: the law is not kept well enough")
    return ideal


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as a dictionary of text, with exact rationals."""
    if isinstance(event, BoundedTimeEvent):
        numbers = {name: str(getattr(event, name)) for name in ("distance", "mixture", "least")}
        return {"event": "bounded-time", "ideal": event_to_json(event.ideal), **numbers}
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
    if name == "bounded-time":
        numbers = {key: _stored(data.get(key), key) for key in ("distance", "mixture", "least")}
        return BoundedTimeEvent(ideal=event_from_json(data.get("ideal", {})), **numbers)
    if name in _COMPOSED:
        parts = [event_from_json(part) for part in data.get("parts", ())]
        if name == "composed-gaussian":
            return ComposedGaussianEvent(parts=tuple(_all_of(RoundedGaussianEvent, parts, name)))
        return ComposedLaplaceEvent(parts=tuple(_all_of(DiscreteLaplaceEvent, parts, name)))
    kind = _TAGS.get(name)
    if kind is None:
        raise ParameterError(f"unknown event tag {name!r}; known are {', '.join((*_TAGS, *_COMPOSED))}")
    return kind(**{field: _stored(data.get(field), field) for field in kind.__dataclass_fields__})


def _stored(text: object, name: str) -> Fraction:
    """A number as :func:`event_to_json` writes it: a ratio of whole numbers, which may have thousands of digits."""
    if not isinstance(text, str) or not _RATIO.fullmatch(text):
        raise ParameterError(f"{name} must be an exact number, as text, got {str(text)[:80]!r}")
    return Fraction(text)


def _all_of(kind: type[_Part], parts: list[Event], name: str) -> list[_Part]:
    for part in parts:
        if not isinstance(part, kind):
            raise ParameterError(f"a {name} event cannot hold a {type(part).__name__}")
    return [part for part in parts if isinstance(part, kind)]

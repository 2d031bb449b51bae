"""The release: what leaves the line, and the one driver that refuses, debits, draws and stores.

A release is planned from public facts alone (:class:`PlannedRelease`) and then run once by :func:`release`, the only
caller of the ledger. So the order of events, which is part of every privacy claim, is written down in one place:
everything that can be refused is refused, then the ledger debits, and only then are data read and coins tossed.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Generic, TypeVar

from psephos._check import Exact
from psephos.errors import AccuracyWarning, InsecureBitsError, ParameterError, PrivacyWarning
from psephos.privacy.bits import BitSource, is_secure
from psephos.privacy.events import Event
from psephos.privacy.guarantee import Guarantee, decimal_text
from psephos.privacy.ledger import Ledger

__all__ = ["Account", "Codec", "PlannedRelease", "Release", "noise_warning", "release"]

Data = TypeVar("Data")
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)

_WEAK_EPSILON = 20  # odds of half a billion to one: legal, and no protection


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Generic[Value_co]):
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

    value: Value_co
    event: Event
    guarantee: Guarantee
    secure: bool
    remaining: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The budget that pays for a release: that of one dataset in a ledger.

    Parameters
    ----------
    ledger
        Where debits are kept.
    dataset
        The name of the data there. One dataset has one name: two names are two budgets.
    budget
        The total (epsilon, delta) of the dataset, fixed with its first debit; given again it must be the same.
    request_id
        Names one request. Asked again under the same id, it gets its stored answer and costs nothing.

    >>> import tempfile, pathlib
    >>> from psephos import Profile, private_consensus
    >>> profile = Profile.from_rankings({("tea", "coffee"): 70, ("coffee", "tea"): 30}, items=["tea", "coffee"])
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp(), "ledger.db"))
    >>> private_consensus(profile, epsilon="0.4", account=Account(ledger, "drinks", budget=(1, 0))).remaining
    (Fraction(3, 5), Fraction(0, 1))
    """

    ledger: Ledger
    dataset: str
    _: KW_ONLY
    budget: tuple[Exact, Exact] | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ledger, Ledger):
            raise ParameterError(f"ledger must be a Ledger, got {self.ledger!r}")


@dataclass(frozen=True, slots=True)
class Codec(Generic[Value]):
    """How a release is stored as text, and read again."""

    write: Callable[[Release[Value]], str]
    read: Callable[[str], Release[Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRelease(ABC, Generic[Data, Value]):
    """A release that could be made: public facts alone, with all that can be refused refused.

    Attributes
    ----------
    guarantee
        What is promised, and what the ledger debits.
    units
        How many people (or comparisons, if they are the unit) there are.
    request
        The public parameters as text: equal for a repetition, different for anything else.
    codec
        Of the stored answer.
    protects
        What of each unit is protected, if not all of it: the ledger does not add such debits to others.
    """

    guarantee: Guarantee
    units: int
    request: str
    codec: Codec[Value]
    protects: str | None = None

    @abstractmethod
    def run(self, data: Data, bits: BitSource) -> tuple[Value, Event]:
        """Read the data and draw: the value, and what ran."""

    def warnings(self) -> Iterator[Warning]:
        """What public facts say against the plan: a guarantee that protects next to nothing."""
        epsilon, delta, unit = self.guarantee.epsilon, self.guarantee.delta, self.guarantee.unit
        if epsilon > _WEAK_EPSILON:
            text = f"epsilon {decimal_text(epsilon)} is so large that it gives practically no protection"
            yield PrivacyWarning(text)
        if delta * self.units >= 1:
            of = "people" if unit == "person" else f"{unit}s"
            text = f"delta {decimal_text(delta)} would allow publishing one of {self.units} {of} outright"
            yield PrivacyWarning(text)


def noise_warning(noise: float, possible: float) -> Iterator[Warning]:
    """A warning where noise on an item's score has more than a third of the size that any score could have.

    Both are public facts: ``noise`` is a standard deviation, ``possible`` what the score would be in unanimity.
    """
    if noise == math.inf:
        yield AccuracyWarning("nothing of the data is used: the order is a random one")
    elif noise > possible / 3:
        yield AccuracyWarning(
            f"noise of standard deviation {noise:.3g} on scores of at most {possible:.3g}: the order is mostly noise"
        )


def release(
    planned: PlannedRelease[Data, Value], data: Data, *, account: Account | None, bits: BitSource
) -> Release[Value]:
    """Debit the account, then run the plan and store its answer; or give the stored answer of a repeated request.

    Without an account it runs, and keeps no record.

    Raises
    ------
    ParameterError
        for bits or an account that are none.
    InsecureBitsError
        for an account with anything but the operating system's bits.
    BudgetError
        if the ledger refuses; nothing was read or drawn then.
    """
    if not callable(getattr(bits, "bits", None)) or not callable(getattr(bits, "words", None)):
        raise ParameterError(f"bits must be a source of bits, got {bits!r}")
    if not isinstance(account, Account | None):
        raise ParameterError(f"account must be an Account, got {account!r}")
    if account is not None and not is_secure(bits):
        raise InsecureBitsError("a ledger accepts no release made with test bits")
    for warning in planned.warnings():
        warnings.warn(warning, stacklevel=3)
    if account is None:
        return _released(planned, data, bits)
    ledger, dataset, guarantee = account.ledger, account.dataset, planned.guarantee
    debit = ledger.debit(
        dataset,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=planned.protects or guarantee.unit,
        request_id=account.request_id,
        what=planned.request,
        budget=account.budget,
    )
    if debit.answer is not None:
        answer = planned.codec.read(debit.answer)
    else:
        answer = _released(planned, data, bits)
        ledger.store_answer(dataset, debit.request_id, planned.codec.write(answer))
    return replace(answer, remaining=ledger.remaining(dataset))


def _released(planned: PlannedRelease[Data, Value], data: Data, bits: BitSource) -> Release[Value]:
    value, event = planned.run(data, bits)
    return Release(value=value, event=event, guarantee=planned.guarantee, secure=is_secure(bits))

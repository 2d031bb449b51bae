"""Paying for a release: the ledger debits first, and a repeated request gets its stored answer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from psephos._check import Exact
from psephos.errors import AccuracyWarning, InsecureBitsError, ParameterError, PrivacyWarning
from psephos.privacy.bits import BitSource, is_secure
from psephos.privacy.guarantee import Guarantee, decimal_text
from psephos.privacy.ledger import Ledger
from psephos.privacy.release import Release

__all__ = ["charged", "check_payment", "warn_if_noise", "warn_if_weak"]

T = TypeVar("T")

_WEAK_EPSILON = 20  # odds of half a billion to one: legal, and no protection


def warn_if_weak(guarantee: Guarantee, units: int) -> None:
    """Warn of a guarantee that protects next to nothing; ``units`` is how many there are."""
    if guarantee.epsilon > _WEAK_EPSILON:
        text = f"epsilon {decimal_text(guarantee.epsilon)} is so large that it gives practically no protection"
        warnings.warn(PrivacyWarning(text), stacklevel=3)
    if guarantee.delta * units >= 1:
        of = "people" if guarantee.unit == "person" else f"{guarantee.unit}s"
        text = f"delta {decimal_text(guarantee.delta)} would allow publishing one of {units} {of} outright"
        warnings.warn(PrivacyWarning(text), stacklevel=3)


def warn_if_noise(noise: float, possible: float) -> None:
    """Warn where noise on an item's score has more than a third of the size that any score could have.

    Both are public facts: ``noise`` is a standard deviation, ``possible`` what the score would be in unanimity.
    """
    if noise == math.inf:
        text = "nothing of the data is used: the order is a random one"
        warnings.warn(AccuracyWarning(text), stacklevel=3)
    elif noise > possible / 3:
        text = f"noise of standard deviation {noise:.3g} on scores of at most {possible:.3g}: the order is mostly noise"
        warnings.warn(AccuracyWarning(text), stacklevel=3)


def check_payment(
    bits: BitSource,
    ledger: Ledger | None,
    dataset: str | None,
    request_id: str | None,
    budget: tuple[Exact, Exact] | None,
) -> None:
    """Refuse what :func:`charged` could not use, before anything is read."""
    if not isinstance(ledger, Ledger | None):
        raise ParameterError(f"ledger must be a Ledger, got {ledger!r}")
    if not callable(getattr(bits, "bits", None)) or not callable(getattr(bits, "words", None)):
        raise ParameterError(f"bits must be a source of bits, got {bits!r}")
    if ledger is None:
        if dataset is not None or request_id is not None or budget is not None:
            raise ParameterError("dataset, request_id and budget need a ledger")
        return
    if dataset is None:
        raise ParameterError("a ledger needs the name of the dataset")
    if not is_secure(bits):
        raise InsecureBitsError("a ledger accepts no release made with test bits")


def charged(
    release_now: Callable[[], Release[T]],
    *,
    guarantee: Guarantee,
    what: str,
    ledger: Ledger | None,
    dataset: str | None,
    request_id: str | None,
    budget: tuple[Exact, Exact] | None,
    protects: str | None = None,
    to_json: Callable[[Release[T]], str],
    from_json: Callable[[str], Release[T]],
) -> Release[T]:
    """Debit, release, and store the answer; or give the stored answer of a repeated request.

    ``what`` holds the public parameters of the request: equal for a repetition, different for anything else.
    ``protects`` says what of each unit is protected, if not all of it: the ledger does not add such debits to others.
    """
    if ledger is None or dataset is None:
        return release_now()
    debit = ledger.debit(
        dataset,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=protects or guarantee.unit,
        request_id=request_id,
        what=what,
        budget=budget,
    )
    if debit.answer is not None:
        release = from_json(debit.answer)
    else:
        release = release_now()
        ledger.store_answer(dataset, debit.request_id, to_json(release))
    return replace(release, remaining=ledger.remaining(dataset))

"""The one place where parameters are validated.

Conditions are written so that NaN fails. Messages give the parameter's name, the value received and
the allowed range.
"""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import TypeVar

from psephos.errors import ParameterError

__all__ = [
    "Exact",
    "check_choice",
    "check_integer",
    "check_level",
    "check_real",
    "exact",
    "excerpt",
    "fold",
    "is_unicode",
    "nonnegative",
    "parse_delta",
    "parse_epsilon",
    "percent_hint",
    "positive",
    "shorter",
]

#: What a parameter that must be an exact rational may be given as. A float means the decimal number
#: that it prints as: ``0.1`` is one tenth.
Exact = str | int | float | Decimal | Fraction

Choice = TypeVar("Choice", bound=str)

_MAX_TEXT = 400  # longer numerals are refused: they would cost time (denial of service)
_LEAST, _MOST_EPSILON = Fraction(1, 10**300), Fraction(10**9)
_MAX_RATIO = 10**30  # denominator of a ratio that is no decimal: sums of many must stay printable
_SPACE = re.compile(r"\s+")
_NUMERAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?|[+-]?\d+/\d+", re.ASCII)


def exact(value: object, name: str, allowed: str) -> Fraction:
    """Return ``value`` as an exact rational.

    Text may be a decimal (``"0.1"``, ``"1e-6"``) or a ratio (``"1/11"``). A float stands for the
    shortest decimal that prints as it, because that is what its author wrote.

    Raises
    ------
    ParameterError
        for ``None``, booleans, NaN, infinities and anything that is not a number.

    >>> exact("1/11", "epsilon", "> 0"), exact(0.1, "epsilon", "> 0")
    (Fraction(1, 11), Fraction(1, 10))
    """
    text: str
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, bool) or value is None:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    elif isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, Decimal) or type(value).__name__ in {"float", "float64", "float32", "float16"}:
        text = str(value)
    else:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    if len(text) > _MAX_TEXT or not _NUMERAL.fullmatch(text):
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ParameterError(f"{name} must be {allowed}, got {value!r}") from None


def parse_epsilon(value: object, name: str = "epsilon") -> Fraction:
    """Return a privacy loss bound, in nats, as an exact rational from 1e-300 to 1e9.

    >>> parse_epsilon("1e-6")
    Fraction(1, 1000000)
    """
    allowed = "a number > 0 (from 1e-300 to 1e9), as text ('0.1', '1/11'), a rational or a float"
    result = exact(value, name, allowed)
    if not _LEAST <= result <= _MOST_EPSILON:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    return _checked_ratio(result, value, name)


def _checked_ratio(result: Fraction, value: object, name: str) -> Fraction:
    """A budget's amount: a decimal of any length, or a ratio with a denominator of at most 10**30."""
    rest = result.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1 and result.denominator > _MAX_RATIO:
        raise ParameterError(f"{name} must be a decimal, or a ratio with a denominator <= 10**30, got {value!r}")
    return result


def shorter(amount: Fraction) -> Fraction:
    """A computed part of a budget rounded down to 80 bits, which :func:`parse_epsilon` and :func:`parse_delta` take.

    >>> shorter(Fraction(3, 4)), shorter(Fraction(1, 10**31 + 1)).denominator.bit_count()
    (Fraction(3, 4), 1)
    """
    if not amount:
        return amount
    scale = Fraction(2) ** (80 - amount.numerator.bit_length() + amount.denominator.bit_length())
    return Fraction(math.floor(amount * scale)) / scale


def positive(value: object, name: str) -> Fraction:
    """Return ``value`` as an exact rational > 0."""
    allowed = "a finite number > 0"
    result = exact(value, name, allowed)
    if not result > 0:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    return result


def nonnegative(value: object, name: str) -> Fraction:
    """Return ``value`` as an exact rational >= 0."""
    allowed = "a finite number >= 0"
    result = exact(value, name, allowed)
    if not result >= 0:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    return result


def check_level(value: object) -> float:
    """The level of intervals: strictly between 0 and 1, and low enough to be simulated.

    >>> check_level(0.95)
    0.95
    """
    level = check_real(value, "level", low=-1e300, high=1e300)
    if not 0 < level <= 0.9999:
        raise ParameterError(f"level must be > 0 and <= 0.9999, got {value!r}{percent_hint(level)}")
    return level


def percent_hint(share: object) -> str:
    """What to write where a share was given in percent; nothing otherwise.

    >>> percent_hint(95), percent_hint(0.95)
    ('; 95 percent is 0.95', '')
    """
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 1 < share < 100:
        return ""
    return f"; {share:g} percent is {share / 100:g}"


def fold(text: str) -> str:
    """The form in which names are compared: NFC, runs of white space as one space, none at the ends.

    >>> fold(" Ana   B ") == fold("Ana B"), fold("e\\u0301") == fold("\\u00e9")
    (True, True)
    """
    return unicodedata.normalize("NFC", _SPACE.sub(" ", text).strip())


def is_unicode(text: str) -> bool:
    """Whether text can be stored: bytes that are no UTF-8 arrive from a command line as lone surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def parse_delta(value: object, name: str = "delta") -> Fraction:
    """Return delta as an exact rational, 0 or from 1e-300 to below 1 (0 means pure differential privacy).

    >>> parse_delta("0")
    Fraction(0, 1)
    """
    allowed = "0, or a number from 1e-300 to below 1, as text ('1e-6'), a rational or a float"
    result = exact(value, name, allowed)
    if result and not _LEAST <= result < 1:
        raise ParameterError(f"{name} must be {allowed}, got {value!r}")
    return _checked_ratio(result, value, name)


def check_integer(value: object, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as a Python integer within ``[low, high]``; booleans and floats are refused."""
    span = f"a whole number{'' if low is None else f' >= {low}'}{'' if high is None else f' and <= {high}'}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(f"{name} must be {span}, got {value!r}")
    number = int(value)
    if (low is not None and number < low) or (high is not None and number > high):
        raise ParameterError(f"{name} must be {span}, got {value!r}")
    return number


def check_real(value: object, name: str, *, low: float, high: float = math.inf) -> float:
    """Return ``value`` as a float within ``[low, high]``; NaN is refused."""
    span = f"a number >= {low:g}" + ("" if high == math.inf else f" and <= {high:g}")
    if isinstance(value, (bool, str)) or value is None:
        raise ParameterError(f"{name} must be {span}, got {value!r}")
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be {span}, got {value!r}") from None
    if not low <= number <= high:
        raise ParameterError(f"{name} must be {span}, got {value!r}")
    return number


def check_choice(value: object, name: str, choices: tuple[Choice, ...]) -> Choice:
    """Return ``value`` if it is one of ``choices``."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {excerpt(value)}")


def excerpt(value: object) -> str:
    """A value as messages show it: at most 80 characters.

    >>> excerpt("a" * 100)[-6:], excerpt(10**5000)
    ('aaa...', 'a number of thousands of digits')
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."

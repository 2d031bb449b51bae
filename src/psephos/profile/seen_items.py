"""Names seen in the data that are hardly a public list: addresses, dates, numbers, and what one person alone named.

Declaring items public as they were seen publishes every name that occurs. Whoever reads the wrong column so would
publish addresses; whoever lets people write what they like, what one of them wrote. Such names stop the declaration,
at reading and before any debit. The rule finds mistakes; it makes no list of seen names private, and a release says
that the list is assumed to be public.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from psephos.errors import DataError

__all__ = ["names_somebody", "private_looking", "require_public_looking"]

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_KINDS = [
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("an e-mail address", r".*[^\s@]@[^\s@].*"),
        ("a web address", r"(?:[a-z][a-z0-9+.-]*://|www\.).*"),
        (
            "a date or a time",
            r"(?:[^\W\d]+,? +)?(?:\d{1,4}([-/.])\d{1,2}\1\d{1,4}"
            r"|\d{1,2}(?:st|nd|rd|th)?\.?[ -]" + _MONTH + r"(?:[ -,]+\d{2,4})?"
            r"|" + _MONTH + r"[ -]\d{1,2}(?:st|nd|rd|th)?(?:,? +\d{4})?"
            r"|\d{1,2}:\d{2})(?:\D.*)?",
        ),
        ("a network address", r"\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}"),
        ("an identifier", r"\{?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?|(?=.*\d)[0-9a-f]{16,}"),
        ("a number", r"[-+(]?[\d.,' ]*\d[\d.,' ]*(?:e[-+]?\d+)?\)?%?"),
        ("a phone number", r"\+?(?=(?:\D*\d){6})[\d\s()./-]+(?:x|ext\.? ?)?\d*"),
        ("several items at once", r".+;.*"),
        ("an answer in somebody's own words", r"others?\s*(?:[:(]|[-\u2013\u2014]\s).*\w.*"),
    )
]


def _kind(name: str) -> str | None:
    """What the name looks like, if it is no name of an item."""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(name.strip())), None)


def names_somebody(name: str) -> bool:
    """Whether a name looks like an address or an identifier: in a header, perhaps because the header is missing.

    >>> names_somebody("ana@example.org"), names_somebody("2024-05-01")
    (True, False)
    """
    return _kind(name) in ("an e-mail address", "a network address", "a phone number", "an identifier")


def private_looking(items: Sequence[str], named_by: Sequence[int]) -> tuple[str, ...]:
    """Why items as seen are hardly a public list, a reason each; nothing if there is none.

    ``named_by`` says how many people (comparisons, where nobody knows whose they are) named each item.

    >>> private_looking(["tea", "ana@example.org", "2024-05-01"], [9, 2, 1])
    ("'2024-05-01' looks like a date or a time", "'ana@example.org' looks like an e-mail address")
    >>> private_looking(["tea", "milk"], [9, 1])
    ("'milk' was named by one alone",)
    """
    looks: dict[str, list[str]] = {}
    for name, times in sorted(zip(items, named_by, strict=True)):
        kind = _kind(name)
        if kind is not None:
            looks.setdefault(f"looks like {kind}", []).append(name)
        elif times == 1:
            looks.setdefault("was named by one alone", []).append(name)
    return tuple(
        f"{names[0][:80]!r} {what}" + (f" (and {len(names) - 1} more like it)" if len(names) > 1 else "")
        for what, names in sorted(looks.items())
    )


def require_public_looking(items: Sequence[str], named_by: Sequence[int]) -> None:
    """Refuse to declare a list public, as it was seen, that holds what :func:`private_looking` finds."""
    reasons = private_looking(items, named_by)
    if reasons:
        raise DataError(
            f"the items as seen in the data are hardly a public list: {'; '.join(reasons)}. If they are what people "
            "chose from, give the public list when reading (items=, --items); if not, another column was read"
        )

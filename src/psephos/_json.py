"""The one way in which results become JSON: strict, so that every parser reads it.

JSON has no infinity and no NaN. Such a number is written as ``null``, and the object that holds it says why in a field
``null_because``, under the name of the entry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["json_text"]


def json_text(document: object, *, indent: int | None = 2, compact: bool = False) -> str:
    """A document of dictionaries, lists, text, numbers, booleans and ``None`` as strict JSON.

    Parameters
    ----------
    indent
        Blanks a level; ``None``: all on one line.
    compact
        No blanks after commas and colons.

    Raises
    ------
    ValueError
        for a number that is not finite and stands in no object, which could not say why.

    >>> print(json_text({"low": -math.inf, "high": 2.5}, indent=None))
    {"low": null, "high": 2.5, "null_because": {"low": "minus infinity, or below -1.8e308"}}
    """
    separators = (",", ":") if compact else None
    return json.dumps(_strict(document), ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)


def _strict(value: object) -> object:
    """The same with ``null`` for what JSON has no numbers for; each object says why."""
    if not isinstance(value, Mapping):
        return [_strict(x) for x in value] if isinstance(value, (list, tuple)) else value
    entries: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, entry in value.items():
        entries[name], reason = _finite(entry)
        if reason is not None:
            reasons[name] = reason
    return {**entries, "null_because": reasons} if reasons else entries


def _finite(entry: object) -> tuple[object, str | None]:
    """An entry as JSON takes it, and why it, or a number in its lists, became ``null``."""
    if isinstance(entry, float) and not math.isfinite(entry):
        if math.isnan(entry):
            return None, "not defined"
        return None, "infinite, or above 1.8e308" if entry > 0 else "minus infinity, or below -1.8e308"
    if isinstance(entry, (list, tuple)):
        parts = [_finite(x) for x in entry]
        return [part for part, _ in parts], next((reason for _, reason in parts if reason is not None), None)
    return _strict(entry), None

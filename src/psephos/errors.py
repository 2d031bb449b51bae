"""Errors that psephos raises on purpose.

Two families matter to a caller. A :class:`DataError` speaks about a holder's own file, at ingest,
with file and line; it may depend on the data and must never reach anyone but the holder. Everything
else depends on public facts alone (parameters, sizes, budgets).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = [
    "AccuracyWarning",
    "BudgetError",
    "DataError",
    "DataWarning",
    "InsecureBitsError",
    "MissingExtraError",
    "ParameterError",
    "PrivacyWarning",
    "PsephosError",
    "fault_lines",
]

#: How many faults of one kind are written out, and how many lines of further ones are named.
_SHOWN, _LINES = 3, 10
_ADVICE = re.compile(r" \(if .*\)$", re.DOTALL)  # said once
_VALUES = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[0-9]+""")


class PsephosError(Exception):
    """Base class of every error that psephos raises on purpose."""


class ParameterError(PsephosError, ValueError):
    """A parameter lies outside its range; the message gives name, value and range."""


class DataError(PsephosError, ValueError):
    """Records break a rule. The message names file, line, value and rule of each, the first few of a kind in full.

    ``faults`` holds every fault as (1-based line or ``None``, rule), ``line`` and ``rule`` are those of the first;
    ``source`` is the file's name (``None`` for data in memory). ``summary`` is a last line.
    """

    def __init__(
        self,
        rule: str,
        *,
        source: str | None = None,
        line: int | None = None,
        faults: Sequence[tuple[int | None, str]] = (),
        summary: str = "",
    ) -> None:
        self.rule = rule
        self.source = source
        self.line = line
        self.faults = tuple(faults) or ((line, rule),)
        lines = fault_lines(self.faults, source)
        super().__init__("\n".join([*lines, summary] if summary else lines))


def fault_lines(faults: Sequence[tuple[int | None, str]], source: str | None) -> list[str]:
    """What faults say, a line each: the first three of a kind, and how many more are like them.

    >>> fault_lines([(k, f"count must be a whole number, got '{k}x'") for k in range(2, 7)], "f.soc")[2:]
    ["f.soc:4: count must be a whole number, got '4x'", 'f.soc: and 2 more like it, on lines 5, 6']
    """
    kinds: dict[str, list[tuple[int | None, str]]] = {}
    for fault in faults:
        kind = re.sub(r"_(, _)+", "_", _VALUES.sub("_", _ADVICE.sub("", fault[1])).replace("_ for _", "_"))
        kinds.setdefault(kind, []).append(fault)
    lines = []
    for same in kinds.values():
        for i, (line, rule) in enumerate(same[:_SHOWN]):
            where = ":".join(str(part) for part in (source, line) if part is not None)
            said = _ADVICE.sub("", rule) if i else rule
            lines.append(f"{where}: {said}" if where else said)
        if len(same) > _SHOWN:
            more = [str(line) for line, _ in same[_SHOWN:] if line is not None]
            named = ", ".join(more[:_LINES]) + (", ..." if len(more) > _LINES else "")
            on = f", on line{'s' if len(more) > 1 else ''} {named}" if more else ""
            lines.append(f"{source + ': ' if source else ''}and {len(same) - _SHOWN} more like it{on}")
    return lines


class BudgetError(PsephosError):
    """The ledger refuses: not enough budget left, or a request id whose answer is missing."""


class InsecureBitsError(PsephosError):
    """Test bits were offered where only operating-system entropy will do."""


class MissingExtraError(PsephosError, ImportError):
    """An optional dependency is not installed; the message is the line that installs it."""


class DataWarning(UserWarning):
    """A file contradicts itself in a way that does not change what is read from its body."""


class AccuracyWarning(UserWarning):
    """The requested release is valid, but so noisy that the result carries little information."""


class PrivacyWarning(UserWarning):
    """A parameter is legal, and gives practically no protection."""

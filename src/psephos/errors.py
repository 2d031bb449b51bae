"""Errors that psephos raises on purpose.

Two families matter to a caller. A :class:`DataError` speaks about a holder's own file, at ingest,
with file and line; it may depend on the data and must never reach anyone but the holder. Everything
else depends on public facts alone (parameters, sizes, budgets).
"""

from __future__ import annotations

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
]


class PsephosError(Exception):
    """Base class of every error that psephos raises on purpose."""


class ParameterError(PsephosError, ValueError):
    """A parameter lies outside its range; the message gives name, value and range."""


class DataError(PsephosError, ValueError):
    """A record breaks a rule. The message names file, line, value and rule.

    ``source`` is the file's name (``None`` for data in memory), ``line`` the 1-based line.
    """

    def __init__(self, rule: str, *, source: str | None = None, line: int | None = None) -> None:
        self.rule = rule
        self.source = source
        self.line = line
        where = ":".join(str(part) for part in (source, line) if part is not None)
        super().__init__(f"{where}: {rule}" if where else rule)


class BudgetError(PsephosError):
    """The ledger refuses: not enough budget left, or a request id whose answer is missing."""


class InsecureBitsError(PsephosError):
    """Test bits were offered where only operating-system entropy will do."""


class MissingExtraError(PsephosError, ImportError):
    """An optional dependency is not installed; the message is the line that installs it."""


class DataWarning(UserWarning):
    """A file contradicts itself in a way that does not change what is read from its body."""


class AccuracyWarning(UserWarning):
    """A release is legal, and its noise, a public fact, leaves next to nothing to see."""


class PrivacyWarning(UserWarning):
    """A parameter is legal, and gives practically no protection."""

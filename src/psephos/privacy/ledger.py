"""The ledger: what has been spent on each dataset, in SQLite.

Rules. A release debits *before* its noise is drawn, in one immediate transaction that reads the sum and writes the
debit; a crash in between loses budget and never grants it. Amounts are exact rationals, kept as text and summed as
fractions. A request id is answered once: asked again it gives the stored answer, and if the answer is missing (the
process died) it is refused and its budget stays spent. Datasets are keyed by the name they are given, never by a
hash of the data, which would be a release in itself. Composition is the plain sum of epsilons and deltas: it holds too
where requests and their budgets are chosen after answers, and several processes ask at once (``docs/proofs/ledger.md``,
theorem 1: the privacy filter of Rogers, Roth, Ullman and Vadhan 2016 for basic composition).

Concurrency. Each operation opens its own connection, so forked and threaded workers share nothing; SQLite's file
lock makes transactions of several processes on one machine atomic. On a network file system that lock cannot be
trusted: one ledger file belongs to one machine.
"""

from __future__ import annotations

import datetime
import sqlite3
import unicodedata
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType

from psephos._check import Exact, fold, is_unicode, parse_delta, parse_epsilon
from psephos.errors import BudgetError, ParameterError
from psephos.privacy.guarantee import decimal_text

__all__ = ["Debit", "Ledger"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS datasets (
    name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, unit TEXT, created TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS debits (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets(name), request_id TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, what TEXT NOT NULL, answer TEXT, created TEXT NOT NULL,
    UNIQUE (dataset, request_id)
) STRICT;
"""
_HAS_SCHEMA = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'debits'"
_WAIT_SECONDS = 60.0
_MAX_NAME = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Debit:
    """One debit: its amounts, what it was for, and its answer if it was stored (``None`` if it was lost)."""

    request_id: str
    epsilon: Fraction
    delta: Fraction
    what: str
    answer: str | None
    created: str


class Ledger:
    """Budgets and debits of any number of datasets, in one SQLite file.

    Parameters
    ----------
    path
        The file; made on first use. It must lie on a local file system.

    >>> import tempfile, pathlib
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp(), "ledger.db"))
    >>> ledger.set_budget("poll", epsilon="1", delta="1e-6")
    >>> debit = ledger.debit("poll", epsilon="0.1", delta=0, request_id="monday", what="an example")
    >>> ledger.remaining("poll")
    (Fraction(9, 10), Fraction(1, 1000000))
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = Path(fspath(path)).absolute()  # a later change of directory must not mean another ledger
        self._open = True

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Refuse all further use of this handle."""
        self._open = False

    @contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction on a connection of its own. Reading neither makes a file nor changes one."""
        if not self._open:
            raise BudgetError("this ledger handle is closed")
        where = f"{self._path.as_uri()}?mode={'rwc' if write else 'rw'}"
        try:
            with closing(sqlite3.connect(where, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    if write:
                        for statement in _SCHEMA.split(";"):
                            connection.execute(statement)
                    elif connection.execute(_HAS_SCHEMA).fetchone() is None:
                        raise BudgetError(f"{str(self._path)!r} is no ledger yet: no dataset has a budget")
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise BudgetError(f"the ledger {str(self._path)!r} cannot be used: {error}") from error

    def set_budget(self, dataset: str, *, epsilon: Exact, delta: Exact = 0) -> None:
        """Fix the total budget of ``dataset``, once. Giving the same budget again changes nothing.

        Raises
        ------
        ParameterError
            if the dataset already has another budget.
        """
        name = _checked_name(dataset, "dataset")
        with self._transaction() as connection:
            _fix_budget(connection, name, (epsilon, delta))

    def debit(
        self,
        dataset: str,
        *,
        epsilon: Exact,
        delta: Exact = 0,
        unit: str = "person",
        request_id: str | None = None,
        what: str,
        budget: tuple[Exact, Exact] | None = None,
    ) -> Debit:
        """Spend (epsilon, delta) of the budget of ``dataset``, or return the answer of a repeated request.

        Parameters
        ----------
        unit
            What is protected. All debits of a dataset protect the same unit: their sums would mean nothing otherwise.
        request_id
            Names the request; a new random one if absent. If it was seen before with an answer, that answer comes
            back and nothing is spent.
        what
            The public parameters of the request. A repeated request must have the same.
        budget
            As :meth:`set_budget`, in the same transaction: a refused debit fixes no budget.

        Raises
        ------
        BudgetError
            if the budget does not suffice (nothing is spent), if the dataset has no budget, if it protects another
            unit, or if the request id was used before and its answer is missing or belongs to other parameters.
        """
        name = _checked_name(dataset, "dataset")
        request = str(uuid.uuid4()) if request_id is None else _checked_name(request_id, "request_id")
        amount = parse_epsilon(epsilon), parse_delta(delta)
        with self._transaction() as connection:
            if budget is not None:
                _fix_budget(connection, name, budget)
            old = next(_debits(connection, name, request), None)
            if old is not None:
                if (old.what, old.epsilon, old.delta) != (what, *amount):
                    raise BudgetError(f"request id {request!r} was used for another request")
                if old.answer is None:
                    raise BudgetError(
                        f"request id {request!r} was debited and its answer is missing; its budget stays spent"
                    )
                return old
            left = _left(connection, name)
            if amount[0] > left[0] or amount[1] > left[1]:
                raise BudgetError(
                    f"{name!r} has epsilon {decimal_text(left[0])}, delta {decimal_text(left[1])} left, and the "
                    f"request needs epsilon {decimal_text(amount[0])}, delta {decimal_text(amount[1])}"
                )
            protected = connection.execute("SELECT unit FROM datasets WHERE name = ?", (name,)).fetchone()[0]
            if protected not in {None, unit}:
                raise BudgetError(f"the budget of {name!r} protects each {protected}, and the request each {unit}")
            connection.execute("UPDATE datasets SET unit = ? WHERE name = ?", (unit, name))
            created = _now()
            connection.execute(
                "INSERT INTO debits (dataset, request_id, epsilon, delta, what, created) VALUES (?, ?, ?, ?, ?, ?)",
                (name, request, str(amount[0]), str(amount[1]), what, created),
            )
        return Debit(request_id=request, epsilon=amount[0], delta=amount[1], what=what, answer=None, created=created)

    def store_answer(self, dataset: str, request_id: str, answer: str) -> None:
        """Keep the answer of a debited request, once, for whoever asks again."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE debits SET answer = ? WHERE dataset = ? AND request_id = ? AND answer IS NULL",
                (answer, fold(dataset), fold(request_id)),
            ).rowcount
            if changed != 1:
                raise BudgetError(f"request id {request_id!r} is not waiting for an answer")

    def budget(self, dataset: str) -> tuple[Fraction, Fraction]:
        """The total (epsilon, delta) of ``dataset``."""
        with self._transaction(write=False) as connection:
            total = _budget(connection, fold(dataset))
        if total is None:
            raise BudgetError(f"dataset {dataset!r} has no budget in this ledger")
        return total

    def remaining(self, dataset: str) -> tuple[Fraction, Fraction]:
        """What is left of the (epsilon, delta) of ``dataset``."""
        with self._transaction(write=False) as connection:
            return _left(connection, fold(dataset))

    def datasets(self) -> tuple[str, ...]:
        """The names of all datasets with a budget."""
        with self._transaction(write=False) as connection:
            return tuple(row[0] for row in connection.execute("SELECT name FROM datasets ORDER BY name"))

    def debits(self, dataset: str) -> tuple[Debit, ...]:
        """All debits of ``dataset``, oldest first."""
        with self._transaction(write=False) as connection:
            return tuple(_debits(connection, fold(dataset)))


def _checked_name(value: object, name: str) -> str:
    """The folded form of a name, which is its key: spellings that look alike must not have a budget each."""
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_NAME or not is_unicode(value):
        raise ParameterError(f"{name} must be text of 1 to {_MAX_NAME} characters that is not blank, got {value!r}")
    return fold(value)


def _look(name: str) -> str:
    """What is left of a name without case and invisible characters."""
    return "".join(c for c in name.casefold() if unicodedata.category(c) not in {"Cf", "Cc"})


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _amount(text: str) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if value < 0:
        raise BudgetError(f"the ledger is damaged: {text!r} is no amount")
    return value


def _fix_budget(connection: sqlite3.Connection, dataset: str, budget: tuple[Exact, Exact]) -> None:
    total = parse_epsilon(budget[0], "budget epsilon"), parse_delta(budget[1], "budget delta")
    before = _budget(connection, dataset)
    if before is None:
        for (other,) in connection.execute("SELECT name FROM datasets").fetchall():
            if _look(other) == _look(dataset):
                raise ParameterError(f"there is a dataset {other!r}, which differs from {dataset!r} by case alone")
        connection.execute(
            "INSERT INTO datasets (name, epsilon, delta, created) VALUES (?, ?, ?, ?)",
            (dataset, str(total[0]), str(total[1]), _now()),
        )
    elif before != total:
        raise ParameterError(
            f"the budget of {dataset!r} was fixed at epsilon {decimal_text(before[0])}, "
            f"delta {decimal_text(before[1])}, and cannot change"
        )


def _budget(connection: sqlite3.Connection, dataset: str) -> tuple[Fraction, Fraction] | None:
    row = connection.execute("SELECT epsilon, delta FROM datasets WHERE name = ?", (dataset,)).fetchone()
    return None if row is None else (_amount(row[0]), _amount(row[1]))


def _debits(connection: sqlite3.Connection, dataset: str, request_id: str | None = None) -> Iterator[Debit]:
    rows = connection.execute(
        "SELECT request_id, epsilon, delta, what, answer, created FROM debits "
        "WHERE dataset = ? AND (? IS NULL OR request_id = ?) ORDER BY id",
        (dataset, request_id, request_id),
    )
    for request, epsilon, delta, what, answer, created in rows:
        yield Debit(
            request_id=request,
            epsilon=_amount(epsilon),
            delta=_amount(delta),
            what=what,
            answer=answer,
            created=created,
        )


def _left(connection: sqlite3.Connection, dataset: str) -> tuple[Fraction, Fraction]:
    total = _budget(connection, dataset)
    if total is None:
        raise BudgetError(f"dataset {dataset!r} has no budget in this ledger")
    epsilon, delta = total
    for spent in connection.execute("SELECT epsilon, delta FROM debits WHERE dataset = ?", (dataset,)):
        epsilon -= _amount(spent[0])
        delta -= _amount(spent[1])
    return epsilon, delta

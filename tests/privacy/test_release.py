"""The driver of releases: refuse, debit, run, store."""

import ast
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

import psephos
from psephos.errors import BudgetError, InsecureBitsError, ParameterError
from psephos.privacy import Account, Guarantee, InsecureBits, Ledger, Release, SystemBits
from psephos.privacy.events import ConstantEvent
from psephos.privacy.release import Codec, PlannedRelease, release

SOURCE = Path(psephos.__file__).parent


def test_only_the_driver_of_releases_calls_the_ledger():
    callers = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("debit", "store_answer"):
                callers.add(path.relative_to(SOURCE).as_posix())
    assert callers == {"privacy/release.py"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned(PlannedRelease[list[str], str]):
    """A release that reads nothing, and says when it ran."""

    log: list[str]

    def run(self, data, bits):
        self.log.append(f"{len(data)} read by {bits!r}")
        return "drawn", ConstantEvent()


def _planned(log, request="a request"):
    codec = Codec(
        lambda made: made.value,
        lambda text: Release(value=text, event=ConstantEvent(), guarantee=guarantee, secure=True),
    )
    guarantee = Guarantee(epsilon=Fraction(1, 2), delta=Fraction(0))
    return _Planned(guarantee=guarantee, units=3, request=request, codec=codec, log=log)


def test_the_driver_debits_before_it_runs_and_stores_what_it_gave(tmp_path):
    ledger, log = Ledger(tmp_path / "l.db"), []
    account = Account(ledger, "d", budget=(1, 0), request_id="r")
    first = release(_planned(log), ["x"], account=account, bits=SystemBits())
    assert (first.value, first.secure, first.remaining) == ("drawn", True, (Fraction(1, 2), 0))
    again = release(_planned(log), ["x"], account=account, bits=SystemBits())
    assert (again.value, again.remaining, log) == ("drawn", first.remaining, ["1 read by SystemBits()"])
    with pytest.raises(BudgetError, match="another request"):
        release(_planned(log, "another"), ["x"], account=account, bits=SystemBits())
    with pytest.raises(InsecureBitsError):
        release(_planned(log), ["x"], account=account, bits=InsecureBits(seed=1))
    with pytest.raises(ParameterError, match="account must be an Account"):
        release(_planned(log), ["x"], account=ledger, bits=SystemBits())
    assert log == ["1 read by SystemBits()"]


def test_without_an_account_nothing_is_kept_and_test_bits_are_stamped():
    made = release(_planned([]), [], account=None, bits=InsecureBits(seed=1))
    assert (made.value, made.secure, made.remaining) == ("drawn", False, None)

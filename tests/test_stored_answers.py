"""A ledger kept by older code: its stored answers are still given to the requests that paid for them, for nothing."""

import shutil
import warnings
from pathlib import Path

import pytest

from experiment_rows import modules_of

GOLDEN = Path(__file__).parent / "golden"
with modules_of(GOLDEN) as load:
    releases = load("releases")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A copy of the ledger that version 0.1.0 kept."""
    return shutil.copy(GOLDEN / "ledger_0_1_0.db", tmp_path_factory.mktemp("ledger") / "ledger.db")


@pytest.mark.parametrize("asked", releases.requests())
def test_a_request_of_older_code_gets_its_stored_answer(asked, kept):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = releases.pay(asked, kept)
    ledger = releases.Ledger(kept)
    assert len(ledger.debits(asked)) == 1
    assert release.remaining == ledger.remaining(asked)
    assert release.secure

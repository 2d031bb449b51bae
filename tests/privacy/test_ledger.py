"""The ledger: exact sums, atomic across processes, survives kill -9, answers a request once (P11, P13, P15)."""

import signal
import sqlite3
import subprocess
import sys
from fractions import Fraction

import pytest

from psephos import Account, Ledger, Profile, private_consensus
from psephos.central import release_to_json
from psephos.errors import BudgetError, ParameterError

PROFILE = Profile.from_rankings({("a", "b", "c"): 50, ("b", "a", "c"): 20}, items=["a", "b", "c"])


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_budget("poll", epsilon=1, delta="1e-5")
    return ledger


def spend(ledger, epsilon, delta=0, request_id=None):
    return ledger.debit("poll", epsilon=epsilon, delta=delta, request_id=request_id, what="test")


@pytest.mark.parametrize(("share", "times"), [("1/11", 11), ("0.1", 10), (0.1, 10), ("1/3", 3)])
def test_p11_shares_fit_exactly(ledger, share, times):
    for _ in range(times):
        spend(ledger, share)
    assert ledger.remaining("poll") == (0, Fraction(1, 10**5))
    with pytest.raises(BudgetError, match="left"):
        spend(ledger, "1e-30")
    assert ledger.remaining("poll")[0] == 0


def test_delta_is_a_budget_too(ledger):
    spend(ledger, "0.1", "1e-5")
    with pytest.raises(BudgetError, match="delta"):
        spend(ledger, "0.1", "1e-30")
    spend(ledger, "0.1")
    assert ledger.remaining("poll") == (Fraction(8, 10), 0)


def test_a_refused_debit_spends_nothing(ledger):
    with pytest.raises(BudgetError):
        spend(ledger, "1.0000001")
    assert ledger.remaining("poll") == (1, Fraction(1, 10**5))
    assert ledger.debits("poll") == ()


def test_the_budget_is_fixed_once(ledger):
    ledger.set_budget("poll", epsilon="1.0", delta="0.00001")
    with pytest.raises(ParameterError, match="cannot change"):
        ledger.set_budget("poll", epsilon=2, delta="1e-5")
    with pytest.raises(BudgetError, match="no budget"):
        ledger.debit("another", epsilon=1, what="x")
    with pytest.raises(BudgetError, match="no budget"):
        ledger.budget("another")


@pytest.mark.parametrize("name", ["", " ", None, 3, "x" * 2000])
def test_names_are_checked(ledger, name):
    with pytest.raises(ParameterError):
        ledger.set_budget(name, epsilon=1)
    if name is not None:
        with pytest.raises(ParameterError):
            spend(ledger, "0.1", request_id=name)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), None, True])
def test_amounts_are_checked(ledger, epsilon):
    with pytest.raises(ParameterError):
        spend(ledger, epsilon)
    with pytest.raises(ParameterError):
        ledger.set_budget("other", epsilon=epsilon)


WORKER = """
import sys
from psephos import Ledger
from psephos.errors import BudgetError
try:
    Ledger(sys.argv[1]).debit("poll", epsilon="0.1", what="worker")
except BudgetError:
    sys.exit(3)
"""


def test_p13_twenty_processes_share_a_budget_of_ten_debits(ledger, tmp_path):
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "ledger.db")]) for _ in range(20)]
    codes = sorted(worker.wait() for worker in workers)
    assert codes == [0] * 10 + [3] * 10
    assert ledger.remaining("poll")[0] == 0


KILLED = """
import os, signal, sys
from psephos import Account, Ledger, Profile, private_consensus
from psephos.central import consensus

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

consensus.{point} = die
profile = Profile.from_rankings({{("a", "b", "c"): 50, ("b", "a", "c"): 20}}, items=["a", "b", "c"])
private_consensus(
    profile, epsilon="0.3", mechanism="laplace", account=Account(Ledger(sys.argv[1]), "poll", request_id="r1")
)
"""


@pytest.mark.parametrize("point", ["pairwise_margins", "laplace_margins", "consensus_of", "release_to_json"])
def test_p13_kill_between_debit_and_release_loses_budget_and_never_grants_it(ledger, tmp_path, point):
    worker = subprocess.run(
        [sys.executable, "-c", KILLED.format(point=point), str(tmp_path / "ledger.db")], check=False
    )
    assert worker.returncode == -signal.SIGKILL
    assert ledger.remaining("poll")[0] == Fraction(7, 10)
    with pytest.raises(BudgetError, match="stays spent"):
        private_consensus(PROFILE, epsilon="0.3", mechanism="laplace", account=Account(ledger, "poll", request_id="r1"))
    assert ledger.remaining("poll")[0] == Fraction(7, 10)


def test_debit_comes_before_data_and_noise(ledger, monkeypatch):
    from psephos.central import consensus

    seen = []
    monkeypatch.setattr(
        consensus, "pairwise_margins", lambda *_, **__: seen.append(ledger.remaining("poll")[0]) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        private_consensus(PROFILE, epsilon="0.25", account=Account(ledger, "poll"))
    assert seen == [Fraction(3, 4)]


def test_no_data_are_read_when_the_budget_is_short(ledger, monkeypatch):
    from psephos.central import consensus

    monkeypatch.setattr(consensus, "pairwise_margins", lambda *_, **__: pytest.fail("read the data"))
    with pytest.raises(BudgetError):
        private_consensus(PROFILE, epsilon=2, account=Account(ledger, "poll"))


def test_p15_a_repeated_request_gives_the_stored_answer_and_costs_nothing(ledger):
    first = private_consensus(PROFILE, epsilon="0.01", account=Account(ledger, "poll", request_id="r1"))
    again = private_consensus(PROFILE, epsilon="0.01", account=Account(ledger, "poll", request_id="r1"))
    assert again.value.estimate.margins.tolist() == first.value.estimate.margins.tolist()
    assert again.value.tiers == first.value.tiers
    assert (again.event, again.guarantee, again.secure) == (first.event, first.guarantee, True)
    assert first.remaining == again.remaining == (Fraction(99, 100), Fraction(1, 10**5))
    other = private_consensus(PROFILE, epsilon="0.01", account=Account(ledger, "poll", request_id="r2"))
    assert other.value.estimate.margins.tolist() != first.value.estimate.margins.tolist()


def test_p15_a_request_id_belongs_to_one_request(ledger):
    account = Account(ledger, "poll", request_id="r1")
    private_consensus(PROFILE, epsilon="0.01", account=account)
    gaussian = {"mechanism": "gaussian", "delta": "1e-6"}
    for changed in ({"epsilon": "0.02"}, {"unranked": "missing"}, {"post_processing": "raw"}, gaussian):
        with pytest.raises(BudgetError, match="another request"):
            private_consensus(PROFILE, **{"epsilon": "0.01", **changed}, account=account)
    assert ledger.remaining("poll")[0] == Fraction(99, 100)


def test_p15_a_closed_handle_is_refused(ledger, tmp_path):
    with Ledger(tmp_path / "ledger.db") as handle:
        handle.remaining("poll")
    with pytest.raises(BudgetError, match="closed"):
        private_consensus(PROFILE, epsilon="0.1", account=Account(handle, "poll"))
    assert ledger.remaining("poll")[0] == 1


def test_pure_mechanisms_debit_no_delta(ledger):
    private_consensus(PROFILE, epsilon="0.1", delta="1e-6", mechanism="laplace", account=Account(ledger, "poll"))
    assert ledger.remaining("poll") == (Fraction(9, 10), Fraction(1, 10**5))
    private_consensus(PROFILE, epsilon="0.1", delta="1e-6", mechanism="gaussian", account=Account(ledger, "poll"))
    assert ledger.remaining("poll") == (Fraction(8, 10), Fraction(9, 10**6))


def test_a_damaged_or_foreign_file_releases_nothing(tmp_path):
    path = tmp_path / "not.db"
    path.write_text("this is no database, " * 100)
    with pytest.raises(BudgetError, match="cannot be used"):
        Ledger(path).remaining("poll")
    with pytest.raises(BudgetError, match="cannot be used"):
        Ledger(tmp_path / "no" / "such" / "folder.db").remaining("poll")


def test_an_answer_is_stored_once(ledger):
    debit = spend(ledger, "0.1", request_id="r1")
    ledger.store_answer("poll", debit.request_id, "one")
    with pytest.raises(BudgetError, match="not waiting"):
        ledger.store_answer("poll", "r1", "two")
    assert [d.answer for d in ledger.debits("poll")] == ["one"]


FORKED = """
import os, sys
from psephos import Ledger

ledger = Ledger(sys.argv[1])
ledger.remaining("poll")
pid = os.fork()
ledger.debit("poll", epsilon="0.1", what="test")
if pid == 0:
    os._exit(0)
sys.exit(os.waitpid(pid, 0)[1])
"""


def test_fork_shares_no_connection(ledger, tmp_path):
    """In a process of its own: a fork of one that runs threads, as that of the tests may, can hang."""
    subprocess.run([sys.executable, "-c", FORKED, str(tmp_path / "ledger.db")], check=True)
    assert ledger.remaining("poll")[0] == Fraction(8, 10)


def test_amounts_are_text_on_disk(ledger, tmp_path):
    spend(ledger, "1/11")
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        assert connection.execute("SELECT epsilon, typeof(epsilon) FROM debits").fetchall() == [("1/11", "text")]
    connection.close()


def test_reading_makes_no_file_and_changes_none(tmp_path):
    path = tmp_path / "new.db"
    for read in (Ledger(path).datasets, lambda: Ledger(path).remaining("poll"), lambda: Ledger(path).debits("poll")):
        with pytest.raises(BudgetError):
            read()
    assert not path.exists()
    path.touch()
    with pytest.raises(BudgetError, match="no ledger yet"):
        Ledger(path).datasets()
    assert path.stat().st_size == 0


def test_a_path_with_strange_characters_is_one_file(tmp_path):
    path = tmp_path / "a?b#c%20 é.db"
    Ledger(path).set_budget("poll", epsilon=1)
    assert path.exists()
    assert Ledger(path).datasets() == ("poll",)


def test_one_dataset_has_one_budget_however_its_name_is_spelled(ledger):
    spend(ledger, "0.4")
    assert ledger.remaining("  poll ")[0] == Fraction(6, 10)
    ledger.set_budget("caf\u00e9", epsilon=1)
    ledger.debit("cafe\u0301", epsilon=1, what="x")
    with pytest.raises(BudgetError):
        ledger.debit("caf\u00e9", epsilon="1e-30", what="x")
    for name in ("Poll", "po\u200bll"):
        with pytest.raises(ParameterError, match="by case alone"):
            ledger.set_budget(name, epsilon=1)
    with pytest.raises(ParameterError):
        ledger.set_budget("\udcff", epsilon=1)


def test_a_relative_path_stays_the_same_ledger(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    handle = Ledger("ledger.db")
    handle.set_budget("poll", epsilon=1)
    handle.debit("poll", epsilon=1, what="x")
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(BudgetError):
        handle.debit("poll", epsilon="0.1", what="x")


def test_units_do_not_mix_in_one_budget(ledger):
    spend(ledger, "0.1")
    with pytest.raises(BudgetError, match="protects each person"):
        ledger.debit("poll", epsilon="0.1", unit="comparison", what="x")


def test_a_refused_request_fixes_no_budget(tmp_path):
    ledger = Ledger(tmp_path / "new.db")
    for bad in ({"post_processing": "bogus"}, {"unranked": "first"}, {"request_id": " "}, {"epsilon": "0.6"}):
        arguments = {"epsilon": "0.1", **bad}
        account = Account(ledger, "poll", budget=("0.5", 0), request_id=arguments.pop("request_id", None))
        with pytest.raises((ParameterError, BudgetError)):
            private_consensus(PROFILE, **arguments, account=account)
    with pytest.raises(BudgetError, match="no dataset has a budget"):
        ledger.datasets()
    private_consensus(PROFILE, epsilon="0.1", account=Account(ledger, "poll", budget=("0.5", 0)))
    assert ledger.remaining("poll") == (Fraction(4, 10), 0)
    with pytest.raises(ParameterError, match="cannot change"):
        private_consensus(PROFILE, epsilon="0.1", account=Account(ledger, "poll", budget=("0.6", 0)))


@pytest.mark.parametrize("amount", ["nan", "1/0", "-1", "x"])
def test_damaged_amounts_are_no_credit(ledger, tmp_path, amount):
    spend(ledger, "0.1")
    connection = sqlite3.connect(tmp_path / "ledger.db")
    connection.execute("UPDATE debits SET epsilon = ?", (amount,))
    connection.commit()
    connection.close()
    with pytest.raises(BudgetError, match="damaged"):
        spend(ledger, "0.1")


def test_very_many_odd_amounts_stay_printable(ledger):
    for k in range(60):
        spend(ledger, Fraction(1, 10**29 + 2 * k + 1))
    from psephos.privacy import decimal_text

    text = decimal_text(ledger.remaining("poll")[0])
    assert 0 <= ledger.remaining("poll")[0] - Fraction(text) < Fraction(1, 10**49)
    with pytest.raises(ParameterError, match="denominator"):
        spend(ledger, Fraction(1, 10**31 + 1))


def test_stored_answers_of_astronomical_profiles_can_be_read_again(ledger):
    profile = Profile.from_rankings({("a", "b"): 10**1000, ("b", "a"): 3}, items=["a", "b"])
    first = private_consensus(profile, epsilon="0.1", account=Account(ledger, "poll", request_id="r"))
    again = private_consensus(profile, epsilon="0.1", account=Account(ledger, "poll", request_id="r"))
    assert again.value.cost_released == first.value.cost_released


def test_a_repetition_gives_the_stored_answer_and_another_effort_is_another_request(ledger):
    """Whatever guard it comes with: the solver does not run again."""
    same = {"epsilon": "0.1", "mechanism": "laplace", "account": Account(ledger, "poll", request_id="r")}
    first = private_consensus(PROFILE, **same, time_limit=0)
    assert release_to_json(private_consensus(PROFILE, **same)) == release_to_json(first)
    with pytest.raises(BudgetError, match="another request"):
        private_consensus(PROFILE, **same, effort=0)
    assert len(ledger.debits("poll")) == 1

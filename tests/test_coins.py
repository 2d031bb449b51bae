"""Coins are tossed after the debit, in every release: they have no say in what is debited, asked or said of noise."""

from fractions import Fraction

import numpy as np
import pytest

from noisy_fits import LOSSES, people
from psephos import Account, Comparisons, Ledger, Profile, private_consensus, private_posterior, private_scores
from psephos.privacy import SystemBits

BALLOTS = Profile.from_rankings({("a", "b", "c", "d"): 50, ("d", "b", "a", "c"): 30}, items=list("abcd"))
ANSWERS = Comparisons.from_columns(
    list("abcd"), [0, 0, 0, 1, 2, 0] * 4, [1, 1, 2, 2, 3, 3] * 4, [1, -1] * 12, person=[k // 6 for k in range(24)]
)
COMMON = ("laplace", "gaussian", "kwiksort", "exponential")
OF_BALLOTS = ("borda", "shaped", "probe", "nuclear", "footrule", "two-stage")
TABLES = [
    *((data, {"mechanism": name}) for data in (BALLOTS, ANSWERS) for name in COMMON),
    *((BALLOTS, {"mechanism": name}) for name in OF_BALLOTS),
    (BALLOTS, {"mechanism": "borda", "level": 0.9}),
    (ANSWERS, {"unit": "comparison"}),
]
RELEASES = {
    **{
        f"consensus {type(data).__name__} {options}": lambda data=data, options=options, **paid: private_consensus(
            data, unranked="last" if data is BALLOTS else "missing", **options, **paid
        )
        for data, options in TABLES
    },
    **{
        f"scores {graph} {unit}": lambda graph=graph, unit=unit, **paid: private_scores(
            ANSWERS, graph=graph, unit=unit, **paid
        )
        for graph in ("public", "private")
        for unit in ("person", "comparison")
    },
    **{
        f"posterior {method}": lambda method=method, **paid: private_posterior(
            people("gaussian", 100, np.random.default_rng(1)), LOSSES["gaussian"], method=method, **paid
        )
        for method in ("sandwich", "field")
    },
}


@pytest.mark.parametrize("name", RELEASES)
def test_no_coin_is_tossed_before_the_debit(name, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.db")
    paid_at_toss = []
    for source in ("bits", "words"):
        toss = getattr(SystemBits, source)
        monkeypatch.setattr(
            SystemBits, source, lambda self, n, toss=toss: paid_at_toss.append(len(ledger.debits("d"))) or toss(self, n)
        )
    account = Account(ledger, "d", budget=(1, Fraction(1, 10**5)), request_id="r")
    paid = {"epsilon": 1, "delta": Fraction(1, 10**5), "account": account}
    RELEASES[name](**paid)
    assert set(paid_at_toss) == {1}
    assert RELEASES[name](**paid).remaining is not None
    assert len(ledger.debits("d")) == 1

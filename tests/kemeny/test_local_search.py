import numpy as np
import pytest

from psephos.kemeny.effort import Effort
from psephos.kemeny.local_search import improve, insertion_prices, local_search


def score(margins, order):
    return np.triu(margins[np.ix_(order, order)], 1).sum()


@pytest.mark.parametrize("m", [1, 2, 3, 7, 12])
def test_prices_and_local_optimality(m, antisymmetric):
    rng = np.random.default_rng(m)
    margins = antisymmetric(rng.integers(-50, 51, (m, m))).astype(float)
    start = rng.permutation(m)
    order = improve(margins, start)
    assert sorted(order) == list(range(m))
    assert score(margins, order) >= score(margins, start)
    for table_order in (start, order):
        prices = insertion_prices(margins[np.ix_(table_order, table_order)])
        for i in range(m):
            for j in range(m):
                moved = np.insert(np.delete(table_order, i), j, table_order[i])
                assert 2 * prices[i, j] == score(margins, table_order) - score(margins, moved)
    assert prices.min() >= 0


def test_deterministic_and_good(antisymmetric):
    margins = antisymmetric(np.random.default_rng(0).normal(size=(60, 60)))
    first = local_search(margins, kicks=20, effort=Effort(60))
    assert (first == local_search(margins, kicks=20, effort=Effort(60))).all()
    assert score(margins, first) >= score(margins, local_search(margins, kicks=0, effort=Effort(60)))


def test_recovers_a_clear_order():
    strength = np.random.default_rng(1).permutation(200)
    order = local_search(np.sign(strength[:, None] - strength[None, :]).astype(float), kicks=0, effort=Effort(0))
    assert (strength[order] == np.arange(200)[::-1]).all()

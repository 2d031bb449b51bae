import numpy as np
import pytest

from psephos.kemeny.cost import disagreement, scale_margins
from psephos.kemeny.effort import Effort
from psephos.kemeny.subset_dp import subset_dp


def check(margins, factor, enumerate_orders):
    expected = enumerate_orders(margins)
    scaled = scale_margins(margins.astype(object) * factor)
    found = subset_dp(scaled.integers)
    assert found.order == min(expected.optima)
    assert found.disagreement == disagreement(scaled.integers, found.order)
    both = found.before & found.before.T
    assert [tuple(pair) for pair in np.argwhere(np.triu(both)).tolist()] == list(expected.differing)
    assert 2 * found.disagreement == scaled.total - expected.score * factor / scaled.unit


@pytest.mark.parametrize("largest", [1, 2, 5, 1000])
def test_equals_enumeration(largest, enumerate_orders, antisymmetric):
    rng = np.random.default_rng(largest)
    for _ in range(250):
        m = int(rng.integers(1, 9))
        check(antisymmetric(rng.integers(-largest, largest + 1, (m, m))), 1, enumerate_orders)


def test_integers_beyond_64_bits(enumerate_orders, antisymmetric):
    rng = np.random.default_rng(7)
    for _ in range(40):
        m = int(rng.integers(3, 8))
        coarse = antisymmetric(rng.integers(-2, 3, (m, m)))
        # differences far below the resolution of doubles decide
        fine = antisymmetric(rng.integers(-3, 4, (m, m)))
        expected = enumerate_orders(coarse * 10**6 + fine)
        found = subset_dp(coarse.astype(object) * 10**40 + fine)
        assert found.order == min(expected.optima)
        both = found.before & found.before.T
        assert [tuple(pair) for pair in np.argwhere(np.triu(both)).tolist()] == list(expected.differing)


def test_numbers_beyond_the_range_of_doubles(antisymmetric):
    margins = antisymmetric(np.random.default_rng(3).integers(-9, 10, (7, 7)))
    small, large = subset_dp(margins.astype(object)), subset_dp(margins.astype(object) * 10**500)
    assert small.order == large.order
    assert large.disagreement == small.disagreement * 10**500


def test_without_effort_nothing_is_found(antisymmetric):
    margins = antisymmetric(np.random.default_rng(3).integers(-9, 10, (16, 16))).astype(object)
    assert subset_dp(margins, effort=Effort(0)) is None


@pytest.mark.slow
def test_twenty_items_with_huge_margins(antisymmetric):
    rng = np.random.default_rng(20)
    margins = antisymmetric(rng.integers(-3, 4, (20, 20))).astype(object) * 10**30
    margins += antisymmetric(rng.integers(-3, 4, (20, 20)))
    found = subset_dp(margins)
    assert found.disagreement == disagreement(margins, found.order)

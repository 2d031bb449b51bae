import numpy as np
import pytest

from psephos.kemeny.effort import Effort
from psephos.kemeny.ilp import branch_and_cut
from psephos.kemeny.subset_dp import subset_dp


def margins_of(kind, m, seed, antisymmetric):
    rng = np.random.default_rng(seed)
    if kind == "ties":
        return antisymmetric(rng.integers(-3, 4, (m, m))).astype(object)
    if kind == "votes":
        return antisymmetric(rng.integers(-50, 51, (m, m))).astype(object)
    if kind == "huge":
        return antisymmetric(rng.integers(-(2**62), 2**62, (m, m)).astype(object) * 10**15)
    # the coarse part leaves ties that only the fine part, 10**-30 of it, breaks
    coarse = antisymmetric(rng.integers(-1, 2, (m, m))).astype(object)
    return coarse * 10**30 + antisymmetric(rng.integers(-3, 4, (m, m)))


@pytest.mark.parametrize("kind", ["ties", "votes", "huge", "two scales"])
@pytest.mark.parametrize("m", [5, 9, 12, 15, 18])
def test_equals_subset_dp(kind, m, antisymmetric):
    for seed in range(3):
        integers = margins_of(kind, m, 100 * m + seed, antisymmetric)
        exact = subset_dp(integers)
        found = branch_and_cut(integers, allowance=0, effort=Effort(60))
        assert found.disagreement == found.lower_bound == exact.disagreement
        differing = exact.before & exact.before.T
        assert found.unique == (not differing.any())
        assert (found.differing == differing).all()


@pytest.mark.slow
def test_equals_subset_dp_often(antisymmetric):
    for seed in range(400):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(12, 19))
        integers = margins_of(["ties", "votes", "huge", "two scales"][seed % 4], m, seed, antisymmetric)
        exact = subset_dp(integers)
        found = branch_and_cut(integers, allowance=0, effort=Effort(60))
        assert found.disagreement == found.lower_bound == exact.disagreement
        assert found.unique in (None, not (exact.before & exact.before.T).any())


def test_allowance_and_no_effort(antisymmetric):
    integers = margins_of("votes", 35, 0, antisymmetric)
    allowance = 200
    found = branch_and_cut(integers, allowance=allowance, effort=Effort(60))
    assert 0 <= found.disagreement - found.lower_bound <= allowance
    late = branch_and_cut(integers, allowance=0, effort=Effort(0))
    assert late.lower_bound == 0 <= late.disagreement
    assert late.method == "local_search"
    assert late.unique is None
    assert late.differing is None

import dataclasses
from fractions import Fraction

import pytest

from psephos.kemeny.result import KemenyResult, SolveStats


def result(order, differing):
    return KemenyResult(
        order=order,
        cost=Fraction(1),
        lower_bound=Fraction(1),
        gap=Fraction(0),
        gap_relative=0.0,
        method="subset_dp",
        status="optimal",
        unique=None,
        limit=None,
        differing=differing,
        stats=SolveStats(),
    )


@pytest.mark.parametrize(
    ("order", "differing", "tiers", "ranks"),
    [
        ((0,), (), ((0,),), ((1, 1),)),
        ((2, 0, 1), (), ((2,), (0,), (1,)), ((2, 2), (3, 3), (1, 1))),
        ((2, 0, 1), None, ((2,), (0,), (1,)), None),
        ((2, 1, 0), ((0, 1),), ((2,), (0, 1)), ((2, 3), (2, 3), (1, 1))),
        # 3 is surely before 0, and 1 may stand before, between or behind them
        ((3, 1, 0, 2), ((1, 3), (0, 1)), ((3,), (1,), (0,), (2,)), ((2, 3), (1, 3), (4, 4), (1, 2))),
        ((1, 0, 3, 2), ((0, 1), (2, 3)), ((0, 1), (2, 3)), ((1, 2), (1, 2), (3, 4), (3, 4))),
    ],
)
def test_items_share_a_place_only_where_all_their_pairs_differ(order, differing, tiers, ranks):
    found = result(order, differing)
    assert (found.tiers, found.ranks) == (tiers, ranks)
    other = found.relabelled([3, 1, 0, 2][: len(order)] if len(order) == 4 else list(range(len(order))))
    if ranks is not None and len(order) == 4:
        assert [other.ranks[i] for i in (3, 1, 0, 2)] == list(ranks)


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        result((0,), ()).cost = Fraction(0)

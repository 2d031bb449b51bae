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
        differing=differing,
        stats=SolveStats(),
    )


@pytest.mark.parametrize(
    ("order", "differing", "tiers"),
    [
        ((0,), (), ((0,),)),
        ((2, 0, 1), (), ((2,), (0,), (1,))),
        ((2, 0, 1), None, ((2,), (0,), (1,))),
        ((2, 1, 0), ((0, 1),), ((2,), (0, 1))),
        ((3, 1, 0, 2), ((1, 3), (0, 1)), ((0, 1, 3), (2,))),
        ((1, 0, 3, 2), ((0, 1), (2, 3)), ((0, 1), (2, 3))),
    ],
)
def test_tiers(order, differing, tiers):
    assert result(order, differing).tiers == tiers


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        result((0,), ()).cost = Fraction(0)

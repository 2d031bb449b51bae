from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.errors import ParameterError
from psephos.kemeny import kemeny_cost
from psephos.kemeny.cost import as_doubles, disagreement, scale_margins

NUMBERS = st.one_of(
    st.integers(-(10**35), 10**35),
    st.fractions(max_denominator=10**6),
    st.floats(allow_nan=False, allow_infinity=False),
)


def test_definition_by_hand():
    # three people a > b > c, two people b > c > a
    margins = np.array([[0, 1, 1], [-1, 0, 5], [-1, -5, 0]])
    assert kemeny_cost(margins, [0, 1, 2], people=5) == 2 + 2
    assert kemeny_cost(margins, [1, 2, 0], people=5) == 3 + 3
    assert kemeny_cost(margins, [0, 1, 2]) == Fraction(-7, 2)


@given(st.data(), st.integers(1, 5), st.integers(0, 100))
def test_agrees_with_the_definition(data, m, people):
    margins = np.zeros((m, m), dtype=object)
    for u in range(m):
        for v in range(u + 1, m):
            margins[u, v] = data.draw(NUMBERS)
            margins[v, u] = -margins[u, v]
    order = data.draw(st.permutations(range(m)))
    weight = [[(people + Fraction(x)) / 2 for x in row] for row in margins.tolist()]
    expected = sum((weight[order[j]][order[i]] for i in range(m) for j in range(i + 1, m)), Fraction(0))
    assert kemeny_cost(margins, order, people=people) == expected
    scaled = scale_margins(margins)
    assert (scaled.integers * scaled.unit == [[Fraction(x) for x in row] for row in margins.tolist()]).all()
    assert scaled.cost(disagreement(scaled.integers, order), Fraction(people)) == expected


def test_floats_are_dyadic_rationals():
    scaled = scale_margins(np.array([[0.0, 0.1], [-0.1, 0.0]]))
    assert scaled.integers[0, 1] * scaled.unit == Fraction(0.1) != Fraction(1, 10)
    assert scale_margins([[0, Decimal("0.1")], [Decimal("-0.1"), 0]]).unit == Fraction(1, 10)
    tiny = scale_margins(np.array([[0, 5e-324, 1e308], [-5e-324, 0, 0], [-1e308, 0, 0]]))
    assert tiny.integers[0, 1] == 1
    assert tiny.integers[0, 2] * tiny.unit == Fraction(1e308)


def test_doubles_of_huge_integers():
    margins = np.array([[0, 10**400], [-(10**400), 0]], dtype=object)
    doubles = as_doubles(margins)
    assert 0.5 <= doubles[0, 1] <= 1.0
    assert as_doubles(np.array([[0, 3], [-3, 0]], dtype=object))[0, 1] == 0.75


@pytest.mark.parametrize(
    "margins",
    [
        [],
        [[]],
        [0, 1],
        [[0, 1]],
        [[0, 1], [1, 0]],
        [[1, 1], [-1, 0]],
        [[0, np.nan], [np.nan, 0]],
        [[0, np.inf], [-np.inf, 0]],
        [[0, 1], [-1]],
        [["0", "1"], ["-1", "0"]],
        [[False, True], [True, False]],
        [[0, 1j], [-1j, 0]],
        np.array([[0, None], [None, 0]], dtype=object),
        np.array([[0, float("nan")], [0, 0]], dtype=object),
        np.array([[0, True], [-1, 0]], dtype=object),
        np.array([[0, np.iinfo(np.int64).min], [np.iinfo(np.int64).min, 0]]),
        [[0, Fraction(1, 1 << 70_000)], [Fraction(-1, 1 << 70_000), 0]],
    ],
)
def test_refused_margins(margins):
    with pytest.raises(ParameterError, match="margins"):
        scale_margins(margins)


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 2], [0.0, 1.0], [True, False], ["a", "b"], [0, 1, 2]])
def test_refused_orders(order):
    with pytest.raises(ParameterError, match="order"):
        kemeny_cost([[0, 1], [-1, 0]], order)


@pytest.mark.parametrize("people", [-1, float("nan"), None, True, "many"])
def test_refused_people(people):
    with pytest.raises(ParameterError, match="people"):
        kemeny_cost([[0, 1], [-1, 0]], [0, 1], people=people)

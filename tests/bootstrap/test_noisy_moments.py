"""Noisy sums and Gram matrices: no person moves them farther than is accounted, and the noise is the one accounted."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from laws import FALSE_ALARM, accepts, rounded_gaussian_pmf
from psephos.bootstrap import noisy_moments
from psephos.bootstrap.noisy_moments import SUM_CAP, GramSum, VectorSum
from psephos.privacy import InsecureBits, SystemBits

GRAM_CAP = noisy_moments._GRAM_CAP
HOSTILE = (0.0, -0.0, 1.0, -3.0, 5e-324, 1e-45, -1e-300, 1e39, -1e300, math.inf, -math.inf, math.nan)
BOUNDS = (1e-300, 1e-100, 1e-40, 0.7, 1.0, 25.0, 1e40, 1e100, 1e300)

many = settings(max_examples=200, deadline=None, derandomize=True)


def sum_of(vectors, bound=1.0):
    total = VectorSum(vectors.shape[-1], bound=bound)
    total.add(vectors)
    return total.total


def gram_of(vectors, bound=1.0):
    total = GramSum(vectors.shape[-1], bound=bound)
    total.add(vectors)
    return total.total


def directions(rng, count, d):
    """Vectors of norm 1, and their opposites."""
    vectors = rng.normal(size=(count, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.concatenate([vectors, -vectors])


def farthest_squared(totals):
    """The largest squared distance of any two, in Python integers."""
    flat = totals.reshape(len(totals), -1).astype(object)
    return max(((flat - one) ** 2).sum(axis=1).max() for one in flat)


# --- what one person can do -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_replaced_person_moves_the_sum_farther_than_accounted(d):
    """Brute force: all pairs of vectors in the place of one person, beside others that stay."""
    rng = np.random.default_rng(1)
    lattice = np.array([*itertools.product((-2, -1, -0.4, 0, 1), repeat=d), *itertools.product(HOSTILE, repeat=d)])
    candidates = np.concatenate([lattice[rng.permutation(len(lattice))[:250]], np.eye(d), -np.eye(d)])
    candidates = np.concatenate([candidates, directions(rng, 50, d)])
    others = rng.normal(size=(5, d))
    totals = np.array([sum_of(np.concatenate([others, one[None]])) for one in candidates])
    widest = farthest_squared(totals)
    assert widest <= (2 * SUM_CAP) ** 2
    assert widest >= (2 * SUM_CAP * (1 - Fraction(1, 2**19))) ** 2  # by opposite vectors


@pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 2), (2, 2), (3, 2)])
def test_no_replaced_person_moves_the_gram_matrix_farther_than_accounted(k, d):
    rng = np.random.default_rng(2)
    hostile = rng.choice(HOSTILE, (150, k, d))
    lattice = rng.choice((-2.0, -1.0, -0.4, 0.0, 1.0), (150, k, d))
    unit = directions(rng, 40, k * d).reshape(-1, k, d)
    single = np.zeros((d, k, d))
    single[:, 0] = np.eye(d)
    candidates = np.concatenate([hostile, lattice, unit, single])
    others = rng.normal(size=(4, k, d))
    totals = np.array([gram_of(np.concatenate([others, one[None]])) for one in candidates])
    widest = farthest_squared(totals)
    assert widest <= 2 * GRAM_CAP**4
    # attained by orthogonal vectors; in one dimension there are none, and a square moves by its length at most
    attained = 2 * (GRAM_CAP - 1) ** 4 if d > 1 else (GRAM_CAP - 1) ** 4
    assert widest >= attained
    if d == 1:
        assert widest <= GRAM_CAP**4


def test_opposite_and_orthogonal_vectors():
    """Opposite ones are farthest apart in a sum and the same in a Gram matrix; orthogonal ones the other way round."""
    one, opposite, orthogonal = (np.array([v]) for v in ((0.6, 0.8), (-0.6, -0.8), (-0.8, 0.6)))
    assert (gram_of(one[:, None]) == gram_of(opposite[:, None])).all()
    apart = [math.sqrt(farthest_squared(np.array([sum_of(one), sum_of(other)]))) for other in (opposite, orthogonal)]
    assert apart[0] == pytest.approx(2 * SUM_CAP, rel=1e-5)
    assert apart[1] == pytest.approx(math.sqrt(2) * SUM_CAP, rel=1e-5)
    grams = np.array([gram_of(one[:, None]), gram_of(orthogonal[:, None])])
    assert math.sqrt(farthest_squared(grams)) == pytest.approx(math.sqrt(2) * GRAM_CAP**2, rel=1e-3)


@many
@given(
    st.lists(st.one_of(st.floats(-2, 2), st.floats()), min_size=12, max_size=12).map(np.array),
    st.sampled_from(BOUNDS),
    st.booleans(),
)
def test_one_person_s_integers_are_within_the_cap_for_any_numbers(numbers, bound, scaled):
    with np.errstate(over="ignore"):
        numbers = numbers * bound if scaled else numbers
    steps = sum_of(numbers[None], bound).astype(object)
    assert (steps**2).sum() <= SUM_CAP**2
    gram = gram_of(numbers.reshape(1, 4, 3), bound).astype(object)
    assert np.trace(gram) <= GRAM_CAP**2
    assert (gram**2).sum() <= GRAM_CAP**4


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_of_any_size_keep_the_numbers(bound):
    """Single precision would lose bounds below 1e-45 or above 3e38."""
    vector = np.array([0.36, 0.48, 0.0])
    found = sum_of(vector[None] * bound, bound) / SUM_CAP
    np.testing.assert_allclose(found, vector, atol=2**-19)
    root = math.sqrt(bound)
    found = gram_of(vector[None, None] * root, bound) / GRAM_CAP**2
    np.testing.assert_allclose(found, np.outer(vector, vector), atol=2**-13)
    shrunk = sum_of(vector[None] * bound * 1e3, bound) / SUM_CAP
    np.testing.assert_allclose(shrunk, [0.6, 0.8, 0.0], atol=2**-19)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_who_is_no_vector_counts_as_zero_and_harms_nobody(bad):
    good = np.array([[0.3, 0.4], [0.1, -0.2]])
    strange = np.insert(good, 1, [bad, 0.5], axis=0)
    assert (sum_of(strange) == sum_of(good)).all()
    assert (gram_of(strange[:, None]) == gram_of(good[:, None])).all()
    rows = np.array([[[0.3, 0.4], [bad, 0.0]]])  # one such number, and the whole person counts as zero
    assert not gram_of(rows).any()


# --- sums are exact ---------------------------------------------------------------------------------------------------


def test_neither_order_nor_pieces_matter(monkeypatch):
    rng = np.random.default_rng(3)
    people = rng.normal(size=(999, 2, 3)) * 10.0 ** rng.integers(-6, 3, (999, 1, 1))
    vectors = people[:, 0]
    sums, grams = sum_of(vectors), gram_of(people)
    for order in (np.arange(999)[::-1], rng.permutation(999)):
        assert (sum_of(vectors[order]) == sums).all()
        assert (gram_of(people[order]) == grams).all()
        total, gram = VectorSum(3, bound=1.0), GramSum(3, bound=1.0)
        for piece in np.array_split(order, 7):
            total.add(vectors[piece])
            gram.add(people[piece])
        gram.add(people[:0])
        assert (total.total == sums).all()
        assert (gram.total == grams).all()
    assert (grams == grams.T).all()
    monkeypatch.setattr(noisy_moments, "_ROWS", 7)  # a product for every seven rows, within a person too
    assert (gram_of(people) == grams).all()


def test_the_product_of_matrices_is_that_of_whole_numbers():
    rng = np.random.default_rng(4)
    people = np.concatenate([rng.normal(size=(300, 3, 4)), directions(rng, 200, 12).reshape(-1, 3, 4)])
    rows = noisy_moments._integers(people.reshape(-1, 12), GRAM_CAP, 1.0).reshape(-1, 4).astype(object)
    assert rows.max() > GRAM_CAP // 2
    assert (gram_of(people).astype(object) == rows.T @ rows).all()


def test_the_product_is_exact_where_it_is_largest():
    """Everybody at the cap, more rows than one product takes: odd entries, so that a lost bit would show."""
    people = noisy_moments._ROWS + 3
    assert 2**48 <= noisy_moments._ROWS * GRAM_CAP**2 < 2**53
    one = gram_of(np.array([[[1.0]]]))[0, 0]
    assert one == (GRAM_CAP - 1) ** 2
    assert one % 2 == 1
    assert gram_of(np.ones((people, 1, 1)))[0, 0] == people * int(one)


# --- noise ------------------------------------------------------------------------------------------------------------


def noise_of(total, *, mu_squared, bits):
    """What is added, in steps of the grid."""
    released, sd, event = total.released(mu_squared=mu_squared, bits=bits)
    cap = SUM_CAP if isinstance(total, VectorSum) else GRAM_CAP**2
    assert sd == float(event.sigma) * (total.bound / cap)
    steps = released / (total.bound / cap)
    whole = np.rint(steps)
    assert np.abs(steps - whole).max() < 1e-6
    return whole.astype(np.int64) - total.total


def scale_is(noise, sd):
    """Whether the sum of squares is that of normal noise: chi-square on both sides, false alarm FALSE_ALARM."""
    statistic = float((noise.astype(float) ** 2).sum() / sd**2)
    law = stats.chi2(noise.size)
    return bool(min(law.cdf(statistic), law.sf(statistic)) > FALSE_ALARM / 2)


def test_noise_of_a_sum_has_its_law_and_half_of_it_is_caught():
    total = VectorSum(20_000, bound=2.0)
    total.add(np.random.default_rng(5).normal(size=(3, 20_000)))
    noise = noise_of(total, mu_squared=Fraction(4 * SUM_CAP**2, 300**2), bits=InsecureBits(seed=1))
    assert accepts(noise, rounded_gaussian_pmf, 300.0)
    assert scale_is(noise, 300.0)
    assert not accepts(noise, rounded_gaussian_pmf, 315.0)
    assert not scale_is(noise, 315.0)
    assert not scale_is(noise // 2, 300.0)


def test_noise_of_a_gram_matrix_is_half_as_variable_beside_the_diagonal():
    """Symmetric; variance sigma^2 on the diagonal and sigma^2 / 2 beside it; each entry's own; half of it is caught."""
    rng, bits, sigma, r = np.random.default_rng(6), InsecureBits(seed=2), 300.0, 80
    total = GramSum(r, bound=2.0)
    total.add(rng.normal(size=(3, 2, r)))
    mu_squared = Fraction(2 * GRAM_CAP**4, 300**2)
    noise = np.array([noise_of(total, mu_squared=mu_squared, bits=bits) for _ in range(50)])
    assert (noise == np.swapaxes(noise, 1, 2)).all()
    diagonal = noise[:, np.arange(r), np.arange(r)]
    above = noise[:, *np.triu_indices(r, 1)]
    assert accepts(diagonal.ravel(), rounded_gaussian_pmf, sigma)
    assert accepts(above.ravel(), rounded_gaussian_pmf, sigma / math.sqrt(2))
    for entries, sd in ((diagonal, sigma), (above, sigma / math.sqrt(2))):
        assert scale_is(entries, sd)
        assert not scale_is(entries // 2, sd)
        assert not scale_is(entries, sd * math.sqrt(2))
        assert not scale_is(entries, sd / math.sqrt(2))
    # entries of a row are uncorrelated: the diagonal's with those beside it, in all rows and releases
    beside = np.roll(noise, 1, axis=2)[:, np.arange(r), np.arange(r)]
    correlation = float((diagonal * beside).mean() / (sigma**2 / math.sqrt(2)))
    assert abs(correlation) < stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(diagonal.size)


@pytest.mark.parametrize("mu_squared", [Fraction(1), Fraction(2, 3), Fraction(1, 10**300), Fraction(10**9, 7)])
def test_what_the_event_says_costs_at_most_what_was_allowed(mu_squared):
    for total, sensitivity_squared in (
        (VectorSum(2, bound=3.0), (2 * SUM_CAP) ** 2),
        (GramSum(3, bound=3.0), 2 * GRAM_CAP**4),
    ):
        released, sd, event = total.released(mu_squared=mu_squared, bits=SystemBits())
        assert isinstance(event.sigma, Fraction)
        assert event.sensitivity_squared == sensitivity_squared
        spent = event.sensitivity_squared / event.sigma**2
        assert mu_squared * (1 - Fraction(1, 2**50)) <= spent <= mu_squared
        assert np.isfinite(released).all()
        assert math.isfinite(sd)


def test_noise_beside_the_diagonal_is_never_less_than_half(monkeypatch):
    """The scale that is drawn from, a rational: its square is at least half of that on the diagonal."""
    asked = []

    def recorded(sigma, size, _bits):
        asked.append((sigma, size))
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(noisy_moments, "rounded_gaussian_array", recorded)
    for mu_squared in (Fraction(1), Fraction(2, 7), Fraction(1, 10**300)):
        asked.clear()
        event = GramSum(4, bound=1.0).released(mu_squared=mu_squared, bits=SystemBits())[2]
        scales = {size: sigma for sigma, size in asked}
        assert set(scales) == {4, 6}
        assert scales[4] == event.sigma
        assert event.sigma**2 / 2 <= scales[6] ** 2 <= event.sigma**2 / 2 * (1 + Fraction(1, 2**50))


def test_large_noise_is_added_before_anything_is_rounded(monkeypatch):
    """Numbers that are no doubles, half-way between two: rounded first, they would lose the person's step."""
    for noise in (2**53 + 1, -(2**53) - 1, 2**62 + 2**9, 2**200 + 2**147):
        assert float(noise) + 1 != float(noise + 1)

        def fixed(_sigma, size, _bits, noise=noise):
            return np.array([noise] * size, dtype=object if abs(noise) >= 2**63 else np.int64)

        monkeypatch.setattr(noisy_moments, "rounded_gaussian_array", fixed)
        for kind, cap in ((VectorSum, SUM_CAP), (GramSum, GRAM_CAP**2)):
            total = kind(3, bound=float(cap))  # a step of the grid is 1
            total.total[...] = 1
            released = total.released(mu_squared=Fraction(1), bits=SystemBits())[0]
            assert (released == float(noise + 1)).all()
    total = VectorSum(1, bound=1.0)
    total.total[0] = 2**62  # 64 bits would wrap around
    monkeypatch.setattr(noisy_moments, "rounded_gaussian_array", lambda *_: np.array([2**62]))
    assert total.released(mu_squared=Fraction(1), bits=SystemBits())[0][0] == 2.0**63 / SUM_CAP


def test_tiny_budgets_show_noise_alone():
    bits = InsecureBits(seed=3)
    for total in (VectorSum(8, bound=1.0), GramSum(3, bound=1.0)):
        released, sd, _ = total.released(mu_squared=Fraction(1, 10**300), bits=bits)
        assert 1e149 < sd < 1e151
        assert 0.5 < np.sqrt((released**2).mean()) / sd < 1.5


def test_large_budgets_show_the_sum():
    rng = np.random.default_rng(7)
    people = rng.normal(size=(50, 2, 3))
    people *= rng.random((50, 1, 1)) * 3 / np.sqrt((people**2).sum(axis=(1, 2), keepdims=True))
    total, gram = VectorSum(3, bound=3.0), GramSum(3, bound=9.0)
    total.add(people[:, 0])
    gram.add(people)
    exact = total.released(mu_squared=Fraction(10**30), bits=SystemBits())[0]
    np.testing.assert_allclose(exact, people[:, 0].sum(axis=0), atol=50 * 3 * 2**-19)
    exact = gram.released(mu_squared=Fraction(10**30), bits=SystemBits())[0]
    np.testing.assert_allclose(exact, np.einsum("ika,ikb->ab", people, people), atol=50 * 9 * 2**-13)

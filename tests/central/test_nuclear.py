"""The nuclear mechanism: how far ballots move the margins, the loss at two and three items, what a release holds."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from enumeration import all_ballots
from psephos import Ballot, Profile, pairwise_margins
from psephos.central import plan_consensus
from psephos.central.nuclear import (
    nuclear_margins,
    nuclear_noise_law,
    nuclear_noise_norm,
    nuclear_rate,
    nuclear_sensitivity,
)
from psephos.errors import ParameterError
from psephos.pairwise.estimate import PartedNoise
from psephos.privacy import InsecureBits, epsilon_of
from psephos.privacy.events import NuclearEvent
from psephos.privacy.spectral import nuclear_entry_variance, nuclear_noise


def nuclear_norm(tables):
    return np.linalg.svd(np.asarray(tables, dtype=float), compute_uv=False).sum(axis=-1)


def ballot_margins(m, kind, unranked):
    names = list("abcde"[:m])
    return np.array(
        [pairwise_margins(Profile.from_ballots(names, [b]), unranked=unranked) for b in all_ballots(m, kind)]
    )


def tournaments(m):
    """All answers of one person to all pairs, transitive or not."""
    upper = np.triu_indices(m, 1)
    tables = np.zeros((2 ** len(upper[0]), m, m))
    tables[:, upper[0], upper[1]] = list(itertools.product((-1, 1), repeat=len(upper[0])))
    return tables - tables.transpose(0, 2, 1)


# ------------------------------------------------------------------ sensitivity


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("kind", ["strict", "tied", "truncated"])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_ballots_move_the_margins_by_at_most_the_sensitivity(m, kind, unranked):
    tables = ballot_margins(m, kind, unranked)
    moved = nuclear_norm(tables[:, None] - tables[None, :]).max()
    assert moved == pytest.approx(float(nuclear_sensitivity(m)), rel=1e-12)  # attained: no smaller bound holds
    assert nuclear_norm(tables).max() == pytest.approx(float(nuclear_sensitivity(m)) / 2, rel=1e-12)


@pytest.mark.parametrize("m", [2, 3, 5, 8, 17, 40])
def test_all_strict_ballots_have_one_norm(m):
    for order in (range(m), range(m - 1, -1, -1), np.random.default_rng(m).permutation(m).tolist()):
        table = pairwise_margins(Profile.from_ballots([f"i{k}" for k in range(m)], [Ballot.strict(order)]))
        assert 2 * nuclear_norm(table) == pytest.approx(float(nuclear_sensitivity(m)), rel=1e-11)


@pytest.mark.parametrize(("m", "largest"), [(4, 4 * math.sqrt(3)), (5, None)])
def test_answers_that_go_round_in_circles_break_the_bound(m, largest):
    """Which is why comparisons are refused: one person's answers to all pairs need not be transitive."""
    found = nuclear_norm(tournaments(m)).max()
    assert found > 1.05 * float(nuclear_sensitivity(m)) / 2
    if largest is not None:
        assert found == pytest.approx(largest)


def test_three_answers_in_a_circle_do_not():
    assert nuclear_norm(tournaments(3)).max() == pytest.approx(float(nuclear_sensitivity(3)) / 2)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(7, 3)])
@pytest.mark.parametrize("m", [1, 2, 3, 10, 50])
def test_the_event_states_the_epsilon_asked_for(m, epsilon):
    rate = nuclear_rate(m, epsilon=epsilon)
    event = nuclear_margins(np.zeros((m, m), dtype=np.int64), rate, bits=InsecureBits(seed=1))[1]
    assert event == NuclearEvent(rate=rate, sensitivity=nuclear_sensitivity(m))
    assert epsilon_of(event, 0) == epsilon


# ------------------------------------------------------------------ the loss itself


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_loss_of_two_items(epsilon):
    """Exact probabilities: margins that differ by 2 under X of density ~ exp(-2 rate |x|), rounded."""

    def loss(rate):
        t = np.arange(-30, 31, dtype=float)

        def law(k):
            k = np.abs(k)
            return np.where(k == 0, -np.expm1(-rate), np.exp(-2 * rate * k) * np.sinh(rate))

        assert law(np.arange(-3000.0, 3001.0)).sum() == pytest.approx(1)
        return np.abs(np.log(law(t)) - np.log(law(t - 2))).max()

    rate = float(nuclear_rate(2, epsilon=Fraction(epsilon)))
    assert 0.999 * epsilon < loss(rate) <= epsilon * (1 + 1e-12)
    assert loss(2 * rate) > 1.9 * epsilon


@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_loss_of_three_items(unranked):
    """Probabilities of all tables near 0 by cubature of exp(-rate * norm) over unit cubes, for every ballot."""
    epsilon = 1.0
    nodes, weights = np.polynomial.legendre.leggauss(6)
    corner = np.array(list(itertools.product(nodes / 2, repeat=3)))
    mass = np.prod(np.array(list(itertools.product(weights / 2, repeat=3))), axis=1)
    reach = 9
    grid = np.array(list(itertools.product(range(-reach, reach + 1), repeat=3)))
    length = np.linalg.norm(grid[:, None, :] + corner[None, :, :], axis=2)  # the norm is twice that of (X12, X13, X23)
    moves = np.unique(ballot_margins(3, "truncated", unranked)[:, *np.triu_indices(3, 1)].astype(int), axis=0)

    def loss(rate):
        logs = np.log(np.exp(-2 * rate * length) @ mass).reshape((2 * reach + 1,) * 3)
        inner = slice(2, 2 * reach - 1)
        shifted = np.array([np.roll(logs, tuple(move), axis=(0, 1, 2))[inner, inner, inner] for move in moves])
        return (shifted.max(axis=0) - shifted.min(axis=0)).max()

    rate = float(nuclear_rate(3, epsilon=Fraction(1)))
    assert 0.95 * epsilon < loss(rate) <= epsilon * (1 + 1e-12)
    assert loss(1.1 * rate) > epsilon


# ------------------------------------------------------------------ what comes out


def test_golden_table():
    """Fixed bits, read again in doubles: the sign, then 64 + 8 m + bits of 1 / rate for the x_i and each normal."""
    m, epsilon = 3, Fraction(1, 100)
    rate = nuclear_rate(m, epsilon=epsilon)
    profile = Profile.from_rankings({("a", "b", "c"): 3, ("c", "b"): 2}, items=["a", "b", "c"])
    margins = pairwise_margins(profile)
    for seed in range(20):
        table, _ = nuclear_margins(margins, rate, bits=InsecureBits(seed=seed))
        bits = InsecureBits(seed=seed)
        bits.bits(1)
        width = 64 + 8 * m + math.ceil(1 / rate).bit_length()
        u = np.array([bits.bits(width) / 2**width for _ in range(7)])
        x = special.gammainccinv(3, u[0])
        radius, angle = np.sqrt(-2 * np.log(u[1::2])), 2 * np.pi * u[2::2]
        normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
        q = np.eye(3)
        for g in (normal[:2], normal[2:5]):
            w = np.zeros(3)
            w[3 - len(g) :] = g / np.linalg.norm(g)
            w[3 - len(g)] -= 1
            q = (np.eye(3) - 2 * np.outer(w, w) / (w @ w)) @ q
        block = np.zeros((3, 3))
        block[0, 1], block[1, 0] = x / 2, -x / 2
        exact = q @ block @ q.T / float(rate)
        assert np.abs(exact - np.rint(exact)).max() < 0.499999  # doubles can tell
        assert table.tolist() == (margins + np.rint(exact).astype(int)).tolist()


def test_the_table_is_the_margins_plus_the_noise():
    rng = np.random.default_rng(1)
    for m in (1, 2, 5):
        rate = nuclear_rate(m, epsilon=Fraction(1, 2))
        margins = np.triu(rng.integers(-50, 50, (m, m)), 1)
        margins = margins - margins.T
        noisy, _ = nuclear_margins(margins, rate, bits=InsecureBits(seed=m))
        assert noisy.tolist() == (margins + nuclear_noise(m, rate, InsecureBits(seed=m))).tolist()
        assert noisy.dtype == np.int64
        assert (noisy == -noisy.T).all()
    huge = margins.astype(object) * 10**40
    noisy, _ = nuclear_margins(huge, rate, bits=InsecureBits(seed=9))
    assert (noisy - huge).tolist() == nuclear_noise(5, rate, InsecureBits(seed=9)).tolist()


def test_little_noise_leaves_the_margins():
    """What is noised is the table whose sensitivity is bounded above."""
    profile = Profile.from_rankings({("a", ("b", "c")): 3, ("d",): 2, ("b", "a"): 1}, items=list("abcd"))
    margins = pairwise_margins(profile)
    noisy, _ = nuclear_margins(margins, Fraction(10**6), bits=InsecureBits(seed=1))
    assert noisy.tolist() == margins.tolist()


def test_n1_a_tie_leaves_no_trace_in_the_grid():
    strict = pairwise_margins(Profile.from_rankings({("a", "b", "c"): 4}, items=list("abc")))
    tied = pairwise_margins(Profile.from_rankings({("a", "b", "c"): 3, ("a", ("b", "c")): 1}, items=list("abc")))
    rate, bits = nuclear_rate(3, epsilon=Fraction(2)), InsecureBits(seed=5)
    for table in (strict, tied):
        drawn = np.array([nuclear_margins(table, rate, bits=bits)[0] for _ in range(100)])
        assert [set((drawn[:, u, v] % 4).tolist()) for u, v in ((0, 1), (0, 2), (1, 2))] == [{0, 1, 2, 3}] * 3


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_noise_law(m):
    rate = nuclear_rate(m, epsilon=Fraction(1))
    law = nuclear_noise_law(m, rate)
    variance = nuclear_entry_variance(m) / rate**2 + Fraction(1, 12)
    assert law == PartedNoise(m=m, gradient=variance, cyclic=variance)
    assert law.variance == pytest.approx(float(variance))


def parts_agree(drawn, law):
    """Both parts of drawn tables against the variances of the law: false alarm 1e-6 each."""
    m = law.m
    sums = drawn.sum(axis=2)
    gradient = (sums[:, :, None] - sums[:, None, :]) / m
    agree = []
    for part, dimensions, variance in (
        (gradient, m - 1, law.gradient),
        (drawn - gradient, (m - 1) * (m - 2) // 2, law.cyclic),
    ):
        size = (part**2).sum(axis=(1, 2)) / 2 / dimensions
        agree.append(abs(size.mean() - float(variance)) < 4.9 * size.std() / math.sqrt(len(size)))
    return all(agree)


@pytest.mark.parametrize("m", [3, 5])
def test_noise_law_holds_of_both_parts(m):
    rate = nuclear_rate(m, epsilon=Fraction(2))
    bits = InsecureBits(seed=3)
    drawn = np.array([nuclear_noise(m, rate, bits) for _ in range(2000)], dtype=float)
    assert parts_agree(drawn, nuclear_noise_law(m, rate))
    for wrong in (Fraction(115, 100), Fraction(85, 100)):
        assert not parts_agree(drawn, nuclear_noise_law(m, rate * wrong))


@pytest.mark.parametrize("m", [2, 3, 4, 6])
def test_bound_on_the_norm_of_the_noise(m):
    """Not below the mean of draws by what chance allows; above it by rounding, and 2 % for the bound on X."""
    for rate in (Fraction(3), nuclear_rate(m, epsilon=Fraction(1, 10))):
        bits = InsecureBits(seed=4)
        norms = np.linalg.norm(np.array([nuclear_noise(m, rate, bits) for _ in range(400)], dtype=float), 2, (1, 2))
        bound = float(nuclear_noise_norm(m, rate))
        error = 4.9 * norms.std() / 20
        assert norms.mean() < bound + error
        assert bound < 1.02 * (norms.mean() + error) + 2 * math.sqrt(m * (m - 1) / 8)
    assert nuclear_noise_norm(1, Fraction(1)) == 0


def test_less_noise_than_laplace():
    """The shares of Laplace's variance that the module states; continuous laws."""
    for m, share in ((3, 0.667), (10, 0.380), (32, 0.201), (64, 0.132)):
        laplace = 2 * (m * (m - 1)) ** 2
        nuclear = nuclear_entry_variance(m) / nuclear_rate(m, epsilon=Fraction(1)) ** 2
        assert float(nuclear) / laplace == pytest.approx(share, abs=6e-4)


def test_more_items_than_a_draw_can_take_are_refused():
    with pytest.raises(ParameterError, match="at most 128 items, got 129"):
        plan_consensus(129, epsilon=1, mechanism="nuclear")


def test_quantiles_of_the_norm_of_the_noise():
    """At m = 3 the norm at rate 1 has the gamma law of shape 3 and scale 1/2."""
    rate = nuclear_rate(3, epsilon=Fraction(1))
    norms = np.random.default_rng(7).gamma(3, 1 / 2, 4000)  # of the axial vector at rate 1, see the module
    for failure in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 200)):
        bound = float(nuclear_noise_norm(3, rate, failure=failure) * rate) - float(rate) * 0.75**0.5
        share = float((norms > bound).mean())
        assert share <= float(failure) + 4 * (float(failure) / 4000) ** 0.5
        assert share >= float(failure) / 2

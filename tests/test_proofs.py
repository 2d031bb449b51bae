"""Statements of docs/proofs/central.md that no other test pins, by enumeration or in exact arithmetic.

Where noise has ratio 1/2, ``P(k) ~ 2^-|k|`` (scale 1 / ln 2), probabilities are rational and ``exp(epsilon)`` of l1
sensitivity s is ``2^s``: losses are compared exactly.
"""

import functools
import itertools
import math
from collections import Counter
from fractions import Fraction

import flint
import numpy as np
import pytest

from enumeration import all_ballots
from psephos import Ballot, Comparisons
from psephos.central.borda import row_sum_sensitivity
from psephos.central.footrule import place_counts
from psephos.central.gaussian import gaussian_law
from psephos.central.kwiksort import kwiksort_sensitivity
from psephos.central.margin_sensitivity import MarginSensitivity, margin_sensitivity
from psephos.central.person_bound import bound_persons
from psephos.central.probe import probe_scales
from psephos.central.second_moment import free_moment_scales
from psephos.central.shaped import shaped_scales
from psephos.pairwise import margins_plain, pair_counts
from psephos.privacy import InsecureBits
from psephos.privacy.balls import GibbsSums, LazyUniform, ball
from psephos.privacy.gaussian import mu_lower

BOTH = pytest.mark.parametrize("unranked", ["last", "missing"])
DELTA = Fraction(1, 10**6)


def pairs_of(m):
    return m * (m - 1) // 2


def strict_norm(m):
    """R: the squared length of the scores of a strict ballot."""
    return m * (m * m - 1) // 3


def margins_of(ballot, m, unranked="last"):
    return margins_plain(np.array(ballot.places(m), dtype=np.uint8)[:, None], unranked=unranked).astype(np.int64)


@functools.cache
def ballot_tables(m, unranked):
    """The different tables of margins of all ballots, shape (ballots, m, m)."""
    return np.unique([margins_of(ballot, m, unranked) for ballot in all_ballots(m)], axis=0)


def tables_of(answers, m):
    """Antisymmetric tables from rows of entries u < v."""
    tables = np.zeros((len(answers), m, m), dtype=np.int64)
    tables[:, *np.triu_indices(m, 1)] = answers
    return tables - tables.transpose(0, 2, 1)


def squares(tables):
    """For each table |W|^2 over u < v, |r|^2, and m times the squared norm of the cyclic part."""
    m = tables.shape[1]
    whole = (tables**2).sum(axis=(1, 2)) // 2
    rows = (tables.sum(axis=2) ** 2).sum(axis=1)
    return whole, rows, m * whole - rows


def distances(tables):
    """Of all pairs of tables: |W - W'|^2, |r - r'|^2, and |s s^T - t t^T|^2 of their scores."""
    m = tables.shape[1]
    flat, scores = tables[:, *np.triu_indices(m, 1)], tables.sum(axis=2)

    def moved(vectors):
        products = vectors @ vectors.T
        own = np.diag(products)
        return own[:, None] + own[None, :] - 2 * products

    products = scores @ scores.T
    own = np.diag(products) ** 2
    return moved(flat), moved(scores), own[:, None] + own[None, :] - 2 * products**2


# ------------------------------------------------------------------ ballots


def two_strict_orders(ballot, m, unranked):
    """The two orders of which the page says that a ballot is the average."""
    ranked = {u for group in ballot.groups for u in group}
    rest = [u for u in range(m) if u not in ranked]
    first = [u for group in ballot.groups for u in group]
    second = [u for group in ballot.groups for u in reversed(group)]
    if unranked == "last":
        return first + rest, second + rest[::-1]
    return rest + first, second + rest[::-1]


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
@BOTH
def test_every_ballot_is_the_average_of_two_strict_ones(m, unranked):
    for ballot in all_ballots(m):
        orders = two_strict_orders(ballot, m, unranked)
        assert all(sorted(order) == list(range(m)) for order in orders)
        first, second = (margins_of(Ballot.strict(order), m) for order in orders)
        assert (2 * margins_of(ballot, m, unranked) == first + second).all()


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@BOTH
def test_strict_ballots_have_the_largest_parts_and_all_the_same(m, unranked):
    """And a ballot that is not strict has scores of squared length at most R - 2."""
    strict = np.array([margins_of(ballot, m) for ballot in all_ballots(m, "strict")])
    whole, rows, cyclic = squares(strict)
    assert set(whole.tolist()) == {pairs_of(m)}
    assert set(rows.tolist()) == {strict_norm(m)}
    assert set(cyclic.tolist()) == {m * (m - 1) * (m - 2) // 6}
    tables = ballot_tables(m, unranked)
    _, rows, cyclic = squares(tables)
    full = (tables != 0).sum(axis=(1, 2)) == m * (m - 1)
    assert (rows <= np.where(full, strict_norm(m), strict_norm(m) - 2)).all()
    assert cyclic.max() == m * (m - 1) * (m - 2) // 6


# ------------------------------------------------------------------ answers that need not be transitive


@pytest.mark.parametrize("m", [2, 3, 4])
def test_scores_of_any_answers_are_majorised_by_those_of_a_ballot(m):
    scores = tables_of(list(itertools.product((-1, 0, 1), repeat=pairs_of(m))), m).sum(axis=2)
    sums = np.sort(scores, axis=1)[:, ::-1].cumsum(axis=1)
    assert (sums <= [k * (m - k) for k in range(1, m + 1)]).all()
    assert not sums[:, -1].any()


LARGEST = {
    3: [0, 2, 6, 8],
    4: [0, 2, 6, 12, 16, 18, 20],
    5: [0, 2, 6, 12, 20, 22, 30, 32, 36, 38, 40],
    6: [0, 2, 6, 12, 20, 30, 32, 38, 48, 54, 56, 60, 64, 66, 68, 70],
}


@pytest.mark.parametrize("m", [3, 4, 5, 6])
def test_table_of_the_largest_scores_of_a_person(m):
    """Reachable score vectors by number of pairs, one pair after the other, as numbers in base 32."""
    base = 32 ** np.arange(m)
    reached = {0: np.array([16 * base.sum()])}
    for u, v in itertools.combinations(range(m), 2):
        step, more = base[u] - base[v], {}
        for k, codes in reached.items():
            more.setdefault(k, []).append(codes)
            more.setdefault(k + 1, []).extend([codes + step, codes - step])
        reached = {k: np.unique(np.concatenate(parts)) for k, parts in more.items()}
    digits = {k: codes[:, None] // base % 32 - 16 for k, codes in reached.items()}
    assert [int((digits[k] ** 2).sum(axis=1).max()) for k in sorted(digits)] == LARGEST[m]
    for k in range(1, pairs_of(m) + 1):
        bound = row_sum_sensitivity(m, pairs=k)
        assert 4 * LARGEST[m][k] <= bound.l2_squared
        if k < m or k == pairs_of(m) or k in {a * (m - a) for a in range(1, m)}:
            assert 4 * LARGEST[m][k] == bound.l2_squared
        assert 2 * np.abs(digits[k]).sum(axis=1).max() == bound.l1


@pytest.mark.parametrize("m", [2, 3, 6, 7, 10])
def test_persons_who_attain_the_bounds(m):
    """Half the items beat the other half, then any other pairs: l1 for every k. Stars and bipartite answers: l2."""

    def scores(duels):
        r = np.zeros(m, dtype=int)
        for u, v in duels:
            r[u], r[v] = r[u] + 1, r[v] - 1
        return r

    across = [(u, v) for u in range(m // 2) for v in range(m // 2, m)]
    duels = across + [pair for pair in itertools.combinations(range(m), 2) if pair not in across]
    for k in range(1, pairs_of(m) + 1):
        assert 2 * np.abs(scores(duels[:k])).sum() == row_sum_sensitivity(m, pairs=k).l1
    for k in range(1, m):
        assert 4 * (scores([(0, v) for v in range(1, k + 1)]) ** 2).sum() == row_sum_sensitivity(m, pairs=k).l2_squared
    for a in range(1, m):
        every = [(u, v) for u in range(a) for v in range(a, m)]
        assert (scores(every) ** 2).sum() == len(every) * m
        assert 4 * len(every) * m == row_sum_sensitivity(m, pairs=len(every)).l2_squared


@pytest.mark.parametrize("m", [3, 4, 5])
def test_shaped_noise_covers_any_answers_if_and_only_if_cycles_get_no_less(m):
    """Changes of two answer tables: all of {-2, ..., 2}^D for m <= 4, its corners for 5 (the loss is convex).

    In units of 1/b, with b/a = t: |dG|^2 t + |dC|^2 is at most Gam t + Cyc for t >= 1, and exceeds it for any t < 1.
    """
    steps = range(-2, 3) if m < 5 else (-2, 2)
    whole, rows, cyclic = squares(tables_of(list(itertools.product(steps, repeat=pairs_of(m))), m))
    gradient_bound, cyclic_bound = 4 * strict_norm(m), 4 * m * (m - 1) * (m - 2) // 6  # times m
    assert rows.max() == gradient_bound
    assert whole.max() == 4 * pairs_of(m)
    assert cyclic.max() == m * {3: 12, 4: 20, 5: 40}[m]
    assert cyclic_bound == m * Fraction({3: Fraction(4, 3), 4: 4, 5: 8}[m])
    for t in (Fraction(1), Fraction(101, 100), Fraction(2), Fraction(100)):
        losses = rows * t.numerator + cyclic * t.denominator
        assert losses.max() == gradient_bound * t.numerator + cyclic_bound * t.denominator
    for t in (Fraction(99, 100), Fraction(1, 2), Fraction(0)):
        losses = rows * t.numerator + cyclic * t.denominator
        assert losses.max() > gradient_bound * t.numerator + cyclic_bound * t.denominator


@pytest.mark.parametrize(("m", "pairs"), [(3, None), (10, None), (6, 3), (30, 12), (5, 9)])
def test_the_two_releases_of_shaped_cost_what_the_two_parts_do(m, pairs):
    """S/b + R/(m b') = Gam/a + Cyc/b in rationals, and the scales used cost at most that."""
    margins, rows = margin_sensitivity(m, "person", pairs=pairs), row_sum_sensitivity(m, pairs=pairs)
    gradient = rows.l2_squared / m
    cyclic = margins.l2_squared - gradient
    share = Fraction(19, 20)
    assert gradient / margins.l2_squared < share
    mu_squared = mu_lower(1, DELTA) ** 2
    a, b = gradient / (share * mu_squared), cyclic / ((1 - share) * mu_squared)
    extra = 1 / (1 / a - 1 / b)
    assert margins.l2_squared / b + rows.l2_squared / (m * extra) == gradient / a + cyclic / b == mu_squared
    scales = shaped_scales(m, margins=margins, rows=rows, epsilon=Fraction(1), delta=DELTA, share=share)
    spent = margins.l2_squared / scales.margin**2 + rows.l2_squared / scales.row_sum**2
    assert Fraction(999_999, 10**6) * mu_squared < spent <= mu_squared


def test_when_the_cyclic_part_of_a_person_costs_nothing():
    """Gam = S exactly for m - 1 <= k <= (m^2 - 1)/3 pairs; it is less below and above."""
    for m in range(3, 12):
        for k in range(1, pairs_of(m) + 1):
            margins, rows = margin_sensitivity(m, "person", pairs=k), row_sum_sensitivity(m, pairs=k)
            cyclic = margins.l2_squared - rows.l2_squared / m
            assert cyclic >= 0
            assert (cyclic == 0) is (m - 1 <= k <= Fraction(m * m - 1, 3))


# ------------------------------------------------------------------ drawing a person's judgements, and the grid


def bounded_law(judgements, k):
    """The law of the margins of three items that bound_persons leaves of one person, as rational masses."""
    law = Counter()
    subsets = list(itertools.combinations(sorted(judgements), min(k, len(judgements))))
    for kept in subsets:
        for values in itertools.product(*(judgements[pair] for pair in kept)):
            table = [0, 0, 0]
            for pair, value in zip(kept, values, strict=True):
                table[pair] = value
            law[tuple(table)] += Fraction(1, len(subsets) * math.prod(len(judgements[pair]) for pair in kept))
    return law


@pytest.mark.parametrize("k", [1, 2, 3])
def test_drawing_judgements_keeps_the_guarantee(k):
    """Mixtures over the draws, exactly: outputs in {-1, 0, 1}^3 are enough, as ratios are constant beyond."""
    told = [(), (1,), (-1,), (0,), (1, -1), (1, 1, 0)]
    persons = [dict(zip(range(3), said, strict=True)) for said in itertools.product(told, repeat=3)]
    laws = [bounded_law({pair: said for pair, said in person.items() if said}, k) for person in persons]
    assert all(sum(law.values()) == 1 for law in laws)
    outputs = list(itertools.product((-1, 0, 1), repeat=3))
    masses = [
        [sum(p * Fraction(1, 2 ** sum(abs(x - y) for x, y in zip(t, w, strict=True))) for w, p in law.items())
         for t in outputs]
        for law in laws
    ]  # fmt: skip
    largest = max(max(column) / min(column) for column in zip(*masses, strict=True))
    assert largest == 2 ** margin_sensitivity(3, "person", pairs=k).l1 == 4**k


def test_what_is_drawn_under_a_public_graph_does_not_depend_on_answers():
    rows = [(0, 0, 1), (0, 1, 0), (0, 1, 2), (0, 0, 2), (1, 0, 1), (1, 2, 1), (1, 1, 2)]
    person, left, right = zip(*rows, strict=True)
    kept = set()
    for outcome in itertools.product((-1, 0, 1), repeat=4):
        data = Comparisons.from_columns(list("abc"), left, right, [*outcome, 1, 1, -1], person=person)
        used = bound_persons(data, pairs=2, bits=InsecureBits(seed=8))
        kept.add((tuple(used.person.tolist()), tuple(map(tuple, pair_counts(used).tolist()))))
    assert len(kept) == 1


def test_half_counts_would_tell_a_tie():
    """Counts with ties in halves plus whole noise: two neighbours have no outcome in common. Margins have all."""
    strict, tied = (margins_of(ballot, 2)[0, 1] for ballot in (Ballot.strict((0, 1)), Ballot(((0, 1),))))
    halves = [Fraction(1 + int(w), 2) for w in (strict, tied)]
    noise = range(-20, 21)
    assert not {halves[0] + z for z in noise} & {halves[1] + z for z in noise}
    ratios = {Fraction(2 ** abs(t - int(tied)), 2 ** abs(t - int(strict))) for t in noise}
    assert ratios == {Fraction(1, 2), Fraction(2)}


# ------------------------------------------------------------------ exponential mechanism


def payments(orders, tables):
    """2 K(psi) of all orders and tables: the sum over u before v of W[v, u]; shape (tables, orders)."""
    later, earlier = zip(*(zip(*((v, u) for u, v in itertools.combinations(o, 2)), strict=True) for o in orders),
                         strict=True)  # fmt: skip
    return tables[:, np.array(later), np.array(earlier)].sum(axis=2)


@pytest.mark.parametrize("m", [3, 4])
@BOTH
def test_the_range_of_a_change_of_costs_is_twice_the_number_of_pairs(m, unranked):
    """For all pairs of ballots, and for persons with k pairs 2 k."""
    orders = list(itertools.permutations(range(m)))
    costs = payments(orders, ballot_tables(m, unranked))
    moved = costs[:, None, :] - costs[None, :, :]  # twice d
    assert (moved.max(axis=2) - moved.min(axis=2)).max() == 4 * pairs_of(m)
    assert np.abs(moved).max() == 2 * pairs_of(m)
    if m == 3:
        answers = np.array(list(itertools.product((-1, 0, 1), repeat=3)))
        for k in (1, 2, 3):
            costs = payments(orders, tables_of(answers[(answers != 0).sum(axis=1) <= k], 3))
            moved = costs[:, None, :] - costs[None, :, :]
            assert (moved.max(axis=2) - moved.min(axis=2)).max() <= 2 * margin_sensitivity(3, "person", pairs=k).l1


def gibbs(costs):
    """Masses 2^-(cost), rational; costs are whole."""
    least = min(costs)
    weights = [Fraction(1, 2 ** (c - least)) for c in costs]
    total = sum(weights)
    return [w / total for w in weights]


@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_loss_of_the_exponential_mechanism_in_rationals(unranked):
    """exp(-beta/2) = 1/2, so exp(epsilon) = 4^l1. One person alone loses half of epsilon, among many nearly all."""
    orders = list(itertools.permutations(range(3)))
    ballots = ballot_tables(3, unranked)
    reverse = margins_of(Ballot.strict((2, 1, 0)), 3)
    l1 = int(margin_sensitivity(3, "person").l1)
    found = []
    for others in (0, 1, 2, 5, 20):
        laws = [gibbs(row) for row in payments(orders, ballots + others * reverse).tolist()]
        found.append(max(max(column) / min(column) for column in zip(*laws, strict=True)))
    assert found[0] == 2**l1
    assert found == sorted(found)
    assert Fraction(999, 1000) * 4**l1 < found[-1] < 4**l1


@pytest.mark.parametrize("k", [1, 2])
def test_loss_of_the_exponential_mechanism_for_persons_in_rationals(k):
    orders = list(itertools.permutations(range(3)))
    answers = np.array(list(itertools.product((-1, 0, 1), repeat=3)))
    tables = tables_of(answers[(answers != 0).sum(axis=1) <= k], 3)
    largest = 0
    for others in ((0, 0, 0), (9, 9, 9), (9, 0, 9), (9, -9, 9)):
        laws = [gibbs(row) for row in payments(orders, tables + tables_of([others], 3)).tolist()]
        largest = max(largest, *(max(column) / min(column) for column in zip(*laws, strict=True)))
    l1 = int(margin_sensitivity(3, "person", pairs=k).l1)
    assert Fraction(99, 100) * 4**l1 < largest < 4**l1


def test_the_sums_over_subsets_are_those_over_orders():
    """For every subset of four items the shares of its last item, as balls around sums over its orders."""
    rng = np.random.default_rng(3)
    upper = np.triu(rng.integers(-9, 10, (4, 4)), 1)
    margins = upper - upper.T
    rate = Fraction(3, 7)
    paid = [
        np.array([sum(int(margins[v, u]) for u in range(4) if mask >> u & 1) for mask in range(16)]) for v in range(4)
    ]
    sums = GibbsSums(paid, rate)
    for mask in range(1, 16):
        members = [u for u in range(4) if mask >> u & 1]
        weights = {v: flint.arb(0) for v in members}
        for order in itertools.permutations(members):
            cost = sum(int(margins[v, u]) for u, v in itertools.combinations(order, 2))
            weights[order[-1]] += (-flint.arb(flint.fmpq(3, 7)) * cost).exp()
        total = sum(weights.values(), flint.arb(0))
        for n in range(1, len(members) + 1):
            share = sums.cumulated_share(mask, members[:n])(100)
            assert share.overlaps(sum((weights[v] for v in members[:n]), flint.arb(0)) / total)
            assert share.rad() < 1e-40


class Script:
    """Bits that were written down in advance."""

    def __init__(self, words):
        self.words = list(words)

    def bits(self, _n):
        return self.words.pop(0)


@pytest.mark.parametrize(("last", "answer"), [(2**64 // 3 - 1, True), (2**64 // 3 + 1, False)])
def test_an_open_comparison_draws_more_bits_and_then_agrees_with_the_variable(last, answer):
    """U shares 192 bits with 1/3: no ball is asked to decide before the word in which they differ."""
    third = 2**64 // 3  # 0.0101...01 in binary, in every word
    uniform = LazyUniform(Script([third, third, third, last]))
    assert uniform.below(lambda _precision: flint.arb(1) / 3) is answer
    assert uniform.b == 256
    value = Fraction(uniform.u, 2**256)
    assert (value < Fraction(1, 3)) is answer
    for threshold in (Fraction(1, 3) - Fraction(1, 2**200), Fraction(1, 3) + Fraction(1, 2**200)):
        assert uniform.below(lambda _precision, x=threshold: ball(x)) is (value < threshold)


# ------------------------------------------------------------------ footrule


@pytest.mark.parametrize("m", [2, 3, 4])
@BOTH
def test_prefix_counts_of_a_ballot_are_clipped_scores(m, unranked):
    """G[u, k] = min(max(s - t_{k+1}, 0), 2), and an item's prefix counts sum to s + m - 1."""
    for ballot in all_ballots(m):
        places = np.array(ballot.places(m), dtype=np.uint8)[:, None]
        prefix = place_counts(places, (1,), unranked=unranked).cumsum(axis=1)[:, :-1]
        scores = margins_of(ballot, m, unranked).sum(axis=1)
        next_ranks = m + 1 - 2 * np.arange(2, m + 1)
        assert (prefix == np.clip(scores[:, None] - next_ranks, 0, 2)).all()
        assert (prefix.sum(axis=1) == scores + m - 1).all()


# ------------------------------------------------------------------ kwiksort


def mean_comparisons(beats):
    """Exactly, of quicksort with a uniform pivot and fixed answers, for every set of items (a bit mask)."""
    m = len(beats)
    means = [Fraction(0)] * (1 << m)
    for mask in range(1, 1 << m):
        size = mask.bit_count()
        total = sum(
            (means[beats[v] & mask] + means[mask & ~beats[v] & ~(1 << v)] for v in range(m) if mask >> v & 1),
            Fraction(0),
        )
        means[mask] = size - 1 + total / size
    return means[-1]


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_contradictory_answers_make_no_more_comparisons_in_the_mean(m):
    harmonic = sum(Fraction(1, k) for k in range(1, m + 1))
    found = set()
    for answers in itertools.product((True, False), repeat=pairs_of(m)):
        beats = [0] * m
        for (u, v), first in zip(itertools.combinations(range(m), 2), answers, strict=True):
            winner, loser = (u, v) if first else (v, u)
            beats[winner] |= 1 << loser
        found.add(mean_comparisons(beats))
    assert max(found) == 2 * (m + 1) * harmonic - 4 * m


def kwiksort_law(margins, win, cap):
    """The law of the order of three items if ``cap`` questions read the margins, as a vector of six masses."""
    law = Counter()

    def ask(u, v, number):
        yes = win(int(margins[u, v])) if number < cap else 0.5
        return ((True, yes), (False, 1 - yes))

    for pivot in range(3):
        u, v = (w for w in range(3) if w != pivot)
        for (a, p), (b, q) in itertools.product(ask(u, pivot, 0), ask(v, pivot, 1)):
            mass = p * q / 3
            if a is not b:
                law[(u, pivot, v) if a else (v, pivot, u)] += mass
                continue
            for second, other in ((u, v), (v, u)):  # the second pivot of the two
                for c, r in ask(other, second, 2):
                    pair = (other, second) if c else (second, other)
                    law[(*pair, pivot) if a else (pivot, *pair)] += mass * r / 2
    return np.array([law[order] for order in itertools.permutations(range(3))])


@pytest.mark.parametrize("cap", [1, 2])
def test_delta_of_capped_normal_noise_over_all_neighbours(cap, monkeypatch):
    """Fewer questions than pairs: the hockey-stick divergence stays below delta, and at half the noise does not."""
    from psephos.central import kwiksort as module

    monkeypatch.setattr(module, "comparison_cap", lambda _m: cap)
    epsilon, delta = Fraction(1, 2), Fraction(1, 100)
    sensitivity = kwiksort_sensitivity(3, pairs=None)
    assert sensitivity == MarginSensitivity(l1=Fraction(2 * cap), l2_squared=Fraction(4 * cap))
    sigma = float(gaussian_law(sensitivity, epsilon=epsilon, delta=delta).scale)

    def largest(sd):
        def win(w):
            return sum(math.erfc(-(w + half) / (sd * math.sqrt(2))) / 4 for half in (-0.5, 0.5))

        value = 0.0
        for others in (0, 1, 2, 9):
            tables = ballot_tables(3, "missing") + others * margins_of(Ballot.strict((0, 1, 2)), 3)
            laws = np.array([kwiksort_law(table, win, cap) for table in tables])
            assert laws.sum(axis=1) == pytest.approx(np.ones(len(laws)))
            excess = np.maximum(laws[:, None, :] - math.exp(epsilon) * laws[None, :, :], 0).sum(axis=2)
            value = max(value, float(excess.max()))
        return value

    assert 0 < largest(sigma) <= delta
    assert largest(sigma / 2) > delta


# ------------------------------------------------------------------ the second moment


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@BOTH
def test_the_room_beside_normal_noise_in_whole_numbers(m, unranked):
    """F <= 2 R (4 R - |s - t|^2) and |dC|^2 <= 4 (D - R/m) for all pairs of ballots: every ratio of noises follows.

    With equality in the first for reversed scores alone; and not with 2 R - 5 in place of 2 R.
    """
    tables = ballot_tables(m, unranked)
    whole, rows, moment = distances(tables)
    square = strict_norm(m)
    room = 4 * square - rows
    assert (moment <= 2 * square * room).all()
    assert (m * whole - rows).max() == 4 * (m * pairs_of(m) - square)
    first, second = np.nonzero(moment == 2 * square * room)
    scores = tables.sum(axis=2)
    assert len(first) == math.factorial(m)
    assert (scores[first] == -scores[second]).all()
    if m > 3:
        assert (moment > (2 * square - 5) * room).any()


@pytest.mark.parametrize("m", [3, 4, 5])
@BOTH
def test_the_combined_loss_never_exceeds_that_of_the_tables(m, unranked):
    """Any number of tables of both kinds, their variances spread over powers of ten, and the scales that are used."""
    whole, rows, moment = distances(ballot_tables(m, unranked))
    rng = np.random.default_rng(m)
    for kinds in ((1, 0), (0, 1), (1, 1), (2, 0), (0, 3), (3, 2)):
        for spread in (0.5, 3.0):
            margins, sums = ([Fraction(float(x)) for x in np.exp(rng.normal(2, spread, n))] for n in kinds)
            scales = free_moment_scales(m, margins=margins, row_sums=sums)
            per_margin, per_sum = (float(sum((1 / sd**2 for sd in part), Fraction(0))) for part in (margins, sums))
            # with variance sigma^2 on the diagonal and sigma^2 / 2 beside it the loss is F / sigma^2
            assert scales.off_diagonal**2 * 2 >= scales.diagonal**2 * Fraction(10**12 - 1, 10**12)
            sigma_squared = float(min(scales.diagonal**2, 2 * scales.off_diagonal**2))
            loss = per_margin * whole + per_sum * rows + moment / sigma_squared
            alone = 4 * pairs_of(m) * per_margin + 4 * strict_norm(m) * per_sum
            assert loss.max() == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("m", [3, 4, 5])
@BOTH
def test_a_look_its_branch_and_the_moment_together(m, unranked):
    """probe: each pair of ballots is charged for the dearer branch, and still no more than mu^2."""
    whole, rows, moment = distances(ballot_tables(m, unranked))
    margins, sums = margin_sensitivity(m, "person"), row_sum_sensitivity(m)
    mu_squared = float(mu_lower(1, DELTA) ** 2)
    scales = probe_scales(m, margins=margins, rows=sums, epsilon=Fraction(1), delta=DELTA)
    branches = []
    for tables in (
        {"margins": [scales.look, scales.margin]},
        {"margins": [scales.look], "row_sums": [scales.row_sum]},
    ):
        free = free_moment_scales(m, **tables)
        second = whole / float(scales.margin) ** 2 if len(tables) == 1 else rows / float(scales.row_sum) ** 2
        branches.append(second + moment / float(min(free.diagonal**2, 2 * free.off_diagonal**2)))
    total = whole / float(scales.look) ** 2 + np.maximum(*branches)
    assert 0.999 * mu_squared < total.max() <= mu_squared * (1 + 1e-12)


def scores_of(ballot, m, unranked):
    """Items below less items above, without making a table."""
    groups = [*ballot.groups]
    rest = tuple(set(range(m)).difference(*groups))
    if unranked == "last":
        groups.append(rest)
    scores, above, all_items = [0] * m, 0, sum(map(len, groups))
    for group in groups:
        for u in group:
            scores[u] = all_items - 2 * above - len(group)
        above += len(group)
    return scores


@BOTH
def test_the_second_moment_of_six_items(unranked):
    """All ballots against one of each shape: no two are orthogonal and strict, and the room is what the page says."""
    assert all(scores_of(b, 4, unranked) == margins_of(b, 4, unranked).sum(axis=1).tolist() for b in all_ballots(4))
    square = strict_norm(6)
    scores = np.unique([scores_of(ballot, 6, unranked) for ballot in all_ballots(6)], axis=0)
    shapes = np.unique(np.sort(scores, axis=1), axis=0)
    products = shapes @ scores.T
    lengths = ((shapes**2).sum(axis=1)[:, None], (scores**2).sum(axis=1)[None, :])
    moment = lengths[0] ** 2 + lengths[1] ** 2 - 2 * products**2
    room = 4 * square - (lengths[0] + lengths[1] - 2 * products)
    assert moment.max() == 2 * square**2 - 8
    assert (moment <= 2 * square * room).all()
    assert (moment == (2 * square - 4) * room)[room > 0].any()


# ------------------------------------------------------------------ ranks


def test_few_items_have_percentiles_that_reach_the_last_rank():
    """In each simulated world one item is last, so at most 40 of 200 equal items can have 200 below their 97.5 %."""
    rng = np.random.default_rng(6)
    m, draws = 200, 1001
    x = rng.normal(size=m)
    worlds = x + rng.normal(size=(draws, m))
    ranks = (-worlds).argsort(axis=1).argsort(axis=1) + 1
    reach = int((np.percentile(ranks, 97.5, axis=0) == m).sum())
    assert 0 < reach <= 40
    assert (ranks == m).sum() == draws

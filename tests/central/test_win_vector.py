"""The win vector: sensitivities by brute force, noise, accounting, audit."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from psephos import Comparisons, pairwise_margins
from psephos.central.borda import row_sum_sensitivity
from psephos.central.least_noise import least_noise_law
from psephos.central.win_vector import (
    WinLaws,
    answers_sensitivity,
    best_cap,
    most_answers,
    private_graph_laws,
    public_graph_laws,
    public_graph_sensitivity,
    released_wins,
)
from psephos.pairwise import NoiseLaw, pair_counts
from psephos.privacy import InsecureBits, epsilon_of
from psephos.privacy.audit import epsilon_lower_bound

DELTA = Fraction(1, 10**6)


def person(m, pairs):
    """Comparisons of one person on these pairs."""
    left, right = zip(*pairs, strict=True)
    return Comparisons.from_columns([f"i{u}" for u in range(m)], left, right, [1] * len(pairs), person=[0] * len(pairs))


def largest_moves(m, pairs):
    """The largest l1 and squared l2 distance of two score vectors of one person who answers these pairs, ties too."""
    incidence = np.zeros((len(pairs), m), dtype=int)
    for row, (u, v) in enumerate(pairs):
        incidence[row, u], incidence[row, v] = 1, -1
    answers = np.array(list(itertools.product((-1, 0, 1), repeat=len(pairs))))
    sums = np.unique(answers @ incidence, axis=0)
    moves = np.abs(sums[:, None, :] - sums[None, :, :])
    return moves.sum(-1).max(), (moves**2).sum(-1).max()


def bipartite(m, pairs):
    return any(
        all(side >> u & 1 != side >> v & 1 for u, v in pairs) for side in range(1 << m)
    )  # fmt: skip


@pytest.mark.parametrize("m", [3, 4])
def test_public_graph_sensitivity_by_brute_force(m):
    """Every graph of one person on m items: never exceeded, attained where it is bipartite or complete."""
    every = list(itertools.combinations(range(m), 2))
    for size in range(1, len(every) + 1):
        for pairs in itertools.combinations(every, size):
            l1, squared = largest_moves(m, pairs)
            bound = public_graph_sensitivity(person(m, pairs))
            assert l1 <= bound.l1
            assert squared <= bound.l2_squared <= Fraction(3, 2) * int(squared)
            if bipartite(m, pairs):
                degrees = np.bincount(np.ravel(pairs), minlength=m)
                assert squared == 4 * (degrees**2).sum() == bound.l2_squared
                assert l1 == bound.l1 == 4 * size
            if size == len(every):
                assert squared == bound.l2_squared
                assert l1 == bound.l1


@pytest.mark.parametrize("m", [4, 5])
def test_the_bound_holds_for_all_draws_of_capped_pairs(m):
    """Every graph of one person and every cap: no draw moves more, and the bound is rarely far from the worst draw."""
    every = list(itertools.combinations(range(m), 2))
    rng = np.random.default_rng(m)
    graphs = [g for size in range(2, len(every) + 1) for g in itertools.combinations(every, size)]
    chosen = graphs if m == 4 else [graphs[i] for i in rng.choice(len(graphs), 40, replace=False)]
    slack = []
    for graph in chosen:
        for cap in range(1, min(len(graph), 6) + 1 if m == 4 else 4):
            bound = public_graph_sensitivity(person(m, graph), pairs=cap)
            draws = list(itertools.combinations(graph, min(cap, len(graph))))
            moves = [largest_moves(m, draw) for draw in draws]
            assert max(l1 for l1, _ in moves) <= bound.l1
            assert max(squared for _, squared in moves) <= bound.l2_squared
            each = [public_graph_sensitivity(person(m, draw)) for draw in draws]
            assert max(one.l1 for one in each) <= bound.l1
            assert max(one.l2_squared for one in each) <= bound.l2_squared
            slack.append(bound.l2_squared / max(one.l2_squared for one in each))
    assert max(slack) <= Fraction(5, 3)
    assert sum(s == 1 for s in slack) > len(slack) / 2


def test_repeated_judgements_count_once_in_the_bound():
    twice = Comparisons.from_columns(list("abc"), [0, 1, 0], [1, 0, 2], [1, 1, 1], person=[0, 0, 0])
    assert public_graph_sensitivity(twice, pairs=5) == public_graph_sensitivity(person(3, [(0, 1), (0, 2)]))
    assert [most_answers(twice, pairs=k) for k in (1, 2, 3)] == [1, 2, 2]


def test_the_person_who_could_move_most_sets_the_noise():
    table = Comparisons.from_columns(
        list("abcde"), [0, 1, 0, 0, 0], [1, 2, 1, 2, 3], [1, 1, 1, 1, 1], person=[0, 0, 1, 1, 1]
    )
    assert public_graph_sensitivity(table).l2_squared == 4 * 12  # a star of three: 9 + 1 + 1 + 1
    assert public_graph_sensitivity(table).l1 == 4 * 3
    answers = Comparisons.from_columns(list("ab"), [0, 0], [1, 1], [1, -1])
    assert (public_graph_sensitivity(answers).l1, public_graph_sensitivity(answers).l2_squared) == (4, 8)


def test_public_graph_sensitivity_does_not_read_answers():
    pairs = [(0, 1), (0, 2), (1, 3)]
    tables = [
        Comparisons.from_columns(list("abcd"), *zip(*pairs, strict=True), outcome, person=[0, 0, 1])
        for outcome in itertools.product((-1, 0, 1), repeat=3)
    ]
    assert len({public_graph_sensitivity(table).l2_squared for table in tables}) == 1


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_numbers_of_answers_by_brute_force(k):
    sets = np.array([x for x in itertools.product((0, 1), repeat=6) if sum(x) <= k])
    moves = np.abs(sets[:, None, :] - sets[None, :, :])
    bound = answers_sensitivity(4, pairs=k)
    assert moves.sum(-1).max() == bound.l1
    assert (moves**2).sum(-1).max() == bound.l2_squared


@pytest.mark.parametrize("m", [2, 5, 59])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
@pytest.mark.parametrize("delta", [0, DELTA])
def test_what_ran_accounts_for_its_target(m, epsilon, delta):
    """Within 0.1 % of the target, never above."""
    target = Fraction(epsilon)
    table = Comparisons.from_columns([f"i{u}" for u in range(m)], [0], [1], [1], person=[0])
    public = public_graph_laws(public_graph_sensitivity(table), epsilon=target, delta=Fraction(delta))
    private = private_graph_laws(m, pairs=3, epsilon=target, delta=Fraction(delta))
    for laws in (public, private):
        event = released_wins(table, laws, bits=InsecureBits(seed=1))[2]
        again = epsilon_of(event, 0 if laws.pure else DELTA)
        assert target * Fraction(999, 1000) <= again <= target
        assert laws.pure or delta


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
@pytest.mark.parametrize("delta", [0, DELTA])
def test_the_best_cap_makes_errors_least(epsilon, delta):
    """Within 2 % of the least over every cap, and repeated judgements of a pair count once."""
    m, numbers = 12, [3] * 40 + [20] * 10 + [60] * 2
    pairs = list(itertools.combinations(range(m), 2))
    rows = [(person, *pairs[(7 * person + j) % 66]) for person, k in enumerate(numbers) for j in range(k)]
    who, left, right = zip(*rows, *rows[:30], strict=True)
    table = Comparisons.from_columns([f"i{u}" for u in range(m)], left, right, [1] * len(who), person=who)

    def errors(k):
        law = least_noise_law(row_sum_sensitivity(m, pairs=k), epsilon=Fraction(epsilon), delta=Fraction(delta))
        curvature = sum(min(n, k) for n in numbers) / (2 * m)
        return (curvature + law.variance / 4) / curvature**2

    best = best_cap(table, epsilon=Fraction(epsilon), delta=Fraction(delta))
    assert errors(best) <= 1.02 * min(errors(k) for k in range(1, 61))


@pytest.mark.parametrize(("m", "k"), [(5, 2), (10, 10), (59, 7), (59, 59)])
def test_the_split_of_the_budget_makes_errors_least(m, k):
    """What a private graph's two releases add to the variance of an item's wins, against other splits."""
    rows, answers = row_sum_sensitivity(m, pairs=k), answers_sensitivity(m, pairs=k)
    weight = (m - 1) / 8
    splits = np.linspace(0.01, 0.99, 99)
    pure = private_graph_laws(m, pairs=k, epsilon=Fraction(1), delta=Fraction(0))

    def laplace(s):
        return (float(rows.l1) / s) ** 2 + weight * (float(answers.l1) / (1 - s)) ** 2

    assert laplace(float(rows.l1 / pure.rows.scale)) <= 1.002 * min(map(laplace, splits))
    normal = private_graph_laws(m, pairs=k, epsilon=Fraction(1, 100), delta=Fraction(1, 100))
    assert normal.rows.family == "rounded-gaussian"
    spent = [rows.l2_squared / normal.rows.scale**2, answers.l2_squared / normal.answers.scale**2]

    def squared(s):
        return float(rows.l2_squared) / s + weight * float(answers.l2_squared) / (1 - s)

    assert squared(float(spent[0] / sum(spent))) <= 1.002 * min(map(squared, splits))


def test_without_noise_both_releases_are_exact(monkeypatch):
    from psephos.central import win_vector

    for name in ("discrete_laplace_array", "rounded_gaussian_array"):
        monkeypatch.setattr(win_vector, name, lambda _s, n, _b: np.zeros(n, dtype=np.int64))
    table = Comparisons.from_columns(list("abc"), [0, 1, 2, 0], [1, 2, 0, 1], [1, -1, 0, 1], person=[0, 0, 1, 2])
    laws = private_graph_laws(3, pairs=2, epsilon=Fraction(1), delta=Fraction(0))
    sums, answers, _ = released_wins(table, laws, bits=InsecureBits(seed=1))
    assert sums.tolist() == pairwise_margins(table).sum(axis=1).tolist() == [2, -3, 1]
    assert answers.tolist() == pair_counts(table).tolist()


def test_golden_release():
    """Noise recomputed from the sampler itself, in the order row sums, then numbers of answers."""
    from psephos.privacy.samplers import discrete_laplace_array

    table = Comparisons.from_columns(list("abc"), [0, 1, 2], [1, 2, 0], [1, -1, 1], person=[0, 0, 1])
    laws = private_graph_laws(3, pairs=2, epsilon=Fraction(1), delta=Fraction(0))
    bits = InsecureBits(seed=9)
    first, second = (discrete_laplace_array(law.scale, 3, bits) for law in (laws.rows, laws.answers))
    sums, answers, event = released_wins(table, laws, bits=InsecureBits(seed=9))
    assert sums.tolist() == (pairwise_margins(table).sum(axis=1) + first).tolist()
    assert answers[np.triu_indices(3, 1)].tolist() == (1 + second).tolist()
    # 4 k = 8 and 2 k = 4, but at most D = 3; the shares of epsilon as cube roots of 64 and (m-1)/8 * 9
    assert [part.sensitivity for part in event.parts] == [8, 3]
    assert laws.rows.scale == 8 / Fraction(75, 100)
    assert laws.answers.scale == 3 / Fraction(25, 100)


@pytest.mark.parametrize("unit", ["comparison", pytest.param("star", marks=pytest.mark.slow)])
def test_audit_of_wins(unit):
    """One unit turns round all its answers: at or beyond the second table's wins, the event of largest ratio."""
    trials = 10_000
    pairs = [(0, 1)] if unit == "comparison" else [(0, 1), (0, 2)]
    rest = [(1, 2)] * 20
    names = list("abc")

    def table(outcome):
        left, right = zip(*(pairs + rest), strict=True)
        who = [0] * len(pairs) + list(range(1, 21))
        return Comparisons.from_columns(names, left, right, [outcome] * len(pairs) + [1] * 20, person=who)

    first, second = table(1), table(-1)
    sensitivity = public_graph_sensitivity(first)
    ends = [pairwise_margins(each).sum(axis=1) for each in (first, second)]
    sign = np.sign(ends[1] - ends[0])

    def measured(laws):
        bits = InsecureBits(seed=4)
        counts = []
        for each in (first, second):
            draws = np.array([released_wins(each, laws, bits=bits)[0] for _ in range(trials)]).astype(int)
            counts.append(int(((draws - ends[1]) * sign >= 0).all(axis=1).sum()))
        return epsilon_lower_bound(false_alarms=counts[0], hits=counts[1], trials=trials)

    laws = public_graph_laws(sensitivity, epsilon=Fraction(1), delta=Fraction(0))
    assert 0.6 < measured(laws) <= 1
    half = NoiseLaw(family=laws.rows.family, scale=laws.rows.scale / 2)
    wrong = WinLaws(rows=half, rows_sensitivity=sensitivity, answers=None, answers_sensitivity=None)
    assert measured(wrong) > 1

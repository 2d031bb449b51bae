"""Fits of so many items that no table of all pairs is made: equal to the dense fit, with measured errors."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit

from psephos import Comparisons
from psephos.errors import DataError, ParameterError
from psephos.pairwise import counted_pairs, pair_counts, pairwise_margins
from psephos.scores import (
    LOGISTIC,
    SparseErrors,
    WinsCovariance,
    default_regularisation,
    fit_scores,
    fit_wins,
    independent_sampling,
    score_covariance,
    score_errors,
)
from psephos.scores import answers as answers_module
from psephos.scores.answers import Band, as_answers, centre, conjugate_gradients


@pytest.fixture
def few_are_many(monkeypatch):
    """Two items are too many for a dense table."""
    monkeypatch.setattr(answers_module, "DENSE_ITEMS", 1)


def records(data, m, large=10**20):
    """A drawn table of comparisons, weighted or not, of persons or not."""
    k = data.draw(st.integers(1, 40))
    column = st.integers(0, m - 1)
    left = np.array(data.draw(st.lists(column, min_size=k, max_size=k)))
    right = (left + np.array(data.draw(st.lists(st.integers(1, m - 1), min_size=k, max_size=k)))) % m
    outcome = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=k, max_size=k))
    person = data.draw(st.none() | st.lists(st.integers(0, 5), min_size=k, max_size=k))
    numbers = st.integers(0, 4) | st.fractions(0, 3, max_denominator=5) | st.just(large)
    weight = data.draw(st.none() | st.lists(numbers, min_size=k, max_size=k))
    if weight is not None and not any(weight):
        weight[0] = 1
    return Comparisons.from_columns([f"i{u}" for u in range(m)], left, right, outcome, person=person, weight=weight)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(2, 7))
def test_counted_pairs_equal_the_tables(data, m):
    table = records(data, m)
    pairs = counted_pairs(table)
    answers, margins = pair_counts(table), pairwise_margins(table)
    one, other = np.nonzero(np.triu(answers > 0))
    assert (pairs.first.tolist(), pairs.second.tolist()) == (one.tolist(), other.tolist())
    assert pairs.answers.tolist() == answers[one, other].tolist()
    assert pairs.margins.tolist() == margins[one, other].tolist()


def test_no_pairs():
    for weight in (None, []):
        empty = counted_pairs(Comparisons.from_columns(["a", "b"], [], [], [], weight=weight))
        assert [len(x) for x in (empty.first, empty.second, empty.answers, empty.margins)] == [0, 0, 0, 0]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 7), st.sampled_from(["logistic", "normal"]), st.sampled_from([None, 0.5]))
def test_many_items_are_fitted_as_few_are(data, m, link, regularisation):
    table = records(data, m, large=9)  # beside answers worth 10^20, doubles see little of the rest
    dense = fit_scores(table, link=link, regularisation=regularisation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers_module, "DENSE_ITEMS", 1)
        found = fit_scores(table, link=link, regularisation=regularisation)
    assert found.covariance is None
    size = 1e-6 * (1 + np.abs(dense.scores).max())
    np.testing.assert_allclose(found.scores, dense.scores, atol=size)
    assert found.loss == pytest.approx(dense.loss, rel=1e-6, abs=1e-6)
    assert found.separated == dense.separated
    assert found.components == dense.components
    assert found.sampling == dense.sampling
    assert found.regularisation == pytest.approx(dense.regularisation, rel=1e-14)  # sums in another order
    if table.weight is None:
        # components of few items are solved exactly; what single people hold is looked at item by item
        dense = fit_scores(table, link=link, regularisation=regularisation, sampling="independent")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(answers_module, "DENSE_ITEMS", 1)
            found = fit_scores(table, link=link, regularisation=regularisation, sampling="independent")
        np.testing.assert_allclose(found.errors, dense.errors, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.errors_of(range(m)), dense.errors, rtol=1e-4, atol=1e-6)
        together = found.difference_errors(range(m))
        np.testing.assert_allclose(together, dense.difference_errors(), rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("few_are_many")
def test_people_among_many_items(monkeypatch):
    """Like people have their number less one as freedom, as with few items, and one who holds most has none."""
    rng = np.random.default_rng(4)
    left, right = np.triu_indices(6, 1)
    k, people = len(left), 12
    outcome = rng.choice([-1, 1], k * people)
    person = np.repeat(np.arange(people), k)
    names = [f"i{u}" for u in range(6)]
    table = Comparisons.from_columns(names, np.tile(left, people), np.tile(right, people), outcome, person=person)
    found = fit_scores(table)
    np.testing.assert_allclose(found.freedom, 11, rtol=0.01)
    monkeypatch.setattr(answers_module, "DENSE_ITEMS", 2000)
    dense = fit_scores(table)
    np.testing.assert_allclose(dense.freedom, 11, rtol=0.01)
    np.testing.assert_allclose(found.errors, dense.errors, rtol=0.02)
    monkeypatch.setattr(answers_module, "DENSE_ITEMS", 1)
    more = Comparisons.from_columns(
        [*names, "new"],
        np.concatenate([table.left, [6] * 40]),
        np.concatenate([table.right, [0, 1] * 20]),
        np.concatenate([outcome, [1, -1, 1, 1] * 10]),
        person=np.concatenate([person, [99] * 39, [100]]),
    )
    found = fit_scores(more)
    assert found.held_items == (0, 1, 6) or found.held_items == (6,)
    assert np.isinf(found.intervals[6]).all()
    assert np.isinf(found.difference_intervals([5, 6])[0, 1]).all()
    assert np.isfinite(found.intervals[5]).all()


def graph(kind, m, rng):
    """Pairs of items that were compared."""
    if kind == "random":
        u, v = rng.integers(0, m, (2, 5 * m))
    elif kind == "dense":
        u, v = rng.integers(0, m, (2, 60 * m))
    elif kind == "path":
        u, v = np.arange(m - 1), np.arange(1, m)
    elif kind == "ring":
        u, v = np.arange(m), (np.arange(m) + 1) % m
    elif kind == "star":
        u, v = np.zeros(m - 1, dtype=int), np.arange(1, m)
    elif kind == "tree":
        v = np.arange(1, m)
        u = rng.integers(0, v)
    elif kind == "bridge":
        half = m // 2
        u = np.concatenate([rng.integers(0, half, 8 * half), rng.integers(half, m, 8 * half), [0]])
        v = np.concatenate([rng.integers(0, half, 8 * half), rng.integers(half, m, 8 * half), [half]])
    else:  # pieces: a large component, twos, and some alone
        half = m // 2
        u, v = rng.integers(0, half, (2, 5 * half))
        u, v = np.concatenate([u, np.arange(half, m - 9, 2)]), np.concatenate([v, np.arange(half, m - 9, 2) + 1])
    return u[u != v], v[u != v]


def case(kind, m, covariance, rng):
    """A table, scores, J for many items, and J as a full table."""
    u, v = graph(kind, m, rng)
    table = sparse.csr_array((np.full(len(u), 2.0), (u, v)), shape=(m, m))
    pairs = as_answers(table + table.T)
    full = pairs.to_dense()
    theta = centre(rng.normal(0, 0.7, m), pairs.labels)
    independent = independent_sampling(theta, full)
    if covariance == "independent":
        return pairs, theta, WinsCovariance(sparse.csr_array(independent)), independent
    # people answer six pairs each, most of them as the last one
    chance = expit(pairs.differences(theta))
    person = rng.permutation(len(chance)) // 6
    surprise = 2 * ((rng.random(person.max() + 1)[person] < chance) - chance)
    entries, rows = np.concatenate([surprise, -surprise]), np.concatenate([person, person])
    people = sparse.csr_array((entries, (rows, np.concatenate([pairs.first, pairs.second]))), shape=(rows.max() + 1, m))
    rest = independent / people.shape[0]
    joint = (people.T @ people).toarray() + rest
    if covariance == "people":
        return pairs, theta, WinsCovariance(sparse.csr_array(rest), rows=people), joint
    joint = joint + 0.2 * np.eye(m)
    return pairs, theta, WinsCovariance(sparse.csr_array(joint)), joint


@pytest.mark.parametrize("covariance", ["independent", "people", "general"])
@pytest.mark.parametrize("kind", ["random", "dense", "path", "ring", "star", "tree", "bridge", "pieces"])
def test_measured_errors_are_as_good_as_they_say(kind, covariance, monkeypatch):
    """The root mean square of relative errors over 300 items, against its own estimate: within a factor of 1.5.

    It is an average of 300 squares that are correlated where errors are common; measured, the ratio lies in 0.8 to 1.3.
    """
    m = 300
    pairs, theta, noise, joint = case(kind, m, covariance, np.random.default_rng(1))
    np.testing.assert_allclose(noise.toarray(), joint, atol=1e-9)
    np.testing.assert_allclose(noise.diagonal(), np.diagonal(joint), atol=1e-9)
    labels, penalty = pairs.labels, default_regularisation(m, pairs.count.sum())
    exact = score_covariance(theta, pairs, wins_covariance=joint, regularisation=penalty)
    expected = score_errors(exact, labels)
    for cheap in (2e7, 0.0):  # with and without the products of people's answers
        monkeypatch.setattr("psephos.scores.wins_covariance._CHEAP", cheap)
        found = SparseErrors.measure(
            theta, pairs, wins_covariance=noise, regularisation=penalty, link=LOGISTIC, component_labels=labels
        )
        assert found.errors.tolist() == pytest.approx(expected.tolist(), rel=0.2)
        off = found.errors[np.isfinite(expected)] / expected[np.isfinite(expected)] - 1
        reached = float(np.sqrt((off**2).mean()))
        assert reached < 1.5 * max(found.precision, 1e-3)
        assert found.precision < 0.03
        chosen = [0, 1, m // 2, m - 1]
        together = labels[chosen][:, None] == labels[chosen][None, :]
        np.testing.assert_allclose(
            found.covariance_of(chosen), np.where(together, exact[np.ix_(chosen, chosen)], 0), rtol=1e-5, atol=1e-9
        )


def test_without_slow_modes_a_bridge_needs_many_more_draws(monkeypatch):
    """The power of the test above: plain draws leave clusters with a bridge four times as uncertain."""
    pairs, theta, noise, _ = case("bridge", 300, "independent", np.random.default_rng(1))
    penalty = default_regularisation(300, pairs.count.sum())

    def measured():
        return SparseErrors.measure(
            theta, pairs, wins_covariance=noise, regularisation=penalty, link=LOGISTIC, component_labels=pairs.labels
        )

    with_modes = measured()
    monkeypatch.setattr("psephos.scores.sparse_errors._FEW", 10**9)
    without = measured()
    assert (with_modes.modes, without.modes) == (32, 0)
    assert without.draws >= 8 * with_modes.draws


def many(rng, m, count, persons=None):
    theta = rng.normal(0, 1, m)
    left = rng.integers(0, m, count)
    right = (left + rng.integers(1, m, count)) % m
    won = np.where(rng.random(count) < expit(theta[left] - theta[right]), 1, -1)
    who = None if persons is None else rng.integers(0, persons, count)
    return theta, Comparisons.from_columns([f"i{u}" for u in range(m)], left, right, won, person=who)


@pytest.mark.parametrize("persons", [None, 900])
def test_three_thousand_items(persons):
    theta, table = many(np.random.default_rng(3), 3000, 60_000, persons)
    fit = fit_scores(table)
    assert (fit.status, fit.covariance) == ("converged", None)
    assert fit.residual <= 1e-8
    assert 0 < fit.errors_precision <= 0.02
    chosen = np.arange(0, 3000, 250)
    np.testing.assert_allclose(fit.errors[chosen], fit.errors_of(chosen), rtol=0.1)
    covered = np.abs(fit.scores - (theta - theta.mean())) <= 1.959964 * fit.errors
    assert abs(covered.mean() - 0.95) < 0.03  # 5 standard deviations of 3000 items are .02
    wide, narrow = fit.difference_errors(chosen), fit.difference_errors(chosen[:2])
    np.testing.assert_allclose(wide[:2, :2], narrow, rtol=1e-8)
    assert fit.difference_intervals(chosen).shape == (12, 12, 2)
    assert fit.intervals.shape == (3000, 2)
    again = fit_scores(table)
    np.testing.assert_array_equal(again.errors, fit.errors)
    for refused in (fit.difference_errors, fit.difference_intervals, lambda: fit.rank_intervals(rng=None)):
        with pytest.raises(ParameterError, match="items must be chosen"):
            refused()
    for bad in ([0.5], [-1], [3000], [[1]], ["i1"]):
        with pytest.raises(ParameterError, match="items must be"):
            fit.errors_of(bad)


def test_weights_are_exact_among_many_items(few_are_many):  # noqa: ARG001
    # a's 10^30 wins and one loss of weight 1/3: doubles would round the loss away
    table = Comparisons.from_columns(["a", "b"], [0, 0], [1, 1], [1, -1], weight=[10**30, Fraction(1, 3)])
    assert fit_scores(table).separated == ()
    won = Comparisons.from_columns(["a", "b"], [0, 0], [1, 1], [1, -1], weight=[10**30, 0])
    assert fit_scores(won).separated == ((0,), (1,))


def test_refusals_among_many_items(few_are_many):  # noqa: ARG001
    with pytest.raises(DataError, match="nothing to rank"):
        fit_scores(Comparisons.from_columns(["a", "b"], [], [], []))
    one = Comparisons.from_columns(["a", "b"], [0], [1], [1])
    with pytest.raises(ParameterError, match="won, or lost, all"):
        fit_scores(one, regularisation=0)
    with pytest.raises(ParameterError, match="do not say who"):
        fit_scores(one, sampling="clustered")
    apart = Comparisons.from_columns(list("abcd"), [0, 1, 2, 3], [1, 0, 3, 2], [1, 1, 1, 1])
    with pytest.raises(ParameterError, match="2 groups"):
        fit_scores(apart, regularisation=0)
    assert fit_scores(apart).components == ((0, 1), (2, 3))


# ------------------------------------------------------------------ fit_wins


def test_fit_wins_takes_every_kind_of_table():
    rng = np.random.default_rng(4)
    wins = rng.integers(1, 9, (6, 6))
    np.fill_diagonal(wins, 0)
    answers, names = (wins + wins.T).astype(float), list("abcdef")
    fits = [
        fit_wins(
            names,
            wins.sum(axis=1),
            table,
            wins_covariance=lambda theta, kind=kind: kind(independent_sampling(theta, answers)),
            sampling="independent",
        )
        for table in (answers, sparse.csr_array(answers))
        for kind in (np.array, sparse.csr_array, lambda J: WinsCovariance(sparse.csr_array(J)))
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.scores, fits[0].scores, atol=1e-12)
        np.testing.assert_allclose(fit.covariance, fits[0].covariance, rtol=1e-10)
    left, right = np.nonzero(wins)
    each = wins[left, right]
    columns = np.repeat(left, each), np.repeat(right, each), np.ones(each.sum(), dtype=int)
    direct = fit_scores(Comparisons.from_columns(names, *columns))
    np.testing.assert_allclose(fits[0].scores, direct.scores, atol=1e-9)
    np.testing.assert_allclose(fits[0].covariance, direct.covariance, rtol=1e-9)
    assert fits[0].regularisation == default_regularisation(6, answers.sum() / 2)


def test_fit_wins_passes_on_what_it_is_told():
    n = np.array([[0.0, 10.0], [10.0, 0.0]])

    def fit(**more):
        given = {"wins_covariance": lambda theta: independent_sampling(theta, n), "sampling": "clustered", **more}
        return fit_wins(["a", "b"], [7, 3], n, **given)

    found = fit(separated=[np.array([1])], variance_factor=9.0, level=0.9)
    assert (found.separated, found.sampling, found.level) == (((1,),), "clustered", 0.9)
    assert found.regularisation == pytest.approx(3 * default_regularisation(2, 10))
    with pytest.raises(ParameterError, match=r"\(b\) won, or lost"):
        fit(separated=[[1]], regularisation=0)
    for bad, message in (
        ({"sampling": "both"}, "sampling"),
        ({"level": 1}, "level"),
        ({"variance_factor": 0.5}, "variance_factor"),
        ({"regularisation": -1}, "regularisation"),
        ({"wins_covariance": lambda _: np.eye(3)}, "shape"),
    ):
        with pytest.raises(ParameterError, match=message):
            fit(**bad)
    with pytest.raises(ParameterError, match="one entry an item"):
        fit_wins(["a"], [7, 3], n, wins_covariance=lambda _: n, sampling="independent")
    with pytest.raises(DataError, match="no items"):
        fit_wins([], [], np.zeros((0, 0)), wins_covariance=lambda _: n, sampling="independent")
    with pytest.raises(DataError, match="no pair"):
        fit_wins(["a", "b"], [0, 0], 0 * n, wins_covariance=lambda _: n, sampling="independent")


# ------------------------------------------------------------------ parts


@pytest.mark.parametrize("kind", ["path", "ring", "random"])
def test_a_band_or_iterations_solve_the_same(kind):
    m, rng = 200, np.random.default_rng(2)
    u, v = graph(kind, m, rng)
    table = sparse.csr_array((np.ones(len(u)), (u, v)), shape=(m, m))
    weights, diagonal = as_answers(table + table.T).curvature(np.zeros(m), LOGISTIC, 0.3)
    matrix = np.diag(diagonal) - weights.toarray() - weights.toarray().T
    right = rng.normal(size=(m, 3))
    expected = np.linalg.solve(matrix, right)
    solution = conjugate_gradients(lambda x: matrix @ x, diagonal, right, relative=1e-12)
    np.testing.assert_allclose(solution, expected, atol=1e-8)
    band = Band.of(weights, diagonal)
    assert (band is None) == (kind == "random")
    if band is not None:
        np.testing.assert_allclose(band.solve(right), expected, atol=1e-8)


def test_conjugate_gradients_of_nothing():
    zero = conjugate_gradients(lambda x: x, np.ones(3), np.zeros((3, 2)), relative=1e-8)
    assert zero.tolist() == [[0, 0]] * 3


def test_draws_have_the_covariance_they_should():
    """1500 draws: entries of J up to 3 are met within .4, five of their standard deviations."""
    rng = np.random.default_rng(6)
    root = rng.normal(size=(5, 5)) / 2
    people = sparse.csr_array(rng.normal(size=(4, 5)) / 2)
    general = sparse.csr_array(root @ root.T)
    assert WinsCovariance(general)._general
    laplacian = sparse.csr_array(independent_sampling(np.zeros(5), 4 * (1 - np.eye(5))))
    for matrix in (general, laplacian, laplacian + sparse.eye_array(5)):
        noise = WinsCovariance(matrix, rows=people)
        pairs, rows = noise.draw(np.random.default_rng(7), 1500)
        np.testing.assert_allclose(pairs @ pairs.T / 1500, matrix.toarray(), atol=0.4)
        np.testing.assert_allclose(rows @ rows.T / 1500, (people.T @ people).toarray(), atol=0.4)
        np.testing.assert_allclose(noise @ np.eye(5), (matrix + people.T @ people).toarray(), atol=1e-12)


def test_wins_covariance_refuses():
    for matrix, rows, message in (
        (sparse.csr_array(np.ones((2, 3))), None, "square"),
        (sparse.csr_array([[np.nan]]), None, "finite"),
        (sparse.csr_array(np.eye(2)), sparse.csr_array([[1.0]]), "one column an item"),
        (sparse.csr_array(np.eye(2)), sparse.csr_array([[1.0, np.inf]]), "finite"),
    ):
        with pytest.raises(ParameterError, match=message):
            WinsCovariance(matrix, rows=rows)


def test_wins_covariance_of_another_size_is_refused(few_are_many):  # noqa: ARG001
    n = sparse.csr_array([[0.0, 4.0], [4.0, 0.0]])
    with pytest.raises(ParameterError, match="wins_covariance must have shape"):
        fit_wins(["a", "b"], [2, 2], n, wins_covariance=lambda _: sparse.eye_array(3), sampling="independent")

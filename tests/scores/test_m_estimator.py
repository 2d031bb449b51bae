import math

import choix
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from scipy.special import expit, ndtr, ndtri

from psephos.errors import ParameterError
from psephos.scores import (
    LOGISTIC,
    NORMAL,
    default_regularisation,
    matching_loss,
    solve_scores,
    symmetric_link,
)

CAUCHY = symmetric_link(lambda x: 0.5 + np.arctan(x) / np.pi, lambda x: 1.0 / (np.pi * (1.0 + x * x)), name="cauchy")
LINKS = pytest.mark.parametrize("link", [LOGISTIC, NORMAL, CAUCHY], ids=lambda link: link.name)


def random_wins(rng, m, most=12):
    """A table of wins in which every item beat every other at least once."""
    wins = rng.integers(1, most, (m, m))
    np.fill_diagonal(wins, 0)
    return wins


def expected_wins(scores, answers, cdf):
    """The definition, one pair at a time."""
    m = len(scores)
    return np.array([sum(answers[u][v] * float(cdf(scores[u] - scores[v])) for v in range(m)) for u in range(m)])


@LINKS
@pytest.mark.parametrize("regularisation", [0.0, 0.3, 50.0])
@pytest.mark.parametrize("m", [2, 5, 30])
def test_score_equations(link, regularisation, m):
    wins = random_wins(np.random.default_rng(m), m)
    answers = wins + wins.T
    solution = solve_scores(wins.sum(axis=1), answers, link=link, regularisation=regularisation)
    assert solution.status == "converged"
    assert solution.residual <= 1e-8
    assert abs(solution.scores.sum()) < 1e-10
    left = expected_wins(solution.scores, answers.tolist(), link.cdf) + 2 * regularisation * solution.scores
    assert np.abs(left - wins.sum(axis=1)).max() < 2e-8


def test_agresti_baseball_1987():
    # American League, eastern division, 1987, wins of the row over the column. Agresti, Categorical Data Analysis
    # (2nd edition, 2002), section 10.6: table 10.10 and the third column of table 10.11, Baltimore at 0.
    wins = np.array(
        [
            [0, 7, 9, 7, 7, 9, 11],  # Milwaukee
            [6, 0, 7, 5, 11, 9, 9],  # Detroit
            [4, 6, 0, 7, 7, 8, 12],  # Toronto
            [6, 8, 6, 0, 6, 7, 10],  # New York
            [6, 2, 6, 7, 0, 7, 12],  # Boston
            [4, 4, 5, 6, 6, 0, 6],  # Cleveland
            [2, 4, 1, 3, 1, 7, 0],  # Baltimore
        ]
    )
    scores = solve_scores(wins.sum(axis=1), wins + wins.T, regularisation=0).scores
    assert (scores - scores[-1]).round(2).tolist() == [1.58, 1.44, 1.29, 1.25, 1.11, 0.68, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_against_choix(seed):
    rng = np.random.default_rng(seed)
    wins = random_wins(rng, 6)
    pairs = [(int(u), int(v)) for u in range(6) for v in range(6) for _ in range(wins[u, v])]
    scores = solve_scores(wins.sum(axis=1), wins + wins.T, regularisation=0).scores
    for peer in (choix.ilsr_pairwise(6, pairs, tol=1e-12), choix.mm_pairwise(6, pairs, tol=1e-12)):
        np.testing.assert_allclose(scores, peer - peer.mean(), atol=1e-6)
    # choix adds alpha sum(theta^2), natural logarithms, to minus the log-likelihood: the same lambda
    peer = choix.opt_pairwise(6, pairs, alpha=0.7, tol=1e-12)
    regularised = solve_scores(wins.sum(axis=1), wins + wins.T, regularisation=0.7).scores
    np.testing.assert_allclose(regularised, peer - peer.mean(), atol=1e-6)


def binomial_glm(wins, pairs, link):
    m = len(wins)
    design = np.zeros((len(pairs), m))
    for row, (u, v) in enumerate(pairs):
        design[row, u], design[row, v] = 1, -1
    outcome = [[wins[u, v], wins[v, u]] for u, v in pairs]
    model = sm.GLM(outcome, design[:, 1:], family=sm.families.Binomial(link=link))  # the first item at 0
    return np.concatenate([[0.0], model.fit(tol=1e-14).params])


@pytest.mark.parametrize("seed", range(5))
def test_logit_against_statsmodels(seed):
    wins = random_wins(np.random.default_rng(seed), 7)
    pairs = [(u, v) for u in range(7) for v in range(u + 1, 7)]
    peer = binomial_glm(wins, pairs, sm.families.links.Logit())
    scores = solve_scores(wins.sum(axis=1), wins + wins.T, regularisation=0).scores
    np.testing.assert_allclose(scores, peer - peer.mean(), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Perfect separation or prediction")  # an exact fit is what is wanted
def test_probit_against_statsmodels_where_shares_fit_exactly():
    # On a tree every share can be met, so that the likelihood and the matching loss have one minimiser.
    rng = np.random.default_rng(3)
    pairs = [(0, 1), (1, 2), (1, 3), (3, 4)]
    wins = np.zeros((5, 5), dtype=int)
    for u, v in pairs:
        wins[u, v], wins[v, u] = rng.integers(1, 20, 2)
    peer = binomial_glm(wins, pairs * 2, sm.families.links.Probit())  # twice the data, so that freedom is left
    scores = solve_scores(wins.sum(axis=1), wins + wins.T, link="normal", regularisation=0).scores
    np.testing.assert_allclose(scores, peer - peer.mean(), atol=1e-6)
    for u, v in pairs:
        assert scores[u] - scores[v] == pytest.approx(ndtri(wins[u, v] / (wins[u, v] + wins[v, u])), abs=1e-7)


@pytest.mark.parametrize(("link", "cdf"), [("logistic", expit), ("normal", ndtr)])
def test_against_a_generic_root_finder(link, cdf):
    rng = np.random.default_rng(8)
    answers = np.triu(rng.integers(1, 20, (6, 6)), 1)
    answers = answers + answers.T
    wins = answers.sum(axis=1) / 2 + rng.normal(0, 8, 6)
    wins -= (wins.sum() - answers.sum() / 2) / 6

    def equations(theta):
        return (answers * cdf(theta[:, None] - theta[None, :])).sum(axis=1) + 0.8 * theta - wins

    root = optimize.root(equations, np.zeros(6), tol=1e-12)
    assert root.success
    scores = solve_scores(wins, answers, link=link, regularisation=0.4).scores
    np.testing.assert_allclose(scores, root.x, atol=1e-7)


@LINKS
def test_the_solution_minimises_the_loss(link):
    rng = np.random.default_rng(2)
    wins = random_wins(rng, 5)
    answers, total = wins + wins.T, wins.sum(axis=1)
    solution = solve_scores(total, answers, link=link, regularisation=0.2)

    def objective(theta):
        return matching_loss(theta, total, answers, link=link) + 0.2 * float(theta @ theta)

    least = objective(solution.scores)
    for _ in range(20):
        assert objective(solution.scores + rng.normal(0, 0.1, 5)) > least
    # its gradient at any point is expected wins less wins, by finite differences
    theta, h = rng.normal(0, 1, 5), 1e-5
    gradient = [(objective(theta + h * e) - objective(theta - h * e)) / (2 * h) for e in np.eye(5)]
    expected = expected_wins(theta, answers.tolist(), link.cdf) - total + 0.4 * theta
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    # and it is the sum over pairs of the losses of shares
    pairs = [(u, v) for u in range(5) for v in range(u + 1, 5)]
    direct = sum(answers[u, v] * link.loss(theta[u] - theta[v], wins[u, v] / answers[u, v]) for u, v in pairs)
    assert matching_loss(theta, total, answers, link=link) == pytest.approx(float(direct), rel=1e-10)


REALS = st.floats(-1e6, 1e6, allow_nan=False)


@settings(max_examples=60)
@given(st.data(), st.integers(2, 6), st.sampled_from([LOGISTIC, NORMAL, CAUCHY]), st.floats(1e-3, 10))
def test_any_real_wins_give_finite_scores(data, m, link, regularisation):
    wins = np.array(data.draw(st.lists(REALS, min_size=m, max_size=m)))
    answers = np.zeros((m, m))
    for u in range(m):
        for v in range(u + 1, m):
            answers[u, v] = answers[v, u] = data.draw(st.sampled_from([0, 0, 0.25, 1, 30]))
    solution = solve_scores(wins, answers, link=link, regularisation=regularisation)
    assert np.isfinite(solution.scores).all()
    assert solution.status in ("converged", "rounding")
    # scores of 10^8 are spaced by 10^-8, and so are differences between two of them
    assert solution.residual <= 1e-7 + 2e-14 * np.abs(solution.scores).max() * answers.sum()
    for k in range(solution.component_labels.max() + 1):
        inside = solution.component_labels == k
        assert abs(solution.scores[inside].sum()) <= 1e-9 * (1 + np.abs(solution.scores).max())


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(2, 8), st.sampled_from([0.0, 0.1, 3.0]), st.floats(-1e3, 1e3))
def test_permutations_and_shifts(seed, m, regularisation, shift):
    rng = np.random.default_rng(seed)
    wins = random_wins(rng, m)
    answers, total = wins + wins.T, wins.sum(axis=1)
    scores = solve_scores(total, answers, regularisation=regularisation).scores
    order = rng.permutation(m)
    moved = solve_scores(total[order], answers[np.ix_(order, order)], regularisation=regularisation).scores
    np.testing.assert_allclose(moved, scores[order], atol=1e-7)
    # a constant excess of wins says nothing about differences
    np.testing.assert_allclose(
        solve_scores(total + shift, answers, regularisation=regularisation).scores, scores, atol=1e-7
    )
    # swapping winners and losers swaps the signs
    swapped = solve_scores(answers.sum(axis=1) - total, answers, regularisation=regularisation).scores
    np.testing.assert_allclose(swapped, -scores, atol=1e-7)


@LINKS
@pytest.mark.parametrize("regularisation", [0.0, 1e-3, 2.0])
def test_sparse_path_equals_dense_path(link, regularisation):
    rng = np.random.default_rng(6)
    wins = random_wins(rng, 40) * (rng.random((40, 40)) < 0.3)
    wins = wins + np.eye(40, k=1, dtype=int) + np.eye(40, k=-1, dtype=int)  # joined, and never separated
    answers = wins + wins.T
    dense = solve_scores(wins.sum(axis=1), answers, link=link, regularisation=regularisation)
    for table in (sparse.csr_array(answers), sparse.coo_matrix(answers)):
        found = solve_scores(wins.sum(axis=1), table, link=link, regularisation=regularisation)
        assert found.status == dense.status == "converged"
        np.testing.assert_allclose(found.scores, dense.scores, atol=1e-7)
    one, other = (
        matching_loss(dense.scores, wins.sum(axis=1), t, link=link) for t in (answers, sparse.csr_array(answers))
    )
    assert one == pytest.approx(other, rel=1e-12)


def test_thousands_of_items():
    rng = np.random.default_rng(7)
    m, pairs = 5000, 40_000
    u, v = rng.integers(0, m, (2, pairs))
    u, v = u[u != v], v[u != v]
    truth = rng.normal(0, 1, m)
    won = rng.random(len(u)) < expit(truth[u] - truth[v])
    wins = np.bincount(np.where(won, u, v), minlength=m)
    answers = sparse.csr_array((np.ones(2 * len(u)), (np.r_[u, v], np.r_[v, u])), shape=(m, m))
    solution = solve_scores(wins, answers, regularisation=0.1)
    assert solution.status == "converged"
    assert solution.residual <= 1e-8
    assert np.corrcoef(solution.scores, truth)[0, 1] > 0.8


def test_dense_tables_of_many_items_take_the_sparse_path():
    m = 2001
    answers = np.zeros((m, m))
    ring = np.arange(m)
    answers[ring, (ring + 1) % m] = answers[(ring + 1) % m, ring] = 2.0
    wins = np.full(m, 2.0)
    wins[0], wins[1000] = 2.5, 1.5
    solution = solve_scores(wins, answers, regularisation=0.05)
    assert solution.status == "converged"
    assert solution.scores.argmax() == 0
    assert solution.scores.argmin() == 1000


def test_components_keep_their_excess_to_themselves():
    answers = np.zeros((5, 5))
    answers[0, 1] = answers[1, 0] = 10
    answers[2, 3] = answers[3, 2] = 10
    # the first pair's wins sum to 14, not 10; nobody met the last item, whose wins are noise alone
    solution = solve_scores([9, 5, 4, 6, 3.3], answers, regularisation=0)
    assert solution.component_labels.tolist() == [0, 0, 1, 1, 2]
    np.testing.assert_allclose(solution.scores[:2], np.array([1, -1]) * math.log(7 / 3) / 2, atol=1e-8)
    np.testing.assert_allclose(solution.scores[2:4], np.array([-1, 1]) * math.log(6 / 4) / 2, atol=1e-8)
    assert solution.scores[4] == 0


@LINKS
@pytest.mark.parametrize("table", [np.array, sparse.csr_array])
def test_no_fit_without_regularisation_is_said(link, table):
    chain = table([[0, 2, 2], [2, 0, 2], [2, 2, 0]])
    assert solve_scores([4, 2, 0], chain, link=link, regularisation=0).status == "separated"
    assert solve_scores([90, 2, -86], chain, link=link, regularisation=0).status == "separated"
    assert solve_scores([4, 1, 1], chain, link=link, regularisation=0).status == "separated"
    assert np.isfinite(solve_scores([90, 2, -86], chain, link=link, regularisation=0).scores).all()
    assert solve_scores([3.9, 1.1, 1], chain, link=link, regularisation=0).status == "converged"
    assert solve_scores([90, 2, -86], chain, link=link, regularisation=1e-3).status == "converged"


def test_lopsided_but_existing_fits():
    # 1 loss in 10^9 answers: far out, and still determined
    solution = solve_scores([1e9 - 1, 1], [[0, 1e9], [1e9, 0]], regularisation=0)
    assert solution.status == "converged"
    assert solution.scores[0] * 2 == pytest.approx(math.log(1e9 - 1), rel=1e-4)
    assert solution.residual <= 1e-8 * 1e3  # 10^-6 of the largest number of answers multiplies the tolerance


@pytest.mark.parametrize("scale", [1e-20, 1e30, 1e90])
def test_scores_do_not_depend_on_the_scale_of_counts(scale):
    wins = random_wins(np.random.default_rng(5), 4)
    answers, total = wins + wins.T, wins.sum(axis=1)
    tolerance = 1e-8 * min(scale, 1.0)
    found = solve_scores(total * scale, answers * scale, regularisation=0.1 * scale, tolerance=tolerance)
    assert found.status == "converged"
    np.testing.assert_allclose(found.scores, solve_scores(total, answers, regularisation=0.1).scores, atol=1e-7)


def test_limits_are_statuses():
    wins = random_wins(np.random.default_rng(1), 5)
    stopped = solve_scores(wins.sum(axis=1), wins + wins.T, regularisation=0, max_iterations=1)
    assert (stopped.status, stopped.iterations) == ("iterations", 1)
    assert stopped.residual > 1e-8
    strict = solve_scores(wins.sum(axis=1) + 0.1, wins + wins.T, regularisation=0, tolerance=1e-290)
    assert strict.status in ("rounding", "converged")
    assert strict.residual < 1e-12


def test_a_hessian_singular_to_rounding_is_lifted(monkeypatch):
    from psephos.scores import answers as module

    plain, refusals = module.linalg.cho_factor, iter([True, True])

    def refuse_twice(matrix, **options):
        if next(refusals, False):
            raise module.linalg.LinAlgError
        return plain(matrix, **options)

    monkeypatch.setattr(module.linalg, "cho_factor", refuse_twice)
    wins = random_wins(np.random.default_rng(1), 5)
    assert solve_scores(wins.sum(axis=1), wins + wins.T, regularisation=0).status == "converged"


def test_one_item_and_no_answers():
    assert solve_scores([5], [[0]], regularisation=0).scores.tolist() == [0]
    assert solve_scores([1, 2], [[0, 0], [0, 0]], regularisation=1).scores.tolist() == [0, 0]
    assert solve_scores([1, 2], sparse.csr_array((2, 2)), regularisation=1).scores.tolist() == [0, 0]


def test_default_regularisation():
    # two items, 7 to 3: within 1 % of ln(7/3)
    solution = solve_scores([7, 3], [[0, 10], [10, 0]], regularisation=default_regularisation(2, 10))
    assert 0.99 < (solution.scores[0] - solution.scores[1]) / math.log(7 / 3) < 1
    # 20 answers a pair among ten items, and 40 between two
    assert default_regularisation(10, 45 * 20) == pytest.approx(20 / 2 * 0.01 * math.sqrt(math.log(200) / 200))
    assert default_regularisation(2, 40) == pytest.approx(20 * 0.01 * math.sqrt(math.log(80) / 80))
    assert default_regularisation(2, 40, variance_factor=9) == pytest.approx(3 * default_regularisation(2, 40))
    assert default_regularisation(2, 40, constant=1) == pytest.approx(100 * default_regularisation(2, 40))
    assert 0 < default_regularisation(200, 3) < 1e-5  # fewer answers than items: the logarithm stays positive
    assert default_regularisation(1, 0) == 0
    for bad in ({"m": 0}, {"answers": -1}, {"variance_factor": 0.5}, {"constant": float("nan")}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            default_regularisation(**{"m": 2, "answers": 10.0, **bad})


GOOD = {"wins": [7, 3], "answers": [[0, 10], [10, 0]], "regularisation": 0.1}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"wins": [7]}, "one entry an item"),
        ({"wins": [[7, 3]]}, "wins"),
        ({"wins": [7, np.nan]}, "finite"),
        ({"wins": [7, np.inf]}, "finite"),
        ({"wins": ["7", "3"]}, "wins must be real"),
        ({"wins": [True, False]}, "wins must be real"),
        ({"wins": np.array([10**400, 3], dtype=object)}, "below 1e100"),
        ({"wins": np.array([None, 3], dtype=object)}, "finite"),
        ({"wins": np.array([[], 3], dtype=object)}, "real numbers"),
        ({"answers": [[0, 10, 1], [10, 0, 1]]}, "square"),
        ({"answers": [[0, 10], [9, 0]]}, "symmetric"),
        ({"answers": sparse.csr_array([[0, 10], [9, 0]])}, "symmetric"),
        ({"answers": [[0, -1], [-1, 0]]}, ">= 0"),
        ({"answers": [[1, 10], [10, 0]]}, "diagonal"),
        ({"answers": [[0, np.nan], [np.nan, 0]]}, "finite"),
        ({"answers": sparse.csr_array([[0, np.nan], [np.nan, 0]])}, "finite"),
        ({"answers": np.zeros((0, 0)), "wins": []}, "at least one item"),
        ({"regularisation": -1}, "regularisation"),
        ({"regularisation": np.nan}, "regularisation"),
        ({"tolerance": 0}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"link": "probit"}, "link"),
    ],
)
def test_refused(bad, message):
    arguments = {**GOOD, **bad}
    with pytest.raises(ParameterError, match=message):
        solve_scores(arguments.pop("wins"), arguments.pop("answers"), **arguments)


def test_m9_transitive_double_round_robin():
    # every item beats all later ones twice: no fit without regularisation, and with it the equations hold
    wins = 2 * np.triu(np.ones((6, 6)), 1)
    answers = wins + wins.T
    for regularisation in (1e-6, default_regularisation(6, 30), 1.0):
        solution = solve_scores(wins.sum(axis=1), answers, regularisation=regularisation)
        left = expected_wins(solution.scores, answers.tolist(), expit) + 2 * regularisation * solution.scores
        assert np.abs(left - wins.sum(axis=1)).max() < 1e-8
        assert (np.diff(solution.scores) < 0).all()


def test_m14_best_first():
    truth = np.array([0.0, 1.0, 2.0, 100.0])
    answers = 100.0 * (1 - np.eye(4))
    wins = (answers * expit(truth[:, None] - truth[None, :])).sum(axis=1)
    scores = solve_scores(wins, answers, regularisation=1e-6).scores
    assert np.argsort(-scores).tolist() == [3, 2, 1, 0]
    assert scores[1] - scores[0] == pytest.approx(1.0, abs=1e-4)


def test_m19_debiased_wins_outside_the_range():
    # randomised response at epsilon = 0.1: a share is 1/2 +- 10, three comparisons of three pairs
    r = math.tanh(0.05)
    answers = np.ones((3, 3)) - np.eye(3)
    share = np.array(
        [[0.5, 0.5 + 0.5 / r, 0.5 + 0.5 / r], [0.5 - 0.5 / r, 0.5, 0.5 + 0.5 / r], [0.5 - 0.5 / r] * 2 + [0.5]]
    )
    wins = (answers * share).sum(axis=1)
    assert wins.min() < 0
    for link in (LOGISTIC, NORMAL, CAUCHY):
        weight = default_regularisation(3, 3, variance_factor=1 / r**2)
        solution = solve_scores(wins, answers, link=link, regularisation=weight)
        assert solution.status == "converged"
        assert np.isfinite(solution.scores).all()
        assert np.argsort(-solution.scores).tolist() == [0, 1, 2]

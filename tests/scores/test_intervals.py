import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import sparse
from scipy.special import expit, ndtr, ndtri

from psephos.errors import ParameterError
from psephos.scores import (
    LOGISTIC,
    NORMAL,
    clustered_sampling,
    default_regularisation,
    difference_errors,
    independent_sampling,
    normal_intervals,
    score_covariance,
    score_errors,
    solve_scores,
)

TRUTH = np.array([-1.2, -0.4, 0.0, 0.6, 1.0])
UPPER = np.triu_indices(5, 1)
JOINED = np.zeros(5, dtype=np.intp)


def rows_of(wins):
    """One row of a regression an answer: design (without the first item) and outcome 1."""
    m = len(wins)
    rows = [(u, v) for u in range(m) for v in range(m) for _ in range(wins[u, v])]
    design = np.zeros((len(rows), m))
    for row, (u, v) in enumerate(rows):
        design[row, u], design[row, v] = (1, -1) if u < v else (-1, 1)
    return design, np.array([float(u < v) for u, v in rows]), rows


def random_wins(rng, m=5, most=12):
    wins = rng.integers(1, most, (m, m))
    np.fill_diagonal(wins, 0)
    return wins


def variances_of_differences_to_first(covariance):
    return np.diagonal(covariance)[1:] + covariance[0, 0] - 2 * covariance[0, 1:]


def test_independent_covariance_against_statsmodels():
    wins = random_wins(np.random.default_rng(1))
    design, outcome, _ = rows_of(wins)
    peer = sm.GLM(outcome, design[:, 1:], family=sm.families.Binomial()).fit(tol=1e-14)
    answers = wins + wins.T
    scores = solve_scores(wins.sum(axis=1), answers, regularisation=0).scores
    for table in (answers, sparse.csr_array(answers)):
        sampling = independent_sampling(scores, table)
        covariance = score_covariance(scores, table, wins_covariance=sampling, regularisation=0)
        np.testing.assert_allclose(variances_of_differences_to_first(covariance), peer.bse**2, rtol=1e-6)
        np.testing.assert_allclose(covariance.sum(axis=1), 0, atol=1e-12)


def test_agresti_baseball_1987():
    # Agresti (2002), section 10.6: the standard errors of the six differences to Baltimore are all about 0.3.
    wins = np.array(
        [
            [0, 7, 9, 7, 7, 9, 11],
            [6, 0, 7, 5, 11, 9, 9],
            [4, 6, 0, 7, 7, 8, 12],
            [6, 8, 6, 0, 6, 7, 10],
            [6, 2, 6, 7, 0, 7, 12],
            [4, 4, 5, 6, 6, 0, 6],
            [2, 4, 1, 3, 1, 7, 0],
        ]
    )
    answers = wins + wins.T
    scores = solve_scores(wins.sum(axis=1), answers, regularisation=0).scores
    sampling = independent_sampling(scores, answers)
    covariance = score_covariance(scores, answers, wins_covariance=sampling, regularisation=0)
    errors = difference_errors(covariance, np.zeros(7, dtype=np.intp))
    assert errors[6, :6].round(1).tolist() == [0.3] * 6


@pytest.mark.parametrize("table", [np.array, sparse.csr_array])
def test_clustered_covariance_against_statsmodels(table):
    rng = np.random.default_rng(2)
    wins = random_wins(rng)
    design, outcome, rows = rows_of(wins)
    person = rng.integers(0, 30, len(rows))
    model = sm.GLM(outcome, design[:, 1:], family=sm.families.Binomial())
    groups = {"groups": person, "use_correction": False}
    peer = model.fit(tol=1e-14, cov_type="cluster", cov_kwds=groups).cov_params()
    plain = model.fit(tol=1e-14).cov_params()
    answers = wins + wins.T
    scores = solve_scores(wins.sum(axis=1), answers, regularisation=0).scores
    residuals = np.zeros((30, 5))
    for row, (u, v) in enumerate(rows):
        surprise = 1 - expit(scores[u] - scores[v])
        residuals[person[row], u] += surprise
        residuals[person[row], v] -= surprise
    independent = independent_sampling(scores, answers)
    sampling = clustered_sampling(table(residuals), independent=independent)
    covariance = score_covariance(scores, answers, wins_covariance=sampling, regularisation=0)
    expected = np.diagonal(peer) + np.diagonal(plain) / 30  # and one more person who answers by the model
    np.testing.assert_allclose(variances_of_differences_to_first(covariance), expected, rtol=1e-6)
    # people of one mind may share a row
    doubled = clustered_sampling(table(residuals), independent=independent, counts=np.full(30, 2))
    twice = clustered_sampling(table(np.vstack([residuals, residuals])), independent=independent)
    np.testing.assert_allclose(doubled, twice, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("link", [LOGISTIC, NORMAL], ids=lambda link: link.name)
@pytest.mark.parametrize("regularisation", [0.0, 0.7])
def test_sandwich_by_the_pseudo_inverse(link, regularisation):
    rng = np.random.default_rng(3)
    wins = random_wins(rng)
    answers = (wins + wins.T).astype(float)
    answers[:3, 3:] = answers[3:, :3] = 0  # two components
    scores = np.concatenate([[0.3, -0.5, 0.2], [1.0, -1.0]])
    noise = rng.normal(size=(5, 5))
    noise = noise @ noise.T
    x = scores[:, None] - scores[None, :]
    weights = answers * link.density(x)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    projection = np.eye(5) - np.kron(np.diag([1, 0]), np.ones((5, 5)))[:5, :5] * 0
    projection[:3, :3] -= 1 / 3
    projection[3:, 3:] -= 1 / 2
    inverse = np.linalg.pinv(laplacian)
    pull = 2 * regularisation * inverse @ projection @ scores
    expected = inverse @ noise @ inverse + np.outer(pull, pull)
    for extra in (0.0, 5.0):  # what the wins' covariance says of their sum is ignored
        covariance = score_covariance(
            scores, answers, wins_covariance=noise + extra, regularisation=regularisation, link=link
        )
        np.testing.assert_allclose(covariance, expected, atol=1e-10)


def test_independent_sampling_is_the_covariance_of_wins():
    rng = np.random.default_rng(4)
    answers = np.array([[0, 8, 3], [8, 0, 5], [3, 5, 0]])
    scores = np.array([0.5, 0.0, -0.5])
    won = {(u, v): rng.binomial(answers[u, v], ndtr(scores[u] - scores[v]), 40_000) for u in range(3) for v in range(u)}
    wins = np.zeros((3, 40_000))
    for (u, v), count in won.items():
        wins[u] += count
        wins[v] += answers[u, v] - count
    expected = independent_sampling(scores, answers, link="normal")
    np.testing.assert_allclose(np.cov(wins), expected, atol=0.1)  # entries up to 3, standard error below 0.02


def test_intervals_by_hand():
    low, high = normal_intervals(1.0, 2.0, level=0.9)
    assert high == pytest.approx(1 + 2 * ndtri(0.95))
    assert low + high == pytest.approx(2)
    assert normal_intervals([0.0], [np.inf]).tolist() == [[-np.inf, np.inf]]
    for level in (0, 1, -0.1, 95, np.nan, None, "0.95"):
        with pytest.raises(ParameterError, match="level"):
            normal_intervals(0.0, 1.0, level=level)


def test_errors_across_components_are_infinite():
    labels = np.array([0, 0, 1, 1, 2])
    covariance = np.kron(np.eye(3), [[1.0, -1.0], [-1.0, 1.0]])[:5, :5]
    covariance[4, 4] = 0
    assert score_errors(covariance, labels).tolist() == [1, 1, 1, 1, np.inf]
    errors = difference_errors(covariance, labels)
    assert errors[0, 1] == errors[2, 3] == 2
    assert np.isinf(errors[:2, 2:]).all()
    assert np.isinf(errors[4, :4]).all()
    assert np.diagonal(errors).tolist() == [0] * 5
    assert score_errors(np.zeros((1, 1)), np.array([0])).tolist() == [0]


def fitted_errors(wins, answers, sampling_of, regularisation):
    scores = solve_scores(wins, answers, regularisation=regularisation).scores
    covariance = score_covariance(scores, answers, wins_covariance=sampling_of(scores), regularisation=regularisation)
    return scores, difference_errors(covariance, np.zeros(len(scores), dtype=np.intp))


def coverage(draw, repeats, truth=TRUTH):
    """Share of 95 % intervals of all differences that hold the truth; ``draw()`` gives scores and errors."""
    upper = np.triu_indices(len(truth), 1)
    differences = (truth[:, None] - truth[None, :])[upper]
    covered = 0.0
    for _ in range(repeats):
        scores, errors = draw()
        missed = np.abs((scores[:, None] - scores[None, :])[upper] - differences) > 1.959964 * errors[upper]
        covered += 1 - missed.mean()
    return covered / repeats


def independent_draw(rng, count, truth=TRUTH, noise_sd=0.0):
    m = len(truth)
    answers = count * (1.0 - np.eye(m))
    chance = expit(truth[:, None] - truth[None, :])
    penalty = default_regularisation(m, answers.sum() / 2)
    added = noise_sd**2 / 4 * (m * np.eye(m) - np.ones((m, m)))

    def draw():
        won = np.triu(rng.binomial(count, chance), 1).astype(float)
        won += np.triu(rng.normal(0, noise_sd / 2, (m, m)), 1)  # noise of that deviation on each margin
        wins = won.sum(axis=1) + np.tril(count - won.T, -1).sum(axis=1)
        return fitted_errors(wins, answers, lambda s: independent_sampling(s, answers) + added, penalty)

    return draw


def ballot_draw(rng, people, clustered, truth=TRUTH):
    """Complete ballots drawn by repeated choice (Plackett-Luce): each pair follows Bradley-Terry exactly."""
    m = len(truth)
    answers = people * (1.0 - np.eye(m))
    penalty = default_regularisation(m, answers.sum() / 2)

    def draw():
        keys = truth + rng.gumbel(size=(people, m))
        ballot_wins = keys.argsort(axis=1).argsort(axis=1)

        def sampling(scores):
            independent = independent_sampling(scores, answers)
            if not clustered:
                return independent
            expected = expit(scores[:, None] - scores[None, :]).sum(axis=1) - 0.5
            return clustered_sampling(ballot_wins - expected, independent=independent)

        return fitted_errors(ballot_wins.sum(axis=0), answers, sampling, penalty)

    return draw


# The share of covered pairs varies by at most sqrt(.95 * .05) from one repeat to the next: over 400 repeats its
# standard deviation is .011 at most, and nominal intervals miss by 5 of these, .055, with chance 6e-7. Normal
# intervals of 60 answers or 100 people lack up to .005. What must be told from this covers .88 or less.
TOLERANCE = 0.06


def test_coverage_of_independent_answers():
    assert abs(coverage(independent_draw(np.random.default_rng(1), 60), 400) - 0.95) < TOLERANCE


def test_coverage_with_known_noise():
    # noise three times as wide as the sampling: forgetting it covers a half or less
    draw = independent_draw(np.random.default_rng(2), 100, noise_sd=30.0)
    assert abs(coverage(draw, 400) - 0.95) < TOLERANCE


def test_clustering_covers_dependent_ballots_and_independence_does_not():
    assert abs(coverage(ballot_draw(np.random.default_rng(3), 100, True), 400) - 0.95) < TOLERANCE
    assert coverage(ballot_draw(np.random.default_rng(3), 100, False), 200) < 0.88


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 4, 10])
@pytest.mark.parametrize("size", [40, 400])
@pytest.mark.parametrize("kind", ["independent", "noisy", "ballots"])
def test_coverage_on_a_grid(m, size, kind):
    # 2000 repeats: standard deviation .0049 at most, 5 of them .025; small samples may lack another .01
    rng = np.random.default_rng([m, size])
    truth = np.linspace(-1, 1, m)
    if kind == "ballots":
        draw = ballot_draw(rng, size, True, truth)
    else:
        draw = independent_draw(rng, size, truth, noise_sd=0.0 if kind == "independent" else math.sqrt(size))
    assert -0.035 < coverage(draw, 2000, truth) - 0.95 < 0.025


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: independent_sampling([0, 0, 0], [[0, 1], [1, 0]]), "one entry an item"),
        (lambda: independent_sampling([0, np.nan], [[0, 1], [1, 0]]), "finite"),
        (lambda: clustered_sampling(np.zeros((0, 2)), independent=np.zeros((2, 2))), "at least one person"),
        (lambda: clustered_sampling([[0, 0]], independent=np.zeros((3, 3))), "fit together"),
        (lambda: clustered_sampling([[0, 0]], independent=np.zeros((2, 2)), counts=[0]), "counts must be > 0"),
        (lambda: clustered_sampling([[0, 0]], independent=np.zeros((2, 2)), counts=[1, 2]), "fit together"),
        (lambda: score_covariance([0, 0], [[0, 1], [1, 0]], wins_covariance=[[1]], regularisation=0), "shape"),
        (
            lambda: score_covariance([0, 0], [[0, 1], [1, 0]], wins_covariance=np.eye(2), regularisation=-1),
            "regularisation",
        ),
        (
            lambda: score_covariance([900, -900], [[0, 1], [1, 0]], wins_covariance=np.eye(2), regularisation=0),
            "no information",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_curvatures_beyond_doubles_stay_finite():
    answers = 1e6 * (1 - np.eye(3))
    scores = np.array([600.0, -300.0, -300.5])
    covariance = score_covariance(
        scores, answers, wins_covariance=independent_sampling(scores, answers), regularisation=1e-12
    )
    assert np.isfinite(covariance).all()
    assert covariance[1, 1] + covariance[2, 2] - 2 * covariance[1, 2] == pytest.approx(4e-6, rel=0.1)


def test_m19_debiased_wins_have_huge_intervals():
    # three comparisons by randomised response at epsilon = 0.1: a share has noise variance (1/r^2 - 1)/4 = 100
    r = math.tanh(0.05)
    variance = (1 / r**2 - 1) / 4
    answers = np.ones((3, 3)) - np.eye(3)
    wins = np.array([2 + 1 / r, 1.0, -1 / r]) / 1.0
    penalty = default_regularisation(3, 3, variance_factor=1 / r**2)
    scores = solve_scores(wins, answers, regularisation=penalty).scores
    noise = variance * (3 * np.eye(3) - np.ones((3, 3)))
    covariance = score_covariance(
        scores, answers, wins_covariance=independent_sampling(scores, answers) + noise, regularisation=penalty
    )
    errors = score_errors(covariance, np.zeros(3, dtype=np.intp))
    assert np.isfinite(covariance).all()
    assert errors.min() > 5


def test_regularisation_does_not_make_weakly_joined_items_look_certain():
    """Two pairs of items with thousands of answers, joined by a few: errors are those of the few, not of lambda."""
    n = np.zeros((4, 4))
    n[0, 1] = n[1, 0] = n[2, 3] = n[3, 2] = 5000.0
    n[0, 2] = n[2, 0] = 8.0
    scores = np.array([0.5, 0.5, -0.5, -0.5])
    spread = independent_sampling(scores, n)
    errors = [
        difference_errors(score_covariance(scores, n, wins_covariance=spread, regularisation=penalty), np.zeros(4, int))
        for penalty in (0.0, 10.0)
    ]
    assert errors[1][0, 2] > errors[0][0, 2] > 0.7
    assert errors[1][0, 1] == pytest.approx(errors[0][0, 1], rel=0.05)


def test_errors_are_huge_and_finite_where_odds_have_no_end():
    n = np.array([[0.0, 60, 60], [60, 0, 60], [60, 60, 0]])
    scores = np.array([300.0, 0.1, -0.1])
    noise = independent_sampling(np.zeros(3), n)
    covariance = score_covariance(scores - scores.mean(), n, wins_covariance=noise, regularisation=1e-3)
    errors = difference_errors(covariance, np.zeros(3, int))
    assert 1e4 < errors[0, 1] < 1e9
    # (y_1 - y_2) / 2 of variance 90 / 4 over a curvature of 15: not drowned by the others.
    assert errors[1, 2] == pytest.approx(np.sqrt(90 / 4) / 15, rel=0.02)

"""A field of noisy gradients: what is known of it is the normal law it should be, and draws are its lowest places."""

import dataclasses
import io
import json
import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from laws import FALSE_ALARM
from psephos.bootstrap import FieldPosterior, field_posterior
from psephos.bootstrap import gradient_field as gf
from psephos.bootstrap.gradient_field import Measurements, fitted_fields, lowest_places
from psephos.errors import ParameterError
from psephos.privacy.guarantee import Guarantee

DIMENSIONS = (1, 2, 3, 7)


def potential(basis, coefficients, v):
    """b'v + v'Q v / 2 + sum_k w_k a cos(omega_k'v + phase_k), one term after another."""
    r = len(v)
    total = sum(coefficients[i] * v[i] for i in range(r))
    entries = iter(coefficients[r:])
    for i in range(r):
        for j in range(i, r):
            total += next(entries) * v[i] * v[j] * (0.5 if i == j else 1.0)
    amplitude = math.sqrt(2 / len(basis.phases)) * basis.length**2
    for weight, frequency, phase in zip(entries, basis.frequencies, basis.phases, strict=True):
        total += weight * amplitude * math.cos(sum(f * x for f, x in zip(frequency, v, strict=True)) + phase)
    return total


def slope_at(function, v, step=1e-5):
    return np.array([(function(v + h) - function(v - h)) / (2 * step) for h in step * np.eye(len(v))])


def functions(r):
    return r + r * (r + 1) // 2 + len(gf._Basis.of(r, 1.0).phases)


def measurements(r, *, seed=1, points=6, bends=3, blur=0.0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(bends, r, r))
    return Measurements(
        points=rng.normal(size=(points, r)),
        slopes=rng.normal(size=(points, r)),
        slope_sds=rng.uniform(0.05, 0.5, points),
        bend_points=rng.normal(size=(bends, r)),
        bends=np.eye(r) + 0.1 * (rows + np.swapaxes(rows, 1, 2)),
        bend_sds=rng.uniform(0.1, 0.5, bends),
        blur=blur,
        middle=1.2 * np.eye(r) + 0.1,
        spread=0.7,
    )


# --- the functions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0.35, 3.0])
@pytest.mark.parametrize("r", DIMENSIONS)
def test_gradients_and_hessians_are_those_of_the_potential(r, length):
    basis, rng = gf._Basis.of(r, length), np.random.default_rng(r)
    coefficients, points = rng.normal(size=functions(r)), rng.normal(size=(2, r))
    above = np.triu_indices(r)
    for v, gradients, hessians in zip(points, basis.gradients(points), basis.hessians(points), strict=True):
        slope = slope_at(lambda u: potential(basis, coefficients, u), v)
        np.testing.assert_allclose(gradients @ coefficients, slope, rtol=1e-6, atol=1e-7)
        bend = slope_at(lambda u: basis.gradients(u[None])[0] @ coefficients, v)
        np.testing.assert_allclose(hessians @ coefficients, bend[above], rtol=1e-6, atol=1e-7)


# --- what is known ----------------------------------------------------------------------------------------------------


def regression(measured, basis):
    """Design, observations, their variances, and the prior's mean and variances, entry by entry."""
    r = basis.r
    rows, values, variances = [], [], []
    for gradients, slope, sd in zip(basis.gradients(measured.points), measured.slopes, measured.slope_sds, strict=True):
        rows += list(gradients)
        values += list(slope)
        variances += [sd**2] * r
    pairs = [(i, j) for i in range(r) for j in range(i, r)]
    for hessians, bend, sd in zip(basis.hessians(measured.bend_points), measured.bends, measured.bend_sds, strict=True):
        blurred = measured.blur / basis.length**2 * np.mean(np.diag(bend))
        rows += list(hessians)
        values += [bend[i, j] for i, j in pairs]
        variances += [(sd**2 + blurred**2) * (1.0 if i == j else 0.5) for i, j in pairs]
    waves = len(basis.phases)
    centre = [0.0] * r + [measured.middle[i, j] for i, j in pairs] + [0.0] * waves
    prior = [1e6] * r + [measured.spread**2] * len(pairs) + [0.25] * waves
    return tuple(np.array(part) for part in (rows, values, variances, centre, prior))


class Unit:
    """In place of random numbers: what shows a factor of the covariance."""

    def standard_normal(self, shape):
        return np.eye(*shape)


@pytest.mark.parametrize("blur", [0.0, 0.3])
@pytest.mark.parametrize("r", [1, 2, 3])
def test_a_fit_is_the_normal_law_of_a_linear_regression(r, blur):
    measured = measurements(r, blur=blur)
    for length in (0.35, 1.5):
        basis = gf._Basis.of(r, length)
        design, values, variances, centre, prior = regression(measured, basis)
        inverse = np.linalg.inv(design.T @ (design / variances[:, None]) + np.diag(1 / prior))
        mean = inverse @ (design.T @ (values / variances) + centre / prior)
        fit = gf._fitted(measured, basis)
        np.testing.assert_allclose(fit.mean, mean, rtol=1e-6, atol=1e-8)
        away = fit.coefficients(len(mean), Unit()) - fit.mean
        np.testing.assert_allclose(away.T @ away, inverse, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("blur", [0.0, 0.3])
@pytest.mark.parametrize("r", [1, 2])
def test_lengths_weigh_as_likely_as_they_make_what_was_measured(r, blur):
    measured = measurements(r, points=4, bends=2, blur=blur)
    fits, weights = fitted_fields(measured)
    logs = []
    for fit in fits:
        design, values, variances, centre, prior = regression(measured, fit.basis)
        covariance = np.diag(variances) + (design * prior) @ design.T
        logs.append(stats.multivariate_normal.logpdf(values, design @ centre, covariance))
    evidence = np.array([fit.evidence for fit in fits])
    np.testing.assert_allclose(evidence - evidence[0], np.array(logs) - logs[0], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(weights, special.softmax(logs), rtol=1e-3)
    assert weights.sum() == pytest.approx(1)
    assert max(weights) - min(weights) > 0.05  # they are told apart


def test_more_gradients_are_joined_to_those_there_are():
    measured, more = measurements(2), measurements(2, seed=2)
    both = measured.joined(more.points, more.slopes, more.slope_sds)
    for name in ("points", "slopes", "slope_sds"):
        assert (getattr(both, name) == np.concatenate([getattr(measured, name), getattr(more, name)])).all()
    for name in ("bend_points", "bends", "bend_sds", "blur", "middle", "spread"):
        assert getattr(both, name) is getattr(measured, name)


def test_a_field_is_learnt_from_its_gradients_and_not_beyond_them():
    """log cosh, whose curvature falls to 0: between the places the fit is right, far away it says it does not know."""
    points = np.linspace(-2, 2, 15)[:, None]
    measured = Measurements(
        points=points, slopes=np.tanh(points), slope_sds=np.full(15, 0.01), bend_points=np.zeros((1, 1)),
        bends=np.ones((1, 1, 1)), bend_sds=np.array([0.1]), blur=0.0, middle=np.ones((1, 1)), spread=3.0,
    )  # fmt: skip
    fits, weights = fitted_fields(measured)
    fit = fits[int(np.argmax(weights))]
    between = np.linspace(-1.9, 1.9, 40)[:, None]
    draws = fit.coefficients(300, np.random.default_rng(1)) @ fit.basis.gradients(between)[:, 0].T
    assert np.abs(draws.mean(axis=0) - np.tanh(between[:, 0])).max() < 0.02
    assert draws.std(axis=0).max() < 0.02
    far = fit.coefficients(300, np.random.default_rng(1)) @ fit.basis.gradients(np.array([[6.0]]))[:, 0].T
    assert far.std() > 0.5


# --- lowest places ----------------------------------------------------------------------------------------------------


def convex(r, rng):
    """Coefficients that bend by 1 at least, cosines and all."""
    fit = gf._fitted(measurements(r), gf._Basis.of(r, 1.0))
    rows = rng.normal(size=(r, r))
    square = 3.0 * np.eye(r) + rows @ rows.T / r
    waves = 0.3 * rng.normal(size=len(fit.basis.phases))
    coefficients = np.concatenate([rng.normal(size=r), square[np.triu_indices(r)], waves])
    points = rng.normal(size=(200, r))
    bends = np.zeros((200, r, r))
    bends[:, *np.triu_indices(r)] = fit.basis.hessians(points) @ coefficients
    assert np.linalg.eigvalsh(bends, UPLO="U").min() > 0.5
    return fit, coefficients


@pytest.mark.parametrize("r", [1, 2, 3])
def test_lowest_places_are_those_of_another_solver(r):
    rng = np.random.default_rng(r)
    fit, coefficients = convex(r, rng)
    tilts, starts = rng.normal(size=(3, r)), 2 * rng.normal(size=(3, r))
    found, edge, hollow = lowest_places(
        fit, np.tile(coefficients, (3, 1)), tilts, starts, centre=0.1 * np.ones(r), radius=4.0
    )
    assert not edge.any()
    assert not hollow.any()
    for place, tilt in zip(found, tilts, strict=True):
        best = optimize.minimize(
            lambda v, tilt=tilt: potential(fit.basis, coefficients, v) + tilt @ v, np.zeros(r), tol=1e-8
        )
        np.testing.assert_allclose(place, best.x, atol=1e-4)


def test_each_problem_has_its_own_field_and_start():
    rng = np.random.default_rng(4)
    fit, coefficients = convex(2, rng)
    others = np.stack([coefficients, coefficients * 1.5, coefficients + 0.1])
    tilts, starts = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    ball = {"centre": np.zeros(2), "radius": 5.0}
    together, *_ = lowest_places(fit, others, tilts, starts, **ball)
    for i in range(3):
        alone, *_ = lowest_places(fit, others[i : i + 1], tilts[i : i + 1], starts[i : i + 1], **ball)
        np.testing.assert_allclose(alone[0], together[i], atol=1e-10)
    assert np.ptp(together, axis=0).min() > 0.01


@pytest.mark.parametrize("r", [1, 3])
def test_a_lowest_place_outside_the_ball_is_at_its_edge_and_said_to_be(r):
    basis = gf._Basis.of(r, 1.0)
    fit = gf._fitted(measurements(r), basis)
    coefficients = np.zeros((3, functions(r)))
    coefficients[:, [r + k for k, (i, j) in enumerate(zip(*np.triu_indices(r), strict=True)) if i == j]] = 1.0
    centre, way = np.full(r, 0.5), np.ones(r) / math.sqrt(r)
    tilts = -np.stack([centre + 0.9 * way, centre + 1.1 * way, centre - 50 * way])  # the lowest place is -tilt
    found, edge, hollow = lowest_places(fit, coefficients, tilts, np.tile(centre, (3, 1)), centre=centre, radius=1.0)
    assert edge.tolist() == [False, True, True]
    assert not hollow.any()
    np.testing.assert_allclose(found, np.stack([centre + 0.9 * way, centre + way, centre - way]), atol=1e-6)


def test_where_nothing_bends_or_all_bends_down_places_are_finite_and_in_the_ball():
    fit = gf._fitted(measurements(2), gf._Basis.of(2, 1.0))
    coefficients = np.zeros((3, functions(2)))
    coefficients[1, [2, 4]] = -5.0
    coefficients[2, [2, 4]] = 1e-12
    tilts = np.array([[0.0, 0.0], [1.0, 0.0], [1e100, -1e100]])
    found, edge, hollow = lowest_places(fit, coefficients, tilts, np.zeros((3, 2)), centre=np.zeros(2), radius=2.0)
    assert (np.linalg.norm(found, axis=1) <= 2 * (1 + 1e-12)).all()
    assert edge.tolist() == [False, True, True]
    assert hollow.tolist()[:2] == [False, True]


@pytest.fixture
def one_cosine():
    """psi = -cos v: it bends down from pi / 2 on."""
    basis = dataclasses.replace(gf._Basis.of(1, 1.0), frequencies=np.ones((60, 1)), phases=np.full(60, math.pi))
    coefficients = np.zeros((1, 62))
    coefficients[:, 2] = 1 / basis.amplitude
    return dataclasses.replace(gf._fitted(measurements(1), gf._Basis.of(1, 1.0)), basis=basis), coefficients


@pytest.mark.parametrize(
    ("square", "tilt", "start", "radius", "place", "beyond", "hollow"),
    [
        (0.0, -0.9, 0.0, 2.0, math.asin(0.9), False, False),
        (0.0, -2.0, 0.0, 2.0, 2.0, True, True),
        (0.0, 2.0, 0.0, 2.0, -2.0, True, True),
        (0.0, -2.0, 0.0, 1.5, 1.5, True, False),
        (0.0, 0.0, 6.0, 9.0, 2 * math.pi, False, False),  # lowest again, behind a hill: no edge
        (3.0, -30.0, 0.0, 2.0, 2.0, True, False),  # a square makes up for it
    ],
)
def test_a_field_that_bends_down_on_the_way_to_the_edge_is_said_to(
    one_cosine, square, tilt, start, radius, place, beyond, hollow
):
    fit, coefficients = one_cosine
    coefficients[0, 1] = square
    found, edge, down = lowest_places(
        fit, coefficients, np.array([[tilt]]), np.array([[start]]), centre=np.zeros(1), radius=radius
    )
    assert found[0, 0] == pytest.approx(place, abs=1e-4)
    assert (edge.tolist(), down.tolist()) == ([beyond], [hollow])


# --- the posterior ----------------------------------------------------------------------------------------------------

SCALE = 4.0  # of the field in the parameter
PEOPLE = 5000


def posterior(*, r=2, levels=None, knots=(0.0,), slope_sd=0.001, **changed):
    """Of gradients that are v, measured on a grid: a quadratic field, its lowest place at 0."""
    rng = np.random.default_rng(1)
    points, count = rng.uniform(-1, 1, (20, r)), len(knots)
    parts = {
        "names": tuple("abcdefg"[:r]),
        "lower": (-100.0,) * r,
        "upper": (100.0,) * r,
        "levels": levels,
        "knots": knots,
        "people": PEOPLE,
        "unit": 0.5,
        "frame": SCALE * np.eye(r),
        "hidden": np.zeros((r, 0)),
        "cross": np.zeros((count, r, 0)),
        "centre": np.full(r, 3.0),
        "measured": Measurements(
            points=points, slopes=points.copy(), slope_sds=np.full(20, slope_sd), bend_points=np.zeros((1, r)),
            bends=np.eye(r)[None], bend_sds=np.array([0.01]), blur=0.0, middle=np.eye(r), spread=0.01,
        ),
        "places": np.zeros((count, r)),
        "radii": np.full(count, 1.5),
        "scores": bridge(knots, knots) / 0.25 if levels else 2.0 * np.eye(r),
        "scores_sd": 0.0,
        "scores_bound": 100.0,
        "tilt": np.zeros(r),
        "tilt_sd": 0.0,
        "guarantee": Guarantee(epsilon=1, delta=0),
        "secure": True,
    }  # fmt: skip
    return FieldPosterior(**(parts | changed))


def family(**changed):
    return posterior(**({"levels": (0.2, 0.4, 0.9), "knots": (0.2, 0.5, 0.9)} | changed))


def with_one_hidden():
    return family(hidden=np.array([[1.0], [0.5]]), cross=np.zeros((3, 2, 1)))


def bridge(one, other):
    """The covariance of a Brownian bridge."""
    s, t = np.array(one)[:, None], np.array(other)
    return np.minimum(s, t) - s * t


def variance_is(values, variance):
    """Whether normal numbers of mean 0 have it: chi-square on both sides, false alarm FALSE_ALARM."""
    law = stats.chi2(values.size)
    statistic = float((values**2).sum() / variance)
    return min(law.cdf(statistic), law.sf(statistic)) > FALSE_ALARM / 2


def test_draws_of_a_quadratic_field_have_the_sandwich_s_covariance():
    """Frame V frame' / n, and of the noise of twenty gradients what a regression with a known slope leaves of it."""
    rng = np.random.default_rng(2)
    scores = np.array([[2.0, 0.6], [0.6, 0.5]])
    steps = (posterior(scores=scores).sample(4000, rng=rng).values - 3.0) / SCALE
    np.testing.assert_allclose(np.cov(steps.T) * PEOPLE, scores, rtol=0.08, atol=0.05)
    assert np.abs(steps.mean(axis=0)).max() < 0.002
    noisy = (posterior(scores=scores, slope_sd=0.05).sample(4000, rng=rng).values - 3.0) / SCALE
    more = np.diag(np.cov(noisy.T)) - np.diag(scores) / PEOPLE
    assert (more > 0.8 * 0.05**2 / 20).all()
    assert (more < 8 * 0.05**2 / 20).all()  # some of it goes to the cosines


def test_noise_on_the_scores_is_put_back():
    rng = np.random.default_rng(3)
    noisy = posterior(scores=np.zeros((2, 2)), scores_sd=1.0).sample(1000, rng=rng).values
    quiet = posterior(scores=np.zeros((2, 2))).sample(1000, rng=rng).values
    assert noisy.std() > 5 * quiet.std()


@pytest.mark.parametrize("known", [0.5, 3.0])
def test_a_level_has_its_tilt(known):
    """Gradients are v there, so the lowest place at tau is (tau - 1/2) times the mean covariates."""
    tilt = np.array([0.3, -0.2]) * known
    draws = family(tilt=tilt).sample(1000, rng=np.random.default_rng(4)).values
    expected = 3.0 + SCALE * (np.array([0.2, 0.4, 0.9]) - 0.5)[:, None] * tilt
    np.testing.assert_allclose(draws.mean(axis=1), expected, atol=0.01)
    wide = family(tilt=tilt, tilt_sd=0.1).sample(1000, rng=np.random.default_rng(4)).values
    np.testing.assert_allclose(wide[2].std(axis=0), SCALE * 0.4 * 0.1, rtol=0.1)
    np.testing.assert_allclose(
        np.corrcoef(wide[0, :, 0], wide[2, :, 0])[0, 1], -1.0, atol=0.15
    )  # one mean of covariates at all levels


def test_bridges_are_zero_at_knots_and_brownian_between():
    p, size = family(r=1, names=("a",)), 40_000
    levels = (0.2, 0.25, 0.35, 0.5, 0.7, 0.9)
    paths = p._bridges(size, levels, np.random.default_rng(5))
    assert paths.shape == (6, size, 1)
    np.testing.assert_allclose(paths[[0, 3, 5]], 0, atol=1e-12)
    a, b = 0.2, 0.5
    for i, t in ((1, 0.25), (2, 0.35)):
        assert variance_is(paths[i], (t - a) * (b - t) / (b - a))
        assert not variance_is(paths[i], 1.1 * (t - a) * (b - t) / (b - a))
    assert variance_is(paths[4], 0.2 * 0.2 / 0.4)
    together, apart = (np.mean(paths[1] * paths[i]) for i in (2, 4))
    assert together == pytest.approx((0.25 - a) * (b - 0.35) / (b - a), rel=0.05)
    assert abs(apart) < 6 * 0.2 * 0.32 / math.sqrt(size)


def test_scores_at_any_levels_have_the_law_of_the_whole_process():
    """Between knots too, if they have it at the knots: E xi(s) xi(t) = (min(s, t) - s t) / n in units of the field."""
    levels, size = (0.2, 0.3, 0.45, 0.5, 0.8, 0.9), 20_000
    xi = family()._tilts(size, levels, np.random.default_rng(6))
    assert xi.shape == (6, size, 2)
    for coordinate in range(2):
        found = xi[..., coordinate] @ xi[..., coordinate].T / size * PEOPLE * 0.5**2
        np.testing.assert_allclose(found, bridge(levels, levels), atol=0.012)
    assert np.abs((xi[..., 0] * xi[..., 1]).mean(axis=1)).max() * PEOPLE * 0.5**2 < 0.012


def test_a_draw_is_one_process_at_all_levels():
    draws = family(slope_sd=0.1, tilt=np.array([0.1, 0.1])).sample(
        600, levels=(0.5, 0.5001, 0.9), rng=np.random.default_rng(7)
    )
    assert draws.values.shape == (3, 600, 2)
    assert draws.levels == (0.5, 0.5001, 0.9)
    for coordinate in range(2):
        correlation = np.corrcoef(draws.values[..., coordinate])
        assert correlation[0, 1] > 0.98
        assert correlation[0, 2] > 0.3  # by the field, and a bridge's part


def test_the_first_draws_are_like_the_others():
    """Draws are not in the order of the fits that they come from."""
    p = dataclasses.replace(posterior(r=1, slope_sd=0.3), measured=measurements(1))
    values = p.sample(2000, rng=np.random.default_rng(8)).values[:, 0]
    assert stats.ks_2samp(values[:1000], values[1000:]).pvalue > 1e-3
    same = (p.sample(20, rng=np.random.default_rng(9)).values for _ in range(2))
    assert np.array_equal(*same)


def test_draws_are_in_the_box_and_go_to_its_end_where_nothing_was_measured():
    away = posterior(r=1, lower=(2.0,), upper=(60.0,), radii=np.array([0.5]))
    measured = dataclasses.replace(away.measured, slopes=away.measured.slopes * 0 - 1.0)  # downhill for ever
    draws = dataclasses.replace(away, measured=measured).sample(500, rng=np.random.default_rng(10)).values
    assert ((draws >= 2) & (draws <= 60)).all()
    assert draws.min() < 12  # the edge of the ball is at 5
    assert np.quantile(draws, 0.9) > 45
    assert (dataclasses.replace(away, measured=measured).hardly_known(), away.hardly_known()) == (("a",), ())
    inside = posterior(lower=(2.99, 2.99), upper=(3.01, 3.01)).sample(300).values
    assert inside.min() == 2.99
    assert inside.max() == 3.01


def test_no_field_that_bends_down_to_the_edge_is_drawn_where_these_are_few(monkeypatch):
    """Losses are convex. Where many draws leave what was measured, they stay."""
    p = posterior(r=1, radii=np.array([0.5]))
    weak = dataclasses.replace(p.measured, slope_sds=np.full(20, 1.0), bend_sds=np.array([2.0]), spread=1.0)
    unsure = dataclasses.replace(p, measured=weak)
    found = {}
    for few in (1.0, 0.0):
        monkeypatch.setattr(field_posterior, "_FEW", few)
        draws = [q.found(2000, (0.0,), np.random.default_rng(11)) for q in (unsure, p)]
        found[few] = [(one.places, one.beyond) for one in draws]
    ((given, there), (known, _)), ((free, beyond), (known_free, _)) = found[1.0], found[0.0]
    kept = (given == free).all(axis=2)[0]
    assert 0.02 < 1 - kept.mean() < 0.2
    assert beyond[0, ~kept].all()
    assert set(given.ravel()) == set(free[:, kept].ravel())  # others take their place
    assert there.mean() < 0.8 * beyond.mean()
    assert np.array_equal(known, known_free)


def test_along_a_hidden_direction_a_draw_is_anywhere_and_the_others_go_with_it():
    """The third coordinate is in no gradient, and the curvature beside it pulls the first down by .2 for each 1."""
    p = posterior(
        names=("a", "b", "c"), lower=(-100.0,) * 3, upper=(100.0,) * 3, frame=SCALE * np.eye(3, 2),
        centre=np.full(3, 3.0), hidden=SCALE * np.eye(3)[:, 2:], cross=np.array([[[0.2], [0.0]]]),
    )  # fmt: skip
    still = posterior().sample(4000, rng=np.random.default_rng(13)).values
    draws = p.sample(4000, rng=np.random.default_rng(13)).values
    low, high = np.quantile(draws[:, 2], [0.025, 0.975])
    assert (low, high) == (-100, 100)
    away = draws[:, 2] - 3
    assert abs(np.polyfit(away, draws[:, 0], 1)[0] + 0.2) < 0.01
    assert abs(np.polyfit(away, draws[:, 1], 1)[0]) < 0.01
    kept = draws[:, 0] + 0.2 * away
    assert kept.mean() == pytest.approx(still[:, 0].mean(), abs=0.05)
    assert p.hidden_directions().shape == (3, 1)


def test_a_direction_whose_curvature_is_not_clear_of_noise_is_hidden_and_the_others_are_not():
    """Gradients of the first coordinate alone, and noise of .05 on the second's, which is flat."""
    p = posterior(lower=(-100.0, -100.0), upper=(100.0, 100.0), slope_sd=0.05)
    flat = p.measured.slopes * [1.0, 0.0] + np.random.default_rng(2).normal(0, 0.05, p.measured.slopes.shape)
    bends = np.diag([1.0, 0.02])[None]
    measured = dataclasses.replace(
        p.measured, slopes=flat, bends=bends, bend_sds=np.array([0.05]), middle=bends[0], spread=3.0
    )
    draws = dataclasses.replace(p, measured=measured).sample(2000, rng=np.random.default_rng(14)).values
    ends = np.quantile(draws, [0.025, 0.975], axis=0)
    assert (ends[:, 1] == [-100, 100]).all()
    assert np.diff(ends[:, 0]) < 40  # of 200; a ball of 1.5 lengths of 2 was measured


def test_where_no_field_is_like_what_was_released_nothing_is_known():
    """Gradients that jump by a thousand standard deviations from place to place."""
    p = posterior(r=1, lower=(-40.0,), upper=(60.0,))
    jumps = 30.0 * (-1.0) ** np.arange(20)[:, None]
    wild = dataclasses.replace(p, measured=dataclasses.replace(p.measured, slopes=jumps, slope_sds=np.full(20, 0.03)))
    assert not any(fit.fits for fit in fitted_fields(wild.measured)[0])
    assert all(fit.fits for fit in fitted_fields(p.measured)[0])
    draws = wild.sample(500, rng=np.random.default_rng(12)).values
    assert np.quantile(draws, 0.1) < -20
    assert np.quantile(draws, 0.9) > 40
    assert (wild.hardly_known(), p.hardly_known()) == (("a",), ())


def test_any_one_level_of_a_family_or_one_knot_is_enough():
    assert family().sample(5, levels=[0.9]).values.shape == (1, 5, 2)
    single = posterior(levels=(0.3,), knots=(0.3,))
    assert single.sample(5).values.shape == (1, 5, 2)
    assert single.sample(1).levels == (0.3,)
    with pytest.raises(ParameterError, match="levels"):
        single.sample(5, levels=(0.3, 0.31))


@pytest.mark.parametrize("levels", [(), (0.1,), (0.5, 0.91), (0.5, 0.5), (0.6, 0.5), (math.nan,), (0.5, math.nan)])
def test_levels_that_were_not_asked_for_are_refused(levels):
    with pytest.raises(ParameterError, match="levels must be increasing and within"):
        family().sample(5, levels=levels)


def test_a_single_rule_has_no_levels():
    assert posterior().sample(5).levels is None
    assert posterior().sample(5).values.shape == (5, 2)
    for levels in ((0.5,), (0.0,), ()):
        with pytest.raises(ParameterError, match="not indexed by levels"):
            posterior().sample(5, levels=levels)
    for draws in (0, -1, 2.5, True):
        with pytest.raises(ParameterError, match="draws"):
            posterior().sample(draws)


# --- a posterior as a file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [posterior(), family(), with_one_hidden(), posterior(r=1, tilt_sd=0.1)])
def test_what_is_read_again_has_the_same_draws(tmp_path, p):
    p.save(tmp_path / "p.npz")
    again = FieldPosterior.load(tmp_path / "p.npz")
    assert again.to_bytes() == p.to_bytes()
    one, other = (q.sample(40, rng=np.random.default_rng(1)) for q in (p, again))
    assert (one.values == other.values).all()
    assert (one.names, one.levels) == (other.names, other.levels)
    assert (again.guarantee, again.secure) == (p.guarantee, p.secure)


def tampered(p, change):
    with np.load(io.BytesIO(p.to_bytes()), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays["header"].tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


ARRAYS = (
    "points", "slopes", "slope_sds", "bend_points", "bends", "bend_sds", "middle", "frame", "hidden",
    "cross", "centre", "places", "radii", "scores", "tilt",
)  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(lambda _, a, n=n: a[n].fill(np.nan), id=f"NaN in {n}") for n in ARRAYS),
        *(pytest.param(lambda _, a, n=n: a.update({n: a[n][..., :-1]}), id=f"{n} too short") for n in ARRAYS),
        *(pytest.param(lambda _, a, n=n: a.update({n: a[n].astype(np.float32)}), id=f"{n} single") for n in ARRAYS),
        *(pytest.param(lambda _, a, n=n: a.pop(n), id=f"no {n}") for n in ARRAYS),
        *(
            pytest.param(lambda _, a, n=n, x=x: a[n].fill(x), id=f"{n} {x}")
            for n in ("slope_sds", "bend_sds", "radii")
            for x in (0.0, -1.0)
        ),
        *(
            pytest.param(lambda h, _, n=n, x=x: h.update({n: x}), id=f"{n} {x}")
            for n in ("scores_sd", "scores_bound", "tilt_sd", "unit", "blur", "spread")
            for x in (-1.0, math.nan, math.inf, "1", None)
        ),
        lambda header, _: header.update(unit=0.0),
        lambda header, _: header["guarantee"].update(epsilon="-1"),
        lambda header, _: header["guarantee"].update(assumptions=[1]),
        lambda header, _: header.update(secure=1),
        lambda header, _: header.update(lower=[5, 5], upper=[-5, -5]),
        lambda header, _: header.update(lower=[-5]),
        lambda header, _: header.update(names=["a", "a"]),
        lambda header, _: header.update(names=["a"]),
        lambda header, _: header.update(levels=[0.1, 0.5]),
        lambda header, _: header.update(levels=[0.5, 0.95]),
        lambda header, _: header.update(levels=[0.6, 0.5]),
        lambda header, _: header.update(levels=[math.nan]),
        lambda header, _: header.update(levels=[]),
        lambda header, _: header.update(levels=None),
        pytest.param(lambda h, a: (h.update(levels=None), a.update(scores=np.eye(2))), id="a rule of three knots"),
        lambda header, _: header.update(knots=[]),
        lambda header, _: header.update(knots=[0.2, 0.5]),
        lambda header, _: header.update(knots=[0.2, 0.9, 0.5]),
        lambda header, _: header.update(knots=[0.2, math.nan, 0.9]),
        lambda header, _: header.update(people=0),
        lambda header, _: header.update(people=2.5),
        lambda header, _: header.update(schema="psephos.normal-posterior/1"),
        lambda header, _: header.pop("guarantee"),
        lambda header, _: header.pop("tilt_sd"),
    ],
)
def test_a_file_that_lies_is_refused(change):
    with pytest.raises(ParameterError):
        FieldPosterior.from_bytes(tampered(with_one_hidden(), change))


def test_a_file_that_is_none_is_refused_by_name(tmp_path):
    path = tmp_path / "bad.npz"
    good = tampered(with_one_hidden(), lambda header, arrays: None)  # noqa: ARG005
    assert FieldPosterior.from_bytes(good).knots == (0.2, 0.5, 0.9)
    for content in (b"", b"PK\x03\x04", good[: len(good) // 2]):
        path.write_bytes(content)
        with pytest.raises(ParameterError, match=r"bad\.npz.*not a saved posterior"):
            FieldPosterior.load(path)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from psephos.errors import ParameterError
from psephos.scores import LOGISTIC, NORMAL, symmetric_link
from psephos.scores.links import as_link


def cauchy_cdf(x):
    return 0.5 + np.arctan(x) / np.pi


def cauchy_density(x):
    return 1.0 / (np.pi * (1.0 + x * x))


CAUCHY = symmetric_link(cauchy_cdf, cauchy_density, name="cauchy")
LINKS = pytest.mark.parametrize("link", [LOGISTIC, NORMAL, CAUCHY], ids=lambda link: link.name)
SHARES = st.floats(-50, 50)


@LINKS
@given(x=st.floats(-12, 12), z=SHARES)
def test_derivatives_of_the_loss(link, x, z):
    # l' = F - z and l'' = f by central differences, whose error is h^2 / 6 times a third derivative, and rounding
    h = 1e-4
    at = np.array([x - h, x, x + h])
    loss = link.loss(at, z)
    assert (loss[2] - loss[0]) / (2 * h) == pytest.approx(float(link.cdf(at)[1]) - z, abs=1e-7)
    assert (link.cdf(at)[2] - link.cdf(at)[0]) / (2 * h) == pytest.approx(float(link.density(at)[1]), abs=1e-8)
    assert link.density(at)[1] >= 0  # so the loss is convex, whatever z


@LINKS
def test_against_scipy_distributions(link):
    law = {"logistic": stats.logistic, "normal": stats.norm, "cauchy": stats.cauchy}[link.name]
    x = np.linspace(-30, 30, 601)
    np.testing.assert_allclose(link.cdf(x), law.cdf(x), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(link.density(x), law.pdf(x), rtol=1e-12, atol=1e-300)
    for end in (-20.0, -0.5, 0.0, 3.0, 15.0):
        expected, _ = integrate.quad(law.cdf, 0.0, end, epsabs=1e-12, epsrel=1e-12)
        assert link.integral(np.array([end]))[0] == pytest.approx(expected, abs=1e-9)


@LINKS
def test_far_differences(link):
    x = np.array([-1e3, -40.0, 0.0, 40.0, 1e3])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        cdf, density, loss = link.cdf(x), link.density(x), link.loss(x, -7.0)
    assert np.isfinite(cdf).all()
    assert np.isfinite(density).all()
    assert np.isfinite(loss).all()
    np.testing.assert_allclose(cdf + cdf[::-1], 1.0, atol=1e-15)
    assert (np.diff(cdf) >= 0).all()
    assert loss[-1] == pytest.approx(8e3, rel=0.01)
    assert loss[2] == 0.0


def test_logistic_loss_is_the_likelihood():
    x, z = np.linspace(-5, 5, 11), 0.3
    likelihood = -z * np.log(1 / (1 + np.exp(-x))) - (1 - z) * np.log(1 / (1 + np.exp(x)))
    np.testing.assert_allclose(LOGISTIC.loss(x, z) + np.log(2), likelihood, rtol=1e-12)


def test_numerical_integral_at_every_scale():
    for scale in (1e-3, 1.0, 50.0):
        link = symmetric_link(
            lambda x, s=scale: LOGISTIC.cdf(x / s), lambda x, s=scale: LOGISTIC.density(x / s) / s, name="scaled"
        )
        x = np.array([-1e3, -3.0, 1e-6, 0.7, 200.0])
        np.testing.assert_allclose(link.integral(x), scale * LOGISTIC.integral(x / scale), rtol=1e-9, atol=1e-8)
    given = symmetric_link(LOGISTIC.cdf, LOGISTIC.density, integral=LOGISTIC.integral)
    assert given.integral is LOGISTIC.integral


@pytest.mark.parametrize(
    ("cdf", "density", "rule"),
    [
        (lambda x: NORMAL.cdf(x - 0.1), lambda x: NORMAL.density(x - 0.1), r"F\(-x\) = 1 - F\(x\)"),
        (lambda x: 0.5 - np.tanh(x) / 2, lambda x: 0.5 / np.cosh(np.minimum(abs(x), 300)) ** 2, "must not decrease"),
        (LOGISTIC.cdf, lambda x: 1.05 * LOGISTIC.density(x), "derivative"),
        (LOGISTIC.cdf, lambda x: -LOGISTIC.density(x), ">= 0"),
        (LOGISTIC.cdf, NORMAL.density, "derivative"),
        (LOGISTIC.cdf, lambda x: LOGISTIC.density(x) * (1 + (x > 0)), r"f\(-x\) = f\(x\)"),
        (lambda x: 0.5 + 0 * x, lambda x: 0 * x, "> 0 at 0"),
        (lambda x: 2 * LOGISTIC.cdf(x) - 0.5, lambda x: 2 * LOGISTIC.density(x), r"\[0, 1\]"),
        (lambda x: np.where(x > 900, np.nan, LOGISTIC.cdf(x)), LOGISTIC.density, "finite"),
        (np.mean, LOGISTIC.density, "elementwise"),
    ],
)
def test_refused_links(cdf, density, rule):
    with pytest.raises(ParameterError, match=rule):
        symmetric_link(cdf, density)


def test_named_links():
    assert as_link("logistic") is LOGISTIC
    assert as_link("normal") is NORMAL
    assert as_link(CAUCHY) is CAUCHY
    for name in ("probit", None, 3):
        with pytest.raises(ParameterError, match="link must be one of logistic, normal"):
            as_link(name)

"""The accountants of noisy training: two golden tables, an oracle in balls, monotonicity, edges, naive doubles."""

import csv
import math
import warnings
from fractions import Fraction
from pathlib import Path

import flint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rivals.accountants import (
    METHODS,
    PaperBound,
    PlainTraining,
    calibrate_sigma,
    delta_upper,
    epsilon_upper,
    leading_scale,
)
from rivals.series import series_log_moments_upper

from psephos.bootstrap import BlockedTraining
from psephos.errors import AccuracyWarning, ParameterError
from psephos.privacy import bounded_sum_sensitivity, epsilon_of, gaussian_sigma
from psephos.privacy.gaussian import gaussian_epsilon_upper
from psephos.privacy.rdp import epsilon_from_log_moment_upper
from psephos.privacy.subsampled import BetaWeight, FixedWeight, SubsampledGaussian

GOLDEN = Path(__file__).parent.parent / "golden"
PRINTED = PaperBound(even_constant="printed")


def table(name):
    with (GOLDEN / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise AssertionError(f"{name} has no rows")
    return rows


BLOCKED = table("pgbb_sigma.csv")
PLAIN = table("dp_sgld_sigma.csv")


def name_of(row):
    return "-".join(row[key] for key in ("name", "n", "eps") + (("S", "K") if "S" in row else ()))


def training_of(row):
    if "S" not in row:
        return PlainTraining(probability=row["q"], steps=int(row["compositions"]), gradient_bound=row["C"])
    return BlockedTraining(
        records=int(row["n"]),
        blocks=int(row["S"]),
        gamma=float(row["gamma"]),
        alpha=float(row["alpha"]),
        probability=row["q"],
        steps=int(row["T"]),
        draws=int(row["K"]),
        gradient_bound=row["C"],
    )


def calibrated(row, method="pld", paper=None):
    """sigma of a row, after checking that its account is at most the target and at least 0.1 % of it (P10)."""
    training, target = training_of(row), float(row["eps"])
    scale = calibrate_sigma(training, epsilon=row["eps"], delta=row["delta"], method=method, paper=paper)
    again = epsilon_upper(training, sigma=scale.sigma, delta=row["delta"], method=method, paper=paper)
    assert scale.epsilon_upper == again
    assert 0.999 * target <= again <= target
    return scale.sigma


def blocked(**changes):
    facts = {
        "records": 10000,
        "blocks": 20,
        "gamma": 0.9001900190019002,
        "probability": "0.1",
        "steps": 10000,
        "gradient_bound": "2.648291286406435",
    }
    return BlockedTraining(**{**facts, **changes})


# --- the tables ---------------------------------------------------------------------------------------------------


def test_the_tables_are_whole():
    assert (len(BLOCKED), len(PLAIN)) == (42, 18)


@pytest.mark.parametrize("row", BLOCKED, ids=name_of)
def test_the_printed_and_the_fixed_series(row):
    """Within 0.1 %; all 42 rows, both constants and both conversions."""
    terms = int(row["J"])
    printed = PaperBound(even_constant="printed", moments=terms)
    mironov = PaperBound(even_constant="printed", moments=terms, conversion="mironov")
    assert calibrated(row, "paper", printed) == pytest.approx(float(row["sigma_paper"]), rel=1e-3)
    fixed = calibrated(row, "paper", PaperBound(moments=terms))
    assert fixed == pytest.approx(float(row["sigma_paper_evenfix"]), rel=1e-3)
    assert calibrated(row, "paper", mironov) == pytest.approx(float(row["sigma_paper_mironov"]), rel=1e-3)


@pytest.mark.parametrize("row", PLAIN, ids=name_of)
def test_the_printed_series_of_plain_training(row):
    assert calibrated(row, "paper", PRINTED) == pytest.approx(float(row["sigma_paper"]), rel=1e-3)


@pytest.mark.parametrize("row", [BLOCKED[i] for i in (0, 14, 30, 32, 37, 41)], ids=name_of)
def test_renyi_moments(row):
    assert calibrated(row, "rdp") == pytest.approx(float(row["sigma_exact_rdp"]), rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("row", BLOCKED, ids=name_of)
def test_renyi_moments_of_every_row(row):
    assert calibrated(row, "rdp") == pytest.approx(float(row["sigma_exact_rdp"]), rel=2e-3)


def close_above(sigma, reference):
    """Within 0.5 %, and never more than 0.3 % below a reference that is itself an upper bound."""
    return 0.997 * reference <= sigma <= 1.005 * reference


@pytest.mark.parametrize("row", [BLOCKED[i] for i in (0, 16, 30, 40)] + [PLAIN[i] for i in (0, 8, 17)], ids=name_of)
def test_loss_distributions(row):
    assert close_above(calibrated(row), float(row["sigma_pld"]))


@pytest.mark.slow
@pytest.mark.parametrize("row", BLOCKED + PLAIN, ids=name_of)
def test_loss_distributions_of_every_row(row):
    assert close_above(calibrated(row), float(row["sigma_pld"]))


@pytest.mark.slow
@pytest.mark.parametrize("row", BLOCKED, ids=name_of)
def test_what_the_printed_noise_really_spends(row):
    spent = epsilon_upper(training_of(row), sigma=row["sigma_paper"], delta=row["delta"])
    assert spent == pytest.approx(float(row["eps_pld_at_paper_sigma"]), rel=3e-3)


@pytest.mark.parametrize(("alpha", "sigma"), [(1, 0.02268), (20, 0.01149), (100, 0.00373)])
def test_pseudo_blocks(alpha, sigma):
    """Source: an independent privacy-loss distribution, S = 20, epsilon = 1."""
    training = blocked(alpha=float(alpha))
    assert epsilon_upper(training, sigma=sigma * 1.004, delta="1e-4") <= 1
    assert epsilon_upper(training, sigma=sigma * 0.996, delta="1e-4") > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocks", "one", "four"),
    [
        (2, 0.019496, 0.005866),
        (5, 0.023889, 0.007188),
        (100, 0.023901, 0.007191),
        (500, 0.023902, 0.007191),
        (2000, 0.023902, 0.007191),
        (10000, 0.023902, 0.007191),
    ],
)
def test_blocks_cost_nothing_once_accounting_is_tight(blocks, one, four):
    """Source: as above. At the gamma that restores the dispersion, sigma does not depend on the number of blocks."""
    n = 10000
    gamma = 1.0 if blocks in (2, n) else (blocks * (n + 1) - 2 * n) / (blocks * (n - 1))
    training = blocked(blocks=blocks, gamma=gamma)
    for epsilon, sigma in ((1, one), (4, four)):
        assert close_above(calibrate_sigma(training, epsilon=epsilon, delta="1e-4").sigma, sigma)


# --- the series ---------------------------------------------------------------------------------------------------


def alternating_series(r, q, gamma, rest, order, *, number, exp, log, root, terms=32, m=5, fixed=True):
    """(S22)-(S33) as they are printed, alternating signs and all, over any kind of number."""
    r, q, gamma, rest = number(r), number(q), number(gamma), number(rest)
    mu = [number(1)]
    for j in range(2 * terms + 2):
        i = 2 * j
        mu.append(mu[-1] * (gamma + i) / (gamma + rest + i) * (gamma + i + 1) / (gamma + rest + i + 1))

    def partial(b, weights):
        total, power = number(0), number(1)
        for j in range(terms + 1):
            total += power * weights(j)
            power = power * b / (j + 1)
        return total

    def mean(k):
        if k < 2:
            return number(0)
        total = number((-1) ** (k - 1) * (k - 1))
        for ell in range(2, k + 1):
            b = r * r * (ell * (ell - 1)) / 2
            total += number((-1) ** (k - ell) * math.comb(k, ell)) * partial(b, lambda j: mu[j])
            if (k - ell) % 2 == 0:
                total += number(math.comb(k, ell)) * (exp(b) - partial(b, lambda _: number(1)))
        return total

    means = [mean(k) for k in range(m + order + 2)]
    if number is float:
        means = [max(value, 0.0) for value in means]

    def bound(k):
        return means[k] if k % 2 == 0 else root(means[k - 1] * means[k + 1])

    lead, tail, power = number(0), (exp(r * r) - exp(-r * r)) / 2, r * r
    for j in range(terms + 1):
        lead += power * mu[2 * j + 1]
        tail -= power
        power = power * (r * r) * (r * r) / ((2 * j + 2) * (2 * j + 3))
    total = q * q * (2 * order * (order - 1)) * (lead + tail)
    for k in range(3, m):
        deviation = Fraction(0)
        for j in range(k + 1):
            product = Fraction(order, order - 1)
            for i in range(j):
                product *= 1 - Fraction(i, order)
            for i in range(k - j):
                product *= 1 + Fraction(i - 1, order)
            deviation += math.comb(k, j) * abs(product - 1)
        constant = (3 if k % 2 else 2**k if fixed else 4) + deviation
        scale = constant * (order - 1) * order ** (k - 1) / math.factorial(k)
        total += q**k * bound(k) * number(scale.numerator) / number(scale.denominator)
    for j in range(min(m, order) + 1):
        factor = math.prod(order - i for i in range(j)) * math.prod(order + i - 1 for i in range(m - j))
        theta = bound(m)
        if j < order:
            for ell in range(order - j + 1):
                up = math.factorial(order - j) * math.factorial(m)
                down = math.factorial(order - j - ell) * math.factorial(m + ell)
                theta += q**ell * number(up) / number(down) * bound(m + ell)
        scale = number(factor * math.comb(m, j)) / number(math.factorial(m))
        total += q**m * scale / (1 - q) ** (order + m - j - 1) * theta
    return log(1 + total)


def in_balls(r, q, gamma, rest, order, **settings):
    with flint.ctx.workprec(600):
        return float(
            alternating_series(
                r,
                q,
                gamma,
                rest,
                order,
                number=flint.arb,
                exp=lambda x: x.exp(),
                log=lambda x: x.log(),
                root=lambda x: x.sqrt(),
                **settings,
            ).mid()
        )


@pytest.mark.parametrize("even_constant", ["fixed", "printed"])
@pytest.mark.parametrize(
    ("r", "q", "gamma", "rest", "order", "m"),
    [
        (0.2, 0.1, 0.9, 17.1, 14, 5),
        (0.02, 0.1, 0.9, 17.1, 69, 5),
        (0.31, 0.01, 0.6, 2.4, 17, 5),
        (1.04, 0.2, 1.0, 19.0, 4, 5),
        (0.5, 0.3, 2.0, 3.0, 6, 9),
        (0.1, 0.5, 0.9, 17.1, 2, 3),
        (0.1, 0.05, 0.9, 22.1, 7, 14),
    ],
)
def test_the_series_against_balls(even_constant, r, q, gamma, rest, order, m):
    """600 bits of the printed formula: the positive recurrence lies above it, by less than 1e-9 of it."""
    truth = in_balls(r, q, gamma, rest, order, m=m, fixed=even_constant == "fixed")
    step = SubsampledGaussian(probability=q, shift=r, weight=BetaWeight(gamma, rest))
    bound = series_log_moments_upper(
        step, highest_order=order + 3, even_constant=even_constant, moments=32, expansion=m
    )[order - 2]
    assert truth <= bound <= truth * (1 + 1e-9)


def test_naive_doubles_claim_less_than_was_spent():
    """epsilon = 0.1: alternating sums in doubles, clipped at 0, claim less; the account is never below the truth."""
    training = blocked()
    scale = calibrate_sigma(training, epsilon="0.1", delta="1e-4", method="paper", paper=PRINTED)
    assert scale.order == 69
    r = float(Fraction("2.648291286406435")) / 500 / scale.sigma
    first, rest = 0.9001900190019002, 19 * 0.9001900190019002

    def reached(log_moment):
        return epsilon_from_log_moment_upper(10000 * log_moment, order=69, delta=1e-4)

    naive = alternating_series(
        r, 0.1, first, rest, 69, number=float, exp=math.exp, log=math.log, root=math.sqrt, fixed=False
    )
    truth = reached(in_balls(r, 0.1, first, rest, 69, fixed=False))
    assert reached(naive) < 0.9995 * truth
    assert truth * (1 - 1e-12) <= scale.epsilon_upper <= 0.1
    assert scale.epsilon_upper <= truth * (1 + 1e-8)


@settings(deadline=None, max_examples=30)
@given(
    moments=st.integers(1, 60),
    more=st.integers(1, 20),
    r=st.floats(0.005, 1.2),
    q=st.floats(0.01, 0.5),
    even_constant=st.sampled_from(["fixed", "printed"]),
)
def test_more_moments_never_ask_for_more(moments, more, r, q, even_constant):
    step = SubsampledGaussian(probability=q, shift=r, weight=BetaWeight(0.9, 17.1))

    def bound(terms):
        return series_log_moments_upper(step, highest_order=24, even_constant=even_constant, moments=terms, expansion=5)

    assert (bound(moments + more) <= bound(moments) * (1 + 1e-9)).all()


@settings(deadline=None, max_examples=30)
@given(r=st.floats(0.005, 1.2), q=st.floats(0.01, 0.5), m=st.integers(3, 9), more=st.floats(1.0001, 2))
def test_the_series_grows_with_the_shift_and_with_the_fix(r, q, m, more):
    def bound(shift, even_constant):
        step = SubsampledGaussian(probability=q, shift=shift, weight=BetaWeight(0.9, 17.1))
        return series_log_moments_upper(step, highest_order=24, even_constant=even_constant, moments=32, expansion=m)

    for constant in ("fixed", "printed"):
        assert (bound(r * more, constant) >= bound(r, constant)).all()
    assert (bound(r, "fixed") >= bound(r, "printed")).all()


def test_the_series_overflows_to_infeasible():
    step = SubsampledGaussian(probability=0.1, shift=1e6, weight=FixedWeight())
    moments = series_log_moments_upper(step, highest_order=8, even_constant="fixed", moments=32, expansion=5)
    assert not any(math.isnan(value) or value < 1e6 for value in moments)
    assert epsilon_upper(blocked(), sigma="1e-8", delta="1e-4", method="paper") > 1e6


# --- all methods --------------------------------------------------------------------------------------------------

FEW = [
    blocked(steps=200),
    BlockedTraining(
        records=1003, blocks=5, gamma=0.6, alpha=2.0, probability="0.3", steps=20, gradient_bound=1, draws=3
    ),
    PlainTraining(probability="0.05", steps=300, gradient_bound=1),
]


@pytest.mark.parametrize("training", FEW)
def test_the_methods_are_ordered(training):
    """The loss distribution is the tightest; both others bound the same thing."""
    sigmas = {m: calibrate_sigma(training, epsilon="0.8", delta="1e-5", method=m).sigma for m in METHODS}
    assert sigmas["pld"] < sigmas["rdp"] < sigmas["paper"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("training", FEW[1:])
def test_epsilon_and_delta_agree(training, method):
    scale = calibrate_sigma(training, epsilon=1, delta="1e-5", method=method)
    reached = delta_upper(training, sigma=scale.sigma, epsilon=1, method=method)
    assert reached == pytest.approx(1e-5, rel=2e-3)
    assert delta_upper(training, sigma=scale.sigma * 1.01, epsilon=1, method=method) < 1e-5


@settings(deadline=None, max_examples=8)
@given(
    sigma=st.floats(0.01, 0.2),
    more=st.floats(1.01, 3),
    extra=st.integers(20, 20000),
    method=st.sampled_from(METHODS),
)
def test_monotone_in_sigma_and_n(sigma, more, extra, method):
    slack = 1 + 2e-4  # discretisation and the walk over orders

    def bound(records, scale):
        return epsilon_upper(blocked(records=records), sigma=scale, delta="1e-4", method=method)

    here = bound(10000, sigma)
    assert bound(10000, sigma * more) <= here * slack
    assert bound(10000 + extra, sigma) <= here * slack


@pytest.mark.parametrize("method", METHODS)
def test_p3_sigma_at_the_edges(method):
    training = blocked()
    for bad in (math.nan, -1, "-1", None, -math.inf, True, "nan"):
        with pytest.raises(ParameterError, match="sigma must be"):
            epsilon_upper(training, sigma=bad, delta="1e-5", method=method)
        with pytest.raises(ParameterError, match="sigma must be"):
            delta_upper(training, sigma=bad, epsilon=1, method=method)
    for none in (0, 0.0, "0", 1e-200, "1e-300"):
        assert epsilon_upper(training, sigma=none, delta="1e-5", method=method) == math.inf
        assert delta_upper(training, sigma=none, epsilon=1, method=method) == 1
    for endless in (math.inf, 1e200):
        assert epsilon_upper(training, sigma=endless, delta="1e-5", method=method) < 1e-300  # rounded up
        assert delta_upper(training, sigma=endless, epsilon=1, method=method) <= 1e-300


@pytest.mark.parametrize("sigma", ["0.1", "0.01", "0.003"])
@pytest.mark.slow
def test_p4_a_thousand_compositions_of_tiny_noise(sigma):
    """Plain Gaussians compose in closed form; subsampled ones never cost more, on grids of bounded size."""
    exact = float(gaussian_epsilon_upper(Fraction(sigma) ** 2, sensitivity=Fraction(sigma) * 2, delta="1e-5"))
    plain = epsilon_upper(PlainTraining(probability=1, steps=1, gradient_bound=1), sigma=sigma, delta="1e-5")
    assert plain == pytest.approx(exact, rel=1e-9)
    many = epsilon_upper(PlainTraining(probability=1, steps=1000, gradient_bound=1), sigma=sigma, delta="1e-5")
    assert many == pytest.approx(2000 / float(sigma) ** 2, rel=0.05)
    subsampled = PlainTraining(probability="0.1", steps=1000, gradient_bound=1)
    assert 0 < epsilon_upper(subsampled, sigma=sigma, delta="1e-5") <= many
    for method in ("rdp", "paper"):
        assert epsilon_upper(subsampled, sigma=sigma, delta="1e-5", method=method) > 0


@pytest.mark.parametrize("epsilon", ["1e-4", "0.01", "10", "100"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("training", [pytest.param(FEW[0], marks=pytest.mark.slow), FEW[2]])
def test_p5_p10_calibration_round_trip(training, method, epsilon):
    scale = calibrate_sigma(training, epsilon=epsilon, delta="1e-5", method=method)
    again = epsilon_upper(training, sigma=scale.sigma, delta="1e-5", method=method)
    assert again == scale.epsilon_upper
    assert 0.999 * float(Fraction(epsilon)) <= again <= Fraction(epsilon)
    assert scale.method == method
    assert scale.delta == Fraction(1, 10**5)
    assert (scale.order is None) == (method == "pld")


def test_p9_one_record_is_replaced():
    """Clip norm 1, sigma 1, delta 1e-5: 9.997256 (sensitivity 2), not the 4.377178 of adding or removing a record."""
    training = PlainTraining(probability=1, steps=1, gradient_bound=1)
    assert epsilon_upper(training, sigma=1, delta="1e-5") == pytest.approx(9.997256, rel=1e-6)
    assert epsilon_upper(training, sigma=1, delta="1e-5", method="rdp") > 9.997256


def test_p18_an_asymmetric_gradient():
    """Gradients in [-1, 10] have norm at most 10: twice that covers the 11 by which replacing one moves their sum."""
    assert bounded_sum_sensitivity(-1, 10) == 11
    training = PlainTraining(probability=1, steps=1, gradient_bound=10)
    replaced = float(gaussian_epsilon_upper(20, sensitivity=bounded_sum_sensitivity(-1, 10), delta="1e-5"))
    assert epsilon_upper(training, sigma=20, delta="1e-5") >= replaced
    for bad in (math.nan, 0, -1, math.inf, None, "(-1, 10)"):
        with pytest.raises(ParameterError, match="gradient_bound must be"):
            PlainTraining(probability=1, steps=1, gradient_bound=bad)
        with pytest.raises(ParameterError, match="gradient_bound must be"):
            blocked(gradient_bound=bad)


def test_p20_noise_of_a_mean():
    """The noise on a sum of n contributions of norm <= C is a multiplier times 2 C, so a mean's is that over n."""
    n, bound = 100, 3
    training = PlainTraining(probability=1, steps=1, gradient_bound=Fraction(bound, n))
    multiplier = float(gaussian_sigma(1, "1e-5", sensitivity_squared=1))
    expected = multiplier * 2 * bound / n
    assert calibrate_sigma(training, epsilon=1, delta="1e-5").sigma == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_records_that_do_not_fill_the_blocks_count_by_the_smallest(method):
    short, whole = blocked(records=10019), blocked(records=10000)
    assert short.largest_contribution == whole.largest_contribution
    values = [epsilon_upper(t, sigma="0.03", delta="1e-4", method=method) for t in (short, whole)]
    assert values[0] == values[1]


def test_draws_are_compositions():
    assert blocked(draws=10).compositions == 100000
    one, ten = (epsilon_upper(blocked(steps=s, draws=k), sigma="0.1", delta="1e-4") for s, k in ((1000, 1), (100, 10)))
    assert one == ten


def test_one_block_without_pseudo_mass_is_plain():
    training = blocked(blocks=1, steps=50)
    assert training.weight == FixedWeight()
    plain = PlainTraining(probability="0.1", steps=50, gradient_bound=Fraction("2.648291286406435") / 10000)
    assert epsilon_upper(training, sigma="1e-3", delta="1e-4") == epsilon_upper(plain, sigma="1e-3", delta="1e-4")


@pytest.mark.parametrize(
    "wrong",
    [
        {"records": 19},
        {"records": 1e4},
        {"blocks": 0},
        {"gamma": 0.0},
        {"gamma": math.nan},
        {"alpha": -1.0},
        {"alpha": math.nan},
        {"probability": 0},
        {"probability": "1.01"},
        {"probability": math.nan},
        {"steps": 0},
        {"steps": True},
        {"draws": 0},
    ],
)
def test_facts_out_of_range(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        blocked(**wrong)


def test_parameters_out_of_range():
    training = FEW[2]
    for bad in (0, -1, math.nan, math.inf, True, None):
        with pytest.raises(ParameterError, match="epsilon must be"):
            calibrate_sigma(training, epsilon=bad, delta="1e-5")
    for bad in (0, 1, -0.1, 1.5, math.nan):
        with pytest.raises(ParameterError, match="delta must be"):
            calibrate_sigma(training, epsilon=1, delta=bad)
        with pytest.raises(ParameterError, match="delta must be"):
            epsilon_upper(training, sigma=1, delta=bad)
    with pytest.raises(ParameterError, match="method must be"):
        epsilon_upper(training, sigma=1, delta="1e-5", method="gdp")
    with pytest.raises(ParameterError, match="probability must be < 1 for the method paper"):
        epsilon_upper(PlainTraining(probability=1, steps=1, gradient_bound=1), sigma=1, delta="1e-5", method="paper")
    for bad in (
        {"even_constant": "4"},
        {"conversion": "best"},
        {"moments": 0},
        {"moments": 513},
        {"expansion": 2},
        {"expansion": 41},
    ):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            PaperBound(**bad)


def test_leading_scales():
    """Source: the leading-order Mironov sigma of the first row is 0.0330; its regime is .30, that of row 30 .57."""
    scale = leading_scale(training_of(BLOCKED[0]), epsilon=1, delta="1e-4")
    assert scale.renyi == pytest.approx(0.0330, abs=5e-5)
    assert scale.regime == pytest.approx(0.30, abs=0.005)
    assert leading_scale(training_of(BLOCKED[30]), epsilon=1, delta="0.002").regime == pytest.approx(0.57, abs=0.005)
    kappa = (0.9001900190019002 + 1) / (20 * (20 * 0.9001900190019002 + 1))
    rate = 2.648291286406435 * 0.1 / 500 * math.sqrt(10000 * kappa * math.log(1e4))
    assert scale.rate == pytest.approx(rate, rel=1e-12)
    assert scale.rate < scale.renyi < 3 * scale.rate


@pytest.mark.parametrize("row", BLOCKED + PLAIN, ids=name_of)
def test_the_central_limit_lies_just_below(row):
    """Up to 1.6 % below the loss distribution's sigma: a start value, not a certificate."""
    limit = leading_scale(training_of(row), epsilon=row["eps"], delta=row["delta"]).limit
    assert 0 <= 1 - limit / float(row["sigma_pld"]) <= 0.016


# ------------------------------------------------------------------ the ends of the doubles, and of lists of orders

MEANS = BlockedTraining(records=10_000, blocks=20, gamma=0.9, probability="0.1", steps=10_000, gradient_bound=2.6483)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sigma", ["0.03", "1e20", "1e200"])
def test_delta_is_never_zero_where_the_truth_is_above_it(method, sigma):
    for epsilon in ("1e-3", "1", "100", "1e5"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            delta = delta_upper(MEANS, sigma=sigma, epsilon=epsilon, method=method)
        assert 0 < delta < 0.2
    assert delta_upper(MEANS, sigma=math.inf, epsilon=1, method=method) == 0


def test_a_best_order_at_the_end_of_the_list_is_told():
    """The series ends at order 1024, where it asks for 1e21 times the noise that is needed; and it begins at 2."""
    with pytest.warns(AccuracyWarning, match=r"'paper' is the highest that it has, 1024: its bound holds.*'rdp'"):
        assert epsilon_upper(MEANS, sigma="1e20", delta="1e-50", method="paper") > 0.01
    with pytest.warns(AccuracyWarning, match="'paper' is the lowest that it has, 2"):
        assert calibrate_sigma(MEANS, epsilon=20, delta="1e-6", method="paper").order == 2
    assert calibrate_sigma(MEANS, epsilon="0.01", delta="1e-50", method="rdp").sigma < 11


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-15"), ("0.01", "1e-50")])
def test_the_default_accountant_counts_minibatches_at_tiny_deltas_too(epsilon, delta):
    """Where round-off hides delta from the transforms, Renyi moments speak: as if all records were in it, 137 times."""
    least = calibrate_sigma(MEANS, epsilon=epsilon, delta=delta, method="rdp").sigma
    found = calibrate_sigma(MEANS, epsilon=epsilon, delta=delta)
    assert found.sigma == pytest.approx(least, rel=1e-4)
    assert epsilon_of(MEANS.event(found.sigma), delta) <= Fraction(epsilon)


@pytest.mark.slow
def test_what_no_noise_can_meet_names_epsilon_and_delta_as_given():
    with pytest.raises(ParameterError, match=r"'paper', got epsilon 1e-149 and delta 1e-300"):
        calibrate_sigma(MEANS, epsilon="1e-149", delta="1e-300", method="paper")

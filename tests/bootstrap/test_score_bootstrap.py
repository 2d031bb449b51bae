"""The score bootstrap over a field: what it spends, what one record can move, what it refuses, and what it finds."""

import dataclasses
import io
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from rivals.m_estimate import weighted_m_estimate
from scipy import optimize, special, stats

from noisy_fits import (
    LOSSES,
    NAMES,
    REGRESSIONS,
    by_field,
    by_newton_steps,
    centred,
    classical,
    degenerate,
    hostile,
    people,
    scripted,
    tape,
)
from psephos import Account, Ledger
from psephos.bootstrap import (
    FieldPlan,
    FieldPosterior,
    SandwichPlan,
    TrainingPlan,
    release_from_json,
    release_to_json,
    score_bootstrap,
)
from psephos.bootstrap.losses import BradleyTerryLoss, CustomLoss, HuberLoss, LogisticLoss, MeanLoss, QuantileLoss
from psephos.bootstrap.noisy_moments import _GRAM_CAP, SUM_CAP
from psephos.bootstrap.people import People
from psephos.bootstrap.score_bootstrap import takes_field
from psephos.errors import BudgetError, InsecureBitsError, ParameterError
from psephos.privacy import InsecureBits
from psephos.privacy.events import epsilon_of
from psephos.privacy.gaussian import mu_lower

SHORT = FieldPlan(newton=SandwichPlan(steps=2), rounds=("0.3", "0.7"))
PLANS = (
    SHORT,
    FieldPlan(newton=SandwichPlan(steps=1), rounds=(1,)),
    FieldPlan(newton=SandwichPlan(steps=1, curvature="1/7", scores="0.2"), rounds=("1/3", "1/2", "1/6")),
)
CONVEX = tuple(name for name in NAMES if name != "exponential")
LINES = LOSSES["quantile"]
NUMBERS = people("gaussian", 20, np.random.default_rng(9))


def constant(levels, *, box=(-5.0, 5.0), **settings):
    """Quantiles of numbers."""
    return QuantileLoss(covariates=("one",), covariate_bound=1.0, coefficient_box=box, levels=levels, **settings)


def ones_and(numbers):
    return np.ones((len(numbers), 1)), numbers


def evenly(count):
    return tuple(k / (count + 1) for k in range(1, count + 1))


def fit(records, loss, *, epsilon=1, delta="1e-5", seed=1, plan=FieldPlan(), **options):  # noqa: B008 - frozen
    return by_field(records, loss, epsilon=epsilon, delta=delta, settings=plan, bits=InsecureBits(seed=seed), **options)


@pytest.fixture
def few_points(monkeypatch):
    """A fit of few gradients, which is fast."""
    monkeypatch.setattr(score_bootstrap, "_POINTS", 2)
    monkeypatch.setattr(score_bootstrap, "_LEAST_POINTS", 4)


# --- what is spent ----------------------------------------------------------------------------------------------------

SPENT = {name: (LOSSES[name], people(name, 50, np.random.default_rng(1))) for name in CONVEX} | {
    f"{count} levels": (constant(evenly(count)), ones_and(np.linspace(-2, 2, 50))) for count in (1, 5, 19)
}


def expected_parts(name, loss, plan, mu):
    """(squared sensitivity, share of mu^2) of each release, in order."""
    squares, sums = 2 * _GRAM_CAP**4, (2 * SUM_CAP) ** 2
    family, knots = loss.levels is not None, min(11, len(loss.levels or (1,)))
    r = len(loss.names) - len(loss.flat_directions)
    first, second, *steps, curvature, middle, scores, last = plan.newton.shares(
        people=50, mu=float(mu), coordinates=knots * len(loss.names)
    )
    if name in REGRESSIONS or family:
        yield from ((squares, first), (squares, second))
    else:
        last += first + second
    for gradient, bend in zip(steps[::2], steps[1::2], strict=True):
        yield from [(sums, gradient)] + [(squares, bend / knots)] * knots
    yield from [(squares, curvature / knots)] * knots if family else [(squares, curvature / 3)]
    yield sums, middle
    if family:
        normal = stats.norm.ppf(loss.levels)
        wanted = np.linspace(normal[0], normal[-1], knots)
        chosen = np.array([loss.levels[np.argmin(np.abs(normal - w))] for w in wanted])
        off = math.sqrt(np.mean((chosen - 0.5) ** 2))
        tilt = Fraction(max(2, round(1000 * off / (off + math.sqrt(knots) / 2))), 1000)
        yield sums, last * tilt
        last *= 1 - tilt
    apiece = max(score_bootstrap._LEAST_POINTS, score_bootstrap._POINTS * (r + 1))
    each = 2 * math.ceil(apiece / (2 if knots == 1 else 4)) * knots
    shares = [Fraction(share) for share in plan.rounds]
    for index, share in enumerate(shares):
        yield from [(sums, last * share / each)] * each
        if len(shares) == 1 or index == len(shares) - 2:
            yield squares, scores
            if not family:
                yield squares, curvature * 2 / 3


@pytest.mark.parametrize(
    ("name", "plan"),
    [*((name, SHORT) for name in SPENT), *((n, p) for n in ("huber", "gaussian", "5 levels") for p in PLANS[1:])],
)
def test_all_releases_together_are_what_was_promised(name, plan):
    loss, records = SPENT[name]
    for epsilon, delta in ((8, "1e-9"),) if plan is SHORT else (("0.01", "1/1000"),):
        event = fit(records, loss, epsilon=epsilon, delta=delta, plan=plan).event
        mu = mu_lower(epsilon, delta)
        expected = list(expected_parts(name, loss, plan, mu))
        assert sum(share for _, share in expected) == 1
        assert [part.sensitivity_squared for part in event.parts] == [sensitivity for sensitivity, _ in expected]
        for part, (_, share) in zip(event.parts, expected, strict=True):
            allowed = mu**2 * share
            assert allowed * (1 - Fraction(1, 2**50)) <= part.sensitivity_squared / part.sigma**2 <= allowed
        spent = sum(part.sensitivity_squared / part.sigma**2 for part in event.parts)
        assert mu**2 * (1 - Fraction(1, 2**50)) <= spent <= mu**2  # exact rationals
    assert Fraction(epsilon) * (1 - Fraction(1, 10**6)) <= epsilon_of(event, delta) <= Fraction(epsilon)


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize("name", ["huber", "gaussian", "bradley-terry", "1 levels", "19 levels"])
def test_what_is_spent_does_not_depend_on_the_data(name):
    loss, records = SPENT[name]
    others = (records, tuple(column[::-1] for column in records), tuple(np.zeros_like(column) for column in records))
    events = [fit(rows, loss, plan=SHORT, seed=seed).event for seed, rows in enumerate(others)]
    assert events[0] == events[1] == events[2]


@pytest.mark.parametrize("levels", [(0.5,), (0.9,), (0.1, 0.5, 0.9), evenly(7)])
def test_the_share_of_the_mean_covariates_makes_noise_least(levels):
    """Of a gradient that has p for all K levels, half the bound each, and of |tau - 1/2| times the covariates."""
    off, knots = np.mean((np.array(levels) - 0.5) ** 2), len(levels)
    best = optimize.minimize_scalar(
        lambda p: knots / (4 * (1 - p)) + off / p, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-9}
    ).x
    found = score_bootstrap._share_of_tilt(levels)
    assert isinstance(found, Fraction)
    assert float(found) == pytest.approx(max(best, 0.002), abs=6e-4)


@pytest.mark.parametrize(
    "rounds",
    [
        ("0.5", "0.4"), ("0.5", "0.6"), ("1/3", "1/3", "0.3333333"), (0.1, 0.2, 0.7), (), ("1.5", "-0.5"), (1, 0),
        (math.nan, 1), ["0.5", "0.5"], "1", 1, None, ("x",), (True,), (Fraction(1, 101),) * 101,
    ],
)  # fmt: skip
def test_rounds_that_cannot_be_are_refused(rounds):
    if rounds == (0.1, 0.2, 0.7):  # numbers are what they print as
        assert sum(FieldPlan(rounds=rounds).parts) == 1
        return
    with pytest.raises(ParameterError, match="rounds"):
        FieldPlan(rounds=rounds)


def test_shares_of_rounds_are_exact():
    assert FieldPlan().parts == (Fraction(3, 50), Fraction(3, 25), Fraction(1, 4), Fraction(57, 100))
    assert FieldPlan(rounds=("1/3", Fraction(2, 3))).parts == (Fraction(1, 3), Fraction(2, 3))
    for newton in (None, "fast", {}, TrainingPlan(), FieldPlan()):
        with pytest.raises(ParameterError, match="newton must be a SandwichPlan"):
            FieldPlan(newton=newton)


# --- what one record can move -----------------------------------------------------------------------------------------


def widest(totals):
    """The largest squared distance of any two, in whole numbers."""
    flat = np.array([np.ravel(total) for total in totals]).astype(object)
    return max(int(((flat - one) ** 2).sum(axis=1).max()) for one in flat)


ORDERED = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
CROSSING = np.array([[1.0, 4.0], [0.0, -1.0], [-1.0, 2.0]])


def test_one_hostile_record_moves_no_sum_of_quantiles_farther_than_accounted():
    """All pairs of records in one place, those of the largest leverage too; lines that cross, and that do not."""
    others = people("quantile", 7, np.random.default_rng(3))
    reached = dict.fromkeys(("below", "covariates", "ordered slopes", "crossing slopes"), 0.0)

    def summed(records, seed):
        with tape(scripted(seed, 8)) as kept, np.errstate(all="ignore"):
            crowd = People(records=records, loss=LINES, bits=InsecureBits(seed=1))
            crowd.find_frame([Fraction(1), Fraction(1)])
            crowd.below(CROSSING[0], Fraction(1))
            crowd.covariates(Fraction(1))
            crowd.slopes(ORDERED, Fraction(1))
            crowd.slopes(CROSSING, Fraction(1))
        return crowd, kept[2:]

    for seed in range(3):
        crowd = summed(others, seed)[0]
        ways = np.random.default_rng(seed).normal(size=(4, 2))
        ways *= math.sqrt(crowd.leverage) / np.linalg.norm(ways @ crowd.frame, axis=1, keepdims=True)
        extreme = [(x[None], np.array([y])) for x in (*ways, *-ways) for y in (1e9, -1e9, 0.0)]
        kept = [
            summed(tuple(np.concatenate(pair) for pair in zip(others, record, strict=True)), seed)[1]
            for record in hostile("quantile") + extreme
        ]
        for what, releases in zip(reached, zip(*kept, strict=True), strict=True):
            event = releases[0][3]
            found = widest([total for total, *_ in releases])
            assert found <= event.sensitivity_squared
            reached[what] = max(reached[what], float(found / event.sensitivity_squared))
    assert min(reached["below"], reached["covariates"]) > 0.99
    assert min(reached["ordered slopes"], reached["crossing slopes"]) > 0.15


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in (*REGRESSIONS, "bradley-terry") else n for n in CONVEX]
)
def test_one_hostile_record_moves_no_release_farther_than_accounted(name):
    """Through the whole fit, given the same earlier outcomes; what is kept at the end is the same to the last bit."""
    loss, others = LOSSES[name], people(name, 7, np.random.default_rng(3))
    for seed in range(1 if name == "gaussian" else 3):
        totals, ends = [], set()
        for record in hostile(name):
            both = tuple(np.concatenate([part, one]) for part, one in zip(others, record, strict=True))
            with tape(scripted(seed, 8)) as kept:
                ends.add(fit(both, loss, plan=SHORT, epsilon=8, delta="1e-2").value.to_bytes())
            totals.append(kept)
        assert len(ends) == 1
        for releases in zip(*totals, strict=True):
            assert widest([total for total, *_ in releases]) <= releases[0][3].sensitivity_squared


@pytest.mark.parametrize("levels", [(0.5,), (0.9,), (0.3, 0.5, 0.7), (0.01, 0.02, 0.03), evenly(7)])
def test_no_person_s_slopes_are_longer_than_their_bound_and_some_are_as_long(levels):
    """A response lies below the lines of the last levels, from some on."""
    tau = np.array(levels)
    longest = max(float(np.sum((below - tau) ** 2)) for below in np.tri(len(tau) + 1, len(tau), -1)[:, ::-1])
    crowd = People(records=NUMBERS, loss=constant(levels), bits=InsecureBits(seed=1))
    assert longest <= crowd.slopes_bound <= longest * (1 + 1e-12)


def test_below_is_what_gradients_are_made_of():
    rng = np.random.default_rng(4)
    records = people("quantile", 40, rng)
    theta = rng.normal(size=2)
    below = LINES.below(theta, records)
    assert ((below >= 0) & (below <= 1)).all()
    for level in LINES.levels:
        gradient = (below - level)[:, None] * records[0]
        np.testing.assert_allclose(gradient, LINES.gradient(theta, records, level), atol=1e-14)
    sharp = dataclasses.replace(LINES, bandwidth=1e-9)
    assert (sharp.below(theta, records) == (records[1] < records[0] @ theta)).all()
    assert sharp.below(np.array([1e9, 0.0]), (np.ones((2, 2)), np.array([1e300, -1e300]))).tolist() == [0.0, 1.0]


def test_natural_lengths():
    rate = 3.0  # an exponential law: the density at a quantile over the part above it
    loss = constant((0.2, 0.8), bandwidth=0.01)
    assert loss.natural_length(np.zeros(1), rate * 0.2, 0.8) == pytest.approx(1 / rate)
    assert loss.natural_length(np.zeros(1), 5.0, 0.2) == pytest.approx(0.04)
    assert constant((0.8,), bandwidth=0.01).natural_length(np.zeros(1), 0.1) == pytest.approx(2.0)
    assert loss.natural_length(np.zeros(1), 1e9, 0.2) == 0.01
    assert LOSSES["huber"].natural_length(np.array([0.0, 0.0, 2.0]), 1.0) == 2 * LOSSES["huber"].c
    assert LOSSES["huber"].natural_length(np.zeros(3), 1.0) == 0.05 * LOSSES["huber"].c
    assert LOSSES["gaussian"].natural_length(np.zeros(1), 1.0) == 4.0
    assert LOSSES["logistic"].natural_length(np.zeros(2), 1.0) == LOSSES["bradley-terry"].natural_length([], 1.0) == 1


# --- what is refused, before anything is paid or drawn ----------------------------------------------------------------


class Untouched:
    """Bits that nobody may ask for."""

    def bits(self, n):
        raise AssertionError(n)

    words = bits


CUSTOM = CustomLoss(
    value=lambda theta, records, _=None: records[0] - theta[0],
    gradient=lambda theta, records, _=None: (theta[0] - records[0])[:, None],
    bound=1.0, names=("m",), lower=(-5.0,), upper=(5.0,), start=(0.0,),
)  # fmt: skip
WIDE = LogisticLoss(covariates=tuple(f"x{i}" for i in range(33)), covariate_bound=1, coefficient_box=(-1, 1))


@pytest.mark.parametrize(
    ("records", "loss", "options", "error", "message"),
    [
        (NUMBERS, CUSTOM, {}, ParameterError, "one of this package"),
        ((np.zeros((20, 33)), np.zeros(20)), WIDE, {}, ParameterError, "convex losses of at most 32 coordinates"),
        (
            NUMBERS,
            LOSSES["gaussian"],
            {"settings": TrainingPlan()},
            ParameterError,
            "must be a FieldPlan, got TrainingPlan",
        ),
        (NUMBERS, LOSSES["gaussian"], {"settings": SandwichPlan()}, ParameterError, "must be a FieldPlan"),
        (NUMBERS, LOSSES["gaussian"], {"epsilon": 0}, ParameterError, "epsilon"),
        (NUMBERS, LOSSES["gaussian"], {"epsilon": math.nan}, ParameterError, "epsilon"),
        (NUMBERS, LOSSES["gaussian"], {"delta": 0}, ParameterError, "never pure"),
        (
            NUMBERS,
            LOSSES["gaussian"],
            {"epsilon": 1e-12, "delta": "1e-12"},
            ParameterError,
            "epsilon and delta must be such",
        ),
        (NUMBERS, LOSSES["gaussian"], {"assumptions": ("",)}, ParameterError, "assumptions"),
        (NUMBERS, LOSSES["gaussian"], {"about": 1}, ParameterError, "about"),
        ((np.zeros((20, 1)),), LOSSES["gaussian"], {}, ParameterError, "records"),
        ((np.zeros((20, 3)), np.zeros(20)), LOSSES["quantile"], {}, ParameterError, "records"),
        ((), LOSSES["gaussian"], {}, ParameterError, "records"),
        (NUMBERS, MeanLoss(data_bounds=(-1, 1), sd=1, clip=1e-100), {}, ParameterError, "choose other units"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_it_is_paid_or_noise_is_drawn(
    tmp_path, records, loss, options, error, message
):
    with pytest.raises(error, match=message):
        by_field(records, loss, **({"epsilon": 1, "delta": "1e-5", "bits": Untouched()} | options))
    ledger = Ledger(tmp_path / "l.db")
    ledger.set_budget("d", epsilon=1, delta="1e-3")
    paid = {"epsilon": 1, "delta": "1e-4", "account": Account(ledger, "d")}
    with pytest.raises(error, match=message):
        by_field(records, loss, **(paid | options))
    assert ledger.remaining("d") == (1, Fraction(1, 1000))


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize("name", CONVEX)
def test_a_number_that_is_none_counts_as_a_public_one_and_raises_nothing(name):
    """An error would tell that one person's record holds it."""
    records = people(name, 20, np.random.default_rng(8))
    at = next(i for i, column in enumerate(records) if column.dtype.kind == "f")
    for bad, counts_as in ((math.nan, 0.0), (math.inf, 1e300)):
        broken, replaced = records[at].copy(), records[at].copy()
        broken.flat[7], replaced.flat[7] = bad, counts_as
        one, two = (
            fit((*records[:at], changed, *records[at + 1 :]), LOSSES[name], plan=SHORT)
            for changed in (broken, replaced)
        )
        assert one.event == two.event
        assert one.value.to_bytes() == two.value.to_bytes()


def test_untouched_bits_are_asked_for_by_a_fit_that_runs():
    with pytest.raises(AssertionError):
        by_field(NUMBERS, LOSSES["gaussian"], epsilon=1, delta="1e-5", bits=Untouched())


def test_at_most_32_coordinates_that_the_loss_changes_in():
    assert takes_field(dataclasses.replace(WIDE, covariates=WIDE.covariates[:32], coefficient_box=(-1, 1), start=()))
    assert not takes_field(WIDE)
    assert not takes_field(CUSTOM)
    for items, taken in ((33, True), (34, False)):
        assert takes_field(BradleyTerryLoss(items=tuple(map(str, range(items))))) == taken
    assert {name for name, loss in LOSSES.items() if takes_field(loss)} == set(CONVEX)
    assert takes_field(constant(evenly(99)))


# --- nothing about the data decides whether it works ------------------------------------------------------------------


def finite_within(posterior, draws=20):
    values = posterior.sample(draws, rng=np.random.default_rng(1)).values
    return np.isfinite(values).all() and ((posterior.lower <= values) & (values <= posterior.upper)).all()


@pytest.mark.usefixtures("few_points")
@pytest.mark.filterwarnings("ignore::psephos.errors.PrivacyWarning")
@pytest.mark.parametrize(
    ("epsilon", "every"), [(8, 7), (10**4, 3), *(pytest.param(e, 1, marks=pytest.mark.slow) for e in (1, 10**4))]
)
@pytest.mark.parametrize("name", CONVEX)
def test_any_finite_data_give_finite_numbers(name, epsilon, every):
    events = []
    for records in degenerate(name)[::every]:
        release = fit(records, LOSSES[name], epsilon=epsilon, plan=SHORT)
        events.append(release.event)
        assert finite_within(release.value)
        assert FieldPosterior.from_bytes(release.value.to_bytes()).to_bytes() == release.value.to_bytes()
    assert all(event == events[0] for event in events)


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_very_few_people_are_enough_to_say_that_nothing_is_known(count):
    posterior = fit(people("gaussian", count, np.random.default_rng(7)), LOSSES["gaussian"], plan=SHORT).value
    assert posterior.hardly_known() == ("mean",)
    for name in ("logistic", "quantile"):
        assert finite_within(fit(people(name, count, np.random.default_rng(7)), LOSSES[name], plan=SHORT).value)


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize(
    "records",
    [
        (np.zeros((30, 1)), np.linspace(-1, 1, 30)),
        ones_and(np.full(30, 0.3)),
        ones_and(np.array([1.0, 2.0, 3.0])),
    ],
)
def test_five_levels_of_degenerate_numbers(records):
    assert finite_within(fit(records, constant(evenly(5)), plan=SHORT).value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (MeanLoss(data_bounds=(-1e40, 1e40), sd=1e20, clip=1e-20), "gaussian"),
        (dataclasses.replace(LOSSES["huber"], scale_box=(1e-30, 1e30), start=()), "huber"),
        (dataclasses.replace(LINES, bandwidth=1e-30), "quantile"),
        (BradleyTerryLoss(items=("p", "q", "r", "s"), score_box=(-1e300, 1e300)), "bradley-terry"),
        (BradleyTerryLoss(items=("p", "q", "r", "s"), score_box=(-1e-300, 1e-300)), "bradley-terry"),
    ],
)
def test_units_that_doubles_hold_work(loss, name):
    for epsilon in ("1e-6", 8):
        assert finite_within(fit(people(name, 30, np.random.default_rng(1)), loss, epsilon=epsilon).value)


# --- a release as a text, an entry in a ledger ------------------------------------------------------------------------


@pytest.mark.usefixtures("few_points")
def test_same_bits_same_posterior_and_other_bits_another():
    one, again, other = (fit(NUMBERS, LOSSES["gaussian"], seed=seed, plan=SHORT).value.to_bytes() for seed in (1, 1, 2))
    assert one == again
    assert one != other
    first, second = (
        by_field(NUMBERS, LOSSES["gaussian"], epsilon=1, delta="1e-5", settings=SHORT).value for _ in range(2)
    )
    assert first.to_bytes() != second.to_bytes()
    assert first.secure


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize("name", ["huber", "quantile", "bradley-terry"])
def test_a_release_as_text_is_the_same_again(name):
    records = people(name, 100, np.random.default_rng(14))
    release = fit(records, LOSSES[name], plan=SHORT, assumptions=("sampled at random",))
    read = release_from_json(release_to_json(release))
    assert json.loads(release_to_json(release))["method"] == "field"
    assert read.event == release.event
    assert read.guarantee == read.value.guarantee == release.guarantee
    assert "sampled at random" in read.guarantee.assumptions
    assert read.value.to_bytes() == release.value.to_bytes()
    assert not read.secure
    assert (read.value.levels, read.value.names) == (LOSSES[name].levels, LOSSES[name].names)


@pytest.mark.usefixtures("few_points")
def test_the_archive_holds_noisy_numbers_and_public_facts_alone():
    records = people("quantile", 100, np.random.default_rng(15))
    with tape() as kept:
        posterior = fit(records, LINES, plan=SHORT).value
    with np.load(io.BytesIO(posterior.to_bytes()), allow_pickle=False) as archive:
        arrays = set(archive.files) - {"header"}
        header = json.loads(archive["header"].tobytes())
    assert arrays == {
        "points", "slopes", "slope_sds", "bend_points", "bends", "bend_sds", "middle", "frame", "hidden", "cross",
        "centre", "places", "radii", "scores", "tilt",
    }  # fmt: skip
    assert set(header) == {
        "schema", "names", "lower", "upper", "levels", "knots", "people", "blur", "spread", "unit",
        "scores_sd", "scores_bound", "tilt_sd", "guarantee", "secure", "reason", "covariate_box",
    }  # fmt: skip
    unit = posterior.unit * 100
    rows = [shown for _, shown, _, event in kept if np.ndim(shown) == 1][-len(posterior.measured.slopes) :]
    np.testing.assert_allclose(posterior.measured.slopes * unit, rows, rtol=1e-10)
    (scores,) = (k for k in kept if np.shape(k[1]) == (3, 3))
    np.testing.assert_allclose(posterior.scores * unit**2 / 100, scores[1], rtol=1e-10)
    for total, shown, sd, event in kept:  # what was shown, and not what was summed
        assert (np.abs(shown / sd * float(event.sigma) - total) > 1e-4 * float(event.sigma)).all()


@pytest.mark.usefixtures("few_points")
def test_a_ledger_debits_once_and_repeats(tmp_path):
    loss, records = LOSSES["gaussian"], people("gaussian", 300, np.random.default_rng(17))
    account = Account(Ledger(tmp_path / "l.db"), "d", budget=(1, "1e-5"), request_id="r")
    paid = {"epsilon": 1, "delta": "1e-5"}
    first = by_field(records, loss, **paid, account=account)
    again = by_field(records, loss, **paid, account=account)
    assert first.remaining == again.remaining == (0, 0)
    assert again.value.to_bytes() == first.value.to_bytes()
    assert (again.event, again.guarantee, again.secure) == (first.event, first.guarantee, True)
    for changed in ({"settings": SHORT}, {"about": "other"}, {"assumptions": ("other",)}):
        with pytest.raises(BudgetError, match="another request"):
            by_field(records, loss, **paid, **changed, account=account)
    with pytest.raises(BudgetError, match="another request"):
        by_field(records, dataclasses.replace(loss, clip=3.0), **paid, account=account)
    with pytest.raises(BudgetError, match="another request"):
        by_newton_steps(records, loss, **paid, account=account)
    with pytest.raises(BudgetError, match="left"):
        by_field(records, loss, **paid, account=dataclasses.replace(account, request_id=None))


def test_a_ledger_takes_no_test_bits(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    ledger.set_budget("d", epsilon=1, delta="1e-3")
    for bits in (InsecureBits(seed=1), Untouched()):
        with pytest.raises(InsecureBitsError):
            by_field(NUMBERS, LOSSES["gaussian"], epsilon=1, delta="1e-5", bits=bits, account=Account(ledger, "d"))
    assert ledger.remaining("d") == (1, Fraction(1, 1000))


# --- what it finds ----------------------------------------------------------------------------------------------------


def deviations_of(values):
    """What 95 % intervals say of standard deviations; a draw where nothing was measured may be far away."""
    low, high = np.quantile(values, [0.025, 0.975], axis=-2)
    return (high - low) / (2 * stats.norm.ppf(0.975))


@pytest.mark.filterwarnings("ignore::psephos.errors.PrivacyWarning")
@pytest.mark.parametrize("name", CONVEX)
def test_with_a_huge_budget_it_is_the_classical_estimate_and_covariance(name):
    """Of a quantile too, whose curvature needs no window here."""
    loss = LOSSES[name]
    records = people(name, 4000, np.random.default_rng(10))
    values = fit(records, loss, epsilon=10**4).value.sample(1500, rng=np.random.default_rng(1)).values
    for i, level in enumerate(loss.levels or (None,)):
        best = weighted_m_estimate(records, loss, level=level)
        deviations = np.sqrt(np.diag(classical(loss, records, best, level)))
        draws = values[i] if loss.levels else values
        if name == "bradley-terry":
            draws, best = centred(draws), centred(best)
        assert (np.abs(np.median(draws, axis=0) - best) < 0.2 * deviations).all()
        np.testing.assert_allclose(deviations_of(draws), deviations, rtol=0.12)


def smoothed(law, tau, bandwidth):
    """The quantile of the law and normal noise of that size together."""
    grid = (np.arange(4000) + 0.5) / 4000
    return optimize.brentq(
        lambda theta: special.ndtr((theta - law.ppf(grid)) / bandwidth).mean() - tau,
        law.ppf(0.001) - 3,
        law.ppf(0.999) + 3,
    )


def test_quantiles_of_an_exponential_law():
    loss = constant(evenly(19), box=(0.0, 9.0))
    records = ones_and(np.random.default_rng(20).exponential(1.0, 8000))
    posterior = fit(records, loss, epsilon=2, seed=3).value
    assert posterior.levels == evenly(19)
    assert len(posterior.knots) == 11
    assert (posterior.knots[0], posterior.knots[-1]) == (0.05, 0.95)
    assert (posterior.knots[0], posterior.knots[-1]) == (evenly(19)[0], evenly(19)[-1])
    draws = posterior.sample(500, rng=np.random.default_rng(1)).values
    truth = np.array([smoothed(stats.expon(), tau, loss.bandwidth) for tau in loss.levels])
    medians, widths = np.median(draws, axis=1)[:, 0], deviations_of(draws)[:, 0]
    assert (np.abs(medians - truth) < 4 * widths).all()
    assert (np.abs(medians - truth) < 0.03 + 0.1 * truth).all()
    assert (widths < 0.03 + 0.1 * truth).all()
    assert (np.diff(medians) > 0).all()
    between = np.median(posterior.sample(300, levels=(0.42,), rng=np.random.default_rng(1)).values)
    assert medians[7] < between < medians[8]


ROBUST = HuberLoss(
    covariates=("b1", "b2", "b3"), covariate_bound=3**0.5, coefficient_box=(-5.0, 5.0), scale_box=(0.05, 10.0),
    start=(0.0, 0.0, 0.0, 1.0),
)  # fmt: skip


def near_normal(n, rng):
    x = rng.uniform(-1, 1, (n, 3))
    return x, x @ [1.5, -1.5, 1.0] + rng.normal(0, 0.5, n)


def test_where_a_posterior_is_near_normal_it_is_the_sandwich_s():
    ratios, far = [], []
    for seed in range(2):
        records = near_normal(6000, np.random.default_rng(seed))
        field, newton = (
            door(records, ROBUST, epsilon=4, delta="1e-5", bits=InsecureBits(seed=seed))
            .value.sample(600, rng=np.random.default_rng(seed))
            .values
            for door in (by_field, by_newton_steps)
        )
        ratios.append(deviations_of(field) / deviations_of(newton))
        far.append((np.median(field, axis=0) - np.median(newton, axis=0)) / deviations_of(newton))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)
    assert np.abs(far).max() < 3


def test_where_the_pilot_never_saw_the_curvature_it_does_not_say_that_it_knows():
    """All responses are far on one side of where it starts: the field that is fitted there is not that of the truth."""
    loss = constant((0.98,), box=(-5.0, 12.0))
    truth = stats.norm.ppf(0.98) * math.hypot(0.1, loss.bandwidth)
    for seed in range(2):
        records = ones_and(np.random.default_rng(seed).normal(0, 0.1, 10_000))
        posterior = fit(records, loss, epsilon=4, seed=seed).value
        low, high = posterior.sample(300, rng=np.random.default_rng(1)).intervals()[0, 0]
        assert low <= truth <= high or posterior.hardly_known()


# At a coverage of .95 the mean of 100 replicates has a standard deviation of .022. Seeds are fixed.

REPLICATES = 100
NARROW = constant((0.98,))


def held(door, data, loss, truth, *, replicates=REPLICATES, **options):
    """Which 95 % intervals held the truth: ``(replicates, ...)``."""
    found = []
    for seed in range(replicates):
        records = data(np.random.default_rng(seed))
        posterior = door(records, loss, bits=InsecureBits(seed=seed), **options).value
        low, high = np.moveaxis(posterior.sample(512, rng=np.random.default_rng(seed)).intervals(), -1, 0)
        found.append((low <= truth) & (truth <= high))
    return np.array(found)


@pytest.mark.slow
def test_a_quantile_of_narrow_numbers_is_held_where_a_wide_window_misleads_the_sandwich():
    truth = stats.norm.ppf(0.98) * math.hypot(0.1, NARROW.bandwidth)
    options = {"epsilon": 4, "delta": "1e-5"}

    def data(rng):
        return ones_and(rng.normal(0, 0.1, 10_000))

    assert 0.9 <= held(by_field, data, NARROW, truth, **options).mean() <= 0.99
    assert held(by_newton_steps, data, NARROW, truth, **options).mean() < 0.8


@pytest.mark.slow
def test_nineteen_quantiles_are_held_at_one_budget():
    """On the whole as often as they say; at the worst level, for one field has one shape, .85 of 100."""
    loss = constant(evenly(19), box=(0.0, 9.0))
    truth = np.array([[smoothed(stats.expon(), tau, loss.bandwidth)] for tau in loss.levels])
    coverage = held(
        by_field,
        lambda rng: ones_and(rng.exponential(1.0, 10_000)),
        loss,
        truth,
        epsilon=4,
        delta="1e-5",
    )
    assert 0.9 <= coverage.mean() <= 0.985
    assert coverage.mean(axis=0).min() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "name", "truth"),
    [
        (LOSSES["gaussian"], "gaussian", [1.0]),
        (LOSSES["logistic"], "logistic", [1.0, -0.5]),
        (dataclasses.replace(LINES, levels=(0.5,), level_weights=()), "quantile", [[1.0, -0.5]]),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(loss, name, truth):
    coverage = held(by_field, lambda rng: people(name, 5000, rng), loss, np.array(truth), epsilon=1, delta="1e-5")
    assert 0.9 <= coverage.mean() <= 0.99

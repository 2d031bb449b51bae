"""``borda`` and ``shaped``: noise on scores and on cycles apart. Sensitivity, noise, accounting, refusals, audits."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from enumeration import all_ballots
from psephos import Ballot, Comparisons, PairwiseEstimate, Profile, pairwise_margins, private_consensus
from psephos.central import borda as borda_module
from psephos.central import plan_consensus, release_from_json, release_to_json
from psephos.central import shaped as shaped_module
from psephos.central.borda import borda_margins, borda_noise, row_sum_sensitivity
from psephos.central.least_noise import least_noise_law
from psephos.central.margin_sensitivity import margin_sensitivity
from psephos.central.noisy_table import row_sums
from psephos.central.shaped import ShapedScales, shaped_margins, shaped_noise, shaped_scales
from psephos.errors import ParameterError
from psephos.pairwise import NoiseLaw, PartedNoise
from psephos.privacy import InsecureBits, epsilon_of
from psephos.privacy.audit import epsilon_lower_bound, mu_lower_bound
from psephos.privacy.gaussian import epsilon_upper, mu_lower

DELTA = Fraction(1, 10**6)
PROFILE = Profile.from_rankings(
    {("a", "b", "c", "d"): 40, ("b", "c", "a"): 25, ("c", ("a", "b")): 10, ("d",): 5}, items=["a", "b", "c", "d"]
)


def all_tables(m, unranked):
    """The margins of every single ballot, tied, truncated and empty ones included."""
    ballots = all_ballots(m)
    names = list("abcde"[:m])
    return np.array([pairwise_margins(Profile.from_ballots(names, [b]), unranked=unranked) for b in ballots])


@pytest.mark.parametrize("m", [3, 4])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_row_sum_sensitivity_by_brute_force(m, unranked):
    sums = all_tables(m, unranked).sum(axis=2)
    difference = np.abs(sums[:, None, :] - sums[None, :, :])
    bound = row_sum_sensitivity(m)
    assert difference.sum(-1).max() == bound.l1 == 2 * (m * m // 2)
    assert (difference**2).sum(-1).max() == bound.l2_squared == Fraction(4 * m * (m * m - 1), 3)


@pytest.mark.parametrize("m", [3, 4, 5])
@pytest.mark.parametrize("unranked", ["last", "missing"])
@pytest.mark.parametrize("ratio", [1.0001, 2, 10, 100])
def test_shaped_sensitivity_by_brute_force(m, unranked, ratio):
    """|dG|^2 / a + |dC|^2 / b over all pairs of ballots is at most Gam / a + Cyc / b, and reaches it."""
    tables = all_tables(m, unranked).astype(float)
    upper = np.triu_indices(m, 1)
    means = tables.mean(axis=2)
    gradient = (means[:, :, None] - means[:, None, :])[:, upper[0], upper[1]]
    cyclic = tables[:, upper[0], upper[1]] - gradient
    a, b = 1.0, ratio
    parts = [((part[:, None] - part[None, :]) ** 2).sum(-1) for part in (gradient, cyclic)]
    largest = (parts[0] / a + parts[1] / b).max()
    assert largest == pytest.approx(4 * (m * m - 1) / 3 / a + 4 * (m - 1) * (m - 2) / 6 / b, rel=1e-12)


def test_the_cyclic_part_alone_is_not_bounded_by_that_of_a_ballot():
    """Why a < b is required: cyclic answers reversed move the cyclic part more than any ballot can."""
    cycle = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    assert (row_sums(cycle) == 0).all()
    assert 4 * (np.triu(cycle, 1) ** 2).sum() == 12 > 4 * 2 * 1 / 6


@pytest.mark.parametrize("m", [3, 4])
def test_scores_of_cyclic_answers_obey_the_bound_of_ballots(m):
    """All answers in {-1, 0, 1} to all pairs, transitive or not: their scores are majorised by m-1, ..., 1-m."""
    upper = np.triu_indices(m, 1)
    answers = np.array(list(itertools.product((-1, 0, 1), repeat=len(upper[0]))))
    tables = np.zeros((len(answers), m, m), dtype=int)
    tables[:, upper[0], upper[1]] = answers
    sums = (tables - tables.transpose(0, 2, 1)).sum(axis=2)
    bound = row_sum_sensitivity(m)
    difference = np.abs(sums[:, None, :] - sums[None, :, :])
    assert difference.sum(-1).max() == bound.l1
    assert (difference**2).sum(-1).max() == bound.l2_squared


# The largest |B x|^2 of a person with k different pairs, k = 0, 1, ..., D, by an independent enumeration.
LARGEST = {
    3: [0, 2, 6, 8],
    4: [0, 2, 6, 12, 16, 18, 20],
    5: [0, 2, 6, 12, 20, 22, 30, 32, 36, 38, 40],
    6: [0, 2, 6, 12, 20, 30, 32, 38, 48, 54, 56, 60, 64, 66, 68, 70],
}


def all_answers(m):
    """Numbers of pairs and score vectors of all persons with strict answers on some pairs."""
    pairs = list(itertools.combinations(range(m), 2))
    incidence = np.zeros((len(pairs), m), dtype=np.int8)
    for row, (u, v) in enumerate(pairs):
        incidence[row, u], incidence[row, v] = 1, -1
    numbers, sums = np.zeros(1, dtype=np.int8), np.zeros((1, m), dtype=np.int8)
    for row in incidence:
        numbers = np.concatenate([numbers, numbers + 1, numbers + 1])
        sums = np.concatenate([sums, sums + row, sums - row])
    return numbers, sums


@pytest.mark.parametrize("m", [3, 4, 5, pytest.param(6, marks=pytest.mark.slow)])
def test_scores_of_persons_with_comparisons_by_brute_force(m):
    numbers, sums = all_answers(m)
    squares, lengths = (sums.astype(np.int16) ** 2).sum(axis=1), np.abs(sums).sum(axis=1)
    for k in range(1, m * (m - 1) // 2 + 1):
        bound = row_sum_sensitivity(m, pairs=k)
        assert squares[numbers == k].max() == LARGEST[m][k]
        largest = squares[numbers <= k].max()
        assert largest <= bound.l2_squared / 4 <= Fraction(117, 100) * int(largest)
        assert (largest == bound.l2_squared / 4) or m <= k < m * (m - 1) // 2
        assert 2 * lengths[numbers <= k].max() <= bound.l1
        if k < m // 2:
            assert 2 * lengths[numbers <= k].max() == bound.l1
    assert row_sum_sensitivity(m, pairs=10**6) == row_sum_sensitivity(m)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_two_persons_with_comparisons_by_brute_force(k):
    """Whatever the pairs of each, ties included: no two persons differ by more, and some do by as much."""
    answers = np.array([x for x in itertools.product((-1, 0, 1), repeat=6) if sum(map(abs, x)) <= k])
    tables = np.zeros((len(answers), 4, 4), dtype=int)
    tables[:, *np.triu_indices(4, 1)] = answers
    sums = (tables - tables.transpose(0, 2, 1)).sum(axis=2)
    difference = np.abs(sums[:, None, :] - sums[None, :, :])
    bound = row_sum_sensitivity(4, pairs=k)
    assert (difference**2).sum(-1).max() == bound.l2_squared
    assert difference.sum(-1).max() <= bound.l1


DUELS = Comparisons.from_columns(
    list("abcd"), [0, 0, 1, 2, 3, 0], [1, 2, 2, 3, 0, 1], [1, 1, -1, 0, 1, 1], person=[0, 0, 1, 1, 2, 2]
)


@pytest.mark.parametrize("mechanism", ["borda", "shaped", "probe"])
@pytest.mark.parametrize(("unit", "pairs", "rows"), [("person", 2, 24), ("comparison", None, 8)])
def test_comparisons_have_the_noise_of_their_cap(mechanism, unit, pairs, rows):
    release = private_consensus(DUELS, epsilon=1, delta=DELTA, mechanism=mechanism, unit=unit, pairs=pairs)
    if mechanism == "borda":  # Laplace here: 2 * 2 k
        assert release.event.sensitivity == 4 * (pairs or 1)
    else:
        assert release.event.parts[-1].sensitivity_squared in {rows, 4 * (pairs or 1)}
        assert Fraction(999, 1000) <= epsilon_of(release.event, DELTA) <= 1
    assert len(release.value.ranking()) <= 4


@pytest.mark.parametrize("mechanism", ["shaped", "probe"])
def test_many_comparisons_a_person_leave_nothing_to_shape(mechanism):
    with pytest.raises(ParameterError, match="scores alone cost as much"):
        private_consensus(DUELS, epsilon=1, delta=DELTA, mechanism=mechanism, pairs=3)


@pytest.mark.parametrize(("m", "k"), [(11, 9), (12, 10), (20, 18), (6, 12)])
def test_shaped_spends_more_on_scores_where_they_are_nearly_all(m, k):
    """Nine tenths would put less noise on cycles than `gaussian` does."""
    plan = plan_consensus(m, epsilon=1, delta=DELTA, mechanism="shaped", pairs=k)
    assert plan.law.gradient < plan.law.cyclic
    event = shaped_margins(
        np.zeros((m, m), dtype=np.int64), plan.scales, margins=plan.margins, rows=plan.rows, bits=InsecureBits(seed=1)
    )[1]
    assert Fraction(999, 1000) <= epsilon_of(event, DELTA) <= 1


def test_refusals_of_shaped():
    with pytest.raises(ParameterError, match="delta > 0"):
        plan_consensus(4, epsilon=1, mechanism="shaped")
    with pytest.raises(ParameterError, match="3 items"):
        plan_consensus(2, epsilon=1, delta=DELTA, mechanism="shaped")
    # a > b would spend less on scores than `gaussian` does: false for cyclic answers, and refused
    for share in (Fraction(1, 2), Fraction(1)):
        with pytest.raises(ParameterError, match="share"):
            shaped_scales(
                10,
                margins=margin_sensitivity(10, "person"),
                rows=row_sum_sensitivity(10),
                epsilon=Fraction(1),
                delta=DELTA,
                share=share,
            )


@pytest.mark.parametrize("m", [3, 4, 10, 59])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_shaped_accounts_for_its_target(m, epsilon):
    """What ran is within 0.1 % of the target and never above, and the noise has the variances asked for."""
    plan = plan_consensus(m, epsilon=epsilon, delta=DELTA, mechanism="shaped")
    assert isinstance(plan.scales, ShapedScales)
    event = shaped_margins(
        np.zeros((m, m), dtype=np.int64), plan.scales, margins=plan.margins, rows=plan.rows, bits=InsecureBits(seed=1)
    )[1]
    again = epsilon_of(event, DELTA)
    assert Fraction(epsilon) * Fraction(999, 1000) <= again <= Fraction(epsilon)
    mu2 = float(mu_lower(epsilon, DELTA)) ** 2
    if plan.scales.margin > 10:
        assert float(plan.law.gradient) == pytest.approx(4 * (m * m - 1) / 3 / (0.9 * mu2), rel=0.01)
        assert float(plan.law.cyclic) == pytest.approx(4 * (m - 1) * (m - 2) / 6 / (0.1 * mu2), rel=0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", 0), ("0.5", DELTA), ("3", DELTA)])
def test_borda_accounts_for_its_target(epsilon, delta):
    plan = plan_consensus(6, epsilon=epsilon, delta=delta, mechanism="borda")
    event = borda_margins(
        np.zeros((6, 6), dtype=np.int64), plan.scales, sensitivity=plan.rows, bits=InsecureBits(seed=1)
    )[1]
    again = epsilon_of(event, plan.delta)
    assert Fraction(epsilon) * Fraction(999, 1000) <= again <= Fraction(epsilon)
    assert (plan.delta == 0) is (plan.scales.family == "discrete-laplace")


@pytest.mark.parametrize("mechanism", ["borda", "shaped"])
def test_without_noise_the_table_is_what_it_should_be(mechanism, monkeypatch):
    zeros = lambda _scale, n, _bits: np.zeros(n, dtype=np.int64)  # noqa: E731
    for module in (borda_module, shaped_module):
        monkeypatch.setattr(module, "rounded_gaussian_array", zeros)
    monkeypatch.setattr(borda_module, "discrete_laplace_array", zeros)
    exact = pairwise_margins(PROFILE)
    value = private_consensus(PROFILE, epsilon=1, delta=DELTA, mechanism=mechanism, bits=InsecureBits(seed=1)).value
    if mechanism == "shaped":
        assert value.estimate.margins.tolist() == exact.tolist()
    else:
        scores = exact.sum(axis=1)
        assert value.estimate.margins.tolist() == [[Fraction(int(u - v), 4) for v in scores] for u in scores]


def test_golden_borda():
    """The noisy scores recomputed from the words by the textbook quantile: 2 floor(m^2/2) / epsilon = 16."""
    value = private_consensus(PROFILE, epsilon=1, mechanism="borda", bits=InsecureBits(seed=7)).value
    words = InsecureBits(seed=7).words(4).tolist()
    sizes = [math.floor(16 * (math.log(2 / (1 + math.exp(-1 / 16))) - math.log((w >> 1) / 2**63))) for w in words]
    noise = [-x if w & 1 else x for w, x in zip(words, sizes, strict=True)]
    scores = [int(r) + z for r, z in zip(pairwise_margins(PROFILE).sum(axis=1), noise, strict=True)]
    assert value.estimate.margins.tolist() == [[Fraction(u - v, 4) for v in scores] for u in scores]


def parts(tables):
    """Mean squared size of the gradient and of the cyclic part, per dimension."""
    m = tables.shape[1]
    upper = np.triu_indices(m, 1)
    means = tables.mean(axis=2)
    gradient = (means[:, :, None] - means[:, None, :])[:, upper[0], upper[1]]
    cyclic = tables[:, upper[0], upper[1]] - gradient
    return (gradient**2).sum(1).mean() / (m - 1), (cyclic**2).sum(1).mean() / ((m - 1) * (m - 2) / 2)


def release_of(mechanism, m):
    """The release function of a mechanism on ballots of m items."""
    rows = row_sum_sensitivity(m)
    if mechanism == "borda":
        return functools.partial(borda_margins, sensitivity=rows)
    return functools.partial(shaped_margins, margins=margin_sensitivity(m, "person"), rows=rows)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["borda", "shaped"])
def test_noise_has_the_stated_variances(mechanism):
    """6,000 tables of five items: each part within 4.9 standard errors of its law, and 10 % off would be seen."""
    m, n = 5, 6000
    plan = plan_consensus(m, epsilon=1, delta=DELTA, mechanism=mechanism)
    zero = np.zeros((m, m), dtype=np.int64)
    bits = InsecureBits(seed=3)
    release = release_of(mechanism, m)
    tables = np.array([release(zero, plan.scales, bits=bits)[0] for _ in range(n)]).astype(float)
    gradient, cyclic = parts(tables)
    law = plan.law
    assert isinstance(law, PartedNoise)
    assert abs(gradient / float(law.gradient) - 1) < 4.9 * math.sqrt(2 / (n * (m - 1))) < 0.05
    if mechanism == "borda":
        assert cyclic < 1e-20
    else:
        assert abs(cyclic / float(law.cyclic) - 1) < 4.9 * math.sqrt(2 / (n * 6)) < 0.05
        assert law.gradient < law.cyclic
    assert tables[:, 0, 1].var() == pytest.approx(law.variance, rel=0.1)
    simulated = parts(np.array([law.simulate(np.random.default_rng(k)) for k in range(n)]))
    assert simulated[0] == pytest.approx(float(law.gradient), rel=0.1)
    assert simulated[1] == pytest.approx(float(law.cyclic_variance), rel=0.1, abs=1e-20)


@pytest.mark.parametrize("mechanism", ["borda", "shaped"])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_releases_round_trip(mechanism, unranked):
    release = private_consensus(PROFILE, epsilon=1, delta=DELTA, mechanism=mechanism, unranked=unranked)
    text = release_to_json(release)
    again = release_from_json(text)
    assert release_to_json(again) == text
    assert again.value.estimate.margins.tolist() == release.value.estimate.margins.tolist()
    assert again.value.estimate.noise == release.value.estimate.noise
    assert again.event == release.event
    assert release.value.mechanism == mechanism


def test_borda_of_one_and_two_items():
    one = Profile.from_ballots(["a"], {Ballot.strict([0]): 5})
    assert private_consensus(one, epsilon=1, mechanism="borda").value.ranking() == ((1, ("a",)),)
    two = Profile.from_rankings({("a", "b"): 10**6}, items=["a", "b"])
    assert private_consensus(two, epsilon=1, mechanism="borda").value.tiers == (("a",), ("b",))


def test_astronomical_profiles():
    profile = Profile.from_ballots(["a", "b", "c"], {Ballot.strict([2, 0, 1]): 10**30})
    for mechanism in ("borda", "shaped"):
        value = private_consensus(profile, epsilon=1, delta="1e-40", mechanism=mechanism).value
        assert value.tiers == (("c",), ("a",), ("b",))


# ------------------------------------------------------------------ audits

TRIALS = 10_000


def neighbours():
    """Row sums and margins of 35 people, one of whom votes an order or its reverse."""
    others = {("a", "b", "c", "d"): 20, ("b", "d", "a", "c"): 15}
    tables = []
    for ballot in (("a", "b", "c", "d"), ("d", "c", "b", "a")):
        people = dict(others)
        people[ballot] = people.get(ballot, 0) + 1
        tables.append(pairwise_margins(Profile.from_rankings(people, items=list("abcd"))))
    return tables


def mu_measured(release, scales):
    """Likelihood-ratio test on the released table, threshold fixed in the middle."""
    first, second = neighbours()
    bits = InsecureBits(seed=11)
    noise = shaped_noise(4, scales) if isinstance(scales, ShapedScales) else borda_noise(4, scales)
    change = (second - first).astype(float)
    means = change.mean(axis=1)
    gradient = means[:, None] - means[None, :]
    direction = gradient / float(noise.gradient)
    if noise.cyclic is not None:
        direction = direction + (change - gradient) / float(noise.cyclic)
    middle = (direction * (first + second)).sum() / 2
    counts = []
    for exact in (first, second):
        draws = np.array([release(exact, scales, bits=bits)[0] for _ in range(TRIALS)]).astype(float)
        counts.append(int(((draws * direction).sum(axis=(1, 2)) > middle).sum()))
    return mu_lower_bound(false_alarms=counts[0], hits=counts[1], trials=TRIALS)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_audit_of_shaped(epsilon):
    scales = plan_consensus(4, epsilon=epsilon, delta=DELTA, mechanism="shaped").scales
    measured = float(epsilon_upper(mu_measured(release_of("shaped", 4), scales), DELTA))
    assert 0.5 * float(epsilon) < measured <= float(epsilon)
    half = ShapedScales(margin=scales.margin / 2, row_sum=scales.row_sum / 2)
    assert float(epsilon_upper(mu_measured(release_of("shaped", 4), half), DELTA)) > float(epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_audit_of_borda_with_normal_noise(epsilon):
    law = least_noise_law(row_sum_sensitivity(4), epsilon=Fraction(epsilon), delta=Fraction(1, 100))
    assert law.family == "rounded-gaussian"
    claim = float(epsilon_upper(mu_lower(epsilon, Fraction(1, 100)), DELTA))
    measured = float(epsilon_upper(mu_measured(release_of("borda", 4), law), DELTA))
    assert 0.5 * claim < measured <= claim
    half = NoiseLaw(family=law.family, scale=law.scale / 2)
    assert float(epsilon_upper(mu_measured(release_of("borda", 4), half), DELTA)) > claim


def test_audit_of_borda_with_laplace_noise():
    """The event of largest likelihood ratio: every noisy score lies at or beyond the second profile's side."""
    first, second = (row_sums(table).astype(np.int64) for table in neighbours())
    sign = np.sign(second - first)

    def measured(law):
        bits = InsecureBits(seed=12)
        counts = []
        for exact in (first, second):
            noise = borda_module.discrete_laplace_array(law.scale, TRIALS * 4, bits).reshape(TRIALS, 4)
            counts.append(int(((exact + noise - second) * sign >= 0).all(axis=1).sum()))
        return epsilon_lower_bound(false_alarms=counts[0], hits=counts[1], trials=TRIALS)

    law = least_noise_law(row_sum_sensitivity(4), epsilon=Fraction(1), delta=Fraction(0))
    assert 0.6 < measured(law) <= 1
    assert measured(NoiseLaw(family=law.family, scale=law.scale / 2)) > 1


def test_adaptive_uses_the_cyclic_variance():
    """A table whose cyclic part is what noise of variance b would make keeps none of it; a tenfold one keeps most."""
    from psephos.central.post_processing import model_part, shrinkage

    cycle = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    noise = PartedNoise(m=3, gradient=Fraction(1), cyclic=Fraction(300))
    items = ("a", "b", "c")

    def rho(table):
        estimate = PairwiseEstimate(items=items, margins=table, noise=noise)
        return shrinkage(estimate, model_part(estimate, people=0))

    assert rho(cycle * 10) == 0
    assert float(rho(cycle * 20)) == pytest.approx((0.75 / 0.9) ** 4, abs=1e-5)
    assert rho(cycle * 100) == 1

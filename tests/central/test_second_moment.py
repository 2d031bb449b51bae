"""The second moment: exact values, what it costs alone and beside a table, its noise, audits, and the covariance."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from enumeration import all_ballots
from laws import accepts, discrete_laplace_pmf, rounded_gaussian_pmf
from psephos import Ballot, PairwiseEstimate, Profile, pairwise_margins
from psephos.central.borda import borda_margins, borda_noise, row_sum_sensitivity
from psephos.central.gaussian import gaussian_law
from psephos.central.laplace import laplace_law
from psephos.central.margin_sensitivity import margin_sensitivity
from psephos.central.second_moment import (
    PURE_SHARE,
    MomentScales,
    free_moment_scales,
    free_moment_scales_pure,
    mean_score_covariance,
    mean_score_errors,
    mean_scores,
    moment_sensitivity,
    noisy_moment,
    row_sum_variance,
    score_moment,
    second_moment_event,
    second_moment_scales,
    second_moment_scales_pure,
)
from psephos.errors import ParameterError
from psephos.pairwise import NoiseLaw, PartedNoise, margins_plain
from psephos.privacy import InsecureBits, epsilon_of
from psephos.privacy.audit import epsilon_lower_bound, mu_lower_bound
from psephos.privacy.gaussian import epsilon_upper, mu_lower
from psephos.privacy.samplers import discrete_laplace_array, rounded_gaussian_array
from psephos.scores.ranks import rank_intervals, rank_intervals_from_errors

DELTA = Fraction(1, 10**6)
NAMES = tuple("abcdefgh")
NO_NOISE = MomentScales(family="rounded-gaussian", diagonal=Fraction(1, 10**6), off_diagonal=Fraction(1, 10**6))


def moment_plain(profile, unranked):
    """The definition in Python integers, one ballot and pair of items at a time."""
    m = profile.m
    total = [[0] * m for _ in range(m)]
    for column, count in zip(profile.places.T, profile.counts, strict=True):
        scores = [sum(row) for row in margins_plain(column[:, None], unranked=unranked).tolist()]
        for u in range(m):
            for v in range(m):
                total[u][v] += count * scores[u] * scores[v]
    return total


# ------------------------------------------------------------------ the exact second moment

PROFILES = st.integers(1, 6).flatmap(
    lambda m: st.lists(
        st.tuples(
            st.lists(st.integers(0, m), min_size=m, max_size=m),
            st.one_of(st.integers(1, 40), st.integers(1, 2**90)),
        ),
        min_size=1,
        max_size=8,
    )
)


@given(PROFILES, st.sampled_from(["last", "missing"]))
@settings(max_examples=150, deadline=None)
def test_the_kernel_agrees_with_the_definition(rows, unranked):
    places = np.array([row for row, _count in rows]).T
    profile = Profile.from_places(NAMES[: len(places)], places, [count for _row, count in rows], base=1)
    moment = score_moment(profile, unranked=unranked)
    assert moment.tolist() == moment_plain(profile, unranked)
    assert (moment.sum(axis=1) == 0).all()


@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_every_ballot_of_four_items(unranked):
    for ballot in all_ballots(4):
        profile = Profile.from_ballots(tuple("abcd"), [ballot])
        assert score_moment(profile, unranked=unranked).tolist() == moment_plain(profile, unranked)


def test_many_ballots_and_places_with_gaps():
    """More distinct ballots than a block holds, against a product of score matrices."""
    generator = np.random.default_rng(1)
    places = generator.permuted(np.tile(np.arange(1, 9), (10_000, 1)), axis=1).astype(np.uint8)
    profile = Profile(items=NAMES, places=places.T, counts=(1,) * 10_000)
    scores = 9 - 2 * places.astype(np.int64)
    assert score_moment(profile).tolist() == (scores.T @ scores).tolist()
    gaps = Profile(items=("a", "b", "c"), places=np.array([[1], [3], [3]], dtype=np.uint8), counts=(2,))
    assert score_moment(gaps).tolist() == [[8, -4, -4], [-4, 2, 2], [-4, 2, 2]]


@pytest.mark.parametrize("people", [2**59, 2**59 + 1, 10**30])
def test_integers_of_any_size(people):
    """int64 up to N (m - 1)^2 = 2^61, Python integers above."""
    profile = Profile.from_ballots(tuple("abc"), {Ballot.strict([0, 1, 2]): people - 1, Ballot(((2,),)): 1})
    moment = score_moment(profile)
    assert moment.dtype == (np.int64 if people <= 2**59 else object)
    assert moment.tolist() == moment_plain(profile, "last")
    assert moment[0, 0] == 4 * people - 3


def test_one_item_and_refusals():
    for count in (7, 10**30):
        one = Profile.from_ballots(tuple("a"), {Ballot.strict([0]): count})
        assert score_moment(one).tolist() == [[0]]
    assert noisy_moment(score_moment(one), second_moment_scales(1, mu_squared=Fraction(1)), bits=InsecureBits(seed=1))
    with pytest.raises(ParameterError, match="unranked"):
        score_moment(one, unranked="first")


# ------------------------------------------------------------------ what it costs


def ballots_of(m, unranked):
    """Margins u < v, scores, and second moments of every single ballot."""
    tables = np.array(
        [
            margins_plain(np.array(b.places(m), dtype=np.uint8)[:, None], unranked=unranked).astype(np.int64)
            for b in all_ballots(m)
        ]
    )
    scores = tables.sum(axis=2)
    return tables[:, *np.triu_indices(m, 1)], scores, scores[:, :, None] * scores[:, None, :]


FROBENIUS = {2: 4, 3: 100, 4: 800, 5: 3200}
LENGTH = {2: 3, 3: 19, 4: 72, 5: 153}


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_sensitivity_by_brute_force(m, unranked):
    moments = ballots_of(m, unranked)[2]
    upper = np.triu_indices(m)
    frobenius = max(((moments - one) ** 2).sum(axis=(1, 2)).max() for one in moments)
    length = max(np.abs(moments - one)[:, *upper].sum(axis=1).max() for one in moments)
    bound = moment_sensitivity(m)
    assert frobenius == FROBENIUS[m] <= bound.l2_squared == 2 * Fraction(m * (m * m - 1), 3) ** 2
    assert length == LENGTH[m] <= bound.l1
    assert (frobenius == bound.l2_squared) is (m >= 4)


def test_two_orthogonal_ballots_attain_the_bound_and_for_six_items_none_are():
    s, t = np.array([3, 1, -1, -3]), np.array([-1, 3, -3, 1])
    assert s @ t == 0
    assert ((np.outer(s, s) - np.outer(t, t)) ** 2).sum() == moment_sensitivity(4).l2_squared
    s = np.array([5, 3, 1, -1, -3, -5])
    products = {int(s @ np.array(t)) for t in itertools.permutations(s.tolist())}
    assert min(map(abs, products)) == 2
    assert moment_sensitivity(6).l2_squared - 8 == 2 * 70**2 - 2 * 2**2


TABLES = {
    "gaussian": {"margins": [Fraction(7)]},
    "borda": {"row_sums": [Fraction(7)]},
    "shaped": {"margins": [Fraction(9)], "row_sums": [Fraction(8)]},
    "probe of margins": {"margins": [Fraction(20), Fraction(7)]},
    "probe of scores": {"margins": [Fraction(20)], "row_sums": [Fraction(11)]},
}


def losses(m, unranked, tables, scales):
    """mu^2 of the tables with the second moment, for all pairs of ballots; and that of the tables by their bound."""
    margins, scores, moments = ballots_of(m, unranked)
    per_margin = float(sum((1 / sd**2 for sd in tables.get("margins", ())), Fraction(0)))
    per_sum = float(sum((1 / sd**2 for sd in tables.get("row_sums", ())), Fraction(0)))
    upper = np.triu_indices(m, 1)
    largest = 0.0
    for number in range(len(margins)):
        change = moments - moments[number]
        loss = per_margin * ((margins - margins[number]) ** 2).sum(axis=1)
        loss += per_sum * ((scores - scores[number]) ** 2).sum(axis=1)
        loss += (np.diagonal(change, axis1=1, axis2=2) ** 2).sum(axis=1) / float(scales.diagonal) ** 2
        loss += (change[:, *upper] ** 2).sum(axis=1) / float(scales.off_diagonal) ** 2
        largest = max(largest, loss.max())
    alone = per_margin * float(margin_sensitivity(m, "person").l2_squared)
    return largest, alone + per_sum * float(row_sum_sensitivity(m).l2_squared)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("unranked", ["last", "missing"])
@pytest.mark.parametrize("table", TABLES)
def test_the_moment_is_free_beside_tables_with_normal_noise(m, unranked, table):
    largest, alone = losses(m, unranked, TABLES[table], free_moment_scales(m, **TABLES[table]))
    assert largest == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("m", [4, 5])
def test_a_little_less_noise_beside_row_sums_would_not_be_free(m):
    """The constant 2 R cannot be lowered by a fifth."""
    tables = TABLES["borda"]
    scales = free_moment_scales(m, row_sums=[tables["row_sums"][0] * Fraction(89, 100)])
    largest, alone = losses(m, "last", tables, scales)
    assert largest > alone * 1.001


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("unranked", ["last", "missing"])
def test_the_moment_is_free_beside_margins_with_laplace_noise(m, unranked):
    margins, _scores, moments = ballots_of(m, unranked)
    upper = np.triu_indices(m)
    scales = free_moment_scales_pure(m, margin=Fraction(5))
    assert scales.diagonal == scales.off_diagonal == 5 * 2 * (m * m // 2 + m - 1)
    worst = max(
        (
            np.abs(margins - margins[k]).sum(axis=1) / 5
            + np.abs(moments - moments[k])[:, *upper].sum(axis=1) / float(scales.diagonal)
        ).max()
        for k in range(len(margins))
    )
    assert worst == pytest.approx(float(margin_sensitivity(m, "person").l1 / 5), rel=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 59])
def test_scales_are_rounded_up(m):
    square = max(Fraction(m * (m * m - 1), 3), Fraction(1))
    alone = second_moment_scales(m, mu_squared=Fraction(1, 7))
    assert 14 * square**2 <= alone.diagonal**2 <= 14 * square**2 * Fraction(10**12 + 1, 10**12)
    assert alone.diagonal**2 / 2 <= alone.off_diagonal**2 * Fraction(10**12 + 1, 10**12)
    assert 7 * square**2 <= alone.off_diagonal**2
    for tables, tau_squared in (
        ({"margins": [Fraction(3)]}, Fraction(9 * m)),
        ({"row_sums": [Fraction(3)]}, Fraction(9)),
        ({"margins": [Fraction(3)], "row_sums": [Fraction(3)]}, 1 / (Fraction(1, 9 * m) + Fraction(1, 9))),
    ):
        scales = free_moment_scales(m, **tables)
        wanted = 2 * square * tau_squared
        assert wanted <= scales.diagonal**2 <= wanted * Fraction(10**12 + 1, 10**12)
        assert wanted / 2 <= scales.off_diagonal**2 <= wanted / 2 * Fraction(10**12 + 1, 10**12)
    with pytest.raises(ParameterError, match="beside a table"):
        free_moment_scales(m)


@pytest.mark.parametrize("m", [4, 10])
def test_the_share_of_the_budget_that_the_free_noise_is_worth(m):
    mu_squared = mu_lower(1, DELTA) ** 2
    rows = gaussian_law(row_sum_sensitivity(m), epsilon=Fraction(1), delta=DELTA).scale
    margin = gaussian_law(margin_sensitivity(m, "person"), epsilon=Fraction(1), delta=DELTA).scale
    for free, share in (
        (free_moment_scales(m, row_sums=[rows]), Fraction(1, 4)),
        (free_moment_scales(m, margins=[margin]), Fraction(m + 1, 6 * m)),
    ):
        bought = second_moment_scales(m, mu_squared=share * mu_squared)
        assert float(free.diagonal) == pytest.approx(float(bought.diagonal), rel=1e-9)


@pytest.mark.parametrize("m", [1, 3, 10])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_a_moment_alone_accounts_for_its_target(m, epsilon):
    target = Fraction(epsilon)
    pure = second_moment_event(m, second_moment_scales_pure(m, epsilon=target))
    assert epsilon_of(pure, 0) == target
    normal = second_moment_event(m, second_moment_scales(m, mu_squared=mu_lower(epsilon, DELTA) ** 2))
    assert target * Fraction(999, 1000) <= epsilon_of(normal, DELTA) <= target


# ------------------------------------------------------------------ the noise

MOMENT = np.array([[8, -4, -4], [-4, 2, 2], [-4, 2, 2]])


def from_words(words, quantile):
    """Noise by the textbook quantile of |X| at the tail probability that the upper 63 bits of a word are."""
    sizes = [quantile(((w >> 1) + 0.5) / 2**63) for w in words]
    return [-x if w & 1 else x for w, x in zip(words, sizes, strict=True)]


@pytest.mark.parametrize("family", ["rounded-gaussian", "discrete-laplace"])
def test_golden(family):
    """The diagonal and then u < v, each recomputed from its word: sqrt(2) 8 / mu with mu^2 = 2/25, and 24 / epsilon."""
    if family == "rounded-gaussian":
        scales = second_moment_scales(3, mu_squared=Fraction(2, 25))
        assert float(scales.diagonal) == pytest.approx(40)
        quantiles = [lambda tail, sd=sd: math.floor(-sd * ndtri(tail / 2) + 0.5) for sd in (40, 40 / math.sqrt(2))]
    else:
        scales = second_moment_scales_pure(3, epsilon=Fraction(1))
        constant = math.log(2 / (1 + math.exp(-1 / 24)))
        quantiles = [lambda tail: math.floor(24 * (constant - math.log(tail)))] * 2
    noisy = noisy_moment(MOMENT, scales, bits=InsecureBits(seed=7))
    bits = InsecureBits(seed=7)
    diagonal = from_words(bits.words(3).tolist(), quantiles[0])
    (x, y, z) = from_words(bits.words(3).tolist(), quantiles[1])
    noise = np.array([[diagonal[0], x, y], [x, diagonal[1], z], [y, z, diagonal[2]]])
    assert noisy.tolist() == (MOMENT + noise).tolist()
    assert noisy.dtype == np.int64


@pytest.mark.parametrize("family", ["rounded-gaussian", "discrete-laplace"])
def test_noise_has_its_law(family):
    """4,000 releases: diagonal and other entries agree with their laws, and not with one 10 % wider."""
    scales = MomentScales(family=family, diagonal=Fraction(30), off_diagonal=Fraction(20))
    pmf = rounded_gaussian_pmf if family == "rounded-gaussian" else discrete_laplace_pmf
    bits = InsecureBits(seed=5)
    draws = np.array([noisy_moment(MOMENT, scales, bits=bits) - MOMENT for _ in range(4000)])
    assert (draws == draws.transpose(0, 2, 1)).all()
    for entries, scale in (
        (np.diagonal(draws, axis1=1, axis2=2).ravel(), 30),
        (draws[:, *np.triu_indices(3, 1)].ravel(), 20),
    ):
        assert accepts(entries, pmf, scale)
        assert not accepts(entries, pmf, 1.1 * scale)
    contrast = draws[:, 0, 0] + draws[:, 1, 1] - 2 * draws[:, 0, 1]
    assert contrast.std() / 2 == pytest.approx(float(scales.sd), rel=0.06)


def test_noise_on_integers_beyond_64_bits():
    moment = np.array([[2**70, -(2**70)], [-(2**70), 2**70]], dtype=object)
    scales = second_moment_scales_pure(2, epsilon=Fraction(1))
    noisy = noisy_moment(moment, scales, bits=InsecureBits(seed=1))
    assert noisy.dtype == object
    assert all(isinstance(x, int) and 0 < abs(abs(x) - 2**70) < 1000 for x in noisy.ravel().tolist())
    huge = noisy_moment(MOMENT, second_moment_scales_pure(3, epsilon=Fraction(1, 10**30)), bits=InsecureBits(seed=1))
    assert huge.dtype == object
    assert huge.tolist() == huge.T.tolist()


# ------------------------------------------------------------------ audits

TRIALS = 100_000
STRICT = (3, 1, -1, -3)


def noisy_copies(row_sums, moment, tau, scales, bits):
    """TRIALS releases of row sums and of the second moment (diagonal, then u < v), as rows of one array."""
    m = len(row_sums)
    pairs = m * (m - 1) // 2
    moments = [
        np.diag(moment) + rounded_gaussian_array(scales.diagonal, TRIALS * m, bits).reshape(TRIALS, m),
        moment[np.triu_indices(m, 1)]
        + rounded_gaussian_array(scales.off_diagonal, TRIALS * pairs, bits).reshape(TRIALS, pairs),
    ]
    if tau is None:
        return np.hstack(moments)
    return np.hstack([row_sums + rounded_gaussian_array(tau, TRIALS * m, bits).reshape(TRIALS, m), *moments])


def mu_measured(second, tau, scales, claimed):
    """Likelihood-ratio test between 36 people of whom one has the scores STRICT or ``second``.

    ``claimed`` are the scales by which the test weighs entries; the noise has the scales given before it.
    """
    others = [(3, 1, -1, -3)] * 20 + [(1, -3, 3, -1)] * 15
    bits, exact = InsecureBits(seed=31), []
    for one in (STRICT, second):
        people = np.array([*others, one])
        exact.append((people.sum(axis=0), people.T @ people))
    upper = np.triu_indices(4, 1)
    rows = [
        np.concatenate([r, np.diag(s), s[upper]]) if tau else np.concatenate([np.diag(s), s[upper]]) for r, s in exact
    ]
    weights = [1 / float(claimed.diagonal) ** 2] * 4 + [1 / float(claimed.off_diagonal) ** 2] * 6
    weights = np.array(([1 / float(tau) ** 2] * 4 if tau else []) + weights)
    direction = (rows[1] - rows[0]) * weights
    middle = direction @ (rows[0] + rows[1]) / 2
    counts = [int((noisy_copies(r, s, tau, scales, bits) @ direction > middle).sum()) for r, s in exact]
    return mu_lower_bound(false_alarms=counts[0], hits=counts[1], trials=TRIALS)


def halved(scales):
    return MomentScales(family=scales.family, diagonal=scales.diagonal / 2, off_diagonal=scales.off_diagonal / 2)


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_audit_of_row_sums_with_a_free_moment(epsilon):
    """No neighbour shows more than the claim; half the noise on the moment alone is caught by one of them."""
    tau = gaussian_law(row_sum_sensitivity(4), epsilon=Fraction(epsilon), delta=DELTA).scale
    scales = free_moment_scales(4, row_sums=[tau])
    neighbours = [(-3, -1, 1, 3), (-3, 3, 1, -1), (-1, 3, -3, 1)]  # scalar products -20, -4, 0 with STRICT
    measured = [float(epsilon_upper(mu_measured(t, tau, scales, scales), DELTA)) for t in neighbours]
    assert 0.7 * float(epsilon) < max(measured) <= float(epsilon)
    half = halved(scales)
    caught = max(float(epsilon_upper(mu_measured(t, tau, half, half), DELTA)) for t in neighbours)
    assert caught > float(epsilon)


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_audit_of_a_moment_alone(epsilon):
    scales = second_moment_scales(4, mu_squared=mu_lower(epsilon, DELTA) ** 2)
    orthogonal = (-1, 3, -3, 1)
    measured = float(epsilon_upper(mu_measured(orthogonal, None, scales, scales), DELTA))
    assert 0.7 * float(epsilon) < measured <= float(epsilon)
    half = halved(scales)
    assert float(epsilon_upper(mu_measured(orthogonal, None, half, half), DELTA)) > float(epsilon)


def test_audit_of_a_moment_alone_with_laplace_noise():
    """The event of largest likelihood ratio: every entry lies at or beyond the second moment's side."""
    trials, first, second = 100_000, np.array([2, -1, -1]), np.array([0, 2, -2])
    upper = np.triu_indices(3)
    exact = [np.outer(s, s)[upper] for s in (first, second)]
    sign = np.sign(exact[1] - exact[0])

    def measured(scale):
        bits = InsecureBits(seed=17)
        counts = []
        for values in exact:
            draws = values + discrete_laplace_array(scale, trials * 6, bits).reshape(trials, 6)
            counts.append(int(((draws - exact[1]) * sign >= 0)[:, sign != 0].all(axis=1).sum()))
        return epsilon_lower_bound(false_alarms=counts[0], hits=counts[1], trials=trials)

    scale = second_moment_scales_pure(3, epsilon=Fraction(1)).diagonal
    assert 0.6 < measured(scale) <= 1
    assert measured(scale / 2) > 1


# ------------------------------------------------------------------ the covariance


def people(count, m, seed):
    """Strict ballots with unequal weights, as a profile and as scores."""
    generator = np.random.default_rng(seed)
    keys = generator.exponential(size=(count, m)) * np.linspace(1, 2, m)
    places = np.argsort(np.argsort(keys, axis=1), axis=1) + 1
    return Profile.from_places(NAMES[:m], places.T), m + 1 - 2 * places


def exact_estimate(profile, noise=None):
    return PairwiseEstimate(items=profile.items, margins=pairwise_margins(profile), noise=noise or NoiseLaw())


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_without_noise_it_is_the_sample_covariance_of_the_mean(m):
    profile, scores = people(50, m, seed=1)
    estimate = exact_estimate(profile)
    found = mean_score_covariance(estimate, score_moment(profile), NO_NOISE, people=50)
    wanted = np.cov(scores.T).reshape(m, m) / 50 if m > 1 else np.zeros((1, 1))
    assert found.sampling == pytest.approx(wanted, abs=1e-6)
    assert not found.noise.any()
    assert mean_scores(estimate, people=50) == pytest.approx(scores.mean(axis=0))


def test_row_sum_variance_is_that_of_simulated_tables():
    """Covariances of 5,000 simulated tables of each kind of noise."""
    generator = np.random.default_rng(4)
    centre = np.eye(4) - 1 / 4
    for noise in (
        NoiseLaw(family="rounded-gaussian", scale=Fraction(10)),
        NoiseLaw(family="discrete-laplace", scale=Fraction(10)),
        PartedNoise(m=4, gradient=Fraction(100), cyclic=Fraction(300)),
        PartedNoise(m=4, gradient=Fraction(100), cyclic=None),
    ):
        if isinstance(noise, PartedNoise):
            tables = np.array([noise.simulate(generator) for _ in range(5000)])
        else:
            upper = np.triu(noise.simulate((5000, 4, 4), generator), 1)
            tables = upper - upper.transpose(0, 2, 1)
        wanted = float(row_sum_variance(noise, 4)) * centre
        assert np.cov(tables.sum(axis=2).T) == pytest.approx(wanted, abs=0.12 * wanted.max())


def normal_releases(profile, epsilon, count, seed):
    """(estimate, noisy moment, scales) of ``borda`` with normal noise and its free moment, ``count`` times."""
    m, bits = profile.m, InsecureBits(seed=seed)
    sensitivity = row_sum_sensitivity(m)
    law = gaussian_law(sensitivity, epsilon=Fraction(epsilon), delta=DELTA)
    scales = free_moment_scales(m, row_sums=[law.scale])
    margins, moment = pairwise_margins(profile), score_moment(profile)
    for _ in range(count):
        table = borda_margins(margins, law, sensitivity=sensitivity, bits=bits)[0]
        estimate = PairwiseEstimate(items=profile.items, margins=table, noise=borda_noise(m, law))
        yield estimate, noisy_moment(moment, scales, bits=bits), scales


def test_the_estimate_is_unbiased_up_to_the_standard_deviation_added():
    """Where Sigma is far from singular, so that no eigenvalue is set to 0: 400 releases of 2,000 people."""
    profile, scores = people(2000, 4, seed=2)
    added, found = 0.0, []
    for estimate, moment, scales in normal_releases(profile, "4", 400, seed=3):
        covariance = mean_score_covariance(estimate, moment, scales, people=2000)
        found.append(covariance.sampling * 2000)
        added = float(scales.sd) / 2000
        values = np.linalg.eigvalsh(covariance.total)
        assert values.min() > -1e-12
        assert covariance.total.sum(axis=1) == pytest.approx(np.zeros(4), abs=1e-9)
    wanted = np.cov(scores.T) + added * (np.eye(4) - 1 / 4)
    error = np.std(found, axis=0) / 20
    assert (np.abs(np.mean(found, axis=0) - wanted) < 4.9 * error + 1e-9).all()
    assert error.max() < 0.05 * np.diag(wanted).min()


def test_noise_beyond_what_scores_allow_falls_back_on_their_bound():
    """At a tiny epsilon the moment is not even read, and the intervals say nothing."""
    profile, _scores = people(50, 4, seed=1)
    (estimate, moment, scales) = next(normal_releases(profile, "0.001", 1, seed=3))
    found = mean_score_covariance(estimate, moment, scales, people=50)
    assert found.sampling == pytest.approx(18 * (np.eye(4) - 1 / 4) / 50)
    assert mean_score_covariance(estimate, 0 * moment, scales, people=50).sampling == pytest.approx(found.sampling)
    sets = rank_intervals(mean_scores(estimate, people=50), found.total, rng=np.random.default_rng(1))
    assert (sets.low, sets.high) == ((1,) * 4, (4,) * 4)


@pytest.mark.parametrize("epsilon", ["1e-200", "1e-300"])
def test_noise_beyond_the_range_of_doubles(epsilon):
    profile, _scores = people(5, 3, seed=1)
    (estimate, moment, scales) = next(normal_releases(profile, epsilon, 1, seed=3))
    scores = mean_scores(estimate, people=5)
    found = mean_score_covariance(estimate, moment, scales, people=5)
    sets = rank_intervals(scores, found.total, rng=np.random.default_rng(1), draws=999)
    assert (sets.low, sets.high) == ((1,) * 3, (3,) * 3)


@pytest.mark.parametrize("count", [2, 10**15, 10**30, 10**400])
def test_people_who_agree(count):
    """No covariance is left but the noise that was added: S/N and the product of means cancel exactly."""
    profile = Profile.from_ballots(tuple("abc"), {Ballot.strict([2, 0, 1]): count})
    estimate = exact_estimate(profile)
    scores = mean_scores(estimate, people=count)
    assert scores.tolist() == [0.0, -2.0, 2.0]
    found = mean_score_covariance(estimate, score_moment(profile), NO_NOISE, people=count)
    assert np.abs(found.total).max() <= 1e-6
    sets = rank_intervals(scores, found.total, rng=np.random.default_rng(1), draws=999)
    assert sets.low == sets.high == (2, 3, 1)


def test_one_person_says_nothing_about_a_population():
    profile = Profile.from_ballots(tuple("abc"), {Ballot.strict([2, 0, 1]): 1})
    estimate = exact_estimate(profile)
    found = mean_score_covariance(estimate, score_moment(profile), NO_NOISE, people=1)
    sets = rank_intervals(mean_scores(estimate, people=1), found.total, rng=np.random.default_rng(1), draws=999)
    assert (sets.low, sets.high) == ((1,) * 3, (3,) * 3)


def test_astronomical_profiles_have_astronomically_small_errors():
    profile = Profile.from_ballots(tuple("abc"), {Ballot.strict([2, 0, 1]): 10**30, Ballot.strict([0, 1, 2]): 10**30})
    (estimate, moment, scales) = next(normal_releases(profile, "1", 1, seed=3))
    found = mean_score_covariance(estimate, moment, scales, people=2 * 10**30)
    exact = np.cov(np.array([[0, -2, 2], [2, 0, -2]]).T, bias=True) / (2 * 10**30)
    assert found.total == pytest.approx(exact, rel=1e-9, abs=1e-40)


@pytest.mark.parametrize("mechanism", ["borda", "laplace"])
def test_simulated_errors_have_the_stated_covariance(mechanism):
    """20,000 errors each, sampling and Laplace noise together; and tails heavier than normal ones for ``borda``."""
    profile, _scores = people(200, 4, seed=1)
    law = NoiseLaw(family="discrete-laplace", scale=Fraction(30))
    noise = borda_noise(4, law) if mechanism == "borda" else law
    found = mean_score_covariance(exact_estimate(profile, noise), score_moment(profile), NO_NOISE, people=200)
    errors = mean_score_errors(found, mechanism, law, people=200, draws=20_000, rng=np.random.default_rng(2))
    assert np.cov(errors.T) == pytest.approx(found.total, rel=0.08, abs=0.05 * found.total.max())
    kurtosis = (errors[:, 0] ** 4).mean() / (errors[:, 0] ** 2).mean() ** 2
    assert kurtosis > (3.5 if mechanism == "borda" else 3.1)


@pytest.mark.parametrize("scale", [2**30, 10**150])
def test_simulated_errors_of_large_noise(scale):
    """Continuous Laplace noise, of a scale cut at 10**100: the quantiles of its law at 50 and 95 %."""
    law = NoiseLaw(family="discrete-laplace", scale=Fraction(scale))
    profile, _scores = people(200, 2, seed=1)
    found = mean_score_covariance(exact_estimate(profile, law), score_moment(profile), NO_NOISE, people=200)
    errors = mean_score_errors(found, "laplace", law, people=200, draws=20_000, rng=np.random.default_rng(2))
    unit = min(scale / 200, 1e100)
    assert np.quantile(abs(errors[:, 0]), 0.5) == pytest.approx(math.log(2) * unit, rel=0.05)
    assert np.quantile(abs(errors[:, 0]), 0.95) == pytest.approx(math.log(20) * unit, rel=0.05)
    with pytest.raises(ParameterError, match="mechanism must be"):
        mean_score_errors(found, "gaussian", law, people=200, draws=10, rng=np.random.default_rng(2))


@pytest.mark.parametrize("kind", ["borda", "pure borda", "pure laplace"])
def test_rank_intervals_of_equal_items_cover(kind):
    """400 populations in which all five items are equal: at least .95 less 3.3 standard errors."""
    m, count, n = 5, 300, 400
    rng, bits = np.random.default_rng(21), InsecureBits(seed=21)
    rows, pairs = row_sum_sensitivity(m), margin_sensitivity(m, "person")
    held = 0
    if kind == "borda":
        law = gaussian_law(rows, epsilon=Fraction(1), delta=DELTA)
        scales = free_moment_scales(m, row_sums=[law.scale])
    elif kind == "pure borda":
        law = laplace_law(rows, epsilon=1 - PURE_SHARE)
        scales = second_moment_scales_pure(m, epsilon=PURE_SHARE)
    else:
        law = laplace_law(pairs, epsilon=Fraction(1))
        scales = free_moment_scales_pure(m, margin=law.scale)
    for _ in range(n):
        places = np.argsort(np.argsort(rng.random((m, count)), axis=0), axis=0) + 1
        profile = Profile.from_places(NAMES[:m], places)
        if kind == "pure laplace":
            upper = np.triu_indices(m, 1)
            table = pairwise_margins(profile)
            table[upper] += discrete_laplace_array(law.scale, len(upper[0]), bits)
            table.T[upper] = -table[upper]
            estimate = PairwiseEstimate(items=profile.items, margins=table, noise=law)
        else:
            table = borda_margins(pairwise_margins(profile), law, sensitivity=rows, bits=bits)[0]
            estimate = PairwiseEstimate(items=profile.items, margins=table, noise=borda_noise(m, law))
        moment = noisy_moment(score_moment(profile), scales, bits=bits)
        scores = mean_scores(estimate, people=count)
        covariance = mean_score_covariance(estimate, moment, scales, people=count)
        if kind == "borda":
            sets = rank_intervals(scores, covariance.total, rng=rng, draws=399)
        else:
            errors = mean_score_errors(covariance, kind.split()[1], law, people=count, draws=399, rng=rng)
            sets = rank_intervals_from_errors(scores, covariance.total, errors)
        held += sets.low == (1,) * m and sets.high == (m,) * m
    assert held / n >= 0.95 - 3.3 * math.sqrt(0.95 * 0.05 / n)

"""Randomised answers: audit, ties, what may be believed."""

import itertools
import math
from fractions import Fraction

import pytest

from branches import enclosed_exp, exact_law, odds
from psephos.errors import ParameterError
from psephos.local import (
    attenuation,
    odds_sentence,
    randomise,
    samplers,
    three_outcome_tie_share,
    truth_probability,
)
from psephos.local import randomized_response as rr
from psephos.privacy import InsecureBits
from psephos.privacy.audit import epsilon_lower_bound

ANSWERS = ["left", "right", "tie", None]
MECHANISMS = ["binary", "three-outcome"]


def draws(answer, epsilon, n, *, seed, mechanism="binary"):
    draw = rr.randomiser(Fraction(epsilon), mechanism, InsecureBits(seed=seed))
    return [draw(answer) for _ in range(n)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
def test_exact_audit(monkeypatch, epsilon, mechanism):
    """The loss that the enumerated law proves lies within the claim and within 2 % of it."""
    eps, name = Fraction(epsilon), "flip" if mechanism == "binary" else "shift"
    for e in enclosed_exp(monkeypatch, eps):
        weights = odds(monkeypatch, getattr(samplers, name), eps, e)
        noise = [weights[i] / sum(weights.values()) for i in sorted(weights)]
        laws = []
        for answer in ANSWERS:
            monkeypatch.setattr(rr, name, lambda _eps, bits, noise=noise: bits.choose(noise))
            law, lost = exact_law(monkeypatch, lambda bits, a=answer: rr.randomiser(eps, mechanism, bits)(a))
            assert lost == 0
            laws.append(law)
        proved = max(math.log(max(m) / min(m)) for report in laws[0] for m in [[law[report] for law in laws]])
        assert 0.98 * eps < proved < eps + Fraction(1, 10**12)
        assert abs(proved - eps) < 1e-12


@pytest.mark.parametrize(
    ("epsilon", "trials"),
    [pytest.param("0.1", 6_000_000, marks=pytest.mark.slow), ("1", 150_000), ("5", 400_000)],
)
def test_audit_by_draws(epsilon, trials):
    """The 95 % lower bound from draws alone is within the claim and within 2 % of it."""
    false_alarms = draws("left", epsilon, trials, seed=41).count("right")
    hits = draws("right", epsilon, trials, seed=42).count("right")
    measured = epsilon_lower_bound(false_alarms=false_alarms, hits=hits, trials=trials)
    assert 0.98 * float(epsilon) < measured <= float(epsilon)


def test_audit_sees_too_little_noise():
    trials = 40_000
    hits = draws("right", "1.1", trials, seed=43).count("right")
    assert epsilon_lower_bound(false_alarms=trials - hits, hits=hits, trials=trials) > 1


@pytest.mark.slow
def test_n5_truth_rate_of_a_million():
    assert abs(draws("left", math.log(3), 1_000_000, seed=44).count("left") / 1e6 - 0.75) < 0.002


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_report_is_the_answer_plus_noise_that_never_saw_it(monkeypatch, mechanism):
    """Whatever noise and coin are, different answers give different reports; a coin stands for no opinion."""
    name, values, reports = ("flip", 2, 2) if mechanism == "binary" else ("shift", 3, 3)
    for noise, coin in itertools.product(range(values), range(2)):
        monkeypatch.setattr(rr, name, lambda _eps, _bits, noise=noise: noise)
        draw = rr.randomiser(Fraction(1), mechanism, Coins(coin))
        given = ANSWERS[:reports]
        assert len({draw(answer) for answer in given}) == reports
        assert draw(None) == draw(ANSWERS[coin])
        assert draw("left") == ANSWERS[noise]
        if mechanism == "binary":
            assert draw("tie") == draw(ANSWERS[coin])


class Coins:
    def __init__(self, value):
        self.value = value

    def bits(self, n):
        assert n == 1
        return self.value


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", ["1e-17", "1", "800"])
def test_the_bits_drawn_do_not_depend_on_the_answer(mechanism, epsilon):
    after = set()
    for answer in ANSWERS:
        bits = InsecureBits(seed=45)
        for _ in range(50):
            randomise(answer, epsilon=epsilon, mechanism=mechanism, bits=bits)
        after.add(bits.bits(128))
    assert len(after) == 1


@pytest.mark.parametrize("answer", ["tie", None])
def test_ties_and_no_opinion_by_a_fair_coin(monkeypatch, answer):
    with monkeypatch.context() as patch:
        patch.setattr(rr, "flip", lambda _eps, bits: bits.choose([Fraction(5, 6), Fraction(1, 6)]))
        law, _ = exact_law(patch, lambda bits: rr.randomiser(Fraction(1, 2), "binary", bits)(answer))
    assert law == {"left": Fraction(1, 2), "right": Fraction(1, 2)}
    n = 4000
    reports = [randomise(answer, epsilon=800) for _ in range(n)]
    assert abs(reports.count("left") - n / 2) < 4.9 * math.sqrt(n / 4)


def test_three_outcomes_report_ties_and_answer_no_opinion_by_a_coin():
    assert {randomise("tie", epsilon=800, mechanism="three-outcome") for _ in range(50)} == {"tie"}
    assert {randomise(None, epsilon=800, mechanism="three-outcome") for _ in range(60)} == {"left", "right"}
    assert {randomise("tie", epsilon="0.1", mechanism="three-outcome") for _ in range(200)} == {"left", "right", "tie"}


def test_attenuation_and_truth():
    for epsilon in ("0.1", "1", "5", "40"):
        e = math.exp(float(epsilon))
        assert attenuation(epsilon) == pytest.approx(math.tanh(float(epsilon) / 2), rel=1e-14)
        assert attenuation(epsilon, mechanism="three-outcome") == pytest.approx((e - 1) / (e + 2), rel=1e-14)
        assert truth_probability(epsilon) == pytest.approx(e / (e + 1), rel=1e-14)
        assert truth_probability(epsilon, mechanism="three-outcome") == pytest.approx(e / (e + 2), rel=1e-14)
    assert attenuation("1e-17") == 5e-18  # never 0: it will be divided by
    assert attenuation("1e-17", mechanism="three-outcome") == pytest.approx(1e-17 / 3, rel=1e-14)
    assert attenuation(800) == truth_probability(800) == 1


def variances(epsilon, ties):
    """Variance of one debiased report at equal shares of left and right, from the laws of the reports."""
    e = math.exp(epsilon)
    two = ((e + 1) / (e - 1)) ** 2
    said_something = (1 - ties) * (e + 1) / (e + 2) + ties * 2 / (e + 2)
    return two, said_something * ((e + 2) / (e - 1)) ** 2


@pytest.mark.parametrize("epsilon", [0.6, 1, 2, 5, 20])
def test_three_outcomes_are_better_beyond_the_stated_share_of_ties(epsilon):
    share = three_outcome_tie_share(epsilon)
    for ties in (0.99 * share, 1.01 * share):
        two, three = variances(epsilon, ties)
        assert (three < two) is (ties > share)
    assert three_outcome_tie_share(math.log(3) / 2) == pytest.approx(1)
    assert three_outcome_tie_share("1e-17") > 1e16


@pytest.mark.parametrize("epsilon", [0, -0.0, -1, math.nan, math.inf, "x", True, None, "1e-300", "9e-18", 801, 1e9])
def test_p1_epsilons_that_are_none(epsilon):
    for call in (
        lambda: randomise("left", epsilon=epsilon),
        lambda: attenuation(epsilon),
        lambda: odds_sentence(epsilon),
    ):
        with pytest.raises(ParameterError, match=r"epsilon must be a number from 1e-17 to 800"):
            call()


def test_p1_endless_ratios_are_refused():
    with pytest.raises(ParameterError, match="denominator"):
        attenuation(Fraction(10**50 + 1, 10**50 + 3))
    with pytest.raises(ParameterError, match="thousands of digits"):
        attenuation(Fraction(10**9999))


@pytest.mark.parametrize("answer", ["Left", "", 1, True, 0.0, ["left"]])
def test_messages_do_not_repeat_answers(answer):
    with pytest.raises(ParameterError) as caught:
        randomise(answer, epsilon=1)
    assert str(caught.value) == "answer must be one of left, right, tie, or None for no opinion"
    with pytest.raises(ParameterError, match="mechanism must be one of"):
        randomise("left", epsilon=1, mechanism="ternary")


def test_what_a_reader_may_believe():
    believed = "Whatever anyone believed about this person before, and whatever else they know, "
    coin = "A tie, or no opinion, is answered by a coin first. "
    assert odds_sentence(1) == (
        f"At epsilon 1, an answer is reported as it was given with probability 73 %. {coin}"
        f"{believed}the report changes the odds by a factor of at most 2.72."
    )
    assert odds_sentence(4, answers=2) == (
        "At epsilon 4 for a person, 2 for each of 2 answers, an answer is reported as it was given with probability "
        f"88 %. {coin}{believed}one report by itself changes the odds by a factor of at most 7.39, "
        "and all 2 reports together by a factor of at most 54.6."
    )
    each = odds_sentence("0.1", answers=7, unit="comparison", mechanism="three-outcome")
    assert each.startswith("At epsilon 0.1 for each answer, 0.7 for a person who gives 7 answers, ")
    assert "probability 36 %. No opinion is answered by a coin first." in each
    assert "at most 1.11, and all 7 reports together by a factor of at most 2.02." in each
    assert "except with probability 4.5e-5" in odds_sentence(10)


@pytest.mark.parametrize("epsilon", ["1e-17", "0.0099", "0.1", "1", "5", "14", "300"])
def test_factors_are_never_rounded_down(epsilon):
    text = odds_sentence(epsilon).rpartition("at most ")[2].rstrip(".")
    stated = sum(Fraction(part) for part in text.split(" + "))
    excess = stated - 1
    assert excess >= Fraction(math.expm1(float(epsilon))) * (1 - Fraction(1, 10**12))
    assert excess <= Fraction(math.expm1(float(epsilon))) * Fraction(113, 100)
    assert "e348" not in odds_sentence(800)
    assert "2.73e347" in odds_sentence(800)

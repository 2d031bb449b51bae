"""Profiles: supports with exact multiplicities, and what their constructors refuse."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError, DataWarning, ParameterError
from psephos.pairwise import pairwise_margins
from psephos.profile import Ballot, Comparisons, Profile
from psephos.profile.profile import places_dtype

AB = Ballot.strict([0, 1])
BA = Ballot.strict([1, 0])
TIE = Ballot(((0, 1),))


def ballots(profile):
    return dict(profile.ballots())


# ------------------------------------------------------------------ from_ballots, from_rankings


def test_ballots_one_by_one_and_with_multiplicities():
    profile = Profile.from_ballots(list("ab"), [AB, BA, AB, Ballot()])
    assert profile == Profile.from_ballots(list("ab"), {AB: 2, Ballot(): 1, BA: 1})
    assert (profile.people, profile.support, profile.m, profile.items_source) == (4, 3, 2, "declared")


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "3", None, Fraction(1), float("nan")])
def test_f3_f7_a_multiplicity_is_a_whole_number_from_one(count):
    with pytest.raises(ParameterError, match="multiplicity must be a whole number >= 1"):
        Profile.from_ballots(list("ab"), {AB: count})
    with pytest.raises(ParameterError, match="multiplicity must be a whole number >= 1"):
        Profile.from_rankings({("a", "b"): count}, items=list("ab"))
    with pytest.raises(ParameterError, match="multiplicity must be a whole number >= 1"):
        Profile.from_places(list("ab"), [[1], [2]], counts=[count])


@pytest.mark.parametrize("count", [2**53 + 1, 2**63, 10**30, 10**3999])
def test_f5_multiplicities_of_any_size_are_exact(count):
    profile = Profile.from_ballots(list("ab"), {AB: count, BA: 1})
    assert profile.people == count + 1
    assert int(pairwise_margins(profile)[0, 1]) == count - 1
    numpy_counts = Profile.from_places(list("ab"), [[1], [2]], counts=np.array([2**62]))
    assert type(numpy_counts.people) is int


def test_f6_memory_follows_the_support():
    tracemalloc.start()
    try:
        profile = Profile.from_ballots(list("ab"), {AB: 10**30, BA: 10**12})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert profile.people == 10**30 + 10**12
    assert peak < 200_000


def test_what_is_no_ballot_is_refused():
    with pytest.raises(ParameterError, match="must be Ballot objects"):
        Profile.from_ballots(list("ab"), [(0, 1)])
    with pytest.raises(DataError, match="item position 2 is not below the number of items, 2"):
        Profile.from_ballots(list("ab"), [Ballot.strict([2])])


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (["a", "a"], "items 1 and 2 have the same name 'a'"),
        (["a", ""], "item 2"),
        (["a", " "], "item 2"),
        (["a", 3], "item 2"),
    ],
)
def test_f20_items_are_named_and_different(items, words):
    for build in (
        lambda: Profile.from_ballots(items, [AB]),
        lambda: Profile.from_rankings([["a"]], items=items),
        lambda: Profile.from_places(items, [[1], [2]]),
        lambda: Profile.from_masses(1, {AB: 1}, items=items),
    ):
        with pytest.raises(DataError, match=words):
            build()


def test_rankings_of_names_with_ties_and_truncation():
    profile = Profile.from_rankings([("c", ("a", "b")), ["b"], [], ("c", ("b", "a"))], items=["a", "b", "c"])
    assert ballots(profile) == {Ballot(((2,), (0, 1))): 2, Ballot.strict([1]): 1, Ballot(): 1}


def test_f19_rankings_find_names_after_folding():
    profile = Profile.from_rankings([("cafe\u0301", "Ana   B")], items=["caf\u00e9", "Ana B"])
    assert ballots(profile) == {AB: 1}


@pytest.mark.parametrize(
    ("ranking", "words"),
    [
        (("a", "x"), "unknown item 'x'.*a, b"),
        (("a", "a"), "twice"),
        (("a", ("b", "a")), "twice"),
        (("a", ()), "empty group"),
    ],
)
def test_rankings_that_break_a_rule(ranking, words):
    with pytest.raises(DataError, match=words):
        Profile.from_rankings([ranking], items=list("ab"))


def test_r1_a_repeated_name_is_named():
    with pytest.raises(DataError, match="'tea'"):
        Profile.from_rankings([("water", "tea", "tea")], items=["tea", "water"])


@pytest.mark.parametrize("ranking", ["ab", 3, [3], [None], [("a", 3)]])
def test_rankings_that_are_no_sequences_of_names(ranking):
    with pytest.raises((ParameterError, DataError), match=r"ranking|item"):
        Profile.from_rankings([ranking], items=list("ab"))


# ------------------------------------------------------------------ from_masses


def test_masses_become_whole_people_of_any_number():
    people = 3 * 10**30
    profile = Profile.from_masses(people, {AB: Fraction(1, 3), TIE: Fraction(2, 3), BA: Fraction(0)}, items=list("ab"))
    assert ballots(profile) == {AB: 10**30, TIE: 2 * 10**30}
    assert profile.people == people
    assert ballots(Profile.from_masses(7, {BA: 1}, items=list("ab"))) == {BA: 7}


@pytest.mark.parametrize(
    ("people", "masses", "words"),
    [
        (10, {AB: Fraction(1, 3), BA: Fraction(2, 3)}, "10 people times the mass 1/3 of .* is not a whole number"),
        (10**30 + 1, {AB: Fraction(1, 2), BA: Fraction(1, 2)}, "is not a whole number"),
        (4, {AB: Fraction(1, 2), BA: Fraction(1, 4)}, "must sum to 1, got 3/4"),
        (4, {AB: Fraction(1), BA: Fraction(1, 4)}, "must sum to 1, got 5/4"),
        (4, {}, "must sum to 1, got 0"),
        (4, {AB: Fraction(5, 4), BA: Fraction(-1, 4)}, "must be >= 0, got -1/4"),
        (4, {AB: 0.5, BA: 0.5}, "exact rational, got 0.5"),
        (4, {AB: float("nan"), BA: 1}, "exact rational, got nan"),
        (4, {AB: "1/2", BA: "1/2"}, "exact rational, got '1/2'"),
    ],
)
def test_masses_that_break_a_rule(people, masses, words):
    with pytest.raises(DataError, match=words):
        Profile.from_masses(people, masses, items=list("ab"))


@pytest.mark.parametrize("people", [0, -1, 1.5, 4.0, True, "4", None])
def test_masses_of_no_people(people):
    with pytest.raises(ParameterError, match="people must be a whole number >= 1"):
        Profile.from_masses(people, {AB: 1}, items=list("ab"))


# ------------------------------------------------------------------ from_places


def test_places_are_renumbered_densely():
    profile = Profile.from_places(list("abc"), [[1, 5, 0, 2], [1, 2, 9, 2], [3, 5, 0, 7]], counts=[1, 2, 3, 4])
    assert ballots(profile) == {Ballot(((0, 1), (2,))): 5, Ballot(((1,), (0, 2))): 2, Ballot.strict([1]): 3}


@given(
    places=st.lists(st.lists(st.integers(0, 9) | st.just(10**6), min_size=3, max_size=3), min_size=1, max_size=8),
    dtype=st.sampled_from([np.int64, np.uint32, np.int32, object]),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_places_agree_with_ballots_one_by_one(places, dtype):
    wanted = Profile.from_ballots(list("abc"), [Ballot.from_places(column) for column in places])
    array = np.array(places).T
    assert Profile.from_places(list("abc"), array if dtype is object else array.astype(dtype), base=1) == wanted


@pytest.mark.parametrize("m", [1, 253, 254, 255, 256, 300])
def test_places_of_many_items(m):
    items = [f"i{k}" for k in range(m)]
    order = list(range(m, 0, -1))
    profile = Profile.from_places(items, np.array([order, order]).T)
    assert ballots(profile) == {Ballot.strict(range(m - 1, -1, -1)): 2}
    assert profile == Profile.from_ballots(items, {Ballot.strict(range(m - 1, -1, -1)): 2})
    # One value of the type is kept free for "after all others".
    assert np.iinfo(profile.places.dtype).max > m


def test_the_type_of_places():
    assert [places_dtype(m).itemsize for m in (0, 254, 255, 65534, 65535)] == [1, 1, 2, 2, 4]


@pytest.mark.parametrize(
    "places",
    [
        [[1.0], [2.0]],
        [[True], [False]],
        [["1"], ["2"]],
        [1, 2],
        [[1, 2]],
        [[1], [2], [3]],
        [[[1]], [[2]]],
        [[1], [None]],
    ],
)
def test_places_of_another_type_or_shape(places):
    with pytest.raises(ParameterError, match=r"integer array of shape \(2, ballots\)"):
        Profile.from_places(list("ab"), places)


def test_places_and_counts_out_of_range():
    with pytest.raises(ParameterError, match="places must be >= 0, got -1"):
        Profile.from_places(list("ab"), [[1], [-1]])
    with pytest.raises(ParameterError, match=r"one entry a ballot \(2\), got 1"):
        Profile.from_places(list("ab"), [[1, 1], [2, 2]], counts=[1])


def test_places_that_all_look_as_if_they_counted_from_0_need_a_word():
    """Everyone a > b > c as 0, 1, 2: read as places from 1, the favourite of all would be unranked, and last."""
    everyone = np.tile([[0], [1], [2]], 5)
    for places in (everyone, [[0, 1], [1, 0], [2, 2]]):
        with pytest.raises(DataError, match="base=0 if 0 is the best place, base=1 if 0 is unranked"):
            Profile.from_places(list("abc"), places)
    assert ballots(Profile.from_places(list("abc"), everyone, base=0)) == {Ballot.strict([0, 1, 2]): 5}
    assert ballots(Profile.from_places(list("abc"), everyone, base=1)) == {Ballot.strict([1, 2]): 5}
    # One ballot of another kind tells that 0 is unranked.
    assert Profile.from_places(list("abc"), [[0, 1], [1, 2], [2, 3]]).people == 2
    assert Profile.from_places(["a"], [[0]]).people == 1


def test_places_from_0_have_minus_1_for_unranked():
    profile = Profile.from_places(list("abc"), [[0, -1], [-1, 0], [5, 0]], base=0)
    assert ballots(profile) == {Ballot.strict([0, 2]): 1, Ballot(((1, 2),)): 1}
    top = np.iinfo(np.int64).max
    assert ballots(Profile.from_places(list("ab"), [[0], [top]], base=0)) == {AB: 1}
    with pytest.raises(ParameterError, match="below 2"):
        Profile.from_places(list("ab"), np.array([[0], [2**64 - 1]], dtype=np.uint64), base=0)
    with pytest.raises(ParameterError, match="places must be >= -1, got -2"):
        Profile.from_places(list("abc"), [[0], [-2], [1]], base=0)
    with pytest.raises(ParameterError, match="base must be a whole number >= 0 and <= 1, got 2"):
        Profile.from_places(list("abc"), [[0], [1], [2]], base=2)


def test_places_without_ballots():
    profile = Profile.from_places(list("ab"), np.zeros((2, 0), dtype=int))
    assert (profile.people, profile.support, list(profile.ballots())) == (0, 0, [])


# ------------------------------------------------------------------ the object


def test_the_shape_of_places_is_checked():
    with pytest.raises(ParameterError, match="shape"):
        Profile(items=("a", "b"), places=np.zeros((2, 2), np.uint8), counts=(1,))
    with pytest.raises(ParameterError, match="multiplicity"):
        Profile(items=("a",), places=np.zeros((1, 1), np.uint8), counts=(0,))


def test_equality_is_that_of_items_and_ballots():
    profile = Profile.from_ballots(list("ab"), [AB, BA])
    assert profile == Profile.from_ballots(list("ab"), [BA, AB])
    assert profile != Profile.from_ballots(list("ba"), [AB, BA])
    assert profile != Profile.from_ballots(list("ab"), {AB: 2, BA: 1})
    assert profile != "ab"
    with pytest.raises(TypeError, match="unhashable"):
        hash(profile)


@pytest.mark.parametrize(
    ("ballot", "kind"),
    [(AB, "soc"), (Ballot.strict([1]), "soi"), (TIE, "toc"), (Ballot(), "soi"), (Ballot(((0, 1),)), "toc")],
)
def test_the_narrowest_kind(ballot, kind):
    assert Profile.from_ballots(list("ab"), [AB, ballot]).data_type == kind
    assert Profile.from_ballots(list("abc"), [TIE, Ballot.strict([0, 1, 2])]).data_type == "toi"


def test_items_become_assumed_only_where_they_were_seen():
    declared = Profile.from_ballots(list("ab"), [AB])
    assert declared.with_items_public() is declared


def test_f20_names_that_differ_only_by_case_or_spelling_warn():
    for one, two in [("A", "a"), ("Ana  B", "Ana B"), ("caf\u00e9", "cafe\u0301"), ("\u00c9", "e\u0301")]:
        with pytest.warns(DataWarning, match="differ only by case, white space or composition"):
            Profile.from_ballots([one, two], [AB])


# ------------------------------------------------------------------ R1: no object can break the bound


def direct(**changes):
    given = {"items": ("a", "b"), "places": np.array([[1, 2], [2, 1]], dtype=np.uint8), "counts": (3, 2)}
    return Profile(**{**given, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": (3, -2)},
        {"counts": (3, 0)},
        {"counts": (3, 2.0)},
        {"counts": (3, True)},
        {"counts": (3,)},
        {"places": np.array([[1.0, 2.0], [2.0, 1.0]])},
        {"places": np.array([[True, False], [False, True]])},
        {"places": np.array([[1, 2], [2, 1]], dtype=object)},
        {"places": np.array([[1, 2], [2, 255]], dtype=np.uint8)},
        {"places": np.array([[1, 2], [2, -1]])},
        {"places": np.array([1, 2])},
        {"items": ("a", "a")},
        {"items": "ab"},
        {"items": (1, 2)},
        {"items": ("a", "\ud800")},
        {"items_source": "SEEN"},
    ],
    ids=repr,
)
def test_r1_a_profile_that_breaks_a_rule_cannot_be_made(changes):
    with pytest.raises((DataError, ParameterError)):
        direct(**changes)


def test_r1_a_profile_shares_nothing_with_its_caller():
    places, counts = np.array([[1, 2], [2, 1]], dtype=np.uint8), [3, 2]
    profile = direct(places=places, counts=counts)
    places[:] = 7
    counts[0] = -5
    assert places.flags.writeable
    assert (profile.counts, profile.places.tolist()) == ((3, 2), [[1, 2], [2, 1]])
    with pytest.raises(ValueError, match="read-only"):
        profile.places[0, 0] = 2


def test_r2_numpy_counts_behave_like_python_integers():
    """Neighbours of two people, with equal or different ballots: both are released, with the same kinds of numbers."""
    differ = direct(counts=tuple(np.array([1, 1])))
    agree = direct(places=np.array([[1], [2]], dtype=np.uint8), counts=tuple(np.array([2])))
    assert all(type(count) is int for profile in (differ, agree) for count in profile.counts)
    assert pairwise_margins(differ).dtype == pairwise_margins(agree).dtype
    assert direct(counts=(np.int64(2**62), np.int64(2**62))).people == 2**63


def test_the_repr_is_short_and_shows_no_cell_and_no_person():
    names = [f"item {k}" for k in range(2000)]
    profile = Profile.from_ballots(names, {Ballot.strict(range(2000)): 10**3000})
    assert repr(profile) == "<Profile: over 10**3000 ballots of 2000 items 'item 0', 'item 1', 'item 2', ...>"
    assert repr(Profile.from_ballots(["x" * 99], [Ballot()])) == f"<Profile: 1 ballot of 1 item '{'x' * 27}...'>"
    duels = Comparisons.from_columns(
        ["tea", "milk"], [0] * 5000, [1] * 5000, [1] * 5000, person=[0] * 5000, persons=("Ann",), items_source="seen"
    )
    assert repr(duels) == "<Comparisons: 5,000 comparisons by 1 person of 2 items as seen>"
    assert "Ann" not in str(duels)
    assert "tea" not in f"{duels}"

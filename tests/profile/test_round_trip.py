"""What is written is read back unchanged, for every format and any profile."""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.errors import DataError, DataWarning
from psephos.profile import (
    Ballot,
    Comparisons,
    Profile,
    read_ballots_csv,
    read_comparisons_csv,
    read_preflib,
    write_ballots_csv,
    write_comparisons_csv,
    write_preflib,
)

pytestmark = pytest.mark.filterwarnings("ignore:items .* differ only:psephos.errors.DataWarning")
assert DataWarning.__module__ == "psephos.errors"

run = settings(max_examples=50, deadline=None, derandomize=True)

counts = st.one_of(st.integers(1, 5), st.sampled_from([2**31, 2**53 + 1, 2**63, 2**64 + 1]), st.integers(1, 10**50))

# Whatever Unicode has but surrogates (no UTF-8) and a byte order mark, which is no part of any text.
letters = st.characters(codec="utf-8", exclude_characters="\ufeff")
names = st.one_of(
    st.text(letters, min_size=1, max_size=8),
    st.text(string.punctuation + "aA1 \u00e9\u0301\u202e\U0001f363", min_size=1, max_size=8),
    st.sampled_from(
        ["=1+1", "A: B, C", "O'Neil", '"x, y"', "# 1", "{1,2}", "tie", "left", "overvote", "\x00", "a\rb", "a\nb"]
    ),
).filter(lambda name: bool(name.strip()))


@st.composite
def item_lists(draw, within, *, low=1):
    found = draw(st.lists(names.filter(within), min_size=low, max_size=6, unique=True))
    return tuple(found)


@st.composite
def ballot_of(draw, m, kind):
    order = draw(st.permutations(range(m)))
    if kind in {"soi", "toi"}:
        order = order[: draw(st.integers(0, m))]
    groups = []
    for item in order:
        if groups and kind in {"toc", "toi"} and draw(st.booleans()):
            groups[-1].append(item)
        else:
            groups.append([item])
    return Ballot(tuple(map(tuple, groups)))


@st.composite
def profiles(draw, kind, within=lambda _name: True):
    items = draw(item_lists(within))
    return Profile.from_ballots(
        items, draw(st.dictionaries(ballot_of(len(items), kind), counts, min_size=1, max_size=6))
    )


def fits_preflib(name):
    return name == name.strip() and not set(name) & {"\r", "\n"}


def fits_column(name):
    return name == name.strip() and name.lower() not in {"count", "person", "voter", "worker"}


@pytest.mark.parametrize("kind", ["soc", "soi", "toc", "toi"])
@given(data=st.data())
@run
def test_preflib(tmp_path_factory, kind, data):
    profile = data.draw(profiles(kind, fits_preflib))
    path = tmp_path_factory.getbasetemp() / f"round.{kind}"
    for data_type in (kind, None):
        write_preflib(profile, path, data_type=data_type)
        again = read_preflib(path, strict=True)
        assert again == profile
        assert again.people == sum(profile.counts)
        assert not any("abstention" not in note for note in again.notes)


@pytest.mark.parametrize("kind", ["soc", "toi"])
@given(data=st.data())
@run
def test_csv_places(tmp_path_factory, kind, data):
    profile = data.draw(profiles(kind, fits_column))
    path = tmp_path_factory.getbasetemp() / "round.csv"
    write_ballots_csv(profile, path)
    assert read_ballots_csv(path, layout="places", items=profile.items) == profile


@pytest.mark.parametrize("kind", ["soc", "soi"])
@given(data=st.data())
@run
def test_csv_positions(tmp_path_factory, kind, data):
    profile = data.draw(profiles(kind, lambda name: name == name.strip()))
    path = tmp_path_factory.getbasetemp() / "round_positions.csv"
    write_ballots_csv(profile, path, layout="positions")
    assert read_ballots_csv(path, items=profile.items) == profile


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a\r\n=1", "\r=1\r", 'a"\rb', "\na"])
def test_line_breaks_inside_a_name(tmp_path, name):
    profile = Profile.from_ballots(["o", f"x{name}x"], {Ballot.strict([1, 0]): 3, Ballot.strict([1]): 1})
    write_ballots_csv(profile, tmp_path / "a.csv")
    assert read_ballots_csv(tmp_path / "a.csv") == profile
    write_ballots_csv(profile, tmp_path / "b.csv", layout="positions")
    assert read_ballots_csv(tmp_path / "b.csv", items=profile.items) == profile
    duels = Comparisons.from_columns(profile.items, [0], [1], [-1])
    write_comparisons_csv(duels, tmp_path / "c.csv")
    again = read_comparisons_csv(tmp_path / "c.csv", items=profile.items)
    assert (again.left.tolist(), again.right.tolist(), again.outcome.tolist()) == ([0], [1], [-1])


@pytest.mark.parametrize("items", [("0", "0 "), (" a", "a"), ("a\u00a0", "a"), ("a  b", "a b ")])
@pytest.mark.parametrize("ballot", [Ballot.strict([1]), Ballot.strict([1, 0]), Ballot.strict([0])])
def test_names_with_blank_ends_never_vote_for_each_other(tmp_path, items, ballot):
    profile = Profile.from_ballots(items, [ballot])
    try:
        write_ballots_csv(profile, tmp_path / "x.csv", layout="positions")
    except DataError:
        return  # refusing to write is as good
    assert read_ballots_csv(tmp_path / "x.csv", items=items) == profile


@given(data=st.data())
@run
def test_comparisons(tmp_path_factory, data):
    items = data.draw(item_lists(lambda _name: True, low=2))
    m, records = len(items), data.draw(st.integers(1, 8))
    column = st.lists(st.integers(0, m - 1), min_size=records, max_size=records)
    left = data.draw(column)
    right = [(a + 1 + d % (m - 1)) % m for a, d in zip(left, data.draw(column), strict=True)]
    outcome = data.draw(st.lists(st.integers(-1, 1), min_size=records, max_size=records))
    weight = data.draw(
        st.none() | st.lists(st.fractions(0, 10**9, max_denominator=10**6), min_size=records, max_size=records)
    )
    if weight is not None:
        weight[0] += 1
    person = data.draw(st.none() | st.lists(st.integers(0, 2), min_size=records, max_size=records))
    table = Comparisons.from_columns(items, left, right, outcome, weight=weight, person=person, persons=None)
    path = tmp_path_factory.getbasetemp() / "round_duels.csv"
    write_comparisons_csv(table, path)
    again = read_comparisons_csv(path, items=items)
    assert again.items == items
    for name in ("left", "right", "outcome"):
        assert np.array_equal(getattr(again, name), getattr(table, name))
    assert again.weight == table.weight
    if person is not None:
        who = [again.persons[i] for i in again.person]
        assert who == [str(i) for i in person]


@given(data=st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_all_formats_agree(tmp_path_factory, data):
    profile = data.draw(profiles("soi", lambda name: fits_preflib(name) and fits_column(name)))
    base = tmp_path_factory.getbasetemp()
    write_preflib(profile, base / "agree.soi")
    read = read_preflib(base / "agree.soi")
    write_ballots_csv(read, base / "agree.csv")
    places = read_ballots_csv(base / "agree.csv", layout="places", items=profile.items)
    write_ballots_csv(places, base / "agree2.csv", layout="positions")
    assert read_ballots_csv(base / "agree2.csv", items=profile.items) == profile

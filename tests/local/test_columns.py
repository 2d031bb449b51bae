"""Columns of reports: what is read, what is refused, and that a large file never needs memory for all of it."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from psephos.errors import DataError, ParameterError
from psephos.local import Answer, Report, ReportColumns, columns, write_reports
from psephos.local.columns import Kind

ITEMS = ("tea", "coffee", "milk")


def report(*answers, epsilon="1", unit="person", mechanism="binary", secure=True):
    return Report(
        epsilon=epsilon, unit=unit, mechanism=mechanism, secure=secure, answers=tuple(Answer(*a) for a in answers)
    )


MANY = [
    report(("tea", "coffee", "left"), ("milk", "tea", "right")),
    report(("coffee", "milk", "tie"), mechanism="three-outcome"),
    report(("tea", "milk", "left"), epsilon="1/3", unit="comparison", secure=False),
]


def listed(table):
    return [
        (table.items[a], table.items[b], int(s), int(p), table.kinds[k].epsilon_answer)
        for a, b, s, p, k in zip(table.left, table.right, table.reported, table.record, table.kind, strict=True)
    ]


WANTED = [
    ("tea", "coffee", 1, 0, Fraction(1, 2)),
    ("milk", "tea", -1, 0, Fraction(1, 2)),
    ("coffee", "milk", 0, 1, Fraction(1)),
    ("tea", "milk", 1, 2, Fraction(1, 3)),
]


@pytest.mark.parametrize("items", [None, ITEMS])
def test_reports_in_memory_and_in_a_file_give_the_same_columns(tmp_path, items):
    write_reports(tmp_path / "r.jsonl", MANY)
    for source in (MANY, iter(MANY), tmp_path / "r.jsonl", str(tmp_path / "r.jsonl")):
        table = ReportColumns.from_reports(source, items=items)
        assert listed(table) == WANTED
        assert table.items == (ITEMS if items else ("coffee", "milk", "tea"))
        assert (table.answers, table.records, table.secure) == (4, 3, False)


def test_columns_beyond_memory_are_mapped_from_files(monkeypatch):
    """The same numbers, from unnamed temporary files, in blocks that part no record."""
    rng = np.random.default_rng(3)
    names = [f"item {i}" for i in range(30)]
    many = []
    for _ in range(300):
        chosen = {tuple(sorted(rng.choice(30, 2, replace=False).tolist())) for _ in range(int(rng.integers(1, 12)))}
        many.append(report(*[(names[a], names[b], "left" if rng.random() < 0.5 else "right") for a, b in chosen]))
    whole = ReportColumns.from_reports(many)
    monkeypatch.setattr(columns, "IN_MEMORY", 64)
    monkeypatch.setattr(columns, "BLOCK", 50)
    mapped = ReportColumns.from_reports(many)
    assert isinstance(mapped.left, np.memmap)
    assert listed(mapped) == listed(whole)
    blocks = list(mapped.blocks())
    assert len(blocks) > 10
    assert (blocks[0].start, blocks[-1].stop) == (0, mapped.answers)
    for before, after in pairwise(blocks):
        assert before.stop == after.start
        assert mapped.record[before.stop - 1] < mapped.record[after.start]


def test_a_record_longer_than_a_block_is_a_block_of_its_own(monkeypatch):
    monkeypatch.setattr(columns, "BLOCK", 2)
    names = "abcdef"
    every = [(a, b, "left") for i, a in enumerate(names) for b in names[i + 1 :]]
    table = ReportColumns.from_reports([report(every[0]), report(*every), report(every[1])])
    assert [(b.start, b.stop) for b in table.blocks()] == [(0, 1), (1, 16), (16, 17)]


@pytest.mark.parametrize(
    ("reports", "items", "message"),
    [
        ([], None, "nothing to rank"),
        ([report((0, 1, "left"))], None, "record:1: items must be given: the reports name them by position"),
        (MANY, ITEMS[:2], "record:1: an item must be one of the 2 listed, got 'milk'"),
        ([*MANY, report((0, 3, "left"))], ITEMS, "record:4: an item must be one of the 3 listed, got 3"),
    ],
)
def test_reports_that_do_not_fit(reports, items, message):
    with pytest.raises(DataError, match=message):
        ReportColumns.from_reports(reports, items=items)


def test_a_fault_in_a_file_names_file_and_line(tmp_path):
    write_reports(tmp_path / "r.jsonl", MANY)
    with (tmp_path / "r.jsonl").open("a") as stream:
        stream.write('{"schema": "psephos.report/1"}\n')
    with pytest.raises(DataError, match=r"r\.jsonl:4: unit must be present"):
        ReportColumns.from_reports(tmp_path / "r.jsonl")
    with pytest.raises(DataError, match=r"r\.jsonl:1: answers\[1\]\.left must be one of the 2 items, got 'milk'"):
        ReportColumns.from_reports(tmp_path / "r.jsonl", items=ITEMS[:2])


def test_something_else_than_reports():
    with pytest.raises(ParameterError, match="reports must be of psephos"):
        ReportColumns.from_reports([("tea", "coffee", "left")])


GOOD = {
    "items": ITEMS,
    "left": np.array([0, 1]),
    "right": np.array([1, 2]),
    "reported": np.array([1, -1]),
    "record": np.array([0, 1]),
    "kind": np.array([0, 0]),
    "kinds": (Kind(unit="person", mechanism="binary", epsilon_answer=Fraction(1), epsilon_person=Fraction(1)),),
    "secure": True,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": np.array([0, 3])}, "left must be 0 to 2"),
        ({"right": np.array([-1, 2])}, "right must be 0 to 2"),  # M6
        ({"right": np.array([0, 2])}, "left and right must be different"),
        ({"reported": np.array([1, 0])}, "reported must be 1 or -1"),
        ({"record": np.array([1, 2])}, "record must count up"),
        ({"record": np.array([0, 2])}, "record must count up"),
        ({"kind": np.array([0, 1])}, "kind must be 0 to 0"),
        ({"reported": np.array([1.0, 0.5])}, "reported must be whole numbers"),
        ({"kind": np.array([0])}, "kind must be whole numbers"),
        ({"right": np.array([1, 2], dtype=np.uint64)}, "right must be whole numbers"),
    ],
)
def test_columns_are_checked(change, message):
    ReportColumns(**GOOD)
    with pytest.raises(ParameterError, match=message):
        ReportColumns(**(GOOD | change))


@pytest.mark.parametrize("epsilon", ["1e-17", "0.1", "1", "40", "800"])
@pytest.mark.parametrize("mechanism", ["binary", "three-outcome"])
def test_n6_no_division_by_zero_at_any_epsilon(epsilon, mechanism):
    kind = Kind(
        unit="comparison", mechanism=mechanism, epsilon_answer=Fraction(epsilon), epsilon_person=Fraction(epsilon)
    )
    assert 0 < kind.attenuation <= 1
    assert 1 <= kind.second_moment(0.0) < np.inf
    if mechanism == "three-outcome":
        assert kind.second_moment(1.0) <= kind.second_moment(0.0)
    if epsilon == "800":
        assert kind.second_moment(0.25) == (1.0 if mechanism == "binary" else 0.75)


def test_the_second_moment_is_that_of_the_law():
    """By the law itself: three reports, true shares of left, right and tie."""
    for epsilon in (0.3, 1.0, 3.0):
        e = np.exp(epsilon)
        eps = Fraction(str(epsilon))
        three = Kind(unit="comparison", mechanism="three-outcome", epsilon_answer=eps, epsilon_person=eps)
        for ties in (0.0, 0.4, 1.0):
            reported_tie = (ties * e + (1 - ties)) / (e + 2)
            assert three.second_moment(ties) == pytest.approx((1 - reported_tie) / three.attenuation**2, rel=1e-12)


def test_an_epsilon_below_what_a_device_takes_may_come_from_many_answers():
    tiny = Fraction(1, 10**18)
    for mechanism, outcomes in (("binary", 2), ("three-outcome", 3)):
        kind = Kind(unit="person", mechanism=mechanism, epsilon_answer=tiny, epsilon_person=10 * tiny)
        assert kind.attenuation == float(tiny) / outcomes

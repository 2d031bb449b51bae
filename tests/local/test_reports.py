"""Reports: round trip, a golden line, and one refusal for each rule."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos._check import fold
from psephos.errors import DataError, ParameterError
from psephos.local import (
    Answer,
    Report,
    parse_report,
    plan_comparisons,
    plan_person,
    randomise_answers,
    read_reports,
    report_line,
    report_lines,
    write_reports,
)
from psephos.privacy import InsecureBits

GOOD = {
    "schema": "psephos.report/1",
    "unit": "person",
    "epsilon_person": "1",
    "epsilon_answer": "1/2",
    "mechanism": "binary",
    "secure": True,
    "answers": [{"left": 0, "right": 2, "reported": "left"}, {"left": 3, "right": 2, "reported": "right"}],
}
FIRST = GOOD["answers"][0]


def changed(**fields):
    return json.dumps(GOOD | fields)


def answers(*changes, **fields):
    return changed(answers=[FIRST | change for change in changes], epsilon_answer=f"1/{len(changes)}", **fields)


def raw(old, new):
    text = json.dumps(GOOD)
    assert old in text
    return text.replace(old, new, 1)


def test_golden_line():
    """The format is a promise: this line must be read, and written, for as long as the schema has this number."""
    line = (
        '{"schema":"psephos.report/1","unit":"person","epsilon_person":"1","epsilon_answer":"0.5",'
        '"mechanism":"binary","secure":false,"answers":[{"left":0,"right":2,"reported":"left"},'
        '{"left":3,"right":2,"reported":"right"}]}'
    )
    report = parse_report(line)
    assert report == Report(
        epsilon=Fraction(1),
        unit="person",
        mechanism="binary",
        secure=False,
        answers=(Answer(0, 2, "left"), Answer(3, 2, "right")),
    )
    assert report_line(report) == line


def test_a_report_with_test_bits_says_so():
    plan = plan_person(["a", "b"], epsilon=1)
    record = json.loads(report_line(randomise_answers(plan, ["left"], bits=InsecureBits(seed=1))))
    assert record["secure"] is False
    assert json.loads(report_line(randomise_answers(plan, ["left"])))["secure"] is True


def test_a_report_holds_nothing_that_was_not_public_or_randomised():
    """Same plan, same noise, answers turned round: the records differ in what was reported, and nowhere else."""
    plan = plan_comparisons(["a", "b", "c"], [(0, 1), (1, 2)], epsilon=1)
    records = [
        json.loads(report_line(randomise_answers(plan, given, bits=InsecureBits(seed=7))))
        for given in (["left", "left"], ["right", "right"])
    ]
    assert set(records[0]) == set(GOOD)
    for first, second in zip(*(record.pop("answers") for record in records), strict=True):
        assert set(first) == {"left", "right", "reported"}
        assert {first.pop("reported"), second.pop("reported")} == {"left", "right"}
        assert first == second
    assert records[0] == records[1]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(fold)
epsilons = st.one_of(
    st.fractions(Fraction(1, 10**6), 800, max_denominator=10**9),
    st.decimals("1e-17", 800, allow_nan=False, allow_infinity=False, places=20).map(Fraction),
    st.floats(1e-17, 800).map(lambda x: Fraction(str(x))),
).filter(lambda x: Fraction(1, 10**17) <= x <= 800)


@st.composite
def any_report(draw):
    kind = draw(st.sampled_from([names, st.integers(0, 50)]))
    items = draw(st.lists(kind, min_size=2, max_size=6, unique_by=lambda x: fold(x) if isinstance(x, str) else x))
    every = [(a, b) for a in items for b in items if str(a) < str(b)] or [(items[0], items[1])]
    pairs = draw(st.lists(st.sampled_from(every), min_size=1, max_size=8, unique=True))
    mechanism = draw(st.sampled_from(["binary", "three-outcome"]))
    outcomes = st.sampled_from(["left", "right"] if mechanism == "binary" else ["left", "right", "tie"])
    turned = [pair[:: draw(st.sampled_from([1, -1]))] for pair in pairs]
    return Report(
        epsilon=draw(epsilons),
        unit=draw(st.sampled_from(["person", "comparison"])),
        mechanism=mechanism,
        secure=draw(st.booleans()),
        answers=tuple(Answer(*pair, draw(outcomes)) for pair in turned),
    )


@given(any_report())
def test_round_trip(report):
    line = report_line(report)
    assert "\n" not in line
    assert parse_report(line) == report
    assert parse_report(line.encode() + b"\r\n") == report


@given(any_report(), any_report())
def test_round_trip_of_a_file(tmp_path_factory, first, second):
    path = tmp_path_factory.mktemp("reports") / "r.jsonl"
    assert write_reports(path, [first, second, first]) == 3
    assert list(read_reports(path)) == [first, second, first]


def test_names_become_positions_where_the_list_is_given():
    line = changed(answers=[{"left": "b", "right": "a  x", "reported": "left"}], epsilon_answer="1")
    assert parse_report(line).answers == (Answer("b", "a  x", "left"),)
    assert parse_report(line, items=["a x", "b"]).answers == (Answer(1, 0, "left"),)
    with pytest.raises(DataError, match=r"answers\[0\].right must be one of the 2 items, got 'a  x'"):
        parse_report(line, items=["a", "b"])
    with pytest.raises(DataError, match=r"7: answers\[1\].left must be one of the 3 items, got 3"):
        parse_report(changed(), items=["a", "b", "c"], line=7)
    for items in (["a", "a"], ["a b", "a  b"], "ab", ["a", " "], ["a", 3]):
        with pytest.raises(ParameterError, match="items"):
            parse_report(line, items=items)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        # the line
        ("", "a line must be one JSON object .*, got ''"),
        ("left", "a line must be one JSON object .* at column 1"),
        ("[]", r"a line must be a JSON object, got \[\]"),
        ("3", "a line must be a JSON object, got 3"),
        ("null", "a line must be a JSON object, got None"),
        (json.dumps(GOOD)[:-1], "a line must be one JSON object"),
        (json.dumps(GOOD) * 2, "a line must be one JSON object .*Extra data"),
        ("[" * 100_000, "without deep nesting"),
        (b'{"unit": "\xff"}', "a line must be UTF-8, got byte 0xff at column 11"),
        # a closed schema
        (changed(truth=[1]), r"'truth' is no field \(schema, unit, .* are\), got \[1\]"),
        (answers({"confidence": 3}), r"answers\[0\].'confidence' is no field \(left, right, reported are\), got 3"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "secure"}), "secure must be present"),
        ("{}", "schema must be present, got only no field"),
        (changed(answers=[{"left": 0, "right": 1}]), r"answers\[0\].reported must be present, got only left, right"),
        (raw('"secure": true', '"secure": true, "secure": false'), "secure must be given once, not again, got False"),
        (changed(schema="psephos.report/2"), "schema must be psephos.report/1, got 'psephos.report/2'"),
        (changed(schema=1), "schema must be psephos.report/1, got 1"),
        (changed(schema=None), "schema must be psephos.report/1, got None"),
        # public facts
        (changed(unit="row"), "unit must be one of person, comparison, got 'row'"),
        (changed(unit=["person"]), r"unit must be one of person, comparison, got \['person'\]"),
        (changed(mechanism="laplace"), "mechanism must be one of binary, three-outcome, got 'laplace'"),
        (changed(secure="true"), "secure must be true or false, got 'true'"),
        (changed(secure=1), "secure must be true or false, got 1"),
        # epsilon
        (changed(epsilon_person=1), "epsilon_person must be a number as text .*, got 1"),
        (changed(epsilon_answer=0.5), "epsilon_answer must be a number as text .*, got 0.5"),
        (changed(epsilon_answer=True), "epsilon_answer must be a number as text .*, got True"),
        (raw('"1/2"', "NaN"), "epsilon_answer must be a number as text .*, got NaN"),
        (raw('"1/2"', "-Infinity"), "epsilon_answer must be a number as text .*, got -Infinity"),
        (raw('"1/2"', "1e400"), "epsilon_answer must be a number as text .*, got 1e400"),
        (changed(epsilon_person="nan"), "epsilon_person must be a number from 1e-17 to 800 .*, got 'nan'"),
        (changed(epsilon_answer="inf"), "epsilon_answer must be an exact number as text, got 'inf'"),
        (changed(epsilon_answer="1/0"), "epsilon_answer must be an exact number as text, got '1/0'"),
        (changed(epsilon_person="9" * 500), r"epsilon_person must be a number as text .*, got '9+\.\.\."),
        (changed(epsilon_person="0"), "epsilon_person must be a number from 1e-17 to 800 .*, got '0'"),
        (changed(epsilon_person="-1"), "epsilon_person must be a number from 1e-17 to 800"),
        (changed(epsilon_person="9e-18"), "epsilon_person must be a number from 1e-17 to 800"),
        (changed(epsilon_person="800.1"), "epsilon_person must be a number from 1e-17 to 800"),
        (changed(epsilon_person="1e9999"), "epsilon_person must be a number from 1e-17 to 800"),
        (changed(unit="comparison", epsilon_answer="801"), "epsilon_answer must be a number from 1e-17 to 800"),
        (changed(epsilon_answer="1"), "epsilon_answer must be 0.5, as .*2 answers x epsilon_answer, got '1'"),
        (changed(epsilon_answer="0.3"), "epsilon_answer must be 0.5, as .*, got '0.3'"),
        (changed(unit="comparison", epsilon_person="0.5"), "epsilon_person must be 1, as .*, got '0.5'"),
        # answers
        (changed(answers={}), "answers must be a list of at least one answer, got {}"),
        (changed(answers=[]), r"answers must be a list of at least one answer, got \[\]"),
        (changed(answers=[FIRST, 3]), r"answers\[1\] must be a JSON object, got 3"),
        (answers({"reported": "tie"}), r"answers\[0\].reported must be one of left, right \(binary\), got 'tie'"),
        (
            answers({"reported": "draw"}, mechanism="three-outcome"),
            r"reported must be one of left, right, tie \(three-outcome\), got 'draw'",
        ),
        (answers({"reported": 1}), "reported must be one of left, right .*, got 1"),
        (answers({"reported": ["left"]}), r"reported must be one of left, right .*, got \['left'\]"),
        (answers({"left": -1}), r"answers\[0\].left must be a name, or a whole number from 0 to 2147483647, got -1"),
        (answers({"right": 2**31}), r"answers\[0\].right must be a name, or a whole number .*, got 2147483648"),
        (answers({"left": True}), "left must be a name, or a whole number .*, got True"),
        (answers({"left": None}), "left must be a name, or a whole number .*, got None"),
        (answers({"left": 1.0}), "left must be a name, or a whole number .*, got 1.0"),
        (answers({"left": {}}), "left must be a name, or a whole number .*, got {}"),
        (raw('"left": 0', '"left": ' + "9" * 5000), r"left must be a name, or a whole number .*, got 9+\.\.\."),
        (raw('"left": 0', '"left": NaN'), r"left must be a name, or a whole number .*, got NaN"),
        (answers({"left": " ", "right": "b"}), r"left must be a name that is not blank, got ' '"),
        (answers({"left": "\ud800", "right": "b"}), r"left must be a name that is not blank"),
        (answers({"left": 0, "right": "b"}), r"answers\[0\].right must be a position as in the first answer, got 'b'"),
        (answers({"left": "b", "right": 0}), r"answers\[0\].right must be a name as in the first answer, got 0"),
        (answers({"left": 2}), r"answers\[0\].right must be another item than left, got 2"),
        (answers({"left": "a b", "right": "a  b"}), r"answers\[0\].right must be another item than left"),
        (answers({}, {}), r"answers\[1\] must be a pair that the record does not have yet .*, got \[0, 2\]"),
        (answers({}, {"left": 2, "right": 0}), r"answers\[1\] must be a pair .*answers\[0\] has it\), got \[2, 0\]"),
        (
            answers({"left": "a b", "right": "c"}, {"left": "c", "right": "a  b"}),
            r"answers\[1\] must be a pair that the record does not have yet",
        ),
    ],
)
def test_malformed_reports(line, message):
    with pytest.raises(DataError, match=f"^people.jsonl:12: .*{message}") as caught:
        parse_report(line, source="people.jsonl", line=12)
    assert (caught.value.source, caught.value.line) == ("people.jsonl", 12)
    assert len(str(caught.value)) < 500


def test_files(put):
    line = json.dumps(GOOD)
    path = put("r.jsonl", b"\xef\xbb\xbf" + f"{line}\r\n\n  \n{line}".encode())
    assert len(list(read_reports(path))) == 2
    assert list(read_reports(put("empty.jsonl", ""))) == []
    assert len(list(read_reports(str(path), items=["a", "b", "c", "d"]))) == 2


def test_a_file_is_read_up_to_its_first_fault(put):
    line = json.dumps(GOOD)
    stream = read_reports(put("r.jsonl", f"{line}\n{line}\n{changed(secure=3)}\n{line}\n"))
    assert [next(stream).secure, next(stream).secure] == [True, True]
    with pytest.raises(DataError, match=r"^r.jsonl:3: secure must be true or false, got 3$"):
        next(stream)


def test_lines_are_bounded(put, monkeypatch):
    monkeypatch.setattr(report_lines, "MAX_LINE", 300)
    fits = json.dumps(GOOD).ljust(300)
    assert parse_report(fits) == parse_report(fits + "\r\n") == parse_report(json.dumps(GOOD))
    with pytest.raises(DataError, match=r"^r.jsonl:2: a line must have at most 300 bytes, got more$"):
        list(read_reports(put("r.jsonl", f"{fits}\r\n{fits} \n")))
    many = Report(
        epsilon=Fraction(1),
        unit="person",
        mechanism="binary",
        secure=True,
        answers=tuple(Answer(0, i, "left") for i in range(1, 9)),
    )
    with pytest.raises(ParameterError, match="answers must fit a line of 300 bytes, got 8 answers"):
        report_line(many)


def test_reading_holds_one_record_at_a_time(put):
    """Ten times the file, the same peak of memory."""
    import tracemalloc

    line = json.dumps(GOOD) + "\n"
    peaks = []
    for copies in (300, 3000):
        path = put(f"{copies}.jsonl", line * copies)
        tracemalloc.start()
        assert sum(1 for _ in read_reports(path)) == copies
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 20_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": 0}, "epsilon_person must be a number from 1e-17 to 800"),
        ({"unit": "both"}, "unit must be"),
        ({"mechanism": None}, "mechanism must be"),
        ({"secure": 1}, "secure must be"),
        ({"answers": ()}, "answers must be"),
        ({"answers": ((0, 1, "left"),)}, r"answers\[0\] must be an Answer"),
        ({"answers": (Answer(0, 1, "tie"),)}, "reported must be one of left, right"),
    ],
)
def test_a_report_by_hand_is_checked_too(fields, message):
    good = {"epsilon": 1, "unit": "person", "mechanism": "binary", "secure": True, "answers": (Answer(0, 1, "left"),)}
    assert Report(**good).epsilon == Fraction(1)
    with pytest.raises(ParameterError, match=message):
        Report(**(good | fields))

"""What the commands read: by content, in this process, since a process for each file is slow."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from psephos.cli.inputs import holds_reports, read_data
from psephos.cli.options import BallotOptions
from psephos.errors import DataError, ParameterError

ROOT = Path(__file__).parents[2]


def read(path, **options):
    items, strict = options.pop("items", None), options.pop("strict", False)
    return read_data(path, items=items, strict=strict, ballots=BallotOptions(**options))


@pytest.mark.parametrize("name", ["x", "x.dat", "x.txt", "x.v2.data", "x.soc", "x.csv"])
@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("# NUMBER ALTERNATIVES: 2\n3: 1,2\n0: 2,1\n", 3),
        ("2\n1,A\n2,B\n3,3,1\n3,1,2\n0,2,1\n", 3),
        ("A,B,count\n1,2,3\n2,1,0\n", 3),
        ("model_a,model_b,winner,judge\nA,B,model_a,p\nB,A,tie (bothbad),q\n", 2),
    ],
)
def test_a_file_of_any_name_is_read_by_what_it_holds(put, name, text, people):
    path = put(name, text)
    holds, says = ("PrefLib" if text[0] in "#2" else "a table"), {"x.soc": "PrefLib", "x.csv": "a table"}.get(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = read(path)
    assert (data.people if hasattr(data, "people") else len(data.persons)) == people
    said = [str(warning.message) for warning in caught]
    if says in {None, holds}:
        assert said == []
        read(path, strict=True)
    else:
        assert said == [f"{name}: the suffix says {says}, and the file holds {holds}; the content decides"]
        with pytest.raises(DataError, match=f"the suffix says {says}"):
            read(path, strict=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema": "psephos.report/1", "unit": "person"}\n', "reports of devices: psephos scores reads them"),
        ('{"schema": "psephos.release/1"}\n', "a document of psephos.release/1; wanted ballots"),
        ('{\n"schema": 1}', "this file holds JSON; wanted ballots"),
        ("[" * 100_000, "this file holds JSON; wanted ballots"),
        ((ROOT / "examples" / "wages.csv").read_text(), "a table of records, .*: psephos posterior reads those"),
    ],
)
def test_a_file_of_another_kind_is_sent_to_the_command_that_reads_it(put, text, words):
    with pytest.raises(DataError, match=words):
        read(put("x.txt", text))


def test_reports_are_known_by_their_first_line_or_their_suffix(put):
    line = '{"schema": "psephos.report/1", "unit": "person"}\n'
    assert holds_reports(put("x", f"\n{line}"))
    assert holds_reports(put("x.jsonl", ""))
    assert not holds_reports(put("x.csv", "a,b\n1,2\n"))
    assert not holds_reports(put("x.json", "{}"))
    assert not holds_reports(Path("none"))


def test_what_looks_like_records_is_read_as_ballots_where_that_is_said(put):
    path = put("x.csv", "tea,milk\n1.5,40.25\n")
    with pytest.raises(DataError, match="give --layout, --columns or --items"):
        read(path)
    with pytest.raises(DataError, match="a place must be"):
        read(path, layout="places")


def test_a_pipe_is_refused_in_words(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ParameterError, match="a pipe or a device, which can be read only once"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"PK\x03\x04\x14\x00\x06\x00", "a spreadsheet or another zip archive: save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old spreadsheet"),
        (b"\x1f\x8b\x08\x00", "packed with gzip: unpack it first"),
        (b"%PDF-1.7", "a PDF"),
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.soc", "x"])
def test_what_is_no_text_is_named(put, start, words, name):
    with pytest.raises(DataError, match=words):
        read(put(name, start + bytes(range(256))))

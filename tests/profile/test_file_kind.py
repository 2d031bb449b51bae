"""What a file holds is told by its first lines, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from psephos.profile import file_kind

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("# NUMBER ALTERNATIVES: 2\n1: 1,2\n", "preflib"),
        ("\n \n#\n3: 1,2\n", "preflib"),
        ("12 : 1,2\n", "preflib"),
        ("2\n1,A\n2,B\n5,5,1\n5,1,2\n", "preflib"),
        ("2\n\n1,A\n", "preflib"),
        ("a,b\n1,2\n", "table"),
        ("1,2\n2,1\n", "table"),
        ("1\n2\n", "table"),
        ("a,b,c\n1.0,2.0,3.0\n0,1,2\n", "table"),
        ("user,tea,coffee\n900,1,2\n", "table"),
        ("rank1,rank2\n2001,1984\n", "table"),
        ("a;b\n1;2\n", "table"),
        ("a,b\n1\n", "table"),
        ("a,b\n", "table"),
        ("model_a,model_b,winner\n", "comparisons"),
        ("wage,age,educ\n6.5,40,12\n7.1,45,\n", "records"),
        ("wage;sex\n6.5;m\n", "table"),
        ("#,tea,milk\n1,1,2\n", "table"),
        ("# made by hand, in May\n# NUMBER ALTERNATIVES: 2\n", "preflib"),
        ("# made by hand, in May\n3: 1,2\n", "preflib"),
        ("10:30,11:30\n1,2\n", "table"),
        ("[1st choice],[2nd choice]\na,b\n", "table"),
        ("NUMBER ALTERNATIVES: 2\n1: 1,2\n", "table"),
        ('{"schema": "psephos.report/1"}\n', "json"),
        ("[[1, 2]]\n", "json"),
    ],
)
def test_kinds(put, text, kind):
    assert file_kind(put("x", text)) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("burlington2006.toi", "preflib"),
        ("drinks.csv", "table"),
        ("drinks_positions.csv", "table"),
        ("duels.csv", "comparisons"),
        ("wages.csv", "records"),
    ],
)
def test_kinds_of_the_examples(name, kind):
    assert file_kind(ROOT / "examples" / name) == kind


def test_where_the_first_line_says_nothing_the_suffix_does(put):
    assert file_kind(put("x.soc", "NUMBER ALTERNATIVES: 2\n1: 1,2\n")) == "preflib"
    assert file_kind(put("x.soi", "")) == "preflib"
    assert file_kind(put("y.soi", "a,b\n1,2\n")) == "table"

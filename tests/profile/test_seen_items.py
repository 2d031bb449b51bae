"""Items as seen in the data that are hardly a public list are never declared one."""

from __future__ import annotations

import pytest

from psephos.errors import DataError
from psephos.profile import Comparisons, read_ballots_csv, read_comparisons_csv
from psephos.profile.seen_items import private_looking

PRIVATE = [
    "ana@example.org", "Ana B <ana@example.org>", "https://example.org/u/7", "www.example.org", "2024-05-01",
    "2024-05-01T10:11:12Z", "5/1/2024 10:11:12", "01.05.2024", "Mon, 5 May 2024", "5-May-24", "May 5", "10:30",
    "192.168.0.1", "fe80::1:2:3", "+49 170 1234567", "(030) 123-4567", "12", "1.5", "1,5", "-3", "1e5", "12%",
    "123e4567-e89b-12d3-a456-426614174000", "deadbeefdeadbeef12", "Tea;Coffee;Water;",
    "Other: my boss Bob", "Other (please specify): cola", "other - cola",
]  # fmt: skip
PUBLIC = [
    "tea", "7-Up", "49ers", "GPT-4", "GPT 3.5", "Weaver 12k", "Airoboros L2 70B", "Llama-2-7b", "Decaf 5", "Marble 3",
    "Mayo 5", "March", "24/7", "9/11", "1st", "O'Neil", "x, y", "=1+1", "3D", "@home", "AC/DC", "Route 66", "facade",
    "Other", "Others", "Other:", "Otherwise (a band)", "Another: story",
]  # fmt: skip


@pytest.mark.parametrize("name", PRIVATE)
def test_addresses_dates_and_numbers_are_found_whoever_named_them(name):
    assert private_looking(["tea", name], [9, 9])
    assert repr(name) in private_looking(["tea", name], [9, 9])[0]


def test_names_of_things_are_not_taken_for_them():
    assert private_looking(PUBLIC, [2] * len(PUBLIC)) == ()


def test_what_one_alone_named_is_found_once_for_all():
    assert private_looking(["c", "a", "b"], [1, 1, 2]) == ("'a' was named by one alone (and 1 more like it)",)


def test_ballots_that_name_addresses_are_no_public_list(put):
    rows = "ana@example.org,tea\nbo@example.org,tea\n" * 3
    path = put("x.csv", "rank1,rank2\n" + rows)
    profile = read_ballots_csv(path)
    with pytest.raises(DataError, match=r"'ana@example\.org' looks like an e-mail address \(and 1 more.*--items"):
        profile.with_items_public()
    listed = read_ballots_csv(path, items=["tea", "ana@example.org", "bo@example.org"])
    assert listed.with_items_public() is listed


def test_ballots_of_which_one_writes_in_a_name_of_its_own(put):
    profile = read_ballots_csv(put("x.csv", "rank1,rank2,count\ntea,milk,5\ntea,my neighbour,1\n"))
    with pytest.raises(DataError, match="'my neighbour' was named by one alone"):
        profile.with_items_public()


def test_comparisons_count_people_where_they_are_known(put):
    once = "left,right,winner\na,b,left\na,b,left\nb,c,tie\n"
    with pytest.raises(DataError, match="'c' was named by one alone"):
        read_comparisons_csv(put("x.csv", once)).with_items_public()
    one = Comparisons.from_columns(list("abc"), [0, 0, 1], [1, 1, 2], [1, 1, 1], person=[0, 1, 1], items_source="seen")
    assert one.named_by() == [2, 2, 1]
    with pytest.raises(DataError, match="'c' was named by one alone"):
        one.with_items_public()
    two = Comparisons.from_columns(list("abc"), [0, 2, 1], [1, 1, 2], [1, 1, 1], person=[0, 0, 1], items_source="seen")
    assert two.named_by() == [1, 2, 2]
    numbers = Comparisons.from_columns(["1", "2"], [0, 0], [1, 1], [1, 1], items_source="seen")
    with pytest.raises(DataError, match="'1' looks like a number"):
        numbers.with_items_public()


@pytest.mark.parametrize("order", [1, -1])
def test_which_spelling_is_published_does_not_depend_on_the_order_of_rows(put, order):
    rows = ["green  tea,milk", "green tea,milk", "milk,green   tea"][::order]
    ballots = read_ballots_csv(put("x.csv", "\n".join(["rank1,rank2", *rows])))
    assert ballots.items == ("green tea", "milk")
    assert ballots.notes == tuple(f"x.csv: {name!r} taken as 'green tea'" for name in ("green   tea", "green  tea"))
    duels = read_comparisons_csv(put("y.csv", "\n".join(["left,right,winner", *(f"{row},left" for row in rows)])))
    assert duels.items == ("green tea", "milk")

"""``psephos check``: does a file hold what it should? For the holder's eyes; nothing here is private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psephos.cli.inputs import CleanOption, FileArgument, ItemsOption, LayoutOption, StrictOption, read_data
from psephos.cli.output import note, quiet_stdout, write_result

if TYPE_CHECKING:
    from psephos.profile import Comparisons, Profile

__all__ = ["check"]


def check(
    file: FileArgument,
    clean: CleanOption = "reject",
    layout: LayoutOption = None,
    items: ItemsOption = None,
    strict: StrictOption = False,
) -> None:
    """Check a file of ballots or comparisons and say what it holds.

    What it prints is about the data, and not private: it is for the holder alone.
    """
    from psephos.errors import DataError

    with quiet_stdout():
        try:
            data = read_data(file, clean=clean, layout=layout, items=items, strict=strict)
        except DataError:
            _note_other_faults(file, layout, items)
            raise
    for line in data.notes:
        note(line)
    write_result(_summary(file.name, data), None)


def _note_other_faults(file: FileArgument, layout: LayoutOption, items: ItemsOption) -> None:
    """List the faulty ballots that a first error hides."""
    import warnings

    from psephos.errors import DataError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = read_data(file, clean="empty", layout=layout, items=items, strict=False)
    except DataError:
        return  # a fault that no policy repairs: it is the error itself
    for line in data.notes:
        note(line)


def _summary(name: str, data: Profile | Comparisons) -> str:
    from psephos.profile import Profile

    if isinstance(data, Profile):
        kinds = {
            "soc": "strict, complete",
            "soi": "strict, some truncated",
            "toc": "complete, some with ties",
            "toi": "some truncated, some with ties",
        }
        body = f"{data.people} people, {data.support} distinct ballots ({kinds[data.data_type]})"
    else:
        people = "" if data.persons is None else f" by {len(data.persons)} people"
        body = f"{data.records} comparisons{people}"
    source = {
        "declared": "declared",
        "seen": "as seen in the data: a release needs a public list",
        "assumed": "assumed",
    }
    return f"{name}: ok\n{body}\n{data.m} items ({source[data.items_source]}): {', '.join(data.items)}"

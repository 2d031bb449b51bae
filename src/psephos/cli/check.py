"""``psephos check``: does a file hold what it should? For the holder's eyes; nothing here is private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psephos.cli.inputs import read_data
from psephos.cli.options import BallotOptions, FileArgument, ItemsOption, StrictOption
from psephos.cli.output import count_of, note, quiet_stdout, shown, write_result

if TYPE_CHECKING:
    from psephos.profile import Comparisons, Profile

__all__ = ["check"]


def check(
    file: FileArgument, *, ballots: BallotOptions, items: ItemsOption = None, strict: StrictOption = False
) -> None:
    """Check a file of ballots or comparisons and say what it holds.

    What it prints is about the data, and not private: it is for the holder alone.
    """
    from psephos.profile.seen_items import private_looking

    with quiet_stdout():
        data = read_data(file, items=items, strict=strict, ballots=ballots)
    if data.items_source == "seen":
        for reason in private_looking(data.items, data.named_by()):
            note(f"warning: {file.name}: hardly a public list of items, so no release takes it as seen: {reason}")
    write_result(_summary(file.name, data), None)


def _summary(name: str, data: Profile | Comparisons) -> str:
    from psephos.profile import Profile

    if isinstance(data, Profile):
        kinds = {
            "soc": "strict, complete",
            "soi": "strict, some truncated",
            "toc": "complete, some with ties",
            "toi": "some truncated, some with ties",
        }
        people = count_of(data.people, "person", "people")
        body = f"{people}, {count_of(data.support, 'distinct ballot')} ({kinds[data.data_type]})"
    else:
        by = "" if data.persons is None else f" by {count_of(len(data.persons), 'person', 'people')}"
        body = f"{count_of(data.records, 'comparison')}{by}"
    source = {
        "declared": "declared",
        "seen": "as seen in the data: a release needs a public list",
        "assumed": "assumed",
    }
    items = count_of(data.m, "item")
    return f"{name}: ok\n{body}\n{items} ({source[data.items_source]}): {', '.join(shown(item) for item in data.items)}"

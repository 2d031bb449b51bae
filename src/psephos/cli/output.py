"""Where results and notes go: stdout carries the result alone, whatever libraries print."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psephos.privacy import Release

__all__ = [
    "claimed",
    "count_of",
    "csv_cell",
    "note",
    "progress",
    "progress_steps",
    "quiet_stdout",
    "release_sentence",
    "shown",
    "units_of",
    "write_csv",
    "write_result",
]


#: Characters that turn what follows around: a name with one can make a line read as another.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def note(text: str) -> None:
    """One line on stderr."""
    print(shown(text), file=sys.stderr)


@contextmanager
def quiet_stdout() -> Iterator[None]:
    """Send file descriptor 1 to stderr meanwhile: compiled libraries print there behind Python's back."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # no stdout at all
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


@contextmanager
def progress(label: str) -> Iterator[None]:
    """Say on stderr what goes on, once it has gone on for a second."""
    done = threading.Event()

    def show() -> None:
        if done.wait(1.0):
            return
        if not sys.stderr.isatty():
            note(f"{label} ...")
            return
        from rich.console import Console

        with Console(stderr=True).status(f"{label} ..."):
            done.wait()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def progress_steps(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr that (steps done, steps) moves; without a terminal only what :func:`progress` says."""
    if not sys.stderr.isatty():
        with progress(label):
            yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, steps: bar.update(task, completed=done, total=steps)


@contextmanager
def claimed(output: Path | None) -> Iterator[None]:
    """Make sure that ``output`` can be written before anything is paid for; leave no empty file after a failure."""
    existed = output is None or output.exists()
    if output is not None:
        output.open("a").close()
    try:
        yield
    except BaseException:
        if output is not None and not existed:
            output.unlink(missing_ok=True)
        raise


def write_result(text: str, output: Path | None) -> None:
    """Write the result, with a final newline, to ``output`` or to stdout."""
    if output is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    else:
        output.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula.

    >>> csv_cell("=1+1"), csv_cell("tea")
    ("'=1+1", 'tea')
    """
    return "'" + text if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def write_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A CSV table as text."""
    from psephos.profile.csv_table import csv_row

    return "".join(
        csv_row([csv_cell(cell) if isinstance(cell, str) else cell for cell in row]) for row in [header, *rows]
    )


def shown(name: str) -> str:
    """A name as a terminal may show it: control characters, line breaks and changes of direction escaped.

    >>> shown("tea\\n"), shown("thé")
    ('tea\\\\n', 'thé')
    """
    import unicodedata

    return "".join(
        c.encode("unicode_escape").decode()
        if unicodedata.category(c) in {"Cc", "Zl", "Zp", "Cs"} or c in _DIRECTIONS
        else c
        for c in name
    )


def count_of(n: int, what: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count_of(1, "item"), count_of(2, "item"), count_of(2, "person", "people")
    ('1 item', '2 items', '2 people')
    """
    return f"{n} {what if n == 1 else plural or what + 's'}"


def release_sentence(release: Release[Any], clauses: Sequence[str]) -> str:
    """A sentence about a release: its guarantee, what else is said of it, and what is left of the budget."""
    from psephos.privacy import decimal_text

    left = "no ledger was kept"
    if release.remaining is not None:
        left = f"epsilon {decimal_text(release.remaining[0])} and delta {decimal_text(release.remaining[1])} remain"
    insecure = [] if release.secure else ["INSECURE: made with test bits"]
    return "; ".join([release.guarantee.sentence().rstrip("."), *clauses, left, *insecure]) + "."


def units_of(release: Release[Any], n: int) -> str:
    """How many people, or comparisons, a release protects."""
    return count_of(n, "person", "people") if release.guarantee.unit == "person" else count_of(n, "comparison")

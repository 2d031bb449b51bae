"""Errors in the words of the command line: options in place of Python's names, sentences in place of error numbers.

The package names parameters as Python has them (``post_processing must be ...``, ``unit='comparison'``), and where a
way out differs it gives both, ``with_items_public() (--items-public-as-seen)``. Each command turns what it raises into
its own options, so that no message needs writing twice.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

__all__ = ["Command", "in_options", "plain"]

#: Parameters of Python whose option has another name.
_OTHER_NAMES = {"pairs_public": "--pairs-public-as-seen", "scores": "--scores-guess", "picture": "--picture"}
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_BOTH = (
    (re.compile(r"[\w.]+(?:\(\)|='[\w-]+'|=\w+) \((--[^()]*)\)"), r"\1"),  # unit='comparison' (--unit comparison)
    (re.compile(r"\w+ must be True \((--[\w-]+)\)"), r"\1 must be given"),
    (re.compile(r"^(\w+) must be False for "), r"\1 is not for "),
    (re.compile(r"\b\w+=, (--[\w-]+)"), r"\1"),  # (items=, --items)
)
_VALUE = re.compile(r"(?<![\w-])(?:([a-z_]+)=|(?<=with )([a-z_]+) )'([\w-]+)'")


def in_options(message: str, options: Iterable[str], *, parameters: bool) -> str:
    """A message that speaks of the options of a command; with ``parameters`` it is about a parameter.

    >>> in_options("target_top must be > 0, got 2", ["--target-top"], parameters=True)
    '--target-top must be > 0, got 2'
    >>> in_options("say layout='places'", ["--layout"], parameters=False)
    'say --layout places'
    """
    known = {option.lstrip("-").replace("-", "_"): option for option in options}
    known |= {name: option for name, option in _OTHER_NAMES.items() if option in known.values()}
    for pattern, words in _BOTH:
        message = pattern.sub(words, message)

    def value(match: re.Match[str]) -> str:
        name, word = match[1] or match[2], match[3]
        return f"{known.get(name, name)} {word}"

    message = _VALUE.sub(value, message)
    if not parameters:
        return message
    start = re.match(r"([a-z_]+)(?=[ \[:,])", message)
    if start is not None and start[1] in known:
        message = known[start[1]] + message[start.end() :]
    compound = "|".join(sorted((name for name in known if "_" in name), key=len, reverse=True))
    if compound:
        parts = _QUOTED.split(message)
        parts[::2] = [re.sub(rf"(?<![\w-])({compound})\b", lambda m: known[m[1]], part) for part in parts[::2]]
        message = "".join(parts)
    return message


def plain(error: OSError) -> str:
    """What went wrong with a file, in a sentence.

    >>> plain(FileNotFoundError(2, "No such file or directory", "none.csv"))
    "there is no file 'none.csv'"
    """
    name = None if error.filename is None else os.fsdecode(error.filename)
    shown = "a file" if name is None else repr(name)
    if isinstance(error, BrokenPipeError):
        return "the output was closed before all of it was written: what was not read is lost"
    if isinstance(error, FileNotFoundError) and name is not None:
        folder = Path(name).parent
        return f"there is no file {name!r}" if folder.is_dir() else f"there is no folder {str(folder)!r}"
    sentences = {
        errno.EACCES: f"{shown} may not be used: permission is denied",
        errno.EPERM: f"{shown} may not be used: permission is denied",
        errno.EROFS: f"{shown} may not be written: its disk is read-only",
        errno.EISDIR: f"{shown} is a folder, not a file",
        errno.ENOTDIR: f"{shown} is no path: a part of it is a file, not a folder",
        errno.ENOSPC: "no space is left where the output is written",
        errno.EDQUOT: "no space is left where the output is written",
        errno.ENAMETOOLONG: f"{shown[:80]}... is too long for the name of a file",
        errno.ELOOP: f"{shown} is a link that leads back to itself",
    }
    if error.errno in sentences:
        return sentences[error.errno]
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    return f"{shown} cannot be used: {reason}"


class Command(TyperCommand):
    """A command whose errors are in its own words."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from psephos.errors import ParameterError, PsephosError

        options = [option for parameter in self.params for option in parameter.opts if option.startswith("--")]
        try:
            return super().invoke(ctx)
        except PsephosError as error:
            error.args = (in_options(str(error), options, parameters=isinstance(error, ParameterError)),)
            raise
        except OSError as error:
            message = plain(error)
            if isinstance(error, BrokenPipeError):
                # Whatever is still in a buffer must not fail once more when the program ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if "--request-id" in options:
                    message += "; a request with --request-id can be asked for again, for free"
            raise PsephosError(message) from None

"""The table of commands, and what every error becomes.

Exit codes: 0 ok, 1 faults in the data, 2 usage, 3 budget refused.
"""

from __future__ import annotations

import io
import sys
import warnings
from typing import Annotated, TextIO

import typer

from psephos.cli import check, consensus, cost, ledger, plan, posterior, randomise, scores
from psephos.cli.options import grouped
from psephos.cli.output import note
from psephos.cli.words import Command, plain

__all__ = ["app", "run"]

app = typer.Typer(
    help="What a population prefers, without learning what anyone prefers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in (check.check, cost.cost, consensus.consensus, scores.scores, posterior.posterior, randomise.randomise):
    app.command(_command.__name__, cls=Command)(grouped(_command))
ledger_app = typer.Typer(help="What has been spent on each dataset.", no_args_is_help=True)
ledger_app.command("show", cls=Command)(ledger.show)
app.add_typer(ledger_app, name="ledger")
plan_app = typer.Typer(help="How many people, or how sure, before any data are collected.", no_args_is_help=True)
plan_app.command("local", cls=Command)(grouped(plan.local))
app.add_typer(plan_app, name="plan")


def _version(wanted: bool) -> None:
    if wanted:
        from psephos import __version__

        typer.echo(f"psephos {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """What a population prefers, without learning what anyone prefers."""


def _warn(
    message: Warning | str,
    category: type[Warning],
    _filename: str,
    _lineno: int,
    _file: TextIO | None = None,
    _line: str | None = None,
) -> None:
    print(f"warning: {message}" if category.__module__ == "psephos.errors" else f"note: {message}", file=sys.stderr)


def run() -> None:
    """Run the command line; never returns."""
    from psephos.errors import BudgetError, DataError, PsephosError

    # Whatever the locale says: a result that cannot be encoded would be lost after it was paid for.
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
    warnings.showwarning = _warn  # type: ignore[assignment]  # its parameters are positional here
    try:
        app()
    except DataError as error:
        _fail(error, 1)
    except BudgetError as error:
        _fail(error, 3)
    except PsephosError as error:
        _fail(error, 2)
    except OSError as error:  # such as a closed terminal, outside of any command
        _fail(OSError(plain(error)), 2)
    except MemoryError:
        _fail(MemoryError("the data need more memory than there is"), 2)


def _fail(error: Exception, code: int) -> None:
    for line in f"error: {error}".split("\n"):
        note(line)
    sys.exit(code)

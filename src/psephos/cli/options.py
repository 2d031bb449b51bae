"""Options that several commands share: single ones, and groups that a command takes as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from psephos.privacy import Account

__all__ = [
    "BallotOptions",
    "DeltaOption",
    "EpsilonOption",
    "FileArgument",
    "FormatOption",
    "ItemsOption",
    "ItemsPublicOption",
    "LedgerOptions",
    "OutputOption",
    "PairsOption",
    "ScoreOptions",
    "StrictOption",
    "UnitOption",
    "grouped",
]

FileArgument = Annotated[
    Path,
    typer.Argument(
        help="Ballots (PrefLib or CSV) or comparisons (CSV left,right,winner); the content decides.", show_default=False
    ),
]
EpsilonOption = Annotated[
    str, typer.Option("--epsilon", help="Privacy loss in nats: 0.1, 1/11, ...", show_default=False)
]
DeltaOption = Annotated[str, typer.Option("--delta", help="0 for pure privacy, else for example 1e-6.")]
ItemsOption = Annotated[
    Path | None,
    typer.Option("--items", help="A text file with the public list of items, one a line.", show_default=False),
]
UnitOption = Annotated[
    str, typer.Option("--unit", help="What is protected: a person with all their answers, or one comparison.")
]
PairsOption = Annotated[
    int | None,
    typer.Option("--pairs", help="Comparisons by person: on how many pairs one person counts."),
]
ItemsPublicOption = Annotated[
    bool, typer.Option("--items-public-as-seen", help="Declare the items seen in the data a public list.")
]
FormatOption = Annotated[str, typer.Option("--format", help="table, csv or json.")]
OutputOption = Annotated[Path | None, typer.Option("--output", help="Write here instead of stdout.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="A header that contradicts the body is an error.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotOptions:
    """How ballots are read, as :func:`psephos.read_ballots_csv` and :func:`psephos.read_preflib` take it."""

    clean: Annotated[
        str,
        typer.Option(
            "--clean",
            help="What a ballot that breaks a rule becomes: reject (an error), keep-first (of repeated items), empty.",
        ),
    ] = "reject"
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout", help="CSV ballots: positions or places; from the header if absent.", show_default=False
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            help="CSV ballots: the columns of ballots, between commas or one by one; a question stands for its "
            "columns.",
            show_default=False,
        ),
    ] = None
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", help="CSV ballots: columns that are left out, named likewise.", show_default=False),
    ] = None
    count_column: Annotated[
        str | None,
        typer.Option(
            "--count-column",
            help="CSV ballots: the column that says how many people a row stands for.",
            show_default=False,
        ),
    ] = None
    person_column: Annotated[
        str | None,
        typer.Option(
            "--person-column",
            help="CSV ballots: the column that says who answered; the last ballot of each person counts.",
            show_default=False,
        ),
    ] = None
    allow_void: Annotated[
        bool, typer.Option("--allow-void", help="With --clean: even if more than half of the ballots become void.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """How scores are fitted and shown."""

    link: Annotated[str, typer.Option("--link", help="logistic (Bradley-Terry) or normal (Thurstone).")] = "logistic"
    level: Annotated[float, typer.Option("--level", help="Of the intervals.")] = 0.95
    top: Annotated[int | None, typer.Option("--top", help="Only so many items, best first.", show_default=False)] = None
    output_format: FormatOption = "table"

    def check(self) -> None:
        """Refuse what is out of range, and options that do not go together."""
        from psephos._check import check_choice, check_integer, check_level
        from psephos.errors import ParameterError

        check_choice(self.output_format, "format", ("table", "csv", "json"))
        check_choice(self.link, "link", ("logistic", "normal"))
        check_level(self.level)
        if self.top is not None:
            check_integer(self.top, "--top", low=1)
            if self.output_format == "json":
                raise ParameterError("--top is for tables and CSV: the JSON holds the whole release")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOptions:
    """What pays for a release."""

    ledger: Annotated[Path | None, typer.Option("--ledger", help="Ledger file; debited before noise is drawn.")] = None
    dataset: Annotated[str | None, typer.Option("--dataset", help="Name of the dataset in the ledger.")] = None
    budget: Annotated[
        str | None, typer.Option("--budget", help="EPS[,DELTA]: the dataset's total, given once and then stored.")
    ] = None
    request_id: Annotated[
        str | None, typer.Option("--request-id", help="Asked again, this request gives its stored answer for free.")
    ] = None

    def check(self) -> None:
        """Refuse options that do not go together."""
        from psephos.errors import ParameterError

        if (self.ledger is None) != (self.dataset is None):
            raise ParameterError("--ledger and --dataset go together")
        if self.ledger is None and (self.budget is not None or self.request_id is not None):
            raise ParameterError("--budget and --request-id need --ledger and --dataset")

    def account(self) -> Account | None:
        """The account that pays; ``None`` without a ledger."""
        from psephos.privacy import Account, Ledger

        if self.ledger is None or self.dataset is None:
            return None
        epsilon, _, delta = (self.budget or "").partition(",")
        budget = None if self.budget is None else (epsilon, delta or "0")
        return Account(Ledger(self.ledger), self.dataset, budget=budget, request_id=self.request_id)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose groups of options, dataclasses among its parameters, are spelled out option by option."""
    hints = get_type_hints(command, include_extras=True)
    options: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            groups[parameter.name] = kind
            own = get_type_hints(kind, include_extras=True)
            single = [(field.name, own[field.name], field.default) for field in fields(kind)]
        else:
            single = [(parameter.name, kind, parameter.default)]
        only = inspect.Parameter.KEYWORD_ONLY
        options += [inspect.Parameter(name, only, annotation=kind, default=value) for name, kind, value in single]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run

"""``psephos ledger``: what has been spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psephos.cli.output import write_csv, write_result

if TYPE_CHECKING:
    from fractions import Fraction

    from psephos.privacy import Debit

__all__ = ["show"]


def show(
    db: Annotated[Path, typer.Argument(help="The ledger file.", exists=True, dir_okay=False, show_default=False)],
    output_format: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
) -> None:
    """Show the budget, the debits and what remains of every dataset."""
    from psephos._check import check_choice
    from psephos._json import json_text
    from psephos.privacy import Ledger, decimal_text

    check_choice(output_format, "format", ("table", "csv", "json"))
    rows: list[tuple[str, Fraction, Fraction, Fraction, Fraction, tuple[Debit, ...]]] = []
    with Ledger(db) as ledger:
        for name in ledger.datasets():
            rows.append((name, *ledger.budget(name), *ledger.remaining(name), ledger.debits(name)))
    if output_format == "json":
        document = [
            {
                "dataset": name,
                "budget_epsilon": decimal_text(epsilon),
                "budget_delta": decimal_text(delta),
                "remaining_epsilon": decimal_text(epsilon_left),
                "remaining_delta": decimal_text(delta_left),
                "debits": [_debit(debit) for debit in debits],
            }
            for name, epsilon, delta, epsilon_left, delta_left, debits in rows
        ]
        text = json_text({"schema": "psephos.ledger/1", "datasets": document})
    elif output_format == "csv":
        columns = ("dataset", "request_id", "epsilon", "delta", "created", "answered")
        text = write_csv(columns, [(row[0], *_debit(debit).values()) for row in rows for debit in row[5]])
    else:
        lines = []
        for name, epsilon, delta, epsilon_left, delta_left, debits in rows:
            lines.append(
                f"{name}: epsilon {decimal_text(epsilon_left)} of {decimal_text(epsilon)} and "
                f"delta {decimal_text(delta_left)} of {decimal_text(delta)} remain"
            )
            for debit in debits:
                entry = _debit(debit)
                state = "answered" if entry["answered"] else "no answer stored"
                lines.append(
                    f"  {entry['created']}  epsilon {entry['epsilon']}  delta {entry['delta']}  "
                    f"{entry['request_id']}  {state}"
                )
        text = "\n".join(lines) if lines else "no dataset has a budget"
    write_result(text, None)


def _debit(debit: Debit) -> dict[str, str | bool]:
    from psephos.privacy import decimal_text

    return {
        "request_id": debit.request_id,
        "epsilon": decimal_text(debit.epsilon),
        "delta": decimal_text(debit.delta),
        "created": debit.created,
        "answered": debit.answer is not None,
    }

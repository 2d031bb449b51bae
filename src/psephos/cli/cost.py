"""``psephos cost``: what a release would cost and how noisy it would be. Reads no data."""

from __future__ import annotations

from typing import Annotated

import typer

from psephos.cli.inputs import DeltaOption, EpsilonOption
from psephos.cli.output import write_csv, write_result

__all__ = ["cost"]


def cost(
    items: Annotated[int, typer.Option("--items", help="Number of items to rank.", show_default=False)],
    epsilon: EpsilonOption,
    delta: DeltaOption = "0",
    people: Annotated[
        int | None, typer.Option("--people", help="Number of people; adds the noise as a share of them.")
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="person or comparison.")] = "person",
    pairs: Annotated[
        int | None, typer.Option("--pairs", help="Comparisons by person: on how many pairs one person counts.")
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
) -> None:
    """Say what a consensus would debit, and how noisy each margin would be. Reads no data."""
    import json

    from psephos._check import check_choice, check_integer, parse_delta
    from psephos.central import plan_consensus
    from psephos.central.exponential import MOST_ITEMS
    from psephos.privacy import decimal_text

    check_choice(output_format, "format", ("table", "csv", "json"))
    check_choice(unit, "unit", ("person", "comparison"))
    check_integer(items, "--items", low=1)
    number = None if people is None else check_integer(people, "people", low=1)
    names = ["laplace"] + (["gaussian"] if parse_delta(delta) else [])
    if unit == "person" and pairs is None:  # ballots
        names += (["shaped"] if parse_delta(delta) and items > 2 else []) + ["borda"]
    if items <= MOST_ITEMS:
        names.append("exponential")
    chosen = plan_consensus(items, epsilon=epsilon, delta=delta, unit=unit, pairs=pairs)  # type: ignore[arg-type]
    rows = []
    for name in names:
        plan = plan_consensus(items, epsilon=epsilon, delta=delta, mechanism=name, unit=unit, pairs=pairs)  # type: ignore[arg-type]
        rows.append(
            {
                "mechanism": name,
                "auto": name == chosen.mechanism,
                "epsilon": decimal_text(plan.epsilon),
                "delta": decimal_text(plan.delta),
                "noise_sd": None if plan.law is None else plan.law.sd,
                # A margin of W votes among N people is a share of (1 + W/N)/2.
                "noise_sd_share": None if number is None or plan.law is None else plan.law.sd / (2 * number),
            }
        )
    if output_format == "json":
        document = {
            "schema": "psephos.cost/1",
            "items": items,
            "people": number,
            "unit": unit,
            "adjacency": "replace-one",
            "reason": chosen.reason,
            "mechanisms": rows,
        }
        write_result(json.dumps(document, indent=2), None)
        return
    if output_format == "csv":
        write_result(write_csv(list(rows[0]), [list(row.values()) for row in rows]), None)
        return
    lines = []
    for row in rows:
        noise = "one ranking is drawn, and no table released"
        if row["noise_sd"] is not None:
            share = "" if number is None else f", {row['noise_sd_share']:.2%} of a pair's share of {number} people"
            scores = " (scores alone: cycles are not released)" if row["mechanism"] == "borda" else ""
            noise = f"noise on each margin has standard deviation {row['noise_sd']:.4g} votes{share}{scores}"
        lines.append(
            f"{'*' if row['auto'] else ' '} {row['mechanism']}: debits epsilon {row['epsilon']}, delta {row['delta']}; "
            + noise
        )
    lines.append(f"* is what auto takes: {chosen.reason}. Protects each {unit}, replace-one adjacency.")
    write_result("\n".join(lines), None)

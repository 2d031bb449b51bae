"""``psephos cost``: what a release would cost and how noisy it would be. Reads no data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

import typer

from psephos.cli.options import DeltaOption, EpsilonOption
from psephos.cli.output import write_csv, write_result

__all__ = ["cost"]


def cost(
    items: Annotated[int, typer.Option("--items", help="Number of items to rank.", show_default=False)],
    epsilon: EpsilonOption,
    delta: DeltaOption = "0",
    people: Annotated[
        int | None, typer.Option("--people", help="Number of people; adds noise as a share of them, and two-stage.")
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="person or comparison.")] = "person",
    pairs: Annotated[
        int | None, typer.Option("--pairs", help="Comparisons by person: on how many pairs one person counts.")
    ] = None,
    level: Annotated[
        float | None, typer.Option("--level", help="With rank intervals, as psephos consensus --level: for ballots.")
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
) -> None:
    """Say what a consensus would debit, and how noisy each margin would be. Reads no data.

    Of ballots; of comparisons with --pairs (by person) or --unit comparison.
    """
    from psephos._check import check_choice, check_integer, check_level
    from psephos._json import json_text
    from psephos.central import MECHANISMS, TwoStagePlan, plan_consensus
    from psephos.errors import ParameterError
    from psephos.privacy import decimal_text

    check_choice(output_format, "format", ("table", "csv", "json"))
    check_choice(unit, "unit", ("person", "comparison"))
    check_integer(items, "--items", low=1)
    if level is not None:
        check_level(level)
    number = None if people is None else check_integer(people, "people", low=1)
    ballots = unit == "person" and pairs is None  # else how many answers a pair has is not known
    plans = {}
    for name in MECHANISMS:
        try:
            plans[name] = plan_consensus(
                items,
                epsilon=epsilon,
                delta=delta,
                mechanism=name,
                unit=unit,  # type: ignore[arg-type]
                pairs=pairs,
                people=number,
                intervals=level is not None,
            )
        except ParameterError:
            if name == "auto":  # the parameters are wrong; else the mechanism is not for them
                raise
    chosen = plans.pop("auto")
    rows = []
    for name, plan in plans.items():
        rows.append(
            {
                "mechanism": name,
                "auto": name == chosen.mechanism,
                "epsilon": decimal_text(plan.epsilon),
                "delta": decimal_text(plan.delta),
                "noise_sd": None if plan.law is None else plan.law.sd,
                "noise_sd_share": None
                if number is None or plan.law is None or not ballots
                else _share(plan.law.sd, number),
                "runs": plan.scales.reason if isinstance(plan.scales, TwoStagePlan) else None,
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
        write_result(json_text(document), None)
        return
    if output_format == "csv":
        write_result(write_csv(list(rows[0]), [list(row.values()) for row in rows]), None)
        return
    lines = []
    for row in rows:
        noise = "one ranking is released, and no table"
        if row["runs"] is not None:
            noise += f" ({row['runs']})"
        if row["noise_sd"] is not None:
            share = (
                ""
                if row["noise_sd_share"] is None
                else f", {100 * row['noise_sd_share']:.3g}% of a pair's share of {number} people"
            )
            noise = f"noise on each margin has standard deviation {row['noise_sd']:.4g} votes{share}"
            noise += {
                "borda": " (scores alone: cycles are not released)",
                "probe": " (or scores alone, if a first look shows no cycles)",
            }.get(str(row["mechanism"]), "")
        lines.append(
            f"{'*' if row['auto'] else ' '} {row['mechanism']}: debits epsilon {row['epsilon']}, delta {row['delta']}; "
            + noise
        )
    lines.append(f"* is what auto takes: {chosen.reason}. Protects each {unit}, replace-one adjacency.")
    write_result("\n".join(lines), None)


def _share(noise_sd: float, people: int) -> float:
    """Of noise on a margin in the share of a pair: a margin of W votes among N people is a share of (1 + W/N)/2.

    >>> _share(10.0, 100), _share(1e10, 10**400)
    (0.05, 0.0)
    """
    return noise_sd if noise_sd == math.inf else float(Fraction(noise_sd) / (2 * people))

"""What the rows say: the figures that ``expected.json`` states and the README tells."""

from __future__ import annotations

import math
from collections.abc import Callable

import bias
import numpy as np
from heterogeneous import exact_ratio
from measures import log_slope
from peers import RANKS_ONLY
from rates import privacy_factor

Rows = list[dict[str, str]]
Stated = dict[str, object]
SHOWN = {
    ("simulated", "10", "1000"),
    ("simulated", "10", "10000"),
    ("sushi", "10", "5000"),
    ("llmfao", "59", "124"),
}


def number(row: dict[str, str], name: str, digits: int = 3) -> float:
    return round(float(row[name]), digits)


def pick(rows: Rows, **wanted: object) -> Rows:
    return [row for row in rows if all(row[name] == str(value) for name, value in wanted.items())]


def on_bias(rows: Rows) -> Stated:
    stated: Stated = {}
    for m, theta in bias.TRUTH.items():
        for epsilon in (0.5, 1.0, 2.0):
            first, *_, last = pick(rows, items=m, epsilon=epsilon)
            wrong = bias.limit(theta, epsilon)
            stated[f"{m} items, epsilon {epsilon}"] = {
                "first less last, true": round(float(theta[0] - theta[-1]), 3),
                "first less last, limit of the fit to reports as they are": round(float(wrong[0] - wrong[-1]), 3),
                "rms error of that limit": round(float(np.sqrt(((wrong - theta) ** 2).mean())), 3),
                **{
                    f"rms error at {row['people']} people, {said}": round(math.sqrt(float(row[name])), 4)
                    for row in (first, last)
                    for said, name in (
                        ("as they are", "undebiased_mean_square"),
                        ("debiased", "debiased_mean_square"),
                    )
                },
            }
    q = bias.reported_probability(bias.TRUTH[3], 1.0)
    logit = np.log(q / (1 - q))
    stated["log-odds of reports, 3 items, epsilon 1"] = {
        "neighbours": round(float(logit[0, 1]), 3),
        "ends": round(float(logit[0, 2]), 3),
        "ends in any Bradley-Terry model with these neighbours": round(float(2 * logit[0, 1]), 3),
    }
    return stated


def on_rates(rows: Rows) -> Stated:
    stated: Stated = {}
    for constant in dict.fromkeys(row["constant"] for row in rows):
        for against, bar in (("L", -1.0), ("m", -1.0), ("G", 1.0)):
            some = pick(rows, against=against, constant=constant)
            size = [float(row["items"]) * float(row["people"]) for row in some]
            x = {
                "L": [float(row["people"]) for row in some],
                "m": [float(row["items"]) for row in some],
                "G": [privacy_factor(float(row["epsilon"])) for row in some],
            }[against]
            found: Stated = {}
            for name in ("mean_square", "max_norm", "excess_risk"):
                slope, error = log_slope(
                    x, [float(row[name]) for row in some], [float(row[name + "_se"]) for row in some]
                )
                found[name] = {"slope": round(slope, 3), "se": round(error, 3)}
                if name == "mean_square" and float(constant) < 1:
                    found["within .1 of the bar"] = abs(slope - bar) <= 0.1
            if against == "m":  # m scores that sum to 0 have m - 1 degrees of freedom
                exact = [1 - 1 / float(row["items"]) for row in some]
                slope, error = log_slope(
                    x,
                    [float(row["mean_square"]) / part for row, part in zip(some, exact, strict=True)],
                    [float(row["mean_square_se"]) / part for row, part in zip(some, exact, strict=True)],
                )
                found["mean_square / (1 - 1/m)"] = {"slope": round(slope, 3), "se": round(error, 3)}
                rate = [math.sqrt(math.log(float(row["items"])) / n) for row, n in zip(some, size, strict=True)]
                means, errors = ([float(row[key]) for row in some] for key in ("max_norm", "max_norm_se"))
                slope, error = log_slope(rate, means, errors)
                found["max_norm against sqrt(log(m)/(mL))"] = {"slope": round(slope, 3), "se": round(error, 3)}
            if against != "G":
                rate = [math.log(n) / n for n in size]
                slope, error = log_slope(
                    rate, [float(row["excess_risk"]) for row in some], [float(row["excess_risk_se"]) for row in some]
                )
                found["excess_risk against log(mL)/(mL)"] = {"slope": round(slope, 3), "se": round(error, 3)}
            stated[f"c = {constant}, against {against}"] = found
    return stated


def on_recovery(rows: Rows) -> Stated:
    stated: Stated = {}
    for name in ("top_failure", "order_failure"):
        # Where a failure is neither rare beyond measure nor the rule.
        usable = [row for row in rows if 0.005 <= float(row[name]) <= 0.5]
        curves = []
        for gap, epsilon in dict.fromkeys((row["gap"], row["epsilon"]) for row in usable):
            some = pick(usable, gap=gap, epsilon=epsilon)
            if len(some) > 2:
                curves.append(_line(some, name))
        slope, correlation = _line(usable, name)
        stated[name] = {
            "cells": len(usable),
            "slope of log failure in x": round(slope, 4),
            "correlation": round(correlation, 3),
            "flattest curve": round(max(line[0] for line in curves), 4),
            "steepest curve": round(min(line[0] for line in curves), 4),
            "weakest correlation of a curve": round(max(line[1] for line in curves), 3),
            "at x = 8": _range(rows, name, "8"),
            "at x = 40": _range(rows, name, "40"),
            "at x = 80": _range(rows, name, "80"),
        }
    return stated


def _line(rows: Rows, name: str) -> tuple[float, float]:
    """Slope of log failure in x, and their correlation."""
    x = np.array([float(row["x"]) for row in rows])
    y = np.log([float(row[name]) for row in rows])
    return float(np.polyfit(x, y, 1)[0]), float(np.corrcoef(x, y)[0, 1])


def _range(rows: Rows, name: str, x: str) -> list[float]:
    found = [number(row, name, 4) for row in pick(rows, x=x)]
    return [min(found), max(found)]


def on_heterogeneous(rows: Rows) -> Stated:
    stated: Stated = {}
    mix = tuple(rows[0]["mix"].split())
    right = exact_ratio(mix, "adaptive")
    for row in pick(rows, experiment="one pair"):
        ratio, error = float(row["ratio"]), float(row["ratio_se"])
        stated[f"one pair, weights {row['weights']}"] = {
            "ratio": round(ratio, 4),
            "se": round(error, 5),
            "exact": round(exact_ratio(mix, row["weights"]), 4),
            "standard errors from the exact ratio of adaptive weights": round((ratio - right) / error, 1),
            "within three standard errors of it": abs(ratio - right) <= 3 * error,
        }
    whole = pick(rows, experiment="whole fit")
    ratios = [float(row["ratio"]) for row in whole]
    excess = [(float(row["ratio"]) - 1) / float(row["ratio_se"]) for row in whole]
    stated["whole fit"] = {
        "settings": len(whole),
        "settings where adaptive loses by more than two standard errors": sum(z > 2 for z in excess),
        "settings where adaptive wins by more than two standard errors": sum(z < -2 for z in excess),
        "largest ratio": round(max(ratios), 3),
        "largest excess over 1, in standard errors": round(max(excess), 1),
        "largest ratio of medians": round(max(float(row["ratio_of_medians"]) for row in whole), 3),
        "ratio and se by mix, half range 1, 2000 people, 5 and 20 items": {
            mix: [
                [number(row, "ratio"), number(row, "ratio_se")]
                for row in pick(whole, mix=mix, half_range="1.0", people=2000)
            ]
            for mix in dict.fromkeys(row["mix"] for row in whole)
        },
        "ratio of one pair by mix": {
            mix: round(exact_ratio(tuple(mix.split()), "adaptive"), 3)
            for mix in dict.fromkeys(row["mix"] for row in whole)
        },
    }
    return stated


def on_real(rows: Rows) -> Stated:
    stated: Stated = {}
    for row in rows:
        name = f"{row['data']}, {row['asked']}, {row['unit']}, {row['answers']}, {row['mechanism']}, {row['epsilon']}"
        stated[name] = {
            "kendall": number(row, "kendall"),
            "se": number(row, "kendall_se"),
            "top_hamming": number(row, "top_hamming", 2),
            "max_norm": number(row, "max_norm_median", 2),
            "two_norm": number(row, "two_norm_median", 2),
            "separated": number(row, "separated", 2),
            "answers": round(float(row["answers_asked"])),
            "known": round(float(row["answers_known"])),
        }
    return stated


def on_peers(rows: Rows) -> Stated:
    stated: Stated = {}
    cells = list(dict.fromkeys((row["data"], row["items"], row["people"], row["epsilon"]) for row in rows))
    for data, m, people, epsilon in cells:
        if (data, m, people) in SHOWN:
            stated[f"{data}, {m} items, {people} people, epsilon {epsilon}"] = {
                row["method"]: {"kendall": number(row, "kendall"), "se": number(row, "kendall_se")}
                | {"top_hamming": number(row, "top_hamming", 2)}
                | (
                    {
                        "two_norm": number(row, "two_norm_median", 2),
                        "mean_square": float(f"{float(row['mean_square']):.3g}"),
                    }
                    if row["two_norm_median"]
                    else {}
                )
                for row in pick(rows, data=data, items=m, people=people, epsilon=epsilon)
            }
    for method in ("debiased, c = 1", "not debiased", "Laplace", RANKS_ONLY):
        better, worse, shorter = 0, 0, 0
        grid = [cell for cell in cells if cell[0] in ("simulated", "sushi")]
        for cell in grid:
            ours, other = (
                pick(rows, **dict(zip(("data", "items", "people", "epsilon"), cell, strict=True)), method=name)[0]
                for name in ("debiased", method)
            )
            gap = float(other["kendall"]) - float(ours["kendall"])
            error = math.hypot(float(other["kendall_se"]), float(ours["kendall_se"]))
            better += gap > 2 * error
            worse += gap < -2 * error
            if method != RANKS_ONLY:
                shorter += float(ours["two_norm_median"]) < float(other["two_norm_median"])
        stated[f"debiased against {method}, simulated and sushi"] = {
            "settings": len(grid),
            "lower Kendall error by two standard errors": better,
            "higher Kendall error by two standard errors": worse,
            **({"lower 2-norm error, median": shorter} if method != RANKS_ONLY else {}),
        }
    return stated


OF: dict[str, Callable[[Rows], Stated]] = {
    "bias": on_bias,
    "rates": on_rates,
    "recovery": on_recovery,
    "heterogeneous": on_heterogeneous,
    "real": on_real,
    "peers": on_peers,
}

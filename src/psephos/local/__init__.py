"""What runs on a person's device: answers are randomised here, and only reports leave. Standard library alone.

What a server makes of reports needs numpy and loads when first used: ``fit_reports``, ``ReportColumns``,
``population_reports`` and ``plan_local``; the estimate of all pairs is :func:`psephos.debias`.
"""

from __future__ import annotations

import importlib

from psephos.local.bits import BitSource, DeviceBits, is_secure
from psephos.local.budget import best_pairs, device_epsilon, epsilon_text
from psephos.local.person import Questionnaire, plan_comparisons, plan_person, randomise_answers
from psephos.local.randomized_response import (
    attenuation,
    odds_sentence,
    randomise,
    three_outcome_tie_share,
    truth_probability,
)
from psephos.local.report_lines import SCHEMA, parse_report, read_reports, report_line, write_reports
from psephos.local.reports import Answer, Mechanism, Outcome, Report, Unit

__all__ = [
    "SCHEMA",
    "Answer",
    "BitSource",
    "DeviceBits",
    "Mechanism",
    "Outcome",
    "Questionnaire",
    "Report",
    "Unit",
    "attenuation",
    "best_pairs",
    "device_epsilon",
    "epsilon_text",
    "is_secure",
    "odds_sentence",
    "parse_report",
    "plan_comparisons",
    "plan_person",
    "randomise",
    "randomise_answers",
    "read_reports",
    "report_line",
    "three_outcome_tie_share",
    "truth_probability",
    "write_reports",
]

_SERVER = {
    "ReportColumns": "columns",
    "fit_reports": "fit",
    "plan_local": "plan",
    "population_reports": "population",
}


def __getattr__(name: str) -> object:
    home = _SERVER.get(name)
    if home is None:
        raise AttributeError(f"module 'psephos.local' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"psephos.local.{home}"), name)
    globals()[name] = value
    return value

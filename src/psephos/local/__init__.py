"""What runs on a person's device: answers are randomised here, and only reports leave. Standard library alone."""

from psephos.local.bits import BitSource, DeviceBits, is_secure
from psephos.local.budget import best_pairs, device_epsilon, epsilon_text
from psephos.local.person import PersonPlan, plan_comparisons, plan_person, randomise_answers
from psephos.local.randomized_response import (
    attenuation,
    odds_sentence,
    randomise,
    three_outcome_tie_share,
    truth_probability,
)
from psephos.local.reports import (
    SCHEMA,
    Answer,
    Mechanism,
    Outcome,
    Report,
    Unit,
    parse_report,
    read_reports,
    report_line,
    write_reports,
)

__all__ = [
    "SCHEMA",
    "Answer",
    "BitSource",
    "DeviceBits",
    "Mechanism",
    "Outcome",
    "PersonPlan",
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

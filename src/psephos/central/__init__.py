"""Central privacy: a trusted curator releases a table once; the consensus is post-processing."""

from psephos.central.consensus import private_consensus
from psephos.central.margin_sensitivity import MarginSensitivity, margin_sensitivity
from psephos.central.plan import MECHANISMS, Mechanism, Plan, plan_consensus
from psephos.central.post_processing import POST_PROCESSINGS, PostProcessing, post_process, shrinkage
from psephos.central.result import SCHEMA, Consensus, release_from_json, release_to_json

__all__ = [
    "MECHANISMS",
    "POST_PROCESSINGS",
    "SCHEMA",
    "Consensus",
    "MarginSensitivity",
    "Mechanism",
    "Plan",
    "PostProcessing",
    "margin_sensitivity",
    "plan_consensus",
    "post_process",
    "private_consensus",
    "release_from_json",
    "release_to_json",
    "shrinkage",
]

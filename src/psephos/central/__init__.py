"""Central privacy: a trusted curator releases a table once; the consensus is post-processing."""

from psephos.central.consensus import private_consensus
from psephos.central.margin_sensitivity import MarginSensitivity, margin_sensitivity
from psephos.central.plan import MECHANISMS, Mechanism, Plan, plan_consensus
from psephos.central.post_processing import POST_PROCESSINGS, PostProcessing, post_process
from psephos.central.result import SCHEMA, Certificate, Consensus, release_from_json, release_to_json
from psephos.central.scores import SCORES_SCHEMA, PrivateScores, private_scores, scores_from_json, scores_to_json
from psephos.central.two_stage import TwoStage, TwoStagePlan

__all__ = [
    "MECHANISMS",
    "POST_PROCESSINGS",
    "SCHEMA",
    "SCORES_SCHEMA",
    "Certificate",
    "Consensus",
    "MarginSensitivity",
    "Mechanism",
    "Plan",
    "PostProcessing",
    "PrivateScores",
    "TwoStage",
    "TwoStagePlan",
    "margin_sensitivity",
    "plan_consensus",
    "post_process",
    "private_consensus",
    "private_scores",
    "release_from_json",
    "release_to_json",
    "scores_from_json",
    "scores_to_json",
]

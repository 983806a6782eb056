"""Logical plans of a feature transfer, the profile of a model, and the choice of a plan (Vista, section 4.2)."""

from optimizer.transfer._choice import Choice, TransferCost, choose_transfer
from optimizer.transfer._logical_plans import InferenceStage, LogicalPlan, plan_layers
from optimizer.transfer._profile import ModelProfile
from optimizer.transfer._workload import size_workload

__all__ = [
    "Choice",
    "InferenceStage",
    "LogicalPlan",
    "ModelProfile",
    "TransferCost",
    "choose_transfer",
    "plan_layers",
    "size_workload",
]

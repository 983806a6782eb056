"""Feature transfer decided: a model's measured profile, and the choice of a plan (Vista, section 4.2)."""

from optimizer.transfer._choice import Choice, TransferCost, choose_transfer
from optimizer.transfer._profile import ModelProfile

__all__ = [
    "Choice",
    "ModelProfile",
    "TransferCost",
    "choose_transfer",
]

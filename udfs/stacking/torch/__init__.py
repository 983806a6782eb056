"""Batched training of torch sessions by ``torch.func``."""

from udfs.stacking.torch._architecture import architecture_key, first_difference, unstackable_session
from udfs.stacking.torch._evaluation import evaluate_together
from udfs.stacking.torch._unit import train_together

__all__ = [
    "architecture_key",
    "evaluate_together",
    "first_difference",
    "train_together",
    "unstackable_session",
]

"""Batched training of torch sessions by ``torch.func``."""

from udfs.stacking.torch._architecture import architecture_key, first_difference, unstackable_session
from udfs.stacking.torch._copies import Copies, uncopyable_session
from udfs.stacking.torch._evaluation import evaluate_together
from udfs.stacking.torch._unit import train_together

__all__ = [
    "Copies",
    "architecture_key",
    "evaluate_together",
    "first_difference",
    "train_together",
    "uncopyable_session",
    "unstackable_session",
]

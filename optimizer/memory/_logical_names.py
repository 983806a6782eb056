"""Names of the logical plans, by which tables are sized."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["LOGICAL_PLANS", "Logical"]

Logical = Literal[
    "lazy", "lazy-reordered", "eager", "eager-reordered", "pre-materialised", "staged", "staged-before-join"
]
LOGICAL_PLANS: tuple[str, ...] = get_args(Logical)
"""Logical plans of a transfer; :func:`optimizer.transfer.plan_layers` lays them out."""

"""Planning of hybrids of the model hopper: idle workers share the epochs of the configurations that are left."""

from optimizer.hybrids._measured import Measured
from optimizer.hybrids._plan import HybridPlan, plan_hybrid
from optimizer.hybrids._settings import HYBRIDS, HybridSettings
from optimizer.hybrids._shares import balance_shards, interleave_rows

__all__ = [
    "HYBRIDS",
    "HybridPlan",
    "HybridSettings",
    "Measured",
    "balance_shards",
    "interleave_rows",
    "plan_hybrid",
]

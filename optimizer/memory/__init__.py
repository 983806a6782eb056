"""Cores, partitions and bytes of each memory region for a feature transfer (Vista, section 4).

A worker node's memory has five regions: the operating system, DL Execution (networks, outside the JVM), User
(functions' own objects), Core (joins and shuffles) and Storage (cached tables). :func:`plan_transfer` gives each its
bytes, for as many task slots as fit. :func:`plan_inside` plans within a running session. :data:`SPARK4` and
:data:`PAPER` define the parts of a region.
"""

from optimizer.memory._apportionment import Join, Persistence
from optimizer.memory._constants import PAPER, SPARK4, Constants
from optimizer.memory._envelope import Envelope, plan_inside
from optimizer.memory._errors import InfeasiblePlanError
from optimizer.memory._logical_names import LOGICAL_PLANS, Logical
from optimizer.memory._plan import TransferPlan
from optimizer.memory._search import plan_transfer
from optimizer.memory._sizes import Table, Tables, size_tables
from optimizer.memory._spark import OS_MEMORY, PLANNED_MEMORY
from optimizer.memory._spec import ClusterSpec, Downstream, LayerSize, ModelFootprint, TransferWorkload

__all__ = [
    "LOGICAL_PLANS",
    "OS_MEMORY",
    "PAPER",
    "PLANNED_MEMORY",
    "SPARK4",
    "ClusterSpec",
    "Constants",
    "Downstream",
    "Envelope",
    "InfeasiblePlanError",
    "Join",
    "LayerSize",
    "Logical",
    "ModelFootprint",
    "Persistence",
    "Table",
    "Tables",
    "TransferPlan",
    "TransferWorkload",
    "plan_inside",
    "plan_transfer",
    "size_tables",
]

"""Cores, partitions and bytes of each memory region for a feature transfer (Vista, section 4).

A worker node's memory has five regions: the operating system, DL Execution (networks, outside the JVM), User
(functions' own objects), Core (joins and shuffles) and Storage (cached tables). :func:`plan_transfer` gives each its
bytes, for as many task slots as fit. :func:`plan_inside` plans within a running session. :data:`SPARK4` and
:data:`PAPER` define the parts of a region.
"""

from ._apportionment import Join, Persistence
from ._constants import PAPER, SPARK4, Constants
from ._envelope import Envelope, plan_inside
from ._errors import InfeasiblePlanError
from ._plan import TransferPlan
from ._search import plan_transfer
from ._sizes import Table, Tables, size_tables
from ._spark import OS_MEMORY
from ._spec import ClusterSpec, Downstream, LayerSize, ModelFootprint, TransferWorkload

__all__ = [
    "OS_MEMORY",
    "PAPER",
    "SPARK4",
    "ClusterSpec",
    "Constants",
    "Downstream",
    "Envelope",
    "InfeasiblePlanError",
    "Join",
    "LayerSize",
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

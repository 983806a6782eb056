"""Memory apportioned: how many cores, partitions and bytes of each region a feature transfer gets (Vista, section 4).

A worker node's memory has five regions: what the operating system keeps, DL Execution (networks, outside the JVM), User
(functions' own objects), Core (joins and shuffles) and Storage (cached tables). :func:`plan_transfer` gives each its
bytes, for as many task slots as fit, and :func:`plan_inside` chooses what is left to choose in a session that runs;
:data:`SPARK4` and :data:`PAPER` say what a region is made of.
"""

from ._apportionment import Join, Persistence
from ._constants import PAPER, SPARK4, Constants
from ._envelope import Envelope, plan_inside
from ._errors import InfeasiblePlanError
from ._plan import TransferPlan
from ._search import plan_transfer
from ._sizes import Table, Tables, size_tables
from ._spec import ClusterSpec, Downstream, LayerSize, ModelFootprint, TransferWorkload

__all__ = [
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

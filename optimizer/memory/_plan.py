"""The plan of a feature transfer: cores, partitions, join, persistence and memory regions, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import _explain, _spark
from ._sizes import divided

if TYPE_CHECKING:
    from optimizer.logical import Logical

    from ._constants import Constants
    from ._sizes import Tables
    from ._spec import ClusterSpec, TransferWorkload

__all__ = ["Join", "Persistence", "TransferPlan"]

Join = Literal["broadcast", "shuffle"]
Persistence = Literal["deserialized", "serialized"]


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """The decisions, and the bytes of one worker node that each region is given. Made by :func:`plan_transfer`.

    Attributes
    ----------
    cores : int
        Task slots of an executor (``cpu``).
    partitions : int
        Of the intermediate tables (``n_p``).
    join : {"broadcast", "shuffle"}
    persistence : {"deserialized", "serialized"}
        Format of cached tables.
    logical : str
        One of :data:`optimizer.logical.LOGICAL_PLANS`.
    storage_bytes, user_bytes, core_bytes : int
        Storage, User and Core Memory. User Memory is what equation 10 asks for, or more where
        ``Constants.memory_fraction_max`` keeps Storage Memory from the rest of the heap.
    dl_bytes : int
        DL Execution Memory: networks, and a downstream model that a framework trains.
    python_bytes : int
        Python workers before they load a model, Arrow batches, and the driver's Python if ``local``.
    os_bytes : int
        Left to the operating system.
    heap_bytes : int
        The executor's heap: what Spark sets aside, User, Core and Storage Memory, and the driver's if ``local``.
    overhead_bytes : int
        What the JVM takes beside its heap.
    off_heap_bytes : int
        Core Memory, if that is outside the heap.
    driver_bytes : int
        The driver's heap; 0 where it was left out.
    gpu_bytes : int
        Of the node's GPU.
    partition_bytes : int
        The largest partition.
    cached_bytes : int
        The most that is cached at once, over the cluster (``s_double``).
    limited_by : str
        Why it is not one core more.
    tables : Tables
    workload : TransferWorkload
    cluster : ClusterSpec
    constants : Constants
    """

    cores: int
    partitions: int
    join: Join
    persistence: Persistence
    logical: Logical
    storage_bytes: int
    user_bytes: int
    dl_bytes: int
    core_bytes: int
    python_bytes: int
    os_bytes: int
    heap_bytes: int
    overhead_bytes: int
    off_heap_bytes: int
    driver_bytes: int
    gpu_bytes: int
    partition_bytes: int
    cached_bytes: int
    limited_by: str
    tables: Tables
    workload: TransferWorkload
    cluster: ClusterSpec
    constants: Constants

    @property
    def system_bytes(self) -> int:
        """All regions of a worker node together: never above its memory (equation 12)."""
        outside = self.dl_bytes + self.python_bytes + self.overhead_bytes + self.off_heap_bytes
        return self.os_bytes + outside + self.heap_bytes

    @property
    def peak_bytes(self) -> int:
        """What Spark's processes on a node are expected to hold at most: storage is no fuller than the tables are."""
        cached = divided(self.cached_bytes, self.cluster.nodes)
        return self.system_bytes - self.os_bytes - max(0, self.storage_bytes - cached)

    @property
    def set_aside_bytes(self) -> int:
        """What Spark keeps of the heap for itself."""
        inside = self.user_bytes + self.core_bytes - self.off_heap_bytes + self.storage_bytes
        return self.heap_bytes - inside - (self.driver_bytes if self.cluster.local else 0)

    def explain(self) -> str:
        """The decisions in words, each with its reason.

        Returns
        -------
        str
            Several lines, without a newline at the end.
        """
        return _explain.explain(self)

    def to_spark_conf(self) -> dict[str, str]:
        """The configuration that gives Spark these regions.

        Returns
        -------
        dict of str to str
            What has to be set before the session starts, and the settings of SQL. Memory is in whole MiB, and the
            heap and all that is beside it together never exceed the node's memory.
        """
        return _spark.to_spark_conf(self)

"""Values of a memory plan: cores, partitions, join, persistence and the bytes of each memory region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from optimizer.memory._sizes import divided

if TYPE_CHECKING:
    from optimizer.memory._constants import Constants
    from optimizer.memory._logical_names import Logical
    from optimizer.memory._sizes import Tables
    from optimizer.memory._spec import ClusterSpec, TransferWorkload

__all__ = ["Apportionment", "Join", "Persistence"]

Join = Literal["broadcast", "shuffle"]
Persistence = Literal["deserialized", "serialized"]


@dataclass(frozen=True, slots=True)
class Apportionment:
    """Values of a :class:`TransferPlan`, which documents them."""

    cores: int
    executors: int
    executors_per_node: int
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
    memory_bound: bool
    tables: Tables
    workload: TransferWorkload
    cluster: ClusterSpec
    constants: Constants

    @property
    def slots(self) -> int:
        """Task slots of the cluster."""
        return self.executors * self.cores

    @property
    def executor_bytes(self) -> int:
        """Bytes of one executor: its heap and everything beside it."""
        outside = self.dl_bytes + self.python_bytes + self.overhead_bytes + self.off_heap_bytes
        return outside + self.heap_bytes

    @property
    def system_bytes(self) -> int:
        """Bytes of all regions of a worker node, at most its memory (equation 12)."""
        return self.os_bytes + self.executors_per_node * self.executor_bytes

    @property
    def peak_bytes(self) -> int:
        """Expected peak bytes of Spark's processes on a node, with the cached tables in storage."""
        cached = divided(self.cached_bytes, self.executors)
        return self.executors_per_node * (self.executor_bytes - max(0, self.storage_bytes - cached))

    @property
    def set_aside_bytes(self) -> int:
        """Bytes of the heap that Spark reserves for itself."""
        inside = self.user_bytes + self.core_bytes - self.off_heap_bytes + self.storage_bytes
        return self.heap_bytes - inside - (self.driver_bytes if self.cluster.local else 0)

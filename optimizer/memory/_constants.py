"""Parameters that turn a memory region into bytes on a machine: those of the paper and of Spark 4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from optimizer.errors import CerebroError
from optimizer.memory._spec import not_negative

__all__ = ["MIB", "PAPER", "SPARK4", "Constants"]

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Constants:
    """Fixed but adjustable parameters (Vista, Table 1C), and the mapping to the dataflow system's memory.

    Adjust a preset with :func:`dataclasses.replace`. All sizes are bytes.

    Parameters
    ----------
    name : str
        For :meth:`TransferPlan.explain`.
    os_reserved_bytes : int
        Per node, for the operating system and other processes (``mem_os_rsv``). 0 where ``memory_bytes`` is already a
        limit on Spark's processes alone.
    os_reserved_fraction : float
        The operating system's part is at most this share of a node.
    core_bytes, core_bytes_per_task : int
        Core Memory (``mem_core``): joins, sorts, shuffles; per executor, and in addition per task slot.
    core_per_partition : float
        Core Memory of a task slot, in addition, as a multiple of the largest partition.
    partition_bytes : int
        Every partition of an intermediate table is smaller than this (``p_max``).
    broadcast_bytes : int
        A structured table below this may be broadcast (``b_max``).
    cores_max, cores_reserved : int
        Equation 9: ``cpu <= min(cpu_sys, cores_max) - cores_reserved``.
    slots_by_data : bool
        Whether the cluster has no more task slots than the data has batches of the network.
    alpha : float
        Blow-up of feature vectors as JVM objects.
    size_factor : float
        Fudge factor of the size estimate (alpha_1 of equation C.1).
    image_tensor_materialised : bool
        Whether decoded images are a table, the first intermediate. Otherwise that table holds encoded images, and
        they are decoded where they are used.
    whole_rows : bool
        Whether a partition's size is that of its whole records: with few large records a partition, the mean of
        equation 14 is too small for some.
    spill_per_node : bool
        Whether storage is compared with a node's share of the cached tables, as in equation 7; otherwise with the
        whole of them, as Algorithm 1 prints it (line 15).
    model_in_user_memory : bool
        Whether the serialized model passes through User Memory (``|f|_ser`` in equation 10); not so where workers
        map a file.
    training_copy_bytes : int
        Bytes of the downstream routine's own copy of one feature of one record.
    heap_reserved_bytes, heap_min_bytes : int
        Bytes that Spark reserves in a JVM heap, and size of the smallest heap with which it starts.
    heap_max_bytes : int
        The largest heap; a node whose memory is not used by one of this size has several executors. 0 for no bound, and
        one executor per node. A task that needs more gets it.
    memory_fraction_max : float
        Core and Storage Memory are at most this share of the heap that Spark does not set aside.
    off_heap : bool
        Whether Core Memory is outside the heap (``spark.memory.offHeap``).
    overhead_factor, overhead_min_bytes
        Memory of a JVM beside its heap: a share of the heap, and a minimum.
    python_worker_bytes : int
        A Python worker before it loads a model; there is one per task slot.
    arrow_batch_bytes, arrow_buffers : int
        Size of an Arrow batch, and how many a task slot holds at once.
    broadcast_copies : int
        Copies of a broadcast table on a node, and on the driver.
    driver_bytes : int
        The driver's heap without the workload; 0 leaves the driver out of the plan, as the paper does.
    local_driver_bytes : int
        The driver's part of a local session's heap, beside what Spark sets aside.
    driver_python_bytes : int
        The driver's Python process beside its JVM: the user's program, and the network that it has traced. It is on the
        worker's node if the cluster is local.
    storage_as_needed : bool
        Whether storage is limited to the cached tables, so that the heap is no larger than the workload needs;
        otherwise it is the rest of the node.
    granularity_bytes : int
        Regions are multiples of this; a power of two, or 1.

    Raises
    ------
    CerebroError
        A negative number, or a partition size or granularity of zero.

    Examples
    --------
    A container whose limit holds for Spark alone:

    >>> from dataclasses import replace
    >>> replace(SPARK4, os_reserved_bytes=0).cores_reserved
    0
    """

    name: str
    os_reserved_bytes: int
    os_reserved_fraction: float
    core_bytes: int
    core_bytes_per_task: int
    core_per_partition: float
    partition_bytes: int
    broadcast_bytes: int
    cores_max: int
    cores_reserved: int
    slots_by_data: bool
    alpha: float
    size_factor: float
    image_tensor_materialised: bool
    whole_rows: bool
    spill_per_node: bool
    model_in_user_memory: bool
    training_copy_bytes: int
    heap_reserved_bytes: int
    heap_min_bytes: int
    heap_max_bytes: int
    memory_fraction_max: float
    off_heap: bool
    overhead_factor: float
    overhead_min_bytes: int
    python_worker_bytes: int
    arrow_batch_bytes: int
    arrow_buffers: int
    broadcast_copies: int
    driver_bytes: int
    local_driver_bytes: int
    driver_python_bytes: int
    storage_as_needed: bool
    granularity_bytes: int

    def __post_init__(self) -> None:
        not_negative(self, least={"partition_bytes": 2, "cores_max": 1, "granularity_bytes": 1})
        if not 0 < self.memory_fraction_max <= 1:
            raise CerebroError(f"memory_fraction_max must be above 0 and at most 1, got {self.memory_fraction_max}.")
        if self.cores_max <= self.cores_reserved:
            raise CerebroError(
                f"cores_max must be greater than cores_reserved={self.cores_reserved}, got {self.cores_max}."
            )
        if self.os_reserved_fraction > 1:
            raise CerebroError(
                f"os_reserved_fraction must be at most 1, the whole node, got {self.os_reserved_fraction}."
            )

    def os_bytes(self, memory_bytes: int) -> int:
        """Compute the bytes that are left to the operating system of a node of that size.

        Examples
        --------
        >>> SPARK4.os_bytes(8 << 30) == (8 << 30) // 10
        True
        >>> SPARK4.os_bytes(512 << 30) >> 30
        3
        """
        return min(self.os_reserved_bytes, math.floor(memory_bytes * Fraction(str(self.os_reserved_fraction))))

    def machine_bytes(self, needed: int) -> int:
        """Compute the smallest node that has ``needed`` bytes beside what is left to its operating system."""
        used = 1 - Fraction(str(self.os_reserved_fraction))
        whole = needed + self.os_reserved_bytes
        return min(whole, math.floor((needed - 1) / used) + 1) if used and needed else whole


PAPER = Constants(
    name="the paper's setting",
    os_reserved_bytes=3_000_000_000,
    os_reserved_fraction=1.0,
    core_bytes=2_400_000_000,
    core_bytes_per_task=0,
    core_per_partition=0.0,
    partition_bytes=100_000_000,
    broadcast_bytes=100_000_000,
    cores_max=8,
    cores_reserved=1,
    slots_by_data=False,
    alpha=2.0,
    size_factor=1.2,
    image_tensor_materialised=True,
    whole_rows=False,
    spill_per_node=False,
    model_in_user_memory=True,
    training_copy_bytes=0,
    heap_reserved_bytes=0,
    heap_min_bytes=0,
    heap_max_bytes=0,
    memory_fraction_max=1.0,
    off_heap=False,
    overhead_factor=0.0,
    overhead_min_bytes=0,
    python_worker_bytes=0,
    arrow_batch_bytes=0,
    arrow_buffers=0,
    broadcast_copies=0,
    driver_bytes=0,
    local_driver_bytes=0,
    driver_python_bytes=0,
    storage_as_needed=False,
    granularity_bytes=1,
)
"""Vista's Table 1 and Figure 4(B): Spark 2.2, its heap split in three, TensorFlow beside it. 1 GB is 1e9 bytes.

The size factor 1.2 is the original implementation's; the paper names alpha_1 and prints no value.
"""

SPARK4 = Constants(
    name="Spark 4 with Python workers",
    os_reserved_bytes=3072 * MIB,
    # A small machine runs little else.
    os_reserved_fraction=0.1,
    # A task sorts one partition without spilling; its pages and pointers beside the rows.
    core_bytes=0,
    core_bytes_per_task=32 * MIB,
    core_per_partition=1.0,
    partition_bytes=100_000_000,
    broadcast_bytes=100_000_000,
    # The paper stops at 8 less 1 because each TensorFlow call took every core; here a worker has threads of its own.
    cores_max=64,
    cores_reserved=0,
    slots_by_data=True,
    alpha=2.0,
    size_factor=1.2,
    image_tensor_materialised=False,
    whole_rows=True,
    spill_per_node=True,
    model_in_user_memory=False,
    # Spark ML caches instances as float64.
    training_copy_bytes=8,
    # UnifiedMemoryManager: RESERVED_SYSTEM_MEMORY_BYTES, and one and a half times it.
    heap_reserved_bytes=300 * MIB,
    heap_min_bytes=450 * MIB,
    # From 32 GiB on a JVM's references take eight bytes and no longer four: 40 GiB would hold less.
    heap_max_bytes=31 * 1024 * MIB,
    # Spark's default: the rest is for its own objects, and for what its estimates of sizes miss.
    memory_fraction_max=0.6,
    off_heap=False,
    overhead_factor=0.10,
    # Spark's own least is 384 MiB; metaspace, compiled code and network buffers of a transfer took 500.
    overhead_min_bytes=512 * MIB,
    # Python 3.11 with pyspark.worker, numpy, pandas and pyarrow imported: 113 MiB resident.
    python_worker_bytes=128 * MIB,
    arrow_batch_bytes=64 * MIB,
    # One in and one out, in the JVM and in Python.
    arrow_buffers=4,
    # One as received, one as a hash table.
    broadcast_copies=2,
    driver_bytes=512 * MIB,
    # After a transfer 210 to 218 MiB of a local heap were live, Spark's own included, for which 300 are set aside; with
    # these, about as much again for the collector.
    local_driver_bytes=120 * MIB,
    driver_python_bytes=512 * MIB,
    storage_as_needed=False,
    granularity_bytes=MIB,
)
"""Spark 4: heap, overhead, one Python worker a task slot, Arrow batches between the two, weights mapped from a file.

Python's memory is *resident* memory within ``spark.executor.memoryOverhead``. ``spark.executor.pyspark.memory`` is left
unset: it limits address space (``RLIMIT_AS``), of which a framework reserves far more than it touches.
"""

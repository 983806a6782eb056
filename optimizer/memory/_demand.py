"""Memory that a number of cores needs on a node, by region (Vista, equations 10 to 12 and 15)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from optimizer.memory._sizes import divided, scaled

if TYPE_CHECKING:
    from optimizer.memory._constants import Constants
    from optimizer.memory._sizes import Tables
    from optimizer.memory._spec import ClusterSpec, TransferWorkload

__all__ = ["Demand", "Layout", "demand", "heap_for", "overhead", "rounded"]


def rounded(size: int, constants: Constants) -> int:
    """Round ``size`` up to a multiple of the granularity."""
    return divided(size, constants.granularity_bytes) * constants.granularity_bytes


def overhead(heap: int, constants: Constants) -> int:
    """Compute the bytes that a JVM needs beside a heap of that size."""
    return rounded(max(constants.overhead_min_bytes, scaled(heap, constants.overhead_factor)), constants)


def heap_for(storage: int, fixed: int, core: int, constants: Constants) -> int:
    """Compute the least heap with ``storage`` bytes of Storage Memory and ``fixed`` others, ``core`` of them Core."""
    unified = math.ceil((core + storage) / Fraction(str(constants.memory_fraction_max)))
    by_fraction = rounded(constants.heap_reserved_bytes, constants) + rounded(unified, constants)
    return max(rounded(constants.heap_min_bytes, constants), fixed + storage, by_fraction)


@dataclass(frozen=True, slots=True)
class Layout:
    """Executors of a cluster, all alike.

    ``executors`` are those of the whole cluster, at most ``per_node`` on a node; ``cores`` are task slots of one.
    """

    executors: int
    per_node: int
    cores: int

    @property
    def slots(self) -> int:
        """Task slots of the cluster."""
        return self.executors * self.cores

    @property
    def node_slots(self) -> int:
        """Task slots of a node that has all its executors."""
        return self.per_node * self.cores


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes that an executor needs for its task slots, without Storage Memory.

    ``partition_bytes`` is the largest partition of the largest table. ``dl_bytes`` and ``user_bytes`` are equations 11
    and 10; ``python_bytes`` are Python workers and Arrow batches, and the driver's Python if the cluster is local;
    ``core_bytes`` include the copies of a broadcast table. ``heap_fixed_bytes`` is all of the heap but Storage Memory,
    ``heap_core_bytes`` Core Memory in the heap, ``off_heap_bytes`` outside, and ``heap_least_bytes`` the smallest heap
    that will do. ``node_bytes``, ``gpu_bytes`` and ``driver_node_bytes`` are the least memory of a node with all its
    executors (equation 12), of its GPU (equation 15; 0 if nothing runs on one), and of the driver's machine (0 if it
    has none of its own).
    """

    layout: Layout
    partitions: int
    partition_bytes: int
    os_bytes: int
    dl_bytes: int
    python_bytes: int
    user_bytes: int
    core_bytes: int
    driver_bytes: int
    heap_fixed_bytes: int
    heap_core_bytes: int
    heap_least_bytes: int
    off_heap_bytes: int
    node_bytes: int
    gpu_bytes: int
    driver_node_bytes: int

    @property
    def cores(self) -> int:
        """Task slots of an executor."""
        return self.layout.cores

    def heap_bytes(self, memory_bytes: int, constants: Constants) -> int:
        """Compute the largest heap that leaves room in an executor's share for its overhead and all memory outside."""
        grain = constants.granularity_bytes
        share = (memory_bytes - self.os_bytes) // self.layout.per_node
        budget = share - self.dl_bytes - self.python_bytes - self.off_heap_bytes
        by_factor = math.floor(budget / (1 + Fraction(str(constants.overhead_factor))))
        heap = min(budget - constants.overhead_min_bytes, by_factor) // grain * grain
        # Rounding the overhead to granules moves the answer by one of them at most.
        while heap + overhead(heap, constants) > budget:
            heap -= grain
        return heap

    def storage_bytes(self, heap: int, constants: Constants) -> int:
        """Compute Storage Memory within a heap: the rest, as long as User Memory keeps its share."""
        grain = constants.granularity_bytes
        usable = heap - rounded(constants.heap_reserved_bytes, constants)
        unified = math.floor(usable * Fraction(str(constants.memory_fraction_max))) // grain * grain
        return min(heap - self.heap_fixed_bytes, unified - self.heap_core_bytes)


def demand(
    layout: Layout,
    partitions: int,
    *,
    broadcast: bool,
    tables: Tables,
    workload: TransferWorkload,
    cluster: ClusterSpec,
    constants: Constants,
) -> Demand:
    """Add up an executor's regions."""

    def up(size: int) -> int:
        return rounded(size, constants)

    partition = tables.partition_bytes(partitions, whole_rows=constants.whole_rows)
    model, downstream = workload.model, workload.downstream
    trained = downstream.memory_bytes(workload.features)
    in_dl = downstream.place == "dl"
    cores = layout.cores

    user = cores * scaled(partition, constants.alpha)
    if constants.model_in_user_memory:
        user += model.serialized_bytes
    dl = model.resident_bytes(cores)
    if in_dl:
        dl = max(dl, cores * trained)
    else:
        user = max(user, cores * trained)
    # A batch is no larger than an executor's share of the largest table.
    share = divided(tables.rows, layout.executors) * tables.record_bytes
    batch = min(share, max(constants.arrow_batch_bytes, model.batch_size * tables.record_bytes))
    python = cores * (constants.python_worker_bytes + constants.arrow_buffers * batch)
    copies = constants.broadcast_copies * tables.structured_bytes if broadcast else 0
    if cluster.local:
        python += constants.driver_python_bytes
    per_task = constants.core_bytes_per_task + scaled(partition, constants.core_per_partition)
    core = up(constants.core_bytes + cores * per_task + copies)

    driver = 0
    if constants.driver_bytes:
        base = constants.local_driver_bytes if cluster.local else constants.driver_bytes
        # treeAggregate sends the driver the sums of about the square root of the partitions; a model of a framework
        # sends none through Spark, and trees send splits.
        summed = downstream.summed_on_driver and not in_dl
        partial = (math.isqrt(partitions) + 1) * trained if summed else 0
        state = downstream.driver_bytes_per_feature * workload.features
        driver = up(base + copies + partial + state)

    dl, python, user = up(dl), up(python), up(user)
    off_heap = core if constants.off_heap else 0
    inside = (driver if cluster.local else 0) + user + core - off_heap
    fixed = up(constants.heap_reserved_bytes) + inside
    # Equation 12 is strict: Storage Memory is not empty.
    least = heap_for(constants.granularity_bytes, fixed, core - off_heap, constants)
    beside = overhead(driver, constants) + up(constants.driver_python_bytes)
    driver_node = 0 if cluster.local or not driver else constants.machine_bytes(driver + beside)
    executor = dl + python + off_heap + least + overhead(least, constants)
    gpu = cores * max(model.runtime_gpu_bytes, downstream.runtime_gpu_bytes)
    return Demand(
        layout=layout,
        partitions=partitions,
        partition_bytes=partition,
        os_bytes=constants.os_bytes(cluster.memory_bytes),
        dl_bytes=dl,
        python_bytes=python,
        user_bytes=user,
        core_bytes=core,
        driver_bytes=driver,
        heap_fixed_bytes=fixed,
        heap_core_bytes=core - off_heap,
        heap_least_bytes=least,
        off_heap_bytes=off_heap,
        node_bytes=constants.machine_bytes(layout.per_node * executor),
        gpu_bytes=gpu + 1 if cluster.gpu_memory_bytes and gpu else 0,
        driver_node_bytes=driver_node,
    )

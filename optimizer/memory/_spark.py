"""The Spark configuration of a plan, as strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.memory._constants import MIB
from optimizer.memory._demand import overhead
from optimizer.memory._sizes import divided

if TYPE_CHECKING:
    from optimizer.memory._apportionment import Apportionment

__all__ = ["OS_MEMORY", "PLANNED_MEMORY", "to_spark_conf"]

OS_MEMORY = "spark.vista.osMemory"
"""Setting of a session: memory of a node that is left to the operating system, as ``"2g"``."""

PLANNED_MEMORY = "spark.cerebro.memory.plan"
"""Setting of a session: bytes that the plan gives each region of an executor, which the JVM plugin compares."""

# UnifiedMemoryManager.RESERVED_SYSTEM_MEMORY_BYTES: present in every heap, whether the constants count it or not.
_RESERVED = 300 * MIB
_MILLION = 10**6


def to_spark_conf(plan: Apportionment) -> dict[str, str]:
    """See :meth:`TransferPlan.to_spark_conf`."""
    conf = _local(plan) if plan.cluster.local else _cluster(plan)
    heap = _heap_mib(plan) * MIB
    conf |= _fractions(plan, heap)
    if plan.off_heap_bytes:
        conf["spark.memory.offHeap.enabled"] = "true"
        conf["spark.memory.offHeap.size"] = f"{plan.off_heap_bytes // MIB}m"
    # Spark ignores it; a session reads it, and leaves the operating system what the plan left it.
    conf[OS_MEMORY] = f"{plan.os_bytes // MIB}m"
    conf[PLANNED_MEMORY] = ",".join(f"{name}={value}" for name, value in _regions(plan).items())
    return conf | _sql(plan)


def _regions(plan: Apportionment) -> dict[str, int]:
    """Return the bytes of each region of an executor, and its task slots."""
    return {
        "cores": plan.cores,
        "heap": plan.heap_bytes,
        "user": plan.user_bytes,
        "core": plan.core_bytes,
        "storage": plan.storage_bytes,
        "overhead": plan.overhead_bytes,
        "off_heap": plan.off_heap_bytes,
        "python": plan.python_bytes,
        "dl": plan.dl_bytes,
    }


def _beside(plan: Apportionment) -> int:
    """Return the memory of an executor outside its heap in MiB: JVM, Python and networks."""
    return divided(plan.overhead_bytes + plan.python_bytes + plan.dl_bytes, MIB)


def _heap_mib(plan: Apportionment) -> int:
    whole = plan.heap_bytes + plan.overhead_bytes + plan.python_bytes + plan.dl_bytes
    return max(1, whole // MIB - _beside(plan))


def _local(plan: Apportionment) -> dict[str, str]:
    return {
        "spark.master": f"local[{plan.cores}]",
        "spark.driver.memory": f"{_heap_mib(plan)}m",
        "spark.task.cpus": "1",
    }


def _cluster(plan: Apportionment) -> dict[str, str]:
    conf = {
        "spark.executor.instances": str(plan.executors),
        "spark.executor.cores": str(plan.cores),
        # A standalone worker would start a second executor where heaps alone leave room for one.
        "spark.cores.max": str(plan.slots),
        "spark.task.cpus": "1",
        "spark.executor.memory": f"{_heap_mib(plan)}m",
        "spark.executor.memoryOverhead": f"{_beside(plan)}m",
    }
    if plan.driver_bytes:
        heap = divided(plan.driver_bytes, MIB)
        conf["spark.driver.memory"] = conf["spark.driver.maxResultSize"] = f"{heap}m"
        conf["spark.driver.memoryOverhead"] = f"{divided(overhead(plan.driver_bytes, plan.constants), MIB)}m"
    if plan.gpu_bytes:
        conf["spark.executor.resource.gpu.amount"] = "1"
        # Rounded down: Spark makes floor(1 / amount) slots of it.
        conf["spark.task.resource.gpu.amount"] = "1" if plan.cores == 1 else _decimal(1, plan.cores)
    return conf


def _fractions(plan: Apportionment, heap: int) -> dict[str, str]:
    """Compute the memory fractions: at least the planned User Memory; Core and Storage Memory share the rest."""
    usable = max(1, heap - _RESERVED)
    user = plan.user_bytes + (plan.driver_bytes if plan.cluster.local else 0)
    fraction = _decimal(max(0, usable - user), usable)
    # As Spark will compute it.
    unified = int(usable * float(fraction))
    core = plan.core_bytes - plan.off_heap_bytes
    return {
        "spark.memory.fraction": fraction,
        "spark.memory.storageFraction": _decimal(max(0, unified - core), max(1, unified)),
    }


def _sql(plan: Apportionment) -> dict[str, str]:
    constants = plan.constants
    threshold = str(constants.broadcast_bytes) if plan.join == "broadcast" else "-1"
    conf = {
        "spark.sql.shuffle.partitions": str(plan.partitions),
        # The number of partitions must stay a multiple of the slots.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": threshold,
        "spark.sql.adaptive.autoBroadcastJoinThreshold": threshold,
        "spark.sql.files.maxPartitionBytes": str(constants.partition_bytes),
        "spark.rdd.compress": "true" if plan.persistence == "serialized" else "false",
    }
    if constants.arrow_batch_bytes:
        conf["spark.sql.execution.arrow.maxBytesPerBatch"] = str(constants.arrow_batch_bytes)
        # Spark 4.0 counts records only.
        conf["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(
            min(10_000, max(1, constants.arrow_batch_bytes // plan.tables.record_bytes))
        )
    return conf


def _decimal(part: int, whole: int) -> str:
    """Format a fraction with six decimals, rounded down."""
    millionths = part * _MILLION // whole
    return f"{millionths // _MILLION}.{millionths % _MILLION:06}"

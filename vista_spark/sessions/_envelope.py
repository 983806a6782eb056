"""Resources of a running Spark session, as the memory planner takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import is_remote

from optimizer.memory import OS_MEMORY, SPARK4, Envelope
from optimizer.sizes import number_of_bytes
from udfs.driver import is_local, task_slots
from udfs.node import MachineReport, memory_limit
from vista_spark.sessions._executors import await_executor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from optimizer.memory import TransferPlan

__all__ = ["envelope", "not_set"]

# spark.kubernetes.memoryOverheadFactor for programs that are not the JVM's alone.
_KUBERNETES_FACTOR = 0.4

# Long enough for the last task of a round to start.
_STAY = 0.2

_known: WeakKeyDictionary[SparkSession, Envelope] = WeakKeyDictionary()


def envelope(spark: SparkSession) -> Envelope:
    """Read the session's configuration and ask its workers what machines they are on.

    Runs a few tiny jobs the first time, none later. Executors that were asked for get 30 seconds to register.

    Raises
    ------
    NoExecutorError
        No executor of a cluster has run a task for two minutes.
    """
    known = _known.get(spark)
    if known is None:
        fresh = _as_started(spark)
        known = _known[spark] = _local(fresh) if is_local(fresh) else _cluster(fresh)
    return known


def not_set(spark: SparkSession, plan: TransferPlan) -> dict[str, tuple[str, str]]:
    """List the settings that a plan would have set before the session started, and that were not set.

    The plan was made for machines, not for the session. Return by setting the value of the session, and that of the
    plan.
    """
    wanted = {name: value for name, value in plan.to_spark_conf().items() if not name.startswith("spark.sql.")}
    fresh = _as_started(spark)
    current = {name: _get(fresh, name, "not set") for name in wanted}
    return {name: (current[name], value) for name, value in wanted.items() if current[name] != value}


def _as_started(spark: SparkSession) -> SparkSession:
    """Make a session with the settings that Spark was started with, whatever was set in this one later."""
    return spark if is_remote() else spark.newSession()


def _local(spark: SparkSession) -> Envelope:
    # A session that a Connect client talks to may be on another machine; its tasks know which.
    machine, contained, gpu = _machines(spark, 1)[0][2:] if is_remote() else (*memory_limit(), 0)
    heap = number_of_bytes(_get(spark, "spark.driver.memory", "1g"))
    return Envelope(
        executors=1,
        slots=task_slots(spark),
        heap_bytes=heap,
        beside_bytes=max(0, machine - _reserved(spark, machine, contained=contained) - heap),
        memory_fraction=float(_get(spark, "spark.memory.fraction", "0.6")),
        gpu_memory_bytes=gpu,
        local=True,
    )


def _cluster(spark: SparkSession) -> Envelope:
    await_executor(spark)
    asked = int(_get(spark, "spark.executor.instances", "0"))
    cores = int(_get(spark, "spark.executor.cores", "1"))
    slots = task_slots(spark, wanted=asked * cores // int(_get(spark, "spark.task.cpus", "1")))
    reports = _machines(spark, slots)
    # Two tasks may have run on one executor; the number that was asked for at the start is a lower bound as well.
    executors = max(len({report[:2] for report in reports}), asked)
    hosts = len({report[0] for report in reports})
    heap = number_of_bytes(_get(spark, "spark.executor.memory", "1g"))
    return Envelope(
        executors=executors,
        slots=max(1, -(-slots // executors)),
        heap_bytes=heap,
        beside_bytes=_beside(spark, heap, min(report[2:4] for report in reports), max(1, -(-executors // hosts))),
        memory_fraction=float(_get(spark, "spark.memory.fraction", "0.6")),
        driver_heap_bytes=number_of_bytes(_get(spark, "spark.driver.memory", "1g")),
        gpu_memory_bytes=min(report[4] for report in reports),
    )


def _beside(spark: SparkSession, heap: int, machine: tuple[int, bool], sharing: int) -> int:
    master = _get(spark, "spark.master", "")
    enforced = master.startswith(("yarn", "k8s"))
    overhead = _get(spark, "spark.executor.memoryOverhead", "")
    if enforced:
        factor = 0.1 if master == "yarn" else _KUBERNETES_FACTOR
        factor = float(_get(spark, "spark.executor.memoryOverheadFactor", str(factor)))
        # A number alone is in MiB there.
        return number_of_bytes(overhead, "m") if overhead else max(384 * 2**20, int(heap * factor))
    # Nothing holds a standalone executor to its overhead: it may take its share of the machine.
    total, contained = machine
    return max(0, (total - _reserved(spark, total, contained=contained)) // sharing - heap)


def _reserved(spark: SparkSession, machine: int, *, contained: bool) -> int:
    """Compute the bytes for the operating system: what the session's plan left it, or what a plan would."""
    if text := _get(spark, OS_MEMORY, ""):
        return number_of_bytes(text)
    return 0 if contained else SPARK4.os_bytes(machine)


def _machines(spark: SparkSession, tasks: int) -> list[tuple[str, int, int, bool, int]]:
    report = MachineReport(_STAY if tasks > 1 else 0.0)
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(report, MachineReport.schema).collect()
    return [(row["host"], row["executor"], row["memory"], row["contained"], row["gpu"]) for row in rows]


def _get(spark: SparkSession, name: str, default: str) -> str:
    return spark.conf.get(name, default) or default

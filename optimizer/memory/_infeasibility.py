"""Reason of an infeasible plan, and the smallest machines with which there is a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.memory._constants import MIB
from optimizer.memory._errors import InfeasiblePlanError
from optimizer.memory._explain import shortage
from optimizer.memory._sizes import divided
from optimizer.sizes import size

if TYPE_CHECKING:
    from optimizer.memory._constants import Constants
    from optimizer.memory._demand import Demand
    from optimizer.memory._sizes import Tables
    from optimizer.memory._spec import ClusterSpec

__all__ = ["lacking", "missing", "refusal"]


def missing(demand: Demand, cluster: ClusterSpec) -> dict[str, int]:
    """Compute the bytes that the machines are short of, by constraint; empty where the demand is met."""
    driver = cluster.driver_memory_bytes
    short = {
        "memory": demand.node_bytes - cluster.memory_bytes,
        "gpu": demand.gpu_bytes - cluster.gpu_memory_bytes,
        "driver": demand.driver_node_bytes - (cluster.memory_bytes if driver is None else driver),
    }
    return {name: by for name, by in short.items() if by > 0}


def lacking(demand: Demand, cluster: ClusterSpec) -> tuple[int, int, int]:
    """Compute the bytes that the machines have to grow by: of a node, of its GPU, of the driver's own machine."""
    short = missing(demand, cluster)
    node, driver = short.get("memory", 0), short.get("driver", 0)
    if cluster.driver_memory_bytes is None:
        node, driver = max(node, driver), 0
    return node, short.get("gpu", 0), driver


def refusal(
    least: Demand | None, tables: Tables, cluster: ClusterSpec, constants: Constants, limit: int
) -> InfeasiblePlanError:
    """Build the error that names the failed constraint.

    ``least`` is the demand that is met by the smallest machines, ``None`` where a record is too large, and ``limit``
    the most cores that equation 9 allows.
    """
    most = constants.partition_bytes - 1
    if least is None:
        table = max(tables.tables, key=lambda candidate: candidate.record_bytes)
        by = table.record_bytes - most
        return InfeasiblePlanError(
            f"one record of the table of {table.name} takes {size(table.record_bytes)}, and a partition "
            f"must stay below {size(most + 1)} (equation 14): {size(by)} too much, on any machine; pool the layer, "
            "choose a higher one, or raise Constants.partition_bytes",
            "partition",
            by,
        )
    if least.partition_bytes > most:
        return InfeasiblePlanError(
            f"in {least.partitions} partitions one holds {size(least.partition_bytes)}, and must stay "
            f"below {size(most + 1)} (equation 14): give at least "
            f"{tables.partitions(1, constants)} partitions, or none",
            "partition",
            least.partition_bytes - most,
        )
    smallest = _smallest(least, cluster, constants)
    if least.cores > limit:
        allowed = f"at most {constants.cores_max}, less {constants.cores_reserved} for the operating system"
        message = f"{least.cores} cores a worker are more than the {max(limit, 0)} that equation 9 allows ({allowed})"
        return InfeasiblePlanError(message + _would_do(cluster, smallest), "cores", 0, smallest)
    short = missing(least, cluster)
    message = "; ".join(shortage(name, by, least, cluster) for name, by in short.items())
    name, by = next(iter(short.items()))
    return InfeasiblePlanError(message + _would_do(cluster, smallest), name, by, smallest)


def _smallest(least: Demand, cluster: ClusterSpec, constants: Constants) -> ClusterSpec | None:
    if least.cores > constants.cores_max - constants.cores_reserved:
        return None
    driver = cluster.driver_memory_bytes
    driver_node = least.driver_node_bytes if driver is None else 0
    return replace(
        cluster,
        cores=max(cluster.cores, least.cores + constants.cores_reserved),
        memory_bytes=max(cluster.memory_bytes, least.node_bytes, driver_node),
        gpu_memory_bytes=max(cluster.gpu_memory_bytes, least.gpu_bytes),
        driver_memory_bytes=None if driver is None else max(driver, least.driver_node_bytes),
    )


def _would_do(cluster: ClusterSpec, smallest: ClusterSpec | None) -> str:
    if smallest is None:
        return ", on any machine"
    words = []
    if smallest.cores > cluster.cores:
        words.append(f"{smallest.cores} cores a node")
    for field, what in (
        ("memory_bytes", "a node"),
        ("gpu_memory_bytes", "its GPU"),
        ("driver_memory_bytes", "the driver's machine"),
    ):
        now, then = getattr(cluster, field), getattr(smallest, field)
        if then != now:
            # Rounded up, and as Spark and `vista plan` read it.
            words.append(f"{divided(then, MIB)}m ({size(then)}) for {what}")
    return f"; the smallest that will do: {', '.join(words)}"

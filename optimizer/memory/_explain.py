"""Texts that explain a plan and an infeasible constraint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.memory._sizes import divided
from optimizer.sizes import size

if TYPE_CHECKING:
    from optimizer.memory._apportionment import Apportionment
    from optimizer.memory._demand import Demand
    from optimizer.memory._spec import ClusterSpec

__all__ = ["explain", "shortage"]


def shortage(constraint: str, short: int, least: Demand, cluster: ClusterSpec) -> str:
    """Describe what a failed constraint needs."""
    with_cores = f"with {least.cores} {'core' if least.cores == 1 else 'cores'}"
    if constraint == "gpu":
        return (
            f"the networks take {size(least.gpu_bytes)} of GPU memory {with_cores}, "
            f"of {size(cluster.gpu_memory_bytes)} (equation 15): {size(short)} short"
        )
    if constraint == "driver":
        return (
            f"the driver takes {size(least.driver_node_bytes)} of its machine, "
            f"a heap of {size(least.driver_bytes)} in it: {size(short)} short"
        )
    parts = {
        "the operating system": least.os_bytes,
        "networks": least.dl_bytes,
        "Python workers and Arrow batches": least.python_bytes,
        "User Memory": least.user_bytes,
        "Core Memory": least.core_bytes,
        "the driver": least.driver_bytes if cluster.local else 0,
    }
    regions = ", ".join(f"{name} {size(part)}" for name, part in parts.items() if part)
    rest = cluster.memory_bytes + short - sum(parts.values())
    return (
        f"a node of {size(cluster.memory_bytes)} is {size(short)} short (equation 12): {with_cores} it takes "
        f"{size(least.node_bytes)}, namely {regions}, the JVM and the least of storage {size(rest)}"
    )


def explain(plan: Apportionment) -> str:
    """See :meth:`TransferPlan.explain`."""
    cluster, tables, constants = plan.cluster, plan.tables, plan.constants
    widest = max(tables.tables, key=lambda table: table.total_bytes)
    share = divided(plan.cached_bytes, plan.executors)
    per_node = plan.executors_per_node
    each = "a node" if plan.executors == cluster.nodes else "an executor"
    machine = (
        "one machine, driver and executor in one JVM" if cluster.local else f"{cluster.nodes} x {cluster.cores} cores"
    )
    why_partitions = (
        f"the largest table ({widest.name}) takes {size(tables.single_bytes)}, "
        f"a partition {size(plan.partition_bytes)}, below {size(constants.partition_bytes)}"
    )
    why_cache = (
        f"at most {size(plan.cached_bytes)} at once, {size(share)} {each}; storage holds {size(plan.storage_bytes)}"
    )
    why_join = (
        f"the structured table takes {size(tables.structured_bytes)}; "
        f"it may be broadcast below {size(constants.broadcast_bytes)}"
    )
    lines = [
        f"{plan.logical} plan on {machine}, {size(cluster.memory_bytes)} a node, by {constants.name}",
        f"  {plan.cores} cores {'a worker' if each == 'a node' else each}: {plan.limited_by}",
        f"  {plan.partitions} partitions: {why_partitions}",
        f"  {plan.join} join: {why_join}",
        f"  {plan.persistence} cache: {why_cache}",
        f"  memory of an executor, {per_node} to a node:" if per_node > 1 else "  memory of a node:",
    ]
    if each == "an executor":
        nodes = divided(plan.executors, per_node)
        lines.insert(1, f"  {plan.executors} executors with {plan.slots} task slots, which {nodes} nodes have room for")
    shared = plan.workload.model.shared_bytes
    downstream = plan.workload.downstream
    placed = "here" if downstream.place == "dl" else "in User Memory"
    regions = [
        ("operating system", plan.os_bytes, "of the node" if per_node > 1 else ""),
        ("DL execution", plan.dl_bytes, f"{plan.cores} networks" + (f", {size(shared)} shared" if shared else "")),
        (
            "Python",
            plan.python_bytes,
            f"{plan.cores} workers{' and the driver' if cluster.local else ''}, Arrow batches",
        ),
        ("User", plan.user_bytes, f"objects; {downstream.name} is trained {placed}"),
        ("Core", plan.core_bytes, "joins, sorts, shuffles" + (", off the heap" if plan.off_heap_bytes else "")),
        ("Storage", plan.storage_bytes, "cached tables"),
        ("driver", plan.driver_bytes if cluster.local else 0, "in the same heap"),
        ("set aside by Spark", plan.set_aside_bytes, "in the heap"),
        ("JVM overhead", plan.overhead_bytes, "beside the heap"),
    ]
    lines += [
        f"    {size(number):>12}  {name}{f' ({note})' if note else ''}" for name, number, note in regions if number
    ]
    lines.append(
        f"    {size(plan.system_bytes):>12}  in all{' on a node' if per_node > 1 else ''}; "
        f"Spark is expected to hold {size(plan.peak_bytes)} at most"
    )
    if plan.gpu_bytes:
        lines.append(f"  GPU: {size(plan.gpu_bytes)} of {size(cluster.gpu_memory_bytes)}")
    if plan.driver_bytes and not cluster.local:
        lines.append(f"  driver: a heap of {size(plan.driver_bytes)}")
    return "\n".join(lines)

"""Plans for thirty clusters from tiny to huge: what is admitted, and how a node is shared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.memory import (
    PLANNED_MEMORY,
    SPARK4,
    ClusterSpec,
    Downstream,
    InfeasiblePlanError,
    LayerSize,
    ModelFootprint,
    TransferPlan,
    TransferWorkload,
    plan_transfer,
)

MIB, GIB = 2**20, 2**30

# Nodes, cores, GiB of a node; one JVM where there are no nodes.
SHAPES = [
    (0, 1, 1), (0, 1, 2), (0, 2, 4), (0, 2, 8), (0, 4, 8), (0, 8, 16), (0, 16, 64), (0, 32, 128), (0, 64, 512),
    (0, 128, 1024), (1, 1, 2), (1, 1, 512), (1, 2, 4), (1, 3, 64), (1, 64, 64), (2, 2, 8), (2, 4, 16), (3, 5, 24),
    (4, 8, 32), (4, 15, 61), (4, 31, 256), (8, 8, 30), (8, 16, 128), (10, 61, 512), (16, 36, 72), (20, 48, 384),
    (50, 96, 768), (100, 64, 512), (200, 128, 256), (1000, 128, 2048),
]  # fmt: skip
ROWS = (1, 50, 2000, 100_000, 10_000_000)

# MobileNetV2 at a batch of 32, as it is measured; its six upper layers, pooled.
MOBILENET = ModelFootprint(14_200_000, 1_043_900_000, shared_bytes=99_600_000, batch_size=32)
LAYERS = tuple(
    LayerSize(name, 4 * length, carried_bytes=carried)
    for name, length, carried in (("block13", 384, 4 * 96 * 14 * 14), ("conv18", 5120, 4 * 1280 * 49), ("fc", 1000, 0))
)


def workload(rows: int) -> TransferWorkload:
    return TransferWorkload(rows, 13, LAYERS, 60_000, MOBILENET, Downstream.logistic_regression(), 4 * 3 * 224 * 224)


def cluster(shape: tuple[int, int, int]) -> ClusterSpec:
    nodes, cores, memory = shape
    return ClusterSpec(max(1, nodes), cores, memory * GIB, local=nodes == 0)


def planned(rows: int, machines: ClusterSpec) -> TransferPlan | InfeasiblePlanError:
    try:
        return plan_transfer(workload(rows), machines)
    except InfeasiblePlanError as error:
        return error


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_plan_shares_its_nodes(shape: tuple[int, int, int], rows: int) -> None:
    machines = cluster(shape)
    plan = planned(rows, machines)
    if isinstance(plan, InfeasiblePlanError):
        # What it asks for is enough, and not much less would do.
        assert plan.smallest is not None
        assert machines.memory_bytes < plan.smallest.memory_bytes < 4 * GIB
        assert isinstance(plan_transfer(workload(rows), plan.smallest), TransferPlan)
        return
    per_node = plan.executors_per_node
    assert plan.heap_bytes < 32 * GIB
    assert plan.system_bytes <= machines.memory_bytes
    assert per_node * plan.cores <= machines.cores
    assert plan.executors <= per_node * machines.nodes
    fed = rows if machines.local else -(-rows // MOBILENET.batch_size)
    assert plan.slots <= fed
    # Tasks are more than the data feeds only where partitions would be too large.
    assert plan.partitions == plan.slots or plan.tables.single_bytes / (plan.partitions - plan.slots) > 50_000_000
    conf = plan.to_spark_conf()
    regions = dict(part.split("=") for part in conf[PLANNED_MEMORY].split(","))
    parts = ("heap", "overhead", "off_heap", "python", "dl")
    assert sum(int(regions[part]) for part in parts) == plan.executor_bytes
    assert int(regions["cores"]) == plan.cores
    if not machines.local:
        instances, cores = int(conf["spark.executor.instances"]), int(conf["spark.executor.cores"])
        assert (instances, int(conf["spark.cores.max"])) == (plan.executors, instances * cores)
        mib = [int(conf[f"spark.executor.{name}"][:-1]) for name in ("memory", "memoryOverhead")]
        assert plan.os_bytes + per_node * sum(mib) * MIB <= machines.memory_bytes


@pytest.mark.parametrize("rows", ROWS)
def test_more_of_anything_is_never_refused(rows: int) -> None:
    for shape in SHAPES:
        plan = planned(rows, cluster(shape))
        if isinstance(plan, InfeasiblePlanError):
            continue
        nodes, cores, memory = shape
        for more in ((nodes, cores, memory + 1), (nodes, cores, 3 * memory), (nodes, cores + 1, memory)):
            larger = planned(rows, cluster(more))
            assert isinstance(larger, TransferPlan), (shape, more, larger)
            # A remainder of the cores may lie idle where several executors share a node.
            assert larger.slots >= 0.8 * plan.slots, (shape, more)


def test_neither_cores_nor_memory_lie_idle() -> None:
    """One heap of 420 GiB would hold less than it seems, and 6,400 tasks would have half a batch each."""
    machines = ClusterSpec(100, 64, 512 * GIB)
    plan = plan_transfer(workload(100_000), machines)
    assert (plan.executors_per_node, plan.cores, plan.executors) == (16, 4, 781)
    assert 20 * GIB < plan.heap_bytes < 32 * GIB
    assert plan.partitions == plan.slots == 3124 <= 100_000 / 32
    assert "781 executors with 3124 task slots, which 49 nodes have room for" in plan.explain()
    assert "memory of an executor, 16 to a node" in plan.explain()
    full = plan_transfer(workload(10_000_000), machines)
    assert (full.slots, full.executors) == (6400, 1600)
    assert full.system_bytes > 0.99 * machines.memory_bytes
    # A GPU has one executor, and so has one JVM.
    seen = replace(workload(100_000), model=replace(MOBILENET, runtime_gpu_bytes=GIB))
    for only in (replace(machines, gpu_memory_bytes=80 * GIB), ClusterSpec(1, 64, 512 * GIB, local=True)):
        one = plan_transfer(seen, only)
        assert (one.executors_per_node, one.heap_bytes) == (1, 31 * GIB)


def test_a_task_that_needs_a_larger_heap_gets_it() -> None:
    wide = replace(workload(100_000), downstream=Downstream("wide", fixed_bytes=40 * GIB, summed_on_driver=False))
    plan = plan_transfer(wide, ClusterSpec(4, 16, 512 * GIB, driver_memory_bytes=512 * GIB))
    assert plan.heap_bytes > 40 * GIB
    assert plan.system_bytes <= 512 * GIB


def test_the_operating_system_has_one_number() -> None:
    plan = plan_transfer(workload(2000), ClusterSpec(1, 2, 8 * GIB, local=True))
    assert plan.os_bytes == SPARK4.os_bytes(8 * GIB) == 8 * GIB // 10
    assert plan.to_spark_conf()["spark.vista.osMemory"] == "819m"
    less = plan_transfer(workload(2000), plan.cluster, replace(SPARK4, os_reserved_bytes=GIB // 2))
    assert (less.os_bytes, less.to_spark_conf()["spark.vista.osMemory"]) == (GIB // 2, "512m")
    assert SPARK4.os_bytes(256 * GIB) == 3 * GIB

"""Plans against brute force: every number of cores, every heap, every machine a byte smaller."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dags import unhurried
from hypothesis import assume, given
from hypothesis import strategies as st

from optimizer.memory import (
    PAPER,
    SPARK4,
    ClusterSpec,
    Constants,
    Downstream,
    InfeasiblePlanError,
    LayerSize,
    ModelFootprint,
    TransferPlan,
    TransferWorkload,
    plan_transfer,
    size_tables,
)

MIB, GIB = 2**20, 2**30

layer_sizes = st.builds(
    LayerSize,
    st.sampled_from(["conv", "fc"]),
    st.integers(0, 5_000_000),
    st.none() | st.integers(0, 100_000),
    st.integers(0, 3_000_000),
)


@st.composite
def footprints(draw: st.DrawFn) -> ModelFootprint:
    runtime = draw(st.integers(0, 6 * GIB))
    return ModelFootprint(
        draw(st.integers(0, GIB)),
        runtime,
        draw(st.integers(0, 4 * GIB)),
        draw(st.integers(0, runtime)),
        draw(st.integers(1, 64)),
    )


downstreams = st.builds(
    Downstream,
    st.just("M"),
    st.sampled_from(["user", "dl"]),
    st.integers(0, 2000),
    st.integers(0, GIB),
    st.integers(0, 4 * GIB),
    st.integers(0, 1000),
)
workloads = st.builds(
    TransferWorkload,
    st.integers(1, 300_000),
    st.integers(0, 2000),
    st.lists(layer_sizes, min_size=1, max_size=4).map(tuple),
    st.integers(0, 2_000_000),
    footprints(),
    downstreams,
    st.integers(0, 2_000_000),
)


@st.composite
def clusters(draw: st.DrawFn, least: int = 4 * GIB, most: int = 96 * GIB) -> ClusterSpec:
    local = draw(st.booleans())
    return ClusterSpec(
        1 if local else draw(st.integers(1, 12)),
        draw(st.integers(1, 12)),
        draw(st.integers(least, most)),
        draw(st.just(0) | st.integers(GIB, 40 * GIB)),
        draw(st.none() | st.integers(4 * GIB, 16 * GIB)),
        local,
    )


presets = st.sampled_from([
    PAPER,
    SPARK4,
    replace(SPARK4, off_heap=True),
    replace(SPARK4, storage_as_needed=True, os_reserved_bytes=0),
    replace(SPARK4, heap_max_bytes=8 * GIB, os_reserved_fraction=0.37),
    replace(SPARK4, overhead_factor=0.4, granularity_bytes=1, alpha=1.3),
])  # fmt: skip


def planned(
    workload: TransferWorkload, cluster: ClusterSpec, constants: Constants, cores: int | None = None
) -> TransferPlan | InfeasiblePlanError:
    try:
        return plan_transfer(workload, cluster, constants, logical="staged", cores=cores)
    except InfeasiblePlanError as error:
        return error


def algorithm_1(work: TransferWorkload, cluster: ClusterSpec) -> tuple[int, int, int, int, str, str] | None:
    """Algorithm 1 as it is printed, extended to cases (a) and (b) and to a GPU, with the paper's constants."""
    rows = work.structured_rows
    t_str = rows * 8 * (1 + work.structured_features + math.ceil((1 + work.structured_features) / 64))
    payloads = [work.image_tensor_bytes]
    payloads += [one.tensor_bytes + (8 + one.carried_bytes if one.carried_bytes else 0) for one in work.layers]
    tables = [math.ceil(Fraction(6, 5) * rows * (8 + 8 + payload)) + t_str for payload in payloads]
    s_single = max(tables)
    s_double = max(a + b for a, b in itertools.pairwise(tables)) - t_str
    f, m = work.model, work.downstream
    m_mem = m.bytes_per_feature * work.features + m.fixed_bytes
    for x in range(min(cluster.cores, 8) - 1, 0, -1):
        z = 1
        while not math.ceil(Fraction(s_single, z * x * cluster.nodes)) < 10**8:
            z += 1
        n_p = z * x * cluster.nodes
        mem_user = f.serialized_bytes + x * 2 * math.ceil(Fraction(s_single, n_p))
        mem_dl = f.shared_bytes + x * (f.runtime_bytes - f.shared_bytes)
        if m.place == "user":
            mem_user = max(mem_user, x * m_mem)
        else:
            mem_dl = max(mem_dl, x * m_mem)
        gpu = x * max(f.runtime_gpu_bytes, m.runtime_gpu_bytes)
        if cluster.gpu_memory_bytes and gpu and not gpu < cluster.gpu_memory_bytes:
            continue
        mem_worker = cluster.memory_bytes - 3 * 10**9 - mem_dl
        if mem_worker - mem_user > 2.4 * 10**9:
            mem_storage = mem_worker - mem_user - 2_400_000_000
            join = "broadcast" if t_str < 10**8 else "shuffle"
            return x, n_p, mem_storage, mem_user, join, "serialized" if mem_storage < s_double else "deserialized"
    return None


@unhurried
@given(workloads, clusters())
def test_paper_is_algorithm_1(work: TransferWorkload, cluster: ClusterSpec) -> None:
    plan = planned(work, cluster, PAPER)
    expected = algorithm_1(work, cluster)
    if isinstance(plan, InfeasiblePlanError):
        assert expected is None
    else:
        found = (plan.cores, plan.partitions, plan.storage_bytes, plan.user_bytes, plan.join, plan.persistence)
        assert found == expected


def fits_somehow(work: TransferWorkload, cluster: ClusterSpec, cores: int) -> bool:
    """Whether some heap, in MiB, makes every region of a Spark 4 node with one executor fit, with a shuffle join."""
    tables = size_tables(work, "staged", SPARK4)
    in_partition = (10**8 - 1) // tables.record_bytes
    if not in_partition:
        return False
    fed = work.structured_rows if cluster.local else math.ceil(work.structured_rows / work.model.batch_size)
    if cores > fed:
        return False
    executors = min(cluster.nodes, max(1, fed // cores))
    slots = cores * executors
    partitions = slots
    while math.ceil(work.structured_rows / partitions) > in_partition or tables.single_bytes > partitions * (10**8 - 1):
        partitions += slots
    mean = math.ceil(Fraction(tables.single_bytes, partitions))
    partition = max(mean, math.ceil(work.structured_rows / partitions) * tables.record_bytes)
    f, m = work.model, work.downstream
    m_mem = m.memory_bytes(work.features)

    def mib(size: int) -> int:
        return math.ceil(Fraction(size, MIB))

    user = 2 * cores * partition
    dl = f.shared_bytes + cores * (f.runtime_bytes - f.shared_bytes)
    in_user = m.place == "user"
    user, dl = (max(user, cores * m_mem), dl) if in_user else (user, max(dl, cores * m_mem))
    share = math.ceil(Fraction(work.structured_rows, executors)) * tables.record_bytes
    python = cores * (128 * MIB + 4 * min(share, max(64 * MIB, f.batch_size * tables.record_bytes)))
    python += 512 * MIB if cluster.local else 0
    driver = (120 if cluster.local else 512) * MIB + m.driver_bytes_per_feature * work.features
    driver += (math.isqrt(partitions) + 1) * m_mem if in_user else 0
    core = mib(cores * (32 * MIB + partition))
    gpu = cores * max(f.runtime_gpu_bytes, m.runtime_gpu_bytes)
    if cluster.gpu_memory_bytes and 0 < cluster.gpu_memory_bytes <= gpu:
        return False
    if not cluster.local:
        machine = cluster.memory_bytes if cluster.driver_memory_bytes is None else cluster.driver_memory_bytes
        if 512 + mib(driver) + max(512, -(-mib(driver) // 10)) > (machine - reserved(machine)) / MIB:
            return False
    heap = np.arange(450, cluster.memory_bytes // MIB + 1)
    overhead = np.maximum(512, -(-heap // 10))
    inside = 300 + mib(user) + core + (mib(driver) if cluster.local else 0)
    beside = mib(dl) + mib(python)
    unified = 6 * (heap - 300) // 10
    fits = (heap > inside) & (unified > core)
    free = cluster.memory_bytes - reserved(cluster.memory_bytes)
    return bool(np.any(fits & (beside + heap + overhead <= free / MIB)))


def reserved(machine: int) -> int:
    return min(3 * GIB, machine // 10)


@unhurried
@given(workloads, clusters())
def test_spark4_takes_the_most_cores_that_fit(work: TransferWorkload, cluster: ClusterSpec) -> None:
    plan = planned(work, cluster, replace(SPARK4, heap_max_bytes=0))
    fitting = [cores for cores in range(1, cluster.cores + 1) if fits_somehow(work, cluster, cores)]
    if isinstance(plan, InfeasiblePlanError):
        assert not fitting
    else:
        assert plan.cores == max(fitting)


@unhurried
@given(workloads, clusters(), presets, st.integers(0, 20 * GIB))
def test_regions_partitions_and_configuration(
    work: TransferWorkload, cluster: ClusterSpec, constants: Constants, more: int
) -> None:
    plan = planned(work, cluster, constants)
    if isinstance(plan, InfeasiblePlanError) and plan.smallest is not None:
        cluster = replace(plan.smallest, memory_bytes=plan.smallest.memory_bytes + more)
        plan = planned(work, cluster, constants)
    assume(isinstance(plan, TransferPlan))
    assert isinstance(plan, TransferPlan)
    per_node = plan.executors_per_node
    inside = plan.user_bytes + plan.core_bytes - plan.off_heap_bytes + plan.storage_bytes
    inside += plan.driver_bytes if cluster.local else 0
    beside = plan.dl_bytes + plan.python_bytes + plan.overhead_bytes + plan.off_heap_bytes
    assert plan.storage_bytes > 0
    assert inside + constants.heap_reserved_bytes == plan.heap_bytes
    assert plan.os_bytes + per_node * (plan.heap_bytes + beside) == plan.system_bytes <= cluster.memory_bytes
    assert per_node * plan.cores <= cluster.cores
    assert plan.executors <= per_node * cluster.nodes
    assert plan.slots == plan.executors * plan.cores
    unified = plan.core_bytes - plan.off_heap_bytes + plan.storage_bytes
    assert unified <= constants.memory_fraction_max * (plan.heap_bytes - constants.heap_reserved_bytes)
    assert 0 < plan.peak_bytes <= plan.system_bytes
    assert plan.partitions % plan.slots == 0
    assert plan.tables.single_bytes / plan.partitions <= plan.partition_bytes < constants.partition_bytes
    if constants.whole_rows:
        fullest = math.ceil(work.structured_rows / plan.partitions)
        assert fullest * plan.tables.record_bytes < constants.partition_bytes
        # No smaller multiple would do.
        fewer = plan.partitions - plan.slots
        assert fewer == 0 or (
            math.ceil(work.structured_rows / fewer) * plan.tables.record_bytes >= constants.partition_bytes
            or plan.tables.single_bytes > fewer * (constants.partition_bytes - 1)
        )
    conf = plan.to_spark_conf()
    assert all(isinstance(value, str) for value in conf.values())
    mib = {name: int(value[:-1]) for name, value in conf.items() if value.endswith("m")}
    side = "driver" if cluster.local else "executor"
    heap = mib[f"spark.{side}.memory"]
    used = heap + mib.get("spark.memory.offHeap.size", 0)
    used += 0 if cluster.local else mib["spark.executor.memoryOverhead"]
    assert plan.os_bytes + per_node * used * MIB <= cluster.memory_bytes
    fraction, storage = (float(conf[f"spark.memory.{name}"]) for name in ("fraction", "storageFraction"))
    assert 0 <= fraction <= 1
    assert 0 <= storage <= 1
    if constants.heap_reserved_bytes:
        usable = (heap - 300) * MIB
        user = plan.user_bytes + (plan.driver_bytes if cluster.local else 0)
        # The heap is in whole MiB, whatever the plan's granule.
        slack = 2 * MIB + 2e-6 * usable if constants.granularity_bytes == 1 else 0
        unified = int(usable * fraction)
        assert usable - unified >= user - slack
        assert unified - int(unified * storage) >= plan.core_bytes - plan.off_heap_bytes - slack
        assert int(unified * storage) >= plan.storage_bytes - 2e-6 * usable - slack
    if plan.gpu_bytes and not cluster.local:
        assert math.floor(1 / float(conf["spark.task.resource.gpu.amount"])) == plan.cores
    assert plan.explain()


@unhurried
@given(workloads, clusters(), st.integers(0, 64 * GIB), presets)
def test_more_memory_never_refuses_nor_means_fewer_cores(
    work: TransferWorkload, cluster: ClusterSpec, more: int, constants: Constants
) -> None:
    small = planned(work, cluster, constants)
    large = planned(work, replace(cluster, memory_bytes=cluster.memory_bytes + more), constants)
    if isinstance(small, TransferPlan):
        assert isinstance(large, TransferPlan)
        # Several executors may leave a remainder of the cores idle, for the sake of the memory.
        if large.executors_per_node == 1:
            assert large.cores >= small.cores
        else:
            slots = large.cores * large.executors_per_node
            assert 2 * slots > small.cores * small.executors_per_node


@unhurried
@given(workloads, clusters(0, 24 * GIB), presets, st.none() | st.integers(1, 5))
def test_the_smallest_machine_is_the_smallest(
    work: TransferWorkload, cluster: ClusterSpec, constants: Constants, cores: int | None
) -> None:
    error = planned(work, cluster, constants, cores)
    assume(isinstance(error, InfeasiblePlanError))
    assert isinstance(error, InfeasiblePlanError)
    if error.smallest is None:
        assert error.constraint == "partition"
        return
    smallest = error.smallest
    plan = planned(work, smallest, constants, cores)
    assert isinstance(plan, TransferPlan)
    assert plan.cores >= (cores or 1)
    shorter = 0
    for field in ("memory_bytes", "gpu_memory_bytes", "driver_memory_bytes", "cores"):
        now, then = getattr(cluster, field), getattr(smallest, field)
        if now != then:
            assert then > now
            assert isinstance(
                planned(work, replace(smallest, **{field: then - 1}), constants, cores), InfeasiblePlanError
            )
            shorter += 1
            assert (str(then) if field == "cores" else f"{-(-then // MIB)}m") in str(error)
    assert shorter
    if error.constraint == "memory":
        assert error.short_bytes <= smallest.memory_bytes - cluster.memory_bytes
    assert (error.short_bytes > 0) == (error.constraint != "cores")


@pytest.mark.parametrize("constants", [PAPER, SPARK4], ids=["paper", "spark4"])
def test_a_byte_decides(constants: Constants) -> None:
    work = TransferWorkload(20_000, 130, (LayerSize("fc", 16_384),), 14_000, ModelFootprint(GIB, GIB))
    tiny = ClusterSpec(4, 4, GIB, driver_memory_bytes=8 * GIB)
    with pytest.raises(InfeasiblePlanError) as caught:
        plan_transfer(work, tiny, constants)
    enough = caught.value.smallest_memory_bytes
    assert enough == GIB + caught.value.short_bytes
    plan = plan_transfer(work, replace(tiny, memory_bytes=enough), constants)
    assert (plan.cores, plan.storage_bytes) == (1, constants.granularity_bytes)
    with pytest.raises(InfeasiblePlanError, match="1 B short"):
        plan_transfer(work, replace(tiny, memory_bytes=enough - 1), constants)


def test_more_cores_on_fewer_executors_may_need_less() -> None:
    """Nine executors of one core have nine partitions, four of two cores have eight and a smaller heap."""
    layer = LayerSize("conv", 80660)
    work = TransferWorkload(73, 0, (layer,), 0, ModelFootprint(0, 0, batch_size=9), Downstream(bytes_per_feature=13))
    error = planned(work, ClusterSpec(nodes=9, cores=2, memory_bytes=0), SPARK4)
    assert isinstance(error, InfeasiblePlanError)
    assert error.smallest is not None
    plan = planned(work, error.smallest, SPARK4)
    assert isinstance(plan, TransferPlan)
    assert (plan.executors, plan.cores) == (4, 2)
    smaller = replace(error.smallest, memory_bytes=error.smallest.memory_bytes - 1)
    assert isinstance(planned(work, smaller, SPARK4), InfeasiblePlanError)

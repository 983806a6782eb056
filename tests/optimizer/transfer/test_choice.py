"""The choice among logical plans."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from dags import alexnet, graphs, unhurried
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import CerebroError
from optimizer.memory import (
    SPARK4,
    ClusterSpec,
    Downstream,
    Envelope,
    InfeasiblePlanError,
    ModelFootprint,
    TransferPlan,
    TransferWorkload,
    plan_inside,
    plan_transfer,
)
from optimizer.transfer import LogicalPlan, ModelProfile, TransferCost, choose_transfer, plan_layers, size_workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from optimizer.graph import LayerGraph

GIB = 2**30
PROFILE = ModelProfile("cnn", "cpu", 1, 32, 10**8, 10**9, 2 * 10**8, 0, 0.004, ((10**9, 0.05),))


def planner(
    graph: LayerGraph, rows: int, memory: int = 32 * GIB, **plan: object
) -> Callable[[LogicalPlan], TransferPlan]:
    def apportion(logical: LogicalPlan) -> TransferPlan:
        workload = size_workload(
            graph,
            logical,
            PROFILE.footprint,
            Downstream.logistic_regression(),
            structured_rows=rows,
            structured_features=10,
            image_bytes=14_000,
        )
        return plan_transfer(workload, ClusterSpec(2, 4, memory), logical=logical.logical, **plan)

    return apportion


@st.composite
def tasks(draw: st.DrawFn) -> tuple[LayerGraph, list[str]]:
    graph = draw(graphs())
    layers = [name for name in graph.names if graph[name].op != "input"]
    chosen = draw(st.sets(st.sampled_from(layers), min_size=1, max_size=4))
    return graph, [name for name in layers if name in chosen]


@unhurried
@given(tasks(), st.integers(1, 100_000), st.floats(0, 2), st.floats(1e3, 1e9))
def test_nothing_that_was_compared_is_sooner(
    task: tuple[LayerGraph, list[str]], rows: int, job: float, copying: float
) -> None:
    graph, targets = task
    cost = TransferCost(PROFILE, job_seconds=job, copy_bytes_per_second=copying)
    apportion = planner(graph, rows)
    choice = choose_transfer(graph, targets, apportion, cost)
    for logical in ("staged", "eager-reordered", "lazy-reordered"):
        plan = plan_layers(graph, targets, logical)
        assert choice.seconds <= cost.seconds(plan, apportion(plan))
    assert list(choice.logical.targets) == targets
    assert choice.seconds == cost.seconds(choice.logical, choice.physical)


@unhurried
@given(tasks(), st.floats(0.01, 2))
def test_merging_finds_the_best_grouping_where_passes_are_all_that_counts(
    task: tuple[LayerGraph, list[str]], job: float
) -> None:
    graph, targets = task
    cost = TransferCost(PROFILE, job_seconds=job, copy_bytes_per_second=1e18)
    choice = choose_transfer(graph, targets, planner(graph, 1), cost)
    assert len(choice.logical.stages) == 1


def test_against_every_grouping_of_alexnet() -> None:
    graph, targets = alexnet(), ["conv4", "conv5", "fc6", "fc7", "fc8"]
    for rows, job, copying in itertools.product((100, 10_000), (0.05, 0.5), (5e6, 3e8)):
        cost = TransferCost(PROFILE, job_seconds=job, copy_bytes_per_second=copying)
        apportion = planner(graph, rows)
        every = []
        for cuts in itertools.product((False, True), repeat=len(targets) - 1):
            groups = [1]
            for cut in cuts:
                if cut:
                    groups.append(1)
                else:
                    groups[-1] += 1
            plan = plan_layers(graph, targets, "staged", grouped=groups)
            every.append(cost.seconds(plan, apportion(plan)))
        choice = choose_transfer(graph, targets, apportion, cost)
        assert choice.seconds <= 1.02 * min(every)


def test_a_cheap_stage_gets_no_pass_of_its_own() -> None:
    """fc7 and fc8 compute little; conv5's tensor costs more to keep than to compute fc6 beside it."""
    graph, targets = alexnet(), ["conv5", "fc6", "fc7", "fc8"]
    choice = choose_transfer(graph, targets, planner(graph, 500), TransferCost(PROFILE))
    assert len(choice.logical.stages) < len(targets)
    said = choice.explain()
    assert "plans compared, by predicted seconds of inference:" in said
    assert "staged, layers a stage: " in said
    assert choice.physical.explain() in said


def test_what_does_not_fit_is_not_chosen() -> None:
    graph, targets = alexnet(), ["conv5", "fc6", "fc7", "fc8"]
    apportion = planner(graph, 500)

    def narrow(logical: LogicalPlan) -> TransferPlan:
        if not logical.logical.startswith("lazy"):
            raise InfeasiblePlanError("too large", "memory", 1)
        return apportion(logical)

    choice = choose_transfer(graph, targets, narrow, TransferCost(PROFILE))
    assert choice.logical.logical == "lazy-reordered"
    assert ("staged", "too large") in choice.considered
    assert "staged: refused: too large" in choice.explain()


def test_nothing_fits() -> None:
    graph = alexnet()
    with pytest.raises(InfeasiblePlanError, match="short"):
        choose_transfer(graph, ["fc7", "fc8"], planner(graph, 500, memory=2 * GIB), TransferCost(PROFILE))


def test_spilling_costs() -> None:
    graph = alexnet()
    plan = plan_layers(graph, ["conv5", "fc8"], "staged")
    physical = planner(graph, 100_000)(plan)
    cost = TransferCost(PROFILE, spill_bytes_per_second=1e6)
    full = replace(physical, storage_bytes=physical.cached_bytes)
    none = replace(physical, storage_bytes=0)
    expected = 2 * physical.cached_bytes / physical.cluster.nodes / 1e6
    assert cost.seconds(plan, none) - cost.seconds(plan, full) == pytest.approx(expected)


def test_seconds_by_depth() -> None:
    profile = replace(PROFILE, seconds=((100, 1.0), (300, 2.0), (400, 4.0)))
    assert profile.between(0, 100) == pytest.approx(1)
    assert profile.between(100, 200) == pytest.approx(0.5)
    assert profile.between(200, 400) == pytest.approx(2.5)
    assert profile.between(400, 800) == pytest.approx(4)
    assert profile.between(300, 300) == 0
    assert ModelProfile.from_dict(profile.to_dict()) == profile
    with pytest.raises(CerebroError, match="must have at least one measured layer"):
        replace(profile, seconds=())


def test_the_profile_says_its_figures() -> None:
    text = PROFILE.explain()
    assert "weights:              100.0 MB" in text
    assert "a worker's own:       800.0 MB" in text
    assert "once a node:          200.0 MB" in text
    assert "a record's inference: 50.00 ms, 20.0 GFLOP/s" in text
    assert "on the accelerator" not in text
    assert "on the accelerator:   7.0 MB" in replace(PROFILE, runtime_gpu_bytes=7_000_000).explain()


WORK = TransferWorkload(
    1000,
    10,
    size_workload(
        alexnet(),
        plan_layers(alexnet(), ["fc7", "fc8"], "staged"),
        ModelFootprint(1, 1),
        Downstream(),
        structured_rows=1,
        structured_features=1,
        image_bytes=1,
    ).layers,
    14_000,
    ModelFootprint(10**8, 900 * 2**20, shared_bytes=100 * 2**20),
)


def test_inside_a_session_only_the_rest_is_chosen() -> None:
    envelope = Envelope(2, 4, heap_bytes=8 * GIB, beside_bytes=8 * GIB, driver_heap_bytes=4 * GIB)
    plan = plan_inside(WORK, envelope)
    assert (plan.cores, plan.heap_bytes, plan.os_bytes) == (4, 8 * GIB, 0)
    assert plan.partitions % 8 == 0
    unified = int((8 * GIB - SPARK4.heap_reserved_bytes) * 0.6)
    assert plan.storage_bytes == unified - plan.core_bytes
    assert plan.persistence == "deserialized"
    assert plan.system_bytes <= 16 * GIB
    assert "as many as the session was started with" in plan.explain()
    # Less of the heap for Spark, less storage.
    assert plan_inside(WORK, replace(envelope, memory_fraction=0.3)).storage_bytes < plan.storage_bytes
    by_hand = plan_inside(WORK, envelope, partitions=24, join="shuffle", persistence="serialized")
    assert (by_hand.partitions, by_hand.join, by_hand.persistence) == (24, "shuffle", "serialized")


@pytest.mark.parametrize(
    ("narrow", "constraint", "words"),
    [
        ({"heap_bytes": 400 << 20}, "heap", r"an executor has a heap of 400\.0 MiB and needs .* [\d.]+ MiB short"),
        ({"beside_bytes": GIB}, "memory", r"beside its heap an executor may take 1\.0 GiB and needs .* networks"),
        ({"driver_heap_bytes": GIB // 4}, "driver", r"the driver has a heap of 256\.0 MiB and needs"),
        ({"gpu_memory_bytes": GIB}, "gpu", r"the GPU has 1\.0 GiB and the networks need"),
    ],
)
def test_what_a_session_is_short_of(narrow: dict[str, int], constraint: str, words: str) -> None:
    work = replace(WORK, model=replace(WORK.model, runtime_gpu_bytes=GIB))
    envelope = Envelope(
        2, 4, heap_bytes=8 * GIB, beside_bytes=8 * GIB, driver_heap_bytes=4 * GIB, gpu_memory_bytes=5 * GIB
    )
    plan_inside(work, envelope)
    with pytest.raises(InfeasiblePlanError, match=words) as caught:
        plan_inside(work, replace(envelope, **narrow))
    assert caught.value.constraint == constraint
    (field,) = narrow
    enough = replace(envelope, **{field: narrow[field] + caught.value.short_bytes})
    assert plan_inside(work, enough).cores == 4
    with pytest.raises(InfeasiblePlanError):
        plan_inside(work, replace(enough, **{field: getattr(enough, field) - 1}))


@pytest.mark.parametrize(("heap", "admitted"), [(1024, True), (700, True), (450, False)])
def test_sparks_default_session_is_enough_for_a_small_job(heap: int, admitted: bool) -> None:
    """48 photographs in local[2]: 1 GiB and 700 MiB finished, and 210 MiB of the heap were live at most."""
    work = replace(WORK, structured_rows=48, image_bytes=60_000, downstream=Downstream.logistic_regression())
    session = Envelope(1, 2, heap_bytes=heap << 20, beside_bytes=12 * GIB, local=True)
    if admitted:
        assert plan_inside(work, session).cores == 2
    else:
        with pytest.raises(InfeasiblePlanError, match=r"a heap of 450\.0 MiB and needs 4\d\d\.\d MiB"):
            plan_inside(work, session)


def test_a_session_has_no_more_tasks_than_the_data_feeds() -> None:
    large = Envelope(100, 64, heap_bytes=64 * GIB, beside_bytes=128 * GIB)
    work = replace(WORK, structured_rows=10_000, model=replace(WORK.model, batch_size=32))
    assert plan_inside(work, large).partitions == 313
    # One executor is there anyway: a record for each of its slots.
    assert plan_inside(replace(work, structured_rows=40), large).partitions == 40
    assert plan_inside(replace(work, structured_rows=500), large).partitions == 64


def test_a_record_too_large_for_a_partition_inside_a_session() -> None:
    large = replace(WORK, layers=(replace(WORK.layers[0], tensor_bytes=10**8),))
    with pytest.raises(InfeasiblePlanError, match="one record of the table") as caught:
        plan_inside(large, Envelope(1, 1, heap_bytes=64 * GIB, beside_bytes=64 * GIB))
    assert caught.value.constraint == "partition"


@pytest.mark.parametrize("bad", [{"slots": 0}, {"executors": 0}, {"heap_bytes": 0}, {"memory_fraction": 1.0}])
def test_no_such_envelope(bad: dict[str, float]) -> None:
    with pytest.raises(CerebroError):
        replace(Envelope(1, 1, GIB, GIB), **bad)

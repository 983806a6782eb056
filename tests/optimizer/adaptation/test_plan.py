"""The planner against brute force, and against itself."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from adaptations import workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.adaptation import Candidate, Costs, plan
from optimizer.errors import InvalidArgumentError
from optimizer.graph import Layer, LayerGraph, materialisable, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optimizer.adaptation import AdaptationPlan

RECORDS = 10
PLENTY = 10**9
RATES = Costs(3.0, 1.0)
bounded = settings(max_examples=60, deadline=None)


def cheapest(graph: LayerGraph, wanted: set[str], stored: set[str]) -> int:
    """Try every set of layers to compute: each needs its parents, and the rest of what is needed has to be read."""
    names = [name for name in graph.ancestors(wanted) if name not in graph.inputs]
    best = None
    for flags in itertools.product((False, True), repeat=len(names)):
        computed = {name for name, flag in zip(names, flags, strict=True) if flag}
        needed = wanted | {source for name in computed for source in graph[name].inputs}
        read = needed - computed
        if read <= stored | set(graph.inputs):
            cost = graph.flops(computed) + sum(RATES.load_flops(graph[name].activation_bytes) for name in read)
            best = cost if best is None else min(best, cost)
    assert best is not None
    return best


def parts(candidates: Sequence[Candidate]) -> tuple[LayerGraph, dict[str, set[str]], dict[str, int]]:
    """Give the frozen layers of all, and for each candidate what it needs of them and what its own layers take."""
    feeds, own, trunks = {}, {}, {}
    for candidate in candidates:
        graph = candidate.graph.subgraph(candidate.graph.outputs)
        constant = set(materialisable(graph))
        above = [layer for layer in graph if layer.name not in constant]
        feeds[candidate.name] = {source for layer in above for source in layer.inputs} & constant
        trunks[candidate.name] = graph.subgraph(name for name in graph.names if name in feeds[candidate.name])
        # In these workloads only the head learns, and what lies below it gets no gradient.
        own[candidate.name] = sum(layer.flops * (1 if layer.frozen else 3) for layer in above)
    return merge(trunks).graph, feeds, own


def unit_cost(
    members: Sequence[Candidate], graph: LayerGraph, feeds: dict[str, set[str]], own: dict[str, int], stored: set[str]
) -> int:
    """Follow the epochs one by one: those who still train share the trunk."""
    total = sum(own[member.name] * member.epochs for member in members)
    for epoch in range(max(member.epochs for member in members)):
        wanted = set().union(*(feeds[member.name] for member in members if member.epochs > epoch))
        total += cheapest(graph, wanted, stored)
    return total


def partitions(things: Sequence[Candidate]) -> Iterator[list[list[Candidate]]]:
    if not things:
        yield []
        return
    first, *rest = things
    for groups in partitions(rest):
        yield [[first], *groups]
        for i, group in enumerate(groups):
            if group[0].batch_size == first.batch_size:
                yield [*groups[:i], [first, *group], *groups[i + 1 :]]


def choices(graph: LayerGraph, disk_bytes: int) -> Iterator[set[str]]:
    names = [name for name in graph.names if name not in graph.inputs]
    for count in range(len(names) + 1):
        for some in itertools.combinations(names, count):
            if RECORDS * sum(graph[name].activation_bytes for name in some) <= disk_bytes:
                yield set(some)


def check(chosen: list[Candidate], **settings_: Any) -> tuple[int, float]:
    """Plan, check that the plan can run and costs what it says, and give its total and makespan."""
    result = plan(chosen, records=RECORDS, memory_bytes=PLENTY, costs=RATES, **settings_)
    graph = result.trunk
    assert RECORDS * sum(graph[name].activation_bytes for name in result.materialised) == result.materialised_bytes
    assert result.materialised_bytes <= settings_["disk_bytes"]
    assert sorted(name for group in result.groups for name in group.members) == sorted(c.name for c in chosen)
    assert {name for group in result.groups for name in group.loads} - set(graph.inputs) == set(result.materialised)
    by_name = {candidate.name: candidate for candidate in chosen}
    _, feeds, own = parts(chosen)
    for group in result.groups:
        members = [by_name[name] for name in group.members]
        assert {member.batch_size for member in members} == {group.batch_size}
        assert sum(phase.epochs for phase in group.phases) == max(member.epochs for member in members)
        spent = sum(own[member.name] * member.epochs for member in members)
        epoch = 0
        for phase in group.phases:
            for _ in range(phase.epochs):
                ready = set(phase.loads)
                for name in phase.computes:
                    assert set(graph[name].inputs) <= ready
                    ready.add(name)
                training = [member for member in members if member.epochs > epoch]
                assert set().union(*(feeds[member.name] for member in training)) <= ready
                epoch += 1
            reads = sum(RATES.load_flops(graph[name].activation_bytes) for name in phase.loads)
            spent += phase.epochs * (graph.flops(phase.computes) + reads)
        assert group.flops == RECORDS * spent
    return result.flops, result.makespan_flops


@bounded
@given(workloads(), st.sampled_from([0, 40, 80, 160, 400, PLENTY]))
def test_the_layers_are_those_of_brute_force(chosen: list[Candidate], disk: int) -> None:
    """Equation 6 under equation 7, each model on its own."""
    graph, feeds, own = parts(chosen)
    best = min(
        sum(unit_cost([candidate], graph, feeds, own, stored) for candidate in chosen)
        for stored in choices(graph, disk)
    )
    assert check(chosen, disk_bytes=disk, fuse=False)[0] == RECORDS * best


@bounded
@given(workloads(layers=4), st.sampled_from([0, 40, 80, 160, PLENTY]))
def test_with_memory_for_all_the_joint_plan_is_that_of_brute_force(chosen: list[Candidate], disk: int) -> None:
    """Over all layers and all groups: with one worker, fusing what can be fused is never worse."""
    graph, feeds, own = parts(chosen)
    best = min(
        sum(unit_cost(group, graph, feeds, own, stored) for group in groups)
        for stored in choices(graph, disk)
        for groups in partitions(chosen)
    )
    joint, _ = check(chosen, disk_bytes=disk)
    phases, _ = check(chosen, disk_bytes=disk, joint=False)
    assert joint == RECORDS * best
    assert joint <= phases


@bounded
@given(workloads(layers=4), st.sampled_from([0, 80, PLENTY]), st.sampled_from([2, 3]))
def test_the_makespan_of_workers(chosen: list[Candidate], disk: int, workers: int) -> None:
    """Never below brute force's, and never above that of one group, of no group, and of the two phases."""
    graph, feeds, own = parts(chosen)
    best = min(
        max(sum(costs) / workers, *costs)
        for stored in choices(graph, disk)
        for groups in partitions(chosen)
        if (costs := [unit_cost(group, graph, feeds, own, stored) for group in groups])
    )
    _, joint = check(chosen, disk_bytes=disk, workers=workers)
    _, phases = check(chosen, disk_bytes=disk, workers=workers, joint=False)
    _, alone = check(chosen, disk_bytes=disk, workers=workers, fuse=False)
    assert RECORDS * best <= joint + 1e-6
    assert joint <= min(phases, alone) + 1e-6


@bounded
@given(workloads(layers=4), st.data())
def test_over_layers_that_lie_on_disk_only_the_groups_are_chosen(chosen: list[Candidate], data: st.DataObject) -> None:
    """Whatever lies there and whatever the budget; what is slower to read than to compute is computed."""
    graph, feeds, own = parts(chosen)
    names = [name for name in graph.names if name not in graph.inputs]
    there = set(data.draw(st.lists(st.sampled_from(names), unique=True)) if names else ())
    best = min(sum(unit_cost(group, graph, feeds, own, there) for group in groups) for groups in partitions(chosen))
    result = plan(
        chosen,
        records=RECORDS,
        disk_bytes=0,
        memory_bytes=PLENTY,
        costs=RATES,
        stored={graph.expression(name) for name in there},
    )
    assert result.flops == RECORDS * best
    assert {result.trunk.expression(name) for name in result.materialised} <= {graph.expression(name) for name in there}


def net(name: str, below: str = "f", *, layers: Sequence[Layer] = (), **settings_: int) -> Candidate:
    trunk = [Layer("x", "input", (), (10,)), Layer("f", "conv", ("x",), (5,), flops=1000, fingerprint="f"), *layers]
    head = Layer("head", "fc", (below,), (2,), flops=30, param_bytes=40, frozen=False)
    values = {"epochs": 2, "batch_size": 4} | settings_
    return Candidate(name, LayerGraph([*trunk, head], ["head"]), **values)


def usual(chosen: Sequence[Candidate], **settings_: Any) -> AdaptationPlan:
    values = {"records": 100, "disk_bytes": PLENTY, "memory_bytes": PLENTY, "costs": Costs(1.0, 1.0)}
    return plan(chosen, **(values | settings_))


def test_two_workers_get_two_groups_where_one_would_idle() -> None:
    chosen = [net(f"c{i}") for i in range(6)]
    assert [len(group.members) for group in usual(chosen).groups] == [6]
    shared = usual(chosen, workers=2)
    assert sorted(len(group.members) for group in shared.groups) == [3, 3]
    assert shared.makespan_flops < usual(chosen).makespan_flops


def test_joint_beats_the_two_phases() -> None:
    """The disk takes one layer. Apart, the three readers of ``f`` decide; fused they share it, and ``g`` counts."""
    top = [Layer("g", "conv", ("x",), (5,), flops=2000, fingerprint="g")]
    chosen = [net(f"f{i}", layers=top) for i in range(3)] + [net("g", "g", layers=top)]
    disk = 100 * 20
    assert usual(chosen, disk_bytes=disk, fuse=False).materialised == ("f",)
    phases, joint = (usual(chosen, disk_bytes=disk, joint=joint) for joint in (False, True))
    assert (phases.materialised, joint.materialised) == (("f",), ("g",))
    assert joint.flops < phases.flops


def test_a_layer_that_draws_is_never_kept_nor_what_is_above_it() -> None:
    drawn = [
        Layer("drop", "dropout", ("f",), (5,), flops=10, random=True),
        Layer("g", "conv", ("drop",), (5,), flops=5000, fingerprint="g"),
    ]
    result = usual([net("a", "g", layers=drawn), net("b", "g", layers=drawn, epochs=3)])
    assert result.materialised == ("f",)
    assert result.feeds == {"a": ("f",), "b": ("f",)}
    # Each runs its own: once forward, for no gradient passes.
    assert result.groups[0].compute_flops == 100 * 5 * (10 + 5000 + 3 * 30)
    assert "drop: neither these layers nor those above" in result.explain()


def test_a_shared_layer_runs_as_long_as_somebody_needs_it() -> None:
    chosen = [net("short"), net("long", epochs=7), net("direct", "x", epochs=9)]
    (group,) = usual(chosen, materialise=False).groups
    assert [(phase.epochs, phase.loads, phase.computes) for phase in group.phases] == [
        (7, ("x",), ("f",)),
        (2, ("x",), ()),
    ]
    assert group.compute_flops == 100 * (7 * 1000 + 3 * 30 * (2 + 7 + 9))
    assert group.load_flops == 100 * 9 * 40


def test_inputs_cost_their_reading_and_no_disk() -> None:
    result = usual([net("a", "x")], disk_bytes=0)
    assert result.materialised_bytes == 0
    assert result.groups[0].load_flops == 100 * 2 * 40


def test_batch_sizes_are_not_mixed() -> None:
    groups = usual([net("a"), net("b", batch_size=8), net("c")]).groups
    assert [group.members for group in groups] == [("a", "c"), ("b",)]


def test_members_of_equal_cost_keep_their_names() -> None:
    chosen = [net("a"), net("b", epochs=3), net("c"), net("d", "x")]
    result = usual(chosen)
    assert tuple(result.names) == ("a", "b", "c", "d")
    assert result.names["c"] == {"x": "x", "f": "f"}


def test_what_nobody_reads_is_not_kept() -> None:
    """``f`` and ``g`` both fit; with ``g`` read, ``f`` is for nothing."""
    top = [Layer("g", "conv", ("f",), (6,), flops=2000, fingerprint="g")]
    result = usual([net("a", "g", layers=top)])
    assert result.materialised == ("g",)
    assert result.groups[0].loads == ("g",)


def test_layers_of_half_the_bytes_take_half_the_disk_and_time() -> None:
    """With bfloat16 a layer is kept that was too large; the records are as they are, and so are other types."""
    layers = [
        Layer("x", "input", (), (10,)),
        Layer("a", "conv", ("x",), (25,), flops=10**6),
        Layer("b", "conv", ("a",), (25,), "uint8", flops=10**6),
        Layer("head", "fc", ("a", "b"), (2,), flops=10, param_bytes=8, frozen=False),
    ]
    chosen = [Candidate("one", LayerGraph(layers, ["head"]), 2, 8)]

    def made(float_bytes: int, disk_bytes: int) -> AdaptationPlan:
        return plan(
            chosen,
            records=100,
            disk_bytes=disk_bytes,
            costs=Costs(1.0, 1.0),
            memory_bytes=10**9,
            float_bytes=float_bytes,
        )

    assert made(4, 12_500).materialised == ("a", "b")
    assert made(4, 12_499).materialised != ("a", "b")
    half = made(2, 7_500)
    assert half.materialised == ("a", "b")
    assert half.materialised_bytes == 100 * (50 + 25)
    assert half.groups[0].load_flops == 100 * 2 * (50 + 25)
    assert made(2, 7_499).materialised != ("a", "b")
    with pytest.raises(InvalidArgumentError, match="float_bytes must be 4, or 2 for layers stored as bfloat16, got 3"):
        made(3, 1)


def test_copies_of_records_take_disk_and_no_more_time() -> None:
    """An epoch reads one copy; a layer of which all copies do not fit is not kept."""
    layers = [
        Layer("x", "input", (), (10,)),
        Layer("a", "conv", ("x",), (25,), flops=10**6),
        Layer("head", "fc", ("a",), (2,), flops=10, param_bytes=8, frozen=False),
    ]
    chosen = [Candidate("one", LayerGraph(layers, ["head"]), 2, 8)]

    def made(stored_rows: int | None, disk_bytes: int) -> AdaptationPlan:
        return plan(
            chosen,
            records=100,
            disk_bytes=disk_bytes,
            costs=Costs(1.0, 1.0),
            memory_bytes=10**9,
            stored_rows=stored_rows,
        )

    once, copied = made(None, 10_000), made(300, 30_000)
    assert once.materialised == copied.materialised == ("a",)
    assert (once.materialised_bytes, copied.materialised_bytes) == (10_000, 30_000)
    assert once.flops == copied.flops
    assert made(300, 29_999).materialised == ()
    with pytest.raises(InvalidArgumentError, match=r"stored_rows must be .*, got 99"):
        made(99, 1)

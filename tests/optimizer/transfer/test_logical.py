from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from dags import alexnet, feed, graphs, residual_block, run, run_all, unhurried
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import CerebroError, UnknownLayerError
from optimizer.graph import Layer, LayerGraph
from optimizer.memory import LOGICAL_PLANS
from optimizer.transfer import LogicalPlan, plan_layers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@st.composite
def tasks(draw: st.DrawFn) -> tuple[LayerGraph, list[str]]:
    """A random graph and some of its layers, in topological order."""
    graph = draw(graphs())
    layers = [name for name in graph.names if graph[name].op != "input"]
    chosen = draw(st.sets(st.sampled_from(layers), min_size=1, max_size=4))
    return graph, [name for name in layers if name in chosen]


def needed(graph: LayerGraph, targets: Iterable[str]) -> set[str]:
    """Everything that targets are computed from and that is computed itself, by plain recursion."""
    found: set[str] = set()
    ahead = list(targets)
    while ahead:
        name = ahead.pop()
        if name not in found and graph[name].op != "input":
            found.add(name)
            ahead.extend(graph[name].inputs)
    return found


def flops(graph: LayerGraph, layers: Iterable[str]) -> int:
    return sum(graph[name].flops for name in layers)


def execute(graph: LayerGraph, plan: LogicalPlan) -> Mapping[str, int]:
    """Do what a plan says and no more: a stage has what it reads, and the next one only what it wrote."""
    features: dict[str, int] = {}
    written: list[dict[str, int]] = []
    for stage in plan.stages:
        source = feed(graph) if stage.source is None else written[stage.source]
        values = run(graph, {name: source[name] for name in stage.reads}, stage.runs)
        features |= {name: values[name] for name in stage.targets}
        written.append({name: values[name] if name in values else source[name] for name in stage.writes})
    return features


@unhurried
@given(tasks(), st.sampled_from(LOGICAL_PLANS))
def test_every_plan_computes_every_target(task: tuple[LayerGraph, list[str]], logical: str) -> None:
    graph, targets = task
    plan = plan_layers(graph, targets, logical)
    truth = run_all(graph)
    assert execute(graph, plan) == {name: truth[name] for name in targets}
    assert [name for stage in plan.stages for name in stage.targets] == targets


@unhurried
@given(tasks())
def test_staged_runs_each_needed_layer_once(task: tuple[LayerGraph, list[str]]) -> None:
    graph, targets = task
    plan = plan_layers(graph, targets, "staged")
    ran = [name for stage in plan.stages for name in stage.runs]
    assert sorted(ran) == sorted(needed(graph, targets))
    assert plan.flops == flops(graph, needed(graph, targets))


@unhurried
@given(tasks())
def test_staged_stages_chain(task: tuple[LayerGraph, list[str]]) -> None:
    graph, targets = task
    plan = plan_layers(graph, targets, "staged")
    assert set(plan.stages[0].reads) <= set(graph.inputs)
    for before, after in pairwise(plan.stages):
        assert set(after.reads) <= set(before.writes)
    # Nothing is kept that no later stage reads.
    for number, stage in enumerate(plan.stages):
        later = {name for after in plan.stages[number + 1 :] for name in after.reads}
        assert set(stage.writes) <= later
    assert plan.stages[-1].writes == ()


@unhurried
@given(tasks(), st.data())
def test_grouped_stages_are_still_staged(task: tuple[LayerGraph, list[str]], data: st.DataObject) -> None:
    graph, targets = task
    cuts = data.draw(st.sets(st.integers(1, len(targets) - 1))) if len(targets) > 1 else set()
    ends = [*sorted(cuts), len(targets)]
    grouped = [end - start for start, end in pairwise([0, *ends])]
    plan = plan_layers(graph, targets, "staged", grouped=grouped)
    assert [len(stage.targets) for stage in plan.stages] == grouped
    assert sorted(name for stage in plan.stages for name in stage.runs) == sorted(needed(graph, targets))
    truth = run_all(graph)
    assert execute(graph, plan) == {name: truth[name] for name in targets}


@unhurried
@given(tasks())
def test_pre_materialised_starts_each_layer_from_the_lowest(task: tuple[LayerGraph, list[str]]) -> None:
    graph, (base, *above) = task
    plan = plan_layers(graph, [base, *above], "pre-materialised")
    assert plan.stages[0].source is None
    assert [stage.source for stage in plan.stages[1:]] == [0] * len(above)
    for target, stage in zip(above, plan.stages[1:], strict=True):
        assert set(stage.runs) == needed(graph, [target]) - needed(graph, [base]) - set(plan.stages[0].writes)
    assert plan.last_reader(0) == len(above)


def test_where_the_join_is() -> None:
    """Vista's figure 5: plans A and C join after inference, B, D and E before it."""
    first = {logical: plan_layers(alexnet(), ["fc6", "fc7"], logical).joins_first for logical in LOGICAL_PLANS}
    assert first == {
        "lazy": False,
        "lazy-reordered": True,
        "eager": False,
        "eager-reordered": True,
        "pre-materialised": False,
        "staged": True,
        "staged-before-join": False,
    }


@unhurried
@given(tasks())
def test_lazy_pays_for_each_target_alone(task: tuple[LayerGraph, list[str]]) -> None:
    graph, targets = task
    plan = plan_layers(graph, targets, "lazy")
    alone = [flops(graph, needed(graph, [name])) for name in targets]
    assert [stage.flops for stage in plan.stages] == alone
    assert plan.flops == plan.lazy_flops == sum(alone)
    assert all(set(stage.reads) <= set(graph.inputs) and not stage.writes for stage in plan.stages)


@unhurried
@given(tasks())
def test_eager_pays_for_the_union_at_once(task: tuple[LayerGraph, list[str]]) -> None:
    graph, targets = task
    (stage,) = plan_layers(graph, targets, "eager").stages
    assert set(stage.runs) == needed(graph, targets)
    assert len(stage.runs) == len(set(stage.runs))
    assert stage.flops == flops(graph, needed(graph, targets))
    assert stage.writes == ()


@unhurried
@given(tasks())
def test_the_plans_compare(task: tuple[LayerGraph, list[str]]) -> None:
    graph, targets = task
    staged, lazy, eager = (plan_layers(graph, targets, logical) for logical in ("staged", "lazy", "eager"))
    based = plan_layers(graph, targets, "pre-materialised")
    assert staged.flops == eager.flops <= based.flops <= lazy.flops
    assert staged.lazy_flops == eager.lazy_flops == lazy.flops
    assert lazy.speedup == 1.0
    assert staged.speedup * staged.flops == pytest.approx(lazy.flops)


@unhurried
@given(tasks(), st.sampled_from(LOGICAL_PLANS))
def test_bytes_are_those_of_the_tensors(task: tuple[LayerGraph, list[str]], logical: str) -> None:
    graph, targets = task
    for stage in plan_layers(graph, targets, logical).stages:
        assert stage.read_bytes == sum(graph[name].activation_bytes for name in stage.reads)
        assert stage.write_bytes == sum(graph[name].activation_bytes for name in stage.writes)


def test_alexnet_as_in_the_paper() -> None:
    """Vista's figure 5: from conv5 on, the fully-connected layers each continue from the one below."""
    graph = alexnet()
    plan = plan_layers(graph, ["conv5", "fc6", "fc7", "fc8"], "staged", model="AlexNet")
    assert [stage.reads for stage in plan.stages] == [("image",), ("conv5",), ("fc6",), ("fc7",)]
    assert [stage.writes for stage in plan.stages] == [("conv5",), ("fc6",), ("fc7",), ()]
    assert plan.stages[3].runs == ("fc8",)
    assert plan.stages[3].flops == 2 * 4096 * 1000
    assert plan.stages[0].write_bytes == 256 * 13 * 13 * 4
    assert 3.5 < plan.speedup < 4


def test_a_residual_connection_crosses_the_cut() -> None:
    graph = residual_block()
    inner, last = graph.names[1], graph.outputs[0]
    plan = plan_layers(graph, [inner, last], "staged")
    truth = run_all(graph)
    assert execute(graph, plan)[last] == truth[last]
    assert len(plan.stages[0].writes) == 2, "what the skip carries is kept too"


@pytest.mark.parametrize("logical", LOGICAL_PLANS)
def test_explain_says_what_is_done(logical: str) -> None:
    plan = plan_layers(alexnet(), ["conv5", "fc7"], logical, model="AlexNet")
    text = plan.explain()
    assert text.startswith(f"{logical} plan for AlexNet: ")
    assert len([line for line in text.splitlines() if line.lstrip()[:2] in {"1.", "2."}]) == len(plan.stages)
    assert ("keep conv5 for the next stage: 169 KiB" in text) == (plan.stages[-1].source == 0)
    assert ("before any inference" in text.splitlines()[1]) == plan.joins_first
    assert f"{plan.flops / 1e9:.3g} GFLOPs per record" in text.splitlines()[-1]
    assert f"({plan.speedup:.2f} times as many)" in text


def test_what_cannot_be_planned() -> None:
    graph = LayerGraph([Layer("x", "input", (), (1,)), Layer("fc7", "linear", ("x",), (1,))], ["fc7"])
    with pytest.raises(CerebroError, match=r"logical must be one of lazy, .*got 'stagd'; did you mean 'staged'"):
        plan_layers(graph, ["fc7"], "stagd")
    with pytest.raises(CerebroError, match="must name at least one"):
        plan_layers(graph, [], "lazy")
    for grouped in ([2], [1, 0], [1, 1]):
        with pytest.raises(CerebroError, match=r"grouped must be positive integers that add up to the 1 targets"):
            plan_layers(graph, ["fc7"], "staged", grouped=grouped)
    with pytest.raises(UnknownLayerError, match=r"no layer 'fc8'.*did you mean 'fc7'"):
        plan_layers(graph, ["fc8"], "eager")

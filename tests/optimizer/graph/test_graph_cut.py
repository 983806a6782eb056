from __future__ import annotations

import pytest
from dags import alexnet, dense_block, feed, graphs, residual_block, run, run_all, some, unhurried
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import GraphError
from optimizer.graph import Cut, Layer, LayerGraph, Part


def test_residual_block() -> None:
    graph = residual_block()
    tensor = 4 * 64 * 56 * 56
    assert graph.cut(["conv1"]) == Cut(
        at=("conv1",),
        below=("x", "conv1"),
        above=("relu1", "conv2", "sum", "relu2"),
        live=("x", "conv1"),
        live_bytes=2 * tensor,
    )
    assert graph.cut("sum").live == ("sum",)
    assert graph.cut("conv1", towards=["conv2"]).live == ("conv1",)
    assert graph.cut("conv1", towards=["conv2"]).above == ("relu1", "conv2")
    assert graph.cut("sum", towards=["conv1"]).live == ("conv1",)
    assert graph.cut("relu2").live == ("relu2",)


def test_dense_block() -> None:
    graph = dense_block()
    assert graph.cut("conv2").live == ("x", "conv1", "conv2")
    assert graph.cut("cat3").live == ("x", "conv1", "conv2", "cat3")
    assert graph.cut("conv2", towards="conv3").live_bytes == 4 * 28 * 28 * (64 + 32 + 32)


def test_alexnet_is_a_chain() -> None:
    graph = alexnet()
    for name in graph.names:
        assert graph.cut(name).live == (name,)
    cut = graph.cut(["fc6", "fc7"])
    assert cut.live == ("fc7",)
    assert cut.live_bytes == 4096 * 4
    assert graph.cut("fc6", towards=["fc6", "fc7", "fc8"]).live == ("fc6",)
    assert graph.part(["conv5"], ["fc6"]) == Part(("conv5",), ("fc6",), ("pool5", "flat", "fc6"), 2 * 9216 * 4096)


def test_layer_cut_at_that_leads_nowhere_is_not_live() -> None:
    x = Layer("x", "input")
    graph = LayerGraph([x, Layer("a", "fc", ("x",)), Layer("b", "fc", ("x",))], ["b"])
    assert graph.cut(["a"]).live == ("x",)


def test_input_that_the_cut_does_not_cover_is_above() -> None:
    graph = LayerGraph(
        [
            Layer("image", "input"),
            Layer("text", "input"),
            Layer("a", "cnn", ("image",)),
            Layer("b", "cat", ("a", "text")),
        ],
        ["b"],
    )
    cut = graph.cut(["a"])
    assert (cut.live, cut.above) == (("a",), ("text", "b"))
    with pytest.raises(GraphError, match="the graph input text is needed too"):
        graph.part(cut.live, ["b"])


def test_cut_that_is_none() -> None:
    graph = residual_block()
    with pytest.raises(GraphError, match="layers to cut at"):
        graph.cut([])
    with pytest.raises(GraphError, match="target layers"):
        graph.cut(["x"], towards=[])


def test_part_names_what_is_missing() -> None:
    graph = residual_block()
    with pytest.raises(GraphError, match="sum cannot be computed from conv1: the graph input x is needed too"):
        graph.part(["conv1"], ["sum"])
    with pytest.raises(GraphError, match="from nothing"):
        graph.part([], ["sum"])
    assert graph.part(["x", "conv1", "conv2"], ["sum", "x"]) == Part(("x", "conv2"), ("sum", "x"), ("sum",), 0)


@unhurried
@given(st.data())
def test_live_tensors_are_enough_and_none_is_spare(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    at, towards = data.draw(some(graph)), data.draw(st.none() | some(graph))
    cut = graph.cut(at, towards)
    targets = list(graph.outputs) if towards is None else towards
    whole = run_all(graph)
    fed = {name: whole[name] for name in cut.above if graph[name].op == "input"}
    to_run = [name for name in cut.above if name not in fed]

    def reached(live: list[str]) -> dict[str, int]:
        values = run(graph, fed | {name: whole[name] for name in live}, to_run)
        return {name: values[name] for name in targets}

    assert set(cut.live) <= set(cut.below)
    assert list(cut.live) == [name for name in graph.names if name in cut.live]
    assert cut.live_bytes == sum(graph[name].activation_bytes for name in cut.live)
    assert reached(list(cut.live)) == {name: whole[name] for name in targets}
    for spare in cut.live:
        with pytest.raises(KeyError):
            reached([name for name in cut.live if name != spare])
    part = graph.part([*cut.live, *fed], targets)
    assert set(part.layers) == set(to_run)
    assert set(part.inputs) == {*cut.live, *fed}


@unhurried
@given(st.data())
def test_part_is_the_least_that_computes_what_is_wanted(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    have, want = data.draw(st.just([]) | some(graph)), data.draw(some(graph))
    whole = run_all(graph)

    def computable(name: str) -> bool:
        layer = graph[name]
        return name in have or (layer.op != "input" and all(computable(source) for source in layer.inputs))

    if not all(computable(name) for name in want):
        with pytest.raises(GraphError, match="cannot be computed"):
            graph.part(have, want)
        return
    part = graph.part(have, want)
    assert part.flops == graph.flops(part.layers)
    assert part.outputs == tuple(want)
    assert set(part.inputs) <= set(have)

    def wanted(inputs: list[str], layers: list[str]) -> dict[str, int]:
        values = run(graph, {name: whole[name] for name in inputs}, layers)
        return {name: values[name] for name in want}

    assert wanted(list(part.inputs), list(part.layers)) == {name: whole[name] for name in want}
    for dropped in part.inputs:
        with pytest.raises(KeyError):
            wanted([name for name in part.inputs if name != dropped], list(part.layers))
    for dropped in part.layers:
        with pytest.raises(KeyError):
            wanted(list(part.inputs), [name for name in part.layers if name != dropped])


@unhurried
@given(st.data())
def test_a_chain_of_parts_equals_the_whole(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_layers=10))
    stages = data.draw(st.lists(some(graph), max_size=4))
    whole = run_all(graph)
    at: list[str] = []
    held = feed(graph)
    done: list[str] = []
    for stage in stages:
        at += stage
        cut = graph.cut(at)
        keep = [*cut.live, *(name for name in cut.above if graph[name].op == "input")]
        part = graph.part(held, keep)
        values = run(graph, {name: held[name] for name in part.inputs}, part.layers)
        held = {name: values[name] for name in keep}
        done += part.layers
    last = graph.part(held, graph.outputs)
    values = run(graph, {name: held[name] for name in last.inputs}, last.layers)
    assert {name: values[name] for name in graph.outputs} == {name: whole[name] for name in graph.outputs}
    done += last.layers
    # Each layer that the outputs need ran once, and no other ran at all.
    assert sorted(done) == sorted(graph.part(graph.inputs, graph.outputs).layers)


def test_the_network_above_a_layer_begins_with_it() -> None:
    whole = LayerGraph(
        [
            Layer("x", "input", output_shape=(4,)),
            Layer("a", "Linear", ("x",), (3,), flops=24, fingerprint="a"),
            Layer("b", "Linear", ("a",), (3,), flops=18, fingerprint="b"),
            Layer("sum", "add", ("a", "b"), (3,), flops=3),
        ],
        ["sum"],
    )
    above = whole.above(["a"])
    assert above.inputs == ("a",)
    assert above.names == ("a", "b", "sum")
    assert above["a"].output_shape == (3,)
    assert above.flops() == 21
    assert whole.above(["x"]) is whole
    # The sum also reads what lies beside b.
    with pytest.raises(GraphError, match="the graph input x is needed too"):
        whole.above(["b"])

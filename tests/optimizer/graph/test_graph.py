from __future__ import annotations

import dataclasses
import doctest
import importlib
import itertools
import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from dags import alexnet, dense_block, graphs, residual_block, run_all, some, unhurried
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import CerebroError, GraphError, UnknownLayerError
from optimizer.graph import Layer, LayerGraph, Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

X = Layer("x", "input", (), (4,))


def fc(name: str, *inputs: str, **fields: Any) -> Layer:
    return dataclasses.replace(Layer(name, "fc", inputs, (4,), fingerprint=f"of {name}"), **fields)


@pytest.mark.parametrize("module", ["_cut", "_expression", "_graph", "_layer", "_memory", "_multi_model_graph"])
def test_examples_in_docstrings_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"optimizer.graph.{module}")).failed == 0


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", 60),
        ("float16", 30),
        ("bfloat16", 30),
        ("float8_e4m3fn", 15),
        ("int64", 120),
        ("bool", 15),
        ("int4", 8),
    ],
)
def test_activation_bytes_default_to_elements_times_width(dtype: str, expected: int) -> None:
    assert Layer("a", "relu", ("x",), (3, 5), dtype).activation_bytes == expected
    assert Layer("a", "relu", ("x",), (3, 5), dtype, activation_bytes=0).activation_bytes == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"op": "input"},
        {"inputs": "x"},
        {"flops": -1},
        {"output_shape": (-1, 4)},
        {"activation_bytes": -1},
        {"dtype": "float"},
    ],
)
def test_layer_rejects(wrong: dict[str, Any]) -> None:
    with pytest.raises(GraphError):
        dataclasses.replace(fc("a", "x"), **wrong)


def test_window_rejects() -> None:
    with pytest.raises(GraphError, match="one entry per spatial axis"):
        Window((3, 3), (1,), (0, 0), (1, 1))
    with pytest.raises(GraphError, match="must be positive integers"):
        Window((3,), (0,), (0,), (1,))


def test_errors_name_the_culprits() -> None:
    with pytest.raises(GraphError, match=r"two layers are named 'a'"):
        LayerGraph([X, fc("a", "x"), fc("a", "x")], ["a"])
    with pytest.raises(GraphError, match="'b' reads 'fc6', which no layer yields; did you mean 'fc7'"):
        LayerGraph([X, fc("fc7", "x"), fc("b", "fc6")], ["b"])
    with pytest.raises(GraphError, match=r"unknown outputs fc8.*did you mean 'fc7'"):
        LayerGraph([X, fc("fc7", "x")], ["fc8"])
    with pytest.raises(GraphError, match="b -> c -> d -> b"):
        LayerGraph([X, fc("b", "x", "d"), fc("c", "b"), fc("d", "c"), fc("e", "d")], ["e"])
    with pytest.raises(GraphError, match="cycle: a -> a"):
        LayerGraph([fc("a", "a")], ["a"])
    for outputs in ([], ["x", "x"]):
        with pytest.raises(GraphError, match="outputs, each once"):
            LayerGraph([X], outputs)


@pytest.mark.parametrize(
    "ask",
    [
        lambda g: g["relu3"],
        lambda g: g.consumers("relu3"),
        lambda g: g.ancestors(["x", "relu3"]),
        lambda g: g.descendants("relu3"),
        lambda g: g.flops(["relu3"]),
        lambda g: g.param_bytes(["relu3"]),
        lambda g: g.subgraph(["relu3"]),
        lambda g: g.expression("relu3"),
        lambda g: g.cut(["relu3"]),
        lambda g: g.cut(["x"], towards=["relu3"]),
        lambda g: g.part(["relu3"], ["sum"]),
        lambda g: g.part(["x"], ["relu3"]),
    ],
)
def test_unknown_layer_offers_the_nearest(ask: Callable[[LayerGraph], object]) -> None:
    with pytest.raises(UnknownLayerError, match=r"no layer 'relu3'.*did you mean 'relu[12]'") as caught:
        ask(residual_block())
    assert isinstance(caught.value, CerebroError)


def test_mapping_like() -> None:
    graph = residual_block()
    assert len(graph) == 6
    assert "conv1" in graph
    assert "conv9" not in graph
    assert [layer.name for layer in graph] == list(graph.names)
    assert tuple(graph) == graph.layers
    assert graph["conv1"].op == "conv2d"
    assert (graph.inputs, graph.outputs) == (("x",), ("relu2",))
    assert graph.consumers("x") == ("conv1", "sum")
    assert graph.consumers("relu2") == ()
    assert graph.ancestors("relu1") == ("x", "conv1", "relu1")
    assert graph.descendants(["conv2"]) == ("conv2", "sum", "relu2")
    assert graph.flops(["conv1", "conv1"]) == graph.flops("conv1") == 231_211_008
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.outputs = ()  # type: ignore[misc]


def test_equality_hash_and_pickle() -> None:
    graph = residual_block()
    assert graph.expression("sum")
    assert pickle.loads(pickle.dumps(graph)) == graph == residual_block() != dense_block()
    assert len({graph, residual_block()}) == 1


def test_alexnet_totals() -> None:
    graph = alexnet()
    # torchvision's count: 714 188 480 multiply-adds without biases, 61 100 840 parameters.
    assert graph.flops() == 2 * 714_188_480
    assert graph.param_bytes() == 4 * 61_100_840
    table = graph.explain()
    assert len(table.splitlines()) == len(graph) + 5
    assert "1.4 G" in table
    assert "trainable" not in table
    assert "* trainable" in LayerGraph([X, fc("a", "x", frozen=False)], ["a"]).explain()


@unhurried
@given(graphs(), st.randoms(use_true_random=False))
def test_order_is_topological_and_stable(graph: LayerGraph, random: Random) -> None:
    assert LayerGraph(graph.layers, graph.outputs).layers == graph.layers
    layers = list(graph.layers)
    random.shuffle(layers)
    shuffled = LayerGraph(layers, graph.outputs)
    assert set(shuffled.layers) == set(layers)
    for layer in shuffled:
        assert all(shuffled.names.index(source) < shuffled.names.index(layer.name) for source in layer.inputs)
    given_order = {layer.name: i for i, layer in enumerate(layers)}
    for first, second in itertools.pairwise(shuffled):
        # Two neighbours swap against the given order only where the data demands it.
        assert given_order[first.name] < given_order[second.name] or first.name in second.inputs
    assert run_all(shuffled) == run_all(graph)


@unhurried
@given(graphs())
def test_json_round_trip(graph: LayerGraph) -> None:
    assert LayerGraph.from_dict(json.loads(json.dumps(graph.to_dict()))) == graph


def test_json_keeps_windows_and_rejects_what_is_no_graph() -> None:
    graph = alexnet()
    assert LayerGraph.from_dict(json.loads(json.dumps(graph.to_dict()))) == graph
    with pytest.raises(GraphError, match="'layers' and 'outputs'"):
        LayerGraph.from_dict({"layers": []})
    with pytest.raises(GraphError, match="must describe a layer"):
        LayerGraph.from_dict({"layers": [{"name": "x"}], "outputs": ["x"]})


@unhurried
@given(st.data())
def test_closures_against_reachability(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    names = data.draw(some(graph))

    def reaches(start: str, end: str) -> bool:
        return start == end or any(reaches(start, source) for source in graph[end].inputs)

    assert graph.ancestors(names) == tuple(n for n in graph.names if any(reaches(n, m) for m in names))
    assert graph.descendants(names) == tuple(n for n in graph.names if any(reaches(m, n) for m in names))
    for name in graph.names:
        assert graph.consumers(name) == tuple(layer.name for layer in graph if name in layer.inputs)
    assert graph.flops(names) == sum(graph[name].flops for name in names)
    pruned = graph.subgraph(names)
    assert pruned.names == graph.ancestors(names)
    assert pruned.outputs == tuple(names)
    values = run_all(graph)
    assert run_all(pruned) == {name: values[name] for name in pruned.names}
    assert all(pruned.expression(name) == graph.expression(name) for name in pruned.names)


@unhurried
@given(graphs(), graphs())
def test_expressions_are_equal_exactly_if_the_structures_are(a: LayerGraph, b: LayerGraph) -> None:
    known: dict[object, int] = {}

    def structures(graph: LayerGraph) -> dict[str, int]:
        alike = [(layer.output_shape, layer.dtype) for layer in graph if layer.op == "input"]
        found: dict[str, int] = {}
        for layer in graph:
            twin = layer.op == "input" and alike.count((layer.output_shape, layer.dtype)) > 1
            sources = tuple(found[source] for source in layer.inputs)
            label = (layer.op, layer.fingerprint, layer.output_shape, layer.dtype, layer.name if twin else "", sources)
            found[layer.name] = known.setdefault(label, len(known))
        return found

    in_a, in_b = structures(a), structures(b)
    every = [(a.expression(n), in_a[n]) for n in a.names] + [(b.expression(n), in_b[n]) for n in b.names]
    for (expression, structure), (other_expression, other_structure) in itertools.combinations(every, 2):
        assert (expression == other_expression) == (structure == other_structure)


def test_expression_covers_what_the_value_depends_on() -> None:
    def tail(x: Layer = X, **fields: Any) -> str:
        return LayerGraph([x, fc("a", "x", **fields), fc("b", "a", "x")], ["b"]).expression("b")

    same = [tail(), tail(flops=9, param_bytes=9, activation_bytes=9, frozen=False)]
    renamed = LayerGraph([Layer("y", "input", (), (4,)), fc("c", "y", fingerprint="of a"), fc("b", "c", "y")], ["b"])
    assert {*same, renamed.expression("b")} == {tail()}
    swapped = LayerGraph([X, fc("a", "x"), fc("b", "x", "a")], ["b"]).expression("b")
    one = Window((1,), (1,), (0,), (1,))
    different = [
        tail(),
        swapped,
        tail(op="conv"),
        tail(fingerprint="other weights"),
        tail(dtype="float16"),
        tail(output_shape=(5,)),
        tail(window=one),
        tail(window=dataclasses.replace(one, padding=(1,))),
        tail(dataclasses.replace(X, output_shape=(5,))),
        tail(dataclasses.replace(X, dtype="uint8")),
    ]
    assert len(set(different)) == len(different)


def test_twin_inputs_are_told_apart() -> None:
    towers = [X, Layer("y", "input", (), (4,)), fc("a", "x", fingerprint="w"), fc("b", "y", fingerprint="w")]
    twins = LayerGraph([*towers, fc("distance", "a", "b")], ["distance"])
    assert twins.expression("a") != twins.expression("b")
    assert twins.subgraph("b").expression("b") == twins.expression("b")


def test_expression_is_the_same_in_every_process() -> None:
    code = "from optimizer.graph import *; print(LayerGraph([Layer('x', 'input', (), (4,))], ['x']).expression('x'))"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == LayerGraph([X], ["x"]).expression("x")

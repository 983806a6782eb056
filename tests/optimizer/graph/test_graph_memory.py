from __future__ import annotations

import itertools

import pytest
from dags import alexnet, dense_block, graphs, residual_block, some, unhurried
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import GraphError
from optimizer.graph import Layer, LayerGraph, peak_live_bytes


def test_chain_holds_two_neighbours() -> None:
    graph = alexnet()
    sizes = [layer.activation_bytes for layer in graph]
    assert peak_live_bytes(graph) == max(a + b for a, b in itertools.pairwise(sizes))
    assert peak_live_bytes(graph, have=["flat"]) == 4 * (9216 + 4096)


def test_residual_block_holds_the_skip() -> None:
    graph = residual_block()
    tensor = 4 * 64 * 56 * 56
    assert peak_live_bytes(graph) == 3 * tensor
    assert peak_live_bytes(graph, have=["sum"]) == 2 * tensor
    assert peak_live_bytes(graph, want=["x"]) == tensor


def test_dense_block_holds_all_features() -> None:
    # Every feature and their concatenation, which is as large as they are together.
    assert peak_live_bytes(dense_block()) == 4 * 28 * 28 * 2 * (64 + 3 * 32)


def test_repeated_argument_is_one_tensor() -> None:
    x, y = Layer("x", "input", (), (8,)), Layer("y", "add", ("x", "x"), (8,))
    assert peak_live_bytes(LayerGraph([x, y], ["y"])) == 64


def test_layers_run_in_the_order_of_the_graph() -> None:
    x = Layer("x", "input", (), (1,))
    wide = [Layer(f"wide{i}", "fc", ("x",), (100,)) for i in (1, 2)]
    slim = [Layer(f"slim{i}", "fc", (f"wide{i}",), (1,)) for i in (1, 2)]
    graph = LayerGraph([x, *wide, *slim, Layer("sum", "add", ("slim1", "slim2"), (1,))], ["sum"])
    assert peak_live_bytes(graph) == 4 * (100 + 100 + 1)
    with pytest.raises(GraphError, match="graph input x"):
        peak_live_bytes(graph, have=["slim1"])


@unhurried
@given(st.data())
def test_against_lifetimes(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_layers=10))
    have = [*graph.inputs, *data.draw(some(graph))]
    want = data.draw(some(graph))
    part = graph.part(have, want)
    steps = part.layers
    # A tensor lives from the step that makes it to the last step that reads it; step 0 has what was given.
    made = dict.fromkeys(part.inputs, 0) | {name: i for i, name in enumerate(steps, start=1)}
    last = {name: max([i for i, s in enumerate(steps, start=1) if name in graph[s].inputs], default=0) for name in made}
    end = len(steps)
    peak = max(
        sum(graph[n].activation_bytes for n in made if made[n] <= now and (n in want or now <= last[n]))
        for now in range(end + 1)
    )
    assert peak_live_bytes(graph, have, want) == peak


def test_what_a_composite_layer_makes_inside_is_live_while_it_runs() -> None:
    layers = [Layer("x", "input", (), (1,)), Layer("block", "block", ("x",), (2,), inner_bytes=80)]
    graph = LayerGraph([*layers, Layer("top", "fc", ("block",), (30,))], ["top"])
    assert peak_live_bytes(graph) == max(4 + 80, 8 + 120)
    assert peak_live_bytes(graph, want=["block"]) == 4 + 80

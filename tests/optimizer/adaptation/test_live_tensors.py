"""Live tensors of a training step: the paper's claim, proven of one pass and refuted of the whole."""

from __future__ import annotations

import pytest
from dags import graphs, unhurried
from hypothesis import assume, given

from optimizer.adaptation import live_tensors, passes
from optimizer.graph import Layer, LayerGraph


@unhurried
@given(graphs(max_layers=7))
def test_backward_is_at_most_one_more_than_at_the_loss(graph: LayerGraph) -> None:
    """The backward pass has the tensors at the loss and the processed one."""
    graph = graph.subgraph(graph.outputs)
    assume(graph.inputs)
    learning = [name for name, count in passes(graph).items() if count > 1]
    assume(learning)
    live = live_tensors(graph)
    assert live.backward <= live.at_loss + max(graph[name].inner_bytes for name in learning)


def test_the_whole_step_can_be_many_more() -> None:
    wide = [Layer(f"f{i}", "fc", ("x",), (2,)) for i in range(10)]
    total = Layer("sum", "add", tuple(layer.name for layer in wide), (2,))
    top = Layer("y", "fc", ("sum",), (2,), frozen=False)
    live = live_tensors(LayerGraph([Layer("x", "input", (), (2,)), *wide, total, top], ["y"]))
    assert (live.forward, live.at_loss, live.backward) == (11 * 8, 2 * 8, 3 * 8)


def test_figure_5_releases_what_no_later_node_reads() -> None:
    """Two branches over l3: l1 and l2 are gone when the loss is processed, l3 waits for the backward pass."""
    layers = [
        Layer("l1", "input", (), (100,)),
        Layer("l2", "fc", ("l1",), (10,)),
        Layer("l3", "fc", ("l2",), (4,)),
        *(Layer(f"a{i}", "fc", ("l3",), (1,), frozen=False) for i in range(2)),
        *(Layer(f"b{i}", "fc", (f"a{i}",), (2,), frozen=False) for i in range(2)),
    ]
    live = live_tensors(LayerGraph(layers, ["b0", "b1"]))
    assert live.at_loss == 4 * (4 + 2 * (1 + 2))
    assert live.backward == live.at_loss + 4 * 2
    assert live.forward == 4 * (100 + 10)


def test_a_composite_layer_keeps_what_is_inside_only_for_a_gradient() -> None:
    def net(*, frozen: bool) -> LayerGraph:
        block = Layer("block", "block", ("x",), (2,), inner_bytes=80, frozen=frozen)
        return LayerGraph([Layer("x", "input", (), (1,)), block, Layer("y", "fc", ("block",), frozen=False)], ["y"])

    trained, frozen = live_tensors(net(frozen=False)), live_tensors(net(frozen=True))
    assert (frozen.forward, frozen.at_loss) == (4 + 80, 8 + 4)
    assert trained.at_loss == 4 + 80 + 4
    # The gradient of the block is as large; y, and y's gradient once the block has its own.
    assert trained.backward == 4 + 80 + 4 + 80


@pytest.mark.parametrize("held", [False, True], ids=["counted", "held elsewhere"])
def test_tensors_at_hand(held: bool) -> None:
    layers = [Layer("x", "input", (), (1,)), Layer("f", "fc", ("x",), (9,)), Layer("y", "fc", ("f",), frozen=False)]
    live = live_tensors(LayerGraph(layers, ["y"]), ["f"], held_elsewhere=held)
    assert live.at_loss == 4 + (0 if held else 36)


def test_an_output_without_gradient_waits_for_the_loss() -> None:
    layers = [Layer("x", "input", (), (1,)), Layer("f", "fc", ("x",), (9,)), Layer("y", "fc", ("x",), frozen=False)]
    assert live_tensors(LayerGraph(layers, ["f", "y"])).at_loss == 4 + 36 + 4

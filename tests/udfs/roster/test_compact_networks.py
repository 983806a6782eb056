"""Compact networks against operations computed by hand from table B.1 of the thesis."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import framework
from vista_spark import roster

# 10^9 operations, two for each multiply-accumulate, and classes. Table 5.1 prints .82, .43, .55, .43, .60 and .13. O1
# and F1 agree; O2 and S2 agree if poolings round their sizes down; S1 and F2 do not follow from table B.1.
FIGURES = {
    "compact_o1": (0.816, 1000),
    "compact_o2": (0.488, 1000),
    "compact_s1": (0.774, 205),
    "compact_s2": (0.484, 205),
    "compact_f1": (0.609, 2622),
    "compact_f2": (0.091, 2622),
}


@pytest.mark.parametrize("name", FIGURES)
def test_operations_parameters_and_layers(name: str) -> None:
    card = roster.card(name)
    network = card.skeleton()
    assert sum(parameter.numel() for parameter in network.parameters()) == card.parameters
    assert card.resolve(len(card.layers)) == card.layers
    graph = framework("torch").trace(network, card.preprocessing.inputs).graph
    gflop, classes = FIGURES[name]
    assert sum(layer.flops for layer in graph.layers) / 1e9 == pytest.approx(gflop, abs=5e-4)
    assert graph[graph.outputs[0]].output_shape == (classes,)
    assert [type(network.get_submodule(layer.module)).__name__ for layer in card.layers[:-1]] == ["ReLU"] * (
        len(card.layers) - 1
    )

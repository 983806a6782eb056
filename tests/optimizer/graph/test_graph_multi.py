from __future__ import annotations

import dataclasses

import pytest
from dags import alexnet, graphs, residual_block, run, run_all, unhurried
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import GraphError, UnknownLayerError
from optimizer.graph import Layer, LayerGraph, materialisable, merge

MODELS = st.dictionaries(st.sampled_from(["a", "b", "c/l1"]), graphs(max_layers=6), min_size=1)


def adapted(unfrozen: str, head: str) -> LayerGraph:
    """AlexNet, trainable from one layer on, with a head of its own."""
    graph = alexnet()
    trainable = set(graph.descendants(unfrozen))
    layers = [dataclasses.replace(layer, frozen=layer.name not in trainable) for layer in graph.layers[:-1]]
    return LayerGraph([*layers, dataclasses.replace(graph["fc8"], fingerprint=head, frozen=False)], ["fc8"])


def test_materialisable_stops_at_the_first_trainable_ancestor() -> None:
    graph = adapted("fc6", "h")
    assert materialisable(graph) == graph.ancestors("flat")
    layers = [dataclasses.replace(layer, frozen=layer.name != "conv1") for layer in residual_block()]
    assert materialisable(LayerGraph(layers, ["relu2"])) == ("x",)
    assert materialisable(residual_block()) == residual_block().names
    assert materialisable(LayerGraph([Layer("x", "input", frozen=False)], ["x"])) == ("x",)


@unhurried
@given(graphs())
def test_materialisable_against_the_definition(graph: LayerGraph) -> None:
    frozen = {layer.name for layer in graph if layer.frozen or layer.op == "input"}
    assert materialisable(graph) == tuple(name for name in graph.names if set(graph.ancestors(name)) <= frozen)


def test_merge_shares_the_frozen_trunk_only() -> None:
    models = {"shallow": adapted("fc6", "h"), "deep": adapted("conv5", "h"), "again": adapted("fc6", "h")}
    both = merge(models)
    assert both.users("conv4") == ("shallow", "deep", "again")
    assert both.names["deep"]["conv5"] == "deep/conv5"
    assert both.names["again"] == {
        name: name if name in models["again"].ancestors("flat") else f"again/{name}" for name in models["again"].names
    }
    assert both.graph.outputs == ("fc8", "deep/fc8", "again/fc8")
    assert both.users("again/fc8") == ("again",)
    everything = merge(models, share_trainable=True)
    assert everything.graph.names == alexnet().names
    assert not everything.graph["conv5"].frozen
    assert everything.graph["conv4"].frozen
    with pytest.raises(UnknownLayerError):
        both.users("fc9")
    with pytest.raises(GraphError, match="graphs must have"):
        merge({})


def test_merge_invents_no_name_twice() -> None:
    def model(name: str, value: str) -> LayerGraph:
        return LayerGraph([Layer("x", "input"), Layer(name, "fc", ("x",), fingerprint=value)], [name])

    both = merge({"a": model("b/fc", "1"), "c": model("fc", "2"), "b": model("fc", "3")})
    assert both.graph.names == ("x", "b/fc", "fc", "b/fc'")


def test_merge_keeps_twin_inputs_apart() -> None:
    twins = LayerGraph([Layer("l", "input"), Layer("r", "input"), Layer("d", "sub", ("l", "r"))], ["d"])
    single = LayerGraph([Layer("x", "input"), Layer("d", "sub", ("x", "x"))], ["d"])
    both = merge({"single": single, "twins": twins, "again": twins})
    assert both.graph.inputs == ("x", "l", "r")
    assert both.names["again"] == both.names["twins"]


@unhurried
@given(MODELS, st.booleans())
def test_merge_preserves_evaluation(models: dict[str, LayerGraph], everything: bool) -> None:
    merged = merge(models, share_trainable=everything)
    together = run_all(merged.graph)
    for model, graph in models.items():
        names = merged.names[model]
        assert set(names) == set(graph.names)
        alone = run(
            graph,
            {name: together[names[name]] for name in graph.inputs},
            [name for name in graph.names if name not in graph.inputs],
        )
        assert alone == {name: together[names[name]] for name in graph.names}
        for name in graph.names:
            assert merged.graph.expression(names[name]) == graph.expression(name)
            assert model in merged.users(names[name])
            assert names[name] in merged.graph
        assert {names[output] for output in graph.outputs} <= set(merged.graph.outputs)


@unhurried
@given(MODELS)
def test_merge_appears_once_and_never_shares_what_trains(models: dict[str, LayerGraph]) -> None:
    merged = merge(models)
    fixed = set(materialisable(merged.graph))
    for model, graph in models.items():
        assert {merged.names[model][name] for name in materialisable(graph)} == fixed & set(
            merged.names[model].values()
        )
    assert len({merged.graph.expression(name) for name in fixed}) == len(fixed)
    for name in set(merged.graph.names) - fixed:
        assert sum(list(names.values()).count(name) for names in merged.names.values()) == 1
    shared = merge(models, share_trainable=True).graph
    assert len({shared.expression(name) for name in shared.names}) == len(shared)

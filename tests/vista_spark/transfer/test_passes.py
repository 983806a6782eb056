"""The layers of one pass share its seconds and FLOPs."""

from __future__ import annotations

import pytest

from optimizer.graph import Layer, LayerGraph
from optimizer.transfer import plan_layers
from vista_spark.transfer._shares import flops_by_target


@pytest.fixture
def branching() -> LayerGraph:
    """Two branches over one stem: ``right`` needs nothing of ``left``."""
    return LayerGraph(
        [
            Layer("image", "input", output_shape=(4,)),
            Layer("stem", "Linear", ("image",), (4,), flops=10),
            Layer("left", "Linear", ("stem",), (4,), flops=3),
            Layer("right", "Linear", ("stem",), (4,), flops=5),
            Layer("top", "Add", ("left", "right"), (4,), flops=1),
        ],
        ["top"],
    )


def test_each_layer_gets_what_it_needs_beyond_those_before_it(branching: LayerGraph) -> None:
    (stage,) = plan_layers(branching, ["left", "right", "top"], "eager").stages
    assert flops_by_target(branching, stage) == {"left": 13, "right": 5, "top": 1}


@pytest.mark.parametrize("logical", ["lazy", "eager", "staged", "pre-materialised"])
def test_the_shares_are_the_whole_pass(branching: LayerGraph, logical: str) -> None:
    for stage in plan_layers(branching, ["left", "right", "top"], logical).stages:  # type: ignore[arg-type]
        shares = flops_by_target(branching, stage)
        assert list(shares) == list(stage.targets)
        assert sum(shares.values()) == stage.flops

"""Which configurations compute the layers to store."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cerebro_spark.adaptation._candidates import OpenedCandidate
from cerebro_spark.adaptation._workload import Workload
from optimizer.graph import Layer, LayerGraph


def opened(*blocks: str) -> OpenedCandidate:
    """A chain of frozen layers under a head that learns."""
    names = ("x", *blocks)
    layers = [Layer("x", "input", (), (4,), fingerprint="column x")]
    layers += [Layer(name, "fc", (below,), (4,), flops=8, fingerprint=name) for below, name in pairwise(names)]
    head = Layer("head", "fc", (names[-1],), (2,), flops=8, param_bytes=40, frozen=False)
    return OpenedCandidate({"blocks": len(blocks)}, LayerGraph([*layers, head], ["head"]), 16, 1, 2, "")


def test_a_configuration_that_has_all_layers_is_opened_alone() -> None:
    workload = Workload(tuple((each, 1) for each in (opened("a"), opened("a", "b"), opened("a", "b", "c"))))
    one, three = (opened(*blocks).feeds[0] for blocks in ("a", "abc"))
    assert workload.params_with([one, three]) == {one: {"blocks": 3}, three: {"blocks": 3}}


def test_layers_of_several_trunks_take_several_configurations() -> None:
    workload = Workload(tuple((each, 1) for each in (opened("a"), opened("b", "c"))))
    wants = [opened("a").feeds[0], opened("b").feeds[0], opened("b", "c").feeds[0]]
    assert list(workload.params_with(wants).items()) == [
        (wants[1], {"blocks": 2}),
        (wants[2], {"blocks": 2}),
        (wants[0], {"blocks": 1}),
    ]
    assert workload.params_with([]) == {}


def test_a_layer_that_none_has_is_an_error() -> None:
    with pytest.raises(KeyError):
        Workload(((opened("a"), 1),)).params_with([opened("z").feeds[0]])

from __future__ import annotations

import numpy as np
import pytest
import torch
from trunks import OpenedTrunk, open_trunk

from optimizer.errors import GraphError, InvalidArgumentError
from udfs.adaptation import Trunk, frozen_layers
from udfs.handlers import TensorSpec

ROWS = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)


def test_models_that_share_a_trunk_run_each_layer_once() -> None:
    """The layer that both need is neither at hand nor wanted."""
    shallow, deep, other = open_trunk({"depth": 1}), open_trunk({"depth": 3}), open_trunk({"depth": 2, "seed": 5})
    x, *_, shallow_top, _ = shallow.expressions()
    deep_top, other_top = deep.expressions()[-2], other.expressions()[-2]
    trunk = Trunk([deep, shallow, other], [x], [other_top, shallow_top, deep_top, x])
    assert trunk.loads == (x,)
    found = trunk({x: ROWS})
    assert list(found) == [other_top, shallow_top, deep_top, x]
    runs = deep.runs + shallow.runs + other.runs
    assert sum(runs.values()) == 6
    assert trunk.flops == deep.graph.flops(deep.graph.names[1:-1])
    for model, top in ((deep, deep_top), (shallow, shallow_top), (other, other_top)):
        alone = Trunk([model], [x], [top])({x: ROWS})
        np.testing.assert_array_equal(found[top], alone[top])
        expected = model.model[:-1](torch.from_numpy(ROWS)).detach().numpy()
        np.testing.assert_array_equal(found[top], expected)


class Fork(torch.nn.Module):
    """Two towers over one stem; which of them the head reads differs."""

    def __init__(self, tower: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.left, self.right = (torch.nn.Linear(6, 6) for _ in range(3))
        self.requires_grad_(False)
        self.head, self.tower = torch.nn.Linear(6, 2), tower

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stem = torch.relu(self.stem(x))
        return self.head(getattr(self, self.tower)(stem) + x)


def test_towers_of_two_models_over_one_stem() -> None:
    left, right = (OpenedTrunk(Fork(tower), [TensorSpec((6,))]) for tower in ("left", "right"))
    x = left.expressions()[0]
    tops = [model.expressions()[-2] for model in (left, right)]
    assert tops[0] != tops[1]
    trunk = Trunk([left, right], [x], tops)
    found = trunk({x: ROWS})
    assert right.runs.keys().isdisjoint({"stem", "relu"})
    assert sum((left.runs + right.runs).values()) == 2 + 2 + 2
    for model, top in zip((left, right), tops, strict=True):
        np.testing.assert_array_equal(found[top], Trunk([model], [x], [top])({x: ROWS})[top])


def test_the_nearest_of_what_is_at_hand_is_read() -> None:
    model = open_trunk({})
    keys = model.expressions()
    trunk = Trunk([model], [keys[0], keys[2], keys[4]], [keys[6]])
    assert trunk.loads == (keys[4],)
    assert Trunk([model], keys, [keys[6]]).loads == (keys[6],)
    assert Trunk([model], keys, [keys[6]])({keys[6]: ROWS}) == {keys[6]: ROWS}
    with pytest.raises(GraphError):
        Trunk([model], [], [keys[6]])


def test_what_no_model_has_or_what_learns() -> None:
    model = open_trunk({})
    x, *_, head = model.expressions()
    assert head not in frozen_layers(model)
    for key in (head, "0" * 64):
        with pytest.raises(InvalidArgumentError, match="a model must have the frozen layer"):
            Trunk([model], [x], [key])

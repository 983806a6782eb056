"""Blocks with the channels last between permutations, as ConvNeXt's: run in parts with the channels second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.nn import functional

from optimizer.occlusion import OcclusionGrid
from udfs.handlers import TensorSpec, framework
from udfs.incremental import IncrementalNetwork

SIDE = 24
GRID = OcclusionGrid((SIDE, SIDE), (4, 4), (5, 5))


class Block(nn.Module):
    """A block of ConvNeXt; ``modules`` has its layers as modules, else they are functions."""

    def __init__(self, channels: int, *, modules: bool) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm, self.up = nn.LayerNorm(channels), nn.Linear(channels, 2 * channels)
        self.down, self.scale = nn.Linear(2 * channels, channels, bias=False), nn.Parameter(torch.rand(channels))
        self.modules_called = modules
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(x)
        if self.modules_called:
            y = self.down(functional.gelu(self.up(self.norm(y.permute(0, 2, 3, 1))))) * self.scale
            return x + y.permute(0, 3, 1, 2)
        y = torch.permute(y, (0, 2, 3, 1))
        y = functional.layer_norm(y, self.norm.normalized_shape, self.norm.weight, self.norm.bias, 1e-6)
        y = functional.linear(functional.linear(y, self.up.weight, self.up.bias).relu(), self.down.weight)
        return x + (self.scale * y).permute((0, -1, 1, 2)) - 1


def network(*, modules: bool) -> nn.Module:
    torch.manual_seed(0)
    parts = [nn.Conv2d(3, 6, 2, 2), Block(6, modules=modules), Block(6, modules=modules)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)).eval()


def places(results: Any, layer: str) -> np.ndarray:
    values = np.full((*GRID.shape, 3), np.nan)
    for index, outputs in results:
        values[tuple(index.T)] = outputs[layer].numpy()
    return values


@pytest.mark.parametrize("modules", [True, False])
def test_blocks_with_the_channels_last_run_in_parts(modules: bool) -> None:
    net = network(modules=modules)
    model = framework("torch").trace(net, [TensorSpec((3, SIDE, SIDE))]).prepare(1)
    fused = IncrementalNetwork(model, GRID)
    assert len(fused.patches.whole) <= 2, fused.patches.explain()
    assert fused.patches.overall_speedup > 2
    image, fill = torch.randn(1, 3, SIDE, SIDE), torch.zeros(3)
    (layer,) = fused.patches.graph.outputs
    found = places(fused.outputs(fused.materialise(image), fill, batch_size=8), layer)
    for place in np.ndindex(*GRID.shape):
        occluded = image.clone()
        row, column = (int(GRID.starts(axis)[at]) for axis, at in enumerate(place))
        occluded[:, :, row : row + 4, column : column + 4] = 0
        with torch.no_grad():
            np.testing.assert_allclose(found[place], net(occluded)[0].numpy(), rtol=1e-4, atol=1e-5)


def test_what_reads_the_channels_last_stays() -> None:
    class Activation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            last = self.low(x).permute(0, 2, 3, 1)
            return self.fc(last).permute(0, 3, 1, 2) + last.mean((1, 2))[:, :2, None, None]

    torch.manual_seed(0)
    net = Activation().eval()
    model = framework("torch").trace(net, [TensorSpec((3, 8, 8))])
    fused = model.fused()
    image = torch.randn(2, 3, 8, 8)
    (layer,) = fused.graph.outputs
    found = fused.tensors({fused.graph.inputs[0]: image}, [layer])[layer]
    np.testing.assert_allclose(found.numpy(), net(image).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert any(layer.op == "permute" for layer in fused.graph)


# A small network of each kind, and the least theoretical speed-up; a gate over all places ends the incremental part.
_PRETRAINED = {
    "resnet": ("ResNet", {"layer_type": "basic", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 2]}, 2.5),
    "regnet": ("RegNet", {"layer_type": "x", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 2],
                          "groups_width": 8}, 2.5),
    "convnext": ("ConvNext", {"hidden_sizes": [8, 16], "depths": [2, 2], "num_stages": 2}, 1.7),
    "mobilenet_v1": ("MobileNetV1", {"depth_multiplier": 0.25}, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "regnet" else pytest.mark.extended)
                                  for name in _PRETRAINED])  # fmt: skip
def test_networks_of_transformers_gain_as_the_rosters_do(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    kind, settings, least = _PRETRAINED[name]
    config = getattr(transformers, f"{kind}Config")(**settings)
    net = getattr(transformers, f"{kind}ForImageClassification")(config).eval()
    model = framework("torch").trace(net, [TensorSpec((3, 128, 128))])
    patches = IncrementalNetwork(model, OcclusionGrid((128, 128), (16, 16), (8, 8))).patches
    assert patches.overall_speedup >= least, patches.explain()

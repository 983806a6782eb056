"""Networks without unused channels: the other channels keep their values, and the filters are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from udfs.compiling.network import narrow

if TYPE_CHECKING:
    from collections.abc import Callable

CHANNELS = [0, 3, 5]


class Residual(nn.Module):
    """A sum of a convolution and what it reads, beside it a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.norm, self.side = nn.BatchNorm2d(6), nn.Conv2d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        own = torch.relu(self.first(x))
        return torch.cat([self.norm(self.second(own)) + own, self.side(x)], 1)


def chain() -> nn.Module:
    layers = nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, groups=8), nn.Hardswish()
    return nn.Sequential(*layers, nn.Conv2d(8, 7, 1, bias=False), nn.BatchNorm2d(7), nn.SiLU(), nn.MaxPool2d(2))


def flat() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 9), nn.Tanh())


def grouped() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 8, 3, groups=2), nn.ReLU())


class Inverted(nn.Module):
    """A block of MobileNetV2 beneath a convolution: a wide depthwise middle, and what it reads added at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.wide = nn.Conv2d(3, 6, 3, stride=2), nn.Conv2d(6, 24, 1, bias=False)
        self.norm, self.depthwise = nn.BatchNorm2d(24), nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.project, self.head = nn.Conv2d(24, 6, 1), nn.Conv2d(6, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        wide = nn.functional.relu6(self.norm(self.wide(x)))
        return nn.functional.relu6(self.head(x + self.project(self.depthwise(wide))))


@pytest.mark.parametrize("network", [chain, Residual, flat, grouped, Inverted])
def test_channels_that_are_kept_have_the_numbers_that_they_had(network: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    whole = torch.fx.symbolic_trace(network().eval())
    for part in whole.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean)
            nn.init.uniform_(part.weight)
    x = torch.randn(2, 3, 32, 32)
    before = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
    slim = narrow(whole, CHANNELS)
    with torch.inference_mode():
        torch.testing.assert_close(slim(x), whole(x)[:, CHANNELS], rtol=1e-5, atol=1e-6)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(before[name], tensor), name


@pytest.mark.parametrize("network", [chain, flat, Inverted])
def test_filters_of_other_channels_are_gone(network: Callable[[], nn.Module]) -> None:
    whole = torch.fx.symbolic_trace(network().eval())
    slim = narrow(whole, CHANNELS)
    assert sum(w.numel() for w in slim.parameters()) < sum(w.numel() for w in whole.parameters())

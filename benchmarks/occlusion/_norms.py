"""ResNet18 with layers that read a whole tensor everywhere: squeeze-excite, group norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["NETWORKS", "Variant"]

_GROUPS = 32
_SQUEEZE = 16


@dataclass(frozen=True)
class Variant:
    """Modification of a network of the roster.

    Attributes
    ----------
    base : str
        The roster's.
    build : callable
        Changes the network in place and returns it, in evaluation mode.
    """

    base: str
    build: Callable[[nn.Module], nn.Module]


class SqueezeExcite(nn.Module):
    """Gates each channel by a summary of all places (Hu et al., Squeeze-and-excitation networks, 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.squeeze = nn.Conv2d(channels, channels // _SQUEEZE, 1)
        self.excite = nn.Conv2d(channels // _SQUEEZE, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(N, channels, H, W)`` to the same shape."""
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(self.pool(x)))))
        gated: torch.Tensor = x * gate
        return gated


def _group_norms(network: nn.Module) -> nn.Module:
    """Put a group norm in the place of each batch norm."""
    for module in list(network.modules()):
        for name, inner in module.named_children():
            if isinstance(inner, nn.BatchNorm2d):
                setattr(module, name, nn.GroupNorm(_GROUPS, inner.num_features))
    return network.eval()


def _squeeze_excite(network: nn.Module) -> nn.Module:
    """Put a squeeze-excite behind the last batch norm of each residual branch, before the sum."""
    torch.manual_seed(0)
    for module in list(network.modules()):
        for name, inner in module.named_children():
            if name == "bn2" and isinstance(inner, nn.BatchNorm2d):
                setattr(module, name, nn.Sequential(inner, SqueezeExcite(inner.num_features)))
    return network.eval()


NETWORKS: Mapping[str, Variant] = {
    "resnet18_gn": Variant("resnet18", _group_norms),
    "se_resnet18": Variant("resnet18", _squeeze_excite),
}

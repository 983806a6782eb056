"""Full training of a network that a scheme has prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

__all__ = ["everything_learns"]


def everything_learns(net: nn.Module) -> nn.Module:
    """Make all weights of a network trainable, each with its own memory."""
    for weight in net.parameters():
        if not weight.requires_grad:
            weight.data = weight.data.clone()  # the files of pretrained weights are mapped into memory
            weight.requires_grad_(True)
    return net

"""Draw random weights with which a torch network can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["initialise"]


def initialise(module: nn.Module) -> nn.Module:
    """Draw weights from He's normal distribution over the fan-in, from torch's default generator; biases are zero.

    torchvision has a scheme for each network, made for training with batch normalisation. Untrained, in evaluation
    mode, those networks explode (Inception v3's logits near 1e12) or vanish to their bias (MobileNetV2, whose depthwise
    filters get the fan of a full convolution). The fan-in keeps the signal's scale from layer to layer. Batch
    normalisation stays as the network built it. He et al., *Delving deep into rectifiers*, ICCV 2015, section 2. The
    module is changed in place; on the meta device nothing happens.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            bias: Tensor | None = layer.bias
            if bias is not None:
                nn.init.zeros_(bias)
    return module

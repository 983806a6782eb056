"""Training of a network that a scheme has prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.handlers import ModelTrainer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

__all__ = ["classifier_trainer", "everything_learns"]


def classifier_trainer(
    model: nn.Module, optimizer: Callable[..., Any], params: Mapping[str, Any], weight_decay: float
) -> ModelTrainer:
    """Return the trainer of a classifier whose trainable weights learn; ``weight_decay`` is a default."""
    from torch.nn import CrossEntropyLoss

    learning = [weight for weight in model.parameters() if weight.requires_grad]
    return ModelTrainer(
        model=model,
        optimizer=optimizer(learning, lr=params["lr"], weight_decay=params.get("weight_decay", weight_decay)),
        loss=CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=params.get("batch_size", 32),
    )


def everything_learns(net: nn.Module) -> nn.Module:
    """Make all weights of a network trainable, each with its own memory."""
    for weight in net.parameters():
        if not weight.requires_grad:
            weight.data = weight.data.clone()  # the files of pretrained weights are mapped into memory
            weight.requires_grad_(True)
    return net

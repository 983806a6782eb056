"""Training and evaluation of variants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from udfs.mlp.softmax_regression import fit_softmax
from udfs.variants.torch._head import head_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.variants import Tuning
    from udfs.variants._labelled_images import LabelledImages

__all__ = ["fine_tune", "scores", "train_head"]

_BATCH = 32
# A head is a convex problem of a few thousand weights: L-BFGS ends before this.
_HEAD_STEPS = 100

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_ROWS_FOR_NORMS = 2_000


def scores(network: nn.Module, images: LabelledImages) -> NDArray[np.float32]:
    """Return the class scores of all images, of shape (rows, classes)."""
    network.eval()
    parts = []
    with torch.inference_mode():
        for start in range(0, len(images), _BATCH):
            rows = np.arange(start, min(start + _BATCH, len(images)))
            parts.append(_logits(network(torch.from_numpy(images.batch(rows)))).numpy())
    return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)


def train_head(network: nn.Module, images: LabelledImages) -> None:
    """Train the layer that computes the class outputs, in place: a softmax regression on what it reads."""
    head = network.get_submodule(head_path(network))
    inputs: list[torch.Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0].detach()))
    scores(network, images)
    hook.remove()
    read = torch.cat(inputs)
    features = read.flatten(2).mean(2) if read.dim() > 2 else read
    weight = cast("nn.Parameter", head.weight)
    fitted, bias = fit_softmax(features, torch.from_numpy(images.labels), weight.shape[0], steps=_HEAD_STEPS)
    with torch.no_grad():
        weight.copy_(fitted.reshape(weight.shape))
        if head.bias is not None:
            cast("nn.Parameter", head.bias).copy_(bias)


def fine_tune(network: nn.Module, images: LabelledImages, teacher: NDArray[np.float32], tuning: Tuning) -> None:
    """Train a network in place, with the labels and the scores of a teacher of shape (rows, classes)."""
    generator = np.random.default_rng(tuning.seed)
    torch.manual_seed(tuning.seed)
    steps = tuning.epochs * math.ceil(len(images) / tuning.batch_size)
    if not steps:
        return
    parameters = [parameter for parameter in network.parameters() if parameter.is_floating_point()]
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(parameters, lr=tuning.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    _train_mode(network, len(images))
    for _ in range(tuning.epochs):
        order = generator.permutation(len(images))
        for start in range(0, len(order), tuning.batch_size):
            rows = order[start : start + tuning.batch_size]
            if len(rows) == 1 and len(order) > 1:
                rows = order[start - 1 : start + 1]  # batch norm needs two rows
            optimizer.zero_grad()
            output = _logits(network(torch.from_numpy(images.batch(rows))))
            _loss(output, torch.from_numpy(images.labels[rows]), teacher, rows, tuning).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    network.eval().requires_grad_(False)


def _train_mode(network: nn.Module, rows: int) -> None:
    """Set a network to training; with few rows its batch norms to inference, because they would learn noise."""
    network.train()
    for module in network.modules():
        if isinstance(module, _NORMS) and rows < _ROWS_FOR_NORMS:
            module.eval()


def _loss(
    output: torch.Tensor,
    labels: torch.Tensor,
    teacher: NDArray[np.float32],
    rows: NDArray[np.int64],
    tuning: Tuning,
) -> torch.Tensor:
    entropy = F.cross_entropy(output, labels)
    if not tuning.distillation:
        return entropy
    heat = tuning.temperature
    target = F.log_softmax(torch.from_numpy(teacher[rows]) / heat, dim=1)
    divergence = F.kl_div(F.log_softmax(output / heat, dim=1), target, reduction="batchmean", log_target=True)
    return (1 - tuning.distillation) * entropy + tuning.distillation * heat**2 * divergence


def _logits(output: torch.Tensor) -> torch.Tensor:
    """Return class scores as logits of two axes; a network may end in a softmax."""
    flat = output.flatten(1)
    if bool((flat >= 0).all()) and torch.allclose(flat.sum(1), torch.ones(len(flat)), atol=1e-4):
        return flat.clamp_min(torch.finfo(flat.dtype).tiny).log()
    return flat

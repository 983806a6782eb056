"""Synchronous data-parallel training: every task of a gang takes the same steps on its share of the same batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from udfs.mlp._shares import batch_shares
from udfs.mlp._solvers import SGD, Adam
from udfs.mlp.network import Perceptron, choose_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from udfs.gang import Gang
    from udfs.mlp._rows import Rows
    from udfs.mlp._settings import Settings

__all__ = ["Fitted", "fit"]

_CHUNK = 8192


class Fitted(NamedTuple):
    """A network, and the mean loss of each epoch; fewer epochs than asked for where the loss became NaN."""

    network: Perceptron
    losses: list[float]


def fit(gang: Gang, rows: Rows, settings: Settings, sizes: list[int], counts: list[int]) -> Fitted:
    """Train a network; the same in every task.

    Parameters
    ----------
    gang : Gang
    rows : Rows
        Of this task, perhaps none. They are standardised in place.
    settings : Settings
    sizes : list of int
        Of the layers, those of input and output included.
    counts : list of int
        Rows of each task.
    """
    network = Perceptron(sizes)
    network.initialise(settings.seed & (2**63 - 1))
    features = rows.features if len(rows.features) else np.empty((0, sizes[0]), np.float32)
    targets = rows.labels
    if settings.standardise:
        _standardise(gang, network, features, sum(counts))
        if settings.regression:
            targets = _standardise_targets(gang, network, targets, sum(counts))
    device = choose_device(settings.device)
    network.to(device)
    # Tasks with another build of torch may draw other numbers.
    gang.broadcast_([parameter.data for parameter in network.parameters()])
    data = torch.from_numpy(features).to(device)
    wanted = torch.from_numpy(targets.astype(np.float32 if settings.regression else np.int64)).to(device)
    losses = list(_epochs(gang, network, data, wanted, settings, counts))
    unit = float(network.target_scale) ** 2
    return Fitted(network, [loss * unit for loss in losses])


def _epochs(
    gang: Gang, network: Perceptron, data: torch.Tensor, wanted: torch.Tensor, settings: Settings, counts: list[int]
) -> Iterator[float]:
    weights = [parameter.data for parameter in network.parameters()]
    solver = (SGD if settings.solver == "sgd" else Adam)(weights, settings.step_size)
    own = batch_shares(counts, settings.batch_size)[:, gang.rank].tolist()
    for epoch in range(settings.epochs):
        draw = np.random.default_rng([settings.seed & (2**64 - 1), epoch, gang.rank])
        order = torch.from_numpy(draw.permutation(len(data))).to(data.device)
        loss_sum, start = 0.0, 0
        for share in own:
            picked = order[start : start + share]
            start += share
            gradients, loss = _gradients(network, data[picked], wanted[picked], settings)
            rows = gang.mean_([*gradients, loss], weight=share)
            if settings.l2:
                for weight, gradient in zip(weights, gradients, strict=True):
                    if weight.dim() > 1:  # not the biases
                        gradient.add_(weight, alpha=settings.l2)
            solver.step(gradients)
            loss_sum += float(loss) * rows
        mean = loss_sum / sum(counts)
        if not np.isfinite(mean):
            return
        yield mean


def _gradients(
    network: Perceptron, data: torch.Tensor, wanted: torch.Tensor, settings: Settings
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Gradients of the mean loss over this task's share of a batch, and that loss; zeros for an empty share."""
    parameters = list(network.parameters())
    if not len(data):
        return [torch.zeros_like(parameter) for parameter in parameters], torch.zeros((), device=data.device)
    outputs = network.layers(data)
    if settings.regression:
        loss = functional.mse_loss(outputs.squeeze(1), wanted)
    else:
        loss = functional.cross_entropy(outputs, wanted)
    return list(torch.autograd.grad(loss, parameters)), loss.detach()


def _standardise(gang: Gang, network: Perceptron, features: NDArray[np.float32], total: int) -> None:
    mean, scale = _moments(gang, features, total)
    network.mean.copy_(torch.from_numpy(mean))
    network.scale.copy_(torch.from_numpy(scale))
    for start in range(0, len(features), _CHUNK):
        chunk = torch.from_numpy(features[start : start + _CHUNK])
        chunk.copy_(network.standardised(chunk))


def _standardise_targets(
    gang: Gang, network: Perceptron, targets: NDArray[np.float64], total: int
) -> NDArray[np.float64]:
    mean, scale = _moments(gang, targets[:, None], total)
    network.target_mean.fill_(mean[0])
    network.target_scale.fill_(scale[0])
    return (targets - mean) / scale


def _moments(
    gang: Gang, values: NDArray[np.float32] | NDArray[np.float64], total: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column over all tasks; 1 for the deviation of one that does not vary."""
    sums = torch.from_numpy(values.sum(axis=0, dtype=np.float64))
    gang.sum_([sums])
    mean = sums.numpy() / total
    squares = torch.zeros_like(sums)
    for start in range(0, len(values), _CHUNK):
        squares += torch.from_numpy(((values[start : start + _CHUNK] - mean) ** 2).sum(axis=0))
    gang.sum_([squares])
    deviation = np.sqrt(squares.numpy() / total)
    # A constant that float32 does not hold exactly leaves a tiny deviation: that is no variation.
    varies = deviation > np.finfo(np.float32).eps * np.abs(mean)
    return mean, np.where(varies, deviation, 1.0)

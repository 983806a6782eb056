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

__all__ = ["Fitted", "fit", "row_order", "standardise"]

_CHUNK = 8192


class Examples(NamedTuple):
    """The rows of a task on its device; without weights each counts once."""

    data: torch.Tensor
    wanted: torch.Tensor
    weights: torch.Tensor | None

    def pick(self, rows: torch.Tensor) -> Examples:
        """Take some rows."""
        return Examples(self.data[rows], self.wanted[rows], None if self.weights is None else self.weights[rows])

    @property
    def weight(self) -> float:
        """Sum of the weights, or the number of rows."""
        return float(len(self.data)) if self.weights is None else float(self.weights.double().sum())


class Fitted(NamedTuple):
    """A network, and the mean loss of each epoch; fewer epochs than asked for where the loss became NaN."""

    network: Perceptron
    losses: list[float]


def fit(gang: Gang, rows: Rows, settings: Settings, sizes: list[int], counts: list[int]) -> Fitted:
    """Train a network; the same in every task.

    This task may have no rows; they are standardised in place. ``sizes`` are those of the layers, input and output
    included, ``counts`` the rows of each task.
    """
    network = Perceptron(sizes)
    network.initialise(settings.seed & (2**63 - 1))
    features = rows.features if len(rows.features) else np.empty((0, sizes[0]), np.float32)
    targets = rows.labels
    if settings.standardise:
        mean, scale = standardise(gang, features, rows.weights)
        network.mean.copy_(torch.from_numpy(mean))
        network.scale.copy_(torch.from_numpy(scale))
        if settings.regression:
            targets = _standardise_targets(gang, network, targets, rows.weights)
    device = choose_device(settings.device)
    network.to(device)
    # Tasks with another build of torch may draw other numbers.
    gang.broadcast_([parameter.data for parameter in network.parameters()])
    data = torch.from_numpy(features).to(device)
    wanted = torch.from_numpy(targets.astype(np.float32 if settings.regression else np.int64)).to(device)
    weights = None if settings.weight is None else torch.from_numpy(rows.weights.astype(np.float32)).to(device)
    losses = list(_epochs(gang, network, Examples(data, wanted, weights), settings, counts))
    unit = float(network.target_scale) ** 2
    return Fitted(network, [loss * unit for loss in losses])


def _epochs(
    gang: Gang, network: Perceptron, examples: Examples, settings: Settings, counts: list[int]
) -> Iterator[float]:
    parameters = [parameter.data for parameter in network.parameters()]
    solver = (SGD if settings.solver == "sgd" else Adam)(parameters, settings.step_size)
    shares = batch_shares(counts, settings.batch_size)[:, gang.rank].tolist()
    for epoch in range(settings.epochs):
        order = row_order(settings.seed, epoch, gang.rank, len(examples.data)).to(examples.data.device)
        loss_sum, weight_sum = 0.0, 0.0
        for batch in order.split_with_sizes(shares):
            picked = examples.pick(batch)
            gradients, loss = _gradients(network, picked, settings)
            weight = gang.mean_([*gradients, loss], weight=picked.weight)
            if not weight:
                continue  # no row of the batch counts
            if settings.l2:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if parameter.dim() > 1:  # not the biases
                        gradient.add_(parameter, alpha=settings.l2)
            solver.step(gradients)
            loss_sum += float(loss) * weight
            weight_sum += weight
        mean = loss_sum / weight_sum
        if not np.isfinite(mean):
            return
        yield mean


def _gradients(network: Perceptron, examples: Examples, settings: Settings) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Gradients of the mean loss over this task's share of a batch, and that loss; zeros where no row counts."""
    parameters = list(network.parameters())
    data, wanted, weights = examples
    if not examples.weight:
        return [torch.zeros_like(parameter) for parameter in parameters], torch.zeros((), device=data.device)
    outputs = network.layers(data)
    how = "mean" if weights is None else "none"
    if settings.regression:
        loss = functional.mse_loss(outputs.squeeze(1), wanted, reduction=how)
    else:
        loss = functional.cross_entropy(outputs, wanted, reduction=how)
    if weights is not None:
        loss = (loss * weights).sum() / weights.sum()
    return list(torch.autograd.grad(loss, parameters)), loss.detach()


def row_order(seed: int, epoch: int, rank: int, rows: int) -> torch.Tensor:
    """Draw the order of a task's rows in an epoch."""
    return torch.from_numpy(np.random.default_rng([seed & (2**64 - 1), epoch, rank]).permutation(rows))


def standardise(
    gang: Gang, features: NDArray[np.float32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Standardise each column over all tasks, in place; return the means and the standard deviations before."""
    mean, scale = _moments(gang, features, weights)
    for start in range(0, len(features), _CHUNK):
        chunk = features[start : start + _CHUNK]
        chunk[:] = (chunk - mean) / scale
    return mean, scale


def _standardise_targets(
    gang: Gang, network: Perceptron, targets: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    mean, scale = _moments(gang, targets[:, None], weights)
    network.target_mean.fill_(mean[0])
    network.target_scale.fill_(scale[0])
    return (targets - mean) / scale


def _moments(
    gang: Gang, values: NDArray[np.float32] | NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column over all tasks; 1 for the deviation of one that does not vary."""
    sums, squares = (torch.zeros(values.shape[1], dtype=torch.float64) for _ in range(2))
    weight = torch.tensor([weights.sum()], dtype=torch.float64)
    parts = [slice(start, start + _CHUNK) for start in range(0, len(values), _CHUNK)]
    for part in parts:
        sums += torch.from_numpy((values[part] * weights[part, None]).sum(axis=0))
    gang.sum_([sums, weight])
    total = weight.item()
    mean = sums.numpy() / total
    for part in parts:
        squares += torch.from_numpy(((values[part] - mean) ** 2 * weights[part, None]).sum(axis=0))
    gang.sum_([squares])
    deviation = np.sqrt(squares.numpy() / total)
    # A constant that float32 does not hold exactly leaves a tiny deviation: that is no variation.
    varies = deviation > np.finfo(np.float32).eps * np.abs(mean)
    return mean, np.where(varies, deviation, 1.0)

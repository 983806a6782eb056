"""Gradients of each row's own loss for the parameters of a few layers, in factors where layers are linear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optimizer.errors import InvalidArgumentError, nearest
from udfs.handlers._row_gradients import RowGradients

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.handlers.torch._session import TorchSession

__all__ = ["last_layer", "learning_rate", "row_gradients"]


def learning_rate(session: TorchSession) -> float:
    """Return the learning rate of the session's optimizer, of its first group of parameters."""
    return float(session._trainer.optimizer.param_groups[0]["lr"])


def last_layer(session: TorchSession, inputs: Sequence[NDArray[Any]]) -> str:
    """Name the last module with parameters that the network runs on a batch."""
    order: list[str] = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: order.append(name))
        for name, module in session.model.named_modules()
        if next(module.parameters(recurse=False), None) is not None
    ]
    try:
        with torch.no_grad():
            session.forward([array[:1] for array in inputs], training=False)
    finally:
        for hook in hooks:
            hook.remove()
    if not order:
        raise InvalidArgumentError("the network must have a layer with parameters, got none.")
    return order[-1]


def row_gradients(
    session: TorchSession, inputs: Sequence[NDArray[Any]], labels: NDArray[Any], layers: Sequence[str]
) -> RowGradients:
    """Compute the gradients of each row's loss, in inference mode.

    Parameters
    ----------
    session : TorchSession
        Session of the network.
    inputs : sequence of array, each of shape (rows, ...)
        Inputs of the network.
    labels : array, shape (rows, ...)
        Labels of its first output.
    layers : sequence of str
        Names of modules, as ``named_modules`` has them.

    Raises
    ------
    InvalidArgumentError
        The network has no such layer, or the layer has no parameters.
    """
    modules = dict(session.model.named_modules())
    for name in layers:
        if name not in modules:
            raise InvalidArgumentError(
                f"layers must name modules of the network, got {name!r}{nearest(name, modules)}. There are: "
                f"{', '.join(key for key in modules if key)}"
            )
        if next(modules[name].parameters(), None) is None:
            raise InvalidArgumentError(f"layers must have parameters, got {name!r}, which has none.")
    chosen = [modules[name] for name in layers]
    with torch.enable_grad():
        factors = _linear_factors(session, inputs, labels, chosen)
        return factors or _whole_gradients(session, inputs, labels, chosen)


def _linear_factors(
    session: TorchSession, inputs: Sequence[NDArray[Any]], labels: NDArray[Any], layers: Sequence[torch.nn.Module]
) -> RowGradients | None:
    """Compute gradients of linear layers that run once on a vector for each row; None for other layers."""
    if not all(type(layer) is torch.nn.Linear for layer in layers):
        return None
    calls: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in layers]

    def keep(place: int, fed: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        # All weights below may be frozen.
        output = output if output.requires_grad else output.requires_grad_()
        calls[place].append((fed.detach(), output))
        return output

    hooks = [
        layer.register_forward_hook(lambda _, args, output, place=place: keep(place, args[0], output))
        for place, layer in enumerate(layers)
    ]
    try:
        losses = _row_losses(session, inputs, labels)
    finally:
        for hook in hooks:
            hook.remove()
    if any(len(seen) != 1 or seen[0][0].ndim != 2 or len(seen[0][0]) != len(labels) for seen in calls):
        return None
    gradients = torch.autograd.grad(losses.sum(), [seen[0][1] for seen in calls])
    return RowGradients(
        tuple(gradient.float().cpu().numpy() for gradient in gradients),
        tuple(seen[0][0].float().cpu().numpy() for seen in calls),
        tuple(layer.bias is not None for layer in layers),
    )


def _whole_gradients(
    session: TorchSession, inputs: Sequence[NDArray[Any]], labels: NDArray[Any], layers: Sequence[torch.nn.Module]
) -> RowGradients:
    """Compute the gradients of any layers, a row at a time."""
    parameters = list(dict.fromkeys(parameter for layer in layers for parameter in layer.parameters()))
    learns = [parameter.requires_grad for parameter in parameters]
    rows = []
    try:
        for parameter in parameters:
            parameter.requires_grad_()
        for place in range(len(labels)):
            row = slice(place, place + 1)
            loss = _row_losses(session, [array[row] for array in inputs], labels[row])[0]
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
            parts = [
                torch.zeros_like(parameter) if gradient is None else gradient
                for parameter, gradient in zip(parameters, gradients, strict=True)
            ]
            rows.append(torch.cat([part.flatten() for part in parts]).float().cpu().numpy())
    finally:
        for parameter, learned in zip(parameters, learns, strict=True):
            parameter.requires_grad_(learned)
    return RowGradients((np.stack(rows),), (None,), (False,))


def _row_losses(session: TorchSession, inputs: Sequence[NDArray[Any]], labels: NDArray[Any]) -> torch.Tensor:
    """Compute the loss of each row by itself: a mean over the batch may weigh rows by their classes."""
    outputs = session.forward(inputs, training=False)
    first = outputs[0] if isinstance(outputs, (list, tuple)) else outputs
    truth = torch.from_numpy(np.ascontiguousarray(labels)).to(first.device)
    loss = session.losses[0]
    return torch.stack(
        [session._one_loss(loss, first[place : place + 1], truth[place : place + 1]) for place in range(len(labels))]
    )

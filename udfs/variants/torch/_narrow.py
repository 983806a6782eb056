"""Removal of channels of a trained network."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from optimizer.errors import InvalidArgumentError
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.torch._channels import Channels
from udfs.variants.torch._layers import CONVOLUTIONS, layers_read_by_code, plain_layers, replace_module, trace_network
from udfs.variants.torch._resized_layers import CHANNEL_LAYERS, sliced_layer
from udfs.variants.torch._runs import output_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray
    from torch import fx

    from udfs.variants.torch._channels import ChannelUse

__all__ = ["narrow"]

# Relative error that rounding may cause in the outputs of a network in float32.
_ROUNDING = 1e-3


def narrow(module: nn.Module, example: torch.Tensor, width: float) -> tuple[nn.Module, Structure]:
    """Remove whole channels, with the kernels that make them and the weights that read them.

    The channels with the smallest kernels are removed from each layer; layers whose outputs are added together lose
    the same ones. The size of a kernel is the Euclidean norm of its weights, scaled by the batch norm that follows.
    Channels of the inputs, of the outputs, of grouped and tied layers, and those that other operations read, all stay.

    Parameters
    ----------
    module : torch.nn.Module
        Trained network, which is not changed; ``torch.fx`` must be able to trace it.
    example : torch.Tensor
        Batch of records, shape ``(records, channels, ...)``.
    width : float
        Share of the channels to keep, above 0 and below 1.

    Returns
    -------
    torch.nn.Module
        Copy of the network with smaller layers.
    Structure
        Its changes.

    Raises
    ------
    InvalidArgumentError
        ``width`` is out of range, the network cannot be traced, does not run on ``example`` or has no such channels,
        or its forward depends on their number.

    Notes
    -----
    Fewer kernels are an architectural change of section 4.3.1 of Shen, *System for Serving Deep Neural Networks
    Efficiently*. Li et al., *Pruning filters for efficient ConvNets*, ICLR 2017 (https://arxiv.org/abs/1608.08710),
    section 3, remove those of trained networks, by the sum of absolute weights.

    Examples
    --------
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    >>> narrow(net, torch.zeros(1, 3, 9, 9), width=0.5)[1].changes[0]
    LayerChange(path='0', kind='resized', sizes=(4, 3, 1))
    """
    if not 0 < width < 1:
        raise InvalidArgumentError(f"width must be above 0 and below 1, got {width}.")
    traced = trace_network(module, "factorize, shorten, coarsen and store need no trace.")
    read = layers_read_by_code(traced)
    plain = plain_layers(module, nn.Linear, *CONVOLUTIONS, *CHANNEL_LAYERS)
    layers = {path: layer for path, layer in plain if path not in read}
    uses, classes, fixed = _channels(traced, example, layers)
    removed = _weakest(uses, classes, fixed, _norms(uses, layers, classes), width)
    if not removed:
        raise InvalidArgumentError(
            f"module must have channels that can be removed at width {width}, got none in {type(module).__name__}. "
            "Channels of inputs, outputs, grouped and tied layers, and of operations other than convolutions, linear "
            "layers, batch norms, pooling, sums and concatenations stay"
        )
    made, changes = copy.deepcopy(module), []
    for path, use in uses.items():
        layer: Any = made.get_submodule(path)
        outputs, inputs = (_left(numbers, classes, removed) for numbers in (use.outputs, use.inputs))
        if len(outputs) == len(use.outputs) and len(inputs) == len(use.inputs):
            continue
        groups = len(outputs) if use.per_channel and isinstance(layer, CONVOLUTIONS) else 1
        changes.append(LayerChange(path, "resized", (len(outputs), len(inputs), groups)))
        made = replace_module(made, layer, sliced_layer(layer, outputs, inputs, groups))
    _verify(module, made, example, uses, classes, removed)
    return made, Structure(tuple(changes))


def _channels(
    traced: fx.GraphModule, example: torch.Tensor, replaceable: Collection[str]
) -> tuple[dict[str, ChannelUse], NDArray[np.int64], set[int]]:
    """Return the channels of each replaceable layer, the class of each channel, and the classes that must stay."""
    channels = Channels(traced.eval(), replaceable)
    try:
        with torch.no_grad():
            channels.run(example)
    except Exception as error:  # the network's forward may raise anything
        raise InvalidArgumentError(
            f"example must be a batch that the network runs on, got the shape {tuple(example.shape)}: {error}"
        ) from error
    return channels.uses, *channels.classes()


def _norms(
    uses: Mapping[str, ChannelUse], layers: Mapping[str, Any], classes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the squared norm of the kernels of each class of channels."""
    gains = np.ones(len(classes))
    for path, use in uses.items():
        layer = layers[path]
        if getattr(layer, "running_var", None) is None:
            continue
        gain = (layer.running_var + layer.eps).rsqrt() * (1 if layer.weight is None else layer.weight.abs())
        gains[use.outputs] = gain.detach().double().numpy()
    norms = np.zeros(len(classes))
    for path, use in uses.items():
        if not use.per_channel:
            kernels = layers[path].weight.detach().double().flatten(1).square().sum(1).numpy()
            np.add.at(norms, classes[use.outputs], kernels * gains[use.outputs] ** 2)
    return norms


def _weakest(
    uses: Mapping[str, ChannelUse],
    classes: NDArray[np.int64],
    fixed: set[int],
    norms: NDArray[np.float64],
    width: float,
) -> set[int]:
    """Choose the classes to remove; each layer keeps its strongest channel."""
    groups: list[set[int]] = []
    kept = set(fixed)
    for use in uses.values():
        if use.per_channel:
            continue
        members = set(classes[use.outputs].tolist())
        kept.add(max(members, key=lambda member: norms[member]))
        joined = [group for group in groups if group & members]
        groups = [group for group in groups if not group & members] + [members.union(*joined)]
    removed: set[int] = set()
    for group in groups:
        count = len(group) - max(1, math.ceil(width * len(group)))
        removed.update(sorted(group - kept, key=lambda member: (norms[member], -member))[:count])
    return removed


def _left(numbers: NDArray[np.int64], classes: NDArray[np.int64], removed: set[int]) -> torch.Tensor:
    """Return the places of the channels that stay."""
    return torch.from_numpy(np.flatnonzero(~np.isin(classes[numbers], list(removed))))


def _verify(
    module: nn.Module,
    made: nn.Module,
    example: torch.Tensor,
    uses: Mapping[str, ChannelUse],
    classes: NDArray[np.int64],
    removed: set[int],
) -> None:
    """Raise InvalidArgumentError unless the result is that of the network in which nothing reads removed channels."""
    reference = copy.deepcopy(module).eval()
    for path, use in uses.items():
        if not use.per_channel:
            weight = reference.get_submodule(path).get_parameter("weight")
            with torch.no_grad():
                weight[:, torch.from_numpy(np.isin(classes[use.inputs], list(removed)))] = 0
    expected = output_of(reference, example)
    try:
        output = output_of(copy.deepcopy(made).eval(), example)
        differs = float((output - expected).norm()) > _ROUNDING * float(expected.norm())
        reason = "the outputs differ"
    except Exception as error:  # noqa: BLE001 - the network's forward may raise anything
        differs, reason = True, str(error).partition("\n")[0]
    if differs:
        raise InvalidArgumentError(
            f"module must compute the same with any number of channels, got {type(module).__name__}, in which "
            f"{reason}. Read sizes from tensors instead of stating them in forward"
        )

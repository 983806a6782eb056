"""Modes of modules: what is frozen neither draws random numbers nor moves its buffers."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import UninitializedParameter

from udfs.handlers._read_inputs import zero_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from udfs.tensors import TensorSpec

__all__ = ["build_lazy_parameters", "frozen_modules", "refusal_of_one_row", "set_training"]


def set_training(model: nn.Module) -> None:
    """Put a model into training mode except for its frozen modules, as ``trainable=False`` does in Keras.

    A module is frozen if it or its submodules have parameters and none of them requires a gradient. A frozen module and
    its submodules stay in inference mode: dropout is inactive and batch norm does not update its statistics. A module
    without parameters, such as a dropout between two layers, has the mode of the module that contains it. Without
    frozen modules, the whole model is in training mode.

    Examples
    --------
    >>> trunk = nn.Sequential(nn.Linear(3, 3), nn.Dropout()).requires_grad_(False)
    >>> net = nn.Sequential(trunk, nn.Dropout(), nn.Linear(3, 1))
    >>> set_training(net)
    >>> trunk[1].training, net[1].training
    (False, True)
    """
    model.train()
    for inner in frozen_modules(model):
        inner.eval()
        for recurrent in inner.modules():
            # cuDNN passes gradients through one in training mode alone; without dropout both modes are alike.
            if isinstance(recurrent, nn.RNNBase) and not recurrent.dropout:
                recurrent.training = next(recurrent.parameters()).is_cuda


def frozen_modules(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the outermost modules that are frozen; :func:`set_training` has the rule."""
    parameters = list(model.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        yield model
        return
    for inner in model.children():
        yield from frozen_modules(inner)


def refusal_of_one_row(model: nn.Module, inputs: Sequence[TensorSpec]) -> str:
    """Return the error of batch norm that a copy of a module raises on one row in training mode; else ``""``.

    Examples
    --------
    >>> from udfs.tensors import TensorSpec
    >>> bool(refusal_of_one_row(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), [TensorSpec((3,))]))
    True
    """
    if not any(isinstance(module, _BatchNorm) for module in model.modules()):
        return ""
    try:
        twin = copy.deepcopy(model)
        device = next((parameter.device for parameter in twin.parameters()), torch.device("cpu"))
        set_training(twin)
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            twin(*(torch.from_numpy(row).to(device) for row in zero_rows(inputs)))
    except ValueError as error:
        return str(error) if "more than 1 value per channel" in str(error) else ""
    except Exception:  # noqa: BLE001 - training raises other errors of the user's module again
        return ""
    return ""


def build_lazy_parameters(model: nn.Module, inputs: Sequence[TensorSpec]) -> None:
    """Call a module once on zeros, in inference mode, if it has lazy parameters."""
    if not any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        return
    modes = {module: module.training for module in model.modules()}
    model.eval()
    with torch.no_grad():
        model(*map(torch.from_numpy, zero_rows(inputs)))
    for module, training in modes.items():
        module.training = training

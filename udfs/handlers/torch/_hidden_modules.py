"""Modules and tensors that a network holds without torch's knowledge: in plain lists, dictionaries and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from udfs.handlers._protocol import UntraceableModelError

__all__ = ["check_held", "has_meta_tensor", "is_lazy", "not_copyable", "on_cpu"]

# Lists within lists; a network's own attributes are no deeper.
_DEPTH = 4

# Where torch keeps what it knows of.
_REGISTERS = frozenset({"_parameters", "_buffers", "_modules"})

_OF_TRAINING = (
    nn.modules.dropout._DropoutNd,  # the common bases
    nn.modules.batchnorm._NormBase,
)


def check_held(model: nn.Module) -> None:
    """Refuse a network of which torch does not know all modules, or whose weights are of no plain type.

    Raise UntraceableModelError, with its name and the way out, if a plain list or dictionary has modules with weights,
    or such as work another way in training, or if a module is one of ``torch.jit``, is quantised, or has no weights
    yet.
    """
    name = type(model).__name__
    for path, inner in model.named_modules():
        where = f"{name}.{path}" if path else name
        if isinstance(inner, torch.jit.ScriptModule):
            raise UntraceableModelError(
                f"{where} is a module of torch.jit, which cannot be opened into layers: give the torch.nn.Module that "
                "it was scripted or traced from, with load_state_dict(scripted.state_dict())"
            )
        if ".quantized" in type(inner).__module__ and type(inner).__module__.startswith("torch."):
            raise UntraceableModelError(
                f"{where} is quantised ({type(inner).__name__}), and a batch's largest number would set the scale of "
                "all its records: give the network as it was before quantisation"
            )
        if any(isinstance(tensor, (UninitializedParameter, UninitializedBuffer)) for tensor in _own_tensors(inner)):
            raise UntraceableModelError(
                f"{where} is a {type(inner).__name__} that has no weights yet: run the network once on a batch of "
                "inputs, or give the layer its sizes"
            )
        wrapped = [tensor for tensor in _own_tensors(inner) if type(tensor.data) is not torch.Tensor]
        if wrapped:
            raise UntraceableModelError(
                f"{where} has weights of the type {type(wrapped[0].data).__name__}, not plain tensors: give the "
                "network as it was before quantisation or sharding"
            )
    known = set(model.modules())
    for path, tensor in _unregistered(model):
        if isinstance(tensor, nn.Module) and tensor not in known and _matters(tensor):
            raise UntraceableModelError(
                f"{name}.{path} holds modules in a plain {_kind(model, path)}, so that torch saves, moves and trains "
                "none of their weights: make it an nn.ModuleList, an nn.ModuleDict or an attribute"
            )


def not_copyable(model: nn.Module) -> dict[int, torch.Tensor]:
    """Find tensors of modules' attributes that :func:`copy.deepcopy` refuses, by id, each without its history."""
    return {id(tensor): tensor.detach() for tensor in _unknown_tensors(model) if not tensor.is_leaf}


def on_cpu(model: nn.Module) -> nn.Module:
    """Return the module where it is on the CPU, else a copy there."""
    there = all(tensor.device.type == "cpu" for tensor in (*model.parameters(), *model.buffers()))
    return model if there else deepcopy(model).cpu()


def has_meta_tensor(model: nn.Module) -> bool:
    """Return whether a network holds a tensor without memory, as what is built on the meta device does."""
    return any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers(), *_unknown_tensors(model)))


def is_lazy(model: nn.Module) -> bool:
    """Return whether a network has weights whose shapes its first batch decides."""
    return any(
        isinstance(tensor, (UninitializedParameter, UninitializedBuffer))
        for inner in model.modules()
        for tensor in _own_tensors(inner)
    )


def _own_tensors(inner: nn.Module) -> list[torch.Tensor]:
    return [*inner.parameters(recurse=False), *inner.buffers(recurse=False)]


def _unknown_tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    """Yield tensors that are neither parameters nor buffers, such as ``self.scale = torch.ones(3)``."""
    for _, value in _unregistered(model):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, nn.Module):
            yield from (*value.parameters(), *value.buffers())


def _unregistered(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield modules and tensors of all modules' plain attributes, and of what their forward closes over."""
    for path, inner in model.named_modules():
        attributes = {name: value for name, value in vars(inner).items() if name not in _REGISTERS}
        for name, value in {"forward": type(inner).forward, **attributes}.items():
            yield from _within(value, f"{path}.{name}" if path else name, 0)


def _within(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (torch.Tensor, nn.Module)):
        yield path, value
    elif depth < _DEPTH and isinstance(value, (list, tuple, set)):
        for entry in value:
            yield from _within(entry, path, depth + 1)
    elif depth < _DEPTH and isinstance(value, Mapping):
        for entry in value.values():
            yield from _within(entry, path, depth + 1)
    elif depth < _DEPTH and isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # an empty one
                yield from _within(cell.cell_contents, path, depth + 1)


def _matters(part: nn.Module) -> bool:
    """Return whether a module's values depend on weights, or on whether it is in training mode."""
    weighty = next(part.parameters(), None) is not None or next(part.buffers(), None) is not None
    return weighty or any(isinstance(inner, _OF_TRAINING) for inner in part.modules())


def _kind(model: nn.Module, path: str) -> str:
    parent, _, name = path.rpartition(".")
    return type(vars(model.get_submodule(parent)).get(name, check_held)).__name__

"""Programs of ``torch.export`` that are used again for the next model alike: exporting one takes seconds.

A program is recalled for a model of the same classes, attributes and tensors, whatever the tensors' values. As its
forward may read what no attribute has, as a global variable, both then run on drawn records: the program is used only
if all outputs and gradients are the same, bit for bit.
"""

from __future__ import annotations

import copy
import enum
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from udfs.handlers._record_checks import drawn
from udfs.handlers.torch._measure_reuse import UnknownError, plain

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from udfs.tensors import TensorSpec

__all__ = ["model_key", "recalled", "remember_program"]

_MOST = 32
_RECORDS = 2
_SEED = 7

# A configuration in a configuration; deeper things refer to themselves.
_DEPTH = 8

# By model and inputs; their tensors are on the meta device.
_PROGRAMS: dict[Hashable, fx.GraphModule] = {}


def recalled(model: nn.Module, inputs: Sequence[TensorSpec]) -> fx.GraphModule | None:
    """Return the program of an earlier model alike, over the tensors of this one.

    The model is in the mode in which it would be exported for training; its buffers are restored afterwards.
    """
    try:
        program = _PROGRAMS.get(model_key(model, inputs))
    except UnknownError:
        return None
    if program is None:
        return None
    tensors = _held(model)
    bound = {id(tensor): tensors[name] for name, tensor in _held(program).items() if name in tensors}
    made: fx.GraphModule = copy.deepcopy(program, bound)
    return made if _alike(model, made, inputs) else None


def remember_program(model: nn.Module, inputs: Sequence[TensorSpec], program: fx.GraphModule) -> None:
    """Keep a program, without its tensors, where it does to the bit what the model does."""
    try:
        key = model_key(model, inputs)
    except UnknownError:
        return
    if not _alike(model, program, inputs):
        return
    tensors = _held(model)
    empty: dict[int, Any] = {}
    for name, tensor in _held(program).items():
        if name in tensors and id(tensor) not in empty:
            meta = torch.empty_like(tensor, device="meta")
            empty[id(tensor)] = nn.Parameter(meta, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else meta
    if len(_PROGRAMS) >= _MOST:
        _PROGRAMS.clear()
    _PROGRAMS[key] = copy.deepcopy(program, empty)


def _held(module: nn.Module) -> dict[str, torch.Tensor]:
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return {**parameters, **dict(module.named_buffers(remove_duplicate=False))}


def model_key(model: nn.Module, inputs: Sequence[TensorSpec]) -> Hashable:
    """Make a key of a model's classes, attributes and sizes of tensors, which models share whose weights alone differ.

    Raise UnknownError if an attribute has a value that may change unseen.
    """
    places: dict[int, int] = {}
    told = []
    for path, part in model.named_modules(remove_duplicate=False):
        state = vars(part)
        tensors = {**state["_parameters"], **state["_buffers"]}
        sizes = tuple((name, _sizes(tensor, places)) for name, tensor in tensors.items())
        others = {name: value for name, value in state.items() if name not in ("_parameters", "_buffers", "_modules")}
        told.append((path, type(part), type(part).forward, sizes, _told(others, 0)))
    return tuple(told), tuple((spec.shape, spec.dtype) for spec in inputs), torch.get_default_dtype()


def _sizes(tensor: torch.Tensor | None, places: dict[int, int]) -> Hashable:
    if tensor is None:
        return None
    if type(tensor) not in (torch.Tensor, nn.Parameter):
        raise UnknownError
    place = places.setdefault(id(tensor), len(places))
    return place, type(tensor), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad


def _told(value: Any, depth: int) -> Hashable:
    if depth > _DEPTH or isinstance(value, (torch.Tensor, nn.Module)):
        raise UnknownError
    if isinstance(value, (type, enum.Enum, FunctionType, BuiltinFunctionType)):
        return type(value), value
    if isinstance(value, dict):
        return type(value), tuple((_told(key, depth + 1), _told(item, depth + 1)) for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_told(entry, depth + 1) for entry in value)
    if isinstance(value, (set, frozenset)):
        return type(value), frozenset(_told(entry, depth + 1) for entry in value)
    if _is_open(value):
        return type(value), _told(vars(value), depth + 1)
    return plain(value)


def _is_open(value: Any) -> bool:
    """Return whether all that an object has is in its ``__dict__``: of a class in Python, without slots."""
    slots = any(vars(kind).get("__slots__") for kind in type(value).__mro__)
    return hasattr(value, "__dict__") and not slots and getattr(type(value), "__new__", None) is object.__new__


def _alike(model: nn.Module, program: fx.GraphModule, inputs: Sequence[TensorSpec]) -> bool:
    """Return whether two modules over the same tensors give the same outputs and gradients on drawn records."""
    random = np.random.default_rng(_SEED)
    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    records = [np.concatenate([drawn(spec, random) for _ in range(_RECORDS)]) for spec in inputs]
    tensors = [torch.from_numpy(each).to(device) for each in records]
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            first, other = (list(_results(run, model, tensors)) for run in (model, program))
    except Exception:  # noqa: BLE001 - the user's forward may raise anything
        return False
    return len(first) == len(other) and all(map(_same, first, other))


def _results(run: nn.Module, model: nn.Module, records: Sequence[torch.Tensor]) -> Iterator[torch.Tensor | None]:
    """Yield outputs, gradients and buffers afterwards; the buffers are put back."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        torch.manual_seed(_SEED)
        with torch.enable_grad():
            returned = run(*[each.clone() for each in records])
            outputs = [value for value in tree_leaves(returned) if isinstance(value, torch.Tensor)]
            yield from (output.detach() for output in outputs)
            learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
            learned = [output.square().sum() for output in outputs if output.requires_grad]
            if learning and learned:
                yield from torch.autograd.grad(torch.stack(learned).sum(), learning, allow_unused=True)
        yield from (buffer.clone() for buffer, _ in before)
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


def _same(first: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if first is None or other is None:
        return first is other
    same = first.dtype == other.dtype and first.shape == other.shape
    return same and torch.allclose(first, other, rtol=0, atol=0, equal_nan=True)

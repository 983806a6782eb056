"""Modules on their way to the workers: code in a pickle of Spark's, tensors in a file that all processes map."""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from udfs.handlers._pickling import dumped
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._exported_program import is_exported
from udfs.handlers.torch._fx import private, unwrapped
from udfs.handlers.torch._hidden_modules import check_held, has_meta_tensor
from udfs.handlers.torch._hooks import leave_parametrizations

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fingerprint", "pack", "unpack"]

_PLAIN = (torch.Tensor, nn.Parameter)


def fingerprint(model: nn.Module) -> str:
    """Hash a module's class, structure and the values of its tensors, those outside of its state dict included."""
    digest = hashlib.blake2b(digest_size=16)
    if is_exported(model):
        code, tensors = _program(model)
    else:
        code, tensors = _packed(model)
    digest.update(code)
    for tensor in tensors:
        digest.update(f"{tensor.dtype}|{tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def pack(model: nn.Module, path: Path) -> bytes:
    """Write a module's tensors to a file, and return everything else. The module is not changed.

    All tensors are written, wherever the module holds them: in a state dict, or in an attribute. Raise
    UntraceableModelError if it holds something that cannot be sent to another process, or :func:`check_held` refuses
    it.
    """
    code, tensors = _packed(model)
    torch.save({str(number): tensor for number, tensor in enumerate(tensors)}, path)
    return code


def unpack(code: bytes, path: Path) -> nn.Module:
    """Open what :func:`pack` wrote: a module of its own, in evaluation mode, on tensors that are pages of the file."""
    stored = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    opened: dict[int, torch.Tensor] = {}

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, key: Any) -> torch.Tensor:
            number, is_parameter = key
            if number not in opened:
                tensor = stored[str(number)]
                opened[number] = nn.Parameter(tensor, requires_grad=False) if is_parameter else tensor
            return opened[number]

    # A closure of Spark's own in all but its name: the bytes are in one, and never in a file.
    with torch.device("cpu"):
        module: nn.Module = Unpickler(io.BytesIO(code)).load()
    return module.eval()


def _program(model: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Return the text of an exported program's graph, and its tensors."""
    graph = model.graph_module.graph if isinstance(model, torch.export.ExportedProgram) else model.graph
    tensors = (
        [*dict(model.state_dict).values()]
        if isinstance(model, torch.export.ExportedProgram)
        else [*model.state_dict().values()]
    )
    return str(graph).encode(), [_own(tensor).contiguous() for tensor in tensors]


def _packed(model: nn.Module) -> tuple[bytes, list[torch.Tensor]]:
    model = unwrapped(model)
    if any(parametrize.is_parametrized(inner) for inner in model.modules()):
        # Torch pickles no parametrized module; in inference its weights are fixed.
        model = private(model).eval()
        leave_parametrizations(model)
    numbers: dict[int, int] = {}
    kept: list[torch.Tensor] = []  # keeps the ids from being used again
    tensors: list[torch.Tensor] = []

    def persistent(value: object) -> tuple[int, bool] | None:
        if type(value) not in _PLAIN:
            return None
        assert isinstance(value, torch.Tensor)  # for the type checker
        if id(value) not in numbers:
            numbers[id(value)] = len(tensors)
            kept.append(value)
            tensors.append(_own(value))
        return numbers[id(value)], type(value) is nn.Parameter

    check_held(model)
    if has_meta_tensor(model):
        raise UntraceableModelError(
            f"{type(model).__name__} must have values in its tensors, got tensors on the meta device. Give it weights "
            "first; a builder that keeps what it built must be called once before its card is registered"
        )
    classes = {type(inner) for inner in model.modules()}
    try:
        return dumped(model, classes, persistent), tensors
    except UntraceableModelError:
        raise
    except Exception as error:
        raise UntraceableModelError(
            f"{type(model).__name__} cannot be sent to another process: {type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}. Take open files, locks and generators out of its attributes"
        ) from error


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the CPU whose file has its own elements alone."""
    value = tensor.detach().cpu()
    return value.clone() if value.untyped_storage().nbytes() > value.nbytes else value

"""Keep a torch model's weights once per node, not per worker: in one file that every process maps."""

from __future__ import annotations

import fcntl
import hashlib
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from udfs.node import NodeCacheError, node_folder, written_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["open_shared"]

_LOG = logging.getLogger(__name__)

# Files of models that a node keeps; a mapped file stays mapped after it is deleted.
_KEPT = 8


def open_shared(key: str, build: Callable[[], object], skeleton: Callable[[], nn.Module]) -> nn.Module:
    """Open a model whose parameters and buffers are pages of a file that all processes of the node share.

    The first process builds the model and writes the file, in the memory layout in which the model runs (convolutions
    channels last): converting a mapped tensor would make a private copy of it. The others wait. Models of one ``key``
    have equal weights; ``skeleton`` makes the model on torch's meta device. The model is in evaluation mode, without
    gradients. Where the node's cache folder cannot be written, it is what ``build`` made: it runs, and shares nothing.
    Tensors that are neither parameters nor buffers are the skeleton's.
    """
    try:
        path = _path(key)
        with _locked(path):
            if not path.exists():
                _write(_module(build()), path)
        path.touch()  # the least recently opened files are deleted first
    except (NodeCacheError, OSError):
        _LOG.warning(
            "the weights are not shared, each worker has a copy: the node's cache cannot be written", exc_info=True
        )
        return _module(build())
    network = skeleton()
    _assign(network, torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    return network.eval().requires_grad_(False)


def _module(model: object) -> nn.Module:
    return cast("nn.Module", model)


def _path(key: str) -> Path:
    # Another torch may draw other random weights from a seed.
    digest = hashlib.sha256(f"{torch.__version__}\n{key}".encode()).hexdigest()
    return node_folder("models") / f"{digest}.pt"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(network: nn.Module, path: Path) -> None:
    files = sorted(path.parent.glob("*.pt"), key=lambda file: file.stat().st_mtime)
    for old in files[: max(0, len(files) - _KEPT + 1)]:
        old.unlink(missing_ok=True)
    convolves = any(isinstance(inner, nn.Conv2d) for inner in network.modules())
    layout = torch.channels_last if convolves else torch.contiguous_format
    tensors = {
        name: tensor.detach().to(memory_format=layout) if tensor.dim() == 4 else tensor.detach()  # NCHW
        for name, tensor in _tensors(network)
    }
    with written_once(path) as partial, partial.open("wb") as file:
        torch.save(tensors, file)


def _tensors(network: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from network.named_parameters()
    yield from network.named_buffers()


def _assign(network: nn.Module, mapped: dict[str, torch.Tensor]) -> None:
    """Replace the meta tensors by the mapped ones; tied tensors are tied again."""
    replacements: dict[int, Any] = {}
    for name, parameter in network.named_parameters():
        replacements[id(parameter)] = nn.Parameter(mapped[name], requires_grad=False)
    for name, buffer in network.named_buffers():
        replacements[id(buffer)] = mapped[name]
    for inner in network.modules():
        # Where torch itself keeps them, so that no __setattr__ of the module runs.
        for tensors in (vars(inner)["_parameters"], vars(inner)["_buffers"]):
            for name, old in tensors.items():
                if old is not None:
                    tensors[name] = replacements[id(old)]

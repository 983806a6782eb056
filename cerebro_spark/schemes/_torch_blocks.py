"""Detection of the blocks of a torch network, and selection of those that train."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from cerebro_spark.errors import InvalidArgumentError
from optimizer.errors import UnknownLayerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Block", "blocks_of", "encoder_blocks", "learn", "named_blocks", "own_buffers", "top_blocks"]

Block = tuple[str, ...]
"""Paths of a block's modules: one, or one and the norm that follows it."""

# With fewer there would be nothing to choose from: blocks of blocks are opened.
_ENOUGH = 5
_NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)  # noqa: SLF001 - the common base
_CONTAINERS = (nn.Sequential, nn.ModuleList)


def encoder_blocks(net: nn.Module) -> nn.ModuleList | None:
    """Find the blocks of an encoder of BERT's kind, ours or of ``transformers``; ``None`` of another network."""
    blocks = getattr(getattr(net, "encoder", None), "layer", None)
    if not isinstance(blocks, nn.ModuleList):
        return None
    needed = ("attention.output.dense", "attention.output.LayerNorm", "output.dense", "output.LayerNorm")
    known = (path for block in blocks for path in needed if not _has(block, path))
    return blocks if next(known, None) is None else None


def blocks_of(net: nn.Module) -> list[Block]:
    """List a network's blocks in the order in which they are registered, as :func:`cerebro_spark.schemes.fine_tune`."""
    encoder = encoder_blocks(net)
    if encoder is not None:
        return [(f"encoder.layer.{place}",) for place in range(len(encoder))]
    chosen = _opened(net, "")
    while len(_with_norms(net, chosen)) < _ENOUGH:
        deeper = [inner for path in chosen for inner in _opened(net.get_submodule(path), path) or [path]]
        if deeper == chosen:
            break
        chosen = deeper
    return _with_norms(net, chosen)


def named_blocks(net: nn.Module, paths: Sequence[str]) -> list[Block]:
    """Check the blocks that a user listed.

    Raises
    ------
    UnknownLayerError
        One is no module of the network.
    """
    known = dict(net.named_modules())
    for path in paths:
        if path not in known or not path:
            raise UnknownLayerError(path, [name for name in known if name], type(net).__name__)
    return [(path,) for path in paths if any(True for _ in known[path].parameters())]


def top_blocks(blocks: Sequence[Block], top: int, net: nn.Module) -> list[Block]:
    """Take the last blocks.

    Raises
    ------
    InvalidArgumentError
        There are fewer.
    """
    if top > len(blocks):
        named = ", ".join(block[0] for block in blocks) or "none"
        raise InvalidArgumentError(
            f"top must be at most {len(blocks)}, the blocks of {type(net).__name__} ({named}), got {top}"
        )
    return list(blocks[-top:])


def learn(modules: Iterable[nn.Module]) -> None:
    """Make modules trainable, with their own memory; frozen modules share the memory of the original network."""
    for module in modules:
        for parameter in module.parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.clone()
                parameter.requires_grad_(True)


def own_buffers(net: nn.Module) -> None:
    """Copy the buffers of a network."""
    for module in net.modules():
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.clone())


def _has(module: nn.Module, path: str) -> bool:
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True


def _opened(module: nn.Module, path: str) -> list[str]:
    """List the paths of a module's children that have weights, containers among them opened."""
    opened: list[str] = []
    for name, child in module.named_children():
        inner = f"{path}.{name}" if path else name
        if type(child) in _CONTAINERS:
            opened += _opened(child, inner)
        elif any(True for _ in child.parameters()):
            opened.append(inner)
    return opened


def _with_norms(net: nn.Module, paths: Sequence[str]) -> list[Block]:
    blocks: list[Block] = []
    for path in paths:
        if blocks and isinstance(net.get_submodule(path), _NORMS):
            blocks[-1] = (*blocks[-1], path)
        else:
            blocks.append((path,))
    return blocks

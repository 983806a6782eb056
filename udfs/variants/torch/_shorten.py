"""Removal of whole blocks of a trained network."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.torch._apply import apply_structure
from udfs.variants.torch._layers import CONVOLUTIONS, replace_module
from udfs.variants.torch._runs import output_of, recorded_calls

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["shorten"]


def shorten(module: nn.Module, example: torch.Tensor, blocks: int) -> tuple[nn.Module, Structure]:
    """Remove the blocks whose absence changes the network's output least.

    A block is a module that reads and returns one tensor of the same shape, such as a residual block; if there are
    none, a linear layer or convolution with as many outputs as inputs. Blocks are removed step by step; the change is
    measured on the example. The last linear layer or convolution stays.

    Parameters
    ----------
    module : torch.nn.Module
        Trained network, which is not changed.
    example : torch.Tensor
        Batch of records, shape ``(records, channels, ...)``; real ones, because the choice depends on them.
    blocks : int
        Number of blocks to remove, 1 or more.

    Returns
    -------
    torch.nn.Module
        Copy of the network with an ``nn.Identity`` in the place of each removed block.
    Structure
        Its changes.

    Raises
    ------
    InvalidArgumentError
        ``blocks`` is below 1, or above the number of blocks.

    Notes
    -----
    Fewer layers are an architectural change of section 4.3.1 of Shen, *System for Serving Deep Neural Networks
    Efficiently*. Veit et al., *Residual networks behave like ensembles of relatively shallow networks*, NeurIPS 2016
    (https://arxiv.org/abs/1605.06431), section 4.1, remove single residual blocks of trained networks.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> with torch.no_grad():
    ...     _ = net[2].weight.copy_(torch.eye(4)), net[2].bias.zero_()
    >>> shorten(net, torch.rand(2, 4), blocks=1)[1].changes
    (LayerChange(path='2', kind='removed', sizes=()),)
    """
    blocks = whole("blocks", blocks)
    probe = copy.deepcopy(module).eval()
    expected = output_of(probe, example)
    changes: list[LayerChange] = []
    for _ in range(blocks):
        calls = recorded_calls(probe, example)
        *_, head = ("", *(path for path in calls if isinstance(probe.get_submodule(path), (nn.Linear, *CONVOLUTIONS))))
        losses = {
            path: loss
            for path in _preferred(probe, _removable(probe, "", calls))
            if not f"{head}.".startswith(f"{path}.")
            and (loss := _loss_without(probe, path, example, expected)) is not None
        }
        if not losses:
            raise InvalidArgumentError(
                f"blocks must be at most {len(changes)}, the number of modules in {type(module).__name__} that return "
                f"a tensor of the shape of their input, got {blocks}."
            )
        path = min(losses, key=losses.__getitem__)
        changes.append(LayerChange(path, "removed"))
        replace_module(probe, probe.get_submodule(path), nn.Identity())
    structure = Structure(tuple(changes))
    return apply_structure(copy.deepcopy(module), structure), structure


def _preferred(network: nn.Module, paths: list[str]) -> list[str]:
    """Return the modules with parts, or the single layers if there are no such modules."""
    return [path for path in paths if any(network.get_submodule(path).children())] or paths


def _removable(network: nn.Module, path: str, calls: Mapping[str, list[bool]]) -> list[str]:
    """List the paths of the outermost blocks; a sequence of blocks is not one itself."""
    inner = network.get_submodule(path)
    below = [
        block
        for name, _ in inner.named_children()
        for block in _removable(network, f"{path}.{name}".lstrip("."), calls)
    ]
    if not path or calls.get(path) != [True] or not any(True for _ in inner.parameters()):
        return below
    if not any(inner.children()):
        return [path] if isinstance(inner, (nn.Linear, *CONVOLUTIONS)) else []
    is_sequence = isinstance(inner, nn.Sequential) and any(
        any(network.get_submodule(block).children()) for block in below
    )
    return below if is_sequence else [path]


def _loss_without(network: nn.Module, path: str, example: torch.Tensor, expected: torch.Tensor) -> float | None:
    """Measure the change of the output without a block; ``None`` if the network does not run without it."""
    block, identity = network.get_submodule(path), nn.Identity()
    replace_module(network, block, identity)
    try:
        output = output_of(network, example)
    except Exception:  # noqa: BLE001 - the code around may read the block's attributes
        return None
    finally:
        replace_module(network, identity, block)
    return float((output - expected).norm()) if output.shape == expected.shape else None

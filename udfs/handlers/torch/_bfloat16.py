"""Captured graph in bfloat16, except for its last layers."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import fx, nn

__all__ = ["to_bfloat16"]

# What may stay as precise as it was: reads floating-point tensors alone.
_KEPT = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def to_bfloat16(module: fx.GraphModule) -> fx.GraphModule:
    """Make a copy of a captured graph with parameters in bfloat16.

    Parameters that do not change are shared. The last layers that have any, where those are modules, stay in float32
    and read in float32: eight bits are too few for a logit, of which the softmax makes a probability.
    """
    last = _last(module)
    targets = {str(node.target) for node in last}
    kept = {id(tensor) for path in targets for tensor in module.get_submodule(path).parameters()}
    # What the copy takes instead of copies.
    memo = {
        id(tensor): tensor if id(tensor) in kept or tensor.dtype != torch.float32 else _cast(tensor)
        for tensor in (*module.parameters(), *module.buffers())
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        lean = copy.deepcopy(module, memo)
    names = {node.name for node in last}
    for node in list(lean.graph.nodes):
        if node.name in names:
            (source,) = node.all_input_nodes
            with lean.graph.inserting_before(node):
                node.replace_input_with(source, lean.graph.call_method("float", (source,)))
    lean.recompile()
    return lean


def _cast(value: torch.Tensor) -> torch.Tensor:
    tensor = value.detach().bfloat16()
    return nn.Parameter(tensor, requires_grad=False) if isinstance(value, nn.Parameter) else tensor


def _last(module: fx.GraphModule) -> list[fx.Node]:
    """Return the layers above which there are no more parameters, in all places that they are called from."""
    modules = dict(module.named_modules())
    below: set[fx.Node] = set()  # of a layer with parameters
    last: list[fx.Node] = []
    others: set[str] = set()
    for node in reversed(module.graph.nodes):
        called = modules[str(node.target)] if node.op == "call_module" else None
        if called is not None:
            holds = any(True for _ in called.parameters())
        else:
            holds = any(source.op == "get_attr" for source in node.all_input_nodes)
        if holds and isinstance(called, _KEPT) and node not in below:
            last.append(node)
        else:
            others.add(str(node.target))
        if holds or node in below:
            below.update(node.all_input_nodes)
    return [node for node in last if str(node.target) not in others]

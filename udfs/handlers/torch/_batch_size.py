"""Sizes of the inputs: known from their description, so that no layer reads an input only to learn its shape."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.tensors import TensorSpec

__all__ = ["free_sizes", "is_batch_size", "is_fixed_size", "reads"]

_BATCH_SIZE = "batch_size"


def free_sizes(module: fx.GraphModule, inputs: Sequence[TensorSpec]) -> None:
    """Make constants of the inputs' sizes, and mark the nodes that hold the batch size: any tensor can tell that one.

    Without it, ``y.view(x.size(0), -1)`` deep in a network would keep its input ``x`` alive across every cut.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for placeholder, spec in zip(placeholders, inputs, strict=True):
        for node in list(placeholder.users):
            axis = _axis(node)
            if axis is not None:
                _settle(module, node, axis, spec)
            elif _is_shape(node):
                for user in list(node.users):
                    index = user.args[1] if user.target is operator.getitem else None
                    if isinstance(index, int):
                        _settle(module, user, index, spec)
    module.recompile()


def is_batch_size(node: fx.Node) -> bool:
    """Return whether a node's value is the number of records, whatever tensor it was asked of."""
    return _BATCH_SIZE in node.meta


def is_fixed_size(size: int | torch.SymInt) -> bool:
    """Return whether an axis of an exported program has one size, instead of a symbol for any."""
    if isinstance(size, int):
        return True
    # Imports sympy, which takes half a second in each worker and only programs of torch.export need.
    from torch.fx.experimental.symbolic_shapes import is_concrete_int

    return is_concrete_int(size)


def reads(node: fx.Node) -> list[fx.Node]:
    """List the nodes whose values a node needs, in the order of its arguments."""
    return [] if is_batch_size(node) else node.all_input_nodes


def _axis(node: fx.Node) -> int | None:
    sized = (node.op == "call_method" and node.target == "size") or node.target is torch.ops.aten.sym_size.int
    axis = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None) if sized else None
    return axis if isinstance(axis, int) else None


def _is_shape(node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target == "size"
    return node.target is getattr and node.args[1] == "shape"


def _settle(module: fx.GraphModule, node: fx.Node, axis: int, spec: TensorSpec) -> None:
    axis %= len(spec.shape) + 1
    if axis == 0:
        node.meta[_BATCH_SIZE] = True
        return
    size = spec.shape[axis - 1]

    def settled(argument: fx.Node) -> Any:
        return size if argument is node else argument

    for user in list(node.users):
        user.args = fx.node.map_arg(user.args, settled)
        user.kwargs = fx.node.map_arg(user.kwargs, settled)
    module.graph.erase_node(node)

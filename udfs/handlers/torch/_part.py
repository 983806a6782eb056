"""The part of a captured graph above some of its nodes, as a module of its own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from optimizer.errors import GraphError
from udfs.handlers.torch._batch_size import is_batch_size, reads
from udfs.handlers.torch._constants import attribute
from udfs.handlers.torch._lazy_compilation import lazily_compiled
from udfs.handlers.torch._names import operation

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["keys", "part"]


def part(module: fx.GraphModule, feeds: Sequence[fx.Node], returned: Any) -> fx.GraphModule:
    """Copy the nodes that compute what is returned from the feeds; modules and parameters are shared.

    Raise GraphError, with its name, if an input of the model is needed too.
    """
    graph = fx.Graph()
    copies = {node: graph.placeholder(f"feed_{place}") for place, node in enumerate(feeds)}
    needed = _needed(returned, set(feeds))
    for node in module.graph.nodes:
        if node not in needed or node in copies:
            continue
        if node.op == "placeholder":
            raise GraphError(f"the part above {', '.join(feed.name for feed in feeds)} reads the input {node.name} too")
        # Any tensor can tell the number of records.
        size = graph.call_method("size", (copies[feeds[0]], 0)) if is_batch_size(node) else None
        copies[node] = graph.node_copy(node, copies.__getitem__) if size is None else size
    graph.output(fx.node.map_arg(returned, copies.__getitem__))
    made = lazily_compiled(module, graph)
    made.meta["nodes"] = {node.name for node in copies}
    return made


def keys(module: fx.GraphModule) -> dict[fx.Node, str]:
    """Hash what each node computes, by the paths of modules and tensors: nodes of two captures of one model compare."""
    hashes: dict[fx.Node, str] = {}
    registered = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    inputs = 0
    for node in module.graph.nodes:
        told: list[Any] = [node.op]
        if node.op == "placeholder":
            told.append(inputs)
            inputs += 1
        else:
            arguments = fx.node.map_arg((node.args, node.kwargs), lambda below: _Key(hashes[below]))
            told += [operation(node) if node.op == "call_function" else node.target, arguments]
        if node.op == "get_attr":
            value = attribute(module, str(node.target))
            # Names of a graph's own constants are numbered as they come.
            told += [value.tolist()] if isinstance(value, torch.Tensor) and id(value) not in registered else []
        hashes[node] = hashlib.sha256(repr(told).encode()).hexdigest()
    return hashes


class _Key(str):
    """A hash in the arguments of a node, told from a string of the user's by its ``repr``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self}>"


def _needed(returned: Any, feeds: set[fx.Node]) -> set[fx.Node]:
    needed: set[fx.Node] = set()
    ahead: list[fx.Node] = []
    fx.node.map_arg(returned, ahead.append)
    while ahead:
        node = ahead.pop()
        if node not in needed:
            needed.add(node)
            if node not in feeds:
                ahead.extend(reads(node))
    return needed

"""Layer graph of a traced torch module: shapes, FLOPs and bytes of its named ``fx`` nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from optimizer.graph import Layer, LayerGraph
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._batch_size import reads
from udfs.handlers.torch._constants import attribute
from udfs.handlers.torch._fingerprint import fingerprint
from udfs.handlers.torch._measure import BATCHES, measure
from udfs.handlers.torch._names import node_names, operation
from udfs.handlers.torch._window import window

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from optimizer.graph import Window
    from udfs.handlers.torch._measure import Measure
    from udfs.tensors import TensorSpec

__all__ = ["held_tensors", "layer_graph"]

# Operations that read only the size and the type of their first argument.
_LIKE_ANOTHER = frozenset(
    (
        *("zeros_like", "ones_like", "full_like", "empty_like"),
        *("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"),
    )
)

# Records that the larger of two measures has more than the smaller.
_MORE = BATCHES[1] - BATCHES[0]


def layer_graph(
    module: fx.GraphModule,
    inputs: Sequence[TensorSpec],
    measures: Sequence[Measure] | None = None,
    learning: Collection[int] | None = None,
) -> LayerGraph:
    """Describe a captured model.

    A node is a layer if its value is one tensor with the batch as its leading axis, and depends on the records: only
    such a value can be cut into records, stored and fed again. Any other value (a size, a tuple, a view of a parameter,
    ``torch.arange`` of the batch size) is merged into the layers that consume it, and each of them has its cost.
    Parameters that several layers read count for each of them. The outputs of the graph are the returned values that
    are layers. The measures are at :data:`BATCHES`, and made where they are not given. With ``learning``, the ids of
    the parameters that learn, the graph is one in training: it knows which layers draw random numbers, which move their
    buffers and so are not frozen, and what they keep for the backward pass. Raise UntraceableModelError if the model
    runs at one batch size only, or returns no tensor with the batch as its leading axis.
    """
    small, large = measures or [measure(module, inputs, batch) for batch in BATCHES]
    names = node_names(module)
    same_for_all = _same_for_all(module, small)
    layers: list[Layer] = []
    sources: dict[fx.Node, tuple[fx.Node, ...]] = {}
    returned: list[fx.Node] = []
    for node in module.graph.nodes:
        if node.op == "output":
            returned = [below for below in node.all_input_nodes if sources[below] == (below,)]
            continue
        shape = _record_shape(small.values[node.name], large.values[node.name])
        if shape is None or node in same_for_all:
            sources[node] = _sources(node, sources)
            continue
        read = _sources(node, sources)
        sources[node] = (node,)
        folded = list(_folded(node, sources))
        parameters = held_tensors(module, folded)
        effects = [small.effects[part.name] for part in folded]
        made = sum(large.effects[part.name].made_bytes - small.effects[part.name].made_bytes for part in folded)
        moves = learning is not None and any(effect.moves for effect in effects)
        layers.append(
            Layer(
                name=names[node.name],
                op="input" if node.op == "placeholder" else _operation(module, node),
                inputs=tuple(names[below.name] for below in read),
                output_shape=shape,
                dtype=str(small.values[node.name].dtype).removeprefix("torch."),
                flops=sum(small.flops[part.name] for part in folded) // BATCHES[0],
                param_bytes=sum(tensor.nbytes for tensor in parameters),
                frozen=not moves and not any(_learns(tensor, learning) for tensor in parameters),
                fingerprint=fingerprint(module, folded, read, parameters),
                window=_window(module, node, small.values),
                random=learning is not None and any(effect.draws for effect in effects),
                inner_bytes=max(_bytes(small.values[node.name]), 0 if learning is None else -(-made // _MORE)),
            )
        )
    if not returned:
        raise UntraceableModelError(
            "the model returns no tensor whose leading axis is the batch: return one with an entry for each record"
        )
    return LayerGraph(layers, tuple(dict.fromkeys(names[output.name] for output in returned)))


def _same_for_all(module: fx.GraphModule, measured: Measure) -> set[fx.Node]:
    """Find the nodes whose values are the same for all records of a batch: sizes, weights, and tensors made from these.

    Nodes that draw random numbers are not among them.
    """
    constant: set[fx.Node] = set()
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        effects = measured.effects[node.name]
        if effects.draws or effects.moves:
            continue
        # Tracing reads no numbers out of tensors, so a value without tensors is a size, a type or a device.
        is_size = not any(isinstance(value, torch.Tensor) for value in tree_leaves(measured.values[node.name]))
        read = [below for below in node.all_input_nodes if below not in constant]
        if operation(node) in _LIKE_ANOTHER and node.args and read == [node.args[0]]:
            read = []
        if is_size or not read:
            constant.add(node)
    return constant


def _learns(tensor: torch.Tensor, learning: Collection[int] | None) -> bool:
    return tensor.requires_grad if learning is None else id(tensor) in learning


def _bytes(value: torch.Tensor) -> int:
    return value.numel() * value.element_size() // BATCHES[0]


def _record_shape(small: Any, large: Any) -> tuple[int, ...] | None:
    if not isinstance(small, torch.Tensor) or not isinstance(large, torch.Tensor):
        return None
    if small.dim() == 0 or (small.shape[0], large.shape[0]) != BATCHES or small.shape[1:] != large.shape[1:]:
        return None
    return tuple(small.shape[1:])


def _sources(node: fx.Node, known: dict[fx.Node, tuple[fx.Node, ...]]) -> tuple[fx.Node, ...]:
    """List the layers whose tensors a node reads, straight or through folded nodes, in the order of its arguments."""
    return tuple(dict.fromkeys(value for argument in reads(node) for value in known[argument]))


def _folded(node: fx.Node, sources: dict[fx.Node, tuple[fx.Node, ...]]) -> Iterator[fx.Node]:
    """Yield a layer's node after the folded nodes that it needs."""
    seen: set[fx.Node] = set()

    def visit(visited: fx.Node) -> Iterator[fx.Node]:
        if visited in seen:
            return
        seen.add(visited)
        for argument in reads(visited):
            if sources[argument] != (argument,):
                yield from visit(argument)
        yield visited

    yield from visit(node)


def held_tensors(module: fx.GraphModule, nodes: Sequence[fx.Node]) -> list[torch.Tensor]:
    """List parameters and buffers that nodes hold, each once."""
    tensors_by_id: dict[int, torch.Tensor] = {}
    for node in nodes:
        if node.op == "get_attr":
            value = attribute(module, str(node.target))
            tensors = [value] if isinstance(value, torch.Tensor) else []
        elif node.op == "call_module":
            inner = module.get_submodule(str(node.target))
            tensors = [*inner.parameters(), *inner.buffers()]
        else:
            tensors = []
        tensors_by_id.update({id(tensor): tensor for tensor in tensors})
    return list(tensors_by_id.values())


def _operation(module: fx.GraphModule, node: fx.Node) -> str:
    if node.op == "call_module":
        return type(module.get_submodule(str(node.target))).__name__
    return operation(node)


def _window(module: fx.GraphModule, node: fx.Node, values: dict[str, Any]) -> Window | None:
    inner = module.get_submodule(str(node.target)) if node.op == "call_module" else None
    return window(node, inner, lambda argument: tuple(values[argument.name].shape))

"""From named ``fx`` nodes to a :class:`optimizer.graph.LayerGraph`: shapes, FLOPs, bytes, fingerprints."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils.flop_counter import FlopCounterMode

from optimizer.graph import Layer, LayerGraph, Window
from udfs.handlers._torch_fx import example, node_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from udfs.handlers._protocol import TensorSpec

__all__ = ["layer_graph"]

# Two batch sizes tell the batch axis from any other: what follows the batch differs, what does not is the same.
_BATCHES = (3, 5)


class _Measure(FakeTensorProp):
    """Propagates shapes without computing, and keeps each node's value and FLOPs."""

    def __init__(self, module: fx.GraphModule, mode: FakeTensorMode) -> None:
        super().__init__(module, mode)
        self.values: dict[str, Any] = {}
        self.flops: dict[str, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            value = super().run_node(n)
        self.values[n.name] = value
        self.flops[n.name] = counter.get_total_flops()
        return value


def layer_graph(module: fx.GraphModule, inputs: Sequence[TensorSpec]) -> LayerGraph:
    """Describe a captured model.

    A node is a layer if its value is one tensor with the batch as its leading axis: only such a value can be cut into
    records, stored and fed again. Any other value (a size, a tuple, a parameter seen through a view) is folded into the
    layers that consume it.

    Parameters
    ----------
    module : torch.fx.GraphModule
        What :func:`udfs.handlers._torch_fx.capture` returned.
    inputs : sequence of TensorSpec
        As for the capture.
    """
    small, large = (_measure(module, inputs, batch) for batch in _BATCHES)
    names = node_names(module)
    layers: list[Layer] = []
    sources: dict[fx.Node, tuple[fx.Node, ...]] = {}
    outputs: list[str] = []
    for node in module.graph.nodes:
        if node.op == "output":
            outputs = [names[found.name] for found in _sources(node, sources)]
            continue
        shape = _record_shape(small.values[node.name], large.values[node.name])
        if shape is None:
            sources[node] = _sources(node, sources)
            continue
        sources[node] = (node,)
        folded = list(_folded(node, sources))
        parameters = _parameters(module, folded)
        layers.append(
            Layer(
                name=names[node.name],
                op="input" if node.op == "placeholder" else _operation(module, node),
                inputs=tuple(names[found.name] for found in _sources(node, sources)),
                output_shape=shape,
                dtype=str(small.values[node.name].dtype).removeprefix("torch."),
                flops=sum(small.flops[part.name] for part in folded) // _BATCHES[0],
                param_bytes=sum(tensor.nbytes for tensor in parameters),
                frozen=not any(tensor.requires_grad for tensor in parameters),
                fingerprint=_fingerprint(module, folded, parameters),
                window=_window(module, node),
            )
        )
    return LayerGraph(layers, tuple(dict.fromkeys(outputs)))


def _measure(module: fx.GraphModule, inputs: Sequence[TensorSpec], batch: int) -> _Measure:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    measure = _Measure(module, mode)
    with torch.no_grad():
        measure.propagate(*example(inputs, batch))
    return measure


def _record_shape(small: Any, large: Any) -> tuple[int, ...] | None:
    if not isinstance(small, torch.Tensor) or not isinstance(large, torch.Tensor):
        return None
    if small.dim() == 0 or (small.shape[0], large.shape[0]) != _BATCHES or small.shape[1:] != large.shape[1:]:
        return None
    return tuple(small.shape[1:])


def _sources(node: fx.Node, known: dict[fx.Node, tuple[fx.Node, ...]]) -> tuple[fx.Node, ...]:
    """The layers whose tensors a node reads, straight or through folded nodes, in the order of its arguments."""
    return tuple(dict.fromkeys(found for argument in node.all_input_nodes for found in known[argument]))


def _folded(node: fx.Node, sources: dict[fx.Node, tuple[fx.Node, ...]]) -> Iterator[fx.Node]:
    """A layer's node after the folded nodes that it needs."""
    seen: set[fx.Node] = set()

    def visit(found: fx.Node) -> Iterator[fx.Node]:
        if found in seen:
            return
        seen.add(found)
        for argument in found.all_input_nodes:
            if sources[argument] != (argument,):
                yield from visit(argument)
        yield found

    yield from visit(node)


def _parameters(module: fx.GraphModule, nodes: Sequence[fx.Node]) -> list[torch.Tensor]:
    found: dict[int, torch.Tensor] = {}
    for node in nodes:
        if node.op == "get_attr":
            value = _attribute(module, str(node.target))
            tensors = [value] if isinstance(value, torch.Tensor) else []
        elif node.op == "call_module":
            inner = module.get_submodule(str(node.target))
            tensors = [*inner.parameters(), *inner.buffers()]
        else:
            tensors = []
        found.update({id(tensor): tensor for tensor in tensors})
    return list(found.values())


def _attribute(module: fx.GraphModule, path: str) -> Any:
    parent, _, leaf = path.rpartition(".")
    return getattr(module.get_submodule(parent), leaf)


def _operation(module: fx.GraphModule, node: fx.Node) -> str:
    if node.op == "call_module":
        return type(module.get_submodule(str(node.target))).__name__
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(getattr(packet, "__name__", packet))


def _configuration(module: fx.GraphModule, node: fx.Node) -> str:
    """What a node does beside its tensors: the module's own description, or the call's other arguments."""
    if node.op == "call_module":
        return repr(module.get_submodule(str(node.target)))
    arguments = fx.node.map_arg((node.args, node.kwargs), lambda _: None)  # tensors are told by the graph
    return repr(arguments)


def _fingerprint(module: fx.GraphModule, nodes: Sequence[fx.Node], parameters: Sequence[torch.Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for node in nodes:
        if node.op not in ("placeholder", "get_attr"):
            digest.update(f"{_operation(module, node)}|{_configuration(module, node)}\n".encode())
    for tensor in parameters:
        digest.update(f"{tensor.dtype}|{tuple(tensor.shape)}\n".encode())
        if not tensor.is_meta:
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _window(module: fx.GraphModule, node: fx.Node) -> Window | None:
    """Kernel, stride, padding and dilation where a node is a convolution or a pooling module."""
    if node.op != "call_module":
        return None
    inner: nn.Module = module.get_submodule(str(node.target))
    kernel = getattr(inner, "kernel_size", None)
    if kernel is None or isinstance(getattr(inner, "padding", None), str):
        return None
    axes = len(kernel) if isinstance(kernel, tuple) else len(getattr(inner, "stride", ())) if isinstance(getattr(inner, "stride", None), tuple) else 2

    def spread(value: Any) -> tuple[int, ...]:
        return tuple(value) if isinstance(value, tuple) else (int(value),) * axes

    return Window(
        spread(kernel), spread(inner.stride), spread(inner.padding), spread(getattr(inner, "dilation", 1))
    )

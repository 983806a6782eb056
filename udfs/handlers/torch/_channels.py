"""Layers over the channels of each place that are written with the channels last, rewritten with the channels second.

ConvNeXt's blocks permute a map, normalise and multiply its channels, and permute it back. With the channels second
those are layers that read one place each, and parts of the map are enough for parts of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch.nn import functional

from udfs.handlers.torch._constants import constant, is_constant, parameter
from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._names import operation

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ChannelNorm", "put_channels_second"]

_CONVOLUTIONS = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}

# One number makes one number, whatever the axes.
_ACTIVATIONS = (nn.GELU, nn.ReLU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Hardswish, nn.Identity, nn.Dropout)
_FUNCTIONS = frozenset(
    {"gelu", "relu", "silu", "tanh", "sigmoid", "hardswish", "dropout", "clone", "contiguous", "detach"}
)
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "truediv"})


class ChannelNorm(nn.Module):
    """Layer norm of the channels of each place, of tensors with the channels second.

    The parameters have the shape ``(channels,)``, or are ``None``.
    """

    def __init__(self, weight: torch.Tensor | None, bias: torch.Tensor | None, channels: int, eps: float) -> None:
        super().__init__()
        self.weight, self.bias = parameter(weight), parameter(bias)
        self.channels, self.eps = channels, eps
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise each place over its channels."""
        last = x.movedim(1, -1)
        return functional.layer_norm(last, (self.channels,), self.weight, self.bias, self.eps).movedim(-1, 1)


def put_channels_second(module: fx.GraphModule) -> None:
    """Rewrite, in place, what lies between a permutation to channels last and those back, where all of it can be.

    ``meta["lowered"]`` has the paths of the new modules, ``meta["names"]`` new names, as their tensors have other axes.
    """
    for node in list(module.graph.nodes):
        rank = _rank_to_last(node)
        if rank is None:
            continue
        region = _region(module, node, rank)
        if region is not None:
            _rewrite(module, node, rank, *region)


def _region(module: fx.GraphModule, first: fx.Node, rank: int) -> tuple[list[fx.Node], list[fx.Node]] | None:
    """List the layers between a permutation and the ones back, and those; ``None`` where one of them cannot be."""
    within, ends = dict.fromkeys([first]), list[fx.Node]()
    ahead = list(first.users)
    while ahead:
        node = ahead.pop()
        if node in within or node in ends:
            continue
        if _is_back(node, rank):
            if any(user.op == "output" for user in node.users):  # an output keeps its name
                return None
            ends.append(node)
            continue
        if not _is_per_place(module, node):
            return None
        within[node] = None
        ahead.extend(node.users)
    layers = [node for node in module.graph.nodes if node in within and node is not first]
    known = set(within)
    if not all(below in known or is_constant(below) for node in layers for below in node.all_input_nodes):
        return None
    return layers, ends


def _is_per_place(module: fx.GraphModule, node: fx.Node) -> bool:
    if node.op == "call_module":
        inner = module.get_submodule(str(node.target))
        norm = type(inner) is nn.LayerNorm and len(inner.normalized_shape) == 1
        return (norm or type(inner) in (nn.Linear, *_ACTIVATIONS)) and not has_hooks(inner)
    name = operation(node) if node.op in ("call_function", "call_method") else ""
    if name == "layer_norm":
        return len(_argument(node, 1, "normalized_shape", ())) == 1 and _constants(module, node, (2, 3)) is not None
    if name == "linear":
        return _constants(module, node, (1, 2)) is not None
    if name in _ARITHMETIC and not set(node.kwargs) - {"alpha"}:
        values = (constant(module, below) for below in node.all_input_nodes if is_constant(below))
        return all(isinstance(value, torch.Tensor) and value.dim() <= 1 for value in values)
    return name in _FUNCTIONS


def _rewrite(module: fx.GraphModule, first: fx.Node, rank: int, layers: list[fx.Node], ends: Iterable[fx.Node]) -> None:
    (source,) = first.all_input_nodes
    for node in layers:
        made = _module(module, node, rank)
        if made is not None:
            path = f"lowered_{node.name}"
            module.add_submodule(path, made.eval())
            module.meta.setdefault("lowered", set()).add(path)
            node.op, node.target, node.args, node.kwargs = "call_module", path, (node.args[0],), {}
        elif operation(node) in _ARITHMETIC:
            for below in node.all_input_nodes:
                if is_constant(below) and constant(module, below).dim() == 1:
                    with module.graph.inserting_before(node):
                        shaped = module.graph.call_method("reshape", (below, (-1, *(1,) * (rank - 2))))
                    node.replace_input_with(below, shaped)
        module.meta["names"][node.name] += " (channels second)"
    for permuted, plain in ((first, source), *((end, end.all_input_nodes[0]) for end in ends)):
        permuted.replace_all_uses_with(plain)
        returned = module.meta["returned"]
        returned.update({path: plain.name for path, name in returned.items() if name == permuted.name})
        module.graph.erase_node(permuted)


def _module(module: fx.GraphModule, node: fx.Node, rank: int) -> nn.Module | None:
    """Make the module that does with the channels second what a node does with them last."""
    inner: Any = module.get_submodule(str(node.target)) if node.op == "call_module" else None
    name = type(inner).__name__ if inner is not None else operation(node)
    if name in ("LayerNorm", "layer_norm"):
        if inner is not None:
            return ChannelNorm(inner.weight, inner.bias, inner.normalized_shape[0], inner.eps)
        weight, bias = _constants(module, node, (2, 3)) or (None, None)
        (channels,) = _argument(node, 1, "normalized_shape", ())
        return ChannelNorm(weight, bias, channels, _argument(node, 4, "eps", 1e-5))
    if name in ("Linear", "linear"):
        parameters = (inner.weight, inner.bias) if inner is not None else _constants(module, node, (1, 2))
        weight, bias = parameters or (None, None)
        assert weight is not None  # of a linear layer
        with torch.device("meta"):
            convolution: Any = _CONVOLUTIONS[rank](weight.shape[1], weight.shape[0], 1, bias=bias is not None)
        convolution.weight = parameter(weight.detach().reshape(*weight.shape, *(1,) * (rank - 2)))
        convolution.bias = parameter(bias)
        return convolution  # type: ignore[no-any-return]
    return None


def _constants(
    module: fx.GraphModule, node: fx.Node, places: tuple[int, int]
) -> tuple[torch.Tensor | None, torch.Tensor | None] | None:
    """Compute the weight and bias of a function; ``None`` where one of them depends on an input."""
    values = []
    for place, name in zip(places, ("weight", "bias"), strict=True):
        argument = _argument(node, place, name, None)
        if isinstance(argument, fx.Node):
            argument = constant(module, argument)
            if argument is None:
                return None
        values.append(argument)
    return values[0], values[1]


def _argument(node: fx.Node, place: int, name: str, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _order(node: fx.Node) -> tuple[int, ...] | None:
    """Return the order of axes that a permutation makes."""
    if node.op not in ("call_function", "call_method") or operation(node) != "permute":
        return None
    listed = _argument(node, 1, "dims", None)
    order = tuple(listed) if isinstance(listed, (list, tuple)) else node.args[1:]
    if not all(isinstance(axis, int) for axis in order):
        return None
    return tuple(int(axis) % len(order) for axis in order)  # type: ignore[arg-type]


def _rank_to_last(node: fx.Node) -> int | None:
    order = _order(node)
    if order is None or len(order) not in _CONVOLUTIONS:
        return None
    return len(order) if order == (0, *range(2, len(order)), 1) else None


def _is_back(node: fx.Node, rank: int) -> bool:
    return _order(node) == (0, rank - 1, *range(1, rank - 1))

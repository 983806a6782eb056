"""Removal of unread channels from a convolutional network."""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["narrow"]

# Layers without weights that treat each channel alone.
_PER_CHANNEL = (
    *(nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Hardsigmoid, nn.SiLU, nn.GELU, nn.Sigmoid, nn.Tanh, nn.ELU, nn.LeakyReLU),
    *(nn.Identity, nn.Dropout, nn.Dropout2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d),
)
_SUMS = frozenset({operator.add, torch.add})
_FUNCTIONS = frozenset({torch.relu, nn.functional.relu, nn.functional.relu6, nn.functional.adaptive_avg_pool2d})


def narrow(network: fx.GraphModule, channels: Sequence[int]) -> fx.GraphModule:
    """Keep some channels of a network's one result, and leave out the filters that only the others need.

    The way back from the result goes through norms, activations, poolings and concatenations, to the convolutions or
    linear layers that make its channels. Where another layer reads a tensor too, it stays whole, and its channels
    are chosen after it.

    Parameters
    ----------
    network : torch.fx.GraphModule
        The network, which is not changed. Layers that are not narrowed are shared.
    channels : sequence of int
        Indices along axis 1 of the result, ascending.

    Examples
    --------
    >>> net = fx.symbolic_trace(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()))
    >>> slim = narrow(net, [1, 6])
    >>> x = torch.ones(2, 3, 5, 5)
    >>> bool((slim(x) == net(x)[:, [1, 6]]).all()), slim.get_submodule("narrow_0").out_channels
    (True, 2)
    """
    graph = fx.Graph()
    result = graph.graph_copy(network.graph, {})
    assert isinstance(result, fx.Node)  # the part up to one layer
    graph.output(result)
    made = fx.GraphModule(network, graph)
    (ending,) = (node for node in made.graph.nodes if node.op == "output")
    ending.args = (_Narrowing(made).select(ending.args[0], torch.tensor(list(channels), dtype=torch.int64)),)
    made.graph.eliminate_dead_code()
    made.delete_all_unused_submodules()
    made.recompile()
    return made.eval()


class _Narrowing:
    def __init__(self, module: fx.GraphModule) -> None:
        self._module = module
        self._count = 0

    def select(self, node: fx.Node, channels: torch.Tensor) -> fx.Node:
        """Return a node with some channels of another."""
        alone = len(node.users) == 1
        narrowed = self._narrowed(node, channels) if alone else None
        return self._chosen(node, channels) if narrowed is None else narrowed

    def _narrowed(  # noqa: PLR0911 - one for each kind of layer
        self, node: fx.Node, channels: torch.Tensor
    ) -> fx.Node | None:
        if node.op == "call_function" and node.target is torch.cat:
            return self._joined(node, channels)
        if node.op == "call_function" and node.target in _FUNCTIONS:
            return self._after(node, channels)
        if node.op == "call_function" and node.target in _SUMS and not node.kwargs:
            return self._added(node, channels)
        if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
            return None
        inner = self._module.get_submodule(str(node.target))
        if type(inner) in _PER_CHANNEL:
            return self._after(node, channels)
        if type(inner) is nn.BatchNorm2d:
            return self._after(node, channels, _norm(inner, channels))
        if type(inner) is nn.Conv2d and inner.groups == inner.in_channels == inner.out_channels:
            return self._after(node, channels, _filters(inner, channels, grouped=True))
        if type(inner) is nn.Conv2d and inner.groups == 1:
            return self._called(node, node.args[0], _filters(inner, channels, grouped=False))
        if type(inner) is nn.Linear:
            return self._called(node, node.args[0], _units(inner, channels))
        return None

    def _after(self, node: fx.Node, channels: torch.Tensor, inner: nn.Module | None = None) -> fx.Node:
        source = node.args[0]
        assert isinstance(source, fx.Node)  # a tensor
        below = self.select(source, channels)
        if inner is not None:
            return self._called(node, below, inner)
        with self._module.graph.inserting_before(node):
            return self._module.graph.create_node(node.op, node.target, (below, *node.args[1:]), dict(node.kwargs))

    def _added(self, node: fx.Node, channels: torch.Tensor) -> fx.Node | None:
        """Add the channels of both sides of a residual connection."""
        if not all(isinstance(side, fx.Node) for side in node.args):
            return None
        sides = tuple(self.select(side, channels) for side in node.args if isinstance(side, fx.Node))
        with self._module.graph.inserting_before(node):
            return self._module.graph.create_node(node.op, node.target, sides, {})

    def _joined(self, node: fx.Node, channels: torch.Tensor) -> fx.Node | None:
        axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        listed = node.args[0]
        widths = [self._width(part) for part in listed] if isinstance(listed, (list, tuple)) else [None]
        if axis != 1 or not isinstance(listed, (list, tuple)) or None in widths:
            return None
        parts, start = [], 0
        for part, width in zip(listed, widths, strict=True):
            assert isinstance(part, fx.Node)  # _width looked
            assert width is not None
            inside = channels[(channels >= start) & (channels < start + width)] - start
            if len(inside):
                parts.append(self.select(part, inside))
            start += width
        with self._module.graph.inserting_before(node):
            return self._module.graph.call_function(torch.cat, (parts, 1))

    def _width(self, node: Any) -> int | None:
        """Return the number of channels of a node, or ``None`` if no layer below has it."""
        while isinstance(node, fx.Node) and node.args:
            inner = self._module.get_submodule(str(node.target)) if node.op == "call_module" else None
            if isinstance(inner, nn.Conv2d):
                return inner.out_channels
            if isinstance(inner, nn.BatchNorm2d):
                return inner.num_features
            if type(inner) not in _PER_CHANNEL and node.target not in _FUNCTIONS:
                return None
            node = node.args[0]
        return None

    def _called(self, node: fx.Node, below: Any, inner: nn.Module) -> fx.Node:
        path = f"narrow_{self._count}"
        self._count += 1
        self._module.add_submodule(path, inner)
        with self._module.graph.inserting_before(node):
            return self._module.graph.call_module(path, (below,))

    def _chosen(self, node: fx.Node, channels: torch.Tensor) -> fx.Node:
        name = f"channels_{self._count}"
        self._count += 1
        self._module.register_buffer(name, channels)
        with self._module.graph.inserting_after(node):
            places = self._module.graph.get_attr(name)
        with self._module.graph.inserting_after(places):
            return self._module.graph.call_function(torch.index_select, (node, 1, places))


def _parameter(tensor: torch.Tensor | None, channels: torch.Tensor) -> nn.Parameter | None:
    return None if tensor is None else nn.Parameter(tensor.detach()[channels].clone(), requires_grad=False)


def _own(inner: nn.Module) -> Any:
    copied = copy.copy(inner)
    copied._parameters, copied._buffers = dict(inner._parameters), dict(inner._buffers)  # noqa: SLF001 - copy.copy shares
    return copied


def _filters(inner: nn.Conv2d, channels: torch.Tensor, *, grouped: bool) -> nn.Module:
    fewer = _own(inner)
    fewer.weight, fewer.bias = _parameter(inner.weight, channels), _parameter(inner.bias, channels)
    fewer.out_channels = len(channels)
    if grouped:
        fewer.in_channels = fewer.groups = len(channels)
    return fewer  # type: ignore[no-any-return]


def _units(inner: nn.Linear, channels: torch.Tensor) -> nn.Module:
    fewer = _own(inner)
    fewer.weight, fewer.bias = _parameter(inner.weight, channels), _parameter(inner.bias, channels)
    fewer.out_features = len(channels)
    return fewer  # type: ignore[no-any-return]


def _norm(inner: nn.BatchNorm2d, channels: torch.Tensor) -> nn.Module:
    fewer = _own(inner)
    fewer.weight, fewer.bias = _parameter(inner.weight, channels), _parameter(inner.bias, channels)
    for name in ("running_mean", "running_var"):
        statistic = getattr(inner, name)
        fewer._buffers[name] = None if statistic is None else statistic[channels].clone()  # noqa: SLF001
    fewer.num_features = len(channels)
    return fewer  # type: ignore[no-any-return]

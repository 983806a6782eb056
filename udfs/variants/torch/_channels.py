"""Channels of the tensors in a network, and the layers that make and read them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from udfs.variants.torch._layers import CONVOLUTIONS
from udfs.variants.torch._resized_layers import CHANNEL_LAYERS

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

__all__ = ["ChannelUse", "Channels"]

# Layers and functions that compute a channel of the result from the same channel of the input.
_MODULES = (
    *(nn.ReLU, nn.ReLU6, nn.Hardswish, nn.Hardsigmoid, nn.SiLU, nn.GELU, nn.Sigmoid, nn.Tanh, nn.ELU, nn.LeakyReLU),
    *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.Flatten, nn.Upsample, nn.ZeroPad2d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool2d),
)
_FUNCTIONS = frozenset(
    (
        *("relu", "relu_", "relu6", "hardtanh", "hardswish", "hardsigmoid", "silu", "gelu", "sigmoid", "tanh", "elu"),
        *("leaky_relu", "clamp", "dropout", "dropout2d", "contiguous", "clone", "detach", "float", "to", "pad"),
        *("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
        *("adaptive_max_pool2d", "interpolate"),
    )
)
_ARITHMETIC = frozenset(("add", "iadd", "add_", "sub", "isub", "mul", "imul", "mul_", "truediv", "div", "neg"))
_REDUCTIONS = frozenset(("mean", "sum", "amax", "amin"))
_SHAPES = frozenset(("flatten", "view", "reshape", "squeeze", "unsqueeze"))


@dataclass(slots=True)
class ChannelUse:
    """Numbers of the channels that a layer makes and reads; those of a norm or depthwise convolution are the same.

    ``outputs`` and ``inputs`` have an entry for each index of the layer's weight; a channel may occur several times.
    """

    outputs: NDArray[np.int64]
    inputs: NDArray[np.int64]
    per_channel: bool


class Channels(fx.Interpreter):
    """Interpreter that numbers the channels of each tensor and joins those that must stay or go together.

    Channels that anything unknown reads are fixed, as are those of inputs and outputs.
    """

    def __init__(self, traced: fx.GraphModule, replaceable: Collection[str]) -> None:
        super().__init__(traced)
        self._replaceable = replaceable
        self._numbers: dict[fx.Node, NDArray[np.int64]] = {}
        self._shapes: dict[fx.Node, tuple[int, ...]] = {}
        self._parents: list[int] = []
        self._fixed: list[int] = []
        self.uses: dict[str, ChannelUse] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run a node, and number the channels of its result."""
        value = super().run_node(n)
        sources = [source for source in n.all_input_nodes if source in self._numbers]
        tensors = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        if n.op == "output":
            self._fix(sources)
        elif tensors and n.op != "get_attr":
            whole = isinstance(value, torch.Tensor) and value.dim() > 1
            numbers = self._made(n, sources, tuple(value.shape)) if whole else None
            if numbers is None:
                self._fix(sources)
                numbers = self._new(value.shape[1] if whole else 0)
                self._fixed.extend(numbers)
            if isinstance(value, torch.Tensor):
                self._numbers[n], self._shapes[n] = numbers, tuple(value.shape)
        return value

    def classes(self) -> tuple[NDArray[np.int64], set[int]]:
        """Return the class of each channel, and the classes that are fixed."""
        roots = np.array([self._root(number) for number in range(len(self._parents))], dtype=np.int64)
        return roots, {int(roots[number]) for number in self._fixed}

    def _made(self, node: fx.Node, sources: list[fx.Node], shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        """Return the channels of a tensor that are computed from single ones; ``None`` if they are not."""
        if node.op == "call_module":
            return self._of_module(node, sources, shape)
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if name == "cat" and sources:
            return self._joined(node, sources, shape)
        if name in _ARITHMETIC and sources:
            return self._combined(node, sources, shape)
        return self._passed(node, name, sources[0], shape) if len(sources) == 1 else None

    def _passed(self, node: fx.Node, name: str, source: fx.Node, shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        if name in _SHAPES and not _has_numbers(node, name):
            return self._reshaped(source, shape)
        if name in _FUNCTIONS or (name in _REDUCTIONS and _is_spatial(node, len(self._shapes[source]))):
            return self._kept(source, shape)
        return None

    def _of_module(self, node: fx.Node, sources: list[fx.Node], shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        path, inner = str(node.target), self.fetch_attr(str(node.target))
        if type(inner) in _MODULES and len(sources) == 1:
            rank = len(self._shapes[sources[0]])
            reshapes = isinstance(inner, nn.Flatten) and (inner.start_dim, inner.end_dim) in ((1, -1), (1, rank - 1))
            return self._reshaped(sources[0], shape) if reshapes else self._kept(sources[0], shape)
        if path not in self._replaceable or len(sources) != 1:
            return None
        numbers = self._numbers[sources[0]]
        if type(inner) is nn.PReLU and inner.num_parameters == 1:
            return numbers
        depthwise = type(inner) in CONVOLUTIONS and inner.groups == inner.in_channels == inner.out_channels > 1
        dense = type(inner) in CONVOLUTIONS and inner.groups == 1 and len(shape) == inner.weight.dim()
        if type(inner) in CHANNEL_LAYERS or depthwise:
            return self._used(path, numbers, None)
        return self._used(path, numbers, shape[1]) if dense or (type(inner) is nn.Linear and len(shape) == 2) else None

    def _used(self, path: str, inputs: NDArray[np.int64], width: int | None) -> NDArray[np.int64]:
        """Record a call of a layer; a layer that is called again makes and reads the channels of its first call."""
        if path not in self.uses:
            outputs = inputs if width is None else self._new(width)
            self.uses[path] = ChannelUse(outputs, inputs, width is None)
        self._unite(self.uses[path].inputs, inputs)
        return self.uses[path].outputs

    def _kept(self, source: fx.Node, shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        return self._numbers[source] if shape[1] == len(self._numbers[source]) else None

    def _reshaped(self, source: fx.Node, shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        numbers, before = self._numbers[source], self._shapes[source]
        if len(before) < 2 or shape[0] != before[0]:
            return None
        if shape[1] == before[1]:
            return numbers
        places = math.prod(before[2:])
        return np.repeat(numbers, places) if len(shape) == 2 and shape[1] == len(numbers) * places else None

    def _joined(self, node: fx.Node, sources: list[fx.Node], shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        parts = node.args[0]
        axis = _axis(node, 0)
        if axis not in (1, 1 - len(shape)) or not isinstance(parts, list | tuple) or set(parts) != set(sources):
            return None
        return np.concatenate([self._numbers[part] for part in parts])  # type: ignore[index]  # nodes, as compared

    def _combined(self, node: fx.Node, sources: list[fx.Node], shape: tuple[int, ...]) -> NDArray[np.int64] | None:
        """Join the channels of operands that have as many; other operands must be numbers."""
        others = [value for value in node.all_input_nodes if value not in sources]
        if any(isinstance(self.env.get(value), torch.Tensor) and self.env[value].numel() > 1 for value in others):
            return None
        first, *rest = sources
        if any(len(self._shapes[source]) != len(shape) or self._shapes[source][1] != shape[1] for source in sources):
            return None
        for source in rest:
            self._unite(self._numbers[first], self._numbers[source])
        return self._numbers[first]

    def _new(self, count: int) -> NDArray[np.int64]:
        start = len(self._parents)
        self._parents.extend(range(start, start + count))
        return np.arange(start, start + count)

    def _fix(self, nodes: list[fx.Node]) -> None:
        for node in nodes:
            self._fixed.extend(int(number) for number in self._numbers[node])

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def _unite(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
        if first is second:
            return
        for number, other in zip(first, second, strict=True):
            self._parents[self._root(int(number))] = self._root(int(other))


def _has_numbers(node: fx.Node, name: str) -> bool:
    """Return whether a reshape states a size in code, which another number of channels would not fit."""
    if name in ("squeeze", "unsqueeze"):
        return False
    if name == "flatten":
        return (*node.args[1:], *node.kwargs.values()) not in ((1,), (1, -1))
    stated = tree_leaves((node.args[1:], node.kwargs))
    return any(isinstance(size, int) and size > 1 for size in stated)


def _axis(node: fx.Node, default: int | None) -> Any:
    """Return the axis, or axes, that a function works on."""
    return node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis", default))


def _is_spatial(node: fx.Node, rank: int) -> bool:
    """Return whether a reduction is over axes after the channels."""
    listed = tree_leaves(_axis(node, None))
    return bool(listed) and all(isinstance(axis, int) and axis % rank > 1 for axis in listed)

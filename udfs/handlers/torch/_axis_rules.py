"""Rules by which an operation of torch moves the meanings of the axes of the tensors that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from udfs.handlers._axes import (
    BATCH,
    CHANNEL,
    COLUMN,
    OTHER,
    PLACE,
    ROW,
    Axis,
    broadcast,
    concatenated,
    regrouped,
    resized,
    sliced,
)
from udfs.handlers.torch._names import operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from udfs.handlers._axes import Axes
    from udfs.handlers.torch._measure import Measure

__all__ = ["SLIDING", "UNKNOWN", "Follower", "Meaning"]

# Operations that only reorder, select or repeat entries: torch tells by strides where each axis went.
_VIEWS = frozenset(
    {
        *("permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "adjoint", "numpy_T"),
        *("getitem", "select", "slice", "narrow", "split", "split_with_sizes", "chunk", "tensor_split", "unbind"),
        *("expand", "expand_as", "unsqueeze", "squeeze", "unfold"),
    }
)
_PERMUTED_ATTRIBUTES = frozenset({"T", "mT", "H", "mH"})
_RESHAPES = frozenset(
    {
        "reshape",
        "view",
        "flatten",
        "unflatten",
        "ravel",
        "reshape_as",
        "view_as",
        "_unsafe_view",
        "Flatten",
        "Unflatten",
    }
)
_REDUCTIONS = frozenset(
    {
        *("mean", "sum", "amax", "amin", "max", "min", "std", "var", "norm", "logsumexp", "prod", "median"),
        *("argmax", "argmin", "any", "all", "linalg_vector_norm", "vector_norm"),
    }
)
_CONCATENATIONS = frozenset({"cat", "concat", "concatenate", "hstack", "vstack", "stack"})
_PRODUCTS = frozenset({"matmul", "bmm", "mm", "baddbmm", "addbmm", "addmm"})
_LINEAR = frozenset({"linear", "Linear", "LazyLinear", "Bilinear", "Embedding", "embedding"})
_ATTENTION = frozenset({"scaled_dot_product_attention", "MultiheadAttention", "multi_head_attention_forward"})

# Convolutions and what else gives the second axis a new meaning, by the number of axes that they slide over.
_CONVOLUTIONS = {
    **dict.fromkeys(("Conv1d", "LazyConv1d", "conv1d", "ConvTranspose1d", "conv_transpose1d"), 1),
    **dict.fromkeys(("Conv2d", "LazyConv2d", "conv2d", "ConvTranspose2d", "conv_transpose2d"), 2),
    **dict.fromkeys(("PixelShuffle", "pixel_shuffle", "PixelUnshuffle", "pixel_unshuffle", "Fold", "fold"), 2),
    **dict.fromkeys(("Conv3d", "LazyConv3d", "conv3d", "ConvTranspose3d", "conv_transpose3d"), 3),
}
SLIDING = {1: (PLACE,), 2: (ROW, COLUMN), 3: (PLACE, PLACE, PLACE)}
_PATCHES = frozenset({"Unfold", "unfold", "im2col"})
_PATCHES_RANK = 3

# Strides by which the axes of a probe are told apart: primes, for slices with a step multiply them.
_PRIMES = (10_007, 10_009, 10_037, 10_039, 10_061, 10_067, 10_069, 10_079, 10_091, 10_093)


@dataclass(frozen=True)
class _Unknown:
    """Stands for the axes of a value that depends on the image in a way that is not followed."""


UNKNOWN = _Unknown()

# Axes of a tensor; a tuple of axes of several; unknown; or nothing for values that are the same for all records.
Meaning = Any


class Follower:
    """Rules by which one node moves the axes of what it reads."""

    def __init__(
        self, module: fx.GraphModule, node: fx.Node, measured: Measure, read: Mapping[fx.Node, Meaning]
    ) -> None:
        self._node, self._values, self._read = node, measured.values, read
        self._value = measured.values[node.name]
        self._inner = module.get_submodule(str(node.target)) if node.op == "call_module" else None
        self._name = type(self._inner).__name__ if self._inner is not None else operation(node)

    def follow(self) -> Meaning:
        """Find the meaning of the node's value."""
        name, first = self._name, self._first()
        if name == "getattr" and self._node.args[1] in _PERMUTED_ATTRIBUTES:
            return self._viewed(first)
        if name == "getitem" and isinstance(first, list):
            return first[self._node.args[1]]  # type: ignore[index]
        if first is UNKNOWN and name not in _CONVOLUTIONS:
            return UNKNOWN
        shape = tuple(self._value.shape) if isinstance(self._value, torch.Tensor) else ()
        for names, rule in _RULES:
            if name in names:
                return rule(self, first, shape)
        return self._by_entry(first, shape) if shape else self._several(first)

    def _linear(self, first: Meaning, shape: tuple[int, ...]) -> Meaning:
        kept = first if len(first) > len(shape) - 1 else (*first, Axis())
        return (*kept[: len(shape) - 1], Axis.single(CHANNEL, shape[-1]))

    def _patches(self, first: Meaning, shape: tuple[int, ...]) -> Meaning:
        if len(shape) != _PATCHES_RANK or len(first) != _PATCHES_RANK + 1:
            return self._viewed(first)
        return (first[0], Axis.single(CHANNEL, shape[1]), Axis.single(PLACE, shape[2]))

    def _regrouped(self, first: Meaning, shape: tuple[int, ...]) -> Meaning:
        return regrouped(first, shape)

    def _by_entry(self, first: Meaning, shape: tuple[int, ...]) -> Meaning:
        """Follow an operation that is not known: on each entry, or on rows and columns whose number it changes."""
        if len(first) == len(shape) and first is self._only():
            return resized(first, shape, tokens="pool" in self._name.lower())
        return broadcast([axes for axes in self._read.values() if _is_axes(axes)], shape)

    def _first(self) -> Meaning:
        """Return the meaning of the first argument that depends on the image."""
        return next(meaning for meaning in self._read.values() if meaning)

    def _only(self) -> Meaning:
        known = [meaning for meaning in self._read.values() if meaning]
        return known[0] if len(known) == 1 else None

    def _argument(self, place: int, name: str, default: Any = None) -> Any:
        node = self._node
        return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)

    def _of(self, argument: Any) -> Meaning:
        return self._read.get(argument) if isinstance(argument, fx.Node) else None

    def _several(self, first: Meaning) -> Meaning:
        """Follow an operation that returns several tensors, as max and topk do, or a recurrent layer."""
        if not _is_axes(first):
            return UNKNOWN
        if self._name in _REDUCTIONS:
            return [
                self._reduced(first) if part.dim() < len(first) else resized(first, part.shape) for part in self._value
            ]
        same = [resized(first, part.shape) if isinstance(part, torch.Tensor) else None for part in self._value]
        return [axes or UNKNOWN for axes in same]

    def _attention(self, first: Meaning, _shape: tuple[int, ...]) -> Meaning:
        value = self._value[0] if isinstance(self._value, (tuple, list)) else self._value
        query = self._of(self._argument(0, "query"))
        if query is None:  # queries that the network learned: no place of the image has them
            if value.dim() != _PATCHES_RANK or first[0].extent != value.shape[0]:
                return UNKNOWN
            query = (first[0], Axis.single(OTHER, value.shape[1]), Axis())
        axes = (*query[:-1], Axis.single(CHANNEL, value.shape[-1]))
        if not isinstance(self._value, (tuple, list)):
            return axes
        return [axes, *([UNKNOWN] * (len(self._value) - 1))]

    def _convolved(self, first: Meaning, shape: tuple[int, ...]) -> Meaning:
        sliding = _CONVOLUTIONS[self._name]
        if len(shape) != sliding + 2:
            return UNKNOWN
        pairs = zip(SLIDING[sliding], shape[2:], strict=True)
        places = [Axis.single(meaning, extent) for meaning, extent in pairs]
        if not _is_axes(first) or len(first) != len(shape):
            return (Axis.single(BATCH, shape[0]), Axis.single(CHANNEL, shape[1]), *places)
        rest = resized(first[2:], shape[2:])
        if rest is None or (self._kernel() > 1 and any(CHANNEL in axis.meanings for axis in rest)):
            rest = tuple(places)
        # A convolution with a kernel of 1 may mix tokens, and slide over channels: the other axes keep their meaning.
        return (first[0], Axis.single(CHANNEL, shape[1]), *rest)

    def _kernel(self) -> int:
        """Return the longest side of a convolution's kernel; 2 where the operation has none."""
        sides = getattr(self._inner, "kernel_size", None)
        weight = self._argument(1, "weight")
        if sides is None and isinstance(weight, fx.Node) and "conv" in self._name:
            sides = tuple(self._values[weight.name].shape[2:])
        return 2 if sides is None else max(sides) if isinstance(sides, tuple) else int(sides)

    def _viewed(self, first: Meaning, _shape: tuple[int, ...] = ()) -> Meaning:
        if not _is_axes(first):
            return UNKNOWN
        probed = next(below for below in self._node.all_input_nodes if _is_axes(self._read[below]))
        value = self._values[probed.name]
        strides = _PRIMES[: value.dim()]
        probe = torch.empty_strided(tuple(value.shape), strides, device="meta")

        def lent(below: fx.Node) -> Any:
            return probe if below is probed else self._values[below.name]

        args, kwargs = fx.node.map_arg((self._node.args, self._node.kwargs), lent)
        if self._inner is not None:
            seen = self._inner(*args, **kwargs)
        elif self._node.op == "call_method":
            seen = getattr(args[0], str(self._node.target))(*args[1:], **kwargs)
        else:
            seen = self._node.target(*args, **kwargs)  # type: ignore[operator]
        if isinstance(seen, torch.Tensor):
            return _seen(first, strides, seen)
        return [_seen(first, strides, part) or UNKNOWN for part in seen]

    def _concatenated(self, _first: Meaning, shape: tuple[int, ...]) -> Meaning:
        parts = self._argument(0, "tensors")
        values = [self._values[part.name] for part in parts]
        meanings = [self._of(part) for part in parts]
        if any(meaning is not None and not _is_axes(meaning) for meaning in meanings):
            return UNKNOWN
        named = {"hstack": 1, "vstack": 0, "stack": 0}.get(self._name, 0)
        place = int(self._argument(1, "dim", self._node.kwargs.get("axis", named))) % len(shape)
        if self._name == "stack":
            axes = broadcast([axes for axes in meanings if axes], values[0].shape)
            # Parallel values of one kind, as queries, keys and values, are more channels.
            return UNKNOWN if axes is None else (*axes[:place], Axis.single(CHANNEL, shape[place]), *axes[place:])
        return concatenated([(axes, value.shape[place]) for axes, value in zip(meanings, values, strict=True)], place)

    def _product(self, _first: Meaning, shape: tuple[int, ...]) -> Meaning:
        tensors = [argument for argument in self._node.args if isinstance(argument, fx.Node)][-2:]
        left, right = (self._of(tensor) for tensor in tensors)
        last = right[-1] if _is_axes(right) and len(right) > 1 else Axis.single(CHANNEL, shape[-1])
        if _is_axes(left):
            if len(left) == len(shape):
                return (*left[:-1], last)
            return (
                (*right[: len(shape) - 2], left[-2], last) if _is_axes(right) and len(right) == len(shape) else UNKNOWN
            )
        # Weights that mix the entries of the second last axis, or queries: the result has new ones.
        before = Axis.single(CHANNEL, shape[-2])
        return (*right[:-2], before, last) if len(right) == len(shape) else UNKNOWN

    def _einsum(self, _first: Meaning, _shape: tuple[int, ...]) -> Meaning:
        operands = self._node.args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = tuple(operands[0])
        equation = str(self._node.args[0]).replace(" ", "")
        read, _, written = equation.partition("->")
        if not written or "." in equation:
            return UNKNOWN
        letters: dict[str, list[Axis]] = {}
        for term, operand in zip(read.split(","), operands, strict=True):
            axes = self._of(operand)
            extents = self._values[operand.name].shape  # type: ignore[union-attr, index]
            for place, letter in enumerate(term):
                axis = axes[place] if _is_axes(axes) else Axis.single(CHANNEL, extents[place])
                letters.setdefault(letter, []).append(axis)
        choice = {
            letter: max(axes, key=lambda axis: (BATCH in axis.meanings, axis.has_others, axis.is_places))
            for letter, axes in letters.items()
        }
        return tuple(choice[letter] for letter in written)

    def _reductions(self, first: Meaning, shape: tuple[int, ...]) -> Meaning:
        if isinstance(self._value, (tuple, list)):
            return self._several(first)
        return self._reduced(first) if len(shape) < len(first) else resized(first, shape)

    def _reduced(self, first: Meaning) -> Meaning:
        dims = self._argument(1, "dim", self._node.kwargs.get("axis"))
        if self._name in ("norm", "linalg_vector_norm", "vector_norm"):
            dims = self._argument(2, "dim", self._node.kwargs.get("axis"))
        if dims is None:
            return UNKNOWN
        removed = {int(dim) % len(first) for dim in (dims if isinstance(dims, (list, tuple)) else [dims])}
        return tuple(axis for place, axis in enumerate(first) if place not in removed)


# Rules by the names of operations and of modules; the first that has the name decides.
_RULES: tuple[tuple[Collection[str], Callable[[Follower, Meaning, tuple[int, ...]], Meaning]], ...] = (
    (_ATTENTION, Follower._attention),
    (_CONVOLUTIONS, Follower._convolved),
    (_PATCHES, Follower._patches),
    (_LINEAR, Follower._linear),
    (_VIEWS, Follower._viewed),
    (_RESHAPES, Follower._regrouped),
    (_CONCATENATIONS, Follower._concatenated),
    (_PRODUCTS, Follower._product),
    (_REDUCTIONS, Follower._reductions),
    (("einsum",), Follower._einsum),
)


def _is_axes(meaning: Meaning) -> bool:
    return isinstance(meaning, tuple) and all(isinstance(axis, Axis) for axis in meaning)


def _seen(axes: Axes, strides: Sequence[int], view: torch.Tensor) -> Axes | None:
    """Return the axes of a view of a probe, by their strides and by where the view begins."""
    begin = int(view.storage_offset())
    starts = dict.fromkeys(range(len(strides)), 0)
    for place in sorted(starts, key=lambda place: -axes[place].extent):
        # Slices begin within one axis, as a rule; of several, the first that explains the offset counts.
        if begin and begin % strides[place] == 0 and begin // strides[place] < axes[place].extent:
            starts[place], begin = begin // strides[place], 0
    if begin and any(axis.has_others for axis in axes):
        return None
    result: list[Axis | None] = []
    for extent, stride in zip(view.shape, view.stride(), strict=True):
        source = next((place for place, prime in enumerate(strides) if stride and stride % prime == 0), None)
        if source is None:
            result.append(Axis() if extent == 1 else None)
            continue
        result.append(sliced(axes[source], starts[source], extent, stride // strides[source]))
    return None if None in result else tuple(axis for axis in result if axis is not None)

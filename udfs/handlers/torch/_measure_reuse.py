"""Sizes and effects of nodes that this process has measured before, by all that decides them and by no weight's values.

Blocks of one network are alike, and so are the candidates of a search: most of their nodes call the same operation, in
the same configuration, on tensors of the same sizes.
"""

from __future__ import annotations

import builtins
import math
import operator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map

from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._user_code import MODULE_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from udfs.handlers.torch._effects import NodeEffects

__all__ = ["Known", "Questions", "UnknownError", "known", "plain", "remember", "stand_in"]

# Questions that are remembered; a network has tens.
_MOST = 20_000

# Attributes of every module of torch, which say nothing of what it computes; its tensors are asked for apart.
_OF_ALL = MODULE_ATTRIBUTES - {"training"}

# Written as they are. The type is told too: 1, 1.0 and True are equal.
_PLAIN = (bool, int, str, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format, type(None), type(...))

_NAMESPACES = ("aten", "prims")

# Where functions in C are found by their names.
_PLACES = (torch, nn.functional, torch.linalg, torch.special, torch.fft, operator, builtins, math)


class UnknownError(Exception):
    """Error of a value whose behaviour cannot be predicted. Only passes within the opening of a model."""


@dataclass(frozen=True)
class Known:
    """Measured result of a node.

    ``value`` has tensors of the same sizes, strides and types on the meta device, and ``told`` is the value as
    questions of its readers have it. ``same_as`` is the place, among the nodes that it reads, of the one whose very
    value it hands on. ``made`` makes the value anew, on fake tensors.
    """

    value: Any
    told: Hashable
    same_as: int | None
    flops: int
    effects: NodeEffects
    made: Callable[[], Any]


_KNOWN: dict[Hashable, Known] = {}


def known(question: Hashable) -> Known | None:
    """Find the answer to a question of :meth:`Questions.of`."""
    return _KNOWN.get(question)


def remember(question: Hashable, answer: Known) -> None:
    """Keep an answer for the rest of the process."""
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    _KNOWN[question] = answer


class Questions:
    """Keys of the nodes of a graph, each with all that decides the sizes and effects of its node.

    That is the operation with its constants, or a module of torch with all its attributes, in its mode; sizes, strides,
    types and devices of the tensors that it reads and holds, which of them learn, which are one and the same, and which
    are buffers; and how torch is set. Values of weights are no part of it, but for tensors of one number, which fake
    tensors compute with. The tensors of the captured module must not change meanwhile; ``buffers`` are ids of its
    buffers.

    What is not of torch or of Python itself is never asked about, as a user's function in the graph: another time it
    may do another thing.
    """

    def __init__(self, module: fx.GraphModule, buffers: Collection[int]) -> None:
        self._module = module
        self._buffers = buffers
        self._modules = dict(module.named_modules())
        tensors = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
        for node in module.graph.nodes:
            if node.op == "get_attr":
                value = self._attribute(str(node.target))
                if isinstance(value, torch.Tensor):
                    tensors[id(value)] = value
        # Before any mode is on, under which no number can be read.
        single = {place: tensor for place, tensor in tensors.items() if tensor.numel() == 1 and not tensor.is_meta}
        self._numbers = {place: repr(tensor.tolist()) for place, tensor in single.items()}
        self._settings = _settings()
        self._told: dict[fx.Node, Hashable] = {}
        # The node or the tensor that a value really is.
        self._roots: dict[fx.Node, Hashable] = {}

    def of(self, node: fx.Node) -> Hashable:
        """Ask about a node, all of whose arguments were answered; UnknownError where only a run can tell."""
        places: dict[Hashable, int] = {}

        def read(below: fx.Node) -> Any:
            if below not in self._told:
                raise UnknownError
            root = self._roots[below]
            return _Told((places.setdefault(root, len(places)), self._told[below]))

        arguments = self._tell(fx.node.map_arg((node.args, node.kwargs), read), places)
        if node.op == "call_module":
            called = self._configuration(self._modules[str(node.target)], places)
        elif node.op == "call_method":
            called = str(node.target)
        elif node.op == "call_function" and _is_of_torch(node.target):
            called = node.target
        else:
            raise UnknownError
        return node.op, called, arguments, self._settings

    def answer(self, node: fx.Node, answer: Known) -> None:
        """Take a node's answer, of which its readers' questions are made."""
        self._told[node] = answer.told
        sources = node.all_input_nodes
        self._roots[node] = node if answer.same_as is None else self._roots[sources[answer.same_as]]

    def answered_by_run(self, node: fx.Node, value: Any) -> None:
        """Take a node's value from a run of it alone, such as an input or a tensor of the model."""
        try:
            self._told[node] = self._tell(value, {})
        except UnknownError:
            return
        self._roots[node] = ("held", id(value)) if node.op == "get_attr" else node

    def tell(self, value: Any) -> Hashable:
        """Describe a node's value; UnknownError if it has something other than tensors and plain values."""
        return self._tell(value, {})

    def _tell(self, value: Any, places: dict[Hashable, int]) -> Hashable:
        if isinstance(value, _Told):
            return value.told
        if isinstance(value, torch.Tensor):
            return self._tensor(value, places)
        if isinstance(value, (tuple, list, dict, slice)):
            return type(value), tuple(self._tell(entry, places) for entry in _entries(value))
        return value if _is_of_torch(value) else plain(value)

    def _tensor(self, value: torch.Tensor, places: dict[Hashable, int]) -> Hashable:
        if type(value) not in (torch.Tensor, nn.Parameter, FakeTensor) or value.layout is not torch.strided:
            raise UnknownError
        number = None
        if isinstance(value, FakeTensor):
            if value.constant is not None:
                raise UnknownError
        elif value.numel() == 1 and not value.is_meta:
            if id(value) not in self._numbers:
                raise UnknownError
            number = self._numbers[id(value)]
        real = not isinstance(value, FakeTensor)
        place = places.setdefault(("held", id(value)), len(places)) if real else None
        return (
            *(type(value), tuple(value.shape), value.stride(), value.storage_offset(), value.dtype, value.device),
            *(value.requires_grad, value.is_conj(), value.is_neg(), value.is_inference()),
            *(number, place, id(value) in self._buffers),
        )

    def _configuration(self, inner: nn.Module, places: dict[Hashable, int]) -> Hashable:
        told: list[Hashable] = []
        for path, part in inner.named_modules():
            if not type(part).__module__.startswith("torch.nn.") or has_hooks(part):
                raise UnknownError
            state = vars(part)
            tensors = {**state["_parameters"], **state["_buffers"]}
            others = {name: value for name, value in state.items() if name not in _OF_ALL}
            told.append((path, type(part), self._tell(tensors, places), self._tell(others, places)))
        return tuple(told)

    def _attribute(self, path: str) -> Any:
        parent, _, leaf = path.rpartition(".")
        return getattr(self._modules[parent], leaf)


class _Told:
    """Reference to a measured node in the arguments of another."""

    __slots__ = ("told",)

    def __init__(self, told: Hashable) -> None:
        self.told = told


def stand_in(value: Any) -> tuple[Any, Callable[[], Any]]:
    """Describe a node's value without its memory and its history.

    Return the value with tensors on the meta device, and a function that makes it anew on fake ones, within their mode.
    """

    def described(part: Any) -> Any:
        if not isinstance(part, torch.Tensor):
            return part
        return _Sizes(tuple(part.shape), part.stride(), part.dtype, part.device, part.requires_grad)

    sizes = tree_map(described, value)
    with torch.no_grad():
        empty = tree_map(lambda part: part.made("meta") if isinstance(part, _Sizes) else part, sizes)
    return empty, lambda: tree_map(lambda part: part.made() if isinstance(part, _Sizes) else part, sizes)


@dataclass(frozen=True)
class _Sizes:
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    learns: bool

    def made(self, device: str | None = None) -> torch.Tensor:
        made = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device or self.device)
        return made.requires_grad_(self.learns)


def _entries(value: Any) -> tuple[Any, ...]:
    if isinstance(value, slice):
        return value.start, value.stop, value.step
    return tuple(entry for item in value.items() for entry in item) if isinstance(value, dict) else tuple(value)


def plain(value: Any) -> Hashable:
    """Write a plain value with its type, as a part of a key; UnknownError if it is none of torch or Python."""
    if type(value) in (float, complex):
        # Not a number is unlike itself; zero is like minus zero.
        return type(value), repr(value)
    if type(value) in _PLAIN:
        return type(value), value
    raise UnknownError


def _is_of_torch(function: Any) -> bool:
    """Return whether a function is torch's or Python's own, which does the same each time."""
    if isinstance(function, torch._ops.OpOverload):  # has no public name
        return function.namespace in _NAMESPACES
    if isinstance(function, FunctionType):
        # Not by __module__, which a function that wraps another has from that one.
        return _is_torch(function.__globals__.get("__name__"))
    if isinstance(function, BuiltinFunctionType):
        return any(getattr(place, function.__name__, None) is function for place in _PLACES)
    return False


def _is_torch(module: Any) -> bool:
    return str(module).partition(".")[0] == "torch"


_ATTENTION: tuple[Callable[[], bool], ...] = (
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.mem_efficient_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled,
)


def _settings() -> Hashable:
    """Return the settings of torch that decide how an operation runs."""
    backends = torch.backends
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        *(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")),
        *(torch.get_autocast_dtype(device) for device in ("cpu", "cuda")),
        backends.mha.get_fastpath_enabled(),
        backends.mkldnn.enabled,
        backends.cudnn.enabled,
        *(told() for told in _ATTENTION),
    )

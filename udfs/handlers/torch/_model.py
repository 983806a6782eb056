"""The PyTorch handler: trace any ``torch.nn.Module`` into a layer graph, and run the part between two cuts."""

from __future__ import annotations

import operator
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import fx, nn

from optimizer.errors import GraphError, UnknownLayerError
from udfs.handlers._outputs import keyed_outputs, output_at
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._batch_size import is_batch_size, reads
from udfs.handlers.torch._bfloat16 import to_bfloat16
from udfs.handlers.torch._constants import constant, is_constant
from udfs.handlers.torch._fuse import fuse
from udfs.handlers.torch._graph import layer_graph
from udfs.handlers.torch._layout import needs_contiguous
from udfs.handlers.torch._layouts import layouts
from udfs.handlers.torch._measure import strides
from udfs.handlers.torch._names import node_names, returned_structure
from udfs.handlers.torch._part import keys, part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import LayerGraph
    from udfs.handlers._layer_layout import LayerLayout
    from udfs.tensors import TensorSpec

__all__ = ["TorchModel"]

_IMAGE_RANK = 4

# Dictionaries of Python and of fx.
_PLAIN = (dict, fx.immutable_collections.immutable_dict)


class TorchModel:
    """A torch model opened into layers.

    The graph itself (shapes, FLOPs, fingerprints) is made when it is first asked for: a Spark worker that only runs a
    part never pays for it. :meth:`prepare` moves the parameters to ``device``, torch's name of where to run.
    ``original`` is the module that was captured.
    """

    def __init__(
        self, module: fx.GraphModule, inputs: Sequence[TensorSpec], device: str = "cpu", *, original: nn.Module
    ) -> None:
        self._module = module
        self._original = original
        self._inputs = tuple(inputs)
        self._device = device
        self._modules = dict(module.named_modules())
        names = node_names(module)
        self._nodes = {names[node.name]: node for node in module.graph.nodes}
        self._names = {node: name for name, node in self._nodes.items()}
        self._returned = {path: names[node] for path, node in module.meta["returned"].items()}
        self._schedules: dict[tuple[frozenset[str], tuple[str, ...]], list[tuple[fx.Node, tuple[fx.Node, ...]]]] = {}
        self._layout = torch.contiguous_format
        self._prepared = False
        self._reads_strides = needs_contiguous(module)

    def prepare(self, threads: int) -> TorchModel:
        """Make ready to run many batches; see :meth:`udfs.handlers.TracedModel.prepare`."""
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if not self._prepared:
            self._check_values()
            fastest = self._has_convolutions() and not self._reads_strides
            self._module.to(self._device)
            self._lay_out(torch.channels_last if fastest else torch.contiguous_format)
            self._prepared = True
            for made_before in ("_fused", "_bfloat16"):
                self.__dict__.pop(made_before, None)
        return self

    def _check_values(self) -> None:
        """Refuse weights on the meta device, which has shapes and no numbers."""
        named = (*self._module.named_parameters(), *self._module.named_buffers())
        empty = next((name for name, tensor in named if tensor.is_meta), None)
        if empty is not None:
            raise UntraceableModelError(
                f"the network reads a tensor that torch does not know as a weight ({empty}), so that it has no values "
                "on the workers: hold it as an nn.Parameter or by register_buffer"
            )

    def _lay_out(self, layout: torch.memory_format) -> None:
        self._layout = layout
        self.__dict__.pop("_strides", None)
        for tensor in (*self._module.parameters(), *self._module.buffers()):
            if tensor.dim() == _IMAGE_RANK:
                tensor.data = tensor.data.contiguous(memory_format=layout)

    def share_weights(self, other: object) -> int:
        """Read weights that another network has as well from its memory, and free the own ones.

        Return the number of shared bytes, 0 where ``other`` is no prepared :class:`TorchModel`.
        """
        if not isinstance(other, TorchModel) or other is self:
            return 0
        there: dict[Any, list[torch.Tensor]] = {}
        theirs = other._module  # of its own class
        for tensor in (*theirs.parameters(), *theirs.buffers()):
            there.setdefault(_kind(tensor), []).append(tensor)
        shared = 0
        for tensor in (*self._module.parameters(), *self._module.buffers()):
            equal = next((each for each in there.get(_kind(tensor), []) if torch.equal(each, tensor)), None)
            if equal is not None:
                tensor.data = equal.data
                shared += tensor.nbytes
        return shared

    def fused(self) -> TorchModel:
        """Return the same network in fewer passes: batch norms folded into convolutions, activations in place.

        Its outputs are the same to rounding. Its graph has no layer for what was folded, and a tensor that an
        activation overwrites has that activation's values.

        Examples
        --------
        >>> from udfs.handlers import TensorSpec
        >>> from udfs.handlers.torch import FRAMEWORK
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
        >>> traced = FRAMEWORK.trace(net, [TensorSpec((3, 8, 8))])
        >>> traced.graph.names, traced.fused().graph.names
        (('input_1', '0', '1', '2'), ('input_1', '0', '2'))
        """
        return self._fused

    @cached_property
    def _fused(self) -> TorchModel:
        fused = TorchModel(fuse(self._module), self._inputs, self._device, original=self._original)
        fused._layout, fused._prepared, fused._reads_strides = self._layout, self._prepared, self._reads_strides
        return fused

    def bfloat16(self) -> TorchModel:
        """Return the same network in half the memory: its parameters and input tensors are bfloat16.

        But for its last layers, where those are modules: they stay in float32, and so do its outputs. Twice as fast
        where the processor has instructions for bfloat16, or the accelerator has; slower on others.

        Examples
        --------
        >>> from udfs.handlers import TensorSpec
        >>> from udfs.handlers.torch import FRAMEWORK
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)).eval()
        >>> lean = FRAMEWORK.trace(net, [TensorSpec((3, 8, 8))]).bfloat16()
        >>> tensors = lean.tensors({"input_1": torch.ones(1, 3, 8, 8, dtype=torch.bfloat16)}, ["0", "2"])
        >>> tensors["0"].dtype, tensors["2"].dtype
        (torch.bfloat16, torch.float32)
        """
        return self._bfloat16

    @cached_property
    def _bfloat16(self) -> TorchModel:
        lean = TorchModel(to_bfloat16(self._module), self._inputs, self._device, original=self._original)
        lean._layout, lean._prepared, lean._reads_strides = self._layout, self._prepared, self._reads_strides
        lean.graph = self.graph  # the layers are the same, and it is measured in float32
        return lean

    @property
    def device(self) -> str:
        """Torch's name of where it runs."""
        return self._device

    @property
    def original(self) -> nn.Module:
        """The user's own module, which this model neither moves nor changes: what ``torch.compile`` wraps, of that."""
        return self._original

    @property
    def output_keys(self) -> tuple[str | int, ...]:
        """Keys of the outputs; see :attr:`udfs.handlers.TracedModel.output_keys`."""
        return tuple(self._outputs)

    def output_layer(self, key: str | int) -> str:
        """Find the layer of an output; see :meth:`udfs.handlers.TracedModel.output_layer`.

        Examples
        --------
        >>> from udfs.handlers import TensorSpec
        >>> from udfs.handlers.torch import FRAMEWORK
        >>> class Heads(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.cat, self.dog = nn.Linear(3, 1), nn.Linear(3, 1)
        ...     def forward(self, x):
        ...         return {"is_cat": self.cat(x), "is_dog": self.dog(x)}
        >>> traced = FRAMEWORK.trace(Heads().eval(), [TensorSpec((3,))])
        >>> traced.output_keys, traced.output_layer("is_dog")
        (('is_cat', 'is_dog'), 'dog')
        """
        return output_at(key, self._outputs)

    @cached_property
    def _outputs(self) -> dict[str | int, str]:
        (returned,) = (node for node in self._module.graph.nodes if node.op == "output")
        keyed = keyed_outputs(returned_structure(self._module, returned), fx.Node)
        named = {key: self._names[node] for key, node in keyed.items()}
        return {key: name for key, name in named.items() if name in self.graph.outputs}

    def _has_convolutions(self) -> bool:
        called = (str(getattr(node.target, "__name__", "")) for node in self._nodes.values())
        modules = (isinstance(inner, nn.Conv2d) for inner in self._modules.values())
        return any(modules) or any(name.startswith("conv2d") for name in called)

    @cached_property
    def graph(self) -> LayerGraph:
        """The layers, with shapes, FLOPs, bytes and fingerprints."""
        return layer_graph(self._module, self._inputs)

    def layout(self, name: str) -> LayerLayout | None:
        """Find the layout of a layer's output; see :func:`udfs.handlers.layer_layout`."""
        return self._layouts(self._node(name).name)

    @cached_property
    def _layouts(self) -> Callable[[str], LayerLayout | None]:
        return layouts(self._module, self._inputs)

    def layer(self, name: str) -> str:
        """Find the graph's layer for a layer name or a module path; see :meth:`udfs.handlers.TracedModel.layer`."""
        layer = name if name in self.graph else self._returned.get(name, name)
        if layer not in self.graph:
            layer = self._first_of(layer)
        if layer not in self.graph:
            raise UnknownLayerError(name, self.graph.names)
        return layer

    def _first_of(self, name: str) -> str:
        """Find the first tensor of a module that returns several, as a recurrent one."""
        node = self._nodes.get(name)
        users = list(node.users) if node is not None else []
        firsts = (user for user in users if user.target is operator.getitem and user.args[1] == 0)
        return next((self._names[first] for first in firsts), name)

    def run(self, feeds: Mapping[str, NDArray[np.generic]], want: Sequence[str]) -> dict[str, NDArray[np.generic]]:
        """Compute ``want`` from ``feeds``; see :meth:`udfs.handlers.TracedModel.run`.

        Examples
        --------
        >>> import numpy as np
        >>> from udfs.handlers import TensorSpec
        >>> from udfs.handlers.torch import FRAMEWORK
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)).eval()
        >>> traced = FRAMEWORK.trace(net, [TensorSpec((3,))])
        >>> below = traced.run({"input_1": np.ones((5, 3), np.float32)}, ["1"])
        >>> above = traced.run(below, ["2"])["2"]
        >>> bool((above == net(torch.ones(5, 3)).detach().numpy()).all())
        True
        """
        tensors = self.tensors({name: self._tensor(name, array) for name, array in feeds.items()}, want)
        # Numpy has no bfloat16.
        precise = {
            name: tensor.float() if tensor.dtype == torch.bfloat16 else tensor for name, tensor in tensors.items()
        }
        return {name: tensor.numpy(force=True) for name, tensor in precise.items()}

    def tensors(self, feeds: Mapping[str, torch.Tensor], want: Sequence[str]) -> dict[str, torch.Tensor]:
        """Run on torch tensors and return torch tensors, without a copy; see :meth:`run`."""
        if self._reads_strides:
            feeds = {name: self._as_computed(name, tensor) for name, tensor in feeds.items()}
        try:
            return self._computed(feeds, want)
        except RuntimeError as error:
            if self._reads_strides or "stride" not in str(error):
                raise
        # A module reads a tensor's memory as if it were in C order.
        self._reads_strides = True
        self._lay_out(torch.contiguous_format)
        return self.tensors(feeds, want)

    def _as_computed(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Lay a layer's whole tensor out in memory as a run of the network does."""
        if not isinstance(tensor, torch.Tensor) or name not in self.graph:
            return tensor
        whole = tuple(tensor.shape[1:]) == self.graph[name].output_shape
        return self._laid(self._node(name), tensor) if whole else tensor

    def _laid(self, node: fx.Node, tensor: torch.Tensor) -> torch.Tensor:
        if node.op == "placeholder":
            return tensor.contiguous(memory_format=self._layout) if _is_image(tensor) else tensor
        layout = self._strides.get(node.name)
        if layout is None or tensor.stride() == layout:
            return tensor
        return torch.empty_strided(tensor.shape, layout, dtype=tensor.dtype, device=tensor.device).copy_(tensor)

    def _computed(self, feeds: Mapping[str, Any], want: Sequence[str]) -> dict[str, Any]:
        schedule = self._schedule(frozenset(feeds), tuple(want))
        values: dict[fx.Node, Any] = {self._node(name): tensor for name, tensor in feeds.items()}
        records = len(next(iter(feeds.values())))
        with torch.inference_mode():
            for node, last_read in schedule:
                values[node] = records if is_batch_size(node) else self._evaluate(node, values)
                for done in last_read:
                    del values[done]
        return {name: values[self._nodes[name]] for name in want}

    def know(self, graph: LayerGraph, layouts: dict[str, tuple[int, ...]]) -> None:
        """Take over what was measured already: the graph, and the strides of its nodes' tensors in C order."""
        self.graph = graph
        self.__dict__["_strides"] = layouts

    def strides_of(self, layers: Sequence[str]) -> dict[str, tuple[int, ...] | None]:
        """Return the strides of layers' tensors in memory, in elements; ``None`` for C order."""
        return {name: self._strides.get(self._node(name).name) for name in layers}

    def set_strides(self, layers: Mapping[str, tuple[int, ...] | None]) -> None:
        """Set the strides of layers to those of a run, where fake tensors had others, as after some batch norms."""
        for name, laid in layers.items():
            self._strides.pop(self._node(name).name, None)
            if laid is not None:
                self._strides[self._node(name).name] = laid

    def branch(self, have: Sequence[str], *, first: bool = False) -> fx.GraphModule:
        """Make a module of the part above some layers, on the parameters of this one: it can be trained.

        ``have`` are the layers whose tensors it takes, in this order. It returns what the model returns, or with
        ``first`` the first tensor alone, where the model returns several; its ``meta["nodes"]`` has the names of the
        nodes that it runs. Raise GraphError if that part reads an input that is not among ``have``.
        """
        return part(self._module, [self._node(name) for name in have], self._returned_nodes(first=first))

    def up_to(self, layer: str) -> fx.GraphModule:
        """Make a module of the part from the inputs to a layer, on the modules and parameters of this one.

        The layer is a name or the path of a module.

        Raises
        ------
        UnknownLayerError
            No such layer.
        """
        return part(self._module, [self._node(name) for name in self.graph.inputs], self._node(layer))

    def returned_layers(self, *, first: bool = False) -> tuple[str, ...]:
        """Name the layers that the model returns.

        Raise UntraceableModelError if it returns something without an entry for each record, or in a container of its
        own class.
        """
        nodes: list[fx.Node] = []
        fx.node.map_arg(self._returned_nodes(first=first), nodes.append)
        names = tuple(dict.fromkeys(self._names[node] for node in nodes))
        odd = next((name for name in names if name not in self.graph), None)
        if odd is not None or not names:
            raise UntraceableModelError(f"the model returns {odd or 'no tensor'}, which has no entry for each record")
        return names

    def _returned_nodes(self, *, first: bool) -> Any:
        (end,) = (node for node in self._module.graph.nodes if node.op == "output")
        returned = returned_structure(self._module, end)
        if not isinstance(returned, (fx.Node, tuple, list)) and type(returned) not in _PLAIN:
            raise UntraceableModelError(
                f"the model returns a {type(returned).__name__}: return its tensors as a tuple or a dictionary"
            )
        return returned[0] if first and isinstance(returned, (tuple, list)) else returned

    def keys(self) -> dict[str, str]:
        """Hash what each node computes, by its name: equal in captures of one model in two modes."""
        return {self._names[node]: key for node, key in keys(self._module).items()}

    def lent(self, name: str, array: NDArray[np.generic]) -> torch.Tensor:
        """Take a layer's array as a run of the network has its tensor: on its device, in its memory layout."""
        return self._tensor(name, array)

    def module_of(self, name: str) -> nn.Module | None:
        """Return the module whose call a layer is, or ``None`` for a function."""
        node = self._node(name)
        return self._modules[str(node.target)] if node.op == "call_module" else None

    def constants(self, name: str) -> dict[str, Any] | None:
        """Compute what a layer reads beside its inputs: parameters, and numbers and tensors made from them alone.

        Return objects by the names of their nodes, which :meth:`tensors` takes as feeds; the number of records is that
        of one. Return ``None`` where one of them is computed from an input, as in ``x / x.max()``.
        """
        values: dict[str, Any] = {}
        for below in self._node(name).all_input_nodes:
            if self._names[below] in self.graph:
                continue
            if not is_batch_size(below) and not is_constant(below):
                return None
            values[self._names[below]] = 1 if is_batch_size(below) else constant(self._module, below)
        return values

    def _node(self, name: str) -> fx.Node:
        if name not in self._nodes:
            raise UnknownLayerError(name, self._nodes)
        node: fx.Node = self._nodes[name]
        return node

    def _tensor(self, name: str, array: NDArray[np.generic]) -> torch.Tensor:
        return self._laid(self._node(name), torch.from_numpy(_lent(array)).to(self._placed()))

    def _placed(self) -> torch.device | str:
        """Return the device of the weights: the model's own, until :meth:`prepare` moves them."""
        if self._prepared:
            return self._device
        tensor = next(chain(self._module.parameters(), self._module.buffers()), None)
        return self._device if tensor is None else tensor.device

    @cached_property
    def _strides(self) -> dict[str, tuple[int, ...]]:
        try:
            return strides(self._module, self._inputs, self._layout)
        except UntraceableModelError:
            if self._layout is torch.contiguous_format:
                raise
        self._reads_strides = True
        self._lay_out(torch.contiguous_format)
        return strides(self._module, self._inputs, self._layout)

    def _evaluate(self, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        if node.op == "get_attr":
            parent, _, leaf = str(node.target).rpartition(".")
            return getattr(self._modules[parent], leaf)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "call_module":
            inner = self._modules[str(node.target)]
            call = inner.forward if node.target in self._module.meta.get("lowered", ()) else inner
            return call(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _schedule(self, feeds: frozenset[str], want: tuple[str, ...]) -> list[tuple[fx.Node, tuple[fx.Node, ...]]]:
        """List the nodes to evaluate in order, each with those that are not read after it."""
        key = (feeds, want)
        if key not in self._schedules:
            needed = self._needed(feeds, want)
            order = [node for node in self._module.graph.nodes if node in needed and self._names[node] not in feeds]
            keep = {self._nodes[name] for name in want}
            last: dict[fx.Node, fx.Node] = {}
            for node in order:
                last.update(dict.fromkeys(reads(node), node))
            frees: dict[fx.Node, list[fx.Node]] = {}
            for read, reader in last.items():
                if read not in keep:
                    frees.setdefault(reader, []).append(read)
            self._schedules[key] = [(node, tuple(frees.get(node, ()))) for node in order]
        return self._schedules[key]

    def _needed(self, feeds: frozenset[str], want: tuple[str, ...]) -> set[fx.Node]:
        if not feeds:
            raise GraphError(
                f"{', '.join(want)} cannot be computed from nothing: feed the inputs, or an earlier run's tensors"
            )
        needed: set[fx.Node] = set()
        ahead = [self._node(name) for name in want]
        while ahead:
            node = ahead.pop()
            if node in needed:
                continue
            needed.add(node)
            if self._names[node] in feeds:
                continue
            if node.op == "placeholder":
                raise GraphError(
                    f"{', '.join(want)} cannot be computed from {', '.join(sorted(feeds))}: "
                    f"the input {self._names[node]!r} is needed too"
                )
            ahead.extend(reads(node))
        return needed


def _is_image(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.dim() == _IMAGE_RANK


class _Lent:
    """Memory that numpy holds read-only, under a promise to read it only."""

    def __init__(self, array: NDArray[np.generic]) -> None:
        self.owner = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _lent(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """View an array as torch takes it: it warns of read-only memory (Arrow's), which a pure graph never writes to."""
    if any(stride < 0 for stride in array.strides):
        array = array.copy()
    return array if array.flags.writeable else np.asarray(_Lent(array))


def _kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride()

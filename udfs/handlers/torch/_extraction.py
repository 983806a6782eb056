"""A network that ends at chosen layers: a torch graph is cut above them, so that nothing else runs."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch import fx, nn

from optimizer.errors import UnknownLayerError
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._fx import capture, private, trace_fx
from udfs.handlers.torch._measure import BATCHES, measure
from udfs.handlers.torch._names import node_names
from udfs.handlers.torch._tracer_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.tensors import TensorSpec

__all__ = ["Extraction"]

# Attributes in which torch's modules say how wide their output is.
_WIDTHS = ("normalized_shape", "out_features", "out_channels", "num_features", "num_channels", "embedding_dim")
# Modules whose output has channels as its second axis, as an image of torch does.
_OF_IMAGES = (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, nn.GroupNorm)  # common bases
_OF_POOLING = (nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd)
_OF_ADAPTIVE_POOLING = (
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
)
_OF_DROPOUT = (nn.modules.dropout._DropoutNd, nn.Identity)
_KEEP_WIDTH = (*_OF_POOLING, *_OF_ADAPTIVE_POOLING, *_OF_DROPOUT)
_KEEP_WIDTH_NAMES = ("add", "mul", "sub", "relu", "relu6", "gelu", "silu", "hardswish", "dropout", "contiguous")
_IMAGE_RANK = 3


class Extraction:
    """A network opened by name, from which smaller ones are cut.

    The modules are copies in inference mode, which share the memory of the network's tensors; the network stays as it
    is. Layers go by their names in the traced graph or by module paths, as for :meth:`udfs.handlers.TracedModel.layer`.
    Without ``inputs`` torch.fx alone can open it, and the widths of layers come from the modules. Raise
    UntraceableModelError if the network cannot be opened.

    Examples
    --------
    >>> import torch
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> features = Extraction(net).network(["1"])
    >>> [tuple(tensor.shape) for tensor in features(torch.ones(5, 3))]
    [(5, 4)]
    """

    def __init__(self, net: nn.Module, inputs: Sequence[TensorSpec] | None = None) -> None:
        self._net, self._inputs = net, inputs
        copied = private(net).eval()
        if inputs is None:
            try:
                self._module = trace_fx(copied)
            except Exception as error:
                # Tracing runs the user's own forward, which may raise anything.
                raise UntraceableModelError(
                    f"{type(net).__name__} cannot be opened by torch.fx ({first_line(error)}): say what it reads, and "
                    'torch.export tries: inputs=[TensorSpec((64,), "int64"), ...], without the batch axis'
                ) from error
        else:
            self._module = capture(copied, inputs)
        self._modules = dict(self._module.named_modules())
        self._order = {node: place for place, node in enumerate(self._module.graph.nodes)}
        named = node_names(self._module)
        self._nodes: dict[str, fx.Node] = {named[node.name]: node for node in self._order}
        by_node = {node.name: node for node in self._order}
        self._returned: dict[str, fx.Node] = {
            path: by_node[node] for path, node in self._module.meta["returned"].items() if node in by_node
        }
        self.inputs = tuple(node.name for node in self._order if node.op == "placeholder")
        """Names of the parameters of the network's forward that it reads."""

    @property
    def output(self) -> str:
        """Layer of the network's first output."""
        (output,) = (node for node in self._order if node.op == "output")
        returned = output.all_input_nodes
        return self._name(returned[0])

    @property
    def below_classifier(self) -> str:
        """Layer that the network's last fully-connected layer reads; the first output's where there is none."""
        node = self._nodes[self.output]
        while node.op != "placeholder" and not self._has_weights(node):
            below = node.all_input_nodes
            if len(below) != 1:
                return self.output
            (node,) = below
        if node.op == "call_module" and isinstance(self._modules[str(node.target)], nn.Linear):
            return self._name(node.all_input_nodes[0])
        return self.output

    def ordered(self, layers: Sequence[str]) -> tuple[str, ...]:
        """Put layers into the order in which they run, each by its name in the graph.

        Raises
        ------
        UnknownLayerError
            There is no such layer.
        """
        nodes = {self._node(name) for name in layers}
        return tuple(self._name(node) for node in sorted(nodes, key=self._order.__getitem__))

    def network(self, layers: Sequence[str]) -> fx.GraphModule:
        """Cut the network above some layers.

        The module takes the network's inputs, and returns a tuple with a tensor for each of ``layers``. Its modules
        have the network's paths; those that no chosen layer needs are not there.
        """
        wanted = [self._node(name) for name in layers]
        needed: set[fx.Node] = set()
        ahead = list(wanted)
        while ahead:
            node = ahead.pop()
            if node not in needed:
                needed.add(node)
                ahead.extend(node.all_input_nodes)
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        for node in self._order:
            if node in needed or node.op == "placeholder":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in wanted))
        return fx.GraphModule(self._module, graph, type(self._net).__name__).eval()

    def width(self, layer: str) -> tuple[int, bool]:
        """Find how many channels a layer has, and whether they are the second axis, as an image's, or the last.

        Raise UntraceableModelError if no module says so, and the network was opened without its inputs.
        """
        node = self._node(layer)
        if self._inputs is not None:
            shape = measure(self._module, self._inputs, BATCHES[0]).values[node.name].shape[1:]
            return (shape[0], True) if len(shape) == _IMAGE_RANK else (shape[-1], False)
        current: fx.Node | None = node
        while current is not None:
            inner = self._modules[str(current.target)] if current.op == "call_module" else None
            known = next((getattr(inner, name) for name in _WIDTHS if hasattr(inner, name)), None)
            if known is not None:
                return int(known[-1] if isinstance(known, tuple) else known), isinstance(inner, _OF_IMAGES)
            current = next(iter(current.all_input_nodes), None) if self._keeps_width(current, inner) else None
        raise UntraceableModelError(
            f"the modules of {type(self._net).__name__} do not say how wide layer {layer!r} is: say what the network "
            "reads, inputs=[TensorSpec((3, 224, 224)), ...], without the batch axis"
        )

    def draws_by_itself(self, paths: Sequence[str]) -> bool:
        """Return whether modules do something in training mode that their graph in inference mode does not show.

        True of functional dropout, and of code that asks for ``self.training``; layers such as ``nn.Dropout`` stay
        modules, which know their mode.
        """
        copied = private(self._net).eval()
        for path in paths:
            copied.get_submodule(path).train()
            around = path
            while around:  # what is around a module that trains is in training mode too, as the network itself
                around = around.rpartition(".")[0]
                copied.get_submodule(around).training = True
        return _described(trace_fx(copied).graph) != _described(self._module.graph)

    def _node(self, layer: str) -> fx.Node:
        node = self._nodes.get(layer) or self._returned.get(layer)
        if node is None or node.op == "output":
            known = dict.fromkeys((*self._nodes, *self._returned))
            raise UnknownLayerError(layer, known, type(self._net).__name__)
        # Of a module that returns several tensors, as a recurrent one, the first.
        firsts = (user for user in node.users if user.target is operator.getitem and user.args[1] == 0)
        returns_several = node.op == "call_module" and isinstance(self._modules[str(node.target)], nn.RNNBase)
        return next(firsts, node) if returns_several else node

    def _name(self, node: fx.Node) -> str:
        return next(name for name, other in self._nodes.items() if other is node)

    def _has_weights(self, node: fx.Node) -> bool:
        inner = self._modules.get(str(node.target)) if node.op == "call_module" else None
        return node.op == "get_attr" or any(True for _ in (inner.parameters() if inner is not None else ()))

    @staticmethod
    def _keeps_width(node: fx.Node, inner: nn.Module | None) -> bool:
        if inner is not None:
            return isinstance(inner, _KEEP_WIDTH) or type(inner).__module__ == nn.ReLU.__module__
        return getattr(node.target, "__name__", str(node.target)).rstrip("_") in _KEEP_WIDTH_NAMES


def _described(graph: fx.Graph) -> list[Any]:
    return [(node.op, str(node.target), repr(node.args), repr(node.kwargs)) for node in graph.nodes]

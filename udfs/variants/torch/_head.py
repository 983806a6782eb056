"""Layer that computes the class outputs of a network, and its replacement."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from torch import nn

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.torch._layers import replace_module, trace_network
from udfs.variants.torch._resized_layers import resized_layer

if TYPE_CHECKING:
    from torch import fx

__all__ = ["head_path", "replace_head"]


def replace_head(module: nn.Module, classes: int) -> tuple[nn.Module, Structure]:
    """Replace the layer that computes the class outputs by an untrained one.

    It is the last linear layer or 1x1 convolution: only layers without weights, such as pooling and softmax, may lie
    between it and the network's output.

    Parameters
    ----------
    module : torch.nn.Module
        Network, which is not changed; it may be on the meta device.
    classes : int
        Number of outputs of the new layer.

    Returns
    -------
    torch.nn.Module
        Copy of the network with the new layer: weights from He's normal distribution, biases 0.
    Structure
        Its change.

    Raises
    ------
    InvalidArgumentError
        ``classes`` is below 1, or the network does not end in such a layer.

    Notes
    -----
    He et al., *Delving deep into rectifiers*, ICCV 2015, section 2.2, for the weights.

    Examples
    --------
    >>> network, _ = replace_head(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1000)), classes=3)
    >>> network[2].out_features
    3
    """
    classes = whole("classes", classes)
    path, made = head_path(module), copy.deepcopy(module)
    layer = made.get_submodule(path)
    inputs = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
    assert isinstance(inputs, int)  # of a linear layer or a convolution
    change = LayerChange(path, "resized", (classes, inputs, 1))
    head = resized_layer(layer, change)
    assert head is not None  # of a class with sizes
    nn.init.kaiming_normal_(head.get_parameter("weight"), nonlinearity="relu")
    return replace_module(made, layer, head), Structure((change,))


def head_path(module: nn.Module) -> str:
    """Find the path of the layer that computes a network's class outputs; raise InvalidArgumentError without one."""
    if isinstance(module, nn.Linear):
        return ""
    remedy = "Let it end in an nn.Linear or a 1x1 nn.Conv2d, followed by layers without weights only."
    traced = trace_network(module, "Replace its last layer yourself.")
    (node,) = (node for node in traced.graph.nodes if node.op == "output")
    while True:
        below: list[fx.Node] = [source for source in node.all_input_nodes if source.op != "get_attr"]
        inner = traced.get_submodule(str(node.target)) if node.op == "call_module" else None
        if type(inner) is nn.Linear or (
            type(inner) is nn.Conv2d and inner.groups == 1 and set(inner.kernel_size) == {1}
        ):
            return str(node.target)
        weighted = inner is not None and any(True for _ in inner.parameters())
        if weighted or not below or len({source for source in below if not _is_size(source)}) != 1:
            raise InvalidArgumentError(
                f"module must end in its class outputs, got {node.name!r} as last layer. {remedy}"
            )
        node = next(source for source in below if not _is_size(source))


def _is_size(node: fx.Node) -> bool:
    """Return whether a node's value is a size of a tensor, or computed from one alone."""
    if node.op == "call_method" and node.target in ("size", "dim"):
        return True
    return node.target is getattr or (bool(node.all_input_nodes) and all(map(_is_size, node.all_input_nodes)))

"""A captured graph as it runs fastest, one record at a time: folded batch norms, activations in place."""

from __future__ import annotations

import copy
import warnings
from typing import cast

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from udfs.handlers.torch._channels import put_channels_second
from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._lower import lower
from udfs.handlers.torch._mutations import is_only_reader
from udfs.handlers.torch._names import node_names

__all__ = ["fuse"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def fuse(module: fx.GraphModule) -> fx.GraphModule:
    """Make a fused copy of a captured graph with the same results up to rounding.

    Parameters that do not change are shared. Layers keep their names, except those whose tensors have the axes in
    another order: the channels second. Functions are called as the modules that do the
    same, and a batch norm without running statistics gives each record what it gives it alone. A module with hooks is
    called as it is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        fused = fx.GraphModule(module, copy.deepcopy(module.graph))
    fused.meta.update(module.meta, returned=dict(module.meta["returned"]), names=node_names(module))
    lower(fused)
    put_channels_second(fused)
    calls = [str(node.target) for node in fused.graph.nodes if node.op == "call_module"]
    for node in list(fused.graph.nodes):
        source = node.args[0] if node.args else None
        if not (isinstance(source, fx.Node) and node.op == source.op == "call_module" and len(source.users) == 1):
            continue
        if calls.count(str(node.target)) == calls.count(str(source.target)) == 1:
            _fold(fused, source, node)
    modules = dict(fused.named_modules())
    shared = {
        node.target for node in fused.graph.nodes if node.op == "call_module" and not is_only_reader(node, modules)
    }
    for node in fused.graph.nodes:
        inner = modules[node.target] if node.op == "call_module" else None
        if inner is not None and hasattr(inner, "inplace") and node.target not in shared and not has_hooks(inner):
            copied = copy.copy(inner)
            copied.inplace = True
            _put(fused, str(node.target), copied)
        elif node.op == "call_function" and "inplace" in node.kwargs and is_only_reader(node, modules):
            node.kwargs = {**node.kwargs, "inplace": True}
    fused.recompile()
    return fused.eval()


def _fold(module: fx.GraphModule, source: fx.Node, node: fx.Node) -> None:
    convolution, norm = (module.get_submodule(str(call.target)) for call in (source, node))
    if not (type(convolution) in _CONVOLUTIONS and type(norm) in _NORMS):  # a subclass may compute anything
        return
    assert isinstance(convolution, _CONVOLUTIONS)  # for the type checker
    assert isinstance(norm, _NORMS)
    if norm.running_mean is None:
        return
    returns = any(user.op == "output" for user in node.users)  # an output keeps its name
    if returns or has_hooks(convolution) or has_hooks(norm):
        return
    copied = copy.copy(convolution)
    copied._parameters = dict(convolution._parameters)  # what copy.copy shares
    with torch.no_grad():
        weight, bias = fuse_conv_bn_weights(
            convolution.weight, convolution.bias, norm.running_mean, cast("torch.Tensor", norm.running_var),
            norm.eps, norm.weight, norm.bias,
        )  # fmt: skip
    copied.weight, copied.bias = weight, bias
    _put(module, str(source.target), copied)
    returned = module.meta["returned"]
    returned.update({path: source.name for path, name in returned.items() if name == node.name})
    node.replace_all_uses_with(source)
    module.graph.erase_node(node)


def _put(module: fx.GraphModule, path: str, inner: nn.Module) -> None:
    """Return the parent of a path in this graph alone: its parents are its own, made with it."""
    parent, _, leaf = path.rpartition(".")
    setattr(module.get_submodule(parent), leaf, inner)

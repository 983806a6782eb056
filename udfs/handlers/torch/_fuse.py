"""Batch norms folded into the convolutions before them, activations in place: fewer passes over the same tensors."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from udfs.handlers.torch._pure import is_only_reader

__all__ = ["fuse"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def fuse(module: fx.GraphModule) -> fx.GraphModule:
    """Make a captured graph that gives the same to rounding; the one given stays as it is.

    Parameters that do not change are shared.
    """
    fused = fx.GraphModule(module, copy.deepcopy(module.graph))
    fused.meta.update(module.meta, returned=dict(module.meta["returned"]))
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
        if node.op == "call_module" and hasattr(modules[node.target], "inplace") and node.target not in shared:
            own = copy.copy(modules[node.target])
            own.inplace = True
            _put(fused, str(node.target), own)
        elif node.op == "call_function" and "inplace" in node.kwargs and is_only_reader(node, modules):
            node.kwargs = {**node.kwargs, "inplace": True}
    fused.recompile()
    return fused.eval()


def _fold(module: fx.GraphModule, source: fx.Node, node: fx.Node) -> None:
    convolution, norm = (module.get_submodule(str(call.target)) for call in (source, node))
    if not (isinstance(convolution, _CONVOLUTIONS) and isinstance(norm, _NORMS) and norm.running_mean is not None):
        return
    own = copy.copy(convolution)
    own._parameters = dict(convolution._parameters)  # noqa: SLF001 - what copy.copy shares
    with torch.no_grad():
        weight, bias = fuse_conv_bn_weights(
            convolution.weight, convolution.bias, norm.running_mean, cast("torch.Tensor", norm.running_var),
            norm.eps, norm.weight, norm.bias,
        )  # fmt: skip
    own.weight, own.bias = weight, bias
    _put(module, str(source.target), own)
    returned = module.meta["returned"]
    returned.update({path: source.name for path, name in returned.items() if name == node.name})
    node.replace_all_uses_with(source)
    module.graph.erase_node(node)


def _put(module: fx.GraphModule, path: str, inner: nn.Module) -> None:
    """Where the path leads to in this graph alone: its parents are its own, made with it."""
    parent, _, leaf = path.rpartition(".")
    setattr(module.get_submodule(parent), leaf, inner)

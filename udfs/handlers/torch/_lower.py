"""Functions that do what a module does, in a captured graph, replaced by that module: one form for what follows.

``F.conv2d(x, self.weight)`` is computed in parts as ``nn.Conv2d`` is, and a batch norm that ``torch.export`` wrote as
an operator is folded as the module is.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch.nn import functional

from udfs.handlers.torch._constants import constant, parameter
from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._names import operation

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Mean", "PerRecordNorm", "lower"]

_CONVOLUTIONS = {"conv1d": nn.Conv1d, "conv2d": nn.Conv2d, "conv3d": nn.Conv3d}
_MAX_POOLS = {"max_pool1d": nn.MaxPool1d, "max_pool2d": nn.MaxPool2d, "max_pool3d": nn.MaxPool3d}
_AVERAGE_POOLS = {"avg_pool1d": nn.AvgPool1d, "avg_pool2d": nn.AvgPool2d, "avg_pool3d": nn.AvgPool3d}
_ADAPTIVE = {
    "adaptive_avg_pool1d": nn.AdaptiveAvgPool1d,
    "adaptive_avg_pool2d": nn.AdaptiveAvgPool2d,
    "adaptive_avg_pool3d": nn.AdaptiveAvgPool3d,
}
_PADS = (nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)
_NORMS = {3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}

# Positional parameters: torch.nn.functional, torch and aten agree on them unless said otherwise.
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_MAX_POOL = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
_AVERAGE_POOL = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
_PAD = ("input", "pad", "mode", "value")
_CONSTANT_PAD = ("input", "pad", "value")
_MEAN = ("input", "dim", "keepdim")
_BATCH_NORM = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_ATEN_NORMS = {
    "batch_norm": ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps", "cudnn"),
    "_native_batch_norm_legit": (*("input", "weight", "bias"), "training", "momentum", "eps"),  # without statistics
    "_native_batch_norm_legit_no_training": (
        *("input", "weight", "bias", "running_mean", "running_var", "momentum", "eps"),
    ),
}


class PerRecordNorm(nn.Module):
    """Batch norm by the statistics of the batch, for one record at a time: what it is for a batch of that record."""

    def __init__(self, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = parameter(weight), parameter(bias), eps
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise each channel of each record over its places."""
        return functional.instance_norm(x, weight=self.weight, bias=self.bias, use_input_stats=True, eps=self.eps)


class Mean(nn.Module):
    """``x.mean(dim, keepdim)`` as a module."""

    def __init__(self, dim: tuple[int, ...], *, keepdim: bool) -> None:
        super().__init__()
        self.dim, self.keepdim = dim, keepdim
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the mean."""
        return x.mean(self.dim, keepdim=self.keepdim)

    def over_places(self, rank: int) -> bool:
        """Return whether the mean is over all spatial axes of tensors of this rank, records and channels included."""
        return sorted(axis % rank for axis in self.dim) == list(range(2, rank))


def lower(module: fx.GraphModule) -> None:
    """Replace functions by modules, in place, where all that they read beside one tensor is constant.

    ``meta["lowered"]`` has the paths of these modules: they stand for functions, so no hook of the process is theirs.
    """
    for node in list(module.graph.nodes):
        name = operation(node)
        if node.op == "call_method" and name == "mean":
            lowered = _mean(module, node, _options(_MEAN, node))
        elif node.op == "call_module" and _is_without_statistics(module.get_submodule(str(node.target))):
            norm = module.get_submodule(str(node.target))
            lowered = PerRecordNorm(norm.weight, norm.bias, norm.eps)  # type: ignore[arg-type]  # a batch norm's
        elif node.op == "call_function" and name in _LOWERED:
            lowered = _LOWERED[name](module, node)
        else:
            continue
        if lowered is not None:
            _call(module, node, lowered)
    for node in reversed(list(module.graph.nodes)):  # weights that only the functions read
        if not node.users and node.op in ("get_attr", "call_function"):
            module.graph.erase_node(node)


def _call(module: fx.GraphModule, node: fx.Node, inner: nn.Module) -> None:
    """Make a node, which keeps its name and its readers, a call of a module."""
    path = f"lowered_{node.name}"
    module.add_submodule(path, inner.eval())
    module.meta.setdefault("lowered", set()).add(path)
    source = _options(("input",), node)["input"]
    # An operator that returns a tuple: readers of the tensor in it read the module.
    for user in list(node.users):
        if user.target is operator.getitem and _is_aten_tuple(node):
            user.replace_all_uses_with(node)
            _rename(module, user, node)
            module.graph.erase_node(user)
    node.op, node.target, node.args, node.kwargs = "call_module", path, (source,), {}


def _rename(module: fx.GraphModule, gone: fx.Node, node: fx.Node) -> None:
    names, returned = module.meta["names"], module.meta["returned"]
    names[node.name] = names.pop(gone.name)
    returned.update({path: node.name for path, name in returned.items() if name == gone.name})


def _is_aten_tuple(node: fx.Node) -> bool:
    return operation(node).startswith("_native_batch_norm_legit")


def _is_without_statistics(inner: nn.Module) -> bool:
    norm: Any = inner
    return type(norm) in _NORMS.values() and norm.running_mean is None and not has_hooks(norm)


def _options(names: tuple[str, ...], node: fx.Node) -> dict[str, Any]:
    options = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    for alias in ("self", "x"):
        if alias in options:
            options["input"] = options.pop(alias)
    return {"input": node.args[0] if node.args else None, **options}


def _convolution(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    options = _options(_CONVOLUTION, node)
    weight, bias = (_tensor(module, options.get(name)) for name in ("weight", "bias"))
    if weight is None or (options.get("bias") is not None and bias is None):
        return None
    groups = options.get("groups", 1)
    settings = {key: _plain(options[key]) for key in ("stride", "padding", "dilation") if key in options}
    outputs, inputs, *kernel = weight.shape
    with torch.device("meta"):
        convolution: Any = _CONVOLUTIONS[operation(node)](
            inputs * groups,
            outputs,
            tuple(kernel),  # type: ignore[arg-type]  # one of three classes
            groups=groups,
            bias=bias is not None,
            **settings,
        )
    convolution.weight, convolution.bias = parameter(weight), parameter(bias)
    return convolution  # type: ignore[no-any-return]


def _max_pool(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    del module
    options = _options(_MAX_POOL, node)
    if options.pop("return_indices", False):
        return None
    return _pooling(_MAX_POOLS, node, options)


def _average_pool(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    del module
    options = _options(_AVERAGE_POOL, node)
    if options.get("divisor_override") is None:
        options.pop("divisor_override", None)
    return _pooling(_AVERAGE_POOLS, node, options)


def _pooling(kinds: dict[str, Any], node: fx.Node, options: dict[str, Any]) -> nn.Module | None:
    settings = {key: _plain(value) for key, value in options.items() if key != "input"}
    if any(isinstance(value, fx.Node) for value in settings.values()):
        return None
    if not settings.get("stride"):
        settings.pop("stride", None)
    pool: nn.Module = kinds[operation(node)](**settings)
    return pool


def _adaptive_pool(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    del module
    size = _plain(_options(("input", "output_size"), node).get("output_size"))
    pool: nn.Module = _ADAPTIVE[operation(node)](size)
    return pool


def _pad(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    del module
    options = _options(_CONSTANT_PAD if operation(node) == "constant_pad_nd" else _PAD, node)
    pad, value = _plain(options.get("pad")), options.get("value")
    numbers = isinstance(pad, tuple) and all(isinstance(side, int) for side in pad)
    if options.get("mode", "constant") != "constant" or not numbers or isinstance(value, fx.Node):
        return None
    axes = len(pad) // 2
    return _PADS[axes - 1](pad, value or 0.0) if 1 <= axes <= len(_PADS) else None


def _mean_function(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return _mean(module, node, _options(_MEAN, node))


def _mean(module: fx.GraphModule, node: fx.Node, options: dict[str, Any]) -> nn.Module | None:
    del module, node
    dim = options.get("dim", options.get("axis"))
    dim = (dim,) if isinstance(dim, int) else _plain(dim)
    known = {"input", "dim", "axis", "keepdim", "dtype", "out"}
    if not dim or not isinstance(dim, tuple) or options.get("dtype") is not None or options.keys() - known:
        return None
    if not all(isinstance(axis, int) for axis in dim) or not isinstance(options.get("keepdim", False), bool):
        return None
    return Mean(dim, keepdim=options.get("keepdim", False))


def _batch_norm(module: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    aten = hasattr(node.target, "overloadpacket")
    options = _options(_ATEN_NORMS[operation(node)] if aten or node.target is torch.batch_norm else _BATCH_NORM, node)
    tensors = {name: _tensor(module, options.get(name)) for name in ("weight", "bias", "running_mean", "running_var")}
    if any(options.get(name) is not None and tensor is None for name, tensor in tensors.items()):
        return None
    if _is_aten_tuple(node) and any(user.target is not operator.getitem or user.args[1] for user in node.users):
        return None
    eps = options.get("eps", 1e-5)
    if tensors["running_mean"] is None or tensors["running_var"] is None or options.get("training", False):
        return PerRecordNorm(tensors["weight"], tensors["bias"], eps)
    shape = getattr(node.args[0].meta.get("val"), "shape", ())  # type: ignore[union-attr]  # a node
    if len(shape) not in _NORMS:
        return None
    with torch.device("meta"):
        norm: Any = _NORMS[len(shape)](len(tensors["running_mean"]), eps=eps, affine=tensors["weight"] is not None)
    norm.running_mean, norm.running_var = tensors["running_mean"], tensors["running_var"]
    norm.num_batches_tracked = None
    norm.weight, norm.bias = parameter(tensors["weight"]), parameter(tensors["bias"])
    return norm  # type: ignore[no-any-return]


_LOWERED: dict[str, Callable[[fx.GraphModule, fx.Node], nn.Module | None]] = {
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    **dict.fromkeys(_MAX_POOLS, _max_pool),
    **dict.fromkeys(_AVERAGE_POOLS, _average_pool),
    **dict.fromkeys(_ADAPTIVE, _adaptive_pool),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(_ATEN_NORMS, _batch_norm),
    "mean": _mean_function,
}


def _tensor(module: fx.GraphModule, argument: Any) -> torch.Tensor | None:
    value = constant(module, argument) if isinstance(argument, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value

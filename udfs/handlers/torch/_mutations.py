"""In-place operations in an fx graph: rewritten into pure ones where nothing else can tell, refused elsewhere."""

from __future__ import annotations

import inspect
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from udfs.handlers.torch._hooks import has_hooks

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InplaceProxy", "MutationError", "is_only_reader", "purify"]

_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_LOGICAL = ("and", "or", "xor", "lshift", "rshift")

_PURE: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(operator, f"i{name}"): getattr(operator, f"{name}_" if name in ("and", "or") else name)
    for name in (*_ARITHMETIC, *_LOGICAL)
}

# Operations that return a tensor of their own, never a view of their input: no other node sees it change in place.
_OWNING_MODULES = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.Linear)  # common bases
_OWNING_FUNCTIONS = frozenset({*_PURE.values(), torch.add, torch.sub, torch.mul, torch.div, torch.matmul, torch.cat})


class MutationError(Exception):
    """The graph writes to a tensor that something else may read. Only passes between the two tracers."""


class InplaceProxy(fx.Proxy):
    """``fx.Proxy`` records ``x += y`` as ``x + y``, which differs for other holders of ``x``."""

    __slots__ = ()


def _record(function: Callable[..., Any]) -> Callable[[fx.Proxy, Any], Any]:
    def method(self: fx.Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return method


for _function in _PURE:
    setattr(InplaceProxy, f"__{_function.__name__}__", _record(_function))


def purify(module: fx.GraphModule) -> None:
    """Turn in-place modules, calls and operators into pure ones.

    Raise MutationError, before anything is changed, where another reader could tell.
    """
    modules = dict(module.named_modules())
    for node in module.graph.nodes:
        if _is_inplace(node, modules) and not is_only_reader(node, modules):
            raise MutationError(f"{node.target} works in place on a tensor that others may read")
    for node in module.graph.nodes:
        if node.op == "call_module" and getattr(modules[node.target], "inplace", False):
            modules[node.target].inplace = False
        elif node.op == "call_function" and node.kwargs.get("inplace"):
            node.kwargs = {**node.kwargs, "inplace": False}
        elif node.op == "call_function":
            node.target = _PURE.get(node.target, node.target)
    module.recompile()


def _is_inplace(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Return whether a node is of the three kinds that can be rewritten; any other mutation raises."""
    if node.op == "call_module":
        return bool(getattr(modules[str(node.target)], "inplace", False))
    if node.op not in ("call_function", "call_method"):
        return False
    name = getattr(node.target, "__name__", str(node.target))
    if name.endswith("_") and not name.endswith("__") and node.target not in _PURE.values():
        raise MutationError(f"in-place operation {name}")
    if node.op == "call_method":
        return False
    if node.kwargs.get("out") is not None or node.target is operator.setitem:
        raise MutationError(f"{name} writes to its argument")
    return node.target in _PURE or bool(node.kwargs.get("inplace")) or _has_positional_flag(node)


def _has_positional_flag(node: fx.Node) -> bool:
    signature = _signature(node.target)
    try:
        bound = None if signature is None else signature.bind(*node.args, **node.kwargs)
    except TypeError:
        return False
    if bound is None:
        return False
    if bound.arguments.get("inplace"):
        raise MutationError("an in-place flag passed by position")
    return False


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # builtins without a signature take no ``inplace`` flag
        return None


def is_only_reader(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Return whether only this node reads its first argument, a tensor of its own and no view of another."""
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node) or len(source.users) != 1:
        return False
    if source.op == "call_module":
        inner = modules[str(source.target)]
        return isinstance(inner, _OWNING_MODULES) and not has_hooks(inner)  # a hook may hold what it returns
    return source.op == "call_function" and (source.target in _OWNING_FUNCTIONS or source.target in _PURE)

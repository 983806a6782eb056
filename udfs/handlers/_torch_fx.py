"""From a ``torch.nn.Module`` to an ``fx.GraphModule`` without visible mutation, its nodes named after the modules."""

from __future__ import annotations

import copy
import inspect
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from udfs.handlers._protocol import TensorSpec, UntraceableModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["capture", "example", "module_outputs", "node_names"]

# What returns a tensor of its own, never a view of its input: an in-place operation on it is seen by nobody else.
_OWNS_OUTPUT = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.Linear)  # noqa: SLF001 - the common bases

_INPLACE_OPERATORS = frozenset(
    getattr(operator, f"i{name}")
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift concat".split(" ")
) | {operator.setitem}


class _Mutation(Exception):  # noqa: N818 - a signal between the two tracers, never an error for a caller
    """The graph writes to a tensor that something else may read."""


class _Tracer(fx.Tracer):
    """``fx.Tracer`` that remembers which node each module returned."""

    def __init__(self) -> None:
        super().__init__()
        self.returned: dict[str, fx.Node] = {}

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().call_module(m, forward, args, kwargs)
        if isinstance(result, fx.Proxy):
            self.returned.setdefault(self.path_of_module(m), result.node)
        return result


def example(inputs: Sequence[TensorSpec], batch: int) -> tuple[torch.Tensor, ...]:
    """Zeros of shape ``(batch, *spec.shape)``, one tensor an input."""
    return tuple(torch.zeros((batch, *spec.shape), dtype=getattr(torch, spec.dtype)) for spec in inputs)


def capture(model: nn.Module, inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    """The model's graph: by ``torch.fx``, or by ``torch.export`` where fx cannot or where the model mutates tensors.

    The first takes milliseconds and keeps the modules whole; the second takes seconds, but follows control flow that
    depends on shapes and rewrites in-place operations into pure ones. Parameters are shared with ``model``, not copied.

    Raises
    ------
    UntraceableModelError
        Neither works; the message has both reasons.
    """
    if model.training:
        raise UntraceableModelError(
            f"{type(model).__name__} is in training mode, where dropout and batch norm are not functions of the input: "
            "call model.eval() first"
        )
    try:
        module = _by_fx(model, len(inputs))
    except Exception as fx_error:  # noqa: BLE001 - tracing runs the user's own forward, which may raise anything
        try:
            module = _by_export(model, inputs)
        except Exception as export_error:
            raise UntraceableModelError(
                f"{type(model).__name__} cannot be opened into a graph.\n"
                f"  torch.fx: {_first_line(fx_error)}\n"
                f"  torch.export: {_first_line(export_error)}\n"
                "Usual causes: branches or loops on tensor *values*, calls out of torch (numpy, .item(), print), a batch "
                "size fixed in the code. Move that code out of forward, or use torch.cond / torch.where."
            ) from export_error
    module.meta["leaves"] = {path for path, inner in model.named_modules() if path and not any(inner.children())}
    return module


def _by_fx(model: nn.Module, arity: int) -> fx.GraphModule:
    tracer = _Tracer()
    graph = tracer.trace(model)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for extra in placeholders[arity:]:
        if not extra.args:
            raise TypeError(f"forward takes {len(placeholders)} inputs and {arity} were described")
        # An optional input that the caller leaves out keeps its default, as in a plain call.
        extra.replace_all_uses_with(extra.args[0])  # type: ignore[arg-type]
        graph.erase_node(extra)
    module = fx.GraphModule(tracer.root, graph)
    _purify(module)
    module.meta["returned"] = {path: node.name for path, node in tracer.returned.items()}
    return module


def _by_export(model: nn.Module, inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    free = tuple({0: torch.export.Dim.AUTO} for _ in inputs)
    program = torch.export.export(model, example(inputs, 2), dynamic_shapes=free, strict=False)
    module = program.run_decompositions({}).module(check_guards=False)
    assert isinstance(module, fx.GraphModule)  # noqa: S101 - what the API returns, for the type checker
    for node in module.graph.nodes:
        if node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            raise _Mutation(f"{node.target} changes a buffer of the model")
    module.meta["returned"] = _returned_by_stack(module)
    return module


def _purify(module: fx.GraphModule) -> None:
    """Turn in-place modules and calls into pure ones, or raise ``_Mutation`` where another reader could tell."""
    modules = dict(module.named_modules())
    for node in module.graph.nodes:
        if node.op == "call_module" and getattr(modules[node.target], "inplace", False):
            _only_reader(node, modules)
            pure = copy.copy(modules[node.target])  # the user's module keeps its flag
            pure.inplace = False  # type: ignore[assignment]
            parent, _, leaf = node.target.rpartition(".")
            setattr(_own_parent(module, parent), leaf, pure)
        elif node.op == "call_function" and _is_inplace_call(node):
            _only_reader(node, modules)
            node.kwargs = {**node.kwargs, "inplace": False}
        elif node.op == "call_method" and node.target.endswith("_") and not node.target.endswith("__"):
            raise _Mutation(f"in-place method {node.target}")
        elif node.op == "call_function" and (node.target in _INPLACE_OPERATORS or "out" in node.kwargs):
            raise _Mutation(f"{node.target.__name__} writes to its argument")
    module.recompile()


def _is_inplace_call(node: fx.Node) -> bool:
    if node.kwargs.get("inplace"):
        return True
    try:
        bound = inspect.signature(node.target).bind(*node.args, **node.kwargs)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # builtins without a signature take no ``inplace`` flag
        return False
    if bound.arguments.get("inplace"):
        raise _Mutation("an in-place flag passed by position")
    return False


def _only_reader(node: fx.Node, modules: dict[str, nn.Module]) -> None:
    source = node.args[0] if node.args else None
    owned = (
        isinstance(source, fx.Node)
        and source.op == "call_module"
        and isinstance(modules[str(source.target)], _OWNS_OUTPUT)
        and len(source.users) == 1
    )
    if not owned:
        raise _Mutation(f"{node.target} works in place on a tensor that others may read")


def _own_parent(module: fx.GraphModule, path: str) -> nn.Module:
    """The submodule at ``path``; ``GraphModule`` made its containers anew, so that to write there is private."""
    return module.get_submodule(path) if path else module


def _returned_by_stack(module: fx.GraphModule) -> dict[str, str]:
    """For each module path the node whose value leaves it, where that is one node."""
    paths = {node: list(_stack(node)) for node in module.graph.nodes}
    leaving: dict[str, list[str]] = {}
    for node, inside in paths.items():
        for path in inside:
            if any(path not in paths[user] for user in node.users):
                leaving.setdefault(path, []).append(node.name)
    return {path: names[0] for path, names in leaving.items() if len(names) == 1}


def _stack(node: fx.Node) -> list[str]:
    """Paths of the modules around a node, outermost first, the root left out."""
    stack = node.meta.get("nn_module_stack") or {}
    return [_clean(path) for path, _ in stack.values() if _clean(path)]


def _clean(path: str) -> str:
    path = path.removeprefix("L['self']").removeprefix(".")
    return path.partition("@")[0]  # export marks the second call of a module so


def module_outputs(module: fx.GraphModule) -> dict[str, str]:
    """Module path -> name of the node that holds what the module returned (at its first call)."""
    found: dict[str, str] = module.meta["returned"]
    return found


def node_names(module: fx.GraphModule) -> dict[str, str]:
    """A readable, unique name for each node: the module's path, or ``path.operation`` where a module has several.

    Returns
    -------
    dict
        fx node name -> layer name; the second use of a name gets ``_1``, the third ``_2``.
    """
    count: dict[str, int] = {}
    for node in module.graph.nodes:
        path = _leaf(node, module)
        count[path] = count.get(path, 0) + 1
    names: dict[str, str] = {}
    taken: set[str] = set()
    for node in module.graph.nodes:
        path, stack = _leaf(node, module), _stack(node)
        if node.op not in ("call_module", "call_function", "call_method"):
            wanted = str(node.name)
        elif path and count[path] == 1:
            wanted = path
        else:
            wanted = ".".join((*stack[-1:], _operation(node)))
        name, copies = wanted, 0
        while name in taken:
            copies += 1
            name = f"{wanted}_{copies}"
        taken.add(name)
        names[node.name] = name
    return names


def _leaf(node: fx.Node, module: fx.GraphModule) -> str:
    """Path of the childless module that a node comes from, or an empty string."""
    if node.op == "call_module":
        return str(node.target)
    stack = _stack(node)
    return stack[-1] if stack and stack[-1] in module.meta["leaves"] else ""


def _operation(node: fx.Node) -> str:
    if node.op == "call_module":
        return str(node.target).rpartition(".")[2]
    packet = getattr(node.target, "overloadpacket", None)
    return str(packet.__name__ if packet else getattr(node.target, "__name__", node.target))


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"

"""From a ``torch.nn.Module`` to an ``fx.GraphModule`` that mutates nothing, by one of torch's two tracers."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch.fx.experimental.symbolic_shapes import is_concrete_int

from udfs.handlers._protocol import TensorSpec, UntraceableModelError
from udfs.handlers.torch._hooks import bake, has_global_hooks, not_copyable
from udfs.handlers.torch._layout import reshape_views
from udfs.handlers.torch._names import returned_by_stack
from udfs.handlers.torch._pure import InplaceProxy, MutationError, purify
from udfs.handlers.torch._sizes import free_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["capture", "example", "unwrapped"]

_EXAMPLE_BATCH = 2  # torch.export takes the sizes 0 and 1 for constants


class _Tracer(fx.Tracer):
    """``fx.Tracer`` that calls ``forward`` as its caller would, and remembers which node each module returned."""

    # A buffer read in forward is data of the layer; and a forward that writes to one has to be seen to.
    proxy_buffer_attributes = True

    def __init__(self, arity: int) -> None:
        super().__init__()
        self.arity = arity
        self.returned: dict[str, str] = {}

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        # The inherited one makes a placeholder of every parameter: ``if mask is None`` would take the wrong branch.
        del root_fn, is_module, concrete_args
        parameters = inspect.signature(self.root.forward).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        names += [f"input_{i}" for i in range(len(names), self.arity)]
        proxies = [self.create_proxy("placeholder", name, (), {}) for name in names[: self.arity]]
        return self.root.forward, proxies

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return InplaceProxy(node, self)

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().call_module(m, forward, args, kwargs)
        if isinstance(result, fx.Proxy):
            self.returned.setdefault(self.path_of_module(m), result.node.name)
        return result


def example(inputs: Sequence[TensorSpec], batch: int) -> tuple[torch.Tensor, ...]:
    """Make zeros of shape ``(batch, *spec.shape)``, one tensor an input."""
    return tuple(torch.zeros((batch, *spec.shape), dtype=getattr(torch, spec.dtype)) for spec in inputs)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the module that ``torch.compile(module)`` wraps, or the module itself."""
    inner = getattr(model, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else model


def capture(model: nn.Module, inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    """Graph a model by ``torch.fx``, or by ``torch.export`` where fx cannot or where tensors are mutated for others.

    The first takes milliseconds and keeps the modules whole; the second takes seconds, but follows control flow that
    depends on shapes and rewrites in-place operations into pure ones. The graph's modules are its own, their parameters
    share the memory of ``model``'s; a weight that a norm computes from others (``weight_norm``, ``spectral_norm``) is a
    parameter of its own. Views are reshapes, so that the graph runs in any memory layout.

    Returns
    -------
    torch.fx.GraphModule
        Its ``meta`` has ``leaves``, paths of the childless modules, and ``returned``, by module path the name of the
        node that holds what the module returned at its first call.

    Raises
    ------
    UntraceableModelError
        A part of the model is in training mode, or neither works; the message has both reasons.
    """
    model = unwrapped(model)
    training = [path for path, inner in model.named_modules() if inner.training]
    if training:
        raise UntraceableModelError(
            f"{training[0] or type(model).__name__} is in training mode, where dropout and batch norm are not "
            "functions of the record: call model.eval() first"
        )
    try:
        module = _by_fx(_private(model), len(inputs))
    except Exception as fx_error:  # noqa: BLE001 - tracing runs the user's own forward, which may raise anything
        try:
            module = _by_export(_private(model), inputs)
        except Exception as export_error:
            raise UntraceableModelError(
                f"{type(model).__name__} cannot be opened into a graph.\n"
                f"  torch.fx: {_first_line(fx_error)}\n"
                f"  torch.export: {_first_line(export_error)}\n"
                "Usual causes: branches or loops on tensor *values*, calls out of torch (numpy, .item(), print), a "
                "batch size fixed in the code. Move that code out of forward, or use torch.cond or torch.where."
            ) from export_error
    reshape_views(module)
    free_sizes(module, inputs)
    module.meta["leaves"] = {path for path, inner in model.named_modules() if path and not any(inner.children())}
    return module


def _private(model: nn.Module) -> nn.Module:
    """Copy the modules and share the memory of their tensors.

    Flags, attributes that forward sets, and what :meth:`torch.nn.Module.to` exchanges are then the copy's alone.
    """
    memo: dict[int, Any] = {id(tensor): tensor.detach() for tensor in model.buffers()}
    memo |= {id(tensor): nn.Parameter(tensor.detach(), tensor.requires_grad) for tensor in model.parameters()}
    private: nn.Module = copy.deepcopy(model, not_copyable(model) | memo)
    bake(private)
    for inner in private.modules():
        for name, child in inner.named_children():
            setattr(inner, name, unwrapped(child))
    return private


def _by_fx(model: nn.Module, arity: int) -> fx.GraphModule:
    if model._forward_hooks or model._forward_pre_hooks or has_global_hooks():  # noqa: SLF001 - no public reader
        raise TypeError("hooks on the model itself are not part of its forward")
    tracer = _Tracer(arity)
    graph = tracer.trace(model)
    module = fx.GraphModule(tracer.root, graph)
    purify(module)
    module.meta["returned"] = tracer.returned
    return module


def _by_export(model: nn.Module, inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    # By the names of forward's parameters, of which *args is one.
    free = dict(inspect.signature(model.forward).bind(*({0: torch.export.Dim.AUTO} for _ in inputs)).arguments)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        program = torch.export.export(model, example(inputs, _EXAMPLE_BATCH), dynamic_shapes=free, strict=False)
        module = program.run_decompositions({}).module(check_guards=False)
    assert isinstance(module, fx.GraphModule)  # noqa: S101 - what the API returns, for the type checker
    _check_exported(module)
    module.meta["returned"] = returned_by_stack(module)
    return module


def _check_exported(module: fx.GraphModule) -> None:
    """Refuse what writes to the model or fixes its batch size; drop writes to inputs, for feeds stay as they are."""
    for node in module.graph.nodes:
        if node.op == "placeholder" and node.users and is_concrete_int(node.meta["val"].shape[0]):
            raise TypeError(f"the batch size of {node.name} is fixed in the code")
        if node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            if node.target is not torch.ops.aten.copy_.default or node.args[0].op != "placeholder":
                raise MutationError(f"{node.target} changes a buffer of the model")
            node.replace_all_uses_with(node.args[1])
            module.graph.erase_node(node)
    module.recompile()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"

"""Trace of a ``torch.nn.Module`` to an ``fx.GraphModule`` that mutates nothing, by one of torch's two tracers."""

from __future__ import annotations

import copy
import inspect
import threading
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._batch_size import free_sizes, is_fixed_size
from udfs.handlers.torch._hidden_modules import check_held, not_copyable
from udfs.handlers.torch._hooks import bake, has_global_hooks
from udfs.handlers.torch._layout import reshape_views
from udfs.handlers.torch._lazy_compilation import lazily_compiled
from udfs.handlers.torch._modes import frozen_modules, set_training
from udfs.handlers.torch._mutations import InplaceProxy, MutationError, purify
from udfs.handlers.torch._names import returned_by_stack
from udfs.handlers.torch._opened_program import is_program
from udfs.handlers.torch._process_random import generator_states, same_random_numbers, same_states
from udfs.handlers.torch._program_reuse import recalled, remember_program
from udfs.handlers.torch._tracer_errors import first_line, quiet, way_out

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from udfs.tensors import TensorSpec

__all__ = [
    "baked",
    "capture",
    "capture_training",
    "check_training",
    "example",
    "exported",
    "private",
    "trace_fx",
    "unwrapped",
]

_EXAMPLE_BATCH = 2  # torch.export takes the sizes 0 and 1 for constants

# Types of weights that a table can hold the tensors of; inputs are given in float32, and converted.
_PRECISIONS = {torch.float16: "float16", torch.float64: "float64"}

# Two traces at once would restore the call of modules to that of the other trace.
_TRACING = threading.RLock()


class _Tracer(fx.Tracer):
    """``fx.Tracer`` that calls ``forward`` as its caller would, and remembers which node each module returned."""

    # A buffer read in forward is data of the layer; and a forward that writes to one has to be seen to.
    proxy_buffer_attributes = True

    def __init__(self, arity: int, kept: Collection[str] = ()) -> None:
        super().__init__()
        self.arity = arity
        self.kept = kept
        self.returned: dict[str, str] = {}
        self._thread = threading.get_ident()

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        # The inherited one makes a placeholder of every parameter: ``if mask is None`` would take the wrong branch.
        del root_fn, is_module, concrete_args
        parameters = inspect.signature(self.root.forward).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        names += [f"input_{i}" for i in range(len(names), self.arity)]
        proxies = [self.create_proxy("placeholder", name, (), {}) for name in names[: self.arity]]
        return self.root.forward, proxies

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if type(m) is nn.TransformerEncoder and module_qualified_name not in self.kept:
            return False
        return module_qualified_name in self.kept or super().is_leaf_module(m, module_qualified_name)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return InplaceProxy(node, self)

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if threading.get_ident() != self._thread:
            # A trace replaces the call of all modules in the process, also of those that another thread runs.
            return forward(*args, **kwargs)
        if type(m) is nn.TransformerEncoder and len(args) == 1 and not kwargs and not m.training:
            forward = partial(_encoded, m)
        result = super().call_module(m, forward, args, kwargs)
        # A block of transformers may return its one tensor in a tuple.
        parts = result if isinstance(result, tuple) else (result,)
        tensors = [part for part in parts if isinstance(part, fx.Proxy)]
        if len(tensors) == 1:
            self.returned.setdefault(self.path_of_module(m), tensors[0].node.name)
        return result


def _encoded(encoder: nn.TransformerEncoder, x: Any) -> Any:
    """Apply an encoder without masks layer by layer; its own forward has branches that a tracer cannot follow."""
    for layer in encoder.layers:
        x = layer(x)
    return x if encoder.norm is None else encoder.norm(x)


def example(inputs: Sequence[TensorSpec], batch: int, network: nn.Module | None = None) -> tuple[torch.Tensor, ...]:
    """Make zeros of shape ``(batch, *spec.shape)``, one tensor an input, in a network's precision and on its device."""
    precision = None if network is None else _precision(network)
    device = None if network is None else next((tensor.device for tensor in network.parameters()), None)
    types = (_type(spec, precision) for spec in inputs)
    return tuple(
        torch.zeros((batch, *spec.shape), dtype=kind, device=device) for spec, kind in zip(inputs, types, strict=True)
    )


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the module within ``torch.compile(module)`` or a wrapper that runs replicas, or the module itself."""
    inner = getattr(model, "_orig_mod", None)
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        inner = model.module
    return unwrapped(inner) if isinstance(inner, nn.Module) else model


def capture(model: nn.Module, inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    """Graph a model by ``torch.fx``, or by ``torch.export`` where fx cannot or where tensors are mutated for others.

    The first takes milliseconds and keeps the modules whole; the second takes seconds, but follows control flow that
    depends on shapes and rewrites in-place operations into pure ones. The graph's modules are its own, their parameters
    share the memory of ``model``'s; a weight that a norm computes from others (``weight_norm``, ``spectral_norm``) is a
    parameter of its own. Views are reshapes, so that the graph runs in any memory layout. The module's ``meta`` has
    ``leaves``, paths of the childless modules, and ``returned``, by module path the name of the node that holds what
    the module returned at its first call. Raise UntraceableModelError, with both reasons, if a part of the model is in
    training mode, or neither works.
    """
    model = unwrapped(model)
    if is_program(model):
        return _known(model, inputs)
    check_held(model)
    _check_arity(model, len(inputs))
    training = [path for path, inner in model.named_modules() if inner.training]
    if training:
        raise UntraceableModelError(
            f"{training[0] or type(model).__name__} is in training mode, where dropout and batch norm are not "
            "functions of the record: call model.eval() first"
        )
    return _captured(model, inputs, lambda: baked(model))


def check_training(model: nn.Module, inputs: Sequence[TensorSpec]) -> None:
    """Refuse a model that :func:`capture_training` cannot graph, whatever its forward does.

    Raise UntraceableModelError if it comes from a file without its code, holds modules that torch does not know of, or
    takes other inputs.
    """
    model = unwrapped(model)
    if is_program(model):
        raise UntraceableModelError("the network was opened from a file without its code, in inference mode")
    check_held(model)
    _check_arity(model, len(inputs))


def capture_training(
    model: nn.Module, inputs: Sequence[TensorSpec], *, training: bool, kept: Collection[str] = ()
) -> fx.GraphModule:
    """Graph a model over its own parameters and buffers, which a run of the graph trains and moves.

    The model passed :func:`check_training`, and may be in any mode; its modules are not changed. With ``training`` the
    graph is one of training, with :func:`udfs.handlers.torch._modes.set_training`, else of the evaluation meanwhile.
    The modules at the paths ``kept`` are not traced: the graph calls their own forward. Raise UntraceableModelError if
    neither tracer works, or the model's Python draws random numbers while it is traced, to decide what to do.
    """
    model = unwrapped(model)

    def copied() -> nn.Module:
        copied = private(model, tied=True)
        if training:
            set_training(copied)
        else:
            copied.eval()
        for frozen in list(frozen_modules(copied)):
            bake(copied, frozen.modules())
        return copied

    with same_random_numbers():
        module = _captured(model, inputs, copied, learning=True, kept=kept)
    registered = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and id(parameter) not in registered:
            raise UntraceableModelError(f"{name} is computed from other weights, so that training would not reach them")
    return module


def _still(trace: Callable[[], fx.GraphModule]) -> fx.GraphModule:
    """Trace, and refuse what drew: a number of the user's Python would stay in the graph as a constant."""
    before = generator_states()
    module = trace()
    if not same_states(before, generator_states()):
        raise TypeError("random numbers of Python, not of a tensor's operation, decide what the network computes")
    return module


def _captured(
    model: nn.Module,
    inputs: Sequence[TensorSpec],
    copied: Callable[[], nn.Module],
    *,
    learning: bool = False,
    kept: Collection[str] = (),
) -> fx.GraphModule:
    """Trace copies of a model by one tracer or the other; torch.export keeps no module whole."""
    precision = _precision(model)
    try:
        if learning:
            module = _still(lambda: _by_fx(copied(), len(inputs), learning=True, kept=kept))
        else:
            module = _by_fx(copied(), len(inputs))
    except Exception as fx_error:  # tracing runs the user's own forward, which may raise anything
        if kept:
            raise UntraceableModelError(f"torch.fx cannot open the model: {first_line(fx_error)}") from fx_error
        try:
            module = _exported_once(copied, inputs) if learning else _by_export(copied(), inputs)
        except Exception as export_error:
            told = [first_line(error) for error in (export_error, fx_error)]
            raise UntraceableModelError(
                f"{type(model).__name__} cannot be opened into layers: {way_out(*told)} (torch.export: {told[0]}; "
                f"torch.fx: {told[1]})"
            ) from export_error
    _convert_inputs(module, inputs, precision)
    reshape_views(module)
    free_sizes(module, inputs)
    module.meta["leaves"] = {path for path, inner in model.named_modules() if path and not any(inner.children())}
    return module


def _exported_once(copied: Callable[[], nn.Module], inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    """Export a model for training, or take the program of one that was exported before and does the same."""
    known = recalled(copied(), inputs)
    if known is not None:
        return known
    module = _still(lambda: _by_export(copied(), inputs, learning=True))
    remember_program(copied(), inputs, module)
    return module


def trace_fx(model: nn.Module) -> fx.GraphModule:
    """Graph a model by ``torch.fx`` alone, which need not know what it reads: one tensor per argument without default.

    The module is as of :func:`capture`, but unchanged: parts in training mode stay, sizes are those of the example.
    Whatever the tracer or the model's forward raise is raised.
    """
    model = unwrapped(model)
    check_held(model)
    parameters = inspect.signature(model.forward).parameters.values()
    arguments = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    module = _by_fx(baked(model), max(1, len(arguments)))
    reshape_views(module)
    module.meta["leaves"] = {path for path, inner in model.named_modules() if path and not any(inner.children())}
    return module


def private(model: nn.Module, *, tied: bool = False) -> nn.Module:
    """Copy the modules and share the memory of their tensors.

    Flags, attributes that forward sets, and what :meth:`torch.nn.Module.to` exchanges are then the copy's alone. If
    ``tied``, parameters and buffers are those of ``model`` themselves, gradients and all. Raise UntraceableModelError
    if the network holds what cannot be copied, as a lock or an open file.
    """
    model = unwrapped(model)
    memo: dict[int, Any] = {id(tensor): tensor if tied else tensor.detach() for tensor in model.buffers()}
    memo |= {
        id(tensor): tensor if tied else nn.Parameter(tensor.detach(), tensor.requires_grad)
        for tensor in model.parameters()
    }
    try:
        copied: nn.Module = copy.deepcopy(model, not_copyable(model) | memo)
    except Exception as error:
        raise UntraceableModelError(
            f"{type(model).__name__} cannot be copied, as for the workers it has to be: let none of its modules hold "
            f"open files, locks or generators ({first_line(error)})"
        ) from error
    for inner in copied.modules():
        for name, child in inner.named_children():
            setattr(inner, name, unwrapped(child))
    return copied


def baked(model: nn.Module) -> nn.Module:
    """Copy the modules as :func:`private` does, with the weights that norms and pruning give them in inference."""
    copied = private(model)
    bake(copied)
    return copied


def _check_arity(model: nn.Module, count: int) -> None:
    """Refuse a network that takes another number of inputs, before a tracer fails on it in words of its own."""
    parameters = [
        parameter
        for parameter in inspect.signature(model.forward).parameters.values()
        if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
    ]
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty][: len(names)]
    takes_all = len(names) < len(parameters)
    if len(needed) > count or (count > len(names) and not takes_all):
        raise UntraceableModelError(
            f"{type(model).__name__}.forward takes {len(names)} inputs as arguments ({', '.join(names)}), {count} "
            "described: describe each image in a part of Preprocessings; of a network that also reads numbers, give "
            "the part that reads the image, and the numbers to the downstream model"
        )


def _precision(model: nn.Module) -> torch.dtype | None:
    """Find the type of a network's weights, where it is one and not float32.

    Raise UntraceableModelError if it is bfloat16 or narrower, which numpy and tables do not have.
    """
    floating = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    other = [kind for kind in floating if kind not in (torch.float32, *_PRECISIONS)]
    if other:
        name = str(other[0]).removeprefix("torch.")
        raise UntraceableModelError(
            f"{type(model).__name__} has weights in {name}, which tables do not have: call .float() on the network"
        )
    (only,) = floating if len(floating) == 1 else (None,)
    return only if only in _PRECISIONS else None


def _type(spec: TensorSpec, precision: torch.dtype | None) -> torch.dtype:
    kind: torch.dtype = getattr(torch, spec.dtype)
    return precision if precision is not None and kind == torch.float32 else kind


def _convert_inputs(module: fx.GraphModule, inputs: Sequence[TensorSpec], precision: torch.dtype | None) -> None:
    """Begin a graph of half or double precision with the conversion of what is given in float32."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, inputs, strict=True):
        kind = _type(spec, precision)
        if str(kind) == f"torch.{spec.dtype}":
            continue
        with module.graph.inserting_after(node):
            converted = module.graph.call_method("to", (node, kind))
        node.replace_all_uses_with(converted, delete_user_cb=lambda user, converted=converted: user is not converted)
    module.recompile()


def _by_fx(model: nn.Module, arity: int, *, learning: bool = False, kept: Collection[str] = ()) -> fx.GraphModule:
    if model._forward_hooks or model._forward_pre_hooks or has_global_hooks():  # no public reader
        raise TypeError("hooks on the model itself are not part of its forward")
    tracer = _Tracer(arity, kept)
    with _TRACING:
        graph = tracer.trace(model)
    _open_named_tuples(graph)
    module = lazily_compiled(tracer.root, graph) if learning else fx.GraphModule(tracer.root, graph)
    purify(module)
    module.meta["returned"] = tracer.returned
    return module


def exported(model: nn.Module, inputs: Sequence[TensorSpec], *, learning: bool = False) -> torch.export.ExportedProgram:
    """Export a module of the caller's own, for any number of records and in pure operations."""
    # By the names of forward's parameters, of which *args is one.
    free = dict(inspect.signature(model.forward).bind(*({0: torch.export.Dim.AUTO} for _ in inputs)).arguments)
    with torch.set_grad_enabled(learning), quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        program = torch.export.export(model, example(inputs, _EXAMPLE_BATCH, model), dynamic_shapes=free, strict=False)
        decomposed: torch.export.ExportedProgram = program.run_decompositions({})
    return decomposed


def _known(program: nn.Module, inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    """Copy a program that was saved, check it, and make it ready as :func:`capture` does what it traced."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        module = private(program)
    assert isinstance(module, fx.GraphModule)  # what a program is, for the type checker
    _check_exported(module)
    _convert_inputs(module, inputs, _precision(module))
    reshape_views(module)
    free_sizes(module, inputs)
    return module


def _by_export(model: nn.Module, inputs: Sequence[TensorSpec], *, learning: bool = False) -> fx.GraphModule:
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
        module = exported(model, inputs, learning=learning).module(check_guards=False)
    assert isinstance(module, fx.GraphModule)  # what the API returns, for the type checker
    _check_exported(module)
    module.meta["returned"] = returned_by_stack(module)
    return module


def _check_exported(module: fx.GraphModule) -> None:
    """Refuse writes to the model and a fixed batch size; drop writes to inputs, because feeds must not change."""
    for node in module.graph.nodes:
        if node.op == "placeholder" and node.users and is_fixed_size(node.meta["val"].shape[0]):
            raise TypeError(f"the batch size of {node.name} is fixed in the code")
        if node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            if node.target is not torch.ops.aten.copy_.default or node.args[0].op != "placeholder":
                raise MutationError(f"{node.target} changes a buffer of the model")
            node.replace_all_uses_with(node.args[1])
            module.graph.erase_node(node)
    module.recompile()


def _open_named_tuples(graph: fx.Graph) -> None:
    """Let a graph return the fields of a named tuple, of which fx makes a call of its class."""

    def opened(value: Any) -> Any:
        if isinstance(value, fx.Node):
            fields = getattr(value.target, "_fields", None) if value.op == "call_function" else None
            if fields is None:
                return value
            fields_ = dict(zip(fields, value.args, strict=False)) | value.kwargs
            return tuple(opened(fields_[field]) for field in fields)
        if isinstance(value, dict):
            return {key: opened(entry) for key, entry in value.items()}
        return type(value)(map(opened, value)) if type(value) in (list, tuple) else value

    (output,) = (node for node in graph.nodes if node.op == "output")
    output.args = (opened(output.args[0]),)
    for node in reversed(graph.nodes):
        if not node.users and node.op == "call_function" and hasattr(node.target, "_fields"):
            graph.erase_node(node)

"""Programs that a user exported with ``torch.export``, opened as modules whose graph is known already."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._batch_size import is_fixed_size
from udfs.handlers.torch._fx import exported
from udfs.handlers.torch._names import returned_by_stack
from udfs.handlers.torch._opened_program import is_program
from udfs.handlers.torch._tracer_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.tensors import TensorSpec

__all__ = ["image_shape", "is_exported", "opened", "reexported"]

_CLOSE = 1e-4
_IMAGE_RANK = 4

# Module of guards that an exported module calls first; they refuse other sizes than those of the example.
_GUARDS = "_guards_fn"


def is_exported(model: object) -> bool:
    """Return whether a model is an ``ExportedProgram``, or the module of one."""
    if isinstance(model, torch.export.ExportedProgram):
        return True
    if not isinstance(model, fx.GraphModule) or is_program(model):
        return False
    operators = (node.target for node in model.graph.nodes if node.op == "call_function")
    return any(isinstance(target, torch._ops.OpOverload) for target in operators)


def image_shape(model: Any) -> tuple[int, ...] | None:
    """Return the shape per record of a program's only input, if it is an image of a fixed size."""
    graph = model.graph_module.graph if isinstance(model, torch.export.ExportedProgram) else model.graph
    named = {spec.arg.name for spec in getattr(getattr(model, "graph_signature", None), "input_specs", ())
             if spec.kind.name == "USER_INPUT"}  # fmt: skip
    shapes = [
        tuple(node.meta["val"].shape)
        for node in graph.nodes
        if node.op == "placeholder" and "val" in node.meta and (not named or node.name in named)
    ]
    if len(shapes) != 1 or len(shapes[0]) != _IMAGE_RANK or not all(is_fixed_size(size) for size in shapes[0][1:]):
        return None
    return tuple(int(size) for size in shapes[0][1:])


def opened(model: Any, inputs: Sequence[TensorSpec]) -> fx.GraphModule:
    """Open a user's program as :func:`udfs.handlers.torch._program.open_network` opens a file.

    Raises
    ------
    UntraceableModelError
        It runs on one batch size only, or gives other numbers for any number of records.
    """
    return _as_module(reexported(model, inputs))


def reexported(model: Any, inputs: Sequence[TensorSpec]) -> torch.export.ExportedProgram:
    """Export a user's program anew for any number of records; the paths of its modules stay."""
    module = _without_guards(model)
    sizes = {int(shape[0]) for shape in _input_shapes(module) if is_fixed_size(shape[0])}
    try:
        program = exported(module, inputs)
        made = _as_module(program)
        fixed = any(is_fixed_size(shape[0]) for shape in _input_shapes(made))
        if not fixed:
            _compare(module, made, inputs, min(sizes, default=2))
            return program
        reason = ""
    except UntraceableModelError:
        raise
    except Exception as error:  # noqa: BLE001 - torch fails on a program in whichever way it happens to
        reason = f" ({first_line(error)})"
    batch = f"the batch size {min(sizes)}" if sizes else "the shapes of its example"
    raise UntraceableModelError(
        f"the exported program must run on any number of records of {', '.join(str(spec.shape) for spec in inputs)}, "
        f"got one for {batch}{reason}. Export it with dynamic_shapes=({{0: torch.export.Dim('batch')}},)"
    )


def _without_guards(model: Any) -> fx.GraphModule:
    if isinstance(model, torch.export.ExportedProgram):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
            module = model.module(check_guards=False)
        assert isinstance(module, fx.GraphModule)  # what the API returns, for the type checker
        return module
    module = copy.deepcopy(model)
    for node in list(module.graph.nodes):
        if node.op == "call_module" and node.target == _GUARDS:
            module.graph.erase_node(node)
    module.recompile()
    return module  # type: ignore[no-any-return]


def _as_module(program: torch.export.ExportedProgram) -> fx.GraphModule:
    module = _without_guards(program)
    # A class of its own: that of torch.export refuses eval(), which says nothing to a program.
    made = fx.GraphModule(module, module.graph)
    made.meta["returned"] = returned_by_stack(made)
    stacks = [list((node.meta.get("nn_module_stack") or {}).values()) for node in made.graph.nodes]
    made.meta["leaves"] = {str(stack[-1][0]).partition("@")[0] for stack in stacks if stack} - {""}
    return made.eval().requires_grad_(False)


def _input_shapes(module: fx.GraphModule) -> list[tuple[Any, ...]]:
    nodes = (node for node in module.graph.nodes if node.op == "placeholder" and "val" in node.meta)
    return [tuple(node.meta["val"].shape) for node in nodes if node.meta["val"].dim()]


def _compare(module: fx.GraphModule, made: fx.GraphModule, inputs: Sequence[TensorSpec], rows: int) -> None:
    """Compare the outputs for the number of records for which the user exported the program."""
    draw = torch.Generator().manual_seed(0)
    sample = [
        torch.randn((rows, *spec.shape), generator=draw).to(getattr(torch, spec.dtype))
        if "float" in spec.dtype
        else torch.ones((rows, *spec.shape), dtype=getattr(torch, spec.dtype))
        for spec in inputs
    ]
    with torch.inference_mode():
        pairs = zip(_tensors(module(*sample)), _tensors(made(*sample)), strict=True)
        same = all(torch.allclose(first, second, rtol=_CLOSE, atol=_CLOSE, equal_nan=True) for first, second in pairs)
    if not same:
        raise UntraceableModelError(
            "the exported program gives other numbers if it is exported for any number of records: export it with "
            "dynamic_shapes=({0: torch.export.Dim('batch')},)"
        )


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]

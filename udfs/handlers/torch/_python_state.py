"""State of a network outside of its tensors: attributes of modules, and variables of its functions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from udfs.handlers.torch._constants import attribute
from udfs.handlers.torch._fingerprint import describe_value
from udfs.handlers.torch._hooks import has_hooks
from udfs.handlers.torch._user_code import (
    MODULE_ATTRIBUTES,
    closure_values,
    forward_hooks,
    is_of_user,
    python_function,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CellType, FunctionType

    from torch import nn

__all__ = ["changed_attribute", "python_state", "same_variables"]

# Values that a function may count with.
_NUMBERS = (bool, int, float, complex, str, type(None))


def python_state(model: nn.Module) -> dict[str, str | None]:
    """Describe the attributes and variables of modules with a user's code, by path.

    The variables are numbers and texts in classes, closures and global variables of functions, and generators that
    nodes of a graph draw from. Tensors with a history have no description, but ``None``.
    """
    state: dict[str, Any] = dict(_generators(model))
    for path, inner in model.named_modules():
        if has_hooks(inner) or is_of_user(inner):
            state |= {f"{path}.{name}": value for name, value in vars(inner).items() if name not in MODULE_ATTRIBUTES}
            for place, hook in enumerate(forward_hooks(inner)):
                variables = getattr(hook, "__dict__", {})
                state |= {f"{path}.hook {place}.{name}": value for name, value in variables.items()}
    for kind in _users_classes(model):
        variables = {name: value for name, value in vars(kind).items() if isinstance(value, _NUMBERS)}
        state |= {f"{kind.__qualname__}.{name}": value for name, value in variables.items()}
    for function in _functions(model):
        variables = {**_globals(function), **_cells(function)}
        state |= {f"{function.__qualname__}.{name}": value for name, value in variables.items()}
    return {name: _described(value) for name, value in state.items()}


def changed_attribute(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> str | None:
    """Name the first entry that differs in two results of :func:`python_state`."""
    names = (name for name in after if after[name] is not None and before.get(name, "") != after[name])
    return next((name for name in names if name not in before or before[name] is not None), None)


@contextmanager
def same_variables(model: nn.Module) -> Iterator[None]:
    """Restore the numbers in global variables and closures of a network's functions after a block."""
    of_modules: list[tuple[dict[str, Any], dict[str, Any]]] = []
    cells: list[tuple[CellType, Any]] = []
    for function in _functions(model):
        of_modules.append((function.__globals__, _globals(function)))
        values = _cells(function)
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        cells += [(cell, values[name]) for name, cell in closure if name in values]
    try:
        yield
    finally:
        for variables, saved in of_modules:
            variables.update(saved)
        for cell, value in cells:
            cell.cell_contents = value


def _generators(model: nn.Module) -> Iterator[tuple[str, torch.Generator]]:
    """Yield the generators that nodes of a graph draw from, by name."""
    nodes = model.graph.nodes if isinstance(model, fx.GraphModule) else ()
    for node in nodes:
        constant = [attribute(model, str(node.target))] if node.op == "get_attr" else []
        for value in tree_leaves((constant, list(node.args), dict(node.kwargs))):
            if isinstance(value, torch.Generator):
                yield f"the generator of {node.name}", value


def _described(value: Any) -> str | None:
    if isinstance(value, torch.Generator):
        return describe_value(value.get_state())
    if isinstance(value, torch.Tensor) and value.grad_fn is not None:
        return None
    return describe_value(value)


def _users_classes(model: nn.Module) -> list[type]:
    """List the classes of a network's modules, and their bases, that are not of torch or Python."""
    kinds = {base: None for inner in model.modules() for base in type(inner).__mro__}
    return [kind for kind in kinds if not kind.__module__.startswith(("torch.", "builtins"))]


def _functions(model: nn.Module) -> list[FunctionType]:
    """List the functions of users' classes and the hooks in a network, and the functions that they decorate."""
    values = [value for kind in _users_classes(model) for value in vars(kind).values()]
    values += [hook for inner in model.modules() for hook in forward_hooks(inner)]
    functions: dict[int, FunctionType] = {}
    for value in values:
        function = python_function(value)
        while function is not None:
            functions[id(function)] = function
            function = python_function(getattr(function, "__wrapped__", None))  # decorated, as by torch.no_grad()
    return list(functions.values())


def _globals(function: FunctionType) -> dict[str, Any]:
    names = (name for name in function.__code__.co_names if name in function.__globals__)
    values = {name: function.__globals__[name] for name in names}
    return {name: value for name, value in values.items() if isinstance(value, _NUMBERS)}


def _cells(function: FunctionType) -> dict[str, Any]:
    return {name: value for name, value in closure_values(function).items() if isinstance(value, _NUMBERS)}

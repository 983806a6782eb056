"""State of a network outside of its tensors: attributes of modules, and variables of its functions."""

from __future__ import annotations

from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from udfs.handlers.torch._constants import attribute
from udfs.handlers.torch._fingerprint import plain
from udfs.handlers.torch._hooks import has_hooks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CellType

__all__ = ["changed_attribute", "python_state", "same_variables"]

# Attributes of every module of torch.
_OF_ALL = frozenset(vars(nn.Module()))

# Values that a function may count with.
_NUMBERS = (bool, int, float, complex, str, type(None))


def python_state(model: nn.Module) -> dict[str, str | None]:
    """Describe attributes and variables of the modules with code of a user, by path; of tensors with a history None."""
    state: dict[str, Any] = dict(_generators(model))
    for path, inner in model.named_modules():
        if has_hooks(inner) or is_of_user(inner):
            state |= {f"{path}.{name}": value for name, value in vars(inner).items() if name not in _OF_ALL}
            for place, hook in enumerate(_hooks(inner)):
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


def is_of_user(inner: nn.Module) -> bool:
    """Return whether the class of a module is not one of torch."""
    return not type(inner).__module__.startswith("torch.")


@contextmanager
def same_variables(model: nn.Module) -> Iterator[None]:
    """Put numbers back after a block that functions of a network count in global variables and closures."""
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
        return plain(value.get_state())
    if isinstance(value, torch.Tensor) and value.grad_fn is not None:
        return None
    return plain(value)


def _hooks(inner: nn.Module) -> list[Any]:
    return [*inner._forward_pre_hooks.values(), *inner._forward_hooks.values()]


def _users_classes(model: nn.Module) -> list[type]:
    """List the classes of a network's modules, and their bases, that are not of torch or Python."""
    kinds = {base: None for inner in model.modules() for base in type(inner).__mro__}
    return [kind for kind in kinds if not kind.__module__.startswith(("torch.", "builtins"))]


def _functions(model: nn.Module) -> list[FunctionType]:
    """List the functions of users' classes and the hooks in a network, those within decorators included."""
    values = [value for kind in _users_classes(model) for value in vars(kind).values()]
    values += [hook for inner in model.modules() for hook in _hooks(inner)]
    functions: dict[int, FunctionType] = {}
    for value in values:
        function = getattr(value, "__func__", value)
        if not isinstance(function, (FunctionType, type)):
            function = vars(type(function)).get("__call__")
        while isinstance(function, FunctionType):
            functions[id(function)] = function
            function = getattr(function, "__wrapped__", None)  # as of torch.no_grad()
    return list(functions.values())


def _globals(function: FunctionType) -> dict[str, Any]:
    names = (name for name in function.__code__.co_names if name in function.__globals__)
    values = {name: function.__globals__[name] for name in names}
    return {name: value for name, value in values.items() if isinstance(value, _NUMBERS)}


def _cells(function: FunctionType) -> dict[str, Any]:
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # an empty one
            continue
    return {name: value for name, value in values.items() if isinstance(value, _NUMBERS)}

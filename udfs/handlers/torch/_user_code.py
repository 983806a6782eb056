"""Code and attributes that a user has added to torch's modules."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from torch import nn

__all__ = ["MODULE_ATTRIBUTES", "closure_values", "forward_hooks", "is_of_user", "python_function"]

MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
"""Names of the attributes that every module of torch has: its mode, tensors, modules and hooks."""


def is_of_user(module: nn.Module) -> bool:
    """Return whether the class of a module is not one of torch."""
    return not type(module).__module__.startswith("torch.")


def forward_hooks(module: nn.Module) -> list[Any]:
    """List the hooks that run before and after the forward pass of a module."""
    return [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]


def python_function(value: Any) -> FunctionType | None:
    """Return the function in Python that a function, method or callable object runs; ``None`` if there is none.

    Examples
    --------
    >>> class Twice:
    ...     def __call__(self, number):
    ...         return 2 * number
    >>> python_function(Twice()).__name__, python_function(len)
    ('__call__', None)
    """
    function = getattr(value, "__func__", value)
    if not isinstance(function, (FunctionType, type)):
        function = vars(type(function)).get("__call__")
    return function if isinstance(function, FunctionType) else None


def closure_values(function: FunctionType) -> dict[str, Any]:
    """Return the variables of a function's closure by name, without those that have no value yet."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # an empty cell
            continue
    return values

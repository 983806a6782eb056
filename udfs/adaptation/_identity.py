"""Description of functions by their code and values, equal in every process."""

from __future__ import annotations

import hashlib
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

__all__ = ["described"]

_SHORT = 64
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes, np.generic, np.dtype)


def described(value: Any) -> str:
    """Describe a value by its contents, and not by its address.

    A function is described by its code, defaults and closure, and by the functions and plain values of its module that
    it uses; an object by its class and attributes.

    Examples
    --------
    >>> described(lambda x: x + 1) == described(lambda x: x + 2)
    False
    >>> described(lambda x: x + 1) == described(lambda x: x + 1)
    True
    """
    return _described(value, ())


def _described(value: Any, above: tuple[int, ...]) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (type, ModuleType)):
        return value.__name__
    if id(value) in above:
        # A recursive function refers to itself by its level.
        return f"above {len(above) - above.index(id(value))}"
    above = (*above, id(value))
    if hasattr(value, "__array__"):
        array = np.ascontiguousarray(value)
        return f"array({array.dtype}, {array.shape}, {hashlib.blake2b(array.tobytes()).hexdigest()[:_SHORT]})"
    if isinstance(value, (tuple, list, set, frozenset, dict)):
        return _described_items(value, above)
    return f"{_named(value)}({_described(_contents(value), above)})"


def _described_items(value: Any, above: tuple[int, ...]) -> str:
    if isinstance(value, dict):
        items = [f"{_described(key, above)}: {_described(item, above)}" for key, item in value.items()]
    else:
        items = [_described(item, above) for item in value]
    return f"{type(value).__name__}({', '.join(sorted(items) if isinstance(value, (set, frozenset)) else items)})"


def _named(value: Any) -> str:
    if isinstance(value, (FunctionType, CodeType, MethodType, partial)):
        kind: type = type(value)
        return kind.__name__
    named: Any = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _contents(value: Any) -> Any:
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, value.co_consts]
    if isinstance(value, FunctionType):
        cells = [_content(cell) for cell in value.__closure__ or ()]
        names = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
        used = {name: content for name, content in names.items() if _counts(content, value)}
        return [value.__code__, value.__defaults__, value.__kwdefaults__, cells, used]
    kept = dict(getattr(value, "__dict__", {}))
    call = vars(type(value)).get("__call__")
    return [kept, call] if isinstance(call, FunctionType) else [kept]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _names(code: CodeType) -> list[str]:
    """List the names of its module that a function and its inner functions may read."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return sorted({*code.co_names, *inner})


def _counts(content: Any, function: FunctionType) -> bool:
    is_plain = isinstance(content, (bool, int, float, str, bytes, tuple, list, dict, np.ndarray))
    return is_plain or (isinstance(content, FunctionType) and content.__module__ == function.__module__)

"""Functions behind decorators of functools, which pickle by their names or not at all, pickled by value."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["as_helper"]

_CACHED = type(functools.lru_cache(int))


def as_helper(value: Any) -> tuple[Any, ...] | None:
    """Return how to pickle a cached or dispatching function, as ``__reduce__`` does; ``None`` for anything else.

    The function behind the decorator is set afterwards, for it may call the decorated one. A cache stays here.
    """
    if type(value) is _CACHED:
        return _cached, (value.cache_parameters(),), value.__wrapped__, None, None, _set_cached
    if isinstance(value, FunctionType) and hasattr(value, "registry") and hasattr(value, "dispatch"):
        return _dispatching, (), dict(value.registry), None, None, _set_dispatching
    return None


def _cached(parameters: Mapping[str, Any]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return call.function(*args, **kwargs)  # type: ignore[attr-defined]

    return functools.lru_cache(**parameters)(call)


def _set_cached(decorated: Any, function: Callable[..., Any]) -> None:
    decorated.__wrapped__.function = function


def _dispatching() -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return call.function(*args, **kwargs)  # type: ignore[attr-defined]

    return functools.singledispatch(call)


def _set_dispatching(decorated: Any, registry: Mapping[type, Callable[..., Any]]) -> None:
    for kind, function in registry.items():
        decorated.register(kind, function)

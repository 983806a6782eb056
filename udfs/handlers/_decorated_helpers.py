"""Functions behind decorators of functools that pickle by their names or not at all, pickled by value."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["as_helper"]

_CACHED = type(functools.lru_cache(int))


def as_helper(value: Any) -> tuple[Any, ...] | None:
    """Return how to pickle a cached function or property, or a dispatching function; ``None`` for anything else.

    The function behind the decorator is set afterwards, for it may call the decorated one. A cache stays here.
    """
    if type(value) is _CACHED:
        return _cached, (value.cache_parameters(),), value.__wrapped__, None, None, _set_cached
    if type(value) is functools.cached_property:
        # Before Python 3.12 it holds a lock.
        return _cached_property, (value.attrname,), value.func, None, None, _set_cached_property
    if isinstance(value, FunctionType) and hasattr(value, "registry") and hasattr(value, "dispatch"):
        return _dispatching, (), dict(value.registry), None, None, _set_dispatching
    return None


def _cached(parameters: Mapping[str, Any]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return call.function(*args, **kwargs)  # type: ignore[attr-defined]

    return functools.lru_cache(**parameters)(call)


def _set_cached(decorated: Any, function: Callable[..., Any]) -> None:
    decorated.__wrapped__.function = function


def _cached_property(attrname: str) -> Any:
    made = functools.cached_property(_cached_property)
    made.attrname = attrname
    return made


def _set_cached_property(made: Any, function: Callable[..., Any]) -> None:
    made.func, made.__doc__ = function, function.__doc__


def _dispatching() -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return call.function(*args, **kwargs)  # type: ignore[attr-defined]

    return functools.singledispatch(call)


def _set_dispatching(decorated: Any, registry: Mapping[type, Callable[..., Any]]) -> None:
    for kind, function in registry.items():
        decorated.register(kind, function)

"""Functions behind decorators of functools that pickle by their names or not at all, pickled by value."""

from __future__ import annotations

import functools
import sys
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["attribute", "register_reducers"]

_CACHED = type(functools.lru_cache(int))


def register_reducers() -> None:
    """Register with Spark's pickler how cached functions, cached properties and dispatching functions travel.

    Those that the workers cannot import are pickled by value, as Spark's pickler does with plain functions. A cache
    stays in this process. Reducers that were registered before stay.
    """
    from pyspark import cloudpickle  # images and networks are opened without Spark, too

    table = cloudpickle.Pickler.dispatch_table
    table.setdefault(_CACHED, _reduce_cached)
    table.setdefault(functools.cached_property, _reduce_cached_property)
    # A function of functools.singledispatch has one in its closure.
    table.setdefault(WeakKeyDictionary, _reduce_weak_keys)


def attribute(module: str, name: str) -> Any:
    """Return the attribute of a loaded module by its qualified name, or ``None``."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _reduce_cached(value: Any) -> str | tuple[Any, ...]:
    """Pickle a cached function by its name where the workers can import it, else with the function behind it.

    That function is set afterwards, because it may call the cached one.
    """
    if _can_import(value):
        name: str = value.__reduce__()
        return name
    return _cached, (value.cache_parameters(),), value.__wrapped__, None, None, _set_cached


def _can_import(value: Any) -> bool:
    from pyspark import cloudpickle

    module, name = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
    by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}  # type: ignore[no-untyped-call]
    if by_value.intersection(accumulate(module.split("."), "{}.{}".format)):
        return False
    return attribute(module, name) is value


def _cached(parameters: Mapping[str, Any]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return call.function(*args, **kwargs)  # type: ignore[attr-defined]

    return functools.lru_cache(**parameters)(call)


def _set_cached(decorated: Any, function: Callable[..., Any]) -> None:
    decorated.__wrapped__.function = function


def _reduce_cached_property(value: Any) -> tuple[Any, ...]:
    # Before Python 3.12 it holds a lock.
    return _cached_property, (value.attrname,), value.func, None, None, _set_cached_property


def _cached_property(attrname: str) -> Any:
    made = functools.cached_property(_cached_property)
    made.attrname = attrname
    return made


def _set_cached_property(made: Any, function: Callable[..., Any]) -> None:
    made.func, made.__doc__ = function, function.__doc__


def _reduce_weak_keys(value: WeakKeyDictionary[Any, Any]) -> tuple[Any, ...]:
    return WeakKeyDictionary, (), None, None, iter(list(value.items()))

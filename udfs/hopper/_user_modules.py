"""Modules of a user that a function imports: their names on the driver, and the search for them on a worker."""

from __future__ import annotations

import dis
import importlib.util
import io
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark import cloudpickle

from udfs.handlers import own_packages, register_reducers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["MissingModules", "imported_modules"]

_CACHED = type(lru_cache(int))


@dataclass(frozen=True, slots=True)
class MissingModules:
    """Search for modules on a worker, a function for ``mapInArrow`` on one row.

    Parameters
    ----------
    names : tuple of str
        Names of the modules.
    """

    names: tuple[str, ...]

    schema: ClassVar[str] = "name string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the names of the modules that are not found, without importing them."""
        for _ in batches:
            pass
        missing = [name for name in self.names if importlib.util.find_spec(name) is None]
        yield pa.RecordBatch.from_pydict({"name": pa.array(missing, pa.string())})


def imported_modules(function: Callable[..., Any]) -> tuple[str, ...]:
    """Name the top modules beside the user's code that a function needs where it is unpickled and called.

    They are the modules of classes and functions that are pickled by their names, modules that the function refers to,
    and those that it imports when it is called. Modules that travel by value are left out.
    """
    register_reducers()
    modules: set[str] = set()
    by_value = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            reduced = super().reducer_override(obj)  # type: ignore[no-untyped-call]
            if isinstance(obj, ModuleType):
                modules.add(obj.__name__)
            elif reduced is NotImplemented and (isinstance(obj, (type, FunctionType)) or self._names_cached(obj)):
                modules.add(str(obj.__module__))
            elif isinstance(obj, FunctionType):
                modules.update(_imports(obj.__code__))
            return reduced

        def _names_cached(self, obj: Any) -> bool:
            """Return whether an object is a cached function that is pickled by its name."""
            return isinstance(obj, _CACHED) and isinstance(self.dispatch_table[_CACHED](obj), str)

    Pickler(io.BytesIO()).dump(function)  # type: ignore[no-untyped-call]
    return tuple(sorted(own_packages(modules - by_value - {""}) - by_value))


def _imports(code: CodeType) -> Iterator[str]:
    """List the modules that a function's code imports when it runs, and those of the functions within it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports(constant)

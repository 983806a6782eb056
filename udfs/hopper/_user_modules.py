"""Modules of the user's that a function imports: found on the driver, and looked for on a worker."""

from __future__ import annotations

import dis
import importlib.util
import io
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark import cloudpickle

from udfs.handlers import own_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["MissingModules", "imported_modules"]


@dataclass(frozen=True, slots=True)
class MissingModules:
    """Search for modules on a worker. Call it with ``mapInArrow`` on one row: it gives the names that are not found."""

    names: tuple[str, ...]

    schema: ClassVar[str] = "name string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Look for the modules without importing them."""
        for _ in batches:
            pass
        missing = [name for name in self.names if importlib.util.find_spec(name) is None]
        yield pa.RecordBatch.from_pydict({"name": pa.array(missing, pa.string())})


def imported_modules(function: Callable[..., Any]) -> tuple[str, ...]:
    """Name the top modules beside the user's code that a function needs where it is unpickled and called.

    They are the modules of classes and functions that are pickled by their names, modules that the function refers to,
    and those that it imports when it is called.
    """
    modules: dict[str, None] = {}
    by_value = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            reduced = super().reducer_override(obj)  # type: ignore[no-untyped-call]
            if isinstance(obj, ModuleType):
                modules[obj.__name__] = None
            elif reduced is NotImplemented and isinstance(obj, (type, FunctionType)):
                modules[str(obj.__module__)] = None
            elif isinstance(obj, FunctionType):
                modules.update(dict.fromkeys(_imports(obj.__code__)))
            return reduced

    Pickler(io.BytesIO()).dump(function)  # type: ignore[no-untyped-call]
    tops = dict.fromkeys(name.partition(".")[0] for name in modules if name and name not in by_value)
    return tuple(sorted(own_packages(top for top in tops if top not in by_value)))


def _imports(code: CodeType) -> Iterator[str]:
    """List the modules that a function's code imports when it runs, functions in it included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports(constant)

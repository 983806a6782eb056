"""Models as their authors wrote them, pickled for Spark's closures: code by value where only the driver has it."""

from __future__ import annotations

import io
import pickletools
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from udfs.handlers._decorated_helpers import attribute, register_reducers
from udfs.handlers._installed_packages import own_packages
from udfs.handlers._protocol import UntraceableModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["by_value", "dumped"]


def dumped(
    value: object, classes: Iterable[type] = (), persistent: Callable[[object], object | None] = lambda _: None
) -> bytes:
    """Pickle a value as Spark pickles closures, and the user's own modules by value.

    The packages of ``classes`` that are not installed travel by value, and so do those that their code reads.
    ``persistent`` gives what stands for an object that is stored elsewhere, or ``None``.

    Raises
    ------
    UntraceableModelError
        An object of the user's own modules can be pickled by its name alone, which means nothing on the workers.
    """
    packages = own_packages({made.__module__ for made in classes})
    while True:
        data = _pickled(value, packages, persistent)
        globals_read, texts = _names(data)
        # A module's name in the pickle is an import on the workers, or tells where a function by value came from.
        more = own_packages({text for text in texts if text in sys.modules}) - packages
        if not more:
            break
        packages |= more
    for module, name in globals_read:
        if _top(module) in {"__main__", *packages}:
            raise UntraceableModelError(
                f"{name} of module {module} must be a function or a class to be sent to the workers, got a "
                f"{type(attribute(module, name)).__name__}, which pickles by its name alone. Take its decorator away, "
                f"or install {_top(module)} on the workers"
            )
    return data


def _pickled(value: object, packages: set[str], persistent: Callable[[object], object | None]) -> bytes:
    from pyspark import cloudpickle  # images and networks are opened without Spark, too

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, value: object) -> object | None:
            return persistent(value)

    register_reducers()
    buffer = io.BytesIO()
    with by_value(packages):
        Pickler(buffer).dump(value)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def _names(data: bytes) -> tuple[list[tuple[str, str]], set[str]]:
    """List what a pickle reads by module and name, and all texts in it."""
    read: list[tuple[str, str]] = []
    texts: list[str] = []
    memo: list[str | None] = []
    last: str | None = None
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "MEMOIZE":
            memo.append(last)
            continue
        last = None
        if "UNICODE" in opcode.name:
            last = str(argument)
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            last = memo[argument or 0]
        elif opcode.name == "STACK_GLOBAL":
            read.append((texts[-2], texts[-1]))
        if last is not None:
            texts.append(last)
    return read, set(texts)


def _top(module: str) -> str:
    return module.partition(".")[0]


@contextmanager
def by_value(packages: Iterable[str]) -> Iterator[None]:
    """Pickle the classes and functions of packages by value for a ``with`` block: workers need not have them."""
    from pyspark import cloudpickle  # images and networks are opened without Spark, too

    known = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    added = [sys.modules[name] for name in packages if name in sys.modules and name not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]

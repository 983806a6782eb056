"""Models as their authors wrote them, pickled for Spark's closures: code by value where only the driver has it."""

from __future__ import annotations

import io
import sys
import sysconfig
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["by_value", "dumped", "own_packages"]

_INSTALLED = tuple({str(Path(sysconfig.get_path(kind)).resolve()) for kind in ("stdlib", "purelib", "platlib")})
_OURS = ("vista_spark", "cerebro_spark", "udfs", "optimizer")


def dumped(
    value: object, classes: Iterable[type] = (), persistent: Callable[[object], object | None] = lambda _: None
) -> bytes:
    """Pickle a value as Spark pickles closures, and the user's own classes by value.

    The packages of ``classes`` that are not installed travel by value. ``persistent`` gives what stands for an object
    that is stored elsewhere, or ``None``.
    """
    from pyspark import cloudpickle  # images and networks are opened without Spark, too

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, value: object) -> object | None:
            return persistent(value)

    buffer = io.BytesIO()
    with by_value(own_packages(made.__module__ for made in classes)):
        Pickler(buffer).dump(value)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def own_packages(modules: Iterable[str]) -> set[str]:
    """Name the top packages of modules whose source lies beside the user's code, not among what is installed.

    Examples
    --------
    >>> own_packages(["collections.abc", "numpy"])
    set()
    """
    return {name for name in {module.partition(".")[0] for module in modules} if _is_own(name)}


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


def _is_own(name: str) -> bool:
    module: Any = sys.modules.get(name)
    if not isinstance(module, ModuleType) or name in ("__main__", *_OURS) or name in sys.stdlib_module_names:
        return False
    paths: list[str] = [module.__file__] if module.__file__ else list(getattr(module, "__path__", ()))
    return bool(paths) and not any(str(Path(path).resolve()).startswith(_INSTALLED) for path in paths)

"""A search as a Python file: trainer_fn, search_space, and settings beside them."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from optimizer.errors import nearest
from udfs.driver import FORMER_NAMES

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

__all__ = ["load_search", "search_settings"]

# What the file may have beside trainer_fn and search_space: arguments of GridSearch.
_SETTINGS = ("feature_columns", "label_columns", "num_epochs", "metric", "test_fraction", "num_shards", "image_size")


def load_search(path: Path) -> ModuleType:
    """Run a file of a search.

    Raises
    ------
    InvalidArgumentError
        There is no such Python file, it fails, it sets a name of an earlier release, or it defines no trainer_fn or
        search_space.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InvalidArgumentError(f"{path} is not a Python file: it has to define trainer_fn and search_space")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else str(path)
        raise InvalidArgumentError(f"{place}: {type(error).__name__}: {error}") from error
    # The workers have no such file: its functions go with Spark's closures, by value.
    from pyspark import cloudpickle  # noqa: PLC0415 - beside its only use

    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    for former, names in FORMER_NAMES.items():
        today = next((name for name in names if name in _SETTINGS), None)
        if today is not None and hasattr(module, former) and not callable(getattr(module, former)):
            raise InvalidArgumentError(f"{path} sets {former}, which is called {today} today: rename it")
    for name in ("trainer_fn", "search_space"):
        if not hasattr(module, name):
            raise InvalidArgumentError(f"{path} does not define {name}{nearest(name, dir(module))}")
    return module


def search_settings(module: ModuleType, given: dict[str, Any]) -> dict[str, Any]:
    """Collect the settings of a search as keywords of ``GridSearch``.

    Parameters
    ----------
    module : module
        Of :func:`load_search`.
    given : dict of str to object
        Of the command line, by the same names; what is not ``None`` wins over the file.

    Raises
    ------
    InvalidArgumentError
        Neither names the labels.
    """
    settings: dict[str, Any] = {"num_epochs": 10}
    for name in _SETTINGS:
        value = given.get(name)
        if value is None:
            value = getattr(module, name, None)
        if value is not None:
            settings[name] = value
    if "label_columns" not in settings:
        raise InvalidArgumentError(f"{module.__file__} has no label_columns: name them there, or with --labels")
    return settings

"""A Python file of the user's that a command runs: its functions travel to workers that have no such file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

__all__ = ["user_module"]


def user_module(path: Path, defines: str) -> ModuleType:
    """Run a file, and have its functions travel by value.

    Parameters
    ----------
    defines : str
        Names that the module must define, for the message.

    Raises
    ------
    InvalidArgumentError
        There is no such Python file, or it fails; the message has its line.
    """
    if not path.is_file():
        reason = "is a folder" if path.is_dir() else f"is not there{_nearest_file(path)}"
        raise InvalidArgumentError(f"{path} {reason}. Name a Python file that defines {defines}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidArgumentError(f"{path} must be a Python file (.py) that defines {defines}.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else str(path)
        raise InvalidArgumentError(f"{place}: {type(error).__name__}: {error}") from error
    from pyspark import cloudpickle  # `--help` is not to wait for Spark

    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _nearest_file(path: Path) -> str:
    """Suggest a file of the same folder."""
    if not path.parent.is_dir():
        return f", nor its folder {path.parent}"
    return nearest(path.name, [each.name for each in path.parent.iterdir() if each.suffix == ".py"])

"""A Python file that says which sessions a server has."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from typing import TYPE_CHECKING

from optimizer.errors import nearest
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from vista_spark.serving import Session

__all__ = ["load_sessions"]

_NAME = "sessions"


def load_sessions(path: Path) -> list[Session]:
    """Run a file that defines ``sessions``.

    Raises
    ------
    InvalidArgumentError
        There is no such Python file, it fails, or it defines no list of sessions.
    """
    from pyspark import cloudpickle  # noqa: PLC0415 - `vista --help` is not to wait for Spark

    from vista_spark.serving import Session  # noqa: PLC0415

    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InvalidArgumentError(f"{path} is not a Python file: it has to define sessions = [Session(...), ...]")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else str(path)
        raise InvalidArgumentError(f"{place}: {type(error).__name__}: {error}") from error
    # The backends have no such file: its functions go there by value.
    sys.modules[path.stem] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    if not hasattr(module, _NAME):
        raise InvalidArgumentError(f"{path} does not define sessions{nearest(_NAME, dir(module))}")
    sessions = getattr(module, _NAME)
    if not isinstance(sessions, list | tuple) or not sessions or not all(isinstance(s, Session) for s in sessions):
        raise InvalidArgumentError(f"{path}: sessions is not a list of vista_spark.serving.Session")
    return list(sessions)

"""Check before a run that the workers have the modules that a trainer imports."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import BusyError, TrainerError
from cerebro_spark.hopper._slots import uses_slots
from udfs.hopper import MissingModules, imported_modules

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

__all__ = ["check_modules"]

_LOG = logging.getLogger(__name__)


def check_modules(spark: SparkSession, trainer_fn: Callable[..., Any]) -> None:
    """Raise TrainerError if a worker does not find a module beside the user's code that the function imports.

    Spark runs a job for it only if there is such a module, and none while another run holds the task slots.
    """
    names = imported_modules(trainer_fn)
    if not names:
        return
    try:
        with uses_slots(spark):
            checked = spark.range(0, 1, 1, 1).mapInArrow(MissingModules(names), MissingModules.schema).collect()
    except BusyError:
        _LOG.info("another run holds the task slots: the workers are not asked for %s", ", ".join(names))
        return
    missing = [row["name"] for row in checked]
    if missing:
        listed = ", ".join(f"{name!r} ({_path(name)})" for name in missing)
        raise TrainerError(
            f"modules that trainer_fn imports must be on the workers, got {listed}, which they do not find. Send them "
            "with spark.addArtifacts(path, pyfile=True) or spark-submit --py-files (a package as a .zip file), or "
            "install them on every node"
        )


def _path(name: str) -> str:
    module = sys.modules[name]
    return str(module.__file__ or next(iter(getattr(module, "__path__", ())), "?"))

"""Probe of the first paths of a column: whether a worker can read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from optimizer.errors import EmptyInputError
from udfs.driver._arrow import quoted
from udfs.images import PROBED_PATH, PROBED_REASON, probe_paths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_paths"]

# Rows of the first probe, and of the second, which is made only where the first finds no good path.
_PROBES = (8, 400)


def check_paths(df: DataFrame, column: str, argument: str) -> None:
    """Check that a worker can read one of the first paths of a column, in small jobs.

    Parameters
    ----------
    column : str
        Column of images; one that holds no paths is not read.
    argument : str
        Argument that names the column, for the error.

    Raises
    ------
    EmptyInputError
        No worker can read any of the first paths; the message has one, and the reason.
    """
    kind, values = df.schema[column].dataType, F.col(quoted(column))
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType):
        values = F.explode(values)
    elif not isinstance(kind, StringType):
        return
    paths = df.select(values.alias(PROBED_PATH)).where(f"{PROBED_PATH} IS NOT NULL")
    for size in _PROBES:
        rows = paths.limit(size).mapInArrow(probe_paths, f"{PROBED_PATH} string, {PROBED_REASON} string").collect()
        if not rows or any(row[PROBED_REASON] is None for row in rows):
            return
    path, reason = rows[0]
    raise EmptyInputError(
        f"{argument} must hold paths that the workers can read, got {path!r} ({reason}), and none of the first "
        f"{len(rows)} can be read. {_remedy(path)}"
    )


def _remedy(path: str) -> str:
    if "://" not in path and not path.startswith(("/", "file:")):
        return "Relative paths start at the folder in which the workers run: write absolute paths, or URIs."
    if Path(path.removeprefix("file://")).exists():
        return "The file is on this machine: put the images where every worker sees them, and let them read it."
    return "Correct the paths, or put the images where every worker sees them."

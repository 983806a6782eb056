"""Probe of paths in a task: the reason for which each cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from udfs.images._errors import ImageError
from udfs.images._file_reader import read

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PROBED_PATH", "PROBED_REASON", "probe_paths"]

PROBED_PATH, PROBED_REASON = "cerebro_spark_path", "cerebro_spark_reason"
"""Columns of a probe: a path, and the reason for which it cannot be read, or null."""


def probe_paths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the files of the first column of each batch, and add the reasons of those that cannot be read."""
    for batch in batches:
        paths = batch.column(0).to_pylist()
        reasons = pa.array(map(_reason, paths), pa.string())
        yield pa.RecordBatch.from_pydict({PROBED_PATH: paths, PROBED_REASON: reasons})


def _reason(path: str) -> str | None:
    try:
        read(path)
    except ImageError as error:
        return error.reason
    except OSError as error:
        return str(error)
    return None

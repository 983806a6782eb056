"""Collection of a job's rows, with the errors that its workers raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from cerebro_spark.errors import AugmentationError, FeatureError, InvalidArgumentError, ShardError, StoreError
from udfs.driver import cause, interruptible
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = ["collect_rows"]

_KNOWN = {
    "StoreError": StoreError,
    "StoreFullError": StoreFullError,
    "ShardError": ShardError,
    "InvalidArgumentError": InvalidArgumentError,
    "FeatureError": FeatureError,
    "AugmentationError": AugmentationError,
}


def collect_rows(job: DataFrame) -> list[Row]:
    """Run an interruptible job, and collect its rows.

    Raises
    ------
    FeatureError, InvalidArgumentError, ShardError, StoreError
        A worker raised it.
    """
    try:
        rows: list[Row] = interruptible(job.sparkSession, job.collect)
    except PySparkException as error:
        origin = cause(error)
        if origin.kind in _KNOWN:
            raise _KNOWN[origin.kind](origin.message) from error
        raise
    return rows

"""Collect what a job of workers reports; what a worker raises is seen as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from cerebro_spark.errors import AugmentationError, FeatureError, InvalidArgumentError, ShardError, StoreError
from udfs.driver import cause, interruptible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = ["collected"]

_KNOWN = {
    "StoreError": StoreError,
    "ShardError": ShardError,
    "InvalidArgumentError": InvalidArgumentError,
    "FeatureError": FeatureError,
    "AugmentationError": AugmentationError,
}


def collected(job: DataFrame) -> list[Row]:
    """Run a job, which the user may interrupt, and collect its rows.

    Raises
    ------
    FeatureError, InvalidArgumentError, ShardError, StoreError
        A worker raised it.
    """
    try:
        rows: list[Row] = interruptible(job.sparkSession, job.collect)
    except PySparkException as error:
        found = cause(error)
        if found.kind in _KNOWN:
            raise _KNOWN[found.kind](found.message) from error
        raise
    return rows

"""Tables of the results of a search per group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

__all__ = ["RESULT_COLUMNS", "best_rows", "readable"]

RESULT_COLUMNS = (
    *("level", "status", "reason", "rows", "held_out", "left_out", "params", "scored_on", "metric", "metrics"),
    *("error", "baseline_error", "seconds"),
)
"""Columns of :func:`readable` beside the keys."""


def best_rows(results: DataFrame, *, larger_is_better: bool) -> DataFrame:
    """Keep a row for each group: that of its best configuration, or else one with a reason."""
    metric = F.col("metric").desc_nulls_last() if larger_is_better else F.col("metric").asc_nulls_last()
    window = Window.partitionBy("key").orderBy((F.col("status") == "finished").desc(), metric, "configuration")
    return results.withColumn("rank", F.row_number().over(window)).where("rank = 1").drop("rank")


def readable(results: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """Show the results with the key columns in their own types, and the params of the configurations as JSON."""
    values = F.from_json("key", "array<string>")
    pairs = zip(facts["group_by"], facts["types"], strict=True)
    columns = [F.get(values, place).cast(kind).alias(name) for place, (name, kind) in enumerate(pairs)]
    params = F.array(*(F.lit(json.dumps(each)) for each in facts["configurations"]))
    named = results.withColumn("params", F.get(params, F.col("configuration")))
    return named.select(*columns, *RESULT_COLUMNS)

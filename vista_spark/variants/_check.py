"""Repeated measurement of a catalog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql.pandas.types import from_arrow_schema

from udfs.variants import COSTS, CostsTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from vista_spark.variants._catalog import CatalogVariant

__all__ = ["check_costs"]


def check_costs(spark: SparkSession, variants: Sequence[CatalogVariant]) -> pd.DataFrame:
    """Measure variants again in a task; return recorded and measured values, a row per variant and cost."""
    sizes = tuple(variants[0].measurement.run_seconds)
    task = CostsTask(tuple(variant.model for variant in variants), sizes)
    answers = spark.range(0, 1, 1, 1).mapInArrow(task, from_arrow_schema(COSTS)).collect()
    rows = []
    for variant, row in zip(variants, answers, strict=True):
        costs, recorded = json.loads(row[0]), variant.measurement
        pairs = {
            "resident_bytes": (recorded.resident_bytes, costs["resident_bytes"]),
            "load_seconds": (recorded.load_seconds, costs["load_seconds"]),
        }
        for size in sizes:
            pairs[f"run_seconds {size}"] = recorded.run_seconds[size], costs["run_seconds"][str(size)]
        rows += [(variant.name, cost, before, now, now / before) for cost, (before, now) in pairs.items()]
    return pd.DataFrame(rows, columns=["variant", "cost", "recorded", "measured", "ratio"])

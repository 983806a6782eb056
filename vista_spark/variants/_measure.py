"""Measurement of networks in a task of a session."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.ml.functions import vector_to_array
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from udfs.driver import check_present, quoted
from udfs.variants import COSTS, CostsTask, MeasuredNetwork
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from vista_spark.features import CNNFeaturizer
    from vista_spark.roster import ModelCard

__all__ = ["measure_accuracy", "measure_cards"]


def measure_cards(spark: SparkSession, cards: Sequence[ModelCard], batch_sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Measure networks in one task, on one thread; return the fields of :class:`udfs.variants.Costs` for each."""
    networks = tuple(
        MeasuredNetwork(card.name, partial(roster.load, card), card.preprocessing.inputs[0].shape, card.weights)
        for card in cards
    )
    task = CostsTask(networks, tuple(batch_sizes))
    rows = spark.range(0, 1, 1, 1).mapInArrow(task, from_arrow_schema(COSTS)).collect()
    return [json.loads(row[0]) for row in rows]


def measure_accuracy(stage: CNNFeaturizer, rows: DataFrame, label: str, classes: Sequence[str | float]) -> float:
    """Return the share of rows whose largest score is that of their label; unreadable images do not count."""
    check_present(rows, [label], "valid")
    (column,) = stage.getOutputCols()
    scored = stage.transform(rows)
    values = vector_to_array(F.col(column))
    best = F.array_position(values, F.array_max(values))
    kind = rows.schema[label].dataType
    place = F.array_position(F.array(*(F.lit(each).cast(kind) for each in classes)), F.col(quoted(label)))
    hit = F.when(F.col(column).isNotNull(), (best == place).cast("double"))
    share = scored.agg(F.avg(hit)).collect()[0][0]
    return float("nan") if share is None else float(share)

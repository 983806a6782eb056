"""Measurement of networks in a task of a session."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import from_arrow_schema

from udfs.variants import COSTS, CostsTask, MeasuredNetwork
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from vista_spark.roster import ModelCard

__all__ = ["measure_cards"]


def measure_cards(spark: SparkSession, cards: Sequence[ModelCard], batch_sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Measure networks in one task, on one thread; return the fields of :class:`udfs.variants.Costs` for each."""
    networks = tuple(
        MeasuredNetwork(card.name, partial(roster.load, card), card.preprocessing.inputs[0].shape, card.weights)
        for card in cards
    )
    task = CostsTask(networks, tuple(batch_sizes))
    rows = spark.range(0, 1, 1, 1).mapInArrow(task, from_arrow_schema(COSTS)).collect()
    return [json.loads(row[0]) for row in rows]

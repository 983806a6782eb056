"""One image's places over the tasks of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql.pandas.types import from_arrow_schema

from udfs.occlusion import COST, VALUES, CostModel, Share, ShareCost
from udfs.slots import task_slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from udfs.model import ModelSource
    from udfs.occlusion import Occlusion

__all__ = ["Spread"]


@dataclass(frozen=True)
class Spread:
    """Computes places of a heat map with as many tasks as run at a time.

    Parameters
    ----------
    spark : SparkSession
    source : ModelSource
        In reach of the session's workers.
    occlusion : Occlusion
    rounds : int
        Jobs for the places that are asked for, one after the other: the heat map so far is known after each.
    """

    spark: SparkSession
    source: ModelSource
    occlusion: Occlusion
    rounds: int = 1

    def __call__(
        self, pixels: NDArray[np.float32], target: int, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Yield indices of the heat map and what it has there, as :meth:`Occluder.values` does."""
        slots, wanted = task_slots(self.spark), np.flatnonzero(places)
        for number in range(self.rounds):
            part = wanted[number :: self.rounds]
            if not len(part):
                continue
            share = Share(self.source, self.occlusion, "auto", pixels, target, part, slots)
            numbers = self.spark.range(0, slots, 1, slots)
            found = numbers.mapInArrow(share, from_arrow_schema(VALUES)).toArrow()
            index = np.stack(np.unravel_index(found.column("place").to_numpy(), places.shape), axis=1)
            yield index, found.column("value").to_numpy()

    def cost_model(self) -> CostModel:
        """What all places cost with every task at work: a task's own line, its slope over their number."""
        slots = task_slots(self.spark)
        cost = ShareCost(self.source, self.occlusion, "auto")
        rows = self.spark.range(0, slots, 1, slots).mapInArrow(cost, from_arrow_schema(COST)).collect()
        slowest = max(rows, key=lambda row: float(row["place"]))
        return CostModel(float(slowest["fixed"]), float(slowest["place"]) / slots)

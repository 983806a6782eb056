"""Distribution of one image's places over the tasks of a cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql.pandas.types import from_arrow_schema

from udfs.occlusion import COST, VALUES, Share, ShareCost, coarse_to_fine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from udfs.inference import ModelSource
    from udfs.occlusion import Occlusion, SettledScore

__all__ = ["Spread"]


@dataclass(frozen=True)
class Spread:
    """Computation of heat map places by as many tasks as run at a time.

    ``slots`` tasks run at a time. ``rounds`` are consecutive jobs for the requested places, each of which updates the
    heat map; the first of several computes a lattice of twice the stride.
    """

    spark: SparkSession
    source: ModelSource
    occlusion: Occlusion
    slots: int
    rounds: int = 1
    device: str = "auto"

    def __call__(
        self, pixels: NDArray[np.float32], score: SettledScore, targets: Sequence[int], places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Yield indices of the heat map and its values there, as :meth:`Occluder.values` does."""
        for part in self._parts(places):
            if len(part):
                yield self._computed(pixels, score, targets, part)

    def run_seconds(self, work: float) -> float:
        """Measure the seconds of a run of the whole network while every task works.

        Runs a job of about a second and an empty one, whose seconds are distributed over the work of all places, in
        runs of the network.
        """
        cost = ShareCost(self.source, self.occlusion, self.device)
        measured = self._numbers.mapInArrow(cost, from_arrow_schema(COST)).collect()
        (spec,) = self.source.inputs
        started = time.perf_counter()
        self._computed(np.zeros(spec.shape, np.float32), None, (), np.zeros(0, np.int64))
        job = time.perf_counter() - started
        return max(float(row["run"]) for row in measured) / self.slots + self.rounds * job / work

    def _parts(self, places: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """Split places into rounds of about equal size."""
        if self.rounds == 1:
            return [np.flatnonzero(places)]
        fine = list(coarse_to_fine(places))[-1]
        rest, rounds = np.flatnonzero(fine), self.rounds - 1
        return [np.flatnonzero(places & ~fine), *(rest[number::rounds] for number in range(rounds))]

    @property
    def _numbers(self) -> DataFrame:
        """DataFrame with a row per task."""
        return self.spark.range(0, self.slots, 1, self.slots)

    def _computed(
        self,
        pixels: NDArray[np.float32],
        score: SettledScore | None,
        targets: Sequence[int],
        places: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        share = Share(self.source, self.occlusion, self.device, pixels, score, tuple(targets), places, self.slots)
        computed = self._numbers.mapInArrow(share, from_arrow_schema(VALUES)).toArrow()
        index = np.stack(np.unravel_index(computed.column("place").to_numpy(), self.occlusion.grid.shape), axis=1)
        values = computed.column("values").combine_chunks().flatten().to_numpy()
        return index, values.reshape(len(index), len(targets))

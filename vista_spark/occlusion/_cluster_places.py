"""Distribution of one image's places over the tasks of a Spark cluster.

A place is a position of the patch that covers a part of the image; the heat map has a value for each. The value is a
score of the network's output with the patch there. A target is an element of the score, such as the probability of one
class, and has a heat map of its own. A share is the places that one task computes.
"""

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

__all__ = ["ClusterComputation"]


@dataclass(frozen=True)
class ClusterComputation:
    """Computation of a heat map's places by the tasks of a cluster.

    ``slots`` is the number of tasks that run at the same time. ``rounds`` is the number of Spark jobs, one after the
    other, that the places are divided among, so that the heat map is updated after each. The first of several jobs
    computes every second place along each axis.
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
        """Yield indices of the heat map, of shape (places, axes), and values there, of shape (places, targets).

        ``places`` is a mask of the heat map, true at the places to compute.
        """
        for part in self._split_into_rounds(places):
            if len(part):
                yield self._compute(pixels, score, targets, part)

    def estimate_run_seconds(self, work: float) -> float:
        """Estimate the seconds per run of the whole network while all tasks are busy.

        Spark runs two jobs: in the first one, all tasks measure for about a second; the second one computes no place,
        and so takes the fixed time of a job. The estimate is the time of a run in the slowest task divided by the
        number of tasks, plus the fixed time of all rounds divided by ``work``, the cost of all places in runs of the
        whole network.
        """
        cost = ShareCost(self.source, self.occlusion, self.device)
        measured = self._share_numbers().mapInArrow(cost, from_arrow_schema(COST)).collect()
        (spec,) = self.source.inputs
        started = time.perf_counter()
        self._compute(np.zeros(spec.shape, np.float32), None, (), np.zeros(0, np.int64))
        job_seconds = time.perf_counter() - started
        return max(float(row["run"]) for row in measured) / self.slots + self.rounds * job_seconds / work

    def _split_into_rounds(self, places: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """Split a mask of places into rounds, as flat indices of the heat map.

        The first of several rounds has every second place along each axis, and the others share the rest equally.
        """
        if self.rounds == 1:
            return [np.flatnonzero(places)]
        fine = list(coarse_to_fine(places))[-1]
        rest, rounds = np.flatnonzero(fine), self.rounds - 1
        return [np.flatnonzero(places & ~fine), *(rest[number::rounds] for number in range(rounds))]

    def _share_numbers(self) -> DataFrame:
        """Create a DataFrame with the number of a share for each task, in a partition of its own."""
        return self.spark.range(0, self.slots, 1, self.slots)

    def _compute(
        self,
        pixels: NDArray[np.float32],
        score: SettledScore | None,
        targets: Sequence[int],
        places: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Compute places, given as flat indices of the heat map, in one Spark job."""
        share = Share(self.source, self.occlusion, self.device, pixels, score, tuple(targets), places, self.slots)
        computed = self._share_numbers().mapInArrow(share, from_arrow_schema(VALUES)).toArrow()
        index = np.stack(np.unravel_index(computed.column("place").to_numpy(), self.occlusion.grid.shape), axis=1)
        values = computed.column("values").combine_chunks().flatten().to_numpy()
        return index, values.reshape(len(index), len(targets))

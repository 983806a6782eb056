"""Choice of the largest difference between frames at which the oracle still gives the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from optimizer.specialization import choose_threshold
from udfs.arrow import RowMap, RowPolicy
from udfs.cascades import SampleScoring
from udfs.driver import check_image, map_rows
from udfs.specialization import STREAM, TIME, BlockErrors
from udfs.video import DifferenceDetector
from vista_spark.errors import ColumnError, EmptyInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from udfs.cascades import Member

__all__ = ["check_comparable", "choose_from_pairs", "frame_pairs"]

_LAGS = (1, 2, 4, 8, 16, 32)
FRAME, REFERENCE = "frame", "reference"


def check_comparable(frames: DataFrame, column: str) -> None:
    """Raise ColumnError unless a column has a single image per row, which can be compared with another."""
    check_image(frames, column, "frames")
    kind = frames.schema[column].dataType
    if isinstance(kind, ArrayType):
        raise ColumnError(
            f"column {column!r} of frames must be a single image per row to be compared, got {kind.simpleString()}. "
            "Clear difference."
        )


def frame_pairs(frames: DataFrame, image: Column, pairs: int, seed: int) -> DataFrame:
    """Return random frames, each with an earlier one of its stream, 1 to 32 frames before.

    Parameters
    ----------
    frames : DataFrame
        Frames with the columns of stream and time.
    image : Column
        Column of images.
    pairs : int
        Number of pairs, on average.
    seed : int
        Seed of the sample.
    """
    order = Window.partitionBy(STREAM).orderBy(TIME)
    numbered = frames.select(STREAM, image.alias(FRAME), F.row_number().over(order).alias("place"))
    count = frames.count()
    lags = F.array(*map(F.lit, _LAGS))
    drawn = numbered.where(F.rand(seed) < min(1.0, pairs / max(count, 1)))
    lag = F.element_at(lags, (F.floor(F.rand(seed + 1) * len(_LAGS)) + 1).cast("int"))
    drawn = drawn.withColumn("before", F.col("place") - lag)
    earlier = numbered.select(STREAM, F.col(FRAME).alias(REFERENCE), F.col("place").alias("before"))
    return drawn.join(earlier, [STREAM, "before"]).select(FRAME, REFERENCE)


def choose_from_pairs(
    pairs: DataFrame,
    oracle: Member,
    reads: Mapping[str, Column | str],
    classes: int,
    target: float,
    delta: float,
) -> float | None:
    """Ask the oracle for both frames of each pair, and return the largest block error that keeps its answers.

    Raises
    ------
    EmptyInputError
        There is no pair, or the oracle answers none.
    """
    scoring = SampleScoring(members=(oracle, oracle), width=classes, metric="accuracy", positive=1, batch_size=32)
    sources = {f"{place}.{name}": column for place, column in enumerate((FRAME, REFERENCE)) for name in reads}
    answered = map_rows(pairs, RowMap(scoring, (FRAME, REFERENCE), RowPolicy("null")), reads=sources)
    kept = RowMap(BlockErrors(DifferenceDetector(0.0)), ("answer_0", "answer_1"), RowPolicy("null"))
    table = map_rows(answered, kept).toArrow()
    first, second = (table.column(name).to_numpy() for name in ("answer_0", "answer_1"))
    errors = table.column("error").to_numpy()
    known = (first >= 0) & (second >= 0) & np.isfinite(errors)
    if not known.any():
        raise EmptyInputError(
            "frames must have pairs that the oracle answers, got none. Pass streams of several frames."
        )
    return choose_threshold(errors[known], (first == second)[known], target, delta)

"""Class skew of a labelled stream: few labels make up most of a short window."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from optimizer.arguments import real
from udfs.driver import check_present, quoted
from vista_spark.errors import EmptyInputError, InvalidArgumentError
from vista_spark.specialization._order import order_of, stream_of
from vista_spark.specialization._skew_result import ClassSkew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["class_skew"]

# Shares are compared as whole millionths: 0.7 times 10 labels is 7 labels, and no float above 7.
_PARTS = 1_000_000
_COVERED = 0.5


def class_skew(
    labelled: DataFrame,
    *,
    labelCol: str = "label",
    orderCol: str = "t",
    groupCol: str | None = None,
    windows: Sequence[float] = (10, 60, 180),
    shares: Sequence[float] = (0.6, 0.7, 0.8, 0.9),
) -> ClassSkew:
    """Count the labels that make up a share of each window of a labelled stream.

    A model for few classes is cheaper than a model for all of them. Windows in which few labels make up most rows are
    where such a model pays, so a small number of labels is a reason to specialize.

    Parameters
    ----------
    labelled : DataFrame
        A row per label: a frame, or a detection in a frame. The rows may be in any order.
    labelCol : str
        Column of the labels. Default ``"label"``.
    orderCol : str
        Column of the times: a timestamp, or a number of seconds. Default ``"t"``.
    groupCol : str, optional
        Column of the streams, such as the camera. Windows never span two streams; null is a stream as well. Default:
        one stream.
    windows : sequence of float
        Lengths of the windows, in seconds. Default 10, 60 and 180.
    shares : sequence of float
        Shares, above 0 and at most 1, of a window's rows. Default 0.6, 0.7, 0.8 and 0.9.

    Returns
    -------
    ClassSkew
        Numbers of windows by their number of labels.

    Raises
    ------
    vista_spark.errors.ColumnError
        A column is missing or of the wrong type.
    vista_spark.errors.InvalidArgumentError
        A window or a share is out of range, or the DataFrame is a stream of Structured Streaming.
    vista_spark.errors.EmptyInputError
        No row has a label and a time.

    Notes
    -----
    Windows of w seconds begin at the multiples of w, as those of Spark's ``window`` do. Rows with a null or NaN as
    label or time, or an infinite time, do not count. A window whose rows span less than half of it is left out: at the
    ends of a stream and in its gaps, a few rows would pass for skew. The rows are read once, and only counts come to
    the driver.

    References
    ----------
    Shen, *System for serving deep neural networks efficiently*, 2018, section 5.1 and Figure 5.1.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> rows = [("cat" if second % 10 < 7 else "dog", float(second)) for second in range(60)]
    >>> labelled = SparkSession.active().createDataFrame(rows, "label string, t double")
    >>> skew = class_skew(labelled, windows=[10], shares=[0.7, 0.9])
    >>> skew.labels(window=10, share=0.7), skew.labels(window=10, share=0.9)
    (1, 2)
    """
    lengths = _distinct("windows", windows)
    parts = {round(share * _PARTS): share for share in _distinct("shares", shares, most=1)}
    check_present(labelled, [name for name in (labelCol, orderCol, groupCol) if name is not None], "labelled")
    if labelled.isStreaming:
        raise InvalidArgumentError(
            "labelled must be a table, got a stream. Write the stream to a table, and read the table."
        )
    counts = _label_counts(labelled, labelCol, orderCol, groupCol, lengths)
    numbers: dict[tuple[float, float], dict[int, int]] = {
        (size, share): {} for size in lengths for share in parts.values()
    }
    left_out: dict[float, int] = defaultdict(int)
    rows = _windows_by_labels(counts, list(parts)).collect()
    if not rows:
        raise EmptyInputError(f"labelled has no row with a label in {labelCol!r} and a time in {orderCol!r}")
    for row in rows:
        if row["covered"]:
            numbers[row["length"], parts[row["part"]]][row["labels"]] = row["windows"]
        elif row["part"] == min(parts):
            left_out[row["length"]] += row["windows"]
    return ClassSkew({key: dict(sorted(value.items())) for key, value in numbers.items()}, dict(left_out))


def _distinct(name: str, values: Sequence[float], most: float = float("inf")) -> list[float]:
    """Return positive numbers, sorted."""
    numbers = sorted({real(f"{name}[{place}]", value, 0, most, above=True) for place, value in enumerate(values)})
    if not numbers:
        raise InvalidArgumentError(f"{name} must have at least one number, got {values!r}.")
    return numbers


def _label_counts(
    labelled: DataFrame, label: str, order: str, group: str | None, lengths: Sequence[float]
) -> DataFrame:
    """Return a row per label of a window, with its count and its first and last time."""
    kind, labels = labelled.schema[label].dataType, F.col(quoted(label))
    seconds = order_of(labelled, order)
    rows = labelled.select(stream_of(group).alias("stream"), labels.alias("label"), seconds.alias("t"))
    # NaN is above infinity.
    rows = rows.where(F.col("label").isNotNull() & (F.abs("t") < float("inf")))
    if isinstance(kind, (FloatType, DoubleType)):
        rows = rows.where(~F.isnan("label"))
    rows = rows.withColumn("length", F.explode(F.array(*(F.lit(length) for length in lengths))))
    place = F.floor(F.col("t") / F.col("length")).alias("place")
    return rows.groupBy("stream", "length", place, "label").agg(
        F.count("*").alias("rows"), F.min("t").alias("first"), F.max("t").alias("last")
    )


def _windows_by_labels(counts: DataFrame, parts: Sequence[int]) -> DataFrame:
    """Return the number of windows by length, share, number of labels, and whether the rows span enough of them."""
    whole = Window.partitionBy("stream", "length", "place")
    ranked = whole.orderBy(F.desc("rows"))
    sums = counts.select(
        "stream",
        "length",
        "place",
        F.row_number().over(ranked).alias("rank"),
        F.sum("rows").over(ranked.rowsBetween(Window.unboundedPreceding, Window.currentRow)).alias("sum"),
        F.sum("rows").over(whole).alias("total"),
        (F.max("last").over(whole) - F.min("first").over(whole) >= _COVERED * F.col("length")).alias("covered"),
    ).withColumn("part", F.explode(F.array(*(F.lit(part) for part in parts))))
    enough = sums.where(F.col("sum") * _PARTS >= F.col("part") * F.col("total"))
    windows = enough.groupBy("stream", "length", "place", "part", "covered").agg(F.min("rank").alias("labels"))
    return windows.groupBy("length", "part", "labels", "covered").agg(F.count("*").alias("windows"))

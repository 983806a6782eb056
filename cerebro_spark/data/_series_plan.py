"""Assignment of whole series to shards: a subject is in one shard and one split, its rows in time order."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from cerebro_spark.data._census import COMPLETE, encoded
from cerebro_spark.data._columns import Chosen, choose_features
from cerebro_spark.errors import ColumnError, EmptyInputError
from optimizer.errors import nearest
from udfs.driver import quoted
from udfs.shards import SPLITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from udfs.shards import Series, TensorGroup

__all__ = ["SeriesPlan", "check_series", "cut_series", "plan_series", "series_columns", "series_rows"]

_KEYS = (IntegralType, StringType, BooleanType, DateType)
_TIMES = (NumericType, DateType, TimestampType, TimestampNTZType)


def check_series(df: DataFrame, series: Series) -> None:
    """Check the columns of series, without a Spark job.

    Raises
    ------
    ColumnError
        A column is missing or of a type that does not fit.
    """
    keys = dict.fromkeys((*series.series_by, *series.subjects))
    wanted: list[tuple[str, str, tuple[Any, ...], str]] = [
        *(("series_by and subject_by", name, _KEYS, "integers, strings, booleans or dates") for name in keys),
        ("order_by", series.order_by, _TIMES, "numbers, dates or timestamps"),
    ]
    if series.validation_column is not None:
        wanted.append(("validation_column", series.validation_column, (BooleanType,), "booleans"))
    for argument, name, kinds, words in wanted:
        if name not in df.columns:
            raise ColumnError(
                f"{argument} must be of the columns {', '.join(df.columns)}, got {name!r}{nearest(name, df.columns)}"
            )
        kind = df.schema[name].dataType
        if not isinstance(kind, kinds):
            hint = " Floating-point keys are not equal after rounding: cast them" if kind in _FLOATS else ""
            raise ColumnError(f"{argument} must be columns of {words}, got {name!r} of {kind.simpleString()}.{hint}")


_FLOATS = (FloatType(), DoubleType())


def _time(df: DataFrame, series: Series) -> Column:
    """Return the time of a row as a number: microseconds of a timestamp, days of a date."""
    kind, column = df.schema[series.order_by].dataType, F.col(quoted(series.order_by))
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        return F.unix_micros(column.cast("timestamp"))
    if isinstance(kind, DateType):
        return F.unix_date(column)
    return column.cast("double") if isinstance(kind, DecimalType) else column


def series_columns(df: DataFrame, series: Series, seed: int) -> list[Column]:
    """Return what :func:`plan_series` reads of each row.

    The columns are ``series`` and ``subject`` (hashes), ``series_key`` (for messages), ``time``, ``gap`` (largest
    difference of times, null without one), ``validates`` and ``without_key``.
    """
    keys = [F.col(quoted(name)) for name in series.series_by]
    subjects = [F.col(quoted(name)) for name in series.subjects]
    start = F.lit(seed).cast("bigint")
    time = _time(df, series)
    missing = [column.isNull() for column in (*keys, *subjects, time)]
    if df.schema[series.order_by].dataType in _FLOATS:
        missing.append(F.isnan(time))
    is_timestamp = isinstance(df.schema[series.order_by].dataType, (TimestampType, TimestampNTZType))
    gap = None if series.max_gap is None else series.max_gap * (1e6 if is_timestamp else 1)
    flag = F.lit(False) if series.validation_column is None else F.col(quoted(series.validation_column))
    if series.validation_column is not None:
        missing.append(flag.isNull())
    return [
        F.xxhash64(start, *keys).alias("series"),
        F.xxhash64(start, *subjects).alias("subject"),
        F.to_json(F.struct(*(key.alias(name) for key, name in zip(keys, series.series_by, strict=True)))).alias(
            "series_key"
        ),
        time.alias("time"),
        F.lit(gap).cast("double").alias("gap"),
        flag.alias("validates"),
        reduce(or_, missing).alias("without_key"),
    ]


def cut_series(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Number the parts of each series, which is cut where a row is incomplete and at gaps; keep the complete rows.

    ``rows`` have the columns of :func:`encoded` and :func:`series_columns`. Return ``columns``, ``series``, ``time``
    and ``part``.
    """
    by_time = Window.partitionBy("series").orderBy("time")
    defect = F.col("defect") != COMPLETE
    late = F.coalesce(F.col("time") - F.lag("time").over(by_time) > F.col("gap"), F.lit(False))
    cut = rows.select(*columns, "series", "time", "defect", (defect | late).cast("int").alias("cut"))
    return cut.withColumn("part", F.sum("cut").over(by_time)).where(~defect).drop("cut", "defect")


def series_rows(
    df: DataFrame, series: Series, groups: Sequence[TensorGroup], others: Sequence[Column] = ()
) -> tuple[DataFrame, list[str]]:
    """Encode the rows of series as the shards of ``groups`` do, with ``others``; return them and the columns' names.

    The columns are ``c0``, ``c1``, ... in the order of the names, and those of :func:`encoded`,
    :func:`series_columns` and ``others``. Raise ColumnError if a column is missing or has a wrong type.
    """
    check_series(df, series)
    sources = choose_features(df, groups)
    rows = encoded(df, Chosen({"columns": sources}), 0, *series_columns(df, series, 0), *others)
    return rows, [source.name for source in sources]


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """Assignment of series to shards.

    ``places`` has for each series, by its hash, the shard of its training rows, that of its validation rows (numbered
    after the training shards), the number of training rows, and the number of the first validation row.
    """

    partitions: int
    places: dict[int, tuple[int, int, int, int]]
    rows: dict[int, int]  # by series, complete rows
    content: str

    def count_rows(self, split: str, partition: int) -> int:
        """Count the rows of a shard."""
        if split == SPLITS[0]:
            return sum(place[2] for place in self.places.values() if place[0] == partition)
        shard = partition + self.partitions
        return sum(self.rows[key] - place[3] for key, place in self.places.items() if place[1] == shard)

    def assign_rows(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Sort the complete rows into their shards, each series in time order.

        A series is cut where a row was incomplete, and at gaps. Return the columns ``shard``, ``run`` (which changes
        from one series, or part of a series, to the next) and ``columns``.
        """
        spark = rows.sparkSession
        by_time = Window.partitionBy("series").orderBy("time")
        cut = cut_series(rows, columns).withColumn("number", F.row_number().over(by_time) - 1)
        placed = cut.join(F.broadcast(self._table(spark)), "series")
        shard = F.when(F.col("number") < F.col("trained"), F.col("train"))
        shard = shard.when(F.col("number") >= F.col("validated"), F.col("validation"))
        run = F.xxhash64("series", "part")
        return (
            placed.select(shard.cast("int").alias("shard"), run.alias("run"), "series", "time", *columns)
            .where(F.col("shard").isNotNull())
            .repartition(2 * self.partitions, "shard")
            .sortWithinPartitions("shard", "series", "time")
            .select("shard", "run", *columns)
        )

    def _table(self, spark: SparkSession) -> DataFrame:
        schema = "series bigint, train int, validation int, trained bigint, validated bigint"
        return spark.createDataFrame([(key, *place) for key, place in self.places.items()], schema)


def plan_series(rows: DataFrame, series: Series, num_shards: int, test_fraction: float) -> SeriesPlan:
    """Count the series of the rows of :func:`encoded`, with the columns of :func:`series_columns`, and place each.

    Raises
    ------
    ColumnError
        A key or a time is null, a time is twice in a series, or a series has several subjects; or a subject is in
        two splits.
    EmptyInputError
        There are fewer subjects than shards and splits need.
    """
    complete = F.col("defect") == COMPLETE
    hashed = F.xxhash64("content", "series", "time", "subject", "validates", "defect")
    facts = (
        rows.groupBy("series")
        .agg(
            F.count(F.when(complete, 1)).alias("rows"),
            F.count("time").alias("times"),
            F.count_distinct("time").alias("different"),
            F.min("subject").alias("subject"),
            F.max("subject").alias("other_subject"),
            F.min("series_key").alias("key"),
            F.max("series_key").alias("other_key"),
            F.min("validates").alias("validates"),
            F.max("validates").alias("partly_validates"),
            F.sum(F.col("without_key").cast("int")).alias("without_key"),
            F.sum(hashed.cast("decimal(20,0)")).alias("content"),
        )
        .collect()
    )
    _check_facts(facts, series)
    counts = {fact["series"]: fact["rows"] for fact in facts if fact["rows"]}
    content = str(sum(int(fact["content"]) for fact in facts))
    if series.split == "time":
        return SeriesPlan(num_shards, _by_time(facts, series, num_shards, test_fraction), counts, content)
    return SeriesPlan(num_shards, _by_subject(facts, series, num_shards, test_fraction), counts, content)


def _check_facts(facts: Sequence[Row], series: Series) -> None:
    without = sum(fact["without_key"] for fact in facts)
    if without:
        raise ColumnError(
            f"columns {', '.join(series.columns)} of series must have a value in every row, got {without:,} rows with "
            "null or NaN. Leave them out with df.dropna(subset=[...])"
        )
    for fact in facts:
        if fact["times"] != fact["different"]:
            raise ColumnError(
                f"order_by must have each time once in a series, got {fact['times'] - fact['different']:,} times of "
                f"{series.order_by!r} twice in series {fact['key']}. Add the column that tells the rows apart to "
                "series_by, or aggregate the rows"
            )
        if fact["subject"] != fact["other_subject"] or fact["key"] != fact["other_key"]:
            raise ColumnError(
                f"series_by must identify series of a single subject, got series {fact['key']} of several "
                f"{', '.join(series.subjects)}. Add subject_by to series_by"
            )
        if fact["validates"] != fact["partly_validates"]:
            raise ColumnError(
                f"validation_column must have one value in a series, got both in series {fact['key']}. Set "
                'split="time" to split within series'
            )


def _by_time(
    facts: Sequence[Row], series: Series, num_shards: int, test_fraction: float
) -> dict[int, tuple[int, int, int, int]]:
    """Place series whose last rows are for validation, with an embargo before them."""
    placed = {}
    embargo = series.embargo if test_fraction else 0
    assert embargo is not None
    subjects = _subjects(facts)
    for shard, members in _dealt(subjects, num_shards, "training"):
        for fact in members:
            total = fact["rows"]
            validated = total - round(total * test_fraction)
            placed[fact["series"]] = (shard, shard + num_shards, max(0, validated - embargo), validated)
    if test_fraction and not any(fact["rows"] > place[3] for fact in facts if (place := placed.get(fact["series"]))):
        raise EmptyInputError(f"test_fraction must select a row of some series, got {test_fraction}: raise it")
    if not any(place[2] for place in placed.values()):
        longest = max(fact["rows"] for fact in facts)
        raise EmptyInputError(
            f"embargo must leave training rows before the validation rows, got {embargo} with series of at most "
            f"{longest} rows: lower it, or test_fraction"
        )
    return placed


def _by_subject(
    facts: Sequence[Row], series: Series, num_shards: int, test_fraction: float
) -> dict[int, tuple[int, int, int, int]]:
    """Place series whose subjects are for training or for validation."""
    subjects = _subjects(facts)
    total = sum(map(_rows, subjects))
    held_out: list[list[Row]] = []
    training = subjects
    if series.validation_column is not None:
        mixed = next((each for each in subjects if len({fact["validates"] for fact in each}) > 1), None)
        if mixed is not None:
            raise ColumnError(
                f"validation_column must have one value for a subject, got both for that of series {mixed[0]['key']} "
                f"and {mixed[-1]['key']}. A subject in both splits makes the validation metrics too good"
            )
        held_out = [each for each in subjects if each[0]["validates"]]
        training = [each for each in subjects if not each[0]["validates"]]
    elif test_fraction:
        # In the order of their hashes, until the share is reached as closely as whole subjects allow.
        wanted, reached = test_fraction * total, 0
        for each in subjects:
            if held_out and abs(reached + _rows(each) - wanted) > abs(reached - wanted):
                break
            held_out.append(each)
            reached += _rows(each)
        training = subjects[len(held_out) :]
    if (test_fraction and not held_out) or not training:
        raise EmptyInputError(
            f"subjects must be in both splits, got {len(training)} for training and {len(held_out)} for validation. "
            'Set split="time" where there are few subjects, or test_fraction=0'
        )
    placed: dict[int, tuple[int, int, int, int]] = {}
    for shard, members in _dealt(training, num_shards, "training"):
        placed |= {fact["series"]: (shard, -1, fact["rows"], fact["rows"]) for fact in members}
    for shard, members in _dealt(held_out, num_shards):
        placed |= {fact["series"]: (-1, shard + num_shards, 0, 0) for fact in members}
    return placed


def _subjects(facts: Sequence[Row]) -> list[list[Row]]:
    """Group series by subject, in the order of the subjects' hashes."""
    groups: dict[int, list[Row]] = defaultdict(list)
    for fact in sorted(facts, key=lambda fact: (fact["subject"], fact["series"])):
        if fact["rows"]:
            groups[fact["subject"]].append(fact)
    return list(groups.values())


def _rows(subject: Sequence[Row]) -> int:
    return sum(fact["rows"] for fact in subject)


def _dealt(subjects: Sequence[list[Row]], num_shards: int, what: str = "") -> Iterator[tuple[int, list[Row]]]:
    """Yield each subject's series with a shard: the largest subject first, to the shard with the fewest rows."""
    if what and len(subjects) < num_shards:
        raise EmptyInputError(
            f"num_shards must be at most the number of subjects for {what}, {len(subjects)}, got {num_shards}: lower "
            'num_shards, or set split="time"'
        )
    shards = [(0, shard) for shard in range(num_shards)]
    for subject in sorted(subjects, key=lambda subject: -_rows(subject)):
        rows, shard = heapq.heappop(shards)
        heapq.heappush(shards, (rows + _rows(subject), shard))
        yield shard, subject

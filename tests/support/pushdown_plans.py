"""Queries over an inference operator in a session with the plugin, each with and without the rule.

A program: extensions take effect only in a JVM that starts with them. It prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from udfs.arrow import NewColumns, RowMap, RowPolicy
from udfs.driver import map_rows, plugin_conf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

__all__ = ["main"]

ROWS = 40


class Doubled:
    """Stand-in for a network: doubles ``x``, refuses nulls and multiples of 7, and counts its rows in a file."""

    batch_size = 4
    reads = ("x",)

    def __init__(self, log: str, name: str = "y") -> None:
        self.log, self.name = log, name

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.name, pa.float64()),)

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        def run(batch: pa.RecordBatch) -> NewColumns:
            with Path(self.log).open("a") as file:
                file.write(f"{batch.num_rows}\n")
            values = batch.column(0).to_pylist()
            bad = [value is None or value % 7 == 0 for value in values]
            doubled = [None if wrong else value * 2.0 for value, wrong in zip(values, bad, strict=True)]
            return NewColumns([pa.array(doubled, pa.float64())], ["refused" if wrong else None for wrong in bad])

        return run

    def rows(self) -> int:
        """Count the rows that went through."""
        log = Path(self.log)
        return sum(map(int, log.read_text().split())) if log.exists() else 0


def open_session(**settings: str) -> SparkSession:
    """Start Spark with the plugin, classic or Connect as ``SPARK_REMOTE`` has it."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    remote = os.environ.get("SPARK_REMOTE")
    if remote:
        os.environ["SPARK_TESTING"] = "yes"
    builder = SparkSession.builder.remote(remote) if remote else SparkSession.builder.master("local[2]")
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    for name, value in (conf | plugin_conf() | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def table(spark: SparkSession, good: bool = False) -> DataFrame:
    """Make rows with nulls in every column but the id, and with values that the function refuses unless `good`."""
    x = "id * 7 + 1" if good else "CASE WHEN id % 9 = 4 THEN NULL ELSE id END"
    return spark.range(0, ROWS, 1, 2).selectExpr(
        "id",
        f"CAST({x} AS DOUBLE) AS x",
        "CASE WHEN id % 5 = 3 THEN NULL ELSE id % 3 END AS g",
        "CASE WHEN id % 4 = 1 THEN NULL ELSE concat(chr(97 + id % 3), id) END AS s",
    )


def stage(df: DataFrame, errors: str = "null", name: str = "y") -> tuple[DataFrame, Doubled]:
    """Add the doubled column."""
    function = Doubled(tempfile.mktemp(prefix="rows-"), name)
    policy = RowPolicy(errors, f"why_{name}" if errors == "null" else None)  # type: ignore[arg-type]
    return map_rows(df, RowMap(function, tuple(df.columns), policy)), function


KEPT = [
    "id < 20",
    "g = 1",
    "g is null",
    "s like 'a%'",
    "id in (1, 5, 9, 30)",
    "coalesce(g, 0) <> 2",
    "id % 2 = 0 and s is not null",
    "id < 5 or g = 2",
    "id > (select avg(id) from range(30))",
    "id in (select id * 2 from range(30))",
]
RESULTS = ["y > 10", "y is null", "y > id", "id < 20 and y > 10", "not (y < 30 and g = 1)"]


Step = Callable[["DataFrame"], "DataFrame"]


def _where(draw: random.Random, conditions: Sequence[str]) -> tuple[str, Step]:
    condition = draw.choice(conditions)
    return condition, lambda df: df.where(condition)


def _join(draw: random.Random) -> tuple[str, Step]:
    how = draw.choice(["inner", "left", "right", "full", "left_semi", "left_anti"])
    return how, lambda df: df.join(_other(df.sparkSession), "id", how).drop("v")


def _window(_: random.Random) -> tuple[str, Step]:
    number = F.row_number().over(Window.partitionBy("g").orderBy("id", "x"))
    return "window", lambda df: df.withColumn("rn", number).where("rn <= 4").drop("rn")


def _first(draw: random.Random) -> tuple[str, Step]:
    count, order = draw.randint(1, 12), draw.choice([F.asc("id"), F.desc("id")])
    return f"first {count}", lambda df: df.orderBy(order).limit(count)


STEPS: dict[str, Callable[[random.Random], tuple[str, Step]]] = {
    "kept": lambda draw: _where(draw, KEPT),
    "kept again": lambda draw: _where(draw, KEPT),
    "result": lambda draw: _where(draw, RESULTS),
    "rand": lambda draw: _where(draw, ["rand(3) > 0.3"]),
    "join": _join,
    "window": _window,
    "first": _first,
    "union": lambda _: ("union", lambda df: df.unionByName(df)),
    "self": lambda _: ("self", _joined_with_itself),
    "derive": lambda _: ("derive", lambda df: df.withColumn("z", F.expr("id + 1")).where("z > 3").drop("z")),
}

ENDS: dict[str, Step] = {
    "all": lambda df: df,
    "ids": lambda df: df.select("id", "s"),
    "count": lambda df: df.groupBy().count(),
    "groups": lambda df: df.groupBy("g").agg(F.count("*"), F.sum("id"), F.max("y")),
    "features": lambda df: df.select("y"),
    "distinct": lambda df: df.select("g").distinct(),
}


def random_query(seed: int) -> tuple[str, Step]:
    """Draw a query of up to five steps, and describe it."""
    draw = random.Random(seed)
    chosen: list[tuple[str, Step]] = []
    for _ in range(draw.randint(1, 5)):
        name, step = STEPS[draw.choice(list(STEPS))](draw)
        # Rows of the other side alone have no id to order by: which are the first would be chance.
        if not (name.startswith("first") and {"right", "full"} & {each for each, _ in chosen}):
            chosen.append((name, step))
    last = draw.choice(list(ENDS))

    def query(df: DataFrame) -> DataFrame:
        for _, step in chosen:
            df = step(df)
        return ENDS[last](df)

    return " | ".join([*(name for name, _ in chosen), last]), query


def _joined_with_itself(df: DataFrame) -> DataFrame:
    some = df.where("id < 25").select("id", F.col("y").alias("y2")).distinct()
    return df.distinct().join(some, "id").drop("y2")


def _other(spark: SparkSession) -> DataFrame:
    return spark.range(10, 50, 3).selectExpr("CASE WHEN id = 13 THEN NULL ELSE id END AS id", "id AS v")


def collected(query: DataFrame) -> list[str]:
    """Collect the rows as sorted text."""
    return sorted(map(repr, query.collect()))


def both(spark: SparkSession, make: Callable[[], DataFrame]) -> dict[str, Any]:
    """Run a query with and without the rule."""
    rows = {}
    for setting in ("true", "false"):
        spark.conf.set("spark.cerebro.pushdown", setting)
        rows[setting] = collected(make())
    spark.conf.set("spark.cerebro.pushdown", "true")
    return {"same": rows["true"] == rows["false"], "rows": len(rows["true"])}


COUNTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "filter on a kept column": lambda d: d.where("id < 4"),
    "filter on a result": lambda d: d.where("y > 10"),
    "filter on both": lambda d: d.where("id < 4 and y > 4"),
    "renamed filter": lambda d: d.select(F.col("id").alias("k"), "y").where("k < 4"),
    "filter of a subquery": lambda d: d.where("id in (select id from range(3))"),
    "count": lambda d: d.groupBy().count(),
    "unread": lambda d: d.select("id", "s"),
    "groups": lambda d: d.groupBy("g").agg(F.count("*")),
    "limit": lambda d: d.limit(3),
    "first": lambda d: d.orderBy(F.desc("id")).limit(3),
    "semi join": lambda d: d.join(d.sparkSession.range(3), "id", "left_semi"),
    "anti join": lambda d: d.join(d.sparkSession.range(30), "id", "left_anti"),
    "inner join": lambda d: d.join(d.sparkSession.range(3), "id"),
    "inner join on the right": lambda d: d.sparkSession.range(3).join(d.select("id", "y"), "id"),
    "join with itself": lambda d: d.select("id", "y").join(d.select("id", F.col("y").alias("z")), "id"),
    "union with itself": lambda d: d.union(d),
    "outer join": lambda d: d.join(d.sparkSession.range(3), "id", "left"),
}


# Those that depend on the policy, and one that does not.
DIFFERING = ("filter on both", "count", "unread", "limit", "first", "inner join")


def counts(spark: SparkSession, errors: str) -> Iterator[tuple[str, int]]:
    """Count the rows that each query passes through the function."""
    for name in COUNTED if errors == "null" else DIFFERING:
        query = COUNTED[name]
        df, function = stage(table(spark, good=errors == "raise"), errors)
        collected(query(df))
        yield name, function.rows()


def raising(spark: SparkSession) -> dict[str, bool]:
    """Ask whether queries over refused rows fail with ``errors="raise"``."""

    def fails(query: Callable[[DataFrame], DataFrame]) -> bool:
        df, _ = stage(table(spark), "raise")
        try:
            collected(query(df))
        except Exception as error:
            assert "refused" in str(error), error
            return True
        return False

    # Row 0 is refused, rows 1 to 3 are not.
    return {
        "all": fails(lambda d: d),
        "count": fails(lambda d: d.groupBy().count()),
        "unread": fails(lambda d: d.select("id")),
        "filtered": fails(lambda d: d.where("id between 1 and 3")),
        "filtered result": fails(lambda d: d.where("y > 1000")),
    }


def main(seeds: range) -> None:
    """Run everything and print it."""
    warnings.filterwarnings("ignore", ".* has random weights")
    spark = open_session()
    plans = []
    for seed in seeds:
        name, query = random_query(seed)
        errors = ("null", "drop", "raise")[seed % 3]
        twice = seed % 4 == 0

        def make(errors: str = errors, query: Any = query, twice: bool = twice) -> DataFrame:
            df, _ = stage(table(spark, good=errors == "raise"), errors)
            if twice:
                df, _ = stage(df.withColumnRenamed("y", "y0").drop("why_y"), errors)
            return query(df)

        plans.append({"seed": seed, "plan": f"{errors}{' twice' * twice}: {name}", **both(spark, make)})
    filtered, _ = stage(table(spark))
    found = {
        "counts": {errors: dict(counts(spark, errors)) for errors in ("null", "drop", "raise")},
        "plans": plans,
        "raising": raising(spark),
        "explain": _explained(filtered.where("id < 4 and y > 1")),
        "schema": json.loads(filtered.schema.json()),
    }
    if not seeds:
        found["images"] = images(spark)
    print("FOUND" + json.dumps(found))
    spark.stop()


def _explained(df: DataFrame) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        df.explain()
    return text.getvalue()


def images(spark: SparkSession) -> list[dict[str, Any]]:
    """Run queries over a featurizer of photographs, some of them corrupt; batches of one row are free of rounding."""
    from photographs import crops, encode

    from vista_spark import CNNFeaturizer

    rows = [
        (number, label, None if number % 5 == 1 else b"junk" if number % 5 == 2 else encode(picture))
        for number, (label, _, _, picture) in enumerate(crops(15))
    ]
    df = spark.createDataFrame(rows, "id long, label long, image binary").repartition(2, "id").cache()
    queries: dict[str, Callable[[DataFrame], DataFrame]] = {
        "filter": lambda d: d.where("id > 8"),
        "errors": lambda d: d.where("id < 9").select("id", *(each for each in d.columns if each == "image_error")),
        "outer": lambda d: d.sparkSession.range(20).join(d, "id", "left").where("id between 5 and 17").drop("image"),
        "first": lambda d: d.orderBy(F.desc("id")).limit(4).drop("image"),
        "groups": lambda d: d.where("id > 3").groupBy("label").agg(F.count("*"), F.max(F.element_at("feature", 1))),
    }
    found = []
    for errors in ("null", "drop"):
        featurizer = CNNFeaturizer(
            inputCol="image", model="squeezenet1_1", outputCols=["feature"], outputFormat="array", batchSize=1
        )
        featurizer.set(featurizer.errors, errors)
        for name, query in queries.items():
            make = lambda f=featurizer, q=query: q(f.transform(df))  # noqa: E731
            found.append({"plan": f"{errors}: {name}", **both(spark, make)})
    return found


if __name__ == "__main__":
    main(range(int(sys.argv[1]), int(sys.argv[2])))

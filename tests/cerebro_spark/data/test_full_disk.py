"""A disk that fills up during a preparation is one error, and no Spark task fails with a traceback of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from cerebro_spark import Store
from cerebro_spark.data import prepare, prepare_increment
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_full_disk_is_one_sentence(
    spark: SparkSession, small_disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    store = Store.from_uri(str(small_disk("128k")))
    df = spark.range(30_000).select(F.rand(1).alias("a"), F.rand(2).alias("b"), (F.col("id") % 2).alias("label"))
    with pytest.raises(StoreFullError, match="the disk is full: free some space, or name a store on a larger one"):
        prepare(df, store, feature_columns=["a", "b"], label_columns=["label"], num_shards=8)
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in printed
    assert "Exception in task" not in printed
    assert store.list("prepared") == [], "the shards that were written take the space that is missing"


def test_a_full_disk_ends_a_batch_in_one_sentence(
    spark: SparkSession, small_disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    store = Store.from_uri(str(small_disk("256k")))
    add = partial(
        prepare_increment,
        store=store,
        name="growing",
        id_column="id",
        feature_columns=["a", "b"],
        label_columns=["label"],
        num_shards=4,
    )
    random = [F.rand(1).alias("a"), F.rand(2).alias("b"), (F.col("id") % 2).alias("label")]
    first = add(spark.range(500).select("id", *random))
    capfd.readouterr()
    with pytest.raises(StoreFullError, match="the disk is full: free some space, or name a store on a larger one"):
        add(spark.range(500, 50_000).select("id", *random), previous=first)
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in printed
    assert "Exception in task" not in printed
    # The shards of the batch take the space that is missing; the earlier batch stays, and smaller ones are added.
    again = add(spark.range(500, 600).select("id", *random), previous=first)
    assert [increment.rows for increment in again.increments] == [500, 100]

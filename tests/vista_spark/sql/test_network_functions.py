"""``cnn_features`` and ``text_features`` give the rows of the featurizers, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import stages
import texts
from photographs import crops, encode
from sessions import CONNECT

from udfs.driver import register_function
from udfs.sql import NetworkCalls
from vista_spark import CNNFeaturizer, TextFeaturizer, register_sql
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.sql._register import _sql_network

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NETWORK: dict[str, Any] = {
    "model": "squeezenet1_1",
    "imageSize": 64,
    "pooling": "mean",
    "maxPixels": 10_000,
    "batchSize": 3,
    "seed": 5,
}


def photos(spark: SparkSession) -> DataFrame:
    """Seven good images, and one of each fault."""
    good = [(number, 2.0 * number, encode(picture)) for number, (*_, picture) in enumerate(crops(7, side=64))]
    cut = good[0][2][:-700]
    (*_, large) = next(crops(1, side=128))
    bad = [(7, 1.0, b"no image"), (8, 1.0, None), (9, 1.0, cut), (10, 1.0, encode(large))]
    df = spark.createDataFrame([*good, *bad], "id long, price double, image binary").repartition(3)
    df.createOrReplaceTempView("photos")
    return df


def same(found: list[Any], expected: list[Any]) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and np.allclose(a, b, atol=1e-5))
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.connect
def test_a_query_gives_the_rows_of_the_stage(spark: SparkSession) -> None:
    stage = CNNFeaturizer(**NETWORK, layers=["fire5", "pool10"], outputFormat="array", errorDetailCol="detail")
    expected = stage.transform(photos(spark)).sort("id").collect()
    assert register_sql(spark, stage) == ("cnn_features", "cnn_features_or_error")
    rows = spark.sql(
        """
        SELECT id, cnn_features(image, 'squeezenet1_1', 'pool10') AS pool,
               cnn_features_or_error(image, 'squeezenet1_1', IF(id % 2 = 0, 'fire5', 'pool10')) AS mixed
        FROM photos WHERE price > 0.5 OR id = 0 ORDER BY id
        """
    ).collect()
    pool, fire = (f"squeezenet1_1_{layer}" for layer in ("pool10", "fire5"))
    assert len(rows) == 11
    assert same([row["pool"] for row in rows], [row[pool] for row in expected])
    assert same(
        [row["mixed"]["features"] for row in rows], [row[(pool if row["id"] % 2 else fire)] for row in expected]
    )
    reasons = [(row["image_error"], row["detail"]) for row in expected]
    assert len({reason for reason, _ in reasons}) == 5, "each fault has a reason of its own"
    assert [(row["mixed"]["error"], row["mixed"]["detail"]) for row in rows] == reasons


def test_layers_have_names_and_numbers_and_may_be_left_out(spark: SparkSession) -> None:
    photos(spark)
    register_sql(spark, only=CNNFeaturizer(**NETWORK, layers=["fire5", "pool10"], combine="concat"))
    row = spark.sql(
        """
        SELECT cnn_features(image) AS own, cnn_features(image, 'only', 'fire5') AS low,
               cnn_features(image, 'only', 2) AS second, cnn_features(image, NULL, 'pool10') AS high
        FROM photos WHERE id = 3
        """
    ).first()
    assert row is not None
    assert np.allclose(row["own"], [*row["low"], *row["high"]], atol=1e-5)
    register_sql(spark, CNNFeaturizer(**NETWORK, layers=["conv10"]))
    conv10 = spark.sql("SELECT cnn_features(image) FROM photos WHERE id = 3").first()
    assert conv10 is not None
    assert np.allclose(row["second"], conv10[0], atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "cnn_features(image, 'squeezenet1_2', 'pool10')",
            r"registered network .*got 'squeezenet1_2'",
        ),
        ("cnn_features(image, 'squeezenet1_1', 'fire6x')", "must be one of .*fire6, .*got 'fire6x'"),
        ("cnn_features(image, 'squeezenet1_1', 99)", "must be from 1, the top, to .*got 99"),
        ("cnn_features(id, 'squeezenet1_1', 'pool10')", "must be an image: binary .*got int64"),
        ("cnn_features(image, 'squeezenet1_1', 'pool10', 3)", "must be called as cnn_features.*got 4 arguments"),
    ],
)
def test_a_wrong_call_says_what_there_is(spark: SparkSession, call: str, message: str) -> None:
    photos(spark)
    register_sql(spark, CNNFeaturizer(**NETWORK))
    with pytest.raises(Exception, match=message):
        spark.sql(f"SELECT {call} FROM photos").collect()


@pytest.mark.connect
def test_a_bad_row_fails_the_query_where_the_stage_says_so(spark: SparkSession) -> None:
    photos(spark)
    register_sql(spark, CNNFeaturizer(**NETWORK, errors="raise"))
    assert len(spark.sql("SELECT cnn_features(image) FROM photos WHERE id < 2").collect()) == 2
    with pytest.raises(Exception, match="not a JPEG"):
        spark.sql("SELECT cnn_features(image) FROM photos WHERE id IN (1, 7)").collect()


def test_what_cannot_be_a_function_is_refused(spark: SparkSession) -> None:
    stage = CNNFeaturizer(**NETWORK)
    with pytest.raises(InvalidArgumentError, match=r'errors="drop".*IS NOT NULL'):
        register_sql(spark, stage.copy().setErrors("drop"))
    with pytest.raises(InvalidArgumentError, match="two stages are called 'squeezenet1_1'"):
        register_sql(spark, stage, stage.copy())
    with pytest.raises(ColumnError, match='combine="sum" adds vectors of one length'):
        register_sql(spark, CNNFeaturizer(**NETWORK, layers=["fire5", "pool10"], combine="sum"))
    with pytest.raises(InvalidArgumentError, match="has no stage"):
        register_sql(spark)
    with pytest.raises(InvalidArgumentError, match="not str"):
        register_sql(spark, "squeezenet1_1")  # type: ignore[arg-type]


@pytest.mark.extended
@pytest.mark.skipif(not texts.TOKENIZERS, reason="texts need torch and tokenizers: pip install 'cerebro-spark[torch]'")
def test_texts(spark: SparkSession) -> None:
    texts.tiny_bert()
    df = stages.texts(spark, 5).union(spark.createDataFrame([(5, 0.0, None)], "id long, label double, text string"))
    df.createOrReplaceTempView("reviews")
    stage = TextFeaturizer(model="tiny_bert", layers=["layer1"], outputFormat="array", outputCols=["low"])
    expected = [row["low"] for row in stage.transform(df).sort("id").collect()]
    assert register_sql(spark, stage) == ("text_features", "text_features_or_error")
    rows = spark.sql("SELECT text_features_or_error(text, 'tiny_bert', 'layer1') f FROM reviews ORDER BY id").collect()
    assert expected[5] is None
    assert same([row["f"]["features"] for row in rows], expected)
    assert [row["f"]["error"] for row in rows] == [None] * 5 + ["null"]


@pytest.mark.skipif(CONNECT, reason="once is enough")
def test_the_way_of_spark_4_0_gives_the_same(spark: SparkSession) -> None:
    photos(spark)
    register_sql(spark, CNNFeaturizer(**NETWORK))
    query = "SELECT cnn_features_or_error(image, 'squeezenet1_1', 'pool10') f FROM photos ORDER BY id"
    expected = spark.sql(query).collect()
    calls = registered(spark)
    register_function(spark, "cnn_features_or_error", calls, calls.returns, pandas=True)
    found = spark.sql(query).collect()
    assert same([row["f"]["features"] for row in found], [row["f"]["features"] for row in expected])
    assert [row["f"]["error"] for row in found] == [row["f"]["error"] for row in expected]


def registered(spark: SparkSession) -> NetworkCalls:
    """Make the value that is registered."""
    network = _sql_network(spark, "squeezenet1_1", CNNFeaturizer(**NETWORK))
    return NetworkCalls("cnn_features_or_error", "image", {"squeezenet1_1": network}, explained=True)


def test_no_row_gives_no_row(spark: SparkSession) -> None:
    photos(spark)
    register_sql(spark, CNNFeaturizer(**NETWORK))
    assert spark.sql("SELECT cnn_features(image) FROM photos WHERE id > 99").collect() == []
    assert len(NetworkCalls("f", "image", {}, explained=True)([pa.array([], pa.binary())])) == 0

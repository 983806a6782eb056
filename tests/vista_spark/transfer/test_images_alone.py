"""A transfer without structured features, how sure its scores are, and labels that are no classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from photographs import crops, encode
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import MulticlassClassificationEvaluator, RegressionEvaluator
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import LinearRegression
from pyspark.sql import functions as F

pytest.importorskip("torch")

from vista_spark import FeatureTransfer
from vista_spark.errors import ColumnError, LabelError
from vista_spark.transfer._columns import Columns
from vista_spark.transfer._inputs import match
from vista_spark.transfer._intervals import metric_of, resampled

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 30


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    rows = [(f"p/{number}", label, encode(picture)) for number, (label, *_, picture) in enumerate(crops(ROWS, side=64))]
    table = spark.createDataFrame(rows, "id string, label int, image binary").cache()
    return table.select("id", "label"), table.select("id", "image")


def transfer(**settings: Any) -> FeatureTransfer:
    usual = {"downstream": LogisticRegression(maxIter=3), "feature_columns": (), "layers": ["fire5"], "seed": 4}
    fixed = {"model": "squeezenet1_1", "image_size": 64, "test_fraction": 0.4, "progress": False}
    return FeatureTransfer(**fixed | usual | settings)


def test_images_alone(tables: tuple[DataFrame, DataFrame], tmp_path: Path) -> None:
    labels, images = tables
    result = transfer(evaluator=MulticlassClassificationEvaluator(metricName="accuracy")).run(labels, images)
    (layer,) = result.layers
    assert list(result.to_pandas()["features"]) == ["no features", "fire5"]
    assert result.baseline.score < 0.8 < layer.score, "the pictures tell a flower from a palace, and nothing else does"
    assert "a guess without any feature" in result.verdict
    assert layer.interval is not None
    assert layer.interval[0] <= layer.score <= layer.interval[1]
    frame = result.to_pandas().set_index("features")
    assert tuple(frame.loc["fire5", ["low", "high"]]) == layer.interval
    assert frame.loc["no features", "lift_high"] == 0
    result.best_model.save(str(tmp_path / "model"))
    predicted = type(result.best_model).load(str(tmp_path / "model")).transform(images.join(labels, "id"))
    assert predicted.where("prediction = label").count() > 0.8 * ROWS
    assert predicted.first().transfer_features.size == layer.size


def test_a_guess_is_the_best_of_a_constant(tables: tuple[DataFrame, DataFrame]) -> None:
    """Where no layer helps, the best model reads nothing, and gives the mean of the labels it was trained on."""
    labels, images = tables
    noise = labels.withColumn("label", F.lit(5.0) + F.pmod(F.xxhash64("id"), F.lit(3)))
    result = transfer(downstream=LinearRegression(), seed=2).run(noise, images)
    if result.best_layer is None:
        (value,) = {round(row.prediction, 6) for row in result.best_model.transform(labels).collect()}
        assert 5 < value < 7
        assert "a guess by the label's shares, and reads no image" in result.verdict
    assert result.baseline.size == 0


@pytest.mark.parametrize("value", [-1, 0.5])
def test_a_label_that_is_no_class_is_refused_before_images_are_read(
    value: float, tables: tuple[DataFrame, DataFrame]
) -> None:
    labels, images = tables
    wrong = labels.withColumn("label", F.when(F.col("label") == 1, F.lit(value)).otherwise(F.lit(1.0)))
    spoilt = images.withColumn("image", F.raise_error(F.lit("an image was read")).cast("binary"))
    with pytest.raises(LabelError, match=rf"has the value {float(value)}.*StringIndexer"):
        transfer().run(wrong, spoilt)


@pytest.mark.parametrize("largest", [2024, 1_000_000_007, 2**40])
def test_a_label_that_is_an_unlikely_class_is_refused_before_images_are_read(
    largest: int, tables: tuple[DataFrame, DataFrame]
) -> None:
    labels, images = tables
    spoilt = images.withColumn("image", F.raise_error(F.lit("an image was read")).cast("binary"))
    wrong = labels.withColumn("label", F.when(F.col("label") == 1, F.lit(largest)).otherwise(F.lit(0)))
    with pytest.raises(LabelError, match=rf"the label 'label' must be .* up to {largest} with 2 .*StringIndexer"):
        transfer().run(wrong, spoilt)


def test_labels_of_many_classes_are_accepted(tables: tuple[DataFrame, DataFrame]) -> None:
    """A few rows of ImageNet, a large label that the column's own metadata declares, and prices."""
    labels, images = tables
    columns = Columns(on="id", features=(), label="label", image="image")
    few = labels.withColumn("label", F.col("label") * 999)
    assert match(few, images, columns, "drop", classification=True).classes == 1000
    declared = {"ml_attr": {"type": "nominal", "num_vals": 5000}}
    stated = labels.withColumn("label", F.col("label").cast("double") * 4999).withMetadata("label", declared)
    assert match(stated, images, columns, "drop", classification=True).classes == 5000
    prices = labels.withColumn("label", F.col("label") * 1e9)
    assert match(prices, images, columns, "drop", classification=False).rows == ROWS


@pytest.mark.parametrize("features", ["z", ("number", "z"), ("z", "w")])
def test_vectors_of_several_lengths_are_refused_by_name(
    features: str | tuple[str, ...], tables: tuple[DataFrame, DataFrame], spark: SparkSession
) -> None:
    labels, images = tables
    ids = [row.id for row in labels.select("id").collect()]
    rows = [
        (name, float(place), Vectors.dense([1.0] * (2 + place % 3)), Vectors.sparse(4, {0: 1.0}))
        for place, name in enumerate(ids)
    ]
    structured = labels.join(spark.createDataFrame(rows, ["id", "number", "z", "w"]), "id")
    spoilt = images.withColumn("image", F.raise_error(F.lit("an image was read")).cast("binary"))
    with pytest.raises(ColumnError, match=r"one length per column, got 'z' with lengths from 2 to 4. Pad them"):
        transfer(feature_columns=features).run(structured, spoilt)


def test_a_vector_of_another_length_in_a_row_that_is_left_out_counts_not(
    tables: tuple[DataFrame, DataFrame], spark: SparkSession
) -> None:
    labels, images = tables
    ids = [row.id for row in labels.select("id").collect()]
    rows = [(name, Vectors.dense([1.0] * (3 if place else 2))) for place, name in enumerate(ids)]
    structured = labels.join(spark.createDataFrame(rows, ["id", "z"]), "id")
    structured = structured.withColumn("label", F.when(F.col("id") != ids[0], F.col("label")))
    columns = Columns(on="id", features=("z",), label="label", image="image")
    assert match(structured, images, columns, "drop", classification=True).rows == ROWS - 1


@pytest.mark.parametrize("metric", ["f1", "accuracy", "weightedRecall", "weightedPrecision"])
def test_a_metric_of_classes_is_spark_mls(metric: str, spark: SparkSession) -> None:
    _held_to_spark(MulticlassClassificationEvaluator(metricName=metric), spark, lambda draw: draw.integers(0, 4, 60))


@pytest.mark.parametrize("metric", ["rmse", "mse", "mae", "r2"])
def test_a_metric_of_numbers_is_spark_mls(metric: str, spark: SparkSession) -> None:
    _held_to_spark(RegressionEvaluator(metricName=metric), spark, lambda draw: draw.normal(5, 2, 60))


def _held_to_spark(evaluator: Any, spark: SparkSession, draw: Any) -> None:
    generator = np.random.default_rng(0)
    label, prediction = (draw(generator).astype(float) for _ in range(2))
    prediction = np.where(generator.random(60) < 0.5, label, prediction)
    frame = pd.DataFrame({"label": label, "prediction": prediction})
    score = evaluator.evaluate(spark.createDataFrame(frame))
    found = metric_of(evaluator)
    assert found is not None
    # Integer weights are rows that are there so many times.
    weights = generator.multinomial(60, np.full(60, 1 / 60))
    again = evaluator.evaluate(spark.createDataFrame(frame.loc[np.repeat(np.arange(60), weights)]))
    measured = found(np.stack([np.ones(60), weights.astype(float)]), label, prediction)
    np.testing.assert_allclose(measured, [score, again], rtol=1e-9)


@pytest.mark.usefixtures("spark")
def test_an_interval_is_as_wide_as_theory_says() -> None:
    rows = 400
    right = np.arange(rows) % 4 > 0
    held_out = pd.DataFrame({"label": 1.0, "prediction": right.astype(float)})
    accuracy = metric_of(MulticlassClassificationEvaluator(metricName="accuracy"))
    assert accuracy is not None
    intervals = resampled(accuracy, held_out, held_out, 0.75, sign=1, seed=0)
    assert intervals is not None
    half = 1.96 * (0.75 * 0.25 / rows) ** 0.5
    np.testing.assert_allclose(intervals[0], (0.75 - half, 0.75 + half), atol=0.012)
    assert intervals[1] == (0, 0), "against itself nothing is gained, in any draw"
    assert resampled(accuracy, held_out, held_out, 0.7, sign=1, seed=0) is None, "the score is another one"


@pytest.mark.usefixtures("spark")
def test_a_metric_that_is_not_known_has_no_interval() -> None:
    assert metric_of(MulticlassClassificationEvaluator(metricName="logLoss")) is None
    assert metric_of(MulticlassClassificationEvaluator(weightCol="w")) is None

"""A transfer that begins at a layer which the user has materialised before (Vista's ``start_layer``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from photographs import crops, encode
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.functions import vector_to_array
from pyspark.sql import functions as F

pytest.importorskip("torch")

from vista_spark import CNNFeaturizer, FeatureTransfer
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    Watch = Callable[[], AbstractContextManager[None]]

ROWS = 24
SEED = 3


def featurizer(layers: list[str], **settings: object) -> CNNFeaturizer:
    return CNNFeaturizer(model="squeezenet1_1", layers=layers, imageSize=64, seed=SEED, **settings)


@pytest.fixture(scope="module")
def photographs(spark: SparkSession) -> DataFrame:
    rows = [(number, encode(crop), float(label)) for number, (label, _, _, crop) in enumerate(crops(ROWS, 64))]
    return spark.createDataFrame(rows, "id long, image binary, label double").withColumn("number", F.col("id") / 10)


@pytest.fixture(scope="module")
def materialised(photographs: DataFrame) -> DataFrame:
    """The tensor of fire5 a photograph, one null."""
    whole = featurizer(["fire5"], pooling="none", outputCols=["fire5"]).transform(photographs)
    table = whole.withColumn("fire5", F.when(F.col("id") != ROWS - 1, F.col("fire5"))).drop("image_error")
    return table.localCheckpoint()


def by_id(df: DataFrame, column: str) -> dict[int, np.ndarray]:
    return {row["id"]: np.asarray(row[column]) for row in df.collect() if row[column] is not None}


@pytest.mark.parametrize("kind", ["vector", "array"])
def test_it_goes_on_from_the_layer(kind: str, materialised: DataFrame, photographs: DataFrame) -> None:
    table = materialised.drop("image")
    if kind == "array":
        arrays = F.when(F.col("fire5").isNotNull(), vector_to_array("fire5", "float32"))
        table = table.withColumn("fire5", arrays)
    above = featurizer(["fire5", "pool10"], startLayer="fire5", inputCol="fire5").transform(table)
    expected = featurizer(["fire5", "pool10"]).transform(photographs)
    for column in ("squeezenet1_1_fire5", "squeezenet1_1_pool10"):
        found, whole = by_id(above, column), by_id(expected, column)
        assert sorted(found) == list(range(ROWS - 1))
        for key, value in found.items():
            np.testing.assert_allclose(value, whole[key], rtol=0, atol=1e-5 * np.abs(whole[key]).max())
    assert above.where("image_error = 'null'").count() == 1


def test_a_transfer_from_it_trains_on_the_same(materialised: DataFrame, photographs: DataFrame) -> None:
    settings = {
        "model": "squeezenet1_1",
        "layers": ["fire8", "pool10"],
        "downstream": LogisticRegression(maxIter=2),
        "image_size": 64,
        "experiment": None,
        "progress": False,
        "seed": SEED,
    }
    structured = photographs.select("id", "label", "number")
    tensors = materialised.select("id", "fire5")
    found = FeatureTransfer(**settings, start_layer="fire5").run(
        structured, tensors, feature_columns=["number"], image_column="fire5"
    )
    whole = FeatureTransfer(**settings).run(
        structured.where(F.col("id") != ROWS - 1),
        photographs.select("id", "image"),
        feature_columns=["number"],
    )
    assert found.dropped == {"tensor: null": 1}
    assert [layer.name for layer in found.layers] == ["fire8", "pool10"]
    for one, other in zip(found.layers, whole.layers, strict=True):
        assert one.score == other.score
        np.testing.assert_allclose(one.model.coefficients.toArray(), other.model.coefficients.toArray(), atol=1e-4)
    assert found.choice.logical.flops < 0.7 * whole.choice.logical.flops
    joined = structured.join(tensors, "id").where("fire5 is not null")
    assert found.best_model.transform(joined).where("prediction is not null").count() == ROWS - 1


def test_what_cannot_be_gone_on_from_is_said_before_a_job(materialised: DataFrame, no_job: Watch) -> None:
    with no_job():
        with pytest.raises(InvalidArgumentError, match="below the start layer"):
            featurizer(["fire3"], startLayer="fire5", inputCol="fire5").transform(materialised)
        with pytest.raises(ColumnError, match="must be a Spark ML vector"):
            featurizer(["pool10"], startLayer="fire5", inputCol="image").transform(materialised)
        with pytest.raises(InvalidArgumentError, match="start at another layer"):
            featurizer(["pool10"], startLayer="features.3.expand1x1", inputCol="fire5").transform(materialised)


def test_a_tensor_of_the_wrong_shape_is_a_bad_row(materialised: DataFrame) -> None:
    other = featurizer(["pool10"], startLayer="fire8", inputCol="fire5").transform(materialised)
    assert {row["image_error"].partition(":")[0] for row in other.collect()} == {"null", "tensor of the wrong shape"}

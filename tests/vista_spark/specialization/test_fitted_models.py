"""Fitted specialised classifiers over photographs: kinds of frames, labels, and oracles with class scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import device_catalogs
from coded_models import run_stream
from device_catalogs import small_catalog
from photographs import crops, encode
from pyspark import cloudpickle
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import StringIndexer
from pyspark.sql import functions as F

from vista_spark import CNNFeaturizer, SpecializedClassifier
from vista_spark.errors import EmptyInputError, LabelError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from vista_spark import SpecializedModel

ANSWERS = ("prediction", "model", "phase", "frame_error")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photos")
    for number, (label, _, _, picture) in enumerate(crops(40, side=48)):
        (path / f"{label}-{number:02d}.png").write_bytes(encode(picture, "PNG"))
    return path


@pytest.fixture(scope="module")
def photos(spark: SparkSession, folder: Path) -> DataFrame:
    rows = [
        (float(file.stem.split("-")[1]), file.stem[0] == "1", str(file), file.read_bytes())
        for file in sorted(folder.iterdir())
    ]
    return spark.createDataFrame(rows, "t double, label boolean, path string, frame binary").cache()


def classifier(**params: Any) -> SpecializedClassifier:
    small = CNNFeaturizer(model="squeezenet1_1", layers="fire3", imageSize=32, pooling="mean", seed=1)
    large = CNNFeaturizer(model="squeezenet1_1", imageSize=64)
    settings = {"oracle": large, "compact": small, "classCounts": [1], "draws": 1, "skews": [0.7]}
    return SpecializedClassifier(**(settings | params))


@pytest.fixture(scope="module")
def model(photos: DataFrame) -> SpecializedModel:
    fitted: SpecializedModel = classifier().fit(photos)
    return fitted


def answers(rows: DataFrame) -> list[Any]:
    return [tuple(row) for row in rows.orderBy("t").select(*ANSWERS).collect()]


def test_labels_may_be_booleans(model: SpecializedModel, photos: DataFrame) -> None:
    rows = model.transform(photos)
    assert rows.schema["prediction"].dataType.simpleString() == "boolean"
    assert model.labels == (False, True)
    assert "2 classes" in model.explain()
    hits = [row["prediction"] == row["label"] for row in rows.collect()]
    assert sum(hits) > len(hits) / 2


def test_frames_may_be_paths_and_structs(
    spark: SparkSession, model: SpecializedModel, photos: DataFrame, folder: Path, tmp_path: Path
) -> None:
    expected = answers(model.transform(photos))
    paths = photos.select("t", F.col("path").alias("frame"))
    assert answers(model.transform(paths)) == expected
    number = F.regexp_extract("image.origin", r"-(\d+)\.png", 1).cast("double").alias("t")
    structs = spark.read.format("image").load(str(folder)).select(number, F.col("image").alias("frame"))
    assert answers(model.transform(structs)) == expected
    streamed = run_stream(spark, model, [structs], tmp_path)
    assert answers(streamed) == expected
    assert streamed.schema["frame"].dataType == structs.schema["frame"].dataType


def test_bad_frames_have_reasons(spark: SparkSession, model: SpecializedModel) -> None:
    bad = spark.createDataFrame([(1.0, b"none"), (2.0, None), (None, b"none")], "t double, frame binary")
    reasons = {row["t"]: row["frame_error"] for row in model.transform(bad).collect()}
    assert reasons[None] == "no time"
    assert reasons[2.0] == "null"
    assert reasons[1.0] is not None


def test_labels_that_are_no_numbers_are_left_out(photos: DataFrame) -> None:
    labels = (
        F.when(F.col("t") < 3, F.lit(float("nan"))).when(F.col("t") < 5, None).otherwise(F.col("label").cast("int"))
    )
    fitted = classifier().fit(photos.withColumn("label", labels.cast("double")))
    assert fitted.labels == (0.0, 1.0)


def test_variants_of_a_catalog_are_compact_models(
    photos: DataFrame, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cloudpickle.register_pickle_by_value(device_catalogs)  # workers do not import modules of tests
    request.addfinalizer(lambda: cloudpickle.unregister_pickle_by_value(device_catalogs))
    small = small_catalog(tmp_path, "scene", full=20, half=10)
    fitted = classifier(compact=[small.catalog["half"], small.catalog["full"]], margin=0.5).fit(photos)
    assert [profile.name for profile in fitted.policy.compacts] == ["scene-half at 0.7", "scene-full at 0.7"]
    assert all(row["frame_error"] is None for row in fitted.transform(photos).collect())


@pytest.fixture(scope="module")
def indexed(photos: DataFrame) -> DataFrame:
    names = photos.withColumn("label", F.when(F.col("label"), "right").otherwise("left"))
    indexer = StringIndexer(inputCol="label", outputCol="number", stringOrderType="alphabetAsc")
    return indexer.fit(names).transform(names)


@pytest.fixture(scope="module")
def pipeline(indexed: DataFrame) -> PipelineModel:
    large = CNNFeaturizer(
        model="squeezenet1_1", layers="fire3", imageSize=64, pooling="mean", seed=1, inputCol="frame", outputCols=["v"]
    )
    regression = LogisticRegression(featuresCol="v", labelCol="number", regParam=0.01)
    return Pipeline(stages=[large, regression]).fit(indexed)


def test_a_fitted_pipeline_is_the_oracle(indexed: DataFrame, pipeline: PipelineModel) -> None:
    with pytest.warns(UserWarning, match="right on all rows it was measured on. If it was fitted on them") as caught:
        fitted = classifier(oracle=pipeline, labelCol="number", margin=0.5).fit(indexed)
    assert [each.filename for each in caught if "right on all rows" in str(each.message)] == [__file__]
    expected = {row["t"]: row["prediction"] for row in pipeline.transform(indexed).collect()}
    rows = fitted.transform(indexed).where("model = 'oracle'").collect()
    assert len(rows) > 5
    assert all(row["prediction"] == expected[row["t"]] for row in rows)


def test_texts_are_no_labels_of_a_pipeline_fitted_on_their_numbers(indexed: DataFrame, pipeline: PipelineModel) -> None:
    with pytest.raises(LabelError, match=r"the oracle, 0.0, 1.0, got \['left', 'right'\]. Set labelCol to the column"):
        classifier(oracle=pipeline).fit(indexed)


def test_rows_that_cannot_be_learned_are_refused(photos: DataFrame) -> None:
    with pytest.raises(EmptyInputError, match=r"rows must have inputs that .* can read"):
        classifier().fit(photos.withColumn("frame", F.lit(b"none")))
    with pytest.raises(EmptyInputError, match="no rows with a label"):
        classifier().fit(photos.withColumn("label", F.lit(None).cast("string")))
    with pytest.raises(LabelError, match=r"labels must have at least two classes, got \[True\]"):
        classifier().fit(photos.where("label"))

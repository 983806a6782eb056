"""Arguments as a stranger would pass them: each is refused with a remedy before Spark runs a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from coded_models import coded_model
from photographs import crops, encode

from vista_spark import CNNFeaturizer, SpecializedClassifier
from vista_spark.errors import CerebroError, ColumnError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    NoJob = Callable[[], AbstractContextManager[None]]


def featurizer(**params: Any) -> CNNFeaturizer:
    settings = {"model": "squeezenet1_1", "layers": "fire3", "imageSize": 32, "pooling": "mean", "seed": 1}
    return CNNFeaturizer(**(settings | params))


@pytest.fixture(scope="module")
def photos(spark: SparkSession) -> DataFrame:
    rows = [(str(label), encode(picture)) for label, _, _, picture in crops(4, side=48)]
    return spark.createDataFrame(rows, "label string, frame binary")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": 1.0}, r"epsilon must be a number from 0 to 1, without 1, got 1.0"),
        ({"epsilon": float("nan")}, r"epsilon must be a number from 0 to 1, without 1, got nan"),
        ({"epsilon": "often"}, r"epsilon"),
        ({"margin": -1.5}, r"margin must be a number from -1 to 1, got -1.5"),
        ({"margin": float("nan")}, r"margin must be a number from -1 to 1, got nan"),
        ({"window": 1}, r"window must be at least 2, got 1"),
        ({"trainingFrames": -1}, r"trainingFrames must be at least 0, got -1"),
        ({"skews": []}, r"skews must be a list of numbers above 0 and below 1, got \[\]"),
        ({"skews": [0.5, 1.0]}, r"skews must be a list of numbers above 0 and below 1, got \[0.5, 1.0\]"),
        ({"method": "retrian"}, r"method must be one of .*reweight, retrain, got 'retrian'; did you mean 'retrain'"),
        ({"trainingTimeout": 0}, r"trainingTimeout must be at least 1, got 0"),
        ({"experts": 0}, r"experts must be at least 1, got 0"),
        ({"batchSize": 0}, r"batchSize must be at least 1, got 0"),
        ({"classCounts": []}, r"classCounts must be a list of increasing positive integers, got \[\]"),
        ({"classCounts": [2, 1]}, r"classCounts must be a list of increasing positive integers, got \[2, 1\]"),
        ({"classCounts": [0, 1]}, r"classCounts must be a list of increasing positive integers, got \[0, 1\]"),
        ({"draws": 0}, r"draws must be at least 1, got 0"),
        ({"holdout": 1.0}, r"holdout must be a number from 0.01 to 1, without 1, got 1.0"),
        ({"oracleRows": 0}, r"oracleRows must be at least 1, got 0"),
        ({"maxRows": 1}, r"maxRows must be at least 2, got 1"),
        ({"inputCols": ["a"]}, r"inputCols.*did you mean 'inputCol'"),
        ({"oracle": "vgg61"}, r"oracle.*vgg61.*did you mean 'vgg16'"),
        ({"oracle": 3}, r"oracle must be .*, got int"),
        ({"compact": "vgg61"}, r"compact\[0\].*vgg61"),
        ({"compact": [3]}, r"compact\[0\] must be .*, got int"),
    ],
)
def test_a_wrong_parameter_is_refused(spark: SparkSession, params: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, CerebroError), match=message):
        SpecializedClassifier(**params)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, r"oracle must be set, got none\. Call setOracle\."),
        ({"oracle": "squeezenet1_1"}, r"compact must be set, got none\. Call setCompact\."),
        ({"oracle": "squeezenet1_1", "compact": []}, r"compact must be set, got none\. Call setCompact\."),
        ({"inputCol": "frames"}, r"train has no column 'frames'; did you mean 'frame'"),
        ({"labelCol": "lable"}, r"train has no column 'lable'; did you mean 'label'"),
        ({"labelCol": "frame"}, r"column 'frame' of train must be a string, a number or a boolean, got binary"),
        ({"inputCol": "number"}, r"column 'number' of .* must be an image.*got double"),
        ({"compact": featurizer(layers=["fire3", "fire5"])}, r"layers must be one layer, got fire3, fire5"),
    ],
)
def test_fit_refuses_before_a_job(photos: DataFrame, no_job: NoJob, params: dict[str, Any], message: str) -> None:
    settings = {} if "oracle" in params or not params else {"oracle": "squeezenet1_1", "compact": featurizer()}
    train = photos.selectExpr("*", "1.5D AS number")
    with no_job(), pytest.raises(CerebroError, match=message):
        SpecializedClassifier(**(settings | params)).fit(train)


def test_fit_refuses_a_stream(spark: SparkSession, no_job: NoJob) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("X'00' AS frame", "value AS label")
    with no_job(), pytest.raises(CerebroError, match="train must be a table, got a stream"):
        SpecializedClassifier(oracle="squeezenet1_1", compact=featurizer()).fit(stream)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"orderCol": "time"}, r"frames has no column 'time'"),
        ({"groupCol": "cameras"}, r"frames has no column 'cameras'; did you mean 'camera'"),
        ({"orderCol": "camera"}, r"column 'camera' must be a number or a timestamp, got string"),
        ({"orderCol": "pair"}, r"column 'pair' must be a number or a timestamp, got array<int>"),
        ({"modelCol": "prediction"}, r"outputCol, modelCol, phaseCol, confidenceCol and errorCol must differ"),
        ({"outputCol": "t"}, r"column 't' exists already: set another name"),
        ({"errorCol": "pair"}, r"column 'pair' exists already: set another name"),
    ],
)
def test_transform_refuses_before_a_job(
    spark: SparkSession, no_job: NoJob, params: dict[str, Any], message: str
) -> None:
    frames = spark.createDataFrame([("a", 1.0, 1, [1])], "camera string, t double, frame long, pair array<int>")
    model = coded_model()
    model = model.copy({model.getParam(name): value for name, value in params.items()})
    with no_job(), pytest.raises(ColumnError, match=message):
        model.transform(frames)

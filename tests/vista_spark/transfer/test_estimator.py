"""``FeatureTransfer`` as an Estimator: one table in, a model out, and as a stage of a ``Pipeline``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from photographs import crops, encode
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import StringIndexer

from vista_spark import FeatureTransfer, FeatureTransferModel
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 24


@pytest.fixture(scope="module")
def joined(spark: SparkSession) -> DataFrame:
    rows = [
        (number, "cat" if label else "dog", float(left), float(top), encode(picture))
        for number, (label, left, top, picture) in enumerate(crops(ROWS, side=64))
    ]
    return spark.createDataFrame(rows, "key long, kind string, left double, top double, photo binary").cache()


def transfer(**settings: Any) -> FeatureTransfer:
    defaults: dict[str, Any] = {
        "model": "squeezenet1_1",
        "layers": ["fire3", "fire5"],
        "downstream": LogisticRegression(maxIter=2),
        "on": "key",
        "feature_columns": ["left", "top"],
        "label_column": "label",
        "image_column": "photo",
        "test_fraction": 0.3,
        "image_size": 64,
        "progress": False,
        "seed": 4,
    }
    return FeatureTransfer(**defaults | settings)


@pytest.mark.connect_slow
def test_a_transfer_is_a_stage_of_a_pipeline(joined: DataFrame, tmp_path: Path) -> None:
    stages = [StringIndexer(inputCol="kind", outputCol="label"), transfer()]
    fitted = Pipeline(stages=stages).fit(joined)
    model = fitted.stages[1]
    assert isinstance(model, FeatureTransferModel)
    assert model.uid == stages[1].uid
    assert model.result is not None
    assert {row.name for row in model.result.layers} == {"fire3", "fire5"}
    assert model.result.train_rows + model.result.test_rows == ROWS

    indexed = fitted.stages[0].transform(joined)
    by_hand = transfer().run(indexed.select("key", "label", "left", "top"), joined.select("key", "photo"))
    assert model.result.best_score == by_hand.best_score
    predicted = {row["key"]: row["prediction"] for row in fitted.transform(joined).collect()}
    expected = {row["key"]: row["prediction"] for row in by_hand.best_model.transform(joined).collect()}
    assert predicted == expected

    fitted.save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert loaded.stages[1].result is None
    assert loaded.stages[1].uid == model.uid
    assert {row["key"]: row["prediction"] for row in loaded.transform(joined).collect()} == expected


def test_params_of_the_downstream_model_reach_a_copy() -> None:
    task = transfer()
    twin = task.copy({task.downstream.regParam: 0.5})
    assert isinstance(twin, FeatureTransfer)
    assert (twin.model, twin.layers, twin.uid) == (task.model, task.layers, task.uid)
    assert (twin.downstream.getRegParam(), task.downstream.getRegParam()) == (0.5, 0.0)


def test_wrong_columns_are_named_before_a_job(joined: DataFrame) -> None:
    with pytest.raises(ColumnError, match=r"FeatureTransfer has no column 'lefts'.*did you mean 'left'"):
        transfer(label_column="top", feature_columns=["lefts"]).fit(joined)


def test_it_is_the_model_that_is_saved(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="save the model of fit"):
        transfer().save(str(tmp_path / "transfer"))


@pytest.mark.parametrize(
    ("former", "today"),
    [("featuresCol", "feature_columns"), ("labelCol", "label_column"), ("imageCol", "image_column")],
)
def test_former_keywords_are_hinted_at(joined: DataFrame, former: str, today: str) -> None:
    with pytest.raises(TypeError, match=f"no parameter '{former}'; did you mean '{today}'"):
        transfer().run(joined, joined, **{former: "left"})
    with pytest.raises(TypeError, match=f"no parameter '{former}'; did you mean '{today}'"):
        transfer(**{former: "left"})

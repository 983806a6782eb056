"""A search as a stage of a Spark ML pipeline: an Estimator, and its result a Model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.ml import Estimator, Model, Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import functions as F
from searches import FEATURES, adult, search

from cerebro_spark import Selection, TunedModel
from cerebro_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return adult(spark, 300).cache()


@pytest.fixture(scope="module")
def fitted(spark: SparkSession, table: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> PipelineModel:
    assembler = VectorAssembler(inputCols=FEATURES, outputCol="assembled")
    stage = search(
        spark,
        tmp_path_factory.mktemp("store"),
        feature_columns=["assembled"],
        search_space={"lr": [0.01], "hidden": [4, 8]},
        num_epochs=1,
    )
    return Pipeline(stages=[assembler, stage]).fit(table)


def predictions(model: Model, table: DataFrame) -> list[float]:
    return [row["prediction"] for row in model.transform(table).select("prediction").collect()]


def test_a_search_is_a_stage_of_a_pipeline(fitted: PipelineModel, table: DataFrame) -> None:
    selection = fitted.stages[1]
    assert isinstance(selection, Selection)
    assert isinstance(selection, Model)
    found = predictions(fitted, table)
    assert set(found) <= {0.0, 1.0}
    assembled = fitted.stages[0].transform(table)
    assert found == predictions(selection.best_model, assembled)
    assert found == predictions(selection.copy(), assembled)
    assert selection.best_params == selection.best.params
    assert selection.best_score == selection.best.metric
    assert selection.best_params in [{"lr": 0.01, "hidden": 4}, {"lr": 0.01, "hidden": 8}]


def test_what_a_pipeline_saves_is_the_best_model(fitted: PipelineModel, table: DataFrame, tmp_path: Path) -> None:
    fitted.write().overwrite().save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert isinstance(loaded.stages[1], TunedModel)
    assert predictions(loaded, table) == predictions(fitted, table)
    fitted.stages[1].save(str(tmp_path / "alone"))
    assert TunedModel.load(str(tmp_path / "alone")).getPredictionCol() == "prediction"


def test_a_search_is_an_estimator_without_params(spark: SparkSession, table: DataFrame, tmp_path: Path) -> None:
    stage = search(spark, tmp_path)
    assert isinstance(stage, Estimator)
    assert stage.params == []
    again = stage.copy({VectorAssembler.outputCol: "x"})
    assert (again.uid, again.configurations, again.metric) == (stage.uid, stage.configurations, "accuracy")
    with pytest.raises(InvalidArgumentError, match=r"GridSearch has no Params.*search_space"):
        stage.fit(table, {VectorAssembler.outputCol: "x"})
    stage.num_epochs = 0
    with pytest.raises(InvalidArgumentError, match="num_epochs must be a positive integer, got 0"):
        stage.fit(table)
    assert not list(tmp_path.iterdir())


def test_rows_that_cannot_be_learned_from_are_counted_in_a_warning(
    spark: SparkSession, table: DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    holed = table.limit(40).withColumn("age", F.when(F.col("hours_per_week") < 0.5, F.col("age")))
    holes = holed.where("age is null").count()
    assert 0 < holes < 40
    with caplog.at_level(logging.WARNING, logger="cerebro_spark"):
        prepared = search(spark, tmp_path).prepare(holed)
    assert prepared.rows("train") + prepared.rows("validation") == 40 - holes
    (message,) = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert f"null in 'age': {holes} rows" in message

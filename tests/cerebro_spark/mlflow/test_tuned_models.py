"""Tuned models as models of MLflow, and searches that log themselves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

mlflow = pytest.importorskip("mlflow")

from pyspark.ml import PipelineModel
from pyspark.ml.functions import vector_to_array
from pyspark.sql import functions as F
from searches import FEATURES, adult, search
from sessions import CONNECT
from stages import numbers, tuned_model

import cerebro_spark
import cerebro_spark.mlflow
from cerebro_spark import TunedModel
from cerebro_spark.callbacks import Callback
from cerebro_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from cerebro_spark import Store
    from cerebro_spark.callbacks import EpochFinished


@pytest.fixture
def _tuned(tracking: Any, tmp_path: Path) -> Iterator[None]:
    """Make an experiment the active one, and end autologging."""
    tracking.create_experiment("tuned", artifact_location=(tmp_path / "mlruns").as_uri())
    tracking.set_experiment("tuned")
    yield
    cerebro_spark.autolog(disable=True)


@pytest.mark.skipif(CONNECT, reason="spark_udf of MLflow asks the classic session for its settings")
def test_a_model_gives_the_rows_of_the_stage(spark: SparkSession, tmp_path: Path) -> None:
    stage, df = tuned_model(), numbers(spark, 5)
    expected = stage.transform(df).sort("id").collect()
    cerebro_spark.mlflow.save_model(stage, tmp_path / "model")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert loaded.metadata.get_output_schema().input_names() == ["guess", "chance", "scores", "error"]
    frame = df.sort("id").toPandas()[["numbers"]]
    frame["numbers"] = [vector.toArray() for vector in frame["numbers"]]
    found = loaded.predict(frame)
    udf = mlflow.pyfunc.spark_udf(spark, str(tmp_path / "model"), env_manager="local")
    plain = df.select("id", vector_to_array("numbers").alias("numbers"))
    in_spark = plain.select("id", udf(F.struct("numbers")).alias("p")).select("id", "p.*").sort("id").collect()
    assert found["guess"].tolist() == [row["guess"] for row in expected] == [row["guess"] for row in in_spark]
    for place, row in enumerate(expected):
        for got in (found["chance"][place], in_spark[place]["chance"]):
            assert np.allclose(got, row["chance"].toArray(), atol=1e-6)
        assert found["error"][place] == ""
        assert in_spark[place]["error"] == ""
    example = loaded.predict(loaded.input_example)
    assert list(example["error"]) == [""], "an array of the network's own size"
    short = frame.assign(numbers=[np.zeros(3)] * 5)
    assert loaded.predict(short)["guess"].isna().all()
    assert set(loaded.predict(short)["error"]) == {"tensor of another size"}


class Watcher(Callback):
    """Asks the server, after the first epoch, what it has got by then."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.statuses: set[str] = set()
        self.asked = threading.Event()

    def epoch_finished(self, event: EpochFinished) -> None:
        if event.epoch == 0:
            client = mlflow.MlflowClient()
            runs = client.search_runs([client.get_experiment_by_name("tuned").experiment_id])
            self.statuses = {run.info.status for run in runs if "mlflow.parentRunId" in run.data.tags}
            self.seen = [
                (metric.key, metric.step)
                for run in runs
                for name in run.data.metrics
                for metric in client.get_metric_history(run.info.run_id, name)
            ]
            self.asked.set()


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="MLflow's Spark flavour needs classic Spark")
@pytest.mark.usefixtures("_tuned")
def test_the_stage_is_logged_in_the_spark_flavour_as_the_guide_says(spark: SparkSession) -> None:
    stage, df = tuned_model(), numbers(spark, 5)
    with mlflow.start_run():
        info = mlflow.spark.log_model(PipelineModel(stages=[stage]), "spark_model", pip_requirements=["numpy"])
    scored = mlflow.spark.load_model(info.model_uri).transform(df).sort("id").collect()
    assert scored == stage.transform(df).sort("id").collect()


@pytest.mark.usefixtures("_tuned")
def test_a_search_logs_itself_below_the_active_run(spark: SparkSession, store: Store) -> None:
    watcher = Watcher()
    cerebro_spark.autolog(registered_model_name="income")
    df = adult(spark, 400)
    with mlflow.start_run() as outer:
        mlflow.log_param("mine", 1)
        selection = search(spark, store, search_space={"lr": [0.01], "hidden": [8]}, callbacks=[watcher]).fit(df)
        assert mlflow.active_run().info.run_id == outer.info.run_id
    assert watcher.asked.is_set()
    shown = selection._repr_html_()
    assert (
        f"<th>trial</th><th>lr</th><th>hidden</th><th>status</th><th>epoch</th><th>{selection.spec.metric}</th>"
        in shown
    )
    assert f"<td>0.01</td><td>8</td><td>finished</td><td>2</td><td>{selection.best.metric:.4g}</td>" in shown
    assert "training units" in shown, "the course of the run is folded away below the table"
    assert ("val_accuracy", 0) in watcher.seen, "metrics come while the run goes on"
    client = mlflow.MlflowClient()
    runs = client.search_runs([outer.info.experiment_id])
    parents = {run.info.run_id: run.data.tags.get("mlflow.parentRunId") for run in runs}
    (parent,) = [run for run, above in parents.items() if above == outer.info.run_id]
    (child,) = [run for run, above in parents.items() if above == parent]
    assert client.get_run(parent).info.status == client.get_run(child).info.status == "FINISHED"
    assert [metric.step for metric in client.get_metric_history(child, "val_accuracy")] == [0, 1]
    client.set_registered_model_alias("income", "champion", 1)
    loaded = mlflow.pyfunc.load_model("models:/income@champion")
    rows = df.limit(20).toPandas()
    expected = selection.transform(spark.createDataFrame(rows)).toPandas()["prediction"]
    assert loaded.predict(rows[FEATURES])["prediction"].tolist() == expected.tolist()
    cerebro_spark.autolog(disable=True)
    search(spark, store, search_space={"lr": [0.01], "hidden": [8]}, num_epochs=1).fit(df)
    assert len(client.search_runs([outer.info.experiment_id])) == len(runs), "off is off"


def test_what_has_no_flavour_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="str is no tuned model"):
        cerebro_spark.mlflow.save_model("churn", tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="log_models=False"):
        cerebro_spark.autolog(log_models=False, registered_model_name="churn")
    tagger = TunedModel(b"", {"kind": "tags", "label": "tags", "inputs": [], "threshold": 0.0})
    with pytest.raises(InvalidArgumentError, match="'tags' is a class for each token"):
        cerebro_spark.mlflow.save_model(tagger, tmp_path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    cerebro_spark.mlflow.save_model(tuned_model(), tmp_path / "model")
    loaded: Any = cerebro_spark.mlflow._load_pyfunc(str(tmp_path / "model" / "data" / "model"))
    with pytest.raises(ColumnError, match=r"the input must have column 'numbers', .*did you mean"):
        loaded.predict({"number": [[1.0] * 4]})

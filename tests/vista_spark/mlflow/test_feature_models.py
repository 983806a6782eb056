"""Featurizers as models of MLflow give the rows of the stage: loaded in this process, and in Spark's workers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

mlflow = pytest.importorskip("mlflow")

import torch
from photographs import crops, encode
from pyspark.ml import PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import functions as F
from sessions import CONNECT
from stages import tuned_model
from texts import TOKENIZERS, tiny_bert

import vista_spark.mlflow
from vista_spark import CNNFeaturizer, OcclusionExplainer, TextFeaturizer, TransferPredictor
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.transfer import PredictorInputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def _features(tracking: Any, tmp_path: Path) -> None:
    tracking.create_experiment("features", artifact_location=(tmp_path / "mlruns").as_uri())
    tracking.set_experiment("features")


def own_network() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
        ).eval()


@pytest.mark.usefixtures("_features")
@pytest.mark.skipif(CONNECT, reason="spark_udf of MLflow asks the classic session for its settings")
def test_a_model_gives_the_rows_of_the_stage(spark: SparkSession) -> None:
    stage = CNNFeaturizer(
        model=own_network(), imageSize=32, layers=["0", "3"], pooling="mean", outputCols=["low", "high"], batchSize=3
    ).setOutputFormat("array")
    pictures = [encode(picture) for *_, picture in crops(4, side=48)]
    rows = [*enumerate(pictures), (4, b"no image"), (5, None)]
    df = spark.createDataFrame(rows, "id long, image binary")
    expected = stage.transform(df).sort("id").collect()
    with mlflow.start_run():
        info = vista_spark.mlflow.log_model(stage, "features", registered_model_name="photo_features")
    mlflow.MlflowClient().set_registered_model_alias("photo_features", "best", 1)
    loaded = mlflow.pyfunc.load_model("models:/photo_features@best")
    assert info.signature.inputs.input_names() == ["image"]
    found = loaded.predict(df.sort("id").toPandas()[["image"]])
    udf = mlflow.pyfunc.spark_udf(spark, info.model_uri, env_manager="local")
    in_spark = (
        df.repartition(2).select("id", udf(F.struct("image")).alias("f")).select("id", "f.*").sort("id").collect()
    )
    for place, row in enumerate(expected):
        for name in ("low", "high"):
            for got in (found[name][place], in_spark[place][name]):
                assert (got is None) == (row[name] is None), (place, name)
                assert row[name] is None or np.allclose(got, row[name], atol=1e-5), (place, name)
        assert found["error"][place] == in_spark[place]["error"] == (row["image_error"] or "")


def test_an_example_is_stored_and_runs(tmp_path: Path) -> None:
    stage = CNNFeaturizer(model=own_network(), imageSize=32, layers=["3"], outputCols=["f"])
    vista_spark.mlflow.save_model(stage, tmp_path / "model")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    found = loaded.predict(loaded.input_example)
    assert list(found["error"]) == [""]
    assert len(found["f"][0]) == 4
    own = pd.DataFrame({"image": [b"mine"]})
    vista_spark.mlflow.save_model(stage, tmp_path / "other", input_example=own)
    assert mlflow.pyfunc.load_model(str(tmp_path / "other")).input_example["image"][0] == b"mine"


@pytest.mark.extended
def test_mlflow_serves_it(tmp_path: Path) -> None:
    """With the request that MLflow stored beside the model, and with no image for an image."""
    stage = CNNFeaturizer(model=own_network(), imageSize=32, layers=["3"], outputCols=["f"])
    vista_spark.mlflow.save_model(stage, tmp_path / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(tmp_path / "model"), *options]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # MLflow starts its server by name
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env=os.environ | {"PATH": path}
        )
        try:
            asked = (tmp_path / "model" / "serving_input_example.json").read_bytes()
            good = answer_of(port, asked, server)
            (bad,) = answer_of(port, json.dumps({"dataframe_records": [{"image": "bm8gaW1hZ2U="}]}).encode(), server)
        except AssertionError as error:
            raise AssertionError(f"{error}: {(tmp_path / 'log').read_text()[-2000:]}") from error
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_allclose(good[0]["f"], loaded.predict(loaded.input_example)["f"][0], atol=1e-6)
    assert good[0]["error"] == ""
    assert "not a JPEG" in bad["error"]


def answer_of(port: int, body: bytes, server: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Post to MLflow's server once it listens."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/invocations", body, {"Content-Type": "application/json"})
    for _ in range(240):
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:  # of this machine
                predictions: list[dict[str, Any]] = json.load(reply)["predictions"]
                return predictions
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the server does not listen")


def test_a_transfer_predicts_as_its_best_model(spark: SparkSession, tmp_path: Path) -> None:
    """The rows that it cannot predict have the reasons of ``transfer_error``."""
    rows = [
        (number, float(label), float(left), encode(picture))
        for number, (label, left, _, picture) in enumerate(crops(8, side=48))
    ]
    rows += [(8, 0.0, None, rows[0][3]), (9, 0.0, 1.0, b"no image"), (10, 0.0, 1.0, None)]
    df = spark.createDataFrame(rows, "id long, label double, left double, image binary")
    featurizer = CNNFeaturizer(
        model=own_network(), imageSize=32, layers=["3"], outputCols=["f"], errorCol="transfer_error", errors="null"
    )
    known = featurizer.transform(df.where("id < 8")).drop("transfer_error")
    assembled = VectorAssembler(inputCols=["left", "f"], outputCol="transfer_features").transform(known)
    downstream = LogisticRegression(featuresCol="transfer_features", maxIter=5, regParam=0.01).fit(assembled)
    inputs = PredictorInputs(structured=("left",), structured_size=1, image="f", image_size=4, example=(1.0,))
    best = PipelineModel([featurizer, TransferPredictor(downstream, inputs)])
    expected = best.transform(df).sort("id").collect()
    vista_spark.mlflow.save_model(best, tmp_path / "model")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert loaded.metadata.get_input_schema().input_names() == ["left", "image"]
    assert list(loaded.predict(loaded.input_example)["error"]) == [""]
    found = loaded.predict(df.sort("id").toPandas()[["left", "image"]])
    assert len({row["prediction"] for row in expected}) == 3, "both classes, and rows without one"
    for place, row in enumerate(expected):
        assert found["error"][place] == (row["transfer_error"] or "")
        assert found["prediction"][place] == row["prediction"], place
        if row["prediction"] is not None:
            assert np.allclose(found["probability"][place], row["probability"].toArray(), atol=1e-5)


def test_an_explainer_gives_the_heat_maps_of_the_stage(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame([(0, encode(next(crops(1, side=64))[-1])), (1, b"no image")], "id long, image binary")
    explainer = OcclusionExplainer(model="squeezenet1_1", imageSize=64, patchSize=32, stride=32, seed=5)
    with pytest.raises(InvalidArgumentError, match="OcclusionExplainer has no Python-function flavour here"):
        vista_spark.mlflow.save_model(explainer, tmp_path / "model")
    stage = explainer.fit(df)
    good, bad = stage.transform(df).sort("id").collect()
    vista_spark.mlflow.save_model(stage, tmp_path / "model")
    found = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(df.sort("id").toPandas()[["image"]])
    assert np.allclose(found["heat_map"][0], good["heat_map"].toArray(), atol=1e-5)
    assert found["target"][0] == good["explanation"]["target"]
    assert (found["rows"][0], found["columns"][0]) == (2, 2)
    assert found["heat_map"][1] is None
    assert list(found["error"]) == ["", bad["image_error"]]


@pytest.mark.slow
@pytest.mark.skipif(not TOKENIZERS, reason="texts need torch and tokenizers: pip install 'cerebro-spark[torch]'")
def test_texts_and_a_combination(spark: SparkSession, tmp_path: Path) -> None:
    tiny_bert()
    stage = TextFeaturizer(model="tiny_bert", layers=["layer1", "layer3"], combine="sum", outputCols=["both"])
    vista_spark.mlflow.save_model(stage, tmp_path / "model")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    df = spark.createDataFrame([(0, "the cat sat"), (1, "bonds rose")], "id long, text string")
    expected = [row["both"].toArray() for row in stage.transform(df).sort("id").collect()]
    assert np.allclose(
        np.stack(loaded.predict(df.sort("id").toPandas()[["text"]])["both"]), np.stack(expected), atol=1e-5
    )


def test_what_has_no_flavour_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"TunedModel has no Python-function flavour.*cerebro_spark\.mlflow"):
        vista_spark.mlflow.save_model(tuned_model(), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match='got "drop"'):
        vista_spark.mlflow.save_model(CNNFeaturizer(model="squeezenet1_1", errors="drop"), tmp_path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    stage = CNNFeaturizer(model=own_network(), imageSize=32, layers=["3"], outputCols=["f"])
    vista_spark.mlflow.save_model(stage, tmp_path / "model")
    with pytest.raises(ColumnError, match="must have a column 'image', got picture"):
        vista_spark.mlflow._load_pyfunc(str(tmp_path / "model" / "data" / "model")).predict(
            pd.DataFrame({"picture": [b""]})
        )

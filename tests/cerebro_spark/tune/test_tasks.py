"""The task of a search: its labels, metrics, directions and predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from searches import search
from sklearn import metrics as reference
from sklearn.metrics import f1_score

from cerebro_spark import METRICS, Metric, ModelTrainer, Store, TunedModel, metric
from cerebro_spark.errors import InvalidArgumentError, TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

XS = ["x0", "x1", "x2"]


def absolute_error(outputs: Any, labels: Any) -> Any:
    return np.abs(outputs[:, 0] - labels)


def mae(outputs: Any, labels: Any) -> Any:
    return np.abs(outputs[:, 0] - labels)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=(200, 3))
    table = pd.DataFrame(x, columns=XS).assign(value=x[:, 0] - x[:, 1], other=x[:, 2])
    table["sign"] = np.where(table.value > 0, 1.0, -1.0)
    table["several"] = [[int(number > 0) for number in row] for row in x]
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("tasks"))


def trainer_fn(loss: Any, outputs: int = 1, metrics: Any = ()) -> Callable[[dict[str, Any]], ModelTrainer]:
    def make(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Linear(len(XS), outputs)
        optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
        return ModelTrainer(model=net, optimizer=optimizer, loss=loss, metrics=metrics)

    return make


def tried(spark: SparkSession, folder: str, frame: pd.DataFrame, labels: list[str], **settings: Any) -> Any:
    usual = {"search_space": {"lr": [0.05]}, "feature_columns": XS, "label_columns": labels, "metric": "loss"}
    grid = search(spark, Store.from_uri(folder), **usual | settings)
    return grid.fit(spark.createDataFrame(frame))


@pytest.mark.parametrize("label", ["sign", "several"])
def test_the_model_predicts_in_the_encoding_of_the_labels(
    spark: SparkSession, folder: str, frame: pd.DataFrame, label: str, tmp_path: Any
) -> None:
    loss, outputs = (torch.nn.SoftMarginLoss(), 1) if label == "sign" else (torch.nn.BCEWithLogitsLoss(), 3)
    found = tried(spark, folder, frame, [label], trainer_fn=trainer_fn(loss, outputs, ["f1"]), metric="f1")
    kind = "binary, labels -1/+1" if label == "sign" else "multilabel, labels multi-hot"
    assert f"task: {kind} of {label!r}, {outputs} output" in found.explain()
    found.best_model.write().save(str(tmp_path / "model"))
    scored = TunedModel.load(str(tmp_path / "model")).transform(spark.createDataFrame(frame)).toPandas()
    raw = np.stack([vector.toArray() for vector in scored.rawPrediction])
    said, truth = np.array(scored.prediction.tolist()), np.array(scored[label].tolist())
    chances = np.stack([vector.toArray() for vector in scored.probability])
    if label == "sign":
        np.testing.assert_array_equal(said, np.where(raw[:, 1] > 0, 1, -1))
        np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-raw[:, 1])))
        assert f1_score(truth, said) == pytest.approx(f1_score(truth > 0, raw[:, 1] > 0))
    else:
        np.testing.assert_array_equal(said, (raw > 0).astype(float))
        np.testing.assert_allclose(chances, 1 / (1 + np.exp(-raw)))
    assert set(np.unique(said)) <= set(np.unique(truth))


def test_a_direction_has_to_be_stated(spark: SparkSession, folder: str, frame: pd.DataFrame) -> None:
    settings = {"trainer_fn": trainer_fn(torch.nn.MSELoss(), metrics=[absolute_error]), "metric": "absolute_error"}
    with pytest.raises(InvalidArgumentError, match="mode must be given for the metric 'absolute_error'"):
        tried(spark, folder, frame, ["value"], **settings)


def test_inputs_that_nothing_reads(spark: SparkSession, folder: str, frame: pd.DataFrame) -> None:
    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 1)

        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return self.linear(first)

    def make(params: dict[str, Any]) -> ModelTrainer:
        net = First()
        optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.MSELoss())

    columns = {"first": XS[:2], "second": XS[2:]}
    with pytest.raises(TrainerError, match="feature_columns must be read by the network, got the input 'second'"):
        tried(spark, folder, frame, ["value"], trainer_fn=make, feature_columns=columns)


def test_directions_of_metrics() -> None:
    assert metric(mae).larger_is_better is False, "it has the name of a metric"
    assert metric(absolute_error).larger_is_better is None
    assert metric(absolute_error, maximize=False).larger_is_better is False
    own = Metric("own", METRICS["mse"].part, METRICS["mse"].result, larger_is_better=None)
    assert metric(own, maximize=True).larger_is_better is True
    assert metric("accuracy", maximize=False).larger_is_better is False
    assert metric(reference.r2_score).larger_is_better is True


def test_labels_that_nothing_reads(spark: SparkSession, folder: str, frame: pd.DataFrame) -> None:
    message = "label_columns must have one column for each of the 1 losses.*got 2 labels and 1 outputs"
    with pytest.raises(TrainerError, match=message):
        tried(spark, folder, frame, ["value", "other"], trainer_fn=trainer_fn(torch.nn.MSELoss()))

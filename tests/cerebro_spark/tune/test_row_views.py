"""A search whose configurations read different inputs of the same shards."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pyspark import cloudpickle

from cerebro_spark import GridSearch, InputColumns, ModelTrainer, SparkBackend, Store, TunedModel

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WIDTHS = {"label": 2, "noise": 3}


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Linear(WIDTHS[params["layer"]], 2)
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=0.1),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        view=InputColumns([params["layer"]]),
    )


def test_the_input_to_read_is_a_hyperparameter(spark: SparkSession, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 80).tolist()
    rows = [([float(y), 1.0 - y], random.normal(size=3).tolist(), y) for y in labels]
    df = spark.createDataFrame(rows, "label array<double>, noise array<double>, y int")
    search = GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(tmp_path / "store")),
        trainer_fn=trainer,
        search_space={"layer": ["noise", "label"]},
        num_epochs=6,
        feature_columns=["label", "noise"],
        label_columns=["y"],
        metric="accuracy",
        progress=False,
    )
    selection = search.fit(df)
    assert [trial.status for trial in selection.trials] == ["finished", "finished"]
    assert selection.best_params == {"layer": "label"}
    assert selection.best.history[-1]["val_accuracy"] == 1.0
    selection.best_model.save(str(tmp_path / "model"))
    model = TunedModel.load(str(tmp_path / "model"))
    assert [group.name for group in model.inputs] == ["label"]
    found = model.transform(df.drop("noise")).select("y", "prediction").collect()
    assert [row["prediction"] for row in found] == [row["y"] for row in found]

"""A search whose models are in files of a local disk gives the results of a search in memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pyspark import cloudpickle

from cerebro_spark import DiskOffload, GridSearch, ModelTrainer, SparkBackend, Store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def trainer(offload: DiskOffload | None) -> Any:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.Linear(4, 300), torch.nn.Dropout(0.1), torch.nn.Linear(300, 80))
        net.append(torch.nn.Linear(80, 2))
        adam = torch.optim.Adam(net.parameters(), lr=params["lr"])
        return ModelTrainer(
            model=net, optimizer=adam, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], offload=offload
        )

    return trainer_fn


def test_a_search_with_models_in_files(spark: SparkSession, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = [(random.normal(size=4).tolist(), int(y)) for y in random.integers(0, 2, 80)]
    df = spark.createDataFrame(rows, "x array<double>, y int")
    folder = tmp_path / "scratch"
    folder.mkdir()
    selections = [
        GridSearch(
            backend=SparkBackend(spark, num_workers=2, threads=1),
            store=Store.from_uri(str(tmp_path / "store")),
            trainer_fn=trainer(offload),
            search_space={"lr": [0.01, 0.001]},
            num_epochs=2,
            schedule="fixed",
            feature_columns=["x"],
            label_columns=["y"],
            metric="accuracy",
            progress=False,
        ).fit(df)
        for offload in (None, DiskOffload(folder))
    ]
    memory, disk = selections
    assert [trial.status for trial in disk.trials] == ["finished", "finished"]
    # The digests of the checkpoints after every unit.
    assert [trial.digests for trial in disk._trials] == [trial.digests for trial in memory._trials]
    assert [trial.history for trial in disk.trials] == [trial.history for trial in memory.trials]
    predictions = [each.best_model.transform(df).select("prediction").collect() for each in selections]
    assert predictions[0] == predictions[1]
    assert list(folder.iterdir()) == []

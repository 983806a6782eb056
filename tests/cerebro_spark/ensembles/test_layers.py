"""Images pass the network once, and each configuration of a search names the layer that it reads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from photographs import crops, encode
from pyspark import cloudpickle
from pyspark.ml import PipelineModel

from cerebro_spark import GridSearch, InputColumns, ModelTrainer, SparkBackend, Store
from vista_spark import CNNFeaturizer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WIDTHS = {"early": 8, "late": 16}


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Linear(WIDTHS[params["layer"]], 2)
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=0.05),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=8,
        view=InputColumns([params["layer"]]),
    )


def test_layers_are_compared_and_combined(spark: SparkSession, tmp_path: Path) -> None:
    torch.manual_seed(0)
    first = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.ReLU())
    body = torch.nn.Sequential(first, torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, stride=2), torch.nn.ReLU()))
    rows = [(number, label, encode(image)) for number, (label, _, _, image) in enumerate(crops(40, side=64))]
    images = spark.createDataFrame(rows, "id long, label long, image binary")
    featurizer = CNNFeaturizer(
        model=body, layers=["0", "1"], outputCols=["early", "late"], pooling="mean", inputCol="image", imageSize=32
    )
    layers = featurizer.transform(images).select("label", "early", "late")
    search = GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(tmp_path / "store")),
        trainer_fn=trainer,
        search_space={"layer": ["early", "late"]},
        num_epochs=2,
        feature_columns={"early": ["early"], "late": ["late"]},
        label_columns=["label"],
        metric="accuracy",
        test_fraction=0.5,
        progress=False,
    )
    selection = search.fit(layers)
    assert {trial.params["layer"]: trial.status for trial in selection.trials} == {
        "early": "finished",
        "late": "finished",
    }
    # Members that read different layers, in a pipeline from the images on.
    ensemble = selection.ensemble(2, replace=False)
    assert set(ensemble.members.layer) == {"early", "late"}
    PipelineModel(stages=[featurizer, ensemble]).save(str(tmp_path / "pipeline"))
    found = PipelineModel.load(str(tmp_path / "pipeline")).transform(images).toPandas()
    alone = [selection.model(trial.trial_id).transform(layers.select("early", "late")) for trial in selection.trials]
    expected = np.mean([np.stack(each.toPandas()["probability"]) for each in alone], axis=0)
    np.testing.assert_allclose(np.stack(found["probability"]), expected, atol=1e-4)

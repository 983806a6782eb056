"""A transfer of a user's own network, from the module to a saved model in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from photographs import crops, encode
from pyspark.ml.regression import LinearRegression

torch = pytest.importorskip("torch")
from torch import nn

from udfs.testing import transform_in_new_process
from vista_spark import FeatureTransfer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 6, 5, 3), nn.BatchNorm2d(6), nn.ReLU()),
        nn.Conv2d(6, 8, 3, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


def test_the_transfer_of_a_module(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        (number, float(number % 3), float(label), encode(picture))
        for number, (label, _, _, picture) in enumerate(crops(16, side=40))
    ]
    df = spark.createDataFrame(rows, "id long, size double, label double, image binary")
    net = network().train()
    transfer = FeatureTransfer(
        model=net, layers=[-1, "1"], downstream=LinearRegression(), image_size=32, plan="staged", progress=False,
        feature_columns=["size"], pooling="mean",
    )  # fmt: skip
    said = transfer.explain()
    assert "Sequential: nothing says how its images are prepared; assumed is ImageNet's" in said
    model = transfer.fit(df)
    assert model.result is not None
    assert [layer.name for layer in model.result.layers] == ["1", "4"]
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())
    expected = {row["id"]: row["prediction"] for row in model.transform(df).collect()}
    model.save(str(tmp_path / "model"))
    df.write.parquet(str(tmp_path / "rows"))
    transform_in_new_process(tmp_path / "rows", {tmp_path / "model": tmp_path / "out"})
    found = {row["id"]: row["prediction"] for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), atol=1e-4)

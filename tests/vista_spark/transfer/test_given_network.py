"""A transfer of a user's own network, from the module to a saved model in another process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode
from places import ROOT
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


@pytest.mark.extended
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


def test_the_guide_opens_with_a_users_own_network_in_five_lines(spark: SparkSession) -> None:
    guide = (ROOT / "docs" / "feature_transfer.md").read_text()
    code = re.search(r"```python\n(.*?)```", guide, re.DOTALL)
    assert code is not None
    lines = [line for line in code[1].splitlines() if line]
    assert len(lines) <= 5
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)  # the guide's own
    images = spark.createDataFrame([(encode(picture),) for _, _, _, picture in crops(3, side=40)], "image binary")
    for row in names["featurizer"].transform(images).collect():
        assert row["image_error"] is None
        top, bottom = (row[f"Sequential_{layer}"].toArray() for layer in (2, 0))
        # Of the convolution the largest values of four quarters, of the pooling the mean of what ReLU lets through.
        assert top.shape == (8,)
        assert bottom.shape == (32,)
        assert (top <= np.maximum(bottom.reshape(8, 4).max(1), 0)).all()
        assert (top > 0).any()

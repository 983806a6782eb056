"""Stages saved with their networks: what lies beside them, and that it is enough."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode

torch = pytest.importorskip("torch")
from torch import nn

from udfs.images import Preprocessing
from udfs.testing import transform_in_new_process
from udfs.weights import WeightsError
from vista_spark import CNNFeaturizer, OcclusionExplainer, roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.roster import ModelCard

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

PIXELS = Preprocessing(crop=32, resize=36)


def network() -> nn.Module:
    """A user's own network: a class that no other process has, and weights outside of its state dict."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU())
            self.layer4 = nn.Conv2d(8, 16, 3, 2)
            self.scale = torch.full((4,), 2.0)
            self.hidden = nn.Linear(16, 4)
            self.head = nn.Linear(4, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.hidden(self.layer4(self.stem(images)).mean((2, 3))) * self.scale)

    return Net()


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    rows = [(number, encode(picture)) for number, (_, _, _, picture) in enumerate(crops(5, side=40))]
    return spark.createDataFrame(rows, "id long, image binary")


def rows_of(df: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in df.collect()), key=lambda row: row["id"])


def assert_same(one: DataFrame, other: DataFrame, columns: list[str]) -> None:
    ours, theirs = rows_of(one), rows_of(other)
    assert len(ours) == len(theirs) > 0
    for mine, yours in zip(ours, theirs, strict=True):
        for column in columns:
            np.testing.assert_allclose(mine[column], yours[column], atol=1e-5, err_msg=column)


@pytest.mark.extended
@pytest.mark.slow
def test_a_given_network_loads_in_a_process_that_never_heard_of_it(
    df: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    net = network().train()
    stage = CNNFeaturizer(model=net, layers=[-1, "layer4", "stem.0"], imageSize=32, pooling="mean")
    assert stage.getOutputCols() == ["Net_stem_0", "Net_layer4", "Net_head"]
    expected = stage.transform(df)
    stage.save(str(tmp_path / "stage"))
    df.write.parquet(str(tmp_path / "rows"))
    transform_in_new_process(tmp_path / "rows", {tmp_path / "stage": tmp_path / "out"})
    assert_same(spark.read.parquet(str(tmp_path / "out")), expected, stage.getOutputCols())
    assert not [file for file in (tmp_path / "stage").rglob("*") if file.suffix in {".pkl", ".pickle", ".pt"}]
    assert net.training


def test_the_stage_has_the_weights_that_the_network_had(df: DataFrame, tmp_path: Path) -> None:
    net = network()
    stage = CNNFeaturizer(model=net, imageSize=32, outputFormat="array")
    before = rows_of(stage.transform(df))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.5)
    assert rows_of(stage.transform(df)) == before
    later = rows_of(CNNFeaturizer(model=net, imageSize=32, outputFormat="array").transform(df))
    assert not np.allclose(later[0]["Net_head"], before[0]["Net_head"])
    stage.save(str(tmp_path / "stage"))
    loaded = CNNFeaturizer.load(str(tmp_path / "stage"))
    assert np.allclose(rows_of(loaded.transform(df))[0]["Net_head"], before[0]["Net_head"], atol=1e-5)
    # A stage that was loaded is saved again, and copied.
    loaded.copy({loaded.outputFormat: "array"}).save(str(tmp_path / "again"))
    again = CNNFeaturizer.load(str(tmp_path / "again"))
    assert np.allclose(rows_of(again.transform(df))[0]["Net_head"], before[0]["Net_head"], atol=1e-5)
    with pytest.raises(InvalidArgumentError, match="saved for images of 32 px, not of 48 px"):
        again.setImageSize(48).transform(df)


@pytest.mark.usefixtures("spark")
def test_no_file_outside_of_a_saved_stage_is_read(tmp_path: Path) -> None:
    CNNFeaturizer(model=network(), imageSize=32).save(str(tmp_path / "stage"))
    metadata = tmp_path / "stage" / "metadata"
    (part,) = metadata.glob("part-*")
    text = part.read_text()
    assert "network.pt2" in text
    part.write_text(text.replace("network.pt2", "../network.pt2"))
    for checksum in metadata.glob(".*.crc"):
        checksum.unlink()
    with pytest.raises(InvalidArgumentError, match=r"a file of a saved stage.*'\.\./network\.pt2'"):
        CNNFeaturizer.load(str(tmp_path / "stage"))


def test_weights_of_a_file_are_saved_too(df: DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "squeezenet.pt"
    torch.save(roster.load("squeezenet1_1", seed=7).state_dict(), file)
    stage = CNNFeaturizer(model="squeezenet1_1", weights=file, layers=["fire3"], imageSize=64, pooling="mean")
    expected = rows_of(stage.transform(df))
    stage.save(str(tmp_path / "stage"))
    file.rename(tmp_path / "elsewhere.pt")
    loaded = CNNFeaturizer.load(str(tmp_path / "stage"))
    assert loaded.getWeights() == str(file)
    found = rows_of(loaded.transform(df))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one["squeezenet1_1_fire3"], other["squeezenet1_1_fire3"], atol=1e-5)
    # Weights that are set later are those of their path, and not there.
    with pytest.raises(WeightsError, match="is not there"):
        loaded.setWeights(str(tmp_path / "other.pt")).transform(df)
    with pytest.raises(WeightsError, match="is not there"):
        stage.transform(df)


@pytest.mark.usefixtures("spark")
def test_a_name_of_the_roster_keeps_its_small_form(tmp_path: Path) -> None:
    CNNFeaturizer(model="resnet18").save(str(tmp_path / "stage"))
    assert [entry.name for entry in (tmp_path / "stage").iterdir()] == ["metadata"]


def test_a_registered_network_is_saved_with_the_stage(df: DataFrame, tmp_path: Path, request: Any) -> None:
    def builder() -> nn.Module:
        stem, layer4 = nn.Conv2d(3, 8, 3, 2), nn.Conv2d(8, 16, 3, 2)
        pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return nn.Sequential(OrderedDict(stem=stem, layer4=layer4, pool=pooled, head=nn.Linear(16, 3)))

    roster.register(ModelCard("registered", builder, PIXELS, ("layer4", "head")))
    stage = CNNFeaturizer(model="registered", layers=1, seed=3, outputFormat="array")
    expected = rows_of(stage.transform(df))
    stage.save(str(tmp_path / "stage"))
    roster.unregister("registered")
    loaded = CNNFeaturizer.load(str(tmp_path / "stage"))
    assert (loaded.getModel(), loaded.getOutputCols()) == ("registered", ["registered_head"])
    for one, other in zip(rows_of(loaded.transform(df)), expected, strict=True):
        np.testing.assert_allclose(one["registered_head"], other["registered_head"], atol=1e-5)
    del request


def test_a_card_with_a_builder_of_the_roster_is_saved_as_data(df: DataFrame, tmp_path: Path) -> None:
    card = replace(roster.card("squeezenet1_1"), name="lean", preprocessing=PIXELS, layers=("features.3",))
    stage = CNNFeaturizer(model=card, seed=4, outputFormat="array")
    expected = rows_of(stage.transform(df))
    stage.save(str(tmp_path / "stage"))
    assert [entry.name for entry in (tmp_path / "stage").iterdir()] == ["metadata"]
    found = rows_of(CNNFeaturizer.load(str(tmp_path / "stage")).transform(df))
    np.testing.assert_allclose(found[0]["lean_features_3"], expected[0]["lean_features_3"], atol=1e-5)


def test_a_stage_names_no_builder_but_the_rosters(tmp_path: Path) -> None:
    card = replace(roster.card("squeezenet1_1"), name="lean")
    CNNFeaturizer(model=card).save(str(tmp_path / "stage"))
    (part,) = (tmp_path / "stage" / "metadata").glob("part-*")
    metadata = json.loads(part.read_text())
    metadata["carried"]["card"]["builder"]["type"] = "subprocess.Popen"
    part.write_text(json.dumps(metadata))
    for checksum in (tmp_path / "stage" / "metadata").glob(".*.crc"):
        checksum.unlink()
    with pytest.raises(InvalidArgumentError, match=r"'subprocess\.Popen', which is not the roster's"):
        CNNFeaturizer.load(str(tmp_path / "stage"))


def test_an_explainer_carries_its_network_too(df: DataFrame, tmp_path: Path) -> None:
    explainer = OcclusionExplainer(model=network(), imageSize=32, patchSize=8, stride=8, mode="naive")
    model = explainer.fit(df)
    expected = rows_of(model.transform(df))
    model.save(str(tmp_path / "model"))
    found = rows_of(type(model).load(str(tmp_path / "model")).transform(df))
    np.testing.assert_allclose(found[0]["heat_map"], expected[0]["heat_map"], atol=1e-5)


def test_a_large_file_is_saved_in_pieces(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vista_spark.network import _saved_stages  # to make its pieces small

    monkeypatch.setattr(_saved_stages, "_PIECE", 1000)
    files = {"a/one.bin": tmp_path / "one", "two.bin": tmp_path / "two", "none": tmp_path / "none"}
    contents = {"a/one.bin": np.random.default_rng(0).bytes(9_500), "two.bin": b"x", "none": b""}
    for name, path in files.items():
        path.write_bytes(contents[name])
    _saved_stages._write(spark, files, str(tmp_path / "table"))
    folder = _saved_stages._read(spark, str(tmp_path / "table"))
    assert {name: (folder / name).read_bytes() for name in files} == contents
    assert _saved_stages._read(spark, str(tmp_path / "table")) == folder
    outside = tmp_path / "outside"
    _saved_stages._write(spark, {"../../leak": tmp_path / "two"}, str(outside))
    with pytest.raises(InvalidArgumentError, match="outside of the stage"):
        _saved_stages._read(spark, str(outside))

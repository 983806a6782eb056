"""Catalogs of variants: built, measured, saved, and read by the stages that accept networks."""

from __future__ import annotations

import itertools
import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode

torch = pytest.importorskip("torch")
from torch import nn

from optimizer.approximate import Budget, Problem, Trace, simulate
from udfs.images import Preprocessing
from udfs.store import Store
from vista_spark import Cascade, roster
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError
from vista_spark.variants import (
    Catalog,
    Compile,
    Factorize,
    Narrow,
    Quantize,
    Resize,
    Tuning,
    build_catalog,
    read_catalog,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SIZE = 48


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    rows = [
        (number, "flower" if label else "china", encode(picture))
        for number, (label, _, _, picture) in enumerate(crops(40, side=64))
    ]
    return spark.createDataFrame([*rows, (99, "china", b"junk")], "id long, kind string, photo binary").cache()


def build(table: DataFrame, model: Any = "squeezenet1_1", **changed: Any) -> Catalog:
    settings: dict[str, Any] = {
        "train": table.where("id % 4 < 2"),
        "valid": table.where("id % 4 > 1"),
        "labelCol": "kind",
        "imageCol": "photo",
        "apply": [Quantize(8)],
        "image_size": SIZE,
        "tuning": Tuning(epochs=1),
    }
    return build_catalog(model, **{**settings, **changed})


@pytest.fixture(scope="module")
def catalog(table: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path = tmp_path_factory.mktemp("catalogs") / "photos"
    return build(table, path=path, apply=[Quantize(8), Factorize(0.25), Resize(32), Compile(8)], depth=1, task="photos")


def test_each_variant_is_built_and_measured(catalog: Catalog) -> None:
    names = {variant.name for variant in catalog}
    trained = ("", "32px", "rank0.25")
    suffixes = ("", "8bit", "onnx-int8")
    assert names == {"-".join(filter(None, parts)) or "full" for parts in itertools.product(trained, suffixes)}
    assert not catalog.failures
    full = catalog.full.measurement
    assert catalog.classes == ("china", "flower")
    assert full.rows == 20, "the image that cannot be decoded counts for nothing"
    assert full.accuracy > 0.7, "crops of two photographs differ at a glance, even for random weights"
    assert 0.24 < catalog["8bit"].measurement.stored_bytes / full.stored_bytes < 0.28
    assert catalog["rank0.25"].measurement.gflop < 0.6 * full.gflop
    assert catalog["32px"].measurement.gflop < 0.5 * full.gflop
    assert catalog["32px"].model.preprocessing.crop == 32
    for variant in catalog:
        fact = variant.measurement
        assert fact.low <= fact.accuracy <= fact.high
        assert fact.resident_bytes > 0
        assert set(fact.run_seconds) == {1, 16}


def test_stages_compute_the_accuracy_that_was_recorded(catalog: Catalog, table: DataFrame) -> None:
    valid = table.where("id % 4 > 1 and id < 90").repartition(1)
    for name in ("full", "32px", "rank0.25-8bit", "onnx-int8"):
        rows = catalog[name].featurizer(inputCol="photo").transform(valid).collect()
        hits = sum(catalog.classes[int(np.argmax(row["scores"]))] == row["kind"] for row in rows)
        assert hits / len(rows) == pytest.approx(catalog[name].measurement.accuracy)


def test_variants_are_members_of_a_cascade_and_tasks_of_a_schedule(catalog: Catalog, table: DataFrame) -> None:
    # Stated costs: a measured one could be that of a slow moment.
    cascade = Cascade(oracle=catalog.full, proxies=[catalog["32px"]], target=0.9, costs=[1.0, 10.0])
    photos = table.withColumnRenamed("photo", "image")
    rows = cascade.fit(photos).transform(photos.where("id < 40")).collect()
    assert {row["prediction"] for row in rows} <= {0.0, 1.0}
    task = catalog.scheduled_task(sent_bytes=1000)
    problem = Problem(
        (task,), Budget(joules=100.0, memory_bytes=2 * catalog.full.measurement.resident_bytes, dollars=0.01),
        Trace(arrivals=np.arange(10.0), tasks=np.zeros(10, np.int64)),
    )  # fmt: skip
    assert simulate(problem).total_accuracy > 0


def test_a_catalog_is_saved_and_read(catalog: Catalog, table: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    catalog.save(tmp_path / "copy")
    copy = read_catalog(tmp_path / "copy")
    assert [variant.measurement for variant in copy] == [variant.measurement for variant in catalog]
    image = torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    for name in ("full", "8bit", "rank0.25", "onnx-int8"):
        assert torch.equal(roster.load(copy[name].model)(image), roster.load(catalog[name].model)(image))
    with pytest.raises(InvalidArgumentError, match="new or empty folder"):
        catalog.save(tmp_path / "copy")
    again = copy.check(spark, table.where("id % 4 > 1"), labelCol="kind", imageCol="photo")
    assert set(again["variant"]) == {variant.name for variant in catalog}
    assert set(again["cost"]) == {"resident_bytes", "load_seconds", "run_seconds 1", "run_seconds 16", "accuracy"}
    accuracies = again[again["cost"] == "accuracy"]
    assert list(accuracies["measured"]) == pytest.approx(list(accuracies["recorded"]))
    assert (again["ratio"] > 0).all()
    resident = again[again["cost"] == "resident_bytes"]["ratio"]
    assert resident.between(0.5, 2).all()


def test_pictures_tables_and_words(catalog: Catalog) -> None:
    assert catalog.plot("memory", "latency", "storage").axes[0].get_ylabel() == "accuracy"
    assert next(iter(catalog.to_pandas()["name"])) == "full"
    assert "9 variants of photos, 20 validation rows" in catalog.explain()
    front = catalog.pareto("storage")
    assert [variant.measurement.stored_bytes for variant in front] == sorted(
        variant.measurement.stored_bytes for variant in front
    )
    with pytest.raises(InvalidArgumentError, match="did you mean '8bit'"):
        catalog["8bits"]
    with pytest.raises(InvalidArgumentError, match="measure must be one of"):
        catalog.plot("size")


def test_damaged_catalogs_are_refused(catalog: Catalog, tmp_path: Path) -> None:
    def damaged(name: str) -> Path:
        catalog.save(tmp_path / name)
        return tmp_path / name

    with pytest.raises(InvalidArgumentError, match="has no catalog"):
        read_catalog(tmp_path)
    place = damaged("newer")
    document = json.loads((place / "catalog.json").read_text())
    (place / "catalog.json").write_text(json.dumps(document | {"format": 2, "written_by": "9.0"}))
    with pytest.raises(InvalidArgumentError, match="Update cerebro-spark"):
        read_catalog(place)
    for name, text in {"no json": "{", "a list": "[]", "no variants": '{"format": 1}'}.items():
        place = damaged(name)
        (place / "catalog.json").write_text(text)
        with pytest.raises(InvalidArgumentError, match="is damaged"):
            read_catalog(place)
    place = damaged("changed weights")
    file = place / "weights" / "8bit.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(InvalidArgumentError, match=r"8bit\.safetensors of the variant 8bit differs"):
        read_catalog(place)
    file.unlink()
    with pytest.raises(InvalidArgumentError, match="which is missing"):
        read_catalog(place)
    document["variants"][0]["file"] = "../../secret"
    shutil.rmtree(place)
    place = damaged("outside")
    (place / "catalog.json").write_text(json.dumps(document))
    with pytest.raises(InvalidArgumentError, match="secret"):
        read_catalog(place)


class Residual(nn.Module):
    """A user's network with its own head, which no roster knows."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 5, 4)
        self.norm = nn.BatchNorm2d(8)
        self.block = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.stem(x)))
        x = torch.relu(x + self.block(x))
        return torch.softmax(self.head(x.mean((2, 3))), 1)


def test_a_users_network_keeps_its_head(table: DataFrame, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Residual().eval()
    card = roster.of(network, preprocessing=Preprocessing(crop=SIZE))
    made = build(table, card, apply=[Narrow(0.5), Quantize(16), Compile(32)], image_size=None, path=tmp_path / "mine")
    assert {variant.name for variant in made} == {
        *("full", "16bit", "onnx", "width0.5", "width0.5-16bit", "width0.5-onnx")
    }
    image = torch.rand(2, 3, SIZE, SIZE)
    again = read_catalog(tmp_path / "mine")
    for name in ("full", "onnx"):
        torch.testing.assert_close(roster.load(again[name].model)(image), network(image))
    assert again["width0.5"].measurement.gflop < made.full.measurement.gflop


def test_wrong_arguments_are_refused_before_anything_is_trained(
    table: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("there")
    single = table.where("kind = 'china'")
    nulls = spark.createDataFrame([(1, None, b"")], table.schema)
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ColumnError, "train has no column 'label'", {"labelCol": "label"}),
        (ColumnError, "must be an image", {"imageCol": "id"}),
        (InvalidArgumentError, "new or empty folder", {"path": tmp_path}),
        (InvalidArgumentError, "list of transformations", {"apply": ["8bit"]}),
        (LabelError, "2 to 10,000 classes, got 1", {"train": single, "valid": single}),
        (LabelError, "valid must have classes of train, got", {"train": table.replace("flower", "rose", "kind")}),
        (LabelError, "no null or NaN", {"valid": nulls}),
        (EmptyInputError, "valid must have rows", {"valid": table.where("id < 0")}),
        (InvalidArgumentError, "torch network that reads one image", {"model": "minilm_l6", "image_size": None}),
    ]
    for error, message, changed in cases:
        with pytest.raises(error, match=message):
            build(table, **changed)


def test_a_failed_build_leaves_its_folder_empty_for_another_one(table: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(EmptyInputError, match="valid must have images that can be decoded, got none"):
        build(table, apply=[Quantize(8)], valid=table.where("id = 99"), path=tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))
    assert not Store.from_uri(str(tmp_path)).list()


def test_variants_that_cannot_be_built_are_left_out_with_the_reason(table: DataFrame) -> None:
    made = build(table, apply=[Resize(8)], tuning=Tuning(epochs=1))
    assert [variant.name for variant in made] == ["full"]
    assert "8px" in made.failures

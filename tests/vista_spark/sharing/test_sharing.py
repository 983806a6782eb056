"""A trunk with an upper part per attribute: training on Spark, files, sessions of a server, handlers."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode
from pyspark import cloudpickle
from pyspark.sql import functions as F

from udfs.images import decode
from udfs.serving import NoSuchModelError
from vista_spark import CNNFeaturizer
from vista_spark.errors import (
    ColumnError,
    EmptyInputError,
    ExistingFileError,
    InvalidArgumentError,
    LabelError,
    UnknownLayerError,
)
from vista_spark.serving import Server
from vista_spark.sharing import Handlers, SharedModel, share
from vista_spark.sharing._attributes import learned_attributes

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SIZE = 16
LABELS = ["flower", "side", "third.part"]


class Net(torch.nn.Module):
    """A network whose pooled output the upper parts read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.conv = torch.nn.Conv2d(3, 6, 3, padding=1)
        self.pool = torch.nn.AdaptiveAvgPool2d(3)
        self.fc = torch.nn.Linear(54, 10)

    def forward(self, x: Any) -> Any:
        return self.fc(self.pool(torch.relu(self.conv(x))).flatten(1))


def table(spark: SparkSession, count: int, start: int = 0) -> DataFrame:
    rows = []
    for number, (label, left, _, picture) in enumerate(crops(count + start, side=48)):
        side = None if number % 5 == 0 else ("left" if left < 250 else "right")
        rows.append((encode(picture), bool(label), side, number % 3))
    rows.append((b"no image", True, "left", 1))
    return spark.createDataFrame(rows[start:], "image binary, flower boolean, side string, `third.part` int")


@pytest.fixture(scope="module")
def train(spark: SparkSession) -> DataFrame:
    return table(spark, 60).repartition(2).cache()


@pytest.fixture(scope="module")
def valid(spark: SparkSession) -> DataFrame:
    return table(spark, 40, start=20).cache()


@pytest.fixture(scope="module", autouse=True)
def _small_batches() -> Iterator[None]:
    """Train by several batches in an epoch, so that the order of the rows matters."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("vista_spark.sharing._share._BATCH", 16)
        yield


@pytest.fixture(scope="module")
def shared(train: DataFrame, valid: DataFrame) -> SharedModel:
    return share(Net().eval(), train=train, valid=valid, labelCols=LABELS, imageSize=SIZE, stepSize=0.05)


def outputs(shared: SharedModel, images: list[bytes]) -> np.ndarray:
    """Run the network by torch alone up to the layer."""
    net, reads = Net().eval(), CNNFeaturizer(model=Net().eval(), imageSize=SIZE).open_network().preprocessing
    batch = torch.tensor(np.stack([decode(image, reads) for image in images]))
    with torch.inference_mode():
        return net.pool(torch.relu(net.conv(batch))).flatten(1).numpy()


def test_predictions_are_the_upper_parts_over_the_trunk_run_by_torch(shared: SharedModel, valid: DataFrame) -> None:
    rows = shared.transform(valid).collect()
    good = [row for row in rows if row["image_error"] is None]
    assert len(rows) == 41
    assert len(good) == 40
    assert [row["flower_prediction"] for row in rows if row["image_error"]] == [None]
    features = outputs(shared, [bytes(row["image"]) for row in good])
    for name, classes in zip(LABELS, [(False, True), ("left", "right"), (0, 1, 2)], strict=True):
        assert shared[name].classes == classes
        best = shared.head(name)(features).argmax(axis=1)
        assert [row[f"{name}_prediction"] for row in good] == [classes[place] for place in best]
    types = dict(shared.transform(valid).dtypes)
    assert [types[column] for column in shared.outputCols] == ["boolean", "string", "int"]


def test_accuracy_is_that_of_a_separately_trained_pipeline(
    shared: SharedModel, train: DataFrame, valid: DataFrame
) -> None:
    """Equal heads have equal accuracy, and the accuracy is the share of labelled rows that are right."""
    alone = share(Net().eval(), train=train, valid=valid, labelCols=["flower"], imageSize=SIZE, stepSize=0.05)
    np.testing.assert_allclose(alone.head("flower").weight, shared.head("flower").weight, atol=1e-4)
    assert alone["flower"].accuracy == shared["flower"].accuracy > 0.8
    rows = shared.transform(valid).where("image_error is null and side is not null").collect()
    assert shared["side"].valid_rows == len(rows)
    assert shared["side"].accuracy == pytest.approx(np.mean([row["side"] == row["side_prediction"] for row in rows]))
    low, high = shared["side"].interval
    assert low < shared["side"].accuracy < high


def test_nulls_count_for_the_other_attributes_only(shared: SharedModel) -> None:
    assert [attribute.train_rows for attribute in shared.attributes] == [61, 49, 61]


def test_parts_say_what_they_read_and_cost(shared: SharedModel) -> None:
    trunk, *heads = shared.parts
    assert (trunk.name, trunk.reads) == ("trunk", ())
    assert {part.reads for part in heads} == {("trunk",)}
    assert trunk.nbytes == 4 * 6 * (3 * 9 + 1)
    assert heads[2].nbytes == 4 * 3 * (54 + 1)
    assert heads[2].flops == 2 * 3 * 54
    text = shared.explain()
    assert "third.part <- trunk: accuracy" in text
    assert "cost of all against one: 1.0" in text


def test_a_saved_model_predicts_the_same(shared: SharedModel, valid: DataFrame, tmp_path: Path) -> None:
    shared.save(tmp_path / "saved")
    loaded = SharedModel.load(tmp_path / "saved")
    assert loaded.attributes == shared.attributes
    assert loaded.parts == shared.parts
    found, expected = (model.transform(valid).select(*map(quoted, shared.outputCols)) for model in (loaded, shared))
    assert found.collect() == expected.collect()
    facts = json.loads((tmp_path / "saved" / "shared.json").read_text())
    assert [part["reads"] for part in facts["parts"]] == [[], ["trunk"], ["trunk"], ["trunk"]]
    with pytest.raises(ExistingFileError, match="folder must be new"):
        shared.save(tmp_path / "saved")


def quoted(name: str) -> str:
    return f"`{name}`"


def test_damaged_and_newer_folders_are_refused(shared: SharedModel, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    shared.save(saved)
    facts = json.loads((saved / "shared.json").read_text())

    def damaged(name: str, change: Any) -> Path:
        folder = tmp_path / name
        shutil.copytree(saved, folder)
        change(folder)
        return folder

    def newer(folder: Path) -> None:
        (folder / "shared.json").write_text(json.dumps(facts | {"format": 2}))

    def flip(folder: Path) -> None:
        file = folder / "heads" / "1.safetensors"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)

    def outside(folder: Path) -> None:
        (folder / "shared.json").write_text(json.dumps(facts | {"parts": [{"files": {"../secret": ""}}]}))

    def unlisted(folder: Path) -> None:
        parts = [part | {"files": {}} for part in facts["parts"]]
        (folder / "shared.json").write_text(json.dumps(facts | {"parts": parts}))

    cases = {
        "newer": (newer, "format 1 or below, got 2"),
        "flipped": (flip, "must have the SHA-256"),
        "missing": (lambda folder: (folder / "heads" / "0.safetensors").unlink(), "must have the parts"),
        "no json": (lambda folder: (folder / "shared.json").write_text("{"), "one that SharedModel.save wrote"),
        "outside": (outside, "must lie in the folder"),
        "unlisted": (unlisted, "must have the parts"),
    }
    for name, (change, message) in cases.items():
        with pytest.raises(InvalidArgumentError, match=message):
            SharedModel.load(damaged(name, change))


def test_wrong_arguments_are_refused_before_a_job(train: DataFrame, valid: DataFrame, no_job: Any) -> None:
    def refused(labels: Any, **options: Any) -> None:
        with no_job():
            share(Net().eval(), **{"train": train, "valid": valid, "imageSize": SIZE, **options}, labelCols=labels)

    number = train.withColumn("size", F.lit(1.5))
    with pytest.raises(ColumnError, match="hat"):
        refused(["hat"])
    with pytest.raises(ColumnError, match="each once"):
        refused(["flower", "flower"])
    with pytest.raises(ColumnError, match="at least one column"):
        refused([])
    with pytest.raises(LabelError, match="boolean, integer or string, got double for 'size'"):
        refused(["size"], train=number)
    with pytest.raises(LabelError, match="string collate UNICODE_CI for 'side'"):
        refused(["side"], train=train.withColumn("side", F.collate("side", "UNICODE_CI")))
    with pytest.raises(LabelError, match="got binary for 'image'"):
        refused(["image"])
    with pytest.raises(ColumnError, match="same types in train and valid"):
        refused(["flower"], valid=valid.withColumn("flower", F.lit(1)))
    with pytest.raises(ColumnError, match="photo"):
        refused(["flower"], inputCol="photo")
    with pytest.raises(ColumnError, match="'image' of valid must be an image"):
        refused(["flower"], valid=valid.withColumn("image", F.lit(1)))
    with pytest.raises(InvalidArgumentError, match="maxIter must be"):
        refused(["flower"], maxIter=0)
    with pytest.raises(UnknownLayerError, match="attic"):
        refused(["flower"], layer="attic")


def test_labels_of_one_class_and_tables_without_images_are_refused(train: DataFrame, valid: DataFrame) -> None:
    def refused(**options: Any) -> None:
        tables = {"train": train, "valid": valid} | options
        share(Net().eval(), **tables, labelCols=["flower", "side"], imageSize=SIZE, maxIter=1)

    with pytest.raises(LabelError, match="at least two classes each in train, got only True in 'flower'"):
        refused(train=train.where("flower"))
    with pytest.raises(LabelError, match="got none in 'side'"):
        refused(train=train.withColumn("side", F.lit(None).cast("string")))
    with pytest.raises(EmptyInputError, match="train must have rows with a readable image"):
        refused(train=train.withColumn("image", F.lit(b"no image")))
    with pytest.raises(InvalidArgumentError, match="stepSize must be small enough"):
        refused(stepSize=1e30)
    with pytest.raises(EmptyInputError, match="label in 'side', got none"):
        refused(valid=valid.where("side is null"))


def test_classes_are_counted_up_to_a_limit(train: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver collects no more labels than the limit, and the column with too many is named."""
    kinds = {"flower": "boolean", "third.part": "int", "side": "string"}
    attributes = learned_attributes(train, kinds)
    for attribute, name in zip(attributes, kinds, strict=True):
        counts = Counter(row[0] for row in train.select(quoted(name)).collect() if row[0] is not None)
        assert attribute.classes == tuple(sorted(counts))
        assert attribute.train_rows == counts.total()
        assert counts[attribute.majority] == max(counts.values())
    monkeypatch.setattr("vista_spark.sharing._attributes._MOST_CLASSES", 2)
    numbers = train.sparkSession.range(0, 100).select(F.lit(True).alias("flower"), F.col("id").alias("number"))
    with pytest.raises(LabelError, match="at most 2 classes each, got more in 'number'"):
        learned_attributes(numbers, {"flower": "boolean", "number": "bigint"})


@pytest.fixture(scope="module")
def photographs() -> list[bytes]:
    return [encode(picture) for _, _, _, picture in crops(4, side=48)]


def test_handlers_get_each_attribute_of_one_pass(
    spark: SparkSession, shared: SharedModel, photographs: list[bytes]
) -> None:
    server = Server(spark, backends=1)
    for session in shared.sessions(slo_ms=60_000):
        server.deploy(session)
    assert len(server.plan().nodes) == 1
    features = outputs(shared, photographs)
    calls: list[tuple[str, str, Any]] = []
    done = threading.Event()

    def app(name: str) -> Any:
        def handler(attribute: str, answer: Any) -> None:
            calls.append((name, attribute, answer.result().label))
            if len(calls) == 2 * len(LABELS) * len(photographs):
                done.set()
            raise RuntimeError("a handler that fails harms no other")

        return handler

    with server.start() as api:
        handlers = Handlers(api)
        with pytest.raises(InvalidArgumentError, match="none yet"):
            handlers.dispatch("image", photographs[0])
        for name in ("first", "second"):
            handlers.register("image", shared, app(name))
        with pytest.raises(InvalidArgumentError, match="handler must be a function"):
            handlers.register("image", shared, None)  # type: ignore[arg-type]
        answers = [handlers.dispatch("image", photograph) for photograph in photographs]
        for place, answer in enumerate(answers):
            assert list(answer) == LABELS
            for name in LABELS:
                label, probability = answer[name].result(120)
                scores = torch.tensor(shared.head(name)(features[place : place + 1]))
                assert label == shared[name].classes[int(scores.argmax())]
                assert probability == pytest.approx(float(scores.softmax(1).max()), abs=1e-3)
        assert done.wait(30)
        asked = {name: count for (name, result), count in api.counts.items() if result == "answered"}
        assert asked == dict.fromkeys(LABELS, len(photographs)), "an attribute of two applications is asked once"
    assert {name for name, _, _ in calls} == {"first", "second"}
    assert len(calls) == 2 * len(LABELS) * len(photographs)


def test_a_catalog_that_is_not_deployed_cannot_be_registered(shared: SharedModel) -> None:
    class Nothing:
        def __getitem__(self, name: str) -> Any:
            raise NoSuchModelError(name)

    with pytest.raises(NoSuchModelError):
        Handlers(Nothing()).register("image", shared, print)  # type: ignore[arg-type]

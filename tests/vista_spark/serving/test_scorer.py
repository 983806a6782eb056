"""A deployed model over the rows of tables and streams: the featurizer's rows, and a live model's answers."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from pyspark import cloudpickle
from pyspark.sql import functions as F
from sessions import CONNECT

from optimizer.serving import BatchingProfile
from udfs.serving import NoSuchModelError, TensorSpec
from vista_spark import Cascade, CNNFeaturizer
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.serving import Api, Server, Session

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from torch import nn

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SLO = 60_000
SECONDS = 120.0
SIZE = 16
PROFILE = BatchingProfile({1: 5.0, 8: 8.0})
INPUTS = [TensorSpec("x", "float32", (-1, 2))]


def picky(arrays: Any) -> Any:
    """Fail below zero; say who computes, and at what priority."""
    if (arrays["x"] < 0).any():
        raise ValueError("below zero")
    count = len(arrays["x"])
    niceness = np.full(count, os.getpriority(os.PRIO_PROCESS, 0))
    return {"y": 2 * arrays["x"], "n": np.full(count, count), "niceness": niceness}


def triple(arrays: Any) -> Any:
    return {"y": 3 * arrays["x"]}


def small() -> nn.Module:
    torch.manual_seed(0)
    trunk = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten()]
    return torch.nn.Sequential(*trunk, torch.nn.Linear(32, 3)).eval()


def photograph(seed: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return small()


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    file: Path = tmp_path_factory.mktemp("heads") / "head.safetensors"
    safetensors_torch.save_file(torch.nn.Linear(32, 2).state_dict(), file)
    return file


@pytest.fixture(scope="module")
def api(spark: SparkSession, network: nn.Module, head: Path) -> Iterator[Api]:
    server = Server(spark, backends=1, store=str(head.parent / "store"))
    server.deploy(Session("picky", model=picky, inputs=INPUTS, profile=PROFILE, slo_ms=SLO))
    server.deploy(Session("dogs", model=network, image_size=SIZE, profile=PROFILE, slo_ms=SLO))
    server.deploy(Session("cats", model=network, head=head, image_size=SIZE, profile=PROFILE, slo_ms=SLO))
    with server.start(timeout_s=600.0) as running:
        yield running


@pytest.fixture(scope="module")
def photos(spark: SparkSession) -> DataFrame:
    rows = [(number, photograph(number)) for number in range(5)]
    rows[2] = (2, b"no image at all")
    rows[3] = (3, None)
    return spark.createDataFrame(rows, "id int, image binary").coalesce(1)


@pytest.mark.connect_slow
def test_rows_are_those_of_the_featurizer(api: Api, photos: DataFrame, network: nn.Module) -> None:
    featurizer = CNNFeaturizer(
        model=network, imageSize=SIZE, layers=[1], outputCols=["dogs"], errorDetailCol="why", device="cpu"
    )
    own = featurizer.transform(photos)
    scored = photos.transform(api.scorer("dogs", inputCol="image", errorDetailCol="why"))
    assert scored.dtypes == own.dtypes  # metadata of the features marks the stage
    rows = scored.orderBy("id").collect()
    assert rows == own.orderBy("id").collect()
    assert [row["image_error"] for row in rows] == [
        None,
        None,
        "not a JPEG, PNG, WEBP, GIF, BMP or TIFF image",
        "null",
        None,
    ]
    assert rows[3]["dogs"] is None
    live = api["dogs"].execute(photograph(4)).result(SECONDS)
    np.testing.assert_allclose(rows[4]["dogs"].toArray(), live, rtol=1e-5, atol=1e-6)


def test_a_head_s_scores_and_rows_that_are_dropped(api: Api, photos: DataFrame) -> None:
    scorer = api.scorer("cats", outputCol="score", errors="drop", outputFormat="array", batchSize=2)
    scored = scorer.transform(photos.repartition(2))
    assert scored.columns == ["id", "image", "score"]
    rows = {row["id"]: row["score"] for row in scored.collect()}
    assert sorted(rows) == [0, 1, 4]
    for number, score in rows.items():
        live = api["cats"].execute(photograph(number)).result(SECONDS)
        np.testing.assert_allclose(score, live, rtol=1e-5, atol=1e-6)


def test_a_bad_row_ends_the_job_where_it_is_asked_to(api: Api, photos: DataFrame) -> None:
    with pytest.raises(Exception, match="not a JPEG, PNG, WEBP, GIF, BMP or TIFF image"):
        api.scorer("dogs", errors="raise").transform(photos).collect()


@pytest.mark.connect_slow
def test_a_function_and_its_bad_rows(api: Api, spark: SparkSession) -> None:
    values = [[1.0, 2.0], [-1.0, 2.0], None, [3.0], [4.0, None], [5.0, 6.5], [float("nan"), 1.0]]
    table = spark.createDataFrame([(n, value) for n, value in enumerate(values)], "id int, x array<double>")
    scorer = api.scorer("picky", errorDetailCol="why", batchSize=4)
    scored = scorer.transform(table.coalesce(1)).orderBy("id")
    assert scored.columns == ["id", "x", "picky_y", "picky_n", "picky_niceness", "picky_error", "why"]
    rows = scored.collect()
    assert [row["picky_error"] for row in rows] == [
        None,
        "the model failed",
        "null",
        "not an input of the model",
        "null",
        None,
        "not an input of the model",
    ]
    assert rows[1]["why"] == "ValueError: below zero"
    assert rows[3]["why"] == "Input 'x' must have the shape (-1, 2), got (1, 1)."
    assert rows[0]["picky_y"].toArray().tolist() == [2, 4]
    assert rows[5]["picky_y"].toArray().tolist() == [10, 13]
    assert rows[0]["picky_n"] == 1, "a batch that fails is run again a row at a time"
    if sys.platform == "linux":
        assert {rows[0]["picky_niceness"], rows[5]["picky_niceness"]} == {19}


def test_numbers_that_the_model_does_not_hold_are_no_other_numbers(spark: SparkSession, api: Api) -> None:
    table = spark.range(16_777_216, 16_777_218).select(F.array(F.lit(1).cast("long"), "id").alias("x"))
    errors = [row["picky_error"] for row in api.scorer("picky").transform(table.coalesce(1)).collect()]
    assert errors == [None, "not an input of the model"]


@pytest.mark.connect_slow
def test_a_stream_is_scored_as_its_table(api: Api, spark: SparkSession, photos: DataFrame, tmp_path: Path) -> None:
    photos.write.parquet(str(tmp_path / "photos"))
    scorer = api.scorer("dogs", outputFormat="array")
    stream = spark.readStream.schema(photos.schema).parquet(str(tmp_path / "photos"))
    query = (
        stream.transform(scorer)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(240)
    assert spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect() == (
        scorer.transform(photos).orderBy("id").collect()
    )


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"name": "dog"}, NoSuchModelError, "did you mean 'dogs'"),
        ({"errors": "ignore"}, InvalidArgumentError, r"errors must be .*, got 'ignore'"),
        ({"batchSize": 0}, InvalidArgumentError, r"batchSize must be .*, got 0"),
        ({"inputCol": "a", "inputCols": ["b"]}, InvalidArgumentError, "Set one of them"),
        ({"inputCols": ["a", "b"]}, InvalidArgumentError, "a column name for each of"),
        ({"outputCols": []}, InvalidArgumentError, "a column name for each of"),
    ],
)
def test_arguments_are_checked(api: Api, options: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        api.scorer(**{"name": "dogs"} | options)


def test_columns_are_checked_before_a_job(api: Api, photos: DataFrame) -> None:
    with pytest.raises(ColumnError, match="no column 'picture'"):
        api.scorer("dogs", inputCol="picture").transform(photos)
    with pytest.raises(ColumnError, match="'id' exists already"):
        api.scorer("dogs", outputCol="id").transform(photos)
    with pytest.raises(ColumnError, match=r"column 'id' of the scorer.*must be an image.*got int"):
        api.scorer("dogs", inputCol="id").transform(photos)


@pytest.mark.skipif(CONNECT, reason="there a function of foreachBatch runs in the server's process")
def test_each_micro_batch_has_the_version_of_its_beginning(api: Api, spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        rows = spark.range(0, 4, 1, 1).select(F.array(F.lit(1.0), F.lit(2.0)).alias("x"))
        rows.write.mode("append").parquet(str(tmp_path / "rows"))
    found: list[tuple[str, Any]] = []

    def score(batch: DataFrame, _: int) -> None:
        scorer = api.scorer("picky", outputFormat="array")
        if scorer.version == "1":
            # While this micro-batch is scored: it keeps its version.
            api.deploy(Session("picky", model=triple, inputs=INPUTS, profile=PROFILE, slo_ms=SLO, version="2"))
        first = scorer.outputCols[0]
        found.append((scorer.version, {tuple(row[first]) for row in batch.transform(scorer).collect()}))

    stream = spark.readStream.schema("x array<double>").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
    query = stream.writeStream.foreachBatch(score).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    assert found == [("1", {(2.0, 4.0)}), ("2", {(3.0, 6.0)})]


def test_a_scorer_is_the_oracle_of_a_cascade(api: Api, spark: SparkSession) -> None:
    oracle = api.scorer("dogs", inputCol="image")
    photographs = spark.createDataFrame([(number, photograph(number)) for number in range(30)], "id long, image binary")
    kinds = {row["id"]: int(row["dogs"].toArray().argmax()) for row in oracle.transform(photographs).collect()}
    # The proxy knows the even rows, and guesses wrongly at the others.
    guesses = [
        (
            number,
            photograph(number),
            np.eye(3)[kind].tolist() if number % 2 == 0 else np.roll([0.34, 0.33, 0.33], kind + 1).tolist(),
        )
        for number, kind in kinds.items()
    ]
    rows = spark.createDataFrame(guesses, "id long, image binary, guess array<double>")
    model = Cascade(oracle=oracle, proxies=["guess"], target=0.9, delta=0.3, costs=[1.0, 9.0]).fit(rows)
    answers = {row["id"]: row for row in model.transform(rows).collect()}
    assert {number: row["prediction"] for number, row in answers.items()} == kinds
    assert {number for number, row in answers.items() if row["answered_by"] == "oracle"} == set(range(1, 30, 2))
    with pytest.raises(InvalidArgumentError, match="models of a saved CascadeModel must be Spark ML stages"):
        model.write()

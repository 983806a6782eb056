"""Petastorm reads a prepared dataset, and prepare reads petastorm's: where petastorm is installed."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import crops, encode
from PIL import Image
from sessions import CONNECT

from cerebro_spark.data import petastorm_frame, prepare
from cerebro_spark.errors import MissingPackageError
from udfs.shards import load_shard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from udfs.store import Store

ROWS = 30
SIDE = 12


@pytest.fixture
def quiet() -> Iterator[None]:
    """petastorm uses what pyarrow and setuptools have deprecated since."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("petastorm", reason='pip install "petastorm==0.12.1" on the set of constraints-compat.txt')
        yield


@pytest.mark.contract
@pytest.mark.usefixtures("quiet")
def test_petastorm_reads_what_is_prepared(spark: SparkSession, store: Store) -> None:
    from petastorm import make_batch_reader

    rows = spark.range(ROWS).selectExpr(
        "id", "id / 2 as half", "array(array(id, 1.5D), array(2D, id)) as window", "array(id, id + 1) as tokens"
    )
    prepared = prepare(rows, store, feature_columns=["half", "window", "tokens"], label_columns=["id"], num_shards=2)
    seen: list[int] = []
    for split in ("train", "validation"):
        with make_batch_reader(prepared.url(split), reader_pool_type="dummy", shuffle_row_groups=False) as reader:
            for batch in reader:
                assert (batch.half.dtype, batch.id.dtype) == (np.float32, np.int64)
                windows = np.stack(list(batch.window)).reshape(-1, 2, 2)
                np.testing.assert_array_equal(batch.half, batch.id.astype(np.float32) / 2)
                np.testing.assert_array_equal(windows[:, 1, 1], batch.id)
                assert (windows[:, 0, 1] == 1.5).all()
                np.testing.assert_array_equal(np.stack(list(batch.tokens))[:, 1], batch.id + 1)
                seen += batch.id.tolist()
    assert sorted(seen) == list(range(ROWS))


@pytest.mark.contract
@pytest.mark.usefixtures("quiet")
def test_petastorm_reads_prepared_images(spark: SparkSession, store: Store) -> None:
    from petastorm import make_batch_reader

    rows = [(number, encode(image, "PNG")) for number, (*_, image) in enumerate(crops(8, SIDE))]
    prepared = prepare(
        spark.createDataFrame(rows, "id int, photo binary"),
        store,
        feature_columns=["photo"],
        label_columns=["id"],
        num_shards=1,
        test_fraction=0,
        image_size=SIDE,
    )
    pictures = [np.asarray(image).transpose(2, 0, 1) for *_, image in crops(8, SIDE)]
    with make_batch_reader(prepared.url("train"), reader_pool_type="dummy") as reader:
        for batch in reader:
            for number, pixels in zip(batch.id, batch.photo, strict=True):
                assert pixels.dtype == np.uint8
                np.testing.assert_array_equal(pixels.reshape(3, SIDE, SIDE), pictures[number])


@pytest.mark.contract
@pytest.mark.skipif(CONNECT, reason="petastorm materialises by classic Spark alone")
@pytest.mark.usefixtures("quiet")
def test_what_petastorm_materialised_is_prepared(
    spark: SparkSession, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
    from petastorm.etl.dataset_metadata import materialize_dataset
    from petastorm.unischema import Unischema, UnischemaField
    from pyspark.sql.types import LongType

    # Its images take OpenCV to be encoded; here Pillow encodes them.
    monkeypatch.setattr("petastorm.codecs.OPENCV_AVAILABLE", True)
    schema = Unischema(
        "Readings",
        [
            UnischemaField("id", np.int64, (), ScalarCodec(LongType()), False),
            UnischemaField("window", np.float32, (2, 3), NdarrayCodec(), False),
            UnischemaField("counts", np.uint8, (4,), CompressedNdarrayCodec(), True),
            UnischemaField("photo", np.uint8, (SIDE, SIDE, 3), CompressedImageCodec("png"), False),
        ],
    )
    pictures = [np.asarray(image) for *_, image in crops(ROWS, SIDE)]

    def row(number: int) -> dict[str, Any]:
        window = (np.arange(6, dtype=np.float32) + number).reshape(2, 3)
        counts = None if number == 7 else np.full(4, 200 + number % 50, np.uint8)
        return {"id": np.int64(number), "window": window, "counts": counts, "photo": pictures[number]}

    def coded(number: int) -> tuple[Any, ...]:
        values = row(number)
        photo = bytearray(encode(Image.fromarray(values["photo"]), "PNG"))
        return tuple(
            photo if name == "photo" else None if values[name] is None else field.codec.encode(field, values[name])
            for name, field in schema.fields.items()
        )

    url = (tmp_path / "dataset").as_uri()
    with materialize_dataset(spark, url, schema, 1):
        rows = [coded(number) for number in range(ROWS)]
        spark.createDataFrame(rows, schema.as_spark_schema()).write.parquet(url)
    prepared = prepare(
        petastorm_frame(spark, url),
        store,
        feature_columns=["window", "counts", "photo"],
        label_columns=["id"],
        num_shards=1,
        test_fraction=0,
        image_size=SIDE,
        errors="drop",
    )
    assert prepared.dropped == {"null in 'counts'": 1}
    found = load_shard(prepared, "train", 0)
    assert sorted(found.labels[0].tolist()) == [number for number in range(ROWS) if number != 7]
    for number, *tensors in zip(found.labels[0].tolist(), *found.inputs, strict=True):
        expected = row(number)
        np.testing.assert_array_equal(tensors[0], expected["window"])
        np.testing.assert_array_equal(tensors[1], expected["counts"])
        np.testing.assert_array_equal(tensors[2].transpose(1, 2, 0), expected["photo"])


def test_without_petastorm_it_says_so(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "petastorm", None)
    monkeypatch.setitem(sys.modules, "petastorm.etl.dataset_metadata", None)
    with pytest.raises(MissingPackageError, match=r"pip install \"petastorm==0.12.1\""):
        petastorm_frame(spark, "file:///nowhere")

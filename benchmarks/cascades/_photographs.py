"""Oracle and proxy on photographs: MobileNetV2 to its top at 224 pixels, and its lower layers at fewer pixels."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from pyspark.ml import PipelineModel
from pyspark.sql import functions as F
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.harness.photographs import labelled
from benchmarks.harness.weights import found_weights
from vista_spark import CNNFeaturizer, TensorPipeline, compile_pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["photographs", "train_oracle", "train_proxy"]

_LONGEST = 320
_QUESTION = "animals"
_PARTITIONS = 4


def photographs(spark: SparkSession, data: Path | None, rows: int, seed: int) -> tuple[DataFrame, DataFrame]:
    """Return labelled photographs to train heads on, and a pool to answer, a third as many and as many as `rows`.

    Parameters
    ----------
    data : Path or None
        Folder that ``examples/stamps.py`` wrote: both parts are crops of different photographs. Without it, they are
        different crops of foolbox's photographs of ImageNet.
    rows : int
        Rows of the pool.
    seed : int
        Seed of the crops.
    """
    if data is None:
        train, pool = labelled(rows // 3, seed), labelled(rows, seed + 1)
    else:
        train, pool = _stamps(data, rows, seed)
    schema = "id long, label string, image binary"
    tables = [[(number, *row) for number, row in enumerate(part)] for part in (train, pool)]
    first, other = (spark.createDataFrame(table, schema).repartition(_PARTITIONS).cache() for table in tables)
    return first, other


def train_oracle(train: DataFrame, size: int) -> PipelineModel:
    """Return the whole network with a head that is fitted to the labels of photographs."""
    return _with_head(train, "pool", size, "label")


def train_proxy(train: DataFrame, oracle: PipelineModel, layer: str, size: int) -> PipelineModel:
    """Return the network up to a layer on smaller images, with a head that is fitted to the answers of the oracle."""
    answered = oracle.transform(train).select("id", "image", F.col("prediction").alias("answer")).cache()
    return _with_head(answered, layer, size, "answer")


def _with_head(train: DataFrame, layer: str, size: int, label: str) -> PipelineModel:
    featurizer = CNNFeaturizer(
        model="mobilenet_v2",
        weights=found_weights("auto", "mobilenet_v2"),
        layers=layer,
        pooling="max2x2",
        imageSize=size,
        outputCols=["numbers"],
    )
    rows = featurizer.transform(train).select("numbers", label).collect()
    features: NDArray[Any] = np.array([row["numbers"].toArray() for row in rows])
    head = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, C=0.01))
    head.fit(features, [row[label] for row in rows])
    return PipelineModel([featurizer, TensorPipeline(compiled=compile_pipeline(head), featuresCol="numbers")])


def _stamps(data: Path, rows: int, seed: int) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
    """Return crops of two disjoint halves of the photographs, some mirrored."""
    with (data / "table.csv").open(newline="") as file:
        table = [(row["id"], row["label"]) for row in csv.DictReader(file)]
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(table))
    parts = []
    for half, count in ((order[::2], rows // 3), (order[1::2], rows)):
        chosen = [table[half[number % len(half)]] for number in range(count)]
        parts.append([(_answer(label), _crop(data / "images" / f"{name}.png", draw)) for name, label in chosen])
    return parts[0], parts[1]


def _answer(label: str) -> str:
    return "animal" if label == _QUESTION else "thing"


def _crop(path: Path, draw: np.random.Generator) -> bytes:
    rgba = Image.open(path).convert("RGBA")
    image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    scale = draw.uniform(0.75, 1.0)
    width, height = max(int(image.width * scale), 1), max(int(image.height * scale), 1)
    left, top = int(draw.integers(image.width - width + 1)), int(draw.integers(image.height - height + 1))
    part = image.crop((left, top, left + width, top + height))
    part.thumbnail((_LONGEST, _LONGEST))
    if draw.uniform() < 0.5:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    file = io.BytesIO()
    part.save(file, "JPEG", quality=90)
    return file.getvalue()

"""The Spark ML stages of the project, each with what the contract needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from photographs import crops, encode

from vista_spark import CNNFeaturizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["STAGES", "Stage"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage, for the suite in ``test_stages.py``.

    Parameters
    ----------
    make : callable
        The stage, ready to transform ``frame``.
    frame : callable
        ``count`` good rows with the columns ``id``, ``label`` and those that the stage reads.
    reads : str
        The column that it reads.
    adds : tuple of str
        The columns that it adds, in their order.
    feature : str
        The one of them that a classifier can learn from.
    tuned : tuple of str and list
        A Param and values of it that make other features of the same frame.
    defaults : mapping
        Every Param that has a default.
    values : mapping
        For every Param, a value other than its default.
    refused : mapping
        For some Params, a bad value and what the message must have.
    """

    make: Callable[[], Any]
    frame: Callable[[SparkSession, int], DataFrame]
    reads: str
    adds: tuple[str, ...]
    feature: str
    tuned: tuple[str, list[Any]]
    defaults: Mapping[str, Any]
    values: Mapping[str, Any]
    refused: Mapping[str, tuple[Any, str]] = field(default_factory=dict)


def images(spark: SparkSession, count: int) -> DataFrame:
    rows = [
        (number, float(label), encode(picture)) for number, (label, _, _, picture) in enumerate(crops(count, side=64))
    ]
    return spark.createDataFrame(rows, "id long, label double, image binary")


STAGES: dict[str, Stage] = {
    "CNNFeaturizer": Stage(
        make=lambda: CNNFeaturizer(
            model="squeezenet1_1",
            layers=["fire3", "fire5"],
            outputCols=["low", "high"],
            imageSize=64,
            batchSize=3,
            seed=5,
        ),
        frame=images,
        reads="image",
        adds=("low", "high", "image_error"),
        feature="low",
        tuned=("pooling", ["avg", "max2x2"]),
        defaults={
            "layers": 1,
            "inputCol": "image",
            "pooling": "max2x2",
            "batchSize": 32,
            "device": "auto",
            "errors": "null",
            "errorCol": "image_error",
            "outputFormat": "vector",
            "seed": 0,
        },
        values={
            "model": "resnet18",
            "weights": "/models/resnet18.pth",
            "layers": ["conv1", 2],
            "inputCol": "photo",
            "outputCols": ["a", "b"],
            "pooling": "avg",
            "imageSize": 96,
            "batchSize": 8,
            "device": "cpu",
            "errors": "drop",
            "errorCol": "why",
            "outputFormat": "array",
            "seed": 7,
        },
        refused={
            "layers": ([], r"layers=\[\].*number.*name"),
            "pooling": ("max3x3", r"pooling='max3x3'.*did you mean 'max2x2'.*max2x2, avg, none"),
            "imageSize": (0, r"imageSize=0.*at least 1"),
            "batchSize": (0, r"batchSize=0.*at least 1"),
            "errors": ("ignore", r"errors='ignore'.*raise, null, drop"),
            "outputFormat": ("vectors", r"outputFormat='vectors'.*did you mean 'vector'.*vector, array"),
            "seed": ("one", "seed|int"),
            "outputCols": ("a", "outputCols|list"),
        },
    ),
}
"""By name. A new stage is a new entry."""

"""Labelled images of a command, from a folder per class or from tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.ml.feature import IndexToString

from udfs.driver import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from vista_spark.files import Loaded, Source

__all__ = ["labelled_images"]


def labelled_images(source: Source, data: Loaded, label: str) -> DataFrame:
    """Return the images of a source with the words of their labels in a column `label`."""
    rows = data.structured.select(quoted(source.on), quoted(data.target)).join(data.images, source.on)
    if data.words:
        return IndexToString(inputCol=data.target, outputCol=label, labels=list(data.words)).transform(rows)
    return rows.withColumnRenamed(data.target, label)

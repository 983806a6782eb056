"""Sizes of a transfer's tables, read from the files without Spark."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyarrow import csv, dataset

from udfs.driver import (
    check_file_columns,
    file_infos,
    file_separator,
    is_csv,
    is_numeric,
    is_parquet,
    open_files,
)
from vista_spark.errors import EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow import ChunkedArray

__all__ = ["Survey", "check_tables", "survey"]

# Images of a Parquet table whose size is looked at.
_SAMPLED = 64


@dataclass(frozen=True, slots=True)
class Survey:
    """Sizes that a plan needs.

    Attributes
    ----------
    rows : int
        Of the structured table.
    structured_features : int
    classes : int
        As Spark ML counts them: the largest label + 1; of text, which is indexed, the distinct labels.
    image_bytes : int
        Of an encoded image, on average.
    features : tuple of str
        Names of the structured features; of no matter for equality.
    """

    rows: int
    structured_features: int
    classes: int
    image_bytes: int
    features: tuple[str, ...] = field(default=(), compare=False)


def check_tables(
    table: str | None,
    images: str | None,
    *,
    on: str,
    label: str,
    image: str = "image",
    features: Sequence[str] | None = None,
) -> None:
    """See that the files and their columns are there; no row is read.

    Parameters
    ----------
    table, images : str or None
        As for :func:`survey`; ``None`` is not looked at.
    on, label, image, features
        As for :func:`survey`.

    Raises
    ------
    InvalidArgumentError
        Another kind of file, or one that cannot be read.
    ColumnError
        A column is missing.
    EmptyInputError
        No image.
    """
    if table is not None:
        check_file_columns(table, (on, label, *(features or ())), "--table")
    if images is None:
        return
    if is_parquet(images):
        check_file_columns(images, (image, on), "--images")
    elif not file_infos(images, "--images"):
        raise EmptyInputError(f"--images {images!r} holds no image")


def survey(
    table: str, images: str, *, on: str, label: str, image: str = "image", features: Sequence[str] | None = None
) -> Survey:
    """Count rows, columns, labels and bytes.

    Parameters
    ----------
    table : str
        A ``.csv`` or ``.tsv`` with a header, whose separator is detected, or Parquet; a path or a URI that pyarrow
        knows.
    images : str
        A folder of image files, or Parquet.
    on, label, image : str
        Columns.
    features : sequence of str, optional
        Structured columns; every numeric one by default.

    Raises
    ------
    InvalidArgumentError
        Another kind of file, or one that cannot be read.
    ColumnError
        A column is missing.
    EmptyInputError
        No image.
    """
    check_tables(table, images, on=on, label=label, image=image, features=features)
    data = _open(table, "--table")
    numeric = [field.name for field in data.schema if field.name not in (on, label) and is_numeric(field.type)]
    labels = data.to_table(columns=[label]).column(label)
    return Survey(
        rows=len(labels),
        structured_features=len(features or numeric),
        features=tuple(features or numeric),
        classes=_classes(labels),
        image_bytes=_image_bytes(images, image),
    )


def _classes(labels: ChunkedArray) -> int:
    if not is_numeric(labels.type):
        return int(pc.count_distinct(labels).as_py())
    largest = pc.max(labels).as_py()
    return int(largest) + 1 if largest is not None and 0 <= largest < math.inf else 1


def _open(path: str, option: str) -> dataset.Dataset:
    system, inner = open_files(path, option)
    try:
        kind: Any = "parquet"
        if is_csv(path):
            kind = dataset.CsvFileFormat(csv.ParseOptions(delimiter=file_separator(path, option)))
        return dataset.dataset(inner, format=kind, filesystem=system)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be read: {error}") from error


def _image_bytes(path: str, image: str) -> int:
    if is_parquet(path):
        sample = _open(path, "--images").head(_SAMPLED, columns=[image]).column(image)
        sizes = pc.binary_length(sample).drop_null().to_pylist()
    else:
        sizes = [info.size for info in file_infos(path, "--images")]
    if not sizes:
        raise EmptyInputError(f"--images {path!r} holds no image")
    return int(sum(sizes) // len(sizes))

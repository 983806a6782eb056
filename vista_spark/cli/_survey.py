"""Sizes of a transfer's tables, read from the files without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from pyarrow.fs import FileSelector, FileSystem

from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Survey", "survey"]

_LOOKED_AT = 64


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found.

    Attributes
    ----------
    rows : int
        Of the structured table.
    structured_features : int
    classes : int
        Distinct labels.
    image_bytes : int
        Of an encoded image, on average.
    """

    rows: int
    structured_features: int
    classes: int
    image_bytes: int


def survey(
    table: str, images: str, *, on: str, label: str, image: str = "image", features: Sequence[str] | None = None
) -> Survey:
    """Count rows, columns, labels and bytes.

    Parameters
    ----------
    table : str
        A ``.csv`` with a header, or a ``.parquet``; a path or a URI that pyarrow knows.
    images : str
        A folder of image files, or a ``.parquet``.
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
    found = _open(table, "--table")
    missing = [name for name in (on, label, *(features or ())) if name not in found.schema.names]
    if missing:
        raise ColumnError(f"--table has no column {missing[0]!r}; columns: {', '.join(found.schema.names)}")
    numeric = [
        field.name
        for field in found.schema
        if field.name not in (on, label) and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
    ]
    labels = found.to_table(columns=[label]).column(label)
    return Survey(
        rows=len(labels),
        structured_features=len(features or numeric),
        classes=pc.count_distinct(labels).as_py(),
        image_bytes=_image_bytes(images, image),
    )


def _open(path: str, option: str) -> dataset.Dataset:
    kind = "csv" if path.endswith((".csv", ".csv.gz")) else "parquet" if path.rstrip("/").endswith(".parquet") else None
    if kind is None:
        raise InvalidArgumentError(f"{option} {path!r}: a .csv file (gzipped too) or .parquet")
    try:
        filesystem, inner = FileSystem.from_uri(path) if "://" in path else (None, path)
        return dataset.dataset(inner, format=kind, filesystem=filesystem)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be read: {error}") from error


def _image_bytes(path: str, image: str) -> int:
    if path.rstrip("/").endswith(".parquet"):
        found = _open(path, "--images")
        if image not in found.schema.names:
            raise ColumnError(f"--images has no column {image!r}; columns: {', '.join(found.schema.names)}")
        sizes = pc.binary_length(found.head(_LOOKED_AT, columns=[image]).column(image)).drop_null().to_pylist()
    else:
        try:
            filesystem, inner = (
                FileSystem.from_uri(path) if "://" in path else (FileSystem.from_uri("file:///")[0], path)
            )
            sizes = [
                info.size for info in filesystem.get_file_info(FileSelector(inner, recursive=True)) if info.is_file
            ]
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(f"--images {path!r} cannot be read: {error}") from error
    if not sizes:
        raise EmptyInputError(f"--images {path!r} holds no image")
    return int(sum(sizes) // len(sizes))

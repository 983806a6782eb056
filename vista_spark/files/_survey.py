"""Sizes of a transfer's tables, read from the files without Spark."""

from __future__ import annotations

import math
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from udfs.driver import (
    check_file_columns,
    check_rows,
    file_infos,
    is_numeric,
    is_table,
    open_dataset,
    open_files,
)
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow import ChunkedArray, dataset

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
    categories: Sequence[str] = (),
    table_format: str | None = None,
    alone: bool = False,
    classification: bool = True,
) -> None:
    """See that the files, their columns and a row are there; no more is read.

    Parameters
    ----------
    table, images : str or None
        As for :func:`survey`; ``None`` is not looked at.
    on, label, image, features, categories, table_format
        As for :func:`survey`.
    alone : bool
        Whether one of the two is everything: a table that has the images, or a folder for each class.
    classification : bool
        Whether a folder for each class needs two of them.

    Raises
    ------
    InvalidArgumentError
        Another kind of file, or one that cannot be read.
    ColumnError
        A column is missing, or a feature is text and not among the categories.
    EmptyInputError
        No image, or no row.
    LabelError
        The class folders hold fewer than two classes.
    """
    columns = (label, *(features or ()), *categories)
    if alone and (table is not None or (images is not None and is_table(images, table_format))):
        option, path = ("--table", table) if table is not None else ("--images", images)
        assert path is not None  # one of the two
        present = check_file_columns(path, (image, *columns), option, table_format)
        if present is not None and on not in present:
            data = open_dataset(path, option, table_format)
            if data is None or not pa.types.is_string(data.schema.field(image).type):
                check_file_columns(path, (on,), option, table_format)
        _check_features(path, option, features, categories, table_format)
        check_rows(path, option, table_format)
        return
    if alone and images is not None:
        _check_classes(class_files(images), images, classification=classification)
        return
    if table is not None:
        check_file_columns(table, (on, *columns), "--table", table_format)
        _check_features(table, "--table", features, categories, table_format)
        check_rows(table, "--table", table_format)
    if images is None:
        return
    if is_table(images):
        check_file_columns(images, (image, on), "--images")
        check_rows(images, "--images")
    elif not file_infos(images, "--images"):
        raise EmptyInputError(f"--images {images!r} holds no image")


def class_files(images: str) -> dict[str, list[int]]:
    """Sizes of the files below each folder right below a folder; of files that lie in none under ``""``."""
    _, root = open_files(images, "--images")
    classes: dict[str, list[int]] = {}
    for info in file_infos(images, "--images"):
        first, slash, _ = posixpath.relpath(info.path, root).partition("/")
        classes.setdefault(first if slash else "", []).append(info.size)
    return classes


def _check_classes(classes: Mapping[str, Sequence[int]], images: str, *, classification: bool) -> None:
    if not classes:
        raise EmptyInputError(f"--images {images!r} holds no image")
    named = sorted(set(classes) - {""})
    if not classification:
        raise LabelError(
            "a folder for each class has classes to learn: give a classifier as --downstream, or a --table"
        )
    if len(named) < 2:  # a classifier tells at least two apart
        has = f"one folder with images, {named[0]!r}" if named else "images, and no folder with any"
        raise LabelError(
            f"--images {images!r} has {has}: without a --table each folder is a class, and a classifier needs two"
        )


def _check_features(
    path: str, option: str, features: Sequence[str] | None, categories: Sequence[str], form: str | None
) -> None:
    data = open_dataset(path, option, form)
    if data is None:
        return
    for name in features or ():
        kind = data.schema.field(name).type
        if name not in categories and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ColumnError(f"--features: {name!r} is text, not a number; --categories {name} indexes it")


def survey(
    table: str | None,
    images: str | None,
    *,
    on: str,
    label: str,
    image: str = "image",
    features: Sequence[str] | None = None,
    categories: Sequence[str] = (),
    table_format: str | None = None,
) -> Survey:
    """Count rows, columns, labels and bytes.

    Parameters
    ----------
    table : str or None
        A ``.csv`` or ``.tsv`` with a header, whose separator is detected, Parquet, ``.orc`` or ``.json``; a path or a
        URI that pyarrow knows. ``None`` where `images` has everything.
    images : str or None
        A folder of image files, a table, or a folder for each class. ``None`` where `table` has them.
    on, label, image : str
        Columns.
    features : sequence of str, optional
        Structured columns; every numeric one by default.
    categories : sequence of str
        Structured columns whose values are categories: each is as many features as it has values.
    table_format : str, optional
        As for :func:`udfs.driver.read_table`.

    Raises
    ------
    InvalidArgumentError
        Another kind of file, one that cannot be read, or one that only Spark can read.
    ColumnError
        A column is missing.
    EmptyInputError
        No image.
    """
    alone = table is None or images is None
    if alone and table is None and images is not None and not is_table(images, table_format):
        classes = {name: sizes for name, sizes in class_files(images).items() if name}
        sizes = [size for held in classes.values() for size in held]
        if not sizes:
            raise EmptyInputError(f"--images {images!r} holds no image")
        return Survey(len(sizes), 0, len(classes), sum(sizes) // len(sizes))
    check_tables(
        table, images, on=on, label=label, image=image, features=features, categories=categories,
        table_format=table_format, alone=alone,
    )  # fmt: skip
    path = table if table is not None else images
    assert path is not None  # one of them is there
    data = _open(path, "--table" if table is not None else "--images", table_format)
    without = (on, label, *([image] if alone else ()), *categories)
    numeric = [entry.name for entry in data.schema if entry.name not in without and is_numeric(entry.type)]
    named = numeric if features is None else [name for name in features if name not in categories]
    labels = data.to_table(columns=[label]).column(label)
    coded = {name: _values(data, name) for name in categories if name != label}
    return Survey(
        rows=len(labels),
        structured_features=len(named) + sum(coded.values()),
        features=(*named, *coded),
        classes=int(pc.count_distinct(labels).as_py()) if label in categories else _classes(labels),
        image_bytes=_image_bytes(path if alone else images or "", image, table_format if alone else None),
    )


def _values(data: dataset.Dataset, name: str) -> int:
    if pa.types.is_boolean(data.schema.field(name).type):
        return 1
    return int(pc.count_distinct(data.to_table(columns=[name]).column(name)).as_py())


def _classes(labels: ChunkedArray) -> int:
    if not is_numeric(labels.type):
        return int(pc.count_distinct(labels).as_py())
    largest = pc.max(labels).as_py()
    return int(largest) + 1 if largest is not None and 0 <= largest < math.inf else 1


def _open(path: str, option: str, form: str | None = None) -> dataset.Dataset:
    data = open_dataset(path, option, form)
    if data is None:
        raise InvalidArgumentError(
            f"{option} {path!r}: only Spark reads {form!r}. `vista transfer` plans when it starts; to plan before, "
            "give some rows of it as Parquet, and the number of all with --rows"
        )
    return data


def _image_bytes(path: str, image: str, form: str | None) -> int:
    if is_table(path, form):
        sample = _open(path, "--images", form).head(_SAMPLED, columns=[image]).column(image)
        if pa.types.is_string(sample.type):  # paths: the images are elsewhere
            return 0
        sizes = pc.binary_length(sample).drop_null().to_pylist()
    else:
        sizes = [info.size for info in file_infos(path, "--images")]
    if not sizes:
        raise EmptyInputError(f"--images {path!r} holds no image")
    return int(sum(sizes) // len(sizes))

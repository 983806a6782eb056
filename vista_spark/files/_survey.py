"""Sizes of a transfer's tables, read from the files without Spark."""

from __future__ import annotations

import math
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from udfs.driver import (
    arrow_text_numbers,
    check_file_columns,
    check_rows,
    file_infos,
    is_here,
    is_numeric,
    is_table,
    open_dataset,
    open_files,
    table_format,
)
from vista_spark.errors import EmptyInputError, InvalidArgumentError, LabelError
from vista_spark.files._table_ids import check_table_ids
from vista_spark.files._unused import text_feature_error, unused_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyarrow import ChunkedArray, dataset

    from udfs.driver import TextNumbers
    from vista_spark.files._source import Source

__all__ = ["Survey", "check_source", "survey"]

# Images of a Parquet table whose size is looked at.
_SAMPLED = 64


@dataclass(frozen=True, slots=True)
class Survey:
    """Sizes that a plan needs.

    Attributes
    ----------
    rows : int
        Rows of the structured table.
    classes : int
        Number of classes as Spark ML counts them: the largest label + 1, or the number of distinct texts.
    image_bytes : int
        Mean size of an encoded image.
    features : tuple of str
        Names of the structured features, which equality ignores.
    notes : tuple of str
        Columns that are not used, with the reasons; equality ignores them.
    """

    rows: int
    structured_features: int
    classes: int
    image_bytes: int
    features: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)


def check_source(source: Source, master: str | None, *, classification: bool = True) -> None:
    """Check what this machine can see of a source, before Spark starts.

    Parameters
    ----------
    source : Source
        Source of a transfer.
    master : str or None
        Spark's master; of a remote one, local paths are those of other machines.
    classification : bool
        Whether folders of classes must be at least two.

    Raises
    ------
    InvalidArgumentError
        A file is of an unknown format, or cannot be read.
    ColumnError
        A column is missing, or a feature is text and not among the categories.
    EmptyInputError
        There is no image, or no row.
    LabelError
        The class folders hold fewer than two classes.
    """
    seen = {path for path in (source.table, source.images) if path is not None and is_here(path, master)}
    _check(source, seen, classification=classification)


def _check(source: Source, seen: Collection[str], *, classification: bool) -> None:
    table = source.table if source.table in seen else None
    images = source.images if source.images in seen else None
    if source.has_class_folders:
        if images is not None:
            _check_classes(class_files(images), images, classification=classification)
        return
    if source.only_table is not None:
        if source.only_table in seen:
            _check_only_table(source, source.only_table)
        return
    if table is not None:
        check_table_ids(source, table, images)
        check_file_columns(table, (source.on, *_read_columns(source)), "--table", source.table_format)
        _check_features(source, table, "--table")
        check_rows(table, "--table", source.table_format)
    if images is None:
        return
    if is_table(images):
        check_file_columns(images, (source.image, source.on), "--images")
        check_rows(images, "--images")
    elif not file_infos(images, "--images"):
        raise EmptyInputError(f"--images must hold images, got {images!r}, which holds no image.")


def _read_columns(source: Source) -> tuple[str, ...]:
    """Return the label, the features and the categories."""
    return (source.learned, *(source.features or ()), *source.categories)


def _check_only_table(source: Source, path: str) -> None:
    """Check a table that has the images, too."""
    option = "--images" if source.table is None else "--table"
    present = check_file_columns(path, (source.image, *_read_columns(source)), option, source.table_format)
    if present is not None and source.on not in present:
        data = open_dataset(path, option, source.table_format)
        if data is None or not pa.types.is_string(data.schema.field(source.image).type):
            check_file_columns(path, (source.on,), option, source.table_format)
    _check_features(source, path, option)
    check_rows(path, option, source.table_format)


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
        raise EmptyInputError(f"--images must hold images, got {images!r}, which holds no image.")
    named = sorted(set(classes) - {""})
    if not classification:
        raise LabelError(
            "a folder for each class has classes to learn: give a classifier as --downstream, or a --table"
        )
    if len(named) < 2:
        has = f"one folder with images, {named[0]!r}" if named else "images, and no folder with any"
        raise LabelError(
            f"--images {images!r} has {has}: without a --table each folder is a class, and a classifier needs two"
        )


def _check_features(source: Source, path: str, option: str) -> None:
    data = open_dataset(path, option, source.table_format)
    if data is None:
        return
    for name in source.features or ():
        if name not in source.categories and _is_text(data.schema.field(name)):
            counts = arrow_text_numbers(data, name)
            if not _is_read_as_numbers(counts, path, source.table_format):
                raise text_feature_error(counts)


def _is_text(entry: pa.Field) -> bool:
    return bool(pa.types.is_string(entry.type) or pa.types.is_large_string(entry.type))


def _is_read_as_numbers(counts: TextNumbers, path: str, form: str | None) -> bool:
    """Return whether :func:`udfs.driver.read_table` casts a text column."""
    form = table_format(path, form, "--table")
    return counts.is_numeric and (form == "csv" or (form == "json" and counts.missing > 0))


def survey(source: Source, *, classification: bool = True) -> Survey:
    """Count rows, columns, labels and bytes without Spark.

    Parameters
    ----------
    source : Source
        Source of a transfer, in files that this machine can read.
    classification : bool
        Whether folders of classes must be at least two.

    Raises
    ------
    InvalidArgumentError, ColumnError, EmptyInputError, LabelError
        As :func:`check_source`; also if only Spark can read the table.
    """
    table, images = source.table, source.images
    _check(source, {path for path in (table, images) if path is not None}, classification=classification)
    if source.has_class_folders:
        assert images is not None
        classes = {name: sizes for name, sizes in class_files(images).items() if name}
        sizes = [size for class_sizes in classes.values() for size in class_sizes]
        if not sizes:
            raise EmptyInputError(f"--images must hold images, got {images!r}, which holds no image.")
        return Survey(len(sizes), 0, len(classes), sum(sizes) // len(sizes))
    alone = source.only_table is not None
    label, features, categories = source.learned, source.features, source.categories
    path = table if table is not None else images
    assert path is not None
    data = _open(path, "--table" if table is not None else "--images", source.table_format)
    without = (source.on, label, *([source.image] if alone else ()), *categories)
    left = [entry for entry in data.schema if entry.name not in without]
    texts = {entry.name: arrow_text_numbers(data, entry.name) for entry in left if _is_text(entry)}
    cast = [name for name, counts in texts.items() if _is_read_as_numbers(counts, path, source.table_format)]
    numeric = [entry.name for entry in left if is_numeric(entry.type) or entry.name in cast]
    kinds = {entry.name: str(entry.type) for entry in left if entry.name not in (*numeric, *texts)}
    unused = unused_columns([counts for name, counts in texts.items() if name not in cast], kinds)
    named = numeric if features is None else [name for name in features if name not in categories]
    labels = data.to_table(columns=[label]).column(label)
    coded = {name: _values(data, name) for name in categories if name != label}
    return Survey(
        rows=len(labels),
        structured_features=len(named) + sum(coded.values()),
        features=(*named, *coded),
        classes=int(pc.count_distinct(labels).as_py()) if label in categories else _classes(labels),
        image_bytes=_image_bytes(path if alone else images or "", source.image, source.table_format if alone else None),
        notes=() if features is not None else tuple(unused),
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
        raise EmptyInputError(f"--images must hold images, got {path!r}, which holds no image.")
    return int(sum(sizes) // len(sizes))

"""Check that the ids of a table of files match its images, before Spark starts."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

import pyarrow as pa

from optimizer.errors import nearest
from udfs.driver import file_columns, file_infos, id_hint, is_table, open_dataset, open_files
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyarrow import dataset

    from vista_spark.files._source import Source

__all__ = ["check_table_ids"]

# Rows of other columns that are compared with the ids of the images.
_COMPARED = 20_000
_SHOWN = 3


def check_table_ids(source: Source, table: str, images: str | None) -> None:
    """Check that the id column is there and has an id of an image.

    Parameters
    ----------
    table : str
        Table that this process can read.
    images : str or None
        Folder or table of images that this process can read; without it only the column is checked.

    Raises
    ------
    ColumnError
        The table has no such column; the message names the column that would match.
    EmptyInputError
        No id of the table is one of the images; the message names the column that would match, or the difference.
    """
    present = file_columns(table, "--table", source.table_format)
    data = open_dataset(table, "--table", source.table_format)
    if present is None or data is None:
        return
    images_ids = [] if images is None else _image_ids(source, images)
    if source.on not in present:
        hint = _hint(data, source, images_ids)
        raise ColumnError(
            f"--table has no column {source.on!r}{nearest(source.on, present)}; columns: {', '.join(present)}"
            f"{hint and '.' + hint}"
        )
    if not images_ids or source.on not in data.schema.names:
        return
    is_number = pa.types.is_integer(data.schema.field(source.on).type)
    known = {form for each in images_ids for form in (_numbers(each) if is_number else _forms(each))}
    shown: list[object] = []
    for each in _values(data, source.on):
        if not known.isdisjoint(_numbers(str(each)) if is_number else _forms(str(each))):
            return
        shown.append(each)
    if shown:
        raise EmptyInputError(
            f"the tables share no {source.on!r}: {shown[:_SHOWN]} in --table against {images_ids[:_SHOWN]} in --images."
            f"{_hint(data, source, images_ids)}"
        )


def _image_ids(source: Source, images: str) -> list[str]:
    if not is_table(images):
        _, root = open_files(images, "--images")
        paths = [info.path for info in file_infos(images, "--images")]
        return [posixpath.basename(path) if path == root else posixpath.relpath(path, root) for path in paths]
    data = open_dataset(images, "--images")
    if data is None or source.on not in data.schema.names:
        return []
    return [str(each) for each in _values(data, source.on)]


def _values(data: dataset.Dataset, name: str) -> Iterator[object]:
    """Read the values of a column that are not null, a batch at a time."""
    try:
        for batch in data.to_batches(columns=[name]):
            yield from batch.column(0).drop_null().to_pylist()
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"--table {name!r} cannot be read: {error}") from error


def _forms(text: str) -> tuple[str, str, str, str]:
    """Return the ids that :func:`read_images` may make of a file, or the forms of an id that it compares with them."""
    stem, _, _ = text.rpartition(".")
    name = text.rpartition("/")[2]
    return text, stem or text, name, name.rpartition(".")[0] or name


def _numbers(text: str) -> tuple[int, ...]:
    """Return the id that :func:`read_images` makes of a file where ids are whole numbers."""
    bare = _forms(text)[3].strip()
    return (int(bare),) if bare.removeprefix("-").isdecimal() else ()


def _hint(data: dataset.Dataset, source: Source, ids: Collection[str]) -> str:
    """Return a sentence about the column that matches, or about the spelling that differs."""
    names = [
        entry.name
        for entry in data.schema
        if pa.types.is_string(entry.type) or pa.types.is_large_string(entry.type) or pa.types.is_integer(entry.type)
    ]
    rows = data.head(_COMPARED, columns=names).to_pydict() if names and ids else {}
    forms = zip(*map(_forms, ids), strict=True)
    hints = [id_hint(rows, alike, source.on, "--table") for alike in forms]
    for name in names:
        if any(hint.startswith(f" Column {name!r} of") and hint.endswith("such values.") for hint in hints):
            return f" Column {name!r} of --table has such values. Name it with --on {name}."
    return next(filter(None, reversed(hints)), "")

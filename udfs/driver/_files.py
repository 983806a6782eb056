"""Files of tables, looked at without Spark, so that a wrong path or column is refused before Spark starts."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv as pa_csv
from pyarrow import dataset
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from optimizer.errors import ColumnError, EmptyInputError, InvalidArgumentError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CATALOG",
    "FILE_FORMATS",
    "check_file_columns",
    "check_rows",
    "detect_separator",
    "file_columns",
    "file_infos",
    "file_separator",
    "is_csv",
    "is_here",
    "is_json_document",
    "is_parquet",
    "is_table",
    "open_dataset",
    "open_files",
    "table_format",
]

FILE_FORMATS = ("csv", "parquet", "orc", "json")
"""Formats of files that are looked at before Spark starts."""

CATALOG = "catalog"
"""Format of a table that Spark's catalog knows by name."""

_GLOB = "*?[{"
_HIDDEN = ("_", ".")
_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_TABLES = "a file of separated values (.csv or .tsv, gzipped too), .json, .orc or Parquet"
_JSON = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")
# The first is taken where several would do.
_SEPARATORS = (",", ";", "\t", "|")
# A Parquet file begins with it.
_MAGIC = b"PAR1"


def is_csv(path: str) -> bool:
    """Return whether a path is named like a file of separated values, ``.csv`` or ``.tsv``, gzipped ones included."""
    return path.rstrip("/").endswith(_TEXT)


def table_format(path: str, form: str | None, option: str) -> str:
    """Return the format of a table: the given one, or the one that the ending of its path names.

    Raises
    ------
    InvalidArgumentError
        None is given, and the path's ending and content are of none.

    Examples
    --------
    >>> [table_format(path, None, "--table") for path in ("a.tsv", "b.parquet", "c.jsonl", "d.orc")]
    ['csv', 'parquet', 'json', 'orc']
    >>> table_format("shop.products", "delta", "--table")
    'delta'
    """
    if form is not None:
        return form
    bare = path.rstrip("/")
    if is_csv(path):
        return "csv"
    if bare.endswith(_JSON):
        return "json"
    if bare.endswith(".orc"):
        return "orc"
    if is_parquet(path):
        return "parquet"
    raise InvalidArgumentError(
        f"{option} {path!r}: {_TABLES}. {option}-format names another reader of Spark: delta, iceberg, avro, ..., or "
        f"{CATALOG} for a table's name"
    )


def is_table(path: str, form: str | None = None) -> bool:
    """Return whether a path names a table, by its ending or content, or because a format is given."""
    return form is not None or is_csv(path) or path.rstrip("/").endswith((*_JSON, ".orc")) or is_parquet(path)


def is_json_document(first_line: str) -> bool:
    """Return whether a file of JSON is one document, an array of rows, rather than a row on each line."""
    return first_line.lstrip("\ufeff \t").rstrip().startswith("[") or first_line.strip() == "{"


def is_parquet(path: str) -> bool:
    """Return whether a path is named like a Parquet file or folder, or is one by its content.

    The content is looked at where this process can: a file by its first bytes, a folder by those of its first file that
    is not hidden.
    """
    if path.rstrip("/").endswith(".parquet"):
        return True
    if is_csv(path) or any(character in path for character in _GLOB):
        return False
    try:
        infos = file_infos(path, "")
        if not infos:
            return False
        system, _ = open_files(path, "")
        with system.open_input_stream(infos[0].path, compression=None) as stream:
            return bool(stream.read(len(_MAGIC)) == _MAGIC)
    except (InvalidArgumentError, OSError):
        return False


def detect_separator(header: str, path: str = "") -> str:
    r"""Detect what separates the columns of a table, by the first line of its file.

    Parameters
    ----------
    header : str
        First line of the file.
    path : str
        Path of the file: where its name ends in ``.tsv``, a tab comes first among equals.

    Returns
    -------
    str
        Separator: of comma, semicolon, tab and bar the one with most columns, of equals the first; a comma for a single
        column.

    Examples
    --------
    >>> [detect_separator(line) for line in ('id,"a;b;c"', "id;price,weight;label", "id\tlabel", "id")]
    [',', ';', '\t', ',']
    """
    is_tsv = path.rstrip("/").endswith((".tsv", ".tsv.gz"))
    # A name in quotes may hold any of them.
    bare = re.sub(r'"[^"]*"', "", header)
    return max(sorted(_SEPARATORS, key="\t".__ne__) if is_tsv else _SEPARATORS, key=bare.count)


def file_separator(path: str, option: str) -> str:
    """Detect the separator of a file of separated values, or of the first one of a folder.

    Raises
    ------
    InvalidArgumentError, EmptyInputError
        As :func:`file_columns`.
    """
    return detect_separator(_first_line(path, option), path)


def is_here(path: str, master: str | None) -> bool:
    """Return whether Spark will read a path from this machine's disk, so that this process can look at it first.

    Parameters
    ----------
    path : str
        Path for Spark: a path or a URI, perhaps with wildcards, which are left to Spark.
    master : str or None
        Master of the Spark session; for ``None``, see :func:`udfs.driver.launch`.

    Examples
    --------
    >>> is_here("s3://bucket/table.parquet", "local[2]"), is_here("file:///table.parquet", "local[2]")
    (False, True)
    """
    if any(character in path for character in _GLOB):
        return False
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted if master is None else not master.startswith("local"):
        return False
    # A path without a scheme is one of Hadoop's default file system, wherever that is.
    return path.startswith("file:") or ("://" not in path and "HADOOP_CONF_DIR" not in os.environ)


def open_files(path: str, option: str) -> tuple[FileSystem, str]:
    """Open the file system of a path or URI.

    Returns
    -------
    pyarrow.fs.FileSystem
        File system of the path.
    str
        The path within it.

    Raises
    ------
    InvalidArgumentError
        pyarrow has no such file system, or it cannot be opened.
    """
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if "://" not in path:
        return LocalFileSystem(), path
    try:
        system, inner = FileSystem.from_uri(path)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be read: {error}") from error
    return system, inner


def file_infos(path: str, option: str) -> list[FileInfo]:
    """List a file, or the files of a folder at any depth, hidden ones left out.

    Raises
    ------
    InvalidArgumentError
        There is no such file or folder, or it cannot be read.
    """
    system, inner = open_files(path, option)
    try:
        info = system.get_file_info(inner)
        if info.type == FileType.NotFound:
            raise InvalidArgumentError(f"{option} {path!r} cannot be read: there is no such file or folder")
        infos = [info] if info.is_file else system.get_file_info(FileSelector(inner, recursive=True))
    except OSError as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be read: {error}") from error
    return [info for info in infos if info.is_file and (len(infos) == 1 or not info.base_name.startswith(_HIDDEN))]


def file_columns(path: str, option: str, form: str | None = None) -> list[str] | None:
    """Read the names of a table's columns without Spark; ``None`` where only Spark can.

    Raises
    ------
    InvalidArgumentError
        The file is neither, there is none, or it cannot be read.
    EmptyInputError
        A folder without a file, or a file of separated values without a header.
    """
    form = table_format(path, form, option)
    if form == "csv":
        header = _first_line(path, option)
        return next(csv.reader(io.StringIO(header, newline=""), delimiter=detect_separator(header, path)))
    data = open_dataset(path, option, form)
    return None if data is None else list(data.schema.names)


def open_dataset(path: str, option: str, form: str | None = None) -> dataset.Dataset | None:
    """Open a table of files with Arrow; ``None`` where only Spark can read it.

    Raises
    ------
    InvalidArgumentError
        There is no such file, or it cannot be read.
    EmptyInputError
        A folder without a file.
    """
    form = table_format(path, form, option)
    if form not in FILE_FORMATS:
        return None
    if not (infos := file_infos(path, option)):
        raise EmptyInputError(f"{option} {path!r} holds no file")
    system, inner = open_files(path, option)
    try:
        if form == "json" and is_json_document(_first_line(path, option)):
            return dataset.InMemoryDataset(pa.Table.from_pylist(_documents(system, infos)))
        kind: Any = form
        if form == "csv":
            # As Spark reads them: an empty text is none, and NA a word.
            convert = pa_csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
            kind = dataset.CsvFileFormat(
                pa_csv.ParseOptions(delimiter=file_separator(path, option)),
                default_fragment_scan_options=dataset.CsvFragmentScanOptions(convert_options=convert),
            )
        return dataset.dataset(inner, format=kind, filesystem=system, partitioning="hive")
    except (OSError, ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be read: {error}") from error


def _documents(system: FileSystem, infos: Iterable[FileInfo]) -> list[Any]:
    rows: list[Any] = []
    for info in infos:
        with system.open_input_stream(info.path, compression="detect") as stream:
            content = json.loads(stream.read().decode("utf-8-sig"))
        rows += content if isinstance(content, list) else [content]
    return rows


def check_rows(path: str, option: str, form: str | None = None) -> None:
    """Raise ``EmptyInputError`` for a table of files without a row; one that only Spark can read is not looked at."""
    data = open_dataset(path, option, form)
    try:
        empty = data is not None and data.head(1).num_rows == 0
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be read: {error}") from error
    if empty:
        raise EmptyInputError(f"{option} {path!r} has no row")


def check_file_columns(path: str, columns: Iterable[str], option: str, form: str | None = None) -> list[str] | None:
    """Raise ``ColumnError`` for the first column that a table lacks, and return those that it has.

    ``None`` is returned for a table that only Spark can read.
    """
    present = file_columns(path, option, form)
    if present is None:
        return None
    for column in columns:
        if column not in present:
            raise ColumnError(
                f"{option} has no column {column!r}{nearest(column, present)}; columns: {', '.join(present)}"
            )
    return present


def _first_line(path: str, option: str) -> str:
    infos = file_infos(path, option)
    if not infos:
        raise EmptyInputError(f"{option} {path!r} holds no file")
    system, _ = open_files(path, option)
    try:
        with system.open_input_stream(infos[0].path, compression="detect") as stream:
            # A name in quotes may hold the end of a line, which does not end the header.
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
            header = ""
            for line in text:
                header += line
                if header.count('"') % 2 == 0:
                    break
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be read: {error}") from error
    if not header.strip():
        raise EmptyInputError(f"{option} {path!r} is empty: it begins with a header")
    return header.rstrip("\r\n")

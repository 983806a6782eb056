"""Row maps over DataFrames: columns of any name, the schema, Spark ML vectors, counts of reasons."""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - Spark reads the annotations of an Arrow UDF
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa  # noqa: TC002 - as above
from pyspark import cloudpickle
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F
from pyspark.sql import is_remote
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, FloatType, StructField, StructType

from udfs.arrow import VECTOR, RowPolicy
from udfs.driver._plugin import has_pushdown_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from udfs.arrow import RowMap

# Columns inside a plan: the struct that a row map returns, a costly value, the reason of a dropped row.
_NEW, _COSTLY, _REASON = (f"cerebro_spark_{name}" for name in ("new_columns", "costly", "reason"))

# The first Spark whose optimizer keeps a filter above an expensive expression that it reads (SPARK-47672).
_KNOWS_EXPENSIVE = (4, 2)

# A plan of Spark Connect contains the function once per reference, and a message has up to 128 MiB.
_SMALL_FUNCTION = 1 << 20

# Key of column metadata, as src/main/scala/org/cerebro/spark/SparkInternals.scala has it.
_MARK = "cerebro_spark.pushdown"

__all__ = ["as_vector", "map_rows", "quoted"]


def map_rows(
    df: DataFrame,
    rows: RowMap,
    *,
    reads: Mapping[str, Column | str] | None = None,
    vectors: Mapping[str, int | None] | None = None,
    sends: Literal["rows", "columns", "either"] = "rows",
) -> DataFrame:
    """Run a row map over a DataFrame, lazily.

    Parameters
    ----------
    rows : RowMap
        ``rows.keep`` names columns of `df`, of any name that Spark allows, dots and backquotes included.
    reads : mapping of str to Column or str, optional
        For columns that the function reads, an expression, or the name of a column of `df`; the others are columns of
        `df` of that name. A column that is kept as well, and an expression that is given twice, goes to Python once.
    vectors : mapping of str to int, optional
        New columns of arrays to turn into Spark ML vectors, and their lengths; ``None`` where a length is not known.
    sends : {"rows", "columns", "either"}
        What goes to Python. ``"rows"``, the default: whole rows, through ``mapInArrow``. ``"columns"``: only those that
        the function reads, on Spark from 4.1 on, unless the policy is ``"raise"``. Batches are then Spark's, and the
        function does not run for columns that no query reads. From 4.2 on, filters on columns of ``rows.keep`` and
        limits apply before the function runs. ``"either"``: columns, except in a session whose plugin does more for
        rows.

    Returns
    -------
    DataFrame
        The columns of ``rows.keep``, those that the function adds, and the one of reasons where the policy has it.
    """
    read = {name: (reads or {}).get(name, name) for name in rows.function.reads}
    by_columns = sends == "columns" or (sends == "either" and not has_pushdown_rule(df.sparkSession))
    if by_columns and hasattr(F, "arrow_udf") and rows.policy.errors != "raise":
        return _beside(df, rows, list(read.values()), vectors or {})
    mapped = _through(df, rows, read, _fields(rows))
    if not vectors:
        return mapped
    return mapped.withColumns({name: as_vector(name, size) for name, size in vectors.items()})


def _beside(
    df: DataFrame, rows: RowMap, sources: Sequence[Column | str], vectors: Mapping[str, int | None]
) -> DataFrame:
    """Run it as a scalar Arrow UDF, whose result has a field for each new column."""
    if rows.policy.errors == "drop":
        explained = _beside(df, replace(rows, policy=RowPolicy("null", _REASON)), sources, vectors)
        return explained.where(F.col(_REASON).isNull()).drop(_REASON)
    fields = _fields(rows)
    returns = StructType([StructField(f"r{place}", field.dataType) for place, field in enumerate(fields)])
    is_pushed = _version(df) >= _KNOWS_EXPENSIVE
    run, inputs = _udf_of_structs(rows, sources)
    functions: Any = F  # its annotations do not have arrow_udf
    function = functions.arrow_udf(run, returns)
    if not is_pushed:
        # Otherwise Spark would run it once for a filter and once for the selected columns.
        function = function.asNondeterministic()
    # Spark regards an expression as expensive if a Scala UDF is part of it, and a Python UDF alone as cheap.
    expensive = array_to_vector(F.array(F.lit(0.0))).isNotNull()
    # Spark 4.3 passes columns of Parquet on as they are, and fails if a Spark ML vector is among them, unless there is
    # a projection in between. Spark merges projections, but none with a costly column that is read twice.
    table = df.select("*", expensive.alias(_COSTLY))
    new = function(*inputs, expensive, F.col(_COSTLY), F.col(_COSTLY))
    kept = [F.col(quoted(name)) for name in rows.keep]
    if not is_pushed or (is_remote() and _pickled_size(run) > _SMALL_FUNCTION):
        table, new = table.select(*kept, new.alias(_NEW)), F.col(_NEW)
    columns = []
    for place, field in enumerate(fields):
        values = new.getField(f"r{place}")
        is_vector = field.name in vectors
        columns.append(_vector(field.name, values, vectors[field.name]) if is_vector else values.alias(field.name))
    return table.select(*kept, *columns)


def _udf_of_structs(
    rows: RowMap, sources: Sequence[Column | str]
) -> tuple[Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]], list[Column]]:
    """Return a function of the columns that a row map reads, and these columns, each once."""
    arguments = {source if isinstance(source, str) else id(source): source for source in sources}
    places = {key: place for place, key in enumerate(arguments)}
    read = tuple(places[source if isinstance(source, str) else id(source)] for source in sources)

    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return rows.beside(batches, read)

    return run, [F.col(quoted(source)) if isinstance(source, str) else source for source in arguments.values()]


def _through(
    df: DataFrame, rows: RowMap, sources: Mapping[str, Column | str], added: Sequence[StructField]
) -> DataFrame:
    """Run it over whole rows."""
    kept = rows.keep
    names = list(dict.fromkeys((*kept, *(source for source in sources.values() if isinstance(source, str)))))
    expressions: dict[str | int, Column] = {
        id(source): source for source in sources.values() if not isinstance(source, str)
    }
    places: dict[str | int, int] = {source: place for place, source in enumerate([*names, *expressions])}
    # PySpark's mapInArrow resolves the names of its input again, unquoted: plain ones go in, and go by their places.
    columns = [*(F.col(quoted(name)) for name in names), *expressions.values()]
    marks = [_mark(kept.index(name) if name in kept else -1, rows) for name in names]
    marks += [_mark(-1, rows)] * len(expressions)
    plain = df.select(
        *(
            column.alias(f"c{place}", metadata=mark)
            for place, (column, mark) in enumerate(zip(columns, marks, strict=True))
        )
    )
    run = partial(
        rows.run,
        keep=tuple(places[name] for name in kept),
        read=tuple(places[source if isinstance(source, str) else id(source)] for source in sources.values()),
    )
    schema = df.schema
    return plain.mapInArrow(run, StructType([*(schema[name] for name in kept), *added]))


def _mark(copied_to: int, rows: RowMap) -> dict[str, Any]:
    """Mark an input column with the output column that repeats it, -1 for none, for the plugin's optimizer rule.

    The marks are on the input of the operator, which no other operator reads. On its output they would be in the
    schemas that users see, in files, and on operators of the user that declare the same schema.
    """
    return {_MARK: {"copied_to": copied_to, "errors": rows.policy.errors}}


def quoted(name: str) -> str:
    """Quote a column's name for Spark's expressions, whatever characters it has.

    Examples
    --------
    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return f"`{name.replace('`', '``')}`"


def as_vector(name: str, size: int | None = None) -> Column:
    """Turn an ``array<float>`` into a Spark ML vector, null where it is null; it keeps its name.

    Parameters
    ----------
    size : int, optional
        Length of the arrays, for Spark ML: told the size, it runs no job for the first row to learn it.
    """
    return _vector(name, F.col(quoted(name)), size)


def _vector(name: str, array: Column, size: int | None) -> Column:
    vector = F.when(array.isNotNull(), array_to_vector(array))
    # The job that would look for the size stops early, its Python workers with it.
    return vector.alias(name) if size is None else vector.alias(name, metadata={"ml_attr": {"num_attrs": size}})


def _pickled_size(function: Callable[..., Any]) -> int:
    """Return the bytes that a function takes in a plan of Spark Connect."""
    return len(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]


def _fields(rows: RowMap) -> list[StructField]:
    """Return the columns that a row map adds."""
    return [StructField(field.name, _spark_type(field.type)) for field in rows.schema]


def _version(df: DataFrame) -> tuple[int, ...]:
    """Return the major and the minor version of the Spark that runs a DataFrame."""
    return tuple(int(part) for part in df.sparkSession.version.split(".")[:2])


def _spark_type(kind: pa.DataType) -> DataType:
    return ArrayType(FloatType(), containsNull=False) if kind == VECTOR else from_arrow_type(kind)

"""Row maps over DataFrames: columns of any name, the schema, Spark ML vectors, counts of reasons."""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - Spark reads the annotations of an Arrow UDF
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # noqa: TC002 - as above
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, FloatType, StructField, StructType

from udfs.arrow import VECTOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from udfs.arrow import RowMap

# Of what a row map gives, until it is split into columns.
_NEW = "cerebro_spark_new_columns"

# Key of column metadata, as src/main/scala/org/cerebro/spark/SparkInternals.scala has it.
_MARK = "cerebro_spark.pushdown"

__all__ = ["as_vector", "map_rows", "quoted"]


def map_rows(
    df: DataFrame,
    rows: RowMap,
    *,
    reads: Mapping[str, Column | str] | None = None,
    vectors: Mapping[str, int | None] | None = None,
    beside: bool = False,
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
    beside : bool
        Whether only what the function reads is to go to Python, where that can be: on Spark from 4.1 on, with the
        policy ``"null"``. Batches are then Spark's, and Spark leaves out what no query selects. Default false.

    Returns
    -------
    DataFrame
        The columns of ``rows.keep``, those that the function adds, and the one of reasons where the policy has it.
    """
    read = {name: (reads or {}).get(name, name) for name in rows.function.reads}
    added = [StructField(field.name, _spark_type(field.type)) for field in rows.schema]
    if beside and hasattr(F, "arrow_udf") and rows.policy.errors == "null":
        mapped = _beside(df, rows, list(read.values()), added)
    else:
        mapped = _through(df, rows, read, added)
    if not vectors:
        return mapped
    return mapped.withColumns({name: as_vector(name, size) for name, size in vectors.items()})


def _beside(df: DataFrame, rows: RowMap, sources: Sequence[Column | str], added: Sequence[StructField]) -> DataFrame:
    """Run it as a scalar Arrow UDF, whose result has a field for each new column."""
    arguments = {source if isinstance(source, str) else id(source): source for source in sources}
    places = {key: place for place, key in enumerate(arguments)}
    read = tuple(places[source if isinstance(source, str) else id(source)] for source in sources)

    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return rows.beside(batches, read)

    fields = StructType([StructField(f"r{place}", field.dataType) for place, field in enumerate(added)])
    # Else Spark would run it once for a filter and once for what is selected.
    functions: Any = F  # its annotations do not have arrow_udf
    function = functions.arrow_udf(run, fields).asNondeterministic()
    new = function(*(F.col(quoted(source)) if isinstance(source, str) else source for source in arguments.values()))
    kept = [F.col(quoted(name)) for name in rows.keep]
    # Spark 4.3 hands over columns of Parquet as they are, and fails if a vector of Spark ML is among them; it does not
    # behind an operator on rows. This one stays: its condition holds, which is known at run time only.
    by_row = df.where(F.spark_partition_id() >= 0)
    return by_row.select(*kept, new.alias(_NEW)).select(
        *kept, *(F.col(_NEW).getField(f"r{place}").alias(field.name) for place, field in enumerate(added))
    )


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
    array = F.col(quoted(name))
    vector = F.when(array.isNotNull(), array_to_vector(array))
    # The job that would look for the size stops early, its Python workers with it.
    return vector.alias(name) if size is None else vector.alias(name, metadata={"ml_attr": {"num_attrs": size}})


def _spark_type(kind: pa.DataType) -> DataType:
    return ArrayType(FloatType(), containsNull=False) if kind == VECTOR else from_arrow_type(kind)

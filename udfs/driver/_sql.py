"""Functions of Arrow arrays as SQL functions of a session, classic or Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas import functions as vectorized
from pyspark.sql.pandas.types import from_arrow_type

from udfs.sql import as_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_function"]

_ROWS = 256

Calls = Callable[[tuple[pa.Array, ...]], pa.Array]


def register_function(
    spark: SparkSession,
    name: str,
    calls: Calls,
    returns: pa.DataType,
    *,
    rows: int = _ROWS,
    pandas: bool | None = None,
) -> None:
    """Register a SQL function that computes a batch of calls at a time; it replaces one of the same name.

    Parameters
    ----------
    calls : callable
        Takes the arguments' columns, as many as a query writes, and gives one of as many rows. Spark's closures carry
        it to the workers.
    rows : int
        Calls at a time: Spark's batches have up to 10,000 rows, and as many feature maps are more than a worker's
        memory. Default 256.
    pandas : bool, optional
        Pass the columns by way of pandas; by default before Spark 4.1, which passes Arrow itself.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.active()
    >>> register_function(spark, "first_of", lambda arguments: arguments[0], pa.string())
    >>> spark.sql("SELECT first_of('a', 'b')").first()[0]
    'a'
    """
    kind = from_arrow_type(returns)
    arrow_udf = None if pandas else getattr(vectorized, "arrow_udf", None)
    # Its stubs know no function of any number of columns.
    pandas_udf: Any = vectorized.pandas_udf
    if arrow_udf is None:
        function = pandas_udf(_by_pandas(calls, rows, struct=pa.types.is_struct(returns)), kind)
    else:
        function = arrow_udf(_by_arrow(calls, rows), kind)
    spark.udf.register(name, function)


def _by_arrow(calls: Calls, rows: int) -> Callable[..., Any]:
    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for batch in batches:
            columns = batch if isinstance(batch, tuple) else (batch,)
            for start in range(0, max(len(columns[0]), 1), rows):
                yield calls(tuple(column.slice(start, rows) for column in columns))

    # Spark reads them, and they are strings in this file.
    run.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    return run


def _by_pandas(calls: Calls, rows: int, *, struct: bool) -> Callable[..., Any]:
    import pandas as pd  # an import of this room stays light

    def run(batches: Any) -> Any:
        for batch in batches:
            columns = batch if isinstance(batch, tuple) else (batch,)
            for start in range(0, max(len(columns[0]), 1), rows):
                values = calls(tuple(as_arrow(column[start : start + rows]) for column in columns))
                if struct:
                    names = [field.name for field in values.type]
                    yield pd.DataFrame(dict(zip(names, map(_objects, values.flatten()), strict=True)))
                else:
                    yield _objects(values)

    result = pd.DataFrame if struct else pd.Series
    run.__annotations__ = {"batches": Iterator[tuple[pd.Series, ...]], "return": Iterator[result]}  # type: ignore[valid-type]
    return run


def _objects(values: pa.Array) -> Any:
    """Convert to pandas as objects: a null among numbers would become NaN, which is a number to Spark."""
    import pandas as pd  # a worker has it

    return pd.Series(values.to_pylist(), dtype=object)

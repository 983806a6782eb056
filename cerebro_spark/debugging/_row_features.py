"""Features of the rows of a table, on the driver: those of a network, or standardised columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, NumericType

from cerebro_spark.data import choose_features
from cerebro_spark.errors import ColumnError, EmptyInputError
from cerebro_spark.tune import TunedModel
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import check_present, map_rows, quoted
from udfs.influence import HiddenFeatures, projected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

__all__ = ["RowFeatures", "read_features", "standardized"]

_FEATURES = "__features"
# The driver holds 512 bytes for each row.
_WIDTH = 128


@dataclass(frozen=True, slots=True)
class RowFeatures:
    """Features of the readable rows of a table; ``metric`` is the distance that suits them."""

    ids: NDArray[Any]  # of the readable rows
    matrix: NDArray[np.float32]  # shape (readable rows, features)
    unreadable: tuple[Any, ...]  # ids of the rows with a null, or with an image that cannot be read
    metric: str  # "cosine" or "euclidean"


def read_features(source: TunedModel | Sequence[str], df: DataFrame, id_column: str) -> RowFeatures:
    """Compute the features of all rows in one pass over a table; those of columns are not standardised yet.

    Raises
    ------
    ColumnError
        A column is missing or of another type.
    EmptyInputError
        No row can be read.
    """
    if isinstance(source, TunedModel):
        scored, metric = _of_network(source, df, id_column), "cosine"
    else:
        scored, metric = _of_columns(list(source), df), "euclidean"
    chosen = scored.select(F.col(quoted(id_column)).alias("id"), F.col(_FEATURES).alias("features"))
    table = chosen.toArrow()
    # A null within an array, and a number that is not finite, make a row unreadable too.
    lists = table.column("features").combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False)
    width = int(lengths.max(initial=-1))
    fits = (lengths == width) & (lengths > 0)
    flat = pc.list_flatten(lists.filter(pa.array(fits))).cast(pa.float32()).to_numpy(zero_copy_only=False)
    values = flat.reshape(int(fits.sum()), max(width, 1))
    finite = np.isfinite(values).all(axis=1)
    fits[fits] = finite
    ids = np.asarray(table.column("id").to_pandas())
    if not fits.any():
        raise EmptyInputError("df must have rows whose features can be read, got only rows with nulls.")
    return RowFeatures(ids[fits], projected(values[finite], _WIDTH), tuple(ids[~fits].tolist()), metric)


def standardized(features: RowFeatures, like: RowFeatures) -> NDArray[np.float32]:
    """Scale the features of columns to the means and deviations of a table; leave those of a network as they are."""
    if features.metric == "cosine":
        return features.matrix
    mean, deviation = like.matrix.mean(axis=0, dtype=np.float64), like.matrix.std(axis=0, dtype=np.float64)
    return np.asarray((features.matrix - mean) / np.where(deviation > 0, deviation, 1), np.float32)


def _of_network(model: TunedModel, df: DataFrame, id_column: str) -> DataFrame:
    sources = choose_features(df, model.inputs)
    function = HiddenFeatures(
        network=model.network,
        inputs=model.inputs,
        images=tuple(each.name for each in sources if each.kind == "image"),
        output=_FEATURES,
        batch_size=model.getBatchSize(),
        width=_WIDTH,
    )
    rows = RowMap(function, (id_column,), RowPolicy("null"))
    return map_rows(df, rows, reads={each.name: each.encoded for each in sources})


def _of_columns(columns: list[str], df: DataFrame) -> DataFrame:
    check_present(df, columns, "df")
    if not columns:
        raise ColumnError("features must name at least one column, got none. Name columns of numbers, or pass a model")
    return df.withColumn(_FEATURES, F.concat(*(_numbers(df, name) for name in columns)))


def _numbers(df: DataFrame, name: str) -> Column:
    """Convert a column of numbers, arrays or vectors to an array of floats."""
    kind, column = df.schema[name].dataType, F.col(quoted(name))
    if isinstance(kind, VectorUDT):
        return vector_to_array(column, "float32")
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        return column.cast("array<float>")
    if isinstance(kind, NumericType):
        return F.when(column.isNotNull(), F.array(column.cast("float")))
    raise ColumnError(
        f"features must be columns of numbers, arrays or vectors, got {name!r} of {kind.simpleString()}. Encode it, or "
        "pass a model that reads it"
    )

"""Fitted cascades for SQL functions, whose arguments have no schema before a query runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.ml import PipelineModel

from udfs.sql import SQLCascade
from vista_spark.compiling import TensorPipeline
from vista_spark.errors import InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.transfer import TransferPredictor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vista_spark.cascades._model import CascadeModel
    from vista_spark.transfer import PredictorInputs

__all__ = ["sql_cascade"]

_TYPES = {
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "array<double>": pa.list_(pa.float64()),
    "array<float>": pa.null(),  # class probabilities: a number or an array, as a query has them
}


def sql_cascade(spark: SparkSession, name: str, model: CascadeModel) -> SQLCascade:
    """Return a cascade as a SQL function runs it.

    Raises
    ------
    InvalidArgumentError
        The cascade drops rows, and a function gives a value for each; or a model has columns of unknown types.
    """
    if model.getErrors() == "drop":
        raise InvalidArgumentError(
            f"errors of {name!r} must be 'null' or 'raise' for a SQL function, which has a value for each row, got "
            "'drop'."
        )
    columns: dict[str, str] = {}
    for member in model.used_members:
        columns |= dict(_columns(name, member))
    schema = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    scoring, _ = model.scoring(spark.createDataFrame([], schema))
    fields = [field for member in model.used_members for field in _columns(name, member)]
    return SQLCascade(scoring, tuple((column, _TYPES[kind]) for column, kind in fields))


def _columns(name: str, member: Any) -> list[tuple[str, str]]:
    """Return the columns that a model reads, with types, in the order in which its function reads them."""
    if isinstance(member, PipelineModel):
        *before, last = cast("list[Any]", member.stages)
        fields = [field for stage in before for field in _columns(name, stage)]
        return fields + (_structured(name, last.inputs) if isinstance(last, TransferPredictor) else [])
    if isinstance(member, str):
        return [(member, "array<float>")]
    if isinstance(member, CNNFeaturizer | TextFeaturizer):
        return [(member.getInputCol(), "binary" if isinstance(member, CNNFeaturizer) else "string")]
    if not isinstance(member, TensorPipeline):
        raise InvalidArgumentError(
            f"models of {name!r} must be featurizers, pipelines or columns for a SQL function, got "
            f"{type(member).__name__}. Use transform."
        )
    compiled = member.getCompiled()
    named = member.getInputCols() if member.isSet(member.inputCols) else compiled.columns
    if named is None or (member.isSet(member.featuresCol) and not member.isSet(member.inputCols)):
        return [(member.getFeaturesCol(), "array<double>")]
    texts = compiled.program.categories
    return [(column, "string" if str in texts.get(place, ()) else "double") for place, column in enumerate(named)]


def _structured(name: str, inputs: PredictorInputs) -> list[tuple[str, str]]:
    columns = inputs.structured
    if inputs.structured_size == len(columns):
        return [(column, "double") for column in columns]
    if len(columns) > 1:
        raise InvalidArgumentError(
            f"structured features of {name!r} must be numbers, or one column of vectors, for a SQL function, got "
            f"{inputs.structured_size} numbers in columns {', '.join(columns)}. Use transform."
        )
    return [(columns[0], "array<double>")]

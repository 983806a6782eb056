"""Models as members of a cascade: stages with class scores, functions, columns, and chains of stages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.ml import PipelineModel, Transformer
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, NumericType

from udfs.cascades import Chained, ClassScores, ColumnScores, identity_of
from udfs.driver import check_present, quoted
from vista_spark.compiling import TensorPipeline, compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer
from vista_spark.serving import Scorer
from vista_spark.transfer import TransferPredictor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from udfs.cascades import Member

__all__ = ["aligned", "as_member", "bind"]

_BINARY = 2


def as_member(argument: str, model: Any) -> Any:
    """Return a model as a stage, function or column that :func:`bind` accepts; compile other models.

    Raises
    ------
    InvalidArgumentError
        The model cannot be a member of a cascade.
    """
    if hasattr(model, "featurizer"):  # a variant of a catalog
        return model.featurizer()
    if isinstance(model, str | Scorer) or _is_function(model) or hasattr(model, "class_scores"):
        return model
    try:
        return _compiled(model)
    except Exception as error:
        raise InvalidArgumentError(
            f"{argument} must be a featurizer whose layer has class scores, a pipeline of a featurizer and a "
            "classifier, a feature transfer, a model that compile_pipeline accepts, a scorer of a server, a "
            "BatchFunction, a model with a method class_scores, or the name of a column with probabilities, got "
            f"{type(model).__name__}: {error}"
        ) from error


def bind(name: str, model: Any, dataset: DataFrame) -> ClassScores:
    """Return the class scores of a model for a DataFrame, before a job starts.

    Raises
    ------
    ColumnError
        A column is missing, or has the wrong type.
    InvalidArgumentError
        The model has no class scores.
    """
    if isinstance(model, str):
        return _column(name, model, dataset)
    try:
        if isinstance(model, PipelineModel):
            return _chain(name, model, dataset)
        if hasattr(model, "class_scores"):
            scores: ClassScores = model.class_scores(dataset)
            return scores
    except (ColumnError, InvalidArgumentError) as error:
        raise type(error)(f"{name} must have class scores, got {type(model).__name__}: {error}") from error
    function = model.batch_function(dataset.sparkSession) if isinstance(model, Scorer) else model
    check_present(dataset, function.reads, name)
    columns = [field.name for field in function.adds if _holds_scores(field.type)]
    if len(columns) != 1:
        raise InvalidArgumentError(
            f"{name} must add one column of numbers, the class scores, got {', '.join(f.name for f in function.adds)}."
        )
    digest = identity_of(bytes(cloudpickle.dumps(function)))  # type: ignore[no-untyped-call]
    return ClassScores(function, {column: column for column in function.reads}, digest=digest, column=columns[0])


def aligned(names: Sequence[str], scores: Sequence[ClassScores], labels: Sequence[Any]) -> tuple[Member, ...]:
    """Return members with their classes in the order of the oracle's, which is last.

    Classes are compared by name if the oracle names them, and by place otherwise.

    Raises
    ------
    InvalidArgumentError
        A proxy knows a class that the oracle does not know, or has another number of classes.
    """
    if scores[-1].labels is None:
        scores = [replace(each, labels=None) for each in scores]
    return tuple(each.member(name, labels) for name, each in zip(names, scores, strict=True))


def _is_function(model: Any) -> bool:
    return all(hasattr(model, attribute) for attribute in ("batch_size", "reads", "adds", "open"))


def _holds_scores(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    return bool(pa.types.is_floating(inner))


def _compiled(model: Any) -> Any:
    """Return a stage of class scores, or a pipeline of a featurizer and a classifier of its features."""
    stages = _flat(model)
    first, last = stages[0], stages[-1]
    if isinstance(last, TransferPredictor):
        featurizers = [stage for stage in stages if isinstance(stage, CNNFeaturizer | TextFeaturizer)]
        _check_unread(
            stages[: -1 - len(featurizers)], [*last.inputs.structured, *(s.getInputCol() for s in featurizers)]
        )
        return PipelineModel([*featurizers, TransferPredictor(_table(last.model), last.inputs)])
    if len(stages) > 1 and isinstance(first, CNNFeaturizer | TextFeaturizer):
        return PipelineModel([first, _table(PipelineModel(stages[1:]))])
    return first if hasattr(first, "class_scores") and len(stages) == 1 else _table(model)


def _check_unread(stages: Sequence[Any], read: Sequence[str]) -> None:
    """Raise InvalidArgumentError if a transfer reads a column of the stages before it, which index labels."""
    for stage in stages:
        made = [
            stage.getOrDefault(name)
            for name in ("outputCol", "outputCols")
            if stage.hasParam(name) and stage.isDefined(name)
        ]
        columns = [column for each in made for column in ([each] if isinstance(each, str) else each)]
        if not columns or set(columns) & set(read):
            raise InvalidArgumentError(
                f"stages before a feature transfer must add columns that it does not read, got {type(stage).__name__}. "
                "Transform the table with it first, and pass the transfer."
            )


def _flat(model: Any) -> list[Any]:
    """Return the stages of nested pipelines and transfers."""
    model = getattr(model, "best_model", model)
    return [part for stage in model.stages for part in _flat(stage)] if isinstance(model, PipelineModel) else [model]


def _table(model: Any) -> TensorPipeline:
    """Compile a model of a table."""
    first, *others = _flat(model)
    if isinstance(first, TensorPipeline) and not others:
        return first
    compiled = compile_pipeline(model)
    stage = TensorPipeline(compiled=compiled)
    if isinstance(model, Transformer) and compiled.columns is None:
        # It reads one column of vectors.
        names = (first.getOrDefault(name) for name in ("featuresCol", "inputCol", "inputCols") if first.hasParam(name))
        column = next(names)
        stage.setFeaturesCol(column if isinstance(column, str) else column[0])
    return stage


def _column(name: str, column: str, dataset: DataFrame) -> ClassScores:
    value = _numbers(name, column, dataset)
    is_single = isinstance(dataset.schema[column].dataType, NumericType)
    kind = pa.float64() if is_single else pa.list_(pa.float64())
    return ClassScores(ColumnScores(column, kind), {column: value}, width=_BINARY if is_single else 0)


def _numbers(name: str, column: str, dataset: DataFrame) -> Column:
    """Return a column of numbers as doubles, or of vectors or arrays as arrays of doubles."""
    check_present(dataset, [column], name)
    kind, value = dataset.schema[column].dataType, F.col(quoted(column))
    if isinstance(kind, VectorUDT):
        return F.when(value.isNotNull(), vector_to_array(value))
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        return value.cast("array<double>")
    if not isinstance(kind, NumericType):
        raise ColumnError(
            f"column {column!r} must be a vector, an array or a number for {name}, got {kind.simpleString()}."
        )
    return value.cast("double")


def _chain(name: str, model: PipelineModel, dataset: DataFrame) -> ClassScores:
    """Return the scores of a classifier of the features of a featurizer and, in a transfer, of numbers."""
    *before, last = cast("list[Any]", model.stages)
    inputs = last.inputs if isinstance(last, TransferPredictor) else None
    classifier = last if inputs is None else last.model
    featurizer = before[0] if before else None
    features = featurizer.class_scores(dataset) if featurizer else None
    column = classifier.getFeaturesCol()
    if featurizer and inputs is None and featurizer.getOutputCols() != [column]:
        raise ColumnError(
            f"classifier must read the features of the pipeline, {', '.join(featurizer.getOutputCols())}, got "
            f"{column!r}. Set outputCols of the featurizer to the featuresCol of the classifier."
        )
    width = (features.width if features else 0) + (inputs.structured_size if inputs else 0)
    expected = classifier.getCompiled().program.width
    if width != expected:
        raise ColumnError(f"classifier must read {width} features, got one of {expected}.")
    # The features are in no column of the DataFrame.
    scores = classifier.class_scores(dataset.sparkSession.createDataFrame([], f"`{column}` array<double>"))
    numbers = {each: _numbers(name, each, dataset) for each in (inputs.structured if inputs else ())}
    scoring = replace(scores.function, batch_size=features.function.batch_size) if features else scores.function
    return ClassScores(
        Chained(features.function if features else None, scoring, tuple(numbers)),
        {**(features.reads if features else {}), **numbers},
        scores.labels,
        scores.width,
        identity_of((features.digest if features else "").encode(), scores.digest.encode()),
    )

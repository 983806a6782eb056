"""Models as members of a cascade: what they read, their classes, and the function that executors run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.ml import PipelineModel, Transformer
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, NumericType

from udfs.cascades import Chained, ColumnScores, Member
from udfs.compiling import PipelineScoring, from_bytes
from udfs.driver import check_present, quoted
from vista_spark.compiling import TensorPipeline, compile_pipeline
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.features import CNNFeaturizer, TextFeaturizer, inference_of
from vista_spark.serving import Scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from optimizer.compiling import Program
    from udfs.arrow import BatchFunction

__all__ = ["BoundMember", "as_member", "bind"]

_SCORES = "scores"
_STAGES = 2
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class BoundMember:
    """A member of a cascade for one DataFrame.

    Parameters
    ----------
    member : Member
        Function and identity.
    reads : mapping of str to Column or str
        For each column that the function reads, a column of the DataFrame or an expression.
    labels : tuple or None
        Classes in the order of the scores; ``None`` if the model does not name them.
    width : int
        Number of classes; 0 if only the scores show it.
    """

    member: Member
    reads: dict[str, Column | str]
    labels: tuple[Any, ...] | None
    width: int

    def aligned(self, labels: Sequence[Any]) -> Member:
        """Return the member with its classes in the order of the oracle's.

        Raises
        ------
        InvalidArgumentError
            The member knows a class that the oracle does not know, or has another number of classes.
        """
        known = list(labels)
        if self.labels is not None:
            strange = [label for label in self.labels if label not in known]
            if strange:
                raise InvalidArgumentError(
                    f"{self.member.name} must have classes of the oracle ({_listed(known)}), got {_listed(strange)}. "
                    "Fit it on the labels of the oracle."
                )
            return replace(self.member, classes=tuple(known.index(label) for label in self.labels))
        if self.width not in (0, len(known)):
            raise InvalidArgumentError(
                f"{self.member.name} must have scores of the {len(known)} classes of the oracle, got {self.width}. "
                "Choose a layer, or fit it on the labels of the oracle."
            )
        return self.member


def as_member(argument: str, model: Any) -> Any:
    """Return a model as a stage or function that :func:`bind` accepts; compile other models.

    Raises
    ------
    InvalidArgumentError
        The model cannot be a member of a cascade.
    """
    if isinstance(model, str | CNNFeaturizer | TextFeaturizer | TensorPipeline | Scorer) or _is_function(model):
        return model
    if isinstance(model, PipelineModel) and _featurizer(model) is not None:
        featurizer, classifier = model.stages
        return PipelineModel([featurizer, as_member(argument, classifier)])
    try:
        compiled = compile_pipeline(model)
    except Exception as error:
        raise InvalidArgumentError(
            f"{argument} must be a featurizer whose layer has class scores, a pipeline of a featurizer and a "
            "classifier, a model that compile_pipeline accepts, a scorer of a server, a BatchFunction, or the name of "
            f"a column with probabilities, got {type(model).__name__}: {error}"
        ) from error
    stage = TensorPipeline(compiled=compiled)
    if isinstance(model, Transformer) and model.hasParam("featuresCol") and compiled.columns is None:
        stage.setFeaturesCol(model.getOrDefault("featuresCol"))
    return stage


def bind(name: str, model: Any, dataset: DataFrame) -> BoundMember:
    """Bind a model to the columns of a DataFrame, before a job starts.

    Raises
    ------
    ColumnError
        A column is missing, or has the wrong type.
    InvalidArgumentError
        The model has no class scores.
    """
    if isinstance(model, str):
        return _column(name, model, dataset)
    if isinstance(model, PipelineModel):
        return _pipeline(name, model, dataset)
    if isinstance(model, TensorPipeline):
        scoring, reads = model.class_scores(dataset)
        labels, width = _classes(model.getCompiled().program)
        return BoundMember(Member(name, scoring, _SCORES, digest=_digest(scoring)), reads, labels, width)
    if isinstance(model, CNNFeaturizer | TextFeaturizer):
        inference, key, width = _network(name, model, dataset)
        read = {column: column for column in inference.reads}
        return BoundMember(Member(name, inference, _SCORES, digest=key), dict(read), None, width)
    function = model.batch_function(dataset.sparkSession) if isinstance(model, Scorer) else model
    check_present(dataset, function.reads, name)
    scores = [field.name for field in function.adds if _holds_scores(field.type)]
    if len(scores) != 1:
        raise InvalidArgumentError(
            f"{name} must add one column of numbers, the class scores, got {', '.join(f.name for f in function.adds)}."
        )
    member = Member(name, function, scores[0], digest=_digest(function))
    return BoundMember(member, {column: column for column in function.reads}, None, 0)


def _is_function(model: Any) -> bool:
    return all(hasattr(model, attribute) for attribute in ("batch_size", "reads", "adds", "open"))


def _holds_scores(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    return bool(pa.types.is_floating(inner))


def _featurizer(model: PipelineModel) -> CNNFeaturizer | TextFeaturizer | None:
    stages = model.stages
    first = stages[0] if len(stages) == _STAGES else None
    return first if isinstance(first, CNNFeaturizer | TextFeaturizer) else None


def _column(name: str, column: str, dataset: DataFrame) -> BoundMember:
    check_present(dataset, [column], name)
    kind, value = dataset.schema[column].dataType, F.col(quoted(column))
    numbers = pa.list_(pa.float64())
    if isinstance(kind, VectorUDT):
        value = F.when(value.isNotNull(), vector_to_array(value))
    elif isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        value = value.cast("array<double>")
    elif isinstance(kind, NumericType):
        value, numbers = value.cast("double"), pa.float64()
    else:
        raise ColumnError(
            f"column {column!r} must hold class probabilities (a vector, an array or a number) for {name}, got "
            f"{kind.simpleString()}."
        )
    function = ColumnScores(column, numbers)
    return BoundMember(
        Member(name, function, _SCORES), {column: value}, None, 2 if isinstance(kind, NumericType) else 0
    )


def _pipeline(name: str, model: PipelineModel, dataset: DataFrame) -> BoundMember:
    featurizer, classifier = _featurizer(model), model.stages[-1]
    assert featurizer is not None  # as_member
    assert isinstance(classifier, TensorPipeline)
    columns = featurizer.getOutputCols()
    if columns != [classifier.getFeaturesCol()]:
        raise ColumnError(
            f"{name} must classify the features that it computes, {', '.join(columns)}, got "
            f"{classifier.getFeaturesCol()!r}. Set outputCols of the featurizer to the featuresCol of the classifier."
        )
    inference, key, width = _network(name, featurizer, dataset)
    program = classifier.getCompiled().program
    if width != program.width:
        raise ColumnError(f"{name} must have a classifier of {width} features, got one of {program.width}.")
    empty = dataset.sparkSession.createDataFrame([], f"`{columns[0]}` array<double>")
    scoring, _ = classifier.class_scores(empty)
    labels, classes = _classes(program)
    function = Chained(inference, replace(scoring, batch_size=inference.batch_size))
    digest = _hash(key.encode(), _digest(scoring).encode())
    reads: dict[str, Column | str] = {column: column for column in inference.reads}
    return BoundMember(Member(name, function, _SCORES, digest=digest), reads, labels, classes)


def _network(name: str, stage: CNNFeaturizer | TextFeaturizer, dataset: DataFrame) -> tuple[Any, str, int]:
    """Return the inference of a featurizer of one vector, its identity, and the length of the vector."""
    net = stage.open_network()
    several = isinstance(stage, CNNFeaturizer) and stage.isDefined(stage.inputCols)
    columns = stage.getOrDefault("inputCols") if several else [stage.getInputCol()]
    for column in columns:
        net.reads.check(dataset, column, name)
    layers = net.layers(stage.getLayers())
    if len(layers) > 1 and stage.getCombine() is None:
        raise InvalidArgumentError(
            f"{name} must be a featurizer of one layer, got {', '.join(layer.name for layer in layers)}. Set combine, "
            "or one layer."
        )
    net.check()
    identity = inference_of(stage, net, reads=columns, outputs=[_SCORES])
    inference = inference_of(stage, net.shipped(dataset.sparkSession), reads=columns, outputs=[_SCORES])
    sizes = [net.length(feature.layer, feature.pooling) for feature in identity.features]
    width = sum(sizes) if stage.getCombine() == "concat" else sizes[0]
    return inference, _hash(f"{net.source.key}|{identity.feeds}|{identity.features}".encode()), width


def _classes(program: Program) -> tuple[tuple[Any, ...] | None, int]:
    """Return the labels of a classifier, and their number."""
    labels = program.outputs["predict"].labels
    width = program.widths[program.outputs["predict_proba"].node]
    if not isinstance(labels, np.ndarray):
        return None, width
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels.tolist()]
    return tuple(label if isinstance(label, str) else float(label) for label in plain), width


def _digest(function: BatchFunction | PipelineScoring) -> str:
    """Return the identity of a function; a pipeline has the same in all processes."""
    if isinstance(function, PipelineScoring):
        # Bytes of one program differ from call to call.
        program = from_bytes(function.program).digest
        return _hash(program.encode(), repr(replace(function, program=b"", batch_size=1)).encode())
    return _hash(bytes(cloudpickle.dumps(function)))  # type: ignore[no-untyped-call]


def _hash(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, labels[:_SHOWN]))
    return f"{shown} and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else shown

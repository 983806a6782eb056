"""Downstream model as a stage that keeps rows it cannot predict, with the reason."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.ml import Model, PipelineModel
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import Vector, VectorUDT
from pyspark.ml.param import Param
from pyspark.ml.util import DefaultParamsWriter, MLWritable
from pyspark.sql import functions as F

from udfs.arrow import ERROR_POLICIES
from udfs.driver import UNBOUND, StageReadable, StageReader, accessors, check_absent, check_present, one_of, quoted
from vista_spark.transfer._columns import NULL_FEATURE, first_missing

if TYPE_CHECKING:
    from pyspark.ml import Transformer
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["FEATURES", "PREDICTION_ERROR", "PredictorInputs", "TransferPredictor", "plain"]

FEATURES = "transfer_features"
"""The column in which the downstream model finds its features."""

PREDICTION_ERROR = "transfer_error"
"""The column with the reason for which a row has no prediction; null for a good row."""

_LENGTH = "structured features of another length"
_GIVEN = "transfer_given"
_MODEL = "downstream"
_INPUTS = "inputs"
# Above, an example's numbers would make a query of thousands of literals.
_EXAMPLE = 256


@dataclass(frozen=True, slots=True)
class PredictorInputs:
    """Columns that a downstream model predicts from, as they were in training.

    ``structured`` are numbers or Spark ML vectors, in the order of the features, with ``structured_size`` numbers.
    ``image`` is the column of the image features, null for a bad image, with ``image_size`` numbers; ``None`` where the
    model needs no image. ``kind`` of input of the network is for the reasons. ``label`` is one of which a stage of the
    downstream pipeline makes what is learned (``target``, which is left out): that stage reads ``known_label`` in all
    rows, as new ones need not have a label. ``carried`` are other columns that the model reads, each with the value of
    the row of that label, as :func:`plain` makes it; ``nullable`` columns may be null. ``example`` are the structured
    features of that row, empty where they are many.
    """

    structured: tuple[str, ...]
    structured_size: int
    image: str | None = None
    image_size: int = 0
    kind: str = "image"
    label: str | None = None
    target: str = ""
    known_label: Any = None
    carried: dict[str, Any] = field(default_factory=dict)
    nullable: tuple[str, ...] = ()
    example: tuple[float, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Columns of the user that the model reads."""
        return tuple(dict.fromkeys((*self.structured, *self.carried)))

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that a row must have a value of."""
        return tuple(name for name in self.named if name in self.structured or name not in self.nullable)

    @staticmethod
    def short(numbers: list[float]) -> tuple[float, ...]:
        """Keep an example that is short enough for a query."""
        return tuple(numbers) if len(numbers) <= _EXAMPLE else ()


class TransferPredictor(Model, StageReadable, MLWritable):
    """The downstream model of a transfer: the last stage of its ``best_model``.

    Rows that it cannot predict stay: their predictions and features are null, and ``transfer_error`` says why, in the
    words in which :attr:`vista_spark.TransferResult.dropped` counts such rows of the training. Any Spark ML model does
    for the `model`: it is given the values of a row that it knows in place of those that are missing, and what it makes
    of them is thrown away. So a batch and a stream, on classic Spark and on Connect, are one query without a join.

    Parameters
    ----------
    model : pyspark.ml.Transformer
        Reads ``transfer_features``.
    inputs : PredictorInputs
        Columns that the predictor reads.

    Attributes
    ----------
    model : pyspark.ml.Transformer
        The downstream model.
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    errors: Param[str] = Param(
        UNBOUND,
        "errors",
        "policy for a row that cannot be predicted: " + " | ".join(ERROR_POLICIES),
        one_of("errors", ERROR_POLICIES),
    )

    def __init__(self, model: Transformer, inputs: PredictorInputs) -> None:
        super().__init__()
        self.model = model
        self._inputs = inputs
        self._setDefault(errors="null")

    @property
    def inputs(self) -> PredictorInputs:
        """The columns that it predicts from."""
        return self._inputs

    getErrors, setErrors = accessors(errors, "the policy for rows that cannot be predicted")

    def followed_by(self, stage: Transformer) -> TransferPredictor:
        """Copy the stage with another one that reads the predictions, such as ``IndexToString``.

        What the stage adds is null too where there is no prediction. Behind the predictor it would meet those nulls,
        which many stages refuse.

        Parameters
        ----------
        stage : pyspark.ml.Transformer
            Stage that reads the predictions.
        """
        twin = self.copy()
        twin.model = PipelineModel([self.model, stage])
        return twin

    def copy(self, extra: Any = None) -> TransferPredictor:
        """Copy the stage; ``extra`` Params go to the downstream model too."""
        twin: TransferPredictor = super().copy(extra)
        twin.model = self.model.copy(extra)
        return twin

    def write(self) -> _Writer:
        """Return a writer of the model and its inputs."""
        return _Writer(self)

    @classmethod
    def read(cls) -> StageReader:
        """Return a reader of saved stages."""
        return _Reader(cls)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        inputs = self._inputs
        check_present(dataset, inputs.named, type(self).__name__)
        own_names = [FEATURES, _GIVEN, *([PREDICTION_ERROR] if inputs.image is None else [])]
        check_absent(dataset, own_names, "the name is the transfer's own: drop or rename it")
        reason = self._reason(dataset)
        good = F.col(PREDICTION_ERROR).isNull()
        df = dataset.withColumn(PREDICTION_ERROR, reason)
        if self.getErrors() == "drop":
            df = df.where(good)
        df = df.withColumn(FEATURES, self._features(dataset, good))
        values = {
            name: F.when(good, F.col(quoted(name))).otherwise(_literal(value, dataset.schema[name].dataType))
            for name, value in inputs.carried.items()
        }
        if inputs.label is not None:
            values[inputs.label] = F.lit(inputs.known_label)
        present = [name for name in values if name in dataset.columns]
        if present:
            df = df.withColumn(_GIVEN, F.struct(*(F.col(quoted(name)) for name in present)))
        if values:
            df = df.withColumns(values)
        predicted = self.model.transform(df)
        hidden = () if inputs.label is None else (inputs.target,)
        added = [name for name in predicted.columns if name not in (*df.columns, *hidden)]
        # What the model says of a row that it was given in place of a bad one is nothing.
        own_fields = {name: predicted.schema[name] for name in (FEATURES, *added)}
        predicted = predicted.withColumns(
            {
                name: F.when(good, F.col(quoted(name))).alias(name, metadata=entry.metadata)
                for name, entry in own_fields.items()
            }
        )
        if present:
            predicted = predicted.withColumns({name: F.col(_GIVEN).getField(name) for name in present})
        last = [PREDICTION_ERROR] if self.getErrors() == "null" else []
        before = [name for name in dataset.columns if name != PREDICTION_ERROR]
        return predicted.select(*(F.col(quoted(name)) for name in (*before, FEATURES, *added, *last)))

    def _reason(self, df: DataFrame) -> Column:
        """Build the column with the reason why a row cannot be predicted; null for a good row."""
        inputs = self._inputs
        missing = first_missing(df, inputs.required)
        reason = F.when(missing.isNotNull(), F.concat(F.lit(f"{NULL_FEATURE} '"), missing, F.lit("'")))
        if any(isinstance(df.schema[name].dataType, VectorUDT) for name in inputs.structured):
            reason = reason.when(F.size(_numbers(df, inputs.structured)) != inputs.structured_size, F.lit(_LENGTH))
        if inputs.image is None:
            return reason.otherwise(F.lit(None).cast("string"))
        if PREDICTION_ERROR in df.columns:
            image_reason = F.col(PREDICTION_ERROR)
            reason = reason.when(image_reason.isNotNull(), F.concat(F.lit(f"{inputs.kind}: "), image_reason))
        return reason.when(F.col(inputs.image).isNull(), F.lit(f"{inputs.kind}: null"))

    def _features(self, df: DataFrame, good: Column) -> Column:
        inputs = self._inputs
        parts = _numbers(df, inputs.structured) if inputs.structured else _zeros(inputs.structured_size)
        known = F.array(*map(F.lit, inputs.example)) if inputs.example else _zeros(inputs.structured_size)
        if inputs.image is not None:
            parts = F.concat(parts, vector_to_array(F.col(inputs.image)))
            known = F.concat(known, _zeros(inputs.image_size))
        if self.getErrors() == "raise":
            message = F.concat(F.lit(f"{type(self).__name__}: a row has no prediction: "), F.col(PREDICTION_ERROR))
            known = F.raise_error(message).cast("array<double>")
        vector = array_to_vector(F.when(good, parts).otherwise(known))
        return vector.alias(FEATURES, metadata={"ml_attr": {"num_attrs": inputs.structured_size + inputs.image_size}})


def _numbers(df: DataFrame, names: tuple[str, ...]) -> Column:
    """Put columns of numbers and of vectors into one array."""
    parts = []
    for name in names:
        column = F.col(quoted(name))
        is_vector = isinstance(df.schema[name].dataType, VectorUDT)
        parts.append(vector_to_array(column) if is_vector else F.array(column.cast("double")))
    return F.concat(*parts)


def plain(value: Any) -> Any:
    """Convert a value of a row to what JSON holds: vectors and arrays to lists, decimals to floats."""
    if isinstance(value, Vector):
        return value.toArray().tolist()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else None


def _literal(value: Any, kind: DataType) -> Column:
    if not isinstance(value, list):
        return F.lit(value).cast(kind)
    array = F.array(*map(F.lit, value))
    return array_to_vector(array) if isinstance(kind, VectorUDT) else array.cast(kind)


def _zeros(count: int) -> Column:
    return F.array_repeat(F.lit(0.0), count)


class _Writer(DefaultParamsWriter):
    def saveImpl(self, path: str) -> None:
        stage: Any = self.instance
        self.saveMetadata(stage, path, self.sparkSession, extraMetadata={_INPUTS: asdict(stage._inputs)})  # noqa: SLF001
        # A pipeline saves models of all kinds, a Pipeline's and a CrossValidator's too.
        PipelineModel([stage.model]).save(os.path.join(path, _MODEL))  # noqa: PTH118 - may be a URI


class _Reader(StageReader):
    def load(self, path: str) -> Any:
        metadata = self._metadata(path)
        (model,) = PipelineModel.load(os.path.join(path, _MODEL)).stages  # noqa: PTH118
        stored = metadata[_INPUTS]
        tuples = {name: tuple(stored[name]) for name in ("structured", "nullable", "example")}
        inputs = PredictorInputs(**stored | tuples)
        return self._with_params(self.cls(model, inputs), metadata)  # type: ignore[call-arg]

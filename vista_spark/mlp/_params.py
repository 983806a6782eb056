"""Params of the perceptron's stages, and their columns as the network reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, cast

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.param import Param
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasMaxIter,
    HasPredictionCol,
    HasRegParam,
    HasSeed,
    HasStandardization,
    HasStepSize,
    HasWeightCol,
)
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, NumericType

from udfs.driver import (
    UNBOUND,
    above,
    accessors,
    at_least,
    check_present,
    device_name,
    is_numeric,
    one_of,
    optional_accessors,
    quoted,
    setter,
    sizes,
)
from udfs.gang import BACKENDS
from vista_spark.errors import ColumnError, LabelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["SOLVERS", "HasNetworkCols", "HasTraining", "features_array", "label_number", "weight_number"]

SOLVERS = ("adam", "sgd")


class HasNetworkCols(HasFeaturesCol, HasLabelCol, HasPredictionCol, HasWeightCol):
    """Params for the columns of a network that predicts, and for its device."""

    device: Param[str] = Param(UNBOUND, "device", "auto | cpu | cuda | ...", device_name)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(device="auto")

    setFeaturesCol = setter(HasFeaturesCol.featuresCol, "the column of features")
    setLabelCol = setter(HasLabelCol.labelCol, "the column of labels")
    setPredictionCol = setter(HasPredictionCol.predictionCol, "the column for predictions")
    setWeightCol = setter(HasWeightCol.weightCol, "the column of the rows' weights")

    @property
    def _hasWeight(self) -> bool:
        """True if the rows have weights."""
        return bool(self.isDefined(self.weightCol) and self.getWeightCol())

    getDevice, setDevice = accessors(device, "the device of the network")


class HasTraining(HasMaxIter, HasStepSize, HasRegParam, HasStandardization, HasSeed):
    """Params of a training."""

    layers: Param[list[int]] = Param(UNBOUND, "layers", "units of each hidden layer", sizes("layers"))
    maxIter: Param[int] = Param(UNBOUND, "maxIter", "epochs: passes over the rows", at_least("maxIter", 1))
    stepSize: Param[float] = Param(UNBOUND, "stepSize", "learning rate", above("stepSize", 0.0))
    regParam: Param[float] = Param(
        UNBOUND, "regParam", "L2: times half the sum of the squared weights", above("regParam", 0.0, or_equal=True)
    )
    solver: Param[str] = Param(UNBOUND, "solver", " | ".join(SOLVERS), one_of("solver", SOLVERS))
    batchSize: Param[int] = Param(
        UNBOUND, "batchSize", "rows of a step, those of all workers together", at_least("batchSize", 1)
    )
    numWorkers: Param[int] = Param(
        UNBOUND, "numWorkers", "tasks that train together; all task slots by default", at_least("numWorkers", 1)
    )
    backend: Param[str] = Param(
        UNBOUND, "backend", "of the all-reduce: " + " | ".join(BACKENDS), one_of("backend", BACKENDS)
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            layers=[1024, 1024, 1024],
            maxIter=10,
            stepSize=1e-3,
            regParam=0.0,
            solver="adam",
            batchSize=128,
            backend="gloo",
            standardization=True,
            seed=0,
        )

    def getLayers(self) -> list[int]:
        """Return the number of units of each hidden layer."""
        return cast("list[int]", self.getOrDefault("layers"))

    def setLayers(self, value: Sequence[int]) -> Self:
        """Set the units of each hidden layer; none makes a linear model."""
        return self._set(layers=value)

    setMaxIter = setter(maxIter, "the number of epochs")
    setStepSize = setter(stepSize, "the learning rate")
    setRegParam = setter(regParam, "the weight of the L2 penalty")
    setStandardization = setter(HasStandardization.standardization, "whether features are standardised")
    getSolver, setSolver = accessors(solver, "the name of the optimizer")
    getBatchSize, setBatchSize = accessors(batchSize, "the number of rows of a step, summed over all workers")
    getBackend, setBackend = accessors(backend, "the backend of the all-reduce that sums gradients over the workers")
    getNumWorkers, setNumWorkers = optional_accessors(numWorkers, "the number of tasks that train together")
    setSeed = setter(HasSeed.seed, "the seed of the first weights and of the order of the rows")


def features_array(df: DataFrame, column: str, what: str, size: int | None = None) -> Column:
    """Cast features to ``array<float>``, null where they are null.

    Raises
    ------
    ColumnError
        No such column, of a type that holds no features, or known to be of another length than ``size``.
    """
    check_present(df, [column], what)
    field = df.schema[column]
    known = field.metadata.get("ml_attr", {}).get("num_attrs")
    if size is not None and known not in (None, size):
        raise ColumnError(f"column {column!r} of {what} must have {size} features, as in training, got {known}.")
    features = F.col(quoted(column))
    if isinstance(field.dataType, VectorUDT):
        return F.when(features.isNotNull(), vector_to_array(features, "float32"))
    if isinstance(field.dataType, ArrayType) and isinstance(field.dataType.elementType, NumericType):
        return features.cast("array<float>")
    raise ColumnError(
        f"column {column!r} of {what} must be a Spark ML vector (pyspark.ml.feature.VectorAssembler makes one) or an "
        f"array of numbers, got {field.dataType.simpleString()}."
    )


def label_number(df: DataFrame, column: str, what: str) -> Column:
    """Cast a label to a double.

    Raises
    ------
    ColumnError
        No such column.
    LabelError
        It holds no numbers.
    """
    check_present(df, [column], what)
    kind = df.schema[column].dataType
    if not is_numeric(kind):
        raise LabelError(
            f"label {column!r} of {what} must be a number, got {kind.simpleString()}: pyspark.ml.feature.StringIndexer "
            "makes numbers of classes"
        )
    return F.col(quoted(column)).cast("double")


def weight_number(df: DataFrame, column: str, what: str) -> Column:
    """Cast a weight to a double.

    Raises
    ------
    ColumnError
        No such column, or it holds no numbers.
    """
    check_present(df, [column], what)
    kind = df.schema[column].dataType
    if not is_numeric(kind):
        raise ColumnError(f"weight {column!r} of {what} must be a number, got {kind.simpleString()}.")
    return F.col(quoted(column)).cast("double")

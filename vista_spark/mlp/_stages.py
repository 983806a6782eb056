"""``MLPClassifier`` and ``MLPRegressor``: perceptrons trained by the cluster (Vista, sections 4.3 and 5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.param.shared import HasProbabilityCol, HasRawPredictionCol
from pyspark.ml.util import DefaultParamsWritable, MLReadable, MLWritable
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from udfs.arrow import RowMap, RowPolicy
from udfs.driver import (
    NetworkReader,
    NetworkWriter,
    StageReadable,
    check_absent,
    check_present,
    map_rows,
    quoted,
    setter,
    task_slots,
    validate_arguments,
)
from udfs.mlp import Scoring, Training
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError
from vista_spark.mlp._params import HasNetworkCols, HasTraining, features_array, label_number, weight_number
from vista_spark.mlp._summary import MLPClassificationSummary, MLPRegressionSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from udfs.gang import Backend
    from udfs.mlp.network import Perceptron

__all__ = ["MLPClassificationModel", "MLPClassifier", "MLPRegressionModel", "MLPRegressor"]

# Weights travel to the workers inside the query: Spark Connect takes messages of 128 MiB, an Arrow value ends at 2 GiB.
_LARGEST_CONNECT = 120 * 2**20
_LARGEST_CLASSIC = 2**31 - 2**20

_FAULTS: Mapping[str, type[ColumnError | EmptyInputError | InvalidArgumentError | LabelError]] = {
    "empty": EmptyInputError,
    "features": ColumnError,
    "label": LabelError,
    "size": InvalidArgumentError,
    "step": InvalidArgumentError,
}


class _Fitted(HasNetworkCols, MLReadable[Any], MLWritable):
    """A trained network, and the facts of its training."""

    _regression: ClassVar[bool]

    def __init__(self, network: bytes = b"", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._network = network
        self._facts = dict(facts or {})

    @property
    def numFeatures(self) -> int:
        """Length of the feature vectors."""
        return int(self._facts["sizes"][0])

    @property
    def layers(self) -> list[int]:
        """Sizes of all layers: input, hidden, output."""
        return list(self._facts["sizes"])

    @property
    def lossHistory(self) -> list[float]:
        """Mean loss over the rows in each epoch, taken before the step that each led to; without the L2 penalty."""
        return list(self._facts["losses"])

    @property
    def numRows(self) -> int:
        """Rows that it was trained on."""
        return int(self._facts["rows"])

    @property
    def numWorkers(self) -> int:
        """Tasks that trained it together."""
        return int(self._facts["tasks"])

    def toTorch(self) -> Perceptron:
        """Return the network as a ``torch.nn.Module`` of raw features, with logits (n, classes) or values (n, 1)."""
        from udfs.mlp.network import from_bytes  # imports torch

        return from_bytes(self._network)

    def _labelled(self, dataset: DataFrame, predict: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Predict, with the label as a double; rows without a prediction, a label or a weight are left out."""
        label = label_number(dataset, self.getLabelCol(), type(self).__name__)
        named = [self.getPredictionCol(), self.getLabelCol(), *([self.getWeightCol()] if self._hasWeight else [])]
        check_present(dataset, named[1:], type(self).__name__)
        predicted = predict(dataset.withColumn(self.getLabelCol(), label))
        for column in named:
            predicted = predicted.where(F.col(quoted(column)).isNotNull())
        return predicted

    def _summary_columns(self) -> tuple[str, str, str | None]:
        return self.getPredictionCol(), self.getLabelCol(), self.getWeightCol() if self._hasWeight else None

    def write(self) -> NetworkWriter:
        """A writer of Params and facts (JSON) and weights (safetensors)."""
        return NetworkWriter(self)

    @classmethod
    def read(cls) -> NetworkReader:
        """A reader of what :meth:`write` wrote."""
        return NetworkReader(cls)

    def _score(self, dataset: DataFrame, raw: str | None = None, probability: str | None = None) -> DataFrame:
        if is_remote() and len(self._network) > _LARGEST_CONNECT:
            raise InvalidArgumentError(
                f"{len(self._network):,} bytes of weights do not fit into a query on Spark Connect "
                f"({_LARGEST_CONNECT:,}): use classic Spark, or train smaller layers"
            )
        features = features_array(dataset, self.getFeaturesCol(), type(self).__name__, self.numFeatures)
        vectors = {name: self._facts["sizes"][-1] for name in (raw, probability) if name is not None}
        if len(vectors) < (raw is not None) + (probability is not None):
            raise ColumnError(f"rawPredictionCol and probabilityCol must differ, got {raw!r} for both.")
        added = [*vectors, self.getPredictionCol()]
        check_absent(dataset, added, "set another predictionCol, probabilityCol or rawPredictionCol, or drop it first")
        scoring = Scoring(self._network, "features", raw, probability, self.getPredictionCol(), self.getDevice())
        rows = RowMap(scoring, tuple(dataset.columns), RowPolicy("null"))
        return map_rows(
            dataset,
            rows,
            reads={"features": features},
            vectors=vectors,
            sends="either",
        )


class MLPClassificationModel(Model, _Fitted, HasProbabilityCol, HasRawPredictionCol):
    """The model of :class:`MLPClassifier`: adds logits, probabilities and classes as the last columns.

    Rows whose features are null, or have NaN or infinity among them, get null for all. Every other column passes
    through. The weights travel with the query: up to 120 MiB on Spark Connect.

    Raises
    ------
    vista_spark.errors.ColumnError
        On transform: features are missing, of a type that holds none, or of another length; or an output is there
        already.
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _regression = False

    @property
    def numClasses(self) -> int:
        """Number of classes; predictions are 0.0 to ``numClasses - 1``."""
        return int(self._facts["sizes"][-1])

    setProbabilityCol = setter(HasProbabilityCol.probabilityCol, "the column of the classes' probabilities")

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return self._score(dataset, self.getRawPredictionCol(), self.getProbabilityCol())

    def evaluate(self, dataset: DataFrame) -> MLPClassificationSummary:
        """Predict rows whose class is known, and measure how well.

        Parameters
        ----------
        dataset : DataFrame
            With the columns of features, label and, if there is one, weight.

        Raises
        ------
        vista_spark.errors.ColumnError, vista_spark.errors.LabelError
            As on fit, for the columns.
        """
        return MLPClassificationSummary(self._labelled(dataset, self.transform), *self._summary_columns())

    setRawPredictionCol = setter(HasRawPredictionCol.rawPredictionCol, "the column of the classes' logits")


class MLPRegressionModel(Model, _Fitted):
    """The model of :class:`MLPRegressor`: adds a prediction as the last column.

    Rows whose features are null, or have NaN or infinity among them, get null. Every other column passes through. The
    weights travel with the query: up to 120 MiB on Spark Connect.

    Raises
    ------
    vista_spark.errors.ColumnError
        On transform: features are missing, of a type that holds none, or of another length; or the output is there
        already.
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _regression = True

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return self._score(dataset)

    def evaluate(self, dataset: DataFrame) -> MLPRegressionSummary:
        """Predict rows whose label is known, and measure how well.

        Parameters
        ----------
        dataset : DataFrame
            With the columns of features, label and, if there is one, weight.

        Raises
        ------
        vista_spark.errors.ColumnError, vista_spark.errors.LabelError
            As on fit, for the columns.
        """
        return MLPRegressionSummary(self._labelled(dataset, self.transform), *self._summary_columns())


_M = TypeVar("_M", bound=_Fitted)


class _Trained(HasNetworkCols, HasTraining):
    """Base of the estimators: Params and training."""

    _input_kwargs: dict[str, Any]  # of keyword_only
    _regression: ClassVar[bool]

    @keyword_only
    def setParams(self, **params: Any) -> Any:
        """Set any of the constructor's parameters; parameters that are ``None`` are unchanged."""
        return self._set(**{name: value for name, value in params.items() if value is not None})

    def _train(self, dataset: DataFrame) -> tuple[bytes, dict[str, Any]]:
        name = type(self).__name__
        features = features_array(dataset, self.getFeaturesCol(), name)
        label = label_number(dataset, self.getLabelCol(), name)
        training = self._training(dataset)
        asked = self.getNumWorkers()
        slots = task_slots(dataset.sparkSession, wanted=asked or 1)
        workers = asked or slots
        if workers > slots:
            raise InvalidArgumentError(
                f"numWorkers={workers}, but {slots} tasks run at a time and all workers have to: lower it, or give "
                "Spark more cores"
            )
        columns = [features.alias("features"), label.alias("label")]
        if self._hasWeight:
            columns.append(weight_number(dataset, self.getWeightCol(), name).alias("weight"))
        data = dataset.select(*columns).repartition(workers)
        # The rows of a shuffle arrive in any order. This one depends on them alone, and so do the weights.
        data = data.sortWithinPartitions(F.xxhash64(*data.columns))
        rows = data.mapInArrow(training, Training.schema, barrier=True).collect()
        if not rows:  # Spark saw that there are none, and made no partition
            raise EmptyInputError("the training set must have rows, got none.")
        report = json.loads(rows[0]["report"])
        if "fault" in report:
            kind, message = report["fault"]
            raise _FAULTS[kind](f"{name}: {message}")
        return bytes(rows[0]["network"]), report

    def _fitted(self, kind: type[_M], dataset: DataFrame) -> _M:
        model = kind(*self._train(dataset))
        model._resetUid(self.uid)  # noqa: SLF001 - as Spark ML's own models have their estimator's
        return self._copyValues(model)

    def _training(self, dataset: DataFrame) -> Training:
        classes = dataset.schema[self.getLabelCol()].metadata.get("ml_attr", {}).get("vals")
        return Training(
            hidden=tuple(self.getLayers()),
            regression=self._regression,
            classes=len(classes) if classes and not self._regression else None,
            epochs=self.getMaxIter(),
            step_size=self.getStepSize(),
            solver=cast('Literal["adam", "sgd"]', self.getSolver()),
            batch_size=self.getBatchSize(),
            backend=cast("Backend", self.getBackend()),
            standardise=self.getStandardization(),
            l2=self.getRegParam(),
            seed=self.getSeed(),
            device=self.getDevice(),
            largest=_LARGEST_CONNECT if is_remote() else _LARGEST_CLASSIC,
            features=self.getFeaturesCol(),
            label=self.getLabelCol(),
            weight=self.getWeightCol() if self._hasWeight else None,
        )


@validate_arguments
class MLPClassifier(
    Estimator[MLPClassificationModel],
    _Trained,
    HasProbabilityCol,
    HasRawPredictionCol,
    StageReadable,
    DefaultParamsWritable,
):
    """Train a multi-layer perceptron on the cluster, data-parallel: the downstream deep-learning model of Vista.

    Every worker, a task of one barrier stage, holds a part of the rows in memory and takes the same steps; gradients
    meet over all-reduce (gloo, by torch or by Horovod). So the result is that of one machine with the same batches.

    Spark's own ``MultilayerPerceptronClassifier`` has sigmoid units, trains by L-BFGS on all rows at a time, and is
    told the sizes of input and output in ``layers``. This one has ReLU units, trains by mini-batches, standardises,
    regularises, runs on GPUs, and ``layers`` are the hidden ones alone.

    Parameters
    ----------
    featuresCol : str
        A Spark ML vector, dense or sparse, or an array of numbers. Default ``"features"``.
    labelCol : str
        Classes, whole numbers from 0 on; how many there are is taken from the column's metadata (``StringIndexer``
        writes it), else the greatest label tells. A class may have no rows. Default ``"label"``.
    predictionCol, probabilityCol, rawPredictionCol : str
        Columns of the model: the class, the probabilities of all classes, and their logits. Default
        ``"prediction"``, ``"probability"`` and ``"rawPrediction"``.
    weightCol : str, optional
        Weights of the rows, from 0 on: a row of weight 2 counts as two. Without it every row counts once.
    layers : list of int
        Units of the hidden layers. Default ``[1024, 1024, 1024]``, as in Vista, section 5; empty for a linear model.
    maxIter : int
        Epochs. Default 10.
    stepSize : float
        Learning rate. Default 0.001.
    solver : {"adam", "sgd"}
        Default ``"adam"``; ``"sgd"`` is without momentum.
    batchSize : int
        Rows of a step, those of all workers together. Default 128.
    numWorkers : int, optional
        Tasks that train together, each of one slot; all slots by default.
    backend : {"gloo", "horovod"}
        Sums the gradients of the workers: torch's gloo (default), or Horovod, which has to be installed where they run.
        Both give the same weights.
    standardization : bool
        Features to mean 0 and standard deviation 1 over all rows. Default true.
    regParam : float
        L2: ``regParam / 2`` times the sum of the squared weights, biases left out. Default 0.
    seed : int
        The same seed, rows (as Spark partitioned them) and workers give the same bits. Default 0.
    device : str
        ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ...

    Raises
    ------
    vista_spark.errors.InvalidArgumentError
        On fit: more workers than slots, before the job starts; a model larger than a query takes; or the loss ceased to
        be a number.
    vista_spark.errors.ColumnError, vista_spark.errors.LabelError, vista_spark.errors.EmptyInputError
        On fit: a column is missing or of the wrong type, before the job starts; features are null, NaN, infinite or of
        different lengths; labels are null, negative, fractional, or of one class; there are no rows. All are found
        after the rows are read, before a step is taken.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> rows = [([float(n), 1.0], n % 2) for n in range(8)]
    >>> df = SparkSession.active().createDataFrame(rows, "features array<float>, label int")
    >>> model = MLPClassifier(layers=[8], maxIter=2, numWorkers=1).fit(df)
    >>> model.layers, len(model.lossHistory)
    ([2, 8, 2], 2)
    >>> model.transform(df).columns
    ['features', 'label', 'rawPrediction', 'probability', 'prediction']
    >>> 0 <= model.evaluate(df).accuracy <= 1
    True
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _regression = False

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str | None = None,
        labelCol: str | None = None,
        predictionCol: str | None = None,
        probabilityCol: str | None = None,
        rawPredictionCol: str | None = None,
        weightCol: str | None = None,
        layers: Sequence[int] | None = None,
        maxIter: int | None = None,
        stepSize: float | None = None,
        solver: str | None = None,
        batchSize: int | None = None,
        numWorkers: int | None = None,
        backend: str | None = None,
        standardization: bool | None = None,
        regParam: float | None = None,
        seed: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__()
        self.setParams(**self._input_kwargs)

    setProbabilityCol = setter(HasProbabilityCol.probabilityCol, "the column of the classes' probabilities")

    setRawPredictionCol = setter(HasRawPredictionCol.rawPredictionCol, "the column of the classes' logits")

    def _fit(self, dataset: DataFrame) -> MLPClassificationModel:
        return self._fitted(MLPClassificationModel, dataset)


@validate_arguments
class MLPRegressor(Estimator[MLPRegressionModel], _Trained, StageReadable, DefaultParamsWritable):
    """Train a multi-layer perceptron for a number on the cluster, data-parallel, by the mean squared error.

    As :class:`MLPClassifier` in all that is not about classes. With ``standardization`` the label is standardised
    too, within: predictions and losses are in its own unit (and that squared).

    Parameters
    ----------
    featuresCol : str
        A Spark ML vector, dense or sparse, or an array of numbers. Default ``"features"``.
    labelCol : str
        Any finite number. Default ``"label"``.
    predictionCol : str
        Column of the prediction. Default ``"prediction"``.
    weightCol, layers, maxIter, stepSize, solver, batchSize, numWorkers, backend : object
        See :class:`MLPClassifier`.
    standardization, regParam, seed, device : object
        See :class:`MLPClassifier`.

    Raises
    ------
    vista_spark.errors.InvalidArgumentError
    vista_spark.errors.ColumnError, vista_spark.errors.LabelError, vista_spark.errors.EmptyInputError
        See :class:`MLPClassifier`.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> rows = [([float(n)], 3.0 * n) for n in range(8)]
    >>> df = SparkSession.active().createDataFrame(rows, "features array<float>, label double")
    >>> model = MLPRegressor(layers=[], maxIter=100, stepSize=0.1, batchSize=8, solver="sgd", numWorkers=1).fit(df)
    >>> round(model.transform(df).first()["prediction"], 3)
    0.0
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    _regression = True

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str | None = None,
        labelCol: str | None = None,
        predictionCol: str | None = None,
        weightCol: str | None = None,
        layers: Sequence[int] | None = None,
        maxIter: int | None = None,
        stepSize: float | None = None,
        solver: str | None = None,
        batchSize: int | None = None,
        numWorkers: int | None = None,
        backend: str | None = None,
        standardization: bool | None = None,
        regParam: float | None = None,
        seed: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__()
        self.setParams(**self._input_kwargs)

    def _fit(self, dataset: DataFrame) -> MLPRegressionModel:
        return self._fitted(MLPRegressionModel, dataset)

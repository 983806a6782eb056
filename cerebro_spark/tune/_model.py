"""``TunedModel``: Spark ML Transformer of a trained network."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pyspark.ml import Model
from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasPredictionCol, HasProbabilityCol, HasRawPredictionCol
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import functions as F

from cerebro_spark.data import choose_features
from cerebro_spark.errors import InvalidArgumentError
from optimizer.arguments import one_of
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import (
    UNBOUND,
    NetworkReader,
    NetworkWriter,
    accessors,
    as_vector,
    at_least,
    check_absent,
    map_rows,
    quoted,
    setter,
)
from udfs.inference import UNCERTAINTIES, OutputUncertainty, PoolScore, PortableNetwork, Prediction
from udfs.shards import TensorColumn, TensorGroup, load_rows
from udfs.sql import SQLModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from udfs.shards import PreparedData
    from udfs.training import Session

__all__ = ["TunedModel", "label_kind"]

Kind = Literal["classes", "positive", "tags", "value"]

# Kinds of which there are probabilities, in one vector a row.
_OF_CLASSES = ("classes", "positive")
_TOKEN_AXES = 2


class TunedModel(Model, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol, MLReadable[Any], MLWritable):
    """Transformer that predicts with a network from a search; it does not need the code that built the network.

    Get one from :attr:`Selection.best_model`, or load a saved one. It reads the columns that the network was trained
    on. ``predictionCol`` (default ``"prediction"``) is a double: the class with the largest output; for a single
    output, 1 above the threshold and 0 otherwise; or the output itself if the label is not a class.
    ``rawPredictionCol`` (default ``"rawPrediction"``) holds the outputs as a vector; a single output ``x`` that decides
    between two classes gives ``[-x, x]``, or ``[1 - x, x]`` where it is a probability. ``probabilityCol`` (default
    ``"probability"``) is the vector of the classes' probabilities: the outputs themselves if the loss takes
    probabilities, else their softmax; there is none if the label is not a class, or the Param is ``""``. So the
    evaluators of ``pyspark.ml.evaluation`` read them. All are null if a value is null, an image cannot be decoded or a
    tensor has another size.

    Parameters
    ----------
    batchSize : int
        Rows per run of the network. Default 256.

    Examples
    --------
    >>> TunedModel().getPredictionCol()
    'prediction'
    """

    __module__ = "cerebro_spark"  # the path that saved pipelines store, whichever file defines the class

    batchSize: Param[int] = Param(UNBOUND, "batchSize", "rows per run of the network", at_least("batchSize", 1))

    def __init__(self, network: bytes = b"", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._network = network
        self._facts = dict(facts or {})
        self._setDefault(
            predictionCol="prediction", rawPredictionCol="rawPrediction", probabilityCol="probability", batchSize=256
        )

    @classmethod
    def of(cls, session: Session, prepared: PreparedData) -> TunedModel:
        """Build a model from the current network of a session.

        Raises
        ------
        udfs.inference.NotPortableError
            The network cannot be written without its author's code.
        """
        rows = load_rows(prepared, "train", 2)
        network = PortableNetwork.of(session.model, session.read(rows.inputs))
        (first, *_) = session.predict(rows.inputs)
        label = prepared.labels[0]
        kind = label_kind(prepared, session, first.shape[1:])
        facts = {
            "framework": network.framework,
            "kind": kind,
            "threshold": session.threshold,
            "probabilities": session.output_kind == "probabilities",
            "inputs": [asdict(group) for group in prepared.inputs],
            "label": label.name,
        }
        if kind == "tags":
            facts["tokens"] = first.shape[1:]
        return cls(network.data, facts)

    @property
    def network(self) -> PortableNetwork:
        """Trained network."""
        return PortableNetwork(self._facts["framework"], self._network)

    setPredictionCol = setter(HasPredictionCol.predictionCol, "the column for predictions")
    setRawPredictionCol = setter(HasRawPredictionCol.rawPredictionCol, "the column for the network's outputs")
    setProbabilityCol = setter(HasProbabilityCol.probabilityCol, 'the column of probabilities; "" for none')

    getBatchSize, setBatchSize = accessors(batchSize, "the rows per run of the network")

    def write(self) -> NetworkWriter:
        """Return a writer."""
        return NetworkWriter(self)

    @classmethod
    def read(cls) -> NetworkReader:
        """Return a reader."""
        return NetworkReader(cls)

    def uncertainty(self, dataset: DataFrame, how: str = UNCERTAINTIES[0], *, output: str = "score") -> DataFrame:
        """Add a column that says how uncertain the network is about a row: its label would teach it most.

        Parameters
        ----------
        dataset : DataFrame
            Rows with the feature columns.
        how : {"least_confidence", "margin", "entropy"}
            Measure, see :func:`udfs.inference.uncertainty`. For a tagger, the mean over its tokens; where it reads an
            ``attention_mask``, over those that are no padding.
        output : str
            Column to add, from 0 on; null where the row cannot be read. Default ``"score"``.

        Raises
        ------
        InvalidArgumentError
            No such way, or the label is a value and not a class.
        ColumnError
            A column is missing, or there already.
        """
        uncertainty = self.output_uncertainty(how)
        check_absent(dataset, [output], "name another column, or drop it")
        inputs = tuple(_group(group) for group in self._facts["inputs"])
        sources = choose_features(dataset, inputs)
        images = tuple(source.name for source in sources if source.kind == "image")
        mask = next((source.name for source in sources if source.name == "attention_mask"), None)
        function = PoolScore(
            Prediction(self.network, inputs, images, output, self.getBatchSize()),
            uncertainty,
            output,
            mask=mask,
        )
        rows = RowMap(function, tuple(dataset.columns), RowPolicy("null"))
        return map_rows(dataset, rows, reads={source.name: source.encoded for source in sources})

    def output_uncertainty(self, how: str) -> OutputUncertainty:
        """Return the function that :meth:`uncertainty` applies to the network's outputs.

        Parameters
        ----------
        how : {"least_confidence", "margin", "entropy"}
            Measure of uncertainty.

        Raises
        ------
        InvalidArgumentError
            No such way, or the label is a value and not a class.
        """
        one_of("how", how, UNCERTAINTIES)
        kind = self._facts["kind"]
        if kind == "value":
            raise InvalidArgumentError(
                f"the label {self._facts['label']!r} is a value: a network says how sure it is of classes alone. "
                'Adaptation.score ranks such records by how="diversity" or "random"'
            )
        tokens = tuple(self._facts["tokens"]) if kind == "tags" else None
        return OutputUncertainty(how, kind, self._gives_probabilities, tokens)

    def sql_model(self) -> SQLModel:
        """Return the function by which SQL and MLflow predict, a batch of columns at a time.

        Raises
        ------
        InvalidArgumentError
            It tags the tokens of a row: a function gives one number.
        """
        kind = self._facts["kind"]
        if kind == "tags":
            raise InvalidArgumentError(
                f"the label {self._facts['label']!r} is a class for each token, and a function gives one number a row: "
                "use the stage's transform"
            )
        inputs = tuple(_group(group) for group in self._facts["inputs"])
        columns = tuple(dict.fromkeys(column for group in inputs for column in group.columns))
        images = tuple(column.name for column in columns if column.dtype == "uint8")
        prediction = Prediction(self.network, inputs, images, "raw", self.getBatchSize())
        return SQLModel(prediction, columns, kind, float(self._facts["threshold"]), self._gives_probabilities)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        inputs = tuple(_group(group) for group in self._facts["inputs"])
        raw, prediction = self.getRawPredictionCol(), self.getPredictionCol()
        probability = self.getProbabilityCol() if self._facts["kind"] in _OF_CLASSES else ""
        vectors = [raw, *([probability] if probability else [])]
        remedy = "set rawPredictionCol, probabilityCol or predictionCol, or drop it"
        check_absent(dataset, [*vectors, prediction], remedy)
        sources = choose_features(dataset, inputs)
        images = tuple(source.name for source in sources if source.kind == "image")
        function = Prediction(self.network, inputs, images, raw, self.getBatchSize())
        rows = RowMap(function, tuple(dataset.columns), RowPolicy("null"))
        scored = map_rows(dataset, rows, reads={source.name: source.encoded for source in sources})
        scores = F.col(quoted(raw))
        # All columns of one call read the old values, so that each of them reads the network's own outputs.
        arrays = {raw: self._scores(scores), **({probability: self._probabilities(scores)} if probability else {})}
        predicted = scored.withColumns(
            {name: F.when(scores.isNotNull(), column) for name, column in arrays.items()}
            | {prediction: F.when(scores.isNotNull(), self._predicted(scores))}
        )
        return predicted.withColumns({name: as_vector(name) for name in vectors})

    @property
    def _gives_probabilities(self) -> bool:
        return bool(self._facts.get("probabilities", self._facts["threshold"] > 0))

    def _scores(self, outputs: Column) -> Column:
        if self._facts["kind"] != "positive":
            return outputs
        first = outputs.getItem(0).cast("double")
        return F.array(1 - first if self._gives_probabilities else -first, first)

    def _probabilities(self, outputs: Column) -> Column:
        scores = self._scores(outputs).cast("array<double>")
        if self._gives_probabilities:
            return scores
        if self._facts["kind"] == "positive":
            chance = 1 / (1 + F.exp(scores.getItem(0)))
            return F.array(1 - chance, chance)
        # Less the largest, so that no power is infinite.
        largest = F.array_max(scores)
        powers = F.transform(scores, lambda score: F.exp(score - largest))
        total = F.aggregate(powers, F.lit(0.0), lambda added, power: added + power)
        return F.transform(powers, lambda power: power / total)

    def _predicted(self, scores: Column) -> Column:
        if self._facts["kind"] == "tags":
            tokens, classes = self._facts["tokens"]
            return F.transform(
                F.sequence(F.lit(0), F.lit(tokens - 1)),
                lambda place: _largest(F.slice(scores, place * classes + 1, classes)),
            )
        if self._facts["kind"] == "classes":
            return _largest(scores).cast("double")
        first = scores.getItem(0)
        if self._facts["kind"] == "positive":
            return (first > F.lit(float(self._facts["threshold"]))).cast("double")
        return first.cast("double")


def label_kind(prepared: PreparedData, session: Session, outputs: tuple[int, ...]) -> Kind:
    """Describe the first label.

    ``outputs`` is the shape of what the network gives for a row. The kinds are ``"classes"`` (the largest of several
    outputs), ``"positive"`` (one of two classes, by one output), ``"tags"`` (a class for each token of a row) and
    ``"value"``.
    """
    label = prepared.labels[0]
    # The loss knows best: StringIndexer's classes are doubles, and counts are whole numbers.
    known = session.output_kind
    classes = label.dtype == "int64" if known == "unknown" else known != "values"
    if not classes:
        return "value"
    if label.shape:
        # Labels of shape (classes,) may be probabilities of them: only a class a token has fewer axes than its scores.
        return "tags" if len(outputs) == _TOKEN_AXES and outputs[:1] == label.shape and outputs[1] > 1 else "value"
    return "classes" if math.prod(outputs) > 1 else "positive"


def _largest(scores: Column) -> Column:
    """Find the place of the largest."""
    return (F.array_position(scores, F.array_max(scores)) - 1).cast("int")


def _group(data: Mapping[str, Any]) -> TensorGroup:
    columns = tuple(TensorColumn(column["name"], column["dtype"], tuple(column["shape"])) for column in data["columns"])
    return TensorGroup(data["name"], columns, data["joined"])

"""``TunedModel``: Spark ML Transformer of a trained network."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, Self

from pyspark.ml import Model
from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasPredictionCol, HasRawPredictionCol
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

from cerebro_spark.data import choose_features
from cerebro_spark.errors import ColumnError
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import UNBOUND, NetworkReader, NetworkWriter, as_vector, at_least, map_rows, quoted
from udfs.inference import PortableNetwork, Prediction
from udfs.shards import TensorColumn, TensorGroup, load_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from udfs.shards import PreparedData
    from udfs.training import Session

__all__ = ["TunedModel"]

Kind = Literal["classes", "positive", "value"]


class TunedModel(Model, HasPredictionCol, HasRawPredictionCol, MLReadable[Any], MLWritable):
    """Transformer that predicts with a network from a search; it does not need the code that built the network.

    Get one from :attr:`Selection.best_model`, or load a saved one. It reads the columns that the network was trained
    on. ``predictionCol`` (default ``"prediction"``) is a double: the class with the largest output; for a single
    output, 1 above the threshold and 0 otherwise; or the output itself if the label is not a class.
    ``rawPredictionCol`` (default ``"rawPrediction"``) holds the outputs as a vector. Both are null if a value is null,
    an image cannot be decoded or a tensor has another size.

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
        self._setDefault(predictionCol="prediction", rawPredictionCol="rawPrediction", batchSize=256)

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
        classes = label.dtype == "int64" and not label.shape
        kind: Kind = "value" if not classes else "classes" if first[0].size > 1 else "positive"
        facts = {
            "framework": network.framework,
            "kind": kind,
            "threshold": session.threshold,
            "inputs": [asdict(group) for group in prepared.inputs],
            "label": label.name,
        }
        return cls(network.data, facts)

    @property
    def network(self) -> PortableNetwork:
        """Trained network."""
        return PortableNetwork(self._facts["framework"], self._network)

    def setPredictionCol(self, value: str) -> Self:
        """Set the column for predictions."""
        return self._set(predictionCol=value)

    def setRawPredictionCol(self, value: str) -> Self:
        """Set the column for the network's outputs."""
        return self._set(rawPredictionCol=value)

    def getBatchSize(self) -> int:
        """Return the rows per run of the network."""
        return self.getOrDefault(self.batchSize)

    def setBatchSize(self, value: int) -> Self:
        """Set the rows per run of the network."""
        return self._set(batchSize=value)

    def write(self) -> NetworkWriter:
        """Return a writer."""
        return NetworkWriter(self)

    @classmethod
    def read(cls) -> NetworkReader:
        """Return a reader."""
        return NetworkReader(cls)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        inputs = tuple(_group(group) for group in self._facts["inputs"])
        raw, prediction = self.getRawPredictionCol(), self.getPredictionCol()
        for added in (raw, prediction):
            if added in dataset.columns:
                raise ColumnError(f"column {added!r} exists already: set rawPredictionCol or predictionCol, or drop it")
        sources = choose_features(dataset, inputs)
        images = tuple(source.name for source in sources if source.kind == "image")
        function = Prediction(self.network, inputs, images, raw, self.getBatchSize())
        rows = RowMap(function, tuple(dataset.columns), RowPolicy("null"))
        scored = map_rows(dataset, rows, reads={source.name: source.encoded for source in sources})
        scores = F.col(quoted(raw))
        # Both columns of one call read the old values, so the prediction still reads the outputs as an array.
        return scored.withColumns(
            {raw: as_vector(raw), prediction: F.when(scores.isNotNull(), self._predicted(scores))}
        )

    def _predicted(self, scores: Column) -> Column:
        if self._facts["kind"] == "classes":
            return (F.array_position(scores, F.array_max(scores)) - 1).cast("double")
        first = scores.getItem(0)
        if self._facts["kind"] == "positive":
            return (first > F.lit(float(self._facts["threshold"]))).cast("double")
        return first.cast("double")


def _group(data: Mapping[str, Any]) -> TensorGroup:
    columns = tuple(TensorColumn(column["name"], column["dtype"], tuple(column["shape"])) for column in data["columns"])
    return TensorGroup(data["name"], columns, data["joined"])

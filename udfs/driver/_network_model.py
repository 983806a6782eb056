"""Base of Spark ML models whose state is a network with facts about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.ml import Model
from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasPredictionCol, HasProbabilityCol, HasRawPredictionCol
from pyspark.ml.util import MLReadable, MLWritable

from udfs.driver._accessors import accessors, setter
from udfs.driver._params import UNBOUND, at_least
from udfs.driver._persistence import NetworkReader, NetworkWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NetworkModel"]


class NetworkModel(Model, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol, MLReadable[Any], MLWritable):
    """Model with Params for its columns and batches, saved by :class:`NetworkWriter`.

    Parameters
    ----------
    network : bytes
        Trained network, or several of them.
    facts : mapping, optional
        Plain data that says what the bytes are and how to read rows for them. By default none.
    """

    batchSize: Param[int] = Param(UNBOUND, "batchSize", "rows per run of the network", at_least("batchSize", 1))

    def __init__(self, network: bytes = b"", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._network = network
        self._facts = dict(facts or {})
        self._setDefault(
            predictionCol="prediction", rawPredictionCol="rawPrediction", probabilityCol="probability", batchSize=256
        )

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

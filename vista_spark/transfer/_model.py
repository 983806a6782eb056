"""The model that a feature transfer fits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyspark.ml import Model, PipelineModel
from pyspark.ml.util import DefaultParamsWriter, MLWritable

from udfs.driver import StageReadable, StageReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from vista_spark.transfer._result import TransferResult

__all__ = ["FeatureTransferModel"]

_BEST = "best_model"


class FeatureTransferModel(Model, StageReadable, MLWritable):
    """Best model of a transfer as a stage; :meth:`vista_spark.FeatureTransfer.fit` returns it.

    Attributes
    ----------
    best_model : pyspark.ml.PipelineModel
        Transforms a DataFrame with the structured features and the images, and adds the prediction.
    result : TransferResult or None
        Scores of all layers, and how they came about. It is not saved: ``None`` after :meth:`load`.
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    def __init__(self, best_model: PipelineModel, result: TransferResult | None = None) -> None:
        super().__init__()
        self.best_model = best_model
        self.result = result

    def copy(self, extra: Any = None) -> FeatureTransferModel:
        """Copy the stage; ``extra`` Params go to the stages of the best model."""
        twin: FeatureTransferModel = super().copy(extra)
        twin.best_model = self.best_model.copy(extra)
        return twin

    def write(self) -> _Writer:
        """Return a writer of the best model, without the result."""
        return _Writer(self)

    @classmethod
    def read(cls) -> StageReader:
        """Return a reader of saved stages."""
        return _Reader(cls)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return self.best_model.transform(dataset)


class _Writer(DefaultParamsWriter):
    def saveImpl(self, path: str) -> None:
        model: Any = self.instance
        self.saveMetadata(model, path, self.sparkSession)
        model.best_model.save(os.path.join(path, _BEST))  # noqa: PTH118 - may be a URI


class _Reader(StageReader):
    def load(self, path: str) -> Any:
        metadata = self._metadata(path)
        best_model = PipelineModel.load(os.path.join(path, _BEST))  # noqa: PTH118
        return self._with_params(self.cls(best_model), metadata)  # type: ignore[call-arg]

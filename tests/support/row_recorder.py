"""A user's own estimator, in Python alone, which notes the rows that it is fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.ml import Estimator
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.param.shared import HasFeaturesCol, HasLabelCol

if TYPE_CHECKING:
    import numpy as np
    from pyspark.ml import Model
    from pyspark.sql import DataFrame

__all__ = ["RowRecorder"]


class RowRecorder(Estimator, HasFeaturesCol, HasLabelCol):
    """Appends to ``log`` the features of each fit, by id."""

    def __init__(self, log: list[dict[int, np.ndarray]]) -> None:
        super().__init__()
        self.log = log

    def _fit(self, dataset: DataFrame) -> Model:
        features = self.getFeaturesCol()
        self.log.append({row["id"]: row[features].toArray() for row in dataset.collect()})
        return LogisticRegression(featuresCol=features, labelCol=self.getLabelCol(), maxIter=2).fit(dataset)

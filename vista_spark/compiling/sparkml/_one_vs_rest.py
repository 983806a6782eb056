"""One model for each class, of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import ArgMax, Concatenate, Select
from vista_spark.compiling.sparkml._stages import lower_stage, refuse, stage

if TYPE_CHECKING:
    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_one_vs_rest"]


@stage("OneVsRestModel")
def lower_one_vs_rest(model: Any, columns: Columns) -> None:
    """Lower the models; the class whose model has the greatest raw prediction for it."""
    scores = []
    for one in model.models:
        if not one.getRawPredictionCol():
            raise refuse(model, "a model without rawPredictionCol")
        if one.getFeaturesCol() != model.getFeaturesCol():
            raise refuse(model, f"a model of featuresCol={one.getFeaturesCol()!r}")
        inner = columns.fork()
        lower_stage(one, inner)
        raw = inner.added[one.getRawPredictionCol()].node
        columns.nodes, columns.widths, columns.policy = inner.nodes, inner.widths, inner.policy
        columns.read, columns.vectors, columns.texts = inner.read, inner.vectors, inner.texts
        scores.append(columns.add(Select(np.array([1])), raw))
    joined = columns.add(Concatenate(), *scores)
    if model.isDefined("rawPredictionCol"):
        columns.give(model.getRawPredictionCol(), joined, role="decision_function")
    columns.give(model.getPredictionCol(), columns.add(ArgMax("stays first"), joined), flat=True, role="predict")

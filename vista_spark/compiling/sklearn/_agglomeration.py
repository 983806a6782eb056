"""Columns that were joined into clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, Linear, Output
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_agglomeration"]


@parser("sklearn.FeatureAgglomeration")
def lower_agglomeration(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the means of columns."""
    if model.pooling_func is not np.mean:
        raise refuse(model, f"pooling_func={model.pooling_func!r}")
    labels = np.asarray(model.labels_)
    sizes = np.bincount(labels).astype(np.float64)
    # Zeros and ones: every number is finite, for the library holds the rows to that.
    sums = build.add(Linear(np.eye(len(sizes))[labels], np.zeros(len(sizes))), checked(model, build, table))
    return {"transform": Output(build.add(Arithmetic("divide", sizes), sums))}

"""Columns that were joined into clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Arithmetic, OrderedSum, Output
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
    # In the library's order, one column after the other: great numbers may cancel.
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    add = OrderedSum(np.argsort(labels, kind="stable"), starts, np.ones(len(labels)), np.zeros(len(sizes)))
    sums = build.add(add, checked(model, build, table))
    return {"transform": Output(build.add(Arithmetic("divide", sizes), sums))}

"""Feature selection of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.compiling import Output, Select
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_selection"]


@parser(
    "sklearn.GenericUnivariateSelect",
    "sklearn.RFE",
    "sklearn.RFECV",
    "sklearn.SelectFdr",
    "sklearn.SelectFpr",
    "sklearn.SelectFromModel",
    "sklearn.SelectFwe",
    "sklearn.SelectKBest",
    "sklearn.SelectPercentile",
    "sklearn.SequentialFeatureSelector",
    "sklearn.VarianceThreshold",
)
def lower_selection(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the columns that are kept."""
    rows = checked(model, build, table)
    return {"transform": Output(build.add(Select(model.get_support(indices=True)), rows))}

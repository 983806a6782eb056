"""Feature selection of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.compiling import Output, Select
from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._checks import checked
from vista_spark.compiling.sklearn._members import available

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder


@parser(
    "sklearn.GenericUnivariateSelect",
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
    return {"transform": Output(_selected(model, build, table))}


@parser("sklearn.RFE", "sklearn.RFECV")
def lower_elimination(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the columns that are kept, and the model that was fitted on them."""
    rows = _selected(model, build, table)
    return {**available(model, lower(model.estimator_, build, rows)), "transform": Output(rows)}


def _selected(model: Any, build: Builder, table: str) -> str:
    # A selector that takes NaN looks at no number: it takes infinities, too.
    rows = table if model.__sklearn_tags__().input_tags.allow_nan else checked(model, build, table, keep_booleans=True)
    return build.add(Select(model.get_support(indices=True)), rows)

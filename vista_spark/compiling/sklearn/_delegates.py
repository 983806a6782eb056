"""Models that hand the rows to the one inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vista_spark.compiling._registry import lower, parser
from vista_spark.compiling.sklearn._members import available

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder, Output

__all__ = ["lower_frozen", "lower_search", "lower_self_training"]


@parser("sklearn.FrozenEstimator")
def lower_frozen(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the model inside."""
    return lower(model.estimator, build, table)


@parser(
    "sklearn.GridSearchCV", "sklearn.HalvingGridSearchCV", "sklearn.HalvingRandomSearchCV", "sklearn.RandomizedSearchCV"
)
def lower_search(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the best model of a search."""
    return available(model, lower(model.best_estimator_, build, table))


@parser("sklearn.SelfTrainingClassifier")
def lower_self_training(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the model that was fitted last."""
    return available(model, lower(model.estimator_, build, table))

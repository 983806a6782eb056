"""Histogram gradient boosting of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Complement, Output, Sigmoid, Softmax, Trees
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import classes_of_scores, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_histogram_classifier", "lower_histogram_regressor"]

_IDENTITY = {"squared_error", "absolute_error", "quantile"}


@parser("sklearn.HistGradientBoostingRegressor")
def lower_histogram_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the losses whose scores are the predictions."""
    if model.loss not in _IDENTITY:
        raise refuse(model, f"loss={model.loss!r}")
    return {"predict": Output(build.add(_trees(model), table), flat=True)}


@parser("sklearn.HistGradientBoostingClassifier")
def lower_histogram_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the classifier: one column of scores a class, or one of two classes."""
    scores = build.add(_trees(model), table)
    flat = build.width(scores) == 1
    shares = build.add(Complement(), build.add(Sigmoid(), scores)) if flat else build.add(Softmax(), scores)
    return {
        "predict": classes_of_scores(model, build, scores),
        "predict_proba": Output(shares),
        "decision_function": Output(scores, flat=flat),
    }


def _trees(model: Any) -> Trees:
    """Put the trees into one table. They compare float64 with float64, and take NaN and infinities."""
    grown = [one.nodes for round_ in model._predictors for one in round_]  # noqa: SLF001 - there is no public way
    nodes = np.concatenate(grown)
    if model.is_categorical_ is not None or nodes["is_categorical"].any():
        raise refuse(model, "categorical features")
    starts = np.cumsum([0, *(len(tree) for tree in grown)])[:-1]
    shift = np.repeat(starts, [len(tree) for tree in grown])
    leaf = nodes["is_leaf"].astype(bool)
    columns = len(model._predictors[0]) if model._predictors else 1  # noqa: SLF001
    return Trees.of_nodes(
        feature=nodes["feature_idx"],
        threshold=np.array(nodes["num_threshold"], np.float64),
        left=np.where(leaf, -1, nodes["left"].astype(np.int64) + shift),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64) + shift),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        value=nodes["value"][:, None],
        root=starts,
        target=np.tile(np.arange(columns), len(grown) // columns),
        base=np.ravel(model._baseline_prediction),  # noqa: SLF001
        divisor=1.0,
        features=model.n_features_in_,
        missing=True,
    )

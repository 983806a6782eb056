"""Histogram gradient boosting of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Complement, Link, Output, Sigmoid, Softmax, Trees
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._categories import lower_sets
from vista_spark.compiling.sklearn._checks import classes_of_scores, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder

__all__ = ["lower_histogram_classifier", "lower_histogram_regressor"]

_IDENTITY = frozenset({"squared_error", "absolute_error", "quantile"})
_EXPONENTIAL = frozenset({"gamma", "poisson"})


@parser("sklearn.HistGradientBoostingRegressor")
def lower_histogram_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the regressor: scores, or their exponential."""
    if model.loss not in _IDENTITY | _EXPONENTIAL:
        raise refuse(model, f"loss={model.loss!r}")
    scores = _trees(model, build, table)
    values = build.add(Link("exp"), scores) if model.loss in _EXPONENTIAL else scores
    return {"predict": Output(values, flat=True)}


@parser("sklearn.HistGradientBoostingClassifier")
def lower_histogram_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the classifier: one column of scores a class, or one of two classes."""
    scores = _trees(model, build, table)
    flat = build.width(scores) == 1
    shares = build.add(Complement(), build.add(Sigmoid(), scores)) if flat else build.add(Softmax(), scores)
    return {
        "predict": classes_of_scores(model, build, scores),
        "predict_proba": Output(shares),
        "decision_function": Output(scores, flat=flat),
    }


def _trees(model: Any, build: Builder, table: str) -> str:
    """Put the trees into one table. They compare float64 with float64, and take NaN and infinities."""
    predictors = [one for round_ in model._predictors for one in round_]  # there is no public way
    grown = [one.nodes for one in predictors]
    nodes = np.concatenate(grown)
    starts = np.cumsum([0, *(len(tree) for tree in grown)])[:-1]
    shift = np.repeat(starts, [len(tree) for tree in grown])
    leaf = nodes["is_leaf"].astype(bool)
    by_set = nodes["is_categorical"].astype(bool) & ~leaf
    columns = len(model._predictors[0]) if model._predictors else 1
    feature, threshold = nodes["feature_idx"].astype(np.int64), np.array(nodes["num_threshold"], np.float64)
    if model.is_categorical_ is not None:
        sets = [
            one.raw_left_cat_bitsets[place]
            for one in predictors
            for place in one.nodes["bitset_idx"][one.nodes["is_categorical"].astype(bool) & (one.nodes["is_leaf"] == 0)]
        ]
        table, feature = lower_sets(model, build, table, feature, np.flatnonzero(by_set), sets)
        threshold[by_set] = 0.5
    trees = Trees.of_nodes(
        feature=feature,
        threshold=threshold,
        left=np.where(leaf, -1, nodes["left"].astype(np.int64) + shift),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64) + shift),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        value=nodes["value"][:, None],
        root=starts,
        target=np.tile(np.arange(columns), len(grown) // columns),
        base=np.ravel(model._baseline_prediction),
        divisor=1.0,
        features=build.width(table),
        missing=True,
    )
    return build.add(trees, table)

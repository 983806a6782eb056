"""Decision trees, forests and gradient-boosted trees of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling.sparkml._classes import both_margins, features_of, give_classes, shares_of_margin
from vista_spark.compiling.sparkml._saved_trees import SavedTrees, saved_trees
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark.compiling.sparkml._columns import Columns


@stage("DecisionTreeClassificationModel", "RandomForestClassificationModel")
def lower_classifier(model: Any, columns: Columns) -> None:
    """Lower a tree, whose raw prediction are the counts of a leaf; or a forest: the sum of each leaf's shares."""
    _check(model)
    several = type(model).__name__.startswith("RandomForest")
    saved = saved_trees(model, several=several)
    counts = np.stack(saved.stats)
    if several:
        total = counts.sum(axis=1, keepdims=True)
        counts = np.divide(counts, total, out=np.zeros_like(counts), where=total != 0)
    raw = _trees(model, columns, saved, counts)
    give_classes(model, columns, raw, columns.add(ops.Shares(equal=False), raw))


@stage("GBTClassificationModel")
def lower_boosted_classifier(model: Any, columns: Columns) -> None:
    """Lower gradient boosting: the logistic function of twice the margin."""
    _check(model)
    saved = saved_trees(model, several=True)
    margin = _trees(model, columns, saved, (saved.prediction * saved.weights[saved.tree])[:, None])
    give_classes(model, columns, both_margins(columns, margin), shares_of_margin(columns, margin, 2.0))


@stage("DecisionTreeRegressionModel", "GBTRegressionModel", "RandomForestRegressionModel")
def lower_regressor(model: Any, columns: Columns) -> None:
    """Lower a tree, the mean of a forest, or the weighted sum of boosting."""
    _check(model)
    if model.hasParam("varianceCol") and model.isDefined("varianceCol") and model.getOrDefault("varianceCol"):
        raise refuse(model, f"varianceCol={model.getOrDefault('varianceCol')!r}")
    kind = type(model).__name__
    saved = saved_trees(model, several=not kind.startswith("DecisionTree"))
    values = saved.prediction * saved.weights[saved.tree] if kind.startswith("GBT") else saved.prediction
    divisor = len(saved.weights) if kind.startswith("RandomForest") else 1
    node = _trees(model, columns, saved, values[:, None], divisor)
    columns.add_column(model.getPredictionCol(), node, flat=True, role="predict")


def _check(model: Any) -> None:
    if model.getLeafCol():
        raise refuse(model, f"leafCol={model.getLeafCol()!r}")


def _trees(model: Any, columns: Columns, saved: SavedTrees, value: NDArray[np.float64], divisor: float = 1.0) -> str:
    """Add the trees. A split into categories becomes a column that says whether a number is in a set."""
    table = features_of(model, columns)
    whole, features = table in columns.whole, model.numFeatures
    feature, left, right = saved.feature.copy(), saved.left.copy(), saved.right.copy()
    threshold = np.full(len(feature), 0.5)
    plain = (left >= 0) & (saved.categories < 0)
    threshold[plain] = [saved.limits[place][0] for place in np.flatnonzero(plain)]
    sets: dict[tuple[int, tuple[float, ...]], int] = {}
    for place in np.flatnonzero((left >= 0) & (saved.categories >= 0)).tolist():
        lefts, count = saved.limits[place], int(saved.categories[place])
        # Of the two sets Spark keeps the smaller one, and what it has never seen is not in it.
        smaller = len(lefts) <= count // 2
        members = lefts if smaller else np.setdiff1d(np.arange(count, dtype=np.float64), lefts)
        key = (int(feature[place]), tuple(np.sort(members).tolist()))
        feature[place] = features + sets.setdefault(key, len(sets))
        if smaller:
            left[place], right[place] = right[place], left[place]
    if sets:
        asked = ops.CodeLookup.of_tables(
            [column for column, _ in sets],
            [dict.fromkeys(members, 1.0) for _, members in sets],
            np.zeros(len(sets)),
            missing=np.zeros(len(sets)),
        )
        table = columns.add(ops.Concatenate(), table, columns.add(asked, table))
    roots = np.flatnonzero(np.diff(saved.tree, prepend=-1))
    return columns.add(
        ops.Trees.of_nodes(
            feature=feature,
            threshold=threshold,
            left=left,
            right=right,
            missing_left=np.zeros(len(feature), bool),
            value=value,
            root=roots,
            target=np.zeros(len(roots), np.int64),
            base=np.zeros(value.shape[1]),
            divisor=divisor,
            features=features + len(sets),
            missing=not whole,
        ),
        table,
    )

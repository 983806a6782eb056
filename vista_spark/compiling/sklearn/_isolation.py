"""Forests of scikit-learn that were not given a target: isolation, and leaves as features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Above, Arithmetic, Cast, Indicators, Leaves, Link, Output
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, refuse
from vista_spark.compiling.sklearn._forests import joined_trees, local_leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = ["lower_embedding", "lower_isolation"]


@parser("sklearn.IsolationForest")
def lower_isolation(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower isolation: the mean depth of the leaves, on a scale where a usual row is near zero. Infinities may come."""
    grown = [tree.tree_ for tree in model.estimators_]
    lengths = [
        depth + rest - 1.0
        for depth, rest in zip(model._decision_path_lengths, model._average_path_length_per_tree, strict=True)
    ]
    whole = len(grown) * float(_usual_depth(model))
    if not whole:
        raise refuse(model, "max_samples=1", "gives every row one score")
    values = iter(lengths)
    trees = joined_trees(
        model,
        grown,
        lambda _: next(values)[:, None],
        np.zeros(1),
        columns=[np.asarray(columns, np.int64) for columns in model.estimators_features_],
    )
    depth = build.add(trees, build.add(Cast("float32"), table))
    share = build.add(Link("exp2"), build.add(Arithmetic("divide", np.full(1, -whole)), depth))
    scores = build.add(Arithmetic("multiply", np.full(1, -1.0)), share)
    decision = build.add(Arithmetic("subtract", np.full(1, float(model.offset_))), scores)
    place = build.add(Above(_least_depth(whole, float(model.offset_)), or_equal=True), depth)
    return {
        "predict": Output(place, flat=True, labels=np.array([-1, 1])),
        "decision_function": Output(decision, flat=True),
        "score_samples": Output(scores, flat=True),
    }


@parser("sklearn.RandomTreesEmbedding")
def lower_embedding(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the embedding: a column for each leaf, one for those where the row ends. The table is dense."""
    rows = checked(model, build, table, "float32")
    grown = [tree.tree_ for tree in model.estimators_]
    trees = joined_trees(model, grown, lambda tree: np.zeros((tree.node_count, 1)), np.zeros(1))
    sums = build.add(trees, build.add(Cast("float32"), rows))
    leaves = local_leaves(grown)
    columns, width, start = np.zeros(len(leaves), np.int64), 0, 0
    for tree, known in zip(grown, model.one_hot_encoder_.categories_, strict=True):
        ends = np.flatnonzero(tree.children_left < 0)
        if not np.array_equal(ends, known):
            raise refuse(model, f"{len(ends)} leaves in a tree and {len(known)} columns for them")
        columns[start + ends] = width + np.arange(len(ends))
        width, start = width + len(ends), start + tree.node_count
    ones = build.add(Indicators(width), build.add(Leaves(columns, len(grown)), sums))
    return {"transform": Output(ones), "apply": Output(build.add(Leaves(leaves, len(grown)), sums))}


def _usual_depth(model: Any) -> float:
    """Mean depth of a leaf in a tree of that many rows, as the library computes it."""
    rows = int(model._max_samples)  # max_samples may be a share of rows that are gone
    if rows <= 2:
        return float(rows == 2)
    return 2.0 * (float(np.log(rows - 1.0)) + float(np.euler_gamma)) - 2.0 * (rows - 1.0) / rows


def _least_depth(whole: float, offset: float) -> float:
    """The least sum of depths whose score is not below the offset, by bisection over the floats.

    The score of a row of the training data may be the offset itself: a comparison of scores would go astray by a bit.
    """

    def inside(depth: float) -> bool:
        given: NDArray[np.float64] = np.full(1, depth)
        return not bool((-(2 ** (-np.divide(given, whole))) - offset)[0] < 0)

    low, high = 0.0, 2.0**40
    if inside(low):
        return float("-inf")
    if not inside(high):
        return float("inf")
    while (middle := (low + high) / 2) not in {low, high}:
        low, high = (low, middle) if inside(middle) else (middle, high)
    return high

"""Trees, forests, gradient boosting and isolation forests of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, classes_of_scores
from vista_spark.compiling.sklearn._members import column, joined, with_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


@parser(
    "sklearn.DecisionTreeClassifier",
    "sklearn.ExtraTreeClassifier",
    "sklearn.ExtraTreesClassifier",
    "sklearn.RandomForestClassifier",
)
def lower_forest_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a tree or a forest: the mean of the shares of the classes in the leaves, output after output."""
    single = model.n_outputs_ == 1
    classes = [np.asarray(names) for names in ([model.classes_] if single else model.classes_)]
    sizes = tuple(len(names) for names in classes)
    rows = checked(model, build, table, "float32")
    trees = _members(model)

    def value(tree: Any) -> NDArray[np.float64]:
        return np.concatenate([tree.value[:, place, :size] for place, size in enumerate(sizes)], axis=1)

    mean = joined_trees(model, trees, value, np.zeros(sum(sizes)), divisor=len(trees))
    shares = build.add(mean, build.add(ops.Cast("float32"), rows))
    starts = np.cumsum([0, *sizes]).tolist()
    parts = [column(build, shares, *range(start, start + size)) for start, size in zip(starts, sizes, strict=False)]
    best = joined(build, [build.add(ops.ArgMax(), part) for part in parts])
    # The library's array has the type of the first output's classes.
    labels = tuple(names.astype(classes[0].dtype) for names in classes)
    outputs = {
        "predict": ops.Output(best, flat=True, labels=labels[0]) if single else ops.Output(best, labels=labels),
        "predict_proba": ops.Output(shares, split=None if single else sizes),
    }
    outputs["apply"] = _leaves(model, build, shares)
    return with_logs(build, outputs)


@parser(
    "sklearn.DecisionTreeRegressor",
    "sklearn.ExtraTreeRegressor",
    "sklearn.ExtraTreesRegressor",
    "sklearn.RandomForestRegressor",
)
def lower_forest_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a tree or a forest: the mean of the leaves, of several outputs too."""
    rows = checked(model, build, table, "float32")
    trees = _members(model)
    mean = joined_trees(model, trees, lambda tree: tree.value[:, :, 0], np.zeros(model.n_outputs_), divisor=len(trees))
    values = build.add(mean, build.add(ops.Cast("float32"), rows))
    return {"predict": ops.Output(values, flat=model.n_outputs_ == 1), "apply": _leaves(model, build, values)}


@parser("sklearn.GradientBoostingRegressor")
def lower_boosting_regressor(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower gradient boosting: leaves times the learning rate, added to the first guess."""
    scores, sums = _boosted(model, build, table)
    grown = [tree.tree_ for tree in model.estimators_.ravel()]
    leaves = build.add(ops.Leaves(local_leaves(grown), len(grown)), sums)
    return {"predict": ops.Output(scores, flat=True), "apply": ops.Output(leaves, dtype="float64")}


@parser("sklearn.GradientBoostingClassifier")
def lower_boosting_classifier(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower gradient boosting: scores as the regressor's, one column a class, or one of two classes."""
    scores, sums = _boosted(model, build, table)
    flat = build.width(scores) == 1
    grown = [tree.tree_ for tree in model.estimators_.ravel()]
    leaves = build.add(ops.Leaves(local_leaves(grown), len(grown), model.estimators_.shape[1]), sums)
    if not flat:
        shares = build.add(ops.Softmax(), scores)
    elif model.loss == "exponential":
        shares = build.add(
            ops.Complement(), build.add(ops.Sigmoid(), build.add(ops.Arithmetic("multiply", np.full(1, 2.0)), scores))
        )
    else:
        shares = build.add(ops.Complement(), build.add(ops.Sigmoid(), scores))
    outputs = {
        "predict": classes_of_scores(model, build, scores, or_equal=True),
        "predict_proba": ops.Output(shares),
        "decision_function": ops.Output(scores, flat=flat),
        "apply": ops.Output(leaves, dtype="float64"),
    }
    return with_logs(build, outputs)


def _boosted(model: Any, build: ops.Builder, table: str) -> tuple[str, str]:
    """Return the nodes of the scores and of the trees, which differ if rows with NaN have leaves but no scores."""
    if not (model.init is None or model.init == "zero"):
        raise refuse(model, f"init={model.init!r}")
    # Its trees take NaN, and so does apply; inside a pipeline there is no apply.
    name, alone = type(model).__name__, table == ops.INPUT
    rows = (
        build.add(ops.Finite("float32", nan=True, who=name), table)
        if alone
        else checked(model, build, table, "float32")
    )
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0]
    columns = model.estimators_.shape[1]
    grown = [tree.tree_ for tree in model.estimators_.ravel()]
    trees = joined_trees(
        model,
        grown,
        lambda tree: model.learning_rate * tree.value[:, 0, :],
        base,
        target=np.tile(np.arange(columns), len(model.estimators_)),
        missing=alone,
    )
    sums = build.add(trees, build.add(ops.Cast("float32"), rows))
    if not alone:
        return sums, sums
    missing = build.add(ops.Missing(float("nan")), rows)
    return build.add(ops.Reject(f"NaN, which {name} does not take"), sums, missing), sums


def local_leaves(grown: Sequence[Any]) -> NDArray[np.int64]:
    """Number the nodes of each tree separately, as the library does."""
    return np.concatenate([np.arange(tree.node_count) for tree in grown]).astype(np.int64)


def _leaves(model: Any, build: ops.Builder, sums: str) -> ops.Output:
    grown = _members(model)
    leaves = build.add(ops.Leaves(local_leaves(grown), len(grown)), sums)
    return ops.Output(leaves, flat=not hasattr(model, "estimators_"))


def _members(model: Any) -> list[Any]:
    return [tree.tree_ for tree in model.estimators_] if hasattr(model, "estimators_") else [model.tree_]


def joined_trees(
    model: Any,
    grown: Sequence[Any],
    value: Callable[[Any], NDArray[np.float64]],
    base: NDArray[np.float64],
    *,
    divisor: float = 1.0,
    target: NDArray[np.int64] | None = None,
    columns: Sequence[NDArray[np.int64]] | None = None,
    missing: bool | None = None,
) -> ops.Trees:
    """Put trees of scikit-learn into one table. It compares float32 values with float64 thresholds.

    A threshold rounded down to float32 decides the same for every float32. A tree that was given some columns alone
    reads its features among `columns`. NaN may come where the model takes it, or `missing` says so.
    """
    starts = np.cumsum([0, *(tree.node_count for tree in grown)])[:-1]

    def joined(column: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([column(tree) for tree in grown])

    def children(name: str) -> NDArray[np.int64]:
        places = [(getattr(tree, name), start) for tree, start in zip(grown, starts, strict=True)]
        return np.concatenate([np.where(child < 0, -1, child + start) for child, start in places])

    return ops.Trees.of_nodes(
        feature=joined(lambda tree: tree.feature)
        if columns is None
        # A leaf has -2, which is no place among few columns.
        else np.concatenate([places[np.maximum(tree.feature, 0)] for places, tree in zip(columns, grown, strict=True)]),
        threshold=_rounded_down(joined(lambda tree: tree.threshold)),
        left=children("children_left"),
        right=children("children_right"),
        missing_left=joined(lambda tree: tree.missing_go_to_left.astype(bool)),
        value=joined(value),
        root=starts,
        target=np.zeros(len(grown)) if target is None else target,
        base=base,
        divisor=divisor,
        features=model.n_features_in_,
        missing=bool(model.__sklearn_tags__().input_tags.allow_nan) if missing is None else missing,
    )


def _rounded_down(thresholds: NDArray[np.float64]) -> NDArray[np.float32]:
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)


@parser("sklearn.IsolationForest")
def lower_isolation(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower isolation: the mean depth of the leaves, on a scale where a usual row is near zero. Infinities may come."""
    grown = [tree.tree_ for tree in model.estimators_]
    lengths = [
        depth + rest - 1.0
        for depth, rest in zip(model._decision_path_lengths, model._average_path_length_per_tree, strict=True)
    ]
    whole = len(grown) * float(_usual_depth(model))
    if not whole:
        raise refuse(model, "max_samples=1", "every row has the same score")
    values = iter(lengths)
    trees = joined_trees(
        model,
        grown,
        lambda _: next(values)[:, None],
        np.zeros(1),
        columns=[np.asarray(columns, np.int64) for columns in model.estimators_features_],
    )
    depth = build.add(trees, build.add(ops.Cast("float32"), table))
    share = build.add(ops.Link("exp2"), build.add(ops.Arithmetic("divide", np.full(1, -whole)), depth))
    scores = build.add(ops.Arithmetic("multiply", np.full(1, -1.0)), share)
    decision = build.add(ops.Arithmetic("subtract", np.full(1, float(model.offset_))), scores)
    place = build.add(ops.Above(_least_depth(whole, float(model.offset_)), or_equal=True), depth)
    return {
        "predict": ops.Output(place, flat=True, labels=np.array([-1, 1])),
        "decision_function": ops.Output(decision, flat=True),
        "score_samples": ops.Output(scores, flat=True),
    }


def _usual_depth(model: Any) -> float:
    """Return the mean depth of a leaf in a tree of that many rows, as the library computes it."""
    rows = int(model._max_samples)
    if rows <= 2:
        return float(rows == 2)
    return 2.0 * (float(np.log(rows - 1.0)) + float(np.euler_gamma)) - 2.0 * (rows - 1.0) / rows


def _least_depth(whole: float, offset: float) -> float:
    """Return the least sum of depths whose score is not below the offset, by bisection over the floats.

    The score of a row of the training data may be the offset itself: a comparison of scores would go astray by a bit.
    """

    def inside(depth: float) -> bool:
        depths: NDArray[np.float64] = np.full(1, depth)
        return not bool((-(2 ** (-np.divide(depths, whole))) - offset)[0] < 0)

    low, high = 0.0, 2.0**40
    if inside(low):
        return float("-inf")
    if not inside(high):
        return float("inf")
    while (middle := (low + high) / 2) not in {low, high}:
        low, high = (low, middle) if inside(middle) else (middle, high)
    return high

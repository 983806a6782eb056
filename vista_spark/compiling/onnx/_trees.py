"""Tree ensembles of ONNX-ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._linear import both, class_above, class_of, labels_of, transformed
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark.compiling.onnx._graph import Graph

_LEAF = "LEAF"
_BELOW = {"BRANCH_LEQ", "BRANCH_LT"}
_STRICT = {"BRANCH_LT", "BRANCH_GTE"}
_SETS = {"BRANCH_EQ", "BRANCH_NEQ"}
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@operator("ai.onnx.ml.TreeEnsembleRegressor")
def lower_regressor(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower sums or means of leaves."""
    how = attributes.get("aggregate_function", "SUM")
    if how not in {"SUM", "AVERAGE"}:
        raise refuse(node, f"aggregate_function={how}")
    count = int(attributes.get("n_targets", 1))
    table = _table(graph, node, inputs, attributes)
    value = _leaves(node, attributes, "target", count, _dtype(attributes))
    trees = len(np.unique(attributes["nodes_treeids"]))
    scores = _sums(graph, node, table, attributes, value, trees if how == "AVERAGE" else 1)
    scores = _shifted(graph, scores, _numbers(attributes, "base_values", _dtype(attributes)))
    scores = graph.cast(scores, "float32")
    return transformed(graph, node, scores, attributes.get("post_transform", "NONE"))


@operator("ai.onnx.ml.TreeEnsembleClassifier")
def lower_classifier(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> list[Table]:
    """Lower sums of leaves, and the class that they speak for; one score of two classes has rules of its own."""
    labels, post = labels_of(node, attributes), attributes.get("post_transform", "NONE")
    dtype = _dtype(attributes)
    table = _table(graph, node, inputs, attributes)
    value = _leaves(node, attributes, "class", len(labels), dtype)
    base = _numbers(attributes, "base_values", dtype)
    ids = set(attributes["class_ids"])
    if len(labels) == 2 and len(ids) == 1:
        (only,) = ids
        if len(base) > 1 or (len(base) and only):
            raise refuse(node, f"one score, of class {only}, and {len(base)} base values")
        score = _sums(graph, node, table, attributes, value[:, [only]].copy())
        score = graph.cast(_shifted(graph, score, base), "float32")
        positive = bool((_numbers(attributes, "class_weights", dtype) >= 0).all())
        if only or post not in {"NONE", "LOGISTIC"}:
            raise refuse(node, f"one score, of class {only}, and post_transform={post}")
        label = class_above(graph, node, score, 0.5 if positive else 0.0, labels)
        pair = both(graph, score, complement=positive and post == "NONE")
        return [label, graph.add(ops.Sigmoid(), pair) if post == "LOGISTIC" else pair]
    scores = _sums(graph, node, table, attributes, value)
    if len(labels) == 2:
        _check_even(node, attributes)
        if len(base) > 1 or labels.dtype.kind == "U":
            raise refuse(node, f"two scores of two classes, {len(base)} base values and classes {labels.tolist()}")
        # The runtime adds a single base value to the first score, and gives 0 or 1 for the class, whatever its name.
        scores = graph.cast(_shifted(graph, scores, np.append(base, [0])[:2] if len(base) else base), "float32")
        label = class_above(graph, node, graph.take(scores, np.array([1])), 0.0, np.array([0, 1]))
    else:
        scores = graph.cast(_shifted(graph, scores, base), "float32")
        label = class_of(graph, node, scores, labels)
    return [label, transformed(graph, node, scores, post)]


def _check_even(node: Any, attributes: dict[str, Any]) -> None:
    """Refuse leaves of two classes that speak for one of them only: the runtime treats rows differently by them."""
    pairs = set(zip(attributes["class_treeids"], attributes["class_nodeids"], attributes["class_ids"], strict=True))
    if len(pairs) != 2 * len({pair[:2] for pair in pairs}):
        raise refuse(node, "leaves that name one of two classes")


def _dtype(attributes: dict[str, Any]) -> str:
    return "float64" if "nodes_values_as_tensor" in attributes else "float32"


def _numbers(attributes: dict[str, Any], name: str, dtype: str) -> NDArray[Any]:
    array = attributes.get(f"{name}_as_tensor")
    return np.asarray(attributes.get(name, []) if array is None else array, dtype)


def _table(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    table = graph.table(node, inputs[0])
    if len(table.shape) != 1:
        raise refuse(node, f"rows of shape {table.shape}")
    double = _dtype(attributes) == "float64"
    if double != (table.dtype == "float64"):
        raise refuse(node, f"thresholds of {_dtype(attributes)} and numbers of {table.dtype}")
    return graph.cast(table, _dtype(attributes))


def _shifted(graph: Graph, scores: Table, base: NDArray[Any]) -> Table:
    if not len(base) or not base.any():
        return scores
    return graph.add(ops.Arithmetic("add", np.broadcast_to(base, (scores.width,)).astype(scores.dtype)), scores)


def _keys(attributes: dict[str, Any], prefix: str) -> list[tuple[int, int]]:
    return list(zip(attributes[f"{prefix}_treeids"], attributes[f"{prefix}_nodeids"], strict=True))


def _leaves(node: Any, attributes: dict[str, Any], prefix: str, count: int, dtype: str) -> NDArray[Any]:
    """Return the weights of each node by result."""
    keys = _keys(attributes, "nodes")
    places = {key: place for place, key in enumerate(keys)}
    if len(places) < len(keys):
        raise refuse(node, "two nodes of one number in a tree")
    value = np.zeros((len(places), count), dtype)
    weights = _numbers(attributes, f"{prefix}_weights", dtype)
    for key, column, weight in zip(_keys(attributes, prefix), attributes[f"{prefix}_ids"], weights, strict=True):
        if not 0 <= column < count or key not in places:
            raise refuse(node, f"a weight of {prefix} {column} at node {key}")
        value[places[key], column] += weight
    return value


def _sums(
    graph: Graph, node: Any, table: Table, attributes: dict[str, Any], value: NDArray[Any], divisor: float = 1
) -> Table:
    """Add the trees. A comparison by equality becomes a column that says whether a number is in a set of one."""
    keys = _keys(attributes, "nodes")
    places = {key: place for place, key in enumerate(keys)}
    modes = np.array(attributes["nodes_modes"])
    leaf = modes == _LEAF
    unknown = set(modes.tolist()) - {_LEAF, *_MODES}
    if unknown:
        raise refuse(node, f"nodes_modes={sorted(unknown)}")

    def children(name: str) -> NDArray[np.int64]:
        ids = attributes[f"nodes_{name}nodeids"]
        return np.array(
            [-1 if end else places[tree, child] for end, (tree, _), child in zip(leaf, keys, ids, strict=True)],
            np.int64,
        )

    yes, no = children("true"), children("false")
    feature = np.array(attributes["nodes_featureids"], np.int64)
    limit = _numbers(attributes, "nodes_values", value.dtype.name)
    tracks = np.array(attributes.get("nodes_missing_value_tracks_true") or np.zeros(len(keys)), bool)
    below = np.isin(modes, list(_BELOW))
    strict = np.isin(modes, list(_STRICT))
    limit = np.where(strict & ~leaf, np.nextafter(limit, value.dtype.type(-np.inf)), limit)
    left, right = np.where(below, yes, no), np.where(below, no, yes)
    missing_left = np.where(below, tracks, ~tracks)
    sets: dict[tuple[int, float], int] = {}
    for place in np.flatnonzero(np.isin(modes, list(_SETS))).tolist():
        if tracks[place]:
            raise refuse(node, "missing values that track true at BRANCH_EQ or BRANCH_NEQ")
        key = (int(feature[place]), float(_numbers(attributes, "nodes_values", value.dtype.name)[place]))
        feature[place] = table.width + sets.setdefault(key, len(sets))
        equal = modes[place] == "BRANCH_EQ"
        limit[place] = 0.5
        left[place], right[place] = (no[place], yes[place]) if equal else (yes[place], no[place])
    if sets:
        none = np.zeros(len(sets))
        asked = ops.CodeLookup.of_tables(
            [column for column, _ in sets], [{value: 1.0} for _, value in sets], none, missing=none
        )
        marks = graph.add(asked, table, shape=(len(sets),))
        table = graph.add(ops.Concatenate(), table, marks, shape=(table.width + len(sets),))
    used = set(yes.tolist()) | set(no.tolist())
    roots = [place for place in range(len(keys)) if place not in used]
    if len(roots) != len({tree for tree, _ in keys}):
        raise refuse(node, "trees of several roots")
    trees = ops.Trees.of_nodes(
        feature=np.where(leaf, 0, feature),
        threshold=limit,
        left=left,
        right=right,
        missing_left=missing_left,
        value=value,
        root=roots,
        target=np.zeros(len(roots), np.int64),
        base=np.zeros(value.shape[1]),
        divisor=divisor,
        features=table.width,
        missing=True,
    )
    return graph.add(trees, table, shape=(value.shape[1],), dtype=value.dtype.name)

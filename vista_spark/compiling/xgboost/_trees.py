"""Conversion of XGBoost trees to the operator Trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import damaged, refusal
from vista_spark.compiling._vocabularies import with_codes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vista_spark.compiling.xgboost._document import ModelDocument

__all__ = ["lower_linear", "lower_trees", "read_rows"]


def read_rows(model: ModelDocument, build: ops.Builder, table: str) -> str:
    """Round the rows to float32, as XGBoost does, and mark what is missing: in a sparse table what is absent, too.

    Raises
    ------
    UnsupportedOperatorError
        Zeros may be written in a sparse table, and are no missing values then; or a number is missing, and may be the
        place of a category.
    """
    if model.categories and not np.isnan(model.missing):
        raise refusal(f"XGBoost with categories that are texts and missing={model.missing}")
    table = with_codes("XGBoost", build, table, model.categories, known=True)
    table = build.add(ops.ReadAs("XGBoost", "dtypes"), table)
    sparsity = build.sparsity(table) if model.weights is None else "dense"
    if sparsity == "written":
        raise refusal(
            "XGBoost after a transformer whose sparse table may hold explicit zeros (HashingVectorizer, "
            "DictVectorizer, SparseRandomProjection)",
            "XGBoost reads explicit zeros as numbers, and absent entries as missing values",
            "Use a dense table.",
        )
    if sparsity == "absent":
        zeros = np.zeros(model.n_features_in_)
        table = build.add(ops.Replace(zeros, zeros, np.full(model.n_features_in_, np.nan)), table)
    rows = build.add(ops.Cast("float32"), table)
    if not np.isnan(model.missing):
        mark = np.full(model.n_features_in_, float(np.float32(model.missing)))
        rows = build.add(ops.Replace(mark, mark, np.full(model.n_features_in_, np.nan)), rows)
    return build.add(ops.Finite("float32", True, "XGBoost"), rows) if model.refuses_infinities else rows


def lower_linear(model: ModelDocument, build: ops.Builder, rows: str) -> str:
    """Add a linear booster: what is missing adds nothing."""
    weights = model.weights
    assert weights is not None
    whole = build.add(ops.Impute(np.zeros(model.n_features_in_), float("nan")), rows)
    return build.add(ops.Linear(weights[:-1].copy(), weights[-1] + model.base), whole)


def lower_trees(model: ModelDocument, build: ops.Builder, rows: str) -> tuple[str, str]:
    """Add the trees, and give the names of their scores and of their leaves.

    A split sends ``x < threshold`` to the left, a split by categories what is *not* in its set. Sums are of float32.
    """
    try:
        grown = [_Grown(tree) for tree in model.trees]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise damaged("tree of XGBoost", error) from error
    starts = np.cumsum([0, *(len(tree.kept) for tree in grown)])[:-1].astype(np.int64)
    order = sorted({key for tree in grown for key in tree.sets.values()})
    places = {key: model.n_features_in_ + place for place, key in enumerate(order)}
    if order:
        members = [dict.fromkeys(map(float, categories), 1.0) for _, categories in order]
        sets = ops.CodeLookup.of_tables([column for column, _ in order], members, [0.0] * len(order), rounding="down")
        rows = build.add(ops.Concatenate(), rows, build.add(sets, rows))

    def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(parts) if parts else np.zeros(0)

    for tree in grown:
        for place, key in tree.sets.items():
            tree.feature[place] = places[key]
    width = len(model.base)
    scaled = [tree.values(width) * scale for tree, scale in zip(grown, model.scale, strict=True)]
    trees = ops.Trees.of_nodes(
        feature=joined([tree.feature for tree in grown]),
        threshold=joined([tree.threshold for tree in grown]).astype(np.float32),
        left=joined([tree.child("left_children", start) for tree, start in zip(grown, starts, strict=True)]),
        right=joined([tree.child("right_children", start) for tree, start in zip(grown, starts, strict=True)]),
        missing_left=joined([tree.missing_left for tree in grown]),
        value=np.concatenate(scaled) if scaled else np.zeros((0, 1), np.float32),
        root=starts,
        target=model.target,
        base=model.base,
        divisor=1.0,
        features=model.n_features_in_ + len(order),
        missing=True,
        strict=True,
    )
    scores = build.add(trees, rows)
    number = joined([tree.kept for tree in grown]).astype(np.int64)
    return scores, build.add(ops.Leaves(number, len(grown)), scores)


class _Grown:
    """The nodes of a tree that can be reached: pruning leaves the others in the document."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree
        left, right = (np.asarray(tree[name], np.int64) for name in ("left_children", "right_children"))
        kept, level = [], np.zeros(1, np.int64)
        while len(level):
            kept.append(level)
            inner = level[left[level] >= 0]
            level = np.stack([left[inner], right[inner]], axis=1).reshape(-1)
        self.kept = np.sort(np.concatenate(kept))
        self._leaf = left[self.kept] < 0
        self._place = np.full(len(left), -1, np.int64)
        self._place[self.kept] = np.arange(len(self.kept))
        self.feature = np.asarray(tree["split_indices"], np.int64)[self.kept]
        self._condition = np.asarray(tree["split_conditions"], np.float32)[self.kept]
        self.missing_left = np.asarray(tree["default_left"]).astype(bool)[self.kept]
        self.sets = dict(self._sets())
        self.threshold = self._condition.copy()
        self.threshold[list(self.sets)] = 0.5

    def _sets(self) -> list[tuple[int, tuple[int, tuple[int, ...]]]]:
        tree, sets = self._tree, []
        members = np.asarray(tree.get("categories", ()), np.int64)
        entries = (tree.get(f"categories_{name}", ()) for name in ("nodes", "segments", "sizes"))
        for node, start, size in zip(*entries, strict=True):
            place = int(self._place[int(node)])
            if place >= 0:
                values_of_set = tuple(sorted(members[int(start) : int(start) + int(size)].tolist()))
                sets.append((place, (int(self.feature[place]), values_of_set)))
        return sets

    def child(self, side: str, start: int) -> NDArray[np.int64]:
        """Return the children of the kept nodes in the table of all trees."""
        children = np.asarray(self._tree[side], np.int64)[self.kept]
        return np.where(self._leaf, -1, self._place[np.where(self._leaf, 0, children)] + start)

    def values(self, columns: int) -> NDArray[np.float32]:
        """Return the values of the leaves."""
        length = int(self._tree["tree_param"].get("size_leaf_vector", "1"))
        if length <= 1:
            return np.where(self._leaf, self._condition, np.float32(0))[:, None]
        values = np.zeros((len(self.kept), columns), np.float32)
        weights = np.asarray(self._tree.get("leaf_weights", ()), np.float32).reshape(-1, length)
        if len(weights):
            places = np.asarray(self._tree["right_children"], np.int64)[self.kept][self._leaf]
            values[self._leaf] = weights[places]
        else:
            weights = np.asarray(self._tree["base_weights"], np.float32).reshape(-1, length)
            values[self._leaf] = weights[self.kept][self._leaf]
        return values

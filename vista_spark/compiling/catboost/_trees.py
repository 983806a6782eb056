"""Conversion of CatBoost trees to the operator Trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import damaged, refusal
from vista_spark.compiling.catboost._document import CODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vista_spark.compiling.catboost._document import ModelDocument

__all__ = ["lower_trees"]

_LEAF: tuple[int, float, bool, int, int] = (0, 0.0, True, -1, -1)


def lower_trees(model: ModelDocument, build: ops.Builder, table: str) -> tuple[str, str]:
    """Add the trees, and give the names of their scores and of their leaves.

    A split sends ``x > border`` to the right, in float32. A symmetric tree has one split a level, the last one on top:
    the first is the lowest bit of a leaf's number.
    """
    nodes = _Nodes(model)
    try:
        roots = [nodes.symmetric(tree) if model.symmetric else nodes.grown(tree) for tree in model.trees]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, ops.UnsupportedOperatorError):
            raise
        raise damaged("tree of CatBoost", error) from error
    rows = build.add(ops.Cast("float32"), table)
    feature, threshold, missing, left, right = zip(*nodes.rows, strict=True)
    trees = ops.Trees.of_nodes(
        feature=feature,
        threshold=np.array(threshold, np.float32),
        left=left,
        right=right,
        missing_left=missing,
        value=np.array(nodes.values, np.float64),
        root=roots,
        target=[0] * len(roots),
        base=[0.0] * len(model.bias),
        divisor=1.0,
        features=build.width(rows),
        missing=True,
    )
    sums = scores = build.add(trees, rows)
    if model.scale != 1:
        scores = build.add(ops.Arithmetic("multiply", np.full(len(model.bias), model.scale)), scores)
    if model.bias.any():
        scores = build.add(ops.Arithmetic("add", model.bias), scores)
    return scores, build.add(ops.Leaves(np.array(nodes.numbers, np.int64), len(roots)), sums)


class _Nodes:
    """The table of nodes under way."""

    def __init__(self, model: ModelDocument) -> None:
        self._model = model
        self._nothing = [0.0] * len(model.bias)
        self.rows: list[tuple[int, float, bool, int, int]] = []
        self.values: list[list[float]] = []
        self.numbers: list[int] = []

    def symmetric(self, tree: Mapping[str, Any]) -> int:
        """Add a tree with one split a level."""
        splits, flat = tree.get("splits") or [], tree["leaf_values"]
        width = len(self._nothing)
        if len(flat) != width * 2 ** len(splits):
            raise ValueError(f"{len(flat)} values in a tree of {len(splits)} splits and {width} scores")

        def add(level: int, number: int) -> int:
            if level < 0:
                return self._add(_LEAF, flat[number * width : (number + 1) * width], number)
            place = self._add(_LEAF, self._nothing, 0)
            below = add(level - 1, number), add(level - 1, number + 2**level)
            self.rows[place] = self._split(splits[level], *below)
            return place

        return add(len(splits) - 1, 0)

    def grown(self, tree: Mapping[str, Any]) -> int:
        """Add a tree of any shape.

        Its leaves are numbered from left to right, but a leaf on the right of a split comes before what is on its left:
        CatBoost keeps it in the split itself.
        """
        root, leaves = len(self.rows), 0
        # A place is held before its children are there; a deep tree is no deep recursion.
        stack: list[tuple[Mapping[str, Any], int, str]] = [(tree, -1, "")]
        children: dict[int, dict[str, int]] = {}
        splits: dict[int, Any] = {}
        while stack:
            node, parent, side = stack.pop()
            if "split" in node:
                place = self._add(_LEAF, self._nothing, 0)
                splits[place] = node["split"]
                first = "right" if "split" in node["left"] and "split" not in node["right"] else "left"
                last = "left" if first == "right" else "right"
                stack += [(node[last], place, last), (node[first], place, first)]
            else:
                value = node["value"]
                place = self._add(_LEAF, value if isinstance(value, list) else [value], leaves)
                leaves += 1
            if parent >= 0:
                children.setdefault(parent, {})[side] = place
        for place, split in splits.items():
            self.rows[place] = self._split(split, children[place]["left"], children[place]["right"])
        return root

    def _add(self, row: tuple[int, float, bool, int, int], values: list[float], number: int) -> int:
        self.rows.append(row)
        self.values.append(values)
        self.numbers.append(number)
        return len(self.rows) - 1

    def _split(self, split: Mapping[str, Any], left: int, right: int) -> tuple[int, float, bool, int, int]:
        kind = split["split_type"]
        if kind != "FloatFeature":
            raise refusal(f"CatBoost with a split by {kind}", "it keeps hashes of categories", CODES)
        place = int(split["float_feature_index"])
        # As it is, NaN is above no border.
        return self._model.columns[place], float(split["border"]), self._model.missing[place] != "AsTrue", left, right

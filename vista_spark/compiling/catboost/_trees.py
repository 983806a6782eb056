"""Trees of CatBoost in the common form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Arithmetic,
    Cast,
    CodeLookup,
    Concatenate,
    Encode,
    Leaves,
    Recode,
    Reject,
    Select,
    Trees,
    UnsupportedOperatorError,
)
from vista_spark.compiling._vocabularies import sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.compiling import Builder
    from vista_spark.compiling.catboost._document import ModelDocument

__all__ = ["lower_trees"]

_LEAF: tuple[int, float, bool, int, int] = (0, 0.0, True, -1, -1)


def lower_trees(model: ModelDocument, build: Builder, table: str) -> tuple[str, str]:
    """Add the trees, and give the names of their scores and of their leaves.

    A split sends ``x > border`` to the right, in float32. A symmetric tree has one split a level, the last one on top:
    the first is the lowest bit of a leaf's number.
    """
    nodes = _Nodes(model)
    try:
        roots = [nodes.symmetric(tree) if model.symmetric else nodes.grown(tree) for tree in model.trees]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, UnsupportedOperatorError):
            raise
        raise UnsupportedOperatorError(f"a tree of CatBoost that cannot be read, or cut off: {error!r}") from error
    rows, guarded = nodes.read(build, table)
    feature, threshold, missing, left, right = zip(*nodes.rows, strict=True)
    trees = Trees.of_nodes(
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
    sums = build.add(trees, rows)
    scores = guarded(sums)
    if model.scale != 1:
        scores = build.add(Arithmetic("multiply", np.full(len(model.bias), model.scale)), scores)
    if model.bias.any():
        scores = build.add(Arithmetic("add", model.bias), scores)
    return scores, guarded(build.add(Leaves(np.array(nodes.numbers, np.int64), len(roots)), sums))


class _Nodes:
    """The table of nodes under way."""

    def __init__(self, model: ModelDocument) -> None:
        self._model = model
        self._nothing = [0.0] * len(model.bias)
        self.rows: list[tuple[int, float, bool, int, int]] = []
        self.values: list[list[float]] = []
        self.numbers: list[int] = []
        self._sets: dict[tuple[int, int], int] = {}

    def read(self, build: Builder, table: str) -> tuple[str, Callable[[str], str]]:
        """Give the table that the trees read, and what makes a row bad whose category is missing.

        A column for each number, then one for each category that a split asks for, which is 1 where a row has it.
        """
        model = self._model
        if not model.categories:
            return build.add(Cast("float32"), table), lambda node: node
        found = sources(build, table)
        read = [one for one in (found[column] for column in model.categories) if one is not None and not one[1]]
        if len(read) < len(model.categories):
            raise UnsupportedOperatorError("CatBoost with categories that an earlier step computes has no translation")
        known = [sorted(value for own, value in self._sets if own == place) for place in range(len(read))]
        columns = np.array([column for column, _ in read], np.int64)
        codes = build.add(Encode(columns, tuple((*own, None) for own in known), hashing="CatBoost"))
        sizes = np.array([len(own) + 2 for own in known], np.int64)
        missing = np.concatenate([np.arange(size) == size - 2 for size in sizes.tolist()]).astype(np.float32)
        flags = build.add(Recode(missing[:, None], sizes), codes)
        parts = []
        if model.columns:
            parts.append(build.add(Cast("float32"), build.add(Select(np.array(model.columns, np.int64)), table)))
        if self._sets:
            members = [{float(known[own].index(value)): 1.0} for own, value in self._sets]
            lookup = CodeLookup.of_tables([own for own, _ in self._sets], members, [0.0] * len(members))
            parts.append(build.add(lookup, build.add(Cast("float32"), codes)))
        reject = Reject("a missing category, which CatBoost does not take")
        rows = build.add(Concatenate(), *parts) if len(parts) > 1 else (parts or [flags])[0]
        return rows, lambda node: build.add(reject, node, flags)

    def symmetric(self, tree: Mapping[str, Any]) -> int:
        """Add a tree with one split a level."""
        splits, flat = tree.get("splits") or [], tree["leaf_values"]
        width = len(self._nothing)
        if len(flat) != width * 2 ** len(splits):
            raise ValueError(f"{len(flat)} values in a tree of {len(splits)} splits and {width} scores")

        def add(level: int, number: int) -> int:
            if level < 0:
                return self._add(_LEAF, flat[number * width : (number + 1) * width], number)
            own = self._add(_LEAF, self._nothing, 0)
            below = add(level - 1, number), add(level - 1, number + 2**level)
            self.rows[own] = self._split(splits[level], *below)
            return own

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
                own = self._add(_LEAF, self._nothing, 0)
                splits[own] = node["split"]
                first = "right" if "split" in node["left"] and "split" not in node["right"] else "left"
                last = "left" if first == "right" else "right"
                stack += [(node[last], own, last), (node[first], own, first)]
            else:
                value = node["value"]
                own = self._add(_LEAF, value if isinstance(value, list) else [value], leaves)
                leaves += 1
            if parent >= 0:
                children.setdefault(parent, {})[side] = own
        for own, split in splits.items():
            self.rows[own] = self._split(split, children[own]["left"], children[own]["right"])
        return root

    def _add(self, row: tuple[int, float, bool, int, int], values: list[float], number: int) -> int:
        self.rows.append(row)
        self.values.append(values)
        self.numbers.append(number)
        return len(self.rows) - 1

    def _split(self, split: Mapping[str, Any], left: int, right: int) -> tuple[int, float, bool, int, int]:
        kind = split["split_type"]
        if kind == "OneHotFeature":
            own = int(split["cat_feature_index"]), int(split["value"])
            column = self._sets.setdefault(own, len(self._model.columns) + len(self._sets))
            return column, 0.5, True, left, right
        if kind != "FloatFeature":
            raise UnsupportedOperatorError(
                f"CatBoost with a split by {kind} has no translation: it counts the targets of categories; "
                "with one_hot_max_size= it splits columns of few categories by one at a time"
            )
        place = int(split["float_feature_index"])
        # As it is, NaN is above no border.
        column = place if self._model.categories else self._model.columns[place]
        return column, float(split["border"]), self._model.missing[place] != "AsTrue", left, right

"""Conversion of LightGBM trees to the operator Trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refusal
from vista_spark.compiling._vocabularies import with_codes
from vista_spark.compiling.lightgbm._ordered import columns_of

if TYPE_CHECKING:
    from vista_spark.compiling.lightgbm._text import ModelText, TextTree

__all__ = ["lower_trees"]

_CATEGORICAL, _LEFT = 1, 2
_NONE, _ZERO = 0, 1
# LightGBM takes what is nearer to zero than this for zero: a float32 in a comparison of float64.
_TINY = float(np.float32(1e-35))


def lower_trees(model: ModelText, build: ops.Builder, table: str) -> tuple[str, str]:
    """Add the trees, and give the names of their raw scores and of their leaves.

    A split sends ``x <= threshold`` to the left in float64, and what is missing where its type says: without a type
    NaN counts as zero, "zero" takes zero for missing too. A split by categories sends the members of its set to the
    left: it reads a column that holds 1 for a member, and has its children changed over.
    """
    table = with_codes("LightGBM", build, table, _named(model), known=False)
    rows = build.add(ops.ReadAs("LightGBM", "dtypes"), table)
    columns = _Columns(model, build, build.add(ops.NarrowIntegers("LightGBM"), rows))
    grown = model.trees
    sizes = np.array([2 * len(tree.value) - 1 for tree in grown])
    starts = np.cumsum(sizes) - sizes
    feature, left, right, missing = (np.full(int(sizes.sum()), -1, np.int64) for _ in range(4))
    threshold, value = np.zeros(len(feature)), np.zeros((len(feature), 1))
    number = np.zeros(len(feature), np.int64)
    for start, tree in zip(starts, grown, strict=True):
        splits = len(tree.feature)
        inner, ends = slice(start, start + splits), slice(start + splits, start + 2 * splits + 1)
        value[ends, 0], number[ends] = tree.value, np.arange(splits + 1)
        kind = tree.decision >> 2
        by_set = tree.decision & _CATEGORICAL > 0
        children = [start + np.where(side < 0, splits + ~side, side) for side in (tree.left, tree.right)]
        left[inner], right[inner] = np.where(by_set, children[::-1], children)
        feature[inner] = columns.of_tree(tree)
        threshold[inner] = np.where(by_set, 0.5, tree.threshold)
        # NaN is in no set: it goes with those outside, which the change has put on the left.
        zero = np.where(kind == _NONE, tree.threshold >= 0, tree.decision & _LEFT > 0)
        missing[inner] = by_set | zero
    rounds = len(grown) // model.columns
    trees = ops.Trees.of_nodes(
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        missing_left=missing > 0,
        value=value,
        root=starts,
        target=np.tile(np.arange(model.columns), rounds),
        base=np.zeros(model.columns),
        divisor=rounds if model.averaged else 1.0,
        features=columns.width,
        missing=True,
    )
    scores = build.add(trees, columns.table)
    leaves = build.add(ops.Leaves(number, len(grown)), scores)
    return scores, leaves


def _named(model: ModelText) -> dict[int, list[str]]:
    """Find the columns whose texts LightGBM numbers, by the places in its lists: those of pandas' categoricals.

    Raises
    ------
    UnsupportedOperatorError
        The text does not say which columns they are, or they are numbers: those of a DataFrame, and codes in an array,
        mean two things.
    """
    categories = [list(values) for values in model.pandas or ()]
    # Of these the code is the category.
    numbered = [values == list(range(len(values))) for values in categories]
    codes = "Fit on their codes (series.cat.codes) and name the column in categorical_feature=."
    for values, same in zip(categories, numbered, strict=True):
        if not same and not all(isinstance(value, str) for value in values):
            subject = f"LightGBM with a categorical column of pandas that has the category {values[0]!r}"
            raise refusal(subject, "categories must be texts", codes)
    if all(numbered):
        return {}
    columns = zip(columns_of(model, categories), categories, numbered, strict=True)
    return {column: values for column, values, same in columns if not same}


class _Columns:
    """The columns that trees read: the table's, those where zero is missing, and one for each set of categories."""

    def __init__(self, model: ModelText, build: ops.Builder, table: str) -> None:
        self.width = model.n_features_in_
        kinds: dict[int, set[int]] = {}
        self._sets: dict[tuple[int, tuple[int, ...]], int] = {}
        cut: set[int] = set()
        for tree in model.trees:
            numeric = tree.decision & _CATEGORICAL == 0
            for feature, at, kind in zip(
                tree.feature[numeric].tolist(), tree.threshold[numeric], tree.decision[numeric] >> 2, strict=True
            ):
                kinds.setdefault(feature, set()).add(int(kind))
                if -_TINY <= at < _TINY:
                    cut.add(feature)
            for feature, place in zip(tree.feature[~numeric].tolist(), tree.threshold[~numeric], strict=True):
                self._sets.setdefault((feature, tree.categories[int(place)]), 0)
        zeros = [feature for feature, missing in kinds.items() if _ZERO in missing]
        # A column that some trees read with zero as missing and others without is there twice.
        twice = [feature for feature in zeros if len(kinds[feature]) > 1]
        self._zero = {feature: feature for feature in zeros}
        parts = [table]
        if twice:
            self._zero |= {feature: self.width + place for place, feature in enumerate(twice)}
            parts = [build.add(ops.Select(np.concatenate([np.arange(self.width), twice]).astype(np.int64)), table)]
            self.width += len(twice)
        changed = dict.fromkeys(self._zero.values(), np.nan) | {
            feature: 0.0 for feature in cut if self._zero.get(feature) != feature
        }
        if changed:
            low, high, values = np.full(self.width, np.inf), np.full(self.width, -np.inf), np.zeros(self.width)
            for place, value in changed.items():
                low[place], high[place], values[place] = -_TINY, _TINY, value
            parts = [build.add(ops.Replace(low, high, values), *parts)]
        if self._sets:
            order = sorted(self._sets)
            self._sets = {key: self.width + place for place, key in enumerate(order)}
            members = [dict.fromkeys(map(float, members_of_set), 1.0) for _, members_of_set in order]
            lookup = ops.CodeLookup.of_tables(
                [feature for feature, _ in order], members, [0.0] * len(order), rounding="toward zero"
            )
            parts.append(build.add(lookup, table))
            self.width += len(order)
        self.table = build.add(ops.Concatenate(), *parts) if len(parts) > 1 else parts[0]

    def of_tree(self, tree: TextTree) -> list[int]:
        """Return the columns of a tree's splits."""
        columns = []
        for feature, at, decision in zip(tree.feature.tolist(), tree.threshold, tree.decision, strict=True):
            if decision & _CATEGORICAL:
                columns.append(self._sets[feature, tree.categories[int(at)]])
            else:
                columns.append(self._zero[feature] if decision >> 2 == _ZERO else feature)
        return columns

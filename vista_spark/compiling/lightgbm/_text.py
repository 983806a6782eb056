"""Model text of LightGBM, as ``Booster.save_model`` writes it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vista_spark.compiling._refusals import damaged, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["ModelText", "TextTree"]


@dataclass(frozen=True, eq=False, slots=True)
class TextTree:
    """Tree of a model text, in which a child below zero is the complement of a leaf.

    Parameters
    ----------
    feature, threshold, decision, left, right : arrays of shape (splits,)
        Splits. Bits of `decision`: 1 for a split by categories, 2 for missing to the left, 4 times the type of missing.
    value : float64 array of shape (leaves,)
        Values of the leaves.
    categories : list of (tuple of int)
        Members of each set; a split by categories has the set's place for its threshold.
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    decision: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    categories: list[tuple[int, ...]]


@dataclass(frozen=True, eq=False, slots=True)
class ModelText:
    """Model of LightGBM, as data.

    ``objective`` is the name, then its options, as ``("binary", "sigmoid:1")``. ``columns`` is the number of trees of
    an iteration: a column of scores each. The result of ``averaged`` models is the mean of the trees, as for random
    forests. ``categorical`` columns are split by categories; ``pandas`` are the categories of the columns that were
    pandas' categoricals. ``ranges`` are the least and the greatest number of each column, ``None`` for a constant one.
    """

    n_features_in_: int
    names: tuple[str, ...] | None
    objective: tuple[str, ...]
    columns: int
    averaged: bool
    trees: list[TextTree]
    categorical: tuple[int, ...]
    pandas: list[Any] | None
    ranges: tuple[tuple[float, float] | None, ...] = ()

    @property
    def feature_names_in_(self) -> tuple[str, ...] | None:
        """Names of the columns."""
        return self.names

    @classmethod
    def parse(cls, text: str) -> ModelText:
        """Read the text.

        Raises
        ------
        UnsupportedOperatorError
            It is no model of LightGBM, is cut off, or has another layout.
        """
        head, *blocks = text.split("\nTree=")
        if not head.startswith("tree\n") or not text.count("\nend of trees"):
            raise damaged("model text of LightGBM", "no 'end of trees'")
        facts = _facts(head)
        last = blocks.pop().split("\nend of trees")[0] if blocks else ""
        try:
            width = int(facts["max_feature_idx"]) + 1
            names = tuple(facts["feature_names"].split(" "))
            return cls(
                width,
                None if names == tuple(f"Column_{place}" for place in range(width)) else names,
                tuple(facts.get("objective", "").split()),
                int(facts["num_tree_per_iteration"]),
                "average_output" in facts,
                [_tree(_facts(block)) for block in (*blocks, *([last] if last else []))],
                _categorical(text),
                _pandas(text),
                tuple(_range(info) for info in facts.get("feature_infos", "").split()),
            )
        except (KeyError, ValueError, IndexError) as error:
            raise damaged("model text of LightGBM", error) from error


def _facts(block: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition("=") for line in block.split("\n"))}


def _tree(facts: Mapping[str, str]) -> TextTree:
    leaves = int(facts["num_leaves"])
    value = _numbers(facts, "leaf_value", leaves)
    splits = leaves - 1
    if facts.get("is_linear", "0") == "1":
        raise refusal("LightGBM with linear_tree=True", "leaves hold linear models", "Fit without linear_tree.")
    return TextTree(
        feature=_numbers(facts, "split_feature", splits).astype(np.int64),
        threshold=_numbers(facts, "threshold", splits),
        decision=_numbers(facts, "decision_type", splits).astype(np.int64),
        left=_numbers(facts, "left_child", splits).astype(np.int64),
        right=_numbers(facts, "right_child", splits).astype(np.int64),
        value=value,
        categories=list(_sets(facts)),
    )


def _numbers(facts: Mapping[str, str], name: str, count: int) -> NDArray[np.float64]:
    if not count:
        return np.zeros(0)
    numbers = np.array([float(word) for word in facts[name].split()])
    if len(numbers) != count:
        raise ValueError(f"{name} has {len(numbers)} numbers, not {count}")
    return numbers


def _sets(facts: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
    if not int(facts.get("num_cat", "0")):
        return
    words = [int(word) for word in facts["cat_threshold"].split()]
    ends = [int(end) for end in facts["cat_boundaries"].split()]
    for start, end in pairwise(ends):
        yield tuple(
            place * 32 + bit for place, word in enumerate(words[start:end]) for bit in range(32) if word >> bit & 1
        )


def _categorical(text: str) -> tuple[int, ...]:
    match = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.MULTILINE)
    return tuple(sorted(int(place) for place in match[1].split(","))) if match else ()


def _range(info: str) -> tuple[float, float] | None:
    """Read the numbers of a column: an interval, or a list of categories."""
    ends = info.strip("[]").split(":")
    return None if ends == ["none"] else (min(map(float, ends)), max(map(float, ends)))


def _pandas(text: str) -> list[Any] | None:
    at = text.rfind("\npandas_categorical:")
    if at < 0:
        return None
    categories: list[Any] | None = json.loads(text[at + 1 :].partition(":")[2].strip())
    return categories
